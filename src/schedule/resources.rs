//! Live things: who may use one now, and what its state is when nobody does.
//!
//! While steps use a resource there is a *window*: it opens at a version, and closes when the last of them ends. When
//! something in it could have changed the state, the state is taken ("settled") before the window closes. A change is
//! then put down to the one step that was there, or to the one group; where several unrelated steps were there, nobody
//! can tell who did it, and none of their results is kept.
//!
//! A window is *spoiled* when a step that may have changed the state in it is undone: nobody else may enter, whoever has
//! not started in it is called back, and the state that it leaves is no version that any step asks for.

use super::phase::Phase;
use super::state::Scheduler;
use super::{Command, Need};
use crate::graph::StepIx;
use crate::rebuild::{DirtyReason, Read, ReadKey};
use crate::resource::{Effect, Provision, ResourceId, Touch, Version};
use std::sync::Arc;

/// How often a step may have the makers of one state run again. More means that the state is lost each time before the
/// step can use it.
pub(super) const MOST_RERUNS: u32 = 3;

/// What is known of a live thing.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    /// The version that it is at; `None` where it is not live, or nobody knows.
    pub(super) version: Option<Version>,
    /// Whether a step has asked for it since it was last ended.
    pub(super) exists: bool,
    /// It is to be ended as soon as nobody uses it.
    pub(super) ending: bool,
    pub(super) window: Option<Window>,
    /// Steps that wait for the window to close.
    pub(super) held: Vec<StepIx>,
}

#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) id: u64,
    pub(super) base: Version,
    /// Whether the live thing is at the base for sure: it was when the window opened, or a step has started since.
    pub(super) reached: bool,
    /// All that entered.
    pub(super) entered: Vec<StepIx>,
    /// The group of all that entered, where it is one.
    pub(super) group: Option<usize>,
    /// Whether one that entered changes the state for sure.
    pub(super) mutates: bool,
    /// Those that were there and have left, each with its turn then; 0 where it was called back.
    pub(super) left: Vec<(StepIx, u64)>,
    pub(super) in_use: u32,
    pub(super) settling: bool,
    pub(super) tainted: bool,
    pub(super) spoiled: bool,
}

/// A resource as a step found it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) resource: ResourceId,
    pub(super) version: Version,
    /// The window in which the step uses it.
    pub(super) window: u64,
}

/// Who made a version.
#[derive(Clone, Copy, Debug)]
pub(super) enum Maker {
    Nobody,
    Step(StepIx),
    Group(usize),
}

pub(super) fn changes(touch: Touch) -> bool {
    matches!(touch, Touch::Mutates | Touch::MayMutate)
}

impl Scheduler<'_> {
    /// Starts a dirty step if its resources allow, else holds it.
    pub(super) fn try_start(&mut self, step: StepIx, reasons: Vec<DirtyReason>) {
        let plan = self.plan.clone();
        let mut needs: Vec<Need> = Vec::new();
        for (resource, touch) in &plan.steps[step.at()].touches {
            if matches!(touch, Touch::Creates | Touch::Retires) {
                continue;
            }
            let Some((version, maker)) = self.needed(step, resource) else {
                // Nothing deploys it: the step itself says so, in its own words.
                continue;
            };
            let live = self.live.entry(resource.clone()).or_default();
            if let Some(window) = &live.window {
                let one_group = window.group.is_some()
                    && window.group == self.world.groups.on(&plan, step, resource);
                let both_only_look = *touch != Touch::Mutates && !window.mutates;
                let open = !window.settling && !window.spoiled && !live.ending;
                if !open || window.base != version || !(one_group || both_only_look) {
                    live.held.push(step);
                    self.set(step, Phase::Held(reasons));
                    return;
                }
            }
            let warm = live.window.is_some() || live.version == Some(version);
            let (how, why) = if warm {
                (Provision::Reuse, None)
            } else {
                let is_kept =
                    !self.lost_versions.contains(&version) && self.snapshots.can_restore(&version);
                Provision::of(resource.kind, &version, is_kept)
            };
            if how == Provision::Rerun {
                let by_choice = why.filter(|_| version.is_kept_nowhere());
                self.rerun_maker(step, resource, maker, by_choice);
                return;
            }
            needs.push(Need {
                resource: resource.clone(),
                version,
                how,
                why,
            });
        }
        self.enter_windows(step, &needs);
        let by_force = reasons.iter().any(|reason| {
            matches!(
                reason,
                DirtyReason::Forced { .. }
                    | DirtyReason::RolledBack { .. }
                    | DirtyReason::StateLost { .. }
                    | DirtyReason::GroupMember { .. }
            )
        });
        let run = &mut self.steps[step.at()];
        run.attempt = run.rolled_back + 1;
        run.supersedes = by_force;
        run.unsettled = needs.len();
        run.unfit = None;
        run.started = 0;
        run.output = None;
        run.reads.clear();
        let attempt = run.attempt;
        self.set(step, Phase::Queued);
        self.commands.push(Command::Run {
            step,
            attempt,
            needs,
        });
    }

    fn enter_windows(&mut self, step: StepIx, needs: &[Need]) {
        let mut found = Vec::with_capacity(needs.len());
        for need in needs {
            let group = self.world.groups.on(&self.plan, step, &need.resource);
            let touch = self.plan.touch(step, &need.resource);
            let live = self.live.entry(need.resource.clone()).or_default();
            live.version = Some(need.version);
            live.exists = true;
            if live.window.is_none() {
                self.windows += 1;
                self.open_windows += 1;
            }
            let window = live.window.get_or_insert(Window {
                id: self.windows,
                base: need.version,
                reached: need.how == Provision::Reuse,
                entered: Vec::new(),
                group,
                mutates: false,
                left: Vec::new(),
                in_use: 0,
                settling: false,
                tainted: false,
                spoiled: false,
            });
            if window.group != group {
                window.group = None;
            }
            window.mutates |= touch == Some(Touch::Mutates);
            window.entered.push(step);
            window.in_use += 1;
            found.push(Found {
                resource: need.resource.clone(),
                version: need.version,
                window: window.id,
            });
        }
        self.steps[step.at()].at_start = found;
    }

    /// Returns the version at which a step needs a resource now, and who left it so.
    pub(super) fn needed(&self, step: StepIx, resource: &ResourceId) -> Option<(Version, Maker)> {
        let (version, by) = self.world.version_before(&self.plan, step, resource)?;
        if let Some(at) = self.world.groups.on(&self.plan, step, resource)
            && let Some(now) = self.world.group_now(at)
        {
            return Some((now, Maker::Group(at)));
        }
        let by = by.filter(|by| self.planned(*by).live.is_none());
        let maker = match by.map(|by| (by, self.world.groups.on(&self.plan, by, resource))) {
            None => Maker::Nobody,
            Some((_, Some(at))) => Maker::Group(at),
            Some((by, None)) => Maker::Step(by),
        };
        Some((version, maker))
    }

    /// Takes a step that ended out of the windows that it is in; `counts` where its result does.
    pub(super) fn leave_windows(&mut self, step: StepIx, counts: bool, taints: bool) {
        let run = &mut self.steps[step.at()];
        let was_there = run.started > 0;
        if !was_there {
            run.unsettled = 0;
        }
        let turn = if counts { run.turn } else { 0 };
        let found = run.at_start.clone();
        for Found {
            resource,
            window: id,
            ..
        } in found
        {
            let touch = self.plan.touch(step, &resource).unwrap_or(Touch::Observes);
            let Some(live) = self.live.get_mut(&resource) else {
                continue;
            };
            let Some(window) = live.window.as_mut().filter(|window| window.id == id) else {
                continue;
            };
            if was_there {
                window.left.push((step, turn));
                window.tainted |= taints && changes(touch);
            }
            window.in_use -= 1;
            if window.in_use > 0 {
                if !window.reached {
                    // The others count on it to bring the live thing to the base.
                    self.spoil(&resource, id);
                }
                continue;
            }
            if !window.reached {
                // Nobody knows how far it came towards the version that was asked for.
                live.version = None;
            }
            let may_have_changed = window
                .left
                .iter()
                .any(|(member, _)| self.plan.touch(*member, &resource).is_some_and(changes));
            window.settling = true;
            if may_have_changed && !live.ending {
                self.commands.push(Command::Settle(resource));
            } else {
                let base = window.base;
                self.settled(&resource, base, false);
            }
        }
    }

    /// Takes in the state of a resource that nobody uses any more.
    pub(super) fn settled(&mut self, resource: &ResourceId, version: Version, changed: bool) {
        let Some(live) = self.live.get_mut(resource) else {
            return;
        };
        let Some(window) = live.window.take_if(|window| window.settling) else {
            return;
        };
        self.open_windows -= 1;
        self.woken.extend(live.held.drain(..));
        if changed {
            live.version = Some(version);
            self.lost_versions.remove(&version);
        }
        if live.ending {
            *live = Live::default();
            self.commands.push(Command::Retire(resource.clone()));
        }
        if changed {
            self.attribute(resource, &window, version);
        }
        for (member, turn) in window.left {
            let run = &mut self.steps[member.at()];
            if run.turn != turn {
                continue;
            }
            run.unsettled = run.unsettled.saturating_sub(1);
            if run.unsettled == 0 && run.phase == Phase::Settling {
                self.complete(member);
            }
        }
    }

    /// Puts a change of state down to a step or a group.
    fn attribute(&mut self, resource: &ResourceId, window: &Window, version: Version) {
        let plan = self.plan.clone();
        let effect = Effect {
            resource: resource.clone(),
            after: version,
        };
        let alone = window.left.len() == 1;
        let mut groups = window
            .left
            .iter()
            .map(|(member, _)| self.world.groups.on(&plan, *member, resource));
        let group = groups
            .next()
            .flatten()
            .filter(|at| groups.all(|other| other == Some(*at)));
        let unfit = if alone {
            None
        } else if window.tainted || window.spoiled {
            Some(format!(
                "a step that failed changed {resource} at the same time"
            ))
        } else if group.is_none() {
            let names: Vec<String> = window
                .left
                .iter()
                .map(|(member, _)| format!("`{}`", plan.steps[member.at()].id))
                .collect();
            Some(format!(
                "{resource} changed while {} ran at the same time, so nobody can tell who did it; \
                 add `depends_on` between them",
                names.join(", ")
            ))
        } else {
            None
        };
        let mut any_counts = false;
        for &(member, turn) in &window.left {
            if self.steps[member.at()].turn != turn {
                continue;
            }
            if let Some(unfit) = &unfit {
                self.steps[member.at()]
                    .unfit
                    .get_or_insert_with(|| unfit.clone());
            }
            if plan.touch(member, resource).is_some_and(changes) {
                any_counts = true;
                self.world.add_effect(member, &effect);
                self.add_to_output(member, &effect);
            }
        }
        if let Some(at) = group
            && any_counts
            && !window.spoiled
        {
            self.world.set_group_now(at, Some(version));
        }
    }

    pub(super) fn add_to_output(&mut self, step: StepIx, effect: &Effect) {
        if let Some(output) = &mut self.steps[step.at()].output {
            let output = Arc::make_mut(output);
            output
                .effects
                .retain(|other| other.resource != effect.resource);
            output.effects.push(effect.clone());
            // Which resource is settled first is chance.
            output.effects.sort_by(|a, b| a.resource.cmp(&b.resource));
        }
    }

    /// Returns the reads that stand for the states and groups that a step depended on.
    pub(super) fn state_reads(&self, step: StepIx) -> Vec<Read> {
        let mut reads = Vec::new();
        for Found {
            resource, version, ..
        } in &self.steps[step.at()].at_start
        {
            match self.world.groups.on(&self.plan, step, resource) {
                Some(at) => {
                    let before = self.world.version_before(&self.plan, step, resource);
                    let digest = before.map(|(version, _)| version.digest());
                    reads.push(Read {
                        key: ReadKey::State(resource.clone()),
                        digest,
                    });
                    reads.push(Read {
                        key: ReadKey::Group(resource.clone()),
                        digest: Some(self.world.groups.digest(at)),
                    });
                }
                None => reads.push(Read {
                    key: ReadKey::State(resource.clone()),
                    digest: Some(version.digest()),
                }),
            }
        }
        reads
    }
}
