//! What a task of a run came to.

use crate::context::{Outputs, Place};
use crate::event::{Outcome, Score};
use crate::json::Value;
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
            let score = entry.value.get("score").and_then(Value::as_f64);
            if let (true, Some(score)) = (first == "verifications", score) {
                scores.push(Score {
                    name: plan.steps[step.at()].id.to_string(),
                    score,
                    failed: failed_rows(&entry.value),
                });
            }
        }
    }
    scores
}

/// The most rows that are told of a verification.
const MAX_ROWS: usize = 5;

/// The most characters of a row that are told.
const MAX_ROW: usize = 400;

/// Returns the rows of a verification that did not pass, each as a line.
fn failed_rows(verification: &Value) -> Vec<String> {
    let rows = verification.get("results").and_then(Value::as_array);
    let rows = rows.into_iter().flatten();
    let is = |row: &Value, key: &str| row.get(key) == Some(&Value::Bool(true));
    let is_whole = |row: &Value| {
        let score = row.get("score").and_then(Value::as_f64);
        is(row, "result") && score.is_none_or(|score| score >= 1.0)
    };
    let failed: Vec<&Value> = rows
        .filter(|row| row.is_object() && !is(row, "skipped") && !is_whole(row))
        .collect();
    let mut lines: Vec<String> = failed.iter().take(MAX_ROWS).map(|row| told(row)).collect();
    if failed.len() > MAX_ROWS {
        lines.push(format!("and {} more", failed.len() - MAX_ROWS));
    }
    lines
}

/// Returns what a row is about, and why it did not pass.
fn told(row: &Value) -> String {
    let text = |key: &str| {
        row.get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let number = row.get("criterion_index").and_then(Value::as_u64);
    let about = match (text("id").or_else(|| text("name")), number) {
        (Some(id), _) => id.to_owned(),
        (None, Some(number)) => match text("type") {
            Some(kind) => format!("criterion {number} ({kind})"),
            None => format!("criterion {number}"),
        },
        (None, None) => text("description").unwrap_or("a row").to_owned(),
    };
    let why = [
        "justification",
        "error",
        "message",
        "reasoning",
        "description",
    ];
    let why = why.iter().find_map(|key| text(key));
    let why = match (why, row.get("score")) {
        (Some(why), _) => why.to_owned(),
        (None, Some(score)) if score.as_f64() > Some(0.0) => format!("it scored {score}"),
        (None, _) => "it did not pass".to_owned(),
    };
    let line = format!("{about}: {why}");
    match line.char_indices().nth(MAX_ROW) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use expect_test::expect;

    #[test]
    fn a_row_that_did_not_pass_says_why() {
        let row = |n: u32| json!({"id": format!("r{n}"), "result": false});
        let mut rows = vec![
            json!({"id": "sent", "result": true, "justification": "it is there"}),
            json!({"id": "sent", "result": true, "score": 1.0}),
            json!({"id": "left out", "skipped": true}),
            json!({"id": "half", "result": true, "score": 0.5}),
            json!({"criterion_index": 0, "type": "file_exists", "result": false, "justification": "no /app/x"}),
            json!({"id": "prompt_error", "message": "gone", "result": false}),
            json!({"result": false, "description": "It is polite.", "reasoning": "x".repeat(500)}),
        ];
        rows.extend((0..4).map(row));
        let lines = failed_rows(&json!({"results": rows, "score": 0})).join("\n");
        assert!(lines.len() < 700, "{}", lines.len());
        expect![[r"
            half: it scored 0.5
            criterion 0 (file_exists): no /app/x
            prompt_error: gone
            It is polite.: x…
            r0: it did not pass
            and 3 more"]]
        .assert_eq(&lines.replace(&"x".repeat(385), "x"));
        assert!(failed_rows(&json!({"score": 0})).is_empty());
    }
}
