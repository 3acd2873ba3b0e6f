package kubetest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// Binary returns the path of the cluster's binary: the value of
// SLIPWAY_DEVCLUSTER, or bin/slipway-devcluster of the module that the test
// belongs to.
func Binary(t testing.TB) string {
	t.Helper()
	return must.Get(findBinary())(t)
}

const (
	binaryVariable = "SLIPWAY_DEVCLUSTER"

	stopTimeout = 30 * time.Second

	// collectPercent makes the cluster and the tests collect garbage less often than
	// programs that people use: a seventh of the processor time of a start of the
	// cluster, for 50 MB.
	collectPercent = 400

	// keptOutput bounds the objects that are shown on failure, and keptLog the cluster's log: the messages of the test
	// are above it.
	keptOutput = 3 << 10
	keptLog    = 1 << 10
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
	*programs.Process
	stdin io.WriteCloser
	known bool // the failure is expected or reported, so stop ignores it
}

// startDaemon starts the binary and waits until it has printed its first line,
// which means that the cluster is ready. It returns the daemon together with an
// error if there is a process to stop.
func startDaemon(binary string, arguments []string) (*daemon, error) {
	command := exec.Command(binary, arguments...)
	// The end of its standard input ends it in order: the kernel need not kill
	// it when the test process dies.
	command.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getenv("GOGC") == "" {
		command.Env = append(os.Environ(), "GOGC="+strconv.Itoa(collectPercent))
	}
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	process, err := programs.Start(binary, command)
	if err != nil {
		return nil, err
	}
	process.Grace = stopTimeout
	d := &daemon{Process: process, stdin: stdin}
	if err := d.Expect(d.Out, "\n"); err != nil {
		if d.Alive() != nil {
			err = fmt.Errorf("%s ended before it was ready: %s: %s", binary, d.State(), d.Output())
		}
		d.kill()
		return d, err
	}
	return d, nil
}

// firstLine returns the line that the cluster prints when it is ready.
func (d *daemon) firstLine() string {
	line, _, _ := strings.Cut(d.Out.String(), "\n")
	return line
}

// stop closes standard input and waits for the exit. A cluster that hangs, or
// that exits with a failure, is an error and so a finding of the test. It may
// be called more than once.
func (d *daemon) stop() error {
	if err := d.End(d.stdin.Close); err != nil {
		return err
	}
	if !d.known && !d.State().Success() {
		return d.Alive()
	}
	return nil
}

// kill sends SIGKILL and waits for the exit. The failed exit status is then
// expected, and stop does not report it.
func (d *daemon) kill() {
	d.known = true
	d.Kill()
}

// logTail returns the end of the cluster's log file and of its standard error.
// An unreadable file is reported in the text, because the test has failed
// already.
func (c *Cluster) logTail() string {
	text, err := tail(filepath.Join(c.Dir, "devcluster.log"), keptLog)
	if err != nil {
		text = err.Error()
	}
	if c.daemon != nil && c.daemon.Log.String() != "" {
		text += "\nstandard error: " + c.daemon.Output()
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
