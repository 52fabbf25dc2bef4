//! The mistakes of a trajectory as rows.
//!
//! A mistake costs the same however many criteria there are: its weight grows with the sum of the weights that can be won.

use super::criteria::Criterion;
use crate::json::{Value, json};

/// How severe a mistake may be.
pub(super) const SEVERITIES: [&str; 4] = ["low", "medium", "high", "critical"];
/// What it costs, of a score of 1.
const PENALTIES: [f64; 4] = [0.02, 0.08, 0.25, 1.0];

/// Returns the rows of an answer; criteria that it says nothing of are not shown by the work.
pub(super) fn rows(
    value: &Value,
    criteria: &[Criterion],
    ids: &[String],
) -> Result<Vec<Value>, Vec<String>> {
    let listed = value.get("coverage").and_then(Value::as_array);
    let listed = listed.map(Vec::as_slice).unwrap_or_default();
    let covered = criteria.iter().zip(ids).map(|(criterion, id)| {
        let is_meant = |item: &&Value| {
            let named = item.get("id").and_then(Value::as_str);
            named.is_some_and(|named| named == id || named == criterion.id)
        };
        let found = listed.iter().find(is_meant);
        let shown = found.is_some_and(|item| item.get("shown") == Some(&Value::Bool(true)));
        let note = found.and_then(|item| item.get("note")?.as_str());
        let unsaid = "the judge says nothing of it";
        let note = note.unwrap_or(if found.is_some() { "" } else { unsaid });
        (criterion.id.clone(), shown, note.to_owned())
    });
    all(value, covered.collect())
}

/// Returns the rows of the mistakes in an answer that also has a row for each criterion.
pub(super) fn beside(value: &Value, graded: &[Value]) -> Result<Vec<Value>, Vec<String>> {
    let covered = graded.iter().map(|row| {
        let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default();
        let shown = row.get("result") == Some(&Value::Bool(true));
        (
            text("id").to_owned(),
            shown,
            text("justification").to_owned(),
        )
    });
    all(value, covered.collect())
}

fn all(value: &Value, covered: Vec<(String, bool, String)>) -> Result<Vec<Value>, Vec<String>> {
    let mut faults = Vec::new();
    let text = |value: &Value, key: &str| {
        let text = value.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let Some(findings) = value.get("findings").and_then(Value::as_array) else {
        return Err(vec!["it has no list `findings`".to_owned()]);
    };
    let Some(botched) = value.get("botched").and_then(Value::as_bool) else {
        return Err(vec!["it does not say `botched` true or false".to_owned()]);
    };
    let can_be_won = 1.0 + covered.len() as f64;
    let mut mistakes = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        let severity = text(finding, "severity").to_lowercase();
        let Some(rank) = SEVERITIES.iter().position(|known| *known == severity) else {
            faults.push(format!(
                "finding {} has the severity `{severity}`, which is none of `low`, `medium`, `high` and `critical`",
                at + 1
            ));
            continue;
        };
        let description = text(finding, "description");
        mistakes.push(json!({
            "id": format!("mistake_{}", at + 1),
            "severity": severity,
            "step": finding.get("step"),
            "should": text(finding, "should"),
            "description": description,
            "weight": -(PENALTIES[rank] * can_be_won),
            "score": 0.0,
            "result": false,
            "justification": description,
        }));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let whole = |holds: bool| if holds { 1.0 } else { 0.0 };
    let is_flawless = !botched && mistakes.is_empty() && covered.iter().all(|(_, shown, _)| *shown);
    let mut rows = vec![
        json!({
            "id": "summary", "weight": 0.0, "score": whole(is_flawless), "result": is_flawless,
            "justification": text(value, "summary"),
        }),
        json!({
            "id": "botched", "score": whole(!botched), "result": !botched,
            "justification": text(value, "botched_reason"),
        }),
    ];
    rows.extend(mistakes);
    rows.extend(covered.into_iter().map(|(id, shown, note)| {
        json!({
            "id": format!("coverage_{id}"), "score": whole(shown), "result": shown, "justification": note,
        })
    }));
    Ok(rows)
}
