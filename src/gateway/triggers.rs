//! What triggers do, as a machine that is told what happened and answers with what to do.
//!
//! It knows no env, no clock and no agent: each event comes with the virtual time, and each effect is done by somebody
//! else, who tells how it went. So the same events give the same effects.

mod entry;
mod fire;
mod log;
mod state;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::json::{Map, Value, json};
use crate::task::moment::Moment;
use crate::task::triggers::{Check, Deed, Registration, Start, When};

use entry::{Cause, Entry};
use log::EventLog;

pub(super) use entry::Status;

/// The triggers of an env.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Engine {
    /// The watched roles and the executors; its own list of triggers stays empty.
    config: Registration,
    entries: Vec<Entry>,
    firings: Vec<Firing>,
    next_firing: u64,
    log: EventLog,
    /// Triggers that are set off again by what waits in their queues; empty between events.
    ready: VecDeque<String>,
    /// When the clock was set.
    start: Option<Moment>,
}

/// A trigger whose actions are under way.
#[derive(Clone, Debug, PartialEq)]
struct Firing {
    id: u64,
    trigger: String,
    cause: Cause,
    /// The number of the firing of its trigger, from 0.
    number: u64,
    action: usize,
    stage: Stage,
}

/// Where an action of a firing stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// It waits until there is a clock, and then so long.
    Waits(i64),
    /// It waits until a point.
    Due(Moment),
    /// It is done now.
    Acts,
    /// What it did is looked at.
    Verifies,
    /// It is done a second time, after what it did was looked at.
    ActsAgain,
    /// What it did the second time is looked at.
    VerifiesAgain,
}

/// A call that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard<'h> {
    pub(super) tool: &'h str,
    pub(super) role: &'h str,
    /// The step that made it.
    pub(super) step: &'h str,
    /// Its number, from 1.
    pub(super) call: u64,
    /// `{"args": .., "result": ..}`.
    pub(super) scope: &'h Value,
    pub(super) is_error: bool,
    pub(super) may_change: bool,
    /// How many triggers in a row led to it.
    pub(super) depth: u64,
}

/// The call after which the state is looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct After {
    /// How many triggers in a row led to it.
    depth: u64,
    step: String,
    call: u64,
}

/// What happened.
#[derive(Clone, Debug)]
pub(super) enum Event<'h> {
    /// A call was answered.
    Call(Heard<'h>),
    /// Time has passed.
    Tick,
    /// A look at the state is over: what it bound where it found what was looked for, else nothing.
    Looked {
        trigger: String,
        after: After,
        outcome: Result<Option<Map<String, Value>>, String>,
    },
    /// A deed is done.
    Acted {
        firing: u64,
        outcome: Result<(), String>,
    },
    /// What a deed did was looked at.
    Verified {
        firing: u64,
        outcome: Result<bool, String>,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// Look at the state.
    Look {
        trigger: String,
        check: Check,
        after: After,
    },
    /// Do a deed.
    Act {
        firing: u64,
        trigger: String,
        depth: u64,
        order: Order,
    },
    /// Look at what a deed did.
    Verify {
        firing: u64,
        check: Check,
        scope: Value,
    },
    /// A trigger has come to this status; it goes on record.
    Came { trigger: String, status: Status },
}

/// A deed with all that it needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// Tell an agent.
    Instruct {
        agent: String,
        text: String,
        limit_seconds: f64,
    },
    /// Call a tool, in a role or by the env's own hand.
    Call {
        tool: String,
        arguments: Map<String, Value>,
        role: Option<String>,
    },
    /// Allow or forbid tools.
    Permit {
        enabled: bool,
        role: String,
        tools: Vec<String>,
    },
}

impl Engine {
    /// Returns whether nothing was ever registered.
    pub(super) fn is_empty(&self) -> bool {
        *self
            == Engine {
                start: self.start,
                ..Engine::default()
            }
    }

    /// Returns whether calls matter to somebody.
    pub(super) fn listens(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Adds triggers, and returns the ids of those that were not there; the error says what does not fit.
    pub(super) fn register(
        &mut self,
        more: Registration,
        now: Option<Moment>,
    ) -> Result<Vec<String>, String> {
        let config = self.joined(&more)?;
        self.log.by("");
        let mut fresh = Vec::new();
        for trigger in more.triggers {
            match self
                .entries
                .iter()
                .find(|entry| entry.trigger.id == trigger.id)
            {
                None => fresh.push(trigger),
                // The same again is nothing: what has fired stays fired.
                Some(entry) if entry.trigger.value == trigger.value => {}
                Some(_) => {
                    return Err(format!(
                        "trigger `{}` is registered already, and is another one",
                        trigger.id
                    ));
                }
            }
        }
        for trigger in &fresh {
            for action in &trigger.actions {
                if let Deed::Instruct { executor, .. } = &action.deed
                    && config.executor(executor.as_deref()).is_none()
                {
                    let who = executor.as_ref().map_or("an executor".to_owned(), |name| {
                        format!("executor `{name}`")
                    });
                    return Err(format!(
                        "trigger `{}` needs {who}, which is not registered",
                        trigger.id
                    ));
                }
            }
            if let When::Time(rule) = &trigger.when
                && let Start::After { trigger: other, .. } = &rule.start
            {
                let known = self.entries.iter().map(|entry| &entry.trigger);
                if !known.chain(&fresh).any(|known| known.id == *other) {
                    return Err(format!(
                        "trigger `{}` waits for trigger `{other}`, which is not registered",
                        trigger.id
                    ));
                }
            }
        }
        self.config = config;
        let mut added = Vec::new();
        for trigger in fresh {
            let id = trigger.id.clone();
            let other = match &trigger.when {
                When::Time(rule) => match &rule.start {
                    Start::After { trigger, .. } => Some(trigger.clone()),
                    _ => None,
                },
                _ => None,
            };
            let mut entry = Entry::new(trigger);
            if let (Some(start), Some(now)) = (self.start, now) {
                entry.anchor(start, now);
            }
            let other = self
                .entries
                .iter()
                .find(|entry| Some(&entry.trigger.id) == other.as_ref());
            if let Some(fired) = other.filter(|other| other.fire_count > 0) {
                entry.anchor_after(fired.fired_at.or(now), self.start);
            }
            self.entries.push(entry);
            self.log.add("added", &id, now, json!({}));
            added.push(id);
        }
        Ok(added)
    }

    /// Returns the roles and executors with more of them; each is set once.
    fn joined(&self, more: &Registration) -> Result<Registration, String> {
        let mut config = self.config.clone();
        match (&config.watch_roles, &more.watch_roles) {
            (Some(old), Some(new)) if old != new => {
                return Err(format!(
                    "`watch_roles` is {old:?} already, and can't become {new:?}"
                ));
            }
            (None, Some(new)) => config.watch_roles = Some(new.clone()),
            _ => {}
        }
        let differs = |name: &str| format!("{name} is registered already, and is another one");
        match (&config.executor, &more.executor) {
            (Some(old), Some(new)) if old != new => return Err(differs("the executor")),
            (None, Some(new)) => config.executor = Some(new.clone()),
            _ => {}
        }
        for (name, new) in &more.executors {
            match config.executors.get(name) {
                Some(old) if old != new => return Err(differs(&format!("executor `{name}`"))),
                _ => {
                    config.executors.insert(name.clone(), new.clone());
                }
            }
        }
        let watched = watched(&config);
        let all = config.executor.iter().chain(config.executors.values());
        for executor in all {
            if watched.contains(&executor.role) {
                return Err(format!(
                    "role `{}` of executor `{}` is watched, so what it does would set triggers off; give it a role of its own",
                    executor.role, executor.agent
                ));
            }
        }
        Ok(config)
    }

    /// Takes triggers away, and what of them is under way; returns the ids that were there.
    pub(super) fn remove(&mut self, ids: &[String], now: Option<Moment>) -> Vec<String> {
        self.log.by("");
        let mut removed = Vec::new();
        for id in ids {
            let before = self.entries.len();
            self.entries.retain(|entry| entry.trigger.id != *id);
            if self.entries.len() < before {
                self.firings.retain(|firing| firing.trigger != *id);
                self.log.add("removed", id, now, json!({}));
                removed.push(id.clone());
            }
        }
        removed
    }

    /// Takes everything away.
    pub(super) fn clear(&mut self) {
        *self = Engine {
            start: self.start,
            next_firing: self.next_firing,
            ..Engine::default()
        };
    }

    /// Hears that the clock was set, or taken away.
    pub(super) fn clock_was_set(&mut self, start: Option<Moment>) {
        self.log.by("");
        let was_set = self.start.is_some();
        self.start = start;
        let Some(start) = start else { return };
        for entry in self.entries.iter_mut().filter(|entry| entry.is_live()) {
            let had = entry.mark;
            let waited = entry.waits_for_clock;
            entry.anchor(start, start);
            if was_set && had != entry.mark {
                self.log.add(
                    "reanchored",
                    &entry.trigger.id,
                    Some(start),
                    next_mark(entry),
                );
            } else if waited {
                self.log
                    .add("anchored", &entry.trigger.id, Some(start), next_mark(entry));
            }
        }
        for firing in &mut self.firings {
            if let Stage::Waits(us) = firing.stage {
                firing.stage = Stage::Due(start.after(us));
            }
        }
    }

    /// Returns the next point at which something is to happen.
    pub(super) fn next_due(&self) -> Option<Moment> {
        let marks = self.entries.iter().filter(|entry| entry.is_live());
        let marks = marks.filter_map(|entry| entry.mark);
        marks
            .chain(self.firings.iter().filter_map(Firing::due))
            .min()
    }

    /// Returns the firings that are under way.
    pub(super) fn under_way(&self) -> Vec<u64> {
        self.firings.iter().map(|firing| firing.id).collect()
    }

    /// Returns whether what a call set off is being done, or waits for what is.
    pub(super) fn acts_for(&self, call: u64) -> bool {
        let acts = |firing: &&Firing| !matches!(firing.stage, Stage::Waits(_) | Stage::Due(_));
        self.firings.iter().filter(acts).any(|firing| {
            let queued = || {
                let entry = self
                    .entries
                    .iter()
                    .find(|entry| entry.trigger.id == firing.trigger);
                entry.is_some_and(|entry| entry.queue.iter().any(|cause| cause.call == call))
            };
            firing.cause.call == call || queued()
        })
    }

    /// Hears that nobody works on the env any more. What steps that worked side by side set off is put in an order that
    /// does not hang on who was first, so that the same state is kept as the same bytes.
    pub(super) fn rest(&mut self) {
        self.log.close();
        let all_wait = self
            .firings
            .iter()
            .all(|firing| matches!(firing.stage, Stage::Waits(_) | Stage::Due(_)));
        if !all_wait {
            return;
        }
        let mut order: Vec<usize> = (0..self.firings.len()).collect();
        order.sort_by_key(|at| self.rank(*at));
        let firings = order.into_iter().map(|at| self.firings[at].clone());
        self.firings = firings.collect();
        let first = self.next_firing - self.firings.len() as u64;
        for (at, firing) in self.firings.iter_mut().enumerate() {
            firing.id = first + at as u64;
        }
    }

    /// Returns what decides which of several firings goes on first at one point.
    fn rank(&self, at: usize) -> (Option<Moment>, usize, &str, u64) {
        let firing = &self.firings[at];
        let entry = self
            .entries
            .iter()
            .position(|entry| entry.trigger.id == firing.trigger);
        let entry = entry.unwrap_or(usize::MAX);
        (firing.due(), entry, &firing.cause.step, firing.id)
    }

    /// Returns the first point at which one of these firings goes on.
    pub(super) fn due_of(&self, firings: &[u64]) -> Option<Moment> {
        let of_them = self
            .firings
            .iter()
            .filter(|firing| firings.contains(&firing.id));
        of_them.filter_map(Firing::due).min()
    }

    /// Returns the firings of triggers whose provoking call waits, with how long it waits at most.
    pub(super) fn barriers(&self) -> Vec<(u64, Option<i64>)> {
        let barrier = |firing: &Firing| {
            let entry = self
                .entries
                .iter()
                .find(|entry| entry.trigger.id == firing.trigger)?;
            Some((firing.id, entry.trigger.barrier?.timeout))
        };
        self.firings.iter().filter_map(barrier).collect()
    }

    /// Returns where a trigger stands.
    pub(super) fn status(&self, id: &str) -> Option<Status> {
        let entry = self.entries.iter().find(|entry| entry.trigger.id == id);
        entry.map(|entry| entry.status)
    }

    /// Returns whether a role is that of an executor.
    pub(super) fn is_executor(&self, role: &str) -> bool {
        let mut all = self
            .config
            .executor
            .iter()
            .chain(self.config.executors.values());
        all.any(|executor| executor.role == role)
    }

    /// Returns the agents that follow instructions.
    pub(super) fn agents(&self) -> Vec<String> {
        let all = self
            .config
            .executor
            .iter()
            .chain(self.config.executors.values());
        let mut agents: Vec<String> = all.map(|executor| executor.agent.clone()).collect();
        agents.sort();
        agents.dedup();
        agents
    }

    /// Hears what happened, and answers with what to do.
    pub(super) fn on(&mut self, event: Event<'_>, now: Option<Moment>) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Call(heard) => self.heard(heard, now, &mut effects),
            Event::Tick => self.tick(now, &mut effects),
            Event::Looked {
                trigger,
                after,
                outcome,
            } => self.looked(&trigger, after, outcome, now, &mut effects),
            Event::Acted { firing, outcome } => self.acted(firing, outcome, now, &mut effects),
            Event::Verified { firing, outcome } => {
                self.verified(firing, outcome, now, &mut effects)
            }
        }
        self.go_on(now, &mut effects);
        effects
    }
}

impl Firing {
    fn due(&self) -> Option<Moment> {
        match self.stage {
            Stage::Due(due) => Some(due),
            _ => None,
        }
    }
}

/// Returns the roles whose calls set triggers off: those of executors never do.
fn watched(config: &Registration) -> Vec<String> {
    let default = || vec![crate::step::env::DEFAULT_ROLE.to_owned()];
    config.watch_roles.clone().unwrap_or_else(default)
}

fn next_mark(entry: &Entry) -> Value {
    json!({"next_mark": entry.mark.map(|mark| mark.to_string())})
}
