//! The settings of a workspace: `aebuild.toml`, at the root of the workspace or above it.
//!
//! Every key is described once, in [`KEYS`]: its page in the book, the check of its value and its nearest name come from
//! there.

mod keys;
mod level;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::model;
use super::parse::{hide, toml};
use crate::diagnostic::{Diagnostic, Source};
use crate::json::{Node, Value};
use crate::system::{FileKind, System};
use crate::task::Determinism;

pub use keys::{KEYS, KeyDoc, KeyKind, schema as keys_schema};
pub use level::{Level, lint_places};

/// The name of the file.
pub const FILE_NAME: &str = "aebuild.toml";

/// The settings of a workspace.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Config {
    /// Where results are kept, and for how long.
    pub cache: CacheConfig,
    /// How runs go.
    pub run: RunConfig,
    /// How commands are kept apart from the machine.
    pub sandbox: SandboxConfig,
    /// How long to wait before a retry.
    pub retry: RetryDelays,
    /// When a score is good enough.
    pub score: ScoreConfig,
    /// Which steps are taken to give the same result again.
    pub determinism: DeterminismConfig,
    /// For each code of `[lint]`, how much it counts.
    pub lint: BTreeMap<String, Level>,
    /// Packages that verifiers in Python find.
    pub python_packages: Vec<String>,
    /// For each env of `[envs.<name>]`, what is said of it.
    pub envs: BTreeMap<String, Value>,
    /// For each agent of `[agents.<name>]`, what is said of it.
    pub agents: BTreeMap<String, Value>,
    /// For each model of `[models.<name>]`, how it is reached.
    pub models: BTreeMap<String, Value>,
}

/// `[cache]`.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheConfig {
    /// The folder, relative to the file's own.
    pub dir: Option<String>,
    /// The size beyond which the least used results are removed, in GB.
    pub size_limit_gb: f64,
    /// The days after which an unused result is removed.
    pub max_age_days: u32,
    /// How sure it is that a stored result outlives a power cut.
    pub durability: Durability,
}

/// How sure it is that a stored result outlives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// A result counts as stored once the disk has it.
    #[default]
    Durable,
    /// The system writes when it likes; a result that is lost is made again.
    Fast,
}

/// `[run]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConfig {
    /// How many steps run at once; two more than there are processors where it is not set.
    pub jobs: Option<u32>,
    /// How many prompts run at once.
    pub prompt_jobs: Option<u32>,
    /// How many tasks run at once.
    pub task_jobs: u32,
    /// The time after which a step is stopped, in seconds.
    pub step_timeout_seconds: Option<u64>,
    /// How many run records are kept.
    pub keep_runs: u32,
}

/// `[sandbox]`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SandboxConfig {
    /// How commands are isolated.
    pub isolation: Isolation,
    /// Environment variables of this machine that commands see.
    pub pass_variables: Vec<String>,
}

/// How commands are isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// With bubblewrap where it works, else not.
    #[default]
    Auto,
    /// With bubblewrap, or not at all run.
    Bubblewrap,
    /// Not.
    None,
}

/// `[retry]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryDelays {
    /// The wait before the first retry, in seconds.
    pub backoff_seconds: f64,
    /// By how much each further wait is longer.
    pub backoff_factor: f64,
    /// The longest wait, in seconds.
    pub max_backoff_seconds: f64,
}

/// `[score]`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ScoreConfig {
    /// The least score with which a run passes, where it is asked for.
    pub min: Option<f64>,
}

/// `[determinism]`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeterminismConfig {
    /// By step type.
    pub types: BTreeMap<String, Determinism>,
    /// By `<task>/<step>`, or by `<step>` in any task.
    pub steps: BTreeMap<String, Determinism>,
}

impl DeterminismConfig {
    /// Returns what is set for a step: its own entry counts most, then that of its type.
    pub fn of(&self, task: &str, step: &str, kind: &str) -> Option<Determinism> {
        let own = self
            .steps
            .get(&format!("{task}/{step}"))
            .or_else(|| self.steps.get(step));
        own.or_else(|| self.types.get(kind)).copied()
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        let durability = Durability::default();
        CacheConfig {
            dir: None,
            size_limit_gb: 20.0,
            max_age_days: 30,
            durability,
        }
    }
}

impl Default for RunConfig {
    fn default() -> Self {
        RunConfig {
            jobs: None,
            prompt_jobs: None,
            task_jobs: 4,
            step_timeout_seconds: None,
            keep_runs: 50,
        }
    }
}

impl Default for RetryDelays {
    fn default() -> Self {
        RetryDelays {
            backoff_seconds: 0.0,
            backoff_factor: 2.0,
            max_backoff_seconds: 60.0,
        }
    }
}

/// Finds the file that holds for a folder: the nearest, in the folder itself or above it.
pub fn find(system: &dyn System, from: &Path) -> Option<PathBuf> {
    let from = system.canonical(from).ok()?;
    let mut files = from.ancestors().map(|folder| folder.join(FILE_NAME));
    files.find(|file| {
        system
            .metadata(file)
            .is_ok_and(|found| found.kind != FileKind::Folder)
    })
}

/// Reads the settings; where a value is at fault its default stands.
pub fn read(source: &Source) -> (Config, Vec<Diagnostic>) {
    let (root, mut faults) = toml::parse(source);
    faults.extend(toml::check(
        &root,
        keys_schema(),
        source,
        &format!("`{}`", source.name),
    ));
    faults.extend(passwords(&root, source));
    hide::hide(source, &mut faults);
    let at = |table: &str, key: &str| root.get(table).and_then(|table| table.get(key));
    let mut config = Config::default();
    if faults.iter().any(Diagnostic::is_error) {
        return (config, faults);
    }
    let text = |table, key| at(table, key).and_then(Node::as_str);
    let number = |table, key, value: &mut f64| {
        if let Some(written) = at(table, key).and_then(Node::as_f64) {
            *value = written;
        }
    };
    let whole = |table, key| at(table, key).and_then(Node::as_u64);
    let count = |table, key| whole(table, key).and_then(|n| u32::try_from(n).ok());
    config.cache.dir = text("cache", "dir").map(str::to_owned);
    number("cache", "size_limit_gb", &mut config.cache.size_limit_gb);
    config.cache.max_age_days = count("cache", "max_age_days").unwrap_or(config.cache.max_age_days);
    if text("cache", "durability") == Some("fast") {
        config.cache.durability = Durability::Fast;
    }
    config.run.jobs = count("run", "jobs");
    config.run.prompt_jobs = count("run", "prompt_jobs");
    config.run.task_jobs = count("run", "task_jobs").unwrap_or(config.run.task_jobs);
    config.run.step_timeout_seconds = whole("run", "step_timeout_seconds");
    config.run.keep_runs = count("run", "keep_runs").unwrap_or(config.run.keep_runs);
    config.sandbox.isolation = match text("sandbox", "isolation") {
        Some("bubblewrap") => Isolation::Bubblewrap,
        Some("none") => Isolation::None,
        _ => Isolation::Auto,
    };
    let names = at("sandbox", "pass_variables")
        .and_then(Node::as_array)
        .unwrap_or_default();
    config.sandbox.pass_variables = names
        .iter()
        .filter_map(Node::as_str)
        .map(str::to_owned)
        .collect();
    number(
        "retry",
        "backoff_seconds",
        &mut config.retry.backoff_seconds,
    );
    number("retry", "backoff_factor", &mut config.retry.backoff_factor);
    number(
        "retry",
        "max_backoff_seconds",
        &mut config.retry.max_backoff_seconds,
    );
    config.score.min = at("score", "min").and_then(Node::as_f64);
    config.lint = level::levels(root.get("lint"));
    config.determinism.types = determinism(at("determinism", "types"));
    config.determinism.steps = determinism(at("determinism", "steps"));
    let packages = at("python", "packages").and_then(Node::as_array);
    config.python_packages = packages
        .into_iter()
        .flatten()
        .filter_map(|package| package.as_str().map(str::to_owned))
        .collect();
    let tables = |name: &str| -> BTreeMap<String, Value> {
        let tables = root.get(name).and_then(Node::as_object);
        tables
            .into_iter()
            .flatten()
            .map(|member| (member.key.clone(), member.value.to_value()))
            .collect()
    };
    config.envs = tables("envs");
    config.agents = tables("agents");
    config.models = tables("models");
    (config, faults)
}

/// Refuses the passwords in the addresses of models.
fn passwords(root: &Node, source: &Source) -> Vec<Diagnostic> {
    let tables = root.get("models").and_then(Node::as_object);
    let each = tables.unwrap_or_default().iter().filter_map(|table| {
        let url = table.value.get("base_url")?;
        model::user_of(url.as_str()?)?;
        let headline = format!(
            "`models.{}.base_url` of `{}` holds a password or a key",
            table.key, source.name
        );
        let fault = Diagnostic::error("wrong-pattern", headline)
            .primary(source, url.span, "what stands before `@`")
            .help("put the key into an environment variable, name that with `key_variable`, and delete what stands before `@`");
        Some(fault)
    });
    each.collect()
}

fn determinism(table: Option<&Node>) -> BTreeMap<String, Determinism> {
    let members = table.and_then(Node::as_object).unwrap_or_default();
    let each = members.iter().filter_map(|member| {
        let value = match member.value.as_str()? {
            "pure" => Determinism::Pure,
            "sampled" => Determinism::Sampled,
            "volatile" => Determinism::Volatile,
            _ => return None,
        };
        Some((member.key.clone(), value))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::concise::concise;
    use crate::system::MemorySystem;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(text: &str, expected: Expect) {
        let (_, mut faults) = read(&Source::new("aebuild.toml", text));
        crate::diagnostic::sort(&mut faults);
        let helps = faults.iter().filter_map(|fault| fault.help.as_deref());
        let helps: String = helps.map(|help| format!("  help: {help}\n")).collect();
        expected.assert_eq(&format!("{}{helps}", concise(&faults)));
    }

    #[test]
    fn an_empty_file_is_all_defaults() {
        assert_eq!(
            read(&Source::new("aebuild.toml", "")),
            (Config::default(), vec![])
        );
    }

    #[test]
    fn every_key_is_read() {
        let text = r#"
            [cache]
            dir = "c"
            size_limit_gb = 2
            max_age_days = 7
            durability = "fast"
            [run]
            jobs = 3
            prompt_jobs = 20
            task_jobs = 2
            step_timeout_seconds = 60
            keep_runs = 5
            [sandbox]
            isolation = "none"
            pass_variables = ["HOME", "LANG"]
            [retry]
            backoff_seconds = 0.5
            backoff_factor = 3
            max_backoff_seconds = 9.5
            [score]
            min = 0.5
            [determinism.types]
            run_code = "sampled"
            [determinism.steps]
            "t/a" = "volatile"
            b = "pure"
            [lint]
            made-up = "off"
            unordered-observer = "error"
            [python]
            packages = ["mcp<2"]
            [envs.email]
            builtin = "mail"
        "#;
        let (config, faults) = read(&Source::new("aebuild.toml", text));
        assert_eq!(faults, []);
        expect![[r#"
            Config {
                cache: CacheConfig {
                    dir: Some(
                        "c",
                    ),
                    size_limit_gb: 2.0,
                    max_age_days: 7,
                    durability: Fast,
                },
                run: RunConfig {
                    jobs: Some(
                        3,
                    ),
                    prompt_jobs: Some(
                        20,
                    ),
                    task_jobs: 2,
                    step_timeout_seconds: Some(
                        60,
                    ),
                    keep_runs: 5,
                },
                sandbox: SandboxConfig {
                    isolation: None,
                    pass_variables: [
                        "HOME",
                        "LANG",
                    ],
                },
                retry: RetryDelays {
                    backoff_seconds: 0.5,
                    backoff_factor: 3.0,
                    max_backoff_seconds: 9.5,
                },
                score: ScoreConfig {
                    min: Some(
                        0.5,
                    ),
                },
                determinism: DeterminismConfig {
                    types: {
                        "run_code": Sampled,
                    },
                    steps: {
                        "b": Pure,
                        "t/a": Volatile,
                    },
                },
                lint: {
                    "made-up": Off,
                    "unordered-observer": At(
                        Error,
                    ),
                },
                python_packages: [
                    "mcp<2",
                ],
                envs: {
                    "email": Object {
                        "builtin": String("mail"),
                    },
                },
                agents: {},
                models: {},
            }
        "#]]
        .assert_debug_eq(&config);
        let of = |task, step, kind| config.determinism.of(task, step, kind);
        assert_eq!(of("t", "a", "run_code"), Some(Determinism::Volatile));
        assert_eq!(of("u", "a", "run_code"), Some(Determinism::Sampled));
        assert_eq!(of("u", "b", "run_code"), Some(Determinism::Pure));
        assert_eq!(of("u", "c", "x"), None);
    }

    #[test]
    fn unknown_keys_wrong_types_and_ranges_are_refused_at_once() {
        check(
            "[cach]\n[cache]\nsize_limit_gb = \"20\"\ndurabilty = \"fast\"\n[run]\njobs = 0\ntask_jobs = 1.5\n\
             [sandbox]\nisolation = \"bubblewarp\"\npass_variables = [\"A=B\", \"\", 1]\n[score]\nmin = 2\n\
             [determinism.types]\nrun_code = \"random\"\n",
            expect![[r#"
                aebuild.toml:1:2: error[unknown-field]: `aebuild.toml` has no key `cach`
                aebuild.toml:3:17: error[wrong-type]: `cache.size_limit_gb` of `aebuild.toml` is a string, not a number from 0.001 to 1000000
                aebuild.toml:4:1: error[unknown-field]: `cache` of `aebuild.toml` has no key `durabilty`
                aebuild.toml:6:8: error[out-of-range]: `run.jobs` of `aebuild.toml` is 0, but must be from 1 to 1024
                aebuild.toml:7:13: error[wrong-type]: `run.task_jobs` of `aebuild.toml` is the number 1.5, not a whole number from 1 to 1024
                aebuild.toml:9:13: error[unknown-value]: `sandbox.isolation` of `aebuild.toml` can't be `bubblewarp`
                aebuild.toml:10:19: error[wrong-pattern]: `sandbox.pass_variables[0]` of `aebuild.toml` can't be `A=B`
                aebuild.toml:10:26: error[wrong-pattern]: `sandbox.pass_variables[1]` of `aebuild.toml` can't be ``
                aebuild.toml:10:30: error[wrong-type]: `sandbox.pass_variables[2]` of `aebuild.toml` is a number, not a string
                aebuild.toml:12:7: error[out-of-range]: `score.min` of `aebuild.toml` is 2, but must be from 0 to 1
                aebuild.toml:14:12: error[unknown-value]: `determinism.types.run_code` of `aebuild.toml` can't be `random`
                  help: did you mean `cache`, which is there already? delete one of them
                  help: delete the quotes
                  help: did you mean `durability`?
                  help: write a number from 1 to 1024
                  help: round it to a whole number
                  help: did you mean `bubblewrap`?
                  help: write a text that matches the pattern ^[A-Za-z_][A-Za-z0-9_]*$
                  help: write a text that matches the pattern ^[A-Za-z_][A-Za-z0-9_]*$
                  help: write it in double quotes
                  help: write a number from 0 to 1
                  help: write one of `pure`, `sampled`, `volatile`
            "#]],
        );
    }

    #[test]
    fn a_key_that_is_written_into_the_file_is_refused_and_not_shown() {
        let text = "[models.m]\nkey_variable = \"sk-ant-abc-123\"\nkey = \"sk-ant-abc-123\"\n\
                    base_url = \"http://me:sk-ant-abc-123@h\"\napi_key = sk-ant-abc-123\n";
        let (_, faults) = read(&Source::new("aebuild.toml", text));
        let shown = format!("{faults:?}");
        for label in faults.iter().flat_map(|fault| &fault.labels) {
            assert!(
                !label.source.text.contains("sk-ant"),
                "{}",
                label.source.text
            );
        }
        assert!(!shown.contains("sk-ant"), "{shown}");
        check(
            "[models.m]\nkey_variable = \"sk-ant-abc-123\"\nkey = \"sk-ant-abc-123\"\n\
             base_url = \"http://me:sk-ant-abc-123@h\"\n",
            expect![[r#"
                aebuild.toml:2:16: error[wrong-pattern]: `models.m.key_variable` of `aebuild.toml` can't be what is written there
                aebuild.toml:3:1: error[unknown-field]: `models.m` of `aebuild.toml` has no key `key`
                aebuild.toml:4:12: error[wrong-pattern]: `models.m.base_url` of `aebuild.toml` holds a password or a key
                  help: write the name of the environment variable that holds the key, not the key
                  help: the keys are `api`, `base_url`, `input_price_per_mtok`, `key_variable`, `max_concurrent`, `max_output_tokens`, `max_retries`, `model`, `output_price_per_mtok`, `timeout_seconds`
                  help: put the key into an environment variable, name that with `key_variable`, and delete what stands before `@`
            "#]],
        );
    }

    #[test]
    fn tables_written_twice_and_broken_text_are_refused() {
        check(
            "[run]\njobs = 1\n[run]\njobs = 2\n",
            expect![[r#"
            aebuild.toml:3:2: error[duplicate-key]: key `run` is written twice in one table
            aebuild.toml:4:1: error[duplicate-key]: key `jobs` is written twice in one table
              help: delete one of them
              help: delete one of them
        "#]],
        );
        check(
            "[run\n",
            expect![[r#"
            aebuild.toml:1:5: error[not-toml]: `aebuild.toml` is not TOML: unclosed table, expected `]`
        "#]],
        );
        check(
            "run = 1\n",
            expect![[r#"
                aebuild.toml:1:7: error[wrong-type]: `run` of `aebuild.toml` is a number, not a table
            "#]],
        );
    }

    #[test]
    fn the_nearest_file_counts() {
        let system = MemorySystem::new();
        system.write("/w/aebuild.toml", "");
        system.write("/w/a/b/tasks/t.json", "[]");
        assert_eq!(
            find(&system, Path::new("/w/a/b")),
            Some(PathBuf::from("/w/aebuild.toml"))
        );
        system.write("/w/a/aebuild.toml", "");
        assert_eq!(
            find(&system, Path::new("/w/a/b")),
            Some(PathBuf::from("/w/a/aebuild.toml"))
        );
    }

    #[test]
    fn the_defaults_in_the_book_are_the_defaults_in_the_code() {
        let text: String = KEYS
            .iter()
            .filter(|key| !key.default.is_empty() && !key.path.contains('*'))
            .map(|key| format!("{} = {}\n", key.path, key.default))
            .collect();
        let (config, faults) = read(&Source::new("aebuild.toml", text));
        assert_eq!(faults, []);
        assert_eq!(config, Config::default());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\[?(cache|run|jobs|score|min)\\]?|[=\n\"'. 0-9\\[\\]{}é])*") {
            read(&Source::new("aebuild.toml", text));
        }
    }
}
