//! `oneOf` and `anyOf`: which branch the author meant, and the faults inside it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::scalar::{self, values};
use super::{Checker, Known, Part, list};
use crate::diagnostic::{Diagnostic, clip, nearest};
use crate::json::{Node, NodeKind, Span, is_comment};

type Branch<'a> = (&'a Value, &'a Map<String, Value>);

impl<'a> Checker<'a> {
    /// Checks a value against the branch that it was meant for, and returns the properties that this branch knows.
    pub(super) fn choice(&mut self, node: &'a Node, branches: &'a [Value]) -> Known<'a> {
        let all: Vec<Branch<'a>> = branches
            .iter()
            .filter_map(|branch| Some((branch, self.resolve(branch)?)))
            .collect();
        if all.len() < branches.len() {
            // A branch without keywords allows everything.
            return Known::default();
        }
        // A choice among plain values is one enumeration.
        let plain: Vec<&Value> = all
            .iter()
            .filter(|(_, map)| !map.contains_key("properties"))
            .filter_map(|(_, map)| values(map))
            .flatten()
            .collect();
        let are_all_plain = all.iter().all(|(_, map)| values(map).is_some());
        if are_all_plain {
            self.one_of(node, &plain);
            return Known::default();
        }
        let fitting: Vec<Branch<'a>> = all
            .iter()
            .copied()
            .filter(|(_, map)| fits(node, map))
            .collect();
        match fitting.as_slice() {
            [] => {
                let mut wanted: Vec<Cow<'static, str>> = Vec::new();
                for (_, map) in all
                    .iter()
                    .filter(|(_, map)| map.get("type") != Some(&Value::from("null")))
                {
                    let words = scalar::wanted(map);
                    if !wanted.contains(&words) {
                        wanted.push(words);
                    }
                }
                self.wrong_type(node, &wanted.join(" or "));
                Known::default()
            }
            [(branch, _)] => self.visit(node, branch),
            _ if node.as_object().is_some() => self.tagged(node, &fitting),
            _ if fitting.iter().all(|(_, map)| values(map).is_some()) => {
                self.one_of(node, &plain);
                Known::default()
            }
            _ => self.best(node, &fitting),
        }
    }

    /// Checks an object against the branch that its tag names.
    fn tagged(&mut self, node: &'a Node, branches: &[Branch<'a>]) -> Known<'a> {
        if let Some(tag) = self.common_tag(branches) {
            let Some(member) = node.member(tag) else {
                let allowed = self.tag_values(tag, branches);
                return self.missing_tag(node, tag, &allowed, branches);
            };
            if member.value.is_bad() {
                return self.all_known(branches);
            }
            let value = member.value.to_value();
            for (branch, map) in branches {
                if self
                    .tag_of(map, tag)
                    .is_some_and(|allowed| allowed.contains(&&value))
                {
                    return self.visit(node, branch);
                }
            }
            let allowed = self.tag_values(tag, branches);
            self.path.push(Part::Key(tag));
            self.one_of(&member.value, &allowed);
            self.path.pop();
            return self.all_known(branches);
        }
        let external = externally_tagged(branches);
        if external.len() == branches.len() {
            let members = node.as_object().expect("bug: only objects are tagged");
            let named = members
                .iter()
                .find_map(|member| external.iter().find(|(name, _)| *name == member.key));
            let near = || {
                let keys = members.iter().filter(|member| !is_comment(&member.key));
                keys.filter_map(|member| {
                    nearest(&member.key, external.iter().map(|(name, _)| *name))
                })
                .next()
            };
            if let Some((_, branch)) = named
                .or_else(|| near().and_then(|near| external.iter().find(|(name, _)| *name == near)))
            {
                return self.visit(node, branch);
            }
            return self.unnamed(node, &external);
        }
        self.best(node, branches)
    }

    /// Reports an object whose only key should name a branch, and names none.
    fn unnamed(&mut self, node: &'a Node, branches: &[(&'a str, &'a Value)]) -> Known<'a> {
        let names = list(
            branches
                .iter()
                .map(|(name, _)| Cow::Owned(format!("`{name}`"))),
        );
        let members = node.as_object().into_iter().flatten();
        let fault = match members.into_iter().find(|member| !is_comment(&member.key)) {
            Some(member) => Diagnostic::error(
                "unknown-field",
                format!("{} has no field `{}`", self.subject(), clip(&member.key)),
            )
            .primary(self.source, member.key_span, "not a field")
            .help(format!("write one of {names}")),
            None => Diagnostic::error(
                "missing-field",
                format!("{} has none of the fields {names}", self.subject()),
            )
            .primary(self.source, node.span, "empty")
            .help(format!("write one of {names}")),
        };
        self.faults.push(fault);
        Known {
            names: branches.iter().map(|(name, _)| *name).collect(),
        }
    }

    fn missing_tag(
        &mut self,
        node: &'a Node,
        tag: &'a str,
        allowed: &[&'a Value],
        branches: &[Branch<'a>],
    ) -> Known<'a> {
        let start = node.span.start as usize;
        let span = Span::new(start, start + 1);
        let mut known = self.all_known(branches);
        let members = node.as_object().expect("bug: only objects are tagged");
        let misspelt = members
            .iter()
            .find(|member| nearest(&member.key, [tag]).is_some() && !known.has(&member.key));
        let fault = Diagnostic::error(
            "missing-field",
            format!("{} lacks the field `{tag}`", self.subject()),
        );
        let fault = match misspelt {
            Some(member) => fault
                .primary(self.source, member.key_span, "")
                .help(format!("did you mean `{tag}`?")),
            None => fault
                .primary(self.source, span, format!("`{tag}` is missing here"))
                .help(format!(
                    "add \"{tag}\" with one of {}",
                    scalar::shown(allowed)
                )),
        };
        self.faults.push(fault);
        known
            .names
            .extend(misspelt.map(|member| member.key.as_str()));
        known
    }

    /// Returns the branch with the fewest faults as the one that was meant.
    fn best(&mut self, node: &'a Node, branches: &[Branch<'a>]) -> Known<'a> {
        let before = self.faults.len();
        let mut best: Option<(Vec<Diagnostic>, Known<'a>)> = None;
        for (branch, _) in branches {
            let known = self.visit(node, branch);
            let faults = self.faults.split_off(before);
            if best
                .as_ref()
                .is_none_or(|(fewest, _)| faults.len() < fewest.len())
            {
                best = Some((faults, known));
            }
        }
        let (faults, known) = best.unwrap_or_default();
        self.faults.extend(faults);
        known
    }

    /// Returns the property whose value tells all these branches apart.
    fn common_tag(&self, branches: &[Branch<'a>]) -> Option<&'a str> {
        let (_, first) = branches.first()?;
        let names = first.get("properties")?.as_object()?.keys();
        names.map(String::as_str).find(|name| {
            branches
                .iter()
                .all(|(_, map)| self.tag_of(map, name).is_some())
        })
    }

    fn tag_of(&self, map: &'a Map<String, Value>, tag: &str) -> Option<Vec<&'a Value>> {
        values(self.resolve(map.get("properties")?.get(tag)?)?)
    }

    fn tag_values(&self, tag: &str, branches: &[Branch<'a>]) -> Vec<&'a Value> {
        branches
            .iter()
            .filter_map(|(_, map)| self.tag_of(map, tag))
            .flatten()
            .collect()
    }

    fn all_known(&self, branches: &[Branch<'a>]) -> Known<'a> {
        let properties = branches
            .iter()
            .filter_map(|(_, map)| map.get("properties")?.as_object());
        Known {
            names: properties.flat_map(Map::keys).map(String::as_str).collect(),
        }
    }
}

/// Returns whether a value has the type of a branch.
fn fits(node: &Node, map: &Map<String, Value>) -> bool {
    match (map.get("type"), values(map)) {
        (Some(types), _) => scalar::has_type(node, types),
        (None, Some(values)) => values.iter().any(|value| same_kind(node, value)),
        (None, None) if map.contains_key("properties") => node.as_object().is_some(),
        (None, None) => true,
    }
}

fn same_kind(node: &Node, value: &Value) -> bool {
    matches!(
        (&node.kind, value),
        (NodeKind::Null, Value::Null)
            | (NodeKind::Bool(_), Value::Bool(_))
            | (NodeKind::Number(_), Value::Number(_))
            | (NodeKind::String(_), Value::String(_))
            | (NodeKind::Array(_), Value::Array(_))
            | (NodeKind::Object(_), Value::Object(_))
    )
}

/// Returns the branches that are an object with one required key of their own, with that key.
fn externally_tagged<'a>(branches: &[Branch<'a>]) -> Vec<(&'a str, &'a Value)> {
    let tag = |(branch, map): &Branch<'a>| match map.get("required")?.as_array()?.as_slice() {
        [name] if map.get("properties")?.as_object()?.len() == 1 => Some((name.as_str()?, *branch)),
        _ => None,
    };
    branches.iter().filter_map(tag).collect()
}
