//! What a first run costs over starting the commands.

use crate::Bench;
use crate::inputs::{Shape, Size};
use crate::measure::{Lane, Program, in_turn};
use crate::table::{Table, ms};

/// Asks it for sizes from 10 to 10,000 steps.
pub fn ask(bench: &Bench) -> Vec<Table> {
    let head = [
        "steps",
        "aebuild",
        "CPU",
        "the same commands",
        "CPU",
        "ninja",
        "over the commands, a step",
        "in CPU, a step",
    ];
    let mut table = Table::new("a first run, two steps at once", &head);
    let mut most: f64 = 0.0;
    for (n, rounds) in [(10, 11), (100, 7), (1_000, 3), (10_000, 1)] {
        if bench.arguments.is_quick && n > 1_000 {
            table.note("10,000 steps are left out: `--quick`");
            continue;
        }
        let ready = bench.ready(n, Shape::Layers);
        let n_commands = Size::of(n).commands();
        let floor = Program::child("@spawn").arg(n_commands.to_string());
        let mut lanes = vec![
            Lane::new("aebuild", ready.aebuild.run()).after(|| ready.aebuild.forget()),
            Lane::new("the same commands", floor),
        ];
        if let Some(ninja) = &ready.ninja {
            lanes.push(Lane::new("ninja", ninja.run()).after(|| ninja.forget()));
        }
        let rows = in_turn(bench.rounds(rounds), lanes);
        let over = (rows[0].wall() - rows[1].wall()) / n_commands as f64;
        let cpu_over = (rows[0].cpu() - rows[1].cpu()) / n_commands as f64;
        most = most.max(over);
        table.row(vec![
            format!("{n} ({n_commands} commands)"),
            ms(rows[0].wall()),
            ms(rows[0].cpu()),
            ms(rows[1].wall()),
            ms(rows[1].cpu()),
            rows.get(2)
                .map_or_else(|| "-".to_owned(), |row| ms(row.wall())),
            format!("{over:.3} ms"),
            format!("{cpu_over:.3} ms"),
        ]);
        if n == 1_000 {
            rows.iter()
                .for_each(|row| table.command(&row.name, &row.command));
        }
    }
    table.at_most("most over the commands, a step", most, 0.15, " ms");
    table.alone()
}
