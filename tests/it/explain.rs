//! What `aebuild explain` prints for each cause, with old and new and the path to the root.

mod several;

use std::fs;
use std::process::Command;

use expect_test::{Expect, expect};

use crate::story::Story;

const TASK: &str = r#"[
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
  {"id": "load", "type": "load_artifact", "sandbox_name": "box", "artifact_id": "data",
   "destination_path": "/app/data"},
  {"id": "a", "type": "verify_sandbox", "sandbox_name": "box", "depends_on": ["load"], "criteria": [
    {"type": "bash_cmd_succeeds", "bash_cmd": "cp data/in.txt a.txt"}]},
  {"id": "b", "type": "verify_sandbox", "sandbox_name": "box", "depends_on": ["a"], "criteria": [
    {"type": "probe_file_exists", "paths": ["a.txt"]}]},
  {"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["a", "b"], "depends_on": ["a", "b"]}
]"#;

fn story() -> Story {
    let story = Story::new();
    story.write("tasks/t.json", TASK);
    story.write("artifacts/data/in.txt", "one\n");
    story.settle();
    story
}

#[track_caller]
fn check(story: &Story, step: &str, expect: Expect) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aebuild"));
    command
        .arg("explain")
        .arg(step)
        .arg(story.path(""))
        .arg("--cache-dir")
        .arg(story.cache_dir());
    command.env("TOKEN", "new value").env_remove("UNSET");
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    expect.assert_eq(&redacted(&text, story));
}

/// Replaces run ids, times and the place of the workspace, which differ from run to run.
fn redacted(text: &str, story: &Story) -> String {
    let folder = story.path("");
    let text = text.replace(folder.to_str().unwrap().trim_end_matches('/'), "<work>");
    let run = fancy_regex::Regex::new(r"\d{8}-\d{6}-[0-9a-f]{6}").unwrap();
    let text = run.replace_all(&text, "<run>").into_owned();
    let time = fancy_regex::Regex::new(r"\b\d+(\.\d+)? ?(ms|s|µs|us|min)\b").unwrap();
    let text = time.replace_all(&text, "<time>").into_owned();
    let date = fancy_regex::Regex::new(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?");
    date.unwrap().replace_all(&text, "<date>").into_owned()
}

#[test]
fn never_run() {
    check(
        &story(),
        "a",
        expect![[r#"
            a (verify_sandbox) of <work>/tasks/t.json
            dirty because
              never run
            cost
              how long it takes is not known
              1 step before it runs too: load (not known how long)
              2 steps after it run too: b, sum (not known how long)
            key
              type: verify_sandbox
              version of type `verify_sandbox`: 1
              field `base_dir`: /app
              field `criteria`: [{"bash_cmd":"cp data/in.txt a.txt","type":"bash_cmd_succeeds"}]
              field `sandbox_name`: box
              field `score_aggregator`: all_pass
              field `verifier_id`: a
              isolation: none
        "#]],
    );
}

#[test]
fn a_field_changed() {
    let story = story();
    story.run();
    story.write("tasks/t.json", TASK.replace("cp data", "cp -v data"));
    check(
        &story,
        "a",
        expect![[r#"
            a (verify_sandbox) of <work>/tasks/t.json
            dirty because
              field `criteria` changed (<work>/tasks/t.json:5:88)
                was [{"bash_cmd":"cp data/in.txt a.txt","type":"bash_cmd_succeeds"}]
                now [{"bash_cmd":"cp -v data/in.txt a.txt","type":"bash_cmd_succeeds"}]
            cost
              it took <time> when it last ran
              2 steps after it may run too: b, sum (<time>)
            needs
              sandbox `box` by restore
            key
              type: verify_sandbox
              version of type `verify_sandbox`: 1
              field `base_dir`: /app
              field `criteria`: [{"bash_cmd":"cp -v data/in.txt a.txt","type":"bash_cmd_succeeds"}]
              field `sandbox_name`: box
              field `score_aggregator`: all_pass
              field `verifier_id`: a
              isolation: none
            reads
              sandbox `box`: 8cc7bf65e6c5
              state of sandbox `box`: 3fa9cabafca6
            history
              <date> <run>: output 309c459848d9, score 1, <time>
        "#]],
    );
}

#[test]
fn a_file_of_an_artifact_changed_and_the_path_leads_to_it() {
    let story = story();
    story.run();
    story.write("artifacts/data/in.txt", "two\n");
    check(
        &story,
        "load",
        expect![[r#"
            load (load_artifact) of <work>/tasks/t.json
            dirty because
              artifact `data` file `in.txt` changed (<work>/artifacts/data/in.txt)
                was e0e63aa4c8e1
                now ef40086ad8a3
            cost
              it took <time> when it last ran
              3 steps after it may run too: a, b, sum (<time>)
            needs
              sandbox `box` by create
            key
              type: load_artifact
              version of type `load_artifact`: 1
              field `artifact_id`: data
              field `destination_path`: /app/data
              field `sandbox_name`: box
              artifact `data`: file @local/work/data
              artifact `data` file `in.txt`: ef40086ad8a3
              isolation: none
            reads
              sandbox `box`: 8cc7bf65e6c5
              state of sandbox `box`: bab0b9283f57
            history
              <date> <run>: output 9ba4469cadb3, <time>
        "#]],
    );
    check(
        &story,
        "sum",
        expect![[r#"
            sum (aggregate_verifiers) of <work>/tasks/t.json
            waits for b, and runs if that gives another result
              load is dirty because
                artifact `data` file `in.txt` changed (<work>/artifacts/data/in.txt)
                  was e0e63aa4c8e1
                  now ef40086ad8a3
            cost
              it took <time> when it last ran
              3 steps before it may run too: load, a, b (<time>)
            key
              type: aggregate_verifiers
              version of type `aggregate_verifiers`: 1
              field `score_aggregator`: weighted_average
              field `verifier_id`: sum
              field `verifier_ids`: ["a","b"]
            reads
              verification `a`: 724113bb2846
              verification `b`: c69780ca633c
            history
              <date> <run>: output 9a9921c1cbae, score 1, <time>
        "#]],
    );
}

#[test]
fn what_it_reads_changed() {
    let story = story();
    story.run();
    let task = TASK.replace(
        r#""verifier_ids": ["a", "b"]"#,
        r#""verifier_ids": ["a", "b"], "score_aggregator": "all_pass""#,
    );
    let task = task.replace("cp data/in.txt a.txt", "cp data/in.txt a.txt; false");
    story.write("tasks/t.json", &task);
    story.run();
    story.write(
        "tasks/t.json",
        TASK.replace("cp data/in.txt a.txt", "cp data/in.txt a.txt; false"),
    );
    check(
        &story,
        "sum",
        expect![[r#"
            sum (aggregate_verifiers) of <work>/tasks/t.json
            dirty because
              verification `a` changed
                was 724113bb2846
                now fe26537e087b
            cost
              it took <time> when it last ran
            key
              type: aggregate_verifiers
              version of type `aggregate_verifiers`: 1
              field `score_aggregator`: weighted_average
              field `verifier_id`: sum
              field `verifier_ids`: ["a","b"]
            reads
              verification `a`: 724113bb2846
              verification `b`: c69780ca633c
            history
              <date> <run>: output f17eba7a9c78, score 0, <time>
              <date> <run>: output 9a9921c1cbae, score 1, <time>
        "#]],
    );
}

#[test]
fn the_type_changed() {
    let story = story();
    story.run();
    let task = TASK.replace(
        r#"{"id": "b", "type": "verify_sandbox", "sandbox_name": "box", "depends_on": ["a"], "criteria": [
    {"type": "probe_file_exists", "paths": ["a.txt"]}]}"#,
        r#"{"id": "b", "type": "aggregate_verifiers", "verifier_ids": ["a"], "verifier_id": "b", "depends_on": ["a"]}"#,
    );
    let task = task
        .replace(r#""verifier_id": "b", "#, "")
        .replace(r#"["a", "b"], "depends"#, r#"["a"], "depends"#);
    story.write("tasks/t.json", task);
    check(
        &story,
        "b",
        expect![[r#"
            b (aggregate_verifiers) of <work>/tasks/t.json
            dirty because
              its type went from `verify_sandbox` to `aggregate_verifiers` (<work>/tasks/t.json:7:23)
                was verify_sandbox
                now aggregate_verifiers
            cost
              it took <time> when it last ran
              1 step after it runs too: sum (<time>)
            key
              type: aggregate_verifiers
              version of type `aggregate_verifiers`: 1
              field `score_aggregator`: weighted_average
              field `verifier_id`: b
              field `verifier_ids`: ["a"]
            reads
              sandbox `box`: 8cc7bf65e6c5
              state of sandbox `box`: def2bfd5fe96
            history
              <date> <run>: output 2dc0ec7fa973, score 1, <time>
        "#]],
    );
}

#[test]
fn a_variable_changed() {
    let story = story();
    story.write(
        "aebuild.toml",
        "[sandbox]\nisolation = \"none\"\npass_variables = [\"TOKEN\"]\n",
    );
    story.run();
    check(
        &story,
        "a",
        expect![[r#"
            a (verify_sandbox) of <work>/tasks/t.json
            dirty because
              variable `TOKEN` changed
                was unset
                now set
              what it reads may change too: load is dirty because
                variable `TOKEN` changed
                  was unset
                  now set
            cost
              it took <time> when it last ran
              1 step before it runs too: load (<time>)
              2 steps after it may run too: b, sum (<time>)
            key
              type: verify_sandbox
              version of type `verify_sandbox`: 1
              field `base_dir`: /app
              field `criteria`: [{"bash_cmd":"cp data/in.txt a.txt","type":"bash_cmd_succeeds"}]
              field `sandbox_name`: box
              field `score_aggregator`: all_pass
              field `verifier_id`: a
              variable `TOKEN`: set
              isolation: none
            reads
              sandbox `box`: 8cc7bf65e6c5
              state of sandbox `box`: 3fa9cabafca6
            history
              <date> <run>: output 309c459848d9, score 1, <time>
        "#]],
    );
}

#[test]
fn the_state_before_a_dirty_step_was_lost() {
    let story = story();
    story.run();
    for entry in fs::read_dir(story.cache_dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir()
            && path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().contains("content") || name == "blobs")
        {
            fs::remove_dir_all(path).unwrap();
        }
    }
    story.write(
        "tasks/t.json",
        TASK.replace(r#"["a.txt"]}"#, r#"["a.txt", "data/in.txt"]}"#),
    );
    check(
        &story,
        "load",
        expect![[r#"
            load (load_artifact) of <work>/tasks/t.json
            dirty because
              the state of sandbox `box` after it was lost, and `a` needs it
                given by a, which is dirty because
                  the state of sandbox `box` after it was lost, and `b` needs it
                    given by b, which is dirty because
                      field `criteria` changed (<work>/tasks/t.json:7:85)
                        was [{"paths":["a.txt"],"type":"probe_file_exists"}]
                        now [{"paths":["a.txt","data/in.txt"],"type":"probe_file_exists"}]
            cost
              it took <time> when it last ran
              3 steps after it may run too: a, b, sum (<time>)
            needs
              sandbox `box` by create
            key
              type: load_artifact
              version of type `load_artifact`: 1
              field `artifact_id`: data
              field `destination_path`: /app/data
              field `sandbox_name`: box
              artifact `data`: file @local/work/data
              artifact `data` file `in.txt`: e0e63aa4c8e1
              isolation: none
            reads
              sandbox `box`: 8cc7bf65e6c5
              state of sandbox `box`: bab0b9283f57
            history
              <date> <run>: output 9ba4469cadb3, <time>
        "#]],
    );
}

#[test]
fn a_step_that_is_volatile() {
    let story = story();
    story.write(
        "aebuild.toml",
        "[sandbox]\nisolation = \"none\"\n[determinism.steps]\na = \"volatile\"\n",
    );
    story.run();
    check(
        &story,
        "a",
        expect![[r#"
            a (verify_sandbox) of <work>/tasks/t.json
            dirty because
              it is volatile: its result is never kept
            cost
              how long it takes is not known
              2 steps after it may run too: b, sum (<time>)
            needs
              sandbox `box` by restore
            key
              type: verify_sandbox
              version of type `verify_sandbox`: 1
              field `base_dir`: /app
              field `criteria`: [{"bash_cmd":"cp data/in.txt a.txt","type":"bash_cmd_succeeds"}]
              field `sandbox_name`: box
              field `score_aggregator`: all_pass
              field `verifier_id`: a
              isolation: none
        "#]],
    );
    check(
        &story,
        "b",
        expect![[r#"
            b (verify_sandbox) of <work>/tasks/t.json
            waits for a, and runs if that gives another result
              a is dirty because
                it is volatile: its result is never kept
            cost
              it took <time> when it last ran
              1 step before it runs too: a (not known how long)
              1 step after it may run too: sum (<time>)
            key
              type: verify_sandbox
              version of type `verify_sandbox`: 1
              field `base_dir`: /app
              field `criteria`: [{"paths":["a.txt"],"type":"probe_file_exists"}]
              field `sandbox_name`: box
              field `score_aggregator`: all_pass
              field `verifier_id`: b
              isolation: none
            reads
              sandbox `box`: 8cc7bf65e6c5
              state of sandbox `box`: def2bfd5fe96
            history
              <date> <run>: output 2dc0ec7fa973, score 1, <time>
        "#]],
    );
}

#[test]
fn a_hit_says_which_run_made_it_and_what_it_read() {
    let story = story();
    story.run();
    check(
        &story,
        "b",
        expect![[r#"
            b (verify_sandbox) of <work>/tasks/t.json
            hits: run <run> made its result
            key
              type: verify_sandbox
              version of type `verify_sandbox`: 1
              field `base_dir`: /app
              field `criteria`: [{"paths":["a.txt"],"type":"probe_file_exists"}]
              field `sandbox_name`: box
              field `score_aggregator`: all_pass
              field `verifier_id`: b
              isolation: none
            reads
              sandbox `box`: 8cc7bf65e6c5
              state of sandbox `box`: def2bfd5fe96
            history
              <date> <run>: output 2dc0ec7fa973, score 1, <time>
        "#]],
    );
}

#[test]
fn every_cause_reads_after_dirty_because() {
    use aebuild::context::Lookup;
    use aebuild::digest::Digest;
    use aebuild::graph::StepIx;
    use aebuild::rebuild::{DirtyReason, Origin, ReadKey};
    use aebuild::resource::ResourceId;

    let changed = |origin, name: &str, old: Option<&str>, new: Option<&str>| {
        let (old, new) = (old.map(str::to_owned), new.map(str::to_owned));
        DirtyReason::Changed {
            origin,
            name: name.to_owned(),
            old,
            new,
        }
    };
    let read = |read, old: Option<&str>, new: Option<&str>| {
        let digest = |text: Option<&str>| text.map(|text| Digest::of_bytes(text.as_bytes()));
        let (old, new) = (digest(old), digest(new));
        DirtyReason::ReadChanged {
            read,
            old,
            new,
            by: Some(StepIx(0)),
        }
    };
    let resource = ResourceId::sandbox("box");
    let reasons = [
        DirtyReason::NeverRun,
        changed(Origin::Field, "field `prompt`", Some("hi"), Some("ho")),
        changed(Origin::Field, "field `prompt`", None, Some("ho")),
        changed(Origin::File, "artifact `a` file `x`", Some("1"), None),
        changed(
            Origin::Type,
            "version of type `run_code`",
            Some("3"),
            Some("4"),
        ),
        changed(
            Origin::Tool,
            "tool `python3`",
            Some("Python 3.11.2"),
            Some("Python 3.13.0"),
        ),
        changed(
            Origin::Variable,
            "variable `TOKEN`",
            Some("unset"),
            Some("set"),
        ),
        changed(
            Origin::Isolation,
            "isolation",
            Some("none"),
            Some("bubblewrap"),
        ),
        changed(Origin::Sample, "sample", Some("0"), Some("1")),
        DirtyReason::Dropped,
        read(
            ReadKey::Lookup(Lookup::verification("v")),
            Some("1"),
            Some("2"),
        ),
        read(
            ReadKey::Lookup(Lookup::Agent("assistant".to_owned())),
            None,
            Some("2"),
        ),
        read(ReadKey::State(resource.clone()), Some("1"), None),
        DirtyReason::StateLost {
            resource: resource.clone(),
            needed_by: "reply".into(),
            why: None,
        },
        DirtyReason::GroupMember {
            other: "b".into(),
            resource,
        },
        DirtyReason::RolledBack { attempt: 2 },
        DirtyReason::Volatile,
        DirtyReason::Forced { by: "--fresh" },
    ];
    let mut text = String::new();
    for reason in reasons {
        text.push_str(&format!("{reason}\n"));
        if let Some((old, new)) = reason.old_and_new() {
            text.push_str(&format!("  {old} -> {new}\n"));
        }
    }
    expect![[r#"
        never run
        field `prompt` changed
          hi -> ho
        field `prompt` was added
          (absent) -> ho
        artifact `a` file `x` was removed
          1 -> (absent)
        type `run_code` went from version 3 to 4
          3 -> 4
        tool `python3` changed
          Python 3.11.2 -> Python 3.13.0
        variable `TOKEN` changed
          unset -> set
        isolation changed
          none -> bubblewrap
        sample changed
          0 -> 1
        its kept result was dropped
        verification `v` changed
          d63bd9a826af -> 813e9b729141
        agent `assistant` is there now
          (nothing found) -> 813e9b729141
        state of sandbox `box` is gone
          d63bd9a826af -> (nothing found)
        the state of sandbox `box` after it was lost, and `reply` needs it
        `b` must run, and both change sandbox `box` with no path between them
        rolled back, attempt 2
        it is volatile: its result is never kept
        --fresh asks for it
    "#]]
    .assert_eq(&text);
}
