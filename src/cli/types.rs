//! `aebuild types` and `aebuild schema`: which step types there are, and which fields they have.

use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::did_you_mean;
use crate::session::{config_schema, task_schema};

/// The name of the configuration file.
const CONFIG: &str = "aebuild.toml";

/// List the step types
#[derive(clap::Args, Debug)]
pub(super) struct TypesArgs {}

/// Show the JSON Schema of task files, of `aebuild.toml` or of the fields of a step type
#[derive(clap::Args, Debug)]
pub(super) struct SchemaArgs {
    /// A step type, or `aebuild.toml`; task files where it is left out
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
    let about = |kind: &str| {
        let known = face.registry.find(kind);
        known.map_or(String::new(), |known| known.summary())
    };
    let schema = match args.name.as_deref() {
        None => task_schema(face.registry, about),
        Some(CONFIG) => config_schema(),
        Some(name) => match face.registry.find(name) {
            Some(step_type) => step_type.schema().clone(),
            None => {
                let names = face.registry.0.iter().map(|one| one.name);
                let help = did_you_mean(name, names.chain([CONFIG]))
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
