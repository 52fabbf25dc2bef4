//! What the parts cost that start nothing: the scheduler, and reading and checking.

use crate::Bench;
use crate::inputs::{Shape, Size, TaskFolder, aebuild};
use crate::measure::{Lane, Program, in_turn, median, wall};
use crate::schedule::KINDS;
use crate::table::Table;

/// Asks how many steps a second the scheduler decides.
pub fn ask_schedule(bench: &Bench) -> Vec<Table> {
    let head = [
        "10,000 steps in one task",
        "steps/s",
        "steps/s, plan and forecast included",
    ];
    let mut table = Table::new("the scheduler alone, steps that end at once", &head);
    let mut least = f64::INFINITY;
    for kind in KINDS {
        let program = Program::child("@schedule").arg(*kind).arg("10000");
        let said = (0..bench.rounds(5)).map(|_| {
            let said = program.said();
            let numbers = said
                .split_whitespace()
                .filter_map(|number| number.parse().ok());
            numbers.collect::<Vec<f64>>()
        });
        let said: Vec<Vec<f64>> = said.filter(|numbers| numbers.len() == 2).collect();
        let of = |at: usize| median(said.iter().map(|numbers| numbers[at]).collect());
        // The goal is about the order of steps; those that share a sandbox are shown beside it.
        if !kind.starts_with("box") {
            least = least.min(of(0));
        }
        table.row(vec![
            (*kind).to_owned(),
            format!("{:.0}", of(0)),
            format!("{:.0}", of(1)),
        ]);
        table.command(kind, &program.shown());
    }
    table.at_least(
        "fewest steps/s of `chain` and `layers`",
        least,
        200_000.0,
        "",
    );
    table.alone()
}

/// Asks what reading and checking 10,000 steps costs.
pub fn ask_check(bench: &Bench) -> Vec<Table> {
    let size = Size::of(10_000);
    let folder = TaskFolder::write(&bench.room("check"), size, Shape::Layers);
    let check = aebuild("check")
        .arg(&folder.root)
        .arg("--cache-dir")
        .arg(&folder.cache);
    let floor = Program::child("@parse").arg(folder.root.join("tasks"));
    let lanes = vec![
        Lane::new("aebuild", check).after(|| folder.forget()),
        Lane::new("floor: read and parse as serde_json::Value", floor),
    ];
    let rows = in_turn(bench.rounds(11), lanes);
    let mut table = Table::of("read and check 10,000 steps, nothing remembered", &rows);
    table.at_most("wall", rows[0].wall(), 100.0, " ms");
    table.note(format!(
        "over the floor: {:.1}x",
        rows[0].ratio(&rows[1], wall)
    ));
    table.alone()
}
