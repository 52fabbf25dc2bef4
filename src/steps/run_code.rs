//! Runs a Python function of an artifact in a sandbox, and keeps what it returns.
//!
//! The function is called with one argument, an object with the step's `args` and the `results` of the `run_code` steps
//! before it. What it returns must be JSON.
//!
//! ```python
//! def run(input):
//!     return {"total": sum(input["args"]["numbers"])}
//! ```
//!
//! ```json
//! {
//!   "id": "total", "type": "run_code", "sandbox_name": "box",
//!   "script_artifact_id": "total", "args": {"numbers": [1, 2, 3]}
//! }
//! ```
//!
//! An artifact of several files brings all its `.py` files, which may import each other. The function is looked for in
//! `script_file`, else in the only file, else in the one named `run.py`.
//!
//! # What it gives
//!
//! `metadata.script_results.<result_id>`: what the function returned.
//!
//! # What is in its key
//!
//! Its fields, the artifact's content, the version of `python3`, the state of the sandbox, and the results of the
//! `run_code` steps that it depends on.
//!
//! # Effects
//!
//! The code may change the sandbox, so the state is compared before and after. It runs in `/app`; its own files are kept
//! in the sandbox's temporary folder, which is not part of the state.
//!
//! # Differences to agent-env
//!
//! - The code runs as the sandbox's user and without the runner's environment. Hashes of texts are the same in every run
//!   (`PYTHONHASHSEED`), and so is the order of sets.
//! - Files of the artifact may have any name.
//! - `NaN` and infinities are no JSON, and are refused as a result.
//! - `env_id` and `agent_name` are refused, not there yet; there is no default agent.

use std::sync::OnceLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::{shown, tail};
use super::target::{Room, Target, given};
use super::together;
use crate::context::{Entry, Lookup, Output, Place};
use crate::digest::Digester;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::{BoxFuture, Exec, How, Isolation, Put, Sandbox, SandboxError};
use crate::step::{
    ArtifactKind, ArtifactRef, Content, ContentFile, Inspected, NameRef, Refusal, Step, StepCx,
    StepError, StepType, Stream, read_fields, schema_of,
};
use crate::system::disk;
use crate::task::parse::names::has_placeholder;
use crate::task::{OnError, StepId};

/// The step type `run_code`.
pub static TYPE: StepType = StepType {
    name: "run_code",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("run_code.rs"),
    schema: OnceLock::new(),
};

/// The largest result, in bytes.
const MAX_RESULT: u64 = 50 << 20;
/// The most that the files of the code may have together, in bytes.
const MAX_CODE: u64 = 5 << 20;
/// Number of characters of an error's end that are told.
const MAX_SHOWN: usize = 4000;

/// The kinds of artifacts that may be code.
const CODE: &[ArtifactKind] = &[ArtifactKind::File, ArtifactKind::FileUniverse];

/// Loads the code, calls the function, and writes its result or what is wrong with it.
const RUNNER: &str = include_str!("run_code/runner.py");

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The artifact with the code.
    #[schemars(length(min = 1))]
    script_artifact_id: String,
    /// The version of the artifact; one of the task folder has none.
    script_artifact_version: Option<u64>,
    /// The file of the artifact in which the function is.
    script_file: Option<String>,
    /// The function that is called.
    #[serde(default = "run")]
    #[schemars(length(min = 1))]
    entrypoint: String,
    /// What the function gets as `args`.
    #[serde(default)]
    args: Map<String, Value>,
    /// The name of the result; the step's id where absent.
    result_id: Option<String>,
    /// Time after which the code is stopped and the step fails, in seconds.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 1, max = 604_800))]
    timeout_seconds: u64,
    /// The env that the code gets to know.
    env_id: Option<String>,
    /// The sandbox in which the code runs.
    sandbox_name: Option<String>,
    /// The agent in whose sandbox the code runs.
    agent_name: Option<String>,
}

fn run() -> String {
    "run".to_owned()
}

fn ten_minutes() -> u64 {
    600
}

#[derive(Debug)]
struct RunCode {
    fields: Fields,
    room: Room,
    result_id: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let target = Target {
        sandbox_name: given(&fields.sandbox_name),
        agent_name: given(&fields.agent_name),
        env_id: given(&fields.env_id),
        container_name: None,
    };
    let (room, mut refusals) = match target.room("runs code in", None) {
        Ok(room) => (Some(room), Vec::new()),
        Err(refusals) => (None, refusals),
    };
    if let Some(file) = given(&fields.script_file).filter(|file| !file.ends_with(".py")) {
        refusals.push(
            Refusal::new(
                "not-python",
                "/script_file",
                format!("`{file}` is no `.py` file"),
            )
            .help("name the `.py` file of the artifact in which the function is"),
        );
    }
    let room = match room {
        Some(room) if refusals.is_empty() => room,
        _ => return Err(refusals),
    };
    let result_id = given(&fields.result_id).unwrap_or(step.as_str()).to_owned();
    Ok(Box::new(RunCode {
        fields,
        room,
        result_id,
    }))
}

/// Where the code is staged: the files, by which folder they are in, and which of them has the function.
struct Staged<'c> {
    folder: String,
    files: Vec<&'c ContentFile>,
    entry: &'c str,
}

impl RunCode {
    fn wrong(&self, step: &StepId, what: impl std::fmt::Display) -> StepError {
        StepError::of(
            "RunCodeValidationError",
            format!("run_code `{step}`: {what}"),
        )
    }

    /// Returns the files of the code and the one that has the function.
    fn code<'c>(&self, content: &'c Content) -> Result<(Vec<&'c ContentFile>, &'c str), String> {
        let name = &content.name;
        let is_one_file = content.kind == ArtifactKind::File;
        let files: Vec<&ContentFile> = content
            .files
            .iter()
            .filter(|file| is_one_file || file.path.ends_with(".py"))
            .collect();
        let size: u64 = files.iter().map(|file| file.size).sum();
        if size > MAX_CODE {
            let what = format!(
                "the code of artifact `{name}` has {size} bytes, more than the limit of {MAX_CODE}"
            );
            return Err(what);
        }
        if let Some(wanted) = given(&self.fields.script_file) {
            let found = files.iter().find(|file| file.path == wanted);
            let file = found.ok_or_else(|| format!("artifact `{name}` has no file `{wanted}`"))?;
            return Ok((files.clone(), &file.path));
        }
        if let [only] = &files[..] {
            return Ok((files.clone(), &only.path));
        }
        let runs: Vec<&ContentFile> = files
            .iter()
            .copied()
            .filter(|file| file.path.rsplit('/').next() == Some("run.py"))
            .collect();
        match runs[..] {
            [one] => Ok((files, &one.path)),
            [] if files.is_empty() => Err(format!("artifact `{name}` has no `.py` file")),
            _ => Err(format!(
                "artifact `{name}` has {} `.py` files, and {} of them is named `run.py`; name one in `script_file`",
                files.len(),
                if runs.is_empty() {
                    "none"
                } else {
                    "more than one"
                },
            )),
        }
    }

    /// Puts code and input into the sandbox's temporary folder.
    fn stage<'c>(
        &self,
        cx: StepCx<'_>,
        sandbox: &dyn Sandbox,
        content: &'c Content,
    ) -> Result<Staged<'c>, StepError> {
        let (files, entry) = self
            .code(content)
            .map_err(|what| self.wrong(cx.step, what))?;
        let results = cx.find(&Lookup::metadata(&["script_results"]));
        let results = results.as_deref().cloned().unwrap_or_else(|| json!({}));
        let input = json!({"args": self.fields.args, "results": results}).to_string();
        // The same code and input have the same folder, so no other code's files are ever beside it.
        let mut digester = Digester::new("run_code");
        digester.text(cx.step.as_str()).text(&input);
        for file in &files {
            digester.text(&file.path).digest(&file.digest);
        }
        let folder = format!(
            "{}/run_code-{}",
            sandbox.temp_dir(),
            digester.finish().short()
        );
        let puts: Vec<Put> = files
            .iter()
            .map(|file| Put {
                from: file.source.clone(),
                to: format!("{folder}/code/{}", file.path),
                mode: 0o644,
            })
            .collect();
        together::blocking(|| {
            sandbox.put(&puts)?;
            sandbox.write(&format!("{folder}/runner.py"), RUNNER.as_bytes(), 0o644)?;
            sandbox.write(&format!("{folder}/input.json"), input.as_bytes(), 0o644)
        })?;
        Ok(Staged {
            folder,
            files,
            entry,
        })
    }

    async fn run_code(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let sandbox = self.room.open(cx)?;
        let artifact = &self.fields.script_artifact_id;
        let content = cx
            .services
            .artifact(artifact)
            .ok_or_else(|| self.wrong(cx.step, format!("there is no artifact `{artifact}`")))?;
        let is_seeded = given(&self.fields.script_file).is_some_and(has_placeholder);
        if is_seeded || !CODE.contains(&content.kind) {
            let kind = content.kind.as_str();
            return Err(self.wrong(
                cx.step,
                format!("artifact `{artifact}` is of kind `{kind}`, which is no code"),
            ));
        }
        let staged = self.stage(cx, &*sandbox, &content)?;
        let runner = format!("{}/runner.py", staged.folder);
        let entry = staged.entry;
        cx.note(&format!(
            "python3 {entry}: {}(..), with {} files",
            self.fields.entrypoint,
            staged.files.len()
        ));
        let exec = Exec::argv([
            "python3",
            "-s",
            &runner,
            &staged.folder,
            entry,
            &self.fields.entrypoint,
        ])
        .env("PYTHONHASHSEED", "0")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .timeout(Duration::from_secs(self.fields.timeout_seconds));
        let exited = sandbox.exec(exec).await?;
        cx.services.log(Stream::Stdout, &exited.stdout.bytes);
        cx.services.log(Stream::Stderr, &exited.stderr.bytes);
        let failed = |what: String| {
            StepError::of(
                "RunCodeExecutionError",
                format!("run_code `{}`: {what}", cx.step),
            )
        };
        let stderr = || tail(&shown(&*sandbox, &exited.stderr.text()), MAX_SHOWN);
        match exited.how {
            How::Code(0) => {}
            How::Code(code) => return Err(failed(format!("exited {code}: {}", stderr()))),
            How::Signal(signal) => {
                return Err(failed(format!("killed by signal {signal}: {}", stderr())));
            }
            How::TimedOut => {
                let limit = self.fields.timeout_seconds;
                return Err(failed(format!("stopped after {limit} s: {}", stderr())));
            }
            How::Cancelled => return Err(failed("its sandbox was destroyed".to_owned())),
        }
        let result = self.result(cx.step, &*sandbox, &staged.folder)?;
        let place = Place::Set(vec!["script_results".to_owned(), self.result_id.clone()]);
        Ok(Output::of(vec![Entry::data(place, result)]))
    }

    fn result(
        &self,
        step: &StepId,
        sandbox: &dyn Sandbox,
        folder: &str,
    ) -> Result<Value, StepError> {
        let read = |name: &str, limit: u64| {
            together::blocking(|| sandbox.read(&format!("{folder}/{name}"), limit))
        };
        if let Some(fault) = read("fault.txt", 1 << 20)? {
            return Err(self.wrong(step, head_of(&fault)));
        }
        let bytes = match read("output.json", MAX_RESULT) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                return Err(self.wrong(step, "the code ended the program, so there is no result"));
            }
            Err(SandboxError::TooLarge { size, limit, .. }) => {
                let what = format!("the result has {size} bytes, more than the limit of {limit}");
                return Err(self.wrong(step, what));
            }
            Err(error) => return Err(error.into()),
        };
        let mut text =
            String::from_utf8(bytes).map_err(|_| self.wrong(step, "the result is not UTF-8"))?;
        if sandbox.isolation() == Isolation::None {
            // Without a wall the code knows its folders by the host's names.
            text = shown(sandbox, &text);
        }
        text.parse()
            .map_err(|error| self.wrong(step, format!("the result is no JSON: {error}")))
    }
}

fn head_of(fault: &[u8]) -> String {
    super::shown::head(&String::from_utf8_lossy(fault), MAX_SHOWN)
}

impl Step for RunCode {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["result_id"] = Value::String(self.result_id.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        vec![(self.room.resource(), Touch::MayMutate)]
    }

    fn artifacts(&self) -> Vec<ArtifactRef> {
        vec![ArtifactRef {
            field: "/script_artifact_id".to_owned(),
            name: self.fields.script_artifact_id.clone(),
            wants: CODE,
            has_version: self.fields.script_artifact_version.is_some(),
        }]
    }

    fn inspects(&self) -> bool {
        true
    }

    fn inspect(&self, content: &Content, _: &str) -> Inspected {
        let mut found = Inspected::default();
        // A kind that is wrong is told by whoever knows where artifacts are named.
        if !CODE.contains(&content.kind) {
            return found;
        }
        let field = match given(&self.fields.script_file) {
            Some(_) => "/script_file",
            None => "/script_artifact_id",
        };
        let (files, entry) = match self.code(content) {
            Ok(code) => code,
            Err(why) => {
                found.refusals.push(
                    Refusal::new("not-python", field, why)
                        .help("name the `.py` file of the artifact in `script_file`"),
                );
                return found;
            }
        };
        let Some(file) = files.into_iter().find(|file| file.path == entry) else {
            return found;
        };
        found.python.push(file.clone());
        let name = &self.fields.entrypoint;
        // One that the file takes from elsewhere, or makes in another way, is named there too.
        let is_elsewhere = |text: &String| {
            text.contains(name.as_str())
                || ["import *", "globals(", "exec(", "setattr("]
                    .iter()
                    .any(|sign| text.contains(sign))
        };
        let text = disk::read_to_string(&file.source).ok();
        if text.is_some_and(|text| !has_placeholder(name) && !is_elsewhere(&text)) {
            let what = format!(
                "`{entry}` of artifact `{}` has no function `{name}`",
                content.name
            );
            let help = format!("add `def {name}(..)`, or name another function in `entrypoint`");
            found
                .refusals
                .push(Refusal::new("unknown-name", field, what).help(help));
        }
        found
    }

    fn reads(&self) -> Vec<NameRef> {
        vec![self.room.read()]
    }

    fn provides(&self) -> Vec<NameRef> {
        let field = if self.fields.result_id.is_some() {
            "/result_id"
        } else {
            ""
        };
        vec![NameRef {
            field: field.to_owned(),
            lookup: Lookup::metadata(&["script_results", &self.result_id]),
        }]
    }

    fn tools(&self) -> &'static [&'static str] {
        &["python3"]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.run_code(cx))
    }
}

#[cfg(test)]
mod tests;
