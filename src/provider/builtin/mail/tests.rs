use super::super::tests::Live;
use crate::json::{Value, json};

fn mailbox() -> Live {
    Live::of(
        "mail",
        json!({
            "user_email": "me@x.org",
            "now": "2026-03-02T08:00:00Z",
            "emails": [
                {"email_id": "a", "sender": "dana@x.org", "recipients": ["me@x.org", "lee@x.org"], "cc": ["kim@x.org"],
                 "subject": "Weekly plan", "content": "Budget and rooms", "timestamp": "2026-03-01T08:00:00Z",
                 "attachments": [{"name": "plan.txt", "content_type": "text/plain", "content": "1. rooms"}]},
                {"email_id": "b", "sender": "lee@x.org", "recipients": ["me@x.org"], "subject": "Lunch",
                 "content": "With Dana?", "timestamp": "2026-03-01T10:00:00+05:00", "is_read": true},
                {"subject": "No id", "sender": "x@x.org"},
            ],
        }),
    )
}

fn ids(found: &Value) -> Vec<&str> {
    let emails = found["emails"].as_array().unwrap().iter();
    emails
        .map(|email| email["email_id"].as_str().unwrap())
        .collect()
}

#[test]
fn emails_are_listed_newest_first() {
    let live = mailbox();
    assert_eq!(
        ids(&live.ok("list_emails", json!({}))),
        ["email-1", "a", "b"]
    );
    let unread = live.ok(
        "list_emails",
        json!({"unread_only": true, "limit": 1, "offset": 1}),
    );
    assert_eq!((ids(&unread), &unread["total"]), (vec!["a"], &json!(2)));
}

#[test]
fn a_search_looks_for_every_word_where_it_is_told() {
    let live = mailbox();
    for (query, found) in [
        ("dana", vec!["a", "b"]),
        ("from:DANA", vec!["a"]),
        ("dana budget", vec!["a"]),
        ("to:kim", vec!["a"]),
        ("subject:\"weekly plan\" rooms", vec!["a"]),
        ("subject:rooms", vec![]),
        ("\"rooms budget\"", vec![]),
        ("http://x", vec![]),
    ] {
        let answer = live.ok("search_emails", json!({"query": query}));
        assert_eq!(ids(&answer), found, "{query}");
    }
    let nowhere = live.ok("search_emails", json!({"query": "", "folder": "sent"}));
    assert_eq!(nowhere["total"], 0);
}

#[test]
fn reading_an_email_changes_nothing() {
    let live = mailbox();
    let before = live.export();
    let email = live.ok("get_email_by_id", json!({"email_id": "a"}));
    assert_eq!(email["content"], "Budget and rooms");
    assert_eq!(email["attachments"][0]["size"], 8);
    let file = live.ok(
        "get_attachment",
        json!({"email_id": "a", "name": "plan.txt"}),
    );
    assert_eq!(file["content"], "1. rooms");
    assert_eq!(live.export(), before);
    assert_eq!(
        live.fails("get_email_by_id", json!({"email_id": "z"})),
        "there is no email `z`"
    );
    assert_eq!(
        live.fails("get_attachment", json!({"email_id": "b", "name": "x"})),
        "email `b` has no attachment `x`"
    );
}

#[test]
fn a_reply_goes_to_the_sender_or_to_all_but_the_user() {
    let live = mailbox();
    let one = live.ok(
        "reply_to_email",
        json!({"email_id": "a", "content": "Yes."}),
    );
    assert_eq!(one["recipients"], json!(["dana@x.org"]));
    assert_eq!(
        (&one["subject"], &one["cc"]),
        (&json!("Re: Weekly plan"), &json!([]))
    );
    assert_eq!(one["timestamp"], "2026-03-02T08:00:00Z");
    let all = json!({"email_id": "a", "content": "Yes.", "reply_all": true});
    let all = live.ok("reply_to_email", all);
    assert_eq!(all["recipients"], json!(["dana@x.org", "lee@x.org"]));
    assert_eq!(all["cc"], json!(["kim@x.org"]));
    assert_eq!(all["timestamp"], "2026-03-02T08:01:00Z");
    let again = live.ok(
        "reply_to_email",
        json!({"email_id": one["email_id"], "content": "?"}),
    );
    assert_eq!(
        again["recipients"],
        json!(["dana@x.org"]),
        "a reply to one's own email"
    );
    assert_eq!(again["subject"], "Re: Weekly plan");
    assert_eq!(live.state()["emails"][3]["parent_id"], "a");
}

#[test]
fn a_forwarded_email_keeps_its_text_and_attachments() {
    let live = mailbox();
    let sent = json!({"email_id": "a", "recipients": ["kim@x.org"], "content": "See below."});
    let sent = live.ok("forward_email", sent);
    let email = live.ok("get_email_by_id", json!({"email_id": sent["email_id"]}));
    let text = email["content"].as_str().unwrap();
    assert!(
        text.starts_with("See below.\n\n") && text.ends_with("\n\nBudget and rooms"),
        "{text}"
    );
    assert_eq!(email["attachments"][0]["name"], "plan.txt");
    assert_eq!(
        live.fails(
            "send_email",
            json!({"recipients": [], "subject": "", "content": ""})
        ),
        "argument `recipients` is empty"
    );
}

#[test]
fn an_email_is_deleted_for_good_from_the_trash_alone() {
    let live = mailbox();
    assert_eq!(
        live.ok("delete_email", json!({"email_id": "a"}))["is_gone"],
        false
    );
    assert_eq!(
        live.ok("delete_email", json!({"email_id": "a"}))["is_gone"],
        true
    );
    live.fails("delete_email", json!({"email_id": "a"}));
    live.ok("mark_email", json!({"email_id": "b", "is_read": false}));
    live.ok("move_email", json!({"email_id": "b", "folder": "later"}));
    let folders = live.ok("list_folders", json!({}));
    assert_eq!(
        folders["folders"][1],
        json!({"name": "later", "total": 1, "unread": 1})
    );
}

#[test]
fn what_is_no_mailbox_is_refused_and_changes_nothing() {
    let live = mailbox();
    let before = live.export();
    for (state, why) in [
        (
            json!({"emails": [{"email_id": "a"}]}),
            "two emails with `email_id` `a`",
        ),
        (
            json!({"emails": [{"email_id": "q"}, {"email_id": "q"}]}),
            "two emails",
        ),
        (json!({"emails": [{"form": "x"}]}), "unknown field `form`"),
        (json!({"mails": []}), "unknown field `mails`"),
        (json!({"now": "noon"}), "`now`: `noon` is no time"),
        (
            json!({"emails": [{"email_id": "q", "timestamp": "x"}]}),
            "`timestamp` of email `q`",
        ),
    ] {
        let said = live.add(state).unwrap_err().to_string();
        assert!(said.contains("-32000") && said.contains(why), "{said}");
    }
    assert_eq!(live.export(), before);
    live.add(json!({"emails": [{"email_id": "c"}]})).unwrap();
    assert_eq!(live.state()["emails"].as_array().unwrap().len(), 4);
}
