//! What the planner is told: texts of files, folders, contents of artifacts, settings.

#![expect(
    missing_docs,
    reason = "salsa makes constructors and setters that carry no documentation"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::db::Database;
use super::queries::Setting;
use crate::diagnostic::Source;
use crate::step::Content;
use crate::task::folder::TaskFolder;
use crate::task::parse::Written;
use salsa::{Durability, Setter as _};

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
    /// The text of the configuration, for the places of what is said of it. It may be laid out otherwise and set the same.
    #[returns(ref)]
    pub written: Option<Arc<Written>>,
}

impl TaskInput {
    /// Adds a task file that is not expected to change: what follows from it is not even looked at while others change.
    pub fn at_rest(db: &Database, name: String, source: Source, folder: FolderInput) -> Self {
        TaskInput::builder(name, source, folder)
            .durability(Durability::HIGH)
            .new(db)
    }

    /// Gives a task file another text; from now on it is expected to change again.
    pub fn edit(self, db: &mut Database, source: Source) {
        self.set_source(db)
            .with_durability(Durability::LOW)
            .to(source);
    }
}

impl FolderInput {
    /// Adds a folder, which is expected to change less often than the files in work.
    pub fn at_rest(db: &Database, folder: Arc<TaskFolder>) -> Self {
        FolderInput::builder(folder, BTreeMap::new())
            .durability(Durability::HIGH)
            .new(db)
    }

    /// Gives a folder what was read of it anew.
    pub fn edit(self, db: &mut Database, folder: Arc<TaskFolder>) {
        self.set_folder(db)
            .with_durability(Durability::HIGH)
            .to(folder);
    }
}

impl SettingInput {
    /// Adds a setting.
    pub fn at_rest(db: &Database, setting: Arc<Setting>, written: Option<Arc<Written>>) -> Self {
        SettingInput::builder(setting, written)
            .durability(Durability::HIGH)
            .new(db)
    }
}
