#!/bin/sh
# Make sure that there is a chromium for the tests of pages: install Debian's where that is possible, else say so.
# Exit code 0 also without one: the tests then skip, unless HEADWAY_REQUIRE_BROWSER=1.
set -eu

find_browser() {
    for name in chromium chromium-browser google-chrome; do
        if command -v "$name" >/dev/null 2>&1; then
            return 0
        fi
    done
    return 1
}

if find_browser; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "browser: no chromium, and no apt-get to install it with: tests in a browser will be skipped" >&2
elif [ "$(id -u)" != 0 ]; then
    echo "browser: no chromium; as root, apt-get install chromium: until then tests in a browser are skipped" >&2
else
    echo "browser: installing chromium (113 MB) for the tests of pages" >&2
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # A machine with fresh lists needs no update, and one without a network has to be told quickly.
    if ! { apt-get install -y --no-install-recommends chromium >"$log" 2>&1 ||
        { apt-get update >"$log" 2>&1 && apt-get install -y --no-install-recommends chromium >>"$log" 2>&1; }; }; then
        echo "browser: chromium could not be installed ($(grep -m 1 '^E:' "$log" || echo 'apt-get failed'));" \
            "tests in a browser will be skipped" >&2
    fi
    rm -f "$log"
fi
