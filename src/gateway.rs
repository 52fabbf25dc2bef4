//! The gateway before every env: who asks, what may be asked, and a record of what was asked and answered.
//!
//! A [`Gate`] stands before one env. Steps of aebuild go through it by [`EnvHandle`]; programs that a step starts reach it
//! over HTTP on 127.0.0.1, at an address that names the caller and works only while the step runs. So a state is taken
//! when nobody can change it, and every recorded call is some step's. The gateway does not know how an env is run.

mod access;
mod back;
mod gate;
mod handle;
mod hook;
mod http;
mod mcp;
mod recipe;
mod record;

pub use access::Access;
pub use gate::{Gate, GateSettings};
pub use handle::EnvHandle;
pub use hook::{Hook, ToolCall};
pub use http::Gateway;
pub use recipe::Recipe;
pub use record::{Keeper, Recorder};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The step.
    pub step: String,
    /// The role.
    pub role: String,
}
