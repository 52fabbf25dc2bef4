//! Each `tasks/**/README.md` is a test: its console blocks are run in a copy of its folder, and what is said is compared
//! with what the page shows. `UPDATE_EXPECT=1` rewrites the pages.
//!
//! In a block, a line `$ command` is run by `sh`, and the lines below it are what it says. A last line
//! `(exit status N)` stands for a status other than 0. Steps that run side by side may be told in any order.

use std::sync::Mutex;

use crate::support::{World, files, has_python, is_update, root, stable};

#[test]
fn every_page_of_an_example_tells_the_truth() {
    let pages = Mutex::new(files("tasks", "README.md").into_iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(page) = pages.lock().expect("no thread panics").next() else {
                        return;
                    };
                    if let Err(failure) = check(&page) {
                        failures.lock().expect("no thread panics").push(failure);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no thread panicked");
    failures.sort();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check(page: &str) -> Result<(), String> {
    let file = root().join(page);
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{page}: {error}"))?;
    let folder = page.strip_suffix("/README.md").expect("it is a page");
    let needs_python = files(folder, ".json").iter().any(|file| {
        std::fs::read_to_string(root().join(file)).is_ok_and(|text| text.contains("\"run_code\""))
    });
    if needs_python && !has_python(page) {
        return Ok(());
    }
    let world = World::with(folder);
    let mut told = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        told.push_str(line);
        told.push('\n');
        if line.trim() != "```console" {
            continue;
        }
        while let Some(line) = lines.next_if(|line| line.trim() != "```") {
            // What was said before is told anew.
            if let Some(command) = line.strip_prefix("$ ") {
                told.push_str(line);
                told.push('\n');
                told.push_str(&said(&world, command));
            }
        }
    }
    let (expected, actual) = (comparable(&stable(&text)), comparable(&told));
    if expected == actual {
        return Ok(());
    }
    if is_update() {
        return std::fs::write(&file, told).map_err(|error| format!("{page}: {error}"));
    }
    Err(format!("--- {page}\n{}", difference(&expected, &actual)))
}

/// Returns a text with the lines of progress in an order that does not depend on which step was first.
fn comparable(text: &str) -> String {
    let number = fancy_regex::Regex::new(r"\bstep \d+/").expect("a pattern");
    let mut lines: Vec<String> = Vec::new();
    let mut n_progress = 0;
    for line in text.lines() {
        if line.starts_with("step ") || line.starts_with('[') {
            n_progress += 1;
            lines.push(number.replace(line, "step ?/").into_owned());
        } else {
            n_progress = 0;
            lines.push(line.to_owned());
        }
        let from = lines.len() - n_progress;
        lines[from..].sort();
    }
    lines.join("\n")
}

fn said(world: &World, command: &str) -> String {
    let (mut said, status) = world.shell(command);
    if !said.is_empty() && !said.ends_with('\n') {
        said.push('\n');
    }
    match status {
        Some(0) => {}
        Some(status) => said.push_str(&format!("(exit status {status})\n")),
        None => said.push_str("(killed)\n"),
    }
    said.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Returns the lines in which two texts differ, from the first to the last.
fn difference(expected: &str, actual: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let rest = a.len().min(b.len()) - same;
    let tail = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take_while(|(a, b)| a == b)
        .count()
        .min(rest);
    let mut text = format!("at line {}:\n", same + 1);
    for line in &a[same..a.len() - tail] {
        text.push_str(&format!("- {line}\n"));
    }
    for line in &b[same..b.len() - tail] {
        text.push_str(&format!("+ {line}\n"));
    }
    text
}
