//! `aebuild env`: serve an env that is compiled in.

use super::signals::Signals;
use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::did_you_mean;
use crate::session::{Served, builtin_envs};

/// Serve an env that is compiled in, over HTTP on 127.0.0.1, until Ctrl-C
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The env; all are listed where it is left out
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The port; one that is free where it is left out
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// Runs the command.
pub(super) fn run(args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let Some(name) = args.name else {
        let names: String = builtin_envs()
            .iter()
            .map(|name| format!("{name}\n"))
            .collect();
        face.printer.out(&names);
        return Ok(ExitStatus::Passed);
    };
    if !builtin_envs().contains(&name.as_str()) {
        let help = did_you_mean(&name, builtin_envs())
            .unwrap_or_else(|| "list them: `aebuild env`".to_owned());
        let message = format!("no env `{name}` is compiled in");
        return Err(fault::usage(message, Some(help)));
    }
    let mut signals = Signals::listen()
        .map_err(|error| SessionError::World(format!("signals cannot be heard: {error}")))?;
    let served = Served::env(&name, args.port, face.system.clone())?;
    face.printer.out(&format!("{}/mcp\n", served.url()));
    face.printer.flush();
    face.printer.err("Serving until Ctrl-C\n");
    signals.wait();
    served.stop();
    Ok(ExitStatus::Passed)
}
