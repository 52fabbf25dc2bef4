//! What a step may rely on when it moves files in and out of a sandbox, and what the state of one is.

use aebuild::step::sandbox::*;
use rustix::fs::{CWD, RenameFlags};

use crate::space::*;

#[test]
fn the_state_is_what_was_written_and_nothing_else() {
    walled(async |space: Space| {
        let sandbox = space.sandbox("one");
        let script = "mkdir -p /loaded /opt/tool /work/new /home/me; for f in /app/a /loaded/b /opt/tool/c /work/new/d /tmp/x /top; do echo $f > $f; done
            echo t > $TMPDIR/t; echo h > ~/h; echo r > /run/r; ls / | tr '\\n' ' '";
        let said = bash(&sandbox, script).await;
        assert!(
            said.contains(" usr work") && !said.contains("root"),
            "{said}"
        );
        let expected = "app/ app/a home/ home/me/ loaded/ loaded/b opt/ opt/tool/ opt/tool/c tmp/ tmp/x top work/ work/new/ work/new/d";
        assert_eq!(tree(sandbox.state_dir()).join(" "), expected);
        let written = "for f in /usr/x /etc/x /bin/x /proc/x; do echo > $f && echo written; done 2>/dev/null; cat /tmp/x /top; rm /tmp/x";
        assert_eq!(bash(&sandbox, written).await, "/tmp/x\n/top");
        assert!(!tree(sandbox.state_dir()).contains(&"tmp/".to_owned()));
    });
}

#[test]
fn a_path_that_leads_out_is_refused() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        let outside = space.live.path().join("secret");
        std::fs::write(&outside, "secret").unwrap();
        let app = sandbox.state_dir().join("app");
        std::os::unix::fs::symlink(&outside, app.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../../../../../secret", app.join("relative")).unwrap();
        std::os::unix::fs::symlink(space.live.path(), app.join("folder")).unwrap();
        std::os::unix::fs::symlink("loop", app.join("loop")).unwrap();
        for path in ["/../x", "/app/../../x", "../../x", "/app/none/../../../x"] {
            for result in [
                sandbox.read(path, 9).map(drop),
                sandbox.probe(path).map(drop),
                sandbox.write(path, b"", 0o644),
            ] {
                assert!(result.is_err(), "{path}");
            }
        }
        for path in ["/app/absolute", "/app/relative", "/app/folder/secret"] {
            let read = sandbox.read(path, 9).ok().flatten().unwrap_or_default();
            assert_ne!(read, b"secret", "{path}");
            let out = space.live.path().join("out");
            if sandbox.fetch(path, &out).is_ok() {
                assert_ne!(std::fs::read(&out).unwrap(), b"secret", "{path}");
                std::fs::remove_file(&out).unwrap();
            }
            // A write either is refused or lands inside.
            let _ = sandbox.write(path, b"overwritten", 0o644);
            let _ = sandbox.write(&format!("{path}/below"), b"overwritten", 0o644);
            assert_eq!(std::fs::read(&outside).unwrap(), b"secret", "{path}");
        }
        assert_eq!(
            tree(space.live.path())
                .iter()
                .filter(|path| !path.starts_with("live"))
                .count(),
            1
        );
        assert_eq!(sandbox.probe("/app/loop").unwrap(), Probe::Missing);
        for path in ["/usr/x", "/bin/x", "/etc/x", "/proc/x", "/dev/x", "/run/x"] {
            assert!(
                matches!(
                    sandbox.write(path, b"", 0o644),
                    Err(SandboxError::ReadOnly { .. })
                ),
                "{path}"
            );
        }
        assert!(matches!(
            sandbox.write("/", b"", 0o644),
            Err(SandboxError::NotAFile { .. })
        ));
        assert!(matches!(
            sandbox.write("/app", b"", 0o644),
            Err(SandboxError::NotAFile { .. })
        ));
    });
}

#[test]
fn links_are_followed_inside_the_sandbox() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        bash(&sandbox, "mkdir -p /app/v1; echo one > /app/v1/f; ln -s /app/v1 /app/current; ln -s v1 rel; ln -s /usr/bin/bash shell; ln -s ../../../app/v1/f up").await;
        assert_eq!(
            sandbox.read("/app/current/f", 9).unwrap().unwrap(),
            b"one\n"
        );
        assert_eq!(
            sandbox.probe("/app/rel/f").unwrap(),
            Probe::File { size: 4 }
        );
        assert!(matches!(
            sandbox.probe("/app/shell").unwrap(),
            Probe::File { .. }
        ));
        sandbox.write("/app/current/g", b"two", 0o644).unwrap();
        assert_eq!(
            bash(&sandbox, "cat /app/v1/g; readlink /app/rel").await,
            "twov1"
        );
        let list: Vec<_> = sandbox
            .list("/app")
            .unwrap()
            .into_iter()
            .map(|file| file.path)
            .collect();
        assert_eq!(list, ["v1/f", "v1/g"]);
        assert!(
            sandbox
                .exec(Exec::argv(["./shell", "-c", "true"]))
                .await
                .unwrap()
                .is_success()
        );
    });
}

#[test]
fn only_regular_files_come_out() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        bash(
            &sandbox,
            "mkfifo pipe; ln -s data link; printf 12345 > data; mkdir dir; chmod 700 data",
        )
        .await;
        let out = space.live.path().join("out");
        let refused = |path: &str| sandbox.fetch(path, &out).unwrap_err().to_string();
        assert_eq!(
            refused("/app/pipe"),
            "`/app/pipe` is a named pipe, not a regular file"
        );
        assert_eq!(
            refused("/app/link"),
            "`/app/link` is a symbolic link, not a regular file"
        );
        assert_eq!(
            refused("/app/dir"),
            "`/app/dir` is a folder, not a regular file"
        );
        assert_eq!(
            refused("/app/none"),
            "there is nothing at `/app/none` in the sandbox"
        );
        assert!(!out.exists());
        assert_eq!(sandbox.fetch("/app/data", &out).unwrap(), 5);
        assert_eq!(std::fs::read(&out).unwrap(), b"12345");
        assert_eq!(sandbox.probe("/app/pipe").unwrap(), Probe::Other);
        assert_eq!(sandbox.probe("/app").unwrap(), Probe::Dir);
        assert_eq!(
            sandbox.read("/app/data", 4).unwrap_err().to_string(),
            "`/app/data` has 5 bytes, more than the limit of 4"
        );
        assert_eq!(
            sandbox.read("/app/pipe", 4).unwrap_err().to_string(),
            "`/app/pipe` is a named pipe, not a regular file"
        );
        assert_eq!(
            sandbox.list("/app").unwrap(),
            [ListedFile {
                path: "data".into(),
                size: 5,
                mode: 0o700
            }]
        );
        assert_eq!(
            sandbox.list("/app/data").unwrap_err().to_string(),
            "`/app/data` is a file, not a folder"
        );
        assert_eq!(
            sandbox.list("/none").unwrap_err().to_string(),
            "there is nothing at `/none` in the sandbox"
        );
    });
}

#[test]
fn many_files_are_put_with_their_modes_and_replace_what_was_there() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        let from = |n: usize| space.live.path().join(format!("from-{n}"));
        let files: Vec<Put> = (0..40)
            .map(|n| {
                std::fs::write(from(n), n.to_string()).unwrap();
                Put {
                    from: from(n),
                    to: format!("/loaded/{}/f-{n}", n % 5),
                    mode: if n % 2 == 0 { 0o644 } else { 0o755 },
                }
            })
            .collect();
        sandbox.put(&files).unwrap();
        sandbox.put(&files).unwrap();
        assert_eq!(
            bash(
                &sandbox,
                "cat /loaded/3/f-13; stat -c %a /loaded/3/f-13 /loaded/4/f-14 /loaded/4"
            )
            .await,
            "13755\n644\n755"
        );
        assert_eq!(sandbox.list("/loaded").unwrap().len(), 40);
        let missing = Put {
            from: from(99),
            to: "/x".into(),
            mode: 0o644,
        };
        assert!(
            sandbox
                .put(&[missing])
                .unwrap_err()
                .to_string()
                .starts_with("cannot open `/")
        );
        // A hard link to a file elsewhere is replaced, not written through.
        std::fs::hard_link(from(0), sandbox.state_dir().join("app/hard")).unwrap();
        sandbox.write("/app/hard", b"changed", 0o644).unwrap();
        assert_eq!(std::fs::read(from(0)).unwrap(), b"0");
    });
}

#[test]
fn staged_files_are_seen_by_commands_and_are_not_state() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        let staged = format!("{}/run-code/main.sh", sandbox.temp_dir());
        sandbox.write(&staged, b"echo staged", 0o644).unwrap();
        let exited = sandbox.exec(Exec::argv(["bash", &staged])).await.unwrap();
        assert_eq!(exited.stdout.text(), "staged\n");
        assert_eq!(tree(sandbox.state_dir()), ["app/"]);
    });
}

#[test]
fn a_folder_that_becomes_a_link_meanwhile_leads_nowhere() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        let outside = space.live.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), "secret").unwrap();
        let app = sandbox.state_dir().join("app");
        std::fs::create_dir(app.join("d")).unwrap();
        std::os::unix::fs::symlink(&outside, app.join("link")).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let (from, to) = (app.join("d"), app.join("link"));
                    rustix::fs::renameat_with(CWD, &from, CWD, &to, RenameFlags::EXCHANGE).unwrap();
                }
            });
            for n in 0..500 {
                let _ = sandbox.write(&format!("/app/d/{n}"), b"x", 0o644);
                let _ = sandbox.write(&format!("/app/d/{n}-/x"), b"x", 0o644);
                let read = sandbox
                    .read("/app/d/secret", 100)
                    .ok()
                    .flatten()
                    .unwrap_or_default();
                let listed = sandbox.list("/app").unwrap_or_default();
                if read == b"secret" || listed.iter().any(|file| file.path.ends_with("secret")) {
                    done.store(true, std::sync::atomic::Ordering::Relaxed);
                    panic!("the file outside was seen");
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(tree(&outside), ["secret"]);
    });
}

#[test]
fn an_explicit_tmp_is_state_and_is_the_same_for_files_and_commands() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        assert_eq!(
            bash(&sandbox, "ls /tmp; echo x > /tmp/by-command").await,
            ""
        );
        assert_eq!(sandbox.read("/tmp/by-command", 9).unwrap().unwrap(), b"x\n");
        sandbox.write("/tmp/by-step", b"y", 0o644).unwrap();
        assert_eq!(bash(&sandbox, "cat /tmp/by-step; rm /tmp/by-*").await, "y");
        assert_eq!(tree(sandbox.state_dir()), ["app/"]);
    });
}

#[test]
fn names_that_are_not_utf8_are_shown_escaped() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        bash(&sandbox, r"touch $'a\nb' ok").await;
        let list: Vec<_> = sandbox
            .list("/app")
            .unwrap()
            .into_iter()
            .map(|file| file.path)
            .collect();
        assert_eq!(list, ["a\nb", "ok"]);
        bash(&sandbox, r"touch $'bad\xff'").await;
        let error = sandbox.list("/app").unwrap_err().to_string();
        assert_eq!(error, r#"a file name under `/app` is not UTF-8: "bad\xFF""#);
    });
}

#[test]
fn a_state_can_be_moved_in_whole() {
    each(async |space: Space| {
        let (one, two) = (space.sandbox("one"), space.sandbox("two"));
        bash(&one, "mkdir -p sub/empty; echo 1 > sub/x").await;
        one.settled().await;
        std::fs::remove_dir_all(two.state_dir()).unwrap();
        std::fs::rename(one.state_dir(), two.state_dir()).unwrap();
        assert_eq!(bash(&two, "cat /app/sub/x; ls sub").await, "1\nempty\nx");
    });
}
