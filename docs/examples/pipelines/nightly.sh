#!/bin/sh
# For cron:  15 2 * * *  /srv/pipelines/nightly.sh
# A line that runs twice, or again after a crash, follows the job that has started already.
set -eu
. /etc/profile.d/hadoop.sh  # HADOOP_CONF_DIR
exec yarnam submit /srv/pipelines/train.yaml --watch --idempotency-key "nightly/$(date +%F)"
