//! The original runs the same folder and gives the same context.
//!
//! `AEBUILD_PEER_AGENT_ENV` names the `agent-env` program of an environment that has `agentenv-framework` installed; without
//! it these tests say so and are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aebuild::json::Value;

use crate::story::normal;

const READ_CONTEXT: &str = "
import glob, json, sqlite3, sys
[path] = glob.glob(sys.argv[1] + '/agent-env/document_store/local.db')
[(doc,)] = sqlite3.connect(path).execute('select doc from docs_task_instances')
print(json.dumps(json.loads(doc)['context']))
";

fn peer() -> Option<(PathBuf, PathBuf)> {
    let Some(agent_env) = std::env::var_os("AEBUILD_PEER_AGENT_ENV").map(PathBuf::from) else {
        eprintln!("SKIPPED: AEBUILD_PEER_AGENT_ENV is not set, so agent-env is not compared with");
        return None;
    };
    let python = agent_env.with_file_name("python");
    Some((agent_env, python))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn the_hello_folder_of_agent_env_gives_the_same_context() {
    let Some((agent_env, python)) = peer() else {
        return;
    };
    let find = "import agent_env, pathlib; print(pathlib.Path(agent_env.__file__).parent / 'examples/hello')";
    let shipped = run(Command::new(&python).args(["-c", find]));
    let temp = tempfile::tempdir().unwrap();
    let hello = temp.path().join("hello");
    copy(Path::new(shipped.trim()), &hello);

    let state = temp.path().join("state");
    run(Command::new(&agent_env)
        .arg("run")
        .arg(&hello)
        .env("XDG_STATE_HOME", &state));
    let theirs = run(Command::new(&python).args(["-c", READ_CONTEXT]).arg(&state));
    let theirs: Value = serde_json::from_str(&theirs).unwrap();

    let file = temp.path().join("context.json");
    let mut aebuild = Command::new(env!("CARGO_BIN_EXE_aebuild"));
    aebuild
        .arg("run")
        .arg(&hello)
        .arg("--cache-dir")
        .arg(temp.path().join("cache"));
    let said = run(aebuild.arg("--output").arg(&file));
    assert!(said.contains("passed"), "{said}");
    let ours: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(normal(ours), normal(theirs));
}
