//! Decides whether a kept result may stand in for a run.
//!
//! A trace is what a step's result depended on (its fingerprint and every look-up with the digest of the answer) and the
//! result. [`verify`] is the only judge: the planner, the scheduler and `explain` all call it, so what decided is what is
//! explained. It does not know the cache, the clock or the engine.

mod dirty_reason;
mod fingerprint;
mod format;
mod trace;

pub use dirty_reason::{DirtyReason, Origin, differences};
pub use fingerprint::{Ingredients, Key, fingerprint};
pub use format::{FORMAT_VERSION, decode, encode};
pub use trace::{Log, MadeBy, Read, ReadKey, Trace};

use std::sync::Arc;

use crate::digest::Digest;
use crate::graph::StepIx;
use crate::step::Determinism;

/// What verifying a step came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// A kept result stands in.
    Hit(Arc<Trace>),
    /// The step must run; every cause that is known.
    Dirty(Vec<DirtyReason>),
}

/// What is known of a step when it is verified.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The step's key.
    pub key: &'a Key,
    /// Whether the same inputs give the same result.
    pub determinism: Determinism,
    /// The traces kept under the fingerprint, the one that counts first.
    pub candidates: &'a [Arc<Trace>],
    /// The newest trace of the step of this name, whatever its fingerprint.
    pub previous: Option<&'a Arc<Trace>>,
}

/// The present answer to a read: its digest, and the step that gave it.
pub type Present = (Option<Digest>, Option<StepIx>);

/// Verifies a step against its traces; `present` answers a read as things stand now.
pub fn verify(question: Question<'_>, present: &mut dyn FnMut(&ReadKey) -> Present) -> Verdict {
    if question.determinism == Determinism::Volatile {
        return Verdict::Dirty(vec![DirtyReason::Volatile]);
    }
    let mut reasons = Vec::new();
    for trace in question.candidates {
        let mut changed = Vec::new();
        for read in trace
            .reads
            .iter()
            .filter(|read| read.key != ReadKey::GroupRun)
        {
            let (digest, by) = present(&read.key);
            if digest != read.digest {
                changed.push(DirtyReason::ReadChanged {
                    read: read.key.clone(),
                    old: read.digest,
                    new: digest,
                    by,
                });
            }
        }
        if changed.is_empty() {
            return Verdict::Hit(trace.clone());
        }
        if reasons.is_empty() {
            reasons = changed;
        }
    }
    if !reasons.is_empty() {
        return Verdict::Dirty(reasons);
    }
    Verdict::Dirty(match question.previous {
        None => vec![DirtyReason::NeverRun],
        Some(previous) => {
            let mut reasons = dirty_reason::differences(&previous.manifest, &question.key.manifest);
            reasons.extend(also_changed(previous, present));
            reasons
        }
    })
}

/// Returns what besides its ingredients changed since a step ran. What it looked up then and nobody gives now may be what
/// it no longer asks for, and is left out.
fn also_changed(
    previous: &Trace,
    present: &mut dyn FnMut(&ReadKey) -> Present,
) -> Vec<DirtyReason> {
    let mut reasons = Vec::new();
    for read in &previous.reads {
        let (Some(_), ReadKey::Lookup(_) | ReadKey::State(_)) = (read.digest, &read.key) else {
            continue;
        };
        let (digest, by) = present(&read.key);
        if digest.is_some() && digest != read.digest {
            reasons.push(DirtyReason::ReadChanged {
                read: read.key.clone(),
                old: read.digest,
                new: digest,
                by,
            });
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Lookup, Output};
    use crate::digest::Manifest;
    use crate::json::json;

    fn key(prompt: &str) -> Key {
        let mut manifest = Manifest::default();
        manifest.value("field `prompt`", &json!(prompt));
        Key::of(manifest, "task", "reply")
    }

    fn trace(key: &Key, reads: &[(&str, Option<&str>)]) -> Arc<Trace> {
        let reads = reads
            .iter()
            .map(|(name, value)| Read {
                key: ReadKey::Lookup(Lookup::metadata(&[name])),
                digest: value.map(|value| Digest::of_bytes(value.as_bytes())),
            })
            .collect();
        Arc::new(Trace {
            fingerprint: key.fingerprint,
            manifest: key.manifest.clone(),
            reads,
            output: Arc::new(Output::default()),
            made: MadeBy::default(),
            log: Log::default(),
        })
    }

    fn check(
        key: &Key,
        candidates: &[Arc<Trace>],
        now: &[(&str, &str)],
        expect: expect_test::Expect,
    ) {
        let question = Question {
            key,
            determinism: Determinism::Pure,
            candidates,
            previous: candidates.first(),
        };
        let verdict = verify(question, &mut |read| {
            let ReadKey::Lookup(Lookup::Metadata(path)) = read else {
                return (None, None);
            };
            let found = now.iter().find(|(name, _)| *name == path[0]);
            (
                found.map(|(_, value)| Digest::of_bytes(value.as_bytes())),
                Some(StepIx(0)),
            )
        });
        let text = match verdict {
            Verdict::Hit(_) => "hit".to_owned(),
            Verdict::Dirty(reasons) => reasons
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn of_two_things_that_changed_both_are_told() {
        use expect_test::expect;
        let before = trace(&key("hello"), &[("a", Some("1")), ("gone", Some("1"))]);
        let question = Question {
            key: &key("goodbye"),
            determinism: Determinism::Pure,
            candidates: &[],
            previous: Some(&before),
        };
        let Verdict::Dirty(reasons) =
            verify(question, &mut |read| match read.to_string().as_str() {
                "metadata `a`" => (Some(Digest::of_bytes(b"2")), None),
                _ => (None, None),
            })
        else {
            panic!("nothing is kept under this key");
        };
        let said: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        expect!["field `prompt` changed; metadata `a` changed"].assert_eq(&said.join("; "));
    }

    #[test]
    fn a_trace_hits_when_every_read_gives_the_same_answer() {
        use expect_test::expect;
        let key = key("hello");
        let one = trace(&key, &[("a", Some("1")), ("b", None)]);
        check(
            &key,
            std::slice::from_ref(&one),
            &[("a", "1")],
            expect!["hit"],
        );
        check(
            &key,
            std::slice::from_ref(&one),
            &[("a", "2")],
            expect!["metadata `a` changed"],
        );
        check(
            &key,
            std::slice::from_ref(&one),
            &[("a", "1"), ("b", "1")],
            expect!["metadata `b` is there now"],
        );
        check(
            &key,
            std::slice::from_ref(&one),
            &[],
            expect!["metadata `a` is gone"],
        );
        let two = trace(&key, &[("a", Some("2"))]);
        check(&key, &[one, two], &[("a", "2")], expect!["hit"]);
        check(&key, &[], &[], expect!["never run"]);
    }
}
