//! What an agent was asked to do: the tasks that go on, and the last of those that are over.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::AbortHandle;

use crate::json::{Value, json};
use crate::step::a2a::plain_parts;
use crate::step::a2a::{Content, Message, Part, Role, State, Task, read_parts};
use crate::step::agent::{AgentDoor, AgentError, Reply};
use crate::system::locked;

/// The most tasks that are known at once.
const MAX_TASKS: usize = 1000;

/// The tasks of one agent.
#[derive(Default)]
pub(super) struct Tasks {
    /// Oldest first.
    all: Mutex<VecDeque<Arc<Entry>>>,
    turns: Turns,
}

/// By conversation, whose turn it is; only those that go on.
type Turns = Arc<Mutex<HashMap<String, Arc<AsyncMutex<()>>>>>;

/// A task.
pub(super) struct Entry {
    now: watch::Sender<Task>,
    work: Mutex<Option<AbortHandle>>,
}

impl Entry {
    /// Returns the task as it stands.
    pub(super) fn task(&self) -> Task {
        self.now.borrow().clone()
    }

    /// Hears of each change.
    pub(super) fn subscribe(&self) -> watch::Receiver<Task> {
        self.now.subscribe()
    }

    /// Waits until the task is over.
    pub(super) async fn over(&self) {
        let mut now = self.now.subscribe();
        // The sender is here, so there is no error.
        let _ = now.wait_for(|task| task.state.is_over()).await;
    }

    /// Ends the task, unless it is over.
    fn end(&self, state: State, parts: Vec<Part>) -> bool {
        self.now.send_if_modified(|task| {
            if task.state.is_over() {
                return false;
            }
            task.state = state;
            task.message = Some(Message {
                id: format!("{}-reply", task.id),
                role: Role::Agent,
                parts,
                context_id: task.context_id.clone(),
                task_id: Some(task.id.clone()),
            });
            true
        })
    }

    /// Gives the task up; `false` where it is over.
    pub(super) fn cancel(&self) -> bool {
        let canceled = self.end(State::Canceled, vec![Part::text("canceled")]);
        if let Some(work) = locked(&self.work).take() {
            work.abort();
        }
        canceled
    }
}

/// The work on a task. Where it breaks off the task is over, and in any case it is the turn of the next.
struct Work {
    entry: Arc<Entry>,
    context_id: String,
    turn: Arc<AsyncMutex<()>>,
    turns: Turns,
}

impl Drop for Work {
    fn drop(&mut self) {
        let why = Part::text("the agent broke off");
        self.entry.end(State::Failed, vec![why]);
        let mut turns = locked(&self.turns);
        // It is held here and in the table.
        if Arc::strong_count(&self.turn) <= 2 {
            turns.remove(&self.context_id);
        }
    }
}

impl Tasks {
    /// Returns the task of an id.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        let all = locked(&self.all);
        all.iter()
            .find(|entry| entry.now.borrow().id == id)
            .cloned()
    }

    /// Has the agent take a message; the error says why it cannot.
    pub(super) fn start(
        &self,
        door: Arc<dyn AgentDoor>,
        message: Message,
    ) -> Result<Arc<Entry>, String> {
        let (id, fresh) = (fresh_id()?, fresh_id()?);
        let context_id = message.context_id.clone().unwrap_or(fresh);
        let parts = plain_parts(&message.parts);
        let task = Task {
            id: id.clone(),
            context_id: Some(context_id.clone()),
            state: State::Working,
            message: None,
            artifacts: Vec::new(),
            history: vec![Message {
                context_id: Some(context_id.clone()),
                task_id: Some(id),
                ..message
            }],
        };
        let entry = Arc::new(Entry {
            now: watch::Sender::new(task),
            work: Mutex::default(),
        });
        self.add(entry.clone())?;
        let turn = locked(&self.turns)
            .entry(context_id.clone())
            .or_default()
            .clone();
        let work = Work {
            entry: entry.clone(),
            context_id,
            turn,
            turns: self.turns.clone(),
        };
        let work = tokio::spawn(async move {
            let _turn = work.turn.lock().await;
            let (state, parts) = said(door.ask(&work.context_id, parts).await);
            work.entry.end(state, parts);
        });
        *locked(&entry.work) = Some(work.abort_handle());
        Ok(entry)
    }

    /// Adds a task in the place of the oldest that is over.
    fn add(&self, entry: Arc<Entry>) -> Result<(), String> {
        let mut all = locked(&self.all);
        if all.len() >= MAX_TASKS {
            let over = all
                .iter()
                .position(|entry| entry.now.borrow().state.is_over());
            let over = over.ok_or_else(|| {
                format!("the agent works on {MAX_TASKS} tasks, and takes no more")
            })?;
            all.remove(over);
        }
        all.push_back(entry);
        Ok(())
    }

    /// Gives all tasks up.
    pub(super) fn close(&self) {
        for entry in locked(&self.all).drain(..) {
            entry.cancel();
        }
    }
}

/// Returns an id that nobody has had.
fn fresh_id() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| format!("this machine gives no random numbers: {error}"))?;
    Ok(format!("{:032x}", u128::from_le_bytes(random)))
}

/// Returns how a task ends by an answer, and what the agent says.
fn said(answer: Result<Reply, AgentError>) -> (State, Vec<Part>) {
    let data = |data: Value| Part {
        content: Content::Data(data),
        metadata: None,
    };
    match answer {
        Ok(reply) => {
            let mut parts = read_parts(&reply.all_parts());
            let mut end = json!({});
            if reply.tool_calls > 0 {
                end["tool_call_count"] = json!(reply.tool_calls);
            }
            let usage = [
                ("input_tokens", reply.usage.input_tokens),
                ("output_tokens", reply.usage.output_tokens),
            ];
            for (key, tokens) in usage {
                if let Some(tokens) = tokens {
                    end["usage"][key] = json!(tokens);
                }
            }
            if let Some(structured) = &reply.structured {
                end["structured_output"] = structured.clone();
            }
            if end != json!({}) {
                parts.push(data(end));
            }
            (State::Completed, parts)
        }
        Err(error) => {
            let kind = match &error {
                AgentError::Failed { .. } => "agent_error",
                AgentError::TimedOut { .. } => "timeout",
                AgentError::Model { .. } => "model_error",
                AgentError::Unreachable { .. } => "unreachable_error",
                AgentError::Env(_) => "env_error",
            };
            let message = error.to_string();
            let end = json!({"error_type": kind, "error_message": message});
            (State::Failed, vec![Part::text(&message), data(end)])
        }
    }
}
