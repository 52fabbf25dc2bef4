//! How a command says that it could not do its work.

use super::{ExitStatus, Printer, SessionError};
use crate::diagnostic::narrated::narrated;
use crate::diagnostic::render::{Style, full};
use crate::diagnostic::{Diagnostic, Severity};
use crate::report::{Paint, count};

/// Shows an error on standard error and returns the exit status that goes with it.
pub(super) fn show(error: &SessionError, printer: &mut Printer) -> ExitStatus {
    match error {
        SessionError::Faults(faults) => {
            diagnostics(faults, printer);
            let text = format!("{}; nothing was run\n", counted(faults));
            printer.err(&text);
            ExitStatus::Failed
        }
        SessionError::Usage { message, help } => {
            one(message, help.as_deref(), printer);
            ExitStatus::Usage
        }
        SessionError::World(message) => {
            one(message, None, printer);
            ExitStatus::Usage
        }
    }
}

fn one(message: &str, help: Option<&str>, printer: &mut Printer) {
    let error = printer.paint_err(Paint::Bad, "error");
    let mut text = format!("{error}: {}\n", printer.safe(message));
    if let Some(help) = help {
        text.push_str(&format!("  help: {}\n", printer.safe(help)));
    }
    printer.err(&text);
}

/// Shows diagnostics in full on standard error.
pub(super) fn diagnostics(all: &[Diagnostic], printer: &mut Printer) {
    if !all.is_empty() {
        let style = Style {
            color: printer.err_color,
            width: printer.width,
        };
        let text = match printer.is_narrated {
            true => narrated(all),
            false => full(all, style),
        };
        printer.err(&text);
    }
}

/// Returns how many there are of each severity: `2 errors, 1 warning`.
pub(super) fn counted(all: &[Diagnostic]) -> String {
    let of = |severity| all.iter().filter(|one| one.severity == severity).count() as u64;
    let mut parts = Vec::new();
    let nouns = [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Hint, "hint"),
    ];
    for (severity, noun) in nouns {
        if of(severity) > 0 {
            parts.push(count(of(severity), noun));
        }
    }
    if parts.is_empty() {
        "no faults".to_owned()
    } else {
        parts.join(", ")
    }
}

/// Returns a usage error.
pub(super) fn usage(message: impl Into<String>, help: Option<String>) -> SessionError {
    SessionError::Usage {
        message: message.into(),
        help,
    }
}
