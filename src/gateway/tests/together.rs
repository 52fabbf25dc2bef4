//! Steps that work on an env side by side, and what each of them is told.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::*;

/// An agent that takes its time and then writes.
struct Slow {
    env: Arc<dyn LiveEnv>,
}

impl Executor for Slow {
    fn instruct<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let arguments =
                json!({"sender": "sam@example.com", "subject": "From Sam", "content": "."});
            match say(&*self.env, "receive_email", arguments).await {
                Value::String(why) => Err(why),
                _ => Ok(()),
            }
        })
    }
}

fn sent(to: &str) -> Value {
    json!({"recipients": [to], "subject": "x", "content": "y"})
}

/// Returns a trigger that answers each mail, in a while.
fn answers(delay: Option<&str>) -> Value {
    let mut action = mail("Re: x");
    if let Some(delay) = delay {
        action["delay"] = json!(delay);
    }
    json!({"id": "answer", "when": {"type": "action", "tool": "send_email", "repeat": true}, "actions": [action]})
}

#[test]
fn who_is_done_waits_for_the_others_and_all_are_told_the_same() {
    let told = |one_first: bool, clock: bool, delay: Option<&'static str>| {
        let seen = Mutex::new(Value::Null);
        run(async {
            let world = World::new(ClockMode::Event);
            world.register(json!({"triggers": [answers(delay)]})).await;
            if clock {
                world.monday(1.0).await;
            }
            let (one, other) = (world.of_step("one"), world.of_step("other"));
            let World {
                gate,
                env,
                gateway: _gateway,
                _folder,
            } = world;
            drop(env);
            let is_over = AtomicBool::new(false);
            let work = async |env: EnvHandle, calls: usize, is_last: bool| {
                for _ in 0..calls {
                    say(&env, "send_email", sent("dana@example.com")).await;
                    tokio::task::yield_now().await;
                }
                is_over.fetch_or(is_last, Ordering::Relaxed);
                let state = env.settle().await;
                assert!(is_over.load(Ordering::Relaxed), "it is too early to tell");
                state
            };
            let states = match one_first {
                true => {
                    let (a, b) = tokio::join!(work(one, 1, false), work(other, 3, true));
                    [a, b]
                }
                false => {
                    let (b, a) = tokio::join!(work(other, 3, true), work(one, 1, false));
                    [a, b]
                }
            };
            assert_eq!(states[0], states[1]);
            assert_eq!(states[0]["capture_is_final"], json!(delay.is_none()));
            let kept = String::from_utf8(gate.snapshot().await.unwrap()).unwrap();
            // The first line holds the triggers and the clock; what is in the mailbox hangs on who was first.
            let line = kept.lines().next().unwrap().to_owned();
            *locked(&seen) = json!([states[0], line]);
        });
        seen.into_inner().unwrap()
    };
    let fires = |told: &Value| told[0]["triggers"]["answer"]["fire_count"].clone();
    for clock in [true, false] {
        let first = told(true, clock, None);
        assert_eq!(fires(&first), json!(4));
        assert_eq!(first, told(false, clock, None), "whoever is first");
    }
    let later = told(true, true, Some("PT2H"));
    assert_eq!(
        fires(&later),
        json!(1),
        "the next answer takes two hours from then on"
    );
    let never = told(true, false, Some("PT2H"));
    assert_eq!(fires(&never), json!(0), "no two hours pass without a clock");
}

#[test]
fn a_call_is_answered_when_what_it_set_off_is_done_by_whomever() {
    run(async {
        let world = World::new(ClockMode::Real);
        let asks = json!({"id": "ask", "when": {"type": "action", "tool": "send_email", "repeat": true}, "actions": [{"type": "nl", "instruction": "Answer."}]});
        let executor = json!({"agent": "sam", "role": "world"});
        let registration = json!({"executor": executor, "triggers": [asks]});
        assert_eq!(world.register(registration).await, "ask");
        let tools = ["receive_email".to_owned()];
        world.env.set_access("world", &tools, true).unwrap();
        let count = || world.state()["triggers"][0]["fire_count"].clone();
        let counts = Mutex::new(Vec::new());
        let work = async |step: &str| {
            let env = world.of_step(step);
            let sam = Slow {
                env: env.in_role("world"),
            };
            let _there = env.attend("sam", Arc::new(sam));
            say(&env, "send_email", sent("dana@example.com")).await;
            locked(&counts).push((step.to_owned(), count()));
            tokio::task::yield_now().await;
        };
        tokio::join!(work("one"), work("other"), work("third"));
        let counts = counts.into_inner().unwrap();
        assert_eq!(counts.len(), 3);
        assert_eq!(count(), json!(3));
        for (at, (step, count)) in counts.iter().enumerate() {
            assert!(count.as_u64() > Some(at as u64), "{step}: {count}");
        }
        assert_eq!(world.subjects().await.lines().count(), 3);
    });
}

/// Others that come until it is said that they do not.
#[derive(Default)]
struct Others {
    stay_away: AtomicBool,
    changed: Notify,
    rests: AtomicUsize,
}

impl Company for Others {
    fn may_come(&self, resting: &[String]) -> bool {
        assert_eq!(resting, ["one"]);
        !self.stay_away.load(Ordering::SeqCst)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn rests(&self) {
        self.rests.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn nobody_is_told_before_those_who_may_come_are_there() {
    run(async {
        let world = World::new(ClockMode::Event);
        world.register(json!({"triggers": [answers(None)]})).await;
        world.monday(1.0).await;
        let others = Arc::new(Others::default());
        let caller = Caller::new("one", "default")
            .passing_time(true)
            .in_company(Some(others.clone()));
        let one = EnvHandle::new(world.gate.clone(), world.gateway.clone(), caller);
        drop(world.env);
        let here = async |work: &mut std::pin::Pin<&mut dyn Future<Output = Value>>| {
            for _ in 0..20 {
                let polled =
                    std::future::poll_fn(|cx| std::task::Poll::Ready(work.as_mut().poll(cx)));
                assert!(polled.await.is_pending(), "somebody is still to come");
            }
            assert!(others.rests.swap(0, Ordering::SeqCst) > 0);
            others.stay_away.store(true, Ordering::SeqCst);
            others.changed.notify_waiters();
            let told = work.await;
            others.stay_away.store(false, Ordering::SeqCst);
            told
        };
        let mut waits = std::pin::pin!(say(&one, "wait_until", json!({"duration": "PT1H"})));
        let waited = here(&mut (waits.as_mut() as _)).await;
        assert_eq!(waited["current_time"], "2026-03-02T10:00:00Z");
        let mut settles = std::pin::pin!(one.settle());
        let settled = here(&mut (settles.as_mut() as _)).await;
        assert_eq!(settled["statuses"], json!({"answer": "armed"}));
    });
}
