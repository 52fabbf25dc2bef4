//! Runs a verifier that is a program: a Python file that the driver calls, or an executable.

use std::time::Duration;

use super::packages::packages;
use crate::diagnostic::{Diagnostic, Source};
use crate::json::{Value, from_slice};
use crate::step::env::LastLines;
use crate::step::sandbox::{Exec, Exited, How, Isolation, Put, Sandbox, SandboxError};
use crate::step::{Bench, Content, ContentFile, StepCx, StepError, Stream};
use crate::steps::shown::{head, shown};
use crate::steps::together;

/// The most that the rows may have together, in bytes.
pub(super) const MAX_ROWS: usize = 50 << 20;
/// The largest file that is read for what it says of packages, in bytes.
const MAX_TEXT: u64 = 5 << 20;
/// Number of characters that are told of what is wrong.
const MAX_SHOWN: usize = 4000;

/// Calls `verify`, and leaves its rows or what is wrong.
pub(super) const DRIVER: &str = include_str!("driver.py");
/// What a verifier may know of the run.
pub(super) const MODULE: &str = include_str!("aebuild.py");

/// A verifier, ready to be run.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// The step.
    pub(super) cx: StepCx<'a>,
    /// Its artifact.
    pub(super) content: &'a Content,
    /// The file at which the verifier begins.
    pub(super) file: &'a ContentFile,
    /// What it gets to know, as JSON.
    pub(super) facts: &'a str,
    /// Where it reaches the env.
    pub(super) mcp_url: &'a str,
    /// Time after which it is stopped.
    pub(super) limit: Duration,
}

/// Reads a file of an artifact as text; what is not UTF-8 stands as `?` and is told.
pub(super) fn text_of(file: &ContentFile) -> Result<(Source, Vec<Diagnostic>), StepError> {
    let path = &file.path;
    let size = crate::system::disk::metadata(&file.source).map_or(file.size, |found| found.len());
    if size > MAX_TEXT {
        let what = format!("`{path}` has {size} bytes, more than the limit of {MAX_TEXT}");
        return Err(StepError::of("ValueError", what));
    }
    let bytes = together::blocking(|| crate::system::disk::read(&file.source))
        .map_err(|error| StepError::new(format!("`{path}` cannot be read: {error}")))?;
    Ok(Source::from_bytes(path.as_str(), &bytes))
}

impl Job<'_> {
    /// Runs a Python file and returns what its `verify` gave.
    pub(super) async fn python(self) -> Result<Value, StepError> {
        let packages = self.packages()?;
        let Bench { sandbox, python } = self.cx.services.bench(&packages).await?;
        let folder = self.stage(&*sandbox, &[("driver.py", DRIVER), ("aebuild.py", MODULE)])?;
        let file = &self.file.path;
        self.cx.note(&match &packages[..] {
            [] => format!("python3 {file}: verify(..)"),
            some => format!("python3 {file}: verify(..), with {}", some.join(", ")),
        });
        let driver = format!("{folder}/driver.py");
        let exec = Exec::argv([&python, "-s", &driver, &folder, file])
            .env("PYTHONHASHSEED", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let exited = self.exec(&*sandbox, &folder, exec).await?;
        self.cx.services.log(Stream::Stdout, &exited.stdout.bytes);
        self.check_end(&*sandbox, &exited)?;
        let read = |name: &str, limit: usize| {
            together::blocking(|| sandbox.read(&format!("{folder}/{name}"), limit as u64))
        };
        if let Some(fault) = read("fault.txt", MAX_ROWS)? {
            let fault = shown(&*sandbox, &String::from_utf8_lossy(&fault));
            return Err(self.wrong(head(&fault, MAX_SHOWN)));
        }
        match read("rows.json", MAX_ROWS) {
            Ok(Some(rows)) => self.json(&*sandbox, &rows),
            Ok(None) => Err(self.wrong("ended the program, so there are no rows")),
            Err(SandboxError::TooLarge { .. }) => Err(self.too_large()),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs a program and returns what it printed.
    pub(super) async fn program(self) -> Result<Value, StepError> {
        let Bench { sandbox, .. } = self.cx.services.bench(&[]).await?;
        let folder = self.stage(&*sandbox, &[])?;
        self.cx.note(&self.file.path);
        let exec = Exec::argv([format!("{folder}/code/{}", self.file.path)]).keep(MAX_ROWS);
        let exited = self.exec(&*sandbox, &folder, exec).await?;
        self.check_end(&*sandbox, &exited)?;
        if exited.stdout.dropped > 0 {
            return Err(self.too_large());
        }
        self.json(&*sandbox, &exited.stdout.bytes)
    }

    fn wrong(&self, what: impl std::fmt::Display) -> StepError {
        StepError::new(format!("verifier `{}` {what}", self.file.path))
    }

    fn too_large(&self) -> StepError {
        self.wrong(format!("gave rows of more than {MAX_ROWS} bytes"))
    }

    fn packages(&self) -> Result<Vec<String>, StepError> {
        // Python has its own word on how a file is encoded.
        let text = |file| Ok::<_, StepError>(text_of(file)?.0);
        let is_script = |file: &&ContentFile| file.path.ends_with(".py") && *file != self.file;
        let scripts: Vec<Source> = std::iter::once(self.file)
            .chain(self.content.files.iter().filter(is_script))
            .map(text)
            .collect::<Result<_, _>>()?;
        let beside = self.file.path.rsplit_once('/');
        let beside = beside.map(|(folder, _)| format!("{folder}/requirements.txt"));
        let find = |path: &str| self.content.files.iter().find(|file| file.path == path);
        let requirements = beside
            .and_then(|path| find(&path))
            .or_else(|| find("requirements.txt"))
            .map(text)
            .transpose()?;
        packages(&scripts, requirements.as_ref()).map_err(|why| StepError::of("ValueError", why))
    }

    /// Puts the artifact's files and these others into the bench, and returns the folder.
    fn stage(&self, sandbox: &dyn Sandbox, more: &[(&str, &str)]) -> Result<String, StepError> {
        let folder = format!("{}/verifier", sandbox.temp_dir());
        let mode = |file: &ContentFile| match file.executable {
            true => 0o755,
            false => 0o644,
        };
        let put = |file: &ContentFile| Put {
            from: file.source.clone(),
            to: format!("{folder}/code/{}", file.path),
            mode: mode(file),
        };
        let puts: Vec<Put> = self.content.files.iter().map(put).collect();
        together::blocking(|| {
            sandbox.put(&puts)?;
            more.iter().try_for_each(|(name, text)| {
                sandbox.write(&format!("{folder}/{name}"), text.as_bytes(), 0o644)
            })
        })?;
        Ok(folder)
    }

    async fn exec(
        &self,
        sandbox: &dyn Sandbox,
        folder: &str,
        exec: Exec,
    ) -> Result<Exited, StepError> {
        let exec = exec
            .env("MCP_URL", self.mcp_url)
            .cwd(format!("{folder}/code"))
            .stdin(self.facts)
            .timeout(self.limit);
        let exited = sandbox.exec(exec).await?;
        self.cx.services.log(Stream::Stderr, &exited.stderr.bytes);
        Ok(exited)
    }

    fn check_end(&self, sandbox: &dyn Sandbox, exited: &Exited) -> Result<(), StepError> {
        let how = match exited.how {
            How::Code(0) => return Ok(()),
            How::Code(code) => format!("exited {code}"),
            How::Signal(signal) => format!("was killed by signal {signal}"),
            How::TimedOut => format!(
                "was stopped after {} s; give it more time with `timeout_seconds`",
                self.limit.as_secs()
            ),
            How::Cancelled => "ended with its sandbox".to_owned(),
        };
        let mut last = LastLines::default();
        last.push(shown(sandbox, &exited.stderr.text()).as_bytes());
        let last = last.text();
        let mut error = self.wrong(match last.is_empty() {
            true => how,
            false => format!("{how}; its last lines:\n{last}"),
        });
        if exited.how == How::TimedOut {
            error.kind = "TimeoutError";
        }
        Err(error)
    }

    fn json(&self, sandbox: &dyn Sandbox, bytes: &[u8]) -> Result<Value, StepError> {
        let text = String::from_utf8_lossy(bytes);
        let text = match sandbox.isolation() {
            // Without a wall the program knows its folders by the host's names.
            Isolation::None => shown(sandbox, &text),
            Isolation::Bubblewrap => text.into_owned(),
        };
        from_slice(text.as_bytes()).map_err(|_| match text.trim() {
            "" => self.wrong("printed nothing; it must print its rows as JSON"),
            other => self.wrong(format!(
                "printed what is no JSON; only its rows may go to stdout: {}",
                head(other, 200)
            )),
        })
    }
}

/// Returns the rows in what a verifier gave: a list of objects, or an object with such a list as `results`.
pub(super) fn rows_of(verifier: &str, given: Value) -> Result<Vec<Value>, StepError> {
    let wrong = |what: &str, value: &Value| {
        let shown = head(&value.to_string(), 200);
        StepError::new(format!("verifier `{verifier}` gave {what}: {shown}"))
    };
    let rows = match given {
        Value::Array(rows) => rows,
        Value::Object(mut members) => match members.remove("results") {
            Some(Value::Array(rows)) => rows,
            Some(other) => return Err(wrong("`results` that are no list of rows", &other)),
            None => {
                return Err(wrong(
                    "an object without `results`",
                    &Value::Object(members),
                ));
            }
        },
        other => return Err(wrong("what is no list of rows", &other)),
    };
    if let Some(at) = rows.iter().position(|row| !row.is_object()) {
        return Err(wrong(&format!("as row {at} what is no object"), &rows[at]));
    }
    // A row that says nothing is a fault of the verifier, which the agent must not pay for.
    let says = |row: &Value| {
        ["result", "score", "skipped"]
            .iter()
            .any(|key| row.get(key).is_some())
    };
    match rows.iter().position(|row| !says(row)) {
        Some(at) => Err(wrong(&format!("row {at} without `result`"), &rows[at])),
        None => Ok(rows),
    }
}
