//! The one way out: standard output for data, standard error for talk.
//!
//! A reader that went away (`aebuild … | head -1`) is no fault: what follows is dropped, and the exit status stays.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use crate::diagnostic::{visible, visible_line};
use crate::record::Redactor;
use crate::system::terminal;

/// The columns of what is no terminal.
const WIDTH: usize = 100;

/// How a text is painted where colours are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// It went well.
    Good,
    /// It went, but not well.
    Fair,
    /// It went wrong.
    Bad,
    /// It matters less.
    Dim,
    /// It matters more.
    Bold,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Paint::Good => "32",
            Paint::Fair => "33",
            Paint::Bad => "31",
            Paint::Dim => "2",
            Paint::Bold => "1",
        }
    }
}

/// Writes to the two outputs of the process.
pub struct Printer {
    out: Sink,
    err: Sink,
    /// Whether what goes to standard output has colours.
    pub out_color: bool,
    /// Whether what goes to standard error has colours.
    pub err_color: bool,
    /// Whether standard error can draw over what it showed.
    pub can_redraw: bool,
    /// The columns of the terminal.
    pub width: usize,
    /// The columns that the user gives.
    given_width: Option<usize>,
    /// Whether faults are told in sentences rather than drawn.
    pub is_narrated: bool,
    /// Whether more is told.
    pub is_verbose: bool,
    /// What keeps secrets out.
    pub redactor: Redactor,
}

struct Sink {
    to: BufWriter<Box<dyn Write>>,
    is_closed: bool,
}

impl Sink {
    fn new(to: Box<dyn Write>) -> Self {
        Sink {
            to: BufWriter::with_capacity(64 << 10, to),
            is_closed: false,
        }
    }

    fn write(&mut self, text: &str) {
        if !self.is_closed && self.to.write_all(text.as_bytes()).is_err() {
            self.is_closed = true;
        }
    }

    fn flush(&mut self) {
        if !self.is_closed && self.to.flush().is_err() {
            self.is_closed = true;
        }
    }
}

impl Printer {
    /// Returns the printer of this process; `variable` answers for the environment.
    ///
    /// Colours go to a terminal, unless `NO_COLOR` is set, `CLICOLOR` is 0 or the terminal is dumb; `CLICOLOR_FORCE` sends
    /// them anywhere. `NO_GRAPHICS` asks for sentences in the place of drawings, as it does of others that draw faults.
    pub fn of_process(variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
        let is_zero = |name: &str| variable(name).is_some_and(|value| value == "0");
        let is_forced = is_set("CLICOLOR_FORCE") && !is_zero("CLICOLOR_FORCE");
        let color = |is_terminal: bool| {
            let asked = is_forced || is_terminal && !is_dumb && !is_zero("CLICOLOR");
            asked && !is_set("NO_COLOR")
        };
        let is_narrated = is_set("NO_GRAPHICS") && !is_zero("NO_GRAPHICS");
        let (out, err) = (io::stdout(), io::stderr());
        let width = variable("COLUMNS").and_then(|columns| columns.parse().ok());
        let mut printer = Printer {
            out_color: color(out.is_terminal()),
            err_color: color(err.is_terminal()),
            can_redraw: err.is_terminal() && !is_dumb && !is_set("CI"),
            width: WIDTH,
            given_width: width.filter(|width| *width > 0),
            is_narrated,
            is_verbose: false,
            redactor: Redactor::default(),
            out: Sink::new(Box::new(out)),
            err: Sink::new(Box::new(err)),
        };
        printer.measure();
        printer
    }

    /// Looks how wide the terminal is now.
    pub fn measure(&mut self) {
        let found = || terminal::columns().map(usize::from);
        self.width = self.given_width.or_else(found).unwrap_or(WIDTH);
    }

    /// Returns a printer without colours to these outputs.
    pub fn to(out: Box<dyn Write>, err: Box<dyn Write>) -> Self {
        Printer {
            out: Sink::new(out),
            err: Sink::new(err),
            out_color: false,
            err_color: false,
            can_redraw: false,
            width: WIDTH,
            given_width: Some(WIDTH),
            is_narrated: false,
            is_verbose: false,
            redactor: Redactor::default(),
        }
    }

    /// Writes data to standard output, at the latest when the process ends. The text must be safe already.
    pub fn out(&mut self, text: &str) {
        self.out.write(text);
    }

    /// Writes talk to standard error at once. The text must be safe already.
    pub fn err(&mut self, text: &str) {
        // What was said before stands before it where both outputs are one.
        self.out.flush();
        self.err.write(text);
        self.err.flush();
    }

    /// Writes out what was buffered.
    pub fn flush(&mut self) {
        self.out.flush();
        self.err.flush();
    }

    /// Returns a text that somebody else wrote, safe to print: no secrets, no control characters, no commands to a CI
    /// system. Line feeds and tabs are kept.
    pub fn safe<'a>(&self, text: &'a str) -> Cow<'a, str> {
        safe(&self.redactor, text, visible)
    }

    /// Does as [`Printer::safe`] does, for text that must stay on one line.
    pub fn safe_line<'a>(&self, text: &'a str) -> Cow<'a, str> {
        safe(&self.redactor, text, visible_line)
    }

    /// Returns a text painted for standard output.
    pub fn paint_out(&self, paint: Paint, text: &str) -> String {
        painted(self.out_color, paint, text)
    }

    /// Returns a text painted for standard error.
    pub fn paint_err(&self, paint: Paint, text: &str) -> String {
        painted(self.err_color, paint, text)
    }
}

fn painted(color: bool, paint: Paint, text: &str) -> String {
    if color {
        format!("\u{1b}[{}m{text}\u{1b}[0m", paint.code())
    } else {
        text.to_owned()
    }
}

fn safe<'a>(
    redactor: &Redactor,
    text: &'a str,
    show: for<'t> fn(&'t str) -> Cow<'t, str>,
) -> Cow<'a, str> {
    let redacted = redactor.text(text);
    let shown = show(&redacted);
    let neutral = neutral(&shown);
    match (&redacted, &shown, &neutral) {
        (Cow::Borrowed(_), Cow::Borrowed(_), Cow::Borrowed(_)) => Cow::Borrowed(text),
        _ => Cow::Owned(neutral.into_owned()),
    }
}

/// Breaks what CI systems would obey in a log: `::…` at the start of a line, `##[`, `##vso[`, `##teamcity[` and
/// `%%teamcity` anywhere.
pub fn neutral(text: &str) -> Cow<'_, str> {
    const ANYWHERE: [&str; 4] = ["##[", "##vso[", "##teamcity[", "%%teamcity"];
    let is_command = |line: &str| {
        line.trim_start().starts_with("::") || ANYWHERE.iter().any(|command| line.contains(command))
    };
    if !text.contains("::") && !ANYWHERE.iter().any(|command| text.contains(command))
        || !text.split('\n').any(is_command)
    {
        return Cow::Borrowed(text);
    }
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut line = line.to_owned();
        if line.trim_start().starts_with("::") {
            line = line.replacen("::", "\\u{3a}:", 1);
        }
        for command in ANYWHERE {
            if line.contains(command) {
                let broken = format!(
                    "\\u{{{:x}}}{}",
                    u32::from(command.as_bytes()[0]),
                    &command[1..]
                );
                line = line.replace(command, &broken);
            }
        }
        lines.push(line);
    }
    Cow::Owned(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_fault() {
        let mut printer = Printer::to(Box::new(Gone), Box::new(Gone));
        for _ in 0..3 {
            printer.out(&"x".repeat(100_000));
            printer.err("x\n");
        }
        printer.flush();
    }

    #[test]
    fn commands_to_a_ci_system_are_broken() {
        for (text, shown) in [
            ("a::b", "a::b"),
            ("::set-env name=X::y", r"\u{3a}:set-env name=X::y"),
            ("ok\n  ::warning::x\nok", "ok\n  \\u{3a}:warning::x\nok"),
            (
                "x ##vso[task.setvariable]y",
                r"x \u{23}#vso[task.setvariable]y",
            ),
            ("##[group]x", r"\u{23}#[group]x"),
            ("##teamcity[x]", r"\u{23}#teamcity[x]"),
            ("%%teamcity", r"\u{25}%teamcity"),
        ] {
            assert_eq!(neutral(text), shown);
        }
    }

    proptest! {
        #[test]
        fn what_others_wrote_cannot_steer_a_terminal_or_a_ci_system(
            text in "(\\PC|[\u{0}-\u{1f}\u{7f}-\u{9f}\u{202a}-\u{202e}]|::|##\\[|##vso\\[|%%teamcity|\n){0,40}",
        ) {
            let printer = Printer::to(Box::new(io::sink()), Box::new(io::sink()));
            let shown = printer.safe(&text).into_owned();
            prop_assert!(shown.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
            prop_assert!(shown.lines().all(|line| !line.trim_start().starts_with("::")));
            prop_assert!(["##[", "##vso[", "%%teamcity"].iter().all(|command| !shown.contains(command)));
        }
    }
}
