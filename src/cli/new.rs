//! `aebuild new`: make a task folder to start from.

use std::path::{Path, PathBuf};

use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::{did_you_mean, visible_line};
use crate::system::disk;

/// Make a task folder to start from
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The folder, which must not be there yet or be empty
    #[arg(value_name = "NAME", required_unless_present = "list")]
    folder: Option<PathBuf>,
    /// What to start from
    #[arg(long, value_name = "TEMPLATE", default_value = "minimal")]
    template: String,
    /// List the templates
    #[arg(long)]
    list: bool,
}

/// A folder to start from.
struct Template {
    name: &'static str,
    about: &'static str,
    /// Each file with its path.
    files: &'static [(&'static str, &'static str)],
}

/// Returns the files of a template, compiled in.
macro_rules! files {
    ($template:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("new/", $template, "/", $path)))),+]
    };
}

const TEMPLATES: [Template; 5] = [
    Template {
        name: "minimal",
        about: "a file in a sandbox, and a verifier that looks at it",
        files: files!("minimal": "README.md", "tasks/hello.json", "artifacts/greeting/hello.txt"),
    },
    Template {
        name: "mcp-env",
        about: "an MCP server in Python, an agent that calls its tools, and a verifier of its end state",
        files: files!(
            "mcp-env": "README.md", "tasks/note.json", "envs/notes/env.toml", "envs/notes/server.py",
            "agents/assistant/agent.toml", "artifacts/noted/verify.toml",
        ),
    },
    Template {
        name: "judge",
        about: "a letter, and a judge that grades it by a rubric",
        files: files!(
            "judge": "README.md", "tasks/letter.json", "agents/writer/agent.toml", "agents/judge/agent.toml",
        ),
    },
    Template {
        name: "two-agents",
        about: "a conversation of an assistant with an agent that plays the user",
        files: files!(
            "two-agents": "README.md", "tasks/talk.json", "agents/assistant/agent.toml",
            "agents/customer/agent.toml",
        ),
    },
    Template {
        name: "experiment",
        about: "two variants of a task, run for each row of a table of seeds",
        files: files!(
            "experiment": "README.md", "tasks/control.json", "tasks/treatment.json", "agents/writer/agent.toml",
            "seeds.csv",
        ),
    },
];

/// Runs the command.
pub(super) fn run(args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let Some(folder) = args.folder.filter(|_| !args.list) else {
        let lines = TEMPLATES
            .iter()
            .map(|one| format!("{:10}  {}\n", one.name, one.about));
        face.printer.out(&lines.collect::<String>());
        return Ok(ExitStatus::Passed);
    };
    let Some(template) = TEMPLATES.iter().find(|one| one.name == args.template) else {
        let help = did_you_mean(&args.template, TEMPLATES.iter().map(|one| one.name));
        let help = help.unwrap_or_else(|| "list the templates: `aebuild new --list`".to_owned());
        let message = format!("there is no template `{}`", visible_line(&args.template));
        return Err(fault::usage(message, Some(help)));
    };
    let shown = shown(&folder)?;
    refuse_what_is_there(&folder, &shown)?;
    for (path, text) in template.files {
        let file = folder.join(path);
        let made = file.parent().map_or(Ok(()), disk::create_dir_all);
        let text = match *path {
            "README.md" => {
                text.replace("NAME", &shown)
                    .replacen(&format!("# {shown}"), &title(&folder), 1)
            }
            _ => (*text).to_owned(),
        };
        made.and_then(|()| disk::write(&file, text.as_bytes()))
            .map_err(|error| {
                SessionError::World(format!("`{}` cannot be made: {error}", file.display()))
            })?;
    }
    let n = template.files.len();
    face.printer.err(&format!(
        "made {shown}/ with {n} files; start with `aebuild run {shown}`\n"
    ));
    Ok(ExitStatus::Passed)
}

fn title(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    format!("# {name}")
}

/// Returns the folder as it is typed, or refuses a name that would have to be quoted or hidden.
fn shown(folder: &Path) -> Result<String, SessionError> {
    let refuse = |text: &str| {
        let message = format!("`{}` is no name for a task folder", visible_line(text));
        let help = "use letters, digits, `-`, `_` and `.`, and start with a letter or digit";
        Err(fault::usage(message, Some(help.to_owned())))
    };
    let Some(text) = folder.to_str() else {
        return refuse(&folder.to_string_lossy());
    };
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_typed = |c: char| is_plain(c) || matches!(c, '/' | '~' | '+');
    match starts_well && name.chars().all(is_plain) && text.chars().all(is_typed) {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => refuse(text),
    }
}

fn refuse_what_is_there(folder: &Path, shown: &str) -> Result<(), SessionError> {
    if !disk::exists(folder) {
        return Ok(());
    }
    let message = match disk::read_dir(folder) {
        Ok(names) if names.is_empty() => return Ok(()),
        Ok(_) => format!("`{shown}` is there already and is not empty"),
        Err(_) => format!("`{shown}` is there already and is no folder"),
    };
    Err(fault::usage(message, Some("give another name".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_can_be_typed_are_taken() {
        for name in ["a", "my-task", "x/y/z_1", "/tmp/a.b", "a/"] {
            assert_eq!(
                shown(Path::new(name)).expect("it is fine"),
                name.trim_end_matches('/')
            );
        }
        for name in [
            "", ".", "..", "/", "-a", ".a", "a b", "a\u{1b}", "a/..", "$x/y", "é",
        ] {
            assert!(shown(Path::new(name)).is_err(), "{name}");
        }
    }
}
