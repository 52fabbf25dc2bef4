//! Programs that are started for each prompt.

use std::fs;

use aebuild::json::json;

use super::{failure, replies, story};

const CLI: &str = r#"
import json, os, sys, urllib.request

prompt = sys.argv[-1] if len(sys.argv) > 1 else sys.stdin.read()
word, *rest = prompt.split(" ")
if word == "set":
    config = json.load(open(os.environ["MCP_CONFIG"]))
    url = config["mcpServers"]["kv"]["url"]
    assert url == os.environ["MCP_URL"]
    call = {"action": "call_tool", "tool_name": "set", "arguments": {"key": rest[0], "value": rest[1]}}
    headers = {"content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url.removesuffix("/mcp") + "/step", json.dumps(call).encode(), headers))
    print("set")
elif word == "note":
    with open("notes", "a") as file:
        file.write(rest[0] + "\n")
    print(open("notes").read())
elif word == "reply":
    with open("/".join([os.getcwd(), "reply.txt"]), "w") as file:
        file.write("from a file")
    print("not this")
elif word == "fail":
    print("out", flush=True)
    for n in range(60):
        print(f"line {n}", file=sys.stderr)
    sys.exit(4)
elif word == "prompt":
    whole = json.load(open(os.environ["PROMPT_FILE"]))
    print(json.dumps([whole["turn"], whole["system_prompt"], os.environ["AGENT_NAME"], os.environ["EXTRA"]]))
elif word == "slow":
    import time
    time.sleep(0.2)
    whole = json.load(open(os.environ["PROMPT_FILE"]))
    with open("reply.txt", "w") as file:
        file.write(whole["system_prompt"] + " " + rest[0])
    time.sleep(0.2)
elif word == "variable":
    print(os.environ.get(rest[0], "unset"))
elif word == "hang":
    import time
    print("about to hang", flush=True)
    time.sleep(1000)
"#;

fn cli(more: &str, prompts: &[&str]) -> Option<crate::story::Story> {
    if !crate::support::has_python("agents are Python programs") {
        return None;
    }
    let agent =
        format!("type = \"command\"\ncommand = [\"python3\", \"{{folder}}/cli.py\"]\n{more}");
    let story = story(&agent, prompts);
    story.write("agents/solver/agent.toml", "type = \"command\"\n");
    story.write("agents/solver/cli.py", CLI);
    Some(story)
}

#[test]
fn a_program_answers_works_on_an_env_and_keeps_files_in_its_sandbox() {
    let prompts = ["set a 1", "note one", "note two", "prompt"];
    let Some(story) = cli("variables = { EXTRA = \"more\" }", &prompts) else {
        return;
    };
    let seen = story.run();
    let whole = r#"[1, "Be brief.", "solver", "more"]"#;
    assert_eq!(replies(&seen), ["set", "one", "one\ntwo", whole]);
    assert_eq!(story.run().ran(), "");
    // Its notes come back, and it is not asked again for those that it has.
    super::prompt(&story, &["set a 1", "note one", "note three"]);
    let third = story.run();
    assert_eq!(
        (third.ran().as_str(), replies(&third)[2].as_str()),
        ("p3", "one\nthree")
    );
    // Its program decides what it answers.
    let text = fs::read_to_string(story.path("agents/solver/cli.py")).unwrap();
    story.write(
        "agents/solver/cli.py",
        text.replace("print(\"set\")", "print(\"SET\")"),
    );
    let fourth = story.run();
    assert_eq!(fourth.ran(), "p1 p2 p3");
    assert_eq!(replies(&fourth)[0], "SET");
}

#[test]
fn a_program_is_given_its_prompt_on_its_standard_input_and_may_leave_its_reply_in_a_file() {
    let more = "prompt = \"stdin\"\nreply_file = \"reply.txt\"";
    let Some(story) = cli(more, &["reply"]) else {
        return;
    };
    assert_eq!(replies(&story.run()), ["from a file"]);
    // What was left there is no reply to another prompt.
    super::prompt(&story, &["reply", "set a 1"]);
    let error = failure(&story.run());
    assert!(
        error.ends_with("it left no reply in `reply.txt`"),
        "{error}"
    );
}

#[test]
fn a_program_that_fails_shows_its_last_lines_and_one_that_hangs_is_stopped() {
    let Some(story) = cli("", &["fail"]) else {
        return;
    };
    let error = failure(&story.run());
    assert!(
        error.contains("agent=solver): it ended with exit code 4; its last lines:\nline 20\n")
            && error.ends_with("\nline 59\nand those of its standard output:\nout"),
        "{error}"
    );
    let text = fs::read_to_string(story.path("tasks/t.json")).unwrap();
    let text = text.replace(
        r#""prompt":"fail""#,
        r#""prompt":"hang","timeout_seconds":0.5"#,
    );
    story.write("tasks/t.json", text);
    let seen = story.run();
    assert_eq!(
        failure(&seen),
        "p1: agent `solver` gave no answer within 0.5 s"
    );
    let log = seen.logs.iter().find(|(step, _)| step == "p1");
    let log = log.map(|(_, log)| String::from_utf8_lossy(log).into_owned());
    let log = log.unwrap_or_default();
    assert!(log.contains("about to hang"), "{log}");
}

#[test]
fn prompts_beside_each_other_have_files_of_their_own() {
    let Some(story) = cli("reply_file = \"reply.txt\"", &[]) else {
        return;
    };
    super::together::beside(&story, &[], &["slow a", "slow b", "slow c"]);
    assert_eq!(
        replies(&story.run()),
        ["I am 1. a", "I am 2. b", "I am 3. c"]
    );
}

#[test]
fn a_program_sees_the_variables_of_its_deploy_step_wherever_it_works() {
    let Some(story) = cli("variables = { EXTRA = \"table\" }", &[]) else {
        return;
    };
    let steps = |in_sandbox: bool| {
        let mut deploy = json!({"id": "solver", "type": "deploy_agent", "agent_name": "solver",
                                "env_vars": {"EXTRA": "step", "ALSO": "this"}});
        if in_sandbox {
            deploy["sandbox_name"] = json!("box");
        }
        let prompt = |id: &str, text: &str| json!({"id": id, "type": "prompt_agent", "agent_name": "solver", "prompt": text});
        let steps = json!([
            {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"},
            deploy,
            prompt("p1", "variable EXTRA"),
            prompt("p2", "variable ALSO"),
        ]);
        story.write("tasks/t.json", steps.to_string());
        replies(&story.run())
    };
    assert_eq!(steps(false), ["step", "this"]);
    assert_eq!(steps(true), ["step", "this"]);
}

#[test]
fn a_program_without_files_is_told_of_no_folder() {
    let command = ["sh", "-c", "echo ${AGENT_FOLDER-unset}"];
    let agent = format!("type = \"command\"\ncommand = {}", json!(command));
    assert_eq!(replies(&story(&agent, &["x"]).run()), ["unset"]);
}

/// Runs a task in which a file of the agent is edited while the run goes on.
#[test]
fn a_reply_of_a_file_that_was_edited_during_the_run_is_not_kept() {
    let Some(story) = cli("", &["edit"]) else {
        return;
    };
    let text = fs::read_to_string(story.path("agents/solver/cli.py")).unwrap();
    let at = story.path("agents/solver/cli.py");
    let edit = format!(
        "{text}elif word == \"edit\":\n    with open({:?}, \"a\") as file:\n        file.write(\"# edited\\n\")\n    print(\"done\")\n",
        at.display().to_string()
    );
    story.write("agents/solver/cli.py", edit);
    super::prompt(&story, &["edit", "edit"]);
    assert_eq!(
        failure(&story.run()),
        "p2: agent `solver` could not be asked: `cli.py` of it changed since the run was planned; run it again"
    );
}
