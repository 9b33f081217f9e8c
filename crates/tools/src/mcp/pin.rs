//! The exact version of the package that a command runs. `npx` and `uvx` fetch the newest one at each start: a server would
//! change, and be downloaded, whenever somebody publishes something.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::config::McpServerConfig;
use super::host::McpHost;
use crate::child::Ended;

/// How long it may take to ask for a version: what is run may be downloaded for that.
const ASK_WAIT: Duration = Duration::from_secs(60);
/// A version, and what is printed around it.
const ANSWER_MAX_BYTES: u64 = 64 * 1024;
/// Options of the two programs that take a value, which is no package.
const VALUED: [&str; 8] =
    ["-c", "--call", "--python", "-p", "--with", "--index", "--index-url", "--registry"];
/// Prints the version of the package that is named as the first argument.
const INSTALLED: &str = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))";

/// What runs the package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Npx,
    Uvx,
}

/// The package of a command: which argument names it, and what stands before the name there.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    runner: Runner,
    at: usize,
    before: &'static str,
    spec: String,
}

impl Package {
    /// The error says why nothing can be pinned.
    fn of(command: &[String]) -> Result<Self, String> {
        let program = command.first().map(String::as_str).unwrap_or_default();
        let runner = match Path::new(program).file_name().and_then(|name| name.to_str()) {
            Some("npx") => Runner::Npx,
            Some("uvx") => Runner::Uvx,
            _ => return Err(format!("only packages that `npx` or `uvx` run can be pinned, not `{program}`")),
        };
        let named: &[&str] = if runner == Runner::Npx { &["--package", "-p"] } else { &["--from"] };
        let mut at = 1;
        while let Some(word) = command.get(at) {
            let joined = if runner == Runner::Npx { "--package=" } else { "--from=" };
            if let Some(spec) = word.strip_prefix(joined) {
                return Ok(Self { runner, at, before: joined, spec: spec.to_owned() });
            }
            if named.contains(&word.as_str()) {
                at += 1;
                break;
            }
            if !word.starts_with('-') {
                break;
            }
            at += if VALUED.contains(&word.as_str()) { 2 } else { 1 };
        }
        let spec = command.get(at).ok_or_else(|| format!("`{program}` is given no package"))?.clone();
        if spec.contains("://") || spec.starts_with(['.', '/', '~']) || spec.starts_with("git") {
            return Err(format!("`{spec}` is no package of a registry"));
        }
        Ok(Self { runner, at, before: "", spec })
    }

    /// Its name without a version; of a scoped one the scope belongs to the name.
    fn name(&self) -> &str {
        let end = match self.runner {
            Runner::Npx => self.spec.get(1..).and_then(|rest| rest.find('@')).map(|at| at + 1),
            Runner::Uvx => self.spec.find(['@', '=', '<', '>', '~', '!', ' ']),
        };
        self.spec[..end.unwrap_or(self.spec.len())].trim_end()
    }

    fn is_exact(&self) -> bool {
        let version = self.spec[self.name().len()..].trim_start_matches(['@', '=']).trim();
        let is_plain = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_digit()) && !part.contains(['x', '*', ' ', ','])
        };
        version.split('.').count() >= 3 && version.split('.').take(3).all(is_plain)
    }

    /// What is run to learn the version.
    fn question(&self, program: &str) -> Vec<OsString> {
        let beside = |name: &str| match program.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{name}"),
            None => name.to_owned(),
        };
        let bare = self.name().split('[').next().unwrap_or_default();
        let words: Vec<String> = match self.runner {
            Runner::Npx => {
                [&beside("npm"), "view", &self.spec, "version", "--json"].map(str::to_owned).to_vec()
            }
            Runner::Uvx => {
                [program, "--with", &self.spec.replacen('@', "==", 1), "python", "-c", INSTALLED, bare]
                    .map(str::to_owned)
                    .to_vec()
            }
        };
        words.into_iter().map(Into::into).collect()
    }

    /// The newest version of those in an answer.
    fn version(&self, answer: &str) -> Option<String> {
        let version = match self.runner {
            Runner::Npx => match serde_json::from_str(answer.trim()).ok()? {
                serde_json::Value::Array(all) => all.last()?.as_str()?.to_owned(),
                one => one.as_str()?.to_owned(),
            },
            Runner::Uvx => answer.trim().to_owned(),
        };
        Some(version).filter(|version| {
            version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains(char::is_whitespace)
        })
    }

    fn pinned(&self, version: &str) -> String {
        let at = if self.runner == Runner::Npx { "@" } else { "==" };
        format!("{}{}{at}{version}", self.before, self.name())
    }
}

/// The command of a server with the exact version of its package: the one that it would run now.
pub async fn pinned(server: &str, config: &McpServerConfig, host: &McpHost) -> Result<Vec<String>, String> {
    let command = config.command.as_deref().unwrap_or_default();
    let package = Package::of(command)?;
    if package.is_exact() {
        return Ok(command.to_owned());
    }
    let question = package.question(&command[0]);
    let asking = async {
        let home = host.home(server)?;
        let mut command = host.command(&question, &home, &[]).await?;
        // Such as where a registry is; secrets are for the server.
        command.envs(config.env.iter().filter(|(_, value)| !value.contains("{{")));
        command.printed(ANSWER_MAX_BYTES).await
    };
    let spec = &package.spec;
    let output = timeout(ASK_WAIT, asking)
        .await
        .map_err(|_| format!("nobody said within {ASK_WAIT:?} which version of `{spec}` there is"))?;
    let output = output.map_err(|error| format!("cannot ask for the version of `{spec}`: {error}"))?;
    let answer = String::from_utf8_lossy(&output.text);
    let version = package.version(&answer).filter(|_| output.ended == Ended::Exited(0));
    let version = version.ok_or_else(|| format!("cannot find the version of `{spec}`: {}", output.ended))?;
    let mut command = command.to_owned();
    command[package.at] = package.pinned(&version);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_a_command_is_found_and_pinned_where_it_is_named() {
        for (command, wanted) in [
            ("npx -y @scope/server /srv", "npx -y @scope/server@1.2.3 /srv"),
            ("/usr/bin/npx --yes server@latest", "/usr/bin/npx --yes server@1.2.3"),
            ("npx -y -p @scope/all@^1 serve --port 5", "npx -y -p @scope/all@1.2.3 serve --port 5"),
            ("npx --package=all serve", "npx --package=all@1.2.3 serve"),
            ("uvx mcp-server-git --repository /x", "uvx mcp-server-git==1.2.3 --repository /x"),
            ("uvx --python 3.12 mcp-server[all]@latest", "uvx --python 3.12 mcp-server[all]==1.2.3"),
            ("uvx --from mcp>=1 serve", "uvx --from mcp==1.2.3 serve"),
            ("uvx --from=mcp serve", "uvx --from=mcp==1.2.3 serve"),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let package = Package::of(&words).unwrap();
            assert!(!package.is_exact(), "{command}");
            let mut pinned = words.clone();
            pinned[package.at] = package.pinned("1.2.3");
            assert_eq!(pinned.join(" "), wanted);
            assert!(Package::of(&pinned).unwrap().is_exact(), "{wanted}");
        }
        for command in ["python3 server.py", "npx -y", "npx -y ./here", "uvx git+https://a.example/b"] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert!(Package::of(&words).is_err(), "{command}");
        }
    }

    #[test]
    fn a_version_is_read_from_what_the_registry_says() {
        let package = |command: &[&str]| {
            Package::of(&command.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap()
        };
        let (npx, uvx) = (package(&["npx", "a"]), package(&["uvx", "a[b]"]));
        assert_eq!(npx.version("\"1.2.3\"\n").as_deref(), Some("1.2.3"));
        assert_eq!(npx.version("[\"1.2.3\", \"1.3.0\"]").as_deref(), Some("1.3.0"));
        assert_eq!(npx.version("{\"error\": 1}"), None);
        assert_eq!(uvx.version("1.2.3\n").as_deref(), Some("1.2.3"));
        assert_eq!((uvx.version(""), uvx.version("Traceback 5")), (None, None));
        assert_eq!(uvx.question("/x/uvx").last().unwrap(), "a");
        assert_eq!(npx.question("/x/npx")[0], "/x/npm");
    }
}
