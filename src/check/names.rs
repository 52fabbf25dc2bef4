//! Names that a step looks up: each must be made by a step that it waits for.

use std::collections::{HashMap, HashSet};
use std::mem::Discriminant;

use super::reach::Reach;
use super::{Checked, Rule, edges};
use crate::context::Lookup;
use crate::diagnostic::{Diagnostic, Fix, Meant, Safety, Severity, meant};
use crate::graph::StepIx;
use crate::step::NameRef;
use crate::task::DependsOn;
use crate::task::parse::names::has_placeholder;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[
        ("no-path-to-producer", Severity::Error),
        ("unknown-name", Severity::Error),
    ],
    doc: "A step finds a sandbox, env, agent, reply or verification by its name, and only what steps made that it waits \
          for. A name that nobody makes, or that is made elsewhere in the graph, would be missing when the step runs.",
    run,
};

/// A name that a step makes, and where it says so.
struct Made {
    step: StepIx,
    field: String,
}

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let mut made: HashMap<Lookup, Vec<Made>> = HashMap::new();
    for (step, built) in checked.built() {
        for NameRef { field, lookup } in built.provides() {
            made.entry(lookup).or_default().push(Made { step, field });
        }
    }
    let mut reach = Reach::new(checked.graph);
    let ids = checked.ids();
    let mut partial: Option<HashSet<&str>> = None;
    let mut doubtful: Option<HashSet<Discriminant<Lookup>>> = None;
    for (step, built) in checked.built() {
        let mut mine: Vec<Lookup> = Vec::new();
        for read in built.reads() {
            if mine.contains(&read.lookup) {
                continue;
            }
            mine.push(read.lookup.clone());
            let makers = makers(&made, &read.lookup);
            if makers
                .iter()
                .any(|made| made.step == step || reach.is_ancestor(made.step, step))
            {
                continue;
            }
            match makers.first() {
                Some(_) if checked.has_doubtful_edges(step, &ids) => {}
                Some(maker) => {
                    let fix = edges::wait_for(checked, step, maker.step);
                    // With one maker there is no doubt about what was meant.
                    let safety = match makers.len() {
                        1 => Safety::Sure,
                        _ => Safety::Offered,
                    };
                    let fix = fix.map(|fix| Fix { safety, ..fix });
                    faults.push(no_path(checked, step, &read, maker).fix(fix));
                }
                None => {
                    let doubtful = doubtful.get_or_insert_with(|| doubtful_kinds(checked));
                    let partial = partial.get_or_insert_with(|| checked.partial_names());
                    let fault = unknown(checked, step, &read, &made, partial);
                    // A name that cannot be read may be this one; a slip of another name is one all the same.
                    let is_doubtful = doubtful.contains(&std::mem::discriminant(&read.lookup));
                    faults.extend(fault.filter(|fault| !is_doubtful || !fault.fixes.is_empty()));
                }
            }
        }
    }
}

/// Returns the kinds of names of which one is written that cannot be read.
fn doubtful_kinds(checked: &Checked<'_>) -> HashSet<Discriminant<Lookup>> {
    let mut doubtful = HashSet::new();
    for (step, built) in checked.built() {
        for NameRef { lookup, .. } in built.provides() {
            let key = match &lookup {
                Lookup::Env(_) => "env_id",
                Lookup::Agent(_) => "agent_name",
                Lookup::Sandbox(_) => "sandbox_name",
                Lookup::Prompt(_) => "prompt_id",
                Lookup::Metadata(_) => "verifier_id",
            };
            if checked.is_unreadable(step, key) {
                doubtful.insert(std::mem::discriminant(&lookup));
            }
        }
    }
    doubtful
}

/// Returns who makes what a look-up asks for; for `metadata` also who makes a part of it, or what it is a part of.
fn makers<'m>(made: &'m HashMap<Lookup, Vec<Made>>, lookup: &Lookup) -> Vec<&'m Made> {
    if let Some(makers) = made.get(lookup) {
        return makers.iter().collect();
    }
    let Lookup::Metadata(path) = lookup else {
        return Vec::new();
    };
    let related = |other: &Lookup| match other {
        Lookup::Metadata(other) => {
            let n = path.len().min(other.len());
            path[..n] == other[..n]
        }
        _ => false,
    };
    if path.len() > 1 && !made.contains_key(&Lookup::Metadata(path[..1].to_vec())) {
        // The usual case, a verification that nobody makes, needs no search.
        let is_verification = path.len() == 2 && path[0] == "verifications";
        if is_verification {
            return Vec::new();
        }
    }
    let mut makers: Vec<&Made> = made
        .iter()
        .filter(|(other, _)| related(other))
        .flat_map(|(_, makers)| makers)
        .collect();
    makers.sort_by_key(|made| made.step);
    makers
}

fn no_path(checked: &Checked<'_>, step: StepIx, read: &NameRef, maker: &Made) -> Diagnostic {
    let (places, id, maker_id) = (checked.places, checked.id(step), checked.id(maker.step));
    let NameRef { field, lookup } = read;
    let declared = &checked.task.steps[step.at()];
    let help = match (&declared.depends_on, maker.step > step) {
        (DependsOn::Earlier, true) => format!("move step `{maker_id}` before step `{id}`"),
        (_, true) => format!(
            "move step `{maker_id}` before step `{id}`, and add {{\"task_step_id\": \"{maker_id}\"}} to the `depends_on` of `{id}`"
        ),
        (_, false) => {
            format!("add {{\"task_step_id\": \"{maker_id}\"}} to the `depends_on` of `{id}`")
        }
    };
    let made = places.field_or_kind(maker.step, &maker.field);
    let headline = format!("step `{id}` reads {lookup}, but depends on nothing that makes it");
    Diagnostic::error("no-path-to-producer", headline)
        .label(places.source(), made, "made here")
        .primary(
            places.source(),
            places.field_or_kind(step, field),
            "read here",
        )
        .help(help)
}

fn unknown(
    checked: &Checked<'_>,
    step: StepIx,
    read: &NameRef,
    made: &HashMap<Lookup, Vec<Made>>,
    partial: &HashSet<&str>,
) -> Option<Diagnostic> {
    let name = name_of(&read.lookup)?;
    if has_placeholder(name) || partial.contains(name) {
        return None;
    }
    let id = checked.id(step);
    let mut names: Vec<&str> = made
        .keys()
        .filter(|other| is_same_kind(&read.lookup, other))
        .filter_map(name_of)
        .filter(|name| !name.contains('\u{fffd}'))
        .collect();
    names.sort_unstable();
    names.dedup();
    let noun = match &read.lookup {
        Lookup::Env(_) => "env",
        Lookup::Agent(_) => "agent",
        Lookup::Sandbox(_) => "sandbox",
        Lookup::Prompt(_) => "reply",
        Lookup::Metadata(_) => "verification",
    };
    let near = meant(name, names.iter().copied());
    let help = match names.len() {
        0 => format!("add a step that makes {noun} `{name}`"),
        n => {
            let shown: Vec<String> = names
                .iter()
                .take(8)
                .map(|name| format!("`{name}`"))
                .collect();
            let more = if n > 8 {
                format!(" and {} more", n - 8)
            } else {
                String::new()
            };
            format!("the names of this kind are {}{more}", shown.join(", "))
        }
    };
    let headline = format!("step `{id}` reads {}, which no step makes", read.lookup);
    Some(
        Diagnostic::error("unknown-name", headline)
            .primary(
                checked.places.source(),
                checked.places.field_or_kind(step, &read.field),
                "read here",
            )
            .help(help)
            .meant(near.map(|near| Meant {
                // Who makes it may have written it wrong.
                is_sure: false,
                ..near
            })),
    )
}

fn is_same_kind(one: &Lookup, other: &Lookup) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

/// Returns the name that a look-up asks for; `None` for `metadata` other than a verification, which a run may start with.
pub(super) fn name_of(lookup: &Lookup) -> Option<&str> {
    match lookup {
        Lookup::Env(name) | Lookup::Agent(name) | Lookup::Sandbox(name) | Lookup::Prompt(name) => {
            Some(name)
        }
        Lookup::Metadata(path) => match &path[..] {
            [verifications, id] if verifications == "verifications" => Some(id),
            _ => None,
        },
    }
}
