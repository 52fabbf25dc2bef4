//! Requests to the engine over its Unix socket, and what its answers mean.
//!
//! The few requests that are needed have been the same for years, so a client for all of them would be many times the
//! size of this.

use std::time::Duration;

use reqwest::{Client, Method, Response};

use crate::json::{Value, json};
use crate::provider::http::install_crypto;

/// The newest version of the API that is spoken; older and newer engines are met where they are.
const NEWEST: (u32, u32) = (1, 47);
/// Where an engine listens that nobody has moved.
const USUAL: &str = "unix:///var/run/docker.sock";
/// How long an engine may take to say which versions it speaks.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// The address is of a kind that is not used.
    #[error("`{address}` is no address of a Unix socket, such as {USUAL}")]
    Address {
        /// The address.
        address: String,
    },
    /// Nothing answers there.
    #[error("no Docker engine answers at {address}: {why}")]
    Unreachable {
        /// The address.
        address: String,
        /// Why not.
        why: String,
    },
    /// It answered that it does not do that.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
}

/// A connection to an engine.
pub(super) struct Api {
    client: Client,
    address: String,
    version: (u32, u32),
}

impl Api {
    /// Finds the engine at an address in the form of `DOCKER_HOST` and settles on a version.
    pub(super) async fn connect(host: Option<&str>) -> Result<Self, ApiError> {
        let address = host.filter(|host| !host.is_empty()).unwrap_or(USUAL);
        let path = address.strip_prefix("unix://");
        let path = path.ok_or_else(|| ApiError::Address {
            address: address.to_owned(),
        })?;
        install_crypto();
        let client = Client::builder().no_proxy().unix_socket(path).build();
        let unreachable = |why: String| ApiError::Unreachable {
            address: address.to_owned(),
            why,
        };
        let client = client.map_err(|error| unreachable(error.to_string()))?;
        let mut api = Api {
            client,
            address: address.to_owned(),
            version: (0, 0),
        };
        let asked = tokio::time::timeout(PATIENCE, api.ask(Method::GET, "/version", None)).await;
        let said = asked.map_err(|_| unreachable(format!("it was silent for {PATIENCE:?}")))??;
        let version = |key: &str| {
            let (major, minor) = said.get(key)?.as_str()?.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let newest = version("ApiVersion")
            .ok_or_else(|| unreachable("what answers does not say its `ApiVersion`".to_owned()))?;
        let oldest = version("MinAPIVersion").unwrap_or(newest);
        api.version = NEWEST.min(newest).max(oldest);
        Ok(api)
    }

    /// Sends a request with JSON, if any, and returns the JSON of the answer, null where there is none.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let mut request = self.client.request(method, self.url(path));
        if let Some(body) = body {
            request = request.json(body);
        }
        let bytes = self.body(self.sent(request).await?).await?;
        Ok(crate::json::from_slice(&bytes).unwrap_or_default())
    }

    /// Returns the bytes of an answer.
    pub(super) async fn get(&self, path: &str) -> Result<Vec<u8>, ApiError> {
        let request = self.client.get(self.url(path));
        self.body(self.sent(request).await?).await
    }

    /// Sends an archive to a path that takes one.
    pub(super) async fn put(&self, path: &str, archive: Vec<u8>) -> Result<(), ApiError> {
        let request = self.client.put(self.url(path));
        let request = request.header("content-type", "application/x-tar");
        self.sent(request.body(archive)).await.map(drop)
    }

    /// Starts work and reads what is said of it, line by line, until it is done. The error is that of the work as well.
    pub(super) async fn work(
        &self,
        path: &str,
        archive: Vec<u8>,
        mut hear: impl FnMut(&str),
    ) -> Result<(), ApiError> {
        let request = self.client.post(self.url(path));
        let request = request.header("content-type", "application/x-tar");
        let mut response = self.sent(request.body(archive)).await?;
        let mut failed = None;
        let mut open = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.lost(&error))? {
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                open.extend_from_slice(piece);
                if piece.ends_with(b"\n") {
                    let line: Value = crate::json::from_slice(&open).unwrap_or_default();
                    open.clear();
                    let text = |key: &str| line.get(key).and_then(Value::as_str);
                    text("stream").into_iter().for_each(&mut hear);
                    failed = failed.or(text("error").map(str::to_owned));
                }
            }
        }
        match failed {
            None => Ok(()),
            Some(message) => Err(ApiError::Refused {
                status: 200,
                message,
            }),
        }
    }

    fn url(&self, path: &str) -> String {
        match self.version {
            (0, _) => format!("http://docker{path}"),
            (major, minor) => format!("http://docker/v{major}.{minor}{path}"),
        }
    }

    async fn sent(&self, request: reqwest::RequestBuilder) -> Result<Response, ApiError> {
        let response = request.send().await.map_err(|error| self.lost(&error))?;
        let status = response.status();
        // 304 is the answer to a start of what runs.
        if status.is_success() || status.as_u16() == 304 {
            return Ok(response);
        }
        let bytes = self.body(response).await?;
        let said: Value = crate::json::from_slice(&bytes).unwrap_or_else(|_| json!({}));
        let message = match said.get("message").and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            None => format!("status {status}"),
        };
        Err(ApiError::Refused {
            status: status.as_u16(),
            message,
        })
    }

    async fn body(&self, response: Response) -> Result<Vec<u8>, ApiError> {
        let bytes = response.bytes().await.map_err(|error| self.lost(&error))?;
        Ok(bytes.to_vec())
    }

    fn lost(&self, error: &reqwest::Error) -> ApiError {
        // The innermost cause says it; those around it name an address that is made up.
        let mut cause: &dyn std::error::Error = error;
        while let Some(behind) = cause.source() {
            cause = behind;
        }
        ApiError::Unreachable {
            address: self.address.clone(),
            why: cause.to_string(),
        }
    }
}
