//! Every fault of a file is told in one pass, with its place and what to type.

use expect_test::{Expect, expect};

use crate::support::{World, root};

/// Checks a task beside an artifact `greeting`: each fault on a line, and below it what is offered.
fn check(task: &str, expected: Expect) {
    let world = World::new();
    world.write("t/tasks/t.json", task);
    world.write("t/artifacts/greeting/hello.txt", "hello\n");
    let output = world.aebuild(&["check", "t", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let mut shown = String::new();
    for line in said.lines() {
        let fault: aebuild::json::Value =
            aebuild::json::from_slice(line.as_bytes()).expect("each line is an object");
        let text = |key: &str| fault[key].as_str().unwrap_or_default().to_owned();
        shown.push_str(&format!("{}: {}\n", text("code"), text("headline")));
        shown.push_str(&format!("  {}\n", text("help")));
    }
    expected.assert_eq(&shown);
}

#[test]
fn a_file_with_many_faults_shows_them_all_at_once() {
    check(
        r#"[
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "cpuu": 2},
  {"id": "more", "type": "deploy_sandbx", "sandbox_name": "more", "sandbox_mode": "vm"},
  {"id": "soon", "type": "deploy_sandbox", "sandbox_name": "soon", "sandbox_mode": "vm", "ttl_seconds": "soon"},
  {"id": "nameless", "type": "deploy_sandbox", "sandbox_mode": "vm"},
  {"id": "load", "type": "load_artifact", "artifact_id": "greting", "sandbox_name": "box", "destination_path": "/w",
   "depends_on": ["box", "bxo"]},
  {"id": "early", "type": "load_artifact", "artifact_id": "greeting", "sandbox_name": "bx", "destination_path": "/w",
   "depends_on": ["box", "check"]},
  {"id": "load", "type": "load_artifact", "artifact_id": "greeting", "sandbox_name": "box", "destination_path": "/x"},
  {"id": "mail", "type": "deploy_env", "env_id": "emial"},
  {"id": "ask", "type": "prompt_agent", "agent_name": "asistant", "prompt": "Hi.", "prompt_id": "hi"},
  {"id": "check", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": "v",
   "criteria": [
     {"type": "probe_file_exits", "paths": ["hello.txt"]},
     {"type": "probe_file_contains", "paths": ["hello.txt"], "expected": "a("}
   ],
   "depends_on": ["box"],
   "retry_config": {"retry_from_step_id": "mail", "max_retries": 2}},
  {"id": "reply", "type": "agent_prompt_response_verifier", "prompt_id": "hj", "verifier_id": "r",
   "criteria": [{"type": "response_contians", "needles": ["x"]}]},
  {"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["v", "rr"], "score_aggregator": "al_pass"}
]
"#,
        expect![[r#"
            unknown-field: step `box` (deploy_sandbox) has no field `cpuu`
              did you mean `cpu`?
            unknown-type: `deploy_sandbx`, the type of step `more`, is not a known type
              did you mean `deploy_sandbox`?
            wrong-type: `ttl_seconds` of step `soon` (deploy_sandbox) is a string, not a whole number at least 1
              write a whole number at least 1
            missing-field: step `nameless` (deploy_sandbox) lacks the field `sandbox_name`
              add "sandbox_name": ".."
            unknown-artifact: step `load` uses artifact `greting`, which is not in the task folder
              did you mean `greeting`?
            unknown-dependency: step `load` depends on `bxo`, which is no step of this task
              did you mean `box`?
            unknown-name: step `early` reads sandbox `bx`, which no step makes
              did you mean `box`?
            forward-dependency: step `early` depends on `check`, which comes after it
              move step `check` before step `early`
            duplicate-id: two steps have the id `load`
              give one of them another id
            unknown-env: there is no env `emial`
              add a folder envs/emial/, or [envs.emial] to aebuild.toml
            unknown-name: step `ask` reads agent `asistant`, which no step makes
              add a step that makes agent `asistant`
            unknown-value: `criteria[0].type` of step `check` (verify_sandbox) can't be `probe_file_exits`
              did you mean `probe_file_exists`?
            bad-pattern: `a(` is no regular expression: Parsing error at position 2: Opening parenthesis without closing parenthesis
              put `\\` before a character that stands for itself
            retry-target-not-an-ancestor: the retry of step `check` goes back to `mail`, which it does not depend on
              add {"task_step_id": "mail"} to the `depends_on` of `check`, or name a step that it depends on
            unknown-name: step `reply` reads reply `hj`, which no step makes
              did you mean `hi`?
            unknown-value: `criteria[0].type` of step `reply` (agent_prompt_response_verifier) can't be `response_contians`
              did you mean `response_contains`?
            unknown-name: step `sum` reads verification `rr`, which no step makes
              did you mean `r`?
            unknown-value: `score_aggregator` of step `sum` (aggregate_verifiers) can't be `al_pass`
              did you mean `all_pass`?
        "#]],
    );
}

/// The conditions that the original refuses, each with what is said of it.
#[test]
fn every_condition_of_the_original_is_told_with_what_to_type() {
    const BOX: &str =
        r#"{"id": "box", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vm"}"#;
    let look = |more: &str| {
        format!(
            r#"[{BOX}, {{"id": "look", "type": "verify_sandbox", "sandbox_name": "b",
                "criteria": [{{"type": "probe_file_exists", "paths": ["a"]}}]{more}}}]"#
        )
    };
    let world = World::new();
    let rows = [
        ("01-missing-key", r#"[{"id": "box", "type": "deploy_sandbox", "sandbox_name": "b"}]"#.to_owned()),
        ("02-refused-value", r#"[{"id": "box", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vn"}]"#.to_owned()),
        ("03-no-list", look(r#", "depends_on": "box""#)),
        ("04-bad-entry", look(r#", "depends_on": [{"step": "box"}]"#)),
        ("05-unknown-edge", look(r#", "depends_on": ["bix"]"#)),
        ("06-own-edge", look(r#", "depends_on": ["look"]"#)),
        ("07-duplicate", format!("[{BOX}, {BOX}]")),
        ("08-no-target", look(r#", "retry_config": {"max_retries": 1}"#)),
        ("09-true", look(r#", "retry_config": {"retry_from_step_id": "box", "max_retries": true}"#)),
        ("10-negative", look(r#", "retry_config": {"retry_from_step_id": "box", "max_retries": -1}"#)),
        ("11-unknown-target", look(r#", "retry_config": {"retry_from_step_id": "bix"}"#)),
        ("12-no-ancestor", look(r#", "depends_on": [], "retry_config": {"retry_from_step_id": "box"}"#)),
        ("13-extra-field", look(r#", "sandbox": "b""#)),
        ("14-wrong-type", look(r#", "shell_timeout_seconds": "abc""#)),
        ("16-neither", format!(r#"[{BOX}, {{"id": "ask", "type": "prompt_agent"}}]"#)),
        ("17-forward", look(r#", "depends_on": ["late"]}, {"id": "late", "type": "reset_env", "env_id": "mail""#)),
        ("18-not-whole", look(r#", "retry_config": {"retry_from_step_id": "box", "max_retries": 1.5}"#)),
        ("19-retry-of-itself", look(r#", "retry_config": {"retry_from_step_id": "look", "max_retries": 0}"#)),
        ("20-one-id-twice", format!(r#"[{BOX}, {{"id": "grade", "type": "rubrics_verifier", "prompt_id": "p", "use_agent_judge": false, "criteria": [
            {{"id": "c", "criterion": "a"}}, {{"id": "c", "criterion": "b"}}]}}]"#)),
        ("21-artifact", format!(r#"[{BOX}, {{"id": "load", "type": "load_artifact", "sandbox_name": "b", "artifact_id": "greting", "destination_path": "/w"}}]"#)),
        ("22-env", r#"[{"id": "mail", "type": "deploy_env", "env_id": "emial"}]"#.to_owned()),
        ("23-env", r#"[{"id": "mail", "type": "deploy_env", "env_id": "mial"}]"#.to_owned()),
        ("24-agent", r#"[{"id": "ask", "type": "prompt_agent", "agent_name": "asistant", "prompt": "a"}]"#.to_owned()),
        ("25-reply", format!(r#"[{BOX}, {{"id": "judge", "type": "agent_prompt_response_verifier", "prompt_id": "nobody",
            "criteria": [{{"type": "response_contians", "needles": ["a"]}}]}}]"#)),
        ("26-sandbox", format!(r#"[{BOX}, {{"id": "load", "type": "load_artifact", "sandbox_name": "bx", "artifact_id": "greeting", "destination_path": "/w"}}]"#)),
        ("27-type", r#"[{"id": "box", "type": "deploy_sandbx", "sandbox_name": "b", "sandbox_mode": "vm"}]"#.to_owned()),
        ("28-syntax", format!("[{BOX},\n {{\"id\": \"again\" \"type\": \"deploy_sandbx\",}}]")),
        ("15-both", format!(r#"[{BOX}, {{"id": "ask", "type": "prompt_agent", "prompt": "a", "parts": []}}]"#)),
    ];
    for (name, task) in &rows {
        world.write(&format!("t/tasks/{name}.json"), task);
    }
    world.write("t/artifacts/greeting/hello.txt", "hello\n");
    let output = world.aebuild(&["check", "t", "--format", "json"]);
    let said = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let mut shown = String::new();
    for line in said.lines() {
        let fault: aebuild::json::Value =
            aebuild::json::from_slice(line.as_bytes()).expect("each line is an object");
        let labels = fault["labels"].as_array().expect("a fault has labels");
        let primary = labels.iter().find(|label| label["primary"] == true);
        let place = primary.expect("a fault has a place");
        let help = fault["help"].as_str().unwrap_or_default();
        let page = format!(
            "tasks/errors/{}/README.md",
            fault["code"].as_str().unwrap_or_default()
        );
        assert!(root().join(&page).is_file(), "{page} is there");
        shown.push_str(&format!(
            "{}:{}:{} {}: {help}\n",
            place["file"].as_str().unwrap_or_default(),
            place["line"],
            place["column"],
            fault["code"].as_str().unwrap_or_default(),
        ));
    }
    expect![[r#"
        t/tasks/01-missing-key.json:1:2 missing-field: add "sandbox_mode": ..
        t/tasks/02-refused-value.json:1:79 unknown-value: did you mean `vm`?
        t/tasks/03-no-list.json:2:92 wrong-type: write it in `[` and `]`
        t/tasks/04-bad-entry.json:2:93 missing-field: add "task_step_id": ".."
        t/tasks/04-bad-entry.json:2:94 unknown-field: the fields are `task_step_id`
        t/tasks/05-unknown-edge.json:2:93 unknown-dependency: did you mean `box`?
        t/tasks/06-own-edge.json:2:93 self-dependency: delete the entry
        t/tasks/07-duplicate.json:1:93 duplicate-id: give one of them another id
        t/tasks/07-duplicate.json:1:142 made-twice: give one of them another name
        t/tasks/08-no-target.json:2:78 retry-without-target: add "retry_from_step_id": with the id of the first step to run again
        t/tasks/09-true.json:2:139 wrong-type: write a whole number from 0 to 1000
        t/tasks/10-negative.json:2:139 out-of-range: write a number from 0 to 1000
        t/tasks/11-unknown-target.json:2:117 unknown-retry-target: did you mean `box`?
        t/tasks/12-no-ancestor.json:1:143 no-path-to-producer: add {"task_step_id": "box"} to the `depends_on` of `look`
        t/tasks/12-no-ancestor.json:2:135 retry-target-not-an-ancestor: add {"task_step_id": "box"} to the `depends_on` of `look`, or name a step that it depends on
        t/tasks/13-extra-field.json:2:78 unknown-field: did you mean `sandbox_name`, which is there already? delete one of them
        t/tasks/14-wrong-type.json:2:103 wrong-type: write a whole number from 1 to 604800
        t/tasks/15-both.json:1:108 unknown-name: add a step that makes agent `default-agent`
        t/tasks/15-both.json:1:148 conflicting-fields: delete one of `prompt` and `parts`
        t/tasks/16-neither.json:1:108 missing-field: add "prompt": ".."
        t/tasks/17-forward.json:2:93 forward-dependency: move step `late` before step `look`
        t/tasks/17-forward.json:2:149 unknown-name: add a step that makes env `mail`
        t/tasks/18-not-whole.json:2:139 wrong-type: round it to a whole number
        t/tasks/20-one-id-twice.json:1:143 unknown-name: add a step that makes reply `p`
        t/tasks/20-one-id-twice.json:2:51 duplicate-id: give each criterion an id of its own
        t/tasks/21-artifact.json:1:162 unknown-artifact: did you mean `greeting`?
        t/tasks/22-env.json:1:49 unknown-env: add a folder envs/emial/, or [envs.emial] to aebuild.toml
        t/tasks/23-env.json:1:49 unknown-env: did you mean `mail`?
        t/tasks/24-agent.json:1:54 unknown-name: add a step that makes agent `asistant`
        t/tasks/25-reply.json:1:157 unknown-name: add a step that makes reply `nobody`
        t/tasks/25-reply.json:2:35 unknown-value: did you mean `response_contains`?
        t/tasks/26-sandbox.json:1:142 unknown-name: did you mean `b`?
        t/tasks/27-type.json:1:24 unknown-type: did you mean `deploy_sandbox`?
        t/tasks/28-syntax.json:2:16 missing-comma: write `,` after the first value
        t/tasks/28-syntax.json:2:25 unknown-type: did you mean `deploy_sandbox`?
        t/tasks/28-syntax.json:2:40 trailing-comma: delete the comma
    "#]].assert_eq(&shown);
}

#[test]
fn who_may_set_off_a_trigger_waits_for_the_agent_that_it_tells() {
    let world = World::with("tasks/clock-steps");
    let path = "tasks/clock-steps/tasks/world.json";
    let text = std::fs::read_to_string(world.path().join(path)).expect("it is there");
    let ordered = "\"depends_on\": [\"rules\", \"assistant\"]";
    assert!(text.contains(ordered));
    let text = text.replace(ordered, "\"depends_on\": [\"assistant\"]");
    world.write(path, &text);
    let (said, status) = world.shell("aebuild check --format concise tasks/clock-steps");
    assert_eq!(status, Some(1));
    expect![[r#"
        tasks/clock-steps/tasks/world.json:61:11: error[no-path-to-producer]: step `ask` may set off triggers of step `rules` that tell agent `dana`, but does not wait for it
        tasks/clock-steps/tasks/world.json:68:11: warning[unordered-observer]: step `check` reads env `mail` while step `rules` may be changing it
        1 error, 1 warning
    "#]].assert_eq(&said);
}

#[test]
fn what_is_denied_decides_the_exit_status() {
    let world = World::new();
    let step = |name: &str, more: &str| {
        format!(
            r#"{{"id": "{name}", "type": "deploy_sandbox", "sandbox_name": "{name}", "sandbox_mode": "vm"{more}}}"#
        )
    };
    let look = r#"{"id": "look", "type": "verify_sandbox", "sandbox_name": "one", "depends_on": null,
        "criteria": [{"type": "probe_file_exists", "paths": ["a"]}]}"#;
    let task = format!("[{}, {}, {look}]", step("one", ""), step("two", ""));
    world.write("t/tasks/t.json", &task);
    let mut shown = String::new();
    let mut call = |arguments: &[&str]| {
        let output = world.aebuild(arguments);
        let said = String::from_utf8(output.stderr).expect("what is said is UTF-8");
        let code = output.status.code().expect("it ends by itself");
        shown.push_str(&format!("{}: {code}\n{said}", arguments.join(" ")));
    };
    let deny = |what| ["check", "t", "--format", "concise", "--deny", what];
    call(&["check", "t"]);
    call(&deny("warnings"));
    call(&deny("hints"));
    call(&deny("unused-deployment"));
    call(&deny("unordered-observer"));
    call(&deny("waenings"));
    world.write(
        "t/aebuild.toml",
        "[lint]\nnull-dependency = \"off\"\nunused-deployment = \"error\"\n",
    );
    call(&["check", "t"]);
    world.write(
        "t/aebuild.toml",
        "[lint]\nnull-dependency = \"off\"\nunused-deployment = \"off\"\n",
    );
    call(&deny("hints"));
    expect![[r#"
        check t: 0
        1 warning, 1 hint
        check t --format concise --deny warnings: 1
        1 warning, 1 hint; 1 denied
        check t --format concise --deny hints: 1
        1 warning, 1 hint; 2 denied
        check t --format concise --deny unused-deployment: 1
        1 warning, 1 hint; 1 denied
        check t --format concise --deny unordered-observer: 0
        1 warning, 1 hint
        check t --format concise --deny waenings: 2
        error: `--deny waenings` names neither `warnings` nor `hints` nor a code
          help: did you mean `warnings`?
        check t: 1
        1 error
        check t --format concise --deny hints: 0
        no faults
    "#]]
    .assert_eq(&shown);
}

#[test]
fn a_configuration_that_cannot_be_read_is_told_of() {
    let code = |prepare: fn(&World)| {
        let world = World::new();
        world.write("t/tasks/t.json", "[]");
        prepare(&world);
        let output = world.aebuild(&["check", "t", "--format", "concise"]);
        String::from_utf8(output.stdout).expect("faults are UTF-8")
    };
    let folder = code(|world| world.write("t/aebuild.toml/inside", ""));
    assert!(folder.contains("error[not-a-file]"), "{folder}");
    let link = code(|world| {
        std::os::unix::fs::symlink("nothing", world.path().join("t/aebuild.toml"))
            .expect("a link can be made");
    });
    assert!(link.contains("error[no-such-path]"), "{link}");
}
