//! Checks what steps say of each other and of their folder, before anything runs.
//!
//! One rule is one file, and its words stand next to it. A rule sees steps that were built; of a step that could not be
//! built only the fields are known, so nothing is said that depends on it.

mod artifact;
mod definition;
pub mod level;
mod made_twice;
mod names;
mod observer;
mod reach;
mod retry;
mod teardown;

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::{StepGraph, StepIx};
use crate::json::Value;
use crate::step::{Refusal, Step};
use crate::task::Task;
use crate::task::config::Config;
use crate::task::folder::TaskFolder;
use crate::task::parse::Places;

/// All that rules look at.
#[derive(Clone, Copy)]
pub struct Checked<'a> {
    /// The task.
    pub task: &'a Task,
    /// Where everything in it was written.
    pub places: &'a Places,
    /// The order of its steps.
    pub graph: &'a StepGraph,
    /// Its steps, `None` where one could not be built.
    pub steps: &'a [Option<Arc<dyn Step>>],
    /// The folder that it is in.
    pub folder: &'a TaskFolder,
    /// What `aebuild.toml` says.
    pub config: &'a Config,
}

/// A rule: it finds one kind of fault.
pub struct Rule {
    /// The codes of what it finds, and how bad each is unless `aebuild.toml` says otherwise.
    pub codes: &'static [(&'static str, Severity)],
    /// What it is for.
    pub doc: &'static str,
    /// Looks for faults.
    pub run: fn(&Checked<'_>, &mut Vec<Diagnostic>),
}

/// Every rule.
pub const RULES: &[Rule] = &[
    names::RULE,
    made_twice::RULE,
    artifact::RULE,
    definition::RULE,
    retry::TARGET,
    retry::CONFLICT,
    observer::RULE,
    teardown::RULE,
];

/// The most faults of one rule in one task; the others are counted.
const MAX_FAULTS: usize = 50;

/// Applies every rule to a task.
pub fn check(checked: &Checked<'_>) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    for rule in RULES {
        let mut found = Vec::new();
        (rule.run)(checked, &mut found);
        crate::diagnostic::sort(&mut found);
        if found.len() > MAX_FAULTS {
            let more = found.len() - MAX_FAULTS;
            let next = found[MAX_FAULTS].clone();
            found.truncate(MAX_FAULTS);
            let headline = format!(
                "{more} more of this kind in `{}`",
                checked.places.source().name
            );
            let code = next.code;
            let fault = match next.severity {
                Severity::Error => Diagnostic::error(code, headline),
                Severity::Warning => Diagnostic::warning(code, headline),
                Severity::Hint => Diagnostic::hint(code, headline),
            };
            found.push(match next.place() {
                Some(label) => fault.primary(&label.source, label.span, "the next is here"),
                None => fault,
            });
        }
        all.extend(found);
    }
    level::apply(&checked.config.lint, &mut all);
    crate::diagnostic::sort(&mut all);
    all
}

/// Turns what a step type refused into diagnostics at the fields at fault.
pub fn refusals(places: &Places, step: StepIx, refusals: Vec<Refusal>) -> Vec<Diagnostic> {
    let diagnostics = refusals.into_iter().map(|refusal| {
        let span = match refusal.field.as_str() {
            "" => places.kind(step),
            field => places.field_or_kind(step, field),
        };
        Diagnostic::error(refusal.code, refusal.headline)
            .primary(places.source(), span, "")
            .help(refusal.help)
    });
    diagnostics.collect()
}

impl<'a> Checked<'a> {
    /// Returns the steps that were built, in list order.
    fn built(&self) -> impl Iterator<Item = (StepIx, &'a dyn Step)> + use<'a> {
        let steps = self.steps.iter().enumerate();
        steps.filter_map(|(at, step)| Some((StepIx(at as u32), step.as_deref()?)))
    }

    /// Returns the id of a step.
    fn id(&self, step: StepIx) -> &'a str {
        self.task.steps[step.at()].id.as_str()
    }

    /// Returns whether a step that could not be built has a text among its fields, so that it may make what is named so.
    fn is_named_by_unbuilt(&self, name: &str) -> bool {
        let steps = self.task.steps.iter().zip(self.steps);
        let mut unbuilt = steps
            .filter(|(_, step)| step.is_none())
            .map(|(declared, _)| declared);
        unbuilt.any(|step| {
            step.id.as_str() == name || step.fields.values().any(|value| has_text(value, name))
        })
    }
}

fn has_text(value: &Value, name: &str) -> bool {
    match value {
        Value::String(text) => text == name,
        Value::Array(items) => items.iter().any(|item| has_text(item, name)),
        Value::Object(members) => members.values().any(|item| has_text(item, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;
