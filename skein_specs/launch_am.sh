# Runs the ApplicationMaster's Python in a process of its own, and ends Skein's Java when Python fails. If Java went
# on, it would end the whole job in the last attempt by number, however long ago the others failed (runOnExit in
# Skein 0.8.2's ApplicationMaster.java). A dead Java is a failed attempt to YARN, which counts them by time.
(
@LAUNCH@
)
code=$?
[ "$code" = 0 ] && exit 0
read -r _ _ _ parent _ </proc/$$/stat
# Otherwise Java has gone already, and its number may be another process's.
if [ "$parent" = "$PPID" ]; then
  echo "yarnam: the ApplicationMaster's Python has ended with exit code $code. Skein's Java is ended too: this" \
    "attempt has failed, and YARN decides by am.attempts and am.attempts_interval whether another one starts." >&2
  kill -KILL "$PPID"
fi
exit "$code"
