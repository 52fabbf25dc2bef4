//! An agent that does what its script says, and needs no model.
//!
//! It calls the tools of its envs in order, keeps what they answer for the templates of the script, and tells what it did.
//! It does not know where the script was written or where an env runs.

use std::sync::Arc;

use super::own_tools;
use crate::json::{Map, Value, json};
use crate::step::agent::{Agent, AgentError, Peer, Prompt, Reply};
use crate::step::env::{EnvError, LiveEnv, answer_of, tool_error, tool_result};
use crate::step::sandbox::{BoxFuture, Sandbox};
use crate::task::deploy::OWN_SANDBOX;
use crate::task::script::{Call, Callee, OnError, Script};

/// An agent that does what its script says.
#[derive(Clone, Debug)]
pub struct ScriptedAgent {
    /// The `agent_name`.
    pub name: String,
    /// What it does.
    pub script: Script,
}

impl Agent for ScriptedAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        Box::pin(async move {
            let limit = prompt.timeout;
            let agent = self.name.clone();
            match tokio::time::timeout(limit, self.act(prompt)).await {
                Ok(answer) => answer,
                Err(_) => Err(AgentError::TimedOut {
                    agent,
                    limit,
                    trajectory: Vec::new(),
                }),
            }
        })
    }
}

impl ScriptedAgent {
    async fn act(&self, prompt: Prompt) -> Result<Reply, AgentError> {
        let text = prompt.text();
        let mut act = Act {
            scope: json!({"prompt": text, "turn": prompt.turn}),
            trajectory: vec![json!({"role": "user", "content": text})],
            tool_calls: 0,
            envs: prompt.envs,
            sandbox: prompt.sandbox,
            peers: prompt.peers,
        };
        let at = (prompt.turn, prompt.attempt);
        let done = self.follow(&text, at, &mut act).await;
        let (text, structured) = match done {
            Ok(done) => done,
            Err(Fault::Env(error)) => return Err(AgentError::Env(error)),
            Err(Fault::Message(message)) => {
                return Err(AgentError::Failed {
                    agent: self.name.clone(),
                    message,
                    trajectory: act.trajectory,
                });
            }
        };
        act.trajectory
            .push(json!({"role": "assistant", "content": text}));
        Ok(Reply {
            text,
            tool_calls: act.tool_calls,
            structured,
            trajectory: act.trajectory,
            ..Reply::default()
        })
    }

    async fn follow(
        &self,
        prompt: &str,
        (turn, attempt): (u64, u32),
        act: &mut Act,
    ) -> Result<(String, Option<Value>), Fault> {
        let Some(found) = self.script.find(prompt, turn, attempt)? else {
            return Err(Fault::Message(self.no_rule()));
        };
        let ix = found.rule_ix;
        let rule = &self.script.rules[ix];
        if rule.prompt.is_some() {
            act.scope["match"] = Value::Object(found.groups);
        }
        let tested = rule
            .tested(prompt)
            .map_err(|why| format!("rule {}: {why}", ix + 1))?;
        for (name, found) in tested {
            act.scope[name] = found;
        }
        for (call_ix, call) in rule.calls.iter().enumerate() {
            let at = format!("rule {}, call {}", ix + 1, call_ix + 1);
            act.repeat(call, &at).await?;
        }
        let at = |why: String| format!("rule {}: {why}", ix + 1);
        if let Some(fail) = &rule.fail {
            return Err(Fault::Message(fail.fill_text(&act.scope).map_err(at)?));
        }
        let structured = rule.structured.as_ref();
        let structured = structured.map(|value| value.fill(&act.scope)).transpose();
        let text = rule.reply.fill_text(&act.scope).map_err(at)?;
        Ok((text, structured.map_err(at)?))
    }

    fn no_rule(&self) -> String {
        let patterns = self.script.rules.iter().filter_map(|rule| {
            let pattern = rule.prompt.as_ref()?;
            Some(format!("`{}`", pattern.as_str()))
        });
        let patterns: Vec<String> = patterns.collect();
        format!(
            "no rule of its script is for this prompt; the script knows prompts with {}",
            patterns.join(", ")
        )
    }
}

/// Why an agent cannot go on.
enum Fault {
    /// It fails with this message.
    Message(String),
    /// An env is of no more use.
    Env(EnvError),
}

impl Fault {
    /// Returns the fault with the call at which it came up.
    fn at(self, at: &str) -> Self {
        match self {
            Fault::Message(message) => Fault::Message(format!("{at}: {message}")),
            env => env,
        }
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Fault::Message(message)
    }
}

/// One prompt on its way to an answer.
struct Act {
    /// What templates see.
    scope: Value,
    trajectory: Vec<Value>,
    tool_calls: u64,
    envs: Vec<Arc<dyn LiveEnv>>,
    sandbox: Option<Arc<dyn Sandbox>>,
    peers: Vec<Peer>,
}

impl Act {
    /// Makes a call, for each item of its list where it has one.
    async fn repeat(&mut self, call: &Call, at: &str) -> Result<(), Fault> {
        let Some(list) = &call.for_each else {
            if let (Some(answer), Some(name)) = (self.once(call, at).await?, &call.save) {
                self.scope[name] = answer;
            }
            return Ok(());
        };
        let items = list.fill_list(&self.scope);
        let items = items.map_err(|why| format!("{at}: {why}"))?;
        let mut answers = Vec::new();
        for item in items {
            self.scope["item"] = item;
            answers.extend(self.once(call, at).await?);
        }
        if let Some(scope) = self.scope.as_object_mut() {
            scope.remove("item");
        }
        if let Some(name) = &call.save {
            self.scope[name] = Value::Array(answers);
        }
        Ok(())
    }

    /// Makes one call and returns the answer; `None` where it is left out.
    async fn once(&mut self, call: &Call, at: &str) -> Result<Option<Value>, Fault> {
        if call
            .when
            .as_ref()
            .is_some_and(|when| !when.holds(&self.scope))
        {
            return Ok(None);
        }
        let (name, result) = match &call.to {
            Callee::Tool {
                env,
                tool,
                arguments,
            } => {
                let arguments = arguments.fill(&self.scope);
                let arguments = match arguments.map_err(|why| format!("{at}: {why}"))? {
                    Value::Object(arguments) => arguments,
                    _ => Map::new(),
                };
                let result = self.use_tool(env.as_deref(), tool, arguments).await;
                (tool, result.map_err(|fault| fault.at(at))?)
            }
            Callee::Peer { name, message } => {
                let message = message.fill_text(&self.scope);
                let message = message.map_err(|why| format!("{at}: {why}"))?;
                let result = self.ask_peer(name, &message).await;
                (name, result.map_err(|fault| fault.at(at))?)
            }
        };
        self.trajectory
            .push(json!({"role": "tool", "tool": name, "content": result}));
        let answer = answer_of(&result);
        if result["isError"] == true && call.on_error == OnError::Fail {
            let text = answer.as_str().map_or(answer.to_string(), str::to_owned);
            return Err(Fault::Message(format!("{at}: `{name}`: {text}")));
        }
        Ok(Some(answer))
    }

    /// Calls a tool of an env or of the agent's own sandbox.
    async fn use_tool(
        &mut self,
        env: Option<&str>,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, Fault> {
        self.tool_calls += 1;
        if env == Some(OWN_SANDBOX) && !self.envs.iter().any(|env| env.env_id() == OWN_SANDBOX) {
            let Some(sandbox) = self.sandbox.clone() else {
                return Err(Fault::Message("the agent has no sandbox".to_owned()));
            };
            self.tell(OWN_SANDBOX, tool, &arguments);
            return Ok(own_tools::call(&*sandbox, tool, &arguments).await);
        }
        let env = self.env(env, tool)?;
        self.tell(env.env_id(), tool, &arguments);
        match env.call(tool, arguments).await {
            Ok(result) => Ok(result),
            Err(error) if error.is_fatal() => Err(Fault::Env(error)),
            Err(error) => Ok(tool_error(&error.to_string())),
        }
    }

    fn tell(&mut self, env: &str, tool: &str, arguments: &Map<String, Value>) {
        self.trajectory
            .push(json!({"role": "assistant", "tool_calls": [
                {"env": env, "tool": tool, "arguments": arguments},
            ]}));
    }

    /// Asks another agent; what it says is the answer.
    async fn ask_peer(&mut self, name: &str, message: &str) -> Result<Value, Fault> {
        let Some(peer) = self.peers.iter().find(|peer| peer.name == name).cloned() else {
            let names: Vec<String> = self
                .peers
                .iter()
                .map(|peer| format!("`{}`", peer.name))
                .collect();
            let has = match names.len() {
                0 => "it may ask none".to_owned(),
                _ => format!("it may ask {}", names.join(", ")),
            };
            return Err(Fault::Message(format!(
                "the agent may not ask `{name}`; {has}"
            )));
        };
        self.trajectory
            .push(json!({"role": "assistant", "peer": name, "content": message}));
        match peer.line.ask(message).await {
            Ok(reply) => {
                let mut said = json!({"text": reply.text});
                if let Some(structured) = reply.structured {
                    said["structured"] = structured;
                }
                Ok(tool_result(&said))
            }
            Err(AgentError::Env(error)) => Err(Fault::Env(error)),
            Err(error) => Ok(tool_error(&error.to_string())),
        }
    }

    fn env(&self, named: Option<&str>, tool: &str) -> Result<Arc<dyn LiveEnv>, String> {
        let names: Vec<String> = self
            .envs
            .iter()
            .map(|env| format!("`{}`", env.env_id()))
            .collect();
        let has = match names.len() {
            0 => "the agent has none".to_owned(),
            _ => format!("the agent has {}", names.join(", ")),
        };
        match (named, &self.envs[..]) {
            (None, [env]) => Ok(env.clone()),
            (None, _) => Err(format!("`{tool}` needs an env that is named; {has}")),
            (Some(name), envs) => {
                let found = envs.iter().find(|env| env.env_id() == name).cloned();
                found.ok_or_else(|| format!("there is no env `{name}`; {has}"))
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
