//! Makes live things: local sandboxes, envs and agents.
//!
//! A provider is told what to make and where; it does not know steps, the scheduler or the cache. The folder given by
//! [`local::LocalSandbox::state_dir`] is the state of a sandbox, whole; who snapshots and restores it is not its concern.

pub mod a2a;
mod activity;
pub mod bubblewrap;
pub mod builtin;
pub mod command_agent;
pub mod docker;
mod files;
mod http;
pub mod local;
mod local_exec;
mod mcp;
pub mod model_agent;
mod own_tools;
mod paths;
pub mod process;
pub mod python;
pub mod reap;
mod rewrite;
pub mod served;
pub mod scripted;
