//! What may be written in a file of settings.

use super::line::{names, table_before};
use super::{File, Settings, below, key_of};
use crate::assist::complete::{Completion, CompletionKind};
use crate::assist::names::Noun;
use crate::check::level;
use crate::diagnostic::{Severity, Span, page};
use crate::task::config::{KEYS, KeyKind};
use crate::task::deploy::{AGENT_KINDS, BUILTIN_ENVS};

/// Returns what may be written at an offset.
pub fn complete(settings: &Settings<'_>, offset: usize) -> Vec<Completion> {
    let text = settings.text;
    let offset = text.floor_char_boundary(offset);
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let before = text[start..offset].trim_start();
    if before.starts_with('#') {
        return Vec::new();
    }
    if let Some(typed) = before.strip_prefix('[') {
        return tables(settings, typed, offset);
    }
    let table = settings.path(&table_before(&text[..start]));
    match before.split_once('=') {
        Some((key, value)) => {
            let path: Vec<String> = table.into_iter().chain(names(key)).collect();
            values(settings, &path, value.trim_start(), offset)
        }
        None => keys(settings, &table, before, offset),
    }
}

fn tables(settings: &Settings<'_>, typed: &str, offset: usize) -> Vec<Completion> {
    let n_above = settings.file.table().len();
    let mut found: Vec<String> = Vec::new();
    for key in KEYS {
        let Some(parts) = below(key, &settings.path(&[])) else {
            continue;
        };
        let Some((_, table)) = parts.split_last().filter(|(_, table)| !table.is_empty()) else {
            continue;
        };
        let names = match (n_above, table) {
            (0, [kind @ ("envs" | "agents"), "*", ..]) => settings.names(kind),
            _ => Vec::new(),
        };
        // A name that its author chooses cannot be completed.
        for name in names.into_iter().chain(["name"]) {
            let table = table.join(".").replacen('*', name, 1).replace('*', "name");
            if !found.contains(&table) {
                found.push(table);
            }
        }
    }
    let replace = Span::new(offset - typed.len(), offset);
    let completion = |table: String| Completion {
        label: table.clone(),
        kind: CompletionKind::Field,
        detail: Some("table".to_owned()),
        doc: None,
        replace,
        snippet: table.clone(),
        text: table,
    };
    found.into_iter().map(completion).collect()
}

fn keys(settings: &Settings<'_>, table: &[String], typed: &str, offset: usize) -> Vec<Completion> {
    let text = settings.text;
    let replace = Span::new(offset - typed.len(), offset);
    let rest = text[offset..].lines().next().unwrap_or_default();
    let has_value = rest.contains('=');
    let mut found: Vec<Completion> = own_keys(settings, table, has_value, replace);
    for key in KEYS {
        let Some(parts) = below(key, table) else {
            continue;
        };
        // What is passed on of a machine is for whoever runs the task to say.
        if settings.file != File::Config && key.path.ends_with(".pass_variables") {
            continue;
        }
        // A name that its author chooses cannot be completed.
        if parts.contains(&"*") || table.is_empty() && parts.len() > 1 && typed.is_empty() {
            continue;
        }
        let label = parts.join(".");
        if found.iter().any(|one| one.label == label) {
            continue;
        }
        found.push(Completion {
            detail: (!key.default.is_empty())
                .then(|| format!("{} where it is left out", key.default)),
            doc: Some(key.doc.to_owned()),
            ..completion_of_key(&label, key.kind, has_value, replace)
        });
    }
    if table.is_empty() && typed.is_empty() {
        for table in tables(settings, "", offset) {
            let text = format!("[{}]", table.label);
            found.push(Completion {
                snippet: text.clone(),
                text,
                ..table
            });
        }
    }
    found
}

/// Returns the keys whose names are those of something: codes, types, and what a folder alone may say.
fn own_keys(
    settings: &Settings<'_>,
    table: &[String],
    has_value: bool,
    replace: Span,
) -> Vec<Completion> {
    let table: Vec<&str> = table.iter().map(String::as_str).collect();
    let text = |name: &str, doc: &str| Completion {
        doc: Some(doc.to_owned()),
        ..completion_of_key(name, KeyKind::Text, has_value, replace)
    };
    match (settings.file, &table[..]) {
        (File::Config, ["lint"]) => {
            // What keeps a task from running is an error in any case.
            let codes = level::codes().filter(|(_, severity)| *severity != Severity::Error);
            let code = |(code, severity): (&str, Severity)| Completion {
                detail: Some(format!("{} where nothing is said", severity.as_str())),
                doc: page(code).map(|page| page.lead().to_owned()),
                ..completion_of_key(code, KeyKind::Text, has_value, replace)
            };
            codes.map(code).collect()
        }
        (File::Config, ["determinism", "types"]) => {
            let types = settings.types.0.iter();
            types.map(|kind| text(kind.name, &kind.summary())).collect()
        }
        (File::Env, ["envs", "*"]) => vec![
            text("type", "What the env is, such as `mcp_server`."),
            text("id", "The id in contexts, beginning with `@local/`."),
        ],
        (File::Agent, ["agents", "*"]) => vec![
            text("type", "What the agent is."),
            text("id", "The id in contexts, beginning with `@local/`."),
        ],
        _ => Vec::new(),
    }
}

fn completion_of_key(label: &str, kind: KeyKind, has_value: bool, replace: Span) -> Completion {
    let empty = match kind {
        KeyKind::Text | KeyKind::Url | KeyKind::Variable | KeyKind::OneOf(_) => "\"$1\"",
        KeyKind::Texts | KeyKind::Variables => "[$1]",
        KeyKind::Whole(..) | KeyKind::Number(..) | KeyKind::Any => "$1",
    };
    let (text, snippet) = match has_value {
        true => (label.to_owned(), label.to_owned()),
        false => (
            format!("{label} = {}", empty.replace("$1", "")),
            format!("{label} = {empty}"),
        ),
    };
    Completion {
        label: label.to_owned(),
        kind: CompletionKind::Field,
        detail: None,
        doc: None,
        replace,
        text,
        snippet,
    }
}

fn values(settings: &Settings<'_>, path: &[String], typed: &str, offset: usize) -> Vec<Completion> {
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    let (names, kind): (Vec<&str>, _) = match &words[..] {
        ["agents", _, "model"] => {
            let models = settings.config.models.keys();
            let noun = CompletionKind::Name(Noun::Model);
            (models.map(String::as_str).collect(), noun)
        }
        ["agents", _, "type"] => (AGENT_KINDS.to_vec(), CompletionKind::Value),
        ["envs", _, "builtin"] => (BUILTIN_ENVS.to_vec(), CompletionKind::Value),
        _ => match key_of(path).map(|key| key.kind) {
            Some(KeyKind::OneOf(names)) => (names.to_vec(), CompletionKind::Value),
            _ => return Vec::new(),
        },
    };
    // The other quote may stand there already.
    let quote = typed.chars().next().filter(|quote| "\"'".contains(*quote));
    let rest = &settings.text[offset..];
    let is_closed = quote.is_some_and(|quote| rest.starts_with(quote));
    let replace = Span::new(offset - typed.len(), offset + usize::from(is_closed));
    let completion = |name: &str| {
        let text = format!("\"{name}\"");
        Completion {
            label: name.to_owned(),
            kind,
            detail: None,
            doc: None,
            replace,
            snippet: text.clone(),
            text,
        }
    };
    names.into_iter().map(completion).collect()
}
