//! Two texts side by side where they differ.

/// How many letters before the first difference are shown.
const BEFORE: usize = 30;

/// Returns what of two texts is shown where there is room for so many letters: all of both, or of each the part around the
/// first difference, with how many letters are left out before and after it.
pub fn differing(old: &str, new: &str, room: usize) -> (String, String) {
    let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    if old.len() <= room && new.len() <= room {
        return (old.into_iter().collect(), new.into_iter().collect());
    }
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(BEFORE.min(room / 3));
    let part = |text: &[char]| {
        let end = text.len().min(from + room);
        let mut part = String::new();
        if from > 0 {
            part.push_str(&format!("[{from} letters] …"));
        }
        part.extend(&text[from..end]);
        if end < text.len() {
            part.push_str(&format!("… [{} more]", text.len() - end));
        }
        part
    };
    (part(&old), part(&new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_differs_late_in_a_long_text_is_shown_on_both_sides() {
        let same = "Read the mail of this week, and ";
        let text = |what: &str| format!("{}{what} it all, please.", same.repeat(4));
        let (old, new) = differing(&text("answer"), &text("archive"), 40);
        assert_eq!(old, "[116 letters] …s week, and answer it all, please.");
        assert_eq!(new, "[116 letters] …s week, and archive it all, please.");
        let (old, new) = differing("short", &"x".repeat(50), 40);
        assert_eq!(old, "short");
        assert_eq!(new, format!("{}… [10 more]", "x".repeat(40)));
        assert_eq!(differing("a", "b", 40), ("a".to_owned(), "b".to_owned()));
    }

    proptest! {
        #[test]
        fn two_texts_that_differ_are_shown_differing(old in "[ab]{0,90}", new in "[ab]{0,90}", room in 1usize..60) {
            let (a, b) = differing(&old, &new, room);
            prop_assert!(old == new || a != b, "{a} {b}");
        }
    }
}
