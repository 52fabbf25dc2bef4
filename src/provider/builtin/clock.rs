//! The time of an env, which is a part of its state and goes on by calls alone.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// The time of an env whose state says none.
pub(super) const START: &str = "2026-01-01T09:00:00Z";

/// Returns the seconds since 1970 of a time in RFC 3339; one without an offset is in UTC, as is a date alone.
pub(super) fn seconds(text: &str) -> Result<i64, String> {
    parse(text).map(Timestamp::as_second)
}

/// Returns a time as it is written in a state.
pub(super) fn shown(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| START.to_owned(), |time| time.to_string())
}

/// Returns a time as it is written in a state: in UTC.
pub(super) fn in_utc(text: &str) -> Result<String, String> {
    parse(text).map(|time| time.to_string())
}

/// Moves a time on by a minute; the last minute of all stays.
pub(super) fn advance(now: &mut String) {
    if let Ok(time) = parse(now)
        && let Ok(next) = time.checked_add(SignedDuration::from_mins(1))
    {
        *now = next.to_string();
    }
}

/// Moves a time on to another one, where that is later.
pub(super) fn follow(now: &mut String, to: &str) {
    if let (Ok(from), Ok(to)) = (parse(now), parse(to))
        && to > from
    {
        *now = to.to_string();
    }
}

fn parse(text: &str) -> Result<Timestamp, String> {
    let with_offset = text.parse::<Timestamp>().ok();
    let time = with_offset.or_else(|| {
        let local = text.parse::<DateTime>().ok()?;
        Offset::UTC.to_timestamp(local).ok()
    });
    time.ok_or_else(|| format!("`{text}` is no time like `{START}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_goes_on_by_a_minute_and_stays_at_its_end() {
        let mut now = START.to_owned();
        advance(&mut now);
        assert_eq!(now, "2026-01-01T09:01:00Z");
        let mut last = Timestamp::MAX.to_string();
        advance(&mut last);
        assert_eq!(last, Timestamp::MAX.to_string());
    }

    #[test]
    fn a_time_follows_a_clock_but_never_back() {
        let mut now = START.to_owned();
        follow(&mut now, "2026-03-02T09:00:00Z");
        follow(&mut now, "2026-02-01T09:00:00Z");
        follow(&mut now, "soon");
        assert_eq!(now, "2026-03-02T09:00:00Z");
    }

    #[test]
    fn times_without_an_offset_are_in_utc() {
        for (text, utc) in [
            ("2026-01-01T10:00:00+01:00", "2026-01-01T09:00:00Z"),
            ("2026-01-01T09:00:00", "2026-01-01T09:00:00Z"),
            ("2026-01-01 09:00", "2026-01-01T09:00:00Z"),
            ("2026-01-01", "2026-01-01T00:00:00Z"),
        ] {
            assert_eq!(in_utc(text).as_deref(), Ok(utc), "{text}");
        }
        assert_eq!(
            seconds("soon").unwrap_err(),
            "`soon` is no time like `2026-01-01T09:00:00Z`"
        );
        assert_eq!(shown(seconds(START).unwrap()), START);
    }
}
