//! The triggers and the clock of an env, as a step holds them.

use std::any::Any;
use std::sync::Arc;

use super::gate::Gate;
use super::handle::EnvHandle;
use crate::json::{Map, Value};
use crate::step::env::EnvError;
use crate::step::sandbox::BoxFuture;
use crate::step::trigger::{Executor, Timed};
use crate::task::moment::Moment;

/// A step that works on an env, as long as this is there.
pub(super) struct Presence {
    gate: Arc<Gate>,
    step: String,
}

impl Presence {
    /// Notes that a step works on an env; time goes on in it from now on.
    pub(super) fn of(gate: &Arc<Gate>, step: &str) -> Self {
        let shift = gate.course.enter(step);
        // Outside of a runtime nothing can be due.
        if let (Some(shift), Ok(runtime)) = (shift, tokio::runtime::Handle::try_current()) {
            runtime.spawn(gate.clone().keep_time(shift));
        }
        Presence {
            gate: gate.clone(),
            step: step.to_owned(),
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.gate.course.leave(&self.step);
    }
}

/// A step that waits for what has nothing to do with an env, as long as this is there: nobody on the env waits for it.
pub struct Aside {
    gate: Arc<Gate>,
    number: u64,
}

impl Aside {
    /// Notes that a step waits so.
    pub fn of(gate: &Arc<Gate>, step: &str) -> Self {
        Aside {
            gate: gate.clone(),
            number: gate.course.step_aside(step),
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.gate.course.step_back(self.number);
    }
}

/// An agent that follows instructions, as long as this is there.
struct Attendance {
    gate: Arc<Gate>,
    number: u64,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.gate.course.excuse(self.number);
    }
}

impl Timed for EnvHandle {
    fn register<'a>(
        &'a self,
        registration: &'a Value,
    ) -> BoxFuture<'a, Result<Vec<String>, EnvError>> {
        Box::pin(self.gate.register(&self.caller, registration))
    }

    fn set_clock<'a>(
        &'a self,
        virtual_time: &'a str,
        rate: f64,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        Box::pin(self.gate.set_clock(&self.caller, virtual_time, rate))
    }

    fn executors(&self) -> Vec<String> {
        self.gate.course.inner().engine.agents()
    }

    fn is_in_order(&self) -> bool {
        self.gate.course.is_in_order()
    }

    fn attend(&self, agent: &str, executor: Arc<dyn Executor>) -> Box<dyn Any + Send + Sync> {
        let number = self.gate.course.attend(agent, &self.caller.step, executor);
        Box::new(Attendance {
            gate: self.gate.clone(),
            number,
        })
    }

    fn await_fired<'a>(&'a self, ids: &'a [String]) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(self.gate.await_fired(&self.caller, ids))
    }

    fn wait_until<'a>(&'a self, time: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let now = self
                .gate
                .pass_to(&self.caller, Moment::parse(time)?)
                .await?;
            Ok(now.to_string())
        })
    }

    fn settle(&self) -> BoxFuture<'_, Value> {
        Box::pin(self.gate.settle(&self.caller))
    }

    fn statuses(&self) -> Map<String, Value> {
        self.gate.course.inner().engine.statuses()
    }
}
