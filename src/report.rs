//! What people are shown of a run: progress while it goes on, then a summary.
//!
//! All text goes out through a [`Printer`], which makes it safe for a terminal. Nothing here decides anything.

mod bar;
mod plain;
mod printer;
mod progress;
mod summary;
mod words;

pub use printer::{Paint, Printer, neutral};
pub use progress::{Progress, ProgressKind};
pub use summary::{TaskLine, summary};
pub use words::{count, counts, score, seconds};
