//! A model of everything around the scheduler: a store of traces and snapshots, and a machine that runs steps.
//!
//! A step is a pure function: what it writes and the state in which it leaves a resource are digests of its field, of the
//! values that it looked up and of the states that it found. A state is a base and a list of marks; members of a group
//! leave marks, in any order, so their effects may interleave. A step that fails or is stopped leaves the mark `broken`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use aebuild::context::{Entry, Lookup, Output, Place};
use aebuild::digest::{Digest, Digester, Manifest};
use aebuild::event::StepEvent;
use aebuild::graph::{Edges, StepGraph, StepIx, groups};
use aebuild::json::json;
use aebuild::rebuild::{DirtyReason, Key, Log, MadeBy, Read, ReadKey, Trace};
use aebuild::resource::{Effect, Provision, ResourceId, Touch, Version};
use aebuild::schedule::{
    Command, Ended, Forecast, Input, Need, PlannedStep, Retry, Scheduler, Snapshots, StepPart,
    TaskPlan, forecast,
};
use aebuild::step::{Determinism, StepError};
use aebuild::task::{OnError, StepId};

/// A step of the model.
#[derive(Clone, Debug)]
pub struct Step {
    pub id: String,
    pub field: String,
    /// `None` waits for every earlier step.
    pub after: Option<Vec<String>>,
    pub touches: Vec<(String, Touch)>,
    pub reads: Vec<String>,
    pub writes: Vec<String>,
    /// Whether a step that may change a resource does.
    pub really: bool,
    pub determinism: Determinism,
    pub tolerant: bool,
    pub retry: Option<(String, u32, u64)>,
    pub part: StepPart,
    pub forced: bool,
}

impl Step {
    pub fn new(id: &str) -> Self {
        Step {
            id: id.to_owned(),
            field: "1".to_owned(),
            after: Some(Vec::new()),
            touches: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            really: false,
            determinism: Determinism::Pure,
            tolerant: false,
            retry: None,
            part: StepPart::Free,
            forced: false,
        }
    }

    pub fn makes(&self) -> Option<&str> {
        let made = self
            .touches
            .iter()
            .find(|(_, touch)| *touch == Touch::Creates);
        made.map(|(resource, _)| resource.as_str())
    }

    /// Reads `reply <- inbox, assistant: mutates box, reads k, writes reply, retry inbox x1`.
    pub fn parse(line: &str) -> Self {
        let (head, props) = line.split_once(':').unwrap_or((line, ""));
        let (id, after) = match head.split_once("<-") {
            Some((id, after)) => (id.trim(), Some(after.trim())),
            None => (head.trim(), None),
        };
        let names = |text: &str| -> Vec<String> {
            text.split([',', ' '])
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let mut step = Step::new(id);
        step.after = match after {
            Some("*") => None,
            after => Some(names(after.unwrap_or_default())),
        };
        for prop in props
            .split(',')
            .map(str::trim)
            .filter(|prop| !prop.is_empty())
        {
            let (word, rest) = prop.split_once(' ').unwrap_or((prop, ""));
            let touch = |touch: Touch| (rest.to_owned(), touch);
            match word {
                "creates" => step.touches.push(touch(Touch::Creates)),
                "retires" => step.touches.push(touch(Touch::Retires)),
                "observes" => step.touches.push(touch(Touch::Observes)),
                "mutates" => step.touches.push(touch(Touch::Mutates)),
                "may" => step.touches.push(touch(Touch::MayMutate)),
                "really" => step.really = true,
                "reads" => step.reads.extend(names(rest)),
                "writes" => step.writes.extend(names(rest)),
                "field" => step.field = rest.to_owned(),
                "volatile" => step.determinism = Determinism::Volatile,
                "sampled" => step.determinism = Determinism::Sampled,
                "tolerant" => step.tolerant = true,
                "cached-only" => step.part = StepPart::CachedOnly,
                "left-out" => step.part = StepPart::LeftOut,
                "forced" => step.forced = true,
                "retry" => {
                    let words = names(rest);
                    let times = words[1].trim_start_matches('x').parse().unwrap();
                    let backoff = words.get(2).map_or(0, |ms| ms.parse().unwrap());
                    step.retry = Some((words[0].clone(), times, backoff));
                }
                other => panic!("no such property: {other}"),
            }
        }
        step
    }
}

/// A task of the model.
#[derive(Clone, Debug)]
pub struct Task {
    pub steps: Vec<Step>,
    pub sample: u32,
}

impl Task {
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Task {
            steps: lines.map(Step::parse).collect(),
            sample: 1,
        }
    }

    fn position(&self, id: &str) -> Option<u32> {
        self.steps
            .iter()
            .position(|step| step.id == id)
            .map(|at| at as u32)
    }

    pub fn graph(&self) -> StepGraph {
        let edges = self.steps.iter().map(|step| match &step.after {
            None => Edges::Earlier,
            Some(after) => Edges::Steps(
                after
                    .iter()
                    .filter_map(|id| self.position(id))
                    .map(StepIx)
                    .collect(),
            ),
        });
        StepGraph::from_edges(edges.collect())
    }

    pub fn touches(&self) -> Vec<Vec<(ResourceId, Touch)>> {
        let touches = |step: &Step| {
            step.touches
                .iter()
                .map(|(name, touch)| (ResourceId::sandbox(name), *touch))
                .collect()
        };
        self.steps.iter().map(touches).collect()
    }
}

/// A state of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    base: String,
    marks: Vec<String>,
}

impl State {
    fn new(definition: &str) -> Self {
        State {
            base: format!("new {definition}"),
            marks: Vec::new(),
        }
    }

    fn mark(&mut self, mark: String) {
        self.marks.push(mark);
        self.marks.sort();
    }

    pub fn text(&self) -> String {
        format!(
            "{}{}",
            self.base,
            self.marks
                .iter()
                .map(|m| format!("+{m}"))
                .collect::<String>()
        )
    }

    fn version(&self) -> Version {
        let text = self.text();
        Version::State {
            tree: Digest::of_bytes(text.as_bytes()),
            size: text.len() as u64,
        }
    }
}

/// What outlives a run: traces and snapshots.
#[derive(Clone, Debug, Default)]
pub struct Store {
    traces: RefCell<Vec<(Arc<Trace>, bool, Digest)>>,
    snapshots: RefCell<HashMap<Version, State>>,
    /// Snapshots that are thought to be there and are not.
    gone: RefCell<HashSet<Version>>,
    /// Whether no live thing can be saved.
    pub forgetful: Cell<bool>,
}

impl Snapshots for Store {
    fn can_restore(&self, version: &Version) -> bool {
        !self.forgetful.get() && self.snapshots.borrow().contains_key(version)
    }
}

impl Store {
    /// Returns the key of each trace, sorted.
    pub fn actions(&self) -> Vec<Digest> {
        let mut actions: Vec<Digest> = self
            .traces
            .borrow()
            .iter()
            .map(|(trace, ..)| trace.action())
            .collect();
        actions.sort();
        actions
    }

    /// Loses traces and snapshots for which the question is answered with yes.
    pub fn lose(&self, mut trace: impl FnMut() -> bool, mut snapshot: impl FnMut() -> bool) {
        self.traces.borrow_mut().retain(|_| !trace());
        // Not in the order of a map, which differs between runs of the test.
        let mut versions: Vec<(State, Version)> = self
            .snapshots
            .borrow()
            .iter()
            .map(|(v, s)| (s.clone(), *v))
            .collect();
        versions.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, version) in versions {
            if snapshot() {
                self.snapshots.borrow_mut().remove(&version);
            }
        }
    }

    /// Loses the content of all snapshots, unnoticed.
    pub fn rot(&self) {
        let versions: Vec<Version> = self.snapshots.borrow().keys().copied().collect();
        self.gone.borrow_mut().extend(versions);
    }

    /// Returns the task, ready to run; `handle` is what a live thing is called in this run.
    pub fn plan(&self, task: &Task, handle: &str) -> Arc<TaskPlan> {
        let graph = task.graph();
        let touches = task.touches();
        let groups = groups(&graph, &touches);
        let steps = task
            .steps
            .iter()
            .zip(touches)
            .map(|(step, touches)| self.planned(task, step, touches, handle));
        Arc::new(TaskPlan {
            name: "task".to_owned(),
            steps: steps.collect(),
            graph,
            groups,
            initial: Vec::new(),
        })
    }

    fn planned(
        &self,
        task: &Task,
        step: &Step,
        touches: Vec<(ResourceId, Touch)>,
        handle: &str,
    ) -> PlannedStep {
        let mut manifest = Manifest::default();
        manifest.value("field `field`", &json!(step.field));
        manifest.value("field `writes`", &json!(step.writes));
        manifest.value("field `reads`", &json!(step.reads));
        for (resource, touch) in &touches {
            manifest.value(
                format!("touch {resource}"),
                &json!(format!("{touch:?} {}", step.really)),
            );
        }
        if step.determinism == Determinism::Sampled {
            // Two steps that are alike are two samples.
            manifest.value("sample", &json!([task.sample, step.id]));
        }
        let key = Key::of(manifest, "task", &step.id);
        let live = step.makes().map(|name| {
            let identity = Digest::of_bytes(step.field.as_bytes());
            let value = json!({"sandbox_name": name, "sandbox_id": format!("{handle}-{name}")});
            Arc::new(Output::of(vec![Entry::live(
                Place::Sandbox(name.to_owned()),
                value,
                &identity,
            )]))
        });
        let retires = touches.iter().any(|(_, touch)| *touch == Touch::Retires);
        let retry = step
            .retry
            .as_ref()
            .map(|(from, max_retries, backoff_ms)| Retry {
                from: StepIx(task.position(from).expect("the step to retry from")),
                max_retries: *max_retries,
                backoff_ms: *backoff_ms,
                backoff_factor: 2.0,
                max_backoff_ms: 250,
            });
        PlannedStep {
            id: StepId::new(&step.id),
            kind: "step",
            prompts: false,
            lane: aebuild::schedule::Lane::Works,
            determinism: step.determinism,
            touches,
            live: live.or_else(|| retires.then(|| Arc::new(Output::default()))),
            on_error: if step.tolerant {
                OnError::Continue
            } else {
                OnError::FailTask
            },
            retry,
            candidates: self.candidates(&key),
            previous: self.newest(key.lineage),
            forced: step.forced.then_some(DirtyReason::Forced { by: "--fresh" }),
            part: step.part,
            made_of: Default::default(),
            key,
        }
    }

    fn newest(&self, lineage: Digest) -> Option<Arc<Trace>> {
        let traces = self.traces.borrow();
        let found = traces.iter().rev().find(|(_, _, other)| *other == lineage);
        found.map(|(trace, ..)| trace.clone())
    }

    /// Among the records of one action the newest that supersedes counts, else the first.
    fn candidates(&self, key: &Key) -> Vec<Arc<Trace>> {
        let mut by_action: Vec<(Digest, Arc<Trace>)> = Vec::new();
        for (trace, supersedes, _) in self.traces.borrow().iter() {
            if trace.fingerprint != key.fingerprint {
                continue;
            }
            let action = trace.action();
            match by_action.iter_mut().find(|(other, _)| *other == action) {
                Some(known) if *supersedes => known.1 = trace.clone(),
                Some(_) => {}
                None => by_action.push((action, trace.clone())),
            }
        }
        by_action
            .into_iter()
            .rev()
            .map(|(_, trace)| trace)
            .collect()
    }
}

struct Thing {
    state: State,
    /// The state when the first user came since the state was last taken.
    opened: Option<State>,
    users: BTreeSet<StepIx>,
}

struct Running {
    reads: Vec<Read>,
    looked_up: Vec<String>,
    found: Vec<(ResourceId, State)>,
}

/// Runs one task against the store.
pub struct Machine<'s> {
    pub plan: Arc<TaskPlan>,
    pub scheduler: Scheduler<'s>,
    pub foreseen: Forecast,
    task: Task,
    store: &'s Store,
    things: HashMap<ResourceId, Thing>,
    /// Who was told to run with a resource and has not ended.
    waiting: HashMap<ResourceId, BTreeSet<StepIx>>,
    pub queue: VecDeque<(StepIx, Vec<Need>)>,
    running: BTreeMap<StepIx, Running>,
    pub aborting: BTreeSet<StepIx>,
    pub settling: BTreeSet<ResourceId>,
    pub asleep: Vec<StepIx>,
    pub finished: usize,
    pub log: Vec<String>,
    /// Each step that was started, in order.
    pub started: Vec<String>,
    pub n_provisioned: usize,
    /// What a sampled step comes to is numbered.
    pub chance: u64,
}

impl<'s> Machine<'s> {
    pub fn new(store: &'s Store, task: &Task, handle: &str) -> Self {
        let plan = store.plan(task, handle);
        let foreseen = forecast(&plan, store);
        Machine {
            scheduler: Scheduler::new(plan.clone(), store, &foreseen.lost),
            plan,
            foreseen,
            task: task.clone(),
            store,
            things: HashMap::new(),
            waiting: HashMap::new(),
            queue: VecDeque::new(),
            running: BTreeMap::new(),
            aborting: BTreeSet::new(),
            settling: BTreeSet::new(),
            asleep: Vec::new(),
            finished: 0,
            log: Vec::new(),
            started: Vec::new(),
            n_provisioned: 0,
            chance: 0,
        }
    }

    pub fn id(&self, step: StepIx) -> &str {
        self.plan.steps[step.at()].id.as_str()
    }

    pub fn step(&self, id: &str) -> StepIx {
        self.plan.position(id).expect("a step of this name")
    }

    /// Returns the steps that run and were not called back.
    pub fn running(&self) -> Vec<StepIx> {
        self.running
            .keys()
            .copied()
            .filter(|step| !self.aborting.contains(step))
            .collect()
    }

    pub fn feed(&mut self, input: Input) {
        assert!(
            self.finished == 0 || matches!(input, Input::Cancel),
            "bug: {input:?} after the end"
        );
        for command in self.scheduler.on(input) {
            assert_eq!(self.finished, 0, "bug: {command:?} after the end");
            self.take(command);
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Run {
                step,
                attempt,
                needs,
            } => {
                let needs_text: Vec<String> =
                    needs.iter().map(|need| self.need_text(need)).collect();
                self.say(format!(
                    "run {} #{attempt}{}",
                    self.id(step),
                    needs_text.concat()
                ));
                assert!(!self.running.contains_key(&step), "bug: it runs already");
                for need in &needs {
                    let waiting = self.waiting.entry(need.resource.clone()).or_default();
                    if waiting.is_empty()
                        && let Some(thing) = self.things.get_mut(&need.resource)
                    {
                        thing.opened = None;
                    }
                    waiting.insert(step);
                }
                self.queue.push_back((step, needs));
            }
            Command::Abort(step) => {
                self.say(format!("abort {}", self.id(step)));
                self.queue.retain(|(other, _)| *other != step);
                self.aborting.insert(step);
            }
            Command::Settle(resource) => {
                self.say(format!("settle {}", resource.name));
                let thing = &self.things[&resource];
                assert!(
                    thing.users.is_empty(),
                    "bug: {resource} settles while it is in use"
                );
                self.settling.insert(resource);
            }
            Command::Store {
                step,
                output,
                reads,
                supersedes,
                attempt,
            } => {
                let how = if supersedes { "store instead" } else { "store" };
                let left = output
                    .effects
                    .iter()
                    .map(|e| self.left_text(&e.resource, &e.after));
                self.say(format!(
                    "{how} {}{}",
                    self.id(step),
                    left.collect::<String>()
                ));
                let key = &self.plan.steps[step.at()].key;
                let trace = Trace {
                    fingerprint: key.fingerprint,
                    manifest: key.manifest.clone(),
                    reads,
                    output,
                    made: MadeBy {
                        attempt,
                        ..MadeBy::default()
                    },
                    log: Log::default(),
                };
                self.store
                    .traces
                    .borrow_mut()
                    .push((Arc::new(trace), supersedes, key.lineage));
            }
            Command::Retire(resource) => {
                self.say(format!("retire {}", resource.name));
                let thing = self.things.remove(&resource);
                assert!(
                    thing.is_none_or(|thing| thing.users.is_empty()),
                    "bug: {resource} is ended while it is in use"
                );
            }
            Command::Wake { step, after_ms } => {
                self.say(format!("wake {} after {after_ms} ms", self.id(step)));
                self.asleep.push(step);
            }
            Command::Tell(step, what) => {
                let id = self.id(step).to_owned();
                self.say(match what {
                    StepEvent::Deferred => format!("{id} deferred"),
                    StepEvent::Hit { .. } => format!("{id} hit"),
                    StepEvent::Dirty { because } => format!("{id} dirty: {}", because.join("; ")),
                    StepEvent::Started { .. } => return,
                    StepEvent::Finished {
                        same_output: true, ..
                    } => format!("{id} gave the same"),
                    StepEvent::Finished { .. } => format!("{id} finished"),
                    StepEvent::Failed { error, fatal, .. } => {
                        format!(
                            "{id} failed{}: {error}",
                            if fatal { "" } else { ", goes on" }
                        )
                    }
                    StepEvent::NotStored { why } => format!("{id} not stored: {why}"),
                    StepEvent::RolledBack { failed, attempt } => {
                        format!("{id} rolled back for {failed}, attempt {attempt}")
                    }
                    StepEvent::RetryRefused { why } => format!("{id} not retried: {why}"),
                    StepEvent::Aborted => format!("{id} aborted"),
                    StepEvent::Skipped => format!("{id} skipped"),
                    StepEvent::Provisioned { .. } => panic!("bug: the engine says so"),
                });
            }
            Command::Finish => {
                self.say("finish".to_owned());
                self.finished += 1;
                let idle = self.queue.is_empty() && self.running.is_empty();
                assert!(
                    idle && self.settling.is_empty(),
                    "bug: the end while something goes on"
                );
            }
        }
    }

    fn say(&mut self, what: String) {
        self.log.push(what);
    }

    fn need_text(&self, need: &Need) -> String {
        let state = self
            .state_of(&need.version)
            .map_or("?".to_owned(), |state| state.text());
        format!(" ({} {} {state})", need.how, need.resource.name)
    }

    fn left_text(&self, resource: &ResourceId, version: &Version) -> String {
        let state = self
            .state_of(version)
            .map_or("?".to_owned(), |state| state.text());
        format!(" (left {} {state})", resource.name)
    }

    fn state_of(&self, version: &Version) -> Option<State> {
        match version {
            Version::Created(digest) => {
                let made = self
                    .plan
                    .steps
                    .iter()
                    .zip(&self.task.steps)
                    .find(|(planned, _)| {
                        let output = planned.live.iter().flat_map(|output| &output.entries);
                        output.into_iter().any(|entry| entry.digest == *digest)
                    });
                made.map(|(_, step)| State::new(&step.field))
            }
            version => self.store.snapshots.borrow().get(version).cloned(),
        }
    }

    /// Gives the next step in the queue a slot.
    pub fn start_next(&mut self) {
        let Some((step, needs)) = self.queue.pop_front() else {
            return;
        };
        self.start(step, &needs);
    }

    fn start(&mut self, step: StepIx, needs: &[Need]) {
        for need in needs {
            let thing = self.things.get(&need.resource);
            let in_use = thing.is_some_and(|thing| thing.opened.is_some());
            let state = match need.how {
                Provision::Reuse if in_use => continue,
                Provision::Reuse => {
                    let log = || self.log.join("\n");
                    let thing = thing
                        .unwrap_or_else(|| panic!("bug: what is reused is not there\n{}", log()));
                    Some(thing.state.clone())
                }
                Provision::Create => self.state_of(&need.version),
                Provision::Restore | Provision::Replay
                    if self.store.gone.borrow().contains(&need.version) =>
                {
                    None
                }
                Provision::Restore | Provision::Replay => self.state_of(&need.version),
                Provision::Rerun => panic!("bug: a step is run with a need that nobody fills"),
            };
            assert!(
                need.how == Provision::Reuse || !in_use,
                "bug: {} is brought to another state while it is in use",
                need.resource
            );
            let at_version = |state: &State| match need.version {
                Version::Created(_) => Some(state) == self.state_of(&need.version).as_ref(),
                version => state.version() == version,
            };
            let Some(state) = state else {
                self.feed_end(step, Ended::Lost(need.resource.clone()));
                return;
            };
            assert!(
                at_version(&state),
                "bug: {} is not in the state that is reused",
                need.resource
            );
            if need.how != Provision::Reuse {
                self.n_provisioned += 1;
            }
            self.provision(&need.resource, state);
        }
        let mut running = Running {
            reads: Vec::new(),
            looked_up: Vec::new(),
            found: Vec::new(),
        };
        for (name, touch) in &self.task.steps[step.at()].touches {
            let resource = ResourceId::sandbox(name);
            if !matches!(touch, Touch::Creates | Touch::Retires) {
                self.look_up(step, Lookup::Sandbox(name.clone()), &mut running);
            }
            if let Some(thing) = self.things.get_mut(&resource)
                && needs.iter().any(|need| need.resource == resource)
            {
                thing.opened.get_or_insert_with(|| thing.state.clone());
                thing.users.insert(step);
                running.found.push((resource, thing.state.clone()));
            }
        }
        for key in &self.task.steps[step.at()].reads {
            self.look_up(step, Lookup::metadata(&[key]), &mut running);
        }
        self.started.push(self.id(step).to_owned());
        self.running.insert(step, running);
        self.feed(Input::Started(step));
    }

    fn provision(&mut self, resource: &ResourceId, state: State) {
        let thing = Thing {
            opened: None,
            state,
            users: BTreeSet::new(),
        };
        self.things.insert(resource.clone(), thing);
    }

    fn look_up(&self, step: StepIx, lookup: Lookup, running: &mut Running) {
        let answer = self
            .scheduler
            .outputs()
            .find(&self.plan.graph, step, &lookup);
        if let Some(value) = &answer.value
            && matches!(lookup, Lookup::Metadata(_))
        {
            running.looked_up.push(value.to_string());
        }
        running.reads.push(Read {
            key: ReadKey::Lookup(lookup),
            digest: answer.digest,
        });
    }

    fn is_in_group(&self, step: StepIx, resource: &ResourceId) -> bool {
        self.plan.group_of(step, resource).is_some()
    }

    fn leave(&mut self, step: StepIx, mut change: impl FnMut(&ResourceId, &mut State)) {
        let Some(running) = self.running.remove(&step) else {
            return;
        };
        for (resource, _) in running.found {
            let changes = self
                .plan
                .touch(step, &resource)
                .is_some_and(|touch| match touch {
                    Touch::Mutates => true,
                    Touch::MayMutate => self.task.steps[step.at()].really,
                    Touch::Creates | Touch::Observes | Touch::Retires => false,
                });
            if let Some(thing) = self.things.get_mut(&resource) {
                thing.users.remove(&step);
                if changes {
                    change(&resource, &mut thing.state);
                }
            }
        }
    }

    fn feed_end(&mut self, step: StepIx, ended: Ended) {
        self.aborting.remove(&step);
        for waiting in self.waiting.values_mut() {
            waiting.remove(&step);
        }
        self.feed(Input::Ended {
            step,
            ended,
            started_us: 0,
            took_us: 1,
        });
    }

    /// Ends a step well, with what it comes to.
    pub fn end_well(&mut self, step: StepIx) {
        let declared = self.task.steps[step.at()].clone();
        let running = &self.running[&step];
        let mut digester = Digester::new("result");
        digester.text(&declared.field);
        running.looked_up.iter().for_each(|value| {
            digester.text(value);
        });
        if declared.determinism != Determinism::Pure {
            self.chance += 1;
            digester.number(self.chance);
        }
        let mark = digester.finish().short()[..4].to_owned();
        for (resource, state) in &running.found {
            if !self.is_in_group(step, resource) {
                digester.text(&state.text());
            }
        }
        let result = digester.finish().short()[..6].to_owned();
        let entries = declared.writes.iter().map(|key| {
            Entry::data(
                Place::Set(vec![key.clone()]),
                json!(format!("{key}={result}")),
            )
        });
        let output = Output::of(entries.collect());
        let reads = running.reads.clone();
        let grouped: HashSet<ResourceId> = running
            .found
            .iter()
            .map(|(resource, _)| resource.clone())
            .filter(|resource| self.is_in_group(step, resource))
            .collect();
        self.leave(step, |resource, state| {
            if grouped.contains(resource) {
                state.mark(mark.clone());
            } else {
                *state = State {
                    base: result.clone(),
                    marks: Vec::new(),
                };
            }
        });
        self.feed_end(step, Ended::Output(output, reads));
    }

    /// Ends a step badly.
    pub fn end_badly(&mut self, step: StepIx) {
        let mark = format!("broken by {}", self.id(step));
        self.leave(step, |_, state| state.mark(mark.clone()));
        self.feed_end(step, Ended::Failed(StepError::new("no luck")));
    }

    /// Answers that a step that was called back has stopped.
    pub fn stop(&mut self, step: StepIx) {
        self.queue.retain(|(other, _)| *other != step);
        let mark = format!("broken by {}", self.id(step));
        self.leave(step, |_, state| state.mark(mark.clone()));
        self.feed_end(step, Ended::Aborted);
    }

    /// Ends a step as lost before it starts.
    pub fn lose(&mut self, step: StepIx, resource: &str) {
        self.queue.retain(|(other, _)| *other != step);
        self.things.remove(&ResourceId::sandbox(resource));
        self.feed_end(step, Ended::Lost(ResourceId::sandbox(resource)));
    }

    /// Takes the state of a resource.
    pub fn settle(&mut self, resource: &ResourceId) {
        self.settling.remove(resource);
        let thing = &self.things[resource];
        let state = thing.state.clone();
        let changed = thing.opened.as_ref().is_some_and(|opened| *opened != state);
        let version = state.version();
        self.store.snapshots.borrow_mut().insert(version, state);
        self.store.gone.borrow_mut().remove(&version);
        self.feed(Input::Settled {
            resource: resource.clone(),
            version,
            changed,
        });
    }

    /// Ends a wait before a retry.
    pub fn wake(&mut self, at: usize) {
        let step = self.asleep.remove(at);
        if self.finished == 0 {
            self.feed(Input::Woke(step));
        }
    }

    /// Returns what the outputs mean: digests, values without handles, and states.
    pub fn context(&self) -> Vec<String> {
        let of = |(step, planned): (StepIx, &PlannedStep)| {
            let output = self.scheduler.outputs().get(step);
            let entries = output
                .iter()
                .flat_map(|output| &output.entries)
                .map(|entry| {
                    let value = if planned.live.is_some() {
                        String::new()
                    } else {
                        entry.value.to_string()
                    };
                    format!(" {}{value}", entry.digest.short())
                });
            let effects = output.iter().flat_map(|output| &output.effects);
            let left = |effect: &Effect| format!(" ({})", effect.after.digest().short());
            let effects = effects.map(left);
            let all: Vec<String> = entries.chain(effects).collect();
            format!("{}:{}", planned.id, all.concat())
        };
        self.plan
            .graph
            .steps()
            .zip(&self.plan.steps)
            .map(of)
            .collect()
    }
}
