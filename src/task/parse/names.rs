//! Which names people may give, and how names that look alike are told apart.

use std::fmt;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::diagnostic::{Diagnostic, visible_line};

/// The longest id or name, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// Characters that a name may have besides letters, digits and marks.
const PUNCTUATION: &str = " ._-~@()+,&";

/// Names that some systems keep for devices.
const DEVICES: [&str; 22] = [
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8",
    "com9", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// It has no character.
    Empty,
    /// It has more bytes than a name may have.
    TooLong(usize),
    /// It has a character that nobody sees.
    Invisible(char),
    /// It has a character that names don't have.
    Character(char),
    /// It starts or ends with a space.
    OuterSpace,
    /// It is `.` or `..`.
    Dots,
    /// It starts with a mark that belongs on a letter.
    LoneMark(char),
    /// It starts with `-`, as options do.
    LeadingDash,
    /// It ends with a point, which some systems drop.
    TrailingPoint,
    /// It is the name of a device on some systems.
    Device,
}

impl NameFault {
    /// Returns the code of the diagnostic.
    pub fn code(self) -> &'static str {
        match self {
            NameFault::Empty => "empty-id",
            NameFault::Invisible(_) => "invisible-character",
            _ => "bad-id",
        }
    }

    /// Returns what to do about it.
    pub fn help(self) -> &'static str {
        match self {
            NameFault::Empty => "give it a name",
            NameFault::TooLong(_) => "choose a shorter one",
            NameFault::Invisible(_) => "delete the character, and type the name anew",
            NameFault::OuterSpace => "delete the space",
            NameFault::Character(_)
            | NameFault::Dots
            | NameFault::LoneMark(_)
            | NameFault::LeadingDash
            | NameFault::TrailingPoint
            | NameFault::Device => {
                "use letters, digits and any of ` ._-~@()+,&`, and start with a letter or digit"
            }
        }
    }
}

/// Says what is wrong, to follow "id `x`".
impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameFault::Empty => f.write_str("is empty"),
            NameFault::TooLong(bytes) => {
                write!(
                    f,
                    "has {bytes} bytes, but at most {MAX_NAME_BYTES} are allowed"
                )
            }
            NameFault::Invisible(c) => {
                write!(f, "has the invisible character U+{:04X}", u32::from(*c))
            }
            NameFault::Character(c) => write!(f, "has the character `{c}`"),
            NameFault::OuterSpace => f.write_str("starts or ends with a space"),
            NameFault::Dots => f.write_str("means a folder, not a name"),
            NameFault::LoneMark(c) => {
                write!(
                    f,
                    "starts with the mark U+{:04X}, which belongs on a letter",
                    u32::from(*c)
                )
            }
            NameFault::LeadingDash => f.write_str("starts with `-`, as an option does"),
            NameFault::TrailingPoint => f.write_str("ends with a point"),
            NameFault::Device => f.write_str("is the name of a device on some systems"),
        }
    }
}

/// Returns what is wrong with the id of a step, in which `<key>` may stand for a seed value.
pub fn fault_of_id(id: &str) -> Option<NameFault> {
    let text = without_placeholders(id);
    fault_of_name(if text.is_empty() && !id.is_empty() {
        "x"
    } else {
        &text
    })
    .or_else(|| {
        let stem = text
            .split('.')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        if text.starts_with('-') {
            Some(NameFault::LeadingDash)
        } else if text.ends_with('.') {
            Some(NameFault::TrailingPoint)
        } else if DEVICES.contains(&stem.as_str()) {
            Some(NameFault::Device)
        } else {
            None
        }
    })
}

/// Returns what is wrong with the name of a task, artifact or other entry of a task folder.
pub fn fault_of_name(name: &str) -> Option<NameFault> {
    if name.is_empty() {
        return Some(NameFault::Empty);
    }
    if name.len() > MAX_NAME_BYTES {
        return Some(NameFault::TooLong(name.len()));
    }
    if let Some(c) = name.chars().find(|&c| is_invisible(c)) {
        return Some(NameFault::Invisible(c));
    }
    if name.starts_with(' ') || name.ends_with(' ') {
        return Some(NameFault::OuterSpace);
    }
    if name == "." || name == ".." {
        return Some(NameFault::Dots);
    }
    let mut may_carry_mark = false;
    for c in name.chars() {
        if is_combining_mark(c) {
            if !may_carry_mark {
                return Some(NameFault::LoneMark(c));
            }
            continue;
        }
        may_carry_mark = c.is_alphanumeric();
        if !may_carry_mark && !PUNCTUATION.contains(c) {
            return Some(NameFault::Character(c));
        }
    }
    None
}

/// Returns whether nobody sees the character, or a terminal would obey it.
pub fn is_invisible(c: char) -> bool {
    matches!(
        visible_line(c.encode_utf8(&mut [0; 4])),
        std::borrow::Cow::Owned(_)
    )
}

/// Returns whether a text has a `<key>` that a seed value may replace.
pub fn has_placeholder(text: &str) -> bool {
    text.contains('<') && without_placeholders(text).len() != text.len()
}

/// Returns the text without `<key>` placeholders.
fn without_placeholders(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains('<') {
        return text.into();
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some(open) = rest.find('<') {
        let after = &rest[open + 1..];
        match after.find(['<', '>']) {
            Some(close) if close > 0 && after[close..].starts_with('>') => {
                out.push_str(&rest[..open]);
                rest = &after[close + 1..];
            }
            _ => {
                out.push_str(&rest[..=open]);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.into()
}

/// Returns the composed form, by which names are compared.
pub fn composed(text: &str) -> String {
    if text.is_ascii() {
        text.to_owned()
    } else {
        text.nfc().collect()
    }
}

/// Returns the composed form in which case does not count.
pub fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.nfc()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .nfc()
        .collect()
}

/// Returns the Latin text that a name looks like, if some of its letters only look Latin.
///
/// A name written wholly in one script is taken to be meant, unless every letter of it looks Latin.
pub fn looks_like(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let latin: String = text.nfc().map(|c| latin_twin(c).unwrap_or(c)).collect();
    (latin != composed(text)).then_some(latin)
}

/// Returns whether a name mixes Latin letters with letters that only look Latin.
pub fn mixes_scripts(text: &str) -> bool {
    let is_twin = |c: char| latin_twin(c).is_some();
    text.chars().any(is_twin) && text.chars().any(|c| c.is_ascii_alphabetic())
}

/// Returns the Latin letter that a Cyrillic, Greek or full-width letter looks like.
fn latin_twin(c: char) -> Option<char> {
    const TWINS: [(&str, &str); 4] = [
        ("асеорхуіјѕһԁԛԝѵѡ", "aceopxyijshdqwvw"),
        ("АВЕЅІЈКМНОРСТХУԌԚԜ", "ABESIJKMHOPCTXYGQW"),
        ("αικνορυχ", "aiKvopux"),
        ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"),
    ];
    if ('\u{ff01}'..='\u{ff5e}').contains(&c) {
        return char::from_u32(u32::from(c) - 0xfee0);
    }
    TWINS.iter().find_map(|(from, to)| {
        let at = from.chars().position(|twin| twin == c)?;
        to.chars().nth(at)
    })
}

/// Returns the diagnostic for a name of an entry, without a place.
pub(crate) fn say(fault: NameFault, noun: &str, name: &str) -> Diagnostic {
    if fault == NameFault::Empty {
        return Diagnostic::error(fault.code(), format!("the {noun} is empty")).help(fault.help());
    }
    let shown: String = name.chars().take(40).collect();
    let dots = if shown.len() < name.len() { "…" } else { "" };
    let shown = visible_line(&shown).into_owned();
    Diagnostic::error(fault.code(), format!("{noun} `{shown}{dots}` {fault}")).help(fault.help())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_a_grammar() {
        for (id, fault) in [
            ("reply", None),
            ("a b_c.d-1~@(x)+,&y", None),
            ("é", None),
            ("e\u{301}", None),
            ("عربي", None),
            ("__proto__", None),
            ("constructor", None),
            ("box-<who>", None),
            ("<who>", None),
            ("_", None),
            (".hidden", None),
            ("", Some(NameFault::Empty)),
            (" a ", Some(NameFault::OuterSpace)),
            ("a\n", Some(NameFault::Invisible('\n'))),
            ("a/b", Some(NameFault::Character('/'))),
            ("a\\b", Some(NameFault::Character('\\'))),
            ("a:b", Some(NameFault::Character(':'))),
            ("*", Some(NameFault::Character('*'))),
            ("a\0", Some(NameFault::Invisible('\0'))),
            (".", Some(NameFault::Dots)),
            ("..", Some(NameFault::Dots)),
            ("-a", Some(NameFault::LeadingDash)),
            ("CON", Some(NameFault::Device)),
            ("nul.txt", Some(NameFault::Device)),
            ("a.", Some(NameFault::TrailingPoint)),
            ("a<b", Some(NameFault::Character('<'))),
            ("a<>b", Some(NameFault::Character('<'))),
            ("\u{301}a", Some(NameFault::LoneMark('\u{301}'))),
            ("user\u{202e}txt", Some(NameFault::Invisible('\u{202e}'))),
            ("a\u{200b}b", Some(NameFault::Invisible('\u{200b}'))),
            ("\u{feff}a", Some(NameFault::Invisible('\u{feff}'))),
            ("a\u{e0041}", Some(NameFault::Invisible('\u{e0041}'))),
            ("🙂", Some(NameFault::Character('🙂'))),
            ("\u{1b}]0;x\u{7}", Some(NameFault::Invisible('\u{1b}'))),
        ] {
            assert_eq!(fault_of_id(id), fault, "{id:?}");
        }
        assert_eq!(
            fault_of_id(&"a".repeat(1 << 20)),
            Some(NameFault::TooLong(1 << 20))
        );
        assert_eq!(fault_of_id(&"a".repeat(128)), None);
    }

    #[test]
    fn names_that_look_alike_are_found() {
        assert_eq!(looks_like("rерly").as_deref(), Some("reply"));
        assert_eq!(looks_like("reply"), None);
        assert!(mixes_scripts("rерly"));
        assert!(!mixes_scripts("проверка"));
        assert_eq!(folded("É"), folded("e\u{301}"));
        assert_eq!(folded("STRASSE"), folded("straße"));
    }

    #[test]
    fn the_two_rows_of_each_twin_table_have_one_length() {
        for c in "асеорхуіјѕһԁԛԝѵѡАВЕЅІЈКМНОРСТХУԌԚԜαικνορυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ".chars()
        {
            assert!(
                latin_twin(c).is_some_and(|c| c.is_ascii_alphabetic()),
                "{c}"
            );
        }
    }
}
