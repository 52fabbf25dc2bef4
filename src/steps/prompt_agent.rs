//! Asks an agent and waits for its reply.
//!
//! ```json
//! {"id": "reply", "type": "prompt_agent", "agent_name": "assistant", "prompt_id": "reply", "prompt": "Reply to Dana.",
//!  "depends_on": ["inbox", "assistant"]}
//! ```
//!
//! The agent works on the envs that its `deploy_agent` step connects it to, through the gateway and under its role.
//!
//! # What it gives
//!
//! One entry in `prompt_responses`, found by `prompt_id` (the step's id where it is absent): the prompt, the reply, the
//! number of tool calls, and where its trajectory is kept. `metadata.a2a_conversations` and `metadata.models.solver` get
//! one entry each under the step's id.
//!
//! # What is in its key
//!
//! The prompt and the other fields, what the agent is, and the state of each env that it is connected to; not
//! `timeout_seconds` and `poll_interval_seconds`.
//!
//! # Effects
//!
//! Changes the envs of the agent. Prompts with nothing between them in the graph that share an env are one group: they run
//! at once, and are kept and run again as one.
//!
//! # Differences to agent-env
//!
//! - An absent `prompt_id` is the step's id, not a random one.
//! - A prompt whose agent failed leaves no entry in `prompt_responses`; the step's error says what the agent said, and its
//!   log has the trajectory.
//! - Conversations of more than one turn, `parts` that are not text, `context_id` and `snapshot_config` are refused, not
//!   there yet. Fields that speak to a model are accepted and change nothing of a scripted agent.

use std::sync::OnceLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_agent::{self, Talk};
use super::on_triggers;
use super::target::{CONFLICT, DEFAULT_AGENT, MISSING, NOT_YET, given};
use crate::context::{Entry, Lookup, Output, Place};
use crate::digest::Digester;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::agent::{PromptSettings, Reply, text_part};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `prompt_agent`.
pub static TYPE: StepType = StepType {
    name: "prompt_agent",
    version: 1,
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
    /// When the agent's state is kept.
    snapshot_config: Option<Value>,
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
    "human_agent".to_owned()
}

#[derive(Debug)]
struct PromptAgent {
    fields: Fields,
    prompt_id: String,
    text: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    let text = match (&fields.prompt, &fields.parts) {
        (Some(_), Some(_)) => {
            refusals.push(
                Refusal::new(CONFLICT, "/parts", "the step has both `prompt` and `parts`")
                    .help("delete one of `prompt` and `parts`"),
            );
            String::new()
        }
        (None, None) => {
            refusals.push(
                Refusal::new(MISSING, "", "the step does not say what it asks")
                    .help("add \"prompt\": \"..\""),
            );
            String::new()
        }
        (Some(prompt), None) => prompt.clone(),
        (None, Some(parts)) => text_of(parts, &mut refusals),
    };
    let not_yet = [
        (
            "max_conversation_turns",
            fields.max_conversation_turns > 1,
            "a conversation of more than one turn",
        ),
        (
            "user_a2a_url",
            fields.user_a2a_url.is_some(),
            "a user at an address",
        ),
        (
            "context_id",
            fields.context_id.is_some(),
            "a conversation that goes on",
        ),
        (
            "snapshot_config",
            fields.snapshot_config.is_some(),
            "keeping the state of an agent",
        ),
    ];
    for (name, _, what) in not_yet.into_iter().filter(|(_, is_set, _)| *is_set) {
        refusals.push(
            Refusal::new(
                NOT_YET,
                format!("/{name}"),
                format!("{what} is not there in this release"),
            )
            .help(format!("delete `{name}`")),
        );
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let prompt_id = given(&fields.prompt_id).unwrap_or(step.as_str()).to_owned();
    Ok(Box::new(PromptAgent {
        fields,
        prompt_id,
        text,
    }))
}

fn text_of(parts: &[Map<String, Value>], refusals: &mut Vec<Refusal>) -> String {
    let mut texts = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        match part.get("text").and_then(Value::as_str) {
            Some(text) => texts.push(text),
            None => refusals.push(
                Refusal::new(
                    NOT_YET,
                    format!("/parts/{at}"),
                    "a part that is not text cannot be sent in this release",
                )
                .help("write {\"kind\": \"text\", \"text\": \"..\"}"),
            ),
        }
    }
    if parts.is_empty() {
        refusals.push(
            Refusal::new(MISSING, "/parts", "the list of parts is empty")
                .help("add {\"kind\": \"text\", \"text\": \"..\"}"),
        );
    }
    texts.join("\n")
}

impl PromptAgent {
    async fn prompt(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let party = on_agent::party(cx, &self.fields.agent_name)?;
        let timeout = Duration::from_secs_f64(self.fields.timeout_seconds.min(1e9));
        let mut talk = Talk::new(&self.conversation(cx));
        let settings = PromptSettings::default();
        let _attending = on_triggers::attend_all(cx, party.envs())?;
        let reply = party
            .ask(&mut talk, vec![text_part(&self.text)], &settings, timeout)
            .await;
        match reply {
            Ok(reply) => {
                let states = on_triggers::settle_all(cx, party.envs()).await;
                let mut output = self.output(cx, reply);
                output.entries.extend(states);
                Ok(output)
            }
            Err(error) => Err(on_agent::failed(cx, error)),
        }
    }

    /// Returns the id of the conversation.
    fn conversation(&self, cx: StepCx<'_>) -> String {
        let mut digester = Digester::new("conversation");
        digester.text(cx.step.as_str()).text(&self.prompt_id);
        digester.finish().to_string()[..32].to_owned()
    }

    fn output(&self, cx: StepCx<'_>, reply: Reply) -> Output {
        // Without a store there is no place for the trajectory, and the reply counts all the same.
        let kept = cx.services.keep(&on_agent::lines(&reply.trajectory)).ok();
        let url = kept.as_ref().map(super::object_url::of);
        let step = cx.step.as_str();
        let conversation = self.conversation(cx);
        let structured = reply.structured.clone().or_else(|| {
            self.fields.output_format.as_ref()?;
            on_agent::json_in(&reply.text)
        });
        let response = json!({
            "prompt_id": self.prompt_id,
            "response": reply.text,
            "prompt_text": self.text,
            "agent_trajectory_file_path": null,
            "source_agent_per_turn_prompt_parts": [null],
            "tool_call_count": reply.tool_calls,
            "model": self.fields.model,
            "error_type": null,
            "error_code": null,
            "error_message": null,
            "agent_session_id": null,
            "a2a_context_id": conversation,
            "agent_name": self.fields.agent_name,
            "step_id": step,
            "structured_output": structured,
            "agent_trajectory_object_url": url,
            "agent_trajectory_object_prefix": null,
            "target_agent_per_turn_trajectory_object_urls": [url],
        });
        let set = |path: &[&str], value: Value| {
            let path = path.iter().map(|&part| part.to_owned()).collect();
            Entry::data(Place::Set(path), value)
        };
        Output::of(vec![
            Entry::data(Place::Prompt(self.prompt_id.clone()), response),
            set(&["a2a_conversations", step], json!(conversation)),
            set(&["models", "solver", step], Value::Null),
        ])
    }
}

impl Step for PromptAgent {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["prompt_id"] = Value::String(self.prompt_id.clone());
        if let Value::Object(members) = &mut fields {
            for name in [
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
        vec![(ResourceId::agent(&self.fields.agent_name), Touch::MayMutate)]
    }

    fn prompts(&self) -> bool {
        true
    }

    fn reads(&self) -> Vec<NameRef> {
        vec![NameRef {
            field: "/agent_name".to_owned(),
            lookup: Lookup::Agent(self.fields.agent_name.clone()),
        }]
    }

    fn provides(&self) -> Vec<NameRef> {
        let field = if self.fields.prompt_id.is_some() {
            "/prompt_id"
        } else {
            ""
        };
        vec![NameRef {
            field: field.to_owned(),
            lookup: Lookup::Prompt(self.prompt_id.clone()),
        }]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.prompt(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::agent::{Agent, AgentError, Prompt};
    use crate::steps::testing::{FakeEnv, FakeServices, build_step, refused, run, show};
    use expect_test::expect;
    use std::sync::Arc;

    /// Says in which envs it is, and fails where it is told to.
    struct Parrot;

    impl Agent for Parrot {
        fn name(&self) -> &str {
            "parrot"
        }

        fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
            Box::pin(async move {
                for env in &prompt.envs {
                    env.call("look", Map::new()).await?;
                }
                let text = prompt.text();
                let trajectory = vec![json!({"role": "user", "content": text})];
                if text == "fail" {
                    return Err(AgentError::Failed {
                        agent: "parrot".to_owned(),
                        message: "no".to_owned(),
                        trajectory,
                    });
                }
                Ok(Reply {
                    text: format!("{text}!"),
                    tool_calls: prompt.envs.len() as u64,
                    trajectory,
                    ..Reply::default()
                })
            })
        }
    }

    fn world() -> FakeServices {
        let env = FakeEnv::new("email").tool(json!({"name": "look"}), |_| json!({}));
        FakeServices::new()
            .env(env)
            .agent(Arc::new(Parrot), &["email"])
    }

    #[test]
    fn a_reply_is_kept_with_its_prompt_and_its_trajectory() {
        let step = build_step(
            &TYPE,
            "ask",
            json!({"agent_name": "parrot", "prompt": "Hi"}),
        );
        let text = show(&run(&*step, "ask", &world()).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("Prompt(\"ask\") = ") && lines[0].contains(r#""response":"Hi!""#)
        );
        assert!(
            lines[0].contains(r#""tool_call_count":1"#) && lines[0].contains("aebuild:sha256:")
        );
        assert!(lines[2] == "metadata.models.solver.ask = null", "{text}");
    }

    #[test]
    fn an_agent_that_fails_fails_the_step_and_leaves_its_trajectory_in_the_log() {
        let step = build_step(
            &TYPE,
            "ask",
            json!({"agent_name": "parrot", "prompt": "fail"}),
        );
        let world = world();
        let error = run(&*step, "ask", &world).unwrap_err();
        expect!["RuntimeError: A2A task failed (error_type=agent_error, agent=parrot): no"]
            .assert_eq(&error.to_string());
        assert!(
            world
                .log_text()
                .contains(r#"{"content":"fail","role":"user"}"#)
        );
    }

    #[test]
    fn a_prompt_is_text_or_parts_and_one_turn() {
        expect![[r#"
            missing-field : the step does not say what it asks (add "prompt": "..")
        "#]]
        .assert_eq(&refused(&TYPE, json!({})));
        expect![[r#"
            conflicting-fields /parts: the step has both `prompt` and `parts` (delete one of `prompt` and `parts`)
            not-supported-yet /max_conversation_turns: a conversation of more than one turn is not there in this release (delete `max_conversation_turns`)
        "#]]
        .assert_eq(&refused(
            &TYPE,
            json!({"prompt": "a", "parts": [], "max_conversation_turns": 3}),
        ));
        expect![[r#"
            not-supported-yet /parts/1: a part that is not text cannot be sent in this release (write {"kind": "text", "text": ".."})
        "#]]
        .assert_eq(&refused(
            &TYPE,
            json!({"parts": [{"kind": "text", "text": "a"}, {"kind": "data", "data": {}}]}),
        ));
    }
}
