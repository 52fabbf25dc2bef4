//! Asks models: knows their endpoints, keeps what they answered, counts what is spent.
//!
//! An [`Exchange`] is there once a run: it holds the limits of each endpoint and of the run. Each run of a step asks through an
//! [`Asker`] of its own, which counts how often the step asked the same: the first, second and third time are different
//! calls, and each is kept. What was asked before is answered from the store, and no connection is made. A key goes into
//! the header of a request and nowhere else. Nobody here knows steps or where the store is.

mod anthropic;
mod budget;
mod format;
mod http;
mod openai;
mod price;
mod stream;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Semaphore};

pub use budget::Limits;
pub use format::VERSION as FORMAT_VERSION;

use crate::digest::{Digest, Digester};
use crate::json::Value;
use crate::step::model::{ChatMessage, ChatReply, ChatRequest, Finish, ModelError, Models, Usage};
use crate::step::sandbox::BoxFuture;
use crate::system::{System, locked};
use crate::task::model::{Api, ModelSpec, reserved};
use budget::Budget;
use http::{Fault, Sender};

/// The wait before the first retry; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait that nobody asked for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait that an endpoint may ask for.
const LONGEST_ASKED_WAIT: Duration = Duration::from_secs(600);

/// Keeps what models answered.
pub trait CallStore: Send + Sync {
    /// Returns what is kept under a key.
    fn get(&self, key: &Digest) -> Option<Vec<u8>>;
    /// Keeps bytes under a key, in place of what was there. What cannot be kept is asked again next time.
    fn put(&self, key: &Digest, bytes: &[u8]);
}

/// How models are asked in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The tables `[models.<name>]`.
    pub tables: BTreeMap<String, Value>,
    /// What the run may spend.
    pub limits: Limits,
    /// Whether every model is asked anew, whatever is kept.
    pub ask_anew: bool,
}

/// The way to all models, once a run.
pub struct Exchange {
    settings: Settings,
    store: Arc<dyn CallStore>,
    system: Arc<dyn System>,
    sender: Sender,
    budget: Budget,
    first_wait: Duration,
    /// How many requests an endpoint takes at once, by its address.
    permits: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// Calls under way, so that who asks the same at the same time waits for the one answer.
    flights: Mutex<HashMap<Digest, Arc<AsyncMutex<()>>>>,
    /// What endpoints were found not to know, by model.
    manners: Mutex<HashMap<String, Manner>>,
}

impl Exchange {
    /// Returns an exchange; no connection is made yet.
    pub fn new(settings: Settings, store: Arc<dyn CallStore>, system: Arc<dyn System>) -> Self {
        let budget = Budget::new(settings.limits.clone());
        Exchange {
            settings,
            store,
            system,
            sender: Sender::default(),
            budget,
            first_wait: FIRST_WAIT,
            permits: Mutex::default(),
            flights: Mutex::default(),
            manners: Mutex::default(),
        }
    }

    /// Returns the models as one run of a step asks them.
    pub fn asker(self: &Arc<Self>, step: &str, sample: u32, attempt: u32) -> Asker {
        Asker {
            exchange: self.clone(),
            step: step.to_owned(),
            sample,
            attempt,
            asked: Mutex::default(),
            usage: Mutex::default(),
        }
    }

    /// Returns what the run has spent; answers from the store cost nothing and are only counted.
    pub fn spent(&self) -> Usage {
        self.budget.spent()
    }

    /// Returns the limit that kept a request from being sent, with what was spent; `None` while none did.
    pub fn over_budget(&self) -> Option<String> {
        self.budget.reached()
    }

    fn spec(&self, model: &str) -> ModelSpec {
        ModelSpec::of(model, &self.settings.tables, &|name| {
            self.system.variable(name)
        })
    }

    /// Returns the key of an endpoint.
    fn key(&self, spec: &ModelSpec) -> Result<Option<String>, ModelError> {
        let Some(name) = &spec.key_variable else {
            return Ok(None);
        };
        let value = self.system.variable(name).unwrap_or_default();
        match value.trim() {
            "" => Err(ModelError::NotSetUp {
                model: spec.name.clone(),
                why: missing_key(spec, name),
            }),
            key => Ok(Some(key.to_owned())),
        }
    }

    fn permits(&self, spec: &ModelSpec) -> Arc<Semaphore> {
        let mut all = locked(&self.permits);
        let known = all.entry(spec.base_url.clone()).or_insert_with(|| {
            // Tables of one endpoint share it, so the most careful of them counts.
            let tables = self.settings.tables.keys().map(|name| self.spec(name));
            let of_it = tables.filter(|other| other.base_url == spec.base_url);
            let least = of_it.map(|other| other.max_concurrent).min();
            let n = least.unwrap_or(spec.max_concurrent).clamp(1, 1 << 16);
            Arc::new(Semaphore::new(n as usize))
        });
        known.clone()
    }

    /// Sends a request until it is answered or it is clear that it will not be.
    /// What was sent is counted, also where there is no answer in the end.
    async fn ask(
        &self,
        spec: &ModelSpec,
        request: &ChatRequest,
        sent: &mut Usage,
    ) -> Result<ChatReply, ModelError> {
        let key = self.key(spec)?;
        let permits = self.permits(spec);
        let known = locked(&self.manners).get(&spec.name).copied();
        let mut manner = known.unwrap_or_default();
        let mut n_retries = 0;
        loop {
            let answer = {
                // A semaphore that is never closed always gives a permit.
                let _permit = permits.acquire().await;
                self.budget.check(spec)?;
                let one = Usage {
                    requests: 1,
                    retried: (sent.requests > 0).into(),
                    ..Usage::default()
                };
                self.budget.count(&one);
                sent.add(&one);
                self.once(spec, key.as_deref(), request, manner).await
            };
            let (error, asked_wait) = match answer {
                Ok(mut reply) => {
                    if Some(manner) != known {
                        locked(&self.manners).insert(spec.name.clone(), manner);
                    }
                    self.budget.add(spec, &reply.usage);
                    reply.usage.requests = sent.requests;
                    reply.usage.retried = sent.retried;
                    return Ok(reply);
                }
                // Where what is given up was not the reason, the next answer says the reason again.
                Err(Fault::Final(ModelError::Failed { model, why, status }))
                    if is_too_long(status, &why) =>
                {
                    return Err(ModelError::TooLong { model, why });
                }
                Err(Fault::Final(error)) => match manner.without(spec, request, &error) {
                    Some(other) => {
                        manner = other;
                        continue;
                    }
                    None => return Err(error),
                },
                Err(Fault::Again { error, after }) => (error, after),
            };
            if n_retries >= spec.max_retries {
                return Err(error);
            }
            n_retries += 1;
            let wait = match asked_wait {
                Some(asked) if asked > LONGEST_ASKED_WAIT => return Err(error),
                Some(asked) => asked,
                None => backoff(self.first_wait, n_retries, random()),
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn once(
        &self,
        spec: &ModelSpec,
        key: Option<&str>,
        request: &ChatRequest,
        manner: Manner,
    ) -> Result<ChatReply, Fault> {
        let in_words = manner.schema_in_words.then(|| schema_in_words(request));
        let request = in_words.as_ref().unwrap_or(request);
        let body = match spec.api {
            Api::OpenAi => openai::body(spec, request),
            Api::Anthropic => anthropic::body(spec, request, manner.thinks_by_itself),
        };
        let now_us = self.system.now_us();
        let answer = self.sender.post(spec, key, &body, now_us).await?;
        let read = match spec.api {
            Api::OpenAi => openai::read(&answer),
            Api::Anthropic => anthropic::read(&answer),
        };
        let mut reply = read.map_err(|why| {
            Fault::Final(ModelError::BadAnswer {
                model: spec.name.clone(),
                why: http::without_key(&why, key),
            })
        })?;
        let billed = match spec.api {
            Api::OpenAi => reply.usage.input_tokens.map(|n| n as f64),
            Api::Anthropic => anthropic::billed(&answer),
        };
        price::add_cost(spec, &mut reply.usage, billed);
        Ok(reply)
    }
}

/// The models as one run of a step asks them.
pub struct Asker {
    exchange: Arc<Exchange>,
    step: String,
    sample: u32,
    attempt: u32,
    /// How often each request was made.
    asked: Mutex<HashMap<Digest, u64>>,
    usage: Mutex<Usage>,
}

impl Asker {
    /// Returns what the run of the step has asked so far.
    pub fn usage(&self) -> Usage {
        *locked(&self.usage)
    }

    async fn answer(&self, request: ChatRequest) -> Result<ChatReply, ModelError> {
        let exchange = &self.exchange;
        let spec = exchange.spec(&request.model);
        if let Some(param) = reserved(&request.params) {
            return Err(ModelError::NotSetUp {
                model: spec.name,
                why: format!("its parameters hold `{param}`, which is said elsewhere"),
            });
        }
        let key = self.key(&spec, &request);
        if exchange.settings.ask_anew {
            return self.ask(&spec, &request, &key).await;
        }
        let flight = locked(&exchange.flights).entry(key).or_default().clone();
        let reply = {
            let _first = flight.lock().await;
            match exchange
                .store
                .get(&key)
                .and_then(|kept| format::decode(&kept))
            {
                Some(mut reply) => {
                    reply.from_cache = true;
                    reply.usage.cached = 1;
                    let one = Usage {
                        cached: 1,
                        ..Usage::default()
                    };
                    exchange.budget.count(&one);
                    locked(&self.usage).add(&one);
                    Ok(reply)
                }
                None => self.ask(&spec, &request, &key).await,
            }
        };
        let mut flights = locked(&exchange.flights);
        // This one and the one in the table are the last.
        if Arc::strong_count(&flight) <= 2 {
            flights.remove(&key);
        }
        reply
    }

    async fn ask(
        &self,
        spec: &ModelSpec,
        request: &ChatRequest,
        key: &Digest,
    ) -> Result<ChatReply, ModelError> {
        let mut sent = Usage::default();
        let reply = self.exchange.ask(spec, request, &mut sent).await;
        let usage = reply.as_ref().map_or(sent, |reply| reply.usage);
        locked(&self.usage).add(&usage);
        let reply = reply?;
        // An empty answer says nothing, unless it ends work with tools; whoever asks again gets the chance of a better one.
        let is_empty = reply.text.is_empty() && reply.calls.is_empty();
        let is_refused = reply.finish == Finish::Refusal;
        let has_worked = matches!(request.messages.last(), Some(ChatMessage::Tool { .. }));
        if !is_refused && (!is_empty || (has_worked && reply.finish == Finish::Stop)) {
            let (store, key, kept) = (self.exchange.store.clone(), *key, format::encode(&reply));
            // It may wait for the disk. A panic in there has said what it is.
            let _ = tokio::task::spawn_blocking(move || store.put(&key, &kept)).await;
        }
        Ok(reply)
    }

    /// Returns what a request is kept under: all that decides the answer, the step, the sample, the attempt of the step,
    /// and how often this run of the step made the same request before. Two steps that ask the same are two samples, as
    /// they are where their results are kept.
    fn key(&self, spec: &ModelSpec, request: &ChatRequest) -> Digest {
        let asks = Digest::of_value(&format::request(spec, request));
        let ordinal = {
            let mut asked = locked(&self.asked);
            let n = asked.entry(asks).or_default();
            *n += 1;
            *n - 1
        };
        let mut digester = Digester::new("model call");
        digester.number(format::VERSION).digest(&asks);
        digester.text(&self.step);
        digester.number(self.sample.into()).number(ordinal);
        if self.attempt > 1 {
            digester.number(self.attempt.into());
        }
        digester.finish()
    }
}

impl Models for Asker {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatReply, ModelError>> {
        Box::pin(self.answer(request))
    }
}

/// Says what to do about a key that is not there.
fn missing_key(spec: &ModelSpec, variable: &str) -> String {
    let name = &spec.name;
    match spec.has_table {
        true => format!(
            "the variable `{variable}`, which holds its key, is not set; set it, or name another with `key_variable` in \
             [models.{name}] of aebuild.toml"
        ),
        false => format!(
            "nothing says how it is reached; set `{variable}`, or add [models.{name}] with `api` and `base_url` to \
             aebuild.toml"
        ),
    }
}

/// What is given up of a request for an endpoint that does not know it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Manner {
    /// The schema of the answer is asked for in words.
    schema_in_words: bool,
    /// How much the model thinks is left to it.
    thinks_by_itself: bool,
}

impl Manner {
    /// Returns what to give up after an endpoint refused a request; `None` where there is nothing left.
    fn without(
        mut self,
        spec: &ModelSpec,
        request: &ChatRequest,
        error: &ModelError,
    ) -> Option<Manner> {
        let ModelError::Failed {
            status: Some(400 | 422),
            why,
            ..
        } = error
        else {
            return None;
        };
        let may_think = spec.api == Api::Anthropic && request.max_thinking_tokens.is_some();
        if may_think && !self.thinks_by_itself && why.contains("thinking") {
            self.thinks_by_itself = true;
        } else if request.output_schema.is_some() && !self.schema_in_words {
            self.schema_in_words = true;
        } else {
            return None;
        }
        Some(self)
    }
}

/// Returns whether an endpoint refused a request because it is longer than the model reads; each says it in its own words.
fn is_too_long(status: Option<u16>, why: &str) -> bool {
    const WORDS: [&str; 7] = [
        "context length",
        "context_length",
        "context window",
        "context size",
        "prompt is too long",
        "input is too long",
        "too many tokens",
    ];
    let why = why.to_lowercase();
    match status {
        Some(413) => true,
        Some(400 | 422) => WORDS.iter().any(|words| why.contains(words)),
        _ => false,
    }
}

/// Returns the request that asks in words for what the endpoint would not take as a schema.
fn schema_in_words(request: &ChatRequest) -> ChatRequest {
    let mut request = request.clone();
    if let Some(schema) = request.output_schema.take() {
        let words = format!(
            "Answer with one JSON value that fits this JSON Schema, and with nothing else:\n{schema}"
        );
        request.messages.insert(0, ChatMessage::System(words));
    }
    request
}

/// Returns the wait before a retry: twice as long each time, and by chance up to half shorter.
fn backoff(first: Duration, n_retries: u64, chance: f64) -> Duration {
    let doublings = u32::try_from(n_retries.saturating_sub(1)).unwrap_or(u32::MAX);
    let whole = first.saturating_mul(2_u32.saturating_pow(doublings));
    whole.min(LONGEST_WAIT).mul_f64(1.0 - chance / 2.0)
}

/// Returns a number from 0 to 1 by chance.
fn random() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness all wait the whole time.
    if getrandom::fill(&mut bytes).is_err() {
        return 0.0;
    }
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
