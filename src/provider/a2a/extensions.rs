//! What an agent is told besides messages: how to work, its envs, its skills, the agents that it may ask.
//!
//! Each is an extension that the agent's card offers, with an address and the members that it takes. What was told is
//! remembered, and told again only where it changed.

use std::time::Duration;

use super::{Client, Fault};
use crate::json::{Map, Value, from_slice, json};
use crate::step::a2a::Task;
use crate::step::a2a::card::Extension;
use crate::step::agent::{AgentError, Prompt, PromptSettings, Skill};

/// How often something is told where the agent does not answer.
const TRIES: usize = 4;

/// How long is waited before it is told again.
const PAUSE: Duration = Duration::from_secs(1);

/// What an agent was told.
#[derive(Debug, Default)]
pub(super) struct Taught {
    config: Map<String, Value>,
    servers: Vec<Value>,
    skills: Vec<Skill>,
    peers: Option<Value>,
    /// What it cannot be told, so that this is said once.
    missing: Vec<String>,
}

/// Returns whether an agent can be told anything.
pub(super) fn is_taught(client: &Client) -> bool {
    let names = ["agent-config", "mcp-config", "skill-config", "peer-agents"];
    let mut offered = names.iter().map(|name| client.card().extension(name));
    offered.any(|extension| extension.is_some())
}

/// Tells an agent what it is to know before a prompt, and returns what it cannot be told, as moments of its trajectory.
pub(super) async fn teach(
    client: &Client,
    (name, holder): (&str, &str),
    prompt: &Prompt,
    taught: &mut Taught,
) -> Result<Vec<Value>, AgentError> {
    let mut lacks = Vec::new();
    let failed = |why: String| AgentError::Failed {
        agent: name.to_owned(),
        message: why,
        trajectory: Vec::new(),
    };
    let told = configure(client, name, prompt, taught, &mut lacks).await;
    told.map_err(failed)?;
    connect(client, (name, holder), prompt, taught).await?;
    give_skills(client, prompt, taught, &mut lacks)
        .await
        .map_err(failed)?;
    name_peers(client, prompt, taught).await.map_err(failed)?;
    lacks.retain(|lack| !taught.missing.contains(lack));
    taught.missing.extend(lacks.iter().cloned());
    let note = |lack: &String| json!({"type": "note", "text": lack});
    Ok(lacks.iter().map(note).collect())
}

/// Sends what an extension takes; a silent agent is asked again.
async fn post(
    client: &Client,
    extension: &Extension,
    default: &str,
    body: &Value,
) -> Result<(), String> {
    let endpoint = extension.endpoint.as_deref().unwrap_or(default);
    let mut n = 1;
    loop {
        match client.extra(endpoint, body).await {
            Ok(_) => return Ok(()),
            Err(Fault::Nobody(_) | Fault::Broken(_)) if n < TRIES => {
                n += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(fault) => return Err(fault.text()),
        }
    }
}

fn wanted(name: &str, prompt: &Prompt) -> Map<String, Value> {
    let PromptSettings {
        model,
        model_params,
        effort,
        max_thinking_tokens,
        system_prompt,
        max_turns,
        output_schema,
        skills: _,
    } = &prompt.settings;
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            all.insert(key.to_owned(), value);
        }
    };
    put("name", json!(name));
    put("timeout_seconds", json!(prompt.timeout.as_secs_f64()));
    put("model", json!(model));
    put("effort", json!(effort));
    put("max_thinking_tokens", json!(max_thinking_tokens));
    put("system_prompt", json!(system_prompt));
    put("max_turns", json!(max_turns));
    put("output_format", json!(output_schema));
    if !model_params.is_empty() {
        put("model_params", json!(model_params));
    }
    all
}

async fn configure(
    client: &Client,
    name: &str,
    prompt: &Prompt,
    taught: &mut Taught,
    lacks: &mut Vec<String>,
) -> Result<(), String> {
    let extension = client.card().extension("agent-config");
    let supported = extension.and_then(|extension| extension.supported("set"));
    let supported = supported.unwrap_or_default();
    let mut news = Map::new();
    let wanted = wanted(name, prompt);
    for (key, value) in &wanted {
        if !supported.contains(key) {
            // Whoever cannot be told its name or how long it may take loses nothing by it.
            if key != "name" && key != "timeout_seconds" {
                lacks.push(format!("the agent cannot be told `{key}`"));
            }
        } else if taught.config.get(key) != Some(value) {
            news.insert(key.clone(), value.clone());
        }
    }
    for key in taught.config.keys() {
        if !wanted.contains_key(key) {
            news.insert(key.clone(), Value::Null);
        }
    }
    let Some(extension) = extension.filter(|_| !news.is_empty()) else {
        return Ok(());
    };
    let body = Value::Object(news);
    post(client, extension, "/ext/agent-config", &body).await?;
    taught.config = wanted;
    taught.config.retain(|key, _| supported.contains(key));
    Ok(())
}

/// Returns the members that a request of an extension takes, where its card says so.
fn members(extension: &Extension, method: &str) -> Option<Vec<String>> {
    if let Some(listed) = extension.supported(method) {
        return Some(listed);
    }
    let request = extension.methods.get(method)?.get("request")?;
    let lists = ["required", "optional"].map(|key| request.get(key).and_then(Value::as_array));
    if lists.iter().any(Option::is_some) {
        let listed = lists.into_iter().flatten().flatten();
        return Some(
            listed
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        );
    }
    let listed = request.get("properties").unwrap_or(request).as_object()?;
    (!listed.is_empty()).then(|| listed.keys().cloned().collect())
}

async fn connect(
    client: &Client,
    (name, holder): (&str, &str),
    prompt: &Prompt,
    taught: &mut Taught,
) -> Result<(), AgentError> {
    let failed = |why: String| AgentError::Failed {
        agent: name.to_owned(),
        message: why,
        trajectory: Vec::new(),
    };
    for env in &prompt.envs {
        let env_id = env.env_id();
        let Some(extension) = client.card().extension("mcp-config") else {
            return Err(failed(format!(
                "it cannot be connected to env `{env_id}`: its card does not offer mcp-config"
            )));
        };
        let url = format!("{}/mcp", env.lasting_url(holder).await?);
        let mut server = json!({"url": url});
        let takes = members(extension, "add");
        if takes.is_none_or(|takes| takes.iter().any(|member| member == "name")) {
            server["name"] = json!(env_id);
        }
        if taught.servers.contains(&server) {
            continue;
        }
        let told = post(client, extension, "/ext/mcp-config", &server).await;
        told.map_err(failed)?;
        taught.servers.push(server);
    }
    Ok(())
}

async fn give_skills(
    client: &Client,
    prompt: &Prompt,
    taught: &mut Taught,
    lacks: &mut Vec<String>,
) -> Result<(), String> {
    for skill in &prompt.settings.skills {
        if taught.skills.contains(skill) {
            continue;
        }
        let Some(extension) = client.card().extension("skill-config") else {
            lacks.push(format!("the agent cannot be given skill `{}`", skill.name));
            continue;
        };
        let body = json!({
            "name": skill.name,
            "description": skill.description,
            "skill_md": skill_md(skill),
        });
        post(client, extension, "/ext/skill-config", &body).await?;
        taught.skills.push(skill.clone());
    }
    Ok(())
}

/// Returns a skill as a file `SKILL.md`.
fn skill_md(skill: &Skill) -> String {
    if skill.body.starts_with("---") {
        return skill.body.clone();
    }
    // A JSON text is a YAML text.
    format!(
        "---\nname: {}\ndescription: {}\n---\n\n{}",
        json!(skill.name),
        json!(skill.description),
        skill.body
    )
}

async fn name_peers(client: &Client, prompt: &Prompt, taught: &mut Taught) -> Result<(), String> {
    let mut peers = Vec::new();
    for peer in &prompt.peers {
        let url = peer.line.url().await.map_err(|error| error.to_string())?;
        let Some(url) = url else {
            return Err(format!("nothing gives agent `{}` an address", peer.name));
        };
        let description = peer.description.as_deref().unwrap_or_default();
        peers.push(json!({
            "name": peer.name,
            "url": url,
            "description": description,
            "card": crate::step::a2a::card::served(&peer.name, description, &url),
        }));
    }
    if peers.is_empty() && taught.peers.is_none() {
        return Ok(());
    }
    let peers = json!({"peers": peers});
    if taught.peers.as_ref() == Some(&peers) {
        return Ok(());
    }
    let Some(extension) = client.card().extension("peer-agents") else {
        return Err(
            "it cannot be told which agents it may ask: its card does not offer peer-agents"
                .to_owned(),
        );
    };
    post(client, extension, "/ext/peer-agents", &peers).await?;
    taught.peers = Some(peers);
    Ok(())
}

/// Returns what the agent tells of its work on a task; nothing where it does not.
pub(super) async fn trajectory(client: &Client, task: &Task) -> Vec<Value> {
    let Some(extension) = client.card().extension("trajectory") else {
        return Vec::new();
    };
    if task.id.is_empty() {
        return Vec::new();
    }
    let endpoint = extension.endpoint.as_deref().unwrap_or("/ext/trajectory");
    let told = client.extra(endpoint, &json!({"task_id": task.id})).await;
    told.map_or(Vec::new(), |bytes| moments(&bytes))
}

/// Reads a trajectory: a list, a member that is one, or a value a line.
fn moments(bytes: &[u8]) -> Vec<Value> {
    match from_slice(bytes) {
        Ok(Value::Array(items)) => items,
        Ok(Value::Object(members)) => {
            let names = ["trajectory", "events", "entries", "messages", "lines"];
            let mut found = names.iter().filter_map(|name| members.get(*name));
            match found.next() {
                Some(Value::Array(items)) => items.clone(),
                Some(Value::String(text)) => lines(text),
                _ => Vec::new(),
            }
        }
        _ => lines(&String::from_utf8_lossy(bytes)),
    }
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let values: Option<Vec<Value>> = lines.map(|line| from_slice(line.as_bytes()).ok()).collect();
    values.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trajectory_is_read_from_a_list_a_member_or_lines() {
        let two = [json!({"a": 1}), json!({"b": 2})];
        for text in [
            r#"[{"a": 1}, {"b": 2}]"#,
            r#"{"trajectory": [{"a": 1}, {"b": 2}]}"#,
            "{\"events\": \"{\\\"a\\\": 1}\\n{\\\"b\\\": 2}\\n\"}",
            "{\"a\": 1}\n\n{\"b\": 2}\n",
        ] {
            assert_eq!(moments(text.as_bytes()), two, "{text}");
        }
        assert!(moments(b"<html>").is_empty());
        assert!(moments(b"{\"a\": 1}").is_empty());
    }

    #[test]
    fn a_card_lists_what_a_request_takes_in_one_of_several_ways() {
        let listed = |request: Value| {
            let extension = Extension {
                uri: String::new(),
                endpoint: None,
                methods: json!({"add": {"request": request}}),
            };
            members(&extension, "add").map(|listed| listed.join(" "))
        };
        let table = [
            (json!({"supported": ["url", "name"]}), Some("url name")),
            (
                json!({"required": ["url"], "optional": ["name"]}),
                Some("url name"),
            ),
            (json!({"required": ["url"]}), Some("url")),
            (
                json!({"properties": {"name": {}, "url": {}}}),
                Some("name url"),
            ),
            (json!({"url": "string"}), Some("url")),
            (json!({}), None),
            (json!(7), None),
        ];
        for (request, expected) in table {
            assert_eq!(listed(request.clone()).as_deref(), expected, "{request}");
        }
        let other = Extension {
            uri: String::new(),
            endpoint: None,
            methods: json!({"list": {}}),
        };
        assert_eq!(members(&other, "add"), None);
    }

    #[test]
    fn a_skill_without_front_matter_gets_one() {
        let skill = |body: &str| Skill {
            name: "mail".to_owned(),
            description: "how: to mail".to_owned(),
            body: body.to_owned(),
        };
        assert_eq!(
            skill_md(&skill("Write.")),
            "---\nname: \"mail\"\ndescription: \"how: to mail\"\n---\n\nWrite."
        );
        assert_eq!(
            skill_md(&skill("---\nname: x\n---\n")),
            "---\nname: x\n---\n"
        );
    }
}
