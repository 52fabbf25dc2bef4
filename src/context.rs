//! The context of a run: the fold of all outputs in list order, and what a step may see of it.
//!
//! A step never writes here. It returns an [`Output`]; the context is made of outputs, so it does not depend on who
//! finished first, and dropping an output undoes a step.

mod format;
mod output;
mod view;

pub use format::{FORMAT_VERSION, fold_to_json};
pub use output::{Entry, Output, Place};
pub use view::{Answer, Lookup, Outputs};
