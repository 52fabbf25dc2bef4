//! The name that was probably meant.

/// Names longer than this are not compared, so that a hostile one costs nothing.
const MAX_LEN: usize = 128;

/// A name that was written, and the one that was probably meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meant {
    /// What was written.
    pub written: String,
    /// What was probably meant.
    pub name: String,
    /// Whether it is the only one near, and so near that it is beyond doubt.
    pub is_sure: bool,
}

impl Meant {
    /// Returns "did you mean `..`?".
    pub fn question(&self) -> String {
        format!("did you mean `{}`?", self.name)
    }
}

/// Returns the name among these that the author probably meant, if any is near enough.
///
/// A name that differs only in case, `-` or `_` is nearest of all. Otherwise about one slip in three characters is
/// forgiven. The first of equals wins.
pub fn nearest<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    best(name, among).map(|best| best.name)
}

/// Returns the name among these that the author probably meant, and whether that is beyond doubt.
///
/// It is where no other name is near, the digits are the same, and one letter in four at most is another.
pub fn meant<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> Option<Meant> {
    let best = best(name, among)?;
    let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
    let most = fold(name).chars().count() / 4;
    Some(Meant {
        written: name.to_owned(),
        name: best.name.to_owned(),
        is_sure: best.is_alone && best.slips <= most.min(2) && digits(name) == digits(best.name),
    })
}

struct Best<'a> {
    name: &'a str,
    slips: usize,
    is_alone: bool,
}

fn best<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> Option<Best<'a>> {
    if name.is_empty() || name.len() > MAX_LEN {
        return None;
    }
    let wanted = fold(name);
    let mut best: Option<(usize, f64, &str)> = None;
    let mut is_alone = true;
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
        if near {
            is_alone = best.is_none_or(|(.., known)| is_alone && known == candidate);
        }
        if near && better {
            best = Some((slips, likeness, candidate));
        }
    }
    best.map(|(slips, _, name)| Best {
        name,
        slips,
        is_alone,
    })
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
    fn what_was_meant_is_beyond_doubt_only_where_one_name_is_near_and_nearly_the_same() {
        let is_sure = |name: &str, among: &[&str]| {
            meant(name, among.iter().copied()).map(|meant| meant.is_sure)
        };
        assert_eq!(is_sure("promt", &["prompt", "type"]), Some(true));
        assert_eq!(is_sure("promptId", &["prompt", "prompt_id"]), Some(false));
        assert_eq!(is_sure("dependsOn", &["depends_on", "id"]), Some(true));
        assert_eq!(is_sure("bx", &["box"]), Some(false));
        assert_eq!(is_sure("sandbox2", &["sandbox1"]), Some(false));
        assert_eq!(
            is_sure("agent_nam", &["agent_name", "agent_names"]),
            Some(false)
        );
        assert_eq!(is_sure("promt", &["prompt", "prompt"]), Some(true));
        assert_eq!(is_sure("colour", &["prompt"]), None);
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
