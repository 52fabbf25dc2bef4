//! Keys and passwords written into a task file, the configuration or the files of an env or agent: they are told, and what is shown of the file does not show them.

use std::borrow::Cow;

use super::{Checked, Rule};
use crate::diagnostic::{Diagnostic, Severity, Source, Span};

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("secret-in-file", Severity::Warning)],
    doc: "A key that stands in a file of the task folder goes wherever the file goes, and into the records of runs. What is told is the kind \
          of the key, by how keys of the kind begin; the key itself is shown nowhere.",
    run,
};

/// A value that looks like a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    span: Span,
    what: &'static str,
}

/// How keys of a kind look.
struct Kind {
    what: &'static str,
    start: &'static str,
    /// Which characters come after the start.
    is_of: fn(u8) -> bool,
    /// How many of them there are at least.
    least: usize,
}

/// The kinds, those with longer starts first.
const KINDS: &[Kind] = &[
    Kind {
        what: "a token of GitHub",
        start: "github_pat_",
        is_of: is_word,
        least: 22,
    },
    Kind {
        what: "a token of GitHub",
        start: "ghp_",
        is_of: is_alphanumeric,
        least: 30,
    },
    Kind {
        what: "a token of GitHub",
        start: "gho_",
        is_of: is_alphanumeric,
        least: 30,
    },
    Kind {
        what: "a token of GitHub",
        start: "ghs_",
        is_of: is_alphanumeric,
        least: 30,
    },
    Kind {
        what: "a token of GitLab",
        start: "glpat-",
        is_of: is_word,
        least: 20,
    },
    Kind {
        what: "a token of Slack",
        start: "xoxb-",
        is_of: is_word,
        least: 20,
    },
    Kind {
        what: "a token of Slack",
        start: "xoxp-",
        is_of: is_word,
        least: 20,
    },
    Kind {
        what: "a token of Hugging Face",
        start: "hf_",
        is_of: is_alphanumeric,
        least: 30,
    },
    Kind {
        what: "a key of Google",
        start: "AIza",
        is_of: is_word,
        least: 35,
    },
    Kind {
        what: "an id of a key of AWS",
        start: "AKIA",
        is_of: is_upper,
        least: 16,
    },
    Kind {
        what: "an API key",
        start: "sk-",
        is_of: is_word,
        least: 20,
    },
    Kind {
        what: "a token",
        start: "Bearer ",
        is_of: is_token,
        least: 20,
    },
];

const PRIVATE_KEY: &str = "PRIVATE KEY-----";

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_token(byte: u8) -> bool {
    is_word(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
}

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    tell(checked.places.source(), faults);
}

/// Returns the keys that stand in a file other than a task's; what is told does not show them.
pub fn faults(source: &Source) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    tell(source, &mut faults);
    cover(source, &mut faults);
    faults
}

fn tell(source: &Source, faults: &mut Vec<Diagnostic>) {
    for found in find(&source.text) {
        let headline = format!("`{}` holds what looks like {}", source.name, found.what);
        faults.push(
            Diagnostic::warning("secret-in-file", headline)
                .primary(source, found.span, "")
                .help("put it into an environment variable, name that in `pass_variables` of aebuild.toml, and take this one out of use"),
        );
    }
}

/// Covers the keys of a file in the lines of it that faults show, and in what they say.
pub fn cover(source: &Source, faults: &mut [Diagnostic]) {
    if faults.is_empty() {
        return;
    }
    let found = find(&source.text);
    if found.is_empty() {
        return;
    }
    let mut bytes = source.text.as_bytes().to_vec();
    for one in &found {
        for byte in &mut bytes[one.span.range()] {
            // Every place in the text stays where it is.
            if !matches!(byte, b'\n' | b'\r') {
                *byte = b'*';
            }
        }
    }
    let covered = Source::new(
        source.name.clone(),
        String::from_utf8_lossy(&bytes).into_owned(),
    );
    let keys: Vec<&str> = found
        .iter()
        .filter_map(|one| source.text.get(one.span.range()))
        .collect();
    let hide = |text: &mut String| {
        for key in &keys {
            if text.contains(key) {
                *text = text.replace(key, "***");
            }
        }
    };
    for fault in faults {
        hide(&mut fault.headline);
        fault.help.iter_mut().for_each(hide);
        fault.notes.iter_mut().for_each(hide);
        for label in &mut fault.labels {
            hide(&mut label.text);
            if label.source == *source {
                label.source = covered.clone();
            }
        }
    }
}

/// Returns a text in which `***` stands for what looks like a key.
pub fn hidden(text: &str) -> Cow<'_, str> {
    let found = find(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for one in found {
        let span = one.span.range();
        out.push_str(&text[at..span.start]);
        out.push_str("***");
        at = span.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// Returns what looks like a key in a text, in its order.
fn find(text: &str) -> Vec<Found> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let is_start = matches!(bytes[at], b'g' | b'x' | b'h' | b'A' | b's' | b'B' | b'-');
        match is_start.then(|| at_key(text, at)).flatten() {
            Some(one) => {
                at = one.span.end as usize;
                found.push(one);
            }
            None => at += 1,
        }
    }
    found
}

/// Returns the key that begins here.
fn at_key(text: &str, at: usize) -> Option<Found> {
    let bytes = text.as_bytes();
    if bytes[at] == b'-' {
        return private_key(text, at);
    }
    if at > 0 && is_word(bytes[at - 1]) {
        // The letter after an escape such as `\n` is no part of a word.
        let is_escaped = at > 1 && bytes[at - 2] == b'\\';
        if !is_escaped {
            return None;
        }
    }
    let rest = &bytes[at..];
    let kind = KINDS
        .iter()
        .find(|kind| rest.starts_with(kind.start.as_bytes()))?;
    let body = &rest[kind.start.len()..];
    let length = body.iter().take_while(|byte| (kind.is_of)(**byte)).count();
    let body = &body[..length];
    // What stands for a key in an example says so, or has no digits.
    let has_digit = body.iter().any(u8::is_ascii_digit);
    let mut kinds = body.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    if length < kind.least || !has_digit || kinds.len() < 8 {
        return None;
    }
    Some(Found {
        span: Span::new(at, at + kind.start.len() + length),
        what: kind.what,
    })
}

fn private_key(text: &str, at: usize) -> Option<Found> {
    let rest = text.get(at..)?.strip_prefix("-----BEGIN ")?;
    let words = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_uppercase() || *byte == b' ')
        .count();
    let head = &rest[..words];
    if !head.ends_with("PRIVATE KEY") || !rest[words..].starts_with("-----") {
        return None;
    }
    // To its end, else to the end of the string that it is in.
    let end = match rest.find("-----END ") {
        Some(end) => rest[end..]
            .find(PRIVATE_KEY)
            .map(|more| end + more + PRIVATE_KEY.len()),
        None => rest.find('"'),
    };
    let end = at + "-----BEGIN ".len() + end.unwrap_or(rest.len());
    Some(Found {
        span: Span::new(at, end),
        what: "a private key",
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Vec<(&'static str, &str)> {
        let found = find(text);
        let each = found.iter().map(|one| (one.what, &text[one.span.range()]));
        each.collect()
    }

    #[test]
    fn keys_are_known_by_how_they_begin() {
        let key = "sk-proj-A1b2C3d4E5f6G7h8I9j0";
        assert_eq!(
            found(&format!("{{\"key\": \"{key}\"}}")),
            [("an API key", key)]
        );
        let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        assert_eq!(
            found(&format!("echo\\n{token} AKIA0123456789ABCDEF")),
            [
                ("a token of GitHub", token),
                ("an id of a key of AWS", "AKIA0123456789ABCDEF"),
            ]
        );
        assert_eq!(
            found("\"Authorization: Bearer abcdefghij0123456789.x\""),
            [("a token", "Bearer abcdefghij0123456789.x")]
        );
        let key = "-----BEGIN RSA PRIVATE KEY-----\\nMII\\n-----END RSA PRIVATE KEY-----";
        assert_eq!(found(&format!("\"{key}\"")), [("a private key", key)]);
    }

    #[test]
    fn what_only_looks_a_little_like_a_key_is_none() {
        for text in [
            "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
            "sk-your-key-goes-in-here-please",
            "task-0123456789abcdefghij",
            "Bearer <token>",
            "Bearer of good news and of 3 more",
            "AKIAEXAMPLE",
            "-----BEGIN CERTIFICATE-----",
            "hf_token",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn a_fault_of_the_same_line_does_not_show_the_key() {
        let key = "sk-proj-A1b2C3d4E5f6G7h8I9j0";
        let source = Source::new("t.json", format!("{{\"modle\": \"{key}\"}}"));
        let fault = Diagnostic::error("unknown-field", format!("`{key}` is odd"))
            .primary(&source, Span::new(1, 8), "")
            .help(format!("write `{key}`"));
        let mut faults = [fault];
        cover(&source, &mut faults);
        let said = crate::diagnostic::render::full(
            &faults,
            crate::diagnostic::render::Style {
                color: false,
                width: 100,
            },
        );
        assert!(!said.contains("A1b2"), "{said}");
        assert!(said.contains("modle"), "{said}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(sk-|ghp_|-----BEGIN |PRIVATE KEY-----|-----END |Bearer |[a-z0-9]{0,40}|é|\"|\\\\)*") {
            for one in find(&text) {
                prop_assert!(text.get(one.span.range()).is_some());
            }
        }
    }
}
