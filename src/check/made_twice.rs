//! Names that steps make: each is made once.

use std::collections::HashMap;

use super::names::name_of;
use super::{Checked, Rule};
use crate::context::Lookup;
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::StepIx;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("made-twice", Severity::Error)],
    doc: "Steps find sandboxes, envs, agents, replies and verifications by name, so two of one kind can't have one name. \
          A name is not free again after its sandbox was torn down.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let mut first: HashMap<Lookup, (StepIx, String)> = HashMap::new();
    for (step, built) in checked.built() {
        for made in built.provides() {
            if name_of(&made.lookup).is_none() {
                continue;
            }
            let Some((other, field)) = first.get(&made.lookup) else {
                first.insert(made.lookup, (step, made.field));
                continue;
            };
            let places = checked.places;
            let (id, other_id) = (checked.id(step), checked.id(*other));
            let headline = match *other == step {
                true => format!("step `{id}` makes {} twice", made.lookup),
                false => format!("steps `{other_id}` and `{id}` both make {}", made.lookup),
            };
            faults.push(
                Diagnostic::error("made-twice", headline)
                    .label(
                        places.source(),
                        places.field_or_kind(*other, field),
                        "first made here",
                    )
                    .primary(
                        places.source(),
                        places.field_or_kind(step, &made.field),
                        "and again here",
                    )
                    .help("give one of them another name"),
            );
        }
    }
}
