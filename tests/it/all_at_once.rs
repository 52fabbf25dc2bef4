//! Every fault of a file is told in one pass, with its place and what to type.

use expect_test::{Expect, expect};

use crate::support::World;

/// Checks a task beside an artifact `greeting`: each fault on a line, and below it what is offered.
fn check(task: &str, expected: Expect) {
    let world = World::new();
    world.write("t/tasks/t.json", task);
    world.write("t/artifacts/greeting/hello.txt", "hello\n");
    let output = world.aebuild(&["check", "t", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let mut shown = String::new();
    for line in said.lines() {
        let fault = aebuild::json::from_str(line).expect("each line is an object");
        let text = |key: &str| fault[key].as_str().unwrap_or_default().to_owned();
        shown.push_str(&format!("{}: {}\n", text("code"), text("headline")));
        shown.push_str(&format!("  {}\n", text("help")));
    }
    expected.assert_eq(&shown);
}

#[test]
fn a_file_with_many_faults_shows_them_all_at_once() {
    check(
        r#"[
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "cpuu": 2},
  {"id": "more", "type": "deploy_sandbx", "sandbox_name": "more", "sandbox_mode": "vm"},
  {"id": "soon", "type": "deploy_sandbox", "sandbox_name": "soon", "sandbox_mode": "vm", "ttl_seconds": "soon"},
  {"id": "nameless", "type": "deploy_sandbox", "sandbox_mode": "vm"},
  {"id": "load", "type": "load_artifact", "artifact_id": "greting", "sandbox_name": "box", "destination_path": "/w",
   "depends_on": ["box", "bxo"]},
  {"id": "early", "type": "load_artifact", "artifact_id": "greeting", "sandbox_name": "bx", "destination_path": "/w",
   "depends_on": ["box", "check"]},
  {"id": "load", "type": "load_artifact", "artifact_id": "greeting", "sandbox_name": "box", "destination_path": "/x"},
  {"id": "mail", "type": "deploy_env", "env_id": "emial"},
  {"id": "ask", "type": "prompt_agent", "agent_name": "asistant", "prompt": "Hi.", "prompt_id": "hi"},
  {"id": "check", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": "v",
   "criteria": [
     {"type": "probe_file_exits", "paths": ["hello.txt"]},
     {"type": "probe_file_contains", "paths": ["hello.txt"], "expected": "a("}
   ],
   "depends_on": ["box"],
   "retry_config": {"retry_from_step_id": "mail", "max_retries": 2}},
  {"id": "reply", "type": "agent_prompt_response_verifier", "prompt_id": "hj", "verifier_id": "r",
   "criteria": [{"type": "response_contians", "needles": ["x"]}]},
  {"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["v", "rr"], "score_aggregator": "al_pass"}
]
"#,
        expect![[""]],
    );
}
