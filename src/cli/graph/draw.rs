//! Tasks as a picture: an SVG that needs nothing else, in light and in dark.
//!
//! No text of a task can become markup, and none that is a secret is drawn.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::layout::{Layout, place};
use super::words::{Words, escaped, letters, short, state};
use crate::session::{Drawing, DrawnEdge};

/// How high the box of a step is, and how far the next layer is below it.
const BOX: f64 = 58.0;
const GAP: f64 = 66.0;
/// How much room is left and right of the box of a step.
const APART: f64 = 26.0;
const MARGIN: f64 = 20.0;
/// How high the title of a task is.
const TITLE: f64 = 40.0;
/// How wide a letter of an id, of a type and of a label is, as far as that is known.
const LETTER: f64 = 7.3;
const SMALL: f64 = 6.1;
/// The bounds of how wide a box is.
const WIDE: (f64, f64) = (180.0, 290.0);
/// What passes over more layers than this is told with the step, and not drawn.
const NEAR: usize = 6;
/// How many labels stand at the lines into one step.
const LABELS: usize = 3;

pub(super) const STYLE: &str = include_str!("picture.css");

/// A picture, and where each task is in it.
pub(super) struct Picture {
    pub(super) svg: String,
    /// How far from the top each task begins.
    pub(super) tops: Vec<f64>,
}

/// Draws tasks one below the other.
pub(super) fn picture(drawings: &[Drawing], words: &Words) -> Picture {
    let (mut body, mut wide, mut top) = (String::new(), 0.0_f64, 0.0);
    let mut tops = Vec::with_capacity(drawings.len());
    for (n, drawing) in drawings.iter().enumerate() {
        tops.push(top);
        let (width, height) = one(&mut body, n, drawing, words, top);
        wide = wide.max(width);
        top += height;
    }
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {top}\" width=\"{wide}\" height=\"{top}\">\n\
         <style>{STYLE}</style>\n\
         <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path class=\"end\" d=\"M0 0.5L8 4L0 7.5z\"/></marker></defs>\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n"
    );
    Picture { svg, tops }
}

/// Draws one task below `top`, and returns how wide and high it is.
fn one(out: &mut String, n: usize, drawing: &Drawing, words: &Words, top: f64) -> (f64, f64) {
    let longest = drawing.steps.iter().map(|step| {
        let id = letters(step.id.as_str()) as f64 * LETTER;
        id.max(step.kind.len() as f64 * SMALL) + 40.0
    });
    let wide = longest.fold(0.0, f64::max).clamp(WIDE.0, WIDE.1).round();
    let edges = drawn(drawing);
    let ends: Vec<(usize, usize)> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let layout = place(drawing.steps.len(), &ends, wide + APART);
    let frame = Frame {
        layout,
        wide,
        left: MARGIN,
        top: top + TITLE,
    };
    let title = escaped(&words.line(&drawing.shown));
    put(
        out,
        format_args!(
            "<g class=\"task\" role=\"group\" aria-label=\"{title}\">\n<text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{title}</text>\n",
            top + 26.0
        ),
    );
    lines(out, n, drawing, &edges, &frame, words);
    let right = retries(out, drawing, &frame, n);
    for at in 0..drawing.steps.len() {
        step(out, n, drawing, at, &frame, words);
    }
    out.push_str("</g>\n");
    let width = (MARGIN * 2.0 + frame.layout.width).max(right + MARGIN);
    let title = letters(&drawing.shown) as f64 * 9.0 + 2.0 * MARGIN;
    let height = frame.layout.layers as f64 * (BOX + GAP) - GAP + TITLE + MARGIN;
    (width.max(title).round(), height.max(TITLE + MARGIN))
}

/// Returns the edges that are drawn: those that keep the order, and what passes not too far besides.
fn drawn(drawing: &Drawing) -> Vec<&DrawnEdge> {
    let order = drawing.edges.iter().filter(|edge| edge.is_order);
    let ends: Vec<(usize, usize)> = order.map(|edge| (edge.from, edge.to)).collect();
    let layers = super::layout::layers(drawing.steps.len(), &ends);
    let is_near = |edge: &&DrawnEdge| edge.is_order || layers[edge.to] - layers[edge.from] <= NEAR;
    drawing.edges.iter().filter(is_near).collect()
}

/// Where a task is drawn.
struct Frame {
    layout: Layout,
    wide: f64,
    left: f64,
    top: f64,
}

impl Frame {
    fn x(&self, place: usize) -> f64 {
        self.left + self.layout.places[place].x
    }

    fn upper(&self, place: usize) -> f64 {
        self.top + self.layout.places[place].layer as f64 * (BOX + GAP)
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("strings take all");
}

/// Returns where on the side of a box each of its neighbours is joined: they are spread in the order in which they stand.
fn ports(frame: &Frame, at: usize, mut others: Vec<usize>) -> HashMap<usize, f64> {
    others.sort_unstable();
    others.dedup();
    others.sort_by(|a, b| frame.x(*a).total_cmp(&frame.x(*b)).then(a.cmp(b)));
    let (left, n) = (frame.x(at) - frame.wide / 2.0, others.len() as f64 + 1.0);
    let spread = others.into_iter().enumerate();
    spread
        .map(|(k, other)| (other, (left + frame.wide * (k as f64 + 1.0) / n).round()))
        .collect()
}

fn lines(
    out: &mut String,
    n: usize,
    drawing: &Drawing,
    edges: &[&DrawnEdge],
    frame: &Frame,
    words: &Words,
) {
    let n_steps = drawing.steps.len();
    let (mut into, mut from) = (vec![Vec::new(); n_steps], vec![Vec::new(); n_steps]);
    for (edge, way) in edges.iter().zip(&frame.layout.ways) {
        into[edge.to].push(way[way.len() - 2]);
        from[edge.from].push(way[1]);
    }
    let ports_of = |(at, others): (usize, Vec<usize>)| ports(frame, at, others);
    let into: Vec<_> = into.into_iter().enumerate().map(ports_of).collect();
    let from: Vec<_> = from.into_iter().enumerate().map(ports_of).collect();
    let mut labels: HashMap<(usize, usize), Vec<String>> = HashMap::new();
    for (edge, way) in edges.iter().zip(&frame.layout.ways) {
        let (last, before) = (way.len() - 1, way[way.len() - 2]);
        let (mut x, mut y) = (from[edge.from][&way[1]], frame.upper(way[0]) + BOX);
        let mut path = format!("M{x} {y}");
        for (k, &place) in way.iter().enumerate().skip(1) {
            let x2 = if k == last {
                into[edge.to][&before]
            } else {
                frame.x(place).round()
            };
            let y2 = frame.upper(place);
            let bend = (GAP / 2.0).min((y2 - y) / 2.0);
            put(
                &mut path,
                format_args!("C{x} {} {x2} {} {x2} {y2}", y + bend, y2 - bend),
            );
            (x, y) = (x2, y2);
            if k != last {
                y += BOX;
                put(&mut path, format_args!("V{y}"));
            }
        }
        let carried: Vec<String> = edge.carries.iter().map(|what| words.line(what)).collect();
        let class = match (edge.carries.is_empty(), edge.is_order) {
            (true, _) => "order",
            (false, true) => "carries",
            (false, false) => "carries past",
        };
        let (a, b) = (&drawing.steps[edge.from].id, &drawing.steps[edge.to].id);
        let what = match carried.is_empty() {
            true => "only the order".to_owned(),
            false => carried.join(", "),
        };
        let title = format!(
            "{} → {}: {what}",
            words.line(a.as_str()),
            words.line(b.as_str())
        );
        put(
            out,
            format_args!(
                "<path class=\"{class}\" data-f=\"{n}-{}\" data-t=\"{n}-{}\" d=\"{path}\" marker-end=\"url(#end)\"><title>{}</title></path>\n",
                edge.from,
                edge.to,
                escaped(&title)
            ),
        );
        if !carried.is_empty() {
            labels.entry((edge.to, before)).or_default().extend(carried);
        }
    }
    for (to, ports) in into.iter().enumerate() {
        let mut stand: Vec<(f64, &Vec<String>)> = ports
            .iter()
            .filter_map(|(before, x)| Some((*x, labels.get(&(to, *before))?)))
            .collect();
        stand.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (k, (x, names)) in stand.into_iter().enumerate().take(LABELS) {
            // The first label of the next box begins at a quarter of it or later.
            let room = frame.x(to) + frame.wide * 0.75 + APART - x - 8.0;
            let most = (room / 5.6).max(0.0) as usize;
            if most < 5 {
                continue;
            }
            let mut names = names.clone();
            names.dedup();
            let text = short(&names.join(", ").replace('`', ""), most);
            let y = frame.upper(to) - 10.0 - 12.0 * k as f64;
            put(
                out,
                format_args!(
                    "<text class=\"label\" x=\"{}\" y=\"{y}\">{}</text>\n",
                    x + 5.0,
                    escaped(&text)
                ),
            );
        }
    }
}

/// Draws what goes back where a step fails, right of all that stands between; returns how far right that reaches.
fn retries(out: &mut String, drawing: &Drawing, frame: &Frame, n: usize) -> f64 {
    let mut reach = 0.0_f64;
    let places = &frame.layout.places;
    let mut n_before = 0.0;
    for (at, step) in drawing.steps.iter().enumerate() {
        let Some(retry) = &step.retry else { continue };
        let rows = places[retry.from].layer..=places[at].layer;
        let between = places
            .iter()
            .enumerate()
            .filter(|(_, place)| rows.contains(&place.layer));
        let right = between.map(|(other, _)| {
            frame.x(other)
                + if other < drawing.steps.len() {
                    frame.wide / 2.0
                } else {
                    7.0
                }
        });
        let right = (right.fold(0.0, f64::max) + 22.0 + 14.0 * n_before).round();
        n_before += 1.0;
        let side = |at: usize| {
            (
                (frame.x(at) + frame.wide / 2.0).round(),
                frame.upper(at) + BOX / 2.0,
            )
        };
        let ((x1, y1), (x2, y2)) = (side(at), side(retry.from));
        let y2 = if at == retry.from { y2 - 16.0 } else { y2 };
        put(
            out,
            format_args!(
                "<path class=\"retry\" data-f=\"{n}-{at}\" data-t=\"{n}-{}\" d=\"M{x1} {y1}C{right} {y1} {right} {y1} {right} {}V{}C{right} {y2} {right} {y2} {x2} {y2}\" marker-end=\"url(#end)\"/>\n",
                retry.from,
                (y1 - 14.0).max((y1 + y2) / 2.0),
                (y2 + 14.0).min((y1 + y2) / 2.0)
            ),
        );
        let times = match retry.max_retries {
            1 => "retry, once".to_owned(),
            n => format!("retry, {n} times"),
        };
        put(
            out,
            format_args!(
                "<text class=\"label\" x=\"{}\" y=\"{}\">{times}</text>\n",
                right + 4.0,
                (y1 + y2) / 2.0 + 4.0
            ),
        );
        reach = reach.max(right + 4.0 + times.len() as f64 * 6.0);
    }
    reach
}

fn step(out: &mut String, n: usize, drawing: &Drawing, at: usize, frame: &Frame, words: &Words) {
    let step = &drawing.steps[at];
    let (x, y) = ((frame.x(at) - frame.wide / 2.0).round(), frame.upper(at));
    let state = state(step, words);
    let id = words.line(step.id.as_str());
    let room = frame.wide - 24.0;
    let title = format!("{id} ({}): {}", step.kind, state.text);
    put(
        out,
        format_args!(
            "<g class=\"s {}\" id=\"s{n}-{at}\" transform=\"translate({x} {y})\"><title>{}</title>\
         <rect class=\"box\" width=\"{}\" height=\"{BOX}\" rx=\"6\"/><rect class=\"bar\" width=\"5\" height=\"{BOX}\" rx=\"2\"/>\
         <text class=\"id\" x=\"14\" y=\"19\">{}</text><text class=\"kind\" x=\"14\" y=\"34\">{}</text>\
         <text class=\"state\" x=\"14\" y=\"50\">{} {}</text></g>\n",
            state.class,
            escaped(&title),
            frame.wide,
            escaped(&short(&id, (room / LETTER) as usize)),
            escaped(&short(step.kind, (room / SMALL) as usize)),
            state.mark,
            escaped(&short(&state.text, (room / 5.9) as usize - 2)),
        ),
    );
}
