//! `aebuild watch`: run again whenever something changes.

mod keys;
mod screen;

use std::time::Duration;

use super::select::{Choice, Limits, Selection, Variation};
use super::signals::Signals;
use super::{ExitStatus, Face, Session, SessionError, SessionOptions};
use crate::session::Wish;
use crate::system::terminal;
use crate::watch::{Means, Message, OnBusy, Pace, Watch};
use screen::Terminal;

/// Run tasks, and run again what is dirty whenever something changes on which a result depends
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    variation: Variation,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    limits: Limits,
    /// When something changes during a run: `restart` stops the steps that became dirty and lets the others go on,
    /// `queue` lets the run go on to its end
    #[arg(long, value_name = "HOW", default_value = "restart", value_parser = ["queue", "restart"])]
    on_busy: String,
    /// Look at the files every so many seconds, where the system does not tell of changes (network file systems, some
    /// containers, /mnt of WSL)
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    poll: Option<Duration>,
    /// Do not clear the screen before a run
    #[arg(long)]
    no_clear: bool,
    /// Write each event as a line of JSON to standard output
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let most = 3600.0;
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=most).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a number of seconds from 0.01 to 3600".to_owned()),
    }
}

/// Runs the command.
pub(super) fn run(mut args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let mut options = args.selection.options();
    args.variation.add_to(&mut options, face)?;
    args.choice.add_to(&mut options);
    let no_cache = args.limits.add_to(&mut options);
    let cannot = |error: std::io::Error| {
        SessionError::World(format!("signals and keys cannot be heard: {error}"))
    };
    let signals = Signals::listen_quietly().map_err(cannot)?;
    let paths = args.selection.paths;
    let session = face.open(paths.clone(), no_cache)?;
    let on_busy = match args.on_busy.as_str() {
        "queue" => OnBusy::Queue,
        _ => OnBusy::Restart,
    };
    let means = Means {
        poll: args.poll,
        ..Means::default()
    };
    let (system, registry) = (face.system.clone(), face.registry);
    // It only looks, so it needs no cache.
    let scout = SessionOptions {
        paths,
        cache_dir: None,
        no_cache: true,
    };
    let open = move || Session::open(system.clone(), registry, scout.clone());
    let mut watch = Watch::new(face.system.clone(), means, Pace::default(), on_busy, open);
    let mailbox = watch.mailbox();
    signals
        .forward(move |wish: Wish| {
            let _ = mailbox.send(Message::Signal(wish));
        })
        .map_err(cannot)?;
    let has_keys = !args.json && face.printer.can_redraw;
    let keys = has_keys.then(terminal::Keys::listen).transpose();
    let keys = keys.map_err(cannot)?.flatten();
    if keys.is_some() {
        let (mailbox, continued) = (watch.mailbox(), watch.mailbox());
        Signals::continued(move || {
            let _ = continued.send(Message::Continued);
        })
        .map_err(cannot)?;
        // It ends with the input or with the process.
        let listener = std::thread::Builder::new().name("keys".to_owned());
        let listen = move || {
            while let Some(key) = terminal::key()
                && mailbox.send(Message::Key(key)).is_ok()
            {}
        };
        listener.spawn(listen).map_err(cannot)?;
    }
    let mut screen = Terminal::new(face, keys, args.json, !args.no_clear);
    watch.go(session, options, &mut screen);
    drop(screen);
    Ok(signals.status().unwrap_or(ExitStatus::Passed))
}
