//! The line of a TOML text that an offset is in.

use crate::diagnostic::Span;

/// What stands at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At {
    /// The keys that lead there, up to the one that has the offset.
    pub path: Vec<String>,
    /// In which part of the line it is.
    pub part: Part,
    /// The bytes of the key or value.
    pub span: Span,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The header of a table.
    Header,
    /// A key.
    Key,
    /// A text that is the value of the keys.
    Value(String),
}

/// Returns what stands at an offset; `None` in a comment, between the parts and in what is no text.
pub(super) fn at(text: &str, offset: usize) -> Option<At> {
    let offset = text.floor_char_boundary(offset);
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let indent = line.len() - line.trim_start().len();
    let (first, inside) = (start + indent, line.trim_start());
    if inside.starts_with('#') {
        return None;
    }
    if inside.starts_with('[') {
        let open = inside.len() - inside.trim_start_matches('[').len();
        let end = end_outside_quotes(&inside[open..], ']');
        let keys = keys(&inside[open..open + end], first + open);
        return within(Vec::new(), keys, offset, Part::Header);
    }
    let equals = end_outside_quotes(inside, '=');
    let table = table_before(&text[..start]);
    let keys = keys(&inside[..equals], first);
    if offset <= first + equals {
        return within(table, keys, offset, Part::Key);
    }
    let value = inside.get(equals + 1..)?;
    let begin = first + equals + 1 + (value.len() - value.trim_start().len());
    let value = value.trim_start();
    let quote = value
        .chars()
        .next()
        .filter(|quote| "\"'".contains(*quote))?;
    let end = value[1..].find(quote)? + 1;
    let span = Span::new(begin, begin + end + 1);
    let is_in = span.start as usize <= offset && offset <= span.end as usize;
    is_in.then(|| At {
        path: table
            .into_iter()
            .chain(keys.into_iter().map(|(key, _)| key))
            .collect(),
        part: Part::Value(value[1..end].to_owned()),
        span,
    })
}

fn within(
    mut path: Vec<String>,
    keys: Vec<(String, Span)>,
    offset: usize,
    part: Part,
) -> Option<At> {
    for (key, span) in keys {
        path.push(key);
        if span.start as usize <= offset && offset <= span.end as usize {
            return Some(At { path, part, span });
        }
    }
    None
}

/// Returns the parts of the header of the table that what follows a text is in.
pub(super) fn table_before(text: &str) -> Vec<String> {
    let headers = text.lines().rev().map(str::trim_start);
    let mut headers = headers.filter_map(|line| line.strip_prefix('['));
    let header = headers.next().unwrap_or_default().trim_start_matches('[');
    names(&header[..end_outside_quotes(header, ']')])
}

/// Returns the names of a dotted key.
pub(super) fn names(key: &str) -> Vec<String> {
    keys(key, 0).into_iter().map(|(name, _)| name).collect()
}

/// Returns the parts of a dotted key with their bytes, quotes included; `at` is where the text begins.
fn keys(text: &str, at: usize) -> Vec<(String, Span)> {
    let (mut found, mut start) = (Vec::new(), 0);
    while start <= text.len() {
        let end = start + end_outside_quotes(&text[start..], '.');
        let part = &text[start..end];
        let name = part.trim();
        if !name.is_empty() {
            let begin = at + start + (part.len() - part.trim_start().len());
            let span = Span::new(begin, begin + name.len());
            let name = name.trim_matches(['"', '\'']);
            found.push((name.to_owned(), span));
        }
        start = end + 1;
    }
    found
}

/// Returns where a character stands first outside of quotes, else the end.
fn end_outside_quotes(text: &str, wanted: char) -> usize {
    let mut quote = None;
    let end = text.char_indices().find(|(_, letter)| {
        match quote {
            Some(open) if *letter == open => quote = None,
            None if *letter == '"' || *letter == '\'' => quote = Some(*letter),
            None => return *letter == wanted,
            Some(_) => {}
        }
        false
    });
    end.map_or(text.len(), |(end, _)| end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(marked: &str, expected: &str) {
        let offset = marked.find('|').expect("a cursor");
        let text = marked.replacen('|', "", 1);
        let found = at(&text, offset).map_or_else(
            || "nothing".to_owned(),
            |at| {
                let slice = &text[at.span.start as usize..at.span.end as usize];
                format!("{:?} {} {slice}", at.part, at.path.join("/"))
            },
        );
        assert_eq!(found, expected, "{marked}");
    }

    #[test]
    fn a_place_is_a_header_a_key_or_a_text() {
        check("[env|s.mail]", "Header envs envs");
        check("[envs.ma|il]", "Header envs/mail mail");
        check("[[envs.ma|il", "Header envs/mail mail");
        check("[models.\"gpt-4|.1\"]", "Header models/gpt-4.1 \"gpt-4.1\"");
        check("[cache]\ndir| = 'x'", "Key cache/dir dir");
        check("[cache]\r\n  dir = '|x'\r\n", "Value(\"x\") cache/dir 'x'");
        check("cache.d|ir = 1", "Key cache/dir dir");
        check("[a]\n[b.c]\n\"x.y\".z| = 1", "Key b/c/x.y/z z");
        check("x = \"ü|\" # y", "Value(\"ü\") x \"ü\"");
        for nothing in [
            "|",
            "# x|",
            "x = 1|",
            "x = \"y\" # |",
            "x = \"y|",
            "[a] |",
            "[|]",
            "x = |",
        ] {
            check(nothing, "nothing");
        }
    }
}
