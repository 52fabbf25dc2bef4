//! Real MCP servers that nobody here wrote, and the official clients against our own.
//!
//! `AEBUILD_PEER_NODE_MODULES` names a folder `node_modules` with the servers of npm and the official client,
//! `AEBUILD_PEER_AGENT_ENV` the `agent-env` whose example envs are run, `AEBUILD_PEER_PYTHON` a folder in which Python
//! environments are kept from one test run to the next. What is not there is skipped, and says so.

use std::fs;
use std::path::{Path, PathBuf};

use aebuild::event::Outcome;

use crate::story::{Seen, Story, has_program};

fn peer(variable: &str, what: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        eprintln!("SKIPPED: {variable} is not set, so {what} cannot be tried");
    }
    found
}

/// Returns a workspace whose sandboxes have walls where they can, with these tables of envs.
fn workspace(envs: &str) -> Story {
    let story = Story::new();
    story.write(
        "aebuild.toml",
        format!("[sandbox]\nisolation = \"auto\"\n[cache]\ndurability = \"fast\"\n{envs}"),
    );
    if let Some(shared) = std::env::var_os("AEBUILD_PEER_PYTHON") {
        fs::create_dir_all(&shared).unwrap();
        // The cache makes its folder, which must be empty for that.
        story.write("tasks/none.json", "[]");
        drop(story.session().unwrap());
        fs::remove_file(story.path("tasks/none.json")).unwrap();
        std::os::unix::fs::symlink(shared, story.cache_dir().join("python")).unwrap();
    }
    story
}

/// Returns a workspace with an env that is a server of npm, and an agent that makes these calls in it before a check.
fn npm(modules: &Path, env: &str, calls: &str, check: &str) -> Story {
    let story = workspace(&format!(
        "[envs.world]\nmount = [\"{}\"]\nready_timeout_seconds = 30\n{env}\n",
        modules.display()
    ));
    story.write(
        "tasks/t.json",
        r#"[
          {"id": "world", "type": "deploy_env", "env_id": "world", "depends_on": []},
          {"id": "agent", "type": "deploy_agent", "agent_name": "agent", "env_ids": ["world"], "depends_on": ["world"]},
          {"id": "act", "type": "prompt_agent", "agent_name": "agent", "prompt": "Act.", "depends_on": ["agent"]},
          {"id": "check", "type": "env_outcome_verifier", "env_id": "world", "file_artifact_id": "check",
           "depends_on": ["act"]}
        ]"#,
    );
    story.write(
        "agents/agent/agent.toml",
        format!("type = \"scripted\"\n[[rules]]\nreply = \"done\"\n{calls}"),
    );
    story.write("artifacts/check/verify.toml", check);
    story.settle();
    story
}

#[track_caller]
fn passes(seen: &Seen, ran: &str, provisioned: &str) {
    let summary = seen.summary();
    let task = &summary.tasks[0];
    assert_eq!(
        task.outcome,
        Outcome::Passed,
        "{:?} {}",
        task.failure,
        seen.notices()
    );
    assert_eq!(
        (seen.ran().as_str(), seen.provisioned().as_str()),
        (ran, provisioned),
        "{}",
        seen.notices()
    );
}

/// Runs a workspace, runs it again, edits the check and expects it to be all that runs, in an env that comes back this way.
#[track_caller]
fn tells_its_story(story: &Story, rung: &str) {
    passes(&story.run(), "act check", "act:create check:reuse");
    passes(&story.run(), "", "");
    let check = fs::read_to_string(story.path("artifacts/check/verify.toml")).unwrap();
    story.write("artifacts/check/verify.toml", format!("# again\n{check}"));
    passes(&story.run(), "check", &format!("check:{rung}"));
}

#[test]
fn the_memory_server_is_replayed_for_another_check_and_prompts_nobody() {
    let Some(modules) = peer("AEBUILD_PEER_NODE_MODULES", "server-memory of npm") else {
        return;
    };
    let story = npm(
        &modules,
        "command = [\"mcp-server-memory\"]\nvariables = { MEMORY_FILE_PATH = \"/app/memory.jsonl\" }",
        r#"
        [[rules.calls]]
        tool = "create_entities"
        arguments = { entities = [{ name = "Dana", entityType = "person", observations = ["likes Fridays"] }] }
        [[rules.calls]]
        tool = "add_observations"
        arguments = { observations = [{ entityName = "Dana", contents = ["answers at once"] }] }
        "#,
        "[[expect]]\ncall = { tool = \"search_nodes\", arguments = { query = \"Dana\" } }\n\
         path = \"$.entities[0].observations[*]\"\ncount = 2\n",
    );
    tells_its_story(&story, "replay");
}

#[test]
fn the_filesystem_server_works_on_files_that_a_step_loads() {
    let Some(modules) = peer("AEBUILD_PEER_NODE_MODULES", "server-filesystem of npm") else {
        return;
    };
    let story = npm(
        &modules,
        "command = [\"mcp-server-filesystem\", \"/app\"]",
        r#"
        [[rules.calls]]
        tool = "read_text_file"
        arguments = { path = "/app/in/note.txt" }
        save = "note"
        [[rules.calls]]
        tool = "write_file"
        arguments = { path = "/app/answer.txt", content = "I read: {{note.content}}" }
        "#,
        "[[expect]]\ncall = { tool = \"read_text_file\", arguments = { path = \"/app/answer.txt\" } }\n\
         path = \"$.content\"\ncontains = \"I read: see you\"\n",
    );
    story.write("artifacts/note/note.txt", "see you on Friday\n");
    let task = fs::read_to_string(story.path("tasks/t.json")).unwrap();
    let load = r#"{"id": "load", "type": "load_artifact", "env_id": "world", "artifact_id": "note",
        "destination_path": "/app/in", "depends_on": ["world"]},
        {"id": "act", "#;
    let task = task.replace("{\"id\": \"act\", ", load).replace(
        "\"depends_on\": [\"agent\"]",
        "\"depends_on\": [\"agent\", \"load\"]",
    );
    story.write("tasks/t.json", task);
    story.settle();
    passes(
        &story.run(),
        "act check load",
        "load:create act:reuse check:reuse",
    );
    passes(&story.run(), "", "");
    let check = fs::read_to_string(story.path("artifacts/check/verify.toml")).unwrap();
    story.write("artifacts/check/verify.toml", format!("# again\n{check}"));
    passes(&story.run(), "check", "check:replay");
}

const EVERYTHING: &str = r#"
    [[rules.calls]]
    tool = "echo"
    arguments = { message = "Dana" }
    save = "said"
    [[rules.calls]]
    tool = "get-sum"
    arguments = { a = 20, b = 22 }
"#;
const SUM: &str = "[[expect]]\ncall = { tool = \"get-sum\", arguments = { a = 20, b = 22 } }\ncontains = \"42\"\n";

#[test]
fn the_server_of_everything_is_talked_to_over_pipes() {
    let Some(modules) = peer("AEBUILD_PEER_NODE_MODULES", "server-everything of npm") else {
        return;
    };
    let command = "command = [\"mcp-server-everything\", \"stdio\"]";
    // Its tools say that they change nothing, so the env is as it was made.
    tells_its_story(&npm(&modules, command, EVERYTHING, SUM), "create");
}

#[test]
fn the_server_of_everything_is_talked_to_over_http() {
    let Some(modules) = peer("AEBUILD_PEER_NODE_MODULES", "server-everything of npm") else {
        return;
    };
    let command = "command = [\"mcp-server-everything\", \"streamableHttp\"]\ntransport = \"http\"";
    // Its tools say that they change nothing, so the env is as it was made.
    tells_its_story(&npm(&modules, command, EVERYTHING, SUM), "create");
}

#[test]
fn the_git_server_of_pypi_commits_the_same_again() {
    if peer("AEBUILD_PEER_PYTHON", "mcp-server-git of PyPI").is_none() || !has_program("git") {
        return;
    }
    let story = npm(
        Path::new("/usr/share"),
        "command = [\"{python}\", \"-m\", \"mcp_server_git\"]\nrequirements = \"requirements.txt\"\n\
         [envs.world.variables]\nGIT_AUTHOR_NAME = \"Dana\"\nGIT_AUTHOR_EMAIL = \"dana@example.com\"\n\
         GIT_COMMITTER_NAME = \"Dana\"\nGIT_COMMITTER_EMAIL = \"dana@example.com\"\n\
         GIT_AUTHOR_DATE = \"1772442000 +0000\"\nGIT_COMMITTER_DATE = \"1772442000 +0000\"\n",
        r#"
        [[rules.calls]]
        tool = "git_add"
        arguments = { repo_path = "/app/repo", files = ["note.txt"] }
        [[rules.calls]]
        tool = "git_commit"
        arguments = { repo_path = "/app/repo", message = "a note for Dana" }
        "#,
        "[[expect]]\ncall = { tool = \"git_log\", arguments = { repo_path = \"/app/repo\" } }\ncontains = \"a note for Dana\"\n",
    );
    story.write("envs/world/env.toml", "type = \"mcp_server\"\n");
    story.write(
        "envs/world/requirements.txt",
        "mcp-server-git==2026.10.10\nmcp>=1.25,<2\n",
    );
    // An empty repository, and what is to be committed.
    story.write("envs/world/repo/.git/HEAD", "ref: refs/heads/main\n");
    story.write(
        "envs/world/repo/.git/config",
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    );
    story.write("envs/world/repo/.git/objects/info/keep", "");
    story.write("envs/world/repo/.git/refs/heads/keep", "");
    fs::remove_file(story.path("envs/world/repo/.git/refs/heads/keep")).unwrap();
    story.write("envs/world/repo/.git/refs/tags/.keep", "");
    story.write("envs/world/repo/note.txt", "Friday\n");
    story.settle();
    tells_its_story(&story, "replay");
}

#[test]
fn the_example_envs_of_agent_env_run_as_processes_and_pass_their_own_tasks() {
    let agent_env = peer("AEBUILD_PEER_AGENT_ENV", "the example envs of agent-env");
    let (Some(agent_env), Some(_)) = (agent_env, peer("AEBUILD_PEER_PYTHON", "their packages"))
    else {
        return;
    };
    let lib = agent_env.parent().unwrap().parent().unwrap().join("lib");
    let version = fs::read_dir(&lib).unwrap().next().unwrap().unwrap().path();
    let examples = version.join("site-packages/agent_env/examples");
    let run = "command = [\"{python}\", \"server.py\"]\nrequirements = \"requirements.txt\"\n";
    let story = workspace(&format!("[envs.echo]\n{run}[envs.mail]\n{run}"));
    for bundle in ["echo-mcp", "mail-mcp"] {
        copy(&examples.join(bundle), &story.path(bundle));
    }
    story.settle();
    for (bundle, check) in [("echo-mcp", "echoes"), ("mail-mcp", "finds-the-invoice")] {
        let mut session = story.session_on(&[bundle]).unwrap();
        let (_keep, wish) = tokio::sync::watch::channel(aebuild::session::Wish::GoOn);
        let summary = session.run(&Default::default(), &mut |_| {}, wish).unwrap();
        let task = &summary.tasks[0];
        assert_eq!(task.outcome, Outcome::Passed, "{:?}", task.failure);
        assert_eq!(task.scores[0].name, check);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        if name == "__pycache__" {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// Returns a workspace with one env that is compiled in, and a check that is a program.
fn against(env: &str, file: &str, program: &str) -> Story {
    let story = workspace(&format!("[envs.world]\nbuiltin = \"{env}\"\n"));
    story.write(
        "tasks/t.json",
        r#"[
          {"id": "world", "type": "deploy_env", "env_id": "world", "depends_on": []},
          {"id": "check", "type": "env_outcome_verifier", "env_id": "world", "file_artifact_id": "check",
           "depends_on": ["world"]}
        ]"#,
    );
    story.write(&format!("artifacts/check/{file}"), program);
    if file == "verify" {
        use std::os::unix::fs::PermissionsExt;
        let path = story.path("artifacts/check/verify");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    story.settle();
    story
}

/// A call of each env that is compiled in, and what its answer holds.
const CALLS: [(&str, &str, &str, &str); 4] = [
    ("mail", "list_folders", "{}", "inbox"),
    ("calendar", "list_events", "{}", "events"),
    ("files", "list_files", "{}", "files"),
    ("kv", "set", r#"{"key": "a", "value": {"b": 1}}"#, "a"),
];

#[test]
fn the_official_client_of_python_talks_to_the_gateway_and_every_env_that_is_compiled_in() {
    if peer("AEBUILD_PEER_PYTHON", "the official MCP client of Python").is_none() {
        return;
    }
    for (env, tool, arguments, holds) in CALLS {
        let program = format!(
            r#"
import json
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

async def verify(mcp_url):
    async with streamable_http_client(mcp_url) as (read, write, _):
        async with ClientSession(read, write) as session:
            opened = await session.initialize()
            tools = (await session.list_tools()).tools
            resources = (await session.list_resources()).resources
            state = await session.read_resource(resources[0].uri)
            answer = await session.call_tool("{tool}", json.loads('{arguments}'))
            wrong = await session.call_tool("{tool}", {{"no_such_argument": 1}})
            try:
                unknown = (await session.call_tool("no_such_tool", {{}})).isError
            except Exception:
                unknown = True
            return [
                {{"id": "server", "result": opened.serverInfo.name == "world"}},
                {{"id": "tools", "result": any(tool.name == "{tool}" and tool.inputSchema for tool in tools)}},
                {{"id": "state", "result": len(state.contents) == 1}},
                {{"id": "answer", "result": not answer.isError and "{holds}" in answer.content[0].text,
                  "text": answer.content[0].text}},
                {{"id": "structured", "result": answer.structuredContent == json.loads(answer.content[0].text)}},
                {{"id": "wrong", "result": wrong.isError}},
                {{"id": "unknown", "result": unknown}},
            ]
"#
        );
        let story = against(env, "verify.py", &program);
        let seen = story.run();
        let context = seen.context();
        let rows = &context["metadata"]["verifications"]["check"]["results"];
        assert_eq!(seen.outcome(), Outcome::Passed, "{env}: {rows}");
    }
}

#[test]
fn the_official_client_of_npm_talks_to_the_gateway_and_every_env_that_is_compiled_in() {
    let Some(modules) = peer(
        "AEBUILD_PEER_NODE_MODULES",
        "the official MCP client of npm",
    ) else {
        return;
    };
    for (env, tool, arguments, holds) in CALLS {
        let sdk = modules.join("@modelcontextprotocol/sdk/dist/esm/client");
        let script = format!(
            r#"
import {{ Client }} from "{sdk}/index.js";
import {{ StreamableHTTPClientTransport }} from "{sdk}/streamableHttp.js";
const client = new Client({{ name: "check", version: "1" }});
await client.connect(new StreamableHTTPClientTransport(new URL(process.env.MCP_URL)));
const tools = (await client.listTools()).tools;
const answer = await client.callTool({{ name: "{tool}", arguments: {arguments} }});
const wrong = await client.callTool({{ name: "{tool}", arguments: {{ no_such_argument: 1 }} }});
await client.close();
console.log(JSON.stringify([
  {{ id: "tools", result: tools.some((tool) => tool.name === "{tool}") }},
  {{ id: "answer", result: !answer.isError && answer.content[0].text.includes("{holds}"), text: answer.content[0].text }},
  {{ id: "wrong", result: wrong.isError === true }},
]));
"#,
            sdk = sdk.display()
        );
        let story = against(
            env,
            "verify",
            "#!/bin/sh\nexec /usr/bin/node ./client.mjs\n",
        );
        story.write("artifacts/check/client.mjs", script);
        // The client is in a folder of this machine, which a program behind a wall does not see.
        let config = fs::read_to_string(story.path("aebuild.toml")).unwrap();
        story.write("aebuild.toml", config.replace("\"auto\"", "\"none\""));
        story.settle();
        let seen = story.run();
        let context = seen.context();
        let rows = &context["metadata"]["verifications"]["check"]["results"];
        assert_eq!(seen.outcome(), Outcome::Passed, "{env}: {rows}");
    }
}

#[test]
fn a_server_at_an_address_is_asked_anew_each_time_unless_it_is_said_to_be_the_same() {
    let Some(modules) = peer("AEBUILD_PEER_NODE_MODULES", "server-everything of npm") else {
        return;
    };
    let port = {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let mut server = std::process::Command::new("/usr/bin/node")
        .arg(modules.join(".bin/mcp-server-everything"))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let url = format!("url = \"http://127.0.0.1:{port}/mcp\"");
    let story = npm(&modules, &url, EVERYTHING, SUM);
    let config = fs::read_to_string(story.path("aebuild.toml")).unwrap();
    let seen = [story.run(), story.run()].map(|seen| seen.ran());
    let pure = config.replace("[envs.world]\n", "[envs.world]\ndeterminism = \"pure\"\n");
    story.write("aebuild.toml", pure);
    story.settle();
    let kept = [story.run(), story.run()].map(|seen| seen.ran());
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(seen, ["act check", "act check"]);
    assert_eq!(kept, ["act check", ""]);
}
