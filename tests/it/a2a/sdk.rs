//! The official Python SDK on the other side: its clients talk with an agent that is served here, and agents that are
//! written with it are prompted.
//!
//! `AEBUILD_PEER_PYTHON` names the folder in which Python environments are kept from one test run to the next; without it
//! these tests say so and are skipped. The packages come from PyPI.

use std::fs;
use std::path::PathBuf;

use aebuild::json::json;

use super::{Listening, failure, prompt, replies, story, without_env};
use crate::story::Story;

const NEW: (&str, &str) = ("1", "a2a-sdk[http-server]==1.3.0\nuvicorn\n");
const OLD: (&str, &str) = ("03", "a2a-sdk[http-server]==0.3.26\nuvicorn\n");

/// Returns a workspace whose agent is a program that needs these packages; `None` where there is no place for them.
fn sdk(
    what: &str,
    (version, packages): (&str, &str),
    more: &str,
    prompts: &[&str],
) -> Option<Story> {
    let Some(shared) = std::env::var_os("AEBUILD_PEER_PYTHON").map(PathBuf::from) else {
        eprintln!("SKIPPED: AEBUILD_PEER_PYTHON is not set, so a2a-sdk cannot be tried");
        return None;
    };
    let story = story(
        &format!("requirements = \"requirements.txt\"\n{more}"),
        prompts,
    );
    without_env(&story);
    let config = fs::read_to_string(story.path("aebuild.toml")).unwrap();
    let walled = config.replace("isolation = \"none\"", "isolation = \"auto\"");
    story.write("aebuild.toml", walled);
    let file = format!("tests/it/fixtures/a2a/{what}_{version}.py");
    let text = fs::read_to_string(crate::support::root().join(file)).unwrap();
    story.write(&format!("agents/solver/{what}.py"), text);
    story.write("agents/solver/requirements.txt", packages);
    story.write("agents/solver/agent.toml", "type = \"a2a\"\n");
    fs::create_dir_all(&shared).unwrap();
    // The cache makes its folder, which must be empty for that.
    drop(story.session().unwrap());
    std::os::unix::fs::symlink(shared, story.cache_dir().join("python")).unwrap();
    Some(story)
}

/// What a client of the SDK hears of an agent that is served here.
fn heard(version: (&str, &str)) -> Option<String> {
    let listening = Listening::new();
    let grant = listening.open();
    let more = "type = \"command\"\ncommand = [\"{python}\", \"{folder}/client.py\"]";
    let story = sdk("client", version, more, &[grant.url()])?;
    Some(replies(&story.run()).remove(0))
}

#[test]
fn the_client_of_the_sdk_1_talks_with_an_agent_that_is_served() {
    let Some(heard) = heard(NEW) else { return };
    assert_eq!(
        heard,
        "streamed TASK_STATE_COMPLETED I heard one\n\
         sent TASK_STATE_COMPLETED I heard one\n\
         got TASK_STATE_COMPLETED\n\
         later TASK_STATE_WORKING\n\
         canceled TASK_STATE_CANCELED\n\
         refused TaskNotFoundError"
    );
}

#[test]
fn the_client_of_the_sdk_0_3_talks_with_an_agent_that_is_served() {
    let Some(heard) = heard(OLD) else { return };
    assert_eq!(
        heard,
        "streamed completed I heard one\n\
         sent completed I heard one\n\
         got completed\n\
         later working\n\
         canceled canceled\n\
         refused A2AClientJSONRPCError"
    );
}

const SERVE: &str = "type = \"a2a\"\ncommand = [\"{python}\", \"server.py\"]";

/// Prompts an agent that is written with the SDK.
fn prompts(version: (&str, &str), more: &str) {
    let serve = format!("{SERVE}{more}");
    let Some(story) = sdk("server", version, &serve, &["Dana", "ask back"]) else {
        return;
    };
    assert_eq!(replies(&story.run()), ["Hello, Dana", "which one?"]);
    assert_eq!(story.run().ran(), "");
    prompt(&story, &["fail"]);
    without_env(&story);
    assert_eq!(
        failure(&story.run()),
        "p1: A2A task failed (error_type=agent_error, agent=solver): cannot"
    );
}

#[test]
fn an_agent_written_with_the_sdk_1_is_prompted() {
    prompts(NEW, "");
}

#[test]
fn an_agent_of_the_sdk_1_that_speaks_0_3_alone_is_prompted() {
    prompts(NEW, "\nvariables = { LEGACY = \"1\" }");
}

#[test]
fn an_agent_written_with_the_sdk_0_3_is_prompted() {
    prompts(OLD, "");
}

/// Who guesses; a scripted agent.
const GUESSER: &str = r#"
type = "scripted"

[[rules]]
prompt = "Guess my number"
structured = { message = "50?", done = false }

[[rules]]
prompt = "50 is too low"
structured = { message = "75?", done = false }

[[rules]]
prompt = "75 is too high"
structured = { message = "60?", done = false }

[[rules]]
prompt = "50 is too high"
structured = { message = "37?", done = false }

[[rules]]
prompt = "You have it"
structured = { message = "Good.", done = true }
"#;

#[test]
fn two_conversations_with_an_agent_of_the_sdk_1_are_kept_apart() {
    let more = "type = \"a2a\"\ncommand = [\"{python}\", \"guess.py\"]";
    let Some(story) = sdk("guess", NEW, more, &[]) else {
        return;
    };
    story.write("agents/guesser/agent.toml", GUESSER);
    let talk = |id: &str, prompt: &str| {
        json!({"id": id, "type": "prompt_agent", "agent_name": "solver", "prompt": prompt, "prompt_id": id,
               "user_agent_name": "guesser", "max_conversation_turns": 6})
    };
    let steps = json!([
        {"id": "solver", "type": "deploy_agent", "agent_name": "solver"},
        {"id": "guesser", "type": "deploy_agent", "agent_name": "guesser"},
        talk("first", "Think of number 1."),
        talk("second", "Think of number 2."),
    ]);
    story.write("tasks/t.json", steps.to_string());
    let seen = story.run();
    let guesses = |n: u32| format!("You have it after {n} guesses.");
    assert_eq!(replies(&seen), [guesses(3), guesses(2)]);
    assert_eq!(story.run().ran(), "");
}
