//! What agents cost: a message over A2A, and a prompt of an agent that needs no time itself.

use std::path::Path;

use serde_json::json;

use crate::Bench;
use crate::envs::numbers;
use crate::files;
use crate::inputs::{aebuild, ran};
use crate::measure::{Lane, Program, in_turn};
use crate::table::{Table, ms};

/// Number of messages that each client sends.
const MESSAGES: usize = 2_000;
/// Number of prompts of the longer task; the shorter one has a single prompt.
const PROMPTS: usize = 101;

/// Asks how many messages an agent takes that is served over A2A.
pub fn ask_messages(bench: &Bench) -> Vec<Table> {
    let n = bench.rounds(MESSAGES).max(MESSAGES / 4).to_string();
    let part = Program::child("@agent-messages").arg(n);
    let said = numbers(&part.said());
    let of = |name: String| said.get(&name).copied().unwrap_or(f64::NAN);
    let head = [
        "client and server on both processors",
        "floor: the same over HTTP, with nothing behind it",
        "an agent that answers at once",
    ];
    let mut table = Table::new("messages to an agent that is served over A2A", &head);
    for dialect in ["0.3", "1.0"] {
        let both = |what: &str| ["floor", "agent"].map(|who| of(format!("{dialect}: {who}{what}")));
        let [floor, agent] = both("");
        table.row(vec![
            format!("{dialect}: median of a message, one client"),
            ms(floor),
            ms(agent),
        ]);
        let [floor, agent] = both(", messages/s");
        table.row(vec![
            format!("{dialect}: messages/s, four clients"),
            format!("{floor:.0}"),
            format!("{agent:.0}"),
        ]);
        table.at_least(&format!("{dialect}: messages/s"), agent, 1_000.0, "");
    }
    table.command("parts", &part.shown());
    table.alone()
}

/// Writes a task folder whose agent is prompted so often.
fn prompts(folder: &Path, config: &str, n: usize) {
    let mut steps = vec![json!({"id": "solver", "type": "deploy_agent", "agent_name": "solver"})];
    for at in 0..n {
        steps.push(
            json!({"id": format!("p{at}"), "type": "prompt_agent", "agent_name": "solver",
                          "prompt": format!("hello {at}")}),
        );
    }
    files::write(&folder.join("aebuild.toml"), config);
    files::write(&folder.join("tasks/prompts.json"), json!(steps).to_string());
    let script = "type = \"scripted\"\n[[rules]]\nreply = \"{{prompt}}\"\n";
    files::write(&folder.join("agents/solver/agent.toml"), script);
}

/// Asks what a prompt costs where the agent is scripted: in the process, and over A2A.
pub fn ask_prompt(bench: &Bench) -> Vec<Table> {
    let room = bench.room("agent-prompt");
    let program = env!("CARGO_BIN_EXE_aebuild");
    let served = json!([program, "agent", room.join("served"), "--port", "{port}"]);
    let over_a2a = format!(
        "[sandbox]\nisolation = \"none\"\n[agents.solver]\ntype = \"a2a\"\ncommand = {served}\nmount = [{:?}]\n",
        room.join("served")
    );
    let script = "type = \"scripted\"\n[[rules]]\nreply = \"{{prompt}}\"\n";
    files::write(&room.join("served/agent.toml"), script);
    let kinds = [
        ("in the process", "[sandbox]\nisolation = \"none\"\n"),
        ("over A2A, in a process of its own", &over_a2a),
    ];
    let title = "prompts of a scripted agent, nothing kept";
    let (mut table, [own, a2a]) = of_prompts(bench, &room, title, kinds);
    table.at_most("a prompt in the process", own, 5.0, " ms");
    table.note(format!("a prompt over A2A: {}", ms(a2a)));
    table.alone()
}

/// Runs many prompts and one with each of two configurations; returns what a prompt takes with each, in milliseconds.
pub(super) fn of_prompts(
    bench: &Bench,
    room: &Path,
    title: &str,
    kinds: [(&str, &str); 2],
) -> (Table, [f64; 2]) {
    let mut lanes = Vec::new();
    let mut counted = Vec::new();
    for (name, config) in kinds {
        for n in [PROMPTS, 1] {
            let folder = room.join(format!("{}-{n}", lanes.len()));
            prompts(&folder, config, n);
            let run = aebuild("run").arg(&folder).arg("--fresh");
            let run = run.arg("--cache-dir").arg(room.join("cache"));
            let run = run.args(["--jobs", "2"]);
            counted.push((ran(&run.said()), Some(n as u64)));
            lanes.push(Lane::new(&format!("{n} prompts, {name}"), run));
        }
    }
    let mut rows = in_turn(bench.rounds(9), lanes);
    for (row, (ran, _)) in rows.iter_mut().zip(&counted) {
        row.ran = *ran;
    }
    let mut table = Table::of(title, &rows);
    let each = |at: usize| (rows[at].wall() - rows[at + 1].wall()) / (PROMPTS - 1) as f64;
    if counted.iter().any(|(ran, meant)| ran != meant) {
        table.note(format!("**{counted:?} steps ran, of those that should**"));
    }
    (table, [each(0), each(2)])
}
