//! Agents that serve A2A as badly as a test asks for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::task::JoinHandle;

use super::client::Pace;
use crate::json::{Value, from_slice, json};

/// What a fake agent does with a request.
pub enum Say {
    /// It answers with the result of a JSON-RPC request.
    Result(Value),
    /// It answers with an error of JSON-RPC.
    Error(i64, &'static str),
    /// It answers with a status and a body.
    Raw(u16, Vec<u8>),
    /// It never answers.
    Nothing,
    /// It breaks off in the middle.
    Half,
}

type Answers = Arc<dyn Fn(&str, &Value) -> Say + Send + Sync>;

/// An agent that is served in the test.
pub struct Fake {
    pub url: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    serving: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Fake {
    /// Serves a card, made of the address, and these answers by method, or by path for what is no JSON-RPC.
    pub async fn serve(
        card: impl Fn(&str) -> Value,
        answers: impl Fn(&str, &Value) -> Say + Send + Sync + 'static,
    ) -> Fake {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let card = card(&url);
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let (log, answers): (_, Answers) = (asked.clone(), Arc::new(answers));
        let answer = move |request: Request<Body>| {
            let (card, log, answers) = (card.clone(), log.clone(), answers.clone());
            async move { answer(request, card, log, answers).await }
        };
        let app = Router::new().fallback(answer);
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Fake {
            url,
            asked,
            serving,
        }
    }

    /// What was asked, by method or path, without the requests for the card.
    pub fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }

    /// The names of what was asked, each once in a row.
    pub fn names(&self) -> String {
        let mut names: Vec<String> = self.asked().into_iter().map(|(name, _)| name).collect();
        names.dedup();
        names.join(" ")
    }
}

async fn answer(
    request: Request<Body>,
    card: Value,
    log: Arc<Mutex<Vec<(String, Value)>>>,
    answers: Answers,
) -> Response {
    let path = request.uri().path().to_owned();
    if request.method() == Method::GET {
        return match path.as_str() {
            "/.well-known/agent.json" => axum::Json(card).into_response(),
            _ => StatusCode::NOT_FOUND.into_response(),
        };
    }
    let bytes = axum::body::to_bytes(request.into_body(), 1 << 20)
        .await
        .unwrap();
    let body: Value = from_slice(&bytes).unwrap();
    let (name, asked) = match body.get("method").and_then(Value::as_str) {
        Some(method) => (method.to_owned(), body["params"].clone()),
        None => (path, body.clone()),
    };
    log.lock().unwrap().push((name.clone(), asked.clone()));
    let rpc = |key: &str, value: Value| {
        axum::Json(json!({"jsonrpc": "2.0", "id": body["id"], key: value})).into_response()
    };
    match answers(&name, &asked) {
        Say::Result(result) => rpc("result", result),
        Say::Error(code, message) => rpc("error", json!({"code": code, "message": message})),
        Say::Raw(status, bytes) => (StatusCode::from_u16(status).unwrap(), bytes).into_response(),
        Say::Nothing => std::future::pending().await,
        Say::Half => Response::builder()
            .header("content-length", "1000")
            .body(Body::from("{"))
            .unwrap(),
    }
}

/// A card of dialect 0.3.
pub fn old_card(url: &str) -> Value {
    json!({"name": "old", "protocolVersion": "0.3.0", "url": format!("{url}/a2a"),
           "preferredTransport": "JSONRPC", "capabilities": {}})
}

/// A card of dialect 1.0.
pub fn new_card(url: &str) -> Value {
    json!({"name": "new", "capabilities": {}, "supportedInterfaces": [
        {"url": format!("{url}/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
    ]})
}

/// Times that no test waits for.
pub const SHORT: Pace = Pace {
    quick: Duration::from_millis(300),
    last_word: Duration::from_millis(300),
    poll: (Duration::from_millis(1), Duration::from_millis(5)),
    failed: (Duration::from_millis(1), Duration::from_millis(5)),
    resend: (Duration::from_millis(1), Duration::from_millis(5)),
    silence: Duration::from_millis(20),
};
