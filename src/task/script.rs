//! The script of an agent that needs no model: what it does and answers, prompt by prompt.
//!
//! A script is a list of rules. The first rule whose pattern is found in the prompt says which tools are called, with
//! what arguments, and what is answered. Arguments and answers are [templates](template) over what the tools said before.
//! All faults of a script are found when it is read, but for those that only an answer can show.

mod read;
mod schema;
pub mod template;

use std::fmt;

use fancy_regex::Regex;

use self::template::Template;
use crate::json::{Map, Value};

pub use schema::schema;

/// What an agent does, rule by rule; the first one that is for a prompt counts.
#[derive(Clone, Debug)]
pub struct Script {
    /// The rules, in order.
    pub rules: Vec<Rule>,
}

/// What an agent does when it is asked something.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What is looked for in the prompt; any prompt where it is absent.
    pub prompt: Option<Pattern>,
    /// The rule is only for this turn of a conversation; for all where it is absent.
    pub turn: Option<u64>,
    /// The rule is only for the first so many attempts of the step that prompts; for all where it is absent.
    pub attempts: Option<u64>,
    /// What else is looked for in the prompt: templates find 1 under the name where the pattern is found, and 0 where not.
    pub tests: Vec<(String, Pattern)>,
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// The text of the answer.
    pub reply: Template,
    /// The typed value of the answer.
    pub structured: Option<Template>,
    /// The message with which the agent fails after its calls.
    pub fail: Option<Template>,
}

/// A call of a tool, or a message to another agent.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whom it goes to.
    pub to: Callee,
    /// The name under which the answer is kept.
    pub save: Option<String>,
    /// The call is left out where this finds nothing, or what is empty, false or 0.
    pub when: Option<Template>,
    /// The call is made once for each item of this list.
    pub for_each: Option<Template>,
    /// What becomes of a call that does not succeed.
    pub on_error: OnError,
}

/// Whom a call goes to.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A tool.
    Tool {
        /// The `env_id`; the only env of the agent where it is absent.
        env: Option<String>,
        /// The tool.
        tool: String,
        /// Its arguments, an object.
        arguments: Template,
    },
    /// Another agent.
    Peer {
        /// Its name.
        name: String,
        /// What it is asked.
        message: Template,
    },
}

/// What becomes of a call that does not succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The agent fails with what the tool said.
    #[default]
    Fail,
    /// The agent goes on, and what the tool said is its answer.
    GoOn,
}

/// The rule for a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Where it is in the list.
    pub rule_ix: usize,
    /// The groups that its pattern found, by number and by name.
    pub groups: Map<String, Value>,
}

/// A regular expression that is looked for in prompts.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFault {
    /// The JSON pointer of the place at fault; of what is missing, that of what lacks it.
    pub pointer: String,
    /// What is wrong, with the number of the rule and the call.
    pub text: String,
    /// Whether a check against the [schema] says the same.
    pub is_form: bool,
}

/// Returns what faults say, in one line.
pub fn said(faults: &[ScriptFault]) -> String {
    let texts: Vec<&str> = faults.iter().map(|fault| fault.text.as_str()).collect();
    texts.join("; ")
}

impl fmt::Display for ScriptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Script {
    /// Reads a script; the error holds every fault. `type` and `id` are passed over.
    pub fn read(value: &Value) -> Result<Self, Vec<ScriptFault>> {
        read::read(value)
    }

    /// Finds the first rule for a prompt, which is this turn of its conversation and is made in this attempt of its step,
    /// the first being 1.
    pub fn find(&self, prompt: &str, turn: u64, attempt: u32) -> Result<Option<Found>, String> {
        for (rule_ix, rule) in self.rules.iter().enumerate() {
            if rule.turn.is_some_and(|only| only != turn) {
                continue;
            }
            if rule.attempts.is_some_and(|most| u64::from(attempt) > most) {
                continue;
            }
            let groups = match &rule.prompt {
                Some(pattern) => pattern.groups(prompt),
                None => Ok(Some(Map::new())),
            };
            if let Some(groups) = groups.map_err(|why| format!("rule {}: {why}", rule_ix + 1))? {
                return Ok(Some(Found { rule_ix, groups }));
            }
        }
        Ok(None)
    }
}

impl Rule {
    /// Returns what the tests of the rule find in a prompt.
    pub fn tested(&self, prompt: &str) -> Result<Map<String, Value>, String> {
        let tested = self.tests.iter().map(|(name, pattern)| {
            let is_found = pattern.is_found_in(prompt)?;
            Ok((name.clone(), Value::from(u8::from(is_found))))
        });
        tested.collect()
    }
}

impl Pattern {
    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the numbers and names of its groups, the whole being group 0.
    fn group_names(&self) -> Vec<String> {
        let groups = self.0.capture_names().enumerate();
        let names = groups.flat_map(|(ix, name)| [Some(ix.to_string()), name.map(str::to_owned)]);
        names.flatten().collect()
    }

    fn is_found_in(&self, text: &str) -> Result<bool, String> {
        let found = self.0.is_match(text);
        found.map_err(|_| format!("the search for `{}` takes too long", self.as_str()))
    }

    /// Returns the groups that were found, by number and by name; `None` where the pattern is not found.
    fn groups(&self, text: &str) -> Result<Option<Map<String, Value>>, String> {
        let found = self
            .0
            .captures(text)
            .map_err(|_| format!("the search for `{}` takes too long", self.as_str()))?;
        Ok(found.map(|found| {
            let mut groups = Map::new();
            for (ix, name) in self.0.capture_names().enumerate() {
                let Some(group) = found.get(ix) else { continue };
                for key in [Some(ix.to_string()), name.map(str::to_owned)] {
                    groups.extend(key.map(|key| (key, Value::from(group.as_str()))));
                }
            }
            groups
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn a_rule_for_the_first_attempts_is_passed_over_later() {
        let script = Script::read(&json!({"rules": [
            {"attempts": 2, "fail": "not yet"}, {"reply": "Done."},
        ]}))
        .unwrap();
        let rule = |attempt| script.find("go", 1, attempt).unwrap().unwrap().rule_ix;
        assert_eq!([1, 2, 3].map(rule), [0, 0, 1]);
        let faults = Script::read(&json!({"rules": [{"attempts": 0}]})).unwrap_err();
        assert_eq!(
            faults[0].to_string(),
            "rule 1: `attempts` must be a whole number of at least 1"
        );
    }

    #[test]
    fn tests_find_1_or_0() {
        let script = Script::read(&json!({"rules": [
            {"tests": {"has_dana": "Dana", "has_sam": "(?i)sam"}, "reply": "{{has_dana}}"},
        ]}))
        .unwrap();
        let tested = script.rules[0].tested("Hello Dana").unwrap();
        assert_eq!(Value::Object(tested), json!({"has_dana": 1, "has_sam": 0}));
    }

    #[test]
    fn the_first_rule_for_a_prompt_counts() {
        let script = Script::read(&json!({"rules": [
            {"prompt": r"(?i)reply to (?<who>\w+)( now)?"}, {"prompt": "never"}, {"reply": "Hm."},
        ]}))
        .unwrap();
        let found = script.find("Please REPLY to dana.", 1, 1).unwrap().unwrap();
        assert_eq!(found.rule_ix, 0);
        assert_eq!(
            Value::Object(found.groups),
            json!({"0": "REPLY to dana", "1": "dana", "who": "dana"})
        );
        assert_eq!(script.find("?", 1, 1).unwrap().unwrap().rule_ix, 2);
        let narrow = Script::read(&json!({"rules": [{"prompt": "^a$"}]})).unwrap();
        assert_eq!(narrow.find("b", 1, 1), Ok(None));
    }
}
