//! What is written in a drawing: states, names that fit, and texts that are no markup.

use crate::diagnostic::visible_line;
use crate::record::Redactor;
use crate::session::{DrawnStep, StepVerdict};

/// Makes texts of a task such as may be drawn.
pub(super) struct Words<'a>(pub(super) &'a Redactor);

impl Words<'_> {
    /// Returns a text without secrets, on one line.
    pub(super) fn line(&self, text: &str) -> String {
        visible_line(&self.0.text(text)).into_owned()
    }
}

/// What is foreseen of a step, as it is drawn.
pub(super) struct State {
    pub(super) class: &'static str,
    pub(super) mark: char,
    pub(super) text: String,
}

/// The states, each with its mark, in the order of the legend.
pub(super) const STATES: [(&str, char, &str); 7] = [
    ("hit", '●', "hit: a kept result stands in"),
    ("dirty", '▲', "dirty: it must run again"),
    ("never", '△', "never run"),
    ("failed", '✕', "failed when it last ran, and must run"),
    ("waits", '◔', "waits for what is dirty before it"),
    ("deferred", '◌', "deferred: made when a step needs it"),
    ("left-out", '–', "left out"),
];

/// Returns the state of a step.
pub(super) fn state(step: &DrawnStep, words: &Words) -> State {
    let (class, text) = match &step.verdict {
        StepVerdict::Hit { .. } => ("hit", "hit".to_owned()),
        StepVerdict::Dirty { because } => {
            let first = because
                .first()
                .map_or_else(String::new, ToString::to_string);
            let failure = step.last.as_ref().and_then(|row| row.error.as_ref());
            match failure.filter(|_| step.has_failed) {
                Some(error) => ("failed", format!("failed: {error}")),
                None if first == "never run" => ("never", first),
                None => match because.len() {
                    0 | 1 => ("dirty", format!("dirty: {first}")),
                    n => ("dirty", format!("dirty: {first} and {} more", n - 1)),
                },
            }
        }
        StepVerdict::Waits { on } => ("waits", format!("waits for {on}")),
        StepVerdict::Deferred => ("deferred", "deferred".to_owned()),
        StepVerdict::LeftOut => ("left-out", "left out".to_owned()),
    };
    let known = STATES.iter().find(|(other, ..)| *other == class);
    State {
        class,
        mark: known.map_or('?', |(_, mark, _)| *mark),
        text: words.line(&text).replace('`', ""),
    }
}

/// Returns how many letters wide a text is: letters of East Asia and pictures are two wide.
pub(super) fn letters(text: &str) -> usize {
    text.chars().map(wide).sum()
}

fn wide(c: char) -> usize {
    match u32::from(c) {
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 2,
        0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f000..=0x3ffff => 2,
        _ => 1,
    }
}

/// Returns the beginning of a text that is so many letters wide, with what tells that it goes on.
pub(super) fn short(text: &str, most: usize) -> String {
    if letters(text) <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(1);
    let fits = |c: &char| {
        let fits = wide(*c) <= left;
        left = left.saturating_sub(wide(*c));
        fits
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    kept.push('…');
    kept
}

/// Returns a text that is no markup, on its own or in quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // These are no characters of XML.
            '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_what_fits_and_is_no_markup() {
        assert_eq!(short("greeting", 8), "greeting");
        assert_eq!(short("greetings", 8), "greetin…");
        assert_eq!(short("挨拶する人", 6), "挨拶…");
        assert_eq!(short("a", 0), "…");
        assert_eq!(
            escaped("</script><b a=\"x\" b='y'>&\u{1}\u{ffff}"),
            "&lt;/script&gt;&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}\u{fffd}"
        );
    }
}
