//! Two texts as a unified diff.

use std::ops::Range;

use crate::diagnostic::visible_line;

/// Lines that are shown around a change.
const CONTEXT: usize = 3;
/// Beyond so many pairs of lines the changed part is shown as a whole.
const MAX_PAIRS: usize = 4_000_000;

/// Returns the diff of a file, or nothing where the texts are equal. What a terminal would obey is shown.
pub(super) fn unified(name: &str, old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (lines(old), lines(new));
    let changes = changes(&a, &b);
    if changes.is_empty() {
        return String::new();
    }
    let name = visible_line(name);
    let mut out = format!("--- {name}\n+++ {name}\n");
    let is_near = |one: &(Range<usize>, Range<usize>), other: &(Range<usize>, Range<usize>)| {
        other.0.start - one.0.end <= 2 * CONTEXT
    };
    for hunk in changes.chunk_by(is_near) {
        let (first, last) = (&hunk[0], &hunk[hunk.len() - 1]);
        let before = first.0.start.min(CONTEXT);
        let after = (a.len() - last.0.end).min(CONTEXT);
        let old = first.0.start - before..last.0.end + after;
        let new = first.1.start - before..last.1.end + after;
        out.push_str(&format!("@@ -{} +{} @@\n", place(&old), place(&new)));
        let mut at = old.start;
        for (gone, come) in hunk {
            push(&mut out, ' ', &a[at..gone.start]);
            push(&mut out, '-', &a[gone.clone()]);
            push(&mut out, '+', &b[come.clone()]);
            at = gone.end;
        }
        push(&mut out, ' ', &a[at..old.end]);
    }
    out
}

/// Returns the lines of a text, each with its end.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn place(range: &Range<usize>) -> String {
    match range.len() {
        1 => format!("{}", range.start + 1),
        0 => format!("{},0", range.start),
        n => format!("{},{n}", range.start + 1),
    }
}

fn push(out: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        let text = line.strip_suffix('\n');
        out.push(sign);
        out.push_str(&visible_line(text.unwrap_or(line)));
        out.push('\n');
        if text.is_none() {
            out.push_str("\\ No newline at end of file\n");
        }
    }
}

/// Returns the lines of `a` that are replaced, each part with the lines of `b` that replace it.
fn changes(a: &[&str], b: &[&str]) -> Vec<(Range<usize>, Range<usize>)> {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let rest = a.len().min(b.len()) - start;
    let same = |(a, b): &(&&str, &&str)| a == b;
    let end = a.iter().rev().zip(b.iter().rev()).take_while(same).count();
    let end = end.min(rest);
    let (inner_a, inner_b) = (&a[start..a.len() - end], &b[start..b.len() - end]);
    if inner_a.is_empty() && inner_b.is_empty() {
        return Vec::new();
    }
    let whole = || vec![(start..a.len() - end, start..b.len() - end)];
    if inner_a.len().saturating_mul(inner_b.len()) > MAX_PAIRS {
        return whole();
    }
    // For each pair of suffixes, how many lines they have in common, in order.
    let width = inner_b.len() + 1;
    let mut common = vec![0u32; (inner_a.len() + 1) * width];
    for i in (0..inner_a.len()).rev() {
        for j in (0..inner_b.len()).rev() {
            common[i * width + j] = match inner_a[i] == inner_b[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let mut parts: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < inner_a.len() || j < inner_b.len() {
        let (from_i, from_j) = (i, j);
        while i < inner_a.len() || j < inner_b.len() {
            if i < inner_a.len() && j < inner_b.len() && inner_a[i] == inner_b[j] {
                break;
            }
            let goes_down = j == inner_b.len()
                || i < inner_a.len() && common[(i + 1) * width + j] >= common[i * width + j + 1];
            match goes_down {
                true => i += 1,
                false => j += 1,
            }
        }
        if i > from_i || j > from_j {
            parts.push((start + from_i..start + i, start + from_j..start + j));
        }
        while i < inner_a.len() && j < inner_b.len() && inner_a[i] == inner_b[j] {
            (i, j) = (i + 1, j + 1);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn changes_are_shown_with_the_lines_around_them() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13";
        let new = "1\n2\nthree\n4\n5\n6\n7\n8\n9\n10\n11\n12\u{1b}\n13\n";
        expect![[r#"
            --- t.json
            +++ t.json
            @@ -1,6 +1,6 @@
             1
             2
            -3
            +three
             4
             5
             6
            @@ -9,5 +9,5 @@
             9
             10
             11
            -12
            -13
            \ No newline at end of file
            +12\u{1b}
            +13
        "#]]
        .assert_eq(&unified("t.json", old, new));
        assert_eq!(unified("t", old, old), "");
    }

    proptest! {
        #[test]
        fn the_parts_that_change_make_one_text_of_the_other(old in "[ab\n]{0,30}", new in "[ab\n]{0,30}") {
            let (a, b) = (lines(&old), lines(&new));
            let (mut made, mut at) = (Vec::new(), 0);
            for (gone, come) in changes(&a, &b) {
                made.extend_from_slice(&a[at..gone.start]);
                made.extend_from_slice(&b[come]);
                at = gone.end;
            }
            made.extend_from_slice(&a[at..]);
            prop_assert_eq!(made.concat(), new);
        }
    }
}
