//! Files into a sandbox.

use std::collections::BTreeMap;

use super::{FILES, LoadArtifact, Source};
use crate::context::{Entry, Lookup, Output, Place};
use crate::json::{Value, json};
use crate::step::sandbox::Put;
use crate::step::{ArtifactKind, ArtifactRef, StepCx, StepError};
use crate::steps::target::{Room, below};
use crate::steps::{object_url, together};

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

    /// Copies files into a sandbox.
    pub(super) async fn load_into_room(
        &self,
        cx: StepCx<'_>,
        room: &Room,
    ) -> Result<Output, StepError> {
        let sandbox = room.open(cx)?;
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
        let (agent, sandbox) = match room {
            Room::Agent(name) => (Some(name), None),
            Room::Sandbox(name) => (None, Some(name)),
        };
        let entry = |load: Load| {
            let files = match agent {
                // A path for each name, as for an env.
                Some(_) => {
                    let path =
                        |file: &String| (file.clone(), below(&self.destination, file).into());
                    Value::Object(load.files.iter().map(path).collect())
                }
                None => json!(load.files),
            };
            let value = json!({
                "id": load.id,
                "version": load.version,
                "artifact_type": load.kind,
                "env_id": null,
                "agent_name": agent,
                "sandbox_name": sandbox,
                "container_name": null,
                "destination_path": self.destination,
                "files": files,
            });
            Entry::data(place.clone(), value)
        };
        Ok(Output::of(loads.into_iter().map(entry).collect()))
    }
}
