//! Faults of the file system: nothing acknowledged is lost, nothing wrong is given, no run fails.

use aebuild_cache::hooks::{Op, Space};
use aebuild_cache::{Notice, OpenError, Restored, StatMemo, StoreError};

use crate::*;

/// A script of everything that writes; returns what was acknowledged.
fn script(cache: &Cache, folder: &Path) -> Vec<(u64, &'static str)> {
    let mut acked = Vec::new();
    let blob = cache.put_blob(b"a blob").ok();
    let with_blob = NewRecord {
        blobs: blob.into_iter().collect(),
        ..record(1, 10, "one")
    };
    let is_whole = blob.is_some() && cache.append(with_blob).is_ok();
    if is_whole && cache.flush().is_ok() {
        acked.push((1, "one"));
    }
    let tree = cache.store_tree(folder, &mut StatMemo::new()).ok();
    let trees: Vec<BlobRef> = tree.iter().map(|tree| tree.manifest).collect();
    let is_whole = !trees.is_empty()
        && cache
            .append(NewRecord {
                trees,
                ..record(2, 20, "two")
            })
            .is_ok()
        && cache.append(record(3, 30, "three")).is_ok();
    if is_whole && cache.flush().is_ok() {
        acked.extend([(2, "two"), (3, "three")]);
    }
    let place = cache.append(superseding(1, 10, "newer")).ok();
    if place.is_some() && cache.flush().is_ok() {
        acked.retain(|(key, _)| *key != 1);
        acked.push((1, "newer"));
    }
    if let Some(record) = cache.by_key(&digest(3)).first()
        && cache.drop_record(record.place).is_ok()
    {
        acked.retain(|(key, _)| *key != 3);
    }
    acked
}

fn check(room: &Room, acked: &[(u64, &str)], context: &str) {
    let cache = room.open();
    for (key, payload) in acked {
        let found = cache.by_key(&digest(*key));
        // Key 3 may be dropped although that was not acknowledged.
        assert!(
            found.len() == 1 || *key == 3,
            "{context}: key {key} was lost"
        );
        for record in found {
            let is_newer = *key == 1 && record.payload[..] == *b"newer";
            assert!(
                is_newer || record.payload[..] == *payload.as_bytes(),
                "{context}: key {key}"
            );
            for blob in &record.blobs {
                assert!(
                    cache.get_blob(blob).is_some(),
                    "{context}: a blob of {key} was lost"
                );
            }
            for tree in &record.trees {
                let to = room.path("restored");
                assert_eq!(
                    cache.restore_tree(tree, &to).unwrap(),
                    Restored::Done,
                    "{context}"
                );
                std::fs::remove_dir_all(to).unwrap();
            }
        }
    }
    assert!(payloads(&cache, 3).iter().all(|payload| payload == "three"));
}

fn folder(room: &Room) -> PathBuf {
    let folder = room.path("folder");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::fs::write(folder.join("a"), "alpha").unwrap();
    std::fs::write(folder.join("sub/b"), "beta").unwrap();
    folder
}

fn each_op(mut arm: impl FnMut(&Faults, u64), durability: Durability) {
    let mut n = 1;
    loop {
        let room = Room::new();
        let folder = folder(&room);
        let faults = Arc::new(Faults::default());
        let options = Options {
            durability,
            ..fast()
        };
        let hooks = Hooks {
            faults: Some(faults.clone()),
            clock: None,
        };
        let cache = Cache::open_with(&room.dir, options, hooks).unwrap();
        arm(&faults, n);
        let acked = script(&cache, &folder);
        let is_through = cache.notices().is_empty() && acked.len() == 2;
        // In a crash nothing is flushed on the way out either: the faults stay.
        drop(cache);
        check(&room, &acked, &format!("operation {n}"));
        // And the next run stores everything.
        let acked = script(&room.open(), &folder);
        assert_eq!(acked.len(), 2, "operation {n}: not healed");
        if is_through && n > 60 {
            return;
        }
        n += 1;
    }
}

#[test]
fn a_crash_at_any_operation_loses_nothing_acknowledged() {
    each_op(|faults, n| faults.crash_at(n), Durability::Durable);
}

#[test]
fn an_error_of_any_operation_loses_nothing_acknowledged() {
    for (op, errno) in [
        (Op::Write, 28),
        (Op::Write, 5),
        (Op::Sync, 5),
        (Op::Rename, 5),
    ] {
        for n in 1..12 {
            let room = Room::new();
            let folder = folder(&room);
            let faults = Arc::new(Faults::default());
            let hooks = Hooks {
                faults: Some(faults.clone()),
                clock: None,
            };
            let options = Options {
                free_reserve: 0,
                ..Options::default()
            };
            let cache = Cache::open_with(&room.dir, options, hooks).unwrap();
            faults.fail_nth(op, n, errno);
            let acked = script(&cache, &folder);
            drop(cache);
            check(&room, &acked, &format!("{op:?} {n} with {errno}"));
            assert_eq!(script(&room.open(), &folder).len(), 2);
        }
    }
}

#[test]
fn a_full_disk_turns_storing_off_and_says_so_once() {
    let room = Room::new();
    let faults = Arc::new(Faults::default());
    let cache = room.open_with(&faults);
    cache.append(record(1, 10, "one")).unwrap();
    cache.flush().unwrap();
    faults.fail_from(Op::Write, 1, 28);
    let error = cache.put_blob(b"blob").unwrap_err();
    assert!(error.is_full(), "{error}");
    for n in 2..200 {
        let error = cache.append(record(n, n, "x")).unwrap_err();
        assert!(matches!(error, StoreError::Off { .. }), "{error}");
    }
    assert!(matches!(
        cache.put_blob(b"other"),
        Err(StoreError::Off { .. })
    ));
    let notices = cache.notices();
    assert!(
        matches!(notices[..], [Notice::StoringOff { .. }]),
        "{notices:?}"
    );
    assert_eq!(payloads(&cache, 1), ["one"]);
    drop(cache);
    assert_eq!(payloads(&room.open(), 1), ["one"]);
    assert!(
        list(&room.dir.join("blobs/tmp")).is_empty(),
        "no draft is left"
    );
}

#[test]
fn records_that_could_not_be_written_are_not_found() {
    let room = Room::new();
    let faults = Arc::new(Faults::default());
    let cache = room.open_with(&faults);
    cache.append(record(1, 10, "one")).unwrap();
    cache.flush().unwrap();
    cache.append(record(2, 20, "two")).unwrap();
    faults.fail_from(Op::Write, 1, 28);
    // The background writer may be first; then `flush` gives what it met.
    let error = cache.flush().unwrap_err();
    let is_told = error.is_full() || matches!(error, StoreError::Off { .. });
    assert!(is_told, "{error}");
    drop(cache);
    let cache = room.open();
    assert_eq!(payloads(&cache, 1), ["one"]);
    assert!(cache.verify(true).unwrap().is_clean());
}

#[test]
fn short_writes_are_written_on() {
    let room = Room::new();
    let faults = Arc::new(Faults::default());
    faults.shorten_writes();
    let cache = room.open_with(&faults);
    let big = vec![9; 1 << 20];
    let blob = cache.put_blob(&big).unwrap();
    for n in 0..300 {
        cache.append(record(n, n, &"x".repeat(1000))).unwrap();
    }
    drop(cache);
    let cache = room.open();
    assert_eq!(cache.get_blob(&blob), Some(big));
    assert_eq!(payloads(&cache, 299).len(), 1);
    assert!(cache.verify(true).unwrap().is_clean());
}

#[test]
fn nothing_is_stored_when_little_room_is_left() {
    let room = Room::new();
    let faults = Arc::new(Faults::default());
    let total = 100 << 30;
    faults.set_space(Space {
        free: (1 << 30) - 1,
        total,
        magic: 0xef53,
    });
    let options = Options {
        free_reserve: 256 << 20,
        ..fast()
    };
    let hooks = Hooks {
        faults: Some(faults.clone()),
        clock: None,
    };
    let cache = Cache::open_with(&room.dir, options.clone(), hooks.clone()).unwrap();
    let error = cache.put_blob(b"blob").unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Full {
                needed: 1_073_741_824,
                ..
            }
        ),
        "{error}"
    );
    assert!(cache.append(record(1, 10, "one")).is_err());
    assert_eq!(cache.notices().len(), 1);
    drop(cache);
    faults.set_space(Space {
        free: 1 << 30,
        total,
        magic: 0xef53,
    });
    Cache::open_with(&room.dir, options, hooks)
        .unwrap()
        .put_blob(b"blob")
        .unwrap();
}

#[test]
fn a_network_file_system_is_named_once() {
    let room = Room::new();
    let faults = Arc::new(Faults::default());
    faults.set_space(Space {
        free: 1 << 40,
        total: 1 << 41,
        magic: 0x6969,
    });
    let cache = room.open_with(&faults);
    let notice = Notice::NetworkFileSystem {
        path: room.dir.clone(),
        kind: "NFS",
    };
    assert_eq!(cache.notices(), [notice]);
    assert_eq!(cache.notices(), []);
}

fn check_read_only(cache: &Cache, room: &Room, blob: &BlobRef, tree: &BlobRef) {
    assert_eq!(payloads(cache, 1), ["one"]);
    assert!(cache.get_blob(blob).is_some());
    let to = room.path("restored");
    assert_eq!(cache.restore_tree(tree, &to).unwrap(), Restored::Done);
    std::fs::remove_dir_all(to).unwrap();
    assert!(matches!(
        cache.put_blob(b"blob"),
        Err(StoreError::ReadOnly { .. })
    ));
    let refused = cache.append(record(2, 20, "two")).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused}");
    cache.flush().unwrap();
    assert!(cache.gc(Default::default()).is_err());
    assert_eq!(
        cache.notices(),
        [Notice::ReadOnly {
            path: room.dir.clone()
        }]
    );
}

fn filled() -> (Room, BlobRef, BlobRef) {
    let room = Room::new();
    let cache = room.open();
    let blob = cache.put_blob(b"blob").unwrap();
    let tree = cache
        .store_tree(&folder(&room), &mut StatMemo::new())
        .unwrap()
        .manifest;
    cache.append(record(1, 10, "one")).unwrap();
    drop(cache);
    (room, blob, tree)
}

#[test]
fn a_read_only_cache_gives_hits_and_stores_nothing() {
    let (room, blob, tree) = filled();
    let faults = Arc::new(Faults::default());
    faults.fail_nth(Op::Create, 1, 30);
    let cache = room.open_with(&faults);
    check_read_only(&cache, &room, &blob, &tree);
}

#[test]
fn a_cache_on_a_read_only_mount_gives_hits_and_stores_nothing() {
    let (room, blob, tree) = filled();
    let mount = |args: &[&str]| {
        let status = std::process::Command::new("mount")
            .args(args)
            .arg(&room.dir)
            .output();
        status.is_ok_and(|output| output.status.success())
    };
    let dir = room.dir.to_str().unwrap();
    if !mount(&["--bind", dir]) {
        eprintln!("NOT TESTED: this place allows no bind mounts");
        return;
    }
    if mount(&["-o", "remount,ro,bind"]) {
        let cache = room.open();
        check_read_only(&cache, &room, &blob, &tree);
        // Damage cannot be set aside here; it is a miss all the same.
        drop(cache);
    } else {
        eprintln!("NOT TESTED: this place allows no read-only mounts");
    }
    let status = std::process::Command::new("umount")
        .arg(&room.dir)
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_disk_that_fails_while_opening_is_a_typed_error_or_a_read_only_cache() {
    for n in 1..20 {
        for errno in [5, 13, 28, 30] {
            let room = Room::new();
            let faults = Arc::new(Faults::default());
            faults.fail_nth(Op::Create, n, errno);
            let hooks = Hooks {
                faults: Some(faults),
                clock: None,
            };
            match Cache::open_with(&room.dir, fast(), hooks) {
                Ok(cache) => drop(cache),
                Err(OpenError::Io { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            let cache = room.open();
            cache.append(record(1, 10, "one")).unwrap();
            assert_eq!(payloads(&cache, 1), ["one"]);
        }
    }
}

#[test]
fn a_key_or_format_that_cannot_be_read_just_now_is_not_replaced() {
    for n in 1..6 {
        let (room, ..) = filled();
        let faults = Arc::new(Faults::default());
        faults.fail_nth(Op::Read, n, 24);
        let hooks = Hooks {
            faults: Some(faults),
            clock: None,
        };
        match Cache::open_with(&room.dir, fast(), hooks) {
            Ok(cache) => drop(cache),
            Err(error) => assert!(matches!(error, OpenError::Io { .. }), "{error}"),
        }
        assert_eq!(payloads(&room.open(), 1), ["one"], "read {n}");
    }
}

#[test]
fn a_crash_at_any_operation_of_a_gc_loses_no_record() {
    let mut n = 1;
    loop {
        let room = Room::new();
        let folder = folder(&room);
        let clock = TestClock::now();
        for round in 0..3 {
            clock.advance(1);
            let cache = Cache::open_with(&room.dir, fast(), clock.hooks()).unwrap();
            for key in 0..6 {
                let blob = cache.put_blob(format!("blob {key}").as_bytes()).unwrap();
                let new = record(key, key, &format!("{key} in {round}"));
                let new = NewRecord {
                    blobs: vec![blob],
                    supersedes: key < 4,
                    ..new
                };
                cache.append(new).unwrap();
            }
            cache
                .put_blob(format!("orphan {round}").as_bytes())
                .unwrap();
        }
        let cache = room.open();
        let tree = cache
            .store_tree(&folder, &mut StatMemo::new())
            .unwrap()
            .manifest;
        cache
            .append(NewRecord {
                trees: vec![tree],
                ..record(9, 9, "tree")
            })
            .unwrap();
        drop(cache);
        let faults = Arc::new(Faults::default());
        clock.advance(40 * 24 * 3600 * 1000);
        let hooks = Hooks {
            faults: Some(faults.clone()),
            ..clock.hooks()
        };
        let cache = Cache::open_with(&room.dir, fast(), hooks).unwrap();
        faults.crash_at(n);
        let is_through = cache.gc(Default::default()).is_ok();
        drop(cache);
        let check = || {
            let cache = room.open();
            for key in 0..6 {
                let round = if key < 4 { 2 } else { 0 };
                let found = cache.by_key(&digest(key));
                assert_eq!(found.len(), 1, "operation {n}, key {key}");
                assert_eq!(
                    found[0].payload[..],
                    *format!("{key} in {round}").as_bytes()
                );
                assert!(cache.get_blob(&found[0].blobs[0]).is_some());
            }
            assert!(cache.has_tree(&tree), "operation {n}");
            cache
        };
        check().gc(Default::default()).unwrap();
        let cache = check();
        assert_eq!(
            cache.by_lineage(&digest(7009)).len(),
            1,
            "operation {n}: a copy is left"
        );
        let report = cache.verify(true).unwrap();
        assert!(report.is_clean(), "operation {n}: {report:?}");
        if is_through && n > 10 {
            return;
        }
        n += 1;
    }
}
