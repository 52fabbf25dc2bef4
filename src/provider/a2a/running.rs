//! What runs an agent for aebuild alone: a process or a container.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::super::docker::Container;
use super::super::local::LocalSandbox;
use super::super::process::Serving;
use super::super::served::words;
use super::agent::MOMENT;
use super::client::Ports;
use super::{Client, Fault};
use crate::step::sandbox::How;
use crate::system::locked;

/// How often an agent that is not ready yet is asked again.
const POLL: Duration = Duration::from_millis(20);

/// What runs an agent.
pub(super) enum Running {
    /// A process.
    Process {
        /// The process.
        serving: Serving,
        /// Whether it writes no more.
        is_silent: watch::Receiver<bool>,
        /// Its sandbox.
        sandbox: Arc<LocalSandbox>,
    },
    /// A container.
    Container(Container),
}

impl Running {
    pub(super) fn is_up(&self) -> bool {
        match self {
            Running::Process { serving, .. } => serving.ended.borrow().is_none(),
            Running::Container(container) => container.ended.borrow().is_none(),
        }
    }

    /// Waits until it ends, and says how.
    pub(super) async fn ended(&self) -> String {
        let how = match self {
            Running::Process {
                serving, is_silent, ..
            } => {
                let mut ended = serving.ended.clone();
                // An error means that who would say so is gone with the process.
                let how = ended.wait_for(Option::is_some).await;
                let how = how.ok().and_then(|how| *how).unwrap_or(How::Cancelled);
                // What it left behind may hold the pipe open.
                let mut is_silent = is_silent.clone();
                let _ = timeout(MOMENT, is_silent.wait_for(|is_silent| *is_silent)).await;
                words(how)
            }
            Running::Container(container) => container.how_it_ended().await,
        };
        with_tail(how, &self.tail())
    }

    /// Returns the end of what runs it in place of an error that comes of it.
    pub(super) async fn explained(&self, why: String) -> String {
        timeout(2 * MOMENT, self.ended()).await.unwrap_or(why)
    }

    /// Returns what it wrote last.
    pub(super) fn tail(&self) -> String {
        match self {
            Running::Process { serving, .. } => locked(&serving.said).text(),
            Running::Container(container) => container.tail(),
        }
    }

    pub(super) async fn stop(&self) {
        match self {
            Running::Process {
                serving, sandbox, ..
            } => {
                serving.stop().await;
                // Its folder goes with the run's own at the latest.
                let _ = sandbox.destroy().await;
            }
            Running::Container(container) => container.stop().await,
        }
    }
}

/// Connects to an agent that gets ready below an address; `waits` says what is waited for.
pub(super) async fn reached(base: &str, path: &str, waits: &Mutex<String>) -> Client {
    let base = format!("{base}{}", path.trim_end_matches('/'));
    *locked(waits) = format!("nothing listens at {base}");
    loop {
        // The agent was told a port that its card need not know.
        match Client::connect(&base, Ports::AsGiven).await {
            Ok(client) => return client,
            Err(fault @ Fault::Nobody(_)) => drop(fault),
            // It may take connections before it has its card.
            Err(fault) => *locked(waits) = fault.text(),
        }
        sleep(POLL).await;
    }
}

/// Returns the variables that tell an agent who it is, and on which address and port it is to serve.
pub(super) fn own_variables(
    name: &str,
    (host, port): (&str, u16),
    port_variable: &str,
) -> Vec<(String, String)> {
    let port = port.to_string();
    let own = [
        ("AGENT_NAME", name),
        ("PYTHONUNBUFFERED", "1"),
        ("HOST", host),
        ("A2A_HOST", host),
        ("A2A_PORT", &port),
        (port_variable, &port),
    ];
    let own = own.iter();
    own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Says that an agent could not be started.
pub(super) fn not_started(why: &str, tail: &str) -> String {
    with_tail(format!("it could not be started: {why}"), tail)
}

/// Says that an agent did not get ready in time, and what was waited for.
pub(super) fn not_ready(limit: Duration, waits: &Mutex<String>, tail: &str) -> String {
    let (limit, waits) = (limit.as_secs(), locked(waits).clone());
    with_tail(
        format!("it did not get ready within {limit} s: {waits}"),
        tail,
    )
}

fn with_tail(why: String, tail: &str) -> String {
    if tail.is_empty() {
        why
    } else {
        format!("{why}; its last lines:\n{tail}")
    }
}
