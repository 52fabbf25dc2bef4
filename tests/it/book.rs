//! The reference part of the book is made from the code. `UPDATE_EXPECT=1` writes it.

use std::collections::BTreeSet;

use aebuild::json::Value;
use aebuild::provider::builtin;
use aebuild::task::config::KEYS;
use aebuild::{cli, steps};

use crate::support::{check_file, files, is_update, root};

const NOTE: &str = "<!-- Made from the code by `UPDATE_EXPECT=1 cargo test book`. -->\n\n";

#[test]
fn the_reference_is_what_the_code_says() {
    let mut pages = vec![
        ("reference/command-line.md".to_owned(), command_line()),
        ("reference/configuration.md".to_owned(), configuration()),
        ("reference/errors.md".to_owned(), errors()),
    ];
    for step_type in steps::REGISTRY.0 {
        let path = format!("reference/steps/{}.md", step_type.name);
        let fields = fields(step_type.schema());
        let page = format!(
            "# `{}`\n\n{NOTE}{}\n{fields}",
            step_type.name,
            step_type.page_text()
        );
        pages.push((path, page));
    }
    for name in builtin::names() {
        pages.push((format!("reference/envs/{name}.md"), env(name)));
    }
    for name in examples() {
        let page = format!("{{{{#include ../../../tasks/{name}/README.md}}}}\n");
        pages.push((format!("examples/{name}.md"), page));
    }
    pages.push(("SUMMARY.md".to_owned(), summary()));
    let made: BTreeSet<String> = pages
        .iter()
        .map(|(path, _)| format!("book/src/{path}"))
        .collect();
    let mut faults: Vec<String> = pages
        .iter()
        .filter_map(|(path, text)| check_file(&format!("book/src/{path}"), text).err())
        .collect();
    for folder in ["book/src/reference", "book/src/examples"] {
        for page in files(folder, ".md") {
            if made.contains(&page) {
                continue;
            }
            if is_update() {
                std::fs::remove_file(root().join(&page)).expect("it goes");
            } else {
                faults.push(format!("{page} is about something that is no more"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_pages_of_codes_are_those_of_the_examples() {
    let pages = files("tasks/errors", "README.md");
    let pages = pages.iter().map(|page| {
        let code = page
            .strip_prefix("tasks/errors/")
            .and_then(|page| page.strip_suffix("/README.md"));
        let text = std::fs::read_to_string(root().join(page)).expect("it is there");
        (code.expect("it is a page of a code").to_owned(), text)
    });
    let mut pages: Vec<(String, String)> = pages.collect();
    pages.sort();
    let pages = pages.iter().map(|(code, text)| (&**code, &**text));
    let made = aebuild::diagnostic::joined_pages(pages);
    check_file("src/diagnostic/pages.md", &made).expect("`UPDATE_EXPECT=1` writes it");
}

fn examples() -> Vec<String> {
    let pages = files("tasks", "README.md");
    let names = pages
        .iter()
        .filter_map(|page| page.strip_prefix("tasks/")?.strip_suffix("/README.md"));
    names
        .filter(|name| !name.starts_with("errors/"))
        .map(str::to_owned)
        .collect()
}

/// Returns the title of a page of the repository.
fn title(page: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).unwrap_or_default();
    let title = text.lines().find_map(|line| line.strip_prefix("# "));
    title.unwrap_or("(a page without a title)").to_owned()
}

/// Returns the summary: the chapters in order, each with its pages.
fn summary() -> String {
    const PARTS: [(&str, &str, &[&str]); 3] = [
        (
            "Use",
            "use",
            &[
                "start",
                "folders",
                "authoring",
                "run",
                "watch",
                "editors",
                "why",
                "retries",
                "samples",
                "scores",
                "sandboxes",
                "envs",
                "agents",
                "models",
                "cache",
                "records",
            ],
        ),
        (
            "How it works",
            "works",
            &["line", "laws", "keys", "house", "files"],
        ),
        (
            "Words",
            "words",
            &[
                "step-id",
                "output",
                "context",
                "lookup",
                "fingerprint",
                "trace",
                "verify",
                "dirty-reason",
                "early-cutoff",
                "deferred",
                "provision",
                "version",
                "group",
                "pool",
                "retry-span",
                "sample",
                "record",
            ],
        ),
    ];
    let mut text = "# Summary\n\n[aebuild](README.md)\n".to_owned();
    let mut add = |part: &str, pages: &[String]| {
        text.push_str(&format!("\n# {part}\n\n"));
        for page in pages {
            text.push_str(&format!(
                "- [{}]({page})\n",
                title(&format!("book/src/{page}"))
            ));
        }
    };
    for (part, folder, pages) in PARTS {
        let pages: Vec<String> = pages
            .iter()
            .map(|page| format!("{folder}/{page}.md"))
            .collect();
        add(part, &pages);
    }
    add("Measured", &["performance.md".to_owned()]);
    let mut reference = "\n# Reference\n\n- [Command line](reference/command-line.md)\n\
                         - [Configuration](reference/configuration.md)\n"
        .to_owned();
    for step_type in steps::REGISTRY.0 {
        let name = step_type.name;
        reference.push_str(&format!("- [`{name}`](reference/steps/{name}.md)\n"));
    }
    for name in builtin::names() {
        reference.push_str(&format!("- [Env `{name}`](reference/envs/{name}.md)\n"));
    }
    reference.push_str("- [Error index](reference/errors.md)\n\n# Examples\n\n");
    for name in examples() {
        let title = title(&format!("tasks/{name}/README.md"));
        reference.push_str(&format!("- [{title}](examples/{name}.md)\n"));
    }
    text + &reference
}

fn command_line() -> String {
    let mut text = format!("# Command line\n\n{NOTE}");
    let mut open = vec![(String::new(), cli::command().term_width(100))];
    while let Some((above, mut command)) = open.pop() {
        let name = format!("{above} {}", command.get_name())
            .trim_start()
            .to_owned();
        let help = command.render_long_help().to_string();
        let help: String = help
            .lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect();
        let help = help.replacen(
            &format!("Usage: {}", command.get_name()),
            &format!("Usage: {name}"),
            1,
        );
        text.push_str(&format!(
            "## {name}\n\n```text\n{}\n```\n\n",
            help.trim_end()
        ));
        let below: Vec<_> = command
            .get_subcommands()
            .filter(|one| one.get_name() != "help")
            .cloned()
            .collect();
        open.extend(
            below
                .into_iter()
                .rev()
                .map(|one| (name.clone(), one.term_width(100))),
        );
    }
    format!("{}\n", text.trim_end())
}

fn configuration() -> String {
    let mut text = format!(
        "# Configuration\n\n{NOTE}`aebuild.toml` lies at the root of a workspace or above it. Every key may be left \
         out. A key that is not in this list is refused.\n"
    );
    for key in KEYS {
        let default = match key.default {
            "" => "none".to_owned(),
            default => format!("`{default}`"),
        };
        text.push_str(&format!(
            "\n## `{}`\n\n{}\n\n- Value: {}\n- Default: {default}\n",
            key.path,
            key.doc,
            key.kind.words()
        ));
    }
    text
}

/// Returns the page of an env that is compiled in: what its file says, and its tools.
fn env(name: &str) -> String {
    let doc = builtin::page(name).expect("it is there");
    let doc = doc.lines().map_while(|line| line.strip_prefix("//!"));
    let doc = doc.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)));
    let mut text = format!(
        "# `{name}`\n\n{NOTE}{}\n## Tools\n\n| Tool | What it does | Effect |\n|---|---|---|\n",
        doc.collect::<String>()
    );
    let mut details = String::new();
    for tool in builtin::tools(name).expect("it is there") {
        let called = tool["name"].as_str().unwrap_or_default();
        let does = tool["description"].as_str().unwrap_or_default();
        let hints = &tool["annotations"];
        let effect = if hints["readOnlyHint"] == true {
            "looks"
        } else if hints["destructiveHint"] == true {
            "takes away"
        } else if hints["idempotentHint"] == true {
            "sets"
        } else {
            "adds"
        };
        text.push_str(&format!("| `{called}` | {does} | {effect} |\n"));
        details.push_str(&format!("\n### `{called}`\n\n"));
        let schema = &tool["inputSchema"];
        if schema["properties"]
            .as_object()
            .is_none_or(|all| all.is_empty())
        {
            details.push_str("It takes no arguments.\n");
        }
        write_fields(&mut details, schema, 0);
    }
    text + &details
}

fn errors() -> String {
    let mut text = format!(
        "# Error index\n\n{NOTE}What aebuild finds wrong, by code, each with an input that shows it.\n"
    );
    for page in files("tasks/errors", "README.md") {
        text.push_str(&format!("\n{{{{#include ../../../{page}}}}}\n"));
    }
    text
}

/// Returns the fields of a step type as a list, as its schema describes them.
fn fields(schema: &Value) -> String {
    let mut text = "## Fields\n\n".to_owned();
    write_fields(&mut text, schema, 0);
    text.push_str("\nEvery step also has `id`, `type`, `depends_on`, `fail_task_on_error` and `retry_config`.\n");
    text
}

fn write_fields(text: &mut String, schema: &Value, depth: usize) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let mut facts = vec![kind(field)];
        if required.contains(&Value::String(name.clone())) {
            facts.push("required".to_owned());
        }
        if let Some(default) = field.get("default").filter(|default| !default.is_null()) {
            facts.push(format!("default `{default}`"));
        }
        let doc = field["description"]
            .as_str()
            .unwrap_or_default()
            .replace('\n', " ");
        let indent = "  ".repeat(depth);
        text.push_str(&format!(
            "{indent}- `{name}` ({}): {doc}\n",
            facts.join(", ")
        ));
        for inner in [field, &field["items"]] {
            if inner.get("properties").is_some() && depth < 3 {
                write_fields(text, inner, depth + 1);
            }
        }
    }
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        return format!("one of {}", values.join(", "));
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array) {
            let kinds: Vec<String> = choices.iter().map(kind).collect();
            return kinds.join(" or ");
        }
    }
    let of_items = || schema.get("items").map_or("values".to_owned(), kind);
    match &schema["type"] {
        Value::String(one) if one == "array" => format!("list of {}", of_items()),
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            let names: Vec<&str> = several.iter().filter_map(Value::as_str).collect();
            match names[..] {
                ["array", "null"] => format!("list of {}, or null", of_items()),
                _ => names.join(" or "),
            }
        }
        _ => "any value".to_owned(),
    }
}
