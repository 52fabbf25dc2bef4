//! A text with the name it is shown under, however it was encoded.

use std::fmt;
use std::sync::Arc;

use super::{Diagnostic, Fix, Span};

/// More byte sequences than this that are not UTF-8 are counted rather than listed.
const MAX_ENCODING_FAULTS: usize = 10;

/// A text and the name it is shown under; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Source {
    /// The path as the reader knows it.
    pub name: String,
    /// The whole text, byte order mark included.
    pub text: Arc<str>,
}

impl Source {
    /// Returns a source with this name and text.
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// Reads bytes as UTF-8 and reports every place where they are not.
    ///
    /// The text is always usable, so that its other faults can be found in the same pass: each byte that is not UTF-8
    /// stands as `?`, which keeps all offsets right, and UTF-16 and UTF-32 are decoded.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> (Self, Vec<Diagnostic>) {
        let name = name.into();
        if let Some(encoding) = Encoding::of(bytes) {
            let source = Self::new(name, encoding.decode(bytes));
            let fault = Diagnostic::error(
                "not-utf-8",
                format!(
                    "`{}` is encoded as {}, not as UTF-8",
                    source.name,
                    encoding.name()
                ),
            )
            .primary(&source, Span::at(0), "")
            .help("save the file as UTF-8");
            // A question mark may stand for what could not be decoded.
            let fix = match source.text.contains('?') {
                true => Fix::offered("save it as UTF-8"),
                false => Fix::sure("save it as UTF-8"),
            };
            let fault = fault.fix(fix.edit(&source, Span::at(0), ""));
            return (source, vec![fault]);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => (Self::new(name, text), Vec::new()),
            Err(_) => replace_bad_bytes(name, bytes),
        }
    }

    /// Returns whether bytes are in another encoding than UTF-8, so that their text is decoded.
    pub fn is_decoded(bytes: &[u8]) -> bool {
        Encoding::of(bytes).is_some()
    }

    /// Returns the bytes of a span as text, cut to what there is.
    pub fn slice(&self, span: Span) -> &str {
        let (start, end) = (
            self.char_boundary(span.start as usize),
            self.char_boundary(span.end as usize),
        );
        &self.text[start..end.max(start)]
    }

    fn char_boundary(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({:?}, {} bytes)", self.name, self.text.len())
    }
}

/// Returns the line and the column of a byte offset, both from 1; columns count characters.
///
/// A line ends with LF, CRLF or a lone CR. A byte order mark takes no column. An offset past the end is the end.
pub fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let offset = text.floor_char_boundary(offset);
    let bytes = text.as_bytes();
    let (mut line, mut line_start) = (1, 0);
    for ix in 0..offset {
        if ends_line(bytes, ix) {
            line += 1;
            line_start = ix + 1;
        }
    }
    (line, column(text, line_start, offset))
}

/// Where each line of a text starts, for many look-ups in one text.
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines of a text.
    pub fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let ends = (0..bytes.len()).filter(|&ix| ends_line(bytes, ix));
        let starts = std::iter::once(0).chain(ends.map(|ix| ix + 1)).collect();
        Self { text, starts }
    }

    /// Returns the line and column of a byte offset, as [`line_column`] does.
    pub fn line_column(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.line(offset);
        (line + 1, column(self.text, self.starts[line], offset))
    }

    /// Returns the index of the line that has this offset.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.starts
            .partition_point(|&start| start <= offset)
            .saturating_sub(1)
    }

    /// Returns the bytes of a line without its end and without a byte order mark.
    pub(super) fn range(&self, line: usize) -> std::ops::Range<usize> {
        let start = self.starts[line];
        let end = self
            .starts
            .get(line + 1)
            .copied()
            .unwrap_or(self.text.len());
        let text = &self.text[start..end];
        let trimmed = text
            .strip_suffix("\r\n")
            .or_else(|| text.strip_suffix(['\n', '\r']))
            .unwrap_or(text);
        let bom = if start == 0 { bom_len(self.text) } else { 0 };
        start + bom..start + trimmed.len()
    }
}

/// The lines of each source seen so far, found once.
#[derive(Default)]
pub struct KnownLines<'a>(Vec<(&'a Source, Lines<'a>)>);

impl<'a> KnownLines<'a> {
    /// Returns the lines of a source.
    pub fn of(&mut self, source: &'a Source) -> &Lines<'a> {
        let ix = self
            .0
            .iter()
            .position(|(known, _)| *known == source)
            .unwrap_or_else(|| {
                self.0.push((source, Lines::new(&source.text)));
                self.0.len() - 1
            });
        &self.0[ix].1
    }
}

fn column(text: &str, line_start: usize, offset: usize) -> usize {
    let start = if line_start == 0 {
        bom_len(text).min(offset)
    } else {
        line_start
    };
    text[start..offset].chars().count() + 1
}

fn bom_len(text: &str) -> usize {
    if text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        0
    }
}

fn ends_line(bytes: &[u8], ix: usize) -> bool {
    bytes[ix] == b'\n' || bytes[ix] == b'\r' && bytes.get(ix + 1) != Some(&b'\n')
}

fn replace_bad_bytes(name: String, bytes: &[u8]) -> (Source, Vec<Diagnostic>) {
    let mut text = String::with_capacity(bytes.len());
    let mut bad = Vec::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            let start = text.len();
            text.extend(chunk.invalid().iter().map(|_| '?'));
            bad.push(start..text.len());
        }
    }
    let source = Source::new(name, text);
    let mut faults: Vec<_> = bad
        .iter()
        .take(MAX_ENCODING_FAULTS)
        .map(|range| {
            let hex: Vec<_> = bytes[range.clone()]
                .iter()
                .map(|byte| format!("{byte:02X}"))
                .collect();
            let (noun, verb) = if hex.len() == 1 {
                ("byte", "is")
            } else {
                ("bytes", "are")
            };
            Diagnostic::error(
                "not-utf-8",
                format!(
                    "{noun} {} at offset {} {verb} not UTF-8",
                    hex.join(" "),
                    range.start
                ),
            )
            .primary(&source, range.clone(), "not UTF-8")
            .help("save the file as UTF-8")
        })
        .collect();
    if let (Some(last), true) = (faults.last_mut(), bad.len() > MAX_ENCODING_FAULTS) {
        last.notes.push(format!(
            "{} more places are not UTF-8",
            bad.len() - MAX_ENCODING_FAULTS
        ));
    }
    (source, faults)
}

/// An encoding that is named in the fault rather than read as broken UTF-8.
#[derive(Clone, Copy)]
enum Encoding {
    Utf16 { big: bool },
    Utf32 { big: bool },
}

impl Encoding {
    /// Returns the encoding by its byte order mark, or by where the zeros of the first ASCII characters stand.
    fn of(bytes: &[u8]) -> Option<Self> {
        let byte = |ix: usize| bytes.get(ix).copied();
        let zero = |ix: usize| byte(ix).map(|byte| byte == 0);
        let utf16 = |big| Some(Self::Utf16 { big });
        let utf32 = |big| Some(Self::Utf32 { big });
        match bytes {
            [0xff, 0xfe, 0, 0, ..] => return utf32(false),
            [0, 0, 0xfe, 0xff, ..] => return utf32(true),
            [0xff, 0xfe, ..] => return utf16(false),
            [0xfe, 0xff, ..] => return utf16(true),
            _ => {}
        }
        match [zero(0), zero(1), zero(2), zero(3)] {
            [Some(true), Some(true), Some(true), Some(false)] => utf32(true),
            [Some(false), Some(true), Some(true), Some(true)] => utf32(false),
            [
                Some(true),
                Some(false),
                None | Some(true),
                None | Some(false),
            ] => utf16(true),
            [
                Some(false),
                Some(true),
                None | Some(false),
                None | Some(true),
            ] => utf16(false),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Utf16 { big: true } => "UTF-16 (big-endian)",
            Self::Utf16 { big: false } => "UTF-16 (little-endian)",
            Self::Utf32 { big: true } => "UTF-32 (big-endian)",
            Self::Utf32 { big: false } => "UTF-32 (little-endian)",
        }
    }

    fn decode(self, bytes: &[u8]) -> String {
        let text: String = match self {
            Self::Utf16 { big } => {
                let (units, _) = bytes.as_chunks::<2>();
                let units = units.iter().map(|&unit| {
                    if big {
                        u16::from_be_bytes(unit)
                    } else {
                        u16::from_le_bytes(unit)
                    }
                });
                char::decode_utf16(units)
                    .map(|c| c.unwrap_or('?'))
                    .collect()
            }
            Self::Utf32 { big } => {
                let (units, _) = bytes.as_chunks::<4>();
                let units = units.iter().map(|&unit| {
                    if big {
                        u32::from_be_bytes(unit)
                    } else {
                        u32::from_le_bytes(unit)
                    }
                });
                units
                    .map(|unit| char::from_u32(unit).unwrap_or('?'))
                    .collect()
            }
        };
        match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn faults(bytes: &[u8]) -> Vec<String> {
        Source::from_bytes("t.json", bytes)
            .1
            .into_iter()
            .map(|fault| fault.headline)
            .collect()
    }

    #[test]
    fn lines_end_with_lf_crlf_or_a_lone_cr() {
        let text = "a\nbc\r\nd\re\n\r\n";
        let at = |needle: &str| line_column(text, text.find(needle).unwrap());
        assert_eq!(
            [at("a"), at("c"), at("d"), at("e")],
            [(1, 1), (2, 2), (3, 1), (4, 1)]
        );
        assert_eq!(line_column(text, usize::MAX), (6, 1));
    }

    #[test]
    fn columns_count_characters_and_a_byte_order_mark_is_none() {
        assert_eq!(line_column("\u{feff}[1]", 3), (1, 1));
        assert_eq!(line_column("\u{feff}[1]", 4), (1, 2));
        assert_eq!(line_column("\u{feff}[1]", 1), (1, 1));
        assert_eq!(line_column("\"Ω🙂\" x", 9), (1, 6));
    }

    #[test]
    fn encodings_other_than_utf_8_are_named_with_or_without_a_mark() {
        let text = "[{\"id\": \"a\"}]";
        let utf16 = |big: bool, bom: &str| -> Vec<u8> {
            format!("{bom}{text}")
                .encode_utf16()
                .flat_map(|unit| {
                    if big {
                        unit.to_be_bytes()
                    } else {
                        unit.to_le_bytes()
                    }
                })
                .collect()
        };
        let utf32 = |big: bool, bom: &str| -> Vec<u8> {
            format!("{bom}{text}")
                .chars()
                .flat_map(|c| {
                    if big {
                        u32::from(c).to_be_bytes()
                    } else {
                        u32::from(c).to_le_bytes()
                    }
                })
                .collect()
        };
        for bom in ["", "\u{feff}"] {
            for (bytes, name) in [
                (utf16(true, bom), "UTF-16 (big-endian)"),
                (utf16(false, bom), "UTF-16 (little-endian)"),
                (utf32(true, bom), "UTF-32 (big-endian)"),
                (utf32(false, bom), "UTF-32 (little-endian)"),
            ] {
                assert_eq!(
                    faults(&bytes),
                    [format!("`t.json` is encoded as {name}, not as UTF-8")]
                );
                assert_eq!(&*Source::from_bytes("t.json", &bytes).0.text, text);
            }
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_named_with_their_offset() {
        assert_eq!(faults(b"[\"\xff\"]"), ["byte FF at offset 2 is not UTF-8"]);
        assert_eq!(
            faults(b"\xc0\x80"),
            [
                "byte C0 at offset 0 is not UTF-8",
                "byte 80 at offset 1 is not UTF-8"
            ]
        );
        assert_eq!(
            faults(b"\xe2\x82"),
            ["bytes E2 82 at offset 0 are not UTF-8"]
        );
        assert_eq!(faults(b"\xed\xa0\x80").len(), 3);
        assert_eq!(faults(&[0xff; 1000]).len(), MAX_ENCODING_FAULTS);
    }

    proptest! {
        #[test]
        fn many_look_ups_agree_with_one(text in "[a\r\n\u{feff}Ω]{0,40}", offset in 0usize..130) {
            prop_assert_eq!(Lines::new(&text).line_column(offset), line_column(&text, offset));
        }

        #[test]
        fn any_bytes_become_text_of_the_same_length_unless_decoded(bytes in any::<Vec<u8>>()) {
            let (source, faults) = Source::from_bytes("t", &bytes);
            prop_assert!(Encoding::of(&bytes).is_some() || source.text.len() == bytes.len());
            prop_assert_eq!(faults.is_empty(), source.text.as_bytes() == bytes && Encoding::of(&bytes).is_none());
        }
    }
}
