//! The routes of the triggers and the clock of an env, below its address.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;

use super::Caller;
use super::gate::Gate;
use super::http::{env_fault, json_response, read};
use crate::json::{Value, json};
use crate::step::env::EnvError;

/// Answers a request to `/triggers/..` or `/clock/..`.
pub(super) async fn answer(
    gate: &Gate,
    caller: &Caller,
    method: &str,
    path: &str,
    request: Request,
) -> Response {
    match (method, path) {
        ("GET", "triggers/state") => {
            let state = gate.course.inner().engine.state();
            json_response(StatusCode::OK, &state)
        }
        ("GET", "clock/state") => json_response(StatusCode::OK, &gate.clock_state()),
        ("GET", "clock/time") => match gate.course.now() {
            Some(now) => json_response(StatusCode::OK, &json!({"current_time": now.to_string()})),
            None => refuse(StatusCode::NOT_FOUND, "the clock is not set"),
        },
        ("POST", "clock/clear") => {
            gate.clear_clock(caller);
            json_response(StatusCode::OK, &gate.clock_state())
        }
        ("POST", "triggers/clear") => {
            gate.unregister(caller, None);
            json_response(StatusCode::OK, &json!({"ok": true}))
        }
        ("POST", "triggers/register" | "triggers/remove") | ("PUT", "clock/set-time") => {
            let body = match read(request).await {
                Ok(body) => body,
                Err(response) => return response,
            };
            with_body(gate, caller, path, &body).await
        }
        _ => refuse(StatusCode::NOT_FOUND, "the gateway has no such path"),
    }
}

async fn with_body(gate: &Gate, caller: &Caller, path: &str, body: &Value) -> Response {
    let done = match path {
        "triggers/register" => {
            let added = gate.register(caller, body).await;
            added.map(|added| json!({"ok": true, "added": added}))
        }
        "triggers/remove" => {
            let ids = body.get("ids").and_then(Value::as_array);
            let text = |id: &Value| id.as_str().map(str::to_owned);
            let Some(ids) = ids.and_then(|ids| ids.iter().map(text).collect::<Option<Vec<_>>>())
            else {
                return refuse(
                    StatusCode::BAD_REQUEST,
                    "the body needs `ids`, a list of texts",
                );
            };
            Ok(json!({"ok": true, "removed": gate.unregister(caller, Some(&ids))}))
        }
        _ => {
            let Some(time) = body.get("virtual_time").and_then(Value::as_str) else {
                return refuse(
                    StatusCode::BAD_REQUEST,
                    "the body needs `virtual_time`, a text",
                );
            };
            let rate = match body.get("virtual_seconds_per_real_second") {
                None | Some(Value::Null) => Some(1.0),
                Some(rate) => rate.as_f64(),
            };
            let Some(rate) = rate else {
                let why = "`virtual_seconds_per_real_second` is no number";
                return refuse(StatusCode::BAD_REQUEST, why);
            };
            gate.set_clock(caller, time, rate).await
        }
    };
    match done {
        Ok(done) => json_response(StatusCode::OK, &done),
        Err(EnvError::Refused { code, message, .. }) if code == 400 || code == 409 => {
            let status = match code {
                409 => StatusCode::CONFLICT,
                _ => StatusCode::BAD_REQUEST,
            };
            refuse(status, &message)
        }
        Err(error) => env_fault(&error),
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    json_response(status, &json!({"ok": false, "error": why}))
}

fn route(method: &str, endpoint: &str) -> Value {
    json!({"method": method, "endpoint": endpoint, "request": {}})
}

/// Returns what the card says of the triggers.
pub(super) fn triggers_extension() -> Value {
    json!({
        "uri": "urn:agentenv:triggers/v1",
        "description": "have things happen when calls are made, states are reached or times come",
        "required": false,
        "params": {
            "endpoint": "/triggers",
            "methods": {
                "register": route("POST", "/triggers/register"),
                "remove": route("POST", "/triggers/remove"),
                "clear": route("POST", "/triggers/clear"),
                "state": route("GET", "/triggers/state"),
            },
            "features": ["named_executors", "when_roles", "delays", "executor_hours", "executor_hours_time_zone", "unless"],
        },
    })
}

/// Returns what the card says of the clock.
pub(super) fn clock_extension() -> Value {
    json!({
        "uri": "urn:agentenv:clock/v1",
        "description": "a virtual clock",
        "required": false,
        "params": {
            "endpoint": "/clock",
            "methods": {
                "set_time": route("PUT", "/clock/set-time"),
                "clear": route("POST", "/clock/clear"),
                "time": route("GET", "/clock/time"),
                "state": route("GET", "/clock/state"),
            },
        },
    })
}
