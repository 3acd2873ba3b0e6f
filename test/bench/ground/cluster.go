package ground

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest/privatenet"
	"slipway.dev/slipway/internal/programs"
)

const (
	// clusterTimeout bounds the wait for the API server to become ready, which
	// includes the first start of its database.
	clusterTimeout = 3 * time.Minute
	// clusterRate is the client's QPS and burst limit. Benchmarks create
	// objects by the thousand; the default limit would be what they measure.
	clusterRate = 10_000
)

// Cluster is a running API server with its controllers, and no node. The caller
// owns it and must call Stop.
type Cluster struct {
	*kube.Cluster
	// Kubeconfig is the path of the file that other clients connect with.
	Kubeconfig string

	process *programs.Process
	stdin   io.Closer
}

// StartCluster starts a cluster that keeps its state below dir and waits until
// it is ready. client is the user agent in the API server's logs. The cluster
// stops when its standard input closes, so it does not outlive this process
// even after a crash.
func StartCluster(ctx context.Context, binary, dir, client string, options ...string) (*Cluster, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("the development cluster is missing: run make build, or name it with -devcluster: %w", err)
	}
	state := filepath.Join(dir, "cluster")
	words := []string{"--dir=" + state, "--port=0", "--stop-with-stdin", "--pod-network=" + privatenet.PodNetwork().String(), "--node=false"}
	command := exec.Command(binary, append(words, options...)...)
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	command.Stdout = writer
	process, err := StartProgram("the development cluster", filepath.Join(dir, "cluster.log"), command)
	// The child holds its own copy of the write end. With this one closed, the
	// read below ends when the child does.
	writer.Close()
	if err != nil {
		return nil, err
	}
	c := &Cluster{process: process, stdin: stdin}
	if c.Kubeconfig, err = c.firstLine(ctx, reader); err == nil {
		c.Cluster, err = kube.Connect(c.Kubeconfig, kube.Version(client), kube.Rate(clusterRate, clusterRate), withoutWarnings)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// withoutWarnings drops the warnings of the API server, such as about the older annotation
// of a class: a benchmark writes thousands of such objects on purpose.
func withoutWarnings(config *rest.Config) { config.WarningHandler = rest.NoWarnings{} }

// firstLine waits until the cluster is ready: it then prints the path of its
// kubeconfig as the first line of its output.
func (c *Cluster) firstLine(ctx context.Context, stdout *os.File) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	// A deadline in the past aborts the blocked read when ctx is done.
	defer context.AfterFunc(ctx, func() { _ = stdout.SetReadDeadline(time.Now()) })()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the development cluster did not come up: %w; its output: %s", err, c.process.Output())
	}
	return strings.TrimSpace(line), nil
}

// PID returns the ID of the process that runs the API server, its database and
// the controllers.
func (c *Cluster) PID() int { return c.process.PID() }

// Stop closes the client, then the cluster's standard input, and waits for the
// process to end.
func (c *Cluster) Stop() error {
	if c.Cluster != nil {
		c.Close()
	}
	return c.process.End(c.stdin.Close)
}

// StartProgram starts a program with its output in the log file. It must be
// called from the main thread, because of Pdeathsig. The environment is PATH, a
// temporary HOME and command.Env: no variable of the caller may change a
// measurement.
func StartProgram(name, log string, command *exec.Cmd) (*programs.Process, error) {
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}, command.Env...)
	return programs.StartLogging(name, log, command)
}

// StartSlipway is StartProgram for the slipway under measurement, with an API
// server and further words and variables.
func (c *Cluster) StartSlipway(path, log string, environment, words []string) (*programs.Process, error) {
	program, err := installed(path, filepath.Dir(log))
	if err != nil {
		return nil, fmt.Errorf("the program is missing: run make build-slipway, or name it with -slipway: %w", err)
	}
	command := exec.Command(program, words...)
	command.Env = append([]string{"KUBECONFIG=" + c.Kubeconfig}, environment...)
	return StartProgram("slipway "+words[0], log, command)
}

// installed copies a program into a folder, as a download or an image does, and returns
// the path of the copy. What the linker has just written may lie in huge pages of the
// page cache, and then each page that a process touches maps 2 MB: its resident memory
// was up to 50 MB more than that of the same program once it is copied.
func installed(path, dir string) (string, error) {
	from, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }()
	copied := filepath.Join(dir, filepath.Base(path))
	to, err := os.OpenFile(copied, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return copied, nil // of an earlier start in this run
	}
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return copied, errors.Join(err, to.Close())
}
