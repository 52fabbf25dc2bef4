//! What stands at a place: a field, a type, a name.

use super::names::{Noun, noun_of};
use super::{Scene, fields, text};
use crate::diagnostic::Span;
use crate::json::Node;
use crate::step::StepType;

/// What is told of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    /// The bytes that it is about.
    pub span: Span,
    /// What is told, as Markdown.
    pub text: String,
    /// The id of the step whose result belongs to it.
    pub step: Option<String>,
}

/// Returns what is known of what stands at an offset.
pub fn hover(scene: &Scene<'_>, offset: usize) -> Option<Hover> {
    let found = scene.node_at(offset)?;
    let kind = found.kind();
    let id = text(found.step, "id");
    let result_of = |id: &str| (!id.is_empty()).then(|| id.to_owned());
    if let Some(span) = found.key_span {
        let (field, name) = fields::field(scene.types, kind, found.step, offset)?;
        let doc = fields::doc(field.schema).unwrap_or_default();
        let summary = fields::summary(&field);
        return Some(Hover {
            span,
            text: format!("**`{name}`**: {summary}\n\n{doc}")
                .trim_end()
                .to_owned(),
            step: None,
        });
    }
    let name = found.node.as_str()?;
    let span = found.node.span;
    if found.keys == ["type"] {
        let step_type = scene.types.find(name)?;
        return Some(Hover {
            span,
            text: lead(step_type),
            step: result_of(id),
        });
    }
    let noun = noun_of(kind, &found.keys)?;
    let mut step = None;
    let told = match noun {
        Noun::Step => {
            step = result_of(name);
            of_step(scene, name)?
        }
        Noun::Artifact => of_artifact(scene, name)?,
        Noun::Env => joined(made_by(scene, noun, name), of_env(scene, name))?,
        Noun::Agent => {
            let made = made_by(scene, noun, name);
            let maker = maker(scene, noun, name);
            let folder = maker.map(|maker| {
                let id = text(maker, "a2a_agent_id");
                if id.is_empty() { name } else { id }
            });
            joined(made, of_agent(scene, folder.unwrap_or(name)))?
        }
        Noun::AgentFolder => of_agent(scene, name)?,
        Noun::Sandbox | Noun::Prompt | Noun::Verifier => {
            step = maker(scene, noun, name).and_then(|maker| result_of(text(maker, "id")));
            made_by(scene, noun, name)?
        }
        Noun::Model => {
            let table = scene.config.models.get(name)?;
            let api = table.get("api").and_then(crate::json::Value::as_str);
            let api = api.map_or_else(String::new, |api| format!(", reached by `{api}`"));
            format!("model of `aebuild.toml`{api}")
        }
    };
    let title = match noun {
        Noun::Step => String::new(),
        _ => format!("{} **`{name}`**\n\n", noun.as_str()),
    };
    Some(Hover {
        span,
        text: format!("{title}{told}"),
        step,
    })
}

fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}\n\n{other}")),
        (one, other) => one.or(other),
    }
}

/// Returns the first paragraphs of the page of a type.
fn lead(step_type: &StepType) -> String {
    let page = step_type.page_text();
    let lines = page
        .lines()
        .skip_while(|line| line.is_empty() || line.starts_with('#'));
    let lead: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).collect();
    format!("**`{}`**\n\n{}", step_type.name, lead.join("\n").trim_end())
}

fn of_step(scene: &Scene<'_>, id: &str) -> Option<String> {
    let (_, step) = scene.steps().find(|(_, step)| text(step, "id") == id)?;
    let kind = text(step, "type");
    let summary = scene.types.find(kind).map(StepType::summary);
    let summary = summary.map_or_else(String::new, |summary| format!("\n\n{summary}"));
    Some(format!("step **`{id}`** (`{kind}`){summary}"))
}

/// Returns the step that makes what has a name.
pub(super) fn maker<'a>(scene: &Scene<'a>, noun: Noun, name: &str) -> Option<&'a Node> {
    let sites = super::sites(scene);
    let site = sites
        .iter()
        .find(|site| site.makes && site.name.noun == noun && site.name.text == name)?;
    scene.root.as_array()?.get(site.step)
}

fn made_by(scene: &Scene<'_>, noun: Noun, name: &str) -> Option<String> {
    let maker = maker(scene, noun, name)?;
    let (id, kind) = (text(maker, "id"), text(maker, "type"));
    Some(format!("made by step `{id}` (`{kind}`)"))
}

fn of_artifact(scene: &Scene<'_>, name: &str) -> Option<String> {
    let artifact = scene.folder.artifact(name)?;
    let n = artifact.files.len();
    let mut told = format!(
        "`{}`, {} file{} in `{}`",
        artifact.kind.as_str(),
        n,
        if n == 1 { "" } else { "s" },
        artifact.shown
    );
    for file in artifact.files.iter().take(MAX_LISTED) {
        told.push_str(&format!("\n- `{}`", file.path));
    }
    if n > MAX_LISTED {
        told.push_str(&format!("\n- and {} more", n - MAX_LISTED));
    }
    Some(told)
}

/// How many files of an artifact are named.
const MAX_LISTED: usize = 10;

fn of_env(scene: &Scene<'_>, name: &str) -> Option<String> {
    if let Some(env) = scene.folder.env(name) {
        return Some(format!("`{}` of the folder `envs/{}`", env.kind, env.name));
    }
    if scene.config.envs.contains_key(name) {
        return Some(format!("`[envs.{name}]` of `aebuild.toml`"));
    }
    let is_built_in = crate::task::deploy::BUILTIN_ENVS.contains(&name);
    is_built_in.then(|| "built in".to_owned())
}

fn of_agent(scene: &Scene<'_>, name: &str) -> Option<String> {
    if let Some(agent) = scene.folder.agent(name) {
        return Some(format!(
            "`{}` of the folder `agents/{}`",
            agent.kind, agent.name
        ));
    }
    let is_configured = scene.config.agents.contains_key(name);
    is_configured.then(|| format!("`[agents.{name}]` of `aebuild.toml`"))
}
