//! Writes a record while its run goes on.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::redact::Redactor;
use super::timeline::Timeline;
use super::{RunRecord, Status, TaskRecord, format, layout};
use crate::event::{RunEvent, StepEvent, Tally};
use crate::json::Value;
use crate::system::disk;

/// So many bytes of events are written at once.
const BATCH_BYTES: usize = 32 << 10;
/// An event does not wait longer for the next one than this, microseconds.
const BATCH_US: i64 = 200_000;

/// Writes the record of one run.
///
/// Nothing reaches the disk before something changes: while steps only hit, events are held back, and a run that ends so
/// leaves `run.json` alone. After the first fault of the disk nothing more is written; [`Writer::finish`] tells of it.
#[derive(Debug)]
pub struct Writer {
    workspace: PathBuf,
    folder: PathBuf,
    redactor: Redactor,
    run: RunRecord,
    seq: u64,
    held: Vec<u8>,
    /// Events of a run in which nothing changed so far, with their times: they are written down only if something does.
    held_events: Vec<(i64, RunEvent)>,
    held_logs: Vec<(String, String, Vec<u8>)>,
    events: Option<disk::File>,
    flushed_us: i64,
    timeline: Timeline,
    is_quiet: bool,
    fault: Option<io::Error>,
}

impl Writer {
    /// Returns a writer of the run of this command, which begins now.
    pub fn new(workspace: &Path, command: Vec<String>, now_us: i64, redactor: Redactor) -> Self {
        Writer {
            workspace: workspace.to_owned(),
            folder: PathBuf::new(),
            redactor,
            run: RunRecord {
                id: String::new(),
                command,
                status: Status::Running,
                started_us: now_us,
                ended_us: None,
                tally: Tally::default(),
                tasks: Vec::new(),
            },
            seq: 0,
            held: Vec::new(),
            held_events: Vec::new(),
            held_logs: Vec::new(),
            events: None,
            flushed_us: 0,
            timeline: Timeline::default(),
            is_quiet: true,
            fault: None,
        }
    }

    /// Takes the next event. The first must be [`RunEvent::RunStarted`], which names the record.
    pub fn event(&mut self, event: &RunEvent, now_us: i64) {
        if let RunEvent::RunStarted { run, .. } = event
            && layout::is_run_id(run)
        {
            self.run.id.clone_from(run);
            self.folder = layout::folder(&self.workspace, run);
        }
        if self.fault.is_some() || self.run.id.is_empty() {
            return;
        }
        let t_us = now_us - self.run.started_us;
        if self.is_quiet {
            self.held_events.push((t_us, event.clone()));
            if !is_change(event) {
                return;
            }
            for (t_us, event) in std::mem::take(&mut self.held_events) {
                self.write_event(t_us, &event);
            }
            self.is_quiet = false;
            self.attempt(Self::begin);
        } else {
            self.write_event(t_us, event);
        }
        let is_due = self.held.len() >= BATCH_BYTES || t_us - self.flushed_us >= BATCH_US;
        if !self.is_quiet && is_due {
            self.flushed_us = t_us;
            self.attempt(Self::flush);
        }
    }

    fn write_event(&mut self, t_us: i64, event: &RunEvent) {
        self.seq += 1;
        let line = format::event_line(self.seq, t_us, event, &self.redactor);
        self.held.extend_from_slice(line.as_bytes());
        self.timeline.event(t_us, event);
    }

    /// Takes what a step printed.
    pub fn log(&mut self, task: &str, step: &str, bytes: &[u8]) {
        if self.is_quiet {
            self.held_logs
                .push((task.to_owned(), step.to_owned(), bytes.to_vec()));
        } else {
            self.attempt(|writer| writer.write_log(task, step, bytes));
        }
    }

    /// Takes the final context of a task.
    pub fn context(&mut self, task: &str, context: &Value) {
        if self.is_quiet {
            return;
        }
        self.attempt(|writer| {
            let text = format::pretty(&writer.redactor.value(context));
            writer.write(&layout::context(task), text.as_bytes())
        });
    }

    /// Ends the record and returns its folder; the error is the first fault of the disk.
    pub fn finish(
        mut self,
        tasks: Vec<TaskRecord>,
        tally: Tally,
        is_cancelled: bool,
        now_us: i64,
    ) -> io::Result<PathBuf> {
        if self.run.id.is_empty() {
            return Ok(self.folder);
        }
        self.run.tasks = tasks;
        self.run.tally = tally;
        self.run.status = if is_cancelled {
            Status::Cancelled
        } else {
            Status::Completed
        };
        self.run.ended_us = Some(now_us);
        if self.is_quiet {
            self.attempt(Self::make_folder);
        } else {
            self.attempt(Self::flush);
            let timeline = self.timeline.text(&self.redactor);
            self.attempt(|writer| writer.write(Path::new("timeline.json"), timeline.as_bytes()));
        }
        self.attempt(Self::write_run);
        match self.fault {
            None => Ok(self.folder),
            Some(fault) => Err(fault),
        }
    }

    /// Removes the oldest records until so many are left; never the one of this writer's run.
    pub fn keep_newest(workspace: &Path, keep: usize) -> io::Result<()> {
        let runs = super::runs(workspace)?;
        for run in &runs[..runs.len().saturating_sub(keep.max(1))] {
            disk::remove_dir_all(&layout::folder(workspace, run))?;
        }
        Ok(())
    }

    fn attempt(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.fault.is_none()
            && let Err(fault) = work(self)
        {
            self.fault = Some(fault);
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        self.make_folder()?;
        self.write_run()?;
        self.events = Some(disk::create(&self.folder.join("events.jsonl"))?);
        for (task, step, bytes) in std::mem::take(&mut self.held_logs) {
            self.write_log(&task, &step, &bytes)?;
        }
        Ok(())
    }

    fn make_folder(&mut self) -> io::Result<()> {
        let runs = layout::runs(&self.workspace);
        if let Err(error) = disk::create_dir(&self.folder) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            disk::create_dir_all(&runs)?;
            disk::write(&layout::home(&self.workspace).join(".gitignore"), b"*\n")?;
            disk::create_dir(&self.folder)?;
        }
        Ok(())
    }

    fn write_run(&mut self) -> io::Result<()> {
        let text = format::run_file(&self.run, &self.redactor);
        let (draft, file) = (
            self.folder.join("run.json.tmp"),
            self.folder.join("run.json"),
        );
        disk::write(&draft, text.as_bytes())?;
        disk::rename(&draft, &file)
    }

    fn write_log(&mut self, task: &str, step: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let bytes = self.redactor.bytes(bytes);
        self.write(&layout::log(task, step), &bytes)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.join(path);
        match disk::write(&path, bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                path.parent().map_or(Ok(()), disk::create_dir_all)?;
                disk::write(&path, bytes)
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(events) = &mut self.events {
            events.write_all(&self.held)?;
            self.held.clear();
        }
        Ok(())
    }
}

/// Returns whether a run with this event has done more than to find that all stands.
fn is_change(event: &RunEvent) -> bool {
    match event {
        RunEvent::RunStarted { .. }
        | RunEvent::TaskStarted { .. }
        | RunEvent::TaskUnchanged { .. }
        | RunEvent::TaskFinished { .. }
        | RunEvent::Notice { .. }
        | RunEvent::RunFinished { .. } => false,
        RunEvent::Step { what, .. } => !matches!(what, StepEvent::Deferred | StepEvent::Hit { .. }),
    }
}
