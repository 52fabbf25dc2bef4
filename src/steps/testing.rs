//! A world for the tests of step types: sandboxes of files in memory, a store, a context.

#![expect(
    clippy::disallowed_methods,
    reason = "tests set up the world that the program sees"
)]

mod asked;
mod env;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::context::{Answer, Lookup, Output, Place};
use crate::digest::Digest;
use crate::json::{Map, Value, json};
use crate::step::agent::Agent;
use crate::step::env::LiveEnv;
use crate::step::model::{ChatReply, ChatRequest, ModelError, Models};
use crate::step::sandbox::{
    BoxFuture, Captured, Exec, Exited, How, Isolation, ListedFile, Probe, Put, Sandbox,
    SandboxError,
};
use crate::step::{
    ArtifactKind, Bench, Content, ContentFile, Services, Step, StepCx, StepError, StepType,
    StoredFile, Stream,
};
use crate::task::StepId;

use asked::FakeModel;
pub(in crate::steps) use asked::Mute;
pub(in crate::steps) use env::FakeEnv;

/// Runs a future to its end.
pub(in crate::steps) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(future)
}

/// Builds a step from fields that fit its schema.
pub(in crate::steps) fn build_step(step_type: &StepType, id: &str, fields: Value) -> Box<dyn Step> {
    assert_eq!(misfits(step_type, fields.clone()), "");
    match (step_type.build)(&StepId::new(id), fields.as_object().unwrap()) {
        Ok(step) => step,
        Err(refusals) => panic!("refused: {refusals:?}"),
    }
}

/// Returns why a step is not built, a line for each refusal.
pub(in crate::steps) fn refused(step_type: &StepType, fields: Value) -> String {
    let refusals = match (step_type.build)(&StepId::new("step"), fields.as_object().unwrap()) {
        Ok(_) => Vec::new(),
        Err(refusals) => refusals,
    };
    let line = |refusal: &crate::step::Refusal| {
        let help = refusal.help.as_deref().unwrap_or("-");
        format!(
            "{} {}: {} ({help})\n",
            refusal.code, refusal.field, refusal.headline
        )
    };
    refusals.iter().map(line).collect()
}

/// Returns where fields don't fit the schema, a line for each place.
pub(in crate::steps) fn misfits(step_type: &StepType, fields: Value) -> String {
    let source = crate::diagnostic::Source::new("task.json", fields.to_string());
    let node = crate::json::parse(&source).root.unwrap();
    let faults = crate::json::schema::check(&node, step_type.schema(), &source, "step");
    let line = |fault: &crate::diagnostic::Diagnostic| {
        let help = fault.help.as_deref().unwrap_or("-");
        format!("{}: {} ({help})\n", fault.code.as_str(), fault.headline)
    };
    faults.iter().map(line).collect()
}

/// Runs a step.
pub(in crate::steps) fn run(
    step: &dyn Step,
    id: &str,
    world: &FakeServices,
) -> Result<Output, StepError> {
    let id = StepId::new(id);
    block_on(step.run(StepCx {
        step: &id,
        services: world,
    }))
}

/// Returns an output as text, a line for each entry; digests in universe ids are left out.
pub(in crate::steps) fn show(output: &Output) -> String {
    let mut text = String::new();
    for entry in &output.entries {
        let value = entry.value.to_string();
        let line = match &entry.place {
            Place::Set(path) => format!("metadata.{} = {value}", path.join(".")),
            Place::Append(path) => format!("metadata.{} += {value}", path.join(".")),
            other => format!("{other:?} = {value}"),
        };
        text += &without_digest(&line);
        text.push('\n');
    }
    text
}

fn without_digest(line: &str) -> String {
    let Some(start) = line.find("@local/collected/") else {
        return line.to_owned();
    };
    let end = start + line[start..].find('"').unwrap();
    if !line[start..end]
        .bytes()
        .rev()
        .take(12)
        .all(|b| b.is_ascii_hexdigit())
    {
        return line.to_owned();
    }
    format!("{}{}", &line[..end - 12], &line[end..])
}

/// Returns how a command went.
pub(in crate::steps) fn exited(how: How, stdout: &str, stderr: &str) -> Exited {
    let captured = |text: &str| Captured {
        bytes: text.as_bytes().to_vec(),
        dropped: 0,
    };
    Exited {
        how,
        stdout: captured(stdout),
        stderr: captured(stderr),
        duration: Duration::ZERO,
    }
}

type Files = BTreeMap<String, (Vec<u8>, u32)>;
type Command = dyn Fn(&Exec) -> Result<(Exited, Vec<(String, String)>), SandboxError> + Send + Sync;

/// A sandbox of files in memory, in which every command does what a closure says.
pub(in crate::steps) struct FakeSandbox {
    name: String,
    temp: String,
    files: Mutex<Files>,
    command: Box<Command>,
}

impl FakeSandbox {
    pub(in crate::steps) fn new(name: &str) -> Self {
        FakeSandbox {
            name: name.to_owned(),
            temp: "/run/tmp".to_owned(),
            files: Mutex::default(),
            command: Box::new(|_| Ok((exited(How::Code(0), "", ""), Vec::new()))),
        }
    }

    /// Sets the temporary folder.
    pub(in crate::steps) fn at(mut self, temp: &str) -> Self {
        self.temp = temp.to_owned();
        self
    }

    /// Adds a file.
    pub(in crate::steps) fn file(self, path: &str, text: &str) -> Self {
        self.files
            .lock()
            .unwrap()
            .insert(path.to_owned(), (text.as_bytes().to_vec(), 0o644));
        self
    }

    /// Sets what commands do.
    pub(in crate::steps) fn command(
        mut self,
        command: impl Fn(&Exec) -> Result<Exited, SandboxError> + Send + Sync + 'static,
    ) -> Self {
        self.command = Box::new(move |exec| Ok((command(exec)?, Vec::new())));
        self
    }

    /// Sets what commands do and which files they leave.
    pub(in crate::steps) fn leaving(
        mut self,
        command: impl Fn(&Exec) -> (Exited, Vec<(String, String)>) + Send + Sync + 'static,
    ) -> Self {
        self.command = Box::new(move |exec| Ok(command(exec)));
        self
    }

    /// Returns the files as text.
    pub(in crate::steps) fn files(&self) -> String {
        let files = self.files.lock().unwrap();
        let line = |(path, (bytes, mode)): (&String, &(Vec<u8>, u32))| {
            format!("{path} {mode:o} {:?}\n", String::from_utf8_lossy(bytes))
        };
        files.iter().map(line).collect()
    }
}

impl Sandbox for FakeSandbox {
    fn id(&self) -> &str {
        &self.name
    }

    fn exec<'a>(&'a self, exec: Exec) -> BoxFuture<'a, Result<Exited, SandboxError>> {
        let result = (self.command)(&exec);
        Box::pin(async move {
            let (exited, files) = result?;
            for (path, text) in files {
                self.files
                    .lock()
                    .unwrap()
                    .insert(path, (text.into_bytes(), 0o644));
            }
            Ok(exited)
        })
    }

    fn probe(&self, path: &str) -> Result<Probe, SandboxError> {
        let files = self.files.lock().unwrap();
        let folder = format!("{path}/");
        Ok(match files.get(path) {
            Some((bytes, _)) => Probe::File {
                size: bytes.len() as u64,
            },
            None if files.keys().any(|other| other.starts_with(&folder)) => Probe::Dir,
            None => Probe::Missing,
        })
    }

    fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, SandboxError> {
        match self.files.lock().unwrap().get(path) {
            Some((bytes, _)) if bytes.len() as u64 > limit => {
                let size = bytes.len() as u64;
                Err(SandboxError::TooLarge {
                    path: path.to_owned(),
                    size,
                    limit,
                })
            }
            found => Ok(found.map(|(bytes, _)| bytes.clone())),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<ListedFile>, SandboxError> {
        if self.probe(path)? != Probe::Dir {
            return Err(SandboxError::NoSuchPath {
                path: path.to_owned(),
            });
        }
        let files = self.files.lock().unwrap();
        let folder = format!("{path}/");
        let listed = files.iter().filter_map(|(other, (bytes, mode))| {
            let path = other.strip_prefix(&folder)?.to_owned();
            Some(ListedFile {
                path,
                size: bytes.len() as u64,
                mode: *mode,
            })
        });
        Ok(listed.collect())
    }

    fn put(&self, files: &[Put]) -> Result<(), SandboxError> {
        for put in files {
            let bytes = std::fs::read(&put.from).unwrap();
            self.write(&put.to, &bytes, put.mode)?;
        }
        Ok(())
    }

    fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), SandboxError> {
        self.files
            .lock()
            .unwrap()
            .insert(path.to_owned(), (bytes.to_vec(), mode));
        Ok(())
    }

    fn fetch(&self, path: &str, to: &Path) -> Result<u64, SandboxError> {
        match self.probe(path)? {
            Probe::File { size } => {
                std::fs::write(to, &self.files.lock().unwrap()[path].0).unwrap();
                Ok(size)
            }
            Probe::Missing => Err(SandboxError::NoSuchPath {
                path: path.to_owned(),
            }),
            _ => Err(SandboxError::NotAFile {
                path: path.to_owned(),
                what: "a folder",
            }),
        }
    }

    fn isolation(&self) -> Isolation {
        Isolation::None
    }

    fn temp_dir(&self) -> &str {
        &self.temp
    }
}

/// What the engine does for a step, without an engine.
pub(in crate::steps) struct FakeServices {
    folder: tempfile::TempDir,
    sandboxes: HashMap<String, Arc<FakeSandbox>>,
    envs: HashMap<String, FakeEnv>,
    agents: HashMap<String, Arc<dyn Agent>>,
    models: Arc<dyn Models>,
    person: String,
    artifacts: HashMap<String, Arc<Content>>,
    answers: Vec<(Lookup, Value)>,
    store: Mutex<HashMap<[u8; 32], Vec<u8>>>,
    log: Mutex<String>,
    lookups: Mutex<Vec<String>>,
    not_kept: Mutex<String>,
}

impl FakeServices {
    pub(in crate::steps) fn new() -> Self {
        FakeServices {
            folder: tempfile::tempdir().unwrap(),
            sandboxes: HashMap::new(),
            envs: HashMap::new(),
            agents: HashMap::new(),
            models: Arc::new(FakeModel(Box::new(|request| {
                panic!("nobody said what `{}` answers", request.model)
            }))),
            artifacts: HashMap::new(),
            person: String::new(),
            answers: Vec::new(),
            store: Mutex::default(),
            log: Mutex::default(),
            lookups: Mutex::default(),
            not_kept: Mutex::default(),
        }
    }

    /// Sets what every model answers.
    pub(in crate::steps) fn model(
        self,
        answer: impl Fn(&ChatRequest) -> Result<ChatReply, ModelError> + Send + Sync + 'static,
    ) -> Self {
        self.models(Arc::new(FakeModel(Box::new(answer))))
    }

    /// Sets the models.
    pub(in crate::steps) fn models(mut self, models: Arc<dyn Models>) -> Self {
        self.models = models;
        self
    }

    /// Adds an empty sandbox.
    pub(in crate::steps) fn sandbox(self, name: &str) -> Self {
        self.with(FakeSandbox::new(name))
    }

    /// Adds a sandbox.
    pub(in crate::steps) fn with(mut self, sandbox: FakeSandbox) -> Self {
        let lookup = Lookup::Sandbox(sandbox.name.clone());
        self.answers
            .push((lookup, json!({"sandbox_name": sandbox.name})));
        self.sandboxes
            .insert(sandbox.name.clone(), Arc::new(sandbox));
        self
    }

    /// Adds an env.
    pub(in crate::steps) fn env(mut self, env: FakeEnv) -> Self {
        let id = env.env_id().to_owned();
        self.answers
            .push((Lookup::Env(id.clone()), json!({"env_id": id})));
        self.envs.insert(id, env);
        self
    }

    /// Adds an agent that is connected to envs.
    pub(in crate::steps) fn agent(mut self, agent: Arc<dyn Agent>, env_ids: &[&str]) -> Self {
        let name = agent.name().to_owned();
        let value = json!({"agent_name": name, "env_ids": env_ids});
        self.answers.push((Lookup::Agent(name.clone()), value));
        self.agents.insert(name, agent);
        self
    }

    /// Returns a sandbox.
    /// Sets what every person answers.
    pub(in crate::steps) fn person(mut self, answer: &str) -> Self {
        self.person = answer.to_owned();
        self
    }

    /// Says that an agent is deployed that nobody asks.
    pub(in crate::steps) fn deployed(mut self, name: &str) -> Self {
        let lookup = Lookup::Agent(name.to_owned());
        self.answers.push((lookup, json!({"agent_name": name})));
        self
    }

    pub(in crate::steps) fn get(&self, name: &str) -> &FakeSandbox {
        &self.sandboxes[name]
    }

    /// Adds an artifact of files: path, text, whether it may be executed.
    pub(in crate::steps) fn artifact(
        mut self,
        name: &str,
        kind: ArtifactKind,
        files: &[(&str, &str, bool)],
    ) -> Self {
        let file = |(at, (path, text, executable)): (usize, &(&str, &str, bool))| {
            let source: PathBuf = self.folder.path().join(format!("{name}-{at}"));
            std::fs::write(&source, text).unwrap();
            ContentFile {
                path: (*path).to_owned(),
                source,
                executable: *executable,
                digest: Digest::of_bytes(text.as_bytes()),
                size: text.len() as u64,
            }
        };
        let content = Content {
            name: name.to_owned(),
            id: format!("@local/t/{name}"),
            kind,
            files: files.iter().enumerate().map(file).collect(),
        };
        self.artifacts.insert(name.to_owned(), Arc::new(content));
        self
    }

    /// Adds a value of the context below `metadata`.
    pub(in crate::steps) fn metadata(mut self, path: &[&str], value: Value) -> Self {
        self.answers.push((Lookup::metadata(path), value));
        self
    }

    /// Adds a reply.
    pub(in crate::steps) fn reply(mut self, prompt_id: &str, value: Value) -> Self {
        self.answers
            .push((Lookup::Prompt(prompt_id.to_owned()), value));
        self
    }

    /// Keeps bytes.
    pub(in crate::steps) fn store(&self, bytes: &[u8]) -> StoredFile {
        self.keep(bytes).unwrap()
    }

    /// Returns the log as text.
    pub(in crate::steps) fn log_text(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Returns why the result must not be kept.
    pub(in crate::steps) fn not_kept(&self) -> String {
        self.not_kept.lock().unwrap().clone()
    }

    /// Returns what was looked up, in order.
    pub(in crate::steps) fn looked_up(&self) -> String {
        self.lookups.lock().unwrap().join(", ")
    }
}

impl Services for FakeServices {
    fn find(&self, lookup: &Lookup) -> Answer {
        self.lookups.lock().unwrap().push(lookup.to_string());
        let mut value = self
            .answers
            .iter()
            .find(|(key, _)| key == lookup)
            .map(|(_, v)| v.clone());
        if let (None, Lookup::Metadata(wanted)) = (&value, lookup) {
            let mut members = Map::new();
            for (key, member) in &self.answers {
                if let Lookup::Metadata(path) = key
                    && let Some([name]) = path.strip_prefix(&wanted[..])
                {
                    members.insert(name.clone(), member.clone());
                }
            }
            value = (!members.is_empty()).then_some(Value::Object(members));
        }
        let digest = value.as_ref().map(Digest::of_value);
        Answer {
            value: value.map(Arc::new),
            digest,
            from: None,
        }
    }

    fn sandbox(&self, name: &str) -> Result<Arc<dyn Sandbox>, StepError> {
        Ok(self.sandboxes[name].clone())
    }

    fn env(&self, name: &str) -> Result<Arc<dyn LiveEnv>, StepError> {
        Ok(Arc::new(self.envs[name].clone()))
    }

    fn models(&self) -> Arc<dyn Models> {
        self.models.clone()
    }

    fn agent_sandbox(&self, name: &str) -> Option<Arc<dyn Sandbox>> {
        let sandbox = self.sandboxes.get(&format!("agent {name}"))?;
        Some(sandbox.clone())
    }

    fn agent(&self, name: &str) -> Result<Arc<dyn Agent>, StepError> {
        Ok(self.agents[name].clone())
    }

    fn ask_person<'a>(
        &'a self,
        text: &'a str,
        choices: &'a [&'a str],
    ) -> BoxFuture<'a, Result<String, StepError>> {
        self.log(Stream::Note, format!("{text:?} {choices:?}").as_bytes());
        Box::pin(async { Ok(self.person.clone()) })
    }

    /// The bench is the sandbox `bench`.
    fn bench<'a>(&'a self, packages: &'a [String]) -> BoxFuture<'a, Result<Bench, StepError>> {
        self.log(Stream::Note, format!("bench with {packages:?}").as_bytes());
        let sandbox = self.sandboxes["bench"].clone();
        let python = "/venv/bin/python3".to_owned();
        Box::pin(async move { Ok(Bench { sandbox, python }) })
    }

    fn artifact(&self, name: &str) -> Option<Arc<Content>> {
        self.artifacts.get(name).cloned()
    }

    fn keep(&self, bytes: &[u8]) -> Result<StoredFile, StepError> {
        let sha256 = fake_sha256(bytes);
        self.store.lock().unwrap().insert(sha256, bytes.to_vec());
        Ok(StoredFile {
            sha256,
            size: bytes.len() as u64,
        })
    }

    fn keep_file(&self, file: &Path) -> Result<StoredFile, StepError> {
        self.keep(&std::fs::read(file).unwrap())
    }

    fn fetch(&self, file: &StoredFile, to: &Path) -> Result<bool, StepError> {
        let store = self.store.lock().unwrap();
        let Some(bytes) = store.get(&file.sha256) else {
            return Ok(false);
        };
        std::fs::write(to, bytes).unwrap();
        Ok(true)
    }

    fn scratch(&self) -> Result<PathBuf, StepError> {
        Ok(self.folder.path().to_owned())
    }

    fn do_not_keep(&self, why: &str) {
        *self.not_kept.lock().unwrap() += why;
    }

    fn log(&self, stream: Stream, bytes: &[u8]) {
        if !bytes.is_empty() {
            let text = String::from_utf8_lossy(bytes);
            let mut log = self.log.lock().unwrap();
            *log += &format!("{stream:?}: {}\n", text.trim_end_matches('\n'));
        }
    }
}

/// Names bytes: no sha256, which is the store's business, but as good for a test.
fn fake_sha256(bytes: &[u8]) -> [u8; 32] {
    *Digest::of_bytes(bytes).as_bytes()
}
