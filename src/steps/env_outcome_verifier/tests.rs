#![expect(
    clippy::disallowed_methods,
    reason = "tests set up the world that the program sees"
)]

use super::*;
use crate::step::sandbox::{Exec, How, Program};
use crate::steps::testing::{
    FakeEnv, FakeSandbox, FakeServices, build_step, exited, misfits, run, show,
};
use expect_test::expect;

/// A bench in which a program ends like this and leaves these files beside the driver.
fn bench(
    how: How,
    stdout: &'static str,
    stderr: &'static str,
    leaves: &'static [(&'static str, &'static str)],
) -> FakeSandbox {
    FakeSandbox::new("bench")
        .at("/tmp")
        .leaving(move |_: &Exec| {
            let files = leaves
                .iter()
                .map(|(name, text)| (format!("/tmp/verifier/{name}"), (*text).to_owned()));
            (exited(how, stdout, stderr), files.collect())
        })
}

fn world(bench: FakeSandbox) -> FakeServices {
    let state = json!([{"kind": "data", "data": {"emails": [{"to": "dana"}]}}]);
    FakeServices::new()
        .with(bench)
        .env(FakeEnv::new("email").state(state))
        .reply("said", json!({"response": "I wrote to Dana", "prompt_text": "Write to Dana", "step_id": "ask"}))
        .reply("lost", json!({"error_type": "AgentError", "error_message": "gone"}))
        .artifact(
            "declared",
            ArtifactKind::File,
            &[("mail.toml", "[[expect]]\nid = 'sent'\nstate = '$.emails[*].to'\nequals = 'dana'\n", false)],
        )
        .artifact(
            "spoken",
            ArtifactKind::File,
            &[("said.toml", "[[expect]]\nreply = true\ncontains = 'Dana'\n", false)],
        )
        .artifact(
            "python",
            ArtifactKind::FileUniverse,
            &[
                ("verify.py", "import httpx\nimport more", false),
                ("more.py", "import mcp", false),
                ("expected.json", "{}", false),
            ],
        )
        .artifact(
            "program",
            ArtifactKind::FileUniverse,
            &[("verify", "#!/bin/sh", true), ("expected.json", "{}", false)],
        )
        .artifact("notes", ArtifactKind::FileUniverse, &[("a.md", "", false), ("b.sh", "", true)])
        .artifact("bad", ArtifactKind::File, &[("verify.py", "# /// script\n# dependencies = 1\n# ///\n", false)])
}

fn fields(artifact: &str) -> Value {
    json!({"env_id": "email", "file_artifact_id": artifact, "timeout_seconds": 7})
}

fn go(world: &FakeServices, fields: Value) -> String {
    match run(&*build_step(&TYPE, "check", fields), "check", world) {
        Ok(output) => show(&output),
        Err(error) => format!("{error}\n"),
    }
}

#[test]
fn expectations_are_looked_at_without_a_bench() {
    let world = world(bench(How::Code(1), "", "", &[]));
    let mut spoken = fields("spoken");
    spoken["prompt_id"] = "said".into();
    let shown =
        go(&world, fields("declared")) + &go(&world, spoken) + &go(&world, fields("spoken"));
    expect![[r#"
        metadata.verifications.check = {"results":[{"id":"sent","justification":"found \"dana\"","result":true,"score":1.0,"weight":1}],"score":1.0}
        metadata.verifications.check = {"results":[{"id":"expect-1","justification":"found \"I wrote to Dana\"","result":true,"score":1.0,"weight":1}],"score":1.0}
        ValueError: `said.toml` cannot be read:
        said.toml:2:9: error[missing-field]: `reply` needs the `prompt_id` of a reply, and the step has none
    "#]].assert_eq(&shown);
    assert_eq!(world.log_text(), "");
}

#[test]
fn a_python_file_runs_on_a_bench_with_its_packages() {
    let rows = r#"[{"id": "sent", "result": true}, {"result": "yes"}, {"result": false}]"#;
    let leaves: &[(&str, &str)] = Vec::leak(vec![("rows.json", rows)]);
    let world = world(FakeSandbox::new("bench").at("/tmp").leaving(|exec| {
        let Program::Argv(argv) = &exec.program else {
            panic!("no shell is used")
        };
        expect!["/venv/bin/python3 -s /tmp/verifier/driver.py /tmp/verifier verify.py"]
            .assert_eq(&argv.join(" "));
        expect![[r#"
            Some("/tmp/verifier/code") [("PYTHONHASHSEED", "0"), ("PYTHONDONTWRITEBYTECODE", "1"), ("MCP_URL", "http://127.0.0.1:1/email/mcp")]
            {"env":{"id":"email","mcp_url":"http://127.0.0.1:1/email/mcp","url":"http://127.0.0.1:1/email"},"run":{"firings":[],"turns":[],"unavailable":{"firings":"the step names no `prompt_id`","replies":"the step names no `prompt_id`","turns":"the step names no `prompt_id`"}}}
        "#]].assert_eq(&format!(
            "{:?} {:?}\n{}\n",
            exec.cwd,
            exec.env,
            String::from_utf8_lossy(&exec.stdin)
        ));
        let files = leaves
            .iter()
            .map(|(name, text)| (format!("/tmp/verifier/{name}"), (*text).to_owned()));
        (exited(How::Code(0), "said\n", "warned\n"), files.collect())
    }));
    let mut fields = fields("python");
    fields["score_aggregator"] = "weighted_average".into();
    expect![[r#"
        metadata.verifications.check = {"results":[{"id":"sent","result":true},{"result":"yes"},{"result":false}],"score":0.3333333333333333}
    "#]].assert_eq(&go(&world, fields));
    expect![[r#"
        Note: bench with ["httpx", "mcp>=1.25,<2"]
        Note: python3 verify.py: verify(..), with httpx, mcp>=1.25,<2
        Stderr: warned
        Stdout: said
    "#]]
    .assert_eq(&world.log_text());
    let files = world.get("bench").files();
    let paths: Vec<&str> = files
        .lines()
        .map(|line| line.split(" \"").next().unwrap())
        .collect();
    expect![[r#"
        /tmp/verifier/aebuild.py 644
        /tmp/verifier/code/expected.json 644
        /tmp/verifier/code/more.py 644
        /tmp/verifier/code/verify.py 644
        /tmp/verifier/driver.py 644
        /tmp/verifier/rows.json 644"#]]
    .assert_eq(&paths.join("\n"));
}

#[test]
fn a_program_prints_its_rows() {
    let cases = [
        r#"[{"id": "sent", "result": true}]"#,
        r#"{"results": [{"id": "sent", "result": false}]}"#,
        "[]",
        "3",
        r#"{"rows": []}"#,
        r#"{"results": 1}"#,
        r#"[{}, 1]"#,
        r#"[{"score": NaN}]"#,
        "looking..\n[]",
        "",
    ];
    let shown: String = cases
        .into_iter()
        .map(|stdout| {
            go(
                &world(bench(How::Code(0), stdout, "", &[])),
                fields("program"),
            )
        })
        .collect();
    expect![[r#"
        metadata.verifications.check = {"results":[{"id":"sent","result":true}],"score":1.0}
        metadata.verifications.check = {"results":[{"id":"sent","result":false}],"score":0.0}
        metadata.verifications.check = {"results":[],"score":0.0}
        RuntimeError: verifier `verify` gave what is no list of rows: 3
        RuntimeError: verifier `verify` gave an object without `results`: {"rows":[]}
        RuntimeError: verifier `verify` gave `results` that are no list of rows: 1
        RuntimeError: verifier `verify` gave as row 1 what is no object: 1
        RuntimeError: verifier `verify` printed what is no JSON; only its rows may go to stdout: [{"score": NaN}]
        RuntimeError: verifier `verify` printed what is no JSON; only its rows may go to stdout: looking..
        []
        RuntimeError: verifier `verify` printed nothing; it must print its rows as JSON
    "#]].assert_eq(&shown);
}

#[test]
fn a_program_gets_its_facts_and_its_files() {
    let world = world(FakeSandbox::new("bench").at("/tmp").command(|exec| {
        let stdin = String::from_utf8_lossy(&exec.stdin);
        let shown = format!(
            "{:?} in {:?} with {:?} reads {stdin}",
            exec.program, exec.cwd, exec.env
        );
        let row = json!([{"result": true, "saw": shown}]);
        Ok(exited(How::Code(0), &row.to_string(), "warned"))
    }));
    let mut fields = fields("program");
    fields["prompt_id"] = "said".into();
    expect![[r#"
        metadata.verifications.check = {"results":[{"result":true,"saw":"Argv([\"$TMPDIR/verifier/code/verify\"]) in Some(\"$TMPDIR/verifier/code\") with [(\"MCP_URL\", \"http://127.0.0.1:1/email/mcp\")] reads {\"env\":{\"id\":\"email\",\"mcp_url\":\"http://127.0.0.1:1/email/mcp\",\"url\":\"http://127.0.0.1:1/email\"},\"run\":{\"firings\":[],\"turns\":[{\"message\":{\"author\":\"task\",\"env_clock\":null,\"parts\":[{\"kind\":\"text\",\"text\":\"Write to Dana\"}],\"role\":\"user\",\"sent_at\":null,\"text\":\"Write to Dana\",\"turn\":1,\"user_sim\":null,\"written_by_triggers\":[]},\"number\":1,\"reply\":{\"author\":null,\"env_clock\":null,\"parts\":[{\"kind\":\"text\",\"text\":\"I wrote to Dana\"}],\"role\":\"agent\",\"sent_at\":null,\"text\":\"I wrote to Dana\",\"turn\":1,\"user_sim\":null,\"written_by_triggers\":[]}}],\"unavailable\":{\"firings\":\"no step recorded the triggers of the envs\",\"firings of user_agent\":\"no step recorded the triggers of the user's agent\"}}}"}],"score":1.0}
    "#]].assert_eq(&go(&world, fields));
    expect![[r##"
        /tmp/verifier/code/expected.json 644 "{}"
        /tmp/verifier/code/verify 755 "#!/bin/sh"
    "##]]
    .assert_eq(&world.get("bench").files());
    expect![[r#"
        Note: bench with []
        Note: verify
        Stderr: warned
    "#]]
    .assert_eq(&world.log_text());
    expect!["env `email`, reply `said`, metadata `agent_trigger_firings.ask`, metadata `env_trigger_state`, metadata `usersim_turn_outputs.ask`"].assert_eq(&world.looked_up());
}

#[test]
fn a_verifier_that_ends_badly_fails_the_step_with_its_last_lines() {
    let many: &'static str = Box::leak(
        (0..50)
            .map(|n| format!("line {n}\n"))
            .collect::<String>()
            .into_boxed_str(),
    );
    let python = |how, stderr, leaves| go(&world(bench(how, "", stderr, leaves)), fields("python"));
    let shown = python(
        How::Code(0),
        "",
        &[(
            "fault.txt",
            "raised ValueError: no (verify.py, line 2: f())",
        )],
    ) + &python(How::Code(0), "", &[])
        + &python(How::Code(3), "", &[])
        + &python(How::Signal(9), "oh\n", &[])
        + &python(How::TimedOut, "waiting\n", &[])
        + &python(How::Cancelled, "", &[])
        + &python(How::Code(0), "", &[("rows.json", "{}")])
        + &go(
            &world(bench(How::Code(2), "[]", "usage: verify\n", &[])),
            fields("program"),
        );
    expect![[r#"
        RuntimeError: verifier `verify.py` raised ValueError: no (verify.py, line 2: f())
        RuntimeError: verifier `verify.py` ended the program, so there are no rows
        RuntimeError: verifier `verify.py` exited 3
        RuntimeError: verifier `verify.py` was killed by signal 9; its last lines:
        oh
        TimeoutError: verifier `verify.py` was stopped after 7 s; give it more time with `timeout_seconds`; its last lines:
        waiting
        RuntimeError: verifier `verify.py` ended with its sandbox
        RuntimeError: verifier `verify.py` gave an object without `results`: {}
        RuntimeError: verifier `verify` exited 2; its last lines:
        usage: verify
    "#]].assert_eq(&shown);
    let shown = python(How::Code(1), many, &[]);
    assert!(
        shown.contains("its last lines:\nline 10\n") && shown.ends_with("line 49\n"),
        "{shown}"
    );
}

#[test]
fn an_artifact_that_is_no_verifier_is_told_with_its_files() {
    let world = world(bench(How::Code(0), "", "", &[]));
    let shown: String = ["notes", "bad", "none"]
        .map(|name| go(&world, fields(name)))
        .concat();
    expect![[r#"
        ValueError: artifact `notes` has `a.md`, `b.sh`, and none of them is the verifier: name it `verify.toml`, `verify.py` or, if it is executable, `verify`
        ValueError: the `script` block of `verify.py` cannot be read:
        verify.py:2:18: error[wrong-type]: `dependencies` of the `script` block of `verify.py` is a number, not an array
        ValueError: there is no artifact `none`
    "#]].assert_eq(&shown);
}

#[test]
fn a_reply_that_is_an_error_or_missing_runs_nothing() {
    let world = world(bench(How::Code(0), "", "", &[]));
    let shown: String = ["lost", "none"]
        .map(|prompt_id| {
            let mut fields = fields("python");
            fields["prompt_id"] = prompt_id.into();
            go(&world, fields)
        })
        .concat();
    expect![[r#"
        metadata.verifications.check = {"results":[{"id":"prompt_error","message":"AgentError: gone","result":false,"score":0.0}],"score":0.0}
        RuntimeError: reply `none` is not there; no step that `check` depends on gave it
    "#]].assert_eq(&shown);
    assert_eq!(world.log_text(), "");
}

#[test]
fn the_env_is_read_and_may_be_changed() {
    let mut fields = fields("python");
    fields["prompt_id"] = "said".into();
    let step = build_step(&TYPE, "check", fields);
    let reads: Vec<String> = step
        .reads()
        .iter()
        .map(|read| format!("{} {}", read.field, read.lookup))
        .collect();
    expect![[r#"
        /env_id env `email`
        /prompt_id reply `said`
        [(ResourceId { kind: Env, name: "email" }, MayMutate)]
        {"env_id":"email","file_artifact_id":"python","file_artifact_version":null,"prompt_id":"said","score_aggregator":"all_pass","timeout_seconds":7,"verifier_id":"check"}"#]].assert_eq(&format!(
        "{}\n{:?}\n{}",
        reads.join("\n"),
        step.touches(),
        step.fields()
    ));
    expect![[r#"
        unknown-value: `score_aggregator` of step can't be `best` (write one of `all_pass`, `any_pass`, `weighted_average`)
        missing-field: step lacks the field `env_id` (add "env_id": "..")
        missing-field: step lacks the field `file_artifact_id` (add "file_artifact_id": "..")
        unknown-field: step has no field `env` (the fields are `env_id`, `file_artifact_id`, `file_artifact_version`, `prompt_id`, `score_aggregator`, `timeout_seconds`, `verifier_id`)
    "#]].assert_eq(&misfits(
        &TYPE,
        json!({"env": "email", "score_aggregator": "best"}),
    ));
}

/// Runs the driver on a Python file, and returns what it leaves; `None` on a machine without `python3`.
fn python3(code: &str, facts: &Value) -> Option<String> {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("code/lib")).unwrap();
    std::fs::write(at("code/lib/verify.py"), code).unwrap();
    std::fs::write(at("code/lib/near.py"), "ONE = 1\n").unwrap();
    std::fs::write(
        at("code/far.py"),
        "def fail():\n    raise KeyError('far')\n",
    )
    .unwrap();
    std::fs::write(at("driver.py"), program::DRIVER).unwrap();
    std::fs::write(at("aebuild.py"), program::MODULE).unwrap();
    let child = Command::new("python3")
        .arg("-s")
        .arg(at("driver.py"))
        .arg(folder.path())
        .arg("lib/verify.py")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("not tested: there is no `python3` on this machine");
        return None;
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(facts.to_string().as_bytes())
        .unwrap();
    let ended = child.wait_with_output().unwrap();
    let left: Vec<String> = ["rows.json", "fault.txt"]
        .into_iter()
        .filter_map(|name| {
            Some(format!(
                "{name}: {}",
                std::fs::read_to_string(at(name)).ok()?
            ))
        })
        .collect();
    Some(format!(
        "{} {}",
        ended.status.code().unwrap_or(-1),
        left.join(" ")
    ))
}

fn driven(run: Value, codes: &[&str]) -> Option<String> {
    let facts =
        json!({"env": {"id": "email", "url": "http://e", "mcp_url": "http://e/mcp"}, "run": run});
    let texts: Option<Vec<String>> = codes.iter().map(|code| python3(code, &facts)).collect();
    Some(texts?.join("\n"))
}

#[test]
fn the_driver_leaves_rows_or_says_what_is_wrong() {
    let shown = driven(
        facts::no_run(),
        &[
            "import near\ndef verify(mcp_url): print('x'); return [{'url': mcp_url, 'result': near.ONE == 1}]",
            "async def verify(url):\n    import asyncio\n    await asyncio.sleep(0)\n    return ({'result': True},)",
            "import asyncio\ndef verify(url): return asyncio.run(asyncio.sleep(0, []))",
            "def verify(url): return {'result': True}",
            "def verify(url): return None",
            "def verify(url): return [{'result': True}, True]",
            "def verify(url): return [{'score': float('nan')}]",
            "def verify(url): return [{'result': {1}}]",
            "def verify(url):\n    raise ValueError('no')",
            "import far\ndef verify(url): far.fail()",
            "import numpie",
            "x = = 1",
            "def check(url): pass",
            "def verify(): return []",
            "import sys\ndef verify(url): sys.exit(3)",
            "import os\ndef verify(url): os._exit(3)",
        ],
    );
    let Some(shown) = shown else { return };
    let shown = shown.replace("compliant: nan", "compliant");
    expect![[r#"
        0 rows.json: [{"url": "http://e/mcp", "result": true}]
        0 rows.json: [{"result": true}]
        0 rows.json: []
        0 fault.txt: gave dict, not a list of rows
        0 fault.txt: gave NoneType, not a list of rows
        0 fault.txt: gave as row 1 bool, not a dict such as {'id': 'sent', 'result': True}
        0 fault.txt: gave as row 0 what is no JSON: Out of range float values are not JSON compliant
        0 fault.txt: gave as row 0 what is no JSON: Object of type set is not JSON serializable
        0 fault.txt: raised ValueError: no (lib/verify.py, line 2: raise ValueError('no'))
        0 fault.txt: raised KeyError: 'far' (far.py, line 2: raise KeyError('far'))
        0 fault.txt: raised ModuleNotFoundError: No module named 'numpie' (lib/verify.py, line 1: import numpie); name the package that brings it in the file's `# /// script` block or in `requirements.txt`
        0 fault.txt: raised SyntaxError: invalid syntax (verify.py, line 1) (lib/verify.py, line 1: x = = 1)
        0 fault.txt: has no function `verify`; write `def verify(mcp_url): ..`
        0 fault.txt: raised TypeError: verify() takes 0 positional arguments but 1 was given
        0 fault.txt: ended the program with sys.exit(3) (lib/verify.py, line 2: def verify(url): sys.exit(3))
        3 "#]].assert_eq(&shown);
}

#[test]
fn a_group_of_one_error_is_that_error() {
    let code = "async def inner():\n    raise ValueError('no such tool')\nasync def verify(url):\n    import asyncio\n    async with asyncio.TaskGroup() as group:\n        group.create_task(inner())";
    let Some(shown) = driven(
        facts::no_run(),
        &[
            code,
            "import asyncio; asyncio.TaskGroup\ndef verify(url): return []",
        ],
    ) else {
        return;
    };
    let lines: Vec<&str> = shown.lines().collect();
    // Python 3.10 has no groups.
    if lines[1].starts_with("0 rows.json") {
        expect!["0 fault.txt: raised ValueError: no such tool (lib/verify.py, line 2: raise ValueError('no such tool'))"].assert_eq(lines[0]);
    }
}

#[test]
fn a_verifier_asks_the_run_for_what_was_recorded() {
    let message = |turn: u32, role: &str, text: &str| {
        json!({
            "turn": turn, "role": role, "text": text, "sent_at": null, "author": "user", "written_by_triggers": ["t"],
            "user_sim": null, "parts": [{"kind": "text"}], "env_clock": null,
        })
    };
    let firing = |id: &str, source: &str, turn: u32| {
        json!({
            "trigger_id": id, "source": source, "turn": turn, "at": null, "virtual_time": null, "ok": true,
            "provoked_by": null,
        })
    };
    let run = json!({
        "turns": [
            {"number": 1, "message": message(1, "user", "Hello"), "reply": null},
            {"number": 2, "message": message(2, "user", "And?"), "reply": message(2, "agent", "Bye")},
        ],
        "firings": [firing("a", "env:email", 0), firing("b", "user_agent", 1), firing("a", "env:email", 2)],
        "unavailable": {"replies": "only the last was kept", "firings of env:chat": "nobody looked"},
    });
    let ask = |what: &str| {
        format!(
            "from aebuild import RunRecordUnavailable\ndef verify(url, run):\n    try: value = {what}\n    except \
             (RunRecordUnavailable, AttributeError, LookupError, ValueError) as e: value = f'{{type(e).__name__}}: {{e}}'\n    return [{{'is': value}}]"
        )
    };
    let asked = [
        "[t.message.text for t in run.turns]",
        "run.turn(2).reply.text",
        "run.turn(1).reply",
        "run.turn(3)",
        "[run.turn(1).message.parts, run.turn(1).message.written_by_triggers]",
        "[f.turn for f in run.firings('a', env='email')]",
        "run.firing('b', env='email')",
        "run.firing(env='email').trigger_id",
        "run.firings('b')",
        "run.firings(env='chat')",
        "run.turn(1).firings",
        "[len(run.as_of(1).turns), len(run.as_of(0).turns), len(run.as_of(1).as_of(9).turns)]",
        "[f.turn for f in run.as_of(1).firings(env='email')]",
        "run.as_of(-1)",
        "sorted(run.unavailable)",
        "setattr(run, 'turns', [])",
        "setattr(run.turn(1), 'number', 2)",
        "repr(run)",
    ];
    let codes: Vec<String> = asked.iter().map(|what| ask(what)).collect();
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    let Some(shown) = driven(run, &codes) else {
        return;
    };
    let lines: Vec<String> = asked
        .iter()
        .zip(shown.lines())
        .map(|(what, line)| format!("{what}\n    {}", line.trim_start_matches("0 rows.json: ")))
        .collect();
    expect![[r#"
        [t.message.text for t in run.turns]
            [{"is": ["Hello", "And?"]}]
        run.turn(2).reply.text
            [{"is": "Bye"}]
        run.turn(1).reply
            [{"is": "RunRecordUnavailable: the run has no replies: only the last was kept"}]
        run.turn(3)
            [{"is": "LookupError: the run has no turn 3, only 2 of them from 1"}]
        [run.turn(1).message.parts, run.turn(1).message.written_by_triggers]
            [{"is": [[{"kind": "text"}], ["t"]]}]
        [f.turn for f in run.firings('a', env='email')]
            [{"is": [0, 2]}]
        run.firing('b', env='email')
            [{"is": null}]
        run.firing(env='email').trigger_id
            [{"is": "a"}]
        run.firings('b')
            [{"is": "RunRecordUnavailable: the run has no firings of env:chat: nobody looked"}]
        run.firings(env='chat')
            [{"is": "RunRecordUnavailable: the run has no firings of env:chat: nobody looked"}]
        run.turn(1).firings
            [{"is": "RunRecordUnavailable: the run has no firings of env:chat: nobody looked"}]
        [len(run.as_of(1).turns), len(run.as_of(0).turns), len(run.as_of(1).as_of(9).turns)]
            [{"is": [1, 0, 1]}]
        [f.turn for f in run.as_of(1).firings(env='email')]
            [{"is": [0]}]
        run.as_of(-1)
            [{"is": "ValueError: -1 is no number of a turn"}]
        sorted(run.unavailable)
            [{"is": ["firings of env:chat", "replies"]}]
        setattr(run, 'turns', [])
            [{"is": "AttributeError: a run cannot be changed"}]
        setattr(run.turn(1), 'number', 2)
            [{"is": "FrozenInstanceError: cannot assign to field 'number'"}]
        repr(run)
            [{"is": "Run(2 turns)"}]"#]]
    .assert_eq(&lines.join("\n"));
    let none = driven(
        facts::no_run(),
        &[
            &ask("run.turns"),
            &ask("run.firings()"),
            &ask("run.turn(1)"),
        ],
    );
    expect![[r#"
        0 rows.json: [{"is": "RunRecordUnavailable: the run has no turns: the step names no `prompt_id`"}]
        0 rows.json: [{"is": "RunRecordUnavailable: the run has no firings: the step names no `prompt_id`"}]
        0 rows.json: [{"is": "RunRecordUnavailable: the run has no turns: the step names no `prompt_id`"}]"#]].assert_eq(&none.unwrap_or_default());
}
