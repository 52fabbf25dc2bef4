//! Whole runs of real tasks: what runs, what hits, and why.

use std::fs;

use aebuild::event::{Outcome, RunEvent};
use aebuild::session::{RunOptions, SeedRow, StepVerdict, Told};

use crate::story::{Story, normal};

const CHAIN: &str = r#"[
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
  {"id": "load", "type": "load_artifact", "sandbox_name": "box", "artifact_id": "tools",
   "destination_path": "/app/tools"},
  {"id": "b", "type": "verify_sandbox", "sandbox_name": "box", "criteria": [
    {"type": "bash_cmd_succeeds", "bash_cmd": "bash tools/b.sh > out.txt; echo done"}]},
  {"id": "c", "type": "verify_sandbox", "sandbox_name": "box", "criteria": [
    {"type": "probe_file_contains", "paths": ["out.txt"], "expected": "made by b"},
    {"type": "bash_cmd_succeeds", "bash_cmd": "cat out.txt; printf 'no newline\\r\\x00'"}]},
  {"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["b", "c"]}
]"#;

fn chain() -> Story {
    let story = Story::new();
    story.write("tasks/chain.json", CHAIN);
    story.write("artifacts/tools/b.sh", "# one\necho made by b\n");
    story.write("artifacts/tools/other.txt", "x\n");
    story.settle();
    story
}

#[test]
fn a_second_run_runs_nothing_and_starts_no_process() {
    let story = chain();
    let first = story.run();
    assert_eq!(first.outcome(), Outcome::Passed);
    assert_eq!(first.ran(), "b c load sum");
    assert_eq!(first.provisioned(), "load:create b:reuse c:reuse");
    let second = story.run();
    assert!(second.summary().tasks[0].unchanged);
    assert_eq!(second.outcome(), Outcome::Passed);
    assert_eq!(
        (second.ran().as_str(), second.provisioned().as_str()),
        ("", "")
    );
    let tally = second.summary().tally;
    assert_eq!((tally.hit, tally.ran, tally.deferred), (4, 0, 1));
}

#[test]
fn a_cached_run_gives_the_context_of_the_run_that_made_it() {
    let story = chain();
    let first = story.run();
    let options = RunOptions {
        contexts: true,
        ..RunOptions::default()
    };
    let second = story.run_with(&options);
    assert_eq!(second.hit(), "b c load sum");
    assert_eq!(
        (second.ran().as_str(), second.provisioned().as_str()),
        ("", "")
    );
    assert_eq!(normal(second.context()), normal(first.context()));
}

#[test]
fn an_edit_that_leaves_the_output_the_same_reruns_one_step() {
    let story = chain();
    story.run();
    story.write(
        "artifacts/tools/b.sh",
        "# another comment\necho made by b\n",
    );
    let second = story.run();
    // The script is loaded anew, so the state that `b` finds is another; what `b` leaves differs by the script alone.
    assert_eq!(second.ran(), "b c load");
    assert_eq!(second.hit(), "sum");
    assert!(
        second
            .because("load")
            .contains("artifact `tools` file `b.sh` changed")
    );
    assert!(
        second
            .because("c")
            .contains("state of sandbox `box` changed")
    );
}

const CUTOFF: &str = r#"[
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
  {"id": "b", "type": "verify_sandbox", "sandbox_name": "box", "criteria": [
    {"type": "bash_cmd_succeeds", "criterion": "makes it", "bash_cmd": "echo made by b > out.txt"}]},
  {"id": "c", "type": "verify_sandbox", "sandbox_name": "box", "criteria": [
    {"type": "probe_file_contains", "paths": ["out.txt"], "expected": "made by b"}]}
]"#;

#[test]
fn a_step_that_reads_what_did_not_change_does_not_run() {
    let story = Story::new();
    story.write("tasks/cutoff.json", CUTOFF);
    story.run();
    let edited = CUTOFF.replace("echo made by b > out.txt", "echo 'made by b' >out.txt");
    story.write("tasks/cutoff.json", &edited);
    let second = story.run();
    assert_eq!((second.ran().as_str(), second.hit().as_str()), ("b", "c"));
    let explained = story.explain("c");
    assert!(matches!(explained.verdict, StepVerdict::Hit { .. }));
    assert_eq!(
        explained.cutoff.as_deref(),
        Some("`b` ran since and gave the same state of sandbox `box`")
    );
}

#[test]
fn an_edit_of_formatting_key_order_or_a_comment_reruns_nothing() {
    let story = Story::new();
    story.write("tasks/cutoff.json", CUTOFF);
    story.run();
    let value: serde_json::Value = serde_json::from_str(CUTOFF).unwrap();
    let mut pretty = serde_json::to_string_pretty(&value).unwrap();
    pretty = pretty.replacen('{', "{ \"//\": \"why this is here\", \"version\": 3,", 1);
    story.write("tasks/cutoff.json", pretty);
    let second = story.run();
    assert_eq!((second.ran().as_str(), second.hit().as_str()), ("", "b c"));
}

#[test]
fn an_edit_of_the_last_verifier_restores_the_state_and_runs_it_alone() {
    let story = chain();
    story.run();
    story.write(
        "tasks/chain.json",
        CHAIN.replace("\"made by b\"", "\"by b\""),
    );
    let second = story.run();
    assert_eq!(second.ran(), "c sum");
    assert_eq!(second.provisioned(), "c:restore");
    assert_eq!(second.because("c"), "field `criteria` changed");
    assert_eq!(second.because("sum"), "verification `c` changed");
}

#[test]
fn logs_are_replayed_byte_for_byte() {
    let story = chain();
    let first = story.run();
    let options = RunOptions {
        contexts: true,
        ..RunOptions::default()
    };
    let second = story.run_with(&options);
    let of = |logs: &[(String, Vec<u8>)]| {
        let mut logs = logs.to_vec();
        logs.sort();
        logs
    };
    assert!(
        first.logs.iter().any(|(step, bytes)| step == "c"
            && bytes.windows(12).any(|window| window == b"no newline\r\0"))
    );
    assert_eq!(of(&first.logs), of(&second.logs));
}

#[test]
fn an_input_that_is_edited_while_its_step_runs_is_not_stored() {
    let story = chain();
    let target = story.path("artifacts/tools/other.txt");
    // A wall-less sandbox can write where the runner can: the step itself edits its input.
    let task = CHAIN.replace("echo done", &format!("date +%N >> {}", target.display()));
    let task = task.replace(
        r#"{"id": "b", "type": "verify_sandbox", "sandbox_name": "box", "criteria": ["#,
        r#"{"id": "b", "type": "run_code", "sandbox_name": "box", "script_artifact_id": "script"},
           {"id": "b2", "type": "verify_sandbox", "sandbox_name": "box", "criteria": ["#,
    );
    if !crate::story::has_program("python3") {
        return;
    }
    story.write(
        "tasks/chain.json",
        task.replace("[\"b\", \"c\"]", "[\"c\"]"),
    );
    let script = story.path("artifacts/script/s.py");
    let body = format!("def run(x):\n    open({script:?}, 'a').write('#\\n')\n    return 1\n");
    story.write("artifacts/script/s.py", body);
    let first = story.run();
    assert!(
        first
            .not_stored()
            .contains("b: `s.py` of artifact `script` changed while it ran"),
        "{:?} {}",
        first.summary().tasks[0].failure,
        first.not_stored()
    );
}

#[test]
fn blobs_deleted_behind_the_index_are_a_miss_and_the_run_says_what_it_does() {
    let story = chain();
    story.run();
    for entry in fs::read_dir(story.cache_dir()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name.contains("content") || name == "blobs" {
            fs::remove_dir_all(path).unwrap();
        }
    }
    story.write(
        "tasks/chain.json",
        CHAIN.replace("\"made by b\"", "\"by b\""),
    );
    let second = story.run();
    assert_eq!(second.outcome(), Outcome::Passed);
    // The state before `c` is gone, so the steps that made it run again.
    assert_eq!(second.ran(), "b c load sum");
    assert!(
        second.because("b").contains("was lost, and `c` needs it"),
        "{}",
        second.because("b")
    );
}

#[test]
fn an_edit_within_the_same_moment_is_noticed() {
    let story = Story::new();
    for n in 0..10 {
        let wanted = format!("echo {n}");
        story.write(
            "tasks/cutoff.json",
            CUTOFF.replace("echo made by b", &wanted),
        );
        let seen = story.run();
        assert!(seen.ran().contains('b'), "edit {n} was not noticed");
    }
}

#[test]
fn a_failed_step_runs_again_and_leaves_no_trace() {
    let story = Story::new();
    let task = r#"[
      {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
      {"id": "get", "type": "collect_artifacts", "sandbox_name": "box", "artifact_paths": ["no.txt"]}
    ]"#;
    story.write("tasks/fails.json", task);
    let first = story.run();
    assert_eq!(first.outcome(), Outcome::Failed);
    let second = story.run();
    assert_eq!(second.ran(), "get");
    assert_eq!(second.outcome(), Outcome::Failed);
    let failed = &second.context()["metadata"]["failed_steps"][0];
    assert_eq!(failed["step_id"], "get");
    assert_eq!(failed["is_fatal"], true);
    let explained = story.explain("get");
    assert_eq!(explained.history.len(), 2);
    assert!(explained.history.iter().all(|row| row.error.is_some()));
}

#[test]
fn samples_are_kept_apart_and_running_again_gives_the_same() {
    let story = Story::new();
    story.write("tasks/cutoff.json", CUTOFF);
    let toml = "[sandbox]\nisolation = \"none\"\n[determinism.steps]\nb = \"sampled\"\n";
    story.write("aebuild.toml", toml);
    let task = CUTOFF.replace("echo made by b", "date +%s%N; echo made by b");
    story.write("tasks/cutoff.json", task);
    story.settle();
    let options = RunOptions {
        samples: 3,
        ..RunOptions::default()
    };
    let first = story.run_with(&options);
    assert_eq!(first.summary().tasks.len(), 3);
    assert_eq!(first.ran().matches('b').count(), 3);
    let second = story.run_with(&options);
    assert_eq!(second.ran(), "");
    let more = story.run_with(&RunOptions {
        samples: 4,
        ..RunOptions::default()
    });
    // What `b` left is the same in every sample, so `c` need not run again.
    assert_eq!(more.ran(), "b");
}

#[test]
fn a_volatile_step_is_never_kept() {
    let story = Story::new();
    story.write("tasks/cutoff.json", CUTOFF);
    let toml = "[sandbox]\nisolation = \"none\"\n[determinism.steps]\nb = \"volatile\"\n";
    story.write("aebuild.toml", toml);
    story.run();
    let second = story.run();
    assert_eq!((second.ran().as_str(), second.hit().as_str()), ("b", "c"));
}

#[test]
fn seeds_are_part_of_the_key() {
    let story = Story::new();
    story.write(
        "tasks/cutoff.json",
        CUTOFF.replace("made by b", "made by <who>"),
    );
    let seeded = |who: &str| {
        let values = [("who".to_owned(), who.to_owned())].into();
        let seeds = vec![SeedRow {
            name: String::new(),
            values,
        }];
        story.run_with(&RunOptions {
            seeds,
            ..RunOptions::default()
        })
    };
    assert_eq!(seeded("dana").outcome(), Outcome::Passed);
    assert_eq!(seeded("sam").ran(), "b c");
    assert_eq!(seeded("dana").ran(), "");
}

#[test]
fn forced_steps_run_and_what_they_leave_the_same_stops_there() {
    let story = Story::new();
    story.write("tasks/cutoff.json", CUTOFF);
    story.run();
    let rerun = RunOptions {
        rerun: vec!["b".to_owned()],
        ..RunOptions::default()
    };
    assert_eq!(story.run_with(&rerun).ran(), "b");
    let fresh = RunOptions {
        fresh: true,
        ..RunOptions::default()
    };
    assert_eq!(story.run_with(&fresh).ran(), "b c");
    let only = RunOptions {
        only: Some("c".to_owned()),
        ..RunOptions::default()
    };
    assert_eq!(story.run_with(&only).ran(), "c");
    let until = RunOptions {
        until: Some("b".to_owned()),
        ..RunOptions::default()
    };
    assert_eq!(story.run_with(&until).hit(), "b");
    story.write("tasks/cutoff.json", CUTOFF.replace("made by b", "other"));
    let cached = RunOptions {
        cached_only: true,
        ..RunOptions::default()
    };
    let seen = story.run_with(&cached);
    assert_eq!((seen.ran().as_str(), seen.outcome()), ("", Outcome::Failed));
}

#[test]
fn two_outputs_under_one_key_are_noticed_and_reported() {
    let story = Story::new();
    story.write(
        "tasks/cutoff.json",
        CUTOFF.replace("echo made by b", "date +%s%N; echo made by b"),
    );
    story.write(
        "tasks/cutoff.json",
        CUTOFF.replace(
            "echo made by b > out.txt",
            "(echo made by b; date +%s%N) > out.txt",
        ),
    );
    story.run();
    let fresh = RunOptions {
        fresh: true,
        ..RunOptions::default()
    };
    let second = story.run_with(&fresh);
    assert!(
        second.notices().contains("`b` gave another output"),
        "{}",
        second.notices()
    );
    let found = story.session().unwrap().nondeterminism().unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].step.ends_with("cutoff/b"));
    assert_eq!(found[0].differs, ["state of sandbox `box`"]);
}

#[test]
fn variables_that_are_unset_empty_and_set_give_three_keys() {
    // The setting is read through `System`, so the process's own environment is left alone.
    use aebuild::system::MemorySystem;
    let system = MemorySystem::new();
    let toml = "[sandbox]\npass_variables = [\"TOKEN\"]\n";
    system.write("/w/aebuild.toml", toml);
    system.write("/w/tasks/t.json", CUTOFF);
    let system = std::sync::Arc::new(system);
    let key = |value: Option<&str>| {
        system.set_variable("TOKEN", value);
        let options = aebuild::session::SessionOptions {
            paths: vec!["/w".into()],
            no_cache: true,
            ..Default::default()
        };
        let registry = aebuild::steps::REGISTRY;
        let mut session =
            aebuild::session::Session::open(system.clone(), registry, options).unwrap();
        let explained = session
            .explain(&RunOptions::default(), "b")
            .unwrap()
            .remove(0);
        explained
            .key
            .into_iter()
            .find(|(name, _)| name == "variable `TOKEN`")
            .unwrap()
            .1
    };
    assert_eq!(key(None), "unset");
    assert_eq!(key(Some("")), "set");
    assert_eq!(key(Some("x")), "set");
}

#[test]
fn tasks_of_one_name_in_folders_of_one_name_do_not_get_in_each_others_way() {
    let story = Story::new();
    story.write("one/same/tasks/t.json", CUTOFF);
    story.write(
        "two/same/tasks/t.json",
        CUTOFF.replace("made by b", "made by two"),
    );
    let mut session = story.session_on(&["one/same", "two/same"]).unwrap();
    let (_keep, wish) = tokio::sync::watch::channel(aebuild::session::Wish::GoOn);
    let summary = session
        .run(&RunOptions::default(), &mut |_| (), wish)
        .unwrap();
    let outcomes: Vec<Outcome> = summary.tasks.iter().map(|task| task.outcome).collect();
    assert_eq!(outcomes, [Outcome::Passed, Outcome::Passed]);
    assert_eq!(summary.tally.ran, 4);
}

#[test]
fn a_state_that_cannot_be_taken_is_used_and_not_kept() {
    let story = Story::new();
    story.write(
        "tasks/t.json",
        CUTOFF.replace(
            "echo made by b > out.txt",
            "mkfifo p; echo made by b > out.txt",
        ),
    );
    let first = story.run();
    assert_eq!(first.outcome(), Outcome::Passed);
    assert!(
        first
            .not_stored()
            .contains("b: the state in which it left sandbox `box` cannot be taken"),
        "{}",
        first.not_stored()
    );
    let second = story.run();
    assert_eq!(second.ran(), "b c");
    assert!(
        !second.notices().contains("gave another output"),
        "{}",
        second.notices()
    );
    let session = story.session().unwrap();
    assert!(session.cache().unwrap().verify(true).unwrap().is_clean());
    assert!(session.nondeterminism().unwrap().is_empty());
}

#[test]
fn a_step_whose_sandbox_vanishes_fails_and_leaves_no_score() {
    let story = Story::new();
    story.write(
        "tasks/t.json",
        CUTOFF.replace("echo made by b > out.txt", "cd ../..; rm -rf root"),
    );
    let first = story.run();
    assert_eq!(first.outcome(), Outcome::Failed);
    let failure = first.summary().tasks[0].failure.clone().unwrap();
    assert!(
        failure.contains("sandbox `box` was removed while the step ran"),
        "{failure}"
    );
    assert_eq!(story.run().ran(), "b");
}

#[test]
fn a_sandbox_is_made_after_calls_of_an_env_were_recorded() {
    let story = Story::new();
    story.write("agents/a/agent.toml", "type = \"scripted\"\n[[rules]]\nreply = \"done\"\n[[rules.calls]]\ntool = \"set\"\narguments = { key = \"a\", value = 1 }\n");
    let steps = r#"[
        {"id": "env", "type": "deploy_env", "env_id": "kv"},
        {"id": "agent", "type": "deploy_agent", "agent_name": "a", "env_ids": ["kv"], "depends_on": ["env"]},
        {"id": "ask", "type": "prompt_agent", "agent_name": "a", "prompt_id": "p", "prompt": "go", "depends_on": ["agent"]},
        {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "depends_on": ["ask"]},
        {"id": "look", "type": "verify_sandbox", "sandbox_name": "box", "depends_on": ["box", "ask"],
         "criteria": [{"type": "bash_cmd_succeeds", "bash_cmd": "true"}]}
    ]"#;
    story.write("tasks/t.json", steps);
    let seen = story.run();
    let summary = seen.result.unwrap();
    assert_eq!(summary.tally.failed, 0, "{:?}", seen.events);
}

#[test]
fn a_task_that_is_named_twice_runs_once() {
    let story = Story::new();
    story.write("f/tasks/t.json", CUTOFF);
    let mut session = story.session_on(&["f", "f/tasks/t.json"]).unwrap();
    let (_keep, wish) = tokio::sync::watch::channel(aebuild::session::Wish::GoOn);
    let summary = session
        .run(&RunOptions::default(), &mut |_| (), wish)
        .unwrap();
    assert_eq!((summary.tasks.len(), summary.tally.ran), (1, 2));
}

#[test]
fn a_run_that_is_stopped_at_once_names_every_task() {
    let story = Story::new();
    // More than begin side by side.
    for n in 0..6 {
        story.write(&format!("tasks/t{n}.json"), CUTOFF);
    }
    let mut session = story.session().unwrap();
    let (ask, wish) = tokio::sync::watch::channel(aebuild::session::Wish::GoOn);
    ask.send(aebuild::session::Wish::StopNow).unwrap();
    let options = RunOptions {
        jobs: Some(1),
        ..RunOptions::default()
    };
    let mut finished = 0;
    let summary = session
        .run(
            &options,
            &mut |told| finished += usize::from(is_task_finished(&told)),
            wish,
        )
        .unwrap();
    let outcomes: Vec<Outcome> = summary.tasks.iter().map(|task| task.outcome).collect();
    assert_eq!((outcomes, finished), (vec![Outcome::Cancelled; 6], 6));
    assert!(summary.cancelled);
}

fn is_task_finished(told: &Told) -> bool {
    matches!(told, Told::Event(RunEvent::TaskFinished { .. }))
}

#[test]
fn who_looks_at_an_edit_before_the_run_does_not_hide_it() {
    let story = chain();
    story.run();
    story.settle();
    story.write("artifacts/tools/b.sh", "echo made by another\n");
    story.settle();
    // What only foresees notes the new digest of the file; the task was last run with the old one.
    let mut session = story.session().unwrap();
    let forecast = session.plan(&RunOptions::default()).unwrap();
    assert!(matches!(
        forecast[0].steps[1].verdict,
        StepVerdict::Dirty { .. }
    ));
    drop(session);
    assert_eq!(story.run().ran(), "b c load sum");
}

#[test]
fn an_edit_of_what_two_tasks_share_is_seen_by_both() {
    let story = chain();
    story.write("tasks/other.json", CHAIN);
    story.settle();
    story.run();
    story.settle();
    story.write("artifacts/tools/b.sh", "echo made by another\n");
    story.settle();
    for task in ["chain", "other"] {
        let options = RunOptions {
            tasks: vec![task.to_owned()],
            ..RunOptions::default()
        };
        assert!(
            !story.run_with(&options).summary().tasks[0].unchanged,
            "{task}"
        );
    }
}

#[test]
fn an_edit_of_what_an_artifact_is_is_seen() {
    let story = Story::new();
    story.write(
        "tasks/t.json",
        r#"[
          {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
          {"id": "load", "type": "load_artifact", "sandbox_name": "box", "artifact_id": "one"}
        ]"#,
    );
    story.write("artifacts/one/a.txt", "a");
    story.write("artifacts/one/artifact.toml", "type = \"file\"\n");
    story.settle();
    story.run();
    story.settle();
    story.write(
        "artifacts/one/artifact.toml",
        "type = \"file_artifact_universe\"\n",
    );
    story.settle();
    assert_eq!(story.run().ran(), "load");
}
