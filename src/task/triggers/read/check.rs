//! Reads what is looked for: paths, predicates, conditions and checks.

use super::super::fill::escaped;
use super::super::{Check, CheckStep, Condition, Extract, Filling, Path, Predicate};
use super::reader::{CONFLICT, FORM, LENGTH, Reader, VALUE, get};
use crate::json::{Map, Value};

impl Reader {
    pub(super) fn path(&mut self, at: &str, text: &str) -> Option<Path> {
        match Path::parse(text) {
            Ok(path) => Some(path),
            Err(why) => {
                self.fault(FORM, at, why, "");
                None
            }
        }
    }

    pub(super) fn predicate(&mut self, at: &str, value: &Value) -> Option<Predicate> {
        let all = self.object(at, value, &["regex", "equals", "exists"])?;
        // What something equals may be null.
        let given: Vec<&str> = ["regex", "equals", "exists"]
            .into_iter()
            .filter(|key| all.contains_key(*key))
            .collect();
        match given[..] {
            ["regex"] => {
                let text = self.of_type(at, all, "regex", "a text", Value::as_str)?;
                match Predicate::regex(text) {
                    Ok(predicate) => Some(predicate),
                    Err(why) => {
                        let headline = format!("`{text}` is no regular expression: {why}");
                        self.fault("bad-pattern", &format!("{at}/regex"), headline, "");
                        None
                    }
                }
            }
            ["equals"] => Some(Predicate::Equals(all["equals"].clone())),
            ["exists"] => self.flag(at, all, "exists").map(Predicate::Exists),
            [] => {
                self.missing(at, "regex", "the predicate");
                None
            }
            _ => {
                let headline = format!("the predicate has both `{}`", given.join("` and `"));
                self.fault(CONFLICT, at, headline, "keep one of them");
                None
            }
        }
    }

    /// Reads what must be true of a call: paths below `args` and `result`; a bare name is an argument.
    pub(super) fn conditions(&mut self, at: &str, members: &Map<String, Value>) -> Vec<Condition> {
        let mut conditions = Vec::new();
        let Some(all) = self.members(at, members, "where") else {
            return conditions;
        };
        for (key, value) in all {
            let at = format!("{at}/where/{}", escaped(key));
            let is_below = |root: &str| {
                key.strip_prefix(root)
                    .is_some_and(|rest| rest.starts_with(['.', '[']))
            };
            let path = match is_below("args") || is_below("result") {
                true => self.path(&at, key),
                false => self.path(&at, &format!("args.{key}")),
            };
            let predicate = self.predicate(&at, value);
            if let (Some(path), Some(predicate)) = (path, predicate) {
                conditions.push(Condition { path, predicate });
            }
        }
        conditions
    }

    pub(super) fn fits(&mut self, at: &str, members: &Map<String, Value>) -> Vec<Condition> {
        let all = self.members(at, members, "match").into_iter().flatten();
        let mut fits = Vec::new();
        for (key, value) in all {
            let at = format!("{at}/match/{}", escaped(key));
            let path = self.path(&at, key);
            let predicate = self.predicate(&at, value);
            if let (Some(path), Some(predicate)) = (path, predicate) {
                fits.push(Condition { path, predicate });
            }
        }
        fits
    }

    pub(super) fn filling(&mut self, at: &str, members: &Map<String, Value>) -> Filling {
        let empty = Map::new();
        let arguments = self.members(at, members, "args").unwrap_or(&empty);
        match Filling::read(arguments) {
            Ok(filling) => filling,
            Err(faults) => {
                for (below, why) in faults {
                    self.fault(FORM, &format!("{at}/args{below}"), why, "");
                }
                Filling::default()
            }
        }
    }

    pub(super) fn check(&mut self, at: &str, value: &Value) -> Option<Check> {
        let is_list = value.get("steps").is_some();
        let (listed, below): (&[Value], _) = match is_list {
            false => (std::slice::from_ref(value), None),
            true => {
                let all = self.object(at, value, &["steps"])?;
                let steps = self.of_type(at, all, "steps", "a list", Value::as_array)?;
                (steps, Some(format!("{at}/steps")))
            }
        };
        let mut steps = Vec::new();
        for (ix, step) in listed.iter().enumerate() {
            let at = match &below {
                Some(below) => format!("{below}/{ix}"),
                None => at.to_owned(),
            };
            steps.extend(self.check_step(&at, step, ix + 1 == listed.len()));
        }
        if listed.is_empty() {
            self.fault(
                LENGTH,
                at,
                "the check has no steps".to_owned(),
                "add a step",
            );
        }
        Some(Check { steps })
    }

    pub(super) fn check_step(
        &mut self,
        at: &str,
        value: &Value,
        is_last: bool,
    ) -> Option<CheckStep> {
        let all = self.object(at, value, &["tool", "args", "extract", "bind", "predicate"])?;
        let tool = self.needed(at, all, "tool", "the check");
        let arguments = self.filling(at, all);
        let extract = match get(all, "extract") {
            None => None,
            Some(Value::String(text)) => {
                self.path(&format!("{at}/extract"), text)
                    .map(|path| Extract {
                        path,
                        fits: Vec::new(),
                        take: None,
                    })
            }
            Some(other) => self.extract(&format!("{at}/extract"), other),
        };
        let bind = self.text(at, all, "bind");
        if bind
            .as_deref()
            .is_some_and(|name| name == "args" || name == "result")
        {
            let headline =
                "`bind` can't be `args` or `result`, which are those of the call".to_owned();
            self.fault(
                VALUE,
                &format!("{at}/bind"),
                headline,
                "choose another name",
            );
        }
        let predicate = get(all, "predicate");
        let predicate =
            predicate.and_then(|value| self.predicate(&format!("{at}/predicate"), value));
        if is_last && get(all, "predicate").is_none() {
            self.missing(at, "predicate", "the last step of the check");
        }
        Some(CheckStep {
            tool: tool?,
            arguments,
            extract,
            bind,
            predicate,
        })
    }

    pub(super) fn extract(&mut self, at: &str, value: &Value) -> Option<Extract> {
        let all = self.object(at, value, &["path", "match", "take"])?;
        let path = self.needed(at, all, "path", "the extract");
        let path = path.and_then(|text| self.path(&format!("{at}/path"), &text));
        let fits = self.fits(at, all);
        let take = self.text(at, all, "take");
        let take = take.and_then(|text| self.path(&format!("{at}/take"), &text));
        Some(Extract {
            path: path?,
            fits,
            take,
        })
    }
}
