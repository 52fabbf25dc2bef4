//! Scripts of agents: what their calls name is there in the task that prompts them.
//!
//! A script may serve several tasks, and not each rule is for each. The arguments of a call to an env which is compiled in,
//! and a tool's name that is nearly one of it, are looked at wherever the env is the agent's; all else only in the rule that a
//! prompt of the task sets off.

use std::collections::BTreeMap;

use super::{Checked, Rule};
use crate::context::Lookup;
use crate::diagnostic::{Diagnostic, Severity, Source, Span, did_you_mean, meant};
use crate::graph::StepIx;
use crate::json::{Node, Value, schema};
use crate::resource::{ResourceId, ResourceKind};
use crate::step::Deploys;
use crate::task::deploy::{AgentSpec, EnvRun, EnvSpec, OWN_SANDBOX};
use crate::task::parse::Written;
use crate::task::parse::names::has_placeholder;
use crate::task::script::{Callee, Script};

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[
        ("unknown-name", Severity::Error),
        ("no-path-to-producer", Severity::Error),
        ("unknown-tool", Severity::Error),
        ("missing-field", Severity::Error),
        ("unknown-field", Severity::Error),
        ("wrong-type", Severity::Error),
        ("unmatched-prompt", Severity::Warning),
    ],
    doc: "The script of an agent calls tools of envs that its `deploy_agent` step connects it to, and asks agents that are its \
          peers. An agent of the type `model` needs to know which model it asks.",
    run,
};

/// The tools that every env has while its virtual clock is set.
pub const CLOCK_TOOLS: [&str; 2] = ["get_time", "wait_until"];

/// Whether a rule of a script is for a prompt of the task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SetOff {
    /// A prompt sets it off.
    Surely,
    /// The agent is asked something, and its script serves this task alone.
    Perhaps,
    /// Nobody can say.
    Unsaid,
}

/// Another agent whom one may ask, and the step that connects them.
struct Peer {
    name: String,
    step: StepIx,
}

/// A prompt whose text is known before the run.
struct Asked<'a> {
    step: StepIx,
    text: &'a str,
}

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let mut peers: BTreeMap<String, Vec<Peer>> = BTreeMap::new();
    let mut deployers: BTreeMap<String, usize> = BTreeMap::new();
    for (step, built) in checked.built() {
        for (agent, asked) in built.peerings() {
            let asked = asked.into_iter().map(|name| Peer { name, step });
            peers.entry(agent).or_default().extend(asked);
        }
        for made in built.provides() {
            if let Lookup::Agent(name) = made.lookup {
                *deployers.entry(name).or_default() += 1;
            }
        }
    }
    // What could not be built may deploy the same agent otherwise.
    let is_whole = checked.steps.iter().all(Option::is_some);
    for (step, built) in checked.built() {
        let Some(Deploys::Agent {
            agent_name,
            agent_id,
            env_ids,
            ..
        }) = built.deploys()
        else {
            continue;
        };
        if has_placeholder(&agent_name) || deployers.get(&agent_name).is_none_or(|n| *n > 1) {
            continue;
        }
        let spec = AgentSpec::of(
            agent_id.as_deref(),
            &agent_name,
            checked.folder,
            &checked.config.agents,
        );
        let wanted = agent_id.as_deref().unwrap_or(&agent_name);
        let definition = checked.folder.agent(wanted);
        let is_doubtful = definition.is_some_and(|found| found.is_doubtful);
        let Some(spec) = spec.ok().filter(|_| !is_doubtful && is_whole) else {
            continue;
        };
        if spec.kind == "model" {
            faults.extend(without_model(checked, &agent_name, &spec));
        }
        let written = definition.and_then(|found| {
            let is_here = |written: &&std::sync::Arc<Written>| written.node.get("rules").is_some();
            let own = found.written.as_ref().filter(is_here);
            own.or(found.script.as_ref())
        });
        let Some(written) = written.filter(|_| spec.kind == "scripted") else {
            continue;
        };
        let Ok(script) = Script::read(&crate::json::json!({"rules": spec.settings["rules"]}))
        else {
            continue;
        };
        let agent = Scripted {
            checked,
            step,
            name: &agent_name,
            envs: &env_ids,
            peers: peers.get(&agent_name).map_or(&[][..], Vec::as_slice),
            script,
            written,
        };
        let mut found = Vec::new();
        agent.look(&mut found);
        for fault in found {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
}

/// Tells of the prompts to an agent that asks a model, where nothing says which.
fn without_model(checked: &Checked<'_>, name: &str, spec: &AgentSpec) -> Vec<Diagnostic> {
    if spec.model().is_some_and(|model| !model.is_empty()) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (step, built) in checked.built() {
        let asks = built.prompts() && prompted(built, name);
        let fields = built.fields();
        let own = ["agent_name", "agent"]
            .iter()
            .find_map(|key| fields.get(*key)?.as_str());
        if !asks || own != Some(name) || fields.get("model").is_some_and(|model| !model.is_null()) {
            continue;
        }
        let headline = format!("nothing says which model agent `{name}` asks");
        let places = checked.places;
        faults.push(
            Diagnostic::error("missing-field", headline)
                .primary(
                    places.source(),
                    places.field_or_kind(step, "/agent_name"),
                    "prompted here",
                )
                .help(format!(
                    "add `model` to the file of the agent, to [agents.{name}] of aebuild.toml, or to the step"
                )),
        );
    }
    faults
}

fn prompted(step: &dyn crate::step::Step, name: &str) -> bool {
    let agent = ResourceId {
        kind: ResourceKind::Agent,
        name: name.to_owned(),
    };
    step.touches()
        .iter()
        .any(|(resource, _)| *resource == agent)
}

/// A scripted agent in a task.
struct Scripted<'a> {
    checked: &'a Checked<'a>,
    /// The step that deploys it.
    step: StepIx,
    name: &'a str,
    envs: &'a [String],
    peers: &'a [Peer],
    script: Script,
    written: &'a Written,
}

impl Scripted<'_> {
    fn look(&self, faults: &mut Vec<Diagnostic>) {
        let mut hit: BTreeMap<usize, StepIx> = BTreeMap::new();
        for asked in self.prompts() {
            match self.rule_for(&asked) {
                Some(Some(rule_ix)) => {
                    hit.entry(rule_ix).or_insert(asked.step);
                }
                Some(None) => faults.push(self.unmatched(&asked)),
                None => {}
            }
        }
        // Whatever is asked, a first rule for all prompts is the one.
        if self.is_asked()
            && self.script.rules.first().is_some_and(|rule| {
                rule.prompt.is_none() && rule.turn.is_none() && rule.attempts.is_none()
            })
        {
            hit.entry(0).or_insert(self.step);
        }
        let may_be_hit = self.is_asked() && self.checked.folder.tasks.len() == 1;
        for (rule_ix, rule) in self.script.rules.iter().enumerate() {
            let set_off = match hit.contains_key(&rule_ix) {
                true => SetOff::Surely,
                false if may_be_hit => SetOff::Perhaps,
                false => SetOff::Unsaid,
            };
            for (call_ix, call) in rule.calls.iter().enumerate() {
                let at = format!("/rules/{rule_ix}/calls/{call_ix}");
                match &call.to {
                    Callee::Peer { name, .. } => {
                        let is_it = |peer: &&Peer| peer.name == *name;
                        let connected = self.peers.iter().filter(is_it).collect::<Vec<_>>();
                        match connected.is_empty() {
                            _ if set_off == SetOff::Unsaid => {}
                            true => faults.push(self.no_peer(&at, name, set_off)),
                            false => faults.extend(self.unconnected(&at, &connected, set_off)),
                        }
                    }
                    Callee::Tool { env, tool, .. } => {
                        let mut found = Vec::new();
                        self.tool(&at, env.as_deref(), tool, set_off, &mut found);
                        // A rule for other tasks may call what another env of that name has; a slip looks like what
                        // there is.
                        found.retain(|fault: &Diagnostic| {
                            let is_unlike =
                                fault.code.as_str() == "unknown-tool" && fault.fixes.is_empty();
                            set_off == SetOff::Surely || !is_unlike
                        });
                        faults.append(&mut found);
                    }
                }
            }
        }
    }

    /// Returns whether anybody asks the agent anything.
    fn is_asked(&self) -> bool {
        self.checked.built().any(|(_, built)| {
            let asks = built.prompts() && prompted(built, self.name);
            asks || built
                .peerings()
                .iter()
                .any(|(_, peers)| peers.iter().any(|peer| peer == self.name))
        })
    }

    /// Returns the prompts to the agent whose texts are known.
    fn prompts(&self) -> Vec<Asked<'_>> {
        let all = self.checked.built().filter_map(|(step, built)| {
            let declared = &self.checked.task.steps[step.at()];
            let field = |key: &str| declared.fields.get(key).filter(|value| !value.is_null());
            let agent = field("agent_name").and_then(Value::as_str);
            let agent = agent.unwrap_or(crate::task::DEFAULT_AGENT);
            let is_plain = declared.kind == "prompt_agent"
                && agent == self.name
                && ["parts", "context_id", "user_a2a_url"]
                    .iter()
                    .all(|key| field(key).is_none());
            let text = field("prompt").and_then(Value::as_str)?;
            (is_plain && built.prompts() && !has_placeholder(text)).then_some(Asked { step, text })
        });
        all.collect()
    }

    /// Returns the rule for a prompt that begins a conversation; `Some(None)` where there is none, and `None` where it
    /// cannot be told.
    fn rule_for(&self, asked: &Asked<'_>) -> Option<Option<usize>> {
        let found = self.script.find(asked.text, 1, 1).ok()?;
        match found {
            Some(found) => Some(Some(found.rule_ix)),
            None => {
                let depends = |rule: &crate::task::script::Rule| rule.attempts.is_some();
                (!self.script.rules.iter().any(depends)).then_some(None)
            }
        }
    }

    fn unmatched(&self, asked: &Asked<'_>) -> Diagnostic {
        let places = self.checked.places;
        let headline = format!(
            "no rule of the script of agent `{}` is for this prompt",
            self.name
        );
        Diagnostic::warning("unmatched-prompt", headline)
            .primary(
                places.source(),
                places.field_or_kind(asked.step, "/prompt"),
                "no `prompt` of a rule is found here",
            )
            .label(
                &self.written.source,
                self.written.span("/rules"),
                "the rules",
            )
            .help("add a rule without `prompt`, which is for all that others are not for")
    }

    fn no_peer(&self, at: &str, name: &str, set_off: SetOff) -> Diagnostic {
        let headline = format!(
            "the script of agent `{}` asks `{name}`, which is none of its peers",
            self.name
        );
        let near = did_you_mean(name, self.peers.iter().map(|peer| peer.name.as_str()));
        let help = near.unwrap_or_else(|| {
            format!(
                "add a `peer_agents` step that connects `{}` to `{name}`",
                self.name
            )
        });
        self.fault(
            "unknown-name",
            headline,
            self.written.span(&format!("{at}/peer")),
            set_off,
        )
        .help(help)
    }

    /// Tells of a peer who is connected, but before none of the prompts.
    fn unconnected(&self, at: &str, peers: &[&Peer], set_off: SetOff) -> Option<Diagnostic> {
        let checked = self.checked;
        let prompts = checked.built().filter(|(_, built)| built.prompts());
        let mut prompts = prompts.filter(|(_, built)| prompted(*built, self.name));
        let first = prompts.next()?.0;
        let waits = |step: StepIx| {
            let is_before = |peer: &&Peer| checked.graph.is_ancestor(peer.step, step);
            peers.iter().any(is_before)
        };
        if waits(first) || prompts.any(|(step, _)| waits(step)) {
            return None;
        }
        let (name, connecting) = (&peers[0].name, peers[0].step);
        let headline = format!(
            "the script of agent `{}` asks `{name}`, and no prompt waits for step `{}`, which connects them",
            self.name,
            checked.id(connecting)
        );
        let span = self.written.span(&format!("{at}/peer"));
        let fault = self.fault("no-path-to-producer", headline, span, set_off);
        let help = format!(
            "add {{\"task_step_id\": \"{}\"}} to the `depends_on` of `{}`",
            checked.id(connecting),
            checked.id(first)
        );
        Some(fault.help(help))
    }

    fn tool(
        &self,
        at: &str,
        env: Option<&str>,
        tool: &str,
        set_off: SetOff,
        faults: &mut Vec<Diagnostic>,
    ) {
        let known = self.envs.iter().map(String::as_str);
        let counts = set_off != SetOff::Unsaid;
        let env = match (env, self.envs) {
            (Some(env), _) if self.envs.iter().any(|known| known == env) => env,
            (Some(OWN_SANDBOX), _) => return,
            (Some(env), _) if counts => {
                let headline = format!(
                    "the script of agent `{}` calls a tool of env `{env}`, which the agent is not connected to",
                    self.name
                );
                let help = did_you_mean(env, known)
                    .unwrap_or_else(|| format!("add \"{env}\" to its `env_ids`"));
                let span = self.written.span(&format!("{at}/env"));
                faults.push(
                    self.fault("unknown-name", headline, span, set_off)
                        .help(help),
                );
                return;
            }
            (None, [one]) if counts => one,
            (None, [_, _, ..] | []) if counts => {
                let headline = format!(
                    "the script of agent `{}` calls `{tool}` and names no env, and the agent is connected to {}",
                    self.name,
                    match self.envs.len() {
                        0 => "none".to_owned(),
                        n => format!("{n}"),
                    }
                );
                let span = self.written.span(&format!("{at}/tool"));
                let help = match self.envs.first() {
                    Some(env) => format!("add `env`, such as \"{env}\", to the call"),
                    None => "add the env to the `env_ids` of its `deploy_agent` step".to_owned(),
                };
                faults.push(
                    self.fault("missing-field", headline, span, set_off)
                        .help(help),
                );
                return;
            }
            _ => return,
        };
        if has_placeholder(env) {
            return;
        }
        let Ok(EnvSpec {
            run: EnvRun::Builtin { name },
            ..
        }) = EnvSpec::of(env, self.checked.folder, &self.checked.config.envs)
        else {
            return;
        };
        let Some(tools) = self.checked.env_tools.get(&name) else {
            return;
        };
        let call = Called {
            env,
            tool,
            tool_span: self.written.span(&format!("{at}/tool")),
            arguments: self.written.node.pointer(&format!("{at}/arguments")),
            source: &self.written.source,
            hole: "{{",
        };
        faults.extend(call.faults(tools));
    }

    /// Returns a fault of what the task gives the agent. It is one where nothing sets the rule off too, but nobody may ever
    /// say what does.
    fn fault(
        &self,
        code: &'static str,
        headline: String,
        span: Span,
        set_off: SetOff,
    ) -> Diagnostic {
        let places = self.checked.places;
        let field = match self.envs.is_empty() {
            true => places.kind(self.step),
            false => places.field_or_kind(self.step, "/env_ids"),
        };
        let fault = match set_off {
            SetOff::Surely => Diagnostic::error(code, headline),
            SetOff::Perhaps | SetOff::Unsaid => Diagnostic::warning(code, headline),
        };
        fault
            .primary(&self.written.source, span, "")
            .label(places.source(), field, "deployed here")
    }
}

/// A call of a tool of an env that is compiled in, as it is written.
pub(super) struct Called<'a> {
    pub(super) env: &'a str,
    pub(super) tool: &'a str,
    pub(super) tool_span: Span,
    /// The arguments, where some are written.
    pub(super) arguments: Option<&'a Node>,
    pub(super) source: &'a Source,
    /// What begins a hole in a text, of which nothing is known before the run.
    pub(super) hole: &'a str,
}

impl Called<'_> {
    /// Returns what the env would refuse.
    pub(super) fn faults(&self, tools: &[Value]) -> Vec<Diagnostic> {
        let Called { env, tool, .. } = self;
        let name_of = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
        let names: Vec<String> = tools.iter().filter_map(name_of).collect();
        if CLOCK_TOOLS.contains(tool) {
            return Vec::new();
        }
        let Some(at) = names.iter().position(|name| name == tool) else {
            let headline = format!("env `{env}` has no tool `{tool}`");
            let fault = Diagnostic::error("unknown-tool", headline)
                .primary(self.source, self.tool_span, "no such tool")
                .help(format!("its tools are `{}`", names.join("`, `")));
            return vec![fault.meant(meant(tool, names.iter().map(String::as_str)))];
        };
        let wanted = &tools[at]["inputSchema"];
        let said = format!("the arguments of `{tool}`");
        let Some(arguments) = self.arguments else {
            let required = wanted.get("required").and_then(Value::as_array);
            let missing = required.into_iter().flatten().filter_map(Value::as_str);
            let missing: Vec<String> = missing.map(|name| format!("`{name}`")).collect();
            if missing.is_empty() {
                return Vec::new();
            }
            let headline = format!("`{tool}` of env `{env}` needs {}", missing.join(", "));
            let fault = Diagnostic::error("missing-field", headline);
            return vec![
                fault
                    .primary(self.source, self.tool_span, "called without arguments")
                    .help("add its arguments"),
            ];
        };
        let mut faults = schema::check(arguments, wanted, self.source, &said);
        faults.retain(|fault| {
            let of_value = !matches!(fault.code.as_str(), "missing-field" | "unknown-field");
            let text = fault.place().map(|label| label.source.slice(label.span));
            !(of_value && text.is_some_and(|text| text.contains(self.hole)))
        });
        faults
    }
}
