//! Task files with every kind of fault, and what is said of them.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::diagnostic::concise::concise;
use crate::json::{Map, json};
use crate::task::StepIx;
use crate::task::{DependsOn, OnError};

struct Types(Map<String, Value>);

impl StepTypes for Types {
    fn schema(&self, kind: &str) -> Option<&Value> {
        self.0.get(kind)
    }

    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

fn types() -> Types {
    let box_ = json!({
        "type": "object",
        "properties": {
            "sandbox_name": {"type": "string"},
            "sandbox_mode": {"type": "string", "enum": ["container", "vm"]},
            "ttl_seconds": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "metadata": {"type": "object"},
        },
        "required": ["sandbox_name", "sandbox_mode"],
        "additionalProperties": false,
    });
    let note = json!({
        "type": "object",
        "properties": {"prompt": {"type": "string"}, "parts": {"type": "array"}},
        "additionalProperties": false,
    });
    let types = [("deploy_sandbox", box_), ("note", note)];
    Types(
        types
            .into_iter()
            .map(|(name, schema)| (name.to_owned(), schema))
            .collect(),
    )
}

fn read(text: &str) -> Parsed {
    parse("t", &Source::new("t.json", text), &types())
}

/// Shows the faults, each with its help.
fn shown(faults: &[Diagnostic]) -> String {
    let mut out = String::new();
    for fault in faults {
        out.push_str(&concise(std::slice::from_ref(fault)));
        if let Some(help) = &fault.help {
            out.push_str(&format!("    {help}\n"));
        }
    }
    out
}

fn check(text: &str, expected: Expect) {
    let parsed = read(text);
    assert_eq!(
        parsed.readable,
        !parsed.faults.iter().any(Diagnostic::is_error)
    );
    expected.assert_eq(&shown(&parsed.faults));
}

#[test]
fn a_good_task_is_read_as_values() {
    let parsed = read(
        r#"[
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vm", "depends_on": [], "version": 3},
  {"id": "a", "type": "note", "//": "why", "parts": [{"$comment": 1, "x": 2}], "fail_task_on_error": false},
  {"id": "c", "type": "note", "depends_on": ["box", {"task_step_id": "a"}],
   "retry_config": {"go_to_step_id": "box"}}
]"#,
    );
    assert_eq!(parsed.faults, []);
    let [box_, a, c] = &parsed.task.steps[..] else {
        panic!("bug: three steps")
    };
    assert_eq!(box_.depends_on, DependsOn::Steps(vec![]));
    assert_eq!(
        (a.depends_on.clone(), a.on_error),
        (DependsOn::Earlier, Some(OnError::Continue))
    );
    assert_eq!(
        Value::Object(a.fields.clone()),
        json!({"parts": [{"x": 2}]})
    );
    assert_eq!(
        c.depends_on,
        DependsOn::Steps(vec!["box".into(), "a".into()])
    );
    assert_eq!(
        c.retry
            .as_ref()
            .map(|retry| (retry.from.as_str(), retry.max_retries)),
        Some(("box", 1))
    );
    let slice = |span| parsed.places.source().slice(span).to_owned();
    let (places, ix) = (&parsed.places, StepIx(2));
    assert_eq!(slice(places.id(ix)), "\"c\"");
    assert_eq!(slice(places.edge(ix, "a").unwrap()), "\"a\"");
    assert_eq!(slice(places.retry_target(ix).unwrap()), "\"box\"");
    assert_eq!(slice(places.key(ix, "type").unwrap()), "\"type\"");
    assert_eq!(slice(places.field(StepIx(1), "/parts/0/x")), "2");
    assert_eq!(
        slice(places.field(StepIx(1), "/parts/7/x")),
        "[{\"$comment\": 1, \"x\": 2}]"
    );
    assert_eq!(places.field(StepIx(1), "/nope"), places.step(StepIx(1)));
}

#[test]
fn formatting_comments_and_a_byte_order_mark_leave_the_task_equal() {
    let one = read("[{\"id\": \"a\", \"type\": \"note\", \"prompt\": \"x\"}]");
    let two = read(
        "\u{feff}[\r\n\t{\"type\": \"note\",\r\"// why\": 1,\r\n \"prompt\": \"\\u0078\", \"id\": \"a\"}\r\n]\r\n",
    );
    assert_eq!((one.task, two.faults), (two.task, vec![]));
}

#[test]
fn what_is_no_list_of_objects_is_refused() {
    check(
        "",
        expect![[r#"
        t.json:1:1: error[empty-file]: `t.json` is empty
    "#]],
    );
    check(
        " \n",
        expect![[r#"
        t.json:2:1: error[empty-file]: `t.json` has no value in it
    "#]],
    );
    check(
        "[]",
        expect![[r#"
        t.json:1:1: error[empty-task]: the task has no step
            add a step, such as {"id": "..", "type": ".."}
    "#]],
    );
    check(
        r#"{"steps": [{"id": "a", "type": "note"}]}"#,
        expect![[r#"
        t.json:1:1: error[not-a-list]: a task is a list of steps, not an object
            write the list of `steps` itself, without the object
    "#]],
    );
    check(
        r#"{"id": "a", "type": "note"}"#,
        expect![[r#"
        t.json:1:1: error[not-a-list]: a task is a list of steps, not an object
            put the step in `[` and `]`
    "#]],
    );
    check(
        "\"x\"",
        expect![[r#"
        t.json:1:1: error[not-a-list]: a task is a list of steps, not a string
            write the steps in `[` and `]`
    "#]],
    );
    check(
        "7",
        expect![[r#"
        t.json:1:1: error[not-a-list]: a task is a list of steps, not a number
            write the steps in `[` and `]`
    "#]],
    );
    check(
        "null",
        expect![[r#"
        t.json:1:1: error[not-a-list]: a task is a list of steps, not `null`
            write the steps in `[` and `]`
    "#]],
    );
    check(
        r#"[null, 1, ["note", "a"], {"id": "a", "type": "note"}]"#,
        expect![[r#"
            t.json:1:2: error[not-an-object]: step 1 is `null`, not an object
                write a step as {"id": "..", "type": ".."}
            t.json:1:8: error[not-an-object]: step 2 is a number, not an object
                write a step as {"id": "..", "type": ".."}
            t.json:1:11: error[not-an-object]: step 3 is an array, not an object
                write a step as {"id": "..", "type": ".."}
        "#]],
    );
}

#[test]
fn broken_text_is_said_once_and_nothing_more() {
    check(
        r#"[{"id": "a", "type": "note""#,
        expect![[r#"
        t.json:1:28: error[unfinished]: the file ends too early: the object is not closed
            add `}]` at the end, if nothing else was cut off
    "#]],
    );
    check(
        r#"[{"id": "a", "type": "note"} {"id": "b"}]"#,
        expect![[r#"
            t.json:1:29: error[missing-comma]: a comma is missing between two values
                write `,` after the first value
            t.json:1:30: error[missing-field]: step `b` lacks the field `type`
                add "type": ".."
        "#]],
    );
    check(
        r#"[{"id": "a", "type": "note", "prompt": NaN}, {"id": "b", "type": "nte"},]"#,
        expect![[r#"
            t.json:1:40: error[number-not-finite]: JSON has no number `NaN`
                write a number, or null if there is none
            t.json:1:66: error[unknown-type]: `nte`, the type of step `b`, is not a known type
                did you mean `note`?
            t.json:1:72: error[trailing-comma]: a comma stands after the last value
                delete the comma
        "#]],
    );
    check(
        r#"[{"id": "a", "id": "b", "type": "note"}]"#,
        expect![[r#"
        t.json:1:14: error[duplicate-key]: key `id` is written twice in one object
            delete one of them
    "#]],
    );
    check(
        r#"[{"id": "a", "\u0069d": "b", "type": "note", "parts": [{"x": 1, "x": 2}]}]"#,
        expect![[r#"
            t.json:1:14: error[duplicate-key]: key `id` is written twice in one object
                delete one of them
            t.json:1:65: error[duplicate-key]: key `x` is written twice in one object
                delete one of them
        "#]],
    );
}

#[test]
fn ids_are_checked() {
    check(
        r#"[{"type": "note"}, {"id": 7, "type": "note"}, {"id": "", "type": "note"}, {"id": null, "type": "note"},
            {"id": " a ", "type": "note"}, {"id": "a/b", "type": "note"}, {"id": "x\u202ey", "type": "note"},
            {"id": "con", "type": "note"}, {"ID": "q", "type": "note"}, {"id": "box-<who>", "type": "note"}]"#,
        expect![[r#"
            t.json:1:2: error[missing-field]: step 1 lacks the field `id`
                add "id": ".."
            t.json:1:27: error[wrong-type]: `id` of step 2 is a number, not a string
                write it in double quotes
            t.json:1:54: error[empty-id]: the id is empty
                give it a name
            t.json:1:82: error[wrong-type]: `id` of step 4 is `null`, not a string
                delete it, or write a value
            t.json:2:20: error[bad-id]: id ` a ` starts or ends with a space
                delete the space
            t.json:2:51: error[bad-id]: id `a/b` has the character `/`
                use letters, digits and any of ` ._-~@()+,&`, and start with a letter or digit
            t.json:2:82: error[invisible-character]: id `x\u{202e}y` has the invisible character U+202E
                delete the character, and type the name anew
            t.json:3:20: error[bad-id]: id `con` is the name of a device on some systems
                use letters, digits and any of ` ._-~@()+,&`, and start with a letter or digit
            t.json:3:45: error[unknown-field]: step 9 has no field `ID`
                did you mean `id`?
        "#]],
    );
    check(
        &format!(r#"[{{"id": "{}", "type": "note"}}]"#, "a".repeat(1 << 20)),
        expect![[r#"
            t.json:1:9: error[bad-id]: id `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…` has 1048576 bytes, but at most 128 are allowed
                choose a shorter one
        "#]],
    );
}

#[test]
fn ids_are_unique_in_any_unicode_form() {
    check(
        "[{\"id\": \"a\", \"type\": \"note\"}, {\"id\": \"a\", \"type\": \"note\"}, {\"id\": \"\u{e9}\", \"type\": \"note\"},\
          {\"id\": \"e\u{301}\", \"type\": \"note\"}, {\"id\": \"A\", \"type\": \"note\"},\
          {\"id\": \"reply\", \"type\": \"note\"}, {\"id\": \"r\u{435}\u{440}ly\", \"type\": \"note\"}]",
        expect![[r#"
            t.json:1:38: error[duplicate-id]: two steps have the id `a`
                give one of them another id
            t.json:1:95: error[duplicate-id]: two steps have the id `é`, written in two Unicode forms
                give one of them another id
            t.json:1:125: warning[ids-differ-in-case]: ids `a` and `A` differ in case only
                give one of them a name of its own
            t.json:1:186: warning[confusable-id]: id `rерly` looks like `reply`, but has U+0435
                write `reply` in Latin letters
        "#]],
    );
}

#[test]
fn types_are_checked() {
    check(
        r#"[{"id": "a"}, {"id": "b", "type": null}, {"id": "c", "type": 1}, {"id": "d", "type": ""},
            {"id": "e", "type": "Note"}, {"id": "f", "type": "deploy_sandbx"}, {"id": "g", "type": "zzzz"},
            {"id": "h", "type": "run_docker_container"}]"#,
        expect![[r#"
            t.json:1:2: error[missing-field]: step `a` lacks the field `type`
                add "type": ".."
            t.json:1:35: error[wrong-type]: `type` of step `b` is `null`, not a string
                delete it, or write a value
            t.json:1:62: error[wrong-type]: `type` of step `c` is a number, not a string
                write it in double quotes
            t.json:1:86: error[unknown-type]: ``, the type of step `d`, is not a known type
                the types are `deploy_sandbox`, `note`
            t.json:2:33: error[unknown-type]: `Note`, the type of step `e`, is not a known type
                did you mean `note`?
            t.json:2:62: error[unknown-type]: `deploy_sandbx`, the type of step `f`, is not a known type
                did you mean `deploy_sandbox`?
            t.json:2:100: error[unknown-type]: `zzzz`, the type of step `g`, is not a known type
                the types are `deploy_sandbox`, `note`
            t.json:3:33: error[unknown-type]: `run_docker_container`, the type of step `h`, is not there in this release
                delete step `h`, or run the task with `agent-env`
        "#]],
    );
}

#[test]
fn fields_are_checked_against_the_type() {
    check(
        r#"[{"id": "a", "type": "deploy_sandbox", "sandbox_mode": "pod", "ttl_seconds": "600", "cpuu": 2},
            {"id": "b", "type": "note", "promt": "x", "dependsOn": [], "fail_task_on_error": "no", "version": "1"},
            {"id": "c", "type": "deploy_sandbox", "sandbox_nam": "b", "sandbox_mode": "vm", "ttl_seconds": 0}]"#,
        expect![[r#"
            t.json:1:2: error[missing-field]: step `a` (deploy_sandbox) lacks the field `sandbox_name`
                add "sandbox_name": ".."
            t.json:1:56: error[unknown-value]: `sandbox_mode` of step `a` (deploy_sandbox) can't be `pod`
                write one of `container`, `vm`
            t.json:1:78: error[wrong-type]: `ttl_seconds` of step `a` (deploy_sandbox) is a string, not a whole number from 1 to 1000000
                delete the quotes
            t.json:1:85: error[unknown-field]: step `a` (deploy_sandbox) has no field `cpuu`
                the fields are `metadata`, `sandbox_mode`, `sandbox_name`, `ttl_seconds`
            t.json:2:41: error[unknown-field]: step `b` (note) has no field `promt`
                did you mean `prompt`?
            t.json:2:55: error[unknown-field]: step `b` has no field `dependsOn`
                did you mean `depends_on`?
            t.json:2:94: error[wrong-type]: `fail_task_on_error` of step `b` is a string, not `true` or `false`
                write `true` or `false`
            t.json:2:111: error[wrong-type]: `version` of step `b` is a string, not a whole number or `null`
                delete the quotes
            t.json:3:51: error[unknown-field]: step `c` (deploy_sandbox) has no field `sandbox_nam`
                did you mean `sandbox_name`?
            t.json:3:108: error[out-of-range]: `ttl_seconds` of step `c` (deploy_sandbox) is 0, but must be from 1 to 1000000
                write a number from 1 to 1000000
        "#]],
    );
}

#[test]
fn dependencies_are_checked() {
    check(
        r#"[{"id": "a", "type": "note", "depends_on": "box"}, {"id": "b", "type": "note", "depends_on": {}},
            {"id": "c", "type": "note", "depends_on": null},
            {"id": "d", "type": "note", "depends_on": [null, 1, {}, {"task_step_id": 1}, {"task_step_id": "a", "x": 1}]},
            {"id": "e", "type": "note", "depends_on": ["e", "zz", "A", "a", "a", {"task_step_id": "a"}, "f"]},
            {"id": "f", "type": "note", "depends_on": ["d"]}]"#,
        expect![[r#"
            t.json:1:44: error[wrong-type]: `depends_on` of step `a` is a string, not an array or `null`
                write it in `[` and `]`
            t.json:1:94: error[wrong-type]: `depends_on` of step `b` is an object, not an array or `null`
                write it in `[` and `]`
            t.json:2:55: warning[null-dependency]: `depends_on: null` makes step `c` wait for every earlier step
                write [] to wait for nothing, or delete the field to wait for every earlier step
            t.json:3:56: error[wrong-type]: `depends_on[0]` of step `d` is `null`, not a string or an object
                delete it, or write a value
            t.json:3:62: error[wrong-type]: `depends_on[1]` of step `d` is a number, not a string or an object
                write it in double quotes
            t.json:3:65: error[missing-field]: `depends_on[2]` of step `d` lacks the field `task_step_id`
                add "task_step_id": ".."
            t.json:3:86: error[wrong-type]: `depends_on[3].task_step_id` of step `d` is a number, not a string
                write it in double quotes
            t.json:3:112: error[unknown-field]: `depends_on[4]` of step `d` has no field `x`
                the fields are `task_step_id`
            t.json:4:56: error[self-dependency]: step `e` depends on itself
                delete the entry
            t.json:4:61: error[unknown-dependency]: step `e` depends on `zz`, which is no step of this task
            t.json:4:67: error[unknown-dependency]: step `e` depends on `A`, which is no step of this task
                did you mean `a`?
            t.json:4:77: warning[repeated-dependency]: `depends_on` of step `e` names `a` 3 times
                name each step once
            t.json:4:105: error[forward-dependency]: step `e` depends on `f`, which comes after it
                move step `f` before step `e`
        "#]],
    );
}

#[test]
fn a_cycle_is_named_at_its_shortest() {
    check(
        r#"[{"id": "a", "type": "note", "depends_on": ["b", "c"]}, {"id": "b", "type": "note", "depends_on": ["c"]},
            {"id": "c", "type": "note", "depends_on": ["a"]}]"#,
        expect![[r#"
            t.json:1:50: error[dependency-cycle]: steps wait for each other: `a` → `c` → `a`
                delete one of these dependencies
        "#]],
    );
    let n = 50_000;
    let steps = (0..n).map(|at| {
        format!(
            r#"{{"id": "s{at}", "type": "note", "depends_on": ["s{}"]}}"#,
            (at + 1) % n
        )
    });
    check(
        &format!("[{}]", steps.collect::<Vec<_>>().join(",")),
        expect![[r#"
            t.json:1:46: error[dependency-cycle]: steps wait for each other: `s0` → `s1` → `s2` → `s3` → 49994 more steps → `s49998` → `s49999` → `s0`
                delete one of these dependencies
        "#]],
    );
}

#[test]
fn retries_are_checked() {
    check(
        r#"[{"id": "a", "type": "note", "retry_config": {}},
            {"id": "b", "type": "note", "retry_config": {"retry_from_step_id": "aa"}},
            {"id": "c", "type": "note", "retry_config": {"retry_from_step_id": "a", "max_retries": -1}},
            {"id": "d", "type": "note", "retry_config": {"retry_from_step_id": "a", "max_retries": true}},
            {"id": "e", "type": "note", "retry_config": {"retry_from_step_id": "a", "max_retries": 1.0}},
            {"id": "f", "type": "note", "retry_config": {"retry_from_step_id": "a", "max_retries": "1"}},
            {"id": "g", "type": "note", "retry_config": {"retry_from_step_id": "a", "max_retries": 1000000000}},
            {"id": "h", "type": "note", "retry_config": {"retry_from_step_id": "a", "go_to_step_id": "b"}},
            {"id": "i", "type": "note", "retry_config": {"retry_form_step_id": "a"}},
            {"id": "j", "type": "note", "retry_config": "a"},
            {"id": "k", "type": "note", "retry_config": {"retry_from_step_id": 1}},
            {"id": "l", "type": "note", "retry_config": {"retry_from_step_id": "l", "max_retries": 0}}]"#,
        expect![[r#"
            t.json:1:30: error[retry-without-target]: the retry of step `a` does not say from where
                add "retry_from_step_id": with the id of the first step to run again
            t.json:2:80: error[unknown-retry-target]: the retry of step `b` goes back to `aa`, which is no step of this task
                did you mean `a`?
            t.json:3:100: error[out-of-range]: `retry_config.max_retries` of step `c` is -1, but must be from 0 to 1000
                write a number from 0 to 1000
            t.json:4:100: error[wrong-type]: `retry_config.max_retries` of step `d` is `true`, not a whole number from 0 to 1000
                write a whole number from 0 to 1000
            t.json:5:100: error[wrong-type]: `retry_config.max_retries` of step `e` is the number 1.0, not a whole number from 0 to 1000
                write 1
            t.json:6:100: error[wrong-type]: `retry_config.max_retries` of step `f` is a string, not a whole number from 0 to 1000
                delete the quotes
            t.json:7:100: error[out-of-range]: `retry_config.max_retries` of step `g` is 1000000000, but must be from 0 to 1000
                write a number from 0 to 1000
            t.json:8:102: error[two-retry-targets]: the retry of step `h` names two targets, `a` and `b`
                delete `go_to_step_id`, which is another name for `retry_from_step_id`
            t.json:9:58: error[unknown-field]: `retry_config` of step `i` has no field `retry_form_step_id`
                did you mean `retry_from_step_id`?
            t.json:10:57: error[wrong-type]: `retry_config` of step `j` is a string, not an object or `null`
                write an object or `null`
            t.json:11:80: error[wrong-type]: `retry_config.retry_from_step_id` of step `k` is a number, not a string
                write it in double quotes
        "#]],
    );
}

#[test]
fn many_faults_are_counted() {
    let steps: Vec<String> = (0..200)
        .map(|at| format!(r#"{{"id": "s{at}", "type": "nope"}}"#))
        .collect();
    let faults = read(&format!("[{}]", steps.join(","))).faults;
    assert_eq!(faults.len(), 51);
    expect![[r#"
        t.json:1:1514: error[more-faults]: 150 more errors in `t.json`
    "#]]
    .assert_eq(&shown(&faults[50..]));
}

#[test]
fn the_size_of_a_task_costs_no_more_than_its_text() {
    let repeated = vec!["\"a\""; 100_000].join(",");
    let text = format!(
        r#"[{{"id": "a", "type": "note"}}, {{"id": "b", "type": "note", "depends_on": [{repeated}]}}]"#
    );
    check(
        &text,
        expect![[r#"
        t.json:1:78: warning[repeated-dependency]: `depends_on` of step `b` names `a` 100000 times
            name each step once
    "#]],
    );
    let unknown: Vec<String> = (0..100_000).map(|at| format!("\"u{at}\"")).collect();
    let text = format!(
        r#"[{{"id": "b", "type": "note", "depends_on": [{}]}}]"#,
        unknown.join(",")
    );
    assert_eq!(read(&text).faults.len(), 51);
    for depends_on in ["", r#", "depends_on": ["s0"]"#] {
        let steps = (0..60_000).map(|at| {
            let depends_on = if at == 0 { "" } else { depends_on };
            format!(r#"{{"id": "s{at}", "type": "note", "prompt": "x"{depends_on}}}"#)
        });
        let parsed = read(&format!("[{}]", steps.collect::<Vec<_>>().join(",")));
        assert_eq!((parsed.faults, parsed.task.steps.len()), (vec![], 60_000));
    }
}

const GOOD: &str = r#"[{"id": "a\u00e9", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vm",
  "metadata": {"n": [1, -2.5e3, true, null]}}, {"id": "b", "type": "note", "depends_on": [{"task_step_id": "aé"}],
  "retry_config": {"retry_from_step_id": "b", "max_retries": 2}}]"#;

#[test]
fn a_file_cut_anywhere_is_refused_without_a_panic() {
    for at in 0..GOOD.len() {
        let (source, faults) = Source::from_bytes("t.json", &GOOD.as_bytes()[..at]);
        let parsed = parse("t", &source, &types());
        assert!(!parsed.readable || !faults.is_empty(), "cut at {at}");
    }
    assert_eq!(read(GOOD).faults, []);
}

proptest! {
    #[test]
    fn no_text_panics(bytes in any::<Vec<u8>>()) {
        let (source, _) = Source::from_bytes("t.json", &bytes);
        parse("t", &source, &types());
    }

    #[test]
    fn no_edit_of_a_good_file_panics(at in 0..GOOD.len(), len in 0usize..40, with in "[\\[\\]{},:\"a1é ]{0,6}") {
        let at = GOOD.floor_char_boundary(at);
        let end = GOOD.floor_char_boundary((at + len).min(GOOD.len()));
        let parsed = read(&format!("{}{with}{}", &GOOD[..at], &GOOD[end..]));
        for ix in 0..parsed.task.steps.len() + 1 {
            let ix = StepIx(ix as u32);
            parsed.places.field(ix, "/metadata/n/1");
            parsed.places.edge(ix, "aé");
        }
    }

    #[test]
    fn any_graph_of_names_is_judged(
        edges in proptest::collection::vec(proptest::collection::vec(0usize..8, 0..4), 1..8),
    ) {
        let steps: Vec<String> = edges.iter().enumerate().map(|(at, edges)| {
            let ids: Vec<String> = edges.iter().map(|edge| format!("\"s{edge}\"")).collect();
            format!(r#"{{"id": "s{at}", "type": "note", "depends_on": [{}]}}"#, ids.join(","))
        }).collect();
        let parsed = read(&format!("[{}]", steps.join(",")));
        let points_back = edges.iter().enumerate().all(|(at, edges)| edges.iter().all(|&edge| edge < at));
        prop_assert_eq!(parsed.readable, points_back, "{}", shown(&parsed.faults));
    }
}

#[test]
fn a_number_in_depends_on_is_put_into_quotes_only_where_a_step_has_that_id() {
    let fixes = |id: &str| {
        let text = format!(
            r#"[{{"id": "{id}", "type": "note"}}, {{"id": "b", "type": "note", "depends_on": [3]}}]"#
        );
        let faults = parse("t", &Source::new("t.json", text), &types()).faults;
        let wrong = faults
            .iter()
            .filter(|fault| fault.code.as_str() == "wrong-type");
        wrong.map(|fault| fault.fixes.len()).collect::<Vec<_>>()
    };
    assert_eq!(fixes("3"), [1]);
    assert_eq!(fixes("4"), [0]);
}
