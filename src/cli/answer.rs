//! `aebuild answer`: answer what a run asks a person.

use std::path::PathBuf;

use super::{ExitStatus, Face, SessionError, fault, show};
use crate::diagnostic::did_you_mean;
use crate::record::desk;
use crate::session::STATE_FOLDER;

/// Answer a question that a run waits with: a review, or a message to a person
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The question; all that wait are listed where it is left out
    #[arg(value_name = "QUESTION")]
    question: Option<String>,
    /// The answer
    #[arg(value_name = "TEXT", requires = "question")]
    text: Option<String>,
    /// Look at this task folder or workspace [default: the current folder]
    #[arg(long = "in", value_name = "PATH")]
    workspace: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let state = show::workspace(args.workspace.as_deref(), face)?.join(STATE_FOLDER);
    let waiting = desk::waiting(&state);
    let Some(id) = args.question else {
        if waiting.is_empty() {
            face.printer.err("no question waits for an answer\n");
        }
        for question in &waiting {
            let text = question.text.replace('\n', "\n    ");
            let choices = match question.choices.len() {
                0 => String::new(),
                _ => format!("\n    answers: {}", question.choices.join(", ")),
            };
            let text = format!(
                "{} (step {} of {})\n    {text}{choices}\n",
                question.id, question.step, question.task
            );
            let safe = face.printer.safe(&text).into_owned();
            face.printer.out(&safe);
        }
        return Ok(ExitStatus::Passed);
    };
    let Some(text) = args.text else {
        return Err(fault::usage(
            "the answer is missing".to_owned(),
            Some(format!("aebuild answer {id} \"..\"")),
        ));
    };
    match desk::answer(&state, &id, &text) {
        Ok(()) => Ok(ExitStatus::Passed),
        Err(why) => {
            let near = did_you_mean(&id, waiting.iter().map(|question| question.id.as_str()));
            let help = near.or_else(|| Some("list the questions: `aebuild answer`".to_owned()));
            Err(fault::usage(why, help))
        }
    }
}
