//! What is accepted, what is reported and how the reader goes on.

mod fixes;
mod laws;
mod tables;

use std::time::Instant;

use expect_test::{Expect, expect};

use super::*;
use crate::diagnostic::concise::concise;
use crate::diagnostic::sort;

fn read(text: &str) -> Parsed {
    parse(&Source::new("t.json", text))
}

fn codes(text: &str) -> Vec<&'static str> {
    read(text)
        .faults
        .iter()
        .map(|fault| fault.code.as_str())
        .collect()
}

fn check(text: &str, expected: Expect) {
    let mut faults = read(text).faults;
    sort(&mut faults);
    let mut out = concise(&faults);
    for help in faults.iter().filter_map(|fault| fault.help.as_ref()) {
        out.push_str(&format!("  help: {help}\n"));
    }
    expected.assert_eq(&out);
}

/// Asserts that a clean tree means the same as the same text does to serde_json, and that each span is its value.
fn assert_faithful(text: &str) {
    let Parsed { root, faults } = read(text);
    assert!(faults.is_empty(), "{text}: {}", concise(&faults));
    let root = root.expect("a value");
    assert_eq!(
        root.to_value(),
        serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')).expect("valid"),
        "{text}"
    );
    assert_spans(&root, text);
}

fn assert_spans(node: &Node, text: &str) {
    let part = &text[node.span.range()];
    assert_eq!(
        read(part).root.expect("a value").to_value(),
        node.to_value(),
        "{part}"
    );
    match &node.kind {
        NodeKind::Array(items) => items.iter().for_each(|item| assert_spans(item, text)),
        NodeKind::Object(members) => {
            for member in members {
                assert_eq!(
                    serde_json::from_str::<String>(&text[member.key_span.range()]).expect("a key"),
                    member.key
                );
                assert_spans(&member.value, text);
            }
        }
        _ => {}
    }
}

#[test]
fn all_faults_of_a_file_are_found_at_once() {
    check(
        "// a task\n[\n  {\n    \"id\": 'reply',\n    type: \"prompt_agent\",\n    \"timeout\": 010,\n    \"retries\": NaN\n    \"id\": \"again\",\n  },\n  {\"a\": True, \"b\": [1, 2,]}\n",
        expect![[r#"
            t.json:1:1: error[comment]: JSON has no comments
            t.json:4:11: error[single-quotes]: a string is in single quotes
            t.json:5:5: error[unquoted-key]: a key must be in double quotes
            t.json:6:16: error[number-leading-zero]: number `010` starts with a zero
            t.json:7:16: error[number-not-finite]: JSON has no number `NaN`
            t.json:7:19: error[missing-comma]: a comma is missing between two values
            t.json:8:5: error[duplicate-key]: key `id` is written twice in one object
            t.json:8:18: error[trailing-comma]: a comma stands after the last value
            t.json:10:9: error[misspelt-literal]: `True` is not JSON
            t.json:10:25: error[trailing-comma]: a comma stands after the last value
            t.json:10:28: error[unfinished]: the file ends too early: the array is not closed
              help: delete it, or turn it into a member such as "//": ".."
              help: use double quotes
              help: write "type"
              help: delete the zero, or write it in double quotes if it is a text
              help: write a number, or null if there is none
              help: write `,` after the first value
              help: delete one of them
              help: delete the comma
              help: write true
              help: delete the comma
              help: add `]` at the end, if nothing else was cut off
        "#]],
    );
}

#[test]
fn a_string_without_its_end_costs_one_fault() {
    check(
        "[\n  {\n    \"id\": \"reply,\n    \"type\": \"prompt_agent\"\n  }\n]",
        expect![[r#"
        t.json:3:11: error[unclosed-string]: a string has no closing quote
          help: write `"` at its end
    "#]],
    );
    check(
        "[\n  {\n    \"id\": \"reply\n  }\n]",
        expect![[r#"
        t.json:3:11: error[unclosed-string]: a string has no closing quote
          help: write `"` at its end
    "#]],
    );
    check(
        "{\"prompt\": \"one\ntwo\tthree\"}",
        expect![[r#"
        t.json:1:16: error[raw-control-character]: a line break stands in a string (and 1 more)
          help: write \n
    "#]],
    );
}

#[test]
fn a_quote_in_a_string_costs_one_fault() {
    check(
        r#"[{"prompt": "say "hi" to Dana, "now", or later", "n": 1}]"#,
        expect![[r#"
            t.json:1:18: error[inner-quote]: a double quote stands in a string (and 3 more)
              help: write \"
        "#]],
    );
    check(
        "[\"a\"b, 1]",
        expect![[r#"
        t.json:1:5: error[missing-comma]: a comma is missing between two values
        t.json:1:5: error[unquoted-string]: a string must be in double quotes
          help: write `,` after the first value
          help: write it in double quotes
    "#]],
    );
    let root = read(r#"["say "hi" to Dana"]"#).root.expect("a tree");
    assert_eq!(root.to_value(), json!(["say \"hi\" to Dana"]));
}

#[test]
fn a_closing_bracket_that_was_forgotten_costs_one_fault() {
    check(
        "[\n  {\"a\": 1\n  {\"a\": 2},\n  {\"a\": 3}\n]",
        expect![[r#"
            t.json:3:3: error[unclosed-object]: an object is not closed before the next one starts
              help: write `},` after the last member
        "#]],
    );
    check(
        "[\n  {\"a\": 1,\n  {\"a\": 2, \"b\": [1}\n]",
        expect![[r#"
            t.json:3:3: error[unclosed-object]: an object is not closed before the next one starts
            t.json:3:19: error[mismatched-bracket]: `}` stands where `]` is needed
              help: write `},` after the last member
              help: add `]` before it
        "#]],
    );
}

#[test]
fn a_huge_word_is_not_repeated_in_the_faults() {
    let source = Source::new(
        "t.json",
        format!(
            "{{{}: 1, \"{}\": +{}}}",
            "x".repeat(100_000),
            "y".repeat(100_000),
            "1".repeat(100_000)
        ),
    );
    let faults = parse(&source).faults;
    assert_eq!(faults.len(), 2);
    assert!(concise(&faults).len() < 500);
}

#[test]
fn both_places_of_a_duplicate_are_labelled() {
    let faults = read("{\"id\": 1,\n \"\\u0069d\": 2}").faults;
    let places: Vec<_> = faults[0]
        .labels
        .iter()
        .map(|label| (label.source.slice(label.span), label.primary))
        .collect();
    assert_eq!(places, [("\"id\"", false), ("\"\\u0069d\"", true)]);
}

#[test]
fn what_could_be_read_stands_in_the_tree() {
    let root = read("[{\"id\": 'a', \"n\": 01, \"ok\": True, \"list\": [1 2 nan]}")
        .root
        .expect("a tree");
    assert_eq!(root.pointer("/0/id").and_then(Node::as_str), Some("a"));
    assert!(root.pointer("/0/n").is_some_and(Node::is_bad));
    assert_eq!(root.pointer("/0/ok").and_then(Node::as_bool), Some(true));
    assert_eq!(
        root.pointer("/0/list").map(Node::to_value),
        Some(json!([1, 2, null]))
    );
}

#[test]
fn pointers_find_values() {
    let root = read("{\"a/b\": [{\"~\": 1}], \"\": 2}")
        .root
        .expect("a tree");
    let at = |pointer: &str| root.pointer(pointer).map(Node::to_value);
    assert_eq!(at("/a~1b/0/~0"), Some(json!(1)));
    assert_eq!(at("/"), Some(json!(2)));
    assert_eq!(at("/a~1b/00"), None);
    assert_eq!(at("/a~1b/1"), None);
    assert_eq!(at("a"), None);
    assert_eq!(at(""), Some(root.to_value()));
}

#[test]
fn comments_can_be_left_out_of_the_value() {
    let root = read("{\"// why\": 1, \"$comment\": 2, \"a\": [{\"//\": 3}]}")
        .root
        .expect("a tree");
    assert_eq!(root.to_value_without_comments(), json!({"a": [{}]}));
    assert_eq!(
        root.to_value(),
        json!({"// why": 1, "$comment": 2, "a": [{"//": 3}]})
    );
}

#[test]
fn a_mark_at_the_start_is_skipped_and_counted() {
    let root = read("\u{feff}[7]").root.expect("a tree");
    assert_eq!(
        root.pointer("/0").map(|node| node.span),
        Some(Span { start: 4, end: 5 })
    );
}

#[test]
fn a_text_cut_anywhere_is_reported_and_never_panics() {
    let text = "[\n  {\"id\": \"r\\u00e9ply\\ud83d\\ude39\", \"n\": -1.5e+3, \"ok\": true, \"no\": [null, false]},\n  {\"π\": {}}\n]";
    assert_faithful(text);
    for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
        let parsed = read(&text[..end]);
        assert!(!parsed.faults.is_empty(), "{}", &text[..end]);
        assert!(
            parsed.faults.len() <= 2,
            "{}: {}",
            &text[..end],
            concise(&parsed.faults)
        );
    }
}

#[test]
fn a_bracket_too_many_in_depth_is_one_fault() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let per = open.matches(['[', '{']).count();
        let nested =
            |depth: usize| format!("{}1{}", open.repeat(depth / per), close.repeat(depth / per));
        assert_eq!(codes(&nested(64)), [""; 0]);
        assert_eq!(codes(&nested(66)), ["nesting-too-deep"]);
        for depth in [10_000, 1_000_000] {
            let started = Instant::now();
            assert_eq!(codes(&nested(depth)), ["nesting-too-deep"]);
            assert_eq!(codes(&open.repeat(depth / per)), ["nesting-too-deep"]);
            assert!(started.elapsed().as_secs() < 5);
        }
    }
}

#[test]
fn what_is_too_large_is_one_fault() {
    assert_eq!(codes(&" ".repeat(MAX_BYTES + 1)), ["file-too-large"]);
    assert_eq!(
        codes(&format!("[{}1]", "1,".repeat(MAX_VALUES))),
        ["too-many-values"]
    );
    let members: Vec<_> = (0..MAX_MEMBERS + 5)
        .map(|ix| format!("\"{ix}\":1"))
        .collect();
    assert_eq!(
        codes(&format!("{{{}}}", members.join(","))),
        ["too-many-members"]
    );
    assert_eq!(codes(&"1".repeat(400)), ["number-out-of-range"]);
    assert_eq!(codes(&"1".repeat(1 << 20)), ["number-out-of-range"]);
    assert_eq!(
        codes(&format!("0.{}1", "0".repeat(1 << 20))),
        ["number-out-of-range"]
    );
    assert_eq!(codes(&format!("1{}e-{}", "0".repeat(5000), 5000)), [""; 0]);
}

#[test]
fn faults_beyond_fifty_are_counted() {
    let faults = read(&format!("[{}]", ",".repeat(1_000_000))).faults;
    assert_eq!(faults.len(), MAX_FAULTS + 1);
    assert_eq!(
        faults[MAX_FAULTS].headline,
        "999950 more faults in `t.json`"
    );
}

#[test]
fn ten_thousand_steps_are_read_quickly() {
    let step = r#"{"id": "step-00000", "type": "prompt_agent", "agent_name": "assistant", "prompt": "Reply to Dana, and say why.", "depends_on": [], "timeout_seconds": 600}"#;
    let steps: Vec<_> = (0..10_000)
        .map(|ix| step.replace("00000", &format!("{ix:05}")))
        .collect();
    let source = Source::new("t.json", format!("[{}]", steps.join(",\n")));
    let started = Instant::now();
    let parsed = parse(&source);
    println!("{} bytes in {:?}", source.text.len(), started.elapsed());
    assert!(parsed.faults.is_empty());
    assert_eq!(
        parsed
            .root
            .and_then(|root| root.as_array().map(<[Node]>::len)),
        Some(10_000)
    );
}
