//! What editors and systems leave beside the files of an artifact, env or agent, and what is no part of its content.
//!
//! It is told by the name alone, and only by names that nobody gives to a file that is meant to be loaded. A backup has a name
//! that somebody may give: it is one only where the file that it is a backup of stands beside it. A probe such as `4913` of
//! Vim may be a number that counts, and is gone before anybody looks.

/// Returns whether something of this name is no part of any content.
pub fn is_leaving(name: &str) -> bool {
    let is_of_system = matches!(
        name,
        ".DS_Store" | "Thumbs.db" | "desktop.ini" | "__pycache__"
    );
    is_of_system || is_swap(name) || is_lock(name) || is_on_its_way(name)
}

/// Returns the file of which something of this name is a backup, where that one stands beside it.
pub(super) fn original_of(name: &str) -> Option<&str> {
    name.strip_suffix('~').filter(|name| !name.is_empty())
}

/// What Vim and Kate keep of a file that is open, and Emacs of one that is not saved.
fn is_swap(name: &str) -> bool {
    let is_of_vim = |end: &str| {
        let last = end.strip_prefix("sw");
        matches!(last, Some("x" | "p" | "o" | "n" | "m" | "l" | "k"))
    };
    let end = name.rsplit_once('.').map(|(_, end)| end);
    let is_dotted = name.starts_with('.')
        && name.len() > ".swp".len()
        && end.is_some_and(|end| is_of_vim(end) || end == "kate-swp");
    // Without the file's name it is of a buffer that has none.
    let is_autosave = name.len() > 2 && name.starts_with('#') && name.ends_with('#');
    is_dotted || name == ".swp" || is_autosave
}

/// What Emacs, LibreOffice and Office put beside a file that is open.
fn is_lock(name: &str) -> bool {
    name.starts_with(".#")
        || name.starts_with(".~lock.") && name.ends_with('#')
        || name.starts_with("~$")
}

/// What GNOME, JetBrains and a network file system write before a file is in its place, or keep until it is closed.
fn is_on_its_way(name: &str) -> bool {
    name.starts_with(".goutputstream-")
        || name.ends_with("___jb_tmp___")
        || name.ends_with("___jb_old___")
        || name.starts_with(".nfs0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_editors_and_systems_leave_is_known_by_its_name() {
        for name in [
            ".DS_Store",
            "__pycache__",
            ".a.json.swp",
            ".a.json.swx",
            ".a.json.swo",
            ".swp",
            ".a.kate-swp",
            "#a.json#",
            ".#a.json",
            ".~lock.a.csv#",
            "~$a.xlsx",
            ".goutputstream-X4YZ12",
            "a.json___jb_tmp___",
            "a.json___jb_old___",
            ".nfs00000000012a",
        ] {
            assert!(is_leaving(name), "{name}");
        }
    }

    #[test]
    fn what_may_be_meant_is_content() {
        for name in [
            "4913",
            "a.swp",
            ".swift",
            ".a.swift",
            ".a.swf",
            ".gitignore",
            "#",
            "##",
            "#a",
            "a#",
            "a~",
            "~",
            "~a",
            ".env",
            ".nfs",
            "lock",
        ] {
            assert!(!is_leaving(name), "{name}");
        }
        assert_eq!(original_of("a~"), Some("a"));
        assert_eq!(original_of("a~~"), Some("a~"));
        assert_eq!(original_of("~"), None);
        assert_eq!(original_of("a"), None);
    }
}
