use super::super::testing::{Fake, SHORT, Say, new_card, old_card};
use super::*;
use crate::json::Map;
use crate::step::agent::{Peer, PeerLine, PromptSettings, Skill};
use crate::step::env::{EnvError, ExtensionCall, LiveEnv};
use crate::step::sandbox::Put;

const LIMIT: Duration = Duration::from_secs(30);

async fn agent(fake: &Fake) -> A2aAgent {
    let agent = A2aAgent::connect("solver", &fake.url).await.unwrap();
    let mut client = Client::connect(&fake.url, Ports::AsSaid).await.unwrap();
    client.pace = SHORT;
    A2aAgent {
        client: Arc::new(client),
        ..agent
    }
}

/// Prompts an agent that answers every message so.
async fn answered(answer: Value) -> Result<Reply, AgentError> {
    let fake = Fake::serve(old_card, move |_, _| Say::Result(answer.clone())).await;
    agent(&fake).await.prompt(Prompt::of("hi", LIMIT)).await
}

fn ended(state: &str, parts: Value) -> Value {
    json!({"kind": "task", "id": "t", "contextId": "server", "status": {
        "state": state, "message": {"kind": "message", "role": "agent", "messageId": "r", "parts": parts},
    }})
}

#[tokio::test]
async fn the_last_text_is_the_reply_and_typed_values_stand_beside_it() {
    let parts = json!([
        {"kind": "text", "text": "thinking"},
        {"kind": "text", "text": "done"},
        {"kind": "data", "data": {"structured_output": {"ok": true}, "usage": {
            "tool_call_count": 3, "input_tokens": 10, "output_tokens": 2}}},
    ]);
    let mut end = ended("completed", parts.clone());
    end["artifacts"] = json!([{"artifactId": "a", "parts": [{"kind": "text", "text": "made"}, {"kind": "video"}]}]);
    let reply = answered(end).await.unwrap();
    let mut all = parts.as_array().unwrap().clone();
    all.push(text_part("made"));
    assert_eq!(
        (reply.text.as_str(), reply.tool_calls, reply.structured),
        ("done", 3, Some(json!({"ok": true})))
    );
    assert_eq!(reply.parts, all);
    assert_eq!(
        (reply.usage.input_tokens, reply.usage.output_tokens),
        (Some(10), Some(2))
    );
    assert_eq!(reply.memory, json!({"contextId": "server"}));
    assert_eq!(
        reply.trajectory[0],
        json!({"role": "user", "content": "hi"})
    );
    assert_eq!(reply.trajectory[1]["content"], "done");
}

#[tokio::test]
async fn a_message_without_a_task_is_a_reply_as_are_artifacts_without_a_message() {
    let message = json!({"kind": "message", "role": "agent", "messageId": "r", "parts": [{"kind": "text", "text": "yo"}]});
    let reply = answered(message).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.parts.len()), ("yo", 0));
    let made = json!({"kind": "task", "id": "t", "status": {"state": "completed"}, "artifacts": [
        {"artifactId": "a", "parts": [{"kind": "text", "text": "one"}]},
        {"artifactId": "b", "parts": [{"kind": "text", "text": "two"}, {"kind": "file", "file": {"uri": "http://x"}}]},
    ]});
    let reply = answered(made).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.parts.len()), ("one\ntwo", 3));
    let nothing = json!({"kind": "task", "id": "t", "status": {"state": "completed"}});
    assert_eq!(answered(nothing).await.unwrap().text, "");
}

#[tokio::test]
async fn each_state_that_is_no_completion_has_its_meaning() {
    let text = json!([{"kind": "text", "text": "which?"}]);
    let waits = answered(ended("input-required", text.clone()))
        .await
        .unwrap();
    assert_eq!(waits.memory, json!({"contextId": "server", "taskId": "t"}));
    for state in ["canceled", "rejected"] {
        assert_eq!(
            answered(ended(state, text.clone())).await.unwrap().text,
            "which?"
        );
    }
    let why = |answer: Result<Reply, AgentError>| answer.unwrap_err().to_string();
    assert_eq!(
        why(answered(ended("auth-required", text)).await),
        "agent `solver` failed: it wants to know who asks (auth-required): which?"
    );
    let parts = json!([
        {"kind": "text", "text": "no luck"},
        {"kind": "data", "data": {"error_type": "model", "error_code": 529, "error_message": "overloaded"}},
    ]);
    assert_eq!(
        why(answered(ended("failed", parts)).await),
        "agent `solver` failed: no luck: overloaded (error_type=model, error_code=529)"
    );
    assert_eq!(
        why(answered(ended("failed", json!([]))).await),
        "agent `solver` failed: it does not say why"
    );
}

#[tokio::test]
async fn a_conversation_goes_on_where_the_agent_left_it() {
    let fake = Fake::serve(old_card, |_, _| {
        Say::Result(ended(
            "input-required",
            json!([{"kind": "text", "text": "which?"}]),
        ))
    })
    .await;
    let agent = agent(&fake).await;
    let first = agent.prompt(Prompt::of("one", LIMIT)).await.unwrap();
    let second = Prompt {
        memory: first.memory,
        turn: 2,
        ..Prompt::of("two", LIMIT)
    };
    agent.prompt(second).await.unwrap();
    // Without a memory it is the id of the prompt that tells the conversation, of the first attempt or the second.
    agent.prompt(Prompt::of("three", LIMIT)).await.unwrap();
    let again = Prompt {
        attempt: 2,
        ..Prompt::of("four", LIMIT)
    };
    agent.prompt(again).await.unwrap();
    let message = |at: usize, key: &str| fake.asked()[at].1["message"][key].clone();
    assert_eq!(message(1, "contextId"), "server");
    assert_eq!(message(1, "taskId"), "t");
    assert_eq!(message(2, "contextId"), message(0, "contextId"));
    assert_ne!(message(3, "contextId"), message(0, "contextId"));
    assert_ne!(message(0, "contextId"), "context");
    assert_ne!(message(0, "messageId"), message(1, "messageId"));
    assert_eq!(message(0, "taskId"), Value::Null);
}

/// Waits until the agent was asked this.
async fn asked(fake: &Fake, name: &str) {
    while !fake.names().ends_with(name) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_agent_that_never_ends_is_told_to_give_up() {
    for (card, get, cancel) in [
        (old_card as fn(&str) -> Value, "tasks/get", "tasks/cancel"),
        (new_card, "GetTask", "CancelTask"),
    ] {
        let fake = Fake::serve(card, |_, _| {
            Say::Result(json!({"id": "t", "status": {"state": "working"}}))
        })
        .await;
        let limit = Duration::from_millis(200);
        let answer = agent(&fake).await.prompt(Prompt::of("hi", limit)).await;
        let agent_name = "solver".to_owned();
        assert_eq!(
            answer,
            Err(AgentError::TimedOut {
                agent: agent_name,
                limit,
                trajectory: Vec::new(),
            })
        );
        assert!(
            fake.names().ends_with(&format!("{get} {cancel}")),
            "{}",
            fake.names()
        );

        // Who does not wait any more has it told as well.
        let agent = agent(&fake).await;
        let before = fake.asked().len();
        {
            let prompt = agent.prompt(Prompt::of("hi", LIMIT));
            tokio::pin!(prompt);
            let waits = async {
                while fake.asked().len() < before + 2 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                _ = &mut prompt => panic!("it never ends"),
                () = waits => {}
            }
        }
        asked(&fake, cancel).await;
        assert_eq!(fake.asked().last().unwrap().1, json!({"id": "t"}));
    }
}

#[tokio::test]
async fn an_agent_that_never_answers_is_given_up_in_time() {
    let fake = Fake::serve(old_card, |_, _| Say::Nothing).await;
    let limit = Duration::from_millis(100);
    let answer = agent(&fake).await.prompt(Prompt::of("hi", limit)).await;
    assert!(
        matches!(answer, Err(AgentError::TimedOut { .. })),
        "{answer:?}"
    );
}

struct Mail;

impl LiveEnv for Mail {
    fn env_id(&self) -> &str {
        "mail"
    }
    fn info(&self) -> Value {
        Value::Null
    }
    fn card(&self) -> Option<Value> {
        None
    }
    fn in_role(&self, _: &str) -> Arc<dyn LiveEnv> {
        Arc::new(Mail)
    }
    fn url(&self) -> BoxFuture<'_, Result<String, EnvError>> {
        Box::pin(async { Ok("http://mail".to_owned()) })
    }
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Value>, EnvError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn call<'a>(
        &'a self,
        _: &'a str,
        _: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        no("call")
    }
    fn request<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, EnvError>> {
        no("request")
    }
    fn can_export(&self) -> bool {
        false
    }
    fn export(&self) -> BoxFuture<'_, Result<Vec<u8>, EnvError>> {
        no("export")
    }
    fn reset(&self) -> BoxFuture<'_, Result<(), EnvError>> {
        no("reset")
    }
    fn load(&self, _: Vec<u8>) -> BoxFuture<'_, Result<(), EnvError>> {
        no("load")
    }
    fn data_plane<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, EnvError>> {
        no("data plane")
    }
    fn extension(&self, _: ExtensionCall) -> BoxFuture<'_, Result<Value, EnvError>> {
        no("extension")
    }
    fn fetch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, EnvError>> {
        no("fetch")
    }
    fn set_access(&self, _: &str, _: &[String], _: bool) -> Result<Value, EnvError> {
        Ok(Value::Null)
    }
    fn put(&self, _: &[Put]) -> Result<(), EnvError> {
        Ok(())
    }
    fn trajectory(&self) -> Result<Vec<u8>, EnvError> {
        Ok(Vec::new())
    }
}

fn no<'a, T: Send + 'a>(what: &str) -> BoxFuture<'a, Result<T, EnvError>> {
    let error = EnvError::NotSupported {
        env: "mail".to_owned(),
        what: what.to_owned(),
    };
    Box::pin(async move { Err(error) })
}

struct Friend;

impl PeerLine for Friend {
    fn ask<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(async { Ok(Reply::default()) })
    }

    fn url(&self) -> BoxFuture<'_, Result<Option<String>, AgentError>> {
        Box::pin(async { Ok(Some("http://friend/".to_owned())) })
    }
}

fn card_with(extensions: &[(&str, Value)]) -> impl Fn(&str) -> Value + use<> {
    let extensions: Vec<Value> = extensions
        .iter()
        .map(|(name, methods)| {
            json!({"uri": format!("urn:agentenv:{name}/v1"), "params": {
                "endpoint": format!("/x/{name}"), "methods": methods}})
        })
        .collect();
    move |url| {
        let mut card = old_card(url);
        card["capabilities"]["extensions"] = json!(extensions);
        card
    }
}

fn full_prompt(model: &str) -> Prompt {
    Prompt {
        envs: vec![Arc::new(Mail)],
        peers: vec![Peer {
            name: "friend".to_owned(),
            description: None,
            line: Arc::new(Friend),
        }],
        settings: PromptSettings {
            model: Some(model.to_owned()),
            system_prompt: Some("Be brief.".to_owned()),
            max_turns: (model == "m1").then_some(3),
            skills: vec![Skill {
                name: "mail".to_owned(),
                description: "d".to_owned(),
                body: "Write.".to_owned(),
            }],
            ..PromptSettings::default()
        },
        ..Prompt::of("hi", LIMIT)
    }
}

fn done(name: &str) -> Say {
    match name {
        "message/send" => Say::Result(ended("completed", json!([{"kind": "text", "text": "ok"}]))),
        "/x/trajectory" => Say::Raw(200, b"{\"trajectory\": [{\"step\": 1}]}".to_vec()),
        _ => Say::Raw(200, Vec::new()),
    }
}

#[tokio::test]
async fn an_agent_is_told_once_what_it_works_with_and_again_what_changed() {
    let card = card_with(&[
        (
            "agent-config",
            json!({"set": {"request": {"supported": ["name", "model", "max_turns"]}}}),
        ),
        (
            "mcp-config",
            json!({"add": {"request": {"supported": ["url", "name"]}}}),
        ),
        ("skill-config", json!({})),
        ("peer-agents", json!({})),
        ("trajectory", json!({})),
    ]);
    let fake = Fake::serve(card, |name, _| done(name)).await;
    let agent = agent(&fake).await;
    let reply = agent.prompt(full_prompt("m1")).await.unwrap();
    assert_eq!(
        reply.trajectory,
        [
            json!({"type": "note", "text": "the agent cannot be told `system_prompt`"}),
            json!({"role": "user", "content": "hi"}),
            json!({"step": 1}),
        ]
    );
    let told: Vec<(String, Value)> = fake.asked();
    assert_eq!(
        fake.names(),
        "/x/agent-config /x/mcp-config /x/skill-config /x/peer-agents message/send /x/trajectory"
    );
    assert_eq!(
        told[0].1,
        json!({"name": "solver", "model": "m1", "max_turns": 3})
    );
    assert_eq!(told[1].1, json!({"url": "http://mail/mcp", "name": "mail"}));
    assert_eq!(told[2].1["name"], "mail");
    assert_eq!(told[3].1["peers"][0]["url"], "http://friend/");
    assert_eq!(told[3].1["peers"][0]["card"]["name"], "friend");

    // Nothing of that is told again, but the model changed, and what was said before does not hold any more.
    let before = told.len();
    let reply = agent.prompt(full_prompt("m2")).await.unwrap();
    assert_eq!(reply.trajectory[0]["role"], "user");
    let told = fake.asked().split_off(before);
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["/x/agent-config", "message/send", "/x/trajectory"]);
    assert_eq!(told[0].1, json!({"model": "m2", "max_turns": null}));
}

#[tokio::test]
async fn an_agent_that_cannot_be_connected_fails() {
    let fails = |extensions: Vec<(&'static str, Value)>, say: fn(&str) -> Say| async move {
        let fake = Fake::serve(card_with(&extensions), move |name, _| say(name)).await;
        let answer = agent(&fake).await.prompt(full_prompt("m")).await;
        answer.unwrap_err().to_string()
    };
    assert_eq!(
        fails(vec![], done).await,
        "agent `solver` failed: it cannot be connected to env `mail`: its card does not offer mcp-config"
    );
    assert_eq!(
        fails(vec![("mcp-config", json!({}))], done).await,
        "agent `solver` failed: it cannot be told which agents it may ask: its card does not offer peer-agents"
    );
    assert_eq!(
        fails(vec![("mcp-config", json!({}))], |_| Say::Raw(
            422,
            b"no such field".to_vec()
        ))
        .await,
        "agent `solver` failed: it refused `/x/mcp-config` with code 422: no such field"
    );
}

#[tokio::test]
async fn who_reach_the_same_agent_know_what_it_was_told_by_each_other() {
    let supported = json!({"set": {"request": {"supported": ["system_prompt"]}}});
    let card = card_with(&[("agent-config", supported)]);
    let fake = Fake::serve(card, |name, _| done(name)).await;
    let lessons = Arc::new(Lessons::none().unwrap());
    let one = agent(&fake).await.with(lessons.clone());
    let two = agent(&fake).await.with(lessons);
    assert!(one.is_taught());
    let prompt = |system_prompt: Option<&str>| Prompt {
        settings: PromptSettings {
            system_prompt: system_prompt.map(str::to_owned),
            ..PromptSettings::default()
        },
        ..Prompt::of("hi", LIMIT)
    };
    for (agent, told) in [
        (&one, Some("a")),
        (&two, Some("a")),
        (&two, None),
        (&one, Some("a")),
    ] {
        agent.prompt(prompt(told)).await.unwrap();
    }
    let asked = fake.asked().into_iter();
    let told = asked.filter(|(name, _)| name == "/x/agent-config");
    let told: Vec<Value> = told
        .map(|(_, body)| body["system_prompt"].clone())
        .collect();
    assert_eq!(told, [json!("a"), Value::Null, json!("a")]);
}
