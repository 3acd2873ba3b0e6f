package up

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	devclusterBinary = "slipway-devcluster"
	buildTarget      = "build-devcluster"
	// module is the first line of go.mod in a checkout of this program: no
	// other Makefile is ever run.
	module = "module slipway.dev/slipway"
)

// obtainDevcluster finds the development cluster's program beside the
// executable, also as the packed file of a release, which it unpacks into a
// folder, or in PATH, and builds it in a source checkout when it is missing.
func obtainDevcluster(ctx context.Context, executable, unpackTo string, ui UI) (string, error) {
	// The executable may be a link in a directory of links.
	beside := filepath.Dir(executable)
	if real, err := filepath.EvalSymlinks(executable); err == nil {
		beside = filepath.Dir(real)
	}
	// The program beside the executable is of the same build, so it comes
	// first.
	if found, ok := runnable(filepath.Join(beside, devclusterBinary)); ok {
		return found, nil
	}
	if packed := filepath.Join(beside, packedDevcluster()); isFile(packed) {
		return unpackDevcluster(ctx, packed, unpackTo, ui)
	}
	if found, err := exec.LookPath(devclusterBinary); err == nil {
		return filepath.Abs(found)
	}
	working, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	// The checkout of the executable wins over that of the working directory.
	for _, start := range []string{beside, working} {
		if root, ok := checkoutAbove(start); ok {
			return buildDevcluster(ctx, root, ui)
		}
	}
	return "", fmt.Errorf("%s is missing: it is neither in %s nor in PATH. Put %s of the release beside slipway, or build it with `make %s` in a checkout of Slipway and run bin/slipway there",
		devclusterBinary, beside, packedDevcluster(), buildTarget)
}

// isFile reports whether a path is a regular file.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// runnable reports whether a path is a regular file that can be executed.
func runnable(path string) (string, bool) {
	info, err := os.Stat(path)
	return path, err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// checkoutAbove looks for a source checkout of this program in a directory and
// those above it.
func checkoutAbove(dir string) (string, bool) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "Makefile")); err == nil && isOurModule(dir) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// isOurModule reports whether a directory has the go.mod of this program.
func isOurModule(dir string) bool {
	file, err := os.Open(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	defer file.Close()
	// The file may be anything, so the line is bounded.
	line, err := bufio.NewReader(io.LimitReader(file, 4<<10)).ReadString('\n')
	return err == nil && strings.TrimSpace(line) == module
}

// buildDevcluster runs make, with its output shown.
func buildDevcluster(ctx context.Context, root string, ui UI) (string, error) {
	path := filepath.Join(root, "bin", devclusterBinary)
	if found, ok := runnable(path); ok {
		return found, nil
	}
	ui.line("%s is not built yet: running `make -C %s %s`. The first time takes several minutes.", devclusterBinary, root, buildTarget)
	command := exec.CommandContext(ctx, "make", "-C", root, buildTarget)
	command.Stdout = ui.Progress
	command.Stderr = ui.Progress
	// A group of its own, so that a stop ends the compilers together with make.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = pipeGrace
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return "", errStopped
		}
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("%s is missing and make, which would build it, is not installed: install make, or build it elsewhere", devclusterBinary)
		}
		return "", fmt.Errorf("`make -C %s %s` failed (%w): see its output above", root, buildTarget, err)
	}
	// The binary is checked again: a Makefile of another version may not make
	// it.
	found, ok := runnable(path)
	if !ok {
		return "", fmt.Errorf("`make -C %s %s` has not made %s", root, buildTarget, path)
	}
	return found, nil
}
