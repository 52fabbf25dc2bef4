//! What a person sees.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::diagnostic::Span;

fn shows(diagnostics: &[Diagnostic], expected: Expect) {
    expected.assert_eq(&full(diagnostics, Style::default()));
}

fn span(source: &Source, needle: &str) -> Span {
    let start = source.text.find(needle).expect("the needle is in the text");
    Span::new(start, start + needle.len())
}

fn task() -> Source {
    let text = "[\n  {\n    \"id\": \"env\", \"type\": \"deploy_env\"\n  },\n  {\n    \"id\": \"assistant\", \"type\": \"deploy_agent\",\n    \"model\": \"small\"\n  },\n  {\n    \"id\": \"reply\",\n    \"agent_name\": \"assistant\",\n    \"depends_on\": []\n  }\n]\n";
    Source::new("tasks/reply-to-dana/task.json", text)
}

#[test]
fn labels_far_apart_share_one_snippet() {
    let task = task();
    let made = span(&task, "\"assistant\", \"type\"");
    let fault = Diagnostic::error(
        "no-path-to-producer",
        "step `reply` reads agent `assistant`, but depends on nothing that deploys it",
    )
    .label(
        &task,
        Span::new(made.start as usize, made.start as usize + 11),
        "made here",
    )
    .primary(
        &task,
        Span::new(
            task.text.rfind("\"assistant\"").unwrap(),
            task.text.rfind("\"assistant\"").unwrap() + 11,
        ),
        "read here",
    )
    .help("add {\"task_step_id\": \"assistant\"} to the `depends_on` of `reply`");
    shows(
        &[fault],
        expect![[r#"
        error[no-path-to-producer]: step `reply` reads agent `assistant`, but depends on nothing that deploys it
           ╭─[tasks/reply-to-dana/task.json:11:19]
         6 │     "id": "assistant", "type": "deploy_agent",
           │           ─────┬─────
           │                ╰── made here
         ⋮ │
        11 │     "agent_name": "assistant",
           │                   ─────┬─────
           │                        ╰── read here
           ╰────
          help: add {"task_step_id": "assistant"} to the `depends_on` of `reply`

    "#]],
    );
}

#[test]
fn labels_on_one_line_share_it() {
    let task = task();
    let fault = Diagnostic::warning("odd-pair", "one line, two labels")
        .primary(&task, span(&task, "\"env\""), "an env")
        .label(&task, span(&task, "\"deploy_env\""), "its type")
        .label(&task, span(&task, "\"model\""), "")
        .note("a fact that is long enough to be wrapped, because it goes on and on until the hundredth column is passed and then some")
        .note("two\nlines");
    shows(
        &[fault],
        expect![[r#"
        warning[odd-pair]: one line, two labels
          ╭─[tasks/reply-to-dana/task.json:3:11]
        3 │     "id": "env", "type": "deploy_env"
          │           ──┬──          ──────┬─────
          │             │                  ╰── its type
          │             ╰── an env
        ⋮ │
        7 │     "model": "small"
          │     ───────
          ╰────
          note: a fact that is long enough to be wrapped, because it goes on and on until the hundredth
                column is passed and then some
          note: two
                lines

    "#]],
    );
}

#[test]
fn labels_in_several_files_have_a_snippet_each() {
    let (task, other) = (
        task(),
        Source::new("aebuild.toml", "[cache]\r\ndir = \"/\"\r\n"),
    );
    let fault = Diagnostic::error("two-files", "one fault in two files")
        .label(&task, span(&task, "\"small\""), "chosen here")
        .primary(&other, span(&other, "\"/\""), "forbidden here");
    shows(
        &[fault, Diagnostic::hint("no-place", "nothing to show")],
        expect![[r#"
        error[two-files]: one fault in two files
          ╭─[aebuild.toml:2:7]
        2 │ dir = "/"
          │       ─┬─
          │        ╰── forbidden here
          ╰────
          ╭─[tasks/reply-to-dana/task.json:7:14]
        7 │     "model": "small"
          │              ───┬───
          │                 ╰── chosen here
          ╰────

        hint[no-place]: nothing to show

    "#]],
    );
}

#[test]
fn a_span_of_many_lines_shows_its_first_and_last() {
    let task = task();
    let whole = Span::new(0, task.text.trim_end().len());
    shows(
        &[Diagnostic::error("whole", "all of it").primary(&task, whole, "from here to there")],
        expect![[r#"
        error[whole]: all of it
           ╭─[tasks/reply-to-dana/task.json:1:1]
         1 │ ╭─▶ [
         ⋮ │ │
        14 │ ├─▶ ]
           │ ╰──── from here to there
           ╰────

    "#]],
    );
    let step = span(
        &task,
        "{\n    \"id\": \"env\", \"type\": \"deploy_env\"\n  }",
    );
    shows(
        &[Diagnostic::error("step", "one step").primary(&task, step, "this step")],
        expect![[r#"
        error[step]: one step
          ╭─[tasks/reply-to-dana/task.json:2:3]
        2 │ ╭─▶   {
        3 │ │       "id": "env", "type": "deploy_env"
        4 │ ├─▶   },
          │ ╰──── this step
          ╰────

    "#]],
    );
}

#[test]
fn a_huge_line_is_cut_around_its_labels() {
    let text = format!(
        "[{}{{\"id\": \"reply\", \"promt\": 1}}, {}]",
        "\"x\", ".repeat(200_000),
        "\"y\", ".repeat(200_000)
    );
    let source = Source::new("one-line.json", text);
    let fault = Diagnostic::error("unknown-field", "no field `promt`")
        .primary(&source, span(&source, "\"promt\""), "not a field")
        .label(&source, Span::at(0), "the list starts here")
        .help("did you mean `prompt`?");
    let shown = full(&[fault], Style::default());
    assert!(shown.len() < 2000);
    expect![[r#"
        error[unknown-field]: no field `promt`
          ╭─[one-line.json:1:1000018]
        1 │ ["x", "x", "x", "x", "x"…", "x", {"id": "reply", "promt": 1}, "y", "y", "y", "y"…
          │ ▲                                                ───┬───
          │ │                                                   ╰── not a field
          │ ╰── the list starts here
          ╰────
          help: did you mean `prompt`?

    "#]]
    .assert_eq(&shown);
    let long = Span::new(5, source.text.len() - 5);
    shows(
        &[Diagnostic::error("long", "a long span").primary(&source, long, "all this")],
        expect![[r#"
        error[long]: a long span
          ╭─[one-line.json:1:6]
        1 │ ["x", "x", "x", "x", "x", "x"…", "y", "y", "y", "y", "y", ]
          │      ────────────────────────┬────────────────────────
          │                              ╰── all this
          ╰────

    "#]],
    );
}

#[test]
fn what_a_terminal_would_obey_is_shown() {
    let source = Source::new("a\u{1b}[2J.json", "[\"\u{1b}]0;x\u{7}\u{202e}\", \t7]\r");
    let fault = Diagnostic::error("bad", "see \u{1b}[31m\nnext")
        .primary(&source, span(&source, "7"), "here \u{9b}")
        .help("press \r")
        .note("\u{200b}");
    shows(
        &[fault],
        expect![[r#"
        error[bad]: see \u{1b}[31m\u{a}next
          ╭─[a\u{1b}[2J.json:1:14]
        1 │ ["\u{1b}]0;x\u{7}\u{202e}",     7]
          │                                 ┬
          │                                 ╰── here \u{9b}
          ╰────
          note: \u{200b}
          help: press \u{d}

    "#]],
    );
}

#[test]
fn all_line_ends_and_marks_give_the_right_lines() {
    for end in ["\n", "\r\n", "\r"] {
        let source = Source::new(
            "t.json",
            format!("\u{feff}[{end}  1,{end}{end}  02{end}]{end}"),
        );
        let shown = full(
            &[Diagnostic::error("x", "y").primary(&source, span(&source, "02"), "z")],
            Style::default(),
        );
        assert_eq!(
            shown, "error[x]: y\n  ╭─[t.json:4:3]\n4 │   02\n  │   ─┬\n  │    ╰── z\n  ╰────\n\n",
            "{end:?}"
        );
    }
}

#[test]
fn the_end_of_a_file_and_an_empty_file_can_be_pointed_at() {
    let source = Source::new("t.json", "[1,\n");
    shows(
        &[Diagnostic::error("unfinished", "ends too early").primary(
            &source,
            Span::at(4),
            "the file ends here",
        )],
        expect![[r#"
        error[unfinished]: ends too early
          ╭─[t.json:2:1]
        2 │
          │ ▲
          │ ╰── the file ends here
          ╰────

    "#]],
    );
    shows(
        &[Diagnostic::error("unfinished", "ends too early").primary(
            &source,
            Span::at(3),
            "the line ends here",
        )],
        expect![[r#"
        error[unfinished]: ends too early
          ╭─[t.json:1:4]
        1 │ [1,
          │    ▲
          │    ╰── the line ends here
          ╰────

    "#]],
    );
    let source = Source::new("t.json", "");
    shows(
        &[Diagnostic::error("empty-file", "is empty").primary(
            &source,
            Span::at(0),
            "a value is missing here",
        )],
        expect![[r#"
        error[empty-file]: is empty
          ╭─[t.json:1:1]
        1 │
          │ ▲
          │ ╰── a value is missing here
          ╰────

    "#]],
    );
}

#[test]
fn wide_letters_are_underlined_in_full() {
    let source = Source::new("t.json", "{\"名前\": \"値🙂\", \"x\": 1}");
    shows(
        &[Diagnostic::error("x", "wide").primary(&source, span(&source, "\"値🙂\""), "here")],
        expect![[r#"
        error[x]: wide
          ╭─[t.json:1:8]
        1 │ {"名前": "値🙂", "x": 1}
          │          ───┬──
          │             ╰── here
          ╰────

    "#]],
    );
}

#[test]
fn a_narrow_terminal_is_never_overrun_by_what_can_be_broken() {
    let text = "[\n  {\"id\": \"reply\", \"promt\": \"Answer Dana, and be kind.\", \"depends_on\": [\"env\", \"assistant\"]}\n]";
    let task = Source::new("t.json", text);
    let fault = Diagnostic::error("unknown-field", "step `reply` has no field `promt`")
        .primary(
            &task,
            span(&task, "\"promt\""),
            "not a field of this step type",
        )
        .label(
            &task,
            span(&task, "\"assistant\""),
            "made far over there, in another step",
        )
        .note("the fields are agent_name, prompt and timeout_seconds")
        .help("did you mean `prompt`?");
    let shown = [40, 20].map(|width| {
        let color = false;
        full(std::slice::from_ref(&fault), Style { color, width })
    });
    assert_eq!(shown[0], shown[1]);
    expect![[r#"
        error[unknown-field]: step `reply` has no field `promt`
          ╭─[t.json:2:19]
        2 │ …ly", "promt": "An…nv", "assistant"]}
          │       ───┬───           ─────┬─────
          │          │                   ╰── (2)
          │          ╰── (1)
          ╰────
          (1): not a field of this step type
          (2): made far over there, in another
               step
          note: the fields are agent_name,
                prompt and timeout_seconds
          help: did you mean `prompt`?

    "#]]
    .assert_eq(&shown[0]);
}

#[test]
fn colours_are_used_only_when_asked_for() {
    let task = task();
    let fault = Diagnostic::error("x", "y")
        .primary(&task, span(&task, "\"small\""), "z")
        .help("do");
    let shown = full(
        std::slice::from_ref(&fault),
        Style {
            color: true,
            width: 100,
        },
    );
    assert!(shown.contains("\u{1b}[31;1merror[x]\u{1b}[0m"));
    let bare = shown.split('\u{1b}').map(|part| {
        part.split_once('m')
            .filter(|(code, _)| code.starts_with('['))
            .map_or(part, |(_, rest)| rest)
    });
    assert_eq!(bare.collect::<String>(), full(&[fault], Style::default()));
}

#[test]
fn many_labels_are_counted() {
    let task = task();
    let mut fault = Diagnostic::error("many", "many places");
    for at in 0..40 {
        fault = fault.label(&task, Span::at(at * 4), format!("{at}"));
    }
    assert!(full(&[fault], Style::default()).contains("28 more places are not shown"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_text_and_any_spans_are_drawn_safely(
        text in "[ab\u{1b}\u{7f}\u{9b}\u{202e}\r\n\t\"Ω🙂\u{feff}]{0,120}",
        spans in proptest::collection::vec((0usize..260, 0usize..260, any::<bool>(), "[a-c\u{1b}\n]{0,3}"), 0..6),
        width in 0usize..300,
        color in any::<bool>(),
    ) {
        let source = Source::new("t\n.json", text);
        let mut fault = Diagnostic::error("x", "y\u{1b}");
        for (start, end, primary, text) in spans {
            let span = Span::new(start, end);
            fault = if primary { fault.primary(&source, span, text) } else { fault.label(&source, span, text) };
        }
        let shown = full(&[fault], Style { color, width });
        let shown = if color { shown.replace("\u{1b}[", "") } else { shown };
        prop_assert!(shown.chars().all(|c| c == '\n' || !super::super::visible::obeys_or_hides(c)), "{shown:?}");
        prop_assert!(!shown.contains("Failed to read"), "{shown}");
    }
}
