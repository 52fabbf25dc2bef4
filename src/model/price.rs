//! What tokens cost. The prices that are compiled in are those of the makers at the time of the release; `aebuild.toml`
//! counts more. A model that neither knows has no price, which is not the price 0.

use std::sync::LazyLock;

use crate::json::{Value, from_slice};
use crate::step::model::Usage;
use crate::task::model::ModelSpec;

/// The prices of a million tokens, read and written, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Price {
    pub(super) input: f64,
    pub(super) output: f64,
}

static PRICES: LazyLock<Vec<(String, Price)>> = LazyLock::new(|| {
    let table: Value = from_slice(include_bytes!("prices.json")).unwrap_or_default();
    let rows = table.get("models").and_then(Value::as_object);
    let rows = rows.into_iter().flatten().filter_map(|(name, pair)| {
        let (input, output) = (pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?);
        Some((name.clone(), Price { input, output }))
    });
    rows.collect()
});

/// Returns the price of a model.
pub(super) fn of(spec: &ModelSpec) -> Option<Price> {
    let known = built_in(&spec.model);
    let input = spec.input_price_per_mtok.or(known.map(|price| price.input));
    let output = spec
        .output_price_per_mtok
        .or(known.map(|price| price.output));
    Some(Price {
        input: input?,
        output: output?,
    })
}

/// Returns the price of a model of the table: the one of its id, a date at its end or not.
fn built_in(model: &str) -> Option<Price> {
    let model = model.rsplit('/').next().unwrap_or(model);
    let is_it = |name: &str| match model.strip_prefix(name) {
        Some("") => true,
        Some(rest) => {
            let date = rest.strip_prefix(['-', '@']).unwrap_or_default();
            let is_date = |c: char| c.is_ascii_digit() || c == '-';
            date == "latest" || (date.len() >= 8 && date.chars().all(is_date))
        }
        None => false,
    };
    let found = PRICES.iter().find(|(name, _)| is_it(name));
    found.map(|(_, price)| *price)
}

/// Adds the cost of the tokens, where it is known; `billed` is how many are paid for as read at the full price. What the endpoint itself says of its cost stands, unless `aebuild.toml`
/// names a price.
pub(super) fn add_cost(spec: &ModelSpec, usage: &mut Usage, billed: Option<f64>) {
    let is_set = spec.input_price_per_mtok.is_some() && spec.output_price_per_mtok.is_some();
    if usage.cost_usd.is_some() && !is_set {
        return;
    }
    usage.cost_usd = of(spec).and_then(|price| {
        let (read, written) = (billed?, usage.output_tokens?);
        Some((read * price.input + written as f64 * price.output) / 1e6)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use std::collections::BTreeMap;

    fn spec(model: &str, table: Value) -> ModelSpec {
        let tables = BTreeMap::from([(model.to_owned(), table)]);
        ModelSpec::of(model, &tables, &|_| None)
    }

    #[test]
    fn a_price_is_known_with_and_without_a_date_and_a_key_counts_more() {
        let known = of(&spec("claude-haiku-4-5", json!({})));
        assert!(known.is_some());
        assert_eq!(of(&spec("claude-haiku-4-5-20251001", json!({}))), known);
        assert_eq!(of(&spec("anthropic/claude-haiku-4-5", json!({}))), known);
        assert_eq!(of(&spec("claude-haiku-4-5-mini", json!({}))), None);
        let own = json!({"input_price_per_mtok": 2, "output_price_per_mtok": 4.0});
        let own = spec("mine", own);
        let mut usage = Usage {
            input_tokens: Some(1_000_000),
            output_tokens: Some(500_000),
            ..Usage::default()
        };
        add_cost(&own, &mut usage, Some(1e6));
        assert_eq!(usage.cost_usd, Some(4.0));
    }

    #[test]
    fn an_unknown_price_and_unknown_tokens_have_no_cost() {
        let mut usage = Usage {
            input_tokens: Some(10),
            output_tokens: Some(10),
            ..Usage::default()
        };
        add_cost(&spec("mine", json!({})), &mut usage, Some(10.0));
        assert_eq!(usage.cost_usd, None);
        let mut usage = Usage::default();
        add_cost(&spec("claude-haiku-4-5", json!({})), &mut usage, None);
        assert_eq!(usage.cost_usd, None);
    }

    #[test]
    fn every_row_of_the_table_is_a_price() {
        let table: Value = from_slice(include_bytes!("prices.json")).unwrap();
        let rows = table["models"].as_object().unwrap();
        assert!(rows.len() == PRICES.len() && rows.len() > 10);
        assert!(
            PRICES
                .iter()
                .all(|(_, price)| price.input > 0.0 && price.output > 0.0)
        );
    }
}
