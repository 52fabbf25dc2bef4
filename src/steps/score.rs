//! How the rows of a verifier become one score.
//!
//! A row says whether it passed (`result`) and how well (`score`, from 0 to 1). Only a row that says `true` has passed,
//! and a score that is no number from 0 to 1 is worth nothing: what a verifier did not say clearly is never a pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::Lookup;
use crate::json::Value;
use crate::step::NameRef;

/// How rows are summed up; without rows the score is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Aggregator {
    /// 1 if every row passed, else 0.
    AllPass,
    /// 1 if any row passed, else 0.
    AnyPass,
    /// The mean of the rows' scores by their `weight`, which is 1 where a row has none. A row of negative weight costs
    /// what it lacks to a full score. Rows of weight 0 don't count, and without a positive weight the score is 0.
    WeightedAverage,
}

impl Aggregator {
    /// Returns the score of rows, from 0 to 1; rows that were skipped don't count.
    pub fn score<'r>(self, rows: impl IntoIterator<Item = &'r Value>) -> f64 {
        let mut rows = rows.into_iter().filter(|row| !is_skipped(row)).peekable();
        if rows.peek().is_none() {
            return 0.0;
        }
        let whole = |passes: bool| if passes { 1.0 } else { 0.0 };
        match self {
            Aggregator::AllPass => whole(rows.all(passes)),
            Aggregator::AnyPass => whole(rows.any(passes)),
            Aggregator::WeightedAverage => weighted_average(rows),
        }
    }
}

/// Returns the verification that a verifier makes, by the field that names it, or the step where none does.
pub(super) fn provides(written: &Option<String>, verifier_id: &str) -> NameRef {
    let field = if written.is_some() {
        "/verifier_id"
    } else {
        ""
    };
    NameRef {
        field: field.to_owned(),
        lookup: Lookup::verification(verifier_id),
    }
}

/// Returns whether a row was left out of its verification.
pub fn is_skipped(row: &Value) -> bool {
    row.get("skipped") == Some(&Value::Bool(true))
}

/// Returns whether a row passed.
fn passes(row: &Value) -> bool {
    row.get("result") == Some(&Value::Bool(true)) && score_of(row).is_some()
}

/// Returns how well a row did, or `None` where it has a score that is none.
fn score_of(row: &Value) -> Option<f64> {
    match row.get("score") {
        None | Some(Value::Null) => Some(if row.get("result") == Some(&Value::Bool(true)) {
            1.0
        } else {
            0.0
        }),
        Some(score) => score.as_f64().filter(|score| (0.0..=1.0).contains(score)),
    }
}

fn weighted_average<'r>(rows: impl Iterator<Item = &'r Value>) -> f64 {
    let weighed: Vec<(f64, f64)> = rows
        .map(|row| {
            let weight = match row.get("weight") {
                None | Some(Value::Null) => 1.0,
                Some(weight) => weight.as_f64().unwrap_or(0.0),
            };
            (weight, score_of(row).unwrap_or(0.0))
        })
        .collect();
    // Weights count in relation to each other; so that no sum of them is too large, the largest is made 1.
    let largest = weighed
        .iter()
        .fold(0.0, |most: f64, (weight, _)| most.max(weight.abs()));
    let scale = if largest > 0.0 { largest } else { 1.0 };
    let (mut sum, mut positive) = (0.0, 0.0);
    for (weight, score) in weighed {
        let weight = weight / scale;
        if weight > 0.0 {
            sum += weight * score;
            positive += weight;
        } else if weight < 0.0 {
            sum -= weight.abs() * (1.0 - score);
        }
    }
    let score = if positive > 0.0 { sum / positive } else { 0.0 };
    if score.is_finite() {
        score.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn scores(rows: Value) -> [f64; 3] {
        let rows = rows.as_array().cloned().unwrap();
        [
            Aggregator::AllPass,
            Aggregator::AnyPass,
            Aggregator::WeightedAverage,
        ]
        .map(|aggregator| aggregator.score(&rows))
    }

    #[test]
    fn rows_are_summed_up_as_the_table_says() {
        let table = [
            (json!([]), [0.0, 0.0, 0.0]),
            (json!([{"result": true}]), [1.0, 1.0, 1.0]),
            (
                json!([{"result": true}, {"result": false}]),
                [0.0, 1.0, 0.5],
            ),
            (
                json!([{"result": true, "weight": 3}, {"result": false}]),
                [0.0, 1.0, 0.75],
            ),
            (json!([{"result": true, "score": 0.5}]), [1.0, 1.0, 0.5]),
            (json!([{"result": false, "score": 0.5}]), [0.0, 0.0, 0.5]),
            (
                json!([{"result": true}, {"result": true, "weight": -1}]),
                [1.0, 1.0, 1.0],
            ),
            (
                json!([{"result": true, "weight": 2}, {"result": false, "weight": -1}]),
                [0.0, 1.0, 0.5],
            ),
            (
                json!([{"result": true}, {"result": false, "weight": -5}]),
                [0.0, 1.0, 0.0],
            ),
            (json!([{"result": true, "weight": 0}]), [1.0, 1.0, 0.0]),
            (json!([{"result": true, "weight": -1}]), [1.0, 1.0, 0.0]),
            (
                json!([{"result": true}, {"result": false, "skipped": true}]),
                [1.0, 1.0, 1.0],
            ),
            (json!([{"result": false, "skipped": true}]), [0.0, 0.0, 0.0]),
        ];
        for (rows, expected) in table {
            assert_eq!(scores(rows.clone()), expected, "{rows}");
        }
    }

    #[test]
    fn a_score_that_is_none_never_passes() {
        for score in [
            json!(2),
            json!(-1),
            json!("1"),
            json!(true),
            json!(1e308),
            json!([1]),
        ] {
            let row = json!([{"result": true, "score": score}]);
            assert_eq!(scores(row.clone()), [0.0; 3], "{row}");
        }
        for result in [json!("true"), json!(1), json!(null), json!([true])] {
            let row = json!([{"result": result}]);
            assert_eq!(scores(row.clone()), [0.0; 3], "{row}");
        }
    }

    #[test]
    fn huge_weights_count_in_relation_to_each_other() {
        let rows =
            json!([{"result": true, "weight": 1.7e308}, {"result": false, "weight": 1.7e308}]);
        assert_eq!(scores(rows)[2], 0.5);
    }
}
