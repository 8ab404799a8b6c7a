//! Rules for files, ports and signals, enforced by Landlock.

use crate::{Error, Level, Sandbox};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};

/// Newest version of the rules that is requested. Kernels that lack some of them enforce the others.
const RULES: ABI = ABI::V7;

/// Rights in a folder that the process may change. It cannot create devices or start programs there.
fn changing() -> BitFlags<AccessFs> {
    let never = make_bitflags!(AccessFs::{Execute | MakeChar | MakeBlock | IoctlDev});
    AccessFs::from_all(RULES) & !never
}

/// Limits this thread, and threads that it starts later.
pub(crate) fn restrict(sandbox: &Sandbox) -> Result<Level, Error> {
    let reading = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let publishing = make_bitflags!(AccessFs::{WriteFile | Truncate | MakeReg | RemoveFile});
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(RULES))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(RULES))?;
    if !sandbox.connect {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut created = ruleset
        .create()?
        .add_rules(path_beneath_rules(&sandbox.read, reading))?
        .add_rules(path_beneath_rules(&sandbox.publish, publishing))?
        .add_rules(path_beneath_rules(&sandbox.write, changing()))?;
    for port in &sandbox.listen {
        created = created.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    Ok(match created.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Level::Full,
        RulesetStatus::PartiallyEnforced => Level::Partial,
        RulesetStatus::NotEnforced => Level::None,
    })
}
