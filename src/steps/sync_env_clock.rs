//! Sets the virtual clock of an env.
//!
//! ```json
//! {"id": "clock", "type": "sync_env_clock", "env_id": "mail", "virtual_time": "2026-03-02T09:00:00Z",
//!  "virtual_seconds_per_real_second": 3600}
//! ```
//!
//! From then on the env has the tools `get_time` and `wait_until`, its time triggers are due when the clock says so, and
//! each call of a tool tells the server in its `_meta` what the clock shows, as `aebuild/virtual_time`. The envs that are
//! compiled in follow it.
//!
//! The clock goes on at the rate while a step works on the env, such as a prompt, and stands still between such steps and
//! for who only looks, such as a verifier. Who waits with `wait_until` waits in real time. With rate 0 it stands still for
//! good.
//!
//! With `clock = "event"` in `[envs.<name>]` of `aebuild.toml` the rate means nothing else than that: the clock stands still
//! while any agent works on the env, and leaps when all of them wait, through all that is due on the way. Of prompts that
//! work on the env side by side each is waited for, also one that has not begun yet. A week passes in no time, and is the same
//! week each time.
//!
//! # What it gives
//!
//! An entry in `metadata.clock_configurations`.
//!
//! # What is in its key
//!
//! Its fields, its id and the state of the env; not `timeout_seconds`. With a clock in real time, the steps after it that
//! work on the env are `sampled`.
//!
//! # Effects
//!
//! Changes the env: its clock is a part of its state, and comes back with it.
//!
//! # Differences to agent-env
//!
//! - `env_get_time_url` is the path below the address of the env, which is another one in each step. A server that advertises
//!   `urn:agentenv:clock/v1` is not given it, and is among `skipped`; it finds the time in `_meta`.
//! - Time stands still while no step works on the env.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_env;
use crate::context::Output;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::env::LiveEnv;
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::moment::Moment;
use crate::task::{OnError, StepId};

/// The step type `sync_env_clock`.
pub static TYPE: StepType = StepType {
    name: "sync_env_clock",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("sync_env_clock.rs"),
    schema: OnceLock::new(),
};

/// The extension of a server that follows a clock.
const CLOCK: &str = "urn:agentenv:clock/v1";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env.
    #[schemars(length(min = 1))]
    env_id: String,
    /// What the clock shows at first, such as `2026-03-02T09:00:00Z`.
    #[schemars(length(min = 1))]
    virtual_time: String,
    /// How fast it goes; 0 for a clock that stands still.
    #[serde(default = "default_rate")]
    #[schemars(range(min = 0, max = 86400))]
    virtual_seconds_per_real_second: f64,
    /// Whether a server that does not follow the clock is passed over, and does not fail the step.
    #[serde(default = "default_tolerate")]
    tolerate_missing_sync_time: bool,
    /// How long the env may take, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    timeout_seconds: u64,
}

fn default_rate() -> f64 {
    1.0
}

fn default_tolerate() -> bool {
    true
}

fn default_timeout() -> u64 {
    30
}

#[derive(Debug)]
struct SyncClock {
    fields: Fields,
    step: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    if let Err(why) = Moment::parse(&fields.virtual_time) {
        let refusal = Refusal::new("wrong-pattern", "/virtual_time", why)
            .help("write a time such as \"2026-03-02T09:00:00Z\"");
        return Err(vec![refusal]);
    }
    let step = step.as_str().to_owned();
    Ok(Box::new(SyncClock { fields, step }))
}

/// Returns the servers of an env that do not follow its clock by their own extension, each with why.
fn skipped(env: &dyn LiveEnv) -> Vec<Value> {
    let skip = |name: &str, reason: &str| json!({"service": name, "environment": name, "synced": false, "reason": reason});
    let Some(card) = env.card() else {
        return vec![skip(env.env_id(), "no_env_card")];
    };
    let children = card.get("children_environments").and_then(Value::as_array);
    let servers: Vec<&Value> = match children {
        Some(children) => children.iter().collect(),
        None => vec![&card],
    };
    let servers = servers.into_iter().map(|server| {
        let extensions = server
            .pointer("/capabilities/extensions")
            .and_then(Value::as_array);
        let advertised = extensions
            .into_iter()
            .flatten()
            .any(|extension| extension["uri"] == CLOCK);
        let name = server
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or(env.env_id());
        skip(
            name,
            if advertised {
                "time_is_in_meta"
            } else {
                "not_advertised"
            },
        )
    });
    servers.collect()
}

impl SyncClock {
    async fn sync(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let Fields {
            env_id,
            virtual_time,
            virtual_seconds_per_real_second: rate,
            timeout_seconds,
            ..
        } = &self.fields;
        let env = cx.env(env_id)?;
        let skipped = skipped(&*env);
        if !self.fields.tolerate_missing_sync_time
            && let Some(one) = skipped.first()
        {
            return Err(StepError::of(
                "ValueError",
                format!(
                    "server `{}` of env `{env_id}` does not follow its clock ({})",
                    one["service"].as_str().unwrap_or_default(),
                    one["reason"].as_str().unwrap_or_default()
                ),
            ));
        }
        let timed = env
            .timed()
            .ok_or_else(|| StepError::new(format!("env `{env_id}` can have no clock")))?;
        let set = timed.set_clock(virtual_time, *rate);
        let state = on_env::within(*timeout_seconds, "timeout_seconds", "the clock", set).await?;
        let entry = json!({
            "step_id": self.step,
            "env_id": env_id,
            "virtual_time": virtual_time,
            "virtual_seconds_per_real_second": rate,
            "env_get_time_url": state["env_get_time_url"],
            "synced": [],
            "skipped": skipped,
        });
        Ok(Output::of(vec![on_env::append(
            "clock_configurations",
            entry,
        )]))
    }
}

impl Step for SyncClock {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = Value::String(self.step.clone());
        if let Value::Object(members) = &mut fields {
            members.remove("timeout_seconds");
        }
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        on_env::touches(&self.fields.env_id, Touch::Mutates)
    }

    fn sets_clock(&self) -> Option<(String, f64)> {
        let rate = self.fields.virtual_seconds_per_real_second;
        Some((self.fields.env_id.clone(), rate))
    }

    fn reads(&self) -> Vec<NameRef> {
        on_env::reads(&self.fields.env_id)
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![on_env::provides(&["clock_configurations"])]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.sync(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeEnv, FakeServices, build_step, misfits, refused, run};
    use expect_test::expect;

    #[test]
    fn a_time_that_is_none_and_a_rate_that_is_too_fast_are_refused() {
        let fields = |time: &str, rate: f64| json!({"env_id": "mail", "virtual_time": time, "virtual_seconds_per_real_second": rate});
        expect![[r#"
            wrong-pattern /virtual_time: `2026-03-02 09:00` is no time like `2026-03-02T09:00:00Z`, with seconds and an offset or `Z` (write a time such as "2026-03-02T09:00:00Z")
        "#]].assert_eq(&refused(&TYPE, fields("2026-03-02 09:00", 1.0)));
        expect![[r#"
            out-of-range: `virtual_seconds_per_real_second` of step is 86401.0, but must be from 0 to 86400 (write a number from 0 to 86400)
        "#]].assert_eq(&misfits(&TYPE, fields("2026-03-02T09:00:00Z", 86_401.0)));
        let step = build_step(&TYPE, "clock", fields("2026-03-02T09:00:00Z", 3600.0));
        assert_eq!(step.sets_clock(), Some(("mail".to_owned(), 3600.0)));
    }

    #[test]
    fn a_server_that_does_not_follow_fails_the_step_where_it_must() {
        let servers = json!({"name": "office", "children_environments": [
            {"name": "mail", "capabilities": {"extensions": [{"uri": CLOCK}]}},
            {"name": "cal"},
        ]});
        let office = FakeEnv::new("office").card(servers);
        let skips = skipped(&office);
        let skips: Vec<String> = skips.iter().map(Value::to_string).collect();
        expect![[r#"
            {"environment":"mail","reason":"time_is_in_meta","service":"mail","synced":false}
            {"environment":"cal","reason":"not_advertised","service":"cal","synced":false}"#]]
        .assert_eq(&skips.join("\n"));
        let world = FakeServices::new().env(FakeEnv::new("office"));
        for tolerate in [false, true] {
            let fields = json!({"env_id": "office", "virtual_time": "2026-03-02T09:00:00Z", "tolerate_missing_sync_time": tolerate});
            let error = run(&*build_step(&TYPE, "clock", fields), "clock", &world).unwrap_err();
            match tolerate {
                false => expect!["ValueError: server `office` of env `office` does not follow its clock (no_env_card)"].assert_eq(&error.to_string()),
                true => expect!["RuntimeError: env `office` can have no clock"].assert_eq(&error.to_string()),
            }
        }
    }
}
