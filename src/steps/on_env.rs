//! What the steps that work on one env have in common.

use std::time::Duration;

use crate::context::{Entry, Lookup, Place};
use crate::json::Value;
use crate::resource::{ResourceId, Touch};
use crate::step::{NameRef, StepError};

/// Returns the look-up of the env that the field `env_id` names.
pub(super) fn reads(env_id: &str) -> Vec<NameRef> {
    vec![NameRef {
        field: "/env_id".to_owned(),
        lookup: Lookup::Env(env_id.to_owned()),
    }]
}

/// Returns what a step does to its env.
pub(super) fn touches(env_id: &str, touch: Touch) -> Vec<(ResourceId, Touch)> {
    vec![(ResourceId::env(env_id), touch)]
}

/// Returns what a step makes at a path below `metadata` that no field names.
pub(super) fn provides(path: &[&str]) -> NameRef {
    NameRef {
        field: String::new(),
        lookup: Lookup::metadata(path),
    }
}

/// Returns the entry that sets a value below `metadata`.
pub(super) fn set(path: &[&str], value: Value) -> Entry {
    let path = path.iter().map(|&part| part.to_owned()).collect();
    Entry::data(Place::Set(path), value)
}

/// Returns the entry that adds to a list of `metadata`.
pub(super) fn append(list: &str, value: Value) -> Entry {
    Entry::data(Place::Append(vec![list.to_owned()]), value)
}

/// Waits for something, but no longer than a field allows.
pub(super) async fn within<T>(
    seconds: u64,
    field: &str,
    what: &str,
    work: impl Future<Output = Result<T, impl Into<StepError>>>,
) -> Result<T, StepError> {
    match tokio::time::timeout(Duration::from_secs(seconds), work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(StepError::of(
            "TimeoutError",
            format!("{what} took longer than {seconds} s; raise `{field}` if it needs more"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::env::EnvError;
    use crate::steps::testing::block_on;
    use expect_test::expect;

    #[test]
    fn what_takes_too_long_is_given_up() {
        let never = std::future::pending::<Result<(), EnvError>>();
        let error = block_on(within(0, "timeout_seconds", "`set_limit` of `mail`", never));
        expect!["TimeoutError: `set_limit` of `mail` took longer than 0 s; raise `timeout_seconds` if it needs more"]
            .assert_eq(&error.unwrap_err().to_string());
        let done = std::future::ready(Ok::<_, EnvError>(1));
        assert_eq!(block_on(within(1, "timeout_seconds", "it", done)), Ok(1));
    }
}
