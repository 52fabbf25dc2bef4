//! What triggers do, how they come back, and what is refused.

use super::*;

/// An agent that answers every instruction by a call, or cannot.
struct Sam {
    env: Arc<dyn LiveEnv>,
    told: Mutex<Vec<String>>,
}

impl Executor for Sam {
    fn instruct<'a>(
        &'a self,
        trigger: &'a str,
        text: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            locked(&self.told).push(format!("{trigger}, {} s: {text}", limit.as_secs()));
            if text.contains("nothing") {
                return Ok(());
            }
            let waited = say(&*self.env, "wait_until", json!({"duration": "PT1H"})).await;
            locked(&self.told).push(waited.to_string());
            let arguments =
                json!({"sender": "sam@example.com", "subject": "From Sam", "content": "."});
            match say(&*self.env, "receive_email", arguments).await {
                Value::String(why) => Err(why),
                _ => Ok(()),
            }
        })
    }
}

#[test]
fn a_snapshot_holds_the_triggers_and_the_clock() {
    run(async {
        let world = World::new(ClockMode::Event);
        let triggers = json!([
            {"id": "sent", "when": {"type": "action", "tool": "send_email"}, "actions": [mail("Got it")]},
            {"id": "later", "when": {"type": "time", "every": "PT1H"}, "actions": [mail("Later")]},
            {"id": "slow", "when": {"type": "action", "tool": "send_email"}, "actions": [{"type": "tool", "tool": "receive_email", "delay": "P1D", "args": {"sender": "sam@example.com", "subject": "Slow", "content": "."}}]},
        ]);
        let bare = world.gate.snapshot().await.unwrap();
        world.register(json!({"triggers": triggers})).await;
        world.monday(1.0).await;
        let sent = json!({"recipients": ["dana@example.com"], "subject": "x", "content": "y"});
        world.say("send_email", sent).await;
        world.say("wait_until", json!({"duration": "PT90M"})).await;
        let kept = world.gate.snapshot().await.unwrap();
        assert_eq!(kept, world.gate.snapshot().await.unwrap());
        let other = World::new(ClockMode::Event);
        other.gate.restore(&kept).await.unwrap();
        assert_eq!(
            other.gate.snapshot().await.unwrap(),
            kept,
            "the same state is the same bytes"
        );
        for world in [&world, &other] {
            world
                .say("wait_until", json!({"time": "2026-03-03T09:00:00Z"}))
                .await;
        }
        assert_eq!(other.statuses(), world.statuses());
        assert_eq!(other.subjects().await, world.subjects().await);
        check(
            other.statuses(),
            expect![[r#"
            "sent" "fired"
            "later" "armed"
            "slow" "fired"
        "#]],
        );
        assert_eq!(
            world.gate.snapshot().await.unwrap(),
            other.gate.snapshot().await.unwrap()
        );
        other.gate.restore(&bare).await.unwrap();
        assert_eq!(other.statuses(), "");
        assert_eq!(other.gate.snapshot().await.unwrap(), bare);
    });
}

#[test]
fn recorded_calls_bring_triggers_back_without_firing_them_again() {
    run(async {
        let world = World::new(ClockMode::Event);
        let triggers = json!([{"id": "sent", "when": {"type": "action", "tool": "send_email", "repeat": true}, "actions": [mail("Got it")]}]);
        world.register(json!({"triggers": triggers})).await;
        world.monday(1.0).await;
        let sent = json!({"recipients": ["dana@example.com"], "subject": "x", "content": "y"});
        world.say("send_email", sent).await;
        world.say("wait_until", json!({"duration": "PT1H"})).await;
        let recipe = world.gate.recipe().unwrap();
        let names: Vec<&str> = recipe.calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["send_email", "receive_email"]);
        let recipe = Recipe::from_bytes(&recipe.to_bytes()).unwrap();
        assert_eq!(recipe.to_bytes(), world.gate.recipe().unwrap().to_bytes());
        let other = World::new(ClockMode::Event);
        let replayed = other.gate.replay(&recipe).await;
        assert_eq!(replayed, Ok(()));
        assert_eq!(other.statuses(), world.statuses());
        let now = json!({"current_time": "2026-03-02T10:00:00Z"});
        assert_eq!(other.say("get_time", json!({})).await, now);
    });
}

#[test]
fn an_agent_follows_instructions_in_its_role() {
    run(async {
        let world = World::new(ClockMode::Event);
        let check_mail = json!({"tool": "search_emails", "args": {"query": "from:sam"}, "extract": "total", "predicate": {"equals": 1}});
        let triggers = json!([
            {"id": "ask", "when": {"type": "action", "tool": "mark_email"}, "actions": [{"type": "nl", "instruction": "Write to the user.", "verify": check_mail}]},
            {"id": "lazy", "when": {"type": "time", "at": "PT1H"}, "actions": [{"type": "nl", "instruction": "Do nothing.", "verify": {"tool": "search_emails", "args": {"query": "from:nobody"}, "extract": "emails", "predicate": {"exists": true}}}]},
            {"id": "came", "when": {"type": "state", "check": {"steps": [
                {"tool": "search_emails", "args": {"query": "from:sam"}, "extract": {"path": "emails", "take": "[0].email_id"}, "bind": "id"},
                {"tool": "get_email_by_id", "args": {"email_id": "${id}"}, "extract": "content", "predicate": {"regex": "\\."}},
            ]}, "roles": ["world"]}, "actions": [{"type": "tool", "tool": "mark_email", "args": {"email_id": "${id}", "is_read": true}}]},
        ]);
        let executor = json!({"agent": "sam", "role": "world", "timeout_seconds": 7});
        let registration = json!({"executor": executor, "triggers": triggers});
        assert_eq!(world.register(registration).await, "ask lazy came");
        world.monday(1.0).await;
        world
            .env
            .set_access("world", &["receive_email".to_owned()], true)
            .unwrap();
        world
            .say(
                "send_email",
                json!({"recipients": ["a@b"], "subject": "x", "content": "y"}),
            )
            .await;
        world
            .say(
                "mark_email",
                json!({"email_id": "email-1", "is_read": true}),
            )
            .await;
        check(
            world.statuses(),
            expect![[r#"
            "ask" "armed"
            "lazy" "armed"
            "came" "armed"
        "#]],
        );
        let sam = Arc::new(Sam {
            env: world.env.in_role("world"),
            told: Mutex::default(),
        });
        assert_eq!(world.env.executors(), ["sam"]);
        let there = world.env.attend("sam", sam.clone());
        world
            .say(
                "mark_email",
                json!({"email_id": "email-1", "is_read": true}),
            )
            .await;
        world.say("wait_until", json!({"duration": "PT2H"})).await;
        drop(there);
        check(
            world.statuses(),
            expect![[r#"
            "ask" "fired"
            "lazy" "failed"
            "came" "fired"
        "#]],
        );
        check(
            locked(&sam.told).join("\n"),
            expect![[r#"
            ask, 7 s: Write to the user.
            "time stands still while you follow an instruction"
            lazy, 7 s: Do nothing.
            lazy, 7 s: What was asked is not done yet: the state of the env does not show it. It was: Do nothing."#]],
        );
        let events = world.state()["events"].clone();
        let lines: Vec<String> = events
            .as_array()
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        check(
            lines.join("\n"),
            expect![[r#"
                {"kind":"added","trigger_id":"ask"}
                {"kind":"added","trigger_id":"lazy"}
                {"kind":"added","trigger_id":"came"}
                {"kind":"detected","step":"week","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
                {"action":0,"error":"agent `sam` is not at hand in step `week`","kind":"action_failed","step":"week","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
                {"kind":"failed","step":"week","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
                {"kind":"detected","step":"week","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
                {"kind":"detected","step":"week","trigger_id":"came","virtual_time":"2026-03-02T09:00:00Z"}
                {"action":0,"kind":"action_ok","step":"week","trigger_id":"came","virtual_time":"2026-03-02T09:00:00Z"}
                {"kind":"fired","step":"week","trigger_id":"came","virtual_time":"2026-03-02T09:00:00Z"}
                {"action":0,"kind":"action_ok","step":"week","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
                {"action":0,"kind":"verify_ok","step":"week","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
                {"kind":"fired","step":"week","trigger_id":"ask","virtual_time":"2026-03-02T09:00:00Z"}
                {"kind":"detected","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
                {"action":0,"kind":"action_ok","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
                {"action":0,"kind":"verify_failed","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
                {"action":0,"kind":"action_ok","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
                {"action":0,"kind":"verify_failed","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}
                {"kind":"failed","trigger_id":"lazy","virtual_time":"2026-03-02T10:00:00Z"}"#]],
        );
        check(
            world.record(),
            expect![[r#"
                triggers register role="default"
                clock set role="default" virtual_time="2026-03-02T09:00:00Z"
                access world role="default" virtual_time="2026-03-02T09:00:00Z"
                tool send_email role="default" virtual_time="2026-03-02T09:00:00Z"
                tool mark_email role="default" virtual_time="2026-03-02T09:00:00Z"
                trigger ask role="trigger" caused_by="ask" virtual_time="2026-03-02T09:00:00Z"
                tool mark_email role="default" virtual_time="2026-03-02T09:00:00Z"
                clock wait_until role="world" virtual_time="2026-03-02T09:00:00Z"
                tool receive_email role="world" virtual_time="2026-03-02T09:00:00Z"
                tool search_emails role="trigger" caused_by="check" virtual_time="2026-03-02T09:00:00Z"
                tool get_email_by_id role="trigger" caused_by="check" virtual_time="2026-03-02T09:00:00Z"
                tool mark_email role="trigger" caused_by="came" virtual_time="2026-03-02T09:00:00Z"
                trigger_fired came role="trigger" caused_by="came" virtual_time="2026-03-02T09:00:00Z"
                tool search_emails role="trigger" caused_by="check" virtual_time="2026-03-02T09:00:00Z"
                trigger_fired ask role="trigger" caused_by="ask" virtual_time="2026-03-02T09:00:00Z"
                tool search_emails role="trigger" caused_by="check" virtual_time="2026-03-02T10:00:00Z"
                tool search_emails role="trigger" caused_by="check" virtual_time="2026-03-02T10:00:00Z"
                trigger lazy role="trigger" caused_by="lazy" virtual_time="2026-03-02T10:00:00Z"
                clock wait_until role="default" virtual_time="2026-03-02T11:00:00Z"
            "#]],
        );
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    run(async {
        let world = World::new(ClockMode::Event);
        check(
            world.register(json!({"triggers": [{"id": "x"}]})).await,
            expect![
                "env `mail` answered a registration of triggers with error 400: /triggers/0: the trigger has no `when`; /triggers/0: the trigger has no `actions`"
            ],
        );
        let unknown = json!([{"id": "a", "when": {"type": "action", "tool": "send_mail"}, "actions": [mail("x")]}]);
        check(
            world.register(json!({"triggers": unknown})).await,
            expect![
                "env `mail` answered a registration of triggers with error 400: trigger `a` names tool `send_mail`, which there is not; did you mean `send_email`?"
            ],
        );
        let shown = async |time: &str, rate: f64| {
            world
                .env
                .set_clock(time, rate)
                .await
                .unwrap_err()
                .to_string()
        };
        check(
            shown("monday", 1.0).await,
            expect![
                "env `mail` answered a setting of the clock with error 400: `monday` is no time like `2026-03-02T09:00:00Z`, with seconds and an offset or `Z`"
            ],
        );
        check(
            shown("2026-03-02T09:00:00Z", -1.0).await,
            expect![
                "env `mail` answered a setting of the clock with error 400: the rate is -1 virtual seconds per real second, but can be 0 to 86400"
            ],
        );
        world.monday(0.0).await;
        check(
            world
                .say("wait_until", json!({"duration": "PT1H"}))
                .await
                .to_string(),
            expect![[r#""the virtual clock stands still for good: its rate is 0""#]],
        );
        let snapshot = br#"{"version": 1, "access": [], "settings": [], "course": {"clock": 7}}
[]"#;
        check(
            world.gate.restore(snapshot).await.unwrap_err(),
            expect!["its snapshot holds triggers or a clock that are none"],
        );
    });
}

#[test]
fn a_chain_of_triggers_ends() {
    run(async {
        let world = World::new(ClockMode::Event);
        let again = json!({"type": "tool", "tool": "receive_email", "as": "world", "args": {"sender": "a@b", "subject": "again", "content": "."}});
        let triggers = json!([{"id": "echo", "when": {"type": "action", "tool": "receive_email", "repeat": true, "roles": ["default", "world"]}, "actions": [again]}]);
        world.register(json!({"triggers": triggers})).await;
        for role in ["default", "world"] {
            world
                .env
                .set_access(role, &["receive_email".to_owned()], true)
                .unwrap();
        }
        world
            .say(
                "receive_email",
                json!({"sender": "a@b", "subject": "first", "content": "."}),
            )
            .await;
        let total = world.say("list_emails", json!({})).await["total"].clone();
        assert_eq!(total, 18);
        check(
            world.statuses(),
            expect![[r#"
            "echo" "armed"
        "#]],
        );
    });
}

#[test]
fn triggers_and_the_clock_have_routes() {
    run(async {
        let world = World::new(ClockMode::Event);
        let caller = Caller::new("program", "default");
        let ask = async |method: &str, path: &str, body: &str| {
            let request = axum::http::Request::builder().method(method);
            let request = request
                .body(axum::body::Body::from(body.to_owned()))
                .unwrap();
            let answered = course_routes::answer(&world.gate, &caller, method, path, request).await;
            let status = answered.status().as_u16();
            let body = axum::body::to_bytes(answered.into_body(), 1 << 20)
                .await
                .unwrap();
            format!("{status} {}\n", String::from_utf8_lossy(&body))
        };
        let mut seen = String::new();
        for (method, path, body) in [
            ("GET", "clock/time", ""),
            ("GET", "clock/state", ""),
            ("PUT", "clock/set-time", "{"),
            ("PUT", "clock/set-time", r#"{"virtual_time": "noon"}"#),
            ("PUT", "clock/set-time", r#"{"virtual_time": 7}"#),
            (
                "PUT",
                "clock/set-time",
                r#"{"virtual_time": "2026-03-02T09:00:00Z", "virtual_seconds_per_real_second": "fast"}"#,
            ),
            (
                "PUT",
                "clock/set-time",
                r#"{"virtual_time": "2026-03-02T09:00:00Z", "virtual_seconds_per_real_second": 60}"#,
            ),
            ("GET", "clock/time", ""),
            ("POST", "triggers/register", r#"{"triggers": 7}"#),
            (
                "POST",
                "triggers/register",
                r#"{"triggers": [{"id": "a", "when": {"type": "time", "at": "PT1H"}, "actions": [{"type": "permission", "action": "enable", "role": "x", "tools": "*"}]}]}"#,
            ),
            ("GET", "triggers/state", ""),
            ("POST", "triggers/remove", "{}"),
            ("POST", "triggers/remove", r#"{"ids": ["a", "b"]}"#),
            ("POST", "triggers/clear", ""),
            ("GET", "triggers/state", ""),
            ("POST", "clock/clear", ""),
            ("GET", "clock/set-time", ""),
        ] {
            seen.push_str(&ask(method, path, body).await);
        }
        check(
            seen,
            expect![[r#"
            404 {"error":"the clock is not set","ok":false}
            200 {"armed":false}
            400 {"error":{"code":400,"message":"the body is no JSON: EOF while parsing an object at line 1 column 1"},"ok":false}
            400 {"error":"`noon` is no time like `2026-03-02T09:00:00Z`, with seconds and an offset or `Z`","ok":false}
            400 {"error":"the body needs `virtual_time`, a text","ok":false}
            400 {"error":"`virtual_seconds_per_real_second` is no number","ok":false}
            200 {"armed":true,"env_get_time_url":"/clock/time","t0":"2026-03-02T09:00:00Z","virtual_seconds_per_real_second":60.0,"virtual_time":"2026-03-02T09:00:00Z"}
            200 {"current_time":"2026-03-02T09:00:00Z"}
            400 {"error":"/triggers: `triggers` is a number, not a list","ok":false}
            200 {"added":["a"],"ok":true}
            200 {"config":{"executor_configured":false,"executors":[],"watch_roles":["default"]},"events":[{"kind":"added","trigger_id":"a","virtual_time":"2026-03-02T09:00:00Z"}],"events_dropped":0,"triggers":[{"barrier":null,"detected_at":null,"failure_count":0,"fire_count":0,"fired_at":null,"id":"a","last_failure_at":null,"next_mark":"2026-03-02T10:00:00Z","pending":0,"status":"armed","type":"time","waiting":null,"when":{"at":"PT1H","type":"time"}}]}
            400 {"error":"the body needs `ids`, a list of texts","ok":false}
            200 {"ok":true,"removed":["a"]}
            200 {"ok":true}
            200 {"config":{"executor_configured":false,"executors":[],"watch_roles":["default"]},"events":[],"events_dropped":0,"triggers":[]}
            200 {"armed":false}
            404 {"error":"the gateway has no such path","ok":false}
        "#]],
        );
    });
}
