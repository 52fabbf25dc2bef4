//! The turns of a conversation: the agent answers, and who plays the user answers that.

use std::sync::Arc;
use std::time::Duration;

use super::snapshots;
use crate::context::Lookup;
use crate::json::{Map, Value, json};
use crate::step::agent::{AgentError, PromptSettings, Reply, text_of, text_part};
use crate::step::env::LiveEnv;
use crate::step::{StepCx, StepError, StoredFile};
use crate::steps::object_url;
use crate::steps::on_agent::{self, Party, Talk};
use crate::steps::on_triggers;
use crate::steps::shown::head;
use crate::task::triggers::Talking;

/// What a conversation is made of.
pub(super) struct Conversation<'a> {
    pub(super) cx: StepCx<'a>,
    /// The agent that is prompted.
    pub(super) name: &'a str,
    pub(super) agent: Party,
    /// What the agent and its settings are asked with.
    pub(super) settings: PromptSettings,
    pub(super) timeout: Duration,
    /// Who plays the user, where there is more than one turn.
    pub(super) user: Option<User>,
    pub(super) max_turns: u64,
    /// When the agent's work is kept.
    pub(super) snapshots: Option<&'a snapshots::Config>,
}

/// Number of characters of a message that the log shows.
const SHOWN: usize = 200;

/// Who plays the user.
pub(super) struct User {
    pub(super) name: String,
    /// The agent; `None` where it is a person.
    pub(super) party: Option<Party>,
    pub(super) settings: PromptSettings,
    pub(super) timeout: Duration,
}

/// How a conversation went.
#[derive(Debug, Default)]
pub(super) struct Talked {
    /// The agent's last reply.
    pub(super) reply: Reply,
    /// Where the trajectory of each turn is kept.
    pub(super) trajectories: Vec<Option<StoredFile>>,
    /// What the agent was sent in each turn; null in the first, which is the prompt.
    pub(super) sent: Vec<Value>,
    /// What the user gave besides its message, turn by turn.
    pub(super) extras: Vec<Value>,
    /// What was kept of the agent's work after turns.
    pub(super) snapshots: Vec<Value>,
    /// How the triggers of envs stood when those of the user were looked at, turn by turn.
    pub(super) stood: Vec<Value>,
    pub(super) tool_calls: u64,
    /// The models that were used by the agent and the user.
    pub(super) model: Option<String>,
    pub(super) user_model: Option<String>,
}

/// What the user says next.
struct Said {
    parts: Vec<Value>,
    extra: Map<String, Value>,
    is_done: bool,
}

impl Conversation<'_> {
    /// Takes turns until one is the last.
    pub(super) async fn go(
        &self,
        talk: &mut Talk,
        first: Vec<Value>,
        mut triggers: Option<Talking>,
    ) -> Result<Talked, StepError> {
        let cx = self.cx;
        let mut talked = Talked::default();
        let mut user_talk = Talk::new(&format!("{}/user", talk.context_id));
        let mut parts = first;
        for turn in 1..=self.max_turns {
            talked.sent.push(match turn {
                1 => Value::Null,
                _ => Value::Array(parts.clone()),
            });
            let asked = self.agent.ask(talk, parts, &self.settings, self.timeout);
            let reply = match asked.await {
                Ok(reply) => reply,
                Err(error) => return Err(on_agent::failed(cx, error)),
            };
            // Without a store there is no place for the trajectory, and the reply counts all the same.
            let kept = cx.services.keep(&on_agent::lines(&reply.trajectory)).ok();
            let trajectory = kept.as_ref().map(object_url::of);
            talked.trajectories.push(kept);
            talked.tool_calls = talked.tool_calls.saturating_add(reply.tool_calls);
            for act in acts(&reply.trajectory) {
                cx.note(&format!("{}: {act}", self.name));
            }
            cx.note(&format!("{}: {}", self.name, head(&reply.text, SHOWN)));
            talked.model = reply.model.clone().or(talked.model);
            talked.reply = reply;
            if let Some(config) = self
                .snapshots
                .filter(|config| config.is_due(talked.snapshots.len()))
            {
                let agent = (self.name, &self.agent);
                match snapshots::take(cx, config, agent, talk, trajectory, false).await {
                    Ok(row) => talked.snapshots.push(row),
                    // Only the last one must be there.
                    Err(error) => cx.note(&format!("no snapshot after turn {turn}: {error}")),
                }
            }
            let Some(user) = self.user.as_ref().filter(|_| turn < self.max_turns) else {
                break;
            };
            if let Some(triggers) = &mut triggers {
                match self.by_triggers(user, triggers, turn, &mut talked) {
                    ByItself::Ends => break,
                    ByItself::Says(text) => {
                        parts = vec![text_part(&text)];
                        continue;
                    }
                    ByItself::Nothing => {}
                }
            }
            // The prompt is never shown to the user: it plays whoever wrote it.
            let answer = match self.user_says(user, &mut user_talk, &talked.reply).await {
                Ok(answer) => answer,
                Err(AgentError::TimedOut { .. }) => {
                    // How long it took decided where the conversation ended.
                    cx.services
                        .do_not_keep("who plays the user gave no answer in time");
                    cx.note(&format!(
                        "`{}` gave no answer in time: the conversation ends",
                        user.name
                    ));
                    break;
                }
                Err(AgentError::Failed { message, .. }) => {
                    cx.note(&format!(
                        "`{}` failed: {message}: the conversation ends",
                        user.name
                    ));
                    break;
                }
                Err(error) => return Err(on_agent::failed(cx, error)),
            };
            talked.user_model = answer.model.clone().or(talked.user_model);
            let said = said(answer);
            cx.note(&format!(
                "{}: {}",
                user.name,
                head(&text_of(&said.parts), SHOWN)
            ));
            if !said.extra.is_empty() {
                talked
                    .extras
                    .push(json!({"turn": turn, "fields": said.extra}));
            }
            if said.is_done || said.parts.is_empty() {
                cx.note(&format!(
                    "`{}` has no more to say after turn {turn}",
                    user.name
                ));
                break;
            }
            parts = said.parts;
        }
        Ok(talked)
    }
}

/// What the user does without being asked.
enum ByItself {
    Nothing,
    Says(String),
    Ends,
}

impl Conversation<'_> {
    /// Returns what the triggers of the user have it do after the last reply.
    fn by_triggers(
        &self,
        user: &User,
        triggers: &mut Talking,
        turn: u64,
        talked: &mut Talked,
    ) -> ByItself {
        let stands = on_triggers::statuses(&self.envs());
        let status = |env_id: &str, id: &str| Some(stands[env_id][id].as_str()?.to_owned());
        let decision = triggers.decide(turn, &talked.reply.text, &status);
        talked.stood.push(json!({"turn": turn, "envs": stands}));
        for id in &decision.fired {
            self.cx
                .note(&format!("trigger `{id}` of `{}` fires", user.name));
        }
        let text = decision.said.join("\n");
        if !text.is_empty() {
            let said = head(&text, SHOWN);
            self.cx.note(&format!("{}: {said}", user.name));
        }
        match decision.fired.is_empty() {
            _ if decision.ends => ByItself::Ends,
            true => ByItself::Nothing,
            false => ByItself::Says(text),
        }
    }

    /// Returns the envs that who takes part may work on, each once.
    pub(super) fn envs(&self) -> Vec<Arc<dyn LiveEnv>> {
        let user = self.user.as_ref().and_then(|user| user.party.as_ref());
        let mut envs: Vec<Arc<dyn LiveEnv>> = Vec::new();
        for env in self
            .agent
            .reach()
            .iter()
            .chain(user.into_iter().flat_map(Party::reach))
        {
            if !envs.iter().any(|other| other.env_id() == env.env_id()) {
                envs.push(env.clone());
            }
        }
        envs
    }

    async fn user_says(
        &self,
        user: &User,
        talk: &mut Talk,
        reply: &Reply,
    ) -> Result<Reply, AgentError> {
        if let Some(party) = &user.party {
            let parts = reply.all_parts();
            return party.ask(talk, parts, &user.settings, user.timeout).await;
        }
        let cx = self.cx;
        cx.services.do_not_keep("a person took part in it");
        let text = format!("{}: {}\n(an empty answer ends it)", self.name, reply.text);
        let asked = cx.services.ask_person(&text, &[]);
        match tokio::time::timeout(user.timeout, asked).await {
            Ok(Ok(text)) => Ok(Reply {
                text,
                ..Reply::default()
            }),
            Ok(Err(error)) => Err(AgentError::Failed {
                agent: user.name.clone(),
                message: error.message,
                trajectory: Vec::new(),
            }),
            Err(_) => Err(AgentError::TimedOut {
                agent: user.name.clone(),
                limit: user.timeout,
                trajectory: Vec::new(),
            }),
        }
    }
}

/// Says what an agent did besides its calls of envs, of which the gateway tells, a line each.
fn acts(trajectory: &[Value]) -> Vec<String> {
    let own = trajectory.iter().enumerate();
    let own = own.filter(|(_, moment)| moment.get("by").is_some());
    let act = |(at, moment): (usize, &Value)| {
        // Ids may come again, so the last call before it is the one.
        let before = trajectory[..at].iter().rev();
        let mut calls = before
            .filter_map(|moment| moment["tool_calls"].as_array())
            .flatten();
        let call = calls.find(|call| call["id"] == moment["id"]);
        let arguments = call.map_or(String::new(), |call| call["arguments"].to_string());
        let said = moment["content"].as_str().unwrap_or_default();
        let tool = moment["tool"].as_str().unwrap_or_default();
        format!(
            "{tool} {} -> {}",
            head(&arguments, SHOWN),
            head(said, SHOWN)
        )
    };
    own.map(act).collect()
}

/// Reads what a user gave: `{"message": .., "done": ..}` as a typed value or as the text; any other text is the message.
fn said(answer: Reply) -> Said {
    let typed = answer.structured.clone().filter(Value::is_object);
    let typed = typed.or_else(|| on_agent::json_in(&answer.text));
    let members = typed.as_ref().and_then(Value::as_object);
    let message = members.and_then(|members| members.get("message")?.as_str());
    let (Some(members), Some(message)) = (members, message) else {
        let parts = match answer.text.trim() {
            "" if answer.parts.is_empty() => Vec::new(),
            _ => answer.all_parts(),
        };
        return Said {
            parts,
            extra: Map::new(),
            is_done: false,
        };
    };
    let mut extra = members.clone();
    extra.remove("message");
    Said {
        is_done: extra.remove("done") == Some(Value::Bool(true)),
        parts: vec![text_part(message)],
        extra,
    }
}

/// Returns the schema of what a user gives where nothing else is asked of it.
pub(super) fn user_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "What you say next."},
            "done": {"type": "boolean", "description": "Whether the conversation is over; your message is not sent then."},
        },
        "required": ["message", "done"],
        "additionalProperties": false,
    })
}

/// Returns the place of what an agent remembers of a conversation that others go on with.
pub(super) fn memory_path(agent: &str, context_id: &str) -> Vec<String> {
    ["agent_contexts", agent, context_id]
        .map(str::to_owned)
        .to_vec()
}

/// Finds where a conversation stands that an earlier step began.
pub(super) fn resumed(
    cx: StepCx<'_>,
    agent: &str,
    context_id: &str,
) -> Result<Option<Talk>, StepError> {
    let Some(found) = cx.find(&Lookup::Metadata(memory_path(agent, context_id))) else {
        return Ok(None);
    };
    let lost = || {
        StepError::new(format!(
            "the store has lost what `{agent}` remembers of context `{context_id}`"
        ))
    };
    let file = found["object_url"]
        .as_str()
        .and_then(object_url::read)
        .ok_or_else(lost)?;
    let to = cx.services.scratch()?.join("memory.json");
    if !cx.services.fetch(&file, &to)? {
        return Err(lost());
    }
    let bytes =
        crate::system::disk::read(&to).map_err(|error| StepError::new(error.to_string()))?;
    let memory = crate::json::from_slice(&bytes).map_err(|_| lost())?;
    Ok(Some(Talk {
        context_id: context_id.to_owned(),
        lasts: true,
        turn: found["turns"].as_u64().unwrap_or(0),
        memory,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_user_says_what_is_sent_next_or_that_it_is_done() {
        let check = |text: &str, structured: Value, wanted: (&str, bool, &str)| {
            let answer = Reply {
                text: text.to_owned(),
                structured: (!structured.is_null()).then_some(structured),
                ..Reply::default()
            };
            let said = said(answer);
            let text = crate::step::agent::text_of(&said.parts);
            let extra = Value::Object(said.extra).to_string();
            assert_eq!((text.as_str(), said.is_done, extra.as_str()), wanted);
        };
        check("Hello?", Value::Null, ("Hello?", false, "{}"));
        check(
            r#"{"message": "And?", "done": false}"#,
            Value::Null,
            ("And?", false, "{}"),
        );
        check(
            "",
            json!({"message": "Bye", "done": true, "mood": 3}),
            ("Bye", true, r#"{"mood":3}"#),
        );
        check(
            r#"I say {"done": true}"#,
            Value::Null,
            (r#"I say {"done": true}"#, false, "{}"),
        );
        check("  ", Value::Null, ("", false, "{}"));
    }

    #[test]
    fn what_an_agent_does_besides_calls_of_envs_is_told() {
        let trajectory = [
            json!({"role": "assistant", "tool_calls": [{"id": "c", "tool": "bash", "arguments": {"command": "ls"}}]}),
            json!({"role": "tool", "id": "c", "tool": "bash", "content": "a.txt\n", "by": "sandbox"}),
            json!({"role": "assistant", "tool_calls": [
                {"id": "c", "tool": "ask_helper", "arguments": {"message": "Count."}}, {"id": "d", "tool": "look"}]}),
            json!({"role": "tool", "id": "c", "tool": "ask_helper", "content": "4", "by": "peer"}),
            json!({"role": "tool", "id": "d", "tool": "look", "content": "{}"}),
        ];
        expect![[r#"
            bash {"command":"ls"} -> a.txt
            ask_helper {"message":"Count."} -> 4"#]]
        .assert_eq(&acts(&trajectory).join("\n"));
    }
}
