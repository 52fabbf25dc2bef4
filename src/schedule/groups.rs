//! Groups: which ones a step is in, which ones are kept together because they share a member, and how their members hit,
//! run and are kept as one.
//!
//! Members hit with traces of one and the same run of theirs: what one left says nothing without the others.

use super::TaskPlan;
use super::phase::{Done, Phase};
use super::resources::changes;
use super::state::Scheduler;
use crate::digest::{Digest, Digester};
use crate::graph::StepIx;
use crate::rebuild::{DirtyReason, Verdict};
use crate::resource::{Effect, ResourceId};

/// The groups of a plan, found by step.
#[derive(Debug)]
pub(super) struct Groups {
    of_step: Vec<Vec<usize>>,
    cluster_of: Vec<Option<usize>>,
    clusters: Vec<Cluster>,
    digests: Vec<Digest>,
}

/// Groups that share members, directly or not: their results are kept all together or not at all.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) groups: Vec<usize>,
    /// The members that run, in list order; a step that only provides a live thing is none.
    pub(super) members: Vec<StepIx>,
}

impl Groups {
    /// Returns the groups of a plan.
    pub(super) fn of(plan: &TaskPlan) -> Self {
        let mut of_step = vec![Vec::new(); plan.steps.len()];
        for (at, group) in plan.groups.iter().enumerate() {
            for member in &group.members {
                of_step[member.at()].push(at);
            }
        }
        let mut groups = Groups {
            of_step,
            cluster_of: vec![None; plan.steps.len()],
            clusters: Vec::new(),
            digests: plan
                .groups
                .iter()
                .map(|group| plan.group_digest(group))
                .collect(),
        };
        let mut seen = vec![false; plan.groups.len()];
        for at in 0..plan.groups.len() {
            if !seen[at] {
                groups.gather(plan, at, &mut seen);
            }
        }
        groups
    }

    fn gather(&mut self, plan: &TaskPlan, first: usize, seen: &mut [bool]) {
        let ix = self.clusters.len();
        let mut cluster = Cluster::default();
        let mut todo = vec![first];
        seen[first] = true;
        while let Some(at) = todo.pop() {
            cluster.groups.push(at);
            for &member in &plan.groups[at].members {
                if self.cluster_of[member.at()].replace(ix).is_some() {
                    continue;
                }
                if plan.steps[member.at()].live.is_none() {
                    cluster.members.push(member);
                }
                for &other in &self.of_step[member.at()] {
                    if !std::mem::replace(&mut seen[other], true) {
                        todo.push(other);
                    }
                }
            }
        }
        cluster.members.sort_unstable();
        self.clusters.push(cluster);
    }

    /// Returns the groups of a step, by position in the plan.
    pub(super) fn of_step(&self, step: StepIx) -> &[usize] {
        &self.of_step[step.at()]
    }

    /// Returns the group of a step on a resource.
    pub(super) fn on(&self, plan: &TaskPlan, step: StepIx, resource: &ResourceId) -> Option<usize> {
        self.of_step(step)
            .iter()
            .copied()
            .find(|&at| plan.groups[at].resource == *resource)
    }

    /// Returns the cluster of a step.
    pub(super) fn cluster_of(&self, step: StepIx) -> Option<usize> {
        self.cluster_of[step.at()]
    }

    /// Returns the digest of what makes a group the same.
    pub(super) fn digest(&self, group: usize) -> Digest {
        self.digests[group]
    }

    /// Returns why a member of a cluster must run when another one must: its group must, by shared members.
    pub(super) fn reason(&self, plan: &TaskPlan, step: StepIx, other: StepIx) -> DirtyReason {
        let groups = self.of_step(step).iter().map(|&at| &plan.groups[at]);
        let shared = groups
            .clone()
            .find(|group| group.members.binary_search(&other).is_ok());
        let group = shared
            .or(groups.clone().next())
            .expect("bug: a step of a cluster is in a group");
        let other = match shared {
            Some(_) => other,
            None => group
                .members
                .iter()
                .copied()
                .find(|member| *member != step)
                .unwrap_or(other),
        };
        DirtyReason::GroupMember {
            other: plan.steps[other.at()].id.clone(),
            resource: group.resource.clone(),
        }
    }

    /// Returns the clusters.
    pub(super) fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }
}

impl Scheduler<'_> {
    /// Verifies a step, together with what its groups came to so far; `None` where it must first wait for members that hit
    /// with a trace of another run.
    pub(super) fn group_verdict(&mut self, step: StepIx) -> Option<Verdict> {
        let plan = self.plan.clone();
        let Some(cluster) = self.world.groups.cluster_of(step) else {
            return Some(self.world.verify(&plan, step, None));
        };
        let groups = self.world.groups.clone();
        let verdict = self.world.verify(&plan, step, self.pins[cluster]);
        if let Some(other) = self.cluster_dirty[cluster] {
            return Some(match self.world.verify(&plan, step, None) {
                Verdict::Hit(_) => Verdict::Dirty(vec![groups.reason(&plan, step, other)]),
                dirty => dirty,
            });
        }
        match &verdict {
            Verdict::Hit(trace) => {
                self.pins[cluster] = trace.group_run();
                return Some(verdict);
            }
            Verdict::Dirty(_) if self.pins[cluster].is_none() => return Some(verdict),
            Verdict::Dirty(_) => {}
        }
        let members = groups.clusters()[cluster].members.iter().copied();
        let hit: Vec<StepIx> = members
            .filter(|&member| self.phase(member) == &Phase::Done(Done::Hit))
            .collect();
        let Some(run) = self.world.common_run(&plan, step, &hit) else {
            let alone = self.world.verify(&plan, step, None);
            let other = hit
                .first()
                .copied()
                .filter(|_| matches!(alone, Verdict::Hit(_)));
            let reason = other.map(|other| groups.reason(&plan, step, other));
            return Some(reason.map_or(alone, |reason| Verdict::Dirty(vec![reason])));
        };
        self.pins[cluster] = Some(run);
        self.send_back(hit.into_iter().map(|member| (member, None)).collect());
        self.is_ready(step)
            .then(|| self.world.verify(&plan, step, Some(run)))
    }

    /// A member of a cluster must run, so members whose kept results stood in must run too; returns whether the step can
    /// still start now.
    pub(super) fn recall_group(&mut self, step: StepIx) -> bool {
        let plan = self.plan.clone();
        let groups = self.world.groups.clone();
        let Some(cluster) = groups.cluster_of(step) else {
            return true;
        };
        if self.cluster_dirty[cluster].is_some() {
            return true;
        }
        self.cluster_dirty[cluster] = Some(step);
        let members = groups.clusters()[cluster].members.iter().copied();
        let hit = members.filter(|&member| self.phase(member) == &Phase::Done(Done::Hit));
        let recalled = hit.map(|member| (member, Some(groups.reason(&plan, member, step))));
        let recalled = recalled.collect();
        self.send_back(recalled);
        self.is_ready(step)
    }

    /// Keeps the results of a cluster, with the states that its groups left.
    pub(super) fn store_cluster(&mut self, cluster: usize) {
        let plan = self.plan.clone();
        let groups = self.world.groups.clone();
        let cluster = &groups.clusters()[cluster];
        for &at in &cluster.groups {
            let Some(now) = self.world.group_now(at) else {
                continue;
            };
            let group = &plan.groups[at];
            let effect = Effect {
                resource: group.resource.clone(),
                after: now,
            };
            for &member in &group.members {
                if plan.touch(member, &group.resource).is_some_and(changes) {
                    self.world.add_effect(member, &effect);
                    self.add_to_output(member, &effect);
                }
            }
        }
        let runs = || {
            cluster
                .members
                .iter()
                .map(|member| &self.steps[member.at()])
        };
        let unfit = runs().find_map(|run| run.unfit.clone());
        let supersedes = runs().any(|run| run.supersedes);
        for &member in &cluster.members {
            let run = &mut self.steps[member.at()];
            run.supersedes = supersedes;
            run.unfit.clone_from(&unfit);
            if let Some(output) = run.output.clone() {
                self.world.outputs.insert(member, output);
            }
        }
        let mut digester = Digester::new("group run");
        for &member in &cluster.members {
            digester.digest(&plan.steps[member.at()].key.fingerprint);
            digester.maybe(
                self.steps[member.at()]
                    .output
                    .as_ref()
                    .map(|o| o.digest())
                    .as_ref(),
            );
        }
        let run = digester.finish();
        for &member in &cluster.members {
            self.store(member, Some(run));
        }
    }
}
