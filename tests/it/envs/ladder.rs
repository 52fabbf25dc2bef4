//! How the state of an env comes back: restored, replayed, or made again.

use std::fs;

use aebuild::event::Outcome;

use super::World;
use crate::story::Seen;

/// What ran, and how the env came to the states that were needed.
fn ran(seen: &Seen) -> (String, String) {
    assert_eq!(
        seen.outcome(),
        Outcome::Passed,
        "{:?}",
        super::failures(seen)
    );
    (seen.ran(), seen.provisioned())
}

fn both(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

fn plan(world: &World) -> String {
    let output = world.command("plan").output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_recorded_env_is_replayed_up_to_where_an_edit_begins() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    let write = |seed: &str, second: &str, wanted: &str| {
        world.story.write("artifacts/seed/seed.txt", seed);
        world.check(&[wanted, "a=one"]);
        world.steps(&[
            r#"{"id": "kv", "type": "deploy_env", "env_id": "kv"}"#.to_owned(),
            r#"{"id": "load", "type": "load_artifact", "env_id": "kv", "artifact_id": "seed", "destination_path": "/app"}"#.to_owned(),
            r#"{"id": "solver", "type": "deploy_agent", "agent_name": "solver", "env_ids": ["kv"]}"#.to_owned(),
            r#"{"id": "p1", "type": "prompt_agent", "agent_name": "solver", "prompt": "seed s"}"#.to_owned(),
            format!(r#"{{"id": "p2", "type": "prompt_agent", "agent_name": "solver", "prompt": "{second}"}}"#),
            r#"{"id": "check", "type": "env_outcome_verifier", "env_id": "kv", "file_artifact_id": "check"}"#.to_owned(),
        ]);
        world.story.settle();
    };
    write("red", "set a one", "s=red");
    assert_eq!(
        ran(&world.run()),
        both(
            "check load p1 p2",
            "load:create p1:reuse p2:reuse check:reuse"
        )
    );
    assert_eq!(ran(&world.run()), both("", ""));
    write("red", "set a one now", "s=red");
    // Another prompt that makes the same call leaves the same state.
    assert_eq!(ran(&world.run()), both("p2", "p2:replay"));
    world.check(&["s=red", "a=one", "s=red"]);
    let foreseen = plan(&world);
    let why =
        "env `kv` by replay: its state cannot be exported, so there is no snapshot to restore";
    assert!(foreseen.contains(why), "{foreseen}");
    assert_eq!(ran(&world.run()), both("check", "check:replay"));
    write("blue", "set a one", "s=blue");
    let seen = world.run();
    assert_eq!(
        ran(&seen),
        both(
            "check load p1 p2",
            "load:create p1:reuse p2:reuse check:reuse"
        )
    );
    assert!(
        seen.because("load")
            .contains("artifact `seed` file `seed.txt` changed")
    );
}

#[test]
fn an_exported_env_is_restored() {
    let Some(world) = World::new("http", &[]) else {
        return;
    };
    world.task(&["set a 1", "set b 1"], &["a=1"]);
    ran(&world.run());
    world.task(&["set a 1", "set b 2"], &["a=1"]);
    assert_eq!(
        ran(&world.run()),
        both("check p2", "p2:restore check:reuse")
    );
    world.check(&["a=1", "b=2"]);
    assert_eq!(ran(&world.run()), both("check", "check:restore"));
}

#[test]
fn an_env_without_a_state_is_made_again_and_the_plan_says_why() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    let world = world.set("state = \"none\"");
    world.task(&["set a 1", "set b 2"], &["a=1"]);
    ran(&world.run());
    world.check(&["a=1", "b=2"]);
    let foreseen = plan(&world);
    let why = "p1 (prompt_agent): `p2` needs the state of env `kv` after it: nothing is kept of its state, as `state = \"none\"` says";
    assert!(foreseen.contains(why), "{foreseen}");
    assert_eq!(ran(&world.run()).0, "check p1 p2");
}

#[test]
fn a_tool_that_changes_what_it_says_to_only_read_is_noticed_where_the_state_is_exported() {
    let Some(world) = World::new("http", &[]) else {
        return;
    };
    world.task(&["set a 1", "sneak a 2"], &["a=2"]);
    ran(&world.run());
    world.check(&["a=2", "a=2"]);
    assert_eq!(ran(&world.run()), both("check", "check:restore"));
}

/// Edits the check of a task and runs it: the env does not come back, which is told, and its makers run again.
#[track_caller]
fn comes_back_by_its_makers(world: &World, prompts: &[&str], why: &str) {
    world.task(prompts, &["b=2"]);
    ran(&world.run());
    world.check(&["b=2", "b=2"]);
    let seen = world.run();
    assert_eq!(ran(&seen).0, "check p1 p2", "{}", seen.notices());
    let notices = seen.notices();
    assert!(
        notices.contains(&format!("env `kv` cannot be brought back: {why}")),
        "{notices}"
    );
}

#[test]
fn an_env_that_does_not_take_its_own_export_is_made_again() {
    let Some(world) = World::new("http", &["add-fails"]) else {
        return;
    };
    let why = "its snapshot does not load: env `kv` answered `data/add` with error -32000: this state is too old";
    comes_back_by_its_makers(&world, &["set set-by-agent 1", "set b 2"], why);
}

#[test]
fn an_env_that_exports_another_state_than_it_loaded_is_made_again() {
    let Some(world) = World::new("http", &["other-state"]) else {
        return;
    };
    let why = "it holds another state than the snapshot that it loaded";
    comes_back_by_its_makers(&world, &["set a 1", "set b 2"], why);
}

#[test]
fn an_env_that_answers_otherwise_is_made_again_unless_the_place_is_volatile() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    let why = "call 1 of 2, `stamp`, answered otherwise than when it was recorded";
    comes_back_by_its_makers(&world, &["stamp a", "set b 2"], why);
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    let world = world.set("volatile = [\"$.id\"]");
    world.task(&["stamp a", "set b 2"], &["b=2"]);
    ran(&world.run());
    world.check(&["b=2", "a=stamped"]);
    let seen = world.run();
    assert_eq!(
        (ran(&seen), seen.notices()),
        (both("check", "check:replay"), String::new())
    );
}

#[test]
fn what_is_kept_of_a_state_and_damaged_is_told_and_made_again() {
    for (how, mark) in [("stdio", "\"calls\":["), ("http", "\"access\":[")] {
        let Some(world) = World::new(how, &[]) else {
            return;
        };
        world.task(&["set a 1", "set b 2"], &["a=1"]);
        ran(&world.run());
        let blobs = super::holding(&world.story.cache_dir(), mark.as_bytes());
        assert!(!blobs.is_empty());
        for blob in blobs {
            // What an agent calls is in the segment of records too, which is no text.
            let Ok(text) = fs::read_to_string(&blob) else {
                continue;
            };
            let mut permissions = fs::metadata(&blob).unwrap().permissions();
            std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o644);
            fs::set_permissions(&blob, permissions).unwrap();
            fs::write(&blob, text.replace("\"a\"", "\"z\"")).unwrap();
        }
        world.check(&["a=1", "b=2"]);
        let seen = world.run();
        assert_eq!(ran(&seen).0, "check p1 p2");
        let notices = seen.notices();
        assert!(
            notices.contains("what was kept of that state is damaged or gone"),
            "{how}: {notices}"
        );
    }
}
