package ground

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
	"time"

	"slipway.dev/slipway/internal/kube"
)

const (
	clusterTimeout = 3 * time.Minute
	// Objects come by the thousand.
	clusterRate = 10_000
)

// Cluster is a running API server with its controllers, and no node.
type Cluster struct {
	*kube.Cluster
	// Kubeconfig is the file that others connect with.
	Kubeconfig string

	process *Child
	stdin   io.Closer
}

// StartCluster starts a cluster that keeps its state below a folder. The client
// is who asks, in the logs of the API server.
func StartCluster(ctx context.Context, binary, dir, client string) (*Cluster, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("the development cluster is missing: run make build, or name it with -devcluster: %w", err)
	}
	state := filepath.Join(dir, "cluster")
	command := exec.Command(binary, "--dir="+state, "--port=0", "--stop-with-stdin", "--pod-network="+PodNetwork().String(), "--node=false")
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
	process, err := StartChild("the development cluster", filepath.Join(dir, "cluster.log"), command)
	writer.Close()
	if err != nil {
		return nil, err
	}
	c := &Cluster{process: process, stdin: stdin}
	if c.Kubeconfig, err = c.firstLine(ctx, reader); err == nil {
		c.Cluster, err = kube.Connect(c.Kubeconfig, kube.Version(client), kube.Rate(clusterRate, clusterRate))
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// firstLine waits until the cluster is ready and has said where its kubeconfig
// is.
func (c *Cluster) firstLine(ctx context.Context, stdout *os.File) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	// A read that is under way ends with its deadline.
	defer context.AfterFunc(ctx, func() { _ = stdout.SetReadDeadline(time.Now()) })()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the development cluster did not come up: %w; it said: %s", err, c.process.Said())
	}
	return strings.TrimSpace(line), nil
}

// PID is the number of the process that the API server is in, with its database
// and the controllers.
func (c *Cluster) PID() int { return c.process.PID() }

// Stop ends the cluster and waits for it.
func (c *Cluster) Stop() error {
	if c.Cluster != nil {
		c.Close()
	}
	return c.process.Stop(c.stdin.Close)
}
