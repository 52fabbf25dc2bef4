//! Why a step would run or not: the causes of its verdict and the path to the root.

use super::load::Prepared;
use super::run::verdict;
use super::upkeep::{HistoryRow, history};
use super::{RunOptions, Session, SessionError, StepVerdict};
use crate::graph::StepIx;
use crate::rebuild::{DirtyReason, ReadKey, differences};
use crate::schedule::{Forecasted, Need};
use crate::task::StepId;

/// A reason, and what is behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The step that the reason is about.
    pub step: StepId,
    /// The reason.
    pub reason: DirtyReason,
    /// The causes behind it, in the step that gave the changed answer.
    pub then: Vec<Cause>,
}

/// All that is known of a step's verdict.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The task as shown.
    pub task: String,
    /// The step.
    pub step: StepId,
    /// Its type.
    pub kind: &'static str,
    /// What is foreseen.
    pub verdict: StepVerdict,
    /// Why.
    pub causes: Vec<Cause>,
    /// The parts of its key and their values as shown.
    pub key: Vec<(String, String)>,
    /// What it looked up when its kept result was made, and the digests of the answers.
    pub reads: Vec<(String, String)>,
    /// What it needs and how that gets there, where that is known.
    pub needs: Vec<Need>,
    /// Why it does not run although a step before it ran since its own result was made.
    pub cutoff: Option<String>,
    /// How it went before, newest first.
    pub history: Vec<HistoryRow>,
}

impl Session {
    /// Explains a step, given as `step` or `task/step`, in every selected task that has it.
    pub fn explain(
        &mut self,
        options: &RunOptions,
        step: &str,
    ) -> Result<Vec<Explanation>, SessionError> {
        let prepared = self.prepare_all(options)?;
        let mut found = Vec::new();
        let mut refused = None;
        for one in &prepared {
            match super::part::find_step(&one.job.plan, &one.unit, step) {
                Ok(Some(at)) => found.push(self.explain_one(one, at)),
                Ok(None) => {}
                Err(error) => refused = Some(error),
            }
        }
        self.kept.set_memo(&self.memo);
        self.write_kept();
        match refused {
            Some(error) if found.is_empty() => Err(error),
            _ if found.is_empty() => Err(SessionError::Usage {
                message: format!("no task here has a step `{step}`"),
                help: None,
            }),
            _ => Ok(found),
        }
    }

    pub(super) fn explain_one(&self, one: &Prepared, at: StepIx) -> Explanation {
        let plan = &one.job.plan;
        let planned = &plan.steps[at.at()];
        let kept = match &one.forecast.steps[at.at()] {
            Forecasted::Hit(trace) => Some(trace.clone()),
            _ => planned.previous.clone(),
        };
        let reads = kept.iter().flat_map(|trace| &trace.reads).map(|read| {
            let digest = read
                .digest
                .map_or_else(|| "(nothing found)".to_owned(), |d| d.short());
            (read.key.to_string(), digest)
        });
        let lineage = planned.key.lineage;
        Explanation {
            task: one.unit.shown.clone(),
            step: planned.id.clone(),
            kind: planned.kind,
            verdict: verdict(one, at),
            causes: causes(one, at, &mut Vec::new()),
            key: planned
                .key
                .manifest
                .parts
                .iter()
                .map(|part| (part.name.clone(), part.shown.clone()))
                .collect(),
            reads: reads.collect(),
            needs: one.forecast.needs.get(&at).cloned().unwrap_or_default(),
            cutoff: cutoff(one, at),
            history: self
                .cache
                .as_ref()
                .map_or_else(Vec::new, |cache| history(cache, &lineage)),
        }
    }
}

fn causes(one: &Prepared, at: StepIx, path: &mut Vec<StepIx>) -> Vec<Cause> {
    if path.contains(&at) {
        return Vec::new();
    }
    path.push(at);
    let plan = &one.job.plan;
    let id = |at: StepIx| plan.steps[at.at()].id.clone();
    let found = match &one.forecast.steps[at.at()] {
        Forecasted::Dirty(reasons) => reasons
            .iter()
            .map(|reason| {
                let behind = match reason {
                    DirtyReason::ReadChanged { by: Some(by), .. } => Some(*by),
                    DirtyReason::GroupMember { other, .. }
                    | DirtyReason::StateLost {
                        needed_by: other, ..
                    } => plan.position(other.as_str()),
                    _ => None,
                };
                let then = behind.map_or_else(Vec::new, |by| causes(one, by, path));
                Cause {
                    step: id(at),
                    reason: reason.clone(),
                    then,
                }
            })
            .collect(),
        Forecasted::Waits { on } => causes(one, *on, path),
        Forecasted::Deferred => definition_changes(one, at),
        Forecasted::Hit(_) | Forecasted::LeftOut => Vec::new(),
    };
    path.pop();
    found
}

/// Returns what is different in what a live thing is made of since that was last noted.
fn definition_changes(one: &Prepared, at: StepIx) -> Vec<Cause> {
    let planned = &one.job.plan.steps[at.at()];
    let Some(previous) = planned
        .previous
        .as_ref()
        .filter(|previous| previous.fingerprint != planned.key.fingerprint)
    else {
        return Vec::new();
    };
    let reasons = differences(&previous.manifest, &planned.key.manifest);
    let cause = |reason| Cause {
        step: planned.id.clone(),
        reason,
        then: Vec::new(),
    };
    reasons.into_iter().map(cause).collect()
}

/// Returns why a hit holds although a step that it reads from ran later.
fn cutoff(one: &Prepared, at: StepIx) -> Option<String> {
    let plan = &one.job.plan;
    let Forecasted::Hit(mine) = &one.forecast.steps[at.at()] else {
        return None;
    };
    let later = plan
        .graph
        .steps()
        .filter(|&other| plan.graph.is_ancestor(other, at));
    let mut said = Vec::new();
    for other in later {
        let Forecasted::Hit(theirs) = &one.forecast.steps[other.at()] else {
            continue;
        };
        if theirs.made.started_us <= mine.made.started_us {
            continue;
        }
        let read: Vec<String> = mine
            .reads
            .iter()
            .filter(|read| gives(theirs, &read.key))
            .map(|read| read.key.to_string())
            .collect();
        let id = &plan.steps[other.at()].id;
        said.push(if read.is_empty() {
            format!("`{id}` ran since, and it reads nothing of `{id}`")
        } else {
            format!("`{id}` ran since and gave the same {}", read.join(", "))
        });
    }
    (!said.is_empty()).then(|| said.join("; "))
}

fn gives(trace: &crate::rebuild::Trace, read: &ReadKey) -> bool {
    use crate::context::{Lookup, Place};
    match read {
        ReadKey::State(resource) | ReadKey::Group(resource) => trace
            .output
            .effects
            .iter()
            .any(|effect| effect.resource == *resource),
        ReadKey::GroupRun => false,
        ReadKey::Lookup(lookup) => {
            trace
                .output
                .entries
                .iter()
                .any(|entry| match (lookup, &entry.place) {
                    (Lookup::Env(a), Place::Env(b))
                    | (Lookup::Agent(a), Place::Agent(b))
                    | (Lookup::Sandbox(a), Place::Sandbox(b))
                    | (Lookup::Prompt(a), Place::Prompt(b)) => a == b,
                    (Lookup::Metadata(a), Place::Set(b) | Place::Append(b)) => {
                        let n = a.len().min(b.len());
                        a[..n] == b[..n]
                    }
                    _ => false,
                })
        }
    }
}
