//! Models asked at an endpoint that a test scripts.

use std::collections::HashMap;

use super::fake::{Answer, FakeEndpoint};
use super::*;
use crate::json::{Map, from_slice, json};
use crate::step::model::{Content, Finish, ToolDecl};
use crate::system::MemorySystem;

/// What a test keeps in memory.
#[derive(Default)]
struct Kept(Mutex<HashMap<Digest, Vec<u8>>>);

impl CallStore for Kept {
    fn get(&self, key: &Digest) -> Option<Vec<u8>> {
        locked(&self.0).get(key).cloned()
    }

    fn put(&self, key: &Digest, bytes: &[u8]) {
        locked(&self.0).insert(*key, bytes.to_vec());
    }
}

const KEY: &str = "sk-very-secret-key";

/// An exchange whose model `fake` is at an endpoint, and the store behind it.
struct Place {
    endpoint: FakeEndpoint,
    kept: Arc<Kept>,
    table: Value,
    limits: Limits,
    ask_anew: bool,
}

impl Place {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let endpoint = FakeEndpoint::new(answers);
        let table = json!({"base_url": endpoint.url, "key_variable": "FAKE_KEY", "max_retries": 3});
        Place {
            endpoint,
            kept: Arc::default(),
            table,
            limits: Limits::default(),
            ask_anew: false,
        }
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.table[key] = value;
        self
    }

    fn exchange(&self) -> Arc<Exchange> {
        let settings = Settings {
            tables: BTreeMap::from([("fake".to_owned(), self.table.clone())]),
            limits: self.limits.clone(),
            ask_anew: self.ask_anew,
        };
        let system = MemorySystem::new();
        system.set_variable("FAKE_KEY", Some(KEY));
        // The moment that HTTP writes as the date that the tests name.
        system.advance_us(784_111_777_000_000);
        let mut exchange = Exchange::new(settings, self.kept.clone(), Arc::new(system));
        exchange.first_wait = Duration::ZERO;
        Arc::new(exchange)
    }

    /// Asks once, as a run of a step that asks nothing else.
    async fn ask(&self, text: &str) -> Result<ChatReply, ModelError> {
        self.exchange().asker("reply", 0, 1).chat(say(text)).await
    }

    async fn fails(&self) -> String {
        match self.ask("Hi").await {
            Ok(reply) => panic!("it answered {reply:?}"),
            Err(error) => error.to_string().replace(&self.endpoint.url, "URL"),
        }
    }
}

fn say(text: &str) -> ChatRequest {
    ChatRequest {
        model: "fake".to_owned(),
        messages: vec![ChatMessage::User(vec![Content::Text(text.to_owned())])],
        ..ChatRequest::default()
    }
}

#[tokio::test]
async fn a_plain_answer_is_counted_and_its_key_goes_into_the_header_alone() {
    let place = Place::new([Answer::text("Hello")])
        .with("input_price_per_mtok", json!(10))
        .with("output_price_per_mtok", json!(50));
    let exchange = place.exchange();
    let asker = exchange.asker("reply", 0, 1);
    let reply = asker.chat(say("Hi")).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("Hello", Finish::Stop));
    assert_eq!(reply.model, "fake-1");
    let spent = Usage {
        requests: 1,
        retried: 0,
        cached: 0,
        input_tokens: Some(100),
        output_tokens: Some(20),
        cost_usd: Some(0.002),
    };
    assert_eq!(
        (reply.usage, asker.usage(), exchange.spent()),
        (spent, spent, spent)
    );
    let asked = &place.endpoint.asked()[0];
    assert_eq!(asked.path, "/v1/chat/completions");
    let head = asked.head.to_lowercase();
    assert!(head.contains(&format!("authorization: bearer {KEY}")));
    assert!(!asked.body.contains(KEY));
    let kept = locked(&place.kept.0);
    assert!(
        kept.values()
            .all(|bytes| !String::from_utf8_lossy(bytes).contains(KEY))
    );
}

#[tokio::test]
async fn anthropic_is_asked_in_its_own_way() {
    let answer = json!({
        "model": "m", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    });
    let place = Place::new([Answer::json(answer)]).with("api", json!("anthropic"));
    assert_eq!(place.ask("Hi").await.unwrap().text, "Hello");
    let asked = &place.endpoint.asked()[0];
    let head = asked.head.to_lowercase();
    assert_eq!(asked.path, "/v1/messages");
    assert!(
        head.contains(&format!("x-api-key: {KEY}"))
            && head.contains("anthropic-version: 2023-06-01")
    );
}

#[tokio::test]
async fn a_second_ask_makes_no_connection_and_costs_nothing() {
    let place = Place::new([Answer::call("look", "{\"at\":1}")]);
    let first = place.ask("Hi").await.unwrap();
    assert_eq!(place.endpoint.connections(), 1);
    let exchange = place.exchange();
    let asker = exchange.asker("reply", 0, 1);
    let again = asker.chat(say("Hi")).await.unwrap();
    assert_eq!(
        (place.endpoint.connections(), place.endpoint.n_asked()),
        (1, 1)
    );
    assert!(again.from_cache && !first.from_cache);
    assert_eq!((&again.calls, &again.finish), (&first.calls, &first.finish));
    assert_eq!((again.usage.requests, again.usage.cached), (0, 1));
    assert_eq!(
        (again.usage.input_tokens, again.usage.cost_usd),
        (Some(100), None)
    );
    let nothing = Usage {
        cached: 1,
        ..Usage::default()
    };
    assert_eq!((asker.usage(), exchange.spent()), (nothing, nothing));
}

#[tokio::test]
async fn the_same_question_again_of_another_step_sample_or_attempt_is_another_call() {
    let texts = ["a", "b", "c", "d", "e", "f"];
    let place = Place::new(texts.map(Answer::text));
    let exchange = place.exchange();
    let ask = async |asker: &Asker, text: &str| asker.chat(say(text)).await.unwrap().text;
    let first = exchange.asker("reply", 0, 1);
    assert_eq!(ask(&first, "Hi").await, "a");
    assert_eq!(ask(&first, "Hi").await, "b");
    assert_eq!(ask(&first, "Ho").await, "c");
    assert_eq!(ask(&exchange.asker("reply", 1, 1), "Hi").await, "d");
    assert_eq!(ask(&exchange.asker("reply", 0, 2), "Hi").await, "e");
    assert_eq!(ask(&exchange.asker("other", 0, 1), "Hi").await, "f");
    // All of them are kept, each as what it was.
    let later = place.exchange();
    let again = later.asker("reply", 0, 1);
    assert_eq!(ask(&again, "Hi").await, "a");
    assert_eq!(ask(&again, "Ho").await, "c");
    assert_eq!(ask(&again, "Hi").await, "b");
    assert_eq!(ask(&later.asker("reply", 1, 1), "Hi").await, "d");
    assert_eq!(ask(&later.asker("reply", 0, 2), "Hi").await, "e");
    assert_eq!(ask(&later.asker("other", 0, 1), "Hi").await, "f");
    assert_eq!(place.endpoint.n_asked(), 6);
}

#[tokio::test]
async fn every_part_of_a_request_is_in_its_key() {
    let mut others = vec![say("Hi"); 7];
    others[1].effort = Some("low".to_owned());
    others[2].output_schema = Some(json!({"type": "object"}));
    others[3].params = Map::from_iter([("temperature".to_owned(), json!(1))]);
    others[4].max_thinking_tokens = Some(1);
    others[5]
        .messages
        .insert(0, ChatMessage::System("x".to_owned()));
    others[6].tools.push(ToolDecl {
        name: "t".to_owned(),
        description: String::new(),
        schema: json!({}),
    });
    let place = Place::new(others.iter().map(|_| Answer::text("x")));
    for request in &others {
        let reply = place
            .exchange()
            .asker("reply", 0, 1)
            .chat(request.clone())
            .await;
        assert!(!reply.unwrap().from_cache);
    }
    let moved = Place::new([Answer::text("x")]);
    let moved = Place {
        kept: place.kept.clone(),
        ..moved
    };
    assert!(!moved.ask("Hi").await.unwrap().from_cache);
}

#[tokio::test]
async fn who_asks_the_same_at_the_same_time_waits_for_the_one_answer() {
    let place = Place::new([Answer::text("a")]);
    let exchange = place.exchange();
    let (one, other) = (exchange.asker("reply", 0, 1), exchange.asker("reply", 0, 1));
    let (one, other) = tokio::join!(one.chat(say("Hi")), other.chat(say("Hi")));
    assert_eq!(
        (one.unwrap().text, other.unwrap().text),
        ("a".to_owned(), "a".to_owned())
    );
    assert_eq!(place.endpoint.n_asked(), 1);
    assert!(locked(&exchange.flights).is_empty());
}

#[tokio::test]
async fn models_are_asked_anew_where_the_run_says_so_and_the_new_answer_is_kept() {
    let mut place = Place::new([Answer::text("a"), Answer::text("b")]);
    assert_eq!(place.ask("Hi").await.unwrap().text, "a");
    place.ask_anew = true;
    assert_eq!(place.ask("Hi").await.unwrap().text, "b");
    place.ask_anew = false;
    let kept = place.ask("Hi").await.unwrap();
    assert!(kept.from_cache && kept.text == "b");
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_does_not_is_told() {
    let busy = Answer::status(429, "slow down").header("retry-after", "0");
    let date = Answer::status(503, "").header("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT");
    let broken = Answer::status(500, "oops");
    let place = Place::new([busy.clone(), date, broken.clone(), Answer::text("Hello")]);
    let reply = place.ask("Hi").await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.requests), ("Hello", 4));

    let place = Place::new(vec![broken.clone(); 4]);
    assert_eq!(
        place.fails().await,
        "model `fake` did not answer: URL answered 500 Internal Server Error: oops"
    );
    assert_eq!(place.endpoint.n_asked(), 4);
    assert!(locked(&place.kept.0).is_empty());

    let echo = json!({"error": {"message": format!("bad key {KEY}")}}).to_string();
    let place = Place::new([Answer::status(401, &echo), Answer::text("never")]);
    assert_eq!(
        place.fails().await,
        "model `fake` did not answer: URL answered 401 Unauthorized: bad key [redacted]"
    );
    assert_eq!(place.endpoint.n_asked(), 1);

    let never = Answer::status(429, "come back tomorrow").header("retry-after", "86400");
    let place = Place::new([never, Answer::text("never")]);
    assert!(
        place
            .fails()
            .await
            .ends_with("429 Too Many Requests: come back tomorrow")
    );
    assert_eq!(place.endpoint.n_asked(), 1);

    let hidden = Answer::json(json!({"error": {"type": "overloaded_error", "message": "busy"}}));
    let place = Place::new([hidden, Answer::text("Hello")]);
    assert_eq!(place.ask("Hi").await.unwrap().usage.requests, 2);
}

#[tokio::test]
async fn a_request_that_is_too_long_is_told_apart() {
    for (status, said) in [
        (400, "This model's maximum context length is 8192 tokens."),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (413, "Request Entity Too Large"),
    ] {
        let place = Place::new([Answer::status(status, said)]);
        let error = place.exchange().asker("reply", 0, 1).chat(say("Hi")).await;
        let error = error.unwrap_err();
        assert!(
            matches!(&error, ModelError::TooLong { why, .. } if why.ends_with(said)),
            "{error}"
        );
        assert_eq!(place.endpoint.n_asked(), 1);
    }
    let place = Place::new([Answer::status(400, "no such model")]);
    assert!(place.fails().await.ends_with("no such model"));
}

#[tokio::test]
async fn an_endpoint_that_never_answers_is_waited_for_so_long() {
    let place = Place::new([Answer::nothing()]).with("max_retries", json!(0));
    let place = place.with("timeout_seconds", json!(1));
    assert_eq!(
        place.fails().await,
        "model `fake` did not answer within 1 s"
    );
    place.endpoint.wait_for(1);
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_tried_as_often_as_is_said() {
    let mut place = Place::new([]).with("max_retries", json!(1));
    // Nobody listens on the port of a listener that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://user:password@{}/v1", gone.local_addr().unwrap());
    drop(gone);
    place.table["base_url"] = json!(url);
    let exchange = place.exchange();
    let error = exchange
        .asker("reply", 0, 1)
        .chat(say("Hi"))
        .await
        .unwrap_err();
    assert!(matches!(error, ModelError::Failed { status: None, .. }));
    assert!(!error.to_string().contains("password"), "{error}");
    assert_eq!(exchange.spent().requests, 2);
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error_and_is_not_kept() {
    let place = Place::new([Answer::json("{\"choices\": [")]);
    assert_eq!(
        place.fails().await,
        "model `fake` answered with what its API does not allow: no JSON: {\"choices\": ["
    );
    let place = Place::new([Answer::json("{\"choices\": []}")]);
    assert_eq!(
        place.fails().await,
        "model `fake` answered with what its API does not allow: it holds no choice"
    );
    let place = Place::new([Answer::text(&"x".repeat(50 << 20))]);
    assert_eq!(
        place.fails().await,
        "model `fake` answered with what its API does not allow: it is longer than 32 MiB"
    );
    let place = Place::new([Answer::text(""), Answer::text("Hello"), Answer::text("")]);
    assert_eq!(place.ask("Hi").await.unwrap().text, "");
    assert_eq!(place.ask("Hi").await.unwrap().text, "Hello");
    // After work with tools there may be nothing to say.
    let mut worked = say("Hi");
    worked.messages.push(ChatMessage::Tool {
        id: "a".to_owned(),
        name: "send".to_owned(),
        content: vec![Content::Text("sent".to_owned())],
        is_error: false,
    });
    for is_kept in [false, true] {
        let exchange = place.exchange();
        let asker = exchange.asker("reply", 0, 1);
        let reply = asker.chat(worked.clone()).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.from_cache), ("", is_kept));
    }
}

#[tokio::test]
async fn a_refusal_is_an_answer_that_is_not_kept() {
    let message = json!({"content": null, "refusal": "I will not."});
    let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    let place = Place::new([Answer::json(&body), Answer::json(&body)]);
    let reply = place.ask("Hi").await.unwrap();
    assert_eq!(
        (reply.finish, reply.text.as_str()),
        (Finish::Refusal, "I will not.")
    );
    let again = place.ask("Hi").await.unwrap();
    assert_eq!((again.finish, again.from_cache), (Finish::Refusal, false));
    assert_eq!(reply.usage.cost_usd, None);
}

#[tokio::test]
async fn a_stream_that_nobody_asked_for_is_taken_and_one_that_breaks_off_is_asked_for_again() {
    let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let stream =
        |body: String| Answer::status(200, &body).header("content-type", "text/event-stream");
    let place = Place::new([stream(piece.to_owned()), stream(format!("{piece}{end}"))]);
    let reply = place.ask("Hi").await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.requests), ("Hi", 2));
}

#[tokio::test]
async fn a_schema_that_the_endpoint_does_not_know_is_asked_for_in_words() {
    let no = Answer::status(400, "unknown field response_format");
    let place = Place::new([no, Answer::text("{}"), Answer::text("{}")]);
    let exchange = place.exchange();
    let mut request = say("Hi");
    request.output_schema = Some(json!({"type": "object", "title": "Pet"}));
    let reply = exchange
        .asker("reply", 0, 1)
        .chat(request.clone())
        .await
        .unwrap();
    assert_eq!(reply.usage.requests, 2);
    // It is known from then on.
    request.effort = Some("low".to_owned());
    exchange.asker("reply", 0, 1).chat(request).await.unwrap();
    let asked = place.endpoint.asked();
    let has = |at: usize, text: &str| asked[at].body.contains(text);
    assert!(has(0, "response_format") && !has(1, "response_format") && !has(2, "response_format"));
    assert!(has(1, "fits this JSON Schema") && has(2, "Pet"));

    let no = Answer::status(400, "the model is asleep");
    let place = Place::new([no.clone(), no]);
    let mut request = say("Hi");
    request.output_schema = Some(json!({}));
    let exchange = place.exchange();
    let error = exchange
        .asker("reply", 0, 1)
        .chat(request)
        .await
        .unwrap_err();
    assert!(error.to_string().ends_with("the model is asleep"));
    assert!(locked(&exchange.manners).is_empty());
}

#[tokio::test]
async fn a_budget_that_is_reached_stops_every_further_request() {
    let mut place = Place::new([Answer::text("a"), Answer::text("b")])
        .with("input_price_per_mtok", json!(10))
        .with("output_price_per_mtok", json!(50));
    place.limits.max_cost_usd = Some(0.002);
    let exchange = place.exchange();
    let asker = exchange.asker("reply", 0, 1);
    asker.chat(say("Hi")).await.unwrap();
    assert_eq!(exchange.over_budget(), None);
    let error = asker.chat(say("Ho")).await.unwrap_err();
    let limit = "`--max-cost 0.002` (0.0020 USD spent)";
    assert_eq!(
        error.to_string(),
        format!("the run has reached {limit}, and `fake` was not asked")
    );
    assert_eq!(exchange.over_budget().as_deref(), Some(limit));
    // What is kept costs nothing.
    let kept = exchange.asker("reply", 0, 1).chat(say("Hi")).await.unwrap();
    assert!(kept.from_cache);
    assert_eq!(place.endpoint.n_asked(), 1);

    let mut place = Place::new([Answer::text("a")]);
    place.limits.max_tokens = Some(100);
    let exchange = place.exchange();
    let asker = exchange.asker("reply", 0, 1);
    asker.chat(say("Hi")).await.unwrap();
    let error = asker.chat(say("Ho")).await.unwrap_err();
    assert!(error.to_string().contains("`--max-tokens 100` (120 spent)"));

    let mut place = Place::new([]);
    place.limits.max_cost_usd = Some(1.0);
    let error = place.fails().await;
    assert!(error.contains("nobody knows its price"), "{error}");
    assert_eq!(place.endpoint.connections(), 0);
}

#[tokio::test]
async fn what_is_spent_must_be_known_where_it_is_limited() {
    let silent = || {
        Answer::json(
            json!({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}),
        )
    };
    let mut place = Place::new([silent(), silent(), silent()]);
    place.limits.max_tokens = Some(1000);
    let exchange = place.exchange();
    let asker = exchange.asker("reply", 0, 1);
    asker.chat(say("a")).await.unwrap();
    let limit = "`--max-tokens 1000` (nobody knows how much is spent: `fake` does not say it)";
    assert_eq!(
        asker.chat(say("b")).await.unwrap_err().to_string(),
        format!("the run has reached {limit}, and `fake` was not asked")
    );
    assert_eq!(exchange.over_budget().as_deref(), Some(limit));
    place.limits.max_tokens = None;
    let exchange = place.exchange();
    exchange.asker("reply", 0, 1).chat(say("b")).await.unwrap();
}

#[tokio::test]
async fn what_was_sent_is_counted_where_no_answer_came() {
    let busy = Answer::status(429, "slow down").header("retry-after", "0");
    let place = Place::new([busy.clone(), busy]).with("max_retries", json!(1));
    let exchange = place.exchange();
    let asker = exchange.asker("reply", 0, 1);
    asker.chat(say("Hi")).await.unwrap_err();
    let spent = asker.usage();
    assert_eq!((spent.requests, spent.retried), (2, 1));
    assert_eq!((spent.input_tokens, exchange.spent()), (None, spent));
}

#[tokio::test]
async fn a_model_that_is_not_set_up_says_what_to_add() {
    let place = Place::new([]).with("key_variable", json!("OTHER_KEY"));
    assert_eq!(
        place.fails().await,
        "model `fake` cannot be used: the variable `OTHER_KEY`, which holds its key, is not set; set it, or name another \
         with `key_variable` in [models.fake] of aebuild.toml"
    );
    let ask = async |model: &str, param: &str| {
        let mut request = say("Hi");
        request.model = model.to_owned();
        request.params = Map::from_iter([(param.to_owned(), json!(1))]);
        let exchange = place.exchange();
        exchange
            .asker("reply", 0, 1)
            .chat(request)
            .await
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        ask("gpt-9", "top_p").await,
        "model `gpt-9` cannot be used: nothing says how it is reached; set `OPENAI_API_KEY`, or add [models.gpt-9] with \
         `api` and `base_url` to aebuild.toml"
    );
    assert_eq!(
        ask("fake", "messages").await,
        "model `fake` cannot be used: its parameters hold `messages`, which is said elsewhere"
    );
    assert_eq!(place.endpoint.connections(), 0);
}

#[tokio::test]
async fn an_endpoint_gets_no_more_requests_at_once_than_it_takes() {
    let place = Place::new([Answer::text("x")]).with("max_concurrent", json!(3));
    let exchange = place.exchange();
    let permits = exchange.permits(&exchange.spec("fake"));
    assert_eq!(permits.available_permits(), 3);
    let all = permits.acquire_many(3).await.unwrap();
    let asker = exchange.asker("reply", 0, 1);
    let mut chat = asker.chat(say("Hi"));
    for _ in 0..100 {
        tokio::select! {
            biased;
            reply = &mut chat => panic!("nobody let it: {reply:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(place.endpoint.connections(), 0);
    drop(all);
    assert_eq!(chat.await.unwrap().text, "x");
}

#[test]
fn waits_double_up_to_a_limit_and_chance_makes_them_shorter() {
    let first = Duration::from_millis(500);
    let waits: Vec<u128> = [1, 2, 3, 20, u64::MAX]
        .iter()
        .map(|n| backoff(first, *n, 0.0).as_millis())
        .collect();
    assert_eq!(waits, [500, 1000, 2000, 60_000, 60_000]);
    assert_eq!(backoff(first, 2, 1.0).as_millis(), 500);
    assert!((0..100).all(|_| (0.0..=1.0).contains(&random())));
}

#[tokio::test]
async fn the_body_of_a_request_is_json_of_its_api() {
    let place = Place::new([Answer::text("x")]);
    place.ask("Hi").await.unwrap();
    let body: Value = from_slice(place.endpoint.asked()[0].body.as_bytes()).unwrap();
    assert_eq!(
        body,
        json!({"model": "fake", "messages": [{"role": "user", "content": "Hi"}]})
    );
}
