//! The archive from the command line: searched while the server runs, and its index rebuilt while it does not.

use serde_json::json;

use crate::world::{Server, run};

/// Searches until the index has caught up, which takes a quarter of a second.
const TRIES: u32 = 200;

fn found(server: &Server, args: &[&str]) -> Vec<serde_json::Value> {
    for _ in 0..TRIES {
        let ran = server.run(&[args, &["--json"][..]].concat());
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let items = ran.json()["items"].as_array().unwrap().clone();
        if !items.is_empty() {
            return items;
        }
    }
    panic!("{args:?} finds nothing");
}

#[test]
fn an_archive_is_searched_and_its_index_is_rebuilt() {
    let server = Server::start();
    assert_eq!(server.run(&["agents", "create", "bob"]).code, 0);
    assert_eq!(server.run(&["memories", "bob", "set", "boiler", "leaks since May"]).code, 0);
    let memory = found(&server, &["recall", "bob", "LEAKS", "--kind", "memory", "--from", "1h"]);
    assert_eq!(
        (&memory[0]["key"], &memory[0]["text"]),
        (&json!("boiler"), &json!("boiler: leaks since May"))
    );
    let shown = server.run(&["recall", "bob", "when does it leak"]);
    assert_eq!((shown.code, shown.out.trim()), (0, "`bob` finds nothing"));
    let shown = server.run(&["recall", "bob", "boiler"]);
    assert!(shown.out.contains("memory") && shown.out.contains("leaks since May"), "{}", shown.shown());
    assert_eq!(server.run(&["recall", "bob", "boiler", "--kind", "dream"]).code, 2);
    assert_eq!(server.run(&["recall", "bob", "boiler", "--to", "someday"]).code, 2);
    let this_year = ["recall", "bob", "boiler", "--from", "2026-01-01", "--to", "9998-01-01T10:00"];
    assert_eq!(found(&server, &this_year).len(), 1);
    assert_eq!(server.run(&["recall", "nobody", "boiler"]).code, 4);
    let ran = server.run(&["recall", "bob", "boiler", "--space", "attic"]);
    assert!(
        ran.code == 4 && ran.err.contains("no space that the agent can search is called `attic`"),
        "{}",
        ran.shown()
    );
    assert_eq!(server.run(&["memories", "bob", "set", "boiler 2", "is new"]).code, 0);
    assert!((0..TRIES).any(|_| found(&server, &["recall", "bob", "boiler"]).len() == 2));
    assert_eq!(found(&server, &["recall", "bob", "boiler", "--limit", "1"]).len(), 1);
    assert_eq!(server.run(&["recall", "bob", "boiler", "--limit", "51"]).code, 2);
    for bad in [" ", "a".repeat(5_000).as_str()] {
        let ran = server.run(&["recall", "bob", bad]);
        assert!(ran.code == 2 && ran.err.contains("wanted words to search for"), "{}", ran.shown());
    }

    let refused = server.run(&["index", "rebuild", "--json"]);
    assert_eq!((refused.code, &refused.error()["error"]["code"]), (3, &json!("data_dir_in_use")));
    let (_, dir) = server.stop();
    std::fs::write(dir.path().join("index.db"), "torn").unwrap();
    let rebuilt = run(dir.path(), &["index", "rebuild"]);
    assert_eq!((rebuilt.code, rebuilt.out.trim()), (0, "2 texts can be found, of 1 agent"));
    let server = Server::start_in(dir);
    found(&server, &["recall", "bob", "boiler"]);
}
