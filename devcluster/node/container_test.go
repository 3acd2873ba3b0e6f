package node

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/devcluster/must"
)

func isRunning(s corev1.ContainerStatus) bool    { return s.State.Running != nil }
func isTerminated(s corev1.ContainerStatus) bool { return s.State.Terminated != nil }
func isReady(s corev1.ContainerStatus) bool      { return s.Ready }

// logOf reads the log of a run that has ended.
func (s *supervised) logOf(run int32) string {
	s.t.Helper()
	file := must.Get(s.logs.find(run))(s.t)
	var out bytes.Buffer
	must.Do(s.t, file.copyTo(s.t.Context(), &out, func() error { return nil }, logQuery{tail: -1, limit: -1}))
	return out.String()
}

func TestContainerEnvironmentAndArgs(t *testing.T) {
	t.Setenv("SECRET_OF_THIS_USER", "1")
	pod := testPod("env", "--name=$(NAME)", "$$(NAME)", "$(nothing)", "; id")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NAME", Value: "x y"}}
	c := superviseFirst(t, pod)
	c.until("the end", isTerminated)
	got := strings.Split(strings.TrimSpace(c.logOf(0)), "\n")
	want := []string{
		"FROM_IMAGE=container",
		quickExit,
		"HOSTNAME=pod",
		"NAME=x y",
		"PATH=" + os.Getenv("PATH"),
		listenVariable + "=" + c.ports.listen("main"),
		roleVariable + "=container",
		"args=--name=x y|$(NAME)|$(nothing)|; id",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the process saw\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestContainerEnds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy corev1.RestartPolicy
		code   string
		reason string
	}{
		{"completed", corev1.RestartPolicyNever, "0", reasonCompleted},
		{"failed", corev1.RestartPolicyNever, "3", reasonError},
		{"completed on failure", corev1.RestartPolicyOnFailure, "0", reasonCompleted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod("exit", tt.code)
			pod.Spec.RestartPolicy = tt.policy
			c := superviseFirst(t, pod)
			<-c.done
			s := c.snapshot()
			if s.State.Terminated == nil || s.State.Terminated.Reason != tt.reason || s.RestartCount != 0 || s.Ready || isTrue(s.Started) {
				t.Errorf("status is %+v", s)
			}
			if !strings.HasPrefix(s.ContainerID, containerIDScheme) || s.State.Terminated.ContainerID != s.ContainerID {
				t.Errorf("container IDs are %q and %q", s.ContainerID, s.State.Terminated.ContainerID)
			}
		})
	}
}

func TestContainerRestartsWithBackOff(t *testing.T) {
	c := superviseFirst(t, testPod("exit", "3"))
	s := c.until("back-off", func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason == reasonBackOff
	})
	if s.RestartCount != 0 || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 3 {
		t.Errorf("in back-off the status is %+v", s)
	}
	if run, ok := c.currentRun(false); run != 0 || !ok {
		t.Errorf("in back-off the log is of run %d, %v; want 0", run, ok)
	}
	s = c.until("the second run's end", func(s corev1.ContainerStatus) bool {
		return s.RestartCount == 1 && s.State.Waiting != nil && s.State.Waiting.Reason == reasonBackOff
	})
	if !strings.Contains(s.State.Waiting.Message, "back-off 2s") {
		t.Errorf("the second back-off says %q", s.State.Waiting.Message)
	}
	first := time.Now()
	c.stop(first.Add(time.Hour))
	<-c.done
	if s := c.snapshot(); s.State.Terminated == nil || s.State.Terminated.ExitCode != 3 {
		t.Errorf("stopped in back-off the status is %+v", s)
	}
}

func TestContainerStopsGracefully(t *testing.T) {
	c := superviseFirst(t, testPod("wait"))
	c.until("the start", isReady)
	c.untilLogged(0, "waiting")
	c.stop(time.Now().Add(time.Hour))
	<-c.done
	if s := c.snapshot(); s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
		t.Errorf("status is %+v", s)
	}
	if got, want := c.logOf(0), "waiting\nasked to end\n"; got != want {
		t.Errorf("the log is %q, want %q", got, want)
	}
}

func TestContainerIsKilledAtTheDeadline(t *testing.T) {
	c := superviseFirst(t, testPod("deaf"))
	c.untilLogged(0, "waiting")
	c.stop(time.Now().Add(time.Hour))
	c.stop(time.Now().Add(2 * time.Hour)) // later, so it changes nothing
	if !c.snapshot().Ready {
		t.Error("a container that was asked to stop and runs is not ready")
	}
	c.stop(time.Now()) // forced
	<-c.done
	s := c.snapshot()
	if s.Ready || s.State.Terminated == nil || s.State.Terminated.ExitCode != 137 || s.State.Terminated.Signal != int32(syscall.SIGKILL) {
		t.Errorf("status is %+v", s)
	}
}

// A process must not outlive the node. The kernel closes the node's end of the lifeline when the node dies in any way;
// closing it here is the same for the process.
func TestProcessEndsWithItsLifeline(t *testing.T) {
	c := superviseFirst(t, testPod("deaf"))
	c.untilLogged(0, "waiting")
	children := ownProcesses(t)
	if len(children) != 1 {
		t.Fatalf("processes %v, want one", children)
	}
	closeLifelineOf(t, children[0])
	s := c.until("the end", func(s corev1.ContainerStatus) bool { return s.LastTerminationState.Terminated != nil })
	if code := s.LastTerminationState.Terminated.ExitCode; code != 99 {
		t.Errorf("exit code is %d, want the process's own 99", code)
	}
}

// closeLifelineOf closes this process's end of the pipe that is stdin of the child.
func closeLifelineOf(t *testing.T, pid int) {
	t.Helper()
	pipe := must.Get(os.Readlink("/proc/" + itoa(pid) + "/fd/0"))(t)
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	for _, entry := range entries {
		if target, _ := os.Readlink("/proc/self/fd/" + entry.Name()); target == pipe {
			// Through /dev/null, so that the node's own Close later closes no stranger's file.
			null := must.Get(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t)
			defer null.Close()
			must.Do(t, syscall.Dup3(int(null.Fd()), atoi(t, entry.Name()), syscall.O_CLOEXEC))
			return
		}
	}
	t.Fatalf("this process has no end of %s", pipe)
}

func TestContainerRefusals(t *testing.T) {
	for _, tt := range []struct {
		name    string
		edit    func(*corev1.Container)
		reason  string
		message string
	}{
		{"image", func(c *corev1.Container) { c.Image = "nginx:1.27" }, reasonImage, "nginx"},
		{"command", func(c *corev1.Container) { c.Command = []string{"/bin/sh", "-c", "touch owned"} }, reasonCreateError, "command is not supported"},
		{"config", func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}}}
		}, reasonConfigError, `secrets "none" not found`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod("wait")
			tt.edit(&pod.Spec.Containers[0])
			c := superviseFirst(t, pod)
			s := c.until("the refusal", func(s corev1.ContainerStatus) bool {
				return s.State.Waiting != nil && s.State.Waiting.Reason == tt.reason
			})
			if !strings.Contains(s.State.Waiting.Message, tt.message) || s.RestartCount != 0 || s.Ready {
				t.Errorf("status is %+v", s)
			}
			if _, ok := c.currentRun(false); ok {
				t.Error("a container that never ran has a log")
			}
			if got := ownProcesses(t); len(got) != 0 {
				t.Errorf("processes %v run", got)
			}
		})
	}
}

func TestContainerStartsWhenItsConfigAppears(t *testing.T) {
	pod := testPod("wait")
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}}
	c := superviseFirst(t, pod)
	c.until("the refusal", func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason == reasonConfigError
	})
	c.mu.Lock()
	c.spec.EnvFrom = nil // what a ConfigMap that exists now amounts to
	c.mu.Unlock()
	c.until("the start", isRunning)
}

func TestContainerWithChangedImage(t *testing.T) {
	pod := testPod("wait")
	pod.Spec.Containers[0].Image = "missing"
	c := superviseFirst(t, pod)
	c.until("the refusal", func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason == reasonImage
	})
	c.update("container")
	s := c.until("the start", isRunning)
	if s.RestartCount != 0 || s.Image != "container" {
		t.Errorf("status is %+v", s)
	}
	c.untilLogged(0, "waiting")
	c.update("container:2")
	s = c.until("the start of the new image", func(s corev1.ContainerStatus) bool { return s.RestartCount == 1 && isRunning(s) })
	if s.Image != "container:2" || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 0 {
		t.Errorf("status is %+v", s)
	}
}

func TestReadinessProbe(t *testing.T) {
	pod := testPod("serve")
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/status", Port: intstr.FromInt32(8080)}},
		PeriodSeconds:    1,
		FailureThreshold: 1,
	}
	c := superviseFirst(t, pod)
	if s := c.until("the start", isRunning); !isTrue(s.Started) {
		t.Errorf("without a startup probe it is not started: %+v", s)
	}
	c.until("ready", isReady)
	c.post("/status?set=503")
	c.until("not ready", func(s corev1.ContainerStatus) bool { return isRunning(s) && !s.Ready })
	c.post("/status?set=302")
	if s := c.until("ready again", isReady); s.RestartCount != 0 {
		t.Errorf("readiness restarted the container: %+v", s)
	}
}

func TestLivenessProbe(t *testing.T) {
	pod := testPod("serve")
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: defaultPort}}
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "status", Port: intstr.FromString("http")}},
		InitialDelaySeconds: 1,
		PeriodSeconds:       1,
		FailureThreshold:    2,
	}
	c := superviseFirst(t, pod)
	c.until("ready", isReady)
	c.untilLogged(0, "serving")
	c.post("/status?set=500")
	s := c.until("the restart", func(s corev1.ContainerStatus) bool { return s.RestartCount == 1 && isRunning(s) })
	if last := s.LastTerminationState.Terminated; last == nil || last.ExitCode != 0 {
		t.Errorf("the last run ended with %+v, want its own end after SIGTERM", last)
	}
	if got := c.logOf(0); !strings.Contains(got, "asked to end") {
		t.Errorf("the process was not asked to end: %q", got)
	}
}

func TestStartupProbe(t *testing.T) {
	pod := testPod("serve")
	main := &pod.Spec.Containers[0]
	main.StartupProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
		PeriodSeconds: 1,
	}
	main.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/status", Port: intstr.FromInt32(8080)}},
		PeriodSeconds: 1,
	}
	c := superviseFirst(t, pod)
	s := c.until("ready", isReady)
	if !isTrue(s.Started) {
		t.Errorf("ready before it is started: %+v", s)
	}
}

func TestStartupProbeFails(t *testing.T) {
	grace := int64(0)
	pod := testPod("deaf")
	pod.Spec.Containers[0].StartupProbe = &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
		PeriodSeconds:    1,
		FailureThreshold: 1, TerminationGracePeriodSeconds: &grace,
	}
	c := superviseFirst(t, pod)
	c.until("the restart", func(s corev1.ContainerStatus) bool {
		if isTrue(s.Started) || s.Ready {
			t.Fatalf("started without passing its probe: %+v", s)
		}
		return s.LastTerminationState.Terminated != nil && s.LastTerminationState.Terminated.ExitCode == 137
	})
}

func TestPreStopHook(t *testing.T) {
	pod := testPod("serve")
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/said?what=goodbye", Port: intstr.FromInt32(8080)}}}
	c := superviseFirst(t, pod)
	c.untilLogged(0, "serving")
	c.stop(time.Now().Add(time.Hour))
	<-c.done
	if got, want := c.logOf(0), "serving\nsaid goodbye\nasked to end\n"; got != want {
		t.Errorf("the log is %q, want %q", got, want)
	}
}

func TestPreStopSleepEndsAtTheDeadline(t *testing.T) {
	pod := testPod("wait")
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3600}}}
	c := superviseFirst(t, pod)
	c.untilLogged(0, "waiting")
	c.stop(time.Now().Add(2 * time.Hour))
	c.stop(time.Now())
	<-c.done
	if s := c.snapshot(); s.State.Terminated == nil || s.State.Terminated.ExitCode != 137 {
		t.Errorf("status is %+v", s)
	}
}

// While a process restarts its port stays its own, and a connection is refused instead of reaching someone else.
func TestPortStaysAcrossRestarts(t *testing.T) {
	pod := testPod("serve")
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/status", Port: intstr.FromInt32(8080)}}}
	c := superviseFirst(t, pod)
	c.until("ready", isReady)
	if response, err := http.Post(c.url(defaultPort, "/exit?code=4"), "", nil); err == nil {
		response.Body.Close() // the process may be gone before it has responded
	}
	c.until("back-off", func(s corev1.ContainerStatus) bool { return s.State.Waiting != nil })
	address := strings.TrimPrefix(c.url(defaultPort, ""), "http://")
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling a container in back-off gave %v, want it refused", err)
	}
	c.until("ready again", isReady)
	response := must.Get(http.Get(c.url(defaultPort, "/status")))(t)
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}
