//! Makes a sandbox: a place of its own in which later steps run commands and keep files.
//!
//! The sandbox runs on this machine. It starts with nothing but an empty folder `/app`, in which commands run and below
//! which relative paths are. Where bubblewrap works, its commands see their own root, their own processes and the
//! system's folders read-only; elsewhere a folder of its own is all that keeps it apart, and the run says so. Its
//! environment is clean: `PATH`, `HOME`, `LANG`, `TMPDIR`, and what `env_vars` says.
//!
//! ```json
//! {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "depends_on": []}
//! ```
//!
//! # What it gives
//!
//! One entry in `deployed_sandboxes`, found by `sandbox_name`.
//!
//! # When it runs
//!
//! Never by itself. A sandbox is made when a step that must run needs it, and it is made in the state that this step
//! needs, so a run in which nothing changed makes none.
//!
//! # What is in its key
//!
//! All fields but `ttl_seconds`. `sandbox_id` is a handle: what it is called in one run, and in no key.
//!
//! # Differences to agent-env
//!
//! - The environment of the runner does not reach the sandbox; `agent-env` hands all of it on.
//! - `sudo` is a program like any other; `agent-env` drops the word.
//! - Containers, `exposed_ports` and the sandboxes of other providers are refused, not there yet.
//! - `image`, `boot_mode`, `port`, `cpu`, `memory_mb` and `disk_size_gb` are accepted and, as with `agent-env`'s local
//!   sandboxes, change nothing.
//! - The sandbox ends with the run, or by `teardown_sandboxes`, whatever `ttl_seconds` says.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{NEEDS_DOCKER, NOT_YET};
use crate::context::{Entry, Lookup, Output, Place};
use crate::digest::Digest;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `deploy_sandbox`.
pub static TYPE: StepType = StepType {
    name: "deploy_sandbox",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("deploy_sandbox.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The name by which other steps find the sandbox.
    #[schemars(length(min = 1, max = 128))]
    sandbox_name: String,
    /// What kind of sandbox it is.
    sandbox_mode: Mode,
    /// The image of a container.
    image: Option<String>,
    /// Number of processors.
    #[serde(default = "one")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    cpu: f64,
    /// Memory, in MiB.
    #[serde(default = "default_memory")]
    #[schemars(range(min = 1))]
    memory_mb: u64,
    /// Size of the disk, in GiB.
    #[serde(default = "default_disk")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    disk_size_gb: f64,
    /// Time after which the sandbox may be taken away, in seconds.
    #[serde(default = "default_ttl")]
    #[schemars(range(min = 1))]
    ttl_seconds: u64,
    /// Ports of the sandbox that can be reached from outside.
    #[schemars(inner(range(min = 1, max = 65535)))]
    exposed_ports: Option<Vec<u32>>,
    /// How the sandbox is started.
    boot_mode: Option<String>,
    /// The port on which a container answers.
    #[schemars(range(min = 1, max = 65535))]
    port: Option<u32>,
    /// Environment variables of all commands in the sandbox.
    env_vars: Option<BTreeMap<String, String>>,
    /// Who provides the sandbox; `local` where absent.
    sandbox_type: Option<String>,
    /// What the sandbox may reach over the network.
    network_policy: Option<NetworkPolicy>,
    /// Notes for the provider.
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// What kind of sandbox it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// A machine, or what stands for one.
    Vm,
    /// A container.
    Container,
}

/// What a sandbox may reach over the network.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NetworkPolicy {
    /// Whether everything or only what is listed can be reached.
    mode: NetworkMode,
    /// Hosts that can be reached.
    #[serde(default)]
    allow_hosts: Vec<String>,
    /// Ranges of addresses that can be reached.
    #[serde(default)]
    allow_cidrs: Vec<String>,
}

/// Whether everything or only what is listed can be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum NetworkMode {
    /// Everything.
    AllowAll,
    /// What is listed.
    Allowlist,
}

fn one() -> f64 {
    1.0
}

fn default_memory() -> u64 {
    8192
}

fn default_disk() -> f64 {
    10.0
}

fn default_ttl() -> u64 {
    7200
}

#[derive(Debug)]
struct DeploySandbox {
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let refusals = refusals(&fields);
    if refusals.is_empty() {
        Ok(Box::new(DeploySandbox { fields }))
    } else {
        Err(refusals)
    }
}

fn refusals(fields: &Fields) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if fields.sandbox_mode == Mode::Container {
        refusals.push(
            Refusal::new(
                NEEDS_DOCKER,
                "/sandbox_mode",
                "a sandbox of mode `container` needs docker, which this release does not run",
            )
            .help("write \"sandbox_mode\": \"vm\""),
        );
    }
    if let Some(other) = fields
        .sandbox_type
        .as_deref()
        .filter(|name| *name != "local")
    {
        refusals.push(
            Refusal::new(
                "unknown-value",
                "/sandbox_type",
                format!("no provider `{other}` of sandboxes is known"),
            )
            .help("write \"sandbox_type\": \"local\", or delete it"),
        );
    }
    if fields
        .exposed_ports
        .as_ref()
        .is_some_and(|ports| !ports.is_empty())
    {
        refusals.push(
            Refusal::new(
                NOT_YET,
                "/exposed_ports",
                "ports of a sandbox cannot be exposed in this release",
            )
            .help("delete `exposed_ports`; commands in the sandbox reach its ports all the same"),
        );
    }
    if let Some(policy) = &fields.network_policy {
        refusals.extend(refuse_policy(policy));
    }
    for name in fields.env_vars.iter().flat_map(BTreeMap::keys) {
        refusals.extend(refuse_variable(name));
    }
    refusals
}

fn refuse_policy(policy: &NetworkPolicy) -> Option<Refusal> {
    let listed = [
        ("allow_hosts", &policy.allow_hosts),
        ("allow_cidrs", &policy.allow_cidrs),
    ];
    match policy.mode {
        NetworkMode::Allowlist => Some(
            Refusal::new(
                "network-policy-not-kept",
                "/network_policy/mode",
                "a local sandbox cannot keep commands from the network",
            )
            .help("write \"mode\": \"allow_all\", or delete `network_policy`"),
        ),
        NetworkMode::AllowAll => {
            let (name, _) = listed
                .into_iter()
                .find(|(_, entries)| !entries.is_empty())?;
            Some(
                Refusal::new(
                    super::target::CONFLICT,
                    format!("/network_policy/{name}"),
                    format!(
                        "`{name}` lists what may be reached, but mode `allow_all` allows everything"
                    ),
                )
                .help(format!("delete `{name}`")),
            )
        }
    }
}

/// Variables that make other programs run code, or change which program is run, before a command has a say.
fn refuse_variable(name: &str) -> Option<Refusal> {
    let field = format!("/env_vars/{}", name.replace('~', "~0").replace('/', "~1"));
    if name.is_empty() || name.contains(['=', '\0']) || name.chars().any(char::is_whitespace) {
        return Some(
            Refusal::new(
                "bad-variable-name",
                field,
                format!("`{name}` cannot be the name of an environment variable"),
            )
            .help("use letters, digits and `_`"),
        );
    }
    let takes_over = ["BASH_ENV", "ENV", "PATH", "PYTHONSTARTUP"].contains(&name)
        || ["LD_", "DYLD_", "GIT_"]
            .iter()
            .any(|start| name.starts_with(start));
    takes_over.then(|| {
        Refusal::new(
            "variable-not-allowed",
            field,
            format!("environment variable `{name}` decides which code other programs run"),
        )
        .help("set it in the command that needs it")
    })
}

impl DeploySandbox {
    /// Returns the policy that is in force: without one, everything may be reached.
    fn policy(&self) -> Value {
        let open = || json!({"mode": "allow_all", "allow_hosts": [], "allow_cidrs": []});
        self.fields
            .network_policy
            .as_ref()
            .map_or_else(open, |policy| json!(policy))
    }
}

impl Step for DeploySandbox {
    fn fields(&self) -> Value {
        json!(self.fields)
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        vec![(
            ResourceId::sandbox(&self.fields.sandbox_name),
            Touch::Creates,
        )]
    }

    fn live_output(&self, handle: &str) -> Option<Output> {
        let mut definition = self.fields();
        if let Value::Object(members) = &mut definition {
            members.remove("ttl_seconds");
        }
        let value = json!({
            "sandbox_name": self.fields.sandbox_name,
            "sandbox_id": handle,
            "sandbox_mode": self.fields.sandbox_mode,
            "sandbox_type": "local",
            "tunnel_urls": null,
            "vnc_url": null,
            "instance_id": null,
            "created_at_utc": null,
            "expires_at_utc": null,
            "network_policy": self.policy(),
        });
        let place = Place::Sandbox(self.fields.sandbox_name.clone());
        Some(Output::of(vec![Entry::live(
            place,
            value,
            &Digest::of_value(&definition),
        )]))
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![NameRef {
            field: "/sandbox_name".to_owned(),
            lookup: Lookup::Sandbox(self.fields.sandbox_name.clone()),
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

    fn output(more: Value) -> Output {
        let mut fields = json!({"sandbox_name": "box", "sandbox_mode": "vm"});
        let members = fields.as_object_mut().unwrap();
        members.extend(more.as_object().cloned().unwrap());
        build_step(&TYPE, "deploy", fields)
            .live_output("local-1")
            .unwrap()
    }

    #[test]
    fn a_sandbox_is_found_by_its_name() {
        let output = output(json!({}));
        assert_eq!(output.entries[0].place, Place::Sandbox("box".to_owned()));
        let expected = expect![[
            r#"{"created_at_utc":null,"expires_at_utc":null,"instance_id":null,"network_policy":{"allow_cidrs":[],"allow_hosts":[],"mode":"allow_all"},"sandbox_id":"local-1","sandbox_mode":"vm","sandbox_name":"box","sandbox_type":"local","tunnel_urls":null,"vnc_url":null}"#
        ]];
        expected.assert_eq(&output.entries[0].value.to_string());
    }

    #[test]
    fn what_a_sandbox_is_does_not_depend_on_its_handle_or_its_time_to_live() {
        let step = build_step(
            &TYPE,
            "deploy",
            json!({"sandbox_name": "box", "sandbox_mode": "vm"}),
        );
        let digest = |output: &Output| output.digest();
        let one = step.live_output("local-1").unwrap();
        assert_eq!(digest(&one), digest(&step.live_output("local-2").unwrap()));
        assert_eq!(digest(&one), digest(&output(json!({"ttl_seconds": 60}))));
        assert_eq!(digest(&one), digest(&output(json!({"cpu": 1}))));
        assert_ne!(
            digest(&one),
            digest(&output(json!({"env_vars": {"A": "1"}})))
        );
    }

    #[test]
    fn what_a_local_sandbox_cannot_do_is_refused_with_the_way_out() {
        let fields = json!({
            "sandbox_name": "box",
            "sandbox_mode": "container",
            "sandbox_type": "e2b",
            "exposed_ports": [80],
            "network_policy": {"mode": "allowlist", "allow_hosts": ["example.org"]},
            "env_vars": {"LD_PRELOAD": "x", "A=B": "", "OK": ""},
        });
        expect![[r#"
            container-needs-docker /sandbox_mode: a sandbox of mode `container` needs docker, which this release does not run (write "sandbox_mode": "vm")
            unknown-value /sandbox_type: no provider `e2b` of sandboxes is known (write "sandbox_type": "local", or delete it)
            not-supported-yet /exposed_ports: ports of a sandbox cannot be exposed in this release (delete `exposed_ports`; commands in the sandbox reach its ports all the same)
            network-policy-not-kept /network_policy/mode: a local sandbox cannot keep commands from the network (write "mode": "allow_all", or delete `network_policy`)
            bad-variable-name /env_vars/A=B: `A=B` cannot be the name of an environment variable (use letters, digits and `_`)
            variable-not-allowed /env_vars/LD_PRELOAD: environment variable `LD_PRELOAD` decides which code other programs run (set it in the command that needs it)
        "#]]
        .assert_eq(&refused(&TYPE, fields));
    }

    #[test]
    fn hosts_beside_an_open_policy_are_refused() {
        let policy = json!({"mode": "allow_all", "allow_hosts": ["*"]});
        let fields = json!({"sandbox_name": "b", "sandbox_mode": "vm", "network_policy": policy});
        expect![[r#"
            conflicting-fields /network_policy/allow_hosts: `allow_hosts` lists what may be reached, but mode `allow_all` allows everything (delete `allow_hosts`)
        "#]]
        .assert_eq(&refused(&TYPE, fields));
    }
}
