//! Faults that a test asks the disk for.
//!
//! Nothing in a normal run makes a [`Faults`]; it is public only for this crate's own tests.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Space;

/// Kinds of operations that can be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Opening a file or a folder for reading.
    Read,
    /// Writing bytes or changing a length.
    Write,
    /// Making bytes or names durable.
    Sync,
    /// Renaming or linking.
    Rename,
    /// Creating a file or a folder, or opening one for writing.
    Create,
    /// Removing a file or a folder.
    Remove,
}

/// Rules that say which operations fail.
#[derive(Default)]
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
    are_writes_short: AtomicBool,
    space: Mutex<Option<Space>>,
}

struct Rule {
    op: Option<Op>,
    from: u64,
    until: u64,
    errno: i32,
    seen: u64,
}

impl Faults {
    /// Makes the n-th operation of this kind from now on (1 is the next) fail once.
    pub fn fail_nth(&self, op: Op, n: u64, errno: i32) {
        self.push(Rule {
            op: Some(op),
            from: n,
            until: n,
            errno,
            seen: 0,
        });
    }

    /// Makes the n-th operation of this kind and all later ones fail.
    pub fn fail_from(&self, op: Op, n: u64, errno: i32) {
        self.push(Rule {
            op: Some(op),
            from: n,
            until: u64::MAX,
            errno,
            seen: 0,
        });
    }

    /// Makes the n-th changing operation of any kind and all later ones fail, as after a crash.
    pub fn crash_at(&self, n: u64) {
        self.push(Rule {
            op: None,
            from: n,
            until: u64::MAX,
            errno: 5,
            seen: 0,
        });
    }

    /// Makes each write take only half of its bytes.
    pub fn shorten_writes(&self) {
        self.are_writes_short.store(true, Ordering::Relaxed);
    }

    /// Makes the file system look like this.
    pub fn set_space(&self, space: Space) {
        *self
            .space
            .lock()
            .expect("no test panics while it holds the lock") = Some(space);
    }

    /// Forgets every rule.
    pub fn clear(&self) {
        self.rules
            .lock()
            .expect("no test panics while it holds the lock")
            .clear();
        self.are_writes_short.store(false, Ordering::Relaxed);
    }

    pub(super) fn are_writes_short(&self) -> bool {
        self.are_writes_short.load(Ordering::Relaxed)
    }

    pub(super) fn space(&self) -> Option<Space> {
        *self
            .space
            .lock()
            .expect("no test panics while it holds the lock")
    }

    pub(super) fn hit(&self, op: Op) -> io::Result<()> {
        let mut rules = self
            .rules
            .lock()
            .expect("no test panics while it holds the lock");
        for rule in rules.iter_mut() {
            let is_meant = match rule.op {
                Some(meant) => meant == op,
                None => op != Op::Read,
            };
            if !is_meant {
                continue;
            }
            rule.seen += 1;
            if (rule.from..=rule.until).contains(&rule.seen) {
                return Err(io::Error::from_raw_os_error(rule.errno));
            }
        }
        Ok(())
    }

    fn push(&self, rule: Rule) {
        self.rules
            .lock()
            .expect("no test panics while it holds the lock")
            .push(rule);
    }
}
