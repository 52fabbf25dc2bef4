//! The key of a step: everything of its own that decides its result.
//!
//! | in the key | not in the key |
//! |---|---|
//! | step type, its implementation version | step id of other steps, position in the file |
//! | own fields, defaults filled, seed values and per-run overrides applied | formatting, key order, comments, `version`, `depends_on` as such |
//! | content of every file it uses | file times, owners, absolute paths |
//! | digest of each value it looked up, and that nothing was found where nothing was | values it did not look up |
//! | version of each resource it touches | handles, URLs, instance ids |
//! | sample number where it is sampled | timeouts, jobs, display options |
//! | values of the environment variables it declares, by digest; the tools it runs, by version | the rest of the environment |
//!
//! The values looked up and the versions of resources are the reads of a [`Trace`](super::Trace).

use std::sync::Arc;

use crate::digest::{Digest, Digester, Manifest};
use crate::json::Value;
use crate::step::{Content, Determinism, Step, StepType};

/// The key of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The digest of the manifest.
    pub fingerprint: Digest,
    /// Names the step over all its versions: task name and step id.
    pub lineage: Digest,
    /// The parts that are in the digest.
    pub manifest: Manifest,
}

impl Key {
    /// Returns the key of the step of this name with these ingredients.
    pub fn of(manifest: Manifest, task: &str, step: &str) -> Self {
        let mut digester = Digester::new("lineage");
        digester.text(task).text(step);
        Key {
            fingerprint: manifest.finish(),
            lineage: digester.finish(),
            manifest,
        }
    }
}

/// What besides its fields goes into a step's key.
#[derive(Clone, Debug, Default)]
pub struct Ingredients {
    /// The content of the artifacts that it uses, in the order of its references.
    pub contents: Vec<Arc<Content>>,
    /// The versions of the tools that it runs.
    pub tools: Vec<(String, String)>,
    /// The values of the environment variables that it declares.
    pub variables: Vec<(String, Option<String>)>,
    /// How its sandboxes are walled off, where it touches one.
    pub isolation: Option<&'static str>,
    /// What the configuration says of the models that it names, as far as that decides their answers.
    pub models: Vec<(String, Value)>,
    /// The number of the sample.
    pub sample: u32,
}

/// Fields that change how long a step may take or how it is shown, never what it gives.
const NOT_IN_KEY: &[&str] = &["timeout_seconds", "shell_timeout_seconds", "ttl_seconds"];

/// Returns the key of a step.
pub fn fingerprint(
    task: &str,
    id: &str,
    step_type: &StepType,
    step: &dyn Step,
    determinism: Determinism,
    ingredients: &Ingredients,
) -> Key {
    let mut manifest = Manifest::default();
    manifest.value("type", &Value::String(step_type.name.to_owned()));
    manifest.value(
        format!("version of type `{}`", step_type.name),
        &step_type.version.into(),
    );
    if let Value::Object(fields) = step.fields() {
        for (name, value) in &fields {
            // A field that is null says what its absence says.
            if !value.is_null() && !NOT_IN_KEY.contains(&name.as_str()) {
                manifest.value(format!("field `{name}`"), value);
            }
        }
    }
    for content in &ingredients.contents {
        content.write_to(&mut manifest);
    }
    for (tool, version) in &ingredients.tools {
        manifest.value(format!("tool `{tool}`"), &Value::String(version.clone()));
    }
    for (name, value) in &ingredients.variables {
        manifest.secret(format!("variable `{name}`"), value.as_deref());
    }
    for (model, decides) in &ingredients.models {
        manifest.value(format!("model `{model}`"), decides);
    }
    if let Some(isolation) = ingredients.isolation {
        manifest.value("isolation", &Value::String(isolation.to_owned()));
    }
    if determinism == Determinism::Sampled {
        manifest.value("sample", &ingredients.sample.into());
        // Two steps alike in everything are two samples all the same.
        manifest.value("sample of", &Value::String(id.to_owned()));
    }
    Key::of(manifest, task, id)
}
