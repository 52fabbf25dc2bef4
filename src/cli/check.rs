//! `aebuild check`: look for faults.

use super::mend::{self, Wanted};
use super::select::Selection;
use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::concise::concise;
use crate::diagnostic::github::github;
use crate::diagnostic::json::json;
use crate::diagnostic::narrated::narrated;
use crate::diagnostic::render::{Style, full};
use crate::diagnostic::sarif::sarif;
use crate::diagnostic::{Diagnostic, Fix, Safety, Severity, did_you_mean, sort};
use crate::report::Paint;
use crate::session::codes;

/// Look for faults in what the author wrote, and run nothing
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Show the faults in this form [default: full, or narrated where NO_GRAPHICS is set]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Exit with status 1 on faults of this level or code: `warnings`, `hints` (and warnings), or a code such as
    /// `unordered-observer`; may be given several times
    #[arg(long, value_name = "WHAT")]
    deny: Vec<String>,
    /// Write what mends the faults into the files
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "sure",
        value_name = "WHICH"
    )]
    fix: Option<Wanted>,
    /// Show what `--fix` would change, and change nothing
    #[arg(long)]
    diff: bool,
}

/// What is denied.
struct Denied(Vec<String>);

impl Denied {
    /// Refuses what is neither a level nor a code.
    fn new(names: Vec<String>) -> Result<Denied, SessionError> {
        let levels = ["warnings", "hints"];
        let known = || levels.into_iter().chain(codes().map(|(code, _)| code));
        let is_unknown = |name: &&String| known().all(|other| other != *name);
        match names.iter().find(is_unknown) {
            Some(name) => Err(fault::usage(
                format!("`--deny {name}` names neither `warnings` nor `hints` nor a code"),
                did_you_mean(name, known()),
            )),
            None => Ok(Denied(names)),
        }
    }

    fn holds(&self, found: &Diagnostic) -> bool {
        let mut names = self.0.iter();
        names.any(|name| match name.as_str() {
            "warnings" => found.severity <= Severity::Warning,
            "hints" => true,
            code => found.code.as_str() == code,
        })
    }
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// With the lines in question, for people
    Full,
    /// In sentences, for screen readers
    Narrated,
    /// One line a fault, for editors and grep
    Concise,
    /// One JSON object a line, for programs
    Json,
    /// Workflow commands, shown by GitHub beside the changed lines
    Github,
    /// One SARIF 2.1.0 log, for code scanning
    Sarif,
}

/// Runs the command.
pub(super) fn run(mut args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let denied = Denied::new(std::mem::take(&mut args.deny))?;
    let options = args.selection.options();
    let paths = args.selection.paths;
    let mut check = |face: &mut Face| {
        let session = face.open(paths.clone(), true);
        let found = session.and_then(|mut session| session.check(&options));
        let mut found: Vec<Diagnostic> = match found {
            Err(SessionError::Faults(faults)) => faults,
            other => other?,
        };
        sort(&mut found);
        Ok(found)
    };
    let wanted = args.fix.or(args.diff.then_some(Wanted::Sure));
    let (found, would_change) = match wanted {
        None => (check(face)?, false),
        Some(wanted) => {
            let outcome = mend::run(wanted, args.diff, face, &mut check)?;
            (outcome.found, outcome.has_changed && args.diff)
        }
    };
    let is_denied = |one: &&Diagnostic| !one.is_error() && denied.holds(one);
    let n_denied = found.iter().filter(is_denied).count();
    show(&found, n_denied, args.format, face);
    let has_errors = found.iter().any(Diagnostic::is_error);
    Ok(match has_errors || n_denied > 0 || would_change {
        true => ExitStatus::Failed,
        false => ExitStatus::Passed,
    })
}

fn show(found: &[Diagnostic], n_denied: usize, format: Option<Format>, face: &mut Face) {
    let style = Style {
        color: face.printer.out_color,
        width: face.printer.width,
    };
    let format = format.unwrap_or(match face.printer.is_narrated {
        true => Format::Narrated,
        false => Format::Full,
    });
    let text = match format {
        Format::Narrated => narrated(found),
        Format::Sarif => sarif(found),
        Format::Full => full(found, style),
        Format::Concise => concise(found),
        Format::Json => json(found),
        Format::Github => github(found),
    };
    face.printer.out(&text);
    let text = match n_denied {
        0 => format!("{}\n", fault::counted(found)),
        n => format!("{}; {n} denied\n", fault::counted(found)),
    };
    face.printer.err(&text);
    let is_full = matches!(format, Format::Full | Format::Narrated);
    if let (true, Some(first)) = (is_full && face.printer.can_redraw, found.first()) {
        let mut text = format!("what a code means: `aebuild explain-code {}`\n", first.code);
        let is_sure = |fix: &Fix| fix.safety == Safety::Sure;
        let n_sure = found.iter().filter(|one| one.fixes.iter().any(is_sure));
        match n_sure.count() {
            0 => {}
            n => text.push_str(&format!("{n} can be mended by `aebuild check --fix`\n")),
        }
        let text = face.printer.paint_err(Paint::Dim, &text);
        face.printer.err(&text);
    }
}
