//! Prompts beside each other on one env.

use aebuild::event::Outcome;

use super::World;

#[test]
fn prompts_beside_each_other_are_one_run_of_the_env() {
    let world = World::builtin();
    let write = |edited: &str| {
        let mut steps = vec![
            r#"{"id": "kv", "type": "deploy_env", "env_id": "kv", "depends_on": []}"#.to_owned(),
            r#"{"id": "solver", "type": "deploy_agent", "agent_name": "solver", "env_ids": ["kv"],
                "depends_on": [{"task_step_id": "kv"}]}"#
                .to_owned(),
        ];
        let ids: Vec<String> = (10..30).map(|n| format!("p{n}")).collect();
        for id in &ids {
            let edit = if id == "p17" { edited } else { "" };
            steps.push(format!(
                r#"{{"id": "{id}", "type": "prompt_agent", "agent_name": "solver", "prompt": "set {id} done{edit}",
                    "depends_on": [{{"task_step_id": "solver"}}]}}"#
            ));
        }
        let on = ids
            .iter()
            .map(|id| format!(r#"{{"task_step_id": "{id}"}}"#));
        steps.push(format!(
            r#"{{"id": "check", "type": "env_outcome_verifier", "env_id": "kv", "file_artifact_id": "check",
                "depends_on": [{}]}}"#,
            on.collect::<Vec<_>>().join(", ")
        ));
        world.steps(&steps);
        ids.join(" ")
    };
    let all = write("");
    world.check(&["p10=done", "p29=done"]);
    let first = world.run();
    assert_eq!(
        (first.outcome(), first.ran()),
        (Outcome::Passed, format!("check {all}"))
    );
    world.story.settle();
    let second = world.run();
    assert_eq!(
        (second.outcome(), second.ran().as_str()),
        (Outcome::Passed, "")
    );
    world.check(&["p10=done", "p20=done"]);
    let third = world.run();
    assert_eq!(
        (third.outcome(), third.ran().as_str()),
        (Outcome::Passed, "check")
    );
    assert_eq!(third.provisioned(), "check:restore");
    write(" now");
    let fourth = world.run();
    assert_eq!(fourth.outcome(), Outcome::Passed);
    let ran = fourth.ran();
    assert_eq!(ran.trim_start_matches("check "), all);
    assert_eq!(
        fourth.provisioned().matches(":create").count(),
        1,
        "{}",
        fourth.provisioned()
    );
}
