//! The state of a task while it runs, and how each input moves it on.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::groups::Groups;
use super::phase::{Done, Phase, TaskEnd, is_moving};
use super::resources::{Found, Live};
use super::world::World;
use super::{Command, Ended, Input, PlannedStep, Snapshots, StepPart, TaskPlan};
use crate::context::{Entry, Output, Outputs};
use crate::digest::Digest;
use crate::event::StepEvent;
use crate::graph::{Edges, StepIx};
use crate::json::Value;
use crate::rebuild::{DirtyReason, Read, Verdict};
use crate::resource::{ResourceId, Touch, Version};
use crate::step::StepError;
use crate::task::OnError;

/// What is kept of a step while the task runs.
#[derive(Clone, Debug)]
pub(super) struct StepRun {
    pub(super) phase: Phase,
    pub(super) attempt: u32,
    /// How often a retry took it back.
    pub(super) rolled_back: u32,
    /// Another one each time that the step is undone: what was begun before counts no more.
    pub(super) turn: u64,
    pub(super) forced: Option<Vec<DirtyReason>>,
    pub(super) output: Option<Arc<Output>>,
    pub(super) reads: Vec<Read>,
    /// Its resources, as it found them.
    pub(super) at_start: Vec<Found>,
    pub(super) unsettled: usize,
    /// Why its result is not to be kept.
    pub(super) unfit: Option<String>,
    /// Whether it took the place of a hit, a forced run or an earlier attempt.
    pub(super) supersedes: bool,
    /// When it started and ended, in inputs since the task began; 0 where it did not, or was undone since.
    pub(super) started: u64,
    pub(super) ended: u64,
    pub(super) took_us: u64,
    /// It failed, its task goes on, and the state that it left is being taken.
    pub(super) tolerated: bool,
}

/// One failure as `failed_steps` records it.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) step: StepIx,
    pub(super) error: StepError,
    pub(super) started_us: i64,
    pub(super) took_us: u64,
    pub(super) fatal: bool,
    pub(super) retried: bool,
}

/// Decides what must happen next in one task.
pub struct Scheduler<'s> {
    pub(super) plan: Arc<TaskPlan>,
    pub(super) snapshots: &'s dyn Snapshots,
    pub(super) world: World,
    pub(super) steps: Vec<StepRun>,
    pub(super) live: HashMap<ResourceId, Live>,
    /// How many windows there were, and how many of them are open.
    pub(super) windows: u64,
    pub(super) open_windows: usize,
    /// For each cluster, the first of its members that had to run.
    pub(super) cluster_dirty: Vec<Option<StepIx>>,
    /// For each cluster, the run whose traces stand in.
    pub(super) pins: Vec<Option<Digest>>,
    pub(super) lost_versions: HashSet<Version>,
    /// How often a step had the makers of a lost state run again.
    pub(super) reruns: HashMap<StepIx, u32>,
    pub(super) turns: u64,
    pub(super) failures: Vec<Failure>,
    pub(super) resets: Vec<Value>,
    pub(super) retries_used: HashMap<StepIx, u32>,
    /// Whether no step is tried again.
    pub(super) no_retries: bool,
    /// How many waits before a retry are not over.
    pub(super) asleep: HashMap<StepIx, u32>,
    pub(super) commands: Vec<Command>,
    ready: BTreeSet<StepIx>,
    /// Held steps whose window has closed.
    pub(super) woken: BTreeSet<StepIx>,
    /// For each cluster of groups, how many of its members ran well.
    pub(super) cluster_ran: Vec<usize>,
    pub(super) closed: Option<TaskEnd>,
    /// Steps that the author changed meanwhile, and what waits for them.
    pub(super) outdated: BTreeSet<StepIx>,
    /// Whether a step did not run, or not to its end, since it is outdated.
    pub(super) is_cut: bool,
    pub(super) now: u64,
    dependents: Vec<Vec<StepIx>>,
    remaining: Vec<u32>,
    earlier: Vec<StepIx>,
    next_earlier: usize,
    done_prefix: usize,
    unfinished: usize,
    moving: usize,
    finished: bool,
}

impl<'s> Scheduler<'s> {
    /// Returns the scheduler of a task; `lost` are the steps that the forecast found to be needed for a lost state.
    pub fn new(
        plan: Arc<TaskPlan>,
        snapshots: &'s dyn Snapshots,
        lost: &HashMap<StepIx, DirtyReason>,
    ) -> Self {
        let n = plan.steps.len();
        let mut dependents = vec![Vec::new(); n];
        let mut earlier = Vec::new();
        for step in plan.graph.steps() {
            match plan.graph.edges(step) {
                Edges::Earlier => earlier.push(step),
                Edges::Steps(on) => on.iter().for_each(|on| dependents[on.at()].push(step)),
            }
        }
        let fresh = StepRun {
            phase: Phase::Waiting,
            attempt: 0,
            rolled_back: 0,
            turn: 1,
            forced: None,
            output: None,
            reads: Vec::new(),
            at_start: Vec::new(),
            unsettled: 0,
            unfit: None,
            supersedes: false,
            started: 0,
            ended: 0,
            took_us: 0,
            tolerated: false,
        };
        let groups = Arc::new(Groups::of(&plan));
        let mut scheduler = Scheduler {
            cluster_dirty: vec![None; groups.clusters().len()],
            pins: vec![None; groups.clusters().len()],
            cluster_ran: vec![0; groups.clusters().len()],
            world: World::new(&plan, groups),
            snapshots,
            steps: vec![fresh; n],
            live: HashMap::new(),
            windows: 0,
            open_windows: 0,
            lost_versions: HashSet::new(),
            reruns: HashMap::new(),
            turns: 1,
            failures: Vec::new(),
            resets: Vec::new(),
            retries_used: HashMap::new(),
            no_retries: false,
            asleep: HashMap::new(),
            commands: Vec::new(),
            ready: BTreeSet::new(),
            woken: BTreeSet::new(),
            closed: None,
            outdated: BTreeSet::new(),
            is_cut: false,
            now: 0,
            dependents,
            remaining: vec![0; n],
            earlier,
            next_earlier: 0,
            done_prefix: 0,
            unfinished: n,
            moving: 0,
            finished: false,
            plan,
        };
        for (&step, reason) in lost {
            scheduler.steps[step.at()].forced = Some(vec![reason.clone()]);
        }
        scheduler.mark_forced_groups();
        scheduler.recount();
        scheduler
    }

    /// Takes in what happened, and returns what to do.
    pub fn on(&mut self, input: Input) -> Vec<Command> {
        self.now += 1;
        match input {
            Input::Begin => {}
            Input::Started(step) => self.started(step),
            Input::Ended {
                step,
                ended,
                started_us,
                took_us,
            } => {
                self.ended(step, ended, started_us, took_us);
            }
            Input::Settled {
                resource,
                version,
                changed,
            } => {
                self.settled(&resource, version, changed);
            }
            Input::Woke(step) => self.woke(step),
            Input::Outdated(steps) => self.outdate(&steps),
            Input::Cancel if self.finished => {}
            Input::Cancel => self.close(TaskEnd::Cancelled),
        }
        self.advance();
        std::mem::take(&mut self.commands)
    }

    /// Returns whether it is settled how the task ends, although something of it still goes on.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Has no step tried again from now on: what failed would fail for the same reason.
    pub fn forbid_retries(&mut self) {
        self.no_retries = true;
    }

    /// Returns the outputs so far.
    pub fn outputs(&self) -> &Outputs {
        &self.world.outputs
    }

    /// Returns where a step is.
    pub fn phase(&self, step: StepIx) -> &Phase {
        &self.steps[step.at()].phase
    }

    /// Returns what the scheduler itself adds to the context: `failed_steps` and `retry_resets`.
    pub fn entries(&self) -> Vec<Entry> {
        self.failure_entries()
    }

    /// Returns how the task ended, and the failure that it ended with.
    pub fn end(&self) -> (TaskEnd, Option<String>) {
        let mut texts: Vec<String> = Vec::new();
        for failure in self.failures.iter().filter(|failure| !failure.retried) {
            let id = &self.plan.steps[failure.step.at()].id;
            texts.push(format!("step `{id}`: {}", failure.error));
        }
        let text = (!texts.is_empty()).then(|| format!("failed at {}", texts.join("; ")));
        match &self.closed {
            Some(TaskEnd::Cancelled) => (TaskEnd::Cancelled, text),
            Some(TaskEnd::Failed | TaskEnd::Well) => (TaskEnd::Failed, text),
            None if text.is_some() => (TaskEnd::Failed, text),
            None if self.is_cut => (TaskEnd::Cancelled, None),
            None => (TaskEnd::Well, None),
        }
    }

    pub(super) fn planned(&self, step: StepIx) -> &PlannedStep {
        &self.plan.steps[step.at()]
    }

    /// The one way by which a step changes its phase.
    pub(super) fn set(&mut self, step: StepIx, phase: Phase) {
        let was_done = matches!(self.steps[step.at()].phase, Phase::Done(_));
        let is_done = matches!(phase, Phase::Done(_));
        match (was_done, is_done) {
            (false, true) => self.unfinished -= 1,
            (true, false) => self.unfinished += 1,
            _ => {}
        }
        match (is_moving(&self.steps[step.at()].phase), is_moving(&phase)) {
            (false, true) => self.moving += 1,
            (true, false) => self.moving -= 1,
            _ => {}
        }
        if let Some(cluster) = self.world.groups.cluster_of(step) {
            let ran = Phase::Done(Done::Ran);
            match (self.steps[step.at()].phase == ran, phase == ran) {
                (false, true) => self.cluster_ran[cluster] += 1,
                (true, false) => self.cluster_ran[cluster] -= 1,
                _ => {}
            }
        }
        self.steps[step.at()].phase = phase;
    }

    /// Members of a cluster of which one must run in any case shall not hit first.
    fn mark_forced_groups(&mut self) {
        let groups = self.world.groups.clone();
        for (at, cluster) in groups.clusters().iter().enumerate() {
            let forced = |step: &&StepIx| {
                self.steps[step.at()].forced.is_some() || self.planned(**step).forced.is_some()
            };
            self.cluster_dirty[at] = cluster.members.iter().find(forced).copied();
        }
    }

    pub(super) fn is_left_out(&self, step: StepIx) -> bool {
        self.planned(step).part == StepPart::LeftOut
    }

    fn woke(&mut self, step: StepIx) {
        let waits = self.asleep.entry(step).or_insert(1);
        *waits = waits.saturating_sub(1);
        if *waits == 0 && self.phase(step) == &Phase::Asleep {
            self.set(step, Phase::Waiting);
            self.wait_again(step);
        }
    }

    /// Returns whether all that a step waits for is over.
    pub(super) fn is_ready(&self, step: StepIx) -> bool {
        match self.plan.graph.edges(step) {
            Edges::Earlier => step.at() <= self.done_prefix,
            Edges::Steps(_) => self.remaining[step.at()] == 0,
        }
    }

    /// Puts a step that waits again among those that are ready, where it is.
    pub(super) fn wait_again(&mut self, step: StepIx) {
        if self.is_ready(step) {
            self.ready.insert(step);
        }
    }

    pub(super) fn tell(&mut self, step: StepIx, what: StepEvent) {
        self.commands.push(Command::Tell(step, what));
    }

    fn is_released(&self, step: StepIx) -> bool {
        matches!(
            self.phase(step),
            Phase::Done(Done::Hit | Done::Ran | Done::Deferred | Done::Tolerated)
        )
    }

    /// Counts anew who waits for whom; after a retry has set steps back.
    pub(super) fn recount(&mut self) {
        for step in self.plan.graph.steps() {
            self.remaining[step.at()] = match self.plan.graph.edges(step) {
                Edges::Earlier => 0,
                Edges::Steps(on) => on.iter().filter(|on| !self.is_released(**on)).count() as u32,
            };
        }
        self.done_prefix = 0;
        self.next_earlier = 0;
        self.ready.clear();
        for step in self.plan.graph.steps() {
            let explicit = matches!(self.plan.graph.edges(step), Edges::Steps(_));
            if explicit && self.remaining[step.at()] == 0 && self.phase(step) == &Phase::Waiting {
                self.ready.insert(step);
            }
        }
        self.move_prefix();
    }

    fn move_prefix(&mut self) {
        while self.done_prefix < self.steps.len()
            && self.is_released(StepIx(self.done_prefix as u32))
        {
            self.done_prefix += 1;
        }
        while let Some(&step) = self.earlier.get(self.next_earlier) {
            if step.at() > self.done_prefix {
                break;
            }
            self.next_earlier += 1;
            if self.phase(step) == &Phase::Waiting {
                self.ready.insert(step);
            }
        }
    }

    /// Marks a step as over and lets those go that waited for it.
    pub(super) fn release(&mut self, step: StepIx, done: Done) {
        self.set(step, Phase::Done(done));
        for at in 0..self.dependents[step.at()].len() {
            let next = self.dependents[step.at()][at];
            self.remaining[next.at()] = self.remaining[next.at()].saturating_sub(1);
            if self.remaining[next.at()] == 0 && self.phase(next) == &Phase::Waiting {
                self.ready.insert(next);
            }
        }
        self.move_prefix();
    }

    fn advance(&mut self) {
        loop {
            if let Some(step) = self.woken.pop_first() {
                if let Phase::Held(reasons) = self.phase(step).clone() {
                    self.try_start(step, reasons);
                }
            } else if let Some(step) = self.ready.pop_first() {
                if self.phase(step) == &Phase::Waiting {
                    self.decide(step);
                }
            } else {
                break;
            }
        }
        if !self.finished && self.moving == 0 && self.open_windows == 0 {
            self.skip_the_rest();
            self.finished = true;
            self.commands.push(Command::Finish);
        }
    }

    fn skip_the_rest(&mut self) {
        if self.unfinished == 0 {
            return;
        }
        for step in self.plan.graph.steps() {
            if matches!(
                self.phase(step),
                Phase::Waiting | Phase::Held(_) | Phase::Asleep
            ) {
                self.set(step, Phase::Done(Done::Skipped));
                if !self.is_left_out(step) {
                    self.tell(step, StepEvent::Skipped);
                }
            }
        }
    }

    fn decide(&mut self, step: StepIx) {
        let planned = self.planned(step);
        if planned.part == StepPart::LeftOut {
            self.set(step, Phase::Done(Done::Skipped));
            return;
        }
        if self.outdated.contains(&step) {
            return self.leave_undone(step);
        }
        if let Some(output) = planned.live.clone() {
            self.defer(step, output);
            return;
        }
        let verdict = match &self.steps[step.at()].forced {
            Some(reasons) => Verdict::Dirty(reasons.clone()),
            None => match self.group_verdict(step) {
                Some(verdict) => verdict,
                None => return,
            },
        };
        match verdict {
            Verdict::Hit(trace) => {
                self.world.add(step, trace.output.clone());
                self.steps[step.at()].output = Some(trace.output.clone());
                self.tell(
                    step,
                    StepEvent::Hit {
                        made_by: trace.made.run.clone(),
                        took_us: trace.made.took_us,
                    },
                );
                self.release(step, Done::Hit);
            }
            Verdict::Dirty(reasons) => {
                if self.planned(step).part == StepPart::CachedOnly {
                    let why: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                    self.fail_unstarted(step, format!("it would run: {}", why.join("; ")));
                    return;
                }
                let because = reasons.iter().map(ToString::to_string).collect();
                self.tell(step, StepEvent::Dirty { because });
                if self.recall_group(step) {
                    self.try_start(step, reasons);
                } else {
                    self.steps[step.at()].forced = Some(reasons);
                }
            }
        }
    }

    fn defer(&mut self, step: StepIx, output: Arc<Output>) {
        let retired: Vec<ResourceId> = self
            .planned(step)
            .touches
            .iter()
            .filter(|(_, touch)| *touch == Touch::Retires)
            .map(|(resource, _)| resource.clone())
            .collect();
        for resource in retired {
            self.retire(&resource);
        }
        self.world.add(step, output.clone());
        self.steps[step.at()].output = Some(output);
        self.tell(step, StepEvent::Deferred);
        self.release(step, Done::Deferred);
    }

    fn started(&mut self, step: StepIx) {
        match self.phase(step) {
            Phase::Queued => self.set(step, Phase::Running),
            // It was called back too late: it is there, and may change something.
            Phase::Aborting => {}
            _ => return,
        }
        self.steps[step.at()].started = self.now;
        self.reach_windows(step);
        let attempt = self.steps[step.at()].attempt;
        self.tell(step, StepEvent::Started { attempt });
    }

    fn ended(&mut self, step: StepIx, ended: Ended, started_us: i64, took_us: u64) {
        let called_back = self.phase(step) == &Phase::Aborting;
        if !called_back && !matches!(self.phase(step), Phase::Queued | Phase::Running) {
            return;
        }
        let run = &mut self.steps[step.at()];
        run.ended = self.now;
        run.took_us = took_us;
        match ended {
            Ended::Lost(_) if !called_back => {
                // It never got what it needs, so it did nothing.
                run.started = 0;
                self.set(step, Phase::Waiting);
            }
            Ended::Aborted if !called_back => self.set(step, Phase::Aborting),
            _ => {}
        }
        let taints = called_back || !matches!(ended, Ended::Output(..));
        self.leave_windows(step, !called_back, taints);
        if called_back {
            self.tell(step, StepEvent::Aborted);
            self.after_abort(step);
            return;
        }
        match ended {
            Ended::Output(output, reads) => {
                self.steps[step.at()].output = Some(Arc::new(output));
                self.steps[step.at()].reads = reads;
                self.set(step, Phase::Settling);
                if self.steps[step.at()].unsettled == 0 {
                    self.complete(step);
                }
            }
            Ended::Failed(error) => {
                self.set(step, Phase::Settling);
                self.failed(step, error, started_us, took_us);
            }
            Ended::Aborted => {
                self.tell(step, StepEvent::Aborted);
                self.set(step, Phase::Done(Done::Skipped));
                self.close(TaskEnd::Cancelled);
            }
            Ended::Lost(resource) => self.lost(step, &resource),
        }
    }

    pub(super) fn on_error(&self, step: StepIx) -> OnError {
        self.planned(step).on_error
    }

    /// Starts no further step; what runs goes on, unless the user wants to stop.
    pub(super) fn close(&mut self, end: TaskEnd) {
        let cancels = end == TaskEnd::Cancelled;
        if self.closed.is_some() && (!cancels || self.closed == Some(TaskEnd::Cancelled)) {
            return;
        }
        self.closed = Some(end);
        for step in self.plan.graph.steps() {
            let stop = match self.phase(step) {
                Phase::Queued => true,
                Phase::Running => cancels,
                _ => false,
            };
            if stop {
                self.call_back(step);
            }
        }
        self.skip_the_rest();
    }
}
