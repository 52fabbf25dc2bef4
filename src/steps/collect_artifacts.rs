//! Copies files out of a sandbox and keeps them.
//!
//! Which files, by the first of these that says something: `artifact_paths` of the run's `step_params`; the paths that
//! the reply of `manifest_step_id` lists; the seed value named by `artifacts_key`, paths with commas between them;
//! `artifact_paths`; else every file below `base_path`. Relative paths are below `base_path`.
//!
//! ```json
//! {
//!   "id": "collect", "type": "collect_artifacts", "sandbox_name": "box",
//!   "base_path": "/app", "artifact_paths": ["report.txt", "charts/q3.png"]
//! }
//! ```
//!
//! A file that is not there is passed over with a note in the log; when none is there, the step fails. Folders and links
//! are no files.
//!
//! # What it gives
//!
//! `metadata.collected_artifacts.<step id>`: the files by path, each with its object URL, and the universe that they are
//! together. `metadata.artifacts` and `metadata.file_artifact_universe` say the same of the collect that is last in the
//! list of steps. When nothing was asked for by name and nothing was found, `collect_produced_files` says what was there
//! instead.
//!
//! An object URL is `aebuild:sha256:<hex>:<size>`: it names bytes, not a place.
//!
//! # What is in its key
//!
//! Its fields, its id, the state of the sandbox, and whichever of reply, seed value and `step_params` it looked at.
//!
//! # Differences to agent-env
//!
//! - Files are copied together, not one after another.
//! - The id of the universe is made of the step's id and the files' content, so two collects never share a version.
//! - A step that fails writes nothing to the context.
//! - `agent_name`, `env_id` and `container_name` are refused, not there yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{DEFAULT_AGENT, Room, Target, below, given};
use super::{object_url, together};
use crate::context::{Entry, Lookup, Output, Place};
use crate::digest::Digest;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::{BoxFuture, Sandbox, SandboxError};
use crate::step::{
    NameRef, Refusal, Step, StepCx, StepError, StepType, StoredFile, read_fields, schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `collect_artifacts`.
pub static TYPE: StepType = StepType {
    name: "collect_artifacts",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("collect_artifacts.rs"),
    schema: OnceLock::new(),
};

/// The most names that are told of what was there instead.
const MAX_NAMES: usize = 100;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The agent from whose sandbox is collected.
    agent_name: Option<String>,
    /// The env from which is collected.
    env_id: Option<String>,
    /// The sandbox from which is collected.
    sandbox_name: Option<String>,
    /// The container in the sandbox from which is collected.
    container_name: Option<String>,
    /// The folder below which relative paths are.
    #[serde(default = "app_artifact")]
    #[schemars(length(min = 1))]
    base_path: String,
    /// The seed value that lists paths.
    #[serde(default = "expected_artifacts")]
    artifacts_key: String,
    /// The paths of the files.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    artifact_paths: Option<Vec<String>>,
    /// The prompt step whose reply lists paths.
    manifest_step_id: Option<String>,
    /// Names of files that are passed over where paths are not given one by one.
    #[serde(default)]
    exclude_basenames: Option<Vec<String>>,
    /// What the id of the universe ends with.
    universe_id_suffix: Option<String>,
}

fn app_artifact() -> String {
    "/app/artifact".to_owned()
}

fn expected_artifacts() -> String {
    "expected_artifacts".to_owned()
}

#[derive(Debug)]
struct CollectArtifacts {
    fields: Fields,
    step: String,
    room: Room,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let target = Target {
        sandbox_name: given(&fields.sandbox_name),
        container_name: given(&fields.container_name),
        agent_name: given(&fields.agent_name),
        env_id: given(&fields.env_id),
    };
    let (room, mut refusals) = match target.room("collects from", Some(DEFAULT_AGENT)) {
        Ok(room) => (Some(room), Vec::new()),
        Err(refusals) => (None, refusals),
    };
    for (at, path) in fields.artifact_paths.iter().flatten().enumerate() {
        if has_dots(path) {
            refusals.push(
                Refusal::new(
                    "path-with-dots",
                    format!("/artifact_paths/{at}"),
                    format!("path `{path}` has `..`"),
                )
                .help("write the path from the sandbox's root"),
            );
        }
    }
    let room = match room {
        Some(room) if refusals.is_empty() => room,
        _ => return Err(refusals),
    };
    Ok(Box::new(CollectArtifacts {
        fields,
        step: step.as_str().to_owned(),
        room,
    }))
}

fn has_dots(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// The files to collect.
struct Wanted {
    /// Paths as they are asked for.
    paths: Vec<String>,
    /// Whether somebody asked for these very paths.
    by_name: bool,
}

/// A file that was kept, or why it was not.
enum Kept {
    File(StoredFile),
    Missing,
    Failed(StepError),
}

impl CollectArtifacts {
    fn is_excluded(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.fields
            .exclude_basenames
            .iter()
            .flatten()
            .any(|other| other == name)
    }

    fn wanted(&self, cx: StepCx<'_>, sandbox: &dyn Sandbox) -> Result<Wanted, StepError> {
        let by_name = |paths| {
            Ok(Wanted {
                paths,
                by_name: true,
            })
        };
        let params = [
            "user_overrides",
            "step_params",
            &self.step,
            "artifact_paths",
        ];
        let overriding = cx.find(&Lookup::metadata(&params));
        if let Some(list) = overriding.as_deref().and_then(Value::as_array) {
            return by_name(
                list.iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            );
        }
        if let Some(step) = given(&self.fields.manifest_step_id) {
            return by_name(self.manifest(cx, step)?);
        }
        if let Some(paths) = self.seeded(cx) {
            return by_name(paths);
        }
        if let Some(paths) = self
            .fields
            .artifact_paths
            .as_ref()
            .filter(|list| !list.is_empty())
        {
            return by_name(paths.clone());
        }
        let base = &self.fields.base_path;
        let files = match together::blocking(|| sandbox.list(base)) {
            Ok(files) => files,
            Err(SandboxError::NoSuchPath { .. }) => {
                cx.note(&format!("there is no folder `{base}`"));
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        let paths = files.into_iter().map(|file| file.path);
        let paths = paths.filter(|path| !self.is_excluded(path)).collect();
        Ok(Wanted {
            paths,
            by_name: false,
        })
    }

    /// Returns the paths that the reply of a step lists.
    fn manifest(&self, cx: StepCx<'_>, step: &str) -> Result<Vec<String>, StepError> {
        let reply = cx.find(&Lookup::Prompt(step.to_owned()));
        let listed = reply.as_deref().and_then(|reply| {
            reply
                .get("structured_output")?
                .get("artifacts")?
                .as_object()
        });
        let listed = listed.ok_or_else(|| {
            StepError::new(format!("the reply of step `{step}` lists no artifacts"))
        })?;
        let mut paths = Vec::new();
        for (name, path) in listed {
            match path.as_str() {
                Some(path) if path.starts_with('/') && !path.contains(['*', '?', '[']) => {
                    if !self.is_excluded(path) {
                        paths.push(path.to_owned());
                    }
                }
                _ => cx.note(&format!(
                    "`{name}` in the reply of `{step}` is {path}, no whole path, and is passed over"
                )),
            }
        }
        if paths.is_empty() {
            return Err(StepError::new(format!(
                "the reply of step `{step}` lists no file to collect"
            )));
        }
        Ok(paths)
    }

    /// Returns the paths that a seed value lists.
    fn seeded(&self, cx: StepCx<'_>) -> Option<Vec<String>> {
        let value = cx.find(&Lookup::metadata(&["seed", &self.fields.artifacts_key]))?;
        let paths: Vec<String> = value
            .as_str()?
            .split(',')
            .map(str::trim)
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect();
        (!paths.is_empty()).then_some(paths)
    }

    fn collect(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let sandbox = self.room.open(cx)?;
        let wanted = self.wanted(cx, &*sandbox)?;
        let mut names: BTreeSet<String> = BTreeSet::new();
        for path in &wanted.paths {
            if path.contains("://") {
                cx.note(&format!("`{path}` is a URL and is passed over"));
            } else {
                let path = path.strip_prefix("./").unwrap_or(path);
                names.insert(path.to_owned());
            }
        }
        let names: Vec<String> = names.into_iter().collect();
        let scratch = cx.services.scratch()?;
        let kept = together::blocking(|| {
            together::each(&names, |at, name| {
                if has_dots(name) {
                    return Kept::Failed(StepError::of(
                        "ValueError",
                        format!("path `{name}` has `..`"),
                    ));
                }
                let path = below(&self.fields.base_path, name);
                let to = scratch.join(at.to_string());
                match sandbox.fetch(&path, &to) {
                    Err(SandboxError::NoSuchPath { .. }) => Kept::Missing,
                    Err(error) => Kept::Failed(error.into()),
                    Ok(_) => match cx.services.keep_file(&to) {
                        Ok(file) => Kept::File(file),
                        Err(error) => Kept::Failed(error),
                    },
                }
            })
        });
        let mut files = BTreeMap::new();
        let mut faults = Vec::new();
        for (name, kept) in names.iter().zip(kept) {
            match kept {
                Kept::File(file) => {
                    files.insert(name.trim_start_matches('/').to_owned(), file);
                }
                Kept::Missing => {
                    let path = below(&self.fields.base_path, name);
                    cx.note(&format!("there is no file `{path}`"));
                }
                Kept::Failed(error) => faults.push(error),
            }
        }
        match faults.len() {
            0 => {}
            1 => return Err(faults.remove(0)),
            n => {
                let texts: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
                let message = format!("{n} files could not be collected: {}", texts.join("; "));
                return Err(StepError::of(faults[0].kind, message));
            }
        }
        if files.is_empty() && wanted.by_name {
            let base = &self.fields.base_path;
            return Err(StepError::new(match &names[..] {
                [] => "nothing that was asked for is a file of the sandbox".to_owned(),
                [one] => format!("there is no file `{}` in the sandbox", below(base, one)),
                many => format!(
                    "none of the {} files is there, the first being `{}`",
                    many.len(),
                    below(base, &many[0])
                ),
            }));
        }
        Ok(Output::of(self.entries(cx, &*sandbox, &files)?))
    }

    fn entries(
        &self,
        cx: StepCx<'_>,
        sandbox: &dyn Sandbox,
        files: &BTreeMap<String, StoredFile>,
    ) -> Result<Vec<Entry>, StepError> {
        let urls: Map<String, Value> = files
            .iter()
            .map(|(path, file)| (path.clone(), Value::String(object_url::of(file))))
            .collect();
        let urls = Value::Object(urls);
        let universe = if files.is_empty() {
            Value::Null
        } else {
            let suffix = self.fields.universe_id_suffix.as_deref().unwrap_or("");
            let digest = Digest::of_value(&urls).short();
            json!({"id": format!("@local/collected/{}{suffix}-{digest}", self.step), "version": 1})
        };
        let set = |path: &[&str], value: Value| {
            Entry::data(
                Place::Set(path.iter().map(|&part| part.to_owned()).collect()),
                value,
            )
        };
        let collected = json!({"artifacts": urls, "file_artifact_universe": universe});
        let mut entries = vec![
            set(&["artifacts"], urls),
            set(&["collected_artifacts", &self.step], collected),
            set(&["file_artifact_universe"], universe),
        ];
        if files.is_empty() {
            let base = &self.fields.base_path;
            let found = match together::blocking(|| sandbox.list(base)) {
                Ok(found) => found,
                Err(SandboxError::NoSuchPath { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            let top = |path: &str| path.split('/').next().unwrap_or(path).to_owned();
            let names: BTreeSet<String> = found.iter().map(|file| top(&file.path)).collect();
            let names: Vec<String> = names.into_iter().take(MAX_NAMES).collect();
            let value = json!({"step_id": self.step, "base_path": base, "files": names});
            entries.push(set(&["collect_produced_files"], value));
        }
        cx.note(&format!("kept {} of the sandbox's files", files.len()));
        Ok(entries)
    }
}

impl Step for CollectArtifacts {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = Value::String(self.step.clone());
        if let Room::Sandbox(_) = self.room {
            // Filled in by the original where nothing is written.
            fields["agent_name"] = Value::Null;
        }
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        vec![(self.room.resource(), Touch::Observes)]
    }

    fn reads(&self) -> Vec<NameRef> {
        let mut reads = vec![self.room.read()];
        if let Some(step) = given(&self.fields.manifest_step_id) {
            reads.push(NameRef {
                field: "/manifest_step_id".to_owned(),
                lookup: Lookup::Prompt(step.to_owned()),
            });
        }
        reads
    }

    fn reads_are_all(&self) -> bool {
        true
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![NameRef {
            field: String::new(),
            lookup: Lookup::metadata(&["collected_artifacts", &self.step]),
        }]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(async move { self.collect(cx) })
    }
}

#[cfg(test)]
mod tests;
