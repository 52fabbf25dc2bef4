//! Envs and agents that are deployed: each is there, it is clear how it is run, and what it needs is in its folder.

use super::{Checked, Rule};
use crate::diagnostic::{Diagnostic, Meant, Severity, Source, Span, did_you_mean, meant, nearest};
use crate::graph::StepIx;
use crate::json::Value;
use crate::step::Deploys;
use crate::task::deploy::{
    AgentRun, AgentSpec, BUILTIN_ENVS, EnvRun, EnvSpec, ProcessRun, Unusable,
};
use crate::task::folder::{Definition, definition_file};
use crate::task::model::RESERVED_PARAMS;
use crate::task::parse::names::has_placeholder;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[
        ("unknown-env", Severity::Error),
        ("unknown-agent", Severity::Error),
        ("unknown-way-to-run", Severity::Error),
        ("missing-file", Severity::Error),
        ("missing-field", Severity::Error),
        ("unknown-name", Severity::Error),
        ("conflicting-fields", Severity::Error),
    ],
    doc: "A `deploy_env` step names an env and a `deploy_agent` step an agent: a folder below `envs/` or `agents/`, a table \
          of `aebuild.toml`, or an env that is compiled in. It must be clear how it is run, and the files that its command \
          names must be in its folder.",
    run,
};

/// What one step deploys, and where it is described.
struct Deployed<'a> {
    checked: &'a Checked<'a>,
    step: StepIx,
    /// The field that names it.
    field: &'static str,
    /// `envs` or `agents`.
    kind: &'static str,
    /// The name of its table.
    table: String,
    definition: Option<&'a Definition>,
}

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    for (step, built) in checked.built() {
        let Some(deploys) = built.deploys() else {
            continue;
        };
        let (kind, field, wanted) = match &deploys {
            Deploys::Env { env_id } => ("envs", "/env_id", env_id),
            Deploys::Agent {
                agent_id: Some(id), ..
            } => ("agents", "/a2a_agent_id", id),
            Deploys::Agent { agent_name, .. } => ("agents", "/agent_name", agent_name),
        };
        if has_placeholder(wanted) || checked.is_unreadable(step, &field[1..]) {
            continue;
        }
        let (definition, tables) = match kind {
            "envs" => (checked.folder.env(wanted), &checked.config.envs),
            _ => (checked.folder.agent(wanted), &checked.config.agents),
        };
        let name = definition.map_or(wanted, |definition| &definition.name);
        let table = match tables.contains_key(name) {
            true => name,
            false => wanted,
        };
        let deployed = Deployed {
            checked,
            step,
            field,
            kind,
            table: table.clone(),
            definition,
        };
        let mut found = deployed.faults(&deploys, wanted);
        // Faults of its content matter to who uses it.
        found.extend(
            definition
                .into_iter()
                .flat_map(|found| found.faults.clone()),
        );
        for fault in found {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
}

impl Deployed<'_> {
    fn faults(&self, deploys: &Deploys, wanted: &str) -> Vec<Diagnostic> {
        let Checked { folder, config, .. } = self.checked;
        let has_table = match self.kind {
            "envs" => config.envs.contains_key(&self.table),
            _ => config.agents.contains_key(&self.table),
        };
        let key = format!("{}.{}", self.kind, self.table);
        let is_doubtful = self.definition.is_some_and(|found| found.is_doubtful)
            || config.doubtful.contains(&key)
            || config.is_broken && !has_table;
        if is_doubtful {
            return Vec::new();
        }
        if let Some(definition) = self.definition.filter(|found| !found.is_told && !has_table) {
            return vec![self.untold(definition)];
        }
        match deploys {
            Deploys::Env { env_id } => match EnvSpec::of(env_id, folder, &config.envs) {
                Ok(spec) => match &spec.run {
                    EnvRun::Process(run) => self.process(run, true),
                    _ => Vec::new(),
                },
                Err(why) => vec![self.unusable(why, wanted)],
            },
            Deploys::Agent {
                agent_name,
                agent_id,
                sandbox_name,
                ..
            } => {
                let spec = AgentSpec::of(agent_id.as_deref(), agent_name, folder, &config.agents);
                let placed = spec.and_then(|spec| spec.placed(sandbox_name.is_some()));
                match placed {
                    Ok(spec) => self.agent(&spec, wanted),
                    Err(why) => vec![self.unusable(why, wanted)],
                }
            }
        }
    }

    fn unusable(&self, why: Unusable, wanted: &str) -> Diagnostic {
        let Checked { folder, config, .. } = self.checked;
        let places = self.checked.places;
        let known: Vec<&String> = match why.code {
            "unknown-env" => {
                let folders = folder.envs.keys().chain(folder.aliases.envs.keys());
                folders.chain(config.envs.keys()).collect()
            }
            "unknown-agent" => {
                let folders = folder.agents.keys().chain(folder.aliases.agents.keys());
                folders.chain(config.agents.keys()).collect()
            }
            _ => Vec::new(),
        };
        let known = known.into_iter().map(String::as_str);
        let near = match why.code {
            "unknown-env" => meant(wanted, known.chain(BUILTIN_ENVS)),
            _ => meant(wanted, known),
        };
        // Other steps may find it by the name that is written here.
        let is_alone = self.field == "/a2a_agent_id";
        let near = near.map(|near| Meant {
            is_sure: near.is_sure && is_alone,
            ..near
        });
        Diagnostic::error(why.code, why.headline)
            .primary(
                places.source(),
                places.field_or_kind(self.step, self.field),
                "",
            )
            .help(why.help)
            .meant(near)
    }

    /// Tells of a folder in which nothing says what it holds.
    fn untold(&self, definition: &Definition) -> Diagnostic {
        let file = definition_file(self.kind);
        let noun = match self.kind {
            "envs" => "env",
            _ => "agent",
        };
        let name = &definition.name;
        let headline = format!("{noun} `{name}` has neither {file} nor Dockerfile");
        let places = self.checked.places;
        let span = places.field_or_kind(self.step, self.field);
        Diagnostic::error("missing-file", headline)
            .primary(places.source(), span, "deployed here")
            .help(format!(
                "add {}/{name}/{file}, or [{}.{name}] to aebuild.toml",
                self.kind, self.kind
            ))
    }

    fn agent(&self, spec: &AgentSpec, wanted: &str) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        let rules = spec.settings.get("rules").and_then(Value::as_array);
        if spec.kind == "scripted" && rules.is_none_or(Vec::is_empty) {
            let headline = format!("agent `{wanted}` is scripted, and has no rules");
            let help = match self.definition {
                Some(found) => format!("add [[rules]] to agents/{}/agent.toml", found.name),
                None => format!("add a folder agents/{wanted}/ with a script.json"),
            };
            faults.push(
                self.at("/type", "missing-field", headline, "needs `rules`")
                    .help(help),
            );
        }
        let params = spec.settings.get("params").and_then(Value::as_object);
        for name in params.into_iter().flat_map(|params| params.keys()) {
            if spec.kind == "model" && RESERVED_PARAMS.contains(&name.as_str()) {
                let headline =
                    format!("`{name}` is set by aebuild and cannot be a parameter of the model");
                let help = format!("delete `{name}` from `params`");
                let pointer = format!("/params/{name}");
                faults.push(
                    self.at(&pointer, "conflicting-fields", headline, "")
                        .help(help),
                );
            }
        }
        match spec.run() {
            Ok(AgentRun::Served { run, .. }) => faults.extend(self.process(&run, true)),
            Ok(AgentRun::Program { run, .. }) => faults.extend(self.process(&run, false)),
            _ => {}
        }
        faults
    }

    /// Looks at the words of a command and at the files that it needs. A server is started in the folder with its files;
    /// another program finds them in `{folder}`.
    fn process(&self, run: &ProcessRun, is_server: bool) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        let files = self.definition.map(|found| found.files.as_slice());
        let files = files.unwrap_or_default();
        let has = |path: &str| files.iter().any(|file| file.path == path);
        let near = |path: &str| did_you_mean(path, files.iter().map(|file| file.path.as_str()));
        let noun = match self.kind {
            "envs" => "env",
            _ => "agent",
        };
        let name = &self.table;
        if let Some(file) = run.requirements.as_deref().filter(|file| !has(file)) {
            let headline = format!(
                "`requirements` of {noun} `{name}` names `{file}`, which is not in its folder"
            );
            let help = near(file).unwrap_or_else(|| format!("add {}/{name}/{file}", self.kind));
            let fault = self.at("/requirements", "missing-file", headline, "no such file");
            faults.push(fault.help(help));
        }
        let known: &[&str] = match is_server {
            true => &["python", "port"],
            false => &["python", "folder"],
        };
        for (ix, word) in run.command.iter().enumerate() {
            let pointer = format!("/command/{ix}");
            for hole in holes(word).filter(|hole| !known.contains(hole)) {
                let Some(near) = nearest(hole, known.iter().copied()) else {
                    continue;
                };
                let headline = format!(
                    "`command` of {noun} `{name}` has `{{{hole}}}`, which stands for nothing"
                );
                let fault = self.at(&pointer, "unknown-name", headline, "");
                faults.push(fault.help(format!("did you mean `{{{near}}}`?")));
            }
            let own = match is_server {
                true => (!word.starts_with('/')).then_some(word.as_str()),
                false => word.strip_prefix("{folder}/"),
            };
            let Some(path) = own.filter(|path| is_script(path)) else {
                continue;
            };
            // Who sees folders of the machine, or installs packages, may find it elsewhere.
            let is_elsewhere = is_server && (!run.mount.is_empty() || self.definition.is_none());
            let path = path.strip_prefix("./").unwrap_or(path);
            if is_elsewhere || has(path) {
                continue;
            }
            let headline =
                format!("`command` of {noun} `{name}` names `{path}`, which is not in its folder");
            let help = near(path).unwrap_or_else(|| format!("add {}/{name}/{path}", self.kind));
            faults.push(
                self.at(&pointer, "missing-file", headline, "no such file")
                    .help(help),
            );
        }
        faults
    }

    /// Returns a fault of a key: in the table that has it, else in the file of the folder, else at the step.
    fn at(&self, pointer: &str, code: &'static str, headline: String, label: &str) -> Diagnostic {
        let fault = Diagnostic::error(code, headline);
        let places = self.checked.places;
        let step = places.field_or_kind(self.step, self.field);
        match self.place(pointer) {
            Some((source, span)) => {
                fault
                    .primary(source, span, label)
                    .label(places.source(), step, "deployed here")
            }
            None => fault.primary(places.source(), step, label),
        }
    }

    fn place(&self, pointer: &str) -> Option<(&Source, Span)> {
        let escaped = self.table.replace('~', "~0").replace('/', "~1");
        let in_table = format!("/{}/{escaped}{pointer}", self.kind);
        let in_table = self.checked.config_written.and_then(|written| {
            written.node.pointer(&in_table)?;
            Some((&written.source, written.span(&in_table)))
        });
        in_table.or_else(|| {
            let written = self.definition?.written.as_ref()?;
            written.node.pointer(pointer)?;
            Some((&written.source, written.span(pointer)))
        })
    }
}

/// Returns the names in braces in a word of a command, such as `python` in `{python}`.
fn holes(word: &str) -> impl Iterator<Item = &str> {
    let is_name = |text: &&str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let parts = word.split('{').skip(1);
    parts
        .filter_map(|part| Some(part.split_once('}')?.0))
        .filter(is_name)
}

/// Returns whether a word of a command is the path of a program in Python or of a shell.
fn is_script(word: &str) -> bool {
    let stem = word
        .strip_suffix(".py")
        .or_else(|| word.strip_suffix(".sh"));
    stem.is_some_and(|stem| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        !stem.is_empty() && !stem.contains("..") && stem.chars().all(is_plain)
    })
}
