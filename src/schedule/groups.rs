//! Which groups a step is in, and which groups are kept together because they share a member.

use super::TaskPlan;
use crate::digest::Digest;
use crate::graph::StepIx;
use crate::rebuild::DirtyReason;
use crate::resource::ResourceId;

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
            digests: plan.groups.iter().map(|group| plan.group_digest(group)).collect(),
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
        self.of_step(step).iter().copied().find(|&at| plan.groups[at].resource == *resource)
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
        let shared = groups.clone().find(|group| group.members.binary_search(&other).is_ok());
        let group = shared.or(groups.clone().next()).expect("bug: a step of a cluster is in a group");
        let other = match shared {
            Some(_) => other,
            None => group.members.iter().copied().find(|member| *member != step).unwrap_or(other),
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
