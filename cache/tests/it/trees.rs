//! Folders stored, restored and rolled back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use aebuild_cache::{Restored, StatMemo, Symlinks, TreeError};
use proptest::prelude::*;

use crate::*;

fn write(path: &Path, bytes: &[u8], mode: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn sample(dir: &Path) {
    write(&dir.join("a.txt"), b"alpha", 0o644);
    write(&dir.join("bin/run"), b"#!/bin/sh\n", 0o755);
    write(&dir.join("big"), &vec![7; 300_000], 0o600);
    write(&dir.join("sub/deep/empty.txt"), b"", 0o644);
    write(&dir.join("sub-x"), b"sorts between sub and sub/", 0o644);
    write(
        &dir.join(OsStr::from_bytes(b"not \xff utf-8")),
        b"name",
        0o644,
    );
    std::fs::create_dir_all(dir.join("empty/inner")).unwrap();
    symlink("../a.txt", dir.join("sub/link")).unwrap();
    symlink("/nowhere/else", dir.join("absolute")).unwrap();
}

/// Everything in a folder as lines, to compare folders.
fn describe(dir: &Path) -> Vec<String> {
    fn go(dir: &Path, prefix: &str, lines: &mut Vec<String>) {
        for path in list(dir) {
            let name = format!("{prefix}{:?}", path.file_name().unwrap());
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            if metadata.is_symlink() {
                lines.push(format!(
                    "{name} -> {:?}",
                    std::fs::read_link(&path).unwrap()
                ));
            } else if metadata.is_dir() {
                lines.push(format!("{name}/"));
                go(&path, &format!("{name}/"), lines);
            } else {
                let id = BlobRef::of(&std::fs::read(&path).unwrap()).id;
                lines.push(format!("{name} {:o} {id}", metadata.mode() & 0o100));
            }
        }
    }
    let mut lines = Vec::new();
    go(dir, "", &mut lines);
    lines
}

#[test]
fn a_folder_comes_back_as_it_was() {
    let room = Room::new();
    let (from, to) = (room.path("from"), room.path("to"));
    sample(&from);
    let cache = room.open();
    let tree = cache.store_tree(&from, &mut StatMemo::new()).unwrap();
    assert_eq!((tree.files, tree.bytes), (6, 5 + 10 + 300_000 + 26 + 4));
    assert!(cache.has_tree(&tree.manifest));
    assert_eq!(
        Cache::digest_tree(&from, &mut StatMemo::new()).unwrap(),
        tree.manifest
    );
    assert_eq!(
        cache.restore_tree(&tree.manifest, &to).unwrap(),
        Restored::Done
    );
    assert_eq!(describe(&from), describe(&to));
    assert_eq!(
        std::fs::metadata(to.join("big")).unwrap().mode() & 0o7777,
        0o644
    );
    assert_eq!(
        std::fs::metadata(to.join("bin/run")).unwrap().mode() & 0o7777,
        0o755
    );
    assert_eq!(std::fs::metadata(&to).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(
        Cache::digest_tree(&to, &mut StatMemo::new()).unwrap(),
        tree.manifest
    );
    assert_eq!(list(room.temp.path()).len(), 3, "no stage is left");
}

#[test]
fn a_restored_file_is_not_the_caches_own() {
    let room = Room::new();
    let (from, to) = (room.path("from"), room.path("to"));
    sample(&from);
    let cache = room.open();
    let tree = cache.store_tree(&from, &mut StatMemo::new()).unwrap();
    cache.restore_tree(&tree.manifest, &to).unwrap();
    std::fs::write(to.join("a.txt"), b"omega").unwrap();
    std::fs::write(to.join("big"), b"omega").unwrap();
    assert!(cache.verify(true).unwrap().is_clean());
}

#[test]
fn a_missing_or_damaged_blob_leaves_the_destination_untouched() {
    let room = Room::new();
    let (from, to) = (room.path("from"), room.path("to"));
    sample(&from);
    let cache = room.open();
    let tree = cache.store_tree(&from, &mut StatMemo::new()).unwrap();
    let alpha = BlobRef::of(b"alpha");
    std::fs::write(room.blob_path(&alpha), b"alphx").unwrap();
    assert!(cache.has_tree(&tree.manifest), "by name and size only");
    let missed = cache.restore_tree(&tree.manifest, &to).unwrap();
    assert_eq!(
        missed,
        Restored::Miss {
            blob: alpha,
            path: Some("a.txt".into())
        }
    );
    assert!(!to.exists());
    assert!(!cache.has_tree(&tree.manifest));
    std::fs::create_dir(&to).unwrap();
    write(&to.join("mine"), b"mine", 0o644);
    let missed = cache
        .sync_tree(&tree.manifest, &to, &mut StatMemo::new())
        .unwrap();
    assert!(matches!(missed, Restored::Miss { .. }));
    assert_eq!(list(&to), [to.join("mine")]);
    // The next store heals it.
    cache.store_tree(&from, &mut StatMemo::new()).unwrap();
    assert_eq!(
        cache
            .sync_tree(&tree.manifest, &to, &mut StatMemo::new())
            .unwrap(),
        Restored::Done
    );
    assert_eq!(describe(&from), describe(&to));
    std::fs::remove_file(room.blob_path(&tree.manifest)).unwrap();
    let missed = cache
        .restore_tree(&tree.manifest, &room.path("other"))
        .unwrap();
    assert_eq!(
        missed,
        Restored::Miss {
            blob: tree.manifest,
            path: None
        }
    );
}

#[test]
fn a_folder_in_use_is_not_restored_over() {
    let room = Room::new();
    let (from, to) = (room.path("from"), room.path("to"));
    sample(&from);
    let cache = room.open();
    let tree = cache.store_tree(&from, &mut StatMemo::new()).unwrap();
    write(&to.join("mine"), b"mine", 0o644);
    let error = cache.restore_tree(&tree.manifest, &to).unwrap_err();
    assert!(matches!(error, TreeError::Occupied { .. }), "{error}");
}

#[test]
fn syncing_touches_only_what_differs() {
    let room = Room::new();
    let (from, to) = (room.path("from"), room.path("to"));
    sample(&from);
    let cache = room.open();
    let tree = cache.store_tree(&from, &mut StatMemo::new()).unwrap();
    cache.restore_tree(&tree.manifest, &to).unwrap();
    let inode = |name: &str| std::fs::metadata(to.join(name)).unwrap().ino();
    let (big, run) = (inode("big"), inode("bin/run"));
    // A file becomes a folder, a folder a file, a link a file; others change, come and go.
    std::fs::remove_file(to.join("a.txt")).unwrap();
    write(&to.join("a.txt/x"), b"x", 0o644);
    std::fs::remove_dir_all(to.join("sub")).unwrap();
    write(&to.join("sub"), b"file", 0o644);
    std::fs::remove_file(to.join("absolute")).unwrap();
    write(&to.join("absolute"), b"file", 0o644);
    write(&to.join("bin/run"), b"#!/bin/sh\n", 0o644);
    write(&to.join("sub-x"), b"SORTS BETWEEN SUB AND SUB/", 0o644);
    write(&to.join("extra/more/file"), b"extra", 0o644);
    symlink(room.path("from"), to.join("extra/link")).unwrap();
    std::fs::set_permissions(to.join("extra/more"), PermissionsExt::from_mode(0o000)).unwrap();
    std::fs::set_permissions(to.join("empty"), PermissionsExt::from_mode(0o500)).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        to.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let mut memo = StatMemo::new();
    assert_eq!(
        cache.sync_tree(&tree.manifest, &to, &mut memo).unwrap(),
        Restored::Done
    );
    assert_eq!(describe(&from), describe(&to));
    assert_eq!(
        (inode("big"), inode("bin/run")),
        (big, run),
        "equal files were left alone"
    );
    assert!(from.join("a.txt").exists(), "links were not followed");
    assert_eq!(
        cache.sync_tree(&tree.manifest, &to, &mut memo).unwrap(),
        Restored::Done
    );
    assert_eq!(Cache::digest_tree(&to, &mut memo).unwrap(), tree.manifest);
}

#[test]
fn a_fifo_is_refused_by_name() {
    let room = Room::new();
    let from = room.path("from");
    sample(&from);
    let fifo = from.join("sub/pipe");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let error = room
        .open()
        .store_tree(&from, &mut StatMemo::new())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("`{}` is a FIFO, which cannot be stored", fifo.display())
    );
    std::fs::remove_file(&fifo).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&fifo).unwrap();
    let error = Cache::digest_tree(&from, &mut StatMemo::new()).unwrap_err();
    assert!(
        matches!(error, TreeError::Special { kind: "socket", .. }),
        "{error}"
    );
}

#[test]
fn links_that_leave_the_folder_are_refused_if_asked_for() {
    let inside = [
        ("l", "a/../b"),
        ("sub/l", "../a"),
        ("l", "."),
        ("l", "missing"),
    ];
    let outside = [
        ("l", "/etc"),
        ("l", ".."),
        ("sub/l", "../../x"),
        ("l", "a/../../from/a"),
    ];
    let check = |path: &str, target: &str| {
        let room = Room::new();
        let from = room.path("from");
        write(&from.join("sub/c/file"), b"", 0o644);
        symlink("..", from.join("sub/up")).unwrap();
        symlink(target, from.join(path)).unwrap();
        assert!(Cache::digest_tree(&from, &mut StatMemo::new()).is_ok());
        Cache::digest_tree_with(&from, &mut StatMemo::new(), Symlinks::Confined)
    };
    for (path, target) in inside {
        assert!(check(path, target).is_ok(), "{path} -> {target}");
    }
    // By way of another link: `sub/up` is the folder itself, so this is above it.
    for (path, target) in outside.into_iter().chain([("l", "sub/up/.."), ("l", "l")]) {
        let error = check(path, target).unwrap_err();
        assert!(
            matches!(error, TreeError::Escapes { .. }),
            "{path} -> {target}: {error}"
        );
    }
}

#[test]
fn a_file_with_old_times_is_not_read_again() {
    let room = Room::new();
    let from = room.path("from");
    write(&from.join("a"), b"alpha", 0o644);
    // `ctime` cannot be set, so the memo is told of a moment long after it.
    let mut memo = StatMemo::new();
    let before = Cache::digest_tree(&from, &mut memo).unwrap();
    let encoded = memo.encode();
    let mut again = StatMemo::decode(&encoded).unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!(again.encode(), encoded);
    // Hashed within the tick of its change: an edit that keeps size and time is seen all the same.
    let times = std::fs::metadata(from.join("a"))
        .unwrap()
        .modified()
        .unwrap();
    write(&from.join("a"), b"omega", 0o644);
    std::fs::File::options()
        .write(true)
        .open(from.join("a"))
        .unwrap()
        .set_modified(times)
        .unwrap();
    assert_ne!(Cache::digest_tree(&from, &mut again).unwrap(), before);
    for bit in 0..encoded.len() * 8 {
        let mut bad = encoded.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(StatMemo::decode(&bad).is_none(), "bit {bit}");
    }
}

#[test]
fn a_manifest_that_leads_outside_is_a_miss() {
    let room = Room::new();
    let cache = room.open();
    let file = |path: &str| {
        let mut entry = vec![1];
        entry.extend((path.len() as u32).to_le_bytes());
        entry.extend(path.as_bytes());
        entry.extend(BlobRef::of(b"x").id.as_bytes());
        entry.extend(1u64.to_le_bytes());
        entry
    };
    let link = |path: &str, target: &str| {
        let mut entry = vec![3];
        for text in [path, target] {
            entry.extend((text.len() as u32).to_le_bytes());
            entry.extend(text.as_bytes());
        }
        entry
    };
    let manifest = |entries: &[Vec<u8>]| {
        let mut bytes = b"AEBTREE\n\x01\0\0\0".to_vec();
        bytes.extend((entries.len() as u32).to_le_bytes());
        bytes.extend(entries.concat());
        bytes
    };
    cache.put_blob(b"x").unwrap();
    let to = room.path("to");
    let good = cache
        .put_blob(&manifest(&[file("a"), link("b", "/etc")]))
        .unwrap();
    assert_eq!(cache.restore_tree(&good, &to).unwrap(), Restored::Done);
    let bad = [
        vec![file("../x")],
        vec![file("/etc/x")],
        vec![file("a/../../x")],
        vec![file("")],
        vec![file("a//b")],
        vec![file("a\0b")],
        vec![file("a"), file("a")],
        vec![file("b"), file("a")],
        vec![link("a", "/tmp"), file("a/x")],
        vec![file("missing/x")],
        vec![link("a", "")],
    ];
    for entries in bad {
        let blob = cache.put_blob(&manifest(&entries)).unwrap();
        let missed = cache.restore_tree(&blob, &room.path("other")).unwrap();
        assert_eq!(missed, Restored::Miss { blob, path: None }, "{entries:?}");
        assert!(cache.tree_entries(&blob).is_none());
    }
}

#[derive(Clone, Debug)]
enum Item {
    File(Vec<u8>, bool),
    Folder,
    Link(String),
}

fn folder() -> impl Strategy<Value = Vec<(String, Item)>> {
    let name = "[a-c]{1,2}";
    let path = proptest::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let item = prop_oneof![
        (proptest::collection::vec(any::<u8>(), 0..40), any::<bool>())
            .prop_map(|(bytes, is_executable)| Item::File(bytes, is_executable)),
        Just(Item::Folder),
        "[a-c./]{1,6}".prop_map(Item::Link),
    ];
    proptest::collection::vec((path, item), 0..12)
}

fn make(dir: &Path, items: &[(String, Item)]) {
    std::fs::create_dir_all(dir).unwrap();
    for (path, item) in items {
        let path = dir.join(path);
        // Where a name is taken by something else, the item is left out.
        if std::fs::create_dir_all(path.parent().unwrap()).is_err()
            || std::fs::symlink_metadata(&path).is_ok()
            || !path
                .parent()
                .unwrap()
                .canonicalize()
                .unwrap()
                .starts_with(dir.canonicalize().unwrap())
        {
            continue;
        }
        match item {
            Item::File(bytes, is_executable) => {
                write(&path, bytes, if *is_executable { 0o755 } else { 0o644 });
            }
            Item::Folder => std::fs::create_dir(&path).unwrap(),
            Item::Link(target) => symlink(target, &path).unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_folder_round_trips_and_any_other_becomes_it(one in folder(), other in folder()) {
        let room = Room::new();
        let (from, to, live) = (room.path("from"), room.path("to"), room.path("live"));
        make(&from, &one);
        make(&live, &other);
        let cache = room.open();
        let mut memo = StatMemo::new();
        let tree = cache.store_tree(&from, &mut memo).unwrap();
        prop_assert_eq!(cache.restore_tree(&tree.manifest, &to).unwrap(), Restored::Done);
        prop_assert_eq!(describe(&from), describe(&to));
        prop_assert_eq!(cache.sync_tree(&tree.manifest, &live, &mut memo).unwrap(), Restored::Done);
        prop_assert_eq!(describe(&from), describe(&live));
        let digest = Cache::digest_tree(&live, &mut memo).unwrap();
        prop_assert_eq!(digest, tree.manifest);
        prop_assert_eq!(describe(&from) == describe(&to), true);
    }
}
