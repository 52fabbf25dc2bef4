//! The one integration-test binary: each more would cost its own link.
#![expect(
    clippy::disallowed_methods,
    reason = "tests set up the world that the program sees"
)]

mod a2a;
mod all_at_once;
mod book;
mod cli;
mod crash;
mod dana;
mod docker;
mod docs_tasks;
mod envs;
mod explain;
mod fixes;
mod formats;
mod graph;
mod laws;
mod lsp;
mod model;
mod mock_models;
mod new;
mod models;
mod mutations;
mod no_false_alarm;
mod peers;
mod people;
mod runs;
mod sandbox_commands;
mod sandbox_ends;
mod sandbox_files;
mod schedule;
mod schemas;
mod servers;
mod space;
mod story;
mod support;
mod tasks;
mod tidy;
mod watch;
mod weeks;
