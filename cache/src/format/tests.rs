//! The golden bytes of every format. A change here needs another `VERSION`.

#![expect(
    clippy::disallowed_methods,
    reason = "golden files are read from the source folder"
)]

use super::*;
use crate::tree::{TreeEntry, TreeKind, read_manifest, write_manifest};

const KEY: MacKey = MacKey([7; 32]);

fn sample() -> NewRecord {
    NewRecord {
        key: [1; 32],
        action: [2; 32],
        lineage: [3; 32],
        output: [4; 32],
        kind: 5,
        supersedes: true,
        paid: false,
        payload: b"payload".to_vec(),
        blobs: vec![BlobRef::of(b"blob")],
        trees: vec![BlobRef::of(b"tree"), BlobRef::of(b"")],
    }
}

fn check(name: &str, bytes: &[u8]) {
    let path = format!(
        "{}/src/format/{name}-{VERSION}.hex",
        env!("CARGO_MANIFEST_DIR")
    );
    let text: String = bytes
        .chunks(32)
        .map(|line| crate::record::hex(line) + "\n")
        .collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text, golden,
        "the bytes of {name} changed; see the rule at the top"
    );
}

fn segment() -> Vec<u8> {
    let mut bytes = segment_header(&KEY, 9, 1234);
    let body = write_body(&sample(), 1000, 2000);
    let offset = bytes.len() as u64;
    write_frame(&KEY, 9, offset, State::Live, &body, &mut bytes);
    bytes
}

#[test]
fn a_segment_has_its_golden_bytes() {
    check("segment", &segment());
}

#[test]
fn an_index_has_its_golden_bytes() {
    let body = write_body(&sample(), 1000, 2000);
    let place = Place {
        segment: 9,
        offset: 48,
        len: 300,
    };
    let entry = read_body(&body).unwrap().entry(place, State::Live);
    let bytes = write_index(&KEY, &[(3, 48), (9, 348)], &mut [entry]);
    check("index", &bytes);
    let index = IndexBytes::read(&KEY, bytes).unwrap();
    assert_eq!(
        (index.len(), &index.segments[..]),
        (1, &[(3, 48), (9, 348)][..])
    );
    assert_eq!(index.of_key(&[1; 16]), [entry]);
    assert_eq!(index.of_lineage(&[3; 16]), [entry]);
    assert!(index.of_key(&[0; 16]).is_empty() && index.of_key(&[9; 16]).is_empty());
}

#[test]
fn a_manifest_has_its_golden_bytes() {
    let entry = |path: &str, kind| TreeEntry {
        path: path.into(),
        kind,
    };
    let file = |is_executable| TreeKind::File {
        blob: BlobRef::of(b"blob"),
        is_executable,
    };
    let entries = [
        entry("a", TreeKind::Folder),
        entry("a/b", file(false)),
        entry("a/c", file(true)),
        entry(
            "d",
            TreeKind::Link {
                target: "a/b".into(),
            },
        ),
    ];
    let bytes = write_manifest(&entries);
    check("manifest", &bytes);
    assert_eq!(read_manifest(&bytes).unwrap(), entries);
    for len in 0..bytes.len() {
        assert!(read_manifest(&bytes[..len]).is_none(), "{len}");
    }
}

#[test]
fn a_body_round_trips_and_no_part_of_it_does() {
    let record = sample();
    let body = write_body(&record, 1000, 2000);
    let read = read_body(&body).unwrap();
    assert_eq!(
        (read.stored_at_ms, read.used_at_ms, read.born, read.kind),
        (1000, 1000, 2000, 5)
    );
    assert_eq!(
        (read.supersedes, read.paid, read.payload),
        (true, false, &b"payload"[..])
    );
    assert_eq!((read.blobs, read.trees), (record.blobs, record.trees));
    for len in 0..body.len() {
        assert!(read_body(&body[..len]).is_none(), "{len}");
    }
}

#[test]
fn no_single_bit_revives_a_dead_record() {
    for dead in [State::Superseded, State::Dropped] {
        for bit in 0..8 {
            assert_ne!(State::of(dead.byte() ^ (1 << bit)), State::Live);
        }
    }
}

#[test]
fn a_frame_is_right_only_in_its_segment_and_at_its_offset() {
    let bytes = segment();
    let frame = &bytes[48..];
    assert!(read_frame(&KEY, 9, 48, frame).is_some());
    assert!(read_frame(&KEY, 9, 49, frame).is_none());
    assert!(read_frame(&KEY, 8, 48, frame).is_none());
    assert!(read_frame(&MacKey([8; 32]), 9, 48, frame).is_none());
    assert_eq!(read_segment_header(&KEY, 9, &bytes), SegmentHeader::Ours);
    assert_eq!(read_segment_header(&KEY, 8, &bytes), SegmentHeader::Damaged);
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert_eq!(read_segment_header(&KEY, 9, &newer), SegmentHeader::Newer);
}
