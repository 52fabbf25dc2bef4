//! What the planner is told: texts of files, folders, contents of artifacts, settings.

#![expect(
    missing_docs,
    reason = "salsa makes constructors and setters that carry no documentation"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::queries::Setting;
use crate::diagnostic::Source;
use crate::step::Content;
use crate::task::folder::TaskFolder;

/// The text of a task file.
#[salsa::input]
pub struct TaskInput {
    /// The task's name.
    #[returns(ref)]
    pub name: String,
    /// The file as shown, and its text.
    #[returns(ref)]
    pub source: Source,
    /// The folder that it is in.
    #[returns(copy)]
    pub folder: FolderInput,
}

/// What a task folder holds besides the text of tasks.
#[salsa::input]
pub struct FolderInput {
    /// The folder as read.
    #[returns(ref)]
    pub folder: Arc<TaskFolder>,
    /// The contents of the artifacts that tasks use, by name.
    #[returns(ref)]
    pub contents: BTreeMap<String, ArtifactInput>,
}

/// The content of an artifact.
#[salsa::input]
pub struct ArtifactInput {
    /// The content.
    #[returns(ref)]
    pub content: Arc<Content>,
}

/// What a run is set to.
#[salsa::input]
pub struct SettingInput {
    /// The setting.
    #[returns(ref)]
    pub setting: Arc<Setting>,
}
