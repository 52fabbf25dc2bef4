//! Parts of the bench that run as processes of their own: floors, and calls of the library.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::inputs::TRUE;
use crate::{agents, editor, envs, files, schedule, watch};

/// Runs a part.
pub fn run(name: &str, words: &[String]) {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match name {
        "@stat" => stat(Path::new(word(0)), Path::new(word(1))),
        "@spawn" => spawn(word(0).parse().expect("a number")),
        "@parse" => parse(Path::new(word(0))),
        "@payload" => println!("{}", payload(Path::new(word(0)))),
        "@hash" => hash(Path::new(word(0))),
        "@schedule" => schedule::run(word(0), word(1).parse().expect("a number")),
        "@editor-keys" => editor::keys(Path::new(word(0))),
        "@watch-saves" => watch::saves(Path::new(word(0))),
        "@watch-idle" => watch::idle(Path::new(word(0))),
        "@env-start" => alone(envs::start(word(0))),
        "@env-state" => alone(envs::state(
            word(0).parse().expect("a number"),
            Path::new(word(1)),
        )),
        "@env-calls" => together(envs::calls(
            word(0).parse().expect("a number"),
            Path::new(word(1)),
        )),
        "@env-large" => alone(envs::large(Path::new(word(0)))),
        "@agent-messages" => together(agents::messages(word(0).parse().expect("a number"))),
        _ => panic!("the bench has no part `{name}`"),
    }
}

/// Waits for what needs one thread.
fn alone(part: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(part);
}

/// Waits for what needs all processors.
fn together(part: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(part);
}

/// Stats all files below a folder and reads one file: no less can tell that nothing has changed.
fn stat(folder: &Path, state: &Path) {
    let size =
        files::taken(folder).bytes + std::fs::read(state).map_or(0, |state| state.len() as u64);
    assert!(size > 0, "there is something to look at");
}

/// Starts so many programs, two at once.
fn spawn(n: usize) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < n {
                    let mut command = Command::new(TRUE);
                    command
                        .stdin(Stdio::null())
                        .stdout(Stdio::null())
                        .stderr(Stdio::null());
                    let status = command.status().expect("it starts");
                    assert!(status.success(), "{TRUE} is true");
                }
            });
        }
    });
}

/// Reads and parses all JSON files of a folder, and makes nothing of them.
fn parse(folder: &Path) {
    let mut n = 0;
    for file in files::below(folder) {
        let bytes = std::fs::read(&file).expect("it is there");
        let value: Value = serde_json::from_slice(&bytes).expect("it is JSON");
        n += value.as_array().map_or(0, Vec::len);
    }
    assert!(n > 0, "there are steps");
}

/// Returns the number of bytes of all verifications in a file of final contexts.
fn payload(contexts: &Path) -> u64 {
    let text = std::fs::read(contexts).expect("it is there");
    let contexts: Value = serde_json::from_slice(&text).expect("it is JSON");
    let contexts = contexts.as_object().into_iter().flatten();
    let verifications = contexts.flat_map(|(_, context)| {
        let found = context.pointer("/metadata/verifications");
        found.and_then(Value::as_object).into_iter().flatten()
    });
    verifications
        .map(|(name, value)| (name.len() + value.to_string().len()) as u64)
        .sum()
}

/// Hashes a file with one thread.
fn hash(path: &Path) {
    let mut file = File::open(path).expect("it is there");
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).expect("it can be read") {
            0 => break,
            n => hasher.update(&buffer[..n]),
        };
    }
    println!("{}", hasher.finalize());
}
