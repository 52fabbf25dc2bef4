//! Reads TOML into the tree that JSON is read into, so that the same checks and the same spans serve both.

use toml::de::{DeTable, DeValue};

use super::faults::Faults;
use crate::diagnostic::{Diagnostic, Source};
use crate::json::{MAX_DEPTH, Member, Node, NodeKind, Number, Span, Value, schema};
use crate::task::config::URL;

/// A key has at most this many parts, so that no nesting is deeper than a stack can bear.
const MAX_KEY_PARTS: usize = 16;

/// A TOML file or a script that was read, and where everything in it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The file; what may be a secret is covered.
    pub source: Source,
    /// Its tree.
    pub node: Node,
}

impl Written {
    /// Returns the span of what a JSON pointer leads to; where nothing stands there, that of the nearest that does.
    pub fn span(&self, pointer: &str) -> Span {
        let mut found = (self.node.span, &self.node);
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let next = match &found.1.kind {
                NodeKind::Object(_) => found.1.member(&part).map(|member| {
                    // A table that is made of a heading, or of dotted keys, has no text of its own.
                    let span = match member.value.kind {
                        NodeKind::Object(_) => member.key_span,
                        _ => member.value.span,
                    };
                    (span, &member.value)
                }),
                NodeKind::Array(items) => {
                    let item = part.parse::<usize>().ok().and_then(|ix| items.get(ix));
                    item.map(|item| (item.span, item))
                }
                _ => None,
            };
            let Some(next) = next else { break };
            found = next;
        }
        found.0
    }

    /// Returns the span of the key that a JSON pointer leads to, if there is one.
    pub fn key_span(&self, pointer: &str) -> Option<Span> {
        let (above, key) = pointer.rsplit_once('/')?;
        let key = key.replace("~1", "/").replace("~0", "~");
        Some(self.node.pointer(above)?.member(&key)?.key_span)
    }
}

/// Returns whether faults of reading say that the text is no TOML, so that nothing that is known of it is sure.
pub(crate) fn is_disorder(faults: &[Diagnostic]) -> bool {
    faults
        .iter()
        .any(|fault| matches!(fault.code.as_str(), "not-toml" | "nesting-too-deep"))
}

/// Reads a TOML file; where it is not TOML, what could be read comes back.
pub(crate) fn parse(source: &Source) -> (Node, Vec<Diagnostic>) {
    let bom = if source.text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        0
    };
    let mut reader = Reader {
        faults: Faults::new(source),
        bom,
        broken: Vec::new(),
    };
    let whole = Span::new(bom, source.text.len());
    if let Some(span) = long_key(&source.text) {
        reader.faults.error(span, |source| {
            Diagnostic::error(
                "nesting-too-deep",
                format!("a key has more than {MAX_KEY_PARTS} parts"),
            )
            .primary(source, span, "too deep here")
            .help("use fewer tables")
        });
        return (
            Node {
                span: whole,
                kind: NodeKind::Bad,
            },
            reader.faults.finish(),
        );
    }
    let (table, errors) = DeTable::parse_recoverable(&source.text[bom..]);
    for error in errors {
        reader.syntax(&error);
    }
    let members = reader.members(table.get_ref(), 1);
    (
        Node {
            span: whole,
            kind: NodeKind::Object(members),
        },
        reader.faults.finish(),
    )
}

/// Returns the name of a file without the folders that it is in.
pub(crate) fn file_name(source: &Source) -> &str {
    source.name.rsplit('/').next().unwrap_or(&source.name)
}

/// Checks a tree that was read from TOML against a JSON Schema, and speaks of tables and keys.
pub(crate) fn check(node: &Node, keys: &Value, source: &Source, at: &str) -> Vec<Diagnostic> {
    let say = |text: &str| {
        let text = text
            .replace("an object", "a table")
            .replace("the fields are", "the keys are");
        text.replace(" has no field `", " has no key `")
            .replace(" lacks the field `", " lacks the key `")
    };
    let mut faults = schema::check(node, keys, source, at);
    for fault in &mut faults {
        fault.headline = say(&fault.headline);
        fault.help = fault
            .help
            .as_deref()
            .map(|help| match help.strip_prefix("add \"") {
                Some(rest) => format!("add {}", rest.replacen("\":", " =", 1)),
                None => say(help),
            });
        if fault.code.as_str() == "wrong-pattern"
            && fault
                .help
                .as_deref()
                .is_some_and(|help| help.ends_with(URL))
        {
            let help = "write an address that begins with `http://` or `https://`";
            fault.help = Some(help.to_owned());
        }
        for label in &mut fault.labels {
            label.text = say(&label.text);
        }
    }
    faults
}

struct Reader<'a> {
    faults: Faults<'a>,
    bom: usize,
    /// Where the text is not TOML.
    broken: Vec<Span>,
}

impl Reader<'_> {
    fn span(&self, range: std::ops::Range<usize>) -> Span {
        Span::new(self.bom + range.start, self.bom + range.end)
    }

    fn syntax(&mut self, error: &toml::de::Error) {
        let span = self.span(error.span().unwrap_or(0..0));
        let message = error.message();
        self.broken.push(span);
        self.faults
            .error(span, |source| match message.contains("duplicate key") {
                true => {
                    let key = source.slice(span);
                    Diagnostic::error(
                        "duplicate-key",
                        format!("key `{key}` is written twice in one table"),
                    )
                    .primary(source, span, "again here")
                    .help("delete one of them")
                }
                false => {
                    let message = message.trim_end().replace('\n', "; ");
                    Diagnostic::error(
                        "not-toml",
                        format!("`{}` is not TOML: {message}", file_name(source)),
                    )
                    .primary(source, span, "")
                }
            });
    }

    fn members(&mut self, table: &DeTable<'_>, depth: usize) -> Vec<Member> {
        let mut members: Vec<Member> = table
            .iter()
            .map(|(key, value)| Member {
                key: key.get_ref().clone().into_owned(),
                key_span: self.span(key.span()),
                value: self.node(value.get_ref(), value.span(), depth),
            })
            .collect();
        members.sort_by_key(|member| member.key_span);
        members
    }

    fn node(&mut self, value: &DeValue<'_>, range: std::ops::Range<usize>, depth: usize) -> Node {
        let span = self.span(range);
        let is_broken = |broken: &Span| span.start <= broken.start && broken.end <= span.end;
        let kind = match value {
            DeValue::Array(_) | DeValue::Table(_) if depth >= MAX_DEPTH => {
                let headline = format!("tables and arrays are nested more than {MAX_DEPTH} deep");
                self.bad("nesting-too-deep", span, headline, "flatten them")
            }
            // What was made of text that is not TOML is not what its author wrote.
            _ if !value.is_table() && self.broken.iter().any(is_broken) => NodeKind::Bad,
            DeValue::String(text) => NodeKind::String(text.clone().into_owned()),
            DeValue::Boolean(value) => NodeKind::Bool(*value),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => NodeKind::Number(match u64::try_from(number) {
                        Ok(number) => Number::Unsigned(number),
                        Err(_) => Number::Negative(number),
                    }),
                    Err(_) => self.bad(
                        "number-out-of-range",
                        span,
                        "a whole number does not fit in 64 bits".to_owned(),
                        "write it in double quotes, or in a larger unit",
                    ),
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => NodeKind::Number(Number::Float(number)),
                _ => {
                    let headline = format!("number `{number}` is not finite");
                    self.bad("number-not-finite", span, headline, "write a number")
                }
            },
            DeValue::Datetime(date) => {
                let headline = format!("`{date}` is a date, which no setting takes");
                self.bad("wrong-type", span, headline, "write it in double quotes")
            }
            DeValue::Array(items) => {
                let items = items.iter();
                NodeKind::Array(
                    items
                        .map(|item| self.node(item.get_ref(), item.span(), depth + 1))
                        .collect(),
                )
            }
            DeValue::Table(table) => NodeKind::Object(self.members(table, depth + 1)),
        };
        Node { span, kind }
    }

    fn bad(&mut self, code: &'static str, span: Span, headline: String, help: &str) -> NodeKind {
        self.faults.error(span, |source| {
            Diagnostic::error(code, headline)
                .primary(source, span, "")
                .help(help)
        });
        NodeKind::Bad
    }
}

/// Returns where a key with too many parts is.
fn long_key(text: &str) -> Option<Span> {
    let bytes = text.as_bytes();
    let (mut at, mut points) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'') => {
                at += quoted(&bytes[at..], quote);
                continue;
            }
            b'#' => {
                let rest = &bytes[at..];
                at += rest
                    .iter()
                    .position(|&byte| byte == b'\n')
                    .unwrap_or(rest.len());
                continue;
            }
            b'.' => points += 1,
            b',' | b'=' | b'[' | b']' | b'{' | b'}' | b'\n' => points = 0,
            _ => {}
        }
        if points >= MAX_KEY_PARTS {
            return Some(Span::new(at, at + 1));
        }
        at += 1;
    }
    None
}

/// Returns the length of the string that starts here.
pub(super) fn quoted(bytes: &[u8], quote: u8) -> usize {
    let is_long = bytes.starts_with(&[quote; 3]);
    let mut at = if is_long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 2,
            b'\n' if !is_long => return at,
            byte if byte == quote && !is_long => return at + 1,
            byte if byte == quote && bytes[at..].starts_with(&[quote; 3]) => return at + 3,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::concise;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(text: &str, expected: Expect) {
        let source = Source::new("t.toml", text);
        let (node, faults) = parse(&source);
        let shown = format!("{}\n{}", node.to_value(), concise::concise(&faults));
        expected.assert_eq(&shown);
    }

    #[test]
    fn values_keep_their_types() {
        check(
            "a = 1\nb = -2\nc = 1.5\nd = 'x'\n[e.f]\ng = [true, {h = 0xff}]\n",
            expect![[r#"
                {"a":1,"b":-2,"c":1.5,"d":"x","e":{"f":{"g":[true,{"h":255}]}}}
            "#]],
        );
    }

    #[test]
    fn every_fault_of_a_file_is_found() {
        check(
            "a = nan\nb = 99999999999999999999\nc = 2020-01-01\na = 2\nd = \n[e]\n[e]\nf = 1\n",
            expect![[r#"
                {"a":null,"b":null,"c":null,"d":null,"e":{"f":1}}
                t.toml:1:5: error[number-not-finite]: number `nan` is not finite
                t.toml:2:5: error[number-out-of-range]: a whole number does not fit in 64 bits
                t.toml:3:5: error[wrong-type]: `2020-01-01` is a date, which no setting takes
                t.toml:4:1: error[duplicate-key]: key `a` is written twice in one table
                t.toml:5:5: error[not-toml]: `t.toml` is not TOML: string values must be quoted, expected literal string
                t.toml:7:2: error[duplicate-key]: key `e` is written twice in one table
            "#]],
        );
    }

    #[test]
    fn a_key_with_a_million_parts_is_refused() {
        let long = format!("{}a = 1", "a.".repeat(1_000_000));
        let (_, faults) = parse(&Source::new("t.toml", long.as_str()));
        assert_eq!(faults[0].code.as_str(), "nesting-too-deep");
        check(
            "a = \"x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x\" # a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a",
            expect![[r#"
                {"a":"x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x"}
            "#]],
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a.=\\[\\]{}\"'\\\\\n ,1#\u{feff}é-]{0,60}") {
            parse(&Source::new("t.toml", text));
        }
    }
}
