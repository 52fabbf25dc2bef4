//! The only way to hash: digests, and manifests that are at once hashed and explained.
//!
//! A [`Manifest`] is a list of named parts. The digest of a manifest covers each part's name and the canonical bytes of
//! its value; the text that `explain` prints is made from the same call. So a key and its explanation cannot drift
//! apart.

use std::fmt;

use crate::json::{self, Value};

/// A blake3 digest of canonical bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }

    /// Returns the bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the digest of raw bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the digest of a JSON value in its canonical form: neither formatting nor key order counts.
    pub fn of_value(value: &Value) -> Self {
        let mut digester = Digester::new("value");
        digester.value(value);
        digester.finish()
    }

    /// Returns the first twelve hexadecimal digits, which is what people are shown.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; 32];
        for (ix, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * ix..2 * ix + 2], 16).ok()?;
        }
        Some(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

/// Writes values into a digest, each with its length, so that no two sequences share their bytes.
#[derive(Clone)]
pub struct Digester(blake3::Hasher);

impl Digester {
    /// Starts a digest; `domain` keeps digests of different things apart.
    pub fn new(domain: &str) -> Self {
        let mut digester = Digester(blake3::Hasher::new());
        digester.text(domain);
        digester
    }

    /// Adds bytes with their length.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds a text with its length.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    /// Adds another digest.
    pub fn digest(&mut self, digest: &Digest) -> &mut Self {
        self.0.update(&digest.0);
        self
    }

    /// Adds a digest or the fact that there is none.
    pub fn maybe(&mut self, digest: Option<&Digest>) -> &mut Self {
        match digest {
            Some(digest) => self.number(1).digest(digest),
            None => self.number(0),
        }
    }

    /// Adds a JSON value in its canonical form.
    pub fn value(&mut self, value: &Value) -> &mut Self {
        json::canonical(value, &mut |bytes| {
            self.0.update(bytes);
        });
        self
    }

    /// Returns the digest of all that was added.
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// Digests bytes that come in pieces: the same digest as [`Digest::of_bytes`] of all of them.
#[derive(Clone, Default)]
pub struct Stream(blake3::Hasher);

impl Stream {
    /// Starts a digest.
    pub fn new() -> Self {
        Stream::default()
    }

    /// Adds a piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all pieces.
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// How many characters of a part's value are kept for explanations: what an author changes in a long prompt is mostly
/// among them.
const SHOWN_CHARS: usize = 2000;

/// One named part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What the part is, such as ``field `prompt` `` or ``artifact `greeting` file `hello.txt` ``.
    pub name: String,
    /// The digest of the part's value; of a part that was read back from the store only the first 8 bytes count.
    pub digest: Digest,
    /// The value as people are shown it, cut where it is long; empty where it must not be shown.
    pub shown: String,
}

impl Part {
    /// Returns the bytes of the digest that are kept to tell parts apart in an explanation.
    pub fn mark(&self) -> [u8; 8] {
        let mut mark = [0; 8];
        mark.copy_from_slice(&self.digest.0[..8]);
        mark
    }

    /// Returns the part with this mark in place of its digest.
    pub fn marked(name: String, mark: [u8; 8], shown: String) -> Part {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&mark);
        Part {
            name,
            digest: Digest(bytes),
            shown,
        }
    }

    /// Returns whether two parts have the same value, as far as is kept.
    pub fn is_same(&self, other: &Part) -> bool {
        self.mark() == other.mark()
    }
}

/// The parts of a key, in the order in which they were written.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The parts.
    pub parts: Vec<Part>,
}

impl Manifest {
    /// Adds a part whose value may be shown.
    pub fn value(&mut self, name: impl Into<String>, value: &Value) {
        let shown = match value {
            Value::String(text) => cut(text),
            other => cut(&other.to_string()),
        };
        self.parts.push(Part {
            name: name.into(),
            digest: Digest::of_value(value),
            shown,
        });
    }

    /// Adds a part that is a digest of something larger.
    pub fn digest(&mut self, name: impl Into<String>, digest: Digest) {
        self.parts.push(Part {
            name: name.into(),
            digest,
            shown: digest.short(),
        });
    }

    /// Adds a part whose value must not be shown, such as that of an environment variable.
    pub fn secret(&mut self, name: impl Into<String>, value: Option<&str>) {
        let mut digester = Digester::new("secret");
        digester.maybe(value.map(|text| Digest::of_bytes(text.as_bytes())).as_ref());
        let shown = if value.is_some() { "set" } else { "unset" };
        self.parts.push(Part {
            name: name.into(),
            digest: digester.finish(),
            shown: shown.to_owned(),
        });
    }

    /// Returns the digest over the names and values of all parts.
    pub fn finish(&self) -> Digest {
        let mut digester = Digester::new("manifest");
        for part in &self.parts {
            digester.text(&part.name).digest(&part.digest);
        }
        digester.finish()
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn key_order_and_formatting_do_not_count() {
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": [true]}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b":[true],"a":1}"#).unwrap();
        assert_eq!(Digest::of_value(&one), Digest::of_value(&two));
        assert_ne!(Digest::of_value(&json!("1")), Digest::of_value(&json!(1)));
    }

    #[test]
    fn unset_and_empty_variables_differ() {
        let key = |value| {
            let mut manifest = Manifest::default();
            manifest.secret("variable `A`", value);
            manifest.finish()
        };
        assert_ne!(key(None), key(Some("")));
    }

    #[test]
    fn a_digest_reads_back_from_its_hexadecimal_form() {
        let digest = Digest::of_bytes(b"x");
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(Digest::from_hex("xy"), None);
    }
}
