//! What the kernel refuses a child: system calls, locked memory, the rights of the administrator.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Whether this process may become another user.
pub fn is_administrator() -> bool {
    // SAFETY: takes nothing and cannot fail (geteuid(2)).
    unsafe { libc::geteuid() == 0 }
}

/// Most descriptors that this process and its children may have: the hard limit, to which client and server raise their own.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes one live rlimit; the resource exists on every Linux.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_max
}

/// Makes every call of the system call `number` fail with `errno` in the child, as a container's seccomp profile does.
pub fn refuse_call(command: &mut Command, number: libc::c_long, errno: i32) {
    // Offset of the number in what the filter sees (struct seccomp_data).
    const NUMBER_AT: u32 = 0;
    let filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER_AT),
        libc::sock_filter {
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number as u32)
        },
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | (errno as u32 & libc::SECCOMP_RET_DATA),
        ),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: between fork and exec the closure makes system calls on values that it owns, and nothing else: no allocation, no lock.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog {
                len: filter.len() as libc::c_ushort,
                filter: filter.as_ptr().cast_mut(),
            };
            // Without new privileges anyone may install a filter.
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            check(libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ))
        });
    }
}

/// Runs the child as the user and group `id`, with at most `bytes` of locked memory.
pub fn unprivileged(command: &mut Command, id: u32, bytes: u64) {
    command.uid(id).gid(id);
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: as above. Closures run after the change of the user, who may lower a limit.
    unsafe { command.pre_exec(move || check(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit))) };
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
