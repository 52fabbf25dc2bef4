//! The only place where the scheduler meets the world.
//!
//! One dispatcher with one loop owns all state: it feeds each task's scheduler with what happened, carries out its
//! commands, and tells one ordered stream of [`RunEvent`]s. Steps run beside it and talk to nobody else.

mod calls;
mod company;
mod executor;
mod live;
mod live_agent;
mod live_docker;
mod live_env;
mod live_folder;
mod live_state;
mod result;
mod slots;
mod stop;
mod store;
mod telling;
mod turns;
mod warm;
mod world;

pub use live::{LiveSettings, Provisioner};
pub use result::scores;
use stop::is_failure;
pub use store::{FAILURE, Store, TRACE, Verdicts};
pub use warm::RunningTask;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::context::Outputs;
use crate::digest::Digest;
use crate::event::{Outcome, RunEvent, Score, Spent, StepEvent, Tally};
use crate::graph::StepIx;
use crate::model;
use crate::rebuild::{DirtyReason, Log};
use crate::record::Redactor;
use crate::resource::ResourceId;
use crate::schedule::{Command, Ended, Input, Lane, Need, Pool, Scheduler, TaskPlan};
use crate::step::{Content, Step, StepError};
use crate::system::{Stamp, System};
use crate::task::StepId;

/// A task made ready to be run.
pub struct TaskJob {
    /// The task as shown, such as `tasks/hello.json`.
    pub shown: String,
    /// The plan, with what is kept of earlier runs.
    pub plan: Arc<TaskPlan>,
    /// The steps, in list order.
    pub steps: Vec<Arc<dyn Step>>,
    /// The contents that each step uses.
    pub contents: Vec<Vec<Arc<Content>>>,
    /// Steps that must run because a state that they made is lost.
    pub lost: HashMap<StepIx, DirtyReason>,
    /// The stamps of the files that went into the plan.
    pub stamps: Arc<HashMap<PathBuf, Stamp>>,
    /// The number of the sample.
    pub sample: u32,
}

/// How a run is carried out.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The run's id.
    pub run: String,
    /// How many steps run at once.
    pub jobs: usize,
    /// How many steps that wait for somebody run at once, such as prompts.
    pub prompt_jobs: usize,
    /// How many tasks run at once.
    pub task_jobs: usize,
    /// How long a step may run.
    pub step_timeout: Option<Duration>,
    /// Values that must not be written anywhere.
    pub secrets: Vec<String>,
    /// How models are asked.
    pub models: model::Settings,
}

/// What the user asks of a run while it goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Go on.
    GoOn,
    /// Go on with the steps that still have these keys and depend on none that has another; let the others be.
    Keep(Arc<StepKeys>),
    /// Stop: drain, tear down, record.
    Stop,
    /// Stop at once.
    StopNow,
}

impl Wish {
    /// Returns whether the run is to end before its end.
    pub fn stops(&self) -> bool {
        matches!(self, Wish::Stop | Wish::StopNow)
    }
}

/// The keys of steps, by task as shown and by step.
pub type StepKeys = BTreeMap<String, BTreeMap<StepId, Digest>>;

/// The result of a task.
#[derive(Clone, Debug)]
pub struct TaskResult {
    /// The task as shown.
    pub shown: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Its scores.
    pub scores: Vec<Score>,
    /// Why it failed, where it did.
    pub failure: Option<String>,
    /// What was counted.
    pub tally: Tally,
    /// All outputs, what the scheduler itself adds included.
    pub outputs: Outputs,
    /// Where the results are kept that stand for the task; `None` where one of them is not kept.
    pub kept: Option<Vec<aebuild_cache::Place>>,
    /// How long the steps took that gave those results, microseconds.
    pub worth_us: u64,
    /// The blobs that those results name.
    pub blobs: Vec<aebuild_cache::BlobRef>,
}

/// A moment of a run, as the dispatcher tells it.
pub enum Told {
    /// An event.
    Event(RunEvent),
    /// The log of a step that ended or whose kept result stood in.
    Log {
        /// The task.
        task: String,
        /// The step.
        step: String,
        /// The log.
        log: Log,
    },
}

enum Message {
    Started {
        task: usize,
        step: StepIx,
    },
    Ended {
        task: usize,
        step: StepIx,
        ended: Ended,
        started_us: i64,
        took_us: u64,
        log: Log,
        unfit: Option<String>,
        spent: Spent,
        lane: Lane,
    },
    Provisioned {
        task: usize,
        step: StepIx,
        need: Need,
    },
    Settled {
        task: usize,
        resource: ResourceId,
        settled: live::Settled,
    },
    Woke {
        task: usize,
        step: StepIx,
    },
    Notice(String),
    Rests {
        task: usize,
        step: StepIx,
    },
}

struct Active<'s> {
    job: Arc<TaskJob>,
    scheduler: Scheduler<'s>,
    aborts: HashMap<StepIx, watch::Sender<bool>>,
    goings: company::Goings,
    /// Steps that run and have given their slots back.
    resting: HashSet<StepIx>,
    queued: HashMap<StepIx, (u32, Vec<Need>)>,
    logs: HashMap<StepIx, (Log, i64, u64)>,
    unfit: HashMap<StepIx, String>,
    places: HashMap<StepIx, aebuild_cache::Place>,
    blobs: Vec<aebuild_cache::BlobRef>,
    worth: HashMap<StepIx, u64>,
    tally: Tally,
    began_us: i64,
}

/// Runs tasks and returns their results in the order given.
pub struct Dispatcher<'a> {
    system: Arc<dyn System>,
    store: &'a Store,
    provisioner: Arc<Provisioner>,
    settings: EngineSettings,
    redactor: Arc<Redactor>,
    models: Arc<model::Exchange>,
    /// Whether no step starts until it is clear whether the run stops.
    holds: bool,
    tell: &'a mut dyn FnMut(Told),
}

impl<'a> Dispatcher<'a> {
    /// Returns a dispatcher.
    pub fn new(
        system: Arc<dyn System>,
        store: &'a Store,
        provisioner: Arc<Provisioner>,
        settings: EngineSettings,
        tell: &'a mut dyn FnMut(Told),
    ) -> Self {
        let redactor = Arc::new(Redactor::new(settings.secrets.iter().map(String::as_str)));
        let calls = Arc::new(calls::Calls {
            cache: provisioner.cache.clone(),
            redactor: redactor.clone(),
        });
        let models = model::Exchange::new(settings.models.clone(), calls, system.clone());
        Dispatcher {
            system,
            store,
            provisioner,
            settings,
            redactor,
            models: Arc::new(models),
            holds: false,
            tell,
        }
    }

    /// Runs the tasks; `wish` changes when the user wants to stop.
    pub async fn run(
        &mut self,
        jobs: Vec<TaskJob>,
        mut wish: watch::Receiver<Wish>,
    ) -> Vec<TaskResult> {
        let n = jobs.len();
        let (send, mut receive) = mpsc::unbounded_channel();
        let mut waiting: VecDeque<(usize, Arc<TaskJob>)> =
            jobs.into_iter().map(Arc::new).enumerate().collect();
        let mut active: HashMap<usize, Active<'a>> = HashMap::new();
        let mut results: Vec<Option<TaskResult>> = (0..n).map(|_| None).collect();
        let mut pool: Pool<(usize, StepIx)> =
            Pool::new(self.settings.jobs, self.settings.prompt_jobs);
        let mut stopping = false;
        let mut keys: Option<Arc<StepKeys>> = None;
        loop {
            while active.len() < self.settings.task_jobs.max(1) {
                let Some((at, job)) = waiting.pop_front() else {
                    break;
                };
                if stopping {
                    results[at] = Some(self.never_started(&job));
                    continue;
                }
                let mut task = self.begin(job);
                let commands = task.scheduler.on(stop::begin(&task.job, keys.as_deref()));
                let ended = self.carry_out(at, &mut task, commands, &mut pool, &send);
                company::tell(&task.goings, &task.job.plan, &task.scheduler);
                if ended {
                    results[at] = Some(self.finish(at, task).await);
                } else {
                    active.insert(at, task);
                }
                self.start_steps(&mut active, &mut pool, &send);
            }
            if active.is_empty() && waiting.is_empty() {
                break;
            }
            let message = tokio::select! {
                biased;
                changed = wish.changed() => {
                    let asked = match changed {
                        Ok(()) => wish.borrow_and_update().clone(),
                        // Who could ask is gone, and nobody waits for the result.
                        Err(_) => Wish::StopNow,
                    };
                    match asked {
                        Wish::GoOn => {}
                        Wish::Keep(now) => {
                            self.keep_only(&now, &mut active, &mut results, &mut pool, &send).await;
                            keys = Some(now);
                        }
                        Wish::Stop if stopping => {}
                        Wish::Stop => {
                            stopping = true;
                            self.cancel(&mut active, &mut results, &mut pool, &send, |_| true).await;
                        }
                        Wish::StopNow => {
                            self.provisioner.kill_now();
                            for (at, task) in active.drain() {
                                results[at] = Some(self.result(task, Some(Outcome::Cancelled)));
                            }
                            for (at, job) in waiting.drain(..) {
                                results[at] = Some(self.never_started(&job));
                            }
                            break;
                        }
                    }
                    continue;
                }
                message = receive.recv() => message.expect("bug: the dispatcher holds a sender"),
            };
            let mut failed = is_failure(&message);
            self.take_in(message, &mut active, &mut results, &mut pool, &send)
                .await;
            while let Ok(message) = receive.try_recv() {
                failed |= is_failure(&message);
                self.take_in(message, &mut active, &mut results, &mut pool, &send)
                    .await;
            }
            // Whoever was refused fails with the reason; only then the others are stopped.
            if failed && !stopping && self.is_over_budget() {
                stopping = true;
                let is_open = |task: &Active<'a>| !task.scheduler.is_closed();
                self.cancel(&mut active, &mut results, &mut pool, &send, is_open)
                    .await;
            }
            if std::mem::take(&mut self.holds) {
                self.start_steps(&mut active, &mut pool, &send);
            }
        }
        results.into_iter().flatten().collect()
    }

    async fn take_in(
        &mut self,
        message: Message,
        active: &mut HashMap<usize, Active<'a>>,
        results: &mut [Option<TaskResult>],
        pool: &mut Pool<(usize, StepIx)>,
        send: &mpsc::UnboundedSender<Message>,
    ) {
        match message {
            Message::Notice(text) => (self.tell)(Told::Event(RunEvent::Notice { text })),
            Message::Provisioned { task, step, need } => {
                if let Some(running) = active.get_mut(&task) {
                    let what = StepEvent::Provisioned {
                        resource: need.resource,
                        how: need.how,
                    };
                    self.tell_step(running, step, what);
                }
            }
            Message::Started { task, step } => {
                self.feed(task, Input::Started(step), active, results, pool, send)
                    .await;
            }
            Message::Ended {
                task,
                step,
                ended,
                started_us,
                took_us,
                log,
                unfit,
                spent,
                lane,
            } => {
                let is_resting = |running: &mut Active<'a>| running.resting.remove(&step);
                // One that rested has given its slot back already.
                if !active.get_mut(&task).is_some_and(is_resting) {
                    pool.done(lane);
                }
                if let Some(running) = active.get_mut(&task) {
                    running.aborts.remove(&step);
                    running.tally.models.add(&spent);
                    running.unfit.remove(&step);
                    running.unfit.extend(unfit.map(|why| (step, why)));
                    self.tell_log(running, step, &log);
                    running.logs.insert(step, (log, started_us, took_us));
                    if let Ended::Failed(error) = &ended {
                        if self.models.over_budget().is_some() {
                            // What is done stays done.
                            running.scheduler.forbid_retries();
                            self.holds = true;
                        }
                        let planned = &running.job.plan.steps[step.at()];
                        self.store.keep_failure(
                            planned,
                            &self.settings.run,
                            error,
                            started_us,
                            took_us,
                        );
                    }
                }
                let input = Input::Ended {
                    step,
                    ended,
                    started_us,
                    took_us,
                };
                self.feed(task, input, active, results, pool, send).await;
            }
            Message::Settled {
                task,
                resource,
                settled,
            } => {
                let input = Input::Settled {
                    resource,
                    version: settled.version,
                    changed: settled.changed,
                };
                self.feed(task, input, active, results, pool, send).await;
            }
            Message::Rests { task, step } => self.rest(task, step, active, pool, send),
            Message::Woke { task, step } => {
                self.feed(task, Input::Woke(step), active, results, pool, send)
                    .await;
            }
        }
    }

    fn begin(&mut self, job: Arc<TaskJob>) -> Active<'a> {
        let steps = job.plan.steps.len();
        let task = job.shown.clone();
        (self.tell)(Told::Event(RunEvent::TaskStarted { task, steps }));
        let scheduler = Scheduler::new(job.plan.clone(), self.store, &job.lost);
        Active {
            job,
            scheduler,
            aborts: HashMap::new(),
            goings: company::Goings::default(),
            resting: HashSet::new(),
            queued: HashMap::new(),
            logs: HashMap::new(),
            unfit: HashMap::new(),
            places: HashMap::new(),
            blobs: Vec::new(),
            worth: HashMap::new(),
            tally: Tally::default(),
            began_us: self.system.now_us(),
        }
    }

    async fn feed(
        &mut self,
        at: usize,
        input: Input,
        active: &mut HashMap<usize, Active<'a>>,
        results: &mut [Option<TaskResult>],
        pool: &mut Pool<(usize, StepIx)>,
        send: &mpsc::UnboundedSender<Message>,
    ) {
        if let Some(task) = active.get_mut(&at) {
            let commands = task.scheduler.on(input);
            let ended = self.carry_out(at, task, commands, pool, send);
            company::tell(&task.goings, &task.job.plan, &task.scheduler);
            if ended && let Some(task) = active.remove(&at) {
                results[at] = Some(self.finish(at, task).await);
            }
        }
        // Also where the task is over: what ended gave its slot back.
        self.start_steps(active, pool, send);
    }

    /// Carries out commands; returns whether the task is over.
    fn carry_out(
        &mut self,
        at: usize,
        task: &mut Active<'a>,
        commands: Vec<Command>,
        pool: &mut Pool<(usize, StepIx)>,
        send: &mpsc::UnboundedSender<Message>,
    ) -> bool {
        let mut over = false;
        let mut queue: VecDeque<Command> = commands.into();
        while let Some(command) = queue.pop_front() {
            match command {
                Command::Run {
                    step,
                    attempt,
                    needs,
                } => {
                    task.queued.insert(step, (attempt, needs));
                    let lane = task.job.plan.steps[step.at()].lane;
                    pool.push(lane, (at, step));
                }
                Command::Abort(step) => {
                    if pool.call_back(|item| *item == (at, step)).is_some() {
                        task.queued.remove(&step);
                        let input = Input::Ended {
                            step,
                            ended: Ended::Aborted,
                            started_us: 0,
                            took_us: 0,
                        };
                        queue.extend(task.scheduler.on(input));
                    } else if let Some(abort) = task.aborts.get(&step) {
                        abort.send_replace(true);
                    }
                }
                Command::Settle(resource) => {
                    let provisioner = self.provisioner.clone();
                    let of = resource.clone();
                    let mut settling = Box::pin(async move { provisioner.settle(at, &of).await });
                    // The state of a small sandbox that nobody uses is taken at once; two changes of thread would take
                    // longer.
                    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
                    if let Poll::Ready(settled) = settling.as_mut().poll(&mut nobody) {
                        if let Some(text) = settled.notice {
                            (self.tell)(Told::Event(RunEvent::Notice { text }));
                        }
                        queue.extend(task.scheduler.on(Input::Settled {
                            resource,
                            version: settled.version,
                            changed: settled.changed,
                        }));
                        continue;
                    }
                    let send = send.clone();
                    tokio::spawn(async move {
                        let settled = settling.await;
                        if let Some(notice) = settled.notice.clone() {
                            let _ = send.send(Message::Notice(notice));
                        }
                        let _ = send.send(Message::Settled {
                            task: at,
                            resource,
                            settled,
                        });
                    });
                }
                Command::Store {
                    step,
                    output,
                    reads,
                    supersedes,
                    attempt,
                } => {
                    let made = (supersedes, attempt);
                    self.keep(task, step, output, reads, made);
                }
                Command::Retire(resource) => self.provisioner.retire(at, &resource),
                Command::Wake { step, after_ms } => {
                    let send = send.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(after_ms)).await;
                        let _ = send.send(Message::Woke { task: at, step });
                    });
                }
                Command::Tell(step, what) => {
                    self.count(task, step, &what);
                    self.tell_step(task, step, what);
                }
                Command::Finish => over = true,
            }
        }
        over
    }
}

/// A step's future panicked: a fault of aebuild that fails the step and nothing else.
fn panicked() -> StepError {
    StepError::of("Bug", "bug: the step panicked; please report it")
}
