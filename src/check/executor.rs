//! Agents that follow the instructions of triggers: each has a role of its own.

use std::collections::HashMap;

use super::{Checked, Rule};
use crate::context::Lookup;
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::StepIx;
use crate::json::Value;
use crate::step::Deploys;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("executor-without-role", Severity::Error)],
    doc: "What an agent does because a trigger told it to is told apart by its role, so its `deploy_agent` step gives it one.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let asking = checked.built().filter_map(|(step, built)| {
        let (_, agents) = built.executors()?;
        Some((step, built, agents))
    });
    let asking: Vec<_> = asking.collect();
    if asking.is_empty() {
        return;
    }
    let mut nameless: HashMap<String, StepIx> = HashMap::new();
    for (step, built) in checked.built() {
        if let Some(Deploys::Agent { agent_name, .. }) = built.deploys()
            && !checked.is_partial[step.at()]
            && built.fields().get("role").is_none_or(Value::is_null)
        {
            nameless.insert(agent_name, step);
        }
    }
    for (step, built, agents) in asking {
        for agent in agents {
            let Some(&made) = nameless.get(&agent) else {
                continue;
            };
            let wanted = Lookup::Agent(agent.clone());
            let reads = built.reads();
            let field = reads.iter().find(|read| read.lookup == wanted);
            let field = field.map_or("", |read| read.field.as_str());
            let (places, id) = (checked.places, checked.id(step));
            let headline = format!(
                "agent `{agent}` follows instructions of triggers of step `{id}`, and has no role"
            );
            faults.push(
                Diagnostic::error("executor-without-role", headline)
                    .label(
                        places.source(),
                        places.id(made),
                        "deployed without a `role`",
                    )
                    .primary(
                        places.source(),
                        places.field_or_kind(step, field),
                        "instructed here",
                    )
                    .help(format!(
                        "add \"role\": \"{agent}\" to step `{}`",
                        checked.id(made)
                    )),
            );
        }
    }
}
