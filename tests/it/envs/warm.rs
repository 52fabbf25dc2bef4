//! Live things that wait for the next run of a session.

use aebuild::session::{Change, RunOptions, Session};
use rustix::process::{Pid, Signal, kill_process};

use super::World;
use crate::story::Seen;

/// A session that stays open, as a watch has it.
struct Open<'a> {
    world: &'a World,
    session: Session,
}

impl<'a> Open<'a> {
    fn on(world: &'a World) -> Self {
        let session = world.story.session().unwrap();
        Open { world, session }
    }

    /// Takes in what was written since, and runs.
    fn run(&mut self) -> Seen {
        self.world.story.settle();
        self.session.apply_changes(&[Change::Rescan]);
        let options = RunOptions {
            warm: true,
            ..RunOptions::default()
        };
        self.world.story.run_in(&mut self.session, &options)
    }
}

/// What ran, and how what it needed got there.
fn ran(seen: &Seen) -> [String; 2] {
    assert_eq!(super::failures(seen), [""; 0]);
    [seen.ran(), seen.provisioned()]
}

#[test]
fn a_warm_env_at_the_state_that_a_step_needs_is_used_as_it_is() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    world.task(&["set a one"], &["a=one"]);
    let mut open = Open::on(&world);
    assert_eq!(ran(&open.run()), ["check p1", "p1:create check:reuse"]);
    world.check(&["a=one", "a=one"]);
    assert_eq!(ran(&open.run()), ["check", "check:reuse"]);
    // A run in which nothing is needed leaves it up.
    assert_eq!(ran(&open.run()), ["", ""]);
    world.check(&["a=one"; 3]);
    assert_eq!(ran(&open.run()), ["check", "check:reuse"]);
    // What needs another state gets there as ever.
    world.task(&["set a two"], &["a=two"]);
    assert_eq!(ran(&open.run()), ["check p1", "p1:create check:reuse"]);
    open.session.end_warm().unwrap();
    world.check(&["a=two", "a=two"]);
    assert_eq!(ran(&open.run()), ["check", "check:replay"]);
}

#[test]
fn another_env_under_the_same_name_is_made_anew() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    world.task(&["set a one"], &["a=one"]);
    let mut open = Open::on(&world);
    assert_eq!(ran(&open.run()), ["check p1", "p1:create check:reuse"]);
    let server = format!("{}\n# another\n", super::SERVER);
    world.story.write("envs/kv/server.py", server);
    assert_eq!(ran(&open.run()), ["check p1", "p1:create check:reuse"]);
}

#[test]
fn an_env_that_died_between_runs_is_brought_back() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    world.task(&["set a one"], &["a=one"]);
    let mut open = Open::on(&world);
    assert_eq!(ran(&open.run()), ["check p1", "p1:create check:reuse"]);
    for process in world.processes() {
        kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    }
    world.check(&["a=one", "a=one"]);
    assert_eq!(ran(&open.run()), ["check", "check:replay"]);
}

#[test]
fn nothing_is_left_of_warm_things_when_the_session_is_over() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    world.task(&["set a one"], &["a=one"]);
    let mut open = Open::on(&world);
    open.run();
    assert_eq!(world.processes().len(), 1);
    drop(open);
    assert_eq!(world.processes().len(), 0);
}

#[test]
fn a_warm_sandbox_is_used_again_unless_something_still_runs_in_it() {
    let world = World::builtin();
    let task = |left: &str, check: &str| {
        let sandbox = r#"{"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"}"#;
        let step = |id: &str, command: &str| {
            format!(
                r#"{{"id": "{id}", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": "{id}", "criteria": [{{"type": "bash_cmd_succeeds", "criterion": "It works.", "bash_cmd": "{command}"}}]}}"#
            )
        };
        let make = step("make", &format!("echo a > a.txt; {left}"));
        world.steps(&[sandbox.to_owned(), make, step("look", check)]);
    };
    task("true", "test -f a.txt");
    let mut open = Open::on(&world);
    assert_eq!(ran(&open.run()), ["look make", "make:create look:reuse"]);
    task("true", "test -e a.txt");
    assert_eq!(ran(&open.run()), ["look", "look:reuse"]);
    // It leaves the same state, and a process.
    task("sleep 1000 &", "test -e a.txt");
    assert_eq!(ran(&open.run()), ["make", "make:create"]);
    task("sleep 1000 &", "test -r a.txt");
    assert_eq!(ran(&open.run()), ["look", "look:restore"]);
}
