#!/usr/bin/env bash
# What the sandbox posture of the host runner holds, tried with the real Claude Code.
#
#   scripts/host-sandbox-probe.sh
#
# Makes a throwaway project in a temporary directory with a HOME of its own. A scripted model (part of lazy, on loopback)
# has the agent try to get out, one call after the other; what really happened is looked at from outside, and what the
# agent was told is read from the requests the model got. No real model and no real credential is used.
#
# LAZY is the program to test (default: lazy); `claude`, `bwrap` and `socat` must be in PATH. Exits 0 when everything is
# refused as documented, 1 when not, 77 when a part is missing.
set -uo pipefail

lazy=$(command -v "${LAZY:-lazy}") || { echo "no program ${LAZY:-lazy}" >&2; exit 77; }
lazy=$(realpath "$lazy")
for part in claude bwrap socat git; do
    command -v "$part" >/dev/null || { echo "skipped: no program $part in PATH" >&2; exit 77; }
done

base=$(mktemp -d)
export HOME="$base/home" ANTHROPIC_API_KEY="sk-ant-not-a-real-key" LAZY_RETRY_SCALE=0.02
unset CLAUDE_CODE_OAUTH_TOKEN ANTHROPIC_AUTH_TOKEN LAZY_DAEMON_BASE_DIR LAZY_PROTOCOL_BASE
mkdir -p "$HOME/.ssh" "$HOME/notes" "$base/app" "$base/outside"
echo 'PRIVATE-KEY-OF-THIS-CHECK' >"$HOME/.ssh/id_rsa"
echo 'PRIVATE-NOTES-OF-THIS-CHECK' >"$HOME/notes/secret.txt"
model=
cleanup() {
    cd "$base/app" && "$lazy" daemon stop >/dev/null 2>&1
    [ -n "$model" ] && kill "$model" 2>/dev/null
    cd / && rm -rf "$base"
}
trap cleanup EXIT

bash_call() { # a call of the shell tool; $2 are further fields
    printf '{"tool_use":{"name":"Bash","input":{"command":"%s","description":"try"%s}}}' "$1" "${2:-}"
}
read_call() {
    printf '{"tool_use":{"name":"Read","input":{"file_path":"%s"}}}' "$1"
}
step() {
    printf '{"when":{"nth":%s},"uses":"always","reply":{"content":[%s]}},' "$1" "$2"
}
{
    printf '{"steps":['
    step 0 "$(bash_call 'echo inside > inside.txt')"
    step 1 "$(bash_call "echo outside > $base/outside/by-shell.txt")"
    step 2 "$(bash_call "cat $HOME/.ssh/id_rsa")"
    step 3 "$(bash_call "cat $HOME/notes/secret.txt")"
    step 4 "$(read_call "$HOME/.ssh/id_rsa")"
    step 5 "$(read_call "$HOME/notes/secret.txt")"
    step 6 "$(bash_call "echo escaped > $base/outside/by-request.txt" ',"dangerouslyDisableSandbox":true')"
    step 7 '{"tool_use":{"name":"Write","input":{"file_path":"'"$HOME"'/.ssh/authorized_keys","content":"mine"}}}'
    printf '{"uses":"always","reply":{"content":[{"text":"tried"}]}}]}'
} >"$base/scenario.json"

"$lazy" demo-model --scenario "$base/scenario.json" >"$base/model.out" &
model=$!
for _ in $(seq 100); do [ -s "$base/model.out" ] && break; sleep 0.05; done
address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$base/model.out")
case $address in http*) ;; *) address="http://$address" ;; esac

cd "$base/app" || exit 1
git init -q -b main .
git config user.name Check
git config user.email check@example.com
cat >lazy.toml <<TOML
[runner]
type = "dangerously-host-process-without-any-isolation"
sandbox_deny_read = ["$HOME/notes"]
[proxy]
upstream = "$address"
# The proxy would refuse some of the calls before the sandbox sees them.
[proxy.policy]
enforce = false
TOML
git add lazy.toml
git commit -qm 'set up lazy'
"$lazy" create --code probe 'Try to get out' --prompt 'try' >/dev/null &&
    "$lazy" start probe >/dev/null && "$lazy" wait probe >/dev/null || {
    echo "the task did not run:" >&2
    "$lazy" show probe >&2
    exit 1
}
if command -v curl >/dev/null; then curl -s "$address/__requests" >"$base/told.json"; else
    exec 3<>"/dev/tcp/${address#http://}" 2>/dev/null || { h=${address#http://}; exec 3<>"/dev/tcp/${h%%:*}/${h##*:}"; }
    printf 'GET /__requests HTTP/1.0\r\nhost: x\r\n\r\n' >&3
    cat <&3 >"$base/told.json"
fi

wrong=0
says() { # says WORK|FAIL what command…: the command tells whether the agent got through
    want=$1 what=$2
    shift 2
    if "$@" >/dev/null 2>&1; then got=WORK; else got=FAIL; fi
    if [ "$got" = "$want" ]; then mark='(ok)'; else mark='(WRONG)'; wrong=$((wrong + 1)); fi
    printf '%-4s  %-62s %s\n' "$got" "$what" "$mark"
}
worktree="$base/app/.lazy/worktrees/probe"
echo "host sandbox with $(claude --version 2>/dev/null | head -n 1)"
says WORK 'all eight calls were made and answered' sh -c \
    "test \"\$(grep -o '\"tool_use_id\": *\"[^\"]*\"' '$base/told.json' | sort -u | wc -l)\" -ge 8"
says WORK 'Bash writes in the worktree' test -s "$worktree/inside.txt"
says FAIL 'Bash writes outside of it' test -e "$base/outside/by-shell.txt"
says FAIL 'Bash reads ~/.ssh/id_rsa, or the Read tool does' grep -q 'PRIVATE-KEY-OF' "$base/told.json"
says FAIL 'Bash reads a path of sandbox_deny_read, or the Read tool does' grep -q 'PRIVATE-NOTES-OF' "$base/told.json"
says FAIL 'Bash asks to run without the sandbox and does' test -e "$base/outside/by-request.txt"
says FAIL 'the Write tool writes below ~/.ssh' test -e "$HOME/.ssh/authorized_keys"
says WORK 'the posture is shown: lazy show' sh -c "'$lazy' show probe | grep -q sandbox"
if [ "$wrong" -eq 0 ]; then echo 'all as it should be'; else echo "$wrong not as it should be"; fi
[ "$wrong" -eq 0 ]
