//! A task as it is drawn: its steps with what is foreseen of each, and what passes from step to step.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::load::Prepared;
use super::run::{graph_edges, verdict};
use super::upkeep::{HistoryRow, history};
use super::{RunOptions, Session, SessionError, StepVerdict};
use crate::check::secret;
use crate::context::Lookup;
use crate::graph::StepIx;
use crate::json::Value;
use crate::plan;
use crate::record::Redactor;
use crate::resource::{ResourceId, ResourceKind, Touch};
use crate::task::{OnError, StepId};

/// A task, for a picture of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// The task as shown.
    pub shown: String,
    /// The steps in list order.
    pub steps: Vec<DrawnStep>,
    /// What leads from step to step, in the order of the steps that it leads to.
    pub edges: Vec<DrawnEdge>,
}

/// A step, for a picture of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnStep {
    /// Its id.
    pub id: StepId,
    /// Its type.
    pub kind: &'static str,
    /// The line of its file on which it begins, from 1; 0 where that is not known.
    pub line: usize,
    /// What is foreseen.
    pub verdict: StepVerdict,
    /// Whether its newest run failed, and it must run.
    pub has_failed: bool,
    /// How its newest run went.
    pub last: Option<HistoryRow>,
    /// Its fields as they decide the result, without secrets, each cut to what can be shown beside a picture.
    pub fields: Vec<(String, String)>,
    /// Whether the task goes on where it fails.
    pub goes_on: bool,
    /// The span that runs again when it fails.
    pub retry: Option<DrawnRetry>,
    /// The steps that are cached as one with it.
    pub group: Vec<StepId>,
}

/// What runs again when a step fails.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnRetry {
    /// The position of the first step.
    pub from: usize,
    /// How many times at most.
    pub max_retries: u32,
    /// The positions of all steps that run again.
    pub span: Vec<usize>,
}

/// What leads from one step to another.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnEdge {
    /// The position of the earlier step.
    pub from: usize,
    /// The position of the later step.
    pub to: usize,
    /// Whether the later step waits for the earlier one by itself; otherwise others between them keep the order.
    pub is_order: bool,
    /// What passes along; empty where the edge only orders.
    pub carries: Vec<String>,
}

/// The most letters of a field that are shown.
const MAX_FIELD: usize = 300;
/// How many steps are asked whether they give what another one reads, the nearest first.
const MAX_ASKED: usize = 64;

impl Session {
    /// Returns what is selected as it is drawn, with what a run would do now.
    pub fn draw(&mut self, options: &RunOptions) -> Result<Vec<Drawing>, SessionError> {
        let prepared = self.prepare_all(options)?;
        self.kept.set_memo(&self.memo);
        self.write_kept();
        let secrets = self.secrets();
        let redactor = Redactor::new(secrets.iter().map(String::as_str));
        Ok(prepared
            .iter()
            .map(|one| self.drawing(one, &redactor))
            .collect())
    }

    fn drawing(&self, one: &Prepared, redactor: &Redactor) -> Drawing {
        let plan = &one.job.plan;
        let lines = self.lines(one);
        let steps = plan.graph.steps().map(|at| {
            let planned = &plan.steps[at.at()];
            let rows = self
                .cache
                .as_ref()
                .map_or_else(Vec::new, |cache| history(cache, &planned.key.lineage));
            let last = rows.into_iter().next().map(|row| HistoryRow {
                error: row.error.map(|error| hidden(&error, redactor)),
                ..row
            });
            let verdict = verdict(one, at);
            let runs = matches!(verdict, StepVerdict::Dirty { .. });
            let groups = plan.groups.iter();
            let group: BTreeSet<StepIx> = groups
                .filter(|group| group.members.binary_search(&at).is_ok())
                .flat_map(|group| group.members.iter().copied())
                .filter(|&other| other != at)
                .collect();
            DrawnStep {
                id: planned.id.clone(),
                kind: planned.kind,
                line: lines.get(at.at()).copied().unwrap_or_default(),
                verdict,
                has_failed: runs && last.as_ref().is_some_and(|row| row.error.is_some()),
                last,
                fields: fields(&one.job.steps[at.at()].fields(), redactor),
                goes_on: planned.on_error == OnError::Continue,
                retry: planned.retry.map(|retry| DrawnRetry {
                    from: retry.from.at(),
                    max_retries: retry.max_retries,
                    span: plan
                        .graph
                        .span(retry.from)
                        .iter()
                        .map(|at| at.at())
                        .collect(),
                }),
                group: group
                    .iter()
                    .map(|&other| plan.steps[other.at()].id.clone())
                    .collect(),
            }
        });
        Drawing {
            shown: one.unit.shown.clone(),
            steps: steps.collect(),
            edges: edges(one),
        }
    }

    /// Returns the line on which each step of a task begins.
    fn lines(&self, one: &Prepared) -> Vec<usize> {
        let loaded = self.folders.get(&one.unit.folder);
        let Some(task) = loaded.and_then(|loaded| loaded.tasks.get(&one.unit.name)) else {
            return Vec::new();
        };
        let places = &plan::parsed(&self.db, task.input).places;
        let text = &places.source().text;
        let (mut line, mut at) = (1, 0);
        let starts = one.job.plan.graph.steps().map(|step| {
            let start = places.opening(step).start as usize;
            // Steps stand in the order of the text, so it is gone through once.
            match text.get(at..start) {
                Some(between) => line += between.matches('\n').count(),
                None => {
                    line = 1 + text
                        .get(..start)
                        .map_or(0, |text| text.matches('\n').count())
                }
            }
            at = start;
            line
        });
        starts.collect()
    }
}

/// Returns a text without what is known to be a secret and without what looks like a key.
fn hidden(text: &str, redactor: &Redactor) -> String {
    secret::hidden(&redactor.text(text)).into_owned()
}

fn fields(all: &Value, redactor: &Redactor) -> Vec<(String, String)> {
    let Value::Object(members) = all else {
        return Vec::new();
    };
    let says_something = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    };
    let shown = members
        .iter()
        .filter(|(_, value)| says_something(value))
        .map(|(name, value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let text = hidden(&text, redactor);
            let text = match text.char_indices().nth(MAX_FIELD) {
                Some((end, _)) => {
                    let more = text[end..].chars().count();
                    format!("{}… ({more} more characters)", &text[..end])
                }
                None => text,
            };
            (name.clone(), text)
        });
    shown.collect()
}

/// Returns what leads from step to step: the order that is declared, and what passes.
fn edges(one: &Prepared) -> Vec<DrawnEdge> {
    let plan = &one.job.plan;
    let declared = graph_edges(&plan.graph);
    let makers = Makers::of(one);
    let mut edges = Vec::new();
    for (to, declared) in plan.graph.steps().zip(declared) {
        let mut carried: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let mut add = |from: StepIx, what: String| {
            let list = carried.entry(from.at()).or_default();
            if !list.contains(&what) {
                list.push(what);
            }
        };
        let step = &one.job.steps[to.at()];
        let mut looked: Vec<Lookup> = step.reads().into_iter().map(|read| read.lookup).collect();
        looked.dedup();
        let mut later: Vec<Lookup> = Vec::new();
        for (resource, touch) in &plan.steps[to.at()].touches {
            if *touch == Touch::Creates {
                continue;
            }
            // Who finds a thing as it was deployed gets it, not a state of it.
            match makers.of_state(one, resource, to) {
                Some((from, Touch::Creates)) => add(from, lookup_of(resource).to_string()),
                Some((from, _)) => {
                    add(from, format!("state of {resource}"));
                    later.push(lookup_of(resource));
                }
                None => {}
            }
        }
        for lookup in &looked {
            for from in makers.of_lookup(one, lookup, to) {
                // What a thing was deployed as comes with its state.
                if !later.contains(lookup) || declared.contains(&from.at()) {
                    add(from, lookup.to_string());
                }
            }
        }
        for &from in &declared {
            carried.entry(from).or_default();
        }
        edges.extend(carried.into_iter().map(|(from, carries)| DrawnEdge {
            from,
            to: to.at(),
            is_order: declared.contains(&from),
            carries,
        }));
    }
    edges
}

fn lookup_of(resource: &ResourceId) -> Lookup {
    let name = resource.name.clone();
    match resource.kind {
        ResourceKind::Env => Lookup::Env(name),
        ResourceKind::Agent => Lookup::Agent(name),
        ResourceKind::Sandbox => Lookup::Sandbox(name),
    }
}

/// Who gives what in a task.
#[derive(Default)]
struct Makers {
    names: HashMap<Lookup, Vec<StepIx>>,
    /// What is below `metadata`, by the first part of the path.
    metadata: HashMap<String, Vec<(Vec<String>, StepIx)>>,
    states: HashMap<ResourceId, Vec<(StepIx, Touch)>>,
}

impl Makers {
    fn of(one: &Prepared) -> Self {
        let mut makers = Makers::default();
        for at in one.job.plan.graph.steps() {
            for made in one.job.steps[at.at()].provides() {
                match made.lookup {
                    Lookup::Metadata(path) if !path.is_empty() => {
                        let list = makers.metadata.entry(path[0].clone()).or_default();
                        list.push((path, at));
                    }
                    lookup => makers.names.entry(lookup).or_default().push(at),
                }
            }
            for (resource, touch) in &one.job.plan.steps[at.at()].touches {
                if *touch != Touch::Observes {
                    let list = makers.states.entry(resource.clone()).or_default();
                    list.push((at, *touch));
                }
            }
        }
        makers
    }

    /// Returns the steps whose answers a look-up sees: the last that gives all of it, or all that give a part.
    fn of_lookup(&self, one: &Prepared, lookup: &Lookup, to: StepIx) -> Vec<StepIx> {
        let graph = &one.job.plan.graph;
        let Lookup::Metadata(path) = lookup else {
            let makers = self.names.get(lookup).into_iter().flatten().rev();
            let before = makers.copied().filter(|&from| from < to).take(MAX_ASKED);
            return before
                .filter(|&from| graph.is_ancestor(from, to))
                .take(1)
                .collect();
        };
        let mut found = Vec::new();
        let related = path.first().and_then(|first| self.metadata.get(first));
        for (made, from) in related.into_iter().flatten().rev() {
            let n = made.len().min(path.len());
            if *from < to && made[..n] == path[..n] && graph.is_ancestor(*from, to) {
                found.push(*from);
                if made.len() <= path.len() {
                    break;
                }
            }
        }
        found.reverse();
        found
    }

    /// Returns the step that left a resource in the state in which another one finds it, and how it touched it.
    fn of_state(
        &self,
        one: &Prepared,
        resource: &ResourceId,
        to: StepIx,
    ) -> Option<(StepIx, Touch)> {
        let graph = &one.job.plan.graph;
        let all = self.states.get(resource)?.iter().rev().copied();
        let mut before = all.filter(|(from, _)| *from < to).take(MAX_ASKED);
        before.find(|(from, _)| graph.is_ancestor(*from, to))
    }
}
