//! One SARIF 2.1.0 log for all diagnostics, for code scanning and for the viewers of editors.
//!
//! Each code that occurs is a rule with its page as the help. Columns count characters, as in every other form, which
//! the log says of itself. What a program cannot obey is as in [`json`](mod@super::json): the text is safe to print.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::json::{list, string};
use super::source::KnownLines;
use super::{Diagnostic, Edit, Label, Severity, Source, Span, page};

/// Returns the log.
pub fn sarif(diagnostics: &[Diagnostic]) -> String {
    let mut rules: BTreeMap<&'static str, Severity> = BTreeMap::new();
    for diagnostic in diagnostics {
        let worst = rules
            .entry(diagnostic.code.as_str())
            .or_insert(diagnostic.severity);
        *worst = diagnostic.severity.min(*worst);
    }
    let rules: Vec<_> = rules.into_iter().collect();
    let mut lines = KnownLines::default();
    let mut out = "{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\",\"runs\":[{\
                   \"tool\":{\"driver\":{\"name\":\"aebuild\",\"semanticVersion\":"
        .to_owned();
    string(&mut out, env!("CARGO_PKG_VERSION"));
    out.push_str(",\"rules\":");
    list(&mut out, &rules, |out, (code, severity)| {
        rule(out, code, *severity)
    });
    out.push_str("}},\"columnKind\":\"unicodeCodePoints\",\"results\":");
    list(&mut out, diagnostics, |out, one| {
        let index = rules
            .iter()
            .position(|(code, _)| *code == one.code.as_str());
        result(out, one, index.unwrap_or_default(), &mut lines);
    });
    out.push_str("}]}\n");
    out
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "note",
    }
}

fn rule(out: &mut String, code: &str, severity: Severity) {
    out.push_str("{\"id\":");
    string(out, code);
    if let Some(page) = page(code) {
        out.push_str(",\"shortDescription\":");
        message(out, page.lead());
        out.push_str(",\"help\":{\"text\":");
        string(out, page.text());
        out.push_str(",\"markdown\":");
        string(out, page.text());
        out.push('}');
    }
    write!(
        out,
        ",\"defaultConfiguration\":{{\"level\":\"{}\"}}}}",
        level(severity)
    )
    .expect("strings take all");
}

fn result<'a>(
    out: &mut String,
    diagnostic: &'a Diagnostic,
    index: usize,
    lines: &mut KnownLines<'a>,
) {
    out.push_str("{\"ruleId\":");
    string(out, diagnostic.code.as_str());
    write!(
        out,
        ",\"ruleIndex\":{index},\"level\":\"{}\",\"message\":",
        level(diagnostic.severity)
    )
    .expect("strings take all");
    let mut text = diagnostic.headline.clone();
    for note in &diagnostic.notes {
        write!(text, "\nnote: {note}").expect("strings take all");
    }
    if let Some(help) = &diagnostic.help {
        write!(text, "\nhelp: {help}").expect("strings take all");
    }
    message(out, &text);
    let place = diagnostic.place();
    out.push_str(",\"locations\":");
    let places: Vec<_> = place.into_iter().map(|label| (None, label)).collect();
    list(out, &places, |out, (id, label)| {
        location(out, *id, label, lines)
    });
    let related = diagnostic.labels.iter();
    let related = related.filter(|label| !place.is_some_and(|place| std::ptr::eq(place, *label)));
    let related: Vec<_> = related
        .enumerate()
        .map(|(at, label)| (Some(at), label))
        .collect();
    if !related.is_empty() {
        out.push_str(",\"relatedLocations\":");
        list(out, &related, |out, (id, label)| {
            location(out, *id, label, lines)
        });
    }
    if !diagnostic.fixes.is_empty() {
        out.push_str(",\"fixes\":");
        list(out, &diagnostic.fixes, |out, fix| {
            out.push_str("{\"description\":");
            message(out, &fix.title);
            out.push_str(",\"artifactChanges\":");
            let mut by_source: Vec<(&Source, Vec<&Edit>)> = Vec::new();
            for edit in &fix.edits {
                match by_source
                    .iter_mut()
                    .find(|(source, _)| **source == edit.source)
                {
                    Some((_, edits)) => edits.push(edit),
                    None => by_source.push((&edit.source, vec![edit])),
                }
            }
            list(out, &by_source, |out, (source, edits)| {
                out.push('{');
                artifact(out, source);
                out.push_str(",\"replacements\":");
                list(out, edits, |out, edit| {
                    out.push_str("{\"deletedRegion\":");
                    region(out, source, edit.span, lines);
                    out.push_str(",\"insertedContent\":");
                    message(out, &edit.text);
                    out.push('}');
                });
                out.push('}');
            });
            out.push('}');
        });
    }
    out.push('}');
}

fn message(out: &mut String, text: &str) {
    out.push_str("{\"text\":");
    string(out, text);
    out.push('}');
}

fn location<'a>(out: &mut String, id: Option<usize>, label: &'a Label, lines: &mut KnownLines<'a>) {
    out.push('{');
    if let Some(id) = id {
        write!(out, "\"id\":{id},").expect("strings take all");
    }
    out.push_str("\"physicalLocation\":{");
    artifact(out, &label.source);
    out.push_str(",\"region\":");
    region(out, &label.source, label.span, lines);
    out.push('}');
    if !label.text.is_empty() {
        out.push_str(",\"message\":");
        message(out, &label.text);
    }
    out.push('}');
}

fn artifact(out: &mut String, source: &Source) {
    out.push_str("\"artifactLocation\":{\"uri\":");
    string(out, &uri(&source.name));
    out.push('}');
}

fn region<'a>(out: &mut String, source: &'a Source, span: Span, lines: &mut KnownLines<'a>) {
    let lines = lines.of(source);
    let (line, column) = lines.line_column(span.start as usize);
    let (end_line, end_column) = lines.line_column(span.end as usize);
    write!(
        out,
        "{{\"startLine\":{line},\"startColumn\":{column},\"endLine\":{end_line},\"endColumn\":{end_column}}}"
    )
    .expect("strings take all");
}

/// Returns the name of a file as a URI, relative as it is shown.
fn uri(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    if name.starts_with('/') {
        out.push_str("file://");
    }
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => {
                out.push(char::from(byte));
            }
            _ => write!(out, "%{byte:02X}").expect("strings take all"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Fix;
    use expect_test::expect;

    #[test]
    fn a_log_has_the_rules_places_and_fixes() {
        let task = Source::new("tasks/a b.json", "\u{feff}[\r\n  {\"id\": 7}\r\n]");
        let config = Source::new("/etc/aebuild.toml", "[cache]\n");
        let faults = [
            Diagnostic::error("wrong-case", "`id` is a number")
                .label(&config, 1..6, "asked for here")
                .primary(&task, 15..16, "here")
                .help("write \"7\"")
                .note("one")
                .fix(Fix::sure("write \"7\"").edit(&task, 15..16, "\"7\"")),
            Diagnostic::hint("no-page", "the cache is \u{1b}not used"),
        ];
        let text = sarif(&faults);
        let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let mut shown = value;
        // The page is held by a test of its own.
        shown["runs"][0]["tool"]["driver"]["rules"][1]["help"] = "..".into();
        shown["runs"][0]["tool"]["driver"]["semanticVersion"] = "..".into();
        expect![[r#"
            {
              "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
              "runs": [
                {
                  "columnKind": "unicodeCodePoints",
                  "results": [
                    {
                      "fixes": [
                        {
                          "artifactChanges": [
                            {
                              "artifactLocation": {
                                "uri": "tasks/a%20b.json"
                              },
                              "replacements": [
                                {
                                  "deletedRegion": {
                                    "endColumn": 11,
                                    "endLine": 2,
                                    "startColumn": 10,
                                    "startLine": 2
                                  },
                                  "insertedContent": {
                                    "text": "\"7\""
                                  }
                                }
                              ]
                            }
                          ],
                          "description": {
                            "text": "write \"7\""
                          }
                        }
                      ],
                      "level": "error",
                      "locations": [
                        {
                          "message": {
                            "text": "here"
                          },
                          "physicalLocation": {
                            "artifactLocation": {
                              "uri": "tasks/a%20b.json"
                            },
                            "region": {
                              "endColumn": 11,
                              "endLine": 2,
                              "startColumn": 10,
                              "startLine": 2
                            }
                          }
                        }
                      ],
                      "message": {
                        "text": "`id` is a number\nnote: one\nhelp: write \"7\""
                      },
                      "relatedLocations": [
                        {
                          "id": 0,
                          "message": {
                            "text": "asked for here"
                          },
                          "physicalLocation": {
                            "artifactLocation": {
                              "uri": "file:///etc/aebuild.toml"
                            },
                            "region": {
                              "endColumn": 7,
                              "endLine": 1,
                              "startColumn": 2,
                              "startLine": 1
                            }
                          }
                        }
                      ],
                      "ruleId": "wrong-case",
                      "ruleIndex": 1
                    },
                    {
                      "level": "note",
                      "locations": [],
                      "message": {
                        "text": "the cache is \u001bnot used"
                      },
                      "ruleId": "no-page",
                      "ruleIndex": 0
                    }
                  ],
                  "tool": {
                    "driver": {
                      "name": "aebuild",
                      "rules": [
                        {
                          "defaultConfiguration": {
                            "level": "note"
                          },
                          "id": "no-page"
                        },
                        {
                          "defaultConfiguration": {
                            "level": "error"
                          },
                          "help": "..",
                          "id": "wrong-case",
                          "shortDescription": {
                            "text": "A name that means something differs from how it must be written in case or Unicode form."
                          }
                        }
                      ],
                      "semanticVersion": ".."
                    }
                  }
                }
              ],
              "version": "2.1.0"
            }
        "#]].assert_eq(&format!("{shown:#}\n"));
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }
}
