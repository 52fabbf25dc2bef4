//! Records, blobs and places as plain data.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// The sha256 of a blob's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct BlobId([u8; 32]);

/// A blob's name and its size; without the size nothing is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct BlobRef {
    /// The sha256 of its bytes.
    pub id: BlobId,
    /// How many bytes it has.
    pub size: u64,
}

/// Where a record lies. It stays the same until the cache is compacted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Place {
    /// Id of the segment file.
    pub segment: u64,
    /// Where the frame begins.
    pub offset: u64,
    /// Length of the whole frame.
    pub len: u32,
}

/// A record to be stored.
#[derive(Clone, Debug)]
pub struct NewRecord {
    /// What is looked up first: the fingerprint of a step before its reads are known.
    pub key: [u8; 32],
    /// The fingerprint with all reads; two records of one action should be equal.
    pub action: [u8; 32],
    /// What stays the same while a step is edited, to find its earlier records.
    pub lineage: [u8; 32],
    /// Digest of the output, to find conflicts.
    pub output: [u8; 32],
    /// The caller's kind of record.
    pub kind: u8,
    /// Replaces every earlier record of this action.
    pub supersedes: bool,
    /// Cost money: each blob is read back before the record is written.
    pub paid: bool,
    /// The caller's bytes.
    pub payload: Vec<u8>,
    /// Blobs that the payload names.
    pub blobs: Vec<BlobRef>,
    /// Manifests of the trees that the payload names.
    pub trees: Vec<BlobRef>,
}

/// A record that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// See [`NewRecord::key`].
    pub key: [u8; 32],
    /// See [`NewRecord::action`].
    pub action: [u8; 32],
    /// See [`NewRecord::lineage`].
    pub lineage: [u8; 32],
    /// See [`NewRecord::output`].
    pub output: [u8; 32],
    /// The caller's kind of record.
    pub kind: u8,
    /// Replaced every earlier record of this action.
    pub supersedes: bool,
    /// Cost money.
    pub paid: bool,
    /// When it was stored, in milliseconds since 1970.
    pub stored_at_ms: u64,
    /// The caller's bytes.
    pub payload: Arc<[u8]>,
    /// Blobs that the payload names.
    pub blobs: Vec<BlobRef>,
    /// Manifests of the trees that the payload names.
    pub trees: Vec<BlobRef>,
    /// Where it lies.
    pub place: Place,
    /// A later record of the same action counts in its place.
    pub is_superseded: bool,
}

/// One action that was stored with different outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// Key of the records.
    pub key: [u8; 32],
    /// Their common action.
    pub action: [u8; 32],
    /// Their lineage.
    pub lineage: [u8; 32],
    /// Their common kind.
    pub kind: u8,
    /// The records, first stored first; at least two of the outputs differ.
    pub sides: Vec<Side>,
}

/// One of the records of a [`Conflict`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Side {
    /// Digest of the output.
    pub output: [u8; 32],
    /// Where the record lies.
    pub place: Place,
    /// When it was stored, in milliseconds since 1970.
    pub stored_at_ms: u64,
}

impl BlobId {
    /// Returns the id of these bytes.
    pub fn of(bytes: &[u8]) -> BlobId {
        BlobId(Sha256::digest(bytes).into())
    }

    /// Returns the id with this sha256.
    pub const fn from_bytes(bytes: [u8; 32]) -> BlobId {
        BlobId(bytes)
    }

    /// Returns the sha256.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl BlobRef {
    /// Returns the reference to these bytes.
    pub fn of(bytes: &[u8]) -> BlobRef {
        BlobRef {
            id: BlobId::of(bytes),
            size: bytes.len() as u64,
        }
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// A text that is not 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a blob id has 64 lower-case hexadecimal digits")]
pub struct NotABlobId;

impl FromStr for BlobId {
    type Err = NotABlobId;

    fn from_str(text: &str) -> Result<BlobId, NotABlobId> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(NotABlobId);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
        }
        Ok(BlobId(bytes))
    }
}

/// Returns lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

fn nibble(digit: u8) -> Result<u8, NotABlobId> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NotABlobId),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_id_is_read_as_it_is_written_and_in_no_other_way() {
        let id = BlobId::of(b"");
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(id.to_string(), text);
        assert_eq!(text.parse(), Ok(id));
        for bad in [
            "",
            &text[1..],
            &text.to_uppercase(),
            &text.replace('e', "g"),
            &text.replace('e', "é"),
        ] {
            assert_eq!(bad.parse::<BlobId>(), Err(NotABlobId), "{bad}");
        }
    }
}
