//! Another name for something, everywhere it is named.

use std::collections::BTreeSet;

use super::complete::quoted;
use super::names::{Name, Noun, Site, names_at, sites};
use super::{Replacement, Scene, inside};
use crate::diagnostic::Span;
use crate::task::parse::names::{fault_of_id, fault_of_name};

/// What a rename does in the file where it was asked for, and what is left for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The edits of the file, in the order of the text.
    pub edits: Vec<Replacement>,
    /// The names that are the folder's: the other tasks and TOML files of the folder name them too.
    pub shared: Vec<Name>,
}

/// Why something cannot get another name, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Returns the bytes of the name at an offset, if it can get another.
pub fn is_name(scene: &Scene<'_>, offset: usize) -> Result<Option<Span>, Refused> {
    let names = names_at(scene, offset);
    let Some(first) = names.first() else {
        return Ok(None);
    };
    let all = sites(scene);
    same(scene, &names, &all).map(|_| Some(first.span))
}

/// Gives what is named at an offset another name.
pub fn rename(scene: &Scene<'_>, offset: usize, to: &str) -> Result<Option<Rename>, Refused> {
    let names = names_at(scene, offset);
    let Some(first) = names.first() else {
        return Ok(None);
    };
    let all = sites(scene);
    let (renamed, shared) = same(scene, &names, &all)?;
    let is_step = renamed.iter().any(|name| name.noun == Noun::Step);
    let fault = match is_step {
        true => fault_of_id(to),
        false => fault_of_name(to),
    };
    if let Some(fault) = fault {
        return Err(Refused(format!("`{to}` {fault}: {}", fault.help())));
    }
    if to == first.name.text {
        return Ok(Some(Rename {
            edits: Vec::new(),
            shared,
        }));
    }
    for name in &renamed {
        let other = Name::new(name.noun, to);
        if let Some(taken) = all.iter().find(|site| site.name == other && site.makes) {
            let steps = scene.root.as_array().unwrap_or_default();
            let step = steps
                .get(taken.step)
                .map_or("", |step| super::text(step, "id"));
            let noun = name.noun.as_str();
            return Err(Refused(match name.noun {
                Noun::Step => format!("there is a step `{to}` already"),
                _ => format!("step `{step}` makes {noun} `{to}` already"),
            }));
        }
    }
    let edits = edits(&all, &renamed, to);
    Ok(Some(Rename { edits, shared }))
}

/// Returns the edits that give names another text in a file.
pub(super) fn edits(all: &[Site], renamed: &BTreeSet<Name>, to: &str) -> Vec<Replacement> {
    let named = all.iter().filter(|site| renamed.contains(&site.name));
    let spans: BTreeSet<Span> = named.map(|site| site.span).collect();
    let json = quoted(to);
    let text = &json[1..json.len() - 1];
    let edit = |span| Replacement {
        span,
        text: text.to_owned(),
    };
    spans.into_iter().map(edit).collect()
}

impl Rename {
    /// Returns the edits of another task file of the folder.
    pub fn edits_of(&self, scene: &Scene<'_>, to: &str) -> Vec<Replacement> {
        let all = sites(scene);
        let shared = all.iter().filter(|site| self.shared.contains(&site.name));
        let shared: Vec<Site> = shared.cloned().collect();
        // One refused name does not stand alone there, so that file is left as it is.
        same(scene, &shared, &all).map_or_else(|_| Vec::new(), |(names, _)| edits(&all, &names, to))
    }
}

/// Returns all names that are one with these: an id is the name of what its step gives too, where it says no other. With
/// them those that the whole folder shares.
fn same(
    scene: &Scene<'_>,
    names: &[Site],
    all: &[Site],
) -> Result<(BTreeSet<Name>, Vec<Name>), Refused> {
    let found = one_with(names, all);
    let steps = scene.root.as_array().unwrap_or_default();
    let fixed = all.iter().find(|site| {
        let kind = steps.get(site.step).and_then(|step| step.get("type"));
        found.contains(&site.name)
            && kind.is_some_and(|kind| inside(scene.source, kind.span) == site.span)
    });
    if let Some(site) = fixed {
        return Err(Refused(format!(
            "`{}` is what every `{}` calls its verification",
            site.name.text,
            scene.source.slice(site.span)
        )));
    }
    let mut shared = Vec::new();
    for name in &found {
        let text = name.text.as_str();
        let (folder, config) = (scene.folder, scene.config);
        let (of_folder, aliases, tables, place) = match name.noun {
            Noun::Env => (&folder.envs, &folder.aliases.envs, &config.envs, "envs"),
            Noun::AgentFolder => (
                &folder.agents,
                &folder.aliases.agents,
                &config.agents,
                "agents",
            ),
            Noun::Artifact => {
                let Some(artifact) = folder.artifact(text) else {
                    continue;
                };
                return Err(Refused(format!(
                    "`{text}` is the name of the folder {}: rename the folder, and then what names it",
                    artifact.shown
                )));
            }
            Noun::Model => {
                return Err(Refused(format!(
                    "`{text}` is the name by which a model is asked for: it cannot be renamed here"
                )));
            }
            Noun::Step | Noun::Agent | Noun::Sandbox | Noun::Prompt | Noun::Verifier => continue,
        };
        if of_folder.contains_key(text) {
            let or = match name.noun {
                Noun::AgentFolder if found.iter().any(|name| name.noun == Noun::Agent) => {
                    format!(
                        ", or add \"a2a_agent_id\": {} to the step that deploys it",
                        quoted(text)
                    )
                }
                _ => String::new(),
            };
            return Err(Refused(format!(
                "`{text}` is the name of the folder {place}/{text}: rename the folder, and then what names it{or}"
            )));
        }
        let is_id = of_folder.values().any(|definition| definition.id == text);
        if is_id {
            return Err(Refused(format!(
                "`{text}` is an id that the settings of a folder in {place}/ declare: rename it there"
            )));
        }
        if crate::task::deploy::BUILTIN_ENVS.contains(&text) && name.noun == Noun::Env {
            return Err(Refused(format!("`{text}` is an env that aebuild has")));
        }
        if tables.contains_key(text) {
            return Err(Refused(format!(
                "`{text}` is [{place}.{text}] of aebuild.toml, which other folders may name too: rename it there"
            )));
        }
        if aliases.contains_key(text) {
            shared.push(name.clone());
        }
    }
    Ok((found, shared))
}

/// Returns all names that are one with these.
pub fn one_with(names: &[Site], all: &[Site]) -> BTreeSet<Name> {
    let mut found: BTreeSet<Name> = names.iter().map(|site| site.name.clone()).collect();
    loop {
        let spans: BTreeSet<Span> = all
            .iter()
            .filter(|site| found.contains(&site.name) && is_bound(site))
            .map(|site| site.span)
            .collect();
        let more = all.iter().filter(|site| spans.contains(&site.span));
        let n = found.len();
        found.extend(more.map(|site| site.name.clone()));
        if found.len() == n {
            return found;
        }
    }
}

/// Returns whether a site and all that is named there have one name: what makes something, and what says which agent
/// that is.
fn is_bound(site: &Site) -> bool {
    site.makes || site.name.noun == Noun::AgentFolder
}
