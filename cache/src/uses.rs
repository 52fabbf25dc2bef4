//! Which records were used when, so that gc drops those that nobody needs.
//!
//! A run writes one small file that names what it used, and not even that if a run of the last day
//! used the same. Losing it costs nothing but a worse choice in gc.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use crate::disk;
use crate::format::Reader;
use crate::home::{Access, Home, Sync};
use crate::record::{Place, hex};

/// The same set is not written again within this time.
const FRESH_MS: u64 = 24 * 3600 * 1000;
const MAX_FILE: u64 = 256 << 20;
const MAX_SETS: usize = 8;

/// What this process used.
#[derive(Default)]
pub(crate) struct Uses {
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    single: BTreeSet<Place>,
    sets: Vec<Box<[Place]>>,
}

impl Uses {
    pub(crate) fn note(&self, place: Place) {
        self.noted
            .lock()
            .expect("no holder panics")
            .single
            .insert(place);
    }

    pub(crate) fn note_set(&self, places: &[Place]) {
        let mut noted = self.noted.lock().expect("no holder panics");
        if noted.sets.iter().any(|set| **set == *places) {
            return;
        }
        if noted.sets.len() == MAX_SETS {
            let merged: Vec<Place> = noted.sets.drain(..).flatten().collect();
            noted.single.extend(merged);
        }
        noted.sets.push(places.into());
    }

    /// Returns everything that this process used.
    pub(crate) fn all(&self) -> BTreeSet<Place> {
        let noted = self.noted.lock().expect("no holder panics");
        noted
            .single
            .iter()
            .chain(noted.sets.iter().flatten())
            .copied()
            .collect()
    }

    /// Writes down what was used.
    pub(crate) fn write(&self, home: &Home, now_ms: u64) {
        let noted = std::mem::take(&mut *self.noted.lock().expect("no holder panics"));
        if home.access != Access::Full {
            return;
        }
        let single: Vec<Place> = noted.single.into_iter().collect();
        for set in noted.sets.iter().map(|set| &set[..]).chain([&single[..]]) {
            if set.is_empty() {
                continue;
            }
            let mut bytes = Vec::with_capacity(24 + set.len() * 16);
            for place in set {
                bytes.extend(place.segment.to_le_bytes());
                bytes.extend(place.offset.to_le_bytes());
            }
            let digest = blake3::hash(&bytes);
            let name = format!("uses/{}", hex(&digest.as_bytes()[..16]));
            let is_fresh = home
                .disk
                .stat(&home.path(&name))
                .is_ok_and(|metadata| now_ms.abs_diff(disk::modified_ms(&metadata)) < FRESH_MS);
            if !is_fresh {
                bytes.extend(now_ms.to_le_bytes());
                let digest = blake3::hash(&bytes);
                bytes.extend(&digest.as_bytes()[..16]);
                let _ = home.put_in_place(&name, &bytes, Sync::Never);
            }
        }
    }
}

/// Reads when each record was used last, and removes files that say nothing of use.
pub(crate) fn read(home: &Home) -> HashMap<(u64, u64), u64> {
    let mut uses = HashMap::new();
    for listed in home.disk.list(&home.path("uses")).unwrap_or_default() {
        let path = home.path("uses").join(&listed.name);
        if read_one(home, &path, &mut uses).is_none() {
            let _ = home.disk.remove_any(&path);
        }
    }
    uses
}

fn read_one(
    home: &Home,
    path: &std::path::Path,
    uses: &mut HashMap<(u64, u64), u64>,
) -> Option<()> {
    let bytes = home.disk.read_small(path, MAX_FILE).ok()?;
    let (body, check) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
    if blake3::hash(body).as_bytes()[..16] != *check {
        return None;
    }
    let (places, time) = body.split_at_checked(body.len().checked_sub(8)?)?;
    let used_at_ms = Reader(time).u64()?;
    let mut reader = Reader(places);
    while !reader.0.is_empty() {
        let place = (reader.u64()?, reader.u64()?);
        let last = uses.entry(place).or_insert(used_at_ms);
        *last = used_at_ms.max(*last);
    }
    Some(())
}
