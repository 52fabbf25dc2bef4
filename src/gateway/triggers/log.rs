//! What happened to triggers, as far back as is kept.

use std::collections::VecDeque;

use crate::json::{Map, Value, json};
use crate::task::moment::Moment;

/// The number of events that are kept of the beginning.
const FIRST: usize = 1000;
/// The number of events that are kept of the end.
const LAST: usize = 9000;

/// A log of events; what is between its beginning and its end is dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EventLog {
    first: Vec<Value>,
    last: VecDeque<Value>,
    dropped: u64,
}

impl EventLog {
    /// Adds an event.
    pub(super) fn add(&mut self, kind: &str, trigger: &str, now: Option<Moment>, more: Value) {
        let mut event = Map::new();
        event.insert("kind".to_owned(), json!(kind));
        event.insert("trigger_id".to_owned(), json!(trigger));
        if let Some(now) = now {
            event.insert("virtual_time".to_owned(), json!(now.to_string()));
        }
        if let Value::Object(more) = more {
            event.extend(more);
        }
        let event = Value::Object(event);
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
        self.first.iter().chain(&self.last).cloned().collect()
    }

    /// Returns how many were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns how many there were.
    pub(super) fn count(&self) -> u64 {
        (self.first.len() + self.last.len()) as u64 + self.dropped
    }

    /// Returns the log that has these events.
    pub(super) fn from_events(events: &[Value], dropped: u64) -> Self {
        let (first, last) = events.split_at(events.len().min(FIRST));
        EventLog {
            first: first.to_vec(),
            last: last.iter().cloned().collect(),
            dropped,
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
        assert_eq!(EventLog::from_events(&events, 2000), log);
    }
}
