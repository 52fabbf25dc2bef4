//! The HTTP side of envs: the card, the data plane, extensions.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Client, Method, StatusCode};

use crate::json::{Value, json};
use crate::step::env::{EnvError, ExtensionCall};

/// Returns a client that goes straight to its peer.
pub(super) fn direct_client() -> Result<Client, String> {
    static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();
    let make = || {
        install_crypto();
        let builder = Client::builder().no_proxy().tcp_nodelay(true);
        let builder = builder.connect_timeout(Duration::from_secs(10));
        builder.build().map_err(|error| error.to_string())
    };
    CLIENT.get_or_init(make).clone()
}

/// Makes the cryptography known without which no client is made, also one that never uses it.
pub(super) fn install_crypto() {
    // It fails where one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The HTTP side of one env.
pub(super) struct HttpSide {
    env: String,
    client: Client,
    /// The address that paths are below, without a slash at its end.
    base: String,
    /// Where the card says that the data plane is.
    plane: String,
    limit: u64,
    card: Option<Value>,
}

/// The methods that make a whole data plane.
const TRIO: [&str; 3] = ["data/reset", "data/add", "data/get"];

impl HttpSide {
    /// Reads the card of the env at an address.
    pub(super) async fn at(
        env: &str,
        base: &str,
        client: Client,
        limit: u64,
    ) -> Result<Self, EnvError> {
        let mut side = HttpSide {
            env: env.to_owned(),
            client,
            base: base.trim_end_matches('/').to_owned(),
            plane: "/agentenv".to_owned(),
            limit,
            card: None,
        };
        let what = "a request for its card";
        let path = "/.well-known/agent-env.json";
        let Some(bytes) = side.get(path, what).await? else {
            return Ok(side);
        };
        // A server that knows nothing of cards may answer any path with a page.
        let card: Option<Value> = crate::json::from_slice(&bytes).ok();
        let card = card.filter(|card| card.get("protocolVersion").is_some());
        if let Some(url) = card.as_ref().and_then(|card| card.get("url")?.as_str()) {
            side.plane = url.to_owned();
        }
        side.card = card;
        Ok(side)
    }

    /// Returns the card.
    pub(super) fn card(&self) -> Option<Value> {
        self.card.clone()
    }

    /// Returns whether the card offers the whole data plane.
    pub(super) fn can_export(&self) -> bool {
        let Some(card) = &self.card else { return false };
        match card
            .pointer("/capabilities/operations")
            .and_then(Value::as_array)
        {
            // A card that lists none offers all.
            None => true,
            Some(offered) => TRIO.iter().all(|method| offered.contains(&json!(method))),
        }
    }

    fn address(&self, path: &str) -> String {
        if path.starts_with("http://") || path.starts_with("https://") {
            path.to_owned()
        } else {
            format!("{}/{}", self.base, path.trim_start_matches('/'))
        }
    }

    /// Returns what is at a path; `None` where nothing is.
    pub(super) async fn get(&self, path: &str, what: &str) -> Result<Option<Vec<u8>>, EnvError> {
        let sent = self.client.get(self.address(path)).send().await;
        let response = sent.map_err(|error| self.lost(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Ok(None);
        }
        self.body(response, what).await.map(Some)
    }

    /// Reads a body, as far as it is taken.
    async fn body(&self, mut response: reqwest::Response, what: &str) -> Result<Vec<u8>, EnvError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.lost(&error))? {
            if (body.len() + chunk.len()) as u64 > self.limit {
                return Err(EnvError::TooLarge {
                    env: self.env.clone(),
                    what: what.to_owned(),
                    limit: self.limit,
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn lost(&self, error: &reqwest::Error) -> EnvError {
        let mut text = error.to_string();
        let mut behind = std::error::Error::source(error);
        while let Some(error) = behind {
            text = format!("{text}: {error}");
            behind = error.source();
        }
        EnvError::Gone {
            env: self.env.clone(),
            why: text,
            tail: String::new(),
        }
    }

    fn bad(&self, what: &str, why: String) -> EnvError {
        EnvError::BadAnswer {
            env: self.env.clone(),
            what: what.to_owned(),
            why,
        }
    }

    /// Sends a request to the data plane and returns the result.
    pub(super) async fn data_plane(&self, method: &str, params: Value) -> Result<Value, EnvError> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.rpc(method, body.to_string().into_bytes()).await
    }

    async fn rpc(&self, method: &str, body: Vec<u8>) -> Result<Value, EnvError> {
        let what = format!("`{method}`");
        if self.card.is_none() {
            return Err(EnvError::NotSupported {
                env: self.env.clone(),
                what: format!("be asked for {what}: it has no AgentEnv card"),
            });
        }
        let request = self.client.post(self.address(&self.plane)).body(body);
        let request = request.header("content-type", "application/json");
        let sent = request.send().await;
        let response = sent.map_err(|error| self.lost(&error))?;
        let status = response.status();
        let bytes = self.body(response, &what).await?;
        let mut answer: Value = crate::json::from_slice(&bytes).map_err(|_| {
            let text = String::from_utf8_lossy(&bytes);
            let start: String = text.chars().take(200).collect();
            self.bad(&what, format!("status {status}, and no JSON: {start}"))
        })?;
        if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
            return Err(EnvError::Refused {
                env: self.env.clone(),
                what,
                code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
                message: error
                    .get("message")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
                data: error.get("data").cloned().unwrap_or_default(),
            });
        }
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(self.bad(&what, format!("status {status}, and no `result`"))),
        }
    }

    /// Returns the exported state.
    pub(super) async fn export(&self) -> Result<Vec<u8>, EnvError> {
        let result = self.data_plane("data/get", json!({})).await?;
        match result.get("parts") {
            Some(Value::Array(parts)) => Ok(crate::json::to_string(parts)
                .unwrap_or_default()
                .into_bytes()),
            _ => Err(self.bad("`data/get`", "it has no list `parts`".to_owned())),
        }
    }

    /// Loads an exported state in place of what is there.
    pub(super) async fn import(&self, parts: &[u8]) -> Result<(), EnvError> {
        self.data_plane("data/reset", json!({})).await?;
        // A state of no parts is the empty one.
        if parts == b"[]" {
            return Ok(());
        }
        let mut body =
            br#"{"jsonrpc":"2.0","id":1,"method":"data/add","params":{"parts":"#.to_vec();
        body.extend_from_slice(parts);
        body.extend_from_slice(b"}}");
        self.rpc("data/add", body).await.map(drop)
    }

    /// Calls a method of an extension.
    pub(super) async fn extension(&self, call: ExtensionCall) -> Result<Value, EnvError> {
        let what = format!("`{}`", call.uri);
        let method = Method::from_bytes(call.verb.as_bytes())
            .map_err(|_| self.bad(&what, format!("`{}` is no HTTP method", call.verb)))?;
        let mut url = self.address(&call.endpoint);
        let reads = method == Method::GET;
        if reads && !call.arguments.is_empty() {
            let pairs = call.arguments.iter().map(|(key, value)| {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                format!("{}={}", escaped(key), escaped(&text))
            });
            url = format!("{url}?{}", pairs.collect::<Vec<_>>().join("&"));
        }
        let mut request = self.client.request(method, url);
        if !reads {
            request = request.json(&call.arguments);
        }
        let sent = request.send().await;
        let response = sent.map_err(|error| self.lost(&error))?;
        let status = response.status();
        let bytes = self.body(response, &what).await?;
        let text = String::from_utf8_lossy(&bytes);
        if !status.is_success() {
            return Err(EnvError::Refused {
                env: self.env.clone(),
                what,
                code: status.as_u16().into(),
                message: text.chars().take(500).collect(),
                data: Value::Null,
            });
        }
        if bytes.is_empty() || status == StatusCode::NO_CONTENT {
            return Ok(Value::Null);
        }
        crate::json::from_slice(&bytes).map_err(|_| {
            self.bad(
                &what,
                format!("no JSON: {}", text.chars().take(200).collect::<String>()),
            )
        })
    }
}

/// Returns a text as it stands in a query.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
