//! Variables of this machine that the program of an agent sees.

use std::process::{Command, Stdio};

use aebuild::json::Value;

use super::story;
use crate::envs::holding;
use crate::story::Story;

const SECRET: &str = "canary-0c6d81e2f4";

/// Runs the task of a workspace with `WHO`, and returns what was said and what the agent answered.
fn run(story: &Story, who: &str) -> (String, String) {
    let context = story.path("../context.json");
    let output = Command::new(env!("CARGO_BIN_EXE_aebuild"))
        .arg("run")
        .arg(story.path(""))
        .args(["--cache-dir".as_ref(), story.cache_dir().as_os_str()])
        .args(["--output".as_ref(), context.as_os_str()])
        .env("WHO", who)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    let context = std::fs::read_to_string(context).unwrap();
    let context: Value = serde_json::from_str(&context).unwrap();
    let reply = &context["prompt_responses"][0]["response"];
    (said, reply.as_str().unwrap().to_owned())
}

fn teller(more: &str) -> Story {
    let agent = "type = \"command\"\ncommand = [\"sh\", \"-c\", \"echo I am $WHO.\"]\n";
    story(&(agent.to_owned() + more), &["who are you?"])
}

#[test]
fn a_program_sees_the_variables_that_its_table_passes_on_and_they_are_in_the_keys_of_its_prompts() {
    let story = teller("pass_variables = [\"WHO\"]");
    assert_eq!(run(&story, "Dana").1, "I am Dana.");
    let (said, reply) = run(&story, "Alex");
    assert_eq!(reply, "I am Alex.", "{said}");
    let (said, reply) = run(&story, "Dana");
    assert_eq!(reply, "I am Dana.");
    assert!(said.contains("0 ran"), "{said}");
}

#[test]
fn a_program_sees_the_variables_that_sandboxes_see_and_they_are_in_the_keys_of_its_prompts() {
    let story = teller("[determinism.types]\nprompt_agent = \"pure\"");
    let config = std::fs::read_to_string(story.path("aebuild.toml")).unwrap();
    let config = config.replace("[sandbox]\n", "[sandbox]\npass_variables = [\"WHO\"]\n");
    story.write("aebuild.toml", config);
    assert_eq!(run(&story, "Dana").1, "I am Dana.");
    assert_eq!(run(&story, "Alex").1, "I am Alex.");
}

#[test]
fn a_value_that_is_passed_on_to_an_agent_is_written_nowhere() {
    let story = teller("pass_variables = [\"WHO\"]");
    let (said, _) = run(&story, SECRET);
    assert!(!said.contains(SECRET), "{said}");
    assert!(
        said.contains("step p1 is not kept: it holds the value of a variable that is passed on"),
        "{said}"
    );
    for folder in [story.path(""), story.cache_dir()] {
        let none: Vec<String> = Vec::new();
        assert_eq!(holding(&folder, SECRET.as_bytes()), none);
    }
}
