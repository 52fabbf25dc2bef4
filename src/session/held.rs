//! What holds live things up when a run is over: for the user, or for the next run.

use std::sync::Arc;

use super::{RunOptions, Session, SessionError};
use crate::engine::{Provisioner, Told};
use crate::event::RunEvent;

/// What holds live things up after a run.
pub(super) struct Held {
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) provisioner: Arc<Provisioner>,
}

impl Held {
    /// Ends what is up.
    pub(super) fn release(self) -> Result<(), String> {
        self.runtime.block_on(self.provisioner.close())
    }
}

/// Makes the runtime of a run.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, SessionError> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(2, 8))
        .enable_all()
        .build()
        .map_err(|error| SessionError::World(format!("no runtime could be made: {error}")))
}

impl Session {
    /// Returns what makes live things: that of the last run where it waits for this one.
    pub(super) fn held(
        &mut self,
        run: &str,
        options: &RunOptions,
        tell: &mut dyn FnMut(Told),
    ) -> Result<Held, SessionError> {
        let live = self.live_settings(run, options.keep || options.warm);
        if let Some(held) = self.warm.take() {
            if options.warm && held.provisioner.is_set_to(&live) {
                return Ok(held);
            }
            if let Err(text) = held.release() {
                tell(Told::Event(RunEvent::Notice { text }));
            }
        }
        let (cache, system) = (self.cache.clone(), self.system.clone());
        Ok(Held {
            runtime: runtime()?,
            provisioner: Arc::new(Provisioner::new(live, cache, system)),
        })
    }

    /// Ends what waits for the next run.
    pub fn end_warm(&mut self) -> Result<(), String> {
        self.warm.take().map_or(Ok(()), Held::release)
    }
}
