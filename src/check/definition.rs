//! Envs and agents that a step deploys: each must be there, whole, and able to be run.

use super::{Checked, Rule};
use crate::diagnostic::{Diagnostic, Severity};
use crate::step::Deploys;
use crate::task::deploy::{AgentSpec, EnvSpec};
use crate::task::parse::names::has_placeholder;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[
        ("unknown-env", Severity::Error),
        ("unknown-agent", Severity::Error),
        ("unknown-way-to-run", Severity::Error),
    ],
    doc: "A `deploy_env` step names an env and a `deploy_agent` step an agent: a folder below `envs/` or `agents/`, a table \
          of `aebuild.toml`, or an env that is compiled in. It must be clear how it is run.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    for (at, step) in checked.built() {
        let Some(deploys) = step.deploys() else {
            continue;
        };
        let (field, definition, found) = match &deploys {
            Deploys::Env { env_id } => {
                if has_placeholder(env_id) {
                    continue;
                }
                let found = EnvSpec::of(env_id, checked.folder, &checked.config.envs);
                ("/env_id", checked.folder.env(env_id), found.map(drop))
            }
            Deploys::Agent {
                agent_name,
                agent_id,
                sandbox_name,
                ..
            } => {
                let (field, wanted) = match agent_id {
                    Some(id) => ("/a2a_agent_id", id),
                    None => ("/agent_name", agent_name),
                };
                if has_placeholder(wanted) {
                    continue;
                }
                let found = AgentSpec::of(
                    agent_id.as_deref(),
                    agent_name,
                    checked.folder,
                    &checked.config.agents,
                );
                let placed = found.and_then(|spec| spec.placed(sandbox_name.is_some()));
                (field, checked.folder.agent(wanted), placed.map(drop))
            }
        };
        if let Err(unusable) = found {
            faults.push(
                Diagnostic::error(unusable.code, unusable.headline)
                    .primary(
                        checked.places.source(),
                        checked.places.field_or_kind(at, field),
                        "",
                    )
                    .help(unusable.help),
            );
        }
        // Faults of its content matter to who uses it.
        for fault in definition.into_iter().flat_map(|found| &found.faults) {
            if !faults.contains(fault) {
                faults.push(fault.clone());
            }
        }
    }
}
