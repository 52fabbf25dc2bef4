//! The command line as a process: exit statuses, outputs, signals.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Output, Stdio};

use expect_test::{Expect, expect};

use crate::support::World;

/// A task whose one step runs this shell command, and scores it.
fn task(command: &str) -> String {
    let command = command.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        r#"[{{"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"}},
            {{"id": "work", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": "work",
              "criteria": [{{"type": "bash_cmd_succeeds", "criterion": "It works.", "bash_cmd": "{command}"}}]}}]"#
    )
}

fn world(command: &str) -> World {
    let world = World::new();
    world.write("t/tasks/one.json", &task(command));
    world
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("what is said is UTF-8")
}

/// Checks what a call says on both outputs, and its exit status.
fn check(world: &World, arguments: &[&str], expected: Expect) {
    let Output {
        status,
        stdout,
        stderr,
    } = world.aebuild(arguments);
    let code = status
        .code()
        .map_or("killed".to_owned(), |code| code.to_string());
    let (out, err) = (world.shown(&text(&stdout)), world.shown(&text(&stderr)));
    expected.assert_eq(&format!("{out}---\n{err}--- {code}\n"));
}

#[test]
fn a_run_says_what_ran_and_a_second_one_that_nothing_did() {
    let world = world("true");
    check(
        &world,
        &["run", "t"],
        expect![[r#"
        t/tasks/one.json: passed (work: 1)
        1 ran, 1 deferred in 0.1 s
        ---
        step 2/2 work (verify_sandbox): never run
        --- 0
    "#]],
    );
    check(
        &world,
        &["run", "t"],
        expect![[r#"
        t/tasks/one.json: passed (work: 1)
        0 ran, 1 hit (0.1 s saved), 1 deferred in 0.1 s
        ---
        --- 0
    "#]],
    );
}

#[test]
fn a_low_score_passes_unless_a_least_score_is_asked_for() {
    let world = world("false");
    let status = |arguments: &[&str]| world.aebuild(arguments).status.code();
    assert_eq!(status(&["run", "t"]), Some(0));
    assert_eq!(status(&["run", "t", "--min-score", "0"]), Some(0));
    check(
        &world,
        &["run", "t", "--min-score", "0.5"],
        expect![[r#"
            t/tasks/one.json: scored below 1 (work: 0)
                work: criterion 0 (bash_cmd_succeeds): exit=1; stderr=
            0 ran, 1 hit (0.1 s saved), 1 deferred in 0.1 s
            ---
            1 score is below 0.5
            --- 1
        "#]],
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let world = world("true");
    for arguments in [
        &["run", "--jbos", "2"][..],
        &["run", "--jobs", "0"],
        &["run", "--jobs", "max"],
        &["run", "--jobs", "1000000000"],
        &["run", "--samples", "0"],
        &["run", "--min-score", "NaN"],
        &["run", "--seed", "k"],
        &["run", "--output"],
        &["run", "--only", "a", "--from", "b"],
        &["runn"],
    ] {
        let output = world.aebuild(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{arguments:?}"
        );
    }
    check(
        &world,
        &["run", "t", "--task", "on"],
        expect![[r#"
        ---
        error: there is no task `on`
          help: did you mean `one`?
        --- 2
    "#]],
    );
    check(
        &world,
        &["run", "t", "--override", "[1"],
        expect![[r#"
        ---
        error: `--override` is not JSON: the file ends too early: the array is not closed (column 3)
          help: add `]` at the end, if nothing else was cut off
        --- 2
    "#]],
    );
    world.aebuild(&["run", "t"]);
    check(
        &world,
        &["show", "../../etc", "--in", "t"],
        expect![[r#"
        ---
        error: no run `../../etc` is recorded
          help: list the runs: `aebuild show --list`
        --- 2
    "#]],
    );
    check(
        &world,
        &["schema", "run_cod"],
        expect![[r#"
        ---
        error: there is no step type `run_cod`
          help: did you mean `run_code`?
        --- 2
    "#]],
    );
}

#[test]
fn faults_of_the_author_are_all_shown_and_nothing_runs() {
    let world = World::new();
    world.write(
        "t/tasks/one.json",
        r#"[{"id": "a", "type": "run_cod"}, {"id": 7}]"#,
    );
    let output = world.aebuild(&["run", "t"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let output = world.aebuild(&["check", "t", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    for line in text(&output.stdout).lines() {
        let value: aebuild::json::Value = line.parse().expect("each line is JSON");
        assert_eq!(value["severity"], "error");
    }
}

#[test]
fn events_are_lines_of_json_and_nothing_else_is_on_standard_output() {
    let world = world("true");
    let output = world.aebuild(&["run", "t", "--json"]);
    let names: Vec<String> = text(&output.stdout)
        .lines()
        .map(|line| {
            let value: aebuild::json::Value = line.parse().expect("each line is JSON");
            value["event"].as_str().expect("each has a name").to_owned()
        })
        .collect();
    assert_eq!(names.first().map(String::as_str), Some("run_started"));
    assert_eq!(names.last().map(String::as_str), Some("run_finished"));
    assert!(names.contains(&"step_finished".to_owned()), "{names:?}");
}

#[test]
fn the_final_context_goes_to_a_file_or_to_a_folder() {
    let world = world("true");
    world.write("t/tasks/two.json", &task("true"));
    let read = |path: &str| -> aebuild::json::Value {
        let text = std::fs::read_to_string(world.path().join(path)).expect("it is written");
        text.parse().expect("it is JSON")
    };
    world.aebuild(&["run", "t", "--task", "one", "--output", "one.json"]);
    assert_eq!(
        read("one.json")["metadata"]["verifications"]["work"]["score"],
        1.0
    );
    world.aebuild(&["run", "t", "--output", "both.json"]);
    let both = read("both.json");
    let tasks: Vec<&String> = both.as_object().expect("an object").keys().collect();
    assert_eq!(tasks, ["t/tasks/one.json", "t/tasks/two.json"]);
    std::fs::create_dir(world.path().join("out")).expect("a folder");
    world.aebuild(&["run", "t", "--output", "out"]);
    let scores = |context: &aebuild::json::Value| context["metadata"]["verifications"].clone();
    let two = read("out/t+tasks+two.json.json");
    assert_eq!(scores(&two), scores(&both["t/tasks/two.json"]));
}

#[test]
fn a_reader_that_goes_away_changes_nothing() {
    let world = world("true");
    let mut child = world
        .command(env!("CARGO_BIN_EXE_aebuild"))
        .args(["run", "t", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("panicked"));
    let (said, status) =
        world.shell("aebuild run t >&- 2>&-; echo $?; aebuild run --help | head -1");
    assert_eq!((said.lines().next(), status), (Some("0"), Some(0)));
}

#[test]
fn an_output_that_is_no_terminal_has_no_colours() {
    let world = world("false");
    for (name, value) in [
        ("TERM", "xterm-256color"),
        ("COLUMNS", "0"),
        ("COLUMNS", "1000000"),
    ] {
        let mut command = world.command(env!("CARGO_BIN_EXE_aebuild"));
        let output = command
            .env(name, value)
            .args(["run", "t"])
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b));
    }
}

#[test]
fn help_and_version_are_data() {
    let world = World::new();
    let version = world.aebuild(&["--version"]);
    assert_eq!(
        text(&version.stdout),
        format!("aebuild {}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = world.aebuild(&["run", "--help"]);
    assert_eq!(
        (help.status.code(), help.stderr.is_empty()),
        (Some(0), true)
    );
    assert_eq!(world.aebuild(&[]).status.code(), Some(2));
}

#[test]
fn secrets_stay_out_of_records_and_of_what_is_shown() {
    let world = world("printf %s \"$TOKEN\" | base64; echo $TOKEN; false");
    world.write(
        "t/aebuild.toml",
        "[sandbox]\npass_variables = [\"TOKEN\"]\n",
    );
    let mut command = world.command(env!("CARGO_BIN_EXE_aebuild"));
    command
        .env("TOKEN", "hunter2/hunter2")
        .args(["run", "t", "-v", "--output", "t/out.json"]);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!said.contains("hunter2"), "{said}");
    let (found, _) = world.shell("grep -rlE 'hunter2|aHVudGVyMi9odW50ZXI' t/.aebuild/runs");
    assert_eq!(found, "");
}

/// Starts a run whose step does not end by itself, and returns once it goes on.
fn endless() -> (World, std::process::Child) {
    let world = world("sleep 1000");
    let mut child = world
        .command(env!("CARGO_BIN_EXE_aebuild"))
        .args(["run", "t", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
    while let Some(Ok(line)) = lines.next() {
        if line.contains("step_started") {
            drop(lines);
            return (world, child);
        }
    }
    child.kill().ok();
    let status = child.wait();
    panic!("no step started: {status:?}");
}

fn kill(child: &std::process::Child, signal: &str) {
    let status = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(status.expect("kill runs").success());
}

#[test]
fn a_signal_ends_a_run_and_its_record_says_so() {
    for (signal, expected) in [("-INT", 130), ("-TERM", 143)] {
        let (world, mut child) = endless();
        kill(&child, signal);
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(expected));
        let mut said = String::new();
        child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut said)
            .expect("UTF-8");
        assert!(said.contains("Ending what runs"), "{said}");
        let (shown, _) = world.shell("aebuild show --in t");
        assert!(shown.contains("cancelled"), "{shown}");
    }
}

#[test]
fn what_is_kept_up_is_held_until_ctrl_c() {
    let world = world("true");
    let mut child = world
        .command(env!("CARGO_BIN_EXE_aebuild"))
        .args(["run", "t", "--keep"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.as_mut().expect("it is piped")).lines() {
        said.push(line.expect("UTF-8"));
        if said.iter().any(|line| line.starts_with("Holding")) {
            break;
        }
    }
    kill(&child, "-INT");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0), "{said:?}");
    let folder = said
        .iter()
        .find_map(|line| line.trim().strip_prefix("sandbox `box`: folder "));
    let folder = folder.expect("it says where the sandbox is").to_owned();
    assert!(!std::path::Path::new(&folder).exists(), "{folder} is left");
}

/// Sends a request to a port of this machine and returns the answer whole.
fn ask(port: &str, method: &str, path: &str, host: &str, body: &str) -> String {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("UTF-8");
    answer
}

#[test]
fn an_env_that_is_compiled_in_is_served_to_this_machine_until_ctrl_c() {
    let world = World::new();
    let mut child = world
        .command(env!("CARGO_BIN_EXE_aebuild"))
        .args(["env", "kv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("it is piped"))
        .read_line(&mut line)
        .expect("UTF-8");
    let rest = line.trim().strip_prefix("http://127.0.0.1:");
    let port = rest.and_then(|rest| rest.strip_suffix("/mcp"));
    let port = port.expect("it says where it serves").to_owned();
    let host = format!("127.0.0.1:{port}");
    let card = ask(&port, "GET", "/.well-known/agent-env.json", &host, "");
    assert!(
        card.starts_with("HTTP/1.1 200 ") && card.contains("\"name\":\"kv\""),
        "{card}"
    );
    let add = r#"{"jsonrpc": "2.0", "id": 1, "method": "data/add", "params": {"parts": [
        {"kind": "data", "data": {"values": {"a": 7}}}]}}"#;
    let added = ask(&port, "POST", "/agentenv", &host, add);
    assert!(
        added.ends_with(r#"{"id":1,"jsonrpc":"2.0","result":{}}"#),
        "{added}"
    );
    let get = r#"{"jsonrpc": "2.0", "id": 2, "method": "data/get"}"#;
    let got = ask(&port, "POST", "/agentenv", &host, get);
    assert!(got.contains(r#""values":{"a":7}"#), "{got}");
    let other = ask(&port, "GET", "/state", "example.com", "");
    assert!(other.starts_with("HTTP/1.1 403 "), "{other}");
    kill(&child, "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err());
}

#[test]
fn an_env_that_is_kept_up_has_an_address_until_ctrl_c() {
    let world = World::new();
    let task = r#"[{"id": "kv", "type": "deploy_env", "env_id": "kv", "depends_on": []},
        {"id": "tools", "type": "verify_mcp_tool_schema", "env_id": "kv", "depends_on": ["kv"]}]"#;
    world.write("t/tasks/one.json", task);
    let mut child = world
        .command(env!("CARGO_BIN_EXE_aebuild"))
        .args(["run", "t", "--keep"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.as_mut().expect("it is piped")).lines() {
        said.push(line.expect("UTF-8"));
        if said.iter().any(|line| line.starts_with("Holding")) {
            break;
        }
    }
    let mut lines = said.iter().map(|line| line.trim());
    let url = lines.find_map(|line| line.strip_prefix("env `kv`: http://127.0.0.1:"));
    let (port, path) = url
        .and_then(|url| url.split_once('/'))
        .expect("it says where the env is");
    let state = format!("/{}/state", path.trim_end_matches("/mcp"));
    let state = ask(port, "GET", &state, &format!("127.0.0.1:{port}"), "");
    assert!(state.contains("increment"), "{state}");
    kill(&child, "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{said:?}");
}

#[test]
fn the_cache_is_looked_after_from_any_folder() {
    let world = World::new();
    let (said, status) =
        world.shell("mkdir -p else && cd else && aebuild cache stats && aebuild cache clear");
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("0 records") && said.contains("cleared"),
        "{said}"
    );
}

#[test]
fn the_page_of_a_code_is_shown_and_a_near_code_is_offered() {
    let world = World::new();
    check(
        &world,
        &["explain-code", "error[self-dependency]: step `a` waits"],
        expect![[r#"
            self-dependency

            A step depends on itself, so it could never start. Delete the entry.

            ```console
            $ aebuild check tasks/errors/self-dependency
            error[self-dependency]: step `check` depends on itself
              ╭─[tasks/errors/self-dependency/tasks/t.json:8:27]
            8 │     "depends_on": ["box", "check"]
              │                           ───┬───
              │                              ╰── its own id
              ╰────
              help: delete the entry

            1 error
            (exit status 1)
            ```
            ---
            --- 0
        "#]],
    );
    check(
        &world,
        &["explain-code", "self-dependant"],
        expect![[r#"
        ---
        error: there is no code `self-dependant`
          help: did you mean `self-dependency`?
        --- 2
    "#]],
    );
    let all = world.aebuild(&["explain-code"]);
    let all = text(&all.stdout);
    assert!(all.lines().any(|line| line.starts_with("unknown-name ")));
}

#[test]
fn task_files_are_laid_out_once_and_a_file_with_faults_is_left() {
    let world = World::new();
    world.write("t/tasks/one.json", "[{\"id\":\"a\",\"n\":1.50}]");
    world.write("t/tasks/bad.json", "[{\"id\": 1,}]");
    world.write("t/artifacts/data/tasks/x.json", "[1,2]");
    check(
        &world,
        &["fmt", "t", "--check"],
        expect![[r#"
        t/tasks/one.json
        ---
        error[trailing-comma]: a comma stands after the last value
          ╭─[t/tasks/bad.json:1:10]
        1 │ [{"id": 1,}]
          │          ─
          ╰────
          help: delete the comma

        1 file would change, 0 stay; 1 error, so these are left
        --- 1
    "#]],
    );
    check(
        &world,
        &["fmt", "t"],
        expect![[r#"
        ---
        error[trailing-comma]: a comma stands after the last value
          ╭─[t/tasks/bad.json:1:10]
        1 │ [{"id": 1,}]
          │          ─
          ╰────
          help: delete the comma

        1 file changed, 0 stay; 1 error, so these are left
        --- 1
    "#]],
    );
    let read = |path: &str| std::fs::read_to_string(world.path().join(path)).expect("it is there");
    assert_eq!(
        read("t/tasks/one.json"),
        "[\n  {\"id\": \"a\", \"n\": 1.50}\n]\n"
    );
    assert_eq!(read("t/tasks/bad.json"), "[{\"id\": 1,}]");
    assert_eq!(read("t/artifacts/data/tasks/x.json"), "[1,2]");
    check(
        &world,
        &["fmt", "t/tasks/one.json", "--check"],
        expect![[r#"
            ---
            0 files would change, 1 stay
            --- 0
        "#]],
    );
    let (said, status) = world.shell("printf '{\"b\":1,\\n\"a\":[ ]}' | aebuild fmt --stdin");
    assert_eq!(
        (said.as_str(), status),
        ("{\n  \"b\": 1,\n  \"a\": []\n}\n", Some(0))
    );
    let (said, status) = world.shell("printf '[1,' | aebuild fmt --stdin");
    assert!(said.contains("unfinished"), "{said}");
    assert_eq!(status, Some(1));
}
