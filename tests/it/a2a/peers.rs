//! Agents that others have published, each run as a process and prompted.
//!
//! `AEBUILD_PEER_AGENT_ENV` names the `agent-env` program of an environment of `agentenv-framework`, in which the agent of
//! its own tests is too, and `AEBUILD_PEER_NODE_MODULES` the folder with `@dwmkerr/mock-llm`; without them these tests say so
//! and are skipped.

use std::path::PathBuf;

use aebuild::json::{Value, json};

use super::{failure, replies, story, without_env};

/// Returns a file that is found from a variable; `None`, and a word about it, where it is not there.
fn peer(variable: &str, what: &str, find: impl Fn(PathBuf) -> PathBuf) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(|value| find(value.into()));
    let found = found.filter(|found| found.exists());
    if found.is_none() {
        eprintln!("SKIPPED: {variable} leads to no {what}");
    }
    found
}

#[test]
fn the_echo_agent_of_agent_env_is_prompted_and_connected_to_an_env() {
    let variable = "AEBUILD_PEER_AGENT_ENV";
    let Some(agent) = peer(variable, "echo agent of agentenv-framework", |program| {
        program.join("../../tst/data/a2a_agent/agent.py")
    }) else {
        return;
    };
    let python = agent.join("../../../../bin/python");
    let command = json!([python, agent]);
    let story = story(
        &format!("type = \"a2a\"\ncommand = {command}"),
        &["hello", "what now?"],
    );
    let seen = story.run();
    assert_eq!(replies(&seen), ["Echo: hello", "Echo: what now?"]);
    assert_eq!(seen.context()["prompt_responses"][0]["tool_call_count"], 0);
    assert_eq!(story.run().ran(), "");
}

/// Returns a workspace whose agent is one of those that mock-llm serves.
fn mock(agent: &str, prompts: &[&str]) -> Option<crate::story::Story> {
    let variable = "AEBUILD_PEER_NODE_MODULES";
    let main = peer(variable, "@dwmkerr/mock-llm", |modules| {
        modules.join("@dwmkerr/mock-llm/dist/main.js")
    })?;
    let command = json!(["/usr/bin/node", main]);
    let story = story(
        &format!("type = \"a2a\"\ncommand = {command}\npath = \"/a2a/agents/{agent}\""),
        prompts,
    );
    without_env(&story);
    Some(story)
}

#[test]
fn the_agents_of_mock_llm_are_prompted_though_their_cards_name_the_other_dialect() {
    let Some(story) = mock("echo-agent", &["hello"]) else {
        return;
    };
    assert_eq!(replies(&story.run()), ["hello"]);
    // It works for a while, and is asked until it is done.
    let Some(story) = mock("countdown-agent", &["Count from 1"]) else {
        return;
    };
    let said = replies(&story.run());
    assert_eq!(said, ["Countdown complete!"]);
    let Some(story) = mock("countdown-agent", &["Count from -5"]) else {
        return;
    };
    assert_eq!(
        failure(&story.run()),
        "p1: A2A task failed (error_type=agent_error, agent=solver): Cannot countdown from negative number -5"
    );
}

#[test]
fn an_agent_of_mock_llm_counts_the_messages_of_each_conversation() {
    let Some(story) = mock("message-counter-agent", &["one"]) else {
        return;
    };
    let prompt = |id: &str, context: &str| json!({"id": id, "type": "prompt_agent", "agent_name": "solver", "prompt": "hi", "context_id": context});
    let steps: Vec<Value> = vec![
        json!({"id": "solver", "type": "deploy_agent", "agent_name": "solver"}),
        prompt("p1", "a"),
        prompt("p2", "b"),
        prompt("p3", "a"),
    ];
    story.write("tasks/t.json", json!(steps).to_string());
    let said = replies(&story.run());
    let numbers: Vec<&str> = said.iter().map(|said| &said[..1]).collect();
    assert_eq!(numbers, ["1", "1", "2"], "{said:?}");
}
