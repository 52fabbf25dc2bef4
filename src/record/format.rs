//! The bytes of a record.
//!
//! Version log: 1: the first.
//!
//! `events.jsonl` is one JSON object a line: `seq` counts from 1, `t_us` is the time since the run began in
//! microseconds, `event` says what happened, the rest depends on it. A reader takes no offence at members and events that
//! it does not know, so that both may be added without another version.

use std::fmt::Write as _;

use super::redact::Redactor;
use super::{RunRecord, Status, TaskRecord};
use crate::diagnostic::visible_line;
use crate::event::{Outcome, RunEvent, Score, Spent, StepEvent, Tally};
use crate::json::{Value, json};
use crate::resource::{Provision, ResourceId, ResourceKind};
use crate::system::timestamp;
use crate::task::StepId;

/// The version of the formats of a record.
pub const FORMAT_VERSION: u32 = 1;

/// A JSON object on one line, its members in the order in which they are added.
struct Line<'a> {
    text: String,
    redactor: &'a Redactor,
}

impl<'a> Line<'a> {
    fn new(seq: u64, t_us: i64, event: &str, redactor: &'a Redactor) -> Self {
        Line {
            text: format!("{{\"seq\":{seq},\"t_us\":{t_us},\"event\":\"{event}\""),
            redactor,
        }
    }

    fn key(&mut self, key: &str) {
        write!(self.text, ",\"{key}\":").expect("writing to a string does not fail");
    }

    fn text(mut self, key: &str, text: &str) -> Self {
        self.key(key);
        push_string(&mut self.text, &self.redactor.text(text));
        self
    }

    fn maybe(self, key: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(key, text),
            None => self,
        }
    }

    fn texts(mut self, key: &str, texts: &[String]) -> Self {
        self.key(key);
        self.text.push('[');
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            push_string(&mut self.text, &self.redactor.text(text));
        }
        self.text.push(']');
        self
    }

    fn raw(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        write!(self.text, ",\"{key}\":{value}").expect("writing to a string does not fail");
        self
    }

    fn maybe_raw(self, key: &str, value: Option<impl std::fmt::Display>) -> Self {
        match value {
            Some(value) => self.raw(key, value),
            None => self,
        }
    }

    /// Adds scores, if there are any.
    fn scores(mut self, scores: &[Score]) -> Self {
        if scores.is_empty() {
            return self;
        }
        self.key("scores");
        self.text.push('[');
        for (at, score) in scores.iter().enumerate() {
            self.text
                .push_str(if at > 0 { ",{\"name\":" } else { "{\"name\":" });
            push_string(&mut self.text, &self.redactor.text(&score.name));
            self.text.push_str(",\"score\":");
            // Nearly all are one of these.
            match score.score {
                1.0 => self.text.push_str("1.0"),
                0.0 => self.text.push_str("0.0"),
                other => self.text.push_str(&json!(other).to_string()),
            }
            if !score.failed.is_empty() {
                let lines: Vec<_> = score.failed.iter().map(|l| self.redactor.text(l)).collect();
                self.text.push_str(&format!(",\"failed\":{}", json!(lines)));
            }
            self.text.push('}');
        }
        self.text.push(']');
        self
    }

    /// Adds what was counted; what is 0 is left out.
    fn tally(self, tally: &Tally) -> Self {
        let counts = [
            ("ran", tally.ran),
            ("hit", tally.hit),
            ("saved_us", tally.saved_us),
            ("deferred", tally.deferred),
            ("failed", tally.failed),
            ("skipped", tally.skipped),
        ];
        let counted = counts
            .into_iter()
            .filter(|(key, n)| *n > 0 || *key == "ran");
        let line = counted.fold(self, |line, (key, n)| line.raw(key, n));
        line.models(&tally.models)
    }

    /// Adds what was spent on models, if any was asked.
    fn models(mut self, spent: &Spent) -> Self {
        if *spent == Spent::default() {
            return self;
        }
        self.key("models");
        let (requests, cached) = (spent.requests, spent.cached);
        let text = format!("{{\"requests\":{requests},\"cached\":{cached}");
        self.text.push_str(&text);
        let retried = Some(spent.retried).filter(|n| *n > 0);
        self = self.maybe_raw("retried", retried);
        self = self.maybe_raw("input_tokens", spent.input_tokens);
        self = self.maybe_raw("output_tokens", spent.output_tokens);
        self = self.maybe_raw("micro_usd", spent.micro_usd);
        self.text.push('}');
        self
    }

    fn end(mut self) -> String {
        self.text.push_str("}\n");
        self.text
    }
}

/// Adds a JSON string; what a terminal would obey or hide is written as `\u....`.
fn push_string(out: &mut String, text: &str) {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    let quoted = serde_json::to_string(text).expect("a string is JSON");
    if matches!(visible_line(&quoted), std::borrow::Cow::Borrowed(_)) {
        out.push_str(&quoted);
        return;
    }
    for c in quoted.chars() {
        if matches!(
            visible_line(c.encode_utf8(&mut [0; 4])),
            std::borrow::Cow::Borrowed(_)
        ) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("writing to a string does not fail");
            }
        }
    }
}

/// Returns the line of an event.
pub fn event_line(seq: u64, t_us: i64, event: &RunEvent, redactor: &Redactor) -> String {
    let line = |name: &str| Line::new(seq, t_us, name, redactor);
    match event {
        RunEvent::RunStarted { run, tasks } => line("run_started")
            .raw("format", FORMAT_VERSION)
            .text("run", run)
            .raw("tasks", tasks)
            .end(),
        RunEvent::TaskStarted { task, steps } => line("task_started")
            .text("task", task)
            .raw("steps", steps)
            .end(),
        RunEvent::TaskUnchanged { task, steps } => line("task_unchanged")
            .text("task", task)
            .raw("steps", steps)
            .end(),
        RunEvent::Step {
            task,
            step,
            kind,
            what,
        } => {
            let line = |name: &str| {
                line(name)
                    .text("task", task)
                    .text("step", step.as_str())
                    .text("type", kind)
            };
            step_line(&line, what).end()
        }
        RunEvent::TaskFinished {
            task,
            outcome,
            scores,
            failure,
            tally,
            took_us,
        } => line("task_finished")
            .text("task", task)
            .text("outcome", outcome.as_str())
            .scores(scores)
            .maybe("failure", failure.as_deref())
            .tally(tally)
            .raw("took_us", took_us)
            .end(),
        RunEvent::Notice { text } => line("notice").text("text", text).end(),
        RunEvent::RunFinished {
            cancelled,
            tally,
            took_us,
        } => line("run_finished")
            .raw("cancelled", cancelled)
            .tally(tally)
            .raw("took_us", took_us)
            .end(),
    }
}

fn step_line<'a>(line: &dyn Fn(&str) -> Line<'a>, what: &StepEvent) -> Line<'a> {
    match what {
        StepEvent::Deferred => line("step_deferred"),
        StepEvent::Hit { made_by, took_us } => line("step_hit")
            .text("made_by", made_by)
            .raw("took_us", took_us),
        StepEvent::Dirty { because } => line("step_dirty").texts("because", because),
        StepEvent::Started { attempt } => line("step_started").raw("attempt", attempt),
        StepEvent::Provisioned { resource, how } => line("step_provisioned")
            .text("resource_kind", resource_kind(resource.kind))
            .text("resource", &resource.name)
            .text("how", &how.to_string()),
        StepEvent::Finished {
            took_us,
            same_output,
        } => line("step_finished")
            .raw("took_us", took_us)
            .raw("same_output", same_output),
        StepEvent::Failed {
            error_type,
            error,
            fatal,
            took_us,
        } => line("step_failed")
            .text("error_type", error_type)
            .text("error", error)
            .raw("fatal", fatal)
            .raw("took_us", took_us),
        StepEvent::NotStored { why } => line("step_not_stored").text("why", why),
        StepEvent::RolledBack { failed, attempt } => line("step_rolled_back")
            .text("failed", failed.as_str())
            .raw("attempt", attempt),
        StepEvent::RetryRefused { why } => line("step_retry_refused").text("why", why),
        StepEvent::Aborted => line("step_aborted"),
        StepEvent::Skipped => line("step_skipped"),
    }
}

const RESOURCE_KINDS: [ResourceKind; 3] = [
    ResourceKind::Env,
    ResourceKind::Agent,
    ResourceKind::Sandbox,
];
const PROVISIONS: [Provision; 5] = [
    Provision::Reuse,
    Provision::Create,
    Provision::Restore,
    Provision::Replay,
    Provision::Rerun,
];

fn resource_kind(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Env => "env",
        ResourceKind::Agent => "agent",
        ResourceKind::Sandbox => "sandbox",
    }
}

/// Reads the line of an event: its `seq`, its `t_us` and the event, `None` where that is one that this version does not
/// know. `kind_of` gives the name of a step type the life that events need.
pub fn read_event_line(
    line: &str,
    kind_of: &mut dyn FnMut(&str) -> &'static str,
) -> Option<(u64, i64, Option<RunEvent>)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let seq = value.get("seq")?.as_u64()?;
    let t_us = value.get("t_us")?.as_i64()?;
    let name = value.get("event")?.as_str()?;
    let event = match name.strip_prefix("step_") {
        Some(name) => read_step(name, &value).map(|what| {
            let text = |key| text(&value, key).unwrap_or_default();
            RunEvent::Step {
                task: text("task"),
                step: StepId::new(&text("step")),
                kind: kind_of(&text("type")),
                what,
            }
        }),
        None => read_run(name, &value),
    };
    Some((seq, t_us, event))
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

fn read_run(name: &str, value: &Value) -> Option<RunEvent> {
    let text = |key| text(value, key);
    let count = |key| number(value, key).map(|n| n as usize);
    Some(match name {
        "run_started" => RunEvent::RunStarted {
            run: text("run")?,
            tasks: count("tasks")?,
        },
        "task_started" => RunEvent::TaskStarted {
            task: text("task")?,
            steps: count("steps")?,
        },
        "task_unchanged" => RunEvent::TaskUnchanged {
            task: text("task")?,
            steps: count("steps")?,
        },
        "task_finished" => RunEvent::TaskFinished {
            task: text("task")?,
            outcome: Outcome::from_words(&text("outcome")?)?,
            scores: read_scores(value),
            failure: text("failure"),
            tally: read_tally(value),
            took_us: number(value, "took_us")?,
        },
        "notice" => RunEvent::Notice {
            text: text("text")?,
        },
        "run_finished" => RunEvent::RunFinished {
            cancelled: value.get("cancelled")?.as_bool()?,
            tally: read_tally(value),
            took_us: number(value, "took_us")?,
        },
        _ => return None,
    })
}

fn read_step(name: &str, value: &Value) -> Option<StepEvent> {
    let text = |key| text(value, key);
    let number = |key| number(value, key);
    let attempt = || u32::try_from(number("attempt")?).ok();
    Some(match name {
        "deferred" => StepEvent::Deferred,
        "hit" => StepEvent::Hit {
            made_by: text("made_by")?,
            took_us: number("took_us")?,
        },
        "dirty" => {
            let because = value.get("because")?.as_array()?;
            let because = because
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            StepEvent::Dirty { because }
        }
        "started" => StepEvent::Started {
            attempt: attempt()?,
        },
        "provisioned" => {
            let (kind, how) = (text("resource_kind")?, text("how")?);
            StepEvent::Provisioned {
                resource: ResourceId {
                    kind: RESOURCE_KINDS
                        .into_iter()
                        .find(|one| resource_kind(*one) == kind)?,
                    name: text("resource")?,
                },
                how: PROVISIONS.into_iter().find(|one| one.to_string() == how)?,
            }
        }
        "finished" => StepEvent::Finished {
            took_us: number("took_us")?,
            same_output: value.get("same_output")?.as_bool()?,
        },
        "failed" => StepEvent::Failed {
            error_type: text("error_type")?,
            error: text("error")?,
            fatal: value.get("fatal")?.as_bool()?,
            took_us: number("took_us")?,
        },
        "not_stored" => StepEvent::NotStored { why: text("why")? },
        "rolled_back" => StepEvent::RolledBack {
            failed: StepId::new(&text("failed")?),
            attempt: attempt()?,
        },
        "retry_refused" => StepEvent::RetryRefused { why: text("why")? },
        "aborted" => StepEvent::Aborted,
        "skipped" => StepEvent::Skipped,
        _ => return None,
    })
}

fn read_scores(value: &Value) -> Vec<Score> {
    let scores = value.get("scores").and_then(Value::as_array);
    let each = scores.into_iter().flatten().filter_map(|score| {
        Some(Score {
            name: text(score, "name")?,
            score: score.get("score")?.as_f64()?,
            failed: score
                .get("failed")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|line| Some(line.as_str()?.to_owned()))
                .collect(),
        })
    });
    each.collect()
}

fn read_tally(value: &Value) -> Tally {
    let count = |key| number(value, key).unwrap_or_default();
    Tally {
        hit: count("hit"),
        ran: count("ran"),
        deferred: count("deferred"),
        failed: count("failed"),
        skipped: count("skipped"),
        saved_us: count("saved_us"),
        models: value.get("models").map(read_spent).unwrap_or_default(),
    }
}

fn read_spent(value: &Value) -> Spent {
    Spent {
        requests: number(value, "requests").unwrap_or_default(),
        retried: number(value, "retried").unwrap_or_default(),
        cached: number(value, "cached").unwrap_or_default(),
        input_tokens: number(value, "input_tokens"),
        output_tokens: number(value, "output_tokens"),
        micro_usd: number(value, "micro_usd"),
    }
}

/// Returns the text of `run.json`: the run's own members on a line, then each task on one of its own.
pub(super) fn run_file(run: &RunRecord, redactor: &Redactor) -> String {
    let object = |first: String| Line {
        text: first,
        redactor,
    };
    let mut text = object(format!("{{\"format\":{FORMAT_VERSION}"))
        .text("id", &run.id)
        .texts("command", &run.command)
        .text("status", run.status.as_str())
        .text("started", &timestamp(run.started_us))
        .raw("started_us", run.started_us)
        .maybe("ended", run.ended_us.map(timestamp).as_deref())
        .maybe_raw("ended_us", run.ended_us)
        .tally(&run.tally)
        .text;
    text.push_str(",\"tasks\":[");
    for (at, task) in run.tasks.iter().enumerate() {
        text.push_str(if at > 0 { ",\n" } else { "\n" });
        text = object(text + "{\"unchanged\":" + if task.unchanged { "true" } else { "false" })
            .text("task", &task.task)
            .text("outcome", task.outcome.as_str())
            .scores(&task.scores)
            .maybe("failure", task.failure.as_deref())
            .tally(&task.tally)
            .text;
        text.push('}');
    }
    text.push_str("\n]}\n");
    text
}

/// Returns a value as indented JSON text.
pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Reads `run.json`; the error is the version of the format where that is not known.
pub(super) fn read_run_file(text_of_file: &str) -> Result<Option<RunRecord>, u64> {
    let Ok(value) = serde_json::from_str::<Value>(text_of_file) else {
        return Ok(None);
    };
    match number(&value, "format") {
        Some(format) if format == u64::from(FORMAT_VERSION) => {}
        Some(format) => return Err(format),
        None => return Ok(None),
    }
    let whole = |key: &str| value.get(key).and_then(Value::as_i64);
    let words = value
        .get("command")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let tasks = value
        .get("tasks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let read = || {
        Some(RunRecord {
            id: text(&value, "id")?,
            command: words.filter_map(Value::as_str).map(str::to_owned).collect(),
            status: Status::from_word(&text(&value, "status")?)?,
            started_us: whole("started_us")?,
            ended_us: whole("ended_us"),
            tally: read_tally(&value),
            tasks: tasks.map(read_task).collect::<Option<_>>()?,
        })
    };
    Ok(read())
}

fn read_task(value: &Value) -> Option<TaskRecord> {
    Some(TaskRecord {
        task: text(value, "task")?,
        outcome: Outcome::from_words(&text(value, "outcome")?)?,
        scores: read_scores(value),
        failure: text(value, "failure"),
        tally: read_tally(value),
        unchanged: value.get("unchanged")?.as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_comes_back() {
        let event = RunEvent::Notice {
            text: "a\u{1b}[31m\u{9b}\u{202e}\u{e0041}\"".to_owned(),
        };
        let line = event_line(1, 2, &event, &Redactor::default());
        assert!(
            line.trim_end()
                .chars()
                .all(|c| c.is_ascii_graphic() || c == ' '),
            "{line}"
        );
        let read = read_event_line(&line, &mut |_| "");
        assert_eq!(read, Some((1, 2, Some(event))));
    }

    #[test]
    fn events_and_members_of_later_versions_are_passed_over() {
        let mut kind_of = |_: &str| "";
        let unknown = r#"{"seq":1,"t_us":2,"event":"step_dreamt","dream":{}}"#;
        assert_eq!(read_event_line(unknown, &mut kind_of), Some((1, 2, None)));
        let more = r#"{"seq":1,"t_us":2,"event":"notice","text":"x","tone":"soft"}"#;
        let event = RunEvent::Notice {
            text: "x".to_owned(),
        };
        assert_eq!(
            read_event_line(more, &mut kind_of),
            Some((1, 2, Some(event)))
        );
    }
}
