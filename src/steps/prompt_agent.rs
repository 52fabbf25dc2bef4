//! Asks an agent and waits for its reply.
//!
//! ```json
//! {"id": "reply", "type": "prompt_agent", "agent_name": "assistant", "prompt_id": "reply", "prompt": "Reply to Dana.",
//!  "depends_on": ["inbox", "assistant"]}
//! ```
//!
//! The agent works on the envs that its `deploy_agent` step connects it to, through the gateway and under its role.
//!
//! # Conversations
//!
//! ```json
//! {"id": "talk", "type": "prompt_agent", "agent_name": "assistant", "prompt": "Help Dana.", "user_agent_name": "dana",
//!  "max_conversation_turns": 6}
//! ```
//!
//! With `max_conversation_turns` above 1 each reply goes to the agent that plays the user, and what that says is the next
//! prompt. It gives `{"message": .., "done": ..}`, typed or as text; any other text is the message, and other members are
//! kept. `done` ends the conversation, and its message is not sent. So does a user that fails, says nothing or takes too
//! long; what hung on a time limit is not kept. The user never sees the first prompt. A person plays the user after
//! `deploy_human_agent`.
//!
//! With `snapshot_config` the agent's files, its trajectory and the state of `env_id` are kept at the end, and with `per_turn`
//! after each turn.
//!
//! A prompt with a `context_id` goes on where the prompt before it to the same agent with the same id left off.
//!
//! # What it gives
//!
//! One entry in `prompt_responses`, found by `prompt_id` (the step's id where it is absent): the prompt, the last reply, the
//! number of tool calls, and where the trajectory of each turn is kept. `metadata.a2a_conversations` and
//! `metadata.models.solver` get one entry each under the step's id, `metadata.usersim_turn_outputs` what the user gave
//! besides its messages, `metadata.agent_snapshots` a row for each snapshot, and `metadata.agent_contexts` what the agent remembers of a named context.
//!
//! After the last turn `metadata.env_trigger_state.<env_id>` says of each env with triggers where they stand: `statuses`,
//! more of each in `triggers`, how many things happened, and in a file at `object_url` what. It is waited until what triggers
//! began is done, for at most a minute of real time; `capture_is_final` says whether it is. Envs of peers count too.
//!
//! # What is in its key
//!
//! The prompt and the other fields, what the agent and the user are, their peers and skills, the state of their sandboxes
//! and of each env that they are connected to; not `timeout_seconds` and `poll_interval_seconds`.
//!
//! # Effects
//!
//! Changes the envs of the agents, and the sandboxes of those that use one. Prompts with nothing between them in the graph
//! that share an env are one group: they run at once, and are kept and run again as one.
//!
//! # Differences to agent-env
//!
//! - An absent `prompt_id` is the step's id, not a random one.
//! - A prompt whose agent failed leaves no entry in `prompt_responses`; the step's error says what the agent said, and its
//!   log has the trajectory.
//! - `user_a2a_url` and `snapshot_config.interval_seconds` are refused, not there yet. The rows of snapshots say nothing of
//!   the time, so that they are the same each time.
//! - What an agent cannot do is passed over: fields that speak to a model change nothing of a scripted agent.

mod conversation;
mod snapshots;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::conversation::{Conversation, Talked, User};
use super::on_agent::{self, Talk};
use super::target::{CONFLICT, DEFAULT_AGENT, MISSING, NOT_YET, PERSON, given};
use super::{on_env, on_triggers, output_schema};
use crate::context::{Entry, Lookup, Output, Place};
use crate::digest::Digester;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::agent::{PromptSettings, text_of, text_part};
use crate::step::env::LiveEnv;
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::model::RESERVED_PARAMS;
use crate::task::triggers::Talking;
use crate::task::{OnError, StepId};

/// The step type `prompt_agent`.
pub static TYPE: StepType = StepType {
    name: "prompt_agent",
    version: 2,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("prompt_agent.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// What the agent is asked.
    prompt: Option<String>,
    /// What the agent is asked, as parts of a message, in place of `prompt`.
    parts: Option<Vec<Map<String, Value>>>,
    /// The name by which other steps find the reply; the step's id where absent.
    prompt_id: Option<String>,
    /// The agent.
    #[serde(default = "default_agent")]
    #[schemars(length(min = 1))]
    agent_name: String,
    /// How long the agent may take, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout_seconds: f64,
    /// Where the trajectory goes.
    trajectory_output_prefix: Option<String>,
    /// The model.
    model: Option<String>,
    /// Parameters of the model.
    model_params: Option<Map<String, Value>>,
    /// What the agent is told before the prompt.
    system_prompt: Option<String>,
    /// How often the agent may go back to its model.
    max_turns: Option<u64>,
    /// The JSON Schema of a typed reply.
    output_format: Option<Value>,
    /// How much the model may think.
    max_thinking_tokens: Option<u64>,
    /// How hard the model tries.
    effort: Option<String>,
    /// The agent's harness.
    harness: Option<String>,
    /// Tools of the framework that the agent gets.
    agentenv_tools: Option<Value>,
    /// How often a running agent is asked whether it is done, in seconds.
    #[serde(default = "default_poll")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    poll_interval_seconds: f64,
    /// The conversation that the prompt continues.
    context_id: Option<String>,
    /// How many turns the conversation has at most.
    #[serde(default = "default_turns")]
    #[schemars(range(min = 1))]
    max_conversation_turns: u64,
    /// The agent that plays the user.
    #[serde(default = "default_user")]
    user_agent_name: String,
    /// The address of an agent that plays the user.
    user_a2a_url: Option<String>,
    /// How long the user may take, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    user_agent_timeout_seconds: f64,
    /// The JSON Schema of what the user says.
    user_output_format: Option<Value>,
    /// The model of the user.
    user_model: Option<String>,
    /// When the agent's work is kept.
    snapshot_config: Option<snapshots::Config>,
    /// Whether the trajectory is kept while the agent works.
    #[serde(default)]
    live_trajectory: bool,
}

fn default_agent() -> String {
    DEFAULT_AGENT.to_owned()
}

fn default_timeout() -> f64 {
    600.0
}

fn default_poll() -> f64 {
    2.0
}

fn default_turns() -> u64 {
    1
}

fn default_user() -> String {
    PERSON.to_owned()
}

#[derive(Debug)]
struct PromptAgent {
    fields: Fields,
    prompt_id: String,
    parts: Vec<Value>,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    let parts = match (&fields.prompt, &fields.parts) {
        (Some(_), Some(_)) => {
            refusals.push(
                Refusal::new(CONFLICT, "/parts", "the step has both `prompt` and `parts`")
                    .help("delete one of `prompt` and `parts`"),
            );
            Vec::new()
        }
        (None, None) => {
            refusals.push(
                Refusal::new(MISSING, "", "the step does not say what it asks")
                    .help("add \"prompt\": \"..\""),
            );
            Vec::new()
        }
        (Some(prompt), None) => vec![text_part(prompt)],
        (None, Some(parts)) => {
            check_parts(parts, &mut refusals);
            parts.iter().cloned().map(Value::Object).collect()
        }
    };
    if given(&fields.user_a2a_url).is_some() {
        refusals.push(
            Refusal::new(
                NOT_YET,
                "/user_a2a_url",
                "a user at an address is not there in this release",
            )
            .help(
                "deploy an agent that is reached at that address, and name it in `user_agent_name`",
            ),
        );
    }
    for (field, schema) in [
        ("/output_format", &fields.output_format),
        ("/user_output_format", &fields.user_output_format),
    ] {
        refusals.extend(output_schema::refusals(field, schema));
    }
    let config = fields.snapshot_config.as_ref();
    refusals.extend(config.into_iter().flat_map(snapshots::Config::refusals));
    if let Some(params) = &fields.model_params {
        for name in RESERVED_PARAMS {
            if params.contains_key(name) {
                refusals.push(
                    Refusal::new(
                        CONFLICT,
                        format!("/model_params/{name}"),
                        format!(
                            "`{name}` is set by aebuild and cannot be a parameter of the model"
                        ),
                    )
                    .help(format!("delete `{name}`")),
                );
            }
        }
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let prompt_id = given(&fields.prompt_id).unwrap_or(step.as_str()).to_owned();
    Ok(Box::new(PromptAgent {
        fields,
        prompt_id,
        parts,
    }))
}

/// Checks the parts of a message.
fn check_parts(parts: &[Map<String, Value>], refusals: &mut Vec<Refusal>) {
    let mut refuse = |at: String, what: String, help: &str| {
        refusals.push(Refusal::new("wrong-type", at, what).help(help));
    };
    for (at, part) in parts.iter().enumerate() {
        let kind = part.get("kind").and_then(Value::as_str).unwrap_or("text");
        let fits = match kind {
            "text" => part.get("text").is_some_and(Value::is_string),
            "data" => part.get("data").is_some(),
            "file" => part.get("file").is_some_and(|file| {
                ["bytes", "uri"]
                    .iter()
                    .any(|key| file.get(key).is_some_and(Value::is_string))
            }),
            _ => false,
        };
        if !fits {
            refuse(
                format!("/parts/{at}"),
                format!("part {} is no text, file or data part", at + 1),
                "write {\"kind\": \"text\", \"text\": \"..\"}, {\"kind\": \"data\", \"data\": {..}} or {\"kind\": \"file\", \"file\": {\"uri\": \"..\"}}",
            );
        }
    }
    if parts.is_empty() {
        refusals.push(
            Refusal::new(MISSING, "/parts", "the list of parts is empty")
                .help("add {\"kind\": \"text\", \"text\": \"..\"}"),
        );
    }
}

impl PromptAgent {
    async fn prompt(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let fields = &self.fields;
        let agent = on_agent::party(cx, &fields.agent_name)?;
        let user = match fields.max_conversation_turns {
            1 => None,
            _ => Some(self.user(cx)?),
        };
        let conversation = Conversation {
            cx,
            name: &fields.agent_name,
            agent,
            settings: PromptSettings {
                model: fields.model.clone(),
                model_params: fields.model_params.clone().unwrap_or_default(),
                effort: fields.effort.clone(),
                max_thinking_tokens: fields.max_thinking_tokens,
                system_prompt: fields.system_prompt.clone(),
                max_turns: fields.max_turns,
                output_schema: fields.output_format.clone(),
                skills: Vec::new(),
            },
            timeout: limit(fields.timeout_seconds),
            user,
            max_turns: fields.max_conversation_turns,
            snapshots: fields.snapshot_config.as_ref(),
        };
        let mut talk = match given(&fields.context_id) {
            Some(id) => {
                let new = || Talk {
                    lasts: true,
                    ..Talk::new(id)
                };
                conversation::resumed(cx, &fields.agent_name, id)?.unwrap_or_else(new)
            }
            None => Talk::new(&self.conversation_id(cx)),
        };
        let envs = conversation.envs();
        let attending = on_triggers::attend_all(cx, &envs)?;
        let triggers = self.triggers(cx, &envs)?;
        let parts = self.parts.clone();
        let mut talked = conversation.go(&mut talk, parts, triggers).await?;
        let states = on_triggers::settle_all(cx, &envs).await;
        attending.iter().try_for_each(|those| those.check(cx))?;
        let mut snapshots = std::mem::take(&mut talked.snapshots);
        if let Some(config) = fields
            .snapshot_config
            .as_ref()
            .filter(|config| config.ends())
        {
            let last = talked.trajectories.last().cloned().flatten();
            let last = last.as_ref().map(super::object_url::of);
            let agent = (fields.agent_name.as_str(), &conversation.agent);
            snapshots.push(snapshots::take(cx, config, agent, &talk, last, true).await?);
        }
        let mut output = self.output(cx, &talk, talked)?;
        output.entries.extend(snapshots::entries(cx, snapshots));
        output.entries.extend(states);
        Ok(output)
    }

    /// Returns the triggers of who plays the user.
    fn triggers(
        &self,
        cx: StepCx<'_>,
        envs: &[Arc<dyn LiveEnv>],
    ) -> Result<Option<Talking>, StepError> {
        if !self.has_user() {
            return Ok(None);
        }
        let triggers = on_triggers::of_agent(cx, &self.fields.user_agent_name)?;
        if triggers.is_empty() {
            return Ok(None);
        }
        let triggers = Talking::new(triggers);
        let is_there = |env_id: &&str| envs.iter().any(|env| env.env_id() == *env_id);
        if let Some(env_id) = triggers.envs().into_iter().find(|env_id| !is_there(env_id)) {
            return Err(StepError::new(format!(
                "a trigger of `{}` waits for one of env `{env_id}`, on which nobody in the conversation works",
                self.fields.user_agent_name
            )));
        }
        Ok(Some(triggers))
    }

    fn user(&self, cx: StepCx<'_>) -> Result<User, StepError> {
        let fields = &self.fields;
        let name = &fields.user_agent_name;
        let is_deployed = cx.find(&Lookup::Agent(name.clone())).is_some();
        if !is_deployed && !on_agent::is_person(cx, name) {
            return Err(StepError::new(format!(
                "nobody plays the user: no step before deploys agent `{name}`"
            )));
        }
        let party = match is_deployed {
            true => Some(on_agent::party(cx, name)?),
            false => None,
        };
        let schema = fields.user_output_format.clone();
        Ok(User {
            name: name.clone(),
            party,
            settings: PromptSettings {
                model: fields.user_model.clone(),
                output_schema: Some(schema.unwrap_or_else(conversation::user_schema)),
                ..PromptSettings::default()
            },
            timeout: limit(fields.user_agent_timeout_seconds),
        })
    }

    /// Returns the env of which the state is kept with the agent's work.
    fn kept_env(&self) -> Option<&str> {
        let config = self.fields.snapshot_config.as_ref()?;
        given(&config.env_id)
    }

    fn has_user(&self) -> bool {
        self.fields.max_conversation_turns > 1
    }

    /// Returns the id of the conversation where the step names none.
    fn conversation_id(&self, cx: StepCx<'_>) -> String {
        let mut digester = Digester::new("conversation");
        digester.text(cx.step.as_str()).text(&self.prompt_id);
        digester.finish().to_string()[..32].to_owned()
    }

    fn output(&self, cx: StepCx<'_>, talk: &Talk, talked: Talked) -> Result<Output, StepError> {
        let reply = &talked.reply;
        let urls: Vec<Option<String>> = talked
            .trajectories
            .iter()
            .map(|kept| kept.as_ref().map(super::object_url::of))
            .collect();
        let step = cx.step.as_str();
        let structured = reply.structured.clone().or_else(|| {
            self.fields.output_format.as_ref()?;
            on_agent::json_in(&reply.text)
        });
        let response = json!({
            "prompt_id": self.prompt_id,
            "response": reply.text,
            "prompt_text": text_of(&self.parts),
            "agent_trajectory_file_path": null,
            "source_agent_per_turn_prompt_parts": talked.sent,
            "tool_call_count": talked.tool_calls,
            "model": self.fields.model,
            "error_type": null,
            "error_code": null,
            "error_message": null,
            "agent_session_id": null,
            "a2a_context_id": talk.context_id,
            "agent_name": self.fields.agent_name,
            "step_id": step,
            "structured_output": structured,
            "agent_trajectory_object_url": urls.last(),
            "agent_trajectory_object_prefix": null,
            "target_agent_per_turn_trajectory_object_urls": urls,
        });
        let set = |path: &[&str], value: Value| {
            let path = path.iter().map(|&part| part.to_owned()).collect();
            Entry::data(Place::Set(path), value)
        };
        let mut entries = vec![
            Entry::data(Place::Prompt(self.prompt_id.clone()), response),
            set(&["a2a_conversations", step], json!(talk.context_id)),
            set(&["models", "solver", step], json!(talked.model)),
        ];
        if self.fields.max_conversation_turns > 1 {
            entries.push(set(
                &["models", "user simulator", step],
                json!(talked.user_model),
            ));
        }
        if !talked.extras.is_empty() {
            entries.push(set(&["usersim_turn_outputs", step], json!(talked.extras)));
        }
        if !talked.stood.is_empty() {
            entries.push(set(&["env_trigger_snapshots", step], json!(talked.stood)));
        }
        if let Some(context_id) = given(&self.fields.context_id) {
            // Whoever goes on with the conversation reads it, and so depends on what was said.
            let memory = cx.services.keep(talk.memory.to_string().as_bytes())?;
            let value = json!({"turns": talk.turn, "object_url": memory.url()});
            let path = conversation::memory_path(&self.fields.agent_name, context_id);
            entries.push(Entry::data(Place::Set(path), value));
        }
        Ok(Output::of(entries))
    }
}

fn limit(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.min(1e9))
}

impl Step for PromptAgent {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["prompt_id"] = Value::String(self.prompt_id.clone());
        if let Value::Object(members) = &mut fields {
            for name in [
                "timeout_seconds",
                "poll_interval_seconds",
                "user_agent_timeout_seconds",
                "live_trajectory",
            ] {
                members.remove(name);
            }
        }
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        let mut touched = vec![(ResourceId::agent(&self.fields.agent_name), Touch::MayMutate)];
        if self.has_user() && self.fields.user_agent_name != self.fields.agent_name {
            let user = ResourceId::agent(&self.fields.user_agent_name);
            touched.push((user, Touch::MayMutate));
        }
        touched.extend(
            self.kept_env()
                .map(|env_id| (ResourceId::env(env_id), Touch::Observes)),
        );
        touched
    }

    fn prompts(&self) -> bool {
        true
    }

    fn reads(&self) -> Vec<NameRef> {
        let mut reads = vec![NameRef {
            field: "/agent_name".to_owned(),
            lookup: Lookup::Agent(self.fields.agent_name.clone()),
        }];
        if self.has_user() {
            reads.push(NameRef {
                field: "/user_agent_name".to_owned(),
                lookup: Lookup::Agent(self.fields.user_agent_name.clone()),
            });
        }
        reads.extend(self.kept_env().map(|env_id| NameRef {
            field: "/snapshot_config/env_id".to_owned(),
            lookup: Lookup::Env(env_id.to_owned()),
        }));
        reads
    }

    fn provides(&self) -> Vec<NameRef> {
        let field = if self.fields.prompt_id.is_some() {
            "/prompt_id"
        } else {
            ""
        };
        let reply = NameRef {
            field: field.to_owned(),
            lookup: Lookup::Prompt(self.prompt_id.clone()),
        };
        vec![reply, on_env::provides(&["env_trigger_state"])]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.prompt(cx))
    }
}

#[cfg(test)]
mod tests;
