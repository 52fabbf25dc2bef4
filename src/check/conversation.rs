//! Prompts that go on with one conversation, in no order.

use std::collections::BTreeMap;

use super::reach::Reach;
use super::{Checked, Rule, edges};
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::StepIx;
use crate::json::Value;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("unordered-conversation", Severity::Warning)],
    doc: "A prompt with a `context_id` goes on where the prompt before it to the same agent left off. Of two that do not wait \
          for each other neither sees what the other said, and only one is remembered.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let mut last: BTreeMap<(String, String), StepIx> = BTreeMap::new();
    let mut reach = Reach::new(checked.graph);
    for (step, built) in checked.built().filter(|(_, step)| step.prompts()) {
        let fields = built.fields();
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(agent), Some(context)) = (text("agent_name"), text("context_id")) else {
            continue;
        };
        if context.is_empty() {
            continue;
        }
        let Some(before) = last.insert((agent.clone(), context.clone()), step) else {
            continue;
        };
        if !reach.are_unordered(before, step) {
            continue;
        }
        let (places, id, other) = (checked.places, checked.id(step), checked.id(before));
        let headline = format!(
            "steps `{other}` and `{id}` both go on with conversation `{context}` of agent `{agent}`, in no order"
        );
        faults.push(
            Diagnostic::warning("unordered-conversation", headline)
                .label(
                    places.source(),
                    places.field_or_kind(before, "/context_id"),
                    "one prompt of it",
                )
                .primary(
                    places.source(),
                    places.field_or_kind(step, "/context_id"),
                    "another, which does not wait for the first",
                )
                .help(format!(
                    "add {{\"task_step_id\": \"{other}\"}} to the `depends_on` of `{id}`"
                ))
                .fix(edges::wait_for(checked, step, before)),
        );
    }
}
