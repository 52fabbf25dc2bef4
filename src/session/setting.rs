//! What a session is set to: workspace, configuration, cache, isolation, tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aebuild_cache::{Cache, Durability as CacheDurability, Options};

use super::{RunOptions, Session, SessionError, SessionOptions};
use crate::digest::{Digest, Digester};
use crate::json::Value;
use crate::plan::{self, Database, FileMemo};
use crate::provider::local::{LocalSandboxes, Wanted};
use crate::step::Registry;
use crate::system::{FileKind, Stamp, System};
use crate::task::config::{self, Config, Durability, Isolation};
use crate::task::{folder, model};

/// The folder of aebuild's own files at the workspace root.
pub const STATE_FOLDER: &str = ".aebuild";

/// Where sandboxes look for programs.
const SANDBOX_PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Returns the workspace in which runs were recorded: the nearest folder, from `path` or else the current one upwards, that
/// has some. What is there now, such as a broken `aebuild.toml`, does not matter.
pub fn recorded_workspace(system: &dyn System, path: Option<&Path>) -> Option<PathBuf> {
    let here = match path {
        Some(path) => path.to_path_buf(),
        None => system.current_folder().ok()?,
    };
    let here = system.canonical(&here).ok()?;
    let has_runs = |folder: &&Path| {
        let runs = folder.join(STATE_FOLDER).join("runs");
        system.metadata(&runs).is_ok()
    };
    here.ancestors().find(has_runs).map(Path::to_path_buf)
}

impl Session {
    /// Opens task folders: finds them, reads the configuration, opens the cache.
    pub fn open(
        system: Arc<dyn System>,
        registry: Registry,
        options: SessionOptions,
    ) -> Result<Session, SessionError> {
        let (located, faults) = folder::locate(system.as_ref(), &options.paths);
        if !faults.is_empty() {
            return Err(SessionError::Faults(faults));
        }
        Self::open_located(system, registry, options, located)
    }

    /// Opens the cache that holds for the current folder, which need be no task folder.
    pub fn open_for_cache(
        system: Arc<dyn System>,
        registry: Registry,
        options: SessionOptions,
    ) -> Result<Session, SessionError> {
        Self::open_located(system, registry, options, Vec::new())
    }

    fn open_located(
        system: Arc<dyn System>,
        registry: Registry,
        options: SessionOptions,
        located: Vec<folder::Located>,
    ) -> Result<Session, SessionError> {
        let first = located
            .first()
            .map_or_else(|| PathBuf::from("."), |one| one.root.clone());
        let first = system.canonical(&first).unwrap_or(first);
        let (workspace, config, warnings, config_digest) =
            read_config(system.as_ref(), &first, &options, &located)?;
        let mut session = Session {
            db: Database::new(registry),
            kept: super::kept::Kept::default(),
            memo: FileMemo::default(),
            grammar: super::inspect::Grammar::default(),
            setting: None,
            folders: BTreeMap::new(),
            cache: None,
            cache_error: None,
            system,
            registry,
            options,
            located,
            workspace,
            config,
            config_digest,
            warnings,
        };
        session.check_types()?;
        if !session.options.no_cache {
            session.open_cache();
        }
        let path = session.state_folder().join("kept");
        session.kept = super::kept::Kept::read(session.system.as_ref(), &path);
        session.memo = session.kept.memo();
        Ok(session)
    }

    /// Refuses a type that the configuration names and that is not there: a slip would keep what must not be kept.
    fn check_types(&self) -> Result<(), SessionError> {
        let names: Vec<&str> = self.registry.0.iter().map(|known| known.name).collect();
        let unknown = |name: &&String| self.registry.find(name).is_none();
        let Some(name) = self.config.determinism.types.keys().find(unknown) else {
            return Ok(());
        };
        let near = crate::diagnostic::nearest(name, names);
        Err(SessionError::Usage {
            message: format!(
                "`determinism.types` of aebuild.toml names `{name}`, which is no step type"
            ),
            help: near.map(|near| format!("did you mean `{near}`?")),
        })
    }

    /// Returns the workspace root: where `aebuild.toml` is, else the folder that was named.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the warnings about the configuration.
    pub fn warnings(&self) -> &[crate::diagnostic::Diagnostic] {
        &self.warnings
    }

    /// Returns the cache.
    pub fn cache(&self) -> Result<&Cache, SessionError> {
        self.cache.as_ref().ok_or_else(|| {
            let why = self.cache_error.clone();
            SessionError::World(why.unwrap_or_else(|| "`--no-cache` was given".to_owned()))
        })
    }

    /// Returns the bytes of a log; `None` where the cache has lost them.
    pub fn log_bytes(&self, log: &crate::rebuild::Log) -> Option<Vec<u8>> {
        crate::engine::Store::new(self.cache.clone(), true).log_bytes(log)
    }

    /// Returns the folder of aebuild's own files in the workspace.
    pub fn state_folder(&self) -> PathBuf {
        self.workspace.join(STATE_FOLDER)
    }

    pub(super) fn live_folder(&self) -> PathBuf {
        self.state_folder().join("live")
    }

    fn open_cache(&mut self) {
        let Some(dir) = self.cache_dir() else {
            self.cache_error = Some(
                "there is no cache folder: HOME is not set; give --cache-dir or set AEBUILD_CACHE_DIR"
                    .to_owned(),
            );
            return;
        };
        let chosen = &self.config.cache;
        let options = Options {
            durability: match chosen.durability {
                Durability::Durable => CacheDurability::Durable,
                Durability::Fast => CacheDurability::Fast,
            },
            size_limit: Some((chosen.size_limit_gb * 1e9) as u64),
            max_age: Some(Duration::from_secs(u64::from(chosen.max_age_days) * 86_400)),
            ..Options::default()
        };
        match Cache::open(&dir, options) {
            Ok(cache) => self.cache = Some(cache),
            Err(error) => self.cache_error = Some(error.to_string()),
        }
    }

    fn cache_dir(&self) -> Option<PathBuf> {
        let variable = |name| self.system.variable(name).filter(|value| !value.is_empty());
        let here = |path: PathBuf| match self.system.current_folder() {
            Ok(folder) => folder.join(path),
            Err(_) => path,
        };
        if let Some(dir) = &self.options.cache_dir {
            return Some(here(dir.clone()));
        }
        if let Some(dir) = variable("AEBUILD_CACHE_DIR") {
            return Some(here(PathBuf::from(dir)));
        }
        if let Some(dir) = &self.config.cache.dir {
            return Some(self.workspace.join(dir));
        }
        let base = variable("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")));
        base.map(|base| base.join("aebuild"))
    }

    fn wanted(&self) -> Wanted {
        match self.config.sandbox.isolation {
            Isolation::Auto => Wanted::Auto,
            Isolation::Bubblewrap => Wanted::Bubblewrap,
            Isolation::None => Wanted::None,
        }
    }

    pub(super) fn live_settings(&self, run: &str, keep: bool) -> crate::engine::LiveSettings {
        crate::engine::LiveSettings {
            folder: self.live_folder(),
            run: run.to_owned(),
            wanted: self.wanted(),
            keep,
            passed: self.passed_variables(),
            secrets: self.secrets(),
            workspace: self.workspace.clone(),
            python_packages: self.config.python_packages.clone(),
        }
    }

    /// Returns the variables of this machine that the configuration passes on, as far as they are set.
    pub fn passed_variables(&self) -> Vec<(String, String)> {
        let names = self.config.sandbox.pass_variables.iter();
        names
            .filter_map(|name| Some((name.clone(), self.system.variable(name)?)))
            .collect()
    }

    /// Returns the names of all variables of this machine that a task can see.
    fn passed_names(&self) -> Vec<String> {
        let tables = self.config.envs.values().chain(self.config.agents.values());
        let of_tables = tables.flat_map(|table| {
            let names = table.get("pass_variables").and_then(Value::as_array);
            names.into_iter().flatten().filter_map(Value::as_str)
        });
        let of_sandboxes = self.config.sandbox.pass_variables.iter();
        let all = of_sandboxes.map(String::as_str).chain(of_tables);
        all.map(str::to_owned).collect()
    }

    /// Returns the names of all variables of this machine that decide what steps give: those that a task can see, and those
    /// that say how models are reached.
    pub(super) fn deciding_names(&self) -> Vec<String> {
        let of_models = model::VARIABLES.into_iter().map(str::to_owned);
        let mut names: Vec<String> = self.passed_names().into_iter().chain(of_models).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the values that must not be written anywhere: what is passed on, and what may be a key.
    pub fn secrets(&self) -> Vec<String> {
        // An agent in a folder may ask a model of which the configuration says nothing.
        let keys = model::key_variables(&self.config.models);
        let names = self.passed_names().into_iter().chain(keys);
        let values = names.filter_map(|name| self.system.variable(&name));
        // An address may hold a password.
        let tables = self.config.envs.values().chain(self.config.agents.values());
        let urls = tables.filter_map(|table| table.get("url")?.as_str().map(str::to_owned));
        let bases = model::VARIABLES.into_iter();
        let bases = bases.filter_map(|name| self.system.variable(name));
        let passwords = urls
            .chain(bases)
            .filter_map(|url| Some(model::password_of(&url)?.to_owned()));
        let mut values: Vec<String> = values.chain(passwords).collect();
        values.sort();
        values.dedup();
        values
    }

    /// Returns how models are asked.
    pub(super) fn model_settings(&self, options: &RunOptions) -> crate::model::Settings {
        crate::model::Settings {
            tables: self.config.models.clone(),
            limits: crate::model::Limits {
                max_cost_usd: options.max_cost_usd,
                max_tokens: options.max_tokens,
            },
            ask_anew: options.ask_models_anew,
        }
    }

    /// Returns how sandboxes are walled off here; found out once and kept with the stamp of the program.
    pub(super) fn isolation(&mut self, run: &str) -> Result<&'static str, SessionError> {
        if self.wanted() == Wanted::None {
            return Ok("none");
        }
        let program = find_program(self.system.as_ref(), "bwrap");
        let wanted = format!("isolation {:?}", self.wanted());
        if let Some(known) = self.kept.tool(&wanted, program.as_ref()) {
            return Ok(if known == "bubblewrap" {
                "bubblewrap"
            } else {
                "none"
            });
        }
        // Not in the workspace: a plan needs no leave to write there.
        let temp = self.system.variable("TMPDIR").filter(|dir| !dir.is_empty());
        let temp = PathBuf::from(temp.unwrap_or_else(|| "/tmp".to_owned()));
        let temp = temp.join(format!("aebuild-trial-{run}"));
        let made = LocalSandboxes::new(temp.clone(), run, self.wanted())
            .map_err(|error| SessionError::World(error.to_string()))?;
        let isolation = match made.isolation() {
            crate::step::sandbox::Isolation::Bubblewrap => "bubblewrap",
            _ => "none",
        };
        let closed = super::run::runtime()?.block_on(made.close());
        closed.map_err(|error| SessionError::World(error.to_string()))?;
        // What is left of it is an empty folder in the way of nobody.
        let _ = crate::system::disk::remove_dir_all(&temp);
        self.kept.set_tool(&wanted, program, isolation);
        Ok(isolation)
    }

    /// Returns the versions of tools that steps run; asked once and kept with the stamps of the programs.
    pub(super) fn tools(&mut self, names: &[&'static str]) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for &name in names {
            let program = find_program(self.system.as_ref(), name);
            // What its programs import is as much a part of it as its version.
            let packages = &self.config.python_packages;
            let with = match packages.is_empty() || name != "python3" {
                true => String::new(),
                false => format!(" with {}", packages.join(", ")),
            };
            let version = match self.kept.tool(name, program.as_ref()) {
                Some(known) => known,
                None => {
                    let version = match &program {
                        None => "absent".to_owned(),
                        Some((path, _)) => match self.system.output_of(path, &["--version"]) {
                            Ok(text) => text.trim().to_owned(),
                            Err(_) => "unknown".to_owned(),
                        },
                    };
                    self.kept.set_tool(name, program, &version);
                    version
                }
            };
            versions.insert(plan::alone(name), version.clone());
            versions.insert(name.to_owned(), version + &with);
        }
        versions
    }
}

/// The programs whose versions are in keys.
pub(super) const TOOLS: [&str; 1] = ["python3"];

/// Finds a program where sandboxes look for it.
pub(super) fn find_program(system: &dyn System, name: &str) -> Option<(PathBuf, Stamp)> {
    SANDBOX_PATH
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find_map(|path| {
            let metadata = system.metadata(&path).ok()?;
            (metadata.kind == FileKind::File && metadata.executable)
                .then_some((path, metadata.stamp))
        })
}

type Configured = (PathBuf, Config, Vec<crate::diagnostic::Diagnostic>, Digest);

fn read_config(
    system: &dyn System,
    first: &Path,
    options: &SessionOptions,
    located: &[folder::Located],
) -> Result<Configured, SessionError> {
    let mut digester = Digester::new("config");
    let Some(path) = config::find(system, first) else {
        let named = match &options.paths[..] {
            [one] if located.len() > 1 => system.canonical(one).ok(),
            _ => None,
        };
        let named = named.unwrap_or_else(|| first.to_path_buf());
        // Runs belong to where the user works, if that holds what was named.
        let here = system
            .current_folder()
            .and_then(|here| system.canonical(&here))
            .ok();
        let workspace = here.filter(|here| named.starts_with(here)).unwrap_or(named);
        return Ok((workspace, Config::default(), Vec::new(), digester.finish()));
    };
    let shown = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let shown = shown.unwrap_or_else(|| config::FILE_NAME.to_owned());
    let bytes = system
        .read(&path, folder::MAX_FILE_BYTES)
        .map_err(|error| SessionError::World(format!("`{shown}` cannot be read: {error}")))?;
    digester.bytes(&bytes);
    let (source, mut faults) = crate::diagnostic::Source::from_bytes(&shown, &bytes);
    let (config, more) = config::read(&source);
    faults.extend(more);
    faults.extend(crate::check::level::faults(&source, &config.lint));
    if faults.iter().any(crate::diagnostic::Diagnostic::is_error) {
        return Err(SessionError::Faults(faults));
    }
    let workspace = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    Ok((workspace, config, faults, digester.finish()))
}
