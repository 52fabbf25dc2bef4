//! Progress as one line that is drawn over, for terminals.

use std::collections::BTreeSet;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::plain::Plain;
use super::printer::Printer;
use crate::event::{RunEvent, StepEvent};

/// The most running steps that are named.
const MAX_NAMED: usize = 8;

/// One line that says what is going on; what went wrong stays above it.
#[derive(Debug, Default)]
pub(super) struct Bar {
    bar: Option<ProgressBar>,
    lines: Plain,
    n_tasks: usize,
    n_over: usize,
    ran: u64,
    hit: u64,
    running: BTreeSet<(String, String)>,
}

impl Bar {
    /// Takes an event; nothing is drawn before a step starts.
    pub(super) fn event(&mut self, event: &RunEvent, printer: &mut Printer) {
        let line = self.lines.event(event, printer);
        let mut is_shown = printer.is_verbose;
        match event {
            RunEvent::RunStarted { tasks, .. } => self.n_tasks = *tasks,
            RunEvent::TaskFinished { .. } => {
                self.n_over += 1;
                is_shown = true;
            }
            RunEvent::Notice { .. } => is_shown = true,
            RunEvent::RunFinished { .. } => self.end(),
            RunEvent::Step {
                task, step, what, ..
            } => {
                let name = (task.clone(), step.to_string());
                match what {
                    StepEvent::Hit { .. } => self.hit += 1,
                    StepEvent::Started { .. } => {
                        self.ran += 1;
                        self.running.insert(name);
                    }
                    StepEvent::Finished { .. } | StepEvent::Aborted => {
                        self.running.remove(&name);
                    }
                    StepEvent::Failed { .. } => {
                        self.running.remove(&name);
                        is_shown = true;
                    }
                    StepEvent::RolledBack { .. }
                    | StepEvent::RetryRefused { .. }
                    | StepEvent::NotStored { .. } => is_shown = true,
                    _ => {}
                }
            }
            RunEvent::TaskStarted { .. } | RunEvent::TaskUnchanged { .. } => {}
        }
        if let Some(line) = line.filter(|_| is_shown) {
            self.print(&line, printer);
        }
        if matches!(
            event,
            RunEvent::Step {
                what: StepEvent::Started { .. },
                ..
            }
        ) {
            self.draw();
        }
        if let Some(bar) = &self.bar {
            bar.set_message(self.message(printer));
        }
    }

    /// Prints a text above the line.
    pub(super) fn print(&self, text: &str, printer: &mut Printer) {
        match &self.bar {
            Some(bar) => bar.suspend(|| printer.err(text)),
            None => printer.err(text),
        }
    }

    fn draw(&mut self) {
        if self.bar.is_none() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(120));
            self.bar = Some(bar);
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn message(&self, printer: &Printer) -> String {
        let mut text = format!("{} ran, {} hit", self.ran, self.hit);
        if self.n_tasks > 1 {
            text = format!("task {}/{}, {text}", self.n_over, self.n_tasks);
        }
        let named = self.running.iter().take(MAX_NAMED);
        let named: Vec<_> = named.map(|(_, step)| printer.safe_line(step)).collect();
        if !named.is_empty() {
            text.push_str(&format!(" · {}", named.join(", ")));
        }
        if self.running.len() > MAX_NAMED {
            text.push_str(&format!(" and {} more", self.running.len() - MAX_NAMED));
        }
        text
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.end();
    }
}
