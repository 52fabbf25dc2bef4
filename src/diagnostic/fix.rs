//! What mends a fault, as edits of the texts that have it.

use std::collections::{BTreeMap, HashMap};

use super::json::string;
use super::{Diagnostic, Meant, Source, Span, visible_line};

/// Edits that together mend a fault.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fix {
    /// An imperative that says what the edits do, such as "write `box`".
    pub title: String,
    /// The edits; they do not overlap.
    pub edits: Vec<Edit>,
    /// Whether it may be made without asking.
    pub safety: Safety,
}

/// Whether a fix may be made without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Safety {
    /// What was meant is beyond doubt, and nothing that was written is lost.
    Sure,
    /// It is one of the things that may have been meant, so somebody chooses.
    Offered,
}

/// A span of a text, and what is to stand in its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Edit {
    /// The text as it was read; the edit is good for no other.
    pub source: Source,
    /// What is replaced; an empty span inserts.
    pub span: Span,
    /// What is written instead.
    pub text: String,
}

impl Fix {
    /// Returns a fix that may be made without asking.
    pub fn sure(title: impl Into<String>) -> Self {
        Self::new(title.into(), Safety::Sure)
    }

    /// Returns a fix that is offered.
    pub fn offered(title: impl Into<String>) -> Self {
        Self::new(title.into(), Safety::Offered)
    }

    fn new(title: String, safety: Safety) -> Self {
        Self {
            title,
            edits: Vec::new(),
            safety,
        }
    }

    /// Adds an edit.
    #[must_use]
    pub fn edit(mut self, source: &Source, span: impl Into<Span>, text: impl Into<String>) -> Self {
        self.edits.push(Edit {
            source: source.clone(),
            span: span.into(),
            text: text.into(),
        });
        self
    }
}

/// Returns the edit that writes the name that was meant in the place of the one at `span`, in quotes if that is.
pub(super) fn renamed(source: &Source, span: Span, meant: &Meant) -> Option<Fix> {
    let there = source.slice(span);
    let quote = there.chars().next().filter(|c| matches!(c, '"' | '\''));
    let bare = match quote {
        Some(quote) => there.strip_prefix(quote)?.strip_suffix(quote)?,
        None => there,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if bare != meant.written || quote.is_none() && !meant.name.chars().all(is_plain) {
        return None;
    }
    let mut text = String::new();
    match quote {
        Some(_) => string(&mut text, &meant.name),
        None => text.push_str(&meant.name),
    }
    let title = format!("write `{}`", visible_line(&meant.name));
    let fix = match meant.is_sure {
        true => Fix::sure(title),
        false => Fix::offered(title),
    };
    Some(fix.edit(source, span, text))
}

/// Returns the bytes that go with an item of a JSON list or object: its comma, and the lines that would be left empty.
pub fn cut(text: &str, item: Span) -> Span {
    let bytes = text.as_bytes();
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let (start, end) = (
        (item.start as usize).min(bytes.len()),
        (item.end as usize).min(bytes.len()),
    );
    let before = bytes[..start]
        .iter()
        .rposition(|&byte| !is_blank(byte))
        .map_or(0, |at| at + 1);
    let after = end
        + bytes[end..]
            .iter()
            .take_while(|&&byte| is_blank(byte))
            .count();
    if bytes.get(after) == Some(&b',') {
        let next = after + 1;
        let next = next
            + bytes[next..]
                .iter()
                .take_while(|&&byte| is_blank(byte))
                .count();
        return Span::new(start, next);
    }
    if before > 0 && bytes[before - 1] == b',' {
        return Span::new(before - 1, end);
    }
    Span::new(before, after)
}

/// Texts after fixes, and which fixes they were.
#[derive(Debug, Clone, Default)]
pub struct Mended {
    /// Each text that changed, with what it is now.
    pub texts: Vec<(Source, String)>,
    /// For each fix that was made, the place of its diagnostic among those given and its own among the diagnostic's.
    pub made: Vec<(usize, usize)>,
}

/// A text, and the ends of the edits of it that are made, by their starts.
type Taken<'t> = (&'t Source, BTreeMap<u32, u32>);

/// Makes those fixes of these diagnostics that `choose` takes; of fixes that touch the same bytes the first is made.
///
/// `choose` answers with the place of the fix among the diagnostic's, or none.
pub fn mend(diagnostics: &[Diagnostic], choose: impl Fn(&Diagnostic) -> Option<usize>) -> Mended {
    let mut mended = Mended::default();
    let mut edits: Vec<&Edit> = Vec::new();
    // Edits that are made are apart, so only the last one that starts at or before the end of another can touch that.
    let mut taken: HashMap<&str, Vec<Taken<'_>>> = HashMap::new();
    for (at, diagnostic) in diagnostics.iter().enumerate() {
        let Some(chosen) = choose(diagnostic) else {
            continue;
        };
        let Some(fix) = diagnostic.fixes.get(chosen) else {
            continue;
        };
        let is_free = |edit: &Edit| {
            let of_name = taken.get(edit.source.name.as_str()).into_iter().flatten();
            let mut of_text = of_name.filter(|(source, _)| **source == edit.source);
            let fits = edit.source.text.get(edit.span.range()).is_some();
            fits && of_text.all(|(_, made)| {
                let last = made.range(..=edit.span.end).next_back();
                last.is_none_or(|(_, end)| *end < edit.span.start)
            })
        };
        if fix.edits.is_empty() || !fix.edits.iter().all(is_free) {
            continue;
        }
        for edit in &fix.edits {
            let texts = taken.entry(edit.source.name.as_str()).or_default();
            let known = texts.iter().position(|(source, _)| **source == edit.source);
            let known = known.unwrap_or_else(|| {
                texts.push((&edit.source, BTreeMap::new()));
                texts.len() - 1
            });
            let end = texts[known].1.entry(edit.span.start).or_default();
            *end = edit.span.end.max(*end);
            edits.push(edit);
        }
        mended.made.push((at, chosen));
    }
    edits.sort_by(|a, b| (&a.source.name, a.span).cmp(&(&b.source.name, b.span)));
    for part in edits.chunk_by(|a, b| a.source == b.source) {
        let source = &part[0].source;
        let mut text = String::with_capacity(source.text.len());
        let mut copied = 0;
        for edit in part {
            let range = edit.span.range();
            // Edits of one fix do not overlap, and those of several were kept apart.
            text.push_str(source.text.get(copied..range.start).unwrap_or_default());
            text.push_str(&edit.text);
            copied = range.end;
        }
        text.push_str(&source.text[copied..]);
        mended.texts.push((source.clone(), text));
    }
    mended
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn without(text: &str, item: &str) -> String {
        let start = text.find(item).expect("it is there");
        let cut = cut(text, Span::new(start, start + item.len()));
        let mut text = text.to_owned();
        text.replace_range(cut.range(), "");
        text
    }

    #[test]
    fn an_item_goes_with_its_comma_and_its_line() {
        assert_eq!(without("[1, 22, 3]", "22"), "[1, 3]");
        assert_eq!(without("[1, 22, 3]", "1"), "[22, 3]");
        assert_eq!(without("[1, 22, 3]", "3"), "[1, 22]");
        assert_eq!(without("[ 1 ]", "1"), "[]");
        assert_eq!(
            without("{\n  \"a\": 1,\n  \"b\": 2\n}", "\"a\": 1"),
            "{\n  \"b\": 2\n}"
        );
        assert_eq!(
            without("{\n  \"a\": 1,\n  \"b\": 2\n}", "\"b\": 2"),
            "{\n  \"a\": 1\n}"
        );
    }

    #[test]
    fn of_fixes_that_touch_the_first_is_made() {
        let source = Source::new("t", "abcdef");
        let fault = |range: std::ops::Range<usize>, text: &str| {
            Diagnostic::error("x", "x").fix(Fix::sure("do").edit(&source, range, text))
        };
        let faults = [
            fault(1..2, "B"),
            fault(2..3, "C"),
            fault(4..4, "+"),
            fault(4..4, "-"),
            fault(0..99, ""),
        ];
        let mended = mend(&faults, |_| Some(0));
        assert_eq!(mended.made, [(0, 0), (2, 0)]);
        assert_eq!(mended.texts, [(source, "aBcd+ef".to_owned())]);
        assert!(mend(&faults, |_| None).texts.is_empty());
        assert!(mend(&faults, |_| Some(1)).texts.is_empty());
    }

    #[test]
    fn a_name_is_written_in_the_quotes_it_was_in() {
        let meant = crate::diagnostic::meant("promt", ["prompt"]).expect("it is near");
        let text = |source: &Source, span: std::ops::Range<usize>| {
            let fault = Diagnostic::error("x", "x").primary(source, span, "");
            let fault = fault.meant(meant.clone());
            assert_eq!(fault.help.as_deref(), Some("did you mean `prompt`?"));
            let fix = fault.fixes.first()?;
            assert_eq!(fix.safety, Safety::Sure);
            Some(fix.edits[0].text.clone())
        };
        let source = Source::new("t", "\"promt\" promt 'promt' \"pr\\u006fmt\"");
        assert_eq!(text(&source, 0..7).as_deref(), Some("\"prompt\""));
        assert_eq!(text(&source, 8..13).as_deref(), Some("prompt"));
        assert_eq!(text(&source, 14..21).as_deref(), Some("\"prompt\""));
        assert_eq!(text(&source, 22..34), None);
    }

    proptest! {
        #[test]
        fn any_edits_of_any_text_are_made_or_left(text in "[abΩ🙂]{0,12}", spans in proptest::collection::vec((0usize..40, 0usize..40, "[xΩ]{0,2}"), 0..6)) {
            let source = Source::new("t", text);
            let faults: Vec<_> = spans.into_iter().map(|(start, end, text)| {
                Diagnostic::error("x", "x").fix(Fix::sure("do").edit(&source, Span::new(start, end), text))
            }).collect();
            let mended = mend(&faults, |_| Some(0));
            prop_assert_eq!(mended.texts.len(), usize::from(!mended.made.is_empty()));
        }

        #[test]
        fn edits_that_are_made_are_apart(spans in proptest::collection::vec((0u32..30, 0u32..4), 0..20)) {
            let source = Source::new("t", "abcdefghijklmnopqrstuvwxyz0123456789");
            let faults: Vec<_> = spans.iter().map(|&(start, length)| {
                Diagnostic::error("x", "x").fix(Fix::sure("do").edit(&source, Span { start, end: start + length }, "X"))
            }).collect();
            let mended = mend(&faults, |_| Some(0));
            let span = |at: usize| faults[at].fixes[0].edits[0].span;
            let touch = |a: Span, b: Span| a.start <= b.end && b.start <= a.end;
            let made: Vec<usize> = mended.made.iter().map(|(at, _)| *at).collect();
            for at in 0..faults.len() {
                let mut before = made.iter().filter(|&&other| other < at);
                let is_free = before.all(|&other| !touch(span(at), span(other)));
                prop_assert_eq!(made.contains(&at), is_free);
            }
        }

        #[test]
        fn any_span_can_be_cut(text in "[\\[\\], \n1]{0,20}", start in 0usize..30, end in 0usize..30) {
            let cut = cut(&text, Span::new(start, end));
            prop_assert!(cut.end as usize <= text.len());
        }
    }
}
