//! The operations of an OpenAPI specification, and how tools differ from them.
//!
//! A specification is read as far as it can be: what has another shape than OpenAPI gives is passed over.

use std::collections::{BTreeMap, BTreeSet};

use crate::json::{Map, Value, json};

/// The verbs that a path may have an operation for.
const VERBS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];
/// How far references and parts of schemas are followed.
const MAX_DEPTH: usize = 8;
/// The most schemas that are looked at for one operation; one that refers to itself has no end.
const MAX_SCHEMAS: usize = 1000;

/// A parameter of an operation or a tool.
#[derive(Clone, Default)]
struct Parameter {
    is_required: bool,
    /// The names of its types, null aside; empty where nothing is said.
    types: BTreeSet<String>,
}

type Parameters = BTreeMap<String, Parameter>;

/// An operation of a specification.
pub(super) struct Operation {
    name: String,
    parameters: Parameters,
}

/// A difference between an operation and a tool.
pub(super) struct Finding {
    kind: &'static str,
    /// Whether a caller who goes by the specification would fail.
    pub(super) is_blocking: bool,
    operation: Option<String>,
    tool: Option<String>,
    parameter: Option<String>,
    message: String,
}

impl Finding {
    /// Returns the finding as it stands in the report.
    pub(super) fn to_value(&self) -> Value {
        json!({
            "kind": self.kind,
            "severity": if self.is_blocking { "blocking" } else { "advisory" },
            "operation": self.operation,
            "tool": self.tool,
            "parameter": self.parameter,
            "message": self.message,
        })
    }
}

/// Returns the operations of a specification.
pub(super) fn operations(spec: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    let paths = spec.get("paths").and_then(Value::as_object);
    for (path, item) in paths.into_iter().flatten() {
        let item = followed(spec, item);
        for verb in VERBS {
            let Some(operation) = item.get(verb).filter(|operation| operation.is_object()) else {
                continue;
            };
            let id = operation.get("operationId").and_then(Value::as_str);
            let name = id.map_or_else(|| name_of(verb, path), str::to_owned);
            let mut parameters = Parameters::new();
            for at in [item, operation] {
                let listed = at.get("parameters").and_then(Value::as_array);
                for parameter in listed.into_iter().flatten() {
                    add_parameter(spec, parameter, &mut parameters);
                }
            }
            add_body(spec, operation, &mut parameters);
            operations.push(Operation { name, parameters });
        }
    }
    operations
}

/// Returns the name of an operation that has no id: `get_mails` for `GET /mails/{id}`.
fn name_of(verb: &str, path: &str) -> String {
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && !part.starts_with('{'));
    [verb]
        .into_iter()
        .chain(parts)
        .collect::<Vec<_>>()
        .join("_")
}

/// Returns what a value refers to in the end, or the value itself.
fn followed<'s>(spec: &'s Value, value: &'s Value) -> &'s Value {
    let mut value = value;
    for _ in 0..MAX_DEPTH {
        let target = value.get("$ref").and_then(Value::as_str);
        match target.and_then(|target| spec.pointer(target.strip_prefix('#')?)) {
            Some(target) => value = target,
            None => break,
        }
    }
    value
}

fn add_parameter(spec: &Value, parameter: &Value, parameters: &mut Parameters) {
    let parameter = followed(spec, parameter);
    let Some(name) = parameter.get("name").and_then(Value::as_str) else {
        return;
    };
    // What is sent in headers and cookies is the business of who makes the request.
    let place = parameter.get("in").and_then(Value::as_str);
    if matches!(place, Some("header" | "cookie")) {
        return;
    }
    let schema = parameter.get("schema").unwrap_or(&Value::Null);
    let is_required = parameter.get("required") == Some(&Value::Bool(true));
    let types = types_of(spec, schema);
    parameters.insert(name.to_owned(), Parameter { is_required, types });
}

fn add_body(spec: &Value, operation: &Value, parameters: &mut Parameters) {
    let Some(body) = operation.get("requestBody") else {
        return;
    };
    let content = followed(spec, body)
        .get("content")
        .and_then(Value::as_object);
    let is_json = |kind: &str| kind.starts_with("application/json") || kind.ends_with("+json");
    let json = content.and_then(|content| content.iter().find(|(kind, _)| is_json(kind)));
    if let Some(schema) = json.and_then(|(_, content)| content.get("schema")) {
        let mut left = MAX_SCHEMAS;
        add_properties(spec, schema, MAX_DEPTH, &mut left, parameters);
    }
}

/// Adds the properties of a schema of an object, those of the schemas that it is made of included.
fn add_properties(
    spec: &Value,
    schema: &Value,
    depth: usize,
    left: &mut usize,
    parameters: &mut Parameters,
) {
    if depth == 0 || *left == 0 {
        return;
    }
    *left -= 1;
    let schema = followed(spec, schema);
    let parts = schema.get("allOf").and_then(Value::as_array);
    for part in parts.into_iter().flatten() {
        add_properties(spec, part, depth - 1, left, parameters);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let parameter = parameters.entry(name.clone()).or_default();
        parameter.types = types_of(spec, property);
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        parameters.entry(name.to_owned()).or_default().is_required = true;
    }
}

/// Returns the types that a schema allows, null aside; none where it does not say.
fn types_of(spec: &Value, schema: &Value) -> BTreeSet<String> {
    let schema = followed(spec, schema);
    let mut types = BTreeSet::new();
    let options = ["anyOf", "oneOf"]
        .into_iter()
        .filter_map(|key| schema.get(key)?.as_array());
    let options = options.flatten().map(|option| followed(spec, option));
    for schema in [schema].into_iter().chain(options) {
        match schema.get("type") {
            Some(Value::String(one)) => drop(types.insert(one.clone())),
            Some(Value::Array(many)) => {
                types.extend(many.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            _ => {}
        }
    }
    types.remove("null");
    types
}

/// Returns the parameters of a tool.
fn parameters_of(tool: &Value) -> Parameters {
    let nothing = Map::new();
    let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let parameter = |(name, property): (&String, &Value)| {
        let is_required = required.contains(&name.as_str());
        let types = types_of(schema, property);
        (name.clone(), Parameter { is_required, types })
    };
    properties
        .unwrap_or(&nothing)
        .iter()
        .map(parameter)
        .collect()
}

/// Returns a name as it is compared.
fn folded(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | '.'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns how tools differ from operations: first by operation, then the tools that none is for.
pub(super) fn compare(operations: &[Operation], tools: &[Value]) -> Vec<Finding> {
    let mut by_name: BTreeMap<String, (&str, &Value)> = BTreeMap::new();
    for tool in tools {
        if let Some(name) = tool.get("name").and_then(Value::as_str) {
            by_name.insert(folded(name), (name, tool));
        }
    }
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for operation in operations {
        let name = &operation.name;
        let Some((tool_name, tool)) = by_name.get(&folded(name)) else {
            findings.push(Finding {
                kind: "operation_without_tool",
                is_blocking: true,
                operation: Some(name.clone()),
                tool: None,
                parameter: None,
                message: format!("no tool is named like operation `{name}`"),
            });
            continue;
        };
        used.insert(*tool_name);
        compare_parameters(operation, tool_name, &parameters_of(tool), &mut findings);
    }
    for (name, _) in by_name.values().filter(|(name, _)| !used.contains(name)) {
        findings.push(Finding {
            kind: "tool_without_operation",
            is_blocking: false,
            operation: None,
            tool: Some((*name).to_owned()),
            parameter: None,
            message: format!("tool `{name}` is not in the specification"),
        });
    }
    findings
}

fn compare_parameters(
    operation: &Operation,
    tool: &str,
    has: &Parameters,
    findings: &mut Vec<Finding>,
) {
    let mut find = |kind, is_blocking, parameter: &String, message| {
        findings.push(Finding {
            kind,
            is_blocking,
            operation: Some(operation.name.clone()),
            tool: Some(tool.to_owned()),
            parameter: Some(parameter.clone()),
            message,
        });
    };
    for (name, wanted) in &operation.parameters {
        let Some(found) = has.get(name) else {
            let verb = if wanted.is_required {
                "requires"
            } else {
                "has"
            };
            let message =
                format!("the specification {verb} `{name}`, which `{tool}` does not have");
            find("missing_parameter", wanted.is_required, name, message);
            continue;
        };
        if !wanted.types.is_empty() && !found.types.is_empty() && wanted.types != found.types {
            let shown =
                |types: &BTreeSet<String>| types.iter().cloned().collect::<Vec<_>>().join(" or ");
            let (wanted, found) = (shown(&wanted.types), shown(&found.types));
            let message =
                format!("`{name}` is {wanted} in the specification, but {found} at `{tool}`");
            find("different_type", true, name, message);
        }
        if wanted.is_required != found.is_required {
            let (who, other) = if wanted.is_required {
                ("the specification".to_owned(), format!("`{tool}`"))
            } else {
                (format!("`{tool}`"), "the specification".to_owned())
            };
            let message = format!("{who} requires `{name}`, but {other} does not");
            find("different_requirement", false, name, message);
        }
    }
    for (name, found) in has {
        if !operation.parameters.contains_key(name) {
            let verb = if found.is_required { "requires" } else { "has" };
            let message = format!("`{tool}` {verb} `{name}`, which is not in the specification");
            find("unknown_parameter", found.is_required, name, message);
        }
    }
}
