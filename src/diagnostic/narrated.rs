//! Diagnostics as sentences, for screen readers: no drawing, and nothing that only its position on the screen explains.
//!
//! Each diagnostic says what is wrong, where, what stands there, which other places play a part, and what to do.

use std::fmt::Write as _;

use super::source::KnownLines;
use super::{Diagnostic, Label, Severity, clip, visible, visible_line};

/// The most places of one diagnostic that are told; the others are counted.
const MAX_PLACES: usize = 12;

/// Returns the diagnostics as sentences, with a blank line after each.
pub fn narrated(diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    let mut lines = KnownLines::default();
    let n = diagnostics.len();
    for (at, diagnostic) in diagnostics.iter().enumerate() {
        if n > 1 {
            write!(out, "{} of {n}. ", at + 1).expect("strings take all");
        }
        let severity = match diagnostic.severity {
            Severity::Error => "Error",
            Severity::Warning => "Warning",
            Severity::Hint => "Hint",
        };
        let headline = sentence(&visible_line(&diagnostic.headline));
        writeln!(out, "{severity} {}: {headline}", diagnostic.code).expect("strings take all");
        let place = diagnostic.place();
        if let Some(place) = place {
            told(&mut out, "In", place, &mut lines);
        }
        let others = diagnostic.labels.iter();
        let others: Vec<_> = others
            .filter(|label| !place.is_some_and(|place| std::ptr::eq(place, *label)))
            .collect();
        for label in others.iter().take(MAX_PLACES) {
            told(&mut out, "Related place in", label, &mut lines);
        }
        if others.len() > MAX_PLACES {
            let more = others.len() - MAX_PLACES;
            writeln!(out, "{more} more related places are not told.").expect("strings take all");
        }
        for note in &diagnostic.notes {
            writeln!(out, "Note: {}", sentence(&visible(note))).expect("strings take all");
        }
        if let Some(help) = &diagnostic.help {
            writeln!(out, "Help: {}", sentence(&visible(help))).expect("strings take all");
        }
        out.push('\n');
    }
    out
}

/// Writes where a place is, what stands there and which part it plays.
fn told<'a>(out: &mut String, lead: &str, label: &'a Label, lines: &mut KnownLines<'a>) {
    let source = &label.source;
    let known = lines.of(source);
    let (line, column) = known.line_column(label.span.start as usize);
    let name = visible_line(&source.name);
    write!(out, "{lead} {name}, line {line}, column {column}").expect("strings take all");
    let (end_line, _) = known.line_column((label.span.end as usize).saturating_sub(1));
    let text = source.slice(label.span).trim();
    if end_line > line {
        write!(out, ", to line {end_line}").expect("strings take all");
    } else if !text.is_empty() {
        match spoken(text) {
            Some(name) => write!(out, ", at {name}"),
            None => write!(out, ", at {}", visible_line(&clip(text))),
        }
        .expect("strings take all");
    }
    match label.text.as_str() {
        "" => out.push_str(".\n"),
        text => writeln!(out, ": {}", sentence(&visible_line(text))).expect("strings take all"),
    }
}

/// Returns the name of a sign that a voice would leave out.
fn spoken(text: &str) -> Option<&'static str> {
    Some(match text {
        "," => "a comma",
        "." => "a point",
        ":" => "a colon",
        ";" => "a semicolon",
        "=" => "an equals sign",
        "-" => "a minus sign",
        "+" => "a plus sign",
        "\"" => "a double quote",
        "'" => "a single quote",
        "[" => "an opening bracket",
        "]" => "a closing bracket",
        "{" => "an opening brace",
        "}" => "a closing brace",
        "[]" => "an empty list",
        "{}" => "an empty object",
        "\"\"" => "an empty text",
        _ => return None,
    })
}

/// Ends a text as a sentence ends, so that a voice pauses there.
fn sentence(text: &str) -> String {
    match text.ends_with(['.', '?', '!', ':']) {
        true => text.to_owned(),
        false => format!("{text}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Source, Span};
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn each_fact_is_a_sentence_and_nothing_is_drawn() {
        let task = Source::new(
            "tasks/a.json",
            "[\n  {\"id\": \"box\"},\n  {\"sandbox_name\": \"bx\"}\n]",
        );
        let config = Source::new("aebuild.toml", "[cache]\ndir = \"\u{1b}[2J\"\n");
        let faults = [
            Diagnostic::error(
                "unknown-name",
                "step `check` reads sandbox `bx`, which no step makes",
            )
            .label(&config, 14..22, "chosen\nhere")
            .primary(&task, 38..42, "read here")
            .label(&task, 4..17, "")
            .label(&task, 17..18, "")
            .label(&task, Span::new(0, 45), "the whole list")
            .note("two\nlines")
            .help("did you mean `box`?"),
            Diagnostic::hint("no-place", "nothing to point at"),
        ];
        expect![[r#"
            1 of 2. Error unknown-name: step `check` reads sandbox `bx`, which no step makes.
            In tasks/a.json, line 3, column 20, at "bx": read here.
            Related place in aebuild.toml, line 2, column 7, to line 3: chosen\u{a}here.
            Related place in tasks/a.json, line 2, column 3, at {"id": "box"}.
            Related place in tasks/a.json, line 2, column 16, at a comma.
            Related place in tasks/a.json, line 1, column 1, to line 4: the whole list.
            Note: two
            lines.
            Help: did you mean `box`?

            2 of 2. Hint no-place: nothing to point at.

        "#]]
        .assert_eq(&narrated(&faults));
    }

    proptest! {
        #[test]
        fn nothing_a_terminal_obeys_is_left(text in any::<String>(), start in 0usize..40, end in 0usize..40) {
            let source = Source::new(text.clone(), text.clone());
            let fault = Diagnostic::error("x", text.clone()).primary(&source, Span::new(start, end), text.clone());
            let shown = narrated(&[fault.note(text.clone()).help(text)]);
            prop_assert!(shown.chars().all(|c| matches!(c, '\n' | '\t') || !super::super::visible::obeys_or_hides(c)));
        }
    }
}
