//! The language server, as an editor meets it.

mod client;
mod faults;
mod places;
mod protocol;
mod texts;

use aebuild::json::Value;

use crate::support::World;

const TASK: &str = r#"[
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "depends_on": []},
  {"id": "load", "type": "load_artifact", "artifact_id": "letter", "sandbox_name": "box", "depends_on": ["box"]},
  {
    "id": "there",
    "type": "verify_sandbox",
    "sandbox_name": "box",
    "criteria": [{"type": "command_succeeds", "argv": ["echo", "Dear Sam"]}],
    "depends_on": ["load"]
  }
]
"#;

/// Returns a world with a task folder of one task.
fn world() -> World {
    let world = World::new();
    world.write("tasks/a.json", TASK);
    world.write("artifacts/letter/letter.txt", "Dear Sam\n");
    world
}

/// Returns the labels that are offered.
fn labels(answer: &Value) -> Vec<&str> {
    let items = answer["items"].as_array().expect("a list");
    items
        .iter()
        .map(|one| one["label"].as_str().expect("a text"))
        .collect()
}
