//! What a running step sees of the world, and what of that is on record.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::TaskJob;
use super::company::{Company, Going};
use super::executor::Moment;
use super::live::Provisioner;
use super::live_agent::{LateAgent, StepDoors};
use super::store::Store;
use crate::context::{Answer, Lookup, Outputs, Place};
use crate::gateway::{Caller, EnvHandle, Gate};
use crate::graph::StepIx;
use crate::json::json;
use crate::model::Asker;
use crate::provider::local::LocalSandbox;
use crate::provider::model_agent::ModelAgent;
use crate::provider::scripted::ScriptedAgent;
use crate::rebuild::{Log, Read, ReadKey};
use crate::record::{Redactor, desk};
use crate::resource::{ResourceId, Touch};
use crate::schedule::MadeOf;
use crate::step::agent::{Agent, Doors};
use crate::step::env::{DEFAULT_ROLE, LiveEnv};
use crate::step::model::Models;
use crate::step::sandbox::{BoxFuture, Sandbox};
use crate::step::{Bench, Content, Services, StepError, StoredFile, Stream};
use crate::system::locked;
use crate::task::deploy::AgentRun;
use crate::task::script::{self, Script};

/// Logs longer than this are kept as a blob.
const INLINE_LOG: usize = 8 * 1024;

/// The longest log that is kept of a step; what comes after is dropped, and the log says so.
const LOG_LIMIT: usize = 32 << 20;

/// What a running step sees.
pub(super) struct World {
    pub(super) models: Arc<Asker>,
    pub(super) job: Arc<TaskJob>,
    pub(super) step: StepIx,
    pub(super) outputs: Outputs,
    pub(super) sandboxes: HashMap<String, Arc<dyn Sandbox>>,
    pub(super) envs: HashMap<String, Arc<Gate>>,
    /// The sandboxes of agents.
    pub(super) agents: HashMap<String, Arc<dyn Sandbox>>,
    pub(super) provisioner: Arc<Provisioner>,
    pub(super) task: usize,
    pub(super) attempt: u32,
    pub(super) doors: StepDoors,
    pub(super) benches: Mutex<Vec<Arc<LocalSandbox>>>,
    pub(super) reads: Mutex<Vec<Read>>,
    /// Whether it has failed or was aborted.
    pub(super) left: watch::Sender<bool>,
    /// What the user should be told at once.
    pub(super) told: mpsc::UnboundedSender<Moment>,
    pub(super) goings: watch::Receiver<Arc<Vec<Going>>>,
    pub(super) log: Arc<Mutex<Vec<u8>>>,
    pub(super) unfit: Mutex<Option<String>>,
    pub(super) store: Store,
    pub(super) redactor: Arc<Redactor>,
    pub(super) scratch: PathBuf,
}

/// How often an answer of a person is looked for.
const LOOK_EACH: Duration = Duration::from_millis(200);

impl World {
    pub(super) async fn ask(&self, text: &str, choices: &[&str]) -> Result<String, StepError> {
        let question = desk::Question {
            id: String::new(),
            run: self.provisioner.run_id(),
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
        for line in told.lines() {
            // Where nobody listens any more, nobody waits for the answer either.
            let _ = self.told.send(Moment::Notice(line.to_owned()));
        }
        loop {
            if let Some(answer) = asked.answer() {
                return Ok(answer);
            }
            tokio::time::sleep(LOOK_EACH).await;
        }
    }

    pub(super) fn take_reads(&self) -> Vec<Read> {
        std::mem::take(&mut *locked(&self.reads))
    }

    pub(super) fn take_log(&self, redactor: &Redactor) -> Log {
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

    pub(super) async fn clean(&self) {
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
                step: self.step,
                step_id: self.job.plan.steps[self.step.at()].id.to_string(),
                gates: self.envs.values().cloned().collect(),
                told: self.told.clone(),
            }));
        }
        let script = Script::read(&json!({"rules": spec.settings["rules"]})).map_err(|faults| {
            let text = format!(
                "the script of agent `{name}` cannot be used: {}",
                script::said(&faults)
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

pub(super) fn add_to_log(log: &Mutex<Vec<u8>>, bytes: &[u8]) {
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
