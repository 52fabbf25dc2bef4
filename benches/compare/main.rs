//! Compares aebuild with its peers and with physical floors: `cargo bench --bench compare`.
//!
//! Each question makes its inputs, runs what it compares in turn (A B A B) and prints a Markdown table with the goals
//! that belong to it. It never fails because something is slow. `benches/README.md` says what each row means.
#![expect(
    clippy::disallowed_methods,
    reason = "benches set up the world that the programs see"
)]

mod agents;
mod children;
mod editor;
mod envs;
mod files;
mod inputs;
mod measure;
mod peers;
mod questions;
mod schedule;
mod table;
mod watch;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use inputs::{NinjaFolder, Shape, Size, TaskFolder};

/// What the command line asks for.
#[derive(Debug, Default)]
struct Arguments {
    /// Questions whose name contains one of these; all where there is none.
    filters: Vec<String>,
    /// Whether to measure little.
    is_quick: bool,
    /// Whether to restore a tree of 1 GB too.
    is_big: bool,
    /// Where inputs are made.
    folder: Option<PathBuf>,
}

impl Arguments {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Arguments::default();
        let mut words = words;
        while let Some(word) = words.next() {
            match word.as_str() {
                // Cargo says so to every bench.
                "--bench" => {}
                "--quick" => arguments.is_quick = true,
                "--big" => arguments.is_big = true,
                "--dir" => {
                    let folder = words.next().ok_or("`--dir` needs a folder")?;
                    arguments.folder = Some(PathBuf::from(folder));
                }
                flag if flag.starts_with('-') => {
                    return Err(format!(
                        "no such flag: `{flag}`; --quick, --big, --dir FOLDER"
                    ));
                }
                _ => arguments.filters.push(word),
            }
        }
        Ok(arguments)
    }

    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }
}

/// What every question works with.
struct Bench {
    arguments: Arguments,
    folder: PathBuf,
    made: RefCell<HashMap<(usize, Shape), Rc<Ready>>>,
}

/// A task folder and the equal graph of `ninja`, both run before.
struct Ready {
    aebuild: TaskFolder,
    ninja: Option<NinjaFolder>,
}

impl Bench {
    /// Returns how often to measure.
    fn rounds(&self, usual: usize) -> usize {
        if self.arguments.is_quick {
            usual.min(3)
        } else {
            usual
        }
    }

    /// Makes a folder for inputs.
    fn room(&self, name: &str) -> PathBuf {
        let room = self.folder.join(name);
        std::fs::create_dir_all(&room).expect("the bench can write");
        room
    }

    /// Returns inputs of a size that both programs have run; made once.
    fn ready(&self, n_steps: usize, shape: Shape) -> Rc<Ready> {
        let mut made = self.made.borrow_mut();
        let ready = made.entry((n_steps, shape)).or_insert_with(|| {
            let size = Size::of(n_steps);
            let room = self.room(&format!("{}-{n_steps}", shape.name()));
            let aebuild = TaskFolder::write(&room.join("aebuild"), size, shape);
            let ninja = peers::ninja()
                .map(|program| NinjaFolder::write(&room.join("ninja"), size, shape, program));
            Rc::new(Ready { aebuild, ninja })
        });
        let ready = ready.clone();
        ready.settle();
        ready
    }
}

impl Ready {
    /// Runs both until nothing is left to do and stamps count as settled.
    fn settle(&self) {
        if let Some(ninja) = &self.ninja {
            ninja.run().succeed();
        }
        self.aebuild.settle();
    }
}

fn temp_root(arguments: &Arguments) -> PathBuf {
    let memory = Path::new("/dev/shm");
    match &arguments.folder {
        Some(folder) => folder.clone(),
        None if memory.is_dir() => memory.to_path_buf(),
        None => std::env::temp_dir(),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((child, words)) = words.split_first()
        && child.starts_with('@')
    {
        children::run(child, words);
        return;
    }
    let arguments = match Arguments::parse(words.into_iter()) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            std::process::exit(2);
        }
    };
    let root = temp_root(&arguments);
    let temp = tempfile::Builder::new()
        .prefix("aebuild-compare-")
        .tempdir_in(&root);
    let temp = temp.expect("the bench can write");
    let folder = temp.path().to_path_buf();
    let bench = Bench {
        arguments,
        folder,
        made: RefCell::default(),
    };

    println!(
        "# aebuild compared\n\n{}",
        table::machine(bench.folder.as_path())
    );
    for (name, ask) in questions::ALL {
        if bench.arguments.wants(name) {
            let meter = measure::Meter::start();
            for table in ask(&bench) {
                println!("{}", table.markdown(name));
            }
            println!("{}\n", meter.stop());
        }
    }
}
