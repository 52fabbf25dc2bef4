//! `aebuild run`: run what changed.

use std::path::{Path, PathBuf};

use super::select::{Choice, Limits, Selection, Variation};
use super::signals::Signals;
use super::teller::{self, Teller};
use super::{ExitStatus, Face, ProgressKind, SessionError, fault, plan};
use crate::event::Outcome;
use crate::json::{Map, Value};
use crate::record::safe_name;
use crate::report::Paint;
use crate::session::{RunSummary, TaskSummary};
use crate::system::disk;

/// Run tasks: what is as it was hits, the rest runs
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    variation: Variation,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    limits: Limits,
    /// Ask models anew, whatever is kept of their answers
    #[arg(long)]
    no_model_cache: bool,
    /// Leave live things up after the run, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Write each event as a line of JSON to standard output
    #[arg(long)]
    json: bool,
    /// Write the final context: of the only task, or of several by task; into an existing folder, a
    /// file a task
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Fail where a score is below this [default: `score.min` of aebuild.toml, else none]
    #[arg(long, value_name = "X", value_parser = min_score)]
    min_score: Option<f64>,
    /// Show what would run, and run nothing
    #[arg(long)]
    dry_run: bool,
}

fn min_score(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(score) if (0.0..=1.0).contains(&score) => Ok(score),
        _ => Err("write a number from 0 to 1".to_owned()),
    }
}

/// Runs the command.
pub(super) fn run(mut args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let began_us = face.system.now_us();
    let mut options = args.selection.options();
    args.variation.add_to(&mut options, face)?;
    args.choice.add_to(&mut options);
    let no_cache = args.limits.add_to(&mut options);
    options.ask_models_anew = args.no_model_cache;
    options.keep = args.keep;
    options.contexts = args.output.is_some();
    if args.dry_run {
        let mut session = face.open(args.selection.paths, no_cache)?;
        return plan::show(&mut session, &options, face);
    }
    if let Some(path) = &args.output {
        check_output(path)?;
    }
    let mut signals = Signals::listen()
        .map_err(|error| SessionError::World(format!("signals cannot be heard: {error}")))?;
    let mut session = face.open(args.selection.paths, no_cache)?;
    let min_score = args.min_score.or(session.config().score.min);
    let kind = if args.json {
        ProgressKind::Json
    } else {
        ProgressKind::Text
    };

    let mut teller = Teller::new(&session, kind, began_us, face);
    let run = session.run(
        &options,
        &mut |told| teller.tell(told, face),
        signals.wish.clone(),
    );
    let ended = teller.end();
    let mut run = run?;
    fault::diagnostics(&run.warnings, &mut face.printer);
    if !args.json {
        let took_us = face.system.now_us().saturating_sub(began_us).max(0) as u64;
        let text = teller::verdict(&run, Some(took_us), &face.printer);
        face.printer.out(&text);
    }
    face.printer.flush();
    ended.record(&run, &session, face);
    if let Some(path) = &args.output {
        write_output(path, &run.tasks)?;
    }
    if options.keep {
        hold(&mut run, &mut signals, face);
    }
    Ok(status(&run, min_score, &signals, face))
}

/// Refuses a path for contexts that could not be written in the end, before anything runs.
fn check_output(path: &Path) -> Result<(), SessionError> {
    let refuse = |why: &str| {
        let message = format!("`--output {}`: {why}", path.display());
        Err(SessionError::Usage {
            message,
            help: None,
        })
    };
    match disk::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => return Ok(()),
        Ok(_) => return refuse("this is neither a file nor a folder"),
        Err(_) => {}
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    match parent.map(disk::metadata) {
        None => Ok(()),
        Some(Ok(found)) if found.is_dir() => Ok(()),
        Some(_) => refuse("the folder for it is not there"),
    }
}

/// Writes the final contexts.
fn write_output(path: &Path, tasks: &[TaskSummary]) -> Result<(), SessionError> {
    let context = |task: &TaskSummary| task.context.clone().unwrap_or(Value::Null);
    let is_folder = disk::metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let files: Vec<(PathBuf, Value)> = if is_folder {
        let name = |task: &TaskSummary| path.join(format!("{}.json", safe_name(&task.shown)));
        tasks
            .iter()
            .map(|task| (name(task), context(task)))
            .collect()
    } else {
        let value = match tasks {
            [task] => context(task),
            _ => {
                let each = tasks.iter().map(|task| (task.shown.clone(), context(task)));
                Value::Object(each.collect::<Map<String, Value>>())
            }
        };
        vec![(path.to_owned(), value)]
    };
    for (file, value) in files {
        disk::write(&file, format!("{value:#}\n").as_bytes()).map_err(|error| {
            SessionError::World(format!("`{}` cannot be written: {error}", file.display()))
        })?;
    }
    Ok(())
}

/// Shows what is up and keeps it so until a signal comes.
fn hold(run: &mut RunSummary, signals: &mut Signals, face: &mut Face) {
    if run.left_up.is_empty() {
        face.printer
            .err("Nothing to keep up: no live thing is left\n");
    } else {
        let mut text = "Kept up:\n".to_owned();
        for line in &run.left_up {
            text.push_str(&format!("  {}\n", face.printer.safe_line(line)));
        }
        text.push_str("Holding until Ctrl-C\n");
        face.printer.err(&text);
        signals.wait();
    }
    if let Err(why) = run.release() {
        let text = format!("notice: {}\n", face.printer.safe_line(&why));
        face.printer.err(&text);
    }
}

fn status(
    run: &RunSummary,
    min_score: Option<f64>,
    signals: &Signals,
    face: &mut Face,
) -> ExitStatus {
    if run.cancelled {
        return signals.status().unwrap_or(ExitStatus::Interrupted);
    }
    // A run that nobody interrupted cancels tasks where its budget is spent.
    let has_failed = run
        .tasks
        .iter()
        .any(|task| matches!(task.outcome, Outcome::Failed | Outcome::Cancelled));
    let low = min_score.and_then(|min| {
        let scores = run.tasks.iter().flat_map(|task| &task.scores);
        let n_low = scores.filter(|score| score.score < min).count() as u64;
        (n_low > 0).then_some((n_low, min))
    });
    if let Some((n_low, min)) = low {
        let is = if n_low == 1 { "is" } else { "are" };
        let scores = crate::report::count(n_low, "score");
        let text = format!("{scores} {is} below {}\n", crate::report::score(min));
        face.printer.err(&face.printer.paint_err(Paint::Bad, &text));
    }
    if has_failed || low.is_some() {
        ExitStatus::Failed
    } else {
        ExitStatus::Passed
    }
}
