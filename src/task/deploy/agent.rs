//! How an agent that is no part of aebuild is run.

use std::collections::BTreeMap;

use super::{AgentSpec, ProcessRun, Transport, Unusable, image, port, text, texts, variables};
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
        /// Whether what it was told before of a conversation may decide what it answers.
        remembers: bool,
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
    /// As a container that serves A2A.
    Container {
        /// The container.
        run: ContainerRun,
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

/// A container that serves A2A.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerRun {
    /// The image; `None` where the folder's Dockerfile is built.
    pub image: Option<String>,
    /// The port on which it serves whatever it is told; `None` where it serves on the port that it is told.
    pub port: Option<u16>,
    /// The variable that tells it its port.
    pub port_variable: String,
    /// The path below which its card is.
    pub path: String,
    /// Its environment variables.
    pub variables: BTreeMap<String, String>,
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
        let ready_timeout_seconds = settings
            .get("ready_timeout_seconds")
            .and_then(Value::as_u64)
            .unwrap_or(60);
        let remembers = text(settings, "state") != Some("none");
        let ways = ["url", "command", "image"];
        let ways: Vec<&str> = ways.into_iter().filter(|way| has(way)).collect();
        match self.kind.as_str() {
            "a2a" => match ways[..] {
                [one, other, ..] => Err(Unusable::new(
                    "conflicting-fields",
                    format!("agent `{name}` has both `{one}` and `{other}`, but is run in one way"),
                    format!("delete `{one}` or `{other}` from [agents.{name}]"),
                )),
                ["url"] => Ok(AgentRun::Url {
                    url: text(settings, "url").unwrap_or_default().to_owned(),
                    remembers,
                }),
                ["command"] => Ok(AgentRun::Served {
                    run: process(name, settings, "serves A2A")?,
                    ready_timeout_seconds,
                    remembers,
                }),
                _ => Ok(AgentRun::Container {
                    run: self.container(name, settings)?,
                    ready_timeout_seconds,
                    remembers,
                }),
            },
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

    /// Returns the agent as it works in a sandbox of the task, if it is `in_sandbox`; an error is one that cannot.
    pub fn placed(self, in_sandbox: bool) -> Result<Self, Unusable> {
        let run = self.run()?;
        let own = match &run {
            _ if !in_sandbox => return Ok(self),
            AgentRun::Inside => return Ok(self),
            AgentRun::Program { run, .. } => match (&run.requirements, run.mount.is_empty()) {
                (None, true) => return Ok(self),
                (Some(_), _) => "is given `requirements`",
                (None, false) => "is given `mount`",
            },
            _ => "serves A2A",
        };
        let name = self.folder.as_deref().unwrap_or(&self.id);
        Err(Unusable::new(
            "unknown-way-to-run",
            format!("agent `{name}` {own}, so it needs a sandbox of its own"),
            "delete `sandbox_name`, or name an agent of another type",
        ))
    }

    fn container(
        &self,
        name: &str,
        settings: &Map<String, Value>,
    ) -> Result<ContainerRun, Unusable> {
        let image = image(settings);
        if image.is_none() && !self.builds {
            return Err(Unusable::new(
                "unknown-way-to-run",
                format!("nothing says how agent `{name}` is run"),
                format!("add `url`, `command` or `image` to [agents.{name}] of aebuild.toml"),
            ));
        }
        let mut all = variables(settings, "default_env_vars");
        all.extend(variables(settings, "variables"));
        Ok(ContainerRun {
            image,
            port: port(settings),
            port_variable: port_variable(settings),
            path: path(settings),
            variables: all,
        })
    }
}

impl AgentRun {
    /// Returns whether what it was told is nowhere but in what runs it, and may decide what it answers.
    pub fn remembers(&self) -> bool {
        match self {
            AgentRun::Url { remembers, .. }
            | AgentRun::Served { remembers, .. }
            | AgentRun::Container { remembers, .. } => *remembers,
            AgentRun::Inside | AgentRun::Program { .. } => false,
        }
    }
}

fn port_variable(settings: &Map<String, Value>) -> String {
    text(settings, "port_variable").unwrap_or("PORT").to_owned()
}

fn path(settings: &Map<String, Value>) -> String {
    text(settings, "path").unwrap_or("/").to_owned()
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
    Ok(ProcessRun {
        command,
        transport: Transport::Http,
        port_variable: port_variable(settings),
        path: path(settings),
        variables: variables(settings, "variables"),
        pass_variables: texts(settings, "pass_variables"),
        mount: texts(settings, "mount"),
        requirements: text(settings, "requirements").map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::json::json;
    use crate::system::MemorySystem;
    use crate::task::folder;

    fn run(kind: &str, settings: Value) -> Result<AgentRun, String> {
        run_of(kind, settings, false)
    }

    fn run_of(kind: &str, settings: Value, builds: bool) -> Result<AgentRun, String> {
        let spec = AgentSpec {
            id: "@local/solver".to_owned(),
            folder: Some("solver".to_owned()),
            kind: kind.to_owned(),
            settings,
            builds,
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
        assert_eq!(
            run("a2a", json!({"url": url})),
            Ok(AgentRun::Url {
                url,
                remembers: true
            })
        );
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
    fn an_agent_runs_in_a_container_where_an_image_is_named_or_can_be_built() {
        let container = |image: Option<&str>, port, variables: &[(&str, &str)]| ContainerRun {
            image: image.map(str::to_owned),
            port,
            port_variable: "PORT".to_owned(),
            path: "/".to_owned(),
            variables: variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let check = |settings: Value, builds: bool, expected: ContainerRun| {
            let expected = AgentRun::Container {
                run: expected,
                ready_timeout_seconds: 60,
                remembers: true,
            };
            assert_eq!(run_of("a2a", settings, builds), Ok(expected));
        };
        check(json!({}), true, container(None, None, &[]));
        check(
            json!({"image": "ghcr.io/a/solver:2", "port": 9000}),
            false,
            container(Some("ghcr.io/a/solver:2"), Some(9000), &[]),
        );
        // The image counts more than the Dockerfile, and the table more than the file.
        check(
            json!({"image": {"registry": "solver"}, "default_env_vars": {"A": "0", "B": "0"}, "variables": {"A": "1"}}),
            true,
            container(Some("solver"), None, &[("A", "1"), ("B", "0")]),
        );
        let forgets = run_of("a2a", json!({"state": "none"}), true);
        assert!(!forgets.unwrap().remembers());
        // A Dockerfile is no more than a way to run it.
        let url = json!({"url": "http://127.0.0.1:1"});
        assert!(matches!(run_of("a2a", url, true), Ok(AgentRun::Url { .. })));
        let command = json!({"command": ["serve"]});
        assert!(matches!(
            run_of("a2a", command, true),
            Ok(AgentRun::Served { .. })
        ));
    }

    #[test]
    fn a_folder_with_a_dockerfile_is_run_in_a_container_unless_its_table_says_otherwise() {
        let system = MemorySystem::new();
        for (path, text) in [
            ("tasks/t.json", "[]"),
            ("agents/built/Dockerfile", "FROM scratch\n"),
            (
                "agents/named/agent.toml",
                "image = { registry = \"solver\" }\n",
            ),
        ] {
            system.write(Path::new("/w/f").join(path), text);
        }
        let (folder, _) = folder::read(&system, Path::new("/w/f"), "f");
        let run = |name: &str, table: Value| {
            let tables = BTreeMap::from([(name.to_owned(), table)]);
            let spec = AgentSpec::of(None, name, &folder, &tables).unwrap();
            (spec.kind.clone(), spec.run().unwrap())
        };
        let image = |name: &str| match run(name, json!({"port": 9000})) {
            (kind, AgentRun::Container { run, .. }) => (kind, run.image, run.port),
            (_, other) => panic!("{other:?}"),
        };
        let a2a = || "a2a".to_owned();
        assert_eq!(image("built"), (a2a(), None, Some(9000)));
        assert_eq!(
            image("named"),
            (a2a(), Some("solver".to_owned()), Some(9000))
        );
        // What a table says of how it is run stands alone.
        for name in ["built", "named"] {
            let url = "http://127.0.0.1:1".to_owned();
            assert_eq!(
                run(name, json!({"url": url})),
                (
                    a2a(),
                    AgentRun::Url {
                        url,
                        remembers: true
                    }
                )
            );
            let (kind, ran) = run(name, json!({"command": ["solve"]}));
            assert!(kind == "command" && matches!(ran, AgentRun::Program { .. }));
            assert_eq!(run(name, json!({"model": "m"})).0, "model");
        }
    }

    #[test]
    fn an_agent_that_cannot_be_run_says_what_is_missing() {
        assert_eq!(
            run("a2a", json!({"url": "x", "command": ["y"]})),
            Err("conflicting-fields: agent `solver` has both `url` and `command`, but is run in one way (delete `url` or \
                 `command` from [agents.solver])".to_owned())
        );
        assert_eq!(
            run("a2a", json!({"image": "x", "command": ["y"]})),
            Err("conflicting-fields: agent `solver` has both `command` and `image`, but is run in one way (delete \
                 `command` or `image` from [agents.solver])".to_owned())
        );
        assert_eq!(
            run("a2a", json!({"url": "x", "image": "y"})),
            Err("conflicting-fields: agent `solver` has both `url` and `image`, but is run in one way (delete `url` or \
                 `image` from [agents.solver])".to_owned())
        );
        assert_eq!(
            run("a2a", json!({})),
            Err("unknown-way-to-run: nothing says how agent `solver` is run (add `url`, `command` or `image` to \
                 [agents.solver] of aebuild.toml)".to_owned())
        );
        assert_eq!(
            run("command", json!({"command": [""]})),
            Err("unknown-way-to-run: `command` of agent `solver` names no program (write `command`, the program that \
                 answers a prompt, into [agents.solver])".to_owned())
        );
    }
}
