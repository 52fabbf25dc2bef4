//! `aebuild graph`: draw who waits for whom.

use super::select::Selection;
use super::{ExitStatus, Face, SessionError};
use crate::diagnostic::visible_line;
use crate::session::TaskGraph;

/// Draw the graph of a task: which step waits for which
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Draw it in this form
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// A line a step
    Text,
    /// For Graphviz
    Dot,
    /// For Mermaid, as in Markdown on GitHub
    Mermaid,
}

/// Runs the command.
pub(super) fn run(mut args: Args, face: &mut Face) -> Result<ExitStatus, SessionError> {
    let options = args.selection.options();
    let mut session = face.open(args.selection.paths, true)?;
    let graphs = session.graph(&options)?;
    let text = match args.format {
        Format::Text => text(&graphs),
        Format::Dot => dot(&graphs),
        Format::Mermaid => mermaid(&graphs),
    };
    let text = face.printer.safe(&text).into_owned();
    face.printer.out(&text);
    Ok(ExitStatus::Passed)
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
