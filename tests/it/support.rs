//! What several tests need: the built program in a world of its own, and texts without what differs between runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use fancy_regex::Regex;

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns whether files are to be rewritten rather than compared.
pub fn is_update() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1")
}

/// Compares a file of the repository with what it should be, or rewrites it.
pub fn check_file(path: &str, expected: &str) -> Result<(), String> {
    let file = root().join(path);
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    if is_update() {
        std::fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("a folder");
        std::fs::write(&file, expected).expect("the file is written");
        return Ok(());
    }
    let at = found
        .lines()
        .zip(expected.lines())
        .take_while(|(a, b)| a == b)
        .count();
    let line = |text: &str| text.lines().nth(at).unwrap_or("(no more lines)").to_owned();
    Err(format!(
        "{path}:{} is out of date; run the test with UPDATE_EXPECT=1 and read the diff\n  has:  {}\n  want: {}",
        at + 1,
        line(&found),
        line(expected),
    ))
}

/// A folder with a cache and a home of its own, in which the program runs.
pub struct World {
    folder: tempfile::TempDir,
}

impl World {
    /// Returns an empty world.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["work", "home"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        World { folder }
    }

    /// Returns a world with a copy of a folder of the repository, at the same relative path.
    pub fn with(path: &str) -> Self {
        let world = World::new();
        let to = world.path().join(path);
        std::fs::create_dir_all(to.parent().expect("it is below the root")).expect("a folder");
        let copied = Command::new("cp")
            .arg("-a")
            .arg(root().join(path))
            .arg(&to)
            .status();
        assert!(
            copied.expect("cp runs").success(),
            "`{path}` was not copied"
        );
        // What runs in the work tree left there is not part of the example.
        std::fs::remove_dir_all(to.join(".aebuild")).ok();
        world
    }

    /// Returns the folder in which commands run.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a file and the folders above it.
    pub fn write(&self, path: &str, text: &str) {
        let file = self.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("a folder");
        std::fs::write(file, text).expect("the file is written");
    }

    /// Returns a command that sees this world only.
    pub fn command(&self, program: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_aebuild"))
            .parent()
            .expect("a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", self.folder.path().join("home"))
            .env("AEBUILD_CACHE_DIR", self.folder.path().join("cache"))
            .env("TERM", "dumb")
            .env("LC_ALL", "C.UTF-8")
            .env("COLUMNS", "100")
            .env_remove("CI")
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program.
    pub fn aebuild(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_aebuild"));
        command
            .args(arguments)
            .output()
            .expect("the program starts")
    }

    /// Runs a shell command and returns what it says, both outputs in one, and its exit status.
    pub fn shell(&self, line: &str) -> (String, Option<i32>) {
        let path = self.folder.path().join("said");
        let said = std::fs::File::create(&path).expect("a file");
        // Opened once, so that the two outputs do not write over each other.
        let both = said.try_clone().expect("another handle");
        let status = self
            .command("timeout")
            .args(["-k", "5", "300", "sh", "-c", line])
            .stdout(said)
            .stderr(both)
            .status()
            .expect("a shell");
        let said = std::fs::read(&path).expect("what was said");
        (self.shown(&String::from_utf8_lossy(&said)), status.code())
    }

    /// Returns a text without what differs between runs, and without this world's place.
    pub fn shown(&self, text: &str) -> String {
        let here = self
            .folder
            .path()
            .canonicalize()
            .expect("the folder is there");
        let text = text.replace(&*here.to_string_lossy(), "/tmp/world");
        stable(&text.replace(&*self.folder.path().to_string_lossy(), "/tmp/world"))
    }
}

static UNSTABLE: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let table = [
        (
            r"\b\d+ h \d+ min\b|\b\d+ min \d+ s\b|\b\d+\.\d s\b",
            "0.1 s",
        ),
        (r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "20260131-235959-0af3c9"),
        (
            // Virtual weeks are in March 2026, which was over before there was a run.
            r"\b(?!2026-03-)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?",
            "2026-01-31T23:59:59",
        ),
        (r#""(\w*_us)":\s*-?\d+"#, r#""$1":0"#),
        (r"(?m)^notice: .*bubblewrap.*\n", ""),
    ];
    table
        .map(|(from, to)| (Regex::new(from).expect("a pattern"), to))
        .into()
});

/// Returns a text without what differs between runs: durations, times, run ids.
pub fn stable(text: &str) -> String {
    // Said only where there is no bubblewrap.
    let said = text.split_inclusive('\n');
    let text: String = said
        .filter(|line| !line.contains("isolate files by convention only"))
        .collect();
    UNSTABLE.iter().fold(text, |text, (from, to)| {
        from.replace_all(&text, *to).into_owned()
    })
}

/// Returns whether Python is there, and says so where it is not.
pub fn has_python(for_what: &str) -> bool {
    let found = Command::new("python3").arg("--version").output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED, since there is no python3: {for_what}");
    }
    is_there
}

/// Returns the files below a folder of the repository whose names end so, as paths from the root, sorted.
pub fn files(folder: &str, end: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && name != ".aebuild" && name != "target" {
                open.push(entry.path());
            } else if kind.is_file() && name.ends_with(end) {
                let path = entry.path();
                let path = path.strip_prefix(root()).expect("it is below the root");
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}
