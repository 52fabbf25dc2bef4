//! Agents that are processes of this machine and serve A2A.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::super::local::LocalSandbox;
use super::super::process::Serving;
use super::super::served::{free_port, words};
use super::agent::MOMENT;
use super::client::Ports;
use super::{A2aAgent, Client, Fault};
use crate::step::agent::AgentError;
use crate::step::sandbox::{Exec, How};
use crate::system::locked;
use crate::task::deploy::ProcessRun;

/// How often an agent that is not ready yet is asked again.
const POLL: Duration = Duration::from_millis(20);

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

/// The process of an agent.
pub struct AgentProcess {
    serving: Serving,
    /// Whether it writes no more.
    is_silent: watch::Receiver<bool>,
    sandbox: Arc<LocalSandbox>,
}

impl AgentProcess {
    pub(super) fn is_up(&self) -> bool {
        self.serving.ended.borrow().is_none()
    }

    /// Waits until the process ends, and says how.
    pub(super) async fn ended(&self) -> String {
        let mut ended = self.serving.ended.clone();
        // An error means that who would say so is gone with the process.
        let how = ended.wait_for(Option::is_some).await;
        let how = how.ok().and_then(|how| *how).unwrap_or(How::Cancelled);
        // What it left behind may hold the pipe open.
        let mut is_silent = self.is_silent.clone();
        let _ = timeout(MOMENT, is_silent.wait_for(|is_silent| *is_silent)).await;
        with_tail(words(how), &self.tail())
    }

    /// Returns the end of the process in place of an error that comes of it.
    pub(super) async fn explained(&self, why: String) -> String {
        timeout(2 * MOMENT, self.ended()).await.unwrap_or(why)
    }

    fn tail(&self) -> String {
        locked(&self.serving.said).text()
    }

    pub(super) async fn stop(&self) {
        self.serving.stop().await;
        // Its folder goes with the run's own at the latest.
        let _ = self.sandbox.destroy().await;
    }
}

fn with_tail(why: String, tail: &str) -> String {
    if tail.is_empty() {
        why
    } else {
        format!("{why}; its last lines:\n{tail}")
    }
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
                Err(AgentError::Failed {
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
    let not_started = |why: String| format!("it could not be started: {why}");
    let port = free_port().await;
    let port = port.map_err(|error| not_started(error.to_string()))?;
    let python = python.map_or("python3".into(), |path| path.to_string_lossy());
    let argv = run.command.iter().map(|word| {
        word.replace("{python}", &python)
            .replace("{port}", &port.to_string())
    });
    let port = port.to_string();
    let own = [
        ("AGENT_NAME", name),
        ("PYTHONUNBUFFERED", "1"),
        ("HOST", "127.0.0.1"),
        ("A2A_HOST", "127.0.0.1"),
        ("A2A_PORT", &port),
        (run.port_variable.as_str(), &port),
    ];
    let mut exec = Exec::argv(argv);
    for (name, value) in own {
        exec = exec.env(name, value);
    }
    let given = run.variables.iter();
    for (name, value) in given.chain(variables.iter().map(|(name, value)| (name, value))) {
        exec = exec.env(name, value);
    }
    let serving = sandbox.serve(exec).await;
    let mut serving = serving.map_err(|error| not_started(error.to_string()))?;
    let process = AgentProcess {
        is_silent: serving.drain(),
        serving,
        sandbox,
    };
    let base = format!("http://127.0.0.1:{port}{}", run.path.trim_end_matches('/'));
    let waits = Mutex::new(format!("nothing listens at {base}"));
    let connecting = async {
        loop {
            match Client::connect(&base, Ports::AsGiven).await {
                Ok(client) => return client,
                Err(fault @ Fault::Nobody(_)) => drop(fault),
                // It may take connections before it has its card.
                Err(fault) => *locked(&waits) = fault.text(),
            }
            sleep(POLL).await;
        }
    };
    let connected = tokio::select! {
        biased;
        connected = timeout(limit, connecting) => connected,
        how = process.ended() => return Err(not_started(how)),
    };
    match connected {
        Ok(client) => A2aAgent::of(name, client, Some(process)),
        Err(_) => {
            let why = format!(
                "it did not get ready within {} s: {}",
                limit.as_secs(),
                locked(&waits)
            );
            let why = with_tail(why, &process.tail());
            process.serving.stop().await;
            Err(why)
        }
    }
}
