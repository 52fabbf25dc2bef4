//! The gateway before every env: who asks, what may be asked, and a record of what was asked and answered; and the address
//! at which agents are asked over A2A.
//!
//! A [`Gate`] stands before one env. Steps of aebuild go through it by [`EnvHandle`]; programs that a step starts reach it
//! over HTTP on 127.0.0.1, at an address that names the caller and works only while the step runs. So a state is taken
//! when nobody can change it, and every recorded call is some step's. The gateway does not know how an env is run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

mod a2a;
mod access;
mod back;
mod gate;
mod grant;
mod handle;
mod hook;
mod http;
mod line;
mod mcp;
mod recipe;
mod record;

pub use access::Access;
pub use gate::{Gate, GateSettings};
pub use grant::Grant;
pub use handle::EnvHandle;
pub use hook::{Hook, ToolCall};
pub use http::Gateway;
pub use recipe::Recipe;
pub use record::{Keeper, Recorder};

/// How long requests of a step that has failed may still take.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Hears of each call, in a line.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Who asks.
#[derive(Clone)]
pub struct Caller {
    /// The step.
    pub step: String,
    /// The role.
    pub role: String,
    /// Hears of each call, in a line.
    told: Option<Tell>,
    /// Becomes true when the step has failed or was aborted, and so waits for no answer any more.
    left: Option<watch::Receiver<bool>>,
}

impl Caller {
    /// Returns a caller.
    pub fn new(step: &str, role: &str) -> Self {
        Caller {
            step: step.to_owned(),
            role: role.to_owned(),
            told: None,
            left: None,
        }
    }

    /// Has what is still on its way given up a little after `left` becomes true.
    pub fn until(mut self, left: watch::Receiver<bool>) -> Self {
        self.left = Some(left);
        self
    }

    /// Waits until what the caller asked is to be given up.
    async fn given_up(&self) {
        if let Some(mut left) = self.left.clone()
            && left.wait_for(|left| *left).await.is_ok()
        {
            // What only takes its time is recorded; other steps may use the env meanwhile.
            return tokio::time::sleep(LAST_ANSWERS).await;
        }
        std::future::pending().await
    }

    /// Has each call told in a line.
    pub fn telling(mut self, told: Tell) -> Self {
        self.told = Some(told);
        self
    }

    /// Returns the same caller in another role.
    fn in_role(&self, role: &str) -> Self {
        Caller {
            role: role.to_owned(),
            ..self.clone()
        }
    }

    fn tell(&self, line: &str) {
        if let Some(told) = &self.told {
            told(line);
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}", self.step, self.role)
    }
}
