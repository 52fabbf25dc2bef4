//! How a run ends before its end.

use std::collections::HashMap;

use tokio::sync::mpsc;

use super::{Active, Dispatcher, Message, TaskResult, Told};
use crate::event::RunEvent;
use crate::graph::StepIx;
use crate::schedule::{Input, Pool};

impl<'a> Dispatcher<'a> {
    /// Has every task drained and torn down.
    pub(super) async fn cancel(
        &mut self,
        active: &mut HashMap<usize, Active<'a>>,
        results: &mut [Option<TaskResult>],
        pool: &mut Pool<(usize, StepIx)>,
        send: &mpsc::UnboundedSender<Message>,
    ) {
        let ids: Vec<usize> = active.keys().copied().collect();
        for at in ids {
            self.feed(at, Input::Cancel, active, results, pool, send)
                .await;
        }
    }

    /// Returns whether a limit kept a model from being asked, and tells of it.
    pub(super) fn is_over_budget(&mut self) -> bool {
        let Some(limit) = self.models.over_budget() else {
            return false;
        };
        let text = format!("the run stops: it has reached {limit}");
        (self.tell)(Told::Event(RunEvent::Notice { text }));
        true
    }
}
