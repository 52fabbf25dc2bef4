//! What an author asks in `aebuild.toml`, `env.toml` and `agent.toml`: keys and their values, what they mean, and where
//! what they name is.
//!
//! The text is read line by line, so it may be broken: what counts is the last header above the cursor.

mod complete;
mod line;

use std::path::PathBuf;

use super::definition::Target;
use super::hover::Hover;
use crate::check::level;
use crate::diagnostic::{Severity, Span, page};
use crate::step::{Registry, StepType};
use crate::task::config::{Config, KEYS, KeyDoc, KeyKind};
use crate::task::folder::{Definition, TaskFolder, definition_file};
use line::{At, Part};

pub use complete::complete;

/// Which file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// `aebuild.toml`.
    Config,
    /// The `env.toml` of an env.
    Env,
    /// The `agent.toml` of an agent.
    Agent,
}

impl File {
    /// Returns the table of `aebuild.toml` whose keys the file may have.
    fn table(self) -> &'static [&'static str] {
        match self {
            File::Config => &[],
            File::Env => &["envs", "*"],
            File::Agent => &["agents", "*"],
        }
    }
}

/// A file of settings as its author sees it at the moment.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// The text.
    pub text: &'a str,
    /// Which file it is.
    pub file: File,
    /// The task folders that it is for.
    pub folders: &'a [&'a TaskFolder],
    /// What `aebuild.toml` says.
    pub config: &'a Config,
    /// The step types.
    pub types: Registry,
}

impl<'a> Settings<'a> {
    /// Returns a path as it would be in `aebuild.toml`.
    fn path(&self, at: &[String]) -> Vec<String> {
        let table = self.file.table().iter().map(|part| (*part).to_owned());
        table.chain(at.iter().cloned()).collect()
    }

    /// Returns the env or agent of a folder that has a name or alias.
    fn of_folder(&self, kind: &str, name: &str) -> Option<(&'a TaskFolder, &'a Definition)> {
        self.folders.iter().find_map(|folder| {
            let found = match kind {
                "envs" => folder.env(name),
                _ => folder.agent(name),
            };
            Some((*folder, found?))
        })
    }

    /// Returns the file that says what an env or agent of a folder is, else its first.
    fn file_of(&self, kind: &str, name: &str) -> Option<PathBuf> {
        let (folder, found) = self.of_folder(kind, name)?;
        let path = found.folder.join(definition_file(kind));
        match folder.config_files.contains(&path) {
            true => Some(path),
            false => found.files.first().map(|file| file.source.clone()),
        }
    }

    /// Returns the names of the folders of envs or agents.
    fn names(&self, kind: &str) -> Vec<&'a str> {
        let names = self.folders.iter().flat_map(|folder| match kind {
            "envs" => folder.envs.keys(),
            _ => folder.agents.keys(),
        });
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Returns the key of `aebuild.toml` that a path is.
fn key_of(path: &[String]) -> Option<&'static KeyDoc> {
    KEYS.iter().find(|key| {
        let parts: Vec<&str> = key.path.split('.').collect();
        parts.len() == path.len() && fits(&parts, path)
    })
}

/// Returns the parts of a key below a path, if it is below it.
fn below<'k>(key: &'k KeyDoc, path: &[String]) -> Option<Vec<&'k str>> {
    let all: Vec<&str> = key.path.split('.').collect();
    let is_below = all.len() > path.len() && fits(&all, path);
    is_below.then(|| all[path.len()..].to_vec())
}

/// Returns whether the parts of a key begin with those of a path.
fn fits(parts: &[&str], path: &[String]) -> bool {
    let mut pairs = parts.iter().zip(path);
    pairs.all(|(part, name)| *part == "*" || part == name || name == "*")
}

/// Returns what is known of what stands at an offset.
pub fn hover(settings: &Settings<'_>, offset: usize) -> Option<Hover> {
    let At { path, part, span } = line::at(settings.text, offset)?;
    let path = settings.path(&path);
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    let text = match (&part, &words[..]) {
        (Part::Value(value), ["agents", _, "model"]) => of_model(settings, value)?,
        (Part::Value(_), _) => return None,
        (_, ["lint", code]) => of_code(code)?,
        (_, ["determinism", "types", kind]) => {
            let summary = settings.types.find(kind).map(StepType::summary)?;
            format!("**`{kind}`**\n\n{summary}")
        }
        (_, [kind @ ("envs" | "agents"), name]) if *name != "*" => of_folder(settings, kind, name)?,
        (_, ["models", name]) => of_model(settings, name)?,
        _ => match key_of(&path) {
            Some(key) => of_key(key),
            None => of_table(&path)?,
        },
    };
    Some(Hover {
        span,
        text,
        step: None,
    })
}

fn of_key(key: &KeyDoc) -> String {
    let kind = match key.kind {
        KeyKind::Text => "a text".to_owned(),
        KeyKind::Url => "an address".to_owned(),
        KeyKind::Variable => "the name of an environment variable".to_owned(),
        KeyKind::Variables => "names of environment variables".to_owned(),
        KeyKind::Texts => "a list of texts".to_owned(),
        KeyKind::Whole(least, most) => format!("a whole number from {least} to {most}"),
        KeyKind::Number(least, most) => format!("a number from {least} to {most}"),
        KeyKind::Any => "any value".to_owned(),
        KeyKind::OneOf(names) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
    };
    let default = match key.default {
        "" => String::new(),
        default => format!("; `{default}` where it is left out"),
    };
    let path = key.path.replace('*', "<name>");
    format!("**`{path}`**: {kind}{default}\n\n{}", key.doc)
}

/// Returns the keys that a table may have.
fn of_table(path: &[String]) -> Option<String> {
    let names = KEYS.iter().filter_map(|key| {
        let rest = below(key, path)?.join(".");
        Some(format!("`{}`", rest.replace('*', "<name>")))
    });
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| format!("**`{}`**: {}", path.join("."), names.join(", ")))
}

fn of_code(code: &str) -> Option<String> {
    let level = match level::of(code)? {
        Severity::Error => "an error whatever is said here",
        Severity::Warning => "a warning where nothing else is said",
        Severity::Hint => "a hint where nothing else is said",
    };
    let lead = page(code).map_or("", |page| page.lead());
    Some(
        format!("**`{code}`**: {level}\n\n{lead}")
            .trim_end()
            .to_owned(),
    )
}

fn of_folder(settings: &Settings<'_>, kind: &str, name: &str) -> Option<String> {
    let noun = kind.trim_end_matches('s');
    let told = match settings.of_folder(kind, name) {
        Some((_, found)) => format!(
            "`{}` of the folder `{kind}/{}`; what `[{kind}.{name}]` says counts more",
            found.kind, found.name
        ),
        None => format!("of `[{kind}.{name}]` alone"),
    };
    Some(format!("{noun} **`{name}`**\n\n{told}"))
}

fn of_model(settings: &Settings<'_>, name: &str) -> Option<String> {
    let table = settings.config.models.get(name)?;
    let text = |key: &str| table.get(key).and_then(crate::json::Value::as_str);
    let api = text("api").map_or_else(String::new, |api| format!(", reached by `{api}`"));
    let id = text("model").map_or_else(String::new, |id| format!(", `{id}`"));
    Some(format!("model **`{name}`** of `aebuild.toml`{api}{id}"))
}

/// Returns what stands at an offset, and where that is made.
pub fn definitions(settings: &Settings<'_>, offset: usize) -> Option<(Span, Vec<Target>)> {
    let At { path, part, span } = line::at(settings.text, offset)?;
    let path = settings.path(&path);
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    let found = match (&part, &words[..]) {
        // The `model` of a model is what its provider calls it.
        (Part::Value(name), ["agents", _, "model"]) => {
            let keys = ["models".to_owned(), name.clone()];
            let is_known = settings.config.models.contains_key(name);
            is_known.then_some(Target::Config(keys))
        }
        (Part::Value(_), _) => None,
        (_, [kind @ ("envs" | "agents"), name]) => settings.file_of(kind, name).map(Target::File),
        _ => None,
    };
    found.map(|found| (span, vec![found]))
}
