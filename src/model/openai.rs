//! Chat completions, as OpenAI and the many servers that speak like it have them.

use crate::json::{Map, Value, from_slice, json};
use crate::step::model::{ChatMessage, ChatReply, ChatRequest, Content, Finish, ToolCall, Usage};
use crate::task::model::ModelSpec;

/// What some endpoints want to see again while the model calls tools.
const KEPT: [&str; 2] = ["reasoning_details", "reasoning_content"];

/// Returns the body of a request.
pub(super) fn body(spec: &ModelSpec, request: &ChatRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(spec.model));
    body.insert("messages".to_owned(), messages(&request.messages));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.schema,
            }})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    if let Some(schema) = &request.output_schema {
        let format = json!({"type": "json_schema", "json_schema": {
            "name": "answer", "schema": schema, "strict": is_strict(schema),
        }});
        body.insert("response_format".to_owned(), format);
    }
    if let Some(effort) = &request.effort {
        body.insert("reasoning_effort".to_owned(), json!(effort));
    }
    if let Some(max) = spec.max_output_tokens {
        // Newer models of OpenAI know only the one name, and most other servers only the other.
        let name = match spec.base_url.contains("api.openai.com") {
            true => "max_completion_tokens",
            false => "max_tokens",
        };
        body.insert(name.to_owned(), json!(max));
    }
    if request.params.contains_key("max_tokens")
        || request.params.contains_key("max_completion_tokens")
    {
        body.remove("max_tokens");
        body.remove("max_completion_tokens");
    }
    body.extend(request.params.clone());
    Value::Object(body)
}

fn messages(all: &[ChatMessage]) -> Value {
    let mut out: Vec<Value> = Vec::with_capacity(all.len());
    let mut shown: Vec<Content> = Vec::new();
    for message in all {
        if !matches!(message, ChatMessage::Tool { .. }) {
            show(&mut out, &mut shown);
        }
        match message {
            ChatMessage::System(text) => out.push(json!({"role": "system", "content": text})),
            ChatMessage::User(content) => {
                out.push(json!({"role": "user", "content": contents(content)}));
            }
            ChatMessage::Assistant { text, calls, kept } => out.push(assistant(text, calls, kept)),
            ChatMessage::Tool {
                id,
                name,
                content,
                is_error,
            } => {
                let is_text = |content: &&Content| matches!(content, Content::Text(_));
                let texts = content.iter().filter(is_text).cloned();
                let mut text = plain(&texts.collect::<Vec<_>>());
                if *is_error {
                    text = format!("Error: {text}");
                }
                let images = content.iter().filter(|content| !is_text(content)).cloned();
                let before = shown.len();
                shown.extend(images);
                if shown.len() > before {
                    text.push_str(&format!("\n(The images of `{name}` follow.)"));
                }
                out.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
            }
        }
    }
    show(&mut out, &mut shown);
    Value::Array(out)
}

/// Shows the images that tools gave: the answer of a tool is text alone.
fn show(out: &mut Vec<Value>, shown: &mut Vec<Content>) {
    if !shown.is_empty() {
        let content = contents(&std::mem::take(shown));
        out.push(json!({"role": "user", "content": content}));
    }
}

fn assistant(text: &str, calls: &[ToolCall], kept: &Value) -> Value {
    let mut message = Map::new();
    if !calls.is_empty() {
        message.extend(kept.as_object().cloned().unwrap_or_default());
        let calls = calls.iter().map(|call| {
            let arguments = match &call.arguments {
                Ok(arguments) => Value::Object(arguments.clone()).to_string(),
                Err(text) => text.clone(),
            };
            json!({
                "id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments},
            })
        });
        message.insert("tool_calls".to_owned(), calls.collect());
    }
    message.insert("role".to_owned(), json!("assistant"));
    let has_none = text.is_empty() && !calls.is_empty();
    let content = if has_none { Value::Null } else { json!(text) };
    message.insert("content".to_owned(), content);
    Value::Object(message)
}

fn plain(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|content| match content {
        Content::Text(text) => Some(text.as_str()),
        Content::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn contents(content: &[Content]) -> Value {
    let is_text = |content: &Content| matches!(content, Content::Text(_));
    if content.iter().all(is_text) {
        return Value::String(plain(content));
    }
    let part = |content: &Content| match content {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Image { mime, base64 } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{base64}")}})
        }
    };
    content.iter().map(part).collect()
}

/// Returns whether a schema is one that the endpoint can hold the model to: every object names all its members.
fn is_strict(schema: &Value) -> bool {
    let Value::Object(members) = schema else {
        return match schema {
            Value::Array(items) => items.iter().all(is_strict),
            _ => true,
        };
    };
    if let Some(Value::Object(properties)) = members.get("properties") {
        let required = members.get("required").and_then(Value::as_array);
        let is_required = |name: &String| required.is_some_and(|all| all.contains(&json!(name)));
        let is_closed = members.get("additionalProperties") == Some(&Value::Bool(false));
        if !is_closed || !properties.keys().all(is_required) {
            return false;
        }
        return properties.values().all(is_strict);
    }
    if members.get("type") == Some(&json!("object")) {
        return false;
    }
    members.values().all(is_strict)
}

/// Reads the answer.
pub(super) fn read(answer: &Value) -> Result<ChatReply, String> {
    let choice = answer
        .pointer("/choices/0")
        .ok_or("it holds no choice".to_owned())?;
    let message = choice.get("message").filter(|message| message.is_object());
    let message = message.ok_or("its choice holds no message".to_owned())?;
    let mut text = text_of(message.get("content"));
    let mut calls = Vec::new();
    let made = message.get("tool_calls").and_then(Value::as_array);
    for (at, call) in made.into_iter().flatten().enumerate() {
        calls.push(read_call(call, at)?);
    }
    let refusal = message.get("refusal").and_then(Value::as_str);
    let refusal = refusal.filter(|refusal| !refusal.is_empty());
    let reason = choice.get("finish_reason").and_then(Value::as_str);
    let finish = match reason {
        _ if refusal.is_some() => Finish::Refusal,
        Some("content_filter") => Finish::Refusal,
        Some("length") => Finish::Length,
        _ if !calls.is_empty() => Finish::Calls,
        Some("stop") | None => Finish::Stop,
        Some(other) => Finish::Other(other.to_owned()),
    };
    if let Some(refusal) = refusal.filter(|_| text.is_empty()) {
        text = refusal.to_owned();
    }
    let mut kept = Map::new();
    for key in KEPT {
        if let Some(value) = message.get(key).filter(|value| !value.is_null()) {
            kept.insert(key.to_owned(), value.clone());
        }
    }
    let usage = |key: &str| answer.get("usage")?.get(key)?.as_u64();
    Ok(ChatReply {
        text,
        calls,
        finish,
        kept: match kept.is_empty() {
            true => Value::Null,
            false => Value::Object(kept),
        },
        usage: Usage {
            requests: 1,
            retried: 0,
            cached: 0,
            input_tokens: usage("prompt_tokens"),
            output_tokens: usage("completion_tokens"),
            cost_usd: answer.pointer("/usage/cost").and_then(Value::as_f64),
        },
        model: model_of(answer),
        from_cache: false,
    })
}

fn read_call(call: &Value, at: usize) -> Result<ToolCall, String> {
    let function = call.get("function");
    let name = function.and_then(|function| function.get("name")?.as_str());
    let name = name.ok_or_else(|| format!("call {} names no function", at + 1))?;
    let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
    let id = match id {
        "" => format!("call-{}", at + 1),
        id => id.to_owned(),
    };
    let arguments = match function.and_then(|function| function.get("arguments")) {
        Some(Value::String(text)) => arguments(text),
        Some(Value::Object(members)) => Ok(members.clone()),
        Some(Value::Null) | None => Ok(Map::new()),
        Some(other) => Err(other.to_string()),
    };
    Ok(ToolCall {
        id,
        name: name.to_owned(),
        arguments,
    })
}

/// Reads arguments that stand in a text.
pub(super) fn arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match from_slice(text.as_bytes()) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(text.to_owned()),
    }
}

/// Returns the model that an answer says it is of.
pub(super) fn model_of(answer: &Value) -> String {
    let model = answer.get("model").and_then(Value::as_str);
    model.unwrap_or_default().to_owned()
}

fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::model::ToolDecl;
    use expect_test::expect;
    use std::collections::BTreeMap;

    fn spec(table: Value) -> ModelSpec {
        ModelSpec::of("m", &BTreeMap::from([("m".to_owned(), table)]), &|_| None)
    }

    #[test]
    fn a_conversation_with_tools_and_images_is_written_so() {
        let image = Content::Image {
            mime: "image/png".to_owned(),
            base64: "AAAA".to_owned(),
        };
        let tool = |id: &str, is_error, content| ChatMessage::Tool {
            id: id.to_owned(),
            name: "look".to_owned(),
            content,
            is_error,
        };
        let call = |id: &str, arguments| ToolCall {
            id: id.to_owned(),
            name: "look".to_owned(),
            arguments,
        };
        let request = ChatRequest {
            messages: vec![
                ChatMessage::System("Be brief.".to_owned()),
                ChatMessage::User(vec![Content::Text("What is it?".to_owned()), image.clone()]),
                ChatMessage::Assistant {
                    text: String::new(),
                    calls: vec![call("a", Ok(Map::new())), call("b", Err("{x".to_owned()))],
                    kept: json!({"reasoning_content": "hm"}),
                },
                tool("a", false, vec![Content::Text("see".to_owned()), image]),
                tool("b", true, vec![Content::Text("no object".to_owned())]),
            ],
            tools: vec![ToolDecl {
                name: "look".to_owned(),
                description: "Looks.".to_owned(),
                schema: json!({"type": "object"}),
            }],
            output_schema: Some(json!({"type": "object", "properties": {"a": {}}})),
            effort: Some("low".to_owned()),
            params: Map::from_iter([("temperature".to_owned(), json!(0.5))]),
            ..ChatRequest::default()
        };
        let text = crate::json::to_string_pretty(&body(
            &spec(json!({"base_url": "http://h", "max_output_tokens": 9})),
            &request,
        ));
        expect![[r#"
            {
              "max_tokens": 9,
              "messages": [
                {
                  "content": "Be brief.",
                  "role": "system"
                },
                {
                  "content": [
                    {
                      "text": "What is it?",
                      "type": "text"
                    },
                    {
                      "image_url": {
                        "url": "data:image/png;base64,AAAA"
                      },
                      "type": "image_url"
                    }
                  ],
                  "role": "user"
                },
                {
                  "content": null,
                  "reasoning_content": "hm",
                  "role": "assistant",
                  "tool_calls": [
                    {
                      "function": {
                        "arguments": "{}",
                        "name": "look"
                      },
                      "id": "a",
                      "type": "function"
                    },
                    {
                      "function": {
                        "arguments": "{x",
                        "name": "look"
                      },
                      "id": "b",
                      "type": "function"
                    }
                  ]
                },
                {
                  "content": "see\n(The images of `look` follow.)",
                  "role": "tool",
                  "tool_call_id": "a"
                },
                {
                  "content": "Error: no object",
                  "role": "tool",
                  "tool_call_id": "b"
                },
                {
                  "content": [
                    {
                      "image_url": {
                        "url": "data:image/png;base64,AAAA"
                      },
                      "type": "image_url"
                    }
                  ],
                  "role": "user"
                }
              ],
              "model": "m",
              "reasoning_effort": "low",
              "response_format": {
                "json_schema": {
                  "name": "answer",
                  "schema": {
                    "properties": {
                      "a": {}
                    },
                    "type": "object"
                  },
                  "strict": false
                },
                "type": "json_schema"
              },
              "temperature": 0.5,
              "tools": [
                {
                  "function": {
                    "description": "Looks.",
                    "name": "look",
                    "parameters": {
                      "type": "object"
                    }
                  },
                  "type": "function"
                }
              ]
            }"#]]
        .assert_eq(&text.unwrap());
    }

    #[test]
    fn a_schema_is_strict_where_it_names_all() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
        assert!(is_strict(&closed));
        let open = json!({"type": "object", "properties": {"a": closed}, "required": ["a"]});
        assert!(!is_strict(&open));
        assert!(!is_strict(
            &json!({"type": "array", "items": {"type": "object"}})
        ));
    }

    #[test]
    fn an_answer_is_read_however_it_is_dressed() {
        let show = |answer: Value| match read(&answer) {
            Ok(reply) => format!("{:?} {:?} {:?}", reply.text, reply.finish, reply.calls),
            Err(why) => why,
        };
        let of = |message: Value, reason: &str| {
            show(json!({"choices": [{"message": message, "finish_reason": reason}]}))
        };
        assert_eq!(show(json!({})), "it holds no choice");
        assert_eq!(
            show(json!({"choices": [{}]})),
            "its choice holds no message"
        );
        assert_eq!(of(json!({"content": "Hi"}), "stop"), r#""Hi" Stop []"#);
        assert_eq!(
            of(
                json!({"content": [{"type": "text", "text": "H"}, {"text": "i"}]}),
                "length"
            ),
            r#""Hi" Length []"#
        );
        assert_eq!(
            of(json!({"content": null, "refusal": "No."}), "stop"),
            r#""No." Refusal []"#
        );
        assert_eq!(
            of(json!({"content": ""}), "content_filter"),
            r#""" Refusal []"#
        );
        assert_eq!(of(json!({"content": "x"}), "odd"), r#""x" Other("odd") []"#);
        let call = |arguments: Value| json!({"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]});
        assert_eq!(
            of(call(json!("{\"a\":1}")), "stop"),
            r#""" Calls [ToolCall { id: "call-1", name: "f", arguments: Ok({"a": Number(1)}) }]"#
        );
        assert_eq!(
            of(call(json!("[1]")), "tool_calls"),
            r#""" Calls [ToolCall { id: "call-1", name: "f", arguments: Err("[1]") }]"#
        );
        assert_eq!(
            of(json!({"tool_calls": [{"id": "x"}]}), "tool_calls"),
            "call 1 names no function"
        );
    }
}
