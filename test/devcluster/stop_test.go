package devcluster_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// However it ends, a cluster leaves no process behind, and its Pods are back
// after the next start.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Start(t)
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, demoDeployment("v1"))
	tests := []struct {
		name string
		end  func()
		// A clean end waits for its Pods; after kill -9 they notice by
		// themselves.
		after time.Duration
	}{
		{"SIGTERM", func() { terminate(t, cluster) }, 0},
		{"end of stdin", func() { cluster.Stop(t) }, 0},
		{"kill -9", func() { cluster.Kill(t) }, 10 * time.Second},
	}
	for i, test := range tests {
		if i > 0 {
			cluster.Restart(t)
		}
		waitForRunning(t, cluster, namespace, int32(i))
		children := childrenOf(t, cluster.PID())
		if len(children) < 2 {
			t.Fatalf("%s: the cluster runs %v, want a process for each of two Pods", test.name, children)
		}
		test.end()
		for _, child := range children {
			if !child.ended(test.after) {
				t.Errorf("%s: %v is left behind", test.name, child)
			}
		}
	}
}

// waitForRunning waits until both Pods respond. After a restart the API server
// still has the state from before; the number of restarts distinguishes them.
func waitForRunning(t *testing.T, cluster *kubetest.Cluster, namespace string, restarts int32) {
	t.Helper()
	kubetest.WaitFor(t, cluster.Client.CoreV1().Pods(namespace), kube.Labelled("app=demo"), patience,
		func(pods []*corev1.Pod) error {
			if len(pods) != 2 {
				return fmt.Errorf("there are %d Pods, want 2", len(pods))
			}
			return errors.Join(restarted(restarts)(pods[0]), restarted(restarts)(pods[1]))
		})
	for _, found := range waitForEndpoints(t, cluster, namespace, 2) {
		mustAsk(t, found.address.String())
	}
}

func terminate(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	must.Do(t, syscall.Kill(cluster.PID(), syscall.SIGTERM))
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case <-cluster.Exited():
	case <-deadline.C:
		t.Fatalf("still running %s after SIGTERM", patience)
	}
	// It checks the exit code, too.
	cluster.Stop(t)
}

// child is a process that the cluster has started.
type child struct {
	pid        int
	executable string
	arguments  []string
	handle     int
}

// childrenOf lists the processes that a process has started and that have not
// ended. Each can be waited for until the end of the test.
func childrenOf(t *testing.T, pid int) []child {
	t.Helper()
	tasks := must.Get(os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task"))(t)
	var children []child
	for _, task := range tasks {
		// A thread may have ended meanwhile; its children are another's then.
		list, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + task.Name() + "/children")
		for _, field := range strings.Fields(string(list)) {
			number := must.Get(strconv.Atoi(field))(t)
			if found, ok := openChild(t, number); ok {
				children = append(children, found)
			}
		}
	}
	return children
}

func openChild(t *testing.T, pid int) (child, bool) {
	t.Helper()
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return child{}, false
	}
	t.Cleanup(func() { unix.Close(handle) })
	directory := "/proc/" + strconv.Itoa(pid)
	executable, err := os.Readlink(directory + "/exe")
	if err != nil {
		return child{}, false
	}
	arguments, err := os.ReadFile(directory + "/cmdline")
	if err != nil || len(arguments) == 0 {
		return child{}, false
	}
	return child{
		pid: pid, executable: executable, handle: handle,
		arguments: strings.Split(strings.TrimSuffix(string(arguments), "\x00"), "\x00"),
	}, true
}

// ended waits for the end of the process, at most for the given time.
func (c child) ended(timeout time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(c.handle), Events: unix.POLLIN}}
	deadline := time.Now().Add(timeout)
	for {
		n, err := unix.Poll(poll, int(max(0, time.Until(deadline)).Milliseconds()))
		if err != unix.EINTR {
			return err == nil && n == 1
		}
	}
}
