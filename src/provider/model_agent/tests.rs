use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::provider::local::{LocalSandboxes, SandboxSpec, Wanted};
use crate::provider::scripted::tests::{block_on, env, mail};
use crate::step::agent::{Peer, PeerLine, PromptSettings};
use crate::step::env::LiveEnv;
use crate::step::model::Content;
use crate::system::locked;

/// Models that answer from a list, and keep what they were asked.
#[derive(Default)]
struct Script {
    replies: Mutex<VecDeque<Result<ChatReply, ModelError>>>,
    asked: Mutex<Vec<ChatRequest>>,
}

impl Models for Script {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatReply, ModelError>> {
        locked(&self.asked).push(request);
        let next = locked(&self.replies).pop_front();
        Box::pin(async move {
            match next {
                Some(reply) => reply,
                None => std::future::pending().await,
            }
        })
    }
}

fn reply(text: &str, calls: Vec<ToolCall>, finish: Finish) -> ChatReply {
    ChatReply {
        text: text.to_owned(),
        calls,
        finish,
        kept: Value::Null,
        usage: Usage {
            requests: 1,
            input_tokens: Some(10),
            output_tokens: Some(2),
            ..Usage::default()
        },
        model: "m-1".to_owned(),
        from_cache: false,
    }
}

fn says(text: &str) -> ChatReply {
    reply(text, Vec::new(), Finish::Stop)
}

fn calls(all: &[(&str, Value)]) -> ChatReply {
    let one = |(at, (name, arguments)): (usize, &(&str, Value))| ToolCall {
        id: format!("c{at}"),
        name: (*name).to_owned(),
        arguments: match arguments {
            Value::Object(members) => Ok(members.clone()),
            other => Err(other.to_string()),
        },
    };
    reply("", all.iter().enumerate().map(one).collect(), Finish::Calls)
}

fn agent(
    settings: Value,
    replies: impl IntoIterator<Item = ChatReply>,
) -> (ModelAgent, Arc<Script>) {
    let script = Arc::new(Script::default());
    locked(&script.replies).extend(replies.into_iter().map(Ok));
    (ModelAgent::new("clerk", &settings, script.clone()), script)
}

fn plain() -> Value {
    json!({"model": "m"})
}

fn prompt(text: &str) -> Prompt {
    Prompt::of(text, Duration::from_secs(60))
}

fn in_envs(text: &str, envs: &[Arc<dyn LiveEnv>]) -> Prompt {
    Prompt {
        envs: envs.to_vec(),
        ..prompt(text)
    }
}

/// Asks an agent and returns its trajectory, a line a moment, and how it ended.
fn story(replies: impl IntoIterator<Item = ChatReply>, prompt: Prompt) -> String {
    let (agent, _) = agent(plain(), replies);
    let (trajectory, end) = match block_on(agent.prompt(prompt)) {
        Ok(reply) => (reply.trajectory, format!("= {}", reply.text)),
        Err(error) => {
            let text = error.to_string();
            match error {
                AgentError::Failed { trajectory, .. } | AgentError::Model { trajectory, .. } => {
                    (trajectory, text)
                }
                _ => (Vec::new(), text),
            }
        }
    };
    let mut text = String::new();
    for moment in trajectory {
        let role = moment["role"].as_str().unwrap_or_default();
        let what = match moment.get("tool_calls") {
            Some(calls) => calls.to_string(),
            None => moment["content"].as_str().unwrap_or_default().to_owned(),
        };
        let mark = if moment["is_error"] == true { "!" } else { ":" };
        text.push_str(&format!("{role}{mark} {what}\n"));
    }
    text + &end
}

#[test]
fn the_model_works_in_the_env_until_it_calls_no_more_tools() {
    let mail = mail();
    let search = calls(&[("search_emails", json!({"query": "from:dana"}))]);
    let (agent, script) = agent(
        json!({"model": "m", "system_prompt": "Be kind.", "params": {"temperature": 0, "top_p": 1}}),
        [search, says("Dana wrote twice.")],
    );
    assert_eq!(agent.name(), "clerk");
    let settings = PromptSettings {
        model_params: Map::from_iter([("top_p".to_owned(), json!(0.5))]),
        effort: Some("low".to_owned()),
        ..PromptSettings::default()
    };
    let asked = Prompt {
        settings,
        ..in_envs("Who wrote?", &[mail])
    };
    let reply = block_on(agent.prompt(asked)).unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.tool_calls),
        ("Dana wrote twice.", 1)
    );
    assert_eq!(reply.model.as_deref(), Some("m-1"));
    assert_eq!(
        (reply.usage.requests, reply.usage.input_tokens),
        (2, Some(20))
    );
    let roles: Vec<&str> = reply
        .trajectory
        .iter()
        .filter_map(|moment| moment["role"].as_str())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant"]);
    assert!(
        reply.trajectory[3]["content"]
            .as_str()
            .unwrap()
            .contains("dana@x.org")
    );
    assert_eq!(
        reply.trajectory[4]["usage"],
        json!({"input_tokens": 10, "output_tokens": 2})
    );

    let requests = locked(&script.asked);
    let [first, second] = &requests[..] else {
        panic!("two requests")
    };
    assert_eq!(
        (first.model.as_str(), first.effort.as_deref()),
        ("m", Some("low"))
    );
    assert_eq!(
        Value::Object(first.params.clone()),
        json!({"temperature": 0, "top_p": 0.5})
    );
    assert!(
        first
            .tools
            .iter()
            .any(|tool| tool.name == "reply_to_email" && tool.schema["type"] == "object")
    );
    assert_eq!(
        first.messages[0],
        ChatMessage::System("Be kind.".to_owned())
    );
    assert_eq!((first.messages.len(), second.messages.len()), (2, 4));
    assert!(matches!(
        &second.messages[3],
        ChatMessage::Tool { id, is_error: false, content, .. }
            if id == "c0" && matches!(&content[..], [Content::Text(text)] if text.contains("Friday"))
    ));
}

#[test]
fn the_next_turn_goes_on_from_what_is_remembered() {
    let (agent, script) = agent(plain(), [says("One."), says("Two.")]);
    let first = block_on(agent.prompt(prompt("Count."))).unwrap();
    let next = Prompt {
        memory: first.memory,
        turn: 2,
        ..prompt("Go on.")
    };
    let second = block_on(agent.prompt(next)).unwrap();
    assert_eq!(second.text, "Two.");
    let texts: Vec<String> = locked(&script.asked)[1]
        .messages
        .iter()
        .map(|message| match message {
            ChatMessage::User(content) => super::parts::text_of(content),
            ChatMessage::Assistant { text, .. } => text.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["Count.", "One.", "Go on."]);
    // What happened before is not told again.
    assert_eq!(second.trajectory.len(), 2);
    let damaged = Prompt {
        memory: json!({"messages": [1]}),
        ..prompt("Go on.")
    };
    let error = block_on(agent.prompt(damaged)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("remembers of the conversation is damaged")
    );
}

#[test]
fn what_goes_wrong_in_a_tool_is_an_answer() {
    let all = [
        calls(&[
            ("serch_emails", json!({})),
            ("search_emails", json!("not an object")),
            (
                "reply_to_email",
                json!({"email_id": "nobody", "content": "x"}),
            ),
        ]),
        says("I give up."),
    ];
    let told = story(all, in_envs("Go.", &[mail()]));
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "user: Go.");
    assert_eq!(
        lines[2],
        "tool! there is no tool `serch_emails`; did you mean `search_emails`?"
    );
    assert_eq!(
        lines[3],
        "tool! the arguments of `search_emails` are no JSON object, so nothing was called: \"not an object\""
    );
    assert!(
        lines[4].starts_with("tool! ") && lines[4].contains("nobody"),
        "{told}"
    );
    assert_eq!(lines[lines.len() - 1], "= I give up.");
}

#[test]
fn an_env_that_is_gone_ends_the_conversation() {
    let (agent, _) = agent(plain(), [calls(&[("vanish", json!({}))])]);
    let error = block_on(agent.prompt(in_envs("Go.", &[mail()]))).unwrap_err();
    assert!(matches!(error, AgentError::Env(_)));
    assert_eq!(error.to_string(), "env `email` is gone: it ended");
}

#[test]
fn an_agent_that_goes_round_for_ever_or_says_nothing_fails_and_says_why() {
    let again = || calls(&[("list", json!({}))]);
    let (endless, _) = agent(
        json!({"model": "m", "max_turns": 3}),
        [again(), again(), again()],
    );
    let error = block_on(endless.prompt(in_envs("Go.", &[env("kv", "kv")]))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "agent `clerk` failed: it asked its model 3 times, as often as `max_turns` allows, and the model still calls tools"
    );
    assert!(matches!(error, AgentError::Failed { trajectory, .. } if trajectory.len() == 7));
    let end = |text: &str, finish| {
        let told = story([reply(text, Vec::new(), finish)], prompt("Go."));
        told.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(
        end("I can't do that.", Finish::Refusal),
        "agent `clerk` failed: its model refused to answer: I can't do that."
    );
    assert_eq!(
        end("", Finish::Refusal),
        "agent `clerk` failed: its model refused to answer"
    );
    assert_eq!(
        end(" ", Finish::Stop),
        "agent `clerk` failed: its model gave an empty answer"
    );
    assert_eq!(
        end("", Finish::Length),
        "agent `clerk` failed: its model used up the longest answer that it may give before it said anything"
    );
    let silent = [calls(&[("list", json!({}))]), says("")];
    assert!(story(silent, in_envs("Go.", &[env("kv", "kv")])).ends_with("assistant: \n= "));
    assert_eq!(end("Half an", Finish::Length), "= Half an");
    let (nobody, _) = agent(json!({}), []);
    let error = block_on(nobody.prompt(prompt("Go."))).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("nothing says which model it asks")
    );
}

#[test]
fn an_error_of_the_model_and_a_limit_of_time_are_told() {
    let (broken, script) = agent(plain(), []);
    locked(&script.replies).push_back(Err(ModelError::BadAnswer {
        model: "m".to_owned(),
        why: "no JSON".to_owned(),
    }));
    let error = block_on(broken.prompt(prompt("Go."))).unwrap_err();
    assert!(matches!(&error, AgentError::Model { trajectory, .. } if trajectory.len() == 1));
    let slow = Prompt {
        timeout: Duration::from_millis(20),
        ..prompt("Go.")
    };
    let error = block_on(broken.prompt(slow)).unwrap_err();
    assert!(
        matches!(&error, AgentError::TimedOut { trajectory, .. } if trajectory.len() == 1),
        "{error}"
    );
}

#[test]
fn a_conversation_that_is_too_long_goes_on_without_the_older_answers_of_tools() {
    let look = || Ok(calls(&[("list", json!({}))]));
    let too_long = || {
        Err(ModelError::TooLong {
            model: "m".to_owned(),
            why: "128k".to_owned(),
        })
    };
    let (clerk, script) = agent(plain(), []);
    locked(&script.replies).extend([
        look(),
        look(),
        look(),
        too_long(),
        too_long(),
        Ok(says("Done.")),
    ]);
    let reply = block_on(clerk.prompt(in_envs("Go.", &[env("kv", "kv")]))).unwrap();
    assert_eq!(reply.text, "Done.");
    let left_out = |request: &ChatRequest| {
        let tools = request.messages.iter().filter_map(|message| match message {
            ChatMessage::Tool { content, .. } => Some(parts::text_of(content)),
            _ => None,
        });
        tools
            .map(|text| if text == LEFT_OUT { '-' } else { 'x' })
            .collect::<String>()
    };
    let asked: Vec<String> = locked(&script.asked).iter().map(left_out).collect();
    assert_eq!(asked, ["", "x", "xx", "xxx", "--x", "---"]);
    let notes = reply
        .trajectory
        .iter()
        .filter(|moment| moment["role"] == "note");
    assert_eq!(notes.count(), 2);

    let (clerk, script) = agent(plain(), []);
    locked(&script.replies).push_back(too_long());
    let error = block_on(clerk.prompt(prompt("Go."))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "agent `clerk`: model `m` cannot read so much: 128k"
    );
}

#[test]
fn a_typed_reply_is_asked_for_with_its_schema() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let (agent, script) = agent(plain(), [says("{\"n\": 3}"), says("three")]);
    let typed = || Prompt {
        settings: PromptSettings {
            output_schema: Some(schema.clone()),
            model: Some("other".to_owned()),
            ..PromptSettings::default()
        },
        ..prompt("How many?")
    };
    let reply = block_on(agent.prompt(typed())).unwrap();
    assert_eq!(reply.structured, Some(json!({"n": 3})));
    assert_eq!(block_on(agent.prompt(typed())).unwrap().structured, None);
    let asked = &locked(&script.asked)[0];
    assert_eq!(
        (asked.output_schema.as_ref(), asked.model.as_str()),
        (Some(&schema), "other")
    );
}

#[test]
fn its_own_sandbox_is_three_tools() {
    let live = tempfile::tempdir().unwrap();
    let sandboxes = LocalSandboxes::new(live.path().join("live"), "run", Wanted::None).unwrap();
    let sandbox = sandboxes.create(SandboxSpec {
        id: "mine".to_owned(),
        ..SandboxSpec::default()
    });
    let asked = Prompt {
        sandbox: Some(sandbox.unwrap()),
        ..prompt("Go.")
    };
    let all = [
        calls(&[
            (
                "write_file",
                json!({"path": "note.txt", "content": "hello\n"}),
            ),
            ("read_file", json!({"path": "note.txt"})),
            ("read_file", json!({"path": "none.txt"})),
            (
                "bash",
                json!({"command": "cat note.txt; echo oops >&2; exit 3"}),
            ),
            ("bash", json!({"command": "true"})),
            ("bash", json!({})),
        ]),
        says("Done."),
    ];
    let told = story(all, asked);
    let answers = told.split_once("}]\n").unwrap().1;
    expect_test::expect![[r#"
        tool: {"path":"note.txt","size":6}
        tool: hello

        tool! there is no file `none.txt`
        tool! exit code 3
        hello
        stderr:
        oops

        tool: exit code 0

        tool! `command` is missing
        assistant: Done.
        = Done."#]]
    .assert_eq(answers);
}

/// A colleague that says everything twice.
struct Echo;

impl PeerLine for Echo {
    fn ask<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(async move {
            match text {
                "" => Err(AgentError::TimedOut {
                    agent: "echo".to_owned(),
                    limit: Duration::from_secs(1),
                    trajectory: Vec::new(),
                }),
                text => Ok(Reply {
                    text: format!("{text} {text}"),
                    usage: Usage {
                        requests: 5,
                        ..Usage::default()
                    },
                    ..Reply::default()
                }),
            }
        })
    }
}

#[test]
fn peers_are_asked_and_skills_are_read_with_tools() {
    let (agent, script) = agent(
        plain(),
        [
            calls(&[
                ("ask_echo", json!({"message": "hi"})),
                ("ask_echo", json!({"message": ""})),
                ("read_skill", json!({"name": "tact"})),
                ("read_skill", json!({"name": "x"})),
            ]),
            says("Done."),
        ],
    );
    let skill = Skill {
        name: "tact".to_owned(),
        description: "When somebody is sad.".to_owned(),
        body: "Listen first.".to_owned(),
    };
    let asked = Prompt {
        peers: vec![Peer {
            name: "echo".to_owned(),
            description: None,
            line: Arc::new(Echo),
        }],
        settings: PromptSettings {
            skills: vec![skill],
            ..PromptSettings::default()
        },
        ..prompt("Go.")
    };
    let reply = block_on(agent.prompt(asked)).unwrap();
    assert_eq!((reply.tool_calls, reply.usage.requests), (4, 7));
    let answers: Vec<&str> = reply.trajectory[3..7]
        .iter()
        .filter_map(|moment| moment["content"].as_str())
        .collect();
    assert_eq!(
        answers,
        [
            "hi hi",
            "agent `echo` gave no answer within 1 s",
            "Listen first.",
            "there is no skill `x`"
        ]
    );
    let first = &locked(&script.asked)[0];
    assert!(
        matches!(&first.messages[0], ChatMessage::System(text) if text.ends_with("- tact: When somebody is sad."))
    );
}

#[test]
fn a_name_that_two_envs_share_says_whose_it_is() {
    let (agent, script) = agent(plain(), [says("Done.")]);
    let envs = [env("kv", "left"), env("kv", "right"), mail()];
    block_on(agent.prompt(in_envs("Go.", &envs))).unwrap();
    let asked = locked(&script.asked);
    let names: Vec<&str> = asked[0]
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    let shared = names
        .iter()
        .filter(|name| name.starts_with("left__"))
        .count();
    assert!(shared > 1 && names.contains(&"search_emails"), "{names:?}");
    let other = names
        .iter()
        .filter(|name| name.starts_with("right__"))
        .count();
    assert_eq!(shared, other);
    let distinct: std::collections::HashSet<&&str> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
}
