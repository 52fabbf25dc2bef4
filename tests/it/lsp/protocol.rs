//! How the server and an editor talk, and what neither may do.

use std::io::{Read, Write};
use std::process::Stdio;

use aebuild::json::{Value, json};

use super::client::Client;
use super::{TASK, world};
use crate::support::root;

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
    let all = [
        "hover",
        "definition",
        "references",
        "documentSymbol",
        "documentFormatting",
    ];
    for name in all {
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

    // Without a length a message is refused, and where the input ends within one that is told.
    let mut child = world
        .command(env!("CARGO_BIN_EXE_aebuild"))
        .arg("lsp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    input
        .write_all(b"Content-Length: x\r\n\r\n{}\r\n\r\nContent-Length: 99\r\n\r\n{}")
        .expect("it reads");
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains("no header `Content-Length`"), "{said}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.starts_with("aebuild lsp: "), "{said}");

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
    // Who packs it is refused where a link leads out of it.
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("it is there");
    assert!(!readme.contains("](.."), "{readme}");
    let checked = std::process::Command::new("node")
        .arg("--check")
        .arg(&main)
        .output();
    match checked {
        Ok(checked) => assert!(checked.status.success(), "{checked:?}"),
        Err(_) => eprintln!("SKIPPED, since there is no node: the syntax of the extension"),
    }
}

/// Returns a number that looks like any other, from one that it replaces.
fn any(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// Puts something else in the place of a part of a value.
fn mutate(value: &mut Value, state: &mut u64) {
    let others = [
        Value::Null,
        json!(-1),
        json!(4_294_967_295_u64),
        json!(1e300),
        json!(""),
        json!("file:///"),
        json!("file://%"),
        json!("\u{0}😀"),
        json!([]),
        json!({}),
        json!([[{}]]),
        json!(true),
        json!(3),
    ];
    let n_inside = match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    };
    if n_inside == 0 || any(state).is_multiple_of(8) {
        *value = others[any(state) % others.len()].clone();
        return;
    }
    let at = any(state) % n_inside;
    match value {
        Value::Array(items) => mutate(&mut items[at], state),
        Value::Object(members) => {
            if let Some(inner) = members.values_mut().nth(at) {
                mutate(inner, state);
            }
        }
        _ => {}
    }
}

#[test]
fn whatever_is_said_is_answered_and_nothing_breaks() {
    let world = world();
    let mut client = Client::open(&world.path());
    client.did_open("tasks/a.json");
    let uri = client.uri("tasks/a.json");
    let document = json!({"uri": uri, "version": 7, "languageId": "json", "text": TASK});
    let place = json!({"line": 1, "character": 10});
    let range = json!({"start": place, "end": {"line": 2, "character": 4}});
    let all = json!({
        "textDocument": document,
        "position": place,
        "range": range,
        "context": {"diagnostics": [], "includeDeclaration": true, "only": ["quickfix"]},
        "options": {"tabSize": 2, "insertSpaces": true},
        "newName": "crate",
        "contentChanges": [{"range": range, "text": "x"}, {"text": TASK}],
        "changes": [{"uri": uri, "type": 2}],
        "event": {"added": [{"uri": uri, "name": "a"}], "removed": [{"uri": uri, "name": "a"}]},
        "id": 1,
    });
    let requests = [
        "completion",
        "hover",
        "definition",
        "references",
        "prepareRename",
        "rename",
        "documentSymbol",
        "codeAction",
        "formatting",
        "rangeFormatting",
    ];
    let notifications = [
        "textDocument/didOpen",
        "textDocument/didChange",
        "textDocument/didSave",
        "textDocument/didClose",
        "workspace/didChangeWatchedFiles",
        "workspace/didChangeWorkspaceFolders",
        "$/cancelRequest",
        "initialized",
        "nonsense",
    ];
    let mut state = 7;
    for round in 0..400 {
        let mut params = all.clone();
        for _ in 0..any(&mut state) % 3 {
            mutate(&mut params, &mut state);
        }
        let said = notifications[any(&mut state) % notifications.len()];
        client.tell(said, params.clone());
        mutate(&mut params, &mut state);
        let asked = requests[round % requests.len()];
        let id = client.send(&format!("textDocument/{asked}"), params);
        client.answer(&id);
    }
    // What was said of the document is forgotten with it.
    client.did_close("tasks/a.json");
    client.did_open("tasks/a.json");
    assert_eq!(client.faults("tasks/a.json", "tasks/a.json"), [""; 0]);
    assert!(client.end());
}

#[test]
fn requests_that_are_taken_back_after_their_answer_are_nothing() {
    let world = world();
    let client = Client::open(&world.path());
    for id in 0..200_000 {
        client.tell("$/cancelRequest", json!({"id": id}));
    }
    assert!(client.end());
}
