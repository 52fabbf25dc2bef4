//! What becomes of a task, told as it happens: a stream of server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::Response;
use tokio::sync::mpsc;

use super::tasks::Entry;
use crate::json::{Value, json};
use crate::step::a2a::{Task, Wire};

/// How often a line is sent that says nothing but that the connection stands.
const ALIVE: Duration = Duration::from_secs(15);

struct Events(mpsc::Receiver<Bytes>);

impl futures_core::Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let received = self.get_mut().0.poll_recv(cx);
        received.map(|bytes| bytes.map(Ok))
    }
}

/// Returns the answer that tells of a task until it is over; the request has this id.
pub(super) fn stream(wire: Wire, id: Value, entry: &Entry) -> Response {
    let mut now = entry.subscribe();
    let (send, receive) = mpsc::channel(4);
    tokio::spawn(async move {
        let event = |result: Value| {
            let body = json!({"jsonrpc": "2.0", "id": id, "result": result});
            Bytes::from(format!("data: {body}\n\n"))
        };
        let first = now.borrow_and_update().clone();
        let is_over = first.state.is_over();
        let task = first.write(wire);
        let told = match wire {
            Wire::V03 => task,
            Wire::V1 => json!({"task": task}),
        };
        // Whoever hangs up is told nothing more, and the task goes on.
        if send.send(event(told)).await.is_err() || is_over {
            return;
        }
        loop {
            let over = async {
                let over = now.wait_for(|task| task.state.is_over()).await;
                over.ok().map(|task| task.clone())
            };
            tokio::select! {
                over = over => {
                    if let Some(task) = over {
                        let _ = send.send(event(update(wire, &task))).await;
                    }
                    return;
                }
                () = tokio::time::sleep(ALIVE) => {
                    if send.send(Bytes::from_static(b": it goes on\n\n")).await.is_err() {
                        return;
                    }
                }
                () = send.closed() => return,
            }
        }
    });
    let mut response = Response::new(Body::from_stream(Events(receive)));
    let headers = response.headers_mut();
    let text = header::HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, text);
    let fresh = header::HeaderValue::from_static("no-cache");
    headers.insert(header::CACHE_CONTROL, fresh);
    response
}

/// Writes the end of a task.
fn update(wire: Wire, task: &Task) -> Value {
    let mut update = json!({
        "taskId": task.id,
        "contextId": task.context_id,
        "status": task.status(wire),
    });
    match wire {
        Wire::V03 => {
            update["kind"] = json!("status-update");
            update["final"] = json!(true);
            update
        }
        Wire::V1 => json!({"statusUpdate": update}),
    }
}
