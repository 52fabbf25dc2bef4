//! The schemas for editors say of each shipped file what aebuild says of it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use aebuild::diagnostic::Source;
use aebuild::json::{self, Value};
use aebuild::session::{agent_schema, config_schema, env_schema, task_schema};
use aebuild::steps;

use crate::support::{World, files, root};

/// Returns the text of each shipped task, with its path.
fn shipped() -> Vec<(String, String)> {
    let all = files("tasks", ".json")
        .into_iter()
        .filter(|file| file.contains("/tasks/") && !file.starts_with("tasks/errors/"));
    all.map(|file| {
        let text = std::fs::read_to_string(root().join(&file)).expect("it is there");
        (file, text)
    })
    .collect()
}

/// Returns the faults of a task by our own validator, which knows no `if`: the type of each step chooses.
fn faults(schema: &Value, name: &str, text: &str) -> Vec<String> {
    let source = Source::new(name, text);
    let parsed = json::parse(&source);
    let steps = parsed.root.expect("it is JSON");
    let mut faults = Vec::new();
    for step in steps.as_array().expect("it is a list") {
        let kind = step.get("type").and_then(json::Node::as_str).unwrap_or("");
        let checks = [
            Some(&schema["definitions"]["step"]),
            schema["definitions"].get(kind),
        ];
        for known in checks.into_iter().flatten() {
            let found = json::schema::check(step, known, &source, "the step");
            faults.extend(found.into_iter().map(|fault| fault.headline));
        }
    }
    faults
}

const WRONG: &str = r#"[{"id": "a", "type": "deploy_sandbox", "sandbox_name": 7, "sandbox_mode": "vm", "typo": 1},
                        {"id": "b", "type": "deploy_sandboxx"}]"#;

#[test]
fn every_shipped_task_fits_the_schema_and_a_wrong_one_does_not() {
    let schema = task_schema(steps::REGISTRY);
    let shipped = shipped();
    assert!(shipped.len() > 15, "{}", shipped.len());
    for (name, text) in &shipped {
        assert_eq!(faults(&schema, name, text), [""; 0], "{name}");
    }
    assert_eq!(
        faults(&schema, "wrong", WRONG),
        [
            "`sandbox_name` of the step is a number, not a string",
            "the step has no field `typo`",
            "`type` of the step can't be `deploy_sandboxx`",
        ]
    );
}

/// Asks Python's jsonschema; `None` where it is not there.
fn python(program: &str, asked: &Value) -> Option<String> {
    let probe = Command::new("python3")
        .args(["-c", "import jsonschema"])
        .output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        return None;
    }
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut input = child.stdin.take().expect("it is piped");
    input
        .write_all(asked.to_string().as_bytes())
        .expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    Some(String::from_utf8(output.stdout).expect("it is UTF-8"))
}

#[test]
fn another_validator_says_the_same() {
    let program = "import json, sys, jsonschema\n\
                   asked = json.load(sys.stdin)\n\
                   validator = jsonschema.Draft7Validator\n\
                   for schema in asked['schemas']:\n    validator.check_schema(schema)\n\
                   check = validator(asked['schemas'][0])\n\
                   for name, text in asked['tasks']:\n\
                   \x20   n = sum(1 for _ in check.iter_errors(json.loads(text)))\n\
                   \x20   print(name, n)\n";
    let schema = task_schema(steps::REGISTRY);
    let mut tasks = shipped();
    let n_shipped = tasks.len();
    tasks.push(("wrong".to_owned(), WRONG.to_owned()));
    tasks.push((
        "commented".to_owned(),
        r#"[{"//": "x", "id": "a", "type": "teardown_sandboxes"}]"#.to_owned(),
    ));
    let asked = json::json!({"schemas": [schema, config_schema()], "tasks": tasks});
    let Some(said) = python(program, &asked) else {
        eprintln!("SKIPPED, since python has no jsonschema: another validator is not asked");
        return;
    };
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), tasks.len(), "{said}");
    for line in &lines[..n_shipped] {
        assert!(line.ends_with(" 0"), "{line}");
    }
    assert_eq!(lines[n_shipped..], ["wrong 3", "commented 0"]);
}

#[test]
fn every_shipped_definition_fits_its_schema_and_a_wrong_one_does_not() {
    let mut asked = Vec::new();
    for file in ["agent.toml", "env.toml"] {
        for name in files("tasks", file) {
            // The examples of errors are wrong on purpose.
            if !name.starts_with("tasks/errors/") {
                let text = std::fs::read_to_string(root().join(&name)).expect("it is there");
                asked.push((file, name, text));
            }
        }
    }
    assert!(asked.len() > 10, "{}", asked.len());
    let wrong = |file, name: &str, text: &str| (file, name.to_owned(), text.to_owned());
    asked.push(wrong(
        "agent.toml",
        "wrong type",
        "type = \"model\"\nrules = []",
    ));
    asked.push(wrong("agent.toml", "wrong value", "id = 7"));
    asked.push(wrong("env.toml", "wrong key", "mcp_server_envs = []"));
    asked.push(wrong("env.toml", "of a plugin", "type = \"mine\"\nany = 1"));
    let schemas = json::json!({"agent.toml": agent_schema(), "env.toml": env_schema()});
    let asked = json::json!({"schemas": schemas, "files": asked});
    let program = "import json, sys, tomllib, jsonschema\n\
                   asked = json.load(sys.stdin)\n\
                   for schema in asked['schemas'].values():\n\
                   \x20   jsonschema.Draft7Validator.check_schema(schema)\n\
                   for file, name, text in asked['files']:\n\
                   \x20   check = jsonschema.Draft7Validator(asked['schemas'][file])\n\
                   \x20   if not check.is_valid(tomllib.loads(text)):\n\
                   \x20       print(name)\n";
    let Some(said) = python(program, &asked) else {
        eprintln!(
            "SKIPPED, since python has no jsonschema: shipped definitions against their schemas"
        );
        return;
    };
    assert_eq!(said, "wrong type\nwrong value\nwrong key\n");
}

/// The official schema of OASIS, as published for SARIF 2.1.0.
const SARIF: &str = include_str!("fixtures/sarif-2.1.0.schema.json");

#[test]
fn the_sarif_log_of_every_example_fits_the_official_schema() {
    let schema: Value = json::from_slice(SARIF.as_bytes()).expect("it is JSON");
    let mut logs = Vec::new();
    for page in files("tasks/errors", "README.md") {
        let folder = root().join(&page).with_file_name("");
        let output =
            World::new().aebuild(&["check", "--format", "sarif", &folder.to_string_lossy()]);
        let text = String::from_utf8(output.stdout).expect("it is UTF-8");
        if output.status.code() == Some(2) && text.is_empty() {
            continue;
        }
        let log: Value = json::from_slice(text.as_bytes()).expect("it is JSON");
        logs.push((page, log));
    }
    assert!(logs.len() > 50, "{}", logs.len());
    let mut bad = logs[0].1.clone();
    bad["runs"][0]["results"][0]["level"] = "hint".into();
    logs.push(("bad".to_owned(), bad));
    let program = "import json, sys, jsonschema\n\
                   asked = json.load(sys.stdin)\n\
                   check = jsonschema.Draft7Validator(asked['schema'])\n\
                   for name, log in asked['logs']:\n\
                   \x20   for error in check.iter_errors(log):\n\
                   \x20       print(name, error.json_path)\n";
    let asked = json::json!({"schema": schema, "logs": logs});
    let Some(said) = python(program, &asked) else {
        eprintln!(
            "SKIPPED, since python has no jsonschema: SARIF logs against the official schema"
        );
        return;
    };
    assert_eq!(said.trim(), "bad $.runs[0].results[0].level");
}

#[test]
fn every_key_of_the_configuration_is_described() {
    let schema = config_schema();
    let described = schema.to_string().matches("\"description\":").count();
    assert_eq!(described, aebuild::task::config::KEYS.len());
    let world = World::new();
    let (said, status) =
        world.shell("aebuild schema aebuild.toml | head -c 1 && aebuild schema aebuild.tml");
    assert_eq!(status, Some(2));
    assert!(said.contains("did you mean `aebuild.toml`?"), "{said}");
}

#[test]
fn every_shipped_task_is_laid_out() {
    for (name, text) in shipped() {
        let source = Source::new(name.as_str(), text);
        let root = json::parse(&source).root.expect("it is JSON");
        let laid_out = json::layout(&source, &root);
        assert!(*source.text == laid_out, "run `aebuild fmt {name}`");
        let again = json::parse(&Source::new(name, laid_out))
            .root
            .expect("it is JSON");
        assert_eq!(again.to_value(), root.to_value());
    }
}
