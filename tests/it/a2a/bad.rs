//! Agents that are not there, answer badly, lie, or do not end; and runs that end while an agent works.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use aebuild::event::Outcome;
use aebuild::json::{Value, from_slice, json};
use rustix::process::{Pid, Signal, kill_process};

use super::{failure, replies, served, story, without_env};
use crate::envs::until;
use crate::story::Story;

/// An agent in this process that answers as it is told to.
struct Bad {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Bad {
    /// Serves a card, made of the address, and an answer to each method.
    fn serve(
        card: fn(&str) -> Value,
        answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Bad {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (card, log, answer) = (card(&url).to_string(), asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                let (card, log, answer) = (card.clone(), log.clone(), answer.clone());
                std::thread::spawn(move || {
                    // Who asked may have hung up.
                    let _ = one(stream, &card, &log, &*answer);
                });
            }
        });
        Bad { url, asked }
    }

    /// What was asked, each once in a row.
    fn asked(&self) -> String {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.dedup();
        asked.join(" ")
    }

    fn story(&self, more: Value) -> Story {
        prompted(&self.url, more)
    }
}

/// A workspace in which the agent at an address is prompted once, with these words more in the step.
fn prompted(url: &str, more: Value) -> Story {
    let story = story(&format!("type = \"a2a\"\nurl = \"{url}\""), &["hi"]);
    without_env(&story);
    let text = fs::read_to_string(story.path("tasks/t.json")).unwrap();
    let mut steps: Value = from_slice(text.as_bytes()).unwrap();
    for (key, value) in more.as_object().unwrap() {
        steps[2][key] = value.clone();
    }
    story.write("tasks/t.json", steps.to_string());
    story
}

/// Answers one request and hangs up.
fn one(
    mut stream: TcpStream,
    card: &str,
    log: &Mutex<Vec<String>>,
    answer: &(impl Fn(&str) -> Vec<u8> + ?Sized),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = match first.starts_with("GET") {
        true => card.as_bytes().to_vec(),
        false => {
            let request: Value = from_slice(&body).unwrap();
            let method = request["method"].as_str().unwrap();
            log.lock().unwrap().push(method.to_owned());
            answer(method)
        }
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(&body)
}

fn old(url: &str) -> Value {
    json!({"name": "bad", "protocolVersion": "0.3.0", "url": format!("{url}/a2a"), "capabilities": {}})
}

fn new(url: &str) -> Value {
    json!({"name": "bad", "capabilities": {}, "supportedInterfaces": [
        {"url": format!("{url}/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]})
}

fn result(value: &Value) -> Vec<u8> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "result": value});
    body.to_string().into_bytes()
}

fn refusal(code: i64, message: &str) -> Vec<u8> {
    let error = json!({"code": code, "message": message});
    let body = json!({"jsonrpc": "2.0", "id": 1, "error": error});
    body.to_string().into_bytes()
}

/// The beginning of an error of an agent that says nothing that could be understood.
const UNREACHABLE: &str = "p1: agent `solver` could not be asked: ";
/// The beginning of an error that an agent tells.
const FAILED: &str = "p1: A2A task failed (error_type=agent_error, agent=solver): ";

#[test]
fn an_agent_that_is_not_there_fails_its_step() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let story = story(
        &format!("type = \"a2a\"\nurl = \"http://127.0.0.1:{port}\""),
        &["hi"],
    );
    without_env(&story);
    let said = failure(&story.run());
    let start = format!("{UNREACHABLE}nothing answers at http://127.0.0.1:{port}/.well-known/");
    assert!(said.starts_with(&start), "{said}");
    assert!(said.contains("onnection refused"), "{said}");
}

#[test]
fn an_agent_that_takes_connections_and_says_nothing_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let story = prompted(&url, json!({"timeout_seconds": 0.3}));
    let said = failure(&story.run());
    assert_eq!(said, "p1: agent `solver` gave no answer within 0.3 s");
}

#[test]
fn an_answer_that_is_none_fails_its_step_in_a_sentence() {
    type Row = (fn() -> Vec<u8>, &'static str);
    let table: [Row; 5] = [
        (
            || b"<html>not here</html>".to_vec(),
            "its answer to `message/send` is no JSON object: <html>not here</html>",
        ),
        (
            || refusal(-32603, "out of cheese"),
            "it refused `message/send` with code -32603: out of cheese",
        ),
        (
            || vec![b' '; 50 << 20],
            "its answer to `message/send` is larger than 32 MiB",
        ),
        (
            || result(&json!({"kind": "riddle"})),
            "its answer to `message/send` is neither a message nor a task",
        ),
        (
            || result(&json!({"kind": "task", "id": "t", "status": {"state": "failed"}})),
            "it does not say why",
        ),
    ];
    for (answer, expected) in table {
        let bad = Bad::serve(old, move |_| answer());
        let said = failure(&bad.story(json!({})).run());
        let is_told = expected.starts_with("it ");
        let start = if is_told { FAILED } else { UNREACHABLE };
        assert_eq!(said, format!("{start}{expected}"));
        assert_eq!(bad.asked(), "message/send");
    }
}

#[test]
fn an_agent_that_does_not_end_is_told_to_give_up_and_the_step_times_out() {
    for (card, names) in [
        (
            old as fn(&str) -> Value,
            "message/send tasks/get tasks/cancel",
        ),
        (new, "SendMessage GetTask CancelTask"),
    ] {
        let bad = Bad::serve(card, |_| {
            result(&json!({"id": "t", "status": {"state": "working"}}))
        });
        let said = failure(&bad.story(json!({"timeout_seconds": 0.3})).run());
        assert_eq!(said, "p1: agent `solver` gave no answer within 0.3 s");
        assert_eq!(bad.asked(), names);
    }
}

#[test]
fn a_card_that_names_the_other_dialect_does_no_harm() {
    let done = json!({"kind": "message", "role": "agent", "messageId": "m",
                      "parts": [{"kind": "text", "text": "done"}]});
    let bad = Bad::serve(new, move |method| match method {
        "message/send" => result(&done),
        _ => refusal(-32601, "Method not found"),
    });
    assert_eq!(replies(&bad.story(json!({})).run()), ["done"]);
    assert_eq!(bad.asked(), "SendMessage message/send");
}

#[test]
fn a_card_that_leads_nowhere_fails_the_step() {
    type Row = (fn(&str) -> Value, &'static str);
    let table: [Row; 4] = [
        (
            |_| json!({"name": "bad", "url": "file:///etc/passwd"}),
            "`file:///etc/passwd` is no address: ",
        ),
        (
            |_| json!({"name": "bad", "url": 7}),
            "its card names no address at which it is asked",
        ),
        (
            |url| json!({"name": "bad", "url": url, "protocolVersion": "9.1"}),
            "its card offers JSONRPC 9.1, and none of JSON-RPC in A2A 0.3 or 1.0",
        ),
        (|_| json!("a card"), "its card is no JSON object"),
    ];
    for (card, expected) in table {
        let bad = Bad::serve(card, |_| refusal(0, "nobody asks"));
        let said = failure(&bad.story(json!({})).run());
        assert!(
            said.starts_with(&format!("{UNREACHABLE}{expected}")),
            "{said} has no {expected}"
        );
        assert_eq!(bad.asked(), "");
    }
}

/// Leaves a file in the folder that its first word names, and goes on.
const WAITS: &str = "touch \"${0#leave=}/waits\"; sleep 1000; true";

/// A run of a task whose agent waits for ever, and the folder in which the agent leaves files.
struct Waiting {
    story: Story,
    left: tempfile::TempDir,
    run: Child,
}

impl Waiting {
    /// Starts the agent of the tests, told to wait.
    fn start() -> Option<Waiting> {
        let left = tempfile::tempdir().unwrap();
        let words = format!(", \"leave={}\"", left.path().display());
        Some(Waiting::run(served(&words, "", &["wait"])?, left))
    }

    /// Runs a workspace until its agent has left a file `waits`.
    fn run(story: Story, left: tempfile::TempDir) -> Waiting {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aebuild"));
        command
            .arg("run")
            .arg(story.path(""))
            .arg("--cache-dir")
            .arg(story.cache_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let run = command.spawn().unwrap();
        let waits = left.path().join("waits");
        until("the agent waits", || waits.exists());
        Waiting { story, left, run }
    }

    /// Ends the run by Ctrl-C, after which nothing of the agent is there.
    #[track_caller]
    fn interrupt(&mut self) {
        kill_process(Pid::from_child(&self.run), Signal::INT).unwrap();
        assert_eq!(self.run.wait().unwrap().code(), Some(130));
        assert_eq!(self.processes(), 0);
    }

    /// Returns how many processes of the agent there are.
    fn processes(&self) -> usize {
        let mark = format!("leave={}", self.left.path().display());
        let lines = fs::read_dir("/proc").unwrap().flatten();
        let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines
            .filter(|line| {
                line.split(|byte| *byte == 0)
                    .any(|word| word == mark.as_bytes())
            })
            .count()
    }
}

#[test]
fn ctrl_c_ends_an_agent_that_works() {
    let Some(mut waiting) = Waiting::start() else {
        return;
    };
    assert_ne!(waiting.processes(), 0);
    waiting.interrupt();
}

#[test]
fn ctrl_c_ends_an_agent_that_does_not_get_ready() {
    let left = tempfile::tempdir().unwrap();
    let mark = format!("leave={}", left.path().display());
    let command = json!(["sh", "-c", WAITS, mark]);
    let story = story(&format!("type = \"a2a\"\ncommand = {command}"), &["hi"]);
    let mut waiting = Waiting::run(story, left);
    assert_ne!(waiting.processes(), 0);
    waiting.interrupt();
}

#[test]
fn ctrl_c_ends_a_program_that_answers_a_prompt() {
    let left = tempfile::tempdir().unwrap();
    let mark = format!("leave={}", left.path().display());
    let command = json!(["sh", "-c", WAITS, mark]);
    let story = story(&format!("type = \"command\"\ncommand = {command}"), &["hi"]);
    let mut waiting = Waiting::run(story, left);
    assert_ne!(waiting.processes(), 0);
    waiting.interrupt();
}

#[test]
fn after_kill_9_the_next_run_ends_the_agent_that_was_left() {
    let Some(mut waiting) = Waiting::start() else {
        return;
    };
    waiting.run.kill().unwrap();
    waiting.run.wait().unwrap();
    super::prompt(&waiting.story, &["heard"]);
    let seen = waiting.story.run();
    assert_eq!(seen.outcome(), Outcome::Unscored);
    assert_eq!(replies(&seen), ["heard 1 of 1"]);
    assert_eq!(waiting.processes(), 0);
}
