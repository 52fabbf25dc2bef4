//! Schemas as schemars writes them, and what is said where a value does not fit.

use expect_test::{Expect, expect};

use super::*;
use crate::diagnostic::concise::concise;
use crate::diagnostic::sort;
use crate::json::{json, parse};

const AT: &str = "step `reply`";

/// Checks a text and compares each fault with its help and the bytes it points at.
fn fits(schema: &Value, text: &str, expected: Expect) {
    let source = Source::new("t.json", text);
    let parsed = parse(&source);
    assert!(parsed.faults.is_empty(), "{}", concise(&parsed.faults));
    let mut faults = super::check(&parsed.root.expect("a value"), schema, &source, AT);
    sort(&mut faults);
    let mut out = String::new();
    for fault in faults {
        let place = fault.place().expect("a place");
        let help = fault.help.as_deref().unwrap_or("-");
        out.push_str(&format!(
            "{}: {} @ {} ? {help}\n",
            fault.code,
            fault.headline,
            source.slice(place.span)
        ));
    }
    expected.assert_eq(&out);
}

fn step() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Step", "type": "object",
        "properties": {
            "id": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^[a-z-]+$"},
            "prompt": {"description": "What is said.", "type": "string"},
            "timeout_seconds": {"type": ["integer", "null"], "format": "uint32", "minimum": 1, "maximum": 86400, "default": 600},
            "retries": {"type": "integer", "format": "uint8"},
            "weight": {"type": "number", "format": "double", "exclusiveMinimum": 0.0, "maximum": 1},
            "fresh": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "metadata": true,
            "on_error": {"oneOf": [{"description": "Stop.", "type": "string", "const": "stop"}, {"type": "string", "const": "skip"}]},
            "mode": {"type": "string", "enum": ["fast", "slow"]},
            "retry": {"anyOf": [{"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"], "additionalProperties": false}, {"type": "null"}]},
        },
        "required": ["id", "prompt"],
        "additionalProperties": false,
    })
}

#[test]
fn what_fits_is_not_spoken_of() {
    fits(
        &step(),
        r#"{"id": "reply", "prompt": "", "timeout_seconds": null, "retries": 255, "weight": 1, "tags": ["a"], "env": {"A": "1"}, "metadata": [1, {}],
            "on_error": "stop", "mode": "slow", "retry": null, "// why": 7, "$comment": {}, "fresh": false}"#,
        expect![[r#""#]],
    );
    fits(
        &step(),
        r#"{"id": "a", "prompt": "x", "retry": {"from": "b", "//": 1}, "timeout_seconds": 1}"#,
        expect![[r#""#]],
    );
}

#[test]
fn a_field_that_is_unknown_or_missing_is_named_with_the_nearest() {
    fits(
        &step(),
        r#"{"id": "a", "promt": "x"}"#,
        expect![[r#"
        unknown-field: step `reply` has no field `promt` @ "promt" ? did you mean `prompt`?
    "#]],
    );
    fits(
        &step(),
        r#"{"id": "a", "prompt": "x", "promt": "y", "colour": 1, "retry": {"form": "b"}}"#,
        expect![[r#"
        unknown-field: step `reply` has no field `promt` @ "promt" ? did you mean `prompt`, which is there already? delete one of them
        unknown-field: step `reply` has no field `colour` @ "colour" ? the fields are `env`, `fresh`, `id`, `metadata`, `mode`, `on_error`, `prompt`, `retries`, `retry`, `tags`, `timeout_seconds`, `weight`
        unknown-field: `retry` of step `reply` has no field `form` @ "form" ? did you mean `from`?
    "#]],
    );
    fits(
        &step(),
        "{}",
        expect![[r#"
        missing-field: step `reply` lacks the field `id` @ { ? add "id": ".."
        missing-field: step `reply` lacks the field `prompt` @ { ? add "prompt": ".."
    "#]],
    );
    fits(
        &step(),
        r#"{"id": "a", "prompt": "x", "retry": {}}"#,
        expect![[r#"
        missing-field: `retry` of step `reply` lacks the field `from` @ { ? add "from": ".."
    "#]],
    );
}

#[test]
fn a_wrong_type_says_what_is_there_and_what_is_needed() {
    fits(
        &step(),
        r#"{"id": 7, "prompt": null, "timeout_seconds": "600", "retries": 1.0, "weight": "x", "fresh": "true", "tags": "a", "env": {"A": 1}, "retry": [], "mode": 1, "on_error": null}"#,
        expect![[r#"
            wrong-type: `id` of step `reply` is a number, not a string @ 7 ? write it in double quotes
            wrong-type: `prompt` of step `reply` is `null`, not a string @ null ? delete it, or write a value
            wrong-type: `timeout_seconds` of step `reply` is a string, not a whole number from 1 to 86400 or `null` @ "600" ? delete the quotes
            wrong-type: `retries` of step `reply` is the number 1.0, not a whole number from 0 to 255 @ 1.0 ? write 1
            wrong-type: `weight` of step `reply` is a string, not a number above 0 and at most 1 @ "x" ? write a number above 0 and at most 1
            wrong-type: `fresh` of step `reply` is a string, not `true` or `false` @ "true" ? delete the quotes
            wrong-type: `tags` of step `reply` is a string, not an array @ "a" ? write it in `[` and `]`
            wrong-type: `env.A` of step `reply` is a number, not a string @ 1 ? write it in double quotes
            wrong-type: `retry` of step `reply` is an array, not an object @ [] ? write an object
            wrong-type: `mode` of step `reply` is a number, not one of `fast`, `slow` @ 1 ? write one of `fast`, `slow`
            wrong-type: `on_error` of step `reply` is `null`, not one of `stop`, `skip` @ null ? delete it, or write a value
        "#]],
    );
    fits(
        &step(),
        r#"["prompt_agent", "a"]"#,
        expect![[r#"
            wrong-type: step `reply` is an array, not an object @ ["prompt_agent", "a"] ? write an object
        "#]],
    );
}

#[test]
fn a_number_out_of_range_says_the_range() {
    fits(
        &step(),
        r#"{"id": "a", "prompt": "x", "timeout_seconds": 0, "retries": 256, "weight": 0}"#,
        expect![[r#"
            out-of-range: `timeout_seconds` of step `reply` is 0, but must be from 1 to 86400 @ 0 ? write a number from 1 to 86400
            out-of-range: `retries` of step `reply` is 256, but must be from 0 to 255 @ 256 ? write a number from 0 to 255
            out-of-range: `weight` of step `reply` is 0, but must be above 0 and at most 1 @ 0 ? write a number above 0 and at most 1
        "#]],
    );
    for number in ["-1", "1.5", "600.0", "1e3", "1000000000000", "true", "-0"] {
        let text = format!(r#"{{"id": "a", "prompt": "x", "timeout_seconds": {number}}}"#);
        let source = Source::new("t.json", text);
        let faults = super::check(&parse(&source).root.expect("a value"), &step(), &source, AT);
        assert_eq!(faults.len(), 1, "{number}");
    }
    let large = json!({"type": "integer", "maximum": 9_007_199_254_740_992_u64});
    fits(
        &large,
        "9007199254740993",
        expect![[r#"
        out-of-range: step `reply` is 9007199254740993, but must be at most 9007199254740992 @ 9007199254740993 ? write a number at most 9007199254740992
    "#]],
    );
}

#[test]
fn a_length_a_pattern_and_an_unknown_value_are_named() {
    fits(
        &step(),
        r#"{"id": "", "prompt": "x", "tags": [], "mode": "fats", "on_error": "explode"}"#,
        expect![[r#"
        wrong-length: `id` of step `reply` is empty, but needs 1 to 8 characters @ "" ? write 1 to 8 characters
        wrong-length: `tags` of step `reply` is empty, but needs 1 to 2 items @ [] ? write 1 to 2 items
        unknown-value: `mode` of step `reply` can't be `fats` @ "fats" ? did you mean `fast`?
        unknown-value: `on_error` of step `reply` can't be `explode` @ "explode" ? write one of `stop`, `skip`
    "#]],
    );
    fits(
        &step(),
        r#"{"id": "Reply no 1", "prompt": "x", "tags": ["a", "b", 3]}"#,
        expect![[r#"
        wrong-length: `id` of step `reply` has 10 characters, but needs 1 to 8 characters @ "Reply no 1" ? write 1 to 8 characters
        wrong-length: `tags` of step `reply` has 3 items, but needs 1 to 2 items @ ["a", "b", 3] ? write 1 to 2 items
        wrong-type: `tags[2]` of step `reply` is a number, not a string @ 3 ? write it in double quotes
    "#]],
    );
}

fn tagged() -> Value {
    json!({
        "oneOf": [
            {"type": "object", "properties": {"type": {"type": "string", "const": "command"}, "argv": {"type": "array", "items": {"type": "string"}}}, "required": ["type", "argv"], "additionalProperties": false},
            {"type": "object", "properties": {"type": {"type": "string", "const": "model"}, "model": {"type": "string"}}, "required": ["type", "model"], "additionalProperties": false},
        ]
    })
}

#[test]
fn inside_a_tagged_choice_faults_are_those_of_the_branch() {
    fits(
        &tagged(),
        r#"{"type": "command", "argv": ["a"]}"#,
        expect![[r#""#]],
    );
    fits(
        &tagged(),
        r#"{"type": "command", "argv": [1], "model": "x"}"#,
        expect![[r#"
        wrong-type: `argv[0]` of step `reply` is a number, not a string @ 1 ? write it in double quotes
        unknown-field: step `reply` has no field `model` @ "model" ? the fields are `argv`, `type`
    "#]],
    );
    fits(
        &tagged(),
        r#"{"type": "comand", "argv": ["a"]}"#,
        expect![[r#"
        unknown-value: `type` of step `reply` can't be `comand` @ "comand" ? did you mean `command`?
    "#]],
    );
    fits(
        &tagged(),
        r#"{"argv": ["a"]}"#,
        expect![[r#"
        missing-field: step `reply` lacks the field `type` @ { ? add "type" with one of `command`, `model`
    "#]],
    );
    fits(
        &tagged(),
        r#"{"tpye": "command", "argv": ["a"]}"#,
        expect![[r#"
        missing-field: step `reply` lacks the field `type` @ "tpye" ? did you mean `type`?
    "#]],
    );
    fits(
        &tagged(),
        r#"{"type": null}"#,
        expect![[r#"
        wrong-type: `type` of step `reply` is `null`, not one of `command`, `model` @ null ? delete it, or write a value
    "#]],
    );
    fits(
        &tagged(),
        r#"{"type": 3}"#,
        expect![[r#"
            wrong-type: `type` of step `reply` is a number, not one of `command`, `model` @ 3 ? write one of `command`, `model`
        "#]],
    );
    fits(
        &tagged(),
        r#""command""#,
        expect![[r#"
            wrong-type: step `reply` is a string, not an object @ "command" ? write an object
        "#]],
    );
}

#[test]
fn a_choice_named_by_its_only_key_is_a_choice_too() {
    let schema = json!({"oneOf": [
        {"type": "string", "const": "none"},
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false},
        {"type": "object", "properties": {"url": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}, "required": ["url"], "additionalProperties": false},
    ]});
    fits(&schema, r#""none""#, expect![[r#""#]]);
    fits(
        &schema,
        r#""non""#,
        expect![[r#"
        unknown-value: step `reply` can't be `non` @ "non" ? did you mean `none`?
    "#]],
    );
    fits(
        &schema,
        r#"{"url": {}}"#,
        expect![[r#"
        missing-field: `url` of step `reply` lacks the field `at` @ { ? add "at": ".."
    "#]],
    );
    fits(
        &schema,
        r#"{"ulr": {"at": "x"}}"#,
        expect![[r#"
        unknown-field: step `reply` has no field `ulr` @ "ulr" ? did you mean `url`?
    "#]],
    );
    fits(
        &schema,
        r#"{"other": 1}"#,
        expect![[r#"
        unknown-field: step `reply` has no field `other` @ "other" ? write one of `path`, `url`
    "#]],
    );
    fits(
        &schema,
        r#"{"//": 1}"#,
        expect![[r#"
        missing-field: step `reply` has none of the fields `path`, `url` @ {"//": 1} ? write one of `path`, `url`
    "#]],
    );
    fits(
        &schema,
        "7",
        expect![[r#"
            wrong-type: step `reply` is a number, not `none` or an object @ 7 ? write `none` or an object
        "#]],
    );
}

#[test]
fn a_choice_between_types_is_made_by_the_type() {
    let schema = json!({"type": "array", "items": {"anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"task_step_id": {"type": "string"}}, "required": ["task_step_id"], "additionalProperties": false},
    ]}});
    fits(&schema, r#"["a", {"task_step_id": "b"}]"#, expect![[r#""#]]);
    fits(
        &schema,
        r#"[null, 1, {}, {"task_step_id": 1}, {"task_step_id": "a", "x": 1}, {"task_stp_id": "a"}]"#,
        expect![[r#"
        wrong-type: `[0]` of step `reply` is `null`, not a string or an object @ null ? delete it, or write a value
        wrong-type: `[1]` of step `reply` is a number, not a string or an object @ 1 ? write it in double quotes
        missing-field: `[2]` of step `reply` lacks the field `task_step_id` @ { ? add "task_step_id": ".."
        wrong-type: `[3].task_step_id` of step `reply` is a number, not a string @ 1 ? write it in double quotes
        unknown-field: `[4]` of step `reply` has no field `x` @ "x" ? the fields are `task_step_id`
        unknown-field: `[5]` of step `reply` has no field `task_stp_id` @ "task_stp_id" ? did you mean `task_step_id`?
    "#]],
    );
}

#[test]
fn fields_beside_a_choice_are_known_together() {
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}},
        "required": ["id"],
        "unevaluatedProperties": false,
        "oneOf": [
            {"type": "object", "properties": {"kind": {"type": "string", "const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
            {"type": "object", "properties": {"kind": {"type": "string", "const": "b"}, "y": {"type": "integer"}}, "required": ["kind", "y"]},
        ],
    });
    fits(
        &schema,
        r#"{"id": "1", "kind": "a", "x": 1}"#,
        expect![[r#""#]],
    );
    fits(
        &schema,
        r#"{"id": "1", "kind": "a", "x": 1, "y": 2}"#,
        expect![[r#"
        unknown-field: step `reply` has no field `y` @ "y" ? the fields are `id`, `kind`, `x`
    "#]],
    );
}

#[test]
fn references_are_followed_and_a_loop_of_them_ends() {
    let schema = json!({
        "$ref": "#/$defs/Tree",
        "$defs": {
            "Tree": {"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}, "n": {"type": "integer"}}, "required": ["n"]},
            "Loop": {"$ref": "#/$defs/Loop"},
        },
    });
    fits(
        &schema,
        r#"{"n": 1, "left": {"n": 2, "left": {"n": "3", "left": null}}}"#,
        expect![[r#"
        wrong-type: `left.left.n` of step `reply` is a string, not a whole number @ "3" ? delete the quotes
    "#]],
    );
    fits(
        &json!({"$ref": "#/$defs/Loop", "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}}),
        "1",
        expect![[r#""#]],
    );
}

#[test]
fn nothing_is_said_where_a_fault_was_already_reported() {
    let source = Source::new("t.json", r#"{"id": "a", "prompt": +1, "tags": [01]}"#);
    let parsed = parse(&source);
    assert_eq!(parsed.faults.len(), 2);
    assert_eq!(
        super::check(&parsed.root.expect("a value"), &step(), &source, AT),
        []
    );
}

#[test]
fn a_misspelt_field_beside_the_right_one_is_deleted_only_where_nothing_is_lost() {
    let schema = json!({
        "type": "object",
        "properties": {"prompt": {"type": "string"}},
        "additionalProperties": false,
    });
    let fixes = |text: &str| {
        let source = Source::new("t.json", text);
        let root = crate::json::parse(&source).root.expect("it is JSON");
        let faults = super::check(&root, &schema, &source, "the step");
        faults
            .iter()
            .map(|fault| fault.fixes.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(fixes(r#"{"prompt": "a", "promt": "b"}"#), [0]);
    assert_eq!(fixes(r#"{"prompt": "a", "promt": "a"}"#), [1]);
}
