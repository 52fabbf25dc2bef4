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

/// Why an env cannot be given a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFault {
    /// What is wrong.
    pub why: String,
    /// The line and the column of its bytes at which reading stopped, each from 1 on; `None` where it can be read.
    pub at: Option<(usize, usize)>,
}

/// Returns why an env would refuse a file as its whole state; `None` where it takes it.
pub fn fault_of_state(name: &str, file_name: &str, bytes: &[u8]) -> Option<StateFault> {
    match name {
        "mail" => fault_of::<mail::Mailbox>(file_name, bytes),
        "calendar" => fault_of::<calendar::Calendar>(file_name, bytes),
        "files" => fault_of::<files::Files>(file_name, bytes),
        "kv" => fault_of::<kv::Kv>(file_name, bytes),
        _ => None,
    }
}

fn fault_of<S: Store>(file_name: &str, bytes: &[u8]) -> Option<StateFault> {
    let whole = |why: String| StateFault { why, at: None };
    let is_list = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let states = match file_name.ends_with(".parts.json") && is_list {
        true => format::read_parts::<S::State>(bytes).map_err(whole),
        false => format::read_state::<S::State>(bytes).map(|state| vec![state]),
    };
    let states = match states {
        Ok(states) => states,
        Err(fault) => return Some(fault),
    };
    let mut all = S::State::default();
    for state in states {
        S::join(&mut all, state);
    }
    S::default().add(all).err().map(whole)
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
