use super::super::testing::{Fake, SHORT, Say, new_card, old_card};
use super::*;
use crate::step::a2a::{Part, Role, State};

fn message() -> Message {
    Message {
        id: "m".to_owned(),
        role: Role::User,
        parts: vec![Part::text("hi")],
        context_id: Some("c".to_owned()),
        task_id: None,
    }
}

async fn client(fake: &Fake) -> Client {
    let mut client = Client::connect(&fake.url, Ports::AsSaid).await.unwrap();
    client.pace = SHORT;
    client
}

/// Sends a message and follows its task; returns the state at the end, or what is wrong.
async fn ends(fake: &Fake) -> Result<State, String> {
    let client = client(fake).await;
    let task = match client.send(&message()).await {
        Ok(Answer::Task(task)) => client.follow(task).await,
        Ok(Answer::Message(_)) => return Ok(State::Completed),
        Err(fault) => Err(fault),
    };
    let state = task.map(|task| task.state);
    state.map_err(|fault| fault.text().replace(&fake.url, "URL"))
}

fn task(state: &str) -> Say {
    Say::Result(json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": state}}))
}

#[tokio::test]
async fn a_message_is_sent_in_the_dialect_of_the_card_and_its_task_is_followed_to_the_end() {
    let fake = Fake::serve(old_card, |name, _| match name {
        "message/send" => task("submitted"),
        _ => task("completed"),
    })
    .await;
    assert_eq!(ends(&fake).await, Ok(State::Completed));
    assert_eq!(fake.names(), "message/send tasks/get");
    assert_eq!(
        fake.asked()[0].1,
        json!({"message": {"kind": "message", "messageId": "m", "role": "user", "contextId": "c",
                           "parts": [{"kind": "text", "text": "hi"}]},
               "configuration": {"blocking": false}})
    );
    assert_eq!(fake.asked()[1].1, json!({"id": "t"}));

    let fake = Fake::serve(new_card, |name, _| {
        let state = match name {
            "SendMessage" => "TASK_STATE_WORKING",
            _ => "TASK_STATE_REJECTED",
        };
        let task = json!({"id": "t", "status": {"state": state}});
        Say::Result(if name == "SendMessage" {
            json!({"task": task})
        } else {
            task
        })
    })
    .await;
    assert_eq!(ends(&fake).await, Ok(State::Rejected));
    assert_eq!(fake.names(), "SendMessage GetTask");
    assert_eq!(
        fake.asked()[0].1,
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "contextId": "c", "parts": [{"text": "hi"}]},
               "configuration": {"returnImmediately": true}})
    );
}

#[tokio::test]
async fn an_agent_whose_card_names_the_other_dialect_is_asked_in_that() {
    let fake = Fake::serve(old_card, |name, _| match name {
        "SendMessage" => {
            Say::Result(json!({"message": {"messageId": "r", "role": "ROLE_AGENT", "parts": []}}))
        }
        _ => Say::Error(-32601, "Method not found"),
    })
    .await;
    assert_eq!(ends(&fake).await, Ok(State::Completed));
    assert_eq!(fake.names(), "message/send SendMessage");
    let fake = Fake::serve(new_card, |_, _| Say::Error(-32601, "Method not found")).await;
    assert_eq!(
        ends(&fake).await,
        Err("it refused `message/send` with code -32601: Method not found".to_owned())
    );
}

#[tokio::test]
async fn each_bad_answer_is_said_in_a_sentence() {
    type Row = (fn() -> Say, &'static str);
    let table: [Row; 9] = [
        (
            || Say::Error(-32603, "boom"),
            "it refused `message/send` with code -32603: boom",
        ),
        (
            || Say::Raw(200, b"<html>".to_vec()),
            "its answer to `message/send` is no JSON object: <html>",
        ),
        (
            || Say::Raw(200, b"7".to_vec()),
            "its answer to `message/send` is no JSON object: 7",
        ),
        (
            || Say::Raw(200, b"{}".to_vec()),
            "its answer to `message/send` has no `result`",
        ),
        (
            || Say::Result(json!({"kind": "note"})),
            "its answer to `message/send` is neither a message nor a task",
        ),
        (
            || Say::Raw(200, vec![b' '; 50 << 20]),
            "its answer to `message/send` is larger than 32 MiB",
        ),
        (
            || Say::Raw(403, b"who are you".to_vec()),
            "it refused `message/send` with code 403: who are you",
        ),
        (
            || Say::Raw(500, b"oh".to_vec()),
            "it answers `message/send` with status 500: oh",
        ),
        (
            || Say::Raw(200, vec![b'['; 100_000]),
            "its answer to `message/send` is no JSON object: [[[[",
        ),
    ];
    for (say, expected) in table {
        let fake = Fake::serve(old_card, move |_, _| say()).await;
        let said = ends(&fake).await.unwrap_err();
        assert!(said.starts_with(expected), "{said}");
    }
    let fake = Fake::serve(old_card, |_, _| Say::Half).await;
    let said = ends(&fake).await.unwrap_err();
    assert!(
        said.starts_with("the connection broke off at `message/send`: "),
        "{said}"
    );
}

#[tokio::test]
async fn an_agent_that_breaks_off_while_it_works_is_asked_again() {
    let n = Mutex::new(0);
    let fake = Fake::serve(old_card, move |name, _| {
        *locked(&n) += 1;
        match (name, *locked(&n)) {
            ("message/send", _) => task("working"),
            (_, 2) => Say::Raw(503, Vec::new()),
            (_, 3) => Say::Nothing,
            (_, 4) => task("working"),
            (_, 5) => Say::Half,
            _ => task("input-required"),
        }
    })
    .await;
    assert_eq!(ends(&fake).await, Ok(State::InputRequired));
    assert_eq!(fake.asked().len(), 6);
}

#[tokio::test]
async fn an_agent_that_falls_silent_while_it_works_is_given_up() {
    let fake = Fake::serve(old_card, |name, _| match name {
        "message/send" => task("working"),
        _ => Say::Raw(502, b"down".to_vec()),
    })
    .await;
    assert_eq!(
        ends(&fake).await,
        Err(
            "it gives no answer any more while it works on task `t`: it answers `tasks/get` with status 502: down"
                .to_owned()
        )
    );
    assert!(fake.asked().len() > SILENT as usize);
}

#[tokio::test]
async fn a_task_that_the_agent_does_not_know_any_more_ends_the_wait() {
    let fake = Fake::serve(old_card, |name, _| match name {
        "message/send" => task("working"),
        _ => Say::Error(-32001, "Task not found"),
    })
    .await;
    let expected = "it refused `tasks/get` with code -32001: Task not found";
    assert_eq!(ends(&fake).await, Err(expected.to_owned()));
    let fake = Fake::serve(old_card, |name, _| match name {
        "message/send" => task("working"),
        _ => Say::Result(json!({"kind": "task", "id": "other", "status": {"state": "completed"}})),
    })
    .await;
    let expected = "its answer to `tasks/get` is of task `other`, and not of `t`";
    assert_eq!(ends(&fake).await, Err(expected.to_owned()));
}

#[tokio::test]
async fn a_message_is_sent_again_while_nobody_takes_connections() {
    let fake = Fake::serve(|_| old_card("http://127.0.0.1:9"), |_, _| Say::Nothing).await;
    let said = ends(&fake).await.unwrap_err();
    assert!(
        said.starts_with("nothing answers at http://127.0.0.1:9/a2a: "),
        "{said}"
    );
}

#[tokio::test]
async fn a_place_without_a_card_is_no_agent() {
    let why = |url: String| async move {
        let fault = Client::connect(&url, Ports::AsSaid).await.err().unwrap();
        fault.text().replace(&url, "URL")
    };
    let fake = Fake::serve(|_| json!("no card"), |_, _| Say::Nothing).await;
    assert_eq!(why(fake.url.clone()).await, "its card is no JSON object");
    let fake = Fake::serve(|_| json!({"name": "x"}), |_, _| Say::Nothing).await;
    assert_eq!(
        why(fake.url.clone()).await,
        "its card names no address at which it is asked"
    );
    assert_eq!(
        why(format!("{}/deep", fake.url)).await,
        "its card names no address at which it is asked"
    );
    assert_eq!(
        why(format!("{}/x.json", fake.url)).await,
        "it has no card: URL answers with status 404"
    );
    assert!(why("nonsense".to_owned()).await.contains("is no address"));
}

#[test]
fn the_addresses_of_a_card_are_taken_as_seen_from_here() {
    let table = [
        ("http://h:1", "/a2a", Ports::AsSaid, "http://h:1/a2a"),
        (
            "http://h:1/deep",
            "a2a",
            Ports::AsSaid,
            "http://h:1/deep/a2a",
        ),
        (
            "http://h:1",
            "https://api.h/x",
            Ports::AsSaid,
            "https://api.h/x",
        ),
        (
            "http://h:1",
            "http://localhost:8000/x",
            Ports::AsSaid,
            "http://h:1/x",
        ),
        (
            "http://127.0.0.1:1",
            "http://localhost:2/",
            Ports::AsSaid,
            "http://localhost:2/",
        ),
        (
            "http://127.0.0.1:1",
            "http://0.0.0.0:1/",
            Ports::AsSaid,
            "http://127.0.0.1:1/",
        ),
        (
            "http://[::1]:1",
            "http://[::]:1/x",
            Ports::AsSaid,
            "http://[::1]:1/x",
        ),
        (
            "http://127.0.0.1:1",
            "http://agent:8000/x",
            Ports::AsGiven,
            "http://127.0.0.1:1/x",
        ),
        (
            "http://127.0.0.1:1",
            "http://agent:8000",
            Ports::AsGiven,
            "http://127.0.0.1:1",
        ),
    ];
    for (base, said, ports, expected) in table {
        assert_eq!(address(base, said, ports), expected);
    }
}
