//! Checks what steps say of each other and of their folder, before anything runs.
//!
//! One rule is one file, and its words stand next to it. A rule sees steps that were built, and of others what could be
//! read of them, so that all faults of a file are told at once. Nothing is said that hangs on what could not be read.

mod after_teardown;
mod artifact;
mod conversation;
mod definition;
mod edges;
mod ends_nothing;
mod executor;
pub mod level;
mod load;
mod made_twice;
mod names;
mod observer;
pub mod partial;
mod reach;
mod retry;
pub mod secret;
mod script;
mod teardown;
mod together;
mod triggers;
mod unneeded_edge;
mod unused_deployment;
pub mod unused_folder;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::{StepGraph, StepIx};
use crate::json::Value;
use crate::resource::{ResourceId, Touch};
use crate::step::{Refusal, Step};
use crate::task::config::Config;
use crate::task::folder::TaskFolder;
use crate::task::parse::{Places, Written};
use crate::task::{DependsOn, Task};

pub use script::CLOCK_TOOLS;

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
    /// Its text, where there is one.
    pub config_written: Option<&'a Written>,
    /// The tools of the envs that are compiled in, as `tools/list` declares them.
    pub env_tools: &'a EnvTools,
}

/// The tools of the envs that are compiled in, by the names of the envs.
pub type EnvTools = BTreeMap<String, Vec<Value>>;

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
    load::RULE,
    script::RULE,
    triggers::RULE,
    retry::TARGET,
    retry::CONFLICT,
    observer::RULE,
    teardown::RULE,
    after_teardown::RULE,
    conversation::RULE,
    ends_nothing::RULE,
    executor::RULE,
    secret::RULE,
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

    /// Returns whether a field that is a name is written, and not as one: as another type, or with bytes that are no text.
    fn is_unreadable(&self, step: StepIx, key: &str) -> bool {
        match self.task.steps[step.at()].fields.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::String(name)) => name.contains('\u{fffd}'),
            Some(_) => true,
        }
    }

    /// Returns the ids of the steps, with the first step of each.
    fn ids(&self) -> HashMap<&'a str, StepIx> {
        let mut ids = HashMap::new();
        for step in self.graph.steps() {
            ids.entry(self.id(step)).or_insert(step);
        }
        ids
    }

    /// Returns whether a dependency of a step is at fault already: it may be the one that is missing.
    fn has_doubtful_edges(&self, step: StepIx, ids: &HashMap<&str, StepIx>) -> bool {
        let is_doubtful = |id: &str| ids.get(id).is_none_or(|&other| other >= step);
        let are_doubtful = match &self.task.steps[step.at()].depends_on {
            DependsOn::Earlier => false,
            DependsOn::Steps(edges) => edges.iter().any(|edge| is_doubtful(edge.as_str())),
        };
        // Of two steps with one id it is not clear which is meant.
        let is_second = ids.get(self.id(step)) != Some(&step);
        are_doubtful || is_second || !self.places.edges_are_whole(step)
    }

    /// Returns whether every step is known whole.
    fn is_whole(&self) -> bool {
        !self.is_partial.contains(&true)
    }

    /// Returns the texts among the fields of steps that are not known whole, any of which they may make by that name; what
    /// they read by a name, as far as they could be read, they do not make.
    fn partial_names(&self) -> HashSet<&'a str> {
        let mut names = HashSet::new();
        let steps = self.task.steps.iter().zip(self.steps).zip(self.is_partial);
        for ((declared, step), _) in steps.filter(|(_, is_partial)| **is_partial) {
            let mut counts: HashMap<&str, usize> = HashMap::new();
            for value in declared.fields.values() {
                count(value, &mut counts);
            }
            let reads = step.iter().flat_map(|step| step.reads());
            for read in reads {
                let read = names::name_of(&read.lookup).and_then(|name| counts.get_mut(name));
                if let Some(n) = read {
                    *n = n.saturating_sub(1);
                }
            }
            names.insert(declared.id.as_str());
            names.extend(
                counts
                    .iter()
                    .filter(|(_, n)| **n > 0)
                    .map(|(name, _)| *name),
            );
        }
        names
    }
}

/// Counts the texts in a value.
fn count<'v>(value: &'v Value, all: &mut HashMap<&'v str, usize>) {
    match value {
        Value::String(text) => *all.entry(text).or_default() += 1,
        Value::Array(items) => items.iter().for_each(|item| count(item, all)),
        Value::Object(members) => members.values().for_each(|item| count(item, all)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
