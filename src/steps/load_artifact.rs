//! Copies the files of artifacts into a sandbox.
//!
//! An artifact is a folder below `artifacts/` of the task folder, or what a `collect_artifacts` step kept. Its files go
//! below `destination_path`, under the paths that they have in the artifact, all of them at once.
//!
//! ```json
//! {"id": "load", "type": "load_artifact", "sandbox_name": "box", "artifact_id": "greeting", "depends_on": ["box"]}
//! ```
//!
//! What one sandbox made goes into another one by way of the step that collected it:
//!
//! ```json
//! {"id": "handoff", "type": "load_artifact", "sandbox_name": "bench", "artifact_from_step_id": "collect"}
//! ```
//!
//! # What it gives
//!
//! One entry in `metadata.loaded_file_artifact_universes` for each artifact.
//!
//! # What is in its key
//!
//! Its fields, and the name, content and execute bit of each file; not the times or owners of files. Of what a step
//! collected, the files that it collected.
//!
//! # Effects
//!
//! Changes the sandbox: files are added, and a file that was in the way is replaced.
//!
//! # Differences to agent-env
//!
//! - Files are copied together, not one after another.
//! - A file that two artifacts of the step both have is refused; in `agent-env` the last one wins.
//! - Artifacts of the kinds `environment`, `environment_universe` and `cli`, `urls`, and the targets `env_id` and
//!   `agent_name` are refused, not there yet.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{CONFLICT, MISSING, NOT_YET, Target, below, given};
use super::{object_url, together};
use crate::context::{Entry, Lookup, Output, Place};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::{BoxFuture, Put};
use crate::step::{
    ArtifactKind, ArtifactRef, NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields,
    schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `load_artifact`.
pub static TYPE: StepType = StepType {
    name: "load_artifact",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("load_artifact.rs"),
    schema: OnceLock::new(),
};

/// Where files go when the step does not say.
const DESTINATION: &str = "/loaded";

/// The kinds of artifacts that are files.
const FILES: &[ArtifactKind] = &[ArtifactKind::File, ArtifactKind::FileUniverse];

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env to load into.
    env_id: Option<String>,
    /// The step that deployed the env to load into.
    env_step_id: Option<String>,
    /// The artifacts to load.
    artifacts: Option<Vec<Wanted>>,
    /// The one artifact to load, in place of `artifacts`.
    artifact_id: Option<String>,
    /// The version of `artifact_id`.
    artifact_version: Option<u64>,
    /// Files of the web to load.
    urls: Option<Vec<Url>>,
    /// The older spelling of `artifact_from_step_id`.
    collected_artifacts_step_id: Option<String>,
    /// The `collect_artifacts` step whose files are loaded.
    artifact_from_step_id: Option<String>,
    /// The folder that the files go to; `/loaded` where absent.
    destination_path: Option<String>,
    /// The agent to load for.
    agent_name: Option<String>,
    /// The sandbox to load into.
    sandbox_name: Option<String>,
    /// The container in the sandbox to load into.
    container_name: Option<String>,
    /// Whether an env's state is kept after loading.
    snapshot_after_load: Option<bool>,
}

/// An artifact to load.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The name or id of the artifact.
    #[schemars(length(min = 1))]
    id: String,
    /// The version; one of the task folder has none.
    version: Option<u64>,
}

/// A file of the web.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Url {
    /// The URL, which also names the file.
    Plain(String),
    /// The URL and the name of the file.
    Named {
        /// The URL.
        url: String,
        /// The name of the file.
        filename: Option<String>,
    },
}

#[derive(Debug)]
struct LoadArtifact {
    fields: Fields,
    sandbox: String,
    destination: String,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Artifacts(Vec<ArtifactRef>),
    Collected { field: &'static str, step: String },
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let target = Target {
        sandbox_name: given(&fields.sandbox_name),
        container_name: given(&fields.container_name),
        agent_name: given(&fields.agent_name),
        env_id: given(&fields.env_id).or(given(&fields.env_step_id)),
    };
    let mut refusals = target.refusals("loads into");
    if fields.env_id.is_none()
        && fields.env_step_id.is_some()
        && let Some(refusal) = refusals.first_mut()
    {
        refusal.field = "/env_step_id".to_owned();
    }
    if fields.urls.as_ref().is_some_and(|urls| !urls.is_empty()) {
        refusals.push(
            Refusal::new(
                NOT_YET,
                "/urls",
                "files of the web cannot be loaded in this release",
            )
            .help("put the files into a folder below `artifacts/` and name it in `artifact_id`"),
        );
    }
    let destination = given(&fields.destination_path)
        .unwrap_or(DESTINATION)
        .to_owned();
    if destination.split('/').any(|part| part == "..") {
        refusals.push(
            Refusal::new(
                "path-with-dots",
                "/destination_path",
                format!("path `{destination}` has `..`"),
            )
            .help("write the path without it"),
        );
    }
    match source(&fields) {
        Ok(source) if refusals.is_empty() => {
            let sandbox = fields.sandbox_name.clone().unwrap_or_default();
            Ok(Box::new(LoadArtifact {
                fields,
                sandbox,
                destination,
                source,
            }))
        }
        Ok(_) => Err(refusals),
        Err(refusal) => {
            // Who wanted files of the web has been told already.
            if fields.urls.as_ref().is_none_or(Vec::is_empty) || refusal.code == CONFLICT {
                refusals.push(refusal);
            }
            Err(refusals)
        }
    }
}

/// Returns what the step loads, or why that cannot be told.
fn source(fields: &Fields) -> Result<Source, Refusal> {
    let mut steps = Vec::new();
    if let Some(step) = given(&fields.artifact_from_step_id) {
        steps.push(("/artifact_from_step_id", step));
    }
    if let Some(step) = given(&fields.collected_artifacts_step_id) {
        steps.push(("/collected_artifacts_step_id", step));
    }
    let listed = fields.artifacts.as_ref().filter(|list| !list.is_empty());
    let one = given(&fields.artifact_id);
    let conflict = |field: &str, a: &str, b: &str| {
        Refusal::new(
            CONFLICT,
            field,
            format!("the step has both `{a}` and `{b}`"),
        )
        .help(format!("delete one of `{a}` and `{b}`"))
    };
    let mut refs = Vec::new();
    match (listed, one) {
        (Some(_), Some(_)) => return Err(conflict("/artifact_id", "artifacts", "artifact_id")),
        (Some(list), None) => {
            for (at, wanted) in list.iter().enumerate() {
                let has_version = wanted.version.is_some();
                refs.push(artifact_ref(
                    format!("/artifacts/{at}/id"),
                    &wanted.id,
                    has_version,
                ));
            }
        }
        (None, Some(name)) => {
            let has_version = fields.artifact_version.is_some();
            refs.push(artifact_ref("/artifact_id".to_owned(), name, has_version));
        }
        (None, None) => {}
    }
    match (refs.is_empty(), &steps[..]) {
        (false, []) => Ok(Source::Artifacts(refs)),
        (true, &[(field, step)]) => Ok(Source::Collected {
            field,
            step: step.to_owned(),
        }),
        (true, []) => Err(
            Refusal::new(MISSING, "", "the step does not say what it loads")
                .help("add \"artifact_id\": \"..\" with the name of a folder below `artifacts/`"),
        ),
        (true, [_, (field, _), ..]) => Err(conflict(
            field,
            "artifact_from_step_id",
            "collected_artifacts_step_id",
        )),
        (false, [(field, _), ..]) => {
            let other = if one.is_some() {
                "artifact_id"
            } else {
                "artifacts"
            };
            Err(conflict(field, &field[1..], other))
        }
    }
}

fn artifact_ref(field: String, name: &str, has_version: bool) -> ArtifactRef {
    ArtifactRef {
        field,
        name: name.to_owned(),
        wants: FILES,
        has_version,
    }
}

/// One artifact, ready to be copied.
struct Load {
    id: Value,
    version: Value,
    kind: &'static str,
    /// The paths of the files in the artifact.
    files: Vec<String>,
}

impl LoadArtifact {
    fn loads_of_folder(
        &self,
        cx: StepCx<'_>,
        refs: &[ArtifactRef],
    ) -> Result<(Vec<Load>, Vec<Put>), StepError> {
        let (mut loads, mut puts) = (Vec::new(), Vec::new());
        for artifact in refs {
            let content = cx.services.artifact(&artifact.name).ok_or_else(|| {
                StepError::new(format!("there is no artifact `{}`", artifact.name))
            })?;
            if !FILES.contains(&content.kind) {
                return Err(StepError::of(
                    "ValueError",
                    format!(
                        "artifact `{}` is of kind `{}`, which cannot be loaded in this release; kinds that can are `file` and `file_artifact_universe`",
                        artifact.name,
                        content.kind.as_str(),
                    ),
                ));
            }
            for file in &content.files {
                puts.push(Put {
                    from: file.source.clone(),
                    to: below(&self.destination, &file.path),
                    mode: if file.executable { 0o755 } else { 0o644 },
                });
            }
            loads.push(Load {
                id: Value::String(content.id.clone()),
                // What a folder holds has one version: a store's numbers count writes, and nothing is written.
                version: Value::from(1),
                kind: content.kind.as_str(),
                files: content.files.iter().map(|file| file.path.clone()).collect(),
            });
        }
        Ok((loads, puts))
    }

    fn loads_of_step(
        &self,
        cx: StepCx<'_>,
        step: &str,
    ) -> Result<(Vec<Load>, Vec<Put>), StepError> {
        let Some(collected) = cx.find(&Lookup::metadata(&["collected_artifacts", step])) else {
            let snapshot = cx.find(&Lookup::metadata(&["env_snapshotted_universes", step]));
            let has = if snapshot.is_some() {
                "left the snapshot of an env, which a sandbox cannot load"
            } else {
                "left nothing to load"
            };
            return Err(StepError::new(format!("step `{step}` {has}")));
        };
        let universe = &collected["file_artifact_universe"];
        let artifacts = collected["artifacts"].as_object();
        let Some(artifacts) = artifacts.filter(|files| !files.is_empty() && !universe.is_null())
        else {
            cx.note(&format!(
                "step `{step}` collected no file, so nothing is loaded"
            ));
            return Ok((Vec::new(), Vec::new()));
        };
        let scratch = cx.services.scratch()?;
        let mut puts = Vec::new();
        let mut stored = Vec::new();
        for (at, (path, url)) in artifacts.iter().enumerate() {
            let file = url.as_str().and_then(object_url::read).ok_or_else(|| {
                StepError::of("ValueError", format!("`{path}` that step `{step}` collected is at {url}, which is no file of the store"))
            })?;
            if path.split('/').any(|part| part == "..") {
                return Err(StepError::of(
                    "ValueError",
                    format!("path `{path}` that step `{step}` collected has `..`"),
                ));
            }
            let from = scratch.join(at.to_string());
            stored.push((path, file, from.clone()));
            puts.push(Put {
                from,
                to: below(&self.destination, path),
                mode: 0o644,
            });
        }
        let fetched = together::blocking(|| {
            together::each(&stored, |_, (path, file, to)| {
                match cx.services.fetch(file, to) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(StepError::new(format!(
                        "the store has lost `{path}` that step `{step}` collected"
                    ))),
                    Err(error) => Err(error),
                }
            })
        });
        fetched.into_iter().collect::<Result<(), StepError>>()?;
        let load = Load {
            id: universe["id"].clone(),
            version: universe["version"].clone(),
            kind: ArtifactKind::FileUniverse.as_str(),
            files: artifacts.keys().cloned().collect(),
        };
        Ok((vec![load], puts))
    }

    async fn load(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let sandbox = cx.sandbox(&self.sandbox)?;
        let (loads, puts) = match &self.source {
            Source::Artifacts(refs) => self.loads_of_folder(cx, refs)?,
            Source::Collected { step, .. } => self.loads_of_step(cx, step)?,
        };
        let mut seen = BTreeMap::new();
        for put in &puts {
            if let Some(other) = seen.insert(&put.to, &put.from)
                && other != &put.from
            {
                let message = format!("two of the files go to `{}`", put.to);
                return Err(StepError::of("ValueError", message));
            }
        }
        let n = puts.len();
        if n > 0 {
            together::blocking(|| sandbox.put(&puts))?;
            let files = if n == 1 { "file" } else { "files" };
            cx.note(&format!("copied {n} {files} to `{}`", self.destination));
        }
        let place = Place::Append(vec!["loaded_file_artifact_universes".to_owned()]);
        let entry = |load: Load| {
            let value = json!({
                "id": load.id,
                "version": load.version,
                "artifact_type": load.kind,
                "env_id": null,
                "agent_name": null,
                "sandbox_name": self.sandbox,
                "container_name": null,
                "destination_path": self.destination,
                "files": load.files,
            });
            Entry::data(place.clone(), value)
        };
        Ok(Output::of(loads.into_iter().map(entry).collect()))
    }
}

impl Step for LoadArtifact {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["destination_path"] = Value::String(self.destination.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        vec![(ResourceId::sandbox(&self.sandbox), Touch::Mutates)]
    }

    fn artifacts(&self) -> Vec<ArtifactRef> {
        match &self.source {
            Source::Artifacts(refs) => refs.clone(),
            Source::Collected { .. } => Vec::new(),
        }
    }

    fn reads(&self) -> Vec<NameRef> {
        let mut reads = vec![NameRef {
            field: "/sandbox_name".to_owned(),
            lookup: Lookup::Sandbox(self.sandbox.clone()),
        }];
        if let Source::Collected { field, step } = &self.source {
            reads.push(NameRef {
                field: (*field).to_owned(),
                lookup: Lookup::metadata(&["collected_artifacts", step]),
            });
        }
        reads
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.load(cx))
    }
}

#[cfg(test)]
mod tests;
