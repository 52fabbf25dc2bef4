//! The names of a sandbox's folders in the commands of a sandbox without a wall.
//!
//! Where `/app` of a sandbox is a folder somewhere on the host, a command that says `/app` must be made to say that
//! folder. This is a rewriting of text and knows nothing of shells beyond where a word may begin and end.

use std::path::{Path, PathBuf};

use crate::system::disk;

/// Names that never stand for a folder of the sandbox: commands mean the host's.
const HOST: [&str; 12] = [
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "proc", "dev", "sys", "run",
];

/// The rewriting for one command: which top-level folders are the sandbox's own, and where they are.
#[derive(Debug)]
pub(crate) struct Rewrite {
    root: String,
    /// The folder that holds the root and the sandbox's other folders: a path below it is the host's already.
    own: String,
    /// Folders of the host that the sandbox sees under their own names.
    mounts: Vec<String>,
    names: Vec<String>,
}

impl Rewrite {
    /// Returns the rewriting for a sandbox whose root is a folder of the host, and which sees other folders of it.
    pub(crate) fn new(root: &Path, mounts: &[PathBuf]) -> Self {
        let mut names: Vec<String> = disk::read_dir(root)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .filter(|name| !HOST.contains(&name.as_str()))
            .collect();
        if !names.iter().any(|name| name == "app") {
            names.push("app".to_owned());
        }
        Self {
            root: root.to_string_lossy().into_owned(),
            own: format!("{}/", root.parent().unwrap_or(root).display()),
            mounts: mounts
                .iter()
                .map(|mount| mount.to_string_lossy().into_owned())
                .collect(),
            names,
        }
    }

    /// Returns an argument as the host knows it: one that is such a folder, or begins with one and `/` or `:`.
    pub(crate) fn argument(&self, argument: &str) -> String {
        match self.name_at(argument) {
            Some(name)
                if matches!(
                    argument[1 + name.len()..].chars().next(),
                    None | Some('/' | ':')
                ) =>
            {
                format!("{}{argument}", self.root)
            }
            _ => argument.to_owned(),
        }
    }

    /// Returns a script in which every word that is such a folder, or a path below one, is the host's.
    pub(crate) fn script(&self, script: &str) -> String {
        let mut out = String::with_capacity(script.len());
        let mut rest = 0;
        for (slash, _) in script.match_indices('/') {
            if !begins_word(&script[..slash]) {
                continue;
            }
            let Some(name) = self.name_at(&script[slash..]) else {
                continue;
            };
            if ends_name(&script[slash + 1 + name.len()..]) {
                out.push_str(&script[rest..slash]);
                out.push_str(&self.root);
                rest = slash;
            }
        }
        out.push_str(&script[rest..]);
        out
    }

    /// Returns the longest name of a folder of the sandbox with which a text begins, after a slash.
    fn name_at(&self, text: &str) -> Option<&str> {
        let is_below = |mount: &String| {
            let below = text.strip_prefix(mount.as_str());
            below.is_some_and(ends_name)
        };
        if text.starts_with(&self.own) || self.mounts.iter().any(is_below) {
            return None;
        }
        let text = text.strip_prefix('/')?;
        self.names
            .iter()
            .filter(|name| text.starts_with(name.as_str()))
            .max_by_key(|name| name.len())
            .map(String::as_str)
    }
}

fn begins_word(before: &str) -> bool {
    match before.chars().next_back() {
        None => true,
        // A quote begins a word where the quote itself does: `"/app"`, not `"$x"/app`.
        Some(quote @ ('"' | '\'')) => begins_word(&before[..before.len() - quote.len_utf8()]),
        Some(c) => c.is_whitespace() || "=:(,<>|&;[{!@`".contains(c),
    }
}

fn ends_name(after: &str) -> bool {
    after
        .chars()
        .next()
        .is_none_or(|c| c.is_whitespace() || "/:;&|()<>,}]\"'`=\\".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(names: &[&str]) -> Rewrite {
        Rewrite {
            root: "/R".into(),
            own: "/tmp/S/".into(),
            mounts: vec!["/tmp/tools".into()],
            names: names.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn an_argument_is_rewritten_when_it_is_a_folder_of_the_sandbox_or_below_one() {
        let rewrite = rewrite(&["app", "application-data", "tmp"]);
        for (argument, expected) in [
            ("/app", "/R/app"),
            ("/app/x", "/R/app/x"),
            ("/app:/mnt", "/R/app:/mnt"),
            ("/application", "/application"),
            ("/application-data/x", "/R/application-data/x"),
            ("/app-2", "/app-2"),
            ("x/app", "x/app"),
            ("/tmp/x", "/R/tmp/x"),
            ("/tmp/S/root/app/x", "/tmp/S/root/app/x"),
            ("/tmp/tools/bin/python3", "/tmp/tools/bin/python3"),
            ("/tmp/tools2/bin", "/R/tmp/tools2/bin"),
            ("--dir=/app", "--dir=/app"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(rewrite.argument(argument), expected, "{argument}");
        }
    }

    #[test]
    fn a_script_is_rewritten_at_words_only() {
        let rewrite = rewrite(&["app", "loaded", "tmp"]);
        for (script, expected) in [
            ("cat /app/x", "cat /R/app/x"),
            ("cd /app&&ls", "cd /R/app&&ls"),
            (
                "cd \"/app\"; x='/loaded/y'",
                "cd \"/R/app\"; x='/R/loaded/y'",
            ),
            (
                "echo \"$HOME\"/app $HOME/app ./app ../app ~/app",
                "echo \"$HOME\"/app $HOME/app ./app ../app ~/app",
            ),
            (
                "ls /application /app.txt /app-2 /app*",
                "ls /application /app.txt /app-2 /app*",
            ),
            ("curl http://host/app", "curl http://host/app"),
            ("P=/app:/loaded:/usr", "P=/R/app:/R/loaded:/usr"),
            ("x=$(cat /app/x)", "x=$(cat /R/app/x)"),
            ("$(</app/x)>/app/y", "$(</R/app/x)>/R/app/y"),
            ("é /app/ü", "é /R/app/ü"),
            ("/app", "/R/app"),
            ("//app", "//app"),
            ("/tmp/tools/sh /tmp/x", "/tmp/tools/sh /R/tmp/x"),
            ("cat /tmp/S/tmp/x /tmp/x", "cat /tmp/S/tmp/x /R/tmp/x"),
        ] {
            assert_eq!(rewrite.script(script), expected, "{script}");
        }
    }
}
