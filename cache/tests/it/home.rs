//! Which folders are a cache, and who may use them.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use aebuild_cache::{Notice, OpenError, StoreError};

use crate::*;

fn refused(path: &Path) -> OpenError {
    let Err(error) = Cache::open(path, fast()) else {
        panic!("{} opened", path.display())
    };
    error
}

#[test]
fn a_folder_that_is_not_safe_is_refused_and_named() {
    let room = Room::new();
    let (dir, link, file) = (room.path("dir"), room.path("link"), room.path("file"));
    std::fs::create_dir(&dir).unwrap();
    symlink(&dir, &link).unwrap();
    std::fs::write(&file, "").unwrap();
    assert!(matches!(refused(&link), OpenError::Symlink { .. }));
    assert!(matches!(refused(&link.join("")), OpenError::Symlink { .. }));
    assert!(matches!(refused(&file), OpenError::NotAFolder { .. }));
    assert!(matches!(
        refused(&file.join("x")),
        OpenError::NotAFolder { .. }
    ));
    assert!(matches!(refused(Path::new("/")), OpenError::TooWide { .. }));
    if let Some(home) = std::env::var_os("HOME") {
        assert!(matches!(
            refused(Path::new(&home)),
            OpenError::TooWide { .. }
        ));
    }
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
    let error = refused(&dir);
    assert!(matches!(
        error,
        OpenError::WorldWritable { mode: 0o777, .. }
    ));
    assert!(error.to_string().contains("(mode 0777)"), "{error}");
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(&dir, Some(65534), None).is_ok() {
        let error = refused(&dir);
        assert!(
            matches!(error, OpenError::ForeignOwner { owner: 65534, .. }),
            "{error}"
        );
    } else {
        eprintln!("NOT TESTED: only root can give a folder to another user");
    }
}

#[test]
fn a_folder_of_other_files_is_left_alone() {
    let room = Room::new();
    std::fs::create_dir(&room.dir).unwrap();
    std::fs::write(room.dir.join("thesis.tex"), "all of it").unwrap();
    assert!(matches!(refused(&room.dir), OpenError::NotACache { .. }));
    assert_eq!(list(&room.dir), [room.dir.join("thesis.tex")]);
}

#[test]
fn nobody_else_may_read_anything() {
    fn check(dir: &Path) {
        for path in list(dir) {
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(metadata.mode() & 0o7777, expected, "{}", path.display());
            if metadata.is_dir() {
                check(&path);
            }
        }
    }
    let room = Room::new();
    std::fs::create_dir(&room.dir).unwrap();
    std::fs::set_permissions(&room.dir, PermissionsExt::from_mode(0o755)).unwrap();
    let cache = room.open();
    for n in 0..300 {
        cache.append(record(n, n, "x")).unwrap();
    }
    cache.append(superseding(1, 1, "y")).unwrap();
    cache.put_blob(b"blob").unwrap();
    cache.flush().unwrap();
    assert_eq!(payloads(&cache, 1), ["y"]);
    drop(cache);
    room.open().gc(aebuild_cache::GcOptions::default()).unwrap();
    assert_eq!(std::fs::metadata(&room.dir).unwrap().mode() & 0o7777, 0o700);
    check(&room.dir);
}

#[test]
fn a_newer_format_is_a_miss_and_nothing_is_touched() {
    let room = Room::new();
    let cache = room.open();
    cache.append(record(1, 10, "one")).unwrap();
    let blob = cache.put_blob(b"blob").unwrap();
    drop(cache);
    let line = "aebuild-cache 2";
    let check: String = blake3::hash(line.as_bytes())
        .to_hex()
        .chars()
        .take(8)
        .collect();
    std::fs::write(room.dir.join("format"), format!("{line} {check}\n")).unwrap();
    let before = list(&room.dir);
    let cache = room.open();
    let place = aebuild_cache::Place {
        segment: 1,
        offset: 48,
        len: 100,
    };
    assert!(cache.by_key(&digest(1)).is_empty() && cache.by_lineage(&digest(7001)).is_empty());
    assert!(!cache.has_blob(&blob) && cache.get_blob(&blob).is_none());
    assert!(!cache.has_places(&[place]) && cache.conflicts().is_empty());
    let refused = cache.append(record(2, 20, "two")).unwrap_err();
    assert!(
        matches!(refused, StoreError::Foreign { version: 2, .. }),
        "{refused}"
    );
    assert!(cache.put_blob(b"x").is_err() && cache.gc(Default::default()).is_err());
    cache.flush().unwrap();
    assert_eq!(
        cache.notices(),
        [Notice::Foreign {
            path: room.dir.clone(),
            version: 2
        }]
    );
    assert_eq!(cache.notices(), []);
    drop(cache);
    assert_eq!(list(&room.dir), before);
}

#[test]
fn a_cache_that_lost_its_format_or_key_works_again() {
    let room = Room::new();
    room.open().append(record(1, 10, "one")).unwrap();
    std::fs::remove_file(room.dir.join("format")).unwrap();
    assert_eq!(payloads(&room.open(), 1), ["one"]);
    std::fs::remove_file(room.dir.join("mac.key")).unwrap();
    let cache = room.open();
    assert_eq!(payloads(&cache, 1), [""; 0]);
    cache.append(record(1, 10, "two")).unwrap();
    drop(cache);
    assert_eq!(payloads(&room.open(), 1), ["two"]);
}

#[test]
fn a_cache_that_vanishes_while_it_is_open_is_a_miss() {
    let room = Room::new();
    let cache = room.open();
    let blob = cache.put_blob(b"blob").unwrap();
    let place = cache.append(record(1, 10, "one")).unwrap();
    cache.flush().unwrap();
    std::fs::remove_dir_all(&room.dir).unwrap();
    assert!(cache.get_blob(&blob).is_none());
    assert!(!cache.has_places(&[place]));
    assert_eq!(cache.put_blob(b"blob").unwrap(), blob);
    assert!(cache.get_blob(&blob).is_some());
    let _ = cache.append(record(2, 20, "two"));
    drop(cache);
    let cache = room.open();
    cache.append(record(3, 30, "three")).unwrap();
    assert_eq!(payloads(&cache, 3), ["three"]);
}

#[test]
fn many_open_a_new_cache_at_once_with_one_key() {
    let room = Room::new();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let room = &room;
            scope.spawn(move || room.open().append(record(n, n, "x")).unwrap());
        }
    });
    let cache = room.open();
    for n in 0..8 {
        assert_eq!(payloads(&cache, n), ["x"]);
    }
}
