//! What a task of a run came to.

use crate::context::{Outputs, Place};
use crate::event::{Outcome, Score};
use crate::schedule::{TaskEnd, TaskPlan};

/// Returns the scores that verifications hold, in list order.
pub fn scores(plan: &TaskPlan, outputs: &Outputs) -> Vec<Score> {
    let mut scores = Vec::new();
    for (step, output) in outputs.all() {
        for entry in &output.entries {
            let Place::Set(path) = &entry.place else {
                continue;
            };
            let [first, _] = &path[..] else { continue };
            let score = entry
                .value
                .get("score")
                .and_then(crate::json::Value::as_f64);
            if let (true, Some(score)) = (first == "verifications", score) {
                scores.push(Score {
                    name: plan.steps[step.at()].id.to_string(),
                    score,
                });
            }
        }
    }
    scores
}

pub(super) fn outcome_of(end: &TaskEnd, scores: &[Score]) -> Outcome {
    match end {
        TaskEnd::Cancelled => Outcome::Cancelled,
        TaskEnd::Failed => Outcome::Failed,
        TaskEnd::Well if scores.is_empty() => Outcome::Unscored,
        TaskEnd::Well if scores.iter().all(|score| score.score >= 1.0) => Outcome::Passed,
        TaskEnd::Well => Outcome::ScoredBelowOne,
    }
}
