//! Where a name is made.

use std::path::PathBuf;

use super::names::{Name, Noun, Site, names_at, sites};
use super::{Scene, inside, text};
use crate::diagnostic::Span;
use crate::task::folder::{Artifact, Definition};

/// A place that makes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A place in the same file.
    Here(Span),
    /// A file.
    File(PathBuf),
    /// A table of `aebuild.toml`, by the keys that lead to it.
    Config([String; 2]),
}

/// Returns what stands at an offset, and where that is made.
pub fn definitions(scene: &Scene<'_>, offset: usize) -> Option<(Span, Vec<Target>)> {
    if let Some(found) = script_file(scene, offset) {
        return Some(found);
    }
    let names = names_at(scene, offset);
    let span = names.first()?.span;
    let all = sites(scene);
    let mut found = Vec::new();
    // Who stands at a maker wants to go on from there.
    for site in &names {
        let makers = all
            .iter()
            .filter(|maker| maker.makes && maker.name == site.name);
        for maker in makers.filter(|maker| maker.span != span) {
            push(&mut found, Target::Here(maker.span));
        }
    }
    for site in &names {
        for target in targets(scene, &site.name, &all) {
            push(&mut found, target);
        }
    }
    if found.is_empty() && names.iter().any(|site| site.makes) {
        found.push(Target::Here(span));
    }
    Some((span, found))
}

fn push(found: &mut Vec<Target>, target: Target) {
    if !found.contains(&target) {
        found.push(target);
    }
}

/// Returns the places outside a task file that say what has a name.
pub fn targets(scene: &Scene<'_>, name: &Name, all: &[Site]) -> Vec<Target> {
    let (folder, config) = (scene.folder, scene.config);
    let text = name.text.as_str();
    let mut found = Vec::new();
    match name.noun {
        Noun::Env => {
            found.extend(
                folder
                    .env(text)
                    .and_then(|env| settings(scene, env, "env.toml")),
            );
            if config.envs.contains_key(text) {
                found.push(Target::Config(["envs".to_owned(), text.to_owned()]));
            }
        }
        Noun::AgentFolder => {
            let agent = folder.agent(text);
            found.extend(agent.and_then(|agent| settings(scene, agent, "agent.toml")));
            if config.agents.contains_key(text) {
                found.push(Target::Config(["agents".to_owned(), text.to_owned()]));
            }
        }
        Noun::Agent => {
            // What an agent of the task is, its maker says.
            let maker = all.iter().find(|site| site.makes && site.name == *name);
            let of_maker = |maker: &Site| {
                let site = all
                    .iter()
                    .find(|site| site.step == maker.step && site.name.noun == Noun::AgentFolder);
                site.map(|site| site.name.clone())
            };
            if let Some(folder) = maker.and_then(of_maker) {
                found.extend(targets(scene, &folder, all));
            }
        }
        Noun::Artifact => {
            found.extend(
                folder
                    .artifact(text)
                    .and_then(|artifact| content(scene, artifact)),
            );
        }
        Noun::Model if config.models.contains_key(text) => {
            found.push(Target::Config(["models".to_owned(), text.to_owned()]));
        }
        Noun::Model | Noun::Step | Noun::Sandbox | Noun::Prompt | Noun::Verifier => {}
    }
    found
}

/// Returns the file that says what an env or agent is.
fn settings(scene: &Scene<'_>, definition: &Definition, file: &str) -> Option<Target> {
    let path = definition.folder.join(file);
    if scene.folder.config_files.contains(&path) {
        return Some(Target::File(path));
    }
    let first = definition.files.first()?;
    Some(Target::File(first.source.clone()))
}

/// Returns the file of an artifact, else the one that says what it is, else its first.
fn content(scene: &Scene<'_>, artifact: &Artifact) -> Option<Target> {
    let skill = artifact.files.iter().find(|file| file.path == "SKILL.md");
    if let (Some(file), _) | (None, [file]) = (skill, &artifact.files[..]) {
        return Some(Target::File(file.source.clone()));
    }
    let path = artifact.folder.join("artifact.toml");
    if scene.folder.config_files.contains(&path) {
        return Some(Target::File(path));
    }
    Some(Target::File(artifact.files.first()?.source.clone()))
}

/// Returns the file of an artifact that `script_file` names.
fn script_file(scene: &Scene<'_>, offset: usize) -> Option<(Span, Vec<Target>)> {
    let found = scene.node_at(offset)?;
    if found.kind() != "run_code" || found.keys != ["script_file"] || found.key_span.is_some() {
        return None;
    }
    let wanted = found.node.as_str()?;
    let artifact = scene
        .folder
        .artifact(text(found.step, "script_artifact_id"))?;
    let file = artifact.files.iter().find(|file| file.path == wanted)?;
    let span = inside(scene.source, found.node.span);
    Some((span, vec![Target::File(file.source.clone())]))
}
