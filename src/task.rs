//! What an author wrote: a task and its steps, as values without positions.
//!
//! Positions in files are kept apart (see [`parse`]), so that an edit of formatting leaves a [`Task`] equal to what it
//! was. A task knows nothing of runs, results or resources.

pub mod config;
pub mod deploy;
pub mod folder;
pub mod model;
pub mod moment;
pub mod overrides;
pub mod parse;
pub mod script;
pub mod triggers;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::json::{Map, Value};

/// The name of the agent that a step means where it names none.
pub const DEFAULT_AGENT: &str = "default-agent";

/// The name of a step, unique in its task.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId(Arc<str>);

impl StepId {
    /// Returns the id with this text.
    pub fn new(text: &str) -> Self {
        StepId(text.into())
    }

    /// Returns the text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl Borrow<str> for StepId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for StepId {
    fn from(text: &str) -> Self {
        StepId::new(text)
    }
}

/// A task: its name and its steps in list order.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The name: the file's name without `.json`.
    pub name: String,
    /// The steps, in the order of the file.
    pub steps: Vec<Arc<StepDecl>>,
}

/// One step as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDecl {
    /// The step's id.
    pub id: StepId,
    /// The step's type, such as `verify_sandbox`.
    pub kind: String,
    /// What the step waits for.
    pub depends_on: DependsOn,
    /// What a failure means for the task; `None` takes the type's default.
    pub on_error: Option<OnError>,
    /// Where to go back to when the step fails.
    pub retry: Option<RetryConfig>,
    /// The fields of the step's type, comments left out.
    pub fields: Map<String, Value>,
}

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DependsOn {
    /// `depends_on` is omitted: every step listed before it.
    Earlier,
    /// Exactly these steps, each once, in the order written.
    Steps(Vec<StepId>),
}

/// What a failed step means for its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// No further step starts and the task fails.
    FailTask,
    /// The steps that wait for it run all the same.
    Continue,
}

/// Where to roll back to when a step fails, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryConfig {
    /// The first step of the span: the step itself or one of its ancestors.
    pub from: StepId,
    /// How many times the span may run again; 0 means never.
    pub max_retries: u32,
}

/// The position of a step in its task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StepIx(pub u32);

impl StepIx {
    /// Returns the position as an index.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// Whether the same inputs give the same result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Determinism {
    /// The same inputs give the same result.
    Pure,
    /// Each run of the step is a sample; sample number n is kept as that sample.
    Sampled,
    /// Never kept.
    Volatile,
}

/// What an artifact folder holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ArtifactKind {
    /// One file.
    File,
    /// Several files.
    FileUniverse,
    /// The data of one environment.
    Environment,
    /// The data of several environments.
    EnvironmentUniverse,
    /// A docker build context.
    DockerImage,
    /// A command-line tool.
    Cli,
    /// A skill.
    Skill,
}

impl ArtifactKind {
    /// Returns the name of the kind in task folders.
    pub fn as_str(self) -> &'static str {
        match self {
            ArtifactKind::File => "file",
            ArtifactKind::FileUniverse => "file_artifact_universe",
            ArtifactKind::Environment => "environment",
            ArtifactKind::EnvironmentUniverse => "environment_universe",
            ArtifactKind::DockerImage => "docker_image",
            ArtifactKind::Cli => "cli",
            ArtifactKind::Skill => "skill",
        }
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [
            ArtifactKind::File,
            ArtifactKind::FileUniverse,
            ArtifactKind::Environment,
            ArtifactKind::EnvironmentUniverse,
            ArtifactKind::DockerImage,
            ArtifactKind::Cli,
            ArtifactKind::Skill,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == name)
    }
}
