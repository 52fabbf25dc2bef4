use super::*;

#[test]
fn a_judge_with_a_sandbox_reads_the_trajectory_there() {
    let world = world().with(FakeSandbox::new("agent judge").at("/scratch"));
    let judge = Answers::new(&[json!([result("c1", 1.0), result("c2", 1.0)]).to_string()]);
    let world = world.agent(Arc::new(judge.clone()), &[]);
    run(
        &*build_step(&TYPE, "check", fields(json!({}))),
        "check",
        &world,
    )
    .unwrap();
    expect![[r#"
        /scratch/prompt_trajectory_dd22f44db22b/prompt_trajectory.json 644 "[{\"content\":\"Reply to Dana.\",\"role\":\"user\"},{\"role\":\"assistant\",\"thinking\":\"hm\",\"tool_calls\":[{\"arguments\":{\"to\":\"dana\"},\"env\":\"mail\",\"tool\":\"send\"}]},{\"content\":{\"content\":[{\"text\":\"sent\",\"type\":\"text\"},{\"screenshot\":1,\"type\":\"image\"}]},\"role\":\"tool\",\"tool\":\"send\"},{\"content\":\"Done, Dana.\",\"role\":\"assistant\"}]"
    "#]].assert_eq(&world.get("agent judge").files());
    let asked = &judge.asked()[0];
    let (_, from) = asked.split_once("\n- /scratch/").unwrap();
    let path = format!("/scratch/{}", from.lines().next().unwrap());
    assert!(world.get("agent judge").files().starts_with(&path));
}

#[test]
fn without_an_agent_the_model_is_asked_and_what_it_says_is_a_sample() {
    let world = world().model(|request| {
        assert_eq!(
            (request.model.as_str(), request.effort.as_deref()),
            ("claude-sonnet-4-6", Some("low"))
        );
        assert_eq!(
            request.output_schema.as_ref().unwrap()["required"],
            json!(["results"])
        );
        Ok(chat_reply(
            json!([result("c1", 1.0), result("c2", 0.0)]).to_string(),
            Finish::Stop,
        ))
    });
    let mut fields = fields(json!({"effort": "low", "score_aggregator": "any_pass"}));
    fields.as_object_mut().unwrap().remove("agent_name");
    let step = build_step(&TYPE, "check", fields);
    assert_eq!(
        (step.determinism(), step.prompts(), step.touches()),
        (Determinism::Sampled, false, vec![])
    );
    let shown = show(&run(&*step, "check", &world).unwrap());
    assert!(
        shown.contains(r#""score":1.0"#)
            && shown.ends_with("judge.check = \"claude-sonnet-4-6\"\n"),
        "{shown}"
    );
    assert!(world.log_text().contains("no agent is named as judge"));
}

#[test]
fn a_model_that_does_not_answer_fails_the_step_and_one_that_is_cut_off_is_asked_again() {
    let more = json!({"use_agent_judge": false});
    let failed = world().model(|request| {
        Err(ModelError::NotSetUp {
            model: request.model.clone(),
            why: "no key".to_owned(),
        })
    });
    let error = run(
        &*build_step(&TYPE, "check", fields(more.clone())),
        "check",
        &failed,
    )
    .unwrap_err();
    expect!["ModelError: model `claude-sonnet-4-6` cannot be used: no key"]
        .assert_eq(&error.to_string());
    let cut = world().model(|_| Ok(chat_reply("{\"results\": [".to_owned(), Finish::Length)));
    let error = run(&*build_step(&TYPE, "check", fields(more)), "check", &cut).unwrap_err();
    assert!(error.message.contains("it was cut off"), "{error}");
}

#[test]
fn a_model_that_takes_too_long_fails_the_step() {
    struct Silent;
    impl crate::step::model::Models for Silent {
        fn chat(&self, _: ChatRequest) -> BoxFuture<'_, Result<ChatReply, ModelError>> {
            Box::pin(std::future::pending())
        }
    }
    let more = json!({"use_agent_judge": false, "judge_timeout_seconds": 0.01});
    let world = world().models(Arc::new(Silent));
    let error = run(&*build_step(&TYPE, "check", fields(more)), "check", &world).unwrap_err();
    expect!["TimeoutError: model `claude-sonnet-4-6` did not answer within 0.01 s"]
        .assert_eq(&error.to_string());
}

#[test]
fn an_agent_that_judges_is_prompted_with_all_that_it_has() {
    let step = build_step(
        &TYPE,
        "check",
        fields(json!({"judge_timeout_seconds": 5, "judge_batch_concurrency": 2})),
    );
    assert_eq!(
        (step.determinism(), step.prompts()),
        (Determinism::Pure, true)
    );
    assert_eq!(
        step.touches(),
        vec![(ResourceId::agent("judge"), Touch::MayMutate)]
    );
    let fields = step.fields();
    assert_eq!(
        (&fields["verifier_id"], &fields["score_aggregator"]),
        (&json!("tone"), &json!("all_pass"))
    );
    assert!(
        fields.get("judge_timeout_seconds").is_none()
            && fields.get("judge_batch_concurrency").is_none()
    );
    let names: Vec<String> = step
        .reads()
        .iter()
        .chain(&step.provides())
        .map(|name| format!("{} {}", name.field, name.lookup))
        .collect();
    expect![[r#"
        /prompt_id reply `reply`
        /agent_name agent `judge`
        /verifier_id verification `tone`"#]]
    .assert_eq(&names.join("\n"));
}
