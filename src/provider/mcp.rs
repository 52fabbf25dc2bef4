//! The client side of MCP: one connection to a server, over pipes or streamable HTTP.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, CompleteRequestParams,
    GetPromptRequestParams, Implementation, ReadResourceRequestParams,
};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::json::{Value, json};
use crate::step::env::{EnvError, LastLines};
use crate::system::locked;

/// A connection to an MCP server.
pub(super) struct McpClient {
    env: String,
    service: RunningService<RoleClient, ClientConfig>,
    limit: u64,
    /// Set once the server wrote a longer line than is taken.
    too_long: Arc<AtomicBool>,
}

/// Why no connection could be made.
pub(super) enum NotConnected {
    /// It answered, but not as the protocol says.
    Refused(String),
    /// It cannot be reached, or was lost meanwhile.
    Lost(String),
}

fn config() -> ClientConfig {
    let own = Implementation::new("aebuild", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), own)
}

impl McpClient {
    /// Connects over pipes; a line longer than `limit` bytes ends the connection, and one that is no message is kept as
    /// what the server said.
    pub(super) async fn over_pipes(
        env: &str,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        limit: u64,
        said: Arc<Mutex<LastLines>>,
    ) -> Result<Self, NotConnected> {
        let too_long = Arc::new(AtomicBool::new(false));
        let read = ShortLines {
            read,
            limit,
            line: 0,
            is_message: false,
            said,
            too_long: too_long.clone(),
        };
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let transport = AsyncRwTransport::new_client(read, write).with_max_line_length(most);
        // A server of the older versions does not know the newer opening and may not answer it at all.
        let served = config()
            .serve_with_lifecycle(transport, ClientLifecycleMode::Initialize)
            .await;
        let service = served.map_err(|error| NotConnected::Lost(plain(&chain(&error))))?;
        Ok(McpClient {
            env: env.to_owned(),
            service,
            limit,
            too_long,
        })
    }

    /// Connects over streamable HTTP.
    pub(super) async fn over_http(
        env: &str,
        url: &str,
        client: reqwest::Client,
        limit: u64,
    ) -> Result<Self, NotConnected> {
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut http = StreamableHttpClientTransportConfig::with_uri(url.to_owned());
        http.max_sse_event_size = most;
        http.max_json_response_size = most;
        let transport = StreamableHttpClientTransport::with_client(client, http);
        let served = config()
            .serve_with_lifecycle(transport, ClientLifecycleMode::Initialize)
            .await;
        let service = served.map_err(|error| {
            let text = plain(&chain(&error));
            if text.contains("error sending request") || text.contains("onnect") {
                NotConnected::Lost(text)
            } else {
                NotConnected::Refused(text)
            }
        })?;
        Ok(McpClient {
            env: env.to_owned(),
            service,
            limit,
            too_long: Arc::default(),
        })
    }

    /// Returns what the server said of itself.
    pub(super) fn info(&self) -> Value {
        let Some(info) = self.service.peer_info() else {
            return json!({"serverInfo": {}, "capabilities": {}});
        };
        let mut info = crate::json::to_value(&*info).unwrap_or_default();
        if let Some(members) = info.as_object_mut() {
            members.retain(|key, _| {
                ["serverInfo", "capabilities", "instructions"].contains(&key.as_str())
            });
        }
        info
    }

    /// Returns whether the connection is over.
    pub(super) fn is_closed(&self) -> bool {
        self.service.is_closed()
    }

    /// Sends a request and returns the result; of lists all pages.
    pub(super) async fn request(&self, method: &str, params: Value) -> Result<Value, EnvError> {
        let service = &self.service;
        // Who reads an error knows the tool, and not how it is called.
        let tool = match method {
            "tools/call" => params
                .get("name")
                .and_then(Value::as_str)
                .map(str::to_owned),
            _ => None,
        };
        let answer = match method {
            "tools/list" => list("tools", service.list_all_tools().await),
            "resources/list" => list("resources", service.list_all_resources().await),
            "resources/templates/list" => list(
                "resourceTemplates",
                service.list_all_resource_templates().await,
            ),
            "prompts/list" => list("prompts", service.list_all_prompts().await),
            "tools/call" => {
                let params: CallToolRequestParams = self.read(method, params)?;
                whole(service.call_tool(params).await)
            }
            "resources/read" => {
                let params: ReadResourceRequestParams = self.read(method, params)?;
                whole(service.read_resource(params).await)
            }
            "prompts/get" => {
                let params: GetPromptRequestParams = self.read(method, params)?;
                whole(service.get_prompt(params).await)
            }
            "completion/complete" => {
                let params: CompleteRequestParams = self.read(method, params)?;
                whole(service.complete(params).await)
            }
            _ => {
                return Err(EnvError::NotSupported {
                    env: self.env.clone(),
                    what: format!("be asked for `{method}`"),
                });
            }
        };
        answer.map_err(|error| self.error(tool.as_deref().unwrap_or(method), error))
    }

    fn read<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<T, EnvError> {
        T::deserialize(params).map_err(|error| EnvError::Refused {
            env: self.env.clone(),
            what: format!("`{method}`"),
            code: -32602,
            message: format!("the parameters are none: {error}"),
            data: Value::Null,
        })
    }

    fn error(&self, method: &str, error: ServiceError) -> EnvError {
        let (env, what) = (self.env.clone(), format!("`{method}`"));
        let text = plain(&chain(&error));
        match error {
            _ if self.too_long.load(Ordering::SeqCst) || is_too_large(&text) => {
                EnvError::TooLarge {
                    env,
                    what,
                    limit: self.limit,
                }
            }
            ServiceError::McpError(error) => EnvError::Refused {
                env,
                what,
                code: error.code.0.into(),
                message: error.message.into_owned(),
                data: error.data.unwrap_or_default(),
            },
            ServiceError::TransportClosed
            | ServiceError::TransportSend(_)
            | ServiceError::Cancelled { .. } => EnvError::Gone {
                env,
                why: text,
                tail: String::new(),
            },
            _ => EnvError::BadAnswer {
                env,
                what,
                why: text,
            },
        }
    }
}

fn is_too_large(text: &str) -> bool {
    text.contains("exceed") && (text.contains("size") || text.contains("limit"))
}

/// Returns what an error says without the names of the library's own types.
fn plain(text: &str) -> String {
    let start = text
        .rfind("] error: ")
        .map_or(0, |at| at + "] error: ".len());
    text[start..].to_owned()
}

/// Returns what an error says with all that is behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        behind = error.source();
    }
    text
}

fn list<T: Serialize>(
    key: &str,
    items: Result<Vec<T>, ServiceError>,
) -> Result<Value, ServiceError> {
    Ok(json!({key: items?}))
}

fn whole<T: Serialize>(answer: Result<T, ServiceError>) -> Result<Value, ServiceError> {
    crate::json::to_value(answer?).map_err(|_| ServiceError::UnexpectedResponse)
}

/// A stream of lines that ends at one that is too long, so that what a server writes is never held whole without limit.
struct ShortLines<R> {
    read: R,
    limit: u64,
    /// The length of the line so far.
    line: u64,
    /// Whether the line begins as a message does.
    is_message: bool,
    /// Where lines go that are no messages.
    said: Arc<Mutex<LastLines>>,
    too_long: Arc<AtomicBool>,
}

impl<R> ShortLines<R> {
    /// Looks at what was read; returns whether all lines are short enough.
    fn look(&mut self, read: &[u8]) -> bool {
        for piece in read.split_inclusive(|byte| *byte == b'\n') {
            if self.line == 0 {
                self.is_message = piece[0] == b'{';
            }
            if !self.is_message {
                locked(&self.said).push(piece);
            }
            self.line += piece.len() as u64;
            if self.line > self.limit {
                return false;
            }
            if piece.ends_with(b"\n") {
                self.line = 0;
            }
        }
        true
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for ShortLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.read).poll_read(cx, buffer);
        if matches!(polled, Poll::Ready(Ok(()))) && !self.look(&buffer.filled()[before..]) {
            self.too_long.store(true, Ordering::SeqCst);
            return Poll::Ready(Err(io::Error::other("the line is too long")));
        }
        polled
    }
}
