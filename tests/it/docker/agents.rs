//! Agents that are containers.

use aebuild::json::{Value, json};

use super::{Engine, engine, interrupt_and_kill, run};
use crate::support::World;

const AGENT: &str = include_str!("../fixtures/agent.py");
const DOCKERFILE: &str =
    "FROM aebuild-test-base:1\nCOPY agent.py /srv/\nCMD [\"/python\", \"-u\", \"/srv/agent.py\"]\n";

/// Returns a world whose agent of that name is built and prompted with each text.
fn world(name: &str, prompts: &[&str]) -> World {
    let world = World::new();
    world.write(&format!("agents/{name}/Dockerfile"), DOCKERFILE);
    world.write(&format!("agents/{name}/agent.py"), AGENT);
    task(&world, name, prompts);
    world
}

/// Writes a task that prompts an agent with each text; it has an env, and a peer.
fn task(world: &World, name: &str, prompts: &[&str]) {
    task_with(world, name, prompts, None);
}

/// Writes the same task with a step after all others.
fn task_with(world: &World, name: &str, prompts: &[&str], last: Option<Value>) {
    world.write(
        "agents/helper/agent.toml",
        "type = \"scripted\"\n[[rules]]\nreply = \"{{prompt}} yourself\"\n",
    );
    let mut steps = vec![
        json!({"id": "kv", "type": "deploy_env", "env_id": "kv"}),
        json!({"id": "agent", "type": "deploy_agent", "agent_name": name, "env_ids": ["kv"],
               "env_vars": {"OF_STEP": "3"}}),
        json!({"id": "helper", "type": "deploy_agent", "agent_name": "helper"}),
        json!({"id": "peers", "type": "peer_agents",
               "peerings": [{"source_agent_name": name, "peer_agent_names": ["helper"]}]}),
    ];
    for (at, prompt) in prompts.iter().enumerate() {
        steps.push(
            json!({"id": format!("p{at}"), "type": "prompt_agent", "agent_name": name, "prompt": prompt}),
        );
    }
    steps.extend(last);
    world.write("tasks/t.json", &Value::Array(steps).to_string());
}

/// Returns what the agent answered to each prompt.
fn replies(world: &World) -> Vec<String> {
    let context = std::fs::read_to_string(world.path().join("out.json")).unwrap();
    let context: Value = serde_json::from_str(&context).unwrap();
    let replies = context["prompt_responses"].as_array().unwrap();
    let text = |reply: &Value| reply["response"].as_str().unwrap().to_owned();
    replies.iter().map(text).collect()
}

/// Asserts that no container of an agent is there.
#[track_caller]
fn nothing_is_left(engine: &Engine, name: &str) {
    let left = engine.labelled(&format!("aebuild.agent={name}"));
    assert_eq!(left, [] as [Value; 0]);
}

#[test]
fn an_agent_is_built_and_works_on_its_env_and_leaves_nothing_behind() {
    let Some(engine) = engine() else { return };
    let prompts = [
        "set kv a 1",
        "heard",
        "ask helper hello",
        "variable OF_TABLE",
        "variable OF_STEP",
        "length OF_MACHINE",
    ];
    let world = world("solver", &prompts);
    world.write(
        "artifacts/check/verify.toml",
        "[[expect]]\ncall = { tool = \"get\", arguments = { key = \"a\" } }\npath = \"$.value\"\nequals = \"1\"\n",
    );
    let check = json!({"id": "check", "type": "env_outcome_verifier", "env_id": "kv", "file_artifact_id": "check"});
    task_with(&world, "solver", &prompts, Some(check));
    let dockerfile = format!("{DOCKERFILE}LABEL aebuild.test=solver\n");
    world.write("agents/solver/Dockerfile", &dockerfile);
    world.write(
        "aebuild.toml",
        "[agents.solver]\nvariables = { OF_TABLE = \"2\" }\npass_variables = [\"OF_MACHINE\"]\n",
    );
    // A value of this machine is told to nobody else, so it is seen by its length.
    let secret = "canary-5d9f3c1b7e";
    let run_it = |host: &str| {
        let mut command = super::command(&world, host);
        let output = command.env("OF_MACHINE", secret).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (said, output.status.success())
    };
    let (said, passed) = run_it(&engine.host);
    assert!(passed && said.contains("(check: 1)"), "{said}");
    let expected = [
        "set, and heard 1",
        "heard 1 of 2",
        "hello yourself",
        "2",
        "3",
        "17",
    ];
    assert_eq!(replies(&world), expected);
    nothing_is_left(&engine, "solver");

    // Who has answered is not asked again, and what is not asked is not started.
    let (said, passed) = run_it("unix:///nowhere");
    assert!(passed && said.contains("0 ran"), "{said}");

    // What it is made of is part of what it answers.
    let edited = AGENT.replace("{HEARD[context]} of", "{HEARD[context]} out of");
    world.write("agents/solver/agent.py", &edited);
    let (said, passed) = run_it(&engine.host);
    assert!(
        passed && said.contains("p5 (prompt_agent): agent `solver` changed"),
        "{said}"
    );
    assert_eq!(replies(&world)[1], "heard 1 out of 2");
    nothing_is_left(&engine, "solver");

    // The image has a name by which others may use it, too; they say on which port it serves.
    let image = engine.image("{\"label\":[\"aebuild.test=solver\"]}");
    let name = image.as_str().unwrap();
    assert!(name.starts_with("aebuild-agent:"), "{name}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let other = World::new();
    task(&other, "named", &["heard", "variable PORT"]);
    other.write(
        "aebuild.toml",
        &format!("[agents.named]\ntype = \"a2a\"\nimage = {image}\nport = {port}\n"),
    );
    let (said, passed) = run(&other, &engine.host);
    assert!(passed, "{said}");
    assert_eq!(replies(&other)[1], port.to_string());
    nothing_is_left(&engine, "named");

    // Two tasks that need the same port have it one after the other.
    let text = std::fs::read_to_string(other.path().join("tasks/t.json")).unwrap();
    for task in ["u", "v"] {
        let text = text.replace("\"heard\"", &format!("\"heard {task}\""));
        other.write(&format!("tasks/{task}.json"), &text);
    }
    let mut command = other.command(env!("CARGO_BIN_EXE_aebuild"));
    let command = command.args(["run", "."]).env("DOCKER_HOST", &engine.host);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    nothing_is_left(&engine, "named");
}

#[test]
fn an_agent_whose_container_serves_nothing_is_told_with_its_last_lines() {
    let Some(engine) = engine() else { return };
    let fails = |dockerfile: &str, table: &str, wanted: &[&str]| {
        let world = world("broken", &["die"]);
        world.write("agents/broken/Dockerfile", dockerfile);
        world.write("aebuild.toml", &format!("[agents.broken]\n{table}"));
        let (said, passed) = run(&world, &engine.host);
        assert!(!passed, "{said}");
        for wanted in wanted {
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
        nothing_is_left(&engine, "broken");
    };
    let python = |code: &str| {
        format!("FROM aebuild-test-base:1\nCMD [\"/python\", \"-u\", \"-c\", \"{code}\"]\n")
    };
    fails(
        &python("print('no luck'); raise SystemExit(4)"),
        "",
        &[
            "it could not be started: it ended with exit code 4; its last lines:",
            "no luck",
        ],
    );
    fails(
        &python("print('warming up'); import time; time.sleep(600)"),
        "ready_timeout_seconds = 1",
        &[
            "it did not get ready within 1 s: nothing listens at http://127.0.0.1:",
            "warming up",
        ],
    );
    fails(
        DOCKERFILE,
        "image = \"localhost:9/nobody\"",
        &["image `localhost:9/nobody` is not on this machine, and pulling"],
    );
    fails(
        "FROM aebuild-test-base:1\nRUN [\"/python\", \"-c\", \"print('no way'); raise SystemExit(4)\"]\n",
        "",
        &["its Dockerfile cannot be built:", "no way"],
    );
    fails(
        DOCKERFILE,
        "",
        &["it ended with exit code 3; its last lines:", "last words"],
    );
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    fails(
        DOCKERFILE,
        &format!("port = {port}\nready_timeout_seconds = 1"),
        &[&format!("port {port} of this machine was in use for 1 s")],
    );
}

#[test]
fn without_an_engine_an_agent_says_how_it_would_be_run() {
    let world = world("alone", &["heard"]);
    let (said, passed) = run(&world, "unix:///nowhere/docker.sock");
    assert!(!passed, "{said}");
    for wanted in [
        "it runs in a container, but no Docker engine answers at unix:///nowhere/docker.sock",
        "`command` or `url` in [agents.alone] of aebuild.toml",
    ] {
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn ctrl_c_removes_the_container_of_an_agent_and_the_next_run_what_a_killed_one_left() {
    let Some(engine) = engine() else { return };
    let world = world("stuck", &["heard"]);
    let hangs =
        "FROM aebuild-test-base:1\nCMD [\"/python\", \"-c\", \"import time; time.sleep(600)\"]\n";
    world.write("agents/stuck/Dockerfile", hangs);
    interrupt_and_kill(&engine, &world, "aebuild.agent=stuck");
    world.write("agents/stuck/Dockerfile", DOCKERFILE);
    let (said, passed) = run(&world, &engine.host);
    assert!(passed, "{said}");
    nothing_is_left(&engine, "stuck");
}
