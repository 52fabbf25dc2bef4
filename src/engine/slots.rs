//! Steps that start while there are slots, and give them back.

use std::collections::HashMap;

use tokio::sync::{mpsc, watch};

use super::{Active, Dispatcher, Message, executor};
use crate::graph::StepIx;
use crate::schedule::{Need, Pool};

impl<'a> Dispatcher<'a> {
    /// Starts queued steps while there are slots.
    pub(super) fn start_steps(
        &mut self,
        active: &mut HashMap<usize, Active<'a>>,
        pool: &mut Pool<(usize, StepIx)>,
        send: &mpsc::UnboundedSender<Message>,
    ) {
        if self.holds {
            return;
        }
        while let Some((lane, (at, step))) = pool.start() {
            let Some(task) = active.get_mut(&at) else {
                pool.done(lane);
                continue;
            };
            let Some(queued) = task.queued.remove(&step) else {
                pool.done(lane);
                continue;
            };
            self.spawn(at, task, step, queued, send);
        }
    }

    fn spawn(
        &mut self,
        at: usize,
        task: &mut Active<'a>,
        step: StepIx,
        (attempt, needs): (u32, Vec<Need>),
        send: &mpsc::UnboundedSender<Message>,
    ) {
        let lane = task.job.plan.steps[step.at()].lane;
        let (abort, aborted) = watch::channel(false);
        task.aborts.insert(step, abort);
        let run = executor::StepRun {
            task: at,
            job: task.job.clone(),
            step,
            needs,
            attempt,
            outputs: task.scheduler.outputs().share(),
            provisioner: self.provisioner.clone(),
            store: self.store.share(),
            system: self.system.clone(),
            timeout: self.settings.step_timeout,
            redactor: self.redactor.clone(),
            models: self.models.clone(),
            aborted,
            goings: task.goings.subscribe(),
        };
        let send = send.clone();
        tokio::spawn(async move {
            let report = |message| {
                // The dispatcher is gone only when the process ends.
                let _ = send.send(message);
            };
            let told = |moment| {
                report(match moment {
                    executor::Moment::Provisioned(need) => Message::Provisioned {
                        task: at,
                        step,
                        need,
                    },
                    executor::Moment::Started => Message::Started { task: at, step },
                    executor::Moment::Notice(text) => Message::Notice(text),
                    executor::Moment::Rests => Message::Rests { task: at, step },
                });
            };
            let finished = run.run(&told).await;
            report(Message::Ended {
                task: at,
                step,
                ended: finished.ended,
                started_us: finished.started_us,
                took_us: finished.took_us,
                log: finished.log,
                unfit: finished.unfit,
                spent: finished.spent,
                lane,
            });
        });
    }

    /// Gives back the slot of a step that waits for steps beside it.
    pub(super) fn rest(
        &mut self,
        at: usize,
        step: StepIx,
        active: &mut HashMap<usize, Active<'a>>,
        pool: &mut Pool<(usize, StepIx)>,
        send: &mpsc::UnboundedSender<Message>,
    ) {
        if let Some(running) = active.get_mut(&at)
            && running.resting.insert(step)
        {
            pool.done(running.job.plan.steps[step.at()].lane);
            self.start_steps(active, pool, send);
        }
    }
}
