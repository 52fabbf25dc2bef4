//! Regular expressions as task files have them: those of Python's `re`, searched for in a text.
//!
//! The library's own dialect differs in a few places, which are written anew here: `$`, `\Z`, a `{` or `[` that means
//! itself, `\<`, and escapes by number. What neither knows is no pattern.

use fancy_regex::{Regex, RegexBuilder};

use crate::step::Refusal;

/// Steps back that one search may take; a search that needs more gives no answer.
const MAX_STEPS_BACK: usize = 1_000_000;

/// A pattern that can be searched for.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Regex);

/// How a pattern is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) ignore_case: bool,
    pub(super) multi_line: bool,
    pub(super) dot_all: bool,
    pub(super) verbose: bool,
}

impl Pattern {
    /// Reads a pattern; the error says what is wrong with it.
    pub(super) fn new(python: &str, flags: Flags) -> Result<Self, String> {
        let letters = [
            (flags.ignore_case, 'i'),
            (flags.multi_line, 'm'),
            (flags.dot_all, 's'),
            (flags.verbose, 'x'),
        ];
        let letters: String = letters
            .iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, c)| c)
            .collect();
        let body = translate(python, flags.multi_line)?;
        let text = if letters.is_empty() {
            body
        } else {
            format!("(?{letters}){body}")
        };
        let built = RegexBuilder::new(&text)
            .backtrack_limit(MAX_STEPS_BACK)
            .build();
        built.map(Pattern).map_err(|error| {
            let message = error.to_string();
            // Several lines with the pattern drawn in; the last one says what is wrong.
            let last = message.lines().last().unwrap_or_default().trim();
            last.trim_start_matches("error: ").to_owned()
        })
    }

    /// Returns whether the pattern is found anywhere in a text; the error says why that cannot be told.
    pub(super) fn is_found_in(&self, text: &str) -> Result<bool, String> {
        self.0
            .is_match(text)
            .map_err(|_| "the search for the pattern takes too long".to_owned())
    }
}

/// Returns the refusal of a pattern.
pub(super) fn refuse(field: String, python: &str, why: &str) -> Refusal {
    Refusal::new(
        "bad-pattern",
        field,
        format!("`{python}` is no regular expression: {why}"),
    )
    .help("put `\\\\` before a character that stands for itself")
}

/// Writes a pattern of Python as one of the library.
fn translate(python: &str, multi_line: bool) -> Result<String, String> {
    let multi_line = multi_line || sets_multi_line(python);
    let chars: Vec<char> = python.chars().collect();
    let mut out = String::with_capacity(python.len() + 8);
    let mut at = 0;
    // Whether there is something before that a count could repeat.
    let mut has_atom = false;
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            '\\' => {
                at += escape(&chars[at..], false, &mut out)?;
                has_atom = true;
            }
            '[' => {
                at += class(&chars[at..], &mut out)?;
                has_atom = true;
            }
            '$' if !multi_line => {
                out.push_str(r"(?=\n?\z)");
                has_atom = true;
            }
            '(' if chars[at..].starts_with(&['?', '#']) => {
                let end = chars[at..].iter().position(|&c| c == ')');
                at += end.ok_or("a comment has no end")? + 1;
            }
            '(' | '|' => {
                out.push(c);
                has_atom = false;
            }
            '{' => match count(&chars[at..]) {
                Some((text, length)) if has_atom => {
                    out.push_str(&text);
                    at += length;
                }
                Some(_) => return Err("nothing to repeat before a count".to_owned()),
                None => {
                    out.push_str(r"\{");
                    has_atom = true;
                }
            },
            '}' => out.push_str(r"\}"),
            _ => {
                out.push(c);
                has_atom = true;
            }
        }
    }
    Ok(out)
}

/// Returns whether a pattern itself says that `^` and `$` stand at lines.
fn sets_multi_line(python: &str) -> bool {
    python.match_indices("(?").any(|(at, _)| {
        let letters: Vec<char> = python[at + 2..]
            .chars()
            .take_while(char::is_ascii_alphabetic)
            .collect();
        let end = python[at + 2 + letters.len()..].chars().next();
        letters.contains(&'m') && matches!(end, Some(')' | ':' | '-'))
    })
}

/// Writes what stands after a backslash, and returns how much of it was read.
fn escape(rest: &[char], in_class: bool, out: &mut String) -> Result<usize, String> {
    let &c = rest.first().ok_or("a `\\` stands at the end")?;
    let by_number = |digits: usize| -> Result<(u32, usize), String> {
        let text: String = rest.iter().skip(1).take(digits).collect();
        let is_whole = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u32::from_str_radix(&text, 16).ok().filter(|_| is_whole);
        Ok((
            number.ok_or(format!("`\\{c}` needs {digits} hexadecimal digits"))?,
            digits + 1,
        ))
    };
    match c {
        'x' | 'u' | 'U' => {
            let (number, length) = by_number(match c {
                'x' => 2,
                'u' => 4,
                _ => 8,
            })?;
            out.push_str(&format!(r"\x{{{number:x}}}"));
            Ok(length)
        }
        '0' => {
            let digits: String = rest
                .iter()
                .skip(1)
                .take(2)
                .take_while(|c| c.is_digit(8))
                .collect();
            let number = u32::from_str_radix(&digits, 8).unwrap_or(0);
            out.push_str(&format!(r"\x{{{number:x}}}"));
            Ok(1 + digits.len())
        }
        'b' if in_class => {
            out.push_str(r"\x{8}");
            Ok(1)
        }
        'Z' if !in_class => {
            out.push_str(r"\z");
            Ok(1)
        }
        'A' | 'b' | 'B' if !in_class => keep(c, out),
        'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' => keep(c, out),
        '1'..='9' if !in_class => keep(c, out),
        c if c.is_ascii_alphanumeric() => Err(format!("`\\{c}` means nothing")),
        c if c.is_ascii_punctuation() && !"<>'\"`,:;=@%!_/".contains(c) => keep(c, out),
        c if c.is_whitespace() => {
            out.push_str(&format!(r"\x{{{:x}}}", u32::from(c)));
            Ok(1)
        }
        c => {
            out.push(c);
            Ok(1)
        }
    }
}

fn keep(c: char, out: &mut String) -> Result<usize, String> {
    out.push('\\');
    out.push(c);
    Ok(1)
}

/// Writes a class from behind its `[`, and returns how much was read.
fn class(rest: &[char], out: &mut String) -> Result<usize, String> {
    out.push('[');
    let mut at = 0;
    if rest.first() == Some(&'^') {
        out.push('^');
        at += 1;
    }
    let start = at;
    while let Some(&c) = rest.get(at) {
        at += 1;
        match c {
            ']' if at > start + 1 => {
                out.push(']');
                return Ok(at);
            }
            '\\' => at += escape(&rest[at..], true, out)?,
            // In the library's dialect these may begin a class in the class, or join two of them.
            '[' | ']' | '&' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '-' if rest.get(at) == Some(&'-') => {
                out.push_str(r"\-");
                at += 1;
            }
            _ => out.push(c),
        }
    }
    Err("a `[` is not closed".to_owned())
}

/// Reads a count from behind its `{`: the count as the library has it, and its length.
fn count(rest: &[char]) -> Option<(String, usize)> {
    let end = rest.iter().position(|&c| c == '}')?;
    let text: String = rest[..end].iter().collect();
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let written = match text.split_once(',') {
        Some((min, max)) if is_number(min) && is_number(max) => {
            format!("{{{},{max}}}", if min.is_empty() { "0" } else { min })
        }
        None if !text.is_empty() && is_number(&text) => format!("{{{text}}}"),
        _ => return None,
    };
    Some((written, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern, Flags::default())
            .unwrap()
            .is_found_in(text)
            .unwrap()
    }

    #[test]
    fn patterns_mean_what_they_mean_in_python() {
        let table = [
            ("", "", true),
            ("b+", "abbc", true),
            ("^b", "a\nb", false),
            ("(?m)^b$", "a\nb\nc", true),
            ("a$", "a\n", true),
            ("a$", "a\nb", false),
            (r"a\Z", "a\n", false),
            (r"\Aa\Z", "a", true),
            (r#"{"ok": true}"#, r#"{"ok": true}"#, true),
            ("a{2}", "aa", true),
            ("a{,2}b", "b", true),
            ("a{2,}", "a", false),
            ("a{x}", "a{x}", true),
            ("[[]x]", "[x]", true),
            ("[]]", "]", true),
            ("[^]]", "]", false),
            ("[a&&b]", "&", true),
            (r"\<b\>", "<b>", true),
            (r#"\"\'\/\-\ \@"#, r#""'/- @"#, true),
            (r"[\d\-\]]+$", "1-]", true),
            (r"\x41\u00e9\0?", "Aé", true),
            (r"(?P<q>['x]).*(?P=q)", "say 'hi'", true),
            (r"(a)\1", "aa", true),
            ("(?i)HELLO", "hello", true),
            ("(?=.*b)a", "ab", true),
            ("(?<!a)b", "ab", false),
            ("a(?#comment)b", "ab", true),
            (r"\d", "٣", true),
            (".", "\n", false),
            (r"[\b]", "\u{8}", true),
            ("x{2", "x{2", true),
            ("a|{2}", "", true),
        ];
        for (pattern, text, expected) in &table[..table.len() - 1] {
            assert_eq!(found(pattern, text), *expected, "{pattern} in {text:?}");
        }
        let (refused, ..) = table[table.len() - 1];
        assert!(Pattern::new(refused, Flags::default()).is_err());
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_reason() {
        for pattern in [
            "(", "[a", "*a", r"\q", r"\x4", "a\\", "(?P<a", "(?#", "{2}", "a)",
        ] {
            let why = Pattern::new(pattern, Flags::default()).unwrap_err();
            assert!(!why.is_empty() && !why.contains('\n'), "{pattern}: {why}");
        }
    }

    #[test]
    fn flags_apply_to_the_whole_pattern() {
        let dot_all = Flags {
            dot_all: true,
            ignore_case: true,
            ..Flags::default()
        };
        let pattern = Pattern::new("A.B", dot_all).unwrap();
        assert_eq!(pattern.is_found_in("a\nb"), Ok(true));
        let lines = Pattern::new(
            "^b$",
            Flags {
                multi_line: true,
                ..Flags::default()
            },
        )
        .unwrap();
        assert_eq!(lines.is_found_in("a\nb\nc"), Ok(true));
    }

    #[test]
    fn a_search_without_end_gives_no_answer() {
        let pattern = Pattern::new(r"^(a|a)*\1b(?=c)$", Flags::default()).unwrap();
        assert!(pattern.is_found_in(&"a".repeat(60)).is_err());
    }
}
