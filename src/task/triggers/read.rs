//! Reads triggers out of JSON, and finds every fault of them.

mod check;
mod reader;
mod talk;
mod when;

pub use self::talk::read_talk_triggers;

use std::collections::{BTreeMap, BTreeSet};

use self::reader::{CONFLICT, FORM, NOT_YET, Reader, TYPE, VALUE, get, word};
use super::fill::escaped;
use super::{Action, Barrier, Deed, Executor, Fault, Registration, Trigger, When};
use crate::digest::Digest;
use crate::json::{Value, json};
use crate::task::moment::{DAYS, Hours, SECOND, Zone};

/// Reads a registration: `{watch_roles?, executor?, executors?, triggers}`.
pub fn read_registration(value: &Value) -> Result<Registration, Vec<Fault>> {
    let mut reader = Reader::default();
    let known = ["watch_roles", "executor", "executors", "triggers"];
    let mut registration = Registration::default();
    if let Some(all) = reader.object("", value, &known) {
        registration.watch_roles = reader.texts("", all, "watch_roles");
        let one = get(all, "executor");
        registration.executor = one.and_then(|one| reader.executor("/executor", one));
        if let Some(named) = reader.members("", all, "executors") {
            for (name, value) in named {
                let at = format!("/executors/{}", escaped(name));
                if let Some(executor) = reader.executor(&at, value) {
                    registration.executors.insert(name.clone(), executor);
                }
            }
        }
        match get(all, "triggers") {
            Some(triggers) => registration.triggers = reader.triggers("/triggers", triggers),
            None => reader.missing("", "triggers", "the registration"),
        }
    }
    for (ix, trigger) in registration.triggers.iter().enumerate() {
        let at = format!("/triggers/{ix}/barrier");
        let has_hours = |action: &Action| match &action.deed {
            Deed::Instruct { executor, .. } => registration
                .executor(executor.as_deref())
                .is_some_and(|executor| executor.hours.is_some()),
            _ => false,
        };
        if trigger.barrier.is_some() && trigger.actions.iter().any(has_hours) {
            let headline = "the call would wait for the hours of an executor, which may be far off";
            reader.fault(
                CONFLICT,
                &at,
                headline.to_owned(),
                "delete `barrier` or the hours",
            );
        }
    }
    reader.done(registration)
}

/// Reads a list of triggers, whose faults are below `/triggers`.
pub fn read_triggers(value: &Value) -> Result<Vec<Trigger>, Vec<Fault>> {
    let mut reader = Reader::default();
    let triggers = reader.triggers("/triggers", value);
    reader.done(triggers)
}

/// Reads the hours of an executor: `{start, end, utc_offset | time_zone, days}`.
pub fn read_hours(at: &str, value: &Value) -> Result<Option<Hours>, Vec<Fault>> {
    let mut reader = Reader::default();
    let hours = reader.hours(at, value);
    reader.done(hours)
}

impl Reader {
    fn barrier(&mut self, at: &str, value: &Value) -> Option<Barrier> {
        let all = self.object(at, value, &["at", "timeout_seconds"])?;
        self.one_of(at, all, "at", "the barrier", &["provoking_call"]);
        let timeout = self.of_type(at, all, "timeout_seconds", "a number above 0", |number| {
            number.as_f64().filter(|seconds| *seconds > 0.0)
        });
        Some(Barrier {
            timeout: timeout.map(|seconds| (seconds.min(1e9) * SECOND as f64) as i64),
        })
    }

    fn triggers(&mut self, at: &str, value: &Value) -> Vec<Trigger> {
        let Some(items) = value.as_array() else {
            let headline = format!("`triggers` is {}, not a list", word(value));
            self.fault(TYPE, at, headline, "write it in `[` and `]`");
            return Vec::new();
        };
        let mut ids: BTreeMap<String, usize> = BTreeMap::new();
        let mut triggers = Vec::new();
        for (ix, item) in items.iter().enumerate() {
            let here = format!("{at}/{ix}");
            let Some(trigger) = self.trigger(&here, ix, item) else {
                continue;
            };
            if let Some(other) = ids.insert(trigger.id.clone(), ix) {
                let headline = format!(
                    "triggers {} and {} have the id `{}`",
                    other + 1,
                    ix + 1,
                    trigger.id
                );
                self.fault(
                    "duplicate-id",
                    &format!("{here}/id"),
                    headline,
                    "give each an id of its own",
                );
            }
            triggers.push(trigger);
        }
        triggers
    }

    fn trigger(&mut self, at: &str, ix: usize, value: &Value) -> Option<Trigger> {
        let all = self.object(at, value, &["id", "when", "actions", "barrier"])?;
        let before = self.faults.len();
        let id = match get(all, "id") {
            Some(_) => self.text(at, all, "id")?,
            None => {
                let digest = Digest::of_bytes(format!("{ix} {value}").as_bytes());
                format!("trg_{}", &digest.to_string()[..12])
            }
        };
        let when = match get(all, "when") {
            Some(when) => self.when(&format!("{at}/when"), when),
            None => {
                self.missing(at, "when", "the trigger");
                None
            }
        };
        let actions = self.actions(at, all, Reader::action);
        let barrier = get(all, "barrier");
        let barrier = barrier.and_then(|value| self.barrier(&format!("{at}/barrier"), value));
        if barrier.is_some() {
            if matches!(when, Some(When::Time(_))) {
                let headline =
                    "no call sets a time trigger off, so none can wait for it".to_owned();
                self.fault(
                    CONFLICT,
                    &format!("{at}/barrier"),
                    headline,
                    "delete `barrier`",
                );
            }
            if actions.iter().any(|action| action.delay.is_some()) {
                let headline = "the call would wait for a `delay`, which may be long".to_owned();
                self.fault(
                    CONFLICT,
                    &format!("{at}/barrier"),
                    headline,
                    "delete `barrier` or `delay`",
                );
            }
        }
        let mut value = value.clone();
        value["id"] = json!(id);
        (self.faults.len() == before).then_some(Trigger {
            id,
            when: when?,
            actions,
            barrier,
            value,
        })
    }

    fn executor(&mut self, at: &str, value: &Value) -> Option<Executor> {
        if value.get("a2a_url").is_some() {
            let headline = "an executor is an agent of the task, not one at an address".to_owned();
            self.fault(
                NOT_YET,
                &format!("{at}/a2a_url"),
                headline,
                "write \"agent\" with the name of the agent",
            );
            return None;
        }
        let all = self.object(at, value, &["agent", "role", "timeout_seconds", "hours"])?;
        let agent = self.needed(at, all, "agent", "the executor");
        let role = self.needed(at, all, "role", "the executor");
        let timeout = self.of_type(at, all, "timeout_seconds", "a number above 0", |number| {
            number.as_f64().filter(|seconds| *seconds > 0.0)
        });
        let hours = get(all, "hours").and_then(|value| self.hours(&format!("{at}/hours"), value));
        Some(Executor {
            agent: agent?,
            role: role?,
            timeout_seconds: timeout.unwrap_or(120.0).min(1e9),
            hours,
            value: value.clone(),
        })
    }

    fn hours(&mut self, at: &str, value: &Value) -> Option<Hours> {
        let all = self.object(
            at,
            value,
            &["start", "end", "utc_offset", "time_zone", "days"],
        )?;
        let start = self.needed(at, all, "start", "the hours");
        let end = self.needed(at, all, "end", "the hours");
        let zone = match (
            self.text(at, all, "utc_offset"),
            self.text(at, all, "time_zone"),
        ) {
            (Some(_), Some(_)) => {
                let headline = "the hours have both `utc_offset` and `time_zone`".to_owned();
                self.fault(CONFLICT, at, headline, "keep one of them");
                None
            }
            (Some(text), None) => {
                let zone = Zone::of_offset(&text);
                if zone.is_none() {
                    let headline = format!("`{text}` is no offset like `+02:00`");
                    self.fault(FORM, &format!("{at}/utc_offset"), headline, "");
                }
                zone
            }
            (None, Some(name)) => {
                let zone = Zone::of_name(&name);
                if zone.is_none() {
                    let headline = format!("there is no time zone `{name}`");
                    self.fault(
                        VALUE,
                        &format!("{at}/time_zone"),
                        headline,
                        "write a name such as \"Europe/Berlin\"",
                    );
                }
                zone
            }
            (None, None) => Zone::of_offset("+00:00"),
        };
        let mut days = [true; 7];
        if let Some(named) = self.texts(at, all, "days") {
            let named: BTreeSet<&str> = named.iter().map(String::as_str).collect();
            days = DAYS.map(|day| named.contains(day));
            for other in named.iter().filter(|day| !DAYS.contains(day)) {
                let help = format!("write some of `{}`", DAYS.join("`, `"));
                self.fault(
                    VALUE,
                    &format!("{at}/days"),
                    format!("`{other}` is no day"),
                    &help,
                );
            }
        }
        let (start, end, zone) = (start?, end?, zone?);
        let hours = Hours::new(&start, &end, zone, days);
        if hours.is_none() && days.contains(&true) {
            let headline =
                format!("`{start}` to `{end}` are no hours: write two different times as `HH:MM`");
            self.fault(FORM, at, headline, "");
        }
        hours
    }
}
