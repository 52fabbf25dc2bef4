//! Progress as lines, for logs.
//!
//! A step is a line when it starts, so that the last line of a log says what hangs. Steps that hit are counted, not
//! listed.

use std::collections::HashMap;

use super::printer::{Paint, Printer};
use super::words;
use crate::event::{Outcome, RunEvent, StepEvent};

/// What the lines need to know of the run so far.
#[derive(Debug, Default)]
pub(super) struct Plain {
    n_tasks: usize,
    tasks: HashMap<String, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    n_steps: usize,
    order: HashMap<String, usize>,
    because: HashMap<String, Vec<String>>,
}

impl Seen {
    /// Returns the number of a step among those that something happened to.
    fn number(&mut self, step: &str) -> usize {
        let next = self.order.len() + 1;
        *self.order.entry(step.to_owned()).or_insert(next)
    }
}

impl Plain {
    /// Takes an event and returns the lines to show.
    pub(super) fn event(&mut self, event: &RunEvent, printer: &Printer) -> Option<String> {
        match event {
            RunEvent::RunStarted { tasks, .. } => {
                self.n_tasks = *tasks;
                None
            }
            RunEvent::TaskStarted { task, steps } => {
                self.tasks.entry(task.clone()).or_default().n_steps = *steps;
                None
            }
            RunEvent::Step {
                task,
                step,
                kind,
                what,
            } => {
                let seen = self.tasks.entry(task.clone()).or_default();
                let text = seen.step(step.as_str(), kind, what, printer)?;
                // The only task needs no name.
                Some(match self.n_tasks {
                    1 => format!("{text}\n"),
                    _ => format!("[{}] {text}\n", printer.safe_line(task)),
                })
            }
            RunEvent::TaskFinished {
                task,
                outcome,
                tally,
                took_us,
                ..
            } => {
                self.tasks.remove(task);
                let is_news = tally.ran > 0 || *outcome == Outcome::Failed;
                if self.n_tasks < 2 || !is_news {
                    return None;
                }
                let paint = match outcome {
                    Outcome::Passed | Outcome::Unscored => Paint::Good,
                    Outcome::ScoredBelowOne | Outcome::Cancelled => Paint::Fair,
                    Outcome::Failed => Paint::Bad,
                };
                let outcome = printer.paint_err(paint, outcome.as_str());
                let took = words::seconds(*took_us);
                Some(format!(
                    "[{}] {outcome} in {took}\n",
                    printer.safe_line(task)
                ))
            }
            RunEvent::Notice { text } => Some(format!("notice: {}\n", printer.safe_line(text))),
            RunEvent::TaskUnchanged { .. } | RunEvent::RunFinished { .. } => None,
        }
    }
}

impl Seen {
    fn step(
        &mut self,
        step: &str,
        kind: &str,
        what: &StepEvent,
        printer: &Printer,
    ) -> Option<String> {
        let id = printer.safe_line(step).into_owned();
        let safe = |text: &str| printer.safe_line(text).into_owned();
        let numbered =
            |seen: &mut Seen| format!("step {}/{} {id}", seen.number(step), seen.n_steps);
        match what {
            StepEvent::Dirty { because } => {
                self.because.insert(step.to_owned(), because.clone());
                None
            }
            StepEvent::Started { attempt } => {
                let because = self.because.remove(step).unwrap_or_default();
                let mut line = format!("{} ({kind})", numbered(self));
                if *attempt > 1 && because.is_empty() {
                    line.push_str(&format!(": attempt {attempt}"));
                }
                if let Some(first) = because.first() {
                    line.push_str(&format!(": {}", safe(first)));
                    if because.len() > 1 {
                        line.push_str(&format!(" (and {} more)", because.len() - 1));
                    }
                }
                Some(line)
            }
            StepEvent::Failed {
                error_type,
                error,
                fatal,
                ..
            } => {
                let failed = printer.paint_err(Paint::Bad, "failed");
                let tolerated = if *fatal {
                    ""
                } else {
                    ", which the task tolerates"
                };
                // What an env or a program wrote last is more than a line.
                let error = printer.safe(error.trim_end()).replace('\n', "\n    ");
                Some(format!(
                    "step {id} {failed}{tolerated}: {}: {error}",
                    safe(error_type)
                ))
            }
            StepEvent::NotStored { why } => Some(format!("step {id} is not kept: {}", safe(why))),
            StepEvent::RolledBack { failed, attempt } => {
                self.because.remove(step);
                Some(format!(
                    "step {id} rolled back since `{}` failed, attempt {attempt}",
                    safe(failed.as_str())
                ))
            }
            StepEvent::RetryRefused { why } => Some(format!("no retry of {id}: {}", safe(why))),
            StepEvent::Hit { made_by, took_us } => {
                let line = numbered(self);
                let saved = words::seconds(*took_us);
                printer.is_verbose.then(|| {
                    format!(
                        "{line} ({kind}): hit, {saved} saved, made by run {}",
                        safe(made_by)
                    )
                })
            }
            StepEvent::Deferred => {
                let line = numbered(self);
                printer
                    .is_verbose
                    .then(|| format!("{line} ({kind}): deferred"))
            }
            StepEvent::Provisioned { resource, how } => printer
                .is_verbose
                .then(|| format!("step {id} gets {}: {how}", safe(&resource.to_string()))),
            StepEvent::Finished {
                took_us,
                same_output,
            } => {
                let same = if *same_output {
                    ", with the output of before"
                } else {
                    ""
                };
                printer
                    .is_verbose
                    .then(|| format!("step {id} done in {}{same}", words::seconds(*took_us)))
            }
            StepEvent::Aborted => Some(format!("step {id} stopped")),
            StepEvent::Skipped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Tally;
    use expect_test::expect;

    #[test]
    fn what_runs_is_a_line_and_what_hits_is_not() {
        let printer = Printer::to(Box::new(std::io::sink()), Box::new(std::io::sink()));
        let step = |step: &str, what| RunEvent::Step {
            task: "tasks/t.json".to_owned(),
            step: step.into(),
            kind: "run_code",
            what,
        };
        let events = [
            RunEvent::RunStarted {
                run: "r".to_owned(),
                tasks: 2,
            },
            RunEvent::TaskStarted {
                task: "tasks/t.json".to_owned(),
                steps: 3,
            },
            step(
                "a",
                StepEvent::Hit {
                    made_by: "r0".to_owned(),
                    took_us: 5,
                },
            ),
            step(
                "b",
                StepEvent::Dirty {
                    because: vec![
                        "field `x` changed".to_owned(),
                        "field `y` changed".to_owned(),
                    ],
                },
            ),
            step("b", StepEvent::Started { attempt: 1 }),
            step(
                "b",
                StepEvent::Failed {
                    error_type: "RuntimeError".to_owned(),
                    error: "boom\u{7}\nbang".to_owned(),
                    fatal: true,
                    took_us: 1,
                },
            ),
            step(
                "b",
                StepEvent::RolledBack {
                    failed: "b".into(),
                    attempt: 2,
                },
            ),
            step("b", StepEvent::Started { attempt: 2 }),
            RunEvent::TaskFinished {
                task: "tasks/t.json".to_owned(),
                outcome: Outcome::Failed,
                scores: Vec::new(),
                failure: None,
                tally: Tally::default(),
                took_us: 1_200_000,
            },
        ];
        let mut plain = Plain::default();
        let lines: String = events
            .iter()
            .filter_map(|event| plain.event(event, &printer))
            .collect();
        expect![[r#"
            [tasks/t.json] step 2/3 b (run_code): field `x` changed (and 1 more)
            [tasks/t.json] step b failed: RuntimeError: boom\u{7}
                bang
            [tasks/t.json] step b rolled back since `b` failed, attempt 2
            [tasks/t.json] step 2/3 b (run_code): attempt 2
            [tasks/t.json] failed in 1.2 s
        "#]]
        .assert_eq(&lines);
    }
}
