//! The few lines of a source that a snippet shows, cut and made safe.
//!
//! An excerpt is a text of its own: it holds the lines that labels touch, with what lies between them left out, long
//! lines cut around the labels, and every character that a terminal would obey shown as `\u{..}`. It does not know how
//! it will be drawn.

use std::collections::BTreeSet;
use std::ops::Range;

use super::visible::{obeys_or_hides, push_escaped};
use super::{Label, Lines};

/// Lines between two labels are shown if there are at most this many.
const MAX_BETWEEN: usize = 1;
/// The most characters that are shown before and after each end of a label on a line that is cut.
const AROUND: usize = 24;
/// The fewest, however narrow the terminal.
const AROUND_AT_LEAST: usize = 5;
/// From so many columns on there is room for all that may be shown.
const WIDE: usize = 80;
/// A gap of so few bytes is shown rather than cut out.
const MAX_GAP: usize = 4;
/// Labels of one source that are shown; the others are counted.
pub(super) const MAX_LABELS: usize = 12;
/// The sign for what is left out.
const CUT: char = '…';

/// Some lines of a source, ready to be drawn.
#[derive(Debug)]
pub(super) struct Excerpt {
    /// The lines, each ended by a line feed.
    pub(super) text: String,
    /// For each line its number in the source, or `None` where lines are left out.
    pub(super) numbers: Vec<Option<usize>>,
    /// For each label its bytes in `text`.
    pub(super) spans: Vec<Range<usize>>,
}

impl Excerpt {
    /// Cuts out the lines that these labels, all of one source, touch.
    pub(super) fn new(
        text: &str,
        lines: &Lines<'_>,
        labels: &[&Label],
        max_columns: usize,
    ) -> Self {
        let bounds: Vec<_> = labels
            .iter()
            .map(|label| bounds(text, lines, label))
            .collect();
        let mut shown = BTreeSet::new();
        for bound in &bounds {
            let (first, last) = (
                lines.line(bound.start),
                lines.line(bound.end.max(bound.start + 1) - 1),
            );
            shown.extend([first, last]);
        }
        // No label has been met yet: its start is beyond all text.
        let unmet = Range {
            start: usize::MAX,
            end: 0,
        };
        let mut excerpt = Self {
            text: String::new(),
            numbers: Vec::new(),
            spans: vec![unmet; labels.len()],
        };
        let mut previous: Option<usize> = None;
        for line in shown {
            if let Some(previous) = previous {
                if line - previous - 1 <= MAX_BETWEEN {
                    (previous + 1..line).for_each(|between| {
                        excerpt.push_line(text, lines, between, &bounds, max_columns)
                    });
                } else {
                    excerpt.push_gap();
                }
            }
            excerpt.push_line(text, lines, line, &bounds, max_columns);
            previous = Some(line);
        }
        let len = excerpt.text.len();
        for span in &mut excerpt.spans {
            span.start = span.start.min(len);
            span.end = span.end.clamp(span.start, len);
        }
        excerpt
    }

    fn push_gap(&mut self) {
        self.numbers.push(None);
        self.text.push_str(" \n");
    }

    fn push_line(
        &mut self,
        text: &str,
        lines: &Lines<'_>,
        line: usize,
        bounds: &[Range<usize>],
        max_columns: usize,
    ) {
        self.numbers.push(Some(line + 1));
        let range = lines.range(line);
        let here = |offset: usize| range.start <= offset && offset <= range.end;
        let mut points: Vec<usize> = bounds
            .iter()
            .flat_map(|bound| [bound.start, bound.end])
            .filter(|&offset| here(offset))
            .collect();
        points.sort_unstable();
        points.dedup();
        let mut marks = Vec::with_capacity(points.len());
        let mut at = range.start;
        for kept in kept(text, &range, &points, max_columns) {
            if kept.start > at {
                self.text.push(CUT);
            }
            at = kept.end;
            let mut left = points
                .iter()
                .copied()
                .filter(|point| kept.start <= *point && *point <= kept.end)
                .peekable();
            for (ix, c) in text[kept.clone()].char_indices() {
                while let Some(point) = left.next_if(|&point| point <= kept.start + ix) {
                    marks.push((point, self.text.len()));
                }
                if obeys_or_hides(c) && c != '\t' {
                    push_escaped(&mut self.text, c)
                } else {
                    self.text.push(c)
                }
            }
            marks.extend(left.map(|point| (point, self.text.len())));
        }
        if at < range.end {
            self.text.push(CUT);
        }
        for (bound, span) in bounds.iter().zip(&mut self.spans) {
            let mark = |offset: usize| {
                marks
                    .iter()
                    .find(|(point, _)| *point == offset)
                    .map(|&(_, mark)| mark)
            };
            if let (usize::MAX, Some(start)) = (span.start, mark(bound.start)) {
                span.start = start;
            }
            if let Some(end) = mark(bound.end) {
                span.end = span.end.max(end);
            }
        }
        self.text.push('\n');
    }
}

/// Returns the bytes of a label, moved onto the lines' own text: no line ends, no byte order mark, no half characters.
fn bounds(text: &str, lines: &Lines<'_>, label: &Label) -> Range<usize> {
    let on_its_line = |offset: usize, of: usize| {
        let range = lines.range(lines.line(of));
        offset.clamp(range.start, range.end)
    };
    let start = text.floor_char_boundary(label.span.start as usize);
    let end = text.ceil_char_boundary((label.span.end as usize).min(text.len()));
    let start_on_line = on_its_line(start, start);
    let end_on_line = if end > start {
        on_its_line(end, end - 1)
    } else {
        start_on_line
    };
    start_on_line..end_on_line.max(start_on_line)
}

/// Returns the parts of a line that are shown: all of it, or what lies around each point.
fn kept(
    text: &str,
    range: &Range<usize>,
    points: &[usize],
    max_columns: usize,
) -> Vec<Range<usize>> {
    if range.len() <= max_columns || text[range.clone()].chars().nth(max_columns).is_none() {
        return vec![range.clone()];
    }
    let around = match max_columns {
        ..WIDE => (max_columns / 8).clamp(AROUND_AT_LEAST, AROUND),
        _ => AROUND,
    };
    let before = |offset: usize| {
        text[range.start..offset]
            .char_indices()
            .rev()
            .nth(around - 1)
            .map_or(range.start, |(ix, _)| range.start + ix)
    };
    let after = |offset: usize| {
        text[offset..range.end]
            .char_indices()
            .nth(around)
            .map_or(range.end, |(ix, _)| offset + ix)
    };
    let mut parts: Vec<Range<usize>> = Vec::new();
    for &point in if points.is_empty() {
        std::slice::from_ref(&range.start)
    } else {
        points
    } {
        let part = before(point)..after(point);
        match parts.last_mut() {
            Some(last) if part.start <= last.end + MAX_GAP => last.end = last.end.max(part.end),
            _ => parts.push(part),
        }
    }
    parts
}
