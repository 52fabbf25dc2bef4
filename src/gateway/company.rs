//! The steps that work on an env side by side, as one of them sees the others.

use crate::step::sandbox::BoxFuture;

/// Steps that may work on an env at once with one step.
pub trait Company: Send + Sync {
    /// Returns whether one of them that does not rest works on, or may begin before one of those that rest goes on.
    fn may_come(&self, resting: &[String]) -> bool;

    /// Returns what waits until that may have changed since it was called.
    fn changed(&self) -> BoxFuture<'_, ()>;

    /// Says that the step rests from now on: it takes nobody's slot.
    fn rests(&self);
}
