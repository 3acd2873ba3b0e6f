package kubetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Binary returns the path of the cluster's binary: the value of
// SLIPWAY_DEVCLUSTER, or bin/slipway-devcluster of the module that the test
// belongs to.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := findBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	binaryVariable = "SLIPWAY_DEVCLUSTER"

	// startTimeout is far above the few seconds of a start on an idle machine.
	// Several parallel starts on a busy one take longer, and a cluster that
	// takes this long is broken.
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second

	// keptOutput bounds the output that is kept in memory and shown on failure.
	keptOutput = 8 << 10
)

// findBinary returns the path of the binary, and an error with instructions if
// it is not built.
func findBinary() (string, error) {
	path := os.Getenv(binaryVariable)
	if path == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, "bin", "slipway-devcluster")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the development cluster is missing: run make build, or set %s: %w", binaryVariable, err)
	}
	return path, nil
}

// moduleRoot returns the folder of go.mod, from the package's folder upwards,
// which is the working directory of a test.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above %s: run the test in its module, or set %s", start, binaryVariable)
		}
	}
}

// daemon is one run of the cluster's binary.
type daemon struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *output
	stderr *output
	exited chan struct{}
	// result is the error of Wait. It is valid once exited is closed.
	result error
	known  bool // the failure is expected or reported, so stop ignores it
}

// startDaemon starts the binary and waits until it has printed its first line,
// which means that the cluster is ready. It returns the daemon together with an
// error if there is a process to stop.
func startDaemon(binary string, arguments []string) (*daemon, error) {
	d := &daemon{
		cmd:    exec.Command(binary, arguments...),
		stdout: newOutput(), stderr: newOutput(),
		exited: make(chan struct{}),
	}
	d.cmd.Stdout, d.cmd.Stderr = d.stdout, d.stderr
	// Wait blocks until the output pipes close. A grandchild that keeps them
	// open must not block it forever.
	d.cmd.WaitDelay = 5 * time.Second
	var err error
	if d.stdin, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(d.exited)
		d.result = d.cmd.Wait()
	}()
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	select {
	case <-d.stdout.line:
		return d, nil
	case <-d.exited:
		d.known = true
		return d, fmt.Errorf("%s ended before it was ready: %w: %s", binary, exitError(d.result), d.stderr)
	case <-deadline.C:
		return d, errors.Join(fmt.Errorf("%s was not ready after %s: %s", binary, startTimeout, d.stderr), d.kill())
	}
}

// stop closes standard input and waits for the exit. A cluster that hangs, or
// that exits with a failure, is an error and so a finding of the test. It may
// be called more than once.
func (d *daemon) stop() error {
	// Close fails only if the process has already ended.
	_ = d.stdin.Close()
	deadline := time.NewTimer(stopTimeout)
	defer deadline.Stop()
	select {
	case <-d.exited:
	case <-deadline.C:
		return errors.Join(fmt.Errorf("still running %s after its standard input was closed: killed", stopTimeout), d.kill())
	}
	if d.result != nil && !d.known {
		return fmt.Errorf("it ended with %w: %s", d.result, d.stderr)
	}
	return nil
}

// kill sends SIGKILL and waits for the exit. The failed exit status is then
// expected, and stop does not report it.
func (d *daemon) kill() error {
	d.known = true
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	deadline := time.NewTimer(stopTimeout)
	defer deadline.Stop()
	select {
	case <-d.exited:
		return nil
	case <-deadline.C:
		return fmt.Errorf("process %d did not end within %s of SIGKILL", d.cmd.Process.Pid, stopTimeout)
	}
}

// exitError turns a clean exit into an error: before readiness it is a failure
// too.
func exitError(result error) error {
	if result == nil {
		return errors.New("exit status 0")
	}
	return result
}

// output collects what a process prints: the complete first line, and the end.
type output struct {
	line chan struct{} // closed when the first line is complete

	// mu guards the fields below. last is trimmed at twice keptOutput, so that
	// trimming copies seldom.
	mu    sync.Mutex
	first []byte
	last  []byte
}

// newOutput returns an empty output.
func newOutput() *output { return &output{line: make(chan struct{})} }

// Write accepts everything, so that the process never blocks on a full pipe.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !bytes.HasSuffix(o.first, []byte("\n")) && len(o.first) < keptOutput {
		start, _, complete := bytes.Cut(p, []byte("\n"))
		o.first = append(o.first, start...)
		if complete {
			o.first = append(o.first, '\n')
			close(o.line)
		}
	}
	o.last = append(o.last, p...)
	if len(o.last) > 2*keptOutput {
		o.last = bytes.Clone(o.last[len(o.last)-keptOutput:])
	}
	return len(p), nil
}

// firstLine returns the first line, or as much of it as was printed.
func (o *output) firstLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSuffix(string(o.first), "\n")
}

// String returns the last keptOutput bytes.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(string(o.last[max(0, len(o.last)-keptOutput):]))
}

// logTail returns the end of the cluster's log file and of its standard error.
// An unreadable file is reported in the text, because the test has failed
// already.
func (c *Cluster) logTail() string {
	text, err := tail(filepath.Join(c.Dir, "devcluster.log"), keptOutput)
	if err != nil {
		text = err.Error()
	}
	if c.daemon != nil && c.daemon.stderr.String() != "" {
		text += "\nstandard error: " + c.daemon.stderr.String()
	}
	return text
}

// tail returns the last size bytes of a file, without a partial first line.
func tail(path string, size int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	start := max(0, info.Size()-size)
	text, err := io.ReadAll(io.NewSectionReader(file, start, size))
	if start > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return string(text), err
}
