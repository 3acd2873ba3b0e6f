package node

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/devcluster/must"
)

// The node ends and another one goes on: processes end with it, the API server keeps what it knew, and the Pods run
// again with their restart counted.
func TestClusterNodeRestarts(t *testing.T) {
	c := useCluster(t)
	dir := t.TempDir()
	stop := c.startNode(t, dir)
	s := c.scene(t)
	s.service("web")
	s.create("web", "slipway.dev/demo:v1", withReadiness)
	s.create("once", "container", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }, "wait")
	s.readyEndpoints("web", 1)
	s.pod("web", "ready", podIsReady)
	s.pod("once", "the start", podIsReady)
	stop()
	if left := ownProcesses(t); len(left) != 0 {
		t.Errorf("processes %v are left", left)
	}
	if pod := s.pod("web", "being there", func(*corev1.Pod) bool { return true }); !podIsReady(pod) {
		t.Errorf("the node changed the status on its way out: %s", pod.Status.String())
	}

	c.startNode(t, dir)
	pod := s.pod("web", "the restart", func(p *corev1.Pod) bool { return podIsReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.Reason != reasonUnknown {
		t.Errorf("lastState is %+v", last)
	}
	e := s.readyEndpoints("web", 1)[0]
	if response, _, err := s.ask("GET", "http://"+e.at+"/"); err != nil || response.Header.Get("X-Slipway-Pod") != "web" {
		t.Errorf("after the restart it answers %v, %v", response, err)
	}
	if got := s.log("web", corev1.PodLogOptions{Previous: true}); got == "" {
		t.Error("the log of the run before is gone")
	}
	s.pod("once", "the end", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
}

func TestClusterNodeIsKilled(t *testing.T) {
	c := useCluster(t)
	dir := t.TempDir()
	self := must.Get(os.Executable())(t)
	node := exec.Command(self)
	node.Env = append(os.Environ(), roleVariable+"=node", "SLIPWAY_NODE_TEST_CLUSTER="+c.dir, "SLIPWAY_NODE_TEST_DIR="+dir)
	node.Stderr = os.Stderr
	stdout := must.Get(node.StdoutPipe())(t)
	must.Do(t, node.Start())
	defer func() {
		node.Process.Kill()
		node.Wait()
	}()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the node said %q, %v", line, err)
	}
	s := c.scene(t)
	s.create("deaf", "container", nil, "deaf")
	s.create("doomed", "container", nil, "deaf")
	s.pod("deaf", "the start", podIsReady)
	s.pod("doomed", "the start", podIsReady)
	processes := childrenOf(t, node.Process.Pid)
	if len(processes) != 2 {
		t.Fatalf("the node has processes %v, want two", processes)
	}
	must.Do(t, node.Process.Signal(syscall.SIGKILL))
	s.eventually("the processes to end", func(context.Context) error {
		for _, pid := range processes {
			if pidAlive(pid) {
				return fmt.Errorf("process %d lives", pid)
			}
		}
		return nil
	})
	// One is deleted while there is no node; the next node finishes that.
	must.Do(t, c.client.CoreV1().Pods(s.ns).Delete(t.Context(), "doomed", metav1.DeleteOptions{}))
	c.startNode(t, dir)
	s.pod("deaf", "the restart", func(p *corev1.Pod) bool { return podIsReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	s.gone("doomed")
}

// With a Pod network every Pod has its own address, which it keeps when the node restarts, and listens on the port that
// it declares. All of 127.0.0.0/8 is local on Linux, which makes it a Pod network that needs no rights.
func TestClusterPodNetwork(t *testing.T) {
	c := useCluster(t)
	dir := t.TempDir()
	network := func(cfg *Config) { cfg.PodCIDR = netip.MustParsePrefix("127.77.0.0/29") }
	stop := c.startNode(t, dir, network)
	s := c.scene(t)
	withPort := func(p *corev1.Pod) {
		withReadiness(p)
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	}
	s.create("one", "slipway.dev/demo:v1", withPort)
	one := s.pod("one", "ready", podIsReady)
	s.create("two", "slipway.dev/demo:v1", withPort)
	two := s.pod("two", "ready", podIsReady)
	if one.Status.PodIP != "127.77.0.2" || two.Status.PodIP != "127.77.0.3" {
		t.Errorf("the addresses are %s and %s", one.Status.PodIP, two.Status.PodIP)
	}
	if response, _, err := s.ask("GET", "http://127.77.0.3:8080/"); err != nil || response.Header.Get("X-Slipway-Pod") != "two" {
		t.Errorf("two answers %v, %v", response, err)
	}
	must.Do(t, c.client.CoreV1().Pods(s.ns).Delete(t.Context(), "one", metav1.DeleteOptions{}))
	s.gone("one")
	stop()
	c.startNode(t, dir, network)
	s.create("three", "slipway.dev/demo:v1", withPort)
	three := s.pod("three", "ready", podIsReady)
	two = s.pod("two", "ready again", func(p *corev1.Pod) bool { return podIsReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	if two.Status.PodIP != "127.77.0.3" || three.Status.PodIP != "127.77.0.2" {
		t.Errorf("after the restart two has %s and three has %s", two.Status.PodIP, three.Status.PodIP)
	}
}

// While the API server hangs, Pods go on; what happened meanwhile is reported afterwards.
func TestClusterAPIServerHangs(t *testing.T) {
	c := useCluster(t)
	c.startNode(t, t.TempDir())
	s := c.scene(t)
	s.service("web")
	s.create("web", "slipway.dev/demo:v1", withReadiness)
	at := s.readyEndpoints("web", 1)[0].at
	must.Do(t, c.process.Process.Signal(syscall.SIGSTOP))
	resume := func() { c.process.Process.Signal(syscall.SIGCONT) }
	defer resume()
	s.ask("POST", "http://"+at+"/exit?code=3")
	s.eventually("the container to serve again", func(context.Context) error {
		_, _, err := s.ask("GET", "http://"+at+"/readyz")
		return err
	})
	resume()
	s.pod("web", "the restart", func(p *corev1.Pod) bool {
		return podIsReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode == 3
	})
}

func TestRunRefusesAFaultyConfig(t *testing.T) {
	err := Run(t.Context(), Config{Address: netip.MustParseAddr("127.0.0.1"), Dir: "relative"}, func() {})
	for _, want := range []string{"Name is empty", "not loopback", "Client is nil", "ServingCert", "ClientCA", "absolute path", "Executable", "Images"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not say %q", err, want)
		}
	}
}

// Without an API server the node waits for one, and ends when its context does.
func TestRunEndsWhileItWaits(t *testing.T) {
	cfg := must.Get(useCluster(t).nodeConfig(t.TempDir()))(t)
	nobody := *cfg.Client
	nobody.Host = "https://127.0.0.1:1"
	cfg.Client = &nobody
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg, func() { t.Error("ready without an API server") }) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
