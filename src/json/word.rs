//! Bare words: the three literals, and everything people write without quotes.

use super::parser::Parser;
use super::{NodeKind, Span};
use crate::diagnostic::clip;

impl Parser<'_> {
    /// Reads the word that starts here.
    pub(super) fn word(&mut self) -> NodeKind {
        let span = self.run_span();
        let word = self.source.slice(span);
        let kind = match word {
            "true" => Some(NodeKind::Bool(true)),
            "false" => Some(NodeKind::Bool(false)),
            "null" => Some(NodeKind::Null),
            _ => None,
        };
        if let Some(kind) = kind {
            self.pos = span.end as usize;
            return kind;
        }
        if span.end as usize == self.bytes.len()
            && ["true", "false", "null"]
                .iter()
                .any(|literal| literal.starts_with(word))
        {
            self.pos = span.end as usize;
            self.unfinished(&format!("`{word}` is cut off"));
            return NodeKind::Bad;
        }
        if is_not_finite(word) {
            self.pos = span.end as usize;
            self.not_finite(span);
            return NodeKind::Bad;
        }
        if let Some((literal, kind)) = meant(word) {
            self.pos = span.end as usize;
            self.simple(
                "misspelt-literal",
                span,
                format!("`{}` is not JSON", clip(word)),
                "",
                &format!("write {literal}"),
            );
            return kind;
        }
        if word.starts_with(['“', '”', '„', '‘', '’', '«', '`']) {
            self.pos = self.to_the_end_of_the_words();
            let span = Span::new(span.start as usize, self.pos);
            self.simple(
                "odd-quotes",
                span,
                "a string is in typographic quotes",
                "",
                "use straight double quotes",
            );
            return NodeKind::Bad;
        }
        self.pos = self.to_the_end_of_the_words();
        let span = Span::new(span.start as usize, self.pos);
        self.simple(
            "unquoted-string",
            span,
            "a string must be in double quotes",
            "",
            "write it in double quotes",
        );
        NodeKind::Bad
    }

    /// Reports a number that JSON can't write.
    pub(super) fn not_finite(&mut self, span: Span) {
        let headline = format!("JSON has no number `{}`", clip(self.source.slice(span)));
        self.simple(
            "number-not-finite",
            span,
            headline,
            "",
            "write a number, or null if there is none",
        );
    }

    /// Returns where the words that start here end: at a bracket, comma, colon, quote or line end.
    fn to_the_end_of_the_words(&self) -> usize {
        let rest = &self.text[self.pos..];
        let len = rest
            .find([',', ':', '[', ']', '{', '}', '"', '\n', '\r'])
            .unwrap_or(rest.len());
        let len = rest[..len].trim_end().len();
        (self.pos + len).max(self.run_span().end as usize)
    }
}

/// Returns whether this is a name for a number that is none.
pub(super) fn is_not_finite(word: &str) -> bool {
    let word = word.trim_start_matches(['-', '+']);
    ["nan", "inf", "infinity"]
        .iter()
        .any(|name| word.eq_ignore_ascii_case(name))
}

fn meant(word: &str) -> Option<(&'static str, NodeKind)> {
    let lower = word.to_ascii_lowercase();
    Some(match lower.as_str() {
        "true" | "yes" => ("true", NodeKind::Bool(true)),
        "false" | "no" => ("false", NodeKind::Bool(false)),
        "null" | "none" | "nil" | "undefined" => ("null", NodeKind::Null),
        _ => return None,
    })
}
