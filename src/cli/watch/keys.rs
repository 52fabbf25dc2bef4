//! What the keys of a watch mean.

use crate::watch::{Ask, Question};

/// The keys, for the line at the bottom.
pub(super) const LEGEND: &str = "r rerun · f fresh · / filter · e explain · l log · q quit";

/// The keys, for a line that is short.
pub(super) const SHORT_LEGEND: &str = "r f / e l q";

const ENTER: [u8; 2] = [b'\r', b'\n'];
const ESCAPE: u8 = 0x1b;
const BACK: [u8; 2] = [0x7f, 0x08];
/// Ctrl-D.
const END: u8 = 0x04;

/// What a text that is being typed is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Filter,
    Explain,
    Log,
}

/// What became of a key.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Typed {
    /// It means nothing here.
    Nothing,
    /// The line at the bottom shows this now.
    Line(String),
    /// The line at the bottom is as it was.
    Closed,
    /// The user asks for something.
    Asked(Ask),
}

/// The text that is being typed, if one is.
#[derive(Debug, Default)]
pub(super) struct Keyboard(Option<(Purpose, Vec<u8>)>);

impl Keyboard {
    /// Takes a key.
    pub(super) fn key(&mut self, key: u8) -> Typed {
        let Some((purpose, text)) = &mut self.0 else {
            return self.command(key);
        };
        if ENTER.contains(&key) {
            let text = String::from_utf8_lossy(text).trim().to_owned();
            let purpose = *purpose;
            self.0 = None;
            return match purpose {
                Purpose::Filter => Typed::Asked(Ask::Filter(text)),
                _ if text.is_empty() => Typed::Closed,
                Purpose::Explain => Typed::Asked(Ask::Answer(Question::Explain(text))),
                Purpose::Log => Typed::Asked(Ask::Answer(Question::Log(text))),
            };
        }
        if key == ESCAPE || key == END {
            self.0 = None;
            return Typed::Closed;
        }
        if BACK.contains(&key) {
            // The bytes of one character go together.
            while text.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
        } else if key >= b' ' {
            text.push(key);
        }
        self.line()
    }

    fn command(&mut self, key: u8) -> Typed {
        let purpose = match key {
            b'q' | END => return Typed::Asked(Ask::Quit),
            b'r' => return Typed::Asked(Ask::Rerun),
            b'f' => return Typed::Asked(Ask::Fresh),
            b'/' => Purpose::Filter,
            b'e' => Purpose::Explain,
            b'l' => Purpose::Log,
            _ => return Typed::Nothing,
        };
        self.0 = Some((purpose, Vec::new()));
        self.line()
    }

    fn line(&self) -> Typed {
        self.typed().map_or(Typed::Closed, Typed::Line)
    }

    /// Returns the line at the bottom while a text is being typed.
    pub(super) fn typed(&self) -> Option<String> {
        let (purpose, text) = self.0.as_ref()?;
        let title = match purpose {
            Purpose::Filter => "tasks with this in their name",
            Purpose::Explain => "explain step",
            Purpose::Log => "log of step",
        };
        Some(format!("{title}: {}", String::from_utf8_lossy(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> Typed {
        let mut keyboard = Keyboard::default();
        let mut typed = Typed::Nothing;
        for key in keys.bytes() {
            typed = keyboard.key(key);
        }
        typed
    }

    #[test]
    fn a_key_asks_or_begins_a_text_that_enter_ends() {
        let line = |text: &str| Typed::Line(text.to_owned());
        for (keys, expected) in [
            ("r", Typed::Asked(Ask::Rerun)),
            ("f", Typed::Asked(Ask::Fresh)),
            ("q", Typed::Asked(Ask::Quit)),
            ("\u{4}", Typed::Asked(Ask::Quit)),
            ("x", Typed::Nothing),
            ("\u{1b}", Typed::Nothing),
            ("/he", line("tasks with this in their name: he")),
            ("/héé\u{7f}", line("tasks with this in their name: hé")),
            ("e\u{7f}\u{7f}", line("explain step: ")),
            ("/hel\n", Typed::Asked(Ask::Filter("hel".to_owned()))),
            ("/\r", Typed::Asked(Ask::Filter(String::new()))),
            ("e\n", Typed::Closed),
            ("eq\u{1b}", Typed::Closed),
            ("eq\u{1b}q", Typed::Asked(Ask::Quit)),
            (
                "e verify \n",
                Typed::Asked(Ask::Answer(Question::Explain("verify".to_owned()))),
            ),
            (
                "lt/q\n",
                Typed::Asked(Ask::Answer(Question::Log("t/q".to_owned()))),
            ),
        ] {
            assert_eq!(typed(keys), expected, "{keys:?}");
        }
    }
}
