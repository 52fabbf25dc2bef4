//! Whose turn it is: what takes one prompt at a time is asked by one after the other, in the order in which they came.
//!
//! An agent that is told how to work, where its envs are and whom it may ask knows only what it was told last, and a
//! program shares the files of its sandbox. Prompts may wait for each other through agents that ask each other: who would
//! wait for ever is told so instead.

use std::any::Any;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::graph::StepIx;
use crate::step::agent::Behind;
use crate::system::locked;

/// What takes one prompt at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Seat {
    /// An agent of a task.
    Agent(usize, String),
    /// A sandbox of a task, in which agents are programs.
    Sandbox(usize, String),
    /// An agent at an address, whichever tasks prompt it.
    Address(String),
}

/// Who wants a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Who {
    pub(super) task: usize,
    pub(super) step: StepIx,
    pub(super) agent: String,
}

/// Why there is no turn, ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stuck {
    /// Who has the turn waits for this prompt itself.
    Itself,
    /// Who has the turn waits, through others, for who waits for this prompt.
    EachOther,
}

/// What ends when a prompt gets its turn.
pub(super) type Aside = Vec<Box<dyn Any + Send>>;

/// A prompt that has its turn or waits for it.
struct Entry {
    number: u64,
    seat: Seat,
    who: Who,
    /// What others have their turn at, and wait with for the answer to this prompt.
    behind: Vec<Seat>,
    /// `None` for the one whose turn it is.
    waits: Option<(oneshot::Sender<()>, Aside)>,
}

#[derive(Default)]
struct Entries {
    last: u64,
    /// In the order in which they came.
    all: Vec<Entry>,
}

/// All turns of a run.
#[derive(Default)]
pub(super) struct Turns(Mutex<Entries>);

/// A turn, or a place among those who wait for one; it ends when this is dropped.
pub(super) struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

impl Turns {
    /// Waits for a turn. Where others are before, `aside` is called, and what it returns is dropped when the turn has come.
    pub(super) async fn take(
        self: &Arc<Self>,
        seat: Seat,
        who: Who,
        behind: &Behind,
        aside: impl FnOnce() -> Aside,
    ) -> Result<Turn, Stuck> {
        let (turn, woken) = self.queue(seat, who, behind, aside)?;
        if let Some(woken) = woken {
            // Who would wake this one is in the list as long as this one waits.
            let _ = woken.await;
        }
        Ok(turn)
    }

    fn queue(
        self: &Arc<Self>,
        seat: Seat,
        who: Who,
        behind: &Behind,
        aside: impl FnOnce() -> Aside,
    ) -> Result<(Turn, Option<oneshot::Receiver<()>>), Stuck> {
        let mut entries = locked(&self.0);
        let behind = entries.behind(&who, behind);
        let is_taken = entries.all.iter().any(|other| other.seat == seat);
        let (waits, woken) = match is_taken {
            false => (None, None),
            true if behind.contains(&seat) => return Err(Stuck::Itself),
            true if entries.leads_to(&seat, &behind) => return Err(Stuck::EachOther),
            true => {
                let (wake, woken) = oneshot::channel();
                (Some((wake, aside())), Some(woken))
            }
        };
        entries.last += 1;
        let number = entries.last;
        entries.all.push(Entry {
            number,
            seat,
            who,
            behind,
            waits,
        });
        let turn = Turn {
            turns: self.clone(),
            number,
        };
        Ok((turn, woken))
    }
}

impl Entries {
    /// Returns where those have their turn who wait for the answer to a prompt.
    fn behind(&self, who: &Who, behind: &Behind) -> Vec<Seat> {
        let is_of_step = |entry: &&Entry| (entry.who.task, entry.who.step) == (who.task, who.step);
        let has_turn = self.all.iter().filter(|entry| entry.waits.is_none());
        let waits = |entry: &&Entry| behind.by_call || behind.agents.contains(&entry.who.agent);
        let waiting = has_turn.filter(is_of_step).filter(waits);
        waiting.map(|entry| entry.seat.clone()).collect()
    }

    /// Returns whether who has the turn at a seat waits for one of those who have theirs at others.
    fn leads_to(&self, seat: &Seat, others: &[Seat]) -> bool {
        let (mut seen, mut todo) = (Vec::new(), vec![seat]);
        while let Some(seat) = todo.pop() {
            if others.contains(seat) {
                return true;
            }
            if !seen.contains(&seat) {
                seen.push(seat);
                let asked = self.all.iter().filter(|entry| entry.behind.contains(seat));
                todo.extend(asked.map(|entry| &entry.seat));
            }
        }
        false
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut entries = locked(&self.turns.0);
        let found = entries
            .all
            .iter()
            .position(|entry| entry.number == self.number);
        let Some(found) = found else { return };
        let gone = entries.all.remove(found);
        if gone.waits.is_some() {
            return;
        }
        let next = entries.all.iter_mut().find(|entry| entry.seat == gone.seat);
        if let Some((wake, aside)) = next.and_then(|next| next.waits.take()) {
            // From now on it goes on, so nobody sees all of them wait.
            drop(aside);
            // One that is given up meanwhile ends its turn by itself.
            let _ = wake.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(name: &str) -> Seat {
        Seat::Agent(0, name.to_owned())
    }

    fn by(agents: &[&str]) -> Behind {
        Behind {
            agents: agents.iter().map(|&agent| agent.to_owned()).collect(),
            by_call: false,
        }
    }

    /// Queues for an agent, in the name of a step.
    fn queue(
        turns: &Arc<Turns>,
        step: u32,
        agent: &str,
        behind: &Behind,
    ) -> Result<(Turn, Option<oneshot::Receiver<()>>), Stuck> {
        let who = Who {
            task: 0,
            step: StepIx(step),
            agent: agent.to_owned(),
        };
        turns.queue(seat(agent), who, behind, Vec::new)
    }

    #[test]
    fn turns_come_one_after_another_in_order_and_who_gives_up_is_passed_over() {
        let turns = Arc::new(Turns::default());
        let step = |step| queue(&turns, step, "a", &by(&[])).unwrap();
        let (first, none) = step(0);
        assert!(none.is_none());
        let mut others = [step(1), step(2), step(3)];
        let mut come = || {
            let is_woken = |woken: &mut Option<oneshot::Receiver<()>>| {
                woken.as_mut().is_some_and(|woken| woken.try_recv().is_ok())
            };
            others.each_mut().map(|(_, woken)| is_woken(woken))
        };
        assert_eq!(come(), [false; 3]);
        assert!(queue(&turns, 4, "b", &by(&[])).unwrap().1.is_none());
        drop(first);
        assert_eq!(come(), [true, false, false]);
        let [one, two, three] = others;
        drop(two);
        drop(one);
        let (third, woken) = three;
        assert!(woken.unwrap().try_recv().is_ok());
        drop(third);
        assert!(locked(&turns.0).all.is_empty());
    }

    #[test]
    fn who_waits_stands_aside_until_its_turn_has_come() {
        struct Told(Arc<Mutex<Vec<&'static str>>>);
        impl Drop for Told {
            fn drop(&mut self) {
                locked(&self.0).push("goes on");
            }
        }
        let turns = Arc::new(Turns::default());
        let told: Arc<Mutex<Vec<&str>>> = Arc::default();
        let take = |step| {
            let who = Who {
                task: 0,
                step: StepIx(step),
                agent: "a".to_owned(),
            };
            let aside = || {
                locked(&told).push("aside");
                vec![Box::new(Told(told.clone())) as Box<dyn Any + Send>]
            };
            turns.queue(seat("a"), who, &by(&[]), aside).unwrap()
        };
        let first = take(0);
        assert!(locked(&told).is_empty());
        let second = take(1);
        assert_eq!(*locked(&told), ["aside"]);
        drop(first);
        // It is seen to go on before anybody hears that the first is done.
        assert_eq!(*locked(&told), ["aside", "goes on"]);
        drop(second);
    }

    #[test]
    fn who_would_wait_for_ever_is_told_so() {
        let turns = Arc::new(Turns::default());
        let ask = |step, agent: &str, behind: &[&str]| queue(&turns, step, agent, &by(behind));
        let stuck = |asked: Result<_, Stuck>| asked.err();
        // a asks b, which asks a back.
        let a = ask(0, "a", &[]).unwrap();
        let b = ask(0, "b", &["a"]).unwrap();
        assert_eq!(stuck(ask(0, "a", &["a", "b"])), Some(Stuck::Itself));
        // What is between them need not take turns.
        assert_eq!(stuck(ask(0, "a", &["a", "model"])), Some(Stuck::Itself));
        // Another step asks a, and waits.
        let other = ask(1, "a", &[]).unwrap();
        assert!(other.1.is_some());
        drop((a, b, other));

        // Two steps: a asks b while b asks a.
        let a = ask(0, "a", &[]).unwrap();
        let b = ask(1, "b", &[]).unwrap();
        let waits = ask(0, "b", &["a"]).unwrap();
        assert!(waits.1.is_some());
        assert_eq!(stuck(ask(1, "a", &["b"])), Some(Stuck::EachOther));
        drop((a, b, waits));

        // An instruction to who makes the call that waits for it.
        let a = ask(0, "a", &[]).unwrap();
        let call = Behind {
            agents: Vec::new(),
            by_call: true,
        };
        assert_eq!(stuck(queue(&turns, 0, "a", &call)), Some(Stuck::Itself));
        assert!(queue(&turns, 1, "a", &call).unwrap().1.is_some());
        drop(a);
    }
}
