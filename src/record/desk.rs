//! Questions to people: each is a file of the workspace until somebody answers it.
//!
//! A run writes the question and looks for the answer; `aebuild answer` writes the answer, from any terminal. Nothing is lost
//! where nobody is there: the question stays until the run ends.

use std::io;
use std::path::{Path, PathBuf};

use crate::digest::Digester;
use crate::json::{Value, from_slice, json};
use crate::system::disk;

/// The folder of questions, below that of aebuild's own files.
const FOLDER: &str = "questions";

/// A question that waits for an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its name, by which it is answered.
    pub id: String,
    /// The run.
    pub run: String,
    /// The task, as shown.
    pub task: String,
    /// The step.
    pub step: String,
    /// What is asked.
    pub text: String,
    /// The answers that there are; any text where the list is empty.
    pub choices: Vec<String>,
}

/// A question that was put. It is withdrawn when it is dropped.
#[derive(Debug)]
pub struct Asked {
    question: PathBuf,
    answer: PathBuf,
    /// Its name.
    pub id: String,
}

impl Drop for Asked {
    fn drop(&mut self) {
        // What cannot be removed is a question of a run that has ended, which nobody lists.
        let _ = disk::remove_file(&self.question);
        let _ = disk::remove_file(&self.answer);
    }
}

impl Asked {
    /// Returns the answer, once it is there.
    pub fn answer(&self) -> Option<String> {
        let bytes = disk::read(&self.answer).ok()?;
        let value: Value = from_slice(&bytes).ok()?;
        value.get("answer")?.as_str().map(str::to_owned)
    }
}

/// Puts a question, `state` being the folder of aebuild's own files; the id that it has is ignored.
pub fn ask(state: &Path, question: &Question) -> io::Result<Asked> {
    let folder = state.join(FOLDER);
    disk::create_dir_all(&folder)?;
    let mut digester = Digester::new("question");
    for text in [
        &question.run,
        &question.task,
        &question.step,
        &question.text,
    ] {
        digester.text(text);
    }
    let mut n = 0;
    let (id, path) = loop {
        let plain: String = question
            .step
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let mut digester = digester.clone();
        digester.number(n);
        let id = format!("{plain}-{}", &digester.finish().to_string()[..6]);
        let path = folder.join(format!("{id}.json"));
        if !disk::exists(&path) {
            break (id, path);
        }
        n += 1;
    };
    let text = json!({
        "run": question.run,
        "task": question.task,
        "step": question.step,
        "text": question.text,
        "choices": question.choices,
    });
    write(&path, &text)?;
    let answer = folder.join(format!("{id}.answer"));
    // An answer to nothing.
    let _ = disk::remove_file(&answer);
    Ok(Asked {
        question: path,
        answer,
        id,
    })
}

/// Returns the questions that wait, by id.
pub fn waiting(state: &Path) -> Vec<Question> {
    let folder = state.join(FOLDER);
    let names = disk::read_dir(&folder).unwrap_or_default();
    let mut found: Vec<Question> = names
        .iter()
        .filter_map(|name| {
            let id = name.to_str()?.strip_suffix(".json")?;
            let value: Value = from_slice(&disk::read(&folder.join(name)).ok()?).ok()?;
            let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
            let choices = value.get("choices")?.as_array()?;
            Some(Question {
                id: id.to_owned(),
                run: text("run")?,
                task: text("task")?,
                step: text("step")?,
                text: text("text")?,
                choices: choices
                    .iter()
                    .filter_map(|choice| choice.as_str().map(str::to_owned))
                    .collect(),
            })
        })
        .collect();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found
}

/// Answers a question; the error says why that cannot be.
pub fn answer(state: &Path, id: &str, text: &str) -> Result<(), String> {
    let waiting = waiting(state);
    let Some(question) = waiting.iter().find(|question| question.id == id) else {
        return Err(format!("no question `{id}` waits for an answer"));
    };
    if !question.choices.is_empty() && !question.choices.iter().any(|choice| choice == text) {
        let choices: Vec<String> = question.choices.iter().map(|c| format!("`{c}`")).collect();
        return Err(format!("`{text}` is none of {}", choices.join(", ")));
    }
    let path = state.join(FOLDER).join(format!("{id}.answer"));
    write(&path, &json!({"answer": text})).map_err(|error| error.to_string())
}

/// Writes a file so that whoever looks for it finds it whole.
fn write(path: &Path, value: &Value) -> io::Result<()> {
    let half = path.with_extension("half");
    disk::write(&half, value.to_string().as_bytes())?;
    disk::rename(&half, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_waits_until_it_is_answered_and_is_gone_with_whoever_asked() {
        let state = tempfile::tempdir().unwrap();
        let question = Question {
            id: String::new(),
            run: "r".to_owned(),
            task: "tasks/t.json".to_owned(),
            step: "look at it".to_owned(),
            text: "Is it good?".to_owned(),
            choices: vec!["continue".to_owned(), "abort".to_owned()],
        };
        let asked = ask(state.path(), &question).unwrap();
        let other = ask(state.path(), &question).unwrap();
        assert_ne!(asked.id, other.id);
        assert_eq!(waiting(state.path()).len(), 2);
        assert_eq!(asked.answer(), None);
        let refused = answer(state.path(), &asked.id, "maybe").unwrap_err();
        assert_eq!(refused, "`maybe` is none of `continue`, `abort`");
        assert!(answer(state.path(), "other", "x").is_err());
        answer(state.path(), &asked.id, "continue").unwrap();
        assert_eq!(asked.answer().as_deref(), Some("continue"));
        assert_eq!(other.answer(), None);
        drop(asked);
        let left: Vec<String> = waiting(state.path()).into_iter().map(|q| q.id).collect();
        assert_eq!(left, std::slice::from_ref(&other.id));
    }
}
