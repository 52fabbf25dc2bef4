//! aebuild: a declarative, incremental runner for RL tasks and agent experiments.
//!
//! This is the floor plan, in reading order. A module may use earlier modules of its own floor and all floors below; rooms
//! of floor 3 do not see each other. `tests/it/tidy.rs` holds it.

// ── 0 ground: knows nothing of tasks
pub mod diagnostic;
pub mod json;
pub mod digest;
pub mod system;

// ── 1 model: data, no IO, cannot fail
pub mod resource;
pub mod task;
pub mod graph;
pub mod context;
pub mod event;

// ── 2 judgement: pure functions and one sans-IO state machine
pub mod step;
pub mod check;
pub mod assist;
pub mod rebuild;
pub mod schedule;

// ── 3 rooms: each its one effect
pub mod plan;
pub mod steps;
pub mod provider;
pub mod gateway;
pub mod model;
pub mod record;

// ── 4 engine: the only place where the scheduler meets the world
pub mod engine;
pub mod session;

// ── 5 faces
pub mod report;
pub mod watch;
pub mod lsp;
pub mod cli;
