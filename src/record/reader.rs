//! Reads records, also those of runs that died.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::{RunRecord, format, layout};
use crate::event::RunEvent;
use crate::system::disk;

/// More step types than this are not told apart in a record.
const MAX_KINDS: usize = 4096;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No run has been recorded.
    #[error("no run is recorded below `{0}`")]
    NoRuns(String),
    /// There is no such run.
    #[error("no run `{0}` is recorded")]
    NoSuchRun(String),
    /// The beginning of an id fits several runs.
    #[error("`{0}` is the beginning of {1} runs")]
    Ambiguous(String, usize),
    /// The record is of a later version.
    #[error(
        "the record of `{run}` has format {found}, and this aebuild reads {}",
        format::FORMAT_VERSION
    )]
    Later {
        /// The run.
        run: String,
        /// Its format.
        found: u64,
    },
    /// What should be `run.json` is not.
    #[error("the record of `{0}` is damaged: `run.json` is not what aebuild writes")]
    Damaged(String),
    /// The file system refused.
    #[error("cannot read the record of `{run}`: {source}")]
    Io {
        /// The run.
        run: String,
        /// What the system said.
        source: io::Error,
    },
}

/// An event as recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    /// Its number, from 1.
    pub seq: u64,
    /// When it happened, microseconds since the run began.
    pub t_us: i64,
    /// What happened; `None` for an event of a later version.
    pub event: Option<RunEvent>,
}

/// The readable part of the events of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Events {
    /// The events in order.
    pub events: Vec<Recorded>,
    /// What was found wrong, where something was: everything after it was left alone.
    pub note: Option<String>,
}

/// Returns the ids of all runs, the oldest first.
pub fn runs(workspace: &Path) -> io::Result<Vec<String>> {
    let names = match disk::read_dir(&layout::runs(workspace)) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    Ok(names.filter(|name| layout::is_run_id(name)).collect())
}

/// Finds a run by its id or the beginning of it; `None` means the latest.
pub fn find(workspace: &Path, run: Option<&str>) -> Result<String, ReadError> {
    let shown = layout::runs(workspace).display().to_string();
    let all = runs(workspace).map_err(|source| ReadError::Io {
        run: run.unwrap_or("latest").to_owned(),
        source,
    })?;
    let Some(latest) = all.last() else {
        return Err(ReadError::NoRuns(shown));
    };
    let Some(run) = run else {
        return Ok(latest.clone());
    };
    let mut fitting = all
        .iter()
        .filter(|id| !run.is_empty() && id.starts_with(run));
    match (fitting.next(), fitting.count()) {
        (None, _) => Err(ReadError::NoSuchRun(run.to_owned())),
        (Some(one), 0) => Ok(one.clone()),
        (Some(_), others) => Err(ReadError::Ambiguous(run.to_owned(), others + 1)),
    }
}

/// Reads `run.json` of a run.
pub fn run(workspace: &Path, run: &str) -> Result<RunRecord, ReadError> {
    let bytes = disk::read(&layout::folder(workspace, run).join("run.json")).map_err(|source| {
        ReadError::Io {
            run: run.to_owned(),
            source,
        }
    })?;
    match format::read_run_file(&String::from_utf8_lossy(&bytes)) {
        Ok(Some(record)) => Ok(record),
        Ok(None) => Err(ReadError::Damaged(run.to_owned())),
        Err(found) => Err(ReadError::Later {
            run: run.to_owned(),
            found,
        }),
    }
}

/// Reads the events of a run, as far as they are whole; a run that changed nothing has none.
pub fn events(workspace: &Path, run: &str) -> Result<Events, ReadError> {
    match disk::read(&layout::folder(workspace, run).join("events.jsonl")) {
        Ok(bytes) => Ok(read_events(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Events::default()),
        Err(source) => Err(ReadError::Io {
            run: run.to_owned(),
            source,
        }),
    }
}

/// Reads lines of events up to the first that is not whole.
pub(super) fn read_events(bytes: &[u8]) -> Events {
    let mut kinds: HashMap<String, &'static str> = HashMap::new();
    let mut kind_of = |name: &str| {
        if let Some(kind) = kinds.get(name) {
            return *kind;
        }
        if kinds.len() >= MAX_KINDS {
            return "unknown";
        }
        // Events name step types for as long as the program runs; a record has few of them.
        let kind: &'static str = Box::leak(name.to_owned().into_boxed_str());
        kinds.insert(name.to_owned(), kind);
        kind
    };
    let mut read = Events::default();
    let mut last = (0, i64::MIN);
    for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let whole = line
            .ends_with(b"\n")
            .then(|| std::str::from_utf8(line).ok())
            .flatten();
        let parsed = whole.and_then(|line| format::read_event_line(line, &mut kind_of));
        let Some((seq, t_us, event)) = parsed else {
            read.note = Some(format!(
                "line {} is not whole; the rest is left alone",
                at + 1
            ));
            break;
        };
        if seq != last.0 + 1 {
            read.note = Some(format!("event {} follows event {}", seq, last.0));
        } else if t_us < last.1 {
            read.note = Some(format!("the clock went back before event {seq}"));
        }
        last = (seq, t_us);
        read.events.push(Recorded { seq, t_us, event });
    }
    read
}

/// Returns what a step printed in a run.
pub fn log(workspace: &Path, run: &str, task: &str, step: &str) -> Option<Vec<u8>> {
    disk::read(&layout::folder(workspace, run).join(layout::log(task, step))).ok()
}

/// Returns the latest run in which a step printed something, and what.
pub fn newest_log(workspace: &Path, task: &str, step: &str) -> Option<(String, Vec<u8>)> {
    let runs = runs(workspace).ok()?;
    runs.into_iter().rev().find_map(|run| {
        let bytes = log(workspace, &run, task, step)?;
        Some((run, bytes))
    })
}

/// Returns the names of the logs of a run, as `<task>/<step>.log`, made safe.
pub fn logs(workspace: &Path, run: &str) -> Vec<String> {
    let folder = layout::folder(workspace, run).join("logs");
    let mut names = Vec::new();
    for task in disk::read_dir(&folder).unwrap_or_default() {
        for step in disk::read_dir(&folder.join(&task)).unwrap_or_default() {
            names.push(format!(
                "{}/{}",
                task.to_string_lossy(),
                step.to_string_lossy()
            ));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Outcome, Score, StepEvent, Tally};
    use crate::record::{Redactor, TaskRecord, Writer};
    use crate::task::StepId;

    const RUN: &str = "20260131-235959-0af3c9";

    fn step(what: StepEvent) -> RunEvent {
        RunEvent::Step {
            task: "tasks/t.json".to_owned(),
            step: StepId::new("a"),
            kind: "run_code",
            what,
        }
    }

    fn record(events: &[RunEvent]) -> tempfile::TempDir {
        let workspace = tempfile::tempdir().expect("a folder");
        let redactor = Redactor::new(["hunter2hunter2"]);
        let mut writer = Writer::new(workspace.path(), vec!["run".to_owned()], 1000, redactor);
        let start = RunEvent::RunStarted {
            run: RUN.to_owned(),
            tasks: 1,
        };
        for (at, event) in std::iter::once(&start).chain(events).enumerate() {
            writer.event(event, 1000 + at as i64);
        }
        writer.log("tasks/t.json", "a", b"the password is hunter2hunter2\n");
        let task = TaskRecord {
            task: "tasks/t.json".to_owned(),
            outcome: Outcome::Passed,
            scores: vec![Score {
                name: "a".to_owned(),
                score: 1.0,
                failed: Vec::new(),
            }],
            failure: None,
            tally: Tally::default(),
            unchanged: false,
        };
        writer
            .finish(vec![task], Tally::default(), false, 9000)
            .expect("it is written");
        workspace
    }

    #[test]
    fn what_was_written_is_read() {
        let events = [
            step(StepEvent::Started { attempt: 1 }),
            step(StepEvent::Aborted),
        ];
        let workspace = record(&events);
        let read = super::events(workspace.path(), RUN).expect("events");
        let told: Vec<_> = read
            .events
            .iter()
            .filter_map(|event| event.event.clone())
            .collect();
        assert_eq!(told[1..], events);
        assert_eq!(read.note, None);
        let run = super::run(workspace.path(), RUN).expect("a run");
        assert_eq!(run.tasks[0].outcome, Outcome::Passed);
        assert_eq!((run.started_us, run.ended_us), (1000, Some(9000)));
        assert_eq!(
            log(workspace.path(), RUN, "tasks/t.json", "a").as_deref(),
            Some(&b"the password is [redacted]\n"[..])
        );
    }

    #[test]
    fn a_run_that_changed_nothing_has_one_file() {
        let hit = StepEvent::Hit {
            made_by: RUN.to_owned(),
            took_us: 1,
        };
        let workspace = record(&[step(hit), step(StepEvent::Deferred)]);
        let names = disk::read_dir(&layout::folder(workspace.path(), RUN)).expect("a folder");
        assert_eq!(names, ["run.json"]);
        assert_eq!(
            super::events(workspace.path(), RUN).expect("none"),
            Events::default()
        );
    }

    #[test]
    fn a_record_that_is_cut_anywhere_gives_what_is_whole() {
        let events: Vec<_> = (1..6)
            .map(|attempt| step(StepEvent::Started { attempt }))
            .collect();
        let workspace = record(&events);
        let path = layout::folder(workspace.path(), RUN).join("events.jsonl");
        let bytes = disk::read(&path).expect("events");
        let whole = read_events(&bytes);
        assert_eq!((whole.events.len(), &whole.note), (6, &None));
        for cut in 0..bytes.len() {
            let read = read_events(&bytes[..cut]);
            assert_eq!(read.events[..], whole.events[..read.events.len()]);
            let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(read.events.len(), lines);
            let is_cut_in_a_line = cut > 0 && bytes[cut - 1] != b'\n';
            assert_eq!(read.note.is_some(), is_cut_in_a_line);
        }
    }

    #[test]
    fn a_run_is_found_by_the_beginning_of_its_id() {
        let workspace = record(&[step(StepEvent::Aborted)]);
        let find = |run| super::find(workspace.path(), run).map_err(|error| error.to_string());
        assert_eq!(find(None), Ok(RUN.to_owned()));
        assert_eq!(find(Some("20260131-2")), Ok(RUN.to_owned()));
        for name in ["", "../x", "2027", "*"] {
            assert_eq!(
                find(Some(name)),
                Err(format!("no run `{name}` is recorded"))
            );
        }
    }

    #[test]
    fn a_record_of_a_later_version_is_named_and_left_alone() {
        let workspace = record(&[]);
        let path = layout::folder(workspace.path(), RUN).join("run.json");
        disk::write(&path, br#"{"format": 99}"#).expect("it is written");
        let error = super::run(workspace.path(), RUN)
            .expect_err("refused")
            .to_string();
        assert_eq!(
            error,
            format!("the record of `{RUN}` has format 99, and this aebuild reads 1")
        );
    }

    #[test]
    fn only_the_newest_records_are_kept() {
        let workspace = record(&[]);
        let runs_folder = layout::runs(workspace.path());
        for name in ["20250101-000000-000000", "20250102-000000-000000", "mine"] {
            disk::create_dir(&runs_folder.join(name)).expect("a folder");
        }
        Writer::keep_newest(workspace.path(), 2).expect("it works");
        assert_eq!(
            runs(workspace.path()).expect("runs"),
            ["20250102-000000-000000", RUN]
        );
        assert!(
            disk::exists(&runs_folder.join("mine")),
            "what is no record is left alone"
        );
    }
}
