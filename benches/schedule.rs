//! How many steps a second the scheduler decides, with nothing around it: first all run, then all hit.

use aebuild::{
    context::*, digest::*, graph::*, json::json, rebuild::*, resource::*, schedule::*, step::*,
    task::*,
};
use std::sync::Arc;
use std::time::Instant;
struct All;
impl Snapshots for All {
    fn can_restore(&self, _: &Version) -> bool {
        true
    }
}
fn plan(
    n: usize,
    edges: impl Fn(usize) -> Edges,
    touches: impl Fn(usize) -> Vec<(ResourceId, Touch)>,
    live: impl Fn(usize) -> bool,
) -> TaskPlan {
    let graph = StepGraph::from_edges((0..n).map(&edges).collect());
    let t: Vec<_> = (0..n).map(&touches).collect();
    let start = Instant::now();
    let groups = groups(&graph, &t);
    let took = start.elapsed();
    if took.as_millis() > 20 {
        println!("    {} groups found in {took:?}", groups.len());
    }
    let steps = (0..n)
        .map(|at| {
            let mut m = Manifest::default();
            m.value("field `at`", &json!(at));
            PlannedStep {
                prompts: false,
                lane: aebuild::schedule::Lane::Works,
                id: StepId::new(&format!("s{at}")),
                kind: "k",
                key: Key::of(m, "t", &format!("s{at}")),
                determinism: Determinism::Pure,
                touches: t[at].clone(),
                live: live(at).then(|| {
                    Arc::new(Output::of(vec![Entry::live(
                        Place::Sandbox(t[at][0].0.name.clone()),
                        json!(1),
                        &Digest::of_bytes(b"x"),
                    )]))
                }),
                made_of: Default::default(),
                on_error: OnError::FailTask,
                retry: None,
                candidates: vec![],
                previous: None,
                forced: None,
                part: StepPart::Free,
            }
        })
        .collect();
    TaskPlan {
        name: "t".into(),
        graph,
        steps,
        groups,
        initial: vec![],
    }
}
fn run(name: &str, mut plan: TaskPlan) {
    let n = plan.steps.len();
    for round in ["run", "hit"] {
        let p = Arc::new(plan.clone());
        let start = Instant::now();
        let f = forecast(&p, &All);
        let forecast_took = start.elapsed();
        let start = Instant::now();
        let mut s = Scheduler::new(p.clone(), &All, &f.lost);
        let mut queue = std::collections::VecDeque::new();
        let mut inputs = std::collections::VecDeque::from([Input::Begin]);
        let mut finished = false;
        let mut hits = 0;
        let mut state = 0u64;
        let mut stored: Vec<(StepIx, Arc<Output>, Vec<Read>)> = vec![];
        loop {
            let Some(input) = inputs.pop_front() else {
                let Some(step) = queue.pop_front() else { break };
                inputs.push_back(Input::Started(step));
                let at = step.at();
                let out = Output::of(vec![Entry::data(
                    Place::Set(vec![format!("k{at}")]),
                    json!(at),
                )]);
                inputs.push_back(Input::Ended {
                    step,
                    ended: Ended::Output(out, vec![]),
                    started_us: 1,
                    took_us: 1,
                });
                continue;
            };
            for c in s.on(input) {
                match c {
                    Command::Run { step, .. } => queue.push_back(step),
                    Command::Settle(resource) => {
                        state += 1;
                        inputs.push_back(Input::Settled {
                            resource,
                            version: Version::State {
                                tree: Digest::of_bytes(&state.to_le_bytes()),
                                size: 1,
                            },
                            changed: true,
                        })
                    }
                    Command::Store {
                        step,
                        output,
                        reads,
                        ..
                    } => stored.push((step, output, reads)),
                    Command::Tell(_, aebuild::event::StepEvent::Hit { .. }) => hits += 1,
                    Command::Finish => finished = true,
                    _ => {}
                }
            }
        }
        let took = start.elapsed();
        assert!(finished);
        println!(
            "{name:28} {round}: {:>9.0} steps/s  ({:.2} us/step; forecast {:.2} us/step; {hits} hits)",
            n as f64 / took.as_secs_f64(),
            took.as_secs_f64() * 1e6 / n as f64,
            forecast_took.as_secs_f64() * 1e6 / n as f64
        );
        for (step, output, reads) in stored {
            let key = plan.steps[step.at()].key.clone();
            plan.steps[step.at()].candidates = vec![Arc::new(Trace {
                fingerprint: key.fingerprint,
                manifest: key.manifest,
                reads,
                output,
                made: MadeBy::default(),
                log: Log::default(),
            })];
        }
    }
}
fn main() {
    let n = 10_000;
    let dep = |v: Vec<usize>| Edges::Steps(v.into_iter().map(|x| StepIx(x as u32)).collect());
    run(
        "chain",
        plan(
            n,
            |at| dep(if at == 0 { vec![] } else { vec![at - 1] }),
            |_| vec![],
            |_| false,
        ),
    );
    run(
        "chain, omitted",
        plan(n, |_| Edges::Earlier, |_| vec![], |_| false),
    );
    run("wide", plan(n, |_| dep(vec![]), |_| vec![], |_| false));
    run(
        "layers of 100, 3 edges each",
        plan(
            n,
            |at| {
                dep(if at < 100 {
                    vec![]
                } else {
                    let l = at / 100 - 1;
                    (0..3).map(|k| l * 100 + (at * 7 + k * 13) % 100).collect()
                })
            },
            |_| vec![],
            |_| false,
        ),
    );
    run(
        "layers of 10, all edges",
        plan(
            n,
            |at| {
                dep(if at < 10 {
                    vec![]
                } else {
                    let l = at / 10 - 1;
                    (l * 10..l * 10 + 10).collect()
                })
            },
            |_| vec![],
            |_| false,
        ),
    );
    let b = |k: usize| ResourceId::sandbox(&format!("b{k}"));
    run(
        "chain on one sandbox",
        plan(
            n,
            |at| dep(if at == 0 { vec![] } else { vec![at - 1] }),
            |at| {
                vec![(
                    b(0),
                    if at == 0 {
                        Touch::Creates
                    } else {
                        Touch::Mutates
                    },
                )]
            },
            |at| at == 0,
        ),
    );
    run(
        "2500 sandboxes, 4 steps each",
        plan(
            n,
            |at| dep(if at % 4 == 0 { vec![] } else { vec![at - 1] }),
            |at| {
                vec![(
                    b(at / 4),
                    if at % 4 == 0 {
                        Touch::Creates
                    } else {
                        Touch::Mutates
                    },
                )]
            },
            |at| at % 4 == 0,
        ),
    );
    run(
        "500 groups of 19",
        plan(
            n,
            |at| {
                dep(if at % 20 == 0 {
                    vec![]
                } else {
                    vec![at / 20 * 20]
                })
            },
            |at| {
                vec![(
                    b(at / 20),
                    if at % 20 == 0 {
                        Touch::Creates
                    } else {
                        Touch::Mutates
                    },
                )]
            },
            |at| at % 20 == 0,
        ),
    );
    run(
        "9999 observers of one",
        plan(
            n,
            |at| dep(if at == 0 { vec![] } else { vec![0] }),
            |at| {
                vec![(
                    b(0),
                    if at == 0 {
                        Touch::Creates
                    } else {
                        Touch::Observes
                    },
                )]
            },
            |at| at == 0,
        ),
    );
    let n = 1000;
    run(
        "one group of 999",
        plan(
            n,
            |at| dep(if at == 0 { vec![] } else { vec![0] }),
            |at| {
                vec![(
                    b(0),
                    if at == 0 {
                        Touch::Creates
                    } else {
                        Touch::Mutates
                    },
                )]
            },
            |at| at == 0,
        ),
    );
}
