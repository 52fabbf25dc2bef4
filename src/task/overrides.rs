//! Per-run changes of a task: seed values, `user_overrides` and the sample number.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DEFAULT_AGENT, DependsOn, StepId, Task};
use crate::json::{Map, Value};

/// The type of steps that prompt an agent.
const PROMPT: &str = "prompt_agent";
/// The types of steps that deploy an agent, and the field that says which.
const DEPLOY: [&str; 2] = ["deploy_agent", "install_agent"];
const AGENT_ID: &str = "a2a_agent_id";
/// What a run says of the agents that are prompted and play no user.
const SOLVER: &str = "solver_agent";
/// What a run says of the models of all agents, and of all users that agents play.
const AGENT_MODEL: &str = "agent_model";
const USER_MODEL: &str = "user_model";
/// The type of steps that ask a judge.
const JUDGED: &str = "rubrics_verifier";
/// What a run may say of all judges, and the field that it stands in.
const JUDGE: [(&str, &str); 6] = [
    ("judge_model", "default_model"),
    ("judge_effort", "effort"),
    ("judge_max_thinking_tokens", "max_thinking_tokens"),
    ("judge_batch_size", "judge_batch_size"),
    ("judge_batch_concurrency", "judge_batch_concurrency"),
    ("use_agent_judge", "use_agent_judge"),
];
/// Whether judges see trajectories through a filter: `false` takes it away, `true` adds one where there is none.
const FILTER: (&str, &str) = ("apply_trajectory_filter", "trajectory_filter");

/// The other keys by which a run may change a task.
const FIXED: [&str; 4] = ["step_params", FILTER.0, AGENT_ID, SOLVER];

/// What one run changes in the tasks it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Seed values: each `<key>` in a string of a step is replaced by its value.
    pub seed: BTreeMap<String, String>,
    /// `metadata.user_overrides`, such as `{"step_params": {"check": {"timeout_seconds": 5}}}`.
    pub user: Map<String, Value>,
    /// The number of the sample, from 0; part of the key of sampled steps only.
    pub sample: u32,
}

impl Overrides {
    /// Returns whether every task stays as it is written.
    pub fn changes_nothing(&self) -> bool {
        let is_wide = |key: &str| JUDGE.iter().any(|(known, _)| *known == key);
        self.seed.is_empty()
            && !self
                .user
                .keys()
                .any(|key| FIXED.contains(&key.as_str()) || is_wide(key))
    }

    /// Returns the fields that `step_params` gives for a step.
    pub fn step_params(&self, step: &StepId) -> Option<&Map<String, Value>> {
        self.user
            .get("step_params")?
            .as_object()?
            .get(step.as_str())?
            .as_object()
    }

    /// Returns the task with seed values and per-run fields applied.
    ///
    /// All seed keys are replaced in one pass: a value that holds `<other>` is data and is not looked at again.
    pub fn apply(&self, task: &Task) -> Task {
        let mut task = task.clone();
        self.set_agents(&mut task);
        for step in task.steps.iter_mut().map(Arc::make_mut) {
            if !self.seed.is_empty() {
                step.id = StepId::new(&self.substitute(step.id.as_str()));
                if let DependsOn::Steps(ids) = &mut step.depends_on {
                    for id in ids {
                        *id = StepId::new(&self.substitute(id.as_str()));
                    }
                }
                if let Some(retry) = &mut step.retry {
                    retry.from = StepId::new(&self.substitute(retry.from.as_str()));
                }
                for value in step.fields.values_mut() {
                    self.substitute_in(value);
                }
            }
            if step.kind == JUDGED {
                self.set_judge(&mut step.fields);
            }
            if let Some(params) = self.step_params(&step.id) {
                for (field, value) in params {
                    step.fields.insert(field.clone(), value.clone());
                }
            }
        }
        task
    }

    /// Returns whether the run names models for whole tasks.
    pub fn names_models(&self) -> bool {
        self.user.contains_key(AGENT_MODEL) || self.user.contains_key(USER_MODEL)
    }

    /// Gives prompts the models that the run names: `agent_model` to those that name none and whose agent asks a model,
    /// `user_model` to those of conversations. What `step_params` says of a step counts more.
    pub fn set_models(&self, task: &mut Task, asks_model: &dyn Fn(&str) -> bool) {
        for step in task.steps.iter_mut().filter(|step| step.kind == PROMPT) {
            let step = Arc::make_mut(step);
            let agent = step.fields.get("agent_name").and_then(Value::as_str);
            let asks = asks_model(agent.unwrap_or(DEFAULT_AGENT));
            let has_model = step
                .fields
                .get("model")
                .is_some_and(|model| !model.is_null());
            if let Some(model) = self.user.get(AGENT_MODEL).filter(|_| asks && !has_model) {
                step.fields.insert("model".to_owned(), model.clone());
            }
            let turns = step.fields.get("max_conversation_turns");
            let talks = turns.and_then(Value::as_u64).is_some_and(|turns| turns > 1);
            let own = self.step_params(&step.id);
            let is_said = own.is_some_and(|params| params.contains_key(USER_MODEL));
            if let Some(model) = self.user.get(USER_MODEL).filter(|_| talks && !is_said) {
                step.fields.insert(USER_MODEL.to_owned(), model.clone());
            }
        }
    }

    /// Sets which agents are deployed: `a2a_agent_id` is for all, `solver_agent` for those that are prompted and play no user.
    fn set_agents(&self, task: &mut Task) {
        let (all, solver) = (self.user.get(AGENT_ID), self.user.get(SOLVER));
        if all.is_none() && solver.is_none() {
            return;
        }
        let solvers = task.solvers();
        for step in task
            .steps
            .iter_mut()
            .filter(|step| DEPLOY.contains(&step.kind.as_str()))
        {
            let step = Arc::make_mut(step);
            let name = text(&step.fields, "agent_name").unwrap_or(DEFAULT_AGENT);
            let of_solver = solver.filter(|_| solvers.iter().any(|solver| solver == name));
            if let Some(id) = of_solver.or(all) {
                step.fields.insert(AGENT_ID.to_owned(), id.clone());
            }
        }
    }

    /// Sets what this run says of all judges.
    fn set_judge(&self, fields: &mut Map<String, Value>) {
        for (key, field) in JUDGE {
            if let Some(value) = self.user.get(key) {
                fields.insert(field.to_owned(), value.clone());
            }
        }
        let (key, field) = FILTER;
        match self.user.get(key) {
            Some(Value::Bool(false)) => {
                fields.remove(field);
            }
            Some(Value::Bool(true)) if fields.get(field).is_none_or(Value::is_null) => {
                fields.insert(field.to_owned(), Value::Object(Map::new()));
            }
            _ => {}
        }
    }

    fn substitute_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if text.contains('<') {
                    *text = self.substitute(text);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.substitute_in(item)),
            Value::Object(members) => {
                members
                    .values_mut()
                    .for_each(|item| self.substitute_in(item));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn substitute(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(open) = rest.find('<') {
            out.push_str(&rest[..open]);
            let after = &rest[open + 1..];
            let found = after
                .find('>')
                .and_then(|close| self.seed.get(&after[..close]).map(|value| (close, value)));
            match found {
                Some((close, value)) => {
                    out.push_str(value);
                    rest = &after[close + 1..];
                }
                None => {
                    out.push('<');
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        out
    }
}

impl Task {
    /// Returns the names of the agents that are prompted and play no user.
    pub fn solvers(&self) -> Vec<String> {
        let prompts = || self.steps.iter().filter(|step| step.kind == PROMPT);
        let users: Vec<&str> = prompts()
            .filter_map(|step| text(&step.fields, "user_agent_name"))
            .collect();
        let names = prompts().map(|step| text(&step.fields, "agent_name").unwrap_or(DEFAULT_AGENT));
        let mut names: Vec<&str> = names.filter(|name| !users.contains(name)).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(str::to_owned).collect()
    }
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::task::StepDecl;

    fn task(fields: Value) -> Task {
        let Value::Object(fields) = fields else {
            panic!("fields are an object")
        };
        let step = StepDecl {
            id: "check".into(),
            kind: "verify_sandbox".to_owned(),
            depends_on: DependsOn::Earlier,
            on_error: None,
            retry: None,
            fields,
        };
        Task {
            name: "t".to_owned(),
            steps: vec![Arc::new(step)],
        }
    }

    #[test]
    fn a_seed_value_that_looks_like_a_placeholder_is_not_replaced_again() {
        let overrides = Overrides {
            seed: [("a", "<b>"), ("b", "x")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            ..Overrides::default()
        };
        let applied = overrides.apply(&task(json!({"cmd": ["<a> <b> <missing> a<b"]})));
        assert_eq!(
            applied.steps[0].fields["cmd"],
            json!(["<b> x <missing> a<b"])
        );
    }

    #[test]
    fn a_run_names_agents_for_those_that_are_prompted_and_play_no_user() {
        let step = |id: &str, kind: &str, fields: Value| {
            Arc::new(StepDecl {
                kind: kind.to_owned(),
                fields: fields.as_object().cloned().unwrap(),
                id: id.into(),
                ..StepDecl::clone(&task(json!({})).steps[0])
            })
        };
        let mut all = task(json!({}));
        all.steps = vec![
            step("a", "deploy_agent", json!({"agent_name": "assistant"})),
            step("b", "deploy_agent", json!({"agent_name": "dana"})),
            step(
                "c",
                "deploy_agent",
                json!({"a2a_agent_id": "judge", "agent_name": "judge"}),
            ),
            step("d", "install_agent", json!({})),
            step(
                "e",
                "prompt_agent",
                json!({"agent_name": "assistant", "user_agent_name": "dana"}),
            ),
            step("f", "prompt_agent", json!({})),
            step("g", "prompt_agent", json!({"agent_name": "dana"})),
        ];
        let ids = |user: Value| {
            let overrides = Overrides {
                user: user.as_object().cloned().unwrap(),
                ..Overrides::default()
            };
            assert!(!overrides.changes_nothing());
            let applied = overrides.apply(&all);
            let ids = applied.steps.iter().take(4);
            let ids = ids.map(|step| text(&step.fields, AGENT_ID).unwrap_or("-").to_owned());
            ids.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids(json!({"solver_agent": "new"})), "new - judge new");
        assert_eq!(ids(json!({"a2a_agent_id": "new"})), "new new new new");
        let both = json!({"a2a_agent_id": "all", "solver_agent": "new"});
        assert_eq!(ids(both), "new all all new");
        let own = json!({"solver_agent": "new", "step_params": {"a": {"a2a_agent_id": "own"}}});
        assert_eq!(ids(own), "own - judge new");
    }

    #[test]
    fn a_run_names_models_for_prompts_that_name_none() {
        let user = json!({
            "agent_model": "large", "user_model": "small",
            "step_params": {"check": {"system_prompt": "x"}},
        });
        let applied = |user: &Value, kind: &str, fields: Value| {
            let overrides = Overrides {
                user: user.as_object().cloned().unwrap(),
                ..Overrides::default()
            };
            assert!(overrides.names_models());
            let mut task = task(fields);
            Arc::make_mut(&mut task.steps[0]).kind = kind.to_owned();
            let mut task = overrides.apply(&task);
            overrides.set_models(&mut task, &|agent| agent == "default-agent");
            let mut fields = task.steps[0].fields.clone();
            fields.remove("system_prompt");
            Value::Object(fields)
        };
        let prompt = |fields| applied(&user, "prompt_agent", fields);
        assert_eq!(prompt(json!({})), json!({"model": "large"}));
        assert_eq!(prompt(json!({"model": "own"})), json!({"model": "own"}));
        let scripted = json!({"agent_name": "scripted"});
        assert_eq!(prompt(scripted.clone()), scripted);
        let talk =
            json!({"agent_name": "scripted", "max_conversation_turns": 2, "user_model": "own"});
        assert_eq!(prompt(talk)["user_model"], "small");
        assert_eq!(applied(&user, "run_code", json!({})), json!({}));
        let said =
            json!({"user_model": "small", "step_params": {"check": {"user_model": "other"}}});
        let talk = json!({"max_conversation_turns": 2});
        assert_eq!(applied(&said, "prompt_agent", talk)["user_model"], "other");
    }

    #[test]
    fn what_a_run_says_of_judges_is_for_steps_with_one_and_counts_less_than_what_it_says_of_a_step()
    {
        let user = json!({
            "judge_model": "large", "judge_effort": "high", "apply_trajectory_filter": true, "user_model": "small",
            "step_params": {"check": {"effort": "low"}},
        });
        let overrides = |user: &Value| Overrides {
            user: user.as_object().cloned().unwrap(),
            ..Overrides::default()
        };
        let applied = |user: &Value, kind: &str, fields: Value| {
            let mut task = task(fields);
            Arc::make_mut(&mut task.steps[0]).kind = kind.to_owned();
            Value::Object(overrides(user).apply(&task).steps[0].fields.clone())
        };
        assert_eq!(
            applied(&user, "rubrics_verifier", json!({"prompt_id": "p"})),
            json!({"prompt_id": "p", "default_model": "large", "effort": "low", "trajectory_filter": {}})
        );
        assert_eq!(
            applied(&user, "verify_sandbox", json!({})),
            json!({"effort": "low"})
        );
        let without = json!({"apply_trajectory_filter": false});
        assert_eq!(
            applied(
                &without,
                "rubrics_verifier",
                json!({"trajectory_filter": {}})
            ),
            json!({})
        );
        assert!(!overrides(&without).changes_nothing());
        assert!(overrides(&json!({"user_model": "small"})).changes_nothing());
    }

    #[test]
    fn step_params_replace_fields_of_the_named_step_only() {
        let user = json!({"step_params": {"check": {"timeout": 5}, "other": {"timeout": 9}}});
        let overrides = Overrides {
            user: user.as_object().cloned().unwrap(),
            ..Overrides::default()
        };
        let applied = overrides.apply(&task(json!({"timeout": 1, "x": 2})));
        assert_eq!(
            Value::Object(applied.steps[0].fields.clone()),
            json!({"timeout": 5, "x": 2})
        );
    }
}
