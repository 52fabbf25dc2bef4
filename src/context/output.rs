//! What a step returns.

use std::sync::Arc;

use crate::digest::{Digest, Digester};
use crate::json::Value;
use crate::resource::Effect;

/// Where an entry goes in the context.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Place {
    /// `deployed_envs`, found by this `env_id`.
    Env(String),
    /// `deployed_agents`, found by this `agent_name`.
    Agent(String),
    /// `deployed_sandboxes`, found by this `sandbox_name`.
    Sandbox(String),
    /// `prompt_responses`, found by this `prompt_id`.
    Prompt(String),
    /// The value at a path below `metadata` is set.
    Set(Vec<String>),
    /// The value is appended to the list at a path below `metadata`.
    Append(Vec<String>),
}

impl Place {
    /// Returns the path below `metadata`, for entries that go there.
    pub fn metadata_path(&self) -> Option<&[String]> {
        match self {
            Place::Set(path) | Place::Append(path) => Some(path),
            Place::Env(_) | Place::Agent(_) | Place::Sandbox(_) | Place::Prompt(_) => None,
        }
    }

    fn write_to(&self, digester: &mut Digester) {
        let (tag, path) = match self {
            Place::Env(name) => ("env", std::slice::from_ref(name)),
            Place::Agent(name) => ("agent", std::slice::from_ref(name)),
            Place::Sandbox(name) => ("sandbox", std::slice::from_ref(name)),
            Place::Prompt(name) => ("prompt", std::slice::from_ref(name)),
            Place::Set(path) => ("set", &path[..]),
            Place::Append(path) => ("append", &path[..]),
        };
        digester.text(tag).number(path.len() as u64);
        for segment in path {
            digester.text(segment);
        }
    }
}

/// One thing that a step puts into the context.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Where it goes.
    pub place: Place,
    /// The value, handles included.
    pub value: Arc<Value>,
    /// The digest of place and meaning: of what a live thing *is*, never of its handle.
    pub digest: Digest,
}

impl Entry {
    /// Returns an entry whose value is all there is to it.
    pub fn data(place: Place, value: Value) -> Self {
        let digest = entry_digest(&place, &Digest::of_value(&value));
        Entry {
            place,
            value: Arc::new(value),
            digest,
        }
    }

    /// Returns an entry for a live thing: `identity` says what it is, `value` also how to reach it.
    pub fn live(place: Place, value: Value, identity: &Digest) -> Self {
        let digest = entry_digest(&place, identity);
        Entry {
            place,
            value: Arc::new(value),
            digest,
        }
    }
}

fn entry_digest(place: &Place, content: &Digest) -> Digest {
    let mut digester = Digester::new("entry");
    place.write_to(&mut digester);
    digester.digest(content).finish()
}

/// What a step gave back.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Output {
    /// What it adds to the context, in order.
    pub entries: Vec<Entry>,
    /// The states in which it left the resources that it changed.
    pub effects: Vec<Effect>,
}

impl Output {
    /// Returns an output of entries alone.
    pub fn of(entries: Vec<Entry>) -> Self {
        Output {
            entries,
            effects: Vec::new(),
        }
    }

    /// Returns the digest of what the output means; two runs that agree in it are interchangeable.
    pub fn digest(&self) -> Digest {
        let mut digester = Digester::new("output");
        digester.number(self.entries.len() as u64);
        for entry in &self.entries {
            digester.digest(&entry.digest);
        }
        for effect in &self.effects {
            digester
                .text(&effect.resource.to_string())
                .digest(&effect.after.digest());
        }
        digester.finish()
    }
}
