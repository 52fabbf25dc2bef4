//! Steps that only end things: they cannot fail their task.

use super::{Checked, Rule};
use crate::diagnostic::{Diagnostic, Severity};
use crate::resource::Touch;
use crate::task::OnError;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("teardown-fails-task", Severity::Error)],
    doc: "What a task made is ended in any case, so a step that only ends things never fails its task.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    for (step, built) in checked.built() {
        let touches = built.touches();
        let only_ends =
            !touches.is_empty() && touches.iter().all(|(_, touch)| *touch == Touch::Retires);
        let declared = checked.task.steps[step.at()].on_error;
        if !only_ends || declared != Some(OnError::FailTask) {
            continue;
        }
        let places = checked.places;
        let id = checked.id(step);
        let headline = format!("step `{id}` only ends things, so it can't fail its task");
        let span = places.field_or_kind(step, "/fail_task_on_error");
        faults.push(
            Diagnostic::error("teardown-fails-task", headline)
                .primary(places.source(), span, "")
                .help("delete `fail_task_on_error`"),
        );
    }
}
