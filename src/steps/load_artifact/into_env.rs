//! States and files into an env.

use std::collections::BTreeSet;

use super::{FILES, LoadArtifact, Source};
use crate::context::{Entry, Lookup, Output, Place};
use crate::json::{Map, Value, json};
use crate::step::env::LiveEnv;
use crate::step::sandbox::Put;
use crate::step::{ArtifactKind, ArtifactRef, Content, ContentFile, StepCx, StepError};
use crate::steps::target::below;
use crate::steps::{object_url, together, universe};
use crate::system::disk;

/// What is loaded into an env, in the order of the fields.
#[derive(Default)]
struct Plan {
    /// The parts that are the whole state, and where they are from.
    state: Option<(String, Vec<u8>)>,
    puts: Vec<Put>,
    entries: Vec<Entry>,
}

impl LoadArtifact {
    /// Loads a state and files into an env.
    pub(super) async fn load_into_env(
        &self,
        cx: StepCx<'_>,
        name: &str,
    ) -> Result<Output, StepError> {
        let env = cx.env(name)?;
        let mut plan = Plan::default();
        match &self.source {
            Source::Artifacts(refs) => {
                for artifact in refs {
                    self.add_artifact(cx, &*env, artifact, &mut plan)?;
                }
            }
            Source::Collected { step, .. } => {
                let parts = snapshot(cx, &*env, step, &mut plan)?;
                plan.state = Some((format!("the snapshot of step `{step}`"), parts));
            }
        }
        if let Some((from, parts)) = plan.state.take() {
            let size = parts.len();
            env.load(parts).await?;
            cx.note(&format!("loaded {from} into env `{name}`: {size} bytes"));
        }
        if !plan.puts.is_empty() {
            together::blocking(|| env.put(&plan.puts))?;
            let n = plan.puts.len();
            let files = if n == 1 { "file" } else { "files" };
            cx.note(&format!("copied {n} {files} to `{}`", self.destination));
        }
        Ok(Output::of(plan.entries))
    }

    fn add_artifact(
        &self,
        cx: StepCx<'_>,
        env: &dyn LiveEnv,
        artifact: &ArtifactRef,
        plan: &mut Plan,
    ) -> Result<(), StepError> {
        let content = cx
            .services
            .artifact(&artifact.name)
            .ok_or_else(|| StepError::new(format!("there is no artifact `{}`", artifact.name)))?;
        if FILES.contains(&content.kind) {
            self.add_files(env, &content, plan);
            return Ok(());
        }
        if !matches!(
            content.kind,
            ArtifactKind::Environment | ArtifactKind::EnvironmentUniverse
        ) {
            let kind = content.kind.as_str();
            let text = format!(
                "artifact `{}` is of kind `{kind}`, which an env cannot load",
                artifact.name
            );
            return Err(StepError::of("ValueError", text));
        }
        let card_name = universe::name_of(env);
        let file = universe::file_for(&content, &[env.env_id(), &card_name])
            .map_err(|why| StepError::of("ValueError", why))?;
        let bytes = together::blocking(|| disk::read(&file.source))
            .map_err(|error| StepError::new(format!("`{}` cannot be read: {error}", file.path)))?;
        if let Some((other, _)) = &plan.state {
            let text = format!(
                "{other} and artifact `{}` are both the whole state of env `{}`",
                artifact.name,
                env.env_id()
            );
            return Err(StepError::of("ValueError", text));
        }
        let parts = universe::parts_of(&file.path, &bytes);
        plan.state = Some((format!("artifact `{}`", artifact.name), parts));
        if content.kind == ArtifactKind::EnvironmentUniverse {
            plan.entries
                .push(universe_entry(json!(content.id), json!(1)));
        }
        Ok(())
    }

    fn add_files(&self, env: &dyn LiveEnv, content: &Content, plan: &mut Plan) {
        let mut files = Map::new();
        for file in &content.files {
            let to = below(&self.destination, &file.path);
            files.insert(file.path.clone(), Value::from(to.clone()));
            plan.puts.push(Put {
                from: file.source.clone(),
                to,
                mode: if file.executable { 0o755 } else { 0o644 },
            });
        }
        let value = json!({
            "id": content.id,
            "version": 1,
            "artifact_type": content.kind.as_str(),
            "env_id": env.env_id(),
            "agent_name": null,
            "destination_path": self.destination,
            "files": files,
        });
        let place = Place::Append(vec!["loaded_file_artifact_universes".to_owned()]);
        plan.entries.push(Entry::data(place, value));
    }
}

/// Returns the file of an artifact that becomes the state of an env, or why it holds none, as far as that can be told without
/// the name that the env itself goes by.
pub(super) fn state_file<'c>(
    content: &'c Content,
    env_id: &str,
) -> Result<Option<&'c ContentFile>, String> {
    if !matches!(
        content.kind,
        ArtifactKind::Environment | ArtifactKind::EnvironmentUniverse
    ) {
        return Ok(None);
    }
    let folders = content
        .files
        .iter()
        .filter_map(|file| file.path.split_once('/'));
    let folders: BTreeSet<&str> = folders.map(|(folder, _)| folder).collect();
    let is_sure =
        content.kind == ArtifactKind::Environment || folders.len() < 2 || folders.contains(env_id);
    match universe::file_for(content, &[env_id]) {
        Ok(file) if is_sure => Ok(Some(file)),
        Err(why) if is_sure => Err(why),
        _ => Ok(None),
    }
}

fn universe_entry(id: Value, version: Value) -> Entry {
    let place = Place::Append(vec!["loaded_environment_universes".to_owned()]);
    Entry::data(
        place,
        json!({"id": id, "version": version, "restored_from_snapshot": false}),
    )
}

/// Returns the parts that a `snapshot_env` step took of an env.
fn snapshot(
    cx: StepCx<'_>,
    env: &dyn LiveEnv,
    step: &str,
    plan: &mut Plan,
) -> Result<Vec<u8>, StepError> {
    let key = ["env_snapshotted_universes", step];
    let Some(taken) = cx.find(&Lookup::metadata(&key)) else {
        let text = format!("step `{step}` took no snapshot of an env");
        return Err(StepError::new(text));
    };
    let environments = taken.get("environments").and_then(Value::as_object);
    let environments: Vec<(&String, &Value)> = environments.into_iter().flatten().collect();
    let card_name = universe::name_of(env);
    let named = |name: &str| environments.iter().find(|(other, _)| *other == name);
    let found = named(env.env_id()).or_else(|| named(&card_name));
    let found = found.or(match &environments[..] {
        [only] => Some(only),
        _ => None,
    });
    let lost = |what: &str| StepError::new(format!("the snapshot of step `{step}` {what}"));
    let Some((_, environment)) = found else {
        return Err(lost(&format!("has no environment `{}`", env.env_id())));
    };
    let url = environment.get("object_url").and_then(Value::as_str);
    let file = url.and_then(object_url::read);
    let file = file.ok_or_else(|| lost("names no file of the store"))?;
    let path = cx.services.scratch()?.join("snapshot");
    if !cx.services.fetch(&file, &path)? {
        return Err(lost("is not in the store any more"));
    }
    let bytes = together::blocking(|| disk::read(&path))
        .map_err(|error| lost(&format!("cannot be read: {error}")))?;
    plan.entries.push(universe_entry(
        taken["id"].clone(),
        taken["version"].clone(),
    ));
    let name = environment
        .get("file")
        .and_then(Value::as_str)
        .unwrap_or("state.json");
    Ok(universe::parts_of(name, &bytes))
}
