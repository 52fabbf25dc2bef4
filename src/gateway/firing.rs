//! Does what triggers ask for, and lets time pass.

use std::collections::VecDeque;
use std::time::Duration;

use super::Caller;
use super::course::Course;
use super::gate::Gate;
use super::record::Made;
use super::triggers::{Effect, Event, Heard, Order, Status};
use crate::diagnostic::did_you_mean;
use crate::json::{Map, Value, json};
use crate::step::env::{EnvError, answer_of};
use crate::step::sandbox::BoxFuture;
use crate::task::moment::Moment;
use crate::task::triggers::{Check, Registration, is_there, read_registration};

/// A call that nobody shall hear.
const UNHEARD: u64 = u64::MAX;

impl Gate {
    /// Has triggers hear of a call, and does what they ask for: before it returns, by an event clock, else beside it.
    pub(super) fn heard<'g>(
        &'g self,
        caller: &'g Caller,
        tool: &'g str,
        arguments: &'g Value,
        result: &'g Value,
        may_change: bool,
    ) -> BoxFuture<'g, ()> {
        Box::pin(async move {
            let _counted = self.on_its_way();
            let scope = json!({"args": arguments, "result": answer_of(result)});
            let call = self.course.inner().number();
            let is_within = caller.cause.is_some() || self.course.is_within(caller);
            let heard = Heard {
                tool,
                role: &caller.role,
                step: &caller.step,
                call,
                scope: &scope,
                is_error: result.get("isError") == Some(&Value::Bool(true)),
                may_change,
                depth: caller.depth(),
            };
            let effects = self.course.on(vec![Event::Tick, Event::Call(heard)]);
            self.carry_out(caller, effects).await;
            // What it set off may wait until what others set off is done. A call of who does that never waits for it.
            if self.course.is_in_order() && !is_within {
                let over = self.changes(|course| !course.inner().engine.acts_for(call));
                tokio::select! {
                    () = over => {}
                    () = caller.given_up() => {}
                }
            }
        })
    }

    /// Does what is to be done: beside what goes on where the clock runs, but for what a barrier holds; else before it
    /// returns.
    pub(super) fn carry_out<'g>(
        &'g self,
        caller: &'g Caller,
        effects: Vec<Effect>,
    ) -> BoxFuture<'g, ()> {
        Box::pin(async move {
            if effects.is_empty() {
                return;
            }
            let Some(gate) = self.myself() else {
                return;
            };
            if self.course.is_in_order() {
                // Who gives the call up leaves no firing behind that never ends.
                let _ = gate.beside(caller.clone(), effects).await;
                return;
            }
            // The state is looked at as the call has left it.
            let mut rest = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Look { .. } => {
                        let looked = self.look(caller, effect).await;
                        rest.extend(looked);
                    }
                    other => rest.push(other),
                }
            }
            let begun: Vec<u64> = rest.iter().filter_map(Effect::firing).collect();
            for effect in rest {
                gate.clone().beside(caller.clone(), vec![effect]);
            }
            self.hold(caller, &begun).await;
        })
    }

    /// Waits for firings that have a barrier.
    async fn hold(&self, caller: &Caller, begun: &[u64]) {
        let barriers = self.course.inner().engine.barriers();
        let held: Vec<(u64, Option<i64>)> = barriers
            .into_iter()
            .filter(|(firing, _)| begun.contains(firing))
            .collect();
        if held.is_empty() {
            return;
        }
        let most = self.settings.call_timeout;
        let limit = held.iter().map(|(_, limit)| match limit {
            Some(us) => Duration::from_micros(us.unsigned_abs()).min(most),
            None => most,
        });
        let limit = limit.max().unwrap_or(most);
        let over = self.changes(|course| {
            let under_way = course.inner().engine.under_way();
            !held.iter().any(|(firing, _)| under_way.contains(firing))
        });
        if tokio::time::timeout(limit, over).await.is_err() {
            let ids: Vec<u64> = held.iter().map(|(firing, _)| *firing).collect();
            self.note(
                caller,
                "trigger_barrier_timeout",
                "barrier",
                &json!({"firings": ids}),
            );
        }
    }

    /// Waits until something is true of the course of things.
    pub(super) async fn changes(&self, is_so: impl Fn(&Course) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.course.changed.notified());
            changed.as_mut().enable();
            if is_so(&self.course) {
                return;
            }
            changed.await;
        }
    }

    /// Puts on record what no call is.
    pub(super) fn note(&self, caller: &Caller, kind: &'static str, name: &str, arguments: &Value) {
        let made = Made {
            kind,
            name,
            arguments,
            answer: Ok(&Value::Null),
            mutates: true,
            started_us: self.recorder.now_us(),
        };
        // Where nothing can be recorded any more the env is broken, and every call says so.
        let _ = self.record(caller, &made);
    }

    /// Does what triggers ask for, and what that leads to, one after the other.
    pub(super) fn perform<'g>(
        &'g self,
        caller: &'g Caller,
        effects: Vec<Effect>,
    ) -> BoxFuture<'g, ()> {
        Box::pin(async move {
            let mut todo = VecDeque::from(effects);
            while let Some(effect) = todo.pop_front() {
                let next = match effect {
                    Effect::Look { .. } => self.look(caller, effect).await,
                    Effect::Act {
                        firing,
                        trigger,
                        depth,
                        order,
                    } => {
                        let outcome = self.act(caller, &trigger, depth, order).await;
                        self.course.on(vec![Event::Acted { firing, outcome }])
                    }
                    Effect::Verify {
                        firing,
                        check,
                        scope,
                    } => {
                        let outcome = self.checked(caller, &check, scope).await;
                        let outcome = outcome.map(|bound| bound.is_some());
                        self.course.on(vec![Event::Verified { firing, outcome }])
                    }
                    Effect::Came { trigger, status } => {
                        let caused = caller.caused(&trigger, 0, None);
                        let kind = match status {
                            Status::Fired => "trigger_fired",
                            _ => "trigger",
                        };
                        self.note(&caused, kind, &trigger, &json!({"status": status.as_str()}));
                        Vec::new()
                    }
                };
                // What one trigger does goes on before the next begins.
                for effect in next.into_iter().rev() {
                    todo.push_front(effect);
                }
            }
        })
    }

    async fn look(&self, caller: &Caller, effect: Effect) -> Vec<Effect> {
        let Effect::Look {
            trigger,
            check,
            after,
        } = effect
        else {
            return Vec::new();
        };
        let outcome = self.checked(caller, &check, json!({})).await;
        self.course.on(vec![Event::Looked {
            trigger,
            after,
            outcome,
        }])
    }

    /// Makes the calls of a check: what they bound where the last finds what it looks for, else nothing.
    async fn checked(
        &self,
        caller: &Caller,
        check: &Check,
        mut scope: Value,
    ) -> Result<Option<Map<String, Value>>, String> {
        let caller = caller.caused("check", UNHEARD, None);
        for step in &check.steps {
            let arguments = step.arguments.fill(&scope)?;
            let result = self.call(&caller, &step.tool, arguments).await;
            let result = result.map_err(|error| error.to_string())?;
            if result.get("isError") == Some(&Value::Bool(true)) {
                return Ok(None);
            }
            let answer = answer_of(&result);
            let found = match &step.extract {
                Some(extract) => extract.of(&answer),
                None => Some(answer),
            };
            let values: Vec<&Value> = found.iter().collect();
            let holds = step
                .predicate
                .as_ref()
                .is_none_or(|predicate| predicate.holds(&values));
            if !holds {
                return Ok(None);
            }
            if let Some(name) = &step.bind {
                match found.filter(is_there) {
                    Some(value) => scope[name] = value,
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(scope.as_object().cloned().unwrap_or_default()))
    }

    async fn act(
        &self,
        caller: &Caller,
        trigger: &str,
        depth: u64,
        order: Order,
    ) -> Result<(), String> {
        match order {
            Order::Instruct {
                agent,
                text,
                limit_seconds,
            } => {
                let executor = self.course.executor(&agent, &caller.step);
                let executor = executor.ok_or_else(|| {
                    format!("agent `{agent}` is not at hand in step `{}`", caller.step)
                })?;
                let limit = Duration::from_secs_f64(limit_seconds);
                executor.instruct(trigger, &text, limit).await
            }
            Order::Call {
                tool,
                arguments,
                role,
            } => {
                let caller = caller.caused(trigger, depth, role.as_deref());
                let result = self.call(&caller, &tool, arguments).await;
                let result = result.map_err(|error| error.to_string())?;
                match result.get("isError") == Some(&Value::Bool(true)) {
                    true => Err(format!("`{tool}`: {}", answer_of(&result))),
                    false => Ok(()),
                }
            }
            Order::Permit {
                enabled,
                role,
                tools,
            } => {
                let caller = caller.caused(trigger, depth, None);
                let set = self.set_access(&caller, &role, &tools, enabled);
                set.map(drop).map_err(|error| error.to_string())
            }
        }
    }

    pub(super) fn refused(&self, what: &str, code: i64, message: String) -> EnvError {
        EnvError::Refused {
            env: self.settings.env_id.clone(),
            what: what.to_owned(),
            code,
            message,
            data: Value::Null,
        }
    }

    /// Registers triggers, and returns the ids of those that were not there.
    pub(super) async fn register(
        &self,
        caller: &Caller,
        registration: &Value,
    ) -> Result<Vec<String>, EnvError> {
        let what = "a registration of triggers";
        let more = read_registration(registration).map_err(|faults| {
            let lines = faults
                .iter()
                .map(|fault| format!("{}: {}", fault.field, fault.headline));
            self.refused(what, 400, lines.collect::<Vec<_>>().join("; "))
        })?;
        self.know_tools(what, &more).await?;
        let now = self.course.now();
        let added = self.course.inner().engine.register(more, now);
        let added = added.map_err(|why| self.refused(what, 400, why))?;
        self.note(caller, "triggers", "register", registration);
        let effects = self.course.on(vec![Event::Tick]);
        self.carry_out(caller, effects).await;
        Ok(added)
    }

    /// Refuses triggers that name a tool which the env does not have.
    async fn know_tools(&self, what: &str, registration: &Registration) -> Result<(), EnvError> {
        let tools = self.all_tools().await?;
        let known = || tools.iter().filter_map(|tool| tool["name"].as_str());
        for trigger in &registration.triggers {
            for tool in trigger.tools() {
                if tool != "*" && !known().any(|name| name == tool) {
                    let near = did_you_mean(tool, known())
                        .map_or(String::new(), |near| format!("; {near}"));
                    let why = format!(
                        "trigger `{}` names tool `{tool}`, which there is not{near}",
                        trigger.id
                    );
                    return Err(self.refused(what, 400, why));
                }
            }
        }
        Ok(())
    }

    /// Takes triggers away: these, or all; returns the ids that were there.
    pub(super) fn unregister(&self, caller: &Caller, ids: Option<&[String]>) -> Vec<String> {
        let now = self.course.now();
        let mut inner = self.course.inner();
        let removed = match ids {
            Some(ids) => inner.engine.remove(ids, now),
            None => {
                inner.engine.clear();
                Vec::new()
            }
        };
        drop(inner);
        self.course.changed.notify_waiters();
        self.note(caller, "triggers", "remove", &json!({"ids": ids}));
        removed
    }

    /// Sets the virtual clock and returns its state.
    pub(super) async fn set_clock(
        &self,
        caller: &Caller,
        virtual_time: &str,
        rate: f64,
    ) -> Result<Value, EnvError> {
        let what = "a setting of the clock";
        let start = Moment::parse(virtual_time).map_err(|why| self.refused(what, 400, why))?;
        let tools = self.all_tools().await?;
        if tools.iter().any(|tool| tool["name"] == "get_time") {
            let why = "the env has a tool `get_time` of its own".to_owned();
            return Err(self.refused(what, 409, why));
        }
        let set = self.course.set_clock(Some((start, rate)));
        set.map_err(|why| self.refused(what, 400, why))?;
        let arguments = json!({"virtual_time": start.to_string(), "rate": rate});
        self.note(caller, "clock", "set", &arguments);
        let effects = self.course.on(vec![Event::Tick]);
        self.carry_out(caller, effects).await;
        Ok(self.clock_state())
    }

    /// Takes the virtual clock away.
    pub(super) fn clear_clock(&self, caller: &Caller) {
        // A clock that is taken away has no rate that could be wrong.
        let _ = self.course.set_clock(None);
        self.note(caller, "clock", "clear", &json!({}));
    }

    /// Returns what is told of the clock.
    pub(super) fn clock_state(&self) -> Value {
        let real = self.course.real();
        self.course.inner().clock.state(real)
    }
}

impl Effect {
    fn firing(&self) -> Option<u64> {
        match self {
            Effect::Act { firing, .. } | Effect::Verify { firing, .. } => Some(*firing),
            _ => None,
        }
    }
}
