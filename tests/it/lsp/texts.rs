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

#[test]
fn a_text_that_is_on_no_disk_is_a_task_and_one_that_is_renamed_is_another() {
    let world = world();
    let mut client = Client::open(&world.path());
    let broken = TASK.replace("[\"load\"]", "[\"laod\"]");
    let fault = "8:19 error unknown-dependency";
    client.did_open_as("tasks/new.json", &broken);
    assert_eq!(client.faults("tasks/new.json", "tasks/new.json"), [fault]);
    let at = client.at("tasks/new.json", "\"load_artifact\"", 3);
    let hover = client.ask("textDocument/hover", at);
    assert!(hover["contents"]["value"].is_string(), "{hover}");
    // It is saved, renamed and deleted.
    world.write("tasks/new.json", &broken);
    client.changed_on_disk("tasks/new.json", 1);
    let (from, to) = ("tasks/new.json", "tasks/other.json");
    std::fs::rename(world.path().join(from), world.path().join(to)).expect("it is there");
    client.did_close(from);
    client.did_open_as(to, &broken);
    client.changed_on_disk(from, 3);
    client.changed_on_disk(to, 1);
    assert_eq!(client.faults(to, to), [fault]);
    assert_eq!(client.faults(to, from), [""; 0]);
    std::fs::remove_file(world.path().join(to)).expect("it is there");
    client.changed_on_disk(to, 3);
    assert_eq!(client.faults(to, to), [fault], "it is open still");
    client.did_close(to);
    client.did_open("tasks/a.json");
    assert_eq!(client.faults("tasks/a.json", to), [""; 0]);
    assert!(client.end());
}

#[test]
fn lines_end_as_the_text_says() {
    let world = world();
    let text = TASK.replace('\n', "\r\n");
    let mut client = Client::open(&world.path());
    client.did_open_as("tasks/a.json", &text);
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json"), [""; 0]);
    // The third line gets an emoji and a fault behind it, and a line before it.
    let at = |line: u32, character: u32| json!({"line": line, "character": character});
    client.did_edit(
        "tasks/a.json",
        json!([
            {"range": {"start": at(1, 2), "end": at(1, 2)}, "text": "\r\n  "},
            {"range": {"start": at(3, 3), "end": at(3, 3)}, "text": "\"😀\": \"\", "},
            {"range": {"start": at(3, 13), "end": at(3, 13)}, "text": "\"x😀\": 1, "},
            {"range": {"start": at(3, 14), "end": at(3, 15)}, "text": "y"},
        ]),
    );
    assert_eq!(
        client.faults("tasks/a.json", "tasks/a.json"),
        ["3:3 error unknown-field", "3:13 error unknown-field"]
    );
    let message = &client.published["tasks/a.json"][1]["message"];
    assert!(
        message.as_str().is_some_and(|text| text.contains("y😀")),
        "{message}"
    );
    assert!(client.end());
}
