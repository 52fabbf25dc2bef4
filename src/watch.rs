//! Runs again whenever something changes on which a result depends.
//!
//! The set of what is watched comes from the graph, and what decides whether to run is content: an event only says where to
//! look. One loop owns all: it takes in messages from the watcher, the run, the keyboard and the signals, and never waits for
//! anything else. What is shown is somebody else's business ([`Screen`]).

mod debounce;
mod events;
mod poll;
mod scope;
mod turns;
mod watcher;

pub use debounce::{Debounce, Pace};
pub use events::{Event, Now};
pub use scope::Scope;
pub use turns::{Ask, Mailbox, Message, Moment, OnBusy, Question, Screen, Watch, Watching};
pub use watcher::{Means, POLL_EVERY, Updated, Watcher};
