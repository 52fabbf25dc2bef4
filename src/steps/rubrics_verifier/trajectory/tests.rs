use super::*;
use expect_test::expect;

fn sift(filter: Value, trajectory: &[Value]) -> Sifted {
    let filter: Filter = crate::json::from_slice(filter.to_string().as_bytes()).unwrap();
    let mut refusals = Vec::new();
    let sieve = Sieve::new(&Some(filter), &mut refusals);
    assert_eq!(refusals, []);
    sieve.sift(trajectory)
}

fn trajectory() -> Vec<Value> {
    vec![
        json!({"role": "user", "content": "Go"}),
        json!({"role": "assistant", "thinking": "hm", "content": "I look", "tool_calls": [
            {"env": "web", "tool": "shot", "arguments": {"page": 1}},
            {"id": "2", "type": "function", "function": {"name": "click", "arguments": "{\"x\": 1}"}},
        ]}),
        json!({"role": "tool", "tool": "click", "content": "clicked"}),
        json!({"role": "tool", "tool": "shot", "content": {"content": [{"type": "text", "text": "a\n b"}]}}),
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "Done"}]}),
        json!({"type": "reasoning", "text": "deep"}),
        json!("odd"),
    ]
}

#[test]
fn a_filter_leaves_out_what_it_says() {
    let text = |filter: Value| sift(filter, &trajectory()).text;
    expect![[r#"
        {"content":"Go","role":"user"}
        {"content":"I look","role":"assistant","tool_calls":[{"arguments":{"page":1},"env":"web","tool":"shot"},{"function":{"arguments":"{\"x\": 1}","name":"click"},"id":"2","type":"function"}]}
        {"content":"clicked","role":"tool","tool":"click"}
        {"content":{"content":[{"text":"a\n b","type":"text"}]},"role":"tool","tool":"shot"}
        {"content":[{"text":"Done","type":"text"}],"role":"assistant"}
        "odd"
    "#]].assert_eq(&text(json!({})));
    let bare = json!({"include_tool_calls": false, "include_tool_call_results": false, "include_response": false});
    expect![[r#"
        {"content":"Go","role":"user"}
        "odd"
    "#]]
    .assert_eq(&text(bare));
    let all = text(json!({"include_thinking": true}));
    assert_eq!(all, lines(&trajectory()));
}

#[test]
fn a_log_of_actions_has_a_line_for_each_and_keeps_what_must_be_shown() {
    let text = |filter: Value| sift(filter, &trajectory()).text;
    expect![[r#"
        1. user: Go
        2. assistant: I look
        3. assistant thinks: hm
        4. web.shot {"page":1} -> a b
        5. click {"x": 1} -> clicked
        6. assistant: Done
        7. thinks: deep
        8. "odd"
    "#]]
    .assert_eq(&text(
        json!({"trajectory_text": "action_log", "include_thinking": true}),
    ));
    let mut many =
        vec![json!({"role": "assistant", "tool_calls": [{"tool": "pay", "arguments": {}}]})];
    many.extend((0..20).map(|n| json!({"role": "assistant", "content": format!("step {n}")})));
    let filter = json!({
        "trajectory_text": "action_log", "action_log_max_lines": 10, "always_show_actions": {"money": "^pay"},
    });
    expect![[r#"
        1. [money] pay {}
        (11 left out)
        13. assistant: step 11
        14. assistant: step 12
        15. assistant: step 13
        16. assistant: step 14
        17. assistant: step 15
        18. assistant: step 16
        19. assistant: step 17
        20. assistant: step 18
        21. assistant: step 19
    "#]]
    .assert_eq(&sift(filter, &many).text);
}

fn shots(n: usize) -> Vec<Value> {
    let shot = |n: usize| {
        [
            json!({"role": "assistant", "tool_calls": [{"tool": if n.is_multiple_of(2) { "scroll" } else { "click" }}]}),
            json!({"role": "tool", "tool": "x", "content": [{"type": "image", "mimeType": "image/png", "data": format!("{n}")}]}),
        ]
    };
    (1..=n).flat_map(shot).collect()
}

#[test]
fn screenshots_are_taken_from_the_end_or_from_all_of_the_work() {
    let numbers = |filter: Value, n: usize| -> Vec<usize> {
        let sifted = sift(filter, &shots(n));
        assert_eq!(sifted.all_frames, n);
        sifted.frames.iter().map(|frame| frame.number).collect()
    };
    let mut filter = json!({"compaction_type": "screenshot"});
    assert_eq!(numbers(filter.clone(), 2), [1, 2]);
    assert_eq!(numbers(filter.clone(), 9), [7, 8, 9]);
    filter["evidence_exclude_pattern"] = json!("scroll");
    assert_eq!(numbers(filter.clone(), 9), [5, 7, 9]);
    let spread = json!({"compaction_type": "screenshot", "frame_strategy": "per_criterion", "frame_budget": 6});
    assert_eq!(numbers(spread, 12), [2, 4, 6, 8, 10, 12]);
    assert_eq!(numbers(json!({}), 5), [0; 0]);
}

#[test]
fn images_are_found_as_mcp_and_as_models_write_them() {
    let moment = json!([
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "B"}},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,C"}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "image"},
    ]);
    let mut frames = Vec::new();
    let mut value = moment.clone();
    take_images(&mut value, &mut frames);
    let found: Vec<(&str, &str)> = frames
        .iter()
        .map(|frame| (&frame.mime[..], &frame.base64[..]))
        .collect();
    assert_eq!(found, [("image/jpeg", "B"), ("image/gif", "C")]);
    assert_eq!((&value[2], &value[3]), (&moment[2], &moment[3]));
}

#[test]
fn large_answers_are_put_aside() {
    let mut moments = vec![
        json!({"role": "tool", "tool": "read", "content": "y".repeat(LARGE + 1)}),
        json!({"role": "tool", "tool": "read", "content": "y".repeat(LARGE)}),
        json!({"role": "user", "content": "y".repeat(LARGE + 1)}),
    ];
    let before = moments.clone();
    let files = put_aside(&mut moments, "/t");
    assert_eq!(
        files,
        [("/t/answer_001.txt".to_owned(), "y".repeat(LARGE + 1))]
    );
    assert_eq!(moments[0]["content"]["characters"], LARGE + 1);
    assert_eq!(moments[1..], before[1..]);
}
