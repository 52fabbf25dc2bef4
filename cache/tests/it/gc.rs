//! What gc keeps and what it drops.

use aebuild_cache::{GcOptions, StatMemo, UpkeepError};
use std::time::Duration;

use crate::*;

const DAY: u64 = 24 * 3600 * 1000;

fn at_once() -> GcOptions {
    GcOptions {
        wait: Duration::ZERO,
        is_dry_run: false,
    }
}

fn open(room: &Room, clock: &TestClock, options: Options) -> Cache {
    Cache::open_with(&room.dir, options, clock.hooks()).unwrap()
}

#[test]
fn a_blob_without_a_record_goes_after_the_grace_time_in_two_phases() {
    let room = Room::new();
    let clock = TestClock::now();
    let cache = open(&room, &clock, fast());
    let orphan = cache.put_blob(b"orphan").unwrap();
    let named = cache.put_blob(b"named").unwrap();
    cache
        .append(NewRecord {
            blobs: vec![named],
            ..record(1, 10, "one")
        })
        .unwrap();
    drop(cache);
    let gc = || open(&room, &clock, fast()).gc(at_once()).unwrap();
    let report = gc();
    assert_eq!(
        (report.orphans, report.blobs_trashed),
        (1, 0),
        "younger than the grace time"
    );
    clock.advance(DAY + 1000);
    let report = gc();
    assert_eq!(
        (report.orphans, report.blobs_trashed, report.bytes_trashed),
        (1, 1, 6)
    );
    assert!(!room.blob_path(&orphan).exists());
    assert_eq!(list(&room.dir.join("trash")).len(), 1);
    let report = gc();
    assert_eq!((report.orphans, report.trash_deleted), (0, 1));
    assert!(list(&room.dir.join("trash")).is_empty());
    let cache = open(&room, &clock, fast());
    assert_eq!(cache.get_blob(&named).as_deref(), Some(&b"named"[..]));
    assert!(cache.verify(true).unwrap().is_clean());
}

#[test]
fn a_blob_in_the_trash_comes_back_if_a_record_names_it_after_all() {
    let room = Room::new();
    let clock = TestClock::now();
    let cache = open(&room, &clock, fast());
    let blob = cache.put_blob(b"late").unwrap();
    drop(cache);
    clock.advance(2 * DAY);
    open(&room, &clock, fast()).gc(at_once()).unwrap();
    let cache = open(&room, &clock, fast());
    assert!(!cache.has_blob(&blob));
    cache
        .append(NewRecord {
            blobs: vec![blob],
            ..record(1, 10, "one")
        })
        .unwrap();
    cache.gc(at_once()).unwrap();
    assert_eq!(cache.get_blob(&blob).as_deref(), Some(&b"late"[..]));
}

#[test]
fn what_this_process_stored_is_never_deleted() {
    let room = Room::new();
    let clock = TestClock::now();
    let options = Options {
        size_limit: Some(0),
        max_age: Some(Duration::from_secs(1)),
        grace: Duration::ZERO,
        ..fast()
    };
    let cache = open(&room, &clock, options.clone());
    let blob = cache.put_blob(b"not yet named").unwrap();
    cache.append(record(1, 10, "mine")).unwrap();
    for _ in 0..3 {
        clock.advance(DAY);
        cache.gc(at_once()).unwrap();
        assert_eq!(payloads(&cache, 1), ["mine"]);
        assert!(cache.get_blob(&blob).is_some());
    }
    drop(cache);
    clock.advance(DAY);
    let cache = open(&room, &clock, options);
    cache.gc(at_once()).unwrap();
    assert_eq!(payloads(&cache, 1), [""; 0]);
    assert!(!cache.has_blob(&blob));
}

#[test]
fn records_that_were_not_used_for_long_go_and_used_ones_stay() {
    let room = Room::new();
    let clock = TestClock::now();
    let options = Options {
        max_age: Some(Duration::from_secs(10 * 24 * 3600)),
        ..fast()
    };
    let cache = open(&room, &clock, options.clone());
    let mut places = Vec::new();
    for n in 0..3 {
        places.push(cache.append(record(n, n, &n.to_string())).unwrap());
    }
    drop(cache);
    clock.advance(8 * DAY);
    let cache = open(&room, &clock, options.clone());
    assert_eq!(payloads(&cache, 0), ["0"]);
    cache.note_used(places[0]);
    assert!(cache.has_places(&places[1..2]));
    drop(cache);
    clock.advance(8 * DAY);
    let report = open(&room, &clock, options.clone()).gc(at_once()).unwrap();
    assert_eq!((report.records_kept, report.records_aged), (2, 1));
    let cache = open(&room, &clock, options.clone());
    let found: Vec<_> = (0..3).flat_map(|n| payloads(&cache, n)).collect();
    assert_eq!(found, ["0", "1"]);
    drop(cache);
    clock.advance(11 * DAY);
    let report = open(&room, &clock, options).gc(at_once()).unwrap();
    assert_eq!(report.records_kept, 0, "the uses of long ago do not count");
}

#[test]
fn over_the_size_limit_the_least_used_go_first_and_shared_blobs_stay() {
    let room = Room::new();
    let clock = TestClock::now();
    let cache = open(&room, &clock, fast());
    let shared = cache.put_blob(&[0; 1000]).unwrap();
    for n in 1..=10 {
        let own = cache.put_blob(&[n as u8; 1000]).unwrap();
        cache
            .append(NewRecord {
                blobs: vec![own, shared],
                ..record(n, n, "x")
            })
            .unwrap();
        clock.advance(1000);
    }
    drop(cache);
    clock.advance(2 * DAY);
    let limit = Options {
        size_limit: Some(6500),
        ..fast()
    };
    let cache = open(&room, &clock, limit.clone());
    cache.note_used(cache.by_key(&digest(1))[0].place);
    drop(cache);
    let plan = GcOptions {
        is_dry_run: true,
        ..at_once()
    };
    let planned = open(&room, &clock, limit.clone()).gc(plan).unwrap();
    let report = open(&room, &clock, limit.clone()).gc(at_once()).unwrap();
    assert_eq!(planned.records_evicted, report.records_evicted);
    assert!(report.bytes_left <= 6500, "{report:?}");
    let cache = open(&room, &clock, limit);
    let kept: Vec<u64> = (1..=10)
        .filter(|n| !payloads(&cache, *n).is_empty())
        .collect();
    assert_eq!(kept, [1, 8, 9, 10], "number 1 was used last");
    assert!(cache.has_blob(&shared));
    assert!(cache.verify(true).unwrap().is_clean());
}

#[test]
fn trees_keep_their_files() {
    let room = Room::new();
    let clock = TestClock::now();
    let folder = room.path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a"), "alpha").unwrap();
    let cache = open(&room, &clock, fast());
    let named = cache
        .store_tree(&folder, &mut StatMemo::new())
        .unwrap()
        .manifest;
    std::fs::write(folder.join("a"), "omega").unwrap();
    let orphan = cache
        .store_tree(&folder, &mut StatMemo::new())
        .unwrap()
        .manifest;
    cache
        .append(NewRecord {
            trees: vec![named],
            ..record(1, 10, "one")
        })
        .unwrap();
    drop(cache);
    clock.advance(2 * DAY);
    let cache = open(&room, &clock, fast());
    assert_eq!(cache.gc(at_once()).unwrap().blobs_trashed, 2);
    assert!(cache.has_tree(&named) && !cache.has_tree(&orphan));
}

#[test]
fn compaction_keeps_what_counts_and_those_who_read() {
    let room = Room::new();
    let clock = TestClock::now();
    for round in 0..20 {
        let cache = open(&room, &clock, fast());
        for n in 0..20 {
            cache
                .append(superseding(n, n, &format!("{n} in round {round}")))
                .unwrap();
        }
    }
    clock.advance(31 * DAY);
    let cache = open(&room, &clock, fast());
    let report = cache.gc(at_once()).unwrap();
    assert!(report.is_compacted);
    assert_eq!((report.records_kept, report.records_dead), (20, 380));
    let check = |cache: &Cache| {
        for n in 0..20 {
            assert_eq!(payloads(cache, n), [format!("{n} in round 19")]);
        }
    };
    check(&cache);
    drop(cache);
    check(&open(&room, &clock, fast()));
    assert_eq!(room.segments().len(), 1);
    assert!(!room.dir.join("marks").exists());
}

#[test]
fn gc_waits_for_others_and_says_who_they_are() {
    let room = Room::new();
    let (cache, _other) = (room.open(), room.open());
    let Err(UpkeepError::Busy { holders, .. }) = cache.gc(at_once()) else {
        panic!("gc ran beside another run")
    };
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].pid, std::process::id());
    // And the cache goes on working.
    cache.append(record(1, 10, "one")).unwrap();
    assert_eq!(payloads(&cache, 1), ["one"]);
}

#[test]
fn unfinished_files_are_deleted_after_an_hour() {
    let room = Room::new();
    let clock = TestClock::now();
    open(&room, &clock, fast()).put_blob(b"x").unwrap();
    std::fs::write(room.dir.join("blobs/tmp/draft"), "half").unwrap();
    std::fs::write(room.dir.join("tmp-0123"), "half").unwrap();
    let gc = || {
        open(&room, &clock, fast())
            .gc(at_once())
            .unwrap()
            .drafts_deleted
    };
    assert_eq!(gc(), 0);
    clock.advance(3600 * 1000 + 5000);
    assert_eq!(gc(), 2);
}

#[test]
fn clearing_removes_everything_and_storing_goes_on() {
    let room = Room::new();
    let cache = room.open();
    let blob = cache.put_blob(b"blob").unwrap();
    let place = cache.append(record(1, 10, "one")).unwrap();
    cache.clear().unwrap();
    assert_eq!(payloads(&cache, 1), [""; 0]);
    assert!(!cache.has_blob(&blob) && !cache.has_places(&[place]));
    assert!(list(&room.dir.join("trash")).is_empty());
    cache.append(record(1, 10, "two")).unwrap();
    cache.put_blob(b"blob").unwrap();
    drop(cache);
    let cache = room.open();
    assert_eq!(payloads(&cache, 1), ["two"]);
    assert!(cache.has_blob(&blob));
}

#[test]
fn repair_sets_damage_aside_and_keeps_the_rest() {
    let room = Room::new();
    let cache = room.open();
    let (good, bad, gone) = (
        cache.put_blob(b"good").unwrap(),
        cache.put_blob(b"bad").unwrap(),
        BlobRef::of(b"gone"),
    );
    for (n, blob) in [good, bad, gone].into_iter().enumerate() {
        let n = n as u64;
        cache
            .append(NewRecord {
                blobs: vec![blob],
                ..record(n, n, "x")
            })
            .unwrap();
    }
    drop(cache);
    std::fs::write(room.blob_path(&bad), "BAD").unwrap();
    std::fs::write(room.dir.join("records/readme.txt"), "hello").unwrap();
    std::fs::write(room.dir.join("index"), "nonsense").unwrap();
    let mut bytes = std::fs::read(room.segments().remove(0)).unwrap();
    bytes.extend(b"half a frame");
    std::fs::write(room.segments().remove(0), bytes).unwrap();
    let cache = room.open();
    let report = cache.verify(true).unwrap();
    assert!(!report.is_clean());
    assert_eq!(
        (
            report.records,
            report.records_incomplete,
            report.blobs_damaged
        ),
        (3, 2, 1)
    );
    assert_eq!((report.torn_ends, report.foreign), (1, 1));
    let repaired = cache.repair().unwrap();
    assert_eq!((repaired.blobs_set_aside, repaired.records_dropped), (1, 2));
    let report = cache.verify(true).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.records, 1);
    assert_eq!(payloads(&cache, 0), ["x"]);
    assert_eq!(payloads(&cache, 1), [""; 0]);
}

#[test]
fn the_figures_are_cheap_and_right() {
    let room = Room::new();
    let cache = room.open();
    cache.put_blob(&[1; 100]).unwrap();
    cache.append(record(1, 10, "one")).unwrap();
    cache.flush().unwrap();
    let stats = cache.stats();
    assert_eq!((stats.records, stats.segments, stats.blobs), (1, 1, None));
    cache.gc(at_once()).unwrap();
    let blobs = cache.stats().blobs.unwrap();
    assert_eq!((blobs.count, blobs.bytes), (1, 100));
}

#[test]
fn the_same_uses_are_written_down_once_a_day() {
    let room = Room::new();
    let clock = TestClock::now();
    let cache = open(&room, &clock, fast());
    let places: Vec<_> = (0..5)
        .map(|n| cache.append(record(n, n, "x")).unwrap())
        .collect();
    drop(cache);
    let uses = || {
        let cache = open(&room, &clock, fast());
        assert!(cache.has_places(&places));
        drop(cache);
        let files = list(&room.dir.join("uses"));
        assert_eq!(files.len(), 1);
        std::fs::read(&files[0]).unwrap()
    };
    let first = uses();
    clock.advance(DAY / 2);
    assert_eq!(uses(), first);
    clock.advance(DAY);
    assert_ne!(uses(), first);
}

#[test]
fn gc_is_due_when_records_are_scattered_or_a_day_has_passed() {
    let room = Room::new();
    let clock = TestClock::now();
    let cache = open(&room, &clock, fast());
    assert!(!cache.is_gc_due(), "there is nothing");
    cache.append(record(1, 1, "x")).unwrap();
    cache.gc(at_once()).unwrap();
    assert!(!cache.is_gc_due());
    clock.advance(DAY + 1);
    assert!(cache.is_gc_due());
    cache.gc(at_once()).unwrap();
    drop(cache);
    for n in 0..70 {
        open(&room, &clock, fast())
            .append(record(n, n, "x"))
            .unwrap();
    }
    let cache = open(&room, &clock, fast());
    assert!(cache.is_gc_due());
    assert!(cache.gc(at_once()).unwrap().is_compacted);
    assert!(!cache.is_gc_due());
    assert_eq!(room.segments().len(), 1);
}
