#![expect(
    clippy::disallowed_methods,
    reason = "tests set up the world that the program sees"
)]

use super::*;
use crate::steps::testing::{FakeSandbox, FakeServices, build_step, exited, refused, run, show};
use expect_test::expect;

/// A sandbox in which `python3` leaves these files and ends like this.
fn python(
    how: How,
    stderr: &'static str,
    leaves: &'static [(&'static str, &'static str)],
) -> FakeSandbox {
    FakeSandbox::new("box").at("/tmp").leaving(move |exec| {
        let crate::step::sandbox::Program::Argv(argv) = &exec.program else {
            panic!("run_code uses no shell")
        };
        assert_eq!(argv[..2], ["python3", "-s"]);
        let files = leaves
            .iter()
            .map(|(name, text)| (format!("{}/{name}", argv[3]), (*text).to_owned()));
        (exited(how, "said", stderr), files.collect())
    })
}

fn world(sandbox: FakeSandbox) -> FakeServices {
    FakeServices::new()
        .with(sandbox)
        .artifact(
            "total",
            ArtifactKind::File,
            &[("total.py", "def run(i): ...", false)],
        )
        .artifact(
            "many",
            ArtifactKind::FileUniverse,
            &[
                ("a/run.py", "", false),
                ("b.py", "", false),
                ("data.csv", "", false),
            ],
        )
        .artifact(
            "two",
            ArtifactKind::FileUniverse,
            &[("a.py", "", false), ("b.py", "", false)],
        )
        .metadata(&["script_results", "before"], json!([1]))
}

fn fields(artifact: &str) -> Value {
    json!({"sandbox_name": "box", "script_artifact_id": artifact, "args": {"n": 1}, "timeout_seconds": 7})
}

fn go(sandbox: FakeSandbox, fields: Value) -> String {
    let world = world(sandbox);
    match run(&*build_step(&TYPE, "r0", fields), "r0", &world) {
        Ok(output) => show(&output),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_the_function_returns_is_the_result() {
    let sandbox = python(How::Code(0), "", &[("output.json", r#"{"total": 6}"#)]);
    expect![[r#"
        metadata.script_results.r0 = {"total":6}
    "#]]
    .assert_eq(&go(sandbox, fields("total")));
}

#[test]
fn the_function_gets_its_args_and_the_results_before_it() {
    let world = world(python(How::Code(0), "", &[("output.json", "1")]));
    run(&*build_step(&TYPE, "r0", fields("many")), "r0", &world).unwrap();
    let files = world.get("box").files();
    let line = |name: &str| {
        files
            .lines()
            .find(|line| line.contains(name))
            .unwrap()
            .to_owned()
    };
    assert!(
        line("/input.json").ends_with(r#"644 "{\"args\":{\"n\":1},\"results\":{\"before\":[1]}}""#)
    );
    assert!(line("/code/a/run.py").starts_with("/tmp/run_code-"));
    assert!(!files.contains("data.csv"), "only `.py` files are staged");
    assert_eq!(
        world.looked_up(),
        "sandbox `box`, metadata `script_results`"
    );
}

#[test]
fn code_that_fails_fails_the_step_with_the_end_of_its_errors() {
    let cases = [
        go(
            python(How::Code(1), "Traceback\nValueError: no\n", &[]),
            fields("total"),
        ),
        go(python(How::TimedOut, "", &[]), fields("total")),
        go(python(How::Signal(9), "", &[]), fields("total")),
        go(python(How::Code(0), "", &[]), fields("total")),
        go(
            python(How::Code(0), "", &[("output.json", "NaN")]),
            fields("total"),
        ),
        go(
            python(
                How::Code(0),
                "",
                &[("fault.txt", "the result is no JSON: set")],
            ),
            fields("total"),
        ),
        go(python(How::Code(0), "", &[]), fields("two")),
        go(python(How::Code(0), "", &[]), fields("none")),
    ];
    expect![[r#"
        RunCodeExecutionError: run_code `r0`: exited 1: Traceback
        ValueError: no
        RunCodeExecutionError: run_code `r0`: stopped after 7 s: 
        RunCodeExecutionError: run_code `r0`: killed by signal 9: 
        RunCodeValidationError: run_code `r0`: the code ended the program, so there is no result
        RunCodeValidationError: run_code `r0`: the result is no JSON: expected value at line 1 column 1
        RunCodeValidationError: run_code `r0`: the result is no JSON: set
        RunCodeValidationError: run_code `r0`: artifact `two` has 2 `.py` files, and none of them is named `run.py`; name one in `script_file`
        RunCodeValidationError: run_code `r0`: there is no artifact `none`"#]]
    .assert_eq(&cases.join("\n"));
}

/// Runs the runner on code, and returns what it leaves; `None` on a machine without `python3`.
fn python3(code: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("code")).unwrap();
    std::fs::write(at("code/total.py"), code).unwrap();
    std::fs::write(at("code/more.py"), "ONE = 1\n").unwrap();
    std::fs::write(at("runner.py"), RUNNER).unwrap();
    std::fs::write(
        at("input.json"),
        r#"{"args": {"n": 2}, "results": {"before": [3]}}"#,
    )
    .unwrap();
    std::fs::write(at("output.json"), "of an earlier attempt").unwrap();
    let ended = std::process::Command::new("python3")
        .arg("-s")
        .arg(at("runner.py"))
        .arg(folder.path())
        .args(["total.py", "run"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .ok()?;
    let left = ["output.json", "fault.txt"].into_iter().find_map(|name| {
        Some(format!(
            "{name}: {}",
            std::fs::read_to_string(at(name)).ok()?
        ))
    });
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    let last = stderr.lines().last().unwrap_or_default();
    Some(format!(
        "{} {} {last}",
        ended.status.code()?,
        left.unwrap_or_default()
    ))
}

#[test]
fn the_runner_leaves_a_result_or_says_what_is_wrong() {
    let codes = [
        "import more\ndef run(i):\n    return {'sum': i['args']['n'] + i['results']['before'][0] + more.ONE}",
        "def run(i): return float('nan')",
        "def run(i): return {1, 2}",
        "def main(i): pass",
        "def run(i): raise ValueError('no')",
        "import sys\ndef run(i): sys.exit(0)",
        "def run(i): return None",
    ];
    let Some(texts) = codes
        .iter()
        .map(|code| python3(code))
        .collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let texts: Vec<&str> = texts.iter().map(|text| text.trim_end()).collect();
    expect![[r#"
        0 output.json: {"sum": 6}
        0 fault.txt: the result is no JSON: Out of range float values are not JSON compliant
        0 fault.txt: the result is no JSON: Object of type set is not JSON serializable
        0 fault.txt: total.py has no function `run`
        1  ValueError: no
        0
        0 output.json: null"#]]
    .assert_eq(&texts.join("\n").replace("compliant: nan", "compliant"));
}

#[test]
fn code_without_a_sandbox_is_refused() {
    expect![[r#"
        not-supported-yet /env_id: env `email` has no files that a step could reach in this release (name a sandbox with `sandbox_name` or an agent with `agent_name`)
        not-python /script_file: `run.sh` is no `.py` file (name the `.py` file of the artifact in which the function is)
        missing-field : the step does not say which sandbox it runs code in (add "sandbox_name": ".." with the name that a `deploy_sandbox` step gives it, or `agent_name`)
    "#]]
    .assert_eq(
        &(refused(&TYPE, json!({"script_artifact_id": "a", "env_id": "email", "script_file": "run.sh"}))
            + &refused(&TYPE, json!({"script_artifact_id": "a", "sandbox_name": " ", "agent_name": ""}))),
    );
}
