//! Any sequence of operations against a model that fits on a page.

use std::collections::BTreeMap;

use aebuild_cache::GcOptions;
use proptest::prelude::*;

use crate::*;

#[derive(Clone, Debug)]
enum Step {
    Append {
        key: u64,
        action: u64,
        supersedes: bool,
        payload: u8,
    },
    DropAll {
        key: u64,
    },
    Put {
        byte: u8,
    },
    Flush,
    Reopen,
    Gc,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..3u64, 0..3u64, prop::bool::weighted(0.3), any::<u8>()).prop_map(
            |(key, action, supersedes, payload)| Step::Append { key, action, supersedes, payload }
        ),
        2 => (0..3u64).prop_map(|key| Step::DropAll { key }),
        2 => (0..4u8).prop_map(|byte| Step::Put { byte }),
        2 => Just(Step::Flush),
        2 => Just(Step::Reopen),
        1 => Just(Step::Gc),
        1 => Just(Step::Clear),
    ]
}

/// Per key and action: what counts, when it was stored, and whether it supersedes.
type Model = BTreeMap<(u64, u64), (String, u64, bool)>;

fn expected(model: &Model, key: u64) -> Vec<String> {
    let mut found: Vec<_> = model.iter().filter(|((of, _), _)| *of == key).collect();
    found.sort_by_key(|(_, (_, at, _))| std::cmp::Reverse(*at));
    found
        .into_iter()
        .map(|(_, (payload, ..))| payload.clone())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn look_ups_agree_with_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        let room = Room::new();
        let clock = TestClock::now();
        let open = || Cache::open_with(&room.dir, fast(), clock.hooks()).unwrap();
        let mut cache = open();
        let mut model = Model::new();
        let mut blobs = Vec::new();
        for (now, step) in steps.into_iter().enumerate() {
            clock.advance(1);
            match step {
                Step::Append { key, action, supersedes, payload } => {
                    let payload = payload.to_string();
                    let new = record(key, 100 * key + action, &payload);
                    cache.append(NewRecord { supersedes, ..new }).unwrap();
                    let is_first = !model.contains_key(&(key, action));
                    if supersedes || is_first {
                        model.insert((key, action), (payload, now as u64, supersedes));
                    }
                }
                Step::DropAll { key } => {
                    while let Some(record) = cache.by_key(&digest(key)).first() {
                        cache.drop_record(record.place).unwrap();
                    }
                    model.retain(|(of, _), _| *of != key);
                }
                Step::Put { byte } => {
                    let bytes = vec![byte; 100];
                    blobs.push((cache.put_blob(&bytes).unwrap(), bytes));
                }
                Step::Flush => cache.flush().unwrap(),
                Step::Reopen => {
                    drop(cache);
                    cache = open();
                }
                Step::Gc => {
                    cache.gc(GcOptions::default()).unwrap();
                }
                Step::Clear => {
                    cache.clear().unwrap();
                    model.clear();
                    blobs.clear();
                }
            }
            for key in 0..3 {
                prop_assert_eq!(payloads(&cache, key), expected(&model, key));
            }
            for (blob, bytes) in &blobs {
                prop_assert!(cache.get_blob(blob).as_ref() == Some(bytes));
            }
        }
        prop_assert!(cache.verify(true).unwrap().is_clean());
    }
}
