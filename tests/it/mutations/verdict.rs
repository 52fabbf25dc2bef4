//! Which failures only a run can show.

/// How a step failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) step: String,
    pub(super) kind: String,
    pub(super) error_type: String,
    pub(super) error: String,
}

/// What only a run can show: the type of the step, the type of the error, and a part of the message. An empty one fits all.
const ONLY_A_RUN_SHOWS: &[(&str, &str, &str)] = &[];

/// Returns what is wrong with a failure that was knowable, or that nobody has looked at yet.
pub(super) fn of(failure: &Failure) -> Option<String> {
    let Failure {
        step,
        kind,
        error_type,
        error,
    } = failure;
    let fits = |(of_kind, of_type, part): &(&str, &str, &str)| {
        (of_kind.is_empty() || of_kind == kind)
            && (of_type.is_empty() || of_type == error_type)
            && error.contains(part)
    };
    match ONLY_A_RUN_SHOWS.iter().any(fits) {
        true => None,
        false => Some(format!(
            "step `{step}` ({kind}) fails: {error_type}: {error}"
        )),
    }
}
