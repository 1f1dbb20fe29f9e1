#!/usr/bin/env bash
# What an agent in a container can and cannot do to the repository, tried from inside a real one.
#
#   scripts/verify-container-git-containment.sh [docker|podman]
#
# Makes a throwaway project in a temporary directory with a HOME of its own, runs two tasks of the built-in demo agent in
# containers, opens a shell in the first one's container, and prints a line for each thing tried:
#
#   WORK  it went through      FAIL  it was refused      (ok) as it should be, (WRONG) not as it should be
#
# LAZY is the program to test (default: lazy). LAZY_CA is a PEM file that image builds are to trust, where the network
# needs one. Exits 0 when everything is as it should be, 1 when not, 77 when no engine answers.
set -uo pipefail

engine=${1:-docker}
lazy=$(command -v "${LAZY:-lazy}") || { echo "no program ${LAZY:-lazy}" >&2; exit 77; }
lazy=$(realpath "$lazy")
if ! "$engine" info >/dev/null 2>&1; then
    echo "skipped: $engine does not answer" >&2
    exit 77
fi

base=$(mktemp -d)
secret="sk-ant-real-$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')"
export HOME="$base/home" ANTHROPIC_API_KEY="$secret"
unset CLAUDE_CODE_OAUTH_TOKEN ANTHROPIC_AUTH_TOKEN LAZY_DAEMON_BASE_DIR LAZY_PROTOCOL_BASE
mkdir -p "$HOME" "$base/app"
model=
cleanup() {
    cd "$base/app" && {
        for task in one two; do "$lazy" close "$task" --yes --reason 'the check is over' --accept-dirty-worktree; done
        "$lazy" daemon stop
    } >/dev/null 2>&1
    [ -n "$model" ] && kill "$model" 2>/dev/null
    cd / && rm -rf "$base"
}
trap cleanup EXIT

# A scripted model on loopback, part of lazy: it says "done" to everything.
echo '{"steps":[{"uses":"always","reply":{"content":[{"text":"done"}]}}]}' >"$base/scenario.json"
"$lazy" demo-model --scenario "$base/scenario.json" >"$base/model.out" &
model=$!
for _ in $(seq 100); do [ -s "$base/model.out" ] && break; sleep 0.05; done
address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$base/model.out")
case $address in http*) ;; *) address="http://$address" ;; esac

cd "$base/app" || exit 1
git init -q -b main .
git config user.name Check
git config user.email check@example.com
printf 'hello\n' >readme.txt
git add readme.txt
git commit -qm 'first'
git branch sibling
{
    printf '[runner]\ntype = "%s"\n[agent]\nagent_id = "demo"\n[proxy]\nupstream = "%s"\n' "$engine" "$address"
    if [ -n "${LAZY_CA:-}" ]; then
        printf '[docker]\nca_certificates = "%s"\n' "$LAZY_CA"
    fi
} >lazy.toml
git add lazy.toml
git commit -qm 'set up lazy'
for task in one two; do
    "$lazy" create --code "$task" "Check $task" --prompt 'write notes.txt and commit it' >/dev/null &&
        "$lazy" start "$task" >/dev/null && "$lazy" wait "$task" >/dev/null || {
        echo "the task $task did not run; see: $lazy show $task" >&2
        "$lazy" show "$task" >&2
        exit 1
    }
done

# Both branches get something that the tasks have not: otherwise there would be nothing to merge.
echo more >more.txt && git add more.txt && git commit -qm 'more on main'
git branch -f sibling "$(git commit-tree -p main -m 'more on sibling' 'main~1^{tree}')"
before=$(git rev-parse main sibling)

# The script that runs inside. What it tries, it tries in a subshell; nothing may depend on what came before.
cat >"$base/inside.sh" <<'INSIDE'
set -u
root=$1 worktree=$2 home=$3
cd "$worktree" || exit 1
wrong=0
try() { # try WORK|FAIL what command…
    want=$1 what=$2
    shift 2
    if ("$@") >/tmp/said 2>&1 </dev/null; then got=WORK; else got=FAIL; fi
    if [ "$got" = "$want" ]; then mark='(ok)'; else
        mark="(WRONG) $(tail -n 1 /tmp/said)"
        wrong=$((wrong + 1))
    fi
    printf '%-4s  %-58s %s\n' "$got" "$what" "$mark"
}
sh_() { sh -c "$1"; }
wall() { # wall what command…: must fail, and because the place is read-only, from a clean index with one change
    rm -f "$(git rev-parse --git-path MERGE_HEAD)"
    git restore --staged --worktree . && echo change >>readme.txt
    [ "$1" = 'git stash' ] || git restore .
    try FAIL "$@"
    if [ "$got" = FAIL ] && ! grep -qiE 'read-only file system|resource busy|couldn.t set .HEAD|cannot save the current status' /tmp/said; then
        echo "      (WRONG) refused for another reason: $(tr '\n' ' ' </tmp/said)"
        wrong=$((wrong + 1))
    fi
}
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
echo '— reading and staging'
try WORK 'git log' git log --oneline -1
try WORK 'git show main:readme.txt' git show main:readme.txt
try WORK 'git status' git status --short
try WORK 'git blame' git blame readme.txt
echo change >>readme.txt
try WORK 'git diff' git diff
try WORK 'git add' git add readme.txt
try WORK 'git restore --staged' git restore --staged readme.txt
try WORK 'git checkout of a file' git checkout -- readme.txt
try WORK 'git hash-object -w' sh_ 'echo x | git hash-object -w --stdin'
try WORK 'resolving a conflict in the index' sh_ '
    a=$(echo ours | git hash-object -w --stdin); b=$(echo theirs | git hash-object -w --stdin)
    printf "100644 %s 2\tclash.txt\n100644 %s 3\tclash.txt\n" "$a" "$b" | git update-index --index-info
    git status --short | grep -q "AA clash.txt" && echo both >clash.txt && git add clash.txt &&
    test -z "$(git ls-files --unmerged)" && git rm -q --cached clash.txt && rm clash.txt'
echo '— moving history'
wall 'git commit' git commit --allow-empty -m nope
wall 'git commit --amend' git commit --amend --allow-empty -m nope
wall 'git merge' git merge --no-ff -m nope main
wall 'git merge of a sibling' git merge --no-ff -m nope sibling
wall 'git checkout --detach' git checkout --detach
wall 'git switch to another branch' git switch sibling
wall 'git symbolic-ref HEAD' git symbolic-ref HEAD refs/heads/sibling
wall 'git rebase' git rebase --force-rebase main
wall 'git cherry-pick' git cherry-pick --allow-empty main
wall 'git branch' git branch nope
wall 'git branch -f sibling' git branch -f sibling HEAD
wall 'git branch -D sibling' git branch -D sibling
wall 'git tag' git tag nope
wall 'git update-ref refs/heads/main' git update-ref refs/heads/main HEAD~1
wall 'git reset --hard to another commit' git reset --hard main
wall 'git stash' git stash
wall 'git push to the main checkout' git push "$root" HEAD:refs/heads/nope
wall 'git fetch into a ref' git fetch "$root" main:nope
wall 'git gc' git gc --prune=now --quiet
wall 'git config' git config core.hooksPath /tmp
wall 'git worktree add' git worktree add --detach /tmp/elsewhere main
wall 'writing a ref by hand' sh_ "git rev-parse HEAD >'$root/.git/refs/heads/main'"
wall 'writing a hook' sh_ "echo '#!/bin/sh' >'$root/.git/hooks/pre-commit'"
wall 'writing the configuration' sh_ "echo '[core]' >>'$root/.git/config'"
wall 'writing packed-refs' sh_ "echo >'$root/.git/packed-refs'"
wall 'deleting packed history' sh_ "touch '$root/.git/objects/pack/nope'"
wall 'naming another object store' sh_ "echo /tmp >'$root/.git/objects/info/alternates'"
wall "another task's git directory" sh_ "touch '$root/.git/worktrees/two/nope'"
git restore --staged --worktree .
echo '— the main checkout'
try WORK 'reading a file' cat "$root/readme.txt"
try FAIL 'writing a file' sh_ "echo nope >'$root/readme.txt'"
try FAIL 'making a file' sh_ "touch '$root/nope'"
try FAIL 'writing lazy.toml' sh_ "echo '[runner]' >>'$root/lazy.toml'"
try WORK 'writing in the worktree' sh_ 'echo fine >fine.txt && rm fine.txt'
echo '— what is not there'
try FAIL 'another worktree' ls "$root/.lazy/worktrees/two"
try FAIL "lazy's audit trail" cat "$root/.lazy/logs/proxy-audit.jsonl"
try FAIL "the daemon's token" sh_ "cat '$home'/.lazy/daemon/*/token"
try FAIL "the daemon's registry of tokens" sh_ "cat '$home'/.lazy/daemon/*/mcp-tokens.json"
try FAIL "another task's configuration" sh_ "cat '$home'/.lazy/daemon/*/mcp/*two*.json"
try WORK "one's own configuration" sh_ "cat '$home'/.lazy/daemon/*/mcp/*one*.json"
try FAIL "another task's mailbox" sh_ "test \"\$(ls '$home/.lazy/protocol' | wc -l)\" -gt 1"
try FAIL "the task store" ls "$home/.lazy/app"
try FAIL 'the engine socket' sh_ 'ls /var/run/docker.sock /run/docker.sock /run/podman/podman.sock 2>/dev/null | grep -q .'
found() { # in environments, command lines, mounts, and files: the mark of the real credential
    grep -qa "$1" /proc/*/environ /proc/*/cmdline /proc/mounts 2>/dev/null || env | grep -q "$1" ||
        grep -rqa --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr --exclude-dir=lib --exclude-dir=var "$1" \
            /etc /home /root /run /tmp "$root" "$worktree" "$home" 2>/dev/null
}
try FAIL 'the real credential, anywhere' found 'sk-ant-rea[l]-'
exit "$wrong"
INSIDE

worktree="$base/app/.lazy/worktrees/one"
echo "containment in $engine, $("$engine" version --format '{{.Server.Version}}' 2>/dev/null || "$engine" --version)"
{
    printf 'set -- %q %q %q\n' "$base/app" "$worktree" "$HOME"
    cat "$base/inside.sh"
} | "$lazy" shell one --container
wrong=$?
if [ "$(git -C "$base/app" rev-parse main sibling)" != "$before" ]; then
    echo "WRONG: main or sibling has moved"
    wrong=$((wrong + 1))
fi
if [ "$(git -C "$base/app" status --porcelain --untracked-files=no)" != "" ]; then
    echo "WRONG: the main checkout has changed"
    wrong=$((wrong + 1))
fi
foreign=$(find "$worktree" ! -user "$(id -u)" 2>/dev/null | head -n 3)
if [ -n "$foreign" ]; then
    echo "WRONG: files in the worktree do not belong to $(id -un): $foreign"
    wrong=$((wrong + 1))
fi
if [ "$wrong" -eq 0 ]; then echo "all as it should be"; else echo "$wrong not as it should be"; fi
[ "$wrong" -eq 0 ]
