//! A person answers: from another process, while the run waits.

use std::process::{Command, Stdio};

use crate::envs::until;
use crate::story::Story;

fn aebuild(story: &Story, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aebuild"));
    command
        .args(words)
        .arg("--cache-dir")
        .arg(story.cache_dir())
        .current_dir(story.path(""))
        .stdin(Stdio::null());
    command
}

/// Waits for a question of a step and answers it.
fn answer(story: &Story, step: &str, text: &str) {
    let list = || {
        let listed = aebuild(story, &["answer"]).output().unwrap();
        String::from_utf8(listed.stdout).unwrap()
    };
    let find = || {
        let listed = list();
        let mut ids = listed.lines().filter_map(|line| line.split(' ').next());
        ids.find(|id| id.starts_with(&format!("{step}-")))
            .map(str::to_owned)
    };
    until("the question is put", || find().is_some());
    let id = find().unwrap();
    let done = aebuild(story, &["answer", &id, text]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    until("the answer is taken", || find() != Some(id.clone()));
}

#[test]
fn a_person_takes_part_and_says_whether_the_task_goes_on() {
    let story = Story::new();
    for path in ["tasks/people.json", "agents/assistant/agent.toml"] {
        let text = std::fs::read(format!("tasks/people/{path}")).unwrap();
        story.write(path, text);
    }
    for (decision, code) in [("continue", 0), ("abort", 1)] {
        let run = aebuild(&story, &["run", "-v"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        answer(&story, "talk", "Water the plants");
        answer(&story, "talk", "");
        answer(&story, "look", decision);
        let ended = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{said}");
        assert!(
            said.contains("assistant: I have written down: Water the plants. What else?"),
            "{said}"
        );
        assert!(
            said.contains("\nnotice: (an empty answer ends it)\n"),
            "{said}"
        );
        assert!(
            said.contains("step talk is not kept: a person took part in it"),
            "{said}"
        );
    }
    let refused = aebuild(&story, &["answer", "look-1", "continue"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_run_is_looked_at_from_where_it_was_started_whatever_is_there() {
    let story = Story::new();
    std::fs::remove_file(story.path("aebuild.toml")).unwrap();
    for path in ["tasks/people.json", "agents/assistant/agent.toml"] {
        let text = std::fs::read(format!("tasks/people/{path}")).unwrap();
        story.write(&format!("people/{path}"), text);
    }
    // It comes first by name, and has a workspace of its own.
    story.write("another/aebuild.toml", "");
    story.write("another/tasks/t.json", "[]");
    let run = aebuild(&story, &["run", "people"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    answer(&story, "talk", "");
    answer(&story, "look", "continue");
    assert!(run.wait_with_output().unwrap().status.success());
    // Its configuration may break later.
    story.write("another/aebuild.toml", "what?");
    let mut show = aebuild(&story, &["show"]);
    let shown = show.current_dir(story.path("people")).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("people.json: unscored"), "{text}");
}
