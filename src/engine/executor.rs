//! Runs one step: brings what it needs to the right state, gives it its world, and reports how it ended.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::TaskJob;
use super::company::Going;
use super::live::{ProvisionError, Provisioner};
use super::live_agent::StepDoors;
use super::store::Store;
use super::world::{World, add_to_log};
use crate::context::{Output, Outputs};
use crate::event::Spent;
use crate::graph::StepIx;
use crate::model::Exchange;
use crate::rebuild::Log;
use crate::record::Redactor;
use crate::resource::{Provision, ResourceKind};
use crate::schedule::{Ended, Need};
use crate::step::sandbox::Sandbox;
use crate::step::{Services, StepCx, StepError};
use crate::system::{System, locked};

/// One run of one step.
pub(super) struct StepRun {
    pub(super) task: usize,
    pub(super) job: Arc<TaskJob>,
    pub(super) step: StepIx,
    pub(super) needs: Vec<Need>,
    pub(super) attempt: u32,
    pub(super) outputs: Outputs,
    pub(super) provisioner: Arc<Provisioner>,
    pub(super) store: Store,
    pub(super) system: Arc<dyn System>,
    pub(super) timeout: Option<Duration>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) models: Arc<Exchange>,
    pub(super) aborted: watch::Receiver<bool>,
    pub(super) goings: watch::Receiver<Arc<Vec<Going>>>,
}

/// Something that happens before a step ends.
pub(super) enum Moment {
    /// A need was brought to its state.
    Provisioned(Need),
    /// Its world stands, and it starts.
    Started,
    /// Something that the user should be told.
    Notice(String),
    /// It waits for steps beside it, and needs no slot any more.
    Rests,
}

/// How it went.
pub(super) struct Finished {
    pub(super) ended: Ended,
    pub(super) started_us: i64,
    pub(super) took_us: u64,
    pub(super) log: Log,
    /// Why the result must not be kept.
    pub(super) unfit: Option<String>,
    /// What was spent on models.
    pub(super) spent: Spent,
}

impl StepRun {
    /// Runs the step; `told` hears of what happens before it ends.
    pub(super) async fn run(mut self, told: &(dyn Fn(Moment) + Sync)) -> Finished {
        let started_us = self.system.now_us();
        let mut sandboxes = HashMap::new();
        let mut envs = HashMap::new();
        let mut agents = HashMap::new();
        let mut lost = None;
        for need in &self.needs {
            let (plan, name) = (&self.job.plan, need.resource.name.clone());
            let is_warm = self.provisioner.is_at(self.task, need).await;
            let provided = match need.resource.kind {
                ResourceKind::Sandbox => {
                    let sandbox = self.provisioner.provide(self.task, plan, self.step, need);
                    sandbox.await.map(|sandbox| {
                        sandboxes.insert(name, sandbox);
                    })
                }
                ResourceKind::Env => {
                    let gate = self
                        .provisioner
                        .provide_env(self.task, plan, self.step, need);
                    // An image may take minutes to build or pull, and a server until its time is over to get ready.
                    // Who is dropped at that leaves no env.
                    tokio::select! {
                        biased;
                        () = told_to_stop(self.aborted.clone()) => {
                            lost = Some(Ended::Aborted);
                            break;
                        }
                        gate = gate => gate.map(|gate| {
                            envs.insert(name, gate);
                        }),
                    }
                }
                ResourceKind::Agent => {
                    let agent = self
                        .provisioner
                        .provide_agent(self.task, plan, self.step, need);
                    agent.await.map(|sandbox| {
                        agents.extend(sandbox.map(|sandbox| (name, sandbox)));
                    })
                }
            };
            match provided {
                // One without a sandbox is made by the step that asks it.
                Ok(()) if is_agent_alone(need, &agents) => {}
                Ok(()) if is_warm => told(Moment::Provisioned(Need {
                    how: Provision::Reuse,
                    ..need.clone()
                })),
                Ok(()) => told(Moment::Provisioned(need.clone())),
                Err(ProvisionError::Lost(why)) => {
                    if let Some(why) = why {
                        let text = format!("{} cannot be brought back: {why}", need.resource);
                        told(Moment::Notice(self.redactor.text(&text).into_owned()));
                    }
                    lost = Some(Ended::Lost(need.resource.clone()));
                }
                Err(ProvisionError::Failed(why)) => {
                    let why = self.redactor.text(&why).into_owned();
                    lost = Some(Ended::Failed(StepError::new(why)));
                }
            }
        }
        if let Some(ended) = lost {
            return Finished {
                ended,
                started_us,
                took_us: 0,
                log: Log::default(),
                unfit: None,
                spent: Spent::default(),
            };
        }
        let id = self.job.plan.steps[self.step.at()].id.as_str();
        let asker = self.models.asker(id, self.job.sample, self.attempt);
        let (to_tell, mut being_told) = mpsc::unbounded_channel();
        let world = World {
            models: Arc::new(asker),
            job: self.job.clone(),
            step: self.step,
            outputs: self.outputs.share(),
            sandboxes,
            envs,
            agents,
            provisioner: self.provisioner.clone(),
            task: self.task,
            attempt: self.attempt,
            doors: StepDoors::new(self.provisioner.gateway.clone()),
            benches: Mutex::default(),
            reads: Mutex::default(),
            left: watch::Sender::new(false),
            told: to_tell,
            goings: self.goings.clone(),
            log: Arc::default(),
            unfit: Mutex::default(),
            store: self.store.share(),
            redactor: self.redactor.clone(),
            scratch: self.provisioner.scratch(self.task, self.step),
        };
        if !*self.aborted.borrow() {
            told(Moment::Started);
        }
        // The clock of the step starts when its world stands.
        let started_us = self.system.now_us();
        let mut ended = {
            let mut work = pin!(self.run_in(&world));
            loop {
                tokio::select! {
                    ended = &mut work => break ended,
                    Some(moment) = being_told.recv() => told(moment),
                }
            }
        };
        if matches!(ended, Ended::Output(..))
            && let Some(gone) = self.provisioner.vanished(self.task, &self.needs).await
        {
            let why = format!("the folder of {gone} was removed while the step ran");
            ended = Ended::Failed(StepError::new(why));
        }
        if matches!(ended, Ended::Output(..))
            && let Some(error) = self.provisioner.broken_env(self.task, &self.needs).await
        {
            ended = Ended::Failed(error.into());
        }
        if !matches!(ended, Ended::Output(..)) {
            // What it asked of envs over HTTP goes on without it.
            world.left.send_replace(true);
        }
        let took_us = self.system.now_us().saturating_sub(started_us).max(0) as u64;
        let spent = world.models.usage().spent();
        if let Some(words) = spent.words() {
            add_to_log(&world.log, format!("models: {words}\n").as_bytes());
        }
        world.clean().await;
        let log = world.take_log(&self.redactor);
        let ended = match ended {
            Ended::Output(output, _) => {
                if output
                    .entries
                    .iter()
                    .any(|entry| self.redactor.is_in_value(&entry.value))
                {
                    world.do_not_keep("it holds the value of a variable that is passed on");
                }
                Ended::Output(output, world.take_reads())
            }
            Ended::Failed(mut error) => {
                error.message = self.redactor.text(&error.message).into_owned();
                Ended::Failed(error)
            }
            other => other,
        };
        let unfit = locked(&world.unfit).take();
        Finished {
            ended,
            started_us,
            took_us,
            log,
            unfit,
            spent,
        }
    }

    async fn run_in(&mut self, world: &World) -> Ended {
        let planned = &self.job.plan.steps[self.step.at()];
        let step = self.job.steps[self.step.at()].clone();
        let cx = StepCx {
            step: &planned.id,
            services: world,
        };
        let run = catch(step.run(cx));
        let limit = self.timeout;
        let timed = async {
            match limit {
                Some(limit) => match tokio::time::timeout(limit, run).await {
                    Ok(result) => result,
                    Err(_) => Err(StepError::of(
                        "TimeoutError",
                        format!("it ran longer than {} s", limit.as_secs_f64()),
                    )),
                },
                None => run.await,
            }
        };
        tokio::select! {
            biased;
            () = told_to_stop(self.aborted.clone()) => Ended::Aborted,
            result = timed => match result {
                Ok(output) => Ended::Output(output, Vec::new()),
                Err(error) => Ended::Failed(error),
            },
        }
    }
}

/// Returns whether a need is an agent without a sandbox.
fn is_agent_alone(need: &Need, agents: &HashMap<String, Arc<dyn Sandbox>>) -> bool {
    need.resource.kind == ResourceKind::Agent && !agents.contains_key(&need.resource.name)
}

/// Waits until a step is to be aborted.
async fn told_to_stop(mut aborted: watch::Receiver<bool>) {
    // Where nobody can say so any more, nobody will.
    if aborted.wait_for(|aborted| *aborted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Turns a panic of a step into its failure.
async fn catch(
    future: impl Future<Output = Result<Output, StepError>>,
) -> Result<Output, StepError> {
    let mut future = pin!(future);
    std::future::poll_fn(move |cx| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(_) => Poll::Ready(Err(super::panicked())),
        }
    })
    .await
}
