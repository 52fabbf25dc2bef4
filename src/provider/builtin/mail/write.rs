//! Sends emails: new ones, replies and those that are sent on.

use super::super::format::{Attachment, Email};
use super::super::tool::Arguments;
use super::{Mailbox, summary};
use crate::json::Value;

impl Mailbox {
    pub(super) fn send_new(&mut self, arguments: &Arguments) -> Result<Value, String> {
        self.send(Email {
            recipients: arguments.texts("recipients"),
            subject: arguments.text("subject").to_owned(),
            content: arguments.text("content").to_owned(),
            cc: arguments.texts("cc"),
            attachments: attachments(arguments),
            ..Email::default()
        })
    }

    pub(super) fn receive(&mut self, arguments: &Arguments) -> Result<Value, String> {
        let mut recipients = arguments.texts("recipients");
        if recipients.is_empty() {
            recipients.push(self.state.user_email.clone());
        }
        let parent_id = arguments.find_text("parent_id").map(str::to_owned);
        if let Some(id) = parent_id
            .as_ref()
            .filter(|id| !self.index.contains_key(*id))
        {
            return Err(format!("there is no email `{id}`"));
        }
        self.keep(Email {
            folder: "inbox".to_owned(),
            sender: arguments.text("sender").to_owned(),
            recipients,
            subject: arguments.text("subject").to_owned(),
            content: arguments.text("content").to_owned(),
            cc: arguments.texts("cc"),
            parent_id,
            attachments: attachments(arguments),
            ..Email::default()
        })
    }

    pub(super) fn reply(&mut self, arguments: &Arguments) -> Result<Value, String> {
        let email = self.email(arguments)?;
        let user = &self.state.user_email;
        // A reply to what the user sent goes to whom it was sent.
        let is_own = email.sender.eq_ignore_ascii_case(user);
        let mut recipients = if is_own {
            email.recipients.clone()
        } else {
            vec![email.sender.clone()]
        };
        let mut cc = Vec::new();
        if arguments.flag("reply_all") {
            let is_other = |address: &&String| !address.eq_ignore_ascii_case(user);
            for address in email.recipients.iter().filter(is_other) {
                if !recipients.contains(address) {
                    recipients.push(address.clone());
                }
            }
            cc.extend(email.cc.iter().filter(is_other).cloned());
        }
        let reply = Email {
            recipients,
            subject: prefixed("Re: ", &email.subject),
            content: arguments.text("content").to_owned(),
            cc,
            parent_id: Some(email.email_id.clone()),
            ..Email::default()
        };
        self.send(reply)
    }

    pub(super) fn forward(&mut self, arguments: &Arguments) -> Result<Value, String> {
        let email = self.email(arguments)?;
        let before = match arguments.text("content") {
            "" => String::new(),
            text => format!("{text}\n\n"),
        };
        let forwarded = Email {
            recipients: arguments.texts("recipients"),
            subject: prefixed("Fwd: ", &email.subject),
            content: format!(
                "{before}---------- Forwarded message ----------\nFrom: {}\nDate: {}\nSubject: {}\nTo: {}\n\n{}",
                email.sender,
                email.timestamp,
                email.subject,
                email.recipients.join(", "),
                email.content
            ),
            parent_id: Some(email.email_id.clone()),
            attachments: email.attachments.clone(),
            ..Email::default()
        };
        self.send(forwarded)
    }

    fn send(&mut self, email: Email) -> Result<Value, String> {
        self.keep(Email {
            folder: "sent".to_owned(),
            sender: self.state.user_email.clone(),
            is_read: true,
            ..email
        })
    }

    fn keep(&mut self, email: Email) -> Result<Value, String> {
        if email.recipients.is_empty() {
            return Err("argument `recipients` is empty".to_owned());
        }
        if let Some(wrong) = email
            .recipients
            .iter()
            .chain(&email.cc)
            .chain([&email.sender])
            .find(|address| !address.contains('@'))
        {
            return Err(format!("`{wrong}` is no address"));
        }
        let email_id = self.next_id();
        self.index.insert(email_id.clone(), self.state.emails.len());
        let email = Email {
            email_id,
            timestamp: self.state.now.clone(),
            ..email
        };
        let answer = summary(&email);
        self.state.emails.push(email);
        Ok(answer)
    }
}

/// Returns the files that a call gives.
fn attachments(arguments: &Arguments) -> Vec<Attachment> {
    let attachments = arguments.value("attachments").and_then(Value::as_array);
    let attachment = |file: &Value| {
        let text = |key: &str| file[key].as_str().map(str::to_owned);
        Attachment {
            name: text("name").unwrap_or_default(),
            content_type: text("content_type").unwrap_or_else(|| "text/plain".to_owned()),
            content: text("content").unwrap_or_default(),
        }
    };
    attachments.into_iter().flatten().map(attachment).collect()
}

/// Returns a subject with a word before it, once.
fn prefixed(word: &str, subject: &str) -> String {
    let has_it = subject
        .get(..word.trim_end().len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word.trim_end()));
    if has_it {
        subject.to_owned()
    } else {
        format!("{word}{subject}")
    }
}
