//! What an author waits for who leaves a watch open.

use crate::Bench;
use crate::envs::numbers;
use crate::measure::Program;
use crate::table::{Table, ms};
use crate::watch;

/// Asks how long a verdict takes after a save.
pub fn ask_saves(bench: &Bench) -> Vec<Table> {
    let room = bench.room("watch-saves");
    watch::write(&room, 3);
    let part = Program::child("@watch-saves").arg(&room);
    let said = numbers(&part.said());
    let of = |name: &str| said.get(name).copied().unwrap_or(f64::NAN);
    let head = [
        "a verifier is saved",
        "the verdict",
        "over the verifier's own time",
        "steps run",
    ];
    let mut table = Table::new("from a save to the verdict, all else kept", &head);
    table.row(vec![
        "one of three, in a sandbox".to_owned(),
        ms(of("took")),
        ms(of("over")),
        format!("{}", of("ran")),
    ]);
    table.command("parts", &part.shown());
    table.at_most("over the verifier's own time", of("over"), 50.0, " ms");
    table.alone()
}

/// Asks what a watch of many files takes while nothing happens.
pub fn ask_idle(bench: &Bench) -> Vec<Table> {
    let room = bench.room("watch-idle");
    watch::write(&room, 20_000);
    let part = Program::child("@watch-idle").arg(&room);
    let said = numbers(&part.said());
    let of = |name: &str| said.get(name).copied().unwrap_or(f64::NAN);
    let head = [
        "20,000 files, all run before",
        "CPU in 5 s",
        "memory",
        "memory at the most",
    ];
    let mut table = Table::new("a watch while nothing happens", &head);
    table.row(vec![
        "aebuild".to_owned(),
        ms(of("ticks") * 10.0),
        format!("{:.0} MB", of("memory")),
        format!("{:.0} MB", of("peak")),
    ]);
    table.command("parts", &part.shown());
    table.at_most("CPU", of("ticks") * 10.0, 0.0, " ms");
    table.at_most("memory", of("memory"), 80.0, " MB");
    table.alone()
}
