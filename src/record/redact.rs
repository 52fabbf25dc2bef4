//! Keeps secrets out of what is written.
//!
//! A secret is found as it is and in the forms in which programs print it: base64, hexadecimal, in a URL, in JSON.

use std::borrow::Cow;

use crate::json::{Map, Value};

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Values shorter than this are not looked for: they would be found everywhere.
const MIN_LENGTH: usize = 8;

/// The forms of all secrets.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The forms by their first byte.
    by_first: Vec<Vec<Vec<u8>>>,
    longest: usize,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let forms: usize = self.by_first.iter().map(Vec::len).sum();
        f.debug_struct("Redactor").field("forms", &forms).finish()
    }
}

impl Redactor {
    /// Returns a redactor of these values; those shorter than 8 bytes are not looked for.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut redactor = Redactor::default();
        for secret in secrets {
            if secret.len() < MIN_LENGTH {
                continue;
            }
            for form in forms(secret) {
                redactor.add(form);
            }
        }
        redactor
    }

    fn add(&mut self, form: Vec<u8>) {
        if form.len() < MIN_LENGTH {
            return;
        }
        if self.by_first.is_empty() {
            self.by_first = vec![Vec::new(); 256];
        }
        let forms = &mut self.by_first[usize::from(form[0])];
        if !forms.contains(&form) {
            self.longest = self.longest.max(form.len());
            forms.push(form);
        }
    }

    /// Returns whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.longest == 0
    }

    /// Returns the text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() || !self.is_in(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        // A form ends inside a character only where the bytes of a secret do, and a secret is UTF-8.
        let bytes = self.bytes(text.as_bytes()).into_owned();
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the bytes without secrets.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_empty() || !self.is_in(bytes) {
            return Cow::Borrowed(bytes);
        }
        let mut stream = self.stream();
        let mut out = stream.push(bytes);
        out.extend(stream.finish());
        Cow::Owned(out)
    }

    /// Returns the value with every text, key and number that holds a secret redacted.
    pub fn value(&self, value: &Value) -> Value {
        if self.is_empty() {
            return value.clone();
        }
        match value {
            Value::Null | Value::Bool(_) => value.clone(),
            Value::Number(number) => match self.text(&number.to_string()) {
                Cow::Borrowed(_) => value.clone(),
                Cow::Owned(text) => Value::String(text),
            },
            Value::String(text) => Value::String(self.text(text).into_owned()),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item)).collect())
            }
            Value::Object(members) => {
                let each = members
                    .iter()
                    .map(|(k, v)| (self.text(k).into_owned(), self.value(v)));
                Value::Object(each.collect::<Map<String, Value>>())
            }
        }
    }

    /// Returns a redactor for bytes that come in pieces.
    pub fn stream(&self) -> Stream<'_> {
        Stream {
            redactor: self,
            held: Vec::new(),
            covered: 0,
            is_inside: false,
        }
    }

    /// Returns whether a value holds a secret.
    pub fn is_in_value(&self, value: &Value) -> bool {
        !self.is_empty() && self.value(value) != *value
    }

    /// Returns whether bytes hold a secret.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        (0..bytes.len()).any(|at| self.longest_at(&bytes[at..]).is_some())
    }

    /// Returns the length of the longest form that these bytes start with.
    fn longest_at(&self, bytes: &[u8]) -> Option<usize> {
        let forms = &self.by_first[usize::from(*bytes.first()?)];
        forms
            .iter()
            .filter(|form| bytes.starts_with(form))
            .map(Vec::len)
            .max()
    }
}

/// Bytes on their way through a [`Redactor`], in pieces.
///
/// Every byte that belongs to a form is left out, also where forms overlap; what touches is one `[redacted]`.
#[derive(Debug)]
pub struct Stream<'a> {
    redactor: &'a Redactor,
    /// Bytes that may be the beginning of a form.
    held: Vec<u8>,
    /// How many of the held bytes are known to belong to a form.
    covered: usize,
    is_inside: bool,
}

impl Stream<'_> {
    /// Takes a piece and returns what is safe to write.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        let settled = self
            .held
            .len()
            .saturating_sub(self.redactor.longest.saturating_sub(1));
        self.settle(settled)
    }

    /// Returns the rest.
    pub fn finish(mut self) -> Vec<u8> {
        self.settle(self.held.len())
    }

    fn settle(&mut self, settled: usize) -> Vec<u8> {
        if self.redactor.is_empty() {
            return std::mem::take(&mut self.held);
        }
        let mut out = Vec::with_capacity(settled);
        for at in 0..settled {
            if let Some(length) = self.redactor.longest_at(&self.held[at..]) {
                self.covered = self.covered.max(at + length);
            }
            let is_covered = at < self.covered;
            if !is_covered {
                out.push(self.held[at]);
            } else if !self.is_inside {
                out.extend_from_slice(REDACTED.as_bytes());
            }
            self.is_inside = is_covered;
        }
        self.held.drain(..settled);
        self.covered = self.covered.saturating_sub(settled);
        out
    }
}

/// Returns the forms in which a secret may be printed.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let mut forms = vec![bytes.to_vec()];
    forms.push(hex(bytes, b"0123456789abcdef"));
    forms.push(hex(bytes, b"0123456789ABCDEF"));
    for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
        forms.push(in_url(bytes, digits, b"-_.~"));
        forms.push(in_url(bytes, digits, b"-_.~/"));
    }
    let json = Value::String(secret.to_owned()).to_string();
    forms.push(json.as_bytes()[1..json.len() - 1].to_vec());
    forms.push(in_ascii_json(secret).into_bytes());
    for alphabet in [STANDARD, FOR_URLS] {
        forms.extend((0..3).map(|offset| base64_middle(bytes, offset, alphabet)));
    }
    forms
}

fn hex(bytes: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    bytes
        .iter()
        .flat_map(|byte| {
            [
                digits[usize::from(byte >> 4)],
                digits[usize::from(byte & 15)],
            ]
        })
        .collect()
}

fn in_url(bytes: &[u8], digits: &[u8; 16], safe: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || safe.contains(&byte) {
            out.push(byte);
        } else {
            out.push(b'%');
            out.extend(hex(&[byte], digits));
        }
    }
    out
}

fn in_ascii_json(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii() && !c.is_ascii_control() => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the base64 digits that depend on the secret alone, where so many bytes of a group of three stand before it.
fn base64_middle(bytes: &[u8], offset: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bit = |at: usize| {
        let byte = bytes[(at - offset * 8) / 8];
        byte >> (7 - (at - offset * 8) % 8) & 1
    };
    let end = (offset + bytes.len()) * 8;
    let first = (offset * 8).div_ceil(6);
    (first..end / 6)
        .map(|digit| {
            let value = (0..6).fold(0, |value, n| value << 1 | bit(digit * 6 + n));
            alphabet[usize::from(value)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use proptest::prelude::*;

    fn check(text: &str, expected: &str) {
        let redactor =
            Redactor::new(["s3cr3t/pass+word", "tiny", "quote\"d\nsecret", "pässwörter"]);
        assert_eq!(redactor.text(text), expected);
    }

    #[test]
    fn a_secret_is_found_in_every_form() {
        check("a s3cr3t/pass+word b", "a [redacted] b");
        check("tiny", "tiny");
        check("czNjcjN0L3Bhc3Mrd29yZA==", "[redacted]A==");
        check("x=YXdzOnMzY3IzdC9wYXNzK3dvcmQ=", "x=YXdzOn[redacted]Q=");
        check("7333637233742f706173732b776f7264", "[redacted]");
        check("?k=s3cr3t%2Fpass%2Bword&", "?k=[redacted]&");
        check("?k=s3cr3t/pass%2bword&", "?k=[redacted]&");
        check(r#"{"k": "quote\"d\nsecret"}"#, r#"{"k": "[redacted]"}"#);
        check(r#""p\u00e4ssw\u00f6rter""#, r#""[redacted]""#);
    }

    #[test]
    fn overlapping_secrets_leave_nothing() {
        let redactor = Redactor::new(["abcdefgh", "efghijkl"]);
        assert_eq!(redactor.text("xabcdefghijkly"), "x[redacted]y");
    }

    #[test]
    fn keys_and_numbers_of_values_are_redacted() {
        let redactor = Redactor::new(["12345678", "password"]);
        assert_eq!(
            redactor.value(&json!({"password": [12345678, 1, "a password"]})),
            json!({"[redacted]": ["[redacted]", 1, "a [redacted]"]})
        );
    }

    fn all_of(redactor: &Redactor, pieces: &[&[u8]]) -> Vec<u8> {
        let mut stream = redactor.stream();
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| stream.push(piece)).collect();
        out.extend(stream.finish());
        out
    }

    proptest! {
        #[test]
        fn no_split_lets_a_secret_through(
            secrets in prop::collection::vec("[a-c/\"é]{8,12}", 1..4),
            parts in prop::collection::vec((any::<prop::sample::Index>(), 0..6usize, "[a-c/]{0,9}"), 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let redactor = Redactor::new(secrets.iter().map(String::as_str));
            let mut text = Vec::new();
            for (which, form, filler) in &parts {
                let forms = forms(which.get(&secrets[..]).as_str());
                text.extend_from_slice(&forms[form % forms.len()]);
                text.extend_from_slice(filler.as_bytes());
            }
            let whole = redactor.bytes(&text).into_owned();
            for secret in &secrets {
                for form in forms(secret).iter().filter(|form| form.len() >= MIN_LENGTH) {
                    prop_assert!(!whole.windows(form.len()).any(|window| window == form));
                }
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            prop_assert_eq!(all_of(&redactor, &pieces), whole);
        }

        #[test]
        fn what_holds_no_secret_is_left_alone(text in "[d-z ]{0,60}") {
            let redactor = Redactor::new(["abcabcabc"]);
            prop_assert_eq!(redactor.text(&text), text.as_str());
        }
    }
}
