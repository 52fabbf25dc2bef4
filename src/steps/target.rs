//! What a step works on: the fields that name it, and the refusals of what is not there yet.

use crate::step::Refusal;

/// The code of a refusal of something that the original has and this release has not.
pub(super) const NOT_YET: &str = "not-supported-yet";
/// The code of a refusal of what runs in a container.
pub(super) const NEEDS_DOCKER: &str = "container-needs-docker";
/// The code of a refusal of fields that exclude each other.
pub(super) const CONFLICT: &str = "conflicting-fields";
/// The code of a refusal of a step that lacks a field.
pub(super) const MISSING: &str = "missing-field";

/// The name of the agent that a step means where it names nothing.
pub(super) const DEFAULT_AGENT: &str = "default-agent";

/// The fields that say on what a step works.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Target<'a> {
    pub(super) sandbox_name: Option<&'a str>,
    pub(super) container_name: Option<&'a str>,
    pub(super) agent_name: Option<&'a str>,
    pub(super) env_id: Option<&'a str>,
}

impl Target<'_> {
    /// Returns why these fields don't name one sandbox; `what` is what the step does, such as "collects files".
    pub(super) fn refusals(&self, what: &str) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        if let Some(env) = self.env_id {
            refusals.push(
                Refusal::new(
                    NOT_YET,
                    "/env_id",
                    format!(
                        "env `{env}` cannot be used: no step type deploys envs in this release"
                    ),
                )
                .help("name a sandbox with `sandbox_name`; `deploy_env` comes in a later release"),
            );
        }
        match self.agent_name {
            Some(DEFAULT_AGENT) if self.sandbox_name.is_some() => {}
            Some(agent) => refusals.push(
                Refusal::new(
                    NOT_YET,
                    "/agent_name",
                    format!("agent `{agent}` cannot be used: no step type deploys agents in this release"),
                )
                .help("name a sandbox with `sandbox_name`; `deploy_agent` comes in a later release"),
            ),
            None => {}
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
        if self.sandbox_name.is_none() && refusals.is_empty() {
            refusals.push(
                Refusal::new(MISSING, "", format!("the step does not say which sandbox it {what}"))
                    .help("add \"sandbox_name\": \"..\" with the name that a `deploy_sandbox` step gives it"),
            );
        }
        refusals
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
