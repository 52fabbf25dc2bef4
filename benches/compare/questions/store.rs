//! What the store takes, and what hashing costs.

use crate::Bench;
use crate::files::{self, taken};
use crate::inputs::{Shape, Size, TaskFolder, aebuild};
use crate::measure::{Lane, Program, in_turn, wall};
use crate::table::{Table, bytes};

const GIB: u64 = 1 << 30;

/// Asks what 10,000 small results take on disk.
pub fn ask_disk(bench: &Bench) -> Vec<Table> {
    let size = Size::of(10_000);
    let folder = TaskFolder::write(&bench.room("disk"), size, Shape::Layers);
    let output = bench.folder.join("disk/contexts.json");
    let run = folder.run().arg("--output").arg(&output);
    run.succeed();
    let payload = Program::child("@payload").arg(&output).said();
    let payload: u64 = payload.trim().parse().unwrap_or(0);
    let mut table = Table::new(
        "10,000 small results on disk",
        &["", "files", "bytes", "on disk"],
    );
    let mut row = |name: &str, folder: &std::path::Path| {
        let taken = taken(folder);
        let cells = [
            name.to_owned(),
            taken.files.to_string(),
            bytes(taken.bytes),
            bytes(taken.on_disk),
        ];
        table.row(cells.to_vec());
        taken
    };
    let cache = row("cache", &folder.cache);
    row(
        "`.aebuild` of the folder: what is remembered, and one run record",
        &folder.root.join(".aebuild"),
    );
    table.row(vec![
        "payload: the verifications as compact JSON".to_owned(),
        size.commands().to_string(),
        bytes(payload),
        "-".to_owned(),
    ]);
    table.at_most(
        "cache over payload",
        cache.on_disk as f64 / payload.max(1) as f64,
        2.0,
        "x",
    );
    table.command("run", &run.shown());
    table.command(
        "stats",
        &aebuild("cache")
            .arg("stats")
            .arg("--cache-dir")
            .arg(&folder.cache)
            .shown(),
    );
    let stats = aebuild("cache")
        .arg("stats")
        .arg("--cache-dir")
        .arg(&folder.cache);
    let said = stats.within(&folder.root).said();
    said.lines().skip(1).for_each(|line| {
        table.note(line);
    });
    table.alone()
}

/// Asks what hashing an input of 1 GiB costs, and that it is done once.
pub fn ask_hash(bench: &Bench) -> Vec<Table> {
    let room = bench.room("hash");
    let root = room.join("tasks-of-aebuild");
    let cache = room.join("cache");
    let large = root.join("artifacts/large/large.bin");
    files::write(
        &root.join("aebuild.toml"),
        "[sandbox]\nisolation = \"none\"\n",
    );
    let task = r#"[
{"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "depends_on": []},
{"id": "load", "type": "load_artifact", "sandbox_name": "box", "artifact_id": "large"}
]
"#;
    files::write(&root.join("tasks/load.json"), task);
    files::write_noise(&large, 0, GIB);
    files::settle();
    let plan = aebuild("plan").arg(&root).arg("--cache-dir").arg(&cache);
    let run = aebuild("run").arg(&root).arg("--cache-dir").arg(&cache);
    let lanes = vec![
        Lane::new("aebuild plan, nothing remembered", plan.clone())
            .after(|| files::remove(&root.join(".aebuild"))),
        Lane::new(
            "floor: blake3 of the same file, one thread",
            Program::child("@hash").arg(&large),
        ),
        Lane::new("aebuild plan, again", plan),
    ];
    let mut rows = in_turn(bench.rounds(5), lanes);
    // A run copies the file into a sandbox and keeps its state; the next one must not look at it again.
    run.succeed();
    files::settle();
    run.succeed();
    rows.extend(in_turn(
        bench.rounds(5),
        vec![Lane::new("aebuild run, after a run", run)],
    ));
    let mut table = Table::of("an input of 1 GiB", &rows);
    table.at_most("wall over blake3", rows[0].ratio(&rows[1], wall), 1.1, "x");
    table.at_most(
        "plan again, over blake3",
        rows[2].ratio(&rows[1], wall),
        0.05,
        "x",
    );
    table.at_most(
        "run again, over blake3",
        rows[3].ratio(&rows[1], wall),
        0.05,
        "x",
    );
    files::remove(&room);
    table.alone()
}
