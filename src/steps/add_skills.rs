//! Gives an agent skills: texts that it reads when they are of use.
//!
//! ```json
//! {"id": "skills", "type": "add_skills", "agent_name": "assistant", "skills": [
//!   {"skill_artifact_id": "write-letters"},
//!   {"name": "tone", "description": "How to sound", "body": "Be brief and kind."}
//! ]}
//! ```
//!
//! A skill is written in the step, or is a folder below `skills/` with a `SKILL.md`. An agent with a model is told the names
//! and descriptions and reads the text with a tool; one that is reached over A2A gets them where its card takes skills. A
//! scripted agent passes them over.
//!
//! # What it gives
//!
//! An entry in `metadata.agent_skills.<agent_name>` for each skill: `name`, `description`, `body`.
//!
//! # What is in its key
//!
//! Its fields and the content of the skills that it names.
//!
//! # Differences to agent-env
//!
//! - `object_url` and `s3_url` of a skill, `cli_artifact_ids` and `file_artifact_universe_ids` are refused, not there yet.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{CONFLICT, DEFAULT_AGENT, MISSING, NOT_YET, given};
use super::together;
use crate::context::{Entry, Lookup, Output, Place};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{
    ArtifactKind, ArtifactRef, NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields,
    schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `add_skills`.
pub static TYPE: StepType = StepType {
    name: "add_skills",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("add_skills.rs"),
    schema: OnceLock::new(),
};

/// The kinds of artifacts that are skills.
const SKILL: &[ArtifactKind] = &[ArtifactKind::Skill];

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The skills.
    #[serde(default)]
    skills: Vec<Given>,
    /// Commands whose use is to be a skill.
    #[serde(default)]
    cli_artifact_ids: Vec<String>,
    /// Loaded files whose list is to be a skill.
    #[serde(default)]
    file_artifact_universe_ids: Vec<String>,
    /// The agent.
    #[serde(default = "default_agent")]
    #[schemars(length(min = 1))]
    agent_name: String,
}

/// A skill: a folder below `skills/`, or written here.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Given {
    /// The name.
    name: Option<String>,
    /// When it is of use.
    description: Option<String>,
    /// The text.
    body: Option<String>,
    /// Its licence.
    license: Option<String>,
    /// What it needs.
    compatibility: Option<String>,
    /// Notes.
    metadata: Option<Map<String, Value>>,
    /// Tools that it uses.
    allowed_tools: Option<Value>,
    /// Where the text is kept.
    object_url: Option<String>,
    /// Where the text is kept.
    s3_url: Option<String>,
    /// The folder below `skills/`.
    skill_artifact_id: Option<String>,
    /// The version; a skill of the task folder has none.
    skill_artifact_version: Option<u64>,
}

fn default_agent() -> String {
    DEFAULT_AGENT.to_owned()
}

#[derive(Debug)]
struct AddSkills {
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    for (at, skill) in fields.skills.iter().enumerate() {
        let place = format!("/skills/{at}");
        for (key, url) in [("object_url", &skill.object_url), ("s3_url", &skill.s3_url)] {
            if given(url).is_some() {
                refusals.push(skill_at_address(&place, key));
            }
        }
        match (given(&skill.skill_artifact_id), given(&skill.body)) {
            (Some(_), Some(_)) => refusals.push(
                Refusal::new(
                    CONFLICT,
                    format!("{place}/body"),
                    "the skill has both `skill_artifact_id` and `body`",
                )
                .help("delete one of them"),
            ),
            (None, None) if given(&skill.object_url).or(given(&skill.s3_url)).is_none() => {
                refusals.push(
                    Refusal::new(MISSING, &place, "nothing says what the skill is")
                        .help("add \"skill_artifact_id\": \"..\" or \"body\": \"..\""),
                );
            }
            (None, Some(_)) if given(&skill.name).is_none() => refusals.push(
                Refusal::new(MISSING, &place, "the skill has no name").help("add \"name\": \"..\""),
            ),
            _ => {}
        }
    }
    for (key, list) in [
        ("cli_artifact_ids", &fields.cli_artifact_ids),
        (
            "file_artifact_universe_ids",
            &fields.file_artifact_universe_ids,
        ),
    ] {
        if !list.is_empty() {
            let what = format!("`{key}` cannot become skills in this release");
            refusals.push(
                Refusal::new(NOT_YET, format!("/{key}"), what)
                    .help("write the skill with `name`, `description` and `body`"),
            );
        }
    }
    if refusals.is_empty() {
        Ok(Box::new(AddSkills { fields }))
    } else {
        Err(refusals)
    }
}

impl AddSkills {
    fn add(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let agent = &self.fields.agent_name;
        if cx.find(&Lookup::Agent(agent.clone())).is_none() {
            let what = format!("agent `{agent}` is not deployed by a step before");
            return Err(StepError::of("ValueError", what));
        }
        let mut entries = Vec::with_capacity(self.fields.skills.len());
        for skill in &self.fields.skills {
            let (name, description, body) = match given(&skill.skill_artifact_id) {
                Some(id) => self.of_folder(cx, id)?,
                None => (
                    skill.name.clone().unwrap_or_default(),
                    String::new(),
                    skill.body.clone().unwrap_or_default(),
                ),
            };
            let name = given(&skill.name).unwrap_or(&name);
            let description = given(&skill.description).unwrap_or(&description);
            let value = skill_value(name, &Some(description.to_owned()), &body);
            let place = Place::Append(vec!["agent_skills".to_owned(), agent.clone()]);
            entries.push(Entry::data(place, value));
        }
        Ok(Output::of(entries))
    }

    /// Returns the name, the description and the text of a skill of the task folder.
    fn of_folder(&self, cx: StepCx<'_>, id: &str) -> Result<(String, String, String), StepError> {
        let wrong = |what: String| StepError::of("ValueError", what);
        let content = cx.services.artifact(id);
        let content = content.ok_or_else(|| wrong(format!("there is no skill `{id}`")))?;
        let file = content.files.iter().find(|file| file.path == "SKILL.md");
        let file = file.ok_or_else(|| wrong(format!("skill `{id}` has no SKILL.md")))?;
        let text = together::blocking(|| crate::system::disk::read_to_string(&file.source))
            .map_err(|error| wrong(format!("the SKILL.md of `{id}` cannot be read: {error}")))?;
        let (head, body) = split(&text);
        let of_head = |key: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(name, _)| name.trim() == key)
                .map(|(_, value)| value.trim().trim_matches(['"', '\'']).to_owned())
        };
        Ok((
            of_head("name").unwrap_or_else(|| content.name.clone()),
            of_head("description").unwrap_or_default(),
            body.trim().to_owned(),
        ))
    }
}

/// Returns a skill as an agent gets it.
pub(super) fn skill_value(name: &str, description: &Option<String>, body: &str) -> Value {
    let description = given(description).unwrap_or_default();
    json!({"name": name, "description": description, "body": body})
}

/// Returns the refusal of a skill that is kept elsewhere.
pub(super) fn skill_at_address(place: &str, key: &str) -> Refusal {
    let what = "a skill at an address cannot be had in this release";
    Refusal::new(NOT_YET, format!("{place}/{key}"), what)
        .help("put it into a folder below `skills/` and name it in `skill_artifact_id` of a step `add_skills`")
}

/// Splits a text into what stands between two lines `---` at its start, and the rest.
pub(super) fn split(text: &str) -> (&str, &str) {
    let begun = text
        .strip_prefix("---\n")
        .or_else(|| text.strip_prefix("---\r\n"));
    match begun.and_then(|rest| rest.split_once("\n---")) {
        Some((head, body)) => (head, body.trim_start_matches(['-', '\r', '\n'])),
        None => ("", text),
    }
}

impl Step for AddSkills {
    fn fields(&self) -> Value {
        json!(self.fields)
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        Vec::new()
    }

    fn artifacts(&self) -> Vec<ArtifactRef> {
        let skills = self.fields.skills.iter().enumerate();
        let named = skills.filter_map(|(at, skill)| {
            Some(ArtifactRef {
                field: format!("/skills/{at}/skill_artifact_id"),
                name: given(&skill.skill_artifact_id)?.to_owned(),
                wants: SKILL,
                has_version: skill.skill_artifact_version.is_some(),
            })
        });
        named.collect()
    }

    fn reads(&self) -> Vec<NameRef> {
        vec![NameRef {
            field: "/agent_name".to_owned(),
            lookup: Lookup::Agent(self.fields.agent_name.clone()),
        }]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(async move { self.add(cx) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeServices, build_step, refused, run, show};
    use expect_test::expect;

    #[test]
    fn a_skill_is_written_in_the_step_or_is_a_folder() {
        let world = FakeServices::new().deployed("assistant").artifact(
            "letters",
            ArtifactKind::Skill,
            &[(
                "SKILL.md",
                "---\nname: letters\ndescription: \"How to write\"\n---\n\n# Letters\nBe brief.\n",
                false,
            )],
        );
        let fields = json!({"agent_name": "assistant", "skills": [
            {"skill_artifact_id": "letters"},
            {"name": "tone", "description": "How to sound", "body": "Kind."},
        ]});
        let step = build_step(&TYPE, "skills", fields);
        expect![[r##"
            metadata.agent_skills.assistant += {"body":"# Letters\nBe brief.","description":"How to write","name":"letters"}
            metadata.agent_skills.assistant += {"body":"Kind.","description":"How to sound","name":"tone"}
        "##]].assert_eq(&show(&run(&*step, "skills", &world).unwrap()));
    }

    #[test]
    fn a_skill_that_says_nothing_is_refused() {
        expect![[r#"
            missing-field /skills/0: nothing says what the skill is (add "skill_artifact_id": ".." or "body": "..")
            missing-field /skills/1: the skill has no name (add "name": "..")
            conflicting-fields /skills/2/body: the skill has both `skill_artifact_id` and `body` (delete one of them)
            not-supported-yet /skills/3/s3_url: a skill at an address cannot be had in this release (put it into a folder below `skills/` and name it in `skill_artifact_id` of a step `add_skills`)
            not-supported-yet /cli_artifact_ids: `cli_artifact_ids` cannot become skills in this release (write the skill with `name`, `description` and `body`)
        "#]].assert_eq(&refused(
            &TYPE,
            json!({"skills": [{}, {"body": "x"}, {"body": "x", "name": "n", "skill_artifact_id": "s"}, {"s3_url": "s3://x"}],
                   "cli_artifact_ids": ["c"]}),
        ));
    }
}
