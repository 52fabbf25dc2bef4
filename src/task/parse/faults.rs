//! Collects the faults of one file, and counts those beyond a limit instead of making them.

use crate::diagnostic::{Diagnostic, Source};
use crate::json::Span;

/// The most errors that are listed for one file.
const MAX_ERRORS: usize = 50;
/// The most warnings that are listed for one file.
const MAX_WARNINGS: usize = 20;

/// The faults of one file.
pub(crate) struct Faults<'a> {
    source: &'a Source,
    list: Vec<Diagnostic>,
    errors: Count,
    warnings: Count,
}

#[derive(Default)]
struct Count {
    listed: usize,
    more: usize,
    more_at: Span,
}

impl Count {
    /// Returns whether one more may be listed, and counts it either way.
    fn admits(&mut self, span: Span, limit: usize) -> bool {
        if self.listed < limit {
            self.listed += 1;
            return true;
        }
        if self.more == 0 {
            self.more_at = span;
        }
        self.more += 1;
        false
    }
}

impl<'a> Faults<'a> {
    /// Starts an empty list for a file.
    pub fn new(source: &'a Source) -> Self {
        let (errors, warnings) = (Count::default(), Count::default());
        Faults {
            source,
            list: Vec::new(),
            errors,
            warnings,
        }
    }

    /// Returns the file.
    pub fn source(&self) -> &'a Source {
        self.source
    }

    /// Adds an error at a place; one that is only counted is never made.
    pub fn error(&mut self, span: Span, make: impl FnOnce(&Source) -> Diagnostic) {
        if self.errors.admits(span, MAX_ERRORS) {
            self.list.push(make(self.source));
        }
    }

    /// Adds a warning at a place; one that is only counted is never made.
    pub fn warning(&mut self, span: Span, make: impl FnOnce(&Source) -> Diagnostic) {
        if self.warnings.admits(span, MAX_WARNINGS) {
            self.list.push(make(self.source));
        }
    }

    /// Adds faults that were found elsewhere.
    pub fn extend(&mut self, faults: impl IntoIterator<Item = Diagnostic>) {
        for fault in faults {
            let span = fault.place().map(|label| label.span).unwrap_or_default();
            match fault.is_error() {
                true => self.error(span, |_| fault),
                false => self.warning(span, |_| fault),
            }
        }
    }

    /// Returns whether no further error would be listed.
    pub fn is_full(&self) -> bool {
        self.errors.listed == MAX_ERRORS
    }

    /// Returns the faults in the order of the text, with the number of those that are not listed.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        crate::diagnostic::sort(&mut self.list);
        let source = self.source;
        let say = |count: &Count, noun: &str, make: fn(&'static str, String) -> Diagnostic| {
            let plural = if count.more == 1 { "" } else { "s" };
            let headline = format!("{} more {noun}{plural} in `{}`", count.more, source.name);
            make("more-faults", headline).primary(source, count.more_at, "the next is here")
        };
        if self.errors.more > 0 {
            self.list.push(say(&self.errors, "error", |code, text| {
                Diagnostic::error(code, text)
            }));
        }
        if self.warnings.more > 0 {
            let make = |code, text| Diagnostic::warning(code, text);
            self.list.push(say(&self.warnings, "warning", make));
        }
        self.list
    }
}
