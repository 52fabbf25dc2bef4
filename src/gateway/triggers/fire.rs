//! How triggers are set off and what they do then, one action after the other.

use super::entry::{Cause, Draw as _, Status};
use super::{After, Effect, Engine, Firing, Heard, Order, Stage, next_mark, watched};
use crate::json::{Map, Value, json};
use crate::task::moment::Moment;
use crate::task::triggers::{Action, Deed, Executor, Start, Watch, When};

/// The most moments that are made up for at once.
const BURST: usize = 1000;

/// The most that waits while a trigger is firing.
const MOST_QUEUED: usize = 10_000;

/// The longest chain of triggers that set each other off.
const MAX_DEPTH: u64 = 16;

impl Engine {
    pub(super) fn heard(
        &mut self,
        heard: Heard<'_>,
        now: Option<Moment>,
        effects: &mut Vec<Effect>,
    ) {
        if heard.is_error || heard.depth > MAX_DEPTH {
            return;
        }
        self.log.by(heard.step);
        let roles = watched(&self.config);
        let counts = |own: &Option<Vec<String>>| match own {
            Some(own) => own.iter().any(|role| role == heard.role),
            // What a trigger does sets none off, unless one says so.
            None => heard.depth == 0 && roles.iter().any(|role| role == heard.role),
        };
        let fits = |watch: &Watch| {
            watch.tool == heard.tool
                && counts(&watch.roles)
                && watch
                    .conditions
                    .iter()
                    .all(|condition| condition.holds(heard.scope))
        };
        // What calls off is looked at first: so the call from which a limit counts does not end it.
        for entry in &mut self.entries {
            if let When::Time(rule) = &entry.trigger.when
                && entry.status == Status::Armed
                && entry.mark.is_some()
                && rule.unless.as_ref().is_some_and(fits)
            {
                entry.status = Status::Cancelled;
                entry.mark = None;
                let id = entry.trigger.id.clone();
                self.log
                    .add("cancelled", &id, now, json!({"by": heard.tool}));
                effects.push(came(&id, Status::Cancelled));
            }
        }
        let mut set_off = Vec::new();
        for (ix, entry) in self.entries.iter().enumerate() {
            match &entry.trigger.when {
                When::Action(watch) if entry.is_live() && fits(watch) => set_off.push(ix),
                When::State { check, roles }
                    if entry.status == Status::Armed && heard.may_change && counts(roles) =>
                {
                    effects.push(Effect::Look {
                        trigger: entry.trigger.id.clone(),
                        check: check.clone(),
                        after: After {
                            depth: heard.depth,
                            step: heard.step.to_owned(),
                            call: heard.call,
                        },
                    });
                }
                _ => {}
            }
        }
        for ix in set_off {
            let cause = Cause {
                scope: heard.scope.clone(),
                depth: heard.depth,
                step: heard.step.to_owned(),
                call: heard.call,
            };
            self.detect(ix, cause, now, effects);
        }
    }

    pub(super) fn tick(&mut self, now: Option<Moment>, effects: &mut Vec<Effect>) {
        let (Some(now), Some(start)) = (now, self.start) else {
            return;
        };
        for _ in 0..BURST {
            let marks = self
                .entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.is_live());
            let marks = marks.filter_map(|(ix, entry)| Some((entry.mark?, ix)));
            let mark = marks.min().filter(|(mark, _)| *mark <= now);
            let due = (0..self.firings.len()).filter(|at| self.firings[*at].due().is_some());
            let due = due.min_by_key(|at| self.rank(*at));
            let due = due.and_then(|at| Some((self.firings[at].due()?, at)));
            let due = due.filter(|(due, _)| *due <= now);
            match (mark, due) {
                (None, None) => return,
                (Some((mark, ix)), due) if due.is_none_or(|(due, _)| mark < due) => {
                    self.entries[ix].pass_mark(start);
                    let cause = Cause {
                        scope: json!({"time": mark.to_string()}),
                        depth: 0,
                        step: String::new(),
                        call: 0,
                    };
                    self.detect(ix, cause, Some(now), effects);
                }
                (_, Some((_, at))) => {
                    self.by_cause_of(at);
                    self.act(at, Some(now), effects);
                }
                // A mark is taken by the arm above where nothing else is due.
                (Some(_), None) => return,
            }
        }
    }

    /// Sets a trigger off, or notes that it was set off again.
    fn detect(&mut self, ix: usize, cause: Cause, now: Option<Moment>, effects: &mut Vec<Effect>) {
        self.log.by(&cause.step);
        let entry = &mut self.entries[ix];
        if entry.status != Status::Armed {
            let repeats = match &entry.trigger.when {
                When::Action(watch) => watch.repeats,
                When::State { .. } => false,
                When::Time(_) => true,
            };
            if repeats && entry.queue.len() < MOST_QUEUED {
                entry.queue.push_back(cause);
                entry.status = Status::Queued;
            } else if repeats {
                let more = json!({"error": "too much waits already"});
                self.log.add("eval_error", &entry.trigger.id, now, more);
            }
            return;
        }
        entry.status = match entry.queue.is_empty() {
            true => Status::Firing,
            false => Status::Queued,
        };
        entry.detected_at = now;
        let number = entry.detections;
        entry.detections += 1;
        let trigger = entry.trigger.id.clone();
        self.log.add("detected", &trigger, now, json!({}));
        let id = self.next_firing;
        self.next_firing += 1;
        self.firings.push(Firing {
            id,
            trigger,
            cause,
            number,
            action: 0,
            stage: Stage::Acts,
        });
        self.begin(self.firings.len() - 1, now, effects);
    }

    /// Has what is logged next be by the step that set a firing off.
    fn by_cause_of(&mut self, at: usize) {
        let step = &self.firings[at].cause.step;
        self.log.by(step);
    }

    fn firing(&self, id: u64) -> Option<usize> {
        self.firings.iter().position(|firing| firing.id == id)
    }

    fn entry_of(&self, trigger: &str) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| entry.trigger.id == trigger)
    }

    /// Returns the action at which a firing is; `None` where all are done.
    fn action(&self, at: usize) -> Option<&Action> {
        let firing = &self.firings[at];
        let entry = &self.entries[self.entry_of(&firing.trigger)?];
        entry.trigger.actions.get(firing.action)
    }

    /// Begins the action at which a firing is.
    fn begin(&mut self, at: usize, now: Option<Moment>, effects: &mut Vec<Effect>) {
        let Some(action) = self.action(at) else {
            return self.end(at, true, now, effects);
        };
        let Some(delay) = action.delay else {
            return self.act(at, now, effects);
        };
        let firing = &mut self.firings[at];
        let us = delay.drawn(firing.number);
        let ix = firing.action;
        firing.stage = match now {
            Some(now) => Stage::Due(now.after(us)),
            None => Stage::Waits(us),
        };
        let until = firing.due().map(|due| due.to_string());
        self.log.add(
            "delayed",
            &self.firings[at].trigger.clone(),
            now,
            json!({"action": ix, "until": until}),
        );
    }

    /// Does the action at which a firing is, unless who is to do it does not work now.
    fn act(&mut self, at: usize, now: Option<Moment>, effects: &mut Vec<Effect>) {
        let Some(action) = self.action(at) else {
            return self.end(at, true, now, effects);
        };
        let executor = self.executor_of(action);
        if let (Some(now), Some(hours)) =
            (now, executor.and_then(|executor| executor.hours.as_ref()))
        {
            let open = hours.open(now);
            if open > now {
                let firing = &mut self.firings[at];
                firing.stage = Stage::Due(open);
                let (trigger, ix) = (firing.trigger.clone(), firing.action);
                let more = json!({"action": ix, "until": open.to_string()});
                return self.log.add("deferred", &trigger, Some(now), more);
            }
        }
        let order = self.order(at, action, false);
        self.firings[at].stage = Stage::Acts;
        self.give(at, order, now, effects);
    }

    fn give(
        &mut self,
        at: usize,
        order: Result<Order, String>,
        now: Option<Moment>,
        effects: &mut Vec<Effect>,
    ) {
        let firing = &self.firings[at];
        match order {
            Ok(order) => effects.push(Effect::Act {
                firing: firing.id,
                trigger: firing.trigger.clone(),
                depth: firing.cause.depth + 1,
                order,
            }),
            Err(why) => self.acted(firing.id, Err(why), now, effects),
        }
    }

    fn executor_of(&self, action: &Action) -> Option<&Executor> {
        match &action.deed {
            Deed::Instruct { executor, .. } => self.config.executor(executor.as_deref()),
            _ => None,
        }
    }

    fn order(&self, at: usize, action: &Action, again: bool) -> Result<Order, String> {
        Ok(match &action.deed {
            Deed::Instruct { instruction, .. } => {
                let executor = self.executor_of(action);
                let executor = executor.ok_or("there is no executor that follows instructions")?;
                let text = match again {
                    false => instruction.clone(),
                    true => format!(
                        "What was asked is not done yet: the state of the env does not show it. It was: {instruction}"
                    ),
                };
                Order::Instruct {
                    agent: executor.agent.clone(),
                    text,
                    limit_seconds: executor.timeout_seconds,
                }
            }
            Deed::Call {
                tool,
                arguments,
                role,
            } => Order::Call {
                tool: tool.clone(),
                arguments: arguments.fill(&self.firings[at].cause.scope)?,
                role: role.clone(),
            },
            Deed::Permit {
                enabled,
                role,
                tools,
            } => Order::Permit {
                enabled: *enabled,
                role: role.clone(),
                tools: tools.clone(),
            },
        })
    }

    pub(super) fn looked(
        &mut self,
        trigger: &str,
        after: After,
        outcome: Result<Option<Map<String, Value>>, String>,
        now: Option<Moment>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ix) = self.entry_of(trigger) else {
            return;
        };
        self.log.by(&after.step);
        match outcome {
            Ok(Some(bound)) if self.entries[ix].status == Status::Armed => {
                let cause = Cause {
                    scope: Value::Object(bound),
                    depth: after.depth,
                    step: after.step,
                    call: after.call,
                };
                self.detect(ix, cause, now, effects);
            }
            Ok(_) => {}
            Err(why) => self
                .log
                .add("eval_error", trigger, now, json!({"error": why})),
        }
    }

    pub(super) fn acted(
        &mut self,
        firing: u64,
        outcome: Result<(), String>,
        now: Option<Moment>,
        effects: &mut Vec<Effect>,
    ) {
        // What was removed meanwhile is not missed.
        let Some(at) = self.firing(firing) else {
            return;
        };
        self.by_cause_of(at);
        let (trigger, ix) = (self.firings[at].trigger.clone(), self.firings[at].action);
        if let Err(why) = outcome {
            self.log.add(
                "action_failed",
                &trigger,
                now,
                json!({"action": ix, "error": why}),
            );
            return self.end(at, false, now, effects);
        }
        self.log
            .add("action_ok", &trigger, now, json!({"action": ix}));
        let verify = self.action(at).and_then(|action| action.verify.clone());
        let Some(check) = verify else {
            self.firings[at].action += 1;
            return self.begin(at, now, effects);
        };
        let firing = &mut self.firings[at];
        firing.stage = match firing.stage {
            Stage::ActsAgain => Stage::VerifiesAgain,
            _ => Stage::Verifies,
        };
        effects.push(Effect::Verify {
            firing: firing.id,
            check,
            scope: firing.cause.scope.clone(),
        });
    }

    pub(super) fn verified(
        &mut self,
        firing: u64,
        outcome: Result<bool, String>,
        now: Option<Moment>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(at) = self.firing(firing) else {
            return;
        };
        self.by_cause_of(at);
        let (trigger, ix) = (self.firings[at].trigger.clone(), self.firings[at].action);
        if outcome == Ok(true) {
            self.log
                .add("verify_ok", &trigger, now, json!({"action": ix}));
            self.firings[at].action += 1;
            return self.begin(at, now, effects);
        }
        let more = match outcome {
            Err(why) => json!({"action": ix, "error": why}),
            Ok(_) => json!({"action": ix}),
        };
        self.log.add("verify_failed", &trigger, now, more);
        let Some(action) = self.action(at) else {
            return self.end(at, false, now, effects);
        };
        // Who was told in words may have misunderstood; anything else would do the same again.
        let is_first = self.firings[at].stage == Stage::Verifies;
        if !(is_first && matches!(action.deed, Deed::Instruct { .. })) {
            return self.end(at, false, now, effects);
        }
        let order = self.order(at, action, true);
        self.firings[at].stage = Stage::ActsAgain;
        self.give(at, order, now, effects);
    }

    /// Ends a firing, and lets what waits for it go on.
    fn end(&mut self, at: usize, is_ok: bool, now: Option<Moment>, effects: &mut Vec<Effect>) {
        let firing = self.firings.remove(at);
        let id = firing.trigger;
        let Some(ix) = self.entry_of(&id) else {
            return;
        };
        let entry = &mut self.entries[ix];
        let is_time = matches!(entry.trigger.when, When::Time(_));
        let (kind, status) = match is_ok {
            true => {
                entry.fire_count += 1;
                entry.fired_at = now;
                let is_over = match &entry.trigger.when {
                    When::Action(watch) => !watch.repeats,
                    When::State { .. } => true,
                    When::Time(_) => entry.mark.is_none() && entry.queue.is_empty(),
                };
                let status = if is_over {
                    Status::Fired
                } else {
                    Status::Armed
                };
                ("fired", status)
            }
            false => {
                entry.failure_count += 1;
                entry.last_failure_at = now;
                let status = if is_time {
                    Status::Failed
                } else {
                    Status::Armed
                };
                ("failed", status)
            }
        };
        entry.status = status;
        if status == Status::Failed {
            entry.mark = None;
            entry.queue.clear();
        }
        self.log.add(kind, &id, now, json!({}));
        effects.push(came(
            &id,
            if is_ok { Status::Fired } else { Status::Failed },
        ));
        if is_ok {
            self.anchor_dependents(&id, now);
        }
        self.ready.push_back(id);
    }

    /// Sets off again what waits in queues.
    pub(super) fn go_on(&mut self, now: Option<Moment>, effects: &mut Vec<Effect>) {
        while let Some(id) = self.ready.pop_front() {
            if let Some(ix) = self.entry_of(&id)
                && self.entries[ix].status == Status::Armed
                && let Some(cause) = self.entries[ix].queue.pop_front()
            {
                self.detect(ix, cause, now, effects);
            }
        }
    }

    fn anchor_dependents(&mut self, id: &str, now: Option<Moment>) {
        for entry in &mut self.entries {
            let When::Time(rule) = &entry.trigger.when else {
                continue;
            };
            let waits = matches!(&rule.start, Start::After { trigger, .. } if trigger == id);
            if waits && entry.status == Status::Armed && entry.mark.is_none() && entry.marks == 0 {
                entry.anchor_after(now, self.start);
                self.log
                    .add("anchored", &entry.trigger.id, now, next_mark(entry));
            }
        }
    }
}

fn came(trigger: &str, status: Status) -> Effect {
    Effect::Came {
        trigger: trigger.to_owned(),
        status,
    }
}
