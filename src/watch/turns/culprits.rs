//! Notices that a run changes what it depends on, which would run for ever.

use std::collections::{BTreeMap, BTreeSet};

use crate::session::Change;
use crate::system::System;

/// In how many runs in a row a path must change to be held for one that the run itself writes.
const RUNS: u32 = 3;

/// What changed in each of the last runs.
#[derive(Debug, Default)]
pub(super) struct Culprits {
    revision: u64,
    /// When the last run was over, microseconds since 1970; `None` where it was cut short, since then somebody was at work.
    ended_us: Option<i64>,
    in_a_row: BTreeMap<String, u32>,
}

impl Culprits {
    /// Notes that a run begins, and returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Notes that the run is over.
    pub(super) fn end(&mut self, is_cut: bool, now_us: i64) {
        self.ended_us = (!is_cut).then_some(now_us);
    }

    /// Starts to count anew: somebody asked for the next run.
    pub(super) fn forget(&mut self) {
        self.in_a_row.clear();
    }

    /// Counts what changed, while a run went on or after it; returns the paths that changed in too many runs in a row.
    pub(super) fn count(
        &mut self,
        changes: &[Change],
        meanwhile: bool,
        system: &dyn System,
    ) -> Vec<String> {
        let paths: BTreeSet<String> = changes
            .iter()
            .filter(|change| self.is_of_run(change, meanwhile, system))
            .map(|change| match change {
                Change::Path(path) => path.display().to_string(),
                Change::Rescan => "more files than can be told apart".to_owned(),
            })
            .collect();
        self.in_a_row.retain(|path, _| paths.contains(path));
        for path in paths {
            *self.in_a_row.entry(path).or_default() += 1;
        }
        let is_held = |n: &u32| *n >= RUNS;
        let held = self.in_a_row.iter().filter(|(_, n)| is_held(n));
        let held: Vec<String> = held.map(|(path, _)| path.clone()).collect();
        if !held.is_empty() {
            self.forget();
        }
        held
    }

    /// Returns whether something changed before the last run was over; what is gone is told by the folder that it was in.
    fn is_of_run(&self, change: &Change, meanwhile: bool, system: &dyn System) -> bool {
        let Some(ended_us) = self.ended_us else {
            return false;
        };
        let Change::Path(path) = change else {
            return meanwhile;
        };
        if meanwhile {
            return true;
        }
        let mut found = path.ancestors().map(|path| system.link_metadata(path));
        let found = found.find_map(Result::ok);
        found.is_some_and(|found| found.stamp.ctime_ns / 1000 <= i128::from(ended_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::MemorySystem;

    #[test]
    fn what_changes_in_three_runs_in_a_row_is_a_culprit_and_what_changes_between_runs_is_none() {
        let system = MemorySystem::new();
        let changes = [Change::Rescan];
        let mut culprits = Culprits::default();
        let mut counts = Vec::new();
        for _ in 0..3 {
            culprits.begin();
            culprits.end(false, 1);
            counts.push(culprits.count(&changes, true, &system).len());
        }
        assert_eq!(counts, [0, 0, 1]);
        for is_cut in [false, false, true, false] {
            culprits.begin();
            culprits.end(is_cut, 1);
            assert!(culprits.count(&changes, true, &system).is_empty());
        }
        for _ in 0..5 {
            culprits.begin();
            culprits.end(false, 1);
            assert!(culprits.count(&changes, false, &system).is_empty());
        }
    }
}
