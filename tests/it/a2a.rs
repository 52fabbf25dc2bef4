//! Agents that are not part of aebuild: reached over A2A, run as processes that serve it, or programs that answer a prompt.

mod bad;
mod commands;
mod keys;
mod peers;
mod sdk;
mod switch;
mod together;
mod variables;

use std::fs;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use aebuild::event::Outcome;
use aebuild::gateway::{Gateway, Grant};
use aebuild::json::{Value, json};
use aebuild::step::agent::{AgentDoor, AgentError, Reply, text_of};
use aebuild::step::sandbox::BoxFuture;

use crate::envs::failures;
use crate::story::{Seen, Story};

const AGENT: &str = include_str!("fixtures/agent.py");

/// Returns a workspace with an agent `solver`, which is run so, and steps that prompt it with each text.
pub fn story(agent: &str, prompts: &[&str]) -> Story {
    let story = Story::new();
    story.write(
        "aebuild.toml",
        format!(
            "[sandbox]\nisolation = \"none\"\n[cache]\ndurability = \"fast\"\n[envs.kv]\nbuiltin = \"kv\"\n\
             [agents.solver]\n{agent}\n"
        ),
    );
    prompt(&story, prompts);
    story
}

/// Writes a task that prompts the agent with each text.
pub fn prompt(story: &Story, prompts: &[&str]) {
    let mut steps = vec![
        json!({"id": "kv", "type": "deploy_env", "env_id": "kv"}),
        json!({"id": "solver", "type": "deploy_agent", "agent_name": "solver", "env_ids": ["kv"],
               "system_prompt": "Be brief."}),
    ];
    for (at, text) in prompts.iter().enumerate() {
        steps.push(json!({"id": format!("p{}", at + 1), "type": "prompt_agent", "agent_name": "solver", "prompt": text}));
    }
    story.write("tasks/t.json", json!(steps).to_string());
}

/// What the agent answered to each prompt.
#[track_caller]
pub fn replies(seen: &Seen) -> Vec<String> {
    assert_eq!(
        seen.outcome(),
        Outcome::Unscored,
        "{:?} {}",
        failures(seen),
        seen.notices()
    );
    let context = seen.context();
    let replies = context["prompt_responses"].as_array().unwrap();
    let text = |reply: &Value| reply["response"].as_str().unwrap().to_owned();
    replies.iter().map(text).collect()
}

/// The error of the only step that failed.
#[track_caller]
pub fn failure(seen: &Seen) -> String {
    let failures = failures(seen);
    assert_eq!(failures.len(), 1, "{failures:?}");
    failures[0].clone()
}

/// A workspace whose agent is `agent.py`, started with these words.
fn served(words: &str, more: &str, prompts: &[&str]) -> Option<Story> {
    if !crate::support::has_python("agents are Python programs") {
        return None;
    }
    let agent = format!("type = \"a2a\"\ncommand = [\"python3\", \"agent.py\"{words}]\n{more}");
    let story = story(&agent, prompts);
    story.write("agents/solver/agent.toml", "type = \"a2a\"\n");
    story.write("agents/solver/agent.py", AGENT);
    Some(story)
}

#[test]
fn an_agent_that_is_a_process_works_on_an_env_and_lives_as_long_as_its_task() {
    let left = tempfile::tempdir().unwrap();
    let words = format!(", \"leave={}\"", left.path().display());
    let prompts = ["set kv a 1", "set kv b 2", "heard", "told"];
    let Some(story) = served(&words, "", &prompts) else {
        return;
    };
    let seen = story.run();
    let config = r#"[{"name": "solver", "system_prompt": "Be brief."}, ["kv"], []]"#;
    // Each prompt is a conversation of its own, in one process.
    assert_eq!(
        replies(&seen),
        [
            "set, and heard 1",
            "set, and heard 1",
            "heard 1 of 3",
            config
        ]
    );
    let ports: Vec<u16> = fs::read_dir(left.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name["port-".len()..].parse().unwrap())
        .collect();
    assert_eq!(ports.len(), 1);
    assert!(TcpStream::connect(("127.0.0.1", ports[0])).is_err());

    assert_eq!(story.run().ran(), "");
    // What it was told is nowhere but in its process, so another is told all of it.
    prompt(&story, &["set kv a 1", "set kv b 3", "heard"]);
    let third = story.run();
    assert_eq!(third.ran(), "p1 p2 p3");
    assert_eq!(replies(&third)[1..], ["set, and heard 1", "heard 1 of 3"]);
    assert_eq!(story.run().ran(), "");
}

#[test]
fn an_agent_that_keeps_nothing_is_prompted_without_what_it_was_told_before() {
    let prompts = ["set kv a 1", "set kv b 2"];
    let Some(story) = served("", "state = \"none\"", &prompts) else {
        return;
    };
    replies(&story.run());
    // The env comes back with what the agent did in it, at an address that the agent is told.
    prompt(&story, &["set kv a 1", "set kv b 3", "heard"]);
    let again = story.run();
    assert_eq!(again.ran(), "p2 p3");
    assert_eq!(replies(&again)[1..], ["set, and heard 1", "heard 1 of 2"]);
}

#[test]
fn a_process_sees_the_variables_of_this_machine_that_its_table_passes_on() {
    // Cargo sets it for every test.
    let value = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let sees = |more: &str| {
        let story = served("", more, &["length CARGO_MANIFEST_DIR"])?;
        Some(replies(&story.run()))
    };
    let Some(without) = sees("") else { return };
    assert_eq!(without, ["0"]);
    let with = sees("pass_variables = [\"CARGO_MANIFEST_DIR\"]");
    assert_eq!(with, Some(vec![value.len().to_string()]));
}

#[test]
fn a_process_gets_its_time_to_start_and_says_what_became_of_it() {
    let Some(late) = served(", \"late\"", "", &["heard"]) else {
        return;
    };
    assert_eq!(replies(&late.run()), ["heard 1 of 1"]);
    let fails = |agent: &str, prompts: &[&str]| {
        let story = story(agent, prompts);
        story.write("agents/solver/agent.toml", "type = \"a2a\"\n");
        story.write("agents/solver/agent.py", AGENT);
        failure(&story.run())
    };
    let run = "type = \"a2a\"\ncommand = [\"python3\", \"agent.py\"]\n";
    assert_eq!(
        fails(run, &["die"]),
        "p1: A2A task failed (error_type=agent_error, agent=solver): it ended with exit code 3; its last \
         lines:\nlast words"
    );
    assert_eq!(
        fails(run, &["fail"]),
        "p1: A2A task failed (error_type=agent_error, agent=solver): it was told to"
    );
    assert_eq!(
        fails(
            "type = \"a2a\"\ncommand = [\"sh\", \"-c\", \"echo no luck; exit 7\"]",
            &["x"]
        ),
        "p1: A2A task failed (error_type=agent_error, agent=solver): it could not be started: it ended with \
         exit code 7; its last lines:\nno luck"
    );
    let slow = fails(
        "type = \"a2a\"\ncommand = [\"sh\", \"-c\", \"echo warming up; sleep 1000\"]\nready_timeout_seconds = 1",
        &["x"],
    );
    assert!(
        slow.contains("it did not get ready within 1 s: nothing listens at http://127.0.0.1:")
            && slow.ends_with("; its last lines:\nwarming up"),
        "{slow}"
    );
    assert!(
        fails("type = \"a2a\"\ncommand = [\"no-such-program\"]", &["x"])
            .contains("it could not be started: program `no-such-program` is not in the sandbox"),
    );
}

#[test]
fn an_agent_asks_its_peers_at_the_addresses_that_it_is_told() {
    let Some(story) = served("", "", &["ask helper hello there", "ask helper again"]) else {
        return;
    };
    let text = fs::read_to_string(story.path("tasks/t.json")).unwrap();
    let mut steps: Vec<Value> = aebuild::json::from_slice(text.as_bytes()).unwrap();
    let deploy = json!({"id": "helper", "type": "deploy_agent", "agent_name": "helper"});
    let peering = json!({"id": "peers", "type": "peer_agents",
        "peerings": [{"source_agent_name": "solver", "peer_agent_names": ["helper"]}]});
    steps.splice(2..2, [deploy, peering]);
    story.write("tasks/t.json", json!(steps).to_string());
    story.write(
        "agents/helper/agent.toml",
        "type = \"scripted\"\n[[rules]]\nreply = \"{{prompt}}, says the solver\"\n",
    );
    let hears = ["hello, says the solver", "again, says the solver"];
    assert_eq!(replies(&story.run()), hears);
    assert_eq!(story.run().ran(), "");
}

/// An agent in this process, which remembers what it heard.
struct Listener {
    heard: Arc<Mutex<Vec<String>>>,
    talks: Talks,
}

/// What was heard in each conversation, in the order in which they began.
type Talks = Arc<Mutex<Vec<(String, String)>>>;

impl AgentDoor for Listener {
    fn name(&self) -> &str {
        "listener"
    }

    fn description(&self) -> &str {
        "Listens."
    }

    fn ask<'a>(
        &'a self,
        context: &'a str,
        parts: Vec<Value>,
    ) -> BoxFuture<'a, Result<Reply, AgentError>> {
        let text = text_of(&parts);
        self.heard.lock().unwrap().push(text.clone());
        let mut talks = self.talks.lock().unwrap();
        let talk = match talks.iter_mut().find(|(of, _)| of == context) {
            Some((_, talk)) => {
                talk.push_str(&format!("|{text}"));
                talk.clone()
            }
            None => {
                talks.push((context.to_owned(), text.clone()));
                text.clone()
            }
        };
        drop(talks);
        let n_heard = self
            .heard
            .lock()
            .unwrap()
            .iter()
            .filter(|heard| **heard == text)
            .count();
        if text == "flaky" && n_heard == 1 {
            let failed = AgentError::Failed {
                agent: "listener".to_owned(),
                message: "not today".to_owned(),
                trajectory: Vec::new(),
            };
            return Box::pin(async { Err(failed) });
        }
        if text == "wait" {
            return Box::pin(std::future::pending());
        }
        let reply = Reply {
            text: format!("I heard {talk}"),
            tool_calls: 4,
            ..Reply::default()
        };
        Box::pin(async { Ok(reply) })
    }
}

struct Listening {
    runtime: tokio::runtime::Runtime,
    gateway: Arc<Gateway>,
    heard: Arc<Mutex<Vec<String>>>,
    talks: Talks,
}

impl Listening {
    fn new() -> Listening {
        Listening {
            runtime: tokio::runtime::Runtime::new().unwrap(),
            gateway: Gateway::new(),
            heard: Arc::default(),
            talks: Arc::default(),
        }
    }

    fn open(&self) -> Grant {
        let (heard, talks) = (self.heard.clone(), self.talks.clone());
        let door = Arc::new(Listener { heard, talks });
        self.runtime.block_on(self.gateway.open(door)).unwrap()
    }
}

fn without_env(story: &Story) {
    let text = fs::read_to_string(story.path("tasks/t.json")).unwrap();
    story.write("tasks/t.json", text.replace(r#""env_ids":["kv"],"#, ""));
}

#[test]
fn an_agent_that_runs_already_is_prompted_and_not_again_for_what_it_answered() {
    let listening = Listening::new();
    let grant = listening.open();
    let agent = format!("type = \"a2a\"\nurl = \"{}\"", grant.url());
    let story = story(&agent, &["one", "two"]);
    without_env(&story);
    let seen = story.run();
    assert_eq!(replies(&seen), ["I heard one", "I heard two"]);
    let context = seen.context();
    assert_eq!(context["prompt_responses"][0]["tool_call_count"], 4);
    assert_eq!(story.run().ran(), "");
    assert_eq!(*listening.heard.lock().unwrap(), ["one", "two"]);

    // Nobody is there any more, but who has answered is not asked again.
    drop(grant);
    assert_eq!(story.run().ran(), "");
    prompt(&story, &["one", "two", "three"]);
    without_env(&story);
    let error = failure(&story.run());
    assert!(
        error.starts_with(
            "p3: A2A task failed (error_type=agent_error, agent=solver): it has no card: http://127.0.0.1:"
        ),
        "{error}"
    );
}

#[test]
fn an_agent_that_cannot_be_connected_to_its_env_fails() {
    let listening = Listening::new();
    let grant = listening.open();
    let agent = format!("type = \"a2a\"\nurl = \"{}\"", grant.url());
    assert_eq!(
        failure(&story(&agent, &["one"]).run()),
        "p1: A2A task failed (error_type=agent_error, agent=solver): it cannot be connected to env `kv`: its \
         card does not offer mcp-config"
    );
    assert!(listening.heard.lock().unwrap().is_empty());
}

/// Writes a task that says these texts to the agent in one conversation, and another one besides.
fn conversation(story: &Story, texts: &[&str]) {
    let mut steps = vec![
        json!({"id": "solver", "type": "deploy_agent", "agent_name": "solver"}),
        json!({"id": "alone", "type": "prompt_agent", "agent_name": "solver", "prompt": "alone"}),
    ];
    for (at, text) in texts.iter().enumerate() {
        steps.push(
            json!({"id": format!("p{}", at + 1), "type": "prompt_agent", "agent_name": "solver",
                          "prompt": text, "context_id": "x"}),
        );
    }
    story.write("tasks/t.json", json!(steps).to_string());
}

#[test]
fn a_conversation_with_an_agent_that_runs_already_is_told_anew_where_it_went_another_way() {
    let listening = Listening::new();
    let grant = listening.open();
    let agent = format!("type = \"a2a\"\nurl = \"{}\"", grant.url());
    let story = story(&agent, &[]);
    let heard = |seen: &Seen| replies(seen).last().cloned().unwrap_or_default();
    conversation(&story, &["one", "two", "three"]);
    assert_eq!(heard(&story.run()), "I heard one|two|three");
    assert_eq!(story.run().ran(), "");
    conversation(&story, &["one", "two", "drei"]);
    let edited = story.run();
    // It was asked what it is asked alone, and is not asked again.
    assert_eq!(edited.ran(), "p1 p2 p3");
    assert_eq!(heard(&edited), "I heard one|two|drei");
    conversation(&story, &["one", "two", "drei", "four"]);
    assert_eq!(heard(&story.run()), "I heard one|two|drei|four");
    assert_eq!(story.run().ran(), "");
    let talks: Vec<String> = listening
        .talks
        .lock()
        .unwrap()
        .iter()
        .map(|(_, talk)| talk.clone())
        .collect();
    let all = [
        "alone",
        "one|two|three",
        "one|two|drei",
        "one|two|drei|four",
    ];
    assert_eq!(talks, all);
}

#[test]
fn an_agent_that_runs_already_and_keeps_nothing_goes_on_with_what_it_gave_back() {
    let listening = Listening::new();
    let grant = listening.open();
    let agent = format!(
        "type = \"a2a\"\nstate = \"none\"\nurl = \"{}\"",
        grant.url()
    );
    let story = story(&agent, &[]);
    conversation(&story, &["one", "two"]);
    replies(&story.run());
    conversation(&story, &["one", "two", "three"]);
    let seen = story.run();
    assert_eq!(seen.ran(), "p3");
    assert_eq!(replies(&seen)[3], "I heard one|two|three");
}

#[test]
fn a_prompt_that_is_tried_again_is_part_of_a_conversation_in_which_it_was_not_said_before() {
    let listening = Listening::new();
    let grant = listening.open();
    let agent = format!("type = \"a2a\"\nurl = \"{}\"", grant.url());
    let story = story(&agent, &[]);
    conversation(&story, &["one", "flaky"]);
    let text = fs::read_to_string(story.path("tasks/t.json")).unwrap();
    let mut steps: Vec<Value> = aebuild::json::from_slice(text.as_bytes()).unwrap();
    steps[3]["retry_config"] = json!({"retry_from_step_id": "p2", "max_retries": 1});
    story.write("tasks/t.json", json!(steps).to_string());
    let seen = story.run();
    assert_eq!(
        replies(&seen),
        ["I heard alone", "I heard one", "I heard one|flaky"]
    );
}
