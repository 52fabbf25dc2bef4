//! `aebuild agent`: serve a scripted agent.

use std::path::Path;

use super::signals::Signals;
use super::{ExitStatus, Face, SessionError};
use crate::session::{LoneAgent, Served};

/// Serve a scripted agent over A2A, on 127.0.0.1, until Ctrl-C
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// An agent of the task folder that is the current folder; or the folder of an agent, as a path with a slash or a dot
    #[arg(value_name = "AGENT")]
    agent: String,
    /// The port; one that is free where it is left out
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// Runs the command.
pub(super) fn run(args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let is_path = args.agent.contains('/') || args.agent.starts_with('.');
    let agent = if is_path {
        LoneAgent::of_folder(&*face.system, Path::new(&args.agent))?
    } else {
        face.open(Vec::new(), true)?.lone_agent(&args.agent)?
    };
    let mut signals = Signals::listen()
        .map_err(|error| SessionError::World(format!("signals cannot be heard: {error}")))?;
    let served = Served::agent(agent, args.port, face.system.clone())?;
    face.printer.out(&format!("{}\n", served.url()));
    face.printer.flush();
    face.printer.err("Serving until Ctrl-C\n");
    signals.wait();
    served.stop();
    Ok(ExitStatus::Passed)
}
