//! Taking in a result and having it kept.

use super::state::Scheduler;
use super::{Command, Done, Phase};
use crate::digest::{Digest, Manifest};
use crate::event::StepEvent;
use crate::graph::StepIx;
use crate::rebuild::{Log, MadeBy, Read, ReadKey, Trace};
use crate::step::Determinism;

impl Scheduler<'_> {
    /// Takes in the output of a step whose resources are settled.
    pub(super) fn complete(&mut self, step: StepIx) {
        let run = &mut self.steps[step.at()];
        run.forced = None;
        if std::mem::take(&mut run.tolerated) {
            self.release(step, Done::Tolerated);
            return;
        }
        let Some(output) = run.output.clone() else {
            return;
        };
        let took_us = run.took_us;
        let kept = self
            .planned(step)
            .candidates
            .iter()
            .chain(&self.planned(step).previous);
        let digest = output.digest();
        let same_output = kept
            .into_iter()
            .any(|trace| trace.output.digest() == digest);
        self.world.add(step, output);
        self.tell(
            step,
            StepEvent::Finished {
                took_us,
                same_output,
            },
        );
        self.release(step, Done::Ran);
        self.store_when_fit(step);
    }

    /// Keeps the result of a step, or of its whole cluster of groups once all of it ran.
    fn store_when_fit(&mut self, step: StepIx) {
        let Some(cluster) = self.world.groups.cluster_of(step) else {
            self.store(step, None);
            return;
        };
        if self.cluster_ran[cluster] == self.world.groups.clusters()[cluster].members.len() {
            self.store_cluster(cluster);
        }
    }

    pub(super) fn store(&mut self, step: StepIx, group_run: Option<Digest>) {
        let run = &self.steps[step.at()];
        let planned = self.planned(step);
        if planned.determinism == Determinism::Volatile || run.phase != Phase::Done(Done::Ran) {
            return;
        }
        if let Some(why) = run.unfit.clone() {
            self.tell(step, StepEvent::NotStored { why });
            return;
        }
        let Some(output) = run.output.clone() else {
            return;
        };
        let mut reads = run.reads.clone();
        reads.extend(self.state_reads(step));
        if group_run.is_some() {
            reads.push(Read {
                key: ReadKey::GroupRun,
                digest: group_run,
            });
        }
        let (supersedes, attempt) = (run.supersedes, run.attempt);
        if group_run.is_none() {
            let trace = Trace {
                fingerprint: planned.key.fingerprint,
                manifest: Manifest::default(),
                reads: reads.clone(),
                output: output.clone(),
                made: MadeBy {
                    took_us: run.took_us,
                    ..MadeBy::default()
                },
                log: Log::default(),
            };
            self.world.remember(step, trace);
        }
        self.commands.push(Command::Store {
            step,
            output,
            reads,
            supersedes,
            attempt,
        });
    }
}
