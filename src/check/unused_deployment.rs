//! Envs, agents and sandboxes that a task deploys and no step of it uses.

use std::collections::{HashMap, HashSet};

use super::names::name_of;
use super::{Checked, Rule, count};
use crate::context::Lookup;
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::StepIx;
use crate::resource::{ResourceId, Touch};
use crate::task::parse::names::has_placeholder;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("unused-deployment", Severity::Hint)],
    doc: "What no step uses is never made: an env, agent or sandbox comes to be when something needs it.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    // A task that only deploys is not written to its end yet.
    if checked
        .built()
        .all(|(_, step)| step.live_output("").is_some())
    {
        return;
    }
    let mut read: HashSet<Lookup> = HashSet::new();
    let mut used: HashSet<&ResourceId> = HashSet::new();
    for (step, built) in checked.built() {
        read.extend(built.reads().into_iter().map(|name| name.lookup));
        for (resource, touch) in &checked.touches[step.at()] {
            if !matches!(touch, Touch::Creates | Touch::Retires) {
                used.insert(resource);
            }
        }
    }
    // How often a text stands in the fields of steps that do more than end things.
    let mut texts: Option<HashMap<&str, usize>> = None;
    for (step, built) in checked.built() {
        if built.live_output("").is_none() || !makes(checked, step) {
            continue;
        }
        for made in built.provides() {
            let Some(name) = name_of(&made.lookup).filter(|name| !has_placeholder(name)) else {
                continue;
            };
            let resource = match &made.lookup {
                Lookup::Env(name) => ResourceId::env(name),
                Lookup::Agent(name) => ResourceId::agent(name),
                Lookup::Sandbox(name) => ResourceId::sandbox(name),
                Lookup::Prompt(_) | Lookup::Metadata(_) => continue,
            };
            if read.contains(&made.lookup) || used.contains(&resource) {
                continue;
            }
            // A field that no rule knows as a name may name it all the same.
            let texts = texts.get_or_insert_with(|| all_texts(checked));
            let mut own = HashMap::new();
            let fields = checked.task.steps[step.at()].fields.values();
            fields.for_each(|value| count(value, &mut own));
            if texts.get(name) > own.get(name) {
                continue;
            }
            let (places, id) = (checked.places, checked.id(step));
            let headline = format!("step `{id}` deploys {}, which no step uses", made.lookup);
            faults.push(
                Diagnostic::hint("unused-deployment", headline)
                    .primary(
                        places.source(),
                        places.field_or_kind(step, &made.field),
                        "never made, since nothing needs it",
                    )
                    .help(format!(
                        "delete step `{id}`, or name {} where it is to be used",
                        made.lookup
                    )),
            );
        }
    }
}

fn makes(checked: &Checked<'_>, step: StepIx) -> bool {
    let touched = &checked.touches[step.at()];
    touched.iter().any(|(_, touch)| *touch == Touch::Creates)
}

fn all_texts<'a>(checked: &Checked<'a>) -> HashMap<&'a str, usize> {
    let mut all = HashMap::new();
    let steps = checked.task.steps.iter().zip(checked.touches);
    for (declared, touched) in steps {
        let only_ends =
            !touched.is_empty() && touched.iter().all(|(_, touch)| *touch == Touch::Retires);
        if !only_ends {
            declared
                .fields
                .values()
                .for_each(|value| count(value, &mut all));
        }
    }
    all
}
