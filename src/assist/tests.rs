use std::collections::BTreeSet;
use std::path::Path;

use expect_test::{Expect, expect};

use super::*;
use crate::context::Lookup;
use crate::json;
use crate::step::NameRef;
use crate::steps::REGISTRY;
use crate::system::{MemorySystem, System};
use crate::task::folder;

/// A task folder in memory, and the text of a task of it.
struct World {
    folder: TaskFolder,
    config: Config,
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
        World { folder, config }
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

#[track_caller]
fn check_definition(marked: &str, expected: &str) {
    let found = World::new().ask(marked, |scene, offset| {
        let Some((span, all)) = definitions(scene, offset) else {
            return "nothing".to_owned();
        };
        let all = all.iter().map(|target| match target {
            Target::Here(span) => {
                let (line, column) =
                    crate::diagnostic::line_column(&scene.source.text, span.start as usize);
                format!("{line}:{column} {}", scene.source.slice(*span))
            }
            Target::File(path) => path.display().to_string(),
            Target::Config(keys) => keys.join("."),
        });
        format!(
            "{} -> {}",
            scene.source.slice(span),
            all.collect::<Vec<_>>().join(", ")
        )
    });
    assert_eq!(found, expected, "{marked}");
}

#[test]
fn a_name_leads_to_what_it_names() {
    let at = |from: &str, to: &str| TASK.replacen(from, to, 1);
    check_definition(&at(r#"["ask"]"#, r#"["a|sk"]"#), "ask -> 5:11 ask");
    check_definition(
        &at(r#""prompt_id": "ask""#, r#""prompt_id": "|ask""#),
        "ask -> 5:11 ask",
    );
    check_definition(&at(r#"["said"]"#, r#"["said|"]"#), "said -> 6:11 said");
    check_definition(
        &at(
            r#""agent_name": "clerk", "prompt""#,
            r#""agent_name": "c|lerk", "prompt""#,
        ),
        "clerk -> 3:58 clerk, /w/agents/helper/agent.toml",
    );
    check_definition(
        &at(r#""helper""#, r#""h|elper""#),
        "helper -> /w/agents/helper/agent.toml",
    );
    check_definition(
        &at(r#"["post"]"#, r#"["p|ost"]"#),
        "post -> 2:51 post, /w/envs/post/env.toml",
    );
    check_definition(
        &at(r#""env_id": "post""#, r#""env_id": "p|ost""#),
        "post -> /w/envs/post/env.toml",
    );
    check_definition(
        &with(r#"{"id": "x", "type": "deploy_env", "env_id": "in|box"}"#),
        "inbox -> /w/envs/post/env.toml",
    );
    check_definition(
        &with(r#"{"id": "x", "type": "deploy_env", "env_id": "sh|op"}"#),
        "shop -> envs.shop",
    );
    check_definition(
        &with(r#"{"id": "x", "type": "load_artifact", "artifacts": [{"id": "le|tter"}]}"#),
        "letter -> /w/artifacts/letter/letter.txt",
    );
    check_definition(
        &with(r#"{"id": "x", "type": "load_artifact", "artifact_id": "che|ck"}"#),
        "check -> /w/artifacts/check/artifact.toml",
    );
    check_definition(
        &with(
            r#"{"id": "x", "type": "run_code", "script_artifact_id": "check", "script_file": "li|b/util.py"}"#,
        ),
        "lib/util.py -> /w/artifacts/check/lib/util.py",
    );
    check_definition(&at(r#""Hello""#, r#""He|llo""#), "nothing");
    // A text that is not JSON is no reason to know nothing.
    check_definition(&at(r#"["ask"]"#, r#"["a|sk"], "x": ,"#), "ask -> 5:11 ask");
}

#[track_caller]
fn check_rename(marked: &str, to: &str, expected: Result<&[&str], &str>) {
    let found = World::new().ask(marked, |scene, offset| {
        let renamed = rename(scene, offset, to).map_err(|refused| refused.0)?;
        let lines = scene.source.text.lines().map(str::to_owned);
        let mut lines: Vec<String> = lines.collect();
        for edit in renamed.expect("a name").edits.iter().rev() {
            let (line, column) =
                crate::diagnostic::line_column(&scene.source.text, edit.span.start as usize);
            let range = column - 1..column - 1 + edit.span.len();
            lines[line - 1].replace_range(range, &edit.text);
        }
        let changed = lines.into_iter().zip(scene.source.text.lines());
        let changed = changed.filter(|(new, old)| new != old);
        Ok(changed
            .map(|(new, _)| new.trim().to_owned())
            .collect::<Vec<_>>())
    });
    let found = found
        .as_ref()
        .map(Vec::as_slice)
        .map_err(|error: &String| error.as_str());
    let expected = expected.map(|lines| {
        lines
            .iter()
            .map(|line| (*line).to_owned())
            .collect::<Vec<_>>()
    });
    assert_eq!(
        found,
        expected.as_ref().map(Vec::as_slice).map_err(|error| *error),
        "{marked}"
    );
}

#[test]
fn what_gets_another_name_gets_it_everywhere() {
    let at = |from: &str, to: &str| TASK.replacen(from, to, 1);
    // The reply goes by the id of its step.
    check_rename(
        &at(r#"["ask"]"#, r#"["a|sk"]"#),
        "greet",
        Ok(&[
            r#"{"id": "greet", "type": "prompt_agent", "agent_name": "clerk", "prompt": "Hello", "depends_on": ["clerk"]},"#,
            r#"{"id": "said", "type": "agent_prompt_response_verifier", "prompt_id": "greet", "criteria": [], "depends_on": ["greet"]},"#,
        ]),
    );
    // The agent does not go by the id of its step.
    check_rename(
        &at(
            r#""agent_name": "clerk", "prompt""#,
            r#""agent_name": "c|lerk", "prompt""#,
        ),
        "Ann",
        Ok(&[
            r#"{"id": "clerk", "type": "deploy_agent", "agent_name": "Ann", "a2a_agent_id": "helper", "env_ids": ["post"]},"#,
            r#"{"id": "ask", "type": "prompt_agent", "agent_name": "Ann", "prompt": "Hello", "depends_on": ["clerk"]},"#,
        ]),
    );
    check_rename(
        &at(r#""den""#, r#""d|en""#),
        "a \"b\"",
        Err(
            "`a \"b\"` has the character `\"`: use letters, digits and any of ` ._-~@()+,&`, and start with a letter or digit",
        ),
    );
    check_rename(
        &at(r#"["ask"]"#, r#"["a|sk"]"#),
        "box",
        Err("there is a step `box` already"),
    );
    check_rename(
        &at(r#"["post"]"#, r#"["p|ost"]"#),
        "mail2",
        Err(
            "`post` is the name of the folder envs/post: rename the folder, and then what names it",
        ),
    );
    check_rename(
        &at(
            r#""agent_name": "clerk", "a2a_agent_id": "helper""#,
            r#""agent_name": "hel|per""#,
        ),
        "x",
        Err(
            "`helper` is the name of the folder agents/helper: rename the folder, and then what names it, or add \"a2a_agent_id\": \"helper\" to the step that deploys it",
        ),
    );
    check_rename(
        &with(r#"{"id": "x", "type": "deploy_env", "env_id": "in|box"}"#),
        "letters",
        Ok(&[r#"{"id": "x", "type": "deploy_env", "env_id": "letters"}"#]),
    );
    check_rename(
        &with(r#"{"id": "x", "type": "deploy_env", "env_id": "sh|op"}"#),
        "y",
        Err(
            "`shop` is [envs.shop] of aebuild.toml, which other folders may name too: rename it there",
        ),
    );
}

#[test]
fn steps_are_the_outline_of_a_task() {
    let found = World::new().ask(
        r#"[{"id": "a", "type": "note"}, {"type": "x"}, 3]"#,
        |scene, _| symbols(scene),
    );
    let said: Vec<_> = found
        .iter()
        .map(|one| (one.name.as_str(), one.kind.as_str(), one.id))
        .collect();
    assert_eq!(
        said,
        [
            ("a", "note", Span { start: 9, end: 10 }),
            ("step 2", "x", Span { start: 30, end: 43 }),
        ]
    );
}

#[test]
fn the_keys_of_the_configuration_are_offered() {
    let check = |marked: &str, expected: Expect| {
        let offset = marked.find('|').expect("a cursor");
        let found = complete_config(&marked.replacen('|', "", 1), offset);
        let lines = found
            .iter()
            .take(6)
            .map(|one| format!("{} -> {}\n", one.label, one.snippet));
        expected.assert_eq(&lines.collect::<String>());
    };
    check(
        "[cache]\n|",
        expect![[r#"
        dir -> dir = "$1"
        size_limit_gb -> size_limit_gb = $1
        max_age_days -> max_age_days = $1
        durability -> durability = "$1"
    "#]],
    );
    check(
        "[cache]\ndurability = |",
        expect![[r#"
        durable -> "durable"
        fast -> "fast"
    "#]],
    );
    check(
        "[|]",
        expect![[r#"
        cache -> cache
        run -> run
        sandbox -> sandbox
        retry -> retry
        score -> score
        determinism.types -> determinism.types
    "#]],
    );
    check(
        "cache.dur|",
        expect![[r#"
        cache.dir -> cache.dir = "$1"
        cache.size_limit_gb -> cache.size_limit_gb = $1
        cache.max_age_days -> cache.max_age_days = $1
        cache.durability -> cache.durability = "$1"
        run.jobs -> run.jobs = $1
        run.prompt_jobs -> run.prompt_jobs = $1
    "#]],
    );
    check(
        "[models.small]\n|",
        expect![[r#"
        api -> api = "$1"
        base_url -> base_url = "$1"
        model -> model = "$1"
        key_variable -> key_variable = "$1"
        max_concurrent -> max_concurrent = $1
        timeout_seconds -> timeout_seconds = $1
    "#]],
    );
    check("# |", expect![[r#""#]]);
    check("[cache]\nsize_limit_gb = |", expect![[r#""#]]);
}

/// Every name that a built step reads, makes or uses is known by where it stands, and as what it is.
#[test]
fn names_are_where_the_steps_say_they_are() {
    let system = crate::system::OsSystem;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tasks");
    let (mut seen, mut missing) = (0, BTreeSet::new());
    let folders = system.read_folder(&root).expect("there are tasks");
    for entry in folders.iter().filter(|entry| entry.name != "errors") {
        let (folder, _) = folder::read(&system, &root.join(&entry.name), "");
        for task in &folder.tasks {
            let (source, _) =
                folder::read_source(&system, &task.path, &task.shown).expect("a task");
            let parsed = crate::task::parse::parse(&task.name, &source, &REGISTRY);
            let root = json::parse(&source).root.expect("a tree");
            let config = Config::default();
            let scene = Scene {
                source: &source,
                root: &root,
                folder: &folder,
                config: &config,
                types: REGISTRY,
            };
            let sites = sites(&scene);
            for (at, decl) in parsed.task.steps.iter().enumerate() {
                let step_type = REGISTRY.find(&decl.kind).expect("a type");
                let Ok(step) = (step_type.build)(&decl.id, &decl.fields) else {
                    continue;
                };
                let lookups = |refs: Vec<NameRef>, makes: bool| {
                    refs.into_iter().map(move |one| {
                        let name = match one.lookup {
                            Lookup::Env(name) => Name::new(Noun::Env, name),
                            Lookup::Agent(name) => Name::new(Noun::Agent, name),
                            Lookup::Sandbox(name) => Name::new(Noun::Sandbox, name),
                            Lookup::Prompt(name) => Name::new(Noun::Prompt, name),
                            Lookup::Metadata(path) => match &path[..] {
                                [first, id] if first == "verifications" => {
                                    Name::new(Noun::Verifier, id)
                                }
                                _ => return None,
                            },
                        };
                        Some((one.field, name, makes))
                    })
                };
                let artifacts = step.artifacts().into_iter();
                let artifacts = artifacts
                    .map(|one| Some((one.field, Name::new(Noun::Artifact, one.name), false)));
                let all = lookups(step.reads(), false)
                    .chain(lookups(step.provides(), true))
                    .chain(artifacts);
                for (field, name, makes) in all.flatten() {
                    let place = parsed.places.exact(crate::graph::StepIx(at as u32), &field);
                    let Some(span) = place else { continue };
                    seen += 1;
                    let is_known = sites.iter().any(|site| {
                        let same = site.name == name
                            || site.name.noun == Noun::Step && site.name.text == name.text;
                        same && span.start <= site.span.start
                            && site.span.end <= span.end
                            && (site.makes == makes || !makes)
                    });
                    if !is_known {
                        missing.insert(format!("{} {field} {name:?} makes {makes}", decl.kind));
                    }
                }
            }
        }
    }
    assert!(seen > 100, "{seen} names");
    assert_eq!(missing, BTreeSet::new());
}
