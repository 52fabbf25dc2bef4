//! The arguments that several commands share: which tasks, which steps, with which values.

use std::path::PathBuf;

use super::{Face, SessionError, fault, seeds};
use crate::diagnostic::Source;
use crate::json::{Map, Value};
use crate::session::RunOptions;

/// Which tasks.
#[derive(clap::Args, Debug, Default)]
pub(super) struct Selection {
    /// Task folders, task files, or folders of task folders [default: the current folder]
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    /// Take this task only; may be repeated
    #[arg(long = "task", value_name = "NAME")]
    tasks: Vec<String>,
    /// Take the tasks of this eval; may be repeated
    #[arg(long = "eval", value_name = "NAME")]
    evals: Vec<String>,
}

/// With which values.
#[derive(clap::Args, Debug, Default)]
pub(super) struct Variation {
    /// Take so many samples of each task
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    samples: Option<u32>,
    /// Put this value in the place of `<KEY>` in every text of every step; may be repeated
    #[arg(long = "seed", value_name = "KEY=VALUE", value_parser = seeds::pair)]
    seed: Vec<(String, String)>,
    /// Run each task once for each row of this table of seed values
    #[arg(long, value_name = "FILE.csv")]
    seeds: Option<PathBuf>,
    /// Set `metadata.user_overrides`: a JSON object, or `@` and a file that holds one
    #[arg(long = "override", value_name = "JSON|@FILE")]
    overrides: Option<String>,
    /// Deploy this agent in the place of those that are prompted and play no user
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Let agents that ask a model ask this one, where a step names none
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Let judges ask this model
    #[arg(long, value_name = "NAME")]
    judge_model: Option<String>,
    /// Let agents that play a user ask this model
    #[arg(long, value_name = "NAME")]
    user_model: Option<String>,
}

/// Which steps run although their result is kept, and which do not run at all.
#[derive(clap::Args, Debug, Default)]
pub(super) struct Choice {
    /// Run every step, whatever is kept
    #[arg(long)]
    fresh: bool,
    /// Run this step, whatever is kept; may be repeated
    #[arg(long, value_name = "STEP")]
    rerun: Vec<String>,
    /// Run this step and every later one, whatever is kept
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// Stop after this step
    #[arg(long, value_name = "STEP")]
    until: Option<String>,
    /// Run this step only; what it depends on must be kept
    #[arg(long, value_name = "STEP", conflicts_with_all = ["from", "until"])]
    only: Option<String>,
    /// Fail where a step would run
    #[arg(long, conflicts_with = "fresh")]
    cached_only: bool,
}

/// How much a run may take.
#[derive(clap::Args, Debug, Default)]
pub(super) struct Limits {
    /// Look for nothing in the cache, and keep nothing in it
    #[arg(long, conflicts_with = "cached_only")]
    no_cache: bool,
    /// Run so many steps at once [default: `run.jobs` of aebuild.toml, else two more than there are processors]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Stop a run once so many US dollars are spent on models
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<f64>,
    /// Stop a run once models have read and written so many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
}

impl Selection {
    /// Moves the selection into options.
    pub(super) fn options(&mut self) -> RunOptions {
        RunOptions {
            tasks: std::mem::take(&mut self.tasks),
            evals: std::mem::take(&mut self.evals),
            ..RunOptions::default()
        }
    }
}

impl Variation {
    /// Adds the values to options.
    pub(super) fn add_to(self, options: &mut RunOptions, face: &Face) -> Result<(), SessionError> {
        options.samples = self.samples.unwrap_or(1);
        options.seeds = seeds::rows(self.seed, self.seeds.as_deref(), face)?;
        if let Some(text) = self.overrides {
            options.user_overrides = overrides(&text, face)?;
        }
        let named = [
            ("solver_agent", self.agent),
            ("agent_model", self.model),
            ("judge_model", self.judge_model),
            ("user_model", self.user_model),
        ];
        for (key, name) in named {
            if let Some(name) = name {
                let name = Value::String(name);
                options.user_overrides.insert(key.to_owned(), name);
            }
        }
        Ok(())
    }
}

impl Choice {
    /// Moves the choice into options.
    pub(super) fn add_to(self, options: &mut RunOptions) {
        options.fresh = self.fresh;
        options.rerun = self.rerun;
        options.from = self.from;
        options.until = self.until;
        options.only = self.only;
        options.cached_only = self.cached_only;
    }
}

impl Limits {
    /// Adds the limits to options; returns whether there is no cache.
    pub(super) fn add_to(&self, options: &mut RunOptions) -> bool {
        options.jobs = self.jobs.map(|jobs| jobs as usize);
        options.max_cost_usd = self.max_cost;
        options.max_tokens = self.max_tokens;
        self.no_cache
    }
}

fn dollars(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(dollars) if dollars > 0.0 && dollars.is_finite() => Ok(dollars),
        _ => Err("write a number above 0".to_owned()),
    }
}

/// The largest file that `--override` and `--seeds` take.
pub(super) const MAX_FILE: u64 = 64 << 20;

fn overrides(text: &str, face: &Face) -> Result<Map<String, Value>, SessionError> {
    let (source, faults) = match text.strip_prefix('@') {
        Some(file) => {
            let bytes = face.system.read(file.as_ref(), MAX_FILE).map_err(|error| {
                fault::usage(
                    format!("`{file}` of `--override` cannot be read: {error}"),
                    None,
                )
            })?;
            Source::from_bytes(file, &bytes)
        }
        None => (Source::new("--override", text), Vec::new()),
    };
    let parsed = crate::json::parse(&source);
    if let Some(fault) = faults.iter().chain(&parsed.faults).next() {
        let (name, headline) = (&source.name, &fault.headline);
        let at = fault.place().map_or(0, |label| label.span.start as usize);
        let (line, column) = crate::diagnostic::line_column(&source.text, at);
        let message = match text.starts_with('@') {
            true => format!("`{name}` of `--override` is not JSON: {headline} ({line}:{column})"),
            false => format!("`--override` is not JSON: {headline} (column {column})"),
        };
        return Err(fault::usage(message, fault.help.clone()));
    }
    match parsed.root.map(|root| root.to_value()) {
        Some(Value::Object(members)) => Ok(members),
        _ => Err(fault::usage(
            "`--override` is not a JSON object",
            Some("write `--override '{\"step_params\": {}}'`".to_owned()),
        )),
    }
}
