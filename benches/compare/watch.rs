//! `aebuild watch`, saved to as an author saves.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::files;
use crate::measure::median;

/// How often a verifier is saved.
const SAVES: usize = 25;
/// How long a watch that has nothing to do is looked at.
const IDLE: Duration = Duration::from_secs(5);

/// The criterion that is edited.
const CRITERION: &str = "Somebody is greeted.";

/// Writes a task folder with a sandbox, some files in it, and three verifiers.
pub fn write(root: &Path, n_files: usize) {
    let criterion =
        |text: &str| json!([{"type": "bash_cmd_succeeds", "criterion": text, "bash_cmd": "true"}]);
    let verifier = |id: &str, text: &str| {
        json!({"id": id, "type": "verify_sandbox", "depends_on": ["files"], "sandbox_name": "box",
               "verifier_id": id, "criteria": criterion(text)})
    };
    let steps = json!([
        {"id": "box", "type": "deploy_sandbox", "depends_on": [], "sandbox_name": "box", "sandbox_mode": "vm"},
        {"id": "files", "type": "load_artifact", "depends_on": ["box"], "sandbox_name": "box",
         "artifact_id": "files", "destination_path": "/app"},
        verifier("first", "It runs."),
        verifier("second", CRITERION),
        verifier("third", "It runs too."),
    ]);
    files::write(
        &task(root),
        serde_json::to_string_pretty(&steps).expect("it is JSON"),
    );
    for at in 0..n_files {
        let path = root.join(format!("artifacts/files/{}/{at}.txt", at / 100));
        files::write(&path, format!("file {at}\n"));
    }
}

fn task(root: &Path) -> PathBuf {
    root.join("tasks/task.json")
}

/// A watch that runs, and the lines that it writes.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    /// Starts one and waits until it has run everything.
    fn start(root: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_aebuild"))
            .args(["watch", "--json", "--cache-dir"])
            .arg(root.join("cache"))
            .arg(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut watch = Watch { child, lines };
        watch.until("watching", |_| {});
        watch
    }

    /// Hands over events up to one by this name.
    fn until(&mut self, name: &str, mut each: impl FnMut(&Value)) {
        loop {
            let line = self.lines.next().expect("it goes on").expect("it is text");
            let event: Value = serde_json::from_str(&line).expect("it is JSON");
            each(&event);
            if event["event"] == name {
                return;
            }
        }
    }

    /// Returns a number of kB from the file that says what the process takes.
    fn status(&self, name: &str) -> f64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let words = line.map(|rest| rest.trim_start_matches(':').split_whitespace());
        let number = words.and_then(|mut words| words.next()?.parse().ok());
        number.expect("a number of kB")
    }

    /// Returns how long it has used processors, in hundredths of a second.
    fn ticks(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let rest = text.rsplit(')').next().unwrap_or_default();
        let numbers = rest.split_whitespace().skip(11).take(2);
        numbers.filter_map(|word| word.parse::<f64>().ok()).sum()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .expect("it ends");
    }
}

/// Saves a verifier again and again, each time as no run has seen it; says how long the verdict takes after the save, how
/// much of it is not the verifier's own time, and how many steps ran, at the median.
pub fn saves(root: &Path) {
    let text = std::fs::read_to_string(task(root)).expect("it is there");
    let mut watch = Watch::start(root);
    let (mut took, mut over, mut ran) = (Vec::new(), Vec::new(), Vec::new());
    for save in 0..SAVES {
        // As an editor saves: a new file in the place of the old one.
        let beside = root.join("tasks/.task.json.new");
        files::write(
            &beside,
            text.replace(CRITERION, &format!("{CRITERION} ({save})")),
        );
        let began = Instant::now();
        std::fs::rename(&beside, task(root)).expect("the bench can write");
        let (mut verdict, mut own) = (0.0, 0.0);
        watch.until("watching", |event| match event["event"].as_str() {
            Some("step_finished") => own += event["took_us"].as_f64().unwrap_or(0.0) / 1e3,
            Some("run_finished") => {
                verdict = began.elapsed().as_secs_f64() * 1e3;
                ran.push(event["ran"].as_f64().unwrap_or(0.0));
            }
            _ => {}
        });
        took.push(verdict);
        over.push(verdict - own);
    }
    println!("took {}", median(took));
    println!("over {}", median(over));
    println!("ran {}", median(ran));
}

/// Watches and does nothing; says how much of a processor that takes, and how much memory in MB.
pub fn idle(root: &Path) {
    let watch = Watch::start(root);
    let before = watch.ticks();
    std::thread::sleep(IDLE);
    println!("ticks {}", watch.ticks() - before);
    println!("memory {}", watch.status("VmRSS") * 1024.0 / 1e6);
    println!("peak {}", watch.status("VmHWM") * 1024.0 / 1e6);
}
