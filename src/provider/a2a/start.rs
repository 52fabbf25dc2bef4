//! Agents that are processes of this machine and serve A2A.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;

use super::super::local::LocalSandbox;
use super::super::served::free_port;
use super::A2aAgent;
use super::running::{Running, not_ready, not_started, own_variables, reached};
use crate::step::agent::AgentError;
use crate::step::sandbox::Exec;
use crate::task::deploy::ProcessRun;

/// What an agent that is a process is started with.
pub struct Setup<'a> {
    /// The `agent_name`.
    pub name: &'a str,
    /// How it is run.
    pub run: &'a ProcessRun,
    /// How long it may take to get ready.
    pub limit: Duration,
    /// Its sandbox, in which its files are.
    pub sandbox: Arc<LocalSandbox>,
    /// The interpreter that has its packages.
    pub python: Option<&'a Path>,
    /// Variables that its deploy step gives it.
    pub variables: &'a [(String, String)],
}

impl A2aAgent {
    /// Starts a process that serves A2A, and waits until it gives its card.
    pub async fn start(setup: Setup<'_>) -> Result<A2aAgent, AgentError> {
        let name = setup.name.to_owned();
        let sandbox = setup.sandbox.clone();
        match start(setup).await {
            Ok(agent) => Ok(agent),
            Err(why) => {
                // Its folder goes with the run's own at the latest.
                let _ = sandbox.destroy().await;
                Err(AgentError::Unreachable {
                    agent: name,
                    message: why,
                    trajectory: Vec::new(),
                })
            }
        }
    }
}

async fn start(setup: Setup<'_>) -> Result<A2aAgent, String> {
    let Setup {
        name,
        run,
        limit,
        sandbox,
        python,
        variables,
    } = setup;
    let port = free_port().await;
    let port = port.map_err(|error| not_started(&error.to_string(), ""))?;
    let python = python.map_or("python3".into(), |path| path.to_string_lossy());
    let argv = run.command.iter().map(|word| {
        word.replace("{python}", &python)
            .replace("{port}", &port.to_string())
    });
    let mut exec = Exec::argv(argv);
    let mut all = own_variables(name, ("127.0.0.1", port), &run.port_variable);
    all.extend(run.variables.clone());
    all.extend_from_slice(variables);
    for (name, value) in all {
        exec = exec.env(name, value);
    }
    let serving = sandbox.serve(exec).await;
    let mut serving = serving.map_err(|error| not_started(&error.to_string(), ""))?;
    let process = Running::Process {
        is_silent: serving.drain(),
        serving,
        sandbox,
    };
    let waits = Mutex::default();
    let base = format!("http://127.0.0.1:{port}");
    let connecting = reached(&base, &run.path, &waits);
    let connected = tokio::select! {
        biased;
        connected = timeout(limit, connecting) => connected,
        how = process.ended() => return Err(not_started(&how, "")),
    };
    match connected {
        Ok(client) => A2aAgent::of(name, client, Some(process)),
        Err(_) => {
            let why = not_ready(limit, &waits, &process.tail());
            process.stop().await;
            Err(why)
        }
    }
}
