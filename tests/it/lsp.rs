//! The language server, as an editor meets it.

mod client;

use std::io::{Read, Write};
use std::process::Stdio;

use aebuild::json::{Value, json};

use crate::support::{World, root};
use client::Client;

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

#[test]
fn the_editor_is_told_what_the_server_can() {
    let world = world();
    let mut client = Client::raw(&world.path());
    let (code, text) = client.refused("textDocument/hover", json!({}));
    assert_eq!((code, text.as_str()), (-32002, "`initialize` comes first"));
    client.tell("textDocument/didOpen", json!({}));
    let can = json!({"general": {"positionEncodings": ["utf-16", "utf-8"]}});
    let answer = client.ask(
        "initialize",
        json!({"capabilities": can, "processId": null}),
    );
    let can = &answer["capabilities"];
    assert_eq!(can["positionEncoding"], "utf-8");
    assert_eq!(can["textDocumentSync"]["change"], 2);
    for name in ["hover", "definition", "references", "documentSymbol"] {
        assert_eq!(can[format!("{name}Provider")], true, "{name}");
    }
    assert_eq!(
        client.refused("initialize", json!({"capabilities": {}})).0,
        -32600
    );
    assert_eq!(client.refused("textDocument/nonsense", json!({})).0, -32601);
    assert_eq!(
        client.refused("textDocument/hover", json!({"x": 1})).0,
        -32602
    );
    assert!(client.end());
}

#[test]
fn it_ends_as_agreed_or_not() {
    let world = world();
    let mut client = Client::open(&world.path());
    assert_eq!(client.ask("shutdown", Value::Null), Value::Null);
    let (code, _) = client.refused("textDocument/hover", json!({}));
    assert_eq!(code, -32600);
    assert!(!client.leave(), "the editor went without a word");
    let client = Client::open(&world.path());
    client.tell("exit", Value::Null);
    assert!(!client.leave());
}

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

/// Returns the labels that are offered.
fn labels(answer: &Value) -> Vec<&str> {
    let items = answer["items"].as_array().expect("a list");
    items
        .iter()
        .map(|one| one["label"].as_str().expect("a text"))
        .collect()
}

#[test]
fn what_fits_is_offered_while_the_text_is_broken() {
    let world = world();
    world.write("aebuild.toml", "\n");
    let can = json!({"textDocument": {"completion": {"completionItem": {"snippetSupport": true}}}});
    let mut client = Client::with(&world.path(), &[&world.path()], can);
    client.did_open("tasks/a.json");
    let mut offered = |broken: &str, at: &str| {
        let text = TASK.replacen("\n]", &format!(",\n  {broken}\n]"), 1);
        client.did_change("tasks/a.json", &text);
        let params = client.at(
            "tasks/a.json",
            broken,
            broken.find(at).expect("a place") + at.len(),
        );
        client.ask("textDocument/completion", params)
    };
    let answer = offered(r#"{"type": ""}"#, r#""type": ""#);
    assert!(labels(&answer).contains(&"prompt_agent"), "{answer}");
    let answer = offered(r#"{"type": "verify_sandbox", "sandbox_na"#, "sandbox_na");
    let item = answer["items"].as_array().expect("a list").iter();
    let item = item
        .clone()
        .find(|one| one["label"] == "sandbox_name")
        .expect("it is offered");
    assert_eq!(item["textEdit"]["newText"], "\"sandbox_name\": \"$1\"");
    assert_eq!(item["filterText"], "\"sandbox_name");
    assert_eq!(item["insertTextFormat"], 2);
    assert_eq!(
        item["textEdit"]["range"]["start"],
        json!({"line": 10, "character": 29})
    );
    let answer = offered(r#"{"id": "x", "depends_on": [""]}"#, "[\"");
    assert_eq!(labels(&answer), ["box", "load", "there"]);
    let answer = offered(
        r#"{"type": "load_artifact", "artifact_id": ""}"#,
        "_id\": \"",
    );
    assert_eq!(labels(&answer), ["letter"]);
    let answer = offered(r#"{"sandbox_name": }"#, "\": ");
    assert_eq!(labels(&answer), ["box"]);
    client.did_open_as("aebuild.toml", "[run]\n");
    let uri = client.uri("aebuild.toml");
    let params = json!({"textDocument": {"uri": uri}, "position": {"line": 1, "character": 0}});
    let answer = client.ask("textDocument/completion", params);
    assert!(labels(&answer).contains(&"keep_runs"), "{answer}");
    assert!(client.end());
}

#[test]
fn a_step_tells_its_cached_result() {
    let world = world();
    world.write("aebuild.toml", "[sandbox]\nisolation = \"none\"\n");
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    let mut hover = |needle: &str, plus: usize| {
        let params = client.at("tasks/a.json", needle, plus);
        let answer = client.ask("textDocument/hover", params);
        answer["contents"]["value"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(hover("\"command_succeeds\"", 1).is_empty());
    let field = hover("\"criteria\"", 1);
    assert!(
        field.starts_with("**`criteria`**: array, [] where it is left out"),
        "{field}"
    );
    let before = hover("\"there\"", 1);
    assert!(
        before.contains("step **`there`** (`verify_sandbox`)"),
        "{before}"
    );
    assert!(!before.contains("**cached**"), "{before}");

    let (said, status) = world.shell("aebuild run");
    assert_eq!(status, Some(0), "{said}");
    let after = hover("\"there\"", 1);
    assert!(after.contains("**cached**, made by run `"), "{after}");
    assert!(
        after.contains("last: took ") && after.contains("score 1"),
        "{after}"
    );
    assert!(after.contains("Dear Sam"), "{after}");

    // What is typed and not saved decides.
    let text = TASK.replace("\"echo\", ", "\"echo\", \"-n\", ");
    client.did_change("tasks/a.json", &text);
    let params = client.at("tasks/a.json", "\"there\"", 1);
    let answer = client.ask("textDocument/hover", params);
    let edited = answer["contents"]["value"].as_str().expect("a text");
    assert!(
        edited.contains("**will run**, dirty because\n\n- field `criteria` changed"),
        "{edited}"
    );
    assert!(edited.contains("Dear Sam"), "{edited}");
    assert!(client.end());
}

#[test]
fn names_lead_to_where_they_are_made() {
    let world = world();
    world.write("aliases.toml", "[envs]\npost = [\"inbox\"]\n");
    world.write(
        "envs/post/env.toml",
        "type = \"builtin\"\nbuiltin = \"mail\"\n",
    );
    world.write(
        "aebuild.toml",
        "[models.small]\napi = \"openai\"\n\n[envs.shop]\nurl = \"http://127.0.0.1:9/mcp\"\n",
    );
    let text = TASK.replacen(
        "\n]",
        ",\n  {\"id\": \"p\", \"type\": \"deploy_env\", \"env_id\": \"inbox\"},\n  {\"id\": \"s\", \"type\": \"deploy_env\", \"env_id\": \"shop\"}\n]",
        1,
    );
    let mut client = Client::open(&world.path());
    client.did_open_as("tasks/a.json", &text);
    let mut goes_to = |needle: &str, plus: usize| {
        let params = client.at("tasks/a.json", needle, plus);
        let answer = client.ask("textDocument/definition", params);
        let found = answer.as_array().cloned().unwrap_or_default();
        let shown = found.iter().map(|one| {
            let uri = one["uri"].as_str().expect("a text");
            let start = &one["range"]["start"];
            let path = uri.strip_prefix(&client.uri("")).unwrap_or(uri).to_owned();
            format!("{path} {}:{}", start["line"], start["character"])
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(goes_to("[\"box\"]", 2), ["tasks/a.json 1:10"]);
    assert_eq!(
        goes_to("\"letter\"", 2),
        ["artifacts/letter/letter.txt 0:0"]
    );
    assert_eq!(goes_to("\"inbox\"", 2), ["envs/post/env.toml 0:0"]);
    assert_eq!(goes_to("\"shop\"", 2), ["aebuild.toml 3:6"]);
    assert_eq!(goes_to("\"echo\"", 2), [""; 0]);
    assert!(client.end());
}

#[test]
fn who_names_a_thing_is_found_across_the_folder() {
    let world = world();
    world.write("tasks/b.json", TASK);
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    let mut found = |needle: &str, plus: usize, with_makers: bool| {
        let mut params = client.at("tasks/a.json", needle, plus);
        params["context"] = json!({"includeDeclaration": with_makers});
        let answer = client.ask("textDocument/references", params);
        let all = answer.as_array().cloned().unwrap_or_default();
        let shown = all.iter().map(|one| {
            let uri = one["uri"].as_str().expect("a text");
            let path = uri.strip_prefix(&client.uri("")).unwrap_or(uri).to_owned();
            let start = &one["range"]["start"];
            format!("{path} {}:{}", start["line"], start["character"])
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(
        found("\"letter\"", 1, true),
        ["tasks/a.json 2:58", "tasks/b.json 2:58"]
    );
    // A step is known in its task only.
    assert_eq!(
        found("\"load\"", 1, true),
        ["tasks/a.json 2:10", "tasks/a.json 8:20"]
    );
    assert_eq!(found("\"load\"", 1, false), ["tasks/a.json 8:20"]);
    assert!(client.end());
}

#[test]
fn a_new_name_is_written_everywhere() {
    let world = world();
    world.write("aliases.toml", "[envs]\npost = [\"inbox\", \"mailbox\"]\n");
    world.write(
        "envs/post/env.toml",
        "type = \"builtin\"\nbuiltin = \"mail\"\n",
    );
    let env = "[{\"id\": \"p\", \"type\": \"deploy_env\", \"env_id\": \"inbox\"}]";
    world.write("tasks/b.json", env);
    world.write("tasks/c.json", env);
    let can = json!({"workspace": {"workspaceEdit": {"documentChanges": true}}});
    let mut client = Client::with(&world.path(), &[&world.path()], can);
    client.did_open("tasks/a.json");
    client.did_open("tasks/b.json");
    let renamed = |client: &mut Client, path: &str, needle: &str, plus: usize, to: &str| {
        let mut params = client.at(path, needle, plus);
        params["newName"] = to.into();
        client.ask("textDocument/rename", params)
    };
    let edit = renamed(&mut client, "tasks/a.json", "[\"box\"]", 2, "den");
    let expected = TASK
        .replace("{\"id\": \"box\"", "{\"id\": \"den\"")
        .replace("[\"box\"]", "[\"den\"]");
    assert_eq!(client.edited("tasks/a.json", &edit), expected);
    let edit = renamed(&mut client, "tasks/b.json", "\"inbox\"", 2, "letters");
    for path in ["tasks/b.json", "tasks/c.json"] {
        assert_eq!(
            client.edited(path, &edit),
            env.replace("inbox", "letters"),
            "{path}"
        );
    }
    let aliases = client.edited("aliases.toml", &edit);
    assert_eq!(aliases, "[envs]\npost = [\"letters\", \"mailbox\"]\n");
    let changes = edit["documentChanges"].as_array().expect("a list");
    let version = |path: &str| {
        let uri = client.uri(path);
        let one = changes
            .iter()
            .find(|one| one["textDocument"]["uri"] == *uri);
        one.expect("edits of the file")["textDocument"]["version"].clone()
    };
    assert_eq!(
        (version("tasks/b.json"), version("tasks/c.json")),
        (json!(1), Value::Null)
    );

    let params = client.at("tasks/a.json", "\"letter\"", 2);
    let (code, text) = client.refused("textDocument/prepareRename", params);
    assert_eq!(code, -32803);
    assert_eq!(
        text,
        "`letter` is the name of the folder artifacts/letter: rename the folder, and then what names it"
    );
    let params = client.at("tasks/a.json", "[\"box\"]", 2);
    let range = client.ask("textDocument/prepareRename", params);
    assert_eq!(range["start"]["line"], 2);
    let params = client.at("tasks/a.json", "\"echo\"", 2);
    assert_eq!(
        client.ask("textDocument/prepareRename", params),
        Value::Null
    );
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

#[test]
fn steps_are_the_outline() {
    let world = world();
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    let uri = client.uri("tasks/a.json");
    let answer = client.ask(
        "textDocument/documentSymbol",
        json!({"textDocument": {"uri": uri}}),
    );
    let said: Vec<_> = answer
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            (
                one["name"].clone(),
                one["detail"].clone(),
                one["selectionRange"]["start"]["line"].clone(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            (json!("box"), json!("deploy_sandbox"), json!(1)),
            (json!("load"), json!("load_artifact"), json!(2)),
            (json!("there"), json!("verify_sandbox"), json!(4)),
        ]
    );
    assert!(client.end());
}

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
fn wrong_places_are_refused_and_do_no_harm() {
    let world = world();
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    let uri = client.uri("tasks/a.json");
    let at = |line: u32, character: u32| json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character}});
    let (code, text) = client.refused("textDocument/hover", at(999, 0));
    assert_eq!(code, -32602);
    assert!(
        text.ends_with("a.json` has no line 999, counted from 0"),
        "{text}"
    );
    assert_eq!(client.ask("textDocument/hover", at(0, 9999)), Value::Null);
    // An edit outside the text is made at its end, and the editor is told.
    let range =
        json!({"start": {"line": 999, "character": 0}, "end": {"line": 1000, "character": 0}});
    client.did_edit("tasks/a.json", json!([{"range": range, "text": "]"}]));
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json").len(), 1);
    assert!(
        client
            .others
            .iter()
            .any(|one| one["method"] == "window/logMessage")
    );
    client.tell("textDocument/didChange", json!({"textDocument": 3}));
    client.tell("$/unknown", json!([]));
    client.did_change("tasks/a.json", &"[".repeat(200_000));
    client.faults("tasks/a.json", "tasks/a.json");
    client.did_change("tasks/a.json", &format!("[\"{}\"]", "x".repeat(9 << 20)));
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json").len(), 1);
    client.did_change("tasks/a.json", TASK);
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json"), [""; 0]);
    assert!(client.end());
}

#[test]
fn a_request_that_is_taken_back_is_answered_so() {
    let world = world();
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    client.faults("tasks/a.json", "tasks/a.json");
    // The server is kept busy, so that what follows waits in its queue.
    let mut text = TASK.trim_end().trim_end_matches(']').trim_end().to_owned();
    for at in 0..2_000 {
        text.push_str(&format!(",\n  {{\"id\": \"s{at}\", \"type\": \"verify_sandbox\", \"sandbox_name\": \"box\", \"criteria\": []}}"));
    }
    text.push_str("\n]");
    client.did_change("tasks/a.json", &text);
    let uri = client.uri("tasks/a.json");
    let first = client.send(
        "textDocument/documentSymbol",
        json!({"textDocument": {"uri": uri}}),
    );
    let second = client.send(
        "textDocument/documentSymbol",
        json!({"textDocument": {"uri": uri}}),
    );
    client.tell("$/cancelRequest", json!({"id": 99_999}));
    client.tell(
        "$/cancelRequest",
        json!({"id": second.to_string().parse::<i32>().expect("a number")}),
    );
    // Answers may come in either order; both come.
    let codes = client.both(&first, &second);
    assert!(codes[0].is_none(), "the first was not taken back");
    assert!(codes[1].is_none_or(|code| code == -32800));
    assert!(client.end());
}

#[test]
fn the_program_serves_over_its_standard_input_and_output() {
    let world = world();
    let mut child = world
        .command(env!("CARGO_BIN_EXE_aebuild"))
        .arg("lsp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut send = |body: &str| {
        write!(input, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("it reads");
    };
    let uri = format!("file://{}", world.path().display());
    send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}, "rootUri": uri}}).to_string());
    send("{nonsense");
    send(&json!({"jsonrpc": "2.0", "method": "initialized", "params": {}}).to_string());
    let document = json!({"uri": format!("{uri}/tasks/a.json"), "languageId": "json", "version": 1, "text": "{}"});
    send(&json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": document}}).to_string());
    let params = json!({
        "textDocument": {"uri": format!("{uri}/tasks/a.json")},
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}},
        "context": {"diagnostics": []},
    });
    send(
        &json!({"jsonrpc": "2.0", "id": 2, "method": "textDocument/codeAction", "params": params})
            .to_string(),
    );
    send(&json!({"jsonrpc": "2.0", "id": 3, "method": "shutdown"}).to_string());
    send(&json!({"jsonrpc": "2.0", "method": "exit"}).to_string());
    let mut said = String::new();
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_to_string(&mut said)
        .expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{said}");
    assert!(said.contains("\"serverInfo\""), "{said}");
    assert!(said.contains("\"code\":-32700"), "{said}");
    assert!(said.contains("not-a-list"), "{said}");

    let gone = world
        .command(env!("CARGO_BIN_EXE_aebuild"))
        .arg("lsp")
        .status();
    assert_eq!(gone.expect("the program starts").code(), Some(1));
}

#[test]
fn the_extension_is_what_its_description_says() {
    let folder = root().join("editors/vscode");
    let text = std::fs::read_to_string(folder.join("package.json")).expect("it is there");
    let package: Value = aebuild::json::from_slice(text.as_bytes()).expect("it is JSON");
    let main = folder.join(package["main"].as_str().expect("a text"));
    let script = std::fs::read_to_string(&main).expect("it is there");
    let settings = package["contributes"]["configuration"]["properties"].clone();
    assert_eq!(settings["aebuild.path"]["default"], "aebuild");
    assert!(script.contains(r#"getConfiguration("aebuild").get("path")"#));
    for command in package["contributes"]["commands"]
        .as_array()
        .expect("a list")
    {
        let name = command["command"].as_str().expect("a text");
        assert!(
            script.contains(&format!("registerCommand(\"{name}\"")),
            "{name}"
        );
    }
    let checked = std::process::Command::new("node")
        .arg("--check")
        .arg(&main)
        .output();
    match checked {
        Ok(checked) => assert!(checked.status.success(), "{checked:?}"),
        Err(_) => eprintln!("SKIPPED, since there is no node: the syntax of the extension"),
    }
}
