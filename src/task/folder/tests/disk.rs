//! What only a disk has: links, sockets, and files that are too large.
#![expect(
    clippy::disallowed_methods,
    reason = "a test makes the folder that it reads"
)]

use std::os::unix::fs::symlink;

use expect_test::expect;

use super::*;
use crate::system::OsSystem;

#[test]
fn links_are_followed_inside_the_folder_only() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("f");
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let link = |target: &str, path: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    };
    write("tasks/t.json", "[]");
    write("artifacts/good/x", "");
    link("../good/x", "artifacts/links/inside");
    link("../good", "artifacts/links/folder");
    link("/etc/hostname", "artifacts/links/outside");
    link("/", "artifacts/links/all");
    link("nowhere", "artifacts/links/dangling");
    link("..", "artifacts/links/up");
    link("b", "artifacts/links/a");
    link("a", "artifacts/links/b");
    link("../loop2", "artifacts/loop1/l");
    link("../loop1", "artifacts/loop2/l");
    link("../../../outside.json", "tasks/o.json");
    link("t.json", "tasks/alias.json");
    link("/tmp", "artifacts/elsewhere");
    std::os::unix::net::UnixListener::bind(root.join("artifacts/good/socket")).unwrap();
    let system = OsSystem;
    let (folder, faults) = read(&system, &root, "f");
    expect![[r#"
        task alias at f/tasks/alias.json
        task t at f/tasks/t.json
        file_artifact_universe elsewhere = @local/f/elsewhere: 
        error[link-outside]: `f/artifacts/elsewhere` links to `/tmp`, outside the task folder
            copy what it leads to into the task folder
        file good = @local/f/good: x
        error[not-a-file]: `f/artifacts/good/socket` is a socket, pipe or device, but must be a file
            delete it
        file_artifact_universe links = @local/f/links: folder/x inside
        error[link-loop]: `f/artifacts/links/a` is a link that leads back to itself
            delete the link
        error[link-outside]: `f/artifacts/links/all` links to `/`, outside the task folder
            copy what it leads to into the task folder
        error[link-loop]: `f/artifacts/links/b` is a link that leads back to itself
            delete the link
        error[broken-link]: `f/artifacts/links/dangling` links to `nowhere`, which does not exist
            delete the link, or make what it leads to
        error[link-outside]: `f/artifacts/links/outside` links to `/etc/hostname`, outside the task folder
            copy what it leads to into the task folder
        error[link-loop]: `f/artifacts/links/up` is a link that leads back to itself
            delete the link
        error[not-a-file]: `f/artifacts/links/folder/socket` is a socket, pipe or device, but must be a file
            delete it
        file_artifact_universe loop1 = @local/f/loop1: 
        error[link-loop]: `f/artifacts/loop1/l/l` is a link that leads back to itself
            delete the link
        file_artifact_universe loop2 = @local/f/loop2: 
        error[link-loop]: `f/artifacts/loop2/l/l` is a link that leads back to itself
            delete the link
        error[broken-link]: `f/tasks/o.json` links to `../../../outside.json`, which does not exist
            delete the link, or make what it leads to
    "#]].assert_eq(&overview(&folder, &faults));
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    std::fs::create_dir(path("folder.json")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket.json")).unwrap();
    let big = std::fs::File::create(path("big.json")).unwrap();
    big.set_len(1 << 40).unwrap();
    let mut out = String::new();
    for name in ["none.json", "folder.json", "socket.json", "big.json"] {
        out.push_str(&shown(&[
            read_source(&OsSystem, &path(name), name).unwrap_err()
        ]));
    }
    let zero = read_source(&OsSystem, Path::new("/dev/zero"), "/dev/zero").unwrap_err();
    out.push_str(&shown(&[zero]));
    expect![[r#"
        error[no-such-path]: `none.json` does not exist
        error[not-a-file]: `folder.json` is a folder, but must be a file
        error[not-a-file]: `socket.json` is a socket, pipe or device, but must be a file
        error[file-too-large]: `big.json` is larger than 8 MiB
            move long texts and tables into files of their own and refer to them by path
        error[not-a-file]: `/dev/zero` is a socket, pipe or device, but must be a file
    "#]]
    .assert_eq(&out);
}
