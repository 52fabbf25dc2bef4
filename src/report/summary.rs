//! The summary at the end of a run.

use super::printer::{Paint, Printer};
use super::words;
use crate::event::{Outcome, Score, Tally};

/// The most scores of a task that are listed one by one.
const MAX_SCORES: usize = 8;

/// What the summary says of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskLine<'a> {
    /// The task, as shown.
    pub task: &'a str,
    /// How it ended.
    pub outcome: Outcome,
    /// Its scores.
    pub scores: &'a [Score],
    /// Why it failed.
    pub failure: Option<&'a str>,
}

/// Returns a line a task, the number of each outcome where there are several tasks, and what was counted.
pub fn summary(
    tasks: &[TaskLine<'_>],
    tally: &Tally,
    took_us: Option<u64>,
    printer: &Printer,
) -> String {
    let mut text = String::new();
    for task in tasks {
        text.push_str(&task_line(task, printer));
    }
    if tasks.len() > 1 {
        text.push_str(&format!("{}\n", outcomes(tasks)));
    }
    text.push_str(&words::counts(tally));
    if let Some(took_us) = took_us {
        text.push_str(&format!(" in {}", words::seconds(took_us)));
    }
    text.push('\n');
    if let Some(spent) = tally.models.words() {
        text.push_str(&format!("models: {spent}\n"));
    }
    text
}

fn task_line(task: &TaskLine<'_>, printer: &Printer) -> String {
    let paint = match task.outcome {
        Outcome::Passed => Paint::Good,
        Outcome::Unscored => Paint::Bold,
        Outcome::ScoredBelowOne | Outcome::Cancelled => Paint::Fair,
        Outcome::Failed => Paint::Bad,
    };
    let outcome = printer.paint_out(paint, task.outcome.as_str());
    let mut line = format!("{}: {outcome}", printer.safe_line(task.task));
    if !task.scores.is_empty() {
        line.push_str(&format!(" ({})", scores(task.scores, printer)));
    }
    if let Some(failure) = task.failure {
        let safe = printer.safe(failure.trim_end());
        let mut lines = safe.lines();
        let first = lines.next().unwrap_or_default();
        match first.strip_prefix("failed at ") {
            Some(place) => line.push_str(&format!(" at {place}")),
            None => line.push_str(&format!(": {first}")),
        }
        for more in lines {
            line.push_str(&format!("\n    {more}"));
        }
    }
    line.push('\n');
    for score in task.scores {
        for row in &score.failed {
            let (name, row) = (printer.safe_line(&score.name), printer.safe(row));
            line.push_str(&format!(
                "    {name}: {}\n",
                row.replace('\n', "\n        ")
            ));
        }
    }
    line
}

/// Lists scores; of many only those below 1.
fn scores(all: &[Score], printer: &Printer) -> String {
    let name = |score: &&Score| {
        format!(
            "{}: {}",
            printer.safe_line(&score.name),
            words::score(score.score)
        )
    };
    if all.len() <= MAX_SCORES {
        let each: Vec<String> = all.iter().map(|score| name(&score)).collect();
        return each.join(", ");
    }
    let low: Vec<&Score> = all.iter().filter(|score| score.score < 1.0).collect();
    let mut parts = vec![match low.len() {
        0 => format!("{} scores, none below 1", all.len()),
        n => format!("{} scores, {n} below 1", all.len()),
    }];
    parts.extend(low.iter().take(MAX_SCORES).map(name));
    if low.len() > MAX_SCORES {
        parts.push("…".to_owned());
    }
    parts.join(", ")
}

fn outcomes(tasks: &[TaskLine<'_>]) -> String {
    let all = [
        Outcome::Passed,
        Outcome::ScoredBelowOne,
        Outcome::Unscored,
        Outcome::Failed,
        Outcome::Cancelled,
    ];
    let each = all.into_iter().filter_map(|outcome| {
        let n = tasks.iter().filter(|task| task.outcome == outcome).count();
        (n > 0).then(|| format!("{n} {}", outcome.as_str()))
    });
    format!(
        "{}: {}",
        words::count(tasks.len() as u64, "task"),
        each.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_task_is_a_line_and_untrusted_text_is_shown_as_text() {
        let printer = Printer::to(Box::new(std::io::sink()), Box::new(std::io::sink()));
        let scores = [Score {
            name: "check".to_owned(),
            score: 0.5,
            failed: vec!["sent: it is 0,\nnot 1".to_owned()],
        }];
        let line = |task, outcome, scores, failure| TaskLine {
            task,
            outcome,
            scores,
            failure,
        };
        let tasks = [
            line("tasks/a.json", Outcome::ScoredBelowOne, &scores[..], None),
            line(
                "tasks/b.json",
                Outcome::Failed,
                &[],
                Some("failed at step `x`: boom\u{1b}[2J\n::error::y"),
            ),
            line("tasks/c.json", Outcome::Unscored, &[], None),
        ];
        let tally = Tally {
            ran: 2,
            failed: 1,
            ..Tally::default()
        };
        expect![[r#"
            tasks/a.json: scored below 1 (check: 0.5)
                check: sent: it is 0,
                    not 1
            tasks/b.json: failed at step `x`: boom\u{1b}[2J
                \u{3a}:error::y
            tasks/c.json: unscored
            3 tasks: 1 scored below 1, 1 unscored, 1 failed
            2 ran (1 failed) in 0.3 s
        "#]]
        .assert_eq(&summary(&tasks, &tally, Some(300_000), &printer));
    }
}
