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

// Binary is the path of the cluster's binary: SLIPWAY_DEVCLUSTER, or
// bin/slipway-devcluster of the module that the test belongs to.
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

	// A start takes a few seconds; several at once on a busy machine take
	// longer, and a cluster that takes this long is broken.
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second

	keptOutput = 8 << 10
)

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

// moduleRoot walks up from the package's folder, where go test runs a test.
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
	result error // how the process ended, once exited is closed
	known  bool  // its failure is known already, and not a finding of stop
}

// startDaemon starts the binary and waits until it has printed its line. The
// daemon is returned with an error too, when there is a process to wait for.
func startDaemon(binary string, arguments []string) (*daemon, error) {
	d := &daemon{
		cmd:    exec.Command(binary, arguments...),
		stdout: newOutput(), stderr: newOutput(),
		exited: make(chan struct{}),
	}
	d.cmd.Stdout, d.cmd.Stderr = d.stdout, d.stderr
	// A process that it left behind must not keep Wait waiting.
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

// stop is clean or an error: a cluster that hangs, or that ends with a
// failure, is a finding of the test. A second call does nothing more.
func (d *daemon) stop() error {
	// It fails only when the process has ended.
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

func exitError(result error) error {
	if result == nil {
		return errors.New("exit status 0")
	}
	return result
}

// output keeps the first line and the end of what a process prints.
type output struct {
	line chan struct{} // closed when the first line is complete

	mu    sync.Mutex
	first []byte
	last  []byte
}

func newOutput() *output { return &output{line: make(chan struct{})} }

// Write takes everything, so that the process never blocks on a full pipe.
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

func (o *output) firstLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSuffix(string(o.first), "\n")
}

// String is the end of what was printed.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(string(o.last[max(0, len(o.last)-keptOutput):]))
}

// logTail is the end of the cluster's log, and what it printed as errors.
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
