//! The gateway's listener on 127.0.0.1, one for all envs and agents of a run, and the routes of an env below its address.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use super::Caller;
use super::a2a::AgentService;
use super::course_routes;
use super::gate::Gate;
use super::grant::{Routes, Served};
use super::mcp::McpService;
use super::timed::Presence;
use crate::json::{Map, Value, json};
use crate::step::agent::AgentDoor;
use crate::step::env::EnvError;
use crate::system::locked;

/// The header in which a caller says its role.
const ROLE: &str = "agentenv-role";

/// The largest request that is read, in bytes.
pub(super) const MAX_REQUEST: usize = 512 << 20;

/// The gateway of a run.
#[derive(Default)]
pub struct Gateway {
    listener: OnceCell<Listener>,
    pub(super) routes: Routes,
    /// The tokens of addresses that stay the same, by holder, env and role.
    pub(super) lasting: Mutex<HashMap<[String; 3], String>>,
}

pub(super) struct Listener {
    pub(super) port: u16,
    serving: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Clone)]
pub(super) struct Route {
    pub(super) gate: Arc<Gate>,
    pub(super) caller: Caller,
    pub(super) service: McpService,
}

#[derive(Clone)]
struct Shared {
    port: u16,
    /// The one env or agent that is served, at the root.
    alone: Option<Served>,
    /// Has time go on in it.
    _presence: Option<Arc<Presence>>,
    routes: Routes,
}

impl Gateway {
    /// Returns a gateway that listens once an address is asked for.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the port on which it listens; `None` where nobody asked for an address.
    pub fn port(&self) -> Option<u16> {
        self.listener.get().map(|listener| listener.port)
    }

    /// Serves one env and nothing else, at the root of a port of 127.0.0.1, and returns the port; 0 stands for one that is
    /// free.
    pub async fn serve_alone(&self, gate: Arc<Gate>, caller: Caller, port: u16) -> io::Result<u16> {
        let service = McpService::new(gate.clone(), caller.clone());
        let route = Route {
            gate,
            caller,
            service,
        };
        Ok(self
            .listener(port, Some(Served::Env(Box::new(route))))
            .await?
            .port)
    }

    /// Serves one agent and nothing else, as [`Gateway::serve_alone`] does an env.
    pub async fn serve_agent_alone(&self, door: Arc<dyn AgentDoor>, port: u16) -> io::Result<u16> {
        let service = Arc::new(AgentService::new(door));
        Ok(self
            .listener(port, Some(Served::Agent(service)))
            .await?
            .port)
    }

    pub(super) async fn listener(&self, port: u16, alone: Option<Served>) -> io::Result<&Listener> {
        let listen = || async {
            let listener = TcpListener::bind(("127.0.0.1", port)).await?;
            let port = listener.local_addr()?.port();
            let presence = match &alone {
                Some(Served::Env(route)) if route.caller.passes_time => {
                    Some(Arc::new(Presence::of(&route.gate, &route.caller.step)))
                }
                _ => None,
            };
            let shared = Shared {
                port,
                alone,
                _presence: presence,
                routes: self.routes.clone(),
            };
            let app = Router::new().fallback(answer).with_state(shared);
            let serving = tokio::spawn(async move {
                // A stream of events is written in small pieces, which must not wait for each other's receipt.
                let listener = listener.tap_io(|stream| {
                    // Without it the answers are the same, only late.
                    let _ = stream.set_nodelay(true);
                });
                // It serves until it is aborted.
                let _ = axum::serve(listener, app).await;
            });
            Ok(Listener { port, serving })
        };
        self.listener.get_or_try_init(listen).await
    }
}

/// Returns whether a request comes from this machine and not by way of a web page of another origin.
fn is_from_here(headers: &HeaderMap, port: u16) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let hosts = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
    ];
    let host_is_fine = text(header::HOST).is_some_and(|host| hosts.iter().any(|own| own == host));
    let origin_is_fine = match headers.get(header::ORIGIN) {
        None => true,
        Some(_) => text(header::ORIGIN).is_some_and(|origin| {
            let host = origin.strip_prefix("http://");
            host.is_some_and(|host| hosts.iter().any(|own| own == host))
        }),
    };
    host_is_fine && origin_is_fine
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    if !is_from_here(request.headers(), shared.port) {
        return fault(
            StatusCode::FORBIDDEN,
            "the Host or Origin of the request is not this gateway",
        );
    }
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let (token, rest) = match &shared.alone {
        Some(_) => ("", path.as_str()),
        None => path.split_once('/').unwrap_or((&path, "")),
    };
    let known = || {
        locked(&shared.routes)
            .get(token)
            .map(|(_, served)| served.clone())
    };
    let mut route = match shared.alone.clone().or_else(known) {
        Some(Served::Env(route)) => *route,
        Some(Served::Agent(service)) => {
            let at = if token.is_empty() {
                String::new()
            } else {
                format!("/{token}")
            };
            let url = format!("http://127.0.0.1:{}{at}/", shared.port);
            return service.answer(&url, rest, request).await;
        }
        None => {
            return fault(
                StatusCode::NOT_FOUND,
                "there is no env or agent at this address, or its step is over",
            );
        }
    };
    if let Some(role) = request
        .headers()
        .get(ROLE)
        .and_then(|role| role.to_str().ok())
        && route.caller.role == crate::step::env::DEFAULT_ROLE
    {
        route.caller.role = role.to_owned();
    }
    let rest = rest.to_owned();
    // What was asked is done and recorded, also where the caller hangs up meanwhile.
    let answered = tokio::spawn(async move { route.answer(&rest, request).await }).await;
    answered.unwrap_or_else(|error| {
        fault(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("bug: answering failed: {error}"),
        )
    })
}

pub(super) fn fault(status: StatusCode, message: &str) -> Response {
    let body = json!({"ok": false, "error": {"code": status.as_u16(), "message": message}});
    json_response(status, &body)
}

pub(super) fn json_response(status: StatusCode, body: &Value) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        body.to_string(),
    )
        .into_response()
}

impl Route {
    async fn answer(self, path: &str, request: Request) -> Response {
        let method = request.method().clone();
        let server = self.server_path();
        match (method.as_str(), path) {
            (_, "mcp" | "mcp/") => self.service.handle(request).await,
            ("GET", "ready") => json_response(StatusCode::OK, &json!({"ready": true})),
            ("GET", ".well-known/agent-env.json") => match self.card().await {
                Ok(card) => json_response(StatusCode::OK, &card),
                Err(error) => env_fault(&error),
            },
            ("GET", "state") => match self.state().await {
                Ok(state) => json_response(StatusCode::OK, &state),
                Err(error) => env_fault(&error),
            },
            ("GET", "trajectory") => match self.gate.lines() {
                Ok(lines) => ([(header::CONTENT_TYPE, "application/jsonl")], lines).into_response(),
                Err(error) => env_fault(&error),
            },
            ("POST", "agentenv") => self.data_plane(request).await,
            ("POST", "step") => self.step(request).await,
            ("POST", "tools/enable") => self.access(request, true).await,
            ("POST", "tools/disable") => self.access(request, false).await,
            (_, path) if path.starts_with("triggers/") || path.starts_with("clock/") => {
                course_routes::answer(&self.gate, &self.caller, method.as_str(), path, request)
                    .await
            }
            (_, path) if path.starts_with(&server) => {
                let below = path[server.len()..].to_owned();
                self.server_route(method, &below, request).await
            }
            _ => fault(StatusCode::NOT_FOUND, "the gateway has no such path"),
        }
    }

    fn server_path(&self) -> String {
        format!("svc/mcp-{}/", self.gate.env_id())
    }

    async fn server_route(self, method: Method, below: &str, request: Request) -> Response {
        match (method.as_str(), below) {
            ("POST", "agentenv") => self.data_plane(request).await,
            (_, "mcp") => self.service.handle(request).await,
            ("GET", ".well-known/agent-env.json") => match self.gate.server.card() {
                Some(card) => json_response(StatusCode::OK, &card),
                None => fault(StatusCode::NOT_FOUND, "the server has no card"),
            },
            ("GET", path) => match self.gate.server.fetch(path).await {
                Ok(Some(bytes)) => Bytes::from(bytes).into_response(),
                Ok(None) => fault(StatusCode::NOT_FOUND, "the server has no such path"),
                Err(error) => env_fault(&error),
            },
            _ => fault(StatusCode::NOT_FOUND, "the gateway has no such path"),
        }
    }

    /// Returns the card of the env: the gateway's own, with that of the server below it.
    async fn card(&self) -> Result<Value, EnvError> {
        let env_id = self.gate.env_id();
        let tools = self.gate.tools(&self.caller.role).await?;
        let server = format!("/{}", self.server_path());
        let mut children = Vec::new();
        if let Some(mut card) = self.gate.server.card() {
            rewrite_paths(&mut card, server.trim_end_matches('/'));
            children.push(card);
        }
        let route =
            |endpoint: &str, methods: Value| json!({"endpoint": endpoint, "methods": methods});
        Ok(json!({
            "name": env_id,
            "protocolVersion": "1.0",
            "url": "/agentenv",
            "preferredTransport": "JSONRPC",
            "additionalInterfaces": [{"url": "/mcp", "transport": "mcp"}],
            "capabilities": {
                "extensions": [
                    {
                        "uri": "urn:agentenv:tool-access/v1",
                        "description": "allow and forbid tools by role",
                        "required": false,
                        "params": route("/tools", json!({
                            "enable": {"method": "POST", "endpoint": "/tools/enable", "request": {}},
                            "disable": {"method": "POST", "endpoint": "/tools/disable", "request": {}},
                        })),
                    },
                    course_routes::triggers_extension(),
                    course_routes::clock_extension(),
                    {
                        "uri": "urn:agentenv:step/v1",
                        "description": "call tools without MCP",
                        "required": false,
                        "params": route("/step", json!({"step": {"method": "POST", "request": {}}})),
                    },
                    {
                        "uri": "urn:agentenv:trajectory/v1",
                        "description": "the calls so far",
                        "required": false,
                        "params": route("/trajectory", json!({"get": {"method": "GET", "request": {}}})),
                    },
                ],
                "tools": tools.iter().map(declared).collect::<Vec<_>>(),
            },
            "children_environments": children,
        }))
    }

    async fn state(&self) -> Result<Value, EnvError> {
        let tools = self.gate.tools(&self.caller.role).await?;
        let tools: Vec<Value> = tools
            .iter()
            .map(|tool| {
                json!({
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": tool["inputSchema"],
                })
            })
            .collect();
        let access = self.gate.access();
        let roles: Map<String, Value> = access
            .roles()
            .into_iter()
            .map(|role| (role.clone(), access.of_role(&role)))
            .collect();
        Ok(json!({
            "mcp_servers": [{"name": self.gate.env_id(), "tools": tools}],
            "changelog_id": self.gate.counts().1,
            "roles": roles,
            "tool_name_clashes": [],
        }))
    }

    async fn data_plane(&self, request: Request) -> Response {
        let body = match read(request).await {
            Ok(body) => body,
            Err(response) => return response,
        };
        let id = body.get("id").cloned().unwrap_or_default();
        let error = |code: i64, message: &str, data: Value| {
            let mut error = json!({"code": code, "message": message});
            if !data.is_null() {
                error["data"] = data;
            }
            json_response(
                StatusCode::OK,
                &json!({"jsonrpc": "2.0", "id": id, "error": error}),
            )
        };
        let is_request = body.get("jsonrpc") == Some(&json!("2.0"));
        let Some(method) = body
            .get("method")
            .and_then(Value::as_str)
            .filter(|_| is_request)
        else {
            return error(-32600, "the body is no JSON-RPC request", Value::Null);
        };
        let params = body.get("params").cloned().unwrap_or_else(|| json!({}));
        match self.gate.data_plane(&self.caller, method, params).await {
            Ok(result) => json_response(
                StatusCode::OK,
                &json!({"jsonrpc": "2.0", "id": id, "result": result}),
            ),
            Err(EnvError::Refused {
                code,
                message,
                data,
                ..
            }) => error(code, &message, data),
            Err(EnvError::NotSupported { .. }) => error(-32601, "unknown method", Value::Null),
            Err(other) => error(-32000, &other.to_string(), Value::Null),
        }
    }

    async fn step(&self, request: Request) -> Response {
        let body = match read(request).await {
            Ok(body) => body,
            Err(response) => return response,
        };
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("action") {
            "list_tools" => match self.gate.tools(&self.caller.role).await {
                Ok(tools) => json_response(StatusCode::OK, &json!({"tools": tools})),
                Err(error) => env_fault(&error),
            },
            "call_tool" => {
                let tool = text("tool_name");
                let known = match self.gate.all_tools().await {
                    Ok(tools) => {
                        let clock_tools = self.gate.clock_tools(&tools);
                        let mut all = tools.iter().chain(&clock_tools);
                        all.any(|other| other["name"] == tool)
                    }
                    Err(error) => return env_fault(&error),
                };
                if !known {
                    return fault(StatusCode::NOT_FOUND, &format!("there is no tool `{tool}`"));
                }
                let arguments = body.get("arguments").and_then(Value::as_object);
                let arguments = arguments.cloned().unwrap_or_default();
                match self.gate.call(&self.caller, tool, arguments).await {
                    Ok(mut result) => {
                        if let Some(members) = result.as_object_mut() {
                            let id = json!(self.gate.counts().1);
                            members.insert("changelog_id".to_owned(), id);
                        }
                        json_response(StatusCode::OK, &result)
                    }
                    Err(error) => env_fault(&error),
                }
            }
            other => {
                let message = format!("action `{other}` is none of `list_tools`, `call_tool`");
                fault(StatusCode::BAD_REQUEST, &message)
            }
        }
    }

    async fn access(&self, request: Request, enabled: bool) -> Response {
        let body = match read(request).await {
            Ok(body) => body,
            Err(response) => return response,
        };
        let role = body.get("role").and_then(Value::as_str);
        let tools: Option<Vec<String>> = match body.get("tools") {
            Some(Value::String(all)) if all == "*" => Some(vec![all.clone()]),
            Some(Value::Array(tools)) => {
                let text = |tool: &Value| tool.as_str().map(str::to_owned);
                tools.iter().map(text).collect()
            }
            _ => None,
        };
        let (Some(role), Some(tools)) = (role, tools) else {
            let message = "the body needs `role` and `tools`, a list of names or \"*\"";
            return fault(StatusCode::BAD_REQUEST, message);
        };
        match self.gate.set_access(&self.caller, role, &tools, enabled) {
            Ok(after) => json_response(StatusCode::OK, &after),
            Err(error) => env_fault(&error),
        }
    }
}

fn declared(tool: &Value) -> Value {
    json!({
        "name": tool["name"],
        "description": tool["description"],
        "inputSchema": tool["inputSchema"],
    })
}

/// Puts the path of the server before each path of its card.
fn rewrite_paths(card: &mut Value, before: &str) {
    match card {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(path)
                        if (key == "url" || key == "endpoint") && path.starts_with('/') =>
                    {
                        path.insert_str(0, before);
                    }
                    // What a tool or a request takes is no path of the card.
                    _ if key == "tools" || key == "request" => {}
                    other => rewrite_paths(other, before),
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| rewrite_paths(item, before)),
        _ => {}
    }
}

pub(super) async fn read(request: Request) -> Result<Value, Response> {
    let body: Body = request.into_body();
    let bytes = to_bytes(body, MAX_REQUEST)
        .await
        .map_err(|_| fault(StatusCode::PAYLOAD_TOO_LARGE, "the body cannot be read"))?;
    crate::json::from_slice(&bytes).map_err(|error| {
        fault(
            StatusCode::BAD_REQUEST,
            &format!("the body is no JSON: {error}"),
        )
    })
}

pub(super) fn env_fault(error: &EnvError) -> Response {
    let status = match error {
        EnvError::Forbidden { .. } => StatusCode::FORBIDDEN,
        EnvError::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
        EnvError::NotSupported { .. } => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::BAD_GATEWAY,
    };
    fault(status, &error.to_string())
}

/// Returns the role in which an MCP request comes: as its header says, where the address leaves it open.
pub(super) fn role_of(caller: &Caller, headers: Option<&HeaderMap>) -> String {
    let said = headers.and_then(|headers| headers.get(ROLE)?.to_str().ok());
    match said {
        Some(role) if caller.role == crate::step::env::DEFAULT_ROLE => role.to_owned(),
        _ => caller.role.clone(),
    }
}
