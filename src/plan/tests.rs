//! Which queries run after which edit.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use expect_test::{Expect, expect};
use salsa::Setter;

use super::*;
use crate::context::Output;
use crate::diagnostic::Source;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{Refusal, Registry, Step, StepCx, StepError, StepType};
use crate::task::folder::TaskFolder;
use crate::task::{OnError, StepId};

#[derive(Debug)]
struct Noop(Map<String, Value>);

impl Step for Noop {
    fn fields(&self) -> Value {
        Value::Object(self.0.clone())
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        Vec::new()
    }

    fn run<'a>(&'a self, _cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(async { Ok(Output::default()) })
    }
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": false})
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    Ok(Box::new(Noop(fields.clone())))
}

static NOOP: StepType = StepType {
    name: "noop",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema,
    build,
    page: "",
    schema: OnceLock::new(),
};

static TYPES: &[&StepType] = &[&NOOP];

struct Fixture {
    db: Database,
    inputs: Vec<TaskInput>,
    setting: SettingInput,
}

fn fixture(texts: &[&str]) -> Fixture {
    let db = Database::new(Registry(TYPES));
    let folder = FolderInput::new(&db, Arc::new(TaskFolder::default()), BTreeMap::new());
    let setting = SettingInput::new(&db, Arc::new(Setting::default()), None);
    let input = |(at, text): (usize, &&str)| {
        TaskInput::new(
            &db,
            format!("t{at}"),
            Source::new(format!("t{at}.json"), *text),
            folder,
        )
    };
    let inputs = texts.iter().enumerate().map(input).collect();
    Fixture {
        db,
        inputs,
        setting,
    }
}

impl Fixture {
    fn edit(&mut self, at: usize, text: &str) {
        let source = Source::new(format!("t{at}.json"), text);
        self.inputs[at].set_source(&mut self.db).to(source);
    }

    fn check(&self, expect: Expect) {
        let ((), executed) = self.db.executed_by(|db| {
            for input in &self.inputs {
                plan(db, *input, self.setting);
            }
        });
        expect.assert_eq(&executed.join(" "));
    }
}

const TWO: &str =
    r#"[{"id": "a", "type": "noop", "text": "1"}, {"id": "b", "type": "noop", "text": "2"}]"#;

#[test]
fn an_edit_of_one_task_file_reads_that_file_alone() {
    let mut fixture = fixture(&[TWO, TWO]);
    fixture.check(expect!["plan task effective parsed graph touches built step built step fingerprint fingerprint plan task effective parsed graph touches built step built step fingerprint fingerprint"]);
    fixture.check(expect![[""]]);
    fixture.edit(1, &TWO.replace("2", "3"));
    fixture.check(expect![
        "parsed effective task plan graph step step built touches fingerprint"
    ]);
}

#[test]
fn an_edit_of_formatting_key_order_or_a_comment_changes_no_task() {
    let mut fixture = fixture(&[TWO]);
    fixture.check(expect![
        "plan task effective parsed graph touches built step built step fingerprint fingerprint"
    ]);
    fixture.edit(
        0,
        r#"[{"type": "noop", "//": "why", "text": "1", "id": "a"},
            {"id": "b", "type": "noop", "text": "2", "version": 7}]"#,
    );
    fixture.check(expect![["parsed effective task"]]);
}

#[test]
fn time_that_goes_on_by_itself_makes_samples_of_what_changes_the_env() {
    let text = r#"[
        {"id": "mail", "type": "deploy_env", "env_id": "mail"},
        {"id": "before", "type": "reset_env", "env_id": "mail"},
        {"id": "clock", "type": "sync_env_clock", "env_id": "mail", "virtual_time": "2026-03-02T09:00:00Z",
         "virtual_seconds_per_real_second": RATE},
        {"id": "beside", "type": "reset_env", "env_id": "mail", "depends_on": ["mail"]},
        {"id": "look", "type": "verify_env_card", "env_id": "mail", "depends_on": ["clock"]},
        {"id": "rules", "type": "register_env_triggers", "env_id": "mail", "triggers": [], "depends_on": ["clock"]}
    ]"#;
    let planned = |rate: &str, envs: Value| {
        let db = Database::new(crate::steps::REGISTRY);
        let folder = FolderInput::new(&db, Arc::new(TaskFolder::default()), BTreeMap::new());
        let mut setting = Setting::default();
        let tables = envs.as_object().unwrap().clone();
        setting.config.envs = tables.into_iter().collect();
        let setting = SettingInput::new(&db, Arc::new(setting), None);
        let source = Source::new("t.json", text.replace("RATE", rate));
        let input = TaskInput::new(&db, "t".to_owned(), source, folder);
        let plan = plan(&db, input, setting);
        let shown =
            |step: &crate::schedule::PlannedStep| format!("{} {:?}\n", step.id, step.determinism);
        plan.steps.iter().map(shown).collect::<String>()
    };
    let real = planned("3600", json!({}));
    expect![[r#"
        mail Pure
        before Pure
        clock Pure
        beside Pure
        look Pure
        rules Sampled
    "#]]
    .assert_eq(&real);
    let event = planned("3600", json!({"mail": {"clock": "event"}}));
    assert_eq!(event, real.replace("Sampled", "Pure"));
    assert_eq!(planned("0", json!({})), event, "a frozen clock is no time");
}

#[test]
fn a_prompt_touches_the_agents_that_triggers_instruct() {
    let text = r#"[
        {"id": "mail", "type": "deploy_env", "env_id": "mail"},
        {"id": "files", "type": "deploy_env", "env_id": "files"},
        {"id": "assistant", "type": "deploy_agent", "agent_name": "assistant", "env_ids": ["mail"]},
        {"id": "dana", "type": "deploy_agent", "agent_name": "dana", "env_ids": ["files"], "role": "dana"},
        {"id": "early", "type": "prompt_agent", "agent_name": "assistant", "prompt": "x"},
        {"id": "rules", "type": "register_env_triggers", "env_id": "mail", "executor_agent_name": "dana", "triggers": []},
        {"id": "late", "type": "prompt_agent", "agent_name": "assistant", "prompt": "x"}
    ]"#;
    let db = Database::new(crate::steps::REGISTRY);
    let folder = FolderInput::new(&db, Arc::new(TaskFolder::default()), BTreeMap::new());
    let setting = SettingInput::new(&db, Arc::new(Setting::default()), None);
    let input = TaskInput::new(&db, "t".to_owned(), Source::new("t.json", text), folder);
    let plan = plan(&db, input, setting);
    let shown = |step: &crate::schedule::PlannedStep| {
        let touches = step
            .touches
            .iter()
            .map(|(resource, touch)| format!("{resource} {touch:?}"));
        format!("{}: {}\n", step.id, touches.collect::<Vec<_>>().join(", "))
    };
    let all: String = plan.steps.iter().map(shown).collect();
    expect![[r#"
        mail: env `mail` Creates
        files: env `files` Creates
        assistant: agent `assistant` Creates
        dana: agent `dana` Creates
        early: agent `assistant` Observes, env `mail` Mutates
        rules: env `mail` Mutates, agent `dana` Observes, env `files` Mutates
        late: agent `assistant` Observes, env `mail` Mutates, agent `dana` Observes, env `files` Mutates
    "#]].assert_eq(&all);
}

/// Returns the plan of a task whose configuration and variables are these.
fn planned(text: &str, change: impl FnOnce(&mut Setting)) -> Arc<crate::schedule::TaskPlan> {
    let db = Database::new(crate::steps::REGISTRY);
    let folder = FolderInput::new(&db, Arc::new(TaskFolder::default()), BTreeMap::new());
    let mut setting = Setting::default();
    change(&mut setting);
    let setting = SettingInput::new(&db, Arc::new(setting), None);
    let input = TaskInput::new(&db, "t".to_owned(), Source::new("t.json", text), folder);
    plan(&db, input, setting).clone()
}

fn tables(value: Value) -> BTreeMap<String, Value> {
    value.as_object().unwrap().clone().into_iter().collect()
}

/// Returns the parts of the key of a step that begin so.
fn parts(plan: &crate::schedule::TaskPlan, step: &str, start: &str) -> String {
    let step = plan.steps.iter().find(|one| one.id.as_str() == step);
    let parts = step.unwrap().key.manifest.parts.iter();
    let shown = parts.filter(|part| part.name.starts_with(start));
    let shown = shown.map(|part| format!("{}={}", part.name, part.shown));
    shown.collect::<Vec<_>>().join(", ")
}

#[test]
fn what_is_passed_on_to_sandboxes_is_in_the_key_of_prompts_whose_agent_has_one() {
    let text = r#"[
        {"id": "program", "type": "deploy_agent", "agent_name": "program"},
        {"id": "script", "type": "deploy_agent", "agent_name": "script"},
        {"id": "far", "type": "deploy_agent", "agent_name": "far"},
        {"id": "asks_program", "type": "prompt_agent", "agent_name": "program", "prompt": "x"},
        {"id": "asks_script", "type": "prompt_agent", "agent_name": "script", "prompt": "x"},
        {"id": "asks_far", "type": "prompt_agent", "agent_name": "far", "prompt": "x"},
        {"id": "looks", "type": "verify_sandbox", "agent_name": "script",
         "criteria": [{"type": "command_succeeds", "argv": ["true"]}]}
    ]"#;
    let plan = planned(text, |setting| {
        setting.config.sandbox.pass_variables = vec!["WHO".to_owned()];
        setting.config.agents = tables(json!({
            "program": {"type": "command", "command": ["say"]},
            "script": {"type": "scripted"},
            "far": {"type": "a2a", "url": "http://127.0.0.1:1"},
        }));
        let who = ("WHO".to_owned(), Some("dana".to_owned()));
        setting.variables = [who].into();
    });
    let passed = |step: &str| !parts(&plan, step, "variable `WHO`").is_empty();
    assert!(passed("asks_program"));
    assert!(passed("looks"));
    assert!(!passed("asks_script"));
    assert!(!passed("asks_far"));
}

#[test]
fn where_a_model_without_a_table_is_asked_is_in_the_keys_of_who_asks_it() {
    let text = r#"[
        {"id": "bot", "type": "deploy_agent", "agent_name": "bot"},
        {"id": "asks", "type": "prompt_agent", "agent_name": "bot", "prompt": "x", "model": "m-2"}
    ]"#;
    let keys = |base_url: &str, key: &str| {
        let plan = planned(text, |setting| {
            setting.config.agents = tables(json!({"bot": {"type": "model", "model": "m-1"}}));
            let set = [("OPENAI_BASE_URL", base_url), ("OPENAI_API_KEY", key)];
            let set = set.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
            setting.variables = set.into();
        });
        let bot = parts(&plan, "bot", "model `m-1`");
        [bot, parts(&plan, "asks", "model `m-2`")].join("\n")
    };
    expect![[r#"
        model `m-1` of agent `bot`={"api":"openai","base_url":"http://one/v1","max_output_tokens":null,"model":"m-1"}
        model `m-2`={"api":"openai","base_url":"http://one/v1","max_output_tokens":null,"model":"m-2"}"#]].assert_eq(&keys("http://one/v1", "k1"));
    assert_eq!(keys("http://one/v1", "k1"), keys("http://one/v1", "k2"));
    assert_ne!(keys("http://one/v1", "k1"), keys("http://two/v1", "k1"));
}

#[test]
fn the_description_of_an_agent_is_part_of_it_where_another_may_ask_it() {
    let text = r#"[
        {"id": "a", "type": "deploy_agent", "agent_name": "a", "agent_description": "asks"},
        {"id": "b", "type": "deploy_agent", "agent_name": "b", "agent_description": "answers"},
        {"id": "peers", "type": "peer_agents", "peerings": [{"source_agent_name": "a", "peer_agent_names": ["b"]}]}
    ]"#;
    let plan = planned(text, |setting| {
        let agent = json!({"type": "scripted"});
        setting.config.agents = tables(json!({"a": agent, "b": agent}));
    });
    assert_eq!(parts(&plan, "a", "description"), "");
    assert_eq!(
        parts(&plan, "b", "description"),
        "description of agent `b`=answers"
    );
}

#[test]
fn the_python_of_this_machine_is_part_of_an_agent_that_is_a_program_in_it() {
    let text = r#"[{"id": "a", "type": "deploy_agent", "agent_name": "a"},
                   {"id": "b", "type": "deploy_agent", "agent_name": "b"}]"#;
    let plan = planned(text, |setting| {
        setting.config.agents = tables(json!({
            "a": {"type": "a2a", "command": ["python3", "agent.py"]},
            "b": {"type": "command", "command": ["say"]},
        }));
        setting.tools = [(alone("python3"), "Python 3.1".to_owned())].into();
    });
    assert_eq!(
        parts(&plan, "a", "python3"),
        "python3 of agent `a`=Python 3.1"
    );
    assert_eq!(parts(&plan, "b", "python3"), "");
}
