#![expect(
    clippy::disallowed_methods,
    reason = "tests run the program on files of their own"
)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use super::*;
use crate::steps::testing::{FakeEnv, FakeServices, build_step, misfits, refused, run, show};
use expect_test::expect;

fn tools() -> Vec<Value> {
    vec![
        json!({"name": "send_mail", "description": "Sends a \"mail\".\nIt's 100% sure: '''\\n", "inputSchema": {
            "type": "object",
            "properties": {
                "to": {"type": "array", "items": {"type": "string"}, "description": "Who gets it."},
                "is_urgent": {"type": "boolean"},
                "is-urgent": {"type": "boolean"},
                "retries": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "help": {"enum": ["a", "b"], "description": "50%"},
                "meta": {"type": "object"},
                "odd": true,
            },
            "required": ["to"],
        }}),
        json!({"name": "list_mails", "outputSchema": {"type": "object"}}),
    ]
}

fn world() -> FakeServices {
    let [send, list] = tools().try_into().unwrap();
    let env = FakeEnv::new("mail")
        .tool(send, |_| json!(null))
        .tool(list, |_| json!(null));
    FakeServices::new().env(env)
}

fn made(fields: Value) -> String {
    let world = world();
    match run(&*build_step(&TYPE, "cli", fields), "cli", &world) {
        Ok(output) => show(&output),
        Err(error) => format!("{error}\n"),
    }
}

#[test]
fn the_program_is_kept_as_an_artifact() {
    let [plain, named] = [
        json!({"env_id": "mail", "command_name": "mail"}),
        json!({"env_id": "mail", "command_name": "m", "cli_artifact_id": "@local/t/m"}),
    ]
    .map(made);
    assert!(
        plain.starts_with(
            r#"metadata.cli_artifact = {"command_name":"mail","files":{"bin/mail":"aebuild:sha256:"#
        ),
        "{plain}"
    );
    assert!(
        plain.ends_with("\"},\"id\":\"mail__cli\",\"type\":\"cli\",\"version\":1}\n"),
        "{plain}"
    );
    assert!(
        named.contains("\"bin/m\":") && named.contains("\"id\":\"@local/t/m\""),
        "{named}"
    );
}

#[test]
fn an_env_without_tools_makes_no_program() {
    let world = FakeServices::new().env(FakeEnv::new("mail"));
    let step = build_step(
        &TYPE,
        "cli",
        json!({"env_id": "mail", "command_name": "mail"}),
    );
    expect!["ValueError: env `mail` lists no tools to role `default`, so there is nothing to call"]
        .assert_eq(&run(&*step, "cli", &world).unwrap_err().to_string());
}

#[test]
fn a_command_has_a_plain_name() {
    let names = ["a b", "../mail", "-x", "a/b"];
    let all = names.map(|name| refused(&TYPE, json!({"env_id": "mail", "command_name": name})));
    expect![[r#"
        bad-command-name /command_name: command `a b` is no plain name (use a name without slashes and spaces that starts with a letter or digit)
        bad-command-name /command_name: command `../mail` is no plain name (use a name without slashes and spaces that starts with a letter or digit)
        bad-command-name /command_name: command `-x` is no plain name (use a name without slashes and spaces that starts with a letter or digit)
        bad-command-name /command_name: command `a/b` is no plain name (use a name without slashes and spaces that starts with a letter or digit)
    "#]]
    .assert_eq(&all.concat());
    expect![[r#"
        wrong-length: `command_name` of step is empty, but needs at least 1 character (write at least 1 character)
    "#]]
    .assert_eq(&misfits(
        &TYPE,
        json!({"env_id": "mail", "command_name": ""}),
    ));
}

/// Writes the program into a folder; `None` on a machine without `python3`.
fn installed(tools: &[Value]) -> Option<tempfile::TempDir> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no python3 on this machine");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(folder.path().join("bin/mail"), program("mail", tools)).unwrap();
    Some(folder)
}

fn call(folder: &Path, arguments: &[&str]) -> String {
    let ended = Command::new("python3")
        .args(["-I", "-B"])
        .arg(folder.join("bin/mail"))
        .args(arguments)
        .env_remove("MCP_URL")
        .env("AGENTENV_ROLE", "clerk")
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    format!(
        "{} {}{}",
        ended.status.code().unwrap(),
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    )
}

/// Answers one request, unless the connection ends without one: in words of the protocol, as JSON or as a stream of events.
fn answer(stream: &mut TcpStream, is_stream: bool) -> Option<String> {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    let whole = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        });
        (body.len() >= length.unwrap_or(0)).then(|| (head.to_owned(), body.to_owned()))
    };
    let (head, body) = loop {
        let n = stream.read(&mut piece).unwrap();
        text.extend_from_slice(&piece[..n]);
        if let Some(request) = whole(&text) {
            break request;
        }
        if n == 0 {
            return None;
        }
    };
    let header = |name: &str| {
        let line = head
            .lines()
            .find(|line| line.to_lowercase().starts_with(&format!("{name}: ")));
        line.map_or("-", |line| line.split_once(": ").unwrap().1)
            .to_owned()
    };
    let message: Value = crate::json::from_slice(body.as_bytes()).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or("").to_owned();
    let result = match method.as_str() {
        "initialize" => json!({"protocolVersion": "2025-03-26", "capabilities": {}}),
        "tools/call" if message["params"]["name"] == "list_mails" => {
            json!({"content": [{"type": "text", "text": "the server is down"}], "isError": true})
        }
        _ => json!({"content": [], "structuredContent": {"got": message["params"]["arguments"]}}),
    };
    let result = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    let (status, kind, body) = match (message.get("id"), is_stream) {
        (None, _) => ("202 Accepted", "text/plain", String::new()),
        (Some(_), false) => ("200 OK", "application/json", result),
        (Some(_), true) => {
            let other = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
            let text = format!(": hi\n\ndata: {other}\n\nevent: message\ndata: {result}\n\n");
            ("200 OK", "text/event-stream", text)
        }
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nMcp-Session-Id: s1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    Some(format!(
        "{} {method} {} {} {} {}\n",
        head.split(' ').next().unwrap(),
        header("agentenv-role"),
        header("mcp-session-id"),
        header("mcp-protocol-version"),
        message["params"]["arguments"]
    ))
}

/// Calls the program against a server, and returns what it said and what the server heard.
fn talk(arguments: &[&str], is_stream: bool) -> Option<String> {
    let folder = installed(&tools())?;
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let url = format!("MCP_URL=\"http://{address}/mcp\"\n");
    std::fs::write(folder.path().join(".env"), url).unwrap();
    let heard = std::thread::spawn(move || {
        let requests = std::iter::from_fn(|| answer(&mut server.accept().unwrap().0, is_stream));
        requests.collect::<String>()
    });
    let said = call(folder.path(), arguments);
    // A connection without a request ends the server.
    drop(TcpStream::connect(address).unwrap());
    Some(said + &heard.join().unwrap())
}

#[test]
fn the_program_calls_a_tool_in_its_role() {
    let words = [
        "send_mail",
        "--to",
        "dana",
        "sam",
        "--is_urgent",
        "--is-urgent",
        "no",
        "--retries",
        "2",
        "--meta",
        "{\"a\": [1]}",
        "--arg-help",
        "b",
    ];
    let Some(plain) = talk(&words, false) else {
        return;
    };
    expect![[r#"
        0 {
          "got": {
            "help": "b",
            "is-urgent": false,
            "is_urgent": true,
            "meta": {
              "a": [
                1
              ]
            },
            "retries": 2,
            "to": [
              "dana",
              "sam"
            ]
          }
        }
        POST initialize clerk - - null
        POST notifications/initialized clerk s1 2025-03-26 null
        POST tools/call clerk s1 2025-03-26 {"help":"b","is-urgent":false,"is_urgent":true,"meta":{"a":[1]},"retries":2,"to":["dana","sam"]}
        DELETE  clerk s1 2025-03-26 null
    "#]]
    .assert_eq(&plain);
    let streamed = talk(&["send_mail", "--json", "{\"to\": [\"dana\"]}"], true).unwrap();
    expect![[r#"
        0 {
          "got": {
            "to": [
              "dana"
            ]
          }
        }
        POST initialize clerk - - null
        POST notifications/initialized clerk s1 2025-03-26 null
        POST tools/call clerk s1 2025-03-26 {"to":["dana"]}
        DELETE  clerk s1 2025-03-26 null
    "#]]
    .assert_eq(&streamed);
    expect![[r#"
        1 the server is down
        POST initialize clerk - - null
        POST notifications/initialized clerk s1 2025-03-26 null
        POST tools/call clerk s1 2025-03-26 {}
        DELETE  clerk s1 2025-03-26 null
    "#]]
    .assert_eq(&talk(&["list_mails"], false).unwrap());
}

#[test]
fn a_command_line_that_cannot_be_meant_says_so() {
    let Some(folder) = installed(&tools()) else {
        return;
    };
    let all = [
        &["send_mail"][..],
        &["send_mail", "--retries", "many"],
        &["delete_mail"],
        &["list_mails"],
    ];
    let all: String = all
        .iter()
        .map(|words| {
            let said = call(folder.path(), words);
            let last = said
                .trim_end()
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned();
            // How the choices are listed differs between versions of Python.
            let last = last.split(" (choose").next().unwrap_or_default();
            format!("{} {last}\n", &said[..1])
        })
        .collect();
    expect![[r#"
        2 mail: error: send_mail needs --to
        2 mail send_mail: error: argument --retries: invalid int value: 'many'
        2 mail: error: argument TOOL: invalid choice: 'delete_mail'
        1 1 mail: set MCP_URL to the address of the MCP server, or write MCP_URL=.. into a file .env
    "#]]
    .assert_eq(&all);
    let help = call(folder.path(), &["send_mail", "--help"]);
    assert!(
        help.starts_with("0 ")
            && help.contains("It's 100% sure: '''\\n")
            && help.contains("50% One of: a, b."),
        "{help}"
    );
}

#[test]
fn the_text_of_the_program_is_decided_by_the_tools() {
    let text = program("@TOOLS@", &tools());
    assert_eq!(text, program("@TOOLS@", &tools()));
    assert!(text.contains("COMMAND = \"@TOOLS@\"\n"));
    assert_eq!(text.matches("json.loads(\"{").count(), 2);
    assert!(!text.contains("outputSchema"));
}
