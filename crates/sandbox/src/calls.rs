//! System call filter, enforced by seccomp.

use crate::Error;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use std::collections::BTreeMap;

/// System calls that fail with `EPERM`: those that start programs, inspect other processes, or change the machine. A server makes none of
/// them; code that an attacker injects would.
const REFUSED: [libc::c_long; 42] = [
    // Starting programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Inspecting and controlling other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    // Keys of the kernel's key rings.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// Bit in the numbers of x32 system calls, which a process on `x86_64` may use.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Numbers of calls that x32 has for itself: `execve`, `ptrace`, `kexec_load`, `process_vm_readv`, `process_vm_writev`, `execveat`.
#[cfg(target_arch = "x86_64")]
const X32_ONLY: [i64; 6] = [520, 521, 528, 539, 540, 545];

/// The numbers of all refused calls.
fn numbers() -> Vec<i64> {
    let numbers = REFUSED.to_vec();
    #[cfg(target_arch = "x86_64")]
    let numbers = {
        let x32 = numbers.iter().chain(&X32_ONLY).map(|n| n | X32);
        let x32: Vec<i64> = x32.collect();
        [numbers, x32].concat()
    };
    numbers
}

/// Limits all threads of this process, and processes that they start.
pub(crate) fn restrict() -> Result<(), Error> {
    let rules: BTreeMap<i64, Vec<_>> = numbers().into_iter().map(|n| (n, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(seccompiler::Error::from)?;
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)
        .map_err(seccompiler::Error::from)?;
    let program: BpfProgram = filter.try_into().map_err(seccompiler::Error::from)?;
    seccompiler::apply_filter_all_threads(&program)?;
    Ok(())
}
