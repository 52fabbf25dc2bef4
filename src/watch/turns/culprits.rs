//! Notices that a run changes what it depends on, which would run for ever.

use std::collections::{BTreeMap, BTreeSet};

use crate::session::Change;

/// In how many runs in a row, each gone to its end, a path must change to be held for one that the run itself writes.
const WHOLE: u32 = 3;
/// The same where runs were cut short: a user who saves again and again may be the reason, a step may be too.
const CUT: u32 = 10;

/// What changed in each of the last runs.
#[derive(Debug, Default)]
pub(super) struct Culprits {
    revision: u64,
    /// Whether the last run was cut short.
    is_cut: bool,
    /// What changed before the last run was over.
    within: BTreeSet<Change>,
    in_a_row: BTreeMap<Change, InARow>,
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

    /// Notes that the run is over, and what happened before that.
    pub(super) fn end(&mut self, is_cut: bool, within: BTreeSet<Change>) {
        self.is_cut = is_cut;
        self.within = within;
    }

    /// Notes what may have happened before the run was over: nobody told of it.
    pub(super) fn also(&mut self, changes: &[Change]) {
        self.within.extend(changes.iter().cloned());
    }

    /// Starts to count anew: somebody asked for the next run.
    pub(super) fn forget(&mut self) {
        self.in_a_row.clear();
    }

    /// Counts what of this changed before the last run was over; returns what changed in too many runs in a row.
    pub(super) fn count(&mut self, changes: &[Change]) -> Vec<Change> {
        let within: BTreeSet<&Change> = changes
            .iter()
            .filter(|change| self.within.contains(change))
            .collect();
        self.in_a_row.retain(|change, _| within.contains(change));
        for change in within {
            let in_a_row = self.in_a_row.entry(change.clone()).or_default();
            match self.is_cut {
                true => in_a_row.cut += 1,
                false => in_a_row.whole += 1,
            }
        }
        let held = self.in_a_row.iter().filter(|(_, n)| n.is_held());
        let held: Vec<Change> = held.map(|(change, _)| change.clone()).collect();
        if !held.is_empty() {
            self.forget();
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns after how many runs a change after each of them is held, where each run is cut short or not and the change
    /// comes before its end or not.
    fn held_after(runs: &[(bool, bool)]) -> Option<usize> {
        let mut culprits = Culprits::default();
        let held = runs.iter().position(|(is_cut, is_within)| {
            culprits.begin();
            let change = Change::Path("count".into());
            let within = is_within.then(|| change.clone());
            culprits.end(*is_cut, within.into_iter().collect());
            let changes = [Change::Path("other".into()), change];
            !culprits.count(&changes).is_empty()
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
