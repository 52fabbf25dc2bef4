//! Agents alone: the library serves one over A2A and is asked, in a process of its own.
//!
//! Every part prints lines of a name and a number, see [`crate::envs::numbers`].

use std::sync::Arc;
use std::time::Instant;

use aebuild::gateway::Gateway;
use aebuild::json::{Value, json};
use aebuild::step::agent::{AgentDoor, AgentError, Reply, text_of};
use aebuild::step::sandbox::BoxFuture;

use crate::measure::median;

/// Number of clients that ask at once.
const CLIENTS: usize = 4;

/// Answers at once.
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
        _: &'a str,
        parts: Vec<Value>,
    ) -> BoxFuture<'a, Result<Reply, AgentError>> {
        let reply = Reply {
            text: text_of(&parts),
            ..Reply::default()
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// Serves what answers every request with the same few bytes: no less can be asked over HTTP.
async fn serve_floor() -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.expect("it listens");
    let url = format!("http://{}/", listener.local_addr().expect("it has one"));
    // Without it each answer may wait for an acknowledgement, and nothing would be compared.
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        stream.set_nodelay(true).expect("a socket takes it");
    });
    let app = axum::Router::new().fallback(async || r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#);
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

fn client() -> reqwest::Client {
    // It fails where one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true);
    http.build().expect("a client is made")
}

/// Returns a message in a dialect.
fn message(dialect: &str) -> Vec<u8> {
    let (method, role, part) = match dialect {
        "1.0" => ("SendMessage", "ROLE_USER", json!({"text": "hello"})),
        _ => (
            "message/send",
            "user",
            json!({"kind": "text", "text": "hello"}),
        ),
    };
    let message = json!({"messageId": "m", "role": role, "parts": [part]});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}});
    body.to_string().into_bytes()
}

async fn ask(http: &reqwest::Client, url: &str, message: &[u8]) {
    let request = http.post(url).header("content-type", "application/json");
    let answer = request.body(message.to_vec()).send().await;
    let bytes = answer.expect("it answers").bytes().await;
    let answer: Value = serde_json::from_slice(&bytes.expect("it says all")).expect("it is JSON");
    assert!(answer["result"].is_object(), "{answer}");
}

/// Sends messages to an agent that answers at once, and to the floor, in turn.
pub async fn messages(n: usize) {
    let gateway = Gateway::new();
    let grant = gateway.open(Arc::new(Echo)).await.expect("it listens");
    let agent = format!("{}/", grant.url());
    let floor = serve_floor().await;
    for dialect in ["0.3", "1.0"] {
        let message = message(dialect);
        let lanes = [(&floor, client()), (&agent, client())];
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..n + n / 10 {
            for ((url, http), times) in lanes.iter().zip(&mut times) {
                let began = Instant::now();
                ask(http, url, &message).await;
                // The first ones warm it up.
                if round >= n / 10 {
                    times.push(began.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
        for (who, times) in ["floor", "agent"].iter().zip(times) {
            println!("{dialect}: {who} {}", median(times));
        }
        for (who, url) in [("floor", &floor), ("agent", &agent)] {
            println!(
                "{dialect}: {who}, messages/s {}",
                rate(url, &message, n).await
            );
        }
    }
}

/// Returns the messages a second of several clients at once.
async fn rate(url: &str, message: &[u8], n: usize) -> f64 {
    let began = Instant::now();
    let clients = (0..CLIENTS).map(|_| {
        let (http, url, message) = (client(), url.to_owned(), message.to_vec());
        tokio::spawn(async move {
            for _ in 0..n {
                ask(&http, &url, &message).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("it asks");
    }
    (CLIENTS * n) as f64 / began.elapsed().as_secs_f64()
}
