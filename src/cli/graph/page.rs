//! A page around the picture of tasks: to find a step in it, to look closer, and to read all that is known of a step.
//!
//! The page is one file. It fetches nothing, runs nothing but its own script, and builds nothing from markup: texts of the
//! task reach it as data.

use super::draw::picture;
use super::words::{STATES, Words, escaped, state};
use crate::digest::Digest;
use crate::json::{Value, json};
use crate::report::{count, score, seconds};
use crate::session::{Drawing, DrawnStep, StepVerdict};
use crate::system::timestamp;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Returns the page of tasks.
pub(super) fn page(drawings: &[Drawing], words: &Words) -> String {
    let picture = picture(drawings, words);
    let title = match drawings {
        [one] => words.line(&one.shown),
        all => count(all.len() as u64, "task"),
    };
    let tasks = drawings.iter().zip(&picture.tops).map(|(drawing, top)| {
        let steps = drawing
            .steps
            .iter()
            .map(|step| details(drawing, step, words));
        let edges = drawing.edges.iter().map(|edge| {
            let carries: Vec<_> = edge.carries.iter().map(|what| words.line(what)).collect();
            json!([edge.from, edge.to, carries])
        });
        json!({
            "name": words.line(&drawing.shown),
            "top": top,
            "steps": steps.collect::<Vec<_>>(),
            "edges": edges.collect::<Vec<_>>(),
        })
    });
    let data = in_script(&Value::Array(tasks.collect()).to_string());
    // Who writes a task cannot know what the page's digest will be, so nothing of a task can be run as its script.
    let nonce = Digest::of_bytes(format!("{data}{}", picture.svg).as_bytes()).to_string();
    let mut counted: Vec<String> = Vec::new();
    for (class, mark, about) in STATES {
        let all = drawings.iter().flat_map(|drawing| &drawing.steps);
        let n = all.filter(|step| state(step, words).class == class).count();
        if n > 0 {
            let about = escaped(about);
            let name = if class == "never" { "never run" } else { class };
            counted.push(format!(
                "<li class=\"{class}\" title=\"{about}\">{mark} {n} {name}</li>"
            ));
        }
    }
    let mut steps = drawings.iter().flat_map(|drawing| &drawing.steps);
    let retry = match steps.any(|step| step.retry.is_some()) {
        true => "<li class=\"retry\">retry</li>",
        false => "",
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n<select id=\"tasks\" aria-label=\"Task\" hidden></select>\n\
         <input id=\"find\" type=\"search\" placeholder=\"Find a step ( / )\" aria-label=\"Find a step\" autocomplete=\"off\" spellcheck=\"false\">\n\
         <output id=\"found\"></output>\n<ul id=\"states\">{}</ul>\n\
         <ul id=\"lines\"><li class=\"carries\">carries</li><li class=\"order\">only orders</li>{}</ul>\n\
         <span id=\"zoom\"><button id=\"out\" aria-label=\"Smaller\" title=\"Smaller ( - )\">−</button>\
         <button id=\"whole\" title=\"All of it ( 0 )\">all</button>\
         <button id=\"in\" aria-label=\"Larger\" title=\"Larger ( + )\">+</button></span>\n</header>\n\
         <main id=\"view\" tabindex=\"0\" aria-label=\"The steps: arrow keys go from step to step, Enter shows one\">\n{}</main>\n\
         <aside id=\"details\" aria-live=\"polite\" aria-label=\"Details of the step\" hidden></aside>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script nonce=\"{nonce}\">\n{SCRIPT}</script>\n</body>\n</html>\n",
        counted.join(""),
        retry,
        picture.svg,
        title = escaped(&title),
    )
}

/// Returns JSON that stands in a script element as it is.
fn in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // In JSON these stand in strings only.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns all that is told of a step.
fn details(drawing: &Drawing, step: &DrawnStep, words: &Words) -> Value {
    let state = state(step, words);
    let why: Vec<String> = match &step.verdict {
        StepVerdict::Hit { made_by } => vec![format!("run {made_by} made its result")],
        StepVerdict::Dirty { because } => because.iter().map(ToString::to_string).collect(),
        StepVerdict::Waits { on } => {
            vec![format!(
                "`{on}` must run first; if that gives the same as before, this hits"
            )]
        }
        StepVerdict::Deferred => vec!["it is made when a step that runs needs it".to_owned()],
        StepVerdict::LeftOut => vec!["the command line leaves it out".to_owned()],
    };
    let why: Vec<String> = why.iter().map(|line| words.line(line)).collect();
    let last = step.last.as_ref().map(|row| {
        let mut text = format!(
            "{}, took {}",
            &timestamp(row.started_us)[..19],
            seconds(row.took_us)
        );
        if let Some(given) = row.score {
            text.push_str(&format!(", score {}", score(given)));
        }
        if let Some(error) = &row.error {
            text.push_str(&format!(", failed: {error}"));
        }
        words.line(&text)
    });
    let id = |at: usize| words.line(drawing.steps[at].id.as_str());
    let mut more: Vec<String> = Vec::new();
    if let Some(retry) = &step.retry {
        let span: Vec<String> = retry.span.iter().map(|&at| id(at)).collect();
        let times = count(retry.max_retries.into(), "time");
        more.push(format!(
            "when it fails, at most {times}: {} run again",
            span.join(", ")
        ));
    }
    if step.goes_on {
        more.push("the task goes on where it fails".to_owned());
    }
    if !step.group.is_empty() {
        let others: Vec<String> = step
            .group
            .iter()
            .map(|id| words.line(id.as_str()))
            .collect();
        more.push(format!("kept and run as one with {}", others.join(", ")));
    }
    let place = match step.line {
        0 => words.line(&drawing.shown),
        line => format!("{}:{line}", words.line(&drawing.shown)),
    };
    let fields = step.fields.iter().map(|(name, text)| {
        let text = crate::diagnostic::visible(&words.0.text(text)).into_owned();
        json!([words.line(name), text])
    });
    json!({
        "id": words.line(step.id.as_str()),
        "kind": step.kind,
        "class": state.class,
        "state": format!("{} {}", state.mark, state.text),
        "why": why,
        "last": last,
        "more": more,
        "place": place,
        "fields": fields.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_the_script_that_it_stands_in() {
        let value = json!({"id": "</script><!--\u{2028}&"});
        let text = in_script(&value.to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        assert_eq!(
            crate::json::from_slice::<Value>(text.as_bytes()).ok(),
            Some(value)
        );
    }
}
