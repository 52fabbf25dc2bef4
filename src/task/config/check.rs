//! What the settings name elsewhere: types of steps.

use super::Config;
use crate::diagnostic::{Diagnostic, Source, did_you_mean};
use crate::json::{Member, Node};

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
        let text = "[determinism.types]\nrun_cod = \"pure\"\nscore = \"pure\"\n";
        let (config, faults) = read(&Source::new("aebuild.toml", text));
        assert_eq!(faults, []);
        let all = check_types(&config, &["run_code", "score"]);
        let helps: String = all
            .iter()
            .filter_map(|fault| fault.help.as_deref())
            .map(|help| format!("  help: {help}\n"))
            .collect();
        expect![[r#"
            aebuild.toml:2:1: error[unknown-type]: `determinism.types` names `run_cod`, which is no step type
              help: did you mean `run_code`?
        "#]].assert_eq(&format!("{}{helps}", concise(&all)));
        assert_eq!(check_types(&Config::default(), &[]), []);
    }
}
