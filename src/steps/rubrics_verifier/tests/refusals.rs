use super::*;

#[test]
fn what_cannot_be_judged_is_refused() {
    let criteria = json!([{"id": "a"}, {"id": "a", "outcomes": {"min": 2, "max": 1}}, {"id": "b", "outcomes": [{"label": "x"}]}]);
    let all = [
        json!({"criteria": criteria, "output_format": "rubric_partial"}),
        json!({"default_model_api_base": "http://x"}),
        json!({"default_model_api_base": "http://x", "use_agent_judge": false}),
        json!({"agent_name": null, "judge_a2a_agent_id": "@local/judge"}),
        json!({"output_format": "rubric_evidence", "use_agent_judge": false}),
        json!({"output_format": "trajectory_mistakes", "judge_batch_size": 2}),
        json!({"context_facts_for_judge": {"a/b": "x..y", "fine": "x.y"}}),
        json!({"trajectory_filter": {"evidence_exclude_pattern": "(", "always_show_actions": {"sent": "["}}}),
    ];
    let refusals: String = all
        .into_iter()
        .map(|more| refused(&TYPE, fields(more)))
        .collect();
    expect![[r#"
        duplicate-id /criteria/1/id: criteria 1 and 2 are both called `a` (give each criterion an id of its own)
        wrong-type /criteria/1/outcomes: `outcomes` of criterion `a` is no scale (`outcomes` has numbers `min` and `max`, of which `max` is larger)
        wrong-type /criteria/2/outcomes: `outcomes` of criterion `b` is no scale (`outcomes` is a list of objects with a `label` and a number `score`)
        conflicting-fields /default_model_api_base: agent `judge` judges, and knows by itself where its model is (delete `default_model_api_base`, or set "use_agent_judge": false)
        not-supported-yet /default_model_api_base: a step cannot say where a model is reached (write the address into `[models.<name>]` of `aebuild.toml`, and the name into `default_model`)
        missing-field /judge_a2a_agent_id: agent `@local/judge` cannot be deployed by the step that it judges for (add a `deploy_agent` step with this `a2a_agent_id`, and name its agent with `agent_name`; or set "use_agent_judge": false)
        conflicting-fields /output_format: `rubric_evidence` needs screenshots (set "use_agent_judge": false, and a `trajectory_filter` with "compaction_type": "screenshot" and "frame_strategy": "per_criterion")
        conflicting-fields /judge_batch_size: `trajectory_mistakes` is judged as a whole (delete `judge_batch_size`, or use `rubric_binary` or `rubric_partial`)
        wrong-pattern /context_facts_for_judge/a~1b: `x..y` is no path below `metadata` (write names with a point between them, such as `script_results.count`)
        bad-pattern /trajectory_filter/evidence_exclude_pattern: `(` is no regular expression: Parsing error at position 1: Opening parenthesis without closing parenthesis (put `\\` before a character that stands for itself)
        bad-pattern /trajectory_filter/always_show_actions/sent: `[` is no regular expression: a `[` is not closed (put `\\` before a character that stands for itself)
    "#]].assert_eq(&refusals);
    let bad = json!({
        "criteria": [{"id": ""}, {"criterion": "x"}], "output_format": "binary", "grade_up_to_turn": 0,
        "run_context_for_judge": [], "judge_batch_size": 0, "judge_timeout_seconds": 0,
        "trajectory_filter": {"screenshot_last_n": 51, "frame_budget": 5, "action_log_max_lines": 9, "x": 1},
    });
    expect![[r#"
        wrong-length: `criteria[0].id` of step is empty, but needs at least 1 character (write at least 1 character)
        missing-field: `criteria[1]` of step lacks the field `id` (add "id": "..")
        out-of-range: `grade_up_to_turn` of step is 0, but must be at least 1 (write a number at least 1)
        out-of-range: `judge_batch_size` of step is 0, but must be at least 1 (write a number at least 1)
        out-of-range: `judge_timeout_seconds` of step is 0, but must be above 0 (write a number above 0)
        unknown-value: `output_format` of step can't be `binary` (write one of `rubric_binary`, `rubric_partial`, `trajectory_mistakes`, `rubric_evidence`, `rubric_evidence_with_mistakes`)
        wrong-length: `run_context_for_judge` of step is empty, but needs at least 1 item (write at least 1 item)
        out-of-range: `trajectory_filter.action_log_max_lines` of step is 9, but must be at least 10 (write a number at least 10)
        out-of-range: `trajectory_filter.frame_budget` of step is 5, but must be from 6 to 95 (write a number from 6 to 95)
        out-of-range: `trajectory_filter.screenshot_last_n` of step is 51, but must be from 1 to 50 (write a number from 1 to 50)
        unknown-field: `trajectory_filter` of step has no field `x` (the fields are `action_log_max_lines`, `always_show_actions`, `compaction_type`, `evidence_exclude_pattern`, `frame_budget`, `frame_strategy`, `include_response`, `include_thinking`, `include_tool_call_results`, `include_tool_calls`, `screenshot_last_n`, `trajectory_text`)
    "#]].assert_eq(&misfits(&TYPE, fields(bad)));
}
