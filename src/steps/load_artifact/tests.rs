use super::*;
use crate::steps::object_url;
use crate::steps::testing::{FakeServices, build_step, refused, run, show};
use expect_test::expect;

fn world() -> FakeServices {
    FakeServices::new()
        .sandbox("box")
        .artifact(
            "greeting",
            ArtifactKind::File,
            &[("hello.txt", "hello\n", false)],
        )
        .artifact(
            "tools",
            ArtifactKind::FileUniverse,
            &[
                ("bin/run", "#!/bin/sh\n", true),
                ("hello.txt", "other\n", false),
            ],
        )
        .artifact(
            "inbox",
            ArtifactKind::Environment,
            &[("data.json", "{}", false)],
        )
}

#[test]
fn the_files_of_an_artifact_stand_below_the_destination() {
    let world = world();
    let step = build_step(
        &TYPE,
        "load",
        json!({"sandbox_name": "box", "artifact_id": "tools"}),
    );
    let output = run(&*step, "load", &world).unwrap();
    expect![[r#"
        metadata.loaded_file_artifact_universes += {"agent_name":null,"artifact_type":"file_artifact_universe","container_name":null,"destination_path":"/loaded","env_id":null,"files":["bin/run","hello.txt"],"id":"@local/t/tools","sandbox_name":"box","version":1}
    "#]]
    .assert_eq(&show(&output));
    expect![[r##"
        /loaded/bin/run 755 "#!/bin/sh\n"
        /loaded/hello.txt 644 "other\n"
    "##]]
    .assert_eq(&world.get("box").files());
}

#[test]
fn what_a_step_collected_goes_into_another_sandbox() {
    let world = world();
    let file = world.store(b"chart");
    let collected = json!({
        "artifacts": {"out/q3.txt": object_url::of(&file)},
        "file_artifact_universe": {"id": "@local/collected/c-1", "version": 1},
    });
    let world = world.metadata(&["collected_artifacts", "collect"], collected);
    let fields = json!({"sandbox_name": "box", "artifact_from_step_id": "collect", "destination_path": "/app/in"});
    let step = build_step(&TYPE, "handoff", fields);
    let output = run(&*step, "handoff", &world).unwrap();
    expect![[r#"
        metadata.loaded_file_artifact_universes += {"agent_name":null,"artifact_type":"file_artifact_universe","container_name":null,"destination_path":"/app/in","env_id":null,"files":["out/q3.txt"],"id":"@local/collected/c-1","sandbox_name":"box","version":1}
    "#]]
    .assert_eq(&show(&output));
    assert_eq!(
        world.get("box").files(),
        "/app/in/out/q3.txt 644 \"chart\"\n"
    );
}

#[test]
fn a_step_that_collected_nothing_gives_nothing_to_load() {
    let nothing = json!({"artifacts": {}, "file_artifact_universe": null});
    let world = world().metadata(&["collected_artifacts", "empty"], nothing);
    let load = |from: &str| {
        let fields = json!({"sandbox_name": "box", "collected_artifacts_step_id": from});
        run(&*build_step(&TYPE, "load", fields), "load", &world)
    };
    assert_eq!(load("empty"), Ok(Output::default()));
    let error = load("other").unwrap_err();
    assert_eq!(
        error.to_string(),
        "RuntimeError: step `other` left nothing to load"
    );
}

#[test]
fn a_file_that_two_artifacts_have_is_not_loaded_over_the_other() {
    let both = json!({"sandbox_name": "box", "artifacts": [{"id": "greeting"}, {"id": "tools"}]});
    let error = run(&*build_step(&TYPE, "load", both), "load", &world()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ValueError: two of the files go to `/loaded/hello.txt`"
    );
}

#[test]
fn an_artifact_that_is_not_files_is_named_with_its_kind() {
    let fields = json!({"sandbox_name": "box", "artifact_id": "inbox"});
    let error = run(&*build_step(&TYPE, "load", fields), "load", &world()).unwrap_err();
    expect!["ValueError: artifact `inbox` is of kind `environment`, which cannot be loaded in this release; kinds that can are `file` and `file_artifact_universe`"]
        .assert_eq(&error.to_string());
}

#[test]
fn a_step_that_does_not_say_what_goes_where_is_refused() {
    let cases = [
        json!({"sandbox_name": "box"}),
        json!({"artifact_id": "a"}),
        json!({"sandbox_name": "box", "artifact_id": "a", "artifacts": [{"id": "b"}]}),
        json!({"sandbox_name": "box", "artifact_id": "a", "artifact_from_step_id": "c"}),
        json!({"env_step_id": "email", "artifact_id": "a"}),
        json!({"sandbox_name": "box", "container_name": "c", "urls": ["https://example.org"]}),
        json!({"sandbox_name": "box", "artifact_id": "a", "destination_path": "../x"}),
    ];
    let text: String = cases
        .into_iter()
        .map(|fields| refused(&TYPE, fields))
        .collect();
    expect![[r#"
        missing-field : the step does not say what it loads (add "artifact_id": ".." with the name of a folder below `artifacts/`)
        missing-field : the step does not say which sandbox it loads into (add "sandbox_name": ".." with the name that a `deploy_sandbox` step gives it, or `agent_name`)
        conflicting-fields /artifact_id: the step has both `artifacts` and `artifact_id` (delete one of `artifacts` and `artifact_id`)
        conflicting-fields /artifact_from_step_id: the step has both `artifact_from_step_id` and `artifact_id` (delete one of `artifact_from_step_id` and `artifact_id`)
        not-supported-yet /env_step_id: an env cannot be found by the step that deployed it alone (add "env_id": ".." with the env's id)
        container-needs-docker /container_name: container `c` needs docker, which this release does not run (delete `container_name` to use the sandbox itself)
        not-supported-yet /urls: files of the web cannot be loaded in this release (put the files into a folder below `artifacts/` and name it in `artifact_id`)
        path-with-dots /destination_path: path `../x` has `..` (write the path without it)
    "#]]
    .assert_eq(&text);
}
