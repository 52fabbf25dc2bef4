//! What mends a fault mends it.

use proptest::prelude::*;

use crate::diagnostic::{Diagnostic, Safety, Source, mend};
use crate::json::parse;

/// Returns the text after the first fix of each fault that has one of this kind, made again and again.
fn mended(text: &str, safety: Safety) -> (String, Vec<&'static str>) {
    let mut text = text.to_owned();
    for _ in 0..60 {
        let source = Source::new("t.json", text.clone());
        let faults = parse(&source).faults;
        let choose = |fault: &Diagnostic| fault.fixes.iter().position(|fix| fix.safety == safety);
        match mend(&faults, choose).texts.pop() {
            Some((_, after)) => text = after,
            None => return (text, faults.iter().map(|fault| fault.code.0).collect()),
        }
    }
    panic!("it goes on for ever: {text:?}");
}

#[test]
fn what_is_beyond_doubt_is_mended_and_every_other_byte_stays() {
    for (text, after) in [
        ("[1, 2,]", "[1, 2]"),
        ("{\"a\": 1 ,\n}", "{\"a\": 1 \n}"),
        ("{'a': 'it \"is\"\\n'}", "{\"a\": \"it \\\"is\\\"\\n\"}"),
        ("[\"a\" \"b\"\n{}]", "[\"a\", \"b\",\n{}]"),
        ("{\"a\" 1; b: True}", "{\"a\": 1, \"b\": true}"),
        (
            "[None, NULL, .5, 1., +7, -.5e3]",
            "[null, null, 0.5, 1.0, 7, -0.5e3]",
        ),
        ("[“a”, „b“, «c»]", "[\"a\", \"b\", \"c\"]"),
        ("{\"a\" => 1, \"b\":: 2}", "{\"a\" : 1, \"b\": 2}"),
        ("{\"a\": 1,, \"b\": 2}", "{\"a\": 1, \"b\": 2}"),
        ("[\"\\d+\\.\t\\'\"]", "[\"\\\\d+\\\\.\\t'\"]"),
        ("[1,\u{a0}2\u{200b}]", "[1, 2]"),
    ] {
        assert_eq!(
            mended(text, Safety::Sure),
            (after.to_owned(), Vec::new()),
            "{text}"
        );
    }
}

#[test]
fn what_may_have_been_meant_otherwise_is_only_offered() {
    for (text, code, after) in [
        ("[yes]", "misspelt-literal", "[true]"),
        ("[1 2]", "missing-comma", "[1, 2]"),
        ("[1, // one\n2]", "comment", "[1, \n2]"),
        ("[007]", "number-leading-zero", "[7]"),
        ("{\"a\": 1, \"a\": 2}", "duplicate-key", "{\"a\": 2}"),
        ("[\"a\nb\"]", "raw-control-character", "[\"a\\nb\"]"),
        ("[{\"a\": 1}", "unfinished", "[{\"a\": 1}]"),
        ("[hello world]", "unquoted-string", "[\"hello world\"]"),
        (
            "[\"say \"hi\" now\"]",
            "inner-quote",
            "[\"say \\\"hi\\\" now\"]",
        ),
    ] {
        assert_eq!(
            mended(text, Safety::Sure),
            (text.to_owned(), vec![code]),
            "{text}"
        );
        assert_eq!(
            mended(text, Safety::Offered),
            (after.to_owned(), Vec::new()),
            "{text}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_fix_takes_its_fault_away_and_brings_none_there(
        text in r#"(\[|\{|\]|\}|,|:|;| |\n|"a"|'b'|"c d"|'e"f'|"\\d"|"\\'"|True|nil|\+1|\.5|007|12|x|“y”|//z\n|=>|null){0,12}"#,
    ) {
        let source = Source::new("t.json", text);
        let faults = parse(&source).faults;
        for (at, fault) in faults.iter().enumerate() {
            for (n, fix) in fault.fixes.iter().enumerate() {
                let only = std::slice::from_ref(fault);
                let Some((_, after)) = mend(only, |_| Some(n)).texts.pop() else {
                    prop_assert!(false, "fix {n} of fault {at} does nothing: {fix:?}");
                    return Ok(());
                };
                let again = parse(&Source::new("t.json", after.clone())).faults;
                let place = fault.place().expect("it has a place").span.start;
                let here = again.iter().filter(|other| other.place().is_some_and(|label| label.span.start == place));
                let is_gone = !here.clone().any(|other| other.code == fault.code && other.headline == fault.headline);
                let is_less = again.len() < faults.len()
                    || fix.safety == Safety::Offered && after.len() < source.text.len();
                prop_assert!(is_gone || is_less, "{:?} by {fix:?} became {after:?}: {again:?}", source.text);
                if fix.safety == Safety::Sure {
                    let known = faults.iter().any(|known| here.clone().all(|other| known.code == other.code));
                    prop_assert!(is_less || again.len() == faults.len() || known || here.count() == 0,
                        "{:?} by {fix:?} became {after:?}: {again:?}", source.text);
                }
            }
        }
    }

    #[test]
    fn mending_ends_and_mending_again_changes_nothing(
        text in r#"(\[|\{|\]|\}|,|:|;| |\n|"a"|'b'|"c d"|'e"f'|"\\d"|True|nil|\+1|\.5|007|12|x|“y”|//z\n|=>){0,14}"#,
    ) {
        for safety in [Safety::Sure, Safety::Offered] {
            let (once, left) = mended(&text, safety);
            prop_assert_eq!(mended(&once, safety), (once.clone(), left));
        }
    }
}
