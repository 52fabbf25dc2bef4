//! Answers that come as server-sent events although nobody asked for a stream: put together to what comes in one piece.

use crate::json::{Map, Value, from_slice, json};
use crate::task::model::Api;

/// Why a stream gives no answer.
#[derive(Debug, PartialEq)]
pub(super) enum Broken {
    /// It ended before the answer did.
    Early,
    /// It holds an error.
    Error(Value),
    /// It holds what no stream may.
    Bad(String),
}

/// Returns whether a body is a stream of events.
pub(super) fn is_stream(content_type: &str, body: &[u8]) -> bool {
    let starts = [&b"data:"[..], b"event:", b":"];
    content_type.starts_with("text/event-stream")
        || starts
            .iter()
            .any(|start| body.trim_ascii_start().starts_with(start))
}

/// Puts the events of a stream together.
pub(super) fn assemble(api: Api, body: &[u8]) -> Result<Value, Broken> {
    let text = String::from_utf8_lossy(body);
    let mut whole = match api {
        Api::OpenAi => Whole::Completion(Completion::default()),
        Api::Anthropic => Whole::Message(Message::default()),
    };
    for data in data_of(&text) {
        if data == "[DONE]" {
            break;
        }
        let event: Value = from_slice(data.as_bytes()).map_err(|_| {
            let start: String = data.chars().take(200).collect();
            Broken::Bad(format!("an event of its stream is no JSON: {start}"))
        })?;
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            return Err(Broken::Error(json!({"error": error})));
        }
        match &mut whole {
            Whole::Completion(completion) => completion.take(&event),
            Whole::Message(message) => message.take(&event),
        }
    }
    match whole {
        Whole::Completion(completion) => completion.finish(),
        Whole::Message(message) => message.finish(),
    }
}

/// Returns the data of each event.
fn data_of(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.is_empty() {
            if !open.is_empty() {
                all.push(std::mem::take(&mut open).join("\n"));
            }
        } else if let Some(data) = line.strip_prefix("data:") {
            open.push(data.strip_prefix(' ').unwrap_or(data));
        }
    }
    all
}

enum Whole {
    Completion(Completion),
    Message(Message),
}

/// A chat completion that comes in pieces.
#[derive(Default)]
struct Completion {
    text: String,
    /// Texts of the message that are not its content, such as `reasoning_content`.
    others: Map<String, Value>,
    calls: Vec<Call>,
    finish_reason: Value,
    usage: Value,
    model: Value,
}

#[derive(Default)]
struct Call {
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

impl Completion {
    fn take(&mut self, event: &Value) {
        for (key, to) in [("usage", &mut self.usage), ("model", &mut self.model)] {
            if let Some(value) = event.get(key).filter(|value| !value.is_null()) {
                *to = value.clone();
            }
        }
        let Some(choice) = event.pointer("/choices/0") else {
            return;
        };
        if let Some(reason) = choice
            .get("finish_reason")
            .filter(|reason| !reason.is_null())
        {
            self.finish_reason = reason.clone();
        }
        let delta = choice.get("delta").and_then(Value::as_object);
        for (key, value) in delta.into_iter().flatten() {
            match (key.as_str(), value) {
                ("role", _) => {}
                ("content", Value::String(text)) => self.text.push_str(text),
                ("tool_calls", Value::Array(pieces)) => {
                    pieces.iter().for_each(|piece| self.take_call(piece));
                }
                (_, Value::String(text)) => {
                    let known = self.others.entry(key.clone()).or_insert_with(|| json!(""));
                    let joined = format!("{}{text}", known.as_str().unwrap_or_default());
                    *known = Value::String(joined);
                }
                (_, Value::Array(items)) => {
                    let known = self.others.entry(key.clone()).or_insert_with(|| json!([]));
                    if let Value::Array(known) = known {
                        known.extend(items.iter().cloned());
                    }
                }
                _ => {}
            }
        }
    }

    fn take_call(&mut self, piece: &Value) {
        let last = self.calls.len() as u64;
        let id = piece.get("id").and_then(Value::as_str).unwrap_or_default();
        // Some servers number none: what has an id begins a call.
        let index = piece.get("index").and_then(Value::as_u64);
        let index = index.unwrap_or(if id.is_empty() {
            last.saturating_sub(1)
        } else {
            last
        });
        let at = match self.calls.iter().position(|call| call.index == index) {
            Some(at) => at,
            None => {
                self.calls.push(Call {
                    index,
                    ..Call::default()
                });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        let text = |pointer: &str| piece.pointer(pointer).and_then(Value::as_str);
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        call.name
            .push_str(text("/function/name").unwrap_or_default());
        call.arguments
            .push_str(text("/function/arguments").unwrap_or_default());
    }

    fn finish(self) -> Result<Value, Broken> {
        if self.finish_reason.is_null() {
            return Err(Broken::Early);
        }
        let mut message = self.others;
        message.insert("content".to_owned(), Value::String(self.text));
        let calls = self.calls.into_iter().map(|call| {
            json!({"id": call.id, "function": {"name": call.name, "arguments": call.arguments}})
        });
        message.insert("tool_calls".to_owned(), calls.collect());
        Ok(json!({
            "choices": [{"message": message, "finish_reason": self.finish_reason}],
            "usage": self.usage,
            "model": self.model,
        }))
    }
}

/// A message of Anthropic's that comes in pieces.
#[derive(Default)]
struct Message {
    whole: Value,
    blocks: Vec<Value>,
    /// The arguments of the block at the same place, as far as they have come.
    inputs: Vec<String>,
    is_over: bool,
}

impl Message {
    fn take(&mut self, event: &Value) {
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => {
                self.whole = event.get("message").cloned().unwrap_or_default();
            }
            Some("content_block_start") => {
                self.blocks
                    .push(event.get("content_block").cloned().unwrap_or_default());
                self.inputs.push(String::new());
            }
            Some("content_block_delta") => self.add(event.get("delta")),
            Some("message_delta") => {
                if let Some(reason) = event.pointer("/delta/stop_reason") {
                    self.set("stop_reason", reason);
                }
                let usage = event.get("usage").and_then(Value::as_object);
                for (key, n) in usage.into_iter().flatten() {
                    if let Value::Object(whole) = &mut self.whole {
                        let usage = whole.entry("usage").or_insert_with(|| json!({}));
                        if let Value::Object(usage) = usage {
                            usage.insert(key.clone(), n.clone());
                        }
                    }
                }
            }
            Some("message_stop") => self.is_over = true,
            _ => {}
        }
    }

    fn set(&mut self, key: &str, value: &Value) {
        if let Value::Object(whole) = &mut self.whole {
            whole.insert(key.to_owned(), value.clone());
        }
    }

    /// Adds a piece to the block that is open: blocks come one after the other.
    fn add(&mut self, delta: Option<&Value>) {
        let (Some(block), Some(input)) = (self.blocks.last_mut(), self.inputs.last_mut()) else {
            return;
        };
        let Some(Value::Object(delta)) = delta else {
            return;
        };
        for (key, value) in delta {
            match (key.as_str(), value.as_str()) {
                ("type", _) => {}
                ("partial_json", Some(piece)) => input.push_str(piece),
                (_, Some(piece)) => {
                    if let Value::Object(block) = block {
                        let known = block.get(key).and_then(Value::as_str).unwrap_or_default();
                        let joined = format!("{known}{piece}");
                        block.insert(key.clone(), Value::String(joined));
                    }
                }
                _ => {}
            }
        }
    }

    fn finish(mut self) -> Result<Value, Broken> {
        if !self.is_over {
            return Err(Broken::Early);
        }
        for (block, input) in self.blocks.iter_mut().zip(std::mem::take(&mut self.inputs)) {
            if let Value::Object(block) = block
                && !input.is_empty()
            {
                let value = from_slice(input.as_bytes()).unwrap_or(Value::String(input));
                block.insert("input".to_owned(), value);
            }
        }
        let blocks = Value::Array(std::mem::take(&mut self.blocks));
        self.set("content", &blocks);
        Ok(self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::model::Finish;

    #[test]
    fn the_pieces_of_a_completion_are_put_together() {
        let body = concat!(
            "\u{feff}: hello\r\n\r\n",
            "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"H\"}}]}\r\n\r\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"i\",\"reasoning_content\":\"hm\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\"\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}},{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n",
            "data: [DONE]\n\n",
        );
        let whole = assemble(Api::OpenAi, body.as_bytes()).unwrap();
        let reply = super::super::openai::read(&whole).unwrap();
        assert_eq!((reply.text.as_str(), &reply.finish), ("Hi", &Finish::Calls));
        assert_eq!(reply.kept, json!({"reasoning_content": "hm"}));
        let calls: Vec<String> = reply
            .calls
            .iter()
            .map(|call| format!("{} {} {:?}", call.id, call.name, call.arguments))
            .collect();
        assert_eq!(calls, [r#"a f Ok({"x": Number(1)})"#, "b g Ok({})"]);
        assert_eq!(reply.usage.output_tokens, Some(4));
    }

    #[test]
    fn the_pieces_of_a_message_are_put_together() {
        let events = [
            r#"{"type":"message_start","message":{"model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let body: String = events
            .iter()
            .map(|event| format!("event: x\ndata: {event}\n\n"))
            .collect();
        let whole = assemble(Api::Anthropic, body.as_bytes()).unwrap();
        let reply = super::super::anthropic::read(&whole).unwrap();
        assert_eq!((reply.text.as_str(), &reply.finish), ("Hi", &Finish::Calls));
        assert_eq!(
            reply.calls[0].arguments,
            Ok(Map::from_iter([("x".to_owned(), json!(1))]))
        );
        assert_eq!(
            reply.kept[0],
            json!({"type": "thinking", "thinking": "hm", "signature": "s"})
        );
        let usage = (reply.usage.input_tokens, reply.usage.output_tokens);
        assert_eq!(usage, (Some(3), Some(9)));
    }

    #[test]
    fn a_stream_that_breaks_off_is_no_answer() {
        let of = |text: &str| assemble(Api::OpenAi, text.as_bytes());
        let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"H\"}}]}\n\n";
        assert_eq!(of(piece), Err(Broken::Early));
        assert_eq!(of(""), Err(Broken::Early));
        assert_eq!(
            of("data: {\"error\": {\"message\": \"busy\"}}\n\n"),
            Err(Broken::Error(json!({"error": {"message": "busy"}})))
        );
        assert_eq!(
            of("data: <html>\n\n"),
            Err(Broken::Bad(
                "an event of its stream is no JSON: <html>".to_owned()
            ))
        );
        assert_eq!(
            assemble(Api::Anthropic, b"data: {}\n\n"),
            Err(Broken::Early)
        );
        assert!(is_stream("text/event-stream; charset=utf-8", b""));
        assert!(is_stream("", b"\ndata: {}"));
        assert!(!is_stream("application/json", b"{}"));
    }
}
