//! What an editor waits for.

use crate::Bench;
use crate::inputs::{Shape, Size, TaskFolder};
use crate::measure::{Program, median};
use crate::table::Table;

/// Asks how long the faults take after a character is typed.
pub fn ask_keys(bench: &Bench) -> Vec<Table> {
    let head = [
        "10,000 steps",
        "from a character to the faults",
        "the slowest",
        "floor: read the text as JSON",
    ];
    let mut table = Table::new("typing in an editor", &head);
    let sizes = [
        ("500 tasks of 20", Size::of(10_000), 30.0),
        (
            "one task",
            Size {
                tasks: 1,
                steps: 10_000,
            },
            30.0,
        ),
    ];
    for (name, size, goal) in sizes {
        let folder = TaskFolder::write(
            &bench.room(&format!("editor-{}", size.tasks)),
            size,
            Shape::Layers,
        );
        let program = Program::child("@editor-keys").arg(&folder.root);
        let said: Vec<Vec<f64>> = (0..bench.rounds(5))
            .map(|_| {
                let said = program.said();
                let numbers = said.split_whitespace();
                numbers.filter_map(|number| number.parse().ok()).collect()
            })
            .filter(|numbers: &Vec<f64>| numbers.len() == 3)
            .collect();
        let of = |at: usize| median(said.iter().map(|numbers| numbers[at]).collect());
        table.row(vec![
            name.to_owned(),
            format!("{:.1} ms", of(0)),
            format!("{:.1} ms", of(1)),
            format!("{:.1} ms", of(2)),
        ]);
        table.command(name, &program.shown());
        table.at_most(
            &format!("{name}: from a character to the faults"),
            of(0),
            goal,
            " ms",
        );
    }
    table.alone()
}
