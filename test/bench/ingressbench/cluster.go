package main

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

// cluster is a running API server with its controllers, and no node.
type cluster struct {
	*kube.Cluster
	kubeconfig string
	process    *child
	stdin      io.Closer
}

// startCluster starts a cluster that keeps its state below a folder.
func startCluster(ctx context.Context, binary, dir string) (*cluster, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("the development cluster is missing: run make build, or name it with -devcluster: %w", err)
	}
	state := filepath.Join(dir, "cluster")
	command := exec.Command(binary, "--dir="+state, "--port=0", "--stop-with-stdin", "--pod-network="+podNetwork().String(), "--node=false")
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
	process, err := startChild("the development cluster", filepath.Join(dir, "cluster.log"), command)
	writer.Close()
	if err != nil {
		return nil, err
	}
	c := &cluster{process: process, stdin: stdin}
	if c.kubeconfig, err = c.firstLine(ctx, reader); err == nil {
		c.Cluster, err = kube.Connect(c.kubeconfig, kube.Version("ingressbench"), kube.Rate(clusterRate, clusterRate))
	}
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// firstLine waits until the cluster is ready and has said where its kubeconfig
// is.
func (c *cluster) firstLine(ctx context.Context, stdout *os.File) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	// A read that is under way ends with its deadline.
	defer context.AfterFunc(ctx, func() { _ = stdout.SetReadDeadline(time.Now()) })()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the development cluster did not come up: %w; it said: %s", err, c.process.said())
	}
	return strings.TrimSpace(line), nil
}

func (c *cluster) stop() error {
	if c.Cluster != nil {
		c.Close()
	}
	return c.process.stop(c.stdin.Close)
}
