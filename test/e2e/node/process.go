package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"slipway.dev/slipway/internal/programs"
)

const (
	// commandTimeout bounds a short command such as ip, mount or ctr. Importing
	// an image is the slowest.
	commandTimeout = 2 * time.Minute
	// stopTimeout is how long control groups may stay busy.
	stopTimeout = 20 * time.Second
	// lookAgain is the poll interval for conditions that have no notification.
	lookAgain = 100 * time.Millisecond
	// tail is the number of bytes of a log that an error message includes.
	tail = 2000
)

// launch starts a component with its output in a log file, and registers it for
// Stop, which decides the order.
func (n *Node) launch(name string, words ...string) (*programs.Process, error) {
	p, err := programs.StartLogging(name, n.cfg.path("log", name+".log"), exec.Command(words[0], words[1:]...))
	if err == nil {
		n.parts = append(n.parts, p)
	}
	return p, err
}

// stop ends a component. One that had already exited is an error: it crashed
// during the run.
func stop(p *programs.Process) error { return errors.Join(p.Alive(), p.End(nil)) }

// do runs a short command and returns its output. An error includes the end of
// it.
func do(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, output[max(0, len(output)-tail):])
	}
	return string(output), nil
}

// all runs commands in order and stops at the first error. Words are split at
// spaces, without quoting.
func all(ctx context.Context, commands ...string) error {
	for _, one := range commands {
		if _, err := do(ctx, strings.Fields(one)...); err != nil {
			return err
		}
	}
	return nil
}

// write creates a file and its parent folders.
func write(path, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}
