//! What live envs cost: to have one again after an edit, its state, calls of its tools, large results.

use std::collections::HashMap;
use std::path::Path;

use crate::Bench;
use crate::envs::numbers;
use crate::files;
use crate::inputs::{aebuild, ran};
use crate::measure::{Lane, Program, in_turn, wall};
use crate::table::{Table, bytes, ms};

/// Number of calls that each client makes.
const CALLS: usize = 2_000;

fn run(folder: &Path, cache: &Path) -> Program {
    let run = aebuild("run").arg(folder).arg("--cache-dir");
    run.arg(cache).args(["--jobs", "2"])
}

fn copy(from: &Path, to: &Path) {
    for file in files::below(from) {
        let below = file.strip_prefix(from).expect("it lies below");
        let text = std::fs::read(&file).expect("it is there");
        files::write(&to.join(below), text);
    }
}

/// Asks what an edit of a check costs where the env must be brought back to a kept state.
pub fn ask_edit(bench: &Bench) -> Vec<Table> {
    let room = bench.room("env-edit");
    let (reply, look, cache) = (room.join("reply"), room.join("look"), room.join("cache"));
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tasks/reply-to-dana");
    copy(&own, &reply);
    files::write(
        &look.join("aebuild.toml"),
        "[envs.email]\nbuiltin = \"mail\"\n",
    );
    files::write(
        &look.join("tasks/look.json"),
        r#"[{"id": "email", "type": "deploy_env", "env_id": "email", "depends_on": []},
{"id": "card", "type": "verify_env_card", "env_id": "email", "depends_on": [{"task_step_id": "email"}]}]"#,
    );
    let check = reply.join("artifacts/sent/verify.toml");
    let text = std::fs::read_to_string(&check).expect("it is there");
    let mut n = 0;
    let mut edit = || {
        n += 1;
        let edited = text.replace("Dana got one answer", &format!("Dana got one answer, {n}"));
        files::write(&check, edited);
        files::settle();
    };
    run(&reply, &cache).succeed();
    run(&look, &cache).succeed();
    edit();
    let counted = ran(&run(&reply, &cache).said());
    let only = run(&look, &cache).args(["--rerun", "card"]);
    let counted_only = ran(&only.said());
    let lanes = vec![
        Lane::new(
            "aebuild, the check of reply-to-dana edited",
            run(&reply, &cache),
        )
        .after(edit),
        Lane::new("floor: a run that only starts the env", only),
        Lane::new("aebuild, nothing edited", run(&reply, &cache)),
        Lane::new(
            "a process that starts the env and lists its tools",
            Program::child("@env-start").arg("mail"),
        ),
    ];
    let mut rows = in_turn(bench.rounds(15), lanes);
    (rows[0].ran, rows[1].ran, rows[2].ran) = (counted, counted_only, Some(0));
    let mut table = Table::of(
        "the check of a task with an env edited, all else kept",
        &rows,
    );
    let ratio = rows[0].ratio(&rows[1], wall);
    table.at_most("wall over a run that only starts the env", ratio, 3.0, "x");
    let bare = rows[0].ratio(&rows[3], wall);
    table.note(format!(
        "over the process that only starts the env: {bare:.1}x"
    ));
    if counted != Some(1) || counted_only != Some(1) {
        table.note(format!(
            "**{counted:?} and {counted_only:?} steps ran, not 1 each**"
        ));
    }
    table.alone()
}

/// Asks what it costs to take and bring back a large state.
pub fn ask_state(bench: &Bench) -> Vec<Table> {
    let room = bench.room("env-state");
    let rounds = bench.rounds(9).to_string();
    let part = Program::child("@env-state").arg(rounds).arg(&room);
    let said = numbers(&part.said());
    let of = |name: &str| said.get(name).copied().unwrap_or(f64::NAN);
    let size = bytes(of("bytes") as u64);
    let title = format!("the state of `mail` with 10,000 emails, {size}, taken and brought back");
    let mut table = Table::new(&title, &["part", "time", "to serialising it once"]);
    let floor = of("serialise");
    table.row(vec![
        "floor: `serde_json::to_vec` of the state".to_owned(),
        ms(floor),
        "1.00x".to_owned(),
    ]);
    let mut names: Vec<&String> = said.keys().collect();
    names.retain(|name| *name != "bytes" && *name != "serialise");
    names.sort_by_key(|name| (name.starts_with("fsync"), name.as_str()));
    for name in names {
        let ratio = format!("{:.2}x", of(name) / floor);
        table.row(vec![name.clone(), ms(of(name)), ratio]);
    }
    for name in ["snapshot", "restore"] {
        table.at_most(
            &format!("{name} over serialising"),
            of(name) / floor,
            2.0,
            "x",
        );
    }
    table.command("parts", &part.shown());
    table.alone()
}

/// Asks what the gateway adds to a call, and how many calls go through it.
pub fn ask_calls(bench: &Bench) -> Vec<Table> {
    let room = bench.room("env-calls");
    let n = bench.rounds(CALLS).max(CALLS / 4).to_string();
    let part = Program::child("@env-calls").arg(n).arg(&room);
    let said = numbers(&part.said());
    let of = |name: &str| said.get(name).copied().unwrap_or(f64::NAN);
    let head = [
        "a tool of `kv`, client and server on both processors",
        "direct",
        "gateway",
    ];
    let mut table = Table::new("calls through the gateway", &head);
    for kind in ["sessions", "requests"] {
        let (direct, gateway) = (
            of(&format!("{kind}: direct")),
            of(&format!("{kind}: gateway")),
        );
        table.row(vec![
            format!("HTTP, {kind}: median of a call, one client"),
            ms(direct),
            ms(gateway),
        ]);
        table.at_most(
            &format!("{kind}: added to a call at the median"),
            gateway - direct,
            0.5,
            " ms",
        );
    }
    for kind in ["sessions", "requests", "in process"] {
        let rate = |who: &str| of(&format!("{kind}: {who}, calls/s"));
        let clients = if kind == "in process" {
            "one caller"
        } else {
            "HTTP, four clients"
        };
        table.row(vec![
            format!("{kind}: calls/s, {clients}"),
            format!("{:.0}", rate("direct")),
            format!("{:.0}", rate("gateway")),
        ]);
        if kind != "in process" {
            table.at_least(&format!("{kind}: calls/s"), rate("gateway"), 2_000.0, "");
        }
    }
    table.command("parts", &part.shown());
    table.alone()
}

/// Asks what a large result costs in memory.
pub fn ask_large(bench: &Bench) -> Vec<Table> {
    let room = bench.room("env-large");
    let part = Program::child("@env-large").arg(&room);
    let said: HashMap<String, f64> = numbers(&part.said());
    let of = |name: &str| said.get(name).copied().unwrap_or(f64::NAN);
    let head = ["a tool result of 100 MB", ""];
    let mut table = Table::new("a large result is recorded", &head);
    let held = format!("{:.0} MiB", of("held, MiB"));
    table.row(vec!["memory with the result".to_owned(), held]);
    let peak = format!("{:.0} MiB", of("peak, MiB"));
    table.row(vec!["peak memory".to_owned(), peak]);
    table.row(vec!["call".to_owned(), ms(of("call"))]);
    table.row(vec!["the env alone".to_owned(), ms(of("the env alone"))]);
    let line = bytes(of("line of the record, bytes") as u64);
    table.row(vec!["line of the record".to_owned(), line]);
    let ratio = of("peak, MiB") / of("held, MiB");
    table.at_most("peak over the result itself", ratio, 1.2, "x");
    table.command("part", &part.shown());
    table.alone()
}
