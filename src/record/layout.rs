//! Where the parts of a record lie.

use std::path::{Path, PathBuf};

use crate::digest::Digest;

/// The longest name that is made of a task or step.
const MAX_NAME: usize = 120;

/// Returns the folder of all that aebuild keeps in a workspace.
pub(super) fn home(workspace: &Path) -> PathBuf {
    workspace.join(".aebuild")
}

/// Returns the folder of all records of a workspace.
pub(super) fn runs(workspace: &Path) -> PathBuf {
    home(workspace).join("runs")
}

/// Returns the folder of a record.
pub(super) fn folder(workspace: &Path, run: &str) -> PathBuf {
    runs(workspace).join(run)
}

/// Returns the path of a step's log inside a record.
pub(super) fn log(task: &str, step: &str) -> PathBuf {
    Path::new("logs")
        .join(safe_name(task))
        .join(format!("{}.log", safe_name(step)))
}

/// Returns the path of a task's final context inside a record.
pub(super) fn context(task: &str) -> PathBuf {
    Path::new("context").join(format!("{}.json", safe_name(task)))
}

/// Returns whether a text is the id of a run: `YYYYMMDD-HHMMSS-` and six hexadecimal digits.
pub fn is_run_id(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut next = |len: usize, fits: fn(u8) -> bool| {
        parts
            .next()
            .is_some_and(|part| part.len() == len && part.bytes().all(fits))
    };
    let digit = |c: u8| c.is_ascii_digit();
    let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    next(8, digit) && next(6, digit) && next(6, hex) && parts.next().is_none()
}

/// Returns a name that is fit for a file anywhere, and another one for every text.
///
/// Letters, digits, `.`, `-` and `_` stay, `/` becomes `+`, all else a `%` and its bytes in hexadecimal.
pub fn safe_name(text: &str) -> String {
    use std::fmt::Write as _;
    let mut name = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => name.push_str("%2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => name.push(byte as char),
            b'/' => name.push('+'),
            _ => write!(name, "%{byte:02x}").expect("writing to a string does not fail"),
        }
    }
    if name.is_empty() {
        name.push('%');
    }
    if name.len() > MAX_NAME {
        name.truncate(MAX_NAME - 20);
        write!(name, "%-{}", Digest::of_bytes(text.as_bytes()).short())
            .expect("writing to a string does not fail");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_run_id_is_a_time_and_six_digits() {
        assert!(is_run_id("20260131-235959-0af3c9"));
        for text in [
            "",
            "20260131-235959",
            "20260131-235959-0AF3C9",
            "../../../etc/passwd",
            "*",
        ] {
            assert!(!is_run_id(text), "{text}");
        }
        assert!(!is_run_id("20260131-235959-0af3c9/x"));
        assert!(!is_run_id("20260131-235959-0af3c9-"));
    }

    #[test]
    fn names_stay_readable() {
        assert_eq!(safe_name("tasks/hello.json"), "tasks+hello.json");
        assert_eq!(
            safe_name("tasks/hello.json [sample 2]"),
            "tasks+hello.json%20%5bsample%202%5d"
        );
        assert_eq!(safe_name("../x"), "%2e.+x");
        assert_eq!(safe_name(""), "%");
        assert!(safe_name(&"é".repeat(500)).len() <= MAX_NAME);
    }

    proptest! {
        #[test]
        fn different_texts_have_different_names(a in ".{0,80}", b in ".{0,80}") {
            prop_assert_eq!(a == b, safe_name(&a) == safe_name(&b));
            let name = safe_name(&a);
            prop_assert!(!name.contains('/') && !name.contains('\0') && name != "." && name != "..");
        }
    }
}
