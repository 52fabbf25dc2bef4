//! `[lint]`: how much the faults of a code count. Which codes there are is for who finds faults to know.

use std::collections::BTreeMap;

use crate::diagnostic::{Severity, Source};
use crate::json::{Node, Span};
use crate::task::parse::toml;

/// How much the faults of a code count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// They are not told.
    Off,
    /// They are told as this.
    At(Severity),
}

impl Level {
    /// Every level by its name, the mildest first.
    pub const NAMES: [(&str, Level); 4] = [
        ("off", Level::Off),
        ("hint", Level::At(Severity::Hint)),
        ("warning", Level::At(Severity::Warning)),
        ("error", Level::At(Severity::Error)),
    ];

    /// Returns the level of this name.
    pub fn named(name: &str) -> Option<Level> {
        let mut all = Level::NAMES.iter();
        all.find(|(other, _)| *other == name)
            .map(|(_, level)| *level)
    }
}

/// Returns the codes of `[lint]`, and where each is written.
pub fn lint_places(source: &Source) -> Vec<(String, Span)> {
    let (root, _) = toml::parse(source);
    let members = root.get("lint").and_then(Node::as_object);
    let each = members.unwrap_or_default().iter();
    each.map(|member| (member.key.clone(), member.key_span))
        .collect()
}

/// Reads the levels.
pub(super) fn levels(table: Option<&Node>) -> BTreeMap<String, Level> {
    let members = table.and_then(Node::as_object).unwrap_or_default();
    let each = members
        .iter()
        .filter_map(|member| Some((member.key.clone(), Level::named(member.value.as_str()?)?)));
    each.collect()
}
