//! The triggers and the virtual clock of an env, as a step works with them.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::env::EnvError;
use super::sandbox::BoxFuture;
use crate::json::{Map, Value};

/// Follows the instructions of triggers: an agent, as the step that runs has it at hand.
pub trait Executor: Send + Sync {
    /// Tells the agent what to do, in a conversation of the trigger's own, and waits until it is done.
    fn instruct<'a>(
        &'a self,
        trigger: &'a str,
        text: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// The triggers and the clock of an env, through the gateway.
pub trait Timed: Send + Sync {
    /// Registers triggers, `{watch_roles?, executor?, executors?, triggers}`, and returns the ids of those that were not
    /// there. What is due at once is done before it returns, with an event clock.
    fn register<'a>(
        &'a self,
        registration: &'a Value,
    ) -> BoxFuture<'a, Result<Vec<String>, EnvError>>;

    /// Sets the virtual clock and returns its state.
    fn set_clock<'a>(
        &'a self,
        virtual_time: &'a str,
        rate: f64,
    ) -> BoxFuture<'a, Result<Value, EnvError>>;

    /// Returns the agents that the triggers give instructions to.
    fn executors(&self) -> Vec<String>;

    /// Returns whether a call is answered only when all is done that it set off.
    fn is_in_order(&self) -> bool;

    /// Has an agent follow instructions until what is returned is dropped.
    fn attend(&self, agent: &str, executor: Arc<dyn Executor>) -> Box<dyn Any + Send + Sync>;

    /// Waits until these triggers have fired, and returns where each stands. An event clock leaps to what is due next;
    /// the error says which trigger can fire no more, and why.
    fn await_fired<'a>(&'a self, ids: &'a [String]) -> BoxFuture<'a, Result<Value, String>>;

    /// Waits until the virtual clock shows a time, RFC 3339, and returns what it shows then. An event clock leaps, and
    /// what is due on the way is done.
    fn wait_until<'a>(&'a self, time: &'a str) -> BoxFuture<'a, Result<String, String>>;

    /// Waits until what is under way is done, for at most a minute of real time, and returns where all triggers stand:
    /// `{statuses, triggers, event_count, events_dropped, events, capture_is_final}`. An event clock leaps to the end of
    /// delays.
    fn settle(&self) -> BoxFuture<'_, Value>;

    /// Returns where all triggers stand now: the status of each by its id.
    fn statuses(&self) -> Map<String, Value>;
}
