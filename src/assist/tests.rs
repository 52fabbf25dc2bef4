mod names;
mod settings;

use std::path::Path;

use expect_test::{Expect, expect};

use super::*;
use crate::json;
use crate::steps::REGISTRY;
use crate::system::MemorySystem;
use crate::task::folder;

/// A task folder in memory, and the text of a task of it.
struct World {
    folder: TaskFolder,
    config: Config,
    tools: EnvTools,
}

impl World {
    fn new() -> Self {
        let system = MemorySystem::new();
        system.write("/w/tasks/a.json", "[]");
        system.write(
            "/w/envs/post/env.toml",
            "type = \"builtin\"\nbuiltin = \"mail\"\n",
        );
        system.write("/w/agents/helper/agent.toml", "type = \"scripted\"\n");
        system.write("/w/agents/helper/script.json", "[]");
        system.write("/w/aliases.toml", "[envs]\npost = [\"inbox\"]\n");
        system.write("/w/artifacts/check/main.py", "print(1)\n");
        system.write("/w/artifacts/check/lib/util.py", "x = 1\n");
        system.write(
            "/w/artifacts/check/artifact.toml",
            "type = \"file_artifact_universe\"\n",
        );
        system.write("/w/artifacts/letter/letter.txt", "Dear Sam\n");
        system.write(
            "/w/skills/tone/SKILL.md",
            "---\nname: tone\ndescription: How to sound\n---\nBe brief.\n",
        );
        let (folder, _) = folder::read(&system, Path::new("/w"), "");
        let source = Source::new(
            "aebuild.toml",
            "[models.small]\napi = \"openai\"\n[envs.shop]\nurl = \"http://127.0.0.1:9/mcp\"\n",
        );
        let (config, _) = crate::task::config::read(&source);
        let tool = |name: &str| json::json!({"name": name, "description": format!("Does {name}.")});
        let tools = [("mail".to_owned(), vec![tool("send"), tool("list")])].into();
        World {
            folder,
            config,
            tools,
        }
    }

    /// Asks something of a file of settings at the `|` in its text.
    fn ask_settings<T>(
        &self,
        marked: &str,
        file: super::settings::File,
        ask: impl FnOnce(&super::settings::Settings<'_>, usize) -> T,
    ) -> T {
        let offset = marked.find('|').expect("a cursor");
        let text = marked.replacen('|', "", 1);
        let settings = super::settings::Settings {
            text: &text,
            file,
            folders: &[&self.folder],
            config: &self.config,
            types: REGISTRY,
        };
        ask(&settings, offset)
    }

    /// Asks something of a text at the `|` in it.
    fn ask<T>(&self, marked: &str, ask: impl FnOnce(&Scene<'_>, usize) -> T) -> T {
        let offset = marked.find('|').unwrap_or_default();
        let text = marked.replacen('|', "", 1);
        let source = Source::new("tasks/a.json", text);
        let root = json::parse(&source).root;
        let root = root.unwrap_or(Node {
            span: Span::at(0),
            kind: json::NodeKind::Bad,
        });
        let scene = Scene {
            source: &source,
            root: &root,
            folder: &self.folder,
            config: &self.config,
            types: REGISTRY,
            tools: &self.tools,
        };
        ask(&scene, offset)
    }
}

/// Completes at `|` and compares labels with their details, at most eight.
#[track_caller]
fn check(marked: &str, expected: Expect) {
    let found = World::new().ask(marked, complete);
    let lines = found.iter().take(8).map(|one| {
        let detail = one.detail.as_deref().unwrap_or_default();
        format!("{} ({detail})\n", one.label)
    });
    let mut said: String = lines.collect();
    if found.len() > 8 {
        said.push_str("..\n");
    }
    expected.assert_eq(&said);
}

/// Takes the completion with this label at `|` and compares what then stands there.
#[track_caller]
fn take(marked: &str, label: &str, expected: &str) {
    let taken = World::new().ask(marked, |scene, offset| {
        let all = complete(scene, offset);
        let one = all.iter().find(|one| one.label == label);
        let one = one.unwrap_or_else(|| panic!("no `{label}` among {all:?}"));
        let mut text = scene.source.text.to_string();
        text.replace_range(one.replace.range(), &one.snippet);
        text
    });
    assert_eq!(taken, expected);
}

const TASK: &str = r#"[
  {"id": "post", "type": "deploy_env", "env_id": "post", "depends_on": []},
  {"id": "clerk", "type": "deploy_agent", "agent_name": "clerk", "a2a_agent_id": "helper", "env_ids": ["post"]},
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "den", "sandbox_mode": "vm"},
  {"id": "ask", "type": "prompt_agent", "agent_name": "clerk", "prompt": "Hello", "depends_on": ["clerk"]},
  {"id": "said", "type": "agent_prompt_response_verifier", "prompt_id": "ask", "criteria": [], "depends_on": ["ask"]},
  {"id": "all", "type": "aggregate_verifiers", "verifier_ids": ["said"], "verifier_id": "total"}
]"#;

/// Returns the task with a step more, in which `|` is the cursor.
fn with(step: &str) -> String {
    TASK.replace("\n]", &format!(",\n  {step}\n]"))
}

#[test]
fn types_and_fields_are_offered_where_they_fit() {
    check(
        r#"[{"id": "a", "type": "|"}]"#,
        expect![[r#"
        deploy_sandbox ()
        deploy_env ()
        load_artifact ()
        deploy_agent ()
        install_agent ()
        deploy_human_agent ()
        peer_agents ()
        add_skills ()
        ..
    "#]],
    );
    check(
        r#"[{|}]"#,
        expect![[r#"
        id (string, required)
        type (string, required)
        depends_on (array)
        fail_task_on_error (boolean)
        retry_config (object)
        version (integer)
    "#]],
    );
    check(
        r#"[{"id": "a", "type": "prompt_agent", |}]"#,
        expect![[r#"
        agent_name (string, "default-agent" where it is left out)
        agentenv_tools (any value)
        context_id (string)
        effort (string)
        harness (string)
        live_trajectory (boolean, false where it is left out)
        max_conversation_turns (integer, 1 where it is left out)
        max_thinking_tokens (integer)
        ..
    "#]],
    );
    check(
        "[{\"id\": \"a\", \"agent_na|\n, \"type\": \"prompt_agent\"}]",
        expect![[r#"
            agent_name (string, "default-agent" where it is left out)
            agentenv_tools (any value)
            context_id (string)
            effort (string)
            harness (string)
            live_trajectory (boolean, false where it is left out)
            max_conversation_turns (integer, 1 where it is left out)
            max_thinking_tokens (integer)
            ..
        "#]],
    );
    check(
        r#"[{"id": "a", "retry_config": {|}}]"#,
        expect![[r#"
        go_to_step_id (string)
        max_retries (integer)
        retry_from_step_id (string)
    "#]],
    );
    check(
        "[|]",
        expect![[r#"
        deploy_sandbox (step)
        deploy_env (step)
        load_artifact (step)
        deploy_agent (step)
        install_agent (step)
        deploy_human_agent (step)
        peer_agents (step)
        add_skills (step)
        ..
    "#]],
    );
    check("|", expect![[r#""#]]);
    check(r#"{"a": |}"#, expect![[r#""#]]);
}

#[test]
fn values_of_fields_are_offered() {
    check(
        r#"[{"id": "a", "type": "deploy_env", "gateway_mode": "|"}]"#,
        expect![[r#"
            performance ()
            consistent ()
        "#]],
    );
    check(
        r#"[{"id": "a", "type": "verify_sandbox", "criteria": [{"type": |}]}]"#,
        expect![[r#"
            probe_file_exists ()
            probe_dir_exists ()
            probe_file_contains ()
            bash_cmd_succeeds ()
            command_succeeds ()
        "#]],
    );
    check(
        r#"[{"id": "a", "type": "verify_sandbox", "criteria": [{"type": "probe_file_contains", |}]}]"#,
        expect![[r#"
            paths (array, required)
            criterion (string)
            expected (string)
            value (string)
            weight (number)
        "#]],
    );
    check(
        r#"[{"fail_task_on_error": |}]"#,
        expect![[r#"
        true ()
        false ()
    "#]],
    );
}

#[test]
fn names_in_scope_are_offered() {
    check(
        &with(r#"{"id": "x", "depends_on": ["ask", "|"]}"#),
        expect![[r#"
        post (deploy_env)
        clerk (deploy_agent)
        box (deploy_sandbox)
        said (agent_prompt_response_verifier)
        all (aggregate_verifiers)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "depends_on": [{"task_step_id": "|"}]}"#),
        expect![[r#"
        post (deploy_env)
        clerk (deploy_agent)
        box (deploy_sandbox)
        ask (prompt_agent)
        said (agent_prompt_response_verifier)
        all (aggregate_verifiers)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "retry_config": {"retry_from_step_id": "|"}}"#),
        expect![[r#"
        post (deploy_env)
        clerk (deploy_agent)
        box (deploy_sandbox)
        ask (prompt_agent)
        said (agent_prompt_response_verifier)
        all (aggregate_verifiers)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "prompt_agent", "agent_name": "|"}"#),
        expect![[r#"
        clerk (made by `clerk`)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "deploy_agent", "agent_name": "|"}"#),
        expect![[r#"
        helper (scripted of the folder)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "deploy_agent", "a2a_agent_id": "|"}"#),
        expect![[r#"
        helper (scripted of the folder)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "deploy_agent", "env_ids": ["|"]}"#),
        expect![[r#"
        post (made by `post`)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "deploy_env", "env_id": "|"}"#),
        expect![[r#"
        post (env of the folder)
        inbox (alias of `post`)
        shop (env of aebuild.toml)
        mail (built in)
        calendar (built in)
        files (built in)
        kv (built in)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "verify_sandbox", "sandbox_name": |}"#),
        expect![[r#"
        den (made by `box`)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "env_outcome_verifier", "prompt_id": "|"}"#),
        expect![[r#"
        ask (made by `ask`)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "aggregate_verifiers", "verifier_ids": ["|"]}"#),
        expect![[r#"
        said (made by `said`)
        total (made by `all`)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "load_artifact", "artifact_id": "|"}"#),
        expect![[r#"
        check (file_artifact_universe)
        letter (file)
        tone (skill)
    "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "add_skills", "skills": [{"skill_artifact_id": "|"}]}"#),
        expect![[r#"
        tone (skill)
    "#]],
    );
    check(
        &with(
            r#"{"id": "x", "type": "run_code", "script_artifact_id": "check", "script_file": "|"}"#,
        ),
        expect![[r#"
            lib/util.py (file of `check`)
            main.py (file of `check`)
        "#]],
    );
    check(
        &with(r#"{"id": "x", "type": "rubrics_verifier", "model": "|"}"#),
        expect![[r#"
        small (model of aebuild.toml)
    "#]],
    );
    // The id of a step is its author's to choose.
    check(&with(r#"{"id": "|"}"#), expect![[r#""#]]);
}

#[test]
fn tools_of_an_env_that_is_compiled_in_are_offered() {
    let lock = |rest: &str| {
        let step = r#"{"id": "x", "type": "modify_env_tool_access", "env_id": "post", "#;
        with(&format!("{step}{rest}}}"))
    };
    check(
        &lock(r#""tools": ["send", "|"]"#),
        expect![[r#"
        list (tool of `mail`)
    "#]],
    );
    check(
        &lock(r#""tools": "|""#).replace("post", "shop"),
        expect![""],
    );
    check(
        &with(
            r#"{"id": "x", "type": "register_env_triggers", "env_id": "inbox", "triggers": [{"id": "t", "when": {"type": "action", "tool": |}}]}"#,
        ),
        expect![[r#"
            send (tool of `mail`)
            list (tool of `mail`)
        "#]],
    );
}

#[test]
fn what_is_taken_leaves_json() {
    take(
        r#"[{"type": "|"}]"#,
        "prompt_agent",
        r#"[{"type": "prompt_agent"}]"#,
    );
    take(
        r#"[{"type": | "id": "a"}]"#,
        "prompt_agent",
        r#"[{"type": "prompt_agent", "id": "a"}]"#,
    );
    take(r#"[{"i|"}]"#, "id", r#"[{"id": "$1"}]"#);
    take(r#"[{|"type": "x"}]"#, "id", r#"[{"id": "$1","type": "x"}]"#);
    take(r#"[{"i|": "a"}]"#, "id", r#"[{"id": "a"}]"#);
    take(r#"[{dep|}]"#, "depends_on", r#"[{"depends_on": [$1]}]"#);
    take(
        "[|]",
        "deploy_sandbox",
        r#"[{"id": "$1", "type": "deploy_sandbox", "sandbox_mode": "$2", "sandbox_name": "$3"}]"#,
    );
}

#[track_caller]
fn check_hover(marked: &str, expected: Expect) {
    let found = World::new().ask(marked, |scene, offset| {
        let hover = hover(scene, offset)?;
        let step = hover
            .step
            .map_or_else(String::new, |step| format!("\nresult of {step}"));
        Some(format!(
            "{}: {}{step}\n",
            scene.source.slice(hover.span),
            hover.text
        ))
    });
    expected.assert_eq(&found.unwrap_or_default());
}

#[test]
fn fields_types_and_names_are_told() {
    let at = |from: &str, to: &str| TASK.replacen(from, to, 1);
    check_hover(
        &at(r#""env_ids""#, r#""env_|ids""#),
        expect![[r#"
        "env_ids": **`env_ids`**: array, [] where it is left out

        The envs that the agent is connected to.
    "#]],
    );
    check_hover(
        &at(r#""depends_on": []"#, r#""dep|ends_on": []"#),
        expect![[r#"
        "depends_on": **`depends_on`**: array

        The ids of the steps that this one waits for, and whose results it sees. Where it is left out, the step waits for all that are listed before it.
    "#]],
    );
    check_hover(
        &at(r#""prompt_agent""#, r#""pro|mpt_agent""#),
        expect![[r#"
        "prompt_agent": **`prompt_agent`**

        Asks an agent and waits for its reply.

        ```json
        {"id": "reply", "type": "prompt_agent", "agent_name": "assistant", "prompt_id": "reply", "prompt": "Reply to Dana.",
         "depends_on": ["inbox", "assistant"]}
        ```

        The agent works on the envs that its `deploy_agent` step connects it to, through the gateway and under its role.
        result of ask
    "#]],
    );
    check_hover(
        &at(r#""prompt_id": "ask""#, r#""prompt_id": "as|k""#),
        expect![[r#"
        "ask": reply **`ask`**

        made by step `ask` (`prompt_agent`)
        result of ask
    "#]],
    );
    check_hover(
        &at(r#"["clerk"]"#, r#"["cl|erk"]"#),
        expect![[r#"
        "clerk": step **`clerk`** (`deploy_agent`)

        Makes an agent, connected to envs
        result of clerk
    "#]],
    );
    check_hover(
        &at(
            r#""agent_name": "clerk", "prompt""#,
            r#""agent_name": "cl|erk", "prompt""#,
        ),
        expect![[r#"
        "clerk": agent **`clerk`**

        made by step `clerk` (`deploy_agent`)

        `scripted` of the folder `agents/helper`
    "#]],
    );
    check_hover(
        &at(r#"["post"]"#, r#"["po|st"]"#),
        expect![[r#"
        "post": env **`post`**

        made by step `post` (`deploy_env`)

        `builtin` of the folder `envs/post`
    "#]],
    );
    check_hover(
        &with(r#"{"id": "x", "type": "load_artifact", "artifact_id": "che|ck"}"#),
        expect![[r#"
        "check": artifact **`check`**

        `file_artifact_universe`, 2 files in `artifacts/check`
        - `lib/util.py`
        - `main.py`
    "#]],
    );
    check_hover(&at(r#""Hello""#, r#""He|llo""#), expect![[r#""#]]);
    check_hover("[ | ]", expect![[r#""#]]);
}
