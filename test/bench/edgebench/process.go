package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/programs"
)

// stopTime is the grace period between SIGTERM and SIGKILL.
const stopTime = 10 * time.Second

// startChild starts a program with its output in a log file below dir. It must
// be called from the main thread, because of Pdeathsig. The environment is
// PATH, directories below dir and command.Env: no variable of the caller may
// change a measurement.
func startChild(name, dir string, command *exec.Cmd) (*programs.Process, error) {
	command.Dir = dir
	command.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir,
		"XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CACHE_HOME=" + dir,
	}, command.Env...)
	// If this program is killed, the kernel sends SIGTERM; a supervisor such as
	// the nginx master then ends its workers.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	child, err := programs.StartLogging(name, filepath.Join(dir, name+".log"), command)
	if err == nil {
		child.Grace = stopTime
	}
	return child, err
}

// await waits until ready succeeds. It takes at most half of turnSlack, which
// leaves the other half for stopping.
func await(ctx context.Context, child *programs.Process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, turnSlack/2)
	defer cancel()
	return child.Await(ctx, 50*time.Millisecond, ready)
}
