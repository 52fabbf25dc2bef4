//! Folders that the original takes as they are: `check` has no error and no warning for any of them.
//!
//! The fixtures below `tests/it/fixtures` are always looked at. `AEBUILD_PEER_AGENT_ENV` names the `agent-env` program of an
//! environment that has `agentenv-framework` installed: the example folders that it ships are looked at too, and it is asked
//! whether it takes the fixtures as well. Without it that is said and left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aebuild::json::Value;

use crate::support::{World, root};

/// The folders of its package in which examples are, beside those of `examples/`.
const BUNDLES: [&str; 1] = ["agents"];

fn peer() -> Option<PathBuf> {
    let agent_env = std::env::var_os("AEBUILD_PEER_AGENT_ENV").map(PathBuf::from);
    if agent_env.is_none() {
        eprintln!(
            "SKIPPED: AEBUILD_PEER_AGENT_ENV is not set, so what agent-env ships is not looked at"
        );
    }
    agent_env
}

/// Copies a folder from anywhere into a world.
fn world_of(folder: &Path) -> World {
    let world = World::new();
    let copied = Command::new("cp")
        .arg("-rL")
        .arg(folder)
        .arg(world.path().join("folder"))
        .status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "{folder:?} is copied"
    );
    // There is an engine for containers, as far as anybody can see without asking.
    world.write("engine", "");
    world
}

/// Returns what `check` says of a folder, but for hints, and the number of its tasks.
fn alarms(folder: &Path) -> (String, usize) {
    let world = world_of(folder);
    let engine = format!("unix://{}", world.path().join("engine").display());
    let output = world
        .command(env!("CARGO_BIN_EXE_aebuild"))
        .args(["check", "folder", "--format", "json"])
        .env("DOCKER_HOST", engine)
        .output()
        .expect("the program starts");
    let said = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let faults = said.lines().filter(|line| {
        let fault: Value = aebuild::json::from_slice(line.as_bytes()).expect("an object a line");
        fault["severity"] != "hint"
    });
    let mut alarms: String = faults.map(|line| format!("{line}\n")).collect();
    if output.status.code() != Some(0) {
        alarms.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    let tasks = fs::read_dir(world.path().join("folder/tasks")).expect("it has tasks");
    (alarms, tasks.count())
}

#[test]
fn what_agent_env_ships_has_no_error_and_no_warning() {
    let Some(agent_env) = peer() else { return };
    let python = agent_env.with_file_name("python");
    let find = "import agent_env, pathlib; print(pathlib.Path(agent_env.__file__).parent)";
    let found = Command::new(&python).args(["-c", find]).output();
    let found = found.expect("its Python starts").stdout;
    let package = PathBuf::from(String::from_utf8(found).expect("a path").trim());
    let examples = fs::read_dir(package.join("examples")).expect("it ships examples");
    let examples = examples.map(|entry| entry.expect("an entry").path());
    let bundles = BUNDLES.iter().map(|name| package.join(name));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for folder in examples.chain(bundles) {
        if !folder.join("tasks").is_dir() {
            continue;
        }
        let (alarms, tasks) = alarms(&folder);
        assert_eq!(alarms, "", "{}", folder.display());
        let name = folder.file_name().expect("a name").to_string_lossy();
        seen.insert(name.into_owned(), tasks);
    }
    // At least those of release 0.9.1364: a folder that is not found is not looked at.
    for (name, tasks) in [
        ("agents", 6),
        ("echo-mcp", 1),
        ("hello", 1),
        ("mail-mcp", 1),
    ] {
        assert!(seen.get(name) >= Some(&tasks), "{name}: {seen:?}");
    }
}

#[test]
fn edges_that_are_bare_strings_are_taken() {
    let folder = root().join("tests/it/fixtures/bare-edges");
    let texts = fs::read_dir(folder.join("tasks")).expect("it has tasks");
    for entry in texts {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("a text");
        assert!(text.contains("depends_on") && !text.contains("task_step_id"));
    }
    assert_eq!(alarms(&folder), (String::new(), 3));
    let Some(agent_env) = peer() else { return };
    let world = world_of(&folder);
    let output = world
        .command(&agent_env.to_string_lossy())
        .args(["run", "./folder", "--dry-run"])
        .env("XDG_STATE_HOME", world.path().join("state"))
        .output()
        .expect("agent-env starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Would run:\n  tasks/chain.json"), "{said}");
}
