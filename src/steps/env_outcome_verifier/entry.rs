//! Which file of an artifact is the verifier, and what kind of verifier it is.

use crate::step::{Content, ContentFile};

/// The file at which a verifier begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'c> {
    /// A TOML file of expectations.
    Declared(&'c ContentFile),
    /// A Python file with a function `verify`.
    Python(&'c ContentFile),
    /// A program.
    Program(&'c ContentFile),
}

/// Number of files that an error names.
const MAX_NAMED: usize = 10;

/// Finds the entry; the error says which files there are instead.
pub(super) fn entry(content: &Content) -> Result<Entry<'_>, String> {
    let name = &content.name;
    if let [only] = &content.files[..] {
        return of_file(only).ok_or_else(|| {
            format!(
                "`{}` of artifact `{name}` is no verifier: it is neither a `.toml` file, nor a `.py` file, nor executable",
                only.path
            )
        });
    }
    let named: Vec<Entry<'_>> = content
        .files
        .iter()
        .filter(|file| {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            matches!(name, "verify.toml" | "verify.py" | "verifier.py")
                || name == "verify" && file.executable
        })
        .filter_map(of_file)
        .collect();
    let python: Vec<Entry<'_>> = content
        .files
        .iter()
        .filter(|file| file.path.ends_with(".py"))
        .map(Entry::Python)
        .collect();
    match (&named[..], &python[..]) {
        ([one], _) | ([], [one]) => Ok(*one),
        _ if content.files.is_empty() => Err(format!("artifact `{name}` has no files")),
        ([], _) => Err(format!(
            "artifact `{name}` has {}, and none of them is the verifier: name it `verify.toml`, `verify.py` or, if it \
             is executable, `verify`",
            listed(content.files.iter())
        )),
        _ => Err(format!(
            "artifact `{name}` has more than one file that could be the verifier: {}",
            listed(named.iter().map(|entry| entry.file()))
        )),
    }
}

fn of_file(file: &ContentFile) -> Option<Entry<'_>> {
    if file.path.ends_with(".toml") {
        Some(Entry::Declared(file))
    } else if file.path.ends_with(".py") {
        Some(Entry::Python(file))
    } else {
        file.executable.then_some(Entry::Program(file))
    }
}

impl<'c> Entry<'c> {
    /// Returns the file.
    pub(super) fn file(self) -> &'c ContentFile {
        match self {
            Entry::Declared(file) | Entry::Python(file) | Entry::Program(file) => file,
        }
    }
}

fn listed<'c>(files: impl ExactSizeIterator<Item = &'c ContentFile>) -> String {
    let more = match files.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names: Vec<String> = files
        .take(MAX_NAMED)
        .map(|file| format!("`{}`", file.path))
        .collect();
    format!("{}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::step::ArtifactKind;
    use expect_test::expect;

    /// Finds the entry among files; a `*` marks one that may be executed.
    fn of(paths: &[&str]) -> String {
        let file = |path: &&str| ContentFile {
            path: path.trim_end_matches('*').to_owned(),
            source: "nowhere".into(),
            executable: path.ends_with('*'),
            digest: Digest::of_bytes(b""),
            size: 0,
        };
        let content = Content {
            name: "check".to_owned(),
            id: "@local/t/check".to_owned(),
            kind: ArtifactKind::FileUniverse,
            files: paths.iter().map(file).collect(),
        };
        match entry(&content) {
            Ok(Entry::Declared(file)) => format!("declared {}", file.path),
            Ok(Entry::Python(file)) => format!("python {}", file.path),
            Ok(Entry::Program(file)) => format!("program {}", file.path),
            Err(why) => why,
        }
    }

    #[test]
    fn the_verifier_is_the_one_file_or_the_one_named_so() {
        let many: Vec<String> = (0..12).map(|n| format!("{n}.txt")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let cases: &[&[&str]] = &[
            &["mail.toml"],
            &["mail.py*"],
            &["mail.sh*"],
            &["mail.sh"],
            &["a.py", "pyproject.toml"],
            &["a.py", "lib/verify.py", "pyproject.toml"],
            &["verify.toml", "expected.json", "a.py", "b.py"],
            &["verify*", "data.csv", "a.py"],
            &["verify", "a.sh*"],
            &["verify.py", "verify.toml"],
            &["a.py", "b.py"],
            &many,
            &[],
        ];
        let shown: Vec<String> = cases.iter().map(|paths| of(paths)).collect();
        expect![[r#"
            declared mail.toml
            python mail.py
            program mail.sh
            `mail.sh` of artifact `check` is no verifier: it is neither a `.toml` file, nor a `.py` file, nor executable
            python a.py
            python lib/verify.py
            declared verify.toml
            program verify
            artifact `check` has `verify`, `a.sh`, and none of them is the verifier: name it `verify.toml`, `verify.py` or, if it is executable, `verify`
            artifact `check` has more than one file that could be the verifier: `verify.py`, `verify.toml`
            artifact `check` has `a.py`, `b.py`, and none of them is the verifier: name it `verify.toml`, `verify.py` or, if it is executable, `verify`
            artifact `check` has `0.txt`, `1.txt`, `2.txt`, `3.txt`, `4.txt`, `5.txt`, `6.txt`, `7.txt`, `8.txt`, `9.txt` and 2 more, and none of them is the verifier: name it `verify.toml`, `verify.py` or, if it is executable, `verify`
            artifact `check` has no files"#]].assert_eq(&shown.join("\n"));
    }
}
