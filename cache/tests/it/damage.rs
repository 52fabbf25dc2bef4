//! Single damaged bits and cut files: right or a miss, and healed by the next put.

use crate::*;

/// A cache whose record 1 was superseded, so that damage could bring the older one back.
fn superseded() -> Room {
    let room = Room::new();
    let cache = room.open();
    cache.append(record(1, 10, "older")).unwrap();
    cache.append(superseding(1, 10, "newer")).unwrap();
    cache.append(record(2, 20, "other")).unwrap();
    cache.flush().unwrap();
    drop(cache);
    room
}

/// Opens the cache and checks that each key gives the right record or none; returns the misses.
fn check(room: &Room, context: &str) -> usize {
    let cache = room.open();
    let mut misses = 0;
    for (key, right) in [(1, "newer"), (2, "other")] {
        let found = payloads(&cache, key);
        assert!(
            found.is_empty() || found == [right],
            "{context}: key {key} gave {found:?}"
        );
        misses += usize::from(found.is_empty());
    }
    misses
}

fn heal(room: &Room, context: &str) {
    let cache = room.open();
    for (key, action, payload) in [(1, 10, "newer"), (2, 20, "other")] {
        if payloads(&cache, key).is_empty() {
            cache.append(record(key, action, payload)).unwrap();
        }
    }
    drop(cache);
    assert_eq!(check(room, context), 0, "{context}: not healed");
}

#[test]
fn any_bit_of_a_segment_may_flip() {
    let room = superseded();
    let path = room.segment();
    let good = std::fs::read(&path).unwrap();
    let mut misses = 0;
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bad).unwrap();
        misses += check(&room, &format!("bit {bit}"));
        if bit % 97 == 0 {
            heal(&room, &format!("bit {bit}"));
            for other in room.segments().iter().filter(|other| **other != path) {
                std::fs::remove_file(other).unwrap();
            }
        }
    }
    assert!(misses > 0);
}

#[test]
fn a_segment_may_end_anywhere() {
    let room = superseded();
    let path = room.segment();
    let good = std::fs::read(&path).unwrap();
    for len in (0..good.len()).rev() {
        std::fs::write(&path, &good[..len]).unwrap();
        check(&room, &format!("{len} bytes"));
        if len % 31 == 0 {
            heal(&room, &format!("{len} bytes"));
            for other in room.segments().iter().filter(|other| **other != path) {
                std::fs::remove_file(other).unwrap();
            }
        }
    }
}

/// A cache with an index that covers its records.
fn indexed() -> Room {
    let room = Room::new();
    let cache = room.open();
    cache.append(record(1, 10, "older")).unwrap();
    cache.append(superseding(1, 10, "newer")).unwrap();
    cache.append(record(2, 20, "other")).unwrap();
    // Gc writes the index anew however few records there are.
    cache.gc(aebuild_cache::GcOptions::default()).unwrap();
    drop(cache);
    assert!(room.dir.join("index").exists());
    room
}

#[test]
fn any_bit_of_the_index_may_flip() {
    let room = indexed();
    let path = room.dir.join("index");
    let good = std::fs::read(&path).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bad).unwrap();
        assert_eq!(check(&room, &format!("bit {bit}")), 0, "bit {bit}");
    }
    std::fs::write(&path, &good).unwrap();
    assert_eq!(check(&room, "healed"), 0);
}

#[test]
fn the_index_may_end_anywhere_or_be_gone() {
    let room = indexed();
    let path = room.dir.join("index");
    let good = std::fs::read(&path).unwrap();
    for len in 0..good.len() {
        std::fs::write(&path, &good[..len]).unwrap();
        assert_eq!(check(&room, &format!("{len} bytes")), 0, "{len} bytes");
    }
    let _ = std::fs::remove_file(&path);
    assert_eq!(check(&room, "gone"), 0);
}

#[test]
fn any_bit_of_an_indexed_segment_may_flip() {
    let room = indexed();
    let index = std::fs::read(room.dir.join("index")).unwrap();
    let path = room.segment();
    let good = std::fs::read(&path).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bad).unwrap();
        std::fs::write(room.dir.join("index"), &index).unwrap();
        check(&room, &format!("bit {bit}"));
    }
    for len in 0..good.len() {
        std::fs::write(&path, &good[..len]).unwrap();
        std::fs::write(room.dir.join("index"), &index).unwrap();
        check(&room, &format!("{len} bytes"));
    }
    heal(&room, "after all");
}

#[test]
fn any_bit_of_a_blob_may_flip_and_any_end_be_cut() {
    let room = Room::new();
    let cache = room.open();
    let bytes: Vec<u8> = (0..79).collect();
    let blob = cache.put_blob(&bytes).unwrap();
    let path = room.blob_path(&blob);
    let mut damage: Vec<Vec<u8>> = (0..bytes.len()).map(|len| bytes[..len].to_vec()).collect();
    damage.push([&bytes[..], b"!"].concat());
    damage.extend((0..bytes.len() * 8).map(|bit| {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        bad
    }));
    let copy = room.path("copy");
    for bad in damage {
        std::fs::write(&path, &bad).unwrap();
        assert!(!cache.copy_blob(&blob, &copy).unwrap());
        assert!(!copy.exists());
        let _ = std::fs::write(&path, &bad);
        assert_eq!(cache.get_blob(&blob), None);
        assert!(!path.exists(), "the damaged blob was set aside");
        assert_eq!(cache.put_blob(&bytes).unwrap(), blob);
        assert_eq!(cache.get_blob(&blob).as_ref(), Some(&bytes));
    }
}

#[test]
fn any_bit_of_the_key_the_format_or_the_marks_may_flip() {
    let room = superseded();
    for name in ["mac.key", "format", "marks"] {
        let path = room.dir.join(name);
        let good = std::fs::read(&path).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bad).unwrap();
            check(&room, &format!("{name} bit {bit}"));
        }
        std::fs::write(&path, &good).unwrap();
    }
    heal(&room, "after all");
}

#[test]
fn bytes_moved_from_elsewhere_are_no_record() {
    let room = superseded();
    let path = room.segment();
    let good = std::fs::read(&path).unwrap();
    let frame = (good.len() - 48) / 3;
    // The superseded record again, at the end and in the place of its successor.
    let mut bad = good.clone();
    let mut older = good[48..48 + frame].to_vec();
    older[8] = 0;
    bad.extend(&older);
    bad[48 + frame..48 + 2 * frame].copy_from_slice(&older);
    std::fs::write(&path, &bad).unwrap();
    assert_eq!(check(&room, "moved"), 1);
    // The whole segment under another name.
    std::fs::write(&path, &good).unwrap();
    std::fs::rename(&path, path.with_file_name("00000000deadbeef.seg")).unwrap();
    assert_eq!(check(&room, "renamed"), 2);
}

#[test]
fn what_lies_behind_damage_is_found_where_it_proves_itself() {
    let room = Room::new();
    let cache = room.open();
    let places: Vec<_> = (0..20)
        .map(|n| cache.append(record(n, n, &format!("{n}"))).unwrap())
        .collect();
    drop(cache);
    let path = room.segment();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = places[7].offset as usize;
    bytes[at..at + 20].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let cache = room.open();
    for n in 0..20 {
        let expected = if n == 7 { vec![] } else { vec![n.to_string()] };
        assert_eq!(payloads(&cache, n), expected);
    }
    assert_eq!(cache.stats().damaged, 1);
}

#[test]
fn a_large_blob_is_a_miss_once_a_bit_of_it_flips_and_healed_by_the_next_put() {
    let room = Room::new();
    let cache = room.open();
    let mut bytes = vec![7; (5 << 20) + 3];
    bytes[1 << 20] = 8;
    let blob = cache.put_blob(&bytes).unwrap();
    assert_eq!(blob, BlobRef::of(&bytes));
    for at in [0, 1 << 20, bytes.len() - 1] {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        std::fs::write(room.blob_path(&blob), &bad).unwrap();
        assert_eq!(cache.get_blob(&blob), None, "byte {at}");
        assert_eq!(cache.put_blob(&bytes).unwrap(), blob);
        assert_eq!(cache.put_blob(&bytes).unwrap(), blob);
        assert!(cache.get_blob(&blob) == Some(bytes.clone()), "byte {at}");
    }
    let drafts = list(&cache.dir().join("blobs/tmp"));
    assert_eq!(drafts, Vec::<PathBuf>::new(), "no draft is left");
}
