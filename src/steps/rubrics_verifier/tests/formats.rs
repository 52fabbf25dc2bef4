use super::*;

#[test]
fn scores_of_binary_rows_are_kept_as_given_and_only_1_passes() {
    let criteria: Vec<Value> = (1..=4).map(|n| json!({"id": n.to_string()})).collect();
    let answer =
        json!([result("c1", 1.0), result("c2", 0.99), result("c3", 7.0), {"id": "c4", "score": 1}]);
    let (value, ..) = judged(
        world(),
        json!({"criteria": criteria, "score_aggregator": "weighted_average"}),
        &[answer],
    );
    expect![[r#"
        {"id":"1","justification":"the answer settles c1, as it says","result":true,"score":1.0}
        {"id":"2","justification":"the answer settles c2, as it says","result":false,"score":0.99}
        {"id":"3","justification":"the answer settles c3, as it says","result":false,"score":7.0}
        {"id":"4","justification":"","result":true,"score":1}
        score 0.7475
    "#]]
    .assert_eq(&rows(&value.unwrap()));
}

#[test]
fn partial_scores_are_brought_to_the_scale_from_0_to_1() {
    let steps = json!([{"label": "no", "score": 0}, {"label": "half", "score": 0.5}, {"label": "yes", "score": 1}]);
    let criteria = json!([
        {"id": "plain"},
        {"id": "strict", "pass_threshold": 0.8},
        {"id": "steps", "outcomes": steps},
        {"id": "between", "outcomes": steps},
        {"id": "range", "outcomes": {"min": 1, "max": {"value": 5}}},
        {"id": "own", "outcomes": {"min": 1, "max": 5}, "pass_threshold": 4},
        {"id": "beyond"},
    ]);
    let answer = json!([
        result("c1", 0.5),
        result("c2", 0.7),
        result("c3", 0.6),
        result("c4", 0.25),
        result("c5", 3.0),
        result("c6", 3.5),
        result("c7", 1.5),
    ]);
    let more = json!({"criteria": criteria, "output_format": "rubric_partial", "score_aggregator": "weighted_average"});
    let (value, asked, _) = judged(world(), more, &[answer]);
    let value = value.unwrap();
    let lines: Vec<String> = value["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            format!(
                "{} {} {} {}\n",
                row["id"], row["score"], row["result"], row["raw_score"]
            )
        })
        .collect();
    expect![[r#"
        "plain" 0.5 true null
        "strict" 0.7 false null
        "steps" 0.5 true null
        "between" 0.0 false null
        "range" 0.5 true 3.0
        "own" 0.625 false 3.5
        "beyond" 1.0 true null
    "#]]
    .assert_eq(&lines.concat());
    assert!(
        asked[0].contains(r#"{"id":"c6","outcomes":{"max":5,"min":1}}"#),
        "{}",
        asked[0]
    );
}

#[test]
fn mistakes_cost_the_same_however_many_criteria_there_are() {
    let answer = json!({
        "findings": [
            {"severity": "medium", "step": 2, "should": "ask first", "description": "sent at once"},
            {"severity": "Low", "step": null, "should": "", "description": "was slow"},
        ],
        "coverage": [{"id": "c1", "shown": true, "note": "in step 2"}],
        "botched": false, "botched_reason": "", "summary": "fine, but hasty",
    });
    let fenced = json!(format!("Here it is:\n```json\n{answer}\n```"));
    let (value, ..) = judged(
        world(),
        json!({"output_format": "trajectory_mistakes"}),
        &[fenced],
    );
    expect![[r#"
        {"id":"summary","justification":"fine, but hasty","result":false,"score":0.0,"weight":0.0}
        {"id":"botched","justification":"","result":true,"score":1.0}
        {"description":"sent at once","id":"mistake_1","justification":"sent at once","result":false,"score":0.0,"severity":"medium","should":"ask first","step":2,"weight":-0.24}
        {"description":"was slow","id":"mistake_2","justification":"was slow","result":false,"score":0.0,"severity":"low","should":"","step":null,"weight":-0.06}
        {"id":"coverage_polite","justification":"in step 2","result":true,"score":1.0}
        {"id":"coverage_rude","justification":"the judge says nothing of it","result":false,"score":0.0}
        score 0.5666666666666667
    "#]].assert_eq(&rows(&value.unwrap()));
    let alone = json!({"findings": answer["findings"], "botched": false, "summary": ""});
    let more = json!({"output_format": "trajectory_mistakes", "criteria": []});
    let (value, ..) = judged(world(), more.clone(), &[alone]);
    assert_eq!(value.unwrap()["score"], 0.9);
    let critical = json!({"findings": [{"severity": "critical"}], "botched": true});
    let (value, ..) = judged(world(), more.clone(), &[critical]);
    assert_eq!(value.unwrap()["score"], 0.0);
    let odd = json!({"findings": [{"severity": "odd"}], "botched": false});
    let (value, ..) = judged(world(), more, &[odd]);
    assert!(value.unwrap_err().contains("`odd`"));
}

fn evidence(id: &str, score: f64, status: &str) -> Value {
    let mut result = result(id, score);
    result["frame"] = 1.into();
    result["evidence_status"] = status.into();
    result
}

fn with_screenshots(more: Value) -> Value {
    let mut all = json!({
        "use_agent_judge": false, "output_format": "rubric_evidence",
        "trajectory_filter": {"compaction_type": "screenshot", "frame_strategy": "per_criterion"},
    });
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    fields(all)
}

#[test]
fn evidence_rows_need_evidence_and_mistakes_become_a_verification_of_their_own() {
    let answer = json!({
        "reasoning": "r".repeat(3000), "checks": vec!["x"; 20],
        "results": [evidence("c1", 1.0, "visible"), evidence("c2", 1.0, "missing")],
        "findings": [{"severity": "high", "step": "1", "should": "s", "description": "d"}],
        "botched": false, "botched_reason": "", "summary": "so",
    });
    let asked = Arc::new(Mutex::new(String::new()));
    let seen = asked.clone();
    let world = world().model(move |request| {
        *seen.lock().unwrap() = text_of(request);
        Ok(chat_reply(answer.to_string(), Finish::Stop))
    });
    let more = json!({"output_format": "rubric_evidence_with_mistakes"});
    let step = build_step(&TYPE, "check", with_screenshots(more));
    let output = run(&*step, "check", &world).unwrap();
    let value = &output.entries[0].value;
    expect![[r#"
        {"evidence_status":"visible","frame":1,"id":"polite","justification":"the answer settles c1, as it says","result":true,"score":1.0}
        {"evidence_status":"missing","frame":1,"id":"rude","justification":"the answer settles c2, as it says","result":false,"score":0.0,"weight":-1}
        score 0.0
    "#]].assert_eq(&rows(value));
    assert_eq!(value["format"], "rubric_binary");
    assert_eq!(
        value["judge_output_format"],
        "rubric_evidence_with_mistakes"
    );
    assert_eq!(value["reasoning"].as_str().unwrap().len(), 2000);
    assert_eq!(value["checks"].as_array().unwrap().len(), 12);
    assert_eq!(
        output.entries[1].place,
        Place::Set(vec![
            "verifications".to_owned(),
            "tone-trajectory-mistakes".to_owned()
        ])
    );
    expect![[r#"
        {"id":"summary","justification":"so","result":false,"score":0.0,"weight":0.0}
        {"id":"botched","justification":"","result":true,"score":1.0}
        {"description":"d","id":"mistake_1","justification":"d","result":false,"score":0.0,"severity":"high","should":"s","step":"1","weight":-0.75}
        {"id":"coverage_polite","justification":"the answer settles c1, as it says","result":true,"score":1.0}
        {"id":"coverage_rude","justification":"the answer settles c2, as it says","result":false,"score":0.0}
        score 0.4166666666666667
    "#]].assert_eq(&rows(&output.entries[1].value));
    let asked = asked.lock().unwrap();
    assert!(
        asked.ends_with("Screenshot 1:[image/png AAAA]\n"),
        "{asked}"
    );
    assert!(
        asked.contains(r#"{"screenshot":1,"type":"image"}"#),
        "{asked}"
    );
}

#[test]
fn work_without_screenshots_scores_0_where_they_are_the_evidence() {
    let world = FakeServices::new();
    let url = world
        .store(b"{\"role\": \"assistant\", \"content\": \"hi\"}\n")
        .url();
    let world = world.reply(
        "reply",
        json!({"prompt_text": "x", "response": "hi", "agent_trajectory_object_url": url}),
    );
    let step = build_step(&TYPE, "check", with_screenshots(json!({})));
    expect![[r#"
        metadata.verifications.tone = {"format":"rubric_binary","judge_output_format":"rubric_evidence","results":[{"id":"no_screenshots","message":"no tool of the agent answered with a screenshot","result":false,"score":0.0}],"score":0.0}
    "#]].assert_eq(&show(&run(&*step, "check", &world).unwrap()));
}
