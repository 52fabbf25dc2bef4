//! What a step type is, and what a step may ask of the world while it runs.
//!
//! A step gets a [`StepCx`] and gives back an [`Output`]. It never sees the engine, the cache or another step; whatever
//! it looks up is recorded, and becomes part of what must stay the same for its result to be reused.

pub mod a2a;
pub mod agent;
pub mod env;
pub mod model;
pub mod sandbox;
pub mod trigger;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::context::{Answer, Lookup, Output};
use crate::diagnostic::Diagnostic;
use crate::digest::{Digest, Manifest};
use crate::json::{Map, Value};
use crate::resource::{ResourceId, Touch};
use crate::task::{OnError, StepId};

pub use crate::task::{ArtifactKind, Determinism};
use agent::{Agent, Doors, NoDoors};
use env::LiveEnv;
use model::Models;
use sandbox::{BoxFuture, Sandbox, SandboxError};

/// A place in a step's fields that names an artifact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArtifactRef {
    /// The JSON pointer of the field below the step, such as `/artifacts/0/id`.
    pub field: String,
    /// The name or id as written.
    pub name: String,
    /// The kinds that fit; empty where any does.
    pub wants: &'static [ArtifactKind],
    /// Whether a version stands next to it, which an artifact of the folder cannot have.
    pub has_version: bool,
}

/// A place in a step's fields that names something another step makes, or that this step makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameRef {
    /// The JSON pointer of the field below the step.
    pub field: String,
    /// What is looked up or made.
    pub lookup: Lookup,
}

/// A place in a step's fields that names a tool of an env.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolRef {
    /// The JSON pointer of the field below the step.
    pub field: String,
    /// The env.
    pub env_id: String,
    /// The tool.
    pub tool: String,
}

/// What a deploy step makes, by the names that its fields give.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deploys {
    /// An env.
    Env {
        /// The `env_id`.
        env_id: String,
    },
    /// An agent.
    Agent {
        /// The `agent_name`.
        agent_name: String,
        /// The agent that it is, where the step says.
        agent_id: Option<String>,
        /// The envs that it is connected to.
        env_ids: Vec<String>,
        /// The sandbox that it works in, where it has none of its own.
        sandbox_name: Option<String>,
    },
}

impl Deploys {
    /// Returns the name under which the lock files of what the program sees are known to the planner.
    pub fn locks_name(&self) -> String {
        match self {
            Deploys::Env { env_id } => format!("mounts/envs/{env_id}"),
            Deploys::Agent {
                agent_name,
                agent_id,
                ..
            } => format!("mounts/agents/{}", agent_id.as_ref().unwrap_or(agent_name)),
        }
    }
}

/// A file of an artifact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentFile {
    /// The path inside the artifact, with `/`.
    pub path: String,
    /// Where its bytes are on this machine.
    pub source: PathBuf,
    /// Whether it may be executed.
    pub executable: bool,
    /// The digest of its bytes.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// The content of an artifact at the time of planning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// The name by which steps refer to it.
    pub name: String,
    /// Its id in contexts.
    pub id: String,
    /// What it holds.
    pub kind: ArtifactKind,
    /// Its files, sorted by path.
    pub files: Vec<ContentFile>,
}

impl Content {
    /// Writes what the artifact is into a key: one part a file, so that an explanation can name the file.
    pub fn write_to(&self, manifest: &mut Manifest) {
        // The id goes into contexts, so it decides what the step gives.
        let what = format!("{} {}", self.kind.as_str(), self.id);
        manifest.value(format!("artifact `{}`", self.name), &Value::String(what));
        for file in &self.files {
            let mode = if file.executable { " (executable)" } else { "" };
            manifest.digest(
                format!("artifact `{}` file `{}`{mode}", self.name, file.path),
                file.digest,
            );
        }
    }
}

/// A file kept in the store, by which an output can refer to bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredFile {
    /// The sha256 of its bytes.
    pub sha256: [u8; 32],
    /// Its size in bytes.
    pub size: u64,
}

impl StoredFile {
    /// Returns the URL by which values refer to the file.
    pub fn url(&self) -> String {
        format!(
            "aebuild:sha256:{}:{}",
            Digest::from_bytes(self.sha256),
            self.size
        )
    }

    /// Returns the file that a URL refers to.
    pub fn from_url(url: &str) -> Option<Self> {
        let (digest, size) = url.strip_prefix("aebuild:sha256:")?.split_once(':')?;
        let sha256 = *Digest::from_hex(digest)?.as_bytes();
        Some(StoredFile {
            sha256,
            size: size.parse().ok()?,
        })
    }
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    /// A class name as the original would record it, such as `RuntimeError`.
    pub kind: &'static str,
    /// What happened, in a sentence that names the thing.
    pub message: String,
    /// Whether the result only came too late to be used: the state that the step needed could not be had.
    pub lost: Option<ResourceId>,
}

impl StepError {
    /// Returns a run-time error.
    pub fn new(message: impl Into<String>) -> Self {
        StepError {
            kind: "RuntimeError",
            message: message.into(),
            lost: None,
        }
    }

    /// Returns an error of this class.
    pub fn of(kind: &'static str, message: impl Into<String>) -> Self {
        StepError {
            kind,
            message: message.into(),
            lost: None,
        }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl From<SandboxError> for StepError {
    fn from(error: SandboxError) -> Self {
        StepError::of("SandboxError", error.to_string())
    }
}

/// A stream of a step's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// What a command wrote to its standard output.
    Stdout,
    /// What a command wrote to its standard error.
    Stderr,
    /// What the step says of itself.
    Note,
}

/// Where a step runs a program that an author wrote: a sandbox of the step's own, empty, which ends with it.
#[derive(Clone)]
pub struct Bench {
    /// The sandbox.
    pub sandbox: Arc<dyn Sandbox>,
    /// The Python interpreter in it, which finds the packages that were asked for.
    pub python: String,
}

/// What the engine does for a running step. Object safe; implemented by the engine and by test doubles.
pub trait Services: Send + Sync {
    /// Answers a look-up and records it.
    fn find(&self, lookup: &Lookup) -> Answer;
    /// Returns which attempt of the step this is, the first being 1.
    fn attempt(&self) -> u32 {
        1
    }
    /// Returns the live sandbox, which is at the version that the step needs.
    fn sandbox(&self, name: &str) -> Result<Arc<dyn Sandbox>, StepError>;
    /// Returns the live env, which is at the version that the step needs, for a caller of the default role.
    fn env(&self, name: &str) -> Result<Arc<dyn LiveEnv>, StepError>;
    /// Returns the models, as this step may ask them.
    fn models(&self) -> Arc<dyn Models>;
    /// Returns the sandbox of an agent; `None` where it has none.
    fn agent_sandbox(&self, name: &str) -> Option<Arc<dyn Sandbox>>;
    /// Returns the agent.
    fn agent(&self, name: &str) -> Result<Arc<dyn Agent>, StepError>;
    /// Returns what gives agents addresses while the step runs.
    fn doors(&self) -> Arc<dyn Doors> {
        Arc::new(NoDoors)
    }
    /// Asks a person and waits for the answer, which is one of the choices where there are any.
    fn ask_person<'a>(
        &'a self,
        text: &'a str,
        choices: &'a [&'a str],
    ) -> BoxFuture<'a, Result<String, StepError>>;
    /// Makes a place for a program of the step, with a Python that has these packages, written as `pip` requirements.
    fn bench<'a>(&'a self, packages: &'a [String]) -> BoxFuture<'a, Result<Bench, StepError>>;
    /// Returns the content of an artifact that the step declared.
    fn artifact(&self, name: &str) -> Option<Arc<Content>>;
    /// Keeps bytes in the store.
    fn keep(&self, bytes: &[u8]) -> Result<StoredFile, StepError>;
    /// Keeps a file in the store.
    fn keep_file(&self, file: &std::path::Path) -> Result<StoredFile, StepError>;
    /// Writes a stored file to a path; `false` where the store has lost it.
    fn fetch(&self, file: &StoredFile, to: &std::path::Path) -> Result<bool, StepError>;
    /// Returns a private folder of the step, removed after it.
    fn scratch(&self) -> Result<PathBuf, StepError>;
    /// Says that the result hung on something that no key holds, such as a time limit, so it must not be kept.
    fn do_not_keep(&self, why: &str) {
        let _ = why;
    }
    /// Adds to the step's log.
    fn log(&self, stream: Stream, bytes: &[u8]);
}

/// All that a running step has.
#[derive(Clone, Copy)]
pub struct StepCx<'a> {
    /// The id of the step.
    pub step: &'a StepId,
    /// The world.
    pub services: &'a dyn Services,
}

impl StepCx<'_> {
    /// Answers a look-up and records it.
    pub fn find(&self, lookup: &Lookup) -> Option<Arc<Value>> {
        self.services.find(lookup).value
    }

    /// Returns the sandbox that an ancestor deployed under this name; its definition is recorded as looked up.
    pub fn sandbox(&self, name: &str) -> Result<Arc<dyn Sandbox>, StepError> {
        if self.find(&Lookup::Sandbox(name.to_owned())).is_none() {
            return Err(StepError::new(format!(
                "sandbox `{name}` is not deployed by a step that `{}` depends on",
                self.step
            )));
        }
        self.services.sandbox(name)
    }

    /// Returns the env that an ancestor deployed under this id; its definition is recorded as looked up.
    pub fn env(&self, name: &str) -> Result<Arc<dyn LiveEnv>, StepError> {
        if self.find(&Lookup::Env(name.to_owned())).is_none() {
            return Err(StepError::new(format!(
                "env `{name}` is not deployed by a step that `{}` depends on",
                self.step
            )));
        }
        self.services.env(name)
    }

    /// Returns the agent that an ancestor deployed under this name; its definition is recorded as looked up.
    pub fn agent(&self, name: &str) -> Result<Arc<dyn Agent>, StepError> {
        if self.find(&Lookup::Agent(name.to_owned())).is_none() {
            return Err(StepError::new(format!(
                "agent `{name}` is not deployed by a step that `{}` depends on",
                self.step
            )));
        }
        self.services.agent(name)
    }

    /// Adds a line that the step says of itself to its log.
    pub fn note(&self, line: &str) {
        self.services
            .log(Stream::Note, format!("{line}\n").as_bytes());
    }
}

/// A step, built from its fields: what it touches and needs, and how it runs.
pub trait Step: Send + Sync + fmt::Debug {
    /// Returns the fields with defaults filled, as they enter the key.
    fn fields(&self) -> Value;
    /// Returns what the step does to which resource.
    fn touches(&self) -> Vec<(ResourceId, Touch)>;
    /// Returns whether the same inputs give the same result.
    fn determinism(&self) -> Determinism {
        Determinism::Pure
    }
    /// Returns the output of a step that only provides a live thing: the thing is made when something needs it, and
    /// `handle` is what it will be called. `None` for a step that runs.
    fn live_output(&self, handle: &str) -> Option<Output> {
        let _ = handle;
        None
    }
    /// Returns which env or agent the step makes; how it is run is for the planner to find out.
    fn deploys(&self) -> Option<Deploys> {
        None
    }
    /// Returns whether the step prompts the agents that it touches, and so works on their envs.
    fn prompts(&self) -> bool {
        false
    }
    /// Returns whether the step waits for somebody else most of the time, and so needs no processor.
    fn waits(&self) -> bool {
        self.prompts()
    }
    /// Returns which agents may ask which others after this step: each an agent and its peers.
    fn peerings(&self) -> Vec<(String, Vec<String>)> {
        Vec::new()
    }
    /// Returns the env whose triggers the step registers, with the agents to which they give instructions.
    fn executors(&self) -> Option<(String, Vec<String>)> {
        None
    }
    /// Returns the env whose virtual clock the step sets, with its rate.
    fn sets_clock(&self) -> Option<(String, f64)> {
        None
    }
    /// Returns the artifacts that the step uses.
    fn artifacts(&self) -> Vec<ArtifactRef> {
        Vec::new()
    }
    /// Returns the names that the step looks up, as far as its fields say.
    fn reads(&self) -> Vec<NameRef> {
        Vec::new()
    }
    /// Returns whether [`Step::reads`] names all that the step looks up, and it touches nothing but what it says.
    fn reads_are_all(&self) -> bool {
        false
    }
    /// Returns the names that the step makes.
    fn provides(&self) -> Vec<NameRef> {
        Vec::new()
    }
    /// Returns the models that the step names: how the configuration reaches them is part of its key.
    fn models(&self) -> Vec<String> {
        let fields = self.fields();
        let named = ["model", "user_model", "default_model"]
            .into_iter()
            .filter_map(|key| fields.get(key)?.as_str());
        named.map(str::to_owned).collect()
    }
    /// Returns the programs outside the task that decide the result, such as `python3`.
    fn tools(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the tools of envs that the step names; what stands for any tool is not among them.
    fn names_tools(&self) -> Vec<ToolRef> {
        Vec::new()
    }
    /// Returns the programs that the step starts by their names in a sandbox of its task, each with the field that says so.
    fn programs(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Returns the environment variables of this machine that the step declares.
    fn variables(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns whether what its artifacts hold can be looked at before the run, see [`Step::inspect`].
    fn inspects(&self) -> bool {
        false
    }
    /// Looks at what an artifact of the step holds; `shown` is its path as people know it. The digests of the content are
    /// not known yet.
    fn inspect(&self, content: &Content, shown: &str) -> Inspected {
        let _ = (content, shown);
        Inspected::default()
    }
    /// Runs the step. A live step is never run.
    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>>;
}

/// What was found in an artifact before the run.
#[derive(Clone, Debug, Default)]
pub struct Inspected {
    /// Faults of the step that names it.
    pub refusals: Vec<Refusal>,
    /// Faults of its files, each at its place there.
    pub faults: Vec<Diagnostic>,
    /// The Python files of it that the step runs.
    pub python: Vec<ContentFile>,
    /// The file of it that is loaded as the whole state of an env, by the id of the env.
    pub state: Option<(String, ContentFile)>,
}

/// A refusal that the schema of the fields cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code of the diagnostic.
    pub code: &'static str,
    /// The JSON pointer of the field at fault, below the step; empty for the step itself.
    pub field: String,
    /// The headline.
    pub headline: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Refusal {
    /// Returns a refusal of a field.
    pub fn new(code: &'static str, field: impl Into<String>, headline: impl Into<String>) -> Self {
        Refusal {
            code,
            field: field.into(),
            headline: headline.into(),
            help: None,
        }
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Builds a step of an id from its fields, or refuses them.
pub type Build = fn(&StepId, &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>>;

/// A step type: how steps of it are read and built.
pub struct StepType {
    /// The name in task files.
    pub name: &'static str,
    /// The version of its behaviour, part of every key; raised when the same inputs may give another result.
    pub version: u32,
    /// What a failure means where a step does not say.
    pub on_error: OnError,
    /// Makes the JSON Schema of the fields.
    pub make_schema: fn() -> Value,
    /// Builds a step from fields that fit the schema, or refuses them, all faults at once.
    pub build: Build,
    /// The reference page: the doc comment of the file.
    pub page: &'static str,
    /// The schema once made.
    pub schema: OnceLock<Value>,
}

impl StepType {
    /// Returns the JSON Schema of the fields.
    pub fn schema(&self) -> &Value {
        self.schema.get_or_init(self.make_schema)
    }

    /// Returns the reference page: the doc comment of the file, without what marks it as one.
    pub fn page_text(&self) -> String {
        let lines = self.page.lines().map_while(|line| line.strip_prefix("//!"));
        lines
            .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
            .collect()
    }

    /// Returns the first sentence of the reference page, without its final stop.
    pub fn summary(&self) -> String {
        let page = self.page_text();
        let lines = page.lines().map(str::trim);
        let paragraph: Vec<&str> = lines
            .skip_while(|line| line.is_empty() || line.starts_with('#'))
            .take_while(|line| !line.is_empty())
            .collect();
        let text = paragraph.join(" ");
        let end = text.find(". ").unwrap_or(text.len());
        text[..end].trim_end_matches('.').to_owned()
    }
}

impl fmt::Debug for StepType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepType")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish()
    }
}

/// The step types that a program knows.
#[derive(Clone, Copy, Debug)]
pub struct Registry(pub &'static [&'static StepType]);

impl Registry {
    /// Returns the type with this name.
    pub fn find(&self, name: &str) -> Option<&'static StepType> {
        self.0
            .iter()
            .copied()
            .find(|step_type| step_type.name == name)
    }
}

impl crate::task::parse::StepTypes for Registry {
    fn schema(&self, kind: &str) -> Option<&Value> {
        self.find(kind).map(StepType::schema)
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|step_type| step_type.name).collect()
    }
}

/// Makes the schema of a fields struct, subschemas in place.
pub fn schema_of<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Reads the fields struct of a step from fields that fit its schema.
pub fn read_fields<T: serde::de::DeserializeOwned>(
    fields: &Map<String, Value>,
) -> Result<T, Vec<Refusal>> {
    T::deserialize(fields).map_err(|error| {
        vec![Refusal::new(
            "wrong-type",
            "",
            format!("the fields cannot be read: {error}"),
        )]
    })
}
