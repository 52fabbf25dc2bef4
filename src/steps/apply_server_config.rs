//! Calls methods that the servers of an env offer beside their tools, such as a rate limit or a fault to inject.
//!
//! A server advertises such methods as extensions in its agent-env card. A directive names the server and the URI of the
//! extension, and its first method is called with `args`.
//!
//! ```json
//! {"id": "limit", "type": "apply_server_config", "env_id": "mail", "directives": [
//!   {"service": "mail", "uri": "urn:example:rate-limit/v1", "args": {"per_minute": 3}},
//!   {"service": "*", "uri": "urn:example:locale/v1", "args": {"locale": "de"}}
//! ]}
//! ```
//!
//! `service` is the name of a server's card, one of the `children_environments` of the env's card or, where it has none,
//! the card itself; `"*"` is every server. `environment` says the same where `service` is absent.
//!
//! Directives are applied one after another, in order.
//!
//! # What it gives
//!
//! An entry in `metadata.server_config_changes` for each call, with its result. With `tolerate_unadvertised`, an entry in
//! `metadata.server_config_skipped` where there is no such server (`no_env_card`) or it does not advertise the extension
//! (`extension_not_advertised`); without it, the step fails there.
//!
//! # What is in its key
//!
//! Its fields, its id and the state of the env.
//!
//! # Effects
//!
//! Changes the env.
//!
//! # Differences to agent-env
//!
//! - A step that fails writes nothing to the context, also of the directives that were applied before.
//! - The first method is the first by name where an extension has several.
//! - `service` and `environment` of an entry are both the name of the server's card.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_env;
use super::target::{MISSING, given};
use crate::context::Output;
use crate::diagnostic::did_you_mean;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::env::{EnvError, ExtensionCall};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `apply_server_config`.
pub static TYPE: StepType = StepType {
    name: "apply_server_config",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("apply_server_config.rs"),
    schema: OnceLock::new(),
};

/// The class of errors of this step.
const ERROR: &str = "ApplyServerConfigError";
/// What stands for every server.
const EVERY: &str = "*";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env whose servers are called.
    #[schemars(length(min = 1))]
    env_id: String,
    /// What is called, in order.
    #[schemars(length(min = 1))]
    directives: Vec<Directive>,
    /// How long one call may take, in seconds.
    #[serde(default = "half_a_minute")]
    #[schemars(range(min = 1))]
    timeout_seconds: u64,
    /// Whether a server or extension that is not there is passed over.
    #[serde(default)]
    tolerate_unadvertised: bool,
}

/// A method to call.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Directive {
    /// The name of the server; `*` for every server.
    service: Option<String>,
    /// The name of the server, where `service` is absent.
    environment: Option<String>,
    /// The URI of the extension.
    #[schemars(length(min = 1))]
    uri: String,
    /// The arguments of the method.
    #[serde(default)]
    args: Map<String, Value>,
}

impl Directive {
    fn server(&self) -> Option<&str> {
        given(&self.service).or(given(&self.environment))
    }
}

fn half_a_minute() -> u64 {
    30
}

#[derive(Debug)]
struct ApplyServerConfig {
    fields: Fields,
    step: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let nameless = fields.directives.iter().enumerate();
    let nameless = nameless.filter(|(_, directive)| directive.server().is_none());
    let refuse = |(at, _): (usize, &Directive)| {
        Refusal::new(
            MISSING,
            format!("/directives/{at}"),
            "the directive does not say which server it is for",
        )
        .help("add \"service\": \"..\" with the name of a server, or \"*\" for every server")
    };
    let refusals: Vec<Refusal> = nameless.map(refuse).collect();
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let step = step.as_str().to_owned();
    Ok(Box::new(ApplyServerConfig { fields, step }))
}

/// Returns the cards of the servers behind an env.
fn servers(card: &Value) -> Vec<&Value> {
    let children = card.get("children_environments").and_then(Value::as_array);
    match children.filter(|children| !children.is_empty()) {
        Some(children) => children.iter().collect(),
        None => vec![card],
    }
}

fn name_of(card: &Value) -> &str {
    card.get("name").and_then(Value::as_str).unwrap_or("")
}

/// Returns the extensions that a card advertises, by URI.
fn extensions(card: &Value) -> Vec<(&str, &Value)> {
    let list = card.pointer("/capabilities/extensions");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|extension| Some((extension.get("uri")?.as_str()?, extension)))
        .collect()
}

/// Returns the name of an extension's first method, and the call of it.
fn call_of(
    extension: &Value,
    uri: &str,
    arguments: &Map<String, Value>,
) -> Result<(String, ExtensionCall), String> {
    let params = &extension["params"];
    let methods = params.get("methods").and_then(Value::as_object);
    let (name, method) = methods
        .and_then(|methods| methods.iter().next())
        .ok_or("its card names no method of it")?;
    let endpoint = [method, params]
        .into_iter()
        .find_map(|at| at.get("endpoint")?.as_str())
        .ok_or("its card gives no `endpoint` of it")?;
    let verb = method.get("method").and_then(Value::as_str);
    let call = ExtensionCall {
        uri: uri.to_owned(),
        endpoint: endpoint.to_owned(),
        verb: verb.unwrap_or("POST").to_uppercase(),
        arguments: arguments.clone(),
    };
    Ok((name.clone(), call))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

impl ApplyServerConfig {
    /// Returns the entry of a directive that is passed over, or why it cannot be.
    fn skip(
        &self,
        cx: StepCx<'_>,
        server: &str,
        uri: &str,
        reason: &str,
        why: String,
    ) -> Result<Value, StepError> {
        if !self.fields.tolerate_unadvertised {
            return Err(StepError::of(ERROR, why));
        }
        cx.note(&format!("passed over: {why}"));
        Ok(json!({
            "step_id": self.step,
            "env_id": self.fields.env_id,
            "service": server,
            "environment": server,
            "uri": uri,
            "reason": reason,
        }))
    }

    async fn apply(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let Fields {
            env_id, directives, ..
        } = &self.fields;
        let env = cx.env(env_id)?;
        let card = env.card();
        let servers = card.as_ref().map(servers).unwrap_or_default();
        let mut entries = Vec::new();
        for directive in directives {
            let uri = directive.uri.as_str();
            let wanted = directive.server().unwrap_or(EVERY);
            let is_meant = |card: &&&Value| wanted == EVERY || name_of(card) == wanted;
            let meant: Vec<&Value> = servers.iter().filter(is_meant).copied().collect();
            if meant.is_empty() {
                if wanted == EVERY {
                    let why =
                        format!("env `{env_id}` has no agent-env card, so `*` names no server");
                    return Err(StepError::of(ERROR, why));
                }
                let names = || servers.iter().map(|card| name_of(card));
                let help = did_you_mean(wanted, names())
                    .unwrap_or_else(|| format!("its servers: {}", listed(names())));
                let why = format!("env `{env_id}` has no server `{wanted}` with a card; {help}");
                let entry = self.skip(cx, wanted, uri, "no_env_card", why)?;
                entries.push(on_env::append("server_config_skipped", entry));
            }
            for card in meant {
                let server = name_of(card);
                let advertised = extensions(card);
                let found = advertised.iter().find(|(other, _)| *other == uri);
                let Some((_, extension)) = found else {
                    let uris = listed(advertised.iter().map(|(uri, _)| *uri));
                    let why = format!(
                        "server `{server}` of env `{env_id}` does not advertise `{uri}`; it advertises: {uris}"
                    );
                    let entry = self.skip(cx, server, uri, "extension_not_advertised", why)?;
                    entries.push(on_env::append("server_config_skipped", entry));
                    continue;
                };
                let (method, call) = call_of(extension, uri, &directive.args).map_err(|why| {
                    let why = format!("`{uri}` of server `{server}` cannot be called: {why}");
                    StepError::of(ERROR, why)
                })?;
                let what = format!("`{method}` of `{uri}` at server `{server}`");
                let limit = self.fields.timeout_seconds;
                let call = async {
                    env.extension(call).await.map_err(|error| match error {
                        EnvError::Refused { code, message, .. } => StepError::of(
                            ERROR,
                            format!("{what} answered with status {code}: {message}"),
                        ),
                        error => error.into(),
                    })
                };
                let result = on_env::within(limit, "timeout_seconds", &what, call).await?;
                let change = json!({
                    "step_id": self.step,
                    "env_id": env_id,
                    "service": server,
                    "environment": server,
                    "uri": uri,
                    "args": directive.args,
                    "result": result,
                });
                entries.push(on_env::append("server_config_changes", change));
            }
        }
        Ok(Output::of(entries))
    }
}

impl Step for ApplyServerConfig {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = Value::String(self.step.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        on_env::touches(&self.fields.env_id, Touch::Mutates)
    }

    fn reads(&self) -> Vec<NameRef> {
        on_env::reads(&self.fields.env_id)
    }

    fn provides(&self) -> Vec<NameRef> {
        let mut names = vec![on_env::provides(&["server_config_changes"])];
        if self.fields.tolerate_unadvertised {
            names.push(on_env::provides(&["server_config_skipped"]));
        }
        names
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.apply(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeEnv, FakeServices, build_step, misfits, refused, run, show};
    use expect_test::expect;

    fn extension(uri: &str, params: Value) -> Value {
        json!({"uri": uri, "params": params})
    }

    /// An env of two servers: both know `urn:limit`, the calendar alone `urn:zone`.
    fn office() -> FakeEnv {
        let limit = |at: &str| {
            let methods = json!({"set_limit": {"method": "put"}});
            extension(
                "urn:limit",
                json!({"endpoint": format!("/svc/{at}/limit"), "methods": methods}),
            )
        };
        let zone = extension(
            "urn:zone",
            json!({"endpoint": "/zone", "methods": {"set": {"endpoint": "/svc/cal/zone/set"}}}),
        );
        let broken = extension("urn:broken", json!({"methods": {"set": {}}}));
        let child = |name: &str, extensions: Value| json!({"name": name, "capabilities": {"extensions": extensions}});
        FakeEnv::new("office")
            .card(json!({"name": "office", "children_environments": [
                child("mail", json!([limit("mail"), broken])),
                child("cal", json!([limit("cal"), zone])),
            ]}))
            .extension("urn:limit", json!({"ok": true}))
    }

    fn apply(env: FakeEnv, fields: Value) -> String {
        let world = FakeServices::new().env(env.clone());
        let mut all = json!({"env_id": "office"});
        all.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        match run(&*build_step(&TYPE, "limit", all), "limit", &world) {
            Ok(output) => format!("{}{}{}\n", show(&output), world.log_text(), env.said()),
            Err(error) => format!("{error}\n{}\n", env.said()),
        }
    }

    #[test]
    fn one_server_or_every_server_is_called() {
        let one = json!({"environment": "mail", "uri": "urn:limit", "args": {"per_minute": 3}});
        let every = json!({"service": "*", "environment": "mail", "uri": "urn:limit"});
        expect![[r#"
            metadata.server_config_changes += {"args":{"per_minute":3},"env_id":"office","environment":"mail","result":{"ok":true},"service":"mail","step_id":"limit","uri":"urn:limit"}
            metadata.server_config_changes += {"args":{},"env_id":"office","environment":"mail","result":{"ok":true},"service":"mail","step_id":"limit","uri":"urn:limit"}
            metadata.server_config_changes += {"args":{},"env_id":"office","environment":"cal","result":{"ok":true},"service":"cal","step_id":"limit","uri":"urn:limit"}
            PUT /svc/mail/limit {"per_minute":3}
            PUT /svc/mail/limit {}
            PUT /svc/cal/limit {}
        "#]]
        .assert_eq(&apply(office(), json!({"directives": [one, every]})));
    }

    #[test]
    fn an_env_of_one_server_is_that_server() {
        let env = FakeEnv::new("office")
            .card(json!({"name": "mail", "capabilities": {"extensions": [
                extension("urn:limit", json!({"endpoint": "/limit", "methods": {"get": {"method": "GET"}}})),
            ]}}))
            .extension("urn:limit", json!(null));
        expect![[r#"
            metadata.server_config_changes += {"args":{},"env_id":"office","environment":"mail","result":null,"service":"mail","step_id":"limit","uri":"urn:limit"}
            GET /limit {}
        "#]]
        .assert_eq(&apply(
            env,
            json!({"directives": [{"service": "*", "uri": "urn:limit"}]}),
        ));
    }

    #[test]
    fn what_is_not_advertised_fails_the_step_or_is_passed_over() {
        let directives = [
            json!({"service": "mial", "uri": "urn:limit"}),
            json!({"service": "mail", "uri": "urn:zone"}),
        ];
        let strict = directives
            .clone()
            .map(|one| apply(office(), json!({"directives": [one]})));
        expect![[r#"
            ApplyServerConfigError: env `office` has no server `mial` with a card; did you mean `mail`?

            ApplyServerConfigError: server `mail` of env `office` does not advertise `urn:zone`; it advertises: `urn:limit`, `urn:broken`

        "#]]
        .assert_eq(&strict.concat());
        let fields = json!({"directives": directives, "tolerate_unadvertised": true});
        expect![[r#"
            metadata.server_config_skipped += {"env_id":"office","environment":"mial","reason":"no_env_card","service":"mial","step_id":"limit","uri":"urn:limit"}
            metadata.server_config_skipped += {"env_id":"office","environment":"mail","reason":"extension_not_advertised","service":"mail","step_id":"limit","uri":"urn:zone"}
            Note: passed over: env `office` has no server `mial` with a card; did you mean `mail`?
            Note: passed over: server `mail` of env `office` does not advertise `urn:zone`; it advertises: `urn:limit`, `urn:broken`

        "#]]
        .assert_eq(&apply(office(), fields));
        let every = json!({"directives": [{"service": "*", "uri": "urn:limit"}], "tolerate_unadvertised": true});
        expect![[r#"
            ApplyServerConfigError: env `office` has no agent-env card, so `*` names no server

        "#]]
        .assert_eq(&apply(FakeEnv::new("office"), every));
    }

    #[test]
    fn a_call_that_goes_wrong_fails_the_step() {
        let directives = [
            json!({"service": "cal", "uri": "urn:zone"}),
            json!({"service": "mail", "uri": "urn:broken"}),
        ];
        let all = directives.map(|one| apply(office(), json!({"directives": [one]})));
        expect![[r#"
            ApplyServerConfigError: `set` of `urn:zone` at server `cal` answered with status 404: not found
            POST /svc/cal/zone/set {}
            ApplyServerConfigError: `urn:broken` of server `mail` cannot be called: its card gives no `endpoint` of it

        "#]]
        .assert_eq(&all.concat());
    }

    #[test]
    fn a_directive_is_for_a_server() {
        let directives = json!([{"uri": "urn:limit"}, {"service": " ", "uri": "urn:limit"}]);
        expect![[r#"
            missing-field /directives/0: the directive does not say which server it is for (add "service": ".." with the name of a server, or "*" for every server)
            missing-field /directives/1: the directive does not say which server it is for (add "service": ".." with the name of a server, or "*" for every server)
        "#]]
        .assert_eq(&refused(
            &TYPE,
            json!({"env_id": "office", "directives": directives}),
        ));
        expect![[r#"
            wrong-length: `directives` of step is empty, but needs at least 1 item (write at least 1 item)
        "#]]
        .assert_eq(&misfits(
            &TYPE,
            json!({"env_id": "office", "directives": []}),
        ));
    }
}
