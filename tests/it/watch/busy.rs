//! Edits while a run goes on.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use aebuild::event::StepEvent;
use aebuild::watch::OnBusy;

use super::{How, Shown, TASK, Watched, of_step, runs};
use crate::story::Story;

/// A task in which `slow` waits at a gate, and `check` comes after it.
fn task(gate: &str, said: &str, pattern: &str) -> String {
    format!(
        r#"[
  {{"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"}},
  {{"id": "slow", "type": "verify_sandbox", "depends_on": ["box"], "sandbox_name": "box", "criteria": [
    {{"type": "bash_cmd_succeeds", "criterion": "it is let through", "bash_cmd": "read line < {gate} && echo {said} > out"}}]}},
  {{"id": "check", "type": "verify_sandbox", "depends_on": ["slow"], "sandbox_name": "box", "criteria": [
    {{"type": "bash_cmd_succeeds", "criterion": "it is as it should be", "bash_cmd": "grep -q {pattern} out"}}]}}
]"#
    )
}

struct Gated {
    watched: Watched,
    path: PathBuf,
    /// Held open, so that nobody waits for the other end.
    gate: File,
}

impl Gated {
    /// Starts a watch whose run waits at the gate.
    fn start(on_busy: OnBusy) -> Self {
        let story = Story::in_reach();
        let gate = story.path("../gate");
        let made = Command::new("mkfifo").arg(&gate).status().unwrap();
        assert!(made.success());
        story.write(
            "tasks/t.json",
            task(&gate.display().to_string(), "one", "one"),
        );
        let how = How {
            on_busy,
            ..How::new()
        };
        let open = File::options().read(true).write(true).open(&gate);
        let watched = Watched::start_busy(story, how);
        let mut gated = Gated {
            watched,
            path: gate,
            gate: open.unwrap(),
        };
        gated.until_slow_runs();
        gated
    }

    fn until_slow_runs(&mut self) -> Vec<Shown> {
        self.watched.until(|shown| {
            let is_slow = |step: &String| step == "slow";
            matches!(shown, Shown::Step(step, StepEvent::Started { .. }) if is_slow(step))
        })
    }

    fn edit(&self, said: &str, pattern: &str) {
        let gate = self.path.display().to_string();
        self.watched
            .story
            .write("tasks/t.json", task(&gate, said, pattern));
        self.watched.fence();
    }

    /// Lets `slow` through, once.
    fn open(&mut self) {
        self.gate.write_all(b"go\n").unwrap();
    }
}

fn is_aborted(shown: &[Shown], step: &str) -> bool {
    of_step(shown, step).contains(&&StepEvent::Aborted)
}

fn is_hit(shown: &[Shown], step: &str) -> bool {
    let events = of_step(shown, step);
    events
        .iter()
        .any(|what| matches!(what, StepEvent::Hit { .. }))
}

#[test]
fn an_edit_of_the_verifier_does_not_stop_what_runs_before_it() {
    let mut gated = Gated::start(OnBusy::Restart);
    gated.edit("one", "on");
    let before = gated.watched.until(|shown| *shown == Shown::Cut);
    gated.open();
    let shown = gated
        .watched
        .until(|shown| matches!(shown, Shown::Idle(..)));
    assert!(
        !is_aborted(&before, "slow") && !is_aborted(&shown, "slow"),
        "{shown:#?}"
    );
    // The old verifier never ran, the new one did, and what it depends on was kept.
    assert_eq!(of_step(&shown, "check")[0], &StepEvent::Skipped);
    assert!(is_hit(&shown, "slow"), "{shown:#?}");
    assert_eq!(runs(&shown), 1);
    assert_eq!(gated.watched.ends, "tasks/t.json passed 1 1\n");
}

#[test]
fn an_edit_of_what_runs_stops_it() {
    let mut gated = Gated::start(OnBusy::Restart);
    gated.edit("two", "two");
    let first = gated.until_slow_runs();
    assert!(is_aborted(&first, "slow"), "{first:#?}");
    gated.open();
    let shown = gated
        .watched
        .until(|shown| matches!(shown, Shown::Idle(..)));
    assert_eq!(
        gated.watched.ends, "tasks/t.json passed 1 1\n",
        "{shown:#?}"
    );
}

#[test]
fn an_edit_that_is_none_stops_nothing() {
    let mut gated = Gated::start(OnBusy::Restart);
    gated.edit("one", "one");
    gated.watched.until(|shown| *shown == Shown::Cut);
    gated.open();
    let shown = gated.watched.until_quiet();
    assert_eq!(runs(&shown), 0, "{shown:#?}");
    assert!(!is_aborted(&shown, "slow"));
    assert_eq!(gated.watched.ends, "tasks/t.json passed 1 1\n");
}

#[test]
fn a_fault_that_is_typed_meanwhile_stops_nothing_and_is_shown_afterwards() {
    let mut gated = Gated::start(OnBusy::Restart);
    gated.watched.story.write("tasks/t.json", "{");
    gated.watched.fence();
    gated.open();
    let shown = gated
        .watched
        .until(|shown| matches!(shown, Shown::Refused(_)));
    assert!(!is_aborted(&shown, "slow"));
    let ends = Shown::Ran("tasks/t.json passed 1 1\n".to_owned());
    assert!(shown.contains(&ends), "{shown:#?}");
    gated.edit("one", "one");
    let shown = gated.watched.until(|shown| matches!(shown, Shown::Ran(_)));
    assert!(shown.contains(&ends), "{shown:#?}");
}

#[test]
fn a_run_goes_on_to_its_end_where_that_is_asked_for() {
    let mut gated = Gated::start(OnBusy::Queue);
    gated.edit("two", "two");
    gated.open();
    let first = gated.watched.until(|shown| matches!(shown, Shown::Ran(_)));
    assert!(!is_aborted(&first, "slow"), "{first:#?}");
    assert_eq!(gated.watched.ends, "tasks/t.json passed 1 1\n");
    gated.until_slow_runs();
    gated.open();
    gated
        .watched
        .until(|shown| matches!(shown, Shown::Idle(..)));
    assert_eq!(gated.watched.ends, "tasks/t.json passed 1 1\n");
}

#[test]
fn who_quits_ends_the_run_first() {
    let mut gated = Gated::start(OnBusy::Restart);
    gated.watched.send(aebuild::watch::Message::Key(b'q'));
    let shown = gated.watched.until(|shown| matches!(shown, Shown::Ran(_)));
    assert!(is_aborted(&shown, "slow"), "{shown:#?}");
}

#[test]
fn a_step_that_writes_what_it_depends_on_and_goes_on_is_found_out() {
    let story = Story::in_reach();
    let gate = story.path("../gate");
    let made = Command::new("mkfifo").arg(&gate).status().unwrap();
    assert!(made.success());
    story.write("artifacts/data/count", "");
    let count = story.path("artifacts/data/count");
    // Nobody opens the gate, so each run waits until it is cut.
    let command = format!(
        "echo x >> {} && read line < {}",
        count.display(),
        gate.display()
    );
    story.write(
        "tasks/t.json",
        TASK.replace("grep -q good data.txt", &command),
    );
    let how = How {
        is_fenced: false,
        ..How::new()
    };
    let mut watched = Watched::start_busy(story, how);
    let shown = watched.until(|shown| matches!(shown, Shown::Held(_) | Shown::Began(20, _)));
    assert_eq!(runs(&shown), 10, "{shown:#?}");
    let held = format!("{:?}", shown.last());
    assert!(held.contains("artifacts/data/count"), "{held}");
}
