//! `aebuild fmt`: lay out task files.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{ExitStatus, Face, SessionError, diff, fault};
use crate::diagnostic::{Diagnostic, Source, visible_line};
use crate::json;
use crate::report::count;
use crate::system::{FileKind, System, disk};

/// Lay out task files in one way: two spaces, short lists and objects on one line
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Task files, or folders whose `tasks/*.json` are meant [default: the current folder]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Change nothing, and fail where something would change
    #[arg(long)]
    check: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    diff: bool,
    /// Read a text from standard input and write it to standard output
    #[arg(long, conflicts_with_all = ["paths", "check", "diff"])]
    stdin: bool,
}

/// The largest file that is laid out.
const MAX_FILE: u64 = 64 << 20;
/// How deep folders are looked through.
const MAX_DEPTH: usize = 16;

/// Runs the command.
pub(super) fn run(args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    if args.stdin {
        let mut bytes = Vec::new();
        let read = std::io::stdin().take(MAX_FILE).read_to_end(&mut bytes);
        read.map_err(|error| SessionError::World(format!("standard input: {error}")))?;
        let text = laid_out("standard input", &bytes).map_err(SessionError::Faults)?;
        face.printer.out(&text);
        return Ok(ExitStatus::Passed);
    }
    let (mut faults, mut n_same, mut changed) = (Vec::new(), 0u64, Vec::new());
    let mut links = Vec::new();
    let paths = task_files(&args.paths, face.system.as_ref(), &mut links);
    for link in &links {
        let link = link.display().to_string();
        let line = format!("{} is a link, and is left\n", face.printer.safe_line(&link));
        face.printer.err(&line);
    }
    for path in paths? {
        let name = path.to_string_lossy().into_owned();
        let bytes = face.system.read(&path, MAX_FILE).map_err(|error| {
            fault::usage(
                format!("`{}` cannot be read: {error}", visible_line(&name)),
                None,
            )
        })?;
        let text = match laid_out(&name, &bytes) {
            Ok(text) => text,
            Err(found) => {
                faults.extend(found);
                continue;
            }
        };
        if text.as_bytes() == bytes {
            n_same += 1;
            continue;
        }
        if args.diff {
            let (old, _) = Source::from_bytes(name.as_str(), &bytes);
            face.printer.out(&diff::unified(&name, &old.text, &text));
        } else if !args.check {
            let full = face
                .system
                .canonical(&path)
                .unwrap_or_else(|_| path.clone());
            disk::replace(&full, text.as_bytes()).map_err(|error| {
                SessionError::World(format!("`{name}` cannot be written: {error}"))
            })?;
        }
        changed.push(name);
    }
    let is_dry = args.check || args.diff;
    for name in changed.iter().filter(|_| args.check && !args.diff) {
        let line = format!("{}\n", visible_line(name));
        face.printer.out(&line);
    }
    fault::diagnostics(&faults, &mut face.printer);
    let changes = if is_dry { "would change" } else { "changed" };
    let mut text = format!(
        "{} {changes}, {n_same} stay",
        count(changed.len() as u64, "file")
    );
    if !faults.is_empty() {
        text.push_str(&format!("; {}, so these are left", fault::counted(&faults)));
    }
    face.printer.err(&format!("{text}\n"));
    Ok(match !faults.is_empty() || is_dry && !changed.is_empty() {
        true => ExitStatus::Failed,
        false => ExitStatus::Passed,
    })
}

/// Returns a text in canonical layout, or why it has none.
fn laid_out(name: &str, bytes: &[u8]) -> Result<String, Vec<Diagnostic>> {
    let (source, mut faults) = Source::from_bytes(name, bytes);
    match json::laid_out(&source) {
        Ok(text) if faults.is_empty() => Ok(text),
        Ok(_) => Err(faults),
        Err(found) => {
            faults.extend(found);
            Err(faults)
        }
    }
}

/// Returns the task files that the arguments mean: files as they are, and of folders those below a folder `tasks`.
/// Links in folders are not followed, since what they lead to may be somebody else's; they come in `links`.
fn task_files(
    paths: &[PathBuf],
    system: &dyn System,
    links: &mut Vec<PathBuf>,
) -> Result<Vec<PathBuf>, SessionError> {
    let here = [PathBuf::from(".")];
    let mut found = Vec::new();
    for path in if paths.is_empty() { &here[..] } else { paths } {
        let shown = path.display();
        match system.metadata(path).map(|metadata| metadata.kind) {
            Ok(FileKind::Folder) => {
                let is_tasks = path.file_name().is_some_and(|name| name == "tasks");
                look_in(path, is_tasks, 0, system, &mut found, links);
            }
            Ok(_) => found.push(path.clone()),
            Err(error) => {
                let text = format!(
                    "`{}` cannot be read: {error}",
                    visible_line(&shown.to_string())
                );
                return Err(fault::usage(text, None));
            }
        }
    }
    found.sort();
    found.dedup();
    if found.is_empty() {
        let help = match links.is_empty() {
            true => "name a task file, or a folder with tasks/*.json in it",
            false => "name a link to lay out what it leads to",
        }
        .to_owned();
        return Err(fault::usage("there are no task files here", Some(help)));
    }
    Ok(found)
}

fn look_in(
    folder: &Path,
    is_tasks: bool,
    depth: usize,
    system: &dyn System,
    found: &mut Vec<PathBuf>,
    links: &mut Vec<PathBuf>,
) {
    for entry in system.read_folder(folder).unwrap_or_default() {
        let path = match folder == Path::new(".") {
            true => PathBuf::from(&entry.name),
            false => folder.join(&entry.name),
        };
        let name = entry.name.to_string_lossy();
        match entry.kind {
            // What a task puts into a sandbox or an env is not ours to change.
            FileKind::Folder
                if depth < MAX_DEPTH
                    && !name.starts_with('.')
                    && !["artifacts", "envs", "agents", "node_modules", "target"]
                        .contains(&&*name) =>
            {
                look_in(&path, name == "tasks", depth + 1, system, found, links);
            }
            FileKind::File if is_tasks && name.ends_with(".json") => found.push(path),
            FileKind::Link if is_tasks && name.ends_with(".json") => links.push(path),
            _ => {}
        }
    }
}
