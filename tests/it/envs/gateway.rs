//! The address of an env, as a program of a verifier sees it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use aebuild::event::Outcome;
use aebuild::json::Value;

use super::World;

/// Asks the gateway with nothing but the standard library; each row says what came back.
const PROBE: &str = r#"#!/usr/bin/env python3
import json, os, urllib.error, urllib.request

MCP = os.environ["MCP_URL"]
BASE = MCP.removesuffix("/mcp")
ROWS = []


def ask(path, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers.setdefault("content-type", "application/json")
    headers.setdefault("accept", "application/json, text/event-stream")
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(BASE + path, data, headers)) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def row(name, found, wanted):
    ROWS.append({"id": name, "result": found == wanted, "found": found, "url": BASE})


def rpc(method, **params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def step(role, tool, **arguments):
    return ask("/step", {"action": "call_tool", "tool_name": tool, "arguments": arguments}, AgentEnv_Role=role)


def tools(role):
    listed = json.loads(ask("/step", {"action": "list_tools"}, AgentEnv_Role=role)[1])["tools"]
    return " ".join(sorted(tool["name"] for tool in listed))


row("foreign-host", ask("/state", Host="evil.example")[0], 403)
row("foreign-origin", ask("/state", Origin="http://evil.example")[0], 403)
row("foreign-origin-mcp", ask("/mcp", rpc("ping"), Origin="https://evil.example")[0], 403)
row("own-origin", ask("/state", Origin=BASE.rsplit("/", 1)[0])[0], 200)
row("other-token", urllib.request.urlopen and ask("/../" + "0" * 32 + "/state")[0], 404)

status, card = ask("/.well-known/agent-env.json")
row("card", [status, json.loads(card)["name"], len(json.loads(card)["children_environments"])], [200, "kv", 1])
status, state = ask("/state")
row("state", [status, json.loads(state)["mcp_servers"][0]["name"], sorted(json.loads(state)["roles"])], [200, "kv", ["guest"]])
status, got = ask("/agentenv", rpc("data/get"))
row("data", [status, json.loads(got)["result"]["parts"][0]["data"]["values"]], [200, {"a": "1"}])
row("data-unknown", json.loads(ask("/agentenv", rpc("data/steal"))[1])["error"]["code"], -32601)
status, lines = ask("/trajectory")
row("trajectory", [status, [json.loads(line)["name"] for line in lines.splitlines()][0]], [200, "set"])

row("step", json.loads(step("default", "get", key="a")[1])["structuredContent"]["value"], "1")
row("step-unknown", step("default", "no-such-tool")[0], 404)
row("step-action", ask("/step", {"action": "dance"})[0], 400)
row("default-tools", tools("default"), "append delete get increment list set")
row("guest-tools", tools("guest"), "append get increment list")
row("guest-set", step("guest", "set", key="a", value="2")[0], 403)
row("guest-get", step("guest", "get", key="a")[0], 200)

hello = rpc("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "probe", "version": "1"})
row("mcp", ask("/mcp", hello)[0], 200)


def newer(method, named, **params):
    """A request of the version without sessions."""
    version, prefix = "2026-07-28", "io.modelcontextprotocol/"
    client = {"name": "probe", "version": "1"}
    params["_meta"] = {prefix + "protocolVersion": version, prefix + "clientInfo": client, prefix + "clientCapabilities": {}}
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": named}
    status, body = ask("/mcp", rpc(method, **params), **headers)
    return json.loads(body).get("result", body)


whole = newer("tools/list", "")
row("newer-tools", [whole.get("resultType"), len(whole["tools"])], ["complete", 6])
whole = newer("tools/call", "get", name="get", arguments={"key": "a"})
row("newer-call", [whole.get("resultType"), whole["structuredContent"]["value"]], ["complete", "1"])
row("no-path", ask("/no/such/path")[0], 404)
print(json.dumps(ROWS))
"#;

#[test]
fn a_program_reaches_an_env_over_plain_http_while_its_step_runs() {
    if !crate::support::has_python("the verifier is a Python program") {
        return;
    }
    let world = World::builtin();
    world.story.write("artifacts/probe/verify", PROBE);
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(world.story.path("artifacts/probe/verify"), mode).unwrap();
    world.steps(&[
        r#"{"id": "kv", "type": "deploy_env", "env_id": "kv"}"#.to_owned(),
        r#"{"id": "solver", "type": "deploy_agent", "agent_name": "solver", "env_ids": ["kv"]}"#.to_owned(),
        r#"{"id": "p1", "type": "prompt_agent", "agent_name": "solver", "prompt": "set a 1"}"#.to_owned(),
        r#"{"id": "lock", "type": "modify_env_tool_access", "env_id": "kv", "action": "disable", "role": "guest",
            "tools": ["set", "delete"]}"#.to_owned(),
        r#"{"id": "probe", "type": "env_outcome_verifier", "env_id": "kv", "file_artifact_id": "probe"}"#.to_owned(),
    ]);
    let seen = world.run();
    assert_eq!(super::failures(&seen), Vec::<String>::new());
    let context = seen.context();
    let rows = context
        .pointer("/metadata/verifications/probe/results")
        .unwrap();
    let rows = rows.as_array().unwrap();
    let wrong: Vec<&Value> = rows.iter().filter(|row| row["result"] != true).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen.outcome(), Outcome::Passed);
    // The address was good for the step alone.
    let url = rows[0]["url"].as_str().unwrap();
    let (host, token) = url
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let answered = TcpStream::connect(host).and_then(|mut stream| {
        write!(
            stream,
            "GET /{token}/state HTTP/1.0\r\nHost: {host}\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    });
    assert!(answered.is_err(), "{answered:?}");
}
