use super::*;
use crate::steps::testing::{FakeSandbox, FakeServices, build_step, refused, run, show};
use expect_test::expect;

fn world() -> FakeServices {
    FakeServices::new().with(
        FakeSandbox::new("box")
            .file("/app/artifact/a.txt", "a")
            .file("/app/artifact/sub/b.txt", "b")
            .file("/app/artifact/.DS_Store", "junk")
            .file("/data/c.txt", "c"),
    )
}

fn collect(world: &FakeServices, more: Value) -> String {
    let mut fields = json!({"sandbox_name": "box"});
    fields
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().cloned().unwrap());
    match run(&*build_step(&TYPE, "collect", fields), "collect", world) {
        Ok(output) => show(&output),
        Err(error) => format!("{error}\n"),
    }
}

#[test]
fn files_are_kept_under_their_paths() {
    expect![[r#"
        metadata.artifacts = {"a.txt":"aebuild:sha256:17762fddd969a453925d65717ac3eea21320b66b54342fde15128d6caf21215f:1","data/c.txt":"aebuild:sha256:ea7aa1fc9efdbe106dbb70369a75e9671fa29d52bd55536711bf197477b8f021:1"}
        metadata.collected_artifacts.collect = {"artifacts":{"a.txt":"aebuild:sha256:17762fddd969a453925d65717ac3eea21320b66b54342fde15128d6caf21215f:1","data/c.txt":"aebuild:sha256:ea7aa1fc9efdbe106dbb70369a75e9671fa29d52bd55536711bf197477b8f021:1"},"file_artifact_universe":{"id":"@local/collected/collect-x-","version":1}}
        metadata.file_artifact_universe = {"id":"@local/collected/collect-x-","version":1}
    "#]]
    .assert_eq(&collect(
        &world(),
        json!({"artifact_paths": ["./a.txt", "/data/c.txt", "nope", "https://example.org/x"], "universe_id_suffix": "-x"}),
    ));
}

fn paths(world: &FakeServices, more: Value) -> String {
    let text = collect(world, more);
    let Some(object) = text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("metadata.artifacts = ")
    else {
        return text;
    };
    let object: Value = object.parse().unwrap();
    object
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect::<Vec<_>>()
        .join(" ")
        + "\n"
}

#[test]
fn the_first_list_that_says_something_counts() {
    let here = json!({"artifact_paths": ["a.txt"], "exclude_basenames": [".DS_Store"]});
    assert_eq!(paths(&world(), json!({})), ".DS_Store a.txt sub/b.txt\n");
    assert_eq!(
        paths(&world(), json!({"exclude_basenames": [".DS_Store"]})),
        "a.txt sub/b.txt\n"
    );
    assert_eq!(paths(&world(), here.clone()), "a.txt\n");
    let seeded = world().metadata(
        &["seed", "expected_artifacts"],
        json!("sub/b.txt, /data/c.txt,"),
    );
    assert_eq!(paths(&seeded, here.clone()), "data/c.txt sub/b.txt\n");
    let artifacts = json!({"c": "/data/c.txt", "glob": "/data/*", "relative": "a.txt", "n": 1});
    let seeded = seeded.reply(
        "ask",
        json!({"structured_output": {"artifacts": artifacts}}),
    );
    let mut asked = here;
    asked["manifest_step_id"] = json!("ask");
    assert_eq!(paths(&seeded, asked.clone()), "data/c.txt\n");
    let params = ["user_overrides", "step_params", "collect", "artifact_paths"];
    let overridden = seeded.metadata(&params, json!(["sub/b.txt"]));
    assert_eq!(paths(&overridden, asked), "sub/b.txt\n");
}

#[test]
fn a_file_that_is_missing_is_noted_and_the_step_fails_where_all_are() {
    let world = world();
    collect(&world, json!({"artifact_paths": ["a.txt", "nope"]}));
    assert_eq!(
        world.log_text(),
        "Note: there is no file `/app/artifact/nope`\nNote: kept 1 of the sandbox's files\n"
    );
    let texts = [
        collect(&world, json!({"artifact_paths": ["nope"]})),
        collect(&world, json!({"artifact_paths": ["nope", "/x"]})),
        collect(&world, json!({"artifact_paths": ["https://example.org"]})),
        collect(&world, json!({"manifest_step_id": "ask"})),
        collect(&world, json!({"artifact_paths": ["sub", "a.txt"]})),
    ];
    expect![[r#"
        RuntimeError: there is no file `/app/artifact/nope` in the sandbox
        RuntimeError: none of the 2 files is there, the first being `/x`
        RuntimeError: nothing that was asked for is a file of the sandbox
        RuntimeError: the reply of step `ask` lists no artifacts
        SandboxError: `/app/artifact/sub` is a folder, not a regular file
    "#]]
    .assert_eq(&texts.concat());
}

#[test]
fn a_folder_without_files_gives_an_empty_collection() {
    expect![[r#"
        metadata.artifacts = {}
        metadata.collected_artifacts.collect = {"artifacts":{},"file_artifact_universe":null}
        metadata.file_artifact_universe = null
        metadata.collect_produced_files = {"base_path":"/nowhere","files":[],"step_id":"collect"}
    "#]]
    .assert_eq(&collect(&world(), json!({"base_path": "/nowhere"})));
    let all_excluded = json!({"base_path": "/app/artifact/sub", "exclude_basenames": ["b.txt"]});
    assert!(collect(&world(), all_excluded).contains(r#""files":["b.txt"]"#));
}

#[test]
fn two_steps_with_the_same_fields_have_two_keys() {
    let key = |id: &str| build_step(&TYPE, id, json!({"sandbox_name": "box"})).fields();
    assert_ne!(key("a"), key("b"));
}

#[test]
fn what_cannot_be_collected_from_is_refused() {
    expect![[r#"
        container-needs-docker /container_name: container `c` needs docker, which this release does not run (delete `container_name` to use the sandbox itself)
        path-with-dots /artifact_paths/0: path `../x` has `..` (write the path from the sandbox's root)
    "#]]
    .assert_eq(&refused(
        &TYPE,
        json!({"agent_name": "writer", "container_name": "c", "artifact_paths": ["../x"]}),
    ));
    assert_eq!(
        refused(
            &TYPE,
            json!({"sandbox_name": "box", "agent_name": "default-agent"})
        ),
        ""
    );
}
