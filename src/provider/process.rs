//! Runs one child process to its end.
//!
//! Knows pipes, process groups and signals; not sandboxes, paths or environments. A child ends in one of four ways: by
//! itself, at its time limit, because its owner said so, or because the future that ran it was dropped. In the last three
//! everything it started is asked to end, given some time, and killed.

use std::any::Any;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::reap::{self, Proc};
use crate::step::env::LastLines;
use crate::step::sandbox::{Captured, Exited, How};
use crate::system::locked;

/// How long a command's processes are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Time between asking processes to end and killing them.
    pub grace: Duration,
    /// Time for which output is still read after the command ended, where something else holds its pipes open.
    pub linger: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(5),
            linger: Duration::from_secs(1),
        }
    }
}

/// How the processes of a job hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The child leads a process group, which what it starts may leave.
    Group,
    /// The child is a wall (bubblewrap): when it dies, the kernel kills all behind it.
    Walled,
}

/// One child to run.
pub(crate) struct Job {
    pub(crate) command: Command,
    pub(crate) shape: Shape,
    pub(crate) stdin: Vec<u8>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) keep: usize,
    pub(crate) patience: Patience,
    /// Becomes true when the owner wants the job to end.
    pub(crate) cancelled: watch::Receiver<bool>,
    /// Called when the job was stopped, with the start time of the child: kills what escaped.
    pub(crate) sweep: Box<dyn FnOnce(u64) + Send>,
    /// Dropped when nothing of the job runs any more, also when that is after the future was dropped.
    pub(crate) ticket: Ticket,
}

/// Something that is dropped when a job is over.
pub(crate) type Ticket = Box<dyn Any + Send>;

/// Runs a job; the error is that of starting it.
pub(crate) async fn run(job: Job) -> io::Result<Exited> {
    let Job {
        mut command,
        shape,
        stdin,
        timeout,
        keep,
        patience,
        mut cancelled,
        sweep,
        ticket,
    } = job;
    command.stdin(if stdin.is_empty() {
        Stdio::null()
    } else {
        Stdio::piped()
    });
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let started = Instant::now();
    let guard = guarded(shape, patience, sweep, ticket);
    let mut guard = match shape {
        Shape::Group => guard(command.spawn()?),
        Shape::Walled => spawn_from_lasting_thread(command, Box::new(guard)).await?,
    };
    let family = guard.0.as_mut().expect("bug: the guard was just filled");
    let child = &mut family.child;
    let (input, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());

    let (mut out, mut err) = (Tail::new(keep), Tail::new(keep));
    let pumps = async {
        tokio::join!(
            feed(input, stdin),
            drain(stdout, &mut out),
            drain(stderr, &mut err)
        )
    };
    let ending = async {
        let limit = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let how = tokio::select! {
            biased;
            status = family.child.wait() => {
                family.ended = true;
                return status.map(|status| (how(status), started.elapsed()));
            }
            _ = cancelled.wait_for(|cancelled| *cancelled) => How::Cancelled,
            () = limit => How::TimedOut,
        };
        family.stop().await;
        Ok((how, started.elapsed()))
    };
    let (how, duration) = {
        tokio::pin!(pumps, ending);
        let mut is_drained = false;
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut ending => break ended?,
                _ = &mut pumps, if !is_drained => is_drained = true,
            }
        };
        if !is_drained {
            // A time-out here is no fault: something the command left behind holds the pipes open.
            let _ = tokio::time::timeout(patience.linger, pumps).await;
        }
        ended
    };
    Ok(Exited {
        how,
        stdout: out.captured(),
        stderr: err.captured(),
        duration,
    })
}

/// A program that serves until it is stopped.
pub(crate) struct Serving {
    pipes: Option<(ChildStdin, ChildStdout)>,
    /// The last lines that it wrote, of its standard output where nobody else reads that.
    pub(crate) said: Arc<Mutex<LastLines>>,
    /// How it ended; `None` while it runs.
    pub(crate) ended: watch::Receiver<Option<How>>,
    stop: watch::Sender<bool>,
}

impl Serving {
    /// Takes what it writes and what it reads.
    pub(crate) fn pipes(&mut self) -> (ChildStdout, ChildStdin) {
        let (stdin, stdout) = self.pipes.take().expect("bug: the pipes were taken twice");
        (stdout, stdin)
    }

    /// Keeps the last lines of what it writes; it reads nothing. What is returned becomes true when it writes no more.
    pub(crate) fn drain(&mut self) -> watch::Receiver<bool> {
        let (mut stdout, stdin) = self.pipes();
        drop(stdin);
        let said = self.said.clone();
        let (done, is_done) = watch::channel(false);
        tokio::spawn(async move {
            let mut chunk = vec![0; 8 << 10];
            while let Ok(n @ 1..) = stdout.read(&mut chunk).await {
                locked(&said).push(&chunk[..n]);
            }
            done.send_replace(true);
        });
        is_done
    }

    /// Asks the program to end, and waits until nothing of it runs.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        let mut ended = self.ended.clone();
        // An error means that who would say so is gone with the program.
        let _ = ended.wait_for(Option::is_some).await;
    }
}

/// Starts a job that serves; the error is that of starting it. It ends when its owner says so, by itself, or with what is
/// returned here.
pub(crate) async fn serve(job: Job) -> io::Result<Serving> {
    let Job {
        mut command,
        shape,
        patience,
        mut cancelled,
        sweep,
        ticket,
        ..
    } = job;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let guard = guarded(shape, patience, sweep, ticket);
    let mut guard = spawn_from_lasting_thread(command, Box::new(guard)).await?;
    let family = guard.0.as_mut().expect("bug: the guard was just filled");
    let child = &mut family.child;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(mut stderr)) = pipes else {
        return Err(io::Error::other("bug: a pipe of the child is missing"));
    };
    let said: Arc<Mutex<LastLines>> = Arc::default();
    let (stop, mut stopped) = watch::channel(false);
    let (end, ended) = watch::channel(None);
    let lines = said.clone();
    tokio::spawn(async move {
        let family = guard.0.as_mut().expect("bug: the guard was just filled");
        let drained = async {
            let mut chunk = vec![0; 8 << 10];
            while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
                locked(&lines).push(&chunk[..n]);
            }
        };
        let ending = async {
            let how = tokio::select! {
                biased;
                status = family.child.wait() => {
                    family.ended = true;
                    return status.map_or(How::Cancelled, how);
                }
                _ = cancelled.wait_for(|cancelled| *cancelled) => How::Cancelled,
                // An error means that nobody holds the program any more.
                _ = stopped.wait_for(|stopped| *stopped) => How::Cancelled,
            };
            family.stop().await;
            how
        };
        let how = {
            tokio::pin!(drained, ending);
            let mut is_drained = false;
            let how = loop {
                tokio::select! {
                    biased;
                    how = &mut ending => break how,
                    () = &mut drained, if !is_drained => is_drained = true,
                }
            };
            if !is_drained {
                // A time-out here is no fault: something the program left behind holds the pipe open.
                let _ = tokio::time::timeout(patience.linger, drained).await;
            }
            how
        };
        drop(guard);
        end.send_replace(Some(how));
    });
    Ok(Serving {
        pipes: Some((stdin, stdout)),
        said,
        ended,
        stop,
    })
}

fn guarded(
    shape: Shape,
    patience: Patience,
    sweep: Box<dyn FnOnce(u64) + Send>,
    ticket: Ticket,
) -> impl FnOnce(Child) -> Guard + Send + 'static {
    move |child: Child| {
        let pid = pid_of(&child).expect("bug: a child just started has no pid");
        Guard(Some(Family {
            child,
            pid,
            shape,
            patience,
            sweep: Some(sweep),
            ended: false,
            _ticket: ticket,
        }))
    }
}

fn how(status: ExitStatus) -> How {
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Code(code),
        (None, signal) => How::Signal(signal.unwrap_or(0)),
    }
}

async fn feed(input: Option<ChildStdin>, bytes: Vec<u8>) {
    if let Some(mut input) = input {
        // A command need not read what it is given.
        let _ = input.write_all(&bytes).await;
    }
}

async fn drain(pipe: Option<impl AsyncRead + Unpin>, tail: &mut Tail) {
    let Some(mut pipe) = pipe else { return };
    let mut chunk = vec![0; 32 << 10];
    while let Ok(n @ 1..) = pipe.read(&mut chunk).await {
        tail.push(&chunk[..n]);
    }
}

/// The last bytes of a stream: a ring once it is full.
#[derive(Debug)]
struct Tail {
    ring: Vec<u8>,
    keep: usize,
    /// Where the oldest byte is once the ring is full.
    oldest: usize,
    dropped: u64,
}

impl Tail {
    fn new(keep: usize) -> Self {
        Self {
            ring: Vec::new(),
            keep,
            oldest: 0,
            dropped: 0,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let skipped = bytes.len().saturating_sub(self.keep);
        let (skip, bytes) = bytes.split_at(skipped);
        self.dropped += skip.len() as u64;
        let (fill, bytes) = bytes.split_at(bytes.len().min(self.keep - self.ring.len()));
        self.ring.extend_from_slice(fill);
        self.dropped += bytes.len() as u64;
        let (to_end, wrapped) = bytes.split_at(bytes.len().min(self.keep - self.oldest));
        self.ring[self.oldest..self.oldest + to_end.len()].copy_from_slice(to_end);
        self.ring[..wrapped.len()].copy_from_slice(wrapped);
        if self.keep > 0 {
            self.oldest = (self.oldest + bytes.len()) % self.keep;
        }
    }

    fn captured(mut self) -> Captured {
        self.ring.rotate_left(self.oldest);
        Captured {
            bytes: self.ring,
            dropped: self.dropped,
        }
    }
}

/// A child and everything it started.
struct Family {
    child: Child,
    pid: Pid,
    shape: Shape,
    patience: Patience,
    sweep: Option<Box<dyn FnOnce(u64) + Send>>,
    ended: bool,
    _ticket: Ticket,
}

impl Family {
    /// Asks all to end, waits, and kills what is left.
    async fn stop(&mut self) {
        let seen = reap::processes();
        let started = seen
            .iter()
            .find(|proc| proc.pid == self.pid)
            .map_or(0, |proc| proc.start);
        let born = reap::descendants(&seen, self.pid);
        // Behind a wall the first process is the wall's own and dies of SIGKILL only; what it holds is asked to end.
        let asked: Vec<&Proc> = match self.shape {
            Shape::Group => born.iter().filter(|proc| proc.group != self.pid).collect(),
            Shape::Walled => born.iter().filter(|proc| proc.parent != self.pid).collect(),
        };
        // A wall that is still being built holds nothing yet.
        let grace = if self.shape == Shape::Walled && asked.is_empty() {
            Duration::ZERO
        } else {
            self.patience.grace
        };
        for proc in asked {
            reap::signal(proc, Signal::TERM);
        }
        if self.shape == Shape::Group {
            // An error means that nobody is left to ask.
            let _ = kill_process_group(self.pid, Signal::TERM);
        }
        let _ = tokio::time::timeout(grace, async {
            let _ = self.child.wait().await;
            while self.shape == Shape::Group && has_members(self.pid) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        self.kill();
        let _ = self.child.wait().await;
        for proc in &born {
            reap::signal(proc, Signal::KILL);
        }
        if let Some(sweep) = self.sweep.take() {
            sweep(started);
        }
        self.ended = true;
    }

    /// Kills at once what hangs together with the child.
    fn kill(&mut self) {
        match self.shape {
            // An error means that nobody is left.
            Shape::Group => {
                let _ = kill_process_group(self.pid, Signal::KILL);
            }
            // A wall that was waited for has no id any more, and nothing behind it; its number may be another's.
            Shape::Walled if self.child.id().is_none() => {}
            // While a wall is being built its second process, on which all behind it depend, is not yet bound to die with
            // the first: it is killed by itself, known as a child or still in the group.
            Shape::Walled => {
                let seen = reap::processes();
                let _ = kill_process_group(self.pid, Signal::KILL);
                for proc in seen.iter().filter(|proc| proc.parent == self.pid) {
                    reap::signal(proc, Signal::KILL);
                }
            }
        }
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

impl Drop for Family {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
        }
    }
}

/// Tells whether a process that still runs is in the group.
fn has_members(group: Pid) -> bool {
    test_kill_process_group(group).is_ok()
        && reap::processes()
            .iter()
            .any(|proc| proc.group == group && !proc.is_zombie)
}

/// Stops the family in the background when the future that waits for it is dropped.
struct Guard(Option<Family>);

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(mut family) = self.0.take().filter(|family| !family.ended) else {
            return;
        };
        // Without a runtime there is nobody to wait: dropping the family kills it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { family.stop().await });
        }
    }
}

/// Starts a child from a thread that lives as long as this process.
///
/// A wall dies with its parent, and for the kernel the parent is the *thread* that started it; a runtime's thread may end
/// long before the process does.
async fn spawn_from_lasting_thread(
    command: Command,
    guard: Box<dyn FnOnce(Child) -> Guard + Send>,
) -> io::Result<Guard> {
    static ORDERS: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        let spawn = move || {
            for Order {
                mut command,
                guard,
                runtime,
                answer,
            } in orders
            {
                if answer.is_closed() {
                    continue;
                }
                let _entered = runtime.enter();
                // When nobody waits for the answer any more the guard stops the child, here or where it was lost.
                let _ = answer.send(command.spawn().map(guard));
            }
        };
        let thread = std::thread::Builder::new().name("aebuild-spawn".into());
        thread
            .spawn(spawn)
            .expect("bug: no thread could be started");
        sender
    });
    let gone = || io::Error::other("the thread that starts processes is gone");
    let (answer, child) = oneshot::channel();
    orders
        .send(Order {
            command,
            guard,
            runtime: Handle::current(),
            answer,
        })
        .map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

/// A child to start.
struct Order {
    command: Command,
    guard: Box<dyn FnOnce(Child) -> Guard + Send>,
    runtime: Handle,
    answer: oneshot::Sender<io::Result<Guard>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_keeps_the_end_and_counts_the_rest() {
        let text: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for keep in [0, 1, 7, 64, 999, 1000, 2000] {
            for chunk in [1, 3, 7, 64, 65, 1000] {
                let mut tail = Tail::new(keep);
                text.chunks(chunk).for_each(|chunk| tail.push(chunk));
                let kept = text.len().min(keep);
                let expected = Captured {
                    bytes: text[text.len() - kept..].to_vec(),
                    dropped: (text.len() - kept) as u64,
                };
                assert_eq!(tail.captured(), expected, "keep {keep}, chunks of {chunk}");
            }
        }
    }
}
