//! Mutations of the shipped tasks: whatever `check` accepts must not fail in a run for a reason that was knowable before.
//!
//! Each shipped task is changed a thousand times: a member is dropped, a key misspelt, a value replaced, a step moved, an
//! edge added, a file removed, a byte lost. What the number of a mutation does never changes, so a failure can be made
//! again. `check` must answer the same twice and must not panic. Where it says nothing that it does not say of the task as
//! it is shipped, the task is run, and a step that
//! fails must fail for a reason that only a run can show: those are listed in [`verdict`], and one that is not listed fails
//! the test, so that somebody decides what it is.
//!
//! By default a few of the accepted mutations of each task are run, drawn by their numbers. `AEBUILD_MUTATIONS=N` makes
//! so many mutations of each task, `AEBUILD_MUTATION=TASK#N` makes one and shows it, and `AEBUILD_MUTATION_RUNS=N` runs up
//! to so many of the accepted ones of each task.

mod apply;
mod verdict;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aebuild::diagnostic::{Diagnostic, Severity, concise::concise};
use aebuild::event::{RunEvent, StepEvent};
use aebuild::session::{RunOptions, Session, SessionError, SessionOptions, Told, Wish};
use aebuild::steps::REGISTRY;
use aebuild::system::OsSystem;

use crate::support::{World, files, has_python};
use apply::{Dice, Mutation};

/// How many mutations are made of each task, and how many of those that are accepted are run.
const MUTATIONS: u64 = 1000;
const RUNS: usize = 4;
/// A run that takes longer is stopped: how long something takes is known to nobody before.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn what_check_accepts_does_not_fail_for_a_reason_that_was_knowable() {
    if !has_python("the mutations of the shipped tasks") {
        return;
    }
    let number = |name: &str, default| {
        let set = std::env::var(name).ok();
        set.map_or(default, |text| text.parse().expect("a number"))
    };
    let mutations = number("AEBUILD_MUTATIONS", MUTATIONS);
    let runs = number("AEBUILD_MUTATION_RUNS", RUNS as u64) as usize;
    let only = std::env::var("AEBUILD_MUTATION").ok();
    let only = only.as_deref().map(|text| {
        let (task, n) = text.rsplit_once('#').expect("TASK#N");
        (task.to_owned(), n.parse::<u64>().expect("a number"))
    });
    let shipped: Vec<String> = files("tasks", ".json")
        .into_iter()
        .filter(|path| {
            path.split('/').nth(2) == Some("tasks") && !path.starts_with("tasks/errors/")
        })
        .filter(|path| only.as_ref().is_none_or(|(task, _)| task == path))
        .collect();
    assert!(!shipped.is_empty(), "there is no such task");
    let queue = Mutex::new(shipped.into_iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(task) = queue.lock().expect("no thread panics").next() else {
                        return;
                    };
                    let found = match &only {
                        Some((_, n)) => Bench::new(&task).look(*n..*n + 1, usize::MAX, true),
                        None => Bench::new(&task).look(0..mutations, runs, false),
                    };
                    failures.lock().expect("no thread panics").extend(found);
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no thread panicked");
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} mutations:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

/// A shipped task in a world of its own.
struct Bench {
    world: World,
    /// The path of the task file from the root of the repository.
    task: String,
    /// The path of the task folder in the world.
    folder: PathBuf,
}

impl Bench {
    fn new(task: &str) -> Self {
        let (folder, _) = task.rsplit_once("/tasks/").expect("it is in a task folder");
        let world = World::with(folder);
        let folder = world.path().join(folder);
        Bench {
            task: task.to_owned(),
            folder,
            world,
        }
    }

    /// Makes mutations, and returns what is wrong.
    fn look(&self, numbers: std::ops::Range<u64>, runs: usize, shows: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let usual = self.check().expect("the shipped task is read");
        assert!(
            !usual.iter().any(Diagnostic::is_error),
            "{}",
            concise(&usual)
        );
        let mut accepted = Vec::new();
        let mut seen = HashSet::new();
        for n in numbers {
            let mut dice = Dice::new(&self.task, n);
            let Some(mutation) = Mutation::draw(&mut dice, &self.folder, &self.file()) else {
                continue;
            };
            if !seen.insert(mutation.clone()) {
                continue;
            }
            let undo = mutation.apply();
            if shows {
                eprintln!("{}#{n}: {}", self.task, mutation.said);
            }
            let first = self.check();
            match &first {
                Err(why) => wrong.push(self.told(n, &mutation, why)),
                Ok(faults) => {
                    // A warning that the task itself does not have has told the reason.
                    let is_new = |fault: &&Diagnostic| {
                        let is_same = |other: &Diagnostic| other.headline == fault.headline;
                        !usual.iter().any(is_same) && fault.severity != Severity::Hint
                    };
                    let is_bad = faults.iter().any(|fault| is_new(&fault));
                    if shows {
                        eprintln!("{}", concise(faults));
                    }
                    // Twice is asked of a few alone: it is a property of the program, and costs as much again.
                    if n % 16 == 0 || shows {
                        let again = self.check();
                        if again.as_ref().ok() != Some(faults) {
                            wrong.push(self.told(
                                n,
                                &mutation,
                                "`check` does not say the same twice",
                            ));
                        }
                    }
                    if !is_bad {
                        accepted.push((n, mutation));
                    }
                }
            }
            undo.undo();
        }
        let mut dice = Dice::new(&self.task, u64::MAX);
        while accepted.len() > runs {
            accepted.swap_remove(dice.roll(accepted.len()));
        }
        accepted.sort_by_key(|(n, _)| *n);
        for (n, mutation) in accepted {
            let undo = mutation.apply();
            for failure in self.run() {
                if shows {
                    eprintln!("{failure:?}");
                }
                if let Some(why) = verdict::of(&failure) {
                    wrong.push(self.told(n, &mutation, &why));
                }
            }
            undo.undo();
        }
        wrong
    }

    fn file(&self) -> PathBuf {
        self.world.path().join(&self.task)
    }

    fn told(&self, n: u64, mutation: &Mutation, why: &str) -> String {
        format!(
            "AEBUILD_MUTATION={}#{n}\n  mutation: {}\n  {why}",
            self.task, mutation.said
        )
    }

    fn open(&self, no_cache: bool) -> Result<Session, SessionError> {
        let options = SessionOptions {
            paths: vec![self.file()],
            cache_dir: Some(self.world.path().join("../cache")),
            no_cache,
        };
        Session::open(Arc::new(OsSystem), REGISTRY, options)
    }

    /// Returns what `check` says; the error is what no check may say.
    fn check(&self) -> Result<Vec<Diagnostic>, String> {
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut session = self.open(true)?;
            session.check(&RunOptions::default())
        }));
        match said {
            Ok(Ok(faults)) | Ok(Err(SessionError::Faults(faults))) => Ok(faults),
            Ok(Err(SessionError::Usage { message, .. })) => {
                Ok(vec![Diagnostic::error("usage", message)])
            }
            Ok(Err(other)) => Err(format!("`check` fails: {other}")),
            Err(_) => Err("`check` panics".to_owned()),
        }
    }

    /// Runs the task and returns how its steps failed.
    fn run(&self) -> Vec<verdict::Failure> {
        let failures = Arc::new(Mutex::new(Vec::new()));
        let seen = failures.clone();
        let mut tell = move |told: Told| {
            if let Told::Event(RunEvent::Step {
                step,
                kind,
                what:
                    StepEvent::Failed {
                        error_type, error, ..
                    },
                ..
            }) = told
            {
                let failure = verdict::Failure {
                    step: step.to_string(),
                    kind: kind.to_owned(),
                    error_type,
                    error,
                };
                seen.lock().expect("nobody panics").push(failure);
            }
        };
        let (send, wish) = tokio::sync::watch::channel(Wish::GoOn);
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let said = std::thread::scope(|scope| {
            scope.spawn(move || {
                let waited = is_done.recv_timeout(LIMIT);
                if waited == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    send.send(Wish::StopNow).ok();
                    // The run hears no more wishes once nobody can send any.
                    is_done.recv().ok();
                }
            });
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut session = self.open(false)?;
                session.run(&RunOptions::default(), &mut tell, wish)
            }));
            drop(done);
            said
        });
        let mut failures = std::mem::take(&mut *failures.lock().expect("nobody panics"));
        let other = |error: String| verdict::Failure {
            step: String::new(),
            kind: String::new(),
            error_type: "run".to_owned(),
            error,
        };
        match said {
            Ok(Ok(summary)) if summary.cancelled => failures.clear(),
            Ok(Ok(_)) => {}
            Ok(Err(SessionError::Faults(faults))) => failures.push(other(concise(&faults))),
            Ok(Err(error)) => failures.push(other(error.to_string())),
            Err(_) => failures.push(other("the run panics".to_owned())),
        }
        failures
    }
}

/// Returns the files of a folder and of those below it.
fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true if path.ends_with(".aebuild") => {}
                true => open.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}
