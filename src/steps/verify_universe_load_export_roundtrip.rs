//! Checks that nothing of an env's data is lost when it is loaded and exported again.
//!
//! The data is loaded and exported (`export1`), and what came out is loaded and exported once more (`export2`).
//!
//! ```json
//! {"id": "roundtrip", "type": "verify_universe_load_export_roundtrip", "env_id": "mail", "universe_artifact_id": "inbox"}
//! ```
//!
//! The artifact is of type `environment`, or an `environment_universe` with a folder named like the env's card or its
//! `env_id`, or with one folder.
//!
//! # What it gives
//!
//! `metadata.verifications.universe_load_export_roundtrip`:
//!
//! | key | says |
//! |---|---|
//! | `compatible` | whether no issue is critical |
//! | `services` | `{compatible, issues}` of the environment, by its name |
//! | `exported_universe_artifact_id` | the id of the universe that `export1` is |
//! | `object_url` | where it is kept |
//! | `file_artifact_universe_id` | with `emit_file_artifact_universe`, the id under which `export1` is collected |
//!
//! An issue is `{pointer, issue, between, was, is, critical}`, where `pointer` is a JSON pointer into the data and `issue` one
//! of `lost`, `added`, `changed` and `other_form`. It is critical where a field of the original is lost, and wherever
//! `export1` and `export2` differ: an env may write data in its own way, but then it must stay so. An env that refuses to
//! load or to export gives the critical issue `load_failed` or `export_failed`. There is no score.
//!
//! With `emit_file_artifact_universe` also `metadata.collected_artifacts.<step id>`, so that a later `load_artifact` can
//! copy `export1` into a sandbox.
//!
//! # What is in its key
//!
//! Its fields, its id, the content of the artifact and the state of the env.
//!
//! # Effects
//!
//! Changes the env. The state that it had is loaded again at the end, also where the step fails.
//!
//! # Differences to agent-env
//!
//! - The env has its state back afterwards.
//! - `persist_result` is accepted and does nothing: the result is in the context, and an artifact has no record.
//! - Two of these steps in one task are refused, as both would write the same verification.

mod compare;

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{on_env, together, universe};
use crate::context::{Entry, Lookup, Output};
use crate::digest::Digest;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::env::{EnvError, LiveEnv};
use crate::step::sandbox::BoxFuture;
use crate::step::{
    ArtifactKind, ArtifactRef, NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields,
    schema_of,
};
use crate::system::disk;
use crate::task::{OnError, StepId};
use compare::{Between, compare};

/// The step type `verify_universe_load_export_roundtrip`.
pub static TYPE: StepType = StepType {
    name: "verify_universe_load_export_roundtrip",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("verify_universe_load_export_roundtrip.rs"),
    schema: OnceLock::new(),
};

/// The name of the verification.
const VERIFICATION: &str = "universe_load_export_roundtrip";
/// The kinds of artifacts that hold the data of an env.
const DATA: &[ArtifactKind] = &[ArtifactKind::Environment, ArtifactKind::EnvironmentUniverse];

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env that loads and exports.
    #[schemars(length(min = 1))]
    env_id: String,
    /// The name or id of the artifact that it loads.
    #[schemars(length(min = 1))]
    universe_artifact_id: String,
    /// The version of the artifact; one of the task folder has none.
    universe_artifact_version: Option<u64>,
    /// Whether what was exported is collected as files too.
    #[serde(default)]
    emit_file_artifact_universe: bool,
    /// Whether the result is kept with the artifact.
    #[serde(default = "yes")]
    persist_result: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug)]
struct VerifyRoundtrip {
    fields: Fields,
    step: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let step = step.as_str().to_owned();
    Ok(Box::new(VerifyRoundtrip { fields, step }))
}

/// What a roundtrip showed.
#[derive(Default)]
struct Shown {
    issues: Vec<Value>,
    is_critical: bool,
    /// The first export.
    export: Option<Vec<u8>>,
}

impl Shown {
    /// Notes that an env would not do something; an env that is of no use any more is an error.
    fn refused(&mut self, issue: &str, error: EnvError) -> Result<(), StepError> {
        if error.is_fatal() {
            return Err(error.into());
        }
        self.is_critical = true;
        self.issues.push(json!({
            "pointer": "",
            "issue": issue,
            "message": error.to_string(),
            "critical": true,
        }));
        Ok(())
    }

    fn compare(&mut self, between: Between, was: &[u8], is: &[u8]) -> Result<(), StepError> {
        let found = together::blocking(|| compare(between, was, is))
            .map_err(|why| StepError::of("EnvError", why))?;
        self.is_critical |= found.is_critical;
        self.issues.extend(found.told);
        if found.untold > 0 {
            self.issues.push(json!({
                "pointer": "",
                "issue": "more",
                "message": format!("{} more differences are not told", found.untold),
                "critical": found.is_critical,
            }));
        }
        Ok(())
    }
}

/// Loads a state and returns what comes out, or `None` where the env would not.
async fn through(
    env: &dyn LiveEnv,
    parts: Vec<u8>,
    shown: &mut Shown,
) -> Result<Option<Vec<u8>>, StepError> {
    if let Err(error) = universe::load(env, parts).await {
        shown.refused("load_failed", error)?;
        return Ok(None);
    }
    match env.export().await {
        Ok(parts) => Ok(Some(parts)),
        Err(error) => {
            shown.refused("export_failed", error)?;
            Ok(None)
        }
    }
}

/// Loads and exports twice, and compares.
async fn roundtrip(env: &dyn LiveEnv, original: Vec<u8>) -> Result<Shown, StepError> {
    let mut shown = Shown::default();
    let Some(first) = through(env, original.clone(), &mut shown).await? else {
        return Ok(shown);
    };
    shown.compare(Between::OriginalAndExport, &original, &first)?;
    drop(original);
    if let Some(second) = through(env, first.clone(), &mut shown).await? {
        shown.compare(Between::Exports, &first, &second)?;
    }
    shown.export = Some(first);
    Ok(shown)
}

impl VerifyRoundtrip {
    /// Returns the name of the environment whose data is loaded, and the data as parts.
    fn original(&self, cx: StepCx<'_>, env: &dyn LiveEnv) -> Result<(String, Vec<u8>), StepError> {
        let artifact = &self.fields.universe_artifact_id;
        let wrong = |why: String| StepError::of("ValueError", why);
        let content = cx.services.artifact(artifact);
        let content = content.ok_or_else(|| wrong(format!("there is no artifact `{artifact}`")))?;
        if !DATA.contains(&content.kind) {
            let kind = content.kind.as_str();
            return Err(wrong(format!(
                "artifact `{artifact}` is of kind `{kind}`, and holds no data of envs"
            )));
        }
        let name = universe::name_of(env);
        let file = universe::file_for(&content, &[&name, env.env_id()]).map_err(wrong)?;
        let folder = file
            .path
            .split_once('/')
            .map(|(folder, _)| folder.to_owned());
        let parts = together::blocking(|| {
            let bytes = disk::read(&file.source)?;
            Ok(universe::parts_of(&file.path, &bytes))
        });
        let parts = parts.map_err(|error: std::io::Error| {
            let path = &file.path;
            let why = format!("`{path}` of artifact `{artifact}` cannot be read: {error}");
            StepError::of("OSError", why)
        })?;
        Ok((folder.unwrap_or(name), parts))
    }

    async fn verify(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let env_id = &self.fields.env_id;
        let env = cx.env(env_id)?;
        if !env.can_export() {
            return Err(StepError::of(
                "EnvError",
                format!(
                    "env `{env_id}` cannot export its state, so nothing can be compared: its server has no data plane; \
                     let the server answer `data/get` at the `url` of its agent-env card"
                ),
            ));
        }
        let (name, original) = self.original(cx, &*env)?;
        let before = env.export().await?;
        let shown = roundtrip(&*env, original).await;
        let restored = universe::load(&*env, before).await;
        let shown = match (shown, restored) {
            (Ok(shown), Ok(())) => shown,
            (Err(error), Ok(())) => return Err(error),
            (Ok(_), Err(error)) => {
                let why = format!("env `{env_id}` does not take its own state back: {error}");
                return Err(StepError::of("EnvError", why));
            }
            (Err(error), Err(restoring)) => {
                cx.note(&format!(
                    "env `{env_id}` did not get its state back: {restoring}"
                ));
                return Err(error);
            }
        };
        self.report(cx, name, shown).map(Output::of)
    }

    fn report(&self, cx: StepCx<'_>, name: String, shown: Shown) -> Result<Vec<Entry>, StepError> {
        let is_compatible = !shown.is_critical;
        let mut entries = Vec::new();
        let mut value = json!({
            "compatible": is_compatible,
            "services": {},
            "exported_universe_artifact_id": null,
            "object_url": null,
        });
        if let Some(parts) = shown.export {
            let (suffix, bytes) = together::blocking(|| universe::file_of(&parts))
                .map_err(|why| StepError::of("EnvError", why))?;
            drop(parts);
            let digest = Digest::of_bytes(&bytes).short();
            let url = cx.services.keep(&bytes)?.url();
            if self.fields.emit_file_artifact_universe {
                let id = format!("@local/collected/{}-{digest}", self.step);
                let mut files = Map::new();
                files.insert(format!("{name}/{name}{suffix}"), url.clone().into());
                value["file_artifact_universe_id"] = id.clone().into();
                let collected = json!({
                    "artifacts": files,
                    "file_artifact_universe": {"id": id, "version": 1},
                });
                entries.push(on_env::set(&["collected_artifacts", &self.step], collected));
            }
            let id = format!("@local/roundtrips/{}-{digest}", self.step);
            value["exported_universe_artifact_id"] = id.into();
            value["object_url"] = url.into();
        }
        let verdict = if is_compatible {
            "compatible"
        } else {
            "not compatible"
        };
        let n = shown.issues.len();
        cx.note(&format!("`{name}` is {verdict}; issues: {n}"));
        value["services"][name] = json!({"compatible": is_compatible, "issues": shown.issues});
        entries.push(on_env::set(&["verifications", VERIFICATION], value));
        Ok(entries)
    }
}

impl Step for VerifyRoundtrip {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = Value::String(self.step.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        on_env::touches(&self.fields.env_id, Touch::Mutates)
    }

    fn artifacts(&self) -> Vec<ArtifactRef> {
        vec![ArtifactRef {
            field: "/universe_artifact_id".to_owned(),
            name: self.fields.universe_artifact_id.clone(),
            wants: DATA,
            has_version: self.fields.universe_artifact_version.is_some(),
        }]
    }

    fn reads(&self) -> Vec<NameRef> {
        on_env::reads(&self.fields.env_id)
    }

    fn provides(&self) -> Vec<NameRef> {
        let mut names = vec![NameRef {
            field: String::new(),
            lookup: Lookup::verification(VERIFICATION),
        }];
        if self.fields.emit_file_artifact_universe {
            names.push(on_env::provides(&["collected_artifacts", &self.step]));
        }
        names
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.verify(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeEnv, FakeServices, build_step, run, show};
    use expect_test::expect;

    const INBOX: &str = r#"{"inbox": [{"id": 1, "text": "hi"}], "owner": "dana"}"#;

    fn mail() -> FakeEnv {
        FakeEnv::new("mail").state(json!([{"kind": "data", "data": {"before": true}}]))
    }

    fn verify(env: FakeEnv, more: Value) -> String {
        let universe = ArtifactKind::EnvironmentUniverse;
        let world = FakeServices::new()
            .artifact(
                "inbox",
                ArtifactKind::Environment,
                &[("data.json", INBOX, false)],
            )
            .artifact(
                "office",
                universe,
                &[("cal/cal.json", "{}", false), ("mail/m.json", INBOX, false)],
            )
            .artifact("notes", ArtifactKind::File, &[("notes.txt", "", false)])
            .env(env.clone());
        let mut fields = json!({"env_id": "mail", "universe_artifact_id": "inbox"});
        fields
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let text = match run(&*build_step(&TYPE, "trip", fields), "trip", &world) {
            Ok(output) => show(&output),
            Err(error) => format!("{error}\n"),
        };
        format!("{text}{}{}\n", world.log_text(), env.said())
    }

    #[test]
    fn data_that_comes_back_is_compatible_and_the_env_gets_its_state_back() {
        expect![[r#"
            metadata.verifications.universe_load_export_roundtrip = {"compatible":true,"exported_universe_artifact_id":"@local/roundtrips/trip-3476196f15ef","object_url":"aebuild:sha256:3476196f15efc32792c36897ad01f3bfa8977971ec841e37b1c401325adb364b:47","services":{"mail":{"compatible":true,"issues":[]}}}
            Note: `mail` is compatible; issues: 0
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"owner":"dana"},"kind":"data"}]
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"owner":"dana"},"kind":"data"}]
            load [{"data":{"before":true},"kind":"data"}]
        "#]]
        .assert_eq(&verify(mail(), json!({})));
    }

    #[test]
    fn an_environment_of_a_universe_is_found_by_name() {
        let more = json!({"universe_artifact_id": "office", "emit_file_artifact_universe": true});
        expect![[r#"
            metadata.collected_artifacts.trip = {"artifacts":{"mail/mail.json":"aebuild:sha256:3476196f15efc32792c36897ad01f3bfa8977971ec841e37b1c401325adb364b:47"},"file_artifact_universe":{"id":"@local/collected/trip-","version":1}}
            metadata.verifications.universe_load_export_roundtrip = {"compatible":true,"exported_universe_artifact_id":"@local/roundtrips/trip-3476196f15ef","file_artifact_universe_id":"@local/collected/trip-","object_url":"aebuild:sha256:3476196f15efc32792c36897ad01f3bfa8977971ec841e37b1c401325adb364b:47","services":{"mail":{"compatible":true,"issues":[]}}}
            Note: `mail` is compatible; issues: 0
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"owner":"dana"},"kind":"data"}]
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"owner":"dana"},"kind":"data"}]
            load [{"data":{"before":true},"kind":"data"}]
        "#]]
        .assert_eq(&verify(mail(), more));
    }

    /// Writes data in its own way: the owner gets lost, and the texts are in capitals.
    fn lossy(mut parts: Value) -> Value {
        if let Some(data) = parts.pointer_mut("/0/data").and_then(Value::as_object_mut) {
            data.remove("owner");
            if let Some(text) = data
                .get_mut("inbox")
                .and_then(|inbox| inbox.pointer_mut("/0/text"))
            {
                *text = text.as_str().unwrap().to_uppercase().into();
            }
        }
        parts
    }

    /// Counts its exports.
    fn counting(mut parts: Value) -> Value {
        if let Some(data) = parts.pointer_mut("/0/data").and_then(Value::as_object_mut) {
            let n = data.get("n").and_then(Value::as_u64).unwrap_or(0);
            data.insert("n".to_owned(), (n + 1).into());
        }
        parts
    }

    #[test]
    fn what_is_lost_or_never_the_same_is_critical() {
        expect![[r#"
            metadata.verifications.universe_load_export_roundtrip = {"compatible":false,"exported_universe_artifact_id":"@local/roundtrips/trip-954d068af487","object_url":"aebuild:sha256:954d068af487c27d922ff358de78d0b0ab11486e49dd0e8243239248b223a394:32","services":{"mail":{"compatible":false,"issues":[{"between":"original and export1","critical":false,"is":"\"HI\"","issue":"changed","pointer":"/inbox/0/text","was":"\"hi\""},{"between":"original and export1","critical":true,"is":null,"issue":"lost","pointer":"/owner","was":"\"dana\""}]}}}
            Note: `mail` is not compatible; issues: 2
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"owner":"dana"},"kind":"data"}]
            load [{"data":{"inbox":[{"id":1,"text":"HI"}]},"kind":"data"}]
            load [{"data":{"before":true},"kind":"data"}]
        "#]]
        .assert_eq(&verify(mail().distorts(lossy), json!({})));
        expect![[r#"
            metadata.verifications.universe_load_export_roundtrip = {"compatible":false,"exported_universe_artifact_id":"@local/roundtrips/trip-2a26356a3d6e","object_url":"aebuild:sha256:2a26356a3d6eca49eda080470dfefaa39e25a248a17eb19137342310931623d3:53","services":{"mail":{"compatible":false,"issues":[{"between":"original and export1","critical":false,"is":"1","issue":"added","pointer":"/n","was":null},{"between":"export1 and export2","critical":true,"is":"2","issue":"changed","pointer":"/n","was":"1"}]}}}
            Note: `mail` is not compatible; issues: 2
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"owner":"dana"},"kind":"data"}]
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"n":1,"owner":"dana"},"kind":"data"}]
            load [{"data":{"before":true,"n":1},"kind":"data"}]
        "#]]
        .assert_eq(&verify(mail().distorts(counting), json!({})));
    }

    #[test]
    fn data_that_the_env_refuses_is_not_compatible() {
        let refuses = |parts: &Value| parts.pointer("/0/data/inbox").map(|_| "no inboxes here");
        expect![[r#"
            metadata.verifications.universe_load_export_roundtrip = {"compatible":false,"exported_universe_artifact_id":null,"object_url":null,"services":{"mail":{"compatible":false,"issues":[{"critical":true,"issue":"load_failed","message":"env `mail` answered data/add with error -32000: no inboxes here","pointer":""}]}}}
            Note: `mail` is not compatible; issues: 1
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"owner":"dana"},"kind":"data"}]
            load [{"data":{"before":true},"kind":"data"}]
        "#]]
        .assert_eq(&verify(mail().refuses(refuses), json!({})));
    }

    #[test]
    fn an_env_that_does_not_take_its_state_back_fails_the_step() {
        let refuses = |parts: &Value| parts.pointer("/0/data/before").map(|_| "no");
        expect![[r#"
            EnvError: env `mail` does not take its own state back: env `mail` answered data/add with error -32000: no
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"owner":"dana"},"kind":"data"}]
            load [{"data":{"inbox":[{"id":1,"text":"hi"}],"owner":"dana"},"kind":"data"}]
            load [{"data":{"before":true},"kind":"data"}]
        "#]]
        .assert_eq(&verify(mail().refuses(refuses), json!({})));
    }

    #[test]
    fn what_cannot_be_tried_fails_the_step() {
        let texts = [
            verify(mail().opaque(), json!({})),
            verify(mail(), json!({"universe_artifact_id": "notes"})),
            verify(mail(), json!({"universe_artifact_id": "none"})),
        ];
        expect![[r#"
            EnvError: env `mail` cannot export its state, so nothing can be compared: its server has no data plane; let the server answer `data/get` at the `url` of its agent-env card

            ValueError: artifact `notes` is of kind `file`, and holds no data of envs

            ValueError: there is no artifact `none`

        "#]]
        .assert_eq(&texts.concat());
    }
}
