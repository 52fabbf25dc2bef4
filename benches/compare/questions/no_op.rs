//! What a run costs in which nothing has changed.

use crate::Bench;
use crate::inputs::{Shape, ran};
use crate::measure::{Lane, Program, Row, cpu, in_turn, wall};
use crate::peers;
use crate::table::Table;

/// Asks it for three sizes, and for `--version`.
pub fn ask(bench: &Bench) -> Vec<Table> {
    let all = [
        (10, Shape::Layers, 31),
        (1_000, Shape::Layers, 21),
        (10_000, Shape::Layers, 15),
        (10_000, Shape::Chain, 15),
    ];
    let mut tables = vec![version(bench)];
    tables.extend(all.map(|(n, shape, rounds)| of_size(bench, n, shape, rounds)));
    tables
}

fn of_size(bench: &Bench, n: usize, shape: Shape, rounds: usize) -> Table {
    let ready = bench.ready(n, shape);
    let counted = ran(&ready.aebuild.run().said());
    let floor = Program::child("@stat").arg(ready.aebuild.root.join("tasks"));
    let floor = floor.arg(ready.aebuild.kept());
    let mut lanes = vec![
        Lane::new("aebuild", ready.aebuild.run()),
        Lane::new("floor: stat all inputs, read one file", floor),
    ];
    lanes.extend(
        ready
            .ninja
            .as_ref()
            .map(|ninja| Lane::new("ninja", ninja.run())),
    );
    let mut rows = in_turn(bench.rounds(rounds), lanes);
    rows[0].ran = counted;
    if let Some(ninja) = &ready.ninja {
        rows[2].ran = Some(ninja.count_and_run());
    }
    let title = format!("nothing has changed, {n} steps in {}", shape.name());
    let mut table = Table::of(&title, &rows);
    if n == 10 {
        table.at_most("wall", rows[0].wall(), 6.0, " ms");
    }
    if n == 10_000 {
        large_goals(&mut table, &rows);
    }
    if counted != Some(0) {
        table.note(format!(
            "**aebuild ran {counted:?} steps, not 0: the figures mean something else**"
        ));
    }
    table
}

fn large_goals(table: &mut Table, rows: &[Row]) {
    table.at_most(
        "wall over the floor",
        rows[0].ratio(&rows[1], wall),
        2.0,
        "x",
    );
    table.at_most("peak memory", rows[0].rss(), 40.0, " MiB");
    if let Some(ninja) = rows.get(2) {
        table.at_most("wall over ninja", rows[0].ratio(ninja, wall), 0.7, "x");
        table.at_most("CPU over ninja", rows[0].ratio(ninja, cpu), 0.7, "x");
    }
}

fn version(bench: &Bench) -> Table {
    let aebuild = Program::new(env!("CARGO_BIN_EXE_aebuild")).arg("--version");
    let mut lanes = vec![
        Lane::new("aebuild", aebuild),
        Lane::new(
            "floor: a program that does nothing",
            Program::new(crate::inputs::TRUE),
        ),
    ];
    let ninja = peers::ninja().map(|ninja| Program::new(ninja).arg("--version"));
    lanes.extend(ninja.map(|ninja| Lane::new("ninja", ninja)));
    let rows = in_turn(bench.rounds(31), lanes);
    let mut table = Table::of("`--version`", &rows);
    table.at_most("wall", rows[0].wall(), 5.0, " ms");
    table
}
