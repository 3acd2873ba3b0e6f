package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/devcluster/demo"
	"slipway.dev/slipway/devcluster/must"
)

// roleVariable makes the test binary something else than a test: a container's process, or a whole node.
const roleVariable = "SLIPWAY_NODE_TEST_ROLE"

// quickExit takes the second away that the race detector waits for at the end of every process.
const quickExit = "GORACE=atexit_sleep_ms=0"

// patience is how long a test waits for something that happens at once on an idle machine.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(roleVariable) == "container":
		os.Exit(containerMain(os.Args[1:]))
	case os.Getenv(roleVariable) == "node":
		os.Exit(nodeMain())
	case len(os.Args) > 1 && os.Args[1] == "demo-echo":
		os.Exit(demo.Main(os.Args[2:]))
	}
	code := m.Run()
	stopSharedCluster()
	if left := strayGoroutines(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines of the node are left after all tests:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// strayGoroutines waits for the package's goroutines to end and returns the stacks of those that do not.
func strayGoroutines() string {
	deadline := time.Now().Add(10 * time.Second)
	for {
		buffer := make([]byte, 4<<20)
		buffer = buffer[:runtime.Stack(buffer, true)]
		var left []string
		for stack := range strings.SplitSeq(string(buffer), "\n\n") {
			if strings.Contains(stack, "devcluster/node.") && !strings.Contains(stack, "node.TestMain") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// containerMain is the built-in image of the unit tests. Like every built-in image it exits when stdin ends.
func containerMain(args []string) int {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(99)
	}()
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	switch args[0] {
	case "env":
		env := os.Environ()
		slices.Sort(env)
		fmt.Println(strings.Join(env, "\n"))
		fmt.Println("args=" + strings.Join(args[1:], "|"))
	case "exit":
		code, _ := strconv.Atoi(args[1])
		return code
	case "print":
		for _, line := range args[1:] {
			fmt.Println(line)
		}
	case "wait":
		fmt.Println("waiting")
		<-term
		fmt.Println("asked to end")
	case "deaf":
		fmt.Println("waiting")
		select {}
	case "serve":
		return serve(term)
	}
	return 0
}

// serve responds to /status with the status that POST /status?set=N set, and ends on SIGTERM or POST /exit?code=N.
func serve(term <-chan os.Signal) int {
	var status atomic.Int64
	status.Store(http.StatusOK)
	exit := make(chan int, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	mux.HandleFunc("POST /status", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.ParseInt(r.FormValue("set"), 10, 64)
		status.Store(n)
	})
	mux.HandleFunc("POST /exit", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		exit <- code
	})
	mux.HandleFunc("GET /said", func(_ http.ResponseWriter, r *http.Request) { fmt.Println("said", r.FormValue("what")) })
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return err
	}}
	for at := range strings.SplitSeq(os.Getenv(listenVariable), ",") {
		_, address, _ := strings.Cut(at, "=")
		listener, err := config.Listen(context.Background(), "tcp", address)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		go http.Serve(listener, mux)
	}
	fmt.Println("serving")
	select {
	case <-term:
		fmt.Println("asked to end")
		return 0
	case code := <-exit:
		return code
	}
}

// testImages resolves the images of the tests: "container" is containerMain, everything of demo is the real thing.
func testImages(ref string) (Image, error) {
	if ref == "container" || ref == "container:2" {
		return Image{Env: []string{roleVariable + "=container", "FROM_IMAGE=" + ref, quickExit}}, nil
	}
	image, err := demo.Lookup(ref)
	return Image{Args: image.Args, Env: append(image.Env, quickExit)}, err
}

// memoryConfig is a configSource with fixed contents.
type memoryConfig struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string][]byte
}

func (m memoryConfig) configMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	data, found := m.configMaps[name]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &corev1.ConfigMap{Data: data}, nil
}

func (m memoryConfig) secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	data, found := m.secrets[name]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{Data: data}, nil
}

// testHost is a node without an API server, in host mode on loopback.
func testHost(t *testing.T) *shared {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return &shared{
		cfg: Config{
			Name: "test", Address: netip.MustParseAddr("127.0.0.1"), Dir: t.TempDir(),
			Executable: self, Images: testImages, Log: slog.New(slog.DiscardHandler),
		},
		events:  &record.FakeRecorder{},
		changed: func(string) {},
	}
}

// testPod is a Pod with one container of the image "container".
func testPod(args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: types.UID("uid-pod")},
		Spec: corev1.PodSpec{
			NodeName:      "test",
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "main", Image: "container", Args: args}},
		},
	}
}

// supervised is one container under supervision, without a worker around it.
type supervised struct {
	*container
	t *testing.T
	w *worker
}

// superviseFirst launches the first container of a Pod. It is killed when the test ends.
func superviseFirst(t *testing.T, pod *corev1.Pod) *supervised {
	t.Helper()
	w := newWorker(testHost(t), pod, filepath.Join(t.TempDir(), "logs"))
	c := w.regular[0]
	c.config = memoryConfig{}
	c.launch(w.ports.portMap)
	t.Cleanup(func() {
		c.stop(time.Now())
		<-c.done
		w.detach()
	})
	return &supervised{container: c, t: t, w: w}
}

// until waits for a status.
func (s *supervised) until(what string, is func(corev1.ContainerStatus) bool) corev1.ContainerStatus {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		if status := s.snapshot(); is(status) {
			return status
		}
		select {
		case <-s.w.wake:
		case <-timeout:
			s.t.Fatalf("still waiting for %s; status is %+v", what, s.snapshot())
		}
	}
}

// untilLogged waits for a line in the log of a run.
func (s *supervised) untilLogged(run int32, line string) {
	s.t.Helper()
	s.until("the log of run "+itoa(int(run)), func(corev1.ContainerStatus) bool {
		_, err := s.logs.find(run)
		return err == nil
	})
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if got, err := followUntil(ctx, s.logs, run, line); err != nil {
		s.t.Fatalf("waiting for %q in the log: %v; it is %q, and the status %+v", line, err, got, s.snapshot())
	}
}

// followUntil reads a log until it has a line; it returns what it read.
func followUntil(ctx context.Context, logs *logStore, run int32, line string) (read []string, err error) {
	file, err := logs.find(run)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	go func() {
		err := file.copyTo(ctx, writer, func() error { return nil }, logQuery{follow: true, tail: -1, limit: -1})
		writer.CloseWithError(errors.Join(err, io.EOF))
	}()
	defer reader.Close()
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		if read = append(read, lines.Text()); lines.Text() == line {
			return read, nil
		}
	}
	return read, fmt.Errorf("the log ended: %v", ctx.Err())
}

// url is where a container port of the supervised container is reached.
func (s *supervised) url(port int32, path string) string {
	for _, p := range s.ports.list {
		if p.container == s.status.Name && p.port == port {
			return "http://" + netip.AddrPortFrom(s.ports.addr, p.real).String() + path
		}
	}
	s.t.Fatalf("no port %d", port)
	return ""
}

func (s *supervised) post(path string) {
	s.t.Helper()
	response := must.Get(http.Post(s.url(defaultPort, path), "", nil))(s.t)
	response.Body.Close()
}

// pidAlive reports whether a process exists and is not a zombie of its parent.
func pidAlive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// ownProcesses lists the processes of containers: every child of this process but the control plane.
func ownProcesses(t *testing.T) []int {
	t.Helper()
	return slices.DeleteFunc(childrenOf(t, os.Getpid()), func(pid int) bool {
		c := sharedCluster.cluster
		return c != nil && pid == c.process.Process.Pid
	})
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	var out []int
	tasks := must.Get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)))(t)
	for _, task := range tasks {
		data, _ := os.ReadFile(task)
		for field := range strings.FieldsSeq(string(data)) {
			if n, err := strconv.Atoi(field); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(t *testing.T, s string) int {
	t.Helper()
	return must.Get(strconv.Atoi(s))(t)
}
