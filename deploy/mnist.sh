# SPDX-License-Identifier: Apache-2.0
# mnist.sh - finds or fetches the four MNIST files. Sourced.

mnist_files="train-images-idx3-ubyte 6bbc9ace898e44ae57da46a324031adb
train-labels-idx1-ubyte a25bea736e30d166cdddb491f175f624
t10k-images-idx3-ubyte 2646ac647ad5339dbf082846283269ea
t10k-labels-idx1-ubyte 27ae3e4e09519cfbb04c329615203637"

# mnist_is_there FOLDER - the four files, plain or .gz.
mnist_is_there() {
    local name sum
    while read -r name sum; do
        [ -f "$1/$name" ] || [ -f "$1/$name.gz" ] || return 1
    done <<<"$mnist_files"
}

# mnist_download FOLDER - fetches what is missing and checks it; fails quietly
# and soon where there is no network.
mnist_download() {
    local name sum
    mnist_is_there "$1" && return 0
    command -v curl >/dev/null || return 1
    mkdir -p "$1"
    while read -r name sum; do
        curl -fsSL --connect-timeout 3 --max-time 60 -o "$1/$name.gz.part" \
            "https://ossci-datasets.s3.amazonaws.com/mnist/$name.gz" 2>/dev/null || return 1
        if [ "$(gzip -dc "$1/$name.gz.part" | md5sum | cut -d' ' -f1)" != "$sum" ]; then
            echo "mnist: $name has another checksum than it should; not used" >&2
            rm -f "$1/$name.gz.part"
            return 1
        fi
        mv "$1/$name.gz.part" "$1/$name.gz"
    done <<<"$mnist_files"
}
