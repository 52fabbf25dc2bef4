//! Numbers as people read them.

use crate::event::Tally;

/// Returns a number with its noun: `1 task`, `2 tasks`, `2 fixes`.
pub fn count(n: u64, noun: &str) -> String {
    match (n, noun.ends_with(['s', 'x'])) {
        (1, _) => format!("1 {noun}"),
        (_, true) => format!("{n} {noun}es"),
        (_, false) => format!("{n} {noun}s"),
    }
}

/// Returns a time: `0.4 s`, `3 min 5 s`, `2 h 10 min`.
pub fn seconds(us: u64) -> String {
    let s = us / 1_000_000;
    match s {
        0..60 => format!("{}.{} s", s, us / 100_000 % 10),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s / 60 % 60),
    }
}

/// Returns a score without digits that say nothing.
pub fn score(score: f64) -> String {
    if score == 0.0 || score == 1.0 {
        return if score == 1.0 { "1" } else { "0" }.to_owned();
    }
    let text = format!("{score:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "1" && score < 1.0 {
        return "0.9999".to_owned();
    }
    text.to_owned()
}

/// Returns what was counted: `3 ran, 5 hit (12.4 s saved), 1 deferred`.
pub fn counts(tally: &Tally) -> String {
    let mut parts = vec![format!("{} ran", tally.ran)];
    if tally.failed > 0 {
        parts[0].push_str(&format!(" ({} failed)", tally.failed));
    }
    if tally.hit > 0 {
        parts.push(format!(
            "{} hit ({} saved)",
            tally.hit,
            seconds(tally.saved_us)
        ));
    }
    if tally.deferred > 0 {
        parts.push(format!("{} deferred", tally.deferred));
    }
    if tally.skipped > 0 {
        parts.push(format!("{} skipped", tally.skipped));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_scores_are_short() {
        for (us, shown) in [
            (0, "0.0 s"),
            (449_999, "0.4 s"),
            (12_400_000, "12.4 s"),
            (185_000_000, "3 min 5 s"),
        ] {
            assert_eq!(seconds(us), shown);
        }
        assert_eq!(seconds(7_800_000_000), "2 h 10 min");
        let scores = [1.0, 0.5, 0.0, 2.0 / 3.0, 0.999_999, 10.0].map(score);
        assert_eq!(scores, ["1", "0.5", "0", "0.6667", "0.9999", "10"]);
    }

    #[test]
    fn what_is_nothing_is_not_said() {
        assert_eq!(counts(&Tally::default()), "0 ran");
        let tally = Tally {
            hit: 5,
            ran: 3,
            deferred: 1,
            failed: 1,
            skipped: 2,
            saved_us: 12_400_000,
            ..Tally::default()
        };
        assert_eq!(
            counts(&tally),
            "3 ran (1 failed), 5 hit (12.4 s saved), 1 deferred, 2 skipped"
        );
    }
}
