use expect_test::{Expect, expect};

use super::*;
use crate::json::json;

fn check(triggers: Value, expect: Expect) {
    let shown = match read_triggers(&triggers) {
        Ok(triggers) => triggers
            .iter()
            .map(|trigger| {
                format!(
                    "{} {}, {} actions\n",
                    trigger.id,
                    trigger.when.kind(),
                    trigger.actions.len()
                )
            })
            .collect(),
        Err(faults) => shown(&faults),
    };
    expect.assert_eq(&shown);
}

fn shown(faults: &[Fault]) -> String {
    let line = |fault: &Fault| {
        let help = fault.help.as_ref().map(|help| format!(" ({help})"));
        format!(
            "{} {}: {}{}\n",
            fault.code,
            fault.field,
            fault.headline,
            help.unwrap_or_default()
        )
    };
    faults.iter().map(line).collect()
}

#[test]
fn triggers_are_read() {
    let tool = json!({"type": "tool", "tool": "receive_email", "args": {"subject": "Re: ${args.subject}"}, "delay": "PT1H"});
    let nl = json!({"type": "nl", "instruction": "Complain.", "executor": "sam", "delay": {"dist": "exp", "mean": "PT1H", "seed": 7}});
    let permit = json!({"type": "permission", "action": "disable", "role": "default", "tools": "*", "verify": {"tool": "list_emails", "extract": "total", "predicate": {"equals": 0}}});
    let state = json!({"type": "state", "check": {"steps": [
        {"tool": "search_emails", "args": {"query": "x"}, "extract": {"path": "emails", "match": {"sender": {"regex": "dana"}}, "take": "email_id"}, "bind": "id"},
        {"tool": "get_email_by_id", "args": {"email_id": "${id}"}, "predicate": {"exists": true}},
    ]}});
    check(
        json!([
            {"id": "sent", "when": {"type": "action", "tool": "send_email", "where": {"subject": {"exists": true}, "result.email_id": {"regex": "^e"}}, "repeat": true}, "actions": [tool]},
            {"when": state, "actions": [nl, permit]},
            {"id": "late", "when": {"type": "time", "after": "sent", "offset": "PT2H", "unless": {"tool": "reply_to_email"}}, "actions": [permit]},
            {"id": "tick", "when": {"type": "time", "at": "P1D", "every": "PT1H", "count": 3, "until": "2026-03-07T00:00:00Z"}, "actions": [nl]},
        ]),
        expect![[r#"
            sent action, 1 actions
            trg_2d9e5d00494d state, 2 actions
            late time, 1 actions
            tick time, 1 actions
        "#]],
    );
}

#[test]
fn every_fault_is_found_at_its_place() {
    check(
        json!([
            7,
            {"id": "", "wehn": 1},
            {"when": {"type": "action", "where": {"a[": {"regex": "("}, "b": {"regex": "x", "exists": true}}}, "actions": []},
            {"when": {"type": "website", "app": "shop"}, "actions": [{"type": "mail"}]},
            {"when": {"type": "time", "at": "soon", "after": "x", "count": 0, "offset": "1h"}, "actions": [{"type": "tool", "tool": "t", "args": {"x": "${"}, "delay": "PT0S"}], "barrier": {"at": "once"}},
            {"when": {"type": "time"}, "actions": [{"type": "permission", "action": "drop", "tools": []}]},
            {"when": {"type": "state", "check": {"steps": []}}, "actions": [{"type": "nl"}]},
            {"when": {"type": "time", "every": {"dist": "norm", "mean": "PT1H"}, "unless": {"tool": "t"}}, "actions": [{"type": "tool", "tool": "t"}]},
        ]),
        expect![[r#"
            wrong-type /triggers/0: this is a number, not an object (write it in `{` and `}`)
            unknown-field /triggers/1/wehn: `wehn` means nothing here (did you mean `when`?)
            wrong-length /triggers/1/id: `id` is empty (write at least 1 character)
            missing-field /triggers/2/when: `when` has no `tool` (add "tool")
            wrong-pattern /triggers/2/when/where/a[: `args.a[` is no path like `emails[0].sender`
            bad-pattern /triggers/2/when/where/a[/regex: `(` is no regular expression: Parsing error at position 1: Opening parenthesis without closing parenthesis
            conflicting-fields /triggers/2/when/where/b: the predicate has both `regex` and `exists` (keep one of them)
            wrong-length /triggers/2/actions: `actions` is empty (say what the trigger does)
            not-supported-yet /triggers/3/when/type: websites are not served in this release, so none can set a trigger off (watch a tool with "type": "action")
            unknown-value /triggers/3/actions/0/type: `type` can't be `mail` (write one of `nl`, `tool`, `permission`)
            conflicting-fields /triggers/4/when/after: `when` has both `at` and `after`, but starts at one of them
            conflicting-fields /triggers/4/when/count: `count` needs `every`: without it the trigger fires once
            wrong-pattern /triggers/4/when/offset: `1h` is no length of time like `P2DT3H` or `PT30M` (weeks, days, hours, minutes and seconds) (write a length such as "PT30M" or "P1D")
            wrong-type /triggers/4/when/count: `count` is a number, not a whole number from 1 on
            out-of-range /triggers/4/actions/0/delay: `PT0S` is no time at all (write a length such as "PT30M" or "P1D")
            wrong-pattern /triggers/4/actions/0/args/x: `${` has no `}`
            unknown-value /triggers/4/barrier/at: `at` can't be `once` (write one of `provoking_call`)
            missing-field /triggers/5/when: nothing says when it is time (add "at", "after" with "offset", or "every")
            unknown-value /triggers/5/actions/0/action: `action` can't be `drop` (write one of `enable`, `disable`)
            missing-field /triggers/5/actions/0: the action has no `role` (add "role")
            wrong-length /triggers/5/actions/0/tools: `tools` is empty (name at least one)
            wrong-length /triggers/6/when/check: the check has no steps (add a step)
            missing-field /triggers/6/actions/0: the action has no `instruction` (add "instruction")
            conflicting-fields /triggers/7/when/unless: `unless` calls a single moment off, and `every` makes many
            unknown-value /triggers/7/when/every/dist: `dist` can't be `norm` (write one of `exp`)
            missing-field /triggers/7/when/every: the distribution has no `seed` (add "seed")
        "#]],
    );
    check(
        json!([
            {"id": "a", "when": {"type": "action", "tool": "t"}, "actions": [{"type": "tool", "tool": "t"}]},
            {"id": "a", "when": {"type": "action", "tool": "t"}, "actions": [{"type": "tool", "tool": "t", "delay": "PT1S"}], "barrier": {"at": "provoking_call", "timeout_seconds": 2}},
        ]),
        expect![[r#"
            conflicting-fields /triggers/1/barrier: the call would wait for a `delay`, which may be long (delete `barrier` or `delay`)
        "#]],
    );
    check(
        json!({}),
        expect![[r#"
        wrong-type /triggers: `triggers` is an object, not a list (write it in `[` and `]`)
    "#]],
    );
}

#[test]
fn an_executor_is_an_agent_with_a_role() {
    let read = |value: Value| match read_registration(&value) {
        Ok(registration) => format!(
            "{:?} {:?}",
            registration.watch_roles,
            registration.executors.keys()
        ),
        Err(faults) => shown(&faults),
    };
    let hours =
        json!({"start": "09:00", "end": "17:00", "time_zone": "Europe/Berlin", "days": ["mon"]});
    let sam = json!({"agent": "sam", "role": "world", "hours": hours});
    expect![[r#"Some(["default"]) ["sam"]"#]].assert_eq(&read(
        json!({"watch_roles": ["default"], "executors": {"sam": sam}, "triggers": []}),
    ));
    let hours = json!({"start": "9", "end": "17:00", "utc_offset": "2", "days": ["monday"]});
    expect![[r#"
        wrong-length /watch_roles: `watch_roles` is empty (name at least one)
        not-supported-yet /executor/a2a_url: an executor is an agent of the task, not one at an address (write "agent" with the name of the agent)
        missing-field /executors/sam: the executor has no `role` (add "role")
        wrong-pattern /executors/sam/hours/utc_offset: `2` is no offset like `+02:00`
        unknown-value /executors/sam/hours/days: `monday` is no day (write some of `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`)
        missing-field : the registration has no `triggers` (add "triggers")
    "#]].assert_eq(&read(json!({
        "watch_roles": [],
        "executor": {"a2a_url": "http://x", "role": "world"},
        "executors": {"sam": {"agent": "sam", "hours": hours}},
    })));
}
