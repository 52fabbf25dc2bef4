//! Makes an agent, connected to envs.
//!
//! ```json
//! {"id": "assistant", "type": "deploy_agent", "agent_name": "assistant", "env_ids": ["email"], "depends_on": ["email"]}
//! ```
//!
//! Which agent it is, is said by a folder below `agents/`: the one that `a2a_agent_id` names, else the one that is named
//! like `agent_name`. See the chapter on agents for what a scripted agent's folder says.
//!
//! # What it gives
//!
//! One entry in `deployed_agents`, found by `agent_name`.
//!
//! # When it runs
//!
//! Never by itself. An agent is made when a step that must run prompts it.
//!
//! # What is in its key
//!
//! What the agent is run with: what its type uses of `agent.toml` and of its table, and the files of its folder where it is
//! a program. And all fields but `ttl_seconds`, `metadata` and what only says where it runs; `agent_description` counts
//! where another agent may ask this one.
//!
//! # Differences to agent-env
//!
//! - A skill is a text in the step, in `skill_md` or `content`; an address of one is refused, as are
//!   `enable_agent_changelog`, agent snapshots and `network_policy`: not there yet.
//! - `sandbox_name` has the agent work in that sandbox, where its own files and commands would be; one that serves A2A
//!   cannot.
//! - `env_vars`, `litellm_base_url`, `disk_size_gb`, `cpu`, `memory_mb` and `sandbox_type` are accepted and change nothing
//!   of a scripted agent.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::add_skills::{skill_at_address, skill_value, split};
use super::target::{CONFLICT, DEFAULT_AGENT, MISSING, NOT_YET, given};
use crate::context::{Entry, Lookup, Output, Place};
use crate::digest::Digest;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{
    Deploys, NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `deploy_agent`.
pub static TYPE: StepType = StepType {
    name: "deploy_agent",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("deploy_agent.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The envs that the agent is connected to.
    #[serde(default)]
    env_ids: Vec<String>,
    /// The step that deployed the envs.
    env_step_id: Option<String>,
    /// The agent; the one named like `agent_name` where absent.
    a2a_agent_id: Option<String>,
    /// The version; an agent of the task folder has none.
    a2a_agent_version: Option<u64>,
    /// The name by which other steps find the agent.
    #[serde(default = "default_name")]
    #[schemars(length(min = 1, max = 128))]
    agent_name: String,
    /// What the agent is told that it is.
    agent_description: Option<String>,
    /// Environment variables of the agent.
    #[serde(default)]
    env_vars: BTreeMap<String, String>,
    /// Skills that the agent gets.
    #[serde(default)]
    skills: Vec<SkillText>,
    /// What the agent is told before every prompt.
    system_prompt: Option<String>,
    /// Size of the disk, in GiB.
    disk_size_gb: Option<f64>,
    /// The address of the model endpoint.
    litellm_base_url: Option<String>,
    /// Who provides the agent's sandbox.
    sandbox_type: Option<String>,
    /// Time after which the agent may be taken away, in seconds.
    ttl_seconds: Option<u64>,
    /// Number of processors.
    cpu: Option<f64>,
    /// Memory, in MiB.
    memory_mb: Option<u64>,
    /// A snapshot of an agent's files.
    agent_snapshot_files_artifact_id: Option<String>,
    /// The version of the snapshot.
    agent_snapshot_files_artifact_version: Option<u64>,
    /// The context that the snapshot becomes.
    agent_snapshot_target_context_id: Option<String>,
    /// What the agent may reach over the network.
    network_policy: Option<Value>,
    /// The role in which it calls tools; `default` where absent.
    role: Option<String>,
    /// Whether changes of the agent's files are kept.
    #[serde(default)]
    enable_agent_changelog: bool,
    /// How far such changes are applied.
    agent_changelog_toolcall_position_exclusive: Option<u64>,
    /// The sandbox in which the agent works, in the place of one of its own.
    sandbox_name: Option<String>,
    /// Whether the agent can use Docker.
    #[serde(default)]
    enable_docker: bool,
    /// Notes for the provider.
    #[serde(default)]
    metadata: Map<String, Value>,
    /// Changes to apply.
    agent_changelog_object_url: Option<String>,
}

/// A skill, written here.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SkillText {
    /// The name.
    #[schemars(length(min = 1))]
    name: String,
    /// When it is of use.
    description: Option<String>,
    /// The text, as a `SKILL.md` has it.
    skill_md: Option<String>,
    /// The text.
    content: Option<String>,
    /// Where the text is kept.
    object_url: Option<String>,
    /// Where the text is kept.
    skill_s3_url: Option<String>,
    /// Where the text is kept.
    s3_uri: Option<String>,
}

impl SkillText {
    /// Returns the skill as the agent gets it.
    fn value(&self) -> Value {
        let text = match given(&self.skill_md) {
            Some(file) => split(file).1.trim(),
            None => given(&self.content).unwrap_or_default(),
        };
        skill_value(&self.name, &self.description, text)
    }

    /// Adds what is wrong with the skill at a place.
    fn check(&self, place: &str, refusals: &mut Vec<Refusal>) {
        let urls = [
            ("object_url", &self.object_url),
            ("skill_s3_url", &self.skill_s3_url),
            ("s3_uri", &self.s3_uri),
        ];
        let urls = urls.into_iter().filter(|(_, url)| given(url).is_some());
        let before = refusals.len();
        refusals.extend(urls.map(|(key, _)| skill_at_address(place, key)));
        let fault = match (given(&self.skill_md), given(&self.content)) {
            (Some(_), Some(_)) => Refusal::new(
                CONFLICT,
                format!("{place}/content"),
                "the skill has both `skill_md` and `content`",
            )
            .help("delete one of them"),
            (None, None) if refusals.len() == before => {
                Refusal::new(MISSING, place, "nothing says what the skill is")
                    .help("add \"skill_md\": \"..\"")
            }
            _ => return,
        };
        refusals.push(fault);
    }
}

pub(super) fn default_name() -> String {
    DEFAULT_AGENT.to_owned()
}

#[derive(Debug)]
struct DeployAgent {
    /// Where each env was written among the `env_ids`: one that stands there twice is connected once.
    env_places: Vec<usize>,
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let mut fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    let not_yet = [
        (
            "agent_snapshot_files_artifact_id",
            fields.agent_snapshot_files_artifact_id.is_some(),
        ),
        ("network_policy", fields.network_policy.is_some()),
        ("enable_agent_changelog", fields.enable_agent_changelog),
        (
            "agent_changelog_object_url",
            fields.agent_changelog_object_url.is_some(),
        ),
        ("enable_docker", fields.enable_docker),
    ];
    for (name, _) in not_yet.into_iter().filter(|(_, is_set)| *is_set) {
        refusals.push(
            Refusal::new(
                NOT_YET,
                format!("/{name}"),
                format!("no agent can use `{name}` in this release"),
            )
            .help(format!("delete `{name}`")),
        );
    }
    for (at, skill) in fields.skills.iter().enumerate() {
        skill.check(&format!("/skills/{at}"), &mut refusals);
    }
    refusals.extend(fields.a2a_agent_version.map(|_| pinned()));
    let (mut seen, mut env_places) = (Vec::new(), Vec::new());
    for (at, env_id) in std::mem::take(&mut fields.env_ids).into_iter().enumerate() {
        if !seen.contains(&env_id) {
            seen.push(env_id);
            env_places.push(at);
        }
    }
    fields.env_ids = seen;
    if refusals.is_empty() {
        Ok(Box::new(DeployAgent { fields, env_places }))
    } else {
        Err(refusals)
    }
}

/// Returns the refusal of a version.
pub(super) fn pinned() -> Refusal {
    Refusal::new(
        "pinned-artifact",
        "/a2a_agent_version",
        "an agent of the task folder has no versions",
    )
    .help("delete `a2a_agent_version`")
}

impl Step for DeployAgent {
    fn fields(&self) -> Value {
        json!(self.fields)
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        vec![(ResourceId::agent(&self.fields.agent_name), Touch::Creates)]
    }

    fn deploys(&self) -> Option<Deploys> {
        Some(Deploys::Agent {
            agent_name: self.fields.agent_name.clone(),
            agent_id: given(&self.fields.a2a_agent_id).map(str::to_owned),
            env_ids: self.fields.env_ids.clone(),
            sandbox_name: given(&self.fields.sandbox_name).map(str::to_owned),
        })
    }

    fn live_output(&self, handle: &str) -> Option<Output> {
        let fields = &self.fields;
        let skills: Vec<Value> = fields.skills.iter().map(SkillText::value).collect();
        // The description counts where another agent may ask this one, which the plan of the task tells.
        let mut definition = json!({
            "agent_name": fields.agent_name,
            "env_ids": fields.env_ids,
            "env_vars": fields.env_vars,
            "system_prompt": fields.system_prompt,
            "role": fields.role,
        });
        let mut value = json!({
            "agent_name": fields.agent_name,
            "api_url": null,
            "sandbox_id": handle,
            "sandbox_type": "local",
            "a2a_url": null,
            "a2a_card": null,
            "instance_id": handle,
            "role": fields.role,
            "network_policy": null,
            "on_host": given(&fields.sandbox_name).is_some(),
            "installed_container": null,
            "env_ids": fields.env_ids,
            "agent_description": fields.agent_description,
            "system_prompt": fields.system_prompt,
        });
        // What has none is named and kept as if there were no skills.
        if !skills.is_empty() {
            definition["skills"] = json!(skills);
            value["skills"] = json!(skills);
        }
        let place = Place::Agent(fields.agent_name.clone());
        Some(Output::of(vec![Entry::live(
            place,
            value,
            &Digest::of_value(&definition),
        )]))
    }

    fn reads(&self) -> Vec<NameRef> {
        let envs = self.env_places.iter().zip(&self.fields.env_ids);
        let envs = envs.map(|(at, env_id)| NameRef {
            field: format!("/env_ids/{at}"),
            lookup: Lookup::Env(env_id.clone()),
        });
        let sandbox = given(&self.fields.sandbox_name).map(|name| NameRef {
            field: "/sandbox_name".to_owned(),
            lookup: Lookup::Sandbox(name.to_owned()),
        });
        envs.chain(sandbox).collect()
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![NameRef {
            field: "/agent_name".to_owned(),
            lookup: Lookup::Agent(self.fields.agent_name.clone()),
        }]
    }

    fn run<'a>(&'a self, _: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        unreachable!("bug: a step that only provides a live thing was run")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{build_step, refused};
    use expect_test::expect;

    #[test]
    fn an_agent_reads_the_envs_that_it_is_connected_to() {
        let fields = json!({"agent_name": "a", "env_ids": ["mail", "kv", "mail"]});
        let step = build_step(&TYPE, "a", fields);
        let reads: Vec<String> = step
            .reads()
            .iter()
            .map(|read| read.lookup.to_string())
            .collect();
        assert_eq!(reads, ["env `mail`", "env `kv`"]);
        let fields = json!({"agent_name": "a", "env_ids": ["mail", "mail", "kv"]});
        let step = build_step(&TYPE, "a", fields);
        let places: Vec<String> = step.reads().into_iter().map(|read| read.field).collect();
        assert_eq!(places, ["/env_ids/0", "/env_ids/2"]);
        let digest = |handle| step.live_output(handle).unwrap().entries[0].digest;
        assert_eq!(digest("one"), digest("two"));
    }

    #[test]
    fn what_only_tells_of_an_agent_is_no_part_of_its_definition() {
        let digest = |fields: Value| {
            let step = build_step(&TYPE, "a", fields);
            step.live_output("a").unwrap().entries[0].digest
        };
        let plain = digest(json!({"agent_name": "a"}));
        let told = json!({"agent_name": "a", "agent_description": "who", "metadata": {"a": 1}});
        assert_eq!(digest(told), plain);
        assert_ne!(digest(json!({"agent_name": "a", "role": "clerk"})), plain);
    }

    #[test]
    fn an_agent_is_deployed_with_skills() {
        let file = "---\nname: tone\n---\nBe brief.\n";
        let skills = json!([
            {"name": "tone", "description": "How to sound", "skill_md": file},
            {"name": "plain", "content": "Write plain text."},
        ]);
        let with = build_step(&TYPE, "a", json!({"skills": skills}));
        let without = build_step(&TYPE, "a", json!({}));
        let entry = |step: &dyn Step| step.live_output("a").unwrap().entries.remove(0);
        assert_ne!(entry(&*with).digest, entry(&*without).digest);
        let value = crate::json::to_string(&entry(&*with).value["skills"]).unwrap();
        expect![[r#"[{"body":"Be brief.","description":"How to sound","name":"tone"},{"body":"Write plain text.","description":"","name":"plain"}]"#]]
            .assert_eq(&value);
        assert!(entry(&*without).value.get("skills").is_none());
    }

    #[test]
    fn what_no_agent_can_do_yet_is_refused() {
        expect![[r#"
            not-supported-yet /enable_docker: no agent can use `enable_docker` in this release (delete `enable_docker`)
            missing-field /skills/0: nothing says what the skill is (add "skill_md": "..")
            pinned-artifact /a2a_agent_version: an agent of the task folder has no versions (delete `a2a_agent_version`)
        "#]]
        .assert_eq(&refused(
            &TYPE,
            json!({"skills": [{"name": "a"}, {"name": "b", "content": "c"}], "enable_docker": true, "a2a_agent_version": 1}),
        ));
    }
}
