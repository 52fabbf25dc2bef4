//! `aebuild types` and `aebuild schema`: which step types there are, and which fields they have.

use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::did_you_mean;

/// List the step types
#[derive(clap::Args, Debug)]
pub(super) struct TypesArgs {}

/// Show the fields of a step type as JSON Schema
#[derive(clap::Args, Debug)]
pub(super) struct SchemaArgs {
    /// The step type
    #[arg(value_name = "TYPE")]
    name: String,
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
    let Some(step_type) = face.registry.find(&args.name) else {
        let names = face.registry.0.iter().map(|one| one.name);
        let help = did_you_mean(&args.name, names)
            .unwrap_or_else(|| "list the types: `aebuild types`".to_owned());
        return Err(fault::usage(
            format!("there is no step type `{}`", args.name),
            Some(help),
        ));
    };
    let text = format!("{:#}\n", step_type.schema());
    face.printer.out(&text);
    Ok(ExitStatus::Passed)
}
