//! Answers many questions of who waits for whom at the cost of few.

use std::collections::HashMap;

use crate::graph::{Edges, StepGraph, StepIx};

/// Questions about one step beyond this many are answered from a table.
const FEW: u32 = 8;
/// The most tables that are kept; beyond it each question is a search.
const MAX_TABLES: usize = 64;

/// A memory of who waits for whom.
pub(super) struct Reach<'a> {
    graph: &'a StepGraph,
    asked: HashMap<StepIx, u32>,
    tables: HashMap<StepIx, Vec<bool>>,
}

impl<'a> Reach<'a> {
    pub fn new(graph: &'a StepGraph) -> Self {
        Reach {
            graph,
            asked: HashMap::new(),
            tables: HashMap::new(),
        }
    }

    /// Returns whether `step` waits for `other`, directly or not.
    pub fn is_ancestor(&mut self, other: StepIx, step: StepIx) -> bool {
        if other >= step {
            return false;
        }
        match self.graph.edges(step) {
            Edges::Earlier => return true,
            Edges::Steps(steps) if steps.binary_search(&other).is_ok() => return true,
            Edges::Steps(_) => {}
        }
        if let Some(table) = self.tables.get(&other) {
            return table[step.at()];
        }
        let asked = self.asked.entry(other).or_default();
        *asked += 1;
        if *asked <= FEW || self.tables.len() >= MAX_TABLES {
            return self.graph.is_ancestor(other, step);
        }
        let mut table = vec![false; self.graph.len()];
        for member in self.graph.span(other) {
            table[member.at()] = true;
        }
        let answer = table[step.at()];
        self.tables.insert(other, table);
        answer
    }

    /// Returns whether neither step waits for the other.
    pub fn are_unordered(&mut self, a: StepIx, b: StepIx) -> bool {
        a != b && !self.is_ancestor(a, b) && !self.is_ancestor(b, a)
    }
}
