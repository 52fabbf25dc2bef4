//! The forecast: what will hit, what must run and why, and how live things get to the state that is needed.
//!
//! *Verify* goes down the list; *demand* goes back up, as liveness does in a compiler: a dirty step needs its resources
//! at a version, and where no rung but "rerun" gives that version, the steps that made it become dirty too.

use std::collections::HashMap;

use super::groups::Groups;
use super::world::World;
use super::{Need, Snapshots, StepPart, TaskPlan};
use crate::digest::Digest;
use crate::graph::{Edges, StepIx};
use crate::rebuild::{DirtyReason, Trace, Verdict};
use crate::resource::{Provision, ResourceId, Touch};
use std::sync::Arc;

/// What is foreseen for a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Forecasted {
    /// A kept result stands in.
    Hit(Arc<Trace>),
    /// It must run.
    Dirty(Vec<DirtyReason>),
    /// An ancestor must run; whether this one must depends on what that gives.
    Waits {
        /// The nearest such ancestor in list order.
        on: StepIx,
    },
    /// It only provides a live thing.
    Deferred,
    /// The command line leaves it out.
    LeftOut,
}

/// What is foreseen for a task.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// For each step, in list order.
    pub steps: Vec<Forecasted>,
    /// For each dirty step whose needs are known, what it needs.
    pub needs: HashMap<StepIx, Vec<Need>>,
    /// Steps whose results are kept, but which must run because a state that they made is lost.
    pub lost: HashMap<StepIx, DirtyReason>,
}

impl Forecast {
    /// Returns whether any step will or may run.
    pub fn may_run(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, Forecasted::Dirty(_) | Forecasted::Waits { .. }))
    }
}

/// Foresees a task.
pub fn forecast(plan: &TaskPlan, snapshots: &dyn Snapshots) -> Forecast {
    let groups = Arc::new(Groups::of(plan));
    let mut lost: HashMap<StepIx, DirtyReason> = HashMap::new();
    loop {
        let (steps, world) = verify_down(plan, &groups, &lost);
        let before = lost.len();
        let needs = demand_up(plan, snapshots, &steps, &world, &mut lost);
        if lost.len() == before {
            return Forecast { steps, needs, lost };
        }
    }
}

/// For each cluster of groups of which a member will or may run, that member, and whether it is sure to.
type DirtyClusters = HashMap<usize, (StepIx, bool)>;

fn verify_down(
    plan: &TaskPlan,
    groups: &Arc<Groups>,
    lost: &HashMap<StepIx, DirtyReason>,
) -> (Vec<Forecasted>, World) {
    let mut dirty: DirtyClusters = HashMap::new();
    let mut pins = Pins::default();
    loop {
        pins.hit.clear();
        pins.moved = false;
        let mut world = World::new(plan, groups.clone());
        let mut steps: Vec<Forecasted> = Vec::with_capacity(plan.steps.len());
        let mut unsure = Unsure::default();
        let mut next = dirty.clone();
        for step in plan.graph.steps() {
            let planned = &plan.steps[step.at()];
            let foreseen = if planned.part == StepPart::LeftOut {
                Forecasted::LeftOut
            } else if let Some(output) = &planned.live {
                world.add(step, output.clone());
                Forecasted::Deferred
            } else if let Some(reason) = lost.get(&step) {
                Forecasted::Dirty(vec![reason.clone()])
            } else {
                verify_one(
                    plan,
                    &world,
                    step,
                    unsure.before(plan, step),
                    &dirty,
                    &mut pins,
                )
            };
            let sure = match &foreseen {
                Forecasted::Hit(trace) => {
                    world.add(step, trace.output.clone());
                    None
                }
                Forecasted::Dirty(_) => Some(true),
                Forecasted::Waits { .. } => Some(false),
                Forecasted::Deferred | Forecasted::LeftOut => None,
            };
            if let Some(sure) = sure
                && let Some(at) = groups.cluster_of(step)
            {
                let known = next.entry(at).or_insert((step, sure));
                if sure && !known.1 {
                    *known = (step, true);
                }
            }
            unsure.push(plan, step, &foreseen);
            steps.push(foreseen);
        }
        if next == dirty && !pins.moved {
            return (steps, world);
        }
        dirty = next;
    }
}

/// For each step so far, the last step among it and its ancestors that will or may run.
#[derive(Default)]
struct Unsure {
    by_step: Vec<Option<StepIx>>,
    last: Option<StepIx>,
}

impl Unsure {
    fn before(&self, plan: &TaskPlan, step: StepIx) -> Option<StepIx> {
        match plan.graph.edges(step) {
            Edges::Earlier => self.last,
            Edges::Steps(on) => on.iter().filter_map(|on| self.by_step[on.at()]).max(),
        }
    }

    fn push(&mut self, plan: &TaskPlan, step: StepIx, foreseen: &Forecasted) {
        let own = matches!(foreseen, Forecasted::Dirty(_) | Forecasted::Waits { .. });
        let unsure = if own {
            Some(step)
        } else {
            self.before(plan, step)
        };
        if own {
            self.last = Some(step);
        }
        self.by_step.push(unsure);
    }
}

/// Which run of each cluster stands in.
#[derive(Default)]
struct Pins {
    by_cluster: HashMap<usize, Digest>,
    /// The members that hit so far.
    hit: HashMap<usize, Vec<StepIx>>,
    /// Whether members that hit before must be looked at again.
    moved: bool,
    n_moves: usize,
}

impl Pins {
    fn verify(&mut self, plan: &TaskPlan, world: &World, step: StepIx) -> Verdict {
        let Some(cluster) = world.groups.cluster_of(step) else {
            return world.verify(plan, step, None);
        };
        let hit = self.hit.entry(cluster).or_default();
        let mut verdict = world.verify(plan, step, self.by_cluster.get(&cluster).copied());
        // Each move takes in at least one more step, so this many are enough for all to agree.
        let may_move = self.n_moves < 2 * plan.steps.len();
        if let Verdict::Dirty(_) = verdict
            && self.by_cluster.contains_key(&cluster)
        {
            verdict = match world.common_run(plan, step, hit).filter(|_| may_move) {
                Some(run) => {
                    self.by_cluster.insert(cluster, run);
                    self.n_moves += 1;
                    self.moved |= !hit.is_empty();
                    world.verify(plan, step, Some(run))
                }
                None => match (world.verify(plan, step, None), hit.first()) {
                    (Verdict::Hit(_), Some(other)) => {
                        Verdict::Dirty(vec![world.groups.reason(plan, step, *other)])
                    }
                    (verdict, _) => verdict,
                },
            };
        }
        if let Verdict::Hit(trace) = &verdict {
            hit.push(step);
            if let Some(run) = trace.group_run() {
                self.by_cluster.insert(cluster, run);
            }
        }
        verdict
    }
}

fn verify_one(
    plan: &TaskPlan,
    world: &World,
    step: StepIx,
    waits_on: Option<StepIx>,
    dirty: &DirtyClusters,
    pins: &mut Pins,
) -> Forecasted {
    let planned = &plan.steps[step.at()];
    let mut verdict = pins.verify(plan, world, step);
    let mut waits_on = waits_on;
    if let Verdict::Hit(_) = verdict {
        let cluster = world.groups.cluster_of(step);
        match cluster.and_then(|at| dirty.get(&at)) {
            Some(&(other, true)) => {
                verdict = Verdict::Dirty(vec![world.groups.reason(plan, step, other)]);
            }
            Some(&(other, false)) => waits_on = waits_on.or(Some(other)),
            None => {}
        }
    }
    match (verdict, waits_on) {
        (Verdict::Hit(trace), None) => Forecasted::Hit(trace),
        (Verdict::Dirty(reasons), None) => Forecasted::Dirty(reasons),
        // With a trace under this very fingerprint, what the ancestor gives decides.
        (_, Some(on)) if !planned.candidates.is_empty() && planned.forced.is_none() => {
            Forecasted::Waits { on }
        }
        (Verdict::Dirty(mut reasons), Some(_)) => {
            // What it would look up is not there yet.
            let is_read = |reason: &DirtyReason| matches!(reason, DirtyReason::ReadChanged { .. });
            if !reasons.iter().all(is_read) {
                reasons.retain(|reason| !is_read(reason));
            }
            Forecasted::Dirty(reasons)
        }
        (Verdict::Hit(_), Some(on)) => Forecasted::Waits { on },
    }
}

/// Finds how each resource gets to the version that a dirty step needs, from the last step up: a maker whose state is
/// lost joins the dirty steps, and needs something in its turn.
fn demand_up(
    plan: &TaskPlan,
    snapshots: &dyn Snapshots,
    steps: &[Forecasted],
    world: &World,
    lost: &mut HashMap<StepIx, DirtyReason>,
) -> HashMap<StepIx, Vec<Need>> {
    let runs = |step: StepIx| {
        matches!(
            steps[step.at()],
            Forecasted::Dirty(_) | Forecasted::Waits { .. }
        )
    };
    let mut mutators: HashMap<&ResourceId, Vec<StepIx>> = HashMap::new();
    for step in plan.graph.steps().filter(|step| runs(*step)) {
        for (resource, touch) in &plan.steps[step.at()].touches {
            if matches!(touch, Touch::Mutates | Touch::MayMutate) {
                mutators.entry(resource).or_default().push(step);
            }
        }
    }
    let mut needs: HashMap<StepIx, Vec<Need>> = HashMap::new();
    for step in plan.graph.steps().rev() {
        // Of a step that may yet hit nothing is demanded.
        if !matches!(steps[step.at()], Forecasted::Dirty(_)) && !lost.contains_key(&step) {
            continue;
        }
        for (resource, touch) in &plan.steps[step.at()].touches {
            if matches!(touch, Touch::Creates | Touch::Retires) {
                continue;
            }
            // A step that runs before it leaves the resource warm, at a version that only the run will tell.
            let mut before = mutators.get(resource).into_iter().flatten().rev();
            if before.any(|&other| plan.graph.is_ancestor(other, step)) {
                continue;
            }
            let Some((version, made_by)) = world.version_before(plan, step, resource) else {
                continue;
            };
            let (how, why) =
                Provision::of(resource.kind, &version, snapshots.can_restore(&version));
            let by_choice = why.filter(|_| version.is_kept_nowhere());
            let need = Need {
                resource: resource.clone(),
                version,
                how,
                why,
            };
            needs.entry(step).or_default().push(need);
            let Some(maker) = made_by.filter(|_| how == Provision::Rerun) else {
                continue;
            };
            let reason = DirtyReason::StateLost {
                resource: resource.clone(),
                needed_by: plan.steps[step.at()].id.clone(),
                why: by_choice,
            };
            let makers = match world.groups.on(plan, maker, resource) {
                Some(at) => &plan.groups[at].members[..],
                None => &[maker],
            };
            for &maker in makers {
                let planned = &plan.steps[maker.at()];
                if planned.live.is_none() && planned.part != StepPart::LeftOut {
                    lost.entry(maker).or_insert_with(|| reason.clone());
                }
            }
        }
    }
    needs
}
