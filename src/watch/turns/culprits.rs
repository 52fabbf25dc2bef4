//! Notices that a run changes what it depends on, which would run for ever.

use std::collections::{BTreeMap, BTreeSet};

use crate::session::Change;
use crate::system::System;

/// In how many runs in a row, each gone to its end, a path must change to be held for one that the run itself writes.
const WHOLE: u32 = 3;
/// The same where runs were cut short: a user who saves again and again may be the reason, a step may be too.
const CUT: u32 = 10;

/// What changed in each of the last runs.
#[derive(Debug, Default)]
pub(super) struct Culprits {
    revision: u64,
    ended: Option<Ended>,
    in_a_row: BTreeMap<String, InARow>,
}

/// How the last run ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    /// When, microseconds since 1970.
    at_us: i64,
    /// Whether it was cut short.
    is_cut: bool,
}

/// In how many of the last runs a path changed.
#[derive(Clone, Copy, Debug, Default)]
struct InARow {
    whole: u32,
    cut: u32,
}

impl InARow {
    fn is_held(self) -> bool {
        self.whole >= WHOLE || self.whole + self.cut >= CUT
    }
}

impl Culprits {
    /// Notes that a run begins, and returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Notes that the run is over.
    pub(super) fn end(&mut self, is_cut: bool, at_us: i64) {
        self.ended = Some(Ended { at_us, is_cut });
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
        let is_cut = self.ended.is_some_and(|ended| ended.is_cut);
        for path in paths {
            let in_a_row = self.in_a_row.entry(path).or_default();
            match is_cut {
                true => in_a_row.cut += 1,
                false => in_a_row.whole += 1,
            }
        }
        let held = self.in_a_row.iter().filter(|(_, n)| n.is_held());
        let held: Vec<String> = held.map(|(path, _)| path.clone()).collect();
        if !held.is_empty() {
            self.forget();
        }
        held
    }

    /// Returns whether something changed before the last run was over; what is gone is told by the folder that it was in.
    fn is_of_run(&self, change: &Change, meanwhile: bool, system: &dyn System) -> bool {
        let Some(ended) = self.ended else {
            return false;
        };
        let Change::Path(path) = change else {
            return meanwhile;
        };
        if meanwhile {
            return true;
        }
        // The clock of files is coarse and late, so what the run wrote is never stamped after its end.
        let mut found = path.ancestors().map(|path| system.link_metadata(path));
        let found = found.find_map(Result::ok);
        found.is_some_and(|found| found.stamp.ctime_ns / 1000 <= i128::from(ended.at_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::MemorySystem;

    /// Returns after how many runs a change in each of them is held, where each run is cut short or not and the change comes
    /// meanwhile or not.
    fn held_after(runs: &[(bool, bool)]) -> Option<usize> {
        let system = MemorySystem::new();
        let mut culprits = Culprits::default();
        let held = runs.iter().position(|(is_cut, meanwhile)| {
            culprits.begin();
            culprits.end(*is_cut, 1);
            let held = culprits.count(&[Change::Rescan], *meanwhile, &system);
            !held.is_empty()
        });
        held.map(|at| at + 1)
    }

    #[test]
    fn what_changes_in_three_runs_in_a_row_is_a_culprit_and_what_changes_between_runs_is_none() {
        let (within, between) = ((false, true), (false, false));
        assert_eq!(held_after(&[within; 20]), Some(3));
        assert_eq!(held_after(&[between; 20]), None);
        assert_eq!(held_after(&[within, within, between, within, within]), None);
    }

    #[test]
    fn who_saves_during_some_runs_is_no_culprit_and_what_cuts_ten_in_a_row_is_one() {
        let (whole, cut) = ((false, true), (true, true));
        assert_eq!(held_after(&[cut; 9]), None);
        assert_eq!(held_after(&[cut; 20]), Some(10));
        assert_eq!(held_after(&[whole, cut, whole, cut, whole]), Some(5));
        assert_eq!(held_after(&[(true, false); 20]), None);
    }
}
