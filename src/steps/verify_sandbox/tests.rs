use super::*;
use crate::steps::testing::{
    FakeSandbox, FakeServices, build_step, exited, misfits, refused, run, show,
};
use expect_test::expect;

fn world() -> FakeServices {
    FakeServices::new().with(
        FakeSandbox::new("box")
            .at("/live/run-7/box/tmp")
            .file("/app/hello.txt", "hello\nworld\n")
            .file("/data/x/y", "")
            .command(|exec| {
                let said = format!("{:?}", exec.program);
                Ok(match said {
                    said if said.contains("boom") => {
                        exited(How::Code(3), "", "/live/run-7/box/root/app/boom: not found")
                    }
                    said if said.contains("slow") => exited(How::TimedOut, "", ""),
                    said if said.contains("killed") => exited(How::Signal(9), "", ""),
                    said if said.contains("nowhere") => {
                        return Err(SandboxError::NoSuchProgram {
                            program: "nowhere".to_owned(),
                            looked_in: "/bin".to_owned(),
                        });
                    }
                    said if said.contains("lost") => {
                        return Err(SandboxError::Destroyed {
                            id: "box".to_owned(),
                        });
                    }
                    _ => exited(How::Code(0), "out", "noise that changes"),
                })
            }),
    )
}

fn fields(criteria: Value) -> Value {
    json!({"sandbox_name": "box", "criteria": criteria, "shell_timeout_seconds": 5})
}

fn verify(fields: Value) -> Result<Value, StepError> {
    let output = run(&*build_step(&TYPE, "check", fields), "check", &world())?;
    assert_eq!(output.entries.len(), 1);
    Ok((*output.entries[0].value).clone())
}

fn rows(criteria: Value) -> String {
    let value = verify(fields(criteria)).unwrap();
    let line = |row: &Value| {
        format!(
            "{} {}: {}\n",
            row["criterion_index"], row["result"], row["justification"]
        )
    };
    value["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(line)
        .collect()
}

#[test]
fn every_criterion_gives_a_row_that_says_why() {
    expect![[r#"
        0 true: "all there"
        1 false: "Missing: ['/app/nope']"
        2 true: "all there"
        3 false: "Missing: ['/app/hello.txt']"
        4 true: "contains '^wor.d$'"
        5 false: "does not contain 'bye'"
        6 false: "Missing: ['/app/nope']"
        7 true: "contains ''"
    "#]]
    .assert_eq(
        &rows(json!([
            {"type": "probe_file_exists", "paths": ["hello.txt", "/data/x/y", "/data"]},
            {"type": "probe_file_exists", "paths": ["./hello.txt", "nope"]},
            {"type": "probe_dir_exists", "paths": ["/data/x"]},
            {"type": "probe_dir_exists", "paths": ["hello.txt"]},
            {"type": "probe_file_contains", "paths": ["hello.txt"], "expected": "(?m)^wor.d$"},
            {"type": "probe_file_contains", "paths": ["hello.txt"], "value": "bye"},
            {"type": "probe_file_contains", "paths": ["nope"], "expected": "x"},
            {"type": "probe_file_contains", "paths": ["hello.txt"]},
        ]))
        .replace("(?m)", ""),
    );
}

#[test]
fn a_command_that_does_not_exit_with_0_is_a_row_that_did_not_pass() {
    expect![[r#"
        0 true: "exit=0; stderr=noise that changes"
        1 false: "exit=3; stderr=/app/boom: not found"
        2 false: "stopped after 5 s; stderr="
        3 false: "signal=9; stderr="
        4 false: "program `nowhere` is not in the sandbox (looked in /bin)"
    "#]]
    .assert_eq(&rows(json!([
        {"type": "command_succeeds", "argv": ["true"]},
        {"type": "bash_cmd_succeeds", "bash_cmd": "boom"},
        {"type": "bash_cmd_succeeds", "bash_cmd": "slow"},
        {"type": "bash_cmd_succeeds", "bash_cmd": "killed"},
        {"type": "command_succeeds", "argv": ["nowhere"]},
    ])));
}

#[test]
fn a_verification_with_a_command_that_took_too_long_is_not_kept() {
    let kept = |bash_cmd: &str| {
        let world = world();
        let criteria = json!([{"type": "bash_cmd_succeeds", "bash_cmd": bash_cmd}]);
        run(
            &*build_step(&TYPE, "check", fields(criteria)),
            "check",
            &world,
        )
        .unwrap();
        world.not_kept()
    };
    assert_eq!(
        kept("slow"),
        "a command was stopped at `shell_timeout_seconds`"
    );
    assert_eq!(kept("boom"), "");
}

#[test]
fn a_sandbox_that_is_gone_fails_the_step_and_blames_no_criterion() {
    let error = verify(fields(
        json!([{"type": "bash_cmd_succeeds", "bash_cmd": "lost"}]),
    ))
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "SandboxError: sandbox `box` was destroyed"
    );
}

#[test]
fn a_row_has_all_that_its_criterion_says_but_no_verdict_of_its_own() {
    let criterion = json!({
        "type": "probe_dir_exists", "paths": ["nope"], "criterion": "a folder", "weight": 2,
        "id": "c1", "result": true, "score": 1.0, "skipped": true,
    });
    let value = verify(fields(json!([criterion]))).unwrap();
    expect![[r#"{"results":[{"criterion":"a folder","criterion_index":0,"id":"c1","justification":"Missing: ['/app/nope']","paths":["nope"],"result":false,"score":0.0,"skipped":false,"type":"probe_dir_exists","weight":2.0}],"score":0.0}"#]]
        .assert_eq(&value.to_string());
}

#[test]
fn weights_count_where_the_average_is_asked_for() {
    let mut fields = fields(json!([
        {"type": "command_succeeds", "argv": ["true"], "weight": 3},
        {"type": "bash_cmd_succeeds", "bash_cmd": "boom"},
    ]));
    assert_eq!(verify(fields.clone()).unwrap()["score"], json!(0.0));
    fields["score_aggregator"] = json!("weighted_average");
    assert_eq!(verify(fields).unwrap()["score"], json!(0.75));
    assert_eq!(
        verify(json!({"sandbox_name": "box"})).unwrap(),
        json!({"results": [], "score": 0.0})
    );
}

#[test]
fn what_commands_write_goes_to_the_log_in_the_order_of_the_criteria() {
    let world = world();
    let criteria = json!([
        {"type": "bash_cmd_succeeds", "bash_cmd": "boom"},
        {"type": "command_succeeds", "argv": ["true"]},
    ]);
    let output = run(
        &*build_step(&TYPE, "check", fields(criteria)),
        "check",
        &world,
    )
    .unwrap();
    assert!(show(&output).starts_with("metadata.verifications.check = "));
    expect![[r#"
        Note: criterion 1: exit=3; stderr=/app/boom: not found
        Stderr: /live/run-7/box/root/app/boom: not found
        Stdout: out
        Stderr: noise that changes
    "#]]
    .assert_eq(&world.log_text());
}

#[test]
fn only_a_command_may_change_the_sandbox() {
    let touch = |criteria: Value| build_step(&TYPE, "check", fields(criteria)).touches()[0].1;
    assert_eq!(
        touch(json!([{"type": "probe_dir_exists", "paths": ["x"]}])),
        Touch::Observes
    );
    assert_eq!(
        touch(json!([{"type": "command_succeeds", "argv": ["x"]}])),
        Touch::MayMutate
    );
}

#[test]
fn a_criterion_that_could_never_pass_is_refused() {
    let criteria = json!([
        {"type": "probe_file_contains", "paths": ["a"], "expected": "("},
        {"type": "probe_file_exists", "paths": ["a"], "wieght": 2, "note": "free"},
    ]);
    expect![[r#"
        bad-pattern /criteria/0/expected: `(` is no regular expression: Parsing error at position 1: Opening parenthesis without closing parenthesis (put `\\` before a character that stands for itself)
        unknown-field /criteria/1/wieght: criterion 2 has no field `wieght` (did you mean `weight`?)
    "#]]
    .assert_eq(&refused(&TYPE, fields(criteria)));
}

#[test]
fn a_misspelt_type_is_refused_with_the_nearest_one() {
    let criteria = json!([
        {"type": "bash_command_succeeds", "bash_cmd": "x"},
        {"type": "probe_file_exists", "paths": []},
        {"type": "command_succeeds", "argv": ["x"], "note": "free", "weight": 2},
    ]);
    expect![[r#"
        unknown-value: `criteria[0].type` of step can't be `bash_command_succeeds` (did you mean `bash_cmd_succeeds`?)
        wrong-length: `criteria[1].paths` of step is empty, but needs at least 1 item (write at least 1 item)
    "#]]
    .assert_eq(&misfits(&TYPE, fields(criteria)));
}

#[test]
fn a_step_without_a_sandbox_is_refused() {
    expect![""].assert_eq(
        &(refused(&TYPE, json!({})) + &refused(&TYPE, json!({"agent_name": "default-agent"}))),
    );
}
