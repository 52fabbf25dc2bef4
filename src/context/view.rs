//! What a step sees: the outputs of its ancestors, through look-ups that are answered with a value and its digest.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLock, RwLockReadGuard};

use super::output::{Entry, Output, Place};
use crate::digest::{Digest, Digester};
use crate::graph::{StepGraph, StepIx};
use crate::json::{Map, Value};

/// A question to the context.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Lookup {
    /// The env with this `env_id`.
    Env(String),
    /// The agent with this `agent_name`.
    Agent(String),
    /// The sandbox with this `sandbox_name`.
    Sandbox(String),
    /// The reply with this `prompt_id`.
    Prompt(String),
    /// The value at a path below `metadata`; the path is not empty.
    Metadata(Vec<String>),
}

impl Lookup {
    /// Returns the look-up of a path below `metadata`.
    pub fn metadata(path: &[&str]) -> Self {
        Lookup::Metadata(path.iter().map(|&segment| segment.to_owned()).collect())
    }

    /// Returns the look-up of a verification.
    pub fn verification(verifier_id: &str) -> Self {
        Lookup::metadata(&["verifications", verifier_id])
    }

    fn bucket(&self) -> Bucket {
        match self {
            Lookup::Env(name) => Bucket::Named(0, name.clone()),
            Lookup::Agent(name) => Bucket::Named(1, name.clone()),
            Lookup::Sandbox(name) => Bucket::Named(2, name.clone()),
            Lookup::Prompt(name) => Bucket::Named(3, name.clone()),
            Lookup::Metadata(path) => Bucket::Metadata(path[0].clone()),
        }
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lookup::Env(name) => write!(f, "env `{name}`"),
            Lookup::Agent(name) => write!(f, "agent `{name}`"),
            Lookup::Sandbox(name) => write!(f, "sandbox `{name}`"),
            Lookup::Prompt(name) => write!(f, "reply `{name}`"),
            Lookup::Metadata(path) => match &path[..] {
                [verifications, id] if verifications == "verifications" => {
                    write!(f, "verification `{id}`")
                }
                path => write!(f, "metadata `{}`", path.join(".")),
            },
        }
    }
}

/// The answer to a look-up.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The value, or `None` where nothing was found.
    pub value: Option<Arc<Value>>,
    /// The digest of what the answer means, or `None` where nothing was found.
    pub digest: Option<Digest>,
    /// The step that gave the answer, the last one where several did; `None` for what the run started with.
    pub from: Option<StepIx>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Bucket {
    Named(u8, String),
    Metadata(String),
}

fn bucket_of(place: &Place) -> Bucket {
    match place {
        Place::Env(name) => Bucket::Named(0, name.clone()),
        Place::Agent(name) => Bucket::Named(1, name.clone()),
        Place::Sandbox(name) => Bucket::Named(2, name.clone()),
        Place::Prompt(name) => Bucket::Named(3, name.clone()),
        Place::Set(path) | Place::Append(path) => Bucket::Metadata(path[0].clone()),
    }
}

/// The outputs of a run so far, by step.
///
/// A running step holds a shared handle: what it may see, the outputs of its ancestors, does not change while it runs.
#[derive(Debug)]
pub struct Outputs {
    initial: Arc<[Entry]>,
    inner: Arc<RwLock<Inner>>,
}

#[derive(Clone, Debug)]
struct Inner {
    by_step: Vec<Option<Arc<Output>>>,
    writers: HashMap<Bucket, Vec<StepIx>>,
}

impl Clone for Outputs {
    /// Returns a copy that goes its own way.
    fn clone(&self) -> Self {
        Outputs {
            initial: self.initial.clone(),
            inner: Arc::new(RwLock::new(self.read().clone())),
        }
    }
}

impl Outputs {
    /// Returns the outputs of a run of `steps` steps that starts with these entries.
    pub fn new(steps: usize, initial: Vec<Entry>) -> Self {
        let inner = Inner {
            by_step: vec![None; steps],
            writers: HashMap::new(),
        };
        Outputs {
            initial: initial.into(),
            inner: Arc::new(RwLock::new(inner)),
        }
    }

    /// Returns a handle of the same outputs.
    pub fn share(&self) -> Outputs {
        Outputs {
            initial: self.initial.clone(),
            inner: self.inner.clone(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Puts in the output of a step, in place of an earlier one.
    pub fn insert(&mut self, step: StepIx, output: Arc<Output>) {
        self.remove(step);
        let mut inner = self
            .inner
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        for entry in &output.entries {
            let steps = inner.writers.entry(bucket_of(&entry.place)).or_default();
            if let Err(at) = steps.binary_search(&step) {
                steps.insert(at, step);
            }
        }
        inner.by_step[step.at()] = Some(output);
    }

    /// Drops the output of a step.
    pub fn remove(&mut self, step: StepIx) -> Option<Arc<Output>> {
        let mut inner = self
            .inner
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let output = inner.by_step[step.at()].take()?;
        for entry in &output.entries {
            if let Some(steps) = inner.writers.get_mut(&bucket_of(&entry.place))
                && let Ok(at) = steps.binary_search(&step)
            {
                steps.remove(at);
            }
        }
        Some(output)
    }

    /// Returns the output of a step.
    pub fn get(&self, step: StepIx) -> Option<Arc<Output>> {
        self.read().by_step[step.at()].clone()
    }

    /// Returns the entries that the run started with.
    pub fn initial(&self) -> &[Entry] {
        &self.initial
    }

    /// Returns the outputs in list order, each with its step.
    pub fn all(&self) -> Vec<(StepIx, Arc<Output>)> {
        let inner = self.read();
        let with_step = |(at, output): (usize, &Option<Arc<Output>>)| {
            output.clone().map(|output| (StepIx(at as u32), output))
        };
        inner
            .by_step
            .iter()
            .enumerate()
            .filter_map(with_step)
            .collect()
    }

    /// Adds entries that belong to no step, after all others.
    pub fn append(&mut self, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        let mut inner = self
            .inner
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        inner.by_step.push(Some(Arc::new(Output::of(entries))));
    }

    /// Answers a look-up of `step`, which sees what the run started with and the outputs of its ancestors.
    pub fn find(&self, graph: &StepGraph, step: StepIx, lookup: &Lookup) -> Answer {
        let bucket = lookup.bucket();
        let inner = self.read();
        let steps = inner
            .writers
            .get(&bucket)
            .map(Vec::as_slice)
            .unwrap_or_default();
        match lookup {
            Lookup::Metadata(path) => {
                let seen = steps
                    .iter()
                    .copied()
                    .filter(|&other| graph.is_ancestor(other, step));
                self.find_metadata(&inner, path, &bucket, seen)
            }
            Lookup::Env(_) | Lookup::Agent(_) | Lookup::Sandbox(_) | Lookup::Prompt(_) => {
                let seen = steps.iter().rev().copied();
                let seen = seen.filter(|&other| graph.is_ancestor(other, step));
                self.find_named(&inner, &bucket, seen)
            }
        }
    }

    fn find_named(
        &self,
        inner: &Inner,
        bucket: &Bucket,
        seen: impl Iterator<Item = StepIx>,
    ) -> Answer {
        for step in seen {
            let entries = inner.by_step[step.at()]
                .iter()
                .flat_map(|output| output.entries.iter());
            if let Some(entry) = entries
                .rev()
                .find(|entry| bucket_of(&entry.place) == *bucket)
            {
                return Answer {
                    value: Some(entry.value.clone()),
                    digest: Some(entry.digest),
                    from: Some(step),
                };
            }
        }
        let entry = self
            .initial
            .iter()
            .rev()
            .find(|entry| bucket_of(&entry.place) == *bucket);
        Answer {
            value: entry.map(|entry| entry.value.clone()),
            digest: entry.map(|entry| entry.digest),
            from: None,
        }
    }

    fn find_metadata(
        &self,
        inner: &Inner,
        path: &[String],
        bucket: &Bucket,
        seen: impl Iterator<Item = StepIx>,
    ) -> Answer {
        let mut digester = Digester::new("found");
        let mut tree = Value::Object(Map::new());
        let mut from = None;
        let mut any = false;
        let mut add = |entry: &Entry| {
            let Some(at) = entry.place.metadata_path() else {
                return false;
            };
            let n = at.len().min(path.len());
            if bucket_of(&entry.place) != *bucket || at[..n] != path[..n] {
                return false;
            }
            digester.digest(&entry.digest);
            place_metadata(&mut tree, entry);
            any = true;
            true
        };
        self.initial.iter().for_each(|entry| {
            add(entry);
        });
        for step in seen {
            for entry in inner.by_step[step.at()]
                .iter()
                .flat_map(|output| &output.entries)
            {
                if add(entry) {
                    from = Some(step);
                }
            }
        }
        let mut value = Some(&tree);
        for segment in path {
            value = value.and_then(|value| value.get(segment));
        }
        match value {
            Some(value) if any => Answer {
                value: Some(Arc::new(value.clone())),
                digest: Some(digester.finish()),
                from,
            },
            _ => Answer {
                value: None,
                digest: None,
                from: None,
            },
        }
    }
}

/// Applies an entry to a `metadata` object.
pub(super) fn place_metadata(metadata: &mut Value, entry: &Entry) {
    let Some(path) = entry.place.metadata_path() else {
        return;
    };
    let mut at = metadata;
    for segment in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(members) = at else { return };
        at = members.entry(segment.clone()).or_insert(Value::Null);
    }
    if matches!(entry.place, Place::Set(_)) {
        *at = (*entry.value).clone();
        return;
    }
    if !at.is_array() {
        *at = Value::Array(Vec::new());
    }
    if let Value::Array(items) = at {
        items.push((*entry.value).clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Edges;
    use crate::json::json;

    fn set(path: &[&str], value: Value) -> Entry {
        Entry::data(
            Place::Set(path.iter().map(|&s| s.to_owned()).collect()),
            value,
        )
    }

    fn outputs(each: Vec<Entry>) -> Outputs {
        let mut outputs = Outputs::new(each.len() + 1, Vec::new());
        for (at, entry) in each.into_iter().enumerate() {
            outputs.insert(StepIx(at as u32), Arc::new(Output::of(vec![entry])));
        }
        outputs
    }

    #[test]
    fn a_step_sees_its_ancestors_only() {
        let graph = StepGraph::from_edges(vec![
            Edges::Steps(vec![]),
            Edges::Steps(vec![]),
            Edges::Steps(vec![StepIx(0)]),
        ]);
        let outputs = outputs(vec![set(&["k", "a"], json!(1)), set(&["k", "b"], json!(2))]);
        let seen = outputs.find(&graph, StepIx(2), &Lookup::metadata(&["k"]));
        assert_eq!(seen.value.as_deref(), Some(&json!({"a": 1})));
        assert_eq!(seen.from, Some(StepIx(0)));
        let unseen = outputs.find(&graph, StepIx(2), &Lookup::metadata(&["k", "b"]));
        assert_eq!(
            unseen,
            Answer {
                value: None,
                digest: None,
                from: None
            }
        );
    }

    #[test]
    fn a_value_under_the_same_key_does_not_change_the_answer_for_another_key() {
        let graph = StepGraph::from_edges(vec![Edges::Earlier, Edges::Earlier, Edges::Earlier]);
        let one = outputs(vec![set(&["k", "a"], json!(1)), set(&["k", "b"], json!(2))]);
        let two = outputs(vec![set(&["k", "a"], json!(1)), set(&["k", "b"], json!(3))]);
        let find = |outputs: &Outputs, path: &[&str]| {
            outputs
                .find(&graph, StepIx(2), &Lookup::metadata(path))
                .digest
        };
        assert_eq!(find(&one, &["k", "a"]), find(&two, &["k", "a"]));
        assert_ne!(find(&one, &["k", "b"]), find(&two, &["k", "b"]));
        assert_ne!(find(&one, &["k"]), find(&two, &["k"]));
    }

    #[test]
    fn the_handle_of_a_live_thing_does_not_change_the_answer() {
        let identity = Digest::of_bytes(b"box");
        let place = Place::Sandbox("box".to_owned());
        let one = Entry::live(place.clone(), json!({"sandbox_id": "local-1"}), &identity);
        let two = Entry::live(place, json!({"sandbox_id": "local-2"}), &identity);
        assert_eq!(one.digest, two.digest);
        assert_ne!(one.value, two.value);
    }

    #[test]
    fn a_dropped_output_is_not_seen() {
        let graph = StepGraph::from_edges(vec![Edges::Earlier, Edges::Earlier]);
        let mut outputs = outputs(vec![set(&["k"], json!(1))]);
        outputs.remove(StepIx(0));
        assert_eq!(
            outputs
                .find(&graph, StepIx(1), &Lookup::metadata(&["k"]))
                .value,
            None
        );
    }
}
