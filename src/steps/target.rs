//! What a step works on: the fields that name it, and the refusals of what is not there yet.

use std::sync::Arc;

use crate::context::Lookup;
use crate::resource::ResourceId;
use crate::step::sandbox::Sandbox;
use crate::step::{NameRef, Refusal, StepCx, StepError};
pub(super) use crate::task::DEFAULT_AGENT;

/// The code of a refusal of something that the original has and this release has not.
pub(super) const NOT_YET: &str = "not-supported-yet";
/// The code of a refusal of what runs in a container.
pub(super) const NEEDS_DOCKER: &str = "container-needs-docker";
/// The code of a refusal of fields that exclude each other.
pub(super) const CONFLICT: &str = "conflicting-fields";
/// The code of a refusal of a step that lacks a field.
pub(super) const MISSING: &str = "missing-field";

/// The name of the person that a step means where it names nobody.
pub(super) const PERSON: &str = "human_agent";

/// The fields that say on what a step works.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Target<'a> {
    pub(super) sandbox_name: Option<&'a str>,
    pub(super) container_name: Option<&'a str>,
    pub(super) agent_name: Option<&'a str>,
    pub(super) env_id: Option<&'a str>,
}

/// The place with files that a step works in: a sandbox, or that of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Room {
    Sandbox(String),
    Agent(String),
}

impl Room {
    pub(super) fn resource(&self) -> ResourceId {
        match self {
            Room::Sandbox(name) => ResourceId::sandbox(name),
            Room::Agent(name) => ResourceId::agent(name),
        }
    }

    /// Returns the look-up of the step that made it, at the field that names it.
    pub(super) fn read(&self) -> NameRef {
        let (field, lookup) = match self {
            Room::Sandbox(name) => ("/sandbox_name", Lookup::Sandbox(name.clone())),
            Room::Agent(name) => ("/agent_name", Lookup::Agent(name.clone())),
        };
        NameRef {
            field: field.to_owned(),
            lookup,
        }
    }

    pub(super) fn open(&self, cx: StepCx<'_>) -> Result<Arc<dyn Sandbox>, StepError> {
        match self {
            Room::Sandbox(name) => cx.sandbox(name),
            Room::Agent(name) => {
                // An agent that nobody deployed says so in its own words.
                cx.agent(name)?;
                cx.services.agent_sandbox(name).ok_or_else(|| {
                    StepError::new(format!("agent `{name}` has no files of its own"))
                })
            }
        }
    }
}

impl Target<'_> {
    /// Returns the place that these fields name, or why they name none; `what` is what the step does, such as "collects
    /// files". Where they name nothing it is the sandbox of `otherwise`, an agent.
    pub(super) fn room(&self, what: &str, otherwise: Option<&str>) -> Result<Room, Vec<Refusal>> {
        let mut refusals = Vec::new();
        if let Some(env) = self.env_id {
            refusals.push(
                Refusal::new(
                    NOT_YET,
                    "/env_id",
                    format!("env `{env}` has no files that a step could reach in this release"),
                )
                .help("name a sandbox with `sandbox_name` or an agent with `agent_name`"),
            );
        }
        if let Some(container) = self.container_name {
            refusals.push(
                Refusal::new(
                    NEEDS_DOCKER,
                    "/container_name",
                    format!(
                        "container `{container}` needs docker, which this release does not run"
                    ),
                )
                .help("delete `container_name` to use the sandbox itself"),
            );
        }
        let room = match (self.sandbox_name, self.agent_name.or(otherwise)) {
            // What the original fills in where nothing is written.
            (Some(sandbox), None | Some(DEFAULT_AGENT)) => Some(Room::Sandbox(sandbox.to_owned())),
            (Some(sandbox), Some(agent)) => {
                refusals.push(
                    Refusal::new(
                        CONFLICT,
                        "/agent_name",
                        format!("the step names both sandbox `{sandbox}` and agent `{agent}`"),
                    )
                    .help("delete one of `sandbox_name` and `agent_name`"),
                );
                None
            }
            (None, Some(agent)) => Some(Room::Agent(agent.to_owned())),
            (None, None) => None,
        };
        match room {
            Some(room) if refusals.is_empty() => Ok(room),
            None if refusals.is_empty() => Err(vec![
                Refusal::new(MISSING, "", format!("the step does not say which sandbox it {what}"))
                    .help("add \"sandbox_name\": \"..\" with the name that a `deploy_sandbox` step gives it, or `agent_name`"),
            ]),
            _ => Err(refusals),
        }
    }
}

/// Returns the text unless it is blank.
pub(super) fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.trim().is_empty())
}

/// Returns the path of a sandbox that a path means below a base.
pub(super) fn below(base: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let path = path.strip_prefix("./").unwrap_or(path);
    format!("{}/{path}", base.trim_end_matches('/'))
}
