//! `aebuild show`: look at a recorded run.

use std::path::{Path, PathBuf};

use super::{ExitStatus, Face, SessionError, fault};
use crate::record::{self, ReadError, RunRecord, Status, event_line};
use crate::report::{Paint, TaskLine, count, counts, summary};
use crate::session::recorded_workspace;
use crate::system::timestamp;

/// Show a recorded run
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The run, by its id or the beginning of it [default: the latest]
    run: Option<String>,
    /// List all recorded runs, the latest last
    #[arg(long, conflicts_with_all = ["run", "events", "log"])]
    list: bool,
    /// Write the events, each as a line of JSON
    #[arg(long, conflicts_with = "log")]
    events: bool,
    /// Write what this step printed, as `STEP` or `TASK/STEP`
    #[arg(long, value_name = "STEP")]
    log: Option<String>,
    /// Look at the runs of this task folder or workspace [default: the current folder]
    #[arg(long = "in", value_name = "PATH")]
    workspace: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let workspace = workspace(args.workspace.as_deref(), face)?;
    if args.list {
        return list(&workspace, face);
    }
    let id = record::find(&workspace, args.run.as_deref()).map_err(not_found)?;
    if args.events {
        return events(&workspace, &id, face);
    }
    let run = record::run(&workspace, &id).map_err(not_found)?;
    if let Some(step) = &args.log {
        return log(&workspace, &run, step, args.run.is_none(), face);
    }
    let text = run_text(&run, face);
    face.printer.out(&text);
    Ok(ExitStatus::Passed)
}

/// Returns the workspace in which runs were recorded, else the one that a run here would have.
pub(super) fn workspace(path: Option<&Path>, face: &mut Face) -> Result<PathBuf, SessionError> {
    if let Some(found) = recorded_workspace(&*face.system, path) {
        return Ok(found);
    }
    let session = face.open(path.map(Path::to_path_buf).into_iter().collect(), true)?;
    Ok(session.workspace().to_owned())
}

/// Returns the fault of a record that cannot be had.
pub(super) fn not_found(error: ReadError) -> SessionError {
    let help = match &error {
        ReadError::NoRuns(_) => Some("run a task first: `aebuild run`".to_owned()),
        ReadError::NoSuchRun(_) | ReadError::Ambiguous(..) => {
            Some("list the runs: `aebuild show --list`".to_owned())
        }
        ReadError::Later { .. } | ReadError::Damaged(_) | ReadError::Io { .. } => None,
    };
    fault::usage(error.to_string(), help)
}

fn list(workspace: &Path, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let ids = record::runs(workspace)
        .map_err(|error| SessionError::World(format!("the records cannot be read: {error}")))?;
    let mut text = String::new();
    for id in &ids {
        let rest = match record::run(workspace, id) {
            Ok(run) => {
                let tasks = count(run.tasks.len() as u64, "task");
                format!("{}, {tasks}, {}", status(&run), counts(&run.tally))
            }
            Err(error) => error.to_string(),
        };
        text.push_str(&format!("{id}  {}\n", face.printer.safe_line(&rest)));
    }
    face.printer.out(&text);
    if ids.is_empty() {
        face.printer.err("no run is recorded\n");
    }
    Ok(ExitStatus::Passed)
}

fn status(run: &RunRecord) -> &'static str {
    match run.status {
        Status::Running => "not ended",
        Status::Completed => "completed",
        Status::Cancelled => "cancelled",
    }
}

fn run_text(run: &RunRecord, face: &Face) -> String {
    let printer = &face.printer;
    let command = run.command.join(" ");
    let mut text = format!(
        "run {}: {}\n  began {}\n",
        printer.paint_out(Paint::Bold, &run.id),
        status(run),
        timestamp(run.started_us),
    );
    text.push_str(&format!("  aebuild {}\n", printer.safe_line(&command)));
    let lines: Vec<TaskLine<'_>> = run
        .tasks
        .iter()
        .map(|task| TaskLine {
            task: &task.task,
            outcome: task.outcome,
            scores: &task.scores,
            failure: task.failure.as_deref(),
        })
        .collect();
    let took_us = run
        .ended_us
        .map(|ended| ended.saturating_sub(run.started_us).max(0) as u64);
    text.push_str(&summary(&lines, &run.tally, took_us, printer));
    text
}

fn events(workspace: &Path, id: &str, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let read = record::events(workspace, id).map_err(not_found)?;
    for recorded in &read.events {
        if let Some(event) = &recorded.event {
            let line = event_line(recorded.seq, recorded.t_us, event, &face.printer.redactor);
            face.printer.out(&line);
        }
    }
    if read.events.is_empty() && read.note.is_none() {
        face.printer
            .err("the run changed nothing, so its events are not kept\n");
    }
    if let Some(note) = &read.note {
        let text = format!("notice: {}\n", face.printer.safe_line(note));
        face.printer.err(&text);
    }
    Ok(ExitStatus::Passed)
}

/// Writes the log of a step; where no run was named, the latest one that there is.
pub(super) fn log(
    workspace: &Path,
    run: &RunRecord,
    step: &str,
    may_be_older: bool,
    face: &mut Face,
) -> Result<ExitStatus, SessionError> {
    let matching = |task: &str| -> Option<String> {
        let (of, name) = step
            .rsplit_once('/')
            .map_or((None, step), |(of, name)| (Some(of), name));
        let fits = of.is_none_or(|of| {
            let bare = task.rsplit('/').next().unwrap_or(task);
            task == of || bare == of || bare.strip_suffix(".json") == Some(of)
        });
        fits.then(|| name.to_owned())
    };
    let mut found = Vec::new();
    for task in &run.tasks {
        let Some(name) = matching(&task.task) else {
            continue;
        };
        let here = record::log(workspace, &run.id, &task.task, &name);
        let older = || {
            let newest = record::newest_log(workspace, &task.task, &name);
            newest.filter(|_| may_be_older).map(|(_, bytes)| bytes)
        };
        if let Some(bytes) = here.or_else(older) {
            found.push((task.task.clone(), bytes));
        }
    }
    let several = found.len() > 1;
    if found.is_empty() {
        let names = record::logs(workspace, &run.id);
        let help = match names.is_empty() {
            true => "no step of that run printed anything".to_owned(),
            false => format!("logs of that run: {}", names.join(", ")),
        };
        let message = format!("run `{}` has no log of a step `{step}`", run.id);
        return Err(fault::usage(message, Some(help)));
    }
    for (task, bytes) in found {
        if several {
            let title = format!("==> {} <==\n", face.printer.safe_line(&task));
            face.printer.out(&title);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let text = face.printer.safe(&text).into_owned();
        face.printer.out(&text);
        if !text.ends_with('\n') {
            face.printer.out("\n");
        }
    }
    Ok(ExitStatus::Passed)
}
