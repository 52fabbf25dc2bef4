//! The `aebuild` command.

use std::process::ExitCode;
use std::sync::Arc;

use aebuild::system::OsSystem;
use aebuild::{cli, steps};

/// Reading and checking makes many small things on all processors at once, at which the allocator of the system is slow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main(Arc::new(OsSystem), steps::REGISTRY).into()
}
