//! What the exit status says.

/// The exit status of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ExitStatus {
    /// It was done, and no step, check or score stands against it.
    Passed = 0,
    /// A step or check failed, a score is below `--min-score`, or what the author wrote has faults.
    Failed = 1,
    /// The command line makes no sense, or the work could not start.
    Usage = 2,
    /// The cache is damaged beyond what it can repair itself.
    Damaged = 3,
    /// aebuild has a bug. (Rust's own status of a panic.)
    Bug = 101,
    /// SIGINT, such as Ctrl-C, stopped the run.
    Interrupted = 130,
    /// SIGTERM stopped the run.
    Terminated = 143,
}

impl From<ExitStatus> for std::process::ExitCode {
    fn from(status: ExitStatus) -> Self {
        std::process::ExitCode::from(status as u8)
    }
}
