//! Agents that are containers of this machine's engine and serve A2A.

use std::sync::Mutex;
use std::time::Duration;

use super::super::docker::{Docker, Network, NotServing, Role, Serve};
use super::A2aAgent;
use super::running::{Running, not_ready, not_started, own_variables, reached};
use crate::step::ContentFile;
use crate::step::agent::AgentError;
use crate::task::deploy::ContainerRun;

/// What an agent that is a container is started with.
pub struct Contained<'a> {
    /// The `agent_name`.
    pub name: &'a str,
    /// How it is run.
    pub run: &'a ContainerRun,
    /// How long it may take to get ready.
    pub limit: Duration,
    /// The files of its folder.
    pub files: &'a [ContentFile],
    /// Variables of this machine that it sees.
    pub passed: &'a [(String, String)],
    /// Variables that its deploy step gives it.
    pub variables: &'a [(String, String)],
}

impl A2aAgent {
    /// Starts a container that serves A2A, and waits until it gives its card. It is in the network of this machine, as its
    /// envs and peers are on 127.0.0.1.
    pub async fn contain(
        docker: &Docker,
        contained: Contained<'_>,
    ) -> Result<A2aAgent, AgentError> {
        let Contained {
            name,
            run,
            limit,
            files,
            passed,
            variables,
        } = contained;
        let variables = |host: &str, port: u16| {
            let mut all = passed.to_vec();
            all.extend(own_variables(name, (host, port), &run.port_variable));
            all.extend(run.variables.clone());
            all.extend_from_slice(variables);
            all
        };
        let serve = Serve {
            role: Role::Agent(name),
            image: run.image.as_deref(),
            files,
            network: Network::Machine(run.port),
            variables: &variables,
            limit,
        };
        let waits = &Mutex::default();
        let connecting = |base: String| async move { Ok(reached(&base, &run.path, waits).await) };
        let agent = match docker.serve(serve, connecting).await {
            Ok((container, client)) => {
                A2aAgent::of(name, client, Some(Running::Container(container)))
            }
            Err(NotServing::NotStarted { why, tail }) => Err(not_started(&why, &tail)),
            Err(NotServing::NotReady { tail }) => Err(not_ready(limit, waits, &tail)),
        };
        agent.map_err(|message| AgentError::Unreachable {
            agent: name.to_owned(),
            message,
            trajectory: Vec::new(),
        })
    }
}
