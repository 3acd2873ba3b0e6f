package devcluster_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// programPods are two Pods of an image that is a program, which listens on the
// same port in both.
const programPods = `
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {greeting: hello}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: files}
spec:
  replicas: 2
  selector: {matchLabels: {app: files}}
  template:
    metadata: {labels: {app: files}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: files
        image: registry.test/files:v7
        args: [--as, $(POD_NAME)]
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 1}
        volumeMounts:
        - {name: words, mountPath: /etc/words}
        - {name: pair, mountPath: /etc/tls}
      volumes:
      - {name: words, configMap: {name: words}}
      - {name: pair, secret: {secretName: pair, items: [{key: tls.key, path: private/key}]}}
`

// The owner of the machine maps an image to a program. Its Pods have an address
// each, on which they listen on any port; they see their volumes and nothing
// else of the machine, and end with the cluster.
func TestImageIsProgram(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Start(t, kubetest.Programs(map[string]string{"registry.test/files": buildProgram(t)}))
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, programPods)
	waitForPods(t, cluster, namespace, waitingFor("CreateContainerConfigError"))
	cluster.Apply(t, namespace, "{apiVersion: v1, kind: Secret, metadata: {name: pair}, stringData: {tls.key: secret, tls.crt: other}}")
	for _, pod := range waitForPods(t, cluster, namespace, podReady) {
		for path, want := range map[string]string{
			"/etc/words/greeting": "200 hello", "/etc/tls/private/key": "200 secret",
			"/etc/tls/tls.crt": "404 404 page not found\n", "/etc/passwd": "404 404 page not found\n",
		} {
			if got := fetchFile(t, pod, path); got != want {
				t.Errorf("%s of %s is %q, want %q", path, pod.Name, got, want)
			}
		}
		if got := echoDatagram(t, pod.Status.PodIP, pod.Name); got != pod.Name {
			t.Errorf("%s echoes %q", pod.Name, got)
		}
		awaitLine(t, cluster, pod, "request for /etc/passwd with [--as "+pod.Name+"]")
	}
	children := childrenOf(t, cluster.PID())
	if len(children) != 2 {
		t.Fatalf("the cluster runs %v, want a process for each of two Pods", children)
	}
	cluster.Kill(t)
	for _, child := range children {
		if !child.ended(10 * time.Second) {
			t.Errorf("%v is left behind", child)
		}
	}
	// What the killed cluster left of its network does not keep the next one
	// from starting.
	cluster.Restart(t)
	waitForPods(t, cluster, namespace, restarted(1))
}

// buildProgram builds testdata/program and returns its path. It is linked
// statically, as every program of an image.
func buildProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./testdata/program")
	command.Env = append(command.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return path
}

// waitForPods waits until both Pods meet a condition.
func waitForPods(t *testing.T, cluster *kubetest.Cluster, namespace string, condition func(*corev1.Pod) error) []*corev1.Pod {
	t.Helper()
	return kubetest.WaitFor(t, cluster.Client.CoreV1().Pods(namespace), kube.Labelled("app=files"), patience,
		func(pods []*corev1.Pod) error {
			for _, pod := range pods {
				if err := condition(pod); err != nil {
					return err
				}
			}
			if len(pods) != 2 {
				return fmt.Errorf("there are %d Pods, want 2", len(pods))
			}
			return nil
		})
}

// fetchFile returns the status and the body with which a Pod serves a file.
func fetchFile(t *testing.T, pod *corev1.Pod, path string) string {
	t.Helper()
	response := must.Get(open(t.Context(), http.MethodGet, "http://"+pod.Status.PodIP+path))(t)
	defer response.Body.Close()
	if name := response.Header.Get("Pod"); name != pod.Name {
		t.Errorf("%s is the address of %s", pod.Status.PodIP, name)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, must.Get(io.ReadAll(response.Body))(t))
}

// awaitLine follows the log of a Pod until it has a text.
func awaitLine(t *testing.T, cluster *kubetest.Cluster, pod *corev1.Pod, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	logs := cluster.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Follow: true})
	stream := must.Get(logs.Stream(ctx))(t)
	defer stream.Close()
	readUntil(t, stream, text)
}

// echoDatagram sends a datagram to port 80 and returns the one that comes back.
func echoDatagram(t *testing.T, address, text string) string {
	t.Helper()
	conn := must.Get(net.Dial("udp", net.JoinHostPort(address, "80")))(t)
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(patience)))
	must.Get(conn.Write([]byte(text)))(t)
	buffer := make([]byte, 1500)
	n := must.Get(conn.Read(buffer))(t)
	return string(buffer[:n])
}

// A program that cannot run fails the start, with what to change.
func TestImageIsChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ network, program, want string }{
		{"10.245.250.0/24", "/none", "--image registry.test/files: stat /none: no such file or directory"},
		{"host", "/bin/sh", "--image needs a --pod-network such as 10.245.0.0/24"},
		{"10.244.250.0/24", "/", "--image registry.test/files: / is a directory"},
	} {
		code, stdout, stderr := runBinary(t, []string{
			"--dir=" + t.TempDir(), "--pod-network=" + test.network, "--image=registry.test/files=" + test.program,
		})
		if code != 1 || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s on %s: exit code %d, %q, %q; want %q", test.program, test.network, code, stdout, stderr, test.want)
		}
	}
}
