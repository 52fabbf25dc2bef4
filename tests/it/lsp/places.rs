//! What an editor asks of a place in a text.

use aebuild::json::{Value, json};

use super::client::Client;
use super::{TASK, labels, world};

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
fn a_task_is_laid_out_as_by_the_command() {
    let world = world();
    world.write("artifacts/letter/data.json", "[1]");
    let mut client = Client::open(&world.path());
    let text = TASK.replace("    \"type\": \"verify", "\"type\":   \"verify");
    client.did_open_as("tasks/a.json", &text);
    let format = |client: &mut Client, path: &str| {
        let uri = client.uri(path);
        let options = json!({"tabSize": 8, "insertSpaces": false});
        let params = json!({"textDocument": {"uri": uri}, "options": options});
        client.ask("textDocument/formatting", params)
    };
    let edits = format(&mut client, "tasks/a.json");
    assert_eq!(edits.as_array().map(Vec::len), Some(1), "{edits}");
    let uri = client.uri("tasks/a.json");
    let edited = client.edited("tasks/a.json", &json!({"changes": {uri: edits}}));
    world.write("tasks/b.json", &text);
    let (said, status) = world.shell("aebuild fmt tasks/b.json");
    assert_eq!(status, Some(0), "{said}");
    let by_command = std::fs::read_to_string(world.path().join("tasks/b.json")).expect("a text");
    assert_eq!(edited, by_command);
    client.did_change("tasks/a.json", &edited);
    assert_eq!(format(&mut client, "tasks/a.json"), json!([]));
    // A text with a fault has no layout, and other files are not ours.
    client.did_change("tasks/a.json", "[");
    assert_eq!(format(&mut client, "tasks/a.json"), json!([]));
    client.did_open("artifacts/letter/data.json");
    let others = ["artifacts/letter/data.json", "tasks/none.json"];
    for other in others {
        assert_eq!(format(&mut client, other), Value::Null, "{other}");
    }
    assert!(client.end());
}

#[test]
fn settings_are_told_lead_on_and_are_completed() {
    let world = world();
    world.write(
        "aebuild.toml",
        "[models.small]\napi = \"openai\"\n[envs.post]\nvolatile = [\"x\"]\n",
    );
    world.write("envs/post/env.toml", "builtin = \"mail\"\n");
    world.write(
        "agents/solver/agent.toml",
        "type = \"model\"\nmodel = \"small\"\n",
    );
    let mut client = Client::open(&world.path());
    for path in [
        "aebuild.toml",
        "envs/post/env.toml",
        "agents/solver/agent.toml",
    ] {
        client.did_open(path);
    }
    let told = |client: &mut Client, path: &str, needle: &str| {
        let hover = client.ask("textDocument/hover", client.at(path, needle, 1));
        let text = hover["contents"]["value"].as_str().unwrap_or_default();
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        told(&mut client, "aebuild.toml", "api"),
        "**`models.<name>.api`**: `openai`, `anthropic`"
    );
    assert_eq!(told(&mut client, "aebuild.toml", "post"), "env **`post`**");
    assert!(
        told(&mut client, "envs/post/env.toml", "builtin")
            .starts_with("**`envs.<name>.builtin`**: ")
    );
    let mut leads = |path: &str, needle: &str| {
        let found = client.ask("textDocument/definition", client.at(path, needle, 1));
        let root = client.uri("");
        let found = found.as_array().cloned().unwrap_or_default();
        let found = found.iter().map(|one| {
            let uri = one["uri"].as_str().expect("a text").replace(&root, "");
            format!("{uri}:{}", one["range"]["start"]["line"])
        });
        found.collect::<Vec<_>>()
    };
    assert_eq!(leads("aebuild.toml", "post"), ["envs/post/env.toml:0"]);
    assert_eq!(
        leads("agents/solver/agent.toml", "small"),
        ["aebuild.toml:0"]
    );
    assert_eq!(leads("agents/solver/agent.toml", "type"), [""; 0]);
    client.did_change(
        "agents/solver/agent.toml",
        "type = \"model\"\nmodel = \"\"\n",
    );
    let params = client.at("agents/solver/agent.toml", "\"\"", 1);
    let answer = client.ask("textDocument/completion", params);
    assert_eq!(labels(&answer), ["small"]);
    client.did_change("aebuild.toml", "[lint]\n\n");
    let params = client.at("aebuild.toml", "]\n", 2);
    let answer = client.ask("textDocument/completion", params);
    assert!(labels(&answer).contains(&"unneeded-edge"), "{answer}");
    assert!(!labels(&answer).contains(&"unknown-name"), "{answer}");
    // This editor fills in no snippets.
    for item in answer["items"].as_array().expect("a list") {
        assert_eq!(item["insertTextFormat"], 1, "{item}");
        assert!(
            !item["textEdit"]["newText"]
                .as_str()
                .expect("a text")
                .contains('$'),
            "{item}"
        );
    }
    assert!(client.end());
}
