//! What decides how an agent behaves, for the keys of the steps that prompt it: only what its kind uses, with the defaults
//! filled in, so that to write a default or what nobody reads changes no key.

use super::agent::{AgentRun, PromptBy};
use super::{AgentSpec, ProcessRun};
use crate::json::{Value, json};
use crate::task::model::without_user;

/// How often an agent asks its model for one reply, where nothing says it.
pub const MAX_TURNS: u64 = 50;

/// Returns the keys by which an agent of a type is described, besides its type and its id.
pub fn agent_keys(kind: &str) -> &'static [&'static str] {
    match kind {
        "scripted" => &["rules", "determinism"],
        "model" => &[
            "model",
            "system_prompt",
            "max_turns",
            "params",
            "determinism",
        ],
        "command" => &[
            "command",
            "prompt",
            "reply_file",
            "requirements",
            "mount",
            "variables",
            "pass_variables",
            "determinism",
        ],
        "a2a" => &[
            "url",
            "command",
            "image",
            "port",
            "port_variable",
            "path",
            "ready_timeout_seconds",
            "state",
            "requirements",
            "mount",
            "variables",
            "pass_variables",
            "determinism",
            "default_env_vars",
        ],
        _ => &[],
    }
}

impl AgentSpec {
    /// Returns what decides how the agent behaves, besides the files of its folder and its model, as named values.
    pub fn decides(&self, isolation: &str) -> Vec<(&'static str, Value)> {
        let setting = |key: &str| self.settings.get(key).cloned().unwrap_or_default();
        let mut all = vec![("type", json!(self.kind))];
        if self.has_sandbox() {
            all.push(("isolation", json!(isolation)));
        }
        // Who deploys one that cannot be run is told so.
        let Ok(run) = self.run() else { return all };
        match run {
            AgentRun::Inside if self.kind == "model" => {
                let max_turns = self.settings.get("max_turns").and_then(Value::as_u64);
                all.push(("system_prompt", setting("system_prompt")));
                all.push(("max_turns", json!(max_turns.unwrap_or(MAX_TURNS))));
                let params = self.settings.get("params").and_then(Value::as_object);
                all.push(("params", json!(params.cloned().unwrap_or_default())));
            }
            AgentRun::Inside => all.push(("rules", setting("rules"))),
            AgentRun::Url { url, remembers } => {
                all.push(("url", json!(without_user(&url))));
                all.push(("state", state(remembers)));
            }
            AgentRun::Served { run, remembers, .. } => {
                add_process(&mut all, &run);
                all.push(("transport", json!([run.port_variable, run.path])));
                all.push(("state", state(remembers)));
            }
            AgentRun::Container { run, remembers, .. } => {
                all.push(("image", json!(run.image)));
                all.push(("port", json!([run.port, run.port_variable, run.path])));
                all.push(("variables", json!(run.variables)));
                all.push(("state", state(remembers)));
            }
            AgentRun::Program {
                run,
                prompt,
                reply_file,
            } => {
                add_process(&mut all, &run);
                let prompt = match prompt {
                    PromptBy::Argument => "argument",
                    PromptBy::Stdin => "stdin",
                };
                all.push(("prompt", json!(prompt)));
                all.push(("reply_file", json!(reply_file)));
            }
        }
        all
    }

    /// Returns the model that it asks, where neither a step nor the command line names one.
    pub fn model(&self) -> Option<&str> {
        let asks = self.kind == "model";
        self.settings.get("model")?.as_str().filter(|_| asks)
    }

    /// Returns whether prompts may run commands in a sandbox of this machine: what serves elsewhere works there.
    pub fn has_sandbox(&self) -> bool {
        let is_elsewhere = matches!(
            self.run(),
            Ok(AgentRun::Url { .. } | AgentRun::Container { .. })
        );
        self.uses_sandbox() && !is_elsewhere
    }

    /// Returns whether it is given the files of its folder: a script is among the settings.
    pub fn uses_files(&self) -> bool {
        match self.run() {
            Ok(AgentRun::Served { .. } | AgentRun::Program { .. }) => true,
            Ok(AgentRun::Container { run, .. }) => run.image.is_none(),
            Ok(AgentRun::Inside | AgentRun::Url { .. }) | Err(_) => false,
        }
    }
}

fn add_process(all: &mut Vec<(&'static str, Value)>, run: &ProcessRun) {
    all.push(("command", json!(run.command)));
    all.push(("mount", json!(run.mount)));
    all.push(("requirements", json!(run.requirements)));
    all.push(("variables", json!(run.variables)));
}

fn state(remembers: bool) -> Value {
    json!(if remembers { "process" } else { "none" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decides(kind: &str, settings: Value) -> Vec<(&'static str, Value)> {
        let spec = AgentSpec {
            id: "@local/solver".to_owned(),
            folder: Some("solver".to_owned()),
            kind: kind.to_owned(),
            settings,
            builds: false,
        };
        spec.decides("none")
    }

    #[track_caller]
    fn same(kind: &str, one: Value, other: Value) {
        assert_eq!(decides(kind, one), decides(kind, other));
    }

    #[track_caller]
    fn differ(kind: &str, one: Value, other: Value) {
        assert_ne!(decides(kind, one), decides(kind, other));
    }

    #[test]
    fn what_is_the_default_or_read_by_nobody_decides_nothing() {
        let serves = json!({"type": "a2a", "command": ["serve"]});
        same(
            "a2a",
            serves.clone(),
            json!({"command": ["serve"], "ready_timeout_seconds": 9, "pass_variables": ["A"]}),
        );
        same(
            "a2a",
            serves,
            json!({"command": ["serve"], "state": "process", "path": "/", "port_variable": "PORT"}),
        );
        let asks = json!({"model": "m"});
        same(
            "model",
            asks.clone(),
            json!({"model": "m", "max_turns": 50, "determinism": "sampled", "params": {}}),
        );
        same(
            "model",
            asks,
            json!({"model": "m", "rules": [{"reply": "x"}], "description": "d"}),
        );
        same(
            "command",
            json!({"command": ["say"]}),
            json!({"command": ["say"], "prompt": "argument", "max_turns": 3}),
        );
        same(
            "a2a",
            json!({"url": "http://h"}),
            json!({"url": "http://me:pw@h"}),
        );
        same(
            "scripted",
            json!({"rules": []}),
            json!({"rules": [], "model": "m", "determinism": "pure"}),
        );
    }

    #[test]
    fn what_its_kind_uses_decides() {
        let serves = json!({"command": ["serve"]});
        differ("a2a", serves.clone(), json!({"command": ["serve", "x"]}));
        differ(
            "a2a",
            serves.clone(),
            json!({"command": ["serve"], "state": "none"}),
        );
        differ(
            "a2a",
            serves.clone(),
            json!({"command": ["serve"], "variables": {"A": "1"}}),
        );
        differ("a2a", serves, json!({"url": "http://h"}));
        differ("a2a", json!({"image": "a"}), json!({"image": "b"}));
        differ("model", json!({}), json!({"max_turns": 3}));
        differ("model", json!({}), json!({"system_prompt": "Be brief."}));
        differ("model", json!({}), json!({"params": {"temperature": 1}}));
        differ(
            "command",
            json!({"command": ["say"]}),
            json!({"command": ["say"], "prompt": "stdin"}),
        );
        differ(
            "scripted",
            json!({"rules": []}),
            json!({"rules": [{"reply": "x"}]}),
        );
    }
}
