//! What a step or an agent may ask of a model.
//!
//! Requests and replies are the same for every API: who sends them knows the endpoint, its dialect, its key and its limits,
//! answers what was asked before from the store, and counts what is spent. Nobody here knows how.

mod messages;

use super::sandbox::BoxFuture;
use crate::event::Spent;
use crate::json::{Map, Value};

/// What a model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatRequest {
    /// The name of a model of `[models.<name>]`, else a model's own id.
    pub model: String,
    /// The conversation so far, oldest first.
    pub messages: Vec<ChatMessage>,
    /// The tools that the model may call.
    pub tools: Vec<ToolDecl>,
    /// The JSON Schema of a typed answer.
    pub output_schema: Option<Value>,
    /// How hard the model tries.
    pub effort: Option<String>,
    /// How much it may think, in tokens.
    pub max_thinking_tokens: Option<u64>,
    /// More parameters, sent as they are.
    pub params: Map<String, Value>,
}

/// A message of a conversation with a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatMessage {
    /// What the model is told before everything else.
    System(String),
    /// What it is asked.
    User(Vec<Content>),
    /// What it answered.
    Assistant {
        /// The text.
        text: String,
        /// The calls that it made.
        calls: Vec<ToolCall>,
        /// What the endpoint wants to see again unchanged, such as signed thinking; null where there is nothing.
        kept: Value,
    },
    /// What a tool answered.
    Tool {
        /// The id of the call.
        id: String,
        /// The tool.
        name: String,
        /// The answer.
        content: Vec<Content>,
        /// Whether the call went wrong.
        is_error: bool,
    },
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// Its media type, such as `image/png`.
        mime: String,
        /// Its bytes in base64.
        base64: String,
    },
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDecl {
    /// The name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: Value,
}

/// A call that a model wants made.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id by which the answer is matched.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments; the error is the text that is no JSON object.
    pub arguments: Result<Map<String, Value>, String>,
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatReply {
    /// The text.
    pub text: String,
    /// The calls that it wants made.
    pub calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish: Finish,
    /// What the endpoint wants to see again, see [`ChatMessage::Assistant`].
    pub kept: Value,
    /// What it cost.
    pub usage: Usage,
    /// The model that answered, as the endpoint says.
    pub model: String,
    /// Whether the answer is one that was kept.
    pub from_cache: bool,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// It waits for the answers of calls.
    Calls,
    /// It had no more room.
    Length,
    /// It refused, or a filter did.
    Refusal,
    /// Another reason, as the endpoint says it.
    Other(String),
}

/// What model calls cost. What nobody reported is `None`, not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Requests that were sent.
    pub requests: u64,
    /// How many of them were sent because an earlier one failed.
    pub retried: u64,
    /// Requests that were answered from the store.
    pub cached: u64,
    /// Tokens that were read.
    pub input_tokens: Option<u64>,
    /// Tokens that were written.
    pub output_tokens: Option<u64>,
    /// The price, in US dollars.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Returns what of it is told of a run.
    pub fn spent(&self) -> Spent {
        let micro = |usd: f64| (usd * 1e6).round().max(0.0) as u64;
        Spent {
            requests: self.requests,
            retried: self.retried,
            cached: self.cached,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            micro_usd: self.cost_usd.map(micro),
        }
    }

    /// Adds what another call cost.
    pub fn add(&mut self, other: &Usage) {
        fn sum<T>(a: Option<T>, b: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(add(a, b)),
                (None, other) | (other, None) => other,
            }
        }
        let tokens = |a, b| sum(a, b, u64::saturating_add);
        self.requests = self.requests.saturating_add(other.requests);
        self.retried = self.retried.saturating_add(other.retried);
        self.cached = self.cached.saturating_add(other.cached);
        self.input_tokens = tokens(self.input_tokens, other.input_tokens);
        self.output_tokens = tokens(self.output_tokens, other.output_tokens);
        self.cost_usd = sum(self.cost_usd, other.cost_usd, |a, b| a + b);
    }
}

/// Why a model gave no answer. The text says which endpoint and what it said, never a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Nothing says how the model is reached, or a key is missing.
    #[error("model `{model}` cannot be used: {why}")]
    NotSetUp {
        /// The model.
        model: String,
        /// Why not.
        why: String,
    },
    /// The endpoint refused the request, or still failed after every try.
    #[error("model `{model}` did not answer: {why}")]
    Failed {
        /// The model.
        model: String,
        /// What the endpoint said last.
        why: String,
        /// The HTTP status; `None` where there was no answer at all.
        status: Option<u16>,
    },
    /// It took too long.
    #[error("model `{model}` did not answer within {seconds} s")]
    TimedOut {
        /// The model.
        model: String,
        /// How long was waited.
        seconds: f64,
    },
    /// The answer is not what the API promises.
    #[error("model `{model}` answered with what its API does not allow: {why}")]
    BadAnswer {
        /// The model.
        model: String,
        /// What is wrong with it.
        why: String,
    },
    /// The conversation is longer than the model reads.
    #[error("model `{model}` cannot read so much: {why}")]
    TooLong {
        /// The model.
        model: String,
        /// What the endpoint said.
        why: String,
    },
    /// A limit of the run was reached before the request was sent.
    #[error("the run has reached {limit}, and `{model}` was not asked")]
    OverBudget {
        /// The model.
        model: String,
        /// The limit, such as `--max-cost 5`.
        limit: String,
    },
}

/// Models as a step sees them: every call is kept under what it asks, the sample and how often the step asked the same.
pub trait Models: Send + Sync {
    /// Asks a model.
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatReply, ModelError>>;
}
