//! Numbers, which must mean exactly what was written.

use super::parser::Parser;
use super::word::is_not_finite;
use super::{NodeKind, Number, Span, Value};
use crate::diagnostic::Fix;

/// Numbers with more significant digits than any float has can't be exact, so longer ones are not tried.
const MAX_LEN: usize = 1100;

/// Powers of ten beyond this are all the same: too large or too small.
const MAX_EXPONENT: i64 = 1 << 40;

impl Parser<'_> {
    /// Reads the number that starts here.
    pub(super) fn number(&mut self) -> NodeKind {
        let start = self.pos;
        let len = self.bytes[start..]
            .iter()
            .take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.' | b'_'))
            .count();
        self.pos += len;
        let span = Span::new(start, self.pos);
        let text = &self.text[start..self.pos];
        match read(text) {
            Ok(number) => return NodeKind::Number(number),
            Err(_) if self.pos == self.bytes.len() && could_go_on(text) => {
                self.unfinished("a number is cut off")
            }
            Err(Wrong::NotFinite) => self.not_finite(span),
            Err(wrong) => {
                let (code, headline, help) = wrong.say(text);
                let fix = wrong.mended(text).map(|(text, is_sure)| {
                    let title = format!("write {}", shorten(&text));
                    let fix = match is_sure {
                        true => Fix::sure(title),
                        false => Fix::offered(title),
                    };
                    fix.edit(self.source, span, text)
                });
                self.mendable(code, span, headline, "", &help, fix);
            }
        }
        NodeKind::Bad
    }
}

/// Why a text is not a number that can be taken exactly as written.
#[derive(Debug, Clone, PartialEq)]
enum Wrong {
    Plus,
    LeadingZero,
    BarePoint,
    Base,
    NotFinite,
    Malformed,
    TooLarge,
    TooSmall,
    NotExact(f64),
}

impl Wrong {
    /// Returns the number that was meant, and whether that is beyond doubt.
    fn mended(&self, text: &str) -> Option<(String, bool)> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text),
        };
        let (mended, is_sure) = match self {
            Self::Plus => (text[1..].to_owned(), true),
            Self::BarePoint => {
                let (whole, rest) = digits.split_once('.')?;
                let whole = if whole.is_empty() { "0" } else { whole };
                let zero = if rest.starts_with(|c: char| c.is_ascii_digit()) {
                    ""
                } else {
                    "0"
                };
                (format!("{sign}{whole}.{zero}{rest}"), true)
            }
            Self::LeadingZero => {
                let rest = digits.trim_start_matches('0');
                let zero = if rest.starts_with(|c: char| c.is_ascii_digit()) {
                    ""
                } else {
                    "0"
                };
                (format!("{sign}{zero}{rest}"), false)
            }
            Self::NotExact(near) => (format!("{near:?}"), false),
            _ => return None,
        };
        read(&mended).is_ok().then_some((mended, is_sure))
    }

    fn say(&self, text: &str) -> (&'static str, String, String) {
        let shown = shorten(text);
        let quote = "write it in decimal digits, or in double quotes if it is a text".to_owned();
        match self {
            Self::Plus => (
                "number-leading-plus",
                format!("number `{shown}` starts with `+`"),
                format!("write {}", shorten(&text[1..])),
            ),
            Self::LeadingZero => (
                "number-leading-zero",
                format!("number `{shown}` starts with a zero"),
                "delete the zero, or write it in double quotes if it is a text".to_owned(),
            ),
            Self::BarePoint => (
                "number-bare-point",
                format!("number `{shown}` has no digit on one side of its point"),
                "write a digit on both sides, such as 0.5 or 1.0".to_owned(),
            ),
            Self::Base => (
                "number-not-decimal",
                format!("number `{shown}` is not decimal"),
                "write it in decimal digits".to_owned(),
            ),
            Self::NotFinite | Self::Malformed => (
                "malformed-number",
                format!("`{shown}` is not a number"),
                quote,
            ),
            Self::TooLarge => (
                "number-out-of-range",
                format!("number `{shown}` is too large for a 64-bit float"),
                "write it in double quotes, or in a larger unit".to_owned(),
            ),
            Self::TooSmall => (
                "number-out-of-range",
                format!("number `{shown}` is too small for a 64-bit float and would become 0"),
                "write 0, or write it in double quotes".to_owned(),
            ),
            Self::NotExact(near) => (
                "number-not-exact",
                format!("number `{shown}` can't be kept exactly and would become {near:?}"),
                format!("write {near:?}, or write it in double quotes to keep all digits"),
            ),
        }
    }
}

/// Reads a whole text as a number.
fn read(text: &str) -> Result<Number, Wrong> {
    let shape = Shape::of(text)?;
    if shape.is_whole {
        if let Some(digits) = text.strip_prefix('-') {
            if let (Ok(number), true) = (text.parse::<i64>(), digits != "0") {
                return Ok(Number::Negative(number));
            }
        } else if let Ok(number) = text.parse::<u64>() {
            return Ok(Number::Unsigned(number));
        }
    }
    let written = Decimal::of(text);
    if written.digits.is_empty() {
        return Ok(Number::Float(if text.starts_with('-') {
            -0.0
        } else {
            0.0
        }));
    }
    let number: f64 = if text.len() <= MAX_LEN {
        text.parse().map_err(|_| Wrong::Malformed)?
    } else {
        written.approximate()
    };
    if number.is_infinite() {
        return Err(Wrong::TooLarge);
    }
    if number == 0.0 {
        return Err(Wrong::TooSmall);
    }
    // Where two shortest texts are equally near, Rust and serde_json do not agree on which to print.
    let is_shortest = || {
        [format!("{number:e}"), Value::from(number).to_string()]
            .iter()
            .any(|text| Decimal::of(text) == written)
    };
    let always_exact = written.digits.len() <= 15 && number.is_normal();
    if always_exact || is_shortest() {
        Ok(Number::Float(number))
    } else {
        Err(Wrong::NotExact(number))
    }
}

/// What the grammar of RFC 8259 makes of a number.
struct Shape {
    is_whole: bool,
}

impl Shape {
    fn of(text: &str) -> Result<Self, Wrong> {
        if is_not_finite(text) {
            return Err(Wrong::NotFinite);
        }
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        if let Some(rest) = text.strip_prefix('+') {
            return Err(if Self::of(rest).is_ok() {
                Wrong::Plus
            } else {
                Wrong::Malformed
            });
        }
        if let [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', _, ..] = unsigned.as_bytes() {
            return Err(Wrong::Base);
        }
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let exponent_is_good = exponent.is_none_or(|exponent| {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !digits.is_empty() && is_digits(digits)
        });
        if !is_digits(whole) || !fraction.is_none_or(is_digits) || !exponent_is_good {
            return Err(Wrong::Malformed);
        }
        match (whole.is_empty(), fraction.map(str::is_empty)) {
            (true, None | Some(true)) => Err(Wrong::Malformed),
            (true, Some(false)) | (false, Some(true)) => Err(Wrong::BarePoint),
            _ if whole.len() > 1 && whole.starts_with('0') => Err(Wrong::LeadingZero),
            _ => Ok(Self {
                is_whole: fraction.is_none() && exponent.is_none(),
            }),
        }
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a number that was cut off could look like this.
fn could_go_on(text: &str) -> bool {
    read(&format!("{text}0")).is_ok()
        && text.ends_with(['-', '.', 'e', 'E', '+'])
        && !text.starts_with(['+', '.'])
}

/// A decimal number as its significant digits and the power of ten of the first of them.
#[derive(Debug, PartialEq)]
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    power: i64,
}

impl Decimal {
    /// Takes apart a text that has the shape of a number.
    fn of(text: &str) -> Self {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        digits.drain(..zeros);
        let len = digits
            .iter()
            .rposition(|&digit| digit != b'0')
            .map_or(0, |last| last + 1);
        digits.truncate(len);
        let exponent: i64 = exponent.parse().unwrap_or(if exponent.starts_with('-') {
            i64::MIN
        } else {
            i64::MAX
        });
        let exponent = exponent.clamp(-MAX_EXPONENT, MAX_EXPONENT);
        let power = whole.len() as i64 - zeros as i64 - 1 + exponent;
        Self {
            is_negative: text.starts_with('-'),
            digits,
            power,
        }
    }

    /// Returns a float near a number that is too long to be read in full.
    fn approximate(&self) -> f64 {
        let first = self
            .digits
            .iter()
            .take(MAX_LEN)
            .map(|&digit| char::from(digit));
        let mut text: String = if self.is_negative {
            "-0.".to_owned()
        } else {
            "0.".to_owned()
        };
        text.extend(first);
        text.push_str(&format!("e{}", self.power.saturating_add(1)));
        text.parse()
            .expect("bug: digits with an exponent are a float")
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= 40 {
        text.to_owned()
    } else {
        format!("{}...{}", &text[..20], &text[text.len() - 10..])
    }
}
