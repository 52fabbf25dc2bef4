//! Live envs: bad ones, how their state comes back, prompts beside each other, sudden ends, the gateway.
//!
//! The env is `fixtures/server.py`, which has the faults that a test asks for; the agent does what its prompt says.

mod bad;
mod ends;
mod gateway;
mod keys;
mod ladder;
mod secrets;
mod together;
mod warm;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use aebuild::event::{RunEvent, StepEvent};

use crate::story::{Seen, Story};

const SERVER: &str = include_str!("fixtures/server.py");

/// A task folder with the env `kv` and the agent `solver`.
pub struct World {
    pub story: Story,
    how: String,
    faults: Vec<String>,
    settings: String,
}

impl World {
    /// Returns a world whose env is `server.py`, over `stdio` or `http` and with these faults; `None` without Python.
    pub fn new(how: &str, faults: &[&str]) -> Option<World> {
        crate::support::has_python("envs are Python programs").then(|| {
            let world = World::of(how, faults);
            world.story.write("envs/kv/env.toml", "");
            world.story.write("envs/kv/server.py", SERVER);
            world
        })
    }

    /// Returns a world whose env is the one that is compiled in.
    pub fn builtin() -> World {
        World::of("builtin", &[])
    }

    fn of(how: &str, faults: &[&str]) -> World {
        let story = Story::new();
        story.write("left/.keep", "");
        story.write("agents/solver/agent.toml", SOLVER);
        let world = World {
            story,
            how: how.to_owned(),
            faults: faults.iter().map(|&fault| fault.to_owned()).collect(),
            settings: String::new(),
        };
        world.configure();
        world
    }

    /// Adds settings of the env.
    pub fn set(mut self, settings: &str) -> World {
        self.settings.push_str(settings);
        self.settings.push('\n');
        self.configure();
        self
    }

    fn configure(&self) {
        let mut toml =
            "[sandbox]\nisolation = \"none\"\n[cache]\ndurability = \"fast\"\n".to_owned();
        toml.push_str("[envs.kv]\n");
        if self.how == "builtin" {
            toml.push_str("builtin = \"kv\"\n");
        } else if !self.settings.contains("command =") && !self.settings.contains("url =") {
            let mut words = vec![
                "python3".to_owned(),
                "server.py".to_owned(),
                self.how.clone(),
            ];
            words.push(self.mark());
            words.extend(self.faults.iter().cloned());
            toml.push_str(&format!(
                "command = {words:?}\ntransport = {:?}\n",
                self.how
            ));
        }
        toml.push_str(&self.settings);
        self.story.write("aebuild.toml", toml);
    }

    /// The word by which processes of the env are known.
    fn mark(&self) -> String {
        format!("leave={}", self.story.path("left").display())
    }

    /// Writes a task that prompts the agent with each text, one after another, and then checks the env.
    pub fn task(&self, prompts: &[&str], checks: &[&str]) {
        let mut steps = vec![
            r#"{"id": "kv", "type": "deploy_env", "env_id": "kv"}"#.to_owned(),
            r#"{"id": "solver", "type": "deploy_agent", "agent_name": "solver", "env_ids": ["kv"]}"#
                .to_owned(),
        ];
        for (at, prompt) in prompts.iter().enumerate() {
            steps.push(format!(
                r#"{{"id": "p{}", "type": "prompt_agent", "agent_name": "solver", "prompt": "{prompt}"}}"#,
                at + 1
            ));
        }
        if !checks.is_empty() {
            self.check(checks);
            steps.push(
                r#"{"id": "check", "type": "env_outcome_verifier", "env_id": "kv", "file_artifact_id": "check"}"#
                    .to_owned(),
            );
        }
        self.steps(&steps);
    }

    /// Writes a task of these steps.
    pub fn steps(&self, steps: &[String]) {
        self.story
            .write("tasks/t.json", format!("[{}]", steps.join(",\n")));
    }

    /// Writes a verifier that looks for values, each `key=value`.
    pub fn check(&self, wanted: &[&str]) {
        let rows = wanted.iter().map(|wanted| {
            let (key, value) = wanted.split_once('=').unwrap();
            let call = format!(r#"call = {{ tool = "get", arguments = {{ key = "{key}" }} }}"#);
            format!("[[expect]]\n{call}\npath = \"$.value\"\nequals = \"{value}\"\n")
        });
        self.story
            .write("artifacts/check/verify.toml", rows.collect::<String>());
    }

    pub fn run(&self) -> Seen {
        let seen = self.story.run();
        self.nothing_is_left();
        seen
    }

    /// Returns a command of the program on this world.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aebuild"));
        command
            .arg(name)
            .arg(self.story.path(""))
            .arg("--cache-dir")
            .arg(self.story.cache_dir());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns the ids of the processes of the env.
    pub fn processes(&self) -> Vec<i32> {
        let mark = self.mark();
        let all = fs::read_dir("/proc").unwrap().flatten();
        let has_mark = |entry: &fs::DirEntry| {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0);
            words.any(|word| word == mark.as_bytes())
        };
        let ids = all
            .filter(has_mark)
            .map(|entry| entry.file_name().to_string_lossy().parse());
        ids.collect::<Result<_, _>>().unwrap()
    }

    #[track_caller]
    pub fn nothing_is_left(&self) {
        assert_eq!(self.processes(), [0; 0], "processes of the env are left");
        let live = fs::read_dir(self.story.path(".aebuild/live"))
            .into_iter()
            .flatten();
        let left: Vec<String> = live
            .map(Result::unwrap)
            .filter(|entry| entry.file_type().unwrap().is_dir())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        assert!(left.is_empty(), "folders of the run are left: {left:?}");
    }

    /// Runs twice: each run fails with one error of the step, and nothing is kept of it.
    #[track_caller]
    pub fn fails(&self, step: &str) -> String {
        let first = failures(&self.run());
        let second = self.run();
        let errors: Vec<String> = failures(&second);
        assert_eq!(first.len(), 1, "{first:?}");
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(
            !second.hit().split(' ').any(|hit| hit == step),
            "`{step}` was kept"
        );
        let (id, error) = first[0].split_once(": ").unwrap();
        assert_eq!(id, step, "{error}");
        error.to_owned()
    }
}

/// The errors of steps, each with its step before it.
pub fn failures(seen: &Seen) -> Vec<String> {
    seen.summary();
    let errors = seen.events.iter().filter_map(|event| match event {
        RunEvent::Step {
            step,
            what: StepEvent::Failed { error, .. },
            ..
        } => Some(format!("{step}: {error}")),
        _ => None,
    });
    errors.collect()
}

/// Waits until something holds; what never does is a fault.
#[track_caller]
pub fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came to this: {what}");
}

/// The files below a folder that hold these bytes.
pub fn holding(folder: &Path, wanted: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, wanted));
        } else if let Ok(bytes) = fs::read(&path)
            && bytes.windows(wanted.len()).any(|window| window == wanted)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// An agent that makes the call that its prompt names.
const SOLVER: &str = r#"
type = "scripted"

[[rules]]
prompt = "^(set|add) (?<key>\\S+) (?<value>\\S+)"
reply = "done"
[[rules.calls]]
tool = "set"
arguments = { key = "{{match.key}}", value = "{{match.value}}" }

[[rules]]
prompt = "^sneak (?<key>\\S+) (?<value>\\S+)"
reply = "done"
[[rules.calls]]
tool = "sneak"
arguments = { key = "{{match.key}}", value = "{{match.value}}" }

[[rules]]
prompt = "^stamp (?<key>\\S+)"
reply = "done"
[[rules.calls]]
tool = "stamp"
arguments = { key = "{{match.key}}" }

[[rules]]
prompt = "^get (?<key>\\S+)"
reply = "It is {{got.value}}."
[[rules.calls]]
tool = "get"
arguments = { key = "{{match.key}}" }
save = "got"

[[rules]]
prompt = "^hang"
[[rules.calls]]
tool = "set"
arguments = { key = "half", value = "done" }
[[rules.calls]]
tool = "hang"

[[rules]]
prompt = "^die"
[[rules.calls]]
tool = "die"

[[rules]]
prompt = "^big"
[[rules.calls]]
tool = "big"

[[rules]]
prompt = "^line"
[[rules.calls]]
tool = "line"

[[rules]]
prompt = "^leak (?<value>\\d+)"
reply = "I say nothing."
[[rules.calls]]
tool = "leak"
arguments = { key = "secret", value = "{{match.value}}" }

[[rules]]
prompt = "^seed (?<key>\\S+)"
reply = "It is {{got.value}}."
[[rules.calls]]
tool = "seed"
arguments = { key = "{{match.key}}" }
save = "got"

[[rules]]
prompt = "^break (?<key>\\S+)"
fail = "it was {{got.value}} before"
[[rules.calls]]
tool = "get"
arguments = { key = "{{match.key}}" }
save = "got"
[[rules.calls]]
tool = "set"
arguments = { key = "{{match.key}}", value = "broken" }
"#;
