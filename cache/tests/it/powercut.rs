//! Power cuts: the image of a file system is copied while the writer stands still, and the copy is
//! mounted as after a cut. Needs root and loop devices; says so loudly where it has none.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::processes::start;
use crate::*;

/// A mounted image, unmounted in the end.
struct Mount {
    at: PathBuf,
}

impl Mount {
    fn new(image: &Path, at: PathBuf) -> Option<Mount> {
        std::fs::create_dir_all(&at).unwrap();
        run(
            "mount",
            &["-o", "loop", image.to_str().unwrap(), at.to_str().unwrap()],
        )
        .then_some(Mount { at })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &["-l", self.at.to_str().unwrap()]);
    }
}

fn run(program: &str, args: &[&str]) -> bool {
    let command = Command::new(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    command.is_ok_and(|status| status.success())
}

#[test]
fn a_power_cut_loses_nothing_that_was_flushed() {
    let room = Room::new();
    let image = room.path("image");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let disk = run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()])
        .then(|| Mount::new(&image, room.path("disk")))
        .flatten();
    let Some(disk) = disk else {
        eprintln!("NOT TESTED: this place allows no loop mounts");
        return;
    };
    let dir = disk.at.join("cache");
    for seed in 1..=4u64 {
        let mut writer = start(&format!("forever {seed}"), &dir);
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut acked = 0;
        let mut n_seen = 0;
        while n_seen < 5 + seed * 9 {
            let line = lines
                .next()
                .expect("the writer goes on until it is stopped")
                .unwrap();
            if let Some(n) = line.split("ack ").nth(1) {
                acked = n.parse().unwrap();
                n_seen += 1;
            }
        }
        let pid = writer.id().to_string();
        assert!(run("kill", &["-STOP", &pid]));
        let cut = room.path(&format!("cut-{seed}"));
        let (from, to) = (image.to_str().unwrap(), cut.to_str().unwrap());
        // The kernel may still write; what did not change after the copy was copied whole.
        while !(run("cp", &["--sparse=always", from, to]) && run("cmp", &[from, to])) {}
        writer.kill().unwrap();
        writer.wait().unwrap();
        let after = Mount::new(&cut, room.path(&format!("after-{seed}"))).unwrap();
        let cache = Cache::open(&after.at.join("cache"), fast()).unwrap();
        for n in 0..=acked + 20 {
            let found = cache.by_key(&digest(seed * 1_000_000 + n));
            assert!(
                found.len() == 1 || n > acked,
                "{seed}: record {n} of {acked} was lost"
            );
            for record in found {
                let payload = format!("{seed} {n}").repeat(30);
                assert_eq!(record.payload[..], *payload.as_bytes());
                let bytes = cache.get_blob(&record.blobs[0]);
                assert!(
                    n > acked || bytes.as_deref() == Some(payload.as_bytes()),
                    "blob {n}"
                );
            }
        }
        let five = payloads(&cache, 5);
        assert!(
            five.len() == 1 && five[0] >= format!("{seed:04} {acked:08}"),
            "{five:?}"
        );
        drop(cache);
        // And the next run heals whatever else the cut left behind.
        let cache = Cache::open(&after.at.join("cache"), fast()).unwrap();
        cache.repair().unwrap();
        let report = cache.verify(true).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}
