//! Triggers of envs: what they name is there, and what they wait for can come.

use std::collections::{BTreeMap, BTreeSet};

use super::script::{CLOCK_TOOLS, Called};
use super::{Checked, Rule};
use crate::diagnostic::{Diagnostic, Severity, did_you_mean};
use crate::graph::StepIx;
use crate::json::{Node, NodeKind, Span, Value, json};
use crate::step::{Deploys, Step};
use crate::task::deploy::{EnvRun, EnvSpec};
use crate::task::parse::names::has_placeholder;
use crate::task::triggers::{
    Deed, Start, Talking, Trigger, When, read_talk_triggers, read_triggers,
};

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[
        ("unknown-name", Severity::Error),
        ("unknown-tool", Severity::Error),
        ("missing-field", Severity::Error),
        ("trigger-never-fires", Severity::Error),
    ],
    doc: "A trigger that fires after another names one that is registered, an instruction has somebody who follows it, a \
          call is one that the env knows, and what waits for a time needs a clock.",
    run,
};

/// The triggers that a step registers.
struct Registered {
    step: StepIx,
    env_id: String,
    /// Whether it names somebody who follows instructions that name nobody.
    has_executor: bool,
    triggers: Vec<Trigger>,
}

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let registered: Vec<Registered> = checked
        .built()
        .filter_map(|(step, built)| registered(checked, step, built))
        .collect();
    talks(checked, &registered, faults);
    if registered.is_empty() {
        return;
    }
    // What could not be built may register others, or set the clock.
    let is_whole = checked.steps.iter().all(Option::is_some);
    let mut ids: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in &registered {
        let all = ids.entry(&one.env_id).or_default();
        all.extend(one.triggers.iter().map(|trigger| trigger.id.as_str()));
    }
    for one in &registered {
        if is_whole {
            after(checked, one, &ids[one.env_id.as_str()], faults);
            never(checked, one, faults);
        }
        instructions(checked, one, faults);
        calls(checked, one, faults);
    }
}

fn registered(checked: &Checked<'_>, step: StepIx, built: &dyn Step) -> Option<Registered> {
    if checked.task.steps[step.at()].kind != "register_env_triggers" {
        return None;
    }
    // With the ids of those that are given none.
    let fields = built.fields();
    let field = |key: &str| fields.get(key).filter(|value| !value.is_null());
    let env_id = field("env_id")?.as_str()?.to_owned();
    if has_placeholder(&env_id) {
        return None;
    }
    let executor = field("executor_agent_name").and_then(Value::as_str);
    Some(Registered {
        step,
        env_id,
        has_executor: executor.is_some_and(|name| !name.is_empty()),
        triggers: read_triggers(&json!(field("triggers")?)).ok()?,
    })
}

/// Looks at the triggers that fire after another.
fn after(
    checked: &Checked<'_>,
    one: &Registered,
    ids: &BTreeSet<&str>,
    faults: &mut Vec<Diagnostic>,
) {
    let behind = |trigger: &Trigger| match &trigger.when {
        When::Time(rule) => match &rule.start {
            Start::After { trigger, .. } => Some(trigger.clone()),
            _ => None,
        },
        _ => None,
    };
    for (ix, trigger) in one.triggers.iter().enumerate() {
        let Some(other) = behind(trigger) else {
            continue;
        };
        let place = checked
            .places
            .field_or_kind(one.step, &format!("/triggers/{ix}/when/after"));
        let source = checked.places.source();
        if !ids.contains(other.as_str()) {
            let headline = format!(
                "trigger `{}` fires after `{other}`, which no step registers with env `{}`",
                trigger.id, one.env_id
            );
            let known = ids.iter().copied().filter(|id| *id != trigger.id);
            faults.push(
                Diagnostic::error("unknown-name", headline)
                    .primary(source, place, "no trigger has this id")
                    .help(did_you_mean(&other, known)),
            );
            continue;
        }
        // From one to the one that it waits for, until there is none or the way leads back.
        let mut seen = BTreeSet::from([trigger.id.clone()]);
        let mut at = Some(other);
        while let Some(id) = at {
            if !seen.insert(id.clone()) {
                if id == trigger.id {
                    let headline = format!(
                        "trigger `{}` fires after itself, so it never does",
                        trigger.id
                    );
                    faults.push(
                        Diagnostic::error("trigger-never-fires", headline)
                            .primary(source, place, "it waits for this one")
                            .help("name a trigger that something else sets off"),
                    );
                }
                break;
            }
            at = one
                .triggers
                .iter()
                .find(|other| other.id == id)
                .and_then(behind);
        }
    }
}

/// Tells of triggers that wait for a time where no step sets a clock.
fn never(checked: &Checked<'_>, one: &Registered, faults: &mut Vec<Diagnostic>) {
    let sets = |kind: &str| kind.contains("universe") || kind.contains("server_config");
    let has_clock = checked.built().any(|(step, built)| {
        built.sets_clock().is_some_and(|(env, _)| env == one.env_id)
            || sets(&checked.task.steps[step.at()].kind)
    });
    if has_clock {
        return;
    }
    for (ix, trigger) in one.triggers.iter().enumerate() {
        if !matches!(trigger.when, When::Time(_)) {
            continue;
        }
        let headline = format!(
            "trigger `{}` waits for a time, and no step sets a clock for env `{}`, so it never fires",
            trigger.id, one.env_id
        );
        let place = checked
            .places
            .field_or_kind(one.step, &format!("/triggers/{ix}/when"));
        faults.push(
            Diagnostic::warning("trigger-never-fires", headline)
                .primary(checked.places.source(), place, "")
                .help(format!(
                    "add a `sync_env_clock` step for env `{}`, and let step `{}` depend on it",
                    one.env_id,
                    checked.id(one.step)
                )),
        );
    }
}

/// Tells of instructions that nobody follows.
fn instructions(checked: &Checked<'_>, one: &Registered, faults: &mut Vec<Diagnostic>) {
    for (ix, trigger) in one.triggers.iter().enumerate() {
        for (at, action) in trigger.actions.iter().enumerate() {
            if one.has_executor || !matches!(action.deed, Deed::Instruct { executor: None, .. }) {
                continue;
            }
            let headline = format!(
                "trigger `{}` gives an instruction, and nothing says who follows it",
                trigger.id
            );
            let place = checked
                .places
                .field_or_kind(one.step, &format!("/triggers/{ix}/actions/{at}"));
            faults.push(
                Diagnostic::error("missing-field", headline)
                    .primary(checked.places.source(), place, "no `executor` here")
                    .help("add \"executor\" to the action, or \"executor_agent_name\" to the step"),
            );
        }
    }
}

/// Looks at the calls of tools of envs that are compiled in.
fn calls(checked: &Checked<'_>, one: &Registered, faults: &mut Vec<Diagnostic>) {
    let spec = EnvSpec::of(&one.env_id, checked.folder, &checked.config.envs);
    let Ok(EnvRun::Builtin { name }) = spec.map(|spec| spec.run) else {
        return;
    };
    let Some(tools) = checked.env_tools.get(&name) else {
        return;
    };
    let look = |at: String, tool: &str| {
        let places = checked.places;
        let call = Called {
            env: &one.env_id,
            tool,
            tool_span: places.field_or_kind(one.step, &format!("{at}/tool")),
            arguments: places.written(one.step, &format!("{at}/args")),
            source: places.source(),
            hole: "${",
        };
        call.faults(tools)
    };
    for (ix, trigger) in one.triggers.iter().enumerate() {
        for (at, action) in trigger.actions.iter().enumerate() {
            let is_known = |tool: &str| tools.iter().any(|known| known["name"] == tool);
            if let Deed::Call { tool, .. } = &action.deed
                && is_known(tool)
            {
                faults.extend(look(format!("/triggers/{ix}/actions/{at}"), tool));
            }
        }
        // Those that it waits for, calls or permits are told of by its step.
        let is_told = |tool: &str| {
            let waits = matches!(&trigger.when, When::Action(watch) if watch.tool == tool);
            waits
                || trigger.actions.iter().any(|action| match &action.deed {
                    Deed::Instruct { .. } => false,
                    Deed::Call { tool: called, .. } => called == tool,
                    Deed::Permit { tools, .. } => tools.iter().any(|named| named == tool),
                })
        };
        for tool in trigger.tools().into_iter().filter(|tool| !is_told(tool)) {
            let names = || tools.iter().filter_map(|tool| tool.get("name")?.as_str());
            if tool == "*" || CLOCK_TOOLS.contains(&tool) || names().any(|name| name == tool) {
                continue;
            }
            let headline = format!(
                "trigger `{}` names tool `{tool}`, which env `{}` does not have",
                trigger.id, one.env_id
            );
            let places = checked.places;
            let at = format!("/triggers/{ix}");
            let written = places.written(one.step, &at);
            let span = written.and_then(|node| span_of_text(node, tool));
            let span = span.unwrap_or_else(|| places.field_or_kind(one.step, &at));
            let fault = Diagnostic::error("unknown-tool", headline)
                .primary(places.source(), span, "no such tool")
                .help(did_you_mean(tool, names()));
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
}

/// Returns where a text stands in a value.
fn span_of_text(node: &Node, text: &str) -> Option<Span> {
    match &node.kind {
        NodeKind::String(found) if found == text => Some(node.span),
        NodeKind::Array(items) => items.iter().find_map(|item| span_of_text(item, text)),
        NodeKind::Object(members) => {
            let mut values = members.iter().map(|member| &member.value);
            values.find_map(|value| span_of_text(value, text))
        }
        _ => None,
    }
}

/// Looks at the triggers of who plays a user: those of envs are known to nobody else than who works on the envs.
fn talks(checked: &Checked<'_>, registered: &[Registered], faults: &mut Vec<Diagnostic>) {
    let text = |step: StepIx, key: &str| {
        let fields = &checked.task.steps[step.at()].fields;
        fields.get(key).and_then(Value::as_str)
    };
    let is_whole = checked.steps.iter().all(Option::is_some);
    let mut users: Vec<(StepIx, &str, Talking)> = Vec::new();
    for (step, _) in checked.built() {
        let declared = &checked.task.steps[step.at()];
        if declared.kind != "register_agent_triggers" {
            continue;
        }
        let triggers = declared.fields.get("triggers");
        let triggers = triggers.and_then(|triggers| read_talk_triggers(triggers).ok());
        if let (Some(name), Some(triggers)) = (text(step, "agent_name"), triggers) {
            users.push((step, name, Talking::new(triggers)));
        }
    }
    if users.is_empty() || !is_whole {
        return;
    }
    for (step, name, triggers) in &users {
        for (env, id) in triggers.env_triggers() {
            let of_env = || registered.iter().filter(|one| one.env_id == env);
            let ids = |one: &Registered| -> Vec<String> {
                one.triggers
                    .iter()
                    .map(|trigger| trigger.id.clone())
                    .collect()
            };
            let has_it = |one: &Registered| one.triggers.iter().any(|trigger| trigger.id == id);
            let is_before = |one: &Registered| checked.graph.is_ancestor(one.step, *step);
            if has_placeholder(env)
                || has_placeholder(id)
                || of_env().any(|one| has_it(one) && is_before(one))
            {
                continue;
            }
            let places = checked.places;
            let span = places
                .written(*step, "/triggers")
                .and_then(|node| span_of_text(node, id))
                .unwrap_or_else(|| places.field_or_kind(*step, "/triggers"));
            let headline = format!(
                "a trigger of `{name}` waits for trigger `{id}` of env `{env}`, which no step before registers"
            );
            let known: Vec<String> = of_env().flat_map(ids).collect();
            let near = did_you_mean(id, known.iter().map(String::as_str));
            let later = of_env().find(|one| has_it(one)).map(|one| {
                format!(
                    "let step `{}` depend on step `{}`",
                    checked.id(*step),
                    checked.id(one.step)
                )
            });
            faults.push(
                Diagnostic::error("unknown-name", headline)
                    .primary(places.source(), span, "no such trigger")
                    .help(later.or(near)),
            );
        }
    }
    let mut envs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, built) in checked.built() {
        if let Some(Deploys::Agent {
            agent_name,
            env_ids,
            ..
        }) = built.deploys()
        {
            envs.entry(agent_name).or_default().extend(env_ids);
        }
    }
    for (step, built) in checked.built() {
        let declared = &checked.task.steps[step.at()];
        let turns = declared.fields.get("max_conversation_turns");
        // With what holds where the step says nothing.
        let fields = built.fields();
        let name = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let (agent, user) = (name("agent_name"), name("user_agent_name"));
        if declared.kind != "prompt_agent" || turns.and_then(Value::as_u64).is_none_or(|n| n < 2) {
            continue;
        }
        for (registering, name, triggers) in &users {
            if *name != user || !checked.graph.is_ancestor(*registering, step) {
                continue;
            }
            let worked_on = |env: &&str| {
                let of = |name: &str| {
                    envs.get(name)
                        .is_some_and(|all| all.iter().any(|one| one == env))
                };
                of(agent) || of(user)
            };
            let all = triggers.envs().into_iter();
            for env in all.filter(|env| !has_placeholder(env) && !worked_on(env)) {
                let headline = format!(
                    "a trigger of `{user}` waits for one of env `{env}`, on which nobody in the conversation works"
                );
                let places = checked.places;
                faults.push(
                    Diagnostic::error("unknown-name", headline)
                        .primary(
                            places.source(),
                            places.field_or_kind(*registering, "/triggers"),
                            "",
                        )
                        .label(places.source(), places.kind(step), "the conversation")
                        .help(format!(
                            "add \"{env}\" to the `env_ids` of `{agent}` or of `{user}`"
                        )),
                );
            }
        }
    }
}
