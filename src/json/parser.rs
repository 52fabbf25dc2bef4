//! The reader of values: what kind of value starts here, and what lies between values.

use super::{MAX_BYTES, MAX_DEPTH, MAX_FAULTS, MAX_VALUES, Node, NodeKind, Parsed, Span};
use crate::diagnostic::{Diagnostic, Fix, Source};

/// A walk over the bytes of one text, with the faults found so far.
pub(super) struct Parser<'a> {
    pub(super) source: &'a Source,
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) pos: usize,
    /// Where each container that is open starts, with its closing bracket.
    pub(super) open: Vec<(usize, u8)>,
    pub(super) faults: Vec<Diagnostic>,
    /// Faults beyond [`MAX_FAULTS`], and where the first of them is.
    more: usize,
    more_at: Span,
    /// Whether the end of the text was reported as a fault.
    end_reported: bool,
    values: usize,
    too_deep_reported: bool,
    /// Before this offset no quote can end a string, so none is sought again.
    pub(super) no_end_of_string_before: usize,
    /// Whether an object was ended where the next one starts, so that its comma is not missed too.
    pub(super) comma_excused: bool,
}

/// Parses a whole text.
pub(super) fn parse(source: &Source) -> Parsed {
    if source.text.len() > MAX_BYTES {
        let fault = Diagnostic::error(
            "file-too-large",
            format!(
                "`{}` has {} bytes, but a JSON file may have at most {MAX_BYTES}",
                source.name,
                source.text.len()
            ),
        )
        .primary(source, Span::at(0), "")
        .help("move long texts and tables into files of their own and refer to them by path");
        return Parsed {
            root: None,
            faults: vec![fault],
        };
    }
    let mut parser = Parser {
        source,
        text: &source.text,
        bytes: source.text.as_bytes(),
        pos: if source.text.starts_with('\u{feff}') {
            3
        } else {
            0
        },
        open: Vec::new(),
        faults: Vec::new(),
        more: 0,
        more_at: Span::default(),
        end_reported: false,
        values: 0,
        too_deep_reported: false,
        no_end_of_string_before: 0,
        comma_excused: false,
    };
    let root = parser.document();
    Parsed {
        root,
        faults: parser.finish(),
    }
}

impl Parser<'_> {
    fn document(&mut self) -> Option<Node> {
        self.skip_blanks();
        if self.peek().is_none() {
            if self.faults.is_empty() {
                let what = if self.text.is_empty() {
                    "is empty"
                } else {
                    "has no value in it"
                };
                self.fault(Span::at(self.pos), |parser| {
                    Diagnostic::error("empty-file", format!("`{}` {what}", parser.source.name))
                        .primary(
                            parser.source,
                            Span::at(parser.pos),
                            "a JSON value is missing here",
                        )
                });
            }
            return None;
        }
        let root = self.value();
        self.skip_blanks();
        if let Some(byte) = self.peek() {
            let span = self.run_span();
            let (code, headline, help) = match byte {
                b'{' | b'[' | b'"' => (
                    "second-document",
                    "a second value follows the first",
                    "put both into one array, or delete one",
                ),
                b']' | b'}' => (
                    "unopened-bracket",
                    "this bracket closes nothing",
                    "delete it, or add the bracket that it should close",
                ),
                _ => (
                    "trailing-text",
                    "text follows the end of the value",
                    "delete it",
                ),
            };
            let root_span = root.span;
            let fix = (code == "unopened-bracket")
                .then(|| Fix::offered("delete it").edit(self.source, span, ""));
            self.fault(span, |parser| {
                let end = root_span.end as usize;
                Diagnostic::error(code, headline)
                    .primary(parser.source, span, "not expected here")
                    .label(
                        parser.source,
                        Span::new(end.saturating_sub(1), end),
                        "the value ends here",
                    )
                    .help(help)
                    .fix(fix)
            });
        }
        Some(root)
    }

    /// Reads the value that starts here; the caller has seen that one does or could.
    pub(super) fn value(&mut self) -> Node {
        let start = self.pos;
        self.values += 1;
        if self.values == MAX_VALUES + 1 {
            self.simple(
                "too-many-values",
                Span::at(start),
                format!("the file has more than {MAX_VALUES} values"),
                "",
                "move tables into files of their own",
            );
        }
        let kind = match self.peek() {
            Some(b'{' | b'[') if self.open.len() >= MAX_DEPTH => self.too_deep(),
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => NodeKind::String(self.string()),
            Some(b'\'') => NodeKind::String(self.single_quoted("a string")),
            Some(b'0'..=b'9' | b'-' | b'+' | b'.') => self.number(),
            Some(byte)
                if byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || byte >= 0x80 =>
            {
                self.word()
            }
            Some(_) => self.unexpected(),
            None => {
                self.unfinished("a value is missing");
                NodeKind::Bad
            }
        };
        Node {
            span: Span::new(start, self.pos),
            kind,
        }
    }

    /// Returns whether the tree may have another value.
    pub(super) fn has_room(&self) -> bool {
        self.values <= MAX_VALUES
    }

    /// Skips a character that can start nothing, and the rest of what it is part of.
    pub(super) fn unexpected(&mut self) -> NodeKind {
        let span = self.run_span();
        let shown = self
            .source
            .slice(span)
            .chars()
            .next()
            .map_or(String::new(), |c| format!("`{c}`"));
        self.pos = (span.end as usize).max(self.pos + 1);
        self.simple(
            "unexpected-character",
            span,
            format!("{shown} can't start a value"),
            "a value is expected here",
            "write a string, number, array, object, true, false or null",
        );
        NodeKind::Bad
    }

    /// Skips a container that is nested too deep, without recursion.
    fn too_deep(&mut self) -> NodeKind {
        let start = self.pos;
        if !self.too_deep_reported {
            self.too_deep_reported = true;
            self.simple(
                "nesting-too-deep",
                Span::new(start, start + 1),
                format!("arrays and objects are nested more than {MAX_DEPTH} deep"),
                format!("level {}", MAX_DEPTH + 1),
                "flatten the value, or move the inner part into a file of its own",
            );
        }
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            self.pos += 1;
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return NodeKind::Bad;
                    }
                }
                b'"' => {
                    while let Some(byte) = self.peek() {
                        self.pos += 1;
                        match byte {
                            b'"' => break,
                            b'\\' => self.pos = (self.pos + 1).min(self.bytes.len()),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        self.end_reported = true;
        NodeKind::Bad
    }

    /// Skips whitespace, and reports and skips what some take for it.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.pos += 1,
                Some(b'/') if matches!(self.peek_at(1), Some(b'/' | b'*')) => self.comment(),
                Some(b'#') => self.comment(),
                Some(byte) if byte == 0x0b || byte == 0x0c || byte >= 0x80 => {
                    let c = self.text[self.pos..]
                        .chars()
                        .next()
                        .expect("a character starts here");
                    if !c.is_whitespace() && c != '\u{feff}' && c != '\u{200b}' {
                        return;
                    }
                    let span = Span::new(self.pos, self.pos + c.len_utf8());
                    self.pos = span.end as usize;
                    let headline = format!("U+{:04X} is not whitespace in JSON", u32::from(c));
                    let (title, text) = match c.is_whitespace() {
                        true => ("write a space", " "),
                        false => ("delete it", ""),
                    };
                    let fix = Fix::sure(title).edit(self.source, span, text);
                    let help = "use spaces, tabs and line feeds only";
                    self.mendable("odd-whitespace", span, headline, "", help, fix);
                }
                _ => return,
            }
        }
    }

    fn comment(&mut self) {
        let start = self.pos;
        let rest = &self.bytes[start..];
        let len = if rest.starts_with(b"/*") {
            match self.text[start + 2..].find("*/") {
                Some(len) => len + 4,
                None => rest.len(),
            }
        } else {
            rest.iter()
                .position(|byte| matches!(byte, b'\n' | b'\r'))
                .unwrap_or(rest.len())
        };
        self.pos = start + len;
        let span = Span::new(start, self.pos);
        self.mendable(
            "comment",
            span,
            "JSON has no comments",
            "",
            "delete it, or turn it into a member such as \"//\": \"..\"",
            Fix::offered("delete it").edit(self.source, span, ""),
        );
    }

    /// Returns the byte here.
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    /// Returns the byte some way ahead.
    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.pos + ahead).copied()
    }

    /// Returns the characters from here up to what ends a bare word; at least one character.
    pub(super) fn run_span(&self) -> Span {
        let rest = &self.text[self.pos..];
        let ends =
            |c: char| c.is_whitespace() || matches!(c, ',' | ':' | '[' | ']' | '{' | '}' | '"');
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let len = rest[first..]
            .find(ends)
            .map_or(rest.len(), |len| first + len);
        let len = if rest.starts_with(ends) { first } else { len };
        Span::new(self.pos, self.pos + len)
    }

    /// Reports that the text ends too early, once, with the brackets that are still open.
    pub(super) fn unfinished(&mut self, what: &str) {
        if self.end_reported {
            return;
        }
        self.end_reported = true;
        let end = self.text.trim_ascii_end().len();
        let open = std::mem::take(&mut self.open);
        self.fault(Span::at(end), |parser| {
            let closers: String = open
                .iter()
                .rev()
                .map(|&(_, closer)| char::from(closer))
                .collect();
            let mut fault =
                Diagnostic::error("unfinished", format!("the file ends too early: {what}"))
                    .primary(parser.source, Span::at(end), "the file ends here");
            for &(start, closer) in open.iter().rev().take(2) {
                let text = format!("opened here, needs `{}`", char::from(closer));
                fault = fault.label(parser.source, Span::new(start, start + 1), text);
            }
            let help = (!closers.is_empty())
                .then(|| format!("add `{closers}` at the end, if nothing else was cut off"));
            let is_between =
                ["the array is not closed", "the object is not closed"].contains(&what);
            let fix = is_between.then(|| {
                let title = format!("add `{closers}` at the end");
                Fix::offered(title).edit(parser.source, Span::at(end), closers.clone())
            });
            fault.help(help).fix(fix)
        });
        self.open = open;
    }

    /// Adds a fault with one place, a text for it and a help.
    pub(super) fn simple(
        &mut self,
        code: &'static str,
        span: Span,
        headline: impl Into<String>,
        text: impl Into<String>,
        help: &str,
    ) {
        self.mendable(code, span, headline, text, help, None);
    }

    /// Adds a fault with one place, a text for it, a help and what mends it.
    pub(super) fn mendable(
        &mut self,
        code: &'static str,
        span: Span,
        headline: impl Into<String>,
        text: impl Into<String>,
        help: &str,
        fix: impl Into<Option<Fix>>,
    ) {
        self.fault(span, |parser| {
            Diagnostic::error(code, headline)
                .primary(parser.source, span, text)
                .help(help)
                .fix(fix)
        });
    }

    /// Adds a fault, or counts it once there are too many; a fault that is only counted is never made.
    pub(super) fn fault(&mut self, span: Span, make: impl FnOnce(&Self) -> Diagnostic) {
        if self.faults.len() < MAX_FAULTS {
            let fault = make(self);
            self.faults.push(fault);
        } else {
            if self.more == 0 {
                self.more_at = span;
            }
            self.more += 1;
        }
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        self.faults
            .sort_by_key(|fault| fault.place().map(|label| label.span));
        if self.more > 0 {
            let noun = if self.more == 1 { "fault" } else { "faults" };
            let headline = format!("{} more {noun} in `{}`", self.more, self.source.name);
            self.faults
                .push(Diagnostic::error("more-faults", headline).primary(
                    self.source,
                    self.more_at,
                    "the next is here",
                ));
        }
        self.faults
    }
}
