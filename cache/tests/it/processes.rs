//! Several processes on one cache, and processes that are killed.
//!
//! The test binary starts itself again: the test `child` does nothing unless it is told what to do.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aebuild_cache::{GcOptions, UpkeepError};

use crate::*;

const PART: &str = "AEBUILD_CACHE_TEST_PART";
const DIR: &str = "AEBUILD_CACHE_TEST_DIR";

pub fn start(part: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "processes::child",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PART, part)
        .env(DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    match part.split_once(' ').unwrap_or((&part, "")) {
        ("rounds", seed) => rounds(&dir, seed.parse().unwrap()),
        ("gc", _) => collect(&dir),
        ("forever", seed) => forever(&dir, seed.parse().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Appends the same keys as another process, and collects after each round without any grace.
fn rounds(dir: &Path, seed: u64) {
    for round in 0..12 {
        let cache = Cache::open(dir, fast()).unwrap();
        for n in 0..25 {
            let n = round * 25 + n;
            let bytes = format!("blob {n}").repeat(20);
            let blob = cache.put_blob(bytes.as_bytes()).unwrap();
            let new = record(n, n, &format!("payload {n}"));
            let supersedes = (n + seed).is_multiple_of(3);
            cache
                .append(NewRecord {
                    blobs: vec![blob],
                    supersedes,
                    ..new
                })
                .unwrap();
        }
        cache.flush().unwrap();
        for n in 0..25 {
            let n = round * 25 + n;
            assert_eq!(payloads(&cache, n), [format!("payload {n}")]);
        }
        drop(cache);
        let options = Options {
            grace: Duration::ZERO,
            ..fast()
        };
        let cache = Cache::open(dir, options).unwrap();
        // The bound is there for a deadlock only: all others finish their rounds.
        cache
            .gc(GcOptions {
                wait: Duration::from_secs(60),
                is_dry_run: false,
            })
            .unwrap();
        for n in 0..(round + 1) * 25 {
            assert_eq!(payloads(&cache, n), [format!("payload {n}")]);
        }
    }
}

/// Collects without any grace, as long as the parent keeps the pipe open.
fn collect(dir: &Path) {
    let until = std::thread::spawn(|| std::io::stdin().lines().count());
    let mut n_done = 0;
    while !until.is_finished() {
        let options = Options {
            grace: Duration::ZERO,
            ..fast()
        };
        let cache = Cache::open(dir, options).unwrap();
        match cache.gc(GcOptions {
            wait: Duration::from_millis(3),
            is_dry_run: false,
        }) {
            Ok(_) => n_done += 1,
            Err(UpkeepError::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        std::thread::yield_now();
    }
    println!("collected {n_done} times");
}

#[test]
fn two_processes_append_the_same_keys_while_a_third_collects() {
    let room = Room::new();
    drop(room.open());
    let writers: Vec<Child> = (0..2)
        .map(|n| start(&format!("rounds {n}"), &room.dir))
        .collect();
    let mut collector = start("gc", &room.dir);
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    drop(collector.stdin.take());
    let output = collector.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("collected"), "{text}");
    let cache = room.open();
    for n in 0..300 {
        let found = cache.by_key(&digest(n));
        assert_eq!(found.len(), 1, "key {n}");
        assert_eq!(found[0].payload[..], *format!("payload {n}").as_bytes());
        let bytes = cache.get_blob(&found[0].blobs[0]).unwrap();
        assert_eq!(bytes, format!("blob {n}").repeat(20).as_bytes());
    }
    assert!(cache.conflicts().is_empty());
    let report = cache.verify(true).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Stores records until it is killed, and says of each flush what it covers.
fn forever(dir: &Path, seed: u64) {
    let options = Options {
        free_reserve: 0,
        ..Options::default()
    };
    let cache = Cache::open(dir, options).unwrap();
    let mut out = std::io::stdout();
    for n in 0.. {
        let payload = format!("{seed} {n}").repeat(30);
        let blob = cache.put_blob(payload.as_bytes()).unwrap();
        let key = seed * 1_000_000 + n;
        let new = record(key, key, &payload);
        cache
            .append(NewRecord {
                blobs: vec![blob],
                ..new
            })
            .unwrap();
        // Every seed writes key 5 anew, so that an older value could come back.
        cache
            .append(superseding(5, 5, &format!("{seed:04} {n:08}")))
            .unwrap();
        if n % 3 == 0 {
            cache.flush().unwrap();
            writeln!(out, "ack {n}").unwrap();
            out.flush().unwrap();
        }
    }
}

#[test]
fn a_writer_that_is_killed_loses_nothing_it_acknowledged() {
    let room = Room::new();
    let mut last_5 = String::new();
    for seed in 1..=20u64 {
        let mut writer = start(&format!("forever {seed}"), &room.dir);
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        // Killed after some acknowledgements, at whatever it is doing then.
        let n_acks = 1 + (seed * 7) % 11;
        let mut acked = None;
        let mut n_seen = 0;
        while n_seen < n_acks {
            let line = lines
                .next()
                .expect("the writer goes on until it is killed")
                .unwrap();
            if let Some(n) = line.split("ack ").nth(1) {
                acked = Some(n.parse::<u64>().unwrap());
                n_seen += 1;
            }
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            if let Some(n) = line.split("ack ").nth(1)
                && let Ok(n) = n.parse()
            {
                acked = Some(n);
            }
        }
        let acked = acked.unwrap();
        let cache = room.open();
        for n in 0..=acked + 10 {
            let found = cache.by_key(&digest(seed * 1_000_000 + n));
            assert!(
                found.len() == 1 || n > acked,
                "{seed}: record {n} of {acked} was lost"
            );
            for record in found {
                let payload = format!("{seed} {n}").repeat(30);
                assert_eq!(record.payload[..], *payload.as_bytes());
                if n <= acked {
                    let bytes = cache.get_blob(&record.blobs[0]);
                    assert_eq!(bytes.as_deref(), Some(payload.as_bytes()));
                }
            }
        }
        let five = payloads(&cache, 5);
        assert_eq!(five.len(), 1);
        assert!(
            five[0] >= format!("{seed:04} {acked:08}"),
            "{five:?} after {seed:04} {acked:08}"
        );
        assert!(five[0] > last_5);
        last_5 = five[0].clone();
    }
    let cache = room.open();
    let report = cache.verify(true).unwrap();
    assert!(report.is_clean(), "{report:?}");
    cache.gc(GcOptions::default()).unwrap();
    assert_eq!(payloads(&cache, 5), [last_5]);
}
