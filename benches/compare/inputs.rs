//! The inputs: task folders, the equal graphs of `ninja`, and edits of both.

use std::cell::Cell;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::files;
use crate::measure::Program;

/// The program that each step starts.
pub const TRUE: &str = "/bin/true";
/// Number of steps of a layer; each waits for all of the layer before.
const WIDTH: usize = 5;

/// How the steps of a task hang together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// Layers of five.
    Layers,
    /// Each step waits for every earlier one, as when `depends_on` is left out.
    Chain,
}

impl Shape {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Layers => "layers",
            Shape::Chain => "chain",
        }
    }

    /// Returns the steps that a step waits for; in a chain the last one stands for all.
    pub fn edges(self, step: usize) -> Vec<usize> {
        match self {
            Shape::Chain => vec![step - 1],
            Shape::Layers if step <= WIDTH => vec![0],
            Shape::Layers => {
                let first = (step - 1) / WIDTH * WIDTH + 1 - WIDTH;
                (first..first + WIDTH).collect()
            }
        }
    }
}

/// How many tasks of how many steps.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Number of tasks.
    pub tasks: usize,
    /// Number of steps of each, the one that makes the sandbox among them.
    pub steps: usize,
}

impl Size {
    /// Returns the size with so many steps, in tasks of twenty.
    pub fn of(n_steps: usize) -> Self {
        let steps = n_steps.min(20);
        Size {
            tasks: n_steps / steps,
            steps,
        }
    }

    /// Returns the number of steps that run a command.
    pub fn commands(self) -> usize {
        self.tasks * (self.steps - 1)
    }
}

/// Which program a criterion runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Criterion {
    /// One started without a shell.
    Command,
    /// A script of `bash`, which agent-env knows too.
    Bash,
}

/// What is edited of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Edit {
    /// A comment of the first verifier: no result changes.
    comment: u64,
    /// The command of the first verifier: it runs again and gives the same.
    leaf: u64,
    /// The sandbox: whatever touches it runs again.
    sandbox: u64,
}

/// A task folder with a cache of its own.
pub struct TaskFolder {
    /// The folder.
    pub root: PathBuf,
    /// Its cache.
    pub cache: PathBuf,
    /// Its size.
    pub size: Size,
    shape: Shape,
    criterion: Criterion,
    edits: Cell<u64>,
}

impl TaskFolder {
    /// Writes a folder whose steps start a program.
    pub fn write(room: &Path, size: Size, shape: Shape) -> Self {
        TaskFolder::write_with(room, size, shape, Criterion::Command)
    }

    /// Writes a folder.
    pub fn write_with(room: &Path, size: Size, shape: Shape, criterion: Criterion) -> Self {
        let (root, cache) = (room.join("tasks-of-aebuild"), room.join("cache"));
        files::write(
            &root.join("aebuild.toml"),
            "[sandbox]\nisolation = \"none\"\n",
        );
        let edits = Cell::new(0);
        let folder = TaskFolder {
            root,
            cache,
            size,
            shape,
            criterion,
            edits,
        };
        (0..size.tasks).for_each(|task| folder.write_task(task, Edit::default()));
        files::settle();
        folder
    }

    fn write_task(&self, task: usize, edit: Edit) {
        let path = self.root.join(format!("tasks/t{task:04}.json"));
        files::write(&path, self.task(task, edit));
    }

    fn task(&self, task: usize, edit: Edit) -> String {
        let sandbox = match edit.sandbox {
            0 => String::new(),
            n => format!(r#", "env_vars": {{"EDIT": "{n}"}}"#),
        };
        let mut text = format!(
            r#"[
{{"id": "s0", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "depends_on": []{sandbox}}}"#
        );
        for step in 1..self.size.steps {
            let first = Edit {
                sandbox: 0,
                ..if step == 1 { edit } else { Edit::default() }
            };
            let comment = match first.comment {
                0 => String::new(),
                n => format!(r#""//": "edit {n}", "#),
            };
            let command = match (self.criterion, first.leaf) {
                (Criterion::Bash, _) => {
                    r#""type": "bash_cmd_succeeds", "bash_cmd": "true""#.to_owned()
                }
                (Criterion::Command, 0) => {
                    format!(r#""type": "command_succeeds", "argv": ["{TRUE}"]"#)
                }
                (Criterion::Command, n) => {
                    format!(r#""type": "command_succeeds", "argv": ["{TRUE}", "{n}"]"#)
                }
            };
            let depends_on = match self.shape {
                Shape::Chain => String::new(),
                Shape::Layers => {
                    let on: Vec<String> = self
                        .shape
                        .edges(step)
                        .iter()
                        .map(|on| format!(r#""s{on}""#))
                        .collect();
                    format!(r#", "depends_on": [{}]"#, on.join(", "))
                }
            };
            write!(
                text,
                r#",
{{{comment}"id": "s{step}", "type": "verify_sandbox", "sandbox_name": "box"{depends_on}, "criteria": [{{{command}, "criterion": "Step {step} of task {task} holds."}}]}}"#
            )
            .expect("text grows");
        }
        text.push_str("\n]\n");
        text
    }

    fn next_edit(&self) -> u64 {
        self.edits.set(self.edits.get() + 1);
        self.edits.get()
    }

    /// Edits a comment of the first task.
    pub fn edit_comment(&self) {
        self.write_task(
            0,
            Edit {
                comment: self.next_edit(),
                ..Edit::default()
            },
        );
    }

    /// Edits the command of the first verifier of the first task.
    pub fn edit_leaf(&self) {
        self.write_task(
            0,
            Edit {
                leaf: self.next_edit(),
                ..Edit::default()
            },
        );
    }

    /// Edits the sandbox of so many tasks, not of the first one.
    pub fn edit_sandboxes(&self, n_tasks: usize) {
        let sandbox = self.next_edit();
        (1..=n_tasks).for_each(|task| {
            self.write_task(
                task,
                Edit {
                    sandbox,
                    ..Edit::default()
                },
            )
        });
    }

    /// Returns the program that runs the folder.
    pub fn run(&self) -> Program {
        aebuild("run")
            .arg(&self.root)
            .arg("--cache-dir")
            .arg(&self.cache)
            .args(["--jobs", "2"])
    }

    /// Forgets all results.
    pub fn forget(&self) {
        files::remove(&self.cache);
        files::remove(&self.root.join(".aebuild"));
    }

    /// Runs until nothing is left to do and all stamps count as settled.
    pub fn settle(&self) {
        files::settle();
        self.run().succeed();
        self.run().succeed();
    }

    /// Returns the file that is read when nothing has changed.
    pub fn kept(&self) -> PathBuf {
        self.root.join(".aebuild/kept")
    }
}

/// Returns the program with a command.
pub fn aebuild(command: &str) -> Program {
    Program::new(env!("CARGO_BIN_EXE_aebuild")).arg(command)
}

/// Returns how many steps ran, from the last line of a run.
pub fn ran(said: &str) -> Option<u64> {
    let line = said.lines().rev().find(|line| line.contains(" ran"))?;
    line.split(" ran")
        .next()?
        .split_whitespace()
        .last()?
        .parse()
        .ok()
}

/// A folder of `ninja` with the same commands and edges.
pub struct NinjaFolder {
    /// The folder.
    pub root: PathBuf,
    program: PathBuf,
    size: Size,
    edits: Cell<u64>,
}

impl NinjaFolder {
    /// Writes a folder.
    pub fn write(root: &Path, size: Size, shape: Shape, program: PathBuf) -> Self {
        // The first one leaves its output alone when it is there: the early cutoff of `restat`.
        let mut text = format!(
            "rule make\n  command = {TRUE} > $out\n\
             rule keep\n  command = {TRUE} && [ -e $out ] || : > $out\n  restat = 1\n"
        );
        let edits = Cell::new(0);
        let folder = NinjaFolder {
            root: root.to_path_buf(),
            program,
            size,
            edits,
        };
        files::write(&root.join("t0/leaf"), "0");
        for task in 0..size.tasks {
            folder.write_source(task, 0);
            writeln!(text, "build t{task}/s0: phony t{task}/source").expect("text grows");
            for step in 1..size.steps {
                let rule = if (task, step) == (0, 1) {
                    "keep"
                } else {
                    "make"
                };
                write!(text, "build t{task}/s{step}: {rule}").expect("text grows");
                for on in shape.edges(step) {
                    write!(text, " t{task}/s{on}").expect("text grows");
                }
                text.push_str(if rule == "keep" { " t0/leaf\n" } else { "\n" });
            }
        }
        files::write(&root.join("build.ninja"), text);
        files::settle();
        folder
    }

    fn write_source(&self, task: usize, edit: u64) {
        files::write(&self.root.join(format!("t{task}/source")), edit.to_string());
    }

    /// Returns the program that builds the folder.
    pub fn run(&self) -> Program {
        Program::new(&self.program)
            .arg("-C")
            .arg(&self.root)
            .arg("-j2")
    }

    /// Edits the file that only the first step of the first task reads.
    pub fn edit_leaf(&self) {
        self.edits.set(self.edits.get() + 1);
        files::settle();
        files::write(&self.root.join("t0/leaf"), self.edits.get().to_string());
    }

    /// Edits the sources of so many tasks, not of the first one.
    pub fn edit_sources(&self, n_tasks: usize) {
        self.edits.set(self.edits.get() + 1);
        files::settle();
        (1..=n_tasks).for_each(|task| self.write_source(task, self.edits.get()));
    }

    /// Forgets all results.
    pub fn forget(&self) {
        for task in 0..self.size.tasks {
            for step in 1..self.size.steps {
                let _ = std::fs::remove_file(self.root.join(format!("t{task}/s{step}")));
            }
        }
        for name in [".ninja_log", ".ninja_deps"] {
            let _ = std::fs::remove_file(self.root.join(name));
        }
    }

    /// Returns how many commands would run, then runs them.
    pub fn count_and_run(&self) -> u64 {
        let said = self.run().said();
        let last = said
            .lines()
            .filter_map(|line| line.strip_prefix('[')?.split('/').next());
        last.filter_map(|n| n.parse().ok()).max().unwrap_or(0)
    }
}
