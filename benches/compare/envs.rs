//! Live envs alone: the library is called, each part in a process of its own.
//!
//! Every part prints lines of a name and a number, see [`numbers`].

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aebuild::gateway::{Caller, EnvHandle, Gate, GateSettings, Gateway, Keeper, Recorder};
use aebuild::json::{Map, Value, json};
use aebuild::provider::builtin;
use aebuild::step::env::{EnvError, EnvServer, ExtensionCall, LiveEnv};
use aebuild::step::sandbox::{BoxFuture, Put};
use aebuild::system::OsSystem;
use aebuild_cache::{Cache, Options};
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ClientConfig};
use rmcp::model::{Implementation, ServerConfig};
use rmcp::service::{RequestContext, RoleClient, RoleServer, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ClientLifecycleMode, ClientServiceExt, ErrorData, ServerHandler};
use serde::Serialize;

use crate::measure::median;

/// Number of emails of the mailbox whose state is taken.
const EMAILS: usize = 10_000;
/// Number of bytes of the text of each.
const CONTENT: usize = 4_800;
/// Number of clients that call at once.
const CLIENTS: usize = 4;
/// Number of bytes of the large result.
const LARGE: usize = 100_000_000;

/// Reads what a part printed.
pub fn numbers(said: &str) -> HashMap<String, f64> {
    let lines = said.lines().filter_map(|line| line.rsplit_once(' '));
    lines
        .filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?)))
        .collect()
}

fn say(name: &str, number: f64) {
    println!("{name} {number}");
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn caller() -> Caller {
    Caller::new("bench", "default")
}

/// Keeps large answers in a cache.
struct InCache(Cache);

impl Keeper for InCache {
    fn keep(&self, file: &Path) -> Option<String> {
        let blob = self.0.put_blob_file(file).ok()?;
        Some(format!("blob:{}", blob.id))
    }
}

fn gate_of(server: Arc<dyn EnvServer>, folder: &Path) -> (Arc<Gate>, Cache) {
    let cache = Cache::open(&folder.join("cache"), Options::default()).expect("a cache opens");
    let settings = GateSettings {
        env_id: "env".to_owned(),
        call_timeout: Duration::from_secs(60),
        read_only_tools: Vec::new(),
        volatile: Vec::new(),
        exports: true,
        can_export: true,
        clock: aebuild::task::deploy::ClockMode::Real,
    };
    let keeper = Arc::new(InCache(cache.clone()));
    let path = folder.join("calls/calls.jsonl");
    let recorder = Recorder::new(path, keeper, Arc::new(OsSystem));
    (Gate::new(settings, server, recorder, Vec::new()), cache)
}

fn handle_of(gate: &Arc<Gate>) -> EnvHandle {
    EnvHandle::new(gate.clone(), Gateway::new(), caller())
}

/// Starts an env and lists its tools: no less can be done with one.
pub async fn start(name: &str) {
    let server = builtin::start(name, "env").expect("it is compiled in");
    let tools = server.request("tools/list", json!({})).await;
    assert!(tools.expect("it has tools")["tools"].is_array());
}

#[derive(Serialize)]
struct Mail {
    user_email: String,
    now: String,
    next_id: u64,
    emails: Vec<Email>,
}

#[derive(Serialize)]
struct Email {
    email_id: String,
    folder: String,
    sender: String,
    recipients: Vec<String>,
    subject: String,
    content: String,
    cc: Vec<String>,
    parent_id: Option<String>,
    attachments: Vec<()>,
    timestamp: String,
    is_read: bool,
}

#[derive(Serialize)]
struct Part<'a> {
    kind: &'static str,
    data: &'a Mail,
}

/// Returns a mailbox of lines of text, no two emails of which are the same.
fn mailbox() -> Mail {
    let line = "The review is on Friday at ten, and \"Dana\" asks whether that can be moved.\n";
    let emails = (0..EMAILS).map(|at| Email {
        email_id: format!("m{at}"),
        folder: "inbox".to_owned(),
        sender: format!("sender-{at}@example.com"),
        recipients: vec!["user@example.com".to_owned()],
        subject: format!("Review {at}"),
        content: format!("{at}\n{}", line.repeat(CONTENT / line.len())),
        cc: Vec::new(),
        parent_id: None,
        attachments: Vec::new(),
        timestamp: "2026-01-01T08:00:00Z".to_owned(),
        is_read: false,
    });
    Mail {
        user_email: "user@example.com".to_owned(),
        now: "2026-01-01T09:00:00Z".to_owned(),
        next_id: 1,
        emails: emails.collect(),
    }
}

/// Takes the state of a large mailbox and brings it back, as the engine does, part by part.
pub async fn state(rounds: usize, folder: &Path) {
    let mail = mailbox();
    let serialise = || {
        let part = Part {
            kind: "data",
            data: &mail,
        };
        serde_json::to_vec(&[part]).expect("it is JSON")
    };
    let server = builtin::start("mail", "env").expect("it is compiled in");
    let (gate, cache) = gate_of(server, folder);
    handle_of(&gate).load(serialise()).await.expect("it loads");

    let mut times: HashMap<&str, Vec<f64>> = HashMap::new();
    let mut bytes = 0;
    for round in 0..rounds {
        let mut took = |name, since| times.entry(name).or_default().push(ms(since));
        let began = Instant::now();
        let floor = serialise();
        took("serialise", began);
        drop(floor);

        // Each round takes another state, so that each is stored.
        let arguments = json!({"email_id": "m0", "folder": format!("round-{round}")});
        let arguments = arguments.as_object().expect("it is one").clone();
        let moved = handle_of(&gate).call("move_email", arguments).await;
        assert_eq!(moved.expect("it moves")["isError"], false);

        let whole = Instant::now();
        let snapshot = gate.snapshot().await.expect("it exports");
        took("snapshot: export", whole);
        let began = Instant::now();
        let blob = cache.put_blob(&snapshot);
        took("snapshot: hash and store", began);
        took("snapshot", whole);
        let blob = blob.expect("it is stored");
        let began = Instant::now();
        cache.flush().expect("it is durable");
        took("fsync after it", began);
        bytes = snapshot.len();
        drop(snapshot);

        let whole = Instant::now();
        let kept = cache.get_blob(&blob).expect("it is there");
        took("restore: read back", whole);
        let began = Instant::now();
        gate.restore(&kept).await.expect("it is brought back");
        took("restore: import, verifying export", began);
        took("restore", whole);
    }
    for (name, times) in times {
        say(name, median(times));
    }
    say("bytes", bytes as f64);
}

/// The same env without the gateway, over HTTP.
#[derive(Clone)]
struct Direct(Arc<dyn EnvServer>);

impl ServerHandler for Direct {
    fn get_info(&self) -> ServerConfig {
        let config = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "direct", "version": "1"},
        });
        serde_json::from_value(config).expect("it is one")
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let params = json!({"name": request.name, "arguments": request.arguments});
        let answer = self.0.request("tools/call", params).await;
        let fault = |text: String| ErrorData::internal_error(text, None);
        let answer = answer.map_err(|error| fault(error.to_string()))?;
        let result: CallToolResult =
            serde_json::from_value(answer).map_err(|error| fault(error.to_string()))?;
        Ok(CallToolResponse::Complete(result))
    }
}

async fn serve_direct(server: Arc<dyn EnvServer>) -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.expect("it listens");
    let url = format!("http://{}/mcp", listener.local_addr().expect("it has one"));
    let direct = Direct(server);
    let service = StreamableHttpService::new(
        move || Ok(direct.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default().with_sse_retry(None),
    );
    // Without it each call waits for an acknowledgement, some 40 ms, and nothing would be compared.
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        stream.set_nodelay(true).expect("a socket takes it");
    });
    let app = axum::Router::new().route_service("/mcp", service);
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

type Client = RunningService<RoleClient, ClientConfig>;

async fn connect(url: &str, lifecycle: &str) -> Client {
    // It fails where one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true);
    let http = http.build().expect("a client is made");
    let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned());
    let transport = StreamableHttpClientTransport::with_client(http, config);
    let own = Implementation::new("bench", "1");
    let lifecycle = match lifecycle {
        "sessions" => ClientLifecycleMode::Initialize,
        _ => ClientLifecycleMode::Discover {
            preferred_versions: vec![rmcp::model::ProtocolVersion::V_2026_07_28],
        },
    };
    let client = ClientConfig::new(Default::default(), own);
    let served = client.serve_with_lifecycle(transport, lifecycle).await;
    served.expect("it connects")
}

async fn increment(client: &Client) {
    let arguments = json!({"key": "visits"}).as_object().cloned();
    let params = CallToolRequestParams::new("increment").with_arguments(arguments.expect("one"));
    let result = client.call_tool(params).await.expect("it answers");
    assert_eq!(result.is_error, Some(false));
}

/// Calls a tool of a small env: over HTTP with and without the gateway in turn, and without HTTP.
pub async fn calls(n: usize, folder: &Path) {
    let kv = || builtin::start("kv", "env").expect("it is compiled in");
    let (gate, _cache) = gate_of(kv(), folder);
    let handle = handle_of(&gate);
    let url = format!("{}/mcp", handle.url().await.expect("it listens"));
    let direct = serve_direct(kv()).await;
    for lifecycle in ["sessions", "requests"] {
        let clients = [
            connect(&direct, lifecycle).await,
            connect(&url, lifecycle).await,
        ];
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..n + n / 10 {
            for (client, times) in clients.iter().zip(&mut times) {
                let began = Instant::now();
                increment(client).await;
                // The first ones warm it up.
                if round >= n / 10 {
                    times.push(ms(began));
                }
            }
        }
        let [direct, gateway] = times;
        say(&format!("{lifecycle}: direct"), median(direct));
        say(&format!("{lifecycle}: gateway"), median(gateway));
    }
    for lifecycle in ["sessions", "requests"] {
        for (name, url) in [("direct", &direct), ("gateway", &url)] {
            let rate = rate(url, lifecycle, n).await;
            say(&format!("{lifecycle}: {name}, calls/s"), rate);
        }
    }
    let server = kv();
    let params = || json!({"name": "increment", "arguments": {"key": "visits"}});
    let began = Instant::now();
    for _ in 0..n * 10 {
        let answer = server.request("tools/call", params()).await;
        assert_eq!(answer.expect("it answers")["isError"], false);
    }
    say(
        "in process: direct, calls/s",
        (n * 10) as f64 / (ms(began) / 1e3),
    );
    let arguments = params()["arguments"].as_object().expect("one").clone();
    let began = Instant::now();
    for _ in 0..n * 10 {
        let answer = handle.call("increment", arguments.clone()).await;
        assert_eq!(answer.expect("it answers")["isError"], false);
    }
    say(
        "in process: gateway, calls/s",
        (n * 10) as f64 / (ms(began) / 1e3),
    );
}

/// Returns the calls a second of several clients at once.
async fn rate(url: &str, lifecycle: &str, n: usize) -> f64 {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(url, lifecycle).await);
    }
    let began = Instant::now();
    let clients = clients.into_iter().map(|client| {
        tokio::spawn(async move {
            for _ in 0..n {
                increment(&client).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("it calls");
    }
    (CLIENTS * n) as f64 / (ms(began) / 1e3)
}

/// An env with one tool, whose result is large.
struct Large;

impl EnvServer for Large {
    fn request<'a>(&'a self, method: &'a str, _: Value) -> BoxFuture<'a, Result<Value, EnvError>> {
        let answer = match method {
            "tools/list" => json!({"tools": [{"name": "large", "inputSchema": {}}]}),
            _ => {
                let mut result = json!({"content": [{"type": "text"}]});
                let text = "a line of it\n".repeat(LARGE / 13);
                result["content"][0]["text"] = Value::String(text);
                result
            }
        };
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn info(&self) -> Value {
        json!({})
    }

    fn card(&self) -> Option<Value> {
        None
    }

    fn data_plane<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, EnvError>> {
        unreachable!("the bench calls a tool")
    }

    fn export(&self) -> BoxFuture<'_, Result<Vec<u8>, EnvError>> {
        unreachable!("the bench calls a tool")
    }

    fn import<'a>(&'a self, _: &'a [u8]) -> BoxFuture<'a, Result<(), EnvError>> {
        unreachable!("the bench calls a tool")
    }

    fn extension(&self, _: ExtensionCall) -> BoxFuture<'_, Result<Value, EnvError>> {
        unreachable!("the bench calls a tool")
    }

    fn fetch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, EnvError>> {
        unreachable!("the bench calls a tool")
    }

    fn put(&self, _: &[Put]) -> Result<(), EnvError> {
        unreachable!("the bench calls a tool")
    }

    fn gone(&self) -> Option<EnvError> {
        None
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Calls a tool whose result is large: how far does the memory grow over the result itself?
pub async fn large(folder: &Path) {
    let memory = |key: &str| {
        let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
        let line = status.lines().find(|line| line.starts_with(key));
        let digits = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        digits.expect("it is a number") / 1024.0
    };
    let (gate, _cache) = gate_of(Arc::new(Large), folder);
    let handle = handle_of(&gate);
    handle.tools().await.expect("it has tools");
    let before = memory("VmRSS:");
    let began = Instant::now();
    let answer = handle.call("large", Map::new()).await.expect("it answers");
    say("call", ms(began));
    say("held, MiB", memory("VmRSS:") - before);
    say("peak, MiB", memory("VmHWM:") - before);
    assert!(answer["content"].is_array());
    drop(answer);
    let lines = handle.trajectory().expect("it is recorded");
    say("line of the record, bytes", lines.len() as f64);
    let began = Instant::now();
    let answer = Large.request("tools/call", json!({})).await;
    say("the env alone", ms(began));
    drop(answer);
}
