# Shared by tools/run and tools/test, which source it after setting `root`: packages, configuration, build.
# Everything here does nothing when it is already done.

say()
{
    printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die()
{
    say "$*"
    exit 1
}

build_packages="gcc g++ libc6-dev pkg-config meson ninja-build python3 zlib1g-dev libvulkan-dev glslang-dev spirv-tools
    libopenblas-dev libopenblas0-openmp libdw-dev libpng-dev libjpeg62-turbo-dev libcmocka-dev mesa-vulkan-drivers
    dataset-fashion-mnist"
test_packages="clang clang-format libclang-rt-dev libomp-dev gdb vulkan-validationlayers"
# One of these is enough; the first that apt knows is installed when none is there.
llvm_packages="llvm-19-dev llvm-18-dev llvm-17-dev llvm-16-dev llvm-15-dev llvm-14-dev"

is_installed()
{
    case $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) in
    installed*) return 0 ;;
    esac
    return 1
}

any_installed()
{
    for package in "$@"; do
        if is_installed "$package"; then return 0; fi
    done
    return 1
}

is_known()
{
    apt-cache show "$1" >/dev/null 2>&1
}

# need_packages PACKAGE...: installs with apt what is missing of these and of the groups above.
need_packages()
{
    missing=
    for package in "$@"; do
        is_installed "$package" || missing="$missing $package"
    done
    any_installed $llvm_packages || missing="$missing llvm-dev"
    [ -n "$missing" ] || return 0

    if ! command -v apt-get >/dev/null; then
        say "this system has no apt-get; the build needs what Debian calls:$missing"
        return 0
    fi
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        as_root=sudo
    else
        die "missing packages:$missing
    Installing them takes root or sudo, and neither is available here. As root, run:
    apt-get update && apt-get install -y$missing"
    fi

    say "installing:$missing"
    $as_root apt-get -q update >&2 || say "apt-get update failed; trying with the lists that are there"
    wanted=
    for package in $missing; do
        if [ "$package" = llvm-dev ]; then
            for package in $llvm_packages llvm-dev; do
                if is_known "$package"; then break; fi
            done
        fi
        wanted="$wanted $package"
    done
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $wanted >&2 ||
        die "apt-get could not install:$wanted"
}

# configure FOLDER OPTION...: a Meson build folder; the options hold when it is made.
configure()
{
    folder=$1
    shift
    if [ ! -f "$root/$folder/build.ninja" ]; then
        meson setup "$@" "$root/$folder" "$root" || die "meson could not configure $folder"
    fi
}

# build FOLDER TARGET...
build()
{
    folder=$1
    shift
    ninja -C "$root/$folder" "$@" || die "the build in $folder failed"
}
