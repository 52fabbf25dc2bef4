//! Measures the cache on this machine: `cargo run --release -p aebuild-cache --example measure`.

#![expect(
    clippy::disallowed_methods,
    reason = "a measurement makes its own files"
)]

use std::path::Path;
use std::time::Instant;

use aebuild_cache::{BlobRef, Cache, Durability, NewRecord, Options, StatMemo};

fn main() {
    let root = std::env::args().nth(1).unwrap_or_else(|| "/tmp".to_owned());
    let temp = tempfile::tempdir_in(root).unwrap();
    for durability in [Durability::Durable, Durability::Fast] {
        records(&temp.path().join(format!("{durability:?}")), durability);
    }
    trees(temp.path());
}

fn took(what: &str, begin: Instant, count: u32) {
    let all = begin.elapsed();
    println!(
        "{what:50} {:9.2} ms  {:8.2} us each",
        all.as_secs_f64() * 1e3,
        { all.as_secs_f64() * 1e6 / f64::from(count) }
    );
}

fn digest(n: u32) -> [u8; 32] {
    *BlobRef::of(&n.to_le_bytes()).id.as_bytes()
}

fn record(n: u32, blobs: Vec<BlobRef>) -> NewRecord {
    NewRecord {
        key: digest(n),
        action: digest(n + 1),
        lineage: digest(n + 2),
        output: digest(n + 3),
        kind: 1,
        supersedes: false,
        paid: false,
        payload: vec![7; 500],
        blobs,
        trees: Vec::new(),
    }
}

fn records(dir: &Path, durability: Durability) {
    println!("-- {durability:?}");
    let options = Options {
        durability,
        ..Options::default()
    };
    let open = || Cache::open(dir, options.clone()).unwrap();
    let begin = Instant::now();
    let cache = open();
    took("open a new cache", begin, 1);
    let begin = Instant::now();
    let mut places = Vec::new();
    for n in 0..10_000 {
        places.push(cache.append(record(n, Vec::new())).unwrap());
    }
    cache.flush().unwrap();
    took("append 10,000 records of 500 bytes, flush", begin, 10_000);
    let begin = Instant::now();
    drop(cache);
    took("close, with the index", begin, 1);
    let begin = Instant::now();
    let cache = open();
    took("open", begin, 1);
    let begin = Instant::now();
    assert!(cache.has_places(&places));
    took("has_places of 10,000", begin, 1);
    let begin = Instant::now();
    assert_eq!(cache.by_key(&digest(77)).len(), 1);
    took("first look-up, reads the index", begin, 1);
    let begin = Instant::now();
    for n in 0..10_000 {
        assert_eq!(cache.by_key(&digest(n)).len(), 1);
    }
    took("10,000 look-ups", begin, 10_000);
    let begin = Instant::now();
    drop(cache);
    took("close", begin, 1);
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    let records: u64 = std::fs::read_dir(dir.join("records"))
        .unwrap()
        .map(|entry| size(&entry.unwrap().path()))
        .sum();
    println!(
        "on disk for 5,000,000 bytes of payload: {}",
        records + size(&dir.join("index"))
    );
    std::fs::rename(dir.join("index"), dir.join("tmp-index")).unwrap();
    let cache = open();
    let begin = Instant::now();
    assert_eq!(cache.by_key(&digest(77)).len(), 1);
    took("first look-up without an index", begin, 1);
    let begin = Instant::now();
    for n in 0..640u32 {
        let blob = cache.put_blob(&n.to_le_bytes().repeat(1024)).unwrap();
        cache.append(record(100_000 + n, vec![blob])).unwrap();
    }
    took("640 records with a blob of 4 KiB", begin, 640);
    cache.flush().unwrap();
    took("the same, with the flush", begin, 640);
    let begin = Instant::now();
    for n in 0..640u32 {
        cache.append(record(200_000 + n, Vec::new())).unwrap();
        if n % 64 == 0 {
            cache.flush().unwrap();
        }
    }
    took("640 records, flushed 10 times", begin, 640);
    drop(cache);
    let cache = open();
    let begin = Instant::now();
    cache.gc(Default::default()).unwrap();
    took("gc", begin, 1);
    let begin = Instant::now();
    assert!(cache.verify(true).unwrap().is_clean());
    took("verify", begin, 1);
}

fn trees(temp: &Path) {
    println!("-- trees");
    let options = Options {
        durability: Durability::Fast,
        ..Options::default()
    };
    let cache = Cache::open(&temp.join("trees"), options).unwrap();
    let small = temp.join("small");
    for n in 0..10_000u32 {
        let folder = small.join(format!("{}", n % 100));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{n}")), n.to_le_bytes().repeat(64)).unwrap();
    }
    let mut memo = StatMemo::new();
    let begin = Instant::now();
    let tree = cache.store_tree(&small, &mut memo).unwrap();
    took("store 10,000 files of 256 bytes", begin, 10_000);
    // Until the times of the files are clearly older than the hashing.
    std::thread::sleep(std::time::Duration::from_millis(50));
    Cache::digest_tree(&small, &mut memo).unwrap();
    let begin = Instant::now();
    Cache::digest_tree(&small, &mut StatMemo::new()).unwrap();
    took("digest them", begin, 10_000);
    let begin = Instant::now();
    Cache::digest_tree(&small, &mut memo).unwrap();
    took("digest them with a memo", begin, 10_000);
    let begin = Instant::now();
    assert!(cache.has_tree(&tree.manifest));
    took("has_tree", begin, 10_000);
    for round in 0..3 {
        let to = temp.join(format!("small-{round}"));
        let begin = Instant::now();
        cache.restore_tree(&tree.manifest, &to).unwrap();
        took("restore them", begin, 10_000);
        let begin = Instant::now();
        let copy = temp.join(format!("small-cp-{round}"));
        std::process::Command::new("cp")
            .arg("-a")
            .arg(&small)
            .arg(copy)
            .status()
            .unwrap();
        took("cp -a of them", begin, 10_000);
    }
    let to = temp.join("small-0");
    let begin = Instant::now();
    cache
        .sync_tree(&tree.manifest, &to, &mut StatMemo::new())
        .unwrap();
    took("sync a folder that is equal", begin, 10_000);
    let big = temp.join("big");
    std::fs::create_dir(&big).unwrap();
    for n in 0..8u8 {
        let bytes: Vec<u8> = (0..128u32 << 20).map(|i| (i >> 7) as u8 ^ n).collect();
        std::fs::write(big.join(n.to_string()), bytes).unwrap();
    }
    settle();
    let begin = Instant::now();
    Cache::digest_tree(&big, &mut StatMemo::new()).unwrap();
    took("digest 1 GiB in 8 files", begin, 1);
    let begin = Instant::now();
    let tree = cache.store_tree(&big, &mut memo).unwrap();
    took("store it", begin, 1);
    for round in 0..5 {
        settle();
        let to = temp.join(format!("big-{round}"));
        let begin = Instant::now();
        cache.restore_tree(&tree.manifest, &to).unwrap();
        took("restore it", begin, 1);
        std::fs::remove_dir_all(to).unwrap();
        settle();
        let copy = temp.join(format!("big-cp-{round}"));
        let begin = Instant::now();
        std::process::Command::new("cp")
            .arg("-a")
            .arg(&big)
            .arg(&copy)
            .status()
            .unwrap();
        took("cp -a of it", begin, 1);
        std::fs::remove_dir_all(copy).unwrap();
    }
}

/// Waits until nothing is left to be written, so that one measurement does not pay for another.
fn settle() {
    std::process::Command::new("sync").status().unwrap();
}
