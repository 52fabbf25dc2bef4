//! What may happen to what is watched.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{How, Shown, TASK, Watched, link, of_step, plain, remove, rename, runs};
use crate::story::Story;

const PASSED: &str = "tasks/t.json passed 1\n";
const FAILED: &str = "tasks/t.json scored below 1 0\n";

#[test]
fn a_file_that_was_touched_and_is_the_same_sets_off_nothing() {
    let mut watched = Watched::plain();
    for path in ["tasks/t.json", "artifacts/data/data.txt", "aebuild.toml"] {
        watched.no_run(|story| {
            let text = fs::read(story.path(path)).unwrap();
            story.write(path, text);
        });
    }
}

#[test]
fn an_edit_of_the_same_size_is_seen() {
    let mut watched = Watched::plain();
    watched.one_run(
        |story| story.write("artifacts/data/data.txt", "evil\n"),
        FAILED,
    );
    watched.one_run(
        |story| story.write("artifacts/data/data.txt", "good\n"),
        PASSED,
    );
}

#[test]
fn what_changed_is_named_and_only_what_is_dirty_runs() {
    let mut watched = Watched::plain();
    let edited = TASK.replace("grep -q good", "grep good");
    let shown = watched.one_run(|story| story.write("tasks/t.json", &edited), PASSED);
    assert_eq!(shown[0], Shown::Changed(vec!["tasks/t.json".to_owned()]));
    let hits = |step: &str| {
        let events = of_step(&shown, step);
        events
            .iter()
            .any(|what| matches!(what, aebuild::event::StepEvent::Hit { .. }))
    };
    assert!(hits("load") && !hits("check"), "{shown:#?}");
}

#[test]
fn permissions_count_where_a_key_depends_on_them() {
    let mut watched = Watched::plain();
    let set = |story: &Story, mode: u32| {
        let path = story.path("artifacts/data/data.txt");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    watched.no_run(|story| set(story, 0o600));
    watched.one_run(|story| set(story, 0o700), PASSED);
    watched.one_run(|story| set(story, 0o600), PASSED);
}

#[test]
fn a_link_to_a_file_is_followed_wherever_it_leads() {
    let story = plain();
    for (name, text) in [("a", "good\n"), ("b", "bad\n")] {
        story.write(&format!("lib/{name}.txt"), text);
    }
    remove(&story, "artifacts/data/data.txt");
    link(&story, "../../lib/a.txt", "artifacts/data/data.txt");
    let mut watched = Watched::start(story, How::new());
    let swap = |story: &Story, target: &str| {
        link(story, target, "artifacts/data/new");
        rename(story, "artifacts/data/new", "artifacts/data/data.txt");
    };
    watched.one_run(|story| swap(story, "../../lib/b.txt"), FAILED);
    // What the link leads to now.
    watched.one_run(|story| story.write("lib/b.txt", "good again\n"), PASSED);
    watched.one_run(|story| story.write("lib/b.txt", "bad again\n"), FAILED);
    watched.one_run(|story| swap(story, "../../lib/a.txt"), PASSED);
    // What it led to before is nobody's input.
    watched.no_run(|story| story.write("lib/b.txt", "whatever\n"));
}

#[test]
fn a_link_to_a_folder_may_lead_elsewhere() {
    let story = plain();
    for (name, text) in [("a", "good\n"), ("b", "bad\n")] {
        story.write(&format!("lib/{name}/data.txt"), text);
    }
    fs::remove_dir_all(story.path("artifacts/data")).unwrap();
    link(&story, "../lib/a", "artifacts/data");
    let mut watched = Watched::start(story, How::new());
    assert_eq!(watched.ends, PASSED);
    watched.one_run(
        |story| {
            link(story, "../lib/b", "artifacts/new");
            rename(story, "artifacts/new", "artifacts/data");
        },
        FAILED,
    );
    watched.one_run(|story| story.write("lib/b/data.txt", "good now\n"), PASSED);
}

#[test]
fn a_folder_that_goes_is_a_fault_and_one_that_comes_back_is_watched_again() {
    let mut watched = Watched::plain();
    let shown = watched.after(|story| fs::remove_dir_all(story.path("artifacts")).unwrap());
    assert!(
        shown.iter().any(|shown| matches!(shown, Shown::Refused(_))),
        "{shown:#?}"
    );
    watched.one_run(
        |story| story.write("artifacts/data/data.txt", "bad\n"),
        FAILED,
    );
    watched.one_run(
        |story| story.write("artifacts/data/data.txt", "good\n"),
        PASSED,
    );
    // Away and back within one batch.
    watched.one_run(
        |story| {
            rename(story, "artifacts", "old");
            story.write("artifacts/data/data.txt", "bad\n");
        },
        FAILED,
    );
    watched.one_run(
        |story| story.write("artifacts/data/data.txt", "good\n"),
        PASSED,
    );
    watched.no_run(|story| story.write("old/data/data.txt", "whatever\n"));
}

#[test]
fn a_task_may_go_and_come_back() {
    let mut watched = Watched::plain();
    let shown = watched.after(|story| remove(story, "tasks/t.json"));
    assert!(
        shown.iter().any(|shown| matches!(shown, Shown::Refused(_))),
        "{shown:#?}"
    );
    watched.one_run(|story| story.write("tasks/t.json", TASK), PASSED);
    let shown = watched.after(|story| fs::remove_dir_all(story.path("tasks")).unwrap());
    assert!(
        shown.iter().any(|shown| matches!(shown, Shown::Refused(_))),
        "{shown:#?}"
    );
    watched.one_run(|story| story.write("tasks/t.json", TASK), PASSED);
    watched.one_run(
        |story| story.write("tasks/u.json", TASK),
        "tasks/t.json passed 1\ntasks/u.json passed 1\n",
    );
    watched.one_run(
        |story| rename(story, "tasks/u.json", "tasks/v.json"),
        "tasks/t.json passed 1\ntasks/v.json passed 1\n",
    );
}

#[test]
fn of_one_task_the_others_are_not_watched() {
    let story = plain();
    story.write("tasks/other.json", TASK);
    let how = How {
        path: "tasks/t.json",
        ..How::new()
    };
    let mut watched = Watched::start(story, how);
    assert_eq!(
        watched.watching.files, 3,
        "the task, its artifact and the configuration"
    );
    watched.no_run(|story| story.write("tasks/new.json", TASK));
    watched.no_run(|story| story.write("tasks/other.json", "["));
    watched.no_run(|story| remove(story, "tasks/other.json"));
    watched.one_run(
        |story| story.write("artifacts/data/data.txt", "bad\n"),
        FAILED,
    );
    watched.one_run(
        |story| {
            story.write("tasks/new.json", "{}");
            story.write("artifacts/data/data.txt", "good\n");
        },
        PASSED,
    );
    // Whoever opens the folder now finds nothing to open.
    remove(&watched.story, "tasks/t.json");
    watched.fence();
    let shown = watched.until_quiet();
    assert!(
        shown.iter().any(|shown| matches!(shown, Shown::Refused(_))),
        "{shown:#?}"
    );
    watched.one_run(|story| story.write("tasks/t.json", TASK), PASSED);
}

#[test]
fn a_fault_is_shown_and_mended() {
    let mut watched = Watched::plain();
    for path in ["tasks/t.json", "aebuild.toml"] {
        let before = fs::read(watched.story.path(path)).unwrap();
        let shown = watched.after(|story| story.write(path, "{"));
        assert!(
            shown.iter().any(|shown| matches!(shown, Shown::Refused(_))),
            "{shown:#?}"
        );
        watched.one_run(|story| story.write(path, &before), PASSED);
    }
}

#[test]
fn a_watch_that_begins_with_a_fault_goes_on_when_it_is_mended() {
    let story = plain();
    story.write("tasks/t.json", "[");
    let mut watched = Watched::start(story, How::new());
    watched.one_run(|story| story.write("tasks/t.json", TASK), PASSED);
}

#[test]
fn the_configuration_is_watched() {
    let mut watched = Watched::plain();
    let before = fs::read_to_string(watched.story.path("aebuild.toml")).unwrap();
    let edited = format!("{before}\n[run]\njobs = 3\n");
    watched.one_run(|story| story.write("aebuild.toml", &edited), PASSED);
}

#[test]
fn what_git_ignores_counts_where_a_key_depends_on_it_and_nowhere_else() {
    let story = plain();
    story.write(".gitignore", "*.log\ndata.txt\n__pycache__\n");
    story.write("tasks/notes.log", "");
    let mut watched = Watched::start(story, How::new());
    watched.one_run(
        |story| story.write("artifacts/data/data.txt", "bad\n"),
        FAILED,
    );
    watched.no_run(|story| {
        story.write("tasks/notes.log", "more\n");
        story.write("artifacts/data/__pycache__/x.pyc", "x");
    });
}

#[test]
fn what_is_asked_for_by_a_key_runs() {
    let mut watched = Watched::plain();
    for (key, ran) in [(b'r', false), (b'f', true), (b't', false)] {
        watched.send(aebuild::watch::Message::Key(key));
        let shown = watched.until_quiet();
        let starts = |what: &&aebuild::event::StepEvent| {
            matches!(what, aebuild::event::StepEvent::Started { .. })
        };
        assert_eq!(of_step(&shown, "check").iter().any(starts), ran);
        assert_eq!(runs(&shown), 1);
    }
    // What was asked for once is not asked for again.
    watched.one_run(
        |story| story.write("artifacts/data/data.txt", "good too\n"),
        PASSED,
    );
}
