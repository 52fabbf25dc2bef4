//! A gate before the mailbox that is compiled in, with triggers and a clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::{Expect, expect};

use super::*;
use crate::json::{Map, Value, json};
use crate::step::env::{LiveEnv, answer_of};
use crate::step::sandbox::BoxFuture;
use crate::step::trigger::{Executor, Timed as _};
use crate::system::{MemorySystem, locked};
use crate::task::deploy::ClockMode;

struct Nowhere;

impl Keeper for Nowhere {
    fn keep(&self, _: &std::path::Path) -> Option<String> {
        None
    }
}

/// An env and what is needed to work on it.
struct World {
    gate: Arc<Gate>,
    env: EnvHandle,
    gateway: Arc<Gateway>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new(clock: ClockMode) -> World {
        let folder = tempfile::tempdir().unwrap();
        let settings = GateSettings {
            env_id: "mail".to_owned(),
            call_timeout: Duration::from_secs(20),
            read_only_tools: Vec::new(),
            volatile: Vec::new(),
            exports: true,
            can_export: true,
            clock,
        };
        let server = crate::provider::builtin::start("mail", "mail").unwrap();
        let system = Arc::new(MemorySystem::new());
        let recorder = Recorder::new(folder.path().join("calls.jsonl"), Arc::new(Nowhere), system);
        let gate = Gate::new(settings, server, recorder, Vec::new());
        let gateway = Gateway::new();
        let caller = Caller::new("week", "default").passing_time(true);
        World {
            env: EnvHandle::new(gate.clone(), gateway.clone(), caller),
            gate,
            gateway,
            _folder: folder,
        }
    }

    fn of_step(&self, step: &str) -> EnvHandle {
        let caller = Caller::new(step, "default").passing_time(true);
        EnvHandle::new(self.gate.clone(), self.gateway.clone(), caller)
    }

    async fn register(&self, registration: Value) -> String {
        match self.env.register(&registration).await {
            Ok(added) => added.join(" "),
            Err(error) => error.to_string(),
        }
    }

    async fn monday(&self, rate: f64) {
        self.env
            .set_clock("2026-03-02T09:00:00Z", rate)
            .await
            .unwrap();
    }

    async fn say(&self, tool: &str, arguments: Value) -> Value {
        say(&self.env, tool, arguments).await
    }

    async fn subjects(&self) -> String {
        let listed = self.say("list_emails", json!({})).await;
        let emails = listed["emails"].as_array().unwrap().iter();
        let lines = emails.map(|email| {
            format!(
                "{} {} from {}\n",
                email["timestamp"].as_str().unwrap(),
                email["subject"],
                email["sender"]
            )
        });
        lines.collect()
    }

    fn statuses(&self) -> String {
        let state = self.env.state();
        let triggers = state["triggers"].as_array().unwrap().iter();
        let lines = triggers.map(|trigger| format!("{} {}\n", trigger["id"], trigger["status"]));
        lines.collect()
    }

    /// Returns what of the record tells of triggers and time.
    fn record(&self) -> String {
        let lines = String::from_utf8(self.gate.lines().unwrap()).unwrap();
        let mut shown = String::new();
        for line in lines.lines() {
            let line: Value = crate::json::from_slice(line.as_bytes()).unwrap();
            let text = |key: &str| {
                line.get(key)
                    .map_or(String::new(), |value| format!(" {key}={value}"))
            };
            shown.push_str(&format!(
                "{} {}{}{}{}\n",
                line["kind"].as_str().unwrap(),
                line["name"].as_str().unwrap(),
                text("role"),
                text("caused_by"),
                text("virtual_time"),
            ));
        }
        shown
    }
}

async fn say(env: &dyn LiveEnv, tool: &str, arguments: Value) -> Value {
    let arguments = arguments.as_object().cloned().unwrap_or_else(Map::new);
    match env.call(tool, arguments).await {
        Ok(result) => answer_of(&result),
        Err(error) => json!(error.to_string()),
    }
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let limit = Duration::from_secs(60);
    let ended = runtime
        .unwrap()
        .block_on(async { tokio::time::timeout(limit, work).await });
    ended.expect("it ends");
}

fn mail(subject: &str) -> Value {
    json!({"type": "tool", "tool": "receive_email", "args": {"sender": "dana@example.com", "subject": subject, "content": "."}})
}

fn check(shown: String, expect: Expect) {
    expect.assert_eq(&shown);
}

#[test]
fn mail_comes_while_an_agent_waits() {
    run(async {
        let world = World::new(ClockMode::Event);
        let triggers = json!([
            {"id": "tuesday", "when": {"type": "time", "at": "2026-03-03T08:30:00Z"}, "actions": [mail("Tuesday")]},
            {"id": "daily", "when": {"type": "time", "every": "P1D", "count": 2}, "actions": [mail("Daily")]},
            {"id": "answer", "when": {"type": "action", "tool": "reply_to_email"}, "actions": [
                {"type": "tool", "tool": "receive_email", "delay": "PT2H", "args": {
                    "sender": "dana@example.com", "subject": "Thanks", "content": "You wrote: ${args.content}", "parent_id": "${args.email_id}"}},
            ]},
            {"id": "late", "when": {"type": "time", "after": "tuesday", "offset": "P1D", "unless": {"tool": "reply_to_email"}}, "actions": [mail("Late!")]},
        ]);
        assert_eq!(
            world.register(json!({"triggers": triggers})).await,
            "tuesday daily answer late"
        );
        assert_eq!(
            world.say("get_time", json!({})).await,
            json!("env `mail` answered tools/call with error -32602: there is no tool `get_time`")
        );
        world.monday(3600.0).await;
        let zone = json!({"time_zone": "Europe/Berlin"});
        check(
            world.say("get_time", zone).await.to_string(),
            expect![[
                r#"{"current_time":"2026-03-02T09:00:00Z","local_time":"2026-03-02T10:00:00+01:00","time_zone":"Europe/Berlin"}"#
            ]],
        );
        check(world.subjects().await, expect![[""]]);
        check(
            world
                .say("wait_until", json!({"duration": "P1D"}))
                .await
                .to_string(),
            expect![[r#"{"current_time":"2026-03-03T09:00:00Z"}"#]],
        );
        check(
            world.subjects().await,
            expect![[r#"
            2026-03-03T09:00:00Z "Daily" from "dana@example.com"
            2026-03-03T08:30:00Z "Tuesday" from "dana@example.com"
        "#]],
        );
        world
            .say(
                "reply_to_email",
                json!({"email_id": "email-1", "content": "Fine."}),
            )
            .await;
        check(
            world.statuses(),
            expect![[r#"
            "tuesday" "fired"
            "daily" "armed"
            "answer" "firing"
            "late" "cancelled"
        "#]],
        );
        let settled = world.env.settle().await;
        check(
            settled["statuses"].to_string(),
            expect![[r#"{"answer":"fired","daily":"armed","late":"cancelled","tuesday":"fired"}"#]],
        );
        world
            .say("wait_until", json!({"time": "2026-03-06T17:00:00Z"}))
            .await;
        check(
            world.subjects().await,
            expect![[r#"
            2026-03-04T09:00:00Z "Daily" from "dana@example.com"
            2026-03-03T11:00:00Z "Thanks" from "dana@example.com"
            2026-03-03T09:00:00Z "Daily" from "dana@example.com"
            2026-03-03T08:30:00Z "Tuesday" from "dana@example.com"
        "#]],
        );
        check(
            world.statuses(),
            expect![[r#"
            "tuesday" "fired"
            "daily" "fired"
            "answer" "fired"
            "late" "cancelled"
        "#]],
        );
        check(
            world.record(),
            expect![[r#"
                triggers register role="default"
                tool get_time role="default"
                clock set role="default" virtual_time="2026-03-02T09:00:00Z"
                clock get_time role="default" virtual_time="2026-03-02T09:00:00Z"
                tool list_emails role="default" virtual_time="2026-03-02T09:00:00Z"
                tool receive_email role="trigger" caused_by="tuesday" virtual_time="2026-03-03T08:30:00Z"
                trigger_fired tuesday role="trigger" caused_by="tuesday" virtual_time="2026-03-03T08:30:00Z"
                tool receive_email role="trigger" caused_by="daily" virtual_time="2026-03-03T09:00:00Z"
                trigger_fired daily role="trigger" caused_by="daily" virtual_time="2026-03-03T09:00:00Z"
                clock wait_until role="default" virtual_time="2026-03-03T09:00:00Z"
                tool list_emails role="default" virtual_time="2026-03-03T09:00:00Z"
                tool reply_to_email role="default" virtual_time="2026-03-03T09:00:00Z"
                trigger late role="trigger" caused_by="late" virtual_time="2026-03-03T09:00:00Z"
                tool receive_email role="trigger" caused_by="answer" virtual_time="2026-03-03T11:00:00Z"
                trigger_fired answer role="trigger" caused_by="answer" virtual_time="2026-03-03T11:00:00Z"
                clock pass_to role="default" virtual_time="2026-03-03T11:00:00Z"
                tool receive_email role="trigger" caused_by="daily" virtual_time="2026-03-04T09:00:00Z"
                trigger_fired daily role="trigger" caused_by="daily" virtual_time="2026-03-04T09:00:00Z"
                clock wait_until role="default" virtual_time="2026-03-06T17:00:00Z"
                tool list_emails role="default" virtual_time="2026-03-06T17:00:00Z"
            "#]],
        );
        for bad in [
            json!({}),
            json!({"time": "soon"}),
            json!({"duration": 1}),
            json!({"time": "2026-03-06T17:00:00Z", "duration": "P1D"}),
        ] {
            let answer = world.say("wait_until", bad).await;
            assert!(answer.is_string(), "{answer}");
        }
    });
}

#[test]
fn a_deadline_passes_where_nobody_answers() {
    run(async {
        let world = World::new(ClockMode::Event);
        let permission = json!({"type": "permission", "action": "disable", "role": "default", "tools": ["send_email"]});
        let late = json!({"id": "late", "when": {"type": "time", "at": "PT8H", "unless": {"tool": "send_email"}}, "actions": [permission]});
        world.monday(1.0).await;
        world.register(json!({"triggers": [late]})).await;
        world.say("wait_until", json!({"duration": "PT9H"})).await;
        check(
            world.statuses(),
            expect![[r#"
            "late" "fired"
        "#]],
        );
        let sent = json!({"recipients": ["dana@example.com"], "subject": "x", "content": "y"});
        check(
            world.say("send_email", sent).await.to_string(),
            expect![[r#""role `default` may not use tool `send_email` of env `mail`""#]],
        );
    });
}

#[test]
fn a_snapshot_holds_the_triggers_and_the_clock() {
    run(async {
        let world = World::new(ClockMode::Event);
        let triggers = json!([
            {"id": "sent", "when": {"type": "action", "tool": "send_email"}, "actions": [mail("Got it")]},
            {"id": "later", "when": {"type": "time", "every": "PT1H"}, "actions": [mail("Later")]},
            {"id": "slow", "when": {"type": "action", "tool": "send_email"}, "actions": [{"type": "tool", "tool": "receive_email", "delay": "P1D", "args": {"sender": "sam@example.com", "subject": "Slow", "content": "."}}]},
        ]);
        let bare = world.gate.snapshot().await.unwrap();
        world.register(json!({"triggers": triggers})).await;
        world.monday(1.0).await;
        let sent = json!({"recipients": ["dana@example.com"], "subject": "x", "content": "y"});
        world.say("send_email", sent).await;
        world.say("wait_until", json!({"duration": "PT90M"})).await;
        let kept = world.gate.snapshot().await.unwrap();
        assert_eq!(kept, world.gate.snapshot().await.unwrap());
        let other = World::new(ClockMode::Event);
        other.gate.restore(&kept).await.unwrap();
        assert_eq!(
            other.gate.snapshot().await.unwrap(),
            kept,
            "the same state is the same bytes"
        );
        for world in [&world, &other] {
            world
                .say("wait_until", json!({"time": "2026-03-03T09:00:00Z"}))
                .await;
        }
        assert_eq!(other.statuses(), world.statuses());
        assert_eq!(other.subjects().await, world.subjects().await);
        check(
            other.statuses(),
            expect![[r#"
            "sent" "fired"
            "later" "armed"
            "slow" "fired"
        "#]],
        );
        assert_eq!(
            world.gate.snapshot().await.unwrap(),
            other.gate.snapshot().await.unwrap()
        );
        other.gate.restore(&bare).await.unwrap();
        assert_eq!(other.statuses(), "");
        assert_eq!(other.gate.snapshot().await.unwrap(), bare);
    });
}

#[test]
fn recorded_calls_bring_triggers_back_without_firing_them_again() {
    run(async {
        let world = World::new(ClockMode::Event);
        let triggers = json!([{"id": "sent", "when": {"type": "action", "tool": "send_email", "repeat": true}, "actions": [mail("Got it")]}]);
        world.register(json!({"triggers": triggers})).await;
        world.monday(1.0).await;
        let sent = json!({"recipients": ["dana@example.com"], "subject": "x", "content": "y"});
        world.say("send_email", sent).await;
        world.say("wait_until", json!({"duration": "PT1H"})).await;
        let recipe = world.gate.recipe().unwrap();
        let names: Vec<&str> = recipe.calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["send_email", "receive_email"]);
        let recipe = Recipe::from_bytes(&recipe.to_bytes()).unwrap();
        assert_eq!(recipe.to_bytes(), world.gate.recipe().unwrap().to_bytes());
        let other = World::new(ClockMode::Event);
        let replayed = other.gate.replay(&recipe).await;
        assert_eq!(replayed, Ok(()));
        assert_eq!(other.statuses(), world.statuses());
        let now = json!({"current_time": "2026-03-02T10:00:00Z"});
        assert_eq!(other.say("get_time", json!({})).await, now);
    });
}

/// An agent that answers every instruction by a call, or cannot.
struct Sam {
    env: Arc<dyn LiveEnv>,
    told: Mutex<Vec<String>>,
}

impl Executor for Sam {
    fn instruct<'a>(
        &'a self,
        trigger: &'a str,
        text: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            locked(&self.told).push(format!("{trigger}, {} s: {text}", limit.as_secs()));
            if text.contains("nothing") {
                return Ok(());
            }
            let waited = say(&*self.env, "wait_until", json!({"duration": "PT1H"})).await;
            locked(&self.told).push(waited.to_string());
            let arguments =
                json!({"sender": "sam@example.com", "subject": "From Sam", "content": "."});
            match say(&*self.env, "receive_email", arguments).await {
                Value::String(why) => Err(why),
                _ => Ok(()),
            }
        })
    }
}

#[test]
fn an_agent_follows_instructions_in_its_role() {
    run(async {
        let world = World::new(ClockMode::Event);
        let check_mail = json!({"tool": "search_emails", "args": {"query": "from:sam"}, "extract": "total", "predicate": {"equals": 1}});
        let triggers = json!([
            {"id": "ask", "when": {"type": "action", "tool": "mark_email"}, "actions": [{"type": "nl", "instruction": "Write to the user.", "verify": check_mail}]},
            {"id": "lazy", "when": {"type": "time", "at": "PT1H"}, "actions": [{"type": "nl", "instruction": "Do nothing.", "verify": {"tool": "search_emails", "args": {"query": "from:nobody"}, "extract": "emails", "predicate": {"exists": true}}}]},
            {"id": "came", "when": {"type": "state", "check": {"steps": [
                {"tool": "search_emails", "args": {"query": "from:sam"}, "extract": {"path": "emails", "take": "[0].email_id"}, "bind": "id"},
                {"tool": "get_email_by_id", "args": {"email_id": "${id}"}, "extract": "content", "predicate": {"regex": "\\."}},
            ]}, "roles": ["world"]}, "actions": [{"type": "tool", "tool": "mark_email", "args": {"email_id": "${id}", "is_read": true}}]},
        ]);
        let executor = json!({"agent": "sam", "role": "world", "timeout_seconds": 7});
        let registration = json!({"executor": executor, "triggers": triggers});
        assert_eq!(world.register(registration).await, "ask lazy came");
        world.monday(1.0).await;
        world
            .env
            .set_access("world", &["receive_email".to_owned()], true)
            .unwrap();
        world
            .say(
                "send_email",
                json!({"recipients": ["a@b"], "subject": "x", "content": "y"}),
            )
            .await;
        world
            .say(
                "mark_email",
                json!({"email_id": "email-1", "is_read": true}),
            )
            .await;
        check(
            world.statuses(),
            expect![[r#"
            "ask" "armed"
            "lazy" "armed"
            "came" "armed"
        "#]],
        );
        let sam = Arc::new(Sam {
            env: world.env.in_role("world"),
            told: Mutex::default(),
        });
        assert_eq!(world.env.executors(), ["sam"]);
        let there = world.env.attend("sam", sam.clone());
        world
            .say(
                "mark_email",
                json!({"email_id": "email-1", "is_read": true}),
            )
            .await;
        world.say("wait_until", json!({"duration": "PT2H"})).await;
        drop(there);
        check(
            world.statuses(),
            expect![[r#"
            "ask" "fired"
            "lazy" "failed"
            "came" "fired"
        "#]],
        );
        check(
            locked(&sam.told).join("\n"),
            expect![[r#"
            ask, 7 s: Write to the user.
            "time stands still while you follow an instruction"
            lazy, 7 s: Do nothing.
            lazy, 7 s: What was asked is not done yet: the state of the env does not show it. It was: Do nothing."#]],
        );
        let events = world.env.state()["events"].clone();
        let lines: Vec<String> = events
            .as_array()
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        check(
            lines.join("\n"),
            expect![[r#"
            {"kind":"added","trigger_id":"ask"}
            {"kind":"added","trigger_id":"lazy"}
            {"kind":"added","trigger_id":"came"}
            {"kind":"detected","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
            {"action":0,"error":"agent `sam` is not at hand in step `week`","kind":"action_failed","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
            {"kind":"failed","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
            {"kind":"detected","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
            {"kind":"detected","trigger_id":"came","virtual_time":"2026-03-02T09:00:00Z"}
            {"action":0,"kind":"action_ok","trigger_id":"came","virtual_time":"2026-03-02T09:00:00Z"}
            {"kind":"fired","trigger_id":"came","virtual_time":"2026-03-02T09:00:00Z"}
            {"action":0,"kind":"action_ok","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
            {"action":0,"kind":"verify_ok","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
            {"kind":"fired","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
            {"kind":"detected","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
            {"action":0,"kind":"action_ok","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
            {"action":0,"kind":"verify_failed","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
            {"action":0,"kind":"action_ok","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
            {"action":0,"kind":"verify_failed","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
            {"kind":"failed","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}"#]],
        );
        check(
            world.record(),
            expect![[r#"
                triggers register role="default"
                clock set role="default" virtual_time="2026-03-02T09:00:00Z"
                access world role="default" virtual_time="2026-03-02T09:00:00Z"
                tool send_email role="default" virtual_time="2026-03-02T09:00:00Z"
                tool mark_email role="default" virtual_time="2026-03-02T09:00:00Z"
                trigger ask role="trigger" caused_by="ask" virtual_time="2026-03-02T09:00:00Z"
                tool mark_email role="default" virtual_time="2026-03-02T09:00:00Z"
                clock wait_until role="world" virtual_time="2026-03-02T09:00:00Z"
                tool receive_email role="world" virtual_time="2026-03-02T09:00:00Z"
                tool search_emails role="trigger" caused_by="check" virtual_time="2026-03-02T09:00:00Z"
                tool get_email_by_id role="trigger" caused_by="check" virtual_time="2026-03-02T09:00:00Z"
                tool mark_email role="trigger" caused_by="came" virtual_time="2026-03-02T09:00:00Z"
                trigger_fired came role="trigger" caused_by="came" virtual_time="2026-03-02T09:00:00Z"
                tool search_emails role="trigger" caused_by="check" virtual_time="2026-03-02T09:00:00Z"
                trigger_fired ask role="trigger" caused_by="ask" virtual_time="2026-03-02T09:00:00Z"
                tool search_emails role="trigger" caused_by="check" virtual_time="2026-03-02T10:00:00Z"
                tool search_emails role="trigger" caused_by="check" virtual_time="2026-03-02T10:00:00Z"
                trigger lazy role="trigger" caused_by="lazy" virtual_time="2026-03-02T10:00:00Z"
                clock wait_until role="default" virtual_time="2026-03-02T11:00:00Z"
            "#]],
        );
    });
}

#[test]
fn steps_that_work_at_once_wait_for_each_other() {
    run(async {
        let world = World::new(ClockMode::Event);
        world.monday(1.0).await;
        let (one, other) = (world.of_step("one"), world.of_step("other"));
        // The step `week` neither waits nor ends, so time would stand still.
        let World {
            gate,
            env,
            gateway: _gateway,
            _folder,
        } = world;
        let seen = Mutex::new(Vec::new());
        let wait = async |env: &EnvHandle, name: &str, hours: &[&str]| {
            for hour in hours {
                let time = json!({"time": format!("2026-03-02T{hour}:00:00Z")});
                let told = say(env, "wait_until", time).await;
                locked(&seen).push(format!("{name} {}", told["current_time"]));
            }
        };
        let first = async {
            wait(&one, "one", &["12", "18"]).await;
            drop(one);
        };
        let second = async {
            wait(&other, "other", &["10", "13", "20"]).await;
        };
        let third = async {
            tokio::task::yield_now().await;
            assert!(locked(&seen).is_empty(), "nothing moves while one works");
            drop(env);
        };
        // Dropping a handle that was moved into a block is what ends its step.
        tokio::join!(first, second, third);
        check(
            locked(&seen).join("\n"),
            expect![[r#"
            other "2026-03-02T10:00:00Z"
            one "2026-03-02T12:00:00Z"
            other "2026-03-02T13:00:00Z"
            one "2026-03-02T18:00:00Z"
            other "2026-03-02T20:00:00Z""#]],
        );
        assert_eq!(gate.clock_state()["virtual_time"], "2026-03-02T20:00:00Z");
    });
}

#[test]
fn in_real_time_triggers_fire_beside_the_calls() {
    run(async {
        let world = World::new(ClockMode::Real);
        let triggers = json!([
            {"id": "soon", "when": {"type": "time", "at": "PT1H"}, "actions": [mail("Soon")]},
            {"id": "sent", "when": {"type": "action", "tool": "send_email"}, "barrier": {"at": "provoking_call"}, "actions": [mail("Got it")]},
            {"id": "slow", "when": {"type": "action", "tool": "send_email"}, "actions": [{"type": "tool", "tool": "receive_email", "delay": "PT2H", "args": {"sender": "sam@example.com", "subject": "Slow", "content": "."}}]},
        ]);
        world.register(json!({"triggers": triggers})).await;
        world.monday(86_400.0).await;
        let awaited = world.env.await_fired(&["soon".to_owned()]).await;
        assert_eq!(awaited, Ok(json!({"soon": "fired"})));
        world
            .say(
                "send_email",
                json!({"recipients": ["a@b"], "subject": "x", "content": "y"}),
            )
            .await;
        assert!(
            world.subjects().await.contains("Got it"),
            "the call waits for its trigger"
        );
        let settled = world.env.settle().await;
        assert_eq!(
            settled["statuses"],
            json!({"soon": "fired", "sent": "fired", "slow": "fired"})
        );
        assert_eq!(settled["capture_is_final"], true);
        let before = world.gate.clock_state()["virtual_time"].clone();
        let told = world.say("wait_until", json!({"duration": "PT2H"})).await;
        assert!(told["current_time"].as_str() > before.as_str(), "{told}");
        let far = world.say("wait_until", json!({"duration": "P90D"})).await;
        check(
            far.as_str().unwrap()[45..].to_owned(),
            expect!["eal time, and a call may take 20 s"],
        );
        // Between steps time stands still, so that the state that is taken is the state that is left.
        let World {
            gate,
            env,
            gateway: _gateway,
            _folder,
        } = world;
        drop(env);
        gate.idle().await;
        assert_eq!(gate.snapshot().await, gate.snapshot().await);
    });
}

#[test]
fn what_can_fire_no_more_is_not_awaited() {
    run(async {
        let world = World::new(ClockMode::Event);
        let wrong = json!({"type": "tool", "tool": "move_email", "args": {"email_id": "none", "folder": "x"}});
        let triggers = json!([
            {"id": "never", "when": {"type": "action", "tool": "send_email"}, "actions": [mail("x")]},
            {"id": "noon", "when": {"type": "time", "at": "PT3H"}, "actions": [mail("Noon")]},
            {"id": "wrong", "when": {"type": "time", "at": "PT4H"}, "actions": [wrong]},
        ]);
        world.register(json!({"triggers": triggers})).await;
        world.monday(1.0).await;
        let fired = async |id: &str| world.env.await_fired(&[id.to_owned()]).await;
        assert_eq!(fired("noon").await, Ok(json!({"noon": "fired"})));
        check(
            fired("never").await.unwrap_err(),
            expect![[r#"not all triggers can fire any more: {"never":"armed"}"#]],
        );
        check(
            fired("wrong").await.unwrap_err(),
            expect![[
                r#"not all triggers can fire any more: {"wrong":"failed"}; {"action":0,"error":"`move_email`: \"there is no email `none`\"","kind":"action_failed","trigger_id":"wrong","virtual_time":"2026-03-02T13:00:00Z"}"#
            ]],
        );
        check(
            fired("other").await.unwrap_err(),
            expect![[r#"not all triggers can fire any more: {"other":null}"#]],
        );
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    run(async {
        let world = World::new(ClockMode::Event);
        check(
            world.register(json!({"triggers": [{"id": "x"}]})).await,
            expect![
                "env `mail` answered a registration of triggers with error 400: /triggers/0: the trigger has no `when`; /triggers/0: the trigger has no `actions`"
            ],
        );
        let unknown = json!([{"id": "a", "when": {"type": "action", "tool": "send_mail"}, "actions": [mail("x")]}]);
        check(
            world.register(json!({"triggers": unknown})).await,
            expect![
                "env `mail` answered a registration of triggers with error 400: trigger `a` names tool `send_mail`, which there is not; did you mean `send_email`?"
            ],
        );
        let shown = async |time: &str, rate: f64| {
            world
                .env
                .set_clock(time, rate)
                .await
                .unwrap_err()
                .to_string()
        };
        check(
            shown("monday", 1.0).await,
            expect![
                "env `mail` answered a setting of the clock with error 400: `monday` is no time like `2026-03-02T09:00:00Z`, with seconds and an offset or `Z`"
            ],
        );
        check(
            shown("2026-03-02T09:00:00Z", -1.0).await,
            expect![
                "env `mail` answered a setting of the clock with error 400: the rate is -1 virtual seconds per real second, but can be 0 to 86400"
            ],
        );
        world.monday(0.0).await;
        check(
            world
                .say("wait_until", json!({"duration": "PT1H"}))
                .await
                .to_string(),
            expect![[r#""the virtual clock stands still for good: its rate is 0""#]],
        );
        let snapshot = br#"{"version": 1, "access": [], "settings": [], "course": {"clock": 7}}
[]"#;
        check(
            world.gate.restore(snapshot).await.unwrap_err(),
            expect!["its snapshot holds triggers or a clock that are none"],
        );
    });
}

#[test]
fn a_chain_of_triggers_ends() {
    run(async {
        let world = World::new(ClockMode::Event);
        let again = json!({"type": "tool", "tool": "receive_email", "as": "world", "args": {"sender": "a@b", "subject": "again", "content": "."}});
        let triggers = json!([{"id": "echo", "when": {"type": "action", "tool": "receive_email", "repeat": true, "roles": ["default", "world"]}, "actions": [again]}]);
        world.register(json!({"triggers": triggers})).await;
        for role in ["default", "world"] {
            world
                .env
                .set_access(role, &["receive_email".to_owned()], true)
                .unwrap();
        }
        world
            .say(
                "receive_email",
                json!({"sender": "a@b", "subject": "first", "content": "."}),
            )
            .await;
        let total = world.say("list_emails", json!({})).await["total"].clone();
        assert_eq!(total, 18);
        check(
            world.statuses(),
            expect![[r#"
            "echo" "armed"
        "#]],
        );
    });
}
