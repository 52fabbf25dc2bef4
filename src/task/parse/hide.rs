//! Keeps what may be a key or a password out of faults: the line at fault is shown, and what stands there is not.

use crate::diagnostic::{Diagnostic, Source};
use crate::json::Span;

use super::toml::quoted;
use crate::task::model::user_of;

/// Ends of the names of keys whose values are shown nowhere.
const SECRET_ENDS: [&str; 6] = [
    "apikey",
    "token",
    "secret",
    "password",
    "passwd",
    "authorization",
];

/// Returns a TOML file with everything covered that may be a secret; every place in it stays where it is.
pub(crate) fn covered(source: &Source) -> Source {
    cover(source, &hidden(&source.text))
}

fn cover(source: &Source, spans: &[Span]) -> Source {
    if spans.is_empty() {
        return source.clone();
    }
    let mut bytes = source.text.as_bytes().to_vec();
    for span in spans {
        for byte in &mut bytes[span.start as usize..span.end as usize] {
            // Every place in the text stays where it is.
            if !matches!(byte, b'\n' | b'\r') {
                *byte = b'*';
            }
        }
    }
    // Whole characters are covered, so nothing is replaced here.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Source::new(source.name.clone(), text)
}

/// Covers what may be a secret in the lines that the faults of a TOML file show, and in what they say.
pub(crate) fn hide(source: &Source, faults: &mut [Diagnostic]) {
    if faults.is_empty() {
        return;
    }
    let spans = hidden(&source.text);
    if spans.is_empty() {
        return;
    }
    let covered = cover(source, &spans);
    for fault in faults {
        let is_hidden = |span: Span| spans.iter().any(|other| meet(*other, span));
        let is_secret = fault.place().is_some_and(|label| is_hidden(label.span));
        if let (true, Some(at)) = (is_secret, fault.headline.find(" can't be `")) {
            fault.headline.truncate(at);
            if fault.headline.contains("key_variable") {
                let help =
                    "write the name of the environment variable that holds the key, not the key";
                fault.help = Some(help.to_owned());
            }
            fault.headline.push_str(" can't be what is written there");
        }
        for label in &mut fault.labels {
            if label.source == *source {
                label.source = covered.clone();
            }
        }
    }
}

fn meet(one: Span, other: Span) -> bool {
    one.start < other.end && other.start < one.end
}

/// Returns where a text holds what may be a secret, as far as its keys tell.
fn hidden(text: &str) -> Vec<Span> {
    let bytes = text.as_bytes();
    let mut spans = Vec::new();
    for (at, _) in text.match_indices('=') {
        let name = name_before(text, at);
        let spaces = bytes[at + 1..]
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'));
        let start = at + 1 + spaces.count();
        let (start, end) = value_at(bytes, start);
        if start < end && is_secret(&name, &text[start..end]) {
            spans.push(Span::new(start, end));
        }
    }
    for (at, _) in text.match_indices("://") {
        if let Some(user) = user_of(&text[at..]) {
            spans.push(Span::new(at + 3, at + 3 + user.len()));
        }
    }
    spans
}

/// Returns the key that stands before `=`, in lower case and with `_` for `-`.
fn name_before(text: &str, at: usize) -> String {
    let before = text[..at].trim_end_matches([' ', '\t']);
    let before = before.trim_end_matches(['"', '\'']);
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = before.trim_end_matches(is_of_name);
    before[name.len()..].to_ascii_lowercase().replace('-', "_")
}

/// Returns where the value that begins here is, without its quotes.
fn value_at(bytes: &[u8], start: usize) -> (usize, usize) {
    match bytes.get(start) {
        Some(&quote @ (b'"' | b'\'')) => {
            let end = start + quoted(&bytes[start..], quote);
            let is_closed = end > start + 1 && bytes[end - 1] == quote;
            (start + 1, if is_closed { end - 1 } else { end })
        }
        first => {
            let is_list = first == Some(&b'[');
            let ends = |byte: &u8| match byte {
                b'\n' | b'\r' => true,
                b',' | b'}' | b'#' => !is_list,
                _ => false,
            };
            let rest = bytes.get(start..).unwrap_or_default();
            let length = rest.iter().position(ends).unwrap_or(rest.len());
            (start, start + length)
        }
    }
}

/// Returns whether the value of a key of this name may be a secret.
fn is_secret(name: &str, value: &str) -> bool {
    let is_variable = |value: &str| {
        let first = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        first && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match name {
        "key_variable" => !is_variable(value),
        "key" => true,
        _ => name.ends_with("_key") || SECRET_ENDS.iter().any(|end| name.ends_with(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(text: &str, expected: Expect) {
        let source = Source::new("t.toml", text);
        let fault = Diagnostic::error("not-toml", "x").primary(&source, Span::at(0), "");
        let mut faults = [fault];
        hide(&source, &mut faults);
        expected.assert_eq(&faults[0].labels[0].source.text);
    }

    #[test]
    fn keys_tokens_and_passwords_are_covered() {
        check(
            "[models.m]\nkey = \"sk-1\" # mine\n\"api-key\" = 'é'\nAPI_TOKEN= bare\nkey_variable = \"sk-2\"\n",
            expect![[r#"
                [models.m]
                key = "****" # mine
                "api-key" = '**'
                API_TOKEN= ****
                key_variable = "****"
            "#]],
        );
        check(
            "m = { secret = \"a\\\"b\", max_tokens = 1 }\nkey_variable = \"MINE\"\nurl = \"http://me:pw@h/x@y\"\n\
             password = \"\"\"\nab\n\"\"\"\nkey = [\"a\", \"b\"]\nkey = \"open",
            expect![[r#"
                m = { secret = "****", max_tokens = 1 }
                key_variable = "MINE"
                url = "http://*****@h/x@y"
                password = "**
                **
                **"
                key = **********
                key = "****"#]],
        );
    }

    #[test]
    fn what_a_fault_says_of_a_secret_is_not_what_it_is() {
        let source = Source::new("t.toml", "key_variable = \"sk-1\"\n");
        let headline = "`key_variable` can't be `sk-1`";
        let fault = Diagnostic::error("wrong-pattern", headline);
        let mut faults = [fault.primary(&source, Span::new(15, 21), "")];
        hide(&source, &mut faults);
        assert_eq!(
            faults[0].headline,
            "`key_variable` can't be what is written there"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(key|secret|token| |=|\"|'|\"\"\"|\\\\|\n|é|://|@|/|[\\[\\]{},#a])*") {
            let source = Source::new("t.toml", text.as_str());
            let fault = Diagnostic::error("not-toml", "x").primary(&source, Span::at(0), "");
            let mut faults = [fault];
            hide(&source, &mut faults);
            prop_assert_eq!(faults[0].labels[0].source.text.len(), text.len());
        }
    }
}
