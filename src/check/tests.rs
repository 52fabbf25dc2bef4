//! Whole task folders, checked as a command would: read, parsed, built and judged.

mod order;
mod original;

use std::path::Path;

use expect_test::{Expect, expect};

use super::*;
use crate::context::{Lookup, Output};
use crate::diagnostic::Source;
use crate::diagnostic::concise::concise;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{ArtifactKind, ArtifactRef, NameRef, StepCx, StepError};
use crate::system::MemorySystem;
use crate::task::folder;
use crate::task::parse::{self, StepTypes};

/// Step types that stand in for the real ones: what they touch and name, without what they do.
struct Types(Map<String, Value>);

impl Types {
    fn new() -> Self {
        let text = json!({"type": "string"});
        let texts = json!({"type": "array", "items": {"type": "string"}});
        let mode = json!({"type": "string", "enum": ["container", "vm"]});
        let version = json!({"type": ["integer", "null"]});
        let object = |properties: Value, required: &[&str]| {
            json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            })
        };
        let criteria = json!({"type": "array", "items": {"type": "object"}});
        let types = [
            (
                "deploy_sandbox",
                object(
                    json!({"sandbox_name": text, "sandbox_mode": mode, "ttl_seconds": {"type": "integer"}}),
                    &["sandbox_name", "sandbox_mode"],
                ),
            ),
            (
                "load_artifact",
                object(
                    json!({"artifact_id": text, "artifact_version": version, "sandbox_name": text, "destination_path": text}),
                    &["artifact_id", "sandbox_name"],
                ),
            ),
            (
                "run_code",
                object(
                    json!({"script_artifact_id": text, "sandbox_name": text}),
                    &["script_artifact_id", "sandbox_name"],
                ),
            ),
            (
                "verify_sandbox",
                object(
                    json!({"sandbox_name": text, "criteria": criteria, "verifier_id": text}),
                    &["sandbox_name", "criteria"],
                ),
            ),
            (
                "aggregate_verifiers",
                object(json!({"verifier_ids": texts}), &["verifier_ids"]),
            ),
            (
                "teardown_sandboxes",
                object(json!({"sandbox_names": texts}), &["sandbox_names"]),
            ),
        ];
        Types(
            types
                .into_iter()
                .map(|(name, schema)| (name.to_owned(), schema))
                .collect(),
        )
    }
}

impl StepTypes for Types {
    fn schema(&self, kind: &str) -> Option<&Value> {
        self.0.get(kind)
    }

    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

#[derive(Debug)]
struct Toy {
    id: String,
    kind: String,
    fields: Map<String, Value>,
}

impl Toy {
    fn text(&self, key: &str) -> Option<String> {
        Some(self.fields.get(key)?.as_str()?.to_owned())
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let items = self
            .fields
            .get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        items
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    }
}

impl Step for Toy {
    fn fields(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        let touch = match self.kind.as_str() {
            "deploy_sandbox" => Touch::Creates,
            "load_artifact" | "run_code" => Touch::Mutates,
            "verify_sandbox" => Touch::MayMutate,
            "teardown_sandboxes" => Touch::Retires,
            _ => return Vec::new(),
        };
        let names = self
            .text("sandbox_name")
            .into_iter()
            .chain(self.texts("sandbox_names"));
        names
            .map(|name| (ResourceId::sandbox(&name), touch))
            .collect()
    }

    fn artifacts(&self) -> Vec<ArtifactRef> {
        let reference = |key: &str, wants| {
            let name = self.text(key)?;
            let has_version = self
                .fields
                .get("artifact_version")
                .is_some_and(|version| !version.is_null());
            Some(ArtifactRef {
                field: format!("/{key}"),
                name,
                wants,
                has_version,
            })
        };
        const SCRIPTS: &[ArtifactKind] = &[ArtifactKind::File, ArtifactKind::FileUniverse];
        let found = [
            reference("artifact_id", &[]),
            reference("script_artifact_id", SCRIPTS),
        ];
        found.into_iter().flatten().collect()
    }

    fn reads(&self) -> Vec<NameRef> {
        if self.kind == "deploy_sandbox" {
            return Vec::new();
        }
        let sandbox = self.text("sandbox_name").map(|name| NameRef {
            field: "/sandbox_name".to_owned(),
            lookup: Lookup::Sandbox(name),
        });
        let several = self
            .texts("sandbox_names")
            .into_iter()
            .enumerate()
            .map(|(at, name)| NameRef {
                field: format!("/sandbox_names/{at}"),
                lookup: Lookup::Sandbox(name),
            });
        let verified = self
            .texts("verifier_ids")
            .into_iter()
            .enumerate()
            .map(|(at, id)| NameRef {
                field: format!("/verifier_ids/{at}"),
                lookup: Lookup::verification(&id),
            });
        sandbox.into_iter().chain(several).chain(verified).collect()
    }

    fn provides(&self) -> Vec<NameRef> {
        match self.kind.as_str() {
            "deploy_sandbox" => {
                let name = self.text("sandbox_name").unwrap_or_default();
                vec![NameRef {
                    field: "/sandbox_name".to_owned(),
                    lookup: Lookup::Sandbox(name),
                }]
            }
            "verify_sandbox" => {
                let id = self.text("verifier_id").unwrap_or_else(|| self.id.clone());
                vec![NameRef {
                    field: "/verifier_id".to_owned(),
                    lookup: Lookup::verification(&id),
                }]
            }
            _ => Vec::new(),
        }
    }

    fn run<'a>(&'a self, _: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        unreachable!("bug: a check runs no step")
    }
}

fn judge(files: &[(&str, &str)]) -> Vec<Diagnostic> {
    let system = MemorySystem::new();
    for (path, text) in files {
        system.write(Path::new("/w/f").join(path), text);
    }
    let (folder, mut faults) = folder::read(&system, Path::new("/w/f"), "");
    let types = Types::new();
    for task in &folder.tasks {
        let (source, broken) = folder::read_source(&system, &task.path, &task.shown).unwrap();
        faults.extend(broken);
        let parsed = parse::parse(&task.name, &source, &types);
        let (task, places) = (parsed.task, parsed.places);
        faults.extend(parsed.faults);
        let steps: Vec<Option<std::sync::Arc<dyn Step>>> =
            task.steps.iter().map(|step| build(step, &types)).collect();
        let graph = StepGraph::of(&task);
        let is_partial: Vec<bool> = steps.iter().map(Option::is_none).collect();
        let touches: Vec<_> = steps
            .iter()
            .map(|step| step.as_ref().map_or_else(Vec::new, |step| step.touches()))
            .collect();
        let checked = Checked {
            task: &task,
            places: &places,
            graph: &graph,
            steps: &steps,
            is_partial: &is_partial,
            touches: &touches,
            has_errors: faults.iter().any(Diagnostic::is_error),
            folder: &folder,
            config: &Default::default(),
            config_written: None,
            env_tools: &Default::default(),
        };
        faults.extend(super::check(&checked));
    }
    crate::diagnostic::sort(&mut faults);
    faults
}

fn build(step: &crate::task::StepDecl, types: &Types) -> Option<std::sync::Arc<dyn Step>> {
    let required = types.schema(&step.kind)?.get("required")?.as_array()?;
    let is_whole = required.iter().all(|name| {
        name.as_str()
            .is_some_and(|name| step.fields.contains_key(name))
    });
    let (id, kind, fields) = (step.id.to_string(), step.kind.clone(), step.fields.clone());
    is_whole.then(|| std::sync::Arc::new(Toy { id, kind, fields }) as std::sync::Arc<dyn Step>)
}

fn shown(faults: &[Diagnostic]) -> String {
    let mut out = String::new();
    for fault in faults {
        out.push_str(&concise(std::slice::from_ref(fault)));
        for label in fault.labels.iter().filter(|label| !label.text.is_empty()) {
            out.push_str(&format!(
                "    {}: {}\n",
                label.source.slice(label.span),
                label.text
            ));
        }
        if let Some(help) = &fault.help {
            out.push_str(&format!("    help: {help}\n"));
        }
    }
    out
}

/// Checks a task made of these steps, in a folder with the artifacts `greeting`, `Data` and `image`.
fn check(steps: &str, expected: Expect) {
    let faults = judge(&[
        ("tasks/t.json", &format!("[\n{steps}\n]")),
        ("artifacts/greeting/hello.txt", "hi"),
        ("artifacts/Data/a", ""),
        ("artifacts/Data/b", ""),
        ("artifacts/\u{e9}/a", ""),
        ("artifacts/image/Dockerfile", ""),
        ("notes.txt", ""),
    ]);
    expected.assert_eq(&shown(&faults));
}

const BOX: &str =
    r#"{"id": "box", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vm"}"#;

#[test]
fn a_good_task_has_no_fault() {
    check(
        &format!(
            r#"{BOX},
{{"id": "load", "type": "load_artifact", "artifact_id": "greeting", "sandbox_name": "b"}},
{{"id": "one", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": ["load"]}},
{{"id": "two", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": ["load"], "verifier_id": "v"}},
{{"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["one", "v"]}},
{{"id": "end", "type": "teardown_sandboxes", "sandbox_names": ["b"]}}"#
        ),
        expect![[""]],
    );
}

#[test]
fn a_name_is_made_by_a_step_that_is_waited_for() {
    check(
        &format!(
            r#"{BOX},
{{"id": "check", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": []}},
{{"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["check", "late", "chek"], "depends_on": ["box"]}},
{{"id": "late", "type": "verify_sandbox", "sandbox_name": "bx", "criteria": []}},
{{"id": "far", "type": "verify_sandbox", "sandbox_name": "zzzzz", "criteria": []}}"#
        ),
        expect![[r#"
            tasks/t.json:3:59: error[no-path-to-producer]: step `check` reads sandbox `b`, but depends on nothing that makes it
                "b": made here
                "b": read here
                help: add {"task_step_id": "box"} to the `depends_on` of `check`
            tasks/t.json:4:63: error[no-path-to-producer]: step `sum` reads verification `check`, but depends on nothing that makes it
                "verify_sandbox": made here
                "check": read here
                help: add {"task_step_id": "check"} to the `depends_on` of `sum`
            tasks/t.json:4:72: error[no-path-to-producer]: step `sum` reads verification `late`, but depends on nothing that makes it
                "verify_sandbox": made here
                "late": read here
                help: move step `late` before step `sum`, and add {"task_step_id": "late"} to the `depends_on` of `sum`
            tasks/t.json:4:80: error[unknown-name]: step `sum` reads verification `chek`, which no step makes
                "chek": read here
                help: did you mean `check`?
            tasks/t.json:5:58: error[unknown-name]: step `late` reads sandbox `bx`, which no step makes
                "bx": read here
                help: did you mean `b`?
            tasks/t.json:6:57: error[unknown-name]: step `far` reads sandbox `zzzzz`, which no step makes
                "zzzzz": read here
                help: the names of this kind are `b`
        "#]],
    );
}

#[test]
fn a_name_that_a_step_with_faults_may_make_is_not_called_unknown() {
    check(
        r#"{"id": "box", "type": "deploy_sandbx", "sandbox_name": "b"},
{"id": "check", "type": "verify_sandbox", "sandbox_name": "b", "criteria": []},
{"id": "seeded", "type": "verify_sandbox", "sandbox_name": "box-<who>", "criteria": []}"#,
        expect![[r#"
            tasks/t.json:2:23: error[unknown-type]: `deploy_sandbx`, the type of step `box`, is not a known type
                "deploy_sandbx": not a known type
                help: did you mean `deploy_sandbox`?
        "#]],
    );
}

#[test]
fn a_name_is_made_once() {
    check(
        &format!(
            r#"{BOX},
{{"id": "end", "type": "teardown_sandboxes", "sandbox_names": ["b"]}},
{{"id": "again", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vm"}},
{{"id": "one", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "verifier_id": "two"}},
{{"id": "two", "type": "verify_sandbox", "sandbox_name": "b", "criteria": []}}"#
        ),
        expect![[r#"
            tasks/t.json:4:59: error[made-twice]: steps `box` and `again` both make sandbox `b`
                "b": first made here
                "b": and again here
                help: give one of them another name
            tasks/t.json:5:8: error[used-after-teardown]: step `one` uses sandbox `b`, which `end` has ended before it
                "end": ends it
                "one": uses it afterwards
                help: move step `end` behind step `one`, or delete it: what a task made is ended in any case
            tasks/t.json:6:23: error[made-twice]: steps `one` and `two` both make verification `two`
                "two": first made here
                "verify_sandbox": and again here
                help: give one of them another name
        "#]],
    );
}

#[test]
fn artifacts_are_in_the_folder_and_fit() {
    check(
        &format!(
            r#"{BOX},
{{"id": "a", "type": "load_artifact", "artifact_id": "greting", "sandbox_name": "b"}},
{{"id": "b", "type": "load_artifact", "artifact_id": "data", "sandbox_name": "b"}},
{{"id": "c", "type": "load_artifact", "artifact_id": "e{}", "sandbox_name": "b"}},
{{"id": "d", "type": "load_artifact", "artifact_id": "notes.txt", "sandbox_name": "b"}},
{{"id": "e", "type": "load_artifact", "artifact_id": "@local/f/greeting", "sandbox_name": "b", "artifact_version": 3}},
{{"id": "f", "type": "run_code", "script_artifact_id": "image", "sandbox_name": "b"}},
{{"id": "g", "type": "load_artifact", "artifact_id": "<which>", "sandbox_name": "b"}},
{{"id": "h", "type": "load_artifact", "artifact_id": "zzzzz", "sandbox_name": "b"}}"#,
            '\u{301}'
        ),
        expect![[r#"
            tasks/t.json:3:53: error[unknown-artifact]: step `a` uses artifact `greting`, which is not in the task folder
                "greting": no artifact has this name
                help: did you mean `greeting`?
            tasks/t.json:4:53: error[unknown-artifact]: step `b` uses artifact `data`, which is not in the task folder
                "data": names are case-sensitive
                help: did you mean `Data`?
            tasks/t.json:5:53: error[unknown-artifact]: step `c` uses artifact `é`, which is not in the task folder
                "é": no artifact has this name in this Unicode form
                help: write the name as the folder is written: `é`
            tasks/t.json:6:53: error[unknown-artifact]: step `d` uses artifact `notes.txt`, which is not in the task folder
                "notes.txt": this file is in no artifact
                help: move notes.txt to artifacts/notes/
            tasks/t.json:7:115: error[pinned-artifact]: step `e` pins a version of artifact `greeting`, but an artifact of the folder has none
                3: pinned here
                help: delete the version
            tasks/t.json:8:55: error[wrong-artifact-kind]: step `f` needs an artifact of type file or file_artifact_universe, but `image` is of type docker_image
                "image": of type docker_image
                help: name another artifact, or set `type` in artifacts/image/artifact.toml
            tasks/t.json:10:53: error[unknown-artifact]: step `h` uses artifact `zzzzz`, which is not in the task folder
                "zzzzz": no artifact has this name
                help: the artifacts are `Data`, `greeting`, `image`, `é`
        "#]],
    );
}

#[test]
fn a_fault_of_an_artifact_matters_to_who_uses_it() {
    let files = [("artifacts/a/\u{e9}", ""), ("artifacts/a/e\u{301}", "")];
    let with = |task: &str| {
        let task = format!("[{BOX}, {task}]");
        shown(&judge(
            &[&[("tasks/t.json", task.as_str())][..], &files].concat(),
        ))
    };
    let unused = r#"{"id": "v", "type": "verify_sandbox", "sandbox_name": "b", "criteria": []}"#;
    assert_eq!(with(unused), "");
    let used = r#"{"id": "l", "type": "load_artifact", "artifact_id": "a", "sandbox_name": "b"}"#;
    expect![[r#"
        error[names-collide]: two files of `artifacts/a` have the path `é`, written in two Unicode forms
            help: rename one of them
    "#]].assert_eq(&with(used));
}

#[test]
fn a_retry_goes_back_to_what_it_waits_for() {
    check(
        &format!(
            r#"{BOX},
{{"id": "side", "type": "aggregate_verifiers", "verifier_ids": []}},
{{"id": "c", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": ["box"],
  "retry_config": {{"retry_from_step_id": "side"}}}},
{{"id": "d", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": ["box"],
  "retry_config": {{"retry_from_step_id": "e"}}}},
{{"id": "e", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": ["box"],
  "retry_config": {{"retry_from_step_id": "e"}}}}"#
        ),
        expect![[r#"
            tasks/t.json:5:42: error[retry-target-not-an-ancestor]: the retry of step `c` goes back to `side`, which it does not depend on
                "side": not among what it waits for
                help: add {"task_step_id": "side"} to the `depends_on` of `c`, or name a step that it depends on
            tasks/t.json:7:42: error[retry-target-not-an-ancestor]: the retry of step `d` goes back to `e`, which comes after it
                "e": not among what it waits for
                help: name the step itself, or a step that it depends on
        "#]],
    );
}

#[test]
fn a_retry_that_would_be_refused_is_foreseen() {
    check(
        &format!(
            r#"{BOX},
{{"id": "side", "type": "load_artifact", "artifact_id": "greeting", "sandbox_name": "b", "depends_on": ["box"]}},
{{"id": "load", "type": "load_artifact", "artifact_id": "Data", "sandbox_name": "b", "depends_on": ["box"]}},
{{"id": "check", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": ["load", "side"],
  "retry_config": {{"retry_from_step_id": "load"}}}}"#
        ),
        expect![[r#"
            tasks/t.json:4:8: hint[unordered-changes]: steps `side` and `load` both change sandbox `b` and do not wait for each other, so they are kept and run again as one
                "side": changes it
                "load": changes it as well
                help: add {"task_step_id": "side"} to the `depends_on` of `load`
            tasks/t.json:6:19: warning[retry-span-conflict]: a retry of step `check` would be refused: step `side` may change sandbox `b` while `load` does
                {"retry_from_step_id": "load"}: would roll `load` back
                "side": changes it too, and is not rolled back
                help: add {"task_step_id": "side"} to the `depends_on` of `load`
        "#]],
    );
}

#[test]
fn who_reads_is_ordered_with_who_changes() {
    check(
        &format!(
            r#"{BOX},
{{"id": "load", "type": "load_artifact", "artifact_id": "greeting", "sandbox_name": "b", "depends_on": ["box"]}},
{{"id": "check", "type": "verify_sandbox", "sandbox_name": "b", "criteria": [], "depends_on": ["box"]}},
{{"id": "end", "type": "teardown_sandboxes", "sandbox_names": ["b"], "depends_on": ["load"]}}"#
        ),
        expect![[r#"
            tasks/t.json:4:8: warning[unordered-observer]: step `check` reads sandbox `b` while step `load` may be changing it
                "load": changes it
                "check": reads it, in no order with the change
                help: add {"task_step_id": "load"} to the `depends_on` of `check`
        "#]],
    );
}

#[test]
fn refusals_stand_at_the_field_at_fault() {
    let source = Source::new(
        "t.json",
        r#"[{"id": "a", "type": "verify_sandbox", "criteria": [{"x": 1}]}]"#,
    );
    let parsed = parse::parse("t", &source, &Types::new());
    let refused = vec![
        Refusal::new("empty-command", "/criteria/0/x", "a command is empty").help("write one"),
        Refusal::new("no-criteria", "/nothing", "there are no criteria"),
        Refusal::new("no-criteria", "", "there are no criteria"),
    ];
    let found = refusals(&parsed.places, StepIx(0), refused);
    let places: Vec<&str> = found
        .iter()
        .map(|fault| source.slice(fault.labels[0].span))
        .collect();
    assert_eq!(places, ["1", "\"verify_sandbox\"", "\"verify_sandbox\""]);
}

#[test]
fn a_large_task_is_judged_in_linear_time() {
    let mut steps = vec![BOX.to_owned()];
    for at in 0..20_000 {
        let (kind, more) = match at % 2 {
            0 => (
                "load_artifact",
                r#""artifact_id": "a", "depends_on": ["box"]"#,
            ),
            _ => ("verify_sandbox", r#""criteria": [], "depends_on": ["box"]"#),
        };
        let retry = r#""retry_config": {"retry_from_step_id": "box"}"#;
        steps.push(format!(
            r#"{{"id": "s{at}", "type": "{kind}", "sandbox_name": "b", {more}, {retry}}}"#
        ));
    }
    let text = format!("[{}]", steps.join(","));
    let faults = judge(&[("tasks/t.json", &text), ("artifacts/a/x", "")]);
    assert_eq!(
        faults.len(),
        52,
        "the unordered observers, counted beyond fifty, and the changes that count as one"
    );
}

#[test]
fn a_name_that_cannot_be_read_brings_no_unknown_names() {
    let task = r#"[
  {"id": "box", "type": "deploy_sandbox", "sandbox_name": "b\u{fffd}", "sandbox_mode": "vm"},
  {"id": "tub", "type": "deploy_sandbox", "sandbox_name": "tub", "sandbox_mode": "vm"},
  {"id": "v", "type": "verify_sandbox", "sandbox_name": "b", "criteria": []},
  {"id": "w", "type": "verify_sandbox", "sandbox_name": "tubb", "criteria": []}
]"#;
    let faults = judge(&[("tasks/t.json", &task.replace("\\u{fffd}", "\u{fffd}"))]);
    let unknown = faults
        .iter()
        .filter(|fault| fault.code.as_str() == "unknown-name");
    let told: Vec<&str> = unknown.map(|fault| fault.headline.as_str()).collect();
    assert_eq!(told, ["step `w` reads sandbox `tubb`, which no step makes"]);
}
