//! What models answered, in the cache.

use std::sync::Arc;

use aebuild_cache::{Cache, NewRecord};

use super::store::CALL;
use crate::digest::Digest;
use crate::json::{Value, from_slice};
use crate::model::CallStore;
use crate::record::Redactor;

/// Answers longer than this are kept as blobs.
const INLINE: usize = 64 * 1024;

/// The calls of a cache; without one, nothing is kept.
pub(super) struct Calls {
    pub(super) cache: Option<Cache>,
    /// An answer that holds a secret is not kept.
    pub(super) redactor: Arc<Redactor>,
}

impl CallStore for Calls {
    fn get(&self, key: &Digest) -> Option<Vec<u8>> {
        let cache = self.cache.as_ref()?;
        let records = cache.by_key(key.as_bytes());
        let record = records.into_iter().find(|record| record.kind == CALL)?;
        let bytes = match record.blobs.first() {
            Some(blob) => cache.get_blob(blob)?,
            None => record.payload.to_vec(),
        };
        cache.note_used(record.place);
        Some(bytes)
    }

    fn put(&self, key: &Digest, bytes: &[u8]) {
        let Some(cache) = &self.cache else { return };
        if holds_secret(&self.redactor, bytes) {
            return;
        }
        let (payload, blobs) = if bytes.len() <= INLINE {
            (bytes.to_vec(), Vec::new())
        } else {
            match cache.put_blob(bytes) {
                Ok(blob) => (Vec::new(), vec![blob]),
                // The store has said so already; the model is asked again next time.
                Err(_) => return,
            }
        };
        let record = NewRecord {
            key: *key.as_bytes(),
            action: *key.as_bytes(),
            lineage: *key.as_bytes(),
            output: *Digest::of_bytes(bytes).as_bytes(),
            kind: CALL,
            supersedes: true,
            paid: true,
            payload,
            blobs,
            trees: Vec::new(),
        };
        // As above. It was paid for, so it is there whatever becomes of this process: who asks goes on only then.
        let _ = cache.append(record).and_then(|_| cache.flush());
    }
}

/// Returns whether an answer holds a secret, also where its JSON writes it in another way.
fn holds_secret(redactor: &Redactor, bytes: &[u8]) -> bool {
    if redactor.is_empty() {
        return false;
    }
    let read = from_slice::<Value>(bytes);
    redactor.is_in(bytes) || read.is_ok_and(|read| redactor.is_in_value(&read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aebuild_cache::Options;

    fn calls_of(cache: Option<Cache>, secrets: &[&str]) -> Calls {
        Calls {
            cache,
            redactor: Arc::new(Redactor::new(secrets.iter().copied())),
        }
    }

    #[test]
    fn an_answer_with_a_secret_is_not_kept_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), Options::default()).ok();
        let calls = calls_of(cache, &["the \"canary\" sings"]);
        let key = |n: u8| Digest::of_bytes(&[n]);
        calls.put(&key(1), br#"{"text":"the \"canary\" sings"}"#);
        calls.put(&key(2), br#"{"text":"the \u0022canary\" sings"}"#);
        calls.put(&key(3), br#"{"text":"the canary sings"}"#);
        assert_eq!(calls.get(&key(1)), None);
        assert_eq!(calls.get(&key(2)), None);
        assert!(calls.get(&key(3)).is_some());
    }

    #[test]
    fn short_and_long_answers_come_back_also_in_another_process_and_the_last_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        let open = || calls_of(Cache::open(folder.path(), Options::default()).ok(), &[]);
        let key = |n: u8| Digest::of_bytes(&[n]);
        let long = vec![b'x'; INLINE + 1];
        let calls = open();
        assert_eq!(calls.get(&key(1)), None);
        calls.put(&key(1), b"old");
        calls.put(&key(1), b"short");
        calls.put(&key(2), &long);
        assert_eq!(calls.get(&key(1)).as_deref(), Some(&b"short"[..]));
        drop(calls);
        let later = open();
        assert_eq!(later.get(&key(1)).as_deref(), Some(&b"short"[..]));
        assert_eq!(later.get(&key(2)), Some(long));
        assert_eq!(later.get(&key(3)), None);
        let nowhere = calls_of(None, &[]);
        nowhere.put(&key(1), b"lost");
        assert_eq!(nowhere.get(&key(1)), None);
    }
}
