//! Checks files and commands in a sandbox, and scores what it finds.
//!
//! Each criterion becomes a row that passed or not, and says why. All criteria are looked at, also after one that did
//! not pass: a verifier that scores 0 has not failed.
//!
//! | `type` | fields | passes when |
//! |---|---|---|
//! | `probe_file_exists` | `paths` | something is at every path |
//! | `probe_dir_exists` | `paths` | a folder is at every path |
//! | `probe_file_contains` | `paths`, `expected` | the first file has a match of the regular expression |
//! | `bash_cmd_succeeds` | `bash_cmd` | the script exits with 0 in `bash` |
//! | `command_succeeds` | `argv` | the program exits with 0, started without a shell |
//!
//! Relative paths are below `base_dir`, in which commands run too. Regular expressions are Python's. Every criterion may
//! have a `criterion` (what it is about, in words) and a `weight`; both, and all other fields, go into its row.
//!
//! ```json
//! {
//!   "id": "check", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": "greeting",
//!   "criteria": [
//!     {"type": "probe_file_contains", "paths": ["hello.txt"], "expected": "hello"},
//!     {"type": "command_succeeds", "argv": ["test", "-s", "hello.txt"], "weight": 2}
//!   ],
//!   "score_aggregator": "weighted_average"
//! }
//! ```
//!
//! # What it gives
//!
//! `metadata.verifications.<verifier_id>`: the rows as `results`, and the `score`. What commands write goes to the log.
//!
//! # What is in its key
//!
//! Its fields and the state of the sandbox.
//!
//! # Effects
//!
//! A verifier with a command may change the sandbox, so the state is compared before and after. One without only looks.
//!
//! # Differences to agent-env
//!
//! - Criteria are looked at together, not one after another; the rows stand in their order all the same. Commands that
//!   must not run together belong in one command, or in two steps.
//! - A criterion of an unknown type is refused; `agent-env` passes over it, so a misspelt check is no check.
//! - A pattern that is no regular expression and an empty list of paths are refused: they could never pass.
//! - `command_succeeds` is new. Values from outside, such as seeds, are safe in its `argv`.
//! - `verifier_id` is the step's id where absent; `agent-env` makes one up by chance.
//! - When the sandbox itself fails, the step fails; no criterion is blamed for it.
//! - A verification in which a command was stopped at its time limit counts in this run only: the next run looks again.

use std::sync::OnceLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pattern::{self, Flags, Pattern};
use super::score::{self, Aggregator};
use super::shown::{head, shown};
use super::target::{DEFAULT_AGENT, Room, Target, below, given};
use super::together;
use crate::context::{Entry, Output, Place};
use crate::diagnostic::nearest;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::{BoxFuture, Exec, Exited, How, Probe, Sandbox, SandboxError};
use crate::step::{
    NameRef, Refusal, Step, StepCx, StepError, StepType, Stream, read_fields, schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `verify_sandbox`.
pub static TYPE: StepType = StepType {
    name: "verify_sandbox",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("verify_sandbox.rs"),
    schema: OnceLock::new(),
};

/// The largest file that is searched, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// Number of bytes kept of each stream of a command, from its end.
const KEEP: usize = 1 << 20;
/// Number of characters of a message that go into a row.
const MAX_SHOWN: usize = 200;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// What is checked; without criteria the score is 0.
    #[serde(default)]
    criteria: Vec<Criterion>,
    /// The agent in whose sandbox is looked.
    agent_name: Option<String>,
    /// The sandbox in which is looked.
    sandbox_name: Option<String>,
    /// The folder in which commands run and below which relative paths are.
    #[serde(default = "app")]
    #[schemars(length(min = 1))]
    base_dir: String,
    /// Time after which a command is stopped and its row has not passed, in seconds.
    #[serde(default = "two_minutes")]
    #[schemars(range(min = 1, max = 604_800))]
    shell_timeout_seconds: u64,
    /// How the rows become a score.
    #[serde(default = "all_pass")]
    score_aggregator: Aggregator,
    /// The name of this verification; the step's id where absent.
    verifier_id: Option<String>,
}

/// One thing that is checked.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Criterion {
    /// Something is at every path.
    ProbeFileExists {
        /// The paths.
        #[schemars(length(min = 1))]
        paths: Vec<String>,
        #[serde(flatten)]
        more: More,
    },
    /// A folder is at every path.
    ProbeDirExists {
        /// The paths.
        #[schemars(length(min = 1))]
        paths: Vec<String>,
        #[serde(flatten)]
        more: More,
    },
    /// A file has a match of a regular expression.
    ProbeFileContains {
        /// The path of the file; more than the first count for nothing.
        #[schemars(length(min = 1))]
        paths: Vec<String>,
        /// The regular expression.
        #[serde(skip_serializing_if = "Option::is_none")]
        expected: Option<String>,
        /// The older spelling of `expected`.
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        #[serde(flatten)]
        more: More,
    },
    /// A script exits with 0 in `bash`.
    BashCmdSucceeds {
        /// The script.
        #[schemars(length(min = 1))]
        bash_cmd: String,
        #[serde(flatten)]
        more: More,
    },
    /// A program exits with 0, started without a shell.
    CommandSucceeds {
        /// The program and its arguments.
        #[schemars(length(min = 1))]
        argv: Vec<String>,
        #[serde(flatten)]
        more: More,
    },
}

/// What every criterion may have.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct More {
    /// What the criterion is about, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    criterion: Option<String>,
    /// How much the row counts in a weighted average.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

fn app() -> String {
    "/app".to_owned()
}

fn two_minutes() -> u64 {
    120
}

fn all_pass() -> Aggregator {
    Aggregator::AllPass
}

impl Criterion {
    fn parts(&self) -> (&More, &'static [&'static str]) {
        match self {
            Criterion::ProbeFileExists { more, .. } | Criterion::ProbeDirExists { more, .. } => {
                (more, &["type", "criterion", "weight", "paths"])
            }
            Criterion::ProbeFileContains { more, .. } => (
                more,
                &["type", "criterion", "weight", "paths", "expected", "value"],
            ),
            Criterion::BashCmdSucceeds { more, .. } => {
                (more, &["type", "criterion", "weight", "bash_cmd"])
            }
            Criterion::CommandSucceeds { more, .. } => {
                (more, &["type", "criterion", "weight", "argv"])
            }
        }
    }

    fn runs_command(&self) -> bool {
        matches!(
            self,
            Criterion::BashCmdSucceeds { .. } | Criterion::CommandSucceeds { .. }
        )
    }
}

/// A criterion, ready to be looked at.
#[derive(Debug)]
enum Check {
    /// Something is there.
    Exists(Vec<String>),
    /// A folder is there.
    Folder(Vec<String>),
    /// A file has a match.
    Contains {
        path: String,
        pattern: Pattern,
        written: String,
    },
    /// A command exits with 0.
    Succeeds(Exec),
}

#[derive(Debug)]
struct VerifySandbox {
    fields: Fields,
    room: Room,
    verifier_id: String,
    checks: Vec<Check>,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let target = Target {
        sandbox_name: given(&fields.sandbox_name),
        agent_name: given(&fields.agent_name),
        ..Target::default()
    };
    let (room, mut refusals) = match target.room("looks into", Some(DEFAULT_AGENT)) {
        Ok(room) => (Some(room), Vec::new()),
        Err(refusals) => (None, refusals),
    };
    let mut checks = Vec::with_capacity(fields.criteria.len());
    for (at, criterion) in fields.criteria.iter().enumerate() {
        let (more, known) = criterion.parts();
        for key in more.other.keys() {
            if let Some(meant) = nearest(key, known.iter().copied()) {
                refusals.push(
                    Refusal::new(
                        "unknown-field",
                        format!("/criteria/{at}/{key}"),
                        format!("criterion {} has no field `{key}`", at + 1),
                    )
                    .help(format!("did you mean `{meant}`?")),
                );
            }
        }
        match check(criterion, &fields) {
            Ok(check) => checks.push(check),
            Err((field, written, why)) => {
                refusals.push(pattern::refuse(
                    format!("/criteria/{at}/{field}"),
                    &written,
                    &why,
                ));
            }
        }
    }
    let room = match room {
        Some(room) if refusals.is_empty() => room,
        _ => return Err(refusals),
    };
    let verifier_id = given(&fields.verifier_id)
        .unwrap_or(step.as_str())
        .to_owned();
    Ok(Box::new(VerifySandbox {
        fields,
        room,
        verifier_id,
        checks,
    }))
}

/// Makes a criterion ready; else returns the field at fault, its pattern, and what is wrong with it.
fn check(criterion: &Criterion, fields: &Fields) -> Result<Check, (&'static str, String, String)> {
    let all = |paths: &[String]| {
        paths
            .iter()
            .map(|path| below(&fields.base_dir, path))
            .collect()
    };
    let command = |exec: Exec| {
        let limit = Duration::from_secs(fields.shell_timeout_seconds);
        Check::Succeeds(exec.cwd(&fields.base_dir).timeout(limit).keep(KEEP))
    };
    Ok(match criterion {
        Criterion::ProbeFileExists { paths, .. } => Check::Exists(all(paths)),
        Criterion::ProbeDirExists { paths, .. } => Check::Folder(all(paths)),
        Criterion::ProbeFileContains {
            paths,
            expected,
            value,
            ..
        } => {
            let field = if expected.is_none() && value.is_some() {
                "value"
            } else {
                "expected"
            };
            let written = expected
                .as_ref()
                .or(value.as_ref())
                .cloned()
                .unwrap_or_default();
            match Pattern::new(&written, Flags::default()) {
                Ok(pattern) => {
                    let path = below(&fields.base_dir, paths.first().map_or("", String::as_str));
                    Check::Contains {
                        path,
                        pattern,
                        written,
                    }
                }
                Err(why) => return Err((field, written, why)),
            }
        }
        Criterion::BashCmdSucceeds { bash_cmd, .. } => command(Exec::bash(bash_cmd)),
        Criterion::CommandSucceeds { argv, .. } => command(Exec::argv(argv.iter().cloned())),
    })
}

/// What looking at a criterion came to.
struct Found {
    passed: bool,
    why: String,
    /// The command, where there was one.
    exited: Option<Exited>,
}

impl Found {
    fn of(passed: bool, why: impl Into<String>) -> Self {
        Found {
            passed,
            why: why.into(),
            exited: None,
        }
    }
}

async fn look(check: &Check, sandbox: &dyn Sandbox) -> Result<Found, StepError> {
    match looked(check, sandbox).await {
        Ok(found) => Ok(found),
        Err(
            error @ (SandboxError::Destroyed { .. }
            | SandboxError::Isolation { .. }
            | SandboxError::Io { .. }),
        ) => Err(error.into()),
        Err(error) => Ok(Found::of(
            false,
            head(&shown(sandbox, &error.to_string()), MAX_SHOWN),
        )),
    }
}

async fn looked(check: &Check, sandbox: &dyn Sandbox) -> Result<Found, SandboxError> {
    match check {
        Check::Exists(paths) => missing(paths, sandbox, |probe| probe != Probe::Missing),
        Check::Folder(paths) => missing(paths, sandbox, |probe| probe == Probe::Dir),
        Check::Contains {
            path,
            pattern,
            written,
        } => {
            let read = together::blocking(|| sandbox.read(path, MAX_FILE))?;
            let Some(bytes) = read else {
                return Ok(Found::of(false, format!("Missing: ['{path}']")));
            };
            Ok(
                match pattern.is_found_in(&String::from_utf8_lossy(&bytes)) {
                    Ok(true) => Found::of(true, format!("contains '{written}'")),
                    Ok(false) => Found::of(false, format!("does not contain '{written}'")),
                    Err(why) => Found::of(false, why),
                },
            )
        }
        Check::Succeeds(exec) => {
            let exited = sandbox.exec(exec.clone()).await?;
            let stderr = head(&shown(sandbox, &exited.stderr.text()), MAX_SHOWN);
            let (passed, why) = match exited.how {
                How::Code(code) => (code == 0, format!("exit={code}; stderr={stderr}")),
                How::Signal(signal) => (false, format!("signal={signal}; stderr={stderr}")),
                How::TimedOut => {
                    let limit = exec.timeout.unwrap_or_default().as_secs();
                    (false, format!("stopped after {limit} s; stderr={stderr}"))
                }
                How::Cancelled => {
                    return Err(SandboxError::Destroyed {
                        id: sandbox.id().to_owned(),
                    });
                }
            };
            Ok(Found {
                passed,
                why,
                exited: Some(exited),
            })
        }
    }
}

fn missing(
    paths: &[String],
    sandbox: &dyn Sandbox,
    fits: impl Fn(Probe) -> bool,
) -> Result<Found, SandboxError> {
    let mut missing = Vec::new();
    for path in paths {
        if !fits(sandbox.probe(path)?) {
            missing.push(format!("'{path}'"));
        }
    }
    Ok(if missing.is_empty() {
        Found::of(true, "all there")
    } else {
        Found::of(false, format!("Missing: [{}]", missing.join(", ")))
    })
}

impl VerifySandbox {
    async fn verify(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let sandbox = self.room.open(cx)?;
        let looks = self
            .checks
            .iter()
            .map(|check| -> BoxFuture<'_, _> { Box::pin(look(check, &*sandbox)) })
            .collect();
        let mut rows = Vec::new();
        for (at, found) in together::all(looks).await.into_iter().enumerate() {
            let found = found?;
            if !found.passed {
                cx.note(&format!("criterion {}: {}", at + 1, found.why));
            }
            if found
                .exited
                .as_ref()
                .is_some_and(|exited| exited.how == How::TimedOut)
            {
                cx.services
                    .do_not_keep("a command was stopped at `shell_timeout_seconds`");
            }
            if let Some(exited) = &found.exited {
                for (stream, captured) in [
                    (Stream::Stdout, &exited.stdout),
                    (Stream::Stderr, &exited.stderr),
                ] {
                    if captured.dropped > 0 {
                        cx.note(&format!(
                            "[{} bytes of output before this are left out]",
                            captured.dropped
                        ));
                    }
                    cx.services.log(stream, &captured.bytes);
                }
            }
            rows.push(row(&self.fields.criteria[at], at, &found));
        }
        let score = self.fields.score_aggregator.score(&rows);
        let place = Place::Set(vec!["verifications".to_owned(), self.verifier_id.clone()]);
        let value = json!({"results": rows, "score": score});
        Ok(Output::of(vec![Entry::data(place, value)]))
    }
}

fn row(criterion: &Criterion, at: usize, found: &Found) -> Value {
    let mut row = json!(criterion);
    row["criterion_index"] = at.into();
    row["score"] = if found.passed { 1.0 } else { 0.0 }.into();
    row["result"] = found.passed.into();
    row["justification"] = found.why.as_str().into();
    row["skipped"] = false.into();
    row
}

impl Step for VerifySandbox {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["verifier_id"] = Value::String(self.verifier_id.clone());
        if let Room::Sandbox(_) = self.room {
            // Filled in by the original where nothing is written.
            fields["agent_name"] = Value::Null;
        }
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        let runs_command = self.fields.criteria.iter().any(Criterion::runs_command);
        let touch = if runs_command {
            Touch::MayMutate
        } else {
            Touch::Observes
        };
        vec![(self.room.resource(), touch)]
    }

    fn reads(&self) -> Vec<NameRef> {
        vec![self.room.read()]
    }

    fn programs(&self) -> Vec<(String, String)> {
        // The sandbox of an agent may have programs of its own.
        if given(&self.fields.sandbox_name).is_none() {
            return Vec::new();
        }
        let criteria = self.fields.criteria.iter().enumerate();
        let named = criteria.filter_map(|(at, criterion)| match criterion {
            Criterion::CommandSucceeds { argv, .. } => {
                Some((format!("/criteria/{at}/argv/0"), argv.first()?.clone()))
            }
            _ => None,
        });
        named.collect()
    }

    fn reads_are_all(&self) -> bool {
        true
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![score::provides(&self.fields.verifier_id, &self.verifier_id)]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.verify(cx))
    }
}

#[cfg(test)]
mod tests;
