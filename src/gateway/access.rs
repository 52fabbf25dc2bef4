//! Which roles may use which tools.

use std::collections::{BTreeMap, BTreeSet};

use super::Caller;
use super::gate::Gate;
use super::record::Made;
use crate::json::{Value, json};
use crate::step::env::EnvError;
use crate::system::locked;

/// Stands for every role or every tool.
const ANY: &str = "*";

/// The mark of a tool that nobody sees until a rule names it.
const HIDDEN: &str = "agentenv.io/hiddenByDefault";

/// The rules of one env: for a role and a tool, whether it may be used.
///
/// The nearest rule counts: that of the role and the tool, of the role and every tool, of every role and the tool, of
/// every role and every tool. Without one a tool may be used, unless it is hidden by default; such a tool is moved only by
/// rules that name it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    rules: BTreeMap<(String, String), bool>,
}

impl Access {
    /// Returns whether a role may use a tool, as the server declares it.
    pub fn allows(&self, role: &str, tool: &Value) -> bool {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let rule =
            |role: &str, tool: &str| self.rules.get(&(role.to_owned(), tool.to_owned())).copied();
        if self.rules.is_empty() {
            return !is_hidden(tool);
        }
        let named = || rule(role, name);
        if is_hidden(tool) {
            return named().or_else(|| rule(ANY, name)).unwrap_or(false);
        }
        named()
            .or_else(|| rule(role, ANY))
            .or_else(|| rule(ANY, name))
            .or_else(|| rule(ANY, ANY))
            .unwrap_or(true)
    }

    /// Allows or forbids tools to a role.
    ///
    /// A rule for every role also stands in place of the rules for that tool of the roles known so far; one for every role
    /// and every tool in place of all rules.
    pub fn set(&mut self, role: &str, tools: &[String], enabled: bool) {
        for tool in tools {
            if role == ANY && tool == ANY {
                self.rules.clear();
            } else if role == ANY {
                self.rules.retain(|(_, other), _| other != tool);
            }
            self.rules.insert((role.to_owned(), tool.clone()), enabled);
        }
    }

    /// Returns the tools that rules of a role name: `{"disabled": [..], "allowed": [..]}`.
    pub fn of_role(&self, role: &str) -> Value {
        let with = |enabled: bool| -> Vec<&str> {
            let of_role = self
                .rules
                .iter()
                .filter(|((of, _), is)| of == role && **is == enabled);
            of_role.map(|((_, tool), _)| tool.as_str()).collect()
        };
        json!({"disabled": with(false), "allowed": with(true)})
    }

    /// Returns the roles that have rules.
    pub fn roles(&self) -> Vec<String> {
        let roles: BTreeSet<&String> = self.rules.keys().map(|(role, _)| role).collect();
        roles.into_iter().cloned().collect()
    }

    /// Returns the rules as a value, the same for the same rules.
    pub fn to_value(&self) -> Value {
        let rules = self.rules.iter();
        let rules = rules.map(|((role, tool), enabled)| json!([role, tool, enabled]));
        Value::Array(rules.collect())
    }

    /// Reads rules back; `None` where the value is none.
    pub fn from_value(value: &Value) -> Option<Access> {
        let mut rules = BTreeMap::new();
        for rule in value.as_array()? {
            let [
                Value::String(role),
                Value::String(tool),
                Value::Bool(enabled),
            ] = &rule.as_array()?[..]
            else {
                return None;
            };
            rules.insert((role.clone(), tool.clone()), *enabled);
        }
        Some(Access { rules })
    }
}

impl Gate {
    /// Allows or forbids tools to a role.
    pub(super) fn set_access(
        &self,
        caller: &Caller,
        role: &str,
        tools: &[String],
        enabled: bool,
    ) -> Result<Value, EnvError> {
        let after = {
            let mut access = locked(&self.access);
            access.set(role, tools, enabled);
            let mut after = access.of_role(role);
            // A tool that nobody sees until a rule names it is forbidden without a rule.
            let all = locked(&self.tools).clone().unwrap_or_default();
            let hidden = all
                .iter()
                .filter(|tool| is_hidden(tool) && !access.allows(role, tool));
            let names: Vec<Value> = hidden.map(|tool| tool["name"].clone()).collect();
            if let Some(Value::Array(disabled)) = after.get_mut("disabled") {
                let more = names.into_iter().filter(|name| !disabled.contains(name));
                let more: Vec<Value> = more.collect();
                disabled.extend(more);
            }
            after
        };
        if tools.is_empty() {
            return Ok(after);
        }
        let made = Made {
            kind: "access",
            name: role,
            arguments: &json!({"tools": tools, "enabled": enabled}),
            answer: Ok(&after),
            mutates: true,
            started_us: self.recorder.now_us(),
        };
        self.record(caller, &made)?;
        Ok(after)
    }

    /// Returns the rules of tool access.
    pub(super) fn access(&self) -> Access {
        locked(&self.access).clone()
    }
}

/// Returns whether nobody sees a tool until a rule names it.
fn is_hidden(tool: &Value) -> bool {
    ["_meta", "meta"].iter().any(|meta| {
        let mark = tool.get(meta).and_then(|meta| meta.get(HIDDEN));
        mark == Some(&Value::Bool(true))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(access: &Access, role: &str) -> String {
        let tools = ["read", "write", "secret"].map(|name| match name {
            "secret" => json!({"name": name, "_meta": {HIDDEN: true}}),
            name => json!({"name": name}),
        });
        let allowed = tools.iter().filter(|tool| access.allows(role, tool));
        let names: Vec<&str> = allowed.filter_map(|tool| tool["name"].as_str()).collect();
        names.join(" ")
    }

    fn access(rules: &[(&str, &str, bool)]) -> Access {
        let mut access = Access::default();
        for (role, tool, enabled) in rules {
            access.set(role, &[(*tool).to_owned()], *enabled);
        }
        access
    }

    #[test]
    fn the_nearest_rule_counts() {
        let check = |rules: &[(&str, &str, bool)], a: &str, b: &str| {
            let access = access(rules);
            assert_eq!(
                (&*allowed(&access, "a"), &*allowed(&access, "b")),
                (a, b),
                "{rules:?}"
            );
            assert_eq!(Access::from_value(&access.to_value()), Some(access));
        };
        check(&[], "read write", "read write");
        check(&[("a", "write", false)], "read", "read write");
        check(&[("a", "*", false)], "", "read write");
        check(
            &[("a", "*", false), ("a", "read", true)],
            "read",
            "read write",
        );
        check(&[("*", "*", false), ("a", "write", true)], "write", "");
        check(&[("*", "write", false)], "read", "read");
        check(
            &[("a", "write", true), ("*", "write", false)],
            "read",
            "read",
        );
        check(
            &[("a", "write", false), ("*", "*", true)],
            "read write",
            "read write",
        );
    }

    #[test]
    fn a_hidden_tool_is_seen_by_who_is_named_for_it() {
        let hidden = access(&[("a", "*", true)]);
        assert_eq!(allowed(&hidden, "a"), "read write");
        assert_eq!(allowed(&access(&[("*", "*", true)]), "a"), "read write");
        let named = access(&[("a", "secret", true)]);
        assert_eq!(allowed(&named, "a"), "read write secret");
        assert_eq!(allowed(&named, "b"), "read write");
        assert_eq!(
            allowed(&access(&[("*", "secret", true)]), "b"),
            "read write secret"
        );
    }

    #[test]
    fn a_role_is_told_which_tools_its_rules_name() {
        let access = access(&[("a", "write", false), ("a", "read", true), ("b", "x", true)]);
        assert_eq!(
            access.of_role("a"),
            json!({"disabled": ["write"], "allowed": ["read"]})
        );
        assert_eq!(access.roles(), ["a", "b"]);
    }
}
