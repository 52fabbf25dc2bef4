//! A trajectory as a judge gets it: without what a filter leaves out, as JSON lines or as a log of actions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::work::said;
use crate::json::{Map, Value, json};
use crate::step::Refusal;
use crate::steps::pattern::{self, Flags, Pattern};

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

/// A screenshot of a trajectory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    /// Its number among all of the trajectory, the first being 1.
    pub(super) number: usize,
    /// Its media type.
    pub(super) mime: String,
    /// Its bytes in base64.
    pub(super) base64: String,
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
                let field = format!("/trajectory_filter/always_show_actions/{label}");
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
                self.action_log(&moments, filter.action_log_max_lines)
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

    fn action_log(&self, moments: &[Value], most: u64) -> String {
        let mut entries: Vec<Line> = Vec::new();
        for moment in moments {
            log_moment(moment, &mut entries);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let label = |line: &Line| {
            let found = self
                .always
                .iter()
                .find(|(_, pattern)| pattern.is_found_in(&line.text) == Ok(true));
            found.map(|(label, _)| label.clone())
        };
        let labels: Vec<Option<String>> = entries.iter().map(label).collect();
        let always = labels.iter().flatten().count();
        let rest = entries.len() - always;
        let mut left_out = rest.saturating_sub(most.saturating_sub(always));
        let mut text = String::new();
        let mut gap = 0;
        for (at, (line, label)) in entries.iter().zip(&labels).enumerate() {
            if label.is_none() && left_out > 0 {
                left_out -= 1;
                gap += 1;
                continue;
            }
            if gap > 0 {
                text += &format!("({gap} left out)\n");
                gap = 0;
            }
            let label = label.as_ref().map(|label| format!("[{label}] "));
            let label = label.unwrap_or_default();
            text += &format!("{}. {label}{}", at + 1, line.text);
            if let Some(result) = &line.result {
                text += &format!(" -> {result}");
            }
            text.push('\n');
        }
        text
    }
}

/// A line of a log of actions.
struct Line {
    text: String,
    /// The name of the tool where it is a call.
    tool: Option<String>,
    result: Option<String>,
}

/// How much of an argument, an answer or a text a log of actions shows.
const SHOWN: usize = 300;

fn log_moment(moment: &Value, entries: &mut Vec<Line>) {
    let mut add = |text: String| {
        entries.push(Line {
            text,
            tool: None,
            result: None,
        });
    };
    let role = moment.get("role").and_then(Value::as_str).unwrap_or("");
    if role == "tool" {
        let name = ["tool", "name"].iter().find_map(|key| moment.get(*key));
        let name = name.and_then(Value::as_str).unwrap_or_default();
        let content = moment.get("content").unwrap_or(&Value::Null);
        let result = one_line(&answer(content));
        let call = entries.iter_mut().find(|line| {
            line.result.is_none() && line.tool.as_deref().is_some_and(|tool| tool == name)
        });
        match call {
            Some(call) => call.result = Some(result),
            None => entries.push(Line {
                text: format!("{name} answers"),
                tool: None,
                result: Some(result),
            }),
        }
        return;
    }
    if let Some(text) = moment.get("content").and_then(said)
        && !text.is_empty()
    {
        add(format!("{role}: {}", one_line(&text)));
    }
    for key in THINKING {
        if let Some(text) = moment.get(*key).and_then(Value::as_str) {
            add(format!("{role} thinks: {}", one_line(text)));
        }
    }
    if !moment.is_object() {
        add(one_line(&moment.to_string()));
    }
    let list = moment.get("tool_calls").and_then(Value::as_array);
    for call in list.into_iter().flatten() {
        entries.push(Line {
            text: one_line(&call_text(call)),
            tool: Some(call_name(call).to_owned()),
            result: None,
        });
    }
}

/// Returns what a tool answered, as text.
fn answer(content: &Value) -> String {
    let inner = content.get("content").unwrap_or(content);
    match said(inner).filter(|text| !text.is_empty()) {
        Some(text) => text,
        None => content.to_string(),
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    cut(&words.join(" "), SHOWN)
}

/// Returns the start of a text, and what it lacks.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            let more = text[end..].chars().count();
            format!("{}.. ({more} more characters)", &text[..end])
        }
        None => text.to_owned(),
    }
}

/// Returns the calls of a moment as text.
fn calls(moment: &Value) -> Vec<String> {
    let list = moment.get("tool_calls").and_then(Value::as_array);
    list.into_iter().flatten().map(call_text).collect()
}

fn call_name(call: &Value) -> &str {
    let function = call.get("function").unwrap_or(call);
    let name = ["tool", "name"].iter().find_map(|key| function.get(*key));
    name.and_then(Value::as_str).unwrap_or("a tool")
}

fn call_text(call: &Value) -> String {
    let function = call.get("function").unwrap_or(call);
    let arguments = ["arguments", "input"]
        .iter()
        .find_map(|key| function.get(*key));
    let arguments = match arguments {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let env = call.get("env").and_then(Value::as_str);
    let env = env.map(|env| format!("{env}.")).unwrap_or_default();
    format!("{env}{} {arguments}", call_name(call))
        .trim_end()
        .to_owned()
}

const THINKING: &[&str] = &["thinking", "reasoning", "reasoning_content"];

fn is_thinking(name: &str) -> bool {
    THINKING.contains(&name) || name == "redacted_thinking"
}

/// Takes the images out of a value; in their place stands their number.
fn take_images(value: &mut Value, frames: &mut Vec<Frame>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| take_images(item, frames)),
        Value::Object(members) => match image(members) {
            Some((mime, base64)) => {
                let number = frames.len() + 1;
                *value = json!({"type": "image", "screenshot": number});
                frames.push(Frame {
                    number,
                    mime,
                    base64,
                });
            }
            None => members
                .values_mut()
                .for_each(|member| take_images(member, frames)),
        },
        _ => {}
    }
}

/// Returns the media type and the bytes of an image, as MCP and as the APIs of models have them.
fn image(members: &Map<String, Value>) -> Option<(String, String)> {
    let kind = members.get("type")?.as_str()?;
    let text = |value: Option<&Value>| value?.as_str().map(str::to_owned);
    match kind {
        "image" if members.contains_key("data") => {
            let mime = text(members.get("mimeType")).unwrap_or_else(|| "image/png".to_owned());
            Some((mime, text(members.get("data"))?))
        }
        "image" => {
            let source = members.get("source")?;
            let mime = text(source.get("media_type")).unwrap_or_else(|| "image/png".to_owned());
            Some((mime, text(source.get("data"))?))
        }
        "image_url" => {
            let url = members.get("image_url")?.get("url")?.as_str()?;
            let (mime, base64) = url.strip_prefix("data:")?.split_once(";base64,")?;
            Some((mime.to_owned(), base64.to_owned()))
        }
        _ => None,
    }
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
mod tests {
    use super::*;
    use expect_test::expect;

    fn sift(filter: Value, trajectory: &[Value]) -> Sifted {
        let filter: Filter = crate::json::from_slice(filter.to_string().as_bytes()).unwrap();
        let mut refusals = Vec::new();
        let sieve = Sieve::new(&Some(filter), &mut refusals);
        assert_eq!(refusals, []);
        sieve.sift(trajectory)
    }

    fn trajectory() -> Vec<Value> {
        vec![
            json!({"role": "user", "content": "Go"}),
            json!({"role": "assistant", "thinking": "hm", "content": "I look", "tool_calls": [
                {"env": "web", "tool": "shot", "arguments": {"page": 1}},
                {"id": "2", "type": "function", "function": {"name": "click", "arguments": "{\"x\": 1}"}},
            ]}),
            json!({"role": "tool", "tool": "click", "content": "clicked"}),
            json!({"role": "tool", "tool": "shot", "content": {"content": [{"type": "text", "text": "a\n b"}]}}),
            json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "Done"}]}),
            json!({"type": "reasoning", "text": "deep"}),
            json!("odd"),
        ]
    }

    #[test]
    fn a_filter_leaves_out_what_it_says() {
        let text = |filter: Value| sift(filter, &trajectory()).text;
        expect![[r#"
            {"content":"Go","role":"user"}
            {"content":"I look","role":"assistant","tool_calls":[{"arguments":{"page":1},"env":"web","tool":"shot"},{"function":{"arguments":"{\"x\": 1}","name":"click"},"id":"2","type":"function"}]}
            {"content":"clicked","role":"tool","tool":"click"}
            {"content":{"content":[{"text":"a\n b","type":"text"}]},"role":"tool","tool":"shot"}
            {"content":[{"text":"Done","type":"text"}],"role":"assistant"}
            "odd"
        "#]].assert_eq(&text(json!({})));
        let bare = json!({"include_tool_calls": false, "include_tool_call_results": false, "include_response": false});
        expect![[r#"
            {"content":"Go","role":"user"}
            "odd"
        "#]].assert_eq(&text(bare));
        let all = text(json!({"include_thinking": true}));
        assert_eq!(all, lines(&trajectory()));
    }

    #[test]
    fn a_log_of_actions_has_a_line_for_each_and_keeps_what_must_be_shown() {
        let text = |filter: Value| sift(filter, &trajectory()).text;
        expect![[r#"
            1. user: Go
            2. assistant: I look
            3. assistant thinks: hm
            4. web.shot {"page":1} -> a b
            5. click {"x": 1} -> clicked
            6. assistant: Done
            7. "odd"
        "#]].assert_eq(&text(
            json!({"trajectory_text": "action_log", "include_thinking": true}),
        ));
        let mut many =
            vec![json!({"role": "assistant", "tool_calls": [{"tool": "pay", "arguments": {}}]})];
        many.extend((0..20).map(|n| json!({"role": "assistant", "content": format!("step {n}")})));
        let filter = json!({
            "trajectory_text": "action_log", "action_log_max_lines": 10, "always_show_actions": {"money": "^pay"},
        });
        expect![[r#"
            1. [money] pay {}
            (11 left out)
            13. assistant: step 11
            14. assistant: step 12
            15. assistant: step 13
            16. assistant: step 14
            17. assistant: step 15
            18. assistant: step 16
            19. assistant: step 17
            20. assistant: step 18
            21. assistant: step 19
        "#]].assert_eq(&sift(filter, &many).text);
    }

    fn shots(n: usize) -> Vec<Value> {
        let shot = |n: usize| {
            [
                json!({"role": "assistant", "tool_calls": [{"tool": if n % 2 == 0 { "scroll" } else { "click" }}]}),
                json!({"role": "tool", "tool": "x", "content": [{"type": "image", "mimeType": "image/png", "data": format!("{n}")}]}),
            ]
        };
        (1..=n).flat_map(shot).collect()
    }

    #[test]
    fn screenshots_are_taken_from_the_end_or_from_all_of_the_work() {
        let numbers = |filter: Value, n: usize| -> Vec<usize> {
            let sifted = sift(filter, &shots(n));
            assert_eq!(sifted.all_frames, n);
            sifted.frames.iter().map(|frame| frame.number).collect()
        };
        let mut filter = json!({"compaction_type": "screenshot"});
        assert_eq!(numbers(filter.clone(), 2), [1, 2]);
        assert_eq!(numbers(filter.clone(), 9), [7, 8, 9]);
        filter["evidence_exclude_pattern"] = json!("scroll");
        assert_eq!(numbers(filter.clone(), 9), [5, 7, 9]);
        let spread = json!({"compaction_type": "screenshot", "frame_strategy": "per_criterion", "frame_budget": 6});
        assert_eq!(numbers(spread, 12), [2, 4, 6, 8, 10, 12]);
        assert_eq!(numbers(json!({}), 5), [0; 0]);
    }

    #[test]
    fn images_are_found_as_mcp_and_as_models_write_them() {
        let moment = json!([
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "B"}},
            {"type": "image_url", "image_url": {"url": "data:image/gif;base64,C"}},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            {"type": "image"},
        ]);
        let mut frames = Vec::new();
        let mut value = moment.clone();
        take_images(&mut value, &mut frames);
        let found: Vec<(&str, &str)> = frames
            .iter()
            .map(|frame| (&frame.mime[..], &frame.base64[..]))
            .collect();
        assert_eq!(found, [("image/jpeg", "B"), ("image/gif", "C")]);
        assert_eq!((&value[2], &value[3]), (&moment[2], &moment[3]));
    }

    #[test]
    fn large_answers_are_put_aside() {
        let mut moments = vec![
            json!({"role": "tool", "tool": "read", "content": "y".repeat(LARGE + 1)}),
            json!({"role": "tool", "tool": "read", "content": "y".repeat(LARGE)}),
            json!({"role": "user", "content": "y".repeat(LARGE + 1)}),
        ];
        let before = moments.clone();
        let files = put_aside(&mut moments, "/t");
        assert_eq!(
            files,
            [("/t/answer_001.txt".to_owned(), "y".repeat(LARGE + 1))]
        );
        assert_eq!(moments[0]["content"]["characters"], LARGE + 1);
        assert_eq!(moments[1..], before[1..]);
    }
}
