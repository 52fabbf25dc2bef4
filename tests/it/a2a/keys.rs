//! What is in the keys of prompts to a program, and what is not.

use super::{replies, story};
use crate::story::Story;

const SAY: &str = "type = \"command\"\ncommand = [\"sh\", \"-c\", \"echo done\"]\n";

/// Writes what the table of the agent says.
fn configure(story: &Story, agent: &str) {
    let config = format!(
        "[sandbox]\nisolation = \"none\"\n[cache]\ndurability = \"fast\"\n[envs.kv]\nbuiltin = \"kv\"\n\
         [agents.solver]\n{agent}"
    );
    story.write("aebuild.toml", config);
}

#[test]
fn a_lock_file_that_appears_in_a_folder_that_a_program_sees_is_seen() {
    let story = story(&format!("{SAY}mount = [\"tools\"]"), &["go"]);
    story.write("tools/readme", "");
    assert_eq!(replies(&story.run()), ["done"]);
    assert_eq!(story.run().ran(), "");
    story.write("tools/package-lock.json", "{}");
    assert_eq!(story.run().ran(), "p1");
    assert_eq!(story.run().ran(), "");
    story.write("tools/package-lock.json", "{\"a\": 1}");
    let seen = story.run();
    assert_eq!(seen.ran(), "p1");
    let because = seen.because("p1");
    assert!(because.contains("agent `solver` changed"), "{because}");
}

#[test]
fn what_a_program_does_not_see_makes_no_prompt_run_again() {
    let story = story(SAY, &["go"]);
    story.write("agents/solver/agent.toml", "type = \"command\"\n");
    assert_eq!(story.run().ran(), "p1");
    for more in [
        "prompt = \"argument\"",
        "determinism = \"sampled\"",
        "ready_timeout_seconds = 9",
        "pass_variables = [\"AEBUILD_NOBODY_SETS_THIS\"]",
        "max_turns = 3",
        "[agents.solver.variables]",
    ] {
        configure(&story, &format!("{SAY}{more}\n"));
        assert_eq!(story.run().ran(), "", "{more}");
    }
    let task = std::fs::read_to_string(story.path("tasks/t.json")).unwrap();
    let told =
        r#""agent_description":"Who it is.","metadata":{"note":1},"agent_name":"solver","env_ids""#;
    let told = task.replacen(r#""agent_name":"solver","env_ids""#, told, 1);
    assert_ne!(told, task);
    story.write("tasks/t.json", told);
    assert_eq!(story.run().ran(), "");
    // Its files are what it is run with.
    story.write("agents/solver/notes", "");
    assert_eq!(story.run().ran(), "p1");
    configure(&story, &format!("{SAY}variables = {{ A = \"1\" }}\n"));
    assert_eq!(story.run().ran(), "p1");
}
