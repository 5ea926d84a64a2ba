# Runs the ApplicationMaster's Python in a process of its own, and ends Skein's Java when Python fails. If Java went
# on, it would end the whole job in the last attempt by number, however long ago the others failed (runOnExit in
# Skein 0.8.2's ApplicationMaster.java). A dead Java is a failed attempt to YARN, which counts them by time.
(
# Each connection of an agent keeps 75 kB of buffers of 8 and 17 kB, most of which are never filled. glibc gives
# a block of this size and more pages of its own, so those that nothing was written to take no memory. What is
# free at the end of its heap goes back to the node sooner than by default.
export MALLOC_MMAP_THRESHOLD_=8192 MALLOC_TRIM_THRESHOLD_=65536 MALLOC_TOP_PAD_=16384
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
