//! Tables: what happens, line by line, and what the machine answers.

mod tables;

use expect_test::{Expect, expect};

use super::*;
use crate::json::from_slice;
use crate::task::moment::parse_length;
use crate::task::triggers::read_registration;

/// Tells an engine what the lines say, and writes down what it answers.
fn told(script: &str) -> String {
    let (mut engine, mut now) = (Engine::default(), None::<Moment>);
    let mut seen = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let json = |text: &str| -> Value { from_slice(text.as_bytes()).unwrap() };
        let effects = match word {
            "register" => {
                let value = json(&format!("{{{rest}}}"));
                let said = match read_registration(&value) {
                    Ok(more) => match engine.register(more, now) {
                        Ok(added) => format!("added {}", added.join(", ")),
                        Err(why) => format!("refused: {why}"),
                    },
                    Err(faults) => format!("faults: {faults:?}"),
                };
                seen.push_str(&format!("{said}\n"));
                engine.on(Event::Tick, now)
            }
            "clock" => {
                now = Some(Moment::parse(rest).unwrap());
                engine.clock_was_set(now);
                engine.on(Event::Tick, now)
            }
            "after" => {
                now = now.map(|now| now.after(parse_length(rest).unwrap()));
                engine.on(Event::Tick, now)
            }
            "call" => {
                let mut words = rest.splitn(3, ' ');
                let role = words.next().unwrap();
                let tool = words.next().unwrap();
                let scope = json(words.next().unwrap_or("{\"args\": {}, \"result\": {}}"));
                let heard = Heard {
                    tool: tool.trim_end_matches('!'),
                    role,
                    step: "",
                    call: 0,
                    scope: &scope,
                    is_error: tool.ends_with('!'),
                    may_change: true,
                    depth: 0,
                };
                engine.on(Event::Call(heard), now)
            }
            "done" => engine.on(
                Event::Acted {
                    firing: rest.parse().unwrap(),
                    outcome: Ok(()),
                },
                now,
            ),
            "failed" => {
                let outcome = Err("it broke".to_owned());
                engine.on(
                    Event::Acted {
                        firing: rest.parse().unwrap(),
                        outcome,
                    },
                    now,
                )
            }
            "looked" => {
                let (trigger, bound) = rest.split_once(' ').unwrap();
                let outcome = Ok(json(bound).as_object().cloned());
                engine.on(
                    Event::Looked {
                        trigger: trigger.to_owned(),
                        after: After {
                            depth: 0,
                            step: String::new(),
                            call: 0,
                        },
                        outcome,
                    },
                    now,
                )
            }
            "holds" | "not" => {
                let outcome = Ok(word == "holds");
                engine.on(
                    Event::Verified {
                        firing: rest.parse().unwrap(),
                        outcome,
                    },
                    now,
                )
            }
            "remove" => {
                let removed = engine.remove(&[rest.to_owned()], now);
                seen.push_str(&format!("removed {removed:?}\n"));
                Vec::new()
            }
            "state" => {
                let state = engine.state();
                for trigger in state["triggers"].as_array().unwrap() {
                    seen.push_str(&format!(
                        "{} {}, fired {}, failed {}, queued {}, next {}\n",
                        trigger["id"],
                        trigger["status"],
                        trigger["fire_count"],
                        trigger["failure_count"],
                        trigger["pending"],
                        trigger["next_mark"],
                    ));
                }
                Vec::new()
            }
            "events" => {
                for event in engine.state()["events"].as_array().unwrap() {
                    seen.push_str(&format!("  {event}\n"));
                }
                Vec::new()
            }
            "keep" => {
                // What is kept comes back the same.
                let kept = engine.to_value();
                let back = Engine::from_value(&kept, engine.start).unwrap();
                engine.log.close();
                assert_eq!(back, engine);
                assert_eq!(back.to_value(), kept);
                engine = back;
                Vec::new()
            }
            other => panic!("a script has no `{other}`"),
        };
        for effect in effects {
            seen.push_str(&format!("{line} -> {}\n", shown(&effect)));
        }
    }
    seen
}

fn shown(effect: &Effect) -> String {
    match effect {
        Effect::Look { trigger, .. } => format!("look for {trigger}"),
        Effect::Act {
            firing,
            trigger,
            order,
            ..
        } => {
            let order = match order {
                Order::Instruct { agent, text, .. } => format!("tell {agent}: {text}"),
                Order::Call {
                    tool,
                    arguments,
                    role,
                } => {
                    let arguments = Value::Object(arguments.clone());
                    format!(
                        "call {tool} {arguments} as {}",
                        role.as_deref().unwrap_or("itself")
                    )
                }
                Order::Permit {
                    enabled,
                    role,
                    tools,
                } => format!("permit {enabled} {role} {tools:?}"),
            };
            format!("{firing} of {trigger}: {order}")
        }
        Effect::Verify { firing, scope, .. } => format!("verify {firing} {scope}"),
        Effect::Came { trigger, status } => format!("{trigger} came to {}", status.as_str()),
    }
}

fn check(script: &str, expect: Expect) {
    let seen = told(script);
    assert_eq!(seen, told(script), "the same events give the same effects");
    expect.assert_eq(&seen);
}

const NOTE: &str = r#"{"type": "tool", "tool": "note", "args": {"text": "${args.subject}"}}"#;
const PLAIN: &str = r#"{"type": "tool", "tool": "note", "args": {}}"#;

fn with(script: &str) -> String {
    script.replace("NOTE", NOTE).replace("PLAIN", PLAIN)
}
