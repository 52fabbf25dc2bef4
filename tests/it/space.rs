//! A place for stories about sandboxes, with and without a wall.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aebuild::provider::local::{LocalSandbox, LocalSandboxes, SandboxSpec, Wanted};
use aebuild::provider::process::Patience;
use aebuild::step::sandbox::*;

pub const SHORT: Patience = Patience {
    grace: Duration::from_millis(50),
    linger: Duration::from_millis(50),
};

pub struct Space {
    pub live: tempfile::TempDir,
    pub sandboxes: LocalSandboxes,
}

impl Space {
    pub fn new(wanted: Wanted) -> Self {
        let live = tempfile::tempdir().unwrap();
        let sandboxes = LocalSandboxes::new(live.path().join("live"), "run", wanted)
            .unwrap()
            .with_patience(SHORT);
        Self { live, sandboxes }
    }

    pub fn sandbox(&self, id: &str) -> Arc<LocalSandbox> {
        self.sandboxes
            .create(SandboxSpec {
                id: id.into(),
                ..Default::default()
            })
            .unwrap()
    }
}

pub fn bubblewrap_works() -> bool {
    let live = tempfile::tempdir().unwrap();
    match LocalSandboxes::new(live.path().to_owned(), "run", Wanted::Bubblewrap) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("SKIPPED behind a wall: {error}");
            false
        }
    }
}

/// Runs a story in a space of each isolation that works here.
pub fn each<F: Future<Output = ()>>(story: impl Fn(Space) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(story(Space::new(Wanted::None)));
    if bubblewrap_works() {
        runtime.block_on(story(Space::new(Wanted::Bubblewrap)));
    }
}

/// Runs a story in a walled space, where walls work.
pub fn walled<F: Future<Output = ()>>(story: impl Fn(Space) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if bubblewrap_works() {
        runtime.block_on(story(Space::new(Wanted::Bubblewrap)));
    }
}

pub fn unwalled<F: Future<Output = ()>>(story: impl Fn(Space) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(story(Space::new(Wanted::None)));
}

pub async fn bash(sandbox: &LocalSandbox, script: &str) -> String {
    let exited = sandbox.exec(Exec::bash(script)).await.unwrap();
    let how = if exited.is_success() {
        String::new()
    } else {
        format!(" [{:?}]", exited.how)
    };
    format!(
        "{}{}{how}",
        exited.stdout.text().trim_end(),
        exited.stderr.text().trim_end()
    )
}

/// The processes alive that carry the mark of a sandbox and whose command line holds a text.
pub fn alive(id: &str, text: &str) -> usize {
    let marker = format!("AEBUILD_SANDBOX={id}");
    let has = |pid: &str| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let words = |bytes: Vec<u8>| {
            bytes
                .split(|b| *b == 0)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect::<Vec<_>>()
        };
        words(read("environ")).contains(&marker) && words(read("cmdline")).join(" ").contains(text)
    };
    let names = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| name.parse::<u32>().is_ok() && has(name))
        .count()
}

pub async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

pub fn tree(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, below: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                found.push(format!("{name}/"));
                walk(&entry.path(), &format!("{name}/"), found);
            } else {
                found.push(name);
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, "", &mut found);
    found.sort();
    found
}
