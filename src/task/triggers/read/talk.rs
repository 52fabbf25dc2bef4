//! Reads triggers of a conversation.

use std::collections::BTreeSet;

use super::super::{Fault, TalkAction, TalkTrigger, TalkWhen};
use super::reader::{LENGTH, RANGE, Reader, TYPE, get, word};
use crate::json::{Map, Value};

/// The most triggers of an agent, and the longest text of one in bytes.
const MAX_TRIGGERS: usize = 256;
const MAX_TEXT: usize = 16 << 10;

/// How triggers of envs stand.
const STATUSES: [&str; 6] = ["armed", "firing", "queued", "fired", "failed", "cancelled"];

/// Reads a list of triggers of a conversation, whose faults are below `/triggers`. One without an id is named by its place.
pub fn read_talk_triggers(value: &Value) -> Result<Vec<TalkTrigger>, Vec<Fault>> {
    let mut reader = Reader::default();
    let triggers = reader.talk_triggers("/triggers", value);
    reader.done(triggers)
}

impl Reader {
    fn talk_triggers(&mut self, at: &str, value: &Value) -> Vec<TalkTrigger> {
        let Some(items) = value.as_array() else {
            let headline = format!("`triggers` is {}, not a list", word(value));
            self.fault(TYPE, at, headline, "write it in `[` and `]`");
            return Vec::new();
        };
        if items.is_empty() || items.len() > MAX_TRIGGERS {
            let headline = format!("`triggers` has {} items", items.len());
            let help = format!("write 1 to {MAX_TRIGGERS} triggers");
            self.fault(LENGTH, at, headline, &help);
        }
        let mut ids = BTreeSet::new();
        let mut triggers = Vec::new();
        for (ix, item) in items.iter().enumerate() {
            let here = format!("{at}/{ix}");
            if item.to_string().len() > MAX_TEXT {
                let headline = format!("the trigger is longer than {} KiB", MAX_TEXT >> 10);
                self.fault(LENGTH, &here, headline, "");
                continue;
            }
            let Some(trigger) = self.talk_trigger(&here, ix, item) else {
                continue;
            };
            if !ids.insert(trigger.id.clone()) {
                let headline = format!("another trigger has the id `{}` too", trigger.id);
                let help = "give each an id of its own";
                self.fault("duplicate-id", &format!("{here}/id"), headline, help);
            }
            triggers.push(trigger);
        }
        triggers
    }

    fn talk_trigger(&mut self, at: &str, ix: usize, value: &Value) -> Option<TalkTrigger> {
        let all = self.object(at, value, &["id", "once", "when", "actions"])?;
        let id = match get(all, "id") {
            Some(_) => self.text(at, all, "id"),
            None => Some(format!("trigger-{}", ix + 1)),
        };
        let once = self.flag(at, all, "once").unwrap_or(true);
        let when = match get(all, "when") {
            Some(when) => self.talk_when(&format!("{at}/when"), when),
            None => {
                self.missing(at, "when", "the trigger");
                None
            }
        };
        let actions = self.actions(at, all, Reader::talk_action);
        Some(TalkTrigger {
            id: id?,
            once,
            when: when?,
            actions,
        })
    }

    fn talk_action(&mut self, at: &str, value: &Value) -> Option<TalkAction> {
        let members = value.as_object();
        let Some(members) = members else {
            self.object(at, value, &[]);
            return None;
        };
        let kind = self.one_of(at, members, "type", "the action", &["say", "end"])?;
        if kind == "end" {
            self.object(at, value, &["type"])?;
            return Some(TalkAction::End);
        }
        self.object(at, value, &["type", "text"])?;
        self.needed(at, members, "text", "the action")
            .map(TalkAction::Say)
    }

    fn talk_when(&mut self, at: &str, value: &Value) -> Option<TalkWhen> {
        let kinds = ["step", "env_trigger", "conversational", "all", "any"];
        let Some(members) = value.as_object() else {
            self.object(at, value, &[]);
            return None;
        };
        let kind = self.one_of(at, members, "type", "`when`", &kinds)?;
        match kind.as_str() {
            "step" => {
                self.object(at, value, &["type", "turn", "cmp"])?;
                let turn = self.of_type(at, members, "turn", "a whole number", Value::as_u64);
                if turn == Some(0) {
                    let headline = "there is no turn 0".to_owned();
                    self.fault(RANGE, &format!("{at}/turn"), headline, "the first is 1");
                }
                let cmp = match get(members, "cmp") {
                    Some(_) => self.one_of(at, members, "cmp", "`when`", &["eq", "gte"])?,
                    None => "eq".to_owned(),
                };
                Some(TalkWhen::Step {
                    turn: turn.unwrap_or(1),
                    and_later: cmp == "gte",
                })
            }
            "env_trigger" => {
                self.object(at, value, &["type", "env_id", "trigger_id", "status"])?;
                let env_id = self.needed(at, members, "env_id", "`when`");
                let trigger_id = self.needed(at, members, "trigger_id", "`when`");
                let status = match get(members, "status") {
                    Some(_) => self.one_of(at, members, "status", "`when`", &STATUSES),
                    None => Some("fired".to_owned()),
                };
                Some(TalkWhen::Env {
                    env_id: env_id?,
                    trigger_id: trigger_id?,
                    status: status?,
                })
            }
            "conversational" => {
                self.object(at, value, &["type", "where"])?;
                let Some(found) = get(members, "where") else {
                    self.missing(at, "where", "`when`");
                    return None;
                };
                let here = format!("{at}/where");
                let said = self.object(&here, found, &["message"])?;
                let Some(predicate) = get(said, "message") else {
                    self.missing(&here, "message", "`where`");
                    return None;
                };
                self.predicate(&format!("{here}/message"), predicate)
                    .map(TalkWhen::Said)
            }
            _ => {
                self.object(at, value, &["type", "of"])?;
                let of = self.talk_whens(at, members);
                Some(match kind.as_str() {
                    "all" => TalkWhen::All(of),
                    _ => TalkWhen::Any(of),
                })
            }
        }
    }

    fn talk_whens(&mut self, at: &str, members: &Map<String, Value>) -> Vec<TalkWhen> {
        let at = format!("{at}/of");
        let Some(list) = get(members, "of").and_then(Value::as_array) else {
            let headline = "`of` is not a list".to_owned();
            self.fault(TYPE, &at, headline, "list what is looked at");
            return Vec::new();
        };
        if list.is_empty() {
            let headline = "`of` is empty".to_owned();
            self.fault(LENGTH, &at, headline, "list what is looked at");
        }
        let each = list.iter().enumerate();
        each.filter_map(|(ix, when)| self.talk_when(&format!("{at}/{ix}"), when))
            .collect()
    }
}
