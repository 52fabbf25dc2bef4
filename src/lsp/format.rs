//! The layout of `aebuild fmt`, as an edit of the lines that differ.

use lsp_types::TextEdit;

use super::text::{Document, Encoding};
use crate::diagnostic::{Source, Span};
use crate::json;

/// Returns the edit that lays a text out; `None` where it is laid out, or has faults and so no layout.
///
/// Lines that stay are not touched, so a cursor and its folds stay too, and the line ends are those of the text.
pub(super) fn edit(document: &Document, encoding: Encoding) -> Option<TextEdit> {
    let text = &document.text;
    let laid_out = json::laid_out(&Source::new("", text.as_str())).ok()?;
    let end = match text.contains("\r\n") {
        true => "\r\n",
        false => "\n",
    };
    let (old, new) = (lines(text), lines(&laid_out));
    let n_first = old.iter().zip(&new).take_while(|(old, new)| old == new);
    let n_first = n_first.count();
    let rest = old[n_first..].iter().rev().zip(new[n_first..].iter().rev());
    let n_last = rest.take_while(|(old, new)| old == new).count();
    if n_first == old.len() && n_first == new.len() {
        return None;
    }
    let replaced = n_first..old.len() - n_last;
    let new = &new[n_first..new.len() - n_last];
    let starts = text.match_indices('\n').map(|(at, _)| at + 1);
    let starts: Vec<usize> = [0].into_iter().chain(starts).collect();
    let mut new_text = new.join(end);
    let span = match n_last {
        // The last line has no end of its own, so the one before it is edited too.
        0 if n_first > 0 => {
            let before = starts[n_first - 1] + old[n_first - 1].len();
            new_text.insert_str(0, if new.is_empty() { "" } else { end });
            Span::new(before, text.len())
        }
        0 => Span::new(0, text.len()),
        _ => {
            new_text.push_str(if new.is_empty() { "" } else { end });
            Span::new(starts[replaced.start], starts[replaced.end])
        }
    };
    Some(TextEdit {
        range: document.range(span, encoding),
        new_text,
    })
}

/// Returns the lines, of which a final line end leaves an empty one.
fn lines(text: &str) -> Vec<&str> {
    let lines = text.split('\n');
    lines
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use lsp_types::TextDocumentContentChangeEvent;

    /// Shows the edit, and makes it.
    fn check(text: &str, expect: Expect) {
        let mut document = Document::new(text.to_owned(), 1);
        let Some(TextEdit { range, new_text }) = edit(&document, Encoding::Utf16) else {
            return expect.assert_eq("nothing");
        };
        let (start, end) = (range.start, range.end);
        expect.assert_eq(&format!(
            "{}:{} to {}:{}: {new_text:?}",
            start.line, start.character, end.line, end.character
        ));
        let change = TextDocumentContentChangeEvent {
            range: Some(range),
            range_length: None,
            text: new_text,
        };
        assert!(document.edit(vec![change], Encoding::Utf16));
        let laid_out = json::laid_out(&Source::new("", text)).expect("it has no fault");
        assert_eq!(document.text.replace("\r\n", "\n"), laid_out);
        assert_eq!(
            document.text.matches('\n').count(),
            document
                .text
                .matches(if text.contains("\r\n") { "\r\n" } else { "\n" })
                .count()
        );
        assert_eq!(edit(&document, Encoding::Utf16), None);
    }

    #[test]
    fn only_lines_that_differ_are_edited_and_line_ends_stay() {
        check("[\n  1\n]\n", expect!["nothing"]);
        check(
            "[\n  {},\n [],\n  {}\n]\n",
            expect![[r#"2:0 to 3:0: "  [],\n""#]],
        );
        check(
            "[\r\n  {},\r\n [],\r\n  {}\r\n]\r\n",
            expect![[r#"2:0 to 3:0: "  [],\r\n""#]],
        );
        check("[\n  {},\n\n\n  []\n]\n", expect![[r#"2:0 to 4:0: """#]]);
        check("[\n  1\n]", expect![[r#"2:1 to 2:1: "\n""#]]);
        check("[\n  1\n]\n\n\n", expect![[r#"3:0 to 5:0: """#]]);
        check("[1]", expect![[r#"0:0 to 0:3: "[\n  1\n]\n""#]]);
        check("\n\n[\n  \"😀\"\n]\n", expect![[r#"0:0 to 2:0: """#]]);
        check("[\r  1\r]\r", expect![[r#"0:0 to 3:0: "[\n  1\n]\n""#]]);
        check("[\r\n  1]", expect![[r#"0:1 to 1:4: "\r\n  1\r\n]\r\n""#]]);
    }

    #[test]
    fn a_text_with_a_fault_has_no_layout() {
        for text in ["", "[", "[1,]", "[1] 2"] {
            let document = Document::new(text.to_owned(), 1);
            assert_eq!(edit(&document, Encoding::Utf8), None, "{text}");
        }
    }
}
