//! Checks the card of an env: what its server says of itself.
//!
//! ```json
//! {"id": "card", "type": "verify_env_card", "env_id": "mail"}
//! ```
//!
//! # What it gives
//!
//! `metadata.verifications.environment_card`: the card as `environment_card`, and what was found as
//! `validated_environment_card`:
//!
//! | key | says |
//! |---|---|
//! | `accessible` | whether there is a card |
//! | `required_fields` | for each field that a card must have, whether it has it |
//! | `children_count` | the number of servers behind it |
//! | `extensions` | the URIs of the extensions that it and its servers advertise |
//! | `tools` | the names of the tools that they name |
//! | `name_check` | whether the env's id is among the names that are served |
//!
//! Without a card `validated_environment_card` is `{"accessible": false, "error": ".."}`. There is no score: a task
//! decides itself what it takes.
//!
//! # What is in its key
//!
//! Its fields and the state of the env.
//!
//! # Effects
//!
//! None: it only reads the card.
//!
//! # Differences to agent-env
//!
//! - The record of the env is not changed; there is none.
//! - The name that is checked is `env_id`.
//! - Two of these steps in one task are refused, as both would write the same verification.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_env;
use crate::context::{Lookup, Output};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `verify_env_card`.
pub static TYPE: StepType = StepType {
    name: "verify_env_card",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("verify_env_card.rs"),
    schema: OnceLock::new(),
};

/// The name of the verification.
const VERIFICATION: &str = "environment_card";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env that is looked at.
    #[schemars(length(min = 1))]
    env_id: String,
}

#[derive(Debug)]
struct VerifyEnvCard {
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    Ok(Box::new(VerifyEnvCard { fields }))
}

/// The fields that a card must have.
const REQUIRED: [&str; 6] = [
    "name",
    "protocolVersion",
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "capabilities",
];

/// Returns what a card says, in short.
fn validated(card: &Value, env_id: &str) -> Value {
    let children = card.get("children_environments").and_then(Value::as_array);
    let children = children.map(Vec::as_slice).unwrap_or_default();
    let is_there = |field: &str| match card.get(field) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    };
    let required: Map<String, Value> = REQUIRED
        .iter()
        .map(|field| ((*field).to_owned(), is_there(field).into()))
        .collect();
    let listed = |list: &str, key: &str| {
        let mut found: Vec<&str> = Vec::new();
        for card in [card].into_iter().chain(children) {
            let items = card
                .get("capabilities")
                .and_then(|all| all.get(list)?.as_array());
            let names = items.into_iter().flatten();
            for name in names.filter_map(|item| item.get(key)?.as_str()) {
                if !found.contains(&name) {
                    found.push(name);
                }
            }
        }
        found
    };
    let names = [card].into_iter().chain(children);
    let served: Vec<&str> = names
        .filter_map(|card| card.get("name")?.as_str())
        .collect();
    json!({
        "accessible": true,
        "required_fields": required,
        "children_count": children.len(),
        "extensions": listed("extensions", "uri"),
        "tools": listed("tools", "name"),
        "name_check": {"registered": env_id, "served": served, "matches": served.contains(&env_id)},
    })
}

impl VerifyEnvCard {
    async fn verify(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let env_id = &self.fields.env_id;
        let env = cx.env(env_id)?;
        let value = match env.card() {
            Some(card) => {
                let found = validated(&card, env_id);
                json!({"environment_card": card, "validated_environment_card": found})
            }
            None => json!({"validated_environment_card": {
                "accessible": false,
                "error": format!("env `{env_id}` serves no card at /.well-known/agent-env.json"),
            }}),
        };
        Ok(Output::of(vec![on_env::set(
            &["verifications", VERIFICATION],
            value,
        )]))
    }
}

impl Step for VerifyEnvCard {
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
        let world = FakeServices::new().env(env);
        show(
            &run(
                &*build_step(&TYPE, "card", json!({"env_id": "mail"})),
                "card",
                &world,
            )
            .unwrap(),
        )
    }

    #[test]
    fn a_card_is_kept_with_what_it_says() {
        let child = json!({"name": "mail", "capabilities": {
            "extensions": [{"uri": "urn:limit"}, {"uri": "urn:clock"}], "tools": [{"name": "send_mail"}],
        }});
        let card = json!({
            "name": "office", "protocolVersion": "1.0", "url": "", "preferredTransport": "JSONRPC",
            "capabilities": {"extensions": [{"uri": "urn:clock"}, {}]}, "children_environments": [child],
        });
        expect![[r#"
            metadata.verifications.environment_card = {"environment_card":{"capabilities":{"extensions":[{"uri":"urn:clock"},{}]},"children_environments":[{"capabilities":{"extensions":[{"uri":"urn:limit"},{"uri":"urn:clock"}],"tools":[{"name":"send_mail"}]},"name":"mail"}],"name":"office","preferredTransport":"JSONRPC","protocolVersion":"1.0","url":""},"validated_environment_card":{"accessible":true,"children_count":1,"extensions":["urn:clock","urn:limit"],"name_check":{"matches":true,"registered":"mail","served":["office","mail"]},"required_fields":{"additionalInterfaces":false,"capabilities":true,"name":true,"preferredTransport":true,"protocolVersion":true,"url":false},"tools":["send_mail"]}}
        "#]]
        .assert_eq(&verify(FakeEnv::new("mail").card(card)));
    }

    #[test]
    fn a_card_of_any_shape_is_read() {
        for card in [
            json!([]),
            json!(null),
            json!({"capabilities": [], "name": 1, "children_environments": [1]}),
        ] {
            let text = verify(FakeEnv::new("mail").card(card));
            assert!(
                text.contains("\"matches\":false") && text.contains("\"name\":"),
                "{text}"
            );
        }
    }

    #[test]
    fn an_env_without_a_card_is_not_accessible() {
        expect![[r#"
            metadata.verifications.environment_card = {"validated_environment_card":{"accessible":false,"error":"env `mail` serves no card at /.well-known/agent-env.json"}}
        "#]]
        .assert_eq(&verify(FakeEnv::new("mail")));
    }
}
