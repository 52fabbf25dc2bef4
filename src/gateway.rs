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
mod clock;
mod clock_tools;
mod course;
mod company;
mod course_routes;
mod firing;
mod gate;
mod grant;
mod handle;
mod hook;
mod http;
mod line;
mod mcp;
mod recipe;
mod record;
mod timed;
mod triggers;
mod waiting;
#[cfg(test)]
mod tests;

pub use access::Access;
pub use company::Company;
pub use gate::{Gate, GateSettings};
pub use grant::Grant;
pub use handle::EnvHandle;
pub use hook::{Hook, ToolCall};
pub use http::Gateway;
pub use recipe::Recipe;
pub use record::{Keeper, Recorder};
pub use timed::Aside;

/// How long requests of a step that has failed may still take.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// The role in which triggers act where they name none.
const TRIGGER_ROLE: &str = "trigger";

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
    /// The trigger that acts, where one does.
    cause: Option<Cause>,
    /// Whether the step works on the env, so that time goes on while it runs and its calls set triggers off.
    passes_time: bool,
    /// The steps that may work on the env at once with this one.
    company: Option<Arc<dyn Company>>,
}

/// What of a trigger matters to what it does.
#[derive(Clone)]
struct Cause {
    trigger: String,
    /// How many triggers in a row led to it.
    depth: u64,
    /// Whether it acts by the env's own hand, for which no rule of access holds.
    is_free: bool,
}

impl Caller {
    /// Returns a caller.
    pub fn new(step: &str, role: &str) -> Self {
        Caller {
            step: step.to_owned(),
            role: role.to_owned(),
            told: None,
            left: None,
            cause: None,
            passes_time: false,
            company: None,
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

    /// Has the clock leap, and triggers told, when these steps rest too.
    pub fn in_company(mut self, company: Option<Arc<dyn Company>>) -> Self {
        self.company = company;
        self
    }

    /// Has each call told in a line.
    pub fn telling(mut self, told: Tell) -> Self {
        self.told = Some(told);
        self
    }

    /// Has time go on while it is there.
    pub fn passing_time(mut self, passes_time: bool) -> Self {
        self.passes_time = passes_time;
        self
    }

    /// Returns the same caller as a trigger that acts, in a role or by the env's own hand.
    fn caused(&self, trigger: &str, depth: u64, role: Option<&str>) -> Self {
        let cause = Cause {
            trigger: trigger.to_owned(),
            depth,
            is_free: role.is_none(),
        };
        Caller {
            cause: Some(cause),
            ..self.in_role(role.unwrap_or(TRIGGER_ROLE))
        }
    }

    /// Returns how many triggers in a row led to what it asks.
    fn depth(&self) -> u64 {
        self.cause.as_ref().map_or(0, |cause| cause.depth)
    }

    /// Returns whether no rule of access holds for it.
    fn is_free(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| cause.is_free)
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
