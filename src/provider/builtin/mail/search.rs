//! Finds emails by words.

use super::super::format::Email;

/// Where a word is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Any,
    From,
    To,
    Subject,
}

/// The words that an email must have.
pub(super) struct Query(Vec<(Field, String)>);

impl Query {
    /// Reads a query. Every text is one.
    pub(super) fn read(text: &str) -> Self {
        let mut words = Vec::new();
        let (mut word, mut field, mut is_quoted) = (String::new(), Field::Any, false);
        for c in text.chars().chain([' ']) {
            match c {
                '"' => is_quoted = !is_quoted,
                ':' if !is_quoted && field == Field::Any => {
                    field = match word.to_lowercase().as_str() {
                        "from" => Field::From,
                        "to" => Field::To,
                        "subject" => Field::Subject,
                        _ => Field::Any,
                    };
                    if field == Field::Any {
                        word.push(c);
                    } else {
                        word.clear();
                    }
                }
                c if c.is_whitespace() && !is_quoted => {
                    if !word.is_empty() {
                        words.push((field, word.to_lowercase()));
                    }
                    word.clear();
                    field = Field::Any;
                }
                c => word.push(c),
            }
        }
        // A quote that is not closed ends with the query.
        let rest = word.trim();
        if !rest.is_empty() {
            words.push((field, rest.to_lowercase()));
        }
        Query(words)
    }

    /// Returns whether an email has every word.
    pub(super) fn finds(&self, email: &Email) -> bool {
        self.0.iter().all(|(field, word)| {
            let has = |text: &String| text.to_lowercase().contains(word);
            let from = || has(&email.sender);
            let to = || email.recipients.iter().chain(&email.cc).any(has);
            let subject = || has(&email.subject);
            match field {
                Field::Any => from() || to() || subject() || has(&email.content),
                Field::From => from(),
                Field::To => to(),
                Field::Subject => subject(),
            }
        })
    }
}
