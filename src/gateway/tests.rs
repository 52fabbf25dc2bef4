//! A gate before the mailbox that is compiled in, with triggers and a clock.

mod time;
mod together;
mod triggers;

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

    /// Returns where all triggers stand, with all that happened.
    fn state(&self) -> Value {
        self.gate.course.inner().engine.state()
    }

    fn statuses(&self) -> String {
        let state = self.state();
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
