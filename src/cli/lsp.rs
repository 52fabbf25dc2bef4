//! `aebuild lsp`: serve an editor.

use super::{ExitStatus, Face, SessionError};
use crate::lsp::{Setting, serve_stdio};

/// Serve an editor over standard input and output: faults as you type, completion, hover, names
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Speak over standard input and output, as is done anyway; some editors give it
    #[arg(long)]
    stdio: bool,
}

/// Runs the command.
pub(super) fn run(_: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let setting = Setting {
        system: face.system.clone(),
        registry: face.registry,
        cache_dir: face.cache_dir.clone(),
    };
    match serve_stdio(setting) {
        Ok(true) => Ok(ExitStatus::Passed),
        // The protocol asks for it where the editor goes without saying so.
        Ok(false) => Ok(ExitStatus::Failed),
        Err(error) => Err(SessionError::World(format!(
            "no thread can be started: {error}"
        ))),
    }
}
