//! What models cost where they are not asked, and what the largest of the shipped tasks does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::json;

use super::agents::of_prompts;
use crate::Bench;
use crate::inputs::{aebuild, ran};
use crate::measure::{Lane, Program, in_turn};
use crate::table::{Table, ms};

/// Serves an endpoint that gives every request the same answer, for as long as this process runs.
fn endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
    let url = format!("http://{}/v1", listener.local_addr().expect("it has one"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    url
}

fn serve(mut stream: TcpStream) -> Option<()> {
    let mut read = BufReader::new(stream.try_clone().ok()?);
    let answer = json!({
        "choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2},
    })
    .to_string();
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if read.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(n) = line.strip_prefix("content-length:") {
                length = n.trim().parse().ok()?;
            }
        }
        read.read_exact(&mut vec![0; length]).ok()?;
        let n = answer.len();
        let whole = format!("HTTP/1.1 200 OK\r\ncontent-length: {n}\r\n\r\n{answer}");
        stream.write_all(whole.as_bytes()).ok()?;
    }
}

/// Asks what a prompt costs whose model has answered before, beside a prompt of an agent without a model.
pub fn ask_kept(bench: &Bench) -> Vec<Table> {
    let room = bench.room("agent-models");
    let url = endpoint();
    let model = format!(
        "[sandbox]\nisolation = \"none\"\n[agents.solver]\ntype = \"model\"\nmodel = \"m\"\n[models.m]\nbase_url = \"{url}\"\n"
    );
    let kinds = [
        ("answers of a model that are kept", model.as_str()),
        ("no model", "[sandbox]\nisolation = \"none\"\n"),
    ];
    let title = "prompts whose model has answered before";
    let (mut table, [kept, scripted]) = of_prompts(bench, &room, title, kinds);
    let more = kept - scripted;
    table.at_most(
        "an answer that is kept, over a scripted one",
        more,
        1.0,
        " ms",
    );
    table.note(format!("a prompt with it: {}", ms(kept)));
    table.alone()
}

/// Asks what the largest of the shipped tasks takes: 20 conversations at once.
pub fn ask_world(bench: &Bench) -> Vec<Table> {
    let room = bench.room("agent-world");
    let folder = room.join("support-world");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tasks/support-world");
    Program::new("cp")
        .arg("-r")
        .arg(from)
        .arg(&folder)
        .succeed();
    let run = aebuild("run").arg(&folder).arg("--cache-dir");
    let run = run.arg(room.join("cache"));
    let ran_first = ran(&run.said());
    let lanes = vec![
        Lane::new("all steps run", run.clone().arg("--fresh")),
        Lane::new("nothing has changed", run),
    ];
    let mut rows = in_turn(bench.rounds(9), lanes);
    rows[0].ran = ran_first;
    let mut table = Table::of("support-world: 20 conversations at once", &rows);
    table.at_most("wall", rows[0].wall(), 3_000.0, " ms");
    table.at_most("peak memory", rows[0].rss(), 300.0, " MiB");
    table.alone()
}
