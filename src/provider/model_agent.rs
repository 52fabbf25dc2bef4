//! An agent that asks a model: the model answers, calls tools, sees what they say, and answers again until it calls none.
//!
//! The tools are those of its envs, of its own sandbox, the agents that it may ask, and its skills. What goes wrong in a
//! tool is an answer that the model sees; only an env that is gone ends the conversation. It does not know where its model
//! is or what of it is kept.

mod parts;
mod tools;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::json::{Map, Value, from_slice, json};
use crate::step::agent::{Agent, AgentError, Prompt, Reply, Skill};
use crate::step::env::EnvError;
use crate::step::model::{
    ChatMessage, ChatReply, ChatRequest, Content, Finish, ModelError, Models, ToolCall, Usage,
};
use crate::step::sandbox::BoxFuture;
use tools::{Answered, Toolbox};

/// What stands in the place of an answer that the model has no room for.
const LEFT_OUT: &str =
    "[left out: the conversation is longer than you can read; call the tool again if you need it]";
/// How often the model may be asked for one reply, where nobody says it.
const MAX_TURNS: u64 = crate::task::deploy::MAX_TURNS;

/// An agent that asks a model.
pub struct ModelAgent {
    name: String,
    model: Option<String>,
    system_prompt: Option<String>,
    max_turns: u64,
    params: Map<String, Value>,
    models: Arc<dyn Models>,
}

impl ModelAgent {
    /// Returns the agent that its file and its table describe.
    pub fn new(name: &str, settings: &Value, models: Arc<dyn Models>) -> Self {
        let text = |key: &str| settings.get(key).and_then(Value::as_str).map(str::to_owned);
        let params = settings.get("params").and_then(Value::as_object);
        let max_turns = settings.get("max_turns").and_then(Value::as_u64);
        ModelAgent {
            name: name.to_owned(),
            model: text("model"),
            system_prompt: text("system_prompt"),
            max_turns: max_turns.unwrap_or(MAX_TURNS),
            params: params.cloned().unwrap_or_default(),
            models,
        }
    }
}

impl Agent for ModelAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        Box::pin(async move {
            let mut talk = Talk::default();
            let work = self.converse(&prompt, &mut talk);
            let done = tokio::time::timeout(prompt.timeout, work).await;
            let trajectory = talk.trajectory;
            let agent = self.name.clone();
            match done {
                Ok(Ok(reply)) => Ok(Reply {
                    trajectory,
                    ..reply
                }),
                Ok(Err(Fault::Env(error))) => Err(AgentError::Env(error)),
                Ok(Err(Fault::Model(error))) => Err(AgentError::Model {
                    agent,
                    error,
                    trajectory,
                }),
                Ok(Err(Fault::NotSetUp(message))) => Err(AgentError::Unreachable {
                    agent,
                    message,
                    trajectory,
                }),
                Ok(Err(Fault::Message(message))) => Err(AgentError::Failed {
                    agent,
                    message,
                    trajectory,
                }),
                Err(_) => Err(AgentError::TimedOut {
                    agent,
                    limit: prompt.timeout,
                    trajectory,
                }),
            }
        })
    }
}

/// Why there is no reply.
enum Fault {
    /// The agent fails with this message.
    Message(String),
    /// The agent cannot be asked.
    NotSetUp(String),
    /// The model gave no answer.
    Model(ModelError),
    /// An env is of no more use.
    Env(EnvError),
}

impl ModelAgent {
    async fn converse(&self, prompt: &Prompt, talk: &mut Talk) -> Result<Reply, Fault> {
        let settings = &prompt.settings;
        let Some(model) = settings.model.as_ref().or(self.model.as_ref()) else {
            let name = &self.name;
            return Err(Fault::NotSetUp(format!(
                "nothing says which model it asks; add `model` to [agents.{name}] of aebuild.toml, or to the step"
            )));
        };
        talk.messages = remembered(&prompt.memory).ok_or_else(|| {
            Fault::Message("what it remembers of the conversation is damaged".to_owned())
        })?;
        let own = settings
            .system_prompt
            .as_ref()
            .or(self.system_prompt.as_ref());
        let system = system(own.map(String::as_str), &settings.skills);
        if let Some(text) = &system {
            talk.note(json!({"role": "system", "content": text}));
        }
        talk.note(json!({"role": "user", "content": parts::shown(&prompt.parts)}));
        talk.messages
            .push(ChatMessage::User(parts::contents(&prompt.parts)));
        let toolbox = Toolbox::of(prompt).await.map_err(Fault::Env)?;
        let mut params = self.params.clone();
        params.extend(settings.model_params.clone());
        let max_turns = settings.max_turns.unwrap_or(self.max_turns);
        let tools = toolbox.declared();
        let mut n_asked = 0;
        while n_asked < max_turns {
            let request = ChatRequest {
                model: model.clone(),
                messages: system
                    .iter()
                    .map(|text| ChatMessage::System(text.clone()))
                    .chain(talk.messages.iter().cloned())
                    .collect(),
                tools: tools.clone(),
                output_schema: settings.output_schema.clone(),
                effort: settings.effort.clone(),
                max_thinking_tokens: settings.max_thinking_tokens,
                params: params.clone(),
            };
            let reply = match self.models.chat(request).await {
                Ok(reply) => reply,
                // It is asked again about less; each time there is less to leave out.
                Err(ModelError::TooLong { .. }) if talk.shorten() => continue,
                Err(error) => return Err(Fault::Model(error)),
            };
            n_asked += 1;
            talk.take(&reply);
            if reply.calls.is_empty() {
                return finish(reply, talk, settings.output_schema.is_some());
            }
            for call in &reply.calls {
                let answered = toolbox.answer(call).await.map_err(Fault::Env)?;
                talk.answered(call, answered);
            }
        }
        Err(Fault::Message(format!(
            "it asked its model {max_turns} times, as often as `max_turns` allows, and the model still calls tools"
        )))
    }
}

/// Ends a conversation whose model calls no more tools.
fn finish(reply: ChatReply, talk: &Talk, is_typed: bool) -> Result<Reply, Fault> {
    if reply.finish == Finish::Refusal {
        return Err(Fault::Message(match reply.text.trim() {
            "" => "its model refused to answer".to_owned(),
            text => format!("its model refused to answer: {text}"),
        }));
    }
    // Who has worked with tools may have nothing more to say.
    let has_worked = talk.tool_calls > 0 && reply.finish == Finish::Stop;
    if reply.text.trim().is_empty() && !has_worked {
        return Err(Fault::Message(match &reply.finish {
            Finish::Length => {
                "its model used up the longest answer that it may give before it said anything"
                    .to_owned()
            }
            Finish::Other(reason) => format!("its model gave an empty answer ({reason})"),
            _ => "its model gave an empty answer".to_owned(),
        }));
    }
    let structured = from_slice::<Value>(reply.text.trim().as_bytes()).ok();
    let messages: Vec<Value> = talk.messages.iter().map(ChatMessage::to_value).collect();
    Ok(Reply {
        structured: structured.filter(|_| is_typed),
        tool_calls: talk.tool_calls,
        memory: json!({"messages": messages}),
        usage: talk.usage,
        model: Some(reply.model).filter(|model| !model.is_empty()),
        text: reply.text,
        ..Reply::default()
    })
}

/// Reads what is remembered of the turns before; `None` where it is damaged.
fn remembered(memory: &Value) -> Option<Vec<ChatMessage>> {
    match memory {
        Value::Null => Some(Vec::new()),
        memory => {
            let messages = memory.get("messages")?.as_array()?;
            messages.iter().map(ChatMessage::from_value).collect()
        }
    }
}

/// Returns what the model is told before everything else.
fn system(own: Option<&str>, skills: &[Skill]) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    texts.extend(
        own.filter(|text| !text.trim().is_empty())
            .map(str::to_owned),
    );
    if !skills.is_empty() {
        let mut text = format!(
            "You have skills. Read one with the tool `{}` before you do what it is for:",
            tools::READ_SKILL
        );
        for skill in skills {
            text.push_str(&format!("\n- {}: {}", skill.name, skill.description));
        }
        texts.push(text);
    }
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// One prompt on its way to a reply.
#[derive(Default)]
struct Talk {
    messages: Vec<ChatMessage>,
    trajectory: Vec<Value>,
    tool_calls: u64,
    usage: Usage,
}

impl Talk {
    fn note(&mut self, moment: Value) {
        self.trajectory.push(moment);
    }

    /// Takes in what the model answered. Whether that was kept is not told: it changes nothing of what was done.
    fn take(&mut self, reply: &ChatReply) {
        self.usage.add(&reply.usage);
        self.tool_calls += reply.calls.len() as u64;
        let mut moment = json!({"role": "assistant", "content": reply.text, "model": reply.model});
        if !reply.calls.is_empty() {
            moment["tool_calls"] = reply.calls.iter().map(shown_call).collect();
        }
        if !matches!(reply.finish, Finish::Stop | Finish::Calls) {
            moment["finish"] = json!(match &reply.finish {
                Finish::Refusal => "refusal",
                Finish::Length => "length",
                Finish::Other(reason) => reason,
                Finish::Stop | Finish::Calls => "",
            });
        }
        moment["usage"] = json!({
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
        });
        self.note(moment);
        self.messages.push(ChatMessage::Assistant {
            text: reply.text.clone(),
            calls: reply.calls.clone(),
            kept: reply.kept.clone(),
        });
    }

    /// Leaves out the older half of what tools answered, and says whether there was anything to leave out.
    fn shorten(&mut self) -> bool {
        let answers = self
            .messages
            .iter_mut()
            .filter_map(|message| match message {
                ChatMessage::Tool { content, .. } => Some(content),
                _ => None,
            });
        let left_out = [Content::Text(LEFT_OUT.to_owned())];
        let mut answers: Vec<&mut Vec<Content>> =
            answers.filter(|content| content[..] != left_out).collect();
        let n = answers.len().div_ceil(2);
        for content in answers.iter_mut().take(n) {
            **content = left_out.to_vec();
        }
        if n > 0 {
            let what = format!(
                "the conversation is longer than the model reads: {n} earlier answers of tools are left out"
            );
            self.note(json!({"role": "note", "content": what}));
        }
        n > 0
    }

    fn answered(&mut self, call: &ToolCall, answered: Answered) {
        self.usage.add(&answered.usage);
        let mut moment = json!({
            "role": "tool", "id": call.id, "tool": call.name, "content": parts::text_of(&answered.content),
        });
        if answered.is_error {
            moment["is_error"] = json!(true);
        }
        if let Some(by) = answered.by {
            moment["by"] = json!(by);
        }
        self.note(moment);
        self.messages.push(ChatMessage::Tool {
            id: call.id.clone(),
            name: call.name.clone(),
            content: answered.content,
            is_error: answered.is_error,
        });
    }
}

fn shown_call(call: &ToolCall) -> Value {
    match &call.arguments {
        Ok(arguments) => json!({"id": call.id, "tool": call.name, "arguments": arguments}),
        Err(text) => json!({"id": call.id, "tool": call.name, "no_arguments": text}),
    }
}
