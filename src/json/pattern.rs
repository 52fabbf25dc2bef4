//! The small part of regular expressions that schemas use, without a library for it.
//!
//! Knows `^ $ . \d \w \s`, classes, groups, `|`, and the repetitions `* + ? {m,n}`. A pattern with anything else is no
//! pattern here, and is not checked.

use std::iter::Peekable;
use std::str::Chars;

/// Steps that one search may take; a search that needs more gives no answer.
const MAX_STEPS: usize = 100_000;
/// The most repetitions that are written out.
const MAX_REPEAT: usize = 1000;

/// A pattern that can be searched for.
pub(super) struct Pattern {
    root: Part,
}

enum Part {
    Start,
    End,
    One(Class),
    All(Vec<Part>),
    Any(Vec<Part>),
    Repeat {
        part: Box<Part>,
        min: usize,
        max: usize,
    },
}

struct Class {
    ranges: Vec<(char, char)>,
    negated: bool,
}

impl Pattern {
    /// Reads a pattern; `None` if it uses what is not known here.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut chars = text.chars().peekable();
        let root = alternatives(&mut chars, 0)?;
        chars.next().is_none().then_some(Self { root })
    }

    /// Returns whether the pattern is found anywhere in a text; `None` if that takes too long to tell.
    pub(super) fn is_found_in(&self, text: &str) -> Option<bool> {
        let chars: Vec<char> = text.chars().collect();
        let mut steps = MAX_STEPS;
        for start in 0..=chars.len() {
            if matches(&self.root, &chars, start, &mut steps, &mut |_, _| {
                Some(true)
            })? {
                return Some(true);
            }
        }
        Some(false)
    }
}

type Rest<'r> = &'r mut dyn FnMut(usize, &mut usize) -> Option<bool>;

fn matches(
    part: &Part,
    text: &[char],
    at: usize,
    steps: &mut usize,
    rest: Rest<'_>,
) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    match part {
        Part::Start => {
            if at == 0 {
                rest(at, steps)
            } else {
                Some(false)
            }
        }
        Part::End => {
            if at == text.len() {
                rest(at, steps)
            } else {
                Some(false)
            }
        }
        Part::One(class) => match text.get(at) {
            Some(&c) if class.has(c) => rest(at + 1, steps),
            _ => Some(false),
        },
        Part::All(parts) => all(parts, text, at, steps, rest),
        Part::Any(parts) => {
            for part in parts {
                if matches(part, text, at, steps, rest)? {
                    return Some(true);
                }
            }
            Some(false)
        }
        Part::Repeat { part, min, max } => repeat(part, (*min, *max), text, at, steps, rest),
    }
}

fn all(
    parts: &[Part],
    text: &[char],
    at: usize,
    steps: &mut usize,
    rest: Rest<'_>,
) -> Option<bool> {
    match parts.split_first() {
        None => rest(at, steps),
        Some((first, others)) => matches(first, text, at, steps, &mut |at, steps| {
            all(others, text, at, steps, rest)
        }),
    }
}

fn repeat(
    part: &Part,
    (min, max): (usize, usize),
    text: &[char],
    at: usize,
    steps: &mut usize,
    rest: Rest<'_>,
) -> Option<bool> {
    if let Part::One(class) = part {
        // The common case needs no recursion.
        let most = text[at..]
            .iter()
            .take(max)
            .take_while(|&&c| class.has(c))
            .count();
        for count in (min..=most).rev() {
            *steps = steps.checked_sub(1)?;
            if rest(at + count, steps)? {
                return Some(true);
            }
        }
        return Some(false);
    }
    if max > 0 {
        let less = (min.saturating_sub(1), max - 1);
        let again = matches(part, text, at, steps, &mut |next, steps| {
            if next == at && min == 0 {
                Some(false)
            } else {
                repeat(part, less, text, next, steps, rest)
            }
        });
        if again? {
            return Some(true);
        }
    }
    if min == 0 {
        rest(at, steps)
    } else {
        Some(false)
    }
}

impl Class {
    fn has(&self, c: char) -> bool {
        self.ranges.iter().any(|&(low, high)| low <= c && c <= high) != self.negated
    }
}

fn alternatives(chars: &mut Peekable<Chars<'_>>, depth: usize) -> Option<Part> {
    let mut parts = vec![sequence(chars, depth)?];
    while chars.next_if_eq(&'|').is_some() {
        parts.push(sequence(chars, depth)?);
    }
    Some(if parts.len() == 1 {
        parts.remove(0)
    } else {
        Part::Any(parts)
    })
}

fn sequence(chars: &mut Peekable<Chars<'_>>, depth: usize) -> Option<Part> {
    let mut parts = Vec::new();
    while let Some(c) = chars.next_if(|c| !matches!(c, '|' | ')')) {
        let part = match c {
            '^' => Part::Start,
            '$' => Part::End,
            '.' => Part::One(Class {
                ranges: vec![('\n', '\n'), ('\r', '\r')],
                negated: true,
            }),
            '\\' => Part::One(escape(chars.next()?)?),
            '[' => Part::One(class(chars)?),
            '(' if depth < 16 => {
                if chars.next_if_eq(&'?').is_some() {
                    chars.next_if_eq(&':')?;
                }
                let part = alternatives(chars, depth + 1)?;
                chars.next_if_eq(&')')?;
                part
            }
            '(' | '*' | '+' | '?' | '{' | ']' | '}' => return None,
            c => Part::One(Class {
                ranges: vec![(c, c)],
                negated: false,
            }),
        };
        parts.push(repetition(part, chars)?);
    }
    Some(Part::All(parts))
}

fn repetition(part: Part, chars: &mut Peekable<Chars<'_>>) -> Option<Part> {
    let (min, max) = match chars.peek() {
        Some('*') => (0, usize::MAX),
        Some('+') => (1, usize::MAX),
        Some('?') => (0, 1),
        Some('{') => {
            let text: String = chars.by_ref().skip(1).take_while(|&c| c != '}').collect();
            let (min, max) = match text.split_once(',') {
                Some((min, "")) => (min.parse().ok()?, usize::MAX),
                Some((min, max)) => (min.parse().ok()?, max.parse().ok()?),
                None => (text.parse().ok()?, text.parse().ok()?),
            };
            let is_bounded =
                min <= MAX_REPEAT && (max == usize::MAX || max <= MAX_REPEAT) && min <= max;
            return is_bounded.then(|| Part::Repeat {
                part: Box::new(part),
                min,
                max,
            });
        }
        _ => return Some(part),
    };
    chars.next();
    // Lazy and possessive repetitions find the same texts or are not known here.
    let _ = chars.next_if_eq(&'?');
    Some(Part::Repeat {
        part: Box::new(part),
        min,
        max,
    })
}

fn escape(c: char) -> Option<Class> {
    let (ranges, negated) = match c {
        'd' | 'D' => (vec![('0', '9')], c == 'D'),
        'w' | 'W' => (
            vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')],
            c == 'W',
        ),
        's' | 'S' => (
            vec![
                (' ', ' '),
                ('\t', '\r'),
                ('\u{a0}', '\u{a0}'),
                ('\u{2028}', '\u{2029}'),
            ],
            c == 'S',
        ),
        'n' => (vec![('\n', '\n')], false),
        'r' => (vec![('\r', '\r')], false),
        't' => (vec![('\t', '\t')], false),
        c if c.is_ascii_alphanumeric() => return None,
        c => (vec![(c, c)], false),
    };
    Some(Class { ranges, negated })
}

fn class(chars: &mut Peekable<Chars<'_>>) -> Option<Class> {
    let negated = chars.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        let low = match chars.next()? {
            ']' => return Some(Class { ranges, negated }),
            '\\' => match escape(chars.next()?)? {
                Class { negated: true, .. } => return None,
                Class {
                    ranges: escaped, ..
                } if matches!(escaped.as_slice(), [(low, high)] if low == high) => escaped[0].0,
                Class {
                    ranges: escaped, ..
                } => {
                    ranges.extend(escaped);
                    continue;
                }
            },
            c => c,
        };
        let mut ahead = chars.clone();
        let high = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) if high != ']' => {
                chars.next();
                match chars.next()? {
                    '\\' => match escape(chars.next()?)?.ranges.as_slice() {
                        [(low, high)] if low == high => *high,
                        _ => return None,
                    },
                    c => c,
                }
            }
            _ => low,
        };
        ranges.push((low, high));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(pattern: &str, text: &str) -> Option<bool> {
        Pattern::new(pattern)?.is_found_in(text)
    }

    #[test]
    fn the_patterns_that_schemas_use_are_understood() {
        for (pattern, text, found) in [
            ("^[a-z][a-z0-9_-]*$", "reply-2", true),
            ("^[a-z][a-z0-9_-]*$", "2-reply", false),
            ("^[a-z][a-z0-9_-]*$", "reply\n", false),
            (r"^\d+\.\d+\.\d+$", "1.20.3", true),
            (r"^\d+\.\d+\.\d+$", "1.20", false),
            ("^(http|https)://[^/ ]+", "https://host/x", true),
            ("^(?:http|https)://[^/ ]+", "ftp://host/x", false),
            ("ab{2,3}c", "xxabbbcxx", true),
            ("ab{2,3}c", "abc", false),
            ("^(ab|a)*$", "abaaab", true),
            (r"\S", " \t\n", false),
            ("", "", true),
            (r"^[^\s/]{1,3}$", "a b", false),
            ("^[\\w.-]+$", "a.b-c_d", true),
            ("^.+$", "日本", true),
        ] {
            assert_eq!(is_found(pattern, text), Some(found), "{pattern} in {text}");
        }
    }

    #[test]
    fn what_is_not_understood_or_takes_too_long_gives_no_answer() {
        for pattern in [
            "(?=a)", r"\bword", r"(a)\1", "a{", "[a", "(a", "*a", r"\p{L}", "a{9999}",
        ] {
            assert_eq!(is_found(pattern, "a"), None, "{pattern}");
        }
        assert_eq!(is_found("^(a|aa)+$", &format!("{}b", "a".repeat(60))), None);
    }
}
