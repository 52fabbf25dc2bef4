//! Where a step is, and how a step and a task are over.

use crate::rebuild::DirtyReason;

/// Where a step is. A step moves through these in order, except that a retry sets it back to waiting.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// It waits for the steps that it depends on.
    Waiting,
    /// It must run, and a resource that it needs is in use at another version.
    Held(Vec<DirtyReason>),
    /// It waits for a slot.
    Queued,
    /// It runs.
    Running,
    /// It ended; the state of a resource that it touched is not taken yet.
    Settling,
    /// It was called back and has not stopped yet.
    Aborting,
    /// It waits for its turn in a retry.
    Asleep,
    /// It is over.
    Done(Done),
}

/// How a step is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// A kept result stood in.
    Hit,
    /// It ran well.
    Ran,
    /// It only provides a live thing.
    Deferred,
    /// It failed, and its task goes on.
    Tolerated,
    /// It failed, and its task with it.
    Failed,
    /// It never started.
    Skipped,
}

/// How a task is over.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEnd {
    /// No step failed for good.
    Well,
    /// A step failed.
    Failed,
    /// The user stopped it.
    Cancelled,
}

/// Returns whether an input will move the step on.
pub(super) fn is_moving(phase: &Phase) -> bool {
    matches!(
        phase,
        Phase::Queued | Phase::Running | Phase::Settling | Phase::Aborting | Phase::Asleep
    )
}
