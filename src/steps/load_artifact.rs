//! Loads artifacts into an env, or copies their files into a sandbox.
//!
//! An artifact is a folder below `artifacts/` of the task folder, what a `collect_artifacts` step kept, or the state that a
//! `snapshot_env` step took.
//!
//! ```json
//! {"id": "inbox", "type": "load_artifact", "env_id": "email", "artifact_id": "danas-mail", "depends_on": ["email"]}
//! ```
//!
//! Into an env, an artifact of the kind `environment` is loaded as its whole state, in place of what was there: by
//! `data/reset` and `data/add` of its data plane. A `.json` file with an object goes as one data part, another file as a
//! file part. Of an `environment_universe` the environment is loaded that goes by the name of the env. Files of other
//! artifacts are copied to where the env's server runs.
//!
//! Into a sandbox, files go below `destination_path`, under the paths that they have in the artifact, all of them at once.
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
//! One entry in `metadata.loaded_file_artifact_universes` for each artifact of files, and one in
//! `metadata.loaded_environment_universes` for each universe of environments. A single environment is in the env and
//! nowhere else.
//!
//! # What is in its key
//!
//! Its fields, and the name, content and execute bit of each file; not the times or owners of files. Of what a step
//! collected, the files that it collected.
//!
//! # Effects
//!
//! Changes the env or the sandbox: a state or files are added, and what was in the way is replaced.
//!
//! # Differences to agent-env
//!
//! - Files are copied together, not one after another.
//! - A file that two artifacts of the step both have is refused; in `agent-env` the last one wins.
//! - Two artifacts that are both the whole state of one env are refused; in `agent-env` the last one wins.
//! - Artifacts of the kind `cli`, `urls`, and the target `agent_name` are refused, not there yet.
//! - `snapshot_after_load` changes nothing: the state after the step is kept whatever it says.

mod into_env;
mod into_sandbox;

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{CONFLICT, MISSING, NOT_YET, Room, Target, given};
use crate::context::{Lookup, Output};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{
    ArtifactKind, ArtifactRef, Content, Inspected, NameRef, Refusal, Step, StepCx, StepError,
    StepType, read_fields, schema_of,
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

/// Where files go in a sandbox when the step does not say.
const DESTINATION: &str = "/loaded";

/// Where files go in an env or for an agent when the step does not say.
const STAGED: &str = "/tmp/file_artifacts";

/// The kinds of artifacts that are files.
const FILES: &[ArtifactKind] = &[ArtifactKind::File, ArtifactKind::FileUniverse];

/// The kinds of artifacts that an env takes.
const FOR_ENV: &[ArtifactKind] = &[
    ArtifactKind::Environment,
    ArtifactKind::EnvironmentUniverse,
    ArtifactKind::File,
    ArtifactKind::FileUniverse,
];

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
    /// The folder that files go to; `/loaded` where absent, `/tmp/file_artifacts` in an env.
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
    into: Into,
    destination: String,
    source: Source,
}

/// What the step loads into.
#[derive(Debug)]
enum Into {
    Room(Room),
    Env(String),
}

#[derive(Debug)]
enum Source {
    Artifacts(Vec<ArtifactRef>),
    Collected { field: &'static str, step: String },
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let sandbox = given(&fields.sandbox_name);
    let env = given(&fields.env_id);
    let target = Target {
        sandbox_name: sandbox,
        container_name: given(&fields.container_name),
        agent_name: given(&fields.agent_name),
        env_id: None,
    };
    let mut room = None;
    let mut refusals = match (env, sandbox) {
        (Some(_), Some(_)) => vec![
            Refusal::new(
                CONFLICT,
                "/env_id",
                "the step loads both into an env and into a sandbox",
            )
            .help("delete `env_id` or `sandbox_name`"),
        ],
        (Some(_), None) if target.agent_name.is_none() && target.container_name.is_none() => {
            Vec::new()
        }
        (None, None) if given(&fields.env_step_id).is_some() => vec![
            Refusal::new(
                NOT_YET,
                "/env_step_id",
                "an env cannot be found by the step that deployed it alone",
            )
            .help("add \"env_id\": \"..\" with the env's id"),
        ],
        (Some(_), None) => vec![
            Refusal::new(
                CONFLICT,
                "/env_id",
                "the step loads both into an env and somewhere else",
            )
            .help("delete `env_id`, or `agent_name` and `container_name`"),
        ],
        (None, _) => match target.room("loads into", None) {
            Ok(found) => {
                room = Some(found);
                Vec::new()
            }
            Err(refusals) => refusals,
        },
    };
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
    let usual = match (env, &room) {
        (Some(_), _) | (None, Some(Room::Agent(_))) => STAGED,
        _ => DESTINATION,
    };
    let destination = given(&fields.destination_path).unwrap_or(usual).to_owned();
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
    let wants = if env.is_some() { FOR_ENV } else { FILES };
    match source(&fields, wants) {
        Ok(source) if refusals.is_empty() => {
            let into = match (env, room) {
                (None, Some(room)) => Into::Room(room),
                (env, _) => Into::Env(env.unwrap_or_default().to_owned()),
            };
            Ok(Box::new(LoadArtifact {
                fields,
                into,
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
fn source(fields: &Fields, wants: &'static [ArtifactKind]) -> Result<Source, Refusal> {
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
                    wants,
                ));
            }
        }
        (None, Some(name)) => {
            let has_version = fields.artifact_version.is_some();
            refs.push(artifact_ref(
                "/artifact_id".to_owned(),
                name,
                has_version,
                wants,
            ));
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

fn artifact_ref(
    field: String,
    name: &str,
    has_version: bool,
    wants: &'static [ArtifactKind],
) -> ArtifactRef {
    ArtifactRef {
        field,
        name: name.to_owned(),
        wants,
        has_version,
    }
}

impl Step for LoadArtifact {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["destination_path"] = Value::String(self.destination.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        let resource = match &self.into {
            Into::Room(room) => room.resource(),
            Into::Env(name) => ResourceId::env(name),
        };
        vec![(resource, Touch::Mutates)]
    }

    fn artifacts(&self) -> Vec<ArtifactRef> {
        match &self.source {
            Source::Artifacts(refs) => refs.clone(),
            Source::Collected { .. } => Vec::new(),
        }
    }

    fn inspects(&self) -> bool {
        matches!(
            (&self.into, &self.source),
            (Into::Env(_), Source::Artifacts(_))
        )
    }

    fn inspect(&self, content: &Content, _shown: &str) -> Inspected {
        let mut found = Inspected::default();
        let (Into::Env(env_id), Source::Artifacts(refs)) = (&self.into, &self.source) else {
            return found;
        };
        match into_env::state_file(content, env_id) {
            Ok(file) => found.state = file.map(|file| (env_id.clone(), file.clone())),
            Err(why) => {
                let is_it = |one: &&ArtifactRef| one.name == content.name || one.name == content.id;
                let field = refs.iter().find(is_it).map_or("", |one| &one.field);
                let refusal = Refusal::new("wrong-number-of-files", field, why);
                found.refusals.push(refusal);
            }
        }
        found
    }

    fn reads(&self) -> Vec<NameRef> {
        let (read, key) = match &self.into {
            Into::Room(room) => (room.read(), "collected_artifacts"),
            Into::Env(name) => {
                let read = NameRef {
                    field: "/env_id".to_owned(),
                    lookup: Lookup::Env(name.clone()),
                };
                (read, "env_snapshotted_universes")
            }
        };
        let mut reads = vec![read];
        if let Source::Collected { field, step } = &self.source {
            reads.push(NameRef {
                field: (*field).to_owned(),
                lookup: Lookup::metadata(&[key, step]),
            });
        }
        reads
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        match &self.into {
            Into::Room(room) => Box::pin(self.load_into_room(cx, room)),
            Into::Env(name) => Box::pin(self.load_into_env(cx, name)),
        }
    }
}

#[cfg(test)]
mod tests;
