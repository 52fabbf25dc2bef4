//! What is content, and what only stands there.

use expect_test::expect;

use super::*;

#[test]
fn folders_without_content_are_refused() {
    check(
        &[
            TASK,
            ("artifacts/a/.DS_Store", ""),
            ("artifacts/b/__pycache__/x", ""),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            error[empty-folder]: `f/artifacts/a` has nothing in it
                put a file into it, or delete it
            error[empty-folder]: `f/artifacts/b` has nothing in it
                put a file into it, or delete it
        "#]],
    );
    check(
        &[
            TASK,
            ("artifacts/a/artifact.toml", ""),
            ("envs/e/x", ""),
            ("agents/a/Thumbs.db", ""),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            file_artifact_universe a = @local/f/a: 
            mcp_server e = @local/f/e
            error[empty-folder]: `f/agents/a` has nothing in it
                put a file into it, or delete it
            error[wrong-number-of-files]: `f/artifacts/a` is of type file_artifact_universe, but has 0 files
                add a file
        "#]],
    );
}

#[test]
fn what_an_editor_leaves_is_no_content_and_a_backup_is_none_beside_its_file() {
    check(
        &[
            TASK,
            ("artifacts/a/data.txt", ""),
            ("artifacts/a/data.txt~", ""),
            ("artifacts/a/.data.txt.swp", ""),
            ("artifacts/a/#data.txt#", ""),
            ("artifacts/a/lone~", ""),
            ("artifacts/a/4913", ""),
            ("artifacts/a/deep~/x~", ""),
            ("artifacts/a/deep/.#x", ""),
            ("envs/e/server.py", ""),
            ("envs/e/server.py~", ""),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            file_artifact_universe a = @local/f/a: 4913 data.txt deep~/x~ lone~
            mcp_server e = @local/f/e
        "#]],
    );
}
