//! The ways in which programs save a file.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::process::Command;

use super::{Shown, TASK, Watched, beside, link, remove, rename};
use crate::story::Story;

/// Saves a text at a path.
type Save = fn(&Story, &str, &str);

const PASSED: &str = "tasks/t.json passed 1\n";
const FAILED: &str = "tasks/t.json scored below 1 0\n";

/// Each save of an artifact and of a task is one run with the right verdict, also where it is saved twice.
#[track_caller]
fn check(save: Save) {
    let mut watched = Watched::plain();
    let data = "artifacts/data/data.txt";
    watched.one_run(|story| save(story, data, "bad\n"), FAILED);
    watched.one_run(|story| save(story, data, "good\n"), PASSED);
    let other = TASK.replace("grep -q good", "grep -q other");
    watched.one_run(|story| save(story, "tasks/t.json", &other), FAILED);
    watched.one_run(
        |story| {
            save(story, "tasks/t.json", &other);
            save(story, "tasks/t.json", TASK);
        },
        PASSED,
    );
}

#[test]
fn vim_writes_a_probe_and_a_swap_file_and_renames_the_old_file_away() {
    check(|story, path, text| {
        let swap = beside(path, ".", ".swp");
        story.write(&swap, "b0VIM 9.0");
        story.write(&beside(path, ".", ".swx"), "");
        remove(story, &beside(path, ".", ".swx"));
        let probe = format!("{}/4913", path.rsplit_once('/').unwrap().0);
        story.write(&probe, "");
        remove(story, &probe);
        let backup = beside(path, "", "~");
        rename(story, path, &backup);
        story.write(path, text);
        remove(story, &backup);
        remove(story, &swap);
    });
}

#[test]
fn emacs_locks_by_a_broken_link_and_leaves_a_backup() {
    check(|story, path, text| {
        let lock = beside(path, ".#", "");
        link(story, "user@host.123:1700000000", &lock);
        let autosave = beside(path, "#", "#");
        story.write(&autosave, text);
        rename(story, path, &beside(path, "", "~"));
        story.write(path, text);
        remove(story, &autosave);
        remove(story, &lock);
    });
}

#[test]
fn vs_code_empties_the_file_and_writes_it() {
    check(|story, path, text| {
        let open = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(story.path(path));
        let mut file = open.unwrap();
        let (first, second) = text.split_at(text.len() / 2);
        file.write_all(first.as_bytes()).unwrap();
        file.write_all(second.as_bytes()).unwrap();
        file.sync_all().unwrap();
    });
}

#[test]
fn nano_writes_over_the_file_and_cuts_it_off() {
    check(|story, path, text| {
        let mut file = OpenOptions::new()
            .write(true)
            .open(story.path(path))
            .unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.set_len(text.len() as u64).unwrap();
    });
}

#[test]
fn jetbrains_swaps_two_files() {
    check(|story, path, text| {
        let (new, old) = (
            beside(path, "", "___jb_tmp___"),
            beside(path, "", "___jb_old___"),
        );
        story.write(&new, text);
        rename(story, path, &old);
        rename(story, &new, path);
        remove(story, &old);
    });
}

#[test]
fn rsync_writes_a_dot_file_and_renames_it() {
    check(|story, path, text| {
        let new = beside(path, ".", ".Xy12Zq");
        story.write(&new, text);
        rename(story, &new, path);
    });
}

#[test]
fn gnome_writes_a_stream_and_renames_it() {
    check(|story, path, text| {
        let folder = path.rsplit_once('/').unwrap().0;
        let new = format!("{folder}/.goutputstream-X4YZ12");
        story.write(&new, text);
        rename(story, &new, path);
    });
}

#[test]
fn sed_edits_in_place_and_only_the_file_is_named() {
    let mut watched = Watched::plain();
    for (path, from, to, ends) in [
        ("artifacts/data/data.txt", "good", "bad", FAILED),
        ("artifacts/data/data.txt", "bad", "good", PASSED),
        ("tasks/t.json", "grep -q good", "grep -q other", FAILED),
    ] {
        let shown = watched.one_run(
            |story| {
                let mut sed = Command::new("sed");
                sed.args(["-i", &format!("s/{from}/{to}/")]);
                assert!(sed.arg(story.path(path)).status().unwrap().success());
            },
            ends,
        );
        assert_eq!(shown[0], Shown::Changed(vec![path.to_owned()]));
    }
}

#[test]
fn what_an_editor_keeps_beside_an_open_file_sets_nothing_off() {
    let mut watched = Watched::plain();
    let data = "artifacts/data/data.txt";
    for left in [
        beside(data, ".", ".swp"),
        beside(data, "", "~"),
        beside(data, "#", "#"),
        beside(data, ".~lock.", "#"),
    ] {
        watched.no_run(|story| story.write(&left, "b0VIM 9.0"));
        watched.no_run(|story| story.write(&left, "more"));
        watched.no_run(|story| remove(story, &left));
    }
    let lock = beside(data, ".#", "");
    watched.no_run(|story| link(story, "user@host.123:1700000000", &lock));
    watched.no_run(|story| remove(story, &lock));
    // A file of that name that is no backup of anything may be meant.
    watched.one_run(|story| story.write("artifacts/data/lone~", "x"), PASSED);
    watched.one_run(|story| story.write("artifacts/data/4913", "x"), PASSED);
}

#[test]
fn what_comes_and_goes_within_a_moment_sets_nothing_off() {
    let mut watched = Watched::plain();
    for path in ["artifacts/data/new.txt", "tasks/new.json"] {
        watched.no_run(|story| {
            story.write(path, "[]");
            remove(story, path);
        });
    }
    watched.no_run(|story| {
        rename(story, "artifacts/data", "artifacts/away");
        rename(story, "artifacts/away", "artifacts/data");
    });
}

#[test]
fn a_file_may_be_removed_and_written_anew() {
    check(|story, path, text| {
        remove(story, path);
        story.write(path, text);
    });
}

#[test]
fn a_checkout_of_another_branch_is_one_run() {
    let story = super::plain();
    let git = |story: &Story, line: &str| {
        let done = Command::new("sh")
            .args(["-ec", line])
            .current_dir(story.path(""))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{line}: {said}");
    };
    let lone = |word: &str| TASK.replace("grep -q good", &format!("grep -q {word}"));
    for n in 0..20 {
        story.write(&format!("tasks/more-{n:02}.json"), lone("good"));
    }
    story.write(".gitignore", ".aebuild\nfence\n");
    let commit = "git add -A && git -c user.name=a -c user.email=a@b commit -qm x";
    git(
        &story,
        &format!("git init -q -b main . && {commit} && git checkout -qb other"),
    );
    for n in 0..10 {
        story.write(&format!("tasks/more-{n:02}.json"), lone("nothing"));
        remove(&story, &format!("tasks/more-{:02}.json", n + 10));
        story.write(&format!("tasks/new-{n:02}.json"), lone("good"));
    }
    git(&story, &format!("{commit} && git checkout -q main"));
    let mut watched = Watched::start(story, super::How::new());
    let n_passed = |watched: &Watched| watched.ends.matches(" passed 1").count();
    assert_eq!(n_passed(&watched), 21);
    let shown = watched.after(|story| git(story, "git checkout -q other"));
    assert_eq!(
        (super::runs(&shown), n_passed(&watched)),
        (1, 11),
        "{shown:#?}"
    );
    let shown = watched.after(|story| git(story, "git checkout -q main"));
    assert_eq!(
        (super::runs(&shown), n_passed(&watched)),
        (1, 21),
        "{shown:#?}"
    );
}
