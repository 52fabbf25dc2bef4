//! What is kept of a call: what it is kept under, and the answer.

use crate::json::{Value, from_slice, json};
use crate::step::model::{ChatMessage, ChatReply, ChatRequest, Finish, ToolCall, ToolDecl, Usage};
use crate::task::model::ModelSpec;

/// The version of both. An answer of another version is not used.
///
/// 1: the first.
pub const VERSION: u64 = 1;

/// Returns all that decides the answer to a request.
pub(super) fn request(spec: &ModelSpec, request: &ChatRequest) -> Value {
    json!({
        "endpoint": spec.decides(),
        "messages": request.messages.iter().map(ChatMessage::to_value).collect::<Vec<_>>(),
        "tools": request.tools.iter().map(tool).collect::<Vec<_>>(),
        "output_schema": request.output_schema,
        "effort": request.effort,
        "max_thinking_tokens": request.max_thinking_tokens,
        "params": request.params,
    })
}

fn tool(tool: &ToolDecl) -> Value {
    json!({"name": tool.name, "description": tool.description, "schema": tool.schema})
}

/// Returns an answer as it is kept.
pub(super) fn encode(reply: &ChatReply) -> Vec<u8> {
    let finish = match &reply.finish {
        Finish::Stop => json!("stop"),
        Finish::Calls => json!("calls"),
        Finish::Length => json!("length"),
        Finish::Refusal => json!("refusal"),
        Finish::Other(reason) => json!({"other": reason}),
    };
    let kept = json!({
        "v": VERSION,
        "text": reply.text,
        "calls": reply.calls.iter().map(ToolCall::to_value).collect::<Vec<_>>(),
        "finish": finish,
        "kept": reply.kept,
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
        "model": reply.model,
    });
    kept.to_string().into_bytes()
}

/// Reads an answer that was kept; `None` where it is of another version or damaged. It says how many tokens it took when
/// it was made, and costs nothing.
pub(super) fn decode(bytes: &[u8]) -> Option<ChatReply> {
    let kept: Value = from_slice(bytes).ok()?;
    if kept.get("v").and_then(Value::as_u64) != Some(VERSION) {
        return None;
    }
    let calls = kept
        .get("calls")?
        .as_array()?
        .iter()
        .map(ToolCall::from_value);
    let finish = match kept.get("finish")? {
        Value::String(word) => match word.as_str() {
            "stop" => Finish::Stop,
            "calls" => Finish::Calls,
            "length" => Finish::Length,
            "refusal" => Finish::Refusal,
            _ => return None,
        },
        other => Finish::Other(other.get("other")?.as_str()?.to_owned()),
    };
    Some(ChatReply {
        text: kept.get("text")?.as_str()?.to_owned(),
        calls: calls.collect::<Option<_>>()?,
        finish,
        kept: kept.get("kept")?.clone(),
        usage: Usage {
            input_tokens: kept.get("input_tokens")?.as_u64(),
            output_tokens: kept.get("output_tokens")?.as_u64(),
            ..Usage::default()
        },
        model: kept.get("model")?.as_str()?.to_owned(),
        from_cache: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::json::Map;
    use crate::step::model::Content;
    use expect_test::expect;
    use std::collections::BTreeMap;

    fn reply(finish: Finish) -> ChatReply {
        ChatReply {
            text: "Hello".to_owned(),
            calls: vec![
                ToolCall {
                    id: "c1".to_owned(),
                    name: "look".to_owned(),
                    arguments: Ok(Map::from_iter([("at".to_owned(), json!(1.5))])),
                },
                ToolCall {
                    id: "c2".to_owned(),
                    name: "look".to_owned(),
                    arguments: Err("{\"at".to_owned()),
                },
            ],
            finish,
            kept: json!([{"type": "thinking", "signature": "s"}]),
            usage: Usage {
                input_tokens: Some(7),
                ..Usage::default()
            },
            model: "m-1".to_owned(),
            from_cache: false,
        }
    }

    #[test]
    fn an_answer_is_kept_like_this() {
        let bytes = encode(&reply(Finish::Calls));
        expect![[r#"{"calls":[{"arguments":{"at":1.5},"id":"c1","name":"look"},{"id":"c2","name":"look","no_arguments":"{\"at"}],"finish":"calls","input_tokens":7,"kept":[{"signature":"s","type":"thinking"}],"model":"m-1","output_tokens":null,"text":"Hello","v":1}"#]]
            .assert_eq(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn what_is_kept_comes_back_whole_and_what_is_damaged_does_not() {
        let other = Finish::Other("tired".to_owned());
        for finish in [
            Finish::Stop,
            Finish::Calls,
            Finish::Length,
            Finish::Refusal,
            other,
        ] {
            let reply = reply(finish);
            assert_eq!(decode(&encode(&reply)), Some(reply));
        }
        let bytes = encode(&reply(Finish::Stop));
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode(text.replace("\"v\":1", "\"v\":2").as_bytes()), None);
        assert_eq!(
            decode(text.replace("\"id\":\"c1\"", "\"id\":1").as_bytes()),
            None
        );
    }

    #[test]
    fn a_request_is_kept_under_this() {
        let spec = ModelSpec::of("m", &BTreeMap::from([("m".to_owned(), json!({}))]), &|_| {
            None
        });
        let asks = request(
            &spec,
            &ChatRequest {
                model: "m".to_owned(),
                messages: vec![
                    ChatMessage::System("Be brief.".to_owned()),
                    ChatMessage::User(vec![Content::Text("Hi".to_owned())]),
                ],
                ..ChatRequest::default()
            },
        );
        expect![[r#"{"effort":null,"endpoint":{"api":"openai","base_url":"https://api.openai.com/v1","max_output_tokens":null,"model":"m"},"max_thinking_tokens":null,"messages":[{"role":"system","text":"Be brief."},{"content":[{"text":"Hi"}],"role":"user"}],"output_schema":null,"params":{},"tools":[]}"#]]
            .assert_eq(&asks.to_string());
        expect!["32cfe3f80f66"].assert_eq(&Digest::of_value(&asks).short());
    }
}
