//! Models and agents that are as a test wants them.

use crate::step::agent::{Agent, AgentError, Prompt, Reply};
use crate::step::model::{ChatReply, ChatRequest, ModelError, Models};
use crate::step::sandbox::BoxFuture;

/// A model that answers what a closure says.
pub(super) struct FakeModel(pub(super) Box<ModelAnswer>);

pub(super) type ModelAnswer = dyn Fn(&ChatRequest) -> Result<ChatReply, ModelError> + Send + Sync;

impl Models for FakeModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatReply, ModelError>> {
        Box::pin(async move { (self.0)(&request) })
    }
}

/// An agent that nobody prompts.
pub(in crate::steps) struct Mute(pub(in crate::steps) &'static str);

impl Agent for Mute {
    fn name(&self) -> &str {
        self.0
    }

    fn prompt(&self, _: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        unreachable!("bug: a test that prompts nobody did")
    }
}
