//! What mends a fault, as edits of the texts that have it.

use super::{Source, Span};

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
