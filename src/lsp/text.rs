//! The text of a document, and its positions as editors count them.

use lsp_types::{Position, Range, TextDocumentContentChangeEvent};

use crate::diagnostic::Span;

/// In which units an editor counts the characters of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Encoding {
    /// Bytes.
    Utf8,
    /// Units of UTF-16, as every editor can.
    #[default]
    Utf16,
}

/// The starts of the lines of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Starts(Vec<u32>);

impl Starts {
    /// Finds the lines of a text; a line ends with LF, CRLF or a lone CR.
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        let mut at = 0;
        while at < bytes.len() {
            let is_end = match bytes[at] {
                b'\n' => true,
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                _ => false,
            };
            at += 1;
            if is_end {
                starts.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
        Starts(starts)
    }

    /// Returns the bytes of a line without its end; `None` past the last line.
    fn line<'t>(&self, text: &'t str, line: usize) -> Option<(usize, &'t str)> {
        let start = *self.0.get(line)? as usize;
        let end = self.0.get(line + 1).map_or(text.len(), |&end| end as usize);
        let whole = &text[start..end];
        let line = whole.strip_suffix('\n').unwrap_or(whole);
        Some((start, line.strip_suffix('\r').unwrap_or(line)))
    }

    /// Returns the offset of a position; a character past the end of its line is the end, a line past the last is none.
    pub(super) fn offset(&self, text: &str, at: Position, encoding: Encoding) -> Option<usize> {
        let (start, line) = self.line(text, at.line as usize)?;
        let wanted = at.character as usize;
        let within = match encoding {
            Encoding::Utf8 => line.floor_char_boundary(wanted),
            Encoding::Utf16 if line.is_ascii() => wanted.min(line.len()),
            Encoding::Utf16 => {
                let mut units = 0;
                let mut chars = line.char_indices();
                let past = chars.find(|(_, c)| {
                    units += c.len_utf16();
                    units > wanted
                });
                past.map_or(line.len(), |(at, _)| at)
            }
        };
        Some(start + within)
    }

    /// Returns the position of an offset.
    pub(super) fn position(&self, text: &str, offset: usize, encoding: Encoding) -> Position {
        let offset = text.floor_char_boundary(offset);
        let line = self.0.partition_point(|&start| start as usize <= offset);
        let line = line.saturating_sub(1);
        let before = &text[self.0[line] as usize..offset];
        let character = match encoding {
            Encoding::Utf8 => before.len(),
            Encoding::Utf16 => before.chars().map(char::len_utf16).sum(),
        };
        Position::new(line as u32, character as u32)
    }

    /// Returns the range of a span.
    pub(super) fn range(&self, text: &str, span: Span, encoding: Encoding) -> Range {
        let [start, end] =
            [span.start, span.end].map(|offset| self.position(text, offset as usize, encoding));
        Range::new(start, end)
    }
}

/// A document that is open.
pub(super) struct Document {
    /// Its text.
    pub text: String,
    /// Its version, as the editor counts.
    pub version: i32,
    starts: Starts,
}

impl Document {
    /// Returns a document that was opened.
    pub(super) fn new(text: String, version: i32) -> Self {
        let starts = Starts::of(&text);
        Document {
            text,
            version,
            starts,
        }
    }

    /// Makes the changes of an edit, each to what the one before left; returns whether all were within the text.
    pub(super) fn edit(
        &mut self,
        changes: Vec<TextDocumentContentChangeEvent>,
        encoding: Encoding,
    ) -> bool {
        let mut is_within = true;
        for change in changes {
            match change.range {
                None => self.text = change.text,
                Some(range) => {
                    let mut offset = |at| {
                        let found = self.starts.offset(&self.text, at, encoding);
                        is_within &= found.is_some();
                        found.unwrap_or(self.text.len())
                    };
                    let (start, end) = (offset(range.start), offset(range.end));
                    let (start, end) = (start.min(end), start.max(end));
                    self.text.replace_range(start..end, &change.text);
                }
            }
            self.starts = Starts::of(&self.text);
        }
        is_within
    }

    /// Returns the offset of a position, if it has that line.
    pub(super) fn offset(&self, at: Position, encoding: Encoding) -> Option<usize> {
        self.starts.offset(&self.text, at, encoding)
    }

    /// Returns the range of a span.
    pub(super) fn range(&self, span: Span, encoding: Encoding) -> Range {
        self.starts.range(&self.text, span, encoding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_counted_as_the_editor_does() {
        let text = "a😀é\r\nb\rc\n";
        let starts = Starts::of(text);
        for (offset, utf8, utf16) in [
            (0, (0, 0), (0, 0)),
            (1, (0, 1), (0, 1)),
            (5, (0, 5), (0, 3)),
            (7, (0, 7), (0, 4)),
            (9, (1, 0), (1, 0)),
            (11, (2, 0), (2, 0)),
            (13, (3, 0), (3, 0)),
        ] {
            for (encoding, (line, character)) in [(Encoding::Utf8, utf8), (Encoding::Utf16, utf16)]
            {
                let position = Position::new(line, character);
                assert_eq!(starts.position(text, offset, encoding), position);
                assert_eq!(starts.offset(text, position, encoding), Some(offset));
            }
        }
        // Between the halves of a pair there is nothing, and past the end of a line is its end.
        let at =
            |line, character| starts.offset(text, Position::new(line, character), Encoding::Utf16);
        assert_eq!(at(0, 2), Some(1));
        assert_eq!(at(0, 99), Some(7));
        assert_eq!(at(3, 5), Some(13));
        assert_eq!(at(4, 0), None);
        assert_eq!(
            starts.offset(text, Position::new(0, 3), Encoding::Utf8),
            Some(1)
        );
    }

    #[test]
    fn edits_are_made_one_after_another() {
        let mut document = Document::new("one\ntwo\n".to_owned(), 1);
        let change =
            |from: (u32, u32), to: (u32, u32), text: &str| TextDocumentContentChangeEvent {
                range: Some(Range::new(
                    Position::new(from.0, from.1),
                    Position::new(to.0, to.1),
                )),
                range_length: None,
                text: text.to_owned(),
            };
        let changes = vec![
            change((0, 3), (1, 0), " "),
            change((0, 4), (0, 7), "2"),
            change((1, 0), (1, 0), "three"),
        ];
        assert!(document.edit(changes, Encoding::Utf16));
        assert_eq!(document.text, "one 2\nthree");
        // A reversed range is turned round, and one outside is cut.
        assert!(document.edit(vec![change((0, 3), (0, 0), "1")], Encoding::Utf16));
        assert!(!document.edit(vec![change((7, 0), (9, 0), "!")], Encoding::Utf16));
        assert_eq!(document.text, "1 2\nthree!");
    }
}
