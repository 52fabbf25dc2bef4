//! How things go on in an env by themselves: its virtual clock, its triggers, and who works on it meanwhile.
//!
//! Where no clock runs in real time, all is done in order: a call is answered when what it set off is done.
//!
//! An event clock stands still while any step works on the env. It leaps when all of them wait: to the nearest point that
//! one of them waits for, through all that is due on the way. A clock in real time goes on while a step is there that works
//! on the env, and stands still between steps, when the state is taken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Caller;
use super::clock::Clock;
use super::triggers::{Effect, Engine, Event};
use crate::json::{Value, json};
use crate::step::trigger::Executor;
use crate::system::locked;
use crate::task::deploy::ClockMode;
use crate::task::moment::Moment;

/// The clock and the triggers of one env.
pub(super) struct Course {
    mode: ClockMode,
    began: Instant,
    inner: Mutex<Inner>,
    /// Is notified of each change of what is in it.
    pub(super) changed: Notify,
}

/// What changes.
#[derive(Default)]
pub(super) struct Inner {
    pub(super) clock: Clock,
    pub(super) engine: Engine,
    /// The steps that work on the env, each with the number of its handles.
    working: BTreeMap<String, usize>,
    /// Who waits for a point: number, step, point.
    waiting: Vec<(u64, String, Moment)>,
    /// Who is done and waits for the others: number, step, and where the triggers stand when all are.
    settling: Vec<(u64, String, Option<Value>)>,
    /// The steps that wait for what has nothing to do with the env, each with a number.
    aside: Vec<(u64, String)>,
    /// The steps for which something is done that triggers ask for, each with how often.
    within: BTreeMap<String, usize>,
    executors: Vec<Attending>,
    /// The number of the last waiter, executor or call.
    last: u64,
    /// How often somebody came when nobody was there.
    shifts: u64,
    /// Whether somebody has the clock leap.
    is_leaping: bool,
}

/// An agent that follows instructions.
struct Attending {
    number: u64,
    agent: String,
    step: String,
    executor: Arc<dyn Executor>,
}

impl Inner {
    /// Returns the next number, from 1.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns the steps that wait: for a point, for others, or for what has nothing to do with the env.
    fn resting(&self) -> Vec<String> {
        let waiting = self.waiting.iter().map(|(_, step, _)| step);
        let settling = self.settling.iter().map(|(_, step, _)| step);
        let aside = self.aside.iter().map(|(_, step)| step);
        waiting.chain(settling).chain(aside).cloned().collect()
    }
}

impl Course {
    pub(super) fn new(mode: ClockMode) -> Self {
        Course {
            mode,
            began: Instant::now(),
            inner: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Returns whether time goes on by leaps alone.
    pub(super) fn leaps(&self) -> bool {
        self.mode == ClockMode::Event
    }

    /// Returns whether what a call sets off is done before the call is answered: no clock runs meanwhile.
    pub(super) fn is_in_order(&self) -> bool {
        self.leaps() || !self.inner().clock.goes_on()
    }

    /// Returns the real time, in microseconds since some point.
    pub(super) fn real(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Returns what changes, locked.
    pub(super) fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        locked(&self.inner)
    }

    /// Returns the virtual time; `None` where there is no clock.
    pub(super) fn now(&self) -> Option<Moment> {
        let real = self.real();
        self.inner().clock.now(real)
    }

    /// Returns whether calls matter to a trigger.
    pub(super) fn listens(&self) -> bool {
        self.inner().engine.listens()
    }

    /// Tells the triggers what happened, and returns what is to be done.
    pub(super) fn on(&self, events: Vec<Event<'_>>) -> Vec<Effect> {
        let real = self.real();
        let mut inner = self.inner();
        let now = inner.clock.now(real);
        let mut effects = Vec::new();
        for event in events {
            effects.extend(inner.engine.on(event, now));
        }
        drop(inner);
        self.changed.notify_waiters();
        effects
    }

    /// Sets the clock, or takes it away.
    pub(super) fn set_clock(&self, to: Option<(Moment, f64)>) -> Result<(), String> {
        let real = self.real();
        let mut inner = self.inner();
        match to {
            Some((start, rate)) => inner.clock.set(start, rate)?,
            None => inner.clock.clear(),
        }
        if !inner.working.is_empty() && !self.leaps() {
            inner.clock.run(real);
        }
        let start = inner.clock.start();
        inner.engine.clock_was_set(start);
        drop(inner);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Returns the clock and the triggers as they are kept; null where there is neither.
    pub(super) fn to_value(&self) -> Value {
        let real = self.real();
        let inner = self.inner();
        let (clock, triggers) = (inner.clock.to_value(real), inner.engine.to_value());
        match clock.is_null() && triggers.is_null() {
            true => Value::Null,
            false => json!({"clock": clock, "triggers": triggers}),
        }
    }

    /// Brings a clock and triggers that were kept back; `None` where the value is none.
    pub(super) fn bring_back(&self, value: &Value) -> Option<()> {
        let clock = Clock::from_value(&value["clock"])?;
        let engine = Engine::from_value(&value["triggers"], clock.start())?;
        let real = self.real();
        let mut inner = self.inner();
        inner.clock = clock;
        inner.engine = engine;
        if !inner.working.is_empty() && !self.leaps() {
            inner.clock.run(real);
        }
        drop(inner);
        self.changed.notify_waiters();
        Some(())
    }

    /// Has the clock stand at a point while a recorded call is made again; there is none where it was made without one.
    pub(super) fn set_back(&self, time: Option<&str>) {
        let time = time.and_then(|time| Moment::parse(time).ok());
        // A clock that stands still has a rate that fits every time.
        let _ = self.set_clock(time.map(|time| (time, 0.0)));
    }

    /// Notes that a step works on the env; returns the number of the shift where it is the first.
    pub(super) fn enter(&self, step: &str) -> Option<u64> {
        let real = self.real();
        let mut inner = self.inner();
        let is_first = inner.working.is_empty();
        *inner.working.entry(step.to_owned()).or_default() += 1;
        if !is_first || self.leaps() {
            return None;
        }
        inner.clock.run(real);
        inner.shifts += 1;
        Some(inner.shifts)
    }

    /// Notes that a step has put a handle away.
    pub(super) fn leave(&self, step: &str) {
        let real = self.real();
        let mut inner = self.inner();
        if let Some(handles) = inner.working.get_mut(step) {
            *handles -= 1;
            if *handles == 0 {
                inner.working.remove(step);
            }
        }
        if inner.working.is_empty() {
            inner.clock.pause(real);
            inner.engine.rest();
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Returns the time until something is due, in real time; `Err` where the shift is over.
    pub(super) fn next_in(&self, shift: u64) -> Result<Option<std::time::Duration>, ()> {
        let real = self.real();
        let inner = self.inner();
        if inner.working.is_empty() || inner.shifts != shift {
            return Err(());
        }
        let due = inner.engine.next_due();
        Ok(due.and_then(|due| inner.clock.until(due, real)))
    }

    /// Has an agent follow instructions, and returns the number under which it does.
    pub(super) fn attend(&self, agent: &str, step: &str, executor: Arc<dyn Executor>) -> u64 {
        let mut inner = self.inner();
        let number = inner.number();
        inner.executors.push(Attending {
            number,
            agent: agent.to_owned(),
            step: step.to_owned(),
            executor,
        });
        number
    }

    /// Ends that.
    pub(super) fn excuse(&self, number: u64) {
        let mut inner = self.inner();
        let at = inner
            .executors
            .iter()
            .position(|attending| attending.number == number);
        let excused = at.map(|at| inner.executors.remove(at));
        drop(inner);
        // An executor may hold a handle of this env, whose end is noted here too.
        drop(excused);
    }

    /// Returns the agent that follows instructions, as this step has it at hand, else as the latest has.
    pub(super) fn executor(&self, agent: &str, step: &str) -> Option<Arc<dyn Executor>> {
        let inner = self.inner();
        let named = || {
            let all = inner.executors.iter().rev();
            all.filter(|attending| attending.agent == agent)
        };
        let own = named().find(|attending| attending.step == step);
        own.or_else(|| named().next())
            .map(|attending| attending.executor.clone())
    }

    /// Notes that something is done for a step that triggers ask for, until what is returned is dropped.
    pub(super) fn within(&self, caller: &Caller) -> Within<'_> {
        let step = caller.step.clone();
        *self.inner().within.entry(step.clone()).or_default() += 1;
        Within { course: self, step }
    }

    /// Returns whether a call may be part of what triggers ask for.
    pub(super) fn is_within(&self, caller: &Caller) -> bool {
        self.inner().within.contains_key(&caller.step)
    }

    /// Notes that a step is done with the env, until what is returned is dropped.
    pub(super) fn settle(&self, step: &str) -> Settler<'_> {
        let mut inner = self.inner();
        let number = inner.number();
        inner.settling.push((number, step.to_owned(), None));
        drop(inner);
        self.changed.notify_waiters();
        Settler {
            course: self,
            number,
        }
    }

    /// Notes that a step waits for what has nothing to do with the env, and returns the number under which it does.
    pub(super) fn step_aside(&self, step: &str) -> u64 {
        let mut inner = self.inner();
        let number = inner.number();
        inner.aside.push((number, step.to_owned()));
        drop(inner);
        self.changed.notify_waiters();
        number
    }

    /// Ends that.
    pub(super) fn step_back(&self, number: u64) {
        self.inner().aside.retain(|(other, _)| *other != number);
        self.changed.notify_waiters();
    }

    /// Notes that a step waits for a point, until what is returned is dropped.
    pub(super) fn wait(&self, step: &str, to: Moment) -> Waiter<'_> {
        let mut inner = self.inner();
        let number = inner.number();
        inner.waiting.push((number, step.to_owned(), to));
        drop(inner);
        self.changed.notify_waiters();
        Waiter {
            course: self,
            number,
            leaps: false,
        }
    }
}

/// What is done for a step that triggers ask for.
pub(super) struct Within<'c> {
    course: &'c Course,
    step: String,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        let mut inner = self.course.inner();
        if let Some(times) = inner.within.get_mut(&self.step) {
            *times -= 1;
            if *times == 0 {
                inner.within.remove(&self.step);
            }
        }
    }
}

/// A step that is done with an env, and waits until the others are.
pub(super) struct Settler<'c> {
    course: &'c Course,
    number: u64,
}

impl Settler<'_> {
    /// Returns where the triggers stand, where one that settled for all has said so.
    pub(super) fn told(&self) -> Option<Value> {
        let mut inner = self.course.inner();
        let mut all = inner.settling.iter_mut();
        let own = all.find(|(number, ..)| *number == self.number);
        own.and_then(|(.., state)| state.take())
    }

    /// Returns whether this one is to settle for all: all are done, nobody is to come, and it is the first.
    pub(super) fn is_to_settle(&self, may_come: impl Fn(&[String]) -> bool) -> bool {
        let inner = self.course.inner();
        let is_done = |step: &String| inner.settling.iter().any(|(_, other, _)| other == step);
        let all_done = inner.working.keys().all(is_done);
        let waits = inner.settling.iter().filter(|(.., state)| state.is_none());
        let first = waits.map(|(number, ..)| *number).min();
        all_done && first == Some(self.number) && !may_come(&inner.resting())
    }

    /// Tells all that are done where the triggers stand.
    pub(super) fn tell_all(&self, state: &Value) {
        let mut inner = self.course.inner();
        for (.., told) in &mut inner.settling {
            *told = Some(state.clone());
        }
        drop(inner);
        self.course.changed.notify_waiters();
    }
}

impl Drop for Settler<'_> {
    fn drop(&mut self) {
        let mut inner = self.course.inner();
        inner.settling.retain(|(number, ..)| *number != self.number);
        drop(inner);
        self.course.changed.notify_waiters();
    }
}

/// A step that waits for a point of an event clock.
pub(super) struct Waiter<'c> {
    course: &'c Course,
    number: u64,
    leaps: bool,
}

impl Waiter<'_> {
    /// Returns whether the clock may leap now to what this one waits for: all wait, nobody for less, and nobody is to
    /// come.
    pub(super) fn may_leap(&mut self, may_come: impl Fn(&[String]) -> bool) -> bool {
        let mut inner = self.course.inner();
        let resting = inner.resting();
        let all_wait =
            inner.working.keys().all(|step| resting.contains(step)) && !may_come(&resting);
        let nearest = inner
            .waiting
            .iter()
            .min_by_key(|(number, _, to)| (*to, *number));
        let is_nearest = nearest.is_some_and(|(number, ..)| *number == self.number);
        if inner.is_leaping || !all_wait || !is_nearest {
            return false;
        }
        inner.is_leaping = true;
        self.leaps = true;
        true
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut inner = self.course.inner();
        inner.waiting.retain(|(number, ..)| *number != self.number);
        if self.leaps {
            inner.is_leaping = false;
        }
        drop(inner);
        self.course.changed.notify_waiters();
    }
}
