//! The names in a task file: which texts are names, of what, and which of them make what they name.
//!
//! What a text names is told by the keys that lead to it, so it is known in a step that cannot be built too.

use super::{Scene, inside, text};
use crate::context::Lookup;
use crate::diagnostic::Span;
use crate::json::{Node, NodeKind};
use crate::task::StepId;
use crate::task::parse::COMMON_FIELDS;

/// What a name is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Noun {
    /// A step of the task.
    Step,
    /// An env.
    Env,
    /// An agent, as steps of the task call it.
    Agent,
    /// An agent of the folder or of `aebuild.toml`.
    AgentFolder,
    /// A sandbox.
    Sandbox,
    /// A reply.
    Prompt,
    /// A verification.
    Verifier,
    /// An artifact or skill of the folder.
    Artifact,
    /// A model.
    Model,
}

/// A name and what it is the name of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// What it names.
    pub noun: Noun,
    /// The name.
    pub text: String,
}

/// A place where a name is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The position of the step in the list.
    pub step: usize,
    /// The bytes between the quotes.
    pub span: Span,
    /// The name.
    pub name: Name,
    /// Whether what it names is made here.
    pub makes: bool,
}

impl Noun {
    /// Returns the noun as people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Noun::Step => "step",
            Noun::Env => "env",
            Noun::Agent | Noun::AgentFolder => "agent",
            Noun::Sandbox => "sandbox",
            Noun::Prompt => "reply",
            Noun::Verifier => "verification",
            Noun::Artifact => "artifact",
            Noun::Model => "model",
        }
    }
}

impl Name {
    /// Returns the name of something.
    pub fn new(noun: Noun, text: impl Into<String>) -> Self {
        Name {
            noun,
            text: text.into(),
        }
    }
}

/// Returns what a text in a step of this type names, by the keys that lead to it.
pub(super) fn noun_of(kind: &str, keys: &[&str]) -> Option<Noun> {
    let last = *keys.last()?;
    Some(match last {
        "id" if keys.len() == 1 => Noun::Step,
        "id" if *keys == ["artifacts", "id"] => Noun::Artifact,
        "depends_on" if keys.len() == 1 => Noun::Step,
        "task_step_id" if keys[0] == "depends_on" => Noun::Step,
        "retry_from_step_id" | "go_to_step_id" if keys[0] == "retry_config" => Noun::Step,
        "env_id" | "env_ids" => Noun::Env,
        "agent_name"
        | "agent_names"
        | "user_agent_name"
        | "source_agent_name"
        | "peer_agent_names"
        | "executor_agent_name" => Noun::Agent,
        "a2a_agent_id" | "judge_a2a_agent_id" => Noun::AgentFolder,
        "sandbox_name" | "sandbox_names" => Noun::Sandbox,
        "prompt_id" => Noun::Prompt,
        "verifier_id" | "verifier_ids" => Noun::Verifier,
        "model" | "user_model" | "default_model" => Noun::Model,
        "script_artifact_id" | "file_artifact_id" | "skill_artifact_id" => Noun::Artifact,
        "artifact_id" if kind == "load_artifact" => Noun::Artifact,
        "universe_artifact_id" if kind != "snapshot_agent_state" => Noun::Artifact,
        "agent_snapshot_files_artifact_id" => Noun::Artifact,
        "file_artifact_universe_ids" | "cli_artifact_ids" => Noun::Artifact,
        _ if last.ends_with("_step_id") => Noun::Step,
        _ => return None,
    })
}

/// Returns whether a step of this type makes what its field names.
fn is_made_by(kind: &str, keys: &[&str], noun: Noun) -> bool {
    keys.len() == 1
        && match noun {
            Noun::Step => keys[0] == "id",
            Noun::Env => kind == "deploy_env",
            Noun::Agent => {
                keys[0] == "agent_name"
                    && ["deploy_agent", "install_agent", "deploy_human_agent"].contains(&kind)
            }
            Noun::Sandbox => kind == "deploy_sandbox",
            Noun::Prompt => kind == "prompt_agent",
            Noun::Verifier => keys[0] == "verifier_id",
            Noun::AgentFolder | Noun::Artifact | Noun::Model => false,
        }
}

/// Returns every place in a task file where a name is written, in the order of the text.
pub fn sites(scene: &Scene<'_>) -> Vec<Site> {
    let mut all = Vec::new();
    for (step, node) in scene.steps() {
        sites_of(scene, step, node, &mut all);
    }
    all
}

/// Adds the names of one step.
pub(super) fn sites_of(scene: &Scene<'_>, step: usize, node: &Node, all: &mut Vec<Site>) {
    let kind = text(node, "type");
    let mut walk = Walk {
        scene,
        step,
        kind,
        all,
    };
    walk.node(node, &mut Vec::new());
    let id = node.get("id").filter(|id| id.as_str().is_some());
    let Some((id, name)) = id.and_then(|id| Some((id, id.as_str()?))) else {
        return;
    };
    let span = inside(scene.source, id.span);
    let mut implied = |noun| {
        walk.all.push(Site {
            step,
            span,
            name: Name::new(noun, name),
            makes: true,
        });
    };
    // What a step gives goes by its id where it says no other.
    if kind == "prompt_agent" && is_absent(node, "prompt_id") {
        implied(Noun::Prompt);
    }
    let gives_verification = scene
        .types
        .find(kind)
        .is_some_and(|known| known.schema().pointer("/properties/verifier_id").is_some());
    if gives_verification && is_absent(node, "verifier_id") {
        implied(Noun::Verifier);
    }
    if kind.starts_with("verify_") && !gives_verification {
        let site = fixed(scene, step, node, name);
        walk.all.extend(site);
    }
    // An agent that is deployed is the one of its name where the step says no other.
    let deploys = ["deploy_agent", "install_agent"].contains(&kind);
    if deploys
        && is_absent(node, "a2a_agent_id")
        && let Some(agent) = node.get("agent_name")
        && let Some(name) = agent.as_str()
    {
        walk.all.push(Site {
            step,
            span: inside(scene.source, agent.span),
            name: Name::new(Noun::AgentFolder, name),
            makes: false,
        });
    }
}

/// Returns the name of the verification that a step gives whatever its fields say, at the type that decides it.
fn fixed(scene: &Scene<'_>, step: usize, node: &Node, name: &str) -> Option<Site> {
    let known = scene.types.find(text(node, "type"))?;
    let kind = node.get("type")?;
    let mut fields = match node.to_value_without_comments() {
        crate::json::Value::Object(fields) => fields,
        _ => return None,
    };
    for common in COMMON_FIELDS {
        fields.remove(common);
    }
    let built = (known.build)(&StepId::new(name), &fields).ok()?;
    let provides = built.provides().into_iter();
    let mut verifications = provides.filter_map(|one| match one.lookup {
        Lookup::Metadata(path) if path.len() == 2 && path[0] == "verifications" => {
            path.last().cloned()
        }
        _ => None,
    });
    Some(Site {
        step,
        span: inside(scene.source, kind.span),
        name: Name::new(Noun::Verifier, verifications.next()?),
        makes: true,
    })
}

fn is_absent(node: &Node, key: &str) -> bool {
    node.get(key).is_none_or(Node::is_null)
}

/// Returns the names that are written at an offset.
pub fn names_at(scene: &Scene<'_>, offset: usize) -> Vec<Site> {
    let Some(found) = scene.node_at(offset) else {
        return Vec::new();
    };
    let items = scene.root.as_array().unwrap_or_default();
    let at = items.iter().position(|item| item.span == found.step.span);
    let mut all = Vec::new();
    if let Some(at) = at {
        sites_of(scene, at, found.step, &mut all);
    }
    all.retain(|site| super::touches(site.span, offset));
    all
}

struct Walk<'a> {
    scene: &'a Scene<'a>,
    step: usize,
    kind: &'a str,
    all: &'a mut Vec<Site>,
}

impl Walk<'_> {
    fn node<'n>(&mut self, node: &'n Node, keys: &mut Vec<&'n str>) {
        match &node.kind {
            NodeKind::Object(members) => {
                for member in members {
                    keys.push(&member.key);
                    self.node(&member.value, keys);
                    keys.pop();
                }
            }
            NodeKind::Array(items) => {
                for item in items {
                    self.node(item, keys);
                }
            }
            NodeKind::String(text) if !text.is_empty() => {
                let Some(noun) = noun_of(self.kind, keys) else {
                    return;
                };
                self.all.push(Site {
                    step: self.step,
                    span: inside(self.scene.source, node.span),
                    name: Name::new(noun, text),
                    makes: is_made_by(self.kind, keys, noun),
                });
            }
            _ => {}
        }
    }
}
