//! `aebuild plan`: foresee what a run would do.

use super::select::{Choice, Selection, Variation};
use super::{ExitStatus, Face, SessionError};
use crate::report::{Paint, Printer, count, seconds};
use crate::session::{
    Need, Provision, RunOptions, Session, StepForecast, StepVerdict, TaskForecast,
};

/// Show what `run` would do, and run nothing
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    variation: Variation,
    #[command(flatten)]
    choice: Choice,
}

/// Runs the command.
pub(super) fn run(mut args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let mut options = args.selection.options();
    args.variation.add_to(&mut options, face)?;
    args.choice.add_to(&mut options);
    let mut session = face.open(args.selection.paths, false)?;
    show(&mut session, &options, face)
}

/// Shows the forecast of every task.
pub(super) fn show(
    session: &mut Session,
    options: &RunOptions,
    face: &mut Face,
) -> Result<ExitStatus, SessionError> {
    let tasks = session.plan(options)?;
    let text = plan_text(&tasks, &face.printer);
    face.printer.out(&text);
    Ok(ExitStatus::Passed)
}

fn plan_text(tasks: &[TaskForecast], printer: &Printer) -> String {
    let mut text = String::new();
    let mut totals = Totals::default();
    for task in tasks {
        text.push_str(&format!("{}\n", printer.safe_line(&task.shown)));
        for step in &task.steps {
            totals.add(step);
            text.push_str(&format!("  {}\n", step_line(step, printer)));
        }
    }
    text.push_str(&totals.line());
    text
}

fn step_line(step: &StepForecast, printer: &Printer) -> String {
    let (word, paint, rest) = match &step.verdict {
        StepVerdict::Hit { made_by } => {
            let rest = format!(", made by run {}", printer.safe_line(made_by));
            (
                "hit",
                Paint::Good,
                if printer.is_verbose {
                    rest
                } else {
                    String::new()
                },
            )
        }
        StepVerdict::Dirty { because } => {
            let all: Vec<_> = because.iter().map(ToString::to_string).collect();
            let all: Vec<_> = all.iter().map(|reason| printer.safe_line(reason)).collect();
            ("dirty", Paint::Fair, format!(": {}", all.join("; ")))
        }
        StepVerdict::Waits { on } => (
            "waits",
            Paint::Fair,
            format!(" for {}", printer.safe_line(on.as_str())),
        ),
        StepVerdict::Deferred => ("deferred", Paint::Dim, String::new()),
        StepVerdict::LeftOut => ("left out", Paint::Dim, String::new()),
    };
    let step_name = printer.safe_line(step.step.as_str());
    let kind = step.kind;
    let word = printer.paint_out(paint, &format!("{word:8}"));
    let mut line = format!("{word}  {step_name} ({kind}){rest}");
    for need in &step.needs {
        // Making one anew is what everybody expects.
        if printer.is_verbose || !matches!(need.how, Provision::Reuse | Provision::Create) {
            line.push_str(&format!("\n          {}", need_line(printer, need)));
        }
    }
    line
}

/// Says how a live thing gets to the state that a step needs, and why not in a cheaper way.
pub(super) fn need_line(printer: &Printer, need: &Need) -> String {
    let resource = need.resource.to_string();
    let why = need.why.map_or(String::new(), |why| format!(": {why}"));
    format!("{} by {}{why}", printer.safe_line(&resource), need.how)
}

#[derive(Default)]
struct Totals {
    dirty: u64,
    waits: u64,
    hit: u64,
    deferred: u64,
    left_out: u64,
    expected_us: u64,
    unknown: u64,
}

impl Totals {
    fn add(&mut self, step: &StepForecast) {
        match step.verdict {
            StepVerdict::Hit { .. } => self.hit += 1,
            StepVerdict::Deferred => self.deferred += 1,
            StepVerdict::LeftOut => self.left_out += 1,
            StepVerdict::Waits { .. } => self.waits += 1,
            StepVerdict::Dirty { .. } => {
                self.dirty += 1;
                match step.last_took_us {
                    Some(took_us) => self.expected_us += took_us,
                    None => self.unknown += 1,
                }
            }
        }
    }

    fn line(&self) -> String {
        let mut parts = vec![format!("{} to run", self.dirty)];
        if self.dirty > self.unknown {
            let known = seconds(self.expected_us);
            let unknown = match self.unknown {
                0 => String::new(),
                n => format!(" and {} never run", count(n, "step")),
            };
            parts[0].push_str(&format!(" (took {known} before{unknown})"));
        }
        let rest = [
            (self.waits, "waiting for them"),
            (self.hit, "to hit"),
            (self.deferred, "deferred"),
            (self.left_out, "left out"),
        ];
        parts.extend(
            rest.iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, what)| format!("{n} {what}")),
        );
        format!("{}\n", parts.join(", "))
    }
}
