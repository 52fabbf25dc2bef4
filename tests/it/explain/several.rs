//! Values that differ late, and more than one cause.

use expect_test::expect;

use super::{TASK, check, story};

#[test]
fn a_change_late_in_a_long_value_is_shown_on_both_sides_with_its_place_and_what_it_costs() {
    let story = story();
    let long = "echo of many words; ".repeat(40);
    let task = TASK.replace("cp data", &format!("{long}cp data"));
    story.write("tasks/t.json", &task);
    story.run();
    story.write("tasks/t.json", task.replace("cp data", "cp -v data"));
    check(
        &story,
        "a",
        expect![[r#"
        a (verify_sandbox) of <work>/tasks/t.json
        dirty because
          field `criteria` changed (<work>/tasks/t.json:5:88)
            was [787 letters] …words; echo of many words; cp data/in.txt a.txt","type":"bash_cmd_succeeds"}]
            now [787 letters] …words; echo of many words; cp -v data/in.txt a.txt","type":"bash_cmd_succeeds"}]
        cost
          it took <time> when it last ran
          2 steps after it may run too: b, sum (<time>)
        needs
          sandbox `box` by restore
        key
          type: verify_sandbox
          version of type `verify_sandbox`: 1
          field `base_dir`: /app
          field `criteria`: [{"bash_cmd":"echo of many words; echo of many words; echo of many words; echo of many words; echo of many words; echo o…
          field `sandbox_name`: box
          field `score_aggregator`: all_pass
          field `verifier_id`: a
          isolation: none
        reads
          sandbox `box`: 8cc7bf65e6c5
          state of sandbox `box`: 3fa9cabafca6
        history
          <date> <run>: output c03d7ea5b5d3, score 1, <time>
    "#]],
    );
}

#[test]
fn of_two_changes_both_are_told_and_so_is_what_may_change_before() {
    let story = story();
    story.run();
    let task = TASK
        .replace("cp data", "cp -v data")
        .replace("\"a.txt\"", "\"a.txt\", \"a.txt\"");
    story.write("tasks/t.json", task);
    story.write("artifacts/data/in.txt", "two\n");
    check(
        &story,
        "b",
        expect![[r#"
        b (verify_sandbox) of <work>/tasks/t.json
        dirty because
          field `criteria` changed (<work>/tasks/t.json:7:85)
            was [{"paths":["a.txt"],"type":"probe_file_exists"}]
            now [{"paths":["a.txt","a.txt"],"type":"probe_file_exists"}]
          what it reads may change too: a is dirty because
            field `criteria` changed (<work>/tasks/t.json:5:88)
              was [{"bash_cmd":"cp data/in.txt a.txt","type":"bash_cmd_succeeds"}]
              now [{"bash_cmd":"cp -v data/in.txt a.txt","type":"bash_cmd_succeeds"}]
          what it reads may change too: load is dirty because
            artifact `data` file `in.txt` changed (<work>/artifacts/data/in.txt)
              was e0e63aa4c8e1
              now ef40086ad8a3
        cost
          it took <time> when it last ran
          2 steps before it run too: load, a (<time>)
          1 step after it may run too: sum (<time>)
        key
          type: verify_sandbox
          version of type `verify_sandbox`: 1
          field `base_dir`: /app
          field `criteria`: [{"paths":["a.txt","a.txt"],"type":"probe_file_exists"}]
          field `sandbox_name`: box
          field `score_aggregator`: all_pass
          field `verifier_id`: b
          isolation: none
        reads
          sandbox `box`: 8cc7bf65e6c5
          state of sandbox `box`: def2bfd5fe96
        history
          <date> <run>: output 2dc0ec7fa973, score 1, <time>
    "#]],
    );
    check(
        &story,
        "sum",
        expect![[r#"
        sum (aggregate_verifiers) of <work>/tasks/t.json
        waits for b, and runs if that gives another result
          b is dirty because
            field `criteria` changed (<work>/tasks/t.json:7:85)
              was [{"paths":["a.txt"],"type":"probe_file_exists"}]
              now [{"paths":["a.txt","a.txt"],"type":"probe_file_exists"}]
          a is dirty because
            field `criteria` changed (<work>/tasks/t.json:5:88)
              was [{"bash_cmd":"cp data/in.txt a.txt","type":"bash_cmd_succeeds"}]
              now [{"bash_cmd":"cp -v data/in.txt a.txt","type":"bash_cmd_succeeds"}]
        cost
          it took <time> when it last ran
          3 steps before it run too: load, a, b (<time>)
        key
          type: aggregate_verifiers
          version of type `aggregate_verifiers`: 1
          field `score_aggregator`: weighted_average
          field `verifier_id`: sum
          field `verifier_ids`: ["a","b"]
        reads
          verification `a`: 724113bb2846
          verification `b`: c69780ca633c
        history
          <date> <run>: output 9a9921c1cbae, score 1, <time>
    "#]],
    );
}
