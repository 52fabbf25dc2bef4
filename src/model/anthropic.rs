//! Messages, as Anthropic has them.

use crate::json::{Map, Value, json};
use crate::step::model::{ChatMessage, ChatReply, ChatRequest, Content, Finish, ToolCall, Usage};
use crate::task::model::ModelSpec;

/// The version of the API that is spoken.
pub(super) const API_VERSION: &str = "2023-06-01";
/// The longest answer where nobody says how long it may be; thinking comes on top.
const MAX_OUTPUT_TOKENS: u64 = 16_384;
/// The least that a model can be allowed to think.
const LEAST_THINKING: u64 = 1024;

/// Returns the body of a request. With `thinks_by_itself` a limit of what is thought is left to the model.
pub(super) fn body(spec: &ModelSpec, request: &ChatRequest, thinks_by_itself: bool) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(spec.model));
    let thinking = request.max_thinking_tokens.map(|n| match n {
        0 => json!({"type": "disabled"}),
        _ if thinks_by_itself => json!({"type": "adaptive"}),
        n => json!({"type": "enabled", "budget_tokens": n.max(LEAST_THINKING)}),
    });
    let budget = thinking
        .as_ref()
        .and_then(|thinking| thinking.get("budget_tokens")?.as_u64());
    let longest = spec.max_output_tokens.unwrap_or(MAX_OUTPUT_TOKENS);
    let longest = longest.saturating_add(budget.unwrap_or(0));
    body.insert("max_tokens".to_owned(), json!(longest));
    body.extend(thinking.map(|thinking| ("thinking".to_owned(), thinking)));
    let systems = request.messages.iter().filter_map(|message| match message {
        ChatMessage::System(text) => Some(text.as_str()),
        _ => None,
    });
    let system = systems.collect::<Vec<_>>().join("\n\n");
    if !system.is_empty() {
        body.insert("system".to_owned(), json!(system));
    }
    let mut messages = messages(&request.messages);
    if !request.tools.is_empty() {
        // The conversation comes again with the answers of the calls: what was read once is cheaper then.
        keep_ready(&mut messages);
        let tools = request.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    let mut output = Map::new();
    if let Some(schema) = &request.output_schema {
        let format = json!({"type": "json_schema", "schema": schema});
        output.insert("format".to_owned(), format);
    }
    if let Some(effort) = &request.effort {
        output.insert("effort".to_owned(), json!(effort));
    }
    if !output.is_empty() {
        body.insert("output_config".to_owned(), Value::Object(output));
    }
    body.extend(request.params.clone());
    Value::Object(body)
}

fn keep_ready(messages: &mut [Value]) {
    let last = messages
        .last_mut()
        .and_then(|message| message.get_mut("content")?.as_array_mut()?.last_mut());
    if let Some(Value::Object(block)) = last {
        block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}

/// Returns the messages; those of one role in a row are one.
fn messages(all: &[ChatMessage]) -> Vec<Value> {
    let mut out: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in all {
        let (role, blocks) = match message {
            ChatMessage::System(_) => continue,
            ChatMessage::User(content) => ("user", contents(content)),
            ChatMessage::Assistant { text, calls, kept } => {
                ("assistant", assistant(text, calls, kept))
            }
            ChatMessage::Tool {
                id,
                content,
                is_error,
                ..
            } => {
                let mut block = json!({
                    "type": "tool_result", "tool_use_id": id, "content": contents(content),
                });
                if *is_error {
                    block["is_error"] = json!(true);
                }
                ("user", vec![block])
            }
        };
        match out.last_mut() {
            Some((last, earlier)) if *last == role => earlier.extend(blocks),
            _ => out.push((role, blocks)),
        }
    }
    out.retain(|(_, blocks)| !blocks.is_empty());
    let each = out
        .into_iter()
        .map(|(role, blocks)| json!({"role": role, "content": blocks}));
    each.collect()
}

fn assistant(text: &str, calls: &[ToolCall], kept: &Value) -> Vec<Value> {
    if let Some(blocks) = kept.as_array() {
        return blocks.clone();
    }
    let mut blocks = Vec::new();
    // A block of nothing is refused.
    if !text.trim().is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
    }
    blocks.extend(calls.iter().map(|call| {
        let input = call.arguments.clone().unwrap_or_default();
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
    }));
    blocks
}

fn contents(content: &[Content]) -> Vec<Value> {
    let parts = content.iter().filter_map(|content| match content {
        Content::Text(text) if text.trim().is_empty() => None,
        Content::Text(text) => Some(json!({"type": "text", "text": text})),
        Content::Image { mime, base64 } => Some(json!({"type": "image", "source": {
            "type": "base64", "media_type": mime, "data": base64,
        }})),
    });
    parts.collect()
}

/// Reads the answer.
pub(super) fn read(answer: &Value) -> Result<ChatReply, String> {
    let blocks = answer.get("content").and_then(Value::as_array);
    let blocks = blocks.ok_or("it holds no list `content`".to_owned())?;
    let (mut text, mut calls, mut thinks) = (String::new(), Vec::new(), false);
    for block in blocks {
        let of = |key: &str| block.get(key).and_then(Value::as_str);
        match of("type") {
            Some("text") => text.push_str(of("text").unwrap_or_default()),
            Some("tool_use") => {
                let name = of("name").ok_or_else(|| "a call names no tool".to_owned())?;
                let id = match of("id").unwrap_or_default() {
                    "" => format!("call-{}", calls.len() + 1),
                    id => id.to_owned(),
                };
                let arguments = match block.get("input") {
                    Some(Value::Object(members)) => Ok(members.clone()),
                    Some(Value::String(text)) => super::openai::arguments(text),
                    Some(Value::Null) | None => Ok(Map::new()),
                    Some(other) => Err(other.to_string()),
                };
                calls.push(ToolCall {
                    id,
                    name: name.to_owned(),
                    arguments,
                });
            }
            Some("thinking" | "redacted_thinking") => thinks = true,
            _ => {}
        }
    }
    let finish = match answer.get("stop_reason").and_then(Value::as_str) {
        Some("refusal") => Finish::Refusal,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        _ if !calls.is_empty() => Finish::Calls,
        Some("end_turn" | "stop_sequence") | None => Finish::Stop,
        Some(other) => Finish::Other(other.to_owned()),
    };
    let usage = |key: &str| answer.get("usage")?.get(key)?.as_u64();
    let input = usage("input_tokens").map(|n| {
        let kept = ["cache_read_input_tokens", "cache_creation_input_tokens"];
        let kept = kept.iter().filter_map(|key| usage(key));
        kept.fold(n, u64::saturating_add)
    });
    // Calls whose arguments were cut are no blocks that can be sent again.
    let is_whole = calls.iter().all(|call| call.arguments.is_ok());
    Ok(ChatReply {
        text,
        calls,
        finish,
        kept: match thinks && is_whole {
            true => Value::Array(blocks.clone()),
            false => Value::Null,
        },
        usage: Usage {
            requests: 1,
            retried: 0,
            cached: 0,
            input_tokens: input,
            output_tokens: usage("output_tokens"),
            cost_usd: None,
        },
        model: super::openai::model_of(answer),
        from_cache: false,
    })
}

/// Returns how many tokens are paid for as read at the full price: what the endpoint had ready is cheaper, and to make it
/// ready costs more.
pub(super) fn billed(answer: &Value) -> Option<f64> {
    let usage = |key: &str| answer.get("usage")?.get(key)?.as_f64();
    let ready = usage("cache_read_input_tokens").unwrap_or(0.0);
    let made_ready = usage("cache_creation_input_tokens").unwrap_or(0.0);
    Some(usage("input_tokens")? + 0.1 * ready + 1.25 * made_ready)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::model::ToolDecl;
    use expect_test::expect;
    use std::collections::BTreeMap;

    fn spec() -> ModelSpec {
        let table = json!({"api": "anthropic", "max_output_tokens": 100});
        ModelSpec::of("m", &BTreeMap::from([("m".to_owned(), table)]), &|_| None)
    }

    #[test]
    fn a_conversation_with_tools_and_thinking_is_written_so() {
        let request = ChatRequest {
            messages: vec![
                ChatMessage::System("Be brief.".to_owned()),
                ChatMessage::User(vec![Content::Text("Hi".to_owned())]),
                ChatMessage::Assistant {
                    text: "x".to_owned(),
                    calls: Vec::new(),
                    kept: json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]),
                },
                ChatMessage::Tool {
                    id: "a".to_owned(),
                    name: "look".to_owned(),
                    content: vec![Content::Text("no".to_owned())],
                    is_error: true,
                },
                ChatMessage::User(vec![Content::Image {
                    mime: "image/png".to_owned(),
                    base64: "AAAA".to_owned(),
                }]),
            ],
            tools: vec![ToolDecl {
                name: "look".to_owned(),
                description: "Looks.".to_owned(),
                schema: json!({"type": "object"}),
            }],
            output_schema: Some(json!({"type": "object"})),
            effort: Some("low".to_owned()),
            max_thinking_tokens: Some(2000),
            ..ChatRequest::default()
        };
        let text = crate::json::to_string_pretty(&body(&spec(), &request, false));
        expect![[r#"
            {
              "max_tokens": 2100,
              "messages": [
                {
                  "content": [
                    {
                      "text": "Hi",
                      "type": "text"
                    }
                  ],
                  "role": "user"
                },
                {
                  "content": [
                    {
                      "signature": "s",
                      "thinking": "hm",
                      "type": "thinking"
                    }
                  ],
                  "role": "assistant"
                },
                {
                  "content": [
                    {
                      "content": [
                        {
                          "text": "no",
                          "type": "text"
                        }
                      ],
                      "is_error": true,
                      "tool_use_id": "a",
                      "type": "tool_result"
                    },
                    {
                      "cache_control": {
                        "type": "ephemeral"
                      },
                      "source": {
                        "data": "AAAA",
                        "media_type": "image/png",
                        "type": "base64"
                      },
                      "type": "image"
                    }
                  ],
                  "role": "user"
                }
              ],
              "model": "m",
              "output_config": {
                "effort": "low",
                "format": {
                  "schema": {
                    "type": "object"
                  },
                  "type": "json_schema"
                }
              },
              "system": "Be brief.",
              "thinking": {
                "budget_tokens": 2000,
                "type": "enabled"
              },
              "tools": [
                {
                  "description": "Looks.",
                  "input_schema": {
                    "type": "object"
                  },
                  "name": "look"
                }
              ]
            }"#]]
        .assert_eq(&text.unwrap());
        let adaptive = body(&spec(), &request, true);
        assert_eq!(adaptive["thinking"], json!({"type": "adaptive"}));
        assert_eq!(adaptive["max_tokens"], json!(100));
    }

    #[test]
    fn an_answer_is_read_block_by_block() {
        let answer = json!({
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5},
            "model": "m-1",
        });
        let reply = read(&answer).unwrap();
        assert_eq!(reply.text, "Let me look.");
        assert_eq!(reply.finish, Finish::Calls);
        assert_eq!(reply.kept, answer["content"]);
        assert_eq!(reply.usage.input_tokens, Some(7));
        assert_eq!(billed(&answer), Some(3.0 + 0.1 * 4.0));
        assert_eq!(billed(&json!({})), None);
        assert_eq!(reply.calls[0].name, "look");
        let finish = |reason: &str| {
            let answer = json!({"content": [], "stop_reason": reason});
            read(&answer).map(|reply| reply.finish)
        };
        assert_eq!(finish("refusal"), Ok(Finish::Refusal));
        assert_eq!(finish("max_tokens"), Ok(Finish::Length));
        assert_eq!(finish("end_turn"), Ok(Finish::Stop));
        assert_eq!(
            finish("pause_turn"),
            Ok(Finish::Other("pause_turn".to_owned()))
        );
        assert_eq!(
            read(&json!({})),
            Err("it holds no list `content`".to_owned())
        );
    }
}
