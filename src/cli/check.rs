//! `aebuild check`: look for faults.

use super::select::Selection;
use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::concise::concise;
use crate::diagnostic::github::github;
use crate::diagnostic::json::json;
use crate::diagnostic::render::{Style, full};
use crate::diagnostic::{Diagnostic, sort};

/// Look for faults in what the author wrote, and run nothing
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Show the faults in this form
    #[arg(long, value_enum, default_value_t = Format::Full)]
    format: Format,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// With the lines in question, for people
    Full,
    /// One line a fault, for editors and grep
    Concise,
    /// One JSON object a line, for programs
    Json,
    /// Workflow commands, shown by GitHub beside the changed lines
    Github,
}

/// Runs the command.
pub(super) fn run(mut args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let options = args.selection.options();
    let found = face
        .open(args.selection.paths, true)
        .and_then(|mut session| session.check(&options));
    let mut found: Vec<Diagnostic> = match found {
        Err(SessionError::Faults(faults)) => faults,
        other => other?,
    };
    sort(&mut found);
    let style = Style {
        color: face.printer.out_color,
        width: face.printer.width,
    };
    let text = match args.format {
        Format::Full => full(&found, style),
        Format::Concise => concise(&found),
        Format::Json => json(&found),
        Format::Github => github(&found),
    };
    face.printer.out(&text);
    let text = format!("{}\n", fault::counted(&found));
    face.printer.err(&text);
    let has_errors = found.iter().any(Diagnostic::is_error);
    Ok(if has_errors {
        ExitStatus::Failed
    } else {
        ExitStatus::Passed
    })
}
