//! What it costs to bring a sandbox back to a state that holds many files.

use std::path::Path;

use crate::Bench;
use crate::files;
use crate::inputs::{TRUE, aebuild, ran};
use crate::measure::{Lane, Program, in_turn, wall};
use crate::table::Table;

/// A task that loads an artifact of many files and then verifies something.
struct TreeFolder {
    room: std::path::PathBuf,
    root: std::path::PathBuf,
    edits: std::cell::Cell<u64>,
}

impl TreeFolder {
    fn write(room: &Path, n_files: u64, len: u64) -> Self {
        let (room, root) = (room.to_path_buf(), room.join("tasks-of-aebuild"));
        files::write(
            &root.join("aebuild.toml"),
            "[sandbox]\nisolation = \"none\"\n",
        );
        for file in 0..n_files {
            let path = format!("artifacts/tree/d{:03}/f{file:05}.bin", file / 100);
            files::write_noise(&root.join(path), file, len);
        }
        let folder = TreeFolder {
            room,
            root,
            edits: std::cell::Cell::new(0),
        };
        folder.edit();
        folder
    }

    /// Edits the last verifier, which needs the state in which the artifact is loaded.
    fn edit(&self) {
        let n = self.edits.get() + 1;
        self.edits.set(n);
        let task = format!(
            r#"[
{{"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "depends_on": []}},
{{"id": "load", "type": "load_artifact", "sandbox_name": "box", "artifact_id": "tree"}},
{{"id": "last", "type": "verify_sandbox", "sandbox_name": "box", "criteria": [{{"type": "command_succeeds", "argv": ["{TRUE}", "{n}"], "criterion": "It holds."}}]}}
]
"#
        );
        files::write(&self.root.join("tasks/tree.json"), task);
        files::settle();
    }

    fn run(&self) -> Program {
        aebuild("run")
            .arg(&self.root)
            .arg("--cache-dir")
            .arg(self.room.join("cache"))
    }

    fn tree(&self) -> std::path::PathBuf {
        self.root.join("artifacts/tree")
    }
}

/// Asks it for 10,000 small files, and with `--big` for 1 GB.
pub fn ask_restore(bench: &Bench) -> Vec<Table> {
    let mut tables = vec![of_tree(bench, "small", 10_000, 256)];
    if bench.arguments.is_big {
        tables.push(of_tree(bench, "big", 1_000, 1_000_000));
    } else {
        eprintln!("SKIPPED: restoring a tree of 1 GB (--big)");
    }
    tables
}

fn of_tree(bench: &Bench, name: &str, n_files: u64, len: u64) -> Table {
    let room = bench.room(&format!("restore-{name}"));
    let folder = TreeFolder::write(&room, n_files, len);
    folder.run().succeed();
    folder.edit();
    let counted = ran(&folder.run().said());
    let copy = room.join("copy");
    let cp = Program::new("cp").arg("-a").arg(folder.tree()).arg(&copy);
    let lanes = vec![
        Lane::new("aebuild, the last verifier edited", folder.run()).after(|| folder.edit()),
        Lane::new("cp -a", cp).after(|| files::remove(&copy)),
        Lane::new("aebuild, nothing edited", folder.run()).after(|| {
            files::settle();
            folder.run().succeed();
        }),
    ];
    let mut rows = in_turn(bench.rounds(7), lanes);
    rows[0].ran = counted;
    let title = format!("a sandbox of {n_files} files of {len} bytes restored for one step");
    let mut table = Table::of(&title, &rows);
    let restore = rows[0].wall() - rows[2].wall();
    if n_files > 1_000 {
        let each = restore * 1e3 / n_files as f64;
        table.at_most("a file, over the no-op", each, 60.0, " us");
        table.note(format!(
            "`cp -a`: {:.1} us a file",
            rows[1].wall() * 1e3 / n_files as f64
        ));
    } else {
        table.at_most("wall over `cp -a`", rows[0].ratio(&rows[1], wall), 1.5, "x");
    }
    if counted != Some(1) {
        table.note(format!(
            "**aebuild ran {counted:?} steps, not 1: nothing was restored**"
        ));
    }
    files::remove(&room);
    table
}
