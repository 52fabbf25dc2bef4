//! Weeks that pass by a virtual clock: the same each time by leaps, another sample each time in real time.

use std::fs;

use aebuild::event::Outcome;
use aebuild::json::{Value, json};
use aebuild::session::RunOptions;

use crate::story::{Seen, Story, normal};
use crate::support::{files, root};

const WALLS: &str = "[sandbox]\nisolation = \"none\"\n[cache]\ndurability = \"fast\"\n";

/// Returns a copy of an example, each of whose files may be changed on the way.
fn copy(name: &str, change: impl Fn(&str, String) -> String) -> Story {
    let story = Story::new();
    let folder = format!("tasks/{name}/");
    for file in files(&folder, "") {
        let below = file.strip_prefix(&folder).unwrap();
        if below != "README.md" {
            let text = fs::read_to_string(root().join(&file)).unwrap();
            story.write(below, change(below, text));
        }
    }
    let config = fs::read_to_string(story.path("aebuild.toml")).unwrap();
    story.write("aebuild.toml", WALLS.to_owned() + &config);
    story.settle();
    story
}

/// Returns all that a run gave, but for ids by chance and times on the wall: the final context, in which what is kept is
/// named by its content, and what steps printed.
fn gave(seen: &Seen) -> (String, Vec<(String, String)>) {
    let logs = seen.logs.iter();
    let logs = logs.map(|(step, log)| (step.clone(), String::from_utf8_lossy(log).into_owned()));
    let mut logs: Vec<(String, String)> = logs.collect();
    logs.sort();
    (normal(seen.context()).to_string(), logs)
}

#[track_caller]
fn is_kept(context: &Value, path: &str) {
    let url = context.pointer(path).and_then(Value::as_str);
    assert!(
        url.is_some_and(|url| url.starts_with("aebuild:sha256:")),
        "{path}: {url:?}"
    );
}

#[test]
fn a_week_by_leaps_is_the_same_week_ten_times() {
    let mut first = None;
    for _ in 0..10 {
        let story = copy("inbox-week", |_, text| text);
        let seen = story.run();
        assert_eq!(seen.outcome(), Outcome::Passed, "{}", seen.notices());
        assert_eq!(seen.ran(), "check clock deadline snapshot week");
        let context = seen.context();
        // What these name is the same where the context is: they hold the digest of what was kept.
        is_kept(&context, "/prompt_responses/0/agent_trajectory_object_url");
        is_kept(&context, "/metadata/env_trigger_state/email/object_url");
        is_kept(
            &context,
            "/metadata/env_snapshotted_universes/snapshot/environments/email/object_url",
        );
        let again = story.run();
        assert_eq!((again.ran(), again.provisioned()), Default::default());
        let gave = gave(&seen);
        match &first {
            None => first = Some(gave),
            Some(first) => assert_eq!(gave, *first),
        }
    }
}

#[test]
fn twenty_conversations_at_once_are_told_the_same_of_the_triggers() {
    let mut first = None;
    for jobs in [None, None, Some(2), Some(7)] {
        let story = copy("support-world", |_, text| text);
        let options = RunOptions {
            jobs,
            ..RunOptions::default()
        };
        let seen = story.run_with(&options);
        assert_eq!(seen.outcome(), Outcome::Passed, "{}", seen.notices());
        let context = seen.context();
        let state = &context["metadata"]["env_trigger_state"]["office"];
        assert_eq!(
            state["statuses"],
            json!({"pack": "armed", "book": "armed", "closing": "armed"})
        );
        let fired = |id: &str| state["triggers"][id]["fire_count"].clone();
        // It is nine in the morning for all of them.
        assert_eq!(
            (fired("pack"), fired("book"), fired("closing")),
            (json!(5), json!(5), json!(0))
        );
        assert_eq!(state["capture_is_final"], json!(true));
        let again = story.run();
        assert_eq!((again.ran(), again.provisioned()), Default::default());
        let gave = (
            normal(context).to_string(),
            story.explain("end-state").reads,
            story.explain("grade-ada").reads,
        );
        match &first {
            None => first = Some(gave),
            Some(first) => assert_eq!(gave, *first),
        }
    }
}

#[test]
fn a_conversation_that_fails_holds_nobody_up() {
    for jobs in [None, Some(2)] {
        let story = copy("support-world", |file, text| match file {
            "tasks/support-world.json" => text
                .replace("Ben is on the line about order 1002.", "Nobody is there.")
                .replace(
                    "\"id\": \"talk-ben\",",
                    "\"id\": \"talk-ben\", \"fail_task_on_error\": false,",
                ),
            _ => text,
        });
        let options = RunOptions {
            jobs,
            ..RunOptions::default()
        };
        let seen = story.run_with(&options);
        assert_eq!(
            seen.outcome(),
            Outcome::Failed,
            "nobody can grade what was not said"
        );
        let context = seen.context();
        let state = &context["metadata"]["env_trigger_state"]["office"];
        assert_eq!(state["triggers"]["pack"]["fire_count"], json!(4));
        let replies = context["prompt_responses"].as_array().unwrap();
        assert_eq!(replies.len(), 19);
    }
}

#[test]
fn a_week_in_real_time_goes_on_by_itself_and_is_kept_as_a_sample() {
    let story = copy("inbox-week", |file, text| match file {
        "aebuild.toml" => text.replace("clock = \"event\"\n", ""),
        "agents/assistant/agent.toml" => text
            .replace("2026-03-03T10:00:00Z", "2026-03-05T10:00:00Z")
            .replace("2026-03-06T17:00:00Z", "2026-03-05T11:00:00Z"),
        "tasks/inbox-week.json" => text
            .replace("2026-03-02T09:00:00Z", "2026-03-04T11:00:00Z")
            .replace("3600", "86400"),
        _ => text,
    });
    let seen = story.run();
    assert_eq!(
        seen.outcome(),
        Outcome::ScoredBelowOne,
        "{}",
        seen.notices()
    );
    assert_eq!(seen.ran(), "check clock deadline snapshot week");
    let context = seen.context();
    let state = &context["metadata"]["env_trigger_state"]["email"];
    assert_eq!(state["statuses"], json!({"dana-asks": "fired"}));
    assert_eq!(state["capture_is_final"], json!(true));
    let said = context["prompt_responses"][0]["response"].as_str().unwrap();
    let (time, rest) = said.split_at("It is 2026-03-05T11:00:00Z".len());
    assert!(
        time >= "It is 2026-03-05T11:00:00Z",
        "no wait ends too soon: {said}"
    );
    assert_eq!(rest, ". Mails from Dana: 1.");
    assert_eq!(seen.not_stored(), "");
    // It is that sample until another is asked for.
    let again = story.run();
    assert_eq!(
        (again.ran(), again.provisioned()),
        Default::default(),
        "{}",
        again.because("check")
    );
    let sampled = |step: &str| {
        story
            .explain(step)
            .key
            .iter()
            .any(|(part, _)| part == "sample")
    };
    assert!(sampled("week"), "{:?}", story.explain("week").key);
    assert!(!sampled("check") && !sampled("deadline"));
}
