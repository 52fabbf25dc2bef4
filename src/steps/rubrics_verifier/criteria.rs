//! The criteria of a rubric: their scales, and how a judge sees them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::prompt::judge_id;
use crate::json::{Map, Value, json};
use crate::step::Refusal;

/// One thing that is judged.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Criterion {
    /// Its name, which no other criterion has.
    #[schemars(length(min = 1))]
    pub(super) id: String,
    /// How much it counts in a `weighted_average`; 1 where absent. A negative weight is what a fault costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    weight: Option<Value>,
    /// With `rubric_partial`, the scores that may be given, each with a label, or the ends of a scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcomes: Option<Value>,
    /// With `rubric_partial`, the score from which on it has passed; 0.5 where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pass_threshold: Option<f64>,
    /// What is judged, in words, under any name.
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// A score, brought to the scale from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Graded {
    /// The score.
    pub(super) score: f64,
    /// Whether it is enough.
    pub(super) passes: bool,
    /// What the judge gave, where it is on another scale.
    pub(super) raw: Option<f64>,
}

/// The scores that may be given.
#[derive(Clone, Debug, PartialEq)]
enum Scale {
    /// Any from 0 to 1.
    Unit,
    /// These.
    Steps(Vec<f64>),
    /// Any from one to another.
    Range(f64, f64),
}

impl Criterion {
    /// Returns the criterion as the judge sees it: under another id, and without what it costs or when it passes.
    pub(super) fn shown(&self, at: usize) -> Value {
        let mut shown = json!(self);
        if let Value::Object(members) = &mut shown {
            members.remove("weight");
            members.remove("pass_threshold");
        }
        shown["id"] = judge_id(at).into();
        if self.is_negative() {
            shown["negative"] = true.into();
        }
        shown
    }

    fn is_negative(&self) -> bool {
        let weight = self.weight.as_ref().and_then(Value::as_f64);
        weight.is_some_and(|weight| weight < 0.0)
    }

    /// Returns what a score is worth.
    pub(super) fn graded(&self, given: f64) -> Graded {
        let threshold = self.pass_threshold;
        match self.scale().unwrap_or(Scale::Unit) {
            Scale::Unit => {
                let score = given.clamp(0.0, 1.0);
                Graded {
                    score,
                    passes: score >= threshold.unwrap_or(0.5),
                    raw: None,
                }
            }
            Scale::Steps(steps) => {
                // Of two that are as near, the lower one.
                let nearest = steps.into_iter().reduce(|best, step| {
                    let (to_step, to_best) = ((given - step).abs(), (given - best).abs());
                    let is_nearer = to_step < to_best || (to_step == to_best && step < best);
                    if is_nearer { step } else { best }
                });
                let snapped = nearest.unwrap_or(given);
                let score = snapped.clamp(0.0, 1.0);
                Graded {
                    score,
                    passes: snapped >= threshold.unwrap_or(0.5),
                    raw: (score != snapped).then_some(snapped),
                }
            }
            Scale::Range(min, max) => {
                let score = ((given - min) / (max - min)).clamp(0.0, 1.0);
                let passes = match threshold {
                    Some(threshold) => given >= threshold,
                    None => score >= 0.5,
                };
                Graded {
                    score,
                    passes,
                    raw: Some(given),
                }
            }
        }
    }

    /// Returns the scale; the error says what is wrong with it.
    fn scale(&self) -> Result<Scale, &'static str> {
        let number = |value: Option<&Value>| match value? {
            Value::Object(members) => members.get("value")?.as_f64(),
            value => value.as_f64(),
        };
        match &self.outcomes {
            None | Some(Value::Null) => Ok(Scale::Unit),
            Some(Value::Array(outcomes)) => {
                let scores = outcomes
                    .iter()
                    .map(|outcome| outcome.get("score")?.as_f64());
                let scores: Option<Vec<f64>> = scores.collect();
                let scores = scores.filter(|scores| !scores.is_empty());
                let why = "is a list of objects with a `label` and a number `score`";
                scores.map(Scale::Steps).ok_or(why)
            }
            Some(Value::Object(ends)) => {
                let why = "has numbers `min` and `max`, of which `max` is larger";
                let ends = (number(ends.get("min")), number(ends.get("max")));
                let (Some(min), Some(max)) = ends else {
                    return Err(why);
                };
                let is_scale = min < max && (max - min).is_finite();
                is_scale.then_some(Scale::Range(min, max)).ok_or(why)
            }
            Some(_) => Err("is a list of scores, or an object with `min` and `max`"),
        }
    }
}

/// Refuses criteria that cannot be told apart, or whose scale is none.
pub(super) fn check(criteria: &[Criterion], is_partial: bool, refusals: &mut Vec<Refusal>) {
    for (at, criterion) in criteria.iter().enumerate() {
        let before = criteria[..at]
            .iter()
            .position(|other| other.id == criterion.id);
        if let Some(before) = before {
            refusals.push(
                Refusal::new(
                    "duplicate-id",
                    format!("/criteria/{at}/id"),
                    format!(
                        "criteria {} and {} are both called `{}`",
                        before + 1,
                        at + 1,
                        criterion.id
                    ),
                )
                .help("give each criterion an id of its own"),
            );
        }
        if is_partial && let Err(why) = criterion.scale() {
            refusals.push(
                Refusal::new(
                    "wrong-type",
                    format!("/criteria/{at}/outcomes"),
                    format!("`outcomes` of criterion `{}` is no scale", criterion.id),
                )
                .help(format!("`outcomes` {why}")),
            );
        }
    }
}
