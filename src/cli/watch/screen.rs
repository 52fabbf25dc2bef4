//! What is shown of a watch: what changed, what is dirty and why, progress, verdict.

use super::super::teller::{Teller, verdict};
use super::super::{ExitStatus, Face, ProgressKind, SessionError, explain, fault, show};
use super::keys::{Keyboard, LEGEND, SHORT_LEGEND, Typed};
use crate::diagnostic::{self, Diagnostic};
use crate::event::{RunEvent, StepEvent};
use crate::json::{Value, json};
use crate::record;
use crate::report::{Paint, count, seconds};
use crate::session::{RunOptions, RunSummary, Session, Told, Wish};
use crate::system::terminal;
use crate::watch::{Ask, Moment, Question, Screen, Watching};

/// The most files, and the most dirty steps, that are named.
const MAX_NAMED: usize = 20;

/// The lines of a terminal that does not tell.
const LINES: u16 = 24;

/// Shows a watch on the terminal, or writes it as lines of JSON.
pub(super) struct Terminal<'a> {
    face: &'a mut Face,
    /// `None` where nobody types.
    keys: Option<terminal::Keys>,
    keyboard: Keyboard,
    is_json: bool,
    clears: bool,
    teller: Option<Teller>,
    began_us: i64,
    revision: u64,
    n_dirty: usize,
    /// The last verdict, and the revision that it is of.
    verdict: Option<(u64, String)>,
    /// What is watched, where a line at the bottom says so.
    status: Option<Watching>,
    /// What was watched last.
    last_status: Watching,
}

impl<'a> Terminal<'a> {
    /// Returns one that has shown nothing.
    pub(super) fn new(
        face: &'a mut Face,
        keys: Option<terminal::Keys>,
        is_json: bool,
        clears: bool,
    ) -> Self {
        Terminal {
            clears: clears && face.printer.can_redraw && !is_json,
            face,
            keys,
            keyboard: Keyboard::default(),
            is_json,
            teller: None,
            began_us: 0,
            revision: 0,
            n_dirty: 0,
            verdict: None,
            status: None,
            last_status: Watching::default(),
        }
    }

    fn say(&mut self, text: &str) {
        self.take_status_away();
        self.face.printer.err(text);
    }

    fn json(&mut self, line: &Value) {
        self.json_line(&line.to_string());
    }

    fn json_line(&mut self, line: &str) {
        let line = self.face.printer.redactor.text(line).into_owned();
        self.face.printer.out(&format!("{line}\n"));
        self.face.printer.flush();
    }

    /// Shows the line at the bottom.
    fn show_status(&mut self) {
        let Some(status) = self.status.clone() else {
            return;
        };
        if self.keys.is_none() {
            let line = self.status_line(&status, usize::MAX);
            let line = self.face.printer.paint_err(Paint::Dim, &line);
            return self.face.printer.err(&format!("{line}\n"));
        }
        let columns = terminal::columns().map_or(usize::MAX, usize::from);
        // A line that fills the last column takes another one on some terminals.
        let columns = columns.saturating_sub(1);
        let line = match self.keyboard.typed() {
            Some(typed) => {
                let typed = self.face.printer.safe_line(&typed).into_owned();
                last_columns(&typed, columns).to_owned()
            }
            None => {
                let line = self.status_line(&status, columns);
                self.face.printer.paint_err(Paint::Dim, &line)
            }
        };
        self.face.printer.err(&format!("\r\u{1b}[K{line}"));
    }

    /// Returns the line at the bottom, with as much of it as fits.
    fn status_line(&self, watching: &Watching, columns: usize) -> String {
        let Watching {
            files,
            folders,
            polls,
            filter,
        } = watching;
        let files = format!("watching {}", count(*files as u64, "file"));
        let (mut long, mut short) = match polls {
            Some(every) => {
                let every = seconds(every.as_micros() as u64);
                (format!("{files}, looked at every {every}"), files)
            }
            None => (
                format!("{files} in {}", count(*folders as u64, "folder")),
                files,
            ),
        };
        if let Some(filter) = filter {
            let filter = self.face.printer.safe_line(filter);
            long.push_str(&format!(" · tasks with `{filter}`"));
            short.push_str(&format!(" · `{filter}`"));
        }
        if self.keys.is_none() {
            return long;
        }
        let mut all = vec![
            format!("{long} · {LEGEND}"),
            format!("{short} · {LEGEND}"),
            format!("{long} · {SHORT_LEGEND}"),
            format!("{short} · {SHORT_LEGEND}"),
            short,
        ];
        let fits = |line: &String| columns_of(line) <= columns;
        let at = all.iter().position(fits).unwrap_or(all.len() - 1);
        let line = all.swap_remove(at);
        first_columns(&line, columns).to_owned()
    }

    fn take_status_away(&mut self) {
        if self.status.take().is_some() && self.keys.is_some() {
            self.face.printer.err("\r\u{1b}[K");
        }
    }

    /// Pushes what was shown up out of sight, where scrolling back finds it.
    fn clear(&mut self) {
        if self.clears {
            let lines = terminal::lines().unwrap_or(LINES);
            let text = format!("{}\u{1b}[H\u{1b}[J", "\n".repeat(lines.into()));
            self.say(&text);
        }
    }

    fn changed(&mut self, files: &[String]) {
        if self.is_json {
            return self.json(&json!({"event": "changed", "files": files}));
        }
        self.clear();
        let named: Vec<String> = files
            .iter()
            .take(MAX_NAMED)
            .map(|file| self.face.printer.safe_line(file).into_owned())
            .collect();
        let mut text = match named.is_empty() {
            true => "changed: which files there are".to_owned(),
            false => format!("changed: {}", named.join(", ")),
        };
        if files.len() > MAX_NAMED {
            text.push_str(&format!(" and {} more", files.len() - MAX_NAMED));
        }
        let text = self.face.printer.paint_err(Paint::Bold, &text);
        self.say(&format!("{text}\n"));
    }

    fn began(&mut self, revision: u64, session: Option<&mut Session>) {
        self.take_status_away();
        self.face.printer.measure();
        self.revision = revision;
        self.n_dirty = 0;
        self.began_us = self.face.system.now_us();
        if self.is_json {
            self.json(&json!({"event": "began", "revision": revision}));
        }
        let kind = match self.is_json {
            true => ProgressKind::Json,
            false => ProgressKind::Text,
        };
        if let Some(session) = session {
            let values = session.secrets();
            self.face.printer.redactor = record::Redactor::new(values.iter().map(String::as_str));
            self.teller = Some(Teller::new(session, kind, self.began_us, self.face));
        }
    }

    fn told(&mut self, told: Told) {
        let Some(teller) = &mut self.teller else {
            return;
        };
        // Where lines are shown, the line of a step that starts says why.
        if !self.is_json
            && self.face.printer.can_redraw
            && let Told::Event(RunEvent::Step { step, what, .. }) = &told
            && let StepEvent::Dirty { because } = what
        {
            self.n_dirty += 1;
            let printer = &self.face.printer;
            let dirty = printer.paint_err(Paint::Fair, "dirty");
            let step = printer.safe_line(step.as_str());
            let because = because.join("; ");
            let line = format!("{dirty} {step}: {}\n", printer.safe_line(&because));
            match self.n_dirty.cmp(&MAX_NAMED) {
                std::cmp::Ordering::Less => teller.print(&line, self.face),
                std::cmp::Ordering::Equal => teller.print("dirty: more steps\n", self.face),
                std::cmp::Ordering::Greater => {}
            }
        }
        teller.tell(told, self.face);
    }

    fn ran(&mut self, run: &mut RunSummary, session: Option<&mut Session>) {
        let ended = self.teller.take().map(Teller::end);
        if self.is_json {
            if !run.warnings.is_empty() {
                let faults = faults_json(&run.warnings);
                self.json_line(&format!("{{\"event\":\"warnings\",\"faults\":{faults}}}"));
            }
        } else {
            fault::diagnostics(&run.warnings, &mut self.face.printer);
            let now_us = self.face.system.now_us();
            let took_us = now_us.saturating_sub(self.began_us).max(0) as u64;
            let text = verdict(run, Some(took_us), &self.face.printer);
            self.face.printer.out(&text);
            self.face.printer.flush();
            // What was cut short says less than what was there before.
            let is_whole = |outcome| outcome != crate::event::Outcome::Cancelled;
            if run.tasks.iter().all(|task| is_whole(task.outcome)) {
                self.verdict = Some((self.revision, text));
            }
        }
        if let (Some(ended), Some(session)) = (ended, session) {
            ended.record(run, session, self.face);
        }
    }

    fn refused(&mut self, error: &SessionError) {
        self.teller = None;
        if self.is_json {
            let faults = match error {
                SessionError::Faults(faults) => faults_json(faults),
                _ => "[]".to_owned(),
            };
            let why = json!(error.to_string());
            let line = format!("{{\"event\":\"refused\",\"faults\":{faults},\"why\":{why}}}");
            return self.json_line(&line);
        }
        let _: ExitStatus = fault::show(error, &mut self.face.printer);
        if let Some((revision, text)) = self.verdict.clone() {
            let ago = match self.revision.saturating_sub(revision) {
                1 => "1 revision ago".to_owned(),
                n => format!("{n} revisions ago"),
            };
            let text = text.trim_end().replace('\n', "\n  ");
            self.face
                .printer
                .err(&format!("last verdict, {ago}:\n  {text}\n"));
        }
    }

    fn idle(&mut self, watching: &Watching) {
        let Watching {
            files,
            folders,
            polls,
            filter,
        } = watching;
        if self.is_json {
            let polls = polls.map(|every| every.as_secs_f64());
            let line = json!({
                "event": "watching",
                "revision": self.revision,
                "files": files,
                "folders": folders,
                "polls": polls,
                "filter": filter,
            });
            return self.json(&line);
        }
        self.last_status.clone_from(watching);
        self.status = Some(watching.clone());
        self.show_status();
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // The shell begins its prompt there.
        self.take_status_away();
    }
}

/// Returns how many columns a character takes at most.
fn columns_of_char(letter: char) -> usize {
    match letter {
        '\0'..'\u{1100}' => 1,
        _ => 2,
    }
}

fn columns_of(text: &str) -> usize {
    text.chars().map(columns_of_char).sum()
}

/// Returns as much of the beginning of a text as fits.
fn first_columns(text: &str, columns: usize) -> &str {
    let mut left = columns;
    let end = text.char_indices().find(|(_, letter)| {
        let fits = columns_of_char(*letter) <= left;
        left = left.saturating_sub(columns_of_char(*letter));
        !fits
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// Returns as much of the end of a text as fits.
fn last_columns(text: &str, columns: usize) -> &str {
    let mut left = columns;
    let start = text.char_indices().rev().find(|(_, letter)| {
        let fits = columns_of_char(*letter) <= left;
        left = left.saturating_sub(columns_of_char(*letter));
        !fits
    });
    start.map_or(text, |(start, letter)| &text[start + letter.len_utf8()..])
}

/// Returns diagnostics as a JSON array.
fn faults_json(faults: &[Diagnostic]) -> String {
    let lines = diagnostic::json::json(faults);
    let lines: Vec<&str> = lines.lines().collect();
    format!("[{}]", lines.join(","))
}

impl Screen for Terminal<'_> {
    fn moment(&mut self, moment: Moment<'_>, session: Option<&mut Session>) {
        match moment {
            Moment::Notice(text) if self.is_json => {
                self.json(&json!({"event": "notice", "text": text}));
            }
            Moment::Notice(text) => {
                let status = self.status.clone();
                let text = format!("notice: {}\n", self.face.printer.safe_line(text));
                match &self.teller {
                    Some(teller) => teller.print(&text, self.face),
                    None => self.say(&text),
                }
                self.status = status;
                if self.keys.is_some() {
                    self.show_status();
                }
            }
            Moment::Unchanged => {}
            Moment::Changed(files) => self.changed(files),
            Moment::Began(revision) => self.began(revision, session),
            Moment::Told(told) => self.told(told),
            Moment::Cut if self.is_json => self.json(&json!({"event": "cut"})),
            Moment::Cut => {
                let text = "changed meanwhile: what is dirty by now stops\n";
                if let Some(teller) = &self.teller {
                    teller.print(text, self.face);
                }
            }
            Moment::Ending(wish) => {
                let text = match wish {
                    Wish::StopNow => "stopping now\n",
                    _ => "ending what runs (again to stop now)\n",
                };
                match &self.teller {
                    Some(teller) => teller.print(text, self.face),
                    None => self.face.printer.err(text),
                }
            }
            Moment::Ran(run) => self.ran(run, session),
            Moment::Refused(error) => self.refused(error),
            Moment::Held(paths) if self.is_json => {
                self.json(&json!({"event": "held", "paths": paths}));
            }
            Moment::Held(paths) => {
                let named: Vec<String> = paths
                    .iter()
                    .take(MAX_NAMED)
                    .map(|path| self.face.printer.safe_line(path).into_owned())
                    .collect();
                let bad = self.face.printer.paint_err(Paint::Bad, "held");
                let text = format!(
                    "{bad}: each of the last runs changed what it depends on, so no other begins by itself: {}\n  \
                     help: let no step write there; press r or save a file to run again\n",
                    named.join(", ")
                );
                self.say(&text);
                self.status = Some(self.last_status.clone());
                self.show_status();
            }
            Moment::Idle(watching) => self.idle(watching),
            Moment::Continued => {
                if let Some(keys) = &self.keys {
                    // A terminal that is gone shows nothing either.
                    let _ = keys.again();
                    self.show_status();
                }
            }
        }
    }

    fn key(&mut self, key: u8) -> Option<Ask> {
        match self.keyboard.key(key) {
            Typed::Nothing => None,
            // While a run goes on the line is its.
            Typed::Line(_) if self.teller.is_some() => None,
            Typed::Line(_) => {
                self.status.get_or_insert_with(|| self.last_status.clone());
                self.show_status();
                None
            }
            Typed::Closed => {
                self.show_status();
                None
            }
            Typed::Asked(ask) => {
                if self.teller.is_none() && matches!(ask, Ask::Rerun | Ask::Fresh | Ask::Filter(_))
                {
                    self.clear();
                }
                if ask == Ask::Quit && self.teller.is_none() {
                    self.take_status_away();
                }
                Some(ask)
            }
        }
    }

    fn answer(&mut self, question: &Question, session: &mut Session, options: &RunOptions) {
        let status = self.status.clone();
        self.take_status_away();
        if let Err(error) = self.found(question, session, options) {
            let _: ExitStatus = fault::show(&error, &mut self.face.printer);
        }
        self.face.printer.flush();
        self.status = status;
        self.show_status();
    }
}

impl Terminal<'_> {
    fn found(
        &mut self,
        question: &Question,
        session: &mut Session,
        options: &RunOptions,
    ) -> Result<(), SessionError> {
        match question {
            Question::Explain(step) => {
                let found = session.explain(options, step)?;
                if found.is_empty() {
                    let message = format!("no selected task has a step `{step}`");
                    return Err(fault::usage(message, None));
                }
                for one in &found {
                    let text = explain::explanation(one, &self.face.printer);
                    self.face.printer.out(&text);
                }
            }
            Question::Log(step) => {
                let workspace = session.workspace().to_owned();
                let id = record::find(&workspace, None).map_err(show::not_found)?;
                let run = record::run(&workspace, &id).map_err(show::not_found)?;
                show::log(&workspace, &run, step, true, self.face)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_wide_is_cut_at_either_end() {
        for (text, columns, first, last) in [
            ("", 0, "", ""),
            ("abc", 3, "abc", "abc"),
            ("abc", 2, "ab", "bc"),
            ("a·c", 2, "a·", "·c"),
            ("a漢字", 4, "a漢", "漢字"),
            ("漢字", 3, "漢", "字"),
            ("abc", 0, "", ""),
        ] {
            assert_eq!(first_columns(text, columns), first, "{text} {columns}");
            assert_eq!(last_columns(text, columns), last, "{text} {columns}");
        }
    }
}
