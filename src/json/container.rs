//! Arrays and objects, and how to go on after a bracket, comma, colon or key that is wrong.

use std::collections::HashMap;

use super::parser::Parser;
use super::{MAX_MEMBERS, Member, Node, NodeKind, Span};
use crate::diagnostic::{Diagnostic, Fix, clip, cut};

/// Objects with fewer members than this look for an equal key one by one.
const FEW_MEMBERS: usize = 16;

/// What a closing bracket means to the container that is open.
enum Close {
    /// The container ends.
    Ends,
    /// It goes on.
    GoesOn,
}

impl<'a> Parser<'a> {
    /// Reads the array that starts here.
    pub(super) fn array(&mut self) -> NodeKind {
        self.open.push((self.pos, b']'));
        self.pos += 1;
        let mut items = Vec::new();
        loop {
            self.skip_blanks();
            match self.close(b']', "the array is not closed") {
                Close::Ends => break,
                Close::GoesOn => {}
            }
            match self.peek() {
                Some(b',') => {
                    self.mendable(
                        "missing-value",
                        self.here(),
                        "a value is missing before the comma",
                        "",
                        "delete the comma, or write the value",
                        Fix::offered("delete the comma").edit(self.source, self.here(), ""),
                    );
                    self.pos += 1;
                    continue;
                }
                Some(b':') => {
                    self.simple(
                        "colon-in-array",
                        self.here(),
                        "an array holds values, not keys",
                        "",
                        "write `{` and `}` instead of `[` and `]`, or `,` instead of `:`",
                    );
                    self.pos += 1;
                    continue;
                }
                _ => {
                    let item = self.value();
                    if self.has_room() {
                        items.push(item);
                    }
                }
            }
            self.comma(b']');
        }
        self.open.pop();
        // Most arrays and objects are small, and there are many.
        items.shrink_to_fit();
        NodeKind::Array(items)
    }

    /// Reads the object that starts here.
    pub(super) fn object(&mut self) -> NodeKind {
        self.open.push((self.pos, b'}'));
        self.pos += 1;
        let mut members: Vec<Member> = Vec::new();
        let mut seen = Seen::default();
        loop {
            self.skip_blanks();
            match self.close(b'}', "the object is not closed") {
                Close::Ends => break,
                Close::GoesOn => {}
            }
            if self.next_item_starts() && !members.is_empty() {
                self.unclosed_object();
                break;
            }
            if self.peek() == Some(b',') {
                self.mendable(
                    "missing-value",
                    self.here(),
                    "a member is missing before the comma",
                    "",
                    "delete the comma",
                    Fix::sure("delete the comma").edit(self.source, self.here(), ""),
                );
                self.pos += 1;
                continue;
            }
            let Some((key, key_span)) = self.key() else {
                self.comma(b'}');
                continue;
            };
            let value = self.member_value(&key, key_span);
            self.comma(b'}');
            let first = seen.find(&members, &key);
            if let Some(first) = first {
                let first = &members[first];
                let first = (first.key_span, first.value.span.end);
                self.duplicate(&key, first, (key_span, value.span.end));
            }
            if members.len() < MAX_MEMBERS && self.has_room() {
                seen.add(&key, members.len());
                members.push(Member {
                    key,
                    key_span,
                    value,
                });
            } else if members.len() == MAX_MEMBERS && !seen.full {
                seen.full = true;
                self.simple(
                    "too-many-members",
                    key_span,
                    format!("the object has more than {MAX_MEMBERS} members"),
                    "",
                    "move the table into a file of its own",
                );
            }
        }
        self.open.pop();
        members.shrink_to_fit();
        NodeKind::Object(members)
    }

    /// Reads a key; `None` when what stands here was reported and skipped.
    fn key(&mut self) -> Option<(String, Span)> {
        let start = self.pos;
        let key = match self.peek()? {
            b'"' => self.string(),
            b'\'' => self.single_quoted("a key"),
            b'{' | b'[' => {
                self.simple(
                    "missing-key",
                    self.here(),
                    "a key is missing before this value",
                    "a key is expected here",
                    "write \"key\": before it, or close the object above",
                );
                self.value();
                return None;
            }
            b':' => {
                self.simple(
                    "missing-key",
                    self.here(),
                    "a key is missing before the colon",
                    "",
                    "write the key in double quotes",
                );
                String::new()
            }
            _ => self.bare_key(),
        };
        Some((key, Span::new(start, self.pos)))
    }

    /// Reads a key without quotes.
    fn bare_key(&mut self) -> String {
        let span = self.run_span();
        let span = match self.source.slice(span).find('=') {
            Some(len) if len > 0 => Span::new(self.pos, self.pos + len),
            _ => span,
        };
        self.pos = (span.end as usize).max(self.pos + 1);
        let key = self.source.slice(span).to_owned();
        let help = format!("write \"{}\"", clip(&key));
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
        let fix = match key.chars().all(is_plain) {
            true => Fix::sure(&help),
            false => Fix::offered(&help),
        };
        let fix = self.in_quotes(span, fix);
        self.mendable(
            "unquoted-key",
            span,
            "a key must be in double quotes",
            "",
            &help,
            fix,
        );
        key
    }

    /// Reads the colon and the value of a member.
    fn member_value(&mut self, key: &str, key_span: Span) -> Node {
        self.skip_blanks();
        match self.peek() {
            Some(b':') => self.pos += 1,
            Some(b'=') => {
                let len = if self.peek_at(1) == Some(b'>') { 2 } else { 1 };
                let span = Span::new(self.pos, self.pos + len);
                self.mendable(
                    "missing-colon",
                    span,
                    "a key and its value are joined by `:`",
                    "",
                    "write `:`",
                    Fix::sure("write `:`").edit(self.source, span, ":"),
                );
                self.pos += len;
            }
            Some(b',' | b'}' | b']') => {
                self.simple(
                    "missing-value",
                    key_span,
                    format!("key `{}` has no value", clip(key)),
                    "",
                    "write `:` and the value after it",
                );
                return Node {
                    span: Span::at(self.pos),
                    kind: NodeKind::Bad,
                };
            }
            Some(_) => {
                let at = Span::at(key_span.end as usize);
                self.mendable(
                    "missing-colon",
                    at,
                    format!("a colon is missing after key `{}`", clip(key)),
                    "",
                    "write `:`",
                    Fix::sure("write `:`").edit(self.source, at, ":"),
                );
            }
            None => {}
        }
        self.skip_blanks();
        match self.peek() {
            Some(b',' | b'}' | b']') => {
                self.simple(
                    "missing-value",
                    key_span,
                    format!("key `{}` has no value", clip(key)),
                    "",
                    "write the value after the colon",
                );
                Node {
                    span: Span::at(self.pos),
                    kind: NodeKind::Bad,
                }
            }
            Some(b':') => {
                self.mendable(
                    "unexpected-character",
                    self.here(),
                    "a second colon follows the first",
                    "",
                    "delete it",
                    Fix::sure("delete it").edit(self.source, self.here(), ""),
                );
                self.pos += 1;
                self.skip_blanks();
                self.value()
            }
            _ => self.value(),
        }
    }

    /// Takes the comma after a value, and reports one that is missing or has nothing after it.
    fn comma(&mut self, closer: u8) {
        let end = self.pos;
        self.skip_blanks();
        match self.peek() {
            Some(b',') => {
                let comma = self.here();
                self.pos += 1;
                self.skip_blanks();
                if self.peek() == Some(closer) {
                    self.mendable(
                        "trailing-comma",
                        comma,
                        "a comma stands after the last value",
                        "",
                        "delete the comma",
                        Fix::sure("delete the comma").edit(self.source, comma, ""),
                    );
                }
            }
            Some(b';') => {
                self.mendable(
                    "missing-comma",
                    self.here(),
                    "values are separated by `,`, not by `;`",
                    "",
                    "write `,`",
                    Fix::sure("write `,`").edit(self.source, self.here(), ","),
                );
                self.pos += 1;
            }
            Some(b']' | b'}') | None => {}
            Some(_) if std::mem::take(&mut self.comma_excused) => {}
            Some(_) if closer == b'}' && self.next_item_starts() => {}
            Some(_) => {
                let next = self.here();
                // Two numbers may be one that was broken, but a quote or bracket starts a value of its own.
                let fix = match self.peek() {
                    Some(b'"' | b'{' | b'[') => Fix::sure("write `,`"),
                    _ => Fix::offered("write `,`"),
                };
                let fix = fix.edit(self.source, Span::at(end), ",");
                self.fault(Span::at(end), |parser| {
                    Diagnostic::error("missing-comma", "a comma is missing between two values")
                        .primary(parser.source, Span::at(end), "write `,` here")
                        .label(parser.source, next, "the next one starts here")
                        .help("write `,` after the first value")
                        .fix(fix)
                });
            }
        }
    }

    /// Returns whether an object starts here while one in an array is open: its closing bracket was forgotten.
    fn next_item_starts(&self) -> bool {
        let is_in_array = matches!(self.open.as_slice(), [.., (_, b']'), (_, b'}')]);
        is_in_array && self.peek() == Some(b'{')
    }

    /// Reports an object that is not closed before the next one starts.
    fn unclosed_object(&mut self) {
        self.comma_excused = true;
        let (start, _) = *self
            .open
            .last()
            .expect("bug: an object is open while it is read");
        let next = self.here();
        self.fault(next, |parser| {
            Diagnostic::error(
                "unclosed-object",
                "an object is not closed before the next one starts",
            )
            .primary(parser.source, next, "`},` is needed before this")
            .label(parser.source, Span::new(start, start + 1), "opened here")
            .help("write `},` after the last member")
        });
    }

    /// Decides what a closing bracket, or the end of the text, means here.
    fn close(&mut self, closer: u8, unclosed: &str) -> Close {
        match self.peek() {
            None => {
                self.unfinished(unclosed);
                Close::Ends
            }
            Some(byte) if byte == closer => {
                self.pos += 1;
                Close::Ends
            }
            Some(byte @ (b']' | b'}')) => {
                let (start, _) = *self
                    .open
                    .last()
                    .expect("bug: a container is open while its end is sought");
                let closes_outer = self.open.iter().any(|&(_, outer)| outer == byte);
                let (here, opener) = (self.here(), Span::new(start, start + 1));
                let (wanted, found) = (char::from(closer), char::from(byte));
                let fix = match closes_outer {
                    true => Fix::offered(format!("add `{wanted}` before it")).edit(
                        self.source,
                        Span::at(self.pos),
                        wanted,
                    ),
                    false => {
                        Fix::offered(format!("write `{wanted}`")).edit(self.source, here, wanted)
                    }
                };
                self.fault(here, |parser| {
                    let help = if closes_outer {
                        format!("add `{wanted}` before it")
                    } else {
                        format!("write `{wanted}`")
                    };
                    Diagnostic::error(
                        "mismatched-bracket",
                        format!("`{found}` stands where `{wanted}` is needed"),
                    )
                    .primary(
                        parser.source,
                        here,
                        format!("`{wanted}` is needed before this"),
                    )
                    .label(parser.source, opener, "opened here")
                    .help(help)
                    .fix(fix)
                });
                if !closes_outer {
                    self.pos += 1;
                }
                Close::Ends
            }
            Some(_) => Close::GoesOn,
        }
    }

    /// Reports a key that an object has twice; each of its members is given with its key and its end.
    fn duplicate(&mut self, key: &str, (first, first_end): (Span, u32), (again, end): (Span, u32)) {
        let members = [
            ("delete the first", first.start, first_end),
            ("delete the second", again.start, end),
        ];
        let fixes = members.map(|(title, start, end)| {
            let cut = cut(self.text, Span { start, end });
            Fix::offered(title).edit(self.source, cut, "")
        });
        let mut fixes = fixes.into_iter();
        self.fault(again, |parser| {
            let help = if super::is_comment(key) {
                "give each comment a key of its own, such as \"// 2\""
            } else {
                "delete one of them"
            };
            Diagnostic::error(
                "duplicate-key",
                format!("key `{}` is written twice in one object", clip(key)),
            )
            .label(parser.source, first, "first here")
            .primary(parser.source, again, "and again here")
            .help(help)
            .fix(fixes.next())
            .fix(fixes.next())
        });
    }

    /// Returns the span of the character here.
    fn here(&self) -> Span {
        let len = self.text[self.pos..]
            .chars()
            .next()
            .map_or(0, char::len_utf8);
        Span::new(self.pos, self.pos + len)
    }
}

/// The keys of one object, for finding equal ones in linear time.
#[derive(Default)]
struct Seen {
    by_key: HashMap<String, usize>,
    full: bool,
}

impl Seen {
    /// Returns the index of the first member with this key.
    fn find(&mut self, members: &[Member], key: &str) -> Option<usize> {
        if members.len() < FEW_MEMBERS {
            return members.iter().position(|member| member.key == key);
        }
        if self.by_key.is_empty() {
            for (ix, member) in members.iter().enumerate() {
                self.by_key.entry(member.key.clone()).or_insert(ix);
            }
        }
        self.by_key.get(key).copied()
    }

    /// Adds a key once there are too many to look through.
    fn add(&mut self, key: &str, ix: usize) {
        if !self.by_key.is_empty() {
            self.by_key.entry(key.to_owned()).or_insert(ix);
        }
    }
}
