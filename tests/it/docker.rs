//! Envs and agents that are containers.
//!
//! `AEBUILD_TEST_DOCKER_HOST` names the engine, as `.ci/docker-engine` prints it; without it these tests say so and are
//! skipped. Nothing is pulled: the image is made of the Python of this machine.

mod agents;

use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use aebuild::json::{Value, json};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::World;

const SERVER: &str = include_str!("docker/server.py");
const DOCKERFILE: &str = "FROM aebuild-test-base:1\nCOPY server.py /srv/\nCMD [\"/python\", \"-u\", \"/srv/server.py\"]\n";

/// The engine for the tests.
#[derive(Clone)]
struct Engine {
    host: String,
}

/// Returns the engine with the base image in it, once for all tests.
fn engine() -> Option<Engine> {
    static ENGINE: OnceLock<Option<Engine>> = OnceLock::new();
    let make = || {
        let host = std::env::var("AEBUILD_TEST_DOCKER_HOST").ok();
        let Some(host) = host.filter(|host| !host.is_empty()) else {
            eprintln!(
                "SKIPPED docker: AEBUILD_TEST_DOCKER_HOST is not set (.ci/docker-engine start DIR prints one)"
            );
            return None;
        };
        let engine = Engine { host };
        let base = include_str!("docker/base.py");
        // That of a version manager may be spread over the machine, or much larger.
        let of_system = "/usr/bin/python3";
        let has_one = std::fs::exists(of_system).unwrap_or_default();
        let mut archive = Command::new(if has_one { of_system } else { "python3" })
            .args(["-c", base])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let import = "/images/create?fromSrc=-&repo=aebuild-test-base&tag=1";
        let bytes = archive.stdout.take().expect("it is piped");
        let said = engine.ask(&["-X", "POST", "-T", "-"], import, bytes.into());
        assert!(archive.wait().expect("it ended").success());
        assert!(said.contains("sha256:"), "{said}");
        Some(engine)
    };
    ENGINE.get_or_init(make).clone()
}

impl Engine {
    fn ask(&self, arguments: &[&str], path: &str, input: Stdio) -> String {
        let socket = self.host.strip_prefix("unix://").expect("a socket");
        let output = Command::new("curl")
            .args(["-sS", "--unix-socket", socket])
            .args(arguments)
            .arg(format!("http://docker{path}"))
            .stdin(input)
            .output()
            .expect("curl runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the labels of the containers that are an env; each test has envs of its own.
    fn containers(&self, env: &str) -> Vec<Value> {
        self.labelled(&format!("aebuild.env={env}"))
    }

    /// Returns the labels of the containers that have a label.
    fn labelled(&self, label: &str) -> Vec<Value> {
        let filters = format!("filters={{\"label\":[\"{label}\"]}}");
        let arguments = ["-G", "-d", "all=1", "--data-urlencode", &filters];
        let listed = self.ask(&arguments, "/containers/json", Stdio::null());
        let listed: Vec<Value> = serde_json::from_str(&listed).expect("a list");
        listed.iter().map(|one| one["Labels"].clone()).collect()
    }
}

impl Engine {
    /// Returns the name of an image that filters let through.
    fn image(&self, filters: &str) -> Value {
        let filters = format!("filters={filters}");
        let arguments = ["-G", "--data-urlencode", &filters];
        let images = self.ask(&arguments, "/images/json", Stdio::null());
        let images: Value = serde_json::from_str(&images).expect("a list");
        images[0]["RepoTags"][0].clone()
    }
}

/// Returns a world with an env that is built and the agent that uses it.
fn world(name: &str) -> World {
    let world = World::new();
    world.write(&format!("envs/{name}/env.toml"), "type = \"mcp_server\"\n");
    world.write(&format!("envs/{name}/Dockerfile"), DOCKERFILE);
    world.write(&format!("envs/{name}/server.py"), SERVER);
    agent(&world);
    world
}

/// Writes an agent that does what it is told.
fn agent(world: &World) {
    world.write(
        "agents/helper/agent.toml",
        "type = \"scripted\"\n\
         [[rules]]\nprompt = \"add (?<what>.*)\"\nreply = \"note {{added.n}} {{added.greeting}}\"\n\
         [[rules.calls]]\ntool = \"add_note\"\narguments = { text = \"{{match.what}}\" }\nsave = \"added\"\n\
         [[rules]]\nprompt = \"read (?<what>.*)\"\nreply = \"{{read.text}}\"\n\
         [[rules.calls]]\ntool = \"read_file\"\narguments = { text = \"{{match.what}}\" }\nsave = \"read\"\n\
         [[rules]]\nprompt = \"quit\"\nreply = \"never\"\n[[rules.calls]]\ntool = \"quit\"\n",
    );
}

fn task(world: &World, env: &str, prompts: &[&str], more: &[Value]) {
    let mut steps = vec![
        json!({"id": "env", "type": "deploy_env", "env_id": env}),
        json!({"id": "agent", "type": "deploy_agent", "agent_name": "helper", "env_ids": [env],
               "depends_on": [{"task_step_id": "env"}]}),
    ];
    steps.extend_from_slice(more);
    for (n, prompt) in prompts.iter().enumerate() {
        let mut before = vec![json!({"task_step_id": "agent"})];
        let others = more.iter().map(|step| json!({"task_step_id": step["id"]}));
        before.extend(others.filter(|step| step["task_step_id"] != "check"));
        steps.push(
            json!({"id": format!("prompt-{n}"), "type": "prompt_agent", "agent_name": "helper",
                   "prompt_id": format!("prompt-{n}"), "prompt": prompt, "depends_on": before}),
        );
    }
    // What looks at the end comes last.
    steps.sort_by_key(|step| step["id"] == "check");
    world.write("tasks/t.json", &Value::Array(steps).to_string());
}

fn command(world: &World, host: &str) -> Command {
    let mut command = world.command(env!("CARGO_BIN_EXE_aebuild"));
    command
        .args(["run", ".", "--output", "out.json"])
        .env("DOCKER_HOST", host);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the task and returns what is said, and whether it passed.
fn run(world: &World, host: &str) -> (String, bool) {
    let output = command(world, host).output().expect("the program starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (said, output.status.success())
}

#[test]
fn an_env_is_built_and_brought_back_and_leaves_nothing_behind() {
    let Some(engine) = engine() else { return };
    let world = world("notes");
    world.write(
        "aebuild.toml",
        "[envs.notes.variables]\nGREETING = \"hello\"\n",
    );
    world.write("artifacts/page/page.txt", "a page\n");
    let expected = "artifacts/expected/verify.toml";
    world.write(
        expected,
        "[[expect]]\nstate = \"$.notes\"\ncontains = \"milk\"\n",
    );
    let load = json!({"id": "load", "type": "load_artifact", "env_id": "notes", "artifact_id": "page",
                      "destination_path": "/srv/new", "depends_on": [{"task_step_id": "env"}]});
    let check = json!({"id": "check", "type": "env_outcome_verifier", "env_id": "notes",
                       "file_artifact_id": "expected", "verifier_id": "expected",
                       "depends_on": [{"task_step_id": "prompt-0"}, {"task_step_id": "prompt-1"}]});
    let prompts = ["add milk", "read /srv/new/page.txt"];
    task(&world, "notes", &prompts, &[load, check]);

    let (said, passed) = run(&world, &engine.host);
    assert!(passed && said.contains("4 ran, 2 deferred"), "{said}");
    let context = std::fs::read_to_string(world.path().join("out.json")).unwrap();
    assert!(context.contains("note 1 hello"), "{context}");
    assert!(context.contains("a page"), "{context}");
    assert_eq!(engine.containers("notes"), [] as [Value; 0]);

    let (said, passed) = run(&world, "unix:///nowhere");
    assert!(passed && said.contains("0 ran"), "{said}");

    // The env is made anew, in the state that the prompt left.
    world.write(
        expected,
        "[[expect]]\nstate = \"$.notes[0]\"\nequals = \"milk\"\n",
    );
    let (said, passed) = run(&world, &engine.host);
    let is_right = said.contains("(check: 1)") && said.contains("1 ran, 3 hit");
    assert!(passed && is_right, "{said}");
    assert_eq!(engine.containers("notes"), [] as [Value; 0]);

    // The image has a name by which others may use it, too.
    let image = engine.image("{\"reference\":[\"aebuild-env\"]}");
    let other = World::new();
    agent(&other);
    task(&other, "named", &["add milk"], &[]);
    let table = format!("[envs.named]\nimage = {image}\nport = 9000\n");
    other.write("aebuild.toml", &table);
    let (said, passed) = run(&other, &engine.host);
    assert!(passed && said.contains("1 ran"), "{said}");
    assert_eq!(engine.containers("named"), [] as [Value; 0]);
}

#[test]
fn a_container_that_ends_is_told_with_its_last_lines() {
    let Some(engine) = engine() else { return };
    let world = world("fails");
    task(&world, "fails", &["add milk"], &[]);
    world.write("aebuild.toml", "[envs.fails.variables]\nFAIL = \"1\"\n");
    let (said, passed) = run(&world, &engine.host);
    let wanted = "env `fails` could not be started: it ended with exit code 3; its last lines:";
    assert!(!passed && said.contains(wanted), "{said}");
    assert!(
        said.contains("line 49") && !said.contains("line 9\n"),
        "{said}"
    );

    // While it is used, it is gone.
    world.write("aebuild.toml", "");
    task(&world, "fails", &["quit"], &[]);
    let (said, passed) = run(&world, &engine.host);
    let wanted = "env `fails` is gone: it ended with exit code 7; its last lines:";
    assert!(!passed && said.contains(wanted), "{said}");
    assert!(said.contains("asked to quit"), "{said}");

    // It never gets ready.
    let never = "[envs.fails]\nready_timeout_seconds = 1\nvariables = { HANG = \"1\" }\n";
    world.write("aebuild.toml", never);
    let (said, passed) = run(&world, &engine.host);
    let wanted = "env `fails` did not get ready within 1 s";
    assert!(!passed && said.contains(wanted), "{said}");
    assert_eq!(engine.containers("fails"), [] as [Value; 0]);
}

#[test]
fn an_image_that_cannot_be_had_is_told_with_what_was_tried() {
    let Some(engine) = engine() else { return };
    let world = world("broken");
    task(&world, "broken", &["add milk"], &[]);
    let dockerfile = "FROM aebuild-test-base:1\nRUN [\"/python\", \"-c\", \"print('no luck'); raise SystemExit(4)\"]\n";
    world.write("envs/broken/Dockerfile", dockerfile);
    let (said, passed) = run(&world, &engine.host);
    let wanted = "env `broken` could not be started: its Dockerfile cannot be built:";
    assert!(!passed && said.contains(wanted), "{said}");
    assert!(said.contains("no luck"), "{said}");

    world.write(
        "aebuild.toml",
        "[envs.broken]\nimage = \"localhost:9/nobody\"\n",
    );
    let (said, passed) = run(&world, &engine.host);
    let wanted = "image `localhost:9/nobody` is not on this machine, and pulling `localhost:9/nobody:latest` came to nothing:";
    assert!(!passed && said.contains(wanted), "{said}");
    assert_eq!(engine.containers("broken"), [] as [Value; 0]);
}

#[test]
fn without_an_engine_the_error_names_the_socket_and_the_way_around() {
    let world = world("alone");
    task(&world, "alone", &["add milk"], &[]);
    let (said, passed) = run(&world, "unix:///nowhere/docker.sock");
    assert!(!passed, "{said}");
    for wanted in [
        "no Docker engine answers at unix:///nowhere/docker.sock",
        "`command` in [envs.alone] of aebuild.toml",
    ] {
        assert!(said.contains(wanted), "{said}");
    }
}

/// Waits until a container that has a label is there.
fn wait_for_container(engine: &Engine, label: &str, child: &mut Child) {
    let began = Instant::now();
    while engine.labelled(label).is_empty() {
        let is_late = began.elapsed() > Duration::from_secs(100);
        assert!(!is_late && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Interrupts a run whose container hangs, and kills another; what that leaves is left.
fn interrupt_and_kill(engine: &Engine, world: &World, label: &str) {
    let mut child = command(world, &engine.host).spawn().unwrap();
    wait_for_container(engine, label, &mut child);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(engine.labelled(label), [] as [Value; 0]);

    let mut child = command(world, &engine.host).spawn().unwrap();
    wait_for_container(engine, label, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let [left] = &engine.labelled(label)[..] else {
        panic!("one is left");
    };
    assert!(left["aebuild.run"].is_string(), "{left}");
}

#[test]
fn ctrl_c_removes_the_container_and_the_next_run_what_a_killed_one_left() {
    let Some(engine) = engine() else { return };
    let world = world("hangs");
    task(&world, "hangs", &["add milk"], &[]);
    world.write("aebuild.toml", "[envs.hangs.variables]\nHANG = \"1\"\n");

    interrupt_and_kill(&engine, &world, "aebuild.env=hangs");

    // Another workspace has no say in it; the same one has.
    let other = self::world("other");
    task(&other, "other", &["add milk"], &[]);
    let (said, passed) = run(&other, &engine.host);
    assert!(passed, "{said}");
    assert_eq!(engine.containers("hangs").len(), 1);
    world.write("aebuild.toml", "");
    let (said, passed) = run(&world, &engine.host);
    assert!(passed, "{said}");
    assert_eq!(engine.containers("hangs"), [] as [Value; 0]);
}
