//! `aebuild cache`: look after what is kept.

use aebuild_cache::{Cache, GcOptions, UpkeepError, VerifyReport};

use super::{ExitStatus, Face, SessionError};
use crate::report::{Printer, count};

/// Look after the kept results
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Show how much is kept
    Stats,
    /// Look for damage
    Verify {
        /// Read every kept file too, which takes longer
        #[arg(long)]
        read_data: bool,
    },
    /// Set damage right: what cannot be saved is made again by a later run
    Repair,
    /// Remove what is old, superseded, or over the size limit
    Gc {
        /// Show what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove everything
    Clear,
    /// Show where the results are kept
    Path,
    /// Show the steps that gave different results from the same inputs
    Nondeterminism,
}

/// Runs the command.
pub(super) fn run(args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let session = face.open_cache()?;
    let cache = session.cache()?;
    let printer = &mut face.printer;
    let (text, status) = match args.command {
        Command::Stats => (stats(cache), ExitStatus::Passed),
        Command::Verify { read_data } => {
            let report = cache.verify(read_data).map_err(refused)?;
            let status = if report.is_clean() {
                ExitStatus::Passed
            } else {
                ExitStatus::Failed
            };
            (verified(&report, printer), status)
        }
        Command::Repair => repair(cache, printer)?,
        Command::Gc { dry_run } => (gc(cache, dry_run)?, ExitStatus::Passed),
        Command::Clear => {
            cache.clear().map_err(refused)?;
            (
                format!("cleared {}\n", cache.dir().display()),
                ExitStatus::Passed,
            )
        }
        Command::Path => (format!("{}\n", cache.dir().display()), ExitStatus::Passed),
        Command::Nondeterminism => {
            let mut text = String::new();
            for one in session.nondeterminism()? {
                text.push_str(&format!("{}\n", printer.safe_line(&one.step)));
                for (output, run) in &one.outputs {
                    let run = printer.safe_line(run);
                    text.push_str(&format!("  output {} of run {run}\n", output.short()));
                }
                for part in &one.differs {
                    text.push_str(&format!("  differs in {}\n", printer.safe_line(part)));
                }
            }
            if text.is_empty() {
                text.push_str("no step gave different results from the same inputs\n");
            }
            (text, ExitStatus::Passed)
        }
    };
    printer.out(&text);
    Ok(status)
}

fn refused(error: UpkeepError) -> SessionError {
    match &error {
        UpkeepError::Busy { .. } => SessionError::Usage {
            message: error.to_string(),
            help: Some("wait until the other run is over".to_owned()),
        },
        UpkeepError::Store(_) | UpkeepError::Io { .. } => SessionError::World(error.to_string()),
    }
}

/// Returns a number of bytes: `512 B`, `1.5 MB`.
fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if n < 1000 {
        return format!("{n} B");
    }
    let mut size = n as f64 / 1000.0;
    let mut unit = 0;
    while size >= 999.95 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

fn stats(cache: &Cache) -> String {
    let stats = cache.stats();
    let mut text = format!("{}\n", cache.dir().display());
    text.push_str(&format!(
        "{} in {}, {}; index {}\n",
        count(stats.records, "record"),
        count(stats.segments, "segment"),
        bytes(stats.record_bytes),
        bytes(stats.index_bytes),
    ));
    match stats.blobs {
        Some(blobs) => text.push_str(&format!(
            "{}, {}, counted {}\n",
            count(blobs.count, "blob"),
            bytes(blobs.bytes),
            crate::system::timestamp(blobs.measured_at_ms.saturating_mul(1000) as i64),
        )),
        None => text.push_str("blobs: counted by `aebuild cache gc`\n"),
    }
    if stats.damaged > 0 {
        text.push_str(&format!(
            "{} passed over; look with `aebuild cache verify`\n",
            count(stats.damaged, "damaged piece")
        ));
    }
    text
}

fn verified(report: &VerifyReport, printer: &Printer) -> String {
    let mut text = String::new();
    for problem in &report.problems {
        let what = format!("{:?}", problem.fault);
        let path = problem.path.display().to_string();
        text.push_str(&format!("{}: {}\n", words(&what), printer.safe_line(&path)));
    }
    text.push_str(&format!(
        "{} and {} ({}) looked at: {}\n",
        count(report.records, "record"),
        count(report.blobs, "blob"),
        bytes(report.blob_bytes),
        if report.is_clean() {
            "no damage".to_owned()
        } else {
            count(report.problems.len() as u64, "problem")
        },
    ));
    text
}

/// Makes `damaged segment` of `DamagedSegment`.
fn words(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(c.to_lowercase());
    }
    text
}

fn repair(cache: &Cache, printer: &Printer) -> Result<(String, ExitStatus), SessionError> {
    let done = cache.repair().map_err(refused)?;
    let mut text = verified(&done.found, printer);
    text.push_str(&format!(
        "{} set aside, {} dropped\n",
        count(done.blobs_set_aside, "blob"),
        count(done.records_dropped, "record"),
    ));
    let after = cache.verify(true).map_err(refused)?;
    if after.is_clean() {
        text.push_str("the cache is whole\n");
        return Ok((text, ExitStatus::Passed));
    }
    text.push_str("damage is left that cannot be repaired; remove it by `aebuild cache clear`:\n");
    text.push_str(&verified(&after, printer));
    Ok((text, ExitStatus::Damaged))
}

fn gc(cache: &Cache, is_dry_run: bool) -> Result<String, SessionError> {
    let report = cache
        .gc(GcOptions {
            is_dry_run,
            ..GcOptions::default()
        })
        .map_err(refused)?;
    let gone = report.records_dead + report.records_aged + report.records_evicted;
    let verb = if is_dry_run {
        "would remove"
    } else {
        "removed"
    };
    Ok(format!(
        "{verb} {} ({} superseded, {} too old, {} over the limit) and {} ({}); {} left\n",
        count(gone, "record"),
        report.records_dead,
        report.records_aged,
        report.records_evicted,
        count(report.blobs_trashed, "blob"),
        bytes(report.bytes_trashed),
        bytes(report.bytes_left),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let shown = [0, 999, 1000, 1_500_000, 999_950_000, u64::MAX].map(bytes);
        assert_eq!(
            shown,
            ["0 B", "999 B", "1.0 kB", "1.5 MB", "1.0 GB", "18446.7 PB"]
        );
        assert_eq!(words("DamagedSegment"), "damaged segment");
    }
}
