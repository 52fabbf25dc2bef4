//! A real watch over a real folder: what people and programs do to files, and what comes of it.
//!
//! No test waits for a time. A batch ends where the test says so, by a rename onto the fence file: the system tells of
//! everything that happened before it first.

mod busy;
mod changes;
mod editors;
mod floods;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use aebuild::event::{RunEvent, StepEvent};
use aebuild::session::{RunOptions, Session, SessionError, SessionOptions, StepKeys, Told, Wish};
use aebuild::steps::REGISTRY;
use aebuild::system::OsSystem;
use aebuild::watch::{
    Ask, Event, Mailbox, Means, Message, Moment, OnBusy, Pace, Question, Screen, Watch, Watching,
};

use crate::story::Story;

/// How long a test waits for what must come before it is lost.
const LOST: Duration = Duration::from_secs(120);

/// What a watch showed.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    Notice(String),
    Unchanged,
    Changed(Vec<String>),
    /// The number of the revision, and the keys that its run has.
    Began(u64, StepKeys),
    Step(String, StepEvent),
    Cut,
    /// The tasks with their outcomes and scores, a line each.
    Ran(String),
    /// The codes of the faults.
    Refused(Vec<String>),
    Held(Vec<String>),
    Idle(Watching),
}

struct Recorder {
    send: Sender<Shown>,
    options: RunOptions,
}

impl Recorder {
    fn show(&self, shown: Shown) {
        let _ = self.send.send(shown);
    }
}

/// Returns a path from the workspace on.
fn below(shown: &str) -> String {
    let places = ["tasks/", "artifacts/"].map(|folder| shown.find(folder));
    let at = places.into_iter().flatten().min().unwrap_or(0);
    shown[at..].to_owned()
}

/// Says how tasks ended.
fn ends(summary: &aebuild::session::RunSummary) -> String {
    let tasks = summary.tasks.iter().map(|task| {
        let scores = task.scores.iter().map(|score| score.score.to_string());
        let scores: Vec<String> = scores.collect();
        let (task, end) = (below(&task.shown), task.outcome.as_str());
        format!("{task} {end} {}\n", scores.join(" "))
    });
    tasks.collect()
}

fn codes(error: &SessionError) -> Vec<String> {
    match error {
        SessionError::Faults(faults) => faults.iter().map(|one| one.code.to_string()).collect(),
        other => vec![other.to_string()],
    }
}

impl Screen for Recorder {
    fn moment(&mut self, moment: Moment<'_>, session: Option<&mut Session>) {
        self.show(match moment {
            Moment::Notice(text) => Shown::Notice(text.to_owned()),
            Moment::Unchanged => Shown::Unchanged,
            Moment::Changed(files) => {
                Shown::Changed(files.iter().map(|file| below(file)).collect())
            }
            Moment::Began(revision) => {
                let session = session.expect("a run has its session");
                let keys = session.step_keys(&self.options).unwrap_or_default();
                Shown::Began(revision, keys)
            }
            Moment::Told(Told::Event(RunEvent::Step { step, what, .. })) => {
                Shown::Step(step.to_string(), what)
            }
            Moment::Told(_) | Moment::Continued | Moment::Ending(_) => return,
            Moment::Cut => Shown::Cut,
            Moment::Ran(summary) => Shown::Ran(ends(summary)),
            Moment::Refused(error) => Shown::Refused(codes(error)),
            Moment::Held(paths) => Shown::Held(paths.to_vec()),
            Moment::Idle(watching) => Shown::Idle(watching.clone()),
        });
    }

    fn key(&mut self, key: u8) -> Option<Ask> {
        match key {
            b'r' => Some(Ask::Rerun),
            b'f' => Some(Ask::Fresh),
            b't' => Some(Ask::Filter("t".to_owned())),
            b'q' => Some(Ask::Quit),
            _ => None,
        }
    }

    fn answer(&mut self, _: &Question, _: &mut Session, _: &RunOptions) {}
}

/// A watch that goes on.
pub struct Watched {
    pub story: Story,
    shown: Receiver<Shown>,
    mailbox: Mailbox,
    thread: Option<JoinHandle<()>>,
    ends: String,
    keys: StepKeys,
    path: &'static str,
    pub watching: Watching,
}

pub struct How {
    pub means: Means,
    pub pace: Pace,
    pub on_busy: OnBusy,
    pub is_fenced: bool,
    /// What is watched, below the workspace.
    pub path: &'static str,
}

impl How {
    pub fn new() -> Self {
        How {
            means: Means::default(),
            pace: Pace::default(),
            on_busy: OnBusy::Restart,
            is_fenced: true,
            path: "",
        }
    }
}

const TASK: &str = r#"[
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
  {"id": "load", "type": "load_artifact", "depends_on": ["box"], "sandbox_name": "box",
   "artifact_id": "data", "destination_path": "/app"},
  {"id": "check", "type": "verify_sandbox", "depends_on": ["load"], "sandbox_name": "box", "criteria": [
    {"type": "bash_cmd_succeeds", "criterion": "it is good", "bash_cmd": "grep -q good data.txt"}]}
]"#;

/// Returns a workspace with one task that passes while the artifact says `good`.
pub fn plain() -> Story {
    let story = Story::new();
    story.write("tasks/t.json", TASK);
    story.write("artifacts/data/data.txt", "good\n");
    story
}

impl Watched {
    pub fn plain() -> Self {
        let watched = Watched::start(plain(), How::new());
        assert_eq!(watched.ends, "tasks/t.json passed 1\n");
        watched
    }

    /// Starts to watch, and waits until all is quiet.
    pub fn start(story: Story, how: How) -> Self {
        let mut watched = Watched::start_busy(story, how);
        watched.until_quiet();
        watched
    }

    /// Starts to watch.
    pub fn start_busy(story: Story, mut how: How) -> Self {
        story.write("fence", "");
        let root = story.path("").canonicalize().unwrap();
        how.pace.fence = how.is_fenced.then(|| root.join("fence"));
        let options = SessionOptions {
            paths: vec![root.join(how.path)],
            cache_dir: Some(story.cache_dir()),
            no_cache: false,
        };
        let session = Session::open(Arc::new(OsSystem), REGISTRY, options.clone()).unwrap();
        let (send, shown) = channel();
        let (give, mailbox) = channel();
        let thread = std::thread::spawn(move || {
            let open = move || Session::open(Arc::new(OsSystem), REGISTRY, options.clone());
            let mut watch = Watch::new(Arc::new(OsSystem), how.means, how.pace, how.on_busy, open);
            give.send(watch.mailbox()).unwrap();
            let options = RunOptions::default();
            let mut recorder = Recorder {
                send,
                options: options.clone(),
            };
            watch.go(session, options, &mut recorder);
        });
        Watched {
            story,
            shown,
            mailbox: mailbox.recv().unwrap(),
            thread: Some(thread),
            ends: String::new(),
            keys: StepKeys::new(),
            path: how.path,
            watching: Watching::default(),
        }
    }

    pub fn send(&self, message: Message) {
        self.mailbox.send(message).unwrap();
    }

    /// Returns what is shown next.
    pub fn next(&mut self) -> Shown {
        let shown = self.shown.recv_timeout(LOST).expect("something is shown");
        match &shown {
            Shown::Ran(ends) => self.ends.clone_from(ends),
            Shown::Refused(codes) => self.ends = format!("{codes:?}"),
            Shown::Began(_, keys) => self.keys.clone_from(keys),
            Shown::Idle(watching) => self.watching.clone_from(watching),
            _ => {}
        }
        shown
    }

    /// Returns what is shown up to something.
    pub fn until(&mut self, is_it: impl Fn(&Shown) -> bool) -> Vec<Shown> {
        let mut all = Vec::new();
        loop {
            let shown = self.next();
            let is_last = is_it(&shown);
            all.push(shown);
            if is_last {
                return all;
            }
        }
    }

    /// Returns what is shown until the watch waits again.
    pub fn until_quiet(&mut self) -> Vec<Shown> {
        self.until(|shown| matches!(shown, Shown::Idle(..) | Shown::Unchanged | Shown::Held(_)))
    }

    /// Ends the batch. A link was never open: a file that a program which another test starts meanwhile inherits is closed
    /// once more when that program begins, and that would be told after the rename, as a second fence.
    pub fn fence(&self) {
        let from = self.story.path("../fence");
        symlink("nowhere", &from).unwrap();
        std::fs::rename(from, self.story.path("fence")).unwrap();
    }

    /// Does something, and returns what came of it; the watch knows then what a session knows that opens now, and has shown
    /// what a run without a cache shows.
    #[track_caller]
    pub fn after(&mut self, change: impl FnOnce(&Story)) -> Vec<Shown> {
        change(&self.story);
        self.fence();
        let shown = self.until_quiet();
        self.is_clean(&shown);
        shown
    }

    #[track_caller]
    pub fn is_clean(&self, shown: &[Shown]) {
        let root = self.story.path("").canonicalize().unwrap();
        let options = SessionOptions {
            paths: vec![root.join(self.path)],
            cache_dir: None,
            no_cache: true,
        };
        let mut session = Session::open(Arc::new(OsSystem), REGISTRY, options).unwrap();
        let keys = session
            .step_keys(&RunOptions::default())
            .unwrap_or_default();
        assert_eq!(
            self.keys, keys,
            "the last run had another state: {shown:#?}"
        );
        let (_keep, wish) = tokio::sync::watch::channel(Wish::GoOn);
        let run = session.run(&RunOptions::default(), &mut |_| (), wish);
        let clean = match run {
            Ok(summary) => ends(&summary),
            Err(error) => format!("{:?}", codes(&error)),
        };
        assert_eq!(
            self.ends, clean,
            "the last verdict is not that of a clean run: {shown:#?}"
        );
    }

    /// Does something after which exactly one run shows this.
    #[track_caller]
    pub fn one_run(&mut self, change: impl FnOnce(&Story), ends: &str) -> Vec<Shown> {
        let shown = self.after(change);
        assert_eq!(runs(&shown), 1, "{shown:#?}");
        assert_eq!(self.ends, ends, "{shown:#?}");
        shown
    }

    /// Does something after which nothing runs.
    #[track_caller]
    pub fn no_run(&mut self, change: impl FnOnce(&Story)) {
        let shown = self.after(change);
        assert_eq!(shown, [Shown::Unchanged]);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.mailbox.send(Message::Signal(Wish::StopNow));
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("the watch ends well");
            }
        }
    }
}

/// Counts the runs.
pub fn runs(shown: &[Shown]) -> usize {
    let is_run = |shown: &&Shown| matches!(shown, Shown::Began(..));
    shown.iter().filter(is_run).count()
}

/// Returns what happened to a step.
pub fn of_step<'s>(shown: &'s [Shown], step: &str) -> Vec<&'s StepEvent> {
    let what = shown.iter().filter_map(|shown| match shown {
        Shown::Step(of, what) if of == step => Some(what),
        _ => None,
    });
    what.collect()
}

pub fn rename(story: &Story, from: &str, to: &str) {
    std::fs::rename(story.path(from), story.path(to)).unwrap();
}

pub fn remove(story: &Story, path: &str) {
    std::fs::remove_file(story.path(path)).unwrap();
}

pub fn link(story: &Story, target: &str, path: &str) {
    symlink(target, story.path(path)).unwrap();
}

/// Returns the path with something before and after its file name.
pub fn beside(path: &str, before: &str, after: &str) -> String {
    let path = Path::new(path);
    let name = path.file_name().unwrap().to_str().unwrap();
    let beside: PathBuf = path.with_file_name(format!("{before}{name}{after}"));
    beside.to_str().unwrap().to_owned()
}

pub fn rescan() -> Message {
    Message::Event(Event::Rescan)
}
