//! Every template makes a folder without a fault that runs to a pass, and from the cache when it is run again.

use crate::support::{World, has_python};

fn starts_well(template: &str, options: &str) {
    let world = World::new();
    let said = |line: &str| {
        let (said, status) = world.shell(line);
        assert_eq!(status, Some(0), "{line}\n{said}");
        said
    };
    said(&format!("aebuild new mine --template {template}"));
    assert_eq!(said("aebuild check mine"), "no faults\n");
    said("aebuild fmt mine --check");
    let first = said(&format!("aebuild run mine {options}"));
    assert!(
        first.contains("passed") && !first.contains(" 0 ran"),
        "{first}"
    );
    let second = said(&format!("aebuild run mine {options}"));
    assert!(second.contains("\n0 ran, "), "{second}");
    let page = std::fs::read_to_string(world.path().join("mine/README.md")).expect("it is there");
    assert!(
        page.starts_with("# mine\n") && !page.contains("NAME"),
        "{page}"
    );
}

#[test]
fn minimal_starts_well() {
    starts_well("minimal", "");
}

#[test]
fn an_env_of_ones_own_starts_well() {
    if has_python("the template mcp-env") {
        starts_well("mcp-env", "");
    }
}

#[test]
fn a_judge_starts_well() {
    starts_well("judge", "");
}

#[test]
fn two_agents_start_well() {
    starts_well("two-agents", "");
}

#[test]
fn an_experiment_starts_well_with_its_seeds_and_without() {
    starts_well("experiment", "");
    starts_well("experiment", "--seeds mine/seeds.csv");
}

#[test]
fn what_is_there_is_left_alone_and_slips_are_told() {
    let world = World::new();
    world.write("there/file", "mine");
    for (line, told) in [
        (
            "aebuild new there",
            "`there` is there already and is not empty",
        ),
        (
            "aebuild new there/file",
            "`there/file` is there already and is no folder",
        ),
        ("aebuild new -- -x", "`-x` is no name for a task folder"),
        ("aebuild new x --template juge", "did you mean `judge`?"),
    ] {
        let (said, status) = world.shell(line);
        assert!(said.contains(told), "{line}: {said}");
        assert_eq!(status, Some(2), "{line}");
    }
    let (said, status) = world.shell("aebuild new --list && mkdir empty && aebuild new empty");
    assert!(
        said.contains("two-agents") && said.contains("made empty/"),
        "{said}"
    );
    assert_eq!(status, Some(0));
}
