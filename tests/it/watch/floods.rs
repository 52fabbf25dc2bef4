//! More than can be told, nothing that is told, and what the watch itself brings about.

use std::fs;
use std::time::Duration;

use aebuild::system::inotify::{Deed, FolderWatch, Happening};

use super::{How, Shown, TASK, Watched, plain, remove, rename, rescan, runs};
use crate::story::Story;

const PASSED: &str = "tasks/t.json passed 1\n";
const FAILED: &str = "tasks/t.json scored below 1 0\n";

#[test]
fn ten_thousand_events_that_come_to_nothing_set_off_nothing() {
    let mut watched = Watched::plain();
    watched.no_run(|story| {
        for n in 0..2500 {
            let path = format!("tasks/x-{n}.txt");
            story.write(&path, "x");
            remove(story, &path);
        }
    });
}

#[test]
fn a_change_among_more_than_can_be_told_apart_is_found() {
    let mut watched = Watched::plain();
    watched.one_run(
        |story| {
            for n in 0..2500 {
                let path = format!("tasks/x-{n}.txt");
                story.write(&path, "x");
                remove(story, &path);
            }
            story.write("artifacts/data/data.txt", "bad\n");
        },
        FAILED,
    );
}

#[test]
fn what_was_lost_is_found_by_looking_again() {
    let mut watched = Watched::plain();
    // The folder of the file is told of nothing, as when the queue of the system overflows.
    watched.send(rescan());
    watched.fence();
    assert_eq!(watched.until_quiet(), [Shown::Unchanged]);
    fs::write(watched.story.path("artifacts/data/data.txt"), "bad\n").unwrap();
    watched.send(rescan());
    watched.fence();
    let shown = watched.until_quiet();
    assert_eq!((runs(&shown), watched.ends.as_str()), (1, FAILED));
    watched.is_clean(&shown);
}

#[test]
fn what_a_run_writes_itself_sets_off_nothing() {
    let mut watched = Watched::plain();
    // Records, the cache and what is kept were written before this fence.
    watched.no_run(|_| ());
    watched.one_run(
        |story| story.write("artifacts/data/data.txt", "bad\n"),
        FAILED,
    );
    watched.no_run(|_| ());
}

#[test]
fn who_asks_is_told_of_all_that_happened_before() {
    let story = plain();
    let (send, told) = std::sync::mpsc::channel();
    let watch = FolderWatch::start(move |happening| {
        let _ = send.send(happening);
    });
    let watch = watch.unwrap();
    watch.add(&story.path("tasks")).unwrap();
    for round in 0..50 {
        for n in 0..20 {
            story.write(&format!("tasks/{round}-{n}.txt"), "x");
        }
        watch.catch_up();
        let before = told.iter().take_while(|one| *one != Happening::CaughtUp);
        let made = before.filter(|one| matches!(one, Happening::At(_, Deed::Made)));
        assert_eq!(made.count(), 20);
    }
}

#[test]
fn who_saves_right_after_each_run_is_no_culprit() {
    let mut watched = Watched::plain();
    for n in 0..12 {
        let (text, ends) = match n % 2 {
            0 => ("bad\n", FAILED),
            _ => ("good\n", PASSED),
        };
        watched.one_run(|story| story.write("artifacts/data/data.txt", text), ends);
    }
}

#[test]
fn a_step_that_writes_what_it_depends_on_is_found_out() {
    let story = Story::in_reach();
    story.write("artifacts/data/data.txt", "good\n");
    let count = story.path("artifacts/data/count").display().to_string();
    let command = format!("echo x >> {count}");
    let task = TASK.replace("grep -q good data.txt", &command);
    story.write("tasks/t.json", &task);
    story.write("artifacts/data/count", "");
    let mut watched = Watched::start_busy(story, How::new());
    let mut all = Vec::new();
    let held = loop {
        let shown = watched.until_quiet();
        all.extend(shown.clone());
        if let Some(Shown::Held(paths)) = shown.last() {
            break paths.clone();
        }
        assert!(runs(&all) < 20, "{all:#?}");
        // All that the run wrote is told before this.
        watched.fence();
    };
    assert_eq!(runs(&all), 3, "{all:#?}");
    assert!(
        held.iter()
            .any(|path| path.ends_with("artifacts/data/count")),
        "{held:?}"
    );
    // Who saves is answered, and the count begins anew.
    watched.story.write("tasks/t.json", TASK);
    watched.fence();
    watched.until(|shown| matches!(shown, Shown::Idle(..)));
    assert_eq!(watched.ends, PASSED);
}

#[test]
fn where_the_system_allows_no_more_watches_the_files_are_looked_at() {
    let mut how = How::new();
    how.means.most_folders = 1;
    how.is_fenced = false;
    let mut watched = Watched::start_busy(plain(), how);
    let shown = watched.until_quiet();
    let notice = shown.iter().find_map(|shown| match shown {
        Shown::Notice(text) => Some(text.clone()),
        _ => None,
    });
    let notice = notice.expect("a notice");
    assert!(
        notice.contains("sudo sysctl fs.inotify.max_user_watches="),
        "{notice}"
    );
    assert!(watched.watching.polls.is_some());
    polled(&mut watched);
}

#[test]
fn looking_finds_what_telling_finds() {
    let mut how = How::new();
    how.means.poll = Some(Duration::from_millis(10));
    how.is_fenced = false;
    let mut watched = Watched::start(plain(), how);
    polled(&mut watched);
}

/// Without events there is no order of events, so the verdict is waited for. The file is replaced at once: a run that begins
/// while it is emptied has another state than it is told to have, and is right.
fn polled(watched: &mut Watched) {
    for (text, ends) in [("bad\n", FAILED), ("good\n", PASSED)] {
        watched.story.write("../new", text);
        rename(&watched.story, "../new", "artifacts/data/data.txt");
        let ran = Shown::Ran(ends.to_owned());
        let mut shown = watched.until(|shown| *shown == ran);
        shown.extend(watched.until(|shown| matches!(shown, Shown::Idle(..))));
        watched.is_clean(&shown);
    }
}
