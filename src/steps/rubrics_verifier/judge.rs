//! Who judges, and how often it is asked.

use std::sync::Arc;
use std::time::Duration;

use super::answer::{self, Answer};
use super::criteria::Criterion;
use super::fields::{Format, ModelSettings};
use super::prompt::{self, Brief, Part};
use super::trajectory::Frame;
use crate::digest::Digester;
use crate::json::{Value, json};
use crate::step::agent::{PromptSettings, text_part};
use crate::step::model::{ChatMessage, ChatRequest, Content, Finish, ModelError, Models};
use crate::step::{StepCx, StepError, Stream};
use crate::steps::on_agent::{self, Party, Talk};

/// How often a judge is asked for an answer that can be used.
pub(super) const ATTEMPTS: usize = 3;

/// Who judges.
pub(super) enum Who {
    /// An agent.
    Agent(Box<Party>),
    /// A model.
    Model(Arc<dyn Models>),
}

/// A judge, and what it judges.
pub(super) struct Judge<'a> {
    pub(super) cx: StepCx<'a>,
    pub(super) who: Who,
    pub(super) settings: ModelSettings,
    pub(super) format: Format,
    pub(super) timeout: Duration,
    pub(super) brief: Brief,
    pub(super) frames: Vec<Frame>,
    pub(super) criteria: &'a [Criterion],
}

/// An answer, and what led to it.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// The answer.
    pub(super) answer: Answer,
    /// How often the judge was asked again.
    pub(super) retries: usize,
    /// What was wrong with the answers before, and with this one where it was taken all the same.
    pub(super) discrepancies: Vec<String>,
    /// What the judge was asked and did, of all attempts.
    pub(super) trajectory: Vec<Value>,
    /// The model that judged; `None` where nobody says.
    pub(super) model: Option<String>,
}

/// What a judge said once.
struct Said {
    text: String,
    structured: Option<Value>,
    trajectory: Vec<Value>,
    model: Option<String>,
    /// Why it stopped before it was done.
    broken: Option<&'static str>,
}

impl Judge<'_> {
    /// Asks for the results of some criteria, again where the answer cannot be used.
    pub(super) async fn judge(&self, part: Part) -> Result<Judged, StepError> {
        let ids = part.ids();
        let criteria = &self.criteria[part.from..part.to];
        let mut judged = Judged::default();
        let mut faults = Vec::new();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let text = prompt::text(&self.brief, self.format, part, &faults);
            let said = self.ask(&text, part, attempt).await?;
            judged.trajectory.extend(said.trajectory);
            judged.model = said.model;
            let structured = said.structured.as_ref();
            let by = |structured| answer::read(self.format, structured, &said.text, criteria, &ids);
            // A typed value may be about something else, and the text the answer.
            let mut read = by(structured);
            if structured.is_some() && read.is_err() {
                read = by(None).or(read);
            }
            if let (Err(faults), Some(broken)) = (&mut read, said.broken) {
                faults.insert(0, broken.to_owned());
            }
            let is_last = attempt == ATTEMPTS;
            faults = match read {
                Ok(answer) => {
                    let bulk = part.is_batch().then(|| answer::looks_bulk(&answer.rows));
                    let bulk = bulk.flatten();
                    if bulk.is_none() || is_last {
                        judged.discrepancies.extend(bulk);
                        judged.answer = answer;
                        return Ok(judged);
                    }
                    bulk.into_iter().collect()
                }
                Err(faults) if is_last => return Err(self.give_up(&said.text, structured, &faults)),
                Err(faults) => faults,
            };
            self.cx.note(&format!(
                "answer {attempt} of the judge cannot be used: {}",
                faults.join("; ")
            ));
            judged.retries += 1;
            judged.discrepancies.extend(faults.iter().cloned());
        }
    }

    fn give_up(&self, text: &str, structured: Option<&Value>, faults: &[String]) -> StepError {
        self.cx.note("the last answer of the judge:");
        let last = match structured {
            Some(value) => value.to_string(),
            None => text.to_owned(),
        };
        let last = format!("{last}\n");
        self.cx.services.log(Stream::Note, last.as_bytes());
        StepError::of(
            "ValueError",
            format!(
                "the judge gave no answer that can be used in {ATTEMPTS} attempts; the last one, which is in the log: {}",
                faults.join("; ")
            ),
        )
    }

    async fn ask(&self, text: &str, part: Part, attempt: usize) -> Result<Said, StepError> {
        match &self.who {
            Who::Agent(party) => self.ask_agent(party, text, part, attempt).await,
            Who::Model(models) => self.ask_model(&**models, text).await,
        }
    }

    async fn ask_agent(
        &self,
        party: &Party,
        text: &str,
        part: Part,
        attempt: usize,
    ) -> Result<Said, StepError> {
        let mut digester = Digester::new("judgement");
        digester.text(self.cx.step.as_str());
        digester.number(part.from as u64).number(attempt as u64);
        // Each attempt is a conversation of its own, so that a fault of one does not lead the next.
        let mut talk = Talk::new(&digester.finish().to_string()[..32]);
        let settings = PromptSettings {
            model: self.settings.model.clone(),
            effort: self.settings.effort.clone(),
            max_thinking_tokens: self.settings.max_thinking_tokens,
            output_schema: Some(answer::schema(self.format)),
            ..PromptSettings::default()
        };
        let mut parts = vec![text_part(text)];
        parts.extend(self.frames.iter().map(|frame| {
            json!({"kind": "file", "file": {
                "name": format!("screenshot {}", frame.number), "mimeType": frame.mime, "bytes": frame.base64,
            }})
        }));
        let reply = party.ask(&mut talk, parts, &settings, self.timeout).await;
        let reply = reply.map_err(|error| on_agent::failed(self.cx, error))?;
        let mut trajectory = reply.trajectory;
        if trajectory.is_empty() {
            trajectory = asked_and_said(text, &reply.text);
        }
        Ok(Said {
            text: reply.text,
            structured: reply.structured,
            trajectory,
            model: reply.model,
            broken: None,
        })
    }

    async fn ask_model(&self, models: &dyn Models, text: &str) -> Result<Said, StepError> {
        let model = self.settings.model.clone().unwrap_or_default();
        let mut content = vec![Content::Text(text.to_owned())];
        for frame in &self.frames {
            content.push(Content::Text(format!("Screenshot {}:", frame.number)));
            content.push(Content::Image {
                mime: frame.mime.clone(),
                base64: frame.base64.clone(),
            });
        }
        let request = ChatRequest {
            model: model.clone(),
            messages: vec![ChatMessage::User(content)],
            output_schema: Some(answer::schema(self.format)),
            effort: self.settings.effort.clone(),
            max_thinking_tokens: self.settings.max_thinking_tokens,
            ..ChatRequest::default()
        };
        let answer = tokio::time::timeout(self.timeout, models.chat(request)).await;
        let reply = match answer {
            Ok(Ok(reply)) => reply,
            Ok(Err(error @ ModelError::TimedOut { .. })) => {
                return Err(StepError::of("TimeoutError", error.to_string()));
            }
            Ok(Err(error)) => return Err(StepError::of("ModelError", error.to_string())),
            Err(_) => {
                let seconds = self.timeout.as_secs_f64();
                let error = ModelError::TimedOut { model, seconds };
                return Err(StepError::of("TimeoutError", error.to_string()));
            }
        };
        let broken = match reply.finish {
            Finish::Length => Some("it was cut off, there was no more room for it"),
            Finish::Refusal => Some("the model refused to answer"),
            _ => None,
        };
        Ok(Said {
            trajectory: asked_and_said(text, &reply.text),
            text: reply.text,
            structured: None,
            model: Some(model),
            broken,
        })
    }
}

fn asked_and_said(text: &str, answer: &str) -> Vec<Value> {
    vec![
        json!({"role": "user", "content": text}),
        json!({"role": "assistant", "content": answer}),
    ]
}
