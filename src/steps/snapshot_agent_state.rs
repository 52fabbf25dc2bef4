//! Keeps what an agent has made of its work: the files of its sandbox and, with an env, the state of that.
//!
//! ```json
//! {"id": "keep", "type": "snapshot_agent_state", "agent_name": "assistant", "prompt_id": "reply", "env_id": "email",
//!  "universe_artifact_id": "after-the-reply", "depends_on": ["reply"]}
//! ```
//!
//! # What it gives
//!
//! An entry in `metadata.agent_snapshots` with the `bundle_object_url`: a JSON file that lists the files below `/app`, each
//! with its path, mode and the address of its bytes in the store. With `env_id` also `metadata.snapshot_json_url`, the JSON
//! text of an object that leads from the env to its state.
//!
//! # What is in its key
//!
//! Its fields, its id, the reply, and the state of the agent's sandbox and of the env.
//!
//! # Effects
//!
//! None: it looks.
//!
//! # Differences to agent-env
//!
//! - The bundle is made of the agent's sandbox here; a snapshot extension of the agent is not asked.
//! - An agent that uses no sandbox has a bundle without files.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{CONFLICT, DEFAULT_AGENT, Room, given};
use super::{object_url, on_env, reply, together, universe};
use crate::context::{Lookup, Output};
use crate::digest::Digest;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::env::LiveEnv;
use crate::step::sandbox::{BoxFuture, Sandbox, SandboxError};
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `snapshot_agent_state`.
pub static TYPE: StepType = StepType {
    name: "snapshot_agent_state",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("snapshot_agent_state.rs"),
    schema: OnceLock::new(),
};

/// The folder of which the files are kept.
const BASE: &str = "/app";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The prompt after which it is.
    #[schemars(length(min = 1))]
    prompt_id: String,
    /// The id of what is kept; made of the step's id and the content where absent.
    artifact_id: Option<String>,
    /// The agent.
    #[serde(default = "default_agent")]
    #[schemars(length(min = 1))]
    agent_name: String,
    /// The env whose state is kept too.
    env_id: Option<String>,
    /// The id of the state of the env.
    universe_artifact_id: Option<String>,
    /// How long the env may take to export its state, in seconds.
    #[serde(default = "two_minutes")]
    #[schemars(range(min = 1))]
    timeout_seconds: u64,
}

fn default_agent() -> String {
    DEFAULT_AGENT.to_owned()
}

fn two_minutes() -> u64 {
    120
}

#[derive(Debug)]
struct SnapshotAgentState {
    fields: Fields,
    step: String,
    room: Room,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    if given(&fields.env_id).is_some() != given(&fields.universe_artifact_id).is_some() {
        let field = match given(&fields.env_id) {
            Some(_) => "/env_id",
            None => "/universe_artifact_id",
        };
        let what =
            "`env_id` and `universe_artifact_id` belong together, and one of them is missing";
        let refusal = Refusal::new(CONFLICT, field, what).help("write both, or neither");
        return Err(vec![refusal]);
    }
    Ok(Box::new(SnapshotAgentState {
        room: Room::Agent(fields.agent_name.clone()),
        step: step.as_str().to_owned(),
        fields,
    }))
}

impl SnapshotAgentState {
    async fn snapshot(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let asked = reply::find(cx, &self.fields.prompt_id)?;
        let sandbox = self.room.open(cx)?;
        let context_id = asked.get("a2a_context_id").cloned().unwrap_or_default();
        let bundle = bundle(cx, Some(&*sandbox), &self.fields.agent_name)?;
        let id = given(&self.fields.artifact_id).map(str::to_owned);
        let value = json!({
            "id": id.unwrap_or(bundle.id),
            "version": 1,
            "bundle_object_url": bundle.url,
            "source_agent_name": self.fields.agent_name,
            "source_context_id": context_id,
            "capture_step_id": self.step,
        });
        let mut entries = vec![on_env::append("agent_snapshots", value)];
        if let Some(env_id) = given(&self.fields.env_id) {
            let env = cx.env(env_id)?;
            let url = state_of(cx, &*env, self.fields.timeout_seconds).await?;
            let mut services = Map::new();
            services.insert(universe::name_of(&*env), url.into());
            let text = Value::Object(services).to_string();
            entries.push(on_env::set(&["snapshot_json_url"], text.into()));
            let universe = json!({"id": self.fields.universe_artifact_id, "version": 1});
            entries.push(on_env::set(
                &["env_snapshotted_universes", &self.step],
                universe,
            ));
        }
        Ok(Output::of(entries))
    }
}

/// What is kept of the files of an agent.
pub(super) struct Bundle {
    /// The id that the content gives it.
    pub(super) id: String,
    /// Where the list of its files is kept.
    pub(super) url: String,
}

/// Keeps the files of an agent; one without a sandbox has none.
pub(super) fn bundle(
    cx: StepCx<'_>,
    sandbox: Option<&dyn Sandbox>,
    agent: &str,
) -> Result<Bundle, StepError> {
    let files = match sandbox {
        Some(sandbox) => together::blocking(|| kept_files(cx, sandbox))?,
        None => Vec::new(),
    };
    let bundle = json!({"version": 1, "base_path": BASE, "files": files});
    let bytes = bundle.to_string().into_bytes();
    cx.note(&format!("kept {} files of `{agent}`", files.len()));
    Ok(Bundle {
        id: format!(
            "@local/snapshots/{}-{}",
            cx.step,
            Digest::of_bytes(&bytes).short()
        ),
        url: cx.services.keep(&bytes)?.url(),
    })
}

/// Keeps the state of an env, and returns where.
pub(super) async fn state_of(
    cx: StepCx<'_>,
    env: &dyn LiveEnv,
    limit: u64,
) -> Result<String, StepError> {
    let env_id = env.env_id();
    let what = format!("the export of env `{env_id}`");
    let parts = on_env::within(limit, "timeout_seconds", &what, env.export()).await?;
    let kept = together::blocking(|| {
        let (_, bytes) = universe::file_of(&parts).map_err(|why| {
            let why = format!("the state of env `{env_id}` cannot be kept: {why}");
            StepError::of("EnvError", why)
        })?;
        cx.services.keep(&bytes)
    })?;
    Ok(kept.url())
}

/// Keeps the files of a sandbox, and returns a row for each, sorted by path.
fn kept_files(cx: StepCx<'_>, sandbox: &dyn Sandbox) -> Result<Vec<Value>, StepError> {
    let listed = match sandbox.list(BASE) {
        Ok(listed) => listed,
        Err(SandboxError::NoSuchPath { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let scratch = cx.services.scratch()?;
    let mut rows = Vec::with_capacity(listed.len());
    for (at, file) in listed.iter().enumerate() {
        let to = scratch.join(at.to_string());
        sandbox.fetch(&format!("{BASE}/{}", file.path), &to)?;
        let stored = cx.services.keep_file(&to)?;
        let mode = format!("{:o}", file.mode & 0o7777);
        rows.push(json!({"path": file.path, "mode": mode, "object_url": object_url::of(&stored)}));
    }
    rows.sort_by(|a, b| a["path"].as_str().cmp(&b["path"].as_str()));
    Ok(rows)
}

impl Step for SnapshotAgentState {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = Value::String(self.step.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        let mut touched = vec![(self.room.resource(), Touch::Observes)];
        if let Some(env_id) = given(&self.fields.env_id) {
            touched.extend(on_env::touches(env_id, Touch::Observes));
        }
        touched
    }

    fn reads(&self) -> Vec<NameRef> {
        let mut reads = vec![
            self.room.read(),
            NameRef {
                field: "/prompt_id".to_owned(),
                lookup: Lookup::Prompt(self.fields.prompt_id.clone()),
            },
        ];
        if let Some(env_id) = given(&self.fields.env_id) {
            reads.extend(on_env::reads(env_id));
        }
        reads
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.snapshot(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{
        FakeEnv, FakeSandbox, FakeServices, Mute, build_step, refused, run, show,
    };
    use expect_test::expect;
    use std::sync::Arc;

    #[test]
    fn the_files_of_an_agent_and_the_state_of_an_env_are_kept() {
        let env = FakeEnv::new("email").state(json!([{"kind": "data", "data": {"emails": []}}]));
        let world = FakeServices::new()
            .agent(Arc::new(Mute("assistant")), &["email"])
            .with(
                FakeSandbox::new("agent assistant")
                    .file("/app/b.txt", "b")
                    .file("/app/a/c.txt", "c"),
            )
            .env(env)
            .reply("reply", json!({"response": "done", "a2a_context_id": "c1"}));
        let fields = json!({"agent_name": "assistant", "prompt_id": "reply", "env_id": "email", "universe_artifact_id": "after"});
        let output = run(&*build_step(&TYPE, "keep", fields), "keep", &world).unwrap();
        let shown = show(&output);
        assert!(shown.contains(r#""source_context_id":"c1""#), "{shown}");
        assert!(
            shown.contains(
                r#"metadata.env_snapshotted_universes.keep = {"id":"after","version":1}"#
            ),
            "{shown}"
        );
        assert_eq!(shown.matches("aebuild:sha256:").count(), 2, "{shown}");
        assert!(world.log_text().contains("kept 2 files of `assistant`"));
    }

    #[test]
    fn an_env_and_the_id_of_its_state_belong_together() {
        expect![[r#"
            conflicting-fields /env_id: `env_id` and `universe_artifact_id` belong together, and one of them is missing (write both, or neither)
        "#]].assert_eq(&refused(
            &TYPE,
            json!({"prompt_id": "p", "env_id": "email"}),
        ));
    }
}
