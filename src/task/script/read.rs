//! Reads a script and finds all its faults.

use fancy_regex::RegexBuilder;

use super::schema::{CALL, RULE, SCRIPT};
use super::template::{Template, is_name};
use super::{Call, Callee, OnError, Pattern, Rule, Script};
use crate::diagnostic::nearest;
use crate::json::{Map, Value};

/// Steps back that one search may take; a search that needs more gives no answer.
const MAX_STEPS_BACK: usize = 1_000_000;
/// The names that mean something of their own in templates.
const RESERVED: [&str; 4] = ["prompt", "turn", "match", "item"];

/// Reads a script; the error holds every fault.
pub(super) fn read(value: &Value) -> Result<Script, Vec<String>> {
    let mut reader = Reader::default();
    let mut rules = Vec::new();
    if let Some(script) = reader.table(value, &SCRIPT) {
        for rule in reader.list(script, "rules") {
            reader.at = format!("rule {}: ", rules.len() + 1);
            rules.push(reader.rule(rule));
        }
        reader.at.clear();
        if rules.is_empty() && reader.faults.is_empty() {
            reader.fault("a script needs at least one of `rules`");
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
    /// The names that a template may start with.
    names: Vec<String>,
    faults: Vec<String>,
}

impl Reader {
    fn fault(&mut self, what: impl AsRef<str>) {
        self.faults.push(format!("{}{}", self.at, what.as_ref()));
    }

    fn rule(&mut self, value: &Value) -> Rule {
        let empty = Map::new();
        let rule = self.table(value, &RULE).unwrap_or(&empty);
        let at = self.at.clone();
        self.names = vec!["prompt".to_owned(), "turn".to_owned()];
        let prompt = self.text(rule, "prompt").and_then(|text| {
            self.names.push("match".to_owned());
            self.pattern(text)
        });
        let tests = self.tests(rule);
        let mut calls = Vec::new();
        for call in self.list(rule, "calls") {
            self.at = format!("{}, call {}: ", at.trim_end_matches(": "), calls.len() + 1);
            calls.push(self.call(call));
        }
        self.at = at;
        let reply = self.text_template(rule, "reply");
        let fail = self.text_template(rule, "fail");
        let structured = rule.get("structured").map(|value| self.template(value));
        let mut whole = |key: &str| {
            let value = rule.get(key)?;
            let number = value.as_u64().filter(|number| *number > 0);
            if number.is_none() {
                self.fault(format!("`{key}` must be a whole number of at least 1"));
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

    fn pattern(&mut self, text: &str) -> Option<Pattern> {
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
                self.fault(format!("`{text}` is no regular expression: {why}"));
                None
            }
        }
    }

    fn tests(&mut self, rule: &Map<String, Value>) -> Vec<(String, Pattern)> {
        let tests = match rule.get("tests") {
            Some(Value::Object(tests)) => tests,
            Some(_) => {
                self.fault("`tests` must be a table");
                return Vec::new();
            }
            None => return Vec::new(),
        };
        let mut read = Vec::new();
        for name in tests.keys() {
            self.name(name, "a test");
            let pattern = self.text(tests, name).and_then(|text| self.pattern(text));
            read.extend(pattern.map(|pattern| (name.clone(), pattern)));
        }
        read
    }

    /// Takes a name that templates may start with from here on.
    fn name(&mut self, name: &str, what: &str) {
        if RESERVED.contains(&name) {
            self.fault(format!(
                "{what} cannot be `{name}`, which has a meaning of its own"
            ));
        } else if !is_name(name) {
            self.fault(format!("`{name}` is no name: use letters, digits and `_`"));
        }
        self.names.push(name.to_owned());
    }

    fn call(&mut self, value: &Value) -> Call {
        let empty = Map::new();
        let call = self.table(value, &CALL).unwrap_or(&empty);
        let tool = self.text(call, "tool").unwrap_or_default().to_owned();
        let peer = self.text(call, "peer").map(str::to_owned);
        if value.is_object() && !call.contains_key("tool") && peer.is_none() {
            self.fault("`tool` is missing");
        }
        let env = self.text(call, "env").map(str::to_owned);
        for (key, name) in [
            ("tool", Some(&tool)),
            ("env", env.as_ref()),
            ("peer", peer.as_ref()),
        ] {
            if name.is_some_and(|name| name.contains("{{")) {
                self.fault(format!("`{key}` is a name and cannot hold a template"));
            }
        }
        for key in ["tool", "env", "arguments"] {
            if peer.is_some() && call.contains_key(key) {
                self.fault(format!("a call with `peer` has a `message` and no `{key}`"));
            }
        }
        if peer.is_none() && call.contains_key("message") {
            self.fault("`message` is for a call with `peer`");
        }
        let for_each = match call.get("for_each") {
            Some(list @ (Value::String(_) | Value::Array(_))) => Some(self.template(list)),
            Some(_) => {
                self.fault("`for_each` must be a template or a list");
                None
            }
            None => None,
        };
        if for_each.is_some() {
            self.names.push("item".to_owned());
        }
        let when = self.text_template(call, "when");
        let message = self.text_template(call, "message");
        if peer.is_some() && message.is_none() {
            self.fault("`message` is missing");
        }
        let arguments = match call.get("arguments") {
            Some(arguments @ Value::Object(_)) => self.template(arguments),
            Some(_) => {
                self.fault("`arguments` must be a table");
                Template::Object(Vec::new())
            }
            None => Template::Object(Vec::new()),
        };
        self.names.retain(|name| name != "item");
        let on_error = match self.text(call, "on_error") {
            None | Some("fail") => OnError::Fail,
            Some("go-on") => OnError::GoOn,
            Some(other) => {
                self.fault(format!(
                    "`on_error` is one of `fail` and `go-on`, not `{other}`"
                ));
                OnError::Fail
            }
        };
        let save = self.text(call, "save").map(str::to_owned);
        if let Some(name) = &save {
            self.name(name, "`save`");
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
            self.fault("this must be a table");
            return None;
        };
        for key in table.keys().filter(|key| !keys.contains(&key.as_str())) {
            let meant = nearest(key, keys.iter().copied());
            let meant = meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
            self.fault(format!("key `{key}` is not known{meant}"));
        }
        Some(table)
    }

    fn list<'v>(&mut self, table: &'v Map<String, Value>, key: &str) -> &'v [Value] {
        match table.get(key) {
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.fault(format!("`{key}` must be a list"));
                &[]
            }
            None => &[],
        }
    }

    fn text<'v>(&mut self, table: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
        let value = table.get(key)?;
        if !value.is_string() {
            self.fault(format!("`{key}` must be a text"));
        }
        value.as_str()
    }

    fn text_template(&mut self, table: &Map<String, Value>, key: &str) -> Option<Template> {
        self.text(table, key)?;
        table.get(key).map(|value| self.template(value))
    }

    fn template(&mut self, value: &Value) -> Template {
        let mut faults = Vec::new();
        let template = Template::read(value, &mut faults);
        for hole in template.holes() {
            let root = hole.root();
            if !self.names.iter().any(|name| name == root) {
                let meant = nearest(root, self.names.iter().map(String::as_str));
                let meant =
                    meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
                faults.push(format!(
                    "template `{}` uses `{root}`, which nothing before it saves{meant}",
                    hole.as_str()
                ));
            }
        }
        for fault in faults {
            self.fault(fault);
        }
        template
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
            key `rulez` is not known; did you mean `rules`?
            rule 1: `(` is no regular expression: Parsing error at position 1: Opening parenthesis without closing parenthesis
            rule 1, call 1: template `{{item}}` uses `item`, which nothing before it saves
            rule 1, call 1: template `{{fuond}}` uses `fuond`, which nothing before it saves
            rule 1, call 2: key `toll` is not known; did you mean `tool`?
            rule 1, call 2: `tool` is missing
            rule 1, call 3: `for_each` must be a template or a list
            rule 1, call 3: `arguments` must be a table
            rule 1, call 3: `on_error` is one of `fail` and `go-on`, not `stop`
            rule 1, call 3: `save` cannot be `item`, which has a meaning of its own
            rule 1, call 4: `tool` is a name and cannot hold a template
            rule 1, call 4: `{{prompt` is not closed by `}}`
            rule 1, call 4: `a-b` is no name: use letters, digits and `_`
            rule 1, call 5: this must be a table
            rule 2: `calls` must be a list
            rule 2: `reply` must be a text
            rule 2: template `{{match}}` uses `match`, which nothing before it saves
            rule 2: template `{{item}}` uses `item`, which nothing before it saves"#]];
        expected.assert_eq(&faults.join("\n"));
    }

    #[test]
    fn a_script_has_rules() {
        for script in [json!({}), json!({"rules": []})] {
            let faults = Script::read(&script).unwrap_err();
            assert_eq!(faults, ["a script needs at least one of `rules`"]);
        }
        assert_eq!(
            Script::read(&json!([])).unwrap_err(),
            ["this must be a table"]
        );
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
