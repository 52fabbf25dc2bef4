//! The language server: what editors ask, answered from a session.
//!
//! One thread does everything in the order of the messages. What is typed is taken in at once; faults are looked for when
//! no message waits, so fast typing costs one look. Texts that are open stand in for what is on disk.

mod answer;
mod fix;
mod format;
mod overlay;
mod publish;
mod root;
mod server;
mod text;
mod told;
mod uri;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;

use crate::session::Registry;
use crate::system::System;

pub use lsp_server::Connection;

/// What the server works with.
pub struct Setting {
    /// The world below the open texts.
    pub system: Arc<dyn System>,
    /// The step types.
    pub registry: Registry,
    /// The cache folder, where one was named.
    pub cache_dir: Option<PathBuf>,
}

/// Serves over standard input and output until the editor ends it; returns whether it ended as agreed.
pub fn serve_stdio(setting: Setting) -> std::io::Result<bool> {
    let (connection, writer) = wire::stdio()?;
    let is_agreed = serve(connection, setting);
    // The process ends with this one, so what was said must be out.
    let _ = writer.join();
    Ok(is_agreed)
}

/// Serves a connection until the editor ends it; returns whether `shutdown` came before `exit`.
pub fn serve(connection: Connection, setting: Setting) -> bool {
    server::Server::new(connection, setting).run()
}
