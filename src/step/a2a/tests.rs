use super::card::{Card, served};
use super::*;

fn both(part: &Part) -> [Value; 2] {
    [part.write(Wire::V03), part.write(Wire::V1)]
}

#[test]
fn a_part_is_written_in_both_dialects_and_read_from_either() {
    let file = |bytes| Part {
        content: Content::File(File {
            name: Some("a.txt".to_owned()),
            media_type: Some("text/plain".to_owned()),
            bytes,
        }),
        metadata: Some(json!({"k": 1})),
    };
    let table = [
        (
            Part::text("hi"),
            [json!({"kind": "text", "text": "hi"}), json!({"text": "hi"})],
        ),
        (
            Part {
                content: Content::Data(json!([1, null])),
                metadata: None,
            },
            [
                json!({"kind": "data", "data": [1, null]}),
                json!({"data": [1, null]}),
            ],
        ),
        (
            file(FileBytes::Inline("aGk=".to_owned())),
            [
                json!({"kind": "file", "file": {"name": "a.txt", "mimeType": "text/plain", "bytes": "aGk="},
                       "metadata": {"k": 1}}),
                json!({"filename": "a.txt", "mediaType": "text/plain", "raw": "aGk=", "metadata": {"k": 1}}),
            ],
        ),
        (
            file(FileBytes::At("http://x/a".to_owned())),
            [
                json!({"kind": "file", "file": {"name": "a.txt", "mimeType": "text/plain", "uri": "http://x/a"},
                       "metadata": {"k": 1}}),
                json!({"filename": "a.txt", "mediaType": "text/plain", "url": "http://x/a", "metadata": {"k": 1}}),
            ],
        ),
    ];
    for (part, written) in table {
        assert_eq!(both(&part), written);
        for written in written {
            assert_eq!(Part::read(&written), Some(part.clone()));
        }
    }
    for nothing in [json!({"kind": "video"}), json!(7), json!({"file": {}})] {
        assert_eq!(Part::read(&nothing), None);
    }
}

#[test]
fn a_task_is_written_in_both_dialects_and_read_from_either() {
    let message = Message {
        id: "m".to_owned(),
        role: Role::Agent,
        parts: vec![Part::text("done")],
        context_id: Some("c".to_owned()),
        task_id: Some("t".to_owned()),
    };
    let task = Task {
        id: "t".to_owned(),
        context_id: Some("c".to_owned()),
        state: State::InputRequired,
        message: Some(message.clone()),
        artifacts: vec![Artifact {
            id: "a".to_owned(),
            name: None,
            parts: vec![Part::text("made")],
        }],
        history: vec![Message {
            role: Role::User,
            ..message
        }],
    };
    let old = task.write(Wire::V03);
    assert_eq!(old["kind"], "task");
    assert_eq!(old["status"]["state"], "input-required");
    assert_eq!(old["history"][0]["role"], "user");
    let new = task.write(Wire::V1);
    assert_eq!(new["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(new["status"]["message"]["role"], "ROLE_AGENT");
    assert_eq!(new.get("kind"), None);
    for written in [old, new.clone(), json!({"task": new})] {
        assert_eq!(Told::read(&written), Some(Told::Task(task.clone())));
    }
}

#[test]
fn what_an_agent_says_at_the_end_is_its_message_with_what_it_made_or_else_the_last_of_the_history()
{
    let said = |task: Value| plain_parts(&Task::read(&task).unwrap().said());
    let texts = |parts: &[&str]| -> Vec<Value> {
        parts
            .iter()
            .map(|text| json!({"kind": "text", "text": text}))
            .collect()
    };
    let agent = json!({"role": "agent", "parts": [{"text": "h"}]});
    let user = json!({"role": "user", "parts": [{"text": "u"}]});
    let mut task = json!({"id": "t", "status": {"state": "completed"}, "history": [agent, user]});
    assert_eq!(said(task.clone()), texts(&["h"]));
    task["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "a"}]}]);
    assert_eq!(said(task.clone()), texts(&["a"]));
    task["status"]["message"] = json!({"role": "agent", "parts": [{"text": "m"}]});
    assert_eq!(said(task), texts(&["m", "a"]));
}

#[test]
fn what_is_no_answer_is_none() {
    for value in [
        json!(null),
        json!({}),
        json!([]),
        json!({"kind": "task"}),
        json!({"kind": "task", "id": "", "status": {"state": "completed"}}),
        json!({"kind": "task", "id": "t", "status": {"state": 7}}),
        json!({"kind": "message", "parts": 7}),
        json!({"kind": "other", "parts": []}),
        json!({"status": {"state": "working"}}),
    ] {
        assert_eq!(Told::read(&value), None, "{value}");
    }
}

#[test]
fn a_card_says_where_and_in_which_dialect_the_agent_is_asked() {
    let read = |card: Value| Card::read(&card).map(|card| (card.url, card.wire));
    let at = |url: &str, wire| Ok((url.to_owned(), wire));
    assert_eq!(
        read(json!({"url": "http://a/"})),
        at("http://a/", Wire::V03)
    );
    assert_eq!(
        read(json!({"url": "/a2a", "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"})),
        at("/a2a", Wire::V03)
    );
    let listed = |interfaces: Value| read(json!({"supportedInterfaces": interfaces}));
    assert_eq!(
        listed(json!([
            {"url": "http://g", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "http://old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
            {"url": "http://new", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        ])),
        at("http://new", Wire::V1)
    );
    assert_eq!(
        read(json!({
            "url": "http://g", "protocolVersion": "0.3.0", "preferredTransport": "GRPC",
            "additionalInterfaces": [{"url": "http://j", "transport": "JSONRPC"}],
        })),
        at("http://j", Wire::V03)
    );
    let why = |card: Value| read(card).unwrap_err();
    assert_eq!(
        why(json!({"name": "x"})),
        "its card names no address at which it is asked"
    );
    assert_eq!(
        why(
            json!({"supportedInterfaces": [{"url": "g:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}]})
        ),
        "its card offers GRPC 1.0, and none of JSON-RPC in A2A 0.3 or 1.0"
    );
    assert_eq!(
        why(json!({"url": "http://a", "protocolVersion": "7.0"})),
        "its card offers JSONRPC 7.0, and none of JSON-RPC in A2A 0.3 or 1.0"
    );
    assert_eq!(why(json!([])), "its card is no JSON object");
    assert_eq!(
        read(served("a", "", "http://own/")),
        at("http://own/", Wire::V1)
    );
}

#[test]
fn every_method_and_state_has_its_name_in_both_dialects() {
    for (method, old, new) in METHODS {
        assert_eq!(Wire::of_name(old), Some((Wire::V03, method)));
        assert_eq!(
            Wire::of_name(Wire::V1.name_of(method)),
            Some((Wire::V1, method))
        );
        assert_eq!(Wire::V1.name_of(method), new);
    }
    for (state, old, new) in STATES {
        assert_eq!((State::read(old), State::read(new)), (state, state));
        assert_eq!((state.name(Wire::V03), state.name(Wire::V1)), (old, new));
    }
    assert_eq!(State::read("paused"), State::Unknown);
}
