//! Asks one agent over JSON-RPC: requests, their answers, and the way from a message to its end.

use std::error::Error as _;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::super::http::direct_client;
use crate::json::{Value, json};
use crate::step::a2a::card::{Card, PATHS};
use crate::step::a2a::{Message, Method, Task, Told, Wire};
use crate::system::locked;

/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 32 << 20;

/// How often a message is sent where nobody takes connections.
const SENDS: usize = 5;

/// An agent that answers so many questions in a row with nothing, over [`Pace::silence`], is given up.
const SILENT: u32 = 3;

/// The times that are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long an answer may take that needs no work of the agent.
    pub(super) quick: Duration,
    /// How long an agent that is told to give up may take to answer.
    pub(super) last_word: Duration,
    /// The times between two questions whether a task is over: the first, and the longest.
    pub(super) poll: (Duration, Duration),
    /// What is added to them for each question that got no answer, and the most of that.
    pub(super) failed: (Duration, Duration),
    /// The times between two tries to send a message: the first, and the longest.
    pub(super) resend: (Duration, Duration),
    /// How long an agent may give no answer.
    pub(super) silence: Duration,
}

const PACE: Pace = Pace {
    quick: Duration::from_secs(30),
    last_word: Duration::from_secs(5),
    poll: (Duration::from_millis(2), Duration::from_secs(2)),
    failed: (Duration::from_secs(5), Duration::from_secs(60)),
    resend: (Duration::from_secs(2), Duration::from_secs(15)),
    silence: Duration::from_secs(60),
};

/// The codes by which an agent says that it does not speak the dialect.
const NO_SUCH_METHOD: i64 = -32601;
const OTHER_VERSION: i64 = -32009;

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// Nobody takes connections.
    Nobody(String),
    /// The connection or the agent broke off; another try may do.
    Broken(String),
    /// The agent refused.
    Refused {
        /// What was asked.
        what: String,
        /// The code of the error, or the status.
        code: i64,
        /// What it says.
        message: String,
    },
    /// The answer is of no use.
    Bad(String),
}

impl Fault {
    /// Says in a sentence what is wrong.
    pub(super) fn text(&self) -> String {
        match self {
            Fault::Nobody(why) | Fault::Broken(why) | Fault::Bad(why) => why.clone(),
            Fault::Refused {
                what,
                code,
                message,
            } => format!("it refused {what} with code {code}: {message}"),
        }
    }
}

/// The line to one agent.
pub(super) struct Client {
    http: reqwest::Client,
    /// The address that relative ones are below, without a slash at its end.
    base: String,
    ports: Ports,
    card: Card,
    pub(super) pace: Pace,
    /// The dialect, which may be another than the card says.
    wire: Mutex<Wire>,
}

/// Where a message has led to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// A message, and no task.
    Message(Message),
    /// A task that is over, or that waits for more.
    Task(Task),
}

impl Client {
    /// Reads the card of the agent at an address; that may be the address of the card itself. `ports` says how far its
    /// addresses can be trusted.
    pub(super) async fn connect(url: &str, ports: Ports) -> Result<Client, Fault> {
        let http = direct_client().map_err(Fault::Bad)?;
        let url = url.trim_end_matches('/');
        let paths: Vec<(&str, String)> = if url.ends_with(".json") {
            let base = PATHS.iter().find_map(|path| url.strip_suffix(path));
            vec![(base.unwrap_or(origin(url)), url.to_owned())]
        } else {
            let below = |base| {
                PATHS
                    .iter()
                    .map(move |path| (base, format!("{base}{path}")))
            };
            let mut paths: Vec<_> = below(url).collect();
            if url != origin(url) {
                paths.extend(below(origin(url)));
            }
            paths
        };
        let mut looked = Vec::new();
        for (base, path) in &paths {
            let what = format!("a request for its card at {path}");
            let sent = timeout(PACE.quick, http.get(path).send()).await;
            let response = match sent {
                Ok(sent) => sent.map_err(|error| lost(&error, &what, path))?,
                Err(_) => return Err(slow(&what)),
            };
            let status = response.status();
            if !status.is_success() {
                looked.push(format!("{path} answers with status {}", status.as_u16()));
                continue;
            }
            let bytes = body(response, &what).await?;
            // A server that knows nothing of cards may answer any path with a page.
            let Ok(card) = crate::json::from_slice::<Value>(&bytes) else {
                looked.push(format!("{path} is no JSON"));
                continue;
            };
            let mut card = Card::read(&card).map_err(Fault::Bad)?;
            card.url = address(base, &card.url, ports);
            let wire = Mutex::new(card.wire);
            return Ok(Client {
                http,
                base: (*base).to_owned(),
                ports,
                card,
                pace: PACE,
                wire,
            });
        }
        Err(Fault::Bad(format!("it has no card: {}", looked.join(", "))))
    }

    pub(super) fn card(&self) -> &Card {
        &self.card
    }

    pub(super) fn wire(&self) -> Wire {
        *locked(&self.wire)
    }

    /// Sends a request and returns the result.
    async fn rpc(&self, method: Method, params: Value) -> Result<Value, Fault> {
        let wire = self.wire();
        let name = wire.name_of(method);
        let what = format!("`{name}`");
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": name, "params": params});
        let mut request = self.http.post(&self.card.url).json(&body);
        if wire == Wire::V1 {
            request = request.header("a2a-version", wire.version());
        }
        let (status, bytes) = self.exchange(request, &what, &self.card.url).await?;
        let start = || {
            let text = String::from_utf8_lossy(&bytes);
            text.chars().take(200).collect::<String>()
        };
        let answer: Result<Value, _> = crate::json::from_slice(&bytes);
        let mut answer = match answer {
            Ok(answer) if answer.is_object() => answer,
            _ if (200..300).contains(&status) => {
                let why = format!("its answer to {what} is no JSON object: {}", start());
                return Err(Fault::Bad(why));
            }
            _ => Value::Null,
        };
        if let Some(error) = answer.get("error").filter(|error| error.is_object()) {
            let message = error.get("message").and_then(Value::as_str);
            let mut message = message.unwrap_or("no reason given").to_owned();
            if let Some(data) = error.get("data").filter(|data| !data.is_null()) {
                let data = data.to_string();
                message.push_str(&format!(
                    " ({})",
                    data.chars().take(500).collect::<String>()
                ));
            }
            return Err(Fault::Refused {
                what,
                code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
                message,
            });
        }
        if let Some(fault) = refused(status, &what, start()) {
            return Err(fault);
        }
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(Fault::Bad(format!("its answer to {what} has no `result`"))),
        }
    }

    /// Sends a request to an address of an extension, and returns the answer; null where there is none.
    pub(super) async fn extra(&self, endpoint: &str, value: &Value) -> Result<Vec<u8>, Fault> {
        let what = format!("`{endpoint}`");
        let url = address(&self.base, endpoint, self.ports);
        let request = self.http.post(&url).json(value);
        let exchange = self.exchange(request, &what, &url);
        let (status, bytes) = match timeout(6 * self.pace.quick, exchange).await {
            Ok(answer) => answer?,
            Err(_) => return Err(slow(&what)),
        };
        let text = String::from_utf8_lossy(&bytes);
        match refused(status, &what, text.chars().take(500).collect()) {
            Some(fault) => Err(fault),
            None => Ok(bytes),
        }
    }

    async fn exchange(
        &self,
        request: reqwest::RequestBuilder,
        what: &str,
        url: &str,
    ) -> Result<(u16, Vec<u8>), Fault> {
        let sent = request.send().await;
        let response = sent.map_err(|error| lost(&error, what, url))?;
        let status = response.status().as_u16();
        Ok((status, body(response, what).await?))
    }

    /// Sends a message; where nobody takes connections it is sent again a few times.
    pub(super) async fn send(&self, message: &Message) -> Result<Answer, Fault> {
        let mut pause = self.pace.resend.0;
        let mut has_turned = false;
        let mut n = 1;
        loop {
            let wire = self.wire();
            let configuration = match wire {
                Wire::V03 => json!({"blocking": false}),
                Wire::V1 => json!({"returnImmediately": true}),
            };
            let params = json!({"message": message.write(wire), "configuration": configuration});
            let result = match self.rpc(Method::Send, params).await {
                Err(Fault::Refused {
                    code: NO_SUCH_METHOD | OTHER_VERSION,
                    ..
                }) if !has_turned => {
                    // Its card names the other dialect.
                    has_turned = true;
                    *locked(&self.wire) = match wire {
                        Wire::V03 => Wire::V1,
                        Wire::V1 => Wire::V03,
                    };
                    continue;
                }
                Err(Fault::Nobody(_)) if n < SENDS => {
                    sleep(pause).await;
                    n += 1;
                    pause = (2 * pause).min(self.pace.resend.1);
                    continue;
                }
                result => result?,
            };
            let what = wire.name_of(Method::Send);
            return match Told::read(&result) {
                Some(Told::Message(message)) => Ok(Answer::Message(message)),
                Some(Told::Task(task)) => Ok(Answer::Task(task)),
                _ => Err(Fault::Bad(format!(
                    "its answer to `{what}` is neither a message nor a task"
                ))),
            };
        }
    }

    /// Returns where a task stands.
    async fn get(&self, id: &str) -> Result<Task, Fault> {
        let what = self.wire().name_of(Method::Get);
        let asked = self.rpc(Method::Get, json!({"id": id}));
        let result = match timeout(self.pace.quick, asked).await {
            Ok(result) => result?,
            Err(_) => return Err(slow(&format!("`{what}`"))),
        };
        match Told::read(&result) {
            Some(Told::Task(task)) if task.id == id => Ok(task),
            Some(Told::Task(task)) => Err(Fault::Bad(format!(
                "its answer to `{what}` is of task `{}`, and not of `{id}`",
                task.id
            ))),
            _ => Err(Fault::Bad(format!("its answer to `{what}` is no task"))),
        }
    }

    /// Waits until a task is over, or waits for more.
    pub(super) async fn follow(&self, mut task: Task) -> Result<Task, Fault> {
        let mut pause = self.pace.poll.0;
        let mut failures = 0;
        let mut heard = Instant::now();
        while !task.state.is_over() && !task.state.waits() {
            let more = (self.pace.failed.0 * failures).min(self.pace.failed.1);
            sleep(pause + more).await;
            match self.get(&task.id).await {
                Ok(now) => {
                    task = now;
                    failures = 0;
                    heard = Instant::now();
                    pause = (pause * 3 / 2).min(self.pace.poll.1);
                }
                Err(Fault::Nobody(why) | Fault::Broken(why)) => {
                    failures += 1;
                    if failures >= SILENT && heard.elapsed() >= self.pace.silence {
                        return Err(Fault::Broken(format!(
                            "it gives no answer any more while it works on task `{}`: {why}",
                            task.id
                        )));
                    }
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(task)
    }

    /// Tells the agent to give a task up; what it says to that counts for nothing.
    pub(super) async fn cancel(&self, id: &str) {
        let asked = self.rpc(Method::Cancel, json!({"id": id}));
        let _ = timeout(self.pace.last_word, asked).await;
    }
}

/// Returns the fault that a status tells of.
fn refused(status: u16, what: &str, message: String) -> Option<Fault> {
    match status {
        200..300 => None,
        429 | 500..600 => Some(Fault::Broken(format!(
            "it answers {what} with status {status}: {message}"
        ))),
        _ => Some(Fault::Refused {
            what: what.to_owned(),
            code: status.into(),
            message,
        }),
    }
}

fn slow(what: &str) -> Fault {
    Fault::Broken(format!("it does not answer {what}"))
}

fn lost(error: &reqwest::Error, what: &str, url: &str) -> Fault {
    let mut cause: &dyn std::error::Error = error;
    let mut behind = error.source();
    while let Some(error) = behind {
        cause = error;
        behind = error.source();
    }
    if error.is_builder() {
        return Fault::Bad(format!("`{url}` is no address: {cause}"));
    }
    if error.is_connect() {
        return Fault::Nobody(format!("nothing answers at {url}: {cause}"));
    }
    if error.is_redirect() {
        return Fault::Bad(format!("{url} leads nowhere: {cause}"));
    }
    Fault::Broken(format!("the connection broke off at {what}: {cause}"))
}

/// Reads a body, as far as it is taken.
async fn body(mut response: reqwest::Response, what: &str) -> Result<Vec<u8>, Fault> {
    let url = response.url().to_string();
    let mut bytes = Vec::new();
    loop {
        let chunk = response.chunk().await;
        let Some(chunk) = chunk.map_err(|error| lost(&error, what, &url))? else {
            return Ok(bytes);
        };
        if bytes.len() + chunk.len() > MAX_ANSWER {
            return Err(Fault::Bad(format!(
                "its answer to {what} is larger than {} MiB",
                MAX_ANSWER >> 20
            )));
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// Returns the scheme, host and port of an address.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    &url[..end]
}

/// Returns whether an address is one of the machine that it is used on.
fn is_local(url: &str) -> bool {
    let start = url.find("://").map_or(0, |at| at + 3);
    let host = &origin(url)[start..];
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    matches!(host, "localhost" | "::1" | "::" | "0.0.0.0") || host.starts_with("127.")
}

/// How far the addresses of a card can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// As far as the machine is one that can be reached.
    AsSaid,
    /// In the path alone: the agent was told a port that its card need not know.
    AsGiven,
}

/// Returns the address that a card means, as seen from here.
fn address(base: &str, said: &str, ports: Ports) -> String {
    if !said.contains("://") {
        return format!("{base}/{}", said.trim_start_matches('/'));
    }
    let path = &said[origin(said).len()..];
    let is_elsewhere = is_local(said) && !is_local(base);
    if ports == Ports::AsGiven || is_elsewhere {
        return format!("{}{path}", origin(base));
    }
    // Addresses that a server listens on are none that can be asked.
    said.replacen("://0.0.0.0", "://127.0.0.1", 1)
        .replacen("://[::]", "://[::1]", 1)
}

#[cfg(test)]
mod tests;
