//! What is loaded into envs that are compiled in.

use super::{Checked, Rule};
use crate::diagnostic::{Diagnostic, Severity, did_you_mean};
use crate::graph::StepIx;
use crate::json::Value;
use crate::step::ArtifactKind;
use crate::step::Step;
use crate::task::deploy::{EnvRun, EnvSpec, takes_files};
use crate::task::parse::names::has_placeholder;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[
        ("wrong-artifact-kind", Severity::Error),
        ("unknown-name", Severity::Error),
    ],
    doc: "An env that is compiled in takes a state, and only `files` takes files too. A step whose files or snapshot are loaded is one of the task.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    loads(checked, faults);
    steps(checked, faults);
}

/// Looks at the steps from which something is loaded.
fn steps(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    for (step, _) in checked.built() {
        let declared = &checked.task.steps[step.at()];
        if declared.kind != "load_artifact" {
            continue;
        }
        for key in ["artifact_from_step_id", "collected_artifacts_step_id"] {
            let named = declared.fields.get(key).and_then(Value::as_str);
            let Some(named) = named.filter(|id| !id.is_empty() && !has_placeholder(id)) else {
                continue;
            };
            let ids = || checked.task.steps.iter().map(|step| step.id.as_str());
            // What is deployed keeps nothing by its deploy step, and nothing is there yet of the step itself.
            let keeps_nothing = |(other, built): (StepIx, &dyn Step)| {
                checked.id(other) == named && (other == step || built.deploys().is_some())
            };
            let what = match ids().any(|id| id == named) {
                true if checked.built().any(keeps_nothing) => "which keeps nothing",
                true => continue,
                false => "which the task does not have",
            };
            let headline = format!(
                "step `{}` loads what step `{named}` kept, {what}",
                checked.id(step)
            );
            let span = checked.places.field_or_kind(step, &format!("/{key}"));
            faults.push(
                Diagnostic::error("unknown-name", headline)
                    .primary(checked.places.source(), span, "nothing is kept by it")
                    .help(did_you_mean(
                        named,
                        ids().filter(|id| *id != declared.id.as_str()),
                    )),
            );
        }
    }
}

fn loads(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    for (step, built) in checked.built() {
        let declared = &checked.task.steps[step.at()];
        let env_id = declared.fields.get("env_id").and_then(Value::as_str);
        let Some(env_id) = env_id.filter(|id| declared.kind == "load_artifact" && !id.is_empty())
        else {
            continue;
        };
        if has_placeholder(env_id) {
            continue;
        }
        let spec = EnvSpec::of(env_id, checked.folder, &checked.config.envs);
        let Ok(EnvRun::Builtin { name }) = spec.map(|spec| spec.run) else {
            continue;
        };
        if takes_files(&name) {
            continue;
        }
        for reference in built.artifacts() {
            let Some(artifact) = checked.folder.artifact(&reference.name) else {
                continue;
            };
            if !matches!(
                artifact.kind,
                ArtifactKind::File | ArtifactKind::FileUniverse
            ) {
                continue;
            }
            let kind = artifact.kind.as_str();
            let headline = format!(
                "env `{env_id}` takes a state and no files, but artifact `{}` is of type {kind}",
                reference.name
            );
            let span = checked.places.field_or_kind(step, &reference.field);
            faults.push(
                Diagnostic::error("wrong-artifact-kind", headline)
                    .primary(checked.places.source(), span, format!("of type {kind}"))
                    .help(format!(
                        "write type = \"environment\" into {}/artifact.toml, or name another artifact",
                        artifact.shown
                    )),
            );
        }
    }
}
