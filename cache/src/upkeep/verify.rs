//! Looking at everything in the cache, and setting right what is wrong.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::blob::Presence;
use crate::error::UpkeepError;
use crate::format::{IndexBytes, MAX_INDEX, State};
use crate::record::BlobId;
use crate::store::Store;

const MAX_PROBLEMS: usize = 100;

/// What a look at everything found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VerifyReport {
    /// Records that count.
    pub records: u64,
    /// Records that were superseded or dropped.
    pub records_dead: u64,
    /// Records that name a blob which is missing or damaged.
    pub records_incomplete: u64,
    /// Pieces of segments that are no records.
    pub damaged_pieces: u64,
    /// Segments with an unfinished end, as a killed process leaves it.
    pub torn_ends: u64,
    /// Blobs on disk.
    pub blobs: u64,
    /// Their bytes.
    pub blob_bytes: u64,
    /// Blobs that no record names.
    pub orphans: u64,
    /// Blobs that are not what their names say; only counted when data is read.
    pub blobs_damaged: u64,
    /// Things that have no business in the cache.
    pub foreign: u64,
    /// The first problems, at most 100.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub fault: ProblemKind,
}

/// What can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProblemKind {
    /// A segment has a damaged header or a piece that is no record.
    DamagedSegment,
    /// The index is not what was written.
    DamagedIndex,
    /// A blob's bytes are not what its name says.
    DamagedBlob,
    /// A record names a blob that is not there.
    MissingBlob,
    /// A file or folder that the cache did not make.
    Foreign,
}

impl VerifyReport {
    /// Tells whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn note(&mut self, path: PathBuf, fault: ProblemKind) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { path, fault });
        }
    }
}

/// What was set right.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RepairReport {
    /// What was found before.
    pub found: VerifyReport,
    /// Blobs that were set aside.
    pub blobs_set_aside: u64,
    /// Records that were dropped since a blob of theirs is gone.
    pub records_dropped: u64,
    /// Whether the records were written anew.
    pub is_compacted: bool,
}

impl Store {
    pub(crate) fn verify(&self, read_data: bool) -> Result<VerifyReport, UpkeepError> {
        let mut report = VerifyReport::default();
        if self.is_foreign() {
            return Ok(report);
        }
        let survey = self.survey()?;
        for (segment, scan) in &survey.segments {
            report.damaged_pieces += scan.n_damaged;
            report.torn_ends += u64::from(scan.is_torn());
            if scan.is_damaged() {
                report.note(self.segments.path(*segment), ProblemKind::DamagedSegment);
            }
        }
        let index = self.home.path("index");
        let is_index_right = match self.home.disk.read_small(&index, MAX_INDEX) {
            Ok(bytes) => IndexBytes::read(self.segments.key(), bytes).is_some(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if !is_index_right {
            report.note(index, ProblemKind::DamagedIndex);
        }
        let (lying, foreign) = self.lying_blobs();
        let mut damaged: HashSet<BlobId> = HashSet::new();
        for lying in &lying {
            report.blobs += 1;
            report.blob_bytes += lying.blob.size;
            if read_data && !self.blobs.is_right(&lying.blob) {
                report.blobs_damaged += 1;
                report.note(lying.path.clone(), ProblemKind::DamagedBlob);
                damaged.insert(lying.blob.id);
            }
        }
        let mut manifests = HashMap::new();
        let mut reachable: HashSet<BlobId> = HashSet::new();
        for record in &survey.records {
            if record.state != State::Live {
                report.records_dead += 1;
                continue;
            }
            report.records += 1;
            let (needs, is_whole) = self.needs(record, &mut manifests);
            let missing = needs.iter().find(|blob| {
                damaged.contains(&blob.id)
                    || !matches!(self.blobs.presence(blob), Presence::Present { .. })
            });
            if missing.is_some() || !is_whole {
                report.records_incomplete += 1;
            }
            if let Some(blob) = missing {
                report.note(self.blobs.path(&blob.id), ProblemKind::MissingBlob);
            }
            reachable.extend(needs.iter().map(|blob| blob.id));
        }
        report.orphans = lying
            .iter()
            .filter(|lying| !reachable.contains(&lying.blob.id))
            .count() as u64;
        for path in foreign.into_iter().chain(survey.foreign) {
            report.foreign += 1;
            report.note(path, ProblemKind::Foreign);
        }
        Ok(report)
    }

    pub(crate) fn repair(&self) -> Result<RepairReport, UpkeepError> {
        let mut report = RepairReport {
            found: self.verify(true)?,
            ..RepairReport::default()
        };
        let (lying, foreign) = self.lying_blobs();
        for lying in lying {
            if !self.blobs.is_right(&lying.blob) {
                self.home.set_aside(&lying.path);
                report.blobs_set_aside += 1;
            }
        }
        let survey = self.survey()?;
        for path in foreign.iter().chain(&survey.foreign) {
            self.home.set_aside(path);
        }
        let mut manifests = HashMap::new();
        let mut keep = Vec::new();
        for record in &survey.records {
            let (needs, is_whole) = self.needs(record, &mut manifests);
            match record.state {
                State::Dropped => {}
                State::Live if !is_whole || !self.are_there(&needs) => report.records_dropped += 1,
                State::Live | State::Superseded => keep.push(record),
            }
        }
        let is_damaged = survey
            .segments
            .iter()
            .any(|(_, scan)| scan.is_damaged() || scan.is_torn());
        if is_damaged || keep.len() < survey.records.len() {
            self.compact(&keep, &survey.segments)?;
            report.is_compacted = true;
        }
        self.rebuild_index()?;
        Ok(report)
    }
}
