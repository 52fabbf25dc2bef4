//! How things go on in an env by themselves: its virtual clock, its triggers, and who works on it meanwhile.
//!
//! An event clock stands still while any step works on the env. It leaps when all of them wait: to the nearest point that
//! one of them waits for, through all that is due on the way. A clock in real time goes on while a step is there that works
//! on the env, and stands still between steps, when the state is taken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use tokio::sync::Notify;
use tokio::time::Instant;

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
    executors: Vec<(u64, String, Arc<dyn Executor>)>,
    /// The number of the next waiter or executor.
    next: u64,
    /// How often somebody came when nobody was there.
    shifts: u64,
    /// Whether somebody has the clock leap.
    is_leaping: bool,
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
    pub(super) fn attend(&self, agent: &str, executor: Arc<dyn Executor>) -> u64 {
        let mut inner = self.inner();
        let number = inner.next;
        inner.next += 1;
        inner.executors.push((number, agent.to_owned(), executor));
        number
    }

    /// Ends that.
    pub(super) fn excuse(&self, number: u64) {
        let mut inner = self.inner();
        let at = inner
            .executors
            .iter()
            .position(|(other, ..)| *other == number);
        let excused = at.map(|at| inner.executors.remove(at));
        drop(inner);
        // An executor may hold a handle of this env, whose end is noted here too.
        drop(excused);
    }

    /// Returns the agent that follows instructions, as the latest step has it at hand.
    pub(super) fn executor(&self, agent: &str) -> Option<Arc<dyn Executor>> {
        let inner = self.inner();
        let mut found = inner.executors.iter().rev();
        let found = found.find(|(_, name, _)| name == agent);
        found.map(|(.., executor)| executor.clone())
    }

    /// Notes that a step waits for a point, until what is returned is dropped.
    pub(super) fn wait(&self, step: &str, to: Moment) -> Waiter<'_> {
        let mut inner = self.inner();
        let number = inner.next;
        inner.next += 1;
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

/// A step that waits for a point of an event clock.
pub(super) struct Waiter<'c> {
    course: &'c Course,
    number: u64,
    leaps: bool,
}

impl Waiter<'_> {
    /// Returns whether the clock may leap now to what this one waits for: all wait, and nobody for less.
    pub(super) fn may_leap(&mut self) -> bool {
        let mut inner = self.course.inner();
        let all_wait = inner
            .working
            .keys()
            .all(|step| inner.waiting.iter().any(|(_, other, _)| other == step));
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
