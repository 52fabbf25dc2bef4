//! Why a step must run: one variant a cause, with old and new.

use std::fmt;

use super::trace::ReadKey;
use crate::digest::{Digest, Manifest};
use crate::graph::StepIx;
use crate::resource::ResourceId;
use crate::task::StepId;

/// Where a changed ingredient comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A field of the step, seed values and overrides applied.
    Field,
    /// A file of an artifact.
    File,
    /// The version of the step type's behaviour, or the type itself.
    Type,
    /// A tool that the step runs.
    Tool,
    /// An environment variable that the step declares.
    Variable,
    /// How sandboxes are walled off.
    Isolation,
    /// The number of the sample.
    Sample,
}

/// Why a step must run. Reads after "dirty because".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirtyReason {
    /// No result of a step of this name is kept.
    NeverRun,
    /// An ingredient has another value than when it last ran.
    Changed {
        /// What kind of ingredient.
        origin: Origin,
        /// Its name, such as ``field `prompt` ``.
        name: String,
        /// The value then; `None` where it was not there.
        old: Option<String>,
        /// The value now; `None` where it is not there.
        new: Option<String>,
    },
    /// A result with these ingredients was there, but is kept no more.
    Dropped,
    /// Something that it looked up gives another answer.
    ReadChanged {
        /// What was looked up.
        read: ReadKey,
        /// The digest of the answer then.
        old: Option<Digest>,
        /// The digest of the answer now.
        new: Option<Digest>,
        /// The step that gives the answer now.
        by: Option<StepIx>,
    },
    /// The state of a resource after it was lost, and a dirty step needs that state.
    StateLost {
        /// The resource.
        resource: ResourceId,
        /// The step that needs the state.
        needed_by: StepId,
        /// Why nothing is kept of it, where that is not by accident.
        why: Option<&'static str>,
    },
    /// A step that is cached as one with it must run.
    GroupMember {
        /// The other step.
        other: StepId,
        /// The resource that both change.
        resource: ResourceId,
    },
    /// A retry rolled it back.
    RolledBack {
        /// The number of the attempt that now starts, from 2.
        attempt: u32,
    },
    /// Nothing of this kind is ever kept.
    Volatile,
    /// The command line asked for it.
    Forced {
        /// The option, such as `--fresh`.
        by: &'static str,
    },
}

impl DirtyReason {
    /// Returns the value then and the value now, as people are shown them.
    pub fn old_and_new(&self) -> Option<(String, String)> {
        let absent = || "(absent)".to_owned();
        match self {
            DirtyReason::Changed { old, new, .. } => Some((
                old.clone().unwrap_or_else(absent),
                new.clone().unwrap_or_else(absent),
            )),
            DirtyReason::ReadChanged { old, new, .. } => {
                let show = |digest: &Option<Digest>| {
                    digest.map_or_else(|| "(nothing found)".to_owned(), |digest| digest.short())
                };
                Some((show(old), show(new)))
            }
            DirtyReason::NeverRun
            | DirtyReason::Dropped
            | DirtyReason::StateLost { .. }
            | DirtyReason::GroupMember { .. }
            | DirtyReason::RolledBack { .. }
            | DirtyReason::Volatile
            | DirtyReason::Forced { .. } => None,
        }
    }
}

impl fmt::Display for DirtyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirtyReason::NeverRun => f.write_str("never run"),
            DirtyReason::Changed {
                name, old: None, ..
            } => write!(f, "{name} was added"),
            DirtyReason::Changed {
                name, new: None, ..
            } => write!(f, "{name} was removed"),
            DirtyReason::Changed {
                origin: Origin::Type,
                name,
                old: Some(old),
                new: Some(new),
            } => match name.strip_prefix("version of ") {
                Some(step_type) => write!(f, "{step_type} went from version {old} to {new}"),
                None => write!(f, "its type went from `{old}` to `{new}`"),
            },
            DirtyReason::Changed { name, .. } => write!(f, "{name} changed"),
            DirtyReason::Dropped => f.write_str("its kept result was dropped"),
            DirtyReason::ReadChanged {
                read: ReadKey::Group(resource),
                ..
            } => {
                write!(
                    f,
                    "a step that changes {resource} at the same time is another"
                )
            }
            DirtyReason::ReadChanged {
                read, old: None, ..
            } => write!(f, "{read} is there now"),
            DirtyReason::ReadChanged {
                read, new: None, ..
            } => write!(f, "{read} is gone"),
            DirtyReason::ReadChanged { read, .. } => write!(f, "{read} changed"),
            DirtyReason::StateLost {
                resource,
                needed_by,
                why: Some(why),
            } => {
                write!(
                    f,
                    "`{needed_by}` needs the state of {resource} after it: {why}"
                )
            }
            DirtyReason::StateLost {
                resource,
                needed_by,
                why: None,
            } => {
                write!(
                    f,
                    "the state of {resource} after it was lost, and `{needed_by}` needs it"
                )
            }
            DirtyReason::GroupMember { other, resource } => {
                write!(
                    f,
                    "`{other}` must run, and both change {resource} with no path between them"
                )
            }
            DirtyReason::RolledBack { attempt } => write!(f, "rolled back, attempt {attempt}"),
            DirtyReason::Volatile => f.write_str("it is volatile: its result is never kept"),
            DirtyReason::Forced { by } => write!(f, "{by} asks for it"),
        }
    }
}

fn origin_of(name: &str) -> Origin {
    match name.split(' ').next().unwrap_or_default() {
        "type" | "version" => Origin::Type,
        "artifact" => Origin::File,
        "tool" => Origin::Tool,
        "variable" => Origin::Variable,
        "isolation" => Origin::Isolation,
        "sample" => Origin::Sample,
        _ => Origin::Field,
    }
}

/// Returns what is different between two manifests; [`DirtyReason::Dropped`] where nothing is.
pub fn differences(old: &Manifest, new: &Manifest) -> Vec<DirtyReason> {
    let mut reasons = Vec::new();
    let changed = |name: &str, old: Option<&str>, new: Option<&str>| DirtyReason::Changed {
        origin: origin_of(name),
        name: name.to_owned(),
        old: old.map(str::to_owned),
        new: new.map(str::to_owned),
    };
    for part in &new.parts {
        match old.parts.iter().find(|other| other.name == part.name) {
            None => reasons.push(changed(&part.name, None, Some(&part.shown))),
            Some(other) if !other.is_same(part) => {
                reasons.push(changed(&part.name, Some(&other.shown), Some(&part.shown)));
            }
            Some(_) => {}
        }
    }
    for part in &old.parts {
        if !new.parts.iter().any(|other| other.name == part.name) {
            reasons.push(changed(&part.name, Some(&part.shown), None));
        }
    }
    // Where the type is another, the fields of the old type say nothing.
    if let Some(at) = reasons
        .iter()
        .position(|reason| matches!(reason, DirtyReason::Changed { name, .. } if name == "type"))
    {
        reasons = vec![reasons.swap_remove(at)];
    }
    if reasons.is_empty() {
        reasons.push(DirtyReason::Dropped);
    }
    reasons
}
