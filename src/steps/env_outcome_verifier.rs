//! Checks what a run left in an env, and scores what it finds.
//!
//! ```json
//! {
//!   "id": "outcome", "type": "env_outcome_verifier", "env_id": "email",
//!   "file_artifact_id": "answered-dana", "prompt_id": "reply"
//! }
//! ```
//!
//! The artifact is a file or a folder of files. The file at which the verifier begins decides what it is:
//!
//! | the only file is | or, of several, it is named | it is |
//! |---|---|---|
//! | `*.toml` | `verify.toml` | a list of expectations; needs nothing installed |
//! | `*.py` | `verify.py` or `verifier.py`, or is the only `.py` file | a Python file with a function `verify` |
//! | executable | `verify` | any program |
//!
//! # Expectations
//!
//! ```toml
//! [[expect]]
//! id = "sent-to-dana"
//! description = "an answer went to Dana"
//! weight = 2
//! state = "$.emails[?@.folder == 'sent'].to"
//! contains = "dana"
//!
//! [[expect]]
//! call = { tool = "search_emails", arguments = { query = "from:dana" } }
//! path = "$.emails[*].read"
//! every = true
//! equals = true
//!
//! [[expect]]
//! reply = true
//! matches = "(?i)i (have )?answered dana"
//! ```
//!
//! Each expectation looks at values and gives one row. It looks at one of
//!
//! - `state`: the values at a JSONPath (RFC 9535) of the env's exported state: the object of its part of data, or the list
//!   of its parts where it has none or several. It is the state before the first `call`;
//! - `call`: the values at the JSONPath `path` (default `$`) of what a tool answers. Calls are made in the order of the
//!   file, and the same call is made once. A tool that fails makes the row fail;
//! - `reply = true`: the text of the reply; the step needs `prompt_id`.
//!
//! and wants of them all that it says:
//!
//! | key | holds when |
//! |---|---|
//! | `exists = true` or `false` | there is a value, or none |
//! | `count = 1` or `{ min = 1, max = 3 }` | there are so many values |
//! | `equals` | a value is the same; `1` and `1.0` are |
//! | `contains` | a text has the text, a list the item, an object the key; of a list, all of them |
//! | `matches` | a text has a match of the regular expression, Python's with `DOTALL` |
//! | `at_least`, `at_most` | a value is a number in the range |
//!
//! The last four test a value: one that passes all of them must be there, and with `every = true` each value must pass.
//! `id` is `expect-1` and so on where absent; `weight` is 1. All faults of the file are told at once.
//!
//! # Python
//!
//! ```python
//! # /// script
//! # dependencies = ["fastmcp>=2"]
//! # ///
//! from fastmcp import Client
//!
//! async def verify(mcp_url, run):
//!     async with Client(mcp_url) as env:
//!         found = await env.call_tool("search_emails", {"query": "to:dana"})
//!     said = "Dana" in run.turns[-1].reply.text
//!     return [{"id": "sent", "result": bool(found.data)}, {"id": "said", "result": said}]
//! ```
//!
//! `verify`, which may be `async`, returns a list of rows. It runs in a sandbox of its own, in the folder of the
//! artifact's files. The packages are those of the file's `# /// script` block (PEP 723) and of `requirements.txt`, beside
//! the file or at the top of the artifact. Without either they are `mcp>=1.25,<2`, `fastmcp`, `httpx` and `requests`, as far as a
//! file imports them.
//!
//! A parameter `run` gets what is known of the run that led to the reply of `prompt_id`:
//!
//! | | |
//! |---|---|
//! | `run.turns`, `run.turn(n)` | the turns, the first being 1: `number`, `message`, `reply`, `firings` |
//! | `turn.message`, `turn.reply` | `turn`, `role`, `text`, `sent_at`, `author`, `written_by_triggers`, `user_sim`, `parts`, `env_clock` |
//! | `run.firings(trigger_id=None, env=None)` | the triggers that fired: `trigger_id`, `source` (`env:<id>` or `user_agent`), `turn`, `at`, `virtual_time`, `ok`, `provoked_by` |
//! | `run.firing(..)` | the first of them, or `None` |
//! | `run.as_of(n)` | the run as it was at the end of turn `n` |
//! | `run.unavailable` | what nobody recorded, with the reason |
//!
//! Asking for what nobody recorded raises `RunRecordUnavailable`, which `from aebuild import RunRecordUnavailable` gives:
//! the replies before the last, the firings where no step recorded them, and all of it without `prompt_id`. The times
//! `sent_at`, `env_clock` and `at` are `None`. A firing of an env says by which step it was `provoked_by`; its `turn` is `None`
//! where there is more than one, or where time set it off.
//!
//! # Programs
//!
//! A program gets the same facts as JSON on stdin, `{"env": {"id", "url", "mcp_url"}, "run": {"turns", "firings",
//! "unavailable"}}`, and the env's address as `MCP_URL`. It prints its rows as JSON: a list, or `{"results": [..]}`. Any
//! exit code but 0 fails the step. A Python file finds stdin read to its end, and may print what it likes.
//!
//! # What it gives
//!
//! `metadata.verifications.<verifier_id>`: the rows as `results`, and the `score`. A row has passed if its `result` is
//! `true`; `score` and `weight` count in a `weighted_average`. What a row says in `justification` is shown where it did not
//! pass. A row with neither `result` nor `score`, and a `call` of a tool that the env does not have, are faults of the
//! verifier, and fail the step. A reply that is an error gives one row that did not pass,
//! and the score 0; nothing is run then.
//!
//! # What is in its key
//!
//! Its fields but `timeout_seconds`, the artifact's content, the version of `python3`, the state of the env, and the reply
//! with what is known of its run.
//!
//! # Effects
//!
//! The verifier may change the env, so the state is compared before and after.
//!
//! # Differences to agent-env
//!
//! - Expectations and programs are ours, and so are `timeout_seconds`, the packages, and artifacts of several files.
//! - The verifier runs in a process and a sandbox of its own, not in the runner's.
//! - `verifier_id` is the step's id where absent; `agent-env` makes one up by chance.

mod declared;
mod entry;
mod facts;
mod packages;
mod program;

use std::sync::OnceLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reply;
use super::score::{self, Aggregator};
use super::target::given;
use crate::context::{Lookup, Output, Place};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::env::LiveEnv;
use crate::step::sandbox::BoxFuture;
use crate::step::{
    ArtifactKind, ArtifactRef, Content, Inspected, NameRef, Refusal, Step, StepCx, StepError,
    StepType, read_fields, schema_of,
};
use crate::task::{OnError, StepId};
use entry::Entry;
use program::Job;

/// The step type `env_outcome_verifier`.
pub static TYPE: StepType = StepType {
    name: "env_outcome_verifier",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("env_outcome_verifier.rs"),
    schema: OnceLock::new(),
};

/// The kinds of artifacts that may be a verifier.
const VERIFIER: &[ArtifactKind] = &[ArtifactKind::File, ArtifactKind::FileUniverse];

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env that is checked.
    #[schemars(length(min = 1))]
    env_id: String,
    /// The artifact with the verifier.
    #[schemars(length(min = 1))]
    file_artifact_id: String,
    /// The version of the artifact; one of the task folder has none.
    file_artifact_version: Option<u64>,
    /// How the rows become a score.
    #[serde(default = "all_pass")]
    score_aggregator: Aggregator,
    /// The name of this verification; the step's id where absent.
    verifier_id: Option<String>,
    /// The reply whose run the verifier gets to know.
    prompt_id: Option<String>,
    /// Time after which a Python file or a program is stopped and the step fails, in seconds.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 1, max = 604_800))]
    timeout_seconds: u64,
}

fn all_pass() -> Aggregator {
    Aggregator::AllPass
}

fn ten_minutes() -> u64 {
    600
}

#[derive(Debug)]
struct OutcomeVerifier {
    fields: Fields,
    verifier_id: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let verifier_id = given(&fields.verifier_id)
        .unwrap_or(step.as_str())
        .to_owned();
    Ok(Box::new(OutcomeVerifier {
        fields,
        verifier_id,
    }))
}

impl OutcomeVerifier {
    async fn verify(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let env = cx.env(&self.fields.env_id)?;
        let prompt_id = given(&self.fields.prompt_id);
        let reply = prompt_id.map(|id| reply::find(cx, id)).transpose()?;
        let reply = reply.as_deref();
        if let Some(row) = reply.and_then(reply::error_row) {
            return Ok(self.output(vec![row], 0.0));
        }
        let rows = self.rows(cx, &*env, reply).await?;
        let score = self.fields.score_aggregator.score(&rows);
        Ok(self.output(rows, score))
    }

    async fn rows(
        &self,
        cx: StepCx<'_>,
        env: &dyn LiveEnv,
        reply: Option<&Value>,
    ) -> Result<Vec<Value>, StepError> {
        let content = self.content(cx)?;
        let wrong = |why| StepError::of("ValueError", why);
        let entry = entry::entry(&content).map_err(wrong)?;
        let file = entry.file();
        if let Entry::Declared(file) = entry {
            let (source, faults) = program::text_of(file)?;
            let declared = declared::read(&source, faults, reply.is_some()).map_err(wrong)?;
            return declared.rows(env, reply.map(reply::text)).await;
        }
        let url = env.url().await?;
        let mcp_url = format!("{url}/mcp");
        let run = reply.map_or_else(facts::no_run, |reply| facts::run(cx, reply));
        let env = json!({"id": self.fields.env_id, "url": url, "mcp_url": mcp_url});
        let job = Job {
            cx,
            content: &content,
            file,
            facts: &json!({"env": env, "run": run}).to_string(),
            mcp_url: &mcp_url,
            limit: Duration::from_secs(self.fields.timeout_seconds),
        };
        let given = match entry {
            Entry::Python(_) => job.python().await?,
            _ => job.program().await?,
        };
        program::rows_of(&file.path, given)
    }

    fn content(&self, cx: StepCx<'_>) -> Result<std::sync::Arc<Content>, StepError> {
        let artifact = &self.fields.file_artifact_id;
        let wrong = |what: String| StepError::of("ValueError", what);
        let content = cx.services.artifact(artifact);
        let content = content.ok_or_else(|| wrong(format!("there is no artifact `{artifact}`")))?;
        if VERIFIER.contains(&content.kind) {
            return Ok(content);
        }
        let kind = content.kind.as_str();
        Err(wrong(format!(
            "artifact `{artifact}` is of kind `{kind}`, which is no verifier"
        )))
    }

    fn output(&self, rows: Vec<Value>, score: f64) -> Output {
        let place = Place::Set(vec!["verifications".to_owned(), self.verifier_id.clone()]);
        let value = json!({"results": rows, "score": score});
        Output::of(vec![crate::context::Entry::data(place, value)])
    }
}

impl Step for OutcomeVerifier {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["verifier_id"] = Value::String(self.verifier_id.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        vec![(ResourceId::env(&self.fields.env_id), Touch::MayMutate)]
    }

    fn artifacts(&self) -> Vec<ArtifactRef> {
        vec![ArtifactRef {
            field: "/file_artifact_id".to_owned(),
            name: self.fields.file_artifact_id.clone(),
            wants: VERIFIER,
            has_version: self.fields.file_artifact_version.is_some(),
        }]
    }

    fn reads(&self) -> Vec<NameRef> {
        let mut reads = vec![NameRef {
            field: "/env_id".to_owned(),
            lookup: Lookup::Env(self.fields.env_id.clone()),
        }];
        reads.extend(given(&self.fields.prompt_id).map(|prompt_id| NameRef {
            field: "/prompt_id".to_owned(),
            lookup: Lookup::Prompt(prompt_id.to_owned()),
        }));
        reads
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![score::provides(&self.fields.verifier_id, &self.verifier_id)]
    }

    // What the artifact holds is known when the step runs; expectations need no Python.
    fn tools(&self) -> &'static [&'static str] {
        &["python3"]
    }

    fn inspects(&self) -> bool {
        true
    }

    fn inspect(&self, content: &Content, shown: &str) -> Inspected {
        let mut found = Inspected::default();
        // A kind that is wrong is told by whoever knows where artifacts are named.
        if !VERIFIER.contains(&content.kind) {
            return found;
        }
        match entry::entry(content) {
            Err(why) => {
                let refusal = Refusal::new("not-a-verifier", "/file_artifact_id", why);
                found.refusals.push(refusal);
            }
            Ok(Entry::Declared(file)) => {
                // One that cannot be read is told when its content is taken.
                if let Ok((mut source, faults)) = program::text_of(file) {
                    source.name = format!("{shown}/{}", file.path);
                    let has_reply = given(&self.fields.prompt_id).is_some();
                    let read = declared::check_file(&source, faults, has_reply);
                    found.faults.extend(read.err().into_iter().flatten());
                }
            }
            Ok(Entry::Python(file)) => found.python.push(file.clone()),
            Ok(Entry::Program(_)) => {}
        }
        found
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.verify(cx))
    }
}

#[cfg(test)]
mod tests;
