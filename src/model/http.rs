//! Sends one request to an endpoint, and says whether it is worth another try.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode};

use super::anthropic::API_VERSION;
use super::stream::{self, Broken};
use crate::json::{Value, from_slice};
use crate::step::model::ModelError;
use crate::task::model::{Api, ModelSpec};

/// The longest answer that is taken, in bytes.
const MAX_ANSWER: usize = 32 << 20;
/// How much of what an endpoint says of an error is told.
const MAX_ERROR: usize = 600;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// Another try may do better.
    Again {
        /// The error if it was the last try.
        error: ModelError,
        /// How long the endpoint wants to be left alone.
        after: Option<Duration>,
    },
    /// Another try would say the same.
    Final(ModelError),
}

/// Sends requests; connections are kept for the next one.
#[derive(Default)]
pub(super) struct Sender {
    near: OnceLock<Result<Client, String>>,
    far: OnceLock<Result<Client, String>>,
}

impl Sender {
    /// Sends a body and returns the answer.
    pub(super) async fn post(
        &self,
        spec: &ModelSpec,
        key: Option<&str>,
        body: &Value,
        now_us: i64,
    ) -> Result<Value, Fault> {
        let client = self.client(spec).map_err(|why| not_set_up(spec, why))?;
        let headers = headers(spec, key).map_err(|why| not_set_up(spec, why))?;
        let request = client.post(address(spec)).headers(headers).json(body);
        let request = request
            .build()
            .map_err(|_| not_set_up(spec, format!("`{}` is no address", shown(&spec.base_url))))?;
        let limit = Duration::from_secs(spec.timeout_seconds);
        let exchange = async {
            let response = client.execute(request).await;
            let response = response.map_err(|error| lost(spec, error))?;
            let status = response.status();
            let after = retry_after(&response, now_us);
            let kind = response.headers().get("content-type");
            let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let kind = kind.to_owned();
            let body = read(spec, response).await?;
            Ok((status, after, kind, body))
        };
        let (status, after, kind, body) = match tokio::time::timeout(limit, exchange).await {
            Ok(exchanged) => exchanged?,
            Err(_) => {
                return Err(Fault::Again {
                    error: ModelError::TimedOut {
                        model: spec.name.clone(),
                        seconds: limit.as_secs_f64(),
                    },
                    after: None,
                });
            }
        };
        let refused = |status: StatusCode, said: &str| {
            let error = ModelError::Failed {
                model: spec.name.clone(),
                why: format!(
                    "{} answered {status}: {}",
                    shown(&spec.base_url),
                    without_key(said, key)
                ),
                status: Some(status.as_u16()),
            };
            match is_passing(status) {
                true => Fault::Again { error, after },
                false => Fault::Final(error),
            }
        };
        if !status.is_success() {
            return Err(refused(status, &said(&body)));
        }
        let answer = if stream::is_stream(&kind, &body) {
            stream::assemble(spec.api, &body)
        } else {
            let start: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            from_slice(&body).map_err(|_| Broken::Bad(format!("no JSON: {start}")))
        };
        match answer {
            Ok(answer) | Err(Broken::Error(answer)) if has_error(&answer) => {
                Err(refused(status_of(&answer), &said_in(&answer)))
            }
            Ok(answer) | Err(Broken::Error(answer)) => Ok(answer),
            Err(Broken::Early) => Err(Fault::Again {
                error: ModelError::Failed {
                    model: spec.name.clone(),
                    why: format!("the stream of {} broke off", shown(&spec.base_url)),
                    status: Some(status.as_u16()),
                },
                after,
            }),
            Err(Broken::Bad(why)) => Err(Fault::Final(ModelError::BadAnswer {
                model: spec.name.clone(),
                why: without_key(&why, key),
            })),
        }
    }

    /// Returns the client for an endpoint: what is on this machine is not asked through a proxy.
    fn client(&self, spec: &ModelSpec) -> Result<Client, String> {
        let is_near = reqwest::Url::parse(&spec.base_url).is_ok_and(|url| {
            let host = url.host_str().unwrap_or_default();
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let address = host.parse::<std::net::IpAddr>();
            host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        });
        let make = || {
            // It fails where one is installed already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let builder = Client::builder().tcp_nodelay(true);
            // A key must not follow a redirection to somebody else.
            let builder = builder.redirect(reqwest::redirect::Policy::none());
            let builder = builder.connect_timeout(Duration::from_secs(30));
            let builder = match is_near {
                true => builder.no_proxy(),
                false => builder,
            };
            builder
                .build()
                .map_err(|error| format!("no HTTP client can be made: {error}"))
        };
        let slot = if is_near { &self.near } else { &self.far };
        slot.get_or_init(make).clone()
    }
}

fn not_set_up(spec: &ModelSpec, why: String) -> Fault {
    Fault::Final(ModelError::NotSetUp {
        model: spec.name.clone(),
        why,
    })
}

fn address(spec: &ModelSpec) -> String {
    let base = &spec.base_url;
    match spec.api {
        Api::OpenAi => format!("{base}/chat/completions"),
        Api::Anthropic if base.ends_with("/v1") => format!("{base}/messages"),
        Api::Anthropic => format!("{base}/v1/messages"),
    }
}

fn headers(spec: &ModelSpec, key: Option<&str>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let secret = |text: String| {
        let value = HeaderValue::from_str(&text);
        let mut value =
            value.map_err(|_| "its key holds characters that no header may".to_owned())?;
        value.set_sensitive(true);
        Ok::<HeaderValue, String>(value)
    };
    match (spec.api, key) {
        (Api::OpenAi, Some(key)) => {
            headers.insert("authorization", secret(format!("Bearer {key}"))?);
        }
        (Api::Anthropic, Some(key)) => {
            headers.insert("x-api-key", secret(key.to_owned())?);
        }
        (_, None) => {}
    }
    if spec.api == Api::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static(API_VERSION));
    }
    Ok(headers)
}

async fn read(spec: &ModelSpec, mut response: Response) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| lost(spec, error))? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(Fault::Final(ModelError::BadAnswer {
                model: spec.name.clone(),
                why: format!("it is longer than {} MiB", MAX_ANSWER >> 20),
            }));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the fault of a connection that failed or broke.
fn lost(spec: &ModelSpec, error: reqwest::Error) -> Fault {
    // The address may hold a password.
    let error = error.without_url();
    let mut text = error.to_string();
    let mut behind = std::error::Error::source(&error);
    while let Some(error) = behind {
        text = format!("{text}: {error}");
        behind = error.source();
    }
    Fault::Again {
        error: ModelError::Failed {
            model: spec.name.clone(),
            why: format!("{} cannot be reached: {text}", shown(&spec.base_url)),
            status: None,
        },
        after: None,
    }
}

/// Returns whether a status says that it may be another one soon.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425 | 429) || status.is_server_error()
}

/// Returns how long an endpoint wants to be left alone: a number of seconds or a date.
fn retry_after(response: &Response, now_us: i64) -> Option<Duration> {
    let text = response.headers().get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let at_us = crate::system::http_date(text)?;
    Some(Duration::from_micros(
        at_us.saturating_sub(now_us).max(0) as u64
    ))
}

fn has_error(answer: &Value) -> bool {
    let is_answer = answer.get("choices").is_some() || answer.get("content").is_some();
    !is_answer && answer.get("error").is_some_and(|error| !error.is_null())
}

/// Returns the status that an error stands for that came with a good one.
fn status_of(answer: &Value) -> StatusCode {
    let error = answer.get("error");
    let code = error.and_then(|error| error.get("code")?.as_u64());
    let code = code.and_then(|code| u16::try_from(code).ok());
    let kind = error.and_then(|error| error.get("type")?.as_str());
    let code = code.unwrap_or(match kind {
        Some("overloaded_error" | "overloaded") => 529,
        Some("rate_limit_error") => 429,
        Some("api_error" | "server_error" | "timeout_error") => 500,
        Some("authentication_error") => 401,
        _ => 400,
    });
    let status = StatusCode::from_u16(code).ok();
    let status = status.filter(|status| status.is_client_error() || status.is_server_error());
    status.unwrap_or(StatusCode::BAD_REQUEST)
}

/// Returns what a body says of an error.
fn said(body: &[u8]) -> String {
    match from_slice::<Value>(body) {
        Ok(answer) => said_in(&answer),
        Err(_) => cut(&String::from_utf8_lossy(body)),
    }
}

fn said_in(answer: &Value) -> String {
    let error = answer.get("error").unwrap_or(answer);
    let message = error.get("message").or_else(|| answer.get("message"));
    match message.and_then(Value::as_str).or(error.as_str()) {
        Some(text) => cut(text),
        None => cut(&answer.to_string()),
    }
}

fn cut(text: &str) -> String {
    let text = text.trim();
    let start: String = text.chars().take(MAX_ERROR).collect();
    match start.len() < text.len() {
        true => format!("{start}.."),
        false => start,
    }
}

/// Returns an address without what may be secret in it.
fn shown(base_url: &str) -> String {
    match reqwest::Url::parse(base_url) {
        Ok(mut url) => {
            // An address that cannot have them has none.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.set_query(None);
            url.to_string().trim_end_matches('/').to_owned()
        }
        Err(_) => base_url.to_owned(),
    }
}

/// Returns a text without the key: some endpoints say it back.
pub(super) fn without_key(text: &str, key: Option<&str>) -> String {
    match key {
        Some(key) if !key.is_empty() => text.replace(key, "[redacted]"),
        _ => text.to_owned(),
    }
}
