//! What a step may ask of a sandbox.
//!
//! Paths are paths of the sandbox: `/app/x` is the sandbox's own `/app/x`, a relative path is under `/app`. Nobody here
//! knows where the sandbox runs or how it keeps its files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

/// A boxed future that may be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Number of bytes kept of each output stream when a step does not say.
pub const KEEP: usize = 64 << 20;

/// One command to run in a sandbox.
#[derive(Clone, Debug)]
pub struct Exec {
    /// What to run.
    pub program: Program,
    /// Variables on top of the sandbox's own clean environment.
    pub env: Vec<(String, String)>,
    /// Folder to run in, as a path of the sandbox; `/app` when absent.
    pub cwd: Option<String>,
    /// What the command reads; empty means an empty stdin, never the runner's.
    pub stdin: Vec<u8>,
    /// Time after which the command is stopped.
    pub timeout: Option<Duration>,
    /// Number of bytes kept of each stream, from its end.
    pub keep: usize,
}

impl Exec {
    /// Returns a command that runs a program with arguments, without a shell.
    pub fn argv<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self::new(Program::Argv(argv.into_iter().map(Into::into).collect()))
    }

    /// Returns a command that runs a script with `bash -c`.
    pub fn bash(script: impl Into<String>) -> Self {
        Self::new(Program::Bash(script.into()))
    }

    /// Returns a command with nothing on stdin, no time limit and the default `keep`.
    pub fn new(program: Program) -> Self {
        Self {
            program,
            env: Vec::new(),
            cwd: None,
            stdin: Vec::new(),
            timeout: None,
            keep: KEEP,
        }
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets the folder to run in.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets what the command reads.
    pub fn stdin(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Sets the time limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many bytes of each stream are kept.
    pub fn keep(mut self, keep: usize) -> Self {
        self.keep = keep;
        self
    }
}

/// What a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments, started without a shell.
    Argv(Vec<String>),
    /// A script, run by `bash -c`.
    Bash(String),
}

/// How a command went.
#[derive(Clone, Debug)]
pub struct Exited {
    /// How it ended.
    pub how: How,
    /// What it wrote to stdout.
    pub stdout: Captured,
    /// What it wrote to stderr.
    pub stderr: Captured,
    /// Time from start to end.
    pub duration: Duration,
}

impl Exited {
    /// Tells whether the command ended by itself with exit code 0.
    pub fn is_success(&self) -> bool {
        self.how == How::Code(0)
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It exited with a code. Under bubblewrap death by signal `n` arrives as code `128 + n`, as it does from a shell.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
    /// It was stopped at its time limit.
    TimedOut,
    /// It was stopped because its sandbox was destroyed.
    Cancelled,
}

/// The end of one output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The last bytes of the stream.
    pub bytes: Vec<u8>,
    /// Number of bytes before them that were not kept.
    pub dropped: u64,
}

impl Captured {
    /// Returns the kept bytes as text, what is not UTF-8 replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Nothing, or a link to nothing.
    Missing,
    /// A regular file.
    File {
        /// Its length in bytes.
        size: u64,
    },
    /// A folder.
    Dir,
    /// A pipe, a socket or a device.
    Other,
}

/// One file found by [`Sandbox::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Its path, relative to the listed folder.
    pub path: String,
    /// Its length in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
}

/// One file to copy into a sandbox.
#[derive(Clone, Debug)]
pub struct Put {
    /// The file on the host.
    pub from: PathBuf,
    /// Where it goes in the sandbox.
    pub to: String,
    /// Its permission bits there, 0644 or 0755.
    pub mode: u32,
}

/// What keeps a sandbox apart from its host; part of a step's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Nothing but convention: a folder of its own and a clean environment.
    None,
    /// Namespaces made by bubblewrap: own root, own processes, system folders read-only.
    Bubblewrap,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isolation::None => "none",
            Isolation::Bubblewrap => "bubblewrap",
        })
    }
}

/// Why a sandbox could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The program is nowhere on the search path, or not at its path.
    #[error("program `{program}` is not in the sandbox (looked in {looked_in})")]
    NoSuchProgram {
        /// The program as written.
        program: String,
        /// The search path or the path that was looked at.
        looked_in: String,
    },
    /// The program is there and cannot be run.
    #[error("program `{program}` cannot be run: it is {what}")]
    NotExecutable {
        /// The program as written.
        program: String,
        /// What it is instead.
        what: &'static str,
    },
    /// The command has no program.
    #[error("the command is empty")]
    EmptyCommand,
    /// Arguments and environment are larger than the system passes on.
    #[error(
        "the arguments and environment of `{program}` take {bytes} bytes, more than the system passes to a program"
    )]
    TooManyArguments {
        /// The program as written.
        program: String,
        /// Size of arguments and environment.
        bytes: usize,
    },
    /// The folder to run in is not a folder.
    #[error("working folder `{cwd}` of `{program}` is not a folder of the sandbox")]
    CwdMissing {
        /// The folder as written.
        cwd: String,
        /// The program as written.
        program: String,
    },
    /// A name cannot be the name of an environment variable.
    #[error("`{name}` cannot be the name of an environment variable")]
    EnvName {
        /// The name, escaped.
        name: String,
    },
    /// A text that goes to the system holds a NUL character.
    #[error("{what} holds a NUL character")]
    Nul {
        /// Which text.
        what: String,
    },
    /// The path leads out of the sandbox.
    #[error("path `{path}` leads out of the sandbox")]
    PathEscapes {
        /// The path as written.
        path: String,
    },
    /// The path is in a folder that belongs to the system.
    #[error("path `{path}` cannot be written: `/{folder}` of a sandbox belongs to the system")]
    ReadOnly {
        /// The path as written.
        path: String,
        /// The top-level folder.
        folder: String,
    },
    /// Nothing is at the path.
    #[error("there is nothing at `{path}` in the sandbox")]
    NoSuchPath {
        /// The path as written.
        path: String,
    },
    /// Something else than a regular file is at the path.
    #[error("`{path}` is {what}, not a regular file")]
    NotAFile {
        /// The path as written.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// Something else than a folder is at the path.
    #[error("`{path}` is {what}, not a folder")]
    NotAFolder {
        /// The path as written.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// The file is larger than the reader takes.
    #[error("`{path}` has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The path as written.
        path: String,
        /// Its length, as far as known.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// A file name is not UTF-8.
    #[error("a file name under `{path}` is not UTF-8: {name}")]
    NotUtf8 {
        /// The listed folder.
        path: String,
        /// The name, escaped.
        name: String,
    },
    /// The wall around the command could not be built; the command did not run.
    #[error("the sandbox around `{program}` could not be built: {message}")]
    Isolation {
        /// The program as written.
        program: String,
        /// What the tool said.
        message: String,
    },
    /// The sandbox is gone.
    #[error("sandbox `{id}` was destroyed")]
    Destroyed {
        /// The sandbox.
        id: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was done, and where.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A place where a step runs commands and keeps files.
pub trait Sandbox: Send + Sync {
    /// Returns the sandbox's id.
    fn id(&self) -> &str;

    /// Runs a command and waits for its end.
    ///
    /// Dropping the future stops the command with everything it started. What a command leaves in the background when it
    /// ends by itself is ended with it behind a wall, and else lives until the sandbox is destroyed.
    fn exec<'a>(&'a self, exec: Exec) -> BoxFuture<'a, Result<Exited, SandboxError>>;

    /// Tells what is at a path; links are followed inside the sandbox.
    fn probe(&self, path: &str) -> Result<Probe, SandboxError>;

    /// Returns the content of a file, or `None` where nothing is.
    fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, SandboxError>;

    /// Lists the regular files below a folder, sorted by path; links below it are neither followed nor listed.
    fn list(&self, path: &str) -> Result<Vec<ListedFile>, SandboxError>;

    /// Copies files into the sandbox, making the folders above them; a file that was there is replaced.
    fn put(&self, files: &[Put]) -> Result<(), SandboxError>;

    /// Writes one file, making the folders above it; a file that was there is replaced.
    fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), SandboxError>;

    /// Copies a regular file out to a path of the host and returns its length.
    fn fetch(&self, path: &str, to: &Path) -> Result<u64, SandboxError>;

    /// Returns what keeps the sandbox apart from its host.
    fn isolation(&self) -> Isolation;

    /// Returns the path, in the sandbox, of a folder whose content is not part of the state: for what a step stages.
    fn temp_dir(&self) -> &str;
}
