use super::*;
use crate::step::agent::{Agent, AgentError, Prompt, Reply};
use crate::steps::testing::{FakeEnv, FakeServices, build_step, refused, run, show};
use expect_test::expect;
use std::sync::Arc;

/// Says in which envs it is, and fails where it is told to.
struct Parrot;

impl Agent for Parrot {
    fn name(&self) -> &str {
        "parrot"
    }

    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        Box::pin(async move {
            for env in &prompt.envs {
                env.call("look", Map::new()).await?;
            }
            let text = prompt.text();
            let trajectory = vec![json!({"role": "user", "content": text})];
            if text == "fail" {
                return Err(AgentError::Failed {
                    agent: "parrot".to_owned(),
                    message: "no".to_owned(),
                    trajectory,
                });
            }
            Ok(Reply {
                text: format!("{text}!"),
                tool_calls: prompt.envs.len() as u64,
                trajectory,
                ..Reply::default()
            })
        })
    }
}

fn world() -> FakeServices {
    let env = FakeEnv::new("email").tool(json!({"name": "look"}), |_| json!({}));
    FakeServices::new()
        .env(env)
        .agent(Arc::new(Parrot), &["email"])
}

#[test]
fn a_reply_is_kept_with_its_prompt_and_its_trajectory() {
    let step = build_step(
        &TYPE,
        "ask",
        json!({"agent_name": "parrot", "prompt": "Hi"}),
    );
    let text = show(&run(&*step, "ask", &world()).unwrap());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("Prompt(\"ask\") = ") && lines[0].contains(r#""response":"Hi!""#));
    assert!(lines[0].contains(r#""tool_call_count":1"#) && lines[0].contains("aebuild:sha256:"));
    assert!(lines[2] == "metadata.models.solver.ask = null", "{text}");
}

#[test]
fn an_agent_that_fails_fails_the_step_and_leaves_its_trajectory_in_the_log() {
    let step = build_step(
        &TYPE,
        "ask",
        json!({"agent_name": "parrot", "prompt": "fail"}),
    );
    let world = world();
    let error = run(&*step, "ask", &world).unwrap_err();
    expect!["RuntimeError: A2A task failed (error_type=agent_error, agent=parrot): no"]
        .assert_eq(&error.to_string());
    assert!(
        world
            .log_text()
            .contains(r#"{"content":"fail","role":"user"}"#)
    );
}

#[test]
fn a_prompt_is_text_or_parts() {
    expect![[r#"
        missing-field : the step does not say what it asks (add "prompt": "..")
    "#]]
    .assert_eq(&refused(&TYPE, json!({})));
    expect![[r#"
        conflicting-fields /parts: the step has both `prompt` and `parts` (delete one of `prompt` and `parts`)
        not-supported-yet /user_a2a_url: a user at an address is not there in this release (deploy an agent that is reached at that address, and name it in `user_agent_name`)
        conflicting-fields /model_params/user: `user` is set by aebuild and cannot be a parameter of the model (delete `user`)
    "#]].assert_eq(&refused(
        &TYPE,
        json!({"prompt": "a", "parts": [], "user_a2a_url": "http://x", "model_params": {"user": "me", "top_p": 1}}),
    ));
    expect![[r#"
        wrong-type /parts/4: part 5 is no text, file or data part (write {"kind": "text", "text": ".."}, {"kind": "data", "data": {..}} or {"kind": "file", "file": {"uri": ".."}})
        wrong-type /parts/5: part 6 is no text, file or data part (write {"kind": "text", "text": ".."}, {"kind": "data", "data": {..}} or {"kind": "file", "file": {"uri": ".."}})
        wrong-type /parts/6: part 7 is no text, file or data part (write {"kind": "text", "text": ".."}, {"kind": "data", "data": {..}} or {"kind": "file", "file": {"uri": ".."}})
    "#]].assert_eq(&refused(
        &TYPE,
        json!({"parts": [
            {"kind": "text", "text": "a"}, {"text": "a"}, {"kind": "data", "data": {}}, {"kind": "file", "file": {"uri": "x"}},
            {"kind": "text"}, {"kind": "file", "file": {}}, {"kind": "sound"},
        ]}),
    ));
}

/// Counts the turns, and says what it was told.
struct Teller(&'static str, fn(u64, &str) -> Reply);

impl Agent for Teller {
    fn name(&self) -> &str {
        self.0
    }

    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        let text = prompt.text();
        let told = prompt.memory.as_u64().unwrap_or(0);
        assert_eq!(
            told + 1,
            prompt.turn,
            "what it left of the turns before comes back"
        );
        let mut reply = (self.1)(prompt.turn, &text);
        reply.memory = json!(prompt.turn);
        reply.trajectory = vec![json!({"role": "user", "content": text})];
        Box::pin(async move { Ok(reply) })
    }
}

fn says(text: &str) -> Reply {
    Reply {
        text: text.to_owned(),
        tool_calls: 1,
        ..Reply::default()
    }
}

fn talk(user: fn(u64, &str) -> Reply, most: u64) -> (String, FakeServices) {
    let world = FakeServices::new()
        .agent(
            Arc::new(Teller("clerk", |turn, text| {
                says(&format!("{turn}: {text}"))
            })),
            &[],
        )
        .agent(Arc::new(Teller("dana", user)), &[]);
    let step = build_step(
        &TYPE,
        "talk",
        json!({"agent_name": "clerk", "user_agent_name": "dana", "prompt": "Call Dana.", "max_conversation_turns": most}),
    );
    let shown = show(&run(&*step, "talk", &world).unwrap());
    let lines: Vec<&str> = shown.lines().collect();
    let value: Value =
        crate::json::from_slice(lines[0].split_once(" = ").unwrap().1.as_bytes()).unwrap();
    let rest = lines[1..].join("\n");
    let told = format!(
        "{} | {} | {} trajectories, {} calls\n{rest}",
        value["response"],
        value["source_agent_per_turn_prompt_parts"],
        value["target_agent_per_turn_trajectory_object_urls"]
            .as_array()
            .unwrap()
            .len(),
        value["tool_call_count"],
    );
    (told, world)
}

#[test]
fn a_conversation_goes_on_until_the_user_is_done_or_the_last_turn() {
    let (told, _) = talk(
        |turn, text| {
            says(&format!(
                r#"{{"message": "<{text}>", "done": {}, "mood": {turn}}}"#,
                turn == 3
            ))
        },
        9,
    );
    expect![[r#"
        "3: <2: <1: Call Dana.>>" | [null,[{"kind":"text","text":"<1: Call Dana.>"}],[{"kind":"text","text":"<2: <1: Call Dana.>>"}]] | 3 trajectories, 3 calls
        metadata.a2a_conversations.talk = "99ed8cbb26417b645a645ca64f3b21f6"
        metadata.models.solver.talk = null
        metadata.models.user simulator.talk = null
        metadata.usersim_turn_outputs.talk = [{"fields":{"mood":1},"turn":1},{"fields":{"mood":2},"turn":2},{"fields":{"mood":3},"turn":3}]"#]].assert_eq(&told);
    let (told, _) = talk(|_, _| says("go on"), 2);
    expect![[r#"
        "2: go on" | [null,[{"kind":"text","text":"go on"}]] | 2 trajectories, 2 calls
        metadata.a2a_conversations.talk = "99ed8cbb26417b645a645ca64f3b21f6"
        metadata.models.solver.talk = null
        metadata.models.user simulator.talk = null"#]]
    .assert_eq(&told);
    let (told, _) = talk(|_, _| says(""), 5);
    expect![[r#"
        "1: Call Dana." | [null] | 1 trajectories, 1 calls
        metadata.a2a_conversations.talk = "99ed8cbb26417b645a645ca64f3b21f6"
        metadata.models.solver.talk = null
        metadata.models.user simulator.talk = null"#]]
    .assert_eq(&told);
}

#[test]
fn a_context_that_is_named_is_gone_on_with() {
    let fields = |prompt: &str| json!({"agent_name": "clerk", "prompt": prompt, "context_id": "c"});
    let clerk = || {
        Arc::new(Teller("clerk", |turn, text| {
            says(&format!("{turn}: {text}"))
        }))
    };
    let mut world = FakeServices::new().agent(clerk(), &[]);
    let first = run(&*build_step(&TYPE, "a", fields("one")), "a", &world).unwrap();
    let shown = show(&first);
    let memory = shown
        .lines()
        .find(|line| line.contains("agent_contexts"))
        .unwrap();
    expect![[r#"metadata.agent_contexts.clerk.c = {"object_url":"aebuild:"#]]
        .assert_eq(memory.split("sha256:").next().unwrap());
    let value: Value =
        crate::json::from_slice(memory.split_once(" = ").unwrap().1.as_bytes()).unwrap();
    world = world.metadata(&["agent_contexts", "clerk", "c"], value);
    let second = show(&run(&*build_step(&TYPE, "b", fields("two")), "b", &world).unwrap());
    assert!(second.contains(r#""response":"2: two""#), "{second}");
}

/// Asks its peers what it was asked, one after the other, and says what they said.
struct Relay(&'static str);

impl Agent for Relay {
    fn name(&self) -> &str {
        self.0
    }

    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        Box::pin(async move {
            let mut heard = Vec::new();
            for peer in &prompt.peers {
                heard.push(match peer.line.ask(&prompt.text()).await {
                    Ok(reply) => reply.text,
                    Err(error) => error.to_string(),
                });
            }
            Ok(Reply {
                text: format!("{}: {}", self.0, heard.join(", ")),
                memory: json!(prompt.turn),
                ..Reply::default()
            })
        })
    }
}

/// Is not there.
struct Nobody;

impl Agent for Nobody {
    fn name(&self) -> &str {
        "nobody"
    }

    fn prompt(&self, _: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        Box::pin(async {
            Err(AgentError::Unreachable {
                agent: "nobody".to_owned(),
                message: "the line is dead".to_owned(),
                trajectory: Vec::new(),
            })
        })
    }
}

fn relays(peerings: Value) -> FakeServices {
    FakeServices::new()
        .agent(Arc::new(Relay("a")), &[])
        .agent(Arc::new(Relay("b")), &[])
        .agent(Arc::new(Parrot), &[])
        .agent(Arc::new(Nobody), &[])
        .metadata(&["agent_peerings"], peerings)
}

#[test]
fn a_peer_that_failed_is_heard_of_and_one_that_could_not_be_asked_fails_the_step() {
    let ask = |peerings: Value, prompt: &str| {
        let fields = json!({"agent_name": "a", "prompt": prompt});
        let step = build_step(&TYPE, "ask", fields);
        match run(&*step, "ask", &relays(peerings)) {
            Ok(output) => output.entries[0].value["response"].to_string(),
            Err(error) => error.to_string(),
        }
    };
    let to = |source: &str, peers: &[&str]| json!({"source_agent_name": source, "peer_agent_names": peers});
    let parrot = json!([to("a", &["b"]), to("b", &["parrot"])]);
    assert_eq!(ask(parrot.clone(), "Hi"), r#""a: b: Hi!""#);
    assert_eq!(ask(parrot, "fail"), r#""a: b: agent `parrot` failed: no""#);
    // However deep it is, and whatever the others make of it.
    let nobody = json!([to("a", &["parrot", "b"]), to("b", &["nobody"])]);
    assert_eq!(
        ask(nobody, "Hi"),
        "AgentUnreachableError: agent `nobody` could not be asked: the line is dead"
    );
    // They ask each other until the chain is too long.
    let round = json!([to("a", &["b"]), to("b", &["a"])]);
    assert_eq!(ask(round, "Hi"), r#""a: b: a: b: a: ""#);
}

#[test]
fn a_user_that_cannot_be_asked_fails_the_step_and_one_that_fails_ends_the_conversation() {
    let talk = |user: &str, prompt: &str| {
        let fields = json!({
            "agent_name": "a", "prompt": prompt, "user_agent_name": user, "max_conversation_turns": 3,
        });
        let step = build_step(&TYPE, "talk", fields);
        let world = relays(json!([]));
        let ended = run(&*step, "talk", &world).map(drop);
        ended.err().map(|error| error.to_string())
    };
    assert_eq!(
        talk("nobody", "Hi").as_deref(),
        Some("AgentUnreachableError: agent `nobody` could not be asked: the line is dead")
    );
    assert_eq!(talk("parrot", "Hi"), None);
}

#[test]
fn the_work_of_an_agent_is_kept_after_each_turn_and_at_the_end() {
    let rows = |config: Value| {
        let fields = json!({
            "agent_name": "parrot", "prompt": "Hi", "user_agent_name": "a", "max_conversation_turns": 3,
            "snapshot_config": config,
        });
        let step = build_step(&TYPE, "talk", fields);
        let world = relays(json!([]))
            .env(FakeEnv::new("email").state(json!([{"kind": "data", "data": {"emails": []}}])));
        let output = run(&*step, "talk", &world).unwrap();
        let mut shown = String::new();
        for entry in &output.entries {
            let place = format!("{:?}", entry.place);
            if place.contains("agent_snapshots") {
                let row = &entry.value;
                let state = row.get("env_universe_object_url").is_some();
                shown.push_str(&format!(
                    "turn {} {} {state}\n",
                    row["turn"], row["is_final"]
                ));
                assert!(
                    row["bundle_object_url"].is_string()
                        && row["trajectory_object_url"].is_string()
                );
            } else if place.contains("env_snapshotted_universes") {
                shown.push_str(&format!("{}\n", entry.value["id"]));
            }
        }
        shown
    };
    expect![[r#"
        turn 3 true false
    "#]]
    .assert_eq(&rows(json!({})));
    expect![[r#"
        turn 1 false true
        turn 2 false true
        turn 3 false true
        turn 3 true true
        "@local/universes/talk-3-email"
    "#]]
    .assert_eq(&rows(json!({"per_turn": true, "env_id": "email"})));
    expect![[r#"
        turn 1 false false
        turn 3 true false
    "#]]
    .assert_eq(&rows(json!({"per_turn": true, "max_snapshots": 2})));
    expect![[r#"
        not-supported-yet /snapshot_config/interval_seconds: snapshots by time are not there in this release: no two runs would give the same (delete it, and write "per_turn": true)
        conflicting-fields /snapshot_config/at_end: `snapshot_config` keeps nothing: neither `at_end` nor `per_turn` is true (write "per_turn": true, or delete `at_end`)
    "#]]
    .assert_eq(&refused(
        &TYPE,
        json!({"prompt": "x", "snapshot_config": {"interval_seconds": 5, "at_end": false}}),
    ));
}
