//! A trajectory as a judge gets it: without what a filter leaves out, as JSON lines or as a log of actions.

mod images;
mod log;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields::pointer;
use crate::json::{Value, json};
use crate::step::Refusal;
use crate::steps::pattern::{self, Flags, Pattern};
use images::take_images;
use log::{SHOWN, answer, calls};

pub(super) use images::Frame;
pub(super) use log::cut;

/// What of a trajectory the judge sees.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    /// Whether the judge sees which tools were called, with what arguments.
    #[serde(default = "yes")]
    include_tool_calls: bool,
    /// Whether it sees what the tools answered.
    #[serde(default = "yes")]
    include_tool_call_results: bool,
    /// Whether it sees what the agent said.
    #[serde(default = "yes")]
    include_response: bool,
    /// Whether it sees what the agent thought.
    #[serde(default)]
    include_thinking: bool,
    /// Whether it sees screenshots.
    #[serde(default)]
    pub(super) compaction_type: Compaction,
    /// How many screenshots it sees, the last ones.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 50))]
    pub(super) screenshot_last_n: u64,
    /// Which screenshots it sees.
    #[serde(default)]
    pub(super) frame_strategy: FrameStrategy,
    /// How many screenshots it sees with `per_criterion`.
    #[serde(default = "ninety")]
    #[schemars(range(min = 6, max = 95))]
    pub(super) frame_budget: u64,
    /// How the trajectory is written.
    #[serde(default)]
    trajectory_text: TrajectoryText,
    /// A regular expression; a screenshot is left out where the action before it has a match.
    evidence_exclude_pattern: Option<String>,
    /// Regular expressions by label; an action with a match is always in the log, with the label.
    always_show_actions: Option<BTreeMap<String, String>>,
    /// How many lines the log of actions has at most.
    #[serde(default = "hundred_and_twenty")]
    #[schemars(range(min = 10))]
    action_log_max_lines: u64,
}

/// What becomes of the screenshots of a trajectory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Compaction {
    /// They are left out.
    #[default]
    Default,
    /// The judge sees some.
    Screenshot,
}

/// Which screenshots a judge sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FrameStrategy {
    /// The last ones.
    #[default]
    FinalFrames,
    /// As many as there is room for, from all of the work, so that each criterion finds its evidence.
    PerCriterion,
}

/// How a trajectory is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TrajectoryText {
    /// As JSON, one object a message or call.
    #[default]
    Full,
    /// As a list of what was done, one line each.
    ActionLog,
}

fn yes() -> bool {
    true
}

fn three() -> u64 {
    3
}

fn ninety() -> u64 {
    90
}

fn hundred_and_twenty() -> u64 {
    120
}

/// A filter, ready to be used.
#[derive(Debug)]
pub(super) struct Sieve {
    filter: Option<Filter>,
    excluded: Option<Pattern>,
    always: Vec<(String, Pattern)>,
}

/// A trajectory as the judge gets it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sifted {
    /// What is left of it, images replaced by their numbers.
    pub(super) moments: Vec<Value>,
    /// The same as text.
    pub(super) text: String,
    /// The screenshots that the judge sees.
    pub(super) frames: Vec<Frame>,
    /// How many screenshots there are.
    pub(super) all_frames: usize,
}

impl Sieve {
    /// Reads the patterns of a filter.
    pub(super) fn new(filter: &Option<Filter>, refusals: &mut Vec<Refusal>) -> Self {
        let mut read = |field: String, python: &str| {
            let read = Pattern::new(python, Flags::default());
            let refuse = |why: &String| pattern::refuse(field, python, why);
            read.inspect_err(|why| refusals.push(refuse(why))).ok()
        };
        let excluded = filter
            .as_ref()
            .and_then(|filter| filter.evidence_exclude_pattern.as_deref());
        let excluded = excluded.and_then(|python| {
            read(
                "/trajectory_filter/evidence_exclude_pattern".to_owned(),
                python,
            )
        });
        let always = filter
            .as_ref()
            .and_then(|filter| filter.always_show_actions.as_ref());
        let always = always
            .into_iter()
            .flatten()
            .filter_map(|(label, python)| {
                let field = format!("/trajectory_filter/always_show_actions/{}", pointer(label));
                Some((label.clone(), read(field, python)?))
            })
            .collect();
        Sieve {
            filter: filter.clone(),
            excluded,
            always,
        }
    }

    /// Returns whether the judge sees screenshots.
    pub(super) fn shows_screenshots(&self) -> bool {
        let filter = self.filter.as_ref();
        filter.is_some_and(|filter| filter.compaction_type == Compaction::Screenshot)
    }

    /// Returns whether screenshots are taken from all of the work.
    pub(super) fn is_per_criterion(&self) -> bool {
        let filter = self.filter.as_ref();
        filter.is_some_and(|filter| filter.frame_strategy == FrameStrategy::PerCriterion)
    }

    /// Returns whether the trajectory is written as a log of actions.
    pub(super) fn is_log(&self) -> bool {
        let filter = self.filter.as_ref();
        filter.is_some_and(|filter| filter.trajectory_text == TrajectoryText::ActionLog)
    }

    /// Returns a trajectory as the judge gets it.
    pub(super) fn sift(&self, trajectory: &[Value]) -> Sifted {
        let mut taken = Vec::new();
        let mut moments = Vec::new();
        let mut action = String::new();
        for moment in trajectory {
            if let Some(call) = calls(moment).last() {
                action = call.clone();
            }
            let from = taken.len();
            let mut moment = moment.clone();
            take_images(&mut moment, &mut taken);
            if from < taken.len() && self.is_excluded(&action) {
                for frame in &mut taken[from..] {
                    frame.base64.clear();
                }
            }
            moments.extend(self.of_moment(moment));
        }
        let all_frames = taken.len();
        taken.retain(|frame| !frame.base64.is_empty());
        let text = match &self.filter {
            Some(filter) if filter.trajectory_text == TrajectoryText::ActionLog => {
                log::text(&moments, filter.action_log_max_lines, &self.always)
            }
            _ => lines(&moments),
        };
        Sifted {
            moments,
            text,
            frames: self.some(taken),
            all_frames,
        }
    }

    fn is_excluded(&self, action: &str) -> bool {
        let pattern = self.excluded.as_ref();
        pattern.is_some_and(|pattern| pattern.is_found_in(action) == Ok(true))
    }

    /// Returns the screenshots that the judge sees.
    fn some(&self, frames: Vec<Frame>) -> Vec<Frame> {
        let Some(filter) = self.filter.as_ref().filter(|_| self.shows_screenshots()) else {
            return Vec::new();
        };
        let (most, is_spread) = match filter.frame_strategy {
            FrameStrategy::FinalFrames => (filter.screenshot_last_n, false),
            FrameStrategy::PerCriterion => (filter.frame_budget, true),
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        let all = frames.len();
        if all <= most {
            return frames;
        }
        // The last one is always among them.
        let is_taken = |at: usize| match is_spread {
            false => at >= all - most,
            true => (at + 1) * most / all > at * most / all,
        };
        let frames = frames.into_iter().enumerate();
        frames
            .filter_map(|(at, frame)| is_taken(at).then_some(frame))
            .collect()
    }

    /// Returns what is left of a moment.
    fn of_moment(&self, moment: Value) -> Option<Value> {
        let Some(filter) = &self.filter else {
            return Some(moment);
        };
        let Value::Object(mut members) = moment else {
            return Some(moment);
        };
        let role = members.get("role").or(members.get("type"));
        let role = role.and_then(Value::as_str).unwrap_or_default().to_owned();
        if is_thinking(&role) {
            return filter.include_thinking.then_some(Value::Object(members));
        }
        if role == "tool" {
            return filter
                .include_tool_call_results
                .then_some(Value::Object(members));
        }
        if !filter.include_thinking {
            members.retain(|key, _| !is_thinking(key));
            if let Some(Value::Array(pieces)) = members.get_mut("content") {
                pieces.retain(|piece| {
                    let kind = piece.get("type").and_then(Value::as_str);
                    !kind.is_some_and(is_thinking)
                });
            }
        }
        if matches!(role.as_str(), "assistant" | "agent") {
            let had = members.len();
            if !filter.include_tool_calls {
                members.remove("tool_calls");
            }
            if !filter.include_response {
                members.remove("content");
            }
            // A moment of which nothing is left but who it was of.
            let is_bare = !["content", "tool_calls"]
                .iter()
                .chain(THINKING)
                .any(|key| members.contains_key(*key));
            if is_bare && members.len() < had {
                return None;
            }
        }
        Some(Value::Object(members))
    }
}

/// The names under which what an agent thought stands.
const THINKING: &[&str] = &["thinking", "reasoning", "reasoning_content"];

fn is_thinking(name: &str) -> bool {
    THINKING.contains(&name) || name == "redacted_thinking"
}

/// Returns moments as JSON, one a line.
pub(super) fn lines(moments: &[Value]) -> String {
    moments.iter().map(|moment| format!("{moment}\n")).collect()
}

/// How long an answer of a tool may be before it is put aside, in characters.
const LARGE: usize = 4000;

/// Puts large answers of tools aside: in the place of each stands where it is and how it begins.
pub(super) fn put_aside(moments: &mut [Value], folder: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for moment in moments {
        if moment.get("role").and_then(Value::as_str) != Some("tool") {
            continue;
        }
        let Some(content) = moment.get_mut("content") else {
            continue;
        };
        let text = answer(content);
        let size = text.chars().count();
        if size > LARGE {
            let path = format!("{folder}/answer_{:03}.txt", files.len() + 1);
            let start: String = text.chars().take(SHOWN).collect();
            *content = json!({"file": path, "characters": size, "start": start});
            files.push((path, text));
        }
    }
    files
}

#[cfg(test)]
mod tests;
