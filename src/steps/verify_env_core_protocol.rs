//! Checks which methods of the data plane an env answers, without changing it.
//!
//! ```json
//! {"id": "protocol", "type": "verify_env_core_protocol", "env_id": "mail"}
//! ```
//!
//! | method | how it is found out |
//! |---|---|
//! | `data/get` | it is called, as it only reads |
//! | `data/add` | it is called without parts, which it must refuse |
//! | `data/reset` | it is never called; the card says whether the env has it |
//!
//! # What it gives
//!
//! `metadata.verifications.env_core_protocol`: for each method `supported`, and `advertised`, which is what the card says
//! in `operations`. `supported` is `null` where it cannot be told: the env answered with an error of its own (-32000).
//! `advertised` is `null` for an env without a card; a card without `operations` advertises all three. Other operations
//! that the card advertises are listed too, but not tried. There is no score.
//!
//! # What is in its key
//!
//! Its fields and the state of the env.
//!
//! # Effects
//!
//! None.
//!
//! # Differences to agent-env
//!
//! - `advertised` stands beside `supported`.
//! - Two of these steps in one task are refused, as both would write the same verification.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_env;
use crate::context::{Lookup, Output};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::env::EnvError;
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `verify_env_core_protocol`.
pub static TYPE: StepType = StepType {
    name: "verify_env_core_protocol",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("verify_env_core_protocol.rs"),
    schema: OnceLock::new(),
};

/// The name of the verification.
const VERIFICATION: &str = "env_core_protocol";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env that is looked at.
    #[schemars(length(min = 1))]
    env_id: String,
}

#[derive(Debug)]
struct VerifyCoreProtocol {
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    Ok(Box::new(VerifyCoreProtocol { fields }))
}

/// The methods that every env has.
const METHODS: [&str; 3] = ["data/reset", "data/add", "data/get"];
/// The code of an answer to a method that is not there.
const NO_METHOD: i64 = -32601;
/// The code of an answer to arguments that cannot be.
const BAD_PARAMS: i64 = -32602;

/// Returns the operations that a card advertises.
fn operations(card: &Value) -> Vec<&str> {
    let listed = card
        .pointer("/capabilities/operations")
        .and_then(Value::as_array);
    match listed {
        Some(listed) => listed.iter().filter_map(Value::as_str).collect(),
        None => METHODS.to_vec(),
    }
}

/// Returns what an answer says of its method: whether it is there, if that can be told.
fn supported(answer: Result<(), EnvError>) -> Result<Option<bool>, EnvError> {
    match answer {
        Ok(()) => Ok(Some(true)),
        Err(EnvError::Refused { code, .. }) => Ok(match code {
            BAD_PARAMS => Some(true),
            NO_METHOD => Some(false),
            _ => None,
        }),
        Err(EnvError::NotSupported { .. }) => Ok(Some(false)),
        Err(error) if error.is_fatal() => Err(error),
        Err(_) => Ok(None),
    }
}

impl VerifyCoreProtocol {
    async fn verify(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let env = cx.env(&self.fields.env_id)?;
        let card = env.card();
        let advertised = card.as_ref().map(operations);
        let is_advertised = |method: &str| Some(advertised.as_ref()?.contains(&method));
        let mut found = Map::new();
        for method in METHODS {
            let answer = match method {
                "data/reset" => {
                    let is_there = is_advertised(method);
                    found.insert(
                        method.to_owned(),
                        json!({"supported": is_there, "advertised": is_there}),
                    );
                    continue;
                }
                // An env must refuse to add nothing, so the state stays what it is.
                "data/add" => env.data_plane(method, json!({"parts": []})).await,
                _ => env.data_plane(method, json!({})).await,
            };
            let supported = supported(answer.map(|_| ()))?;
            found.insert(
                method.to_owned(),
                json!({"supported": supported, "advertised": is_advertised(method)}),
            );
        }
        for other in advertised.iter().flatten() {
            if !METHODS.contains(other) {
                let row = json!({"supported": null, "advertised": true});
                found.insert((*other).to_owned(), row);
            }
        }
        let found = Value::Object(found);
        Ok(Output::of(vec![on_env::set(
            &["verifications", VERIFICATION],
            found,
        )]))
    }
}

impl Step for VerifyCoreProtocol {
    fn fields(&self) -> Value {
        json!(self.fields)
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        on_env::touches(&self.fields.env_id, Touch::Observes)
    }

    fn reads(&self) -> Vec<NameRef> {
        on_env::reads(&self.fields.env_id)
    }

    fn reads_are_all(&self) -> bool {
        true
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![NameRef {
            field: String::new(),
            lookup: Lookup::verification(VERIFICATION),
        }]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.verify(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeEnv, FakeServices, build_step, run, show};
    use expect_test::expect;

    fn verify(env: FakeEnv) -> String {
        let world = FakeServices::new().env(env.clone());
        let step = build_step(&TYPE, "protocol", json!({"env_id": "mail"}));
        format!(
            "{}{}\n",
            show(&run(&*step, "protocol", &world).unwrap()),
            env.said()
        )
    }

    #[test]
    fn methods_are_tried_without_changing_anything() {
        let env = FakeEnv::new("mail")
            .card(json!({"capabilities": {}}))
            .data_plane(|method, _| match method {
                "data/get" => Ok(json!({"parts": []})),
                _ => Err((-32602, "no parts".to_owned())),
            });
        expect![[r#"
            metadata.verifications.env_core_protocol = {"data/add":{"advertised":true,"supported":true},"data/get":{"advertised":true,"supported":true},"data/reset":{"advertised":true,"supported":true}}
            data/add {"parts":[]}
            data/get {}
        "#]]
        .assert_eq(&verify(env));
    }

    #[test]
    fn what_the_card_says_and_what_the_env_does_may_differ() {
        let operations = json!(["data/get", "data/stream"]);
        let env = FakeEnv::new("mail")
            .card(json!({"capabilities": {"operations": operations}}))
            .data_plane(|method, _| match method {
                "data/get" => Err((-32601, "what?".to_owned())),
                _ => Err((-32000, "add_failed".to_owned())),
            });
        expect![[r#"
            metadata.verifications.env_core_protocol = {"data/add":{"advertised":false,"supported":null},"data/get":{"advertised":true,"supported":false},"data/reset":{"advertised":false,"supported":false},"data/stream":{"advertised":true,"supported":null}}
            data/add {"parts":[]}
            data/get {}
        "#]]
        .assert_eq(&verify(env));
    }

    #[test]
    fn an_env_without_a_card_or_a_data_plane_has_nothing() {
        expect![[r#"
            metadata.verifications.env_core_protocol = {"data/add":{"advertised":null,"supported":false},"data/get":{"advertised":null,"supported":false},"data/reset":{"advertised":null,"supported":null}}
            data/add {"parts":[]}
            data/get {}
        "#]]
        .assert_eq(&verify(FakeEnv::new("mail")));
    }
}
