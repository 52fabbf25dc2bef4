//! Says which agents may ask which others.
//!
//! ```json
//! {"id": "peer", "type": "peer_agents",
//!  "peerings": [{"source_agent_name": "planner", "peer_agent_names": ["writer"]}], "depends_on": ["planner", "writer"]}
//! ```
//!
//! A prompt after it finds the peers: a scripted agent asks one with a call that has `peer` and `message`, an agent with a
//! model has a tool `ask_<name>` for each. A peer answers with its own envs, files and role. All messages that an agent
//! sends to a peer while it answers one prompt are one conversation.
//!
//! # What it gives
//!
//! An entry in `metadata.agent_peerings` for each source. The last list of a source stands in the place of those before.
//!
//! # What is in its key
//!
//! Its fields, and the agents that it names.
//!
//! # Effects
//!
//! None. A prompt to an agent that may ask others works on the envs of all of them, so it waits for who else works on
//! these, and runs again when their state is another.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::CONFLICT;
use crate::context::{Entry, Lookup, Output, Place};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `peer_agents`.
pub static TYPE: StepType = StepType {
    name: "peer_agents",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("peer_agents.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// Who may ask whom.
    #[schemars(length(min = 1))]
    peerings: Vec<Peering>,
}

/// Whom an agent may ask.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Peering {
    /// The agent that may ask.
    #[schemars(length(min = 1))]
    source_agent_name: String,
    /// The agents that it may ask.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    peer_agent_names: Vec<String>,
}

#[derive(Debug)]
struct PeerAgents {
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    let mut refuse = |field: String, what: String, help: &str| {
        refusals.push(Refusal::new(CONFLICT, field, what).help(help));
    };
    let mut sources = BTreeSet::new();
    for (at, peering) in fields.peerings.iter().enumerate() {
        let source = &peering.source_agent_name;
        if !sources.insert(source) {
            refuse(
                format!("/peerings/{at}/source_agent_name"),
                format!("agent `{source}` is the source of two peerings"),
                "put all its peers into one list",
            );
        }
        let mut peers = BTreeSet::new();
        for (n, peer) in peering.peer_agent_names.iter().enumerate() {
            let field = format!("/peerings/{at}/peer_agent_names/{n}");
            if peer == source {
                let what = format!("agent `{source}` cannot be its own peer");
                refuse(field, what, "name another agent");
            } else if !peers.insert(peer) {
                let what = format!("agent `{source}` has peer `{peer}` twice");
                refuse(field, what, "delete one of them");
            }
        }
    }
    if refusals.is_empty() {
        Ok(Box::new(PeerAgents { fields }))
    } else {
        Err(refusals)
    }
}

impl PeerAgents {
    fn peer(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        for read in self.reads() {
            if cx.find(&read.lookup).is_none() {
                let what = format!("{} is not deployed by a step before", read.lookup);
                return Err(StepError::of("ValueError", what));
            }
        }
        let entry = |peering: &Peering| {
            let place = Place::Append(vec!["agent_peerings".to_owned()]);
            Entry::data(place, json!(peering))
        };
        Ok(Output::of(self.fields.peerings.iter().map(entry).collect()))
    }
}

impl Step for PeerAgents {
    fn fields(&self) -> Value {
        json!(self.fields)
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        Vec::new()
    }

    fn peerings(&self) -> Vec<(String, Vec<String>)> {
        let peering = |peering: &Peering| {
            (
                peering.source_agent_name.clone(),
                peering.peer_agent_names.clone(),
            )
        };
        self.fields.peerings.iter().map(peering).collect()
    }

    fn reads(&self) -> Vec<NameRef> {
        let mut reads = Vec::new();
        let mut read = |field: String, name: &String| {
            let lookup = Lookup::Agent(name.clone());
            reads.push(NameRef { field, lookup });
        };
        for (at, peering) in self.fields.peerings.iter().enumerate() {
            let field = format!("/peerings/{at}/source_agent_name");
            read(field, &peering.source_agent_name);
            for (n, peer) in peering.peer_agent_names.iter().enumerate() {
                read(format!("/peerings/{at}/peer_agent_names/{n}"), peer);
            }
        }
        reads
    }

    fn provides(&self) -> Vec<NameRef> {
        Vec::new()
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(async move { self.peer(cx) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeServices, build_step, refused, run, show};
    use expect_test::expect;

    #[test]
    fn who_may_ask_whom_is_data_for_later_prompts() {
        let fields = json!({"peerings": [
            {"source_agent_name": "planner", "peer_agent_names": ["writer"]},
            {"source_agent_name": "writer", "peer_agent_names": ["planner"]},
        ]});
        let step = build_step(&TYPE, "peer", fields);
        let error = run(&*step, "peer", &FakeServices::new()).unwrap_err();
        expect!["ValueError: agent `planner` is not deployed by a step before"]
            .assert_eq(&error.to_string());
        let world = FakeServices::new().deployed("planner").deployed("writer");
        expect![[r#"
            metadata.agent_peerings += {"peer_agent_names":["writer"],"source_agent_name":"planner"}
            metadata.agent_peerings += {"peer_agent_names":["planner"],"source_agent_name":"writer"}
        "#]]
        .assert_eq(&show(&run(&*step, "peer", &world).unwrap()));
    }

    #[test]
    fn peerings_that_cannot_be_are_refused_at_once() {
        expect![[r#"
            conflicting-fields /peerings/0/peer_agent_names/0: agent `a` cannot be its own peer (name another agent)
            conflicting-fields /peerings/0/peer_agent_names/2: agent `a` has peer `b` twice (delete one of them)
            conflicting-fields /peerings/1/source_agent_name: agent `a` is the source of two peerings (put all its peers into one list)
        "#]].assert_eq(&refused(
            &TYPE,
            json!({"peerings": [
                {"source_agent_name": "a", "peer_agent_names": ["a", "b", "b"]},
                {"source_agent_name": "a", "peer_agent_names": ["c"]},
            ]}),
        ));
    }
}
