//! The virtual clock of an env.
//!
//! It is told what the real time is, in microseconds since some point, and never looks itself. In real time it goes on at
//! its rate while somebody works on the env, and stands still else. As an event clock it goes on by leaps alone.

use std::time::Duration;

use crate::json::{Value, json};
use crate::task::moment::{Moment, SECOND};

/// The fastest rate, in virtual seconds per real second.
const MAX_RATE: f64 = 86_400.0;

/// The seconds of a day, within which a clock must not reach the end of time.
const DAY: f64 = 86_400.0;

/// The virtual clock of an env, set or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Clock {
    set: Option<Set>,
}

#[derive(Clone, Debug, PartialEq)]
struct Set {
    start: Moment,
    rate: f64,
    /// What it showed when it was looked at last, or set.
    shown: Moment,
    /// The real time at which it showed that; `None` while it stands still.
    since: Option<i64>,
}

impl Clock {
    /// Sets the clock, which stands still until it is [`Clock::run`].
    pub(super) fn set(&mut self, start: Moment, rate: f64) -> Result<(), String> {
        if !rate.is_finite() || !(0.0..=MAX_RATE).contains(&rate) {
            return Err(format!(
                "the rate is {rate} virtual seconds per real second, but can be 0 to {MAX_RATE}"
            ));
        }
        if start.after(length(DAY, rate)) == Moment::MAX {
            return Err(format!(
                "a clock that starts at {start} reaches the end of time within a day"
            ));
        }
        self.set = Some(Set {
            start,
            rate,
            shown: start,
            since: None,
        });
        Ok(())
    }

    /// Takes the clock away.
    pub(super) fn clear(&mut self) {
        self.set = None;
    }

    /// Returns the virtual time; `None` where the clock is not set.
    pub(super) fn now(&self, real: i64) -> Option<Moment> {
        let set = self.set.as_ref()?;
        Some(match set.since {
            None => set.shown,
            Some(since) => {
                let passed = real.saturating_sub(since).max(0);
                set.shown
                    .after(length(passed as f64 / SECOND as f64, set.rate))
            }
        })
    }

    /// Returns the point at which it was set.
    pub(super) fn start(&self) -> Option<Moment> {
        self.set.as_ref().map(|set| set.start)
    }

    /// Returns whether it is set to stand still for ever.
    pub(super) fn is_frozen(&self) -> bool {
        self.set.as_ref().is_some_and(|set| set.rate == 0.0)
    }

    /// Returns whether it is one that goes on in real time, where somebody is there.
    pub(super) fn goes_on(&self) -> bool {
        self.set.as_ref().is_some_and(|set| set.rate > 0.0)
    }

    /// Has it go on from this real time.
    pub(super) fn run(&mut self, real: i64) {
        if let Some(set) = &mut self.set
            && set.since.is_none()
        {
            set.since = Some(real);
        }
    }

    /// Has it stand still.
    pub(super) fn pause(&mut self, real: i64) {
        if let (Some(now), Some(set)) = (self.now(real), &mut self.set) {
            set.shown = now;
            set.since = None;
        }
    }

    /// Has it leap to a point, but never back.
    pub(super) fn leap(&mut self, to: Moment) {
        if let Some(set) = &mut self.set {
            set.shown = set.shown.max(to);
        }
    }

    /// Returns how long it is until a point, in real time; `None` where it is never reached.
    pub(super) fn until(&self, to: Moment, real: i64) -> Option<Duration> {
        let set = self.set.as_ref()?;
        let left = to.us().saturating_sub(self.now(real)?.us());
        if left <= 0 {
            return Some(Duration::ZERO);
        }
        if set.since.is_none() || set.rate == 0.0 {
            return None;
        }
        // A microsecond more than needed: what is waited for is then reached.
        let us = (left as f64 / set.rate).ceil().min(1e15);
        Some(Duration::from_micros(us as u64 + 1))
    }

    /// Returns what is told of the clock.
    pub(super) fn state(&self, real: i64) -> Value {
        let (Some(set), Some(now)) = (&self.set, self.now(real)) else {
            return json!({"armed": false});
        };
        json!({
            "armed": true,
            "t0": set.start.to_string(),
            "virtual_seconds_per_real_second": set.rate,
            "virtual_time": now.to_string(),
            "env_get_time_url": "/clock/time",
        })
    }

    /// Returns the clock as it is kept; null where it is not set.
    pub(super) fn to_value(&self, real: i64) -> Value {
        match (&self.set, self.now(real)) {
            (Some(set), Some(now)) => json!({
                "start": set.start.to_string(),
                "rate": set.rate,
                "now": now.to_string(),
            }),
            _ => Value::Null,
        }
    }

    /// Reads a clock that was kept; it stands still. `None` where the value is none.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        if value.is_null() {
            return Some(Clock::default());
        }
        let moment = |key: &str| Moment::parse(value.get(key)?.as_str()?).ok();
        let mut clock = Clock::default();
        clock
            .set(moment("start")?, value.get("rate")?.as_f64()?)
            .ok()?;
        clock.leap(moment("now")?);
        Some(clock)
    }
}

/// Returns the virtual length of real seconds, in microseconds.
fn length(seconds: f64, rate: f64) -> i64 {
    // What is too large for a number of microseconds stays at the largest.
    (seconds * rate * SECOND as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(rate: f64) -> Clock {
        let mut clock = Clock::default();
        let start = Moment::parse("2026-03-02T09:00:00Z").unwrap();
        clock.set(start, rate).unwrap();
        clock
    }

    fn shown(clock: &Clock, real: i64) -> String {
        clock
            .now(real)
            .map_or("not set".to_owned(), |now| now.to_string())
    }

    #[test]
    fn a_clock_goes_on_at_its_rate_while_it_runs() {
        let mut clock = clock(3600.0);
        assert_eq!(shown(&clock, 5 * SECOND), "2026-03-02T09:00:00Z");
        clock.run(10 * SECOND);
        assert_eq!(shown(&clock, 12 * SECOND), "2026-03-02T11:00:00Z");
        assert_eq!(
            shown(&clock, 0),
            "2026-03-02T09:00:00Z",
            "time never goes back"
        );
        clock.pause(13 * SECOND);
        assert_eq!(shown(&clock, 99 * SECOND), "2026-03-02T12:00:00Z");
        clock.run(100 * SECOND);
        assert_eq!(shown(&clock, 101 * SECOND), "2026-03-02T13:00:00Z");
        let five = Moment::parse("2026-03-02T17:00:00Z").unwrap();
        let wait = clock.until(five, 101 * SECOND).unwrap();
        assert_eq!(wait, Duration::from_micros(4_000_001));
        assert_eq!(clock.until(five, 200 * SECOND), Some(Duration::ZERO));
        assert_eq!(
            shown(&clock, i64::MAX),
            Moment::MAX.to_string(),
            "it stays at the end of time"
        );
    }

    #[test]
    fn a_frozen_clock_reaches_nothing() {
        let mut clock = clock(0.0);
        clock.run(0);
        assert_eq!(shown(&clock, i64::MAX), "2026-03-02T09:00:00Z");
        assert!(clock.is_frozen());
        assert_eq!(clock.until(Moment::MAX, 0), None);
    }

    #[test]
    fn an_event_clock_leaps_and_never_back() {
        let mut clock = clock(1.0);
        let later = Moment::parse("2026-03-04T09:00:00Z").unwrap();
        clock.leap(later);
        clock.leap(Moment::MIN);
        assert_eq!(clock.now(0), Some(later));
        let kept = clock.to_value(0);
        let back = Clock::from_value(&kept).unwrap();
        assert_eq!((back.to_value(7), back.now(7)), (kept, Some(later)));
    }

    #[test]
    fn a_clock_that_makes_no_sense_is_not_set() {
        let start = Moment::parse("2026-03-02T09:00:00Z").unwrap();
        for rate in [-1.0, f64::NAN, f64::INFINITY, 86_400.1] {
            assert!(Clock::default().set(start, rate).is_err(), "{rate}");
        }
        let end = Moment::parse("9999-12-30T00:00:00Z").unwrap();
        assert!(Clock::default().set(end, 1.0).is_err());
        assert_eq!(Clock::from_value(&json!({"start": "x"})), None);
        assert_eq!(Clock::default().state(0), json!({"armed": false}));
    }
}
