//! Model endpoints that nobody here wrote: `@copilotkit/aimock` with its faults, and `@dwmkerr/mock-llm`, both of npm.
//!
//! `AEBUILD_PEER_NODE_MODULES` names a folder `node_modules` with both. What is not there is skipped, and says so.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use aebuild::event::Outcome;
use aebuild::json::{Value, from_slice, json};
use aebuild::session::RunOptions;

use crate::story::{Seen, Story};

/// Returns a script of npm, if the packages are there.
fn script(path: &str) -> Option<PathBuf> {
    let modules = std::env::var_os("AEBUILD_PEER_NODE_MODULES").map(PathBuf::from);
    let found = modules
        .map(|modules| modules.join(path))
        .filter(|script| script.exists());
    if found.is_none() {
        eprintln!("SKIPPED: {path} is not below AEBUILD_PEER_NODE_MODULES, so it cannot be asked");
    }
    found
}

/// A server that ends with the test.
struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("the server is this test's own");
        self.child.wait().unwrap();
    }
}

impl Server {
    /// Starts a script with a file of what it answers, and waits until it says that it listens.
    fn start(script: PathBuf, file: &str, text: &str, arguments: &[&str], port: u16) -> Server {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file), text).unwrap();
        let mut child = Command::new("node")
            .arg(script)
            .args(arguments)
            .current_dir(folder.path())
            .env("HOST", "127.0.0.1")
            .env("PORT", port.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = loop {
            let line = lines
                .next()
                .expect("a server that listens says so")
                .unwrap();
            if line.contains("listening on") || line.contains("server running on") {
                break line;
            }
        };
        // What it says later is read, so that it never waits.
        std::thread::spawn(move || lines.for_each(drop));
        let named = line.rsplit(':').next().unwrap().trim().parse();
        Server {
            child,
            port: named.unwrap(),
            folder,
        }
    }

    fn aimock(fixtures: &Value) -> Option<Server> {
        let script = script("@copilotkit/aimock/dist/cli.js")?;
        let arguments = ["-p", "0", "-h", "127.0.0.1", "-f", "f.json", "--strict"];
        let text = fixtures.to_string();
        Some(Server::start(script, "f.json", &text, &arguments, 0))
    }

    fn mock_llm(rules: &str) -> Option<Server> {
        let script = script("@dwmkerr/mock-llm/dist/main.js")?;
        // It wants to be told a port.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        Some(Server::start(script, "mock-llm.yaml", rules, &[], port))
    }

    /// Sends a request and returns the JSON of the answer.
    fn http(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        from_slice(body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Returns the paths that aimock was asked at.
    fn asked(&self) -> Vec<String> {
        let journal = self.http("GET", "/__aimock/journal", "");
        let journal = journal.as_array().unwrap().iter();
        let paths = journal.map(|entry| entry["path"].as_str().unwrap().to_owned());
        paths.collect()
    }

    fn chaos(&self, rates: &Value) {
        self.http("DELETE", "/__aimock/chaos", "");
        self.http("POST", "/__aimock/chaos", &rates.to_string());
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
}

/// Returns the example reply-to-dana whose agent asks a model at this server: one line says so, and one table where it is.
fn dana(server: &Server, more: &str) -> Story {
    let story = Story::dana();
    let config = fs::read_to_string(story.path("aebuild.toml")).unwrap();
    let url = server.url();
    story.write(
        "aebuild.toml",
        format!(
            "{config}\n[agents.assistant]\ntype = \"model\"\nmodel = \"mock\"\n\
             [models.mock]\nbase_url = \"{url}\"\n{more}"
        ),
    );
    story.settle();
    story
}

const SEARCH: &str = r#"{"query": "from:dana"}"#;
const REPLY: &str = r#"{"email_id": "m1", "content": "Friday at ten is fine with me.\n\nAlex"}"#;

/// What aimock answers: it looks, answers Dana, and says so.
fn fixtures() -> Value {
    let call = |turn: u64, name: &str, arguments: &str| {
        json!({
            "match": {"userMessage": "Dana", "turnIndex": turn},
            "response": {"toolCalls": [{"name": name, "arguments": arguments}]},
        })
    };
    json!({"fixtures": [
        call(0, "search_emails", SEARCH),
        call(1, "reply_to_email", REPLY),
        {"match": {"userMessage": "Dana", "turnIndex": 2}, "response": {"content": "I answered Dana."}},
    ]})
}

fn rerun() -> RunOptions {
    RunOptions {
        rerun: vec!["reply".to_owned()],
        ..RunOptions::default()
    }
}

#[track_caller]
fn passes(seen: &Seen, ran: &str) {
    let failure = &seen.summary().tasks[0].failure;
    assert_eq!(seen.outcome(), Outcome::Passed, "{failure:?}");
    assert_eq!(seen.ran(), ran);
}

/// Returns why the run failed.
#[track_caller]
fn fails(seen: &Seen) -> String {
    assert_eq!(seen.outcome(), Outcome::Failed);
    seen.summary().tasks[0].failure.clone().unwrap_or_default()
}

#[test]
fn a_model_behind_aimock_answers_dana_over_either_api_and_is_not_asked_again() {
    for (api, path) in [
        ("openai", "/v1/chat/completions"),
        ("anthropic", "/v1/messages"),
    ] {
        let Some(server) = Server::aimock(&fixtures()) else {
            return;
        };
        let story = dana(&server, &format!("api = \"{api}\"\n"));
        passes(&story.run(), "check inbox reply");
        assert_eq!(server.asked(), [path; 3]);
        passes(&story.run(), "");
        passes(&story.run_with(&rerun()), "reply");
        assert_eq!(server.asked().len(), 3);
        // With nobody there, nothing is missed.
        drop(server);
        passes(&story.run_with(&rerun()), "reply");
    }
}

#[test]
fn the_faults_of_aimock_are_told_and_leave_nothing_behind() {
    let Some(server) = Server::aimock(&fixtures()) else {
        return;
    };
    let story = dana(&server, "max_retries = 0\n");
    let port = server.port;
    for (rates, told) in [
        (json!({"dropRate": 1}), "answered 500"),
        (
            json!({"malformedRate": 1}),
            "no JSON: {malformed json: <<<chaos>>>",
        ),
        (json!({"disconnectRate": 1}), "cannot be reached"),
        (json!({"rateLimitRate": 1}), "answered 429"),
    ] {
        server.chaos(&rates);
        let why = fails(&story.run());
        assert!(
            why.contains(told) && why.contains("`mock`"),
            "{rates}: {why}"
        );
        assert!(
            why.contains(&format!("127.0.0.1:{port}")) || told.starts_with("no JSON"),
            "{why}"
        );
    }
    server.http("DELETE", "/__aimock/chaos", "");
    passes(&story.run(), "check reply");
}

#[test]
fn an_answer_of_429_is_asked_for_again_and_the_retry_is_counted() {
    let mut fixtures = fixtures();
    let limited = json!({
        "match": {"userMessage": "Dana", "turnIndex": 0, "sequenceIndex": 0},
        "response": {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429},
    });
    let all = fixtures["fixtures"].as_array_mut().unwrap();
    all[0]["match"]["sequenceIndex"] = json!(1);
    all.insert(0, limited);
    let Some(server) = Server::aimock(&fixtures) else {
        return;
    };
    let story = dana(&server, "max_retries = 1\n");
    let seen = story.run();
    passes(&seen, "check inbox reply");
    let spent = seen.summary().tally.models;
    assert_eq!((spent.requests, spent.retried), (4, 1));
}

#[test]
fn a_model_behind_mock_llm_answers_dana_and_an_error_is_told() {
    let call = |n: u64, name: &str, arguments: &str| {
        let calls = json!([{"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]);
        rule(
            n,
            200,
            &json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": calls}, "finish_reason": "tool_calls"}]}),
        )
    };
    let said = json!({"choices": [{"message": {"role": "assistant", "content": "I answered Dana."}, "finish_reason": "stop"}]});
    let rules = format!(
        "rules:\n{}{}{}",
        call(1, "search_emails", SEARCH),
        call(3, "reply_to_email", REPLY),
        rule(5, 200, &said)
    );
    let Some(server) = Server::mock_llm(&rules) else {
        return;
    };
    assert!(server.folder.path().exists());
    let story = dana(&server, "max_retries = 0\n");
    passes(&story.run(), "check inbox reply");
    let no_key = json!({"error": {"message": "Incorrect API key provided."}});
    let Some(refuses) = Server::mock_llm(&format!("rules:\n{}", rule(1, 401, &no_key))) else {
        return;
    };
    let story = dana(&refuses, "");
    let why = fails(&story.run());
    assert!(
        why.ends_with("answered 401 Unauthorized: Incorrect API key provided."),
        "{why}"
    );
}

/// Returns a rule of mock-llm for a conversation of so many messages.
fn rule(n_messages: u64, status: u16, content: &Value) -> String {
    let content = content.to_string().replace('\'', "''");
    format!(
        "  - path: '/v1/chat/completions'\n    match: 'length(body.messages) == `{n_messages}`'\n    response:\n      \
         status: {status}\n      content: '{content}'\n"
    )
}
