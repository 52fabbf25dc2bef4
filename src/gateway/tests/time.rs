//! How time passes, and what happens meanwhile.

use super::*;

#[test]
fn mail_comes_while_an_agent_waits() {
    run(async {
        let world = World::new(ClockMode::Event);
        let triggers = json!([
            {"id": "tuesday", "when": {"type": "time", "at": "2026-03-03T08:30:00Z"}, "actions": [mail("Tuesday")]},
            {"id": "daily", "when": {"type": "time", "every": "P1D", "count": 2}, "actions": [mail("Daily")]},
            {"id": "answer", "when": {"type": "action", "tool": "reply_to_email"}, "actions": [
                {"type": "tool", "tool": "receive_email", "delay": "PT2H", "args": {
                    "sender": "dana@example.com", "subject": "Thanks", "content": "You wrote: ${args.content}", "parent_id": "${args.email_id}"}},
            ]},
            {"id": "late", "when": {"type": "time", "after": "tuesday", "offset": "P1D", "unless": {"tool": "reply_to_email"}}, "actions": [mail("Late!")]},
        ]);
        assert_eq!(
            world.register(json!({"triggers": triggers})).await,
            "tuesday daily answer late"
        );
        assert_eq!(
            world.say("get_time", json!({})).await,
            json!("env `mail` answered tools/call with error -32602: there is no tool `get_time`")
        );
        world.monday(3600.0).await;
        let zone = json!({"time_zone": "Europe/Berlin"});
        check(
            world.say("get_time", zone).await.to_string(),
            expect![[
                r#"{"current_time":"2026-03-02T09:00:00Z","local_time":"2026-03-02T10:00:00+01:00","time_zone":"Europe/Berlin"}"#
            ]],
        );
        check(world.subjects().await, expect![[""]]);
        check(
            world
                .say("wait_until", json!({"duration": "P1D"}))
                .await
                .to_string(),
            expect![[r#"{"current_time":"2026-03-03T09:00:00Z"}"#]],
        );
        check(
            world.subjects().await,
            expect![[r#"
            2026-03-03T09:00:00Z "Daily" from "dana@example.com"
            2026-03-03T08:30:00Z "Tuesday" from "dana@example.com"
        "#]],
        );
        world
            .say(
                "reply_to_email",
                json!({"email_id": "email-1", "content": "Fine."}),
            )
            .await;
        check(
            world.statuses(),
            expect![[r#"
            "tuesday" "fired"
            "daily" "armed"
            "answer" "firing"
            "late" "cancelled"
        "#]],
        );
        let settled = world.env.settle().await;
        check(
            settled["statuses"].to_string(),
            expect![[r#"{"answer":"fired","daily":"armed","late":"cancelled","tuesday":"fired"}"#]],
        );
        world
            .say("wait_until", json!({"time": "2026-03-06T17:00:00Z"}))
            .await;
        check(
            world.subjects().await,
            expect![[r#"
            2026-03-04T09:00:00Z "Daily" from "dana@example.com"
            2026-03-03T11:00:00Z "Thanks" from "dana@example.com"
            2026-03-03T09:00:00Z "Daily" from "dana@example.com"
            2026-03-03T08:30:00Z "Tuesday" from "dana@example.com"
        "#]],
        );
        check(
            world.statuses(),
            expect![[r#"
            "tuesday" "fired"
            "daily" "fired"
            "answer" "fired"
            "late" "cancelled"
        "#]],
        );
        check(
            world.record(),
            expect![[r#"
                triggers register role="default"
                tool get_time role="default"
                clock set role="default" virtual_time="2026-03-02T09:00:00Z"
                clock get_time role="default" virtual_time="2026-03-02T09:00:00Z"
                tool list_emails role="default" virtual_time="2026-03-02T09:00:00Z"
                tool receive_email role="trigger" caused_by="tuesday" virtual_time="2026-03-03T08:30:00Z"
                trigger_fired tuesday role="trigger" caused_by="tuesday" virtual_time="2026-03-03T08:30:00Z"
                tool receive_email role="trigger" caused_by="daily" virtual_time="2026-03-03T09:00:00Z"
                trigger_fired daily role="trigger" caused_by="daily" virtual_time="2026-03-03T09:00:00Z"
                clock wait_until role="default" virtual_time="2026-03-03T09:00:00Z"
                tool list_emails role="default" virtual_time="2026-03-03T09:00:00Z"
                tool reply_to_email role="default" virtual_time="2026-03-03T09:00:00Z"
                trigger late role="trigger" caused_by="late" virtual_time="2026-03-03T09:00:00Z"
                tool receive_email role="trigger" caused_by="answer" virtual_time="2026-03-03T11:00:00Z"
                trigger_fired answer role="trigger" caused_by="answer" virtual_time="2026-03-03T11:00:00Z"
                clock pass_to role="default" virtual_time="2026-03-03T11:00:00Z"
                tool receive_email role="trigger" caused_by="daily" virtual_time="2026-03-04T09:00:00Z"
                trigger_fired daily role="trigger" caused_by="daily" virtual_time="2026-03-04T09:00:00Z"
                clock wait_until role="default" virtual_time="2026-03-06T17:00:00Z"
                tool list_emails role="default" virtual_time="2026-03-06T17:00:00Z"
            "#]],
        );
        for bad in [
            json!({}),
            json!({"time": "soon"}),
            json!({"duration": 1}),
            json!({"time": "2026-03-06T17:00:00Z", "duration": "P1D"}),
        ] {
            let answer = world.say("wait_until", bad).await;
            assert!(answer.is_string(), "{answer}");
        }
    });
}

#[test]
fn a_deadline_passes_where_nobody_answers() {
    run(async {
        let world = World::new(ClockMode::Event);
        let permission = json!({"type": "permission", "action": "disable", "role": "default", "tools": ["send_email"]});
        let late = json!({"id": "late", "when": {"type": "time", "at": "PT8H", "unless": {"tool": "send_email"}}, "actions": [permission]});
        world.monday(1.0).await;
        world.register(json!({"triggers": [late]})).await;
        world.say("wait_until", json!({"duration": "PT9H"})).await;
        check(
            world.statuses(),
            expect![[r#"
            "late" "fired"
        "#]],
        );
        let sent = json!({"recipients": ["dana@example.com"], "subject": "x", "content": "y"});
        check(
            world.say("send_email", sent).await.to_string(),
            expect![[r#""role `default` may not use tool `send_email` of env `mail`""#]],
        );
    });
}

#[test]
fn steps_that_work_at_once_wait_for_each_other() {
    run(async {
        let world = World::new(ClockMode::Event);
        world.monday(1.0).await;
        let (one, other) = (world.of_step("one"), world.of_step("other"));
        // The step `week` neither waits nor ends, so time would stand still.
        let World {
            gate,
            env,
            gateway: _gateway,
            _folder,
        } = world;
        let seen = Mutex::new(Vec::new());
        let wait = async |env: &EnvHandle, name: &str, hours: &[&str]| {
            for hour in hours {
                let time = json!({"time": format!("2026-03-02T{hour}:00:00Z")});
                let told = say(env, "wait_until", time).await;
                locked(&seen).push(format!("{name} {}", told["current_time"]));
            }
        };
        let first = async {
            wait(&one, "one", &["12", "18"]).await;
            drop(one);
        };
        let second = async {
            wait(&other, "other", &["10", "13", "20"]).await;
        };
        let third = async {
            tokio::task::yield_now().await;
            assert!(locked(&seen).is_empty(), "nothing moves while one works");
            drop(env);
        };
        // Dropping a handle that was moved into a block is what ends its step.
        tokio::join!(first, second, third);
        check(
            locked(&seen).join("\n"),
            expect![[r#"
            other "2026-03-02T10:00:00Z"
            one "2026-03-02T12:00:00Z"
            other "2026-03-02T13:00:00Z"
            one "2026-03-02T18:00:00Z"
            other "2026-03-02T20:00:00Z""#]],
        );
        assert_eq!(gate.clock_state()["virtual_time"], "2026-03-02T20:00:00Z");
    });
}

#[test]
fn in_real_time_triggers_fire_beside_the_calls() {
    run(async {
        let world = World::new(ClockMode::Real);
        let triggers = json!([
            {"id": "soon", "when": {"type": "time", "at": "PT1H"}, "actions": [mail("Soon")]},
            {"id": "sent", "when": {"type": "action", "tool": "send_email"}, "barrier": {"at": "provoking_call"}, "actions": [mail("Got it")]},
            {"id": "slow", "when": {"type": "action", "tool": "send_email"}, "actions": [{"type": "tool", "tool": "receive_email", "delay": "PT2H", "args": {"sender": "sam@example.com", "subject": "Slow", "content": "."}}]},
        ]);
        world.register(json!({"triggers": triggers})).await;
        world.monday(86_400.0).await;
        let awaited = world.env.await_fired(&["soon".to_owned()]).await;
        assert_eq!(awaited, Ok(json!({"soon": "fired"})));
        world
            .say(
                "send_email",
                json!({"recipients": ["a@b"], "subject": "x", "content": "y"}),
            )
            .await;
        assert!(
            world.subjects().await.contains("Got it"),
            "the call waits for its trigger"
        );
        let settled = world.env.settle().await;
        assert_eq!(
            settled["statuses"],
            json!({"soon": "fired", "sent": "fired", "slow": "fired"})
        );
        assert_eq!(settled["capture_is_final"], true);
        let before = world.gate.clock_state()["virtual_time"].clone();
        let told = world.say("wait_until", json!({"duration": "PT2H"})).await;
        assert!(told["current_time"].as_str() > before.as_str(), "{told}");
        let far = world.say("wait_until", json!({"duration": "P90D"})).await;
        let why = " s of real time, and a call may take 20 s";
        assert!(far.as_str().unwrap().ends_with(why), "{far}");
        // Between steps time stands still, so that the state that is taken is the state that is left.
        let World {
            gate,
            env,
            gateway: _gateway,
            _folder,
        } = world;
        drop(env);
        gate.idle().await;
        assert_eq!(gate.snapshot().await, gate.snapshot().await);
    });
}

#[test]
fn what_can_fire_no_more_is_not_awaited() {
    run(async {
        let world = World::new(ClockMode::Event);
        let wrong = json!({"type": "tool", "tool": "move_email", "args": {"email_id": "none", "folder": "x"}});
        let triggers = json!([
            {"id": "never", "when": {"type": "action", "tool": "send_email"}, "actions": [mail("x")]},
            {"id": "noon", "when": {"type": "time", "at": "PT3H"}, "actions": [mail("Noon")]},
            {"id": "wrong", "when": {"type": "time", "at": "PT4H"}, "actions": [wrong]},
        ]);
        world.register(json!({"triggers": triggers})).await;
        world.monday(1.0).await;
        let fired = async |id: &str| world.env.await_fired(&[id.to_owned()]).await;
        assert_eq!(fired("noon").await, Ok(json!({"noon": "fired"})));
        check(
            fired("never").await.unwrap_err(),
            expect![[r#"not all triggers can fire any more: {"never":"armed"}"#]],
        );
        check(
            fired("wrong").await.unwrap_err(),
            expect![[
                r#"not all triggers can fire any more: {"wrong":"failed"}; {"action":0,"error":"`move_email`: \"there is no email `none`\"","kind":"action_failed","trigger_id":"wrong","virtual_time":"2026-03-02T13:00:00Z"}"#
            ]],
        );
        check(
            fired("other").await.unwrap_err(),
            expect![[r#"not all triggers can fire any more: {"other":null}"#]],
        );
    });
}
