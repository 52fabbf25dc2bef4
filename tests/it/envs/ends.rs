//! Ends in the middle of a call: of the env, of aebuild, of an attempt.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Child;

use aebuild::event::Outcome;
use rustix::process::{Pid, Signal, kill_process};

use super::{World, failures, until};

#[test]
fn an_attempt_that_goes_back_to_the_deploy_step_gets_a_fresh_env() {
    for (how, rung) in [("stdio", "create"), ("http", "create")] {
        let Some(world) = World::new(how, &[]) else {
            return;
        };
        world.steps(&[
            r#"{"id": "kv", "type": "deploy_env", "env_id": "kv"}"#.to_owned(),
            r#"{"id": "solver", "type": "deploy_agent", "agent_name": "solver", "env_ids": ["kv"]}"#.to_owned(),
            r#"{"id": "p1", "type": "prompt_agent", "agent_name": "solver", "prompt": "break a",
                "retry_config": {"retry_from_step_id": "kv", "max_retries": 1}}"#.to_owned(),
        ]);
        let seen = world.run();
        let errors = failures(&seen);
        assert_eq!(errors.len(), 2, "{errors:?}");
        for error in errors {
            assert!(error.ends_with("it was null before"), "{error}");
        }
        assert_eq!(seen.provisioned(), format!("p1:{rung} p1:{rung}"));
    }
}

/// A task whose second prompt hangs, once.
fn hanging(how: &str) -> Option<World> {
    let world = World::new(how, &[])?;
    world.task(&["set a 1", "hang"], &["a=1", "half=done"]);
    Some(world)
}

/// Waits until the env hangs and returns its process.
fn hangs(world: &World) -> Pid {
    let file = world.story.path("left/hangs");
    until("the env hangs", || file.exists());
    let pid = fs::read_to_string(file).unwrap();
    Pid::from_raw(pid.parse().unwrap()).unwrap()
}

/// Runs on: what was kept stands, the rest is made, and nothing of the broken run is in it.
#[track_caller]
fn goes_on(world: &World) {
    let seen = world.run();
    assert_eq!(seen.outcome(), Outcome::Passed, "{:?}", failures(&seen));
    assert_eq!(
        (seen.hit().as_str(), seen.ran().as_str()),
        ("p1", "check p2")
    );
}

#[test]
fn an_env_that_is_killed_in_a_call_fails_the_step_and_the_next_run_goes_on() {
    for how in ["stdio", "http"] {
        let Some(world) = hanging(how) else { return };
        let seen = std::thread::scope(|scope| {
            let run = scope.spawn(|| world.story.run());
            kill_process(hangs(&world), Signal::KILL).unwrap();
            run.join().unwrap()
        });
        assert_eq!(
            failures(&seen),
            ["p2: env `kv` is gone: it was ended by signal 9"]
        );
        world.nothing_is_left();
        goes_on(&world);
    }
}

fn start(world: &World) -> Child {
    world.command("run").spawn().unwrap()
}

#[test]
fn after_kill_9_in_a_call_the_next_run_cleans_up_and_goes_on() {
    for how in ["stdio", "http"] {
        let Some(world) = hanging(how) else { return };
        let mut child = start(&world);
        hangs(&world);
        child.kill().unwrap();
        child.wait().unwrap();
        // Without a wall nobody ends a server whose parent was killed, before the next run does. Whether the first step
        // was kept already depends on the moment.
        let seen = world.run();
        assert_eq!(seen.outcome(), Outcome::Passed, "{:?}", failures(&seen));
    }
}

#[test]
fn behind_a_wall_an_env_dies_with_aebuild() {
    if !crate::space::bubblewrap_works() {
        return;
    }
    for how in ["stdio", "http"] {
        let Some(world) = hanging(how) else { return };
        let toml = fs::read_to_string(world.story.path("aebuild.toml")).unwrap();
        world
            .story
            .write("aebuild.toml", toml.replace("\"none\"", "\"bubblewrap\""));
        let mut child = world.command("run").arg("--json").spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let is_second = |line: &String| line.contains("\"p2\"") && line.contains("started");
        assert!(lines.any(|line| is_second(&line)));
        assert_ne!(world.processes(), [0; 0]);
        child.kill().unwrap();
        child.wait().unwrap();
        until("the env is gone", || world.processes().is_empty());
    }
}

#[test]
fn ctrl_c_in_a_call_ends_the_env_and_the_next_run_goes_on() {
    for how in ["stdio", "http"] {
        let Some(world) = hanging(how) else { return };
        let mut child = start(&world);
        hangs(&world);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        world.nothing_is_left();
        goes_on(&world);
    }
}
