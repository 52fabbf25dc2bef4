//! `aebuild graph`: draw who waits for whom.

mod draw;
mod layout;
mod page;
mod words;

use std::path::{Path, PathBuf};

use super::select::Selection;
use super::{ExitStatus, Face, SessionError, fault};
use crate::diagnostic::visible_line;
use crate::session::{RunOptions, TaskGraph};
use crate::system::{FileKind, disk};

/// Draw the graph of a task: which step waits for which
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Draw it in this form
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write a page to look at in a browser, with what a run would do, to this file; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    html: Option<PathBuf>,
    /// Write the picture alone to this file; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    svg: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// A line a step
    Text,
    /// For Graphviz
    Dot,
    /// For Mermaid, as in Markdown on GitHub
    Mermaid,
    /// A page to look at in a browser
    Html,
    /// A picture
    Svg,
}

/// The most steps that are drawn: browsers are slow to move larger pictures.
const MAX_STEPS: usize = 20_000;
/// How files begin that this command wrote.
const PAGE_START: &[u8] = b"<!DOCTYPE html>";
const PICTURE_START: &[u8] = b"<svg xmlns=";

/// Runs the command.
pub(super) fn run(mut args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let options = args.selection.options();
    let paths = std::mem::take(&mut args.selection.paths);
    let is_drawn = matches!(args.format, Format::Html | Format::Svg);
    if is_drawn || args.html.is_some() || args.svg.is_some() {
        return draw(args, paths, &options, face);
    }
    let mut session = face.open(paths, true)?;
    let graphs = session.graph(&options)?;
    let text = match args.format {
        Format::Dot => dot(&graphs),
        Format::Mermaid => mermaid(&graphs),
        Format::Text | Format::Html | Format::Svg => text(&graphs),
    };
    let text = face.printer.safe(&text).into_owned();
    face.printer.out(&text);
    Ok(ExitStatus::Passed)
}

/// Draws a page, a picture or both.
fn draw(
    args: Args,
    paths: Vec<PathBuf>,
    options: &RunOptions,
    face: &mut Face,
) -> Result<ExitStatus, SessionError> {
    let files = [(&args.html, PAGE_START), (&args.svg, PICTURE_START)];
    for (file, start) in files {
        if let Some(file) = file {
            may_write(file, start, face)?;
        }
    }
    let mut session = face.open(paths, false)?;
    let drawings = session.draw(options)?;
    let n: usize = drawings.iter().map(|drawing| drawing.steps.len()).sum();
    if n > MAX_STEPS {
        return Err(fault::usage(
            format!("there are {n} steps, and at most {MAX_STEPS} are drawn at once"),
            Some("choose tasks with `--task`".to_owned()),
        ));
    }
    let redactor = face.printer.redactor.clone();
    let words = words::Words(&redactor);
    if args.html.is_some() || args.format == Format::Html {
        let page = page::page(&drawings, &words);
        write(args.html.as_deref(), &page, face)?;
    }
    if args.svg.is_some() || args.format == Format::Svg {
        let picture = draw::picture(&drawings, &words);
        write(args.svg.as_deref(), &picture.svg, face)?;
    }
    Ok(ExitStatus::Passed)
}

/// Refuses to write over a file that is no drawing: it may be a task whose name was given in the wrong place.
fn may_write(file: &Path, start: &[u8], face: &Face) -> Result<(), SessionError> {
    let is_there = file != Path::new("-") && face.system.link_metadata(file).is_ok();
    if !is_there {
        return Ok(());
    }
    // A pipe would wait for somebody who writes into it.
    let is_file = face
        .system
        .metadata(file)
        .is_ok_and(|found| found.kind == FileKind::File);
    let is_drawing = is_file
        && disk::open(file).is_ok_and(|mut opened| {
            let mut first = vec![0; start.len()];
            std::io::Read::read_exact(&mut opened, &mut first).is_ok() && first == start
        });
    match is_drawing {
        true => Ok(()),
        false => Err(fault::usage(
            format!("`{}` is there already, and is no drawing", file.display()),
            Some("name another file, or remove it".to_owned()),
        )),
    }
}

/// Writes a drawing to a file, or to standard output.
fn write(file: Option<&Path>, text: &str, face: &mut Face) -> Result<(), SessionError> {
    let Some(file) = file.filter(|file| *file != Path::new("-")) else {
        face.printer.out(text);
        return Ok(());
    };
    disk::write(file, text.as_bytes()).map_err(|error| {
        SessionError::World(format!("`{}` cannot be written: {error}", file.display()))
    })?;
    let text = format!("{} is written\n", file.display());
    let text = face.printer.safe(&text).into_owned();
    face.printer.err(&text);
    Ok(())
}

fn text(graphs: &[TaskGraph]) -> String {
    let mut out = String::new();
    for graph in graphs {
        out.push_str(&format!("{}\n", visible_line(&graph.shown)));
        for (step, kind, waits_for) in &graph.steps {
            out.push_str(&format!("  {} ({kind})", visible_line(step.as_str())));
            for (at, other) in waits_for.iter().enumerate() {
                let before = if at == 0 { " <- " } else { ", " };
                out.push_str(&format!("{before}{}", visible_line(other.as_str())));
            }
            out.push('\n');
        }
    }
    out
}

fn dot(graphs: &[TaskGraph]) -> String {
    let quoted = |text: &str| {
        format!(
            "\"{}\"",
            visible_line(text)
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
        )
    };
    let mut out = "digraph aebuild {\n  rankdir = LR;\n  node [shape = box];\n".to_owned();
    for (at, graph) in graphs.iter().enumerate() {
        out.push_str(&format!(
            "  subgraph cluster_{at} {{\n    label = {};\n",
            quoted(&graph.shown)
        ));
        let node = |step: &str| quoted(&format!("{at}/{step}"));
        for (step, kind, waits_for) in &graph.steps {
            let label = quoted(&format!("{step} ({kind})"));
            out.push_str(&format!("    {} [label = {label}];\n", node(step.as_str())));
            for other in waits_for {
                let (from, to) = (node(other.as_str()), node(step.as_str()));
                out.push_str(&format!("    {from} -> {to};\n"));
            }
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    out
}

fn mermaid(graphs: &[TaskGraph]) -> String {
    let quoted = |text: &str| {
        let escaped: String = visible_line(text)
            .chars()
            .map(|c| match c {
                c if c.is_alphanumeric() || " ._-/()".contains(c) => c.to_string(),
                c => format!("#{};", u32::from(c)),
            })
            .collect();
        format!("\"{escaped}\"")
    };
    let mut out = "flowchart LR\n".to_owned();
    for (at, graph) in graphs.iter().enumerate() {
        out.push_str(&format!("  subgraph t{at}[{}]\n", quoted(&graph.shown)));
        let position = |id: &str| {
            graph
                .steps
                .iter()
                .position(|(step, ..)| step.as_str() == id)
        };
        for (n, (step, kind, waits_for)) in graph.steps.iter().enumerate() {
            let label = quoted(&format!("{step} ({kind})"));
            out.push_str(&format!("    t{at}s{n}[{label}]\n"));
            for other in waits_for
                .iter()
                .filter_map(|other| position(other.as_str()))
            {
                out.push_str(&format!("    t{at}s{other} --> t{at}s{n}\n"));
            }
        }
        out.push_str("  end\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn names_cannot_break_out_of_a_drawing() {
        let (a, b) = ("a\"]; x -> y".into(), "b\u{1b}\\".into());
        let steps = vec![
            (a, "run_code", vec![]),
            (b, "run_code", vec!["a\"]; x -> y".into()]),
        ];
        let graphs = [TaskGraph {
            shown: "tasks/t.json".to_owned(),
            steps,
        }];
        expect![[r##"
            tasks/t.json
              a"]; x -> y (run_code)
              b\u{1b}\ (run_code) <- a"]; x -> y
            digraph aebuild {
              rankdir = LR;
              node [shape = box];
              subgraph cluster_0 {
                label = "tasks/t.json";
                "0/a\"]; x -> y" [label = "a\"]; x -> y (run_code)"];
                "0/b\\u{1b}\\" [label = "b\\u{1b}\\ (run_code)"];
                "0/a\"]; x -> y" -> "0/b\\u{1b}\\";
              }
            }
            flowchart LR
              subgraph t0["tasks/t.json"]
                t0s0["a#34;#93;#59; x -#62; y (run_code)"]
                t0s1["b#92;u#123;1b#125;#92; (run_code)"]
                t0s0 --> t0s1
              end
        "##]]
        .assert_eq(&[text(&graphs), dot(&graphs), mermaid(&graphs)].concat());
    }
}
