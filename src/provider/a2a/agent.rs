//! An agent that is reached over A2A, as steps prompt it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;

use super::client::{Answer, Ports};
use super::extensions::{self, Taught};
use super::{Client, Fault, Running};
use crate::digest::{Digest, Digester};
use crate::json::{Value, json};
use crate::step::a2a::{Content, Message, Part, Role, State, Task, plain_parts, read_parts};
use crate::step::agent::{Agent, AgentError, Prompt, Reply, text_part};
use crate::step::model::Usage;
use crate::step::sandbox::BoxFuture;
use crate::system::locked;

/// An agent that is reached over A2A.
pub struct A2aAgent {
    name: String,
    client: Arc<Client>,
    /// What runs it for aebuild alone.
    running: Option<Running>,
    /// What it was told besides messages.
    lessons: Arc<Lessons>,
    /// The conversations, by the id that a prompt gives and its attempt: an agent that runs already may know the id from
    /// an earlier run, so it hears another.
    contexts: Mutex<HashMap<(String, u32), String>>,
    /// What was said so far, by it and to it; `None` where nothing was.
    history: Mutex<Option<Digest>>,
}

/// What an agent was told besides messages, which several may share that reach the same agent.
pub struct Lessons {
    taught: AsyncMutex<Taught>,
    /// By what name it is given addresses, which is nobody else's.
    holder: String,
}

impl Lessons {
    /// Returns what an agent was told that was told nothing.
    pub fn none() -> Result<Self, String> {
        Ok(Lessons {
            taught: AsyncMutex::default(),
            holder: fresh_id()?,
        })
    }
}

impl A2aAgent {
    /// Connects to an agent that runs already.
    pub async fn connect(name: &str, url: &str) -> Result<Self, AgentError> {
        let client = Client::connect(url, Ports::AsSaid).await;
        let agent = client.map_err(|fault| fault.text());
        let agent = agent.and_then(|client| Self::of(name, client, None));
        agent.map_err(|why| unreachable(name, why, Vec::new()))
    }

    pub(super) fn of(name: &str, client: Client, running: Option<Running>) -> Result<Self, String> {
        Ok(A2aAgent {
            name: name.to_owned(),
            client: Arc::new(client),
            running,
            lessons: Arc::new(Lessons::none()?),
            contexts: Mutex::default(),
            history: Mutex::default(),
        })
    }

    /// Returns the agent as one that was told this.
    pub fn with(self, lessons: Arc<Lessons>) -> Self {
        A2aAgent { lessons, ..self }
    }

    /// Returns whether it can be told anything besides messages: it knows what it was told last, so only one prompt at a
    /// time may be with it.
    pub fn is_taught(&self) -> bool {
        extensions::is_taught(&self.client)
    }

    /// Returns the card.
    pub fn card(&self) -> Value {
        self.client.card().whole.clone()
    }

    /// Returns whether the agent can be prompted again, as far as is known.
    pub fn is_up(&self) -> bool {
        self.running.as_ref().is_none_or(Running::is_up)
    }

    /// Returns the digest of all that was said, by it and to it; `None` where nothing was.
    pub fn history(&self) -> Option<Digest> {
        *locked(&self.history)
    }

    /// Notes what was said. Of an agent that runs already only conversations count with which later steps may go on: each
    /// of the others begins anew.
    fn remember(&self, prompt: &Prompt, said: &Value) {
        if self.running.is_none() && !prompt.lasts {
            return;
        }
        let mut history = locked(&self.history);
        let mut digester = Digester::new("what an agent heard");
        if let Some(before) = history.as_ref() {
            digester.digest(before);
        }
        digester.value(said);
        *history = Some(digester.finish());
    }

    /// Ends the agent where it runs for aebuild alone.
    pub async fn stop(&self) {
        if let Some(running) = &self.running {
            running.stop().await;
        }
    }

    async fn ask(&self, prompt: &Prompt, open: &Open) -> Result<Reply, AgentError> {
        let failed = |why: String| failed(&self.name, why, said(prompt));
        let faulty = |fault: Fault| {
            *locked(&open.is_lost) = matches!(fault, Fault::Nobody(_) | Fault::Broken(_));
            match fault {
                Fault::Refused { .. } => failed(fault.text()),
                // Nothing of it is what the agent says.
                _ => unreachable(&self.name, fault.text(), said(prompt)),
            }
        };
        let notes = {
            let Lessons { taught, holder } = &*self.lessons;
            let mut taught = taught.lock().await;
            let names = (self.name.as_str(), holder.as_str());
            extensions::teach(&self.client, names, prompt, &mut taught).await?
        };
        let text = |key: &str| Some(prompt.memory.get(key)?.as_str()?.to_owned());
        let context_id = match text("contextId") {
            Some(id) => id,
            None => self.context(prompt).map_err(failed)?,
        };
        let message = Message {
            id: fresh_id().map_err(failed)?,
            role: Role::User,
            parts: read_parts(&prompt.parts),
            context_id: Some(context_id),
            task_id: text("taskId"),
        };
        if message.parts.is_empty() {
            return Err(failed(
                "the prompt has no part that it could be sent".into(),
            ));
        }
        // The ids are by chance, and tell nothing.
        self.remember(prompt, &json!(plain_parts(&message.parts)));
        let sent = self.client.send(&message).await;
        let end = match sent.map_err(faulty)? {
            Answer::Message(answer) => Task {
                id: String::new(),
                context_id: answer.context_id.clone(),
                state: State::Completed,
                message: Some(answer),
                artifacts: Vec::new(),
                history: Vec::new(),
            },
            Answer::Task(task) => {
                *locked(&open.task) = Some(task.id.clone());
                let end = self.client.follow(task).await;
                if end.is_ok() {
                    *locked(&open.task) = None;
                }
                end.map_err(faulty)?
            }
        };
        let mut trajectory = notes;
        trajectory.extend(said(prompt));
        let own = extensions::trajectory(&self.client, &end).await;
        let end = End::of(&end, message.context_id);
        self.remember(prompt, &json!(end.parts));
        if own.is_empty() {
            trajectory.push(json!({"role": "assistant", "content": end.text, "parts": end.parts}));
        } else {
            trajectory.extend(own);
        }
        end.reply(&self.name, prompt, trajectory)
    }

    /// Returns the id by which the agent knows a conversation.
    fn context(&self, prompt: &Prompt) -> Result<String, String> {
        let fresh = fresh_id()?;
        let key = (prompt.context_id.clone(), prompt.attempt);
        Ok(locked(&self.contexts).entry(key).or_insert(fresh).clone())
    }
}

impl Agent for A2aAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        self.prompt_in_turn(prompt, Box::new(()))
    }
}

impl A2aAgent {
    /// Asks the agent and waits for its answer; `turn` is dropped when the agent works on it no more.
    pub fn prompt_in_turn(
        &self,
        prompt: Prompt,
        turn: Box<dyn Any + Send + Sync>,
    ) -> BoxFuture<'_, Result<Reply, AgentError>> {
        Box::pin(async move {
            let open = Open {
                client: self.client.clone(),
                task: Mutex::default(),
                is_lost: Mutex::default(),
                turn: Some(turn),
            };
            let gone = async {
                match &self.running {
                    Some(running) => running.ended().await,
                    None => std::future::pending().await,
                }
            };
            let limit = prompt.timeout;
            let asked = tokio::select! {
                biased;
                answer = tokio::time::timeout(limit, self.ask(&prompt, &open)) => answer,
                why = gone => {
                    // It cannot be told to give up any more.
                    *locked(&open.task) = None;
                    return Err(unreachable(&self.name, why, said(&prompt)));
                }
            };
            match asked {
                Ok(Err(AgentError::Unreachable {
                    agent,
                    message,
                    trajectory,
                })) => {
                    let message = match &self.running {
                        // It ends a moment after its connections.
                        Some(running) if *locked(&open.is_lost) => running.explained(message).await,
                        _ => message,
                    };
                    Err(AgentError::Unreachable {
                        agent,
                        message,
                        trajectory,
                    })
                }
                Ok(answer) => answer,
                Err(_) => {
                    let task = locked(&open.task).take();
                    if let Some(task) = task {
                        self.client.cancel(&task).await;
                    }
                    let agent = self.name.clone();
                    Err(AgentError::TimedOut {
                        agent,
                        limit,
                        trajectory: Vec::new(),
                    })
                }
            }
        })
    }
}

/// A task that the agent works on. Where nobody waits for it any more, the agent is told to give it up.
struct Open {
    client: Arc<Client>,
    task: Mutex<Option<String>>,
    /// Whether the agent could not be reached in the end.
    is_lost: Mutex<bool>,
    turn: Option<Box<dyn Any + Send + Sync>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let task = locked(&self.task).take();
        if let (Some(task), Ok(runtime)) = (task, tokio::runtime::Handle::try_current()) {
            let (client, turn) = (self.client.clone(), self.turn.take());
            runtime.spawn(async move {
                client.cancel(&task).await;
                drop(turn);
            });
        }
    }
}

fn failed(agent: &str, message: String, trajectory: Vec<Value>) -> AgentError {
    AgentError::Failed {
        agent: agent.to_owned(),
        message,
        trajectory,
    }
}

fn unreachable(agent: &str, message: String, trajectory: Vec<Value>) -> AgentError {
    AgentError::Unreachable {
        agent: agent.to_owned(),
        message,
        trajectory,
    }
}

/// Returns what was said to the agent, as its trajectory has it.
fn said(prompt: &Prompt) -> Vec<Value> {
    let is_text = |part: &Value| part.get("text").is_some();
    if prompt.parts.iter().all(is_text) {
        return vec![json!({"role": "user", "content": prompt.text()})];
    }
    vec![json!({"role": "user", "content": prompt.text(), "parts": prompt.parts})]
}

/// Returns an id that nobody has had.
fn fresh_id() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| format!("this machine gives no random numbers: {error}"))?;
    Ok(format!("{:032x}", u128::from_le_bytes(random)))
}

/// How a task ended.
struct End {
    state: State,
    text: String,
    parts: Vec<Value>,
    /// The typed values that it says at its end.
    data: Vec<Value>,
    memory: Value,
}

impl End {
    fn of(task: &Task, context_id: Option<String>) -> End {
        let said = task.said();
        let texts = |parts: &[Part]| -> Vec<String> {
            let texts = parts.iter().filter_map(|part| match &part.content {
                Content::Text(text) => Some(text.clone()),
                _ => None,
            });
            texts.collect()
        };
        // Of a message the last text counts; of what was made, all of them.
        let message = task.message.as_ref();
        let last = message.and_then(|message| texts(&message.parts).pop());
        let text = last.unwrap_or_else(|| texts(&said).join("\n"));
        let data = said.iter().filter_map(|part| match &part.content {
            Content::Data(data) => Some(data.clone()),
            _ => None,
        });
        let mut memory = json!({"contextId": task.context_id.clone().or(context_id)});
        if task.state.waits() {
            memory["taskId"] = json!(task.id);
        }
        End {
            state: task.state,
            text,
            data: data.collect(),
            parts: plain_parts(&said),
            memory,
        }
    }

    /// Returns the last value of a member that the agent says at the end.
    fn find(&self, pointer: &str) -> Option<&Value> {
        let found = self
            .data
            .iter()
            .rev()
            .find_map(|data| data.pointer(pointer));
        found.filter(|value| !value.is_null())
    }

    fn reply(
        self,
        agent: &str,
        prompt: &Prompt,
        trajectory: Vec<Value>,
    ) -> Result<Reply, AgentError> {
        match self.state {
            State::Failed => {
                return Err(failed(agent, self.why(), trajectory));
            }
            State::AuthRequired => {
                let why = format!("it wants to know who asks (auth-required): {}", self.text);
                return Err(failed(agent, why, trajectory));
            }
            _ => {}
        }
        let number = |pointer: &str| self.find(pointer).and_then(Value::as_u64);
        let usage = Usage {
            requests: number("/usage/requests").unwrap_or(0),
            retried: 0,
            cached: 0,
            input_tokens: number("/usage/input_tokens").or_else(|| number("/input_tokens")),
            output_tokens: number("/usage/output_tokens").or_else(|| number("/output_tokens")),
            cost_usd: self.find("/usage/cost_usd").and_then(Value::as_f64),
        };
        let model = self.find("/model").and_then(Value::as_str);
        let is_more = self.parts != [text_part(&self.text)] && !self.parts.is_empty();
        Ok(Reply {
            tool_calls: number("/tool_call_count")
                .or_else(|| number("/usage/tool_call_count"))
                .unwrap_or(0),
            structured: self.find("/structured_output").cloned(),
            model: model
                .map(str::to_owned)
                .or_else(|| prompt.settings.model.clone()),
            parts: if is_more { self.parts } else { Vec::new() },
            text: self.text,
            trajectory,
            memory: self.memory,
            usage,
        })
    }

    /// Returns what a failed agent says.
    fn why(&self) -> String {
        let text = |pointer: &str| self.find(pointer).and_then(Value::as_str);
        let mut why = match text("/error_message") {
            Some(message) if !self.text.contains(message) && self.text.is_empty() => {
                message.to_owned()
            }
            Some(message) if !self.text.contains(message) => format!("{}: {message}", self.text),
            _ if self.text.is_empty() => "it does not say why".to_owned(),
            _ => self.text.clone(),
        };
        let marks = ["error_type", "error_code", "error_class"];
        let marks = marks.iter().filter_map(|mark| {
            let value = self.find(&format!("/{mark}"))?;
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            Some(format!("{mark}={value}"))
        });
        let marks: Vec<String> = marks.collect();
        if !marks.is_empty() {
            why.push_str(&format!(" ({})", marks.join(", ")));
        }
        why
    }
}

/// How long what runs an agent may take to be seen to have ended.
pub(super) const MOMENT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
