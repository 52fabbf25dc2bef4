use std::time::Duration;

use super::*;
use crate::provider::builtin;
use crate::step::env::{EnvServer, ExtensionCall};
use crate::step::sandbox::Put;

/// An env that is compiled in, as a step sees it but for roles and records.
struct Direct {
    env_id: String,
    server: Arc<dyn EnvServer>,
}

fn no<'a, T: Send + 'a>(env: &str, what: &str) -> BoxFuture<'a, Result<T, EnvError>> {
    Box::pin(std::future::ready(Err(EnvError::NotSupported {
        env: env.to_owned(),
        what: what.to_owned(),
    })))
}

impl LiveEnv for Direct {
    fn env_id(&self) -> &str {
        &self.env_id
    }

    fn info(&self) -> Value {
        self.server.info()
    }

    fn card(&self) -> Option<Value> {
        self.server.card()
    }

    fn in_role(&self, _role: &str) -> Arc<dyn LiveEnv> {
        env("kv", &self.env_id)
    }

    fn url(&self) -> BoxFuture<'_, Result<String, EnvError>> {
        no(&self.env_id, "be reached over HTTP")
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Value>, EnvError>> {
        Box::pin(async move {
            let listed = self.server.request("tools/list", json!({})).await?;
            let mut tools = listed["tools"].as_array().cloned().unwrap_or_default();
            tools.push(json!({"name": "vanish"}));
            Ok(tools)
        })
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        match tool {
            "wait" => Box::pin(std::future::pending()),
            "vanish" => Box::pin(std::future::ready(Err(EnvError::Gone {
                env: self.env_id.clone(),
                why: "it ended".to_owned(),
                tail: String::new(),
            }))),
            _ => {
                let params = json!({"name": tool, "arguments": arguments});
                self.server.request("tools/call", params)
            }
        }
    }

    fn request<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        self.server.request(method, params)
    }

    fn can_export(&self) -> bool {
        true
    }

    fn export(&self) -> BoxFuture<'_, Result<Vec<u8>, EnvError>> {
        self.server.export()
    }

    fn reset(&self) -> BoxFuture<'_, Result<(), EnvError>> {
        no(&self.env_id, "be emptied")
    }

    fn load(&self, parts: Vec<u8>) -> BoxFuture<'_, Result<(), EnvError>> {
        Box::pin(async move { self.server.import(&parts).await })
    }

    fn data_plane<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        self.server.data_plane(method, params)
    }

    fn extension(&self, call: ExtensionCall) -> BoxFuture<'_, Result<Value, EnvError>> {
        self.server.extension(call)
    }

    fn fetch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, EnvError>> {
        self.server.fetch(path)
    }

    fn set_access(&self, _role: &str, _tools: &[String], _on: bool) -> Result<Value, EnvError> {
        Ok(json!({"disabled": [], "allowed": []}))
    }

    fn put(&self, files: &[Put]) -> Result<(), EnvError> {
        self.server.put(files)
    }

    fn trajectory(&self) -> Result<Vec<u8>, EnvError> {
        Ok(Vec::new())
    }
}

pub(in crate::provider) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

pub(in crate::provider) fn env(name: &str, env_id: &str) -> Arc<dyn LiveEnv> {
    Arc::new(Direct {
        env_id: env_id.to_owned(),
        server: builtin::start(name, env_id).unwrap(),
    })
}

pub(in crate::provider) fn mail() -> Arc<dyn LiveEnv> {
    let mail = env("mail", "email");
    let state = json!([{"kind": "data", "data": {"emails": [
        {"email_id": "a", "sender": "dana@x.org", "subject": "Friday"},
        {"email_id": "b", "sender": "lee@x.org", "subject": "Lunch"},
        {"email_id": "c", "sender": "dana@x.org", "subject": "Rooms"},
    ]}}]);
    block_on(mail.load(state.to_string().into_bytes())).unwrap();
    mail
}

fn prompted(rules: Value, prompt: &str, envs: &[Arc<dyn LiveEnv>]) -> Result<Reply, AgentError> {
    let agent = ScriptedAgent {
        name: "clerk".to_owned(),
        script: Script::read(&json!({"rules": rules})).unwrap(),
    };
    assert_eq!(agent.name(), "clerk");
    block_on(agent.prompt(Prompt {
        envs: envs.to_vec(),
        ..Prompt::of(prompt, Duration::from_secs(60))
    }))
}

fn failed(rules: Value, prompt: &str, envs: &[Arc<dyn LiveEnv>]) -> String {
    prompted(rules, prompt, envs).unwrap_err().to_string()
}

#[test]
fn a_prompt_is_answered_with_what_the_tools_said() {
    let mail = mail();
    let rules = json!([{
        "prompt": r"(?i)reply to (\w+)",
        "calls": [
            {"tool": "search_emails", "arguments": {"query": "from:{{match.1}}"}, "save": "found"},
            {
                "env": "email", "tool": "reply_to_email", "save": "sent",
                "arguments": {"email_id": "{{found.emails[0].email_id}}", "content": "Yes."},
            },
        ],
        "reply": "I answered {{found.emails[0].subject}}, of {{found.total}}.",
        "structured": {"ids": "{{found.emails[*].email_id}}", "total": "{{found.total}}"},
    }]);
    let reply = prompted(
        rules.clone(),
        "Reply to Dana!",
        &[mail.clone(), env("kv", "kv")],
    );
    assert_eq!(
        reply.unwrap_err().to_string(),
        "agent `clerk` failed: rule 1, call 1: `search_emails` needs an env that is named; the agent has `email`, `kv`"
    );
    let reply = prompted(rules, "Reply to Dana!", std::slice::from_ref(&mail)).unwrap();
    assert_eq!(reply.text, "I answered Rooms, of 2.");
    assert_eq!(
        reply.structured,
        Some(json!({"ids": ["c", "a"], "total": 2}))
    );
    assert_eq!(reply.tool_calls, 2);
    let roles = reply
        .trajectory
        .iter()
        .map(|moment| moment["role"].as_str().unwrap());
    let roles: Vec<&str> = roles.collect();
    assert_eq!(
        roles,
        [
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant"
        ]
    );
    assert_eq!(
        reply.trajectory[3],
        json!({"role": "assistant", "tool_calls": [{
            "env": "email", "tool": "reply_to_email", "arguments": {"email_id": "c", "content": "Yes."},
        }]})
    );
    assert_eq!(
        reply.trajectory[4]["content"]["structuredContent"]["subject"],
        "Re: Rooms"
    );
    let state = String::from_utf8(block_on(mail.export()).unwrap()).unwrap();
    assert!(state.contains("Re: Rooms"), "{state}");
}

#[test]
fn a_call_is_made_for_each_item_or_left_out() {
    let mail = mail();
    let rules = json!([{
        "calls": [
            {"tool": "search_emails", "arguments": {"query": "from:{{prompt}}"}, "save": "found"},
            {
                "tool": "move_email", "for_each": "{{found.emails}}", "save": "moved",
                "when": "{{item.subject}}",
                "arguments": {"email_id": "{{item.email_id}}", "folder": "done"},
            },
            {"tool": "no_such_tool", "when": "{{moved[0]}}"},
        ],
        "reply": "{{moved}}",
    }]);
    let none = prompted(rules.clone(), "kim", std::slice::from_ref(&mail)).unwrap();
    assert_eq!((none.text.as_str(), none.tool_calls), ("[]", 1));
    let said = failed(rules, "dana", &[mail]);
    assert!(
        said.contains("rule 1, call 3: `no_such_tool`: env `email` answered"),
        "{said}"
    );
}

#[test]
fn a_tool_that_fails_ends_the_prompt_unless_the_script_goes_on() {
    let calls = |on_error: &str| {
        json!([{
            "calls": [{"tool": "get_email_by_id", "arguments": {"email_id": "z"}, "save": "x", "on_error": on_error}],
            "reply": "It says: {{x}}",
        }])
    };
    let envs = [mail()];
    let error = prompted(calls("fail"), "?", &envs).unwrap_err();
    let AgentError::Failed {
        message,
        trajectory,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        message,
        "rule 1, call 1: `get_email_by_id`: there is no email `z`"
    );
    assert_eq!(trajectory.len(), 3);
    let reply = prompted(calls("go-on"), "?", &envs).unwrap();
    assert_eq!(reply.text, "It says: there is no email `z`");
}

#[test]
fn a_script_can_fail_on_purpose_after_its_calls() {
    let envs = [env("kv", "kv")];
    let rules = json!([{
        "calls": [{"tool": "increment", "arguments": {"key": "n"}, "save": "n"}],
        "fail": "attempt {{n.value}} of {{prompt}}",
    }]);
    assert_eq!(
        failed(rules.clone(), "x", &envs),
        "agent `clerk` failed: attempt 1 of x"
    );
    assert_eq!(
        failed(rules, "x", &envs),
        "agent `clerk` failed: attempt 2 of x"
    );
}

#[test]
fn what_a_script_has_no_answer_for_is_said() {
    let rules = json!([{"prompt": "^hello"}, {"prompt": "bye$"}]);
    assert_eq!(
        failed(rules, "what?", &[]),
        "agent `clerk` failed: no rule of its script is for this prompt; the script knows prompts with `^hello`, `bye$`"
    );
    let rules = json!([{"calls": [{"tool": "get", "env": "db"}]}]);
    assert_eq!(
        failed(rules, "", &[]),
        "agent `clerk` failed: rule 1, call 1: there is no env `db`; the agent has none"
    );
    let rules = json!([{
        "calls": [{"tool": "get", "arguments": {"key": "a"}, "save": "a"}],
        "reply": "{{a.value.b}}",
    }]);
    assert_eq!(
        failed(rules, "", &[env("kv", "kv")]),
        "agent `clerk` failed: rule 1: template `{{a.value.b}}` finds nothing"
    );
}

#[test]
fn an_env_that_is_gone_is_no_fault_of_the_agent() {
    let rules = json!([{"calls": [{"tool": "vanish", "on_error": "go-on"}]}]);
    let error = prompted(rules, "", &[env("kv", "kv")]).unwrap_err();
    assert!(
        matches!(error, AgentError::Env(EnvError::Gone { .. })),
        "{error}"
    );
}

#[test]
fn a_prompt_ends_at_its_time_limit() {
    let script = Script::read(&json!({"rules": [{"calls": [{"tool": "wait"}]}]})).unwrap();
    let name = "clerk".to_owned();
    let agent = ScriptedAgent { name, script };
    let error = block_on(agent.prompt(Prompt {
        envs: vec![env("kv", "kv")],
        ..Prompt::of("", Duration::ZERO)
    }));
    assert_eq!(
        error.unwrap_err().to_string(),
        "agent `clerk` gave no answer within 0 s"
    );
}
