//! Runs one step: brings what it needs to the right state, gives it its world, and reports how it ended.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::TaskJob;
use super::company::{Company, Going};
use super::live::{ProvisionError, Provisioner};
use super::live_agent::{LateAgent, StepDoors};
use super::store::Store;
use crate::context::{Answer, Lookup, Output, Outputs, Place};
use crate::event::Spent;
use crate::gateway::{Caller, EnvHandle, Gate};
use crate::graph::StepIx;
use crate::json::json;
use crate::model::{Asker, Exchange};
use crate::provider::local::LocalSandbox;
use crate::provider::model_agent::ModelAgent;
use crate::provider::scripted::ScriptedAgent;
use crate::rebuild::{Log, Read, ReadKey};
use crate::record::{Redactor, desk};
use crate::resource::{ResourceId, ResourceKind, Touch};
use crate::schedule::{Ended, MadeOf, Need};
use crate::step::agent::{Agent, Doors};
use crate::step::env::{DEFAULT_ROLE, LiveEnv};
use crate::step::model::Models;
use crate::step::sandbox::{BoxFuture, Sandbox};
use crate::step::{Bench, Content, Services, StepCx, StepError, StoredFile, Stream};
use crate::system::{System, locked};
use crate::task::deploy::AgentRun;
use crate::task::script::Script;

/// Logs longer than this are kept as a blob.
const INLINE_LOG: usize = 8 * 1024;

/// The longest log that is kept of a step; what comes after is dropped, and the log says so.
const LOG_LIMIT: usize = 32 << 20;

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
                if holds_secret(&output, &self.redactor) {
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

/// Returns whether a value of an output holds a secret, in whatever encoding.
fn holds_secret(output: &Output, redactor: &Redactor) -> bool {
    !redactor.is_empty()
        && output
            .entries
            .iter()
            .any(|entry| redactor.value(&entry.value) != *entry.value)
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

/// What a running step sees.
struct World {
    models: Arc<Asker>,
    job: Arc<TaskJob>,
    step: StepIx,
    outputs: Outputs,
    sandboxes: HashMap<String, Arc<dyn Sandbox>>,
    envs: HashMap<String, Arc<Gate>>,
    /// The sandboxes of agents.
    agents: HashMap<String, Arc<dyn Sandbox>>,
    provisioner: Arc<Provisioner>,
    task: usize,
    attempt: u32,
    doors: StepDoors,
    benches: Mutex<Vec<Arc<LocalSandbox>>>,
    reads: Mutex<Vec<Read>>,
    /// Whether it has failed or was aborted.
    left: watch::Sender<bool>,
    /// What the user should be told at once.
    told: mpsc::UnboundedSender<Moment>,
    goings: watch::Receiver<Arc<Vec<Going>>>,
    log: Arc<Mutex<Vec<u8>>>,
    unfit: Mutex<Option<String>>,
    store: Store,
    redactor: Arc<Redactor>,
    scratch: PathBuf,
}

/// How often an answer of a person is looked for.
const LOOK_EACH: Duration = Duration::from_millis(200);

impl World {
    async fn ask(&self, text: &str, choices: &[&str]) -> Result<String, StepError> {
        let question = desk::Question {
            id: String::new(),
            run: self.provisioner.run_id().to_owned(),
            task: self.job.shown.clone(),
            step: self.job.plan.steps[self.step.at()].id.to_string(),
            text: self.redactor.text(text).into_owned(),
            choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
        };
        let asked = desk::ask(&self.provisioner.state_folder(), &question)
            .map_err(|error| StepError::new(format!("the question cannot be put: {error}")))?;
        let answers = match choices {
            [] => "\"..\"".to_owned(),
            choices => choices.join("|"),
        };
        let told = format!(
            "step {} asks: {}\n    answer with: aebuild answer {} {answers}",
            question.step, question.text, asked.id
        );
        // Where nobody listens any more, nobody waits for the answer either.
        let _ = self.told.send(Moment::Notice(told));
        loop {
            if let Some(answer) = asked.answer() {
                return Ok(answer);
            }
            tokio::time::sleep(LOOK_EACH).await;
        }
    }

    fn take_reads(&self) -> Vec<Read> {
        std::mem::take(&mut *locked(&self.reads))
    }

    fn take_log(&self, redactor: &Redactor) -> Log {
        let bytes = std::mem::take(&mut *locked(&self.log));
        let bytes = redactor.bytes(&bytes).into_owned();
        if bytes.len() <= INLINE_LOG {
            return Log {
                inline: bytes,
                stored: None,
            };
        }
        match self.store.keep_bytes(&bytes) {
            Ok(stored) => Log {
                inline: Vec::new(),
                stored: Some(stored),
            },
            Err(_) => Log {
                inline: bytes,
                stored: None,
            },
        }
    }

    async fn clean(&self) {
        let benches = std::mem::take(&mut *locked(&self.benches));
        for bench in benches {
            // What is left goes with the run's own folder.
            let _ = bench.destroy().await;
        }
        if crate::system::disk::exists(&self.scratch) {
            // What is left goes with the run's own folder.
            let _ = crate::system::disk::remove_dir_all(&self.scratch);
        }
    }
}

impl Services for World {
    fn find(&self, lookup: &Lookup) -> Answer {
        let answer = self.outputs.find(&self.job.plan.graph, self.step, lookup);
        let mut reads = locked(&self.reads);
        let key = ReadKey::Lookup(lookup.clone());
        if !reads.iter().any(|read| read.key == key) {
            reads.push(Read {
                key,
                digest: answer.digest,
            });
        }
        answer
    }

    fn attempt(&self) -> u32 {
        self.attempt
    }

    fn sandbox(&self, name: &str) -> Result<Arc<dyn Sandbox>, StepError> {
        self.sandboxes.get(name).cloned().ok_or_else(|| {
            StepError::new(format!(
                "sandbox `{name}` is not among what the step said it touches"
            ))
        })
    }

    fn env(&self, name: &str) -> Result<Arc<dyn LiveEnv>, StepError> {
        let gate = self.envs.get(name).cloned().ok_or_else(|| {
            StepError::new(format!(
                "env `{name}` is not among what the step said it touches"
            ))
        })?;
        let log = self.log.clone();
        let told = move |line: &str| add_to_log(&log, format!("{line}\n").as_bytes());
        let step = self.job.plan.steps[self.step.at()].id.as_str();
        let planned = &self.job.plan.steps[self.step.at()];
        let works = (ResourceId::env(name), Touch::Mutates);
        let changes = planned.touches.contains(&works);
        let company = Company::of(
            &self.job.plan,
            self.step,
            &works.0,
            &self.goings,
            &self.told,
        );
        let caller = Caller::new(step, DEFAULT_ROLE)
            .passing_time(changes)
            .in_company(company)
            .telling(Arc::new(told))
            .until(self.left.subscribe());
        let gateway = self.provisioner.gateway.clone();
        Ok(Arc::new(EnvHandle::new(gate, gateway, caller)))
    }

    fn models(&self) -> Arc<dyn Models> {
        self.models.clone()
    }

    fn agent_sandbox(&self, name: &str) -> Option<Arc<dyn Sandbox>> {
        let own = self.agents.get(name);
        let plan = &self.job.plan;
        let shared = || {
            let maker = plan.maker_of(self.step, &Place::Agent(name.to_owned()))?;
            match &plan.steps[maker.at()].made_of {
                MadeOf::Agent(parts) => self.sandboxes.get(parts.sandbox_name.as_ref()?),
                _ => None,
            }
        };
        own.or_else(shared).cloned()
    }

    fn agent(&self, name: &str) -> Result<Arc<dyn Agent>, StepError> {
        let plan = &self.job.plan;
        let maker = plan.maker_of(self.step, &Place::Agent(name.to_owned()));
        let made_of = maker.map(|maker| &plan.steps[maker.at()].made_of);
        let Some(MadeOf::Agent(parts)) = made_of else {
            return Err(StepError::new(format!(
                "nothing says what agent `{name}` is made of"
            )));
        };
        let spec = &parts.spec;
        if spec.kind == "model" {
            let models = self.models();
            return Ok(Arc::new(ModelAgent::new(name, &spec.settings, models)));
        }
        let run = spec.run().map_err(|why| StepError::new(why.headline))?;
        if run != AgentRun::Inside {
            return Ok(Arc::new(LateAgent {
                name: name.to_owned(),
                task: self.task,
                run,
                parts: parts.clone(),
                provisioner: self.provisioner.clone(),
            }));
        }
        let script = Script::read(&json!({"rules": spec.settings["rules"]})).map_err(|faults| {
            let text = format!(
                "the script of agent `{name}` cannot be used: {}",
                faults.join("; ")
            );
            StepError::of("ValueError", text)
        })?;
        Ok(Arc::new(ScriptedAgent {
            name: name.to_owned(),
            script,
        }))
    }

    fn doors(&self) -> Arc<dyn Doors> {
        self.doors.share()
    }

    fn ask_person<'a>(
        &'a self,
        text: &'a str,
        choices: &'a [&'a str],
    ) -> BoxFuture<'a, Result<String, StepError>> {
        Box::pin(self.ask(text, choices))
    }

    fn bench<'a>(&'a self, packages: &'a [String]) -> BoxFuture<'a, Result<Bench, StepError>> {
        Box::pin(async move {
            let made = self
                .provisioner
                .bench(self.task, self.step, packages)
                .await?;
            let (bench, sandbox) = made;
            locked(&self.benches).push(sandbox);
            Ok(bench)
        })
    }

    fn artifact(&self, name: &str) -> Option<Arc<Content>> {
        let contents = &self.job.contents[self.step.at()];
        contents
            .iter()
            .find(|content| content.name == name || content.id == name)
            .cloned()
    }

    fn keep(&self, bytes: &[u8]) -> Result<StoredFile, StepError> {
        if *self.redactor.bytes(bytes) != *bytes {
            let why = "it holds the value of a variable that is passed on";
            self.do_not_keep(why);
            return Err(StepError::new(format!("it cannot be stored: {why}")));
        }
        self.store.keep_bytes(bytes).map_err(StepError::new)
    }

    fn keep_file(&self, file: &Path) -> Result<StoredFile, StepError> {
        if !self.redactor.is_empty() {
            let bytes = crate::system::disk::read(file)
                .map_err(|error| StepError::new(format!("it cannot be read: {error}")))?;
            return self.keep(&bytes);
        }
        self.store.keep_file(file).map_err(StepError::new)
    }

    fn fetch(&self, file: &StoredFile, to: &Path) -> Result<bool, StepError> {
        self.store.fetch(file, to).map_err(StepError::new)
    }

    fn scratch(&self) -> Result<PathBuf, StepError> {
        crate::system::disk::create_dir_all(&self.scratch).map_err(|error| {
            StepError::new(format!(
                "no private folder could be made for the step: {error}"
            ))
        })?;
        Ok(self.scratch.clone())
    }

    fn do_not_keep(&self, why: &str) {
        locked(&self.unfit).get_or_insert_with(|| why.to_owned());
    }

    fn log(&self, _stream: Stream, bytes: &[u8]) {
        add_to_log(&self.log, bytes);
    }
}

fn add_to_log(log: &Mutex<Vec<u8>>, bytes: &[u8]) {
    let mut log = locked(log);
    let room = LOG_LIMIT.saturating_sub(log.len());
    if room == 0 {
        return;
    }
    if bytes.len() < room {
        log.extend_from_slice(bytes);
        return;
    }
    log.extend_from_slice(&bytes[..room]);
    let said = format!(
        "\n[the log is cut here: it is longer than {} MiB]\n",
        LOG_LIMIT >> 20
    );
    log.extend_from_slice(said.as_bytes());
}
