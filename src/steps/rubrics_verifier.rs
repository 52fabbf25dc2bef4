//! Lets a judge grade the work of an agent by criteria, and scores what it says.
//!
//! ```json
//! {
//!   "id": "tone", "type": "rubrics_verifier", "prompt_id": "reply", "agent_name": "judge",
//!   "criteria": [
//!     {"id": "polite", "criterion": "The reply thanks Dana."},
//!     {"id": "promises", "criterion": "The reply promises a discount.", "weight": -1}
//!   ],
//!   "score_aggregator": "weighted_average", "depends_on": ["reply", "judge"]
//! }
//! ```
//!
//! A criterion has an `id` and says in any other fields, such as `criterion`, what is judged. `weight` and `pass_threshold`
//! are not shown to the judge. A criterion of negative weight names a fault: it gets the full score where the work is free
//! of it, and costs what it lacks to that.
//!
//! # The judge
//!
//! | fields | the judge is |
//! |---|---|
//! | `agent_name` | the agent that a `deploy_agent` step made, with its envs and its sandbox |
//! | `use_agent_judge` = `false`, or no `agent_name` | the model `default_model`, asked directly |
//!
//! It is told what the agent was asked, what it did, what it answered last, and the criteria under the names `c1`, `c2` and
//! so on. What comes from the run stands between marks that hold a digest of it, so that the work cannot pretend to be
//! instructions. An agent with a sandbox finds what was done in a file `prompt_trajectory.json`, or in one file a turn, below
//! the folder for temporary files; its prompt says where. A model is sent the whole of it.
//!
//! The judge answers `{"results": [{"id": "c1", "score": 1, "justification": ".."}]}`, or the list alone, as its typed value
//! or its text. An answer that is not JSON and nothing else, or that has not exactly one result for each criterion, is not
//! used: the judge is asked again and told why, three times in all. Then the step fails, and its log has the last answer.
//!
//! A run may say for all judges, in `user_overrides`: `judge_model`, `judge_effort`, `judge_max_thinking_tokens`,
//! `judge_batch_size`, `judge_batch_concurrency` and `use_agent_judge` stand in the place of the fields, and
//! `apply_trajectory_filter` takes the filter away (`false`) or adds one where there is none (`true`).
//!
//! # Formats
//!
//! | `output_format` | a row's `score` | `result` is `true` if |
//! |---|---|---|
//! | `rubric_binary` | what the judge gave | it is 1 |
//! | `rubric_partial` | what it gave, from 0 to 1 | it is at least `pass_threshold`, 0.5 where absent |
//! | `trajectory_mistakes` | 0 for a mistake | there is no such thing |
//! | `rubric_evidence` | 1 or 0; 0 where the evidence is `missing`, `contradicted`, `blocked` or `unavailable` | it is 1 |
//! | `rubric_evidence_with_mistakes` | the same | the same |
//!
//! With `rubric_partial`, `outcomes` is the scale of a criterion. Of a list such as `[{"label": "half", "score": 0.5}]` the
//! nearest score counts. `{"min": 1, "max": 5}` is brought to 0 to 1, with what the judge gave as `raw_score`;
//! `pass_threshold` is then on the scale of the criterion.
//!
//! `trajectory_mistakes` has a row `summary` of weight 0, a row `botched`, a row `coverage_<id>` for each criterion, and a
//! row for each mistake, which costs 0.02 (`low`), 0.08 (`medium`), 0.25 (`high`) or 1 (`critical`) of the score.
//!
//! The formats with evidence need screenshots: a direct judge, and a `trajectory_filter` with `compaction_type`
//! `screenshot` and `frame_strategy` `per_criterion`. Their rows say which `frame` decided and the `evidence_status`. The
//! one with mistakes gives a second verification `<verifier_id>-trajectory-mistakes`. Work without screenshots scores 0.
//!
//! # What the judge sees of the trajectory
//!
//! All of it but images, or what `trajectory_filter` leaves. With a filter, answers of tools of more than 4000 characters
//! are put into files of their own where the judge has a sandbox. `trajectory_text` `action_log` is one line for each
//! call and message, and keeps the last `action_log_max_lines`; lines that match a pattern of `always_show_actions` stay.
//! With `compaction_type` `screenshot` the judge sees the images that tools answered: the last `screenshot_last_n`, or up to
//! `frame_budget` from all of the work. `grade_up_to_turn` cuts a conversation off behind a turn.
//!
//! `context_facts_for_judge` tells the judge values of the run's `metadata`, up to 600 characters each.
//! `run_context_for_judge` adds the `conversation`, 4000 characters a message, and the `trigger_log`, the last 200 firings.
//!
//! # Many criteria
//!
//! `judge_batch_size` splits the criteria, and as many parts as `judge_batch_concurrency` says are judged at once. An answer
//! for a part that looks as if it was made in bulk is not used, but for the last attempt: five results or more, and a
//! quarter of them, share one justification, or half of them have less than 20 characters of it.
//!
//! # What it gives
//!
//! `metadata.verifications.<verifier_id>`: the `format`, a row for each criterion as `results`, the `score`, and where the
//! trajectory as the judge saw it and what the judge did are kept. Where the judge was asked again,
//! `judge_output_retries` says how often and `judge_output_discrepancies` why. `metadata.models.judge.<step id>` is the
//! model. A reply that is an error gives one row that did not pass and the score 0; nobody is asked then.
//!
//! # What is in its key
//!
//! Its fields but `judge_timeout_seconds` and `judge_batch_concurrency`, the reply with its trajectory, the facts that it
//! looks up, and what the judge is. What a model says is a sample, and kept as that.
//!
//! # Effects
//!
//! A judge that is an agent may change its envs and its sandbox, as one that is prompted.
//!
//! # Differences to agent-env
//!
//! - `agent-env` deploys an agent as judge where none is named. Here a step cannot deploy one, and such an agent has nothing
//!   but the trajectory, so the model `default_model` is asked directly. `judge_a2a_agent_id` without `agent_name` is refused.
//! - `verifier_id` is the step's id where absent; `agent-env` makes one up by chance.
//! - The score of `trajectory_mistakes` is a `weighted_average` where `score_aggregator` is absent.
//! - A judge does not see `weight` and `pass_threshold`.
//! - `default_model_api_base` is refused: `[models.<name>]` in `aebuild.toml` says how a model is reached. `default_model` is
//!   `claude-sonnet-4-6` where absent, and an agent keeps its own model then.
//! - `judge_litellm_api_key`, `judge_litellm_base_url` and `judge_sandbox_type` change nothing.

mod answer;
mod criteria;
mod fields;
mod judge;
mod mistakes;
mod prompt;
mod told;
mod trajectory;
mod work;

use std::sync::OnceLock;
use std::time::Duration;

use super::on_agent;
use super::reply;
use super::score::{self, Aggregator};
use super::target::given;
use super::together;
use crate::context::{Entry, Lookup, Output, Place};
use crate::digest::Digester;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::{BoxFuture, Sandbox};
use crate::step::{
    Determinism, NameRef, Refusal, Step, StepCx, StepError, StepType, StoredFile, read_fields,
    schema_of,
};
use crate::task::{OnError, StepId};
use fields::{DEFAULT_MODEL, Fields, Format, ModelSettings, RunContext};
use judge::{Judge, Judged, Who};
use prompt::{Brief, Part, Shown};
use trajectory::{Frame, Sieve, Sifted};
use work::{Needs, Work};

/// The step type `rubrics_verifier`. Its version is raised when the text that a judge gets changes.
pub static TYPE: StepType = StepType {
    name: "rubrics_verifier",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("rubrics_verifier.rs"),
    schema: OnceLock::new(),
};

#[derive(Debug)]
struct RubricsVerifier {
    fields: Fields,
    verifier_id: String,
    aggregator: Aggregator,
    /// The agent that judges; a model where it is absent.
    agent: Option<String>,
    sieve: Sieve,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    let agent = given(&fields.agent_name).filter(|_| fields.use_agent_judge);
    let agent = agent.map(str::to_owned);
    let sieve = Sieve::new(&fields.trajectory_filter, &mut refusals);
    fields::check(&fields, agent.as_deref(), &sieve, &mut refusals);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let verifier_id = given(&fields.verifier_id).unwrap_or(step.as_str());
    let aggregator = fields
        .score_aggregator
        .unwrap_or(match fields.output_format {
            Format::TrajectoryMistakes => Aggregator::WeightedAverage,
            _ => Aggregator::AllPass,
        });
    Ok(Box::new(RubricsVerifier {
        verifier_id: verifier_id.to_owned(),
        aggregator,
        agent,
        sieve,
        fields,
    }))
}

impl RubricsVerifier {
    async fn verify(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let fields = &self.fields;
        let response = reply::find(cx, &fields.prompt_id)?;
        if let Some(row) = reply::error_row(&response) {
            return Ok(self.zero(row));
        }
        let contexts = fields.run_context_for_judge.as_deref().unwrap_or_default();
        let needs = Needs {
            up_to: fields.grade_up_to_turn,
            trajectory: fields.use_trajectory,
            replies: contexts.contains(&RunContext::Conversation),
        };
        let work = work::work(cx, &fields.prompt_id, &response, needs)?;
        let turns = self.sifted(&work)?;
        let frames = turns.iter().flat_map(|turn| turn.frames.clone());
        let frames: Vec<Frame> = frames.collect();
        if fields.output_format.is_evidence() && frames.is_empty() {
            let why = "no tool of the agent answered with a screenshot";
            let row =
                json!({"id": "no_screenshots", "score": 0.0, "result": false, "message": why});
            return Ok(self.zero(row));
        }
        let who = match &self.agent {
            Some(name) => Who::Agent(Box::new(on_agent::party(cx, name)?)),
            None => {
                if fields.use_agent_judge {
                    let model = self.settings().model.unwrap_or_default();
                    cx.note(&format!(
                        "no agent is named as judge, so the model `{model}` is asked"
                    ));
                }
                Who::Model(cx.services.models())
            }
        };
        let sandbox = match &who {
            Who::Agent(party) => party.sandbox().cloned(),
            Who::Model(_) => None,
        };
        let (shown, compact) = self.show(&turns, sandbox.as_deref())?;
        let brief = Brief {
            tasks: work.turns.iter().map(|turn| turn.message.clone()).collect(),
            trajectory: shown,
            answer: work.answer.clone(),
            criteria: self.shown_criteria(),
            files: told::files(cx, self.agent.as_deref()),
            conversation: needs.replies.then(|| told::conversation(&work)),
            trigger_log: contexts
                .contains(&RunContext::TriggerLog)
                .then(|| told::trigger_log(cx, &response, fields.grade_up_to_turn)),
            facts: told::facts(cx, fields.context_facts_for_judge.as_ref()),
            policy: given(&fields.grading_policy_prompt).map(str::to_owned),
            screenshots: self.sieve.shows_screenshots().then(|| {
                let numbers = frames.iter().map(|frame| frame.number).collect();
                (numbers, turns.iter().map(|turn| turn.all_frames).sum())
            }),
        };
        let judge = Judge {
            cx,
            who,
            settings: self.settings(),
            format: fields.output_format,
            timeout: Duration::from_secs_f64(fields.judge_timeout_seconds.min(1e9)),
            brief,
            frames,
            criteria: &fields.criteria,
        };
        let judged = self.judged(&judge).await?;
        Ok(self.output(cx, judged, compact))
    }

    fn shown_criteria(&self) -> Vec<Value> {
        let criteria = self.fields.criteria.iter().enumerate();
        criteria.map(|(at, one)| one.shown(at)).collect()
    }

    /// Returns the model that judges; `None` where an agent keeps its own.
    fn settings(&self) -> ModelSettings {
        let default = self.agent.is_none().then_some(DEFAULT_MODEL);
        let model = given(&self.fields.default_model).or(default);
        ModelSettings {
            model: model.map(str::to_owned),
            effort: self.fields.effort.clone(),
            max_thinking_tokens: self.fields.max_thinking_tokens,
        }
    }

    /// Returns the trajectories of the turns as the judge sees them; none where it sees none.
    fn sifted(&self, work: &Work) -> Result<Vec<Sifted>, StepError> {
        if !self.fields.use_trajectory {
            return Ok(Vec::new());
        }
        if self.sieve.shows_screenshots() && work.turns.len() > 1 {
            return Err(StepError::of(
                "ValueError",
                format!(
                    "screenshots of a conversation of {} turns cannot be told apart; use \"compaction_type\": \"default\"",
                    work.turns.len()
                ),
            ));
        }
        let turns = work.turns.iter();
        let sifted = turns.map(|turn| self.sieve.sift(turn.trajectory.as_deref().unwrap_or(&[])));
        Ok(sifted.collect())
    }

    /// Shows the judge what was done, and returns it also as it is kept.
    fn show(
        &self,
        turns: &[Sifted],
        sandbox: Option<&dyn Sandbox>,
    ) -> Result<(Shown, Option<String>), StepError> {
        let inline = match turns {
            [] => return Ok((Shown::Not, None)),
            [turn] => turn.text.clone(),
            turns => {
                let numbered = turns.iter().enumerate();
                let text = |(at, turn): (usize, &Sifted)| {
                    let text = match turn.text.as_str() {
                        "" => "(nothing is recorded)\n",
                        text => text,
                    };
                    format!("--- turn {} ---\n{text}", at + 1)
                };
                numbered.map(text).collect()
            }
        };
        let Some(sandbox) = sandbox else {
            return Ok((Shown::Inline(inline.clone()), Some(inline)));
        };
        let temp = sandbox.temp_dir().trim_end_matches('/');
        // Judges that work at once in one sandbox do not write over each other's files.
        let puts_aside = self.fields.trajectory_filter.is_some() && !self.sieve.is_log();
        let mut digester = Digester::new("shown");
        digester.number(puts_aside.into()).text(&inline);
        let digest = digester.finish().to_string();
        let folder = format!("{temp}/prompt_trajectory_{}", &digest[..12]);
        let suffix = if self.sieve.is_log() { "txt" } else { "json" };
        let mut paths = Vec::new();
        for (at, turn) in turns.iter().enumerate() {
            let name = format!("{folder}/turn_{:02}", at + 1);
            let path = match turns.len() {
                1 => format!("{folder}/prompt_trajectory.{suffix}"),
                _ => format!("{name}.{suffix}"),
            };
            let mut files = Vec::new();
            let text = if self.sieve.is_log() {
                turn.text.clone()
            } else {
                let mut moments = turn.moments.clone();
                if puts_aside {
                    files = trajectory::put_aside(&mut moments, &name);
                }
                Value::Array(moments).to_string()
            };
            files.push((path.clone(), text));
            for (path, text) in files {
                together::blocking(|| sandbox.write(&path, text.as_bytes(), 0o644))?;
            }
            paths.push(path);
        }
        Ok((Shown::Files(paths), Some(inline)))
    }

    /// Asks the judge for each part of the criteria.
    async fn judged(&self, judge: &Judge<'_>) -> Result<Vec<Judged>, StepError> {
        let of = self.fields.criteria.len();
        // Where nothing is to be graded, nobody is asked.
        if of == 0 && self.fields.output_format.is_by_id() {
            return Ok(Vec::new());
        }
        let size = self.fields.judge_batch_size;
        let size = size.map_or(of, |size| usize::try_from(size).unwrap_or(usize::MAX));
        let size = size.clamp(1, of.max(1));
        let parts = (0..of.max(1)).step_by(size).map(|from| Part {
            from: from.min(of),
            to: from.saturating_add(size).min(of),
            of,
        });
        let asked = parts.map(|part| -> BoxFuture<'_, Result<Judged, StepError>> {
            Box::pin(judge.judge(part))
        });
        let most = self.fields.judge_batch_concurrency.unwrap_or(4);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let judged = together::at_most(most, asked.collect()).await;
        judged.into_iter().collect()
    }

    /// Returns the output of work that scores 0 without a judge.
    fn zero(&self, row: Value) -> Output {
        let mut value = self.head();
        value["results"] = json!([row]);
        value["score"] = 0.0.into();
        Output::of(vec![set(&["verifications", &self.verifier_id], value)])
    }

    /// Returns a verification without what was judged.
    fn head(&self) -> Value {
        let format = self.fields.output_format;
        if format.is_evidence() {
            json!({"format": "rubric_binary", "judge_output_format": format.as_str()})
        } else {
            json!({"format": format.as_str()})
        }
    }

    fn output(&self, cx: StepCx<'_>, judged: Vec<Judged>, compact: Option<String>) -> Output {
        // Without a store there is no place for a trajectory, and the grades count all the same.
        let keep = |bytes: &[u8]| cx.services.keep(bytes).ok().as_ref().map(StoredFile::url);
        let compact = compact.and_then(|text| keep(text.as_bytes()));
        let trajectories = judged.iter().map(|one| &one.trajectory);
        let urls: Vec<Option<String>> = trajectories
            .clone()
            .map(|moments| keep(&on_agent::lines(moments)))
            .collect();
        let whole = match &urls[..] {
            [url] => url.clone(),
            _ => {
                let moments: Vec<Value> = trajectories.flatten().cloned().collect();
                keep(&on_agent::lines(&moments))
            }
        };
        let rows = judged.iter().flat_map(|one| one.answer.rows.clone());
        let rows: Vec<Value> = rows.collect();
        let mut value = self.head();
        value["score"] = self.aggregator.score(&rows).into();
        value["results"] = Value::Array(rows);
        value["compact_trajectory_object_url"] = json!(compact);
        value["judge_trajectory_object_url"] = json!(whole);
        let retries: usize = judged.iter().map(|one| one.retries).sum();
        if retries > 0 {
            value["judge_output_retries"] = retries.into();
        }
        let discrepancies = judged.iter().flat_map(|one| one.discrepancies.clone());
        let discrepancies: Vec<String> = discrepancies.collect();
        if !discrepancies.is_empty() {
            value["judge_output_discrepancies"] = json!(discrepancies);
        }
        if judged.len() > 1 {
            value["judge_batches"] = judged.len().into();
            value["judge_batch_trajectory_object_urls"] = json!(urls);
        }
        if let Some(turn) = self.fields.grade_up_to_turn {
            value["graded_up_to_turn"] = turn.into();
        }
        let first = judged.first();
        if let Some(reasoning) = first.and_then(|one| one.answer.reasoning.as_ref()) {
            value["reasoning"] = json!(reasoning);
        }
        if let Some(checks) = first.and_then(|one| one.answer.checks.as_ref()) {
            value["checks"] = json!(checks);
        }
        let mut entries = vec![set(&["verifications", &self.verifier_id], value)];
        if self.fields.output_format == Format::RubricEvidenceWithMistakes {
            let rows = judged.iter().flat_map(|one| one.answer.mistakes.clone());
            let rows: Vec<Value> = rows.collect();
            let value = json!({
                "format": Format::TrajectoryMistakes.as_str(),
                "source_verifier_id": self.verifier_id,
                "score": Aggregator::WeightedAverage.score(&rows),
                "results": rows,
                "compact_trajectory_object_url": compact,
                "judge_trajectory_object_url": whole,
            });
            entries.push(set(&["verifications", &self.mistakes_id()], value));
        }
        let model = first.and_then(|one| one.model.clone());
        let step = cx.step.as_str();
        entries.push(set(&["models", "judge", step], json!(model)));
        Output::of(entries)
    }

    fn mistakes_id(&self) -> String {
        format!("{}-trajectory-mistakes", self.verifier_id)
    }
}

fn set(path: &[&str], value: Value) -> Entry {
    let path = path.iter().map(|&segment| segment.to_owned()).collect();
    Entry::data(Place::Set(path), value)
}

impl Step for RubricsVerifier {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["verifier_id"] = Value::String(self.verifier_id.clone());
        fields["score_aggregator"] = json!(self.aggregator);
        fields["use_agent_judge"] = self.agent.is_some().into();
        fields["default_model"] = json!(self.settings().model);
        if let Value::Object(members) = &mut fields {
            for name in [
                "judge_timeout_seconds",
                "judge_batch_concurrency",
                "judge_sandbox_type",
                "judge_a2a_agent_id",
            ] {
                members.remove(name);
            }
            if self.agent.is_none() {
                members.remove("agent_name");
            }
        }
        fields
    }

    // A judge that has no sandbox is only looked at; the planner knows whether it has one, and which envs.
    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        let agent = self.agent.iter();
        agent
            .map(|name| (ResourceId::agent(name), Touch::MayMutate))
            .collect()
    }

    // What an agent says is as sure as the agent is, which the planner knows.
    fn determinism(&self) -> Determinism {
        match self.agent {
            Some(_) => Determinism::Pure,
            None => Determinism::Sampled,
        }
    }

    fn waits(&self) -> bool {
        true
    }

    fn prompts(&self) -> bool {
        self.agent.is_some()
    }

    fn reads(&self) -> Vec<NameRef> {
        let mut reads = vec![NameRef {
            field: "/prompt_id".to_owned(),
            lookup: Lookup::Prompt(self.fields.prompt_id.clone()),
        }];
        reads.extend(self.agent.iter().map(|name| NameRef {
            field: "/agent_name".to_owned(),
            lookup: Lookup::Agent(name.clone()),
        }));
        reads
    }

    fn provides(&self) -> Vec<NameRef> {
        let mut provides = vec![score::provides(&self.fields.verifier_id, &self.verifier_id)];
        if self.fields.output_format == Format::RubricEvidenceWithMistakes {
            let id = self.mistakes_id();
            provides.push(score::provides(&self.fields.verifier_id, &id));
        }
        provides
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.verify(cx))
    }
}

#[cfg(test)]
mod tests;
