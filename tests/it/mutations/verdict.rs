//! Which failures only a run can show, and which a warning foretells.

use aebuild::diagnostic::Diagnostic;

/// How a step failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) step: String,
    pub(super) kind: String,
    pub(super) error_type: String,
    pub(super) error: String,
}

/// What was knowable, whoever says it: parts of messages.
const KNOWABLE: &[&str] = &[
    "there is no env `",
    "needs an env that is named",
    "the agent may not ask",
    "has no tool `",
    "is not deployed by a step",
    "is not among what the step said it touches",
    "nobody plays the user",
    "which model it asks",
    "is no regular expression",
    "is no JSONPath",
    "which nothing before it saves",
    "the run panics",
];

/// What only a run can show: the type of the step, the type of the error, and a part of the message. An empty one fits
/// all.
const ONLY_A_RUN_SHOWS: &[(&str, &str, &str)] = &[
    // What an agent says and what its tools answer.
    ("", "", "A2A task failed (error_type=agent_error"),
    (
        "rubrics_verifier",
        "ValueError",
        "the judge gave no answer that can be used",
    ),
    // Which keys this machine has.
    ("", "ModelError", "nothing says how it is reached"),
    // What a server says of itself.
    ("apply_server_config", "", "does not advertise"),
    // What commands leave in a sandbox.
    ("collect_artifacts", "", "in the sandbox"),
    ("run_code", "RunCodeExecutionError", "exited "),
];

/// What a warning foretells: its code, and a part of the message of the step that fails. A name that the warning shows in
/// backticks is in the message too.
const FORETOLD: &[(&str, &str)] = &[
    ("unmatched-prompt", "no rule of the script"),
    ("missing-field", "needs an env that is named"),
    ("no-path-to-producer", "the agent may not ask"),
    ("unknown-name", "the agent may not ask"),
    ("unknown-name", "there is no env `"),
];

/// Returns what is wrong with a failure that was knowable and of which nothing warned, or that nobody has looked at yet.
pub(super) fn of(failure: &Failure, faults: &[Diagnostic]) -> Option<String> {
    let Failure {
        step,
        kind,
        error_type,
        error,
    } = failure;
    let foretells = |fault: &Diagnostic| {
        let mut names = fault.headline.split('`').skip(1).step_by(2);
        let is_named = names.any(|name| !name.is_empty() && (error.contains(name) || step == name));
        let is_its =
            |(code, part): &(&str, &str)| fault.code.as_str() == *code && error.contains(part);
        is_named && FORETOLD.iter().any(is_its)
    };
    let fits = |(of_kind, of_type, part): &(&str, &str, &str)| {
        (of_kind.is_empty() || of_kind == kind)
            && (of_type.is_empty() || of_type == error_type)
            && error.contains(part)
    };
    let was_knowable = KNOWABLE.iter().any(|part| error.contains(part));
    let shows_late = ONLY_A_RUN_SHOWS.iter().any(fits) && !was_knowable;
    (!shows_late && !faults.iter().any(foretells))
        .then(|| format!("step `{step}` ({kind}) fails: {error_type}: {error}"))
}

/// Returns whether steps are said to change or read one thing in no order.
pub(super) fn tells_of_no_order(faults: &[Diagnostic]) -> bool {
    let codes = ["unordered-changes", "unordered-observer"];
    faults
        .iter()
        .any(|fault| codes.contains(&fault.code.as_str()))
}
