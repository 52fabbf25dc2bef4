//! A workspace in which a test writes, runs, edits and runs again, and asserts on what happened.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aebuild::event::{Outcome, RunEvent, StepEvent};
use aebuild::json::Value;
use aebuild::session::{
    Explanation, RunOptions, RunSummary, Session, SessionError, SessionOptions, Told, Wish,
};
use aebuild::steps::REGISTRY;
use aebuild::system::OsSystem;

use crate::support::{files, root};

/// Sandboxes are folders, and nothing waits for the disk.
const PLAIN: &str = "[sandbox]\nisolation = \"none\"\n[cache]\ndurability = \"fast\"\n";

/// A task folder with a cache of its own.
pub struct Story {
    folder: tempfile::TempDir,
}

/// What a run did.
pub struct Seen {
    pub events: Vec<RunEvent>,
    pub logs: Vec<(String, Vec<u8>)>,
    pub result: Result<RunSummary, SessionError>,
}

impl Story {
    /// Returns an empty workspace; sandboxes are folders, so that tests need nothing installed.
    pub fn new() -> Self {
        let story = Story {
            folder: tempfile::tempdir().unwrap(),
        };
        story.write("aebuild.toml", PLAIN);
        story
    }

    /// Returns an empty workspace that steps can reach by its path, since it is not in the folder for temporary things, of
    /// which sandboxes have their own.
    pub fn in_reach() -> Self {
        let story = Story {
            folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
        };
        story.write("aebuild.toml", PLAIN);
        story
    }

    /// Returns a copy of an example of `tasks/`, without its README and these files.
    pub fn example(name: &str, without: &[&str]) -> Self {
        let story = Story::new();
        let folder = format!("tasks/{name}/");
        for file in files(&folder, "") {
            let below = file.strip_prefix(&folder).unwrap();
            if below != "README.md" && !without.contains(&below) {
                story.write(below, fs::read(root().join(&file)).unwrap());
            }
        }
        let config = root().join(&folder).join("aebuild.toml");
        let config = fs::read_to_string(config).unwrap_or_default();
        story.write("aebuild.toml", PLAIN.to_owned() + &config);
        story.settle();
        story
    }

    /// Returns a copy of `tasks/reply-to-dana` without its variants, which have tests of their own.
    pub fn dana() -> Self {
        Story::example("reply-to-dana", &["tasks/longer.json", "tasks/retry.json"])
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join("work").join(below)
    }

    pub fn cache_dir(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub fn write(&self, below: &str, text: impl AsRef<[u8]>) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn session(&self) -> Result<Session, SessionError> {
        self.session_on(&[""])
    }

    /// Opens a session on folders below the workspace.
    pub fn session_on(&self, below: &[&str]) -> Result<Session, SessionError> {
        let options = SessionOptions {
            paths: below.iter().map(|below| self.path(below)).collect(),
            cache_dir: Some(self.cache_dir()),
            no_cache: false,
        };
        Session::open(Arc::new(OsSystem), REGISTRY, options)
    }

    pub fn run(&self) -> Seen {
        self.run_with(&RunOptions::default())
    }

    pub fn run_with(&self, options: &RunOptions) -> Seen {
        match self.session() {
            Ok(mut session) => self.run_in(&mut session, options),
            Err(error) => Seen {
                events: Vec::new(),
                logs: Vec::new(),
                result: Err(error),
            },
        }
    }

    /// Runs in a session that is open.
    pub fn run_in(&self, session: &mut Session, options: &RunOptions) -> Seen {
        let mut events = Vec::new();
        let mut logs = Vec::new();
        let (_keep, wish) = tokio::sync::watch::channel(Wish::GoOn);
        let result = self.session().and_then(|reader| {
            session.run(
                options,
                &mut |told| match told {
                    Told::Event(event) => events.push(event),
                    Told::Log { step, log, .. } => {
                        logs.push((step, reader.log_bytes(&log).unwrap_or_default()));
                    }
                },
                wish,
            )
        });
        Seen {
            events,
            logs,
            result,
        }
    }

    pub fn explain(&self, step: &str) -> Explanation {
        let mut session = self.session().unwrap();
        session
            .explain(&RunOptions::default(), step)
            .unwrap()
            .remove(0)
    }

    /// Waits until no file that was written so far can change again under the same stamp.
    pub fn settle(&self) {
        let probe = self.folder.path().join("probe");
        let written = |n: u32| {
            fs::write(&probe, n.to_string()).unwrap();
            fs::metadata(&probe).unwrap().modified().unwrap()
        };
        let first = written(0);
        let mut n = 1;
        while written(n)
            .duration_since(first)
            .unwrap_or_default()
            .as_millis()
            < 50
        {
            n += 1;
        }
    }
}

impl Seen {
    #[track_caller]
    pub fn summary(&self) -> &RunSummary {
        match &self.result {
            Ok(summary) => summary,
            Err(SessionError::Faults(faults)) => {
                panic!("{}", aebuild::diagnostic::concise::concise(faults))
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn steps(&self, wanted: impl Fn(&StepEvent) -> bool) -> String {
        let steps = self.events.iter().filter_map(|event| match event {
            RunEvent::Step { step, what, .. } if wanted(what) => Some(step.to_string()),
            _ => None,
        });
        let mut steps: Vec<String> = steps.collect();
        steps.sort();
        steps.join(" ")
    }

    /// The steps that started, sorted, each attempt.
    pub fn ran(&self) -> String {
        self.steps(|what| matches!(what, StepEvent::Started { .. }))
    }

    /// The steps whose kept results stood in.
    pub fn hit(&self) -> String {
        self.steps(|what| matches!(what, StepEvent::Hit { .. }))
    }

    /// How live things were brought to the state that a step needs.
    pub fn provisioned(&self) -> String {
        let how = self.events.iter().filter_map(|event| match event {
            RunEvent::Step {
                step,
                what: StepEvent::Provisioned { how, .. },
                ..
            } => Some(format!("{step}:{how}")),
            _ => None,
        });
        how.collect::<Vec<_>>().join(" ")
    }

    /// Why steps ran.
    pub fn because(&self, id: &str) -> String {
        let mut found = Vec::new();
        for event in &self.events {
            if let RunEvent::Step {
                step,
                what: StepEvent::Dirty { because },
                ..
            } = event
                && step.as_str() == id
            {
                found.extend(because.iter().cloned());
            }
        }
        found.join("; ")
    }

    /// Why results were not kept.
    pub fn not_stored(&self) -> String {
        let why = self.events.iter().filter_map(|event| match event {
            RunEvent::Step {
                step,
                what: StepEvent::NotStored { why },
                ..
            } => Some(format!("{step}: {why}")),
            _ => None,
        });
        why.collect::<Vec<_>>().join("; ")
    }

    pub fn notices(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            RunEvent::Notice { text } => Some(text.clone()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    #[track_caller]
    pub fn outcome(&self) -> Outcome {
        self.summary().tasks[0].outcome
    }

    #[track_caller]
    pub fn context(&self) -> Value {
        self.summary().tasks[0]
            .context
            .clone()
            .expect("a task that was looked at has a context")
    }
}

/// Returns a context without what differs from run to run.
pub fn normal(mut context: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (key, value) in members.iter_mut() {
                    let by_chance = matches!(
                        key.as_str(),
                        "run_group_id"
                            | "instance_id"
                            | "task_id"
                            | "sandbox_id"
                            | "started_at_utc"
                            | "duration_seconds"
                    );
                    if by_chance && !value.is_null() {
                        *value = Value::from("<by chance>");
                    }
                    // An id ends in the name that the folder gives it; what stands before is where the folder is.
                    if key == "id"
                        && let Some(id) = value.as_str().filter(|id| id.starts_with("@local/"))
                    {
                        *value = Value::from(id.rsplit('/').next().unwrap_or_default());
                    }
                    walk(value);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut context);
    context
}

/// Returns whether a program is there to be used by a test; says so loudly where it is not.
pub fn has_program(name: &str) -> bool {
    let found = ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(name).exists());
    if !found {
        eprintln!("SKIPPED: {name} is not installed");
    }
    found
}
