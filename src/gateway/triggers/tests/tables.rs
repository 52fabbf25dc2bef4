//! What happens, line by line, and what the machine answers.

use super::*;

#[test]
fn a_call_sets_a_trigger_off_once() {
    check(
        &with(
            r#"
            register "triggers": [{"id": "sent", "when": {"type": "action", "tool": "send", "where": {"subject": {"regex": "^Re"}}}, "actions": [NOTE]}]
            call default read
            call default send {"args": {"subject": "Hello"}}
            call world send {"args": {"subject": "Re: Hello"}}
            call default send! {"args": {"subject": "Re: Hello"}}
            call default send {"args": {"subject": "Re: Hello"}}
            call default send {"args": {"subject": "Re: Again"}}
            keep
            done 0
            call default send {"args": {"subject": "Re: Hello"}}
            state
            events
        "#,
        ),
        expect![[r#"
            added sent
            call default send {"args": {"subject": "Re: Hello"}} -> 0 of sent: call note {"text":"Re: Hello"} as itself
            done 0 -> sent came to fired
            "sent" "fired", fired 1, failed 0, queued 0, next null
              {"kind":"added","trigger_id":"sent"}
              {"kind":"detected","trigger_id":"sent"}
              {"action":0,"kind":"action_ok","trigger_id":"sent"}
              {"kind":"fired","trigger_id":"sent"}
        "#]],
    );
}

#[test]
fn what_repeats_is_queued_while_it_fires() {
    check(
        &with(
            r#"
            register "triggers": [{"id": "sent", "when": {"type": "action", "tool": "send", "repeat": true}, "actions": [NOTE]}]
            call default send {"args": {"subject": "a"}}
            call default send {"args": {"subject": "b"}}
            call default send {"args": {"subject": "c"}}
            state
            keep
            done 0
            failed 1
            done 2
            call default send {"args": {}}
            state
            events
        "#,
        ),
        expect![[r#"
            added sent
            call default send {"args": {"subject": "a"}} -> 0 of sent: call note {"text":"a"} as itself
            "sent" "queued", fired 0, failed 0, queued 2, next null
            done 0 -> sent came to fired
            done 0 -> 1 of sent: call note {"text":"b"} as itself
            failed 1 -> sent came to failed
            failed 1 -> 2 of sent: call note {"text":"c"} as itself
            done 2 -> sent came to fired
            call default send {"args": {}} -> sent came to failed
            "sent" "armed", fired 2, failed 2, queued 0, next null
              {"kind":"added","trigger_id":"sent"}
              {"kind":"detected","trigger_id":"sent"}
              {"action":0,"kind":"action_ok","trigger_id":"sent"}
              {"kind":"fired","trigger_id":"sent"}
              {"kind":"detected","trigger_id":"sent"}
              {"action":0,"error":"it broke","kind":"action_failed","trigger_id":"sent"}
              {"kind":"failed","trigger_id":"sent"}
              {"kind":"detected","trigger_id":"sent"}
              {"action":0,"kind":"action_ok","trigger_id":"sent"}
              {"kind":"fired","trigger_id":"sent"}
              {"kind":"detected","trigger_id":"sent"}
              {"action":0,"error":"nothing is at `${args.subject}`","kind":"action_failed","trigger_id":"sent"}
              {"kind":"failed","trigger_id":"sent"}
        "#]],
    );
}

#[test]
fn a_state_is_looked_at_after_what_may_change_it() {
    check(
        &with(
            r#"
            register "triggers": [{"id": "full", "when": {"type": "state", "check": {"tool": "list", "predicate": {"exists": true}}}, "actions": [{"type": "tool", "tool": "note", "args": {"text": "${total}"}}]}]
            call default send
            looked full null
            call default send
            looked full {"total": 3}
            call default send
            failed 0
            state
            call default send
            looked full {}
            state
        "#,
        ),
        expect![[r#"
            added full
            call default send -> look for full
            call default send -> look for full
            looked full {"total": 3} -> 0 of full: call note {"text":3} as itself
            failed 0 -> full came to failed
            "full" "armed", fired 0, failed 1, queued 0, next null
            call default send -> look for full
            looked full {} -> full came to failed
            "full" "armed", fired 0, failed 2, queued 0, next null
        "#]],
    );
}

#[test]
fn time_triggers_fire_at_their_moments() {
    check(
        &with(
            r#"
            register "triggers": [{"id": "noon", "when": {"type": "time", "at": "2026-03-02T12:00:00Z"}, "actions": [PLAIN]}, {"id": "hourly", "when": {"type": "time", "every": "PT1H", "count": 2}, "actions": [PLAIN]}, {"id": "daily", "when": {"type": "time", "at": "PT1H", "every": "P1D", "until": "2026-03-04T00:00:00Z"}, "actions": [PLAIN]}]
            state
            clock 2026-03-02T09:00:00Z
            state
            keep
            after PT1H
            done 0
            done 1
            after PT2H
            done 2
            done 3
            failed 4
            state
            after P7D
            done 5
            state
        "#,
        ),
        expect![[r#"
            added noon, hourly, daily
            "noon" "armed", fired 0, failed 0, queued 0, next null
            "hourly" "armed", fired 0, failed 0, queued 0, next null
            "daily" "armed", fired 0, failed 0, queued 0, next null
            "noon" "armed", fired 0, failed 0, queued 0, next "2026-03-02T12:00:00Z"
            "hourly" "armed", fired 0, failed 0, queued 0, next "2026-03-02T10:00:00Z"
            "daily" "armed", fired 0, failed 0, queued 0, next "2026-03-02T10:00:00Z"
            after PT1H -> 0 of hourly: call note {} as itself
            after PT1H -> 1 of daily: call note {} as itself
            done 0 -> hourly came to fired
            done 1 -> daily came to fired
            after PT2H -> 2 of hourly: call note {} as itself
            after PT2H -> 3 of noon: call note {} as itself
            done 2 -> hourly came to fired
            done 3 -> noon came to fired
            "noon" "fired", fired 1, failed 0, queued 0, next null
            "hourly" "fired", fired 2, failed 0, queued 0, next null
            "daily" "armed", fired 1, failed 0, queued 0, next "2026-03-03T10:00:00Z"
            after P7D -> 4 of daily: call note {} as itself
            "noon" "fired", fired 1, failed 0, queued 0, next null
            "hourly" "fired", fired 2, failed 0, queued 0, next null
            "daily" "firing", fired 1, failed 0, queued 0, next null
        "#]],
    );
}

#[test]
fn a_deadline_is_called_off_or_passes() {
    let deadline = |unless: &str| {
        with(&format!(
            r#"
            register "triggers": [{{"id": "asked", "when": {{"type": "action", "tool": "ask"}}, "actions": [PLAIN]}}, {{"id": "late", "when": {{"type": "time", "after": "asked", "offset": "PT2H", "unless": {{"tool": "{unless}"}}}}, "actions": [PLAIN]}}]
            clock 2026-03-02T09:00:00Z
            call default reply
            call default ask
            done 0
            state
            after PT1H
            call default reply
            after PT2H
            state
            events
        "#
        ))
    };
    check(
        &deadline("reply"),
        expect![[r#"
        added asked, late
        call default ask -> 0 of asked: call note {} as itself
        done 0 -> asked came to fired
        "asked" "fired", fired 1, failed 0, queued 0, next null
        "late" "armed", fired 0, failed 0, queued 0, next "2026-03-02T11:00:00Z"
        call default reply -> late came to cancelled
        "asked" "fired", fired 1, failed 0, queued 0, next null
        "late" "cancelled", fired 0, failed 0, queued 0, next null
          {"kind":"added","trigger_id":"asked"}
          {"kind":"added","trigger_id":"late"}
          {"kind":"detected","trigger_id":"asked","virtual_time":"2026-03-02T09:00:00Z"}
          {"action":0,"kind":"action_ok","trigger_id":"asked","virtual_time":"2026-03-02T09:00:00Z"}
          {"kind":"fired","trigger_id":"asked","virtual_time":"2026-03-02T09:00:00Z"}
          {"kind":"anchored","next_mark":"2026-03-02T11:00:00Z","trigger_id":"late","virtual_time":"2026-03-02T09:00:00Z"}
          {"by":"reply","kind":"cancelled","trigger_id":"late","virtual_time":"2026-03-02T10:00:00Z"}
    "#]],
    );
    check(
        &deadline("other"),
        expect![[r#"
        added asked, late
        call default ask -> 0 of asked: call note {} as itself
        done 0 -> asked came to fired
        "asked" "fired", fired 1, failed 0, queued 0, next null
        "late" "armed", fired 0, failed 0, queued 0, next "2026-03-02T11:00:00Z"
        after PT2H -> 1 of late: call note {} as itself
        "asked" "fired", fired 1, failed 0, queued 0, next null
        "late" "firing", fired 0, failed 0, queued 0, next null
          {"kind":"added","trigger_id":"asked"}
          {"kind":"added","trigger_id":"late"}
          {"kind":"detected","trigger_id":"asked","virtual_time":"2026-03-02T09:00:00Z"}
          {"action":0,"kind":"action_ok","trigger_id":"asked","virtual_time":"2026-03-02T09:00:00Z"}
          {"kind":"fired","trigger_id":"asked","virtual_time":"2026-03-02T09:00:00Z"}
          {"kind":"anchored","next_mark":"2026-03-02T11:00:00Z","trigger_id":"late","virtual_time":"2026-03-02T09:00:00Z"}
          {"kind":"detected","trigger_id":"late","virtual_time":"2026-03-02T12:00:00Z"}
    "#]],
    );
}

#[test]
fn an_action_waits_for_its_delay_and_for_office_hours() {
    check(
        &with(
            r#"
            register "executor": {"agent": "sam", "role": "world", "hours": {"start": "09:00", "end": "17:00", "days": ["mon", "tue"]}}, "triggers": [{"id": "sent", "when": {"type": "action", "tool": "send"}, "actions": [{"type": "nl", "instruction": "Answer.", "delay": "PT9H"}, PLAIN]}]
            call default send
            clock 2026-03-02T09:00:00Z
            keep
            after PT9H
            after PT14H
            after PT1H
            keep
            done 0
            done 0
            state
            events
        "#,
        ),
        expect![[r#"
            added sent
            after PT1H -> 0 of sent: tell sam: Answer.
            done 0 -> 0 of sent: call note {} as itself
            done 0 -> sent came to fired
            "sent" "fired", fired 1, failed 0, queued 0, next null
              {"kind":"added","trigger_id":"sent"}
              {"kind":"detected","trigger_id":"sent"}
              {"action":0,"kind":"delayed","trigger_id":"sent","until":null}
              {"action":0,"kind":"deferred","trigger_id":"sent","until":"2026-03-03T09:00:00Z","virtual_time":"2026-03-02T18:00:00Z"}
              {"action":0,"kind":"action_ok","trigger_id":"sent","virtual_time":"2026-03-03T09:00:00Z"}
              {"action":1,"kind":"action_ok","trigger_id":"sent","virtual_time":"2026-03-03T09:00:00Z"}
              {"kind":"fired","trigger_id":"sent","virtual_time":"2026-03-03T09:00:00Z"}
        "#]],
    );
}

#[test]
fn who_was_told_is_told_once_more() {
    check(
        &with(
            r#"
            register "executors": {"sam": {"agent": "sam", "role": "world"}}, "triggers": [{"id": "sent", "when": {"type": "action", "tool": "send"}, "actions": [{"type": "nl", "executor": "sam", "instruction": "Answer.", "verify": {"tool": "list", "predicate": {"exists": true}}}]}, {"id": "shut", "when": {"type": "action", "tool": "send"}, "actions": [{"type": "permission", "action": "disable", "role": "default", "tools": ["send"], "verify": {"tool": "list", "predicate": {"exists": true}}}]}]
            call default send {"args": {"a": 1}}
            done 0
            not 0
            keep
            done 0
            not 0
            done 1
            not 1
            state
            call default send {"args": {}}
            done 2
            holds 2
            state
        "#,
        ),
        expect![[r#"
            added sent, shut
            call default send {"args": {"a": 1}} -> 0 of sent: tell sam: Answer.
            call default send {"args": {"a": 1}} -> 1 of shut: permit false default ["send"]
            done 0 -> verify 0 {"args":{"a":1}}
            not 0 -> 0 of sent: tell sam: What was asked is not done yet: the state of the env does not show it. It was: Answer.
            done 0 -> verify 0 {"args":{"a":1}}
            not 0 -> sent came to failed
            done 1 -> verify 1 {"args":{"a":1}}
            not 1 -> shut came to failed
            "sent" "armed", fired 0, failed 1, queued 0, next null
            "shut" "armed", fired 0, failed 1, queued 0, next null
            call default send {"args": {}} -> 2 of sent: tell sam: Answer.
            call default send {"args": {}} -> 3 of shut: permit false default ["send"]
            done 2 -> verify 2 {"args":{}}
            holds 2 -> sent came to fired
            "sent" "fired", fired 1, failed 1, queued 0, next null
            "shut" "firing", fired 0, failed 1, queued 0, next null
        "#]],
    );
}

#[test]
fn registering_again_is_nothing_and_another_is_refused() {
    check(
        &with(
            r#"
            register "triggers": [{"id": "a", "when": {"type": "action", "tool": "send"}, "actions": [PLAIN]}]
            register "triggers": [{"id": "a", "when": {"type": "action", "tool": "send"}, "actions": [PLAIN]}, {"id": "b", "when": {"type": "action", "tool": "read"}, "actions": [PLAIN]}]
            register "triggers": [{"id": "a", "when": {"type": "action", "tool": "read"}, "actions": [PLAIN]}]
            register "watch_roles": ["default", "user"], "triggers": []
            register "watch_roles": ["default"], "triggers": []
            register "executor": {"agent": "sam", "role": "user"}, "triggers": []
            register "triggers": [{"id": "c", "when": {"type": "action", "tool": "x"}, "actions": [{"type": "nl", "instruction": "Go."}]}]
            register "triggers": [{"id": "c", "when": {"type": "time", "after": "z", "offset": "PT1H"}, "actions": [PLAIN]}]
            call user send
            remove a
            remove a
            done 0
            call user read
            state
        "#,
        ),
        expect![[r#"
            added a
            added b
            refused: trigger `a` is registered already, and is another one
            added 
            refused: `watch_roles` is ["default", "user"] already, and can't become ["default"]
            refused: role `user` of executor `sam` is watched, so what it does would set triggers off; give it a role of its own
            refused: trigger `c` needs an executor, which is not registered
            refused: trigger `c` waits for trigger `z`, which is not registered
            call user send -> 0 of a: call note {} as itself
            removed ["a"]
            removed []
            call user read -> 1 of b: call note {} as itself
            "b" "firing", fired 0, failed 0, queued 0, next null
        "#]],
    );
}

#[test]
fn roles_of_a_trigger_count_more_than_those_that_are_watched() {
    check(
        &with(
            r#"
            register "triggers": [{"id": "a", "when": {"type": "action", "tool": "send", "roles": ["world"]}, "actions": [NOTE]}]
            call default send {"args": {"subject": "x"}}
            call world send {"args": {}}
            state
            events
        "#,
        ),
        expect![[r#"
            added a
            call world send {"args": {}} -> a came to failed
            "a" "armed", fired 0, failed 1, queued 0, next null
              {"kind":"added","trigger_id":"a"}
              {"kind":"detected","trigger_id":"a"}
              {"action":0,"error":"nothing is at `${args.subject}`","kind":"action_failed","trigger_id":"a"}
              {"kind":"failed","trigger_id":"a"}
        "#]],
    );
}

#[test]
fn a_trigger_that_waits_for_one_that_has_fired_counts_from_there() {
    check(
        &with(
            r#"
            register "triggers": [{"id": "a", "when": {"type": "action", "tool": "send"}, "actions": [PLAIN]}, {"id": "b", "when": {"type": "time", "after": "a", "offset": "PT1H"}, "actions": [PLAIN]}]
            call default send
            done 0
            clock 2026-03-02T09:00:00Z
            register "triggers": [{"id": "c", "when": {"type": "time", "after": "a", "offset": "PT2H"}, "actions": [PLAIN]}]
            state
            after PT1H
            done 1
            clock 2026-03-09T09:00:00Z
            state
            register "triggers": [{"id": "d", "when": {"type": "time", "after": "b", "offset": "PT0S"}, "actions": [PLAIN]}]
            state
        "#,
        ),
        expect![[r#"
            added a, b
            call default send -> 0 of a: call note {} as itself
            done 0 -> a came to fired
            added c
            "a" "fired", fired 1, failed 0, queued 0, next null
            "b" "armed", fired 0, failed 0, queued 0, next "2026-03-02T10:00:00Z"
            "c" "armed", fired 0, failed 0, queued 0, next "2026-03-02T11:00:00Z"
            after PT1H -> 1 of b: call note {} as itself
            done 1 -> b came to fired
            clock 2026-03-09T09:00:00Z -> 2 of c: call note {} as itself
            "a" "fired", fired 1, failed 0, queued 0, next null
            "b" "fired", fired 1, failed 0, queued 0, next null
            "c" "firing", fired 0, failed 0, queued 0, next null
            added d
            register "triggers": [{"id": "d", "when": {"type": "time", "after": "b", "offset": "PT0S"}, "actions": [{"type": "tool", "tool": "note", "args": {}}]}] -> 3 of d: call note {} as itself
            "a" "fired", fired 1, failed 0, queued 0, next null
            "b" "fired", fired 1, failed 0, queued 0, next null
            "c" "firing", fired 0, failed 0, queued 0, next null
            "d" "firing", fired 0, failed 0, queued 0, next null
        "#]],
    );
}

#[test]
fn a_burst_of_moments_ends() {
    let script = with(
        r#"
        register "triggers": [{"id": "a", "when": {"type": "time", "every": "PT1S"}, "actions": [PLAIN]}]
        clock 2026-03-02T09:00:00Z
        after P7D
        state
    "#,
    );
    expect![[r#"
        added a
        after P7D -> 0 of a: call note {} as itself
        "a" "queued", fired 0, failed 0, queued 999, next "2026-03-02T09:16:41Z"
    "#]]
    .assert_eq(&told(&script));
}
