//! The peers: where they are found, and the inputs that only they need. One that is absent is skipped, and said so.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files;
use crate::inputs::{Shape, Size, TRUE};
use crate::measure::Program;

const TURBO_VERSION: &str = "2.11.11";

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn is_ok(command: &mut Command) -> bool {
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns `ninja`.
pub fn ninja() -> Option<PathBuf> {
    let found = find_program("ninja");
    if found.is_none() {
        eprintln!("SKIPPED: ninja is not there (apt-get install ninja-build)");
    }
    found
}

/// Returns the original, as `AEBUILD_PEER_AGENT_ENV` names it.
pub fn agent_env() -> Option<PathBuf> {
    let found = std::env::var_os("AEBUILD_PEER_AGENT_ENV").map(PathBuf::from);
    let found = found.filter(|path| path.is_file());
    if found.is_none() {
        eprintln!(
            "SKIPPED: AEBUILD_PEER_AGENT_ENV names no agent-env (pip install agentenv-framework)"
        );
    }
    found
}

/// Returns `turbo`, installed with npm once and kept.
pub fn turbo() -> Option<PathBuf> {
    let Some(npm) = find_program("npm") else {
        eprintln!("SKIPPED: npm is not there, so turbo cannot be installed");
        return None;
    };
    let prefix = std::env::temp_dir().join(format!("aebuild-compare-turbo-{TURBO_VERSION}"));
    let turbo = prefix.join("node_modules/.bin/turbo");
    if !turbo.exists() {
        let mut install = Command::new(npm);
        install
            .arg("install")
            .arg("--prefix")
            .arg(&prefix)
            .args(["--no-audit", "--no-fund"]);
        install.arg(format!("turbo@{TURBO_VERSION}"));
        if std::fs::create_dir_all(&prefix).is_err() || !is_ok(&mut install) {
            eprintln!("SKIPPED: npm cannot install turbo {TURBO_VERSION}");
            return None;
        }
    }
    Some(turbo)
}

/// A folder of `turbo`: a package a task, a script a step.
pub struct TurboFolder {
    root: PathBuf,
    program: PathBuf,
    size: Size,
}

impl TurboFolder {
    /// Writes a folder.
    pub fn write(root: &Path, size: Size, shape: Shape, program: PathBuf) -> Self {
        let npm = Program::new("npm").arg("--version").said();
        let package = format!(
            r#"{{"name": "root", "private": true, "packageManager": "npm@{}", "workspaces": ["packages/*"]}}"#,
            npm.trim()
        );
        files::write(&root.join("package.json"), package);
        // Its own logs lie in the packages and would count as inputs.
        files::write(&root.join(".gitignore"), ".turbo\nnode_modules\n");
        let mut tasks = String::new();
        let mut scripts = String::new();
        for step in 1..size.steps {
            let on = shape.edges(step).into_iter().filter(|on| *on > 0);
            let on: Vec<String> = on.map(|on| format!(r#""s{on}""#)).collect();
            let comma = if step == 1 { "" } else { ", " };
            let on = on.join(", ");
            write!(
                tasks,
                r#"{comma}"s{step}": {{"dependsOn": [{on}], "outputs": []}}"#
            )
            .expect("text grows");
            write!(scripts, r#"{comma}"s{step}": "{TRUE}""#).expect("text grows");
        }
        files::write(
            &root.join("turbo.json"),
            format!(r#"{{"tasks": {{{tasks}}}}}"#),
        );
        let mut locked = r#""": {"name": "root", "workspaces": ["packages/*"]}"#.to_owned();
        for task in 0..size.tasks {
            let package = format!(
                r#"{{"name": "t{task}", "version": "1.0.0", "private": true, "scripts": {{{scripts}}}}}"#
            );
            files::write(
                &root.join(format!("packages/t{task}/package.json")),
                package,
            );
            write!(
                locked,
                r#", "packages/t{task}": {{"name": "t{task}", "version": "1.0.0"}}, "node_modules/t{task}": {{"resolved": "packages/t{task}", "link": true}}"#
            )
            .expect("text grows");
        }
        let lock = format!(r#"{{"name": "root", "lockfileVersion": 3, "packages": {{{locked}}}}}"#);
        files::write(&root.join("package-lock.json"), lock);
        TurboFolder {
            root: root.to_path_buf(),
            program,
            size,
        }
    }

    /// Returns the program that runs the folder.
    pub fn run(&self) -> Program {
        let tasks = (1..self.size.steps).map(|step| format!("s{step}"));
        Program::new(&self.program)
            .arg("run")
            .args(tasks)
            .args([
                "--concurrency=2",
                "--output-logs=none",
                "--no-update-notifier",
            ])
            .within(&self.root)
            .variable("TURBO_TELEMETRY_DISABLED", "1")
    }

    /// Runs it and returns how many scripts ran.
    pub fn count_and_run(&self) -> Option<u64> {
        let said = self.run().said();
        let line = said
            .lines()
            .find(|line| line.trim_start().starts_with("Cached:"))?;
        let numbers: Vec<u64> = line
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        let [cached, total] = numbers[..] else {
            return None;
        };
        Some(total - cached)
    }
}
