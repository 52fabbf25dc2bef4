//! Artifacts that steps use: each is in the folder, of a kind that fits, and readable.

use std::collections::BTreeMap;

use super::{Checked, Rule};
use crate::diagnostic::{Diagnostic, Severity, meant};
use crate::graph::StepIx;
use crate::step::ArtifactRef;
use crate::task::folder::Artifact;
use crate::task::parse::names::{composed, folded, has_placeholder};

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[
        ("unknown-artifact", Severity::Error),
        ("wrong-artifact-kind", Severity::Error),
        ("pinned-artifact", Severity::Error),
    ],
    doc: "A step names an artifact by its folder's name or by its id. Links, devices and names in the folder are looked at \
          only where a step uses it.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let mut used: BTreeMap<&str, &Artifact> = BTreeMap::new();
    for (step, built) in checked.built() {
        for reference in built.artifacts() {
            if has_placeholder(&reference.name) {
                continue;
            }
            let Some(artifact) = checked.folder.artifact(&reference.name) else {
                faults.push(unknown(checked, step, &reference));
                continue;
            };
            used.insert(&artifact.name, artifact);
            if !reference.wants.is_empty() && !reference.wants.contains(&artifact.kind) {
                faults.push(wrong_kind(checked, step, &reference, artifact));
            }
            if reference.has_version {
                faults.push(pinned(checked, step, &reference, artifact));
            }
        }
    }
    faults.extend(
        used.values()
            .flat_map(|artifact| artifact.faults.iter().cloned()),
    );
}

fn unknown(checked: &Checked<'_>, step: StepIx, reference: &ArtifactRef) -> Diagnostic {
    let (folder, name) = (checked.folder, reference.name.as_str());
    let names = || {
        folder
            .artifacts
            .keys()
            .chain(folder.skills.keys())
            .map(String::as_str)
    };
    let ignored = |name: &str| {
        let is_it = |path: &&String| **path == name || path.rsplit('/').next() == Some(name);
        folder.ignored.iter().find(is_it)
    };
    let same = names().find(|other| composed(other) == composed(name));
    let mut near = None;
    let (why, help) = if let Some(other) = same {
        let help = format!("write the name as the folder is written: `{other}`");
        ("no artifact has this name in this Unicode form", Some(help))
    } else if let Some(other) = names().find(|other| folded(other) == folded(name)) {
        near = meant(name, [other]);
        ("names are case-sensitive", None)
    } else if let Some(path) = ignored(name) {
        let help = format!(
            "move {} to artifacts/{}/",
            folder.shown_path(path),
            stem(name)
        );
        ("this file is in no artifact", Some(help))
    } else {
        near = meant(name, names());
        let list = || {
            let all: Vec<String> = names().take(8).map(|name| format!("`{name}`")).collect();
            match all.is_empty() {
                true => format!("add a folder artifacts/{}/ with the file in it", stem(name)),
                false => format!("the artifacts are {}", all.join(", ")),
            }
        };
        ("no artifact has this name", Some(list()))
    };
    let id = checked.id(step);
    let headline = format!("step `{id}` uses artifact `{name}`, which is not in the task folder");
    let span = checked.places.field_or_kind(step, &reference.field);
    Diagnostic::error("unknown-artifact", headline)
        .primary(checked.places.source(), span, why)
        .help(help)
        .meant(near)
}

fn stem(name: &str) -> &str {
    name.split('.')
        .next()
        .filter(|stem| !stem.is_empty())
        .unwrap_or(name)
}

fn wrong_kind(
    checked: &Checked<'_>,
    step: StepIx,
    reference: &ArtifactRef,
    artifact: &Artifact,
) -> Diagnostic {
    let wants: Vec<&str> = reference.wants.iter().map(|kind| kind.as_str()).collect();
    let headline = format!(
        "step `{}` needs an artifact of type {}, but `{}` is of type {}",
        checked.id(step),
        wants.join(" or "),
        reference.name,
        artifact.kind.as_str()
    );
    let span = checked.places.field_or_kind(step, &reference.field);
    Diagnostic::error("wrong-artifact-kind", headline)
        .primary(
            checked.places.source(),
            span,
            format!("of type {}", artifact.kind.as_str()),
        )
        .help(format!(
            "name another artifact, or set `type` in {}/artifact.toml",
            artifact.shown
        ))
}

fn pinned(
    checked: &Checked<'_>,
    step: StepIx,
    reference: &ArtifactRef,
    artifact: &Artifact,
) -> Diagnostic {
    let places = checked.places;
    let version = ["version", "artifact_version"].into_iter().find_map(|key| {
        let parent = reference
            .field
            .rsplit_once('/')
            .map_or("", |(parent, _)| parent);
        places.exact(step, &format!("{parent}/{key}"))
    });
    let span = version.unwrap_or_else(|| places.field_or_kind(step, &reference.field));
    let headline = format!(
        "step `{}` pins a version of artifact `{}`, but an artifact of the folder has none",
        checked.id(step),
        artifact.name
    );
    Diagnostic::error("pinned-artifact", headline)
        .primary(places.source(), span, "pinned here")
        .help("delete the version")
}
