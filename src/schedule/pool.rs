//! Slots: how many steps may run at once, and who is next.

use std::collections::VecDeque;

/// What a step does with its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// It works.
    Works,
    /// It waits for somebody else most of the time, such as for an agent.
    Waits,
}

/// First-come-first-served queues before a number of slots each: one of steps that work, one of steps that wait.
#[derive(Debug)]
pub struct Pool<T> {
    works: Slots<T>,
    waits: Slots<T>,
}

#[derive(Debug)]
struct Slots<T> {
    slots: usize,
    taken: usize,
    queue: VecDeque<T>,
}

impl<T: PartialEq> Pool<T> {
    /// Returns a pool of so many slots for steps that work and for steps that wait, at least one each.
    pub fn new(works: usize, waits: usize) -> Self {
        Pool {
            works: Slots::new(works),
            waits: Slots::new(waits),
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut Slots<T> {
        match lane {
            Lane::Works => &mut self.works,
            Lane::Waits => &mut self.waits,
        }
    }

    /// Puts something into a queue.
    pub fn push(&mut self, lane: Lane, item: T) {
        self.lane(lane).queue.push_back(item);
    }

    /// Takes a slot for the next in a queue, if both are there.
    pub fn start(&mut self) -> Option<(Lane, T)> {
        let works = self.works.start().map(|item| (Lane::Works, item));
        works.or_else(|| self.waits.start().map(|item| (Lane::Waits, item)))
    }

    /// Gives a slot back.
    pub fn done(&mut self, lane: Lane) {
        let slots = self.lane(lane);
        debug_assert!(slots.taken > 0, "bug: a slot was given back twice");
        slots.taken = slots.taken.saturating_sub(1);
    }

    /// Takes something out of its queue; `None` where it is not waiting.
    pub fn call_back(&mut self, matches: impl Fn(&T) -> bool) -> Option<T> {
        for slots in [&mut self.works, &mut self.waits] {
            if let Some(at) = slots.queue.iter().position(&matches) {
                return slots.queue.remove(at);
            }
        }
        None
    }
}

impl<T> Slots<T> {
    fn new(slots: usize) -> Self {
        Slots {
            slots: slots.max(1),
            taken: 0,
            queue: VecDeque::new(),
        }
    }

    fn start(&mut self) -> Option<T> {
        if self.taken == self.slots {
            return None;
        }
        let item = self.queue.pop_front()?;
        self.taken += 1;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_run_than_there_are_slots_and_the_first_comes_first() {
        let mut pool = Pool::new(2, 1);
        for item in ["a", "b", "c", "d"] {
            pool.push(Lane::Works, item);
        }
        let works = |item| Some((Lane::Works, item));
        assert_eq!(
            [pool.start(), pool.start(), pool.start()],
            [works("a"), works("b"), None]
        );
        // Who waits takes nobody's slot.
        pool.push(Lane::Waits, "x");
        pool.push(Lane::Waits, "y");
        assert_eq!(
            [pool.start(), pool.start()],
            [Some((Lane::Waits, "x")), None]
        );
        assert_eq!(pool.call_back(|item| *item == "c"), Some("c"));
        assert_eq!(pool.call_back(|item| *item == "y"), Some("y"));
        pool.done(Lane::Works);
        assert_eq!([pool.start(), pool.start()], [works("d"), None]);
    }
}
