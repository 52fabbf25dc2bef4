//! Checks what steps say of each other and of their folder, before anything runs.
//!
//! One rule is one file, and its words stand next to it. A rule sees steps that were built, and of others what could be
//! read of them, so that all faults of a file are told at once. Nothing is said that hangs on what could not be read.

mod after_teardown;
mod artifact;
mod conversation;
mod definition;
mod edges;
pub mod level;
mod made_twice;
mod names;
mod observer;
pub mod partial;
mod reach;
mod retry;
mod teardown;
mod together;
mod unneeded_edge;
mod unused_deployment;

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::{StepGraph, StepIx};
use crate::json::Value;
use crate::resource::{ResourceId, Touch};
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
    /// Its steps, `None` where too little of one could be read.
    pub steps: &'a [Option<Arc<dyn Step>>],
    /// For each step, whether it is not known whole.
    pub is_partial: &'a [bool],
    /// For each step, what it touches, and what it touches through the agents that it prompts.
    pub touches: &'a [Vec<(ResourceId, Touch)>],
    /// Whether the file has an error, so that nothing mild is said of it.
    pub has_errors: bool,
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

impl Rule {
    /// Returns whether all it finds are hints.
    fn only_hints(&self) -> bool {
        self.codes.iter().all(|(_, level)| *level == Severity::Hint)
    }
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
    after_teardown::RULE,
    conversation::RULE,
    together::RULE,
    unneeded_edge::RULE,
    unused_deployment::RULE,
];

/// The most faults of one rule in one task; the others are counted.
const MAX_FAULTS: usize = 50;

/// Applies every rule to a task.
pub fn check(checked: &Checked<'_>) -> Vec<Diagnostic> {
    let mut all: Vec<Diagnostic> = Vec::new();
    let (hints, others): (Vec<_>, Vec<_>) = RULES.iter().partition(|rule| rule.only_hints());
    for rule in others.into_iter().chain(hints) {
        let mut found = Vec::new();
        // How a task could be said better is of use once it says what is meant.
        let is_early = checked.has_errors || !checked.is_whole();
        if rule.only_hints() && (is_early || all.iter().any(Diagnostic::is_error)) {
            continue;
        }
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

    /// Returns whether every step is known whole.
    fn is_whole(&self) -> bool {
        !self.is_partial.contains(&true)
    }

    /// Returns whether a step that is not known whole has a text among its fields, so that it may make what is named so.
    ///
    /// What it reads by that name, as far as it could be read, it does not make.
    fn is_named_by_partial(&self, name: &str) -> bool {
        let steps = self.task.steps.iter().zip(self.steps).zip(self.is_partial);
        let mut partial = steps
            .filter(|(_, is_partial)| **is_partial)
            .map(|(step, _)| step);
        partial.any(|(declared, step)| {
            let is_read = || {
                let reads = step.iter().flat_map(|step| step.reads());
                reads
                    .filter(|read| names::name_of(&read.lookup) == Some(name))
                    .count()
            };
            let n = declared.fields.values().map(|value| texts(value, name));
            declared.id.as_str() == name || n.sum::<usize>() > is_read()
        })
    }
}

/// Returns how often a text is in a value.
fn texts(value: &Value, name: &str) -> usize {
    match value {
        Value::String(text) => usize::from(text == name),
        Value::Array(items) => items.iter().map(|item| texts(item, name)).sum(),
        Value::Object(members) => members.values().map(|item| texts(item, name)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests;
