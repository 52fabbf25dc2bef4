//! One JSON object a line for each diagnostic, for other programs.
//!
//! Lines and columns count from 1 and columns count characters; `start` and `end` are byte offsets into the file. The
//! output is ASCII but for letters that are harmless everywhere: what a terminal would obey is written as `\u....`.

use std::fmt::Write as _;

use super::source::KnownLines;
use super::visible::obeys_or_hides;
use super::{Diagnostic, Fix, Label, Safety, Source, Span};

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
        out.push_str(",\"fixes\":");
        list(&mut out, &diagnostic.fixes, |out, one| {
            fix(out, one, &mut lines)
        });
        out.push_str("}\n");
    }
    out
}

fn label<'a>(out: &mut String, label: &'a Label, lines: &mut KnownLines<'a>) {
    place(out, &label.source, label.span, lines);
    string(out, &label.text);
    write!(out, ",\"primary\":{}}}", label.primary).expect("strings take all");
}

fn fix<'a>(out: &mut String, fix: &'a Fix, lines: &mut KnownLines<'a>) {
    out.push_str("{\"title\":");
    string(out, &fix.title);
    let safety = match fix.safety {
        Safety::Sure => "sure",
        Safety::Offered => "offered",
    };
    write!(out, ",\"safety\":\"{safety}\",\"edits\":").expect("strings take all");
    list(out, &fix.edits, |out, edit| {
        place(out, &edit.source, edit.span, lines);
        string(out, &edit.text);
        out.push('}');
    });
    out.push('}');
}

/// Writes the start of an object that says where something is, up to its text.
fn place<'a>(out: &mut String, source: &'a Source, span: Span, lines: &mut KnownLines<'a>) {
    let lines = lines.of(source);
    let (line, column) = lines.line_column(span.start as usize);
    let (end_line, end_column) = lines.line_column(span.end as usize);
    out.push_str("{\"file\":");
    string(out, &source.name);
    write!(
        out,
        ",\"line\":{line},\"column\":{column},\"end_line\":{end_line},\"end_column\":{end_column},\"start\":{},\"end\":{},\"text\":",
        span.start, span.end
    )
    .expect("strings take all");
}

pub(super) fn list<'a, T>(
    out: &mut String,
    items: &'a [T],
    mut each: impl FnMut(&mut String, &'a T),
) {
    out.push('[');
    for (ix, item) in items.iter().enumerate() {
        if ix > 0 {
            out.push(',');
        }
        each(out, item);
    }
    out.push(']');
}

pub(super) fn string(out: &mut String, text: &str) {
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
    use expect_test::expect;

    #[test]
    fn each_diagnostic_is_a_line_with_lines_columns_and_offsets() {
        let source = Source::new("tasks/a.json", "\u{feff}[\r\n  {\"id\": 7}\r\n]");
        let faults = [
            Diagnostic::error("wrong-type", "`id` is a number")
                .primary(&source, 15..16, "here")
                .label(&source, 8..12, "")
                .help("write \"7\"")
                .fix(Fix::sure("write \"7\"").edit(&source, 15..16, "\"7\""))
                .note("one"),
            Diagnostic::warning("no-cache", "the cache is \u{9b}not used"),
        ];
        expect![[r#"
            {"severity":"error","code":"wrong-type","headline":"`id` is a number","help":"write \"7\"","notes":["one"],"labels":[{"file":"tasks/a.json","line":2,"column":10,"end_line":2,"end_column":11,"start":15,"end":16,"text":"here","primary":true},{"file":"tasks/a.json","line":2,"column":3,"end_line":2,"end_column":7,"start":8,"end":12,"text":"","primary":false}],"fixes":[{"title":"write \"7\"","safety":"sure","edits":[{"file":"tasks/a.json","line":2,"column":10,"end_line":2,"end_column":11,"start":15,"end":16,"text":"\"7\""}]}]}
            {"severity":"warning","code":"no-cache","headline":"the cache is \u009bnot used","help":null,"notes":[],"labels":[],"fixes":[]}
        "#]]
        .assert_eq(&json(&faults));
    }
}
