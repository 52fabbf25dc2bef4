//! What an author asks while writing, of the texts as the session knows them.
//!
//! Files are named as people are shown them. Nothing is written, not even what is remembered between runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::change::absolute;
use super::load::Unit;
use super::setting::ENV_TOOLS;
use super::{Explanation, RunOptions, SeedRow, Session, SessionError};
use crate::assist::settings::{self, Settings};
use crate::assist::{
    self, Completion, Hover, Noun, Refused, Replacement, Scene, Symbol, Target, sites,
};
use crate::diagnostic::{Diagnostic, Source, Span};
use crate::engine::Store;
use crate::json::Node;
use crate::plan::{self, TaskInput};
use crate::record::Redactor;
use crate::schedule::Forecasted;
use crate::task::config;
use crate::task::folder::{self, ALIASES, TaskFolder};
use crate::task::parse::{self, Parsed};

/// How many lines of a log are shown beside a step.
const LOG_LINES: usize = 12;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub path: PathBuf,
    /// Its text, where a place in it is known.
    pub source: Option<Source>,
    /// The bytes.
    pub span: Span,
}

/// The edits of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdit {
    /// The file.
    pub path: PathBuf,
    /// Its text, to which the edits belong.
    pub source: Source,
    /// The edits, in the order of the text.
    pub edits: Vec<Replacement>,
}

/// What is known of the result of a step.
#[derive(Clone, Debug)]
pub struct Result {
    /// Whether it is kept, and why not.
    pub explanation: Explanation,
    /// The first lines of what the step printed when it last ran.
    pub log: String,
}

/// A task file and all that is asked about it.
struct Stage {
    at: usize,
    path: PathBuf,
    source: Source,
    parsed: Arc<Parsed>,
    folder: Arc<TaskFolder>,
}

impl Session {
    /// Returns every fault of every task, whether an eval names it or not.
    pub fn check_all(&mut self) -> std::result::Result<Vec<Diagnostic>, SessionError> {
        let mut units = Vec::new();
        for at in 0..self.located.len() {
            let only = self.located[at].only.clone();
            for task in &self.load_folder(at).folder.tasks {
                if only.as_ref().is_none_or(|only| *only == task.name) {
                    units.push(unit(at, &task.name, &task.shown));
                }
            }
        }
        match self.check_units(units, &RunOptions::default()) {
            Ok(faults) | Err(SessionError::Faults(faults)) => Ok(faults),
            Err(other) => Err(other),
        }
    }

    /// Returns the task folders, absolute.
    pub fn task_folders(&self) -> Vec<PathBuf> {
        let here = self.system.current_folder().unwrap_or_default();
        let whole = self.located.iter().filter(|one| one.lone.is_none());
        // `.` goes: paths of editors have none.
        let tidy = |path: PathBuf| {
            path.components()
                .filter(|part| *part != std::path::Component::CurDir)
                .collect()
        };
        whole.map(|one| tidy(here.join(&one.root))).collect()
    }

    /// Returns what may be written at an offset of a task file.
    pub fn complete(&mut self, shown: &str, offset: usize) -> Vec<Completion> {
        let found = self.ask(shown, |scene| assist::complete(scene, offset));
        found.unwrap_or_default()
    }

    /// Returns what stands at an offset of a task file.
    pub fn hover(&mut self, shown: &str, offset: usize) -> Option<Hover> {
        self.ask(shown, |scene| assist::hover(scene, offset))?
    }

    /// Returns what may be written at an offset of `aebuild.toml`, an `env.toml` or an `agent.toml`.
    pub fn complete_settings(&mut self, path: &Path, text: &str, offset: usize) -> Vec<Completion> {
        let found = self.settings(path, text, |settings| settings::complete(settings, offset));
        found.unwrap_or_default()
    }

    /// Returns what stands at an offset of such a file.
    pub fn hover_settings(&mut self, path: &Path, text: &str, offset: usize) -> Option<Hover> {
        self.settings(path, text, |settings| settings::hover(settings, offset))?
    }

    /// Returns where what is named at an offset of such a file is made.
    pub fn definitions_in_settings(
        &mut self,
        path: &Path,
        text: &str,
        offset: usize,
    ) -> Vec<Location> {
        let found = self.settings(path, text, |all| settings::definitions(all, offset));
        let targets = found
            .flatten()
            .map_or_else(Vec::new, |(_, targets)| targets);
        let locations = targets
            .into_iter()
            .filter_map(|target| self.location(target, None));
        locations.collect()
    }

    /// Asks something of a file of settings.
    fn settings<T>(
        &mut self,
        path: &Path,
        text: &str,
        ask: impl FnOnce(&Settings<'_>) -> T,
    ) -> Option<T> {
        let name = path.file_name()?.to_str()?;
        let kind = path
            .parent()?
            .parent()?
            .file_name()
            .and_then(|name| name.to_str());
        let file = match (name, kind) {
            (config::FILE_NAME, _) => settings::File::Config,
            ("env.toml", Some("envs")) => settings::File::Env,
            ("agent.toml", Some("agents")) => settings::File::Agent,
            _ => return None,
        };
        let all = 0..self.located.len();
        let folders: Vec<_> = all.map(|at| self.load_folder(at).folder.clone()).collect();
        let folders: Vec<&TaskFolder> = folders.iter().map(|folder| &**folder).collect();
        Some(ask(&Settings {
            text,
            file,
            folders: &folders,
            config: &self.config,
            types: self.registry,
        }))
    }

    /// Returns where a target is; the task file is given where it may be in one.
    fn location(&self, target: Target, stage: Option<&Stage>) -> Option<Location> {
        match target {
            Target::Here(span) => stage.map(|stage| Location {
                path: stage.path.clone(),
                source: Some(stage.source.clone()),
                span,
            }),
            Target::File(path) => Some(Location {
                path: absolute(self.system.as_ref(), &path),
                source: None,
                span: Span::at(0),
            }),
            Target::Config(keys) => self.table(&keys),
        }
    }

    /// Returns the steps of a task file.
    pub fn symbols(&mut self, shown: &str) -> Vec<Symbol> {
        self.ask(shown, assist::symbols).unwrap_or_default()
    }

    /// Returns what is known of the result of a step; `None` where the task has errors, or no such step.
    pub fn result_of(&mut self, shown: &str, step: &str) -> Option<Result> {
        let (at, name) = self.find_task(shown)?;
        // Another process may have run it meanwhile.
        self.cache.iter().for_each(aebuild_cache::Cache::refresh);
        let isolation = self.isolation("look").ok()?;
        let store = Store::new(self.cache.clone(), true);
        let units = vec![unit(at, &name, shown)];
        let prepared = self.prepare(units, &RunOptions::default(), &store, isolation);
        let (prepared, _) = prepared.ok()?;
        let one = prepared.first()?;
        let at = one.job.plan.position(step)?;
        let explanation = self.explain_one(one, at);
        let kept = match &one.forecast.steps[at.at()] {
            Forecasted::Hit(trace) => Some(trace.clone()),
            _ => one.job.plan.steps[at.at()].previous.clone(),
        };
        let bytes = kept.and_then(|trace| store.log_bytes(&trace.log));
        let secrets = self.secrets();
        let redactor = Redactor::new(secrets.iter().map(String::as_str));
        let bytes = redactor
            .bytes(bytes.as_deref().unwrap_or_default())
            .into_owned();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().take(LOG_LINES).collect();
        Some(Result {
            explanation,
            log: lines.join("\n"),
        })
    }

    /// Returns what stands at an offset of a task file, and where that is made.
    pub fn definitions(&mut self, shown: &str, offset: usize) -> Option<(Span, Vec<Location>)> {
        let stage = self.stage(shown)?;
        let (span, targets) = assist::definitions(&self.scene(&stage), offset)?;
        let locations = targets
            .into_iter()
            .filter_map(|target| self.location(target, Some(&stage)));
        Some((span, locations.collect()))
    }

    /// Returns a table of `aebuild.toml`.
    fn table(&self, keys: &[String; 2]) -> Option<Location> {
        let path = self.workspace.join(config::FILE_NAME);
        let (source, root) = self.toml(&path, config::FILE_NAME)?;
        let member = root.get(&keys[0])?.member(&keys[1])?;
        Some(Location {
            path,
            span: member.key_span,
            source: Some(source),
        })
    }

    fn toml(&self, path: &Path, shown: &str) -> Option<(Source, Node)> {
        let (source, _) = folder::read_source(self.system.as_ref(), path, shown).ok()?;
        let (root, _) = parse::toml::parse(&source);
        Some((source, root))
    }

    /// Returns every place that names what stands at an offset of a task file, in the order of files and texts.
    pub fn references(&mut self, shown: &str, offset: usize, with_makers: bool) -> Vec<Location> {
        let Some(stage) = self.stage(shown) else {
            return Vec::new();
        };
        let scene = self.scene(&stage);
        let names = assist::names_at(&scene, offset);
        let all = sites(&scene);
        let wanted = assist::one_with(&names, &all);
        // What is made in a task is known there only.
        let is_of_folder = |noun: Noun| {
            matches!(
                noun,
                Noun::Env | Noun::AgentFolder | Noun::Artifact | Noun::Model
            )
        };
        let mut shared = wanted.clone();
        shared.retain(|name| is_of_folder(name.noun));
        let mut found = Vec::new();
        let shown_tasks = match shared.is_empty() {
            true => vec![shown.to_owned()],
            false => self.shown_tasks(stage.at),
        };
        for other in shown_tasks {
            let Some(other) = self.stage(&other) else {
                continue;
            };
            let wanted = match other.path == stage.path {
                true => &wanted,
                false => &shared,
            };
            let all = sites(&self.scene(&other)).into_iter();
            let named =
                all.filter(|site| wanted.contains(&site.name) && (with_makers || !site.makes));
            let spans: BTreeSet<Span> = named.map(|site| site.span).collect();
            found.extend(spans.into_iter().map(|span| Location {
                path: other.path.clone(),
                source: Some(other.source.clone()),
                span,
            }));
        }
        found
    }

    fn shown_tasks(&mut self, at: usize) -> Vec<String> {
        let tasks = &self.load_folder(at).folder.tasks;
        tasks.iter().map(|task| task.shown.clone()).collect()
    }

    /// Returns the bytes of the name at an offset of a task file, if it can get another.
    pub fn can_rename(
        &mut self,
        shown: &str,
        offset: usize,
    ) -> std::result::Result<Option<Span>, Refused> {
        self.ask(shown, |scene| assist::is_name(scene, offset))
            .unwrap_or(Ok(None))
    }

    /// Gives what is named at an offset of a task file another name, everywhere in the folder.
    pub fn rename(
        &mut self,
        shown: &str,
        offset: usize,
        to: &str,
    ) -> std::result::Result<Option<Vec<FileEdit>>, Refused> {
        let Some(stage) = self.stage(shown) else {
            return Ok(None);
        };
        let Some(rename) = assist::rename(&self.scene(&stage), offset, to)? else {
            return Ok(None);
        };
        let mut files = vec![FileEdit {
            path: stage.path.clone(),
            source: stage.source.clone(),
            edits: rename.edits.clone(),
        }];
        if !rename.shared.is_empty() {
            for other in self.shown_tasks(stage.at) {
                let Some(other) = self.stage(&other).filter(|other| other.path != stage.path)
                else {
                    continue;
                };
                let edits = rename.edits_of(&self.scene(&other), to);
                files.push(FileEdit {
                    path: other.path,
                    source: other.source,
                    edits,
                });
            }
            files.extend(self.rename_aliases(&stage, &rename.shared, to));
        }
        files.retain(|file| !file.edits.is_empty());
        Ok(Some(files))
    }

    /// Returns the edits of the file of aliases.
    fn rename_aliases(&self, stage: &Stage, names: &[assist::Name], to: &str) -> Option<FileEdit> {
        let path = stage.folder.root.join(ALIASES);
        let (source, root) = self.toml(&path, ALIASES)?;
        let mut spans = BTreeSet::new();
        for name in names {
            let table = match name.noun {
                Noun::Env => "envs",
                _ => "agents",
            };
            let members = root.get(table).and_then(Node::as_object);
            let items = members.into_iter().flatten();
            let items = items.flat_map(|member| member.value.as_array().unwrap_or_default());
            let named = items.filter(|item| item.as_str() == Some(&name.text));
            spans.extend(named.map(|item| item.span));
        }
        let edit = |span| Replacement {
            span,
            // A JSON text is a basic string of TOML too.
            text: crate::json::Value::from(to).to_string(),
        };
        Some(FileEdit {
            path: absolute(self.system.as_ref(), &path),
            edits: spans.into_iter().map(edit).collect(),
            source,
        })
    }

    /// Returns whether a file is a task.
    pub fn is_task(&mut self, shown: &str) -> bool {
        self.find_task(shown).is_some()
    }

    fn find_task(&mut self, shown: &str) -> Option<(usize, String)> {
        (0..self.located.len()).find_map(|at| {
            let tasks = &self.load_folder(at).folder.tasks;
            let task = tasks.iter().find(|task| task.shown == shown)?;
            Some((at, task.name.clone()))
        })
    }

    fn stage(&mut self, shown: &str) -> Option<Stage> {
        let (at, name) = self.find_task(shown)?;
        let folder = self.load_folder(at).folder.clone();
        let entry = folder.tasks.iter().find(|task| task.name == name)?;
        let input: TaskInput = self.load_task(at, entry).ok()?;
        Some(Stage {
            at,
            path: absolute(self.system.as_ref(), &entry.path),
            source: input.source(&self.db).clone(),
            parsed: plan::parsed(&self.db, input).clone(),
            folder,
        })
    }

    fn scene<'a>(&'a self, stage: &'a Stage) -> Scene<'a> {
        Scene {
            source: &stage.source,
            root: stage.parsed.places.root(),
            folder: &stage.folder,
            config: &self.config,
            types: self.registry,
            tools: &ENV_TOOLS,
        }
    }

    fn ask<T>(&mut self, shown: &str, ask: impl FnOnce(&Scene<'_>) -> T) -> Option<T> {
        let stage = self.stage(shown)?;
        Some(ask(&self.scene(&stage)))
    }
}

fn unit(folder: usize, name: &str, shown: &str) -> Unit {
    Unit {
        folder,
        name: name.to_owned(),
        shown: shown.to_owned(),
        seed: SeedRow::default(),
        sample: 0,
    }
}
