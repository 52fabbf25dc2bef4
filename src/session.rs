//! The API of aebuild: open task folders, check, plan, run, explain.
//!
//! Everything that a face shows comes from here, as plain data with public fields, and from the events of a run. A session
//! never prints.

mod assist;
mod change;
mod drawn;
mod explain;
mod held;
mod inspect;
mod keys;
mod kept;
mod load;
mod looked;
mod part;
mod run;
mod schema;
mod select;
mod serve;
mod serve_agent;
mod setting;
mod upkeep;
mod watched;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use crate::assist::{Completion, CompletionKind, Hover, Noun, Refused, Replacement, Symbol};
pub use crate::check::level::codes;
use crate::diagnostic::Diagnostic;
use crate::digest::Digest;
use crate::event::{Outcome, Score, Tally};
use crate::json::{Map, Value};
use crate::plan::{Database, FileMemo, SettingInput};
use crate::rebuild::DirtyReason;
pub use crate::rebuild::Log;
pub use crate::resource::Provision;
pub use crate::schedule::Need;
pub use crate::step::{Registry, StepType};
use crate::system::System;
pub use crate::task::StepId;
use crate::task::config::Config;
pub use crate::task::folder::is_leaving;

pub use crate::engine::{StepKeys, Told, Wish};
pub use assist::{FileEdit, Location, Result as StepResult};
pub use change::{Change, Changed};
pub use drawn::{Drawing, DrawnEdge, DrawnRetry, DrawnStep};
pub use explain::{Cause, Cost, Costly, Explanation};
pub use keys::Wisher;
pub use schema::{agent_schema, config_schema, env_schema, task_schema};
pub use serve::{Served, builtin_envs};
pub use serve_agent::LoneAgent;
pub use setting::{STATE_FOLDER, recorded_workspace};
pub use upkeep::{HistoryRow, Nondeterminism};
pub use watched::WatchSet;

/// What a session is opened on.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Task folders, task files, or folders of task folders; empty means the current folder.
    pub paths: Vec<PathBuf>,
    /// The cache folder, before what the environment and `aebuild.toml` say.
    pub cache_dir: Option<PathBuf>,
    /// Whether nothing is looked for in the cache or kept in it.
    pub no_cache: bool,
}

/// One run's seed values: the row's name and its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeedRow {
    /// What the row is called in the output; empty for the only one.
    pub name: String,
    /// The values by key.
    pub values: BTreeMap<String, String>,
}

/// Which tasks and steps, and how.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Tasks by name; empty means all, or those of the evals if there are any.
    pub tasks: Vec<String>,
    /// Evals by name.
    pub evals: Vec<String>,
    /// Whether every step runs whatever is kept.
    pub fresh: bool,
    /// Steps that run whatever is kept, as `step` or `task/step`.
    pub rerun: Vec<String>,
    /// The step from which on steps run whatever is kept.
    pub from: Option<String>,
    /// The step after which nothing runs that it does not depend on.
    pub until: Option<String>,
    /// The only step that may run; all it depends on must be kept.
    pub only: Option<String>,
    /// Whether a step that would run is a failure.
    pub cached_only: bool,
    /// How many samples of each task; 0 and 1 mean one.
    pub samples: u32,
    /// Seed values, one run of each task a row; empty means one run without.
    pub seeds: Vec<SeedRow>,
    /// `metadata.user_overrides`.
    pub user_overrides: Map<String, Value>,
    /// How many US dollars the run may spend on models.
    pub max_cost_usd: Option<f64>,
    /// How many tokens the run may spend on models.
    pub max_tokens: Option<u64>,
    /// Whether models are asked anew, whatever is kept of their answers.
    pub ask_models_anew: bool,
    /// How many steps run at once; `None` takes the configuration's, else two more than there are cores.
    pub jobs: Option<usize>,
    /// Whether live things stay up after the run until the caller ends them.
    pub keep: bool,
    /// Whether live things wait for the next run of the session, which finds them as they are.
    pub warm: bool,
    /// Whether the final contexts are wanted, which a run that changes nothing need not make.
    pub contexts: bool,
}

/// Why a session could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// What the author wrote has errors; warnings are among the diagnostics too.
    #[error("{} faults", .0.len())]
    Faults(Vec<Diagnostic>),
    /// The command line names something that is not there.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to type instead.
        help: Option<String>,
    },
    /// The world refused something.
    #[error("{0}")]
    World(String),
}

/// What a run came to.
pub struct RunSummary {
    /// The run's id.
    pub run: String,
    /// The tasks in the order run.
    pub tasks: Vec<TaskSummary>,
    /// What was counted over all tasks.
    pub tally: Tally,
    /// Whether it was interrupted.
    pub cancelled: bool,
    /// Warnings about what the author wrote.
    pub warnings: Vec<Diagnostic>,
    /// Live things that were left up, as text lines.
    pub left_up: Vec<String>,
    held: Option<held::Held>,
}

impl RunSummary {
    /// Ends the live things that were left up.
    pub fn release(&mut self) -> Result<(), String> {
        self.held.take().map_or(Ok(()), held::Held::release)
    }
}

/// What a task came to.
#[derive(Clone, Debug)]
pub struct TaskSummary {
    /// The task as shown, such as `tasks/hello.json` or `tasks/hello.json [sample 2]`.
    pub shown: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Its scores.
    pub scores: Vec<Score>,
    /// Why it failed, where it did.
    pub failure: Option<String>,
    /// What was counted.
    pub tally: Tally,
    /// Whether nothing that it depends on had changed, so nothing was looked at again.
    pub unchanged: bool,
    /// The final context, where it was asked for or the task was looked at.
    pub context: Option<Value>,
}

/// What is foreseen for a step.
#[derive(Clone, Debug)]
pub struct StepForecast {
    /// The step.
    pub step: StepId,
    /// Its type.
    pub kind: &'static str,
    /// What is foreseen.
    pub verdict: StepVerdict,
    /// What it needs and how that gets there, where that is known.
    pub needs: Vec<Need>,
    /// How long it took when it last ran, microseconds.
    pub last_took_us: Option<u64>,
}

/// The four verdicts of a plan, and what is left out of it.
#[derive(Clone, Debug, PartialEq)]
pub enum StepVerdict {
    /// A kept result stands in.
    Hit {
        /// The run that made it.
        made_by: String,
    },
    /// It must run.
    Dirty {
        /// Why.
        because: Vec<DirtyReason>,
    },
    /// An ancestor must run first.
    Waits {
        /// That ancestor.
        on: StepId,
    },
    /// It only provides a live thing.
    Deferred,
    /// The command line leaves it out.
    LeftOut,
}

/// What is foreseen for a task.
#[derive(Clone, Debug)]
pub struct TaskForecast {
    /// The task as shown.
    pub shown: String,
    /// The steps in list order.
    pub steps: Vec<StepForecast>,
}

/// The graph of a task, for drawing.
#[derive(Clone, Debug)]
pub struct TaskGraph {
    /// The task as shown.
    pub shown: String,
    /// For each step in list order: id, type, and the ids of the steps that it waits for, implied edges reduced to those
    /// that matter.
    pub steps: Vec<(StepId, &'static str, Vec<StepId>)>,
}

/// Task folders opened for work.
pub struct Session {
    system: Arc<dyn System>,
    registry: Registry,
    options: SessionOptions,
    located: Vec<crate::task::folder::Located>,
    workspace: PathBuf,
    config: Config,
    config_digest: Digest,
    /// Faults of `aebuild.toml`, and of what was named if it went away since.
    faults: Vec<Diagnostic>,
    cache: Option<aebuild_cache::Cache>,
    cache_error: Option<String>,
    kept: kept::Kept,
    memo: FileMemo,
    grammar: inspect::Grammar,
    db: Database,
    /// What was asked with lately, the oldest first.
    settings: Vec<SettingInput>,
    folders: BTreeMap<usize, load::Loaded>,
    /// What checks found of tasks.
    looked: looked::AllLooked,
    /// What the last run left for the next.
    warm: Option<held::Held>,
}

impl Drop for Session {
    /// Ends what is up, and leaves the planner's memory to the end of the process: taking it apart costs nearly as much as
    /// building it.
    fn drop(&mut self) {
        // Who wants to know whether it ended well ends it before.
        let _ = self.end_warm();
        std::mem::forget(self.db.clone());
    }
}
