//! What is wrong with the artifacts of steps, as far as that can be told before a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Session;
use super::load::Loaded;
use super::setting::find_program;
use crate::check::{CLOCK_TOOLS, secret};
use crate::diagnostic::{Diagnostic, Severity, Source, Span, did_you_mean};
use crate::digest::Digest;
use crate::plan::{self, Database, Deployed, SettingInput, TaskInput};
use crate::provider::builtin;
use crate::step::{Deploys, Refusal, Step, ToolRef};
use crate::system::{FileKind, System};
use crate::task::config::Config;
use crate::task::deploy::{AgentRun, EnvRun, EnvSpec};
use crate::task::folder::{self, Definition, TaskFolder};
use crate::task::parse::names::has_placeholder;

/// What Python says of the grammar of files, by their content; `None` where nothing is wrong.
pub(super) type Grammar = BTreeMap<Digest, Option<Slip>>;

/// A place that Python cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slip {
    /// Counts from 1; 0 where Python does not say.
    line: usize,
    /// Counts characters from 1.
    column: usize,
    message: String,
}

/// A Python file that a step runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Program {
    path: PathBuf,
    shown: String,
}

/// Reads each file whose path is an argument and runs none of it; says of each with a slip where it is.
const READER: &str = "
import sys
for at, path in enumerate(sys.argv[1:]):
    try:
        with open(path, 'rb') as file:
            compile(file.read(), 'program', 'exec', dont_inherit=True)
    except SyntaxError as slip:
        print('slip', at, slip.lineno or 0, slip.offset or 0, ascii(str(slip.msg)))
    except (ValueError, RecursionError, MemoryError) as slip:
        print('slip', at, 0, 0, ascii(str(slip)))
    except OSError:
        pass
";

/// What the names of files end with in which keys are looked for, and how large such a file is at most.
const SECRET_ENDS: [&str; 7] = [".toml", ".json", ".py", ".sh", ".js", ".env", ".yaml"];
const MAX_SECRET_BYTES: u64 = 1 << 20;

/// How many files are given to one process.
const MAX_FILES: usize = 200;

/// What looks at tasks and changes nothing, so that each of several threads may have one.
pub(super) struct Inspector<'a> {
    pub(super) db: &'a Database,
    pub(super) system: &'a dyn System,
    pub(super) config: &'a Config,
    pub(super) folders: &'a BTreeMap<usize, Loaded>,
    pub(super) workspace: &'a Path,
}

impl Session {
    /// Returns the keys that stand in the files of the envs and agents of a folder.
    pub(super) fn secrets_of(&mut self, at: usize) -> Vec<Diagnostic> {
        let folder = self.load_folder(at).folder.clone();
        if self.load_folder(at).secrets.is_none() {
            let mut found = Vec::new();
            for (kind, all) in [("envs", &folder.envs), ("agents", &folder.agents)] {
                for definition in all.values() {
                    let shown = folder.shown_path(&format!("{kind}/{}", definition.name));
                    found.extend(self.secrets_in(kind, definition, &shown));
                }
            }
            crate::check::level::apply(&self.config.lint, &mut found);
            self.load_folder(at).secrets = Some(found);
        }
        self.load_folder(at).secrets.clone().unwrap_or_default()
    }

    /// Returns the keys that stand in the files of one env or agent.
    fn secrets_in(&self, kind: &str, definition: &Definition, shown: &str) -> Vec<Diagnostic> {
        let own = folder::definition_file(kind);
        let own = (own.to_owned(), definition.folder.join(own));
        let files = definition.files.iter();
        let files = files.map(|file| (file.path.clone(), file.source.clone()));
        let mut found = Vec::new();
        for (path, source) in [own].into_iter().chain(files).take(MAX_FILES) {
            let is_text = SECRET_ENDS.iter().any(|end| path.ends_with(end));
            let bytes = is_text.then(|| self.system.read(&source, MAX_SECRET_BYTES));
            let Some(Ok(bytes)) = bytes else { continue };
            let (source, _) = Source::from_bytes(format!("{shown}/{path}"), &bytes);
            found.extend(secret::faults(&source));
        }
        found
    }

    /// Returns what looks at tasks.
    pub(super) fn inspector(&self) -> Inspector<'_> {
        Inspector {
            db: &self.db,
            system: self.system.as_ref(),
            config: &self.config,
            folders: &self.folders,
            workspace: &self.workspace,
        }
    }
}

impl Inspector<'_> {
    /// Looks at the artifacts of the steps that can tell before the run what is wrong with them; adds the Python files that
    /// they run.
    pub(super) fn inspect(
        &self,
        at: usize,
        input: TaskInput,
        setting: SettingInput,
        programs: &mut Vec<Program>,
    ) -> Vec<Diagnostic> {
        let mut faults: Vec<Diagnostic> = Vec::new();
        let Some(folder) = self.folder(at) else {
            return faults;
        };
        for (ix, step) in steps_of(self.db, input, setting).iter().enumerate() {
            let Some(step) = step else { continue };
            let unknown = self.unknown_tools(folder, step.as_ref());
            if !unknown.is_empty() {
                faults.extend(plan::refused(self.db, input, setting, ix as u32, unknown));
            }
            if !step.inspects() {
                continue;
            }
            for artifact in step.artifacts() {
                let Some(artifact) = folder.artifact(&artifact.name) else {
                    continue;
                };
                let found = step.inspect(&plan::unhashed(artifact), &artifact.shown);
                let python = found.python.into_iter().map(|file| Program {
                    path: file.source,
                    shown: format!("{}/{}", artifact.shown, file.path),
                });
                programs.extend(python);
                if let Some((env_id, file)) = &found.state {
                    let shown = format!("{}/{}", artifact.shown, file.path);
                    faults.extend(self.state_faults(folder, env_id, &shown, &file.source));
                }
                let refused = plan::refused(self.db, input, setting, ix as u32, found.refusals);
                for fault in found.faults.into_iter().chain(refused) {
                    if !faults.contains(&fault) {
                        faults.push(fault);
                    }
                }
            }
        }
        faults
    }

    /// Tells why an env that is compiled in would refuse a file as its state; what another env takes is for it to say.
    fn state_faults(
        &self,
        folder: &TaskFolder,
        env_id: &str,
        shown: &str,
        path: &Path,
    ) -> Vec<Diagnostic> {
        let spec = EnvSpec::of(env_id, folder, &self.config.envs);
        let Ok(EnvRun::Builtin { name }) = spec.map(|spec| spec.run) else {
            return Vec::new();
        };
        // What is larger takes longer to look at than to be told of by the run.
        let Ok(bytes) = self.system.read(path, folder::MAX_FILE_BYTES) else {
            return Vec::new();
        };
        let Some(fault) = builtin::fault_of_state(&name, shown, &bytes) else {
            return Vec::new();
        };
        let (source, mut found) = Source::from_bytes(shown, &bytes);
        if found.is_empty() {
            let parsed = crate::json::parse(&source);
            found.extend(parsed.faults.into_iter().filter(Diagnostic::is_error));
        }
        if !found.is_empty() {
            return found;
        }
        let headline = format!("`{shown}` is no state of env `{env_id}`: {}", fault.why);
        let place = fault.at.map_or(Span::at(0), |at| source_place(&source, at));
        let mut told = fault.why.split('`').skip(1).step_by(2);
        let near = told.next().and_then(|name| did_you_mean(name, told));
        let help = near
            .unwrap_or_else(|| format!("write it as the page of env `{name}` in the book shows"));
        vec![
            Diagnostic::error("not-a-state", headline)
                .primary(&source, place, "")
                .help(help),
        ]
    }

    /// Refuses the tools that a step names and that an env which is compiled in does not have.
    fn unknown_tools(&self, folder: &TaskFolder, step: &dyn Step) -> Vec<Refusal> {
        let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut refusals = Vec::new();
        for ToolRef {
            field,
            env_id,
            tool,
        } in step.names_tools()
        {
            let tools = known.entry(env_id.clone()).or_insert_with(|| {
                let spec = EnvSpec::of(&env_id, folder, &self.config.envs);
                let tools = match spec.map(|spec| spec.run) {
                    Ok(EnvRun::Builtin { name }) => builtin::tools(&name),
                    _ => None,
                };
                let tools = tools.unwrap_or_default();
                let names = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
                names.map(str::to_owned).collect()
            });
            // Of another env nobody knows before it runs.
            let is_known = tools.contains(&tool) || CLOCK_TOOLS.contains(&tool.as_str());
            if tools.is_empty() || is_known || has_placeholder(&tool) {
                continue;
            }
            let names = || tools.iter().map(String::as_str);
            let help = did_you_mean(&tool, names()).unwrap_or_else(|| {
                let shown: Vec<String> = names().map(|name| format!("`{name}`")).collect();
                format!("its tools are {}", shown.join(", "))
            });
            let what = format!("env `{env_id}` has no tool `{tool}`");
            refusals.push(Refusal::new("unknown-tool", field, what).help(help));
        }
        refusals
    }

    /// Returns what the steps of a task need that this machine does not have, as far as it can be seen without asking.
    pub(super) fn lacking(
        &self,
        at: usize,
        input: TaskInput,
        setting: SettingInput,
    ) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        let Some(folder) = self.folder(at) else {
            return faults;
        };
        let mut say = |ix: usize, severity: Severity, refusals: Vec<Refusal>| {
            let told = plan::refused(self.db, input, setting, ix as u32, refusals);
            faults.extend(
                told.into_iter()
                    .map(|fault| Diagnostic { severity, ..fault }),
            );
        };
        for (ix, step) in steps_of(self.db, input, setting).iter().enumerate() {
            let Some(step) = step.as_ref() else { continue };
            let missing = step.programs().into_iter().filter(|(_, name)| {
                let is_plain = !name.contains('/') && !has_placeholder(name);
                is_plain && !name.is_empty() && find_program(self.system, name).is_none()
            });
            let missing = missing.map(|(field, name)| {
                let what = format!("the program `{name}` is not on this machine");
                Refusal::new("missing-program", field, what)
                    .help("install it, or write the path at which a step before puts it")
            });
            say(ix, Severity::Hint, missing.collect());
            let Some(deploys) = step.deploys() else {
                continue;
            };
            let deployed = plan::deployed(&deploys, folder, self.config);
            let process = deployed.as_ref().ok().and_then(Deployed::process);
            for mount in process.map(|run| run.mount.clone()).unwrap_or_default() {
                let found = self.system.metadata(&self.workspace.join(&mount));
                if found.is_ok_and(|found| found.kind == FileKind::Folder) {
                    continue;
                }
                let field = match deploys {
                    Deploys::Env { .. } => "/env_id",
                    Deploys::Agent { .. } => "/agent_name",
                };
                let what = format!(
                    "`mount` of what the step deploys names `{mount}`, which is no folder of this machine"
                );
                let refusal = Refusal::new("missing-mount", field, what)
                    .help("make the folder, or write another one, relative to aebuild.toml");
                say(ix, Severity::Warning, vec![refusal]);
            }
            let field = match &deployed {
                Ok(Deployed::Env(spec)) if matches!(spec.run, EnvRun::Docker { .. }) => "/env_id",
                Ok(Deployed::Agent(spec, _))
                    if matches!(spec.run(), Ok(AgentRun::Container { .. })) =>
                {
                    "/agent_name"
                }
                _ => continue,
            };
            if let Some(address) = self.missing_engine() {
                let what = format!(
                    "what the step deploys runs in a container, and there is no engine at `{address}`"
                );
                let refusal = Refusal::new("no-container-engine", field, what)
                    .help("start a container engine, or name its socket in DOCKER_HOST");
                say(ix, Severity::Warning, vec![refusal]);
            }
        }
        crate::check::level::apply(&self.config.lint, &mut faults);
        faults
    }

    /// Returns where the container engine would be, unless something is there.
    fn missing_engine(&self) -> Option<String> {
        let named = self.system.variable("DOCKER_HOST");
        let named = named.filter(|address| !address.is_empty());
        let address = named.unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
        let socket = address.strip_prefix("unix://")?;
        let is_there = self.system.metadata(Path::new(socket)).is_ok();
        (!is_there).then_some(address)
    }

    /// Returns a folder that was read.
    pub(super) fn folder(&self, at: usize) -> Option<&Arc<TaskFolder>> {
        self.folders.get(&at).map(|loaded| &loaded.folder)
    }
}

impl Session {
    /// Returns the steps of a task, `None` where one cannot be built.
    pub(super) fn steps_of(
        &self,
        input: TaskInput,
        setting: SettingInput,
    ) -> Vec<Option<Arc<dyn Step>>> {
        steps_of(&self.db, input, setting)
    }

    /// Returns where Python files cannot be read as Python; nothing where there is no Python to ask.
    pub(super) fn grammar_faults(&mut self, mut programs: Vec<Program>) -> Vec<Diagnostic> {
        programs.sort();
        programs.dedup();
        let system = self.system.clone();
        let read = programs.into_iter().filter_map(|program| {
            let bytes = system.read(&program.path, folder::MAX_FILE_BYTES).ok()?;
            let (source, faults) = Source::from_bytes(&program.shown, &bytes);
            // What is no text in UTF-8 says itself in which encoding it is, and only Python knows all of them.
            let source = faults.is_empty().then_some(source);
            Some((program, Digest::of_bytes(&bytes), source))
        });
        let read: Vec<_> = read.collect();
        let unknown = read
            .iter()
            .filter(|(_, digest, _)| !self.grammar.contains_key(digest));
        let unknown: Vec<(String, Digest)> = unknown
            .map(|(program, digest, _)| (program.path.to_string_lossy().into_owned(), *digest))
            .collect();
        if !unknown.is_empty()
            && let Some((python, _)) = find_program(system.as_ref(), "python3")
        {
            for files in unknown.chunks(MAX_FILES) {
                let options = ["-I", "-S", "-B", "-W", "ignore", "-c", READER];
                let paths = files.iter().map(|(path, _)| path.as_str());
                let arguments: Vec<&str> = options.into_iter().chain(paths).collect();
                let Ok(said) = system.output_of(&python, &arguments) else {
                    continue;
                };
                let mut slips: Vec<Option<Slip>> = vec![None; files.len()];
                for (at, slip) in said.lines().filter_map(slip) {
                    if let Some(place) = slips.get_mut(at) {
                        *place = Some(slip);
                    }
                }
                let digests = files.iter().map(|(_, digest)| *digest);
                self.grammar.extend(digests.zip(slips));
            }
        }
        let faults = read.iter().filter_map(|(program, digest, source)| {
            let slip = self.grammar.get(digest)?.as_ref()?;
            let headline = format!("`{}` is not Python: {}", program.shown, slip.message);
            let fault = Diagnostic::error("python-syntax", headline);
            Some(match source {
                Some(source) if slip.line > 0 => fault.primary(source, slip.span(source), ""),
                _ => fault,
            })
        });
        faults.collect()
    }
}

/// Returns the steps of a task, `None` where one cannot be built.
pub(super) fn steps_of(
    db: &Database,
    input: TaskInput,
    setting: SettingInput,
) -> Vec<Option<Arc<dyn Step>>> {
    let n = plan::task(db, input, setting).steps.len() as u32;
    (0..n)
        .map(|at| plan::built(db, input, setting, at).step.clone())
        .collect()
}

impl Slip {
    /// Returns the character at which Python stopped.
    fn span(&self, source: &Source) -> Span {
        let mut start = 0;
        for (at, line) in source.text.split_inclusive('\n').enumerate() {
            if at + 1 == self.line {
                let mut chars = line.char_indices().skip(self.column.saturating_sub(1));
                return match chars.next() {
                    Some((inside, c)) => {
                        let length = if c == '\n' { 0 } else { c.len_utf8() };
                        Span::new(start + inside, start + inside + length)
                    }
                    None => Span::at(start + line.trim_end().len()),
                };
            }
            start += line.len();
        }
        Span::at(source.text.len())
    }
}

/// Returns the word that ends at a line and a column of bytes, each from 1 on.
fn source_place(source: &Source, (line, column): (usize, usize)) -> Span {
    let lines = source.text.split_inclusive('\n');
    let start: usize = lines.take(line - 1).map(str::len).sum();
    let mut end = (start + column).min(source.text.len());
    while !source.text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &source.text[start.min(end)..end];
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '"' | '.');
    let word = before.len() - before.trim_end_matches(is_part).len();
    match word {
        0 => Span::at(end),
        _ => Span::new(end - word, end),
    }
}

/// Reads a line of [`READER`]: the number of the file, and what is wrong with it.
fn slip(line: &str) -> Option<(usize, Slip)> {
    let mut parts = line.strip_prefix("slip ")?.splitn(4, ' ');
    let mut number = || parts.next()?.parse::<usize>().ok();
    let (at, line, column) = (number()?, number()?, number()?);
    let message = parts.next()?;
    let message = message.get(1..message.len().checked_sub(1)?)?.to_owned();
    Some((
        at,
        Slip {
            line,
            column,
            message,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_says_is_read_with_its_place() {
        let (at, found) = slip("slip 3 2 4 'invalid syntax'").expect("it is a slip");
        assert_eq!((at, found.line, found.column), (3, 2, 4));
        assert_eq!(found.message, "invalid syntax");
        let source = Source::new("v.py", "é = 1\néé x y\n");
        let span = found.span(&source);
        assert_eq!(&source.text[span.range()], "x");
        for line in [
            "slip",
            "slip 1 2",
            "slip a 1 1 'x'",
            "Traceback",
            "slip 0 0 0 '",
        ] {
            assert_eq!(slip(line), None, "{line}");
        }
    }

    #[test]
    fn a_place_beyond_the_text_is_its_end() {
        let source = Source::new("v.py", "x = (\n");
        let slip = |line, column| Slip {
            line,
            column,
            message: String::new(),
        };
        assert_eq!(slip(9, 1).span(&source), Span::at(6));
        assert_eq!(slip(1, 40).span(&source), Span::at(5));
        assert_eq!(slip(1, 0).span(&source), Span::new(0, 1));
    }
}
