//! Artifacts and skills: what kind each is, and whether its files fit the kind.

use super::content::{self, Content};
use super::entry::{Entry, Reader};
use super::settings::{Settings, table, text, texts};
use super::{Artifact, ArtifactFile, ArtifactKind};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::json::{Map, Value, json};

const KINDS: [&str; 6] = [
    "file",
    "file_artifact_universe",
    "environment",
    "environment_universe",
    "docker_image",
    "cli",
];

impl Reader<'_> {
    /// Reads `artifacts/`.
    pub fn artifacts(&mut self) {
        for entry in self.kind_sub_folders("artifacts", "artifact") {
            let shown = self.folder.shown_path(&format!("artifacts/{}", entry.name));
            let content = content::of_entry(
                self.system,
                &self.real_root,
                &entry,
                &shown,
                "artifact.toml",
            );
            if let Some(artifact) = self.artifact(&entry, &shown, content) {
                self.folder.artifacts.insert(entry.name, artifact);
            }
        }
    }

    fn artifact(&mut self, entry: &Entry, shown: &str, content: Content) -> Option<Artifact> {
        self.folder.listings.extend(content.listings);
        if content.is_empty {
            self.empty(shown);
            return None;
        }
        let at = format!("artifact `{}`", entry.name);
        let settings = self.settings(
            &entry.path.join("artifact.toml"),
            &format!("{shown}/artifact.toml"),
        );
        let declared = settings.as_ref().and_then(|settings| settings.text("type"));
        let inferred = infer(&content.files);
        let kind = declared
            .and_then(ArtifactKind::from_name)
            .unwrap_or(inferred);
        let mut id = None;
        if let Some(settings) = &settings {
            self.check_settings(settings, &keys(kind), &at);
            id = self.declared_id(settings, &at);
        }
        if content.faults.is_empty() {
            self.shape(kind, settings.as_ref(), &content.files, shown, &at);
        }
        Some(Artifact {
            name: entry.name.clone(),
            id: self.id_of(id.as_deref(), &entry.name),
            kind,
            folder: entry.path.clone(),
            shown: shown.to_owned(),
            files: content.files,
            settings: settings
                .map_or_else(|| Value::Object(Map::new()), |settings| settings.value()),
            faults: content.faults,
        })
    }

    pub fn empty(&mut self, shown: &str) {
        self.fault(
            "empty-folder",
            format!("`{shown}` has nothing in it"),
            "put a file into it, or delete it",
        );
    }

    /// Checks that the files fit the kind.
    fn shape(
        &mut self,
        kind: ArtifactKind,
        settings: Option<&Settings>,
        files: &[ArtifactFile],
        shown: &str,
        at: &str,
    ) {
        let has = |path: &str| files.iter().any(|file| file.path == path);
        match kind {
            ArtifactKind::File | ArtifactKind::FileUniverse | ArtifactKind::Skill => {
                let fits = if kind == ArtifactKind::File {
                    files.len() == 1
                } else {
                    !files.is_empty()
                };
                if !fits {
                    self.count(kind, files.len(), shown);
                }
            }
            ArtifactKind::Environment => {
                let named = settings.and_then(|settings| settings.node.get("file"));
                if named.is_none() && files.len() != 1 {
                    self.count(kind, files.len(), shown);
                }
            }
            ArtifactKind::EnvironmentUniverse => {
                for file in files.iter().filter(|file| !file.path.contains('/')) {
                    self.fault(
                        "loose-file",
                        format!("`{shown}/{}` is in no folder of its own", file.path),
                        "put it into a sub-folder named after the environment",
                    );
                }
            }
            ArtifactKind::DockerImage => {
                let builds = settings.is_some_and(|settings| settings.node.get("build").is_some());
                if !has("Dockerfile") && !builds {
                    self.fault(
                        "missing-file",
                        format!("`{shown}` is a docker_image, but has no Dockerfile"),
                        "add a Dockerfile",
                    );
                }
            }
            ArtifactKind::Cli => {
                if let Some(settings) = settings {
                    self.cli(settings, files, shown, at);
                }
            }
        }
    }

    fn count(&mut self, kind: ArtifactKind, count: usize, shown: &str) {
        let noun = if count == 1 { "file" } else { "files" };
        self.fault(
            "wrong-number-of-files",
            format!(
                "`{shown}` is of type {}, but has {count} {noun}",
                kind.as_str()
            ),
            match kind {
                ArtifactKind::FileUniverse | ArtifactKind::Skill => "add a file",
                ArtifactKind::Environment => "leave one file, or name one with the key `file`",
                _ => "leave one file, or delete `type` from artifact.toml",
            },
        );
    }

    fn cli(&mut self, settings: &Settings, files: &[ArtifactFile], shown: &str, at: &str) {
        if let Some(node) = settings.node.get("command_name")
            && let Some(name) = node.as_str()
        {
            let is_plain = !name.starts_with(['.', '-'])
                && !name.contains(|c: char| {
                    c == '/' || c == '\\' || c.is_whitespace() || c.is_control()
                });
            if !is_plain {
                self.faults.push(
                    Diagnostic::error(
                        "bad-command-name",
                        format!("command `{name}` of {at} is no plain name"),
                    )
                    .primary(&settings.source, node.span, "not a plain name")
                    .help(
                        "use a name without slashes and spaces that starts with a letter or digit",
                    ),
                );
            }
        }
        let Some(node) = settings.node.get("entrypoint") else {
            return;
        };
        let Some(entrypoint) = node.as_str() else {
            return;
        };
        if !files.iter().any(|file| file.path == entrypoint) {
            let names = files.iter().map(|file| file.path.as_str());
            self.faults.push(
                Diagnostic::error("missing-file", format!("{at} has no file `{entrypoint}`"))
                    .primary(&settings.source, node.span, "no such file in the folder")
                    .help(did_you_mean(entrypoint, names)),
            );
        }
        let folder = entrypoint
            .rsplit_once('/')
            .map_or(String::new(), |(folder, _)| format!("{folder}/"));
        if files
            .iter()
            .any(|file| file.path == format!("{folder}.env"))
        {
            self.fault(
                "reserved-name",
                format!(
                    "`{shown}/{folder}.env` stands where installing the command writes its own"
                ),
                "rename it",
            );
        }
    }

    /// Reads `skills/`, which share their names with artifacts.
    pub fn skills(&mut self) {
        for entry in self.kind_sub_folders("skills", "skill") {
            let shown = self.folder.shown_path(&format!("skills/{}", entry.name));
            let content = content::of_entry(self.system, &self.real_root, &entry, &shown, "");
            self.folder
                .listings
                .extend(content.listings.iter().cloned());
            if content.is_empty {
                self.empty(&shown);
                continue;
            }
            if let Some(other) = self.folder.artifacts.get(&entry.name) {
                let other = other.shown.clone();
                self.collide(&other, &shown);
                continue;
            }
            let settings = match content.faults.is_empty() {
                true => self.front_matter(&entry, &shown, &content.files),
                false => Value::Object(Map::new()),
            };
            let id = self.id_of(None, &entry.name);
            let artifact = Artifact {
                name: entry.name.clone(),
                id,
                kind: ArtifactKind::Skill,
                folder: entry.path,
                shown,
                files: content.files,
                settings,
                faults: content.faults,
            };
            self.folder.skills.insert(entry.name, artifact);
        }
    }

    /// Reads the front matter of `SKILL.md`: lines of `key: value` between two lines of `---`.
    fn front_matter(&mut self, entry: &Entry, shown: &str, files: &[ArtifactFile]) -> Value {
        let mut values = Map::new();
        let Some(file) = files.iter().find(|file| file.path == "SKILL.md") else {
            let near = files
                .iter()
                .find(|file| file.path.eq_ignore_ascii_case("SKILL.md"));
            let help = match near {
                Some(near) => format!("rename {} to SKILL.md", near.path),
                None => "add SKILL.md with the lines `---`, `name: ..`, `description: ..`, `---`"
                    .to_owned(),
            };
            self.fault(
                "missing-file",
                format!("skill `{}` has no SKILL.md", entry.name),
                &help,
            );
            return Value::Object(values);
        };
        let shown = format!("{shown}/SKILL.md");
        let Some(source) = self.source(&file.source.clone(), &shown) else {
            return Value::Object(values);
        };
        let text = source.text.clone();
        let mut at = text.len() - text.trim_start_matches('\u{feff}').len();
        let mut is_open = false;
        let mut is_closed = false;
        for line in text[at..].split_inclusive('\n') {
            let (start, content) = (at, line.trim_end());
            at += line.len();
            match (is_open, content) {
                (false, "---") => is_open = true,
                (false, _) => break,
                (true, "---") => {
                    is_closed = true;
                    break;
                }
                (true, content) => {
                    let Some((key, value)) = content.split_once(':') else {
                        continue;
                    };
                    if key.is_empty() || key.starts_with([' ', '\t', '#', '-']) {
                        continue;
                    }
                    let value = value.trim().trim_matches(['"', '\'']);
                    let span = start..start + content.len();
                    if let Some((wanted, help)) = bad_front_matter(key, value) {
                        self.faults.push(
                            Diagnostic::error(
                                "bad-front-matter",
                                format!("`{key}` of skill `{}` {wanted}", entry.name),
                            )
                            .primary(&source, span, "")
                            .help(help),
                        );
                    }
                    values.insert(key.to_owned(), Value::String(value.to_owned()));
                }
            }
        }
        if !is_closed || !values.contains_key("name") || !values.contains_key("description") {
            let what = match is_closed {
                false => "has no front matter",
                true if values.contains_key("name") => "has no `description` in its front matter",
                true => "has no `name` in its front matter",
            };
            self.faults.push(
                Diagnostic::error("bad-front-matter", format!("`{shown}` {what}"))
                    .primary(&source, 0..text.find('\n').unwrap_or(text.len()), "")
                    .help(
                        "start the file with the lines `---`, `name: ..`, `description: ..`, `---`",
                    ),
            );
        }
        Value::Object(values)
    }
}

fn bad_front_matter(key: &str, value: &str) -> Option<(String, &'static str)> {
    let too_long = |max: usize| {
        let count = value.chars().count();
        (count > max).then(|| {
            (
                format!("has {count} characters, but at most {max} are allowed"),
                "shorten it",
            )
        })
    };
    match key {
        "name" => {
            let is_good = (1..=64).contains(&value.len())
                && value
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
                && !value.starts_with('-')
                && !value.ends_with('-')
                && !value.contains("--");
            (!is_good).then(|| {
                let help = "use 1 to 64 lower-case letters, digits and single `-` between them";
                (
                    format!("can't be `{}`", value.chars().take(60).collect::<String>()),
                    help,
                )
            })
        }
        "description" => too_long(1024),
        "compatibility" => too_long(500),
        _ => None,
    }
}

/// Returns the kind that files have where nothing is declared.
fn infer(files: &[ArtifactFile]) -> ArtifactKind {
    if files.iter().any(|file| file.path == "Dockerfile") {
        ArtifactKind::DockerImage
    } else if files.len() == 1 {
        ArtifactKind::File
    } else {
        ArtifactKind::FileUniverse
    }
}

/// Returns the schema of `artifact.toml` for a kind.
fn keys(kind: ArtifactKind) -> Value {
    let kinds = ("type", json!({"type": "string", "enum": KINDS}));
    let common = |more: &[(&'static str, Value)]| [&[kinds.clone(), ("id", text())], more].concat();
    match kind {
        ArtifactKind::File => table(&[], &common(&[("description", json!({"type": "string"}))])),
        ArtifactKind::FileUniverse | ArtifactKind::Skill => table(&[], &common(&[])),
        ArtifactKind::Environment => table(
            &[("environment_name", text())],
            &common(&[("file", text()), ("description", json!({"type": "string"}))]),
        ),
        ArtifactKind::EnvironmentUniverse => {
            table(&[], &common(&[("environment_artifacts", texts())]))
        }
        ArtifactKind::DockerImage => table(
            &[],
            &common(&[("build", json!({"type": ["object", "string"]}))]),
        ),
        ArtifactKind::Cli => table(
            &[("command_name", text()), ("entrypoint", text())],
            &common(&[]),
        ),
    }
}
