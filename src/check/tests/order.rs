//! Edits of `depends_on` that faults of order bring with them.

use expect_test::{Expect, expect};

use super::judge;
use crate::diagnostic::{Fix, Safety};

/// Applies the first fix of the only fault, and compares the lines that it changes.
fn check(task: &str, safety: Safety, expected: Expect) {
    let faults = judge(&[("tasks/t.json", task), ("artifacts/a/x", "")]);
    let fixes: Vec<&Fix> = faults.iter().flat_map(|fault| &fault.fixes).collect();
    let [fix] = fixes[..] else {
        panic!("one fix is expected: {faults:#?}");
    };
    assert_eq!(fix.safety, safety);
    let mut text = task.to_owned();
    for edit in &fix.edits {
        text.replace_range(edit.span.range(), &edit.text);
    }
    assert_eq!(judge(&[("tasks/t.json", &text), ("artifacts/a/x", "")]), []);
    let changed: Vec<&str> = text
        .lines()
        .filter(|line| !task.lines().any(|other| other == *line))
        .collect();
    expected.assert_eq(&format!("{}: {}", fix.title, changed.join("\n")));
}

const TWO: &str = r#"{"id": "one", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vm", "depends_on": []},
{"id": "two", "type": "deploy_sandbox", "sandbox_name": "c", "sandbox_mode": "vm", "depends_on": []}"#;

#[test]
fn an_edge_is_added_in_the_way_the_others_are_written() {
    check(
        &format!(
            r#"[{TWO},
{{"id": "load", "type": "load_artifact", "artifact_id": "a", "sandbox_name": "b",
 "depends_on": ["two"]}}]"#
        ),
        Safety::Sure,
        expect![[r#"make `load` wait for `one`:  "depends_on": ["two", "one"]}]"#]],
    );
    check(
        &format!(
            r#"[{TWO},
{{"id": "load", "type": "load_artifact", "artifact_id": "a", "sandbox_name": "b",
 "depends_on": [
   {{"task_step_id": "two"}}
 ]}}]"#
        ),
        Safety::Sure,
        expect![[r#"
            make `load` wait for `one`:    {"task_step_id": "two"},
               {"task_step_id": "one"}"#]],
    );
    check(
        &format!(
            r#"[{TWO},
{{"id": "load", "type": "load_artifact", "artifact_id": "a", "sandbox_name": "b", "depends_on": [ ]}}]"#
        ),
        Safety::Sure,
        expect![[
            r#"make `load` wait for `one`: {"id": "load", "type": "load_artifact", "artifact_id": "a", "sandbox_name": "b", "depends_on": [{"task_step_id": "one"}]}]"#
        ]],
    );
}

#[test]
fn an_order_that_nobody_wrote_is_offered() {
    check(
        &format!(
            r#"[{TWO},
{{"id": "load", "type": "load_artifact", "artifact_id": "a", "sandbox_name": "b", "depends_on": ["one"]}},
{{"id": "look", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": ["one"]}}]"#
        ),
        Safety::Offered,
        expect![[
            r#"make `look` wait for `load`: {"id": "look", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": ["one", "load"]}]"#
        ]],
    );
}
