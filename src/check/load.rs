//! What is loaded into envs that are compiled in.

use super::{Checked, Rule};
use crate::diagnostic::Diagnostic;
use crate::json::Value;
use crate::step::ArtifactKind;
use crate::task::deploy::{EnvRun, EnvSpec, takes_files};
use crate::task::parse::names::has_placeholder;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &["wrong-artifact-kind"],
    doc: "An env that is compiled in takes a state, and only `files` takes files too.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
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
