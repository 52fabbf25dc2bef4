//! What a judge answered, checked and made rows.
//!
//! An answer counts as a whole or not at all: with one result too many or too few, the judge is asked again.

use std::collections::BTreeMap;

use super::criteria::Criterion;
use super::fields::Format;
use super::mistakes;
use crate::json::{Map, Value, from_slice, json};
use crate::steps::on_agent;

/// The answer of a judge.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// One row for each criterion, in their order.
    pub(super) rows: Vec<Value>,
    /// Rows of mistakes beside them, from a format that has both.
    pub(super) mistakes: Vec<Value>,
    /// How the judge came to it.
    pub(super) reasoning: Option<String>,
    /// What it looked at.
    pub(super) checks: Option<Vec<Value>>,
}

/// How many characters of the reasoning are kept.
const REASONING: usize = 2000;
/// How many checks are kept.
const CHECKS: usize = 12;

/// Reads an answer for some criteria and the ids that the judge knows them by; the error holds all that is wrong with it.
pub(super) fn read(
    format: Format,
    structured: Option<&Value>,
    text: &str,
    criteria: &[Criterion],
    ids: &[String],
) -> Result<Answer, Vec<String>> {
    let is_value = |value: &&Value| value.is_object() || value.is_array();
    let value = match structured.filter(is_value) {
        Some(value) => value.clone(),
        None => value_of(format, text).map_err(|fault| vec![fault])?,
    };
    if format == Format::TrajectoryMistakes {
        let rows = mistakes::rows(&value, criteria, ids)?;
        return Ok(Answer {
            rows,
            ..Answer::default()
        });
    }
    let mut faults = Vec::new();
    let results = results(&value, ids, &mut faults);
    let mut rows = Vec::new();
    for (criterion, id) in criteria.iter().zip(ids) {
        let Some(result) = results.get(id.as_str()) else {
            continue;
        };
        match row(format, criterion, result) {
            Ok(row) => rows.push(row),
            Err(fault) => faults.push(format!("the result of `{id}` {fault}")),
        }
    }
    let mut answer = Answer {
        rows,
        ..Answer::default()
    };
    if format.is_evidence() {
        let reasoning = value.get("reasoning").and_then(Value::as_str);
        answer.reasoning = reasoning.map(|text| text.chars().take(REASONING).collect());
        let checks = value.get("checks").and_then(Value::as_array);
        answer.checks = checks.map(|checks| checks.iter().take(CHECKS).cloned().collect());
    }
    if format == Format::RubricEvidenceWithMistakes {
        match mistakes::beside(&value, &answer.rows) {
            Ok(rows) => answer.mistakes = rows,
            Err(more) => faults.extend(more),
        }
    }
    if faults.is_empty() {
        Ok(answer)
    } else {
        Err(faults)
    }
}

/// Returns the value that a text is. A code fence or words around it are no part of a rubric's answer, which could be
/// quoted from the work.
fn value_of(format: Format, text: &str) -> Result<Value, String> {
    if format == Format::TrajectoryMistakes {
        return on_agent::json_in(text).ok_or_else(|| "there is no JSON object in it".to_owned());
    }
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let value: Value = from_slice(text.trim().as_bytes())
        .map_err(|error| format!("it is not JSON and nothing else: {error}"))?;
    Ok(value)
}

/// Returns the results by id.
fn results<'v>(
    value: &'v Value,
    ids: &[String],
    faults: &mut Vec<String>,
) -> BTreeMap<&'v str, &'v Map<String, Value>> {
    let mut found = BTreeMap::new();
    let list = match value {
        Value::Array(list) => Some(list),
        other => other.get("results").and_then(Value::as_array),
    };
    let Some(list) = list else {
        faults.push("it has no list `results`".to_owned());
        return found;
    };
    for (at, result) in list.iter().enumerate() {
        let id = result.get("id").and_then(Value::as_str);
        let (Some(id), Some(result)) = (id, result.as_object()) else {
            faults.push(format!("result {} has no text `id`", at + 1));
            continue;
        };
        if !ids.iter().any(|known| known == id) {
            faults.push(format!("`{id}` is none of the criteria"));
        } else if found.insert(id, result).is_some() {
            faults.push(format!("`{id}` has more than one result"));
        }
    }
    let missing: Vec<String> = ids
        .iter()
        .filter(|id| !found.contains_key(id.as_str()))
        .map(|id| format!("`{id}`"))
        .collect();
    if !missing.is_empty() {
        faults.push(format!("there is no result for {}", missing.join(", ")));
    }
    found
}

/// Returns the row of a criterion; the error is the end of a sentence.
fn row(
    format: Format,
    criterion: &Criterion,
    result: &Map<String, Value>,
) -> Result<Value, &'static str> {
    let given = result.get("score").filter(|score| score.is_number());
    let given = given.ok_or("has no number `score`")?;
    let justification = match result.get("justification") {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text,
        Some(_) => return Err("has a `justification` that is no text"),
    };
    let mut row = json!(criterion);
    match format {
        Format::RubricPartial => {
            let graded = criterion.graded(given.as_f64().unwrap_or_default());
            row["score"] = graded.score.into();
            row["result"] = graded.passes.into();
            if let Some(raw) = graded.raw {
                row["raw_score"] = raw.into();
            }
        }
        Format::RubricEvidence | Format::RubricEvidenceWithMistakes => {
            let status = result.get("evidence_status").and_then(Value::as_str);
            let status = status.filter(|status| STATUSES.contains(status));
            let status = status.unwrap_or("ambiguous");
            let is_met = given.as_f64().is_some_and(|score| score >= 0.5);
            let passes = is_met && !WITHOUT_EVIDENCE.contains(&status);
            row["score"] = if passes { 1.0 } else { 0.0 }.into();
            row["result"] = passes.into();
            row["evidence_status"] = status.into();
            let frame = result.get("frame").cloned();
            row["frame"] = frame
                .filter(|frame| frame.is_number() || frame.is_string())
                .unwrap_or_default();
        }
        _ => {
            row["score"] = given.clone();
            row["result"] = (given.as_f64() == Some(1.0)).into();
        }
    }
    row["justification"] = justification.into();
    Ok(row)
}

/// What the evidence of a criterion may be.
const STATUSES: [&str; 7] = [
    "visible",
    "missing",
    "contradicted",
    "blocked",
    "unavailable",
    "ambiguous",
    "not_applicable",
];
/// Evidence with which a criterion is not met, whatever the score.
const WITHOUT_EVIDENCE: [&str; 4] = ["missing", "contradicted", "blocked", "unavailable"];

/// Returns why rows look as if nobody looked at each of them.
pub(super) fn looks_bulk(rows: &[Value]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut short = 0;
    for row in rows {
        let text = row.get("justification").and_then(Value::as_str);
        let text = text.unwrap_or_default().trim();
        *counts.entry(text).or_default() += 1;
        short += usize::from(text.chars().count() < 20);
    }
    let same = counts.values().max().copied().unwrap_or(0);
    if same >= 5 && 4 * same >= rows.len() {
        return Some(format!(
            "{same} results have the same `justification`; look at each criterion by itself"
        ));
    }
    if short > 0 && 2 * short >= rows.len() {
        return Some(format!(
            "the `justification` of {short} results is shorter than 20 characters; name the evidence of each"
        ));
    }
    None
}

/// Returns the JSON Schema of an answer.
pub(super) fn schema(format: Format) -> Value {
    let text = json!({"type": "string"});
    let object = |properties: Value| {
        let names: Vec<String> = properties
            .as_object()
            .map(|members| members.keys().cloned().collect())
            .unwrap_or_default();
        json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
    };
    let list = |item: Value| json!({"type": "array", "items": item});
    let finding = object(json!({
        "severity": {"type": "string", "enum": mistakes::SEVERITIES}, "step": text, "should": text, "description": text,
    }));
    let result = object(json!({"id": text, "score": {"type": "number"}, "justification": text}));
    let evidence = object(json!({
        "id": text, "score": {"type": "number"}, "justification": text,
        "frame": {"type": ["integer", "null"]},
        "evidence_status": {"type": "string", "enum": STATUSES},
    }));
    match format {
        Format::RubricBinary | Format::RubricPartial => object(json!({"results": list(result)})),
        Format::TrajectoryMistakes => object(json!({
            "findings": list(finding),
            "coverage": list(object(json!({"id": text, "shown": {"type": "boolean"}, "note": text}))),
            "botched": {"type": "boolean"}, "botched_reason": text, "summary": text,
        })),
        Format::RubricEvidence => object(json!({
            "reasoning": text, "checks": list(text.clone()), "results": list(evidence),
        })),
        Format::RubricEvidenceWithMistakes => object(json!({
            "reasoning": text, "checks": list(text.clone()), "results": list(evidence), "findings": list(finding),
            "botched": {"type": "boolean"}, "botched_reason": text, "summary": text,
        })),
    }
}
