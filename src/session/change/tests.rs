use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use expect_test::expect;

use super::*;
use crate::session::{RunOptions, SessionError, SessionOptions};
use crate::steps::REGISTRY;
use crate::system::MemorySystem;

const BOX: &str =
    r#"{"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"}"#;

/// Returns the text of a task that deploys a sandbox and loads an artifact into the sandbox of this name.
fn task(sandbox: &str) -> String {
    format!(
        r#"[{BOX}, {{"id": "load", "type": "load_artifact", "sandbox_name": "{sandbox}", "artifacts": [{{"id": "notes"}}], "depends_on": ["box"]}}]"#
    )
}

struct World {
    system: Arc<MemorySystem>,
    session: Session,
}

/// Opens a folder of `n` tasks in `/w`.
fn world(n: usize) -> World {
    let system = Arc::new(MemorySystem::new());
    for at in 0..n {
        system.write(format!("/w/tasks/t{at}.json"), task("box"));
    }
    system.write("/w/artifacts/notes/a.txt", "a");
    let options = SessionOptions {
        paths: vec![PathBuf::from("/w")],
        no_cache: true,
        ..SessionOptions::default()
    };
    let session = Session::open(system.clone(), REGISTRY, options).unwrap();
    World { system, session }
}

impl World {
    fn codes(&mut self) -> Vec<&'static str> {
        let found = match self.session.check(&RunOptions::default()) {
            Ok(found) => found,
            Err(SessionError::Faults(found)) => found,
            Err(other) => panic!("{other}"),
        };
        found.iter().map(|fault| fault.code.as_str()).collect()
    }

    fn write(&mut self, path: &str, text: &str) -> Changed {
        self.system.write(path, text);
        self.tell(path)
    }

    fn remove(&mut self, path: &str) -> Changed {
        self.system.remove(path);
        self.tell(path)
    }

    fn tell(&mut self, path: &str) -> Changed {
        self.session
            .apply_changes(&[Change::Path(PathBuf::from(path))])
    }

    /// Returns how often each query was executed while everything was checked.
    fn executed(&mut self) -> BTreeMap<String, usize> {
        self.session.db.listen();
        self.codes();
        let mut counts = BTreeMap::new();
        for name in self.session.db.heard() {
            *counts.entry(name).or_default() += 1;
        }
        counts
    }
}

fn file(shown: &str) -> Changed {
    Changed {
        files: vec![shown.to_owned()],
        anything: true,
        tasks: BTreeSet::new(),
        besides: true,
    }
}

/// A change of a task file and of nothing else.
fn task_file(shown: &str) -> Changed {
    Changed {
        tasks: [shown.to_owned()].into(),
        besides: false,
        ..file(shown)
    }
}

#[test]
fn after_an_edit_of_one_task_only_its_queries_run() {
    let mut world = world(30);
    assert_eq!(world.codes(), [""; 0]);
    assert_eq!(world.executed(), BTreeMap::new());
    for text in [task("bx"), task("box"), task("by")] {
        let changed = world.write("/w/tasks/t7.json", &text);
        assert_eq!(changed, task_file("/w/tasks/t7.json"));
        let executed = world.executed();
        let of = |name: &str| executed.get(name).copied().unwrap_or_default();
        assert_eq!(of("parsed"), 1, "{executed:?}");
        assert_eq!(of("checked"), 1, "{executed:?}");
        assert!(of("built") <= 2, "{executed:?}");
    }
    assert_eq!(world.codes(), ["unknown-name"]);
}

#[test]
fn what_is_equal_after_all_is_no_change() {
    let mut world = world(2);
    world.codes();
    assert_eq!(
        world.write("/w/tasks/t0.json", &task("box")),
        Changed::default()
    );
    assert!(
        world.write("/w/artifacts/notes/b.txt", "").anything,
        "another file is in the artifact"
    );
    assert_eq!(world.tell("/w/artifacts"), Changed::default());
    assert_eq!(world.write("/w/README.md", "# more"), Changed::default());
    assert_eq!(world.tell("/elsewhere"), Changed::default());
    let all = world.session.apply_changes(&[Change::Rescan]);
    assert_eq!(all, Changed::default());
}

#[test]
fn a_task_that_comes_or_goes_is_a_change() {
    let mut world = world(1);
    world.codes();
    assert!(world.write("/w/tasks/new.json", &task("bx")).anything);
    assert_eq!(world.codes(), ["unknown-name"]);
    assert!(world.remove("/w/tasks/new.json").anything);
    assert_eq!(world.codes(), [""; 0]);
}

#[test]
fn a_folder_that_vanishes_is_a_fault_until_it_is_back() {
    let mut world = world(1);
    world.codes();
    world.system.remove("/w/tasks/t0.json");
    world.system.remove("/w/artifacts/notes/a.txt");
    assert!(world.tell("/w").anything);
    assert_eq!(world.codes(), ["no-such-path"]);
    world.system.write("/w/tasks/t0.json", task("box"));
    world.system.write("/w/artifacts/notes/a.txt", "a");
    assert!(world.tell("/w").anything);
    assert_eq!(world.codes(), [""; 0]);
}

#[test]
fn faults_of_the_configuration_are_told_with_those_of_the_tasks() {
    let mut world = world(1);
    world.codes();
    world.write("/w/tasks/t0.json", &task("bx"));
    let changed = world.write("/w/aebuild.toml", "[rum]\njobs = 2\n");
    assert_eq!(changed, file("/w/aebuild.toml"));
    assert_eq!(world.codes(), ["unknown-name", "unknown-field"]);
    assert!(world.remove("/w/aebuild.toml").anything);
    assert_eq!(world.codes(), ["unknown-name"]);
}

#[test]
fn another_content_of_an_artifact_is_a_change_whether_or_not_it_was_hashed() {
    let mut world = world(1);
    world.codes();
    let changed = world.write("/w/artifacts/notes/a.txt", "b");
    assert_eq!(changed, file("/w/artifacts/notes/a.txt"));
    world.session.plan(&RunOptions::default()).unwrap();
    assert_eq!(
        world.write("/w/artifacts/notes/a.txt", "b"),
        Changed::default()
    );
    assert!(world.write("/w/artifacts/notes/a.txt", "c").anything);
}

#[test]
fn the_watch_set_is_what_keys_and_faults_depend_on() {
    let mut world = world(1);
    world.system.write("/w/README.md", "# w");
    world.system.write("/w/artifacts/other/x.txt", "x");
    let set = world.session.watch_set(&RunOptions::default()).unwrap();
    let text = |paths: &BTreeSet<PathBuf>| -> Vec<String> {
        let paths = paths.iter();
        paths.map(|path| path.display().to_string()).collect()
    };
    let all = [
        ("files", &set.files),
        ("folders", &set.folders),
        ("missing", &set.missing),
    ];
    let all = all.map(|(kind, paths)| format!("{kind}: {}", text(paths).join(" ")));
    expect![[r#"
        files: /w/README.md /w/artifacts/notes/a.txt /w/tasks/t0.json
        folders: /w /w/artifacts /w/artifacts/notes /w/artifacts/other /w/tasks
        missing: /aebuild.toml /w/aebuild.toml /w/agents /w/aliases.toml /w/envs /w/evals /w/skills"#]].assert_eq(&all.join("\n"));
}

#[test]
fn the_file_behind_a_fault_is_found() {
    let mut world = world(1);
    world.system.write("/w/aebuild.toml", "");
    world.codes();
    let found = |shown: &str| world.session.file_of(shown);
    assert_eq!(
        found("/w/tasks/t0.json"),
        Some(PathBuf::from("/w/tasks/t0.json"))
    );
    assert_eq!(
        found("/w/artifacts/notes/a.txt"),
        Some(PathBuf::from("/w/artifacts/notes/a.txt"))
    );
    assert_eq!(
        found("/w/aebuild.toml"),
        Some(PathBuf::from("/w/aebuild.toml"))
    );
    assert_eq!(found("/w/tasks/none.json"), None);
}

#[test]
fn a_folder_without_tasks_is_watched() {
    let mut world = world(0);
    world.system.write("/w/tasks/.keep", "");
    world.tell("/w");
    let set = world.session.watch_set(&RunOptions::default()).unwrap();
    assert!(set.folders.contains(Path::new("/w/tasks")), "{set:?}");
}

#[test]
fn a_task_that_can_be_read_again_is_a_change() {
    let too_large = " ".repeat(folder::MAX_FILE_BYTES as usize + 1);
    for n_read_first in [0, 1] {
        let mut world = world(2);
        if n_read_first == 0 {
            world.system.write("/w/tasks/t0.json", &too_large);
        } else {
            world.codes();
            assert!(world.write("/w/tasks/t0.json", &too_large).anything);
        }
        assert_eq!(world.codes(), ["file-too-large"]);
        // It is as unreadable as before, and so is all else.
        let still = format!("{too_large} ");
        assert_eq!(world.write("/w/tasks/t0.json", &still), Changed::default());
        let all = world.session.apply_changes(&[Change::Rescan]);
        assert_eq!(all, Changed::default());
        let changed = world.write("/w/tasks/t0.json", &task("box"));
        assert_eq!(changed, task_file("/w/tasks/t0.json"));
        assert_eq!(world.codes(), [""; 0]);
        assert_eq!(
            world.write("/w/tasks/t0.json", &task("box")),
            Changed::default()
        );
    }
}

#[test]
fn another_layout_of_the_configuration_plans_nothing_anew() {
    let mut world = world(1);
    world.write("/w/aebuild.toml", "[run]\njobs = 2\n");
    world.session.plan(&RunOptions::default()).unwrap();
    world.write("/w/aebuild.toml", "# Two at once.\n[run]\njobs  =  2\n");
    world.session.db.listen();
    world.session.plan(&RunOptions::default()).unwrap();
    let executed = world.session.db.heard();
    assert!(
        executed.iter().all(|name| name == "checked"),
        "{executed:?}"
    );
    // What is set otherwise is another thing.
    world.write("/w/aebuild.toml", "[retry]\nbackoff_seconds = 2.0\n");
    world.session.db.listen();
    world.session.plan(&RunOptions::default()).unwrap();
    assert!(world.session.db.heard().iter().any(|name| name == "plan"));
}

#[test]
fn keys_are_found_in_the_configuration_and_in_the_files_of_envs_and_shown_nowhere() {
    let key = "sk-proj-A1b2C3d4E5f6G7h8I9j0";
    let mut world = world(1);
    world.write("/w/envs/mail/env.toml", "type = \"mcp_server\"\n");
    world.write("/w/envs/mail/server.py", "KEY = None\n");
    assert_eq!(world.codes().len(), 1, "a folder that no task uses");
    world.write("/w/envs/mail/server.py", &format!("KEY = \"{key}\"\n"));
    world.write("/w/aebuild.toml", &format!("# {key}\n"));
    let found = world.session.check(&RunOptions::default()).unwrap();
    let of_keys = found
        .iter()
        .filter(|fault| fault.code.as_str() == "secret-in-file");
    let places: Vec<&str> = of_keys
        .map(|fault| fault.place().unwrap().source.name.as_str())
        .collect();
    assert_eq!(places.len(), 2, "{found:?}");
    assert!(!format!("{found:?}").contains(key));
    world.write("/w/envs/mail/server.py", "KEY = None\n");
    world.write("/w/aebuild.toml", "");
    assert_eq!(world.codes().len(), 1);
}
