//! Agents, spaces and people, created and changed from the command line against a real server.

use crate::world::{Server, run, run_with};

#[test]
fn agents_people_and_spaces_are_created_changed_and_ended() {
    let server = Server::start();
    let file = server.dir.path().join("bob.txt");
    std::fs::write(&file, "You are Bob.\n").unwrap();
    let file = file.to_str().unwrap();
    let mut all = String::new();
    for args in [
        &["agents", "create", "bob", "-f", file, "--description", "helps out"][..],
        &["agents", "create", "bob"],
        &["agents"],
        &["agents", "set", "bob", "limits.max_steps=5", "display_name=Bob B.", "tools=send_message,done"],
        &["agents", "set", "bob", "limits.max_steps="],
        &["agents", "set", "bob", "limts.max_steps=5"],
        &["agents", "set", "bob", "limits.max_steps=many"],
        &["agents", "set", "bob", "nonsense"],
        &["entities", "add", "husam", "--display-name", "Husam"],
        &["entities", "--kind", "human"],
        &["keys", "add", "person", "--entity", "bob"],
        &["keys", "add", "person", "--entity", "husam"],
        &["spaces", "open", "garden", "--members", "owner,bob", "--description", "plants"],
        &["spaces", "open", "garden"],
        &["spaces", "add", "garden", "husam", "--role", "gardener"],
        &["spaces", "set", "garden", "wake_on=mention", "description=plants and tools"],
        &["spaces", "set", "garden", "wake_on=sometimes"],
        &["spaces", "set", "garden", "name=x"],
        &["spaces", "set", "garden", "mention"],
        &["spaces", "open", "attic", "--wake-on", "never"],
        &["spaces", "open", "attic", "--wake-on", "mention"],
        &["spaces", "set", "attic", "wake_on=", "display_name="],
        &["spaces", "members", "garden"],
        &["spaces"],
        &["spaces", "read", "garden"],
        &["spaces", "read"],
        &["spaces", "remove", "garden", "husam", "husam"],
        &["spaces", "close", "garden", "--yes"],
        &["spaces", "reopen", "garden"],
        &["spaces", "close", "garden", "--yes"],
        &["spaces", "--all"],
        &["agents", "suspend", "bob"],
        &["agents", "--state", "suspended"],
        &["agents", "resume", "bob"],
        &["agents", "cancel", "bob"],
        &["memories", "bob", "set", "city", "Rome"],
        &["memories", "bob", "set", "tea", "green, no sugar"],
        &["memories", "bob", "set", "--pinned", "--importance", "high", "tea", "green, no sugar"],
        &["memories", "bob", "set", "cup", "the blue one", "--importance", "low"],
        &["memories", "bob", "set", "cup", "the blue one", "--importance", "urgent"],
        &["memories", "bob", "set", "two\nlines", "x"],
        &["memories", "bob"],
        &["memories", "bob", "rm", "city"],
        &["memories", "bob", "rm", "city"],
        &[
            "plans",
            "add",
            "bob",
            "report",
            "post a summary",
            "--at",
            "2030-03-01T09:00",
            "--zone",
            "Europe/Berlin",
        ],
        &["plans", "add", "bob", "leap", "jump", "--cron", "0 12 29 2 *", "--missed", "once"],
        &["plans", "add", "bob", "leap", "jump", "--cron", "0 12 29 2 *", "--missed", "skip"],
        &["plans", "add", "bob", "x", "y", "--cron", "0 9 * * *", "--zone", "Berlin"],
        &["plans", "add", "bob", "x", "y", "--cron", "0 0 30 2 *"],
        &["plans", "add", "bob", "x", "y", "--every", "1s"],
        &["plans", "add", "bob", "x", "y", "--every", "1h", "--after", "5m"],
        &["plans", "add", "bob", "x", "y"],
        &["plans", "next", "bob", "leap", "-n", "2"],
        &["plans", "next", "bob", "nothing"],
        &["plans", "rm", "bob", "leap"],
        &["plans", "rm", "bob", "leap"],
        &["agents", "clone", "bob", "carl", "--memories"],
        &["memories", "carl", "list"],
        &["memories", "carl", "set", "--pinned=false", "tea"],
        &["memories", "carl", "set", "tea"],
        &["memories", "carl"],
        &["agents", "clone", "bob", "carl"],
        &["agents", "retire", "bob"],
        &["agents", "retire", "bob", "--yes"],
        &["agents", "--all"],
        &["agents", "--all", "suspend", "bob"],
        &["agents", "--state", "tired"],
    ] {
        let shown = args.join(" ").replace(file, "bob.txt");
        all.push_str(&format!("$ viv {shown}\n{}\n", server.run(args).shown()));
    }
    // The width of a column depends on an age.
    let all: Vec<String> = all.lines().map(|line| line.trim_end().to_owned()).collect();
    insta::assert_snapshot!("manage", all.join("\n"));
}

#[test]
fn a_created_key_gives_its_person_access() {
    let server = Server::start();
    assert_eq!(server.run(&["entities", "add", "husam"]).code, 0);
    assert_eq!(server.run(&["spaces", "add", "home", "husam"]).code, 0);
    let created = server.run(&["keys", "add", "person", "--entity", "husam", "--quiet"]);
    assert_eq!((created.code, created.err.as_str()), (0, ""), "{}", created.shown());
    let settings = [("VIV_URL", server.url()), ("VIV_KEY", created.out.trim())];
    let elsewhere = tempfile::tempdir().unwrap();
    let ran = run_with(elsewhere.path(), &["say", "it is me"], "", &settings);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(server.run(&["spaces", "read", "home"]).out.contains("husam: it is me"));
}

#[test]
fn quiet_prints_only_results_and_errors() {
    let server = Server::start();
    let loud = server.run(&["say", "--wait", "hello"]);
    let quiet = server.run(&["say", "--wait", "--quiet", "hello"]);
    assert!(loud.err.contains("demo"), "{}", loud.shown());
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""), "{}", quiet.shown());
    assert!(quiet.out.starts_with("Ada: "), "{}", quiet.shown());
    let failed = server.run(&["-q", "show", "agent", "nobody"]);
    assert!(failed.err.starts_with("error: ") && failed.err.contains("\nhint: "), "{}", failed.shown());
}

#[test]
fn completions_and_man_pages_are_generated_from_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(dir.path(), &["completions", shell]);
        assert!(ran.code == 0 && ran.out.contains("agents") && ran.err.is_empty(), "{shell}");
    }
    assert_eq!(run(dir.path(), &["completions", "tcsh"]).code, 2);
    let page = run(dir.path(), &["man"]);
    let title = |name: &str| format!(".TH {name} 1  \"viv {}\"", env!("CARGO_PKG_VERSION"));
    assert!(page.code == 0 && page.out.contains(&title("viv")), "{}", page.shown());
    let man = dir.path().join("man1");
    let ran = run(dir.path(), &["man", "--dir", man.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let show_run = std::fs::read_to_string(man.join("viv-runs-show.1")).unwrap();
    assert!(show_run.contains("step by step") && show_run.contains("viv runs show ada"), "{show_run}");
    let keys_add = std::fs::read_to_string(man.join("viv-keys-add.1")).unwrap();
    assert!(keys_add.contains(&title("viv-keys-add")), "{keys_add}");
    assert!(keys_add.contains("[OPTIONS] <SCOPE>"), "{keys_add}");
    let blocked = dir.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    assert_eq!(run(dir.path(), &["man", "--dir", blocked.to_str().unwrap()]).code, 1);
}

/// What bash offers for the last word of the line.
fn offered(line: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a-file"), "").unwrap();
    let script = run(dir.path(), &["completions", "bash"]).out;
    let ask = format!(
        "{script}\nCOMP_WORDS=({line} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1))\n\
         _viv viv '' \"${{COMP_WORDS[COMP_CWORD-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    // Too long for an argument.
    let asking = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(asking.path(), ask).unwrap();
    let mut bash = std::process::Command::new("bash");
    let output = bash.arg(asking.path()).current_dir(dir.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn completions_offer_files_only_where_a_file_is_wanted() {
    assert!(offered("viv say --agent").is_empty(), "{:?}", offered("viv say --agent"));
    assert!(offered("viv memories").is_empty(), "{:?}", offered("viv memories"));
    assert!(offered("viv memories ada").contains(&"set".to_owned()));
    assert_eq!(offered("viv agents create bob --file"), ["a-file"]);
    assert!(offered("viv keys").contains(&"rotate".to_owned()));
}

#[test]
fn help_is_grouped_and_viv_alone_shows_first_steps() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for args in [
        &[][..],
        &["runs", "--help"],
        &["agents", "set", "--help"],
        &["agent"],
        &["scenario"],
        &["runs", "show", "--json", "a", "b"],
    ] {
        all.push_str(&format!("$ viv {}\n{}\n", args.join(" "), run(dir.path(), args).shown()));
    }
    insta::assert_snapshot!("help", all.replace(dir.path().to_str().unwrap(), "<dir>"));
}

#[test]
fn instructions_are_read_from_a_file_when_an_agent_is_created() {
    let server = Server::start();
    let file = server.dir.path().join("bob.txt");
    std::fs::write(&file, "You are Bob.\n").unwrap();
    let at_file = format!("@{}", file.display());
    let created = server.run(&["agents", "create", "bob", "--instructions", &at_file, "--json"]);
    assert_eq!(created.code, 0, "{}", created.shown());
    let agent: serde_json::Value = serde_json::from_str(&created.out).unwrap();
    assert_eq!(agent["config"]["instructions"], "You are Bob.");
    let missing = server.run(&["agents", "create", "cai", "--instructions", "@nowhere.txt"]);
    assert!(missing.code == 2 && missing.err.contains("nowhere.txt"), "{}", missing.shown());
}
