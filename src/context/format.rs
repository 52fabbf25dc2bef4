//! The documented JSON of a context.

use super::output::{Entry, Place};
use super::view::{Outputs, place_metadata};
use crate::json::{Map, Value};

/// The version of the context's JSON form.
pub const FORMAT_VERSION: u32 = 1;

/// Folds the outputs of a run, in list order, into the context's JSON.
pub fn fold_to_json(outputs: &Outputs) -> Value {
    let mut lists: [Vec<Value>; 4] = Default::default();
    let mut metadata = Value::Object(Map::new());
    let mut scalars = Map::new();
    let mut add = |entry: &Entry| {
        let list = match &entry.place {
            Place::Env(_) => 0,
            Place::Agent(_) => 1,
            Place::Sandbox(_) => 2,
            Place::Prompt(_) => 3,
            Place::Set(_) | Place::Append(_) => {
                place_metadata(&mut metadata, entry);
                return;
            }
        };
        lists[list].push((*entry.value).clone());
    };
    outputs.initial().iter().for_each(&mut add);
    for (_, output) in outputs.all() {
        output.entries.iter().for_each(&mut add);
    }
    // Scalars of the context that a run or a step sets travel below the reserved key `@context`.
    if let Value::Object(members) = &mut metadata
        && let Some(Value::Object(reserved)) = members.remove("@context")
    {
        scalars = reserved;
    }
    let mut context = Map::new();
    let [envs, agents, sandboxes, replies] = lists;
    context.insert("deployed_envs".to_owned(), Value::Array(envs));
    context.insert("deployed_agents".to_owned(), Value::Array(agents));
    context.insert("deployed_sandboxes".to_owned(), Value::Array(sandboxes));
    context.insert("prompt_responses".to_owned(), Value::Array(replies));
    context.insert("metadata".to_owned(), metadata);
    for name in [
        "agent_model",
        "default_agent_model",
        "agent_artifact_id",
        "agent_harness",
        "instance_id",
    ] {
        let value = scalars.remove(name).unwrap_or(Value::Null);
        context.insert(name.to_owned(), value);
    }
    Value::Object(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Output;
    use crate::graph::StepIx;
    use crate::json::json;
    use std::sync::Arc;

    #[test]
    fn the_context_does_not_depend_on_who_finished_first() {
        let entry = |name: &str| Entry::data(Place::Sandbox(name.to_owned()), json!(name));
        let list = |name: &str| Entry::data(Place::Append(vec!["l".to_owned()]), json!(name));
        let output = |name: &str| Arc::new(Output::of(vec![entry(name), list(name)]));
        let mut one = Outputs::new(2, Vec::new());
        one.insert(StepIx(0), output("a"));
        one.insert(StepIx(1), output("b"));
        let mut two = Outputs::new(2, Vec::new());
        two.insert(StepIx(1), output("b"));
        two.insert(StepIx(0), output("a"));
        assert_eq!(fold_to_json(&one), fold_to_json(&two));
        assert_eq!(fold_to_json(&one)["deployed_sandboxes"], json!(["a", "b"]));
        assert_eq!(fold_to_json(&one)["metadata"], json!({"l": ["a", "b"]}));
    }
}
