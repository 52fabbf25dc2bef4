//! The messages of A2A, in the two dialects that agents speak.
//!
//! Dialect 0.3 has methods such as `message/send`, members `kind` and states such as `completed`; dialect 1.0 has
//! `SendMessage`, parts without `kind` and states such as `TASK_STATE_COMPLETED`. What is read may be of either, whatever
//! was agreed; what is written is of one, a [`Wire`]. Nobody here sends anything.

pub mod card;

use crate::json::{Map, Value, json};

/// A dialect of A2A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Protocol 0.3.
    V03,
    /// Protocol 1.0.
    V1,
}

/// What can be asked of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// To take a message.
    Send,
    /// To take a message, and to tell what becomes of it while it does.
    Stream,
    /// What has become of a task.
    Get,
    /// To give a task up.
    Cancel,
    /// To tell what becomes of a task from now on.
    Subscribe,
}

/// The methods, by their names in 0.3 and 1.0.
const METHODS: [(Method, &str, &str); 5] = [
    (Method::Send, "message/send", "SendMessage"),
    (Method::Stream, "message/stream", "SendStreamingMessage"),
    (Method::Get, "tasks/get", "GetTask"),
    (Method::Cancel, "tasks/cancel", "CancelTask"),
    (Method::Subscribe, "tasks/resubscribe", "SubscribeToTask"),
];

impl Wire {
    /// Returns the name of a method.
    pub fn name_of(self, method: Method) -> &'static str {
        let found = METHODS.iter().find(|(other, ..)| *other == method);
        let (_, old, new) = found.unwrap_or(&METHODS[0]);
        match self {
            Wire::V03 => old,
            Wire::V1 => new,
        }
    }

    /// Returns the dialect and the method that a name belongs to.
    pub fn of_name(name: &str) -> Option<(Wire, Method)> {
        METHODS.iter().find_map(|(method, old, new)| {
            if *old == name {
                Some((Wire::V03, *method))
            } else {
                (*new == name).then_some((Wire::V1, *method))
            }
        })
    }

    /// Returns the version of the protocol.
    pub fn version(self) -> &'static str {
        match self {
            Wire::V03 => "0.3.0",
            Wire::V1 => "1.0",
        }
    }
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was taken.
    Submitted,
    /// The agent works on it.
    Working,
    /// The agent waits for another message.
    InputRequired,
    /// The agent waits for somebody to prove who asks.
    AuthRequired,
    /// It is done.
    Completed,
    /// It was given up on request.
    Canceled,
    /// The agent could not do it.
    Failed,
    /// The agent did not take it.
    Rejected,
    /// A state that nobody here knows.
    Unknown,
}

const STATES: [(State, &str, &str); 9] = [
    (State::Submitted, "submitted", "TASK_STATE_SUBMITTED"),
    (State::Working, "working", "TASK_STATE_WORKING"),
    (
        State::InputRequired,
        "input-required",
        "TASK_STATE_INPUT_REQUIRED",
    ),
    (
        State::AuthRequired,
        "auth-required",
        "TASK_STATE_AUTH_REQUIRED",
    ),
    (State::Completed, "completed", "TASK_STATE_COMPLETED"),
    (State::Canceled, "canceled", "TASK_STATE_CANCELED"),
    (State::Failed, "failed", "TASK_STATE_FAILED"),
    (State::Rejected, "rejected", "TASK_STATE_REJECTED"),
    (State::Unknown, "unknown", "TASK_STATE_UNSPECIFIED"),
];

impl State {
    /// Reads a state.
    pub fn read(text: &str) -> State {
        let found = STATES
            .iter()
            .find(|(_, old, new)| *old == text || *new == text);
        found.map_or(State::Unknown, |(state, ..)| *state)
    }

    /// Returns the name of the state.
    pub fn name(self, wire: Wire) -> &'static str {
        let found = STATES.iter().find(|(other, ..)| *other == self);
        let (_, old, new) = found.unwrap_or(&STATES[8]);
        match wire {
            Wire::V03 => old,
            Wire::V1 => new,
        }
    }

    /// Returns whether nothing more becomes of the task.
    pub fn is_over(self) -> bool {
        matches!(
            self,
            State::Completed | State::Canceled | State::Failed | State::Rejected
        )
    }

    /// Returns whether the agent does nothing until it is told more.
    pub fn waits(self) -> bool {
        matches!(self, State::InputRequired | State::AuthRequired)
    }
}

/// A part of a message or an artifact.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it holds.
    pub content: Content,
    /// What is said about it.
    pub metadata: Option<Value>,
}

/// What a part holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A text.
    Text(String),
    /// A value.
    Data(Value),
    /// A file.
    File(File),
}

/// A file in a message.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its name.
    pub name: Option<String>,
    /// Its media type.
    pub media_type: Option<String>,
    /// Where its bytes are.
    pub bytes: FileBytes,
}

/// Where the bytes of a file are.
#[derive(Clone, Debug, PartialEq)]
pub enum FileBytes {
    /// In the message, in base64.
    Inline(String),
    /// At an address.
    At(String),
}

fn text(value: &Value, key: &str) -> Option<String> {
    Some(value.get(key)?.as_str()?.to_owned())
}

fn list<T>(value: &Value, key: &str, read: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    let items = value.get(key).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(read).collect()
}

fn put(members: &mut Map<String, Value>, key: &str, value: Option<&String>) {
    if let Some(value) = value {
        members.insert(key.to_owned(), Value::String(value.clone()));
    }
}

impl Part {
    /// Returns a part that is a text.
    pub fn text(text: &str) -> Part {
        Part {
            content: Content::Text(text.to_owned()),
            metadata: None,
        }
    }

    /// Reads a part; `None` where it holds nothing that is known.
    pub fn read(value: &Value) -> Option<Part> {
        let inline = |bytes: String| FileBytes::Inline(bytes);
        let content = if let Some(text) = text(value, "text") {
            Content::Text(text)
        } else if let Some(file) = value.get("file") {
            let bytes = text(file, "bytes").or_else(|| text(file, "fileWithBytes"));
            let at = || text(file, "uri").or_else(|| text(file, "fileWithUri"));
            Content::File(File {
                name: text(file, "name"),
                media_type: text(file, "mimeType").or_else(|| text(file, "mediaType")),
                bytes: bytes.map(inline).or_else(|| at().map(FileBytes::At))?,
            })
        } else if let Some(data) = value.get("data") {
            Content::Data(data.clone())
        } else {
            let at = || text(value, "url").map(FileBytes::At);
            Content::File(File {
                name: text(value, "filename"),
                media_type: text(value, "mediaType"),
                bytes: text(value, "raw").map(inline).or_else(at)?,
            })
        };
        Some(Part {
            content,
            metadata: value.get("metadata").filter(|v| !v.is_null()).cloned(),
        })
    }

    /// Writes the part.
    pub fn write(&self, wire: Wire) -> Value {
        let mut members = Map::new();
        match (&self.content, wire) {
            (Content::Text(text), Wire::V03) => {
                members.extend(own(json!({"kind": "text", "text": text})))
            }
            (Content::Text(text), Wire::V1) => members.extend(own(json!({"text": text}))),
            (Content::Data(data), Wire::V03) => {
                members.extend(own(json!({"kind": "data", "data": data})))
            }
            (Content::Data(data), Wire::V1) => members.extend(own(json!({"data": data}))),
            (Content::File(file), Wire::V03) => {
                let mut inner = Map::new();
                put(&mut inner, "name", file.name.as_ref());
                put(&mut inner, "mimeType", file.media_type.as_ref());
                match &file.bytes {
                    FileBytes::Inline(bytes) => put(&mut inner, "bytes", Some(bytes)),
                    FileBytes::At(url) => put(&mut inner, "uri", Some(url)),
                }
                members.extend(own(json!({"kind": "file", "file": inner})));
            }
            (Content::File(file), Wire::V1) => {
                put(&mut members, "filename", file.name.as_ref());
                put(&mut members, "mediaType", file.media_type.as_ref());
                match &file.bytes {
                    FileBytes::Inline(bytes) => put(&mut members, "raw", Some(bytes)),
                    FileBytes::At(url) => put(&mut members, "url", Some(url)),
                }
            }
        }
        if let Some(metadata) = &self.metadata {
            members.insert("metadata".to_owned(), metadata.clone());
        }
        Value::Object(members)
    }
}

/// Returns the members of an object.
fn own(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Reads parts; what is no part is passed over.
pub fn read_parts(parts: &[Value]) -> Vec<Part> {
    parts.iter().filter_map(Part::read).collect()
}

/// Writes parts as 0.3 has them, which is how steps and agents hold them.
pub fn plain_parts(parts: &[Part]) -> Vec<Value> {
    parts.iter().map(|part| part.write(Wire::V03)).collect()
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Who asks.
    User,
    /// The agent.
    Agent,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// Who says it.
    pub role: Role,
    /// What it says.
    pub parts: Vec<Part>,
    /// The conversation that it belongs to.
    pub context_id: Option<String>,
    /// The task that it belongs to.
    pub task_id: Option<String>,
}

impl Message {
    /// Reads a message; `None` where it has no parts.
    pub fn read(value: &Value) -> Option<Message> {
        let role = match value.get("role").and_then(Value::as_str) {
            Some("user" | "ROLE_USER") => Role::User,
            _ => Role::Agent,
        };
        value.get("parts")?.as_array()?;
        Some(Message {
            id: text(value, "messageId").unwrap_or_default(),
            role,
            parts: list(value, "parts", Part::read),
            context_id: text(value, "contextId").filter(|id| !id.is_empty()),
            task_id: text(value, "taskId").filter(|id| !id.is_empty()),
        })
    }

    /// Writes the message.
    pub fn write(&self, wire: Wire) -> Value {
        let role = match (self.role, wire) {
            (Role::User, Wire::V03) => "user",
            (Role::Agent, Wire::V03) => "agent",
            (Role::User, Wire::V1) => "ROLE_USER",
            (Role::Agent, Wire::V1) => "ROLE_AGENT",
        };
        let parts: Vec<Value> = self.parts.iter().map(|part| part.write(wire)).collect();
        let mut members = own(json!({"messageId": self.id, "role": role, "parts": parts}));
        if wire == Wire::V03 {
            members.insert("kind".to_owned(), json!("message"));
        }
        put(&mut members, "contextId", self.context_id.as_ref());
        put(&mut members, "taskId", self.task_id.as_ref());
        Value::Object(members)
    }
}

/// Something that an agent made.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// What it holds.
    pub parts: Vec<Part>,
}

impl Artifact {
    /// Reads an artifact; `None` where it has no parts.
    pub fn read(value: &Value) -> Option<Artifact> {
        value.get("parts")?.as_array()?;
        Some(Artifact {
            id: text(value, "artifactId").unwrap_or_default(),
            name: text(value, "name"),
            parts: list(value, "parts", Part::read),
        })
    }

    /// Writes the artifact.
    pub fn write(&self, wire: Wire) -> Value {
        let parts: Vec<Value> = self.parts.iter().map(|part| part.write(wire)).collect();
        let mut members = own(json!({"artifactId": self.id, "parts": parts}));
        put(&mut members, "name", self.name.as_ref());
        Value::Object(members)
    }
}

/// A message that an agent works on.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// The conversation that it belongs to.
    pub context_id: Option<String>,
    /// Where it stands.
    pub state: State,
    /// What the agent says of that.
    pub message: Option<Message>,
    /// What the agent made.
    pub artifacts: Vec<Artifact>,
    /// What was said so far.
    pub history: Vec<Message>,
}

impl Task {
    /// Reads a task; `None` where it has no id or no state.
    pub fn read(value: &Value) -> Option<Task> {
        let status = value.get("status")?;
        Some(Task {
            id: text(value, "id").filter(|id| !id.is_empty())?,
            context_id: text(value, "contextId").filter(|id| !id.is_empty()),
            state: State::read(status.get("state")?.as_str()?),
            message: status.get("message").and_then(Message::read),
            artifacts: list(value, "artifacts", Artifact::read),
            history: list(value, "history", Message::read),
        })
    }

    /// Writes the task.
    pub fn write(&self, wire: Wire) -> Value {
        let mut members = own(json!({"id": self.id, "status": self.status(wire)}));
        if wire == Wire::V03 {
            members.insert("kind".to_owned(), json!("task"));
        }
        put(&mut members, "contextId", self.context_id.as_ref());
        let mut write = |key: &str, items: Vec<Value>| {
            if !items.is_empty() {
                members.insert(key.to_owned(), Value::Array(items));
            }
        };
        let artifacts = self.artifacts.iter().map(|item| item.write(wire)).collect();
        write("artifacts", artifacts);
        write(
            "history",
            self.history.iter().map(|item| item.write(wire)).collect(),
        );
        Value::Object(members)
    }

    /// Writes where the task stands.
    pub fn status(&self, wire: Wire) -> Value {
        let mut status = json!({"state": self.state.name(wire)});
        if let Some(message) = &self.message {
            status["message"] = message.write(wire);
        }
        status
    }

    /// Returns what the agent says at the end: the parts of its last message, and of what it made.
    pub fn said(&self) -> Vec<Part> {
        let message = self.message.iter().flat_map(|message| &message.parts);
        let made = self.artifacts.iter().flat_map(|artifact| &artifact.parts);
        let parts: Vec<Part> = message.chain(made).cloned().collect();
        if !parts.is_empty() {
            return parts;
        }
        let mut by_agent = self.history.iter().rev();
        let last = by_agent.find(|message| message.role == Role::Agent);
        last.map_or(Vec::new(), |message| message.parts.clone())
    }
}

/// What an agent tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A message, which is the whole answer.
    Message(Message),
    /// A task.
    Task(Task),
    /// Where a task stands now.
    Status {
        /// The task.
        task_id: String,
        /// Its conversation.
        context_id: Option<String>,
        /// Its state.
        state: State,
        /// What the agent says of that.
        message: Option<Message>,
    },
    /// More of what the agent made.
    Artifact {
        /// The task.
        task_id: String,
        /// Whether it goes on where the artifact of that id ends.
        append: bool,
        /// What was made.
        artifact: Artifact,
    },
}

impl Told {
    /// Reads what an agent tells; `None` where it is nothing that is known.
    pub fn read(value: &Value) -> Option<Told> {
        let inner = ["task", "message", "statusUpdate", "artifactUpdate"]
            .into_iter()
            .find_map(|key| Some((key, value.get(key).filter(|inner| inner.is_object())?)));
        let kind = value.get("kind").and_then(Value::as_str);
        let (kind, value) = match (kind, inner) {
            (Some(kind), _) => (kind, value),
            (None, Some(inner)) => inner,
            // Who leaves `kind` out is known by what is there.
            (None, None) if value.get("parts").is_some() => ("message", value),
            (None, None) if value.get("artifact").is_some() => ("artifactUpdate", value),
            (None, None) if value.get("id").is_some() => ("task", value),
            (None, None) => ("statusUpdate", value),
        };
        match kind {
            "message" => Message::read(value).map(Told::Message),
            "task" => Task::read(value).map(Told::Task),
            "status-update" | "statusUpdate" => {
                let status = value.get("status")?;
                Some(Told::Status {
                    task_id: text(value, "taskId")?,
                    context_id: text(value, "contextId").filter(|id| !id.is_empty()),
                    state: State::read(status.get("state")?.as_str()?),
                    message: status.get("message").and_then(Message::read),
                })
            }
            "artifact-update" | "artifactUpdate" => Some(Told::Artifact {
                task_id: text(value, "taskId")?,
                append: value
                    .get("append")
                    .and_then(Value::as_bool)
                    .unwrap_or(false),
                artifact: Artifact::read(value.get("artifact")?)?,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
