//! The `aebuild` command.

use std::process::ExitCode;
use std::sync::Arc;

use aebuild::system::OsSystem;
use aebuild::{cli, steps};

fn main() -> ExitCode {
    cli::main(Arc::new(OsSystem), steps::REGISTRY).into()
}
