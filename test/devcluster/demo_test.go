package devcluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// patience is how long a change may take to arrive. It is far more than it
// takes, for machines that are busy with other things.
const patience = time.Minute

// answer is the demo image's report about itself and the request.
type answer struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Colour    string `json:"colour"`
	Namespace string `json:"namespace"`
	IP        string `json:"ip"`
}

// ask sends a request to a demo Pod, over a connection of its own.
func ask(ctx context.Context, address string) (answer, error) {
	body, err := send(ctx, http.MethodGet, "http://"+address+"/api")
	if err != nil {
		return answer{}, err
	}
	var got answer
	err = json.Unmarshal(body, &got)
	return got, err
}

func mustAsk(t *testing.T, address string) answer {
	t.Helper()
	return must.Get(ask(t.Context(), address))(t)
}

func mustPost(t *testing.T, address, path string) {
	t.Helper()
	must.Get(send(t.Context(), http.MethodPost, "http://"+address+path))(t)
}

func send(ctx context.Context, method, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	response, err := open(ctx, method, url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, response.Status, body)
	}
	return body, err
}

// open returns the response while its body is still to come. Nothing is kept
// for another request: whether a Pod accepts connections is what is tested.
func open(ctx context.Context, method, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
}

// demoAddress is the address of a Pod of the shared cluster.
func demoAddress(pod *corev1.Pod) string {
	return net.JoinHostPort(pod.Status.PodIP, "8080")
}

// waitForPod waits until a Pod exists and the condition holds for it.
func waitForPod(t *testing.T, cluster *kubetest.Cluster, namespace, name string, condition func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	return kubetest.WaitFor(t, cluster.Client.CoreV1().Pods(namespace), kube.Named(name), patience,
		func(pods []*corev1.Pod) error {
			if len(pods) == 0 {
				return errors.New("the Pod does not exist")
			}
			return condition(pods[0])
		})[0]
}

func waitForPodGone(t *testing.T, cluster *kubetest.Cluster, namespace, name string) {
	t.Helper()
	kubetest.WaitFor(t, cluster.Client.CoreV1().Pods(namespace), kube.Named(name), patience,
		func(pods []*corev1.Pod) error {
			if len(pods) > 0 {
				return errors.New("the Pod still exists")
			}
			return nil
		})
}

// podReady is a condition for waitForPod.
func podReady(pod *corev1.Pod) error {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("the Pod is not ready")
}

// restarted is a condition for waitForPod: ready again after n restarts.
func restarted(n int32) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if status := containerStatus(pod); status.RestartCount < n {
			return fmt.Errorf("the container has restarted %d times, want %d", status.RestartCount, n)
		}
		return podReady(pod)
	}
}

func containerStatus(pod *corev1.Pod) corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[0]
}

// demoPod is the manifest of a Pod with one container, with further lines of
// that container and of the Pod's spec. It is ready when it can be asked,
// unless the lines have a readiness probe.
func demoPod(name string, container, spec string) string {
	if !strings.Contains(container, "readinessProbe") {
		container += "\nreadinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}"
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {app: %[1]s}
spec:
  terminationGracePeriodSeconds: 5
%s
  containers:
  - name: demo
    image: slipway.dev/demo:v1
    ports: [{containerPort: 8080}]
%s
`, name, indent(2, spec), indent(4, container))
}

func indent(spaces int, lines string) string {
	prefix := strings.Repeat(" ", spaces)
	return prefix + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n"+prefix)
}

func errNotYet(pod *corev1.Pod) error { return fmt.Errorf("the Pod is %s", pod.Status.Phase) }
