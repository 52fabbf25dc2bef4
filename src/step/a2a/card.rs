//! The cards of agents: what they are, where they are asked, and what else can be done with them.

use super::Wire;
use crate::json::{Value, json};

/// The paths at which a card may be, in the order in which they are looked at.
pub const PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// A card, as far as somebody who asks the agent needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// The name.
    pub name: String,
    /// What the agent is.
    pub description: String,
    /// Where it is asked.
    pub url: String,
    /// The dialect that is spoken there.
    pub wire: Wire,
    /// Whether it tells what becomes of a message while it works.
    pub streams: bool,
    /// What else can be done with it.
    pub extensions: Vec<Extension>,
    /// The card as it was given.
    pub whole: Value,
}

/// Something that can be done with an agent besides asking it.
#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    /// What it is, such as `urn:agentenv:mcp-config/v1`.
    pub uri: String,
    /// Where it is, as the card says.
    pub endpoint: Option<String>,
    /// What may be asked there.
    pub methods: Value,
}

impl Extension {
    /// Returns the fields that a request may have, where the card lists them.
    pub fn supported(&self, method: &str) -> Option<Vec<String>> {
        let request = self.methods.get(method)?.get("request")?;
        let fields = request.get("supported")?.as_array()?;
        let fields = fields.iter().filter_map(Value::as_str);
        Some(fields.map(str::to_owned).collect())
    }
}

impl Card {
    /// Reads a card; the error says what is missing.
    pub fn read(card: &Value) -> Result<Card, String> {
        let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
        if !card.is_object() {
            return Err("its card is no JSON object".to_owned());
        }
        let (url, wire) = interface(card)?;
        let extensions = card.pointer("/capabilities/extensions");
        let extensions = extensions.and_then(Value::as_array).into_iter().flatten();
        let extensions = extensions.filter_map(|extension| {
            let params = extension.get("params").unwrap_or(&Value::Null);
            Some(Extension {
                uri: text(extension, "uri")?,
                endpoint: text(params, "endpoint"),
                methods: params.get("methods").cloned().unwrap_or_default(),
            })
        });
        Ok(Card {
            name: text(card, "name").unwrap_or_default(),
            description: text(card, "description").unwrap_or_default(),
            url,
            wire,
            streams: card.pointer("/capabilities/streaming") == Some(&json!(true)),
            extensions: extensions.collect(),
            whole: card.clone(),
        })
    }

    /// Returns an extension of AgentEnv, such as `mcp-config`.
    pub fn extension(&self, name: &str) -> Option<&Extension> {
        let uri = format!("urn:agentenv:{name}/v1");
        self.extensions.iter().find(|found| found.uri == uri)
    }
}

/// Returns where the agent is asked over JSON-RPC, and in which dialect; the newest that is known.
fn interface(card: &Value) -> Result<(String, Wire), String> {
    let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let known = |version: &str| match version.split('.').next() {
        Some("1") => Some(Wire::V1),
        Some("0") if version.starts_with("0.2") || version.starts_with("0.3") => Some(Wire::V03),
        _ => None,
    };
    let mut others = Vec::new();
    let mut found: Option<(String, Wire)> = None;
    let listed = card.get("supportedInterfaces").and_then(Value::as_array);
    for listed in listed.into_iter().flatten() {
        let Some(url) = text(listed, "url") else {
            continue;
        };
        let binding = text(listed, "protocolBinding").unwrap_or_default();
        let version = text(listed, "protocolVersion").unwrap_or_else(|| "1.0".to_owned());
        match known(&version) {
            Some(wire) if binding.eq_ignore_ascii_case("JSONRPC") => {
                if found.is_none()
                    || wire == Wire::V1 && found.as_ref().is_some_and(|(_, w)| *w != Wire::V1)
                {
                    found = Some((url, wire));
                }
            }
            _ => others.push(format!("{binding} {version}")),
        }
    }
    if let Some(found) = found {
        return Ok(found);
    }
    // A card of 0.3 names its main address, and others besides.
    let version = text(card, "protocolVersion").unwrap_or_else(|| "0.3".to_owned());
    if let Some(url) = text(card, "url") {
        let binding = text(card, "preferredTransport").unwrap_or_else(|| "JSONRPC".to_owned());
        match known(&version) {
            Some(wire) if binding.eq_ignore_ascii_case("JSONRPC") => return Ok((url, wire)),
            Some(wire) => {
                others.push(format!("{binding} {version}"));
                let more = card.get("additionalInterfaces").and_then(Value::as_array);
                let is_rpc = |other: &&Value| {
                    text(other, "transport").is_some_and(|t| t.eq_ignore_ascii_case("JSONRPC"))
                };
                let url = more.and_then(|more| text(more.iter().find(is_rpc)?, "url"));
                if let Some(url) = url {
                    return Ok((url, wire));
                }
            }
            None => others.push(format!("{binding} {version}")),
        }
    }
    if others.is_empty() {
        return Err("its card names no address at which it is asked".to_owned());
    }
    Err(format!(
        "its card offers {}, and none of JSON-RPC in A2A 0.3 or 1.0",
        others.join(", ")
    ))
}

/// Returns the card of an agent that is served at an address, in both dialects.
pub fn served(name: &str, description: &str, url: &str) -> Value {
    json!({
        "name": name,
        "description": description,
        "version": env!("CARGO_PKG_VERSION"),
        "protocolVersion": Wire::V03.version(),
        "url": url,
        "preferredTransport": "JSONRPC",
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": Wire::V1.version()},
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": Wire::V03.version()},
        ],
        "capabilities": {"streaming": true, "pushNotifications": false},
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{
            "id": "prompt",
            "name": "prompt",
            "description": "answers messages",
            "tags": ["agent"],
        }],
    })
}
