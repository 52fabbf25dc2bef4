//! Live agents: those that are reached over A2A, made when they are first prompted and kept as long as their task, and
//! programs that are started for each prompt.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::time::timeout;

use super::executor::Moment;
use super::live::{ProvisionError, Provisioner};
use super::live_env::Program;
use super::turns::{Seat, Stuck, Turn, Who};
use crate::context::Place;
use crate::digest::Digest;
use crate::gateway::{Aside, Gate, Gateway, Grant};
use crate::graph::StepIx;
use crate::provider::a2a::{A2aAgent, Contained, Lessons, Setup};
use crate::provider::command_agent::CommandAgent;
use crate::resource::{ResourceId, ResourceKind};
use crate::schedule::{AgentParts, MadeOf, TaskPlan};
use crate::step::agent::{Agent, AgentDoor, AgentError, Behind, Doors, Prompt, Reply};
use crate::step::sandbox::BoxFuture;
use crate::system::locked;
use crate::task::deploy::{AgentRun, ContainerRun, ProcessRun};

/// An agent of a task; `None` until it is prompted.
pub(super) type AgentSlot = Arc<AsyncMutex<Option<Arc<A2aAgent>>>>;

/// The addresses that a step gives to agents; they work until it is dropped.
pub(super) struct StepDoors(Arc<OpenDoors>);

/// What is behind an address may hold this itself, so the addresses are closed by the step.
struct OpenDoors {
    gateway: Arc<Gateway>,
    /// `None` once the step is over.
    grants: Mutex<Option<Vec<Grant>>>,
}

impl StepDoors {
    pub(super) fn new(gateway: Arc<Gateway>) -> Self {
        StepDoors(Arc::new(OpenDoors {
            gateway,
            grants: Mutex::new(Some(Vec::new())),
        }))
    }

    pub(super) fn share(&self) -> Arc<dyn Doors> {
        self.0.clone()
    }
}

impl Drop for StepDoors {
    fn drop(&mut self) {
        let grants = locked(&self.0.grants).take();
        drop(grants);
    }
}

impl Doors for OpenDoors {
    fn open(&self, door: Arc<dyn AgentDoor>) -> BoxFuture<'_, Result<String, AgentError>> {
        Box::pin(async move {
            let agent = door.name().to_owned();
            let failed = |message: String| AgentError::Failed {
                agent,
                message,
                trajectory: Vec::new(),
            };
            let grant = match self.gateway.open(door).await {
                Ok(grant) => grant,
                Err(error) => {
                    let why = format!("the gateway cannot listen on 127.0.0.1: {error}");
                    return Err(failed(why));
                }
            };
            let url = grant.url().to_owned();
            match locked(&self.grants).as_mut() {
                Some(grants) => grants.push(grant),
                None => return Err(failed("the step that asks it is over".to_owned())),
            }
            Ok(url)
        })
    }
}

/// An agent that is made when it is prompted.
pub(super) struct LateAgent {
    pub(super) name: String,
    pub(super) task: usize,
    pub(super) run: AgentRun,
    pub(super) parts: Arc<AgentParts>,
    pub(super) provisioner: Arc<Provisioner>,
    /// The step in whose name it is prompted.
    pub(super) step: StepIx,
    pub(super) step_id: String,
    /// The envs of the step.
    pub(super) gates: Vec<Arc<Gate>>,
    pub(super) told: mpsc::UnboundedSender<Moment>,
}

impl Agent for LateAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        Box::pin(async move {
            if let AgentRun::Program { .. } = &self.run {
                let _turn = self.turn(&prompt.behind).await?;
                return self.program().await?.prompt(prompt).await;
            }
            let agent = self.a2a(prompt.timeout).await?;
            if !agent.is_taught() {
                return agent.prompt(prompt).await;
            }
            let turn = self.turn(&prompt.behind).await?;
            // The prompt before may have been its end.
            let agent = self.a2a(prompt.timeout).await?;
            agent.prompt_in_turn(prompt, Box::new(turn)).await
        })
    }
}

impl LateAgent {
    /// Waits for the turn of a prompt; others know meanwhile that the step waits.
    async fn turn(&self, behind: &Behind) -> Result<Turn, AgentError> {
        let seat = match (&self.run, &self.parts.sandbox_name) {
            (AgentRun::Url { url, .. }, _) => Seat::Address(url.trim_end_matches('/').to_owned()),
            (_, Some(sandbox)) => Seat::Sandbox(self.task, sandbox.clone()),
            (_, None) => Seat::Agent(self.task, self.name.clone()),
        };
        let who = Who {
            task: self.task,
            step: self.step,
            agent: self.name.clone(),
        };
        let aside = || {
            // Where nobody listens any more, there are no slots either.
            let _ = self.told.send(Moment::Rests);
            let asides = self.gates.iter().map(|gate| Aside::of(gate, &self.step_id));
            asides.map(|aside| Box::new(aside) as _).collect()
        };
        let turn = self.provisioner.turns.take(seat, who, behind, aside).await;
        turn.map_err(|stuck| {
            let why = match (stuck, behind.agents.last()) {
                (Stuck::Itself, Some(asker)) => format!(
                    "agent `{asker}` asks it while it waits for the answer of `{asker}`, and it takes one prompt at a time"
                ),
                (Stuck::Itself, None) => "it is to follow an instruction while it waits until that is followed, and it \
                    takes one prompt at a time"
                    .to_owned(),
                (Stuck::EachOther, _) => {
                    // Which of the prompts came first decided it, so it says nothing of the agents.
                    let why = "it works on a prompt that waits for who asks it now, and it takes one prompt at a time";
                    return self.failed(ProvisionError::Failed(why.to_owned()));
                }
            };
            AgentError::Failed {
                agent: self.name.clone(),
                message: why,
                trajectory: Vec::new(),
            }
        })
    }

    fn failed(&self, error: ProvisionError) -> AgentError {
        let why = match error {
            ProvisionError::Failed(why) | ProvisionError::Lost(Some(why)) => why,
            ProvisionError::Lost(None) => "it cannot be made".to_owned(),
        };
        AgentError::Unreachable {
            agent: self.name.clone(),
            message: why,
            trajectory: Vec::new(),
        }
    }

    async fn program(&self) -> Result<CommandAgent, AgentError> {
        let AgentRun::Program {
            run,
            prompt,
            reply_file,
        } = &self.run
        else {
            return Err(self.failed(ProvisionError::Lost(None)));
        };
        let program = program(&self.name, &self.parts, run);
        let around = self.provisioner.surroundings(&program).await;
        let around = around.map_err(|error| self.failed(error))?;
        let mut variables = self.parts.passed.clone();
        variables.extend(around.path.map(|path| ("PATH".to_owned(), path)));
        let files = self.parts.content.as_ref();
        Ok(CommandAgent {
            name: self.name.clone(),
            run: run.clone(),
            prompt: *prompt,
            reply_file: reply_file.clone(),
            files: files.map_or(Vec::new(), |content| content.files.clone()),
            variables,
            given: self.parts.variables.clone(),
            python: around.python,
        })
    }

    /// Returns the agent of the task, made where it is not there yet. One that runs already may take so long to give its
    /// card; one that is started has a limit of its own.
    async fn a2a(&self, limit: Duration) -> Result<Arc<A2aAgent>, AgentError> {
        let key = (self.task, self.name.clone());
        let slot = locked(&self.provisioner.agents)
            .entry(key)
            .or_default()
            .clone();
        let mut slot = slot.lock().await;
        if let Some(gone) = slot.take_if(|agent| !agent.is_up()) {
            gone.stop().await;
        }
        if let Some(agent) = slot.as_ref() {
            return Ok(agent.clone());
        }
        let made = match &self.run {
            AgentRun::Url { url, .. } => {
                let connecting = A2aAgent::connect(&self.name, url);
                match timeout(limit, connecting).await {
                    Ok(connected) => connected?.with(self.lessons(url)?),
                    Err(_) => {
                        let agent = self.name.clone();
                        return Err(AgentError::TimedOut {
                            agent,
                            limit,
                            trajectory: Vec::new(),
                        });
                    }
                }
            }
            AgentRun::Served {
                run,
                ready_timeout_seconds,
                ..
            } => self.start(run, *ready_timeout_seconds).await?,
            AgentRun::Container {
                run,
                ready_timeout_seconds,
                ..
            } => self.contain(run, *ready_timeout_seconds).await?,
            AgentRun::Inside | AgentRun::Program { .. } => {
                return Err(self.failed(ProvisionError::Lost(None)));
            }
        };
        let made = Arc::new(made);
        *slot = Some(made.clone());
        if self.run.remembers() {
            locked(&self.provisioner.remembering).insert((self.task, self.name.clone()));
        }
        Ok(made)
    }

    /// Returns what the agent at an address was told in this run, by whichever task.
    fn lessons(&self, url: &str) -> Result<Arc<Lessons>, AgentError> {
        let none = Lessons::none();
        let none = none.map_err(|why| self.failed(ProvisionError::Failed(why)))?;
        let mut all = locked(&self.provisioner.lessons);
        let url = url.trim_end_matches('/').to_owned();
        Ok(all.entry(url).or_insert_with(|| Arc::new(none)).clone())
    }

    async fn start(&self, run: &ProcessRun, limit: u64) -> Result<A2aAgent, AgentError> {
        let program = program(&self.name, &self.parts, run);
        let made = self.provisioner.sandbox_of(self.task, &program).await;
        let (sandbox, python) = made.map_err(|error| self.failed(error))?;
        let setup = Setup {
            name: &self.name,
            run,
            limit: Duration::from_secs(limit),
            sandbox,
            python: python.as_deref(),
            variables: &self.parts.variables,
        };
        A2aAgent::start(setup).await
    }

    async fn contain(&self, run: &ContainerRun, limit: u64) -> Result<A2aAgent, AgentError> {
        let spec = &self.parts.spec;
        let table = spec.folder.as_deref().unwrap_or(&spec.id);
        let help = format!("`command` or `url` in [agents.{table}]");
        let docker = self.provisioner.docker_for("it", "the agent", &help).await;
        let docker = docker.map_err(|error| self.failed(error))?;
        let content = self.parts.content.as_ref();
        let contained = Contained {
            name: &self.name,
            run,
            limit: Duration::from_secs(limit),
            files: content.map_or(&[], |content| &content.files),
            passed: &self.parts.passed,
            variables: &self.parts.variables,
        };
        A2aAgent::contain(docker, contained).await
    }
}

fn program<'a>(name: &'a str, parts: &'a AgentParts, run: &'a ProcessRun) -> Program<'a> {
    Program {
        noun: format!("agent `{name}`"),
        run,
        content: parts.content.as_deref(),
        passed: &parts.passed,
        // Programs see the id, so it is the same in every run, as far as no other agent is up.
        instance: "agent",
    }
}

impl Provisioner {
    /// Returns the folders of this machine that the sandbox of an agent sees, where the agent is a program in it.
    pub(super) async fn mounts_of_agent(
        &self,
        plan: &TaskPlan,
        step: StepIx,
        resource: &ResourceId,
    ) -> Result<Vec<PathBuf>, ProvisionError> {
        let place = Place::Agent(resource.name.clone());
        let is_agent = resource.kind == ResourceKind::Agent;
        let maker = plan.maker_of(step, &place).filter(|_| is_agent);
        let made_of = maker.map(|maker| &plan.steps[maker.at()].made_of);
        let Some(MadeOf::Agent(parts)) = made_of else {
            return Ok(Vec::new());
        };
        let run = parts.spec.run();
        let run = run.map_err(|why| ProvisionError::Failed(why.headline))?;
        let AgentRun::Program { run, .. } = run else {
            return Ok(Vec::new());
        };
        let program = program(&resource.name, parts, &run);
        Ok(self.surroundings(&program).await?.mounts)
    }

    /// Returns the digest of all that was said to an agent that keeps it in its process; `None` where nothing was.
    pub(super) async fn history_of_agent(
        &self,
        task: usize,
        resource: &ResourceId,
    ) -> Option<Digest> {
        let key = (task, resource.name.clone());
        if resource.kind != ResourceKind::Agent || !locked(&self.remembering).contains(&key) {
            return None;
        }
        let slot = locked(&self.agents).get(&key).cloned()?;
        let slot = slot.lock().await;
        slot.as_ref()?.history()
    }

    /// Ends an agent and waits for its end.
    pub(super) async fn end_agent(&self, task: usize, resource: &ResourceId) {
        if resource.kind != ResourceKind::Agent {
            return;
        }
        let slot = locked(&self.agents).remove(&(task, resource.name.clone()));
        if let Some(slot) = slot
            && let Some(agent) = slot.lock().await.take()
        {
            agent.stop().await;
        }
    }

    /// Ends an agent.
    pub(super) fn retire_agent(self: &Arc<Self>, task: usize, resource: &ResourceId) {
        let (this, resource) = (self.clone(), resource.clone());
        if resource.kind == ResourceKind::Agent {
            tokio::spawn(async move { this.end_agent(task, &resource).await });
        }
    }

    /// Ends the agents of a task, or of all tasks.
    pub(super) async fn end_agents(&self, task: Option<usize>) {
        let slots: Vec<AgentSlot> = {
            let mut all = locked(&self.agents);
            let is_its = |of: usize| task.is_none_or(|task| of == task);
            let mine: Vec<_> = all.keys().filter(|(of, _)| is_its(*of)).cloned().collect();
            let slots = mine.into_iter().filter_map(|key| all.remove(&key));
            slots.collect()
        };
        for slot in slots {
            if let Some(agent) = slot.lock().await.take() {
                agent.stop().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Value;

    /// An agent that may ask others, as each does that has peers.
    struct Friend(#[expect(dead_code, reason = "it is held, and that is all")] Arc<dyn Doors>);

    impl AgentDoor for Friend {
        fn name(&self) -> &str {
            "friend"
        }

        fn description(&self) -> &str {
            ""
        }

        fn ask<'a>(
            &'a self,
            _: &'a str,
            _: Vec<Value>,
        ) -> BoxFuture<'a, Result<Reply, AgentError>> {
            Box::pin(async { Ok(Reply::default()) })
        }
    }

    #[tokio::test]
    async fn addresses_end_with_their_step_though_what_is_behind_them_may_open_more() {
        let doors = StepDoors::new(Gateway::new());
        let shared = doors.share();
        let friend = Arc::new(Friend(doors.share()));
        let behind = Arc::downgrade(&friend);
        shared.open(friend).await.unwrap();
        assert!(behind.upgrade().is_some());
        drop(doors);
        assert!(behind.upgrade().is_none());
        let late = shared.open(Arc::new(Friend(shared.clone()))).await;
        assert_eq!(
            late.unwrap_err().to_string(),
            "agent `friend` failed: the step that asks it is over"
        );
    }
}
