//! What a command wrote, as it may stand in a result: without the folders of the host.
//!
//! Without a wall, a command sees `/app` as a folder of the host, and says so in its messages. That folder has another
//! name in every run.

use std::path::Path;

use crate::step::sandbox::{Isolation, Sandbox};

/// Returns a text with the host's folders of a sandbox named as the sandbox knows them.
pub(super) fn shown(sandbox: &dyn Sandbox, text: &str) -> String {
    let temp = sandbox.temp_dir();
    let folder = Path::new(temp)
        .parent()
        .and_then(Path::to_str)
        .unwrap_or("");
    if sandbox.isolation() != Isolation::None || folder.len() < 2 {
        return text.replace(temp, "$TMPDIR");
    }
    text.replace(temp, "$TMPDIR")
        .replace(&format!("{folder}/root"), "")
        .replace(&format!("{folder}/home"), "~")
        .replace(folder, "")
}

/// Returns the last characters of a text, at most this many, after a mark that some are missing.
pub(super) fn tail(text: &str, characters: usize) -> String {
    let text = text.trim();
    match text.char_indices().rev().nth(characters.saturating_sub(1)) {
        Some((at, _)) if at > 0 => format!("…{}", &text[at..]),
        _ => text.to_owned(),
    }
}

/// Returns the first characters of a text, at most this many, before a mark that some are missing.
pub(super) fn head(text: &str, characters: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(characters) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::FakeSandbox;

    #[test]
    fn folders_of_the_host_are_not_shown() {
        let sandbox = FakeSandbox::new("box").at("/live/run-7/box/tmp");
        let text = "cat: /live/run-7/box/root/app/x and /live/run-7/box/tmp/y: no such file";
        assert_eq!(
            shown(&sandbox, text),
            "cat: /app/x and $TMPDIR/y: no such file"
        );
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(tail("äöü", 2), "…öü");
        assert_eq!(tail("äöü", 3), "äöü");
        assert_eq!(head("äöü", 2), "äö…");
        assert_eq!(head("äöü\n", 3), "äöü");
    }
}
