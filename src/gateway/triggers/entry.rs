//! One registered trigger: where it stands, and when it is due.

use std::collections::VecDeque;

use crate::json::Value;
use crate::task::moment::Moment;
use crate::task::triggers::{At, Length, Start, Trigger, When};

/// Where a trigger stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::gateway) enum Status {
    /// It waits for what sets it off.
    Armed,
    /// Its actions are under way.
    Firing,
    /// Its actions are under way, and what set it off has happened again.
    Queued,
    /// It has fired, and does not fire again.
    Fired,
    /// An action failed, and it does not fire again.
    Failed,
    /// It was called off.
    Cancelled,
}

const STATUSES: [(Status, &str); 6] = [
    (Status::Armed, "armed"),
    (Status::Firing, "firing"),
    (Status::Queued, "queued"),
    (Status::Fired, "fired"),
    (Status::Failed, "failed"),
    (Status::Cancelled, "cancelled"),
];

impl Status {
    /// Returns the word for it.
    pub(in crate::gateway) fn as_str(self) -> &'static str {
        let found = STATUSES.iter().find(|(status, _)| *status == self);
        found.map_or("armed", |(_, word)| word)
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        let found = STATUSES.iter().find(|(_, other)| *other == word);
        found.map(|(status, _)| *status)
    }
}

/// What set a trigger off.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cause {
    /// What placeholders of its actions see.
    pub(super) scope: Value,
    /// How many triggers in a row led to it.
    pub(super) depth: u64,
    /// The step whose call it was; empty where time set it off.
    pub(super) step: String,
    /// The number of the call, which holds as long as the env does; 0 where there is none.
    pub(super) call: u64,
}

/// A registered trigger.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) trigger: Trigger,
    pub(super) status: Status,
    pub(super) detected_at: Option<Moment>,
    pub(super) fired_at: Option<Moment>,
    pub(super) last_failure_at: Option<Moment>,
    pub(super) detections: u64,
    pub(super) fire_count: u64,
    pub(super) failure_count: u64,
    /// When it is due next.
    pub(super) mark: Option<Moment>,
    /// How many of its moments have passed.
    pub(super) marks: u64,
    /// Whether what it waits for has fired before there was a clock.
    pub(super) waits_for_clock: bool,
    /// What set it off while it was firing.
    pub(super) queue: VecDeque<Cause>,
}

impl Entry {
    pub(super) fn new(trigger: Trigger) -> Self {
        Entry {
            trigger,
            status: Status::Armed,
            detected_at: None,
            fired_at: None,
            last_failure_at: None,
            detections: 0,
            fire_count: 0,
            failure_count: 0,
            mark: None,
            marks: 0,
            waits_for_clock: false,
            queue: VecDeque::new(),
        }
    }

    /// Returns whether it may still fire.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.status, Status::Armed | Status::Firing | Status::Queued)
    }

    /// Sets its first moment by a clock that was set at `start`; intervals count from `now`.
    pub(super) fn anchor(&mut self, start: Moment, now: Moment) {
        let When::Time(rule) = &self.trigger.when else {
            return;
        };
        let first = match &rule.start {
            Start::At(at) => point(*at, start),
            Start::After { offset, .. } if self.waits_for_clock => {
                self.waits_for_clock = false;
                now.after(*offset)
            }
            Start::After { .. } => return,
            Start::Interval => {
                let every = rule.every.map_or(0, |every| every.drawn(self.marks));
                now.after(every)
            }
        };
        self.mark_at(first, start);
    }

    /// Sets its first moment by another trigger that has fired at this point, or as soon as there is a clock.
    pub(super) fn anchor_after(&mut self, fired_at: Option<Moment>, start: Option<Moment>) {
        let When::Time(rule) = &self.trigger.when else {
            return;
        };
        let Start::After { offset, .. } = rule.start else {
            return;
        };
        match (fired_at, start) {
            (Some(fired_at), Some(start)) => self.mark_at(fired_at.after(offset), start),
            _ => self.waits_for_clock = true,
        }
    }

    fn mark_at(&mut self, moment: Moment, start: Moment) {
        let When::Time(rule) = &self.trigger.when else {
            return;
        };
        let is_over = rule.until.is_some_and(|until| moment > point(until, start))
            || rule.count.is_some_and(|count| self.marks >= count);
        self.mark = (!is_over).then_some(moment);
    }

    /// Passes its moment, and sets the next one where it has one.
    pub(super) fn pass_mark(&mut self, start: Moment) {
        let When::Time(rule) = &self.trigger.when else {
            return;
        };
        let every = rule.every;
        self.marks += 1;
        if let (Some(mark), Some(every)) = (self.mark.take(), every) {
            self.mark_at(mark.after(every.drawn(self.marks)), start);
        }
    }
}

fn point(at: At, start: Moment) -> Moment {
    match at {
        At::Moment(moment) => moment,
        At::FromStart(us) => start.after(us),
    }
}

/// A length that may be drawn.
pub(super) trait Draw {
    /// Returns the length in microseconds; drawing the same number again gives the same.
    fn drawn(&self, number: u64) -> i64;
}

impl Draw for Length {
    fn drawn(&self, number: u64) -> i64 {
        match *self {
            Length::Fixed(us) => us,
            Length::Drawn { mean, seed } => {
                let bits = mixed(seed as u64 ^ mixed(number.wrapping_add(1))) >> 11;
                // In (0, 1], so that there is a logarithm.
                let uniform = (bits + 1) as f64 / (1_u64 << 53) as f64;
                ((-ln(uniform) * mean as f64) as i64).max(1)
            }
        }
    }
}

/// Scrambles a number (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the natural logarithm of a number in (0, 1], by operations that give the same bits on every machine; that of
/// the standard library need not.
fn ln(number: f64) -> f64 {
    let (mut mantissa, mut halvings) = (number, 0_u32);
    while mantissa < 0.75 {
        mantissa *= 2.0;
        halvings += 1;
    }
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let (mut power, mut sum) = (ratio, 0.0);
    for n in 0..16_u32 {
        sum += power / f64::from(2 * n + 1);
        power *= square;
    }
    2.0 * sum - f64::from(halvings) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_one() {
        for n in 1..=1000 {
            let x = f64::from(n) / 1000.0;
            assert!((ln(x) - x.ln()).abs() < 1e-14, "{x}");
        }
        let least = 1.0 / (1_u64 << 53) as f64;
        assert!((ln(least) - least.ln()).abs() < 1e-12);
    }

    #[test]
    fn draws_are_the_same_again_and_have_their_mean() {
        let length = Length::Drawn {
            mean: 1_000_000,
            seed: 7,
        };
        let draws: Vec<i64> = (0..4).map(|n| length.drawn(n)).collect();
        assert_eq!(draws, (0..4).map(|n| length.drawn(n)).collect::<Vec<_>>());
        expect_test::expect!["[765304, 2227702, 96276, 1334979]"].assert_eq(&format!("{draws:?}"));
        let sum: i64 = (0..10_000).map(|n| length.drawn(n)).sum();
        assert!((9_700..10_300).contains(&(sum / 1_000_000)), "{sum}");
        let other = Length::Drawn {
            mean: 1_000_000,
            seed: -7,
        };
        assert_ne!(other.drawn(0), length.drawn(0));
    }
}
