//! Things that have no business in a cache, at every path that is read: a miss, in bounded time.

use std::os::unix::fs::symlink;

use crate::*;

const HOSTILE: [&str; 6] = [
    "folder",
    "fifo",
    "zero link",
    "dangling link",
    "sparse",
    "empty",
];

/// Puts something hostile at a path, in place of what is there.
fn plant(what: &str, path: &Path) {
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        std::fs::remove_dir_all(path).unwrap();
    } else {
        let _ = std::fs::remove_file(path);
    }
    match what {
        "folder" => {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("file"), "inner").unwrap();
        }
        "fifo" => {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).unwrap();
        }
        "zero link" => symlink("/dev/zero", path).unwrap(),
        "dangling link" => symlink("/nowhere/at/all", path).unwrap(),
        "sparse" => std::fs::File::create(path)
            .unwrap()
            .set_len(1 << 40)
            .unwrap(),
        _ => drop(std::fs::File::create(path).unwrap()),
    }
}

#[test]
fn hostile_things_at_a_blobs_path_are_misses_and_heal() {
    let room = Room::new();
    let cache = room.open();
    let blob = cache.put_blob(b"good bytes").unwrap();
    let path = room.blob_path(&blob);
    for what in HOSTILE {
        plant(what, &path);
        assert!(!cache.has_blob(&blob), "{what}");
        assert_eq!(cache.get_blob(&blob), None, "{what}");
        plant(what, &path);
        assert!(
            !cache.copy_blob(&blob, &room.path("copy")).unwrap(),
            "{what}"
        );
        plant(what, &path);
        cache.put_blob(b"good bytes").unwrap();
        assert_eq!(
            cache.get_blob(&blob).as_deref(),
            Some(&b"good bytes"[..]),
            "{what}"
        );
    }
}

#[test]
fn hostile_things_at_a_segments_path_are_misses_and_heal() {
    for what in HOSTILE {
        let room = Room::new();
        room.open().append(record(1, 10, "one")).unwrap();
        plant(what, &room.segment());
        let cache = room.open();
        assert_eq!(payloads(&cache, 1), [""; 0], "{what}");
        cache.append(record(1, 10, "two")).unwrap();
        assert_eq!(payloads(&cache, 1), ["two"], "{what}");
        drop(cache);
        let cache = room.open();
        assert_eq!(payloads(&cache, 1), ["two"], "{what}");
        cache.verify(true).unwrap();
        cache.repair().unwrap();
        assert!(cache.verify(true).unwrap().is_clean(), "{what}");
        assert_eq!(payloads(&cache, 1), ["two"], "{what}");
    }
}

#[test]
fn a_segment_grown_huge_by_a_hole_keeps_its_records() {
    let room = Room::new();
    room.open().append(record(1, 10, "one")).unwrap();
    let segment = std::fs::File::options()
        .write(true)
        .open(room.segment())
        .unwrap();
    segment.set_len(1 << 40).unwrap();
    let cache = room.open();
    assert_eq!(payloads(&cache, 1), ["one"]);
    cache.repair().unwrap();
    assert_eq!(payloads(&cache, 1), ["one"]);
    assert!(std::fs::metadata(room.segment()).unwrap().len() < 1000);
}

#[test]
fn hostile_things_at_the_small_files_are_healed() {
    for name in [
        "index",
        "marks",
        "mac.key",
        "format",
        "lock",
        "stats",
        "CACHEDIR.TAG",
    ] {
        for what in HOSTILE {
            let room = Room::new();
            let cache = room.open();
            for n in 0..300 {
                cache.append(record(n, n, "x")).unwrap();
            }
            drop(cache);
            plant(what, &room.dir.join(name));
            let cache = room.open();
            let found = payloads(&cache, 1);
            assert!(
                found == ["x"] || name == "mac.key",
                "{what} at {name}: {found:?}"
            );
            cache.append(superseding(1, 1, "y")).unwrap();
            cache.flush().unwrap();
            cache.stats();
            drop(cache);
            let cache = room.open();
            assert_eq!(payloads(&cache, 1), ["y"], "{what} at {name}");
            cache.gc(aebuild_cache::GcOptions::default()).unwrap();
            assert_eq!(payloads(&cache, 1), ["y"], "{what} at {name}");
        }
    }
}

#[test]
fn hostile_things_at_the_folders_are_set_aside() {
    for name in [
        "records",
        "blobs",
        "uses",
        "trash",
        "blobs/content-v2",
        "blobs/tmp",
    ] {
        for what in ["fifo", "zero link", "dangling link", "empty"] {
            let room = Room::new();
            let cache = room.open();
            cache.append(record(1, 10, "one")).unwrap();
            cache.put_blob(b"blob").unwrap();
            drop(cache);
            plant(what, &room.dir.join(name));
            let cache = room.open();
            let found = payloads(&cache, 1);
            assert!(
                found == ["one"] || (name == "records" && found.is_empty()),
                "{found:?}"
            );
            cache.append(record(2, 20, "two")).unwrap();
            let blob = cache.put_blob(b"another").unwrap();
            assert!(cache.get_blob(&blob).is_some(), "{what} at {name}");
            drop(cache);
            assert_eq!(payloads(&room.open(), 2), ["two"], "{what} at {name}");
        }
    }
}

#[test]
fn a_link_at_a_path_that_is_written_is_not_followed() {
    let room = Room::new();
    let victim = room.path("victim");
    std::fs::write(&victim, "precious").unwrap();
    let cache = room.open();
    let blob = BlobRef::of(b"blob");
    std::fs::create_dir_all(room.blob_path(&blob).parent().unwrap()).unwrap();
    symlink(&victim, room.blob_path(&blob)).unwrap();
    symlink(&victim, room.dir.join("index")).unwrap();
    symlink(&victim, room.dir.join("marks")).unwrap();
    cache.put_blob(b"blob").unwrap();
    for n in 0..300 {
        cache.append(record(n, n, "x")).unwrap();
    }
    cache.append(superseding(1, 1, "y")).unwrap();
    drop(cache);
    room.open().gc(aebuild_cache::GcOptions::default()).unwrap();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
}
