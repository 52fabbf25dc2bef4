//! The agent of `tasks/reply-to-dana` is served over A2A, and one line of configuration has the task prompt it there.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use aebuild::event::Outcome;
use aebuild::json::json;
use rustix::process::{Pid, Signal, kill_process};

use super::{failure, story, without_env};
use crate::story::Story;
use crate::support::World;

/// The program that the tests run.
const AEBUILD: &str = env!("CARGO_BIN_EXE_aebuild");

/// Has the agent of the example run so, by a line at the start of its configuration.
fn switch(story: &Story, line: &str) {
    let config = fs::read_to_string(story.path("aebuild.toml")).unwrap();
    let config = config.lines().filter(|line| !line.starts_with("agents."));
    let config: Vec<&str> = config.collect();
    story.write("aebuild.toml", format!("{line}\n{}\n", config.join("\n")));
}

/// `aebuild agent` in a folder.
struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(story: &Story, agent: &str) -> Serving {
        let mut child = Command::new(AEBUILD)
            .args(["agent", agent])
            .current_dir(story.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let url = line.trim_end().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Serving { child, url }
    }

    fn interrupt(mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn passes(story: &Story, ran: &str, provisioned: &str) {
    let seen = story.run();
    assert_eq!(
        seen.outcome(),
        Outcome::Passed,
        "{:?}",
        crate::envs::failures(&seen)
    );
    assert_eq!(
        (seen.ran().as_str(), seen.provisioned().as_str()),
        (ran, provisioned)
    );
    let context = seen.context();
    let reply = &context["prompt_responses"][0];
    assert_eq!(
        reply["response"],
        "I answered dana@example.com about Friday."
    );
    assert_eq!(reply["tool_call_count"], 2);
    // Nobody is prompted for what is known.
    assert_eq!(story.run().ran(), "");
}

#[test]
fn one_line_has_the_agent_of_the_example_prompted_over_a2a() {
    let story = Story::dana();
    passes(
        &story,
        "check inbox reply",
        "inbox:create reply:reuse check:reuse",
    );
    // The same script, in a process of its own.
    let folder = story.path("agents/assistant");
    let words = json!([AEBUILD, "agent", folder, "--port", "{port}"]);
    let command = format!(
        "agents.assistant = {{ type = \"a2a\", command = {words}, mount = [\"agents/assistant\"] }}"
    );
    switch(&story, &command);
    passes(&story, "reply", "reply:create reply:restore");
    // The same script, served by somebody else.
    let serving = Serving::start(&story, "./agents/assistant");
    let at = format!(
        "agents.assistant = {{ type = \"a2a\", url = \"{}\" }}",
        serving.url
    );
    switch(&story, &at);
    passes(&story, "reply", "reply:create reply:restore");
    serving.interrupt();
    // Its answer is known, so nobody needs to be there.
    assert_eq!(story.run().ran(), "");
    // And back again.
    switch(&story, "");
    assert_eq!(story.run().ran(), "");
}

#[test]
fn a_conversation_with_a_served_agent_goes_on_turn_by_turn() {
    let other = Story::new();
    let script = "type = \"scripted\"\n[[rules]]\nturn = 1\nreply = \"first\"\n[[rules]]\nreply = \"turn {{turn}}\"\n";
    other.write("agents/counter/agent.toml", script);
    other.write("tasks/none.json", "[]");
    let serving = Serving::start(&other, "counter");
    let agent = format!("type = \"a2a\"\nurl = \"{}\"", serving.url);
    let story = story(&agent, &[]);
    let steps = json!([
        {"id": "solver", "type": "deploy_agent", "agent_name": "solver"},
        {"id": "p1", "type": "prompt_agent", "agent_name": "solver", "prompt": "a", "context_id": "x"},
        {"id": "p2", "type": "prompt_agent", "agent_name": "solver", "prompt": "b", "context_id": "y"},
        {"id": "p3", "type": "prompt_agent", "agent_name": "solver", "prompt": "c", "context_id": "x"},
    ]);
    story.write("tasks/t.json", steps.to_string());
    let seen = story.run();
    assert_eq!(super::replies(&seen), ["first", "first", "turn 2"]);
}

#[test]
fn a_served_agent_that_finds_no_env_says_so() {
    let other = Story::new();
    let script = "type = \"scripted\"\n[[rules]]\nreply = \"\"\n[[rules.calls]]\ntool = \"get\"\n";
    other.write("agents/caller/agent.toml", script);
    other.write("tasks/none.json", "[]");
    let serving = Serving::start(&other, "caller");
    let story = story(
        &format!("type = \"a2a\"\nurl = \"{}\"", serving.url),
        &["hi"],
    );
    without_env(&story);
    assert_eq!(
        failure(&story.run()),
        "p1: A2A task failed (error_type=agent_error, agent=solver): agent `caller` failed: rule 1, call 1: `get` \
         needs an env that is named; the agent has none (error_type=agent_error)"
    );
}

#[test]
fn what_is_no_scripted_agent_is_not_served() {
    let world = World::new();
    world.write("tasks/none.json", "[]");
    world.write(
        "agents/solver/agent.toml",
        "type = \"a2a\"\nurl = \"http://127.0.0.1:9\"\n",
    );
    world.write(
        "agents/good/agent.toml",
        "type = \"scripted\"\n[[rules]]\nreply = \"x\"\n",
    );
    world.write("bad/agent.toml", "type = \"scripted\"\nruls = 1\n");
    let said = |agent: &str| {
        let output = world.aebuild(&["agent", agent]);
        assert_eq!(output.stdout, b"");
        let text = String::from_utf8(output.stderr).unwrap();
        (world.shown(&text), output.status.code())
    };
    let told = ["solver", "god", "./agents/solver", "./bad", "./nowhere"].map(|agent| {
        let (text, code) = said(agent);
        format!("{text}{}\n", code.unwrap_or(-1))
    });
    expect_test::expect![[r#"
        error: agent `solver` is of type `a2a`
          help: name a scripted agent; only these are served alone
        2
        error: there is no agent `god`
          help: did you mean `good`?
        2
        error: agent `solver` is of type `a2a`
          help: name a scripted agent; only these are served alone
        2
        error[unknown-field]: agent `bad` has no key `ruls`
          ╭─[./bad/agent.toml:2:1]
        2 │ ruls = 1
          │ ──┬─
          │   ╰── not a field
          ╰────
          help: did you mean `rules`?

        1 error; nothing was run
        1
        error: `./nowhere` is no folder of an agent: it has no agent.toml
        2
    "#]]
    .assert_eq(&told.join(""));
}
