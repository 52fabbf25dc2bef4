//! The command line: one file a command, and nothing of its own.
//!
//! Data goes to standard output, talk to standard error. [`ExitStatus`] says what the exit status means.

mod agent;
mod answer;
mod cache;
mod check;
mod diff;
mod env;
mod exit;
mod explain;
mod explain_code;
mod fault;
mod fmt;
mod graph;
mod lsp;
mod mend;
mod new;
mod plan;
mod run;
mod seeds;
mod select;
mod show;
mod signals;
mod teller;
mod types;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand};

pub use exit::ExitStatus;

use crate::report::{Printer, ProgressKind};
use crate::session::{Registry, Session, SessionError, SessionOptions};
use crate::system::System;

/// Run RL tasks and agent experiments, and do again only what changed
#[derive(Parser, Debug)]
#[command(
    name = "aebuild",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(
    after_help = "Exit status: 0 passed, 1 a step or check failed, 2 could not start, \
3 the cache is damaged beyond repair, 101 a bug, 130 or 143 interrupted"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Tell more: what hits, what is provisioned, what steps print
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Keep results in this folder [default: AEBUILD_CACHE_DIR, else `cache.dir` of aebuild.toml,
    /// else the user's cache folder]
    #[arg(long, global = true, value_name = "DIR", hide_default_value = true)]
    cache_dir: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Command {
    New(new::Args),
    Run(run::Args),
    Watch(watch::Args),
    Check(check::Args),
    Plan(plan::Args),
    Explain(explain::Args),
    ExplainCode(explain_code::Args),
    Show(show::Args),
    Fmt(fmt::Args),
    Graph(graph::Args),
    Lsp(lsp::Args),
    Cache(cache::Args),
    Env(env::Args),
    Agent(agent::Args),
    Answer(answer::Args),
    Types(types::TypesArgs),
    Schema(types::SchemaArgs),
}

/// What every command works with.
struct Face {
    system: Arc<dyn System>,
    registry: Registry,
    printer: Printer,
    cache_dir: Option<PathBuf>,
    /// The command line, for the record.
    words: Vec<String>,
}

impl Face {
    /// Opens the cache, wherever the command is given.
    fn open_cache(&mut self) -> Result<Session, SessionError> {
        let options = SessionOptions {
            paths: Vec::new(),
            cache_dir: self.cache_dir.clone(),
            no_cache: false,
        };
        Session::open_for_cache(self.system.clone(), self.registry, options)
    }

    /// Opens what a command works on.
    fn open(&mut self, paths: Vec<PathBuf>, no_cache: bool) -> Result<Session, SessionError> {
        let options = SessionOptions {
            paths,
            cache_dir: self.cache_dir.clone(),
            no_cache,
        };
        let session = Session::open(self.system.clone(), self.registry, options)?;
        let values = session.secrets();
        self.printer.redactor = crate::record::Redactor::new(values.iter().map(String::as_str));
        Ok(session)
    }
}

/// Returns the definition of the command line, for the reference in the book.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Does what the command line of this process asks for.
pub fn main(system: Arc<dyn System>, registry: Registry) -> ExitStatus {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Whoever closed the output does not want to read it.
            let _ = error.print();
            return if error.use_stderr() {
                ExitStatus::Usage
            } else {
                ExitStatus::Passed
            };
        }
    };
    let mut printer = Printer::of_process(|name| system.variable(name));
    printer.is_verbose = arguments.verbose;
    let words = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned());
    let mut face = Face {
        system,
        registry,
        printer,
        cache_dir: arguments.cache_dir,
        words: words.collect(),
    };
    let done = match arguments.command {
        Command::New(args) => new::run(args, &mut face),
        Command::Run(args) => run::run(args, &mut face),
        Command::Watch(args) => watch::run(args, &mut face),
        Command::Check(args) => check::run(args, &mut face),
        Command::Plan(args) => plan::run(args, &mut face),
        Command::Explain(args) => explain::run(args, &mut face),
        Command::ExplainCode(args) => explain_code::run(args, &mut face),
        Command::Show(args) => show::run(args, &mut face),
        Command::Fmt(args) => fmt::run(args, &mut face),
        Command::Graph(args) => graph::run(args, &mut face),
        Command::Lsp(args) => lsp::run(args, &mut face),
        Command::Cache(args) => cache::run(args, &mut face),
        Command::Env(args) => env::run(args, &mut face),
        Command::Agent(args) => agent::run(args, &mut face),
        Command::Answer(args) => answer::run(args, &mut face),
        Command::Types(args) => types::run_types(args, &mut face),
        Command::Schema(args) => types::run_schema(args, &mut face),
    };
    let status = done.unwrap_or_else(|error| fault::show(&error, &mut face.printer));
    face.printer.flush();
    status
}
