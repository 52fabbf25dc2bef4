//! What may be written where the cursor is.

use super::cursor::{Cursor, Open, Slot};
use super::fields::{self, Field};
use super::names::{self, Noun};
use super::{Scene, text};
use crate::diagnostic::Span;
use crate::json::Value;
use crate::task::DEFAULT_AGENT;
use crate::task::deploy::{EnvRun, EnvSpec};

/// Something that may be written at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The name as people read it.
    pub label: String,
    /// What it is.
    pub kind: CompletionKind,
    /// A few words beside the name.
    pub detail: Option<String>,
    /// What it is for, as Markdown.
    pub doc: Option<String>,
    /// The bytes that it replaces.
    pub replace: Span,
    /// The text that is written.
    pub text: String,
    /// The text as a snippet, with a place for the cursor; the same as `text` where nothing is left to fill in.
    pub snippet: String,
}

/// What a completion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionKind {
    /// A field of a step.
    Field,
    /// A type of steps.
    StepType,
    /// One of the values that a field may have.
    Value,
    /// The name of something.
    Name(Noun),
    /// A file of an artifact.
    File,
}

/// Returns what may be written at an offset, the likeliest first.
pub fn complete(scene: &Scene<'_>, offset: usize) -> Vec<Completion> {
    let cursor = Cursor::find(&scene.source.text, offset);
    let within_list = cursor.open.first().is_some_and(|list| !list.is_object);
    match (cursor.open.len(), cursor.slot) {
        _ if !within_list => Vec::new(),
        (1, _) => step(scene, &cursor),
        (_, Slot::Key) => keys(scene, &cursor),
        (_, Slot::Value) => values(scene, &cursor),
    }
}

/// Completes a whole step, in the list of steps.
fn step(scene: &Scene<'_>, cursor: &Cursor) -> Vec<Completion> {
    let comma = if cursor.needs_comma { "," } else { "" };
    let is_typed = !cursor.token.is_empty();
    let kinds = scene.types.0.iter().map(|step_type| {
        let name = step_type.name;
        let must: Vec<Field<'_>> = fields::fields(&[step_type.schema()])
            .into_iter()
            .filter(|field| field.is_required)
            .collect();
        let (mut text, mut snippet) = (
            format!("{{\"id\": \"\", \"type\": \"{name}\""),
            format!("{{\"id\": \"$1\", \"type\": \"{name}\""),
        );
        for (at, field) in must.iter().enumerate() {
            let (value, filled) = blank(field.schema, at + 2);
            text.push_str(&format!(", \"{}\": {value}", field.name));
            snippet.push_str(&format!(", \"{}\": {filled}", field.name));
        }
        Completion {
            label: name.to_owned(),
            kind: CompletionKind::StepType,
            detail: Some("step".to_owned()),
            doc: Some(step_type.summary()),
            replace: cursor.token,
            text: format!("{text}}}{comma}"),
            snippet: format!("{snippet}}}{comma}"),
        }
    });
    match is_typed && !scene.source.slice(cursor.token).starts_with('"') {
        // A number or the like is no start of a step.
        true => Vec::new(),
        false => kinds.collect(),
    }
}

/// Completes the key of a member.
fn keys(scene: &Scene<'_>, cursor: &Cursor) -> Vec<Completion> {
    let (Some(object), open) = (cursor.open.last(), &cursor.open[1..]) else {
        return Vec::new();
    };
    let schemas = fields::inner(scene.types, open);
    let mut found = fields::fields(&schemas);
    if open.len() == 1 {
        // What tells a step apart comes first, then what its type needs.
        let rank = |name: &str| match name {
            "id" => 0,
            "type" => 1,
            _ => 2,
        };
        found.sort_by_key(|field| rank(field.name));
    }
    found.retain(|field| !object.has(field.name));
    let comma = if cursor.needs_comma { "," } else { "" };
    let of_field = |field: &Field<'_>| {
        let key = quoted(field.name);
        let (value, filled) = blank(field.schema, 1);
        let (text, snippet) = match cursor.has_colon {
            true => (key.clone(), key),
            false => (
                format!("{key}: {value}{comma}"),
                format!("{key}: {filled}{comma}"),
            ),
        };
        Completion {
            label: field.name.to_owned(),
            kind: CompletionKind::Field,
            detail: Some(fields::summary(field)),
            doc: fields::doc(field.schema).map(str::to_owned),
            replace: cursor.token,
            text,
            snippet,
        }
    };
    found.iter().map(of_field).collect()
}

/// Returns the empty value of a field as text and as snippet.
fn blank(schema: &Value, at: usize) -> (String, String) {
    let kinds = fields::kinds(schema);
    let has_choices = !fields::choices(&[schema]).is_empty();
    match kinds.first() {
        Some(&"string") => ("\"\"".to_owned(), format!("\"${at}\"")),
        Some(&"array") => ("[]".to_owned(), format!("[${at}]")),
        Some(&"object") => ("{}".to_owned(), format!("{{${at}}}")),
        _ if has_choices => ("null".to_owned(), format!("${at}")),
        _ => ("null".to_owned(), format!("${at}")),
    }
}

/// Completes a value.
fn values(scene: &Scene<'_>, cursor: &Cursor) -> Vec<Completion> {
    let Some((keys, in_list)) = keys_of(&cursor.open) else {
        return Vec::new();
    };
    let kind = cursor.of_step("type").unwrap_or_default();
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    if names == ["type"] {
        return types(scene, cursor);
    }
    if kind == "run_code" && names == ["script_file"] {
        return files(scene, cursor);
    }
    let mut found = Vec::new();
    if let Some(noun) = names::noun_of(kind, &names) {
        found = in_scope(scene, cursor, noun, &names, kind);
    }
    if let Some("tool" | "tools") = names.last().copied() {
        found = tools(scene, cursor);
    }
    if in_list && let Some(list) = cursor.open.last() {
        found.retain(|one: &Completion| !list.items.contains(&one.label));
    }
    let open = &cursor.open[1..];
    let last = open.last().and_then(|open| open.key.as_deref());
    let choices = match (open.split_last(), last) {
        (Some((object, outer)), Some(key)) if object.is_object => {
            // The object's own text at the cursor is what is being chosen, so it rules nothing out.
            let mut bare = object.clone();
            bare.members.retain(|(name, _)| name != key);
            let whole: Vec<Open> = outer.iter().cloned().chain([bare]).collect();
            let schemas = fields::inner(scene.types, &whole);
            let mut choices = fields::member_choices(&schemas, key);
            for choice in fields::choices(&fields::value_of(&schemas, key)) {
                if choices.iter().all(|(known, _)| *known != choice.0) {
                    choices.push(choice);
                }
            }
            choices
        }
        _ => {
            let schemas = fields::inner(scene.types, open);
            fields::choices(&fields::items_of(&schemas))
        }
    };
    found.extend(choices.into_iter().map(|(value, doc)| {
        let label = value.trim_matches('"').to_owned();
        one(cursor, label, value, CompletionKind::Value, None, doc)
    }));
    found
}

/// Returns the keys that lead from the step to the cursor, and whether it is in a list.
fn keys_of(open: &[Open]) -> Option<(Vec<String>, bool)> {
    let mut keys = Vec::new();
    for container in open.get(1..)? {
        if container.is_object {
            keys.push(container.key.clone()?);
        }
    }
    let in_list = open.last().is_some_and(|last| !last.is_object);
    Some((keys, in_list))
}

fn types(scene: &Scene<'_>, cursor: &Cursor) -> Vec<Completion> {
    let all = scene.types.0.iter().map(|step_type| {
        let (label, value) = (step_type.name.to_owned(), quoted(step_type.name));
        let doc = Some(step_type.summary());
        one(cursor, label, value, CompletionKind::StepType, None, doc)
    });
    all.collect()
}

/// Completes a tool of the env that the step is about, where that is compiled in: of another one nobody knows them here.
fn tools(scene: &Scene<'_>, cursor: &Cursor) -> Vec<Completion> {
    let env = cursor.of_step("env_id");
    let env = env.and_then(|env| EnvSpec::of(env, scene.folder, &scene.config.envs).ok());
    let Some(EnvRun::Builtin { name }) = env.map(|env| env.run) else {
        return Vec::new();
    };
    let text = |tool: &Value, key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
    let all = scene.tools.get(&name).into_iter().flatten();
    let found = all.filter_map(|tool| {
        let (label, doc) = (text(tool, "name")?, text(tool, "description"));
        let detail = Some(format!("tool of `{name}`"));
        let value = quoted(&label);
        Some(one(
            cursor,
            label,
            value,
            CompletionKind::Value,
            detail,
            doc,
        ))
    });
    found.collect()
}

/// Completes a file of the artifact that the step names.
fn files(scene: &Scene<'_>, cursor: &Cursor) -> Vec<Completion> {
    let artifact = cursor.of_step("script_artifact_id");
    let Some(artifact) = artifact.and_then(|name| scene.folder.artifact(name)) else {
        return Vec::new();
    };
    let files = artifact.files.iter().map(|file| {
        let detail = Some(format!("file of `{}`", artifact.name));
        let value = quoted(&file.path);
        one(
            cursor,
            file.path.clone(),
            value,
            CompletionKind::File,
            detail,
            None,
        )
    });
    files.collect()
}

/// Completes a name by what has such a name.
fn in_scope(
    scene: &Scene<'_>,
    cursor: &Cursor,
    noun: Noun,
    keys: &[&str],
    kind: &str,
) -> Vec<Completion> {
    let own_id = cursor.of_step("id").unwrap_or_default();
    let mut found: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, detail: String| {
        if found.iter().all(|(known, _)| known != name) {
            found.push((name.to_owned(), detail));
        }
    };
    let makes = match keys {
        ["id"] | ["verifier_id"] => return Vec::new(),
        ["prompt_id"] if kind == "prompt_agent" => return Vec::new(),
        ["env_id"] => kind == "deploy_env",
        ["agent_name"] => kind == "deploy_agent" || kind == "install_agent",
        _ => false,
    };
    let (folder, config) = (scene.folder, scene.config);
    match noun {
        Noun::Step => {
            for (_, step) in scene.steps() {
                let id = text(step, "id");
                if !id.is_empty() && id != own_id {
                    add(id, text(step, "type").to_owned());
                }
            }
        }
        Noun::Env if makes => {
            let named = |name: &str| format!("env of {name}");
            for name in folder.envs.keys() {
                add(name, named("the folder"));
            }
            for (alias, name) in &folder.aliases.envs {
                add(alias, format!("alias of `{name}`"));
            }
            for name in config.envs.keys() {
                add(name, named("aebuild.toml"));
            }
            for name in crate::task::deploy::BUILTIN_ENVS {
                add(name, "built in".to_owned());
            }
        }
        Noun::AgentFolder => agents(scene, &mut add),
        Noun::Agent if makes => agents(scene, &mut add),
        Noun::Artifact => {
            let wants_skill = keys.last() == Some(&"skill_artifact_id");
            let skills = folder.skills.values();
            let artifacts = folder.artifacts.values().filter(|_| !wants_skill);
            for artifact in artifacts.chain(skills) {
                add(&artifact.name, artifact.kind.as_str().to_owned());
            }
        }
        Noun::Model => {
            for name in config.models.keys() {
                add(name, "model of aebuild.toml".to_owned());
            }
        }
        Noun::Env | Noun::Agent | Noun::Sandbox | Noun::Prompt | Noun::Verifier => {
            for site in names::sites(scene) {
                if site.makes && site.name.noun == noun {
                    let step = &scene.root.as_array().unwrap_or_default()[site.step];
                    let is_own = text(step, "id") == own_id;
                    if !is_own {
                        add(&site.name.text, format!("made by `{}`", text(step, "id")));
                    }
                }
            }
            if noun == Noun::Agent && found.is_empty() {
                found.push((
                    DEFAULT_AGENT.to_owned(),
                    "the agent meant where none is named".to_owned(),
                ));
            }
        }
    }
    let all = found.into_iter().map(|(name, detail)| {
        let value = quoted(&name);
        let kind = CompletionKind::Name(noun);
        one(cursor, name, value, kind, Some(detail), None)
    });
    all.collect()
}

fn agents(scene: &Scene<'_>, add: &mut dyn FnMut(&str, String)) {
    for (name, agent) in &scene.folder.agents {
        add(name, format!("{} of the folder", agent.kind));
    }
    for (alias, name) in &scene.folder.aliases.agents {
        add(alias, format!("alias of `{name}`"));
    }
    for name in scene.config.agents.keys() {
        add(name, "agent of aebuild.toml".to_owned());
    }
}

/// Returns a text as JSON.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn one(
    cursor: &Cursor,
    label: String,
    value: String,
    kind: CompletionKind,
    detail: Option<String>,
    doc: Option<String>,
) -> Completion {
    let comma = if cursor.needs_comma { "," } else { "" };
    let text = format!("{value}{comma}");
    Completion {
        label,
        kind,
        detail,
        doc,
        replace: cursor.token,
        snippet: escaped(&text),
        text,
    }
}

/// Returns a text as a snippet that has no place to fill in.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('$', "\\$")
        .replace('}', "\\}")
}
