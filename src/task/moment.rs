//! Points of virtual time and lengths of it, as triggers and clocks write them.
//!
//! A point is a whole number of microseconds since 1970, a length a whole number of microseconds. What would leave the
//! range of both stays at its end, so that nothing here fails but the reading of a text.

use std::fmt;

use jiff::civil::Time;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;

const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A point of virtual time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Moment(i64);

impl Moment {
    /// The last point of all.
    pub const MAX: Moment = Moment(253_402_207_200_999_999);
    /// The first point of all.
    pub const MIN: Moment = Moment(-377_705_023_201_000_000);

    /// Reads a time as RFC 3339 has it: with a date, seconds, and an offset or `Z`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let no_time = || {
            format!(
                "`{text}` is no time like `2026-03-02T09:00:00Z`, with seconds and an offset or `Z`"
            )
        };
        if !is_rfc_3339(text) {
            return Err(no_time());
        }
        let time: Timestamp = text.to_ascii_uppercase().parse().map_err(|_| no_time())?;
        Ok(Moment(time.as_microsecond()))
    }

    /// Returns the microseconds since 1970.
    pub fn us(self) -> i64 {
        self.0
    }

    /// Returns the point so many microseconds later.
    pub fn after(self, us: i64) -> Self {
        let sum = self.0.saturating_add(us);
        Moment(sum.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Returns the point with the part of a second left out.
    pub fn whole_seconds(self) -> Self {
        Moment(self.0 - self.0.rem_euclid(SECOND)).max(Self::MIN)
    }

    /// Returns the same point as a clock in a zone shows it, with its offset.
    pub fn in_zone(self, zone: &Zone) -> String {
        let time = self.timestamp().to_zoned_datetime(zone.zone.clone());
        format!("{}{}", time.datetime(), offset_text(time.offset()))
    }

    fn timestamp(self) -> Timestamp {
        Timestamp::from_microsecond(self.0).unwrap_or(Timestamp::MAX)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.timestamp())
    }
}

fn offset_text(offset: Offset) -> String {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Returns whether a text has the form `YYYY-MM-DDThh:mm:ss[.f](Z|+hh:mm)`.
fn is_rfc_3339(text: &str) -> bool {
    let fits = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(byte, of)| match of {
                b'0' => byte.is_ascii_digit(),
                b'T' => byte == b'T' || byte == b't',
                b'+' => byte == b'+' || byte == b'-',
                other => byte == other,
            })
    };
    let form = "0000-00-00T00:00:00";
    let Some((time, rest)) = text.split_at_checked(form.len()) else {
        return false;
    };
    let rest = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let rest = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
            let digits = fraction.len() - rest.len();
            if !(1..=9).contains(&digits) {
                return false;
            }
            rest
        }
    };
    fits(time, form) && (rest == "Z" || rest == "z" || fits(rest, "+00:00"))
}

/// Reads a length of time such as `P1DT2H` or `PT0.5S`, in microseconds: weeks, days, hours, minutes and seconds, in this
/// order. Years and months have no fixed length and are none.
pub fn parse_length(text: &str) -> Result<i64, String> {
    let why = || {
        format!(
            "`{text}` is no length of time like `P2DT3H` or `PT30M` (weeks, days, hours, minutes and seconds)"
        )
    };
    let rest = text.strip_prefix('P').ok_or_else(why)?;
    let (date, time) = match rest.split_once('T') {
        Some((date, time)) if !time.is_empty() => (date, time),
        Some(_) => return Err(why()),
        None => (rest, ""),
    };
    let mut total: i64 = 0;
    let mut parts = 0;
    for (mut rest, units) in [
        (date, &[('W', 7 * DAY), ('D', DAY)][..]),
        (time, &[('H', HOUR), ('M', MINUTE), ('S', SECOND)][..]),
    ] {
        for (letter, unit) in units {
            let Some((number, after)) = rest.split_once(*letter) else {
                continue;
            };
            let us = length_of(number, *unit, *letter == 'S').ok_or_else(why)?;
            total = total.checked_add(us).ok_or_else(why)?;
            parts += 1;
            rest = after;
        }
        if !rest.is_empty() {
            return Err(why());
        }
    }
    if parts == 0 {
        return Err(why());
    }
    Ok(total)
}

/// Returns so many units in microseconds; `None` where the text is no number or the length is out of range.
fn length_of(number: &str, unit: i64, may_have_fraction: bool) -> Option<i64> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if may_have_fraction && !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let micros = format!("{:0<6}", &fraction[..fraction.len().min(6)]);
    let micros: i64 = micros.parse().ok()?;
    whole.checked_mul(unit)?.checked_add(micros)
}

/// A time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    zone: TimeZone,
}

impl Zone {
    /// Returns the zone of an offset such as `+02:00`.
    pub fn of_offset(text: &str) -> Option<Self> {
        let (sign, rest) = match text.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let (hours, minutes) = hour_and_minute(rest)?;
        let seconds = sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60);
        let offset = Offset::from_seconds(seconds).ok()?;
        Some(Zone {
            zone: TimeZone::fixed(offset),
        })
    }

    /// Returns the zone with a name such as `Europe/Berlin`, as the tables that are compiled in know it.
    pub fn of_name(name: &str) -> Option<Self> {
        let zone = TimeZone::get(name).ok()?;
        Some(Zone { zone })
    }
}

/// Reads `HH:MM`.
fn hour_and_minute(text: &str) -> Option<(i8, i8)> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| {
        let is_digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_digits.then(|| text.parse::<i8>().ok()).flatten()
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    (hour < 24 && minute < 60).then_some((hour, minute))
}

/// The days of a week, as hours name them.
pub const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The hours in which somebody works.
#[derive(Clone, Debug, PartialEq)]
pub struct Hours {
    start: Time,
    end: Time,
    zone: Zone,
    days: [bool; 7],
}

impl Hours {
    /// Returns hours from one time of day to another, `HH:MM`, which may be on the next day; `None` where a text is none
    /// or both are the same.
    pub fn new(start: &str, end: &str, zone: Zone, days: [bool; 7]) -> Option<Self> {
        let time = |text: &str| {
            let (hour, minute) = hour_and_minute(text)?;
            Time::new(hour, minute, 0, 0).ok()
        };
        let (start, end) = (time(start)?, time(end)?);
        (start != end && days.contains(&true)).then_some(Hours {
            start,
            end,
            zone,
            days,
        })
    }

    /// Returns the first point from `now` on that is within the hours.
    pub fn open(&self, now: Moment) -> Moment {
        let today = now
            .timestamp()
            .to_zoned_datetime(self.zone.zone.clone())
            .date();
        for ahead in -1..=8_i64 {
            let Ok(day) = today.checked_add(ahead.days()) else {
                continue;
            };
            let weekday = usize::try_from(day.weekday().to_monday_zero_offset()).unwrap_or(0);
            if !self.days[weekday] {
                continue;
            }
            let at = |day: jiff::civil::Date, time: Time| {
                let zoned = day
                    .to_datetime(time)
                    .to_zoned_datetime(self.zone.zone.clone())
                    .ok()?;
                Some(Moment(zoned.timestamp().as_microsecond()))
            };
            let last = match self.end > self.start {
                true => Some(day),
                false => day.checked_add(1.days()).ok(),
            };
            let (Some(open), Some(close)) = (
                at(day, self.start),
                last.and_then(|last| at(last, self.end)),
            ) else {
                continue;
            };
            if now < close {
                return now.max(open);
            }
        }
        now
    }
}

/// Returns a length of time in seconds, for people.
pub fn seconds(us: i64) -> String {
    let length = SignedDuration::from_micros(us);
    format!("{} s", length.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Moment {
        Moment::parse(text).unwrap()
    }

    #[test]
    fn a_time_has_seconds_and_an_offset() {
        for (text, shown) in [
            ("2026-03-02T09:00:00Z", "2026-03-02T09:00:00Z"),
            ("2026-03-02t09:00:00z", "2026-03-02T09:00:00Z"),
            ("2026-03-02T09:00:00+02:00", "2026-03-02T07:00:00Z"),
            ("2026-03-02T09:00:00.25-01:00", "2026-03-02T10:00:00.25Z"),
        ] {
            assert_eq!(moment(text).to_string(), shown);
        }
        for text in [
            "",
            "2026-03-02",
            "2026-03-02T09:00Z",
            "2026-03-02T09:00:00",
            "2026-03-02 09:00:00Z",
            "2026-02-30T09:00:00Z",
            "2026-03-02T09:00:00.Z",
            "2026-03-02T09:00:00[UTC]",
            "2026-03-02T09:00:00Zé",
            "éé26-03-02T09:00:00Z",
        ] {
            assert!(Moment::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_length_is_a_sum_of_units_that_have_one() {
        for (text, us) in [
            ("PT1S", SECOND),
            ("PT0.5S", SECOND / 2),
            ("PT1.0000019S", SECOND + 1),
            ("P1W2DT3H4M5S", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND),
            ("P0D", 0),
        ] {
            assert_eq!(parse_length(text), Ok(us), "{text}");
        }
        for text in [
            "",
            "P",
            "PT",
            "P1DT",
            "1D",
            "P1Y",
            "P1M",
            "PT1D",
            "P1H",
            "PT1M1H",
            "P1.5D",
            "PT.5S",
            "PT5.S",
            "P-1D",
            "PT1S ",
            "P99999999999999W",
            "PTéS",
        ] {
            assert!(parse_length(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_stays_within_its_range() {
        assert_eq!(Moment::MAX.after(1), Moment::MAX);
        assert_eq!(Moment::MIN.after(i64::MIN), Moment::MIN);
        assert_eq!(Moment::MAX, Moment(Timestamp::MAX.as_microsecond()));
        assert_eq!(Moment::MIN, Moment(Timestamp::MIN.as_microsecond()));
        assert_eq!(Moment::MIN.whole_seconds(), Moment::MIN);
        let late = moment("1969-12-31T23:59:59.5Z").whole_seconds();
        assert_eq!(late.to_string(), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn a_zone_is_an_offset_or_a_name() {
        let time = moment("2026-07-01T12:00:00Z");
        let named = Zone::of_name("Europe/Berlin").unwrap();
        assert_eq!(time.in_zone(&named), "2026-07-01T14:00:00+02:00");
        let offset = Zone::of_offset("-03:30").unwrap();
        assert_eq!(time.in_zone(&offset), "2026-07-01T08:30:00-03:30");
        assert_eq!(Zone::of_name("Nowhere/There"), None);
        for text in ["", "02:00", "+2:00", "+24:00", "+02:60", "é"] {
            assert_eq!(Zone::of_offset(text), None, "{text}");
        }
    }

    #[test]
    fn work_begins_when_the_hours_do() {
        let hours = |start, end, days| {
            let zone = Zone::of_offset("+00:00").unwrap();
            Hours::new(start, end, zone, days).unwrap()
        };
        let weekdays = [true, true, true, true, true, false, false];
        let office = hours("09:00", "17:00", weekdays);
        let night = hours(
            "22:00",
            "06:00",
            [true, false, false, false, false, false, false],
        );
        let check = |hours: &Hours, now: &str, open: &str| {
            assert_eq!(hours.open(moment(now)), moment(open), "{now}");
        };
        // 2026-03-02 is a Monday.
        check(&office, "2026-03-02T10:00:00Z", "2026-03-02T10:00:00Z");
        check(&office, "2026-03-02T08:00:00Z", "2026-03-02T09:00:00Z");
        check(&office, "2026-03-02T17:00:00Z", "2026-03-03T09:00:00Z");
        check(&office, "2026-03-06T18:00:00Z", "2026-03-09T09:00:00Z");
        check(&night, "2026-03-03T05:00:00Z", "2026-03-03T05:00:00Z");
        check(&night, "2026-03-03T06:00:00Z", "2026-03-09T22:00:00Z");
        let zone = Zone::of_offset("+00:00").unwrap();
        assert_eq!(Hours::new("09:00", "09:00", zone.clone(), weekdays), None);
        assert_eq!(Hours::new("9:00", "17:00", zone.clone(), weekdays), None);
        assert_eq!(Hours::new("09:00", "17:00", zone, [false; 7]), None);
    }
}
