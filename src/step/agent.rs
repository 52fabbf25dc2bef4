//! What a step may ask of an agent.

use std::sync::Arc;
use std::time::Duration;

use super::env::{EnvError, LiveEnv};
use super::model::{ModelError, Usage};
use super::sandbox::{BoxFuture, Sandbox};
use crate::json::{Map, Value, json};

/// What an agent is asked.
#[derive(Clone)]
pub struct Prompt {
    /// The parts of the message, as A2A 0.3 has them: `{"kind": "text", "text": ".."}` and so on.
    pub parts: Vec<Value>,
    /// The conversation that it belongs to.
    pub context_id: String,
    /// Whether later steps may go on with the conversation.
    pub lasts: bool,
    /// Which turn of the conversation it is, the first being 1.
    pub turn: u64,
    /// What the agent left of the turns before, see [`Reply::memory`]; null at the first.
    pub memory: Value,
    /// The envs that the agent is connected to, by `env_id`, each under the agent's role.
    pub envs: Vec<Arc<dyn LiveEnv>>,
    /// The agent's own sandbox.
    pub sandbox: Option<Arc<dyn Sandbox>>,
    /// The agents that it may ask.
    pub peers: Vec<Peer>,
    /// How it is to work.
    pub settings: PromptSettings,
    /// Who waits for the answer besides the step.
    pub behind: Behind,
    /// Which attempt of the step this is, the first being 1.
    pub attempt: u32,
    /// How long the agent may take.
    pub timeout: Duration,
}

impl Prompt {
    /// Returns a prompt of a text, the first of its conversation, for an agent that has nothing.
    pub fn of(text: &str, timeout: Duration) -> Self {
        Prompt {
            parts: vec![text_part(text)],
            context_id: "context".to_owned(),
            lasts: false,
            turn: 1,
            memory: Value::Null,
            envs: Vec::new(),
            sandbox: None,
            peers: Vec::new(),
            settings: PromptSettings::default(),
            behind: Behind::default(),
            attempt: 1,
            timeout,
        }
    }

    /// Returns the text of the message.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// Who waits for the answer to a prompt besides the step in whose name it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// The agents that ask each other, the first being the one that the step asks.
    pub agents: Vec<String>,
    /// Whether a call of an env is answered only after it, and so whoever made that call waits too.
    pub by_call: bool,
}

/// How an agent is to work, as far as it can: what it cannot is passed over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptSettings {
    /// The model, in place of the agent's own.
    pub model: Option<String>,
    /// Parameters of the model.
    pub model_params: Map<String, Value>,
    /// How hard the model tries.
    pub effort: Option<String>,
    /// How much it may think, in tokens.
    pub max_thinking_tokens: Option<u64>,
    /// What the agent is told before the conversation.
    pub system_prompt: Option<String>,
    /// How often it may go back to its model.
    pub max_turns: Option<u64>,
    /// The JSON Schema of a typed reply.
    pub output_schema: Option<Value>,
    /// Skills: each a name, a description and the text.
    pub skills: Vec<Skill>,
}

/// Something that an agent can read up on.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    /// The name.
    pub name: String,
    /// When it is of use.
    pub description: String,
    /// The text.
    pub body: String,
}

/// An agent that another may ask.
#[derive(Clone)]
pub struct Peer {
    /// Its `agent_name`.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Takes a message to it.
    pub line: Arc<dyn PeerLine>,
}

/// The way to an agent that another may ask.
pub trait PeerLine: Send + Sync {
    /// Sends a message and waits for the reply; messages of one line are one conversation.
    fn ask<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Reply, AgentError>>;

    /// Returns the address at which a program reaches it over A2A; `None` where it has none.
    fn url(&self) -> BoxFuture<'_, Result<Option<String>, AgentError>> {
        Box::pin(async { Ok(None) })
    }
}

/// An agent as those who reach it over A2A have it. Whoever drops the future of an answer has given it up.
pub trait AgentDoor: Send + Sync {
    /// Returns the `agent_name`.
    fn name(&self) -> &str;

    /// Returns what it is.
    fn description(&self) -> &str;

    /// Sends the next message of a conversation and waits for the reply.
    fn ask<'a>(
        &'a self,
        context_id: &'a str,
        parts: Vec<Value>,
    ) -> BoxFuture<'a, Result<Reply, AgentError>>;

    /// Returns whether it can be connected to envs from outside.
    fn takes_envs(&self) -> bool {
        false
    }

    /// Connects it from the next message on to the env that serves MCP at an address; the error says why it cannot be.
    fn connect(&self, env_id: &str, url: &str) -> Result<(), String> {
        let _ = url;
        Err(format!("it cannot be connected to env `{env_id}`"))
    }
}

/// Gives agents addresses.
pub trait Doors: Send + Sync {
    /// Opens a door and returns the address at which the agent behind it is asked over A2A. It works until the step ends.
    fn open(&self, door: Arc<dyn AgentDoor>) -> BoxFuture<'_, Result<String, AgentError>>;
}

/// Where no agent can be given an address.
pub struct NoDoors;

impl Doors for NoDoors {
    fn open(&self, door: Arc<dyn AgentDoor>) -> BoxFuture<'_, Result<String, AgentError>> {
        Box::pin(async move {
            Err(AgentError::Failed {
                agent: door.name().to_owned(),
                message: "it cannot be given an address here".to_owned(),
                trajectory: Vec::new(),
            })
        })
    }
}

/// Returns a part that is text.
pub fn text_part(text: &str) -> Value {
    json!({"kind": "text", "text": text})
}

/// Returns the text of a message: its parts that are text, a line feed between them.
pub fn text_of(parts: &[Value]) -> String {
    let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// What an agent answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The text of its last message.
    pub text: String,
    /// The parts of its last message where there is more than the text.
    pub parts: Vec<Value>,
    /// The number of tools that it called.
    pub tool_calls: u64,
    /// A typed value that it gave.
    pub structured: Option<Value>,
    /// What it did, one JSON object a message or call, oldest first.
    pub trajectory: Vec<Value>,
    /// What it needs to know of this turn and those before to go on; only the agent understands it.
    pub memory: Value,
    /// What its models cost.
    pub usage: Usage,
    /// The model that it used.
    pub model: Option<String>,
}

impl Reply {
    /// Returns the parts of the reply.
    pub fn all_parts(&self) -> Vec<Value> {
        if self.parts.is_empty() {
            vec![text_part(&self.text)]
        } else {
            self.parts.clone()
        }
    }
}

/// Why an agent gave no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// It failed by itself.
    #[error("agent `{agent}` failed: {message}")]
    Failed {
        /// The agent.
        agent: String,
        /// What it said.
        message: String,
        /// What it did until then.
        trajectory: Vec<Value>,
    },
    /// It took too long.
    #[error("agent `{agent}` gave no answer within {} s", .limit.as_secs_f64())]
    TimedOut {
        /// The agent.
        agent: String,
        /// How long was waited.
        limit: Duration,
        /// What it did until then, as far as that is known.
        trajectory: Vec<Value>,
    },
    /// Its model gave no answer.
    #[error("agent `{agent}`: {error}")]
    Model {
        /// The agent.
        agent: String,
        /// Why not.
        error: ModelError,
        /// What it did until then.
        trajectory: Vec<Value>,
    },
    /// It could not be asked: it is not there, it is not set up, or the connection to it broke.
    #[error("agent `{agent}` could not be asked: {message}")]
    Unreachable {
        /// The agent.
        agent: String,
        /// Why not.
        message: String,
        /// What it did until then, as far as that is known.
        trajectory: Vec<Value>,
    },
    /// An env that it works on is gone.
    #[error(transparent)]
    Env(#[from] EnvError),
}

impl AgentError {
    /// Returns whether the error says nothing of what the agent does: whoever asks again may get an answer.
    pub fn is_outage(&self) -> bool {
        !matches!(self, AgentError::Failed { .. })
    }
}

/// An agent that can be prompted.
pub trait Agent: Send + Sync {
    /// Returns the `agent_name`.
    fn name(&self) -> &str;

    /// Asks the agent and waits for its answer.
    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>>;
}
