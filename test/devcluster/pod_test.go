package devcluster_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, `
apiVersion: v1
kind: ConfigMap
metadata: {name: look}
data: {colour: pink}
---
`+demoPod("demo", `
env:
- {name: BASE, value: v7}
- {name: VERSION, value: $(BASE)-of-$(POD_NAMESPACE)-$$(BASE)}
- {name: COLOUR, valueFrom: {configMapKeyRef: {name: look, key: colour}}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
`, ""))
	pod := waitForPod(t, cluster, namespace, "demo", podReady)
	// A reference sees only variables above it; the namespace is below.
	want := answer{
		Name: "demo", Namespace: namespace, IP: pod.Status.PodIP,
		Version: "v7-of-$(POD_NAMESPACE)-$(BASE)", Colour: "pink",
	}
	if got := mustAsk(t, demoAddress(pod)); got != want {
		t.Errorf("the container says %+v, want %+v", got, want)
	}
}

// Only a Pod that reports ready gets traffic.
func TestReadinessProbe(t *testing.T) {
	t.Parallel()
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, demoPod("demo", `
args: [--not-ready]
startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 30}
readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1, failureThreshold: 1}
`, "")+`
---
apiVersion: v1
kind: Service
metadata: {name: demo}
spec: {selector: {app: demo}, ports: [{port: 80, targetPort: 8080}]}
`)
	endpointReady := func(want bool) endpoint {
		t.Helper()
		var found []endpoint
		kubetest.WaitFor(t, cluster.Client.DiscoveryV1().EndpointSlices(namespace), kube.Labelled(ofDemo), patience,
			func(endpointSlices []*discoveryv1.EndpointSlice) (err error) {
				found, err = endpointsOf(endpointSlices)
				if err == nil && (len(found) != 1 || found[0].ready != want) {
					err = fmt.Errorf("endpoints are %v, want one with ready %t", found, want)
				}
				return err
			})
		return found[0]
	}
	address := endpointReady(false).address.String()
	// It has started and responds all the same: the probe alone keeps it out.
	waitForPod(t, cluster, namespace, "demo", func(pod *corev1.Pod) error {
		if started := containerStatus(pod).Started; started == nil || !*started || podReady(pod) == nil {
			return fmt.Errorf("the Pod is %s, want it started and not ready", pod.Status.Phase)
		}
		return nil
	})
	mustPost(t, address, "/ready")
	endpointReady(true)
	mustPost(t, address, "/unready")
	endpointReady(false)
}

// A container whose liveness probe fails is restarted.
func TestLivenessProbe(t *testing.T) {
	t.Parallel()
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, demoPod("demo",
		`livenessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1, failureThreshold: 2}`, ""))
	pod := waitForPod(t, cluster, namespace, "demo", podReady)
	mustPost(t, demoAddress(pod), "/unready")
	again := waitForPod(t, cluster, namespace, "demo", restarted(1))
	if again.UID != pod.UID || again.Status.PodIP != pod.Status.PodIP {
		t.Errorf("the Pod was replaced: %s at %s is now %s at %s",
			pod.UID, pod.Status.PodIP, again.UID, again.Status.PodIP)
	}
	mustAsk(t, demoAddress(again))
}

func TestRestartPolicy(t *testing.T) {
	t.Parallel()
	cluster, namespace := kubetest.SharedNamespace(t)
	tests := []struct {
		policy   corev1.RestartPolicy
		code     int
		restarts bool
		phase    corev1.PodPhase // when it does not restart
	}{
		{corev1.RestartPolicyAlways, 0, true, ""},
		{corev1.RestartPolicyAlways, 3, true, ""},
		{corev1.RestartPolicyOnFailure, 0, false, corev1.PodSucceeded},
		{corev1.RestartPolicyOnFailure, 3, true, ""},
		{corev1.RestartPolicyNever, 0, false, corev1.PodSucceeded},
		{corev1.RestartPolicyNever, 3, false, corev1.PodFailed},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s %d", test.policy, test.code), func(t *testing.T) {
			t.Parallel()
			name := strings.ToLower(fmt.Sprintf("%s-%d", test.policy, test.code))
			cluster.Apply(t, namespace, demoPod(name,
				fmt.Sprintf("args: [--exit-after=200ms, --exit-code=%d]", test.code),
				"restartPolicy: "+string(test.policy)))
			pod := waitForPod(t, cluster, namespace, name, func(pod *corev1.Pod) error {
				status := containerStatus(pod)
				switch {
				case test.restarts && status.RestartCount == 0:
					return errors.New("it has not restarted")
				case !test.restarts && pod.Status.Phase != test.phase:
					return fmt.Errorf("it is %s, want %s", pod.Status.Phase, test.phase)
				}
				return nil
			})
			status := containerStatus(pod)
			ended := status.State.Terminated
			if test.restarts {
				ended = status.LastTerminationState.Terminated
			} else if status.RestartCount != 0 {
				t.Errorf("it has restarted %d times", status.RestartCount)
			}
			if ended == nil || int(ended.ExitCode) != test.code {
				t.Errorf("its last end is %+v, want exit code %d", ended, test.code)
			}
		})
	}
}

// A Pod that is deleted finishes what it has begun, within its grace period.
func TestTerminationGrace(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		grace    int64
		events   int
		finishes bool
	}{
		{"enough", 20, 4, true},
		{"too short", 1, 1000, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cluster, namespace := kubetest.SharedNamespace(t)
			cluster.Apply(t, namespace, demoPod("demo", "", ""))
			pod := waitForPod(t, cluster, namespace, "demo", podReady)
			response := must.Get(open(t.Context(), "GET",
				fmt.Sprintf("http://%s/stream?every=400ms&n=%d", demoAddress(pod), test.events)))(t)
			defer response.Body.Close()
			events, lines := 0, bufio.NewScanner(response.Body)
			for lines.Scan() {
				if !strings.HasPrefix(lines.Text(), "data:") {
					continue
				}
				if events++; events == 1 {
					must.Do(t, cluster.Client.CoreV1().Pods(namespace).Delete(t.Context(), "demo",
						metav1.DeleteOptions{GracePeriodSeconds: &test.grace}))
				}
			}
			if finished := events == test.events && lines.Err() == nil; finished != test.finishes {
				t.Errorf("%d of %d events arrived, then %v; want all: %t", events, test.events, lines.Err(), test.finishes)
			}
			waitForPodGone(t, cluster, namespace, "demo")
		})
	}
}

func TestUnknownImage(t *testing.T) {
	t.Parallel()
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, strings.ReplaceAll(demoPod("other", "", ""), "slipway.dev/demo:v1", "nginx:1.29"))
	pod := waitForPod(t, cluster, namespace, "other", waitingFor("ErrImagePull"))
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("the Pod is %s, want it pending", pod.Status.Phase)
	}
	message := containerStatus(pod).State.Waiting.Message
	for _, want := range []string{"nginx:1.29", "built-in", "slipway.dev/demo:v1"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message does not mention %q: %s", want, message)
		}
	}
}

// Nothing that a manifest names is executed, in whatever place it names it.
func TestCommandsAreRefused(t *testing.T) {
	t.Parallel()
	cluster, namespace := kubetest.SharedNamespace(t)
	trace := filepath.Join(t.TempDir(), "executed")
	tests := []struct{ name, field, container string }{
		{"command", "command", fmt.Sprintf(`command: [/bin/sh, -c, "touch %s"]`, trace)},
		{"liveness", "livenessProbe.exec", fmt.Sprintf(`livenessProbe: {exec: {command: [touch, %s]}, periodSeconds: 1}`, trace)},
		{"readiness", "readinessProbe.exec", fmt.Sprintf(`readinessProbe: {exec: {command: [touch, %s]}, periodSeconds: 1}`, trace)},
		{"hook", "lifecycle.postStart", fmt.Sprintf(`lifecycle: {postStart: {exec: {command: [touch, %s]}}}`, trace)},
	}
	for _, test := range tests {
		cluster.Apply(t, namespace, demoPod(test.name, test.container, ""))
	}
	for _, test := range tests {
		pod := waitForPod(t, cluster, namespace, test.name, waitingFor("CreateContainerError"))
		if message := containerStatus(pod).State.Waiting.Message; !strings.Contains(message, test.field) {
			t.Errorf("the message does not mention %s: %s", test.field, message)
		}
	}
	for _, child := range childrenOf(t, cluster.PID()) {
		if child.executable != kubetest.Binary(t) || len(child.arguments) < 2 || child.arguments[1] != "demo-echo" {
			t.Errorf("the cluster runs %v", child)
		}
	}
	if _, err := os.Stat(trace); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a command of a manifest was executed: %v", err)
	}
}

// waitingFor is a condition for waitForPod.
func waitingFor(reason string) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if waiting := containerStatus(pod).State.Waiting; waiting == nil || waiting.Reason != reason {
			return fmt.Errorf("the container is in state %+v, want it waiting with reason %s", containerStatus(pod).State, reason)
		}
		return nil
	}
}
