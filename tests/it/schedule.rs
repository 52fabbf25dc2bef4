//! The rules of retries, groups and resources as tables: a task, a script of what happens, and what comes of it.

use std::fmt::Write as _;

use aebuild::resource::ResourceId;
use aebuild::schedule::{Forecasted, Input};
use expect_test::{Expect, expect};

use crate::model::{Machine, Store, Task};

/// Runs a script and returns the log; each run of the script begins with a task.
///
/// `run` begins and starts whatever is queued · `a ok` · `a fails` · `a stops` (it was called back) · `a lost box` ·
/// `box settles` · `wake` · `cancel` · `outdate a` · `start` gives one step a slot. After `by hand` nothing starts, stops or settles of
/// itself.
fn play(store: &Store, task: &str, script: &[&str]) -> String {
    let task = Task::parse(task);
    let mut machine = Machine::new(store, &task, "run");
    let mut text = String::new();
    let mut by_hand = false;
    for line in script {
        writeln!(text, "> {line}").unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let runs = |id: &str| machine.running().contains(&machine.step(id));
        match words[..] {
            [step, "ok" | "fails"] if !runs(step) => writeln!(text, "  (it does not run)").unwrap(),
            ["wake"] if machine.asleep.is_empty() => writeln!(text, "  (nobody sleeps)").unwrap(),
            ["by", "hand"] => by_hand = true,
            ["run"] => machine.feed(Input::Begin),
            ["cancel"] => machine.feed(Input::Cancel),
            ["start"] => machine.start_next(),
            ["outdate", step] => {
                let step = machine.step(step);
                machine.feed(Input::Outdated(vec![step]));
            }
            ["wake"] => machine.wake(0),
            ["rest"] => {
                while let Some(&step) = machine.running().first() {
                    machine.end_well(step);
                    settle(&mut machine);
                }
            }
            [step, "ok"] => machine.end_well(machine.step(step)),
            [step, "fails"] => machine.end_badly(machine.step(step)),
            [step, "stops"] => machine.stop(machine.step(step)),
            [step, "lost", resource] => machine.lose(machine.step(step), resource),
            [resource, "settles"] => machine.settle(&ResourceId::sandbox(resource)),
            _ => panic!("no such line: {line}"),
        }
        if !by_hand {
            settle(&mut machine);
        }
        for said in machine.log.drain(..) {
            writeln!(text, "  {said}").unwrap();
        }
    }
    text
}

/// Lets all go on that goes on without the script.
fn settle(machine: &mut Machine<'_>) {
    loop {
        if let Some(&step) = machine.aborting.first() {
            machine.stop(step);
        } else if !machine.queue.is_empty() {
            machine.start_next();
        } else if let Some(resource) = machine.settling.first().cloned() {
            machine.settle(&resource);
        } else {
            return;
        }
    }
}

fn check(task: &str, script: &[&str], expect: Expect) {
    expect.assert_eq(&play(&Store::default(), task, script));
}

/// Returns the store after a run in which all went well.
fn after(task: &str) -> Store {
    let store = Store::default();
    play(&store, task, &["run", "rest"]);
    store
}

#[test]
fn list_order_is_kept() {
    check(
        "a\nb\nc <- a,b\nd",
        &["run", "b ok", "a ok", "d ok", "c ok"],
        expect![[r#"
        > run
          a dirty: never run
          run a #1
          b dirty: never run
          run b #1
          d dirty: never run
          run d #1
        > b ok
          b finished
          store b
        > a ok
          a finished
          store a
          c dirty: never run
          run c #1
        > d ok
          d finished
          store d
        > c ok
          c finished
          store c
          finish
    "#]],
    );
}

#[test]
fn after_a_fatal_failure_what_runs_goes_on_and_nothing_else_starts() {
    check(
        "a\nb\nc <- b",
        &["run", "a fails", "b ok"],
        expect![[r#"
        > run
          a dirty: never run
          run a #1
          b dirty: never run
          run b #1
        > a fails
          a failed: no luck
          c skipped
        > b ok
          b finished
          store b
          finish
    "#]],
    );
}

#[test]
fn after_a_tolerated_failure_the_rest_runs() {
    check(
        "a: tolerant\nb <- a",
        &["run", "a fails", "b ok"],
        expect![[r#"
        > run
          a dirty: never run
          run a #1
        > a fails
          a failed, goes on: no luck
          b dirty: never run
          run b #1
        > b ok
          b finished
          store b
          finish
    "#]],
    );
}

#[test]
fn a_queued_step_is_called_back_after_a_fatal_failure() {
    check(
        "a\nb",
        &["by hand", "run", "start", "a fails", "b stops"],
        expect![[r#"
        > by hand
        > run
          a dirty: never run
          run a #1
          b dirty: never run
          run b #1
        > start
        > a fails
          a failed: no luck
          abort b
        > b stops
          b aborted
          finish
    "#]],
    );
}

#[test]
fn a_retry_runs_the_span_again_and_a_bystander_goes_on() {
    check(
        "a: writes k\nb <- a: reads k, retry a x1\nother",
        &["run", "a ok", "b fails", "other ok", "a ok", "b ok"],
        expect![[r#"
            > run
              a dirty: never run
              run a #1
              other dirty: never run
              run other #1
            > a ok
              a finished
              store a
              b dirty: never run
              run b #1
            > b fails
              b failed: no luck
              a rolled back for b, attempt 2
              b rolled back for b, attempt 2
              a dirty: rolled back, attempt 2
              run a #2
            > other ok
              other finished
              store other
            > a ok
              a finished
              store instead a
              b dirty: rolled back, attempt 2
              run b #2
            > b ok
              b finished
              store instead b
              finish
        "#]],
    );
}

#[test]
fn a_retry_that_is_used_up_fails_the_task() {
    check(
        "a: retry a x1",
        &["run", "a fails", "a fails"],
        expect![[r#"
        > run
          a dirty: never run
          run a #1
        > a fails
          a failed: no luck
          a rolled back for a, attempt 2
          a dirty: rolled back, attempt 2
          run a #2
        > a fails
          a failed: no luck
          finish
    "#]],
    );
}

#[test]
fn a_retry_comes_before_tolerance() {
    check(
        "a: tolerant, retry a x1\nb <- a",
        &["run", "a fails", "a fails", "b ok"],
        expect![[r#"
        > run
          a dirty: never run
          run a #1
        > a fails
          a failed, goes on: no luck
          a rolled back for a, attempt 2
          a dirty: rolled back, attempt 2
          run a #2
        > a fails
          a failed, goes on: no luck
          b dirty: never run
          run b #1
        > b ok
          b finished
          store b
          finish
    "#]],
    );
}

#[test]
fn a_retry_takes_back_what_hit() {
    let task = "a: writes k\nb <- a: reads k, retry a x1";
    let store = after(task);
    store.lose(
        {
            let mut n = 0;
            move || {
                n += 1;
                n == 2
            }
        },
        || false,
    );
    expect![[r#"
        > run
          a hit
          b dirty: never run
          run b #1
        > b fails
          b failed: no luck
          a rolled back for b, attempt 2
          b rolled back for b, attempt 2
          a dirty: rolled back, attempt 2
          run a #2
        > a ok
          a gave the same
          store instead a
          b dirty: rolled back, attempt 2
          run b #2
        > b ok
          b finished
          store instead b
          finish
    "#]]
    .assert_eq(&play(&store, task, &["run", "b fails", "a ok", "b ok"]));
}

#[test]
fn spans_that_fail_together_roll_back_together() {
    check(
        "a\nb <- a: retry b x1\nc <- a: retry c x1\nd <- b,c",
        &["run", "a ok", "b fails", "c fails", "rest"],
        expect![[r#"
            > run
              a dirty: never run
              run a #1
            > a ok
              a finished
              store a
              b dirty: never run
              run b #1
              c dirty: never run
              run c #1
            > b fails
              b failed: no luck
              b rolled back for b, attempt 2
              b dirty: rolled back, attempt 2
              run b #2
            > c fails
              c failed: no luck
              c rolled back for c, attempt 2
              c dirty: rolled back, attempt 2
              run c #2
            > rest
              b finished
              store instead b
              c finished
              store instead c
              d dirty: never run
              run d #1
              d finished
              store d
              finish
        "#]],
    );
}

#[test]
fn the_outer_of_two_nested_spans_takes_the_inner_with_it() {
    check(
        "a\nb <- a: retry b x1\nc <- a: retry a x1\nd <- b,c",
        &["run", "a ok", "b fails", "c fails", "rest"],
        expect![[r#"
            > run
              a dirty: never run
              run a #1
            > a ok
              a finished
              store a
              b dirty: never run
              run b #1
              c dirty: never run
              run c #1
            > b fails
              b failed: no luck
              b rolled back for b, attempt 2
              b dirty: rolled back, attempt 2
              run b #2
            > c fails
              c failed: no luck
              a rolled back for c, attempt 2
              abort b
              b rolled back for c, attempt 2
              c rolled back for c, attempt 2
              a dirty: rolled back, attempt 2
              run a #2
              b aborted
            > rest
              a finished
              store instead a
              b dirty: rolled back, attempt 2
              run b #3
              c dirty: rolled back, attempt 2
              run c #2
              b finished
              store instead b
              c finished
              store instead c
              d dirty: never run
              run d #1
              d finished
              store d
              finish
        "#]],
    );
}

#[test]
fn a_retry_waits_and_each_wait_is_longer() {
    check(
        "a: retry a x3 100",
        &[
            "run", "a fails", "wake", "a fails", "wake", "a fails", "wake", "a ok",
        ],
        expect![[r#"
            > run
              a dirty: never run
              run a #1
            > a fails
              a failed: no luck
              a rolled back for a, attempt 2
              wake a after 100 ms
            > wake
              a dirty: rolled back, attempt 2
              run a #2
            > a fails
              a failed: no luck
              a rolled back for a, attempt 3
              wake a after 200 ms
            > wake
              a dirty: rolled back, attempt 3
              run a #3
            > a fails
              a failed: no luck
              a rolled back for a, attempt 4
              wake a after 250 ms
            > wake
              a dirty: rolled back, attempt 4
              run a #4
            > a ok
              a finished
              store instead a
              finish
        "#]],
    );
}

#[test]
fn a_step_that_two_retries_put_to_sleep_sleeps_through_both() {
    check(
        "a\nb <- a: retry a x1 100\nc <- a: retry a x1 200",
        &[
            "by hand", "run", "start", "a ok", "start", "start", "b fails", "c fails", "c stops",
            "wake", "start",
        ],
        expect![[r#"
            > by hand
            > run
              a dirty: never run
              run a #1
            > start
            > a ok
              a finished
              store a
              b dirty: never run
              run b #1
              c dirty: never run
              run c #1
            > start
            > start
            > b fails
              b failed: no luck
              a rolled back for b, attempt 2
              b rolled back for b, attempt 2
              abort c
              c rolled back for b, attempt 2
              wake a after 100 ms
            > c fails
              (it does not run)
            > c stops
              c aborted
            > wake
              a dirty: rolled back, attempt 2
              run a #2
            > start
        "#]],
    );
}

#[test]
fn a_fatal_failure_ends_a_wait() {
    check(
        "a: retry a x1 100\nb",
        &["run", "a fails", "b fails", "wake"],
        expect![[r#"
        > run
          a dirty: never run
          run a #1
          b dirty: never run
          run b #1
        > a fails
          a failed: no luck
          a rolled back for a, attempt 2
          wake a after 100 ms
        > b fails
          b failed: no luck
          a skipped
          finish
        > wake
    "#]],
    );
}

#[test]
fn a_retry_finds_a_resource_as_it_was_before_the_span() {
    check(
        "box: creates box\nload <- box: mutates box\nreply <- load: mutates box, retry reply x1\ncheck <- reply: observes box",
        &["run", "load ok", "reply fails", "reply ok", "check ok"],
        expect![[r#"
            > run
              box deferred
              load dirty: never run
              run load #1 (create box new 1)
            > load ok
              settle box
              load finished
              store load (left box bf14b6)
              reply dirty: never run
              run reply #1 (reuse box bf14b6)
            > reply fails
              settle box
              reply failed: no luck
              reply rolled back for reply, attempt 2
              reply dirty: rolled back, attempt 2
              run reply #2 (restore box bf14b6)
            > reply ok
              settle box
              reply finished
              store instead reply (left box afc498)
              check dirty: never run
              run check #1 (reuse box afc498)
            > check ok
              check finished
              store check
              finish
        "#]],
    );
}

#[test]
fn what_was_made_inside_the_span_is_ended_once_nobody_uses_it() {
    check(
        "box: creates box\na <- box: mutates box\nb <- box: retry box x1\nc <- a",
        &[
            "by hand",
            "run",
            "start",
            "start",
            "b fails",
            "a stops",
            "start",
            "start",
            "a ok",
            "box settles",
        ],
        expect![[r#"
            > by hand
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              b dirty: never run
              run b #1
            > start
            > start
            > b fails
              b failed: no luck
              box rolled back for b, attempt 2
              abort a
              a rolled back for b, attempt 2
              b rolled back for b, attempt 2
              box deferred
              b dirty: rolled back, attempt 2
              run b #2
            > a stops
              retire box
              a aborted
              a dirty: rolled back, attempt 2
              run a #2 (create box new 1)
            > start
            > start
            > a ok
              settle box
            > box settles
              a finished
              store instead a (left box bf14b6)
              c dirty: never run
              run c #1
        "#]],
    );
}

#[test]
fn a_retry_is_refused_where_a_step_outside_changed_the_same_thing_meanwhile() {
    check(
        "box: creates box\na <- box: mutates box, retry a x1\nb <- box: mutates box",
        &["run", "b ok", "a fails"],
        expect![[r#"
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              b dirty: never run
              run b #1 (reuse box new 1)
            > b ok
            > a fails
              settle box
              a failed: no luck
              a not retried: cannot retry `a` from `a`: `b` is outside the span and changed sandbox `box` while `a` changed it too
              b finished
              finish
        "#]],
    );
}

#[test]
fn a_retry_is_not_refused_because_of_what_came_before_the_span() {
    check(
        "box: creates box\na <- box: mutates box\nwait\nb <- wait,box: mutates box, retry b x1",
        &["run", "a ok", "wait ok", "b fails", "b ok"],
        expect![[r#"
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              wait dirty: never run
              run wait #1
            > a ok
              settle box
              a finished
            > wait ok
              wait finished
              store wait
              b dirty: never run
              run b #1 (reuse box new 1+a86c)
            > b fails
              settle box
              b failed: no luck
              b rolled back for b, attempt 2
              b dirty: rolled back, attempt 2
              run b #2 (restore box new 1+a86c)
            > b ok
              settle box
              b finished
              store instead a (left box new 1+a86c+a86c)
              store instead b (left box new 1+a86c+a86c)
              finish
        "#]],
    );
}

#[test]
fn a_step_that_waits_for_a_slot_does_not_start_on_what_a_retry_left() {
    check(
        "box: creates box\na <- box: mutates box, retry a x1\nb <- box: mutates box",
        &[
            "by hand",
            "run",
            "start",
            "a fails",
            "box settles",
            "b stops",
            "box settles",
            "start",
            "start",
        ],
        expect![[r#"
            > by hand
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              b dirty: never run
              run b #1 (reuse box new 1)
            > start
            > a fails
              a failed: no luck
              abort b
              a rolled back for a, attempt 2
              a dirty: rolled back, attempt 2
            > box settles
            > b stops
              settle box
              b aborted
              b dirty: never run
            > box settles
              run a #2 (create box new 1)
              run b #1 (reuse box new 1)
            > start
            > start
        "#]],
    );
}

#[test]
fn a_step_undone_while_its_state_is_taken_leaves_no_state() {
    check(
        "box: creates box\na <- box: mutates box\nb <- box: retry box x1",
        &[
            "by hand",
            "run",
            "start",
            "start",
            "a ok",
            "b fails",
            "box settles",
            "start",
            "start",
            "a ok",
            "box settles",
            "b ok",
        ],
        expect![[r#"
            > by hand
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              b dirty: never run
              run b #1
            > start
            > start
            > a ok
              settle box
            > b fails
              b failed: no luck
              box rolled back for b, attempt 2
              a rolled back for b, attempt 2
              b rolled back for b, attempt 2
              box deferred
              a dirty: rolled back, attempt 2
              b dirty: rolled back, attempt 2
              run b #2
            > box settles
              retire box
              run a #2 (create box new 1)
            > start
            > start
            > a ok
              settle box
            > box settles
              a finished
              store instead a (left box bf14b6)
            > b ok
              b finished
              store instead b
              finish
        "#]],
    );
}

#[test]
fn a_group_that_a_span_holds_whole_starts_over() {
    check(
        "box: creates box\na <- box: mutates box\nb <- box: mutates box, retry box x1\nc <- a,b: observes box",
        &["run", "a ok", "b fails", "a ok", "b ok", "c ok"],
        expect![[r#"
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              b dirty: never run
              run b #1 (reuse box new 1)
            > a ok
            > b fails
              settle box
              b failed: no luck
              box rolled back for b, attempt 2
              a rolled back for b, attempt 2
              b rolled back for b, attempt 2
              box deferred
              a dirty: rolled back, attempt 2
              b dirty: rolled back, attempt 2
              retire box
              run a #2 (create box new 1)
              run b #2 (reuse box new 1)
            > a ok
            > b ok
              settle box
              a finished
              b finished
              store instead a (left box new 1+a86c+a86c)
              store instead b (left box new 1+a86c+a86c)
              c dirty: never run
              run c #1 (reuse box new 1+a86c+a86c)
            > c ok
              c finished
              store c
              finish
        "#]],
    );
}

#[test]
fn a_group_is_kept_hit_and_run_again_as_one() {
    let task =
        "box: creates box\na <- box: mutates box\nb <- box: mutates box\nc <- a,b: observes box";
    let edited = task.replace("b <- box:", "b <- box: field 2,");
    let store = after(task);
    expect![[r#"
        > run
          box deferred
          a hit
          b hit
          c hit
          finish
    "#]]
    .assert_eq(&play(&store, task, &["run"]));
    expect![[r#"
        > run
          box deferred
          a dirty: a step that changes sandbox `box` at the same time is another
          run a #1 (create box new 1)
          b dirty: field `field` changed
          run b #1 (reuse box new 1)
        > a ok
        > b ok
          settle box
          a finished
          b finished
          store a (left box new 1+5a21+a86c)
          store b (left box new 1+5a21+a86c)
          c dirty: state of sandbox `box` changed
          run c #1 (reuse box new 1+5a21+a86c)
        > c ok
          c gave the same
          store c
          finish
    "#]]
    .assert_eq(&play(&store, &edited, &["run", "a ok", "b ok", "c ok"]));
}

#[test]
fn a_member_that_hit_is_called_back_when_another_must_run() {
    let task = "box: creates box\na <- box: mutates box\nk: writes k\nb <- box,k: mutates box, reads k\nc <- a";
    let store = after(task);
    let edited = task.replace("k: writes k", "k: writes k, field 2");
    expect![[r#"
        > run
          box deferred
          a hit
          k dirty: field `field` changed
          run k #1
          c hit
        > k ok
          k finished
          store k
          b dirty: metadata `k` changed
          run b #1 (create box new 1)
          a dirty: `b` must run, and both change sandbox `box` with no path between them
          run a #1 (reuse box new 1)
        > rest
          settle box
          a finished
          b finished
          store instead a (left box new 1+a86c+d9b0)
          store instead b (left box new 1+a86c+d9b0)
          c hit
          finish
    "#]]
    .assert_eq(&play(&store, &edited, &["run", "k ok", "rest"]));
}

#[test]
fn a_member_may_wait_for_another_member() {
    let task = "box: creates box\na <- box: mutates box, writes k\nb <- a: mutates box, reads k\nc <- box: mutates box";
    let store = Store::default();
    expect![[r#"
        > run
          box deferred
          a dirty: never run
          run a #1 (create box new 1)
          c dirty: never run
          run c #1 (reuse box new 1)
        > a ok
        > c ok
          settle box
          a finished
          c finished
          b dirty: never run
          run b #1 (reuse box new 1+a86c+a86c)
        > b ok
          settle box
          b finished
          store a (left box new 1+031a+a86c+a86c)
          store b (left box new 1+031a+a86c+a86c)
          store c (left box new 1+031a+a86c+a86c)
          finish
    "#]]
    .assert_eq(&play(&store, task, &["run", "a ok", "c ok", "b ok"]));
    expect![[r#"
        > run
          box deferred
          a hit
          b hit
          c hit
          finish
    "#]]
    .assert_eq(&play(&store, task, &["run"]));
}

#[test]
fn a_step_in_two_groups_is_kept_when_both_are_complete() {
    let task = "x: creates x\ny: creates y\na <- x: mutates x\nb <- x,y: mutates x, mutates y\nwait\nc <- y,wait: mutates y";
    let store = Store::default();
    expect![[r#"
        > run
          x deferred
          y deferred
          a dirty: never run
          run a #1 (create x new 1)
          b dirty: never run
          run b #1 (reuse x new 1) (create y new 1)
          wait dirty: never run
          run wait #1
        > a ok
        > b ok
          settle x
          settle y
          a finished
          b finished
        > wait ok
          wait finished
          store wait
          c dirty: never run
          run c #1 (reuse y new 1+a86c)
        > c ok
          settle y
          c finished
          store a (left x new 1+a86c+a86c)
          store b (left x new 1+a86c+a86c) (left y new 1+a86c+a86c)
          store c (left y new 1+a86c+a86c)
          finish
    "#]]
    .assert_eq(&play(
        &store,
        task,
        &["run", "a ok", "b ok", "wait ok", "c ok"],
    ));
    expect![[r#"
        > run
          x deferred
          y deferred
          a hit
          b hit
          wait hit
          c hit
          finish
    "#]]
    .assert_eq(&play(&store, task, &["run"]));
}

#[test]
fn nobody_can_tell_who_of_two_changed_a_thing() {
    check(
        "box: creates box\na <- box: may box, really\nb <- box: may box\nc <- a,b: observes box",
        &["run", "a ok", "b ok", "c ok"],
        expect![[r#"
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              b dirty: never run
              run b #1 (reuse box new 1)
            > a ok
            > b ok
              settle box
              a finished
              a not stored: sandbox `box` changed while `a`, `b` ran at the same time, so nobody can tell who did it; add `depends_on` between them
              b finished
              b not stored: sandbox `box` changed while `a`, `b` ran at the same time, so nobody can tell who did it; add `depends_on` between them
              c dirty: never run
              run c #1 (reuse box bf14b6)
            > c ok
              c finished
              store c
              finish
        "#]],
    );
}

#[test]
fn steps_that_only_might_change_a_thing_and_do_not_are_kept() {
    check(
        "box: creates box\na <- box: may box\nb <- box: observes box",
        &["run", "a ok", "b ok"],
        expect![[r#"
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              b dirty: never run
              run b #1 (reuse box new 1)
            > a ok
            > b ok
              settle box
              a finished
              store a
              b finished
              store b
              finish
        "#]],
    );
}

#[test]
fn a_step_whose_thing_is_in_use_at_another_state_waits() {
    check(
        "box: creates box\na <- box: mutates box\nb <- a: observes box\nc <- b",
        &["run", "a ok", "b ok", "c ok"],
        expect![[r#"
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
            > a ok
              settle box
              a finished
              store a (left box bf14b6)
              b dirty: never run
              run b #1 (reuse box bf14b6)
            > b ok
              b finished
              store b
              c dirty: never run
              run c #1
            > c ok
              c finished
              store c
              finish
        "#]],
    );
}

#[test]
fn a_thing_is_loaded_where_a_snapshot_is_there_and_made_again_where_not() {
    let task = "box: creates box\nload <- box: mutates box\ncheck <- load: observes box";
    let edited = format!("{task}, field 2");
    let store = after(task);
    expect![[r#"
        > run
          box deferred
          load hit
          check dirty: field `field` changed
          run check #1 (restore box bf14b6)
        > check ok
          check gave the same
          store check
          finish
    "#]]
    .assert_eq(&play(&store, &edited, &["run", "check ok"]));
    store.lose(|| false, || true);
    let edited = format!("{task}, field 3");
    expect![[r#"
        > run
          box deferred
          load dirty: the state of sandbox `box` after it was lost, and `check` needs it
          run load #1 (create box new 1)
        > load ok
          settle box
          load gave the same
          store instead load (left box bf14b6)
          check dirty: field `field` changed
          run check #1 (reuse box bf14b6)
        > check ok
          check gave the same
          store check
          finish
    "#]]
    .assert_eq(&play(&store, &edited, &["run", "load ok", "check ok"]));
}

#[test]
fn a_snapshot_that_turns_out_to_be_lost_is_made_again() {
    let task = "box: creates box\nload <- box: mutates box\ncheck <- load: observes box";
    let edited = format!("{task}, field 2");
    let store = after(task);
    store.rot();
    expect![[r#"
        > run
          box deferred
          load hit
          check dirty: field `field` changed
          run check #1 (restore box bf14b6)
          load dirty: the state of sandbox `box` after it was lost, and `check` needs it
          run load #1 (create box new 1)
        > load ok
          settle box
          load gave the same
          store instead load (left box bf14b6)
          check dirty: field `field` changed
          run check #1 (reuse box bf14b6)
        > check ok
          check gave the same
          store check
          finish
    "#]]
    .assert_eq(&play(&store, &edited, &["run", "load ok", "check ok"]));
}

#[test]
fn a_group_whose_state_is_lost_runs_again_as_one() {
    let task = "box: creates box\na <- box: mutates box\nb <- box: mutates box\ncheck <- a,b: observes box";
    let edited = format!("{task}, field 2");
    let store = after(task);
    store.rot();
    expect![[r#"
        > run
          box deferred
          a hit
          b hit
          check dirty: field `field` changed
          run check #1 (restore box new 1+a86c+a86c)
          a dirty: the state of sandbox `box` after it was lost, and `check` needs it
          run a #1 (create box new 1)
          b dirty: the state of sandbox `box` after it was lost, and `check` needs it
          run b #1 (reuse box new 1)
        > a ok
        > b ok
          settle box
          a gave the same
          b gave the same
          store instead a (left box new 1+a86c+a86c)
          store instead b (left box new 1+a86c+a86c)
          check dirty: field `field` changed
          run check #1 (reuse box new 1+a86c+a86c)
        > check ok
          check gave the same
          store check
          finish
    "#]]
    .assert_eq(&play(&store, &edited, &["run", "a ok", "b ok", "check ok"]));
}

#[test]
fn a_state_that_cannot_be_kept_is_not_made_for_ever() {
    let task = "box: creates box\nload <- box: mutates box\nedit <- load: may box, really\nwait\ncheck <- load,wait: observes box";
    let store = Store::default();
    store.forgetful.set(true);
    let text = play(
        &store,
        task,
        &[
            "run", "load ok", "edit ok", "wait ok", "rest", "rest", "rest",
        ],
    );
    expect![[r#"
        > run
          box deferred
          load dirty: never run
          run load #1 (create box new 1)
          wait dirty: never run
          run wait #1
        > load ok
          settle box
          load finished
          store load (left box bf14b6)
          edit dirty: never run
          run edit #1 (reuse box bf14b6)
        > edit ok
          settle box
          edit finished
          store edit (left box afc498)
        > wait ok
          wait finished
          store wait
          check dirty: never run
          load dirty: the state of sandbox `box` after it was lost, and `check` needs it
          run load #1 (create box new 1)
        > rest
          settle box
          load finished
          store instead load (left box bf14b6)
          edit hit
          check dirty: never run
          run check #1 (reuse box bf14b6)
          check finished
          store check
          finish
        > rest
        > rest
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_step_that_must_hit_fails_where_it_would_run() {
    check(
        "a: cached-only\nb <- a",
        &["run"],
        expect![[r#"
        > run
          a failed: it would run: never run
          b skipped
          finish
    "#]],
    );
}

#[test]
fn a_step_that_is_left_out_stops_what_waits_for_it() {
    check(
        "a: left-out\nb <- a\nc",
        &["run", "c ok"],
        expect![[r#"
        > run
          c dirty: never run
          run c #1
        > c ok
          c finished
          store c
          b skipped
          finish
    "#]],
    );
}

#[test]
fn cancel_stops_what_runs_and_forgets_what_waits() {
    check(
        "box: creates box\na <- box: mutates box\nb <- a\nc: retry c x1 100",
        &["run", "c fails", "cancel"],
        expect![[r#"
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              c dirty: never run
              run c #1
            > c fails
              c failed: no luck
              c rolled back for c, attempt 2
              wake c after 100 ms
            > cancel
              abort a
              b skipped
              c skipped
              settle box
              a aborted
              finish
        "#]],
    );
}

#[test]
fn what_ended_before_the_cancel_is_kept() {
    check(
        "box: creates box\na <- box: mutates box",
        &[
            "by hand",
            "run",
            "start",
            "a ok",
            "cancel",
            "box settles",
            "cancel",
        ],
        expect![[r#"
            > by hand
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
            > start
            > a ok
              settle box
            > cancel
            > box settles
              a finished
              store a (left box bf14b6)
              finish
            > cancel
        "#]],
    );
}

#[test]
fn a_step_that_is_called_back_too_late_counts_as_there() {
    check(
        "box: creates box\na <- box: mutates box\nb",
        &[
            "by hand",
            "run",
            "start",
            "start",
            "cancel",
            "a stops",
            "b stops",
            "box settles",
        ],
        expect![[r#"
            > by hand
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              b dirty: never run
              run b #1
            > start
            > start
            > cancel
              abort a
              abort b
            > a stops
              settle box
              a aborted
            > b stops
              b aborted
            > box settles
              finish
        "#]],
    );
}

#[test]
fn a_thing_made_anew_under_the_same_name_is_new() {
    check(
        "one: creates box\nedit <- one: mutates box\ntwo <- edit: creates box, field 2\nlook <- two: observes box",
        &["run", "edit ok", "look ok"],
        expect![[r#"
            > run
              one deferred
              edit dirty: never run
              run edit #1 (create box new 1)
            > edit ok
              settle box
              edit finished
              store edit (left box bf14b6)
              two deferred
              look dirty: never run
              run look #1 (create box new 2)
            > look ok
              look finished
              store look
              finish
        "#]],
    );
}

#[test]
fn nothing_to_do_is_done_at_once() {
    check(
        "",
        &["run"],
        expect![[r#"
        > run
          finish
    "#]],
    );
}

#[test]
fn the_forecast_of_lost_states_goes_back_to_what_can_be_made() {
    let task = "box: creates box\na <- box: mutates box\nb <- a: mutates box\nc <- b: observes box";
    let store = after(task);
    store.lose(|| false, || true);
    let edited = Task::parse(&format!("{task}, field 2"));
    let machine = Machine::new(&store, &edited, "run");
    let mut text = String::new();
    for (planned, foreseen) in machine.plan.steps.iter().zip(&machine.foreseen.steps) {
        let foreseen = match foreseen {
            Forecasted::Dirty(reasons) => reasons[0].to_string(),
            other => format!("{other:?}"),
        };
        writeln!(text, "{}: {foreseen}", planned.id).unwrap();
    }
    expect![[r#"
        box: Deferred
        a: the state of sandbox `box` after it was lost, and `b` needs it
        b: the state of sandbox `box` after it was lost, and `c` needs it
        c: field `field` changed
    "#]]
    .assert_eq(&text);
}

#[test]
fn an_outdated_step_is_called_back_with_what_waits_for_it_and_the_others_go_on() {
    check(
        "a\nb <- a\nc\nd <- c",
        &["run", "outdate a", "c ok", "d ok"],
        expect![[r#"
            > run
              a dirty: never run
              run a #1
              c dirty: never run
              run c #1
            > outdate a
              abort a
              b skipped
              a aborted
            > c ok
              c finished
              store c
              d dirty: never run
              run d #1
            > d ok
              d finished
              store d
              finish
        "#]],
    );
}

#[test]
fn an_outdated_step_that_has_not_started_does_not_disturb_the_one_before_it() {
    check(
        "prompt\nverify <- prompt",
        &["run", "outdate verify", "prompt ok"],
        expect![[r#"
            > run
              prompt dirty: never run
              run prompt #1
            > outdate verify
              verify skipped
            > prompt ok
              prompt finished
              store prompt
              finish
        "#]],
    );
}

#[test]
fn what_ended_before_it_was_outdated_is_kept_and_what_waits_for_it_does_not_run() {
    check(
        "a\nb <- a",
        &["run", "a ok", "outdate a"],
        expect![[r#"
            > run
              a dirty: never run
              run a #1
            > a ok
              a finished
              store a
              b dirty: never run
              run b #1
            > outdate a
              abort b
              b aborted
              finish
        "#]],
    );
}

#[test]
fn a_group_is_outdated_as_one() {
    check(
        "box: creates box\na <- box: mutates box\nb <- box: mutates box\nc",
        &["run", "outdate b", "c ok"],
        expect![[r#"
            > run
              box deferred
              a dirty: never run
              run a #1 (create box new 1)
              b dirty: never run
              run b #1 (reuse box new 1)
              c dirty: never run
              run c #1
            > outdate b
              abort a
              abort b
              a aborted
              settle box
              b aborted
            > c ok
              c finished
              store c
              finish
        "#]],
    );
}

#[test]
fn an_outdated_step_is_not_tried_again() {
    check(
        "a\nb <- a: retry a x2\nc",
        &["run", "a ok", "outdate a", "c ok"],
        expect![[r#"
            > run
              a dirty: never run
              run a #1
              c dirty: never run
              run c #1
            > a ok
              a finished
              store a
              b dirty: never run
              run b #1
            > outdate a
              abort b
              b aborted
            > c ok
              c finished
              store c
              finish
        "#]],
    );
}
