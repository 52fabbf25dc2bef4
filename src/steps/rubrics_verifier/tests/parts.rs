use super::*;

#[test]
fn many_criteria_are_judged_in_parts_under_their_own_numbers() {
    let criteria: Vec<Value> = (1..=5).map(|n| json!({"id": format!("k{n}")})).collect();
    let judge = |request: &ChatRequest| {
        let asked = text_of(request);
        let ids = (1..=5).map(|n| format!("c{n}"));
        let results: Vec<Value> = ids
            .filter(|id| asked.contains(&format!("{{\"id\":\"{id}\"}}")))
            .map(|id| result(&id, 1.0))
            .collect();
        Ok(chat_reply(json!(results).to_string(), Finish::Stop))
    };
    let world = world().model(judge);
    let more = json!({"criteria": criteria, "use_agent_judge": false, "judge_batch_size": 2});
    let step = build_step(&TYPE, "check", fields(more));
    let output = run(&*step, "check", &world).unwrap();
    let value = &output.entries[0].value;
    expect![[r#"
        {"id":"k1","justification":"the answer settles c1, as it says","result":true,"score":1.0}
        {"id":"k2","justification":"the answer settles c2, as it says","result":true,"score":1.0}
        {"id":"k3","justification":"the answer settles c3, as it says","result":true,"score":1.0}
        {"id":"k4","justification":"the answer settles c4, as it says","result":true,"score":1.0}
        {"id":"k5","justification":"the answer settles c5, as it says","result":true,"score":1.0}
        score 1.0
    "#]]
    .assert_eq(&rows(value));
    assert_eq!(value["judge_batches"], 3);
    assert_eq!(
        value["judge_batch_trajectory_object_urls"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let whole =
        StoredFile::from_url(value["judge_trajectory_object_url"].as_str().unwrap()).unwrap();
    assert!(whole.size > 0);
}

#[test]
fn grades_in_bulk_are_not_used_but_for_the_last_attempt() {
    let criteria: Vec<Value> = (1..=6).map(|n| json!({"id": format!("k{n}")})).collect();
    let bulk = |ids: &[&str]| -> Value {
        ids.iter()
            .map(|id| json!({"id": id, "score": 1, "justification": "ok"}))
            .collect()
    };
    let more = json!({"criteria": criteria, "judge_batch_size": 5, "judge_batch_concurrency": 1});
    let first = bulk(&["c1", "c2", "c3", "c4", "c5"]);
    let last = json!([result("c6", 1.0)]);
    let (value, asked, _) = judged(world(), more, &[first.clone(), first.clone(), first, last]);
    let value = value.unwrap();
    assert_eq!((asked.len(), &value["score"]), (4, &json!(1.0)));
    assert_eq!(value["judge_output_retries"], 2);
    expect![[r#"
        [
          "5 results have the same `justification`; look at each criterion by itself",
          "5 results have the same `justification`; look at each criterion by itself",
          "5 results have the same `justification`; look at each criterion by itself"
        ]"#]]
    .assert_eq(&format!("{:#}", value["judge_output_discrepancies"]));
    // As a whole, nobody minds.
    let more = json!({"criteria": [{"id": "k1"}]});
    let (value, asked, _) = judged(world(), more, &[bulk(&["c1"])]);
    assert_eq!((asked.len(), &value.unwrap()["score"]), (1, &json!(1.0)));
}
