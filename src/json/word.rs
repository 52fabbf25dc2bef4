//! Bare words: the three literals, and everything people write without quotes.

use super::parser::Parser;
use super::{NodeKind, Span};
use crate::diagnostic::{Fix, clip};

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
            let title = format!("write {literal}");
            // `yes` may be meant as a text, but `True` and `None` come from other languages.
            let fix = match word.eq_ignore_ascii_case(literal) || word == "None" {
                true => Fix::sure(&title),
                false => Fix::offered(&title),
            };
            let fix = fix.edit(self.source, span, literal);
            let headline = format!("`{}` is not JSON", clip(word));
            self.mendable("misspelt-literal", span, headline, "", &title, fix);
            return kind;
        }
        if word.starts_with(['“', '”', '„', '‘', '’', '«', '`']) {
            self.pos = self.to_the_end_of_the_words();
            let span = Span::new(span.start as usize, self.pos);
            self.mendable(
                "odd-quotes",
                span,
                "a string is in typographic quotes",
                "",
                "use straight double quotes",
                self.straight(span),
            );
            return NodeKind::Bad;
        }
        self.pos = self.to_the_end_of_the_words();
        let span = Span::new(span.start as usize, self.pos);
        let fix = self.in_quotes(span, Fix::offered("write it in double quotes"));
        self.mendable(
            "unquoted-string",
            span,
            "a string must be in double quotes",
            "",
            "write it in double quotes",
            fix,
        );
        NodeKind::Bad
    }

    /// Returns the edit that writes straight quotes around a string in typographic ones, if it has both of its own.
    fn straight(&self, span: Span) -> Option<Fix> {
        const CLOSING: [char; 6] = ['”', '“', '’', '‘', '»', '`'];
        let mut inner = self.source.slice(span).chars();
        let (first, last) = (inner.next()?, inner.next_back()?);
        let inner = inner.as_str();
        let is_plain = |c: char| !c.is_control() && !CLOSING.contains(&c) && c != '\\';
        if !CLOSING.contains(&last) || !inner.chars().all(is_plain) {
            return None;
        }
        let (start, end) = (span.start as usize, span.end as usize);
        let fix = Fix::sure("write straight double quotes");
        let fix = fix.edit(self.source, start..start + first.len_utf8(), "\"");
        Some(fix.edit(self.source, end - last.len_utf8()..end, "\""))
    }

    /// Returns a fix that writes double quotes around bare words, if nothing in them needs an escape.
    pub(super) fn in_quotes(&self, span: Span, fix: Fix) -> Option<Fix> {
        let words = self.source.slice(span);
        let is_plain = |c: char| !c.is_control() && c != '\\' && c != '"';
        words.chars().all(is_plain).then(|| {
            let fix = fix.edit(self.source, Span::at(span.start as usize), "\"");
            fix.edit(self.source, Span::at(span.end as usize), "\"")
        })
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
