//! Live things that outlast a run, and serve in the next one of the same session.
//!
//! A thing serves again where its task deploys the same thing under the same name. What state it is in is found out anew,
//! so a step that needs that very state finds it there; any other state is reached as it is without a warm thing.

use std::sync::Arc;

use super::live::{Provisioner, Slot};
use super::live_env::EnvSlot;
use crate::context::Place;
use crate::digest::Digest;
use crate::resource::{ResourceId, ResourceKind};
use crate::schedule::{Need, TaskPlan};
use crate::system::locked;

/// The most live things that wait for a task that a run does not look at.
const MAX_PARKED: usize = 16;

/// A task of a run: as it is shown, and its plan.
pub type RunningTask = (String, Arc<TaskPlan>);

/// A live thing that waits for a run.
pub(super) struct Parked {
    task: String,
    resource: ResourceId,
    made: Digest,
    thing: Thing,
}

enum Thing {
    Sandbox(Slot),
    Env(EnvSlot),
}

impl Provisioner {
    /// Begins a run with these tasks, each at its index: what earlier runs left up and they deploy too is theirs. Everything
    /// else that nobody can use any more is ended.
    pub async fn begin(&self, run: &str, tasks: Vec<RunningTask>) {
        *locked(&self.current) = run.to_owned();
        let before = std::mem::replace(&mut *locked(&self.tasks), tasks.clone());
        self.end_agents(None).await;
        locked(&self.remembering).clear();
        locked(&self.lessons).clear();
        let mut waiting = std::mem::take(&mut *locked(&self.parked));
        let mut over = Vec::new();
        let sandboxes = locked(&self.slots).drain().collect::<Vec<_>>();
        let envs = locked(&self.envs).drain().collect::<Vec<_>>();
        let sandboxes = sandboxes
            .into_iter()
            .map(|(key, slot)| (key, Thing::Sandbox(slot)));
        let envs = envs.into_iter().map(|(key, slot)| (key, Thing::Env(slot)));
        for ((at, resource), thing) in sandboxes.chain(envs) {
            let task = before.get(at);
            // The sandbox of an agent belongs to what the agent remembers, which ends with the run.
            let task = task.filter(|_| resource.kind != ResourceKind::Agent);
            match task.and_then(|(task, plan)| Some((task, creation(plan, &resource)?))) {
                Some((task, made)) => waiting.push(Parked {
                    task: task.clone(),
                    resource,
                    made,
                    thing,
                }),
                None => over.push(thing),
            }
        }
        let mut claimed = Vec::new();
        for one in waiting {
            let Some(at) = tasks.iter().position(|(task, _)| *task == one.task) else {
                locked(&self.parked).push(one);
                continue;
            };
            let is_same = creation(&tasks[at].1, &one.resource) == Some(one.made);
            let key = (at, one.resource.clone());
            match one.thing {
                thing if !is_same => over.push(thing),
                Thing::Sandbox(slot) if has_processes(&slot).await => {
                    // A step that finds them would find something else than after a restore.
                    over.push(Thing::Sandbox(slot));
                }
                Thing::Sandbox(slot) => {
                    locked(&self.slots).insert(key.clone(), slot);
                    claimed.push(key);
                }
                Thing::Env(slot) => {
                    locked(&self.envs).insert(key.clone(), slot);
                    claimed.push(key);
                }
            }
        }
        {
            let mut parked = locked(&self.parked);
            let n = parked.len().saturating_sub(MAX_PARKED);
            over.extend(parked.drain(..n).map(|one| one.thing));
        }
        for thing in over {
            end(thing).await;
        }
        for (at, resource) in claimed {
            // What the last run was told of its state may be older than the state.
            self.settle(at, &resource).await;
        }
    }

    /// Returns whether a live thing is at the version that a step needs.
    pub(super) async fn is_at(&self, task: usize, need: &Need) -> bool {
        let key = (task, need.resource.clone());
        match need.resource.kind {
            ResourceKind::Env => {
                let slot = locked(&self.envs).get(&key).cloned();
                let Some(slot) = slot else { return false };
                let slot = slot.lock().await;
                slot.as_ref().is_some_and(|live| {
                    live.version == need.version && live.gate.broken().is_none()
                })
            }
            ResourceKind::Sandbox | ResourceKind::Agent => {
                let slot = locked(&self.slots).get(&key).cloned();
                let Some(slot) = slot else { return false };
                let slot = slot.lock().await;
                slot.as_ref()
                    .is_some_and(|live| live.version == need.version)
            }
        }
    }

    /// Ends what waits for a run.
    pub(super) async fn end_parked(&self) {
        let parked = std::mem::take(&mut *locked(&self.parked));
        for one in parked {
            end(one.thing).await;
        }
    }
}

/// Returns whether something still runs in a sandbox that no step uses.
async fn has_processes(slot: &Slot) -> bool {
    let slot = slot.lock().await;
    slot.as_ref().is_some_and(|live| live.sandbox.is_busy())
}

async fn end(thing: Thing) {
    match thing {
        Thing::Sandbox(slot) => {
            if let Some(live) = slot.lock().await.take() {
                // Its folder goes with the run's own at the latest.
                let _ = live.sandbox.destroy().await;
            }
        }
        Thing::Env(slot) => {
            if let Some(live) = slot.lock().await.take() {
                live.gate.stop().await;
            }
        }
    }
}

/// Returns the digest of what a task deploys under a name; `None` where that is not one thing.
fn creation(plan: &TaskPlan, resource: &ResourceId) -> Option<Digest> {
    let name = resource.name.clone();
    let place = match resource.kind {
        ResourceKind::Env => Place::Env(name),
        ResourceKind::Agent => Place::Agent(name),
        ResourceKind::Sandbox => Place::Sandbox(name),
    };
    let live = plan.steps.iter().filter_map(|step| step.live.as_ref());
    let mut made = live
        .flat_map(|output| &output.entries)
        .filter(|entry| entry.place == place);
    let digest = made.next()?.digest;
    made.next().is_none().then_some(digest)
}
