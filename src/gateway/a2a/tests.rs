use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::gateway::{Gateway, Grant};
use crate::provider::a2a::A2aAgent;
use crate::provider::a2a::testing::{Fake, Say};
use crate::step::agent::{Agent, AgentError, Prompt, Reply, text_of};
use crate::step::sandbox::BoxFuture;

const LIMIT: Duration = Duration::from_secs(30);

/// Says what it heard, in which conversation; or waits, or fails, or breaks off, where it is told to.
struct Echo;

impl AgentDoor for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn description(&self) -> &str {
        "Says what it heard."
    }

    fn ask<'a>(
        &'a self,
        context_id: &'a str,
        parts: Vec<Value>,
    ) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(async move {
            let text = text_of(&parts);
            match text.as_str() {
                "wait" => std::future::pending().await,
                "fail" => Err(AgentError::Failed {
                    agent: "echo".to_owned(),
                    message: "no".to_owned(),
                    trajectory: Vec::new(),
                }),
                "break" => panic!("bug: told to break off"),
                _ => Ok(Reply {
                    text: format!("{text}!"),
                    tool_calls: 2,
                    structured: Some(json!({"context": context_id})),
                    ..Reply::default()
                }),
            }
        })
    }
}

struct Served {
    gateway: Arc<Gateway>,
    grant: Grant,
}

impl Served {
    async fn new() -> Served {
        let gateway = Gateway::new();
        let grant = gateway.open(Arc::new(Echo)).await.unwrap();
        Served { gateway, grant }
    }

    fn path(&self) -> &str {
        &self.grant.url()[self.grant.url().rfind('/').unwrap()..]
    }

    /// Sends a request and returns the status and the body.
    async fn http(&self, verb: &str, below: &str, more: &str, body: &str) -> (u16, String) {
        self.http_at(verb, &format!("{}{below}", self.path()), more, body)
            .await
    }

    async fn http_at(&self, verb: &str, path: &str, more: &str, body: &str) -> (u16, String) {
        let port = self.gateway.port().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!(
            "{verb} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {}\r\n{more}\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer[9..12].parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, body.to_owned())
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": params});
        let (status, body) = self.http("POST", "/", "", &body.to_string()).await;
        assert_eq!(status, 200, "{body}");
        crate::json::from_slice(body.as_bytes()).unwrap()
    }

    /// Returns the events of a stream.
    async fn events(&self, method: &str, params: Value) -> Vec<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let (_, body) = self.http("POST", "/", "", &body.to_string()).await;
        let events = body
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "));
        events
            .map(|event| crate::json::from_slice::<Value>(event.as_bytes()).unwrap())
            .inspect(|event| assert_eq!(event["id"], 7))
            .map(|event| event["result"].clone())
            .collect()
    }
}

fn old(text: &str) -> Value {
    json!({"message": {"kind": "message", "role": "user", "messageId": "m", "contextId": "c",
                       "parts": [{"kind": "text", "text": text}]}})
}

fn new(text: &str) -> Value {
    json!({"message": {"role": "ROLE_USER", "messageId": "m", "contextId": "c", "parts": [{"text": text}]}})
}

#[tokio::test]
async fn a_message_is_answered_in_the_dialect_in_which_it_came() {
    let served = Served::new().await;
    let answer = served.ask("message/send", old("hi")).await;
    let task = &answer["result"];
    assert_eq!(
        (&answer["id"], &task["kind"], &task["contextId"]),
        (&json!("x"), &json!("task"), &json!("c"))
    );
    assert_eq!(task["status"]["state"], "completed");
    assert_eq!(
        task["status"]["message"]["parts"],
        json!([
            {"kind": "text", "text": "hi!"},
            {"kind": "data", "data": {"tool_call_count": 2, "structured_output": {"context": "c"}}},
        ])
    );
    let id = json!({"id": task["id"]});
    assert_eq!(served.ask("tasks/get", id.clone()).await["result"], *task);

    let answer = served.ask("SendMessage", new("hi")).await;
    let task = &answer["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(task["status"]["message"]["role"], "ROLE_AGENT");
    assert_eq!(
        task["status"]["message"]["parts"][0],
        json!({"text": "hi!"})
    );
    let id = json!({"id": task["id"]});
    assert_eq!(served.ask("GetTask", id).await["result"], *task);
}

#[tokio::test]
async fn who_does_not_wait_asks_later_or_gives_the_task_up() {
    let served = Served::new().await;
    for (send, cancel, mut params, configuration, states) in [
        (
            "message/send",
            "tasks/cancel",
            old("wait"),
            json!({"blocking": false}),
            ["working", "canceled"],
        ),
        (
            "SendMessage",
            "CancelTask",
            new("wait"),
            json!({"returnImmediately": true}),
            ["TASK_STATE_WORKING", "TASK_STATE_CANCELED"],
        ),
    ] {
        params["configuration"] = configuration;
        let sent = served.ask(send, params).await["result"].clone();
        let task = sent.get("task").unwrap_or(&sent);
        assert_eq!(task["status"]["state"], states[0]);
        let id = json!({"id": task["id"]});
        let canceled = served.ask(cancel, id.clone()).await;
        assert_eq!(canceled["result"]["status"]["state"], states[1]);
        let again = served.ask(cancel, id).await;
        assert_eq!(again["error"]["code"], -32002);
    }
    // The conversation goes on after that.
    let answer = served.ask("message/send", old("hi")).await;
    assert_eq!(answer["result"]["status"]["state"], "completed");
}

#[tokio::test]
async fn what_becomes_of_a_task_is_told_as_it_happens() {
    let served = Served::new().await;
    let events = served.events("message/stream", old("hi")).await;
    let last = events.last().unwrap();
    assert_eq!(events[0]["kind"], "task");
    if events.len() == 2 {
        assert_eq!(
            (&last["kind"], &last["final"]),
            (&json!("status-update"), &json!(true))
        );
    }
    assert_eq!(last["status"]["state"], "completed");
    let events = served.events("SendStreamingMessage", new("hi")).await;
    assert!(events[0].get("task").is_some());
    let last = events.last().unwrap();
    let last = last.get("statusUpdate").unwrap_or(&last["task"]);
    assert_eq!(last["status"]["state"], "TASK_STATE_COMPLETED");
    let id = json!({"id": events[0]["task"]["id"]});
    let events = served.events("tasks/resubscribe", id).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["status"]["state"], "completed");
}

#[tokio::test]
async fn a_failed_agent_says_why_and_one_that_breaks_off_ends_its_task() {
    let served = Served::new().await;
    let failed = served.ask("message/send", old("fail")).await;
    let status = &failed["result"]["status"];
    assert_eq!(status["state"], "failed");
    assert_eq!(
        status["message"]["parts"],
        json!([
            {"kind": "text", "text": "agent `echo` failed: no"},
            {"kind": "data", "data": {"error_type": "agent_error", "error_message": "agent `echo` failed: no"}},
        ])
    );
    let broken = served.ask("message/send", old("break")).await;
    assert_eq!(
        broken["result"]["status"]["message"]["parts"],
        json!([{"kind": "text", "text": "the agent broke off"}])
    );
}

#[tokio::test]
async fn what_is_no_request_is_refused_with_a_code() {
    let served = Served::new().await;
    let raw = |body: &'static str| {
        let served = &served;
        async move {
            let (status, body) = served.http("POST", "/", "", body).await;
            assert_eq!(status, 200);
            crate::json::from_slice::<Value>(body.as_bytes()).unwrap()["error"]["code"].clone()
        }
    };
    assert_eq!(raw("{").await, NO_JSON);
    assert_eq!(raw("[]").await, NO_REQUEST);
    assert_eq!(
        raw(r#"{"id": 1, "method": "message/send"}"#).await,
        NO_REQUEST
    );
    let code = |method: &'static str, params: Value| {
        let served = &served;
        async move { served.ask(method, params).await["error"]["code"].clone() }
    };
    assert_eq!(code("tasks/list", json!({})).await, NO_METHOD);
    assert_eq!(code("message/send", json!({})).await, BAD_PARAMS);
    assert_eq!(
        code("message/send", json!({"message": {"parts": []}})).await,
        BAD_PARAMS
    );
    assert_eq!(code("message/stream", json!([])).await, BAD_PARAMS);
    assert_eq!(code("tasks/get", json!({"id": 7})).await, BAD_PARAMS);
    assert_eq!(code("GetTask", json!({"id": "x"})).await, NO_TASK);
    let mut params = old("hi");
    params["message"]["taskId"] = json!("x");
    assert_eq!(code("message/send", params.clone()).await, NO_TASK);
    let over = served.ask("message/send", old("hi")).await;
    params["message"]["taskId"] = over["result"]["id"].clone();
    assert_eq!(code("message/send", params).await, NOT_POSSIBLE);
}

#[tokio::test]
async fn the_address_has_a_card_and_ends_with_its_grant() {
    let served = Served::new().await;
    for path in PATHS {
        let (status, body) = served.http("GET", path, "", "").await;
        let card: Value = crate::json::from_slice(body.as_bytes()).unwrap();
        assert_eq!((status, &card["name"]), (200, &json!("echo")));
        assert_eq!(card["url"], json!(format!("{}/", served.grant.url())));
        assert_eq!(card["protocolVersion"], "0.3.0");
        assert_eq!(card["supportedInterfaces"][0]["protocolVersion"], "1.0");
    }
    assert_eq!(served.http("GET", "/mcp", "", "").await.0, 404);
    let foreign = "Origin: http://evil.example\r\n";
    assert_eq!(served.http("GET", PATHS[0], foreign, "").await.0, 403);

    let mut params = old("wait");
    params["configuration"] = json!({"blocking": false});
    served.ask("message/send", params).await;
    let path = served.path().to_owned();
    let Served { gateway, grant } = served;
    drop(grant);
    let other = Served {
        grant: gateway.open(Arc::new(Echo)).await.unwrap(),
        gateway,
    };
    assert_ne!(other.path(), path);
    let card = format!("{}{}", other.path(), PATHS[0]);
    assert_eq!(other.http_at("GET", &card, "", "").await.0, 200);
    let gone = format!("{path}{}", PATHS[0]);
    assert_eq!(other.http_at("GET", &gone, "", "").await.0, 404);
}

#[tokio::test]
async fn no_more_tasks_are_kept_than_a_bound_and_those_that_go_on_stay() {
    let tasks = Tasks::default();
    let start = |text: &str| {
        let message = Message::read(&old(text)["message"]).unwrap();
        tasks.start(Arc::new(Echo), message)
    };
    let waits = start("wait").unwrap();
    let other = |text: &str, context: &str| {
        let mut message = Message::read(&old(text)["message"]).unwrap();
        message.context_id = Some(context.to_owned());
        tasks.start(Arc::new(Echo), message).unwrap()
    };
    let first = other("hi", "first");
    first.over().await;
    for _ in 0..998 {
        other("hi", "many").over().await;
    }
    assert!(tasks.find(&first.task().id).is_some());
    other("hi", "many").over().await;
    assert!(tasks.find(&first.task().id).is_none());
    assert!(tasks.find(&waits.task().id).is_some());
    for _ in 0..999 {
        other("wait", "stuck");
    }
    let refused = start("hi").err();
    let expected = "the agent works on 1000 tasks, and takes no more";
    assert_eq!(refused.as_deref(), Some(expected));
    tasks.close();
    assert_eq!(waits.task().state.name(Wire::V03), "canceled");
}

/// Talks with the agent that has its card there.
async fn talks(card: &str) {
    let agent = A2aAgent::connect("echo", card).await.unwrap();
    let reply = agent.prompt(Prompt::of("hi", LIMIT)).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.tool_calls), ("hi!", 2));
    let context = reply.memory["contextId"].clone();
    assert_eq!(reply.structured, Some(json!({"context": context})));
    let second = Prompt {
        memory: reply.memory,
        ..Prompt::of("more", LIMIT)
    };
    let reply = agent.prompt(second).await.unwrap();
    assert_eq!(reply.structured, Some(json!({"context": context})));
    let failed = agent.prompt(Prompt::of("fail", LIMIT)).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "agent `echo` failed: agent `echo` failed: no (error_type=agent_error)"
    );
    let limit = Duration::from_millis(100);
    let late = agent.prompt(Prompt::of("wait", limit)).await;
    assert!(matches!(late, Err(AgentError::TimedOut { .. })), "{late:?}");
}

#[tokio::test]
async fn our_own_client_talks_with_our_own_server_in_either_dialect() {
    let served = Served::new().await;
    talks(served.grant.url()).await;
    let url = format!("{}/", served.grant.url());
    let card = json!({"name": "old", "protocolVersion": "0.3.0", "url": url});
    let old = Fake::serve(|_| card.clone(), |_, _| Say::Nothing).await;
    talks(&old.url).await;
}

/// Takes envs, and does nothing with them.
#[derive(Default)]
struct Connected(std::sync::Mutex<Vec<[String; 2]>>);

impl AgentDoor for Connected {
    fn name(&self) -> &str {
        "connected"
    }

    fn description(&self) -> &str {
        ""
    }

    fn ask<'a>(&'a self, _: &'a str, _: Vec<Value>) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(async { Ok(Reply::default()) })
    }

    fn takes_envs(&self) -> bool {
        true
    }

    fn connect(&self, env_id: &str, url: &str) -> Result<(), String> {
        if env_id == "no" {
            return Err("not this one".to_owned());
        }
        let env = [env_id.to_owned(), url.to_owned()];
        self.0.lock().unwrap().push(env);
        Ok(())
    }
}

#[tokio::test]
async fn an_agent_that_takes_envs_says_so_in_its_card_and_is_connected() {
    let plain = Served::new().await;
    let (_, card) = plain.http("GET", PATHS[0], "", "").await;
    assert!(!card.contains("mcp-config"), "{card}");
    let env = r#"{"name": "kv", "url": "http://127.0.0.1:1/mcp"}"#;
    let answer = plain.http("POST", "/ext/mcp-config", "", env).await;
    assert_eq!(answer.0, 404);

    let (gateway, door) = (Gateway::new(), Arc::new(Connected::default()));
    let grant = gateway.open(door.clone()).await.unwrap();
    let served = Served { gateway, grant };
    let (_, card) = served.http("GET", PATHS[0], "", "").await;
    assert!(card.contains("urn:agentenv:mcp-config/v1"), "{card}");
    for (body, status) in [
        (env, 200),
        (r#"{"url": "http://127.0.0.1:2/mcp"}"#, 200),
        (r#"{"name": "no", "url": "http://127.0.0.1:2/mcp"}"#, 400),
        (r#"{"url": "file:///etc/passwd"}"#, 400),
        (r#"{"url": 7}"#, 400),
        ("[", 400),
    ] {
        let answer = served.http("POST", "/ext/mcp-config", "", body).await;
        assert_eq!(answer.0, status, "{body}: {}", answer.1);
    }
    let envs = door.0.lock().unwrap().clone();
    let own = |id: &str, url: &str| [id.to_owned(), url.to_owned()];
    let first = own("kv", "http://127.0.0.1:1/mcp");
    assert_eq!(envs, [first, own("env", "http://127.0.0.1:2/mcp")]);
}
