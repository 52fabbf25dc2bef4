//! From files to plans, with salsa: an edit of one task file reads that file alone again.
//!
//! Files, contents of artifacts and the setting of a run are inputs; what follows from them are tracked queries. salsa
//! lives in memory only. Nothing here runs a step, and the engine never sees salsa: what it gets is a [`TaskPlan`](crate::schedule::TaskPlan).

pub use salsa::Setter;

mod contents;
mod db;
mod deployed;
mod inputs;
mod queries;
mod timed;
mod touched;

pub use contents::{FileMemo, hash_content, hash_definition, hash_files_of, is_settled, unhashed};
pub use db::{Database, Db};
pub use deployed::{Deployed, alone, deployed};
pub use inputs::{ArtifactInput, FolderInput, SettingInput, TaskInput};
pub use queries::{
    BuiltStep, Setting, built, checked, effective, fingerprint, graph, parsed, plan, refused, step,
    task,
};

#[cfg(test)]
mod tests;
