//! What steps touch: what they say, and what is behind the agents that they work on.

use std::sync::Arc;

use super::db::Db;
use super::deployed::{Deployed, deployed};
use super::inputs::{SettingInput, TaskInput};
use super::queries::{built, graph};
use super::timed::join_executors;
use crate::graph::StepIx;
use crate::resource::{ResourceId, ResourceKind, Touch};
use crate::step::Deploys;

/// A step that makes an agent.
struct Maker {
    at: StepIx,
    agent_name: String,
    env_ids: Vec<String>,
    uses_sandbox: bool,
    /// The sandbox that the agent works in, where it has none of its own.
    sandbox_name: Option<String>,
}

/// Returns what each step touches: what it says, and the envs behind the agents that it prompts.
#[salsa::tracked(returns(ref))]
pub fn touches(
    db: &dyn Db,
    input: TaskInput,
    setting: SettingInput,
) -> Arc<Vec<Vec<(ResourceId, Touch)>>> {
    let graph = graph(db, input, setting);
    let mut all: Vec<Vec<(ResourceId, Touch)>> = Vec::new();
    let mut agents: Vec<Maker> = Vec::new();
    let mut peerings: Vec<(StepIx, String, Vec<String>)> = Vec::new();
    let mut executors: Vec<(StepIx, String, Vec<String>)> = Vec::new();
    for at in graph.steps() {
        let built = built(db, input, setting, at.0);
        let Some(step) = &built.step else {
            all.push(Vec::new());
            continue;
        };
        if let Some(deploys @ Deploys::Agent { .. }) = step.deploys() {
            let folder = input.folder(db).folder(db);
            let run = setting.setting(db);
            let made = deployed(&deploys, folder.as_ref(), &run.config);
            let uses_sandbox = matches!(&made, Ok(Deployed::Agent(spec, _)) if spec.uses_sandbox());
            if let Deploys::Agent {
                agent_name,
                env_ids,
                sandbox_name,
                ..
            } = deploys
            {
                agents.push(Maker {
                    at,
                    agent_name,
                    env_ids,
                    uses_sandbox,
                    sandbox_name,
                });
            }
        }
        for (source, peers) in step.peerings() {
            peerings.push((at, source, peers));
        }
        if let Some((env_id, agents)) = step.executors() {
            executors.push((at, env_id, agents));
        }
        let mut touched = step.touches();
        let mut prompted: Vec<String> = touched
            .iter()
            .filter(|(resource, touch)| {
                resource.kind == ResourceKind::Agent
                    && matches!(touch, Touch::Observes | Touch::MayMutate)
            })
            .map(|(resource, _)| resource.name.clone())
            .collect();
        let mut next = 0;
        if step.prompts() {
            join_executors(graph, at, &executors, &mut touched, &mut prompted);
        }
        while let Some(name) = prompted.get(next).cloned() {
            next += 1;
            let before = |other: &StepIx| graph.is_ancestor(*other, at);
            // Who may be asked by who is asked is asked too. The last list of an agent's peers counts.
            let peers = peerings
                .iter()
                .rev()
                .find(|(other, source, _)| *source == name && before(other));
            let is_asked = peers.is_some_and(|_| step.prompts());
            for peer in peers.iter().flat_map(|(_, _, peers)| peers) {
                if is_asked && !prompted.contains(peer) {
                    prompted.push(peer.clone());
                    touched.push((ResourceId::agent(peer), Touch::MayMutate));
                }
            }
            let maker = agents
                .iter()
                .rev()
                .find(|maker| maker.agent_name == name && before(&maker.at));
            let Some(maker) = maker else {
                continue;
            };
            let agent = ResourceId::agent(&name);
            let own = touched.iter_mut().find(|(other, _)| *other == agent);
            let is_idle = step.prompts() && !maker.uses_sandbox;
            if let Some((_, touch)) = own.filter(|_| is_idle || maker.sandbox_name.is_some()) {
                // What it does there is done in the sandbox that it works in.
                let there = std::mem::replace(touch, Touch::Observes);
                let sandbox = maker.sandbox_name.as_deref().filter(|_| !is_idle);
                if let Some(sandbox) = sandbox.map(ResourceId::sandbox) {
                    match touched.iter_mut().find(|(other, _)| *other == sandbox) {
                        Some((_, touch)) if *touch == Touch::Observes => *touch = there,
                        Some(_) => {}
                        None => touched.push((sandbox, there)),
                    }
                }
            }
            if !step.prompts() {
                continue;
            }
            for env_id in &maker.env_ids {
                let env = ResourceId::env(env_id);
                match touched.iter_mut().find(|(resource, _)| *resource == env) {
                    // What only looks at the env itself has an agent work on it.
                    Some((_, touch)) if *touch == Touch::Observes => *touch = Touch::Mutates,
                    Some(_) => {}
                    None => touched.push((env, Touch::Mutates)),
                }
            }
            join_executors(graph, at, &executors, &mut touched, &mut prompted);
        }
        all.push(touched);
    }
    Arc::new(all)
}
