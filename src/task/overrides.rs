//! Per-run changes of a task: seed values, `user_overrides` and the sample number.

use std::collections::BTreeMap;

use super::{DependsOn, StepId, Task};
use crate::json::{Map, Value};

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
                .any(|key| key == "step_params" || key == FILTER.0 || is_wide(key))
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
        for step in &mut task.steps {
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
            steps: vec![step],
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
            task.steps[0].kind = kind.to_owned();
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
