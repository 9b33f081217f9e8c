//! Copies of a server that is in use.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use e2e::client::{Client, HttpAnswer};

use crate::server::{Harness, at_home, say, settled, until, words};

/// Who speaks at the same time.
const SPEAKERS: usize = 4;
/// Answered words before a copy is begun.
const BEFORE: usize = 60;

/// What was answered so far, by number.
#[derive(Default)]
struct Load {
    next: AtomicU64,
    over: AtomicBool,
    answered: Mutex<BTreeSet<u64>>,
}

impl Load {
    fn answered(&self) -> BTreeSet<u64> {
        self.answered.lock().unwrap().clone()
    }

    async fn speak(self: Arc<Self>, client: Client) {
        while !self.over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
            let said = say(&client, &spoken(number)).await;
            if matches!(said, Some(HttpAnswer::Fresh(_))) {
                self.answered.lock().unwrap().insert(number);
            }
        }
    }
}

fn spoken(number: u64) -> serde_json::Value {
    words(&format!("SKIP t-{number:06}-t"), number.into())
}

async fn viv(house: &Harness, args: &[&str]) -> Output {
    let mut command = Command::new(&house.launch.viv);
    command.args(args).arg("--json").stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_busy_house_has_all_that_was_answered_before_it_began_and_can_be_lived_in() {
    let mut house = Harness::new().await;
    let (mut life, client) = house.start(&vec![]).await;
    let load = Arc::new(Load::default());
    let speakers: Vec<_> =
        (0..SPEAKERS).map(|_| tokio::spawn(Arc::clone(&load).speak(client.clone()))).collect();
    until("the load", async || load.answered().len(), |answered| *answered >= BEFORE).await;
    let before = load.answered();
    let path = |name: &str| house.dir.path().join(name).display().to_string();
    let (data, copy, restored) = (path("data"), path("copy.db"), path("restored"));
    let backup = viv(&house, &["backup", &copy, "--data-dir", &data]).await;
    assert!(backup.status.success(), "{backup:?}");
    let after = load.answered();
    load.over.store(true, Ordering::Relaxed);
    for speaker in speakers {
        speaker.await.unwrap();
    }
    assert!(after.len() > before.len(), "nobody spoke while it was copied");
    life.kill().unwrap();

    let done = viv(&house, &["restore", &copy, "--data-dir", &restored]).await;
    assert!(done.status.success(), "{done:?}");
    house.launch.data_dir = restored.into();
    assert_eq!(house.launch.verify().unwrap(), None);
    let (mut life, client) = house.start(&vec![]).await;
    for number in &before {
        let again = say(&client, &spoken(*number)).await;
        assert!(matches!(again, Some(HttpAnswer::Known(_))), "{number} was answered before: {again:?}");
    }
    let there = at_home(&client).await.iter().filter(|words| words.call.is_none()).count();
    assert!(there >= before.len());
    settled(&client, there).await;
    life.kill().unwrap();
    assert_eq!(house.launch.verify().unwrap(), None);
}
