//! Envs that are compiled in: mail, a calendar, files and a store of values.
//!
//! Each is a `Store`: a state, the tools that work on it, and the form in which the state is exported. One
//! server serves them all. Nothing here looks at a clock or at chance: ids are counted and time is a part of the state,
//! so the same calls give the same bytes.

mod base64;
mod calendar;
mod clock;
mod files;
mod format;
mod kv;
mod mail;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod tool;

use std::sync::Arc;

use self::server::Server;
use self::store::Store;
use crate::json::Value;
use crate::step::env::EnvServer;

/// Returns the names of the envs.
pub fn names() -> [&'static str; 4] {
    ["mail", "calendar", "files", "kv"]
}

/// Returns the text of the file that holds an env; its module documentation is the page for users.
pub fn page(name: &str) -> Option<&'static str> {
    match name {
        "mail" => Some(include_str!("builtin/mail.rs")),
        "calendar" => Some(include_str!("builtin/calendar.rs")),
        "files" => Some(include_str!("builtin/files.rs")),
        "kv" => Some(include_str!("builtin/kv.rs")),
        _ => None,
    }
}

/// Returns the tools of an env, as `tools/list` declares them.
pub fn tools(name: &str) -> Option<Vec<Value>> {
    match name {
        "mail" => Some(mail::Mailbox::tools()),
        "calendar" => Some(calendar::Calendar::tools()),
        "files" => Some(files::Files::tools()),
        "kv" => Some(kv::Kv::tools()),
        _ => None,
    }
}

/// Starts an env with an empty state.
pub fn start(name: &str, env_id: &str) -> Option<Arc<dyn EnvServer>> {
    match name {
        "mail" => Some(Server::<mail::Mailbox>::start(env_id)),
        "calendar" => Some(Server::<calendar::Calendar>::start(env_id)),
        "files" => Some(Server::<files::Files>::start(env_id)),
        "kv" => Some(Server::<kv::Kv>::start(env_id)),
        _ => None,
    }
}
