//! What the settings name elsewhere: types of steps, steps of tasks, envs and agents that tasks deploy.

use std::collections::BTreeSet;

use super::Config;
use crate::diagnostic::{Diagnostic, Source, did_you_mean};
use crate::json::{Member, Node};

/// What all tasks for which the settings hold have and use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// The steps, as `<task>/<step>`.
    pub steps: BTreeSet<String>,
    /// The names by which envs are deployed: what the step says, and the name of the folder.
    pub envs: BTreeSet<String>,
    /// The names by which agents are deployed: what the step says, and the name of the folder.
    pub agents: BTreeSet<String>,
}

/// Refuses types of `determinism.types` that are not among the types of steps: a slip would keep what must not be kept.
pub fn check_types(config: &Config, types: &[&str]) -> Vec<Diagnostic> {
    let Some((source, members)) = members(config, &["determinism", "types"]) else {
        return Vec::new();
    };
    let unknown = members
        .iter()
        .filter(|member| !types.contains(&member.key.as_str()));
    let each = unknown.map(|member| {
        let headline = format!(
            "`determinism.types` names `{}`, which is no step type",
            member.key
        );
        let help = did_you_mean(&member.key, types.iter().copied());
        Diagnostic::error("unknown-type", headline)
            .primary(source, member.key_span, "no step type has this name")
            .help(help)
    });
    each.collect()
}

/// Tells of steps that no task has, and of tables of envs and agents that no task deploys.
pub fn unused(config: &Config, used: &Used) -> Vec<Diagnostic> {
    let mut hints = Vec::new();
    if let Some((source, members)) = members(config, &["determinism", "steps"]) {
        let ids = used
            .steps
            .iter()
            .map(|step| step.rsplit('/').next().unwrap_or(step));
        let ids: BTreeSet<&str> = ids.collect();
        for member in members {
            let key = member.key.as_str();
            if used.steps.contains(key) || ids.contains(key) {
                continue;
            }
            let headline = format!("`determinism.steps` names `{key}`, which no task has");
            let among = used
                .steps
                .iter()
                .map(String::as_str)
                .chain(ids.iter().copied());
            hints.push(
                Diagnostic::hint("unused-setting", headline)
                    .primary(source, member.key_span, "no step has this name")
                    .help(did_you_mean(key, among)),
            );
        }
    }
    for (kind, noun, names) in [
        ("envs", "env", &used.envs),
        ("agents", "agent", &used.agents),
    ] {
        let Some((source, members)) = members(config, &[kind]) else {
            continue;
        };
        for member in members.iter().filter(|member| !names.contains(&member.key)) {
            let headline = format!(
                "[{kind}.{}] is for an {noun} that no task deploys",
                member.key
            );
            hints.push(
                Diagnostic::hint("unused-setting", headline)
                    .primary(source, member.key_span, "")
                    .help(did_you_mean(&member.key, names.iter().map(String::as_str))),
            );
        }
    }
    hints
}

fn members<'c>(config: &'c Config, path: &[&str]) -> Option<(&'c Source, &'c [Member])> {
    let written = config.written.as_ref()?;
    let table = path
        .iter()
        .try_fold(&written.node, |node, key| node.get(key));
    Some((&written.source, table.and_then(Node::as_object)?))
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use crate::diagnostic::concise::concise;
    use expect_test::expect;

    #[test]
    fn what_names_nothing_is_told_where_it_stands() {
        let text = "[determinism.types]\nrun_cod = \"pure\"\nscore = \"pure\"\n[determinism.steps]\nb = \"pure\"\n\"t/a\" = \"pure\"\n\
                    \"t/aa\" = \"pure\"\n[envs.mial]\nbuiltin = \"mail\"\n[agents.bot]\ntype = \"model\"\nmodel = \"m\"\n";
        let (config, faults) = read(&Source::new("aebuild.toml", text));
        assert_eq!(faults, []);
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let used = Used {
            steps: named(&["t/a", "u/b"]),
            envs: named(&["mail"]),
            agents: named(&["bot"]),
        };
        let mut all = check_types(&config, &["run_code", "score"]);
        all.extend(unused(&config, &used));
        let helps: String = all
            .iter()
            .filter_map(|fault| fault.help.as_deref())
            .map(|help| format!("  help: {help}\n"))
            .collect();
        expect![[r#"
            aebuild.toml:2:1: error[unknown-type]: `determinism.types` names `run_cod`, which is no step type
            aebuild.toml:7:1: hint[unused-setting]: `determinism.steps` names `t/aa`, which no task has
            aebuild.toml:8:7: hint[unused-setting]: [envs.mial] is for an env that no task deploys
              help: did you mean `run_code`?
              help: did you mean `t/a`?
              help: did you mean `mail`?
        "#]].assert_eq(&format!("{}{helps}", concise(&all)));
        assert_eq!(unused(&Config::default(), &used), []);
    }
}
