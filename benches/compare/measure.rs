//! Runs programs and measures them: wall, CPU of the whole tree, and the largest memory of one process.
//!
//! A child that is spawned counts the memory of its parent until it has become its own program, so this process stays
//! small: whatever takes memory runs in a child.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4 as _;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The time that passed.
    pub wall: Duration,
    /// The time of processors, of the process and all that it waited for.
    pub cpu: Duration,
    /// The largest resident memory of one process, in bytes.
    pub rss: u64,
}

/// A command line that can be run again.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<OsString>,
    folder: Option<PathBuf>,
    variables: Vec<(&'static str, OsString)>,
}

impl Program {
    /// Returns a program without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Program {
            words: vec![program.into()],
            folder: None,
            variables: Vec::new(),
        }
    }

    /// Returns a part of this bench that runs as a process of its own.
    pub fn child(name: &str) -> Self {
        let own = std::env::current_exe().expect("the bench knows its own program");
        Program::new(own).arg(name)
    }

    /// Adds an argument.
    pub fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.words.push(word.into());
        self
    }

    /// Adds arguments.
    pub fn args<W: Into<OsString>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// Says in which folder it runs.
    pub fn within(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
    }

    /// Sets an environment variable.
    pub fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Returns the command line as text.
    pub fn shown(&self) -> String {
        let mut text = String::new();
        if let Some(folder) = &self.folder {
            write!(text, "cd {}; ", folder.display()).expect("text grows");
        }
        for (name, value) in &self.variables {
            write!(text, "{name}={} ", value.display()).expect("text grows");
        }
        let own = std::env::current_exe()
            .ok()
            .and_then(|path| Some(path.file_name()?.to_owned()));
        let words = self
            .words
            .iter()
            .map(|word| match Path::new(word).file_name() {
                Some(name) if Some(name) == own.as_deref() => "compare".to_owned(),
                Some(name) if name == "aebuild" && word == &self.words[0] => "aebuild".to_owned(),
                _ => word.to_string_lossy().into_owned(),
            });
        text + &words.collect::<Vec<_>>().join(" ")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Runs it once, measured; its output goes nowhere.
    pub fn sample(&self) -> Sample {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.shown()));
        let ended = child
            .wait4()
            .unwrap_or_else(|error| panic!("{}: {error}", self.shown()));
        let wall = began.elapsed();
        if !ended.status.success() {
            eprintln!(
                "FAILED, its time means nothing: {}: {}",
                self.shown(),
                ended.status
            );
        }
        let cpu = ended.rusage.utime + ended.rusage.stime;
        Sample {
            wall,
            cpu,
            rss: ended.rusage.maxrss,
        }
    }

    /// Runs it once and returns what it wrote to standard output.
    pub fn said(&self) -> String {
        let output = self.command().output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", self.shown()));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            let (said, talk) = (text(&output.stdout), text(&output.stderr));
            eprintln!("FAILED: {}: {}\n{said}{talk}", self.shown(), output.status);
        }
        text(&output.stdout)
    }

    /// Runs it once, unmeasured.
    pub fn succeed(&self) {
        self.said();
    }
}

/// One of several things that are measured in turn.
pub struct Lane<'a> {
    name: String,
    program: Program,
    before: Box<dyn FnMut() + 'a>,
}

impl<'a> Lane<'a> {
    /// Returns a lane that only runs.
    pub fn new(name: &str, program: Program) -> Self {
        Lane {
            name: name.to_owned(),
            program,
            before: Box::new(|| {}),
        }
    }

    /// Says what is done before each run, unmeasured.
    pub fn after(mut self, before: impl FnMut() + 'a) -> Self {
        self.before = Box::new(before);
        self
    }
}

/// What came of a lane.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// Its measurements, in the order made.
    pub samples: Vec<Sample>,
    /// How many steps ran, where it was counted.
    pub ran: Option<u64>,
}

/// Runs all lanes in turn, so often.
pub fn in_turn(rounds: usize, lanes: Vec<Lane<'_>>) -> Vec<Row> {
    let mut lanes = lanes;
    let mut rows: Vec<Row> = lanes
        .iter()
        .map(|lane| Row {
            name: lane.name.clone(),
            command: lane.program.shown(),
            samples: Vec::with_capacity(rounds),
            ran: None,
        })
        .collect();
    for _ in 0..rounds.max(1) {
        for (lane, row) in lanes.iter_mut().zip(&mut rows) {
            (lane.before)();
            row.samples.push(lane.program.sample());
        }
    }
    rows
}

impl Row {
    /// Returns the median of the time that passed, in milliseconds.
    pub fn wall(&self) -> f64 {
        median(self.samples.iter().map(wall).collect())
    }

    /// Returns the median of the time of processors, in milliseconds.
    pub fn cpu(&self) -> f64 {
        median(self.samples.iter().map(cpu).collect())
    }

    /// Returns the median of the largest memory, in MiB.
    pub fn rss(&self) -> f64 {
        median(
            self.samples
                .iter()
                .map(|sample| sample.rss as f64 / f64::from(1 << 20))
                .collect(),
        )
    }

    /// Returns the median over the rounds of the ratio to another row of what `of` measures.
    pub fn ratio(&self, other: &Row, of: fn(&Sample) -> f64) -> f64 {
        let pairs = self.samples.iter().zip(&other.samples);
        median(
            pairs
                .map(|(own, other)| of(own) / of(other).max(0.001))
                .collect(),
        )
    }
}

/// Returns the time that passed, in milliseconds.
pub fn wall(sample: &Sample) -> f64 {
    sample.wall.as_secs_f64() * 1e3
}

/// Returns the time of processors, in milliseconds.
pub fn cpu(sample: &Sample) -> f64 {
    sample.cpu.as_secs_f64() * 1e3
}

/// Returns the median; 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Tells how much else this machine did meanwhile.
pub struct Meter {
    began: Instant,
    load: f64,
    busy: f64,
    own: f64,
}

/// The kernel counts in hundredths of a second.
const TICKS: f64 = 100.0;

impl Meter {
    /// Begins.
    pub fn start() -> Self {
        Meter {
            began: Instant::now(),
            load: load(),
            busy: busy(),
            own: own(),
        }
    }

    /// Ends; returns a line for the reader.
    pub fn stop(self) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        let others = ((busy() - self.busy) - (own() - self.own)).max(0.0) / seconds.max(0.01);
        let flag = if self.load > 1.0 || others > 0.2 {
            " **DISTURBED: read ratios, not times.**"
        } else {
            ""
        };
        format!(
            "Load average at its start {:.2}; others used {others:.2} processors during its {seconds:.0} s.{flag}",
            self.load
        )
    }
}

/// Returns the load average of the last minute.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0)
}

/// Returns the seconds that all processors were busy.
fn busy() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1);
    let numbers: Vec<f64> = numbers.filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq
    [0, 1, 2, 5, 6]
        .iter()
        .filter_map(|at| numbers.get(*at))
        .sum::<f64>()
        / TICKS
}

/// Returns the seconds of this process and of all that it waited for.
fn own() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may hold spaces; it ends at the last bracket.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let numbers = rest.split_whitespace().skip(11).take(4);
    numbers
        .filter_map(|word| word.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}
