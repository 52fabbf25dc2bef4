//! What is kept of the agent's work while a conversation goes on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::Entry;
use crate::json::{Value, json};
use crate::step::{Refusal, StepCx, StepError};
use crate::steps::on_agent::{Party, Talk};
use crate::steps::on_env;
use crate::steps::snapshot_agent_state::{bundle, state_of};
use crate::steps::target::{CONFLICT, NOT_YET, given};

/// When the agent's files, its trajectory so far and the state of an env are kept.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// How often, in seconds.
    interval_seconds: Option<f64>,
    /// Whether at the end.
    #[serde(default = "at_end")]
    at_end: bool,
    /// Whether after each turn.
    #[serde(default)]
    per_turn: bool,
    /// The env of which the state is kept too.
    pub(super) env_id: Option<String>,
    /// How long the env may take to give its state, in seconds.
    #[serde(default = "timeout")]
    #[schemars(range(min = 1))]
    timeout_seconds: u64,
    /// The most snapshots of one prompt.
    #[serde(default = "most")]
    #[schemars(range(min = 1))]
    max_snapshots: u64,
}

fn at_end() -> bool {
    true
}

fn timeout() -> u64 {
    300
}

fn most() -> u64 {
    24
}

impl Config {
    /// Returns what is wrong with it.
    pub(super) fn refusals(&self) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        if self.interval_seconds.is_some() {
            let what =
                "snapshots by time are not there in this release: no two runs would give the same";
            refusals.push(
                Refusal::new(NOT_YET, "/snapshot_config/interval_seconds", what)
                    .help("delete it, and write \"per_turn\": true"),
            );
        }
        if !self.at_end && !self.per_turn {
            let what = "`snapshot_config` keeps nothing: neither `at_end` nor `per_turn` is true";
            refusals.push(
                Refusal::new(CONFLICT, "/snapshot_config/at_end", what)
                    .help("write \"per_turn\": true, or delete `at_end`"),
            );
        }
        refusals
    }

    /// Returns whether there is one after a turn, of those before so many.
    pub(super) fn is_due(&self, n: usize) -> bool {
        let room = self.max_snapshots.saturating_sub(u64::from(self.at_end));
        self.per_turn && (n as u64) < room
    }

    /// Returns whether there is one at the end.
    pub(super) fn ends(&self) -> bool {
        self.at_end
    }
}

/// Keeps what the agent has made, and returns the row that says where.
pub(super) async fn take(
    cx: StepCx<'_>,
    config: &Config,
    agent: (&str, &Party),
    talk: &Talk,
    trajectory: Option<String>,
    is_final: bool,
) -> Result<Value, StepError> {
    let (name, party) = agent;
    let bundle = bundle(cx, party.sandbox().map(|sandbox| &**sandbox), name)?;
    let mut row = json!({
        "id": bundle.id,
        "version": 1,
        "bundle_object_url": bundle.url,
        "source_agent_name": name,
        "source_context_id": talk.context_id,
        "capture_step_id": cx.step.as_str(),
        "turn": talk.turn,
        "is_final": is_final,
        "capture_status": "ok",
    });
    if let Some(url) = trajectory {
        row["trajectory_object_url"] = url.into();
    }
    if let Some(env_id) = given(&config.env_id) {
        let env = cx.env(env_id)?;
        let url = state_of(cx, &*env, config.timeout_seconds).await?;
        row["env_universe_id"] =
            format!("@local/universes/{}-{}-{env_id}", cx.step, talk.turn).into();
        row["env_universe_version"] = 1.into();
        row["env_universe_object_url"] = url.into();
    }
    Ok(row)
}

/// Returns the entries that rows are kept in.
pub(super) fn entries(cx: StepCx<'_>, rows: Vec<Value>) -> Vec<Entry> {
    let last = rows.last().filter(|row| row["is_final"] == true);
    let universe = last.and_then(|row| row.get("env_universe_id")).cloned();
    let universe = universe.map(|id| {
        let value = json!({"id": id, "version": 1});
        on_env::set(&["env_snapshotted_universes", cx.step.as_str()], value)
    });
    let rows = rows
        .into_iter()
        .map(|row| on_env::append("agent_snapshots", row));
    rows.chain(universe).collect()
}
