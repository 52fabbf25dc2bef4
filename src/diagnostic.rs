//! Faults as plain data: what is wrong, where it was written, and what to type instead.
//!
//! A [`Diagnostic`] can be cloned, compared and sorted. It does not know how it will be shown: each format has one
//! renderer below this module ([`render`], [`narrated`], [`concise`], [`json`], [`github`], [`sarif`]), and only
//! [`render`] knows miette.
//!
//! Text in a diagnostic is as the author of the file wrote it. It becomes safe for a terminal in the renderers, all of
//! which pass every string through [`visible`].

pub mod concise;
mod differing;
mod excerpt;
mod fix;
pub mod github;
pub mod json;
pub mod narrated;
mod nearest;
mod pages;
pub mod render;
pub mod sarif;
mod source;
mod visible;

use std::fmt;

pub use differing::differing;
pub use fix::{Edit, Fix, Mended, Safety, cut, mend};
pub use nearest::{Meant, did_you_mean, meant, nearest};
pub use pages::{Page, joined as joined_pages, page, pages};
pub use source::{KnownLines, Lines, Source, line_column};
pub use visible::{clip, visible, visible_line};

/// One error, warning or hint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// The name of the fault in kebab-case.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// One lower-case sentence without a final stop, with both sides of a mismatch.
    pub headline: String,
    /// The places that play a part, in the order in which they were added.
    pub labels: Vec<Label>,
    /// An imperative the reader can type.
    pub help: Option<String>,
    /// Facts that are needed to understand the headline.
    pub notes: Vec<String>,
    /// What would mend it, the likeliest first.
    pub fixes: Vec<Fix>,
}

/// The name of a fault in kebab-case, such as `unknown-field`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub &'static str);

/// How bad a diagnostic is, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing runs until this is mended.
    Error,
    /// It runs, but probably not as meant.
    Warning,
    /// It runs as meant and could be said better.
    Hint,
}

/// A range of bytes in the text of a [`Source`], byte order mark included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// A place in a file and the part it plays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Label {
    /// The file.
    pub source: Source,
    /// The bytes.
    pub span: Span,
    /// The part it plays, such as "made here"; may be empty.
    pub text: String,
    /// Whether this is the place that is wrong, rather than one that explains it.
    pub primary: bool,
}

impl Diagnostic {
    /// Returns an error without labels.
    pub fn error(code: impl Into<Code>, headline: impl Into<String>) -> Self {
        Self::with_severity(Severity::Error, code.into(), headline.into())
    }

    /// Returns a warning without labels.
    pub fn warning(code: impl Into<Code>, headline: impl Into<String>) -> Self {
        Self::with_severity(Severity::Warning, code.into(), headline.into())
    }

    /// Returns a hint without labels.
    pub fn hint(code: impl Into<Code>, headline: impl Into<String>) -> Self {
        Self::with_severity(Severity::Hint, code.into(), headline.into())
    }

    fn with_severity(severity: Severity, code: Code, headline: String) -> Self {
        Self {
            code,
            severity,
            headline,
            labels: Vec::new(),
            help: None,
            notes: Vec::new(),
            fixes: Vec::new(),
        }
    }

    /// Adds the place that is wrong.
    #[must_use]
    pub fn primary(
        mut self,
        source: &Source,
        span: impl Into<Span>,
        text: impl Into<String>,
    ) -> Self {
        self.labels.push(Label {
            source: source.clone(),
            span: span.into(),
            text: text.into(),
            primary: true,
        });
        self
    }

    /// Adds a place that explains.
    #[must_use]
    pub fn label(
        mut self,
        source: &Source,
        span: impl Into<Span>,
        text: impl Into<String>,
    ) -> Self {
        self.labels.push(Label {
            source: source.clone(),
            span: span.into(),
            text: text.into(),
            primary: false,
        });
        self
    }

    /// Sets the help, and leaves it alone when there is none to give.
    #[must_use]
    pub fn help(mut self, help: impl IntoHelp) -> Self {
        if let Some(help) = help.into_help() {
            self.help = Some(help);
        }
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds what would mend it, and leaves it alone when there is nothing.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<Option<Fix>>) -> Self {
        self.fixes.extend(fix.into());
        self
    }

    /// Sets the help to what was probably meant, and adds the edit that writes it where the fault is; leaves both alone
    /// where nothing is near.
    #[must_use]
    pub fn meant(self, meant: impl Into<Option<Meant>>) -> Self {
        let Some(meant) = meant.into() else {
            return self;
        };
        let fix = self
            .place()
            .and_then(|place| fix::renamed(&place.source, place.span, &meant));
        self.help(meant.question()).fix(fix)
    }

    /// Returns the label that says where the fault is: the first primary one, else the first.
    pub fn place(&self) -> Option<&Label> {
        self.labels
            .iter()
            .find(|label| label.primary)
            .or_else(|| self.labels.first())
    }

    /// Returns whether this is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// What [`Diagnostic::help`] takes: a sentence, or perhaps none.
pub trait IntoHelp {
    /// Returns the sentence.
    fn into_help(self) -> Option<String>;
}

impl IntoHelp for &str {
    fn into_help(self) -> Option<String> {
        Some(self.to_owned())
    }
}

impl IntoHelp for String {
    fn into_help(self) -> Option<String> {
        Some(self)
    }
}

impl IntoHelp for Option<String> {
    fn into_help(self) -> Option<String> {
        self
    }
}

impl Span {
    /// Returns the span of `start..end`; offsets that do not fit are cut at 4 GiB.
    pub fn new(start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            start: clamp(start),
            end: clamp(end.max(start)),
        }
    }

    /// Returns the empty span at `offset`.
    pub fn at(offset: usize) -> Self {
        Self::new(offset, offset)
    }

    /// Returns the number of bytes.
    pub fn len(self) -> usize {
        self.range().len()
    }

    /// Returns whether the span has no bytes.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Returns the span as a range that can slice the text.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl From<std::ops::Range<usize>> for Span {
    fn from(range: std::ops::Range<usize>) -> Self {
        Self::new(range.start, range.end)
    }
}

impl From<&'static str> for Code {
    fn from(code: &'static str) -> Self {
        Self(code)
    }
}

impl Code {
    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Severity {
    /// Returns the word that is shown before the code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Orders diagnostics by file and offset and drops those that say the same twice.
///
/// Diagnostics without a place come first. Those at one place are ordered worst first, then by code and headline, so
/// that the order never depends on which rule ran first.
pub fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by(|a, b| order(a).cmp(&order(b)));
    diagnostics.dedup();
}

fn order(diagnostic: &Diagnostic) -> impl Ord + '_ {
    let place = diagnostic
        .place()
        .map(|label| (label.source.name.as_str(), label.span));
    (
        place,
        diagnostic.severity,
        diagnostic.code,
        diagnostic.headline.as_str(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_sorted_by_file_and_offset_and_said_once() {
        let (a, b) = (
            Source::new("a.json", "0123456789"),
            Source::new("b.json", "0123456789"),
        );
        let fault = |source: &Source, at: usize, code: &'static str| {
            Diagnostic::error(code, "x").primary(source, Span::at(at), "")
        };
        let mut faults = vec![
            fault(&b, 1, "one"),
            fault(&a, 9, "two"),
            fault(&a, 2, "three"),
            Diagnostic::warning("four", "x").primary(&a, Span::at(2), ""),
            fault(&b, 1, "one"),
            Diagnostic::error("five", "no place"),
        ];
        sort(&mut faults);
        let codes: Vec<_> = faults.iter().map(|fault| fault.code.as_str()).collect();
        assert_eq!(codes, ["five", "three", "four", "two", "one"]);
    }

    #[test]
    fn the_place_is_the_primary_label_wherever_it_was_added() {
        let source = Source::new("a.json", "0123456789");
        let fault = Diagnostic::error("x", "x")
            .label(&source, Span::at(1), "made here")
            .primary(&source, 4..5, "read here");
        assert_eq!(
            fault.place().map(|label| label.span),
            Some(Span { start: 4, end: 5 })
        );
    }

    #[test]
    fn a_span_is_never_reversed_and_never_overflows() {
        assert_eq!(Span::new(5, 3), Span { start: 5, end: 5 });
        assert_eq!(Span::new(usize::MAX, usize::MAX).len(), 0);
    }
}
