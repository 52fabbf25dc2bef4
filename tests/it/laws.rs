//! The laws of the design, each a property over random tasks, edits, failures, losses and orders of finishing.

use aebuild::resource::Touch;
use aebuild::schedule::Done;
use aebuild::schedule::{Forecasted, Input, Phase, TaskEnd};
use aebuild::step::Determinism;
use proptest::prelude::*;

use crate::model::{Machine, Step, Store, Task};

/// Chance that a seed repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (((self.0 >> 33) as usize) ^ ((self.0 >> 47) as usize)) % sides.max(1)
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, Default)]
struct Luck {
    /// One in so many steps fails; 0 is none.
    fails: usize,
    /// After so many moments the run is gone, leaving the store as it is.
    crash: Option<usize>,
    /// After so many moments the user stops it.
    cancel: Option<usize>,
}

/// Runs a machine to its end, or to its crash; returns whether it came to its end.
fn drive(machine: &mut Machine<'_>, jobs: usize, luck: Luck, dice: &mut Dice) -> bool {
    machine.feed(Input::Begin);
    for moment in 0..20_000 {
        if machine.finished > 0 {
            assert_eq!(machine.finished, 1);
            return true;
        }
        if luck.crash == Some(moment) {
            return false;
        }
        if luck.cancel == Some(moment) {
            machine.feed(Input::Cancel);
            continue;
        }
        let running = machine.running();
        let waking: Vec<_> = machine.aborting.iter().copied().collect();
        let settling: Vec<_> = machine.settling.iter().cloned().collect();
        let can_start = !machine.queue.is_empty() && running.len() < jobs;
        let n = running.len() + waking.len() + settling.len() + machine.asleep.len();
        assert!(
            n > 0 || can_start,
            "bug: nothing goes on, and the task is not over\n{}",
            machine.log.join("\n")
        );
        let at = dice.roll(n + usize::from(can_start));
        if let Some(&step) = running.get(at) {
            if luck.fails > 0 && dice.one_in(luck.fails) {
                machine.end_badly(step);
            } else {
                machine.end_well(step);
            }
        } else if let Some(&step) = waking.get(at - running.len()) {
            machine.stop(step);
        } else if let Some(resource) = settling.get(at - running.len() - waking.len()) {
            machine.settle(resource);
        } else if at < n {
            machine.wake(at - running.len() - waking.len() - settling.len());
        } else {
            machine.start_next();
        }
    }
    panic!(
        "bug: the run does not come to an end\n{}",
        machine.log.join("\n")
    );
}

/// Makes a task of up to so many steps.
fn random_task(dice: &mut Dice, most: usize) -> Task {
    let mut task = Task {
        steps: Vec::new(),
        sample: 1,
    };
    let n_boxes = dice.roll(3);
    for at in 0..n_boxes {
        let mut step = Step::new(&format!("box{at}"));
        step.touches.push((format!("box{at}"), Touch::Creates));
        task.steps.push(step);
    }
    let n = 1 + dice.roll(most);
    for _ in 0..n {
        add_step(&mut task, dice);
    }
    tidy(&mut task);
    task
}

fn add_step(task: &mut Task, dice: &mut Dice) {
    let mut at = dice.roll(1000);
    while task.steps.iter().any(|step| step.id == format!("s{at}")) {
        at += 1;
    }
    let mut step = Step::new(&format!("s{at}"));
    step.field = dice.roll(3).to_string();
    step.after = if dice.one_in(8) {
        None
    } else {
        Some(Vec::new())
    };
    let boxes: Vec<String> = task
        .steps
        .iter()
        .filter_map(|step| step.makes().map(str::to_owned))
        .collect();
    for name in &boxes {
        let touch = match dice.roll(8) {
            0 | 1 => Touch::Mutates,
            2 => Touch::Observes,
            3 => Touch::MayMutate,
            _ => continue,
        };
        step.touches.push((name.clone(), touch));
    }
    step.really = dice.one_in(2);
    if let Some(after) = &mut step.after {
        for other in &task.steps {
            let needed = other
                .makes()
                .is_some_and(|m| step.touches.iter().any(|(n, _)| n == m));
            if needed || dice.one_in(4) {
                after.push(other.id.clone());
            }
        }
    }
    for _ in 0..dice.roll(3) {
        step.reads.push(format!("k{}", dice.roll(5)));
    }
    for _ in 0..1 + dice.roll(2) {
        step.writes.push(format!("k{}", dice.roll(5)));
    }
    step.tolerant = dice.one_in(4);
    task.steps.push(step);
}

/// Makes sure of what a checked task has: its edges point to steps that there are, retries go back to ancestors, and who
/// may change a resource does so only where there is a path to and from all others that touch it.
fn tidy(task: &mut Task) {
    let ids: Vec<String> = task.steps.iter().map(|step| step.id.clone()).collect();
    for step in &mut task.steps {
        if let Some(after) = &mut step.after {
            after.retain(|id| ids.contains(id));
        }
    }
    let graph = task.graph();
    let touches = task.touches();
    for (step, own) in graph.steps().zip(&touches) {
        let alone = own
            .iter()
            .filter(|(_, touch)| *touch == Touch::MayMutate)
            .all(|(name, _)| {
                let others = graph.steps().filter(|other| *other != step);
                others
                    .filter(|other| touches[other.at()].iter().any(|(n, _)| n == name))
                    .all(|other| !graph.are_unordered(other, step))
            });
        task.steps[step.at()].really &= alone;
    }
    for step in graph.steps() {
        if let Some((from, ..)) = &task.steps[step.at()].retry {
            let is_before = graph.steps().any(|other| {
                ids[other.at()] == *from && (other == step || graph.is_ancestor(other, step))
            });
            if !is_before {
                task.steps[step.at()].retry = None;
            }
        }
    }
}

fn add_retries(task: &mut Task, dice: &mut Dice) {
    let graph = task.graph();
    for step in graph.steps() {
        if dice.one_in(3) && task.steps[step.at()].makes().is_none() {
            let before: Vec<_> = graph
                .steps()
                .filter(|o| *o == step || graph.is_ancestor(*o, step))
                .collect();
            let from = before[dice.roll(before.len())];
            let backoff = if dice.one_in(3) { 100 } else { 0 };
            task.steps[step.at()].retry = Some((
                task.steps[from.at()].id.clone(),
                1 + dice.roll(3) as u32,
                backoff,
            ));
        }
    }
}

/// Edits a task as an author would.
fn edit(task: &mut Task, dice: &mut Dice) {
    if task.steps.is_empty() {
        add_step(task, dice);
    }
    let at = dice.roll(task.steps.len());
    match dice.roll(6) {
        0 | 1 => task.steps[at].field = dice.roll(3).to_string(),
        2 if task.steps[at].makes().is_none() => {
            task.steps.remove(at);
        }
        3 => add_step(task, dice),
        4 if at > 0 => {
            let other = task.steps[dice.roll(at)].id.clone();
            if let Some(after) = &mut task.steps[at].after
                && !after.contains(&other)
            {
                after.push(other);
            }
        }
        5 => {
            let makers: Vec<String> = task.steps[at]
                .touches
                .iter()
                .map(|(n, _)| n.clone())
                .collect();
            if let Some(after) = &mut task.steps[at].after
                && !after.is_empty()
            {
                let gone = dice.roll(after.len());
                if !makers.contains(&after[gone]) {
                    after.remove(gone);
                }
            }
        }
        _ => {}
    }
    tidy(task);
}

/// Returns the context of a clean run of a task, and what it said.
fn clean(task: &Task, dice: &mut Dice) -> (Vec<String>, String) {
    let store = Store::default();
    let mut machine = Machine::new(&store, task, "clean");
    assert!(drive(&mut machine, 1 + dice.roll(4), Luck::default(), dice));
    assert_well(&machine);
    (machine.context(), machine.log.join("\n"))
}

/// Asserts that a run without bad luck left no step out.
fn assert_well(machine: &Machine<'_>) {
    for (step, planned) in machine.plan.graph.steps().zip(&machine.plan.steps) {
        let phase = machine.scheduler.phase(step);
        let well = matches!(phase, Phase::Done(Done::Hit | Done::Ran | Done::Deferred));
        assert!(
            well,
            "`{}` is {phase:?}\n{}",
            planned.id,
            machine.log.join("\n")
        );
    }
    assert_eq!(machine.scheduler.end().0, TaskEnd::Well);
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("LAW_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(200);
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn law_1_the_context_does_not_depend_on_who_finishes_first(seed: u64) {
        let dice = &mut Dice(seed);
        let task = random_task(dice, 12);
        let (one, log) = clean(&task, dice);
        let (two, other) = clean(&task, dice);
        prop_assert_eq!(one, two, "{:#?}\n{}\n--\n{}", task, log, other);
    }

    #[test]
    fn law_2_an_edge_that_carries_no_read_reruns_nothing(seed: u64) {
        let dice = &mut Dice(seed);
        let mut task = random_task(dice, 12);
        for step in &mut task.steps {
            // A new edge carries a read where a resource or a key is shared.
            step.touches.retain(|(_, touch)| *touch == Touch::Creates);
            step.writes = vec![format!("of {}", step.id)];
            step.reads = step.after.iter().flatten().take(1).map(|id| format!("of {id}")).collect();
        }
        let store = Store::default();
        assert!(drive(&mut Machine::new(&store, &task, "one"), 2, Luck::default(), dice));
        for at in 1..task.steps.len() {
            let other = task.steps[dice.roll(at)].id.clone();
            let step = &mut task.steps[at];
            if !step.reads.contains(&format!("of {other}"))
                && let Some(after) = &mut step.after
            {
                after.push(other);
            }
        }
        let mut machine = Machine::new(&store, &task, "two");
        assert!(drive(&mut machine, 2, Luck::default(), dice));
        prop_assert_eq!(&machine.started, &Vec::<String>::new(), "{:#?}", task);
    }

    #[test]
    fn law_3_and_9_what_a_live_thing_is_called_changes_no_key_and_no_output(seed: u64) {
        let dice = &mut Dice(seed);
        let task = random_task(dice, 12);
        let (one, two) = (Store::default(), Store::default());
        let order = dice.0;
        let mut first = Machine::new(&one, &task, "http://localhost:8080");
        assert!(drive(&mut first, 2, Luck::default(), &mut Dice(order)));
        let mut second = Machine::new(&two, &task, "http://[::1]:9");
        assert!(drive(&mut second, 2, Luck::default(), &mut Dice(order)));
        prop_assert_eq!(first.context(), second.context());
        prop_assert_eq!(one.actions(), two.actions());
        let mut third = Machine::new(&one, &task, "http://elsewhere");
        assert!(drive(&mut third, 2, Luck::default(), dice));
        prop_assert_eq!(&third.started, &Vec::<String>::new());
    }

    #[test]
    fn law_4_a_run_of_what_has_not_changed_starts_nothing(seed: u64) {
        let dice = &mut Dice(seed);
        let mut task = random_task(dice, 14);
        if dice.one_in(2) {
            add_retries(&mut task, dice);
        }
        let store = Store::default();
        let mut first = Machine::new(&store, &task, "one");
        assert!(drive(&mut first, 1 + dice.roll(4), Luck::default(), dice));
        let mut second = Machine::new(&store, &task, "two");
        assert!(!second.foreseen.may_run());
        assert!(drive(&mut second, 1, Luck::default(), dice));
        prop_assert_eq!(&second.started, &Vec::<String>::new(), "{:#?}\n{}\n{}", task, first.log.join("\n"), second.log.join("\n"));
        prop_assert_eq!(second.n_provisioned, 0);
        prop_assert_eq!(first.context(), second.context());
    }

    #[test]
    fn law_5_each_sample_is_an_entry_and_running_again_gives_the_same(seed: u64) {
        let dice = &mut Dice(seed);
        let mut task = random_task(dice, 8);
        for step in &mut task.steps {
            if step.makes().is_none() && dice.one_in(2) {
                step.determinism = Determinism::Sampled;
            }
        }
        let store = Store::default();
        let mut contexts = Vec::new();
        let mut logs: Vec<String> = Vec::new();
        for sample in [1, 2, 3, 1, 2, 3] {
            task.sample = sample;
            let mut machine = Machine::new(&store, &task, "run");
            machine.chance = 1000 * contexts.len() as u64;
            assert!(drive(&mut machine, 2, Luck::default(), dice));
            logs.push(machine.log.join("\n"));
            prop_assert!(contexts.len() < 3 || machine.started.is_empty(), "{:#?}\n---- bad\n{}", task, logs.join("\n----\n"));
            let sampled = |step: &Step| step.determinism == Determinism::Sampled && step.makes().is_none();
            if contexts.len() < 3 {
                for step in task.steps.iter().filter(|step| sampled(step)) {
                    prop_assert!(machine.started.contains(&step.id));
                }
            }
            contexts.push(machine.context());
        }
        prop_assert_eq!(&contexts[..3], &contexts[3..]);
    }

    #[test]
    fn law_6_a_failed_step_leaves_no_trace(seed: u64) {
        let dice = &mut Dice(seed);
        let mut task = random_task(dice, 12);
        for step in &mut task.steps {
            // Else the same work done by another step could stand in.
            step.field = step.id.clone();
        }
        let store = Store::default();
        let luck = Luck { fails: 3, ..Luck::default() };
        let mut machine = Machine::new(&store, &task, "one");
        assert!(drive(&mut machine, 3, luck, dice));
        let failed: Vec<String> = machine.plan.graph.steps()
            .filter(|step| matches!(machine.scheduler.phase(*step), Phase::Done(Done::Failed | Done::Tolerated)))
            .map(|step| machine.id(step).to_owned())
            .collect();
        for id in &failed {
            let stored = format!("store {id}");
            prop_assert!(!machine.log.contains(&stored), "{}", machine.log.join("\n"));
        }
        let mut again = Machine::new(&store, &task, "two");
        assert!(drive(&mut again, 3, Luck::default(), dice));
        for id in &failed {
            prop_assert!(again.started.contains(id));
        }
    }

    #[test]
    fn law_7_a_group_hits_runs_and_is_kept_as_one(seed: u64) {
        let dice = &mut Dice(seed);
        let mut task = random_task(dice, 14);
        let store = Store::default();
        for run in 0..4 {
            let luck = Luck { crash: dice.one_in(2).then(|| dice.roll(40)), ..Luck::default() };
            let mut machine = Machine::new(&store, &task, "run");
            let ended = drive(&mut machine, 1 + dice.roll(4), luck, dice);
            for group in machine.plan.groups.iter().filter(|_| ended) {
                let hit = |step: &aebuild::graph::StepIx| machine.scheduler.phase(*step) == &Phase::Done(Done::Hit);
                let n_hit = group.members.iter().filter(|step| hit(step)).count();
                prop_assert!(n_hit == 0 || n_hit == group.members.len(), "run {}: {:#?}\n{}", run, group, machine.log.join("\n"));
                let left: std::collections::BTreeSet<_> = group.members.iter()
                    .filter_map(|step| machine.scheduler.outputs().get(*step))
                    .flat_map(|output| output.effects.clone())
                    .filter(|effect| effect.resource == group.resource)
                    .map(|effect| effect.after.digest())
                    .collect();
                prop_assert!(left.len() <= 1, "the members left more than one state\n{}", machine.log.join("\n"));
            }
            edit(&mut task, dice);
        }
    }

    #[test]
    fn law_8_an_incremental_run_equals_a_clean_run(seed: u64) {
        let dice = &mut Dice(seed);
        let mut task = random_task(dice, 14);
        let store = Store::default();
        store.forgetful.set(dice.one_in(4));
        let mut story = Vec::new();
        for _ in 0..5 {
            if dice.one_in(2) {
                add_retries(&mut task, dice);
            }
            let luck = Luck {
                fails: if dice.one_in(2) { 2 + dice.roll(6) } else { 0 },
                crash: dice.one_in(3).then(|| dice.roll(60)),
                cancel: dice.one_in(4).then(|| dice.roll(60)),
            };
            let mut machine = Machine::new(&store, &task, "bad");
            drive(&mut machine, 1 + dice.roll(4), luck, dice);
            story.push(format!("---- bad\n{}", machine.log.join("\n")));
            if dice.one_in(2) {
                edit(&mut task, dice);
            }
            if dice.one_in(3) {
                let odds = 1 + dice.roll(3);
                let mut other = Dice(dice.roll(1 << 20) as u64);
                store.lose(|| dice.one_in(5), || other.one_in(odds));
            }
            if dice.one_in(4) {
                store.rot();
            }
            let mut machine = Machine::new(&store, &task, "good");
            let ended = drive(&mut machine, 1 + dice.roll(4), Luck::default(), dice);
            assert!(ended);
            story.push(format!("---- good\n{}", machine.log.join("\n")));
            if !store.forgetful.get() {
                assert_well(&machine);
            }
            let (expected, log) = clean(&task, dice);
            if machine.scheduler.end().0 == TaskEnd::Well {
                prop_assert_eq!(machine.context(), expected, "{:#?}\n{}\n---- clean\n{}", task, story.join("\n"), log);
            }
        }
    }

    #[test]
    fn law_10_what_is_foreseen_is_what_happens(seed: u64) {
        let dice = &mut Dice(seed);
        let mut task = random_task(dice, 14);
        let store = Store::default();
        assert!(drive(&mut Machine::new(&store, &task, "one"), 3, Luck::default(), dice));
        for _ in 0..4 {
            edit(&mut task, dice);
            store.lose(|| false, || dice.one_in(3));
            let mut machine = Machine::new(&store, &task, "two");
            let foreseen = machine.foreseen.steps.clone();
            assert!(drive(&mut machine, 3, Luck::default(), dice));
            let sure = !foreseen.iter().any(|step| matches!(step, Forecasted::Waits { .. }));
            for (step, foreseen) in machine.plan.graph.steps().zip(&foreseen) {
                let done = match machine.scheduler.phase(step) {
                    Phase::Done(done) => *done,
                    other => panic!("bug: {other:?} at the end"),
                };
                let agrees = match foreseen {
                    Forecasted::Hit(_) => done == Done::Hit || !sure,
                    // Set back for a group, it may find its own result of this run.
                    Forecasted::Dirty(_) => machine.started.iter().any(|id| id == machine.id(step)),
                    Forecasted::Deferred => done == Done::Deferred,
                    Forecasted::Waits { .. } | Forecasted::LeftOut => true,
                };
                prop_assert!(agrees, "`{}` was foreseen as {:?} and is {:?}\n{}", machine.id(step), foreseen, done, machine.log.join("\n"));
            }
        }
    }
}
