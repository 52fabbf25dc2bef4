//! One line for each diagnostic, for editors and `grep`.

use std::fmt::Write as _;

use super::source::KnownLines;
use super::{Diagnostic, visible_line};

/// Returns `file:line:col: error[code]: headline` for each diagnostic.
pub fn concise(diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    let mut lines = KnownLines::default();
    for diagnostic in diagnostics {
        if let Some(place) = diagnostic.place() {
            let (line, column) = lines
                .of(&place.source)
                .line_column(place.span.start as usize);
            write!(
                out,
                "{}:{line}:{column}: ",
                visible_line(&place.source.name)
            )
            .expect("strings take all");
        }
        let Diagnostic {
            severity,
            code,
            headline,
            ..
        } = diagnostic;
        writeln!(out, "{severity}[{code}]: {}", visible_line(headline)).expect("strings take all");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use expect_test::expect;

    #[test]
    fn each_diagnostic_takes_one_line() {
        let source = Source::new("tasks/a\nb.json", "[\r\n  {\"id\": 7}\r\n]");
        let faults =
            [
                Diagnostic::error("wrong-type", "`id` is a number,\nnot a string \u{1b}[31m")
                    .primary(&source, 12..13, ""),
                Diagnostic::warning("no-cache", "the cache is not used"),
            ];
        expect![[r#"
            tasks/a\u{a}b.json:2:10: error[wrong-type]: `id` is a number,\u{a}not a string \u{1b}[31m
            warning[no-cache]: the cache is not used
        "#]]
        .assert_eq(&concise(&faults));
    }
}
