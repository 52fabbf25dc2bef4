//! Waits for a person to look at the task so far, and to say whether it goes on.
//!
//! ```json
//! {"id": "look", "type": "review", "label": "Is the answer fit to be sent?", "depends_on": ["reply"]}
//! ```
//!
//! The run says how the question is answered, from any terminal: `aebuild answer <question> continue`, or `abort`.
//!
//! # What it gives
//!
//! `metadata.review_decisions.<step>`: `decision` and `decided_by`. `abort` fails the step with `ReviewAbortedError`, and no
//! answer in time with `TimeoutError`.
//!
//! # When it runs
//!
//! In every run: what a person says is never kept.
//!
//! # Differences to agent-env
//!
//! - The question is a file of the workspace, not a record in a store, and is shown where it is asked.

use std::sync::OnceLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::given;
use crate::context::{Entry, Lookup, Output, Place};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{
    Determinism, NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `review`.
pub static TYPE: StepType = StepType {
    name: "review",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("review.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// What the person is asked.
    label: Option<String>,
    /// How long the answer may take, in seconds.
    #[serde(default = "three_hours")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout_seconds: f64,
    /// How often the answer is looked for, in seconds.
    #[serde(default = "five")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    poll_interval_seconds: f64,
}

fn three_hours() -> f64 {
    10_800.0
}

fn five() -> f64 {
    5.0
}

#[derive(Debug)]
struct Review {
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    Ok(Box::new(Review { fields }))
}

impl Review {
    async fn review(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let label = given(&self.fields.label).unwrap_or("Is the task to go on?");
        let mut text = label.to_owned();
        let verified = cx.find(&Lookup::metadata(&["verifications"]));
        let verified = verified.as_ref().and_then(|found| found.as_object());
        for (name, verification) in verified.into_iter().flatten() {
            if let Some(score) = verification.get("score") {
                text.push_str(&format!("\n{name}: {score}"));
            }
        }
        let limit = Duration::from_secs_f64(self.fields.timeout_seconds.min(1e9));
        let asked = cx.services.ask_person(&text, &["continue", "abort"]);
        let decision = match tokio::time::timeout(limit, asked).await {
            Ok(decision) => decision?,
            Err(_) => {
                let what = format!("nobody answered within {} s", limit.as_secs_f64());
                return Err(StepError::of("TimeoutError", what));
            }
        };
        if decision != "continue" {
            return Err(StepError::of("ReviewAbortedError", "the review said abort"));
        }
        let place = vec!["review_decisions".to_owned(), cx.step.as_str().to_owned()];
        let value = json!({"decision": decision, "decided_by": "aebuild answer"});
        Ok(Output::of(vec![Entry::data(Place::Set(place), value)]))
    }
}

impl Step for Review {
    fn fields(&self) -> Value {
        json!({"label": self.fields.label})
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        Vec::new()
    }

    fn determinism(&self) -> Determinism {
        Determinism::Volatile
    }

    fn waits(&self) -> bool {
        true
    }

    fn provides(&self) -> Vec<NameRef> {
        Vec::new()
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.review(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeServices, build_step, run, show};
    use expect_test::expect;

    fn said(answer: &str) -> String {
        let step = build_step(&TYPE, "look", json!({"label": "Is it good?"}));
        let world = FakeServices::new()
            .metadata(&["verifications"], json!({"sent": {"score": 0.5}}))
            .person(answer);
        match run(&*step, "look", &world) {
            Ok(output) => format!("{}{}", world.log_text(), show(&output)),
            Err(error) => format!("{error}\n"),
        }
    }

    #[test]
    fn a_person_says_whether_the_task_goes_on() {
        expect![[r#"
            Note: "Is it good?\nsent: 0.5" ["continue", "abort"]
            metadata.review_decisions.look = {"decided_by":"aebuild answer","decision":"continue"}
        "#]]
        .assert_eq(&said("continue"));
        expect![[r#"
            ReviewAbortedError: the review said abort
        "#]]
        .assert_eq(&said("abort"));
    }
}
