//! What is told of triggers, and how they are kept with the state of their env.

use super::entry::{Cause, Entry, Status};
use super::log::EventLog;
use super::{Engine, Firing, Stage};
use crate::json::{Map, Value, json};
use crate::task::moment::Moment;
use crate::task::triggers::read_registration;

fn shown(moment: Option<Moment>) -> Value {
    moment.map_or(Value::Null, |moment| json!(moment.to_string()))
}

impl Engine {
    /// Returns what is told of the triggers: how they are set up, where each stands, and what happened.
    pub(in crate::gateway) fn state(&self) -> Value {
        let triggers = self.entries.iter().map(|entry| {
            let firing = self
                .firings
                .iter()
                .find(|firing| firing.trigger == entry.trigger.id);
            json!({
                "id": entry.trigger.id,
                "type": entry.trigger.when.kind(),
                "when": entry.trigger.value["when"],
                "status": entry.status.as_str(),
                "detected_at": shown(entry.detected_at),
                "fired_at": shown(entry.fired_at),
                "fire_count": entry.fire_count,
                "failure_count": entry.failure_count,
                "last_failure_at": shown(entry.last_failure_at),
                "barrier": entry.trigger.value.get("barrier").cloned().unwrap_or_default(),
                "pending": entry.queue.len(),
                "waiting": firing.and_then(|firing| firing.due()).map(|due| due.to_string()),
                "next_mark": shown(entry.mark),
            })
        });
        let triggers: Vec<Value> = triggers.collect();
        let named: Vec<&String> = self.config.executors.keys().collect();
        json!({
            "config": {
                "watch_roles": super::watched(&self.config),
                "executor_configured": self.config.executor.is_some(),
                "executors": named,
            },
            "triggers": triggers,
            "events": self.log.events(),
            "events_dropped": self.log.dropped(),
        })
    }

    /// Returns where each trigger stands, by its id.
    pub(in crate::gateway) fn statuses(&self) -> Map<String, Value> {
        let entries = self.entries.iter();
        let each = entries.map(|entry| (entry.trigger.id.clone(), json!(entry.status.as_str())));
        each.collect()
    }

    /// Returns what is told of the triggers in a few words: where each stands and how much happened.
    pub(in crate::gateway) fn summary(&self) -> Value {
        let mut triggers = Map::new();
        for entry in &self.entries {
            let about = json!({
                "type": entry.trigger.when.kind(),
                "status": entry.status.as_str(),
                "fire_count": entry.fire_count,
                "next_mark": shown(entry.mark),
                "failure_count": entry.failure_count,
                "last_failure_at": shown(entry.last_failure_at),
            });
            triggers.insert(entry.trigger.id.clone(), about);
        }
        json!({
            "statuses": self.statuses(),
            "triggers": triggers,
            "event_count": self.log.count(),
            "events_dropped": self.log.dropped(),
            "events": self.log.events(),
            "capture_is_final": self.firings.is_empty(),
        })
    }

    /// Returns the triggers as they are kept; null where there never were any. The same triggers in the same state give
    /// the same value.
    pub(in crate::gateway) fn to_value(&self) -> Value {
        if self.is_empty() {
            return Value::Null;
        }
        let executors = self.config.executors.iter();
        let executors: Map<String, Value> = executors
            .map(|(name, executor)| (name.clone(), executor.value.clone()))
            .collect();
        let specs: Vec<&Value> = self
            .entries
            .iter()
            .map(|entry| &entry.trigger.value)
            .collect();
        let states: Vec<Value> = self.entries.iter().map(entry_value).collect();
        let firings: Vec<Value> = self.firings.iter().map(firing_value).collect();
        json!({
            "registration": {
                "watch_roles": self.config.watch_roles,
                "executor": self.config.executor.as_ref().map(|executor| &executor.value),
                "executors": executors,
                "triggers": specs,
            },
            "states": states,
            "firings": firings,
            "next_firing": self.next_firing,
            "events": self.log.events(),
            "events_dropped": self.log.dropped(),
        })
    }

    /// Reads triggers that were kept, by a clock that was set at `start`; `None` where the value is none.
    pub(in crate::gateway) fn from_value(value: &Value, start: Option<Moment>) -> Option<Self> {
        if value.is_null() {
            return Some(Engine {
                start,
                ..Engine::default()
            });
        }
        let mut config = read_registration(value.get("registration")?).ok()?;
        let triggers = std::mem::take(&mut config.triggers);
        let states = value.get("states")?.as_array()?;
        if states.len() != triggers.len() {
            return None;
        }
        let mut entries = Vec::with_capacity(triggers.len());
        for (trigger, state) in triggers.into_iter().zip(states) {
            entries.push(read_entry(Entry::new(trigger), state)?);
        }
        let firings = value.get("firings")?.as_array()?.iter().map(read_firing);
        let events = value.get("events")?.as_array()?;
        Some(Engine {
            config,
            entries,
            firings: firings.collect::<Option<_>>()?,
            next_firing: value.get("next_firing")?.as_u64()?,
            log: EventLog::from_events(events, value.get("events_dropped")?.as_u64()?),
            start,
            ready: std::collections::VecDeque::new(),
        })
    }
}

fn cause_value(cause: &Cause) -> Value {
    json!({"scope": cause.scope, "depth": cause.depth, "step": cause.step})
}

fn read_cause(value: &Value) -> Option<Cause> {
    Some(Cause {
        scope: value.get("scope")?.clone(),
        depth: value.get("depth")?.as_u64()?,
        step: value.get("step")?.as_str()?.to_owned(),
        call: 0,
    })
}

fn entry_value(entry: &Entry) -> Value {
    let queue: Vec<Value> = entry.queue.iter().map(cause_value).collect();
    json!({
        "status": entry.status.as_str(),
        "detected_at": shown(entry.detected_at),
        "fired_at": shown(entry.fired_at),
        "last_failure_at": shown(entry.last_failure_at),
        "detections": entry.detections,
        "fire_count": entry.fire_count,
        "failure_count": entry.failure_count,
        "mark": shown(entry.mark),
        "marks": entry.marks,
        "waits_for_clock": entry.waits_for_clock,
        "queue": queue,
    })
}

fn read_moment(value: &Value, key: &str) -> Option<Option<Moment>> {
    match value.get(key)? {
        Value::Null => Some(None),
        other => Some(Some(Moment::parse(other.as_str()?).ok()?)),
    }
}

fn read_entry(entry: Entry, value: &Value) -> Option<Entry> {
    let number = |key: &str| value.get(key)?.as_u64();
    let queue = value.get("queue")?.as_array()?.iter().map(read_cause);
    Some(Entry {
        status: Status::from_word(value.get("status")?.as_str()?)?,
        detected_at: read_moment(value, "detected_at")?,
        fired_at: read_moment(value, "fired_at")?,
        last_failure_at: read_moment(value, "last_failure_at")?,
        detections: number("detections")?,
        fire_count: number("fire_count")?,
        failure_count: number("failure_count")?,
        mark: read_moment(value, "mark")?,
        marks: number("marks")?,
        waits_for_clock: value.get("waits_for_clock")?.as_bool()?,
        queue: queue.collect::<Option<_>>()?,
        ..entry
    })
}

fn firing_value(firing: &Firing) -> Value {
    let stage = match firing.stage {
        Stage::Waits(us) => json!({"waits": us}),
        Stage::Due(due) => json!({"due": due.to_string()}),
        Stage::Acts => json!("acts"),
        Stage::Verifies => json!("verifies"),
        Stage::ActsAgain => json!("acts again"),
        Stage::VerifiesAgain => json!("verifies again"),
    };
    json!({
        "id": firing.id,
        "trigger": firing.trigger,
        "cause": cause_value(&firing.cause),
        "number": firing.number,
        "action": firing.action,
        "stage": stage,
    })
}

fn read_firing(value: &Value) -> Option<Firing> {
    let stage = value.get("stage")?;
    let stage = match (stage.get("waits"), stage.get("due"), stage.as_str()) {
        (Some(us), ..) => Stage::Waits(us.as_i64()?),
        (_, Some(due), _) => Stage::Due(Moment::parse(due.as_str()?).ok()?),
        (_, _, Some("acts")) => Stage::Acts,
        (_, _, Some("verifies")) => Stage::Verifies,
        (_, _, Some("acts again")) => Stage::ActsAgain,
        (_, _, Some("verifies again")) => Stage::VerifiesAgain,
        _ => return None,
    };
    Some(Firing {
        id: value.get("id")?.as_u64()?,
        trigger: value.get("trigger")?.as_str()?.to_owned(),
        cause: read_cause(value.get("cause")?)?,
        number: value.get("number")?.as_u64()?,
        action: usize::try_from(value.get("action")?.as_u64()?).ok()?,
        stage,
    })
}
