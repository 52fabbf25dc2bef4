//! Seed values from the command line and from tables.

use std::collections::BTreeMap;
use std::path::Path;

use super::select::MAX_FILE;
use super::{Face, SessionError, fault};
use crate::session::SeedRow;

/// Reads `KEY=VALUE`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

/// Returns the rows of a table, each with the values of the command line, or one row of those alone.
pub(super) fn rows(
    pairs: Vec<(String, String)>,
    table: Option<&Path>,
    face: &Face,
) -> Result<Vec<SeedRow>, SessionError> {
    let values: BTreeMap<String, String> = pairs.into_iter().collect();
    let Some(path) = table else {
        let row = SeedRow {
            name: String::new(),
            values,
        };
        return Ok(if row.values.is_empty() {
            Vec::new()
        } else {
            vec![row]
        });
    };
    let shown = path.display();
    let refuse = |what: String| fault::usage(format!("`{shown}` of `--seeds` {what}"), None);
    let bytes = face
        .system
        .read(path, MAX_FILE)
        .map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let mut rows = read(&bytes).map_err(refuse)?;
    if rows.is_empty() {
        return Err(refuse("has no row with a value".to_owned()));
    }
    for row in &mut rows {
        row.values.extend(values.clone());
    }
    Ok(rows)
}

/// Reads a table; rows whose cells are all empty are left out.
fn read(bytes: &[u8]) -> Result<Vec<SeedRow>, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::Reader::from_reader(bytes);
    let header = reader
        .headers()
        .map_err(|error| format!("is not a table: {error}"))?
        .clone();
    let mut seen: Vec<&str> = Vec::new();
    for column in &header {
        if column.is_empty() {
            return Err("has a column without a name".to_owned());
        }
        if seen.contains(&column) {
            return Err(format!("has the column `{column}` twice"));
        }
        seen.push(column);
    }
    let mut rows: Vec<SeedRow> = Vec::new();
    for (at, record) in reader.records().enumerate() {
        let record = record.map_err(|error| format!("is not a table: {error}"))?;
        if record.iter().all(str::is_empty) {
            continue;
        }
        let values: BTreeMap<String, String> = header
            .iter()
            .zip(&record)
            .map(|(key, cell)| (key.to_owned(), cell.to_owned()))
            .collect();
        let named = ["name", "id", "repo_url"]
            .into_iter()
            .filter_map(|key| values.get(key));
        let name = named.into_iter().find(|name| !name.is_empty()).cloned();
        let mut name = name.unwrap_or_else(|| format!("seed-{at}"));
        if rows.iter().any(|row| row.name == name) {
            name = format!("{name} (row {})", at + 1);
        }
        rows.push(SeedRow { name, values });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(table: &str, expected: Expect) {
        let shown = match read(table.as_bytes()) {
            Ok(rows) => rows
                .iter()
                .map(|row| format!("{}: {:?}\n", row.name, row.values))
                .collect(),
            Err(what) => format!("the table {what}\n"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn each_row_is_a_set_of_values_and_empty_rows_are_left_out() {
        check(
            "\u{feff}name,color\nfirst,red\n,\n\"second, so to say\",\"blue\nish\"\n,green\nfirst,pink\n",
            expect![[r#"
                first: {"color": "red", "name": "first"}
                second, so to say: {"color": "blue\nish", "name": "second, so to say"}
                seed-3: {"color": "green", "name": ""}
                first (row 5): {"color": "pink", "name": "first"}
            "#]],
        );
    }

    #[test]
    fn what_is_no_table_is_refused() {
        check(
            "a,a\n1,2\n",
            expect![[r#"
            the table has the column `a` twice
        "#]],
        );
        check(
            "a,\n1,2\n",
            expect![[r#"
            the table has a column without a name
        "#]],
        );
        check(
            "a,b\n1\n",
            expect![[r#"
            the table is not a table: CSV error: record 1 (line: 2, byte: 4): found record with 1 fields, but the previous record has 2 fields
        "#]],
        );
    }

    #[test]
    fn a_pair_has_a_key_and_may_have_an_empty_value() {
        assert_eq!(pair("k="), Ok(("k".to_owned(), String::new())));
        assert_eq!(pair("k=a=b"), Ok(("k".to_owned(), "a=b".to_owned())));
        assert!(pair("=v").is_err() && pair("k").is_err());
    }
}
