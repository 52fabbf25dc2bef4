//! The scheduler alone: the library is called with an executor that needs no time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use aebuild::context::{Entry, Output, Place};
use aebuild::digest::{Digest, Manifest};
use aebuild::graph::{Edges, StepGraph, StepIx, groups};
use aebuild::json::json;
use aebuild::rebuild::Key;
use aebuild::resource::{ResourceId, Touch, Version};
use aebuild::schedule::{
    Command, Ended, Input, Lane, PlannedStep, Pool, Scheduler, Snapshots, StepPart, TaskPlan,
    forecast,
};
use aebuild::step::Determinism;
use aebuild::task::{OnError, StepId};

use crate::inputs::Shape;

/// The kinds of task that are scheduled.
pub const KINDS: &[&str] = &["chain", "layers", "box-chain", "box-layers"];

struct NoSnapshots;

impl Snapshots for NoSnapshots {
    fn can_restore(&self, _: &Version) -> bool {
        false
    }
}

/// Schedules one task of so many steps and prints how many steps a second that makes, with and without making the plan
/// and the forecast.
pub fn run(kind: &str, n: usize) {
    let shape = if kind.ends_with("chain") {
        Shape::Chain
    } else {
        Shape::Layers
    };
    let began = Instant::now();
    let plan = Arc::new(plan(n, shape, kind.starts_with("box")));
    let foreseen = forecast(&plan, &NoSnapshots);
    let planned = began.elapsed();
    let began = Instant::now();
    let ran = run_instantly(&plan, &foreseen.lost);
    let took = began.elapsed();
    let per_second = |seconds: f64| ran as f64 / seconds;
    println!(
        "{} {}",
        per_second(took.as_secs_f64()),
        per_second((took + planned).as_secs_f64())
    );
}

fn plan(n: usize, shape: Shape, with_box: bool) -> TaskPlan {
    let edges = (0..n).map(|at| match (shape, at) {
        (Shape::Chain, _) => Edges::Earlier,
        (Shape::Layers, 0) => Edges::Steps(Vec::new()),
        (Shape::Layers, _) => Edges::Steps(
            shape
                .edges(at)
                .into_iter()
                .map(|on| StepIx(on as u32))
                .collect(),
        ),
    });
    let graph = StepGraph::from_edges(edges.collect());
    let resource = ResourceId::sandbox("box");
    let touches: Vec<Vec<(ResourceId, Touch)>> = (0..n)
        .map(|at| match (with_box, at) {
            (false, _) => Vec::new(),
            (true, 0) => vec![(resource.clone(), Touch::Creates)],
            (true, _) => vec![(resource.clone(), Touch::MayMutate)],
        })
        .collect();
    let groups = groups(&graph, &touches);
    let steps = touches
        .into_iter()
        .enumerate()
        .map(|(at, touches)| step(at, touches, with_box));
    TaskPlan {
        name: "task".to_owned(),
        steps: steps.collect(),
        graph,
        groups,
        initial: Vec::new(),
    }
}

fn step(at: usize, touches: Vec<(ResourceId, Touch)>, with_box: bool) -> PlannedStep {
    let id = format!("s{at}");
    let mut manifest = Manifest::default();
    manifest.value("field `criterion`", &json!(format!("step {at}")));
    let live = (with_box && at == 0).then(|| {
        let value = json!({"sandbox_name": "box", "sandbox_id": "box-1"});
        let place = Place::Sandbox("box".to_owned());
        Arc::new(Output::of(vec![Entry::live(
            place,
            value,
            &Digest::of_bytes(b"box"),
        )]))
    });
    PlannedStep {
        prompts: false,
        lane: aebuild::schedule::Lane::Works,
        id: StepId::new(&id),
        kind: "step",
        key: Key::of(manifest, "task", &id),
        determinism: Determinism::Pure,
        touches,
        live,
        made_of: Default::default(),
        on_error: OnError::FailTask,
        retry: None,
        candidates: Vec::new(),
        previous: None,
        forced: None,
        part: StepPart::Free,
    }
}

/// Runs a task whose steps end at once; returns how many ran.
fn run_instantly(
    plan: &Arc<TaskPlan>,
    lost: &HashMap<StepIx, aebuild::rebuild::DirtyReason>,
) -> usize {
    let made = plan.steps[0]
        .live
        .as_ref()
        .map(|live| Version::Created(live.entries[0].digest));
    let mut scheduler = Scheduler::new(plan.clone(), &NoSnapshots, lost);
    let mut pool = Pool::new(2, 2);
    let mut commands = VecDeque::from(scheduler.on(Input::Begin));
    let mut ran = 0;
    loop {
        while let Some(command) = commands.pop_front() {
            match command {
                Command::Run { step, .. } => pool.push(Lane::Works, step),
                Command::Settle(resource) => {
                    let version = made.expect("only a sandbox settles");
                    let settled = Input::Settled {
                        resource,
                        version,
                        changed: false,
                    };
                    commands.extend(scheduler.on(settled));
                }
                Command::Finish => return ran,
                _ => {}
            }
        }
        let (lane, step) = pool
            .start()
            .expect("a task that is not over has a step to run");
        ran += 1;
        commands.extend(scheduler.on(Input::Started(step)));
        let ended = Ended::Output(Output::default(), Vec::new());
        commands.extend(scheduler.on(Input::Ended {
            step,
            ended,
            started_us: 0,
            took_us: 1,
        }));
        pool.done(lane);
    }
}
