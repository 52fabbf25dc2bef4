//! Slots: how many steps may run at once, and who is next.

use std::collections::VecDeque;

/// A first-come-first-served queue before a number of slots.
#[derive(Debug)]
pub struct Pool<T> {
    slots: usize,
    taken: usize,
    queue: VecDeque<T>,
}

impl<T: PartialEq> Pool<T> {
    /// Returns a pool of so many slots, at least one.
    pub fn new(slots: usize) -> Self {
        Pool {
            slots: slots.max(1),
            taken: 0,
            queue: VecDeque::new(),
        }
    }

    /// Puts something into the queue.
    pub fn push(&mut self, item: T) {
        self.queue.push_back(item);
    }

    /// Takes a slot for the next in the queue, if both are there.
    pub fn start(&mut self) -> Option<T> {
        if self.taken == self.slots {
            return None;
        }
        let item = self.queue.pop_front()?;
        self.taken += 1;
        Some(item)
    }

    /// Gives a slot back.
    pub fn done(&mut self) {
        debug_assert!(self.taken > 0, "bug: a slot was given back twice");
        self.taken = self.taken.saturating_sub(1);
    }

    /// Takes something out of the queue; `None` where it is not waiting.
    pub fn call_back(&mut self, matches: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.queue.iter().position(matches)?;
        self.queue.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_run_than_there_are_slots_and_the_first_comes_first() {
        let mut pool = Pool::new(2);
        for item in ["a", "b", "c", "d"] {
            pool.push(item);
        }
        assert_eq!(
            [pool.start(), pool.start(), pool.start()],
            [Some("a"), Some("b"), None]
        );
        assert_eq!(pool.call_back(|item| *item == "c"), Some("c"));
        pool.done();
        assert_eq!([pool.start(), pool.start()], [Some("d"), None]);
    }
}
