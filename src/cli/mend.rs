//! Makes the fixes that diagnostics carry: first in a view of the files, where they are checked again, and then on disk.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Face, SessionError, diff, fault};
use crate::diagnostic::{Diagnostic, KnownLines, Mended, Safety, Source, mend, visible_line};
use crate::report::count;
use crate::system::{Overlay, System, disk};

/// The most often that what is left is looked at again.
const MAX_ROUNDS: usize = 100;
/// The largest file that is mended.
const MAX_FILE: u64 = 64 << 20;

/// Which fixes are made.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// Those that are beyond doubt
    Sure,
    /// Where nothing is beyond doubt, the one that is offered, if it is the only one
    All,
}

/// What fixes came to.
pub(super) struct Outcome {
    /// What is left.
    pub(super) found: Vec<Diagnostic>,
    /// Whether a text changed or would.
    pub(super) has_changed: bool,
}

/// Finds faults and makes the fixes of these, round by round until nothing changes; `is_dry` shows what would be written.
pub(super) fn run(
    wanted: Wanted,
    is_dry: bool,
    face: &mut Face,
    check: &mut dyn FnMut(&mut Face) -> Result<Vec<Diagnostic>, SessionError>,
) -> Result<Outcome, SessionError> {
    let disk_system = face.system.clone();
    let rounds = rounds(wanted, face, check);
    face.system = disk_system;
    let rounds = rounds?;
    let is_changed = |(path, (_, before)): &(&PathBuf, &(String, Vec<u8>))| {
        rounds.view.contents().get(*path) != Some(before)
    };
    let n_files = rounds.before.iter().filter(is_changed).count() as u64;
    for line in &rounds.told {
        let line = format!("{}\n", face.printer.safe_line(line));
        face.printer.err(&line);
    }
    let (mut has_changed, n_fixes) = (false, rounds.told.len() as u64);
    for (path, (name, before)) in &rounds.before {
        let after = &rounds.view.contents()[path];
        if before == after {
            continue;
        }
        has_changed = true;
        if is_dry {
            let (old, _) = Source::from_bytes(name.as_str(), before);
            let (new, _) = Source::from_bytes(name.as_str(), after);
            let text = diff::unified(name, &old.text, &new.text);
            face.printer.out(&text);
            continue;
        }
        let is_as_read = face
            .system
            .read(path, MAX_FILE)
            .is_ok_and(|now| now == *before);
        if !is_as_read {
            let text = format!("`{}` changed while it was checked", visible_line(name));
            return Err(fault::usage(text, Some("do it again".to_owned())));
        }
        disk::replace(path, after)
            .map_err(|error| SessionError::World(format!("`{name}` cannot be written: {error}")))?;
    }
    let done = match is_dry {
        true => "would be made",
        false => "made",
    };
    let (fixes, files) = (count(n_fixes, "fix"), count(n_files, "file"));
    let mut text = match n_fixes {
        0 => "there is nothing to mend\n".to_owned(),
        _ => format!("{fixes} {done} in {files}\n"),
    };
    if rounds.n_in_circles > 0 {
        let fixes = count(rounds.n_in_circles as u64, "fix");
        text.push_str(&format!("{fixes} undo each other, and are left\n"));
    }
    if wanted == Wanted::Sure {
        let system = face.system.clone();
        face.system = Arc::new(rounds.view.clone());
        let more = mend_found(&rounds.found, Wanted::All, face.system.as_ref());
        face.system = system;
        if !more.made.is_empty() {
            let more = count(more.made.len() as u64, "more fix");
            text.push_str(&format!(
                "{more} that somebody should look at: `--fix=all`\n"
            ));
        }
    }
    face.printer.err(&text);
    Ok(Outcome {
        found: rounds.found,
        has_changed,
    })
}

struct Rounds {
    view: Overlay,
    /// The name and content of each file that changed, as it was.
    before: BTreeMap<PathBuf, (String, Vec<u8>)>,
    /// A line for each fix that was made.
    told: Vec<String>,
    found: Vec<Diagnostic>,
    /// How many fixes were made over and over, each undone by another.
    n_in_circles: usize,
}

fn rounds(
    wanted: Wanted,
    face: &mut Face,
    check: &mut dyn FnMut(&mut Face) -> Result<Vec<Diagnostic>, SessionError>,
) -> Result<Rounds, SessionError> {
    let mut rounds = Rounds {
        view: Overlay::new(face.system.clone()),
        before: BTreeMap::new(),
        told: Vec::new(),
        found: Vec::new(),
        n_in_circles: 0,
    };
    // The texts at the start of each round, by their hash, and how many fixes had been made then.
    let mut seen: Vec<(u64, usize)> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        face.system = Arc::new(rounds.view.clone());
        rounds.found = check(face)?;
        let state = state(&rounds);
        // Fixes that undo each other would go on for ever: all is as it was then, so nothing was made since.
        if let Some(&(_, n_told)) = seen.iter().find(|(other, _)| *other == state) {
            rounds.n_in_circles = rounds.told.len() - n_told;
            rounds.told.truncate(n_told);
            break;
        }
        seen.push((state, rounds.told.len()));
        let mended = mend_found(&rounds.found, wanted, face.system.as_ref());
        let mut has_changed = false;
        for (source, text) in mended.texts {
            let path = PathBuf::from(&source.name);
            let bytes = content(face.system.as_ref(), &path, &source);
            let (Some(bytes), Ok(full)) = (bytes, face.system.canonical(&path)) else {
                continue;
            };
            has_changed |= bytes != text.as_bytes();
            rounds
                .before
                .entry(full)
                .or_insert_with(|| (source.name.clone(), bytes));
            let replaced = rounds.view.replace(&path, text.into_bytes());
            replaced.map_err(|error| SessionError::World(format!("`{}`: {error}", source.name)))?;
        }
        if !has_changed {
            break;
        }
        let mut lines = KnownLines::default();
        for (at, chosen) in mended.made {
            let found = &rounds.found[at];
            let fix = &found.fixes[chosen];
            if let Some(edit) = fix.edits.first() {
                let lines = lines.of(&edit.source);
                let (line, column) = lines.line_column(edit.span.start as usize);
                let (name, title, code) = (&edit.source.name, &fix.title, found.code);
                rounds
                    .told
                    .push(format!("{name}:{line}:{column}: {title} [{code}]"));
            }
        }
    }
    Ok(rounds)
}

/// Returns a hash of the texts: a file that is as it was before counts as one that never changed.
fn state(rounds: &Rounds) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, bytes) in rounds.view.contents() {
        let is_other = rounds.before.get(path).is_none_or(|(_, old)| old != bytes);
        if is_other {
            (path, bytes).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Makes the fixes that are wanted of those that can be made.
fn mend_found(found: &[Diagnostic], wanted: Wanted, system: &dyn System) -> Mended {
    // A text that many fixes are for is compared with its file once.
    let known: RefCell<Vec<(Source, bool)>> = RefCell::default();
    let can_mend = |source: &Source| {
        let mut known = known.borrow_mut();
        if let Some((_, can_mend)) = known.iter().rev().find(|(other, _)| other == source) {
            return *can_mend;
        }
        let can_mend = content(system, Path::new(&source.name), source).is_some();
        known.push((source.clone(), can_mend));
        can_mend
    };
    mend(found, |found| {
        let chosen = chosen(found, wanted)?;
        let mut edits = found.fixes[chosen].edits.iter();
        edits.all(|edit| can_mend(&edit.source)).then_some(chosen)
    })
}

/// Returns which fix of a diagnostic is made.
fn chosen(found: &Diagnostic, wanted: Wanted) -> Option<usize> {
    let is_sure = |fix: &crate::diagnostic::Fix| fix.safety == Safety::Sure;
    let sure = found.fixes.iter().position(is_sure);
    match wanted {
        Wanted::Sure => sure,
        Wanted::All => sure.or((found.fixes.len() == 1).then_some(0)),
    }
}

/// Returns the bytes of the file that a text was read from, if it is a file and still says the same, and if nothing of
/// it would be lost.
fn content(system: &dyn System, path: &Path, source: &Source) -> Option<Vec<u8>> {
    let bytes = system.read(path, MAX_FILE).ok()?;
    let (read, _) = Source::from_bytes(source.name.as_str(), &bytes);
    let is_whole = read.text.as_bytes() == bytes || Source::is_decoded(&bytes);
    (read == *source && is_whole).then_some(bytes)
}
