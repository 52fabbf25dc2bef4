//! The protocol that all envs share, and the laws that all of them keep.

#![expect(
    clippy::disallowed_methods,
    reason = "tests set up the world that the program sees"
)]

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::json::{Map, json};
use crate::step::env::{EnvError, EnvServer, ExtensionCall};
use crate::step::sandbox::Put;

/// An env of a test.
pub(super) struct Live(Arc<dyn EnvServer>);

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

impl Live {
    /// Starts an env and loads a state.
    #[track_caller]
    pub(super) fn of(name: &str, state: Value) -> Self {
        let live = Live(start(name, "env").unwrap());
        live.add(state).unwrap();
        live
    }

    pub(super) fn request(&self, method: &str, params: Value) -> Result<Value, EnvError> {
        block_on(self.0.request(method, params))
    }

    pub(super) fn data(&self, method: &str, params: Value) -> Result<Value, EnvError> {
        block_on(self.0.data_plane(method, params))
    }

    pub(super) fn add(&self, state: Value) -> Result<Value, EnvError> {
        self.data(
            "data/add",
            json!({"parts": [{"kind": "data", "data": state}]}),
        )
    }

    pub(super) fn export(&self) -> Vec<u8> {
        block_on(self.0.export()).unwrap()
    }

    pub(super) fn import(&self, parts: &[u8]) -> Result<(), EnvError> {
        block_on(self.0.import(parts))
    }

    pub(super) fn state(&self) -> Value {
        self.data("data/get", json!({})).unwrap()["parts"][0]["data"].clone()
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        let call = json!({"name": tool, "arguments": arguments});
        self.request("tools/call", call).unwrap()
    }

    /// Calls a tool that has an answer.
    #[track_caller]
    pub(super) fn ok(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that says why not.
    #[track_caller]
    pub(super) fn fails(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

fn code_of(answer: Result<Value, EnvError>) -> (i64, String, Value) {
    match answer.unwrap_err() {
        EnvError::Refused {
            code,
            message,
            data,
            ..
        } => (code, message, data),
        other => panic!("{other}"),
    }
}

#[test]
fn every_env_describes_itself_its_tools_and_their_arguments() {
    for name in names() {
        let live = Live(start(name, "mine").unwrap());
        let listed = live.request("tools/list", json!({})).unwrap();
        assert_eq!(listed["tools"], json!(tools(name).unwrap()));
        for tool in tools(name).unwrap() {
            assert!(
                tool["description"]
                    .as_str()
                    .is_some_and(|text| text.ends_with('.'))
            );
            assert!(tool["annotations"]["readOnlyHint"].is_boolean());
            let arguments = tool["inputSchema"]["properties"].as_object().unwrap();
            for (argument, schema) in arguments {
                let text = schema["description"].as_str().unwrap_or_default();
                assert!(text.ends_with('.'), "{name}: {} {argument}", tool["name"]);
            }
        }
        let card = live.0.card().unwrap();
        assert_eq!(
            (&card["name"], &card["protocolVersion"]),
            (&json!("mine"), &json!("1.0"))
        );
        assert_eq!(
            card["capabilities"]["operations"],
            json!(["data/reset", "data/add", "data/get"])
        );
        assert_eq!(live.0.info()["serverInfo"]["name"], name);
        assert!(page(name).unwrap().starts_with("//! "));
    }
    assert!(start("post", "x").is_none() && tools("post").is_none() && page("post").is_none());
}

#[test]
fn requests_are_answered_as_mcp_says() {
    let live = Live::of("kv", json!({"values": {"a": 1}}));
    assert_eq!(live.request("ping", Value::Null).unwrap(), json!({}));
    assert_eq!(
        live.request("prompts/list", json!({})).unwrap(),
        json!({"prompts": []})
    );
    let resources = live.request("resources/list", json!({})).unwrap();
    let uri = resources["resources"][0]["uri"].clone();
    assert_eq!(uri, "kv://state");
    let read = live.request("resources/read", json!({"uri": uri})).unwrap();
    assert_eq!(
        read["contents"][0]["text"],
        r#"{"now":"2026-01-01T09:00:00Z","values":{"a":1}}"#
    );
    for (method, params, code, message) in [
        (
            "resources/read",
            json!({"uri": "kv://x"}),
            -32602,
            "there is no resource `kv://x`",
        ),
        (
            "prompts/get",
            json!({}),
            -32601,
            "there is no method `prompts/get`",
        ),
        (
            "tools/call",
            json!({"name": "gte"}),
            -32602,
            "there is no tool `gte`; did you mean `get`?",
        ),
        (
            "tools/call",
            json!({"name": "get", "arguments": []}),
            -32602,
            "`arguments` must be an object",
        ),
    ] {
        let answer = live.request(method, params);
        assert_eq!(code_of(answer), (code, message.to_owned(), Value::Null));
    }
    assert_eq!(live.fails("get", json!({})), "argument `key` is missing");
    assert_eq!(
        live.fails("get", json!({"key": 1})),
        "argument `key` must be of type string"
    );
    assert_eq!(
        live.fails("get", json!({"key": "a", "x": 1})),
        "argument `x` is not known"
    );
    let call = ExtensionCall {
        uri: "urn:x".to_owned(),
        endpoint: String::new(),
        verb: "POST".to_owned(),
        arguments: Map::new(),
    };
    assert_eq!(code_of(block_on(live.0.extension(call))).0, 404);
    assert_eq!(block_on(live.0.fetch("openapi.yaml")), Ok(None));
    assert_eq!(live.0.gone(), None);
}

#[test]
fn the_data_plane_takes_states_as_data_and_as_files() {
    let live = Live::of("kv", json!({"values": {"a": 1}}));
    let bytes = super::base64::encode(br#"{"values": {"b": 2}}"#);
    let parts = json!([
        {"kind": "file", "file": {"bytes": bytes, "mimeType": "application/json", "name": "b.json"}},
        {"kind": "data", "data": {"values": {"c": 3}}, "metadata": {}},
    ]);
    assert_eq!(
        live.data("data/add", json!({"parts": parts})).unwrap(),
        json!({})
    );
    assert_eq!(live.state()["values"], json!({"a": 1, "b": 2, "c": 3}));
    assert_eq!(live.data("data/reset", json!({})).unwrap(), json!({}));
    assert_eq!(live.state()["values"], json!({}));
}

#[test]
fn the_data_plane_says_what_is_wrong_and_adds_nothing() {
    let live = Live::of("kv", json!({}));
    let good = json!({"kind": "data", "data": {"values": {"a": 1}}});
    let failed = json!({"code": "add_failed"});
    for (method, params, code, data) in [
        ("data/add", json!({"parts": []}), -32602, Value::Null),
        ("data/add", json!({}), -32602, Value::Null),
        ("data/add", json!({"parts": [1]}), -32602, Value::Null),
        (
            "data/add",
            json!({"parts": [good, {"kind": "data"}]}),
            -32602,
            Value::Null,
        ),
        (
            "data/add",
            json!({"parts": [good, {"kind": "page"}]}),
            -32602,
            Value::Null,
        ),
        (
            "data/add",
            json!({"parts": [good, {"kind": "data", "data": {"x": 1}}]}),
            -32000,
            failed.clone(),
        ),
        (
            "data/add",
            json!({"parts": [{"kind": "text", "text": "x"}]}),
            -32000,
            failed.clone(),
        ),
        (
            "data/add",
            json!({"parts": [{"kind": "file", "file": {"uri": "http://x"}}]}),
            -32000,
            failed.clone(),
        ),
        (
            "data/add",
            json!({"parts": [{"kind": "file", "file": {"bytes": "?"}}]}),
            -32000,
            failed.clone(),
        ),
        (
            "data/get",
            json!({"write_namespace": "x"}),
            -32602,
            Value::Null,
        ),
        ("data/put", json!({}), -32601, Value::Null),
    ] {
        let (said, message, with) = code_of(live.data(method, params.clone()));
        assert_eq!((said, with), (code, data), "{params}: {message}");
    }
    assert_eq!(live.state()["values"], json!({}));
    for parts in [
        "",
        "{}",
        r#"[{"kind": "data", "data": {"x": 1}}]"#,
        r#"[{"kind": "text"}]"#,
    ] {
        let said = code_of(live.import(parts.as_bytes()).map(|()| Value::Null));
        assert_eq!((said.0, &said.2), (-32000, &failed), "{parts}");
    }
}

#[test]
fn only_files_can_be_copied_into_files() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("a.bin");
    std::fs::write(&from, [0xff]).unwrap();
    let to = "/app/a.bin".to_owned();
    let files = [Put {
        from,
        to,
        mode: 0o644,
    }];
    let live = Live(start("files", "env").unwrap());
    live.0.put(&files).unwrap();
    assert_eq!(
        live.ok("read_file", json!({"path": "app/a.bin"}))["content"],
        "/w=="
    );
    let refused = start("kv", "env").unwrap().put(&files).unwrap_err();
    assert_eq!(refused.to_string(), "env `env` cannot take files");
    for name in names() {
        let taken = start(name, "env").unwrap().put(&files);
        assert_eq!(
            taken.is_ok(),
            crate::task::deploy::takes_files(name),
            "{name}"
        );
    }
}

/// States that were exported are kept and are loaded by later versions; a change here breaks them.
#[test]
fn an_export_is_the_same_bytes_in_every_version() {
    let states = [
        (
            "mail",
            json!({"emails": [{"sender": "a@x.org", "attachments": [{"name": "n"}]}]}),
        ),
        (
            "calendar",
            json!({"events": [{"start": "2026-01-01", "attendees": [{"email": "a@x.org"}]}]}),
        ),
        (
            "files",
            json!({"files": {"b": {"base64": "/w=="}, "a": {}}}),
        ),
        ("kv", json!({"values": {"b": [0.1, 1e300], "a": null}})),
    ];
    let exports = states.map(|(name, state)| String::from_utf8(Live::of(name, state).export()));
    let exports: Vec<String> = exports.into_iter().map(Result::unwrap).collect();
    expect_test::expect![[r#"
        [{"kind":"data","data":{"user_email":"user@example.com","now":"2026-01-01T09:00:00Z","next_id":2,"emails":[{"email_id":"email-1","folder":"inbox","sender":"a@x.org","recipients":[],"subject":"","content":"","cc":[],"parent_id":null,"attachments":[{"name":"n","content_type":"","content":""}],"timestamp":"2026-01-01T09:00:00Z","is_read":false}]}}]
        [{"kind":"data","data":{"now":"2026-01-01T09:00:00Z","next_id":2,"events":[{"event_id":"event-1","title":"","start":"2026-01-01","end":"2026-01-01","attendees":[{"email":"a@x.org","answer":"none"}],"location":"","notes":""}]}}]
        [{"kind":"data","data":{"now":"2026-01-01T09:00:00Z","files":{"a":{"modified":"2026-01-01T09:00:00Z","text":""},"b":{"modified":"2026-01-01T09:00:00Z","base64":"/w=="}}}}]
        [{"kind":"data","data":{"now":"2026-01-01T09:00:00Z","values":{"a":null,"b":[0.1,1e+300]}}}]"#]].assert_eq(&exports.join("\n"));
}

/// Arguments that fit a schema more often than not, with values that mean something to an env.
fn arguments(schema: &Value) -> BoxedStrategy<Value> {
    const WORDS: [&str; 16] = [
        "email-1",
        "email-2",
        "event-1",
        "event-2",
        "inbox",
        "trash",
        "a",
        "a/b",
        "/a//c",
        "me@x.org",
        "user@example.com",
        "2026-01-01T10:00:00Z",
        "2026-01-02",
        "accepted",
        "base64",
        "",
    ];
    if let Some(properties) = schema["properties"].as_object() {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let members: Vec<_> = properties
            .iter()
            .map(|(name, schema)| {
                let is_required = required.contains(&json!(name));
                let value = arguments(schema);
                (Just(name.clone()), prop::bool::weighted(0.4), value).prop_map(
                    move |(name, is_there, value)| {
                        (is_there || is_required).then_some((name, value))
                    },
                )
            })
            .collect();
        return members
            .prop_map(|members| Value::Object(members.into_iter().flatten().collect()))
            .boxed();
    }
    match schema["type"].as_str() {
        Some("string") => prop_oneof![
            6 => prop::sample::select(&WORDS[..]).prop_map(|word| json!(word)),
            1 => any::<String>().prop_map(|text| json!(text)),
        ]
        .boxed(),
        Some("integer") => (1..5i64).prop_map(|number| json!(number)).boxed(),
        Some("boolean") => any::<bool>().prop_map(|flag| json!(flag)).boxed(),
        Some("array") => prop::collection::vec(arguments(&schema["items"]), 0..3)
            .prop_map(Value::Array)
            .boxed(),
        _ => prop_oneof![
            any::<f64>().prop_map(|number| json!(number)),
            any::<i64>().prop_map(|number| json!(number)),
            any::<String>().prop_map(|text| json!({"b": [text], "a": null})),
        ]
        .boxed(),
    }
}

fn calls(name: &str) -> BoxedStrategy<Vec<(String, Value)>> {
    let one = tools(name).unwrap().into_iter().map(|tool| {
        let name = tool["name"].as_str().unwrap().to_owned();
        (Just(name), arguments(&tool["inputSchema"])).boxed()
    });
    prop::collection::vec(prop::strategy::Union::new(one), 1..25).boxed()
}

/// Holds the laws for some calls: the same calls give the same bytes, an export that is loaded is exported again byte for
/// byte, and neither a look nor a failure changes anything.
fn hold(name: &str, calls: &[(String, Value)]) {
    let [one, two, third] = [(); 3].map(|()| Live(start(name, "env").unwrap()));
    for (tool, arguments) in calls {
        let before = one.export();
        let declared = tools(name).unwrap();
        let declared = declared.iter().find(|declared| declared["name"] == **tool);
        let result = one.call(tool, arguments.clone());
        assert_eq!(result, two.call(tool, arguments.clone()));
        let after = one.export();
        if super::tool::only_reads(declared.unwrap()) || result["isError"] == true {
            assert_eq!(before, after, "{tool} {arguments}");
        } else {
            assert_ne!(before, after, "{tool} {arguments}");
        }
    }
    let exported = one.export();
    assert_eq!(exported, two.export());
    third.import(&exported).unwrap();
    assert_eq!(
        String::from_utf8(third.export()),
        String::from_utf8(exported.clone())
    );
    // What is loaded behaves like what was exported.
    for (tool, arguments) in calls {
        assert_eq!(
            one.call(tool, arguments.clone()),
            third.call(tool, arguments.clone())
        );
    }
    assert_eq!(one.export(), third.export());
    let parts = one.data("data/get", json!({})).unwrap();
    two.data("data/reset", json!({})).unwrap();
    two.data("data/add", parts).unwrap();
    assert_eq!(one.export(), two.export());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn mail_keeps_the_laws(calls in calls("mail")) {
        hold("mail", &calls);
    }

    #[test]
    fn calendar_keeps_the_laws(calls in calls("calendar")) {
        hold("calendar", &calls);
    }

    #[test]
    fn files_keep_the_laws(calls in calls("files")) {
        hold("files", &calls);
    }

    #[test]
    fn kv_keeps_the_laws(calls in calls("kv")) {
        hold("kv", &calls);
    }
}

#[test]
fn a_file_that_is_no_state_is_told_where_it_stops_being_one() {
    let said = |name: &str, file: &str, text: &str| {
        super::fault_of_state(name, file, text.as_bytes()).map(|fault| (fault.at, fault.why))
    };
    assert_eq!(said("mail", "inbox.json", r#"{"emails": []}"#), None);
    assert_eq!(
        said(
            "kv",
            "s.parts.json",
            r#"[{"kind": "data", "data": {"values": {"a": 1}}}]"#
        ),
        None
    );
    let (at, why) = said("mail", "inbox.json", "{\n\"emials\": []}").unwrap();
    assert_eq!(at, Some((2, 8)));
    assert!(
        why.starts_with("unknown field `emials`, expected one of"),
        "{why}"
    );
    let twice = r#"{"emails": [{"email_id": "1"}, {"email_id": "1"}]}"#;
    let (at, _) = said("mail", "inbox.json", twice).unwrap();
    assert_eq!(at, None);
    assert_eq!(said("elsewhere", "inbox.json", "{"), None);
}
