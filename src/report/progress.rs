//! What is shown while a run goes on.

use super::bar::Bar;
use super::plain::Plain;
use super::printer::Printer;
use crate::event::{RunEvent, StepEvent};
use crate::record::event_line;

/// How progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgressKind {
    /// As the terminal allows: one line drawn over, or lines.
    Text,
    /// Each event as a line of JSON on standard output.
    Json,
}

/// Shows the events of a run as they come.
#[derive(Debug)]
pub struct Progress(Shown);

#[derive(Debug)]
enum Shown {
    Lines(Plain),
    Bar(Box<Bar>),
    Json { seq: u64, began_us: i64 },
}

impl Progress {
    /// Returns what shows a run that begins now.
    pub fn new(kind: ProgressKind, printer: &Printer, now_us: i64) -> Self {
        Progress(match kind {
            ProgressKind::Json => Shown::Json {
                seq: 0,
                began_us: now_us,
            },
            ProgressKind::Text if printer.can_redraw => Shown::Bar(Box::default()),
            ProgressKind::Text => Shown::Lines(Plain::default()),
        })
    }

    /// Shows an event.
    pub fn event(&mut self, event: &RunEvent, now_us: i64, printer: &mut Printer) {
        match &mut self.0 {
            Shown::Lines(plain) => {
                if let Some(line) = plain.event(event, printer) {
                    printer.err(&line);
                }
            }
            Shown::Bar(bar) => bar.event(event, printer),
            Shown::Json { seq, began_us } => {
                *seq += 1;
                printer.out(&event_line(
                    *seq,
                    now_us - *began_us,
                    event,
                    &printer.redactor,
                ));
                let RunEvent::Step { what, .. } = event else {
                    return;
                };
                if !matches!(
                    what,
                    StepEvent::Hit { .. } | StepEvent::Deferred | StepEvent::Dirty { .. }
                ) {
                    printer.flush();
                }
            }
        }
    }

    /// Shows a text above the line that is drawn over, where there is one.
    pub fn print(&self, text: &str, printer: &mut Printer) {
        match &self.0 {
            Shown::Bar(bar) => bar.print(text, printer),
            Shown::Lines(_) | Shown::Json { .. } => printer.err(text),
        }
    }

    /// Shows what a step printed, where that is asked for.
    pub fn log(&mut self, step: &str, bytes: &[u8], printer: &mut Printer) {
        if !printer.is_verbose || matches!(self.0, Shown::Json { .. }) {
            return;
        }
        let text = String::from_utf8_lossy(bytes).into_owned();
        let lines: String = printer
            .safe(text.trim_end_matches('\n'))
            .lines()
            .map(|line| format!("{} | {line}\n", printer.safe_line(step)))
            .collect();
        match &self.0 {
            Shown::Bar(bar) => bar.print(&lines, printer),
            Shown::Lines(_) | Shown::Json { .. } => printer.err(&lines),
        }
    }
}
