//! Backups of a server under load.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use e2e::client::{HttpAnswer, HttpClient};

use crate::harness::{Harness, home_messages, message_body, post, wait_for, wait_until_settled};

/// Number of concurrent senders.
const SENDERS: usize = 4;
/// Number of accepted messages before the backup begins.
const ACCEPTED_BEFORE: usize = 60;

/// The load, with the numbers of accepted messages.
#[derive(Default)]
struct Load {
    next: AtomicU64,
    stop: AtomicBool,
    accepted: Mutex<BTreeSet<u64>>,
}

impl Load {
    fn accepted(&self) -> BTreeSet<u64> {
        self.accepted.lock().unwrap().clone()
    }

    async fn send(self: Arc<Self>, client: HttpClient) {
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
            let posted = post(&client, &numbered_message(number)).await;
            if matches!(posted, Some(HttpAnswer::Created(_))) {
                self.accepted.lock().unwrap().insert(number);
            }
        }
    }
}

fn numbered_message(number: u64) -> serde_json::Value {
    message_body(&format!("SKIP t-{number:06}-t"), number.into())
}

async fn viv(harness: &Harness, args: &[&str]) -> Output {
    let mut command = Command::new(&harness.launch.viv);
    command.args(args).arg("--json").stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_has_everything_accepted_before_it_began_and_can_be_started() {
    let mut harness = Harness::new().await;
    let (mut process, client) = harness.start(&vec![]).await;
    let load = Arc::new(Load::default());
    let senders: Vec<_> =
        (0..SENDERS).map(|_| tokio::spawn(Arc::clone(&load).send(client.clone()))).collect();
    wait_for("the load", async || load.accepted().len(), |accepted| *accepted >= ACCEPTED_BEFORE).await;
    let before = load.accepted();
    let path = |name: &str| harness.dir.path().join(name).display().to_string();
    let (data, copy, restored) = (path("data"), path("copy.db"), path("restored"));
    let backup = viv(&harness, &["backup", &copy, "--data-dir", &data]).await;
    assert!(backup.status.success(), "{backup:?}");
    let after = load.accepted();
    load.stop.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.await.unwrap();
    }
    assert!(after.len() > before.len(), "nothing was accepted during the backup");
    process.kill().unwrap();

    let done = viv(&harness, &["restore", &copy, "--data-dir", &restored]).await;
    assert!(done.status.success(), "{done:?}");
    harness.launch.data_dir = restored.into();
    assert_eq!(harness.launch.verify().unwrap(), None);
    let (mut process, client) = harness.start(&vec![]).await;
    for number in &before {
        let again = post(&client, &numbered_message(*number)).await;
        assert!(matches!(again, Some(HttpAnswer::Existing(_))), "{number} was accepted before: {again:?}");
    }
    let count = home_messages(&client).await.iter().filter(|message| message.call.is_none()).count();
    assert!(count >= before.len());
    wait_until_settled(&client, count).await;
    process.kill().unwrap();
    assert_eq!(harness.launch.verify().unwrap(), None);
}
