//! What a run costs after an edit.

use crate::Bench;
use crate::Ready;
use crate::inputs::{Shape, ran};
use crate::measure::{Lane, Program, Row, in_turn, wall};
use crate::table::Table;

/// Number of tasks whose sandbox is edited, so that a little over 7,500 of 10,000 steps run.
const CONE_TASKS: usize = 395;

/// Asks it for an edit that changes no result.
pub fn ask(bench: &Bench) -> Vec<Table> {
    let ready = bench.ready(10_000, Shape::Layers);
    let counts = count_leaf(&ready);
    let lanes = vec![
        Lane::new("aebuild, one step edited, same output", ready.aebuild.run()).after(|| {
            ready.aebuild.edit_leaf();
            crate::files::settle();
        }),
        Lane::new("aebuild, nothing edited", ready.aebuild.run()).after(|| ready.aebuild.settle()),
        Lane::new("aebuild, a comment edited", ready.aebuild.run()).after(|| {
            ready.aebuild.edit_comment();
            ready.aebuild.settle();
            ready.aebuild.edit_comment();
            crate::files::settle();
        }),
        Lane::new(
            "the step's command alone",
            Program::child("@spawn").arg("1"),
        ),
    ];
    let mut rows = in_turn(bench.rounds(9), lanes);
    if let Some(ninja) = &ready.ninja {
        let lane = Lane::new("ninja, one step edited, same output", ninja.run())
            .after(|| ninja.edit_leaf());
        rows.extend(in_turn(bench.rounds(9), vec![lane]));
    }
    for (row, count) in rows.iter_mut().zip(counts) {
        row.ran = count;
    }
    let mut table = Table::of(
        "one of 10,000 steps edited, its output stays the same",
        &rows,
    );
    let with_step = rows[1].wall() * 1.1 + rows[3].wall();
    table.at_most(
        "wall over 1.1x the no-op and the step",
        rows[0].wall() / with_step,
        1.0,
        "x",
    );
    if rows[0].ran != Some(1) {
        table.note(format!("**aebuild ran {:?} steps, not 1**", rows[0].ran));
    }
    table.note("A comment edited: one task file is read again, and nothing runs.");
    table.alone()
}

fn count_leaf(ready: &Ready) -> [Option<u64>; 5] {
    ready.aebuild.edit_leaf();
    let leaf = ran(&ready.aebuild.run().said());
    ready.aebuild.edit_comment();
    // The comment's edit takes the leaf's back, which is one more step or a hit.
    ready.aebuild.settle();
    ready.aebuild.edit_comment();
    let comment = ran(&ready.aebuild.run().said());
    let ninja = ready.ninja.as_ref().map(|ninja| {
        ninja.edit_leaf();
        ninja.count_and_run()
    });
    [leaf, Some(0), comment, None, ninja]
}

/// Asks it for an edit after which three quarters of all steps run.
pub fn ask_cone(bench: &Bench) -> Vec<Table> {
    let ready = bench.ready(10_000, Shape::Layers);
    let n = CONE_TASKS * (ready.aebuild.size.steps - 1);
    ready.aebuild.edit_sandboxes(CONE_TASKS);
    let counted = ran(&ready.aebuild.run().said());
    let mut lanes = vec![
        Lane::new("aebuild", ready.aebuild.run()).after(|| {
            ready.aebuild.settle();
            ready.aebuild.edit_sandboxes(CONE_TASKS);
            crate::files::settle();
        }),
        Lane::new(
            "floor: the same commands",
            Program::child("@spawn").arg(n.to_string()),
        ),
    ];
    if let Some(ninja) = &ready.ninja {
        lanes.push(Lane::new("ninja", ninja.run()).after(|| ninja.edit_sources(CONE_TASKS)));
    }
    let mut rows: Vec<Row> = in_turn(bench.rounds(3), lanes);
    rows[0].ran = counted;
    if let (Some(row), Some(ninja)) = (rows.get_mut(2), &ready.ninja) {
        ninja.edit_sources(CONE_TASKS);
        row.ran = Some(ninja.count_and_run());
    }
    let mut table = Table::of(&format!("{n} of 10,000 steps run again"), &rows);
    table.at_most(
        "wall over the commands",
        rows[0].ratio(&rows[1], wall),
        1.15,
        "x",
    );
    if counted != Some(n as u64) {
        table.note(format!("**aebuild ran {counted:?} steps, not {n}**"));
    }
    table.alone()
}
