//! Why a step would run or not: the causes of its verdict and the path to the root.

use super::load::Prepared;
use super::run::verdict;
use super::upkeep::{HistoryRow, history};
use super::{RunOptions, Session, SessionError, StepVerdict};
use crate::diagnostic::line_column;
use crate::graph::StepIx;
use crate::plan;
use crate::rebuild::{DirtyReason, Origin, ReadKey, differences};
use crate::schedule::{Forecasted, Need};
use crate::task::StepId;

/// A reason, and what is behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The step that the reason is about.
    pub step: StepId,
    /// The reason.
    pub reason: DirtyReason,
    /// Where what changed is written, as people are shown files, with the line where that is known.
    pub at: Option<String>,
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
    /// Why: its own reasons first, then those of dirty steps before it whose results it reads.
    pub causes: Vec<Cause>,
    /// How many more dirty steps there are whose results it reads.
    pub n_more: usize,
    /// What it would cost to run it.
    pub cost: Cost,
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

/// What it would cost to run a step, as far as earlier runs tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// How long the step took when it last ran, microseconds.
    pub took_us: Option<u64>,
    /// The steps before it that will or may run too, in list order.
    pub before: Vec<Costly>,
    /// The steps after it that will or may run too, in list order.
    pub after: Vec<Costly>,
}

/// A step that costs something.
#[derive(Clone, Debug, PartialEq)]
pub struct Costly {
    /// The step.
    pub step: StepId,
    /// Whether it runs in any case; else it hits where what it reads comes out the same.
    pub is_sure: bool,
    /// How long it took when it last ran, microseconds.
    pub took_us: Option<u64>,
}

/// The most steps whose reasons are told besides a step's own.
const MAX_ROOTS: usize = 5;
/// The most letters of a part of a key that are shown.
const MAX_SHOWN: usize = 120;

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
        let (causes, n_more) = self.all_causes(one, at);
        let part = |text: &str| match text.char_indices().nth(MAX_SHOWN) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        Explanation {
            task: one.unit.shown.clone(),
            step: planned.id.clone(),
            kind: planned.kind,
            verdict: verdict(one, at),
            causes,
            n_more,
            cost: cost(one, at),
            key: planned
                .key
                .manifest
                .parts
                .iter()
                .map(|one| (one.name.clone(), part(&one.shown)))
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

    /// Returns why a step runs or may run, and of how many more steps the reasons are not among them.
    fn all_causes(&self, one: &Prepared, at: StepIx) -> (Vec<Cause>, usize) {
        let mut found = match &one.forecast.steps[at.at()] {
            Forecasted::Dirty(_) | Forecasted::Deferred => self.causes(one, at, &mut Vec::new()),
            _ => Vec::new(),
        };
        let mut roots = roots(one, at);
        if let (Forecasted::Waits { on }, true) = (&one.forecast.steps[at.at()], roots.is_empty()) {
            roots.push(*on);
        }
        let is_told = |found: &[Cause], step: &StepId| {
            fn names(causes: &[Cause], step: &StepId) -> bool {
                let mut causes = causes.iter();
                causes.any(|cause| cause.step == *step || names(&cause.then, step))
            }
            names(found, step)
        };
        let mut n_more = 0;
        let mut n_told = 0;
        for root in roots {
            if is_told(&found, &one.job.plan.steps[root.at()].id) {
                continue;
            }
            if n_told == MAX_ROOTS {
                n_more += 1;
                continue;
            }
            n_told += 1;
            found.extend(self.causes(one, root, &mut Vec::new()));
        }
        (found, n_more)
    }

    fn causes(&self, one: &Prepared, at: StepIx, path: &mut Vec<StepIx>) -> Vec<Cause> {
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
                    let then = behind.map_or_else(Vec::new, |by| self.causes(one, by, path));
                    Cause {
                        step: id(at),
                        reason: reason.clone(),
                        at: self.place(one, at, reason),
                        then,
                    }
                })
                .collect(),
            Forecasted::Waits { on } => self.causes(one, *on, path),
            Forecasted::Deferred => {
                let reasons = definition_changes(one, at).into_iter();
                let cause = |reason| Cause {
                    step: id(at),
                    at: self.place(one, at, &reason),
                    reason,
                    then: Vec::new(),
                };
                reasons.map(cause).collect()
            }
            Forecasted::Hit(_) | Forecasted::LeftOut => Vec::new(),
        };
        path.pop();
        found
    }

    /// Returns where what changed is written.
    fn place(&self, one: &Prepared, at: StepIx, reason: &DirtyReason) -> Option<String> {
        let DirtyReason::Changed { origin, name, .. } = reason else {
            return None;
        };
        let loaded = self.folders.get(&one.unit.folder)?;
        match origin {
            Origin::Field | Origin::Type => {
                let task = loaded.tasks.get(&one.unit.name)?;
                let places = &plan::parsed(&self.db, task.input).places;
                let field = name
                    .strip_prefix("field `")
                    .and_then(|name| name.strip_suffix('`'));
                let span = match (origin, field) {
                    (Origin::Type, _) if name == "type" => places.kind(at),
                    (Origin::Field, Some(field)) => {
                        let written = places.key(at, field);
                        written.unwrap_or_else(|| places.opening(at))
                    }
                    _ => return None,
                };
                let source = places.source();
                let (line, column) = line_column(&source.text, span.start as usize);
                Some(format!("{}:{line}:{column}", source.name))
            }
            Origin::File => {
                let (artifact, file) = name.strip_prefix("artifact `")?.split_once("` file `")?;
                let (file, _) = file.rsplit_once('`')?;
                let artifact = loaded.folder.artifact(artifact)?;
                Some(format!("{}/{file}", artifact.shown))
            }
            _ => None,
        }
    }
}

/// Returns whether a step will or may run.
fn may_run(one: &Prepared, at: StepIx) -> bool {
    let foreseen = &one.forecast.steps[at.at()];
    matches!(foreseen, Forecasted::Dirty(_) | Forecasted::Waits { .. })
}

/// Returns the dirty steps whose results a step reads, by itself or through steps that wait for them; the nearest first.
fn roots(one: &Prepared, at: StepIx) -> Vec<StepIx> {
    let plan = &one.job.plan;
    if !may_run(one, at) {
        return Vec::new();
    }
    let ancestors = plan.graph.ancestors(at);
    let mut readers = vec![at];
    let mut roots = Vec::new();
    let before = (0..at.0)
        .rev()
        .map(StepIx)
        .filter(|other| ancestors[other.at()]);
    for other in before.filter(|other| may_run(one, *other)) {
        let Some(theirs) = &plan.steps[other.at()].previous else {
            continue;
        };
        let is_read = readers.iter().any(|reader| {
            let mine = &plan.steps[reader.at()].previous;
            let mut reads = mine.iter().flat_map(|trace| &trace.reads);
            reads.any(|read| gives(theirs, &read.key)) && plan.graph.is_ancestor(other, *reader)
        });
        match &one.forecast.steps[other.at()] {
            _ if !is_read => {}
            Forecasted::Waits { .. } => readers.push(other),
            _ => roots.push(other),
        }
    }
    roots
}

/// Returns what it would cost to run a step.
fn cost(one: &Prepared, at: StepIx) -> Cost {
    let plan = &one.job.plan;
    let took = |at: StepIx| match &one.forecast.steps[at.at()] {
        Forecasted::Hit(trace) => Some(trace.made.took_us),
        _ => plan.steps[at.at()]
            .previous
            .as_ref()
            .map(|trace| trace.made.took_us),
    };
    let costly = |at: StepIx| {
        let is_sure = match one.forecast.steps[at.at()] {
            Forecasted::Dirty(_) => true,
            Forecasted::Waits { .. } => false,
            _ => return None,
        };
        Some(Costly {
            step: plan.steps[at.at()].id.clone(),
            is_sure,
            took_us: took(at),
        })
    };
    if !may_run(one, at) {
        return Cost::default();
    }
    let ancestors = plan.graph.ancestors(at);
    let before = plan.graph.steps().filter(|other| ancestors[other.at()]);
    let after = plan.graph.span(at).into_iter().filter(|other| *other != at);
    Cost {
        took_us: took(at),
        before: before.filter_map(costly).collect(),
        after: after.filter_map(costly).collect(),
    }
}

/// Returns what is different in what a live thing is made of since that was last noted.
fn definition_changes(one: &Prepared, at: StepIx) -> Vec<DirtyReason> {
    let planned = &one.job.plan.steps[at.at()];
    let previous = planned.previous.as_ref();
    match previous.filter(|previous| previous.fingerprint != planned.key.fingerprint) {
        Some(previous) => differences(&previous.manifest, &planned.key.manifest),
        None => Vec::new(),
    }
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
