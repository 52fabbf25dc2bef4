//! The loop: what changed is taken in, what is dirty runs, and what changed meanwhile is taken in next.

mod culprits;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::debounce::{Debounce, Pace};
use super::events::Event;
use super::watcher::{Means, Watcher};
use crate::session::{
    Change, Changed, RunOptions, RunSummary, Session, SessionError, Told, Wish, Wisher,
};
use crate::system::System;
use culprits::Culprits;

/// What becomes of a run when something changes meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnBusy {
    /// It goes on to its end.
    Queue,
    /// Steps that became dirty are stopped, the others go on.
    #[default]
    Restart,
}

/// What the user asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Ask {
    /// Run now, as if something had changed.
    Rerun,
    /// Run every step now.
    Fresh,
    /// Run only tasks whose name contains this, from now on.
    Filter(String),
    /// Something that takes an idle session to answer.
    Answer(Question),
    /// End.
    Quit,
}

/// What a user wants to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// Why a step would run or not.
    Explain(String),
    /// What a step printed.
    Log(String),
}

/// What the loop is told.
pub enum Message {
    /// The watcher saw something.
    Event(Event),
    /// A key was pressed.
    Key(u8),
    /// A signal came that wishes something.
    Signal(Wish),
    /// The process was stopped and goes on.
    Continued,
    /// The run tells something.
    Told(Told),
    /// The run is over.
    Over(Box<Result<RunSummary, SessionError>>),
}

/// What is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watching {
    /// How many files.
    pub files: usize,
    /// In how many folders.
    pub folders: usize,
    /// How often is looked, where the system does not tell.
    pub polls: Option<Duration>,
    /// The text that the names of the tasks have in them, where only such tasks run.
    pub filter: Option<String>,
}

/// A moment of a watch.
pub enum Moment<'a> {
    /// Something the user should know, such as what cannot be watched.
    Notice(&'a str),
    /// Something happened and nothing differs.
    Unchanged,
    /// These files differ.
    Changed(&'a [String]),
    /// A run begins, the number of the revision given.
    Began(u64),
    /// The run tells something.
    Told(Told),
    /// Something changed while the run goes on, and the steps that it dirtied stop.
    Cut,
    /// A run is over.
    Ran(&'a mut RunSummary),
    /// There was no run.
    Refused(&'a SessionError),
    /// The run is asked to end: what runs goes on as far as this wish lets it.
    Ending(&'a Wish),
    /// These changed in each of several runs in a row, so nothing runs until something else changes.
    Held(&'a [String]),
    /// Everything is taken in, and the watch waits.
    Idle(&'a Watching),
    /// The process was stopped and goes on.
    Continued,
}

/// Whoever shows a watch.
pub trait Screen {
    /// Shows a moment.
    fn moment(&mut self, moment: Moment<'_>, session: Option<&mut Session>);
    /// Takes a key; returns what is asked for with it.
    fn key(&mut self, key: u8) -> Option<Ask>;
    /// Answers what only an idle session can.
    fn answer(&mut self, question: &Question, session: &mut Session, options: &RunOptions);
}

/// Where messages to a watch go.
pub type Mailbox = Sender<Message>;

/// A watch.
pub struct Watch {
    system: Arc<dyn System>,
    send: Sender<Message>,
    receive: Receiver<Message>,
    began: Instant,
    debounce: Debounce,
    watcher: Watcher,
    on_busy: OnBusy,
    /// Opens another session on the same, to find out what an edit dirties while the first one runs.
    open: Box<dyn Fn() -> Result<Session, SessionError>>,
    scout: Option<Session>,
    /// What changed and is not taken in yet.
    pending: Vec<Change>,
    culprits: Culprits,
    said: Vec<String>,
    /// The tasks that the command line names.
    tasks: Vec<String>,
    /// The text that the names of the tasks must have in them.
    filter: Option<String>,
    /// The task files that the last run was about; `None` where that was a fault.
    selected: Option<BTreeSet<String>>,
    /// Whether the session has looked at files since the last run.
    has_looked: bool,
    /// Whether the watcher tells nothing any more.
    is_blind: bool,
    is_over: bool,
}

/// Why a run begins.
struct Turn {
    fresh: bool,
}

/// What woke the loop.
enum Woken {
    Batch(Vec<Change>),
    /// All is told that happened before the watcher was asked, or nobody tells.
    CaughtUp,
    By(Message),
}

impl Watch {
    /// Returns a watch; `open` opens another session on the same.
    pub fn new(
        system: Arc<dyn System>,
        means: Means,
        pace: Pace,
        on_busy: OnBusy,
        open: impl Fn() -> Result<Session, SessionError> + 'static,
    ) -> Self {
        let (send, receive) = channel();
        let to_loop = send.clone();
        let watcher = Watcher::new(system.clone(), means, move |event| {
            // Without a loop nobody wants to know.
            let _ = to_loop.send(Message::Event(event));
        });
        Watch {
            culprits: Culprits::default(),
            system,
            send,
            receive,
            began: Instant::now(),
            debounce: Debounce::new(pace),
            watcher,
            on_busy,
            open: Box::new(open),
            scout: None,
            pending: Vec::new(),
            said: Vec::new(),
            tasks: Vec::new(),
            filter: None,
            selected: None,
            has_looked: false,
            is_blind: false,
            is_over: false,
        }
    }

    /// Returns where keys and signals go.
    pub fn mailbox(&self) -> Mailbox {
        self.send.clone()
    }

    /// Runs, watches and runs again until it is asked to end.
    pub fn go(&mut self, mut session: Session, mut options: RunOptions, screen: &mut dyn Screen) {
        // What came since the session looked is found by looking again: nobody told of it.
        self.watch(&mut session, &options, screen);
        session.forget_gone();
        session.apply_changes(&[Change::Rescan]);
        let turn = Some(Turn {
            fresh: options.fresh,
        });
        options.fresh = false;
        self.tasks.clone_from(&options.tasks);
        options.warm = true;
        self.turns(&mut session, options, turn, screen);
        if let Err(why) = session.end_warm() {
            screen.moment(Moment::Notice(&why), None);
        }
    }

    fn turns(
        &mut self,
        session: &mut Session,
        mut options: RunOptions,
        mut turn: Option<Turn>,
        screen: &mut dyn Screen,
    ) {
        while !self.is_over {
            if let Some(begun) = turn.take() {
                let mut now = options.clone();
                now.fresh = begun.fresh;
                self.run(session, &now, screen);
                // What is asked for by name is meant once.
                options.rerun.clear();
                options.ask_models_anew = false;
                if self.is_over {
                    return;
                }
                turn = self.after(session, &options, screen);
                if turn.is_none() {
                    self.idle(session, screen);
                }
                continue;
            }
            turn = match self.next() {
                Woken::Batch(changes) => {
                    self.note(changes);
                    self.take_in(session, &options, false, screen)
                }
                Woken::CaughtUp => None,
                Woken::By(message) => self.message(message, session, &mut options, screen),
            };
        }
    }

    fn message(
        &mut self,
        message: Message,
        session: &mut Session,
        options: &mut RunOptions,
        screen: &mut dyn Screen,
    ) -> Option<Turn> {
        let ask = match message {
            Message::Key(key) => screen.key(key)?,
            Message::Signal(_) => Ask::Quit,
            Message::Continued => {
                screen.moment(Moment::Continued, None);
                return None;
            }
            Message::Event(_) | Message::Told(_) | Message::Over(_) => return None,
        };
        self.culprits.forget();
        let turn = match ask {
            Ask::Quit => {
                self.is_over = true;
                None
            }
            Ask::Rerun => Some(Turn { fresh: false }),
            Ask::Fresh => Some(Turn { fresh: true }),
            Ask::Filter(text) => match self.filtered(&text, session) {
                Some(tasks) => {
                    options.tasks = tasks;
                    self.filter = Some(text).filter(|text| !text.is_empty());
                    Some(Turn { fresh: false })
                }
                None => {
                    let text = format!("no task has a name with `{text}` in it");
                    screen.moment(Moment::Notice(&text), None);
                    None
                }
            },
            Ask::Answer(question) => {
                screen.answer(&question, session, options);
                self.has_looked = true;
                None
            }
        };
        if turn.is_some() {
            let changes = std::mem::take(&mut self.pending);
            session.apply_changes(&changes);
        }
        turn
    }

    /// Returns the tasks whose name contains a text, those of the beginning for none.
    fn filtered(&self, text: &str, session: &mut Session) -> Option<Vec<String>> {
        if text.is_empty() {
            return Some(self.tasks.clone());
        }
        let mut names = session.task_names();
        names.retain(|name| name.contains(text));
        (!names.is_empty()).then_some(names)
    }

    /// Waits for what comes next; where something happened, until the batch is due.
    fn next(&mut self) -> Woken {
        loop {
            let now = self.began.elapsed();
            if let Some(batch) = self.debounce.batch(now) {
                return Woken::Batch(batch);
            }
            let message = match self.debounce.due() {
                Some(due) => self.receive.recv_timeout(due.saturating_sub(now)),
                None => self
                    .receive
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::Event(Event::Blind(why))) => {
                    let text = format!("nothing more can be watched: {why}");
                    self.said.push(text);
                    self.is_blind = true;
                    return Woken::CaughtUp;
                }
                Ok(Message::Event(Event::CaughtUp)) => return Woken::CaughtUp,
                Ok(Message::Event(event)) => self.debounce.take(event, self.began.elapsed()),
                Ok(message) => return Woken::By(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    unreachable!("bug: the loop holds a sender")
                }
            }
        }
    }

    /// Notes what changed, to be taken in when the session is free.
    fn note(&mut self, changes: Vec<Change>) {
        if let Some(scout) = &mut self.scout {
            scout.apply_changes(&changes);
        }
        self.pending.extend(changes);
    }

    /// Takes in what changed; returns a turn where something differs.
    fn take_in(
        &mut self,
        session: &mut Session,
        options: &RunOptions,
        meanwhile: bool,
        screen: &mut dyn Screen,
    ) -> Option<Turn> {
        let changes = std::mem::take(&mut self.pending);
        let changed = session.apply_changes(&changes);
        // What the session has seen meanwhile, no run has.
        let has_looked = std::mem::take(&mut self.has_looked);
        if !has_looked && (!changed.anything || self.is_elsewhere(&changed, session, options)) {
            // After a run it is told that the watch waits.
            if !meanwhile {
                screen.moment(Moment::Unchanged, None);
            }
            return None;
        }
        screen.moment(Moment::Changed(&changed.files), None);
        let held = self.culprits.count(&changes);
        if !held.is_empty() {
            let shown = |change: &Change| match change {
                Change::Path(path) => session.shown(path),
                Change::Rescan => "more files than can be told apart".to_owned(),
            };
            let held: Vec<String> = held.iter().map(shown).collect();
            self.watch(session, options, screen);
            screen.moment(Moment::Held(&held), None);
            return None;
        }
        Some(Turn { fresh: false })
    }

    /// Returns whether what changed is of tasks that are not selected, before and after.
    fn is_elsewhere(&self, changed: &Changed, session: &mut Session, options: &RunOptions) -> bool {
        let Some(selected) = &self.selected else {
            return false;
        };
        !changed.besides
            && changed.tasks.is_disjoint(selected)
            && session.selected(options).as_ref() == Some(selected)
    }

    /// Runs; whatever happens meanwhile is noted.
    fn run(&mut self, session: &mut Session, options: &RunOptions, screen: &mut dyn Screen) {
        let revision = self.culprits.begin();
        self.has_looked = false;
        self.selected = session.selected(options);
        screen.moment(Moment::Began(revision), Some(session));
        let (wisher, wish) = Wisher::new();
        let send = self.send.clone();
        let mut is_cut = false;
        let result = std::thread::scope(|scope| {
            let spawned = std::thread::Builder::new()
                .name("run".to_owned())
                .spawn_scoped(scope, || {
                    let tell = &mut |told| {
                        let _ = send.send(Message::Told(told));
                    };
                    let result = session.run(options, tell, wish);
                    let _ = send.send(Message::Over(Box::new(result)));
                });
            if let Err(error) = spawned {
                let text = format!("no thread for the run: {error}");
                return Err(SessionError::World(text));
            }
            let mut over = None;
            loop {
                let message = match self.next() {
                    Woken::Batch(changes) => {
                        self.note(changes);
                        if over.is_none()
                            && self.on_busy == OnBusy::Restart
                            && self.cut(options, &wisher)
                        {
                            is_cut = true;
                            screen.moment(Moment::Cut, None);
                        }
                        continue;
                    }
                    Woken::CaughtUp => match over.take() {
                        Some(result) => return result,
                        None => continue,
                    },
                    Woken::By(message) => message,
                };
                let asked = match message {
                    // What the run wrote may not be told yet.
                    Message::Over(result) if !self.is_blind && self.watcher.catch_up() => {
                        over = Some(*result);
                        None
                    }
                    Message::Over(result) => return *result,
                    Message::Told(told) => {
                        screen.moment(Moment::Told(told), None);
                        continue;
                    }
                    Message::Key(key) => screen.key(key),
                    Message::Signal(wish) => {
                        self.is_over = true;
                        screen.moment(Moment::Ending(&wish), None);
                        wisher.wish(wish);
                        None
                    }
                    Message::Continued => {
                        screen.moment(Moment::Continued, None);
                        None
                    }
                    Message::Event(_) => None,
                };
                match asked {
                    Some(Ask::Quit) => {
                        let wish = match std::mem::replace(&mut self.is_over, true) {
                            true => Wish::StopNow,
                            false => Wish::Stop,
                        };
                        screen.moment(Moment::Ending(&wish), None);
                        wisher.wish(wish);
                    }
                    Some(_) => {
                        let text = "a run goes on: ask again when it is over, or quit with q";
                        screen.moment(Moment::Notice(text), None);
                    }
                    None => {}
                }
            }
        });
        let within = self.pending.iter().cloned();
        let within = within.chain(self.debounce.gathered()).collect();
        self.culprits.end(is_cut, within);
        match result {
            Ok(mut summary) => screen.moment(Moment::Ran(&mut summary), Some(session)),
            Err(error) => screen.moment(Moment::Refused(&error), Some(session)),
        }
    }

    /// Stops the steps of the run that what is noted dirties; returns whether something differs.
    fn cut(&mut self, options: &RunOptions, wisher: &Wisher) -> bool {
        if self.scout.is_none() {
            self.scout = (self.open)().ok();
        }
        let keys = self
            .scout
            .as_mut()
            .and_then(|scout| scout.step_keys(options).ok());
        // With a fault nobody knows which steps are dirty; the run goes on, and the fault is shown after it.
        let Some(keys) = keys else { return false };
        wisher.wish(Wish::Keep(Arc::new(keys)));
        true
    }

    /// Takes in what changed while a run went on, and watches what it used.
    fn after(
        &mut self,
        session: &mut Session,
        options: &RunOptions,
        screen: &mut dyn Screen,
    ) -> Option<Turn> {
        let fresh = self.watch(session, options, screen);
        // Nobody told what happened there before it was watched.
        let fresh: Vec<Change> = fresh.into_iter().map(Change::Path).collect();
        self.culprits.also(&fresh);
        self.note(fresh);
        match self.pending.is_empty() {
            true => None,
            false => self.take_in(session, options, true, screen),
        }
    }

    /// Watches what the session depends on; returns what was not watched before.
    fn watch(
        &mut self,
        session: &mut Session,
        options: &RunOptions,
        screen: &mut dyn Screen,
    ) -> Vec<PathBuf> {
        // Where that cannot be told, what mattered before still does.
        let mut set = session.watch_set(options).ok();
        let unwatched = set.as_mut().map(|set| std::mem::take(&mut set.unwatched));
        let top: Vec<PathBuf> = self
            .system
            .canonical(session.workspace())
            .into_iter()
            .collect();
        let updated = self.watcher.update(set, &top);
        let unwatched = unwatched.unwrap_or_default();
        for text in updated.notices.into_iter().chain(unwatched) {
            if !self.said.contains(&text) {
                screen.moment(Moment::Notice(&text), None);
                self.said.push(text);
            }
        }
        updated.fresh
    }

    fn idle(&mut self, session: &mut Session, screen: &mut dyn Screen) {
        // It holds all that the session holds once more, and is opened again when it is needed.
        self.scout = None;
        let watching = Watching {
            files: self.watcher.files(),
            folders: self.watcher.folders(),
            polls: self.watcher.polls(),
            filter: self.filter.clone(),
        };
        screen.moment(Moment::Idle(&watching), Some(session));
    }
}
