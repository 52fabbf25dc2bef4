//! Task folders with every kind of fault, in memory, and on disk where links play a part.

mod content;
mod disk;
mod scripts;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::diagnostic::concise::concise;
use crate::system::MemorySystem;

fn memory(files: &[(&str, &str)]) -> MemorySystem {
    let system = MemorySystem::new();
    for (path, text) in files {
        system.write(Path::new("/w/f").join(path), text);
    }
    system
}

fn shown(faults: &[Diagnostic]) -> String {
    let mut out = String::new();
    for fault in faults {
        out.push_str(&concise(std::slice::from_ref(fault)));
        if let Some(help) = &fault.help {
            out.push_str(&format!("    {help}\n"));
        }
    }
    out
}

/// Shows what a folder holds, and its faults.
fn overview(folder: &TaskFolder, faults: &[Diagnostic]) -> String {
    let mut out = String::new();
    for task in &folder.tasks {
        out.push_str(&format!("task {} at {}\n", task.name, task.shown));
    }
    for artifact in folder.artifacts.values().chain(folder.skills.values()) {
        let files: Vec<&str> = artifact.files.iter().map(|file| &*file.path).collect();
        let (kind, id) = (artifact.kind.as_str(), &artifact.id);
        out.push_str(&format!(
            "{kind} {} = {id}: {}\n",
            artifact.name,
            files.join(" ")
        ));
        out.push_str(&shown(&artifact.faults));
    }
    for (name, definition) in folder.envs.iter().chain(&folder.agents) {
        out.push_str(&format!("{} {name} = {}\n", definition.kind, definition.id));
    }
    for eval in &folder.evals {
        let tasks: Vec<&str> = eval.tasks.iter().map(|task| &*task.name).collect();
        out.push_str(&format!("eval {}: {}\n", eval.name, tasks.join(" ")));
    }
    if !folder.ignored.is_empty() {
        out.push_str(&format!("ignored {}\n", folder.ignored.join(" ")));
    }
    out + &shown(faults)
}

fn check(files: &[(&str, &str)], expected: Expect) {
    let (folder, faults) = read(&memory(files), Path::new("/w/f"), "f");
    expected.assert_eq(&overview(&folder, &faults));
}

const TASK: (&str, &str) = ("tasks/t.json", "[]");

#[test]
fn a_whole_folder_is_read() {
    let files = [
        TASK,
        ("tasks/notes.txt", ""),
        (
            "evals/all.toml",
            "tasks = [\"t\", \"@local/f/t\", {task = \"t\"}]",
        ),
        ("evals/one.toml", "tasks = [\"t\"]\ntype = \"eval\""),
        ("artifacts/greeting/hello.txt", "hi"),
        ("artifacts/data/a/b.csv", ""),
        ("artifacts/data/c.csv", ""),
        ("artifacts/data/.DS_Store", ""),
        ("artifacts/data/.hidden", ""),
        ("artifacts/image/Dockerfile", ""),
        ("artifacts/inbox/x.json", ""),
        (
            "artifacts/inbox/artifact.toml",
            "type = \"environment\"\nid = \"@local/x\"\nenvironment_name = \"email\"",
        ),
        ("artifacts/tool/bin/run", ""),
        (
            "artifacts/tool/artifact.toml",
            "type = \"cli\"\ncommand_name = \"run\"\nentrypoint = \"bin/run\"",
        ),
        ("artifacts/loose.txt", ""),
        (
            "skills/write/SKILL.md",
            "---\nname: write\ndescription: \"Writes.\"\nmore:\n  - x\n---\nText.\n",
        ),
        ("envs/email/env.toml", "image = \"x\""),
        ("agents/helper/Dockerfile", ""),
        (
            "agents/helper/agent.toml",
            "[metadata]\ndefault_model = \"m\"",
        ),
        ("aliases.toml", "[agents]\nhelper = [\"h\", \"help-er\"]"),
        ("README.md", "# T\n\nSays hi.\n"),
        ("notes.md", ""),
        (".aebuild/x", ""),
    ];
    let (folder, faults) = read(&memory(&files), Path::new("/w/f"), "f");
    expect![[r#"
        task t at f/tasks/t.json
        file_artifact_universe data = @local/f/data: .hidden a/b.csv c.csv
        file greeting = @local/f/greeting: hello.txt
        docker_image image = @local/f/image: Dockerfile
        environment inbox = @local/x: x.json
        cli tool = @local/f/tool: bin/run
        skill write = @local/f/write: SKILL.md
        mcp_server email = @local/f/email
        a2a_agent helper = @local/f/helper
        eval all: t
        eval one: t
        ignored .aebuild artifacts/loose.txt notes.md tasks/notes.txt
        f/evals/all.toml:1:15: error[duplicate-task]: eval `all` names task `t` twice
            delete one of them
        f/evals/all.toml:1:37: error[duplicate-task]: eval `all` names task `t` twice
            delete one of them
    "#]]
    .assert_eq(&overview(&folder, &faults));
    assert_eq!(folder.description.as_deref(), Some("Says hi."));
    assert_eq!(folder.aliases.agents["h"], "helper");
    let listings: Vec<String> = folder
        .listings
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    expect![[r#"
        /w/f
        /w/f/tasks
        /w/f/artifacts
        /w/f/artifacts/data
        /w/f/artifacts/data/a
        /w/f/artifacts/greeting
        /w/f/artifacts/image
        /w/f/artifacts/inbox
        /w/f/artifacts/tool
        /w/f/artifacts/tool/bin
        /w/f/skills
        /w/f/skills/write
        /w/f/envs
        /w/f/envs/email
        /w/f/agents
        /w/f/agents/helper
        /w/f/evals"#]]
    .assert_eq(&listings.join("\n"));
    assert_eq!(
        folder.artifact("@local/x").map(|artifact| &*artifact.name),
        Some("inbox")
    );
}

#[test]
fn what_is_no_task_folder_is_refused() {
    check(
        &[("x.txt", "")],
        expect![[r#"
        ignored x.txt
        error[not-a-task-folder]: `f` is no task folder: it has none of tasks/, evals/, artifacts/, skills/, envs/, agents/
            name a folder that has tasks/, or a task file
    "#]],
    );
    check(
        &[],
        expect![[r#"
        error[no-such-path]: `f` does not exist
    "#]],
    );
}

#[test]
fn reserved_and_misspelt_names_are_refused() {
    check(
        &[("Tasks/t.json", "[]")],
        expect![[r#"
        error[wrong-case]: `f/Tasks` must be written `tasks`
            rename it to tasks; names are case-sensitive
    "#]],
    );
    check(
        &[
            TASK,
            ("bundle.toml", ""),
            ("Aliases.toml", ""),
            ("artifacts", ""),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            error[not-a-folder]: `f/artifacts` is a file, but must be a folder
                rename the file
            error[reserved-name]: `f/bundle.toml` has a name that is kept for later
                rename or delete it
            error[wrong-case]: `f/Aliases.toml` must be written `aliases.toml`
                rename it to aliases.toml; names are case-sensitive
        "#]],
    );
    check(
        &[
            ("tasks/t.JSON", "[]"),
            ("tasks/sub/t.json", "[]"),
            ("tasks/a\u{200b}.json", "[]"),
            ("evals/e.Toml", ""),
        ],
        expect![[r#"
            error[folder-among-tasks]: `f/tasks/sub` is a folder, but tasks/ holds task files
                move the folder out of tasks/, or write the task as a .json file
            error[invisible-character]: task `a\u{200b}` has the invisible character U+200B
                delete the character, and type the name anew
            error[wrong-case]: `f/evals/e.Toml` must be written `e.toml`
                rename it to e.toml; names are case-sensitive
            error[wrong-case]: `f/tasks/t.JSON` must be written `t.json`
                rename it to t.json; names are case-sensitive
        "#]],
    );
    check(
        &[
            ("tasks/a.json", "[]"),
            ("tasks/A.json", "[]"),
            ("tasks/\u{e9}.json", "[]"),
            ("tasks/e\u{301}.json", "[]"),
        ],
        expect![[r#"
            task A at f/tasks/A.json
            task é at f/tasks/é.json
            error[names-collide]: `f/tasks/A.json` and `f/tasks/a.json` have one name, save for case or Unicode form
                rename one of them
            error[names-collide]: `f/tasks/é.json` and `f/tasks/é.json` have one name, save for case or Unicode form
                rename one of them
        "#]],
    );
    check(
        &[
            TASK,
            ("artifacts/a__b/x", ""),
            ("artifacts/a:b/x", ""),
            ("artifacts/s/x", ""),
            ("skills/s/SKILL.md", ""),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            file s = @local/f/s: x
            error[bad-id]: artifact `a:b` has the character `:`
                use letters, digits and any of ` ._-~@()+,&`, and start with a letter or digit
            error[names-collide]: `f/artifacts/s` and `f/skills/s` have one name, save for case or Unicode form
                rename one of them
            error[reserved-name]: `f/artifacts/a__b` has `__` in its name, which is kept for derived ids
                rename the folder
        "#]],
    );
}

#[test]
fn settings_are_checked() {
    check(
        &[
            TASK,
            (
                "artifacts/a/artifact.toml",
                "type = \"files\"\ndescripton = \"x\"\nid = \"x\"",
            ),
            ("artifacts/a/x", ""),
            ("artifacts/b/artifact.toml", "type = \"environment\""),
            ("artifacts/b/x", ""),
            ("artifacts/b/y", ""),
            (
                "artifacts/c/artifact.toml",
                "type = \"cli\"\ncommand_name = \"-x y\"\nentrypoint = \"bin/runn\"",
            ),
            ("artifacts/c/bin/run", ""),
            ("artifacts/c/bin/.env", ""),
            ("artifacts/d/artifact.toml", "type = \"file\"\ntype = 1"),
            ("artifacts/d/x", ""),
            ("artifacts/d/y", ""),
            (
                "artifacts/e/artifact.toml",
                "type = \"environment_universe\"",
            ),
            ("artifacts/e/x", ""),
            ("artifacts/g/artifact.toml", "type = \"docker_image\""),
            ("artifacts/g/x", ""),
            ("envs/e/env.toml", "image = 1\ntyp = \"website\""),
            ("envs/p/env.toml", "type = \"from-plugin\"\nanything = 1"),
            (
                "agents/a/agent.toml",
                "default_env_vars = {A = 1}\n[metadata]\nmin_disk_size_gb = \"x\"\nq = 1",
            ),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            file a = x: x
            environment b = @local/f/b: x y
            cli c = @local/f/c: bin/.env bin/run
            file d = @local/f/d: x y
            environment_universe e = @local/f/e: x
            docker_image g = @local/f/g: x
            mcp_server e = @local/f/e
            from-plugin p = @local/f/p
            a2a_agent a = @local/f/a
            error[loose-file]: `f/artifacts/e/x` is in no folder of its own
                put it into a sub-folder named after the environment
            error[missing-file]: `f/artifacts/g` is a docker_image, but has no Dockerfile
                add a Dockerfile
            error[reserved-name]: `f/artifacts/c/bin/.env` stands where installing the command writes its own
                rename it
            error[wrong-number-of-files]: `f/artifacts/b` is of type environment, but has 2 files
                leave one file, or name one with the key `file`
            error[wrong-number-of-files]: `f/artifacts/d` is of type file, but has 2 files
                leave one file, or delete `type` from artifact.toml
            f/agents/a/agent.toml:1:25: error[wrong-type]: `default_env_vars.A` of agent `a` is a number, not a string
                write it in double quotes
            f/agents/a/agent.toml:3:20: error[wrong-type]: `metadata.min_disk_size_gb` of agent `a` is a string, not a number at least 0
                write a number at least 0
            f/agents/a/agent.toml:4:1: error[unknown-field]: `metadata` of agent `a` has no key `q`
                the keys are `default_model`, `min_disk_size_gb`, `takes_credentials`
            f/artifacts/a/artifact.toml:1:8: error[unknown-value]: `type` of artifact `a` can't be `files`
                did you mean `file`?
            f/artifacts/a/artifact.toml:2:1: error[unknown-field]: artifact `a` has no key `descripton`
                did you mean `description`?
            f/artifacts/a/artifact.toml:3:6: error[id-not-local]: id `x` of artifact `a` is not a local id
                write "@local/" and a path of names, or delete the key
            f/artifacts/b/artifact.toml:1:1: error[missing-field]: artifact `b` lacks the key `environment_name`
                add environment_name = ".."
            f/artifacts/c/artifact.toml:2:16: error[bad-command-name]: command `-x y` of artifact `c` is no plain name
                use a name without slashes and spaces that starts with a letter or digit
            f/artifacts/c/artifact.toml:3:14: error[missing-file]: artifact `c` has no file `bin/runn`
                did you mean `bin/run`?
            f/artifacts/d/artifact.toml:2:1: error[duplicate-key]: key `type` is written twice in one table
                delete one of them
            f/envs/e/env.toml:1:9: error[wrong-type]: `image` of env `e` is a number, not a string or a table
                write it in double quotes
            f/envs/e/env.toml:2:1: error[unknown-field]: env `e` has no key `typ`
                did you mean `type`?
        "#]],
    );
}

#[test]
fn front_matter_is_checked() {
    check(
        &[
            TASK,
            ("skills/a/skill.md", ""),
            ("skills/b/SKILL.md", "# no front matter\n"),
            (
                "skills/c/SKILL.md",
                "---\nname: Bad--Name\ndescription: x\n---\n",
            ),
            ("skills/d/SKILL.md", "---\nname: d\n---\n"),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            skill a = @local/f/a: skill.md
            skill b = @local/f/b: SKILL.md
            skill c = @local/f/c: SKILL.md
            skill d = @local/f/d: SKILL.md
            error[missing-file]: skill `a` has no SKILL.md
                rename skill.md to SKILL.md
            f/skills/b/SKILL.md:1:1: error[bad-front-matter]: `f/skills/b/SKILL.md` has no front matter
                start the file with the lines `---`, `name: ..`, `description: ..`, `---`
            f/skills/c/SKILL.md:2:1: error[bad-front-matter]: `name` of skill `c` can't be `Bad--Name`
                use 1 to 64 lower-case letters, digits and single `-` between them
            f/skills/d/SKILL.md:1:1: error[bad-front-matter]: `f/skills/d/SKILL.md` has no `description` in its front matter
                start the file with the lines `---`, `name: ..`, `description: ..`, `---`
        "#]],
    );
}

#[test]
fn evals_and_aliases_name_what_there_is() {
    check(
        &[
            TASK,
            (
                "evals/a.toml",
                "tasks = [\"tt\", \"t\", \"t\", {task = \"t\", version = 2}, 1]\ncolour = 1",
            ),
            ("evals/b.toml", "tasks = []"),
            ("evals/c.toml", ""),
            ("agents/helper/Dockerfile", ""),
            ("agents/other/Dockerfile", ""),
            (
                "aliases.toml",
                "[agents]\nhelpr = [\"h\"]\nhelper = [\"H\", \"a\"]\nother = [\"a\"]\n[env]\n",
            ),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            a2a_agent helper = @local/f/helper
            a2a_agent other = @local/f/other
            eval a: t
            eval b: 
            eval c: 
            f/aliases.toml:2:1: error[unknown-name]: `f/aliases.toml` names `helpr`, but there is no folder agents/helpr
                did you mean `helper`?
            f/aliases.toml:3:11: error[bad-alias]: `H` is no alias
                use 1 to 64 lower-case letters, digits and `-`
            f/aliases.toml:4:10: error[duplicate-alias]: alias `a` is given to `helper` and to `other`
                delete one of them
            f/aliases.toml:5:2: error[unknown-field]: `f/aliases.toml` has no key `env`
                did you mean `envs`?
            f/evals/a.toml:1:10: error[unknown-task]: eval `a` names task `tt`, which is not in this folder
                did you mean `t`?
            f/evals/a.toml:1:21: error[duplicate-task]: eval `a` names task `t` twice
                delete one of them
            f/evals/a.toml:1:49: error[store-task]: eval `a` pins a version of task `t`, but there is no store of tasks
                write "t" for a task of this folder
            f/evals/a.toml:1:53: error[wrong-type]: `tasks[4]` of eval `a` is a number, not a string or a table
                write it in double quotes
            f/evals/a.toml:2:1: error[unknown-field]: eval `a` has no key `colour`
                the keys are `id`, `tasks`, `type`
            f/evals/b.toml:1:9: error[wrong-length]: `tasks` of eval `b` is empty, but needs at least 1 item
                write at least 1 item
            f/evals/c.toml:1:1: error[missing-field]: eval `c` lacks the key `tasks`
                add tasks = [..]
        "#]],
    );
}

#[test]
fn files_in_unicode_forms_and_cases_collide_for_who_uses_them() {
    check(
        &[
            TASK,
            ("artifacts/a/\u{e9}", ""),
            ("artifacts/a/e\u{301}", ""),
            ("artifacts/a/x", ""),
            ("artifacts/a/X", ""),
            ("artifacts/a/b\nc", ""),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            file_artifact_universe a = @local/f/a: X x é é
            error[bad-file-name]: `f/artifacts/a/b\u{a}c` has a control character in its name
                rename it
            warning[files-differ-in-case]: files `X` and `x` of `f/artifacts/a` differ in case only
                rename one of them, or they are one file on some systems
            error[names-collide]: two files of `f/artifacts/a` have the path `é`, written in two Unicode forms
                rename one of them
        "#]],
    );
}

#[test]
fn arguments_are_folders_files_or_folders_of_folders() {
    let system = memory(&[
        TASK,
        ("tasks/u.json", ""),
        ("README.md", ""),
        ("../g/a/tasks/x.json", ""),
        ("../g/b/artifacts/x/y", ""),
        ("../g/c/x", ""),
        ("../h/tasks/a/tasks/x.json", ""),
        ("../lone/x.json", ""),
        ("../lone/artifacts/a/y", ""),
    ]);
    for (path, text) in [
        ("/w/g/a/tasks/x.json", ""),
        ("/w/g/b/artifacts/x/y", ""),
        ("/w/g/c/x", ""),
    ] {
        system.write(path, text);
    }
    system.write("/w/h/tasks/a/tasks/x.json", "");
    system.write("/w/lone/x.json", "");
    system.write("/w/lone/artifacts/a/y", "");
    let mut out = String::new();
    for args in [
        &["/w/f"][..],
        &[
            "/w/f/tasks/t.json",
            "/w/f/tasks/u.json",
            "/w/f/./tasks/t.json",
        ],
        &["/w/g"],
        &["/w/h"],
        &["/w/lone/x.json"],
        &["/w/lone/"],
        &["/w/nope", "/w/f/tasks/tt.json", "/w/f/README.md", "/w/g/c"],
    ] {
        let paths: Vec<PathBuf> = args.iter().map(PathBuf::from).collect();
        let (located, faults) = locate(&system, &paths);
        out.push_str(&format!("{}\n", args.join(" ")));
        for Located {
            root,
            shown,
            only,
            lone,
        } in located
        {
            let only = only.unwrap_or_default();
            out.push_str(&format!(
                "    {} ({shown}) {only} {}\n",
                root.display(),
                lone.is_some()
            ));
        }
        out.push_str(&shown(&faults));
    }
    expect![[r#"
        /w/f
            /w/f (/w/f)  false
        /w/f/tasks/t.json /w/f/tasks/u.json /w/f/./tasks/t.json
            /w/f (/w/f) t false
            /w/f (/w/f) u false
        /w/g
            /w/g/a (/w/g/a)  false
            /w/g/b (/w/g/b)  false
        /w/h
            /w/h/tasks/a (/w/h/tasks/a)  false
        /w/lone/x.json
            /w/lone (/w/lone/x.json) x true
        /w/lone/
            /w/lone (/w/lone)  false
        /w/nope /w/f/tasks/tt.json /w/f/README.md /w/g/c
        error[no-such-path]: `/w/nope` does not exist
        error[no-such-path]: `/w/f/tasks/tt.json` does not exist
            did you mean `t.json`?
        error[not-a-task]: `/w/f/README.md` is neither a task folder nor a .json file
            name a task folder, or a task file that ends with .json
        error[not-a-task-folder]: `/w/g/c` is no task folder: it has none of tasks/, evals/, artifacts/, skills/, envs/, agents/
            name a folder that has tasks/, or a task file
    "#]].assert_eq(&out);
}

#[test]
fn a_lone_task_has_the_artifacts_beside_it() {
    let system = MemorySystem::new();
    system.write("/w/x.json", "[]");
    system.write("/w/tasks/broken.JSON", "[]");
    system.write("/w/artifacts/a/y", "");
    let (located, _) = locate(&system, &[PathBuf::from("/w/x.json")]);
    let (folder, faults) = read_located(&system, &located[0]);
    expect![[r#"
        task x at /w/x.json
        file a = @local/w/a: y
    "#]]
    .assert_eq(&overview(&folder, &faults));
}

proptest! {
    #[test]
    fn no_folder_panics(
        files in proptest::collection::vec(
            ("(tasks|evals|artifacts|skills|envs|agents|Tasks|x)/[aA.é:_]{1,3}(/[a.é]{1,2}|/SKILL.md|/artifact.toml|/env.toml|.json|.toml)",
             "(---\n|name: a\n|type = \"(cli|file)\"|tasks = |id|\\[|\\]|=|\"|\n){0,6}"),
            0..8,
        ),
    ) {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        read(&memory(&files), Path::new("/w/f"), "f");
        locate(&memory(&files), &[PathBuf::from("/w/f"), PathBuf::from("/w")]);
    }
}
