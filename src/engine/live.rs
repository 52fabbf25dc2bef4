//! Live things on this machine: made when a step needs them, brought to the state that it needs, ended with their task.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use aebuild_cache::{BlobRef, Cache, Restored, StatMemo};
use tokio::sync::Mutex as AsyncMutex;
use tokio::sync::OnceCell;

use super::live_agent::AgentSlot;
use super::live_env::EnvSlot;
use super::live_folder::{Secrets, Taking};
use super::store::{blob_of, version_of};
use super::turns::Turns;
use super::warm::{Parked, RunningTask};
use crate::context::Place;
use crate::digest::Digester;
use crate::gateway::{EnvHandle, Gateway};
use crate::graph::StepIx;
use crate::provider::a2a::Lessons;
use crate::provider::docker::Docker;
use crate::provider::local::{
    LocalError, LocalSandbox, LocalSandboxes, RunFolder, SandboxSpec, Wanted,
};
use crate::resource::{ResourceId, ResourceKind, Version};
use crate::schedule::{MadeOf, Need, PlannedStep, TaskPlan};
use crate::step::sandbox::Sandbox;
use crate::system::{System, locked};

/// Where and how live things are made.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveSettings {
    /// The folder of live things; each run has its own below it.
    pub folder: PathBuf,
    /// The id of the run; where live things outlast it, of the first.
    pub run: String,
    /// How sandboxes are walled off.
    pub wanted: Wanted,
    /// Whether live things stay when their task ends.
    pub keep: bool,
    /// Variables of this machine that the configuration passes on to sandboxes.
    pub passed: Vec<(String, String)>,
    /// Values that must not be written anywhere.
    pub secrets: Vec<String>,
    /// The folder that paths of the configuration are relative to.
    pub workspace: PathBuf,
    /// Packages that all programs in Python find.
    pub python_packages: Vec<String>,
}

/// The size that stands for a state that could not be taken: no manifest is empty.
pub(super) const UNKNOWN: u64 = 0;

/// A folder of so few files is walked at once, without a thread of its own.
const FEW_FILES: usize = 256;

/// Why a live thing is not at the state that a step needs.
pub(super) enum ProvisionError {
    /// That state cannot be had back; why, where that is known.
    Lost(Option<String>),
    /// It could not be made at all.
    Failed(String),
}

/// The state that a live thing was left in.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) version: Version,
    pub(super) changed: bool,
    pub(super) notice: Option<String>,
}

pub(super) struct LiveSandbox {
    pub(super) sandbox: Arc<LocalSandbox>,
    pub(super) version: Version,
    tree: BlobRef,
    memo: StatMemo,
    secrets: Secrets,
}

pub(super) type Slot = Arc<AsyncMutex<Option<LiveSandbox>>>;

/// A live thing that was left up.
#[derive(Clone, Debug)]
pub struct LeftUp {
    /// Which.
    pub resource: ResourceId,
    /// Where it is: the folder that is its state, or its address.
    pub at: String,
}

/// Makes, restores and ends live things.
pub struct Provisioner {
    pub(super) settings: LiveSettings,
    pub(super) cache: Option<Cache>,
    pub(super) system: Arc<dyn System>,
    pub(super) gateway: Arc<Gateway>,
    run_folder: OnceCell<Result<Arc<RunFolder>, String>>,
    sandboxes: OnceCell<Result<LocalSandboxes, String>>,
    pub(super) docker: OnceCell<Result<Docker, String>>,
    pub(super) slots: Mutex<HashMap<(usize, ResourceId), Slot>>,
    pub(super) envs: Mutex<HashMap<(usize, ResourceId), EnvSlot>>,
    /// Agents that are reached over A2A, by task and name.
    pub(super) agents: Mutex<HashMap<(usize, String), AgentSlot>>,
    /// What agents at addresses were told.
    pub(super) lessons: Mutex<HashMap<String, Arc<Lessons>>>,
    /// Whose turn it is where one prompt is taken at a time.
    pub(super) turns: Arc<Turns>,
    /// Those of them that keep in their process what they were told.
    pub(super) remembering: Mutex<HashSet<(usize, String)>>,
    /// Handles of envs that stay up after the run.
    pub(super) kept_up: Mutex<Vec<EnvHandle>>,
    /// The id of the run that goes on.
    pub(super) current: Mutex<String>,
    /// The tasks of the run that goes on.
    pub(super) tasks: Mutex<Vec<RunningTask>>,
    /// Live things of tasks that the run does not look at.
    pub(super) parked: Mutex<Vec<Parked>>,
    /// How many envs were made.
    pub(super) made: AtomicU64,
    /// How often a state could not be taken.
    pub(super) unknown: AtomicU64,
}

impl Provisioner {
    /// Returns a provisioner; nothing is made yet.
    pub fn new(settings: LiveSettings, cache: Option<Cache>, system: Arc<dyn System>) -> Self {
        Provisioner {
            settings,
            cache,
            system,
            gateway: Gateway::new(),
            run_folder: OnceCell::new(),
            sandboxes: OnceCell::new(),
            docker: OnceCell::new(),
            slots: Mutex::default(),
            envs: Mutex::default(),
            agents: Mutex::default(),
            lessons: Mutex::default(),
            turns: Arc::default(),
            remembering: Mutex::default(),
            kept_up: Mutex::default(),
            current: Mutex::default(),
            tasks: Mutex::default(),
            parked: Mutex::default(),
            made: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        }
    }

    /// Returns the id of the run that goes on.
    pub(super) fn run_id(&self) -> String {
        locked(&self.current).clone()
    }

    /// Returns the folder of aebuild's own files.
    pub(super) fn state_folder(&self) -> PathBuf {
        let live = &self.settings.folder;
        live.parent().unwrap_or(live).to_path_buf()
    }

    /// Returns the folder of what the run needs while it lives.
    pub(super) fn run_folder(&self) -> PathBuf {
        self.settings.folder.join(&self.settings.run)
    }

    /// Returns whether it makes live things as these settings say, whatever the run.
    pub fn is_set_to(&self, settings: &LiveSettings) -> bool {
        let run = self.settings.run.clone();
        self.settings
            == LiveSettings {
                run,
                ..settings.clone()
            }
    }

    /// Returns what the user should be told about how live things are walled off.
    pub fn notice(&self) -> Option<String> {
        self.sandboxes.get()?.as_ref().ok()?.notice()
    }

    /// Returns the private folder of a step.
    pub(super) fn scratch(&self, task: usize, step: StepIx) -> PathBuf {
        let name = format!("scratch-{task}-{}", step.0);
        self.run_folder().join(name)
    }

    fn slot(&self, task: usize, resource: &ResourceId) -> Slot {
        locked(&self.slots)
            .entry((task, resource.clone()))
            .or_default()
            .clone()
    }

    /// Returns the folder of the run, made where it is not there yet.
    pub(super) async fn run(&self) -> Result<&Arc<RunFolder>, ProvisionError> {
        let make = || async {
            let (folder, run) = (self.settings.folder.clone(), self.settings.run.clone());
            RunFolder::make(folder, &run)
                .map(Arc::new)
                .map_err(|error| error.to_string())
        };
        let made = self.run_folder.get_or_init(make).await;
        made.as_ref()
            .map_err(|why| ProvisionError::Failed(why.clone()))
    }

    pub(super) async fn sandboxes(&self) -> Result<&LocalSandboxes, ProvisionError> {
        let run = self.run().await?.clone();
        let made = self
            .sandboxes
            .get_or_init(|| async {
                let wanted = self.settings.wanted;
                let make =
                    move || LocalSandboxes::on(run, wanted).map_err(|error| error.to_string());
                tokio::task::spawn_blocking(make)
                    .await
                    .unwrap_or_else(|error| Err(format!("bug: making sandboxes failed: {error}")))
            })
            .await;
        made.as_ref()
            .map_err(|why| ProvisionError::Failed(why.clone()))
    }

    /// Brings a sandbox to the version that a step needs.
    pub(super) async fn provide(
        &self,
        task: usize,
        plan: &TaskPlan,
        step: StepIx,
        need: &Need,
    ) -> Result<Arc<dyn Sandbox>, ProvisionError> {
        let slot = self.slot(task, &need.resource);
        let mut slot = slot.lock().await;
        // Whoever comes first into a window brings the version, whatever rung it was told; the others find it.
        if let Some(live) = slot.as_ref()
            && live.version == need.version
        {
            return Ok(live.sandbox.clone());
        }
        // One that is at another version is made anew where the version is that of creation.
        if matches!(need.version, Version::Created(_))
            && let Some(live) = slot.take()
        {
            self.end_agent(task, &need.resource).await;
            let ended = live.sandbox.destroy().await;
            ended.map_err(|error| ProvisionError::Failed(error.to_string()))?;
        }
        if slot.is_none() {
            *slot = Some(self.create(task, plan, step, &need.resource).await?);
        }
        let Some(live) = slot.as_mut() else {
            return Err(ProvisionError::Lost(None));
        };
        if !matches!(need.version, Version::Created(_)) {
            self.restore(live, &need.version).await?;
        }
        live.version = need.version;
        Ok(live.sandbox.clone())
    }

    /// Brings the sandbox of an agent to the version that a step needs; one that nobody uses is not made.
    pub(super) async fn provide_agent(
        &self,
        task: usize,
        plan: &TaskPlan,
        step: StepIx,
        need: &Need,
    ) -> Result<Option<Arc<dyn Sandbox>>, ProvisionError> {
        let place = Place::Agent(need.resource.name.clone());
        let maker = plan.maker_of(step, &place);
        let made_of = maker.map(|maker| &plan.steps[maker.at()].made_of);
        let uses_it = match made_of {
            // Then the sandbox that it works in is another need of the step.
            Some(MadeOf::Agent(parts)) if parts.sandbox_name.is_some() => return Ok(None),
            Some(MadeOf::Agent(parts)) => parts.spec.uses_sandbox(),
            _ => false,
        };
        let is_fresh = matches!(need.version, Version::Created(_));
        if is_fresh && !uses_it && plan.steps[step.at()].prompts {
            return Ok(None);
        }
        self.provide(task, plan, step, need).await.map(Some)
    }

    async fn create(
        &self,
        task: usize,
        plan: &TaskPlan,
        step: StepIx,
        resource: &ResourceId,
    ) -> Result<LiveSandbox, ProvisionError> {
        let sandboxes = self.sandboxes().await?;
        let (handle, declared) = definition(plan, step, resource);
        // What a step declares stands before what the configuration passes on.
        let passed = self.settings.passed.iter();
        let passed = passed.filter(|(name, _)| !declared.iter().any(|(other, _)| other == name));
        let env_vars = passed.cloned().chain(declared.iter().cloned()).collect();
        let spec = SandboxSpec {
            id: handle,
            env_vars,
            mounts: self.mounts_of_agent(plan, step, resource).await?,
            ..SandboxSpec::default()
        };
        let failed = |error: String| ProvisionError::Failed(error);
        let mut made = sandboxes.create(spec.clone());
        let mut n = 1;
        // Commands see the id, so it is the same in every run, unless one of that name is up: of a folder of the same
        // name, or one that a retry has retired and that is still being ended.
        while let Err(LocalError::Exists { .. }) = made {
            n += 1;
            let clash = SandboxSpec {
                id: format!("{}-{task}-{n}", spec.id),
                ..spec.clone()
            };
            made = sandboxes.create(clash);
        }
        let sandbox = made.map_err(|error| failed(error.to_string()))?;
        let mut memo = StatMemo::new();
        let tree = Cache::digest_tree(sandbox.state_dir(), &mut memo)
            .map_err(|error| failed(error.to_string()))?;
        let version = version_of(&tree);
        Ok(LiveSandbox {
            sandbox,
            version,
            tree,
            memo,
            secrets: Secrets::of(self.redactor()),
        })
    }

    async fn restore(
        &self,
        live: &mut LiveSandbox,
        version: &Version,
    ) -> Result<(), ProvisionError> {
        let (Some(cache), Some(tree)) = (self.cache.clone(), blob_of(version)) else {
            return Err(ProvisionError::Lost(None));
        };
        live.sandbox.settled().await;
        let folder = live.sandbox.state_dir().to_path_buf();
        let mut memo = std::mem::take(&mut live.memo);
        let work = move || {
            let restored = cache.sync_tree(&tree, &folder, &mut memo);
            (restored, memo)
        };
        let (restored, memo) = tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| ProvisionError::Failed(format!("bug: restoring failed: {error}")))?;
        live.memo = memo;
        live.tree = tree;
        match restored {
            Ok(Restored::Done) => Ok(()),
            Ok(Restored::Miss { .. }) => Err(ProvisionError::Lost(None)),
            Err(error) => Err(ProvisionError::Failed(error.to_string())),
        }
    }

    /// Returns the sandbox among a step's needs that is not there any more.
    pub(super) async fn vanished(&self, task: usize, needs: &[Need]) -> Option<ResourceId> {
        let of_sandboxes = |need: &&Need| need.resource.kind != ResourceKind::Env;
        for need in needs.iter().filter(of_sandboxes) {
            let slot = self.slot(task, &need.resource);
            let slot = slot.lock().await;
            let is_there =
                |live: &LiveSandbox| crate::system::disk::exists(live.sandbox.state_dir());
            let is_alone = slot.is_none() && need.resource.kind == ResourceKind::Agent;
            if !is_alone && !slot.as_ref().is_some_and(is_there) {
                return Some(need.resource.clone());
            }
        }
        None
    }

    /// Takes the state of a live thing that no step uses.
    pub(super) async fn settle(&self, task: usize, resource: &ResourceId) -> Settled {
        if resource.kind == ResourceKind::Env {
            return self.settle_env(task, resource).await;
        }
        let slot = self.slot(task, resource);
        let mut slot = slot.lock().await;
        let Some(live) = slot.as_mut() else {
            let version = Version::Created(crate::digest::Digest::of_bytes(b"not live"));
            return Settled {
                version,
                changed: false,
                notice: None,
            };
        };
        live.sandbox.settled().await;
        let folder = live.sandbox.state_dir().to_path_buf();
        let cache = self.cache.clone();
        let before = (live.memo.len() <= FEW_FILES).then_some(live.tree);
        let taking = Taking {
            cache,
            folder,
            memo: std::mem::take(&mut live.memo),
            secrets: std::mem::take(&mut live.secrets),
        };
        let (taken, notice) = if before.is_some() {
            taking.take(before)
        } else {
            match tokio::task::spawn_blocking(move || taking.take(None)).await {
                Ok(done) => done,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        };
        let (tree, taking) = taken;
        live.memo = taking.memo;
        live.secrets = taking.secrets;
        let history = self.history_of_agent(task, resource).await;
        match tree {
            Ok(tree) => {
                let mut changed = tree.id != live.tree.id;
                if changed {
                    live.tree = tree;
                    live.version = version_of(&tree);
                }
                if let Some(history) = history {
                    let mut digester = Digester::new("what an agent is left with");
                    digester.digest(&version_of(&tree).digest());
                    digester.digest(&history);
                    let version = Version::Lineage(digester.finish());
                    changed |= version != live.version;
                    live.version = version;
                }
                Settled {
                    version: live.version,
                    changed,
                    notice,
                }
            }
            Err(error) => {
                // A state that cannot be read is nobody's: what needs it makes the sandbox anew.
                let text = format!("the state of {resource} cannot be taken: {error}");
                let version = self.unknown_version(task);
                live.version = version;
                Settled {
                    version,
                    changed: true,
                    notice: Some(text),
                }
            }
        }
    }

    /// Ends a live thing.
    pub(super) fn retire(self: &Arc<Self>, task: usize, resource: &ResourceId) {
        self.retire_env(task, resource);
        self.retire_agent(task, resource);
        let slot = locked(&self.slots).remove(&(task, resource.clone()));
        if let Some(slot) = slot {
            tokio::spawn(async move {
                if let Some(live) = slot.lock().await.take() {
                    // Its folder goes with the run's own at the latest.
                    let _ = live.sandbox.destroy().await;
                }
            });
        }
    }

    /// Ends what a task left up, unless it is to be kept.
    pub(super) async fn end_task(&self, task: usize) -> Result<(), String> {
        if self.settings.keep {
            return Ok(());
        }
        self.end_agents(Some(task)).await;
        self.end_envs(Some(task)).await;
        let slots: Vec<Slot> = {
            let mut all = locked(&self.slots);
            let mine: Vec<_> = all.keys().filter(|(of, _)| *of == task).cloned().collect();
            mine.into_iter()
                .filter_map(|key| all.remove(&key))
                .collect()
        };
        let mut failed = Vec::new();
        for slot in slots {
            if let Some(live) = slot.lock().await.take()
                && let Err(error) = live.sandbox.destroy().await
            {
                failed.push(error.to_string());
            }
        }
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed.join("; "))
        }
    }

    /// Returns what is up.
    pub async fn left_up(&self) -> Vec<LeftUp> {
        let slots: Vec<_> = locked(&self.slots)
            .iter()
            .map(|(key, slot)| (key.1.clone(), slot.clone()))
            .collect();
        let mut up = Vec::new();
        for (resource, slot) in slots {
            if let Some(live) = slot.lock().await.as_ref() {
                up.push(LeftUp {
                    resource,
                    at: format!("folder {}", live.sandbox.state_dir().display()),
                });
            }
        }
        up.extend(self.envs_left_up().await);
        up.sort_by(|a, b| a.resource.cmp(&b.resource));
        up
    }

    /// Ends everything and removes the run's folder.
    pub async fn close(&self) -> Result<(), String> {
        self.end_agents(None).await;
        self.end_envs(None).await;
        self.end_parked().await;
        let no_container = match self.docker.get() {
            Some(Ok(docker)) => docker.close().await,
            _ => Ok(()),
        };
        let slots: Vec<Slot> = locked(&self.slots).drain().map(|(_, slot)| slot).collect();
        // One that cannot be ended keeps none of the others up.
        let mut failed: Vec<String> = no_container.err().into_iter().collect();
        for slot in slots {
            if let Some(live) = slot.lock().await.take()
                && let Err(error) = live.sandbox.destroy().await
            {
                failed.push(error.to_string());
            }
        }
        let closed = match self.sandboxes.get() {
            Some(Ok(sandboxes)) => sandboxes.close().await.map_err(|error| error.to_string()),
            // Without a sandbox the folder is there for what is recorded of envs.
            _ => match self.run_folder.get() {
                Some(Ok(run)) => run.remove().map_err(|error| error.to_string()),
                _ => {
                    // A step that had a private folder leaves the one above it; mostly there is none.
                    let _ = crate::system::disk::remove_dir(&self.run_folder());
                    Ok(())
                }
            },
        };
        failed.extend(closed.err());
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed.join("; "))
        }
    }

    /// Kills every process of the run at once.
    pub fn kill_now(&self) {
        if let Some(Ok(sandboxes)) = self.sandboxes.get() {
            sandboxes.kill_now();
        }
    }
}

/// Returns the handle of a sandbox and the variables of its commands, as its deploy step gave them.
fn definition(
    plan: &TaskPlan,
    step: StepIx,
    resource: &ResourceId,
) -> (String, Vec<(String, String)>) {
    let (place, member) = match resource.kind {
        ResourceKind::Agent => (Place::Agent(resource.name.clone()), "instance_id"),
        _ => (Place::Sandbox(resource.name.clone()), "sandbox_id"),
    };
    let Some(maker) = plan.maker_of(step, &place) else {
        return (format!("local-{}", resource.name), Vec::new());
    };
    let maker = &plan.steps[maker.at()];
    let variables = match &maker.made_of {
        MadeOf::Sandbox(variables) => variables.clone(),
        MadeOf::Agent(parts) => parts.variables.clone(),
        MadeOf::Nothing | MadeOf::Env(_) => Vec::new(),
    };
    (handle(maker, &place, member), variables)
}

/// Returns the handle that a deploy step gave to what it makes.
pub(super) fn handle(maker: &PlannedStep, place: &Place, member: &str) -> String {
    let mut entries = maker.live.iter().flat_map(|output| &output.entries);
    let entry = entries.find(|entry| entry.place == *place);
    let handle = entry.and_then(|entry| entry.value.get(member)?.as_str());
    handle.unwrap_or("local-thing").to_owned()
}
