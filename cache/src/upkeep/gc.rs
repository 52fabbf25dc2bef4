//! Dropping what is old, superseded or over the limit.
//!
//! Two phases: what no record names is moved into the trash, and only the next gc deletes it. What is
//! younger than the grace time is left alone, since its record may still be on its way.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use super::{Lying, Survey, Surveyed};
use crate::disk;
use crate::error::UpkeepError;
use crate::format::{SegmentHeader, State};
use crate::record::{BlobId, BlobRef, Place};
use crate::store::Store;

/// So many segments are fine; more are made one.
const MANY_SEGMENTS: usize = 16;
/// So long a superseded record is kept, to tell how a step went before.
const HISTORY_MS: u64 = 30 * 24 * 3600 * 1000;
/// Unfinished files of this age belong to nobody any more.
const DRAFT_AGE_MS: u64 = 3600 * 1000;

/// How gc goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcOptions {
    /// How long to wait for others who have the cache open.
    pub wait: Duration,
    /// Say what would be done and do nothing.
    pub is_dry_run: bool,
}

impl Default for GcOptions {
    fn default() -> GcOptions {
        GcOptions {
            wait: Duration::from_secs(10),
            is_dry_run: false,
        }
    }
}

/// What gc did, or would do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GcReport {
    /// Records that are left.
    pub records_kept: u64,
    /// Records that were superseded or of no use.
    pub records_dead: u64,
    /// Records that were dropped for their age.
    pub records_aged: u64,
    /// Records that were dropped for the size limit.
    pub records_evicted: u64,
    /// Blobs that no record names, younger ones too.
    pub orphans: u64,
    /// Their bytes.
    pub orphan_bytes: u64,
    /// Blobs that were moved into the trash.
    pub blobs_trashed: u64,
    /// Their bytes.
    pub bytes_trashed: u64,
    /// Things that were deleted from the trash.
    pub trash_deleted: u64,
    /// Unfinished files that were deleted.
    pub drafts_deleted: u64,
    /// Segments before.
    pub segments_before: u64,
    /// Whether the records were written anew, which gives them other places.
    pub is_compacted: bool,
    /// Bytes of records and blobs that are left, without the trash.
    pub bytes_left: u64,
}

impl Store {
    pub(crate) fn gc(&self, options: GcOptions) -> Result<GcReport, UpkeepError> {
        let now_ms = self.now_ms();
        let survey = self.survey()?;
        let mut report = GcReport {
            segments_before: survey.segments.len() as u64,
            ..GcReport::default()
        };
        let (lying, foreign) = self.lying_blobs();
        let choice = self.choose(&survey, &lying, now_ms, &mut report);
        // The grace is for records that may be on their way, and gc is alone with the cache: above the limit the limit
        // counts for more.
        let is_old = |modified_ms: u64| {
            choice.is_pressed || now_ms.saturating_sub(modified_ms) >= self.grace_ms()
        };
        let (orphans, used): (Vec<&Lying>, Vec<&Lying>) = lying
            .iter()
            .partition(|lying| !choice.reachable.contains_key(&lying.blob.id));
        report.orphans = orphans.len() as u64;
        report.orphan_bytes = orphans.iter().map(|lying| lying.blob.size).sum();
        let leaving: Vec<&Lying> = orphans
            .into_iter()
            .filter(|lying| is_old(lying.modified_ms) && !self.blobs.is_known(&lying.blob.id))
            .collect();
        report.blobs_trashed = leaving.len() as u64;
        report.bytes_trashed = leaving.iter().map(|lying| lying.blob.size).sum();
        let kept_bytes: u64 = choice
            .keep
            .iter()
            .map(|record| u64::from(record.place.len))
            .sum();
        let ours = survey
            .segments
            .iter()
            .filter(|(_, scan)| scan.header != SegmentHeader::Newer);
        let all_bytes: u64 = ours.map(|(_, scan)| scan.len).sum();
        report.records_kept = choice.keep.len() as u64;
        let blob_bytes = lying.iter().map(|lying| lying.blob.size).sum::<u64>();
        report.bytes_left = kept_bytes + blob_bytes - report.bytes_trashed;
        let is_damaged = survey.segments.iter().any(|(_, scan)| scan.is_damaged());
        let dead_bytes = all_bytes.saturating_sub(kept_bytes + 48 * survey.segments.len() as u64);
        report.is_compacted = dead_bytes * 4 > all_bytes
            || survey.segments.len() > MANY_SEGMENTS
            || (is_damaged && dead_bytes > 0);
        if options.is_dry_run {
            return Ok(report);
        }
        report.trash_deleted = self.empty_trash(&choice.reachable, &used)?;
        if report.is_compacted {
            self.compact(&choice.keep, &survey.segments)?;
        } else {
            let dying = choice
                .drop
                .iter()
                .filter(|record| record.state != State::Dropped);
            let mut places: Vec<Place> = dying.map(|record| record.place).collect();
            places.sort_unstable();
            for places in places.chunk_by(|one, other| one.segment == other.segment) {
                let segment = places[0].segment;
                let path = self.segments.path(segment);
                self.segments
                    .mark(segment, places, State::Dropped)
                    .map_err(|error| UpkeepError::io("mark", &path, error))?;
            }
            let full: HashSet<u64> = choice
                .keep
                .iter()
                .map(|record| record.place.segment)
                .collect();
            for (segment, scan) in &survey.segments {
                if !full.contains(segment) && scan.header != SegmentHeader::Newer {
                    let path = self.segments.path(*segment);
                    self.trash(&path, &format!("seg-{segment:016x}"))?;
                }
            }
        }
        self.rebuild_index()?;
        for lying in &leaving {
            self.trash(&lying.path, &format!("blob-{}", lying.blob.id))?;
        }
        if choice.is_pressed {
            report.trash_deleted += self.empty_trash(&choice.reachable, &used)?;
        }
        for path in foreign.iter().chain(&survey.foreign) {
            self.home.set_aside(path);
        }
        report.drafts_deleted = self.delete_drafts(now_ms);
        self.write_measured(lying.len() as u64 - report.blobs_trashed, {
            blob_bytes - report.bytes_trashed
        });
        Ok(report)
    }

    fn grace_ms(&self) -> u64 {
        self.options.grace.as_millis() as u64
    }

    /// Decides which records stay.
    fn choose<'a>(
        &self,
        survey: &'a Survey,
        lying: &[Lying],
        now_ms: u64,
        report: &mut GcReport,
    ) -> Choice<'a> {
        for record in &survey.records {
            if self.catalog().is_mine(record.place.segment) {
                self.uses.note(record.place);
            }
        }
        let leased = self.uses.all();
        let is_leased = |record: &Surveyed| leased.contains(&record.place);
        let age = |since_ms: u64| now_ms.saturating_sub(since_ms);
        let mut choice = Choice::default();
        let mut seen: HashMap<u64, State> = HashMap::new();
        for record in &survey.records {
            // Of a record and its copy the one that is dead tells the truth about both.
            let state = seen.entry(record.born).or_insert(record.state);
            if record.state != State::Live {
                *state = record.state;
            }
        }
        let mut copies: HashSet<u64> = HashSet::new();
        for record in &survey.records {
            let is_copy = record.state != seen[&record.born] || !copies.insert(record.born);
            let is_dead = is_copy
                || match record.state {
                    State::Live => false,
                    State::Superseded => age(record.stored_at_ms) >= HISTORY_MS,
                    State::Dropped => true,
                };
            let max_age = self.options.max_age.map(|age| age.as_millis() as u64);
            if is_dead {
                report.records_dead += 1;
                choice.drop.push(record);
            } else if max_age.is_some_and(|max| age(record.used_at_ms) > max) && !is_leased(record)
            {
                report.records_aged += 1;
                choice.drop.push(record);
            } else {
                choice.keep.push(record);
            }
        }
        let mut manifests = HashMap::new();
        let mut needs: HashMap<_, Vec<BlobRef>> = HashMap::new();
        for record in &choice.keep {
            let blobs = self.needs(record, &mut manifests).0;
            for blob in &blobs {
                *choice.reachable.entry(blob.id).or_insert(0) += 1;
            }
            needs.insert(record.place, blobs);
        }
        let Some(limit) = self.options.size_limit else {
            return choice;
        };
        let records: u64 = choice
            .keep
            .iter()
            .map(|record| u64::from(record.place.len))
            .sum();
        let blobs: u64 = lying.iter().map(|lying| lying.blob.size).sum();
        let is_pressed = records + blobs > limit;
        choice.is_pressed = is_pressed;
        let is_leaving = |lying: &&Lying| {
            (is_pressed || age(lying.modified_ms) >= self.grace_ms())
                && !choice.reachable.contains_key(&lying.blob.id)
                && !self.blobs.is_known(&lying.blob.id)
        };
        let sizes: HashMap<BlobId, u64> = lying
            .iter()
            .map(|lying| (lying.blob.id, lying.blob.size))
            .collect();
        let leaving: u64 = lying
            .iter()
            .filter(is_leaving)
            .map(|lying| lying.blob.size)
            .sum();
        let mut held = sizes.values().sum::<u64>() - leaving;
        held += choice
            .keep
            .iter()
            .map(|record| u64::from(record.place.len))
            .sum::<u64>();
        let rank = |record: &Surveyed| (record.state == State::Live, record.used_at_ms);
        choice
            .keep
            .sort_by_key(|record| (rank(record), record.place));
        let mut evicted = HashSet::new();
        for record in &choice.keep {
            if held <= limit {
                break;
            }
            if is_leased(record) {
                continue;
            }
            held -= u64::from(record.place.len);
            for blob in &needs[&record.place] {
                let count = choice.reachable.get_mut(&blob.id).expect("counted above");
                *count -= 1;
                if *count == 0 {
                    choice.reachable.remove(&blob.id);
                    held = held.saturating_sub(sizes.get(&blob.id).copied().unwrap_or(0));
                }
            }
            evicted.insert(record.place);
        }
        report.records_evicted = evicted.len() as u64;
        let (drop, keep): (Vec<_>, Vec<_>) = choice
            .keep
            .iter()
            .partition(|record| evicted.contains(&record.place));
        choice.drop.extend(drop);
        choice.keep = keep;
        choice
    }

    /// Deletes what an earlier gc moved into the trash, except what is needed after all.
    fn empty_trash(
        &self,
        reachable: &HashMap<BlobId, u64>,
        used: &[&Lying],
    ) -> Result<u64, UpkeepError> {
        let disk = &self.home.disk;
        let trash = self.home.path("trash");
        let there: HashSet<BlobId> = used.iter().map(|lying| lying.blob.id).collect();
        let mut n_deleted = 0;
        for listed in disk
            .list(&trash)
            .map_err(|error| UpkeepError::io("list", &trash, error))?
        {
            let path = trash.join(&listed.name);
            let id: Option<BlobId> = listed
                .name
                .to_str()
                .and_then(|name| name.strip_prefix("blob-")?.get(..64)?.parse().ok());
            if let Some(id) = id
                && reachable.contains_key(&id)
                && !there.contains(&id)
                && disk.rename(&path, &self.blobs.path(&id)).is_ok()
            {
                continue;
            }
            disk.remove_any(&path)
                .map_err(|error| UpkeepError::io("delete", &path, error))?;
            n_deleted += 1;
        }
        Ok(n_deleted)
    }

    /// Deletes files that a killed process left unfinished.
    fn delete_drafts(&self, now_ms: u64) -> u64 {
        let disk = &self.home.disk;
        let mut n_deleted = 0;
        let mut sweep = |folder: &Path, prefix: &str| {
            for listed in disk.list(folder).unwrap_or_default() {
                let path = folder.join(&listed.name);
                let is_draft = listed.name.to_string_lossy().starts_with(prefix);
                let is_old = disk.stat(&path).is_ok_and(|metadata| {
                    now_ms.saturating_sub(disk::modified_ms(&metadata)) >= DRAFT_AGE_MS
                });
                if is_draft && is_old && disk.remove_any(&path).is_ok() {
                    n_deleted += 1;
                }
            }
        };
        sweep(&self.blobs.drafts(), "");
        sweep(&self.home.dir, "tmp-");
        n_deleted
    }
}

#[derive(Default)]
struct Choice<'a> {
    keep: Vec<&'a Surveyed>,
    drop: Vec<&'a Surveyed>,
    /// How many kept records need each blob.
    reachable: HashMap<BlobId, u64>,
    /// Whether what lies there is more than the limit allows.
    is_pressed: bool,
}
