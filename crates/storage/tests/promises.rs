//! The contract tests, once in memory and inline, once on a file with the writer thread.

use std::path::PathBuf;
use std::sync::Arc;

use runtime::clock::SystemClock;
use storage::sqlite::Sqlite;
use testkit::contract::Backend;

fn backend(store: Sqlite, open: Arc<dyn Fn() -> Result<Backend, String> + Send + Sync>) -> Backend {
    let (counted, closed) = (store.clone(), store.clone());
    let ports = Arc::new(store);
    Backend {
        store: ports.clone(),
        approvals: ports.clone(),
        calls: ports.clone(),
        lookup: ports.clone(),
        registry: ports.clone(),
        reader: ports.clone(),
        tool_book: ports.clone(),
        hook_book: ports.clone(),
        target_book: ports,
        transactions: Arc::new(move || counted.stats().groups),
        close: Box::new(move || Box::pin(async move { closed.close().await.unwrap() })),
        open,
    }
}

mod in_memory {
    use super::*;

    async fn make() -> Backend {
        let open = Arc::new(|| Err("a store in memory is gone with its last handle".to_owned()));
        backend(Sqlite::in_memory(Arc::new(SystemClock::new())).unwrap(), open)
    }

    testkit::contract_tests!(make);

    /// Only here: it posts many messages.
    #[tokio::test]
    async fn a_target_with_too_many_deliveries_is_switched_off() {
        testkit::contract::targets::a_target_with_too_many_deliveries_is_switched_off(make().await).await;
    }
}

pub(crate) mod on_a_file {
    use super::*;

    /// The directory exists as long as something may open it again.
    pub(crate) fn open(dir: &Arc<tempfile::TempDir>) -> Result<Backend, String> {
        let path: PathBuf = dir.path().join("data");
        let store = Sqlite::open(&path, Arc::new(SystemClock::new())).map_err(|error| error.to_string())?;
        let dir = Arc::clone(dir);
        Ok(backend(store, Arc::new(move || open(&dir))))
    }

    async fn make() -> Backend {
        open(&Arc::new(tempfile::tempdir().unwrap())).unwrap()
    }

    testkit::contract_tests!(make);
    testkit::durable_contract_tests!(make);
}
