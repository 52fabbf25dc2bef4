//! Sums up the rows of several verifications in one score.
//!
//! ```json
//! {"id": "total", "type": "aggregate_verifiers", "verifier_ids": ["files", "tests"], "verifier_id": "total"}
//! ```
//!
//! The rows of all named verifications are put together as if one verifier had given them; rows that were skipped don't
//! count.
//!
//! # What it gives
//!
//! `metadata.verifications.<verifier_id>`: the `score` and the `source_verifier_ids`, without rows.
//!
//! # What is in its key
//!
//! Its fields, and each verification that it names.
//!
//! # Differences to agent-env
//!
//! - `verifier_id` is the step's id where absent; `agent-env` makes one up by chance.
//! - A score that is no number from 0 to 1 is worth nothing.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::score::{Aggregator, is_skipped};
use super::target::given;
use crate::context::{Entry, Lookup, Output, Place};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `aggregate_verifiers`.
pub static TYPE: StepType = StepType {
    name: "aggregate_verifiers",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("aggregate_verifiers.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The verifications to sum up; without any the score is 0.
    #[serde(default)]
    verifier_ids: Vec<String>,
    /// How the rows become a score.
    #[serde(default = "weighted_average")]
    score_aggregator: Aggregator,
    /// The name of this verification; the step's id where absent.
    verifier_id: Option<String>,
}

fn weighted_average() -> Aggregator {
    Aggregator::WeightedAverage
}

#[derive(Debug)]
struct AggregateVerifiers {
    fields: Fields,
    verifier_id: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let verifier_id = given(&fields.verifier_id)
        .unwrap_or(step.as_str())
        .to_owned();
    match fields.verifier_ids.iter().position(|id| *id == verifier_id) {
        Some(at) => Err(vec![
            Refusal::new(
                super::target::CONFLICT,
                format!("/verifier_ids/{at}"),
                format!("verification `{verifier_id}` is this step's own"),
            )
            .help("give the step another `verifier_id`"),
        ]),
        None => Ok(Box::new(AggregateVerifiers {
            fields,
            verifier_id,
        })),
    }
}

impl AggregateVerifiers {
    fn aggregate(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let mut rows = Vec::new();
        let mut missing = Vec::new();
        for id in &self.fields.verifier_ids {
            let Some(verification) = cx.find(&Lookup::verification(id)) else {
                missing.push(format!("`{id}`"));
                continue;
            };
            match verification.get("results").and_then(Value::as_array) {
                Some(results) => {
                    rows.extend(results.iter().filter(|row| !is_skipped(row)).cloned())
                }
                None => cx.note(&format!(
                    "verification `{id}` has no rows, so it does not count"
                )),
            }
        }
        if !missing.is_empty() {
            let (noun, verb) = if missing.len() == 1 {
                ("verification", "is")
            } else {
                ("verifications", "are")
            };
            return Err(StepError::new(format!(
                "{noun} {} {verb} not there; no step that `{}` depends on gave one",
                missing.join(", "),
                cx.step
            )));
        }
        let value = json!({
            "score": self.fields.score_aggregator.score(&rows),
            "source_verifier_ids": self.fields.verifier_ids,
        });
        let place = Place::Set(vec!["verifications".to_owned(), self.verifier_id.clone()]);
        Ok(Output::of(vec![Entry::data(place, value)]))
    }
}

impl Step for AggregateVerifiers {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["verifier_id"] = Value::String(self.verifier_id.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        Vec::new()
    }

    fn reads(&self) -> Vec<NameRef> {
        let read = |(at, id): (usize, &String)| NameRef {
            field: format!("/verifier_ids/{at}"),
            lookup: Lookup::verification(id),
        };
        self.fields
            .verifier_ids
            .iter()
            .enumerate()
            .map(read)
            .collect()
    }

    fn reads_are_all(&self) -> bool {
        true
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![super::score::provides(
            &self.fields.verifier_id,
            &self.verifier_id,
        )]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(async move { self.aggregate(cx) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeServices, build_step, refused, run, show};
    use expect_test::expect;

    fn world() -> FakeServices {
        let rows = json!([{"result": true, "score": 1.0}, {"result": false, "skipped": true}]);
        FakeServices::new()
            .metadata(
                &["verifications", "files"],
                json!({"score": 1.0, "results": rows}),
            )
            .metadata(
                &["verifications", "tests"],
                json!({"score": 0, "results": [{"result": false, "score": 0, "weight": 3}]}),
            )
            .metadata(
                &["verifications", "sum"],
                json!({"score": 1.0, "source_verifier_ids": []}),
            )
    }

    fn aggregate(fields: Value) -> Result<String, StepError> {
        run(&*build_step(&TYPE, "total", fields), "total", &world()).map(|output| show(&output))
    }

    #[test]
    fn rows_of_all_verifications_count_as_those_of_one() {
        expect![[r#"
            metadata.verifications.total = {"score":0.25,"source_verifier_ids":["files","tests","sum"]}
        "#]]
        .assert_eq(&aggregate(json!({"verifier_ids": ["files", "tests", "sum"]})).unwrap());
        expect![[r#"
            metadata.verifications.v = {"score":1.0,"source_verifier_ids":["files"]}
        "#]]
        .assert_eq(
            &aggregate(json!({"verifier_ids": ["files"], "score_aggregator": "all_pass", "verifier_id": "v"}))
                .unwrap(),
        );
        expect![[r#"
            metadata.verifications.total = {"score":0.0,"source_verifier_ids":[]}
        "#]]
        .assert_eq(&aggregate(json!({})).unwrap());
    }

    #[test]
    fn a_verification_that_is_not_there_fails_the_step() {
        let error = aggregate(json!({"verifier_ids": ["a", "files", "b"]})).unwrap_err();
        expect!["RuntimeError: verifications `a`, `b` are not there; no step that `total` depends on gave one"]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn a_step_cannot_sum_up_itself() {
        expect![[r#"
            conflicting-fields /verifier_ids/0: verification `step` is this step's own (give the step another `verifier_id`)
        "#]]
        .assert_eq(&refused(&TYPE, json!({"verifier_ids": ["step"]})));
    }

    #[test]
    fn the_default_name_is_in_the_key() {
        let key = |id: &str| build_step(&TYPE, id, json!({})).fields();
        assert_ne!(key("a"), key("b"));
    }
}
