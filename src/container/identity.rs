//! The user that the supervisor and the agent are: the image's own, with the ids that the host wants.
//!
//! Which entry becomes that user: the one that the image is configured for, else one called `user`, else whichever has
//! the wanted uid already (it is left as it is), else a new one called `lazy`. Root's entry is never changed.

use std::fs;
use std::io;
use std::path::Path;

use super::home;
use crate::base::{Error, Result, ResultExt};
use crate::proc::init::Owner;

/// The entry that is made when the image has none that fits.
const OWN: &str = "lazy";
/// The user of lazy's own image.
const USUAL: &str = "user";
/// Of `passwd` and `group` no more is read.
const LIMIT: u64 = 1 << 20;

/// Who the supervisor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The home, there and writable for the user, unless a warning said otherwise.
    pub home: String,
}

/// Makes the user below `root` (`/`, but for tests) be `owner`, with a home. Whatever an odd image refuses is said to
/// `warn` and done without.
pub fn establish(root: &Path, image_user: &str, owner: Owner, mut warn: impl FnMut(&str)) -> User {
    let (passwd_file, group_file) = (root.join("etc/passwd"), root.join("etc/group"));
    let mut read_or_empty = |path: &Path| {
        read(path).unwrap_or_else(|error| {
            warn(&error.to_string());
            None
        })
    };
    let (passwd, group) = (read_or_empty(&passwd_file), read_or_empty(&group_file));
    let plan = plan(passwd.as_deref().unwrap_or_default(), group.as_deref().unwrap_or_default(), image_user, owner);
    for (file, before, after) in [(&passwd_file, &passwd, &plan.passwd), (&group_file, &group, &plan.group)] {
        // `None` is a file that could not be read whole: better no entry than the loss of all others.
        let Some(before) = before else { continue };
        if before != after
            && let Err(error) = write(file, after)
        {
            warn(&format!("the ids {}:{} have no name here: {error}", owner.uid, owner.gid));
        }
    }
    let home = home::settle(root, &plan.home, plan.was.unwrap_or(owner), owner, warn);
    User { name: plan.name, home }
}

/// The file's text, empty when there is none.
fn read(path: &Path) -> Result<Option<String>> {
    let doing = || format!("cannot read {}", path.display());
    let meta = match fs::metadata(path) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Some(String::new())),
        other => other.io_context(doing)?,
    };
    if !meta.is_file() || meta.len() > LIMIT {
        return Err(Error::invalid(format!("{} is not a file of at most {} MiB", path.display(), LIMIT >> 20)));
    }
    fs::read_to_string(path).map(Some).io_context(doing)
}

/// In place: an engine may have mounted the file by itself.
fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).io_context(|| format!("cannot write {}", path.display()))
}

/// What the two files become, and who the user is.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    passwd: String,
    group: String,
    name: String,
    home: String,
    /// The ids that the entry had, when it was there.
    was: Option<Owner>,
}

/// A line of `passwd` that can be understood; others are kept as they are.
struct Entry<'a> {
    line: usize,
    fields: Vec<&'a str>,
    ids: Owner,
}

impl<'a> Entry<'a> {
    fn parse(line: usize, text: &'a str) -> Option<Entry<'a>> {
        let fields: Vec<&str> = text.trim_end_matches('\r').split(':').collect();
        let [name, _, uid, gid, _, _, _] = fields[..] else { return None };
        let ids = Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? };
        (!name.is_empty() && !name.starts_with(['+', '-', '#'])).then_some(Entry { line, fields, ids })
    }

    fn name(&self) -> &'a str {
        self.fields[0]
    }

    fn home(&self) -> &'a str {
        self.fields[5]
    }
}

fn plan(passwd: &str, group: &str, image_user: &str, owner: Owner) -> Plan {
    let mut lines: Vec<&str> = passwd.lines().collect();
    let entries: Vec<Entry<'_>> = lines.iter().enumerate().filter_map(|(at, text)| Entry::parse(at, text)).collect();
    // The first of several is the one that programs find.
    let named = |name: &str| entries.iter().find(|entry| entry.name() == name && entry.ids.uid != 0);
    let numbered = |uid: u32| entries.iter().find(|entry| entry.ids.uid == uid && uid != 0);
    let wanted = image_user.split(':').next().unwrap_or_default().trim();
    let of_image = match wanted.parse() {
        Ok(uid) => numbered(uid),
        Err(_) => named(wanted),
    };
    let own = of_image.or_else(|| named(USUAL));
    if let Some(same) = numbered(owner.uid).filter(|_| own.is_none()) {
        let group = with_group(group, same.name(), None, owner.gid);
        let (name, home) = (same.name().to_string(), same.home().to_string());
        return Plan { passwd: passwd.to_string(), group, name, home, was: Some(same.ids) };
    }
    let Some(own) = own.or_else(|| named(OWN)) else {
        let home = format!("/home/{OWN}");
        // No password, and none looked for elsewhere: account checks, as sudo does them, pass.
        let line = format!("{OWN}:*:{}:{}:lazy:{home}:/bin/sh", owner.uid, owner.gid);
        lines.push(&line);
        let group = with_group(group, OWN, None, owner.gid);
        return Plan { passwd: text_of(&lines), group, name: OWN.into(), home, was: None };
    };
    let (name, home, was) = (own.name().to_string(), own.home().to_string(), own.ids);
    let mut text = passwd.to_string();
    let first = numbered(owner.uid).map_or(own.line, |entry| entry.line);
    if was != owner || first < own.line {
        let (uid, gid) = (owner.uid.to_string(), owner.gid.to_string());
        let mut fields = own.fields.clone();
        (fields[2], fields[3]) = (&uid, &gid);
        let line = fields.join(":");
        lines.remove(own.line);
        // Before whoever has the same uid: it is this name that the uid shall have.
        lines.insert(first.min(own.line), &line);
        text = text_of(&lines);
    }
    Plan { passwd: text, group: with_group(group, &name, Some(was.gid), owner.gid), name, home, was: Some(was) }
}

fn text_of(lines: &[&str]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

/// `group` with a group of this id: the one that is there, else the user's private one with its number changed, else
/// another.
fn with_group(group: &str, user: &str, was: Option<u32>, gid: u32) -> String {
    let mut lines: Vec<String> = group.lines().map(str::to_string).collect();
    let parsed = |line: &str| -> Option<(String, u32)> {
        let mut fields = line.trim_end_matches('\r').split(':');
        let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?);
        Some((name.to_string(), gid.parse().ok()?))
    };
    let groups: Vec<Option<(String, u32)>> = lines.iter().map(|line| parsed(line)).collect();
    if groups.iter().flatten().any(|(_, known)| *known == gid) {
        return group.to_string();
    }
    let private = |group: &Option<(String, u32)>| {
        group.as_ref().is_some_and(|(name, known)| name == user && Some(*known) == was && *known != 0)
    };
    match groups.iter().position(private) {
        Some(at) => {
            let mut fields: Vec<&str> = lines[at].split(':').collect();
            let number = gid.to_string();
            fields[2] = &number;
            lines[at] = fields.join(":");
        }
        None => {
            let numbered = format!("{OWN}-{gid}");
            let is_free = |name: &&str| !groups.iter().flatten().any(|(known, _)| known == name);
            let name = [user, OWN].into_iter().find(is_free).unwrap_or(&numbered);
            lines.push(format!("{name}:x:{gid}:"));
        }
    }
    text_of(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n# a note\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
                          node:x:1000:1000::/home/node:/bin/bash\n+::::::\n";
    const GROUP: &str = "root:x:0:\ndaemon:x:1:\nstaff:x:20:\nnode:x:1000:friend\n";

    fn ids(uid: u32, gid: u32) -> Owner {
        Owner { uid, gid }
    }

    fn planned(image_user: &str, owner: Owner) -> Plan {
        plan(PASSWD, GROUP, image_user, owner)
    }

    #[test]
    fn the_images_user_gets_the_wanted_ids() {
        for image_user in ["node", "node:node", "1000", "1000:1000", " node "] {
            let plan = planned(image_user, ids(1234, 1234));
            let wanted = PASSWD.replace("node:x:1000:1000:", "node:x:1234:1234:");
            assert_eq!(plan.passwd, wanted, "{image_user}");
            assert_eq!(plan.group, GROUP.replace("node:x:1000:", "node:x:1234:"));
            assert_eq!((plan.name.as_str(), plan.home.as_str()), ("node", "/home/node"));
            assert_eq!(plan.was, Some(ids(1000, 1000)));
        }
    }

    #[test]
    fn a_group_that_has_the_gid_is_left() {
        let plan = planned("node", ids(501, 20));
        assert_eq!(plan.passwd, PASSWD.replace("node:x:1000:1000:", "node:x:501:20:"));
        assert_eq!(plan.group, GROUP);
    }

    #[test]
    fn what_fits_already_is_not_touched() {
        let plan = planned("node", ids(1000, 1000));
        assert_eq!((plan.passwd.as_str(), plan.group.as_str()), (PASSWD, GROUP));
        let again = planned("node", ids(1234, 99));
        let twice = super::plan(&again.passwd, &again.group, "node", ids(1234, 99));
        assert_eq!((twice.passwd, twice.group), (again.passwd, again.group));
    }

    #[test]
    fn without_an_image_user_another_serves() {
        for image_user in ["", "root", "0", "0:0", "nobody-here", "4711"] {
            let same = planned(image_user, ids(1000, 77));
            assert_eq!((same.name.as_str(), same.passwd.as_str()), ("node", PASSWD), "{image_user}");
            assert_eq!(same.group, format!("{GROUP}lazy:x:77:\n"));
            let new = planned(image_user, ids(1234, 1234));
            assert_eq!(new.passwd, format!("{PASSWD}lazy:*:1234:1234:lazy:/home/lazy:/bin/sh\n"));
            assert_eq!(new.group, format!("{GROUP}lazy:x:1234:\n"));
            assert_eq!((new.name.as_str(), new.was), ("lazy", None));
        }
        let usual = format!("{PASSWD}user:x:1500:1500::/home/user:/bin/bash\n");
        let plan = super::plan(&usual, GROUP, "root", ids(1234, 1234));
        assert_eq!(plan.name, "user");
        assert!(plan.passwd.contains("user:x:1234:1234:") && plan.passwd.starts_with("root:x:0:0:"));
    }

    #[test]
    fn the_uid_gets_this_name_though_another_has_it_too() {
        let usual = format!("{PASSWD}user:x:1500:1500::/home/user:/bin/bash");
        let plan = plan(&usual, GROUP, "", ids(1000, 1000));
        let lines: Vec<&str> = plan.passwd.lines().collect();
        assert_eq!(lines[3..5], ["user:x:1000:1000::/home/user:/bin/bash", "node:x:1000:1000::/home/node:/bin/bash"]);
        assert_eq!(lines.len(), 6);
        assert_eq!(super::plan(&plan.passwd, GROUP, "", ids(1000, 1000)).passwd, plan.passwd);
    }

    #[test]
    fn odd_files_are_survived() {
        let new = "lazy:*:7:8:lazy:/home/lazy:/bin/sh\n";
        for (passwd, before) in
            [("", ""), ("x", "x\n"), ("a:b\r\n\n:::::::\nu:x:one:1:::", "a:b\n\n:::::::\nu:x:one:1:::\n")]
        {
            assert_eq!(plan(passwd, "odd\nlazy:x:1:\nuser:x:", "", ids(7, 8)).passwd, format!("{before}{new}"));
        }
        let taken = plan("", "odd\nlazy:x:1:\n", "", ids(7, 8));
        assert_eq!(taken.group, "odd\nlazy:x:1:\nlazy-8:x:8:\n");
    }

    #[test]
    fn files_are_written_in_place_or_it_is_said() {
        use std::os::unix::fs::MetadataExt as _;
        let root = tempfile::tempdir().expect("temp dir");
        let me = fs::metadata(root.path()).expect("a directory");
        let owner = ids(me.uid(), me.gid());
        let etc = root.path().join("etc");
        fs::create_dir(&etc).expect("creates");
        fs::write(etc.join("passwd"), PASSWD).expect("writes");
        fs::write(etc.join("group"), [0xff, 0xfe]).expect("writes");
        let inode = |name: &str| fs::metadata(etc.join(name)).expect("a file").ino();
        let before = inode("passwd");
        let mut said = Vec::new();
        let user = establish(root.path(), "node", owner, |warning| said.push(warning.to_string()));
        assert_eq!(user, User { name: "node".into(), home: "/home/node".into() });
        assert!(root.path().join("home/node").is_dir());
        let line = format!("node:x:{}:{}:", owner.uid, owner.gid);
        assert!(fs::read_to_string(etc.join("passwd")).expect("reads").contains(&line));
        assert_eq!(inode("passwd"), before);
        assert_eq!(fs::read(etc.join("group")).expect("reads"), [0xff, 0xfe], "not understood, not touched");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("etc/group"));
    }
}
