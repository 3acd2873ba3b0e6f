package node

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"

	"slipway.dev/slipway/devcluster/must"
)

// testCluster is a real control plane in a process of its own, without a node. One serves all tests of the package; it
// ends with its stdin, so it cannot be left behind.
type testCluster struct {
	dir     string
	process *exec.Cmd
	stdin   io.Closer
	config  *rest.Config
	client  kubernetes.Interface
}

var sharedCluster struct {
	once    sync.Once
	cluster *testCluster
	err     error
}

// useCluster returns the control plane, starting it for the first test that needs it.
func useCluster(t *testing.T) *testCluster {
	t.Helper()
	sharedCluster.once.Do(func() { sharedCluster.cluster, sharedCluster.err = startCluster() })
	if sharedCluster.err != nil {
		t.Fatal(sharedCluster.err)
	}
	return sharedCluster.cluster
}

func startCluster() (*testCluster, error) {
	binary := cmp.Or(os.Getenv("SLIPWAY_DEVCLUSTER"), "../../bin/slipway-devcluster")
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("the control plane is not built; run make build, or set SLIPWAY_DEVCLUSTER to its path: %w", err)
	}
	dir, err := os.MkdirTemp("", "slipway-node-test")
	if err != nil {
		return nil, err
	}
	c := &testCluster{dir: dir, process: exec.Command(binary, "--dir", dir, "--node=false", "--stop-with-stdin", "--fsync=false")}
	c.process.Stderr = os.Stderr
	if c.stdin, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	// It prints the path of its kubeconfig when it is ready, and gives up by itself when it cannot become so.
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the control plane did not become ready; see %s: %w", filepath.Join(dir, "devcluster.log"), err)
	}
	return c, c.connect()
}

// connect makes the clients of a cluster that runs.
func (c *testCluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	c.config = config
	c.client, err = kubernetes.NewForConfig(config)
	return err
}

func stopSharedCluster() {
	c := sharedCluster.cluster
	if c == nil {
		return
	}
	c.stdin.Close()
	kill := time.AfterFunc(patience, func() { c.process.Process.Kill() })
	defer kill.Stop()
	c.process.Wait()
	os.RemoveAll(c.dir)
}

// machineAddress is an address of this machine that is not loopback.
func machineAddress() (netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() && !prefix.Addr().IsLoopback() {
			return prefix.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("this machine has no address besides loopback; give it one")
}

// nodeConfig is the Config of a node of this cluster, with its logs in dir.
func (c *testCluster) nodeConfig(dir string) (Config, error) {
	address, err := machineAddress()
	if err != nil {
		return Config{}, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.dir, "pki", "ca.crt"), filepath.Join(c.dir, "pki", "ca.key"))
	if err != nil {
		return Config{}, err
	}
	signer, err := keyutil.PrivateKeyFromFile(filepath.Join(c.dir, "pki", "ca.key"))
	if err != nil {
		return Config{}, err
	}
	ca := &authority{cert: pair.Leaf, key: signer}
	serving, err := ca.issue("slipway", x509.ExtKeyUsageServerAuth, address.AsSlice())
	if err != nil {
		return Config{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return Config{}, err
	}
	return Config{
		Name: "slipway", Address: address, Client: c.config, Dir: dir, Executable: self, Images: testImages,
		ServingCert: serving, ClientCA: ca.pool(), ClientName: "kube-apiserver-kubelet-client",
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}, nil
}

// startNode runs a node in this process until the returned function is called, at the latest when the test ends.
func (c *testCluster) startNode(t *testing.T, dir string, edit ...func(*Config)) (stop func()) {
	t.Helper()
	cfg := must.Get(c.nodeConfig(dir))(t)
	for _, e := range edit {
		e(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- Run(ctx, cfg, func() { close(ready) }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the node ended with %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("the node ended before it was ready: %v", err)
	case <-time.After(patience):
		t.Fatal("the node did not become ready")
	}
	return stop
}

// nodeMain is a node in a process of its own, for tests that kill it.
func nodeMain() int {
	c := &testCluster{dir: os.Getenv("SLIPWAY_NODE_TEST_CLUSTER")}
	if err := c.connect(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cfg, err := c.nodeConfig(os.Getenv("SLIPWAY_NODE_TEST_DIR"))
	if err == nil {
		ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer cancel()
		err = Run(ctx, cfg, func() { fmt.Println("ready") })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// scene is a namespace of one test and what it does there.
type scene struct {
	*testCluster
	t  *testing.T
	ns string
}

// scene makes the namespace. When the test ends its Pods are removed by force, while the node still runs.
func (c *testCluster) scene(t *testing.T) *scene {
	t.Helper()
	s := &scene{testCluster: c, t: t}
	ns := must.Get(c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{}))(t)
	s.ns = ns.Name
	s.eventually("the service account", func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(s.ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	t.Cleanup(s.clear)
	return s
}

func (s *scene) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now, background := int64(0), metav1.DeletePropagationBackground
	all := metav1.ListOptions{}
	s.client.AppsV1().Deployments(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, all)
	s.client.BatchV1().Jobs(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, all)
	s.client.CoreV1().Namespaces().Delete(ctx, s.ns, metav1.DeleteOptions{})
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		s.client.CoreV1().Pods(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, all)
		pods, err := s.client.CoreV1().Pods(s.ns).List(ctx, all)
		return err == nil && len(pods.Items) == 0, nil
	})
	if err != nil {
		s.t.Errorf("the Pods of the test did not go: %v", err)
	}
}

// eventually waits until try succeeds.
func (s *scene) eventually(what string, try func(context.Context) error) {
	s.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.t.Fatalf("still waiting for %s: %v", what, last)
	}
}

// create makes a Pod with one container.
func (s *scene) create(name, image string, edit func(*corev1.Pod), args ...string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image, Args: args}}},
	}
	if edit != nil {
		edit(pod)
	}
	return must.Get(s.client.CoreV1().Pods(s.ns).Create(s.t.Context(), pod, metav1.CreateOptions{}))(s.t)
}

// pod waits until a Pod is as it should be.
func (s *scene) pod(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	s.eventually(what+" of Pod "+name, func(ctx context.Context) (err error) {
		if pod, err = s.client.CoreV1().Pods(s.ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !is(pod) {
			return fmt.Errorf("status is %s", pod.Status.String())
		}
		return nil
	})
	return pod
}

// gone waits until a Pod does not exist.
func (s *scene) gone(name string) {
	s.t.Helper()
	s.eventually("Pod "+name+" to go", func(ctx context.Context) error {
		_, err := s.client.CoreV1().Pods(s.ns).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it exists: %v", err)
	})
}

// log reads a log through the API server.
func (s *scene) log(pod string, o corev1.PodLogOptions) string {
	s.t.Helper()
	data, err := s.client.CoreV1().Pods(s.ns).GetLogs(pod, &o).DoRaw(s.t.Context())
	if err != nil {
		s.t.Fatalf("log of %s: %v", pod, err)
	}
	return string(data)
}

func podIsReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// service makes a Service for the Pods with a label app, leading to 8080.
func (s *scene) service(app string) {
	s.t.Helper()
	must.Get(s.client.CoreV1().Services(s.ns).Create(s.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intOrString("8080")}}},
	}, metav1.CreateOptions{}))(s.t)
}

// endpoint is one address of a Service.
type endpoint struct {
	at                 string
	pod                string
	ready, terminating bool
}

// endpoints lists the endpoints that the node wrote. The control plane of the
// tests runs the EndpointSlice controller too, which has no real ports.
func (s *scene) endpoints(ctx context.Context, app string) ([]endpoint, error) {
	list, err := s.client.DiscoveryV1().EndpointSlices(s.ns).List(ctx, metav1.ListOptions{
		LabelSelector: "kubernetes.io/service-name=" + app + ",endpointslice.kubernetes.io/managed-by=" + componentName})
	if err != nil {
		return nil, err
	}
	var out []endpoint
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			out = append(out, endpoint{
				at:  net.JoinHostPort(e.Addresses[0], itoa(int(*slice.Ports[0].Port))),
				pod: e.TargetRef.Name, ready: *e.Conditions.Ready, terminating: *e.Conditions.Terminating,
			})
		}
	}
	return out, nil
}

// readyEndpoints waits until a Service has exactly n endpoints, all of them ready.
func (s *scene) readyEndpoints(app string, n int) []endpoint {
	s.t.Helper()
	var list []endpoint
	s.eventually(fmt.Sprintf("%d ready endpoints of %s", n, app), func(ctx context.Context) (err error) {
		if list, err = s.endpoints(ctx, app); err != nil {
			return err
		}
		for _, e := range list {
			if !e.ready {
				return fmt.Errorf("%+v", list)
			}
		}
		if len(list) != n {
			return fmt.Errorf("%+v", list)
		}
		return nil
	})
	return list
}

// ask sends a request to an endpoint and returns the response's status, headers
// and body.
func (s *scene) ask(method, url string) (*http.Response, string, error) {
	request, err := http.NewRequestWithContext(s.t.Context(), method, url, nil)
	if err != nil {
		return nil, "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, strings.TrimSpace(string(body)), err
}
