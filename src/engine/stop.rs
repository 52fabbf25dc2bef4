//! How a run ends before its end.

use std::collections::HashMap;

use tokio::sync::mpsc;

use super::{Active, Dispatcher, Message, TaskResult, Told};
use crate::event::RunEvent;
use crate::graph::StepIx;
use crate::schedule::{Ended, Input, Pool};

/// Returns whether a step has failed.
pub(super) fn is_failure(message: &Message) -> bool {
    let Message::Ended { ended, .. } = message else {
        return false;
    };
    matches!(ended, Ended::Failed(_))
}

impl<'a> Dispatcher<'a> {
    /// Has the tasks drained and torn down for which that is wanted.
    pub(super) async fn cancel(
        &mut self,
        active: &mut HashMap<usize, Active<'a>>,
        results: &mut [Option<TaskResult>],
        pool: &mut Pool<(usize, StepIx)>,
        send: &mpsc::UnboundedSender<Message>,
        wanted: fn(&Active<'a>) -> bool,
    ) {
        let ids = active.iter().filter(|(_, task)| wanted(task));
        let ids: Vec<usize> = ids.map(|(at, _)| *at).collect();
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
