//! The graph of a task: who waits for whom, what a retry takes with it, which steps are one group.
//!
//! Steps are known by their position in the list, and edges only point backwards, so list order is a topological order.
//! Implicit edges ("every earlier step") stay implicit: a task of 100,000 steps that all omit `depends_on` has no edge
//! in memory.

use std::collections::HashMap;

use crate::resource::{ResourceId, Touch};
use crate::task::{DependsOn, StepId, Task};

pub use crate::task::StepIx;

/// What a step waits for, by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Every earlier step.
    Earlier,
    /// These steps, sorted.
    Steps(Vec<StepIx>),
}

/// The steps of a task and the order among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepGraph {
    edges: Vec<Edges>,
    /// All steps before this position are ancestors of the step.
    prefix: Vec<u32>,
}

impl StepGraph {
    /// Builds the graph of a task; an edge that names no earlier step is left out, since reading has reported it.
    pub fn of(task: &Task) -> Self {
        let mut position: HashMap<&StepId, StepIx> = HashMap::with_capacity(task.steps.len());
        let mut edges = Vec::with_capacity(task.steps.len());
        for (at, step) in task.steps.iter().enumerate() {
            edges.push(match &step.depends_on {
                DependsOn::Earlier => Edges::Earlier,
                DependsOn::Steps(ids) => Edges::Steps(
                    ids.iter()
                        .filter_map(|id| position.get(id).copied())
                        .collect(),
                ),
            });
            position.entry(&step.id).or_insert(StepIx(at as u32));
        }
        StepGraph::from_edges(edges)
    }

    /// Builds a graph from edges, each of which points to an earlier step.
    pub fn from_edges(mut edges: Vec<Edges>) -> Self {
        let mut prefix: Vec<u32> = Vec::with_capacity(edges.len());
        for (at, edge) in edges.iter_mut().enumerate() {
            prefix.push(match edge {
                Edges::Earlier => at as u32,
                Edges::Steps(steps) => {
                    steps.sort_unstable();
                    steps.dedup();
                    steps.retain(|step| step.at() < at);
                    let mut reach = 0;
                    for step in steps.iter() {
                        if prefix[step.at()] == step.0 {
                            reach = reach.max(step.0 + 1);
                        }
                    }
                    while steps.binary_search(&StepIx(reach)).is_ok() {
                        reach += 1;
                    }
                    reach
                }
            });
        }
        StepGraph { edges, prefix }
    }

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Returns whether the task has no step.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// Returns the positions in list order.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = StepIx> + use<> {
        (0..self.edges.len() as u32).map(StepIx)
    }

    /// Returns what a step waits for.
    pub fn edges(&self, step: StepIx) -> &Edges {
        &self.edges[step.at()]
    }

    /// Returns whether `step` waits for `other`, directly or not.
    pub fn is_ancestor(&self, other: StepIx, step: StepIx) -> bool {
        if other >= step {
            return false;
        }
        if other.0 < self.prefix[step.at()] {
            return true;
        }
        let mut seen = std::collections::HashSet::new();
        let mut todo = vec![step];
        while let Some(at) = todo.pop() {
            if other.0 < self.prefix[at.at()] {
                return true;
            }
            if let Edges::Steps(steps) = &self.edges[at.at()] {
                for &next in steps {
                    if next == other {
                        return true;
                    }
                    if next > other && seen.insert(next) {
                        todo.push(next);
                    }
                }
            }
        }
        false
    }

    /// Returns whether neither step waits for the other.
    pub fn are_unordered(&self, a: StepIx, b: StepIx) -> bool {
        a != b && !self.is_ancestor(a, b) && !self.is_ancestor(b, a)
    }

    /// Returns for each step whether it is an ancestor of `step`.
    pub fn ancestors(&self, step: StepIx) -> Vec<bool> {
        let mut found = vec![false; self.len()];
        let mut wanted = vec![false; self.len()];
        wanted[step.at()] = true;
        let mut all_before = 0;
        for at in (0..=step.at()).rev() {
            if at < all_before {
                found[at] = true;
                continue;
            }
            if !wanted[at] {
                continue;
            }
            found[at] = at != step.at();
            all_before = all_before.max(self.prefix[at] as usize);
            if let Edges::Steps(steps) = &self.edges[at] {
                for next in steps {
                    wanted[next.at()] = true;
                }
            }
        }
        found
    }

    /// Returns the span of a retry: the step and everything that waits for it, in list order.
    pub fn span(&self, from: StepIx) -> Vec<StepIx> {
        self.span_of(&[from])
    }

    /// Returns steps and everything that waits for any of them, in list order.
    pub fn span_of(&self, from: &[StepIx]) -> Vec<StepIx> {
        let mut inside = vec![false; self.len()];
        from.iter().for_each(|step| inside[step.at()] = true);
        let first = from.iter().min().map_or(self.len(), |step| step.at());
        for at in first..self.len() {
            inside[at] |= match &self.edges[at] {
                Edges::Earlier => at > first,
                Edges::Steps(steps) => steps.iter().any(|step| inside[step.at()]),
            };
        }
        self.steps().filter(|step| inside[step.at()]).collect()
    }
}

/// Steps that touch one resource and are cached and rerun as one, because their effects may interleave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The resource.
    pub resource: ResourceId,
    /// The members, in list order; at least one of them mutates the resource.
    pub members: Vec<StepIx>,
}

/// Returns the groups of a task. Two steps that touch one resource are of one group when at least one of them changes it and
/// there is no path between them; and so is every step that touches it on a way from one member of a group to another.
pub fn groups(graph: &StepGraph, touches: &[Vec<(ResourceId, Touch)>]) -> Vec<Group> {
    let mut by_resource: HashMap<&ResourceId, Vec<(StepIx, bool)>> = HashMap::new();
    for (at, touched) in touches.iter().enumerate() {
        for (resource, touch) in touched {
            let mutates = matches!(touch, Touch::Mutates | Touch::Creates | Touch::Retires);
            by_resource
                .entry(resource)
                .or_default()
                .push((StepIx(at as u32), mutates));
        }
    }
    let mut groups = Vec::new();
    for (resource, steps) in by_resource {
        let mut parent: Vec<usize> = (0..steps.len()).collect();
        // For each step, the first one with which it conflicts.
        let mut reach: Vec<usize> = (0..steps.len()).collect();
        let mut mutators: Vec<usize> = Vec::new();
        for (at, &(step, mutates)) in steps.iter().enumerate() {
            // Two that only look never conflict.
            let all = if mutates { at } else { 0 };
            let looks = if mutates { 0 } else { mutators.len() };
            let befores = (0..all)
                .rev()
                .chain(mutators[..looks].iter().rev().copied());
            for before in befores {
                let other = steps[before].0;
                let ordered = graph.is_ancestor(other, step);
                if !ordered {
                    join(&mut parent, before, at);
                    reach[at] = before;
                }
                // Everything before a step that waits for all earlier ones is ordered with whoever waits for it.
                if ordered && graph.prefix[other.at()] == other.0 {
                    break;
                }
            }
            if mutates {
                mutators.push(at);
            }
        }
        let mut end = steps.len();
        while end > 0 {
            // The longest stretch that ends here and that no conflict leaves.
            let mut start = end - 1;
            let mut at = end;
            while at > start {
                at -= 1;
                start = start.min(reach[at]);
            }
            close_over_paths(graph, &steps, start..end, &mut parent);
            end = start;
        }
        let mut members: HashMap<usize, Vec<StepIx>> = HashMap::new();
        for (at, &(step, _)) in steps.iter().enumerate() {
            let root = root(&mut parent, at);
            let members = members.entry(root).or_default();
            if members.last() != Some(&step) {
                members.push(step);
            }
        }
        for members in members.into_values().filter(|members| members.len() > 1) {
            groups.push(Group {
                resource: resource.clone(),
                members,
            });
        }
    }
    groups.sort_by(|a, b| (&a.members, &a.resource).cmp(&(&b.members, &b.resource)));
    groups
}

/// Joins what lies on a way from a group back to itself: with members joined, the paths between groups may form a cycle,
/// and each cycle becomes one group.
fn close_over_paths(
    graph: &StepGraph,
    steps: &[(StepIx, bool)],
    stretch: std::ops::Range<usize>,
    parent: &mut [usize],
) {
    let first = root(parent, stretch.start);
    if stretch.clone().all(|at| root(parent, at) == first) {
        return;
    }
    let len = stretch.len();
    let mut reaches = vec![vec![false; len]; len];
    for at in 0..len {
        for before in 0..at {
            let (a, b) = (steps[stretch.start + before].0, steps[stretch.start + at].0);
            reaches[before][at] = a != b && graph.is_ancestor(a, b);
        }
    }
    loop {
        // How far back and forth each group goes by paths, over other groups.
        let groups: Vec<usize> = stretch
            .clone()
            .map(|at| root(parent, at) - stretch.start)
            .collect();
        let mut below = vec![vec![false; len]; len];
        for before in 0..len {
            for at in before + 1..len {
                below[groups[before]][groups[at]] |= reaches[before][at];
            }
        }
        let mut joined = false;
        for start in groups.iter().copied().filter(|&at| groups[at] == at) {
            let mut seen = vec![false; len];
            let mut todo = vec![start];
            while let Some(at) = todo.pop() {
                for next in (0..len).filter(|&next| below[at][next]) {
                    if !std::mem::replace(&mut seen[next], true) {
                        todo.push(next);
                    }
                }
            }
            // Whatever it reaches that reaches it in one step closes a cycle; the next round finds the rest.
            for at in (0..len).filter(|&at| at != start && seen[at] && below[at][start]) {
                joined |= join(parent, stretch.start + start, stretch.start + at);
            }
        }
        if !joined {
            return;
        }
    }
}

fn join(parent: &mut [usize], a: usize, b: usize) -> bool {
    let (a, b) = (root(parent, a), root(parent, b));
    parent[a.max(b)] = a.min(b);
    a != b
}

fn root(parent: &mut [usize], mut at: usize) -> usize {
    while parent[at] != at {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(of: &[u32]) -> Edges {
        Edges::Steps(of.iter().copied().map(StepIx).collect())
    }

    fn arbitrary_edges() -> impl Strategy<Value = Vec<Edges>> {
        proptest::collection::vec(
            prop_oneof![
                1 => Just(None),
                4 => proptest::collection::vec(0u32..30, 0..4).prop_map(Some)
            ],
            1..30,
        )
        .prop_map(|raw| {
            raw.into_iter()
                .enumerate()
                .map(|(at, edges)| match edges {
                    None => Edges::Earlier,
                    Some(list) => Edges::Steps(
                        list.into_iter()
                            .filter(|&s| (s as usize) < at)
                            .map(StepIx)
                            .collect(),
                    ),
                })
                .collect()
        })
    }

    /// The definition, word for word, to compare with.
    fn reference(edges: &[Edges]) -> Vec<Vec<bool>> {
        let mut all: Vec<Vec<bool>> = Vec::new();
        for (at, edge) in edges.iter().enumerate() {
            let mut mine = vec![false; edges.len()];
            let direct: Vec<usize> = match edge {
                Edges::Earlier => (0..at).collect(),
                Edges::Steps(steps) => steps.iter().map(|s| s.at()).collect(),
            };
            for step in direct {
                mine[step] = true;
                for (a, is) in all[step].iter().enumerate() {
                    mine[a] |= is;
                }
            }
            all.push(mine);
        }
        all
    }

    proptest! {
        #[test]
        fn ancestors_are_those_of_the_definition(edges in arbitrary_edges()) {
            let expected = reference(&edges);
            let graph = StepGraph::from_edges(edges);
            for step in graph.steps() {
                prop_assert_eq!(&graph.ancestors(step), &expected[step.at()]);
                for other in graph.steps() {
                    prop_assert_eq!(graph.is_ancestor(other, step), expected[step.at()][other.at()]);
                }
                let span: Vec<StepIx> = graph.steps()
                    .filter(|&s| s == step || expected[s.at()][step.at()]).collect();
                prop_assert_eq!(graph.span(step), span);
            }
        }

        #[test]
        fn groups_join_exactly_the_unordered_mutators(
            edges in arbitrary_edges(),
            mutates in proptest::collection::vec(any::<bool>(), 30),
        ) {
            let graph = StepGraph::from_edges(edges);
            let box_ = ResourceId::sandbox("box");
            let touches: Vec<_> = graph.steps().map(|s| {
                let touch = if mutates[s.at()] { Touch::Mutates } else { Touch::Observes };
                vec![(box_.clone(), touch)]
            }).collect();
            let groups = groups(&graph, &touches);
            let group_of = |s: StepIx| groups.iter().position(|g| g.members.contains(&s));
            for a in graph.steps() {
                for b in graph.steps() {
                    if graph.are_unordered(a, b) && (mutates[a.at()] || mutates[b.at()]) {
                        prop_assert!(group_of(a).is_some() && group_of(a) == group_of(b));
                    }
                }
            }
        }
    }

    #[test]
    fn a_step_between_two_members_of_a_group_is_a_member() {
        let graph = StepGraph::from_edges(vec![steps(&[]), steps(&[]), steps(&[1]), steps(&[2])]);
        let touches: Vec<_> = [
            Touch::Observes,
            Touch::Mutates,
            Touch::Observes,
            Touch::Mutates,
        ]
        .map(|touch| vec![(ResourceId::sandbox("box"), touch)])
        .into();
        let members: Vec<StepIx> = graph.steps().collect();
        assert_eq!(
            groups(&graph, &touches),
            [Group {
                resource: ResourceId::sandbox("box"),
                members
            }]
        );
    }

    #[test]
    fn an_explicit_chain_needs_no_search() {
        let edges = (0..5u32).map(|at| {
            if at == 0 {
                steps(&[])
            } else {
                steps(&[at - 1])
            }
        });
        let graph = StepGraph::from_edges(edges.collect());
        assert_eq!(graph.prefix, [0, 1, 2, 3, 4]);
    }
}
