#!/bin/sh
# What the Hanayo paper published, rerun.
set -e
${SLUICE:-build/sluice} reproduce hanayo
