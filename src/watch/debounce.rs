//! Gathers events into batches: sans IO, the time is told.
//!
//! A save by rename is answered after a moment. A file that somebody is still writing, or that is gone and may be about to be
//! replaced, is given more time, since an editor that removes a file and writes it anew has one change in mind. What came only to
//! go again, such as the new text before it takes its place or the old one until then, is not waited for.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::events::{Event, Now};
use crate::session::Change;

/// How long to wait for what.
#[derive(Clone, PartialEq, Debug)]
pub struct Pace {
    /// How long nothing must happen before a batch, where every path in it is whole.
    pub whole: Duration,
    /// How long nothing must happen before a batch, where a path in it is being written or gone.
    pub open: Duration,
    /// How long a batch is put off where something happens all the time.
    pub longest: Duration,
    /// The most paths of a batch; more are a rescan.
    pub most: usize,
    /// A batch ends where something happens at this path and nowhere else: for tests, which decide when a change is complete.
    pub fence: Option<PathBuf>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            whole: Duration::from_millis(10),
            open: Duration::from_millis(60),
            longest: Duration::from_millis(500),
            most: 2000,
            fence: None,
        }
    }
}

/// The events since the last batch.
#[derive(Debug)]
pub struct Debounce {
    pace: Pace,
    began: Option<Duration>,
    last: Duration,
    paths: BTreeMap<PathBuf, Seen>,
    /// How many of the paths are not whole.
    unsettled: usize,
    rescan: bool,
    is_fenced: bool,
}

/// What was seen of a path since the last batch.
#[derive(Debug)]
struct Seen {
    first: Now,
    now: Now,
}

impl Seen {
    /// Returns whether more is to be expected of the path.
    fn is_unsettled(&self) -> bool {
        match self.now {
            Now::Whole => false,
            Now::Made | Now::Open => true,
            Now::Gone => !matches!(self.first, Now::Made | Now::Whole),
        }
    }
}

impl Debounce {
    /// Returns one that has seen nothing.
    pub fn new(pace: Pace) -> Self {
        Debounce {
            pace,
            began: None,
            last: Duration::ZERO,
            paths: BTreeMap::new(),
            unsettled: 0,
            rescan: false,
            is_fenced: false,
        }
    }

    /// Takes an event that came at this time, counted from any moment.
    pub fn take(&mut self, event: Event, at: Duration) {
        match event {
            Event::At(path, _) if self.is_fence(&path) => self.is_fenced = true,
            Event::At(path, now) => self.note(path, now),
            Event::Rescan => self.forget_paths(),
            Event::CaughtUp | Event::Blind(_) => return,
        }
        self.began.get_or_insert(at);
        self.last = at;
    }

    /// Returns when a batch is due; `None` where nothing happened.
    pub fn due(&self) -> Option<Duration> {
        let began = self.began?;
        if self.pace.fence.is_some() {
            return self.is_fenced.then_some(self.last);
        }
        let quiet = match self.unsettled {
            0 => self.pace.whole,
            _ => self.pace.open,
        };
        Some((self.last + quiet).min(began + self.pace.longest))
    }

    /// Returns the batch that is due at this time.
    pub fn batch(&mut self, at: Duration) -> Option<Vec<Change>> {
        self.due().filter(|due| *due <= at)?;
        self.began = None;
        self.unsettled = 0;
        self.is_fenced = false;
        let paths = std::mem::take(&mut self.paths);
        if std::mem::take(&mut self.rescan) {
            return Some(vec![Change::Rescan]);
        }
        Some(paths.into_keys().map(Change::Path).collect())
    }

    /// Returns what is gathered so far.
    pub fn gathered(&self) -> Vec<Change> {
        match self.rescan {
            true => vec![Change::Rescan],
            false => self.paths.keys().cloned().map(Change::Path).collect(),
        }
    }

    fn is_fence(&self, path: &Path) -> bool {
        self.pace.fence.as_deref() == Some(path)
    }

    fn note(&mut self, path: PathBuf, now: Now) {
        if self.rescan {
            return;
        }
        match self.paths.entry(path) {
            Entry::Vacant(place) => {
                let seen = place.insert(Seen { first: now, now });
                self.unsettled += usize::from(seen.is_unsettled());
            }
            Entry::Occupied(mut place) => {
                let seen = place.get_mut();
                self.unsettled -= usize::from(seen.is_unsettled());
                seen.now = now;
                self.unsettled += usize::from(seen.is_unsettled());
            }
        }
        if self.paths.len() > self.pace.most {
            self.forget_paths();
        }
    }

    fn forget_paths(&mut self) {
        self.rescan = true;
        self.paths.clear();
        self.unsettled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// Feeds lines such as `5 a whole` and `9 rescan`, and returns the batches with their times.
    fn check(pace: Pace, script: &str, expect: Expect) {
        let mut debounce = Debounce::new(pace);
        let mut text = String::new();
        let mut release = |debounce: &mut Debounce, until: Option<Duration>| {
            while let Some(due) = debounce.due()
                && until.is_none_or(|until| due < until)
            {
                let batch = debounce.batch(due).expect("it is due");
                let names: Vec<String> = batch
                    .iter()
                    .map(|change| match change {
                        Change::Path(path) => path.display().to_string(),
                        Change::Rescan => "rescan".to_owned(),
                    })
                    .collect();
                text.push_str(&format!("{} ms: {}\n", due.as_millis(), names.join(" ")));
            }
        };
        for line in script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let words: Vec<&str> = line.split(' ').collect();
            let at = Duration::from_millis(words[0].parse().unwrap());
            release(&mut debounce, Some(at));
            let event = match words[1..] {
                ["rescan"] => Event::Rescan,
                [path, "made"] => Event::At(path.into(), Now::Made),
                [path, "open"] => Event::At(path.into(), Now::Open),
                [path, "whole"] => Event::At(path.into(), Now::Whole),
                [path, "gone"] => Event::At(path.into(), Now::Gone),
                _ => panic!("no such line: {line}"),
            };
            debounce.take(event, at);
        }
        let is_fenced = debounce.pace.fence.is_some();
        if !is_fenced || debounce.due().is_some() {
            release(&mut debounce, None);
        }
        expect.assert_eq(&text);
    }

    #[test]
    fn a_save_by_rename_is_answered_at_once() {
        check(
            Pace::default(),
            "0 a whole\n100 b whole",
            expect![[r#"
                10 ms: a
                110 ms: b
            "#]],
        );
    }

    #[test]
    fn a_file_that_is_being_written_is_waited_for() {
        check(
            Pace::default(),
            "0 a open\n50 a open\n90 a whole",
            expect![[r#"
                100 ms: a
            "#]],
        );
    }

    #[test]
    fn a_file_that_is_gone_may_come_back() {
        check(
            Pace::default(),
            "0 a gone\n0 a~ whole\n40 a open\n41 a whole\n200 b gone",
            expect![[r#"
                51 ms: a a~
                260 ms: b
            "#]],
        );
    }

    #[test]
    fn what_comes_and_goes_beside_a_file_is_not_waited_for() {
        // A new text takes the place of the old one.
        check(
            Pace::default(),
            "0 a.new made\n0 a.new open\n1 a.new whole\n1 a.new gone\n1 a whole",
            expect![[r#"
                11 ms: a a.new
            "#]],
        );
        // The old text is kept until the new one is there.
        check(
            Pace::default(),
            "0 a gone\n0 a~ whole\n0 a made\n1 a open\n1 a whole\n2 a~ gone",
            expect![[r#"
                12 ms: a a~
            "#]],
        );
        // A file that was there, is gone and comes back goes again.
        check(
            Pace::default(),
            "0 a gone\n1 a made\n2 a gone",
            expect![[r#"
                62 ms: a
            "#]],
        );
    }

    #[test]
    fn a_file_that_never_comes_to_rest_is_looked_at_now_and_then() {
        let script: String = (0..30).map(|n| format!("{} log open\n", n * 40)).collect();
        check(
            Pace::default(),
            &script,
            expect![[r#"
                500 ms: log
                1020 ms: log
                1220 ms: log
            "#]],
        );
    }

    #[test]
    fn more_paths_than_are_worth_naming_are_a_rescan() {
        let pace = Pace {
            most: 3,
            ..Pace::default()
        };
        check(
            pace,
            "0 a whole\n0 b whole\n0 c whole\n0 a whole\n0 d open\n1 e whole\n100 f whole",
            expect![[r#"
                11 ms: rescan
                110 ms: f
            "#]],
        );
    }

    #[test]
    fn a_rescan_stands_for_all_paths() {
        check(
            Pace::default(),
            "0 a open\n1 rescan\n2 b whole",
            expect![[r#"
                12 ms: rescan
            "#]],
        );
    }

    #[test]
    fn a_fence_decides_when_a_change_is_complete() {
        let pace = Pace {
            fence: Some("fence".into()),
            ..Pace::default()
        };
        check(
            pace,
            "0 a gone\n900 a whole\n2000 fence whole\n2001 b open\n2002 fence whole\n2003 c whole",
            expect![[r#"
                2000 ms: a
                2002 ms: b
            "#]],
        );
    }
}
