//! Texts as they are open, and the folders that they are in.

use aebuild::json::{Value, json};

use super::client::Client;
use super::{TASK, labels, world};
use crate::support::World;

#[test]
fn characters_are_counted_as_agreed() {
    let world = world();
    // Two bytes, one unit; four bytes, two units.
    let text = TASK.replace("\"echo\", ", "\"echo\", \"é😀\", ").replace(
        "\"depends_on\": [\"load\"]",
        "\"x😀\": 1, \"depends_on\": [\"laod\"]",
    );
    for (encoding, character) in [("utf-16", 29), ("utf-8", 31)] {
        let can = json!({"general": {"positionEncodings": [encoding]}});
        let mut client = Client::with(&world.path(), &[&world.path()], can);
        client.did_open_as("tasks/a.json", &text);
        let faults = client.faults("tasks/a.json", "tasks/a.json");
        assert!(
            faults.contains(&format!("8:{character} error unknown-dependency")),
            "{faults:?}"
        );
        let uri = client.uri("tasks/a.json");
        let place = json!({"textDocument": {"uri": uri}, "position": {"line": 8, "character": character + 2}});
        let answer = client.ask("textDocument/completion", place);
        assert_eq!(labels(&answer), ["box", "load"]);
        let edit = json!([{"range": {
            "start": {"line": 8, "character": character + 1},
            "end": {"line": 8, "character": character + 5},
        }, "text": "load"}]);
        client.did_edit("tasks/a.json", edit);
        let faults = client.faults("tasks/a.json", "tasks/a.json");
        assert_eq!(faults, ["8:4 error unknown-field"]);
        assert!(client.end());
    }
}

#[test]
fn a_byte_order_mark_is_no_character_of_a_file_on_disk() {
    let world = world();
    world.write("tasks/b.json", "\u{feff}{\"a\": 1}");
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    assert_eq!(
        client.faults("tasks/a.json", "tasks/b.json"),
        ["0:0 error not-a-list"]
    );
    assert!(client.end());
}

#[test]
fn each_folder_of_the_editor_is_its_own() {
    let world = World::new();
    world.write("one/tasks/a.json", &TASK.replace("letter\"", "post\""));
    world.write("one/artifacts/post/letter.txt", "x");
    world.write("two/tasks/a.json", TASK);
    let (one, two) = (world.path().join("one"), world.path().join("two"));
    let mut client = Client::with(&world.path(), &[&one], json!({}));
    client.did_open("one/tasks/a.json");
    assert_eq!(
        client.faults("one/tasks/a.json", "one/tasks/a.json"),
        [""; 0]
    );
    let folder = json!({"uri": format!("file://{}", two.display()), "name": "two"});
    client.tell(
        "workspace/didChangeWorkspaceFolders",
        json!({"event": {"added": [folder], "removed": []}}),
    );
    client.did_open("two/tasks/a.json");
    assert_eq!(
        client.faults("two/tasks/a.json", "two/tasks/a.json"),
        ["2:57 error unknown-artifact"]
    );
    assert_eq!(
        client.faults("one/tasks/a.json", "one/tasks/a.json"),
        [""; 0]
    );
    // What is not open any more has no faults any more.
    client.tell(
        "workspace/didChangeWorkspaceFolders",
        json!({"event": {"added": [], "removed": [folder]}}),
    );
    client.did_close("two/tasks/a.json");
    assert_eq!(
        client.faults("one/tasks/a.json", "two/tasks/a.json"),
        [""; 0]
    );
    assert!(client.end());
}

#[test]
fn documents_outside_a_workspace_find_their_folder_or_stand_alone() {
    let world = world();
    world.write("lone/x.json", &TASK.replace("[\"load\"]", "[\"laod\"]"));
    world.write("lone/package.json", "{\"type\": \"module\", \"a\": }");
    world.write(
        "deep/er/tasks/a.json",
        &TASK.replace("[\"load\"]", "[\"laod\"]"),
    );
    let mut client = Client::with(&world.path(), &[], json!({}));
    for path in ["lone/x.json", "lone/package.json", "deep/er/tasks/a.json"] {
        client.did_open(path);
    }
    let told = |client: &mut Client, path: &str| {
        let faults = client.faults(path, path);
        faults
            .into_iter()
            .filter(|one| one.contains("dependency"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        told(&mut client, "lone/x.json"),
        ["8:19 error unknown-dependency"]
    );
    assert_eq!(
        told(&mut client, "deep/er/tasks/a.json"),
        ["8:19 error unknown-dependency"]
    );
    assert_eq!(told(&mut client, "lone/package.json"), [""; 0]);
    let params = client.at("lone/package.json", "module", 1);
    assert_eq!(client.ask("textDocument/hover", params), Value::Null);
    let elsewhere =
        json!({"textDocument": {"uri": "untitled:1"}, "position": {"line": 0, "character": 0}});
    assert_eq!(
        client.ask("textDocument/completion", elsewhere),
        Value::Null
    );
    assert!(client.end());
}
