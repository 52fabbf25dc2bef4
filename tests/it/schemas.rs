//! The schemas for editors say of each shipped file what aebuild says of it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use aebuild::diagnostic::Source;
use aebuild::json::{self, Value};
use aebuild::session::{config_schema, task_schema};
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

#[test]
fn another_validator_says_the_same() {
    let probe = Command::new("python3")
        .args(["-c", "import jsonschema"])
        .output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        eprintln!("python's jsonschema is not there, so no other validator is asked");
        return;
    }
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
    let said = String::from_utf8(output.stdout).expect("it is UTF-8");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), tasks.len(), "{said}");
    for line in &lines[..n_shipped] {
        assert!(line.ends_with(" 0"), "{line}");
    }
    assert_eq!(lines[n_shipped..], ["wrong 3", "commented 0"]);
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
