//! What a step may ask of an agent.

use std::sync::Arc;
use std::time::Duration;

use super::env::{EnvError, LiveEnv};
use super::sandbox::BoxFuture;
use crate::json::Value;

/// What an agent is asked.
#[derive(Clone)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// The envs that the agent is connected to, by `env_id`, each under the agent's role.
    pub envs: Vec<Arc<dyn LiveEnv>>,
    /// Which attempt of the step this is, the first being 1.
    pub attempt: u32,
    /// How long the agent may take.
    pub timeout: Duration,
}

/// What an agent answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The text of its last message.
    pub text: String,
    /// The number of tools that it called.
    pub tool_calls: u64,
    /// A typed value that it gave.
    pub structured: Option<Value>,
    /// What it did, one JSON object a message or call, oldest first.
    pub trajectory: Vec<Value>,
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
    },
    /// An env that it works on is gone.
    #[error(transparent)]
    Env(#[from] EnvError),
}

/// An agent that can be prompted.
pub trait Agent: Send + Sync {
    /// Returns the `agent_name`.
    fn name(&self) -> &str;

    /// Asks the agent and waits for its answer.
    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>>;
}
