//! Tables of measurements in Markdown, with their goals.

use std::path::Path;

use crate::measure::{Row, cpu, load, wall};

/// A table and what belongs to it.
pub struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    commands: Vec<(String, String)>,
    goals: Vec<String>,
    notes: Vec<String>,
}

impl Table {
    /// Returns an empty table with these columns.
    pub fn new(title: &str, head: &[&str]) -> Self {
        Table {
            title: title.to_owned(),
            head: head.iter().map(|&cell| cell.to_owned()).collect(),
            rows: Vec::new(),
            commands: Vec::new(),
            goals: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the table of rows as measured; all ratios are to the first one, which is aebuild's.
    pub fn of(title: &str, rows: &[Row]) -> Self {
        let head = [
            "",
            "steps run",
            "wall",
            "CPU",
            "peak memory",
            "aebuild's wall to it",
            "CPU",
        ];
        let mut table = Table::new(title, &head);
        for row in rows {
            let ran = row
                .ran
                .map_or_else(|| "-".to_owned(), |ran| ran.to_string());
            let ratio = |of| format!("{:.2}x", rows[0].ratio(row, of));
            table.rows.push(vec![
                row.name.clone(),
                ran,
                ms(row.wall()),
                ms(row.cpu()),
                format!("{:.1} MiB", row.rss()),
                ratio(wall),
                ratio(cpu),
            ]);
            table.commands.push((row.name.clone(), row.command.clone()));
        }
        table
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds the command line of something in the table.
    pub fn command(&mut self, name: &str, command: &str) {
        self.commands.push((name.to_owned(), command.to_owned()));
    }

    /// Adds a goal: what was measured and the most that it may be.
    pub fn at_most(&mut self, what: &str, is: f64, limit: f64, unit: &str) {
        self.goal(what, is, limit, unit, "at most", is <= limit);
    }

    /// Adds a goal: what was measured and the least that it may be.
    pub fn at_least(&mut self, what: &str, is: f64, limit: f64, unit: &str) {
        self.goal(what, is, limit, unit, "at least", is >= limit);
    }

    fn goal(&mut self, what: &str, is: f64, limit: f64, unit: &str, word: &str, is_met: bool) {
        let verdict = if is_met { "met" } else { "**MISSED**" };
        let (is, limit) = (number(is), number(limit));
        self.goals.push(format!(
            "{what}: {is}{unit}, goal {word} {limit}{unit}: {verdict}"
        ));
    }

    /// Adds a remark.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Returns the table as the only one of a question.
    pub fn alone(self) -> Vec<Table> {
        vec![self]
    }

    /// Returns the text of the table.
    pub fn markdown(&self, question: &str) -> String {
        let mut lines = vec![format!("## {question}: {}\n", self.title)];
        if !self.rows.is_empty() {
            lines.push(format!("| {} |", self.head.join(" | ")));
            lines.push(format!("|{}", " --- |".repeat(self.head.len())));
            lines.extend(
                self.rows
                    .iter()
                    .map(|row| format!("| {} |", row.join(" | "))),
            );
            lines.push(String::new());
        }
        lines.extend(self.goals.iter().map(|goal| format!("- {goal}")));
        lines.extend(self.notes.iter().map(|note| format!("- {note}")));
        lines.extend(
            self.commands
                .iter()
                .map(|(name, text)| format!("- {name}: `{text}`")),
        );
        lines.push(String::new());
        lines.join("\n")
    }
}

/// Returns milliseconds as a reader likes them.
pub fn ms(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2} ms"),
        value if value < 1000.0 => format!("{value:.0} ms"),
        value => format!("{:.2} s", value / 1e3),
    }
}

/// Returns bytes as a reader likes them.
pub fn bytes(value: u64) -> String {
    match value as f64 {
        value if value < 1e3 => format!("{value:.0} B"),
        value if value < 1e6 => format!("{:.1} kB", value / 1e3),
        value if value < 1e9 => format!("{:.1} MB", value / 1e6),
        value => format!("{:.2} GB", value / 1e9),
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        small if small >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Returns a line about the machine.
pub fn machine(folder: &Path) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let n = std::thread::available_parallelism().map_or(1, usize::from);
    let model = model.map_or("unknown processor", |(_, model)| model);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = load();
    let flag = if load > 1.0 {
        " **The machine is busy: read ratios, not times.**"
    } else {
        ""
    };
    format!(
        "{n} processors ({model}), Linux {}, inputs in {}, load average {load:.2}.{flag}\n",
        kernel.trim(),
        folder.display()
    )
}
