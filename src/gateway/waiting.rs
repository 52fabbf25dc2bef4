//! Lets virtual time pass: for who waits for a time, for triggers, or for what is under way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::gate::Gate;
use super::triggers::{Event, Status};
use super::{Caller, Company, TRIGGER_ROLE};
use crate::json::{Map, Value, json};
use crate::system::locked;
use crate::task::moment::Moment;

/// The most points at which something is due that are passed at once.
const MOST_LEAPS: usize = 100_000;

impl Gate {
    /// Waits until the virtual clock shows a time, and returns what it shows then.
    pub(super) async fn wait_until(&self, caller: &Caller, to: Moment) -> Result<Moment, String> {
        let unset = || "the env has no virtual clock".to_owned();
        let now = self.course.now().ok_or_else(unset)?;
        if to <= now {
            return Ok(now);
        }
        if self.course.inner().clock.is_frozen() {
            return Err("the virtual clock stands still for good: its rate is 0".to_owned());
        }
        let waits = async {
            match self.course.leaps() {
                true => self.leap(caller, to).await,
                false => self.sleep_until(to).await,
            }
        };
        tokio::select! {
            biased;
            waited = waits => waited?,
            () = caller.given_up() => return Err("the step that waited has ended".to_owned()),
        }
        self.course.now().ok_or_else(unset)
    }

    /// Waits likewise for who calls no tool, so that it goes on record.
    pub(super) async fn pass_to(&self, caller: &Caller, to: Moment) -> Result<Moment, String> {
        let now = self.wait_until(caller, to).await?;
        let arguments = json!({"time": to.to_string()});
        self.note(caller, "clock", "pass_to", &arguments);
        Ok(now)
    }

    /// Has an event clock leap to a point when all others wait too, and does what is due on the way.
    async fn leap(&self, caller: &Caller, to: Moment) -> Result<(), String> {
        let waiter = Mutex::new(self.course.wait(&caller.step, to));
        let may_leap =
            |may_come: &dyn Fn(&[String]) -> bool| locked(&waiter).may_leap(may_come).then_some(());
        self.in_company(caller, may_leap).await;
        for _ in 0..MOST_LEAPS {
            let real = self.course.real();
            let effects = {
                let mut inner = self.course.inner();
                match inner.engine.next_due().filter(|due| *due <= to) {
                    None => {
                        inner.clock.leap(to);
                        return Ok(());
                    }
                    Some(due) => {
                        inner.clock.leap(due);
                        let now = inner.clock.now(real);
                        inner.engine.on(Event::Tick, now)
                    }
                }
            };
            self.carry_out(caller, effects).await;
        }
        Err(format!(
            "more than {MOST_LEAPS} triggers are due until {to}"
        ))
    }

    async fn sleep_until(&self, to: Moment) -> Result<(), String> {
        loop {
            let real = self.course.real();
            let mut changed = std::pin::pin!(self.course.changed.notified());
            changed.as_mut().enable();
            let left = self.course.inner().clock.until(to, real);
            match left {
                None => return Err("the virtual clock stands still".to_owned()),
                Some(Duration::ZERO) => return Ok(()),
                Some(left) if left > self.settings.call_timeout => {
                    return Err(format!(
                        "until {to} it takes {} s of real time, and a call may take {} s",
                        left.as_secs(),
                        self.settings.call_timeout.as_secs()
                    ));
                }
                Some(left) => {
                    tokio::select! {
                        () = tokio::time::sleep(left) => {}
                        () = changed => {}
                    }
                }
            }
        }
    }

    /// Waits until triggers have fired, and returns where each stands.
    pub(super) async fn await_fired(
        &self,
        caller: &Caller,
        ids: &[String],
    ) -> Result<Value, String> {
        loop {
            let mut changed = std::pin::pin!(self.course.changed.notified());
            changed.as_mut().enable();
            if let Some(broken) = self.broken() {
                return Err(broken.to_string());
            }
            let (stand, next) = {
                let inner = self.course.inner();
                let stand: Map<String, Value> = ids
                    .iter()
                    .map(|id| {
                        let status = inner.engine.status(id).map(Status::as_str);
                        (id.clone(), json!(status))
                    })
                    .collect();
                (stand, inner.engine.next_due())
            };
            let is = |status: &str| stand.values().filter(|other| *other == status).count();
            if is("fired") == ids.len() {
                return Ok(Value::Object(stand));
            }
            let stuck = is("failed") + is("cancelled") > 0
                || stand.values().any(Value::is_null)
                || self.course.leaps() && next.is_none();
            if stuck {
                let state = self.course.inner().engine.summary();
                let events = state["events"].as_array().cloned().unwrap_or_default();
                let of_them = events.iter().filter(|event| {
                    let id = event["trigger_id"].as_str();
                    ids.iter().any(|other| Some(other.as_str()) == id)
                });
                let faults = of_them.filter(|event| event.get("error").is_some());
                let faults: Vec<String> = faults.rev().take(6).map(Value::to_string).collect();
                let faults = match faults.is_empty() {
                    true => String::new(),
                    false => format!("; {}", faults.join(", ")),
                };
                return Err(format!(
                    "not all triggers can fire any more: {}{faults}",
                    Value::Object(stand)
                ));
            }
            match next {
                Some(next) if self.course.leaps() => {
                    self.pass_to(caller, next).await?;
                }
                _ => changed.await,
            }
        }
    }

    /// Waits until what is under way is done, and returns where all triggers stand.
    pub(super) async fn settle(&self, caller: &Caller) -> Value {
        const MOST: Duration = Duration::from_secs(60);
        if !self.course.listens() {
            return self.course.inner().engine.summary();
        }
        if self.course.is_in_order() {
            return tokio::select! {
                biased;
                state = self.settle_together(caller) => state,
                () = caller.given_up() => self.course.inner().engine.summary(),
            };
        }
        let begun = self.course.inner().engine.under_way();
        let over = self.changes(|course| {
            let under_way = course.inner().engine.under_way();
            !begun.iter().any(|firing| under_way.contains(firing))
        });
        // What takes longer is told as it stands.
        let _ = tokio::time::timeout(MOST, over).await;
        self.course.inner().engine.summary()
    }

    /// Waits until all who work on the env are done, and has one of them settle for all. So each tells the same, whoever
    /// was done first.
    async fn settle_together(&self, caller: &Caller) -> Value {
        let settler = self.course.settle(&caller.step);
        let told = |may_come: &dyn Fn(&[String]) -> bool| match settler.told() {
            Some(state) => Some(Some(state)),
            None => settler.is_to_settle(may_come).then_some(None),
        };
        if let Some(state) = self.in_company(caller, told).await {
            return state;
        }
        let begun = self.course.inner().engine.under_way();
        loop {
            let due = self.course.inner().engine.due_of(&begun);
            let Some(due) = due else { break };
            // Without a clock that leaps, what waits for a time goes on waiting.
            if self.pass_to(caller, due).await.is_err() {
                break;
            }
        }
        let state = self.course.inner().engine.summary();
        settler.tell_all(&state);
        state
    }

    /// Waits until something is so, told whether others may come who are to be waited for. A step that waits for others
    /// rests.
    async fn in_company<T>(
        &self,
        caller: &Caller,
        find: impl Fn(&dyn Fn(&[String]) -> bool) -> Option<T>,
    ) -> T {
        let company = caller.company.as_deref();
        let may_come =
            |resting: &[String]| company.is_some_and(|company| company.may_come(resting));
        loop {
            let mut changed = std::pin::pin!(self.course.changed.notified());
            changed.as_mut().enable();
            let company_changed = company.map(Company::changed);
            if let Some(found) = find(&may_come) {
                return found;
            }
            if let Some(company) = company {
                company.rests();
            }
            tokio::select! {
                () = changed => {}
                () = async {
                    match company_changed {
                        Some(changed) => changed.await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
        }
    }

    /// Has triggers fire when they are due, as long as somebody works on the env.
    pub(super) async fn keep_time(self: Arc<Self>, shift: u64) {
        let caller = Caller::new("triggers", TRIGGER_ROLE).passing_time(true);
        loop {
            let mut changed = std::pin::pin!(self.course.changed.notified());
            changed.as_mut().enable();
            match self.course.next_in(shift) {
                Err(()) => return,
                Ok(None) => changed.await,
                Ok(Some(left)) => {
                    tokio::select! {
                        () = tokio::time::sleep(left) => {
                            for effect in self.course.on(vec![Event::Tick]) {
                                self.clone().beside(caller.clone(), vec![effect]);
                            }
                        }
                        () = changed => {}
                    }
                }
            }
        }
    }
}
