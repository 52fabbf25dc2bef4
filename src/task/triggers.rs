//! Triggers of an env as an author writes them: what is watched for, and what is done then.
//!
//! Plain data, read with all faults at once. Nobody here knows when something happens; see `gateway/triggers`.

mod fill;
mod find;
mod read;
mod talk;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::moment::{Hours, Moment};
use crate::json::Value;

pub use fill::Filling;
pub use find::{Condition, Extract, Path, Predicate, is_there};
pub use read::{read_hours, read_registration, read_talk_triggers, read_triggers};
pub use talk::{Decision, TalkAction, TalkTrigger, TalkWhen, Talking};

/// What is wrong with a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code of the diagnostic.
    pub code: &'static str,
    /// The JSON pointer of the place at fault.
    pub field: String,
    /// The headline.
    pub headline: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// What is registered at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registration {
    /// The roles whose calls are watched, where it says.
    pub watch_roles: Option<Vec<String>>,
    /// Who follows instructions that name nobody.
    pub executor: Option<Executor>,
    /// Who follows instructions that name them.
    pub executors: BTreeMap<String, Executor>,
    /// The triggers.
    pub triggers: Vec<Trigger>,
}

impl Registration {
    /// Returns the executor with a name, or that of all.
    pub fn executor(&self, name: Option<&str>) -> Option<&Executor> {
        match name {
            Some(name) => self.executors.get(name),
            None => self.executor.as_ref(),
        }
    }
}

/// An agent that follows instructions.
#[derive(Clone, Debug, PartialEq)]
pub struct Executor {
    /// The `agent_name`.
    pub agent: String,
    /// Its role, which is not watched.
    pub role: String,
    /// How long it may take over an instruction, in seconds.
    pub timeout_seconds: f64,
    /// When it works; always where it is absent.
    pub hours: Option<Hours>,
    /// All of it as it was written.
    pub value: Value,
}

/// A trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The id.
    pub id: String,
    /// What it waits for.
    pub when: When,
    /// What is done then, in order.
    pub actions: Vec<Action>,
    /// Whether the call that set it off waits for it.
    pub barrier: Option<Barrier>,
    /// All of it as it was written, with its id.
    pub value: Value,
}

impl Trigger {
    /// Returns the tools that it names: those that it waits for, and those that it calls, allows or forbids.
    pub fn tools(&self) -> Vec<&str> {
        fn of_check(check: &Check) -> impl Iterator<Item = &str> {
            check.steps.iter().map(|step| step.tool.as_str())
        }
        let mut tools: Vec<&str> = Vec::new();
        match &self.when {
            When::Action(watch) => tools.push(&watch.tool),
            When::State { check, .. } => tools.extend(of_check(check)),
            When::Time(rule) => tools.extend(rule.unless.iter().map(|watch| watch.tool.as_str())),
        }
        for action in &self.actions {
            tools.extend(action.verify.iter().flat_map(of_check));
            match &action.deed {
                Deed::Instruct { .. } => {}
                Deed::Call { tool, .. } => tools.push(tool),
                Deed::Permit { tools: named, .. } => tools.extend(named.iter().map(String::as_str)),
            }
        }
        tools
    }
}

/// What a trigger waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// A call of a tool.
    Action(Watch),
    /// A state of the env.
    State {
        /// How the state is looked at.
        check: Check,
        /// Whose calls are followed by a look; the watched roles where it is absent.
        roles: Option<Vec<String>>,
    },
    /// A point of virtual time.
    Time(TimeRule),
}

impl When {
    /// Returns the word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            When::Action(_) => "action",
            When::State { .. } => "state",
            When::Time(_) => "time",
        }
    }
}

/// A call that is watched for.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// The tool.
    pub tool: String,
    /// What must be true of `{"args": .., "result": ..}`.
    pub conditions: Vec<Condition>,
    /// Whether each such call counts, and not the first alone.
    pub repeats: bool,
    /// Whose calls count; those of the watched roles where it is absent.
    pub roles: Option<Vec<String>>,
}

/// When a time trigger fires.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeRule {
    /// When it fires first.
    pub start: Start,
    /// How long after that it fires again.
    pub every: Option<Length>,
    /// How often it fires at most.
    pub count: Option<u64>,
    /// When it fires no more.
    pub until: Option<At>,
    /// The call that calls it off.
    pub unless: Option<Watch>,
}

/// When a time trigger fires first.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// At a point.
    At(At),
    /// So long after another trigger has fired.
    After {
        /// The id of the other one.
        trigger: String,
        /// How long after it, in microseconds.
        offset: i64,
    },
    /// After the first interval.
    Interval,
}

/// A point of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// This one.
    Moment(Moment),
    /// So many microseconds after the clock was set.
    FromStart(i64),
}

/// A length of time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Always the same.
    Fixed(i64),
    /// Drawn from an exponential distribution, the same for the same seed and number of the draw.
    Drawn {
        /// The mean.
        mean: i64,
        /// The seed.
        seed: i64,
    },
}

/// What a trigger does.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// How long it waits before it does it.
    pub delay: Option<Length>,
    /// What must hold after it.
    pub verify: Option<Check>,
    /// What it does.
    pub deed: Deed,
}

/// A deed of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// An agent is told to do something.
    Instruct {
        /// What it is told.
        instruction: String,
        /// The agent; the executor of all where it is absent.
        executor: Option<String>,
    },
    /// A tool is called.
    Call {
        /// The tool.
        tool: String,
        /// The arguments.
        arguments: Filling,
        /// The role in which it is called; the env's own hand, for which no rule of access holds, where it is absent.
        role: Option<String>,
    },
    /// Tools are allowed or forbidden to a role.
    Permit {
        /// Whether they are allowed.
        enabled: bool,
        /// The role.
        role: String,
        /// The tools.
        tools: Vec<String>,
    },
}

/// Has the call that set a trigger off wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The longest wait, in microseconds of real time.
    pub timeout: Option<i64>,
}

/// A look at the state of the env: calls one after another, the last of which decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The calls.
    pub steps: Vec<CheckStep>,
}

/// A call of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckStep {
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Filling,
    /// What is taken out of the answer; all of it where it is absent.
    pub extract: Option<Extract>,
    /// The name under which it is kept for later calls and for arguments of actions.
    pub bind: Option<String>,
    /// What must be true of it.
    pub predicate: Option<Predicate>,
}
