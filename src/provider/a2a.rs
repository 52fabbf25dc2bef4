//! Agents that are reached over A2A: those that run already, and processes and containers that serve it.
//!
//! `Client` speaks to one agent in the dialect that its card names; [`A2aAgent`] is such an agent as steps prompt it. It
//! does not know tasks or the cache. An agent keeps what it was told: a client is made once for each agent of a task.

mod agent;
mod client;
mod contain;
mod extensions;
mod running;
mod start;
#[cfg(test)]
pub(crate) mod testing;

pub use agent::{A2aAgent, Lessons};
pub use contain::Contained;
pub use start::Setup;

use client::{Client, Fault};
use running::Running;
