//! Reads a script and finds all its faults, each at its place.

use fancy_regex::RegexBuilder;

use super::schema::{CALL, RULE, SCRIPT};
use super::template::{Path, Template, escaped, is_name};
use super::{Call, Callee, OnError, Pattern, Rule, Script, ScriptFault};
use crate::diagnostic::nearest;
use crate::json::{Map, Value};

/// Steps back that one search may take; a search that needs more gives no answer.
const MAX_STEPS_BACK: usize = 1_000_000;
/// The keys that give templates a name to start with.
const NAMING: [&str; 5] = ["prompt", "tests", "calls", "save", "for_each"];
/// The names that mean something of their own in templates.
const RESERVED: [&str; 4] = ["prompt", "turn", "match", "item"];

/// Reads a script; the error holds every fault.
pub(super) fn read(value: &Value) -> Result<Script, Vec<ScriptFault>> {
    let mut reader = Reader::default();
    let mut rules = Vec::new();
    if let Some(script) = reader.table(value, &SCRIPT) {
        for rule in reader.list(script, "rules") {
            reader.at = format!("rule {}: ", rules.len() + 1);
            reader.pointer = format!("/rules/{}", rules.len());
            rules.push(reader.rule(rule));
        }
        reader.at.clear();
        reader.pointer.clear();
        let is_list = script.get("rules").is_none_or(Value::is_array);
        if rules.is_empty() && is_list {
            reader.fault("rules", "a script needs at least one of `rules`");
        }
    }
    if reader.faults.is_empty() {
        Ok(Script { rules })
    } else {
        Err(reader.faults)
    }
}

/// A reader, and what it found.
#[derive(Default)]
struct Reader {
    /// Where it reads, for the start of a fault.
    at: String,
    /// The same as a JSON pointer.
    pointer: String,
    /// The names that a template may start with.
    names: Vec<String>,
    /// Whether the rule has a key at fault that may give a name.
    is_unsure_of_names: bool,
    /// The groups of the rule's pattern, by number and by name, where it is known.
    groups: Option<Vec<String>>,
    faults: Vec<ScriptFault>,
}

impl Reader {
    /// Tells of what cannot be, although its keys and types are right.
    fn fault(&mut self, key: &str, what: impl AsRef<str>) {
        let below = match key {
            "" => String::new(),
            key => format!("/{}", escaped(key)),
        };
        self.fault_below(&below, what.as_ref(), false);
    }

    /// Tells of a key or type that does not fit the schema.
    fn form(&mut self, key: &str, what: impl AsRef<str>) {
        let below = match key {
            "" => String::new(),
            key => format!("/{}", escaped(key)),
        };
        self.fault_below(&below, what.as_ref(), true);
    }

    fn fault_below(&mut self, below: &str, what: &str, is_form: bool) {
        self.faults.push(ScriptFault {
            pointer: format!("{}{below}", self.pointer),
            text: format!("{}{what}", self.at),
            is_form,
        });
    }

    fn rule(&mut self, value: &Value) -> Rule {
        let empty = Map::new();
        self.is_unsure_of_names = false;
        self.groups = None;
        let rule = self.table(value, &RULE).unwrap_or(&empty);
        let (at, pointer) = (self.at.clone(), self.pointer.clone());
        self.names = vec!["prompt".to_owned(), "turn".to_owned()];
        if rule.contains_key("prompt") {
            self.names.push("match".to_owned());
        }
        let prompt = self.text(rule, "prompt");
        let prompt = prompt.and_then(|text| self.pattern("/prompt", text));
        self.groups = prompt.as_ref().map(Pattern::group_names);
        let tests = self.tests(rule);
        let mut calls = Vec::new();
        for call in self.list(rule, "calls") {
            self.at = format!("{}, call {}: ", at.trim_end_matches(": "), calls.len() + 1);
            self.pointer = format!("{pointer}/calls/{}", calls.len());
            calls.push(self.call(call));
        }
        (self.at, self.pointer) = (at, pointer);
        let reply = self.text_template(rule, "reply");
        let fail = self.text_template(rule, "fail");
        let structured = rule.get("structured");
        let structured = structured.map(|value| self.template("structured", value));
        let mut whole = |key: &str| {
            let value = rule.get(key)?;
            let number = value.as_u64().filter(|number| *number > 0);
            if number.is_none() {
                self.form(key, format!("`{key}` must be a whole number of at least 1"));
            }
            Some(number.unwrap_or(1))
        };
        let (turn, attempts) = (whole("turn"), whole("attempts"));
        Rule {
            prompt,
            turn,
            attempts,
            tests,
            calls,
            reply: reply.unwrap_or(Template::Plain(Value::from(""))),
            structured,
            fail,
        }
    }

    fn pattern(&mut self, below: &str, text: &str) -> Option<Pattern> {
        let built = RegexBuilder::new(text)
            .backtrack_limit(MAX_STEPS_BACK)
            .build();
        match built {
            Ok(regex) => Some(Pattern(regex)),
            Err(error) => {
                // Several lines with the pattern drawn in; the last one says what is wrong.
                let message = error.to_string();
                let why = message.lines().last().unwrap_or_default().trim();
                let why = why.trim_start_matches("error: ");
                let what = format!("`{text}` is no regular expression: {why}");
                self.fault_below(below, &what, false);
                None
            }
        }
    }

    fn tests(&mut self, rule: &Map<String, Value>) -> Vec<(String, Pattern)> {
        let tests = match rule.get("tests") {
            Some(Value::Object(tests)) => tests,
            Some(_) => {
                self.form("tests", "`tests` must be a table");
                self.is_unsure_of_names = true;
                return Vec::new();
            }
            None => return Vec::new(),
        };
        let mut read = Vec::new();
        for (name, value) in tests {
            let below = format!("/tests/{}", escaped(name));
            self.name(&below, name, "a test");
            match value.as_str() {
                Some(text) => {
                    let pattern = self.pattern(&below, text);
                    read.extend(pattern.map(|pattern| (name.clone(), pattern)));
                }
                None => self.fault_below(&below, &format!("`{name}` must be a text"), true),
            }
        }
        read
    }

    /// Takes a name that templates may start with from here on.
    fn name(&mut self, below: &str, name: &str, what: &str) {
        if RESERVED.contains(&name) {
            let what = format!("{what} cannot be `{name}`, which has a meaning of its own");
            self.fault_below(below, &what, false);
        } else if !is_name(name) {
            let what = format!("`{name}` is no name: use letters, digits and `_`");
            self.fault_below(below, &what, false);
        }
        self.names.push(name.to_owned());
    }

    fn call(&mut self, value: &Value) -> Call {
        let empty = Map::new();
        let call = self.table(value, &CALL).unwrap_or(&empty);
        let tool = self.text(call, "tool").unwrap_or_default().to_owned();
        let has_peer = call.contains_key("peer");
        let peer = self.text(call, "peer").map(str::to_owned);
        let means_tool = |key: &String| nearest(key, CALL) == Some("tool");
        if value.is_object() && !call.contains_key("tool") && !has_peer {
            match call
                .keys()
                .any(|key| !CALL.contains(&key.as_str()) && means_tool(key))
            {
                true => self.form("", "`tool` is missing"),
                false => self.fault("", "`tool` is missing"),
            }
        }
        let env = self.text(call, "env").map(str::to_owned);
        for (key, name) in [
            ("tool", Some(&tool)),
            ("env", env.as_ref()),
            ("peer", peer.as_ref()),
        ] {
            if name.is_some_and(|name| name.contains("{{")) {
                self.fault(key, format!("`{key}` is a name and cannot hold a template"));
            }
        }
        for key in ["tool", "env", "arguments"] {
            if has_peer && call.contains_key(key) {
                let what = format!("a call with `peer` has a `message` and no `{key}`");
                self.fault(key, what);
            }
        }
        if !has_peer && call.contains_key("message") {
            self.fault("message", "`message` is for a call with `peer`");
        }
        let for_each = match call.get("for_each") {
            Some(list @ (Value::String(_) | Value::Array(_))) => {
                Some(self.template("for_each", list))
            }
            Some(_) => {
                self.form("for_each", "`for_each` must be a template or a list");
                None
            }
            None => None,
        };
        if call.contains_key("for_each") {
            self.names.push("item".to_owned());
        }
        let when = self.text_template(call, "when");
        let message = self.text_template(call, "message");
        if has_peer && !call.contains_key("message") {
            self.fault("", "`message` is missing");
        }
        let arguments = match call.get("arguments") {
            Some(arguments @ Value::Object(_)) => self.template("arguments", arguments),
            Some(_) => {
                self.form("arguments", "`arguments` must be a table");
                Template::Object(Vec::new())
            }
            None => Template::Object(Vec::new()),
        };
        self.names.retain(|name| name != "item");
        let on_error = match self.text(call, "on_error") {
            None | Some("fail") => OnError::Fail,
            Some("go-on") => OnError::GoOn,
            Some(other) => {
                self.form(
                    "on_error",
                    format!("`on_error` is one of `fail` and `go-on`, not `{other}`"),
                );
                OnError::Fail
            }
        };
        let save = self.text(call, "save").map(str::to_owned);
        match &save {
            Some(name) => self.name("/save", name, "`save`"),
            None => self.is_unsure_of_names |= call.contains_key("save"),
        }
        let to = match peer {
            Some(name) => Callee::Peer {
                name,
                message: message.unwrap_or(Template::Plain(Value::from(""))),
            },
            None => Callee::Tool {
                env,
                tool,
                arguments,
            },
        };
        Call {
            to,
            save,
            when,
            for_each,
            on_error,
        }
    }

    /// Returns a table that has none but these keys.
    fn table<'v>(&mut self, value: &'v Value, keys: &[&str]) -> Option<&'v Map<String, Value>> {
        let Some(table) = value.as_object() else {
            self.form("", "this must be a table");
            self.is_unsure_of_names = true;
            return None;
        };
        for key in table.keys().filter(|key| !keys.contains(&key.as_str())) {
            let meant = nearest(key, keys.iter().copied());
            // What it would give a name to is used below.
            self.is_unsure_of_names |= meant.is_some_and(|meant| NAMING.contains(&meant));
            let meant = meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
            self.form(key, format!("key `{key}` is not known{meant}"));
        }
        Some(table)
    }

    fn list<'v>(&mut self, table: &'v Map<String, Value>, key: &str) -> &'v [Value] {
        match table.get(key) {
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.form(key, format!("`{key}` must be a list"));
                self.is_unsure_of_names = true;
                &[]
            }
            None => &[],
        }
    }

    fn text<'v>(&mut self, table: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
        let value = table.get(key)?;
        if !value.is_string() {
            self.form(key, format!("`{key}` must be a text"));
        }
        value.as_str()
    }

    fn text_template(&mut self, table: &Map<String, Value>, key: &str) -> Option<Template> {
        self.text(table, key)?;
        table.get(key).map(|value| self.template(key, value))
    }

    fn template(&mut self, key: &str, value: &Value) -> Template {
        let mut faults = Vec::new();
        let below = format!("/{}", escaped(key));
        let template = Template::read_at(value, &below, &mut faults);
        for (below, hole) in template.holes_below(&below) {
            if let Some(fault) = self.fault_of_hole(hole) {
                faults.push((below, fault));
            }
        }
        for (below, fault) in faults {
            self.fault_below(&below, &fault, false);
        }
        template
    }

    /// Returns why a hole never finds anything, if that is known.
    fn fault_of_hole(&self, hole: &Path) -> Option<String> {
        let (root, written) = (hole.root(), hole.as_str());
        let meant = |name: &str, among: &[String]| {
            let meant = nearest(name, among.iter().map(String::as_str));
            meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"))
        };
        if !self.names.iter().any(|name| name == root) {
            return (!self.is_unsure_of_names).then(|| {
                let meant = meant(root, &self.names);
                format!("template `{written}` uses `{root}`, which nothing before it saves{meant}")
            });
        }
        let (groups, name) = (self.groups.as_ref()?, hole.second()?);
        if root != "match" || groups.contains(&name) {
            return None;
        }
        let meant = meant(&name, groups);
        Some(format!(
            "template `{written}` uses group `{name}`, which the pattern of `prompt` does not have{meant}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn all_faults_of_a_script_are_found_at_once() {
        let script = json!({"rulez": 1, "type": "scripted", "rules": [
            {"prompt": "(", "reply": "{{found.x}}", "calls": [
                {"tool": "search", "save": "found", "arguments": {"q": "{{fuond}}", "item": "{{item}}"}},
                {"toll": "x", "for_each": "{{found}}", "arguments": {"q": "{{item}} {{match.1}}"}},
                {"tool": "x", "save": "item", "on_error": "stop", "arguments": [], "for_each": 1},
                {"tool": "{{match.1}}", "save": "a-b", "when": "{{prompt"},
                1,
            ]},
            {"reply": 1, "calls": {}, "fail": "{{match}}", "structured": {"a": ["{{item}}"]}},
        ]});
        let faults = Script::read(&script).unwrap_err();
        let expected = expect_test::expect![[r#"
            /rulez? key `rulez` is not known; did you mean `rules`?
            /rules/0/prompt rule 1: `(` is no regular expression: Parsing error at position 1: Opening parenthesis without closing parenthesis
            /rules/0/calls/0/arguments/item rule 1, call 1: template `{{item}}` uses `item`, which nothing before it saves
            /rules/0/calls/0/arguments/q rule 1, call 1: template `{{fuond}}` uses `fuond`, which nothing before it saves
            /rules/0/calls/1/toll? rule 1, call 2: key `toll` is not known; did you mean `tool`?
            /rules/0/calls/1? rule 1, call 2: `tool` is missing
            /rules/0/calls/2/for_each? rule 1, call 3: `for_each` must be a template or a list
            /rules/0/calls/2/arguments? rule 1, call 3: `arguments` must be a table
            /rules/0/calls/2/on_error? rule 1, call 3: `on_error` is one of `fail` and `go-on`, not `stop`
            /rules/0/calls/2/save rule 1, call 3: `save` cannot be `item`, which has a meaning of its own
            /rules/0/calls/3/tool rule 1, call 4: `tool` is a name and cannot hold a template
            /rules/0/calls/3/when rule 1, call 4: `{{prompt` is not closed by `}}`
            /rules/0/calls/3/save rule 1, call 4: `a-b` is no name: use letters, digits and `_`
            /rules/0/calls/4? rule 1, call 5: this must be a table
            /rules/1/calls? rule 2: `calls` must be a list
            /rules/1/reply? rule 2: `reply` must be a text"#]];
        let shown: Vec<String> = faults
            .iter()
            .map(|fault| {
                format!(
                    "{}{} {fault}",
                    fault.pointer,
                    if fault.is_form { "?" } else { "" }
                )
            })
            .collect();
        expected.assert_eq(&shown.join("\n"));
    }

    #[test]
    fn a_script_has_rules() {
        for script in [json!({}), json!({"rules": []})] {
            let faults = Script::read(&script).unwrap_err();
            assert_eq!(faults.len(), 1);
            assert_eq!(
                faults[0].to_string(),
                "a script needs at least one of `rules`"
            );
        }
        let faults = Script::read(&json!([])).unwrap_err();
        assert_eq!(faults[0].to_string(), "this must be a table");
    }

    #[test]
    fn a_group_that_the_pattern_does_not_have_is_told() {
        let check = |reply: &str| {
            let script = json!({"rules": [{"prompt": r"to (?<who>\w+)( now)?", "reply": reply}]});
            let faults = Script::read(&script).err().unwrap_or_default();
            faults
                .first()
                .map(|fault| format!("{}: {fault}", fault.pointer))
        };
        for reply in [
            "{{match.0}}",
            "{{match.1}} {{match.2}}",
            "{{match.who}}",
            "{{match['who']}}",
            "{{match}}",
        ] {
            assert_eq!(check(reply), None, "{reply}");
        }
        assert_eq!(
            check("{{match.whom}}").as_deref(),
            Some(
                "/rules/0/reply: rule 1: template `{{match.whom}}` uses group `whom`, which the pattern of `prompt` does not \
                 have; did you mean `who`?"
            )
        );
        assert!(check("{{match.3}}").is_some_and(|fault| fault.contains("group `3`")));
        assert!(check("{{match['zz']}}").is_some_and(|fault| fault.contains("group `zz`")));
    }

    #[test]
    fn a_name_is_not_missed_where_what_gives_it_is_at_fault() {
        for rule in [
            json!({"calls": [{"tool": "x", "sav": "found"}], "reply": "{{found}}"}),
            json!({"calls": [{"tool": "x", "save": 1}], "reply": "{{found}}"}),
            json!({"calls": {}, "reply": "{{found}}"}),
            json!({"promt": "x", "reply": "{{match.0}}"}),
            json!({"prompt": 1, "reply": "{{match.0}}"}),
        ] {
            let faults = Script::read(&json!({"rules": [rule]})).unwrap_err();
            assert!(
                faults.iter().all(|fault| fault.is_form) && faults.len() == 1,
                "{faults:?}"
            );
        }
    }

    #[test]
    fn what_is_not_said_is_empty() {
        let script = Script::read(&json!({"rules": [{"calls": [{"tool": "x"}]}]})).unwrap();
        let rule = &script.rules[0];
        assert!(rule.prompt.is_none() && rule.fail.is_none() && rule.structured.is_none());
        assert_eq!(rule.reply.fill(&Value::Null), Ok(json!("")));
        let Callee::Tool { arguments, .. } = &rule.calls[0].to else {
            panic!("it is a tool")
        };
        assert_eq!(arguments.fill(&Value::Null), Ok(json!({})));
        assert_eq!(rule.calls[0].on_error, OnError::Fail);
    }
}
