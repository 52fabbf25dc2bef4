//! Workflow commands that make GitHub show each diagnostic beside the changed lines.

use std::fmt::Write as _;

use super::source::KnownLines;
use super::{Diagnostic, Severity, visible};

/// Returns `::error file=..,line=..,col=..,title=..::headline` for each diagnostic.
pub fn github(diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    let mut lines = KnownLines::default();
    for diagnostic in diagnostics {
        let command = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Hint => "notice",
        };
        write!(out, "::{command} ").expect("strings take all");
        if let Some(place) = diagnostic.place() {
            let (line, column) = lines
                .of(&place.source)
                .line_column(place.span.start as usize);
            write!(
                out,
                "file={},line={line},col={column},",
                property(&place.source.name)
            )
            .expect("strings take all");
        }
        let mut message = diagnostic.headline.clone();
        for note in &diagnostic.notes {
            write!(message, "\nnote: {note}").expect("strings take all");
        }
        if let Some(help) = &diagnostic.help {
            write!(message, "\nhelp: {help}").expect("strings take all");
        }
        writeln!(
            out,
            "title={}::{}",
            property(diagnostic.code.as_str()),
            data(&message)
        )
        .expect("strings take all");
    }
    out
}

fn data(text: &str) -> String {
    visible(text).replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use expect_test::expect;

    #[test]
    fn text_can_not_end_a_command_or_start_one() {
        let source = Source::new("tasks/a,b:c.json", "[\n  7]");
        let faults = [
            Diagnostic::error("wrong-type", "100% wrong\n::set-output name=x::y\r")
                .primary(&source, 4..5, "")
                .help("write it"),
            Diagnostic::hint("shorter", "say less"),
        ];
        expect![[r#"
            ::error file=tasks/a%2Cb%3Ac.json,line=2,col=3,title=wrong-type::100%25 wrong%0A::set-output name=x::y\u{d}%0Ahelp: write it
            ::notice title=shorter::say less
        "#]]
        .assert_eq(&github(&faults));
    }
}
