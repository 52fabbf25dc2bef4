//! The database of the planner.

use std::sync::{Arc, Mutex};

use crate::step::Registry;

/// What queries ask of the database besides their inputs.
#[salsa::db]
pub trait Db: salsa::Database {
    /// Returns the step types.
    fn registry(&self) -> Registry;
}

/// The planner's memory.
#[salsa::db]
#[derive(Clone)]
pub struct Database {
    storage: salsa::Storage<Self>,
    registry: Registry,
    executed: Arc<Mutex<Option<Vec<String>>>>,
}

impl Database {
    /// Returns an empty database that knows these step types.
    pub fn new(registry: Registry) -> Self {
        let executed: Arc<Mutex<Option<Vec<String>>>> = Arc::default();
        let log = executed.clone();
        let storage = salsa::Storage::new(Some(Box::new(move |event: salsa::Event| {
            if let salsa::EventKind::WillExecute { database_key } = event.kind {
                let mut log = log.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                if let Some(log) = log.as_mut() {
                    log.push(format!("{database_key:?}"));
                }
            }
        })));
        Database {
            storage,
            registry,
            executed,
        }
    }

    /// Runs something and returns the names of the queries that it executed, in order.
    pub fn executed_by<T>(&self, run: impl FnOnce(&Self) -> T) -> (T, Vec<String>) {
        self.listen();
        let value = run(self);
        (value, self.heard())
    }

    /// Notes from now on which queries are executed.
    pub fn listen(&self) {
        *self.log() = Some(Vec::new());
    }

    /// Returns the names of the queries that were executed since [`Database::listen`], in order.
    pub fn heard(&self) -> Vec<String> {
        let executed = self.log().take().unwrap_or_default();
        let name = |key: String| key.split('(').next().unwrap_or_default().to_owned();
        executed.into_iter().map(name).collect()
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Option<Vec<String>>> {
        self.executed
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[salsa::db]
impl salsa::Database for Database {}

#[salsa::db]
impl Db for Database {
    fn registry(&self) -> Registry {
        self.registry
    }
}
