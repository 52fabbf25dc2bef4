//! Decides what must happen next in a task of a run.
//!
//! The scheduler is told what happened ([`Input`]) and answers with what to do ([`Command`]). It does not know tokio,
//! the cache or the clock, so every rule of retries, groups and resources can be tested as a table.

mod demand;
mod groups;
mod keep;
mod outdated;
mod phase;
mod pool;
mod resources;
mod retry;
mod state;
mod undo;
mod world;

pub use demand::{Forecast, Forecasted, forecast};
pub use phase::{Done, Phase, TaskEnd};
pub use pool::{Lane, Pool};
pub use state::Scheduler;

use std::sync::Arc;

use crate::context::{Entry, Output, Place};
use crate::digest::{Digest, Digester};
use crate::event::StepEvent;
use crate::graph::{Group, StepGraph, StepIx};
use crate::rebuild::{DirtyReason, Key, Read, Trace};
use crate::resource::{Provision, ResourceId, Touch, Version};
use crate::step::{Content, Determinism, StepError};
use crate::task::deploy::{AgentSpec, EnvSpec};
use crate::task::{OnError, StepId};

/// A task made ready to run: plain data, between the planner and the engine.
#[derive(Clone, Debug)]
pub struct TaskPlan {
    /// The task's name.
    pub name: String,
    /// Who waits for whom.
    pub graph: StepGraph,
    /// The steps in list order.
    pub steps: Vec<PlannedStep>,
    /// The steps that are cached and rerun as one.
    pub groups: Vec<Group>,
    /// What the context starts with.
    pub initial: Vec<Entry>,
}

/// A step made ready to run.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    /// The step's id.
    pub id: StepId,
    /// The step's type.
    pub kind: &'static str,
    /// The step's key.
    pub key: Key,
    /// Whether the same inputs give the same result.
    pub determinism: Determinism,
    /// What it does to which resource.
    pub touches: Vec<(ResourceId, Touch)>,
    /// Whether it prompts the agents that it touches.
    pub prompts: bool,
    /// What it does with its slot.
    pub lane: Lane,
    /// The output of a step that only provides a live thing.
    pub live: Option<Arc<Output>>,
    /// What the live thing is made of.
    pub made_of: MadeOf,
    /// What a failure means.
    pub on_error: OnError,
    /// Where to go back to when it fails.
    pub retry: Option<Retry>,
    /// The traces kept under its fingerprint, the one that counts first.
    pub candidates: Vec<Arc<Trace>>,
    /// The newest trace of the step of this name.
    pub previous: Option<Arc<Trace>>,
    /// Why it must run whatever is kept.
    pub forced: Option<DirtyReason>,
    /// What part the command line gives it.
    pub part: StepPart,
}

/// What a live thing is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum MadeOf {
    /// The step makes nothing live.
    #[default]
    Nothing,
    /// A sandbox whose commands get these variables.
    Sandbox(Vec<(String, String)>),
    /// An env.
    Env(Arc<EnvParts>),
    /// An agent.
    Agent(Arc<AgentParts>),
}

/// What an agent is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentParts {
    /// What it is and how it is run.
    pub spec: AgentSpec,
    /// The envs that it is connected to.
    pub env_ids: Vec<String>,
    /// The sandbox that it works in, where it has none of its own.
    pub sandbox_name: Option<String>,
    /// The files of its folder.
    pub content: Option<Arc<Content>>,
    /// The variables that its deploy step gives it.
    pub variables: Vec<(String, String)>,
    /// The variables of this machine that it sees.
    pub passed: Vec<(String, String)>,
}

/// What an env is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvParts {
    /// What it is and how it is run.
    pub spec: EnvSpec,
    /// The files of its folder.
    pub content: Option<Arc<Content>>,
    /// The variables of this machine that it sees.
    pub passed: Vec<(String, String)>,
}

/// What part the command line gives a step in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StepPart {
    /// It hits or runs.
    #[default]
    Free,
    /// It must hit; the task fails where it would run.
    CachedOnly,
    /// It is left out.
    LeftOut,
}

/// A step's retry rule, by position.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Retry {
    /// The first step of the span.
    pub from: StepIx,
    /// How many times the span may run again.
    pub max_retries: u32,
    /// How long to wait before the first retry, milliseconds.
    pub backoff_ms: u64,
    /// By how much the wait grows with each retry.
    pub backoff_factor: f64,
    /// The longest wait, milliseconds.
    pub max_backoff_ms: u64,
}

impl TaskPlan {
    /// Returns for each step how many attempts it may have.
    pub fn attempts(&self) -> Vec<u32> {
        let mut attempts = vec![1; self.steps.len()];
        for step in &self.steps {
            let Some(retry) = step.retry else { continue };
            for inside in self.graph.span(retry.from) {
                let most = &mut attempts[inside.at()];
                *most = (*most).max(retry.max_retries.saturating_add(1));
            }
        }
        attempts
    }

    /// Returns the step that deploys what a step finds under this place, the last one among those that it waits for.
    pub fn maker_of(&self, step: StepIx, place: &Place) -> Option<StepIx> {
        let makes = |other: &StepIx| {
            let live = self.steps[other.at()].live.iter();
            let mut entries = live.flat_map(|output| &output.entries);
            entries.any(|entry| entry.place == *place) && self.graph.is_ancestor(*other, step)
        };
        (0..step.0).rev().map(StepIx).find(makes)
    }

    /// Returns the group of a step on a resource.
    pub fn group_of(&self, step: StepIx, resource: &ResourceId) -> Option<&Group> {
        self.groups
            .iter()
            .find(|group| group.resource == *resource && group.members.binary_search(&step).is_ok())
    }

    /// Returns the digest of what makes a group the same: the keys of its members in list order.
    pub fn group_digest(&self, group: &Group) -> Digest {
        let mut digester = Digester::new("group");
        for member in &group.members {
            digester.digest(&self.steps[member.at()].key.fingerprint);
        }
        digester.finish()
    }

    /// Returns how a step touches a resource.
    pub fn touch(&self, step: StepIx, resource: &ResourceId) -> Option<Touch> {
        let touches = &self.steps[step.at()].touches;
        touches
            .iter()
            .find(|(other, _)| other == resource)
            .map(|(_, touch)| *touch)
    }

    /// Returns the position of the step with this id.
    pub fn position(&self, id: &str) -> Option<StepIx> {
        self.steps
            .iter()
            .position(|step| step.id.as_str() == id)
            .map(|at| StepIx(at as u32))
    }
}

/// Which snapshots the store can load.
pub trait Snapshots {
    /// Returns whether a live thing can be brought to this version without running a step.
    fn can_restore(&self, version: &Version) -> bool;
}

/// A resource and the version that a step needs it at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// The resource.
    pub resource: ResourceId,
    /// The version.
    pub version: Version,
    /// How it gets there.
    pub how: Provision,
    /// Why no cheaper way is possible, where one would be.
    pub why: Option<&'static str>,
}

/// How a run of a step ended.
#[derive(Clone, Debug)]
pub enum Ended {
    /// It gave an output; these are the look-ups that it made.
    Output(Output, Vec<Read>),
    /// It failed.
    Failed(StepError),
    /// It was stopped, or never started because it was called back.
    Aborted,
    /// A resource could not be brought to the version that it needs.
    Lost(ResourceId),
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The run begins.
    Begin,
    /// A step got a slot and starts.
    Started(StepIx),
    /// A step ended.
    Ended {
        /// The step.
        step: StepIx,
        /// How.
        ended: Ended,
        /// When it started, microseconds since 1970.
        started_us: i64,
        /// How long it took, microseconds.
        took_us: u64,
    },
    /// The state of a resource was taken.
    Settled {
        /// The resource.
        resource: ResourceId,
        /// Its version now.
        version: Version,
        /// Whether it is another state than before the window.
        changed: bool,
    },
    /// A wait before a retry is over.
    Woke(StepIx),
    /// These steps are not what the author wants any more.
    Outdated(Vec<StepIx>),
    /// The user wants to stop.
    Cancel,
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Run a step when there is a slot.
    Run {
        /// The step.
        step: StepIx,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// What it needs, and how that gets there.
        needs: Vec<Need>,
    },
    /// Call a step back: stop it where it runs, forget it where it waits for a slot; either way it ends as aborted.
    Abort(StepIx),
    /// Take the state of a resource, and answer with [`Input::Settled`].
    Settle(ResourceId),
    /// Keep a result.
    Store {
        /// The step.
        step: StepIx,
        /// The result, effects included.
        output: Arc<Output>,
        /// What it depended on.
        reads: Vec<Read>,
        /// Whether it takes the place of a result that is kept under the same reads.
        supersedes: bool,
        /// In which attempt it was made, from 1.
        attempt: u32,
    },
    /// End a live thing.
    Retire(ResourceId),
    /// Answer with [`Input::Woke`] after a wait.
    Wake {
        /// The first step of the span.
        step: StepIx,
        /// How long, milliseconds.
        after_ms: u64,
    },
    /// Tell what happened to a step.
    Tell(StepIx, StepEvent),
    /// The task is over.
    Finish,
}
