//! Storing records and finding them again.

use crate::*;

#[test]
fn a_record_is_found_at_once_and_after_opening_again() {
    let room = Room::new();
    let cache = room.open();
    cache.append(record(1, 10, "one")).unwrap();
    assert_eq!(payloads(&cache, 1), ["one"]);
    drop(cache);
    let cache = room.open();
    assert_eq!(payloads(&cache, 1), ["one"]);
    assert_eq!(payloads(&cache, 2), [""; 0]);
}

#[test]
fn every_field_of_a_record_comes_back() {
    let room = Room::new();
    let cache = room.open();
    let blob = cache.put_blob(b"bytes").unwrap();
    let new = NewRecord {
        kind: 200,
        supersedes: true,
        paid: true,
        blobs: vec![blob],
        trees: vec![blob],
        ..record(1, 2, "payload")
    };
    let place = cache.append(new.clone()).unwrap();
    drop(cache);
    let found = room.open().by_key(&digest(1)).remove(0);
    assert_eq!(
        (found.key, found.action, found.lineage, found.output),
        (new.key, new.action, new.lineage, new.output)
    );
    assert_eq!(
        (found.kind, found.supersedes, found.paid),
        (200, true, true)
    );
    assert_eq!(
        (found.blobs, found.trees, found.place),
        (vec![blob], vec![blob], place)
    );
    assert_eq!(found.payload[..], *b"payload");
}

#[test]
fn the_first_stored_record_of_an_action_counts() {
    let room = Room::new();
    let cache = room.open();
    cache.append(record(1, 10, "first")).unwrap();
    cache.append(record(1, 10, "second")).unwrap();
    assert_eq!(payloads(&cache, 1), ["first"]);
    drop(cache);
    assert_eq!(payloads(&room.open(), 1), ["first"]);
}

#[test]
fn the_newest_superseding_record_of_an_action_counts() {
    let room = Room::new();
    let cache = room.open();
    cache.append(record(1, 10, "first")).unwrap();
    cache.append(superseding(1, 10, "second")).unwrap();
    cache.append(record(1, 10, "third")).unwrap();
    cache.append(superseding(1, 10, "fourth")).unwrap();
    cache.append(record(1, 10, "fifth")).unwrap();
    assert_eq!(payloads(&cache, 1), ["fourth"]);
    drop(cache);
    assert_eq!(payloads(&room.open(), 1), ["fourth"]);
}

#[test]
fn a_superseding_record_counts_even_if_the_clock_was_set_back() {
    let room = Room::new();
    let clock = TestClock::at(5_000_000);
    let cache = Cache::open_with(&room.dir, fast(), clock.hooks()).unwrap();
    cache.append(superseding(1, 10, "first")).unwrap();
    drop(cache);
    let clock = TestClock::at(1_000);
    let cache = Cache::open_with(&room.dir, fast(), clock.hooks()).unwrap();
    cache.append(superseding(1, 10, "second")).unwrap();
    assert_eq!(payloads(&cache, 1), ["second"]);
    drop(cache);
    assert_eq!(payloads(&room.open(), 1), ["second"]);
}

#[test]
fn different_actions_of_a_key_are_given_newest_first() {
    let room = Room::new();
    let clock = TestClock::at(1_000);
    let cache = Cache::open_with(&room.dir, fast(), clock.hooks()).unwrap();
    for action in [30, 10, 20] {
        cache
            .append(record(1, action, &action.to_string()))
            .unwrap();
        clock.advance(1);
    }
    assert_eq!(payloads(&cache, 1), ["20", "10", "30"]);
    drop(cache);
    assert_eq!(payloads(&room.open(), 1), ["20", "10", "30"]);
}

#[test]
fn a_lineage_gives_its_records_newest_first() {
    let room = Room::new();
    let clock = TestClock::at(1_000);
    let cache = Cache::open_with(&room.dir, fast(), clock.hooks()).unwrap();
    for n in 0..5 {
        cache
            .append(NewRecord {
                lineage: digest(9),
                ..record(n, n, &n.to_string())
            })
            .unwrap();
        clock.advance(1);
    }
    drop(cache);
    let found = room.open().by_lineage(&digest(9));
    let keys: Vec<_> = found.iter().map(|record| record.key).collect();
    assert_eq!(keys, [4, 3, 2, 1, 0].map(digest));
}

#[test]
fn a_dropped_record_is_never_found_again() {
    let room = Room::new();
    let cache = room.open();
    let place = cache.append(record(1, 10, "one")).unwrap();
    cache.append(record(1, 10, "two")).unwrap();
    cache.drop_record(place).unwrap();
    assert_eq!(payloads(&cache, 1), ["two"]);
    assert!(!cache.has_places(&[place]));
    drop(cache);
    assert_eq!(payloads(&room.open(), 1), ["two"]);
}

#[test]
fn places_are_there_until_a_record_is_superseded_or_its_segment_is_gone() {
    let room = Room::new();
    let cache = room.open();
    let one = cache.append(record(1, 10, "one")).unwrap();
    let two = cache.append(record(2, 20, "two")).unwrap();
    cache.flush().unwrap();
    assert!(cache.has_places(&[one, two]));
    cache.append(superseding(1, 10, "new")).unwrap();
    cache.flush().unwrap();
    assert!(!cache.has_places(&[one, two]));
    assert!(cache.has_places(&[two]));
    drop(cache);
    let cache = room.open();
    assert!(!cache.has_places(&[two, one]));
    std::fs::remove_file(room.segment()).unwrap();
    assert!(!cache.has_places(&[two]));
}

#[test]
fn a_conflict_names_every_output_of_an_action() {
    let room = Room::new();
    let cache = room.open();
    cache.append(record(1, 10, "same")).unwrap();
    cache.append(record(1, 10, "same")).unwrap();
    cache.append(record(2, 20, "heads")).unwrap();
    cache.append(record(2, 20, "tails")).unwrap();
    cache.append(record(3, 30, "old")).unwrap();
    cache.append(superseding(3, 30, "new")).unwrap();
    cache
        .append(NewRecord {
            kind: 2,
            ..record(1, 10, "another kind")
        })
        .unwrap();
    let check = |cache: &Cache| {
        let conflicts = cache.conflicts();
        let actions: Vec<_> = conflicts.iter().map(|conflict| conflict.action).collect();
        assert_eq!(actions.len(), 2, "{conflicts:?}");
        assert!(actions.contains(&digest(20)) && actions.contains(&digest(30)));
        assert!(conflicts.iter().all(|conflict| conflict.sides.len() == 2));
    };
    check(&cache);
    drop(cache);
    check(&room.open());
}

#[test]
fn another_handle_sees_new_records_after_a_refresh() {
    let room = Room::new();
    let (one, two) = (room.open(), room.open());
    assert_eq!(payloads(&two, 1), [""; 0]);
    one.append(record(1, 10, "one")).unwrap();
    one.flush().unwrap();
    two.refresh();
    assert_eq!(payloads(&two, 1), ["one"]);
}

#[test]
fn a_record_of_many_segments_and_an_index_is_found() {
    let room = Room::new();
    for round in 0..4 {
        let cache = room.open();
        for n in 0..400 {
            let n = round * 400 + n;
            cache.append(record(n, n, &format!("payload {n}"))).unwrap();
        }
    }
    assert!(room.dir.join("index").exists());
    let cache = room.open();
    for n in 0..1600 {
        assert_eq!(payloads(&cache, n), [format!("payload {n}")]);
        assert_eq!(cache.by_lineage(&digest(7000 + n)).len(), 1);
    }
    assert_eq!(cache.stats().records, 1600);
    assert_eq!(cache.stats().damaged, 0);
}

#[test]
fn the_background_writer_stores_without_a_flush() {
    let room = Room::new();
    let cache = room.open();
    cache.append(record(1, 10, "one")).unwrap();
    let segment = room.segment();
    // Bounded by the test runner; the writer needs 50 ms.
    while std::fs::metadata(&segment).unwrap().len() < 100 {
        std::thread::yield_now();
    }
    let other = room.open();
    while payloads(&other, 1).is_empty() {
        other.refresh();
    }
}

#[test]
fn a_paid_record_is_refused_unless_its_blobs_read_back() {
    let room = Room::new();
    let cache = room.open();
    let blob = cache.put_blob(b"paid for").unwrap();
    let paid = NewRecord {
        paid: true,
        blobs: vec![blob],
        ..record(1, 10, "one")
    };
    cache.append(paid.clone()).unwrap();
    std::fs::write(room.blob_path(&blob), b"paid fox").unwrap();
    let error = cache.append(paid).unwrap_err();
    assert!(
        matches!(error, aebuild_cache::StoreError::NotReadBack { .. }),
        "{error}"
    );
}

#[test]
fn ten_thousand_small_records_take_at_most_twice_their_payload() {
    let room = Room::new();
    let cache = room.open();
    let payload = "x".repeat(500);
    for n in 0..10_000 {
        cache.append(record(n, n, &payload)).unwrap();
    }
    drop(cache);
    let size = |path: &PathBuf| std::fs::metadata(path).unwrap().len();
    let total: u64 = room.segments().iter().map(size).sum();
    let total = total + size(&room.dir.join("index"));
    assert!(total <= 2 * 10_000 * 500, "{total}");
}

#[test]
fn a_record_that_another_process_superseded_gives_way_to_the_other_record() {
    let room = Room::new();
    let (one, two) = (room.open(), room.open());
    one.append(record(1, 10, "mine")).unwrap();
    one.flush().unwrap();
    assert_eq!(payloads(&one, 1), ["mine"]);
    two.append(superseding(1, 10, "theirs")).unwrap();
    two.flush().unwrap();
    assert_eq!(payloads(&one, 1), ["theirs"]);
}

#[test]
fn a_lineage_tells_also_of_superseded_records() {
    let room = Room::new();
    let cache = room.open();
    for n in 0..3 {
        cache.append(superseding(1, 10, &n.to_string())).unwrap();
    }
    cache.flush().unwrap();
    let check = |cache: &Cache| {
        let found = cache.by_lineage(&digest(7001));
        let told: Vec<_> = found
            .iter()
            .map(|record| (&record.payload[..], record.is_superseded))
            .collect();
        assert_eq!(told, [(&b"2"[..], false), (b"1", true), (b"0", true)]);
    };
    check(&cache);
    drop(cache);
    check(&room.open());
}

#[test]
fn records_of_another_kind_are_told_apart() {
    let room = Room::new();
    let cache = room.open();
    cache
        .append(NewRecord {
            kind: 2,
            ..record(1, 10, "a failure")
        })
        .unwrap();
    cache.append(record(1, 10, "a result")).unwrap();
    cache
        .append(NewRecord {
            kind: 2,
            ..superseding(1, 10, "another failure")
        })
        .unwrap();
    cache.flush().unwrap();
    let mut found = payloads(&cache, 1);
    found.sort();
    assert_eq!(found, ["a result", "another failure"]);
}

#[test]
fn ten_thousand_superseding_records_of_one_key_take_no_quadratic_time() {
    let room = Room::new();
    for round in 0..2 {
        let cache = room.open();
        for n in 0..10_000 {
            cache.append(superseding(1, n, "x")).unwrap();
        }
        drop(cache);
        let cache = room.open();
        assert_eq!(cache.stats().records, 10_000 * (round + 1));
        assert_eq!(cache.by_key(&digest(1)).len(), 10_000);
    }
}

#[test]
fn a_key_that_was_rewritten_many_times_is_one_record_after_gc() {
    let room = Room::new();
    let clock = TestClock::now();
    let open = || Cache::open_with(&room.dir, fast(), clock.hooks()).unwrap();
    let cache = open();
    for n in 0..5_000 {
        cache.append(superseding(1, 1, &n.to_string())).unwrap();
    }
    drop(cache);
    assert_eq!(payloads(&open(), 1), ["4999"]);
    clock.advance(31 * 24 * 3600 * 1000);
    assert_eq!(open().gc(Default::default()).unwrap().records_kept, 1);
    assert_eq!(payloads(&open(), 1), ["4999"]);
    assert!(std::fs::metadata(room.segment()).unwrap().len() < 500);
}
