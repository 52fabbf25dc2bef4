//! `aebuild explain`: why a step would run, or not.

use super::select::{Selection, Variation};
use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::differing;
use crate::report::{Paint, Printer, count, score, seconds};
use crate::session::{Cause, Explanation, StepVerdict};
use crate::system::timestamp;

/// Show why a step would run, or why it would not
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The step, as `STEP` or `TASK/STEP`
    step: String,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    variation: Variation,
}

/// The most earlier runs that are shown.
const MAX_HISTORY: usize = 10;
/// The most letters of a value that are shown beside what it was.
const MAX_VALUE: usize = 160;
/// The most steps that are named in a row.
const MAX_NAMED: usize = 8;

/// Runs the command.
pub(super) fn run(mut args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let mut options = args.selection.options();
    args.variation.add_to(&mut options, face)?;
    let mut session = face.open(args.selection.paths, false)?;
    let found = session.explain(&options, &args.step)?;
    if found.is_empty() {
        return Err(fault::usage(
            format!("no selected task has a step `{}`", args.step),
            None,
        ));
    }
    let texts: Vec<String> = found
        .iter()
        .map(|one| explanation(one, &face.printer))
        .collect();
    face.printer.out(&texts.join("\n"));
    Ok(ExitStatus::Passed)
}

/// Returns the text of an explanation.
pub(super) fn explanation(one: &Explanation, printer: &Printer) -> String {
    let safe = |text: &str| printer.safe_line(text).into_owned();
    let bold = |text: &str| printer.paint_out(Paint::Bold, text);
    let step = safe(one.step.as_str());
    let mut text = format!("{} ({}) of {}\n", bold(&step), one.kind, safe(&one.task));
    let verdict = match &one.verdict {
        StepVerdict::Hit { made_by } => format!("hits: run {} made its result", safe(made_by)),
        StepVerdict::Dirty { .. } => "dirty because".to_owned(),
        StepVerdict::Waits { on } => {
            format!(
                "waits for {}, and runs if that gives another result",
                safe(on.as_str())
            )
        }
        StepVerdict::Deferred => "deferred: it is made when a step that runs needs it".to_owned(),
        StepVerdict::LeftOut => "left out by the command line".to_owned(),
    };
    text.push_str(&format!("{verdict}\n"));
    let mut last = &one.step;
    for cause in &one.causes {
        // What a step waits for is another step's doing.
        if cause.step != one.step && cause.step != *last {
            let step = printer.safe_line(cause.step.as_str()).into_owned();
            let also = match one.verdict {
                StepVerdict::Dirty { .. } => "what it reads may change too: ",
                _ => "",
            };
            text.push_str(&format!("  {also}{step} is dirty because\n"));
            last = &cause.step;
        }
        let depth = if cause.step == one.step { 1 } else { 2 };
        write_cause(&mut text, cause, depth, printer);
    }
    if one.n_more > 0 {
        let more = count(one.n_more as u64, "more step");
        text.push_str(&format!("  {more} whose results it reads must run\n"));
    }
    write_cost(&mut text, one, printer);
    if let Some(cutoff) = &one.cutoff {
        text.push_str(&format!("  {}\n", safe(cutoff)));
    }
    if !one.needs.is_empty() {
        text.push_str(&format!("{}\n", bold("needs")));
    }
    for need in &one.needs {
        text.push_str(&format!("  {}\n", super::plan::need_line(printer, need)));
    }
    write_pairs(&mut text, &bold("key"), &one.key, printer);
    write_pairs(&mut text, &bold("reads"), &one.reads, printer);
    if !one.history.is_empty() {
        text.push_str(&format!("{}\n", bold("history")));
    }
    for row in one.history.iter().take(MAX_HISTORY) {
        let mut line = format!("  {} {}", &timestamp(row.started_us)[..19], safe(&row.run));
        match (&row.error, &row.output) {
            (Some(error), _) => line.push_str(&format!(": failed: {}", safe(error))),
            (None, Some(output)) => line.push_str(&format!(": output {}", output.short())),
            (None, None) => {}
        }
        if let Some(given) = row.score {
            line.push_str(&format!(", score {}", score(given)));
        }
        text.push_str(&format!("{line}, {}\n", seconds(row.took_us)));
    }
    text
}

/// Writes a cause, and what is behind it one level deeper.
fn write_cause(text: &mut String, cause: &Cause, depth: usize, printer: &Printer) {
    let indent = "  ".repeat(depth);
    let reason = cause.reason.to_string();
    let at = cause
        .at
        .as_deref()
        .map(|at| format!(" ({at})"))
        .unwrap_or_default();
    text.push_str(&format!(
        "{indent}{}\n",
        printer.safe_line(&format!("{reason}{at}"))
    ));
    if let Some((old, new)) = cause.reason.old_and_new() {
        let (old, new) = differing(
            &printer.redactor.text(&old),
            &printer.redactor.text(&new),
            MAX_VALUE,
        );
        text.push_str(&format!("{indent}  was {}\n", printer.safe_line(&old)));
        text.push_str(&format!("{indent}  now {}\n", printer.safe_line(&new)));
    }
    let mut last = None;
    for deeper in &cause.then {
        if last != Some(&deeper.step) {
            let step = printer.safe_line(deeper.step.as_str()).into_owned();
            text.push_str(&format!(
                "{indent}  given by {step}, which is dirty because\n"
            ));
            last = Some(&deeper.step);
        }
        write_cause(text, deeper, depth + 2, printer);
    }
}

/// Writes what it would cost to run the step.
fn write_cost(text: &mut String, one: &Explanation, printer: &Printer) {
    let cost = &one.cost;
    if !matches!(
        one.verdict,
        StepVerdict::Dirty { .. } | StepVerdict::Waits { .. }
    ) {
        return;
    }
    text.push_str(&format!("{}\n", printer.paint_out(Paint::Bold, "cost")));
    let own = match cost.took_us {
        Some(us) => format!("it took {} when it last ran", seconds(us)),
        None => "how long it takes is not known".to_owned(),
    };
    text.push_str(&format!("  {own}\n"));
    for (which, steps) in [("before", &cost.before), ("after", &cost.after)] {
        if steps.is_empty() {
            continue;
        }
        let all_sure = steps.iter().all(|step| step.is_sure);
        let verb = match (steps.len(), all_sure) {
            (1, true) => "runs",
            (_, true) => "run",
            (_, false) => "may run",
        };
        let named = steps
            .iter()
            .take(MAX_NAMED)
            .map(|step| printer.safe_line(step.step.as_str()));
        let mut names = named.collect::<Vec<_>>().join(", ");
        if steps.len() > MAX_NAMED {
            names.push_str(&format!(" and {} more", steps.len() - MAX_NAMED));
        }
        let known: Vec<u64> = steps.iter().filter_map(|step| step.took_us).collect();
        let took = match known.len() {
            0 => "not known how long".to_owned(),
            n if n == steps.len() => seconds(known.iter().sum()),
            n => format!("{} for {n} of them", seconds(known.iter().sum())),
        };
        let n = count(steps.len() as u64, "step");
        text.push_str(&format!("  {n} {which} it {verb} too: {names} ({took})\n"));
    }
}

fn write_pairs(text: &mut String, title: &str, pairs: &[(String, String)], printer: &Printer) {
    if pairs.is_empty() {
        return;
    }
    text.push_str(&format!("{title}\n"));
    for (name, shown) in pairs {
        text.push_str(&format!(
            "  {}: {}\n",
            printer.safe_line(name),
            printer.safe_line(shown)
        ));
    }
}
