//! Every observable moment of a run.
//!
//! One ordered stream of these is the interface between the engine and everything that shows, records or judges a run.

use crate::resource::{Provision, ResourceId};
use crate::task::StepId;

/// How a task of a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// At least one score, and all are at least 1.
    Passed,
    /// At least one score is below 1.
    ScoredBelowOne,
    /// It ended well and nothing scored it.
    Unscored,
    /// A step failed and no retry made up for it.
    Failed,
    /// The run was interrupted.
    Cancelled,
}

impl Outcome {
    /// Returns the words that people are shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::ScoredBelowOne => "scored below 1",
            Outcome::Unscored => "unscored",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }

    /// Returns the outcome with these words.
    pub fn from_words(words: &str) -> Option<Self> {
        [
            Outcome::Passed,
            Outcome::ScoredBelowOne,
            Outcome::Unscored,
            Outcome::Failed,
            Outcome::Cancelled,
        ]
        .into_iter()
        .find(|outcome| outcome.as_str() == words)
    }
}

/// A score that a verifier gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Score {
    /// The verifier: the step's id where its `verifier_id` is the key, else the key.
    pub name: String,
    /// The score.
    pub score: f64,
    /// The rows that did not pass, each a line that says why; of many only the first.
    pub failed: Vec<String>,
}

/// What is counted over a task or a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Steps whose kept result stood in.
    pub hit: u64,
    /// Steps that ran, each attempt counted.
    pub ran: u64,
    /// Steps that only provide a live thing.
    pub deferred: u64,
    /// Steps that failed, each attempt counted.
    pub failed: u64,
    /// Steps that never started.
    pub skipped: u64,
    /// The time that the hits took when they ran, microseconds.
    pub saved_us: u64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.hit += other.hit;
        self.ran += other.ran;
        self.deferred += other.deferred;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.saved_us += other.saved_us;
    }
}

/// A moment of a run.
#[derive(Clone, PartialEq, Debug)]
pub enum RunEvent {
    /// The run begins.
    RunStarted {
        /// The run's id.
        run: String,
        /// How many tasks it has.
        tasks: usize,
    },
    /// A task begins.
    TaskStarted {
        /// The task, as shown.
        task: String,
        /// How many steps it has.
        steps: usize,
    },
    /// A task is as it was: all its results stand, and nothing was looked at again.
    TaskUnchanged {
        /// The task.
        task: String,
        /// How many steps it has.
        steps: usize,
    },
    /// Something happened to a step.
    Step {
        /// The task.
        task: String,
        /// The step.
        step: StepId,
        /// The step's type.
        kind: &'static str,
        /// What happened.
        what: StepEvent,
    },
    /// A task is over.
    TaskFinished {
        /// The task.
        task: String,
        /// How it ended.
        outcome: Outcome,
        /// Its scores, in list order.
        scores: Vec<Score>,
        /// Why it failed, where it did.
        failure: Option<String>,
        /// What was counted.
        tally: Tally,
        /// How long it took, microseconds.
        took_us: u64,
    },
    /// Something that the user should know and that stops nothing.
    Notice {
        /// The text.
        text: String,
    },
    /// The run is over.
    RunFinished {
        /// Whether it was interrupted.
        cancelled: bool,
        /// What was counted over all tasks.
        tally: Tally,
        /// How long it took, microseconds.
        took_us: u64,
    },
}

/// What happened to a step.
#[derive(Clone, PartialEq, Debug)]
pub enum StepEvent {
    /// It only provides a live thing, which is made when something needs it.
    Deferred,
    /// A kept result stands in.
    Hit {
        /// The run that made the result.
        made_by: String,
        /// How long the step took then, microseconds.
        took_us: u64,
    },
    /// It must run.
    Dirty {
        /// Why, one sentence a cause.
        because: Vec<String>,
    },
    /// It starts.
    Started {
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// A live thing was brought to the state that it needs.
    Provisioned {
        /// The live thing.
        resource: ResourceId,
        /// How.
        how: Provision,
    },
    /// It ended well.
    Finished {
        /// How long it took, microseconds.
        took_us: u64,
        /// Whether its output is the one that was kept before, so that what is below it may still hit.
        same_output: bool,
    },
    /// It failed.
    Failed {
        /// The class of the error.
        error_type: String,
        /// The message.
        error: String,
        /// Whether the task fails with it.
        fatal: bool,
        /// How long it took, microseconds.
        took_us: u64,
    },
    /// Its result is used in this run and not kept.
    NotStored {
        /// Why.
        why: String,
    },
    /// A retry undid it; it waits again.
    RolledBack {
        /// The step whose failure started the retry.
        failed: StepId,
        /// The number of the attempt that starts, from 2.
        attempt: u32,
    },
    /// A retry would have been wrong.
    RetryRefused {
        /// Why, naming both steps and the resource.
        why: String,
    },
    /// It was stopped before it ended.
    Aborted,
    /// It never started.
    Skipped,
}
