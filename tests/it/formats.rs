//! Golden files of the formats that others read. A difference here means another version of the format.

use aebuild::event::{Outcome, RunEvent, Score, Spent, StepEvent, Tally};
use aebuild::record::{self, Redactor, TaskRecord, Writer};
use aebuild::resource::{Provision, ResourceId};
use aebuild::task::StepId;

use crate::support::check_file;

const RUN: &str = "20260131-235959-0af3c9";

/// Returns one of every event.
fn events() -> Vec<RunEvent> {
    let task = || "tasks/hello.json".to_owned();
    let step = |what| RunEvent::Step {
        task: task(),
        step: StepId::new("a"),
        kind: "run_code",
        what,
    };
    let tally = Tally {
        hit: 5,
        ran: 3,
        deferred: 1,
        failed: 1,
        skipped: 2,
        saved_us: 12_400_000,
        models: Spent {
            requests: 3,
            retried: 1,
            cached: 2,
            input_tokens: Some(1200),
            output_tokens: None,
            micro_usd: Some(12_300),
        },
    };
    let of_steps = [
        StepEvent::Deferred,
        StepEvent::Hit {
            made_by: RUN.to_owned(),
            took_us: 7,
        },
        StepEvent::Dirty {
            because: vec!["never run".to_owned(), "field `x` changed".to_owned()],
        },
        StepEvent::Started { attempt: 1 },
        StepEvent::Provisioned {
            resource: ResourceId::sandbox("box"),
            how: Provision::Restore,
        },
        StepEvent::Finished {
            took_us: 8,
            same_output: true,
        },
        StepEvent::Failed {
            error_type: "RuntimeError".to_owned(),
            error: "the token hunter2hunter2 is no good\u{1b}[2J".to_owned(),
            fatal: true,
            took_us: 9,
        },
        StepEvent::NotStored {
            why: "it changed while it ran".to_owned(),
        },
        StepEvent::RolledBack {
            failed: StepId::new("b"),
            attempt: 2,
        },
        StepEvent::RetryRefused {
            why: "`a` and `b` both change env `e`".to_owned(),
        },
        StepEvent::Aborted,
        StepEvent::Skipped,
    ];
    let mut events = vec![
        RunEvent::RunStarted {
            run: RUN.to_owned(),
            tasks: 2,
        },
        RunEvent::TaskStarted {
            task: task(),
            steps: 3,
        },
    ];
    events.extend(of_steps.map(step));
    events.extend([
        RunEvent::TaskFinished {
            task: task(),
            outcome: Outcome::ScoredBelowOne,
            scores: vec![Score {
                name: "check".to_owned(),
                score: 0.5,
                failed: Vec::new(),
            }],
            failure: None,
            tally,
            took_us: 10,
        },
        RunEvent::TaskUnchanged {
            task: "tasks/other.json".to_owned(),
            steps: 4,
        },
        RunEvent::Notice {
            text: "cleaned up after 1 run".to_owned(),
        },
        RunEvent::RunFinished {
            cancelled: false,
            tally,
            took_us: 11,
        },
    ]);
    events
}

#[test]
fn a_record_is_written_as_its_format_says() {
    let workspace = tempfile::tempdir().expect("a folder");
    let redactor = Redactor::new(["hunter2hunter2"]);
    let began_us = 1_769_903_999_123_456;
    let command = vec!["run".to_owned(), "tasks".to_owned()];
    let mut writer = Writer::new(workspace.path(), command, began_us, redactor);
    for (at, event) in events().iter().enumerate() {
        writer.event(event, began_us + 10 * at as i64);
    }
    let task = TaskRecord {
        task: "tasks/hello.json".to_owned(),
        outcome: Outcome::Failed,
        scores: vec![Score {
            name: "check".to_owned(),
            score: 0.5,
            failed: Vec::new(),
        }],
        failure: Some("failed at step `a`: hunter2hunter2".to_owned()),
        tally: Tally::default(),
        unchanged: false,
    };
    let folder = writer.finish(vec![task], Tally::default(), false, began_us + 1_000_000);
    let folder = folder.expect("it is written");
    let mut faults = Vec::new();
    for name in ["run.json", "events.jsonl", "timeline.json"] {
        let text = std::fs::read_to_string(folder.join(name)).expect("it is there");
        let golden = format!("tests/golden/record/v{}/{name}", record::FORMAT_VERSION);
        faults.extend(check_file(&golden, &text).err());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn records_of_every_version_are_read() {
    let workspace = tempfile::tempdir().expect("a folder");
    let folder = workspace.path().join(".aebuild/runs").join(RUN);
    std::fs::create_dir_all(&folder).expect("a folder");
    for version in 1..=record::FORMAT_VERSION {
        for name in ["run.json", "events.jsonl"] {
            let golden =
                crate::support::root().join(format!("tests/golden/record/v{version}/{name}"));
            std::fs::copy(golden, folder.join(name)).expect("the golden file is there");
        }
        let run = record::run(workspace.path(), RUN).expect("it is read");
        assert_eq!((run.id.as_str(), run.tasks.len()), (RUN, 1));
        let read = record::events(workspace.path(), RUN).expect("they are read");
        assert_eq!(read.note, None);
        let told: Vec<RunEvent> = read
            .events
            .into_iter()
            .filter_map(|one| one.event)
            .collect();
        let mut expected = events();
        for event in &mut expected {
            if let RunEvent::Step {
                what: StepEvent::Failed { error, .. },
                ..
            } = event
            {
                *error = error.replace("hunter2hunter2", "[redacted]");
            }
        }
        assert_eq!(told, expected);
    }
}
