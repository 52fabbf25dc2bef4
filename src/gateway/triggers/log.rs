//! What happened to triggers, as far back as is kept.

use std::collections::VecDeque;

use crate::json::{Map, Value, json};
use crate::task::moment::Moment;

/// The number of events that are kept of the beginning.
const FIRST: usize = 1000;
/// The number of events that are kept of the end.
const LAST: usize = 9000;

/// A log of events; what is between its beginning and its end is dropped.
///
/// What steps that work side by side set off at one point of virtual time has no order among them: it is told step by
/// step, so that it does not matter who was first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EventLog {
    first: Vec<Value>,
    last: VecDeque<Value>,
    dropped: u64,
    /// What happened since the last [`EventLog::close`], as it came.
    open: Vec<Value>,
    /// The step that set off what happens now; empty where none did.
    by: String,
}

impl EventLog {
    /// Says which step set off what is added from now on.
    pub(super) fn by(&mut self, step: &str) {
        if self.by != step {
            step.clone_into(&mut self.by);
        }
    }

    /// Adds an event.
    pub(super) fn add(&mut self, kind: &str, trigger: &str, now: Option<Moment>, more: Value) {
        let mut event = Map::new();
        event.insert("kind".to_owned(), json!(kind));
        event.insert("trigger_id".to_owned(), json!(trigger));
        if let Some(now) = now {
            event.insert("virtual_time".to_owned(), json!(now.to_string()));
        }
        if !self.by.is_empty() {
            event.insert("step".to_owned(), json!(self.by));
        }
        if let Value::Object(more) = more {
            event.extend(more);
        }
        if self.open.len() == LAST {
            self.close();
        }
        self.open.push(Value::Object(event));
    }

    /// Puts what happened since the last time in the order in which it stays: that of virtual time, then by step.
    pub(super) fn close(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        for at_once in open.chunk_by_mut(|a, b| a["virtual_time"] == b["virtual_time"]) {
            at_once.sort_by(|a, b| a["step"].as_str().cmp(&b["step"].as_str()));
        }
        for event in open {
            self.keep(event);
        }
        self.by.clear();
    }

    fn keep(&mut self, event: Value) {
        if self.first.len() < FIRST {
            self.first.push(event);
            return;
        }
        if self.last.len() == LAST {
            self.last.pop_front();
            self.dropped += 1;
        }
        self.last.push_back(event);
    }

    /// Returns the events that are kept, oldest first.
    pub(super) fn events(&self) -> Vec<Value> {
        let closed = self.closed();
        closed.first.into_iter().chain(closed.last).collect()
    }

    /// Returns how many were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.closed().dropped
    }

    fn closed(&self) -> EventLog {
        let mut closed = self.clone();
        closed.close();
        closed
    }

    /// Returns how many there were.
    pub(super) fn count(&self) -> u64 {
        (self.first.len() + self.last.len() + self.open.len()) as u64 + self.dropped
    }

    /// Returns the log that has these events.
    pub(super) fn from_events(events: &[Value], dropped: u64) -> Self {
        let (first, last) = events.split_at(events.len().min(FIRST));
        EventLog {
            first: first.to_vec(),
            last: last.iter().cloned().collect(),
            dropped,
            ..EventLog::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        let mut log = EventLog::default();
        for n in 0..12_000 {
            log.add("fired", "a", None, json!({"n": n}));
        }
        let events = log.events();
        assert_eq!(events.len(), 10_000);
        assert_eq!(
            (&events[999]["n"], &events[1000]["n"]),
            (&json!(999), &json!(3000))
        );
        assert_eq!((log.dropped(), log.count()), (2000, 12_000));
        log.close();
        assert_eq!(EventLog::from_events(&events, 2000), log);
    }

    #[test]
    fn what_happens_at_once_is_told_step_by_step() {
        let nine = Moment::parse("2026-03-02T09:00:00Z").ok();
        let ten = Moment::parse("2026-03-02T10:00:00Z").ok();
        let told = |events: &[(&str, &str, Option<Moment>)]| {
            let mut log = EventLog::default();
            for (step, trigger, now) in events {
                log.by(step);
                log.add("fired", trigger, *now, json!({}));
            }
            log.close();
            log.by("a");
            log.add("fired", "later", ten, json!({}));
            let short = |event: &Value| format!("{}{}", event["step"], event["trigger_id"]);
            log.events().iter().map(short).collect::<Vec<_>>().join(" ")
        };
        let one = told(&[
            ("b", "1", nine),
            ("a", "2", nine),
            ("b", "3", nine),
            ("a", "4", nine),
            ("", "5", ten),
        ]);
        let other = told(&[
            ("a", "2", nine),
            ("a", "4", nine),
            ("b", "1", nine),
            ("b", "3", nine),
            ("", "5", ten),
        ]);
        assert_eq!(one, other);
        assert_eq!(one, r#""a""2" "a""4" "b""1" "b""3" null"5" "a""later""#);
    }
}
