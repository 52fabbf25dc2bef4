//! Values of variables that are passed on to an env.

use super::{World, holding};

const SECRET: &str = "canary-5d9f3c1b7e";

#[test]
fn a_value_that_is_passed_on_to_an_env_is_written_nowhere() {
    // A short answer is in the record of calls, a long one beside it.
    for (how, size) in [
        ("stdio", 0),
        ("stdio", 300_000),
        ("http", 0),
        ("http", 300_000),
    ] {
        let Some(world) = World::new(how, &[]) else {
            return;
        };
        let world = world.set("pass_variables = [\"ENV_SECRET\"]");
        world.task(
            &["set a 1", &format!("leak {size}"), "get secret"],
            &["a=1"],
        );
        let run = || {
            let output = world
                .command("run")
                .env("ENV_SECRET", SECRET)
                .output()
                .unwrap();
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(output.status.success(), "{said}");
            assert!(!said.contains(SECRET), "{said}");
            said
        };
        let first = run();
        for step in ["p2", "p3"] {
            let told = format!(
                "step {step} is not kept: it holds the value of a variable that is passed on"
            );
            assert!(first.contains(&told), "{how} {size}: {first}");
        }
        let none: Vec<String> = Vec::new();
        assert_eq!(
            holding(&world.story.path(""), SECRET.as_bytes()),
            none,
            "{how} {size}"
        );
        assert_eq!(
            holding(&world.story.cache_dir(), SECRET.as_bytes()),
            none,
            "{how} {size}"
        );
        // What was not kept runs again.
        assert!(!run().contains("0 ran"), "{how} {size}");
        world.nothing_is_left();
    }
}
