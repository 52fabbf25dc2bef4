//! Checks that the tools of an env tell an agent what it needs to know to call them.
//!
//! ```json
//! {"id": "schema", "type": "verify_mcp_tool_schema", "env_id": "mail"}
//! ```
//!
//! A tool passes when it has a description, its name is one that MCP allows (1 to 128 letters, digits, `_`, `-` and `.`)
//! and that no other tool has, its `inputSchema` is the schema of an object, and each of its parameters is described. A
//! parameter may be described where its `$ref` points to.
//!
//! # What it gives
//!
//! `metadata.verifications.mcp_tool_schema`:
//!
//! | key | says |
//! |---|---|
//! | `passed` | whether there are tools and all of them pass |
//! | `total_tools` | the number of tools |
//! | `tools_missing_description` | the names of tools without a description |
//! | `parameter_issues` | `{tool, parameter, issue}`, `parameter` being `null` where it is about the tool itself |
//! | `tools` | `{name, passed, parameters}` for each tool, `parameters` being the names of its parameters |
//!
//! There is no score: a `validation_gate_aggregator` or a task decides what it takes.
//!
//! # What is in its key
//!
//! Its fields and the state of the env.
//!
//! # Effects
//!
//! None: it only asks the env for its tools.
//!
//! # Differences to agent-env
//!
//! - Names and the shape of schemas are checked too.
//! - The tools are those that the role `default` may use.
//! - Two of these steps in one task are refused, as both would write the same verification.

use std::collections::BTreeSet;
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

/// The step type `verify_mcp_tool_schema`.
pub static TYPE: StepType = StepType {
    name: "verify_mcp_tool_schema",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("verify_mcp_tool_schema.rs"),
    schema: OnceLock::new(),
};

/// The name of the verification.
const VERIFICATION: &str = "mcp_tool_schema";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env that is looked at.
    #[schemars(length(min = 1))]
    env_id: String,
}

#[derive(Debug)]
struct VerifyToolSchema {
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    Ok(Box::new(VerifyToolSchema { fields }))
}

/// The longest name of a tool.
const MAX_NAME: usize = 128;

/// What was found at one tool.
#[derive(Default)]
struct Found {
    is_described: bool,
    parameters: Vec<String>,
    /// The parameter, or the tool itself, and what is wrong with it.
    issues: Vec<(Option<String>, String)>,
}

fn is_described(value: &Value) -> bool {
    let text = value.get("description").and_then(Value::as_str);
    text.is_some_and(|text| !text.trim().is_empty())
}

/// Returns whether a parameter of a schema is described, in place or where it points to.
fn is_parameter_described(schema: &Value, parameter: &Value) -> bool {
    let target = parameter.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| schema.pointer(target.strip_prefix('#')?));
    is_described(parameter) || target.is_some_and(is_described)
}

fn look(tool: &Value, name: &str) -> Found {
    let mut found = Found {
        is_described: is_described(tool),
        ..Found::default()
    };
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() {
        found.issues.push((None, "the tool has no name".to_owned()));
    } else if name.len() > MAX_NAME || !name.chars().all(is_legal) {
        let issue = format!(
            "`{name}` is no name of a tool: it has at most {MAX_NAME} letters, digits, `_`, `-` and `.`"
        );
        found.issues.push((None, issue));
    }
    let Some(schema) = tool.get("inputSchema").filter(|schema| schema.is_object()) else {
        found
            .issues
            .push((None, "`inputSchema` is missing".to_owned()));
        return found;
    };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        let issue = "`inputSchema` does not say \"type\": \"object\"".to_owned();
        found.issues.push((None, issue));
    }
    let parameters = match schema.get("properties") {
        None => return found,
        Some(Value::Object(parameters)) => parameters,
        Some(_) => {
            let issue = "`properties` of `inputSchema` is no object".to_owned();
            found.issues.push((None, issue));
            return found;
        }
    };
    found.parameters = parameters.keys().cloned().collect();
    for (name, parameter) in parameters {
        if !is_parameter_described(schema, parameter) {
            let issue = "the parameter has no description".to_owned();
            found.issues.push((Some(name.clone()), issue));
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !parameters.contains_key(name) {
            let issue = "the parameter is required, but not among the `properties`".to_owned();
            found.issues.push((Some(name.to_owned()), issue));
        }
    }
    found
}

/// Returns what is found at tools, as `tools/list` gives them.
fn report(tools: &[Value]) -> Value {
    let (mut rows, mut missing, mut issues) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for tool in tools {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or("");
        let mut found = look(tool, name);
        if !seen.insert(name) {
            found
                .issues
                .push((None, "another tool has the same name".to_owned()));
        }
        if !found.is_described {
            missing.push(name);
        }
        rows.push(json!({
            "name": name,
            "passed": found.is_described && found.issues.is_empty(),
            "parameters": found.parameters,
        }));
        let issue = |(parameter, issue): (Option<String>, String)| json!({"tool": name, "parameter": parameter, "issue": issue});
        issues.extend(found.issues.into_iter().map(issue));
    }
    json!({
        "passed": !tools.is_empty() && missing.is_empty() && issues.is_empty(),
        "total_tools": tools.len(),
        "tools_missing_description": missing,
        "parameter_issues": issues,
        "tools": rows,
    })
}

impl VerifyToolSchema {
    async fn verify(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let env = cx.env(&self.fields.env_id)?;
        let report = report(&env.tools().await?);
        Ok(Output::of(vec![on_env::set(
            &["verifications", VERIFICATION],
            report,
        )]))
    }
}

impl Step for VerifyToolSchema {
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

    fn verify(tools: &[Value]) -> String {
        let env = tools.iter().fold(FakeEnv::new("mail"), |env, tool| {
            env.tool(tool.clone(), |_| json!(null))
        });
        let world = FakeServices::new().env(env);
        let step = build_step(&TYPE, "schema", json!({"env_id": "mail"}));
        show(&run(&*step, "schema", &world).unwrap())
    }

    fn send_mail() -> Value {
        json!({"name": "send_mail", "description": "Sends a mail.", "inputSchema": {
            "type": "object",
            "properties": {"to": {"type": "string", "description": "Who gets it."}, "kind": {"$ref": "#/$defs/Kind"}},
            "required": ["to"],
            "$defs": {"Kind": {"type": "string", "description": "What it is about."}},
        }})
    }

    #[test]
    fn tools_that_say_what_they_do_pass() {
        let list = json!({"name": "mail.list", "description": "Lists.", "inputSchema": {"type": "object"}});
        expect![[r#"
            metadata.verifications.mcp_tool_schema = {"parameter_issues":[],"passed":true,"tools":[{"name":"send_mail","parameters":["kind","to"],"passed":true},{"name":"mail.list","parameters":[],"passed":true}],"tools_missing_description":[],"total_tools":2}
        "#]]
        .assert_eq(&verify(&[send_mail(), list]));
    }

    #[test]
    fn what_is_missing_is_named() {
        let tools = [
            json!({"name": "send_mail", "description": " ", "inputSchema": {
                "type": "object", "properties": {"to": {"type": "string"}, "kind": {"$ref": "#/$defs/Kind"}, "any": true},
                "required": ["to", "subject"],
            }}),
            json!({"name": "send mail", "description": "Sends.", "inputSchema": {"type": "string"}}),
            json!({"name": "send_mail", "description": "Sends."}),
            json!({"description": "Sends.", "inputSchema": {"type": "object", "properties": []}}),
        ];
        expect![[r#"
            metadata.verifications.mcp_tool_schema = {"parameter_issues":[{"issue":"the parameter has no description","parameter":"any","tool":"send_mail"},{"issue":"the parameter has no description","parameter":"kind","tool":"send_mail"},{"issue":"the parameter has no description","parameter":"to","tool":"send_mail"},{"issue":"the parameter is required, but not among the `properties`","parameter":"subject","tool":"send_mail"},{"issue":"`send mail` is no name of a tool: it has at most 128 letters, digits, `_`, `-` and `.`","parameter":null,"tool":"send mail"},{"issue":"`inputSchema` does not say \"type\": \"object\"","parameter":null,"tool":"send mail"},{"issue":"`inputSchema` is missing","parameter":null,"tool":"send_mail"},{"issue":"another tool has the same name","parameter":null,"tool":"send_mail"},{"issue":"the tool has no name","parameter":null,"tool":""},{"issue":"`properties` of `inputSchema` is no object","parameter":null,"tool":""}],"passed":false,"tools":[{"name":"send_mail","parameters":["any","kind","to"],"passed":false},{"name":"send mail","parameters":[],"passed":false},{"name":"send_mail","parameters":[],"passed":false},{"name":"","parameters":[],"passed":false}],"tools_missing_description":["send_mail"],"total_tools":4}
        "#]]
        .assert_eq(&verify(&tools));
    }

    #[test]
    fn an_env_without_tools_does_not_pass() {
        expect![[r#"
            metadata.verifications.mcp_tool_schema = {"parameter_issues":[],"passed":false,"tools":[],"tools_missing_description":[],"total_tools":0}
        "#]]
        .assert_eq(&verify(&[]));
    }
}
