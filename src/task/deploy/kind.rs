//! Which type an agent is of, and where it is said what does not fit.

use super::{AGENT_KINDS, AgentSpec, Unusable, WAYS, has_file, text};
use crate::json::{Map, Value};
use crate::task::folder::Definition;

/// The type of an agent whose file says none.
const UNSAID: &str = "a2a_agent";

/// Returns the type of an agent. What a table says of how it is run stands in the place of what its folder says, and the
/// type follows from it.
pub(super) fn of_agent(
    wanted: &str,
    definition: Option<&Definition>,
    table: Option<&Value>,
    settings: &Map<String, Value>,
) -> Result<String, Unusable> {
    let says = |key: &str| table.is_some_and(|table| table.get(key).is_some());
    let in_folder = definition.map_or(UNSAID, |definition| definition.kind.as_str());
    let in_table = table.and_then(|table| table.get("type")?.as_str());
    let has = |key: &str| settings.contains_key(key);
    // Two ways are a fault, which is found in one that serves.
    let way = ["url", "image", "command"]
        .into_iter()
        .find(|way| says(way));
    let kind = match (in_table, way) {
        (Some(kind), _) => kind,
        (None, Some("command")) if in_folder == "a2a" => "a2a",
        (None, Some("command")) => "command",
        (None, Some(_)) => "a2a",
        (None, None) => in_folder,
    };
    let kind = match kind {
        UNSAID if has_file(definition, "script.json") => "scripted",
        UNSAID if has("url") => "a2a",
        UNSAID if has("model") => "model",
        UNSAID if has("command") => "command",
        UNSAID if has("image") || has_file(definition, "Dockerfile") => "a2a",
        other => other,
    };
    let name = definition.map_or(wanted, |definition| &definition.name);
    if in_table.is_none() && says("model") && !matches!(kind, "model" | UNSAID) {
        return Err(Unusable::new(
            "conflicting-fields",
            format!(
                "[agents.{name}] names a `model`, but agent `{wanted}` is of type `{kind}`, which asks none"
            ),
            format!(
                "add `type = \"model\"` to [agents.{name}] of aebuild.toml, or delete `model` there"
            ),
        ));
    }
    if AGENT_KINDS.contains(&kind) {
        return Ok(kind.to_owned());
    }
    let place = match in_table.or(way) {
        Some(_) => format!("[agents.{name}] of aebuild.toml"),
        None if definition.is_some() => format!("agents/{name}/agent.toml"),
        None => format!("[agents.{name}] of aebuild.toml"),
    };
    let kinds = AGENT_KINDS.iter().map(|kind| format!("`{kind}`"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let is_said = in_table.is_some() || text(settings, "type").is_some();
    Err(match is_said {
        true => Unusable::new(
            "not-supported-yet",
            format!("agent `{wanted}` is of type `{kind}`, which cannot be run in this release"),
            format!(
                "write one of {kinds} as the `type` in {place}, or say with [agents.{name}] of aebuild.toml how it is run"
            ),
        ),
        false => Unusable::new(
            "unknown-way-to-run",
            format!("the type of agent `{wanted}` is missing: nothing says what it is"),
            format!("write one of {kinds} as the `type` into {place}"),
        ),
    })
}

/// Names the file of the folder in the help, where the fault is there and not in the table.
pub(super) fn at(why: Unusable, spec: &AgentSpec, table: Option<&Value>) -> Unusable {
    let in_table = table.is_some_and(|table| WAYS.iter().any(|way| table.get(*way).is_some()));
    let Some(name) = spec.folder.as_ref().filter(|_| !in_table) else {
        return why;
    };
    let place = format!("agents/{name}/agent.toml");
    let named = |help: String| match why.code {
        "conflicting-fields" => help.replace(&format!("[agents.{name}]"), &place),
        _ => help,
    };
    Unusable {
        help: why.help.clone().map(named),
        ..why
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::json::json;
    use crate::system::MemorySystem;
    use crate::task::folder;

    #[track_caller]
    fn check(file: &str, table: Value, expected: &str) {
        let system = MemorySystem::new();
        system.write("/w/f/tasks/t.json", "[]");
        system.write("/w/f/agents/solver/agent.toml", file);
        let (folder, faults) = folder::read(&system, Path::new("/w/f"), "f");
        assert_eq!(faults, []);
        let tables = BTreeMap::from([("solver".to_owned(), table)]);
        let found = match AgentSpec::of(None, "solver", &folder, &tables) {
            Ok(spec) => format!("{} {:?}", spec.kind, spec.run().unwrap()),
            Err(why) => format!("{}: {} ({})", why.code, why.headline, why.help.unwrap()),
        };
        assert!(found.starts_with(expected), "{found}");
    }

    #[test]
    fn a_table_says_how_an_agent_is_run_whatever_its_file_says() {
        let url = json!({"url": "http://h"});
        let program = "type = \"command\"\ncommand = [\"say\"]\n";
        for file in [
            program,
            "type = \"a2a\"\ncommand = [\"serve\"]\n",
            "type = \"scripted\"\nrules = [{ reply = \"x\" }]\n",
            "type = \"model\"\nmodel = \"m\"\n",
            "",
        ] {
            check(file, url.clone(), "a2a Url");
            check(file, json!({"type": "a2a", "url": "http://h"}), "a2a Url");
            check(file, json!({"type": "model", "model": "m"}), "model Inside");
            check(
                file,
                json!({"url": "x", "command": ["y"]}),
                "conflicting-fields: ",
            );
        }
        check(program, json!({"command": ["other"]}), "command Program");
        check(
            "type = \"a2a\"\nurl = \"http://h\"\n",
            json!({"command": ["serve"]}),
            "a2a Served",
        );
        check(
            "type = \"scripted\"\nrules = [{ reply = \"x\" }]\n",
            json!({"command": ["say"]}),
            "command Program",
        );
        check(
            "type = \"model\"\nmodel = \"m\"\n",
            json!({"model": "n"}),
            "model Inside",
        );
        check("", json!({"model": "n"}), "model Inside");
    }

    #[test]
    fn what_does_not_fit_is_told_with_where_it_is() {
        check(
            "type = \"scripted\"\nrules = [{ reply = \"x\" }]\n",
            json!({"model": "m"}),
            "conflicting-fields: [agents.solver] names a `model`, but agent `solver` is of type `scripted`, which asks none \
             (add `type = \"model\"` to [agents.solver] of aebuild.toml, or delete `model` there)",
        );
        check(
            "type = \"a2a\"\nurl = \"http://h\"\ncommand = [\"x\"]\n",
            json!({}),
            "conflicting-fields: agent `solver` has both `url` and `command`, but is run in one way (delete `url` or \
             `command` from agents/solver/agent.toml)",
        );
        check(
            "",
            json!({}),
            "unknown-way-to-run: the type of agent `solver` is missing: nothing says what it is (write one of `scripted`, \
             `model`, `command`, `a2a` as the `type` into agents/solver/agent.toml)",
        );
        check(
            "type = \"elsewhere\"\n",
            json!({}),
            "not-supported-yet: agent `solver` is of type `elsewhere`, which cannot be run in this release (write one of \
             `scripted`, `model`, `command`, `a2a` as the `type` in agents/solver/agent.toml",
        );
    }
}
