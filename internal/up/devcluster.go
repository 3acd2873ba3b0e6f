package up

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
)

const (
	devclusterName = "devcluster"
	// apiServerPort is the port that Kubernetes users expect.
	apiServerPort = 6443
	// ownTimeoutSlack makes the cluster's own timeout later than ours, whose
	// message has more details.
	ownTimeoutSlack = 30 * time.Second
)

// startDevcluster starts the development cluster in a directory of its own.
func startDevcluster(_ context.Context, s *scene) (*child, error) {
	dir := s.state.path(devclusterName)
	// The cluster stops when its standard input is closed, also by our death,
	// so it need not be tied.
	c, err := startChild(program{
		path: s.binary,
		args: []string{
			"--dir", dir,
			"--port", strconv.Itoa(apiServerPort + s.options.PortOffset),
			"--start-timeout", (s.options.Timeout + ownTimeoutSlack).String(),
			"--stop-with-stdin",
		},
		log:  filepath.Join(dir, "devcluster.log"),
		hold: s.state.lock,
	})
	s.devcluster = c
	return c, err
}

// devclusterReady waits for the API server and for a node that runs Pods.
func devclusterReady(ctx context.Context, s *scene, report func(string)) (string, error) {
	report("waiting for the API server")
	// The first line of output is the path of the kubeconfig. It comes when the
	// API server is ready.
	select {
	case s.kubeconfig = <-s.devcluster.output.line:
	case <-s.devcluster.exited:
		return "", death(devclusterName, s.devcluster)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	// Later parts use the connection. scene.close closes it.
	cluster, err := kube.Connect(s.kubeconfig, kube.Version(s.options.Version))
	if err != nil {
		return "", err
	}
	s.cluster = cluster
	version, err := cluster.Client.Discovery().ServerVersionWithContext(ctx)
	if err != nil {
		return "", fmt.Errorf("get the version of the API server: %w", err)
	}
	s.version = version.GitVersion
	// The Pods of the demo need a node.
	report("waiting for the node")
	if _, err := kube.WaitFor(ctx, cluster.Client.CoreV1().Nodes(), metav1.ListOptions{}, oneNodeReady); err != nil {
		return "", err
	}
	return "ready", nil
}

// oneNodeReady returns an error until a node is ready.
func oneNodeReady(nodes []*corev1.Node) error {
	for _, node := range nodes {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
	}
	return errors.New("no node is ready")
}

// showDevcluster returns the cluster's row and hints.
func showDevcluster(s *scene) (Row, []Hint) {
	row := Row{
		Part:    devclusterName,
		Address: s.cluster.Config.Host,
		Detail:  fmt.Sprintf("Kubernetes %s, pid %d", s.version, s.devcluster.pid()),
		PID:     s.devcluster.pid(),
		Log:     s.devcluster.log,
	}
	return row, []Hint{
		{"look around", s.kubectl("get pods,services,ingresses --all-namespaces")},
		{"without kubectl", shellQuote(s.binary) + " " + s.kubectl("get nodes")},
	}
}

// kubectl returns a kubectl command that works in any directory and does not
// use the user's own kubeconfig.
func (s *scene) kubectl(arguments string) string {
	return "kubectl --kubeconfig " + shellQuote(s.kubeconfig) + " " + arguments
}
