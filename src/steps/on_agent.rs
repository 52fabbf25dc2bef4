//! Agents as steps ask them: with their envs, their sandbox and the agents that they may ask in turn.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;

use crate::context::Lookup;
use crate::json::{Value, from_slice, object_before};
use crate::step::agent::{
    Agent, AgentDoor, AgentError, Behind, Doors, Peer, PeerLine, Prompt, PromptSettings, Reply,
    Skill, text_part,
};
use crate::step::env::LiveEnv;
use crate::step::sandbox::{BoxFuture, Sandbox};
use crate::step::{StepCx, StepError, StoredFile, Stream};
use crate::system::locked;

/// The longest chain of agents that ask each other.
const MAX_DEPTH: usize = 4;

/// An agent with all that belongs to it.
#[derive(Clone)]
pub(super) struct Party {
    circle: Arc<Circle>,
    name: String,
    /// How many agents may still ask each other from here.
    depth: usize,
    behind: Behind,
    /// The agents that it may ask, found when it is asked for the first time.
    peers: Arc<OnceLock<Vec<Peer>>>,
}

/// An agent and all that may be asked because of it, each once.
struct Circle {
    step: String,
    members: BTreeMap<String, Member>,
    /// The envs of all members, each once.
    reach: Vec<Arc<dyn LiveEnv>>,
    attempt: u32,
    doors: Arc<dyn Doors>,
    /// Why somebody who was asked in between could not answer: whoever asked may go on, but what comes of it says nothing.
    outage: Mutex<Option<AgentError>>,
}

/// One of a circle.
struct Member {
    agent: Arc<dyn Agent>,
    envs: Vec<Arc<dyn LiveEnv>>,
    sandbox: Option<Arc<dyn Sandbox>>,
    settings: PromptSettings,
    description: Option<String>,
    /// The agents that it may ask.
    peers: Vec<String>,
}

/// Where a conversation stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Talk {
    pub(super) context_id: String,
    /// Whether later steps may go on with it.
    pub(super) lasts: bool,
    pub(super) turn: u64,
    pub(super) memory: Value,
}

impl Talk {
    pub(super) fn new(context_id: &str) -> Self {
        Talk {
            context_id: context_id.to_owned(),
            lasts: false,
            turn: 0,
            memory: Value::Null,
        }
    }
}

/// Finds an agent and what belongs to it; all that is looked up is on record.
pub(super) fn party(cx: StepCx<'_>, name: &str) -> Result<Party, StepError> {
    party_behind(cx, name, Behind::default())
}

/// Finds an agent likewise that follows an instruction of a trigger; `by_call` says whether the call that set the trigger
/// off is answered only after it.
pub(super) fn instructed(cx: StepCx<'_>, name: &str, by_call: bool) -> Result<Party, StepError> {
    let agents = Vec::new();
    party_behind(cx, name, Behind { agents, by_call })
}

fn party_behind(cx: StepCx<'_>, name: &str, behind: Behind) -> Result<Party, StepError> {
    let mut members = BTreeMap::new();
    let mut reach: Vec<Arc<dyn LiveEnv>> = Vec::new();
    let mut asked = vec![name.to_owned()];
    for _ in 0..=MAX_DEPTH {
        for name in std::mem::take(&mut asked) {
            if members.contains_key(&name) {
                continue;
            }
            let member = member(cx, &name)?;
            for env in &member.envs {
                if !reach.iter().any(|other| other.env_id() == env.env_id()) {
                    reach.push(env.clone());
                }
            }
            asked.extend(member.peers.iter().cloned());
            members.insert(name, member);
        }
    }
    let circle = Circle {
        step: cx.step.to_string(),
        members,
        reach,
        attempt: cx.services.attempt(),
        doors: cx.services.doors(),
        outage: Mutex::default(),
    };
    Ok(Party::of(&Arc::new(circle), name, MAX_DEPTH, behind))
}

/// Returns whether a step before said that a name is a person's.
pub(super) fn is_person(cx: StepCx<'_>, name: &str) -> bool {
    let people = cx.find(&Lookup::metadata(&["human_agents"]));
    let people = people.as_ref().and_then(|people| people.as_array());
    let mut people = people.into_iter().flatten();
    people.any(|person| person["agent_name"] == name)
}

fn member(cx: StepCx<'_>, name: &str) -> Result<Member, StepError> {
    let agent = cx.agent(name)?;
    let deployed = cx.find(&Lookup::Agent(name.to_owned())).unwrap_or_default();
    let role = deployed.get("role").and_then(Value::as_str);
    let mut envs: Vec<Arc<dyn LiveEnv>> = Vec::new();
    let env_ids = deployed.get("env_ids").and_then(Value::as_array);
    for env_id in env_ids.into_iter().flatten().filter_map(Value::as_str) {
        // What the env is decides what its tools do, whatever its state.
        let env = cx.env(env_id)?;
        envs.push(match role {
            Some(role) => env.in_role(role),
            None => env,
        });
    }
    let text = |key: &str| deployed.get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(Member {
        agent,
        envs,
        sandbox: cx.services.agent_sandbox(name),
        settings: PromptSettings {
            system_prompt: text("system_prompt"),
            skills: skills(cx, name, &deployed),
            ..PromptSettings::default()
        },
        description: text("agent_description"),
        peers: peers_of(cx, name),
    })
}

/// Returns the agents that an agent may ask.
fn peers_of(cx: StepCx<'_>, name: &str) -> Vec<String> {
    let lookup = Lookup::Metadata(vec!["agent_peerings".to_owned()]);
    let peerings = cx.find(&lookup).unwrap_or_default();
    let of_name = peerings.as_array().into_iter().flatten();
    let of_name = of_name.filter(|peering| peering["source_agent_name"] == name);
    let mut peers = of_name.filter_map(|peering| peering.get("peer_agent_names")?.as_array());
    // Each list stands in the place of the one before.
    let peers = peers.next_back().into_iter().flatten();
    peers.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the skills that an agent was deployed with, and those that steps gave to it later.
fn skills(cx: StepCx<'_>, name: &str, deployed: &Value) -> Vec<Skill> {
    let lookup = Lookup::Metadata(vec!["agent_skills".to_owned(), name.to_owned()]);
    let later = cx.find(&lookup).unwrap_or_default();
    let first = deployed.get("skills").and_then(Value::as_array);
    let given = first.into_iter().chain(later.as_array()).flatten();
    let text = |skill: &Value, key: &str| Some(skill.get(key)?.as_str()?.to_owned());
    given
        .filter_map(|skill| {
            Some(Skill {
                name: text(skill, "name")?,
                description: text(skill, "description").unwrap_or_default(),
                body: text(skill, "body").unwrap_or_default(),
            })
        })
        .collect()
}

impl Circle {
    /// Notes an error of one who was asked in between, if it says nothing of what an agent does.
    fn note(&self, error: &AgentError) {
        if error.is_outage() {
            locked(&self.outage).get_or_insert_with(|| error.clone());
        }
    }
}

impl Party {
    fn of(circle: &Arc<Circle>, name: &str, depth: usize, behind: Behind) -> Self {
        Party {
            circle: circle.clone(),
            name: name.to_owned(),
            depth,
            behind,
            peers: Arc::default(),
        }
    }

    fn member(&self) -> &Member {
        let member = self.circle.members.get(&self.name);
        member.expect("bug: a circle has all that may be asked in it")
    }

    /// Returns the envs of the agent and of the peers that it may ask, each once.
    pub(super) fn reach(&self) -> &[Arc<dyn LiveEnv>] {
        &self.circle.reach
    }

    /// Returns the sandbox of the agent.
    pub(super) fn sandbox(&self) -> Option<&Arc<dyn Sandbox>> {
        self.member().sandbox.as_ref()
    }

    fn peers(&self) -> Vec<Peer> {
        let make = || {
            let names = self.member().peers.iter().filter(|_| self.depth > 0);
            let each = names.map(|peer| {
                let (step, name) = (&self.circle.step, &self.name);
                let mut behind = self.behind.clone();
                behind.agents.push(name.clone());
                let party = Party::of(&self.circle, peer, self.depth - 1, behind);
                Peer {
                    name: peer.clone(),
                    description: party.member().description.clone(),
                    line: Arc::new(Line {
                        party,
                        talk: Mutex::new(Talk::new(&format!("{step}/{name}/{peer}"))),
                        url: AsyncMutex::default(),
                    }),
                }
            });
            each.collect()
        };
        self.peers.get_or_init(make).clone()
    }

    /// Sends the next message of a conversation and waits for the reply. One that gets none leaves the conversation as it
    /// was.
    pub(super) async fn ask(
        &self,
        talk: &mut Talk,
        parts: Vec<Value>,
        settings: &PromptSettings,
        timeout: Duration,
    ) -> Result<Reply, AgentError> {
        let member = self.member();
        let prompt = Prompt {
            parts,
            context_id: talk.context_id.clone(),
            lasts: talk.lasts,
            turn: talk.turn + 1,
            memory: talk.memory.clone(),
            envs: member.envs.clone(),
            sandbox: member.sandbox.clone(),
            peers: self.peers(),
            settings: self.with(settings),
            behind: self.behind.clone(),
            attempt: self.circle.attempt,
            timeout,
        };
        let reply = member.agent.prompt(prompt).await?;
        if let Some(outage) = locked(&self.circle.outage).clone() {
            return Err(outage);
        }
        talk.turn += 1;
        talk.memory = reply.memory.clone();
        Ok(reply)
    }

    /// Returns what a step says with what the agent was deployed with, which counts less.
    fn with(&self, settings: &PromptSettings) -> PromptSettings {
        let mut all = settings.clone();
        let own = &self.member().settings;
        if all.system_prompt.is_none() {
            all.system_prompt.clone_from(&own.system_prompt);
        }
        let mut skills = own.skills.clone();
        skills.append(&mut all.skills);
        all.skills = skills;
        all
    }
}

/// The way to an agent, as another has it.
struct Line {
    party: Party,
    talk: Mutex<Talk>,
    /// The address at which it is asked over A2A, once that was asked for.
    url: AsyncMutex<Option<String>>,
}

/// An agent at an address: each conversation goes on where it was left.
struct PeerDoor {
    party: Party,
    step: String,
    talks: Mutex<HashMap<String, Talk>>,
}

impl AgentDoor for PeerDoor {
    fn name(&self) -> &str {
        self.party.member().agent.name()
    }

    fn description(&self) -> &str {
        let description = self.party.member().description.as_deref();
        description.unwrap_or_default()
    }

    fn ask<'a>(
        &'a self,
        context_id: &'a str,
        parts: Vec<Value>,
    ) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(async move {
            let fresh = || Talk::new(&format!("{}/{context_id}", self.step));
            let found = locked(&self.talks).get(context_id).cloned();
            let mut talk = found.unwrap_or_else(fresh);
            let settings = PromptSettings::default();
            let reply = self
                .party
                .ask(&mut talk, parts, &settings, PEER_LIMIT)
                .await;
            locked(&self.talks).insert(context_id.to_owned(), talk);
            reply.inspect_err(|error| self.party.circle.note(error))
        })
    }
}

/// How long an agent that is asked by another may take; the one who asks has a limit of its own.
const PEER_LIMIT: Duration = Duration::from_secs(3600);

impl PeerLine for Line {
    fn ask<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(async move {
            let mut talk = locked(&self.talk).clone();
            let settings = PromptSettings::default();
            let parts = vec![text_part(text)];
            let reply = self
                .party
                .ask(&mut talk, parts, &settings, PEER_LIMIT)
                .await;
            *locked(&self.talk) = talk;
            reply.inspect_err(|error| self.party.circle.note(error))
        })
    }

    fn url(&self) -> BoxFuture<'_, Result<Option<String>, AgentError>> {
        Box::pin(async move {
            let mut url = self.url.lock().await;
            if let Some(url) = url.as_ref() {
                return Ok(Some(url.clone()));
            }
            let door = PeerDoor {
                party: self.party.clone(),
                step: locked(&self.talk).context_id.clone(),
                talks: Mutex::default(),
            };
            let opened = self.party.circle.doors.open(Arc::new(door)).await?;
            Ok(url.insert(opened).clone().into())
        })
    }
}

/// Returns the error of a step whose agent gave no answer; what the agent did until then goes into the log.
pub(super) fn failed(cx: StepCx<'_>, error: AgentError) -> StepError {
    match error {
        AgentError::Env(error) => error.into(),
        AgentError::TimedOut { ref trajectory, .. } => {
            cx.services.log(Stream::Note, &lines(trajectory));
            StepError::of("TimeoutError", error.to_string())
        }
        AgentError::Unreachable { ref trajectory, .. } => {
            cx.services.log(Stream::Note, &lines(trajectory));
            StepError::of("AgentUnreachableError", error.to_string())
        }
        AgentError::Failed {
            agent,
            message,
            trajectory,
        } => {
            cx.services.log(Stream::Note, &lines(&trajectory));
            StepError::new(format!(
                "A2A task failed (error_type=agent_error, agent={agent}): {message}"
            ))
        }
        AgentError::Model {
            agent,
            error,
            trajectory,
        } => {
            cx.services.log(Stream::Note, &lines(&trajectory));
            StepError::of("ModelError", format!("agent `{agent}`: {error}"))
        }
    }
}

/// Returns a trajectory as JSON lines.
pub(super) fn lines(trajectory: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for moment in trajectory {
        bytes.extend_from_slice(moment.to_string().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

/// Returns the bytes that a URL refers to.
pub(super) fn stored(cx: StepCx<'_>, url: &str) -> Result<Vec<u8>, String> {
    let file = StoredFile::from_url(url).ok_or_else(|| format!("`{url}` is not in the store"))?;
    let scratch = cx.services.scratch().map_err(|error| error.message)?;
    let to = scratch.join("stored");
    let found = cx.services.fetch(&file, &to);
    if !found.map_err(|error| error.message)? {
        return Err(format!("the store has lost `{url}`"));
    }
    crate::system::disk::read(&to).map_err(|error| error.to_string())
}

/// Returns the JSON values of a file: the items of a list, else one a line. A line that is no JSON is a text.
pub(super) fn moments(bytes: &[u8]) -> Vec<Value> {
    if let Ok(Value::Array(moments)) = from_slice::<Value>(bytes) {
        return moments;
    }
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let moment = |line: &str| {
        from_slice::<Value>(line.as_bytes()).unwrap_or_else(|_| Value::String(line.to_owned()))
    };
    lines.map(moment).collect()
}

/// Returns the typed value in a text: the whole of it, else the last JSON object that stands in it, code fences or not.
pub(super) fn json_in(text: &str) -> Option<Value> {
    if let Ok(value @ (Value::Object(_) | Value::Array(_))) =
        from_slice::<Value>(text.trim().as_bytes())
    {
        return Some(value);
    }
    let mut last = None;
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        // What stands within an object is a part of it.
        rest = match object_before(&rest[start..]) {
            Some((object, after)) => {
                last = Some(Value::Object(object));
                after
            }
            None => &rest[start + 1..],
        };
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn the_last_object_of_a_text_is_its_value() {
        let found = |text: &str| json_in(text).unwrap_or_default();
        assert_eq!(found(" {\"a\": 1} "), json!({"a": 1}));
        assert_eq!(found("[1]"), json!([1]));
        assert_eq!(
            found("x {\"a\": 1} y ```json\n{\"b\": {\"c\": 2}}\n``` z"),
            json!({"b": {"c": 2}})
        );
        assert_eq!(found("no } value {"), Value::Null);
        assert_eq!(found("7"), Value::Null);
        assert_eq!(found("{x} {\"a\": {\"a\": 2}} {"), json!({"a": {"a": 2}}));
        // A long text without a value is looked through once.
        assert_eq!(found(&"{\"a\":".repeat(1 << 12)), Value::Null);
        assert_eq!(found(&"{}}{".repeat(1 << 12)), json!({}));
    }
}
