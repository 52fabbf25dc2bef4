//! The table of broken bundles of the original.

use expect_test::expect;

use super::judge;
use crate::diagnostic::concise::concise;

/// The table of broken bundles of the original, row by row.
#[test]
fn every_broken_folder_of_the_original_is_refused_or_warned_of() {
    let box_ =
        r#""id": "box", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vm""#;
    let one = |step: &str| format!("[{step}]");
    let two = |more: &str| {
        format!(
            r#"[{{{box_}}}, {{"id": "v", "type": "verify_sandbox", "sandbox_name": "b", "criteria": []{more}}}]"#
        )
    };
    let rows: Vec<(&str, String)> = vec![
        ("bad JSON", r#"[{"id": "b",}]"#.to_owned()),
        ("duplicate key", one(&format!(r#"{{{box_}, "id": "c"}}"#))),
        ("NaN", one(&format!(r#"{{{box_}, "ttl_seconds": NaN}}"#))),
        ("empty file", String::new()),
        ("object form", r#"{"steps": []}"#.to_owned()),
        ("non-object element", one("\"x\"")),
        ("unknown type", one(r#"{"id": "box", "type": "no_such_step"}"#)),
        ("missing type", one(r#"{"id": "box"}"#)),
        ("missing id", one(r#"{"type": "aggregate_verifiers", "verifier_ids": []}"#)),
        ("missing required field", one(r#"{"id": "box", "type": "deploy_sandbox", "sandbox_name": "b"}"#)),
        ("bad enum", one(r#"{"id": "box", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "pod"}"#)),
        ("unknown field", one(&format!(r#"{{{box_}, "colour": 1}}"#))),
        ("wrong scalar type", one(&format!(r#"{{{box_}, "ttl_seconds": "soon"}}"#))),
        ("integer id", one(r#"{"id": 1, "type": "aggregate_verifiers", "verifier_ids": []}"#)),
        ("empty id", one(r#"{"id": "", "type": "aggregate_verifiers", "verifier_ids": []}"#)),
        ("duplicated dependency", two(r#", "depends_on": ["box", "box"]"#)),
        ("byte order mark", format!("\u{feff}{}", two(""))),
        ("extra retry key", two(r#", "retry_config": {"retry_from_step_id": "box", "x": 1}"#)),
        ("depends_on null", two(r#", "depends_on": null"#)),
        ("empty array", "[]".to_owned()),
        ("depends_on string", two(r#", "depends_on": "box""#)),
        ("bad entry", two(r#", "depends_on": [{"id": "box"}]"#)),
        ("unknown dependency", two(r#", "depends_on": ["nope", "box"]"#)),
        ("forward dependency", r#"[{"id": "a", "type": "aggregate_verifiers", "verifier_ids": [], "depends_on": ["b"]}, {"id": "b", "type": "aggregate_verifiers", "verifier_ids": []}]"#.to_owned()),
        ("self dependency", two(r#", "depends_on": ["v", "box"]"#)),
        ("duplicate id", one(&format!(r#"{{{box_}}}, {{"id": "box", "type": "aggregate_verifiers", "verifier_ids": []}}"#))),
        ("bad retry target", two(r#", "depends_on": ["box"], "retry_config": {"retry_from_step_id": 1}"#)),
        ("unknown retry target", two(r#", "retry_config": {"retry_from_step_id": "nope"}"#)),
        ("retry without target", two(r#", "retry_config": {"max_retries": 1}"#)),
        ("retry bool", two(r#", "retry_config": {"retry_from_step_id": "box", "max_retries": true}"#)),
        ("retry negative", two(r#", "retry_config": {"retry_from_step_id": "box", "max_retries": -1}"#)),
        ("two problems", one(r#"{"id": "", "type": "nope"}"#)),
        ("only unknown sandbox", one(r#"{"id": "chk", "type": "verify_sandbox", "sandbox_name": "ghost", "criteria": []}"#)),
        ("good", two("")),
    ];
    let mut out = String::new();
    for (row, text) in &rows {
        let faults = judge(&[("tasks/t.json", text)]);
        out.push_str(&format!("{row}\n"));
        for line in concise(&faults).lines() {
            out.push_str(&format!("    {line}\n"));
        }
    }
    let task = ("tasks/t.json", "[]");
    let folders: [(&str, &[(&str, &str)]); 7] = [
        ("not a bundle", &[("x", "")]),
        ("wrong-case dir", &[("Tasks/t.json", "[]")]),
        ("bundle.toml", &[task, ("bundle.toml", "")]),
        ("task folder", &[("tasks/t/x", "")]),
        ("empty artifact", &[("artifacts/a/.DS_Store", "")]),
        (
            "bad eval key",
            &[("evals/e.toml", "tasks = [\"t\"]\nx = 1")],
        ),
        (
            "two files at fault",
            &[("tasks/a.json", "{}"), ("tasks/b.json", "[")],
        ),
    ];
    for (row, files) in folders {
        out.push_str(&format!("{row}\n"));
        for line in concise(&judge(files)).lines() {
            out.push_str(&format!("    {line}\n"));
        }
    }
    expect![[r#"
        bad JSON
            tasks/t.json:1:2: error[missing-field]: step `b` lacks the field `type`
            tasks/t.json:1:12: error[trailing-comma]: a comma stands after the last value
        duplicate key
            tasks/t.json:1:85: error[duplicate-key]: key `id` is written twice in one object
        NaN
            tasks/t.json:1:100: error[number-not-finite]: JSON has no number `NaN`
        empty file
            tasks/t.json:1:1: error[empty-file]: `tasks/t.json` is empty
        object form
            tasks/t.json:1:1: error[not-a-list]: a task is a list of steps, not an object
        non-object element
            tasks/t.json:1:2: error[not-an-object]: step 1 is a string, not an object
        unknown type
            tasks/t.json:1:24: error[unknown-type]: `no_such_step`, the type of step `box`, is not a known type
        missing type
            tasks/t.json:1:2: error[missing-field]: step `box` lacks the field `type`
        missing id
            tasks/t.json:1:2: error[missing-field]: step 1 lacks the field `id`
        missing required field
            tasks/t.json:1:2: error[missing-field]: step `box` (deploy_sandbox) lacks the field `sandbox_mode`
        bad enum
            tasks/t.json:1:79: error[unknown-value]: `sandbox_mode` of step `box` (deploy_sandbox) can't be `pod`
        unknown field
            tasks/t.json:1:85: error[unknown-field]: step `box` (deploy_sandbox) has no field `colour`
        wrong scalar type
            tasks/t.json:1:100: error[wrong-type]: `ttl_seconds` of step `box` (deploy_sandbox) is a string, not a whole number
        integer id
            tasks/t.json:1:9: error[wrong-type]: `id` of step 1 is a number, not a string
        empty id
            tasks/t.json:1:9: error[empty-id]: the id is empty
        duplicated dependency
            tasks/t.json:1:183: warning[repeated-dependency]: `depends_on` of step `v` names `box` twice
        byte order mark
        extra retry key
            tasks/t.json:1:207: error[unknown-field]: `retry_config` of step `v` has no field `x`
        depends_on null
            tasks/t.json:1:175: warning[null-dependency]: `depends_on: null` makes step `v` wait for every earlier step
        empty array
            tasks/t.json:1:1: error[empty-task]: the task has no step
        depends_on string
            tasks/t.json:1:175: error[wrong-type]: `depends_on` of step `v` is a string, not an array or `null`
        bad entry
            tasks/t.json:1:176: error[missing-field]: `depends_on[0]` of step `v` lacks the field `task_step_id`
            tasks/t.json:1:177: error[unknown-field]: `depends_on[0]` of step `v` has no field `id`
        unknown dependency
            tasks/t.json:1:176: error[unknown-dependency]: step `v` depends on `nope`, which is no step of this task
        forward dependency
            tasks/t.json:1:80: error[forward-dependency]: step `a` depends on `b`, which comes after it
        self dependency
            tasks/t.json:1:176: error[self-dependency]: step `v` depends on itself
        duplicate id
            tasks/t.json:1:93: error[duplicate-id]: two steps have the id `box`
        bad retry target
            tasks/t.json:1:223: error[wrong-type]: `retry_config.retry_from_step_id` of step `v` is a number, not a string
        unknown retry target
            tasks/t.json:1:200: error[unknown-retry-target]: the retry of step `v` goes back to `nope`, which is no step of this task
        retry without target
            tasks/t.json:1:161: error[retry-without-target]: the retry of step `v` does not say from where
        retry bool
            tasks/t.json:1:222: error[wrong-type]: `retry_config.max_retries` of step `v` is `true`, not a whole number from 0 to 1000
        retry negative
            tasks/t.json:1:222: error[out-of-range]: `retry_config.max_retries` of step `v` is -1, but must be from 0 to 1000
        two problems
            tasks/t.json:1:9: error[empty-id]: the id is empty
            tasks/t.json:1:21: error[unknown-type]: `nope`, the type of step 1, is not a known type
        only unknown sandbox
            tasks/t.json:1:58: error[unknown-name]: step `chk` reads sandbox `ghost`, which no step makes
        good
        not a bundle
            error[not-a-task-folder]: `.` is no task folder: it has none of tasks/, evals/, artifacts/, skills/, envs/, agents/
        wrong-case dir
            error[wrong-case]: `Tasks` must be written `tasks`
        bundle.toml
            error[reserved-name]: `bundle.toml` has a name that is kept for later
            tasks/t.json:1:1: error[empty-task]: the task has no step
        task folder
            error[folder-among-tasks]: `tasks/t` is a folder, but tasks/ holds task files
        empty artifact
            error[empty-folder]: `artifacts/a` has nothing in it
        bad eval key
            evals/e.toml:1:10: error[unknown-task]: eval `e` names task `t`, which is not in this folder
            evals/e.toml:2:1: error[unknown-field]: eval `e` has no key `x`
        two files at fault
            tasks/a.json:1:1: error[not-a-list]: a task is a list of steps, not an object
            tasks/b.json:1:2: error[unfinished]: the file ends too early: the array is not closed
    "#]].assert_eq(&out);
}
