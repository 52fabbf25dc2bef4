//! What a session is set to: workspace, configuration, cache, isolation, tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aebuild_cache::{Cache, Durability as CacheDurability, Options};

use super::load::Unit;
use super::{RunOptions, Session, SessionError, SessionOptions};
use crate::check::EnvTools;
use crate::diagnostic::Diagnostic;
use crate::digest::{Digest, Digester};
use crate::json::Value;
use crate::plan::{self, Database, FileMemo, Setter as _, Setting, SettingInput};
use crate::provider::builtin;
use crate::provider::local::{LocalSandboxes, Wanted};
use crate::step::Registry;
use crate::system::{FileKind, Stamp, System};
use crate::task::config::{self, Config, Durability, Isolation};
use crate::task::overrides::Overrides;
use crate::task::{folder, model};

/// The folder of aebuild's own files at the workspace root.
pub const STATE_FOLDER: &str = ".aebuild";

/// The tools of the envs that are compiled in.
pub(super) static ENV_TOOLS: LazyLock<Arc<EnvTools>> = LazyLock::new(|| {
    let names = builtin::names().into_iter();
    let each = names.filter_map(|name| Some((name.to_owned(), builtin::tools(name)?)));
    Arc::new(each.collect())
});

/// How many settings are kept apart.
const MAX_SETTINGS: usize = 4;

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
        let session = Self::open_located(system, registry, options, Vec::new())?;
        session.refuse_faults()?;
        Ok(session)
    }

    /// Returns what is at fault with the configuration, where that stops everything.
    pub(super) fn refuse_faults(&self) -> Result<(), SessionError> {
        match self.faults.iter().any(Diagnostic::is_error) {
            true => Err(SessionError::Faults(self.faults.clone())),
            false => Ok(()),
        }
    }

    fn open_located(
        system: Arc<dyn System>,
        registry: Registry,
        options: SessionOptions,
        located: Vec<folder::Located>,
    ) -> Result<Session, SessionError> {
        let found = read_config(system.as_ref(), &options, &located)?;
        let mut session = Session {
            db: Database::new(registry),
            kept: super::kept::Kept::default(),
            memo: FileMemo::default(),
            settings: Vec::new(),
            grammar: super::inspect::Grammar::default(),
            folders: BTreeMap::new(),
            looked: Default::default(),
            warm: None,
            cache: None,
            cache_error: None,
            system,
            registry,
            options,
            located,
            workspace: found.workspace,
            config: found.config,
            config_digest: found.digest,
            faults: found.faults,
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
        let faults = config::check_types(&self.config, &names);
        match faults.is_empty() {
            true => Ok(()),
            false => Err(SessionError::Faults(faults)),
        }
    }

    /// Returns the workspace root: where `aebuild.toml` is, else the folder that was named.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
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

    pub(super) fn cache_dir(&self) -> Option<PathBuf> {
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
        let closed = super::held::runtime()?.block_on(made.close());
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

    /// Returns what a unit's steps see of the run, without what only some steps need.
    pub(super) fn overrides(&self, unit: &Unit, options: &RunOptions) -> Overrides {
        Overrides {
            seed: unit.seed.values.clone(),
            user: options.user_overrides.clone(),
            sample: unit.sample,
        }
    }

    /// Returns the digest of all that a unit's results depend on besides its files.
    pub(super) fn setting_digest(&self, overrides: &Overrides, isolation: &str) -> Digest {
        let mut digester = Digester::new("setting");
        digester
            .text(env!("CARGO_PKG_VERSION"))
            .digest(&self.config_digest)
            .text(isolation);
        for (key, value) in &overrides.seed {
            digester.text(key).text(value);
        }
        digester.value(&crate::json::Value::Object(overrides.user.clone()));
        digester.number(overrides.sample.into());
        for step_type in self.registry.0 {
            digester
                .text(step_type.name)
                .number(step_type.version.into());
        }
        for name in self.deciding_names() {
            let value = self.system.variable(&name);
            digester
                .text(&name)
                .maybe(value.map(|v| Digest::of_bytes(v.as_bytes())).as_ref());
        }
        for name in TOOLS {
            // Another program may be another version, which is asked where a plan needs it.
            let program = find_program(self.system.as_ref(), name);
            digester.text(&format!("{name} {program:?}"));
        }
        digester.finish()
    }

    /// Returns the input of a setting. A check, a plan and a run take turns in a session that stays open; what follows from
    /// the setting of one is not lost to the other.
    pub(super) fn setting_input(&mut self, setting: Setting) -> SettingInput {
        let same = |input: &SettingInput| **input.setting(&self.db) == setting;
        if let Some(at) = self.settings.iter().position(same) {
            let input = self.settings.remove(at);
            self.settings.push(input);
            if *input.written(&self.db) != self.config.written {
                let written = self.config.written.clone();
                input.set_written(&mut self.db).to(written);
            }
            return input;
        }
        let setting = Arc::new(setting);
        let written = self.config.written.clone();
        let input = match self.settings.len() < MAX_SETTINGS {
            true => SettingInput::at_rest(&self.db, setting, written),
            false => {
                let input = self.settings.remove(0);
                self.looked.clear();
                input.set_setting(&mut self.db).to(setting);
                input.set_written(&mut self.db).to(written);
                input
            }
        };
        self.settings.push(input);
        input
    }

    /// Returns what a run is set to, but for the versions of tools.
    pub(super) fn new_setting(&self, overrides: Overrides, isolation: &'static str) -> Setting {
        let variables = self.deciding_names().into_iter();
        let variables = variables.map(|name| {
            let value = self.system.variable(&name);
            (name, value)
        });
        Setting {
            overrides,
            config: self.config.unwritten(),
            isolation,
            tools: BTreeMap::new(),
            variables: variables.collect(),
            env_tools: ENV_TOOLS.clone(),
        }
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

/// What holds for a workspace.
pub(super) struct Configured {
    pub(super) workspace: PathBuf,
    pub(super) config: Config,
    pub(super) faults: Vec<Diagnostic>,
    pub(super) digest: Digest,
}

/// Finds out which workspace what was named is in, and what its configuration says.
pub(super) fn read_config(
    system: &dyn System,
    options: &SessionOptions,
    located: &[folder::Located],
) -> Result<Configured, SessionError> {
    let first = located
        .first()
        .map_or_else(|| PathBuf::from("."), |one| one.root.clone());
    let first = system.canonical(&first).unwrap_or(first);
    let mut digester = Digester::new("config");
    let Some(path) = config::find(system, &first) else {
        let named = match &options.paths[..] {
            [one] if located.len() > 1 => system.canonical(one).ok(),
            _ => None,
        };
        let named = named.unwrap_or(first);
        // Runs belong to where the user works, if that holds what was named.
        let here = system
            .current_folder()
            .and_then(|here| system.canonical(&here))
            .ok();
        let workspace = here.filter(|here| named.starts_with(here)).unwrap_or(named);
        return Ok(Configured {
            workspace,
            config: Config::default(),
            faults: Vec::new(),
            digest: digester.finish(),
        });
    };
    let shown = config::shown(system, &path);
    let (config, faults) = match folder::read_source(system, &path, &shown) {
        Ok((source, mut faults)) => {
            digester.bytes(source.text.as_bytes());
            let (config, more) = config::read(&source);
            faults.extend(more);
            faults.extend(crate::check::level::faults(&source, &config.lint));
            faults.extend(crate::check::secret::faults(&source));
            (config, faults)
        }
        Err(fault) => (Config::default(), vec![fault]),
    };
    let workspace = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    Ok(Configured {
        workspace,
        config,
        faults,
        digest: digester.finish(),
    })
}
