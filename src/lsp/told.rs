//! What is known of the result of a step, as Markdown.

use crate::diagnostic::{differing, visible_line};
use crate::report::{score, seconds};
use crate::session::{Cause, StepId, StepResult, StepVerdict};

/// How many reasons are told.
const MAX_CAUSES: usize = 6;
/// The most letters of a value that are shown beside what it was.
const MAX_VALUE: usize = 60;

/// Returns whether a result is kept and why not, how the step went last, and the start of what it printed.
pub(super) fn result(result: &StepResult) -> String {
    let explanation = &result.explanation;
    let mut text = match &explanation.verdict {
        StepVerdict::Hit { made_by } => format!("**cached**, made by run `{made_by}`"),
        StepVerdict::Dirty { .. } => "**will run**, dirty because".to_owned(),
        StepVerdict::Waits { on } => format!("**waits** for `{on}`, which runs first"),
        StepVerdict::Deferred => "**made when it is needed**".to_owned(),
        StepVerdict::LeftOut => "**left out**".to_owned(),
    };
    if !explanation.causes.is_empty() {
        text.push('\n');
    }
    for cause in explanation.causes.iter().take(MAX_CAUSES) {
        write_cause(&mut text, cause, &explanation.step, 0);
    }
    if let Some(cutoff) = &explanation.cutoff {
        text.push_str(&format!("\n\n{cutoff}"));
    }
    if let Some(last) = explanation.history.first() {
        text.push_str(&format!("\n\nlast: took {}", seconds(last.took_us)));
        if let Some(given) = last.score {
            text.push_str(&format!(", score {}", score(given)));
        }
        if let Some(error) = &last.error {
            text.push_str(&format!(", failed: {error}"));
        }
    }
    if !result.log.is_empty() {
        // A fence that what it holds cannot end.
        text.push_str(&format!(
            "\n\n~~~~text\n{}\n~~~~",
            result.log.replace("~~~~", "~ ~ ~ ~")
        ));
    }
    text
}

/// Writes a reason, with the step whose it is where that is another than the one above.
fn write_cause(text: &mut String, cause: &Cause, above: &StepId, depth: usize) {
    let indent = "  ".repeat(depth);
    let whose = match cause.step == *above {
        true => String::new(),
        false => format!("`{}`: ", cause.step),
    };
    text.push_str(&format!("\n{indent}- {whose}{}", cause.reason));
    if let Some((old, new)) = cause.reason.old_and_new() {
        let (old, new) = differing(&visible_line(&old), &visible_line(&new), MAX_VALUE);
        text.push_str(&format!(" (was {old}, now {new})"));
    }
    if depth < 3 {
        for deeper in cause.then.iter().take(MAX_CAUSES) {
            write_cause(text, deeper, &cause.step, depth + 1);
        }
    }
}
