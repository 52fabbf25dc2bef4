//! The task of the docs, `tasks/reply-to-dana`: which edit runs which steps, and how the env gets to its state.

use std::fs;

use aebuild::event::Outcome;
use aebuild::json::json;
use aebuild::session::{RunOptions, SessionError};

use crate::story::Story;

/// Returns a copy of the example that ran once.
fn dana() -> Story {
    let story = Story::dana();
    let first = story.run();
    assert_eq!(first.outcome(), Outcome::Passed);
    assert_eq!(first.ran(), "check inbox reply");
    assert_eq!(first.provisioned(), "inbox:create reply:reuse check:reuse");
    story
}

fn replace(story: &Story, file: &str, old: &str, new: &str) {
    let text = fs::read_to_string(story.path(file)).unwrap();
    assert!(text.contains(old), "{file} has no {old}");
    story.write(file, text.replace(old, new));
}

#[track_caller]
fn check(story: &Story, ran: &str, provisioned: &str) {
    let seen = story.run();
    assert_eq!(seen.outcome(), Outcome::Passed);
    assert_eq!(
        (seen.ran().as_str(), seen.provisioned().as_str()),
        (ran, provisioned)
    );
    let live = fs::read_dir(story.path(".aebuild/live"))
        .into_iter()
        .flatten();
    let left = live.map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != ".lock").collect();
    assert!(left.is_empty(), "{left:?}");
    let again = story.run();
    assert_eq!(
        (again.ran().as_str(), again.provisioned().as_str()),
        ("", "")
    );
}

#[test]
fn an_edit_of_the_check_prompts_nobody_and_restores_the_env() {
    let story = dana();
    replace(
        &story,
        "artifacts/sent/verify.toml",
        "Dana got one answer",
        "one answer for Dana",
    );
    check(&story, "check", "check:restore");
}

#[test]
fn an_edit_of_the_mail_makes_the_env_anew() {
    let story = dana();
    replace(
        &story,
        "artifacts/danas-mail/inbox.json",
        "at ten",
        "at eleven",
    );
    check(
        &story,
        "check inbox reply",
        "inbox:create reply:reuse check:reuse",
    );
}

#[test]
fn an_edit_of_the_prompt_asks_the_agent_in_the_env_as_it_was_loaded() {
    let story = dana();
    replace(
        &story,
        "tasks/reply-to-dana.json",
        "Reply to Dana.",
        "Please reply to Dana.",
    );
    // The agent does the same, so the env is as before and the check has nothing to look at again.
    check(&story, "reply", "reply:restore");
}

#[test]
fn an_edit_of_the_agent_asks_it_again() {
    let story = dana();
    replace(
        &story,
        "agents/assistant/agent.toml",
        "is fine with me",
        "suits me",
    );
    check(&story, "check reply", "reply:restore check:reuse");
}

#[test]
fn an_edit_of_the_definition_of_the_env_runs_all_that_touches_it() {
    let story = dana();
    replace(
        &story,
        "aebuild.toml",
        "[envs.email]\n",
        "[envs.email]\nread_only_tools = [\"search_emails\"]\n",
    );
    // What is only how aebuild looks at the env changes nothing that it is.
    check(&story, "", "");
    replace(
        &story,
        "tasks/reply-to-dana.json",
        "\"env_id\": \"email\",\n    \"depends_on\": []",
        "\"env_id\": \"email\",\n    \"metadata\": {\"seed\": 1},\n    \"depends_on\": []",
    );
    // The env is another one: the same state in it says nothing of what its tools do.
    check(
        &story,
        "check inbox reply",
        "inbox:create reply:reuse check:reuse",
    );
}

#[test]
fn what_changed_in_an_agent_or_an_env_is_what_is_explained() {
    let story = dana();
    replace(
        &story,
        "agents/assistant/agent.toml",
        "is fine with me",
        "suits me",
    );
    replace(
        &story,
        "aebuild.toml",
        "builtin = \"mail\"",
        "builtin = \"mail\"\nread_only_tools = []",
    );
    let because = |story: &Story, step: &str| {
        let explained = story.explain(step);
        let reasons = explained.causes.iter().flat_map(|cause| {
            let behind = cause
                .then
                .iter()
                .map(|cause| format!("{}: {}", cause.step, cause.reason));
            std::iter::once(cause.reason.to_string()).chain(behind)
        });
        reasons.collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        because(&story, "reply"),
        "agent `assistant` changed; assistant: `rules` of agent `assistant` changed; \
         state of agent `assistant` changed; assistant: `rules` of agent `assistant` changed"
    );
    story.run();
    replace(
        &story,
        "tasks/reply-to-dana.json",
        "\"env_id\": \"email\",\n    \"depends_on\": []",
        "\"env_id\": \"email\",\n    \"metadata\": {\"seed\": 1},\n    \"depends_on\": []",
    );
    assert_eq!(
        because(&story, "inbox"),
        "env `email` changed; email: field `metadata` changed; state of env `email` changed; email: field `metadata` changed"
    );
}

#[test]
fn an_edit_of_formatting_and_key_order_runs_nothing() {
    let story = dana();
    replace(
        &story,
        "tasks/reply-to-dana.json",
        "\"id\": \"email\",\n    \"type\": \"deploy_env\",",
        "\"type\":   \"deploy_env\",\n\n    \"id\": \"email\",",
    );
    check(&story, "", "");
}

#[test]
fn a_script_of_its_own_file_and_an_env_that_says_itself_how_it_is_run() {
    let story = Story::new();
    story.write(
        "tasks/t.json",
        r#"[
          {"id": "notes", "type": "deploy_env", "env_id": "notes", "depends_on": []},
          {"id": "a", "type": "deploy_agent", "agent_name": "writer", "env_ids": ["notes"], "depends_on": ["notes"]},
          {"id": "write", "type": "prompt_agent", "agent_name": "writer", "prompt": "Note it.", "depends_on": ["a"]}
        ]"#,
    );
    story.write("envs/notes/env.toml", "builtin = \"kv\"\n");
    let script = r#"{"rules": [{"reply": "noted", "calls": [{"tool": "set", "arguments": {"key": "a", "value": 1}}]}]}"#;
    story.write("agents/writer/script.json", script);
    story.settle();
    let first = story.run();
    assert_eq!(
        (first.outcome(), first.ran().as_str()),
        (Outcome::Unscored, "write")
    );
    replace(
        &story,
        "agents/writer/script.json",
        "\"value\": 1",
        "\"value\": 2",
    );
    check_unscored(&story, "write", "write:create");
    story.write(
        "envs/notes/env.toml",
        "builtin = \"kv\"\nstate = \"replay\"\n",
    );
    story.settle();
    // What is kept of its state in one way is of no use in the other.
    check_unscored(&story, "write", "write:create");
    story.write(
        "envs/notes/env.toml",
        "builtin = \"vk\"\nstat = \"replay\"\n",
    );
    let Err(aebuild::session::SessionError::Faults(faults)) = story.run().result else {
        panic!("it ran");
    };
    let codes: Vec<&str> = faults.iter().map(|fault| fault.code.as_str()).collect();
    assert_eq!(codes, ["unknown-value", "unknown-field"]);
}

#[track_caller]
fn check_unscored(story: &Story, ran: &str, provisioned: &str) {
    let seen = story.run();
    assert_eq!(seen.outcome(), Outcome::Unscored);
    assert_eq!(
        (seen.ran().as_str(), seen.provisioned().as_str()),
        (ran, provisioned)
    );
}

#[test]
fn files_that_a_step_copies_to_an_env_come_back_with_its_state() {
    let story = Story::new();
    story.write(
        "aebuild.toml",
        "[cache]\ndurability = \"fast\"\n[envs.world]\nbuiltin = \"files\"\n",
    );
    story.write(
        "tasks/t.json",
        r#"[
          {"id": "world", "type": "deploy_env", "env_id": "world", "depends_on": []},
          {"id": "load", "type": "load_artifact", "env_id": "world", "artifact_id": "note", "destination_path": "/in",
           "depends_on": ["world"]},
          {"id": "a", "type": "deploy_agent", "agent_name": "writer", "env_ids": ["world"], "depends_on": ["world"]},
          {"id": "edit", "type": "prompt_agent", "agent_name": "writer", "prompt": "Edit.", "depends_on": ["a", "load"]},
          {"id": "check", "type": "env_outcome_verifier", "env_id": "world", "file_artifact_id": "check",
           "depends_on": ["edit"]}
        ]"#,
    );
    story.write("artifacts/note/note.txt", "Friday\n");
    story.write(
        "agents/writer/agent.toml",
        "type = \"scripted\"\n[[rules]]\n[[rules.calls]]\ntool = \"append_file\"\n\
         arguments = { path = \"/in/note.txt\", content = \"at ten\\n\" }\n",
    );
    let check = "[[expect]]\ncall = { tool = \"read_file\", arguments = { path = \"/in/note.txt\" } }\n\
                 path = \"$.content\"\nequals = \"Friday\\nat ten\\n\"\n";
    story.write("artifacts/check/verify.toml", check);
    story.settle();
    let first = story.run();
    let context = first.context();
    assert_eq!(
        first.outcome(),
        Outcome::Passed,
        "{:?}",
        context["metadata"]["verifications"]
    );
    story.write("artifacts/check/verify.toml", format!("# again\n{check}"));
    let second = story.run();
    assert_eq!(
        (second.outcome(), second.provisioned().as_str()),
        (Outcome::Passed, "check:restore")
    );
}

#[test]
fn another_agent_takes_the_place_of_the_solver_for_one_run() {
    let story = dana();
    let script = fs::read_to_string(story.path("agents/assistant/script.json"));
    let (file, text) = match script {
        Ok(text) => ("script.json", text),
        Err(_) => (
            "agent.toml",
            fs::read_to_string(story.path("agents/assistant/agent.toml")).unwrap(),
        ),
    };
    story.write(
        &format!("agents/other/{file}"),
        text.replace("Friday", "Monday"),
    );
    story.settle();
    let with = |name: &str| RunOptions {
        user_overrides: json!({"solver_agent": name}).as_object().cloned().unwrap(),
        ..RunOptions::default()
    };
    let other = story.run_with(&with("other"));
    assert_eq!(other.ran(), "check reply");
    // The first agent's results are still there.
    assert_eq!(story.run().ran(), "");
    let unknown = story.run_with(&with("othr")).result;
    let Err(SessionError::Faults(faults)) = unknown else {
        panic!("an agent that is not there is a fault");
    };
    let faults: Vec<String> = faults.iter().map(|fault| fault.headline.clone()).collect();
    assert_eq!(faults, ["there is no agent `othr`"]);
}

#[test]
fn what_a_later_attempt_gave_is_nothing_for_a_task_without_another_attempt() {
    let story = Story::example("reply-to-dana", &["tasks/longer.json"]);
    let task = |name: &str| RunOptions {
        tasks: vec![name.to_owned()],
        ..RunOptions::default()
    };
    let shy = RunOptions {
        user_overrides: json!({"solver_agent": "shy"}).as_object().cloned().unwrap(),
        ..task("reply-to-dana")
    };
    let retried = story.run_with(&task("retry"));
    assert_eq!(retried.outcome(), Outcome::Passed);
    // The same steps, without the retry: the first attempt counts, which fails.
    let once = story.run_with(&shy);
    assert_ne!(once.outcome(), Outcome::Passed);
    assert_eq!(once.ran(), "reply");
    // And the task with the retry still has its result.
    let again = story.run_with(&task("retry"));
    assert_eq!(
        (again.outcome(), again.ran()),
        (Outcome::Passed, String::new())
    );
}
