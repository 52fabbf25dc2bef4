//! What is known of the run that led to a reply, as a verifier gets to know it.
//!
//! What nobody recorded is named with the reason, so that a verifier can tell "it did not happen" from "nobody knows".

use crate::context::Lookup;
use crate::json::{Map, Value, json};
use crate::step::StepCx;
use crate::steps::on_triggers;

/// Returns the facts of a run of which nothing is known.
pub(super) fn no_run() -> Value {
    let why = "the step names no `prompt_id`";
    json!({"turns": [], "firings": [], "unavailable": {"turns": why, "replies": why, "firings": why}})
}

/// Returns the facts of the run that led to a reply.
pub(super) fn run(cx: StepCx<'_>, reply: &Value) -> Value {
    let step = reply.get("step_id").and_then(Value::as_str).unwrap_or("");
    let mut unavailable = Map::new();
    let fired = cx.find(&Lookup::metadata(&["agent_trigger_firings", step]));
    let fired = fired.as_deref().and_then(Value::as_array);
    let mut firings = Vec::new();
    match fired {
        Some(turns) => firings.extend(turns.iter().flat_map(user_firings)),
        None => {
            let why = "no step recorded the triggers of the user's agent";
            unavailable.insert("firings of user_agent".to_owned(), why.into());
        }
    }
    match on_triggers::firings(cx) {
        Some((of_envs, lost)) => {
            firings.extend(of_envs);
            for (env, why) in lost {
                unavailable.insert(format!("firings of env:{env}"), why.into());
            }
        }
        None => {
            let why = "no step recorded the triggers of the envs";
            unavailable.insert("firings".to_owned(), why.into());
        }
    }
    let simulated = cx.find(&Lookup::metadata(&["usersim_turn_outputs", step]));
    let turns = turns(reply, &firings, simulated.as_deref());
    if turns.len() == 1 {
        // What the only turn set off is a part of it; when time set something off nobody knows.
        let own = firings
            .iter_mut()
            .filter(|firing| firing["provoked_by"] == step);
        own.filter(|_| !step.is_empty())
            .for_each(|firing| firing["turn"] = json!(1));
    }
    if turns.len() > 1 {
        let why = "only the reply of the last turn was kept";
        unavailable.insert("replies".to_owned(), why.into());
    }
    json!({"turns": turns, "firings": firings, "unavailable": unavailable})
}

fn user_firings(turn: &Value) -> Vec<Value> {
    let number = turn.get("turn").and_then(Value::as_u64).unwrap_or(0);
    let fired = turn.get("fired").and_then(Value::as_array);
    fired
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|id| {
            json!({
                "trigger_id": id, "source": "user_agent", "turn": number, "at": null, "virtual_time": null,
                "ok": true, "provoked_by": null,
            })
        })
        .collect()
}

fn turns(reply: &Value, firings: &[Value], simulated: Option<&Value>) -> Vec<Value> {
    let prompt = reply
        .get("prompt_text")
        .and_then(Value::as_str)
        .unwrap_or("");
    let once = [Value::Null];
    let per_turn = reply
        .get("source_agent_per_turn_prompt_parts")
        .and_then(Value::as_array)
        .filter(|turns| !turns.is_empty())
        .map_or(&once[..], Vec::as_slice);
    let simulated = simulated.and_then(Value::as_array);
    // What the user says in a turn was decided at the end of the turn before.
    let is_before = |value: &&Value, number: usize| {
        value.get("turn").and_then(Value::as_u64) == Some(number as u64 - 1)
    };
    let turn = |(at, parts): (usize, &Value)| {
        let number = at + 1;
        let (text, parts) = match parts.as_array() {
            Some(parts) => (text_of(parts), json!(parts)),
            None => (prompt.to_owned(), json!([{"kind": "text", "text": prompt}])),
        };
        let triggers: Vec<&Value> = firings
            .iter()
            .filter(|firing| number > 1 && is_before(firing, number))
            .map(|firing| &firing["trigger_id"])
            .collect();
        let user_sim = simulated
            .into_iter()
            .flatten()
            .find(|turn| number > 1 && is_before(turn, number))
            .and_then(|turn| turn.get("fields"));
        let author = match (number, &triggers[..]) {
            (1, _) => "task",
            (_, []) => "user",
            _ => "triggers",
        };
        let answer = (number == per_turn.len()).then(|| answer(reply, number));
        json!({
            "number": number,
            "message": {
                "turn": number, "role": "user", "text": text, "sent_at": null, "author": author,
                "written_by_triggers": triggers, "user_sim": user_sim, "parts": parts, "env_clock": null,
            },
            "reply": answer,
        })
    };
    per_turn.iter().enumerate().map(turn).collect()
}

fn answer(reply: &Value, number: usize) -> Value {
    let text = reply.get("response").and_then(Value::as_str).unwrap_or("");
    json!({
        "turn": number, "role": "agent", "text": text, "sent_at": null, "author": reply.get("agent_name"),
        "written_by_triggers": [], "user_sim": null, "parts": [{"kind": "text", "text": text}], "env_clock": null,
    })
}

/// Returns the texts among the parts of a message.
fn text_of(parts: &[Value]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| part.get("text").and_then(Value::as_str))
        .collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::FakeServices;
    use crate::task::StepId;
    use expect_test::{Expect, expect};

    fn check(world: FakeServices, reply: Value, expected: Expect) {
        let cx = StepCx {
            step: &StepId::new("check"),
            services: &world,
        };
        let facts = run(cx, &reply);
        let lines = facts["turns"].as_array().unwrap().iter();
        let mut shown: String = lines.map(|turn| format!("turn {turn}\n")).collect();
        shown += &format!(
            "firings {}\nunavailable {}\n",
            facts["firings"], facts["unavailable"]
        );
        expected.assert_eq(&shown);
    }

    #[test]
    fn one_prompt_is_one_turn_of_which_all_was_said() {
        let reply = json!({
            "prompt_text": "Hello", "response": "Hi", "agent_name": "a", "step_id": "ask",
            "source_agent_per_turn_prompt_parts": [null],
        });
        check(
            FakeServices::new(),
            reply,
            expect![[r#"
            turn {"message":{"author":"task","env_clock":null,"parts":[{"kind":"text","text":"Hello"}],"role":"user","sent_at":null,"text":"Hello","turn":1,"user_sim":null,"written_by_triggers":[]},"number":1,"reply":{"author":"a","env_clock":null,"parts":[{"kind":"text","text":"Hi"}],"role":"agent","sent_at":null,"text":"Hi","turn":1,"user_sim":null,"written_by_triggers":[]}}
            firings []
            unavailable {"firings":"no step recorded the triggers of the envs","firings of user_agent":"no step recorded the triggers of the user's agent"}
        "#]],
        );
        check(
            FakeServices::new(),
            json!({}),
            expect![[r#"
            turn {"message":{"author":"task","env_clock":null,"parts":[{"kind":"text","text":""}],"role":"user","sent_at":null,"text":"","turn":1,"user_sim":null,"written_by_triggers":[]},"number":1,"reply":{"author":null,"env_clock":null,"parts":[{"kind":"text","text":""}],"role":"agent","sent_at":null,"text":"","turn":1,"user_sim":null,"written_by_triggers":[]}}
            firings []
            unavailable {"firings":"no step recorded the triggers of the envs","firings of user_agent":"no step recorded the triggers of the user's agent"}
        "#]],
        );
    }

    #[test]
    fn what_triggers_of_an_env_did_is_part_of_the_run() {
        let event = |kind: &str, id: &str, step: Option<&str>| json!({"kind": kind, "trigger_id": id, "virtual_time": "2026-03-02T09:00:00Z", "step": step});
        let events = [
            event("added", "a", None),
            event("fired", "a", Some("ask")),
            event("failed", "b", Some("earlier")),
            event("fired", "c", None),
        ];
        let world = FakeServices::new();
        let url = world.store(&crate::steps::on_agent::lines(&events)).url();
        let world = world.metadata(
            &["env_trigger_state"],
            json!({"mail": {"statuses": {}, "object_url": url}}),
        );
        let reply = json!({"prompt_text": "Hello", "response": "Hi", "step_id": "ask"});
        check(
            world,
            reply,
            expect![[r#"
            turn {"message":{"author":"task","env_clock":null,"parts":[{"kind":"text","text":"Hello"}],"role":"user","sent_at":null,"text":"Hello","turn":1,"user_sim":null,"written_by_triggers":[]},"number":1,"reply":{"author":null,"env_clock":null,"parts":[{"kind":"text","text":"Hi"}],"role":"agent","sent_at":null,"text":"Hi","turn":1,"user_sim":null,"written_by_triggers":[]}}
            firings [{"at":null,"ok":true,"provoked_by":"ask","source":"env:mail","trigger_id":"a","turn":1,"virtual_time":"2026-03-02T09:00:00Z"},{"at":null,"ok":false,"provoked_by":"earlier","source":"env:mail","trigger_id":"b","turn":null,"virtual_time":"2026-03-02T09:00:00Z"},{"at":null,"ok":true,"provoked_by":null,"source":"env:mail","trigger_id":"c","turn":null,"virtual_time":"2026-03-02T09:00:00Z"}]
            unavailable {"firings of user_agent":"no step recorded the triggers of the user's agent"}
        "#]],
        );
    }

    #[test]
    fn later_turns_say_who_wrote_them() {
        let reply = json!({
            "prompt_text": "Hello", "response": "Bye", "step_id": "ask",
            "source_agent_per_turn_prompt_parts": [
                null,
                [{"kind": "text", "text": "And?"}, {"kind": "data", "data": {}}, {"kind": "text", "text": "Now?"}],
                [{"kind": "text", "text": "The door opens"}],
            ],
        });
        let world = FakeServices::new()
            .metadata(
                &["agent_trigger_firings", "ask"],
                json!([{"turn": 2, "fired": ["door"]}]),
            )
            .metadata(
                &["usersim_turn_outputs", "ask"],
                json!([{"turn": 1, "fields": {"mood": "calm"}}]),
            )
            .metadata(
                &["env_trigger_state"],
                json!({
                    "calm": {"triggers": {"t": {"fire_count": 0}}},
                    "busy": {"triggers": {"t": {"fire_count": 2}}},
                }),
            );
        check(
            world,
            reply,
            expect![[r#"
                turn {"message":{"author":"task","env_clock":null,"parts":[{"kind":"text","text":"Hello"}],"role":"user","sent_at":null,"text":"Hello","turn":1,"user_sim":null,"written_by_triggers":[]},"number":1,"reply":null}
                turn {"message":{"author":"user","env_clock":null,"parts":[{"kind":"text","text":"And?"},{"data":{},"kind":"data"},{"kind":"text","text":"Now?"}],"role":"user","sent_at":null,"text":"And?\nNow?","turn":2,"user_sim":{"mood":"calm"},"written_by_triggers":[]},"number":2,"reply":null}
                turn {"message":{"author":"triggers","env_clock":null,"parts":[{"kind":"text","text":"The door opens"}],"role":"user","sent_at":null,"text":"The door opens","turn":3,"user_sim":null,"written_by_triggers":["door"]},"number":3,"reply":{"author":null,"env_clock":null,"parts":[{"kind":"text","text":"Bye"}],"role":"agent","sent_at":null,"text":"Bye","turn":3,"user_sim":null,"written_by_triggers":[]}}
                firings [{"at":null,"ok":true,"provoked_by":null,"source":"user_agent","trigger_id":"door","turn":2,"virtual_time":null}]
                unavailable {"firings of env:busy":"the events of its triggers were not kept","replies":"only the reply of the last turn was kept"}
            "#]],
        );
    }
}
