//! What the cache knows besides results: how steps went before, and which gave two answers.

use aebuild_cache::Cache;

use super::{Session, SessionError};
use crate::digest::Digest;
use crate::engine::{FAILURE, TRACE};
use crate::json::Value;
use crate::rebuild;

/// One run of a step in the past.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRow {
    /// The run.
    pub run: String,
    /// When it started, microseconds since 1970.
    pub started_us: i64,
    /// How long it took, microseconds.
    pub took_us: u64,
    /// The digest of its output; `None` where it failed.
    pub output: Option<Digest>,
    /// The score that it gave, where it gave one.
    pub score: Option<f64>,
    /// Why it failed, where it did.
    pub error: Option<String>,
}

/// A step that gave different outputs from the same inputs.
#[derive(Clone, Debug)]
pub struct Nondeterminism {
    /// The step, as `folder/task/step`.
    pub step: String,
    /// Each output with the run that gave it, oldest first.
    pub outputs: Vec<(Digest, String)>,
    /// The look-up or part of the output that differs, where one can be named.
    pub differs: Vec<String>,
}

impl Session {
    /// Returns the steps that gave different outputs from the same inputs.
    pub fn nondeterminism(&self) -> Result<Vec<Nondeterminism>, SessionError> {
        let cache = self.cache()?;
        let mut found = Vec::new();
        for conflict in cache.conflicts() {
            if conflict.kind != TRACE {
                continue;
            }
            let mut outputs = Vec::new();
            let mut step = String::new();
            let mut traces = Vec::new();
            for record in cache.by_lineage(&conflict.lineage) {
                if record.action != conflict.action || record.kind != TRACE {
                    continue;
                }
                let Some(trace) = rebuild::decode(&record.payload) else {
                    continue;
                };
                step.clone_from(&trace.made.step);
                outputs.push((Digest::from_bytes(record.output), trace.made.run.clone()));
                traces.push(trace);
            }
            outputs.reverse();
            let differs = match &traces[..] {
                [first, others @ ..] => {
                    let mut names: Vec<String> = others
                        .iter()
                        .flat_map(|other| differences(first, other))
                        .collect();
                    names.sort();
                    names.dedup();
                    names
                }
                [] => Vec::new(),
            };
            found.push(Nondeterminism {
                step,
                outputs,
                differs,
            });
        }
        found.sort_by(|a, b| a.step.cmp(&b.step));
        Ok(found)
    }
}

fn differences(one: &rebuild::Trace, other: &rebuild::Trace) -> Vec<String> {
    let mut names = Vec::new();
    for entry in &one.output.entries {
        let twin = other
            .output
            .entries
            .iter()
            .find(|twin| twin.place == entry.place);
        if twin.is_none_or(|twin| twin.digest != entry.digest) {
            names.push(match entry.place.metadata_path() {
                Some(path) => format!("metadata `{}`", path.join(".")),
                None => format!("{:?}", entry.place),
            });
        }
    }
    for effect in &one.output.effects {
        let twin = other
            .output
            .effects
            .iter()
            .find(|twin| twin.resource == effect.resource);
        if twin.is_none_or(|twin| twin.after != effect.after) {
            names.push(format!("state of {}", effect.resource));
        }
    }
    names
}

/// Returns how a step went before, newest first.
pub(super) fn history(cache: &Cache, lineage: &Digest) -> Vec<HistoryRow> {
    let mut rows = Vec::new();
    for record in cache.by_lineage(lineage.as_bytes()) {
        if record.kind == TRACE
            && let Some(trace) = rebuild::decode(&record.payload)
        {
            let score = trace.output.entries.iter().find_map(|entry| {
                let path = entry.place.metadata_path()?;
                (path.first()? == "verifications").then_some(())?;
                entry.value.get("score").and_then(Value::as_f64)
            });
            rows.push(HistoryRow {
                run: trace.made.run,
                started_us: trace.made.started_us,
                took_us: trace.made.took_us,
                output: Some(Digest::from_bytes(record.output)),
                score,
                error: None,
            });
        }
        if record.kind == FAILURE
            && let Ok(value) = crate::json::from_slice::<Value>(&record.payload)
        {
            let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
            rows.push(HistoryRow {
                run: text("run").to_owned(),
                started_us: value.get("at").and_then(Value::as_i64).unwrap_or_default(),
                took_us: value
                    .get("took")
                    .and_then(Value::as_u64)
                    .unwrap_or_default(),
                output: None,
                score: None,
                error: Some(format!("{}: {}", text("error_type"), text("error"))),
            });
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.started_us));
    rows
}
