//! What may be written in `aebuild.toml`.

use super::complete::{Completion, CompletionKind};
use crate::diagnostic::Span;
use crate::task::config::{KEYS, KeyDoc, KeyKind};

/// Returns what may be written at an offset of the configuration.
pub fn complete_config(text: &str, offset: usize) -> Vec<Completion> {
    let offset = text.floor_char_boundary(offset);
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let before = text[start..offset].trim_start();
    if before.starts_with('#') {
        return Vec::new();
    }
    if let Some(typed) = before.strip_prefix('[') {
        return tables(typed, offset);
    }
    let table = table_before(&text[..start]);
    match before.split_once('=') {
        Some((key, value)) => values(&path(&table, key.trim()), value.trim_start(), offset),
        None => keys(&table, before, text, offset),
    }
}

/// Returns the parts of the header of the table that an offset is in.
fn table_before(text: &str) -> Vec<String> {
    let headers = text.lines().rev().map(str::trim);
    let mut headers = headers.filter_map(|line| line.strip_prefix('[')?.split(']').next());
    headers.next().map(parts).unwrap_or_default()
}

fn parts(key: &str) -> Vec<String> {
    let parts = key
        .split('.')
        .map(|part| part.trim().trim_matches(['"', '\'']));
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

fn path(table: &[String], key: &str) -> Vec<String> {
    table.iter().cloned().chain(parts(key)).collect()
}

/// Returns the parts of a key below others, if it is below them.
fn below<'k>(key: &'k KeyDoc, table: &[String]) -> Option<Vec<&'k str>> {
    let all: Vec<&str> = key.path.split('.').collect();
    let fits = all.len() > table.len()
        && all
            .iter()
            .zip(table)
            .all(|(part, name)| *part == "*" || part == name);
    fits.then(|| all[table.len()..].to_vec())
}

fn tables(typed: &str, offset: usize) -> Vec<Completion> {
    let mut found: Vec<String> = Vec::new();
    for key in KEYS {
        let Some((table, _)) = key.path.rsplit_once('.') else {
            continue;
        };
        let table = table.replace('*', "name");
        if !found.contains(&table) {
            found.push(table);
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

fn keys(table: &[String], typed: &str, text: &str, offset: usize) -> Vec<Completion> {
    let replace = Span::new(offset - typed.len(), offset);
    let rest = text[offset..].lines().next().unwrap_or_default();
    let has_value = rest.contains('=');
    let mut found: Vec<Completion> = Vec::new();
    for key in KEYS {
        let Some(parts) = below(key, table) else {
            continue;
        };
        // A name that its author chooses cannot be completed.
        if parts.contains(&"*") || table.is_empty() && parts.len() > 1 && typed.is_empty() {
            continue;
        }
        let label = parts.join(".");
        let empty = match key.kind {
            KeyKind::Text | KeyKind::Url | KeyKind::Variable | KeyKind::OneOf(_) => "\"$1\"",
            KeyKind::Texts | KeyKind::Variables => "[$1]",
            KeyKind::Whole(..) | KeyKind::Number(..) | KeyKind::Any => "$1",
        };
        let (text, snippet) = match has_value {
            true => (label.clone(), label.clone()),
            false => (
                format!("{label} = {}", empty.replace("$1", "")),
                format!("{label} = {empty}"),
            ),
        };
        found.push(Completion {
            label,
            kind: CompletionKind::Field,
            detail: (!key.default.is_empty())
                .then(|| format!("{} where it is left out", key.default)),
            doc: Some(key.doc.to_owned()),
            replace,
            text,
            snippet,
        });
    }
    if table.is_empty() && typed.is_empty() {
        for table in tables("", offset) {
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

fn values(path: &[String], typed: &str, offset: usize) -> Vec<Completion> {
    let is_it = |key: &&KeyDoc| {
        let parts: Vec<&str> = key.path.split('.').collect();
        parts.len() == path.len()
            && parts
                .iter()
                .zip(path)
                .all(|(part, name)| *part == "*" || part == name)
    };
    let Some(key) = KEYS.iter().find(is_it) else {
        return Vec::new();
    };
    let KeyKind::OneOf(names) = key.kind else {
        return Vec::new();
    };
    let completion = |name: &&str| {
        let text = format!("\"{name}\"");
        Completion {
            label: (*name).to_owned(),
            kind: CompletionKind::Value,
            detail: None,
            doc: None,
            replace: Span::new(offset - typed.len(), offset),
            snippet: text.clone(),
            text,
        }
    };
    names.iter().map(completion).collect()
}
