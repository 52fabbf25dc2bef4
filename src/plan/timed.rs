//! What triggers and virtual clocks mean for a plan: who may act while a step runs, and whose result hangs on time.

use std::sync::Arc;

use super::db::Db;
use super::inputs::{SettingInput, TaskInput};
use super::queries::{built, graph, task};
use crate::graph::{StepGraph, StepIx};
use crate::resource::{ResourceId, ResourceKind, Touch};
use crate::task::StepDecl;
use crate::task::deploy::{ClockMode, EnvSpec};

/// Adds the agents to which triggers of the touched envs give instructions: what a prompt does may set one off.
pub(super) fn join_executors(
    graph: &StepGraph,
    at: StepIx,
    executors: &[(StepIx, String, Vec<String>)],
    touched: &mut Vec<(ResourceId, Touch)>,
    prompted: &mut Vec<String>,
) {
    for (_, env_id, agents) in executors
        .iter()
        .filter(|(other, ..)| graph.is_ancestor(*other, at))
    {
        let env = ResourceId::env(env_id);
        if !touched.iter().any(|(resource, _)| *resource == env) {
            continue;
        }
        for agent in agents
            .iter()
            .filter(|agent| !prompted.contains(agent))
            .collect::<Vec<_>>()
        {
            prompted.push(agent.clone());
            touched.push((ResourceId::agent(agent), Touch::MayMutate));
        }
    }
}

/// Returns the steps that have time go on in an env by itself, each with the env.
#[salsa::tracked(returns(ref))]
fn clocks(db: &dyn Db, input: TaskInput, setting: SettingInput) -> Arc<Vec<(StepIx, String)>> {
    let folder = input.folder(db).folder(db);
    let envs = &setting.setting(db).config.envs;
    let steps = graph(db, input, setting).steps();
    let runs = |at: StepIx| {
        let (env_id, rate) = built(db, input, setting, at.0)
            .step
            .as_ref()?
            .sets_clock()?;
        let spec = EnvSpec::of(&env_id, folder, envs).ok()?;
        (rate > 0.0 && spec.clock == ClockMode::Real).then_some((at, env_id))
    };
    Arc::new(steps.filter_map(runs).collect())
}

/// Returns whether time may go on by itself in an env while a step works on it.
pub(super) fn is_timed(
    db: &dyn Db,
    input: TaskInput,
    setting: SettingInput,
    step: &StepDecl,
    touched: &[(ResourceId, Touch)],
) -> bool {
    let changes_env = |(resource, touch): &&(ResourceId, Touch)| {
        resource.kind == ResourceKind::Env && *touch == Touch::Mutates
    };
    let changed: Vec<&str> = touched
        .iter()
        .filter(changes_env)
        .map(|(resource, _)| resource.name.as_str())
        .collect();
    if changed.is_empty() || clocks(db, input, setting).is_empty() {
        return false;
    }
    let steps = &task(db, input, setting).steps;
    let Some(at) = steps.iter().position(|other| other.id == step.id) else {
        return false;
    };
    let graph = graph(db, input, setting);
    clocks(db, input, setting).iter().any(|(other, env_id)| {
        graph.is_ancestor(*other, StepIx(at as u32)) && changed.contains(&env_id.as_str())
    })
}
