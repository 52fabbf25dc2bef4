//! One JSON object a line for each diagnostic, for other programs.
//!
//! Lines and columns count from 1 and columns count characters; `start` and `end` are byte offsets into the file. The
//! output is ASCII but for letters that are harmless everywhere: what a terminal would obey is written as `\u....`.

use std::fmt::Write as _;

use super::source::KnownLines;
use super::visible::obeys_or_hides;
use super::{Diagnostic, Label};

/// Returns a line of JSON for each diagnostic.
pub fn json(diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    let mut lines = KnownLines::default();
    for diagnostic in diagnostics {
        out.push_str("{\"severity\":");
        string(&mut out, diagnostic.severity.as_str());
        out.push_str(",\"code\":");
        string(&mut out, diagnostic.code.as_str());
        out.push_str(",\"headline\":");
        string(&mut out, &diagnostic.headline);
        out.push_str(",\"help\":");
        match &diagnostic.help {
            Some(help) => string(&mut out, help),
            None => out.push_str("null"),
        }
        out.push_str(",\"notes\":");
        list(&mut out, &diagnostic.notes, |out, note| string(out, note));
        out.push_str(",\"labels\":");
        list(&mut out, &diagnostic.labels, |out, one| {
            label(out, one, &mut lines)
        });
        out.push_str("}\n");
    }
    out
}

fn label<'a>(out: &mut String, label: &'a Label, lines: &mut KnownLines<'a>) {
    let lines = lines.of(&label.source);
    let (line, column) = lines.line_column(label.span.start as usize);
    let (end_line, end_column) = lines.line_column(label.span.end as usize);
    out.push_str("{\"file\":");
    string(out, &label.source.name);
    write!(
        out,
        ",\"line\":{line},\"column\":{column},\"end_line\":{end_line},\"end_column\":{end_column},\"start\":{},\"end\":{},\"text\":",
        label.span.start, label.span.end
    )
    .expect("strings take all");
    string(out, &label.text);
    write!(out, ",\"primary\":{}}}", label.primary).expect("strings take all");
}

fn list<'a, T>(out: &mut String, items: &'a [T], mut each: impl FnMut(&mut String, &'a T)) {
    out.push('[');
    for (ix, item) in items.iter().enumerate() {
        if ix > 0 {
            out.push(',');
        }
        each(out, item);
    }
    out.push(']');
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if obeys_or_hides(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").expect("strings take all");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use expect_test::expect;

    #[test]
    fn each_diagnostic_is_a_line_with_lines_columns_and_offsets() {
        let source = Source::new("tasks/a.json", "\u{feff}[\r\n  {\"id\": 7}\r\n]");
        let faults = [
            Diagnostic::error("wrong-type", "`id` is a number")
                .primary(&source, 15..16, "here")
                .label(&source, 8..12, "")
                .help("write \"7\"")
                .note("one"),
            Diagnostic::warning("no-cache", "the cache is \u{9b}not used"),
        ];
        expect![[r#"
            {"severity":"error","code":"wrong-type","headline":"`id` is a number","help":"write \"7\"","notes":["one"],"labels":[{"file":"tasks/a.json","line":2,"column":10,"end_line":2,"end_column":11,"start":15,"end":16,"text":"here","primary":true},{"file":"tasks/a.json","line":2,"column":3,"end_line":2,"end_column":7,"start":8,"end":12,"text":"","primary":false}]}
            {"severity":"warning","code":"no-cache","headline":"the cache is \u009bnot used","help":null,"notes":[],"labels":[]}
        "#]]
        .assert_eq(&json(&faults));
    }
}
