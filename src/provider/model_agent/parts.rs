//! Parts of messages and answers of tools, as a model sees them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::json::{Value, json};
use crate::step::model::Content;

/// The longest text that a model sees of one answer of a tool, in characters. Of a longer one it sees the beginning, and is
/// told so.
pub(super) const MAX_ANSWER: usize = 60_000;

/// The kinds of images that models take.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns the parts of a message, as A2A has them.
pub(super) fn contents(parts: &[Value]) -> Vec<Content> {
    parts.iter().map(content).collect()
}

fn content(part: &Value) -> Content {
    let text = |key: &str| part.get(key).and_then(Value::as_str);
    if let Some(text) = text("text") {
        return Content::Text(text.to_owned());
    }
    if let Some(file) = part.get("file") {
        return file_content(file);
    }
    let data = part.get("data").unwrap_or(part);
    Content::Text(data.to_string())
}

fn file_content(file: &Value) -> Content {
    let of = |key: &str| file.get(key).and_then(Value::as_str);
    let name = of("name").unwrap_or("a file");
    let mime = of("mimeType").unwrap_or("application/octet-stream");
    let Some(base64) = of("bytes") else {
        let at = of("uri").unwrap_or("nowhere");
        return Content::Text(format!("[{name} of type {mime} is at {at}]"));
    };
    if IMAGES.contains(&mime) {
        return Content::Image {
            mime: mime.to_owned(),
            base64: base64.to_owned(),
        };
    }
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    match String::from_utf8(bytes) {
        Ok(text) => Content::Text(format!("{name}:\n{text}")),
        Err(error) => {
            let n = error.as_bytes().len();
            Content::Text(format!(
                "[{name} of type {mime} has {n} bytes, which are no text]"
            ))
        }
    }
}

/// Returns the parts of a message for people: images by their type.
pub(super) fn shown(parts: &[Value]) -> String {
    text_of(&contents(parts))
}

/// Returns content for people.
pub(super) fn text_of(content: &[Content]) -> String {
    let each = content.iter().map(|content| match content {
        Content::Text(text) => text.clone(),
        Content::Image { mime, base64 } => {
            format!("[{mime}, {} characters of base64]", base64.len())
        }
    });
    each.collect::<Vec<_>>().join("\n")
}

/// Returns what an MCP tool answered.
pub(super) fn of_result(result: &Value) -> Vec<Content> {
    let items = result.get("content").and_then(Value::as_array);
    let mut content: Vec<Content> = items.into_iter().flatten().map(of_item).collect();
    if content.is_empty() {
        let structured = result.get("structuredContent").filter(|it| !it.is_null());
        content.extend(structured.map(|value| Content::Text(value.to_string())));
    }
    cut(content)
}

fn of_item(item: &Value) -> Content {
    let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str);
    if let Some(text) = text("/text").or(text("/resource/text")) {
        return Content::Text(text.to_owned());
    }
    match (text("/type"), text("/data"), text("/mimeType")) {
        (Some("image"), Some(data), Some(mime)) if IMAGES.contains(&mime) => Content::Image {
            mime: mime.to_owned(),
            base64: data.to_owned(),
        },
        (Some(kind), Some(data), mime) => Content::Text(format!(
            "[{kind} of type {}, {} characters of base64]",
            mime.unwrap_or("unknown"),
            data.len()
        )),
        _ => Content::Text(item.to_string()),
    }
}

/// Cuts the texts to the limit, all together.
pub(super) fn cut(content: Vec<Content>) -> Vec<Content> {
    let mut room = MAX_ANSWER;
    let each = content.into_iter().map(|content| match content {
        Content::Text(text) => {
            let n = text.chars().count();
            let shown = n.min(room);
            room -= shown;
            if shown == n {
                return Content::Text(text);
            }
            let start: String = text.chars().take(shown).collect();
            Content::Text(format!(
                "{start}\n[cut here: the text has {n} characters, of which the first {shown} are shown]"
            ))
        }
        image => image,
    });
    each.collect()
}

/// Returns the JSON Schema of arguments that are texts, all needed.
pub(super) fn texts_schema(arguments: &[(&str, &str)]) -> Value {
    let properties = arguments.iter().map(|(name, description)| {
        let schema = json!({"type": "string", "description": description});
        ((*name).to_owned(), schema)
    });
    let required: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
    json!({
        "type": "object",
        "properties": Value::Object(properties.collect()),
        "required": required,
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_shown_to_the_model_as_it_can_take_them() {
        let parts = [
            json!({"kind": "text", "text": "Look:"}),
            json!({"kind": "data", "data": {"a": 1}}),
            json!({"kind": "file", "file": {"name": "a.png", "mimeType": "image/png", "bytes": "AAAA"}}),
            json!({"kind": "file", "file": {"name": "a.txt", "mimeType": "text/plain", "bytes": "SGk="}}),
            json!({"kind": "file", "file": {"name": "a.bin", "bytes": "/w=="}}),
            json!({"kind": "file", "file": {"name": "a", "uri": "http://h/a"}}),
        ];
        assert_eq!(
            shown(&parts),
            "Look:\n{\"a\":1}\n[image/png, 4 characters of base64]\na.txt:\nHi\n[a.bin of type application/octet-stream has \
             1 bytes, which are no text]\n[a of type application/octet-stream is at http://h/a]"
        );
    }

    #[test]
    fn a_long_answer_is_cut_and_says_so() {
        let text = |n: usize| Content::Text("é".repeat(n));
        let content = cut(vec![text(MAX_ANSWER - 1), text(3), text(2)]);
        let ends: Vec<String> = content
            .iter()
            .map(|content| match content {
                Content::Text(text) => text.trim_start_matches('é').to_owned(),
                Content::Image { .. } => String::new(),
            })
            .collect();
        let note = |n, shown| {
            format!(
                "\n[cut here: the text has {n} characters, of which the first {shown} are shown]"
            )
        };
        assert_eq!(ends, [String::new(), note(3, 1), note(2, 0)]);
    }

    #[test]
    fn every_kind_of_result_is_content() {
        let result = json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "u", "text": "b"}},
            {"type": "resource_link", "uri": "u"},
        ]});
        assert_eq!(
            text_of(&of_result(&result)),
            "a\n[image/png, 4 characters of base64]\n[audio of type audio/wav, 4 characters of base64]\nb\n\
             {\"type\":\"resource_link\",\"uri\":\"u\"}"
        );
        let typed = json!({"content": [], "structuredContent": {"a": 1}});
        assert_eq!(text_of(&of_result(&typed)), "{\"a\":1}");
    }
}
