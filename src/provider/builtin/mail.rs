//! A mailbox: one user's emails in folders, with search, replies and attachments.
//!
//! It is for tasks in which an agent reads and writes mail. Nobody answers: what is sent is kept in `sent`, and what the
//! user gets is what the task loads. Looking at an email does not mark it as read, so looking changes nothing.
//!
//! # Its state
//!
//! ```json
//! {
//!   "user_email": "me@example.com",
//!   "now": "2026-03-02T08:00:00Z",
//!   "next_id": 1,
//!   "emails": [
//!     {
//!       "email_id": "m1", "folder": "inbox", "sender": "dana@example.com",
//!       "recipients": ["me@example.com"], "subject": "Friday", "content": "Can we meet on Friday?",
//!       "cc": [], "parent_id": null, "attachments": [],
//!       "timestamp": "2026-03-01T16:20:00Z", "is_read": false
//!     }
//!   ]
//! }
//! ```
//!
//! Every key may be left out; another key is refused.
//!
//! | Key | Where it is left out |
//! |---|---|
//! | `user_email` | `user@example.com` |
//! | `now` | `2026-01-01T09:00:00Z`; each call that may change something moves it on by a minute, or to what a virtual clock shows |
//! | `next_id` | 1; the next email that is made is `email-1`, and ids that are taken are passed over |
//! | `email_id` | the next id |
//! | `folder` | `inbox` |
//! | `timestamp` | `now` |
//! | other keys of an email | empty, or `false` |
//!
//! An attachment is `{"name": .., "content_type": .., "content": ..}`; its content is text or base64 and is kept as it is.
//! Loading adds emails to those that are there; an id that is there already is refused.
//!
//! # What differs from a real mailbox
//!
//! - Emails are listed newest first, by `timestamp`; of equal ones the later in the state comes first.
//! - `search_emails` looks for every word of its query, in any case, in sender, recipients, subject and content. `from:`,
//!   `to:` and `subject:` before a word look there alone; quotes hold words together.
//! - `receive_email` puts an email from somebody else into the inbox. Nobody sees it until `modify_env_tool_access` names it;
//!   triggers of `register_env_triggers` may call it all the same, which is how mail comes in while an agent works.
//! - `delete_email` moves to the folder `trash`, and deletes what is there for good.
//!
//! # Example
//!
//! A search for `from:dana subject:friday` gives `{"emails": [{"email_id": "m1", ..}], "total": 1}`. Then `reply_to_email`
//! with `m1` and a content puts an email with the subject `Re: Friday` to `dana@example.com` into `sent`.

mod search;
mod write;

use std::collections::{BTreeMap, HashMap};

use super::clock;
use super::format::{Attachment, Email, Mail, to_value};
use super::store::Store;
use super::tool::{Arguments, Effect, count, flag, hidden, text, texts, tool};
use crate::json::{Value, json};
use search::Query;

/// The user of a mailbox whose state names none.
const USER: &str = "user@example.com";
/// The most emails that are listed where the call does not say.
const LIMIT: usize = 50;
/// The folders that every mailbox has.
const FOLDERS: [&str; 3] = ["inbox", "sent", TRASH];
const TRASH: &str = "trash";

/// A mailbox: its emails, and where each is by its id.
pub(super) struct Mailbox {
    state: Mail,
    index: HashMap<String, usize>,
}

impl Default for Mailbox {
    fn default() -> Self {
        Mailbox {
            state: Mail {
                user_email: USER.to_owned(),
                now: clock::START.to_owned(),
                next_id: 1,
                emails: Vec::new(),
            },
            index: HashMap::new(),
        }
    }
}

impl Store for Mailbox {
    type State = Mail;

    const NAME: &'static str = "mail";
    const INSTRUCTIONS: &'static str =
        "The mailbox of one user. Emails are named by `email_id`; `mail://state` is all of it.";

    fn tools() -> Vec<Value> {
        let email_id = || ("email_id", text("The id of the email."));
        let page = || {
            [
                (
                    "limit",
                    count("The most emails to return; 50 by default.", 1),
                ),
                (
                    "offset",
                    count("The number of emails to pass over first.", 0),
                ),
            ]
        };
        let attachment = json!({
            "type": "object",
            "description": "A file.",
            "properties": {
                "name": text("The name of the file."),
                "content_type": text("Its media type, such as `text/plain`."),
                "content": text("Its content, as text or base64."),
            },
            "required": ["name", "content"],
            "additionalProperties": false,
        });
        let attachments = json!({
            "type": "array",
            "items": attachment,
            "description": "Files to send with the email.",
        });
        let [limit, offset] = page();
        vec![
            tool(
                "list_emails",
                "List the emails of a folder, newest first, without their contents.",
                Effect::Reads,
                &[],
                &[
                    ("folder", text("The folder; `inbox` by default.")),
                    (
                        "unread_only",
                        flag("Whether to leave out emails that were read."),
                    ),
                    limit.clone(),
                    offset.clone(),
                ],
            ),
            tool(
                "search_emails",
                "Find the emails that have every word of a query, newest first, without their contents.",
                Effect::Reads,
                &[(
                    "query",
                    text("Words; `from:`, `to:` and `subject:` before a word look there alone."),
                )],
                &[
                    ("folder", text("The folder to look in; all by default.")),
                    limit,
                    offset,
                ],
            ),
            tool(
                "get_email_by_id",
                "Read one email. It is not marked as read.",
                Effect::Reads,
                &[email_id()],
                &[],
            ),
            tool(
                "get_attachment",
                "Read an attachment of an email.",
                Effect::Reads,
                &[email_id(), ("name", text("The name of the attachment."))],
                &[],
            ),
            tool(
                "list_folders",
                "List the folders with the number of their emails.",
                Effect::Reads,
                &[],
                &[],
            ),
            tool(
                "send_email",
                "Send an email from the user.",
                Effect::Adds,
                &[
                    ("recipients", texts("The addresses to send to.")),
                    ("subject", text("The subject.")),
                    ("content", text("The text.")),
                ],
                &[
                    ("cc", texts("The addresses that get a copy.")),
                    ("attachments", attachments.clone()),
                ],
            ),
            tool(
                "reply_to_email",
                "Send a reply to the sender of an email.",
                Effect::Adds,
                &[email_id(), ("content", text("The text."))],
                &[(
                    "reply_all",
                    flag("Whether the other recipients of the email get the reply too."),
                )],
            ),
            tool(
                "forward_email",
                "Send an email on, with its attachments.",
                Effect::Adds,
                &[
                    email_id(),
                    ("recipients", texts("The addresses to send to.")),
                ],
                &[("content", text("A text to put before the email."))],
            ),
            tool(
                "move_email",
                "Move an email to a folder, which is made if need be.",
                Effect::Sets,
                &[email_id(), ("folder", text("The folder."))],
                &[],
            ),
            tool(
                "mark_email",
                "Mark an email as read or unread.",
                Effect::Sets,
                &[email_id(), ("is_read", flag("Whether it was read."))],
                &[],
            ),
            tool(
                "delete_email",
                "Move an email to `trash`, or delete it for good if it is there.",
                Effect::Destroys,
                &[email_id()],
                &[],
            ),
            hidden(tool(
                "receive_email",
                "Put an email from somebody else into the inbox of the user.",
                Effect::Adds,
                &[
                    ("sender", text("The address of the sender.")),
                    ("subject", text("The subject.")),
                    ("content", text("The text.")),
                ],
                &[
                    (
                        "recipients",
                        texts("The addresses that it was sent to; that of the user by default."),
                    ),
                    ("cc", texts("The addresses that get a copy.")),
                    (
                        "parent_id",
                        text("The id of the email to which it is a reply."),
                    ),
                    ("attachments", attachments),
                ],
            )),
        ]
    }

    fn call(&mut self, tool: &str, arguments: &Arguments) -> Result<Value, String> {
        match tool {
            "list_emails" => {
                let folder = arguments.find_text("folder").unwrap_or("inbox");
                let unread_only = arguments.flag("unread_only");
                Ok(self.listed(arguments, |email| {
                    email.folder == folder && !(unread_only && email.is_read)
                }))
            }
            "search_emails" => {
                let query = Query::read(arguments.text("query"));
                let folder = arguments.find_text("folder");
                Ok(self.listed(arguments, |email| {
                    folder.is_none_or(|folder| email.folder == folder) && query.finds(email)
                }))
            }
            "get_email_by_id" => Ok(whole(self.email(arguments)?)),
            "get_attachment" => {
                let email = self.email(arguments)?;
                let name = arguments.text("name");
                let mut all = email.attachments.iter();
                let found = all.find(|attachment| attachment.name == name);
                found
                    .map(to_value)
                    .ok_or_else(|| format!("email `{}` has no attachment `{name}`", email.email_id))
            }
            "list_folders" => Ok(self.folders()),
            "send_email" => self.send_new(arguments),
            "reply_to_email" => self.reply(arguments),
            "forward_email" => self.forward(arguments),
            "move_email" => {
                let folder = arguments.text("folder").trim();
                if folder.is_empty() {
                    return Err("argument `folder` is empty".to_owned());
                }
                let email = self.email_mut(arguments)?;
                email.folder = folder.to_owned();
                Ok(summary(email))
            }
            "mark_email" => {
                let email = self.email_mut(arguments)?;
                email.is_read = arguments.flag("is_read");
                Ok(summary(email))
            }
            "delete_email" => self.delete(arguments),
            "receive_email" => self.receive(arguments),
            _ => Err(format!("there is no tool `{tool}`")),
        }
    }

    fn now(&mut self) -> &mut String {
        &mut self.state.now
    }

    fn state(&self) -> &Mail {
        &self.state
    }

    fn join(state: &mut Mail, more: Mail) {
        for (old, new) in [
            (&mut state.user_email, more.user_email),
            (&mut state.now, more.now),
        ] {
            if !new.is_empty() {
                *old = new;
            }
        }
        if more.next_id != 0 {
            state.next_id = more.next_id;
        }
        state.emails.extend(more.emails);
    }

    fn add(&mut self, mut more: Mail) -> Result<(), String> {
        if !more.now.is_empty() {
            more.now = clock::in_utc(&more.now).map_err(|fault| format!("`now`: {fault}"))?;
        }
        let mut index = HashMap::with_capacity(more.emails.len());
        for (ix, email) in more.emails.iter().enumerate() {
            let id = &email.email_id;
            if !email.timestamp.is_empty() {
                clock::seconds(&email.timestamp)
                    .map_err(|fault| format!("`timestamp` of email `{id}`: {fault}"))?;
            }
            let is_taken = self.index.contains_key(id);
            let at = self.state.emails.len() + ix;
            if !id.is_empty() && (index.insert(id.clone(), at).is_some() || is_taken) {
                return Err(format!("there are two emails with `email_id` `{id}`"));
            }
        }
        self.index.extend(index);
        let first = self.state.emails.len();
        Self::join(&mut self.state, more);
        for ix in first..self.state.emails.len() {
            if self.state.emails[ix].email_id.is_empty() {
                let id = self.next_id();
                self.index.insert(id.clone(), ix);
                self.state.emails[ix].email_id = id;
            }
            let email = &mut self.state.emails[ix];
            if email.folder.is_empty() {
                "inbox".clone_into(&mut email.folder);
            }
            if email.timestamp.is_empty() {
                email.timestamp.clone_from(&self.state.now);
            }
        }
        Ok(())
    }
}

impl Mailbox {
    /// Returns an id that no email has.
    fn next_id(&mut self) -> String {
        loop {
            let id = format!("email-{}", self.state.next_id);
            self.state.next_id = self.state.next_id.wrapping_add(1).max(1);
            if !self.index.contains_key(&id) {
                return id;
            }
        }
    }

    fn find(&self, arguments: &Arguments) -> Result<usize, String> {
        let id = arguments.text("email_id");
        let found = self.index.get(id).copied();
        found.ok_or_else(|| format!("there is no email `{id}`"))
    }

    fn email(&self, arguments: &Arguments) -> Result<&Email, String> {
        Ok(&self.state.emails[self.find(arguments)?])
    }

    fn email_mut(&mut self, arguments: &Arguments) -> Result<&mut Email, String> {
        let ix = self.find(arguments)?;
        Ok(&mut self.state.emails[ix])
    }

    /// Returns a page of the emails for which this is true, newest first.
    fn listed(&self, arguments: &Arguments, is_listed: impl Fn(&Email) -> bool) -> Value {
        let all = self.state.emails.iter().rev();
        let mut found: Vec<&Email> = all.filter(|email| is_listed(email)).collect();
        found.sort_by_cached_key(|email| {
            std::cmp::Reverse(clock::seconds(&email.timestamp).unwrap_or(i64::MIN))
        });
        let (limit, offset) = (
            arguments.count("limit", LIMIT),
            arguments.count("offset", 0),
        );
        let page = found.iter().skip(offset).take(limit);
        let page: Vec<Value> = page.map(|email| summary(email)).collect();
        json!({"emails": page, "total": found.len()})
    }

    fn folders(&self) -> Value {
        let mut folders: BTreeMap<&str, (usize, usize)> =
            FOLDERS.iter().map(|name| (*name, (0, 0))).collect();
        for email in &self.state.emails {
            let (total, unread) = folders.entry(&email.folder).or_default();
            *total += 1;
            *unread += usize::from(!email.is_read);
        }
        let folders = folders
            .into_iter()
            .map(|(name, (total, unread))| json!({"name": name, "total": total, "unread": unread}));
        json!({"folders": folders.collect::<Vec<_>>()})
    }

    fn delete(&mut self, arguments: &Arguments) -> Result<Value, String> {
        let ix = self.find(arguments)?;
        let email = &mut self.state.emails[ix];
        if email.folder != TRASH {
            TRASH.clone_into(&mut email.folder);
            return Ok(json!({"email_id": email.email_id, "folder": TRASH, "is_gone": false}));
        }
        let gone = self.state.emails.remove(ix);
        self.index.remove(&gone.email_id);
        for at in self.index.values_mut() {
            *at -= usize::from(*at > ix);
        }
        Ok(json!({"email_id": gone.email_id, "is_gone": true}))
    }
}

/// Returns an email without its content.
fn summary(email: &Email) -> Value {
    json!({
        "email_id": email.email_id,
        "folder": email.folder,
        "sender": email.sender,
        "recipients": email.recipients,
        "cc": email.cc,
        "subject": email.subject,
        "timestamp": email.timestamp,
        "is_read": email.is_read,
        "has_attachments": !email.attachments.is_empty(),
    })
}

/// Returns an email with its content and the names of its attachments.
fn whole(email: &Email) -> Value {
    let named = |attachment: &Attachment| {
        json!({
            "name": attachment.name,
            "content_type": attachment.content_type,
            "size": attachment.content.len(),
        })
    };
    let mut value = summary(email);
    value["content"] = json!(email.content);
    value["parent_id"] = json!(email.parent_id);
    value["attachments"] = email.attachments.iter().map(named).collect();
    value
}

#[cfg(test)]
mod tests;
