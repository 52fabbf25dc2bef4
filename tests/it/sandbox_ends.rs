//! How commands and sandboxes end, and that nothing is left of them.

use std::time::Duration;

use aebuild::provider::local::{LocalSandboxes, SandboxSpec, Wanted};
use aebuild::provider::process::Patience;
use aebuild::step::sandbox::*;

use crate::space::*;

#[test]
fn a_command_that_ignores_term_is_killed_at_its_time_limit() {
    each(async |space: Space| {
        let id = format!("deaf-{}", std::process::id());
        let sandbox = space.sandbox(&id);
        let script = "trap '' TERM; echo started; (trap '' TERM; while :; do sleep 5; done) & while :; do sleep 5; done";
        let exited = sandbox
            .exec(Exec::bash(script).timeout(Duration::from_millis(400)))
            .await
            .unwrap();
        assert_eq!(
            (exited.how, exited.stdout.text().trim_end()),
            (How::TimedOut, "started")
        );
        assert_eq!(alive(&id, ""), 0);
    });
}

#[test]
fn a_command_may_clean_up_when_asked_to_end() {
    each(async |space: Space| {
        let space = Space {
            sandboxes: space.sandboxes.with_patience(Patience::default()),
            ..space
        };
        let sandbox = space.sandbox("one");
        let script = "trap 'echo bye > /app/bye; echo bye; exit 3' TERM; echo started; while :; do sleep 0.01; done";
        let exited = sandbox
            .exec(Exec::bash(script).timeout(Duration::from_millis(400)))
            .await
            .unwrap();
        assert_eq!(
            (exited.how, exited.stdout.text().as_ref()),
            (How::TimedOut, "started\nbye\n")
        );
        assert_eq!(sandbox.read("/app/bye", 9).unwrap().unwrap(), b"bye\n");
    });
}

#[test]
fn who_leaves_the_group_is_found_at_the_time_limit() {
    each(async |space: Space| {
        let id = format!("escape-{}", std::process::id());
        let sandbox = space.sandbox(&id);
        let script =
            "setsid sleep inf & (setsid setsid bash -c 'sleep inf & sleep inf' &) ; sleep inf";
        let exited = sandbox
            .exec(Exec::bash(script).timeout(Duration::from_millis(400)))
            .await
            .unwrap();
        assert_eq!((exited.how, alive(&id, "")), (How::TimedOut, 0));
    });
}

#[test]
fn a_dropped_command_is_stopped_and_the_sandbox_settles() {
    each(async |space: Space| {
        let id = format!("dropped-{}", std::process::id());
        let sandbox = space.sandbox(&id);
        let running = tokio::spawn({
            let sandbox = sandbox.clone();
            async move {
                sandbox
                    .exec(Exec::bash(
                        "trap '' TERM; echo > /app/ready; setsid sleep inf & sleep inf",
                    ))
                    .await
                    .map(drop)
            }
        });
        until(|| sandbox.state_dir().join("app/ready").exists()).await;
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        sandbox.settled().await;
        assert_eq!(alive(&id, ""), 0);
        assert_eq!(tree(sandbox.state_dir()), ["app/", "app/ready"]);
    });
}

#[test]
fn a_background_child_does_not_hold_the_command_open() {
    each(async |space: Space| {
        let id = format!("background-{}", std::process::id());
        let sandbox = space.sandbox(&id);
        assert_eq!(bash(&sandbox, "sleep inf & echo done").await, "done");
        sandbox.destroy().await.unwrap();
        assert_eq!(alive(&id, ""), 0);
    });
}

#[test]
fn destroying_ends_commands_and_escapees_and_removes_the_folder() {
    each(async |space: Space| {
        let id = format!("destroyed-{}", std::process::id());
        let sandbox = space.sandbox(&id);
        bash(&sandbox, "setsid bash -c \"trap '' TERM; while :; do sleep 1; done\" >/dev/null 2>&1 & mkdir locked; touch locked/x; chmod 0 locked").await;
        let running = tokio::spawn({
            let sandbox = sandbox.clone();
            async move {
                sandbox
                    .exec(Exec::bash("echo > /app/ready; sleep inf"))
                    .await
                    .unwrap()
                    .how
            }
        });
        until(|| sandbox.state_dir().join("app/ready").exists()).await;
        sandbox.destroy().await.unwrap();
        assert_eq!(running.await.unwrap(), How::Cancelled);
        assert_eq!((alive(&id, ""), sandbox.state_dir().exists()), (0, false));
        assert_eq!(
            sandbox
                .exec(Exec::bash("true"))
                .await
                .unwrap_err()
                .to_string(),
            format!("sandbox `{id}` was destroyed")
        );
        sandbox.destroy().await.unwrap();
        let run = space.live.path().join("live/run");
        space.sandboxes.close().await.unwrap();
        assert!(!run.exists());
    });
}

/// Not a test of its own: the run that is killed in the story below.
#[test]
fn orphan_maker() {
    let Ok(live) = std::env::var("TEST_ORPHAN_LIVE") else {
        return;
    };
    let wanted = if std::env::var("TEST_ORPHAN_WALL").is_ok() {
        Wanted::Bubblewrap
    } else {
        Wanted::None
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let sandboxes = LocalSandboxes::new(live.into(), "orphan", wanted).unwrap();
    let sandbox = sandboxes
        .create(SandboxSpec {
            id: std::env::var("TEST_ORPHAN_ID").unwrap(),
            ..Default::default()
        })
        .unwrap();
    runtime
        .block_on(sandbox.exec(Exec::bash(
            "setsid sleep inf & echo > /app/ready; sleep inf",
        )))
        .unwrap();
}

#[test]
fn the_orphans_of_a_killed_run_are_reaped_once_and_a_live_run_is_left_alone() {
    each(async |space: Space| {
        let id = format!("orphan-{}", std::process::id());
        let live = space.live.path().join("live");
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "sandbox_ends::orphan_maker", "--nocapture"])
            .env("TEST_ORPHAN_LIVE", &live)
            .env("TEST_ORPHAN_ID", &id);
        if space.sandboxes.isolation() == Isolation::Bubblewrap {
            command.env("TEST_ORPHAN_WALL", "1");
        }
        let mut run = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        let root = live.join("orphan").join(&id).join("root");
        until(|| root.join("app/ready").exists() && alive(&id, "sleep inf") >= 2).await;
        assert_eq!(
            LocalSandboxes::reap_orphans(&live).unwrap().len(),
            0,
            "both runs live"
        );
        run.kill().unwrap();
        run.wait().unwrap();
        let reapers: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn({
                    let live = live.clone();
                    move || LocalSandboxes::reap_orphans(&live).unwrap()
                })
            })
            .collect();
        let reaped: Vec<_> = reapers
            .into_iter()
            .flat_map(|reaper| reaper.join().unwrap())
            .collect();
        let whole: Vec<_> = reaped
            .iter()
            .filter(|reaped| reaped.holder.is_some())
            .collect();
        assert_eq!(whole.len(), 1, "{reaped:?}");
        assert_eq!(
            (
                whole[0].run_id.as_str(),
                whole[0].holder,
                &whole[0].sandboxes[..]
            ),
            ("orphan", Some(run.id()), &[id.clone()][..])
        );
        assert!(
            reaped.iter().all(|reaped| reaped.left.is_none()),
            "{reaped:?}"
        );
        if space.sandboxes.isolation() == Isolation::None {
            assert!(whole[0].killed.len() >= 2, "{reaped:?}");
        }
        until(|| alive(&id, "") == 0).await;
        assert!(!live.join("orphan").exists() && live.join("run/lease").exists());
    });
}

#[test]
fn a_command_dropped_at_any_moment_leaves_nothing() {
    each(async |space: Space| {
        let id = format!("any-moment-{}", std::process::id());
        let sandbox = space.sandbox(&id);
        for yields in (0..400).step_by(10) {
            let running = tokio::spawn({
                let sandbox = sandbox.clone();
                async move { sandbox.exec(Exec::bash("sleep inf")).await.map(drop) }
            });
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            running.abort();
            let _ = running.await;
        }
        sandbox.settled().await;
        assert_eq!(alive(&id, ""), 0);
        assert_eq!(tree(sandbox.state_dir()), ["app/"]);
    });
}

#[test]
fn a_runtime_that_ends_takes_its_commands_along() {
    let best = if bubblewrap_works() {
        Wanted::Bubblewrap
    } else {
        Wanted::None
    };
    for (n, wanted) in [Wanted::None, best].into_iter().enumerate() {
        let space = Space::new(wanted);
        let id = format!("runtime-{n}-{}", std::process::id());
        let sandbox = space.sandbox(&id);
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
        };
        let ready = sandbox.state_dir().join("app/ready");
        let first = runtime();
        first.block_on(async {
            let sandbox = sandbox.clone();
            let script = "echo > /app/ready; sleep inf & sleep inf";
            tokio::spawn(async move { sandbox.exec(Exec::bash(script)).await.map(drop) });
            until(|| ready.exists()).await;
        });
        drop(first);
        while alive(&id, "") > 0 {
            std::thread::yield_now();
        }
        // Another runtime of the same process can run commands in the same sandbox.
        assert_eq!(runtime().block_on(bash(&sandbox, "ls /app")), "ready");
    }
}

#[test]
fn runs_of_one_name_in_two_places_do_not_touch_each_other() {
    each(async |space: Space| {
        let other = Space::new(if space.sandboxes.isolation() == Isolation::None {
            Wanted::None
        } else {
            Wanted::Bubblewrap
        });
        let (here, there) = (space.sandbox("same"), other.sandbox("same"));
        let running = tokio::spawn({
            let there = there.clone();
            async move {
                there
                    .exec(Exec::bash("echo > /app/ready; read; echo survived").stdin("\n"))
                    .await
                    .unwrap()
            }
        });
        until(|| there.state_dir().join("app/ready").exists()).await;
        here.destroy().await.unwrap();
        space.sandboxes.kill_now();
        assert_eq!(running.await.unwrap().stdout.text(), "survived\n");
    });
}
