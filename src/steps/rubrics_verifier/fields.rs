//! The fields of the step, and which of them go together.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::criteria::{self, Criterion};
use super::trajectory::{Filter, Sieve};
use crate::step::Refusal;
use crate::steps::score::Aggregator;
use crate::steps::target::{CONFLICT, MISSING, NOT_YET, given};

/// The model of a direct judge where a step names none.
pub(super) const DEFAULT_MODEL: &str = "claude-sonnet-4-6";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fields {
    /// What is judged.
    pub(super) criteria: Vec<Criterion>,
    /// The reply whose work is judged.
    #[schemars(length(min = 1))]
    pub(super) prompt_id: String,
    /// The model that judges; `claude-sonnet-4-6` where absent, or the agent's own.
    pub(super) default_model: Option<String>,
    /// Where the model is reached.
    pub(super) default_model_api_base: Option<String>,
    /// How the rows become a score; `all_pass` where absent, and `weighted_average` with `trajectory_mistakes`.
    pub(super) score_aggregator: Option<Aggregator>,
    /// The name of this verification; the step's id where absent.
    pub(super) verifier_id: Option<String>,
    /// The agent that judges.
    pub(super) agent_name: Option<String>,
    /// What of the trajectory the judge sees.
    pub(super) trajectory_filter: Option<Filter>,
    /// How much the judge may think, in tokens.
    pub(super) max_thinking_tokens: Option<u64>,
    /// How hard the judge tries.
    pub(super) effort: Option<String>,
    /// Whether an agent judges; `false` asks the model directly.
    #[serde(default = "yes")]
    pub(super) use_agent_judge: bool,
    /// Whether the judge sees what the agent did; without, it sees what it answered.
    #[serde(default = "yes")]
    pub(super) use_trajectory: bool,
    /// The agent that would be deployed as judge.
    pub(super) judge_a2a_agent_id: Option<String>,
    /// The kind of sandbox that it would get.
    pub(super) judge_sandbox_type: Option<String>,
    /// How long one answer of the judge may take, in seconds.
    #[serde(default = "thousand")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(super) judge_timeout_seconds: f64,
    /// What the judge answers.
    #[serde(default)]
    pub(super) output_format: Format,
    /// How the criteria are to be read, in words.
    pub(super) grading_policy_prompt: Option<String>,
    /// Facts for the judge: each a label and a path below `metadata`, with points.
    pub(super) context_facts_for_judge: Option<BTreeMap<String, String>>,
    /// The last turn of the conversation that counts.
    #[schemars(range(min = 1))]
    pub(super) grade_up_to_turn: Option<u64>,
    /// What else of the run the judge sees.
    #[schemars(length(min = 1))]
    pub(super) run_context_for_judge: Option<Vec<RunContext>>,
    /// How many criteria are judged at once; all where absent.
    #[schemars(range(min = 1))]
    pub(super) judge_batch_size: Option<u64>,
    /// How many parts are judged at the same time.
    #[schemars(range(min = 1))]
    pub(super) judge_batch_concurrency: Option<u64>,
}

/// What a judge answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Format {
    /// A score of 0 or 1 for each criterion.
    #[default]
    RubricBinary,
    /// A score on a scale for each criterion.
    RubricPartial,
    /// The mistakes on the way.
    TrajectoryMistakes,
    /// A score of 0 or 1 for each criterion, with the screenshot that decides.
    RubricEvidence,
    /// The same, and the mistakes on the way.
    RubricEvidenceWithMistakes,
}

/// What else of a run a judge may see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunContext {
    /// What was said.
    Conversation,
    /// Which triggers fired.
    TriggerLog,
}

fn yes() -> bool {
    true
}

fn thousand() -> f64 {
    1000.0
}

impl Format {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Format::RubricBinary => "rubric_binary",
            Format::RubricPartial => "rubric_partial",
            Format::TrajectoryMistakes => "trajectory_mistakes",
            Format::RubricEvidence => "rubric_evidence",
            Format::RubricEvidenceWithMistakes => "rubric_evidence_with_mistakes",
        }
    }

    /// Returns whether the judge says which screenshot decides.
    pub(super) fn is_evidence(self) -> bool {
        matches!(
            self,
            Format::RubricEvidence | Format::RubricEvidenceWithMistakes
        )
    }

    /// Returns whether there is one result for each criterion.
    pub(super) fn is_by_id(self) -> bool {
        self != Format::TrajectoryMistakes
    }
}

/// The model of a judge, and how it works.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelSettings {
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) max_thinking_tokens: Option<u64>,
}

/// Refuses fields that do not go together.
pub(super) fn check(
    fields: &Fields,
    agent: Option<&str>,
    sieve: &Sieve,
    refusals: &mut Vec<Refusal>,
) {
    check_judge(fields, agent, refusals);
    let is_partial = fields.output_format == Format::RubricPartial;
    criteria::check(&fields.criteria, is_partial, refusals);
    if fields.output_format.is_evidence() {
        let sees = agent.is_none()
            && fields.use_trajectory
            && sieve.shows_screenshots()
            && sieve.is_per_criterion();
        if !sees {
            refusals.push(
                Refusal::new(
                    CONFLICT,
                    "/output_format",
                    format!("`{}` needs screenshots", fields.output_format.as_str()),
                )
                .help(
                    "set \"use_agent_judge\": false, and a `trajectory_filter` with \"compaction_type\": \"screenshot\" and \
                     \"frame_strategy\": \"per_criterion\"",
                ),
            );
        }
    }
    let is_in_parts = matches!(
        fields.output_format,
        Format::RubricBinary | Format::RubricPartial
    );
    if fields.judge_batch_size.is_some() && !is_in_parts {
        refusals.push(
            Refusal::new(
                CONFLICT,
                "/judge_batch_size",
                format!("`{}` is judged as a whole", fields.output_format.as_str()),
            )
            .help("delete `judge_batch_size`, or use `rubric_binary` or `rubric_partial`"),
        );
    }
    for (label, path) in fields.context_facts_for_judge.iter().flatten() {
        if path.split('.').any(|segment| segment.trim().is_empty()) {
            refusals.push(
                Refusal::new(
                    "wrong-pattern",
                    format!("/context_facts_for_judge/{}", pointer(label)),
                    format!("`{path}` is no path below `metadata`"),
                )
                .help("write names with a point between them, such as `script_results.count`"),
            );
        }
    }
}

/// Returns a key as a segment of a JSON pointer.
pub(super) fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn check_judge(fields: &Fields, agent: Option<&str>, refusals: &mut Vec<Refusal>) {
    let named = given(&fields.judge_a2a_agent_id).filter(|_| fields.use_agent_judge);
    if let (None, Some(id)) = (agent, named) {
        refusals.push(
            Refusal::new(
                MISSING,
                "/judge_a2a_agent_id",
                format!("agent `{id}` cannot be deployed by the step that it judges for"),
            )
            .help(
                "add a `deploy_agent` step with this `a2a_agent_id`, and name its agent with `agent_name`; or set \
                 \"use_agent_judge\": false",
            ),
        );
    }
    if given(&fields.default_model_api_base).is_some() {
        let refusal = match agent {
            Some(agent) => Refusal::new(
                CONFLICT,
                "/default_model_api_base",
                format!("agent `{agent}` judges, and knows by itself where its model is"),
            )
            .help("delete `default_model_api_base`, or set \"use_agent_judge\": false"),
            None => Refusal::new(
                NOT_YET,
                "/default_model_api_base",
                "a step cannot say where a model is reached",
            )
            .help("write the address into `[models.<name>]` of `aebuild.toml`, and the name into `default_model`"),
        };
        refusals.push(refusal);
    }
}
