//! A scripted agent, served over A2A to whoever asks on this machine.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::serve::{Nowhere, Served, temp_folder};
use super::{Session, SessionError};
use crate::diagnostic::Severity;
use crate::gateway::{Caller, EnvHandle, Gate, GateSettings, Gateway, Recorder};
use crate::json::{Value, json};
use crate::provider::scripted::ScriptedAgent;
use crate::provider::served::ServedEnv;
use crate::step::agent::{Agent as _, AgentDoor, AgentError, Prompt, Reply};
use crate::step::env::{DEFAULT_ROLE, EnvServer as _, LiveEnv};
use crate::step::sandbox::BoxFuture;
use crate::system::{System, locked};
use crate::task::deploy::{AgentSpec, ClockMode, EnvRun, EnvSpec};
use crate::task::folder::{TaskFolder, read_agent};
use crate::task::script::{self, Script};

/// How long the agent may take for a message; who asks has a limit of its own.
const LIMIT: Duration = Duration::from_secs(3600);

/// The most conversations that are remembered.
const MAX_TALKS: usize = 1000;

/// A scripted agent that can be served.
pub struct LoneAgent {
    agent: ScriptedAgent,
    description: String,
}

impl LoneAgent {
    /// Reads the agent that a folder is.
    pub fn of_folder(system: &dyn System, path: &Path) -> Result<Self, SessionError> {
        let shown = path.to_string_lossy();
        let mut files = ["agent.toml", "script.json"].into_iter();
        if !files.any(|file| system.metadata(&path.join(file)).is_ok()) {
            return Err(SessionError::Usage {
                message: format!("`{shown}` is no folder of an agent: it has no agent.toml"),
                help: None,
            });
        }
        let (definition, faults) = read_agent(system, path, &shown);
        if faults.iter().any(|fault| fault.severity == Severity::Error) {
            return Err(SessionError::Faults(faults));
        }
        let mut folder = TaskFolder::default();
        let definition = definition.into_iter();
        folder.agents = definition
            .map(|found| (found.name.clone(), found))
            .collect();
        let name = folder.agents.keys().next().cloned().unwrap_or_default();
        LoneAgent::of(&name, &folder, &BTreeMap::new())
    }

    fn of(
        name: &str,
        folder: &TaskFolder,
        tables: &BTreeMap<String, Value>,
    ) -> Result<Self, SessionError> {
        let spec = AgentSpec::of(None, name, folder, tables);
        let spec = spec.map_err(|why| SessionError::Usage {
            message: why.headline,
            help: why.help,
        })?;
        if spec.kind != "scripted" {
            return Err(SessionError::Usage {
                message: format!("agent `{name}` is of type `{}`", spec.kind),
                help: Some("name a scripted agent; only these are served alone".to_owned()),
            });
        }
        let script = Script::read(&json!({"rules": spec.settings["rules"]}));
        let script = script.map_err(|faults| SessionError::Usage {
            message: format!(
                "the script of agent `{name}` cannot be used: {}",
                script::said(&faults)
            ),
            help: None,
        })?;
        let description = spec.settings.get("description").and_then(Value::as_str);
        Ok(LoneAgent {
            agent: ScriptedAgent {
                name: name.to_owned(),
                script,
            },
            description: description
                .unwrap_or("does what its script says")
                .to_owned(),
        })
    }
}

impl Session {
    /// Returns an agent of the first folder, where it is a scripted one.
    pub fn lone_agent(&mut self, name: &str) -> Result<LoneAgent, SessionError> {
        self.refuse_faults()?;
        let loaded = self.load_folder(0);
        let is_error = loaded
            .faults
            .iter()
            .any(|fault| fault.severity == Severity::Error);
        if is_error {
            return Err(SessionError::Faults(loaded.faults.clone()));
        }
        let folder = loaded.folder.clone();
        LoneAgent::of(name, &folder, &self.config.agents)
    }
}

impl Served {
    /// Serves an agent on a port of 127.0.0.1; 0 stands for one that is free.
    pub fn agent(
        agent: LoneAgent,
        port: u16,
        system: Arc<dyn System>,
    ) -> Result<Self, SessionError> {
        let folder = temp_folder(&*system, "agent");
        let door = Arc::new(LoneDoor {
            lone: agent,
            envs: Mutex::default(),
            talks: Mutex::default(),
            n_asked: AtomicU64::new(0),
            folder: folder.clone(),
            system,
        });
        Served::by(folder, port, async |gateway| {
            gateway.serve_agent_alone(door, port).await
        })
    }
}

/// Where a conversation stands: its id, the number of its turns, and what the agent left of them.
type Talk = (String, u64, Value);

/// The agent as those who ask it have it.
struct LoneDoor {
    lone: LoneAgent,
    /// The addresses of its envs, by their ids, in the order in which it was connected to them.
    envs: Mutex<Vec<(String, String)>>,
    /// The last one that went on is the last.
    talks: Mutex<VecDeque<Talk>>,
    n_asked: AtomicU64,
    folder: PathBuf,
    system: Arc<dyn System>,
}

impl AgentDoor for LoneDoor {
    fn name(&self) -> &str {
        &self.lone.agent.name
    }

    fn description(&self) -> &str {
        &self.lone.description
    }

    fn ask<'a>(
        &'a self,
        context_id: &'a str,
        parts: Vec<Value>,
    ) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(self.answer(context_id, parts))
    }

    fn takes_envs(&self) -> bool {
        true
    }

    fn connect(&self, env_id: &str, url: &str) -> Result<(), String> {
        let mut envs = locked(&self.envs);
        let env = (env_id.to_owned(), url.to_owned());
        match envs.iter_mut().find(|(id, _)| id == env_id) {
            Some(known) => *known = env,
            None => envs.push(env),
        }
        Ok(())
    }
}

impl LoneDoor {
    async fn answer(&self, context_id: &str, parts: Vec<Value>) -> Result<Reply, AgentError> {
        let (turn, memory) = {
            let mut talks = locked(&self.talks);
            let at = talks.iter().position(|(id, ..)| id == context_id);
            let before = at.and_then(|at| talks.remove(at));
            before.map_or((1, Value::Null), |(_, turn, memory)| (turn + 1, memory))
        };
        let remember = |memory: Value| {
            let mut talks = locked(&self.talks);
            if talks.len() >= MAX_TALKS {
                talks.pop_front();
            }
            talks.push_back((context_id.to_owned(), turn, memory));
        };
        let (mut envs, mut servers) = (Vec::new(), Vec::new());
        let addresses = locked(&self.envs).clone();
        let n_asked = self.n_asked.fetch_add(1, Ordering::Relaxed);
        for (env_id, url) in &addresses {
            // Each message has lines of its own: what served the one before may have gone.
            match ServedEnv::connect(&spec(env_id, url), url).await {
                Ok(server) => {
                    let server = Arc::new(server);
                    servers.push(server.clone());
                    envs.push(self.env(env_id, server, n_asked));
                }
                Err(error) => {
                    remember(memory);
                    return Err(error.into());
                }
            }
        }
        let prompt = Prompt {
            parts,
            context_id: context_id.to_owned(),
            turn,
            memory: memory.clone(),
            envs,
            ..Prompt::of("", LIMIT)
        };
        let answer = self.lone.agent.prompt(prompt).await;
        for server in servers {
            server.stop().await;
        }
        remember(match &answer {
            Ok(reply) => reply.memory.clone(),
            Err(_) => memory,
        });
        answer
    }

    fn env(&self, env_id: &str, server: Arc<ServedEnv>, n_asked: u64) -> Arc<dyn LiveEnv> {
        let settings = GateSettings {
            env_id: env_id.to_owned(),
            call_timeout: LIMIT,
            read_only_tools: Vec::new(),
            volatile: Vec::new(),
            exports: false,
            can_export: false,
            clock: ClockMode::Real,
        };
        let calls = self.folder.join(format!("{n_asked}-{env_id}.jsonl"));
        let recorder = Recorder::new(calls, Arc::new(Nowhere), self.system.clone());
        let gate = Gate::new(settings, server, recorder, Vec::new());
        let caller = Caller::new("agent", DEFAULT_ROLE);
        Arc::new(EnvHandle::new(gate, Gateway::new(), caller))
    }
}

fn spec(env_id: &str, url: &str) -> EnvSpec {
    EnvSpec {
        env_id: env_id.to_owned(),
        id: env_id.to_owned(),
        folder: None,
        run: EnvRun::Url {
            url: url.to_owned(),
        },
        state: None,
        read_only_tools: Vec::new(),
        volatile: Vec::new(),
        ready_timeout_seconds: 30,
        call_timeout_seconds: LIMIT.as_secs(),
        max_answer_mb: 100,
        determinism: None,
        clock: ClockMode::Real,
    }
}
