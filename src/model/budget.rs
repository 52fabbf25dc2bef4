//! What a run spends on models, and what it may spend.

use std::sync::Mutex;

use super::price;
use crate::step::model::{ModelError, Usage};
use crate::system::locked;
use crate::task::model::ModelSpec;

/// What a run may spend on models; what is under way when a limit is reached still ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// US dollars.
    pub max_cost_usd: Option<f64>,
    /// Tokens, read and written.
    pub max_tokens: Option<u64>,
}

/// What is spent, held against the limits.
#[derive(Default)]
pub(super) struct Budget {
    limits: Limits,
    spent: Mutex<Usage>,
    reached: Mutex<Option<String>>,
    /// Why nobody knows what is spent.
    unknown: Mutex<Option<String>>,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Self {
        Budget {
            limits,
            ..Budget::default()
        }
    }

    pub(super) fn spent(&self) -> Usage {
        *locked(&self.spent)
    }

    pub(super) fn reached(&self) -> Option<String> {
        locked(&self.reached).clone()
    }

    /// Counts a request that is sent or needs not be.
    pub(super) fn count(&self, one: &Usage) {
        locked(&self.spent).add(one);
    }

    /// Adds what an answer cost; its request is counted already.
    pub(super) fn add(&self, spec: &ModelSpec, usage: &Usage) {
        locked(&self.spent).add(&Usage {
            requests: 0,
            retried: 0,
            cached: 0,
            ..*usage
        });
        // What nobody reports is not 0, so no limit can be held with it.
        let unknown = match (self.limits.max_cost_usd, self.limits.max_tokens) {
            (Some(max), _) if usage.cost_usd.is_none() => format!("`--max-cost {max}`"),
            (_, Some(max)) if usage.input_tokens.is_none() || usage.output_tokens.is_none() => {
                format!("`--max-tokens {max}`")
            }
            _ => return,
        };
        let name = &spec.name;
        let limit = format!("{unknown} (nobody knows how much is spent: `{name}` does not say it)");
        locked(&self.unknown).get_or_insert(limit);
    }

    /// Refuses a request once a limit is reached, and one whose price nobody knows where dollars are limited.
    pub(super) fn check(&self, spec: &ModelSpec) -> Result<(), ModelError> {
        let spent = self.spent();
        if let Some(limit) = locked(&self.unknown).clone() {
            return Err(self.over(spec, limit));
        }
        if let Some(max) = self.limits.max_cost_usd {
            if price::of(spec).is_none() {
                return Err(ModelError::NotSetUp {
                    model: spec.name.clone(),
                    why: format!(
                        "`--max-cost` limits the dollars, and nobody knows its price; add `input_price_per_mtok` and \
                         `output_price_per_mtok` to [models.{}] of aebuild.toml",
                        spec.name
                    ),
                });
            }
            let cost = spent.cost_usd.unwrap_or(0.0);
            if cost >= max {
                return Err(self.over(spec, format!("`--max-cost {max}` ({cost:.4} USD spent)")));
            }
        }
        if let Some(max) = self.limits.max_tokens {
            let read = spent.input_tokens.unwrap_or(0);
            let tokens = read.saturating_add(spent.output_tokens.unwrap_or(0));
            if tokens >= max {
                return Err(self.over(spec, format!("`--max-tokens {max}` ({tokens} spent)")));
            }
        }
        Ok(())
    }

    fn over(&self, spec: &ModelSpec, limit: String) -> ModelError {
        locked(&self.reached).get_or_insert_with(|| limit.clone());
        ModelError::OverBudget {
            model: spec.name.clone(),
            limit,
        }
    }
}
