//! Which Python packages a verifier needs, as its files say.

use crate::diagnostic::concise::concise;
use crate::diagnostic::{Diagnostic, Source, Span};
use crate::json::{Node, json};
use crate::task::parse::toml::{check, parse};

/// The packages of modules that a verifier may import without saying so.
const KNOWN: [(&str, &str); 4] = [
    // The one that verifiers of `agent-env` are written for.
    ("mcp", "mcp>=1.25,<2"),
    ("fastmcp", "fastmcp"),
    ("httpx", "httpx"),
    ("requests", "requests"),
];

/// Returns the requirements of Python files, of which the first is the one that is called: those of its `# /// script`
/// block and of `requirements.txt`, else those of modules that any of them imports and that are known.
pub(super) fn packages(
    scripts: &[Source],
    requirements: Option<&Source>,
) -> Result<Vec<String>, String> {
    let block = scripts.first().map(of_block).transpose()?.flatten();
    let listed = requirements.map(of_list).transpose()?;
    let said = match (block, listed) {
        (None, None) => scripts
            .iter()
            .flat_map(|script| imported(&script.text))
            .collect(),
        (block, listed) => [block, listed]
            .into_iter()
            .flatten()
            .flatten()
            .collect::<Vec<_>>(),
    };
    let mut packages: Vec<String> = Vec::new();
    for package in said {
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    Ok(packages)
}

/// Reads the block of a script, as PEP 723 has it; `None` where there is none.
fn of_block(script: &Source) -> Result<Option<Vec<String>>, String> {
    let Some(text) = block(script)? else {
        return Ok(None);
    };
    // All that is not of the block is blank, so that faults are where the author wrote them.
    let source = Source::new(script.name.as_str(), text);
    let (root, mut faults) = parse(&source);
    faults.extend(check(
        &root,
        &json!({
            "type": "object",
            "properties": {
                "dependencies": {"type": "array", "items": {"type": "string", "minLength": 1}},
            },
        }),
        &source,
        &format!("the `script` block of `{}`", script.name),
    ));
    if !faults.is_empty() {
        return Err(format!(
            "the `script` block of `{}` cannot be read:\n{}",
            script.name,
            concise(&faults).trim_end()
        ));
    }
    let dependencies = root.get("dependencies").and_then(Node::as_array);
    Ok(Some(
        dependencies
            .unwrap_or_default()
            .iter()
            .filter_map(|node| node.as_str().map(str::to_owned))
            .collect(),
    ))
}

/// Returns a script with everything blank that is not in its block.
fn block(script: &Source) -> Result<Option<String>, String> {
    let lines: Vec<&str> = script.text.lines().collect();
    let mut found: Option<(usize, usize)> = None;
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim_end() != "# /// script" {
            at += 1;
            continue;
        }
        let is_inside = |line: &&str| *line == "#" || line.starts_with("# ");
        let n_inside = lines[at + 1..]
            .iter()
            .take_while(|line| is_inside(line))
            .count();
        let last = lines[at + 1..=at + n_inside]
            .iter()
            .rposition(|line| line.trim_end() == "# ///");
        let Some(last) = last else {
            let start = lines[..at].iter().map(|line| line.len() + 1).sum::<usize>();
            let fault = Diagnostic::error(
                "unfinished",
                "the `# /// script` block has no `# ///` at its end",
            )
            .primary(script, Span::at(start), "");
            return Err(concise(&[fault]).trim_end().to_owned());
        };
        if found.is_some() {
            return Err(format!(
                "`{}` has more than one `# /// script` block",
                script.name
            ));
        }
        found = Some((at + 1, at + 1 + last));
        at += last + 2;
    }
    Ok(found.map(|(start, end)| {
        let kept = |(at, line): (usize, &&str)| match (start..end).contains(&at) {
            true => format!("  {}\n", line.get(2..).unwrap_or_default()),
            false => "\n".to_owned(),
        };
        lines.iter().enumerate().map(kept).collect()
    }))
}

/// Reads a `requirements.txt`.
fn of_list(list: &Source) -> Result<Vec<String>, String> {
    let mut requirements = Vec::new();
    let mut faults = Vec::new();
    let mut open = String::new();
    for (at, line) in list.text.trim_start_matches('\u{feff}').lines().enumerate() {
        let comment = line
            .match_indices('#')
            .map(|(at, _)| at)
            .find(|&at| line[..at].is_empty() || line[..at].ends_with([' ', '\t']));
        let line = &line[..comment.unwrap_or(line.len())];
        if let Some(line) = line.strip_suffix('\\').filter(|_| comment.is_none()) {
            open += line;
            continue;
        }
        open += line;
        let requirement = std::mem::take(&mut open).trim().to_owned();
        if requirement.is_empty() {
            continue;
        }
        if requirement.starts_with('-') || requirement.contains(" --") {
            faults.push(format!(
                "{}:{}: `{requirement}` is an option; write requirements only, such as `httpx>=0.27`",
                list.name,
                at + 1
            ));
        }
        requirements.push(requirement);
    }
    let open = open.trim();
    if !open.is_empty() {
        requirements.push(open.to_owned());
    }
    if faults.is_empty() {
        Ok(requirements)
    } else {
        Err(faults.join("\n"))
    }
}

/// Returns the packages of the known modules that a script imports, as its lines look.
fn imported(script: &str) -> Vec<String> {
    let mut packages = Vec::new();
    for line in script.lines().map(str::trim_start) {
        let modules = if let Some(rest) = line.strip_prefix("import ") {
            rest
        } else if let Some(rest) = line.strip_prefix("from ") {
            rest.split(" import").next().unwrap_or_default()
        } else {
            continue;
        };
        for module in modules.split(',') {
            let module = module.trim_start();
            let end = module.find(|c: char| !c.is_alphanumeric() && c != '_');
            let top = &module[..end.unwrap_or(module.len())];
            let known = KNOWN.iter().find(|(module, _)| *module == top);
            packages.extend(known.map(|(_, package)| (*package).to_owned()));
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn of(script: &str, requirements: Option<&str>) -> String {
        let script = Source::new("verify.py", script);
        let requirements = requirements.map(|text| Source::new("requirements.txt", text));
        match packages(&[script], requirements.as_ref()) {
            Ok(packages) => format!("{packages:?}"),
            Err(why) => why,
        }
    }

    #[test]
    fn packages_are_those_that_the_files_name() {
        let block = "#!/usr/bin/env python3\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"httpx>=0.27\",\n#\n#   \"rich\",\n# ]\n# ///\nimport mcp\n";
        let cases = [
            of(block, None),
            of(
                block,
                Some("# all\nrich\n\nmcp == 1.2 # pinned\nnumpy \\\n  <2\n"),
            ),
            of("# /// script\n# ///\nimport mcp", None),
            of("import json", Some("\n")),
            of(
                "import json, mcp.client as c\n  from fastmcp import Client\nfrom httpx._x import y\nimport requests_mock\nimportmcp\n",
                None,
            ),
            of("from mcp import a\nimport mcp", None),
            of("# /// test\n# dependencies = [\"rich\"]\n# ///\n", None),
            of("", None),
        ];
        expect![[r#"
            ["httpx>=0.27", "rich"]
            ["httpx>=0.27", "rich", "mcp == 1.2", "numpy   <2"]
            []
            []
            ["mcp>=1.25,<2", "fastmcp", "httpx"]
            ["mcp>=1.25,<2"]
            []
            []"#]]
        .assert_eq(&cases.join("\n"));
    }

    #[test]
    fn a_block_or_a_list_that_means_nothing_is_told_where() {
        let cases = [
            of(
                "x = 1\n# /// script\n# dependencies = [1, \"\"]\n# ///\n",
                None,
            ),
            of("# /// script\n# dependencies = [\n# ///\n", None),
            of("x = 1\n# /// script\n# dependencies = []\n\n# ///\n", None),
            of("# /// script\n# ///\n\n# /// script\n# ///\n", None),
            of("", Some("-r more.txt\nrich\nmcp --hash=sha256:0\n")),
        ];
        expect![[r#"
            the `script` block of `verify.py` cannot be read:
            verify.py:3:19: error[wrong-type]: `dependencies[0]` of the `script` block of `verify.py` is a number, not a string
            verify.py:3:22: error[wrong-length]: `dependencies[1]` of the `script` block of `verify.py` is empty, but needs at least 1 character
            the `script` block of `verify.py` cannot be read:
            verify.py:2:19: error[not-toml]: `verify.py` is not TOML: unclosed array, expected `]`
            verify.py:2:1: error[unfinished]: the `# /// script` block has no `# ///` at its end
            `verify.py` has more than one `# /// script` block
            requirements.txt:1: `-r more.txt` is an option; write requirements only, such as `httpx>=0.27`
            requirements.txt:3: `mcp --hash=sha256:0` is an option; write requirements only, such as `httpx>=0.27`"#]].assert_eq(&cases.join("\n"));
    }
}
