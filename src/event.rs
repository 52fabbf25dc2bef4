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
    /// What was spent on models.
    pub models: Spent,
}

/// What was spent on models; what nobody reported is `None`, not 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Requests that were sent.
    pub requests: u64,
    /// How many of them were sent because an earlier one failed.
    pub retried: u64,
    /// Requests that were answered from the store; they cost nothing.
    pub cached: u64,
    /// Tokens that were read.
    pub input_tokens: Option<u64>,
    /// Tokens that were written.
    pub output_tokens: Option<u64>,
    /// The price, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
}

impl Spent {
    /// Adds what was spent elsewhere.
    pub fn add(&mut self, other: &Spent) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.requests = self.requests.saturating_add(other.requests);
        self.retried = self.retried.saturating_add(other.retried);
        self.cached = self.cached.saturating_add(other.cached);
        self.input_tokens = sum(self.input_tokens, other.input_tokens);
        self.output_tokens = sum(self.output_tokens, other.output_tokens);
        self.micro_usd = sum(self.micro_usd, other.micro_usd);
    }

    /// Says what was spent, such as `3 requests, 2 from the store, 1200 tokens read, 80 written, 0.0123 USD`; what nobody
    /// reported is not said. `None` where no model was asked.
    pub fn words(&self) -> Option<String> {
        if self.requests == 0 && self.cached == 0 {
            return None;
        }
        let noun = match self.requests {
            1 => "request",
            _ => "requests",
        };
        let mut parts = vec![format!("{} {noun}", self.requests)];
        if self.retried > 0 {
            parts.push(format!("{} of them again", self.retried));
        }
        if self.cached > 0 {
            parts.push(format!("{} from the store", self.cached));
        }
        parts.extend(self.input_tokens.map(|n| format!("{n} tokens read")));
        parts.extend(self.output_tokens.map(|n| format!("{n} written")));
        parts.extend(self.micro_usd.map(|n| format!("{:.4} USD", n as f64 / 1e6)));
        Some(parts.join(", "))
    }
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.hit = self.hit.saturating_add(other.hit);
        self.ran = self.ran.saturating_add(other.ran);
        self.deferred = self.deferred.saturating_add(other.deferred);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.saved_us = self.saved_us.saturating_add(other.saved_us);
        self.models.add(&other.models);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_is_said_and_what_nobody_reported_is_not() {
        assert_eq!(Spent::default().words(), None);
        let mut spent = Spent {
            requests: 1,
            retried: 0,
            cached: 2,
            input_tokens: Some(1200),
            output_tokens: None,
            micro_usd: Some(12_340),
        };
        let words = "1 request, 2 from the store, 1200 tokens read, 0.0123 USD";
        assert_eq!(spent.words().as_deref(), Some(words));
        spent.add(&Spent {
            retried: 1,
            ..spent
        });
        let words = "2 requests, 1 of them again, 4 from the store, 2400 tokens read, 0.0247 USD";
        assert_eq!(spent.words().as_deref(), Some(words));
    }
}
