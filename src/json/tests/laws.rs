//! What holds for every text and every value.

use proptest::prelude::*;

use super::{assert_spans, read};
use crate::diagnostic::concise::concise;
use crate::diagnostic::json::json as to_json;
use crate::diagnostic::{Diagnostic, Source};
use crate::json::{Map, Node, Value, canonical, parse, schema};

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map("[a-z\\PC]{0,4}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Texts made of what JSON is made of, in any order.
fn almost_json() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        "[", "]", "{", "}", ",", ":", "\"", "\"a\"", "\"b\":", "\\", "\\u", "d83d", "\\ude39", "'",
        "1", "-", "0", ".", "e", "E+", "true", "nul", "NaN", " ", "\n", "\r", "\t", "//", "/*",
        "*/", "#", "π", "\u{feff}", "\u{0}", "_", "=", ";", "“",
    ]);
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in any::<Vec<u8>>()) {
        let (source, _) = Source::from_bytes("t.json", &bytes);
        let _ = parse(&source);
    }

    #[test]
    fn almost_json_is_accepted_exactly_when_it_is_json(text in almost_json()) {
        let parsed = read(&text);
        let stricter = ["duplicate-key", "number-not-exact", "number-out-of-range"];
        let is_good = parsed.faults.iter().all(|fault| stricter.contains(&fault.code.as_str()));
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let by_serde = serde_json::from_str::<Value>(text);
        if is_good && parsed.faults.is_empty() {
            prop_assert!(by_serde.is_ok(), "{text}");
        } else if !is_good {
            prop_assert!(by_serde.is_err(), "{text}: {}", concise(&parsed.faults));
        }
        for fault in &parsed.faults {
            prop_assert!(fault.labels.iter().all(|label| label.span.end as usize <= label.source.text.len()));
            prop_assert!(fault.place().is_some() && (fault.help.is_some() || fault.code.as_str() == "more-faults" || fault.code.as_str() == "empty-file" || fault.code.as_str() == "unfinished"));
        }
    }

    #[test]
    fn a_valid_document_means_what_it_says_wherever_it_is_cut_out(value in values()) {
        for text in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            let parsed = read(&text);
            prop_assert!(parsed.faults.is_empty(), "{}: {}", text, concise(&parsed.faults));
            let root = parsed.root.unwrap();
            prop_assert_eq!(&root.to_value(), &value);
            assert_spans(&root, &text);
        }
    }

    #[test]
    fn every_text_survives_in_a_diagnostic_as_json(text in any::<String>()) {
        let out = to_json(&[Diagnostic::error("x", text.as_str())]);
        prop_assert!(out.trim_end().chars().all(|c| !c.is_control()));
        let parsed = read(&out);
        prop_assert_eq!(parsed.faults, []);
        let root = parsed.root.unwrap();
        prop_assert_eq!(root.get("headline").and_then(Node::as_str), Some(text.as_str()));
    }

    #[test]
    fn canonical_bytes_are_equal_exactly_when_values_are(one in values(), other in values()) {
        let bytes = |value: &Value| {
            let mut all = Vec::new();
            canonical(value, &mut |part: &[u8]| all.extend_from_slice(part));
            all
        };
        // As values 0.0 and -0.0 are equal; as texts they are not.
        let text = |value: &Value| value.to_string();
        prop_assert_eq!(bytes(&one) == bytes(&other), text(&one) == text(&other));
        prop_assert_eq!(bytes(&one), bytes(&one.clone()));
    }

    #[test]
    fn any_value_can_be_checked_against_any_schema(value in values(), schema in schemas()) {
        let source = Source::new("t.json", serde_json::to_string(&value).unwrap());
        let root = parse(&source).root.unwrap();
        for fault in schema::check(&root, &schema, &source, "it") {
            prop_assert!(fault.labels.iter().all(|label| label.span.end as usize <= source.text.len()));
        }
    }
}

/// Schemas made of keywords with values that need not suit them.
fn schemas() -> impl Strategy<Value = Value> {
    let keyword = proptest::sample::select(vec![
        "type",
        "properties",
        "required",
        "items",
        "enum",
        "const",
        "minimum",
        "maxLength",
        "pattern",
        "oneOf",
        "anyOf",
        "allOf",
        "$ref",
        "additionalProperties",
        "unevaluatedProperties",
        "a",
        "b",
    ]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        proptest::sample::select(vec![
            "string",
            "object",
            "array",
            "integer",
            "null",
            "a",
            "#",
            "#/properties/a",
            "^a*$",
            "("
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(keyword.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}
