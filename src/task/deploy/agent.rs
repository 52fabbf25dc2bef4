//! How an agent that is no part of aebuild is run.

use std::collections::BTreeMap;

use super::{AgentSpec, ProcessRun, Transport, Unusable, text, texts};
use crate::json::{Map, Value};

/// How an agent is run.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentRun {
    /// Inside aebuild.
    Inside,
    /// Not by aebuild: it runs already, and serves A2A.
    Url {
        /// Its address, below which its card is.
        url: String,
    },
    /// As a process that serves A2A.
    Served {
        /// The process.
        run: ProcessRun,
        /// How long it may take to get ready, in seconds.
        ready_timeout_seconds: u64,
        /// Whether what it was told before may decide what it answers.
        remembers: bool,
    },
    /// As a program that is started for each prompt and ends with its reply.
    Program {
        /// The program.
        run: ProcessRun,
        /// How it is given the prompt.
        prompt: PromptBy,
        /// The file of its sandbox that is its reply; what it prints where there is none.
        reply_file: Option<String>,
    },
}

/// How a program is given a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptBy {
    /// As its last argument.
    Argument,
    /// On its standard input.
    Stdin,
}

impl AgentSpec {
    /// Returns how the agent is run, or why that cannot be said.
    pub fn run(&self) -> Result<AgentRun, Unusable> {
        let none = Map::new();
        let settings = self.settings.as_object().unwrap_or(&none);
        let name = self.folder.as_deref().unwrap_or(&self.id);
        let has = |key: &str| settings.contains_key(key);
        match self.kind.as_str() {
            "a2a" if has("url") && has("command") => Err(Unusable::new(
                "conflicting-fields",
                format!("agent `{name}` has both `url` and `command`, but is run in one way"),
                format!("delete `url` or `command` from [agents.{name}]"),
            )),
            "a2a" if has("url") => Ok(AgentRun::Url {
                url: text(settings, "url").unwrap_or_default().to_owned(),
            }),
            "a2a" => Ok(AgentRun::Served {
                run: process(name, settings, "serves A2A")?,
                ready_timeout_seconds: settings
                    .get("ready_timeout_seconds")
                    .and_then(Value::as_u64)
                    .unwrap_or(60),
                remembers: text(settings, "state") != Some("none"),
            }),
            "command" => Ok(AgentRun::Program {
                run: process(name, settings, "answers a prompt")?,
                prompt: match text(settings, "prompt") {
                    Some("stdin") => PromptBy::Stdin,
                    _ => PromptBy::Argument,
                },
                reply_file: text(settings, "reply_file").map(str::to_owned),
            }),
            _ => Ok(AgentRun::Inside),
        }
    }
}

fn process(name: &str, settings: &Map<String, Value>, does: &str) -> Result<ProcessRun, Unusable> {
    let command = texts(settings, "command");
    if command.first().is_none_or(|program| program.is_empty()) {
        let headline = match command.is_empty() {
            true => format!("nothing says how agent `{name}` is run"),
            false => format!("`command` of agent `{name}` names no program"),
        };
        return Err(Unusable::new(
            "unknown-way-to-run",
            headline,
            format!("write `command`, the program that {does}, into [agents.{name}]"),
        ));
    }
    let variables = settings.get("variables").and_then(Value::as_object);
    let variables: BTreeMap<String, String> = variables
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    Ok(ProcessRun {
        command,
        transport: Transport::Http,
        port_variable: text(settings, "port_variable").unwrap_or("PORT").to_owned(),
        path: text(settings, "path").unwrap_or("/").to_owned(),
        variables,
        pass_variables: texts(settings, "pass_variables"),
        mount: texts(settings, "mount"),
        requirements: text(settings, "requirements").map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn run(kind: &str, settings: Value) -> Result<AgentRun, String> {
        let spec = AgentSpec {
            id: "@local/solver".to_owned(),
            folder: Some("solver".to_owned()),
            kind: kind.to_owned(),
            settings,
        };
        let run = spec.run();
        run.map_err(|why| {
            format!(
                "{}: {} ({})",
                why.code,
                why.headline,
                why.help.unwrap_or_default()
            )
        })
    }

    #[test]
    fn an_agent_is_run_in_one_way() {
        assert_eq!(
            run("scripted", json!({"command": []})),
            Ok(AgentRun::Inside)
        );
        let url = "http://127.0.0.1:1".to_owned();
        assert_eq!(run("a2a", json!({"url": url})), Ok(AgentRun::Url { url }));
        let Ok(AgentRun::Served {
            run: process,
            ready_timeout_seconds,
            remembers: true,
        }) = run(
            "a2a",
            json!({"command": ["serve", "{port}"], "ready_timeout_seconds": 5, "variables": {"A": "1"}}),
        )
        else {
            panic!("it is served");
        };
        assert_eq!((process.path.as_str(), ready_timeout_seconds), ("/", 5));
        assert_eq!(process.variables["A"], "1");
        assert!(matches!(
            run("command", json!({"command": ["solve"], "prompt": "stdin"})),
            Ok(AgentRun::Program {
                prompt: PromptBy::Stdin,
                reply_file: None,
                ..
            })
        ));
    }

    #[test]
    fn an_agent_that_cannot_be_run_says_what_is_missing() {
        assert_eq!(
            run("a2a", json!({"url": "x", "command": ["y"]})),
            Err("conflicting-fields: agent `solver` has both `url` and `command`, but is run in one way (delete `url` or \
                 `command` from [agents.solver])".to_owned())
        );
        assert_eq!(
            run("a2a", json!({})),
            Err("unknown-way-to-run: nothing says how agent `solver` is run (write `command`, the program that serves A2A, \
                 into [agents.solver])".to_owned())
        );
        assert_eq!(
            run("command", json!({"command": [""]})),
            Err("unknown-way-to-run: `command` of agent `solver` names no program (write `command`, the program that \
                 answers a prompt, into [agents.solver])".to_owned())
        );
    }
}
