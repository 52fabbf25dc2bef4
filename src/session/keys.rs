//! The keys that steps have as things stand: what a run that goes on is held against.

use tokio::sync::watch;

use super::{RunOptions, Session, SessionError, StepKeys, Wish};
use crate::engine::Store;

impl Session {
    /// Returns the names of all tasks of the folders.
    pub fn task_names(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        for at in 0..self.located.len() {
            let folder = self.load_folder(at).folder.clone();
            names.extend(folder.tasks.iter().map(|task| task.name.clone()));
        }
        names
    }

    /// Returns the key of every step that is selected, as the files stand.
    pub fn step_keys(&mut self, options: &RunOptions) -> Result<StepKeys, SessionError> {
        let units = self.select(options)?;
        let id = self.new_run_id();
        let isolation = self.isolation(&id)?;
        let store = Store::new(None, false);
        let (prepared, _) = self.prepare(units, options, &store, isolation)?;
        let of_task = prepared.into_iter().map(|one| {
            let steps = one.job.plan.steps.iter();
            let keys = steps.map(|step| (step.id.clone(), step.key.fingerprint));
            (one.unit.shown, keys.collect())
        });
        Ok(of_task.collect())
    }
}

/// Tells a run what the user wishes.
#[derive(Debug)]
pub struct Wisher(watch::Sender<Wish>);

impl Wisher {
    /// Returns one, and what a run listens to.
    pub fn new() -> (Self, watch::Receiver<Wish>) {
        let (send, wish) = watch::channel(Wish::GoOn);
        (Wisher(send), wish)
    }

    /// Wishes something; who wished to stop cannot wish to go on.
    pub fn wish(&self, wish: Wish) {
        self.0.send_if_modified(|now| {
            let is_taken_back = now.stops() && !wish.stops();
            if !is_taken_back {
                *now = wish.clone();
            }
            !is_taken_back
        });
    }
}
