//! Keeps the state of an env, so that later steps and later runs can load it.
//!
//! ```json
//! {"id": "after", "type": "snapshot_env", "env_id": "mail", "include_env_trajectory": true}
//! ```
//!
//! A later step loads it again with `"type": "load_artifact", "artifact_from_step_id": "after"`.
//!
//! # What it gives
//!
//! `metadata.env_snapshotted_universes.<step id>`: an environment universe with one file.
//!
//! ```json
//! {"id": "@local/snapshots/after-2f6a01c3d9be", "version": 1,
//!  "environments": {"mail": {"file": "mail.json", "object_url": "aebuild:sha256:..:1312"}}}
//! ```
//!
//! The id is `snapshot_id` where the step has one; else it is made of the step's id and the content. The environment is
//! named as the env's card names it. The file is the env's data: `.json` where the env gives an object, the file itself
//! where it gives a file, and `.parts.json`, the list of parts, where it gives something else.
//!
//! With `include_env_trajectory` also `metadata.env_trajectory.<env_id>`, the calls that were recorded since the env was
//! made, as JSON lines. With `include_env_changes` also `metadata.env_changes.<env_id>`, which says that there is no change
//! log. Neither can fail the step.
//!
//! # What is in its key
//!
//! Its fields, its id and the state of the env.
//!
//! # Effects
//!
//! None: it only reads the env.
//!
//! # Differences to agent-env
//!
//! - `env_id` is needed, also where only one env is deployed: what a step touches must be known before it runs. With it,
//!   `env_step_id` says nothing more.
//! - `env_instance_id` and `gateway_url` are refused: they name what another run left.
//! - Nothing is uploaded: the file is in the store, and the universe is in the context only.
//! - `original_universe_artifact_id` is accepted and does nothing: universes have no files about themselves.
//! - Envs have no change log, and `captured_at_utc` is null, so that the same state gives the same result.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{MISSING, NOT_YET, given};
use super::{on_env, together, universe};
use crate::context::Output;
use crate::digest::Digest;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::env::LiveEnv;
use crate::step::sandbox::BoxFuture;
use crate::step::{
    Determinism, NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `snapshot_env`.
pub static TYPE: StepType = StepType {
    name: "snapshot_env",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("snapshot_env.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env whose state is kept.
    env_id: Option<String>,
    /// An env of another run.
    env_instance_id: Option<String>,
    /// The step that deployed the env.
    env_step_id: Option<String>,
    /// The address of an env of another run.
    gateway_url: Option<String>,
    /// The id of the universe; made of the step's id and the content where absent.
    snapshot_id: Option<String>,
    /// The universe that the env was loaded with.
    original_universe_artifact_id: Option<String>,
    /// How long the env may take to export its state, in seconds.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 1))]
    export_timeout_seconds: u64,
    /// Whether the recorded calls are kept too.
    #[serde(default)]
    include_env_trajectory: bool,
    /// Whether the change log is kept too.
    #[serde(default)]
    include_env_changes: bool,
}

fn ten_minutes() -> u64 {
    600
}

#[derive(Debug)]
struct SnapshotEnv {
    fields: Fields,
    step: String,
    env_id: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    let elsewhere = [
        ("env_instance_id", &fields.env_instance_id),
        ("gateway_url", &fields.gateway_url),
    ];
    for (field, value) in elsewhere {
        if let Some(value) = given(value) {
            refusals.push(
                Refusal::new(
                    NOT_YET,
                    format!("/{field}"),
                    format!("env `{value}` of another run cannot be used in this release"),
                )
                .help(format!(
                    "delete `{field}` and name an env that this task deploys with `env_id`"
                )),
            );
        }
    }
    let env_id = given(&fields.env_id);
    if env_id.is_none() && refusals.is_empty() {
        refusals.push(
            Refusal::new(MISSING, "", "the step does not say which env it keeps").help(
                "add \"env_id\": \"..\" with the id of an env that a `deploy_env` step deploys",
            ),
        );
    }
    match env_id {
        Some(env_id) if refusals.is_empty() => Ok(Box::new(SnapshotEnv {
            env_id: env_id.to_owned(),
            step: step.as_str().to_owned(),
            fields,
        })),
        _ => Err(refusals),
    }
}

/// Returns a name as a file may have it.
fn file_name(name: &str) -> String {
    let plain = |c: char| match c {
        '.' | '-' | '_' => c,
        c if c.is_alphanumeric() => c,
        _ => '-',
    };
    name.chars().map(plain).collect()
}

impl SnapshotEnv {
    fn trajectory(&self, cx: StepCx<'_>, env: &dyn LiveEnv) -> Value {
        let kept = env.trajectory().map_err(StepError::from).and_then(|lines| {
            let events = lines
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.trim_ascii().is_empty());
            Ok((cx.services.keep(&lines)?, events.count()))
        });
        let mut value = json!({"captured_at_utc": null, "capture_step_id": self.step});
        match kept {
            Ok((file, events)) => {
                value["object_url"] = file.url().into();
                value["event_count"] = events.into();
            }
            Err(error) => {
                cx.services.do_not_keep("the recorded calls are not in it");
                cx.note(&format!("the recorded calls could not be kept: {error}"));
                value["error"] = error.to_string().into();
            }
        }
        value
    }

    async fn snapshot(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let env_id = &self.env_id;
        let env = cx.env(env_id)?;
        if !env.can_export() {
            return Err(StepError::of(
                "EnvError",
                format!(
                    "env `{env_id}` cannot export its state: its server has no data plane, and `state` in aebuild.toml \
                     cannot make up for it; let the server answer `data/get` at the `url` of its agent-env card"
                ),
            ));
        }
        let mut entries = Vec::new();
        if self.fields.include_env_trajectory {
            let value = self.trajectory(cx, &*env);
            entries.push(on_env::set(&["env_trajectory", env_id], value));
        }
        if self.fields.include_env_changes {
            let value = json!({
                "captured_at_utc": null,
                "capture_step_id": self.step,
                "error": format!("env `{env_id}` has no change log"),
            });
            entries.push(on_env::set(&["env_changes", env_id], value));
        }
        let what = format!("the export of env `{env_id}`");
        let limit = self.fields.export_timeout_seconds;
        let parts = on_env::within(limit, "export_timeout_seconds", &what, env.export()).await?;
        // A state may be large, and is read whole.
        let (suffix, bytes, stored) = together::blocking(|| {
            let (suffix, bytes) = universe::file_of(&parts).map_err(|why| {
                let why = format!("the state of env `{env_id}` cannot be kept: {why}");
                StepError::of("EnvError", why)
            })?;
            let stored = cx.services.keep(&bytes)?;
            Ok::<_, StepError>((suffix, bytes, stored))
        })?;
        let name = universe::name_of(&*env);
        let id = match given(&self.fields.snapshot_id) {
            Some(id) => id.to_owned(),
            None => {
                let digest = Digest::of_bytes(&bytes).short();
                format!("@local/snapshots/{}-{digest}", self.step)
            }
        };
        let file = format!("{}{suffix}", file_name(&name));
        cx.note(&format!(
            "kept {} bytes of env `{env_id}` as `{file}`",
            bytes.len()
        ));
        let mut environments = Map::new();
        environments.insert(name, json!({"file": file, "object_url": stored.url()}));
        let value = json!({"id": id, "version": 1, "environments": environments});
        entries.push(on_env::set(
            &["env_snapshotted_universes", &self.step],
            value,
        ));
        Ok(Output::of(entries))
    }
}

impl Step for SnapshotEnv {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = Value::String(self.step.clone());
        fields
    }

    fn determinism(&self) -> Determinism {
        // When each call was made is never the same again.
        match self.fields.include_env_trajectory {
            true => Determinism::Sampled,
            false => Determinism::Pure,
        }
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        on_env::touches(&self.env_id, Touch::Observes)
    }

    fn reads(&self) -> Vec<NameRef> {
        on_env::reads(&self.env_id)
    }

    fn provides(&self) -> Vec<NameRef> {
        let mut names = vec![on_env::provides(&["env_snapshotted_universes", &self.step])];
        if self.fields.include_env_trajectory {
            names.push(on_env::provides(&["env_trajectory", &self.env_id]));
        }
        if self.fields.include_env_changes {
            names.push(on_env::provides(&["env_changes", &self.env_id]));
        }
        names
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.snapshot(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeEnv, FakeServices, build_step, misfits, refused, run, show};
    use expect_test::expect;

    fn mail() -> FakeEnv {
        FakeEnv::new("mail").state(json!([{"kind": "data", "data": {"inbox": ["hi"]}}]))
    }

    fn snapshot(env: FakeEnv, fields: Value) -> String {
        let world = FakeServices::new().env(env);
        match run(&*build_step(&TYPE, "after", fields), "after", &world) {
            Ok(output) => show(&output) + &world.log_text(),
            Err(error) => format!("{error}\n{}", world.log_text()),
        }
    }

    #[test]
    fn the_state_of_an_env_is_kept_as_a_universe() {
        expect![[r#"
            metadata.env_snapshotted_universes.after = {"environments":{"mail":{"file":"mail.json","object_url":"aebuild:sha256:da7ddc51f65d024efb3ff5becde3a0174d770a659d5fc91d76da517bc81f12c4:16"}},"id":"@local/snapshots/after-da7ddc51f65d","version":1}
            Note: kept 16 bytes of env `mail` as `mail.json`
        "#]]
        .assert_eq(&snapshot(mail(), json!({"env_id": "mail"})));
        let fields = json!({"env_id": "mail", "env_step_id": "deploy", "snapshot_id": "mine"});
        let named = mail().card(json!({"name": "My mail/2"}));
        expect![[r#"
            metadata.env_snapshotted_universes.after = {"environments":{"My mail/2":{"file":"My-mail-2.json","object_url":"aebuild:sha256:da7ddc51f65d024efb3ff5becde3a0174d770a659d5fc91d76da517bc81f12c4:16"}},"id":"mine","version":1}
            Note: kept 16 bytes of env `mail` as `My-mail-2.json`
        "#]]
        .assert_eq(&snapshot(named, fields));
    }

    #[test]
    fn a_state_that_is_no_object_is_kept_as_it_is() {
        let two = json!([{"kind": "text", "text": "a"}, {"kind": "data", "data": {}}]);
        expect![[r#"
            metadata.env_snapshotted_universes.after = {"environments":{"mail":{"file":"mail.parts.json","object_url":"aebuild:sha256:b770f664e3ae5f2cfb4ad9115f41ff169c546cb83c68067ec0cd1452b72d8669:54"}},"id":"@local/snapshots/after-b770f664e3ae","version":1}
            Note: kept 54 bytes of env `mail` as `mail.parts.json`
        "#]]
        .assert_eq(&snapshot(mail().state(two), json!({"env_id": "mail"})));
        let link = json!([{"kind": "file", "file": {"uri": "s3://bucket/x"}}]);
        expect![[r#"
            EnvError: the state of env `mail` cannot be kept: a file of the state has no bytes; it is at `s3://bucket/x`
        "#]]
        .assert_eq(&snapshot(mail().state(link), json!({"env_id": "mail"})));
    }

    #[test]
    fn the_recorded_calls_come_with_it() {
        let fields =
            json!({"env_id": "mail", "include_env_trajectory": true, "include_env_changes": true});
        let env = mail().recorded("{\"event\":\"tool_call\"}\n{\"event\":\"tool_call_result\"}\n");
        expect![[r#"
            metadata.env_trajectory.mail = {"capture_step_id":"after","captured_at_utc":null,"event_count":2,"object_url":"aebuild:sha256:b91bfe70f6a60f9ec1b3a74414d977f6b958a8621d2a2d89167bcaae2afd84e7:51"}
            metadata.env_changes.mail = {"capture_step_id":"after","captured_at_utc":null,"error":"env `mail` has no change log"}
            metadata.env_snapshotted_universes.after = {"environments":{"mail":{"file":"mail.json","object_url":"aebuild:sha256:da7ddc51f65d024efb3ff5becde3a0174d770a659d5fc91d76da517bc81f12c4:16"}},"id":"@local/snapshots/after-da7ddc51f65d","version":1}
            Note: kept 16 bytes of env `mail` as `mail.json`
        "#]]
        .assert_eq(&snapshot(env, fields));
    }

    #[test]
    fn an_env_that_cannot_export_says_what_it_lacks() {
        expect![[r#"
            EnvError: env `mail` cannot export its state: its server has no data plane, and `state` in aebuild.toml cannot make up for it; let the server answer `data/get` at the `url` of its agent-env card
        "#]]
        .assert_eq(&snapshot(mail().opaque(), json!({"env_id": "mail"})));
    }

    #[test]
    fn the_env_is_one_of_this_task_and_named() {
        let cases = [
            json!({}),
            json!({"env_step_id": "deploy", "env_id": " "}),
            json!({"env_instance_id": "mail-1"}),
            json!({"env_id": "mail", "gateway_url": "http://localhost:1"}),
        ];
        expect![[r#"
            missing-field : the step does not say which env it keeps (add "env_id": ".." with the id of an env that a `deploy_env` step deploys)
            missing-field : the step does not say which env it keeps (add "env_id": ".." with the id of an env that a `deploy_env` step deploys)
            not-supported-yet /env_instance_id: env `mail-1` of another run cannot be used in this release (delete `env_instance_id` and name an env that this task deploys with `env_id`)
            not-supported-yet /gateway_url: env `http://localhost:1` of another run cannot be used in this release (delete `gateway_url` and name an env that this task deploys with `env_id`)
        "#]]
        .assert_eq(&cases.map(|fields| refused(&TYPE, fields)).concat());
        let fields = json!({"env_id": "mail", "export_timeout_seconds": 0, "snapshot": "x"});
        expect![[r#"
            out-of-range: `export_timeout_seconds` of step is 0, but must be at least 1 (write a number at least 1)
            unknown-field: step has no field `snapshot` (did you mean `snapshot_id`?)
        "#]]
        .assert_eq(&misfits(&TYPE, fields));
    }
}
