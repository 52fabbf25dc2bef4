//! How a content-keyed peer and the original compare, at sizes that they can bear.

use crate::Bench;
use crate::inputs::{Criterion, Shape, Size, TaskFolder, ran};
use crate::measure::{Lane, Program, in_turn, wall};
use crate::peers::{self, TurboFolder};
use crate::table::Table;

/// Asks what the no-op costs beside `turbo`.
pub fn ask_turbo(bench: &Bench) -> Vec<Table> {
    let Some(turbo) = peers::turbo() else {
        return Vec::new();
    };
    let sizes: &[usize] = if bench.arguments.is_quick {
        &[100]
    } else {
        &[100, 1_000]
    };
    let tables = sizes.iter().map(|&n| {
        let ready = bench.ready(n, Shape::Layers);
        let room = bench.room(&format!("turbo-{n}"));
        let folder = TurboFolder::write(&room, Size::of(n), Shape::Layers, turbo.clone());
        let first = folder.run().sample();
        let counted = ran(&ready.aebuild.run().said());
        let theirs = folder.count_and_run();
        let lanes = vec![
            Lane::new("aebuild", ready.aebuild.run()),
            Lane::new("turbo", folder.run()),
        ];
        let mut rows = in_turn(bench.rounds(9), lanes);
        rows[0].ran = counted;
        rows[1].ran = theirs;
        let mut table = Table::of(&format!("nothing has changed, {n} steps"), &rows);
        let seconds = wall(&first) / 1e3;
        table.note(format!(
            "turbo's first run, once, with npm as the package manager: {seconds:.1} s"
        ));
        table
    });
    tables.collect()
}

/// Asks what running again costs beside the original, which keeps no results.
pub fn ask_agent_env(bench: &Bench) -> Vec<Table> {
    let Some(agent_env) = peers::agent_env() else {
        return Vec::new();
    };
    let size = Size::of(100);
    let room = bench.room("agent-env");
    let folder = TaskFolder::write_with(&room, size, Shape::Layers, Criterion::Bash);
    let theirs = Program::new(agent_env)
        .arg("run")
        .arg(&folder.root)
        .variable("XDG_STATE_HOME", room.join("state"));
    let again = TaskFolder::write_with(&room.join("again"), size, Shape::Layers, Criterion::Bash);
    again.settle();
    let counted = ran(&again.run().said());
    let lanes = vec![
        Lane::new("aebuild, first run", folder.run()).after(|| folder.forget()),
        Lane::new("agent-env", theirs),
        Lane::new("aebuild, again", again.run()),
    ];
    let mut rows = in_turn(bench.rounds(5), lanes);
    rows[0].ran = Some(size.commands() as u64);
    rows[2].ran = counted;
    let mut table = Table::of("100 steps, `bash -c true` in each", &rows);
    let again = rows[1].ratio(&rows[2], wall);
    table.note(format!(
        "agent-env over aebuild again: {again:.0}x; it keeps no results"
    ));
    table.alone()
}
