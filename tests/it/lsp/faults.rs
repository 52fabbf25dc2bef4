//! Faults as they are published, and their fixes.

use aebuild::json::{Value, json};

use super::client::Client;
use super::{TASK, world};

#[test]
fn faults_come_as_they_are_typed_and_go_when_they_are_mended() {
    let world = world();
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json"), [""; 0]);
    assert_eq!(client.n_published.get("tasks/a.json"), None);
    // One character of an id goes, and comes back.
    let range = |start: u32, end: u32| json!({"start": {"line": 2, "character": start}, "end": {"line": 2, "character": end}});
    let at = TASK
        .lines()
        .nth(2)
        .expect("a line")
        .find("[\"box\"]")
        .expect("it is there") as u32;
    client.did_edit(
        "tasks/a.json",
        json!([{"range": range(at + 4, at + 5), "text": ""}]),
    );
    let faults = client.faults("tasks/a.json", "tasks/a.json");
    assert_eq!(faults[0], format!("2:{} error unknown-dependency", at + 1));
    let fault = &client.published["tasks/a.json"][0];
    assert_eq!(fault["source"], "aebuild");
    assert!(
        fault["message"]
            .as_str()
            .expect("a text")
            .contains("did you mean `box`?"),
        "{fault}"
    );
    client.did_edit(
        "tasks/a.json",
        json!([{"range": range(at + 4, at + 4), "text": "x"}]),
    );
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json"), [""; 0]);
    // Nothing new is not published.
    let n = client.n_published["tasks/a.json"];
    client.did_edit("tasks/a.json", json!([{"range": range(0, 0), "text": " "}]));
    client.faults("tasks/a.json", "tasks/a.json");
    assert_eq!(client.n_published["tasks/a.json"], n);
    assert!(client.end());
}

#[test]
fn a_closed_document_is_again_what_is_on_disk() {
    let world = world();
    let mut client = Client::open(&world.path());
    world.write("tasks/b.json", TASK);
    client.did_open("tasks/b.json");
    client.did_open("tasks/a.json");
    client.did_change("tasks/a.json", "[");
    assert_eq!(
        client.faults("tasks/b.json", "tasks/a.json"),
        ["0:1 error unfinished"]
    );
    client.did_close("tasks/a.json");
    assert_eq!(client.faults("tasks/b.json", "tasks/a.json"), [""; 0]);
    assert!(client.end());
}

#[test]
fn every_file_of_the_folder_has_its_faults_open_or_not() {
    let world = world();
    world.write("tasks/b.json", &TASK.replace("\"letter\"", "\"leter\""));
    world.write("evals/e.toml", "tasks = [\"a\"]\n");
    world.write(
        "envs/post/env.toml",
        "type = \"mcp_server\"\ncomand = [\"x\"]\n",
    );
    world.write("aebuild.toml", "[cache]\nage = 3\n");
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    let mut faults = |of: &str| client.faults("tasks/a.json", of);
    assert_eq!(faults("tasks/a.json"), [""; 0]);
    assert_eq!(faults("tasks/b.json"), ["2:57 error unknown-artifact"]);
    assert!(faults("envs/post/env.toml").contains(&"1:0 error unknown-field".to_owned()));
    assert_eq!(faults("aebuild.toml"), ["1:0 error unknown-field"]);
    // A broken configuration is mended in its document.
    client.did_open_as("aebuild.toml", "[cache]\nmax_age_days = 3\n");
    assert_eq!(client.faults("tasks/a.json", "aebuild.toml"), [""; 0]);
    client.did_change("aebuild.toml", "[cache\n");
    assert_eq!(
        client.faults("tasks/a.json", "aebuild.toml"),
        ["0:6 error not-toml"]
    );
    assert!(client.end());
}

#[test]
fn files_that_come_and_go_on_disk_count() {
    let world = world();
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json"), [""; 0]);
    std::fs::remove_dir_all(world.path().join("artifacts")).expect("it was there");
    client.changed_on_disk("artifacts", 3);
    assert_eq!(
        client.faults("tasks/a.json", "tasks/a.json"),
        ["2:57 error unknown-artifact"]
    );
    world.write("artifacts/letter/letter.txt", "Dear Sam\n");
    client.changed_on_disk("artifacts/letter/letter.txt", 1);
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json"), [""; 0]);
    world.write("tasks/b.json", "{}");
    client.changed_on_disk("tasks/b.json", 1);
    assert_eq!(
        client.faults("tasks/a.json", "tasks/b.json"),
        ["0:0 error not-a-list"]
    );
    std::fs::remove_file(world.path().join("tasks/b.json")).expect("it was there");
    client.changed_on_disk("tasks/b.json", 3);
    assert_eq!(client.faults("tasks/a.json", "tasks/b.json"), [""; 0]);
    assert!(client.end());
}

#[test]
fn places_that_explain_are_told_to_editors_that_show_them() {
    let world = world();
    let text = TASK.replace("\"depends_on\": [\"box\"]", "\"depends_on\": []");
    let can = json!({"textDocument": {"publishDiagnostics": {"relatedInformation": true}}});
    let mut client = Client::with(&world.path(), &[&world.path()], can);
    client.did_open_as("tasks/a.json", &text);
    client.faults("tasks/a.json", "tasks/a.json");
    let all = &client.published["tasks/a.json"];
    let fault = all
        .iter()
        .find(|one| one["code"] == "no-path-to-producer")
        .expect("a fault");
    let related = &fault["relatedInformation"][0];
    assert_eq!(related["message"], "made here");
    assert_eq!(related["location"]["uri"], client.uri("tasks/a.json"));
    assert_eq!(related["location"]["range"]["start"]["line"], 1);
    assert!(client.end());
}

#[test]
fn a_fix_that_is_made_leaves_no_fault() {
    let world = world();
    let mut client = Client::open(&world.path());
    let broken = TASK.replacen("[\"box\"]},", "[\"box\"],},", 1);
    client.did_open_as("tasks/a.json", &broken);
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json").len(), 1);
    let actions = client.actions("tasks/a.json", Some("quickfix"));
    assert_eq!(actions.len(), 1, "{actions:?}");
    assert_eq!(actions[0]["isPreferred"], true);
    let mended = client.edited("tasks/a.json", &actions[0]["edit"]);
    let all = client.actions("tasks/a.json", Some("source.fixAll"));
    assert_eq!(client.edited("tasks/a.json", &all[0]["edit"]), mended);
    client.did_change("tasks/a.json", &mended);
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json"), [""; 0]);
    assert_eq!(
        client.actions("tasks/a.json", Some("source.fixAll")),
        [Value::Null; 0]
    );
    assert!(client.end());
}
