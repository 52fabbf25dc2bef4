//! Runs what was selected: what is as it was at once, the rest through the engine.

use std::collections::HashMap;
use std::sync::Arc;

use aebuild_cache::BlobRef;
use tokio::sync::watch;

use super::held::Held;
use super::kept::KeptTask;
use super::load::{Prepared, Unit};
use super::{
    RunOptions, RunSummary, SeedRow, Session, SessionError, StepForecast, StepVerdict,
    TaskForecast, TaskGraph, TaskSummary,
};
use crate::context::{Entry, Place, fold_to_json};
use crate::diagnostic::Diagnostic;
use crate::digest::Digest;
use crate::engine::{Dispatcher, EngineSettings, Store, TaskJob, TaskResult, Told, Wish};
use crate::event::{Outcome, RunEvent, Tally};
use crate::graph::{Edges, StepGraph};
use crate::json::{Value, json};
use crate::record::Redactor;
use crate::schedule::Forecasted;
use crate::system::disk;
use crate::task::config::Isolation;

enum Planned {
    Unchanged(Box<KeptTask>),
    Look,
}

/// How many prompts run at once where nobody says otherwise.
const PROMPTS: usize = 64;

impl Session {
    /// Returns every fault of what is selected.
    pub fn check(&mut self, options: &RunOptions) -> Result<Vec<Diagnostic>, SessionError> {
        let units = match self.select(options) {
            Ok(units) => units,
            Err(SessionError::Faults(faults)) => return Ok(faults),
            Err(other) => return Err(other),
        };
        match self.check_units(units, options) {
            Ok(faults) | Err(SessionError::Faults(faults)) => Ok(faults),
            Err(other) => Err(other),
        }
    }

    /// Foresees what a run would do.
    pub fn plan(&mut self, options: &RunOptions) -> Result<Vec<TaskForecast>, SessionError> {
        let prepared = self.prepare_all(options)?;
        let forecasts = prepared.iter().map(task_forecast).collect();
        self.kept.set_memo(&self.memo);
        self.write_kept();
        Ok(forecasts)
    }

    /// Returns the graphs of what is selected.
    pub fn graph(&mut self, options: &RunOptions) -> Result<Vec<TaskGraph>, SessionError> {
        let units = self.select(options)?;
        let store = Store::new(None, false);
        let (prepared, _) = self.prepare(units, options, &store, "none")?;
        Ok(prepared.iter().map(|one| task_graph(&one.job)).collect())
    }

    pub(super) fn prepare_all(
        &mut self,
        options: &RunOptions,
    ) -> Result<Vec<Prepared>, SessionError> {
        let units = self.select(options)?;
        let id = self.new_run_id();
        let isolation = self.isolation(&id)?;
        let store = Store::new(self.cache.clone(), true);
        let (prepared, _) = self.prepare(units, options, &store, isolation)?;
        Ok(prepared)
    }

    /// Returns a new run id: the time to the microsecond, so that ids sort by it, and a random digit.
    pub(super) fn new_run_id(&self) -> String {
        let now_us = self.system.now_us();
        let time = crate::system::timestamp(now_us);
        let digits: String = time.chars().filter(char::is_ascii_digit).take(14).collect();
        let mut random = [0];
        // Without randomness the process id keeps runs of one moment apart.
        if getrandom::fill(&mut random).is_err() {
            random = [std::process::id() as u8];
        }
        let tail = (now_us.rem_euclid(1_000_000) << 4) | i64::from(random[0] & 15);
        format!("{}-{}-{tail:06x}", &digits[..8], &digits[8..])
    }

    /// Runs what is selected; `tell` hears of every moment in one order.
    pub fn run(
        &mut self,
        options: &RunOptions,
        tell: &mut dyn FnMut(Told),
        wish: watch::Receiver<Wish>,
    ) -> Result<RunSummary, SessionError> {
        let began_us = self.system.now_us();
        let run = self.new_run_id();
        let units = self.select(options)?;
        let isolation = self.isolation(&run)?;
        let looked = self.look(units, options, isolation);
        let reads = !self.options.no_cache;
        let store = Store::new(self.cache.clone(), reads);
        let to_look: Vec<Unit> = looked
            .iter()
            .filter(|(_, planned)| matches!(planned, Planned::Look))
            .map(|(unit, _)| unit.clone())
            .collect();
        let any_to_look = !to_look.is_empty();
        let (mut prepared, warnings) = self.prepare(to_look, options, &store, isolation)?;

        tell(Told::Event(RunEvent::RunStarted {
            run: run.clone(),
            tasks: looked.len(),
        }));
        let no_cache = self.cache_error.take();
        let mut notices: Vec<String> = no_cache
            .map(|why| {
                format!("nothing is kept of this run, and nothing that is kept is used: {why}")
            })
            .into_iter()
            .collect();
        if any_to_look {
            notices.extend(self.reap());
        }
        notices.extend(store.notices());
        for text in notices {
            tell(Told::Event(RunEvent::Notice { text }));
        }
        let mut jobs = Vec::with_capacity(prepared.len());
        for one in &mut prepared {
            self.add_initial(one, options, &run);
            let rest = empty_job(&one.job);
            jobs.push(std::mem::replace(&mut one.job, rest));
        }
        let mut held = None;
        let mut left_up = Vec::new();
        let mut results = Vec::new();
        let mut cancelled = false;
        if any_to_look {
            let tasks = jobs
                .iter()
                .map(|job: &TaskJob| (job.shown.clone(), job.plan.clone()));
            let Held {
                runtime,
                provisioner,
            } = self.held(&run, options, tell)?;
            runtime.block_on(provisioner.begin(&run, tasks.collect()));
            let settings = self.engine_settings(&run, options);
            (results, cancelled) = runtime.block_on(async {
                let mut dispatcher = Dispatcher::new(
                    self.system.clone(),
                    &store,
                    provisioner.clone(),
                    settings,
                    tell,
                );
                let results = dispatcher.run(jobs, wish.clone()).await;
                (results, wish.borrow().stops())
            });
            // Who chose to have no wall knows it.
            let is_auto = self.config.sandbox.isolation == Isolation::Auto;
            let no_wall = provisioner.notice().filter(|_| is_auto);
            for text in store.notices().into_iter().chain(no_wall) {
                tell(Told::Event(RunEvent::Notice { text }));
            }
            if let Err(why) = store.flush() {
                let text = format!("results of this run may not survive a power cut: {why}");
                tell(Told::Event(RunEvent::Notice { text }));
            }
            if let Some(text) = self.collect_garbage() {
                tell(Told::Event(RunEvent::Notice { text }));
            }
            if options.warm && !cancelled {
                self.warm = Some(Held {
                    runtime,
                    provisioner,
                });
            } else if options.keep && !cancelled {
                let up = runtime.block_on(provisioner.left_up());
                left_up.extend(up.iter().map(|one| format!("{}: {}", one.resource, one.at)));
                held = Some(Held {
                    runtime,
                    provisioner,
                });
            } else if let Err(text) = runtime.block_on(provisioner.close()) {
                tell(Told::Event(RunEvent::Notice { text }));
            }
        }
        let tasks = self.summarise(looked, prepared, results, options, &run, tell);
        let mut tally = Tally::default();
        tasks.iter().for_each(|task| tally.add(&task.tally));
        let took_us = self.system.now_us().saturating_sub(began_us).max(0) as u64;
        tell(Told::Event(RunEvent::RunFinished {
            cancelled,
            tally,
            took_us,
        }));
        self.write_kept();
        Ok(RunSummary {
            run,
            tasks,
            tally,
            cancelled,
            warnings,
            left_up,
            held,
        })
    }

    /// Keeps the cache below its limits, when it is time and nobody else uses it.
    fn collect_garbage(&self) -> Option<String> {
        let cache = self.cache.as_ref().filter(|cache| cache.is_gc_due())?;
        let options = aebuild_cache::GcOptions {
            wait: std::time::Duration::ZERO,
            is_dry_run: false,
        };
        match cache.gc(options) {
            // Others who use the cache now will come by here too.
            Ok(_) | Err(aebuild_cache::UpkeepError::Busy { .. }) => None,
            Err(error) => Some(format!("the cache could not be cleaned up: {error}")),
        }
    }

    fn engine_settings(&self, run: &str, options: &RunOptions) -> EngineSettings {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        // Two more than cores, so that no core waits while a step is wound up and the next one begins.
        let configured = self.config.run.jobs.map(|jobs| jobs as usize);
        let jobs = options.jobs.or(configured).unwrap_or(cores + 2);
        let prompts = self.config.run.prompt_jobs.map(|jobs| jobs as usize);
        // Who says how many steps run at once means prompts too.
        let said = prompts.or(options.jobs).or(configured);
        EngineSettings {
            run: run.to_owned(),
            jobs,
            prompt_jobs: said.unwrap_or(PROMPTS),
            task_jobs: (self.config.run.task_jobs as usize).max(jobs.min(64)),
            secrets: self.secrets(),
            models: self.model_settings(options),
            step_timeout: self
                .config
                .run
                .step_timeout_seconds
                .map(std::time::Duration::from_secs),
        }
    }

    /// Returns whether a run with these options may be answered from what is remembered.
    fn may_use_kept(&self, options: &RunOptions) -> bool {
        let changes = options.fresh
            || !options.rerun.is_empty()
            || options.from.is_some()
            || options.until.is_some()
            || options.only.is_some();
        !changes && !options.contexts && !options.keep && self.cache.is_some()
    }

    /// Finds out which units are as they were.
    fn look(
        &mut self,
        units: Vec<Unit>,
        options: &RunOptions,
        isolation: &str,
    ) -> Vec<(Unit, Planned)> {
        // What is at fault with the configuration is told together with all else.
        let plain = self.may_use_kept(options) && self.refuse_faults().is_ok();
        let mut settings: HashMap<(SeedRow, u32), Digest> = HashMap::new();
        let mut looked = Vec::with_capacity(units.len());
        for unit in units {
            let known = settings.get(&(unit.seed.clone(), unit.sample)).copied();
            let setting = known.unwrap_or_else(|| {
                let overrides = self.overrides(&unit, options);
                self.setting_digest(&overrides, isolation)
            });
            settings.insert((unit.seed.clone(), unit.sample), setting);
            let system = self.system.clone();
            let root = self.located[unit.folder].root.clone();
            let kept = plain
                .then(|| self.kept.task(system.as_ref(), &root, &unit.name, &setting))
                .flatten();
            looked.push((
                unit,
                kept.map_or(Planned::Look, |task| Planned::Unchanged(Box::new(task))),
            ));
        }
        self.drop_lost(&mut looked);
        looked
    }

    /// Looks again at units whose records or blobs the cache has lost.
    fn drop_lost(&self, looked: &mut [(Unit, Planned)]) {
        let Some(cache) = self.cache.as_ref() else {
            return;
        };
        let mut places = Vec::new();
        let mut blobs: HashMap<BlobRef, bool> = HashMap::new();
        for (_, planned) in looked.iter() {
            if let Planned::Unchanged(task) = planned {
                places.extend_from_slice(&task.places);
                blobs.extend(task.blobs.iter().map(|blob| (*blob, true)));
            }
        }
        for (blob, there) in &mut blobs {
            *there = cache.has_blob(blob);
        }
        let all_places = cache.has_places(&places);
        if all_places && blobs.values().all(|there| *there) {
            return;
        }
        for (_, planned) in looked {
            if let Planned::Unchanged(task) = planned
                && !(task.blobs.iter().all(|blob| blobs[blob]) && cache.has_places(&task.places))
            {
                *planned = Planned::Look;
            }
        }
    }

    fn reap(&self) -> Vec<String> {
        match crate::provider::local::LocalSandboxes::reap_orphans(&self.live_folder()) {
            Ok(reaped) if reaped.is_empty() => Vec::new(),
            Ok(reaped) => {
                let noun = if reaped.len() == 1 { "run" } else { "runs" };
                let n = reaped.len();
                vec![format!("cleaned up after {n} {noun} that did not end well")]
            }
            Err(error) => vec![format!(
                "what earlier runs left cannot be cleaned up: {error}"
            )],
        }
    }

    /// Gives a task's context what the run starts with.
    fn add_initial(&self, one: &mut Prepared, options: &RunOptions, run: &str) {
        let set = |path: &[&str], value: Value| {
            Entry::data(
                Place::Set(path.iter().map(|&part| part.to_owned()).collect()),
                value,
            )
        };
        let folder = self
            .folders
            .get(&one.unit.folder)
            .map(|loaded| loaded.folder.name.clone());
        let id = format!("@local/{}/{}", folder.unwrap_or_default(), one.unit.name);
        let mut entries = vec![
            set(&["run_group_id"], json!(run)),
            set(&["task_id"], json!(id)),
            set(&["@context", "instance_id"], json!(format!("{id}-{run}"))),
        ];
        if !one.unit.seed.values.is_empty() {
            entries.push(set(&["seed"], json!(one.unit.seed.values)));
        }
        if !options.user_overrides.is_empty() {
            let overrides = Value::Object(options.user_overrides.clone());
            entries.push(set(&["user_overrides"], overrides));
        }
        Arc::make_mut(&mut one.job.plan).initial = entries;
    }

    fn summarise(
        &mut self,
        looked: Vec<(Unit, Planned)>,
        prepared: Vec<Prepared>,
        results: Vec<TaskResult>,
        options: &RunOptions,
        run: &str,
        tell: &mut dyn FnMut(Told),
    ) -> Vec<TaskSummary> {
        self.remember_folders();
        let secrets = self.secrets();
        let redactor = Redactor::new(secrets.iter().map(String::as_str));
        let mut fresh = prepared.into_iter().zip(results);
        let mut tasks = Vec::with_capacity(looked.len());
        for (unit, planned) in looked {
            match planned {
                Planned::Unchanged(kept) => {
                    let steps = (kept.steps + kept.deferred) as usize;
                    let task = unit.shown.clone();
                    tell(Told::Event(RunEvent::TaskUnchanged { task, steps }));
                    let summary = unchanged_summary(unit, *kept);
                    tell(Told::Event(RunEvent::TaskFinished {
                        task: summary.shown.clone(),
                        outcome: summary.outcome,
                        scores: summary.scores.clone(),
                        failure: None,
                        tally: summary.tally,
                        took_us: 0,
                    }));
                    tasks.push(summary);
                }
                Planned::Look => {
                    let Some((one, result)) = fresh.next() else {
                        continue;
                    };
                    self.remember(&one, &result, options, run);
                    let context = redactor.value(&fold_to_json(&result.outputs));
                    tasks.push(TaskSummary {
                        shown: result.shown,
                        outcome: result.outcome,
                        scores: result.scores,
                        failure: result.failure,
                        tally: result.tally,
                        unchanged: false,
                        context: Some(context),
                    });
                }
            }
        }
        tasks
    }

    fn remember_folders(&mut self) {
        if self.folders.is_empty() {
            return;
        }
        self.kept.set_memo(&self.memo);
        for (at, loaded) in &self.folders {
            let root = &self.located[*at].root;
            if loaded.faults.is_empty() && self.located[*at].lone.is_none() {
                let tasks = super::select::default_tasks(&loaded.folder);
                self.kept
                    .set_folder(root, &loaded.watched, loaded.read_us, tasks);
            }
        }
    }

    fn remember(&mut self, one: &Prepared, result: &TaskResult, options: &RunOptions, run: &str) {
        let root = self.located[one.unit.folder].root.clone();
        let whole = options.until.is_none() && options.only.is_none();
        let good = !matches!(result.outcome, Outcome::Failed | Outcome::Cancelled);
        let Some(places) = result.kept.clone().filter(|_| whole && good) else {
            self.kept.forget_task(&root, &one.unit.name, &one.setting);
            return;
        };
        let task = KeptTask {
            name: one.unit.name.clone(),
            shown: one.unit.shown.clone(),
            setting: one.setting,
            sources: Vec::new(),
            steps: places.len() as u64,
            deferred: result.tally.deferred,
            saved_us: result.worth_us,
            outcome: result.outcome,
            scores: result.scores.clone(),
            run: run.to_owned(),
            places,
            blobs: result.blobs.clone(),
        };
        self.kept.set_task(&root, task, &one.sources, one.read_us);
    }

    pub(super) fn write_kept(&mut self) {
        let Some(bytes) = self.kept.to_write() else {
            return;
        };
        let folder = self.state_folder();
        let temp = folder.join(format!("kept.{}", std::process::id()));
        // What cannot be remembered is looked at again.
        let written = disk::create_dir_all(&folder)
            .and_then(|()| disk::write(&temp, &bytes))
            .and_then(|()| disk::rename(&temp, &folder.join("kept")));
        if written.is_err() {
            let _ = disk::remove_file(&temp);
        }
    }
}

fn empty_job(of: &TaskJob) -> TaskJob {
    TaskJob {
        shown: of.shown.clone(),
        plan: of.plan.clone(),
        steps: Vec::new(),
        contents: Vec::new(),
        lost: Default::default(),
        stamps: of.stamps.clone(),
        sample: of.sample,
    }
}

fn unchanged_summary(unit: Unit, kept: KeptTask) -> TaskSummary {
    TaskSummary {
        shown: unit.shown,
        outcome: kept.outcome,
        scores: kept.scores,
        failure: None,
        tally: Tally {
            hit: kept.steps,
            deferred: kept.deferred,
            saved_us: kept.saved_us,
            ..Tally::default()
        },
        unchanged: true,
        context: None,
    }
}

pub(super) fn task_forecast(one: &Prepared) -> TaskForecast {
    let plan = &one.job.plan;
    let steps = plan.graph.steps().map(|at| {
        let planned = &plan.steps[at.at()];
        StepForecast {
            step: planned.id.clone(),
            kind: planned.kind,
            verdict: verdict(one, at),
            needs: one.forecast.needs.get(&at).cloned().unwrap_or_default(),
            last_took_us: planned.previous.as_ref().map(|trace| trace.made.took_us),
        }
    });
    TaskForecast {
        shown: one.unit.shown.clone(),
        steps: steps.collect(),
    }
}

pub(super) fn verdict(one: &Prepared, at: crate::graph::StepIx) -> StepVerdict {
    match &one.forecast.steps[at.at()] {
        Forecasted::Hit(trace) => StepVerdict::Hit {
            made_by: trace.made.run.clone(),
        },
        Forecasted::Dirty(because) => StepVerdict::Dirty {
            because: because.clone(),
        },
        Forecasted::Waits { on } => StepVerdict::Waits {
            on: one.job.plan.steps[on.at()].id.clone(),
        },
        Forecasted::Deferred => StepVerdict::Deferred,
        Forecasted::LeftOut => StepVerdict::LeftOut,
    }
}

fn task_graph(job: &TaskJob) -> TaskGraph {
    let plan = &job.plan;
    let id = |at: usize| plan.steps[at].id.clone();
    let edges = graph_edges(&plan.graph).into_iter().enumerate();
    let steps = edges.map(|(at, on)| {
        (
            id(at),
            plan.steps[at].kind,
            on.into_iter().map(id).collect(),
        )
    });
    TaskGraph {
        shown: job.shown.clone(),
        steps: steps.collect(),
    }
}

/// Returns for each step the positions of those that it waits for, implied edges reduced to those that matter.
pub(super) fn graph_edges(graph: &StepGraph) -> Vec<Vec<usize>> {
    // A step that waits for every earlier one waits for those that nothing earlier waits for.
    let mut open: Vec<usize> = Vec::new();
    let mut edges = Vec::with_capacity(graph.len());
    for at in graph.steps() {
        let on: Vec<usize> = match graph.edges(at) {
            Edges::Earlier => std::mem::take(&mut open),
            Edges::Steps(steps) => steps.iter().map(|step| step.at()).collect(),
        };
        open.retain(|other| on.binary_search(other).is_err());
        open.push(at.at());
        edges.push(on);
    }
    edges
}
