//! What the dispatcher tells, counts and keeps of a task.

use std::sync::Arc;

use super::{Active, Dispatcher, TaskJob, TaskResult, Told, result, store};
use crate::context::{Output, Outputs};
use crate::event::{Outcome, RunEvent, StepEvent, Tally};
use crate::graph::StepIx;
use crate::rebuild::{Log, MadeBy, Read};
use crate::schedule::MadeOf;

impl<'a> Dispatcher<'a> {
    pub(super) fn count(&mut self, task: &mut Active<'a>, step: StepIx, what: &StepEvent) {
        let tally = &mut task.tally;
        match what {
            StepEvent::Hit { took_us, .. } => {
                tally.hit += 1;
                tally.saved_us = tally.saved_us.saturating_add(*took_us);
                task.worth.insert(step, *took_us);
                let trace = task.job.plan.steps[step.at()]
                    .candidates
                    .iter()
                    .find(|trace| {
                        let output = task.scheduler.outputs().get(step);
                        output.is_some_and(|output| Arc::ptr_eq(&output, &trace.output))
                    })
                    .cloned();
                if let Some(trace) = trace {
                    if let Some(place) = self.store.place_of(&trace) {
                        task.places.insert(step, place);
                        task.blobs
                            .extend(store::blobs_of(&trace.output, &trace.log));
                    }
                    self.tell_log(task, step, &trace.log);
                }
            }
            StepEvent::Started { .. } => tally.ran += 1,
            StepEvent::Finished { took_us, .. } => {
                task.worth.insert(step, *took_us);
            }
            StepEvent::Deferred => tally.deferred += 1,
            StepEvent::Failed { .. } => tally.failed += 1,
            StepEvent::Skipped => tally.skipped += 1,
            StepEvent::RolledBack { .. } => {
                task.places.remove(&step);
            }
            _ => {}
        }
    }

    pub(super) fn tell_step(&mut self, task: &Active<'a>, step: StepIx, what: StepEvent) {
        let planned = &task.job.plan.steps[step.at()];
        (self.tell)(Told::Event(RunEvent::Step {
            task: task.job.shown.clone(),
            step: planned.id.clone(),
            kind: planned.kind,
            what,
        }));
    }

    pub(super) fn tell_log(&mut self, task: &Active<'a>, step: StepIx, log: &Log) {
        if log.inline.is_empty() && log.stored.is_none() {
            return;
        }
        (self.tell)(Told::Log {
            task: task.job.shown.clone(),
            step: task.job.plan.steps[step.at()].id.to_string(),
            log: log.clone(),
        });
    }

    pub(super) fn keep(
        &mut self,
        task: &mut Active<'a>,
        step: StepIx,
        output: Arc<Output>,
        reads: Vec<Read>,
        (supersedes, attempt): (bool, u32),
    ) {
        let planned = &task.job.plan.steps[step.at()];
        let changed = task.job.contents[step.at()].iter().find_map(|content| {
            content
                .files
                .iter()
                .find(|file| !self.is_unchanged(&task.job, file))
                .map(|file| {
                    format!(
                        "`{}` of artifact `{}` changed while it ran",
                        file.path, content.name
                    )
                })
        });
        if let Some(why) = changed.or_else(|| task.unfit.get(&step).cloned()) {
            self.tell_step(task, step, StepEvent::NotStored { why });
            return;
        }
        let (log, started_us, took_us) = task.logs.get(&step).cloned().unwrap_or_default();
        let made = MadeBy {
            run: self.settings.run.clone(),
            step: format!("{}/{}", task.job.plan.name, planned.id),
            started_us,
            took_us,
            attempt,
        };
        let blobs = store::blobs_of(&output, &log);
        match self
            .store
            .keep(planned, output, reads, made, log, supersedes)
        {
            Ok(stored) => {
                if let Some(place) = stored.place {
                    task.places.insert(step, place);
                    task.blobs.extend(blobs);
                }
                if let Some(text) = stored.notice {
                    (self.tell)(Told::Event(RunEvent::Notice { text }));
                }
            }
            Err(why) => self.tell_step(task, step, StepEvent::NotStored { why }),
        }
    }

    pub(super) fn is_unchanged(&self, job: &TaskJob, file: &crate::step::ContentFile) -> bool {
        let planned = job.stamps.get(&file.source);
        let now = self
            .system
            .metadata(&file.source)
            .map(|metadata| metadata.stamp)
            .ok();
        if planned.is_some() && planned == now.as_ref() {
            return true;
        }
        let mut stream = crate::digest::Stream::new();
        let read = self
            .system
            .stream(&file.source, &mut |bytes| stream.update(bytes));
        read.is_ok() && stream.finish() == file.digest
    }

    pub(super) fn never_started(&mut self, job: &TaskJob) -> TaskResult {
        let skipped = job.plan.steps.len() as u64;
        let result = TaskResult {
            shown: job.shown.clone(),
            outcome: Outcome::Cancelled,
            scores: Vec::new(),
            failure: None,
            tally: Tally {
                skipped,
                ..Tally::default()
            },
            outputs: Outputs::new(job.plan.steps.len(), job.plan.initial.clone()),
            kept: None,
            worth_us: 0,
            blobs: Vec::new(),
        };
        self.tell_result(&result, 0);
        result
    }

    pub(super) async fn finish(&mut self, at: usize, task: Active<'a>) -> TaskResult {
        if let Err(text) = self.provisioner.end_task(at).await {
            (self.tell)(Told::Event(RunEvent::Notice { text }));
        }
        self.result(task, None)
    }

    pub(super) fn result(&mut self, task: Active<'a>, outcome: Option<Outcome>) -> TaskResult {
        let took_us = self.system.now_us().saturating_sub(task.began_us).max(0) as u64;
        let (end, failure) = task.scheduler.end();
        let scores = result::scores(&task.job.plan, task.scheduler.outputs());
        let outcome = outcome.unwrap_or_else(|| result::outcome_of(&end, &scores));
        let kept = task
            .job
            .plan
            .graph
            .steps()
            .filter(|step| task.job.plan.steps[step.at()].live.is_none())
            .map(|step| task.places.get(&step).copied())
            .collect();
        // After a failure the change is still what a later explanation is about.
        let went_well = !matches!(outcome, Outcome::Failed | Outcome::Cancelled);
        for planned in task.job.plan.steps.iter().filter(|_| went_well) {
            if matches!(planned.made_of, MadeOf::Env(_) | MadeOf::Agent(_)) {
                let run = &self.settings.run;
                self.store.keep_definition(planned, run, task.began_us);
            }
        }
        let mut outputs = task.scheduler.outputs().clone();
        outputs.append(task.scheduler.entries());
        let result = TaskResult {
            shown: task.job.shown.clone(),
            outcome,
            scores,
            failure,
            tally: task.tally,
            outputs,
            kept,
            worth_us: task.worth.values().copied().fold(0, u64::saturating_add),
            blobs: task.blobs,
        };
        self.tell_result(&result, took_us);
        result
    }

    pub(super) fn tell_result(&mut self, result: &TaskResult, took_us: u64) {
        (self.tell)(Told::Event(RunEvent::TaskFinished {
            task: result.shown.clone(),
            outcome: result.outcome,
            scores: result.scores.clone(),
            failure: result.failure.clone(),
            tally: result.tally,
            took_us,
        }));
    }
}
