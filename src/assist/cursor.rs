//! Where in a text the cursor stands, told by what is before it alone.
//!
//! While something is typed the text is broken most of the time, and a tree of it says little of the broken place. The
//! walk over its tokens that is done here always knows which objects and lists are open where the cursor is.

use crate::diagnostic::Span;

/// How far past the cursor the rest of its step is looked for, in bytes.
const MAX_AHEAD: usize = 1 << 20;

/// The place of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Whether a key or a value belongs here.
    pub slot: Slot,
    /// The token that is being typed, quotes included; empty at the cursor where there is none.
    pub token: Span,
    /// The containers that are open here, the outermost first.
    pub open: Vec<Open>,
    /// Whether a colon follows.
    pub has_colon: bool,
    /// Whether another member or item follows without a comma between.
    pub needs_comma: bool,
}

/// What belongs where the cursor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The key of a member.
    Key,
    /// A value.
    Value,
}

/// An object or list that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// Whether it is an object.
    pub is_object: bool,
    /// The key whose value is open or typed.
    pub key: Option<String>,
    /// Its members, the one that is typed left out, with their values where those are texts.
    pub members: Vec<(String, Option<String>)>,
    /// Its texts, where it is a list.
    pub items: Vec<String>,
    expects: Expects,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Key,
    Colon,
    Value,
    Comma,
}

impl Cursor {
    /// Finds the place of an offset.
    pub(super) fn find(text: &str, offset: usize) -> Cursor {
        let offset = text.floor_char_boundary(offset);
        let mut walk = Walk {
            text,
            bytes: text.as_bytes(),
            pos: 0,
            stack: Vec::new(),
            cursor: None,
            live: 0,
        };
        walk.run(offset);
        walk.finish(offset)
    }

    /// Returns the value of a text member of the step.
    pub(super) fn of_step(&self, key: &str) -> Option<&str> {
        self.open.get(1)?.text(key)
    }
}

impl Open {
    fn new(is_object: bool) -> Self {
        Open {
            is_object,
            key: None,
            members: Vec::new(),
            items: Vec::new(),
            expects: if is_object {
                Expects::Key
            } else {
                Expects::Value
            },
        }
    }

    /// Returns the value of a text member.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        let found = self.members.iter().find(|(name, _)| name == key)?;
        found.1.as_deref()
    }

    /// Returns whether it has a member.
    pub(super) fn has(&self, key: &str) -> bool {
        self.members.iter().any(|(name, _)| name == key)
    }
}

struct Walk<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    stack: Vec<Open>,
    cursor: Option<Cursor>,
    /// How many of the containers at the cursor are still open.
    live: usize,
}

impl Walk<'_> {
    fn run(&mut self, offset: usize) {
        loop {
            self.skip_blanks();
            let start = self.pos;
            let is_end = start >= self.bytes.len();
            if self.cursor.is_none() && (offset <= start || is_end) {
                self.take(Span::at(offset));
            }
            let is_over = self.cursor.is_some() && (self.live < 2 || start > offset + MAX_AHEAD);
            if is_end || is_over {
                return;
            }
            match self.bytes[start] {
                b'{' | b'[' => {
                    self.pos += 1;
                    self.opens(self.bytes[start] == b'{');
                }
                b'}' | b']' => {
                    self.pos += 1;
                    self.closes(self.bytes[start] == b'}');
                }
                b':' => {
                    self.pos += 1;
                    if let Some(top) = self.stack.last_mut().filter(|top| top.is_object) {
                        top.expects = Expects::Value;
                    }
                }
                b',' => {
                    self.pos += 1;
                    if let Some(top) = self.stack.last_mut() {
                        top.key = None;
                        top.expects = match top.is_object {
                            true => Expects::Key,
                            false => Expects::Value,
                        };
                    }
                }
                b'"' => {
                    let is_closed = self.skip_string();
                    let token = Span::new(start, self.pos);
                    let is_in =
                        start < offset && (offset < self.pos || offset == self.pos && !is_closed);
                    self.scalar(token, is_closed, self.cursor.is_none() && is_in);
                }
                _ => {
                    let word = |byte: &u8| !b" \t\r\n,:[]{}\"".contains(byte);
                    let rest = &self.bytes[start..];
                    self.pos += rest.iter().take_while(|byte| word(byte)).count().max(1);
                    let is_in = start < offset && offset <= self.pos;
                    self.word(Span::new(start, self.pos), self.cursor.is_none() && is_in);
                }
            }
        }
    }

    fn finish(self, offset: usize) -> Cursor {
        let mut cursor = self.cursor.unwrap_or(Cursor {
            slot: Slot::Value,
            token: Span::at(offset),
            open: Vec::new(),
            has_colon: false,
            needs_comma: false,
        });
        // What is written of a container after the cursor counts too.
        for (open, later) in cursor.open.iter_mut().zip(self.stack).take(self.live) {
            open.members = later.members;
            open.items = later.items;
        }
        let rest = self.text[cursor.token.end as usize..].trim_start();
        cursor.has_colon = rest.starts_with(':');
        let follows = rest.starts_with(|c: char| c.is_alphanumeric() || "\"{[-".contains(c));
        cursor.needs_comma = follows && !cursor.has_colon;
        cursor
    }

    /// Notes that the cursor is here.
    fn take(&mut self, token: Span) {
        let slot = match self.stack.last() {
            Some(top) if top.is_object && top.expects != Expects::Value => Slot::Key,
            _ => Slot::Value,
        };
        self.live = self.stack.len();
        self.cursor = Some(Cursor {
            slot,
            token,
            open: self.stack.clone(),
            has_colon: false,
            needs_comma: false,
        });
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.pos..];
        let blank = |c: char| c.is_whitespace() || c == '\u{feff}';
        self.pos += rest.len() - rest.trim_start_matches(blank).len();
    }

    /// Skips a string, which ends with its line at the latest; returns whether a quote ends it.
    fn skip_string(&mut self) -> bool {
        self.pos += 1;
        while let Some(byte) = self.bytes.get(self.pos) {
            match byte {
                b'"' => {
                    self.pos += 1;
                    return true;
                }
                b'\n' | b'\r' => return false,
                b'\\' if !matches!(self.bytes.get(self.pos + 1), None | Some(b'\n' | b'\r')) => {
                    self.pos += 2;
                }
                _ => self.pos += 1,
            }
        }
        self.pos = self.bytes.len();
        false
    }

    fn scalar(&mut self, token: Span, is_closed: bool, is_cursor: bool) {
        if is_cursor {
            self.take(token);
        }
        let end = token.end as usize - usize::from(is_closed);
        let raw = self.text.get(token.start as usize + 1..end);
        let text = raw.unwrap_or_default().to_owned();
        // Before a colon stands a key, also where the value of the key before it is still missing.
        let is_key = self.text[self.pos..].trim_start().starts_with(':');
        let Some(top) = self.stack.last_mut() else {
            return;
        };
        match (top.is_object, top.expects) {
            (true, Expects::Value) if !is_key => {
                top.expects = Expects::Comma;
                if let Some((_, value)) = top.members.last_mut().filter(|_| !is_cursor) {
                    *value = Some(text);
                }
            }
            (true, _) => {
                top.expects = Expects::Colon;
                top.key = Some(text.clone());
                if !is_cursor {
                    top.members.push((text, None));
                }
            }
            (false, _) => {
                top.expects = Expects::Comma;
                if !is_cursor {
                    top.items.push(text);
                }
            }
        }
    }

    fn word(&mut self, token: Span, is_cursor: bool) {
        if is_cursor {
            self.take(token);
        }
        if let Some(top) = self.stack.last_mut() {
            top.expects = match (top.is_object, top.expects) {
                (true, Expects::Key | Expects::Comma) => Expects::Colon,
                _ => Expects::Comma,
            };
        }
    }

    fn opens(&mut self, is_object: bool) {
        // A step that starts where a key belongs says that the one before was not closed.
        let is_step = is_object
            && self.stack.len() == 2
            && self.stack[1].is_object
            && self.stack[1].expects != Expects::Value;
        if is_step {
            self.pop();
        }
        if let Some(top) = self.stack.last_mut() {
            top.expects = Expects::Comma;
        }
        self.stack.push(Open::new(is_object));
    }

    fn closes(&mut self, is_object: bool) {
        if !self.stack.iter().any(|open| open.is_object == is_object) {
            return;
        }
        while let Some(top) = self.stack.last() {
            let is_it = top.is_object == is_object;
            self.pop();
            if is_it {
                return;
            }
        }
    }

    fn pop(&mut self) {
        let Some(closed) = self.stack.pop() else {
            return;
        };
        let at = self.stack.len();
        if let Some(cursor) = &mut self.cursor
            && at < self.live
        {
            self.live = at;
            cursor.open[at].members = closed.members;
            cursor.open[at].items = closed.items;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the cursor at `|`, and says what is known of it.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let offset = text.find('|').expect("a cursor");
        let text = text.replacen('|', "", 1);
        let cursor = Cursor::find(&text, offset);
        let path: Vec<String> = cursor
            .open
            .iter()
            .map(|open| match (&open.key, open.is_object) {
                (Some(key), _) => key.clone(),
                (None, true) => "{}".to_owned(),
                (None, false) => "[]".to_owned(),
            })
            .collect();
        let last = cursor.open.last();
        let members = last.map_or_else(String::new, |open| {
            let shown = open.members.iter().map(|(key, value)| match value {
                Some(value) => format!("{key}={value}"),
                None => key.clone(),
            });
            shown
                .chain(open.items.iter().cloned())
                .collect::<Vec<_>>()
                .join(" ")
        });
        let token = &text[cursor.token.range()];
        let said = format!(
            "{:?} {} `{token}` with {members}{}{}",
            cursor.slot,
            path.join("/"),
            if cursor.has_colon { ":" } else { "" },
            if cursor.needs_comma { "," } else { "" },
        );
        assert_eq!(said, expected, "{text}");
    }

    #[test]
    fn a_cursor_knows_what_is_open_in_a_text_that_is_broken() {
        check("|", "Value  `` with ");
        check("[|]", "Value [] `` with ");
        check("[{|}]", "Key []/{} `` with ");
        check(
            r#"[{"id": "a", "agent_na|}]"#,
            r#"Key []/{} `"agent_na}]` with id=a"#,
        );
        check(
            "[{\"id\": \"a\", \"agent_na|\n}]",
            "Key []/{} `\"agent_na` with id=a",
        );
        check(r#"[{"id": "a", ag|}]"#, "Key []/{} `ag` with id=a");
        check(r#"[{"type": "|"}]"#, r#"Value []/type `""` with type"#);
        check(r#"[{"type": |}]"#, "Value []/type `` with type");
        check(
            r#"[{"type": | "id": "a"}]"#,
            "Value []/type `` with type id=a,",
        );
        check(r#"[{"|", "type": "t"}]"#, r#"Key []/{} `""` with type=t"#);
        check(
            r#"[{"|": 1, "type": "t"}]"#,
            r#"Key []/{} `""` with type=t:"#,
        );
        check(
            r#"[{"id": "a", "depends_on": ["b", "|", "c"]}]"#,
            r#"Value []/depends_on/[] `""` with b c"#,
        );
        check(
            "[{\"id\": \"a\",\n \"env_id\": \"|\n},\n{\"id\": \"b\"}]",
            "Value []/env_id `\"` with id=a env_id",
        );
        check(
            "[{\"id\": \"a\"\n {\"id\": \"b\", |",
            "Key []/{} `` with id=b",
        );
        check(
            r#"[{"c": [{"type": "x", "|"}]}]"#,
            r#"Key []/c/[]/{} `""` with type=x"#,
        );
        check(r#"[{"a": tr|ue}]"#, "Value []/a `true` with a");
        check(r#"[{"a": "\"|"}]"#, r#"Value []/a `"\""` with a"#);
        check("[{\"a\": \"\\|\n\"b\": 1}]", "Value []/a `\"\\` with a b,");
        check("]}|", "Value  `` with ");
    }
}
