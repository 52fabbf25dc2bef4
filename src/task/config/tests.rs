//! What the settings say, and what is wrong with them.

use super::*;
use crate::diagnostic::concise::concise;
use crate::system::MemorySystem;
use expect_test::{Expect, expect};
use proptest::prelude::*;

/// Returns what a file says, without the file.
fn bare(text: &str) -> (Config, Vec<Diagnostic>) {
    let (mut config, faults) = read(&Source::new("aebuild.toml", text));
    config.written = None;
    (config, faults)
}

fn check(text: &str, expected: Expect) {
    let (_, mut faults) = read(&Source::new("aebuild.toml", text));
    crate::diagnostic::sort(&mut faults);
    let helps = faults.iter().filter_map(|fault| fault.help.as_deref());
    let helps: String = helps.map(|help| format!("  help: {help}\n")).collect();
    expected.assert_eq(&format!("{}{helps}", concise(&faults)));
}

#[test]
fn an_empty_file_is_all_defaults() {
    assert_eq!(bare(""), (Config::default(), vec![]));
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
    let (config, faults) = bare(text);
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
            written: None,
            is_broken: false,
            doubtful: {},
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
              help: write a table
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
    assert_eq!(bare(&text), (Config::default(), vec![]));
}

proptest! {
    #[test]
    fn no_text_panics(text in "(\\[?(cache|run|jobs|score|min)\\]?|[=\n\"'. 0-9\\[\\]{}é])*") {
        read(&Source::new("aebuild.toml", text));
    }
}
