//! JSON laid out in one way, with the text of every string and number as it was written.
//!
//! An object or array that is broken has a line for each item. It is broken where it does not fit on its line, where one
//! of its items is broken, and where its author broke it: where the first item stands on another line than the bracket.
//! The outermost one always is. An array of numbers has as many of them on a line as fit. The order of all members stays.

use super::{Node, NodeKind, Span};
use crate::diagnostic::{Diagnostic, Source};

/// The columns of a line.
const WIDTH: usize = 120;
/// The columns of each level.
const INDENT: usize = 2;

/// Returns the text of a tree in canonical layout, with a final line feed.
///
/// The tree must have been parsed from `source` without faults.
pub fn layout(source: &Source, root: &Node) -> String {
    let mut out = String::with_capacity(source.text.len());
    let mut writer = Writer {
        source,
        out: &mut out,
    };
    writer.value(root, 0, 0);
    out.push('\n');
    out
}

/// Returns a text in canonical layout, or why it has none.
pub fn laid_out(source: &Source) -> Result<String, Vec<Diagnostic>> {
    let parsed = super::parse(source);
    match parsed.root {
        Some(root) if parsed.faults.is_empty() => Ok(layout(source, &root)),
        _ => Err(parsed.faults),
    }
}

struct Writer<'a> {
    source: &'a Source,
    out: &'a mut String,
}

impl Writer<'_> {
    /// Writes a value; `before` is what stands left of it on its line.
    fn value(&mut self, node: &Node, level: usize, before: usize) {
        let is_container = matches!(node.kind, NodeKind::Array(_) | NodeKind::Object(_));
        let fits = || {
            self.flat_width(node, WIDTH.saturating_sub(before + 1))
                .is_some()
        };
        if !is_container || !self.is_broken(node, level) && fits() {
            self.flat(node);
            return;
        }
        let inner = (level + 1) * INDENT;
        match &node.kind {
            NodeKind::Array(items) if is_of_numbers(items) => self.fill(items, level),
            NodeKind::Array(items) => {
                self.out.push_str("[\n");
                for (at, item) in items.iter().enumerate() {
                    self.indent(inner);
                    self.value(item, level + 1, inner);
                    self.end(at + 1 < items.len());
                }
                self.indent(level * INDENT);
                self.out.push(']');
            }
            NodeKind::Object(members) => {
                self.out.push_str("{\n");
                for (at, member) in members.iter().enumerate() {
                    self.indent(inner);
                    let key = self.source.slice(member.key_span);
                    self.out.push_str(key);
                    self.out.push_str(": ");
                    let before = inner + key.chars().count() + 2;
                    self.value(&member.value, level + 1, before);
                    self.end(at + 1 < members.len());
                }
                self.indent(level * INDENT);
                self.out.push('}');
            }
            _ => {}
        }
    }

    /// Writes short items, as many on each line as fit.
    fn fill(&mut self, items: &[Node], level: usize) {
        let inner = (level + 1) * INDENT;
        self.out.push_str("[\n");
        self.indent(inner);
        let mut column = inner;
        for (at, item) in items.iter().enumerate() {
            let text = self.source.slice(item.span);
            // With its comma.
            let wide = text.chars().count() + 1;
            if column > inner && column + 1 + wide > WIDTH {
                self.out.push('\n');
                self.indent(inner);
                column = inner;
            } else if column > inner {
                self.out.push(' ');
                column += 1;
            }
            self.out.push_str(text);
            self.out
                .push_str(if at + 1 < items.len() { "," } else { "" });
            column += wide;
        }
        self.out.push('\n');
        self.indent(level * INDENT);
        self.out.push(']');
    }

    /// Returns whether a value is broken into lines although it may fit on one.
    fn is_broken(&self, node: &Node, level: usize) -> bool {
        let breaks_before = |first: Option<u32>| {
            let Some(first) = first else {
                return false;
            };
            let between = Span {
                start: node.span.start,
                end: first,
            };
            level == 0 || self.source.slice(between).contains('\n')
        };
        match &node.kind {
            NodeKind::Array(items) if is_of_numbers(items) => level == 0,
            NodeKind::Array(items) => {
                breaks_before(items.first().map(|item| item.span.start))
                    || items.iter().any(|item| self.is_broken(item, level + 1))
            }
            NodeKind::Object(members) => {
                let mut values = members.iter().map(|member| &member.value);
                breaks_before(members.first().map(|member| member.key_span.start))
                    || values.any(|value| self.is_broken(value, level + 1))
            }
            _ => false,
        }
    }

    fn flat(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Array(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.out.push_str(if at > 0 { ", " } else { "" });
                    self.flat(item);
                }
                self.out.push(']');
            }
            NodeKind::Object(members) => {
                self.out.push('{');
                for (at, member) in members.iter().enumerate() {
                    self.out.push_str(if at > 0 { ", " } else { "" });
                    self.out.push_str(self.source.slice(member.key_span));
                    self.out.push_str(": ");
                    self.flat(&member.value);
                }
                self.out.push('}');
            }
            _ => self.out.push_str(self.source.slice(node.span)),
        }
    }

    /// Returns the columns of a value on one line, if they are at most `room`.
    fn flat_width(&self, node: &Node, room: usize) -> Option<usize> {
        let mut width = 0;
        let mut add = |more: usize| {
            width += more;
            (width <= room).then_some(())
        };
        match &node.kind {
            NodeKind::Array(items) => {
                add(2 + 2 * items.len().saturating_sub(1))?;
                for item in items {
                    add(self.flat_width(item, room)?)?;
                }
            }
            NodeKind::Object(members) => {
                add(2 + 2 * members.len().saturating_sub(1))?;
                for member in members {
                    add(self.source.slice(member.key_span).chars().count() + 2)?;
                    add(self.flat_width(&member.value, room)?)?;
                }
            }
            _ => add(self.source.slice(node.span).chars().take(room + 1).count())?,
        }
        Some(width)
    }

    fn indent(&mut self, columns: usize) {
        self.out.extend(std::iter::repeat_n(' ', columns));
    }

    fn end(&mut self, has_next: bool) {
        self.out.push_str(if has_next { ",\n" } else { "\n" });
    }
}

/// Returns whether a list is of numbers alone, of which nobody reads one a line.
fn is_of_numbers(items: &[Node]) -> bool {
    let is_number = |item: &Node| matches!(item.kind, NodeKind::Number(_));
    !items.is_empty() && items.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;
    use expect_test::expect;
    use proptest::prelude::*;

    fn laid_out(text: &str) -> String {
        let source = Source::new("t.json", text);
        let parsed = parse(&source);
        assert_eq!(parsed.faults, [], "{text}");
        layout(&source, &parsed.root.expect("it has a value"))
    }

    #[test]
    fn what_was_broken_stays_broken_and_the_rest_is_put_in_line() {
        let text = "\u{feff}[{\"id\":\"a\",\"n\":[1.50,2e0 , -0]},\r\n\t{\n\"id\" : \"\\u00e9\\/\", \"depends_on\":[\n\"a\"],\"x\":{ }, \"y\": [ ]}]";
        expect![[r#"
            [
              {"id": "a", "n": [1.50, 2e0, -0]},
              {
                "id": "\u00e9\/",
                "depends_on": [
                  "a"
                ],
                "x": {},
                "y": []
              }
            ]
        "#]]
        .assert_eq(&laid_out(text));
        assert_eq!(laid_out(" 7 "), "7\n");
        assert_eq!(laid_out("[\n]"), "[]\n");
    }

    #[test]
    fn what_does_not_fit_on_its_line_is_broken() {
        let item = |n: usize| format!("{{\"id\": \"{}\", \"b\": 1}}", "a".repeat(n));
        // Two columns before it, and perhaps a comma after it.
        let fits = 120 - 2 - 1 - item(0).len();
        assert_eq!(laid_out(&format!("[{}]", item(fits))).lines().count(), 3);
        assert_eq!(
            laid_out(&format!("[{}]", item(fits + 1))).lines().count(),
            6
        );
    }

    #[test]
    fn numbers_stand_on_one_line_or_fill_as_many_as_they_need() {
        let numbers = |n: usize, between: &str| {
            let all: Vec<String> = (0..n).map(|at| (1000 + at).to_string()).collect();
            format!(
                "[{{\"id\": [{between}{}]}}]",
                all.join(&format!(",{between}"))
            )
        };
        assert_eq!(
            laid_out(&numbers(3, "\n")),
            "[\n  {\"id\": [1000, 1001, 1002]}\n]\n"
        );
        let text = laid_out(&numbers(50, "\n"));
        assert_eq!(text, laid_out(&numbers(50, " ")));
        let lines: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(lines, [1, 3, 11, 119, 119, 76, 5, 3, 1]);
    }

    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("-0.10e+2".to_owned()),
            (0u64..1 << 40).prop_map(|number| number.to_string()),
            "[a-zΩ\\\\n]{0,12}".prop_map(|text| format!("\"{}\"", text.replace('\\', "\\\\"))),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let items = proptest::collection::vec((inner, "[ \n\t]{0,2}"), 0..6);
            items.prop_flat_map(|items| {
                let list = items
                    .iter()
                    .map(|(item, blank)| format!("{blank}{item}{blank}"));
                let list = format!("[{}]", list.collect::<Vec<_>>().join(","));
                let object = items
                    .iter()
                    .enumerate()
                    .map(|(at, (item, blank))| format!("{blank}\"{at}\":{blank}{item}"));
                let object = format!("{{{}}}", object.collect::<Vec<_>>().join(","));
                prop_oneof![Just(list), Just(object)]
            })
        })
    }

    proptest! {
        #[test]
        fn the_meaning_stays_and_a_second_time_changes_nothing(text in value()) {
            let once = laid_out(&text);
            let tree = |text: &str| parse(&Source::new("t", text)).root.expect("it has a value").to_value();
            prop_assert_eq!(tree(&once), tree(&text));
            prop_assert_eq!(laid_out(&once), once.clone());
            let bare = |text: &str| text.split([' ', '\n', '\t']).collect::<String>();
            prop_assert_eq!(bare(&once), bare(&text));
        }
    }
}
