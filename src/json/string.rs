//! Strings and their escapes.

use super::Span;
use super::parser::Parser;
use crate::diagnostic::Fix;

impl Parser<'_> {
    /// Reads the string in double quotes that starts here.
    pub(super) fn string(&mut self) -> String {
        self.quoted(b'"')
    }

    /// Reports a string in single quotes, and reads it.
    pub(super) fn single_quoted(&mut self, what: &str) -> String {
        let start = self.pos;
        let text = self.quoted(b'\'');
        let span = Span::new(start, self.pos);
        let fix = self.in_double_quotes(span, &text);
        self.mendable(
            "single-quotes",
            span,
            format!("{what} is in single quotes"),
            "",
            "use double quotes",
            fix,
        );
        text
    }

    /// Returns the edit that writes a string in single quotes in double ones.
    fn in_double_quotes(&self, span: Span, text: &str) -> Option<Fix> {
        let written = self.source.slice(span);
        let inner = written.strip_prefix('\'')?.strip_suffix('\'')?;
        let fix = Fix::sure("write double quotes");
        if inner.contains(|c: char| matches!(c, '"' | '\\') || c.is_control()) {
            return Some(fix.edit(self.source, span, super::Value::from(text).to_string()));
        }
        let (start, end) = (span.start as usize, span.end as usize);
        let fix = fix.edit(self.source, start..start + 1, "\"");
        Some(fix.edit(self.source, end - 1..end, "\""))
    }

    fn quoted(&mut self, quote: u8) -> String {
        let start = self.pos;
        self.pos += 1;
        let mut out = String::new();
        let mut copied = self.pos;
        let mut raw_controls = Odd::default();
        let mut inner_quotes = Odd::default();
        loop {
            while self
                .peek()
                .is_some_and(|byte| byte != quote && byte != b'\\' && byte >= 0x20)
            {
                self.pos += 1;
            }
            match self.peek() {
                Some(byte)
                    if byte == quote && self.is_inner_quote(quote, inner_quotes.count > 0) =>
                {
                    inner_quotes.add(self.pos);
                    self.pos += 1;
                }
                Some(byte) if byte == quote => {
                    out.push_str(&self.text[copied..self.pos]);
                    self.pos += 1;
                    break;
                }
                Some(b'\\') => {
                    out.push_str(&self.text[copied..self.pos]);
                    self.escape(&mut out);
                    copied = self.pos;
                }
                Some(b'\n' | b'\r') if self.line_was_cut() => {
                    let line = self.text[copied..self.pos].trim_end();
                    let end = copied + line.strip_suffix(',').unwrap_or(line).len();
                    out.push_str(&self.text[copied..end]);
                    self.pos = end;
                    self.unclosed(start);
                    break;
                }
                Some(_) => {
                    raw_controls.add(self.pos);
                    self.pos += 1;
                }
                None => {
                    out.push_str(&self.text[copied..]);
                    self.unfinished("a string is not closed");
                    break;
                }
            }
        }
        if inner_quotes.count > 0 {
            self.inner_quote(&inner_quotes);
        }
        if raw_controls.count > 0 {
            self.raw_control(&raw_controls);
        }
        out
    }

    /// Returns whether the quote here was meant as a part of the string, because text follows it at once.
    ///
    /// Once a string has such a quote, each of its quotes is taken as one that is not followed by what must follow a
    /// string. There must be one that is, further on in the line.
    fn is_inner_quote(&mut self, quote: u8, is_known: bool) -> bool {
        let after = &self.bytes[self.pos + 1..];
        if is_known {
            return !can_follow_a_string(after);
        }
        let is_suspect = match after {
            [b't', b'r', b'u', b'e', ..] | [b'n', b'u', b'l', b'l', ..] => false,
            [b'f', b'a', b'l', b's', b'e', ..] => false,
            [byte, ..] => byte.is_ascii_alphabetic() || *byte >= 0x80,
            [] => false,
        };
        if quote != b'"' || !is_suspect || self.pos < self.no_end_of_string_before {
            return false;
        }
        let mut ix = self.pos + 1;
        while let Some(&byte) = self.bytes.get(ix) {
            match byte {
                b'\n' | b'\r' => break,
                b'\\' => ix += 1,
                b'"' if can_follow_a_string(&self.bytes[ix + 1..]) => return true,
                _ => {}
            }
            ix += 1;
        }
        self.no_end_of_string_before = ix;
        false
    }

    fn inner_quote(&mut self, quotes: &Odd) {
        let (at, more) = (quotes.places[0], quotes.more());
        let headline = format!("a double quote stands in a string{more}");
        let span = Span::new(at, at + 1);
        let fix = quotes.all().map(|places| {
            let fix = Fix::offered("write \\\"");
            let write = |fix: Fix, at: &usize| fix.edit(self.source, Span::at(*at), "\\");
            places.iter().fold(fix, write)
        });
        self.mendable("inner-quote", span, headline, "", "write \\\"", fix);
    }

    /// Returns whether the string probably should have ended on this line: the next line starts a member or closes.
    fn line_was_cut(&self) -> bool {
        let rest = &self.bytes[self.pos..];
        let rest = rest.strip_prefix(b"\r\n").unwrap_or(&rest[1..]);
        let line = rest
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .next()
            .unwrap_or(rest);
        match line.trim_ascii() {
            [b']' | b'}', after @ ..] => after
                .iter()
                .all(|byte| matches!(byte, b']' | b'}' | b',' | b' ')),
            [b'"', after @ ..] => match after.iter().position(|&byte| byte == b'"') {
                Some(len) => after[len + 1..].trim_ascii_start().starts_with(b":"),
                None => false,
            },
            _ => false,
        }
    }

    fn unclosed(&mut self, start: usize) {
        let span = Span::new(start, self.pos);
        let quote = self.text[start..start + 1].to_owned();
        let fix = Fix::offered("write the closing quote");
        let fix = fix.edit(self.source, Span::at(self.pos), quote);
        self.mendable(
            "unclosed-string",
            span,
            "a string has no closing quote",
            "opened here",
            "write `\"` at its end",
            fix,
        );
    }

    fn raw_control(&mut self, controls: &Odd) {
        let (at, more) = (controls.places[0], controls.more());
        let byte = self.bytes[at];
        let (name, escape) = match byte {
            b'\n' => ("a line break".to_owned(), escaped(byte)),
            b'\r' => ("a carriage return".to_owned(), escaped(byte)),
            b'\t' => ("a tab".to_owned(), escaped(byte)),
            _ => (format!("the control character U+{byte:04X}"), escaped(byte)),
        };
        let headline = format!("{name} stands in a string{more}");
        let title = format!("write {escape}");
        // A line break may as well come from a quote that was forgotten.
        let fix = controls.all().map(|places| {
            let breaks = |at: &usize| matches!(self.bytes[*at], b'\n' | b'\r');
            let fix = match places.iter().any(breaks) {
                true => Fix::offered(&title),
                false => Fix::sure(&title),
            };
            let write = |fix: Fix, at: &usize| {
                let span = Span::new(*at, at + 1);
                fix.edit(self.source, span, escaped(self.bytes[*at]))
            };
            places.iter().fold(fix, write)
        });
        let span = Span::new(at, at + 1);
        self.mendable("raw-control-character", span, headline, "", &title, fix);
    }

    /// Reads the escape that starts here.
    fn escape(&mut self, out: &mut String) {
        let start = self.pos;
        self.pos += 1;
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start, out),
            None => return,
            Some(_) => return self.unknown_escape(start, out),
        };
        self.pos += 1;
        out.push(c);
    }

    fn unknown_escape(&mut self, start: usize, out: &mut String) {
        let c = self.text[self.pos..]
            .chars()
            .next()
            .expect("a character follows the backslash");
        if c.is_ascii_control() {
            // The control character is reported on its own.
            return;
        }
        self.pos += c.len_utf8();
        out.push(c);
        let help = match c {
            '\'' => "write ' without the backslash".to_owned(),
            'x' => "write \\u and four hexadecimal digits".to_owned(),
            _ => format!("write \\\\{c} for a backslash and `{c}`"),
        };
        let span = Span::new(start, self.pos);
        let fix = match c {
            '\'' => Some(Fix::sure("delete the backslash").edit(self.source, span, "'")),
            'x' => None,
            _ => {
                let fix = match "dswDSW.()[]{}*+?|^$-".contains(c) {
                    true => Fix::sure(&help),
                    false => Fix::offered(&help),
                };
                Some(fix.edit(self.source, Span::at(start), "\\"))
            }
        };
        let headline = format!("`\\{c}` is not an escape");
        self.mendable("unknown-escape", span, headline, "", &help, fix);
    }

    fn unicode_escape(&mut self, start: usize, out: &mut String) {
        self.pos += 1;
        let Some(first) = self.four_digits() else {
            let digits = self.bytes[self.pos..]
                .iter()
                .take(3)
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count();
            self.pos += digits;
            out.push(char::REPLACEMENT_CHARACTER);
            if self.peek().is_some() {
                let span = Span::new(start, self.pos);
                let help = "write four hexadecimal digits after \\u, such as \\u00e9";
                self.simple(
                    "broken-unicode-escape",
                    span,
                    format!("`\\u` is followed by {digits} of 4 hexadecimal digits"),
                    "",
                    help,
                );
            }
            return;
        };
        let code = match first {
            0xd800..=0xdbff if self.bytes[self.pos..].starts_with(b"\\u") => {
                let before = self.pos;
                self.pos += 2;
                match self.four_digits() {
                    Some(second @ 0xdc00..=0xdfff) => {
                        0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    _ => {
                        self.pos = before;
                        first
                    }
                }
            }
            _ => first,
        };
        match char::from_u32(code) {
            Some(c) => out.push(c),
            None => {
                out.push(char::REPLACEMENT_CHARACTER);
                let half = if code < 0xdc00 { "first" } else { "second" };
                let span = Span::new(start, self.pos);
                let headline = format!(
                    "`\\u{code:04x}` is the {half} half of a character, and the other half is missing"
                );
                self.simple(
                    "lone-surrogate",
                    span,
                    headline,
                    "",
                    "write the character itself, or both halves",
                );
            }
        }
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.pos..self.pos + 4)?;
        let mut code = 0;
        for &digit in digits {
            code = code << 4 | char::from(digit).to_digit(16)?;
        }
        self.pos += 4;
        Some(code)
    }
}

/// The most places of one string that are mended together.
const MAX_PLACES: usize = 1000;

/// Where characters of a string are that cannot stand in one.
#[derive(Default)]
struct Odd {
    count: usize,
    places: Vec<usize>,
}

impl Odd {
    fn add(&mut self, at: usize) {
        self.count += 1;
        if self.places.len() < MAX_PLACES {
            self.places.push(at);
        }
    }

    /// Returns the places, if they are all.
    fn all(&self) -> Option<&[usize]> {
        (self.count == self.places.len()).then_some(&self.places)
    }

    /// Returns how many there are after the first, for a sentence.
    fn more(&self) -> String {
        match self.count {
            0 | 1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        }
    }
}

/// Returns the escape of a control character.
fn escaped(byte: u8) -> String {
    match byte {
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'\t' => "\\t".to_owned(),
        _ => format!("\\u{byte:04x}"),
    }
}

/// Returns whether these bytes can follow the closing quote of a string.
fn can_follow_a_string(after: &[u8]) -> bool {
    let skip = |bytes: &[u8]| {
        bytes
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count()
    };
    let after = &after[skip(after)..];
    match after {
        [] | [b'\n' | b'\r' | b':' | b']' | b'}', ..] => true,
        [b',', next @ ..] => {
            let next = &next[skip(next)..];
            let starts = [&b"true"[..], b"false", b"null"];
            match next.first() {
                None | Some(b'\n' | b'\r' | b'"' | b'{' | b'[' | b'-' | b'0'..=b'9') => true,
                _ => starts.iter().any(|literal| next.starts_with(literal)),
            }
        }
        _ => false,
    }
}
