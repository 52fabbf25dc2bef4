//! The one escaper between untrusted text and a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The most characters of a text that a sentence quotes.
const MAX_IN_SENTENCE: usize = 60;

/// Shows every character that a terminal would obey or hide as `\u{..}`; line feeds and tabs are kept.
///
/// Control characters of both sets, bidirectional overrides, zero-width and other invisible characters are shown.
pub fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Does as [`visible`] does, and shows line feeds and tabs too, for text that must stay on one line.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_hidden = |c: char| obeys_or_hides(c) && !keep(c);
    let Some(first) = text.find(is_hidden) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if is_hidden(c) {
            push_escaped(&mut out, c)
        } else {
            out.push(c)
        }
    }
    Cow::Owned(out)
}

/// Cuts a text to what fits into a sentence.
pub fn clip(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_IN_SENTENCE) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Adds `\u{..}` for a character.
pub(super) fn push_escaped(out: &mut String, c: char) {
    write!(out, "\\u{{{:x}}}", u32::from(c)).expect("writing to a string does not fail");
}

/// Returns whether a terminal would act on this character or show nothing for it.
pub(super) fn obeys_or_hides(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(c,
        '\u{80}'..='\u{9f}'             // C1 controls, among them CSI and OSC
        | '\u{ad}'                      // soft hyphen
        | '\u{34f}'                     // combining grapheme joiner
        | '\u{61c}'                     // Arabic letter mark
        | '\u{115f}'..='\u{1160}'       // Hangul fillers
        | '\u{17b4}'..='\u{17b5}'       // Khmer inherent vowels
        | '\u{180b}'..='\u{180f}'       // Mongolian selectors and vowel separator
        | '\u{200b}'..='\u{200f}'       // zero-width characters and direction marks
        | '\u{2028}'..='\u{202e}'       // line and paragraph separators, bidirectional embeddings and overrides
        | '\u{2060}'..='\u{206f}'       // word joiner, invisible operators, bidirectional isolates
        | '\u{3164}' | '\u{ffa0}'       // Hangul fillers
        | '\u{feff}'                    // byte order mark
        | '\u{fff0}'..='\u{fffb}'       // interlinear annotation
        | '\u{1bca0}'..='\u{1bca3}'     // shorthand format controls
        | '\u{1d173}'..='\u{1d17a}'     // musical format controls
        | '\u{e0000}'..='\u{e0fff}'     // tags and further variation selectors
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        for (text, shown) in [
            (
                "plain, Ωμέγα, 漢字, 🙂\n\tkept",
                "plain, Ωμέγα, 漢字, 🙂\n\tkept",
            ),
            ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
            ("\u{1b}]52;c;aGk=\u{1b}\\", r"\u{1b}]52;c;aGk=\u{1b}\"),
            ("\u{1b}[2J", r"\u{1b}[2J"),
            ("\u{9b}31m\u{7f}", r"\u{9b}31m\u{7f}"),
            ("a\rb\r\n", "a\\u{d}b\\u{d}\n"),
            (
                "user\u{202e}txt\u{2066}x\u{2069}",
                r"user\u{202e}txt\u{2066}x\u{2069}",
            ),
            ("in\u{200b}vis\u{feff}ible", r"in\u{200b}vis\u{feff}ible"),
            ("tag\u{e0041}", r"tag\u{e0041}"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_line("a\n\tb"), r"a\u{a}\u{9}b");
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            prop_assert!(visible(&text).chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
            prop_assert!(visible_line(&text).chars().all(|c| !obeys_or_hides(c)));
        }

        #[test]
        fn showing_twice_changes_nothing(text in any::<String>()) {
            let once = visible(&text).into_owned();
            prop_assert_eq!(visible(&once), once.as_str());
        }
    }
}
