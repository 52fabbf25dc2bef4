//! The questions, in the order asked.

mod agents;
mod cold;
mod edit;
mod editor;
mod envs;
mod models;
mod no_op;
mod peers;
mod planner;
mod store;
mod tree;
mod watch;

use crate::Bench;
use crate::table::Table;

/// Asks a question.
type Ask = fn(&Bench) -> Vec<Table>;

/// The questions by name.
pub const ALL: &[(&str, Ask)] = &[
    ("no-op", no_op::ask),
    ("edit", edit::ask),
    ("cone", edit::ask_cone),
    ("cold", cold::ask),
    ("schedule", planner::ask_schedule),
    ("check", planner::ask_check),
    ("editor", editor::ask_keys),
    ("watch-saves", watch::ask_saves),
    ("watch-idle", watch::ask_idle),
    ("disk", store::ask_disk),
    ("restore", tree::ask_restore),
    ("hash", store::ask_hash),
    ("env-edit", envs::ask_edit),
    ("env-state", envs::ask_state),
    ("env-calls", envs::ask_calls),
    ("env-large", envs::ask_large),
    ("agent-messages", agents::ask_messages),
    ("agent-prompt", agents::ask_prompt),
    ("agent-models", models::ask_kept),
    ("agent-world", models::ask_world),
    ("turbo", peers::ask_turbo),
    ("agent-env", peers::ask_agent_env),
];
