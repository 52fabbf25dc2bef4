//! `kill -9` at any moment, two runs at once, Ctrl-C: what is kept stays right.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use aebuild::json::Value;
use rustix::process::{Pid, Signal, kill_process};

use crate::story::{Story, normal};

/// Six steps over one sandbox, each of which reads what an earlier one wrote.
fn task(edit: u32) -> String {
    let mut steps = vec![
        r#"{"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"}"#
            .to_owned(),
        r#"{"id": "load", "type": "load_artifact", "sandbox_name": "box", "artifact_id": "data", "destination_path": "/app/data"}"#
            .to_owned(),
    ];
    for n in 0..4 {
        // Every second edit of a step leaves its output as it was.
        let text = if edit % 4 == n { edit / 2 } else { 0 };
        let comment = if edit % 4 == n { edit } else { 0 };
        let before = if n == 0 {
            "data/in.txt".to_owned()
        } else {
            format!("{}.txt", n - 1)
        };
        steps.push(format!(
            r#"{{"id": "s{n}", "type": "verify_sandbox", "sandbox_name": "box", "criteria": [
                {{"type": "bash_cmd_succeeds", "bash_cmd": "cat {before} > {n}.txt; echo {text} >> {n}.txt # {comment}"}}]}}"#
        ));
    }
    steps.push(
        r#"{"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["s0", "s3"]}"#.to_owned(),
    );
    format!("[{}]", steps.join(",\n"))
}

fn story() -> Story {
    let story = Story::new();
    story.write("tasks/t.json", task(0));
    story.write("artifacts/data/in.txt", "in\n");
    story
}

fn command(story: &Story, cache: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aebuild"));
    command
        .arg("run")
        .arg(story.path(""))
        .arg("--cache-dir")
        .arg(cache)
        .args(args);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs to the end and returns the final context.
#[track_caller]
fn context(story: &Story, cache: &Path) -> Value {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("context.json");
    let output = command(story, cache, &["--output", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    normal(serde_json::from_slice(&fs::read(file).unwrap()).unwrap())
}

/// Counts the folders of runs that are still there.
fn left_over(story: &Story) -> usize {
    let live = fs::read_dir(story.path(".aebuild/live")).unwrap();
    live.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir())
        .count()
}

fn after_events(child: &mut Child, n: usize) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The stream ends early where the run ends before the moment that was drawn.
    lines.take(n).for_each(drop);
}

#[test]
fn after_kill_9_at_any_moment_the_next_run_equals_a_clean_one() {
    let story = story();
    let cache = story.cache_dir();
    let mut drawn: u32 = 1;
    for edit in 0..12 {
        story.write("tasks/t.json", task(edit));
        drawn = drawn.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let mut child = command(&story, &cache, &["--json"]).spawn().unwrap();
        after_events(&mut child, (drawn >> 16) as usize % 24);
        child.kill().unwrap();
        child.wait().unwrap();
        let clean = tempfile::tempdir().unwrap();
        assert_eq!(
            context(&story, &cache),
            context(&story, &clean.path().join("cache")),
            "edit {edit}"
        );
    }
    assert_eq!(
        left_over(&story),
        0,
        "what a killed run left is cleaned up by the next"
    );
}

#[test]
fn two_runs_at_the_same_time_both_succeed() {
    let story = story();
    let cache = story.cache_dir();
    let clean = tempfile::tempdir().unwrap();
    for edit in 1..5 {
        story.write("tasks/t.json", task(edit));
        let children: Vec<Child> = (0..2)
            .map(|_| command(&story, &cache, &[]).spawn().unwrap())
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
        }
        assert_eq!(
            context(&story, &cache),
            context(&story, &clean.path().join("cache"))
        );
    }
}

#[test]
fn ctrl_c_tears_down_records_and_exits_with_130() {
    let story = Story::new();
    let task = r#"[
      {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
      {"id": "wait", "type": "verify_sandbox", "sandbox_name": "box", "criteria": [
        {"type": "bash_cmd_succeeds", "bash_cmd": "echo started; sleep 600 & wait"}]},
      {"id": "after", "type": "aggregate_verifiers", "verifier_ids": ["wait"]}
    ]"#;
    story.write("tasks/t.json", task);
    let mut child = command(&story, &story.cache_dir(), &["--json"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let began = lines
        .by_ref()
        .map(Result::unwrap)
        .find(|line| line.contains("provisioned"));
    assert!(began.is_some());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let rest = rest.join("\n");
    assert!(
        rest.contains("aborted") && rest.contains("cancelled"),
        "{rest}"
    );
    assert_eq!(left_over(&story), 0);
    let runs = story.path(".aebuild/runs");
    let run = fs::read_dir(runs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("run.json");
    let record: Value = serde_json::from_slice(&fs::read(run).unwrap()).unwrap();
    assert_eq!(record["status"], "cancelled");
}

/// Returns the files below a folder that hold these bytes.
fn holding(folder: &Path, wanted: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, wanted));
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(wanted.len()).any(|window| window == wanted) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn the_value_of_a_variable_that_is_passed_on_is_written_nowhere() {
    let story = Story::new();
    let toml = "[sandbox]\nisolation = \"none\"\npass_variables = [\"API_KEY\"]\n";
    story.write("aebuild.toml", toml);
    let task = r#"[
      {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
      {"id": "says", "type": "verify_sandbox", "sandbox_name": "box", "criteria": [
        {"type": "bash_cmd_succeeds", "bash_cmd": "test -n \"$API_KEY\" && echo the key is $API_KEY"},
        {"type": "bash_cmd_succeeds", "bash_cmd": "echo $API_KEY >&2; printf %s \"$API_KEY\" | base64; false"}]}
    ]"#;
    story.write("tasks/t.json", task);
    let secret = "canary-9f3c1b7e5d";
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("context.json");
    let mut run = command(&story, &story.cache_dir(), &["--json", "--output"]);
    let output = run.arg(&file).env("API_KEY", secret).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let none: Vec<String> = Vec::new();
    for folder in [story.path(""), story.cache_dir(), out.path().to_path_buf()] {
        assert_eq!(holding(&folder, secret.as_bytes()), none);
        assert_eq!(holding(&folder, b"Y2FuYXJ5LTlmM2MxYjdlNWQ"), none);
    }
    for said in [&output.stdout, &output.stderr] {
        assert!(!String::from_utf8_lossy(said).contains(secret));
    }
    // A result that holds the value is used in this run and not kept.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("holds the value of a variable"), "{said}");
}

#[test]
fn the_cache_stays_below_its_limit_by_one_run() {
    let story = story();
    let megabyte = 1_000_000;
    let toml =
        "[sandbox]\nisolation = \"none\"\n[cache]\nsize_limit_gb = 0.002\ndurability = \"fast\"\n";
    story.write("aebuild.toml", toml);
    let size = |folder: &Path| {
        fn walk(folder: &Path) -> u64 {
            fs::read_dir(folder).map_or(0, |entries| {
                entries
                    .map(|entry| entry.unwrap().path())
                    .map(|path| match fs::symlink_metadata(&path) {
                        Ok(metadata) if metadata.is_dir() => walk(&path),
                        Ok(metadata) => metadata.len(),
                        Err(_) => 0,
                    })
                    .sum()
            })
        }
        walk(folder)
    };
    for n in 0..8_u8 {
        // Each run keeps a megabyte of its own.
        let mut noise = u64::from(n) + 1;
        let bytes: Vec<u8> = (0..megabyte)
            .map(|_| {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                noise as u8
            })
            .collect();
        story.write("artifacts/data/big.bin", bytes);
        let output = command(&story, &story.cache_dir(), &[]).output().unwrap();
        assert!(output.status.success());
        let now = size(&story.cache_dir());
        assert!(
            now <= 2 * megabyte + 2 * megabyte,
            "after run {n}: {now} bytes"
        );
    }
}

#[test]
fn after_a_garbage_collection_a_run_still_hits() {
    let story = story();
    let cache = story.cache_dir();
    let run = |args: &[&str]| {
        let output = command(&story, &cache, args).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    run(&[]);
    run(&["--fresh"]);
    let mut gc = Command::new(env!("CARGO_BIN_EXE_aebuild"));
    let output = gc
        .args(["cache", "gc", "--cache-dir"])
        .arg(&cache)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(run(&[]).contains("0 ran"));
    assert!(run(&[]).contains("0 ran"));
}
