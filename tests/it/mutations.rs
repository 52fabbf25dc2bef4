//! Mutations of the shipped tasks: whatever `check` accepts must not fail in a run for a reason that was knowable before.
//!
//! Each shipped task is changed a thousand times: a member is dropped, a key misspelt, a value replaced, a step moved, an
//! edge added, a byte lost, or a file that the task uses is emptied, cut, renamed, removed or filled with what it cannot be.
//! What the number of a mutation does never changes, so a failure can be made again. `check` must not panic, and a session
//! that heard of the change must say what a session says that begins with it.
//!
//! What has an error is refused; everything else is run, whatever is warned of. A step that fails must fail for a reason that
//! only a run can show, or for one that a warning named before: [`verdict`] lists both, and what is not listed fails the test,
//! so that somebody decides what it is.
//!
//! `AEBUILD_MUTATIONS=N` makes so many mutations of each task, `AEBUILD_MUTATION_RUNS=N` runs at most so many of the accepted
//! ones of each task, and `AEBUILD_MUTATION=TASK#N` makes one and shows it. How many were made, refused, run and left out is
//! told at the end, also where all is well.

mod apply;
mod verdict;

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aebuild::diagnostic::{Diagnostic, concise::concise};
use aebuild::event::{RunEvent, StepEvent};
use aebuild::session::{Change, RunOptions, Session, SessionError, SessionOptions, Told, Wish};
use aebuild::steps::REGISTRY;
use aebuild::system::OsSystem;

use crate::support::{World, files, has_python};
use apply::{Dice, Mutation};

/// How many mutations are made of each task, and how many of those that are accepted are run at most.
const MUTATIONS: u64 = 1000;
const RUNS: u64 = 400;
/// How many mutations are made in one world.
const SHARE: u64 = 125;
/// How many worlds there are at once: who runs a task mostly waits.
const WORLDS: usize = 6;
/// A run that takes longer is stopped: how long something takes is known to nobody before. What failed until then counts.
const LIMIT: Duration = Duration::from_secs(20);
/// The same where a run waits for people, who never come.
const LIMIT_OF_PEOPLE: Duration = Duration::from_secs(3);
/// How many runs of a share are stopped; no more of it are begun then.
const STOPS: u64 = 6;
/// Of how many mutations one is also checked by a session that begins with it.
const ANEW: u64 = 16;

/// What became of the mutations of a task.
#[derive(Clone, Copy, Default)]
struct Count {
    made: u64,
    refused: u64,
    warned: u64,
    run: u64,
    failed: u64,
    stopped: u64,
    left_out: u64,
}

/// What all worlds have in common.
struct Shared {
    /// How many of the accepted mutations of a share are run.
    runs: u64,
    shows: bool,
    /// The cache of all runs: what a mutation leaves as it was is not done again.
    cache: PathBuf,
    /// For each task, the mutations that were made.
    seen: Mutex<BTreeMap<String, HashSet<Mutation>>>,
    counts: Mutex<BTreeMap<String, Count>>,
    wrong: Mutex<Vec<String>>,
}

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
    let runs = number("AEBUILD_MUTATION_RUNS", RUNS);
    let only = std::env::var("AEBUILD_MUTATION").ok();
    let only = only.as_deref().map(|text| {
        let (task, n) = text.rsplit_once('#').unwrap_or((text, ""));
        (task.to_owned(), n.parse::<u64>().ok())
    });
    let shipped = files("tasks", ".json")
        .into_iter()
        .filter(|path| {
            path.split('/').nth(2) == Some("tasks") && !path.starts_with("tasks/errors/")
        })
        .filter(|path| only.as_ref().is_none_or(|(task, _)| task == path));
    let numbers = match only.as_ref().and_then(|(_, n)| *n) {
        Some(n) => n..n + 1,
        None => 0..mutations,
    };
    let mut shares: Vec<(String, Range<u64>)> = Vec::new();
    for task in shipped {
        let mut from = numbers.start;
        while from < numbers.end {
            let to = numbers.end.min(from + SHARE);
            shares.push((task.clone(), from..to));
            from = to;
        }
    }
    assert!(!shares.is_empty(), "there is no such task");
    let cache = tempfile::tempdir().expect("a folder");
    let shared = Shared {
        runs: (runs * SHARE).div_ceil(mutations.max(1)),
        shows: numbers.end - numbers.start == 1,
        cache: cache.path().to_owned(),
        seen: Mutex::default(),
        counts: Mutex::default(),
        wrong: Mutex::default(),
    };
    let queue = Mutex::new(shares.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..WORLDS {
            scope.spawn(|| {
                loop {
                    let Some((task, numbers)) = queue.lock().expect("no thread panics").next()
                    else {
                        return;
                    };
                    Bench::new(&task, &shared).look(numbers);
                }
            });
        }
    });
    shared.tell();
    let mut wrong = shared.wrong.into_inner().expect("no thread panicked");
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} mutations:\n\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

impl Shared {
    /// Says what was looked at, past whatever keeps the output of tests that pass.
    fn tell(&self) {
        let counts = self.counts.lock().expect("no thread panics");
        let mut said = String::from(
            "mutations: made, refused, warned of; of the others and those: run (failed as only a run shows, stopped), left out\n",
        );
        let mut all = Count::default();
        let mut line = |name: &str, count: &Count| {
            said.push_str(&format!(
                "{:5} {:5} {:5}; {:5} ({:4}, {:3}) {:5}  {name}\n",
                count.made,
                count.refused,
                count.warned,
                count.run,
                count.failed,
                count.stopped,
                count.left_out
            ));
        };
        for (task, count) in counts.iter() {
            line(task, count);
            all.add(count);
        }
        line("all", &all);
        std::io::stderr().write_all(said.as_bytes()).ok();
    }
}

impl Count {
    fn add(&mut self, other: &Count) {
        self.made += other.made;
        self.refused += other.refused;
        self.warned += other.warned;
        self.run += other.run;
        self.failed += other.failed;
        self.stopped += other.stopped;
        self.left_out += other.left_out;
    }
}

/// A shipped task in a world of its own.
struct Bench<'s> {
    world: World,
    /// The path of the task file from the root of the repository.
    task: String,
    /// The path of the task folder in the world.
    folder: PathBuf,
    shared: &'s Shared,
}

impl<'s> Bench<'s> {
    fn new(task: &str, shared: &'s Shared) -> Self {
        let (folder, _) = task.rsplit_once("/tasks/").expect("it is in a task folder");
        let world = World::with(folder);
        let folder = world.path().join(folder);
        Bench {
            task: task.to_owned(),
            folder,
            world,
            shared,
        }
    }

    /// Makes mutations, and looks at each.
    fn look(&self, numbers: Range<u64>) {
        let shows = self.shared.shows;
        let mut count = Count::default();
        let mut open: Option<Session> = None;
        let usual = self.check(&mut open).expect("the shipped task is read");
        assert!(
            !usual.iter().any(Diagnostic::is_error),
            "{}",
            concise(&usual)
        );
        for n in numbers {
            let mut dice = Dice::new(&self.task, n);
            let Some(mutation) = Mutation::draw(&mut dice, &self.folder, &self.file()) else {
                continue;
            };
            let is_new = {
                let mut seen = self.shared.seen.lock().expect("no thread panics");
                let seen = seen.entry(self.task.clone()).or_default();
                seen.insert(mutation.clone())
            };
            if !is_new {
                continue;
            }
            count.made += 1;
            let changes: Vec<Change> = mutation.paths(&self.folder).map(Change::Path).collect();
            let undo = mutation.apply(&self.folder);
            if shows {
                eprintln!("{}#{n}: {}", self.task, mutation.said);
            }
            if let Some(open) = &mut open {
                open.apply_changes(&changes);
            }
            match self.check(&mut open) {
                Err(why) => {
                    open = None;
                    self.wrong(n, &mutation, &why);
                }
                Ok(faults) => {
                    if shows {
                        eprintln!("{}", concise(&faults));
                    }
                    if n % ANEW == 0 || shows {
                        match self.check(&mut None) {
                            Ok(anew) if anew == faults => {}
                            Ok(anew) => {
                                let why = format!(
                                    "a session that heard of it says:\n{}  one that begins with it says:\n{}",
                                    concise(&faults),
                                    concise(&anew)
                                );
                                self.wrong(n, &mutation, &why);
                            }
                            Err(why) => self.wrong(n, &mutation, &why),
                        }
                    }
                    if faults.iter().any(Diagnostic::is_error) {
                        count.refused += 1;
                    } else {
                        let is_more = |fault: &Diagnostic| !usual.contains(fault);
                        count.warned += u64::from(faults.iter().any(is_more));
                        if count.run < self.shared.runs && count.stopped < STOPS {
                            self.judge(n, &mutation, &faults, &mut count);
                        } else {
                            count.left_out += 1;
                        }
                    }
                }
            }
            undo.undo();
            if let Some(open) = &mut open {
                open.apply_changes(&changes);
            }
        }
        let mut counts = self.shared.counts.lock().expect("no thread panics");
        counts.entry(self.task.clone()).or_default().add(&count);
    }

    /// Runs a task that was accepted.
    fn judge(&self, n: u64, mutation: &Mutation, faults: &[Diagnostic], count: &mut Count) {
        count.run += 1;
        let (failures, is_stopped) = self.run(None);
        count.stopped += u64::from(is_stopped);
        count.failed += u64::from(!failures.is_empty());
        let mut in_turn: Option<Vec<verdict::Failure>> = None;
        for failure in failures {
            if self.shared.shows {
                eprintln!("{failure:?}");
            }
            let Some(why) = verdict::of(&failure, faults) else {
                continue;
            };
            // Who fails only by the order that two steps happened to take was warned, where they are said to have none.
            if verdict::tells_of_no_order(faults) {
                let in_turn = in_turn.get_or_insert_with(|| self.run(Some(1)).0);
                if !in_turn.iter().any(|other| other.step == failure.step) {
                    continue;
                }
            }
            self.wrong(n, mutation, &why);
        }
    }

    fn file(&self) -> PathBuf {
        self.world.path().join(&self.task)
    }

    fn wrong(&self, n: u64, mutation: &Mutation, why: &str) {
        let told = format!(
            "AEBUILD_MUTATION={}#{n}\n  mutation: {}\n  {why}",
            self.task, mutation.said
        );
        let mut wrong = self.shared.wrong.lock().expect("no thread panics");
        wrong.push(told);
    }

    fn open(&self, no_cache: bool) -> Result<Session, SessionError> {
        let options = SessionOptions {
            paths: vec![self.file()],
            cache_dir: Some(self.shared.cache.clone()),
            no_cache,
        };
        Session::open(Arc::new(OsSystem), REGISTRY, options)
    }

    /// Returns what `check` says in a session, which is opened if need be; the error is what no check may say.
    fn check(&self, open: &mut Option<Session>) -> Result<Vec<Diagnostic>, String> {
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let session = match open {
                Some(session) => session,
                None => open.insert(self.open(true)?),
            };
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

    /// Runs the task, so many steps at once, and returns how its steps failed, and whether it took too long.
    fn run(&self, jobs: Option<usize>) -> (Vec<verdict::Failure>, bool) {
        let limit = match self.task.starts_with("tasks/people/") {
            true => LIMIT_OF_PEOPLE,
            false => LIMIT,
        };
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
                let waited = is_done.recv_timeout(limit);
                if waited == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    send.send(Wish::StopNow).ok();
                    // The run hears no more wishes once nobody can send any.
                    is_done.recv().ok();
                }
            });
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut session = self.open(false)?;
                let options = RunOptions {
                    jobs,
                    ..RunOptions::default()
                };
                session.run(&options, &mut tell, wish)
            }));
            drop(done);
            said
        });
        let mut failures = std::mem::take(&mut *failures.lock().expect("nobody panics"));
        let mut is_stopped = false;
        let other = |error: String| verdict::Failure {
            step: String::new(),
            kind: String::new(),
            error_type: "run".to_owned(),
            error,
        };
        match said {
            Ok(Ok(summary)) if summary.cancelled => is_stopped = true,
            Ok(Ok(_)) => {}
            Ok(Err(SessionError::Faults(faults))) => failures.push(other(concise(&faults))),
            Ok(Err(error)) => failures.push(other(error.to_string())),
            Err(_) => failures.push(other("the run panics".to_owned())),
        }
        (failures, is_stopped)
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
