//! Reads one step: the fields that every step has, and those of its type.

use std::sync::LazyLock;

use super::StepTypes;
use super::faults::Faults;
use super::names::{fault_of_id, has_placeholder, say};
use super::places::edge_id;
use crate::diagnostic::{Diagnostic, Fix, cut, meant, nearest};
use crate::json::{Map, Member, Node, NodeKind, Span, Value, is_comment, json, schema};
use crate::task::{DependsOn, OnError, RetryConfig, StepDecl, StepId};

/// The most often that a span may run again.
pub const MAX_RETRIES: u32 = 1000;

/// The names of the fields that every step has.
pub const COMMON_FIELDS: [&str; 6] = [
    "id",
    "type",
    "depends_on",
    "fail_task_on_error",
    "retry_config",
    "version",
];

/// The schema of the fields that every step has.
static COMMON: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The name of the step, unique in its task."},
            "type": {"type": "string", "description": "What the step does: the name of a step type."},
            "depends_on": {
                "type": ["array", "null"],
                "description": "The ids of the steps that this one waits for, and whose results it sees. Where it is left \
                                out, the step waits for all that are listed before it.",
                "items": {"anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {"task_step_id": {
                            "type": "string",
                            "description": "The id of a step that this one waits for.",
                        }},
                        "required": ["task_step_id"],
                        "additionalProperties": false,
                    },
                ]},
            },
            "fail_task_on_error": {
                "type": "boolean",
                "description": "Whether no further step starts once this one has failed.",
            },
            "retry_config": {
                "type": ["object", "null"],
                "description": "Which steps run again when this one fails, and how often.",
                "properties": {
                    "retry_from_step_id": {
                        "type": "string",
                        "description": "The first step that runs again: this one, or one that it waits for.",
                    },
                    "go_to_step_id": {
                        "type": "string",
                        "description": "Another name of `retry_from_step_id`.",
                    },
                    "max_retries": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": MAX_RETRIES,
                        "description": "How often they run again at most; 0 means never.",
                    },
                },
                "additionalProperties": false,
            },
            "version": {"type": ["integer", "null"], "description": "Kept for other tools; it changes nothing."},
        },
        "required": ["id", "type"],
        "additionalProperties": false,
    })
});

/// Returns the JSON Schema of the fields that every step has.
pub fn common_schema() -> &'static Value {
    &COMMON
}

/// Reads the item at position `at` of a task's list; `None` when it is no object.
pub(super) fn read(
    node: &Node,
    at: usize,
    types: &dyn StepTypes,
    faults: &mut Faults<'_>,
) -> Option<StepDecl> {
    let members = match &node.kind {
        NodeKind::Object(members) => members,
        NodeKind::Bad => return None,
        _ => {
            faults.error(node.span, |source| {
                let headline = format!("step {} is {}, not an object", at + 1, node.kind_name());
                Diagnostic::error("not-an-object", headline)
                    .primary(source, node.span, "an object is needed here")
                    .help("write a step as {\"id\": \"..\", \"type\": \"..\"}")
            });
            return None;
        }
    };
    let id = node.get("id").and_then(Node::as_str).unwrap_or_default();
    let kind = node.get("type").and_then(Node::as_str).unwrap_or_default();
    let shown = if id.is_empty() {
        format!("step {}", at + 1)
    } else {
        format!("step `{}`", clip(id))
    };
    let known = types.schema(kind);
    let (common, own) = split(node, members, known);
    if !are_plain(&common) {
        let members = common.into_iter().cloned().collect();
        let common = Node {
            span: node.span,
            kind: NodeKind::Object(members),
        };
        faults.extend(schema::check(&common, &COMMON, faults.source(), &shown));
    }
    read_id(node, id, faults);
    if let Some(known) = known {
        let at = format!("{shown} ({kind})");
        faults.extend(schema::check(&own, known, faults.source(), &at));
    } else {
        unknown_type(node, kind, &shown, types, faults);
    }
    Some(StepDecl {
        id: StepId::new(id),
        kind: kind.to_owned(),
        depends_on: read_depends_on(node, &shown, faults),
        on_error: match node.get("fail_task_on_error").and_then(Node::as_bool) {
            Some(true) => Some(OnError::FailTask),
            Some(false) => Some(OnError::Continue),
            None => None,
        },
        retry: read_retry(node, &shown, faults),
        fields: match own.to_value_without_comments() {
            Value::Object(fields) => fields,
            _ => Map::new(),
        },
    })
}

/// Parts the members that every step has from those of the type; a misspelt name goes where it was meant to be.
fn split<'n>(node: &Node, members: &'n [Member], known: Option<&Value>) -> (Vec<&'n Member>, Node) {
    let properties = known
        .and_then(|schema| schema.get("properties"))
        .and_then(Value::as_object);
    let mut common = Vec::with_capacity(COMMON_FIELDS.len());
    let mut own = Vec::with_capacity(members.len());
    for member in members.iter().filter(|member| !is_comment(&member.key)) {
        let key = &*member.key;
        let is_common = COMMON_FIELDS.contains(&key) || {
            let is_own = properties.is_some_and(|properties| properties.contains_key(key));
            let names = properties
                .into_iter()
                .flat_map(Map::keys)
                .map(String::as_str);
            !is_own
                && nearest(key, names.chain(COMMON_FIELDS))
                    .is_some_and(|name| COMMON_FIELDS.contains(&name) && node.get(name).is_none())
        };
        if is_common {
            common.push(member)
        } else {
            own.push(member.clone())
        }
    }
    let own = Node {
        span: node.span,
        kind: NodeKind::Object(own),
    };
    (common, own)
}

/// Returns whether these members fit [`COMMON`] beyond doubt, as those of nearly all steps do.
fn are_plain(members: &[&Member]) -> bool {
    let has = |key: &str| members.iter().any(|member| member.key == key);
    has("id") && has("type") && members.iter().all(|member| is_plain(member))
}

fn is_plain(member: &Member) -> bool {
    match (&*member.key, &member.value.kind) {
        ("id" | "type", NodeKind::String(_)) | ("fail_task_on_error", NodeKind::Bool(_)) => true,
        ("depends_on", NodeKind::Array(entries)) => {
            entries.iter().all(|entry| match entry.as_object() {
                Some([edge]) => edge.key == "task_step_id" && edge.value.as_str().is_some(),
                Some(_) => false,
                None => entry.as_str().is_some(),
            })
        }
        _ => false,
    }
}

fn read_id(node: &Node, id: &str, faults: &mut Faults<'_>) {
    let Some(written) = node.get("id").filter(|written| written.as_str().is_some()) else {
        return;
    };
    if let Some(fault) = fault_of_id(id) {
        faults.error(written.span, |source| {
            say(fault, "id", id).primary(source, written.span, "")
        });
    }
}

/// Types of agent-env, of which some are not there in this release.
const ELSEWHERE: [&str; 17] = [
    "combine_universe_verdicts",
    "run_container_unit_tests_verifier",
    "run_docker_container",
    "validation_gate_aggregator",
    "verify_a2a_agent_card",
    "verify_a2a_agent_config_identity",
    "verify_a2a_agent_mcp",
    "verify_a2a_core_protocol",
    "verify_a2a_install",
    "verify_a2a_modalities",
    "verify_a2a_peer_agents",
    "verify_a2a_role",
    "verify_a2a_skill_config",
    "verify_a2a_snapshot",
    "verify_a2a_system_prompt",
    "verify_a2a_trajectory",
    "verify_mcp_env_assessment",
];

fn unknown_type(
    node: &Node,
    kind: &str,
    shown: &str,
    types: &dyn StepTypes,
    faults: &mut Faults<'_>,
) {
    let Some(written) = node
        .get("type")
        .filter(|written| written.as_str().is_some())
    else {
        return;
    };
    faults.error(written.span, |source| {
        let names = types.names();
        if ELSEWHERE.contains(&kind) && !names.contains(&kind) {
            let what = format!("`{kind}`, the type of {shown}, is not there in this release");
            return Diagnostic::error("unknown-type", what)
                .primary(source, written.span, "a type of agent-env alone")
                .help(format!("delete {shown}, or run the task with `agent-env`"));
        }
        let near = meant(kind, names.iter().copied());
        let help = near.is_none().then(|| {
            let mut names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.sort();
            format!("the types are {}", names.join(", "))
        });
        let headline = match has_placeholder(kind) {
            true => format!("the type of {shown} has a placeholder, but a type can't be seeded"),
            false => format!("`{}`, the type of {shown}, is not a known type", clip(kind)),
        };
        Diagnostic::error("unknown-type", headline)
            .primary(source, written.span, "not a known type")
            .help(help)
            .meant(near)
    });
}

fn read_depends_on(node: &Node, shown: &str, faults: &mut Faults<'_>) -> DependsOn {
    let Some(written) = node.member("depends_on") else {
        return DependsOn::Earlier;
    };
    let entries = match &written.value.kind {
        NodeKind::Array(entries) => entries,
        NodeKind::Null => {
            let span = written.value.span;
            let field = Span::new(written.key_span.start as usize, span.end as usize);
            faults.warning(span, |source| {
                let headline = format!("`depends_on: null` makes {shown} wait for every earlier step");
                Diagnostic::warning("null-dependency", headline)
                    .primary(source, span, "means every earlier step")
                    .help("write [] to wait for nothing, or delete the field to wait for every earlier step")
                    .fix(Fix::offered("write []").edit(source, span, "[]"))
                    .fix(Fix::offered("delete the field").edit(source, cut(&source.text, field), ""))
            });
            return DependsOn::Earlier;
        }
        _ => return DependsOn::Earlier,
    };
    let mut counts: std::collections::HashMap<&str, u32> =
        std::collections::HashMap::with_capacity(entries.len().min(1024));
    let mut ids = Vec::new();
    for id in entries.iter().filter_map(edge_id).filter_map(Node::as_str) {
        let count = counts.entry(id).or_default();
        *count += 1;
        if *count == 1 {
            ids.push(StepId::new(id));
        }
    }
    let mut repeated: Vec<&StepId> = ids.iter().filter(|id| counts[id.as_str()] > 1).collect();
    repeated.truncate(20);
    for id in repeated {
        let spans = entries
            .iter()
            .filter_map(|entry| Some((entry, edge_id(entry)?)));
        let spans = spans.filter(|(_, node)| node.as_str() == Some(id.as_str()));
        let spans: Vec<_> = spans
            .map(|(entry, node)| (entry.span, node.span))
            .take(2)
            .collect();
        let [(_, first), (entry, again)] = spans[..] else {
            continue;
        };
        faults.warning(again, |source| {
            let times = match counts[id.as_str()] {
                2 => "twice".to_owned(),
                n => format!("{n} times"),
            };
            let headline = format!(
                "`depends_on` of {shown} names `{}` {times}",
                clip(id.as_str())
            );
            Diagnostic::warning("repeated-dependency", headline)
                .label(source, first, "first here")
                .primary(source, again, "and again here")
                .help("name each step once")
                .fix(Fix::sure("delete the second").edit(source, cut(&source.text, entry), ""))
        });
    }
    DependsOn::Steps(ids)
}

fn read_retry(node: &Node, shown: &str, faults: &mut Faults<'_>) -> Option<RetryConfig> {
    let written = node.member("retry_config")?;
    written.value.as_object()?;
    let (from, alias) = (
        written.value.get("retry_from_step_id"),
        written.value.get("go_to_step_id"),
    );
    if from.is_none() && alias.is_none() {
        let misspelt = |member: &Member| {
            nearest(
                &member.key,
                ["retry_from_step_id", "go_to_step_id", "max_retries"],
            )
            .is_some_and(|name| name != "max_retries" && name != member.key)
        };
        if !written.value.as_object()?.iter().any(misspelt) {
            faults.error(written.value.span, |source| {
                Diagnostic::error(
                    "retry-without-target",
                    format!("the retry of {shown} does not say from where"),
                )
                .primary(
                    source,
                    written.key_span,
                    "`retry_from_step_id` is missing here",
                )
                .help("add \"retry_from_step_id\": with the id of the first step to run again")
            });
        }
        return None;
    }
    if let (Some(from), Some(alias)) = (from, alias)
        && let (Some(one), Some(other)) = (from.as_str(), alias.as_str())
        && one != other
    {
        let whole = written.value.member("go_to_step_id").map(|member| Span {
            start: member.key_span.start,
            end: member.value.span.end,
        });
        faults.error(alias.span, |source| {
            let headline = format!(
                "the retry of {shown} names two targets, `{}` and `{}`",
                clip(one),
                clip(other)
            );
            Diagnostic::error("two-retry-targets", headline)
                .label(source, from.span, "one here")
                .primary(source, alias.span, "another here")
                .help("delete `go_to_step_id`, which is another name for `retry_from_step_id`")
                .fix(whole.map(|whole| {
                    let cut = cut(&source.text, whole);
                    Fix::offered("delete `go_to_step_id`").edit(source, cut, "")
                }))
        });
    }
    let target = from.or(alias)?.as_str()?;
    let max_retries = match written.value.get("max_retries") {
        None => 1,
        Some(number) => u32::try_from(number.as_u64()?)
            .ok()
            .filter(|&n| n <= MAX_RETRIES)?,
    };
    Some(RetryConfig {
        from: StepId::new(target),
        max_retries,
    })
}

/// Cuts a text to what fits in a headline.
pub(super) fn clip(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
