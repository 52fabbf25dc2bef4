//! Envs and agents of a task folder, and the aliases of both.

use std::path::Path;
use std::sync::Arc;

use super::content;
use super::entry::{Entry, Reader};
use super::settings::{Settings, table, text, texts};
use super::{ALIASES, Definition, suggest};
use crate::diagnostic::Diagnostic;
use crate::json::{Map, Node, Value, json};
use crate::system::FileKind;
use crate::task::config::keys_schema;
use crate::task::deploy::{AGENT_KINDS, agent_keys};
use crate::task::parse::Written;
use crate::task::parse::hide::{covered, hide};
use crate::task::script::{self, Script};

impl Reader<'_> {
    /// Reads `envs/` or `agents/`.
    pub fn definitions(&mut self, kind: &'static str) {
        let noun = if kind == "envs" { "env" } else { "agent" };
        for entry in self.kind_sub_folders(kind, noun) {
            let shown = self.folder.shown_path(&format!("{kind}/{}", entry.name));
            self.definition(kind, entry, &shown);
        }
    }

    /// Reads the folder of one env or agent.
    pub fn definition(&mut self, kind: &'static str, entry: Entry, shown: &str) {
        let (noun, default) = match kind {
            "envs" => ("env", "mcp_server"),
            _ => ("agent", "a2a_agent"),
        };
        let file = definition_file(kind);
        let content = content::of_entry(self.system, &self.real_root, &entry, shown, file);
        self.folder.listings.extend(content.listings);
        if content.is_empty {
            return self.empty(shown);
        }
        let at = format!("{noun} `{}`", entry.name);
        let n_faults_before = self.faults.len();
        let settings = self.settings(&entry.path.join(file), &format!("{shown}/{file}"));
        let is_whole = settings.as_ref().is_none_or(|settings| settings.is_whole);
        let has = |path: &str| content.files.iter().any(|file| file.path == path);
        let says_rules = settings
            .as_ref()
            .is_some_and(|settings| settings.node.get("rules").is_some());
        let script = match kind == "agents" && has(SCRIPT) && !says_rules {
            true => self.script(&entry.path.join(SCRIPT), &format!("{shown}/{SCRIPT}"), &at),
            false => None,
        };
        // A file that cannot be read is there all the same, and so is one behind a link that is at fault.
        let is_there = self.system.link_metadata(&entry.path.join(file)).is_ok();
        let is_told = is_there || has("Dockerfile") || has(SCRIPT) || !content.faults.is_empty();
        let declared = settings.as_ref().and_then(|settings| settings.text("type"));
        let default = if script.is_some() {
            "scripted"
        } else {
            default
        };
        let declared = declared.unwrap_or(default).to_owned();
        let told = match (kind, &settings) {
            ("agents", Some(settings)) if is_whole => {
                self.type_at_fault(settings, script.is_some(), &at)
            }
            _ => None,
        };
        let declared = told.unwrap_or(declared);
        let mut id = None;
        if let Some(settings) = &settings {
            let n_faults = self.faults.len();
            self.check_settings(settings, &keys(kind, &declared), &at);
            self.say_whose_keys(n_faults, kind, &declared, &at);
            let is_script = kind == "agents" && declared == "scripted";
            if is_script && is_whole {
                self.check_script(settings, &at);
            }
            id = self.declared_id(settings, &at);
            if !is_script {
                hide(&settings.source, &mut self.faults[n_faults_before..]);
            }
        }
        let is_doubtful = settings.is_none() && is_there
            || self.faults[n_faults_before..]
                .iter()
                .any(Diagnostic::is_error);
        let written = |settings: &Settings| {
            Arc::new(Written {
                source: covered(&settings.source),
                node: settings.node.clone(),
            })
        };
        let definition = Definition {
            name: entry.name.clone(),
            id: self.id_of(id.as_deref(), &entry.name),
            kind: declared,
            folder: entry.path,
            files: content.files,
            written: settings.as_ref().map(written),
            script: script.as_ref().map(|script| {
                Arc::new(Written {
                    source: script.source.clone(),
                    node: script.node.clone(),
                })
            }),
            is_told,
            is_doubtful,
            settings: joined(settings, script),
            faults: content.faults,
        };
        let all = if kind == "envs" {
            &mut self.folder.envs
        } else {
            &mut self.folder.agents
        };
        all.insert(entry.name, definition);
    }

    /// Tells of a type that is misspelt or missing, and returns the one that is meant.
    fn type_at_fault(&mut self, settings: &Settings, has_script: bool, at: &str) -> Option<String> {
        let (fault, meant) = match settings.node.get("type") {
            Some(written) => {
                let kind = written.as_str()?;
                let known: Vec<&str> = AGENT_KINDS.iter().copied().chain(["a2a_agent"]).collect();
                if known.contains(&kind) {
                    return None;
                }
                // A table of `aebuild.toml` may say how one of another type is run.
                let meant = crate::diagnostic::nearest(kind, known)?;
                let headline = format!("`type` of {at} can't be `{kind}`");
                let fault = Diagnostic::error("unknown-value", headline)
                    .primary(&settings.source, written.span, "no type of agents")
                    .help(format!("did you mean `{meant}`?"));
                (fault, meant)
            }
            None if has_script => return None,
            None => {
                let implied = [
                    ("rules", "scripted"),
                    ("model", "model"),
                    ("url", "a2a"),
                    ("command", "command"),
                ];
                let says = |(key, kind)| Some((settings.node.member(key)?, kind));
                let (member, meant) = implied.into_iter().find_map(says)?;
                let headline = format!("the type of {at} is missing");
                let fault = Diagnostic::error("missing-field", headline)
                    .primary(&settings.source, member.key_span, "which type takes this?")
                    .help(format!("add type = \"{meant}\" at the top"));
                (fault, meant)
            }
        };
        self.faults.push(fault);
        Some(meant.to_owned())
    }

    /// Says of a key that the type does not have which type does have it.
    fn say_whose_keys(&mut self, from: usize, kind: &str, declared: &str, at: &str) {
        if kind != "agents" {
            return;
        }
        for fault in &mut self.faults[from..] {
            let key = fault.place().map(|label| label.source.slice(label.span));
            let Some(key) = key.map(str::to_owned) else {
                continue;
            };
            if fault.code.as_str() != "unknown-field"
                || fault.headline != format!("{at} has no key `{key}`")
            {
                continue;
            }
            if key == "pass_variables" {
                // Which variables of a machine a folder may see is said by who runs it.
                let help = "delete it here, and write it into [agents.<name>] of aebuild.toml";
                fault.help = Some(help.to_owned());
                continue;
            }
            if let Some(words) = kinds_with(&key, declared) {
                fault.headline =
                    format!("`{key}` is a key of {words}, and {at} is of type `{declared}`");
                fault.help = Some(format!("delete `{key}`, or write another `type`"));
            }
        }
    }

    /// Reads the script of an agent that stands in a file of its own.
    fn script(&mut self, path: &Path, shown: &str, at: &str) -> Option<Settings> {
        let source = self.source(path, shown)?;
        let parsed = crate::json::parse(&source);
        let is_whole = parsed.faults.iter().all(|fault| !fault.is_error());
        self.faults.extend(parsed.faults);
        let node = parsed.root?;
        let settings = Settings {
            source,
            node,
            is_whole,
        };
        if is_whole {
            let source = &settings.source;
            let faults = crate::json::schema::check(&settings.node, &script::schema(), source, at);
            self.faults.extend(faults);
            self.check_script(&settings, at);
        }
        Some(settings)
    }

    /// Checks what a script says beyond its keys and types; it may stand in a file of its own too.
    fn check_script(&mut self, settings: &Settings, at: &str) {
        if settings.node.member("rules").is_none() {
            return;
        }
        let written = Written {
            source: settings.source.clone(),
            node: settings.node.clone(),
        };
        let faults = Script::read(&settings.value()).err().unwrap_or_default();
        for fault in faults.iter().filter(|fault| !fault.is_form) {
            let span = written.span(&fault.pointer);
            let fault = Diagnostic::error("bad-script", format!("the script of {at}: {fault}"))
                .primary(&settings.source, span, "")
                .help("see the page about scripted agents in the book");
            self.faults.push(fault);
        }
    }

    /// Reads `aliases.toml`.
    pub fn aliases(&mut self) {
        let Some(path) = self.aliases_file.take() else {
            return;
        };
        let shown = self.folder.shown_path(ALIASES);
        if self
            .system
            .link_metadata(&path)
            .is_ok_and(|found| found.kind != FileKind::File)
        {
            self.fault(
                "not-a-file",
                format!("`{shown}` must be a regular file"),
                "replace it by a file",
            );
            return;
        }
        let Some(settings) = self.settings(&path, &shown) else {
            return;
        };
        let names = json!({"type": "object", "additionalProperties": texts()});
        let keys = table(&[], &[("agents", names.clone()), ("envs", names)]);
        self.check_settings(&settings, &keys, &format!("`{shown}`"));
        for kind in ["agents", "envs"] {
            let members = settings
                .node
                .get(kind)
                .and_then(Node::as_object)
                .unwrap_or_default();
            for member in members {
                let all = if kind == "envs" {
                    &self.folder.envs
                } else {
                    &self.folder.agents
                };
                if !all.contains_key(&member.key) {
                    let headline = format!(
                        "`{shown}` names `{}`, but there is no folder {kind}/{0}",
                        member.key
                    );
                    let fault = Diagnostic::error("unknown-name", headline)
                        .primary(&settings.source, member.key_span, "no such folder")
                        .help(suggest(&member.key, all.keys().map(String::as_str)));
                    self.faults.push(fault);
                }
                for item in member.value.as_array().unwrap_or_default() {
                    let Some(alias) = item.as_str() else { continue };
                    let aliases = &mut self.folder.aliases;
                    let aliases = if kind == "envs" {
                        &mut aliases.envs
                    } else {
                        &mut aliases.agents
                    };
                    let is_good = (1..=64).contains(&alias.len())
                        && alias
                            .chars()
                            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
                    let (code, headline, help) = if !is_good {
                        (
                            "bad-alias",
                            format!("`{alias}` is no alias"),
                            "use 1 to 64 lower-case letters, digits and `-`",
                        )
                    } else if let Some(other) = aliases.insert(alias.to_owned(), member.key.clone())
                    {
                        let headline = format!(
                            "alias `{alias}` is given to `{other}` and to `{}`",
                            member.key
                        );
                        ("duplicate-alias", headline, "delete one of them")
                    } else {
                        continue;
                    };
                    self.faults.push(
                        Diagnostic::error(code, headline)
                            .primary(&settings.source, item.span, "")
                            .help(help),
                    );
                }
            }
        }
    }
}

/// The file in which the script of an agent may stand.
const SCRIPT: &str = "script.json";

/// Names the types of agents that have a key which another type does not have.
fn kinds_with(key: &str, declared: &str) -> Option<String> {
    let kinds: Vec<String> = AGENT_KINDS
        .iter()
        .filter(|kind| **kind != declared && agent_keys(kind).contains(&key))
        .map(|kind| format!("`{kind}`"))
        .collect();
    match &kinds[..] {
        [] => None,
        [one] => Some(format!("type {one}")),
        _ => Some(format!("types {}", kinds.join(" and "))),
    }
}

/// Returns what the file of an agent and its script say together.
fn joined(settings: Option<Settings>, script: Option<Settings>) -> Value {
    let mut all = Map::new();
    for said in settings.into_iter().chain(script) {
        if let Value::Object(members) = said.value() {
            all.extend(members);
        }
    }
    Value::Object(all)
}

/// Adds the keys that a table of `aebuild.toml` may have: how it is run may be said here as well.
fn add_said(own: &mut Value, tables: &str) {
    let said = keys_schema().pointer(&format!(
        "/properties/{tables}/additionalProperties/properties"
    ));
    if let (Some(Value::Object(own)), Some(Value::Object(said))) = (own.get_mut("properties"), said)
    {
        // Which variables of a machine a folder may see is said by who runs it.
        let said = said.iter().filter(|(key, _)| *key != "pass_variables");
        for (key, schema) in said {
            own.entry(key.clone()).or_insert_with(|| schema.clone());
        }
    }
}

/// Returns the schema of `env.toml` or `agent.toml` for a type; a type that a plugin defines has any keys.
fn keys(folder: &str, kind: &str) -> Value {
    let image = ("image", json!({"type": ["string", "object"]}));
    let common = [("type", text()), ("id", text()), ("image", image.1.clone())];
    let with = |more: &[(&'static str, Value)]| [&common[..], more].concat();
    match (folder, kind) {
        ("envs", "mcp_server") => {
            let mut own = table(
                &[],
                &with(&[("environment_name", text()), ("env_provider_type", text())]),
            );
            add_said(&mut own, "envs");
            own
        }
        ("envs", "multi_env") => table(
            &[],
            &with(&[
                ("mcp_server_envs", texts()),
                ("website_envs", texts()),
                ("name", json!({"type": "string", "pattern": r"^\S+$"})),
                ("env_provider_type", text()),
            ]),
        ),
        ("envs", "website") => table(
            &[],
            &with(&[
                ("backend_image", image.1.clone()),
                ("frontend_image", image.1),
                ("environment_name", text()),
                ("env_provider_type", text()),
            ]),
        ),
        ("agents", "a2a_agent") => table(
            &[],
            &with(&[
                (
                    "default_env_vars",
                    json!({"type": "object", "additionalProperties": {"type": "string"}}),
                ),
                (
                    "metadata",
                    table(
                        &[],
                        &[
                            ("default_model", text()),
                            ("min_disk_size_gb", json!({"type": "number", "minimum": 0})),
                            ("takes_credentials", json!({"type": "boolean"})),
                        ],
                    ),
                ),
            ]),
        ),
        ("agents", "scripted") => script::schema(),
        ("agents", "model" | "command" | "a2a") => {
            let mut own = table(&[], &with(&[("description", text())]));
            add_said(&mut own, "agents");
            let takes = agent_keys(kind);
            if let Some(Value::Object(own)) = own.get_mut("properties") {
                own.retain(|key, _| {
                    matches!(key.as_str(), "type" | "id" | "description" | "image")
                        || takes.contains(&key.as_str())
                });
            }
            own
        }
        _ => json!({"type": "object", "properties": {"type": text(), "id": text()}}),
    }
}

/// Returns the name of the file that says what an env or agent is; `kind` is the folder that all of its kind are in.
pub fn definition_file(kind: &str) -> &'static str {
    match kind {
        "envs" => "env.toml",
        _ => "agent.toml",
    }
}

/// Returns the schema of `env.toml` or `agent.toml`, by `envs` or `agents`: the keys that the type takes.
pub fn definition_schema(folder: &str) -> Value {
    let (kinds, without): (Vec<&str>, &[&str]) = match folder {
        "envs" => (vec!["mcp_server", "multi_env", "website"], &["mcp_server"]),
        // A script beside the file says the type too.
        _ => (
            AGENT_KINDS.iter().copied().chain(["a2a_agent"]).collect(),
            &["a2a_agent", "scripted"],
        ),
    };
    let mut definitions = Map::new();
    let mut choices = Vec::new();
    for kind in &kinds {
        definitions.insert((*kind).to_owned(), keys(folder, kind));
        choices.push(json!({
            "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
            "then": {"$ref": format!("#/definitions/{kind}")},
        }));
    }
    let without: Vec<Value> = without
        .iter()
        .map(|kind| json!({"$ref": format!("#/definitions/{kind}")}))
        .collect();
    choices.push(json!({"if": {"not": {"required": ["type"]}}, "then": {"anyOf": without}}));
    json!({
        "type": "object",
        "properties": {
            "type": {"anyOf": [{"enum": kinds}, {"type": "string"}], "description": "What it is; it says which keys there are."},
            "id": {"type": "string", "description": "Its id in contexts, where that is not the name of the folder."},
        },
        "allOf": choices,
        "definitions": definitions,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::read;
    use crate::diagnostic::concise::concise;
    use crate::system::MemorySystem;
    use expect_test::{Expect, expect};

    fn check(agent: &str, expected: Expect) {
        let system = MemorySystem::new();
        system.write("/w/f/tasks/t.json", "[]");
        system.write("/w/f/agents/bot/agent.toml", agent);
        let (_, faults) = read(&system, Path::new("/w/f"), "f");
        let helps = faults.iter().filter_map(|fault| fault.help.as_deref());
        let helps: String = helps.map(|help| format!("  help: {help}\n")).collect();
        expected.assert_eq(&format!("{}{helps}", concise(&faults)));
    }

    #[test]
    fn a_type_that_is_misspelt_or_missing_is_told_where_it_is() {
        check(
            "type = \"scritped\"\n[[rules]]\nreply = \"x\"\n",
            expect![[r#"
                f/agents/bot/agent.toml:1:8: error[unknown-value]: `type` of agent `bot` can't be `scritped`
                  help: did you mean `scripted`?
            "#]],
        );
        check(
            "[[rules]]\nreply = \"x\"\n",
            expect![[r#"
            f/agents/bot/agent.toml:1:3: error[missing-field]: the type of agent `bot` is missing
              help: add type = "scripted" at the top
        "#]],
        );
        check(
            "model = \"m\"\n",
            expect![[r#"
            f/agents/bot/agent.toml:1:1: error[missing-field]: the type of agent `bot` is missing
              help: add type = "model" at the top
        "#]],
        );
        // A table may say what it is.
        check("type = \"elsewhere\"\n", expect![[r#""#]]);
        check("", expect![[r#""#]]);
    }

    #[test]
    fn a_key_in_the_file_of_an_agent_is_not_shown() {
        let text = "type = \"model\"\nmodel = \"m\"\napi_key = \"sk-ant-abc-123\"\n";
        let system = MemorySystem::new();
        system.write("/w/f/tasks/t.json", "[]");
        system.write("/w/f/agents/bot/agent.toml", text);
        let (_, faults) = read(&system, Path::new("/w/f"), "f");
        let labels: Vec<_> = faults.iter().flat_map(|fault| &fault.labels).collect();
        assert_eq!(labels.len(), 1);
        assert!(!labels[0].source.text.contains("sk-ant"));
    }
}
