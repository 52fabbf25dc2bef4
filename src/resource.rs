//! Live things that steps touch: which they are, how a step touches them, and which state they are in.
//!
//! Nothing here holds a handle: a URL, port, pid or instance id never becomes part of a version.

use std::fmt;

use crate::digest::{Digest, Digester};

/// What kind of live thing a resource is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ResourceKind {
    /// An environment, found by `env_id`.
    Env,
    /// An agent, found by `agent_name`.
    Agent,
    /// A sandbox, found by `sandbox_name`.
    Sandbox,
}

impl ResourceKind {
    /// Returns the word for the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            ResourceKind::Env => "env",
            ResourceKind::Agent => "agent",
            ResourceKind::Sandbox => "sandbox",
        }
    }

    /// Returns the kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [
            ResourceKind::Env,
            ResourceKind::Agent,
            ResourceKind::Sandbox,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == word)
    }
}

/// A resource of a task, by kind and name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ResourceId {
    /// The kind.
    pub kind: ResourceKind,
    /// The name by which steps find it.
    pub name: String,
}

impl ResourceId {
    /// Returns the id of a resource.
    pub fn new(kind: ResourceKind, name: &str) -> Self {
        ResourceId {
            kind,
            name: name.to_owned(),
        }
    }

    /// Returns the id of a sandbox.
    pub fn sandbox(name: &str) -> Self {
        Self::new(ResourceKind::Sandbox, name)
    }

    /// Returns the id of an env.
    pub fn env(name: &str) -> Self {
        Self::new(ResourceKind::Env, name)
    }

    /// Returns the id of an agent.
    pub fn agent(name: &str) -> Self {
        Self::new(ResourceKind::Agent, name)
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind.as_str(), self.name)
    }
}

/// How a step touches a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// Makes it.
    Creates,
    /// Reads it and changes nothing.
    Observes,
    /// Runs what an author wrote against it, so its state is compared before and after.
    MayMutate,
    /// Changes it.
    Mutates,
    /// Ends it.
    Retires,
}

/// The state of a resource: what it is and how it was reached, never where it runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Version {
    /// As its provider makes it from this definition.
    Created(Digest),
    /// In the state whose tree has this digest and size of manifest.
    State {
        /// The digest of the tree's manifest.
        tree: Digest,
        /// The size of the manifest in bytes, which names it in the store.
        size: u64,
    },
    /// In the state that was exported into this file.
    Exported {
        /// The sha256 of the file.
        file: Digest,
        /// The size of the file in bytes, which names it in the store.
        size: u64,
    },
    /// As these recorded calls leave it, made from its definition.
    Recorded {
        /// The sha256 of the file that holds the calls and what they answered.
        file: Digest,
        /// The size of the file in bytes, which names it in the store.
        size: u64,
    },
    /// As this history left it, which is kept nowhere: only the steps that made it make it again.
    Lineage(Digest),
}

impl Version {
    /// Returns the digest that enters keys.
    pub fn digest(&self) -> Digest {
        let (what, digest) = match self {
            Version::Created(definition) => ("created", definition),
            Version::State { tree, .. } => ("state", tree),
            Version::Exported { file, .. } => ("exported", file),
            Version::Recorded { file, .. } => ("recorded", file),
            Version::Lineage(history) => ("lineage", history),
        };
        Digester::new(what).digest(digest).finish()
    }

    /// Returns whether nothing is kept of the state, ever.
    pub fn is_kept_nowhere(&self) -> bool {
        matches!(self, Version::Lineage(_))
    }
}

/// A change of a resource's state by a step or a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effect {
    /// The resource.
    pub resource: ResourceId,
    /// The state it was left in.
    pub after: Version,
}

/// How a resource gets to the version that a step needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provision {
    /// A warm one is at that version.
    Reuse,
    /// It is made anew.
    Create,
    /// A snapshot of that version is loaded.
    Restore,
    /// It is made anew, and the recorded calls are made again.
    Replay,
    /// The steps that made the version run again.
    Rerun,
}

impl Provision {
    /// Returns the rung on which a version is reached that nothing warm is at, and why none above it is possible;
    /// `is_kept` says whether what the version names is in the store.
    pub fn of(
        kind: ResourceKind,
        version: &Version,
        is_kept: bool,
    ) -> (Self, Option<&'static str>) {
        match version {
            Version::Created(_) => (Provision::Create, None),
            Version::State { .. } | Version::Exported { .. } if is_kept => {
                (Provision::Restore, None)
            }
            Version::State { .. } | Version::Exported { .. } => (
                Provision::Rerun,
                Some("its snapshot is not in the cache any more"),
            ),
            Version::Recorded { .. } if is_kept => (
                Provision::Replay,
                Some("its state cannot be exported, so there is no snapshot to restore"),
            ),
            Version::Recorded { .. } => (
                Provision::Rerun,
                Some("the recording of its calls is not in the cache any more"),
            ),
            Version::Lineage(_) if kind == ResourceKind::Agent => (
                Provision::Rerun,
                Some("what it was told is nowhere but in what runs it"),
            ),
            Version::Lineage(_) => (
                Provision::Rerun,
                Some("nothing is kept of its state, as `state = \"none\"` says"),
            ),
        }
    }
}

impl fmt::Display for Provision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Provision::Reuse => "reuse",
            Provision::Create => "create",
            Provision::Restore => "restore",
            Provision::Replay => "replay",
            Provision::Rerun => "rerun",
        })
    }
}
