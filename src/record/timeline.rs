//! The run as a timeline in the Chrome trace event format, for `chrome://tracing` and Perfetto.
//!
//! A task is a process. Steps that overlap in time lie in different rows.

use std::collections::HashMap;

use super::redact::Redactor;
use crate::event::{RunEvent, StepEvent};
use crate::json::{Value, json};

/// Collects the bars of a timeline from the events of a run.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    tasks: Vec<String>,
    task_at: HashMap<String, usize>,
    open: HashMap<(usize, String), Bar>,
    /// Rows in use by task.
    rows: Vec<Vec<bool>>,
    done: Vec<Bar>,
}

#[derive(Debug)]
struct Bar {
    task: usize,
    row: usize,
    step: String,
    kind: &'static str,
    attempt: u32,
    from_us: i64,
    to_us: i64,
    end: &'static str,
}

impl Timeline {
    /// Takes an event and its time since the run began.
    pub(super) fn event(&mut self, t_us: i64, event: &RunEvent) {
        let RunEvent::Step {
            task,
            step,
            kind,
            what,
        } = event
        else {
            return;
        };
        match what {
            StepEvent::Started { attempt } => {
                let task = self.task(task);
                let rows = &mut self.rows[task];
                let row = rows.iter().position(|used| !used).unwrap_or(rows.len());
                if row == rows.len() {
                    rows.push(true);
                } else {
                    rows[row] = true;
                }
                let bar = Bar {
                    task,
                    row,
                    step: step.to_string(),
                    kind,
                    attempt: *attempt,
                    from_us: t_us,
                    to_us: t_us,
                    end: "",
                };
                self.open.insert((task, step.to_string()), bar);
            }
            StepEvent::Finished { .. } => self.close(task, step.as_str(), t_us, "finished"),
            StepEvent::Failed { .. } => self.close(task, step.as_str(), t_us, "failed"),
            StepEvent::Aborted => self.close(task, step.as_str(), t_us, "aborted"),
            _ => {}
        }
    }

    fn task(&mut self, name: &str) -> usize {
        if let Some(at) = self.task_at.get(name) {
            return *at;
        }
        let at = self.tasks.len();
        self.tasks.push(name.to_owned());
        self.rows.push(Vec::new());
        self.task_at.insert(name.to_owned(), at);
        at
    }

    fn close(&mut self, task: &str, step: &str, t_us: i64, end: &'static str) {
        let task = self.task(task);
        if let Some(mut bar) = self.open.remove(&(task, step.to_owned())) {
            self.rows[task][bar.row] = false;
            bar.to_us = t_us.max(bar.from_us);
            bar.end = end;
            self.done.push(bar);
        }
    }

    /// Returns the text of `timeline.json`.
    pub(super) fn text(&self, redactor: &Redactor) -> String {
        let names = self.tasks.iter().enumerate().map(|(at, task)| {
            json!({"name": "process_name", "ph": "M", "pid": at + 1, "tid": 0, "args": {"name": task}})
        });
        let bars = self.done.iter().map(|bar| {
            json!({
                "name": bar.step, "cat": bar.kind, "ph": "X", "pid": bar.task + 1, "tid": bar.row + 1,
                "ts": bar.from_us, "dur": bar.to_us - bar.from_us,
                "args": {"attempt": bar.attempt, "end": bar.end},
            })
        });
        let lines: Vec<String> = names
            .chain(bars)
            .map(|event: Value| redactor.value(&event).to_string())
            .collect();
        format!(
            "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n",
            lines.join(",\n")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::StepId;
    use expect_test::expect;

    #[test]
    fn steps_that_overlap_lie_in_different_rows() {
        let mut timeline = Timeline::default();
        let mut tell = |t_us, step: &str, what| {
            let (task, step) = ("tasks/t.json".to_owned(), StepId::new(step));
            timeline.event(
                t_us,
                &RunEvent::Step {
                    task,
                    step,
                    kind: "run_code",
                    what,
                },
            );
        };
        tell(0, "a", StepEvent::Started { attempt: 1 });
        tell(5, "b", StepEvent::Started { attempt: 1 });
        tell(
            7,
            "a",
            StepEvent::Finished {
                took_us: 7,
                same_output: false,
            },
        );
        tell(8, "c", StepEvent::Started { attempt: 2 });
        tell(9, "b", StepEvent::Aborted);
        tell(9, "c", StepEvent::Aborted);
        expect![[r#"
            {"displayTimeUnit":"ms","traceEvents":[
            {"args":{"name":"tasks/t.json"},"name":"process_name","ph":"M","pid":1,"tid":0},
            {"args":{"attempt":1,"end":"finished"},"cat":"run_code","dur":7,"name":"a","ph":"X","pid":1,"tid":1,"ts":0},
            {"args":{"attempt":1,"end":"aborted"},"cat":"run_code","dur":4,"name":"b","ph":"X","pid":1,"tid":2,"ts":5},
            {"args":{"attempt":2,"end":"aborted"},"cat":"run_code","dur":1,"name":"c","ph":"X","pid":1,"tid":1,"ts":8}
            ]}
        "#]]
        .assert_eq(&timeline.text(&Redactor::default()));
    }
}
