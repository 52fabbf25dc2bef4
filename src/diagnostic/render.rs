//! Diagnostics as a person reads them: a headline, the lines in question with the parts they play, and the help.
//!
//! The only module that knows miette, which draws the lines under and between the labels. miette is given excerpts
//! (see `excerpt`) rather than sources, so that long lines, control characters and all line ends are dealt with before
//! it sees them.

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::ops::Range;

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents,
    SourceCode, SourceSpan, SpanContents,
};

use super::excerpt::{Excerpt, MAX_LABELS};
use super::source::KnownLines;
use super::{Diagnostic, Label, Lines, Severity, Source, visible, visible_line};

/// How diagnostics are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colours.
    pub color: bool,
    /// The columns of the terminal.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            color: false,
            width: 100,
        }
    }
}

/// The least width that is drawn for.
const MIN_WIDTH: usize = 40;
/// The greatest width that is drawn for.
const MAX_WIDTH: usize = 200;

/// Returns the diagnostics in full, with a blank line after each.
pub fn full(diagnostics: &[Diagnostic], style: Style) -> String {
    let style = Style {
        width: style.width.clamp(MIN_WIDTH, MAX_WIDTH),
        ..style
    };
    let mut lines = KnownLines::default();
    let mut out = String::new();
    for diagnostic in diagnostics {
        headline(&mut out, diagnostic, style);
        for (source, labels) in by_source(diagnostic) {
            snippet(
                &mut out,
                source,
                &labels,
                lines.of(source),
                diagnostic.severity,
                style,
            );
        }
        for note in &diagnostic.notes {
            paragraph(&mut out, "note", note, style);
        }
        if let Some(help) = &diagnostic.help {
            paragraph(&mut out, "help", help, style);
        }
        out.push('\n');
    }
    out
}

fn headline(out: &mut String, diagnostic: &Diagnostic, style: Style) {
    let Diagnostic {
        severity,
        code,
        headline,
        ..
    } = diagnostic;
    let name = paint(
        &format!("{severity}[{code}]"),
        severity_paint(*severity),
        style,
    );
    let headline = paint(&visible_line(headline), "1", style);
    writeln!(out, "{name}: {headline}").expect("strings take all");
}

/// Writes a note or help, wrapped and indented.
fn paragraph(out: &mut String, name: &str, text: &str, style: Style) {
    let lead = format!("  {name}: ");
    let text = visible(text);
    for (ix, line) in text
        .lines()
        .flat_map(|line| wrap(line, style.width - lead.len()))
        .enumerate()
    {
        if ix == 0 {
            write!(out, "  {}: ", paint(name, "36", style)).expect("strings take all");
        } else if !line.is_empty() {
            out.push_str(&" ".repeat(lead.len()));
        }
        out.push_str(line);
        out.push('\n');
    }
}

/// Breaks a line at spaces so that each part has at most `width` characters, if its words do.
fn wrap(line: &str, width: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, 0);
    for (ix, _) in line.match_indices(' ').chain([(line.len(), "")]) {
        if end > start && line[start..ix].chars().count() > width {
            parts.push(&line[start..end]);
            start = end + 1;
        }
        end = ix;
    }
    parts.push(&line[start..]);
    parts
}

/// Groups labels by source, that of the place first.
fn by_source(diagnostic: &Diagnostic) -> Vec<(&Source, Vec<&Label>)> {
    let mut groups: Vec<(&Source, Vec<&Label>)> = Vec::new();
    for label in diagnostic.place().into_iter().chain(&diagnostic.labels) {
        match groups
            .iter_mut()
            .find(|(source, _)| **source == label.source)
        {
            Some((_, labels)) if labels.iter().any(|known| std::ptr::eq(*known, label)) => {}
            Some((_, labels)) => labels.push(label),
            None => groups.push((&label.source, vec![label])),
        }
    }
    groups
}

fn snippet(
    out: &mut String,
    source: &Source,
    labels: &[&Label],
    lines: &Lines<'_>,
    severity: Severity,
    style: Style,
) {
    let more = labels.len().saturating_sub(MAX_LABELS);
    let labels = &labels[..labels.len() - more];
    let excerpt = Excerpt::new(&source.text, lines, labels, style.width.saturating_sub(12));
    let (line, column) = lines.line_column(labels[0].span.start as usize);
    let place = format!("{}:{line}:{column}", visible_line(&source.name));
    let gutter = excerpt.numbers.iter().flatten().max();
    let gutter = gutter.map_or(1, |number| number.to_string().len()) + 3;
    // A wide terminal is seldom overrun, and what is beside its arrow is read at once.
    let slack = if style.width < WIDE { 0 } else { 24 };
    let mut below: Vec<&str> = Vec::new();
    let drawn_texts = labels.iter().zip(&excerpt.spans).map(|(label, span)| {
        let room = (style.width + slack).saturating_sub(gutter + LEAD);
        if label.text.is_empty() {
            return None;
        }
        if fits(&excerpt.text, span, &label.text, room) {
            return Some(visible_line(&label.text).into_owned());
        }
        below.push(&label.text);
        Some(format!("({})", below.len()))
    });
    let texts = drawn_texts.collect();
    let drawing = Drawing {
        labels,
        texts,
        excerpt: &excerpt,
        place,
        severity,
    };
    let mut drawn = String::new();
    handler(style)
        .render_report(&mut drawn, &drawing)
        .expect("strings take all");
    renumber(out, &drawn, &excerpt.numbers, style);
    for (at, text) in below.into_iter().enumerate() {
        paragraph(out, &format!("({})", at + 1), &visible_line(text), style);
    }
    if more > 0 {
        paragraph(
            out,
            "note",
            &format!("{more} more places are not shown"),
            style,
        );
    }
}

/// From this width on a text beside its arrow may go beyond the edge.
const WIDE: usize = 80;
/// The columns between the middle of a label and its text.
const LEAD: usize = 4;

/// Returns whether the text of a label has room beside what points to it; that of a span of many lines always stands
/// at the left.
fn fits(excerpt: &str, span: &Range<usize>, text: &str, room: usize) -> bool {
    let line = excerpt[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let is_long = excerpt[span.clone()].contains('\n');
    let column = match is_long {
        true => LEAD,
        false => {
            excerpt[line..span.start].chars().count() + excerpt[span.clone()].chars().count() / 2
        }
    };
    column + visible_line(text).chars().count() <= room
}

fn handler(style: Style) -> GraphicalReportHandler {
    let mut theme = if style.color {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    theme.characters.vbar_break = theme.characters.vbar;
    // The numbers are replaced below, and must be found again.
    theme.styles.linum = Default::default();
    theme.styles.link = Default::default();
    GraphicalReportHandler::new_themed(theme)
        .with_width(style.width)
        .with_links(false)
        .with_context_lines(1)
        .without_primary_span_start()
}

/// Replaces the numbers of the excerpt's lines by those of the source, and drops miette's own headline.
fn renumber(out: &mut String, drawn: &str, numbers: &[Option<usize>], style: Style) {
    let drawn_width = numbers.len().to_string().len();
    let width = numbers
        .iter()
        .flatten()
        .max()
        .map_or(1, |number| number.to_string().len());
    let mut next = numbers.iter();
    for line in drawn.lines().skip(1).filter(|line| !line.is_empty()) {
        // Each line starts with a space, the number and a space.
        let (gutter, rest) = line.split_at(line.len().min(drawn_width + 2));
        let gutter = gutter.trim();
        let cell = if gutter.is_empty() {
            String::new()
        } else {
            next.next()
                .copied()
                .flatten()
                .map_or("⋮".to_owned(), |number| number.to_string())
        };
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        let line = format!("{padding}{} {}", paint(&cell, "2", style), rest.trim_end());
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn severity_paint(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "31;1",
        Severity::Warning => "33;1",
        Severity::Hint => "36;1",
    }
}

fn paint(text: &str, code: &str, style: Style) -> String {
    if style.color && !text.is_empty() {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// One snippet as miette sees it: a report without a headline.
#[derive(Debug)]
struct Drawing<'a> {
    labels: &'a [&'a Label],
    /// What is written beside each label.
    texts: Vec<Option<String>>,
    excerpt: &'a Excerpt,
    place: String,
    severity: Severity,
}

impl fmt::Display for Drawing<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Drawing<'_> {}

impl miette::Diagnostic for Drawing<'_> {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Hint => miette::Severity::Advice,
        })
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let labelled = self
            .labels
            .iter()
            .zip(&self.excerpt.spans)
            .zip(self.texts.clone())
            .map(|((label, span), text)| {
                let span = SourceSpan::from((span.start, span.len()));
                if label.primary {
                    LabeledSpan::new_primary_with_span(text, span)
                } else {
                    LabeledSpan::new_with_span(text, span)
                }
            });
        Some(Box::new(labelled))
    }
}

impl SourceCode for Drawing<'_> {
    /// Returns the whole excerpt whatever is asked for, so that it is drawn as one box.
    fn read_span<'a>(
        &'a self,
        _: &SourceSpan,
        _: usize,
        _: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let Excerpt { text, numbers, .. } = self.excerpt;
        let all: Range<usize> = 0..text.len();
        Ok(Box::new(MietteSpanContents::new_named(
            self.place.clone(),
            text.as_bytes(),
            (all.start, all.len()).into(),
            0,
            0,
            numbers.len(),
        )))
    }
}
