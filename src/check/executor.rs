//! Agents that follow the instructions of triggers: each has a role of its own, and is there when a trigger fires.

use std::collections::HashMap;

use super::reach::Reach;
use super::{Checked, Rule, edges};
use crate::context::Lookup;
use crate::diagnostic::{Diagnostic, Fix, Safety, Severity};
use crate::graph::StepIx;
use crate::json::Value;
use crate::resource::{ResourceId, Touch};
use crate::step::Deploys;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[
        ("executor-without-role", Severity::Error),
        ("no-path-to-producer", Severity::Error),
    ],
    doc: "What an agent does because a trigger told it to is told apart by its role, so its `deploy_agent` step gives it one. \
          A step that may set off a trigger waits for the agent that the trigger tells.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let asking = checked.built().filter_map(|(step, built)| {
        let (env_id, agents) = built.executors()?;
        Some((step, built, env_id, agents))
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
    for (step, _, env_id, agents) in &asking {
        set_off_too_early(checked, *step, env_id, agents, faults);
    }
    for (step, built, _, agents) in asking {
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

/// Tells of prompts that may set off the triggers of a step, in no order with it, while the agents that these tell are not
/// there: they fail if the triggers are registered first.
fn set_off_too_early(
    checked: &Checked<'_>,
    step: StepIx,
    env_id: &str,
    agents: &[String],
    faults: &mut Vec<Diagnostic>,
) {
    let ids = checked.ids();
    let is_doubtful =
        |at: StepIx| checked.is_partial[at.at()] || checked.has_doubtful_edges(at, &ids);
    if is_doubtful(step) {
        return;
    }
    let makers = |agent: &str| -> Vec<StepIx> {
        let made = checked.built().filter(|(_, built)| match built.deploys() {
            Some(Deploys::Agent { agent_name, .. }) => agent_name == agent,
            _ => false,
        });
        made.map(|(at, _)| at).collect()
    };
    let agents: Vec<(&String, Vec<StepIx>)> = agents
        .iter()
        .map(|agent| (agent, makers(agent)))
        .filter(|(_, made)| !made.is_empty())
        .collect();
    let env = ResourceId::env(env_id);
    let is_changed = |(touched, touch): &(ResourceId, Touch)| {
        *touched == env && matches!(touch, Touch::Mutates | Touch::MayMutate)
    };
    let mut reach = Reach::new(checked.graph);
    for (prompt, built) in checked.built() {
        let sets_off = built.prompts() && checked.touches[prompt.at()].iter().any(is_changed);
        if !sets_off || prompt == step || is_doubtful(prompt) {
            continue;
        }
        if reach.is_ancestor(step, prompt) || reach.is_ancestor(prompt, step) {
            continue;
        }
        let missing = agents
            .iter()
            .find(|(_, made)| !made.iter().any(|at| reach.is_ancestor(*at, prompt)));
        let Some((agent, _)) = missing else { continue };
        let (places, id) = (checked.places, checked.id(prompt));
        let other = checked.id(step);
        let headline = format!(
            "step `{id}` may set off triggers of step `{other}` that tell agent `{agent}`, but does not wait for it"
        );
        let fault = Diagnostic::error("no-path-to-producer", headline)
            .label(places.source(), places.id(step), "registered here")
            .primary(places.source(), places.id(prompt), "prompted here")
            .help(format!(
                "add {{\"task_step_id\": \"{other}\"}} to the `depends_on` of `{id}`"
            ));
        // The step may be meant to come before the triggers.
        let fix = edges::wait_for(checked, prompt, step);
        let safety = Safety::Offered;
        faults.push(fault.fix(fix.map(|fix| Fix { safety, ..fix })));
    }
}
