//! `aebuild types` and `aebuild schema`: which step types there are, and which fields they have.

use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::did_you_mean;
use crate::session::{agent_schema, config_schema, env_schema, task_schema};

/// What besides step types has a schema.
const FILES: [&str; 4] = ["task", "aebuild.toml", "agent.toml", "env.toml"];

/// List the step types
#[derive(clap::Args, Debug)]
pub(super) struct TypesArgs {}

/// Show the JSON Schema of task files, of `aebuild.toml`, `agent.toml` or `env.toml`, or of the fields of a step type
#[derive(clap::Args, Debug)]
pub(super) struct SchemaArgs {
    /// `task`, `config` (or `aebuild.toml`), `agent`, `env`, or a step type [default: task]
    #[arg(value_name = "WHAT")]
    name: Option<String>,
}

/// Runs `types`.
pub(super) fn run_types(_: TypesArgs, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let width = face
        .registry
        .0
        .iter()
        .map(|one| one.name.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for step_type in face.registry.0 {
        let name = step_type.name;
        text.push_str(&format!("{name:width$}  {}\n", step_type.summary()));
    }
    face.printer.out(&text);
    Ok(ExitStatus::Passed)
}

/// Runs `schema`.
pub(super) fn run_schema(args: SchemaArgs, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let schema = match args.name.as_deref() {
        None | Some("task") => task_schema(face.registry),
        Some("config" | "aebuild.toml") => config_schema(),
        Some("agent" | "agent.toml") => agent_schema(),
        Some("env" | "env.toml") => env_schema(),
        Some(name) => match face.registry.find(name) {
            Some(step_type) => step_type.schema().clone(),
            None => {
                let names = face.registry.0.iter().map(|one| one.name);
                let help = did_you_mean(name, names.chain(FILES))
                    .unwrap_or_else(|| "list the types: `aebuild types`".to_owned());
                let message = format!("there is no step type `{name}`");
                return Err(fault::usage(message, Some(help)));
            }
        },
    };
    let text = format!("{schema:#}\n");
    face.printer.out(&text);
    Ok(ExitStatus::Passed)
}
