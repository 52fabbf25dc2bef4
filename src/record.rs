//! One run on disk: what happened, when, and what the steps said.
//!
//! A record is a folder `.aebuild/runs/<id>/` of the workspace. `run.json` says how the run ended, `events.jsonl` holds
//! the stream of events, `timeline.json` the same for trace viewers, `logs/` what the steps printed and `context/` the
//! final contexts. A run that changed nothing has `run.json` only. Everything passes a [`Redactor`] on its way to the
//! disk. A record that cannot be written is a notice, never a failure of the run.

pub mod desk;
mod format;
mod layout;
mod reader;
mod redact;
mod timeline;
mod writer;

pub use format::{FORMAT_VERSION, event_line, read_event_line};
pub use layout::{is_run_id, safe_name};
pub use reader::{Events, ReadError, Recorded, events, find, log, logs, newest_log, run, runs};
pub use redact::{REDACTED, Redactor, Stream};
pub use writer::Writer;

use crate::event::{Outcome, Score, Tally};

/// How far a run got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It goes on, or its process died.
    Running,
    /// It ran to its end, whatever the outcome.
    Completed,
    /// It was interrupted.
    Cancelled,
}

/// A run as `run.json` tells it.
#[derive(Clone, PartialEq, Debug)]
pub struct RunRecord {
    /// The run's id.
    pub id: String,
    /// The command line.
    pub command: Vec<String>,
    /// How far it got.
    pub status: Status,
    /// When it began, microseconds since 1970.
    pub started_us: i64,
    /// When it ended, microseconds since 1970.
    pub ended_us: Option<i64>,
    /// What was counted over all tasks.
    pub tally: Tally,
    /// Its tasks, in the order run; empty while it runs.
    pub tasks: Vec<TaskRecord>,
}

/// A task of a run as `run.json` tells it.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskRecord {
    /// The task, as shown.
    pub task: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Its scores, in list order.
    pub scores: Vec<Score>,
    /// Why it failed, where it did.
    pub failure: Option<String>,
    /// What was counted.
    pub tally: Tally,
    /// Whether nothing that it depends on had changed.
    pub unchanged: bool,
}

impl Status {
    /// Returns the word in `run.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Completed => "completed",
            Status::Cancelled => "cancelled",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Status::Running, Status::Completed, Status::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}
