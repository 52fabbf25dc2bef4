//! What must not be taken for what it was: names that come to mean something else, files that come, go or change while a
//! run is planned, and states that are kept in another way.

use aebuild::event::Outcome;
use aebuild::session::SessionError;

use super::{World, failures, holding};
use crate::story::Story;

#[track_caller]
fn ran(world: &World, expected: &str) {
    world.story.settle();
    let seen = world.run();
    assert_eq!(failures(&seen), Vec::<String>::new());
    assert_eq!(seen.ran(), expected);
}

#[test]
fn a_name_that_comes_to_mean_another_env_is_another_env() {
    let world = World::builtin();
    world.task(&["set a 1"], &[]);
    ran(&world, "p1");
    ran(&world, "");
    // A folder that no name means.
    world
        .story
        .write("envs/other/env.toml", "builtin = \"files\"\n");
    ran(&world, "");
    world
        .story
        .write("aliases.toml", "[envs]\nother = [\"kv\"]\n");
    world
        .story
        .write("aebuild.toml", "[sandbox]\nisolation = \"none\"\n");
    world.story.settle();
    let Err(SessionError::Faults(faults)) = world.run().result else {
        panic!("the other env has no tool `set`");
    };
    assert_eq!(faults[0].headline, "env `kv` has no tool `set`");
    // The alias goes, and the name means what it meant.
    std::fs::remove_file(world.story.path("aliases.toml")).unwrap();
    ran(&world, "");
}

#[test]
fn a_lock_file_that_appears_in_a_mounted_folder_is_seen() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    world.story.write("tools/readme", "");
    let world = world.set("mount = [\"tools\"]");
    world.task(&["set a 1"], &[]);
    ran(&world, "p1");
    ran(&world, "");
    world.story.write("tools/package-lock.json", "{}");
    ran(&world, "p1");
    ran(&world, "");
    std::fs::remove_file(world.story.path("tools/package-lock.json")).unwrap();
    // The results of before are still there.
    ran(&world, "");
    world.story.write("tools/package-lock.json", "{\"a\": 1}");
    ran(&world, "p1");
}

#[test]
fn a_state_that_was_exported_does_not_stand_in_for_a_recording() {
    let world = World::builtin();
    world.task(&["set a 1", "get a"], &["a=1"]);
    ran(&world, "check p1 p2");
    let world = world.set("state = \"replay\"");
    ran(&world, "check p1 p2");
    world.check(&["a=2"]);
    world.story.settle();
    let seen = world.run();
    assert_eq!(
        (seen.ran().as_str(), seen.provisioned().as_str()),
        ("check", "check:replay")
    );
    let world = world.set("read_only_tools = [\"*\"]");
    world.story.settle();
    // What was replayed was on record; now nothing would be.
    assert_eq!(world.run().ran(), "check p1 p2");
}

#[test]
fn a_file_of_an_env_that_changes_after_the_plan_fails_the_run() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    world.story.write("envs/kv/more.txt", "planned");
    // A sandbox that is only a folder is below the workspace.
    let up = "d=$PWD; until [ -d $d/envs ]; do d=$(dirname $d); done";
    world.steps(&[
        r#"{"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"}"#.to_owned(),
        format!(
            r#"{{"id": "edit", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": "edit",
                "criteria": [{{"type": "bash_cmd_succeeds", "bash_cmd": "{up}; echo later > $d/envs/kv/more.txt"}}]}}"#
        ),
        r#"{"id": "kv", "type": "deploy_env", "env_id": "kv"}"#.to_owned(),
        r#"{"id": "solver", "type": "deploy_agent", "agent_name": "solver", "env_ids": ["kv"]}"#.to_owned(),
        r#"{"id": "p1", "type": "prompt_agent", "agent_name": "solver", "prompt": "set a 1"}"#.to_owned(),
    ]);
    world.story.settle();
    let errors = failures(&world.run()).join("\n");
    assert!(
        errors.contains("`more.txt` of env `kv` changed since the run was planned"),
        "{errors}"
    );
    // The next run plans with what is there.
    let seen = world.run();
    assert_eq!(failures(&seen), Vec::<String>::new());
    assert_eq!(seen.ran(), "p1");
}

#[test]
fn a_sandbox_that_holds_a_value_that_is_passed_on_is_not_kept() {
    const SECRET: &str = "canary-8a71ff02c9";
    let story = Story::new();
    story.write(
        "aebuild.toml",
        "[sandbox]\nisolation = \"none\"\npass_variables = [\"BOX_SECRET\"]\n[cache]\ndurability = \"fast\"\n",
    );
    story.write(
        "tasks/t.json",
        r#"[
          {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
          {"id": "leak", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": "leak",
           "criteria": [{"type": "bash_cmd_succeeds", "bash_cmd": "mkdir -p deep; echo x$BOX_SECRET > deep/env"}]},
          {"id": "look", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": "look",
           "criteria": [{"type": "bash_cmd_succeeds", "bash_cmd": "test -s deep/env"}]}
        ]"#,
    );
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_aebuild"))
        .arg("run")
        .arg(story.path(""))
        .arg("--cache-dir")
        .arg(story.cache_dir())
        .env("BOX_SECRET", SECRET)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("/app/deep/env` holds the value of a variable"),
        "{said}"
    );
    let none: Vec<String> = Vec::new();
    assert_eq!(holding(&story.cache_dir(), SECRET.as_bytes()), none);
    assert_eq!(holding(&story.path(""), SECRET.as_bytes()), none);
}

#[test]
fn what_a_retry_takes_back_is_not_left_on_a_server_that_goes_on() {
    let Some(world) = World::new("http", &[]) else {
        return;
    };
    world.story.write("artifacts/seed/seed.txt", "seeded");
    world.story.write(
        "agents/solver/agent.toml",
        r#"
type = "scripted"
[[rules]]
prompt = "^set"
[[rules.calls]]
tool = "set"
arguments = { key = "a", value = "1" }
[[rules]]
prompt = "^look"
reply = "{{seen.value}}"
[[rules.calls]]
tool = "look"
arguments = { key = "seed" }
save = "seen"
[[rules]]
prompt = "^fail"
attempts = 1
fail = "no"
[[rules]]
prompt = "^fail"
reply = "yes"
"#,
    );
    world.check(&["seed=absent"]);
    let prompt = |id: &str, prompt: &str, more: &str| {
        format!(
            r#"{{"id": "{id}", "type": "prompt_agent", "agent_name": "solver", "prompt": "{prompt}"{more}}}"#
        )
    };
    world.steps(&[
        r#"{"id": "kv", "type": "deploy_env", "env_id": "kv"}"#.to_owned(),
        r#"{"id": "solver", "type": "deploy_agent", "agent_name": "solver", "env_ids": ["kv"]}"#.to_owned(),
        prompt("p1", "set", ""),
        prompt("p2", "look", ""),
        r#"{"id": "seed", "type": "load_artifact", "env_id": "kv", "artifact_id": "seed", "destination_path": "/app"}"#
            .to_owned(),
        prompt("p3", "fail", r#", "retry_config": {"retry_from_step_id": "p2", "max_retries": 1}"#),
        r#"{"id": "check", "type": "env_outcome_verifier", "env_id": "kv", "file_artifact_id": "check"}"#.to_owned(),
    ]);
    let seen = world.run();
    let errors = failures(&seen);
    assert!(
        errors.len() == 1 && errors[0].ends_with("agent=solver): no"),
        "{errors:?}"
    );
    assert_eq!(seen.ran(), "check p1 p2 p2 p3 p3 seed seed");
    assert_eq!(seen.outcome(), Outcome::Passed);
}

#[test]
fn a_call_that_a_failed_verifier_left_behind_does_not_hold_up_the_run() {
    let Some(world) = World::new("stdio", &[]) else {
        return;
    };
    world.task(&["set a 1"], &[]);
    world.story.write(
        "artifacts/check/verify.py",
        r#"
import json, os, threading, time, urllib.request

def verify(mcp_url):
    url = mcp_url.removesuffix("/mcp") + "/step"
    body = json.dumps({"action": "call_tool", "tool_name": "hang", "arguments": {}}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    threading.Thread(target=urllib.request.urlopen, args=[request], daemon=True).start()
    while not os.path.exists(LEFT):
        time.sleep(0.01)
    raise ValueError("the rest does not matter")
"#
        .replace("LEFT", &format!("{:?}", world.story.path("left/hangs"))),
    );
    let mut steps = std::fs::read_to_string(world.story.path("tasks/t.json")).unwrap();
    steps.truncate(steps.rfind(']').unwrap());
    steps.push_str(
        r#", {"id": "check", "type": "env_outcome_verifier", "env_id": "kv", "file_artifact_id": "check"},
             {"id": "p2", "type": "prompt_agent", "agent_name": "solver", "prompt": "get a"}]"#,
    );
    world.story.write("tasks/t.json", steps);
    let errors = failures(&world.run());
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("the rest does not matter"), "{errors:?}");
}
