//! Triggers of a conversation: what an agent that plays the user says by itself, before anybody asks its model.

use std::collections::BTreeSet;

use super::Predicate;
use crate::json::{Value, json};

/// A trigger of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct TalkTrigger {
    /// Its id.
    pub id: String,
    /// Whether it fires once in a conversation.
    pub once: bool,
    /// When it fires.
    pub when: TalkWhen,
    /// What it does, in order.
    pub actions: Vec<TalkAction>,
}

/// When a trigger of a conversation fires.
#[derive(Clone, Debug, PartialEq)]
pub enum TalkWhen {
    /// In a turn, the first being 1.
    Step {
        /// The turn.
        turn: u64,
        /// Whether in each later one too.
        and_later: bool,
    },
    /// While a trigger of an env stands so.
    Env {
        /// The env.
        env_id: String,
        /// The trigger.
        trigger_id: String,
        /// How it stands.
        status: String,
    },
    /// When the agent's message is so.
    Said(Predicate),
    /// When all of these are so.
    All(Vec<TalkWhen>),
    /// When one of these is so.
    Any(Vec<TalkWhen>),
}

/// What a trigger of a conversation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TalkAction {
    /// The user says this.
    Say(String),
    /// The user ends the conversation.
    End,
}

/// What the triggers have a user do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What the user says.
    pub said: Vec<String>,
    /// Whether the conversation ends.
    pub ends: bool,
    /// The triggers that fired.
    pub fired: Vec<String>,
}

/// The triggers of one conversation, and which have fired.
#[derive(Debug)]
pub struct Talking {
    triggers: Vec<TalkTrigger>,
    fired: BTreeSet<String>,
}

impl Talking {
    /// Returns the triggers of a conversation that begins; of two with one id the first counts.
    pub fn new(mut triggers: Vec<TalkTrigger>) -> Self {
        let mut seen = BTreeSet::new();
        triggers.retain(|trigger| seen.insert(trigger.id.clone()));
        Talking {
            triggers,
            fired: BTreeSet::new(),
        }
    }

    /// Returns the envs of whose triggers some of these wait for.
    pub fn envs(&self) -> BTreeSet<&str> {
        let all = self.env_triggers().into_iter();
        all.map(|(env_id, _)| env_id).collect()
    }

    /// Returns the triggers of envs that some of these wait for, each with its env.
    pub fn env_triggers(&self) -> BTreeSet<(&str, &str)> {
        let mut all = BTreeSet::new();
        for trigger in &self.triggers {
            trigger.when.add_env_triggers(&mut all);
        }
        all
    }

    /// Returns what the user does after a message of the agent; `status` says how a trigger of an env stands.
    pub fn decide(
        &mut self,
        turn: u64,
        message: &str,
        status: &dyn Fn(&str, &str) -> Option<String>,
    ) -> Decision {
        let message = json!(message);
        let mut decision = Decision::default();
        for trigger in &self.triggers {
            let is_over = trigger.once && self.fired.contains(&trigger.id);
            if is_over || !trigger.when.holds(turn, &message, status) {
                continue;
            }
            decision.fired.push(trigger.id.clone());
            for action in &trigger.actions {
                match action {
                    TalkAction::Say(text) => decision.said.push(text.clone()),
                    TalkAction::End => decision.ends = true,
                }
            }
        }
        self.fired.extend(decision.fired.iter().cloned());
        decision
    }
}

impl TalkWhen {
    fn holds(
        &self,
        turn: u64,
        message: &Value,
        status: &dyn Fn(&str, &str) -> Option<String>,
    ) -> bool {
        let is_so = |when: &TalkWhen| when.holds(turn, message, status);
        match self {
            TalkWhen::Step {
                turn: wanted,
                and_later,
            } => turn == *wanted || *and_later && turn > *wanted,
            TalkWhen::Env {
                env_id,
                trigger_id,
                status: wanted,
            } => status(env_id, trigger_id).as_ref() == Some(wanted),
            TalkWhen::Said(predicate) => predicate.holds(&[message]),
            TalkWhen::All(all) => all.iter().all(is_so),
            TalkWhen::Any(any) => any.iter().any(is_so),
        }
    }

    /// Adds the triggers of envs that it waits for: the env and the trigger.
    pub fn add_env_triggers<'a>(&'a self, all: &mut BTreeSet<(&'a str, &'a str)>) {
        match self {
            TalkWhen::Env {
                env_id, trigger_id, ..
            } => {
                all.insert((env_id, trigger_id));
            }
            TalkWhen::All(of) | TalkWhen::Any(of) => {
                of.iter().for_each(|when| when.add_env_triggers(all));
            }
            TalkWhen::Step { .. } | TalkWhen::Said(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::triggers::read_talk_triggers;

    #[test]
    fn triggers_decide_what_a_user_says_by_itself() {
        let triggers = read_talk_triggers(&json!([
            {"id": "first", "when": {"type": "step"}, "actions": [{"type": "say", "text": "Hello?"}]},
            {"id": "again", "once": false, "when": {"type": "conversational", "where": {"message": {"regex": "(?i)sorry"}}},
             "actions": [{"type": "say", "text": "Never mind."}]},
            {"id": "shipped", "when": {"type": "all", "of": [
                {"type": "env_trigger", "env_id": "shop", "trigger_id": "ship"}, {"type": "step", "turn": 2, "cmp": "gte"}]},
             "actions": [{"type": "say", "text": "It came."}, {"type": "end"}]},
        ]));
        let mut talking = Talking::new(triggers.unwrap());
        assert_eq!(talking.envs().into_iter().collect::<Vec<_>>(), ["shop"]);
        let mut decide = |turn, message: &str, ship: &str| {
            let status = |env: &str, id: &str| {
                assert_eq!((env, id), ("shop", "ship"));
                Some(ship.to_owned())
            };
            let decision = talking.decide(turn, message, &status);
            let end = if decision.ends { " end" } else { "" };
            format!("{:?} {}{end}", decision.fired, decision.said.join("/"))
        };
        assert_eq!(
            decide(1, "Sorry!", "fired"),
            r#"["first", "again"] Hello?/Never mind."#
        );
        assert_eq!(decide(2, "So sorry.", "armed"), r#"["again"] Never mind."#);
        assert_eq!(decide(3, "Well.", "armed"), "[] ");
        assert_eq!(decide(4, "Well.", "fired"), r#"["shipped"] It came. end"#);
        assert_eq!(decide(5, "Well.", "fired"), "[] ");
    }
}
