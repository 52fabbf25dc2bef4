//! A task whose agent asks a model, at an endpoint that the test scripts: what is asked, what is kept, what is spent.

use std::fs;

use aebuild::event::Outcome;
use aebuild::json::Value;
use aebuild::session::RunOptions;

use crate::story::Story;
use crate::support::{World, files, root};
use fake::{Answer, FakeEndpoint};

#[path = "../../src/model/fake.rs"]
mod fake;

const FOLDER: &str = "tasks/reply-to-dana/";

/// What the model of the agent does: it looks, answers Dana, and says so.
fn answers() -> Vec<Answer> {
    vec![
        Answer::call("search_emails", r#"{"query": "from:dana"}"#),
        Answer::call(
            "reply_to_email",
            r#"{"email_id": "m1", "content": "Friday at ten is fine with me.\n\nAlex"}"#,
        ),
        Answer::text("I answered Dana about Friday."),
    ]
}

/// Returns the files of the example without its scripted agent, and the configuration for an endpoint.
fn dana(endpoint: &FakeEndpoint, more: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for kind in [".json", ".toml"] {
        for file in files(FOLDER, kind) {
            let below = file.strip_prefix(FOLDER).unwrap();
            let is_other = ["tasks/longer.json", "tasks/retry.json"].contains(&below);
            if !is_other && !below.starts_with("agents/") && below != "aebuild.toml" {
                all.push((below.to_owned(), fs::read(root().join(&file)).unwrap()));
            }
        }
    }
    let config = format!(
        "[sandbox]\nisolation = \"none\"\n[cache]\ndurability = \"fast\"\n[envs.email]\nbuiltin = \"mail\"\n\
         [agents.assistant]\ntype = \"model\"\nmodel = \"fake\"\n\
         [models.fake]\nbase_url = \"{}\"\nmax_retries = 0\n{more}",
        endpoint.url
    );
    all.push(("aebuild.toml".to_owned(), config.into_bytes()));
    all
}

fn story(endpoint: &FakeEndpoint) -> Story {
    let story = Story::new();
    for (path, bytes) in dana(endpoint, "") {
        story.write(&path, bytes);
    }
    story.settle();
    story
}

fn rerun(step: &str) -> RunOptions {
    RunOptions {
        rerun: vec![step.to_owned()],
        ..RunOptions::default()
    }
}

fn reply(context: &Value) -> &Value {
    &context["prompt_responses"][0]
}

#[test]
fn a_model_works_on_the_mail_and_is_asked_once_for_each_answer() {
    let endpoint = FakeEndpoint::new(answers());
    let story = story(&endpoint);
    let first = story.run();
    assert_eq!(first.outcome(), Outcome::Passed, "{:?}", first.events);
    assert_eq!(first.ran(), "check inbox reply");
    assert_eq!(endpoint.n_asked(), 3);
    let spent = first.summary().tally.models;
    assert_eq!((spent.requests, spent.cached), (3, 0));
    assert_eq!(
        (spent.input_tokens, spent.output_tokens),
        (Some(300), Some(60))
    );
    assert_eq!(spent.micro_usd, None);
    let context = first.context();
    assert_eq!(reply(&context)["response"], "I answered Dana about Friday.");
    assert_eq!(reply(&context)["tool_call_count"], 2);
    let (_, log) = first.logs.iter().find(|(step, _)| step == "reply").unwrap();
    let log = String::from_utf8_lossy(log);
    assert!(
        log.contains("models: 3 requests, 300 tokens read, 60 written\n"),
        "{log}"
    );

    // Nothing changed: nothing is looked at again.
    let again = story.run();
    assert_eq!(
        (again.outcome(), again.ran()),
        (Outcome::Passed, String::new())
    );
    // The step runs again, in the mail as it was before, and every answer is there.
    let connections = endpoint.connections();
    let rerun = story.run_with(&rerun("reply"));
    assert_eq!(
        (rerun.outcome(), rerun.ran()),
        (Outcome::Passed, "reply".to_owned())
    );
    assert_eq!(
        (endpoint.n_asked(), endpoint.connections()),
        (3, connections)
    );
    let spent = rerun.summary().tally.models;
    assert_eq!(
        (spent.requests, spent.cached, spent.input_tokens),
        (0, 3, None)
    );
    assert_eq!(reply(&rerun.context()), reply(&context));
}

#[test]
fn models_are_asked_anew_where_the_run_says_so() {
    let twice = answers().into_iter().chain(answers());
    let endpoint = FakeEndpoint::new(twice);
    let story = story(&endpoint);
    assert_eq!(story.run().outcome(), Outcome::Passed);
    let anew = RunOptions {
        ask_models_anew: true,
        ..rerun("reply")
    };
    assert_eq!(story.run_with(&anew).outcome(), Outcome::Passed);
    assert_eq!(endpoint.n_asked(), 6);
}

#[test]
fn what_the_configuration_says_of_the_model_is_in_the_key_of_the_prompt() {
    let endpoint = FakeEndpoint::new(answers().into_iter().chain(answers()));
    let story = story(&endpoint);
    assert_eq!(story.run().outcome(), Outcome::Passed);
    let config = fs::read_to_string(story.path("aebuild.toml")).unwrap();
    // How long and how often it is tried is not.
    let patient = config.replace("max_retries = 0", "max_retries = 1\ntimeout_seconds = 9");
    story.write("aebuild.toml", &patient);
    assert_eq!(story.run().ran(), "");
    story.write("aebuild.toml", patient + "model = \"fake-2\"\n");
    let other = story.run();
    assert_eq!(other.ran(), "reply");
    assert!(
        other.because("reply").contains("agent `assistant` changed"),
        "{}",
        other.because("reply")
    );
    let asked = endpoint.asked();
    assert!(asked[2].body.contains("\"model\":\"fake\""));
    assert!(asked[3].body.contains("\"model\":\"fake-2\""));
}

#[test]
fn a_sample_is_asked_for_itself() {
    let endpoint = FakeEndpoint::new(answers().into_iter().chain(answers()));
    let story = story(&endpoint);
    let two = RunOptions {
        samples: 2,
        jobs: Some(1),
        ..RunOptions::default()
    };
    let seen = story.run_with(&two);
    assert_eq!(endpoint.n_asked(), 6);
    assert_eq!(seen.summary().tasks.len(), 2);
    let rerun = RunOptions {
        rerun: vec!["reply".to_owned()],
        ..two
    };
    assert_eq!(story.run_with(&rerun).summary().tally.models.cached, 6);
    assert_eq!(endpoint.n_asked(), 6);
}

#[test]
fn a_run_that_has_spent_its_budget_stops_and_keeps_what_was_answered() {
    let endpoint = FakeEndpoint::new(answers());
    let story = story(&endpoint);
    let poor = RunOptions {
        max_tokens: Some(200),
        ..RunOptions::default()
    };
    let seen = story.run_with(&poor);
    assert_eq!(seen.outcome(), Outcome::Failed);
    assert_eq!(endpoint.n_asked(), 2);
    let limit = "`--max-tokens 200` (240 spent)";
    assert_eq!(
        seen.notices(),
        format!("the run stops: it has reached {limit}")
    );
    let failure = seen.summary().tasks[0].failure.clone().unwrap_or_default();
    assert!(failure.contains(limit), "{failure}");
    let rich = story.run();
    assert_eq!(rich.outcome(), Outcome::Passed);
    let spent = rich.summary().tally.models;
    assert_eq!(
        (spent.requests, spent.cached, endpoint.n_asked()),
        (1, 2, 3)
    );
}

#[test]
fn a_spent_budget_starts_no_retry_and_no_further_task_and_is_no_success() {
    let endpoint = FakeEndpoint::new(answers());
    let world = World::new();
    for (path, bytes) in dana(&endpoint, "") {
        let text = String::from_utf8(bytes).unwrap();
        let retry = r#""retry_config": {"retry_from_step_id": "email", "max_retries": 5}, "prompt": "Reply"#;
        let text = text.replace("\"prompt\": \"Reply", retry);
        if path.ends_with("reply-to-dana.json") {
            world.write(&path.replace("reply-to-dana", "z-later"), &text);
        }
        world.write(&path, &text);
    }
    let arguments = ["run", "--jobs", "1", "--max-tokens", "200"];
    let output = world.aebuild(&arguments);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert_eq!(endpoint.n_asked(), 2, "{out}");
    let found = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = "the run stops: it has reached `--max-tokens 200` (240 spent)";
    assert!(found.contains(told) || out.contains(told), "{out}{found}");
    assert!(out.contains("1 failed, 1 cancelled"), "{out}");
}

#[test]
fn the_command_line_names_models_and_says_what_was_spent_and_no_key_is_written_anywhere() {
    const KEY: &str = "sk-this-must-not-be-seen";
    let echo = format!(r#"{{"error": {{"message": "no such key: {KEY}"}}}}"#);
    let echo = Answer::status(401, &echo).header("x-said", KEY);
    let endpoint = FakeEndpoint::new(
        [echo]
            .into_iter()
            .chain(answers().into_iter().chain(answers())),
    );
    let world = World::new();
    let more = "key_variable = \"FAKE_KEY\"\ninput_price_per_mtok = 10\noutput_price_per_mtok = 50\n\
                [models.other]\nbase_url = \"";
    let more = format!("{more}{}\"\n", endpoint.url);
    for (path, bytes) in dana(&endpoint, &more) {
        world.write(&path, &String::from_utf8(bytes).unwrap());
    }
    let run = |arguments: &[&str]| {
        let mut command = world.command(env!("CARGO_BIN_EXE_aebuild"));
        let output = command
            .arg("run")
            .args(arguments)
            .env("FAKE_KEY", KEY)
            .output();
        let output = output.unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let all = out.clone() + &String::from_utf8_lossy(&output.stderr);
        assert!(!all.contains(KEY), "{all}");
        (out, all, output.status.code())
    };
    let (_, all, status) = run(&[]);
    assert!(
        all.contains("answered 401 Unauthorized: no such key: [redacted]"),
        "{all}"
    );
    assert_eq!(status, Some(1));
    let (out, all, status) = run(&["--max-cost", "1"]);
    assert_eq!(status, Some(0), "{all}");
    assert!(
        out.ends_with("\nmodels: 3 requests, 300 tokens read, 60 written, 0.0060 USD\n"),
        "{out}"
    );
    let asked = endpoint.asked();
    assert_eq!(asked[1].path, "/v1/chat/completions");
    assert!(asked[1].head.contains(KEY) && !asked[1].body.contains(KEY));
    let (out, ..) = run(&["--rerun", "reply"]);
    assert!(
        out.ends_with("\nmodels: 0 requests, 3 from the store\n"),
        "{out}"
    );
    let (out, all, _) = run(&["--model", "other"]);
    assert!(
        out.ends_with("\nmodels: 3 requests, 300 tokens read, 60 written\n"),
        "{all}"
    );
    assert!(endpoint.asked()[4].body.contains("\"model\":\"other\""));
    let (_, all, status) = run(&["--max-cost", "0"]);
    assert!(
        all.contains("write a number above 0") && status == Some(2),
        "{all}"
    );
    let found = world.shell(&format!("grep -r {KEY} . \"$AEBUILD_CACHE_DIR\" | head -3"));
    assert_eq!(found.0, "");
}

#[test]
fn after_kill_9_in_turn_4_only_what_was_not_answered_is_asked() {
    let mail = |when: &str| {
        let content = format!(r#"{{"email_id": "m1", "content": "The review is on {when}."}}"#);
        [
            Answer::call("search_emails", r#"{"query": "from:dana"}"#),
            Answer::call("reply_to_email", &content),
            Answer::text(&format!("I have confirmed {when} by mail. Is that all?")),
        ]
    };
    let mut all = vec![
        Answer::text("Hello Dana. When would you like the review to be?"),
        Answer::text("I did not get the day. Could you say it again?"),
    ];
    all.extend(mail("Friday at ten"));
    all.extend(mail("Thursday at nine"));
    // Turn 4 has begun: its first answer is there, the second never comes.
    all.insert(6, Answer::nothing());
    let endpoint = FakeEndpoint::new(all);
    let world = World::new();
    let folder = "tasks/talk-to-dana/";
    for kind in [".json", ".toml"] {
        for file in files(folder, kind) {
            let below = file.strip_prefix(folder).unwrap();
            world.write(below, &fs::read_to_string(root().join(&file)).unwrap());
        }
    }
    world.write(
        "aebuild.toml",
        &format!(
            "[sandbox]\nisolation = \"none\"\n[envs.email]\nbuiltin = \"mail\"\n\
             [agents.assistant]\ntype = \"model\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{}\"\nmax_retries = 0\n",
            endpoint.url
        ),
    );
    let mut command = world.command(env!("CARGO_BIN_EXE_aebuild"));
    let (out, err) = (std::process::Stdio::null(), std::process::Stdio::null());
    let mut child = command.arg("run").stdout(out).stderr(err).spawn().unwrap();
    endpoint.wait_for(7);
    child.kill().unwrap();
    child.wait().unwrap();

    let output = world.aebuild(&["run"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.ends_with("models: 2 requests, 6 from the store, 200 tokens read, 40 written\n"),
        "{said}"
    );
    assert_eq!(endpoint.n_asked(), 9, "{said}");
    let again = world.aebuild(&["run"]);
    assert_eq!(again.status.code(), Some(0));
    assert_eq!(endpoint.n_asked(), 9, "{said}");
}

/// Returns a workspace whose agent is a folder and asks a model of which the configuration says nothing.
fn bot() -> World {
    let world = World::new();
    world.write("aebuild.toml", "[sandbox]\nisolation = \"none\"\n");
    world.write("agents/bot/agent.toml", "type = \"model\"\nmodel = \"m\"\n");
    let task = r#"[{"id": "bot", "type": "deploy_agent", "agent_name": "bot"},
                   {"id": "ask", "type": "prompt_agent", "agent_name": "bot", "prompt": "hello"}]"#;
    world.write("tasks/t.json", task);
    world
}

/// Runs with an endpoint and a key from the environment, and returns all that was said.
fn run_at(world: &World, endpoint: &FakeEndpoint, key: &str) -> String {
    let mut command = world.command(env!("CARGO_BIN_EXE_aebuild"));
    let command = command.arg("run").env("OPENAI_BASE_URL", &endpoint.url);
    let output = command.env("OPENAI_API_KEY", key).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_model_without_a_table_is_asked_anew_at_another_endpoint_but_not_with_another_key() {
    let (one, two) = (
        FakeEndpoint::new([Answer::text("one")]),
        FakeEndpoint::new([Answer::text("two")]),
    );
    let world = bot();
    run_at(&world, &one, "key-number-1");
    let again = run_at(&world, &one, "key-number-2");
    assert_eq!((one.n_asked(), two.n_asked()), (1, 0), "{again}");
    let other = run_at(&world, &two, "key-number-2");
    assert_eq!((one.n_asked(), two.n_asked()), (1, 1), "{other}");
    let back = run_at(&world, &one, "key-number-2");
    assert_eq!((one.n_asked(), two.n_asked()), (1, 1), "{back}");
}

#[test]
fn a_key_of_which_the_configuration_says_nothing_is_written_nowhere() {
    const KEY: &str = "sk-nobody-spoke-of-this-one";
    let echo = Answer::text(&format!("you sent {KEY}"));
    let refusal = format!(r#"{{"error": {{"message": "no such key: {KEY}"}}}}"#);
    let endpoint = FakeEndpoint::new([echo, Answer::status(401, &refusal)]);
    let world = bot();
    let said = run_at(&world, &endpoint, KEY) + &run_at(&world, &endpoint, KEY);
    assert_eq!(endpoint.n_asked(), 2, "{said}");
    assert!(said.contains("no such key: [redacted]"), "{said}");
    assert!(!said.contains(KEY), "{said}");
    let found = world.shell(&format!("grep -r {KEY} . \"$AEBUILD_CACHE_DIR\" | head -3"));
    assert_eq!(found.0, "");
}

#[test]
fn a_spent_budget_takes_nothing_back_that_was_paid_for() {
    let endpoint = FakeEndpoint::new([Answer::text("One."), Answer::text("Two.")]);
    let story = Story::new();
    let config = format!(
        "[sandbox]\nisolation = \"none\"\n[cache]\ndurability = \"fast\"\n\
         [agents.clerk]\ntype = \"model\"\nmodel = \"fake\"\n[models.fake]\nbase_url = \"{}\"\nmax_retries = 0\n",
        endpoint.url
    );
    story.write("aebuild.toml", config);
    story.write(
        "tasks/t.json",
        r#"[{"id": "clerk", "type": "deploy_agent", "agent_name": "clerk"},
            {"id": "one", "type": "prompt_agent", "agent_name": "clerk", "prompt": "First?"},
            {"id": "two", "type": "prompt_agent", "agent_name": "clerk", "prompt": "Then?",
             "retry_config": {"retry_from_step_id": "one", "max_retries": 3}}]"#,
    );
    story.settle();
    let poor = RunOptions {
        max_tokens: Some(100),
        ..RunOptions::default()
    };
    let seen = story.run_with(&poor);
    let failure = seen.summary().tasks[0].failure.clone().unwrap_or_default();
    assert!(
        failure.starts_with("failed at step `two`: ModelError: agent `clerk`: the run has reached"),
        "{failure}"
    );
    assert_eq!(story.run().ran(), "two");
    assert_eq!(endpoint.n_asked(), 2);
}
