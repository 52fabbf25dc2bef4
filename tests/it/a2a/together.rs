//! Prompts of one agent beside each other.

use aebuild::json::{Value, json};

use super::{replies, served};
use crate::story::Story;

/// Writes a task that prompts the agent with each text at once, each with another `system_prompt`.
pub fn beside(story: &Story, envs: &[&str], prompts: &[&str]) {
    let on = json!([{"task_step_id": "solver"}]);
    let mut steps = vec![
        json!({"id": "kv", "type": "deploy_env", "env_id": "kv", "depends_on": []}),
        json!({"id": "solver", "type": "deploy_agent", "agent_name": "solver", "env_ids": envs,
               "depends_on": [{"task_step_id": "kv"}]}),
    ];
    for (at, text) in prompts.iter().enumerate() {
        let at = at + 1;
        steps.push(json!({"id": format!("p{at}"), "type": "prompt_agent", "agent_name": "solver", "prompt": text,
                          "system_prompt": format!("I am {at}."), "depends_on": on}));
    }
    story.write("tasks/t.json", json!(steps).to_string());
}

#[test]
fn each_prompt_is_answered_as_its_own_step_says() {
    let Some(story) = served("", "state = \"none\"", &[]) else {
        return;
    };
    beside(&story, &[], &["slow 0.2", "slow 0.2", "slow 0.2"]);
    let first = story.run();
    assert_eq!(replies(&first), ["I am 1.", "I am 2.", "I am 3."]);
    assert_eq!(story.run().ran(), "");
}

#[test]
fn each_prompt_works_on_the_env_in_the_name_of_its_own_step() {
    let Some(story) = served("", "", &[]) else {
        return;
    };
    beside(
        &story,
        &["kv"],
        &["fill kv 40 a", "fill kv 1 b", "fill kv 40 c"],
    );
    let seen = story.run();
    assert_eq!(replies(&seen), ["filled"; 3]);
    let calls = |step: &str| {
        let logs = seen.logs.iter().filter(|(of, _)| of == step);
        let logs: Vec<String> = logs
            .map(|(_, log)| String::from_utf8_lossy(log).into_owned())
            .collect();
        let lines = logs.iter().flat_map(|log| log.lines());
        lines.filter(|line| line.starts_with("kv: set ")).count()
    };
    assert_eq!(["p1", "p2", "p3"].map(calls), [40, 1, 40]);
}

#[test]
fn a_prompt_that_waits_for_its_turn_does_not_use_up_its_time() {
    let Some(story) = served("", "", &[]) else {
        return;
    };
    beside(
        &story,
        &[],
        &["slow 0.6", "slow 0.6", "slow 0.6", "slow 0.6"],
    );
    let text = std::fs::read_to_string(story.path("tasks/t.json")).unwrap();
    let text = text.replace(
        r#""prompt":"slow"#,
        r#""timeout_seconds":1.7,"prompt":"slow"#,
    );
    story.write("tasks/t.json", text);
    assert_eq!(replies(&story.run()).len(), 4);
}

#[test]
fn an_agent_that_is_asked_back_by_whom_it_asks_says_so() {
    let Some(story) = served("", "", &[]) else {
        return;
    };
    story.write("agents/helper/agent.toml", "type = \"a2a\"\n");
    story.write("agents/helper/agent.py", super::AGENT);
    let config = std::fs::read_to_string(story.path("aebuild.toml")).unwrap();
    let helper = "[agents.helper]\ntype = \"a2a\"\ncommand = [\"python3\", \"agent.py\"]\n";
    story.write("aebuild.toml", format!("{config}\n{helper}"));
    let peer = |from: &str, to: &str| json!({"source_agent_name": from, "peer_agent_names": [to]});
    let steps: Vec<Value> = vec![
        json!({"id": "solver", "type": "deploy_agent", "agent_name": "solver"}),
        json!({"id": "helper", "type": "deploy_agent", "agent_name": "helper"}),
        json!({"id": "peers", "type": "peer_agents",
               "peerings": [peer("solver", "helper"), peer("helper", "solver")]}),
        json!({"id": "p1", "type": "prompt_agent", "agent_name": "solver", "prompt": "relay helper heard"}),
        json!({"id": "p2", "type": "prompt_agent", "agent_name": "solver", "prompt": "relay helper relay solver heard"}),
    ];
    story.write("tasks/t.json", json!(steps).to_string());
    let said = replies(&story.run());
    assert_eq!(
        said[1],
        "agent `solver` failed: agent `helper` asks it while it waits for the answer of `helper`, and it takes one \
         prompt at a time"
    );
    assert_eq!(said[0], "heard 1 of 1");
}

#[test]
fn who_waits_on_an_env_does_not_wait_for_those_who_wait_for_its_agent() {
    let Some(story) = served("", "state = \"none\"", &[]) else {
        return;
    };
    let config = std::fs::read_to_string(story.path("aebuild.toml")).unwrap();
    let config = config.replace("builtin = \"kv\"", "builtin = \"kv\"\nclock = \"event\"");
    story.write("aebuild.toml", config);
    let wait = "until kv 2026-01-02T00:00:00Z";
    beside(&story, &["kv"], &[wait, wait, "set kv a 1"]);
    let text = std::fs::read_to_string(story.path("tasks/t.json")).unwrap();
    let mut steps: Vec<Value> = aebuild::json::from_slice(text.as_bytes()).unwrap();
    let clock = json!({"id": "clock", "type": "sync_env_clock", "env_id": "kv",
                       "virtual_time": "2026-01-01T00:00:00Z", "depends_on": [{"task_step_id": "kv"}]});
    steps.insert(1, clock);
    steps[2]["depends_on"] = json!([{"task_step_id": "clock"}]);
    story.write("tasks/t.json", json!(steps).to_string());
    assert_eq!(replies(&story.run())[..2], ["2026-01-02T00:00:00Z"; 2]);
}
