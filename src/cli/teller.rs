//! Hands what a run tells to those who show and record it.

use super::{Face, ProgressKind};
use crate::event::RunEvent;
use crate::record::{TaskRecord, Writer};
use crate::report::{Printer, Progress, TaskLine, summary};
use crate::session::{Log, RunSummary, Session, TaskSummary, Told};

/// Shows and records a run.
pub(super) struct Teller {
    progress: Progress,
    ended: Ended,
}

/// What there is to be recorded of a run that is over.
pub(super) struct Ended {
    record: Writer,
    /// Logs that lie in the store and are fetched after the run.
    late: Vec<(String, String, Log)>,
}

impl Teller {
    /// Returns one for a run that begins now.
    pub(super) fn new(session: &Session, kind: ProgressKind, now_us: i64, face: &Face) -> Self {
        let redactor = face.printer.redactor.clone();
        let record = Writer::new(session.workspace(), face.words.clone(), now_us, redactor);
        Teller {
            progress: Progress::new(kind, &face.printer, now_us),
            ended: Ended {
                record,
                late: Vec::new(),
            },
        }
    }

    /// Shows and records what is told.
    pub(super) fn tell(&mut self, told: Told, face: &mut Face) {
        match told {
            Told::Event(event) => {
                let now_us = face.system.now_us();
                self.ended.record.event(&event, now_us);
                self.progress.event(&event, now_us, &mut face.printer);
                if matches!(event, RunEvent::RunFinished { .. }) {
                    face.printer.flush();
                }
            }
            Told::Log { task, step, log } => {
                self.progress.log(&step, &log.inline, &mut face.printer);
                if log.stored.is_some() {
                    self.ended.late.push((task, step, log));
                } else {
                    self.ended.record.log(&task, &step, &log.inline);
                }
            }
        }
    }

    /// Shows a text above what is drawn of the progress.
    pub(super) fn print(&self, text: &str, face: &mut Face) {
        self.progress.print(text, &mut face.printer);
    }

    /// Takes away what was drawn of the progress.
    pub(super) fn end(self) -> Ended {
        self.ended
    }
}

impl Ended {
    /// Writes the record of the run.
    pub(super) fn record(self, run: &RunSummary, session: &Session, face: &mut Face) {
        let Ended { mut record, late } = self;
        for (task, step, log) in late {
            if let Some(bytes) = session.log_bytes(&log) {
                record.log(&task, &step, &bytes);
            }
        }
        for task in &run.tasks {
            if let Some(context) = task.context.as_ref().filter(|_| task.tally.ran > 0) {
                record.context(&task.shown, context);
            }
        }
        let tasks = run.tasks.iter().map(|task| TaskRecord {
            task: task.shown.clone(),
            outcome: task.outcome,
            scores: task.scores.clone(),
            failure: task.failure.clone(),
            tally: task.tally,
            unchanged: task.unchanged,
        });
        let now_us = face.system.now_us();
        let written = record
            .finish(tasks.collect(), run.tally, run.cancelled, now_us)
            .and_then(|_| {
                Writer::keep_newest(session.workspace(), session.config().run.keep_runs as usize)
            });
        if let Err(error) = written {
            let text = format!("notice: the run could not be recorded: {error}\n");
            face.printer.err(&text);
        }
    }
}

/// Returns the summary of a run.
pub(super) fn verdict(run: &RunSummary, took_us: Option<u64>, printer: &Printer) -> String {
    let lines: Vec<TaskLine<'_>> = run.tasks.iter().map(task_line).collect();
    summary(&lines, &run.tally, took_us, printer)
}

fn task_line(task: &TaskSummary) -> TaskLine<'_> {
    TaskLine {
        task: &task.shown,
        outcome: task.outcome,
        scores: &task.scores,
        failure: task.failure.as_deref(),
    }
}
