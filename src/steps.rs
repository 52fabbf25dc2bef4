//! The step types of this program, one file each.
//!
//! A step type knows its fields, what it touches and how it runs. It sees the world through
//! [`StepCx`](crate::step::StepCx) only, and no other step type.

pub mod add_skills;
pub mod agent_prompt_response_verifier;
pub mod aggregate_verifiers;
pub mod apply_server_config;
pub mod build_mcp_cli;
pub mod collect_artifacts;
pub mod deploy_agent;
pub mod deploy_env;
pub mod deploy_human_agent;
pub mod deploy_sandbox;
pub mod env_outcome_verifier;
pub mod install_agent;
pub mod load_artifact;
pub mod modify_env_tool_access;
mod object_url;
mod on_agent;
mod on_env;
mod on_triggers;
mod output_schema;
mod pattern;
mod reply;
pub mod peer_agents;
pub mod prompt_agent;
pub mod register_env_triggers;
pub mod reset_env;
pub mod review;
pub mod run_code;
pub mod score;
mod shown;
pub mod snapshot_agent_state;
pub mod snapshot_env;
pub mod sync_env_clock;
mod target;
pub mod teardown_sandboxes;
#[cfg(test)]
mod testing;
mod together;
pub mod register_agent_triggers;
pub mod rubrics_verifier;
mod universe;
pub mod verify_env_card;
pub mod verify_env_core_protocol;
pub mod verify_mcp_tool_schema;
pub mod verify_sandbox;
pub mod verify_spec_conformance;
pub mod verify_universe_load_export_roundtrip;

use crate::step::Registry;

/// All step types.
pub static REGISTRY: Registry = Registry(&[
    &deploy_sandbox::TYPE,
    &deploy_env::TYPE,
    &load_artifact::TYPE,
    &deploy_agent::TYPE,
    &install_agent::TYPE,
    &deploy_human_agent::TYPE,
    &peer_agents::TYPE,
    &add_skills::TYPE,
    &prompt_agent::TYPE,
    &review::TYPE,
    &run_code::TYPE,
    &verify_sandbox::TYPE,
    &agent_prompt_response_verifier::TYPE,
    &env_outcome_verifier::TYPE,
    &rubrics_verifier::TYPE,
    &aggregate_verifiers::TYPE,
    &collect_artifacts::TYPE,
    &teardown_sandboxes::TYPE,
    &reset_env::TYPE,
    &snapshot_env::TYPE,
    &snapshot_agent_state::TYPE,
    &modify_env_tool_access::TYPE,
    &apply_server_config::TYPE,
    &register_env_triggers::TYPE,
    &sync_env_clock::TYPE,
    &register_agent_triggers::TYPE,
    &build_mcp_cli::TYPE,
    &verify_env_card::TYPE,
    &verify_env_core_protocol::TYPE,
    &verify_mcp_tool_schema::TYPE,
    &verify_spec_conformance::TYPE,
    &verify_universe_load_export_roundtrip::TYPE,
]);
