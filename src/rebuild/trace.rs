//! A constructive trace: what a result depended on, and the result.

use std::fmt;
use std::sync::Arc;

use crate::context::{Lookup, Output};
use crate::digest::{Digest, Manifest};
use crate::resource::ResourceId;
use crate::step::StoredFile;

/// Something that a step's result depends on besides its fingerprint.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum ReadKey {
    /// The answer to a look-up.
    Lookup(Lookup),
    /// The state of a resource when the step started.
    State(ResourceId),
    /// The steps that are cached as one with it, because their effects on the resource may interleave.
    Group(ResourceId),
    /// Which run of these steps it was part of: of several that are kept, all of them take the same. Not an answer that
    /// is there already, but a choice, so [`verify`](super::verify) leaves it to the scheduler.
    GroupRun,
}

impl ReadKey {
    fn write_to(&self, digester: &mut crate::digest::Digester) {
        let (tag, path) = match self {
            ReadKey::Lookup(Lookup::Metadata(path)) => ("metadata", path.clone()),
            ReadKey::Lookup(lookup) => ("entry", vec![lookup.to_string()]),
            ReadKey::State(resource) => ("state", vec![resource.to_string()]),
            ReadKey::Group(resource) => ("group", vec![resource.to_string()]),
            ReadKey::GroupRun => ("group run", Vec::new()),
        };
        digester.text(tag).number(path.len() as u64);
        for segment in &path {
            digester.text(segment);
        }
    }
}

impl fmt::Display for ReadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadKey::Lookup(lookup) => lookup.fmt(f),
            ReadKey::State(resource) => write!(f, "state of {resource}"),
            ReadKey::Group(resource) => write!(f, "group of {resource}"),
            ReadKey::GroupRun => f.write_str("run of its group"),
        }
    }
}

/// A read and the digest of its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// What was asked.
    pub key: ReadKey,
    /// The digest of the answer, or `None` where nothing was found.
    pub digest: Option<Digest>,
}

/// Which run made a result, and what it cost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MadeBy {
    /// The run's id.
    pub run: String,
    /// The task and step that made it.
    pub step: String,
    /// When the step started, microseconds since 1970.
    pub started_us: i64,
    /// How long it ran, microseconds.
    pub took_us: u64,
    /// In which attempt of the step, from 1; 0 where nobody says it.
    pub attempt: u32,
}

/// The log of a step: what its commands printed and what it said of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Log {
    /// The bytes where they are few.
    pub inline: Vec<u8>,
    /// The bytes in the store where they are many.
    pub stored: Option<StoredFile>,
}

/// What a result depended on, and the result.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// The digest of the step's own ingredients.
    pub fingerprint: Digest,
    /// The ingredients, to explain a later difference.
    pub manifest: Manifest,
    /// What was looked up, and the digests of the answers.
    pub reads: Vec<Read>,
    /// The result.
    pub output: Arc<Output>,
    /// Which run made it.
    pub made: MadeBy,
    /// The step's log.
    pub log: Log,
}

impl Trace {
    /// Returns which run of its group it was part of.
    pub fn group_run(&self) -> Option<Digest> {
        self.reads
            .iter()
            .find(|read| read.key == ReadKey::GroupRun)
            .and_then(|read| read.digest)
    }

    /// Returns the digest of fingerprint and reads: traces that agree in it should have the same output.
    pub fn action(&self) -> Digest {
        let mut digester = crate::digest::Digester::new("action");
        digester.digest(&self.fingerprint);
        let mut reads: Vec<&Read> = self.reads.iter().collect();
        reads.sort_by(|a, b| a.key.cmp(&b.key));
        reads.dedup();
        for read in reads {
            read.key.write_to(&mut digester);
            digester.maybe(read.digest.as_ref());
        }
        // What a later attempt gave stands beside what the first one gave, for who allows no other.
        if self.made.attempt > 1 {
            digester.number(self.made.attempt.into());
        }
        digester.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(reads: &[&[&str]]) -> Digest {
        let reads = reads.iter().map(|path| Read {
            key: ReadKey::Lookup(Lookup::metadata(path)),
            digest: None,
        });
        Trace {
            fingerprint: Digest::of_bytes(b"step"),
            manifest: Manifest::default(),
            reads: reads.collect(),
            output: Arc::new(Output::default()),
            made: MadeBy::default(),
            log: Log::default(),
        }
        .action()
    }

    #[test]
    fn an_action_is_its_reads_whatever_their_order_and_how_they_are_shown() {
        assert_eq!(action(&[&["a"], &["b"], &["a"]]), action(&[&["b"], &["a"]]));
        assert_ne!(action(&[&["a.b"]]), action(&[&["a", "b"]]));
    }
}
