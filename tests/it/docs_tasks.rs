//! The tasks of the docs with several agents: which edit runs which steps, and how live things get to their state.

use std::fs;

use aebuild::event::Outcome;
use aebuild::session::SessionError;

use crate::story::{Seen, Story};

/// A copy of an example that ran twice: the second run ran nothing.
struct Task {
    story: Story,
}

impl Task {
    fn of(name: &str, ran: &str) -> Task {
        let task = Task {
            story: Story::example(name, &[]),
        };
        let first = task.story.run();
        assert_eq!(first.outcome(), Outcome::Passed, "{:?}", first.notices());
        assert_eq!(first.ran(), ran);
        let second = task.story.run();
        assert_eq!((second.ran(), second.provisioned()), Default::default());
        task
    }

    /// Replaces a text of a file, and runs.
    fn edited(&self, file: &str, old: &str, new: &str) -> Seen {
        let text = fs::read_to_string(self.story.path(file)).unwrap();
        assert!(text.contains(old), "{file} has no {old}");
        self.story.write(file, text.replace(old, new));
        self.story.settle();
        let seen = self.story.run();
        seen.summary();
        seen
    }

    /// Edits a file, and tells what ran and how live things got to their state; the edit is taken back.
    #[track_caller]
    fn edit(&self, file: &str, old: &str, new: &str, ran: &str, provisioned: &str) {
        let seen = self.edited(file, old, new);
        let mut got: Vec<String> = seen.provisioned().split(' ').map(str::to_owned).collect();
        let mut wanted: Vec<&str> = provisioned.split(' ').collect();
        // Steps that run side by side get things in any order.
        got.sort();
        wanted.sort_unstable();
        assert_eq!(
            (seen.ran().as_str(), got.join(" ")),
            (ran, wanted.join(" ")),
            "{file}: {old} -> {new}"
        );
        let back = self.edited(file, new, old);
        assert_eq!(back.ran(), "", "what was kept is still there");
    }
}

#[test]
fn q3_to_sam() {
    let task = Task::of("q3-to-sam", "ask check mailbox numbers peer");
    let json = "tasks/q3-to-sam.json";
    task.edit(
        "artifacts/sent/verify.toml",
        "Sam got one mail",
        "one mail for Sam",
        "check",
        "check:restore",
    );
    task.edit(
        json,
        "Have the Q3 numbers sent",
        "Please have the Q3 numbers sent",
        "ask",
        "ask:restore ask:restore",
    );
    // The planner's env is loaded anew; the mailbox comes back as it was before the prompt.
    task.edit(
        "artifacts/records/files.json",
        "September,41",
        "September,42",
        "ask check numbers",
        "numbers:create ask:reuse ask:restore check:reuse",
    );
    // Nobody but the writer looks at the mailbox, and the planner asks the writer.
    task.edit(
        "artifacts/mailbox/mail.json",
        "Could I have the numbers?",
        "May I have the numbers?",
        "ask check mailbox",
        "mailbox:create ask:restore ask:reuse check:reuse",
    );
    // How a peering is written says nothing of who is whose peer.
    task.edit(
        json,
        r#""depends_on": ["peer", "#,
        r#""depends_on": [ "peer", "#,
        "",
        "",
    );
}

#[test]
fn chart_q3() {
    let task = Task::of("chart-q3", "chart collect data grade handoff");
    let json = "tasks/chart-q3.json";
    task.edit(
        json,
        "a bar for each month",
        "one bar for each month",
        "grade",
        "grade:restore",
    );
    task.edit(
        "agents/judge/agent.toml",
        "pixels wide\" }",
        "dots wide\" }",
        "grade handoff",
        "handoff:create grade:reuse",
    );
    task.edit(
        json,
        "Draw the revenue",
        "Please draw the revenue",
        "chart grade",
        "chart:restore grade:restore",
    );
    task.edit(
        "artifacts/q3/q3.csv",
        "August,29",
        "August,27",
        "chart collect data grade handoff",
        "data:create chart:reuse collect:reuse handoff:create grade:reuse",
    );
    // The same chart comes out of another script: what is done with it stands.
    task.edit(
        "artifacts/q3/draw.sh",
        "# Draws",
        "# It draws",
        "chart collect data",
        "data:create chart:reuse collect:reuse",
    );
}

#[test]
fn talk_to_dana() {
    let task = Task::of("talk-to-dana", "grade inbox talk");
    task.edit(
        "tasks/talk-to-dana.json",
        "before it mails anything",
        "before it writes",
        "grade",
        "",
    );
    task.edit(
        "agents/judge/agent.toml",
        "it asks in its first turn",
        "it asks at once",
        "grade",
        "",
    );
    task.edit(
        "agents/dana/agent.toml",
        "Some time next week, I think.",
        "Thursday at nine.",
        "grade talk",
        "talk:restore",
    );
    task.edit(
        "tasks/talk-to-dana.json",
        "\"max_conversation_turns\": 6",
        "\"max_conversation_turns\": 5",
        "talk",
        "talk:restore",
    );
    // What is said is the same, so the judge is not asked.
    task.edit(
        "artifacts/danas-mail/inbox.json",
        "Nothing happened.",
        "Nothing much happened.",
        "inbox talk",
        "inbox:create talk:reuse",
    );
}

#[test]
fn inbox_week() {
    let task = Task::of("inbox-week", "check clock deadline snapshot week");
    task.edit(
        "artifacts/on-time/verify.toml",
        "had no need to ask",
        "did not ask",
        "check",
        "check:restore",
    );
    task.edit(
        "tasks/inbox-week.json",
        "Look after my mail",
        "Please look after my mail",
        "week",
        "week:restore",
    );
    // Dana asks in between.
    task.edit(
        "agents/assistant/agent.toml",
        "2026-03-03T10:00:00Z",
        "2026-03-05T10:00:00Z",
        "check snapshot week",
        "week:restore check:reuse snapshot:reuse",
    );
    // A trigger is a part of the env, and so is the time.
    task.edit(
        "tasks/inbox-week.json",
        "2026-03-04T12:00:00Z",
        "2026-03-04T13:00:00Z",
        "check clock deadline snapshot week",
        "deadline:create clock:reuse week:reuse check:reuse snapshot:reuse",
    );
    // By leaps a rate is nothing, and yet a part of the step's result.
    task.edit(
        "tasks/inbox-week.json",
        "3600",
        "60",
        "check clock snapshot week",
        "clock:restore week:reuse check:reuse snapshot:reuse",
    );
}

#[test]
fn support_world() {
    let names =
        "ada ben cleo dana eli fay gus hal ida jon kim leo mia ned ora pia quinn rex sue tom";
    let talks: String = names
        .split(' ')
        .map(|name| format!(" talk-{name}"))
        .collect();
    let grades = talks.replace("talk-", "grade-");
    let ran = format!("clock company end-state{grades} peer rules{talks}");
    let task = Task::of("support-world", &ran);
    task.edit(
        "artifacts/end-state/verify.toml",
        "no order was rewritten",
        "orders stand",
        "end-state",
        "end-state:restore",
    );
    // Nobody who answers customers asks the one who keeps the books, but what they do may have a trigger ask it. It does the
    // same, and so everybody is told the same.
    let seen = task.edited("agents/bookkeeper/agent.toml", "and counts", "and adds one");
    assert_eq!(seen.ran(), "");
    let seen = task.edited("agents/bookkeeper/agent.toml", "Booked.", "It is booked.");
    assert_eq!(seen.ran(), format!("rules{talks}"));
    // Twenty conversations with one env are one group: who edits one of them has them all again.
    let seen = task.edited(
        "tasks/support-world.json",
        "about order 1001.",
        "about order 1001, please.",
    );
    assert_eq!(
        seen.ran()
            .split(' ')
            .filter(|step| step.starts_with("talk-"))
            .count(),
        20
    );
}

#[test]
fn an_agent_works_in_a_sandbox_of_the_task() {
    let ran = "first keep note noted peer said second skills there";
    let task = Task::of("agent-steps", ran);
    let json = "tasks/agent-steps.json";
    task.edit(
        json,
        "\"paths\": [\"note.txt\"]",
        "\"paths\": [\"./note.txt\"]",
        "noted",
        "noted:restore",
    );
    task.edit(
        "agents/clerk/agent.toml",
        "The clerk was here.",
        "The clerk is gone.",
        "note noted",
        "note:create noted:reuse",
    );
    let config = "[agents.clerk]\ntype = \"a2a\"\nurl = \"http://127.0.0.1:9\"\n";
    let own = fs::read_to_string(task.story.path("aebuild.toml")).unwrap();
    task.story.write("aebuild.toml", own + config);
    let Err(SessionError::Faults(faults)) = task.story.run().result else {
        panic!("an agent that serves A2A cannot work there");
    };
    let faults: Vec<String> = faults.iter().map(|fault| fault.headline.clone()).collect();
    assert_eq!(
        faults,
        ["agent `clerk` serves A2A, so it needs a sandbox of its own"]
    );
}
