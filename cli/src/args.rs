//! Flags as types. Every help text says what a flag is for, its unit and its default.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Parser, Subcommand, ValueEnum};

use crate::command_args::{ConfigCommand, DryRun, Recover, Shell};
use crate::config_args::ConfigArgs;
use crate::engine::{self, CoreChoice};
use crate::{cores, exit};

/// Load engine and benchmark tool for LLM inference servers.
#[derive(Debug, Parser)]
#[command(name = "ringload", version, arg_required_else_help = true, after_help = exit::help())]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workflow, of a config file or of flags, against a server and write its artifacts.
    ///
    /// Flags alone make a workflow of one profiling phase; over a config file they change what it says. `-h` lists them in a line each.
    #[command(after_long_help = exit::help())]
    Profile(Box<Profile>),
    /// Work with config files without sending anything.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write the results of a run that died, from the journal that it left.
    ///
    /// A run that is killed, by a second Ctrl-C, kill -9, a lack of memory or a crash, leaves ringload.journal in its artifact directory: all records but those
    /// of its last two seconds. The results are marked as not complete, with the reason. The journal stays.
    #[command(after_long_help = exit::help())]
    Recover(Recover),
    /// Print the completions of a shell.
    Completions {
        /// The shell, with the place that it looks for them.
        shell: Shell,
    },
    /// Print the manual page of the program or of one of its commands, for example with `ringload man profile | man -l -`.
    Man {
        /// The command, as in `profile` or `config validate`.
        command: Vec<String>,
    },
    /// Print the version with the commit that it was built from, and what this build can do.
    Version,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Profile {
    /// The config file (YAML) with server, data set and phases. Flags go over it.
    #[arg(long, short = 'f', short_alias = 'c', value_name = "FILE", help_heading = "Input")]
    pub(crate) config: Option<PathBuf>,

    /// Start a mock inference server inside this process and send the load there.
    ///
    /// Without --config and --model, a bundled workflow of four phases and about ten seconds runs. The server answers each streamed
    /// request after 20 ms and then with one token each 5 ms, on a free port of 127.0.0.1. The scheme, host and port of the URL are replaced, its
    /// path is kept; an https URL is refused, for the mock speaks plain HTTP. Server and client share the machine's cores, so the figures
    /// describe the tool and not a server.
    #[arg(long, help_heading = "Input")]
    pub(crate) mock: bool,

    #[command(flatten)]
    pub(crate) flags: ConfigArgs,

    /// Threads that send load, or their processors, such as 2,4-6 [default: one per physical core of a memory node, but one].
    ///
    /// Each is pinned to a processor of its own.
    ///
    /// The processor that stays free is for everything else: coordinator, journal, control calls, console. A number takes physical cores before
    /// SMT siblings, processors of one memory node before those of several, and the last ones before the first. A list is taken as it is; one
    /// processor alone is written 3-3. Only processors in the affinity mask and the cgroup's cpuset count, and a quota bounds the default. The run
    /// says what it chose. The schedule, the prompts and every random draw are the same for any number of cores.
    #[arg(long, value_name = "N|LIST", value_parser = cores::parse, help_heading = "Engine")]
    pub(crate) cores: Option<CoreChoice>,

    /// How a core waits for its next deadline: what lateness may cost.
    ///
    /// A sleep ends 50 us late on many hosts, and that is lateness of a request. Sleeping costs nothing; spinning costs processor time, up to a
    /// whole processor per core, and heat and clock speed with it. The send lag in the artifacts shows what was reached.
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Engine")]
    pub(crate) pacing: PacingFlag,

    /// What moves the bytes: io_uring, or epoll where a host refuses it.
    ///
    /// `auto` takes io_uring and falls back to epoll with one line that says why: a seccomp profile, the sysctl kernel.io_uring_disabled, a low
    /// locked-memory limit. The artifacts record which driver ran.
    #[arg(long, value_name = "WHICH", default_value = "auto", help_heading = "Engine")]
    pub(crate) driver: DriverFlag,

    /// Addresses of this host that connections are bound to, in turn [default: the kernel chooses].
    ///
    /// One address has about 28,000 local ports for each address of the server; a load that opens more connections than that within a minute
    /// needs more addresses. An IPv6 address also chooses the IPv6 addresses of a server that has both kinds. May be repeated.
    #[arg(long, value_name = "ADDR[,ADDR...]", value_delimiter = ',', help_heading = "Engine")]
    pub(crate) source_address: Vec<IpAddr>,

    /// Cut a request that has received nothing for so long while its phase drains [default: 5m].
    ///
    /// It keeps a server that lost a request from holding up the run. A phase with a grace period ends by that instead, and a request that
    /// receives anything goes on. What is cut is in the artifacts as truncated, and in no latency.
    #[arg(long, value_name = "TIME", value_parser = engine::positive_duration, help_heading = "Engine")]
    pub(crate) drain_stall_timeout: Option<f64>,

    /// End the run when a phase has sent nothing and received no byte for so long; 0 or inf: never [default: 30m].
    ///
    /// It keeps a server that accepts requests and answers none from holding up the run for ever. A phase that will send more by itself, because an
    /// arrival or a turn is due later, goes on. Requests in flight are cut and are in the artifacts as truncated, all results are written, and the
    /// exit code is 1. After a minute without a sign of life, or half of this time, a line says so. The request timeout acts first if it is shorter.
    #[arg(long, value_name = "TIME", value_parser = engine::duration_or_never, help_heading = "Engine")]
    pub(crate) stall_timeout: Option<f64>,

    /// Trust only the root certificates of this PEM file for an https address [default: the roots that this system trusts].
    ///
    /// The load and the control hooks use them. As with `curl --cacert`, the system's roots do not count then. A server's self-signed certificate
    /// works as its own root, unless it is marked as an authority (CA:TRUE).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["insecure", "mock"], help_heading = "Endpoint")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Do not check who the server of an https address is.
    ///
    /// Anyone on the way can then read and change the requests, API key included. A warning says so on the console, and the artifacts record it.
    #[arg(long, conflicts_with = "mock", help_heading = "Endpoint")]
    pub(crate) insecure: bool,

    /// Directory of the artifacts [default: artifacts.dir of the config file, else a name under ./artifacts].
    ///
    /// It is created if need be. A directory that holds results is refused before any load, unless --overwrite is given. The bundled
    /// workflow of --mock takes the first free name of ./artifacts/mock, ./artifacts/mock-2 and so on.
    #[arg(long, alias = "artifact-dir", value_name = "DIR", help_heading = "Output",
          value_parser = PathBufValueParser::new().try_map(directory))]
    pub(crate) output_artifact_dir: Option<PathBuf>,

    /// Remove the results of an earlier run from the artifact directory first.
    ///
    /// Files that ringload did not write stay.
    #[arg(long, help_heading = "Output")]
    pub(crate) overwrite: bool,

    /// Go on with an interrupted sweep or several runs: cells that succeeded are kept.
    ///
    /// The others run. The artifact directory must be that of the earlier attempt. If what a cell runs has changed since, nothing runs and the difference is named.
    #[arg(long, conflicts_with_all = ["overwrite", "mock"], help_heading = "Sweep and trials")]
    pub(crate) resume: bool,

    /// Exit with code 4 if the client was the limit: if its verdict on itself is `invalid` in a profiling phase.
    ///
    /// The results are written and shown as always. A run that failed exits with 1 and one that was interrupted with 129, 130 or 143, whatever
    /// the verdict.
    #[arg(long, help_heading = "Engine")]
    pub(crate) fail_on_client_limited: bool,

    /// Paths of the control hooks for this server, where neither the config file nor a flag gives them.
    ///
    /// Turns no hook on.
    #[arg(long, value_name = "SERVER", help_heading = "Control hooks and readiness")]
    pub(crate) server_preset: Option<PresetFlag>,

    #[command(flatten)]
    pub(crate) dry_run: DryRun,
}

/// The words of `--driver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriverFlag {
    /// io_uring, or epoll where the host refuses it
    Auto,
    /// io_uring or nothing
    IoUring,
    /// epoll
    Epoll,
}

/// The words of `--pacing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PacingFlag {
    /// precise in open-loop phases if a processor is left beside the cores, else efficient
    Auto,
    /// sleeps until the deadline; least processor time, starts about 50 us late
    Efficient,
    /// sleeps until 80 us before the deadline, then spins; a whole processor per core from about 10,000 requests per second on
    Precise,
    /// never sleeps while there is load; the best time stamps, always a whole processor per core
    Busy,
}

/// The words of `--server-preset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PresetFlag {
    /// /reset_prefix_cache (needs VLLM_SERVER_DEV_MODE=1), /start_profile, /stop_profile
    Vllm,
    /// /flush_cache, /start_profile, /stop_profile
    Sglang,
}

/// What is shown on standard error while the load runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ui {
    /// One line per second: phase, elapsed time, requests sent, in flight and failed, requests per second.
    Simple,
    /// Nothing.
    None,
}

/// A directory under the rule for `artifacts.dir`, where the run writes it down for the next one to read.
fn directory(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.to_str() {
        Some(text) if !text.trim().is_empty() && !text.contains(char::is_control) => Ok(path),
        _ => Err("allowed: UTF-8 text that is not blank and has no control characters"),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, error::ErrorKind};

    use super::*;

    fn parse(line: &str) -> Result<Args, ErrorKind> {
        Args::try_parse_from(line.split_whitespace()).map_err(|error| error.kind())
    }

    fn profile(line: &str) -> Profile {
        match parse(line).expect("a valid command line").command {
            Command::Profile(profile) => *profile,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_flag_lands_in_its_field() {
        let profile = profile(
            "ringload profile --config a.yaml --mock --cores 2 --driver epoll --pacing busy --output-artifact-dir out --overwrite \
             --server-preset sglang --fail-on-client-limited --drain-stall-timeout 90 --stall-timeout 1h30m",
        );
        assert_eq!(profile.config, Some("a.yaml".into()));
        assert!(profile.mock && profile.overwrite && profile.fail_on_client_limited);
        assert_eq!(
            (profile.cores, profile.driver, profile.server_preset),
            (Some(CoreChoice::Count(2)), DriverFlag::Epoll, Some(PresetFlag::Sglang))
        );
        assert_eq!(profile.pacing, PacingFlag::Busy);
        assert_eq!(profile.output_artifact_dir, Some("out".into()));
        assert_eq!(
            (profile.drain_stall_timeout, profile.stall_timeout),
            (Some(90.0), Some(5_400.0))
        );
    }

    #[test]
    fn a_stall_timeout_can_be_turned_off_in_two_ways() {
        for never in ["0", "0s", "inf"] {
            let profile = profile(&format!("ringload profile -c a.yaml --stall-timeout {never}"));
            assert_eq!(profile.stall_timeout, Some(f64::INFINITY), "{never}");
        }
        for wrong in ["-1", "nan", "soon"] {
            let line = format!("ringload profile -c a.yaml --stall-timeout={wrong}");
            assert_eq!(parse(&line).expect_err(wrong), ErrorKind::ValueValidation, "{wrong}");
        }
    }

    #[test]
    fn source_addresses_come_in_lists_and_one_by_one() {
        let profile = profile("ringload profile -c a.yaml --source-address 127.0.0.2,::1 --source-address 127.0.0.3");
        let expected = ["127.0.0.2", "::1", "127.0.0.3"].map(|text| text.parse::<IpAddr>().expect("an address"));
        assert_eq!(profile.source_address, expected);
    }

    #[test]
    fn the_artifact_directory_has_a_second_name() {
        let profile = profile("ringload profile -c a.yaml --artifact-dir out");
        assert_eq!(profile.output_artifact_dir, Some("out".into()));
        assert_eq!((profile.server_preset, profile.cores), (None, None));
    }

    #[test]
    fn the_config_has_three_names() {
        for flag in ["--config", "-f", "-c"] {
            let given = profile(&format!("ringload profile {flag} a.yaml"));
            assert_eq!(given.config, Some("a.yaml".into()), "{flag}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for line in [
            "ringload profile --mock --cores 0",
            "ringload profile --mock --cores two",
            "ringload profile --mock --cores -1",
            "ringload profile --mock --cores 3-1",
            "ringload profile --mock --pacing exact",
            "ringload profile --mock --server-preset tgi",
            "ringload profile --mock --output-artifact-dir a\u{7}b",
        ] {
            assert!(
                matches!(
                    parse(line).err(),
                    Some(ErrorKind::ValueValidation | ErrorKind::InvalidValue | ErrorKind::UnknownArgument)
                ),
                "{line}"
            );
        }
    }

    #[test]
    fn trust_is_one_file_or_none_at_all_and_no_matter_of_the_mock() {
        let given = profile("ringload profile -c a.yaml --ca-file roots.pem");
        assert_eq!((given.ca_file, given.insecure), (Some("roots.pem".into()), false));
        assert!(profile("ringload profile -c a.yaml --insecure").insecure);
        for line in [
            "ringload profile -c a.yaml --insecure --ca-file roots.pem",
            "ringload profile --mock --insecure",
            "ringload profile --mock --ca-file roots.pem",
        ] {
            assert_eq!(parse(line).err(), Some(ErrorKind::ArgumentConflict), "{line}");
        }
    }

    #[test]
    fn every_argument_has_a_help_text() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no text", command.get_name());
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(
                    argument.get_help().is_some(),
                    "{} {} has no text",
                    command.get_name(),
                    argument.get_id()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Args::command());
    }
}
