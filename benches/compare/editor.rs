//! The language server, called as an editor calls it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aebuild::json::{Value, json};
use aebuild::lsp::{Connection, Setting, serve};
use aebuild::steps::REGISTRY;
use aebuild::system::OsSystem;
use lsp_server::{Message, Notification, Request};

use crate::measure::median;

/// How many characters are typed.
const KEYS: usize = 41;

/// Types into the first task of a folder and prints the median and the largest time from a character to the faults, and the
/// median time that reading the text as JSON takes, in milliseconds.
///
/// Each character breaks a name or mends it, so that each time something is published.
pub fn keys(root: &Path) {
    let mut tasks: Vec<PathBuf> = std::fs::read_dir(root.join("tasks"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    tasks.sort();
    let uri = format!("file://{}", tasks[0].display());
    let mut text = std::fs::read_to_string(&tasks[0]).expect("it is there");
    let (ours, theirs) = Connection::memory();
    let setting = Setting {
        system: Arc::new(OsSystem),
        registry: REGISTRY,
        cache_dir: Some(root.join("cache")),
    };
    let server = std::thread::spawn(move || serve(theirs, setting));
    let send = |message: Message| ours.sender.send(message).expect("the server listens");
    let tell =
        |method: &str, params: Value| send(Notification::new(method.to_owned(), params).into());
    let ask = |id: i32, method: &str, params: Value| {
        send(Request::new(id.into(), method.to_owned(), params).into());
    };
    let folder = format!("file://{}", root.display());
    ask(
        1,
        "initialize",
        json!({"capabilities": {}, "rootUri": folder}),
    );
    tell("initialized", json!({}));
    let document = json!({"uri": uri, "languageId": "json", "version": 0, "text": text});
    tell("textDocument/didOpen", json!({"textDocument": document}));

    // The last edge of the file is where it hurts most.
    let at = text.rfind("\"depends_on\"").expect("an edge");
    let at = at + text[at..].find(": [\"").expect("a name") + 4;
    let line = text[..at].matches('\n').count();
    let column = at - text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let place = |column: usize| json!({"line": line, "character": column});
    let (mut took, mut floors) = (Vec::new(), Vec::new());
    for key in 1..=KEYS {
        let (end, typed) = match key % 2 {
            1 => (column, "x"),
            _ => (column + 1, ""),
        };
        text.replace_range(at..at + end - column, typed);
        let began = Instant::now();
        let value: Value = serde_json::from_str(&text).expect("it is JSON");
        floors.push(ms(began.elapsed()));
        drop(value);
        let change = json!([{"range": {"start": place(column), "end": place(end)}, "text": typed}]);
        let began = Instant::now();
        tell(
            "textDocument/didChange",
            json!({"textDocument": {"uri": uri, "version": key}, "contentChanges": change}),
        );
        loop {
            let message = ours.receiver.recv().expect("the server answers");
            let Message::Notification(one) = message else {
                continue;
            };
            if one.params["version"] == json!(key) {
                break;
            }
        }
        // The first look reads the whole folder.
        if key > 1 {
            took.push(ms(began.elapsed()));
        }
    }
    ask(2, "shutdown", Value::Null);
    tell("exit", Value::Null);
    assert!(
        server.join().expect("it does not panic"),
        "it ends as agreed"
    );
    let most = took.iter().copied().fold(0.0, f64::max);
    println!("{} {most} {}", median(took), median(floors));
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
