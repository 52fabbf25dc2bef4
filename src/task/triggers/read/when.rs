//! Reads what a trigger waits for and what it does.

use super::super::{Action, Deed, Start, TimeRule, Watch, When};
use super::reader::{CONFLICT, FORM, LENGTH_HELP, MISSING, NOT_YET, Reader, get};
use crate::json::{Map, Value};
use crate::task::moment::parse_length;

impl Reader {
    pub(super) fn watch(
        &mut self,
        at: &str,
        all: &Map<String, Value>,
        what: &str,
    ) -> Option<Watch> {
        let tool = self.needed(at, all, "tool", what);
        let conditions = self.conditions(at, all);
        let repeats = self.flag(at, all, "repeat").unwrap_or(false);
        let roles = self.texts(at, all, "roles");
        Some(Watch {
            tool: tool?,
            conditions,
            repeats,
            roles,
        })
    }

    pub(super) fn when(&mut self, at: &str, value: &Value) -> Option<When> {
        // What is known and not served is no choice.
        let kinds = ["action", "state", "time"];
        let Some(members) = value.as_object() else {
            self.object(at, value, &[]);
            return None;
        };
        if members.get("type").and_then(Value::as_str) == Some("website") {
            let headline = "websites are not served in this release, so none can set a trigger off";
            self.fault(
                NOT_YET,
                &format!("{at}/type"),
                headline.to_owned(),
                "watch a tool with \"type\": \"action\"",
            );
            return None;
        }
        let kind = self.one_of(at, members, "type", "`when`", &kinds)?;
        match kind.as_str() {
            "action" => {
                let all = self.object(at, value, &["type", "tool", "where", "repeat", "roles"])?;
                self.watch(at, all, "`when`").map(When::Action)
            }
            "state" => {
                let all = self.object(at, value, &["type", "check", "roles"])?;
                let roles = self.texts(at, all, "roles");
                let Some(check) = get(all, "check") else {
                    self.missing(at, "check", "`when`");
                    return None;
                };
                let check = self.check(&format!("{at}/check"), check)?;
                Some(When::State { check, roles })
            }
            _ => self.time(at, value).map(When::Time),
        }
    }

    pub(super) fn time(&mut self, at: &str, value: &Value) -> Option<TimeRule> {
        let known = [
            "type", "at", "after", "offset", "every", "seed", "count", "until", "unless",
        ];
        let all = self.object(at, value, &known)?;
        let before = self.faults.len();
        let has = |key: &str| get(all, key).is_some();
        let conflict = |reader: &mut Self, key: &str, headline: &str| {
            reader.fault(CONFLICT, &format!("{at}/{key}"), headline.to_owned(), "");
        };
        if has("at") && has("after") {
            conflict(
                self,
                "after",
                "`when` has both `at` and `after`, but starts at one of them",
            );
        }
        for key in ["count", "until"] {
            if has(key) && !has("every") {
                conflict(
                    self,
                    key,
                    &format!("`{key}` needs `every`: without it the trigger fires once"),
                );
            }
        }
        if has("unless") && has("every") {
            conflict(
                self,
                "unless",
                "`unless` calls a single moment off, and `every` makes many",
            );
        }
        if has("offset") && !has("after") {
            conflict(
                self,
                "offset",
                "`offset` is a length after another trigger, which `after` names",
            );
        }
        let every = self.drawn(at, all, "every", get(all, "seed"));
        let start = if has("after") {
            let trigger = self.text(at, all, "after");
            let offset = self.text(at, all, "offset");
            if !has("offset") {
                self.missing(at, "offset", "`after`");
            }
            let offset = offset.map(|text| parse_length(&text));
            let offset = match offset {
                Some(Err(why)) => {
                    self.fault(FORM, &format!("{at}/offset"), why, LENGTH_HELP);
                    None
                }
                other => other.and_then(Result::ok),
            };
            trigger
                .zip(offset)
                .map(|(trigger, offset)| Start::After { trigger, offset })
        } else if has("at") {
            self.at(at, all, "at").map(Start::At)
        } else if has("every") {
            Some(Start::Interval)
        } else {
            let help = "add \"at\", \"after\" with \"offset\", or \"every\"";
            self.fault(MISSING, at, "nothing says when it is time".to_owned(), help);
            None
        };
        let count = self.of_type(at, all, "count", "a whole number from 1 on", |count| {
            count.as_u64().filter(|count| *count > 0)
        });
        let until = self.at(at, all, "until");
        let unless = get(all, "unless").and_then(|value| {
            let at = format!("{at}/unless");
            let all = self.object(&at, value, &["tool", "where", "roles"])?;
            self.watch(&at, all, "`unless`")
        });
        (self.faults.len() == before).then_some(TimeRule {
            start: start?,
            every,
            count,
            until,
            unless,
        })
    }

    pub(super) fn action(&mut self, at: &str, value: &Value) -> Option<Action> {
        let Some(members) = value.as_object() else {
            self.object(at, value, &[]);
            return None;
        };
        let kind = self.one_of(
            at,
            members,
            "type",
            "the action",
            &["nl", "tool", "permission"],
        )?;
        let own: &[&str] = match kind.as_str() {
            "nl" => &["type", "delay", "verify", "instruction", "executor"],
            "tool" => &["type", "delay", "verify", "tool", "args", "as"],
            _ => &["type", "delay", "verify", "action", "role", "tools"],
        };
        let all = self.object(at, value, own)?;
        let delay = self.drawn(at, all, "delay", None);
        let verify =
            get(all, "verify").and_then(|check| self.check(&format!("{at}/verify"), check));
        let deed = match kind.as_str() {
            "nl" => {
                let instruction = self.needed(at, all, "instruction", "the action");
                let executor = self.text(at, all, "executor");
                Deed::Instruct {
                    instruction: instruction?,
                    executor,
                }
            }
            "tool" => {
                let tool = self.needed(at, all, "tool", "the action");
                let arguments = self.filling(at, all);
                let role = self.text(at, all, "as");
                Deed::Call {
                    tool: tool?,
                    arguments,
                    role,
                }
            }
            _ => {
                let action = self.one_of(at, all, "action", "the action", &["enable", "disable"]);
                let role = self.needed(at, all, "role", "the action");
                let tools = match get(all, "tools") {
                    Some(Value::String(star)) if star == "*" => Some(vec![star.clone()]),
                    Some(_) => self.texts(at, all, "tools"),
                    None => {
                        self.missing(at, "tools", "the action");
                        None
                    }
                };
                Deed::Permit {
                    enabled: action? == "enable",
                    role: role?,
                    tools: tools?,
                }
            }
        };
        Some(Action {
            delay,
            verify,
            deed,
        })
    }
}
