//! Holds the house to its plan: who may import whom, which library lives where, and that everything has its page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use aebuild::json::Value;
use fancy_regex::Regex;

use crate::support::{files, root};

/// A library, and the modules that may name it.
const HOMES: &[(&str, &[&str])] = &[
    ("blake3", &["digest"]),
    ("sha2", &[]),
    (
        "serde_json",
        &[
            "json",
            "record/format",
            "rebuild/format",
            "step.rs",
            "provider/builtin/format",
        ],
    ),
    ("salsa", &["plan"]),
    ("miette", &["diagnostic/render"]),
    ("strsim", &["diagnostic/nearest"]),
    ("tokio::process", &["provider", "plugin"]),
    (
        "tokio",
        &[
            "engine",
            "session",
            "provider",
            "plugin",
            "gateway",
            "model",
            "steps",
            "cli/signals",
        ],
    ),
    ("aebuild_cache", &["engine", "session", "cli/cache"]),
    ("clap", &["cli"]),
    ("indicatif", &["report"]),
    ("csv", &["cli/seeds"]),
    ("toml", &["task"]),
    ("jiff", &["system", "provider/builtin/clock", "task/moment"]),
    (
        "getrandom",
        &["session", "gateway", "provider/a2a", "model"],
    ),
    ("rmcp", &["gateway", "provider"]),
    ("axum", &["gateway"]),
    ("futures_core", &["gateway"]),
    ("reqwest", &["provider", "model"]),
    ("rustls", &["provider", "model"]),
    ("base64", &["gateway", "provider", "steps"]),
    (
        "serde_json_path",
        &[
            "task/script",
            "task/deploy",
            "gateway",
            "provider",
            "steps",
            "engine",
        ],
    ),
    ("rustix", &["system", "provider"]),
    ("schemars", &["step", "steps"]),
    (
        "fancy_regex",
        &["json", "task/script", "task/triggers", "steps"],
    ),
    ("unicode_normalization", &["task"]),
    ("serde_saphyr", &["steps"]),
    ("lsp_server", &["lsp"]),
    ("lsp_types", &["lsp"]),
    ("mimalloc", &["main"]),
];

/// Floor 5 sees these modules of the floors below it; and the ground floor, on which all stand.
const SEEN_BY_FACES: [&str; 4] = ["session", "event", "record", "diagnostic"];
const ROOMS: usize = 3;
const FACES: usize = 5;
const MAX_LINES: usize = 600;

/// A line of the code, without tests and comments.
struct Line {
    file: String,
    at: usize,
    text: String,
}

static CODE: LazyLock<Vec<Line>> = LazyLock::new(|| {
    let mut lines = Vec::new();
    for file in files("src", ".rs") {
        let is_test = file.ends_with("/tests.rs")
            || file.contains("/tests/")
            || file.ends_with("/testing.rs")
            || file.contains("/testing/");
        if is_test {
            continue;
        }
        let text = std::fs::read_to_string(root().join(&file)).expect("it is there");
        let mut is_next_test = false;
        for (at, line) in text.lines().enumerate() {
            // By the style of the house tests are the last thing in a file.
            if line == "#[cfg(test)]" {
                is_next_test = true;
                continue;
            }
            if is_next_test && line.starts_with("mod tests {") {
                break;
            }
            if !is_next_test && !line.trim_start().starts_with("//") {
                lines.push(Line {
                    file: file.clone(),
                    at: at + 1,
                    text: line.to_owned(),
                });
            }
            is_next_test = false;
        }
    }
    lines
});

/// Returns the floor plan: each module with its floor and its place in reading order.
fn floor_plan() -> BTreeMap<String, (usize, usize)> {
    let text = std::fs::read_to_string(root().join("src/lib.rs")).expect("it is there");
    let (mut floor, mut plan) = (0, BTreeMap::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("// ── ") {
            floor = title[..1].parse().expect("a floor has a number");
        }
        if let Some(name) = line
            .strip_prefix("pub mod ")
            .and_then(|rest| rest.strip_suffix(';'))
        {
            plan.insert(name.to_owned(), (floor, plan.len()));
        }
    }
    plan
}

/// Returns the module at the top that a file belongs to; `None` for `lib.rs` and `main.rs`.
fn module_of(file: &str) -> Option<&str> {
    let path = file.strip_prefix("src/")?;
    let name = path.split('/').next()?.trim_end_matches(".rs");
    (name != "lib" && name != "main").then_some(name)
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern")
}

fn all<'t>(pattern: &Regex, text: &'t str) -> Vec<&'t str> {
    let found = pattern.captures_iter(text).flatten();
    found
        .filter_map(|found| found.get(1))
        .map(|group| group.as_str())
        .collect()
}

#[track_caller]
fn none(faults: impl IntoIterator<Item = String>) {
    let faults: BTreeSet<String> = faults.into_iter().collect();
    let all: Vec<String> = faults.into_iter().collect();
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

#[test]
fn no_import_goes_up_or_from_room_to_room() {
    let plan = floor_plan();
    let import = regex(r"\bcrate::(\w+)");
    let group = regex(r"\bcrate::\{([^}]*)");
    let mut faults = Vec::new();
    for line in CODE.iter() {
        let Some(from) = module_of(&line.file) else {
            continue;
        };
        let Some(&(floor, order)) = plan.get(from) else {
            faults.push(format!("{} is not in the floor plan", line.file));
            continue;
        };
        if !line.text.contains("crate::") {
            continue;
        }
        let mut names = all(&import, &line.text);
        let grouped = all(&group, &line.text);
        names.extend(
            grouped
                .iter()
                .flat_map(|names| names.split(','))
                .map(|name| name.trim().split("::").next().unwrap_or_default()),
        );
        for name in names {
            let Some(&(other_floor, other_order)) = plan.get(name) else {
                continue;
            };
            let is_fine = if name == from {
                true
            } else if floor == FACES && other_floor < FACES {
                other_floor == 0 || SEEN_BY_FACES.contains(&name)
            } else if other_floor == floor {
                floor != ROOMS && other_order < order
            } else {
                other_floor < floor
            };
            if !is_fine {
                faults.push(format!(
                    "{}:{}: `{from}` (floor {floor}) imports `{name}` (floor {other_floor})",
                    line.file, line.at
                ));
            }
        }
    }
    none(faults);
}

#[test]
fn each_library_has_a_home() {
    let mut faults = Vec::new();
    for (library, homes) in HOMES {
        let named = regex(&format!(r"(?<![\w:]){library}::|\buse {library}\b"));
        for line in CODE.iter().filter(|line| module_of(&line.file).is_some()) {
            // `tokio::process` has a narrower home than `tokio`.
            let path = &line.file["src/".len()..];
            let is_home = homes.iter().any(|home| {
                let rest = path.strip_prefix(home);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
            });
            if !is_home
                && line.text.contains(library)
                && named.is_match(&line.text).expect("a simple pattern")
            {
                faults.push(format!(
                    "{}:{}: {library} is at home in {homes:?}",
                    line.file, line.at
                ));
            }
        }
    }
    none(faults);
}

#[test]
fn the_world_is_reached_through_the_system() {
    let named = regex(r"\bstd::(?:fs|env::(?!args))\b|\bfs::\w|\bSystemTime\b");
    let inside = |file: &str| file == "src/system.rs" || file.starts_with("src/system/");
    none(
        CODE.iter()
            .filter(|line| !inside(&line.file))
            .filter_map(|line| {
                let is_named = named.is_match(&line.text).expect("a simple pattern");
                // Traits and constants do nothing by themselves.
                let is_fine = ["rustix::fs", "os::unix::fs", "env::split_paths"]
                    .iter()
                    .any(|name| line.text.contains(name));
                (is_named && !is_fine)
                    .then(|| format!("{}:{}: {}", line.file, line.at, line.text.trim()))
            }),
    );
}

#[test]
fn only_formats_and_fields_of_steps_derive_serde() {
    let derive = regex(r"derive\(.*\b(?:Serialize|Deserialize)\b");
    let is_home = |file: &str| {
        file.ends_with("/format.rs")
            || file.ends_with("/protocol.rs")
            || file.starts_with("src/steps/")
    };
    none(
        CODE.iter()
            .filter(|line| !is_home(&line.file))
            .filter_map(|line| {
                let is_derived = derive.is_match(&line.text).expect("a simple pattern");
                is_derived.then(|| format!("{}:{}: {}", line.file, line.at, line.text.trim()))
            }),
    );
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let all = ["src", "cache/src"]
        .into_iter()
        .flat_map(|folder| files(folder, ".rs"));
    none(all.filter_map(|file| {
        let text = std::fs::read_to_string(root().join(&file)).expect("it is there");
        let n = text.lines().count();
        (n > MAX_LINES).then(|| format!("{file}: {n} lines, of at most {MAX_LINES}"))
    }));
}

/// Returns the codes of all diagnostics, as the code names them.
fn codes() -> BTreeSet<String> {
    let made =
        regex(r#"(?s)(?:Diagnostic::(?:error|warning|hint)|Refusal::new|Code)\(\s*"([a-z0-9-]+)""#);
    let mut by_file: BTreeMap<&str, String> = BTreeMap::new();
    for line in CODE.iter() {
        let text = by_file.entry(&line.file).or_default();
        text.push_str(&line.text);
        text.push('\n');
    }
    let mut codes: BTreeSet<String> = BTreeSet::new();
    for text in by_file.values() {
        codes.extend(all(&made, text).into_iter().map(str::to_owned));
    }
    codes.extend(
        aebuild::check::RULES
            .iter()
            .flat_map(|rule| rule.codes)
            .map(|(code, _)| (*code).to_owned()),
    );
    codes
}

#[test]
fn every_diagnostic_has_an_example_and_every_example_a_diagnostic() {
    let codes = codes();
    let pages = files("tasks/errors", "README.md");
    let shown: BTreeSet<String> = pages
        .iter()
        .filter_map(|page| {
            page.strip_prefix("tasks/errors/")?
                .strip_suffix("/README.md")
        })
        .map(str::to_owned)
        .collect();
    let missing = codes
        .difference(&shown)
        .map(|code| format!("tasks/errors/{code} is missing"));
    let text_of_code: String = CODE.iter().map(|line| line.text.as_str()).collect();
    let unknown = shown
        .difference(&codes)
        .filter(|code| !text_of_code.contains(&format!("\"{code}\"")))
        .map(|code| format!("tasks/errors/{code} shows what nothing says"));
    let silent = shown.iter().filter(|code| {
        let page = root().join(format!("tasks/errors/{code}/README.md"));
        !std::fs::read_to_string(page).is_ok_and(|text| {
            text.contains(&format!("[{code}]"))
                || text.replace('\n', " ").contains("There is no example here")
        })
    });
    let silent = silent.map(|code| format!("the page of tasks/errors/{code} does not show it"));
    none(missing.chain(unknown).chain(silent));
}

#[test]
fn every_code_has_a_level() {
    let leveled: BTreeSet<String> = aebuild::session::codes()
        .map(|(code, _)| code.to_owned())
        .collect();
    let shown = files("tasks/errors", "README.md");
    let shown: BTreeSet<String> = shown
        .iter()
        .filter_map(|page| {
            page.strip_prefix("tasks/errors/")?
                .strip_suffix("/README.md")
        })
        .map(str::to_owned)
        .collect();
    let missing = shown.difference(&leveled);
    let unknown = leveled.difference(&shown);
    none(
        missing
            .map(|code| format!("src/check/level.rs does not know `{code}`"))
            .chain(
                unknown
                    .map(|code| format!("src/check/level.rs names `{code}`, which nothing shows")),
            ),
    );
}

#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let summary = std::fs::read_to_string(root().join("book/src/SUMMARY.md")).expect("it is there");
    let pages = files("book/src", ".md")
        .into_iter()
        .filter(|page| !page.ends_with("SUMMARY.md"));
    none(pages.filter_map(|page| {
        let path = page
            .strip_prefix("book/src/")
            .expect("it is in the book")
            .to_owned();
        (!summary.contains(&format!("({path})"))).then(|| format!("{page} is not in the summary"))
    }));
}

#[test]
fn nothing_names_a_place_on_the_machine_of_its_author() {
    let here = root().display().to_string();
    let home = regex(r"/(?:home|Users)/(?!agent\b|user\b|me\b|you\b)[a-z]\w*/");
    let ends = [".rs", ".md", ".toml", ".json", ".sh", ".py", ".csv", "run"];
    let folders = [".ci", "src", "cache", "tests", "benches", "tasks", "book"];
    let all: BTreeSet<String> = folders
        .iter()
        .flat_map(|folder| ends.iter().flat_map(|end| files(folder, end)))
        .chain([
            "README.md".to_owned(),
            "Cargo.toml".to_owned(),
            "clippy.toml".to_owned(),
        ])
        .collect();
    none(all.into_iter().filter_map(|file| {
        let text = std::fs::read_to_string(root().join(&file)).ok()?;
        let is_named = text.contains(&here) || home.is_match(&text).unwrap_or(false);
        is_named.then_some(file)
    }));
}

#[test]
fn every_schema_of_a_step_type_describes_every_field() {
    none(aebuild::steps::REGISTRY.0.iter().flat_map(|step_type| {
        let schema = step_type.schema();
        let fields = schema["properties"].as_object().into_iter().flatten();
        fields.filter_map(|(name, field)| {
            let is_described = field.get("description").is_some_and(Value::is_string);
            (!is_described).then(|| format!("`{}.{name}` has no description", step_type.name))
        })
    }));
}
