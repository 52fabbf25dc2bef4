//! Compares the tools of an env with the specification that its server offers.
//!
//! The specification is OpenAPI, at `openapi.yaml` or else `openapi.json` beside the server's MCP address. An operation
//! belongs to the tool that is named like its `operationId`, upper and lower case, `-` and `_` aside. Its parameters are
//! those of its path, its own, and the properties of its JSON body.
//!
//! ```json
//! {"id": "spec", "type": "verify_spec_conformance", "env_id": "mail"}
//! ```
//!
//! | finding | severity |
//! |---|---|
//! | `operation_without_tool` | blocking |
//! | `missing_parameter`: the operation requires it, and the tool does not have it | blocking; else advisory |
//! | `unknown_parameter`: the tool requires it, and the operation does not have it | blocking; else advisory |
//! | `different_type` of a parameter | blocking |
//! | `different_requirement`: only the tool, or only the operation, requires the parameter | advisory |
//! | `tool_without_operation` | advisory |
//!
//! # What it gives
//!
//! `metadata.verifications.spec_conformance`: `{passed, total_tools, spec_operations, blocking_findings, findings}`, where
//! `spec_operations` and `blocking_findings` are numbers, and each of the `findings` is
//! `{kind, severity, operation, tool, parameter, message}`. It passes without blocking findings. There is no score.
//!
//! Where there is no specification, or none that can be read, it gives `{skipped: true, reason, findings: []}`, which is no
//! failure.
//!
//! # What is in its key
//!
//! Its fields and the state of the env.
//!
//! # Effects
//!
//! None: it only reads the specification and asks the env for its tools.
//!
//! # Differences to agent-env
//!
//! - `openapi.json` is looked for too.
//! - The tools are those that the role `default` may use.
//! - Two of these steps in one task are refused, as both would write the same verification.

mod compare;

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_env;
use crate::context::{Lookup, Output};
use crate::json::{self, Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::env::LiveEnv;
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};
use compare::{Finding, Operation};

/// The step type `verify_spec_conformance`.
pub static TYPE: StepType = StepType {
    name: "verify_spec_conformance",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("verify_spec_conformance.rs"),
    schema: OnceLock::new(),
};

/// The name of the verification.
const VERIFICATION: &str = "spec_conformance";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env that is looked at.
    #[schemars(length(min = 1))]
    env_id: String,
}

#[derive(Debug)]
struct VerifySpec {
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    Ok(Box::new(VerifySpec { fields }))
}

/// Where specifications are.
const FILES: [&str; 2] = ["openapi.yaml", "openapi.json"];

/// Returns a specification as JSON.
fn read(text: &[u8]) -> Result<Value, String> {
    // JSON is YAML too, but the other way round says more exactly what is wrong.
    if let Ok(value) = json::from_slice::<Value>(text) {
        return Ok(value);
    }
    serde_saphyr::from_slice(text).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        line.trim_start_matches("error: ").to_owned()
    })
}

/// What there is to compare with.
enum Spec {
    /// The operations of a specification.
    Found(Vec<Operation>),
    /// Nothing, for this reason.
    Skipped(String),
}

impl VerifySpec {
    async fn spec(&self, env: &dyn LiveEnv) -> Result<Spec, StepError> {
        let mut reasons = Vec::new();
        for file in FILES {
            let text = match env.fetch(file).await {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(error) if error.is_fatal() => return Err(error.into()),
                Err(error) => {
                    reasons.push(format!("`{file}` cannot be had: {error}"));
                    continue;
                }
            };
            match read(&text).map(|spec| compare::operations(&spec)) {
                Ok(operations) if !operations.is_empty() => return Ok(Spec::Found(operations)),
                Ok(_) => reasons.push(format!("`{file}` has no operations below `paths`")),
                Err(why) => reasons.push(format!("`{file}` cannot be read: {why}")),
            }
        }
        if reasons.is_empty() {
            let files = FILES.map(|file| format!("`{file}`")).join(" and no ");
            reasons.push(format!("the env offers no {files}"));
        }
        Ok(Spec::Skipped(reasons.join("; ")))
    }

    async fn verify(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let env = cx.env(&self.fields.env_id)?;
        let value = match self.spec(&*env).await? {
            Spec::Skipped(reason) => {
                cx.note(&format!("nothing is compared: {reason}"));
                json!({"skipped": true, "reason": reason, "findings": []})
            }
            Spec::Found(operations) => {
                let tools = env.tools().await?;
                let findings = compare::compare(&operations, &tools);
                let blocking = findings.iter().filter(|one| one.is_blocking).count();
                json!({
                    "passed": blocking == 0,
                    "total_tools": tools.len(),
                    "spec_operations": operations.len(),
                    "blocking_findings": blocking,
                    "findings": findings.iter().map(Finding::to_value).collect::<Vec<_>>(),
                })
            }
        };
        Ok(Output::of(vec![on_env::set(
            &["verifications", VERIFICATION],
            value,
        )]))
    }
}

impl Step for VerifySpec {
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

    const SPEC: &str = "\
openapi: 3.1.0
info: {title: Mail, version: '1'}
paths:
  /mails/{id}:
    parameters:
      - $ref: '#/components/parameters/Id'
    delete:
      operationId: delete-mail
      responses:
        204: {description: gone}
  /mails:
    post:
      operationId: sendMail
      requestBody:
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Draft'}
      responses: {200: {description: sent}}
    get:
      responses: {200: {description: all}}
components:
  parameters:
    Id: {name: id, in: path, required: true, schema: {type: string}}
  schemas:
    Draft:
      allOf:
        - {type: object, required: [to], properties: {to: {type: string}, subject: {type: [string, 'null']}}}
        - {properties: {urgent: {type: boolean}}}
";

    fn tool(name: &str, properties: Value, required: Value) -> Value {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        json!({"name": name, "inputSchema": schema})
    }

    fn verify(files: &[(&str, &str)], tools: &[Value]) -> String {
        let env = FakeEnv::new("mail");
        let env = files
            .iter()
            .fold(env, |env, (path, text)| env.serves(path, text));
        let env = tools
            .iter()
            .fold(env, |env, tool| env.tool(tool.clone(), |_| json!(null)));
        let world = FakeServices::new().env(env);
        let step = build_step(&TYPE, "spec", json!({"env_id": "mail"}));
        let shown = show(&run(&*step, "spec", &world).unwrap());
        shown.replace("},{", "},\n  {") + &world.log_text()
    }

    #[test]
    fn tools_that_are_as_specified_pass() {
        let text = json!({"type": "string"});
        let tools = [
            tool(
                "send_mail",
                json!({"to": text, "subject": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "urgent": {"type": "boolean"}}),
                json!(["to"]),
            ),
            tool("delete_mail", json!({"id": text}), json!(["id"])),
            tool("get_mails", json!({}), json!([])),
        ];
        expect![[r#"
            metadata.verifications.spec_conformance = {"blocking_findings":0,"findings":[],"passed":true,"spec_operations":3,"total_tools":3}
        "#]]
        .assert_eq(&verify(&[("openapi.yaml", SPEC)], &tools));
    }

    #[test]
    fn drift_is_found() {
        let tools = [
            tool(
                "send_mail",
                json!({"subject": {"type": "integer"}, "from": {"type": "string"}, "cc": {}}),
                json!(["from", "subject"]),
            ),
            tool("delete_mail", json!({"id": {"type": "string"}}), json!([])),
            tool("archive", json!({}), json!([])),
        ];
        expect![[r#"
            metadata.verifications.spec_conformance = {"blocking_findings":4,"findings":[{"kind":"operation_without_tool","message":"no tool is named like operation `get_mails`","operation":"get_mails","parameter":null,"severity":"blocking","tool":null},
              {"kind":"different_type","message":"`subject` is string in the specification, but integer at `send_mail`","operation":"sendMail","parameter":"subject","severity":"blocking","tool":"send_mail"},
              {"kind":"different_requirement","message":"`send_mail` requires `subject`, but the specification does not","operation":"sendMail","parameter":"subject","severity":"advisory","tool":"send_mail"},
              {"kind":"missing_parameter","message":"the specification requires `to`, which `send_mail` does not have","operation":"sendMail","parameter":"to","severity":"blocking","tool":"send_mail"},
              {"kind":"missing_parameter","message":"the specification has `urgent`, which `send_mail` does not have","operation":"sendMail","parameter":"urgent","severity":"advisory","tool":"send_mail"},
              {"kind":"unknown_parameter","message":"`send_mail` has `cc`, which is not in the specification","operation":"sendMail","parameter":"cc","severity":"advisory","tool":"send_mail"},
              {"kind":"unknown_parameter","message":"`send_mail` requires `from`, which is not in the specification","operation":"sendMail","parameter":"from","severity":"blocking","tool":"send_mail"},
              {"kind":"different_requirement","message":"the specification requires `id`, but `delete_mail` does not","operation":"delete-mail","parameter":"id","severity":"advisory","tool":"delete_mail"},
              {"kind":"tool_without_operation","message":"tool `archive` is not in the specification","operation":null,"parameter":null,"severity":"advisory","tool":"archive"}],"passed":false,"spec_operations":3,"total_tools":3}
        "#]]
        .assert_eq(&verify(&[("openapi.yaml", SPEC)], &tools));
    }

    #[test]
    fn what_cannot_be_compared_is_skipped() {
        let cases: [&[(&str, &str)]; 5] = [
            &[],
            &[("openapi.yaml", "paths: [")],
            &[("openapi.yaml", "just text")],
            &[("openapi.json", "{\"paths\": {}}")],
            &[
                ("openapi.yaml", "{"),
                ("openapi.json", "{\"paths\": {\"/a\": {\"get\": {}}}}"),
            ],
        ];
        expect![[r#"
            metadata.verifications.spec_conformance = {"findings":[],"reason":"the env offers no `openapi.yaml` and no `openapi.json`","skipped":true}
            Note: nothing is compared: the env offers no `openapi.yaml` and no `openapi.json`
            metadata.verifications.spec_conformance = {"findings":[],"reason":"`openapi.yaml` cannot be read: line 1 column 8: unclosed bracket '['","skipped":true}
            Note: nothing is compared: `openapi.yaml` cannot be read: line 1 column 8: unclosed bracket '['
            metadata.verifications.spec_conformance = {"findings":[],"reason":"`openapi.yaml` has no operations below `paths`","skipped":true}
            Note: nothing is compared: `openapi.yaml` has no operations below `paths`
            metadata.verifications.spec_conformance = {"findings":[],"reason":"`openapi.json` has no operations below `paths`","skipped":true}
            Note: nothing is compared: `openapi.json` has no operations below `paths`
            metadata.verifications.spec_conformance = {"blocking_findings":1,"findings":[{"kind":"operation_without_tool","message":"no tool is named like operation `get_a`","operation":"get_a","parameter":null,"severity":"blocking","tool":null}],"passed":false,"spec_operations":1,"total_tools":0}
        "#]]
        .assert_eq(&cases.map(|files| verify(files, &[])).concat());
    }

    #[test]
    fn a_specification_that_goes_in_circles_ends() {
        let circle = r##"{"paths": {"/a": {"$ref": "#/paths/~1a", "get": {"parameters": [{"$ref": "#/b"}], "requestBody":
            {"content": {"application/json": {"schema": {"$ref": "#/c"}}}}}}}, "b": {"$ref": "#/b"},
            "c": {"allOf": [{"$ref": "#/c"}, {"$ref": "#/c"}, {"$ref": "#/c"}], "properties": {"x": {"$ref": "#/c"}}}}"##;
        expect![[r#"
            metadata.verifications.spec_conformance = {"blocking_findings":1,"findings":[{"kind":"operation_without_tool","message":"no tool is named like operation `get_a`","operation":"get_a","parameter":null,"severity":"blocking","tool":null}],"passed":false,"spec_operations":1,"total_tools":0}
        "#]]
        .assert_eq(&verify(&[("openapi.json", circle)], &[]));
        let bomb = "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
        assert!(verify(&[("openapi.yaml", bomb)], &[]).contains("cannot be read"));
    }
}
