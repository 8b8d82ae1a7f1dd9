#!/bin/sh
# Sends one event of an agent's hooks to a tracklog collector: hook.sh AGENT EVENT < event.json
# It prints nothing, never fails and waits for two seconds at most, so that it never stops the agent.
# What was refused is noted for `tracklog connect --list`.
agent=$1 event=$2
here=${0%/*}
[ -r "$here/url" ] || here=${XDG_CONFIG_HOME:-$HOME/.config}/tracklog/hooks
url=http://127.0.0.1:4318
[ -r "$here/url" ] && read -r url < "$here/url"
set -- -q -s -m 2 --connect-timeout 1 --noproxy '*' -H 'Content-Type: application/json' \
  -w '\n%{http_code}' --data-binary @-
[ -r "$here/authorization" ] && set -- "$@" -H "@$here/authorization"
{
  answer=$(curl "$@" "$url/api/hooks/$agent?event=$event")
  if [ "${answer##*
}" = 200 ]; then
    : > "$here/$agent.sent"
  else
    printf '%s %s\n%s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$event" "$answer" > "$here/$agent.refused"
  fi
} 2> /dev/null
exit 0
