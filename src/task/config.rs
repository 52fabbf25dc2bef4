//! The settings of a workspace: `aebuild.toml`, at the root of the workspace or above it.
//!
//! Every key is described once, in [`KEYS`]: its page in the book, the check of its value and its nearest name come from
//! there.

mod check;
mod keys;
mod level;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::model;
use super::parse::{Written, hide, toml};
use crate::diagnostic::{Diagnostic, Source};
use crate::json::{Member, Node, Span, Value};
use crate::system::System;
use crate::task::Determinism;

pub use check::check_types;
pub(crate) use keys::URL;
pub use keys::{KEYS, KeyDoc, KeyKind, schema as keys_schema};
pub use level::{Level, lint_places};

/// The name of the file.
pub const FILE_NAME: &str = "aebuild.toml";

/// The settings of a workspace.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Config {
    /// Where results are kept, and for how long.
    pub cache: CacheConfig,
    /// How runs go.
    pub run: RunConfig,
    /// How commands are kept apart from the machine.
    pub sandbox: SandboxConfig,
    /// How long to wait before a retry.
    pub retry: RetryDelays,
    /// When a score is good enough.
    pub score: ScoreConfig,
    /// Which steps are taken to give the same result again.
    pub determinism: DeterminismConfig,
    /// For each code of `[lint]`, how much it counts.
    pub lint: BTreeMap<String, Level>,
    /// Packages that verifiers in Python find.
    pub python_packages: Vec<String>,
    /// For each env of `[envs.<name>]`, what is said of it.
    pub envs: BTreeMap<String, Value>,
    /// For each agent of `[agents.<name>]`, what is said of it.
    pub agents: BTreeMap<String, Value>,
    /// For each model of `[models.<name>]`, how it is reached.
    pub models: BTreeMap<String, Value>,
    /// The file, where there is one.
    pub written: Option<Arc<Written>>,
    /// Whether the file is at fault in such a way that a table which is not found may be in it all the same.
    pub is_broken: bool,
    /// The tables that have faults, such as `envs.mail`: nothing is said that depends on what they say.
    pub doubtful: BTreeSet<String>,
}

impl Config {
    /// Returns what it says without how that is written.
    pub fn unwritten(&self) -> Config {
        Config {
            written: None,
            ..self.clone()
        }
    }
}

/// `[cache]`.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheConfig {
    /// The folder, relative to the file's own.
    pub dir: Option<String>,
    /// The size beyond which the least used results are removed, in GB.
    pub size_limit_gb: f64,
    /// The days after which an unused result is removed.
    pub max_age_days: u32,
    /// How sure it is that a stored result outlives a power cut.
    pub durability: Durability,
}

/// How sure it is that a stored result outlives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// A result counts as stored once the disk has it.
    #[default]
    Durable,
    /// The system writes when it likes; a result that is lost is made again.
    Fast,
}

/// `[run]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConfig {
    /// How many steps run at once; two more than there are processors where it is not set.
    pub jobs: Option<u32>,
    /// How many prompts run at once.
    pub prompt_jobs: Option<u32>,
    /// How many tasks run at once.
    pub task_jobs: u32,
    /// The time after which a step is stopped, in seconds.
    pub step_timeout_seconds: Option<u64>,
    /// How many run records are kept.
    pub keep_runs: u32,
}

/// `[sandbox]`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SandboxConfig {
    /// How commands are isolated.
    pub isolation: Isolation,
    /// Environment variables of this machine that commands see.
    pub pass_variables: Vec<String>,
}

/// How commands are isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// With bubblewrap where it works, else not.
    #[default]
    Auto,
    /// With bubblewrap, or not at all run.
    Bubblewrap,
    /// Not.
    None,
}

/// `[retry]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryDelays {
    /// The wait before the first retry, in seconds.
    pub backoff_seconds: f64,
    /// By how much each further wait is longer.
    pub backoff_factor: f64,
    /// The longest wait, in seconds.
    pub max_backoff_seconds: f64,
}

/// `[score]`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ScoreConfig {
    /// The least score with which a run passes, where it is asked for.
    pub min: Option<f64>,
}

/// `[determinism]`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeterminismConfig {
    /// By step type.
    pub types: BTreeMap<String, Determinism>,
    /// By `<task>/<step>`, or by `<step>` in any task.
    pub steps: BTreeMap<String, Determinism>,
}

impl DeterminismConfig {
    /// Returns what is set for a step: its own entry counts most, then that of its type.
    pub fn of(&self, task: &str, step: &str, kind: &str) -> Option<Determinism> {
        let own = self
            .steps
            .get(&format!("{task}/{step}"))
            .or_else(|| self.steps.get(step));
        own.or_else(|| self.types.get(kind)).copied()
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        let durability = Durability::default();
        CacheConfig {
            dir: None,
            size_limit_gb: 20.0,
            max_age_days: 30,
            durability,
        }
    }
}

impl Default for RunConfig {
    fn default() -> Self {
        RunConfig {
            jobs: None,
            prompt_jobs: None,
            task_jobs: 4,
            step_timeout_seconds: None,
            keep_runs: 50,
        }
    }
}

impl Default for RetryDelays {
    fn default() -> Self {
        RetryDelays {
            backoff_seconds: 0.0,
            backoff_factor: 2.0,
            max_backoff_seconds: 60.0,
        }
    }
}

/// Finds the file that holds for a folder: the nearest, in the folder itself or above it.
pub fn find(system: &dyn System, from: &Path) -> Option<PathBuf> {
    let from = system.canonical(from).ok()?;
    let mut files = from.ancestors().map(|folder| folder.join(FILE_NAME));
    // Whatever stands there is meant to be it, a folder or a link that leads nowhere too.
    files.find(|file| system.link_metadata(file).is_ok())
}

/// Returns the path of the file as somebody in the current folder would type it.
pub fn shown(system: &dyn System, path: &Path) -> String {
    let here = system.current_folder();
    let here = here.and_then(|here| system.canonical(&here));
    let (Ok(here), Ok(path)) = (here, system.canonical(path)) else {
        return path.to_string_lossy().into_owned();
    };
    let folder = path.parent().unwrap_or(&path);
    let shown = match (path.strip_prefix(&here), here.strip_prefix(folder)) {
        (Ok(below), _) => below.to_path_buf(),
        (Err(_), Ok(up)) => {
            let up = up.components().map(|_| Component::ParentDir);
            up.collect::<PathBuf>()
                .join(path.file_name().unwrap_or_default())
        }
        _ => path,
    };
    shown.to_string_lossy().into_owned()
}

/// Reads the settings, as far as they can be read; where a value is at fault its default stands.
pub fn read(source: &Source) -> (Config, Vec<Diagnostic>) {
    let (root, mut faults) = toml::parse(source);
    let is_toml = !toml::is_disorder(&faults);
    if is_toml {
        let name = format!("`{}`", toml::file_name(source));
        faults.extend(toml::check(&root, keys_schema(), source, &name));
        faults.extend(passwords(&root, source));
    }
    let is_broken = !is_toml || is_broken(&root, &faults);
    let doubtful = doubtful(&root, &faults);
    let spans: Vec<Span> = places(&faults).collect();
    hide::hide(source, &mut faults);
    let at = |table: &str, key: &str| {
        let node = root.get(table).and_then(|table| table.get(key))?;
        (!spans.contains(&node.span)).then_some(node)
    };
    let mut config = Config {
        is_broken,
        doubtful,
        ..Config::default()
    };
    let text = |table, key| at(table, key).and_then(Node::as_str);
    let number = |table, key, value: &mut f64| {
        if let Some(written) = at(table, key).and_then(Node::as_f64) {
            *value = written;
        }
    };
    let whole = |table, key| at(table, key).and_then(Node::as_u64);
    let count = |table, key| whole(table, key).and_then(|n| u32::try_from(n).ok());
    config.cache.dir = text("cache", "dir").map(str::to_owned);
    number("cache", "size_limit_gb", &mut config.cache.size_limit_gb);
    config.cache.max_age_days = count("cache", "max_age_days").unwrap_or(config.cache.max_age_days);
    if text("cache", "durability") == Some("fast") {
        config.cache.durability = Durability::Fast;
    }
    config.run.jobs = count("run", "jobs");
    config.run.prompt_jobs = count("run", "prompt_jobs");
    config.run.task_jobs = count("run", "task_jobs").unwrap_or(config.run.task_jobs);
    config.run.step_timeout_seconds = whole("run", "step_timeout_seconds");
    config.run.keep_runs = count("run", "keep_runs").unwrap_or(config.run.keep_runs);
    config.sandbox.isolation = match text("sandbox", "isolation") {
        Some("bubblewrap") => Isolation::Bubblewrap,
        Some("none") => Isolation::None,
        _ => Isolation::Auto,
    };
    let names = at("sandbox", "pass_variables")
        .and_then(Node::as_array)
        .unwrap_or_default();
    config.sandbox.pass_variables = names
        .iter()
        .filter_map(Node::as_str)
        .map(str::to_owned)
        .collect();
    number(
        "retry",
        "backoff_seconds",
        &mut config.retry.backoff_seconds,
    );
    number("retry", "backoff_factor", &mut config.retry.backoff_factor);
    number(
        "retry",
        "max_backoff_seconds",
        &mut config.retry.max_backoff_seconds,
    );
    config.score.min = at("score", "min").and_then(Node::as_f64);
    config.lint = level::levels(root.get("lint"));
    config.determinism.types = determinism(at("determinism", "types"));
    config.determinism.steps = determinism(at("determinism", "steps"));
    let packages = at("python", "packages").and_then(Node::as_array);
    config.python_packages = packages
        .into_iter()
        .flatten()
        .filter_map(|package| package.as_str().map(str::to_owned))
        .collect();
    let tables = |name: &str| -> BTreeMap<String, Value> {
        let tables = root.get(name).and_then(Node::as_object);
        tables
            .into_iter()
            .flatten()
            .map(|member| (member.key.clone(), member.value.to_value()))
            .collect()
    };
    config.envs = tables("envs");
    config.agents = tables("agents");
    config.models = tables("models");
    config.written = Some(Arc::new(Written {
        source: hide::covered(source),
        node: root,
    }));
    (config, faults)
}

/// Returns the places of errors.
fn places(faults: &[Diagnostic]) -> impl Iterator<Item = Span> {
    let errors = faults.iter().filter(|fault| fault.is_error());
    errors.filter_map(|fault| Some(fault.place()?.span))
}

/// The tables whose members are named by the author.
const NAMED: [&str; 3] = ["envs", "agents", "models"];

/// Returns whether a table of an env, agent or model may be missing because of a fault.
fn is_broken(root: &Node, faults: &[Diagnostic]) -> bool {
    let members = root.as_object().unwrap_or_default();
    let is_at_fault = |member: &Member| {
        places(faults).any(|span| span == member.key_span || span == member.value.span)
    };
    let is_named = |member: &Member| NAMED.contains(&member.key.as_str());
    members.iter().any(|member| {
        let is_known = keys_schema()
            .pointer("/properties")
            .is_some_and(|known| known.get(&member.key).is_some());
        (is_named(member) || !is_known) && is_at_fault(member)
    })
}

/// Returns the tables that have an error in them.
fn doubtful(root: &Node, faults: &[Diagnostic]) -> BTreeSet<String> {
    fn has(member: &Member, spans: &[Span]) -> bool {
        let is_in = |span: &Span, outer: Span| outer.start <= span.start && span.end <= outer.end;
        let here = |span: &Span| is_in(span, member.key_span) || is_in(span, member.value.span);
        spans.iter().any(here)
            || member
                .value
                .as_object()
                .is_some_and(|members| members.iter().any(|member| has(member, spans)))
    }
    let spans: Vec<Span> = places(faults).collect();
    if spans.is_empty() {
        return BTreeSet::new();
    }
    let tables = NAMED.iter().flat_map(|kind| {
        let members = root.get(kind).and_then(Node::as_object).unwrap_or_default();
        let at_fault = members.iter().filter(|member| has(member, &spans));
        at_fault.map(move |member| format!("{kind}.{}", member.key))
    });
    tables.collect()
}

/// Refuses the passwords in the addresses of models.
fn passwords(root: &Node, source: &Source) -> Vec<Diagnostic> {
    let tables = root.get("models").and_then(Node::as_object);
    let each = tables.unwrap_or_default().iter().filter_map(|table| {
        let url = table.value.get("base_url")?;
        model::user_of(url.as_str()?)?;
        let headline = format!(
            "`models.{}.base_url` of `{}` holds a password or a key",
            table.key,
            toml::file_name(source)
        );
        let fault = Diagnostic::error("wrong-pattern", headline)
            .primary(source, url.span, "what stands before `@`")
            .help("put the key into an environment variable, name that with `key_variable`, and delete what stands before `@`");
        Some(fault)
    });
    each.collect()
}

fn determinism(table: Option<&Node>) -> BTreeMap<String, Determinism> {
    let members = table.and_then(Node::as_object).unwrap_or_default();
    let each = members.iter().filter_map(|member| {
        let value = match member.value.as_str()? {
            "pure" => Determinism::Pure,
            "sampled" => Determinism::Sampled,
            "volatile" => Determinism::Volatile,
            _ => return None,
        };
        Some((member.key.clone(), value))
    });
    each.collect()
}

#[cfg(test)]
mod tests;
