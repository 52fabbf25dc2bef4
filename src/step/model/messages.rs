//! Messages as JSON: what calls are kept under, and what an agent remembers of a conversation.

use super::{ChatMessage, Content, ToolCall};
use crate::json::{Map, Value, json};

impl ChatMessage {
    /// Returns the message as JSON.
    pub fn to_value(&self) -> Value {
        match self {
            ChatMessage::System(text) => json!({"role": "system", "text": text}),
            ChatMessage::User(content) => json!({"role": "user", "content": contents(content)}),
            ChatMessage::Assistant { text, calls, kept } => {
                let calls: Vec<Value> = calls.iter().map(ToolCall::to_value).collect();
                json!({"role": "assistant", "text": text, "calls": calls, "kept": kept})
            }
            ChatMessage::Tool {
                id,
                name,
                content,
                is_error,
            } => json!({
                "role": "tool", "id": id, "name": name, "content": contents(content), "is_error": is_error,
            }),
        }
    }

    /// Reads a message; `None` where it is none.
    pub fn from_value(value: &Value) -> Option<Self> {
        let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
        let content = || {
            let items = value.get("content")?.as_array()?;
            items.iter().map(from_content).collect::<Option<Vec<_>>>()
        };
        Some(match text("role")?.as_str() {
            "system" => ChatMessage::System(text("text")?),
            "user" => ChatMessage::User(content()?),
            "assistant" => {
                let calls = value.get("calls")?.as_array()?;
                ChatMessage::Assistant {
                    text: text("text")?,
                    calls: calls
                        .iter()
                        .map(ToolCall::from_value)
                        .collect::<Option<_>>()?,
                    kept: value.get("kept")?.clone(),
                }
            }
            "tool" => ChatMessage::Tool {
                id: text("id")?,
                name: text("name")?,
                content: content()?,
                is_error: value.get("is_error")?.as_bool()?,
            },
            _ => return None,
        })
    }
}

impl ToolCall {
    /// Returns the call as JSON.
    pub fn to_value(&self) -> Value {
        match &self.arguments {
            Ok(arguments) => json!({"id": self.id, "name": self.name, "arguments": arguments}),
            Err(text) => json!({"id": self.id, "name": self.name, "no_arguments": text}),
        }
    }

    /// Reads a call; `None` where it is none.
    pub fn from_value(value: &Value) -> Option<Self> {
        let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
        let arguments: Result<Map<String, Value>, String> = match value.get("arguments") {
            Some(arguments) => Ok(arguments.as_object()?.clone()),
            None => Err(text("no_arguments")?),
        };
        Some(ToolCall {
            id: text("id")?,
            name: text("name")?,
            arguments,
        })
    }
}

fn contents(content: &[Content]) -> Vec<Value> {
    let one = |content: &Content| match content {
        Content::Text(text) => json!({"text": text}),
        Content::Image { mime, base64 } => json!({"image": base64, "mime": mime}),
    };
    content.iter().map(one).collect()
}

fn from_content(value: &Value) -> Option<Content> {
    let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
    match text("text") {
        Some(text) => Some(Content::Text(text)),
        None => Some(Content::Image {
            mime: text("mime")?,
            base64: text("image")?,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_from_its_json() {
        let content = vec![
            Content::Text("a".to_owned()),
            Content::Image {
                mime: "image/png".to_owned(),
                base64: "AA==".to_owned(),
            },
        ];
        let call = |arguments| ToolCall {
            id: "1".to_owned(),
            name: "look".to_owned(),
            arguments,
        };
        let all = [
            ChatMessage::System("s".to_owned()),
            ChatMessage::User(content.clone()),
            ChatMessage::Assistant {
                text: "t".to_owned(),
                calls: vec![call(Ok(Map::new())), call(Err("{".to_owned()))],
                kept: json!([1]),
            },
            ChatMessage::Tool {
                id: "1".to_owned(),
                name: "look".to_owned(),
                content,
                is_error: true,
            },
        ];
        for message in all {
            let value = message.to_value();
            assert_eq!(ChatMessage::from_value(&value), Some(message));
        }
        for bad in [
            json!({}),
            json!({"role": "user"}),
            json!({"role": "?"}),
            json!(1),
        ] {
            assert_eq!(ChatMessage::from_value(&bad), None);
        }
    }
}
