//! The name that was probably meant.

/// Names longer than this are not compared, so that a hostile one costs nothing.
const MAX_LEN: usize = 128;

/// Returns the name among these that the author probably meant, if any is near enough.
///
/// A name that differs only in case, `-` or `_` is nearest of all. Otherwise about one slip in three characters is
/// forgiven. The first of equals wins.
pub fn nearest<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > MAX_LEN {
        return None;
    }
    let wanted = fold(name);
    let mut best: Option<(usize, f64, &str)> = None;
    for candidate in among {
        if candidate.is_empty() || candidate.len() > MAX_LEN {
            continue;
        }
        let folded = fold(candidate);
        let slips = strsim::osa_distance(&wanted, &folded);
        let likeness = strsim::jaro_winkler(&wanted, &folded);
        let length = wanted.chars().count().max(folded.chars().count());
        let near = slips <= (length / 3).max(usize::from(length > 1)) && slips < length
            || length >= 5 && likeness >= 0.92;
        let better = best.is_none_or(|(s, l, _)| slips < s || slips == s && likeness > l);
        if near && better {
            best = Some((slips, likeness, candidate));
        }
    }
    best.map(|(.., candidate)| candidate)
}

/// Returns "did you mean `..`?" with the nearest name, if any is near enough.
pub fn did_you_mean<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, among).map(|nearest| format!("did you mean `{nearest}`?"))
}

fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 9] = [
        "id",
        "type",
        "prompt",
        "prompt_id",
        "agent_name",
        "timeout_seconds",
        "depends_on",
        "max_retries",
        "ids",
    ];

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        for (name, meant) in [
            ("promt", Some("prompt")),
            ("Prompt", Some("prompt")),
            ("promptId", Some("prompt_id")),
            ("prompt-id", Some("prompt_id")),
            ("dependsOn", Some("depends_on")),
            ("depend_on", Some("depends_on")),
            ("timeout", None),
            ("timeout_second", Some("timeout_seconds")),
            ("tpye", Some("type")),
            ("agentname", Some("agent_name")),
            ("colour", None),
            ("x", None),
            ("", None),
            ("di", Some("id")),
        ] {
            assert_eq!(nearest(name, FIELDS), meant, "{name}");
        }
    }

    #[test]
    fn a_name_of_a_megabyte_is_not_compared() {
        let long = "a".repeat(1 << 20);
        assert_eq!(nearest(&long, FIELDS), None);
        assert_eq!(nearest("prompt", [long.as_str()]), None);
    }

    #[test]
    fn the_question_names_the_nearest() {
        assert_eq!(
            did_you_mean("promt", FIELDS).as_deref(),
            Some("did you mean `prompt`?")
        );
        assert_eq!(did_you_mean("zzz", FIELDS), None);
    }
}
