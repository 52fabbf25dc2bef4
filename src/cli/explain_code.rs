//! `aebuild explain-code`: what a code of a fault means.

use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::{did_you_mean, page, pages};
use crate::report::Paint;

/// Show the page of a code: what it means, an input that shows it, and how to mend it
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The code, as it is or as in `error[code]`; all are listed where it is left out
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let Some(asked) = args.code else {
        let width = pages().iter().map(|page| page.code().len()).max();
        let width = width.unwrap_or_default();
        let mut text = String::new();
        for page in pages() {
            text.push_str(&format!(
                "{:width$}  {}\n",
                page.code(),
                first_sentence(page.lead())
            ));
        }
        face.printer.out(&text);
        return Ok(ExitStatus::Passed);
    };
    let code = code_of(&asked);
    let Some(page) = page(&code) else {
        let near = did_you_mean(&code, pages().iter().map(|page| page.code()));
        let help = near.unwrap_or_else(|| "list the codes: `aebuild explain-code`".to_owned());
        return Err(fault::usage(
            format!("there is no code `{code}`"),
            Some(help),
        ));
    };
    let title = face.printer.paint_out(Paint::Bold, page.code());
    let text = format!("{title}\n\n{}\n", page.text());
    face.printer.out(&text);
    Ok(ExitStatus::Passed)
}

/// Returns the code in what was pasted, such as `error[no-such-path]: `.
fn code_of(asked: &str) -> String {
    let inner = asked.split_once('[').map_or(asked, |(_, rest)| rest);
    let end = inner.find([']', ':']).unwrap_or(inner.len());
    inner[..end]
        .trim()
        .to_ascii_lowercase()
        .replace(['_', ' '], "-")
}

fn first_sentence(text: &str) -> String {
    let text = text.replace('\n', " ");
    let end = text.find(". ").unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_in_what_was_pasted() {
        for asked in [
            "unknown-name",
            "error[unknown-name]",
            "error[unknown-name]: step `a` reads",
            " Unknown_Name ",
            "[unknown-name",
            "unknown-name:",
        ] {
            assert_eq!(code_of(asked), "unknown-name", "{asked}");
        }
    }
}
