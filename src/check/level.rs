//! How much each code counts: what is an error, a warning or a hint, and what `[lint]` makes of it.
//!
//! What keeps a task from running is an error whatever `[lint]` says. A warning or a hint may count more, less or nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::RULES;
use crate::diagnostic::{Diagnostic, Fix, Severity, Source, nearest};
use crate::task::config::{Level, lint_places};

/// What no rule finds and does not keep a task from running.
const MILD: &[(&str, Severity)] = &[
    ("confusable-id", Severity::Warning),
    ("files-differ-in-case", Severity::Warning),
    ("ids-differ-in-case", Severity::Warning),
    ("missing-mount", Severity::Warning),
    ("missing-program", Severity::Hint),
    ("no-container-engine", Severity::Warning),
    ("null-dependency", Severity::Warning),
    ("repeated-dependency", Severity::Warning),
    ("unknown-step", Severity::Warning),
    ("unused-folder", Severity::Hint),
    ("unused-setting", Severity::Hint),
];

/// What no rule finds and keeps a task, or what it names, from being used.
const ERRORS: &str = "\
    bad-alias bad-command-name bad-file-name bad-front-matter bad-id bad-json-path bad-pattern \
    bad-script bad-variable-name broken-link broken-unicode-escape colon-in-array comment \
    conflicting-fields container-needs-docker dependency-cycle duplicate-alias duplicate-id \
    duplicate-key duplicate-task empty-file empty-folder empty-id empty-task file-too-large fixed-level \
    folder-among-tasks forward-dependency id-not-local inner-quote invisible-character link-loop \
    link-outside lone-surrogate loose-file malformed-number mismatched-bracket missing-colon \
    missing-comma missing-field missing-file missing-key missing-value misspelt-literal more-faults \
    name-not-utf-8 names-collide nesting-too-deep network-policy-not-kept no-such-path not-a-file \
    not-a-folder not-a-list not-a-schema not-a-state not-a-task not-a-task-folder not-a-verifier not-an-object not-python \
    not-supported-yet not-toml not-utf-8 number-bare-point number-leading-plus number-leading-zero \
    number-not-decimal number-not-exact number-not-finite number-out-of-range odd-quotes odd-whitespace \
    out-of-range path-with-dots python-syntax raw-control-character reserved-name retry-without-target \
    second-document self-dependency single-quotes store-task too-many-files too-many-members \
    too-many-values trailing-comma trailing-text two-retry-targets unclosed-object unclosed-string \
    unexpected-character unfinished unknown-code unknown-dependency unknown-escape unknown-field \
    unknown-retry-target unknown-task unknown-tool unknown-type unknown-value unopened-bracket unquoted-key \
    unquoted-string unreadable variable-not-allowed wrong-case wrong-length wrong-number-of-files \
    wrong-pattern wrong-type";

/// Every code, with how bad its faults are where nothing else is said.
static LEVELS: LazyLock<BTreeMap<&'static str, Severity>> = LazyLock::new(|| declared().collect());

/// Returns every code as it is declared: one that several rules find is there several times.
fn declared() -> impl Iterator<Item = (&'static str, Severity)> {
    let of_rules = RULES.iter().flat_map(|rule| rule.codes.iter().copied());
    let errors = ERRORS.split_ascii_whitespace();
    of_rules
        .chain(MILD.iter().copied())
        .chain(errors.map(|code| (code, Severity::Error)))
}

/// Returns every code, with how bad its faults are where nothing else is said; sorted.
pub fn codes() -> impl Iterator<Item = (&'static str, Severity)> {
    LEVELS.iter().map(|(code, level)| (*code, *level))
}

/// Returns how bad the faults of a code are where nothing else is said.
pub fn of(code: &str) -> Option<Severity> {
    LEVELS.get(code).copied()
}

/// Gives faults the levels that are set for their codes, and drops those that are off.
pub fn apply(levels: &BTreeMap<String, Level>, faults: &mut Vec<Diagnostic>) {
    if levels.is_empty() {
        return;
    }
    faults.retain_mut(|fault| {
        let Some(level) = levels.get(fault.code.as_str()) else {
            return true;
        };
        if of(fault.code.as_str()) == Some(Severity::Error) {
            return true;
        }
        match level {
            Level::Off => return false,
            Level::At(severity) => fault.severity = *severity,
        }
        true
    });
}

/// Returns what is wrong with the codes that an `aebuild.toml` sets levels of.
pub fn faults(source: &Source, levels: &BTreeMap<String, Level>) -> Vec<Diagnostic> {
    if !source.text.contains("lint") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (code, span) in lint_places(source) {
        match (of(&code), levels.get(&code)) {
            (None, _) => {
                let names = codes().filter(|(_, level)| *level != Severity::Error);
                let near = nearest(&code, names.map(|(name, _)| name));
                let fix = near
                    .map(|near| Fix::offered(format!("write `{near}`")).edit(source, span, near));
                let headline = format!(
                    "`lint` of `{}` sets `{code}`, which is no code",
                    source.name
                );
                faults.push(
                    Diagnostic::error("unknown-code", headline)
                        .primary(source, span, "no fault has this code")
                        .help(match near {
                            Some(near) => format!("did you mean `{near}`?"),
                            None => "delete it".to_owned(),
                        })
                        .fix(fix),
                );
            }
            (Some(Severity::Error), Some(level)) if *level != Level::At(Severity::Error) => {
                let headline = format!(
                    "`lint` of `{}` lowers `{code}`, whose faults keep a task from running",
                    source.name
                );
                faults.push(
                    Diagnostic::error("fixed-level", headline)
                        .primary(source, span, "stays an error")
                        .help("delete it, and mend what the fault shows"),
                );
            }
            _ => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::diagnostic::concise::concise;
    use crate::task::config;

    fn check(text: &str, expected: Expect) {
        let source = Source::new("aebuild.toml", text);
        let (config, mut found) = config::read(&source);
        found.extend(faults(&source, &config.lint));
        let helps = found.iter().filter_map(|fault| fault.help.as_deref());
        let helps: String = helps.map(|help| format!("  help: {help}\n")).collect();
        expected.assert_eq(&format!("{}{helps}", concise(&found)));
    }

    #[test]
    fn a_level_is_set_for_codes_that_exist_and_may_count_less() {
        check(
            "[lint]\nunordered-observer = \"hint\"\nunknown-name = \"error\"\n",
            expect![[""]],
        );
        check(
            "[lint]\nunorderd-observer = \"hint\"\nunknown-name = \"off\"\n",
            expect![[r#"
                aebuild.toml:2:1: error[unknown-code]: `lint` of `aebuild.toml` sets `unorderd-observer`, which is no code
                aebuild.toml:3:1: error[fixed-level]: `lint` of `aebuild.toml` lowers `unknown-name`, whose faults keep a task from running
                  help: did you mean `unordered-observer`?
                  help: delete it, and mend what the fault shows
            "#]],
        );
        check(
            "[lint]\nfoo = \"deny\"\n",
            expect![[r#"
            aebuild.toml:2:7: error[unknown-value]: `lint.foo` of `aebuild.toml` can't be `deny`
            aebuild.toml:2:1: error[unknown-code]: `lint` of `aebuild.toml` sets `foo`, which is no code
              help: write one of `off`, `hint`, `warning`, `error`
              help: delete it
        "#]],
        );
        check(
            "[lint]\nunordered-observer = \"loud\"\n",
            expect![[r#"
            aebuild.toml:2:22: error[unknown-value]: `lint.unordered-observer` of `aebuild.toml` can't be `loud`
              help: write one of `off`, `hint`, `warning`, `error`
        "#]],
        );
    }

    #[test]
    fn every_code_has_one_level() {
        for (code, level) in declared() {
            assert_eq!(of(code), Some(level), "{code}");
        }
    }

    #[test]
    fn faults_get_the_level_of_their_code_and_an_error_stays_one() {
        let mut found = vec![
            Diagnostic::warning("unordered-observer", "a"),
            Diagnostic::warning("null-dependency", "b"),
            Diagnostic::warning("confusable-id", "c"),
            Diagnostic::error("unknown-name", "d"),
        ];
        let levels = [
            ("unordered-observer", Level::At(Severity::Error)),
            ("null-dependency", Level::Off),
            ("confusable-id", Level::At(Severity::Hint)),
            ("unknown-name", Level::Off),
        ];
        let levels = levels.map(|(code, level)| (code.to_owned(), level));
        apply(&levels.into_iter().collect(), &mut found);
        let shown = found.iter().map(|one| (one.code.as_str(), one.severity));
        let shown: Vec<_> = shown.collect();
        assert_eq!(
            shown,
            [
                ("unordered-observer", Severity::Error),
                ("confusable-id", Severity::Hint),
                ("unknown-name", Severity::Error),
            ]
        );
    }
}
