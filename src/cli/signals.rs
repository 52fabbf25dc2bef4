//! Ctrl-C and its relatives, turned into wishes.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::ExitStatus;
use crate::session::Wish;
use crate::system::terminal;

/// A file grew beyond its limit. Listening to it turns the signal into an error of the write.
const SIGXFSZ: i32 = 25;

/// The process was stopped and goes on.
const SIGCONT: i32 = 18;

/// Listens for signals while a run goes on.
pub(super) struct Signals {
    /// What the user wishes.
    pub(super) wish: watch::Receiver<Wish>,
    first: Arc<AtomicU8>,
}

impl Signals {
    /// Starts to listen, and says what becomes of each signal.
    pub(super) fn listen() -> std::io::Result<Self> {
        Self::start(say)
    }

    /// Starts to listen where somebody else says what becomes of a signal.
    pub(super) fn listen_quietly() -> std::io::Result<Self> {
        Self::start(|_| ())
    }

    fn start(say: fn(&str)) -> std::io::Result<Self> {
        let (send, wish) = watch::channel(Wish::GoOn);
        let first = Arc::new(AtomicU8::new(0));
        let seen = first.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let guard = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let hang_up = signal(SignalKind::hangup())?;
        let too_large = signal(SignalKind::from_raw(SIGXFSZ))?;
        drop(guard);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                runtime.block_on(heed(
                    interrupt,
                    [terminate, hang_up],
                    too_large,
                    &send,
                    (&seen, say),
                ));
            })?;
        Ok(Signals { wish, first })
    }

    /// Returns the exit status of a run that a signal stopped.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        match self.first.load(Ordering::SeqCst) {
            0 => None,
            143 => Some(ExitStatus::Terminated),
            _ => Some(ExitStatus::Interrupted),
        }
    }

    /// Tells of each wish from now on, on a thread of its own.
    pub(super) fn forward(&self, tell: impl Fn(Wish) + Send + 'static) -> std::io::Result<()> {
        let mut wish = self.wish.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        std::thread::Builder::new()
            .name("wishes".to_owned())
            .spawn(move || {
                while runtime.block_on(wish.changed()).is_ok() {
                    tell(wish.borrow_and_update().clone());
                }
            })?;
        Ok(())
    }

    /// Tells, on a thread of its own, of each time that the process was stopped and goes on.
    pub(super) fn continued(tell: impl Fn() + Send + 'static) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let guard = runtime.enter();
        let mut goes_on = signal(SignalKind::from_raw(SIGCONT))?;
        drop(guard);
        std::thread::Builder::new()
            .name("continued".to_owned())
            .spawn(move || {
                while runtime.block_on(goes_on.recv()).is_some() {
                    tell();
                }
            })?;
        Ok(())
    }

    /// Waits for a signal.
    pub(super) fn wait(&mut self) {
        while *self.wish.borrow_and_update() == Wish::GoOn {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let Ok(runtime) = runtime else { return };
            if runtime.block_on(self.wish.changed()).is_err() {
                return;
            }
        }
    }
}

async fn heed(
    mut interrupt: Signal,
    [mut terminate, mut hang_up]: [Signal; 2],
    mut too_large: Signal,
    send: &watch::Sender<Wish>,
    (first, say): (&AtomicU8, fn(&str)),
) {
    loop {
        let status = tokio::select! {
            _ = interrupt.recv() => ExitStatus::Interrupted,
            _ = terminate.recv() => ExitStatus::Terminated,
            _ = hang_up.recv() => ExitStatus::Terminated,
            _ = too_large.recv() => continue,
        };
        match first.compare_exchange(0, status as u8, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                say("Ending what runs (Ctrl-C again to stop now)");
                send.send_replace(Wish::Stop);
            }
            Err(_) if *send.borrow() == Wish::Stop => {
                say("Stopping now");
                send.send_replace(Wish::StopNow);
            }
            // Whoever asks three times means it.
            Err(first) => {
                terminal::restore();
                std::process::exit(i32::from(first))
            }
        }
    }
}

/// Says a line on standard error, from whichever thread.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "\r{line}");
}
