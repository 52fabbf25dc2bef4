//! Live envs: made when a step needs them, brought to the state that it needs, and what that state is when nobody uses
//! them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aebuild_cache::{BlobRef, Cache};
use serde_json_path::JsonPath;
use tokio::sync::Mutex as AsyncMutex;

use super::live::{LeftUp, ProvisionError, Provisioner, handle};
use super::store::{file_of_version, stored_file};
use crate::context::Place;
use crate::digest::Digest;
use crate::gateway::{Caller, EnvHandle, Gate, GateSettings, Keeper, Recipe, Recorder};
use crate::graph::StepIx;
use crate::provider::local::{LocalError, LocalSandbox, SandboxSpec};
use crate::provider::process::Patience;
use crate::provider::served::{ServedEnv, Start};
use crate::provider::{builtin, python};
use crate::record::Redactor;
use crate::resource::{ResourceId, Version};
use crate::schedule::{EnvParts, MadeOf, Need, TaskPlan};
use crate::step::env::{DEFAULT_ROLE, EnvError, EnvServer, LiveEnv as _};
use crate::step::sandbox::{Put, Sandbox};
use crate::step::{Bench, Content, StepError};
use crate::system::locked;
use crate::task::deploy::{EnvRun, ProcessRun, StateMode};

/// How long what serves is asked to end before it is killed: nothing of it is needed any more.
const GRACE: Duration = Duration::from_millis(500);

/// A live env.
pub(super) struct LiveEnv {
    pub(super) gate: Arc<Gate>,
    pub(super) mode: StateMode,
    pub(super) version: Version,
    /// The calls on record when the version was taken: all, and those that may have changed something.
    pub(super) counted: (u64, u64),
    /// The exported state at the version.
    pub(super) exported: Option<BlobRef>,
}

pub(super) type EnvSlot = Arc<AsyncMutex<Option<LiveEnv>>>;

/// Keeps large answers in the store, but none that holds what must not be written anywhere.
struct InCache {
    cache: Option<Cache>,
    redactor: Redactor,
}

impl Keeper for InCache {
    fn keep(&self, file: &Path) -> Option<String> {
        let cache = self.cache.as_ref()?;
        if !self.redactor.is_empty() {
            let bytes = crate::system::disk::read(file).ok()?;
            if *self.redactor.bytes(&bytes) != *bytes {
                return None;
            }
        }
        let blob = cache.put_blob_file(file).ok()?;
        Some(stored_file(blob).url())
    }
}

/// Returns what is said of a file of the folder of an env or agent that is not as it was planned.
fn changed(noun: &str, path: &str) -> String {
    format!("`{path}` of {noun} changed since the run was planned; run it again")
}

/// A program that an env or an agent is.
pub(super) struct Program<'a> {
    /// What it is, such as "env `mail`".
    pub(super) noun: String,
    /// How it is run.
    pub(super) run: &'a ProcessRun,
    /// The files of its folder.
    pub(super) content: Option<&'a Content>,
    /// Variables of this machine that it sees.
    pub(super) passed: &'a [(String, String)],
    /// The name of its sandbox.
    pub(super) instance: &'a str,
}

/// What a program finds on this machine.
#[derive(Default)]
pub(super) struct Surroundings {
    /// Folders that it sees.
    pub(super) mounts: Vec<PathBuf>,
    /// Where its programs are looked for, where that is not as always.
    pub(super) path: Option<String>,
    /// The interpreter that has its packages.
    pub(super) python: Option<PathBuf>,
}

pub(super) fn failed(error: impl ToString) -> ProvisionError {
    ProvisionError::Failed(error.to_string())
}

impl Provisioner {
    pub(super) fn env_slot(&self, task: usize, resource: &ResourceId) -> EnvSlot {
        locked(&self.envs)
            .entry((task, resource.clone()))
            .or_default()
            .clone()
    }

    /// Brings an env to the version that a step needs.
    pub(super) async fn provide_env(
        &self,
        task: usize,
        plan: &TaskPlan,
        step: StepIx,
        need: &Need,
    ) -> Result<Arc<Gate>, ProvisionError> {
        let slot = self.env_slot(task, &need.resource);
        let mut slot = slot.lock().await;
        if let Some(live) = slot.take_if(|live| {
            // One that is gone is of no use, and one that only grows cannot go back.
            let can_go_back =
                matches!(need.version, Version::Exported { .. }) && live.gate.can_go_back();
            live.gate.broken().is_some() || live.version != need.version && !can_go_back
        }) {
            live.gate.stop().await;
        }
        if let Some(live) = slot.as_ref()
            && live.version == need.version
        {
            return Ok(live.gate.clone());
        }
        let mut live = match slot.take() {
            Some(live) => live,
            None => self.start_env(task, plan, step, &need.resource).await?,
        };
        if let Err(error) = self.bring_to(&mut live, &need.version).await {
            live.gate.stop().await;
            return Err(error);
        }
        live.version = need.version;
        live.counted = live.gate.counts();
        let gate = live.gate.clone();
        *slot = Some(live);
        Ok(gate)
    }

    /// Brings an env that was just made, or one whose state can be replaced, to a version.
    async fn bring_to(&self, live: &mut LiveEnv, version: &Version) -> Result<(), ProvisionError> {
        let lost = |why: &str| ProvisionError::Lost(Some(why.to_owned()));
        let kept = || {
            let cache = self
                .cache
                .as_ref()
                .ok_or_else(|| lost("there is no cache"))?;
            let blob = file_of_version(version);
            let blob = blob.ok_or_else(|| lost("nothing is kept of that state"))?;
            let bytes = cache.get_blob(&blob);
            bytes.ok_or_else(|| lost("what was kept of that state is damaged or gone"))
        };
        match version {
            Version::Created(_) => {
                if live.mode == StateMode::Export {
                    let snapshot = live.gate.snapshot().await.map_err(|error| {
                        failed(format!("its card offers the data plane, but {error}"))
                    })?;
                    live.exported = Some(BlobRef::of(&snapshot));
                }
                Ok(())
            }
            Version::Exported { .. } => {
                let snapshot = kept()?;
                live.exported = file_of_version(version);
                let restored = live.gate.restore(&snapshot).await;
                restored.map_err(|why| lost(&why))
            }
            Version::Recorded { .. } => {
                let recipe = Recipe::from_bytes(&kept()?);
                let recipe = recipe.ok_or_else(|| lost("its recording is of another version"))?;
                let replayed = live.gate.replay(&recipe).await;
                replayed.map_err(|why| lost(&why))
            }
            Version::State { .. } | Version::Lineage(_) => {
                Err(lost("nothing is kept of that state"))
            }
        }
    }

    async fn start_env(
        &self,
        task: usize,
        plan: &TaskPlan,
        step: StepIx,
        resource: &ResourceId,
    ) -> Result<LiveEnv, ProvisionError> {
        let place = Place::Env(resource.name.clone());
        let maker = plan.maker_of(step, &place);
        let maker = maker.map(|maker| &plan.steps[maker.at()]);
        let (Some(maker), Some(MadeOf::Env(parts))) = (maker, maker.map(|maker| &maker.made_of))
        else {
            return Err(failed(format!("nothing says what {resource} is made of")));
        };
        let parts: &EnvParts = parts;
        let spec = &parts.spec;
        let instance = handle(maker, &place, "instance_id");
        let (server, can_export): (Arc<dyn EnvServer>, bool) = match &spec.run {
            EnvRun::Builtin { name } => {
                let server = builtin::start(name, &spec.env_id);
                let server =
                    server.ok_or_else(|| failed(format!("no env `{name}` is compiled in")))?;
                (server, true)
            }
            EnvRun::Process(run) => {
                let env = self.start_process(task, parts, run, &instance).await?;
                let can_export = env.can_export();
                (Arc::new(env), can_export)
            }
            EnvRun::Url { url } => {
                let env = ServedEnv::connect(spec, url).await.map_err(failed)?;
                let can_export = env.can_export();
                if can_export {
                    // It may hold what an earlier run left.
                    env.import(b"[]").await.map_err(failed)?;
                }
                (Arc::new(env), can_export)
            }
            EnvRun::Docker { .. } => {
                let env = self.start_container(parts).await?;
                let can_export = env.can_export();
                (Arc::new(env), can_export)
            }
        };
        let mode = match (spec.state, can_export) {
            (Some(StateMode::Export), false) => {
                server.stop().await;
                return Err(failed(format!(
                    "`state` of env `{}` is \"export\", but its server does not offer the whole data plane",
                    spec.env_id
                )));
            }
            (Some(mode), _) => mode,
            (None, true) => StateMode::Export,
            (None, false) => StateMode::Replay,
        };
        let volatile = spec.volatile.iter().map(|path| JsonPath::parse(path));
        let volatile: Vec<JsonPath> = volatile.collect::<Result<_, _>>().map_err(|error| {
            failed(format!(
                "`volatile` of env `{}` is no JSON path: {error}",
                spec.env_id
            ))
        })?;
        let settings = GateSettings {
            env_id: spec.env_id.clone(),
            call_timeout: Duration::from_secs(spec.call_timeout_seconds),
            read_only_tools: spec.read_only_tools.clone(),
            volatile,
            exports: mode == StateMode::Export,
            can_export,
            clock: spec.clock,
        };
        let n = self.made.fetch_add(1, Ordering::Relaxed);
        let folder = self.run().await?.path().join(format!("calls-{n}"));
        let keeper = Arc::new(InCache {
            cache: self.cache.clone(),
            redactor: self.redactor(),
        });
        let recorder = Recorder::new(folder.join("calls.jsonl"), keeper, self.system.clone());
        Ok(LiveEnv {
            gate: Gate::new(settings, server, recorder, Vec::new()),
            mode,
            version: Version::Lineage(Digest::of_bytes(b"just made")),
            counted: (0, 0),
            exported: None,
        })
    }

    async fn start_process(
        &self,
        task: usize,
        parts: &EnvParts,
        run: &ProcessRun,
        instance: &str,
    ) -> Result<ServedEnv, ProvisionError> {
        let program = Program {
            noun: format!("env `{}`", parts.spec.env_id),
            run,
            content: parts.content.as_deref(),
            passed: &parts.passed,
            instance,
        };
        let (sandbox, python) = self.sandbox_of(task, &program).await?;
        let start = Start {
            spec: &parts.spec,
            run,
            sandbox: sandbox.clone(),
            python: python.as_deref(),
        };
        match ServedEnv::start(start).await {
            Ok(env) => Ok(env),
            Err(error) => {
                // Its folder goes with the run's own at the latest.
                let _ = sandbox.destroy().await;
                Err(failed(error))
            }
        }
    }

    /// Returns what a program finds on this machine.
    pub(super) async fn surroundings(
        &self,
        program: &Program<'_>,
    ) -> Result<Surroundings, ProvisionError> {
        let Program { noun, run, .. } = program;
        let mut mounts: Vec<PathBuf> = run.mount.iter().map(|path| self.absolute(path)).collect();
        let mut search: Vec<PathBuf> = mounts
            .iter()
            .flat_map(|path| [path.join("bin"), path.join(".bin"), path.clone()])
            .collect();
        let python = match &run.requirements {
            None => None,
            Some(file) => {
                let content = program.content.iter().flat_map(|content| &content.files);
                let found = content.into_iter().find(|found| found.path == *file);
                let found = found.ok_or_else(|| {
                    failed(format!(
                        "`requirements` of {noun} names `{file}`, which is not in its folder"
                    ))
                })?;
                let text = crate::system::disk::read_to_string(&found.source).map_err(failed)?;
                let packages = python::requirements(&text)
                    .map_err(|why| failed(format!("`{file}` of {noun}: {why}")))?;
                let python = self.python(&packages).await.map_err(failed)?;
                let home = python.parent().and_then(Path::parent);
                mounts.extend(home.map(Path::to_path_buf));
                search.extend(python.parent().map(Path::to_path_buf));
                Some(python)
            }
        };
        let path = (!search.is_empty()).then(|| {
            let path: Vec<String> = search
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            format!("{}:{}", path.join(":"), crate::provider::local::PATH)
        });
        Ok(Surroundings {
            mounts,
            path,
            python,
        })
    }

    /// Makes the sandbox of a program that serves, with its files in it, and returns the interpreter that has its packages.
    pub(super) async fn sandbox_of(
        &self,
        task: usize,
        program: &Program<'_>,
    ) -> Result<(Arc<LocalSandbox>, Option<PathBuf>), ProvisionError> {
        let around = self.surroundings(program).await?;
        let mut env_vars = program.passed.to_vec();
        env_vars.extend(around.path.map(|path| ("PATH".to_owned(), path)));
        let sandbox = self
            .private_sandbox(program.instance, task, env_vars, around.mounts)
            .await?;
        let files = program.content.iter().flat_map(|content| &content.files);
        let puts: Vec<Put> = files
            .map(|file| Put {
                from: file.source.clone(),
                to: format!("/app/{}", file.path),
                mode: if file.executable { 0o755 } else { 0o644 },
            })
            .collect();
        sandbox.put(&puts).map_err(failed)?;
        for file in program.content.iter().flat_map(|content| &content.files) {
            let copy = sandbox.state_dir().join("app").join(&file.path);
            let bytes = crate::system::disk::read(&copy).map_err(failed)?;
            if Digest::of_bytes(&bytes) != file.digest {
                // The plan is of the file as it was: this run's results must not be taken for results of that.
                return Err(failed(changed(&program.noun, &file.path)));
            }
        }
        Ok((sandbox, around.python))
    }

    /// Makes a sandbox that is nobody's but aebuild's.
    async fn private_sandbox(
        &self,
        name: &str,
        task: usize,
        env_vars: Vec<(String, String)>,
        mounts: Vec<PathBuf>,
    ) -> Result<Arc<LocalSandbox>, ProvisionError> {
        let sandboxes = self.sandboxes().await?;
        let patience = Patience {
            grace: GRACE,
            ..Patience::default()
        };
        let spec = SandboxSpec {
            id: name.to_owned(),
            env_vars,
            mounts,
            patience: Some(patience),
            ..SandboxSpec::default()
        };
        let mut made = sandboxes.create(spec.clone());
        let mut n = 1;
        while let Err(LocalError::Exists { .. }) = made {
            n += 1;
            let id = format!("{name}-{task}-{n}");
            made = sandboxes.create(SandboxSpec { id, ..spec.clone() });
        }
        made.map_err(failed)
    }

    /// Returns a path of the configuration as one of this machine.
    fn absolute(&self, path: &str) -> PathBuf {
        self.settings.workspace.join(path)
    }

    /// Returns an interpreter that has these packages.
    async fn python(&self, packages: &[String]) -> Result<PathBuf, String> {
        let folder = match &self.cache {
            Some(cache) => cache.dir().join("python"),
            None => self.settings.folder.join("python"),
        };
        python::environment(&folder, packages).await
    }

    /// Makes a place for a program of a step.
    pub(super) async fn bench(
        &self,
        task: usize,
        step: StepIx,
        packages: &[String],
    ) -> Result<(Bench, Arc<LocalSandbox>), StepError> {
        let (mut mounts, mut interpreter) = (Vec::new(), "python3".to_owned());
        let packages = python::joined(packages, &self.settings.python_packages);
        if !packages.is_empty() {
            let python = self.python(&packages).await;
            let python = python.map_err(|why| {
                StepError::new(format!(
                    "the packages {} cannot be had: {why}",
                    packages.join(", ")
                ))
            })?;
            let home = python.parent().and_then(Path::parent);
            mounts.extend(home.map(Path::to_path_buf));
            interpreter = python.display().to_string();
        }
        let name = format!("bench-{task}-{}", step.0);
        let made = self.private_sandbox(&name, task, self.settings.passed.clone(), mounts);
        let sandbox = made.await.map_err(|error| match error {
            ProvisionError::Failed(why) => StepError::new(why),
            ProvisionError::Lost(_) => StepError::new("no place for a program could be made"),
        })?;
        let bench = Bench {
            sandbox: sandbox.clone(),
            python: interpreter,
        };
        Ok((bench, sandbox))
    }

    /// Returns the env among a step's needs that is gone, and why.
    pub(super) async fn broken_env(&self, task: usize, needs: &[Need]) -> Option<EnvError> {
        for need in needs {
            let slot = locked(&self.envs)
                .get(&(task, need.resource.clone()))
                .cloned();
            let Some(slot) = slot else { continue };
            let slot = slot.lock().await;
            if let Some(error) = slot.as_ref().and_then(|live| live.gate.broken()) {
                return Some(error);
            }
        }
        None
    }

    /// Returns the envs that are up, each with an address that works until they end.
    pub(super) async fn envs_left_up(&self) -> Vec<LeftUp> {
        let slots: Vec<_> = locked(&self.envs)
            .iter()
            .map(|(key, slot)| (key.1.clone(), slot.clone()))
            .collect();
        let mut up = Vec::new();
        for (resource, slot) in slots {
            let slot = slot.lock().await;
            let Some(live) = slot.as_ref() else { continue };
            let caller = Caller::new("kept up", DEFAULT_ROLE);
            let handle = EnvHandle::new(live.gate.clone(), self.gateway.clone(), caller);
            let at = match handle.url().await {
                Ok(url) => format!("{url}/mcp"),
                Err(error) => error.to_string(),
            };
            locked(&self.kept_up).push(handle);
            up.push(LeftUp { resource, at });
        }
        up
    }

    /// Ends an env.
    pub(super) fn retire_env(self: &Arc<Self>, task: usize, resource: &ResourceId) {
        let slot = locked(&self.envs).remove(&(task, resource.clone()));
        if let Some(slot) = slot {
            tokio::spawn(async move {
                if let Some(live) = slot.lock().await.take() {
                    live.gate.stop().await;
                }
            });
        }
    }

    /// Ends the envs of a task, or of all tasks.
    pub(super) async fn end_envs(&self, task: Option<usize>) {
        let slots: Vec<EnvSlot> = {
            let mut all = locked(&self.envs);
            let mine: Vec<_> = all
                .keys()
                .filter(|(of, _)| task.is_none_or(|task| *of == task))
                .cloned()
                .collect();
            mine.into_iter()
                .filter_map(|key| all.remove(&key))
                .collect()
        };
        let stops = slots.into_iter().map(|slot| async move {
            if let Some(live) = slot.lock().await.take() {
                live.gate.stop().await;
            }
        });
        let stops: Vec<_> = stops.map(tokio::spawn).collect();
        for stop in stops {
            // An error is a panic of what ends it; its processes go with the run.
            let _ = stop.await;
        }
    }
}
