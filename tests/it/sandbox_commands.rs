//! What a step may rely on when it runs commands in a sandbox.

use aebuild::provider::bubblewrap::Network;
use aebuild::provider::local::{LocalError, LocalSandboxes, SandboxSpec, Wanted};
use aebuild::step::sandbox::*;

use crate::space::*;

#[test]
fn a_command_gets_a_clean_environment_and_an_empty_stdin() {
    each(async |space: Space| {
        let env_vars = vec![
            ("DECLARED".into(), "d".into()),
            ("LD_LIBRARY_PATH".into(), "/app/lib".into()),
        ];
        let sandbox = space
            .sandboxes
            .create(SandboxSpec {
                id: "one".into(),
                env_vars,
                ..Default::default()
            })
            .unwrap();
        let exited = sandbox
            .exec(Exec::argv(["env"]).env("GIVEN", "g"))
            .await
            .unwrap();
        let mut names: Vec<String> = exited
            .stdout
            .text()
            .lines()
            .map(|line| line.split('=').next().unwrap().to_owned())
            .collect();
        names.retain(|name| name != "PWD");
        names.sort();
        assert_eq!(
            names,
            [
                "AEBUILD_SANDBOX",
                "DECLARED",
                "GIVEN",
                "HOME",
                "LANG",
                "LD_LIBRARY_PATH",
                "PATH",
                "TMPDIR"
            ]
        );
        assert_eq!(
            bash(&sandbox, "cat; umask; echo $AEBUILD_SANDBOX $LANG; tty").await,
            "0022\none C.UTF-8\nnot a tty [Code(1)]"
        );
    });
}

#[test]
fn stdin_output_and_exit_codes_arrive_as_they_are() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let exited = sandbox
            .exec(Exec::argv(["cat"]).stdin(bytes.clone()))
            .await
            .unwrap();
        assert_eq!(
            (
                exited.how,
                exited.stdout.bytes == bytes,
                exited.stdout.dropped
            ),
            (How::Code(0), true, 0)
        );
        // A command that does not read what it is given is no fault.
        assert!(
            sandbox
                .exec(Exec::argv(["true"]).stdin(bytes))
                .await
                .unwrap()
                .is_success()
        );
        for code in [0, 1, 2, 77, 126, 127, 255] {
            assert_eq!(
                sandbox
                    .exec(Exec::bash(format!("exit {code}")))
                    .await
                    .unwrap()
                    .how,
                How::Code(code)
            );
        }
        let killed = sandbox.exec(Exec::bash("kill -SEGV $$")).await.unwrap().how;
        assert!(
            matches!(killed, How::Signal(11) | How::Code(139)),
            "{killed:?}"
        );
        assert_eq!(bash(&sandbox, "echo out; echo err >&2").await, "outerr");
    });
}

#[test]
fn a_flood_is_kept_from_its_end_and_counted() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        let exited = sandbox
            .exec(Exec::bash("head -c 50000000 /dev/zero; printf end").keep(1000))
            .await
            .unwrap();
        assert_eq!(
            (exited.stdout.bytes.len(), exited.stdout.dropped),
            (1000, 50_000_003 - 1000)
        );
        assert!(exited.stdout.bytes.ends_with(b"\0end"));
    });
}

#[test]
fn what_cannot_be_run_is_named() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        sandbox.write("/app/plain", b"text", 0o644).unwrap();
        sandbox
            .write("/app/lost", b"#!/no/such/interpreter\n", 0o755)
            .unwrap();
        let refused = async |exec: Exec| sandbox.exec(exec).await.unwrap_err().to_string();
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        for (exec, expected) in [
            (
                Exec::argv(["no-such"]),
                format!("program `no-such` is not in the sandbox (looked in {path})"),
            ),
            (
                Exec::argv([""]),
                format!("program `` is not in the sandbox (looked in {path})"),
            ),
            (
                Exec::argv(["./no"]),
                "program `./no` is not in the sandbox".into(),
            ),
            (
                Exec::argv(["/app"]),
                "program `/app` cannot be run: it is a folder".into(),
            ),
            (
                Exec::argv(["./plain"]),
                "program `./plain` cannot be run: it is a file without the right to be executed"
                    .into(),
            ),
            (
                Exec::argv(["/app/lost"]),
                "program `/app/lost` cannot be run: it is a script whose interpreter is missing"
                    .into(),
            ),
            (Exec::argv::<&str>([]), "the command is empty".into()),
            (Exec::argv(["sudo"]), "the command is empty".into()),
            (
                Exec::argv(["echo", "a\0b"]),
                "argument 1 of `echo` holds a NUL character".into(),
            ),
            (
                Exec::argv(["true"]).env("A=B", ""),
                "`A=B` cannot be the name of an environment variable".into(),
            ),
            (
                Exec::argv(["true"]).env("A", "\0"),
                "the value of `A` holds a NUL character".into(),
            ),
            (
                Exec::argv(["true"]).cwd("/app/no"),
                "working folder `/app/no` of `true` is not a folder of the sandbox".into(),
            ),
            (
                Exec::argv(["true"]).cwd("/app/plain"),
                "working folder `/app/plain` of `true` is not a folder of the sandbox".into(),
            ),
            (
                Exec::argv(["true"]).cwd("../.."),
                "path `/app/../..` leads out of the sandbox".into(),
            ),
        ] {
            let error = refused(exec).await;
            assert!(error.starts_with(&expected), "{error} / {expected}");
        }
        let error = refused(Exec::argv(["echo".into(), "x".repeat(200_000)])).await;
        assert!(
            error.contains("arguments and environment of `echo` take 200"),
            "{error}"
        );
        assert_eq!(tree(sandbox.state_dir()), ["app/", "app/lost", "app/plain"]);
    });
}

#[test]
fn sudo_is_dropped_and_a_program_of_the_sandbox_runs() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        sandbox
            .write("/app/bin/hi", b"#!/bin/sh\necho hi \"$1\"\npwd\n", 0o755)
            .unwrap();
        let exited = sandbox
            .exec(Exec::argv(["sudo", "bin/hi", "you"]))
            .await
            .unwrap();
        assert!(exited.stdout.text().starts_with("hi you\n"), "{exited:?}");
        let exited = sandbox
            .exec(
                Exec::argv(["hi", "path"])
                    .env("PATH", "/app/bin:/usr/bin:/bin")
                    .cwd("bin"),
            )
            .await
            .unwrap();
        assert!(exited.stdout.text().starts_with("hi path\n"), "{exited:?}");
    });
}

#[test]
fn two_sandboxes_see_different_folders_under_one_name() {
    each(async |space: Space| {
        let (one, two) = (space.sandbox("one"), space.sandbox("two"));
        bash(
            &one,
            "echo 1 > /app/x; mkdir '/app/d d'; echo deep > '/app/d d/y'",
        )
        .await;
        assert_eq!(
            bash(&one, "cat /app/x; cat \"/app/d d/y\"; cat x").await,
            "1\ndeep\n1"
        );
        assert_eq!(bash(&two, "ls /app").await, "");
        assert_eq!(one.read("/app/x", 10).unwrap().unwrap(), b"1\n");
        assert_eq!(two.read("/app/x", 10).unwrap(), None);
        let argv = one.exec(Exec::argv(["cat", "/app/x"])).await.unwrap();
        assert_eq!(argv.stdout.text(), "1\n");
        let nested = one
            .exec(Exec::argv(["bash", "-lc", "cat /app/x"]))
            .await
            .unwrap();
        assert_eq!(nested.stdout.text(), "1\n");
    });
}

#[test]
fn behind_a_wall_the_settings_of_the_kernel_cannot_be_written() {
    walled(async |space: Space| {
        // A runner that is root stays root for the kernel's settings, whatever the wall says it is. Writes what is there.
        let sandbox = space.sandbox("one");
        let script = "f=/proc/sys/kernel/core_pattern; v=$(cat $f); (echo \"$v\" > $f) 2>/dev/null && echo written
            find /proc -path '/proc/[0-9]*' -prune -o -type f -writable -print 2>/dev/null | head -n 3; echo end";
        assert_eq!(bash(&sandbox, script).await, "end");
    });
}

#[test]
fn behind_a_wall_the_host_is_not_seen() {
    walled(async |space: Space| {
        let sandbox = space.sandbox("one");
        let live = space.live.path().display();
        assert_eq!(
            bash(
                &sandbox,
                &format!(
                    "ls /root /etc/shadow /etc/ssh {live} 2>/dev/null; whoami; hostname; echo $PPID"
                )
            )
            .await,
            "sandbox\nsandbox\n1"
        );
        assert_eq!(
            bash(
                &sandbox,
                "grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -d '\\t\\n'"
            )
            .await,
            "CapEff:0000000000000000NoNewPrivs:1"
        );
        let processes = bash(&sandbox, "ls -d /proc/[0-9]* | wc -l").await;
        assert!(processes.parse::<u32>().unwrap() < 8, "{processes}");
        assert_eq!(bash(&sandbox, "mount -o remount,rw /usr 2>/dev/null; rmdir /usr 2>/dev/null; kill -9 1; echo alive").await, "alive");
        assert_eq!(
            bash(
                &sandbox,
                "awk 'BEGIN{print 1}'; readlink -f /bin/sh > /dev/null && echo ok"
            )
            .await,
            "1\nok"
        );
        assert_ne!(sandbox.probe("/usr/bin/awk").unwrap(), Probe::Missing);
        assert_eq!(sandbox.probe("/etc/shadow").unwrap(), Probe::Missing);
    });
}

#[test]
fn a_closed_network_has_no_way_out_and_is_refused_without_a_wall() {
    let spec = || SandboxSpec {
        id: "one".into(),
        network: Network::Closed,
        ..Default::default()
    };
    walled(async |space: Space| {
        let sandbox = space.sandboxes.create(spec()).unwrap();
        assert_eq!(
            bash(&sandbox, "tail -n +3 /proc/net/dev | grep -vc lo:").await,
            "0 [Code(1)]"
        );
    });
    unwalled(async |space: Space| {
        let error = space.sandboxes.create(spec()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sandbox `one` asks for a closed network, which isolation `none` cannot keep"
        );
    });
}

#[test]
fn concurrent_commands_share_the_sandbox() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..24 {
            let sandbox = sandbox.clone();
            tasks.spawn(async move {
                bash(
                    &sandbox,
                    &format!("echo {n} > /app/{n}; ls /usr > /dev/null && cat /app/{n}"),
                )
                .await
            });
        }
        let mut said: Vec<u32> = tasks
            .join_all()
            .await
            .iter()
            .map(|said| said.parse().unwrap_or_else(|_| panic!("{said}")))
            .collect();
        said.sort();
        assert_eq!(said, (0..24).collect::<Vec<_>>());
        assert_eq!(sandbox.list("/app").unwrap().len(), 24);
        assert!(
            !sandbox.state_dir().join("usr").exists() && !sandbox.state_dir().join("proc").exists()
        );
    });
}

#[test]
fn ids_are_checked_and_unique() {
    unwalled(async |space: Space| {
        for id in ["", ".", "..", ".etc", "a/b", "lease", "a b", "ü"] {
            assert!(
                matches!(
                    space.sandboxes.create(SandboxSpec {
                        id: id.into(),
                        ..Default::default()
                    }),
                    Err(LocalError::Id { .. })
                ),
                "{id}"
            );
        }
        let _one = space.sandbox("one");
        assert!(matches!(
            space.sandboxes.create(SandboxSpec {
                id: "one".into(),
                ..Default::default()
            }),
            Err(LocalError::Exists { .. })
        ));
        assert!(LocalSandboxes::new(space.live.path().join("live"), "run", Wanted::None).is_err());
        assert!(
            space
                .sandboxes
                .notice()
                .unwrap()
                .contains("by convention only")
        );
    });
}

#[test]
fn signals_are_as_a_program_expects_them() {
    each(async |space: Space| {
        let sandbox = space.sandbox("one");
        assert_eq!(
            bash(&sandbox, "yes | head -n 1; echo ${PIPESTATUS[0]}").await,
            "y\n141"
        );
    });
}

#[test]
fn a_wall_that_cannot_be_built_is_no_failure_of_the_command() {
    walled(async |space: Space| {
        let sandbox = space.sandbox("one");
        std::os::unix::fs::symlink("/", sandbox.state_dir().join("etc")).unwrap();
        let error = sandbox
            .exec(Exec::argv(["true"]))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("cannot make `/etc` of sandbox `one`: it is not a folder"),
            "{error}"
        );
        assert_eq!(tree(sandbox.state_dir()), ["app/", "etc"]);
    });
}
